/* tree.h - panes that show the tree of cost-centre stacks: as a list, or as a flame graph.
 *
 * Rows are loaded in the background (store/cost/tree_rows.h) and stand in the order of the tree. Of
 * a list they are what is unfolded, of a flame graph what is at least a cell wide.
 */
#ifndef HX_UI_LIST_TREE_H
#define HX_UI_LIST_TREE_H

#include "store/cost/tree_rows.h"
#include "ui/list/matcher.h"
#include "ui/list/pane.h"

/* Children that come at once, rows that unfolding everything shows at most, and rows in all. */
#define HX_TREE_BATCH    1000
#define HX_TREE_UNFOLDED 10000
#define HX_TREE_ROWS     50000

/* What a pane keeps of its tree beside the rows. */
struct hx_tree {
    struct hx_tree_marks *marks; /* of the filter; NULL: none, or not worked out yet */
    int64_t marks_of;            /* the snapshot that they are of */
    struct hx_tree_ways way;     /* nodes to unfold at the next load, up to the top */
    int64_t go_to;               /* where the cursor goes then; 0: stays */
};
void hx_tree_destroy(struct hx_tree *tree);       /* NULL is legal */
void hx_tree_forget_filter(struct hx_tree *tree); /* another one holds; NULL is legal */

/* A node, what it hangs on, and so on up. */
struct hx_tree_path {
    HX_VEC(int64_t) id;
};
/* Appends that of a row as far as the pane shows it, without one that is its last already; rows
 * that are no nodes are left out. */
hx_error *hx_tree_path_add(const struct hx_pane *pane, size_t row, struct hx_tree_path *path);

/* How a flame graph looks at the tree below a node: nodes that have one of `parts` of it, so many
 * levels, and the names of so many callers of that node. Without parts: as a list. */
struct hx_tree_look {
    struct hx_tree_query query;
    int64_t node;
    uint32_t parts, levels;
    int callers;
    hx_error *(*came)(struct hx_pane *pane, const struct hx_tree_look *look); /* the rows have */
    struct hx_tree_path keep; /* for tree.c: the cursor goes to the first of these that is there */
};
hx_error *hx_tree_fill_look(struct hx_ui *ui, struct hx_pane *pane,
                            const struct hx_tree_look *look);

/* The screen's fill(): all visible rows anew; what was unfolded stays so. */
hx_error *hx_tree_fill(struct hx_ui *ui, struct hx_pane *pane);

/* Shows another screen of the tree with the cursor on the first node of a path. */
hx_error *hx_tree_show(struct hx_ui *ui, const struct hx_screen *screen,
                       const struct hx_tree_path *path);

/* + - * on a row. */
hx_error *hx_tree_unfold(struct hx_ui *ui, struct hx_pane *pane, size_t row);
hx_error *hx_tree_fold(struct hx_ui *ui, struct hx_pane *pane, size_t row);
hx_error *hx_tree_unfold_all(struct hx_ui *ui, struct hx_pane *pane, size_t row);

/* Goes to the next (previous) node whose names match, also in what is folded. */
hx_error *hx_tree_search(struct hx_ui *ui, struct hx_pane *pane, const char *pattern,
                         bool backwards);

/* --- for tree_search.c --- */

/* The figures of a list. */
struct hx_tree_query hx_tree_query_of(const struct hx_pane *pane);
/* The filter of these very figures: its marks, or a copy of the condition; NULL and NULL: none. */
hx_error *hx_tree_filter_of(const struct hx_pane *pane, struct hx_tree_marks **ret_marks,
                            char **ret_condition);

#endif
