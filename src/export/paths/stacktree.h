/* stacktree.h - stacks of a store as a tree in memory: of cost centres, or of frames.
 *
 * Formats that write a stack for each row of a census look up millions of ancestors; here each is
 * one step.
 */
#ifndef HX_EXPORT_PATHS_STACKTREE_H
#define HX_EXPORT_PATHS_STACKTREE_H

#include "export/export.h"

#include "base/vec.h"

#define HX_NO_STACK UINT32_MAX

struct hx_stack_row {
    int64_t id;      /* ccs_id or frame_id */
    uint32_t parent; /* index; HX_NO_STACK: none, this is MAIN */
    uint32_t centre; /* index */
};

/* Texts are places in `strings`; 0: not known. */
struct hx_stack_centre {
    int64_t id;
    size_t label, module, source;
    size_t shown; /* of the label, as hx_stacktree_shown() gave it; 0: not asked for yet */
    bool is_caf;
};

/* Invariants: rows and centres are sorted by id; a parent stands before its children. */
struct hx_stacktree {
    HX_VEC(struct hx_stack_row) rows;
    HX_VEC(struct hx_stack_centre) centres;
    HX_VEC(char) strings;
};

enum hx_stacktree_of { HX_TREE_CCS, HX_TREE_FRAMES };

/* HX_E_CORRUPT when it is no tree. */
hx_error *hx_stacktree_load(const struct hx_export *export, enum hx_stacktree_of of,
                            struct hx_stacktree *ret);
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

/* The error of rows that no heapx has written. */
hx_error *hx_export_damaged(const struct hx_export *export, const char *what);

#endif
