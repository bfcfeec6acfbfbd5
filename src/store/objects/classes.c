/* classes.c - rows by class: a counting sort. */
#include "store/objects/classes.h"

#include "base/cleanup.h"
#include "store/objects/packed_column.h"

#include <stdlib.h>
#include <string.h>

/* Rows of one class wait for each other's count: parts of the rows are counted side by side,
 * written out as compilers leave it a loop. Parts that begin at like places of pages would wait,
 * too. */
enum { PARTS = 8, APART = 192 };
#define EACH_PART(of) of(0) of(1) of(2) of(3) of(4) of(5) of(6) of(7)

HX_HOT static size_t most_classes(const uint16_t *class, size_t n)
{
    uint16_t most = 0;
    for (size_t i = 0; i < n; i++)
        most = class[i] > most ? class[i] : most;
    return n ? most + (size_t)1 : 0;
}

HX_HOT static void count_classes(const uint16_t *class, size_t length, size_t n,
                                 uint16_t (*next)[PARTS])
{
#define COUNT(part) next[class[part * length + i]][part]++;
    for (size_t i = 0; i < length; i++) {
        EACH_PART(COUNT)
    }
    for (size_t i = PARTS * length; i < n; i++)
        next[class[i]][PARTS - 1]++;
}

HX_HOT static void place_rows(const uint16_t *class, size_t length, size_t n,
                              uint16_t (*next)[PARTS], uint16_t *place)
{
#define PLACE(part) place[part * length + i] = next[class[part * length + i]][part]++;
    for (size_t i = 0; i < length; i++) {
        EACH_PART(PLACE)
    }
    for (size_t i = PARTS * length; i < n; i++)
        place[i] = next[class[i]][PARTS - 1]++;
}

/* Turns counts of a class into places, the first of which is `at`; most classes have no rows. */
static uint16_t add_up(uint16_t next[PARTS], uint16_t at)
{
    uint64_t any[2];
    memcpy(any, next, sizeof any);
    for (size_t part = 0; (any[0] | any[1]) && part < PARTS; part++) {
        uint16_t rows = next[part];
        next[part] = at;
        at = (uint16_t)(at + rows);
    }
    return at;
}

hx_error *hx_classes_place(const uint16_t *class, size_t n, uint16_t *place)
{
    const size_t classes = most_classes(class, n);
    const size_t length = n / PARTS > APART ? n / PARTS - APART : 0;
    HX_FREE uint16_t(*next)[PARTS] = calloc(classes + 1, sizeof *next);
    uint16_t at = 0; /* behind the last one it is 0 again */
    HX_NEED(next);
    count_classes(class, length, n, next);
    for (size_t k = 0; k < classes; k++)
        at = add_up(next[k], at);
    place_rows(class, length, n, next, place);
    return NULL;
}
