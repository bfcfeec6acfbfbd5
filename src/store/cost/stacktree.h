/* stacktree.h - the stacks of a store as a tree in memory, all of it: of cost centres, or of calls
 * as recorded; and what each of them weighs.
 *
 * For who writes a tree whole: millions of ancestors are looked up, and each is one step. Who shows
 * a part of one takes stack_rows.h.
 */
#ifndef HX_STORE_COST_STACKTREE_H
#define HX_STORE_COST_STACKTREE_H

#include "store/query/named.h"

#include "base/vec.h"

#define HX_NO_STACK UINT32_MAX

struct hx_stack_row {
    int64_t id;      /* ccs_id or frame_id */
    uint32_t parent; /* index; HX_NO_STACK: none, this is MAIN */
    uint32_t centre; /* index; HX_NO_STACK: the store is damaged */
};

/* Texts are places in `strings`; 0: not known. */
struct hx_stack_centre {
    int64_t id;
    size_t label, module, source;
    size_t symbol; /* the linker's name */
    size_t shown;  /* of the label, as hx_stacktree_shown() gave it; 0: not asked for yet */
    bool is_caf;
};

/* Invariants: rows and centres are sorted by id; a parent stands before its children. */
struct hx_stacktree {
    HX_VEC(struct hx_stack_row) rows;
    HX_VEC(struct hx_stack_centre) centres;
    HX_VEC(char) strings;
    const char *damage; /* rows of the store that made no tree; they hang on nothing. NULL: none */
};

enum hx_stacktree_of { HX_TREE_CCS, HX_TREE_FRAMES };

hx_error *hx_stacktree_load(hx_store *store, enum hx_stacktree_of of, struct hx_stacktree *ret);
void hx_stacktree_deinit(struct hx_stacktree *tree);
#define HX_STACKTREE __attribute__((cleanup(hx_stacktree_deinit)))

/* The index of a stack, HX_NO_STACK when there is none of that number. */
uint32_t hx_stacktree_find(const struct hx_stacktree *tree, int64_t id);

/* A text of a centre; "" when not known. Valid until hx_stacktree_shown() is called. */
static inline const char *hx_stacktree_text(const struct hx_stacktree *tree, size_t at)
{
    return tree->strings.v + at;
}

/* What people call the centre: without what makes names of C++ and Rust long; a CAF
 * behind its module. Valid until the next call; NULL: out of memory. */
const char *hx_stacktree_shown(struct hx_stacktree *tree, uint32_t centre);

/* The query for what stacks of a snapshot weigh, without those below them: what is there now; or
 * what was ever allocated, for cost centres also how often they were entered, and the bytes with
 * all that is below. Each is NULL where it was not measured. */
enum hx_stack_weights { HX_WEIGHTS_LIVE, HX_WEIGHTS_ALLOCATED };
enum { HX_WEIGHT_ID, HX_WEIGHT_BYTES, HX_WEIGHT_OBJECTS, HX_WEIGHT_ENTRIES, HX_WEIGHT_INHERITED };
enum hx_query_name hx_stack_weights(enum hx_stacktree_of of, enum hx_stack_weights which);

#endif
