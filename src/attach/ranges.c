/* ranges.c - sets of address ranges. */
#include "attach/ranges.h"

#include <stdlib.h>

bool hx_ranges_add(hx_ranges *ranges, uint64_t start, uint64_t end)
{
    return start >= end || hx_vec_push(ranges, (struct hx_range){start, end});
}

static int compare_ranges(const void *a, const void *b)
{
    const struct hx_range *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

void hx_ranges_join(hx_ranges *ranges)
{
    if (!ranges->n)
        return;
    qsort(ranges->v, ranges->n, sizeof *ranges->v, compare_ranges);
    size_t kept = 0;
    for (size_t i = 1; i < ranges->n; i++) {
        struct hx_range *last = &ranges->v[kept];
        if (ranges->v[i].start > last->end)
            ranges->v[++kept] = ranges->v[i];
        else if (ranges->v[i].end > last->end)
            last->end = ranges->v[i].end;
    }
    ranges->n = kept + 1;
}

bool hx_ranges_outside(const hx_ranges *ranges, size_t *cursor, uint64_t *at, uint64_t end,
                       struct hx_range *ret)
{
    for (; *at < end; *at = ranges->v[*cursor].end) {
        while (*cursor < ranges->n && ranges->v[*cursor].end <= *at)
            ++*cursor;
        uint64_t stop = end;
        if (*cursor < ranges->n && ranges->v[*cursor].start < end)
            stop = ranges->v[*cursor].start;
        if (stop > *at) {
            *ret = (struct hx_range){*at, stop};
            *at = stop;
            return true;
        }
    }
    return false;
}
