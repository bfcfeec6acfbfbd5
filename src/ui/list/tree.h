/* tree.h - a list that is a tree: cost-centre stacks by who called them.
 *
 * The children of a node are asked from the store when it is unfolded, in the background and some
 * at a time, so that a tree of millions of nodes costs what is visible of it. The rows in memory
 * are the visible ones in the order of the tree; what of them is unfolded tells the column `below`.
 */
#ifndef HX_UI_LIST_TREE_H
#define HX_UI_LIST_TREE_H

#include "ui/list/matcher.h"
#include "ui/list/pane.h"

#include "base/vec.h"

/* Children that come at once, rows that unfolding everything shows at most, rows in all, and the
 * top. */
#define HX_TREE_BATCH    1000
#define HX_TREE_UNFOLDED 10000
#define HX_TREE_ROWS     50000
#define HX_TREE_TOP      1

/* Columns of the rows, in this order. */
#define HX_TREE_COLUMNS(X)                                                                         \
    X(ccs_id)                                                                                      \
    X(parent_id)                                                                                   \
    X(depth)                                                                                       \
    X(below)                                                                                       \
    X(label)                                                                                       \
    X(module)                                                                                      \
    X(source)                                                                                      \
    X(kind)                                                                                        \
    X(is_caf)                                                                                      \
    X(recursive)                                                                                   \
    X(inherited_live_bytes)                                                                        \
    X(live_bytes)                                                                                  \
    X(inherited_alloc_bytes)                                                                       \
    X(alloc_bytes)                                                                                 \
    X(inherited_live_objects)                                                                      \
    X(live_objects)                                                                                \
    X(inherited_alloc_objects)                                                                     \
    X(alloc_objects)                                                                               \
    X(freed_bytes)                                                                                 \
    X(freed_objects)                                                                               \
    X(entries)                                                                                     \
    X(retained_bytes)
enum hx_tree_column {
#define HX_TREE_COLUMN(name) HX_TREE_##name,
    HX_TREE_COLUMNS(HX_TREE_COLUMN)
#undef HX_TREE_COLUMN
        HX_TREE_WIDTH
};

/* `below` of a row: nothing; nodes that are not shown; nodes that follow; or it is no node but
 * stands for the other children of its parent. */
#define HX_TREE_NONE   "nothing"
#define HX_TREE_FOLDED "folded"
#define HX_TREE_OPEN   "unfolded"
#define HX_TREE_MORE   "more"

/* Which nodes a condition holds for, and which are on the way to one of them. By ccs_id; of the
 * screen's thread but for reading. */
enum { HX_MARK_HOLDS = 1, HX_MARK_ABOVE = 2 };
struct hx_tree_marks {
    unsigned users;
    size_t n;
    int64_t *id;      /* ascending */
    uint32_t *parent; /* index; below the own one, or, of one that hangs on nothing, the own one */
    uint8_t *flag;
};
uint8_t hx_tree_mark(const struct hx_tree_marks *marks, int64_t id); /* 0: none */
/* Index of a node; UINT32_MAX: none. */
uint32_t hx_tree_mark_at(const struct hx_tree_marks *marks, int64_t id);
struct hx_tree_marks *hx_tree_marks_ref(struct hx_tree_marks *marks); /* NULL is legal */
void hx_tree_marks_unref(struct hx_tree_marks *marks);                /* NULL is legal */

/* A node that is unfolded, and how many of its children are shown at most. */
struct hx_tree_way {
    int64_t id;
    size_t cap;
};

/* What a pane keeps of its tree beside the rows. */
struct hx_tree {
    struct hx_tree_marks *marks;    /* of the filter; NULL: none, or not worked out yet */
    int64_t marks_of;               /* the snapshot that they are of */
    HX_VEC(struct hx_tree_way) way; /* nodes to unfold at the next load, up to the top */
    int64_t go_to;                  /* where the cursor goes then; 0: stays */
};
void hx_tree_destroy(struct hx_tree *tree);       /* NULL is legal */
void hx_tree_forget_filter(struct hx_tree *tree); /* another one holds; NULL is legal */

/* Which rows, and how: what every statement on a tree needs to know. */
struct hx_tree_query {
    int64_t snapshot, other; /* other: figures are differences to it; 0: they are not */
    /* There is a column `grown` behind the others: so much more is `figure` than in the snapshot
     * `before`; 0: there is none. Not with `other`. */
    int64_t before;
    const char *figure;
    const char *sort;
    bool ascending;
};
/* Appends SELECT columns FROM nodes [WHERE where]; no order. */
void hx_tree_sql(const struct hx_tree_query *query, const char *where, struct hx_text *sql);
/* " ORDER BY ..." of siblings; `first`: what comes before, "" or "x, ". */
void hx_tree_order_sql(const struct hx_tree_query *query, const char *first, struct hx_text *sql);

/* The nodes for which a condition holds, or (condition NULL) whose names match; only among those
 * of `within`, when there is one. On a lane's thread. */
hx_error *hx_tree_find(hx_store *store, const struct hx_tree_query *query, const char *condition,
                       const struct hx_matcher *matcher, const struct hx_tree_marks *within,
                       const struct hx_progress *progress, struct hx_tree_marks **ret);

/* The screen's fill(): all visible rows anew; what was unfolded stays so. */
hx_error *hx_tree_fill(struct hx_ui *ui, struct hx_pane *pane);

/* Shows another screen of the tree with the cursor on a node: node[0], which hangs on node[1], and
 * so on to the top. */
hx_error *hx_tree_show(struct hx_ui *ui, const struct hx_screen *screen, const int64_t *node,
                       size_t n);

/* + - * on a row. */
hx_error *hx_tree_unfold(struct hx_ui *ui, struct hx_pane *pane, size_t row);
hx_error *hx_tree_fold(struct hx_ui *ui, struct hx_pane *pane, size_t row);
hx_error *hx_tree_unfold_all(struct hx_ui *ui, struct hx_pane *pane, size_t row);

/* Goes to the next (previous) node whose names match, also in what is folded. */
hx_error *hx_tree_search(struct hx_ui *ui, struct hx_pane *pane, const char *pattern,
                         bool backwards);

#endif
