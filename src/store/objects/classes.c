/* classes.c - rows by class: a counting sort. */
#include "store/objects/classes.h"

#include "base/cleanup.h"

#include <stdlib.h>

hx_error *hx_classes_place(const uint16_t *class, size_t n, uint16_t *place)
{
    HX_FREE uint32_t *next = calloc(HX_EDGE_CLASSES, sizeof *next);
    uint32_t at = 0;
    HX_NEED(next);
    for (size_t i = 0; i < n; i++)
        next[class[i]]++;
    for (size_t k = 0; k < HX_EDGE_CLASSES; k++) {
        uint32_t rows = next[k];
        next[k] = at;
        at += rows;
    }
    for (size_t i = 0; i < n; i++)
        place[i] = (uint16_t)next[class[i]]++;
    return NULL;
}
