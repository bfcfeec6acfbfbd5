/* tree_rows.h - a part of the tree of cost-centre stacks as rows: what a list or a flame graph
 * shows of it.
 *
 * Children are asked for where a node is unfolded or wide enough to be seen, the largest first and
 * so many at a time: a tree of millions of nodes costs what is visible of it. Who needs all of it
 * takes stacktree.h.
 */
#ifndef HX_STORE_COST_TREE_ROWS_H
#define HX_STORE_COST_TREE_ROWS_H

#include "base/progress.h"
#include "base/vec.h"
#include "store/table.h"

#define HX_TREE_TOP 1 /* the node that all others hang on */

/* Columns of the rows, in this order; with differences of a figure also `grown`. What is inherited
 * is a node's with all that is below it. */
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

static inline struct hx_cell *hx_tree_cell(const struct hx_table *rows, size_t row,
                                           enum hx_tree_column column)
{
    return rows->cell + row * rows->n_columns + column;
}

/* The integer there; 0 when it is none. */
int64_t hx_tree_int(const struct hx_table *rows, size_t row, enum hx_tree_column column);
bool hx_tree_is_below(const struct hx_table *rows, size_t row, const char *what);
hx_error *hx_tree_set_below(const struct hx_table *rows, size_t row, const char *what);

/* Which figures, and the order of siblings. */
struct hx_tree_query {
    int64_t snapshot, other; /* other: figures are differences to it; 0: they are not */
    /* There is a column `grown` behind the others: so much more is `figure` than in the snapshot
     * `before`; 0: there is none. Not with `other`. */
    int64_t before;
    const char *figure; /* one that is inherited, that widths are of */
    const char *sort;
    bool ascending;
};

/* One row for each of so many functions on the way to a node (`caller`), and none where there is no
 * snapshot: live, alloc (NULL: not recorded), whole (the figure), sample_bytes, upper_bounds.
 * HX_E_ABSENT: the snapshot that this one is compared with has no recording. */
hx_error *hx_tree_facts(hx_store *store, const struct hx_tree_query *query, int64_t node,
                        int callers, struct hx_table *ret);

/* --- which nodes (tree_find.c) --- */

/* Which nodes a condition holds for, and which are on the way to one of them. By ccs_id; of one
 * thread but for reading. */
enum { HX_MARK_HOLDS = 1, HX_MARK_ABOVE = 2 };
struct hx_tree_marks {
    unsigned users;
    size_t n;
    int64_t *id;      /* ascending */
    uint32_t *parent; /* index; below the own one, or, of one that hangs on nothing, the own one */
    uint8_t *flag;
};
uint8_t hx_tree_mark(const struct hx_tree_marks *marks, int64_t id);  /* 0: none */
struct hx_tree_marks *hx_tree_marks_ref(struct hx_tree_marks *marks); /* NULL is legal */
void hx_tree_marks_unref(struct hx_tree_marks *marks);                /* NULL is legal */

/* The nodes for which a condition (trusted SQL over the columns) holds. */
hx_error *hx_tree_filter(hx_store *store, const struct hx_tree_query *query, const char *condition,
                         const struct hx_progress *progress, struct hx_tree_marks **ret);

/* A node that is unfolded, and how many of its children are shown at most. */
struct hx_tree_way {
    int64_t id;
    size_t cap;
};
struct hx_tree_ways {
    HX_VEC(struct hx_tree_way) of;
};

/* The next node in the order of the rows whose centre matches, also where it is folded. */
typedef bool hx_tree_matches_fn(const void *context, const char *label, const char *module,
                                const char *source);
struct hx_tree_search {
    struct hx_tree_query query;
    struct hx_tree_marks *within; /* only among these; NULL: among all, or as `condition` says */
    char *condition;              /* owned; NULL: none */
    hx_tree_matches_fn *matches;
    const void *context;
    bool backwards;
    int64_t from; /* a node */
    /* answers */
    int64_t found; /* 0: nowhere */
    bool wrapped;
    struct hx_tree_ways way; /* from the top to it */
};
hx_error *hx_tree_search_next(hx_store *store, struct hx_tree_search *search,
                              const struct hx_progress *progress);
void hx_tree_search_deinit(struct hx_tree_search *search);

/* --- loading --- */

struct hx_tree_load {
    struct hx_tree_query query;
    struct hx_tree_marks *marks; /* only these nodes; NULL: all, or as `condition` says, whose marks
                                    it becomes */
    char *condition;             /* owned; NULL: none */
    int64_t node;                /* what is loaded hangs on it, */
    bool itself;                 /* and its own row comes first */
    int64_t depth;               /* of its row */
    size_t skip;                 /* so many of its children are there already */
    struct hx_tree_ways way;     /* what is unfolded; in any order, it is sorted */
    bool all;                    /* whatever is below these, too */
    bool single, main;           /* only children unfold, too; those that have nearly all do */
    size_t children; /* of a node, unless its way says more: a row stands for the rest */
    size_t most;     /* rows */
    /* Or only nodes that have a part of the figure of `node`, and no rows for the rest; 0: all. */
    uint32_t parts;
    uint32_t levels; /* with `all`; 0: any */
    /* answers */
    struct hx_table rows; /* in the order of the tree */
    bool found;           /* there is such a node, shown or not; with `itself` */
    bool limited;         /* not all of it fitted */
};
hx_error *hx_tree_load(hx_store *store, struct hx_tree_load *load,
                       const struct hx_progress *progress);
void hx_tree_load_deinit(struct hx_tree_load *load);

/* What has at least one of so many parts of the whole. 1 and more. */
static inline uint64_t hx_tree_part(uint64_t whole, uint32_t parts)
{
    uint64_t least = whole / parts + (whole % parts != 0);
    return least ? least : 1;
}

/* --- for tree_find.c --- */

/* Appends SELECT columns FROM nodes [WHERE where]; no order. */
void hx_tree_sql(const struct hx_tree_query *query, const char *where, struct hx_text *sql);

/* Rows of the children of some nodes, ordered by parent; `least`: 0, or what they have of the
 * figure at least; limit < 0: all. */
struct hx_tree_children {
    const int64_t *id;
    size_t n;
    uint64_t least;
    int64_t limit;
};
hx_error *hx_tree_children(hx_store *store, const struct hx_tree_query *query,
                           const struct hx_tree_children *of, hx_rows **ret);

#endif
