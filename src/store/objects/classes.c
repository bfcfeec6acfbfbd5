/* classes.c - rows by class: a counting sort. */
#include "store/objects/classes.h"

#include "base/cleanup.h"
#include "store/objects/packed_column.h"

#include <stdlib.h>

/* Rows of one class wait for each other's count: quarters of the rows are counted side by side. */
enum { PARTS = 4 };

HX_HOT static size_t most_classes(const uint16_t *class, size_t n)
{
    uint16_t most = 0;
    for (size_t i = 0; i < n; i++)
        most = class[i] > most ? class[i] : most;
    return n ? most + (size_t)1 : 0;
}

static void count_classes(const uint16_t *class, size_t quarter, size_t n, uint32_t (*next)[PARTS])
{
    for (size_t i = 0; i < quarter; i++)
        for (size_t part = 0; part < PARTS; part++)
            next[class[part * quarter + i]][part]++;
    for (size_t i = PARTS * quarter; i < n; i++)
        next[class[i]][PARTS - 1]++;
}

hx_error *hx_classes_place(const uint16_t *class, size_t n, uint16_t *place)
{
    const size_t classes = most_classes(class, n);
    HX_FREE uint32_t(*next)[PARTS] = calloc(classes + 1, sizeof *next);
    const size_t quarter = n / PARTS;
    uint32_t at = 0;
    HX_NEED(next);
    count_classes(class, quarter, n, next);
    for (size_t k = 0; k < classes; k++) {
        for (size_t part = 0; part < PARTS; part++) {
            uint32_t rows = next[k][part];
            next[k][part] = at;
            at += rows;
        }
    }
    for (size_t i = 0; i < quarter; i++)
        for (size_t part = 0; part < PARTS; part++)
            place[part * quarter + i] = (uint16_t)next[class[part * quarter + i]][part]++;
    for (size_t i = PARTS * quarter; i < n; i++)
        place[i] = (uint16_t)next[class[i]][PARTS - 1]++;
    return NULL;
}
