/* passed.h - which rows of a snapshot conditions let through, a bit for each, while they are asked
 * for again: another order of a filtered list, its end and its count need not test all rows anew.
 *
 * Conditions that all values meet are none of these. */
#ifndef HX_STORE_OBJECTS_PASSED_H
#define HX_STORE_OBJECTS_PASSED_H

#include "store/objects/top.h"

enum {
    HX_PASSED = 16,             /* sets that are kept */
    HX_PASSED_MAX = 16,         /* conditions of one */
    HX_PASSED_BYTES = 16 << 20, /* of all sets; larger ones are not kept */
    HX_PASSED_VALUES = 1 << 21  /* of the one set that has some: 16 MB */
};

static inline bool hx_condition_is_any(const struct hx_condition *condition)
{
    return condition->low == 0 && condition->high == UINT64_MAX;
}

struct hx_passed {
    int64_t snapshot;
    uint64_t rows, used;
    struct hx_condition condition[HX_PASSED_MAX];
    size_t conditions;
    uint64_t *bit;           /* owned; NULL: nothing here */
    enum hx_derived derived; /* the column of `value` */
    int column;
    uint64_t *value; /* of the rows that pass, in their order; owned; NULL: not kept */
};

struct hx_passed_sets {
    struct hx_passed set[HX_PASSED];
    uint64_t clock;
};

void hx_passed_free(struct hx_passed *passed);
void hx_passed_sets_free(struct hx_passed_sets *sets);

/* The set of a window's conditions; NULL: it is not kept. Valid until the next hx_passed_keep(). */
const struct hx_passed *hx_passed_find(struct hx_passed_sets *sets,
                                       const struct hx_block_index *index,
                                       const struct hx_top *top);

/* Would a set of a window's conditions be kept? */
bool hx_passed_can(const struct hx_block_index *index, const struct hx_top *top);

/* Begins a set for who tests all rows; ret->bit is NULL where it makes no sense or there is no
 * memory. Then hx_passed_take() of all blocks, in any order: the `n` rows from `from` on, a
 * multiple of 64, have 0 or 1 in `pass`. Then hx_passed_keep(), which leaves *passed empty. */
void hx_passed_begin(const struct hx_block_index *index, const struct hx_top *top,
                     struct hx_passed *ret);
void hx_passed_take(struct hx_passed *passed, uint64_t from, const uint8_t *pass, size_t n);
void hx_passed_keep(struct hx_passed_sets *sets, struct hx_passed *passed);

/* Keeps values of the rows of a set that hx_passed_find() gave: another order by that column, or
 * its other end, need not read them anew. Owns them. */
void hx_passed_keep_values(struct hx_passed_sets *sets, const struct hx_passed *passed,
                           enum hx_derived derived, int column, uint64_t *value);

/* The numbers of those that pass, counted from `row` on, in [from, end); returns how many. */
size_t hx_passed_list(const struct hx_passed *passed, uint64_t row, size_t from, size_t end,
                      uint16_t *ret);
static inline bool hx_passed_has(const struct hx_passed *passed, uint64_t row)
{
    return passed->bit[row / 64] >> row % 64 & 1;
}
uint64_t hx_passed_count(const struct hx_passed *passed, uint64_t from, uint64_t end);

#endif
