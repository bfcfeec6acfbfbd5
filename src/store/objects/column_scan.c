/* column_scan.c - loops over one decoded column, in its own elements. */
#include "store/objects/column_scan.h"

#include <string.h>

/* Turns the interval of values into one of what the column holds; false: it holds none of them. */
static bool clip_interval(const struct hx_decoded *column, uint64_t *low, uint64_t *high)
{
    uint64_t base = column->base, most = hx_decoded_most(column) - base;
    if (*low > *high || *high < base || (*low > base && *low - base > most))
        return false;
    *low = *low > base ? *low - base : 0;
    *high = *high - base < most ? *high - base : most;
    return true;
}

#define TEST(type)                                                                                 \
    {                                                                                              \
        const type *v = column->v, least = (type)low;                                              \
        const type range = (type)(high - low);                                                     \
        for (size_t i = from; i < end; i++)                                                        \
            pass[i] &= (type)(v[i] - least) <= range;                                              \
    }

HX_HOT void hx_scan_strike(const struct hx_decoded *column, uint64_t low, uint64_t high,
                           size_t from, size_t end, uint8_t *restrict pass)
{
    if (!clip_interval(column, &low, &high)) {
        memset(pass + from, 0, end - from);
        return;
    }
    switch (column->shift) {
    case 0:
        TEST(uint8_t)
        break;
    case 1:
        TEST(uint16_t)
        break;
    case 2:
        TEST(uint32_t)
        break;
    default:
        TEST(uint64_t)
        break;
    }
}

/* Whole strides are compared without a branch, which vector registers do at once. */
#define NEXT_WITHIN(type)                                                                          \
    {                                                                                              \
        enum { STRIDE = 128 };                                                                     \
        const type *v = column->v, least = (type)low;                                              \
        const type range = (type)(high - low);                                                     \
        if (i < end && (type)(v[i] - least) <= range)                                              \
            return i;                                                                              \
        for (; i + STRIDE <= end; i += STRIDE) {                                                   \
            type any = 0;                                                                          \
            for (size_t k = 0; k < STRIDE; k++)                                                    \
                any |= (type)(v[i + k] - least) <= range;                                          \
            if (any)                                                                               \
                break;                                                                             \
        }                                                                                          \
        while (i < end && (type)(v[i] - least) > range)                                            \
            i++;                                                                                   \
        return i;                                                                                  \
    }

HX_HOT size_t hx_scan_next(const struct hx_decoded *column, uint64_t low, uint64_t high, size_t i,
                           size_t end)
{
    if (!clip_interval(column, &low, &high))
        return end;
    switch (column->shift) {
    case 0:
        NEXT_WITHIN(uint8_t)
    case 1:
        NEXT_WITHIN(uint16_t)
    case 2:
        NEXT_WITHIN(uint32_t)
    default:
        NEXT_WITHIN(uint64_t)
    }
}

#define COUNT_WITHIN(type)                                                                         \
    {                                                                                              \
        const type *v = column->v, least = (type)low;                                              \
        const type range = (type)(high - low);                                                     \
        for (size_t i = from; i < end; i++)                                                        \
            n += (type)(v[i] - least) <= range;                                                    \
    }

HX_HOT uint64_t hx_scan_count(const struct hx_decoded *column, uint64_t low, uint64_t high,
                              size_t from, size_t end)
{
    uint32_t n = 0;
    if (!clip_interval(column, &low, &high))
        return 0;
    switch (column->shift) {
    case 0:
        COUNT_WITHIN(uint8_t)
        break;
    case 1:
        COUNT_WITHIN(uint16_t)
        break;
    case 2:
        COUNT_WITHIN(uint32_t)
        break;
    default:
        COUNT_WITHIN(uint64_t)
        break;
    }
    return n;
}
