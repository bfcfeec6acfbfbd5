/* word_table.h - the words of some members of a group, and what each of them is. */
#ifndef HX_TRAVERSE_HOLD_WORD_TABLE_H
#define HX_TRAVERSE_HOLD_WORD_TABLE_H

#include "traverse/hold/block_groups.h"

enum hx_word_kind {
    HX_WORD_ZERO,
    HX_WORD_POINTER,
    HX_WORD_GONE, /* leads to where a block was: no genuine pointer does */
    HX_WORD_VALUE,
    HX_WORD_JUDGED, /* a pointer that a rule has something to say of */
    HX_WORD_KINDS
};

/* Row r has the words of the object object[r]. */
struct hx_word_table {
    size_t rows, words; /* of each row: as many as blocks of the group have, or the first ones */
    uint64_t *word;     /* rows * words */
    hx_obj *object;
    uint8_t *kind; /* rows * words */
};

/* At most `cells` words, of the group's samples; rows = 0 where none of them is a pointer. */
hx_error *hx_word_table_fill(const struct hx_judge *judge, const struct hx_block_group *group,
                             size_t cells, bool gone, struct hx_word_table *ret);
void hx_word_table_deinit(struct hx_word_table *table);

static inline const uint64_t *hx_word_row(const struct hx_word_table *table, size_t row)
{
    return table->word + row * table->words;
}

static inline enum hx_word_kind hx_word_kind(const struct hx_word_table *table, size_t row,
                                             size_t i)
{
    return (enum hx_word_kind)table->kind[row * table->words + i];
}

/* What a judge does who looks at groups by themselves first. scan(): *ret_found says whether there
 * is something to judge in the group's blocks; judge(): one of these, `window` is a hint. Both are
 * called from several threads. */
struct hx_group_judge {
    hx_error *(*scan)(void *context, uint32_t group, bool *ret_found);
    void (*judge)(void *context, hx_obj object, struct hx_peeked *window);
    void *context;
};
hx_error *hx_judge_by_group(const struct hx_judge *judge, const struct hx_group_judge *how);

/* Does an address lie between blocks, where one was? */
bool hx_is_gone(const struct hx_graph *graph, uint64_t value);

#endif
