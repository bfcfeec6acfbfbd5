/* passed.c - sets of rows as bits; who was not asked for longest makes room. */
#include "store/objects/passed.h"

#include "base/cleanup.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

void hx_passed_free(struct hx_passed *passed)
{
    free(passed->bit);
    free(passed->value);
    *passed = (struct hx_passed){0};
}

void hx_passed_sets_free(struct hx_passed_sets *sets)
{
    for (size_t i = 0; i < HX_PASSED; i++)
        hx_passed_free(&sets->set[i]);
}

/* Leaves out what all rows meet; false: too many. */
static bool take_conditions(const struct hx_top *top, struct hx_passed *ret)
{
    for (size_t c = 0; c < top->conditions; c++) {
        if (hx_condition_is_any(&top->condition[c]))
            continue;
        if (ret->conditions == HX_PASSED_MAX)
            return false;
        ret->condition[ret->conditions++] = top->condition[c];
    }
    return ret->conditions > 0;
}

static bool is_same_set(const struct hx_passed *a, const struct hx_passed *b)
{
    bool same = a->snapshot == b->snapshot && a->rows == b->rows && a->conditions == b->conditions;
    for (size_t c = 0; same && c < a->conditions; c++)
        same = a->condition[c].derived == b->condition[c].derived &&
               a->condition[c].column == b->condition[c].column &&
               a->condition[c].low == b->condition[c].low &&
               a->condition[c].high == b->condition[c].high;
    return same;
}

const struct hx_passed *hx_passed_find(struct hx_passed_sets *sets,
                                       const struct hx_block_index *index, const struct hx_top *top)
{
    struct hx_passed wanted = {.snapshot = index->snapshot, .rows = index->rows};
    if (!take_conditions(top, &wanted))
        return NULL;
    for (size_t i = 0; i < HX_PASSED; i++) {
        struct hx_passed *set = &sets->set[i];
        if (!set->bit || !is_same_set(set, &wanted))
            continue;
        set->used = ++sets->clock;
        return set;
    }
    return NULL;
}

static size_t bytes_of(const struct hx_passed *passed)
{
    return passed->bit ? (size_t)(passed->rows / 64 + 1) * sizeof *passed->bit : 0;
}

bool hx_passed_can(const struct hx_block_index *index, const struct hx_top *top)
{
    struct hx_passed wanted = {.snapshot = 0};
    return !top->from && top->end == index->rows && index->rows / 8 <= HX_PASSED_BYTES / 2 &&
           take_conditions(top, &wanted);
}

void hx_passed_begin(const struct hx_block_index *index, const struct hx_top *top,
                     struct hx_passed *ret)
{
    *ret = (struct hx_passed){.snapshot = index->snapshot, .rows = index->rows};
    if (hx_passed_can(index, top) && take_conditions(top, ret))
        ret->bit = calloc((size_t)(index->rows / 64 + 1), sizeof *ret->bit);
}

/* Eight bytes that are 0 or 1 as bits, the first one lowest. */
static uint64_t bits_of(const uint8_t *pass)
{
    uint64_t bytes;
    memcpy(&bytes, pass, sizeof bytes);
    return le64toh(bytes) * 0x0102040810204080u >> 56; /* byte i goes to bit 56 + i */
}

HX_HOT void hx_passed_take(struct hx_passed *passed, uint64_t from, const uint8_t *pass, size_t n)
{
    uint64_t *bit = passed->bit + from / 64;
    size_t i = 0;
    for (; i + 64 <= n; i += 64)
        for (size_t k = 0; k < 64; k += 8)
            bit[i / 64] |= bits_of(pass + i + k) << k;
    for (; i < n; i++)
        bit[i / 64] |= (uint64_t)pass[i] << i % 64;
}

/* A place for a set of so many bytes. */
static struct hx_passed *make_room(struct hx_passed_sets *sets, size_t bytes)
{
    for (;;) {
        struct hx_passed *empty = NULL, *oldest = NULL;
        size_t all = bytes;
        for (size_t i = 0; i < HX_PASSED; i++) {
            struct hx_passed *set = &sets->set[i];
            all += bytes_of(set);
            if (!set->bit)
                empty = set;
            else if (!oldest || set->used < oldest->used)
                oldest = set;
        }
        if (!oldest || (empty && all <= HX_PASSED_BYTES))
            return empty;
        hx_passed_free(oldest);
    }
}

void hx_passed_keep(struct hx_passed_sets *sets, struct hx_passed *passed)
{
    struct hx_passed *place = make_room(sets, bytes_of(passed));
    *place = *passed;
    place->used = ++sets->clock;
    *passed = (struct hx_passed){0};
}

void hx_passed_keep_values(struct hx_passed_sets *sets, const struct hx_passed *passed,
                           enum hx_derived derived, int column, uint64_t *value)
{
    for (size_t i = 0; i < HX_PASSED; i++) {
        struct hx_passed *set = &sets->set[i];
        free(hx_steal(set->value));
        if (set != passed)
            continue;
        set->derived = derived;
        set->column = column;
        set->value = value;
    }
}

HX_HOT size_t hx_passed_list(const struct hx_passed *passed, uint64_t row, size_t from, size_t end,
                             uint16_t *ret)
{
    size_t n = 0;
    for (size_t i = from & ~(size_t)63; i < end; i += 64) {
        uint64_t word = passed->bit[(row + i) / 64];
        if (i < from)
            word &= UINT64_MAX << (from - i);
        if (end - i < 64)
            word &= ((uint64_t)1 << (end - i)) - 1;
        for (; word; word &= word - 1)
            ret[n++] = (uint16_t)(i + (size_t)__builtin_ctzll(word));
    }
    return n;
}

uint64_t hx_passed_count(const struct hx_passed *passed, uint64_t from, uint64_t end)
{
    uint64_t count = 0;
    for (uint64_t row = from; row < end;) {
        if (row % 64 == 0 && end - row >= 64) {
            count += (uint64_t)__builtin_popcountll(passed->bit[row / 64]);
            row += 64;
        } else {
            count += hx_passed_has(passed, row++);
        }
    }
    return count;
}
