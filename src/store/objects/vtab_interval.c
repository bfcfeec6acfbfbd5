/* vtab_interval.c - comparisons of columns with values, as intervals of decoded values. */
#include "store/objects/vtab_private.h"

bool hx_bound_of(sqlite3_value *value, int64_t *ret, bool *ret_exact)
{
    int type = sqlite3_value_numeric_type(value);
    *ret_exact = true;
    if (type == SQLITE_INTEGER) {
        *ret = sqlite3_value_int64(value);
        return true;
    }
    if (type != SQLITE_FLOAT)
        return false;
    double real = sqlite3_value_double(value);
    if (!(real > -9.2e18 && real < 9.2e18))
        return false;
    *ret = (int64_t)real;
    *ret_exact = (double)*ret == real;
    if ((double)*ret > real)
        --*ret;
    return true;
}

static const struct hx_interval nothing = {1, 0, false};

/* What `number op value` lets through, numbers being 0 and above. */
struct hx_interval hx_interval_of(enum hx_compare compare, sqlite3_value *value)
{
    bool exact, equal = compare == HX_COMPARE_EQ || compare == HX_COMPARE_IS;
    bool upper = compare == HX_COMPARE_LT || compare == HX_COMPARE_LE;
    struct hx_interval all = {0, UINT64_MAX, false};
    int64_t bound;
    if (compare == HX_COMPARE_NOT_NULL)
        return all;
    if (sqlite3_value_type(value) == SQLITE_NULL)
        return (struct hx_interval){1, 0, compare == HX_COMPARE_IS};
    if (!hx_bound_of(value, &bound, &exact)) {
        /* text and blobs are above all numbers; a number beyond 64 bits is on its side */
        bool above =
            sqlite3_value_numeric_type(value) != SQLITE_FLOAT || sqlite3_value_double(value) > 0;
        return above == upper && !equal ? all : nothing;
    }
    if (equal)
        return exact && bound >= 0 ? (struct hx_interval){(uint64_t)bound, (uint64_t)bound, false}
                                   : nothing;
    if (upper) { /* bound is what lies below an inexact value */
        bool with = compare == HX_COMPARE_LE || !exact;
        if (bound < 0 || (bound == 0 && !with))
            return nothing;
        return (struct hx_interval){0, (uint64_t)bound - !with, false};
    }
    bool with = compare == HX_COMPARE_GE && exact;
    if (bound < 0)
        return all;
    return (struct hx_interval){(uint64_t)bound + !with, UINT64_MAX, false};
}

void hx_interval_decode(enum hx_serve serve, struct hx_interval interval, uint64_t *ret_low,
                        uint64_t *ret_high)
{
    bool has_null = hx_serve_has_null(serve), plus = serve == HX_SERVE_UNPLUS;
    *ret_low = interval.low;
    *ret_high = interval.high;
    if (has_null && interval.nulls) {
        *ret_low = *ret_high = 0;
    } else if (interval.low <= interval.high) {
        *ret_low += plus && interval.low < UINT64_MAX;
        *ret_high += plus && interval.high < UINT64_MAX;
        if (has_null && !*ret_low)
            *ret_low = 1;
    }
}
