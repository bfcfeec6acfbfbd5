/* query.h - rows out of a store: the only way by which screens, reports and exporters
 * see data. */
#ifndef HX_STORE_QUERY_H
#define HX_STORE_QUERY_H

#include "query/filter.h"
#include "store/store.h"

/* view, its default sort column (largest first; NULL: as stored), what it shows */
#define HX_VIEWS(X)                                                                                \
    X(snapshots, NULL, "one row for each snapshot")                                                \
    X(account, "bytes", "resident memory by what it is used for")                                  \
    X(censuses, NULL, "what the retainer census of a snapshot has cost and found")                 \
    X(retainers, "bytes", "objects by the set of those that retain them")                          \
    X(retainer_members, NULL, "who is in each retainer set")                                       \
    X(retainer_entries, NULL, "by how many references each retainer comes into a set")             \
    X(holders, "bytes", "who holds the objects: the nearest root of each")                         \
    X(bins, "bytes", "objects by the exact set of named roots that reach them")                    \
    X(roots, "retained_bytes", "named places outside the heap that hold pointers")                 \
    X(types, "bytes", "objects by type")                                                           \
    X(shapes, "bytes", "objects by what their words look like")                                    \
    X(leaks, "bytes", "lost and possibly lost objects by kind")                                    \
    X(sites, "bytes", "objects by the stack that allocated them")                                  \
    X(modules, "bytes", "objects by the module that allocated them")                               \
    X(stacks, "alloc_bytes", "what each stack allocated, and what of it is there, in words")       \
    X(frames, NULL, "the tree of calls as recorded: functions, regions, entered stacks")           \
    X(threads, NULL, "what each thread was doing")                                                 \
    X(ccs, NULL, "the tree of cost centres: functions, by who called them")                        \
    X(costs, "inherited_alloc_bytes", "what was allocated, freed and is live, by cost centre")     \
    X(estimates, "alloc_bytes", "costs of a sampled recording with their standard errors")         \
    X(mprof_leaks, NULL, "what was never freed, by the last functions that asked for it")          \
    X(mprof_held, "reachable_bytes", "who still holds what was never freed")                       \
    X(mprof_bins, NULL, "requests by their size")                                                  \
    X(mprof_direct, NULL, "functions by what they ask for themselves")                             \
    X(mprof_graph, NULL, "the call graph of allocations")                                          \
    X(biography, "bytes", "objects by what was done with them in their life")                      \
    X(pages, "only_pages", "resident pages by what lies on them alone")                            \
    X(dominators, "retained_bytes", "the objects with which most would go")                        \
    X(tree, NULL, "dominators as a tree, those of one type or shape merged")                       \
    X(holder_tree, NULL, "the chains of holders as such a tree")                                   \
    X(allocators, "bytes", "which allocators have how much of the heap, and how that is known")    \
    X(losses, "count", "what could not be seen")                                                   \
    X(objects, "bytes", "every object")                                                            \
    X(edges, NULL, "references between objects")                                                   \
    X(root_edges, NULL, "references from roots to objects")

struct hx_view {
    const char *name, *sort, *about;
};
extern const struct hx_view hx_views[];               /* ends with name NULL */
const struct hx_view *hx_view_find(const char *name); /* NULL when unknown */

/* The columns that a condition may speak of: those of one view, or, with NULL, those of all views,
 * where a column without a view is one of `snapshots`. An id is the place of a column in the
 * table of them all, so that less that of the first column of its view it is the place in the
 * rows. Nothing is owned; false when there is no such view. */
bool hx_view_schema(const char *view, struct hx_filter_schema *ret);

enum hx_value_type { HX_VALUE_NULL, HX_VALUE_INT, HX_VALUE_REAL, HX_VALUE_TEXT };
struct hx_value {
    enum hx_value_type type;
    int64_t i;
    double real;
    const char *text; /* valid until the next hx_rows_next(); may hold any byte but 0 */
    size_t text_bytes;
};

typedef struct hx_rows hx_rows;

struct hx_query {
    const char *view;
    int64_t snapshot; /* 0: all */
    const char *sort; /* a column; NULL: the view's default */
    bool ascending;
    int64_t limit, offset; /* limit < 0: no limit */
    const char *where;     /* trusted SQL over columns, made by heapx; NULL: none */
    const char *also;      /* another such condition */
    const char *columns;   /* trusted SQL: which; NULL: all */
    bool brief;            /* labels for people: see set_label.h */
};

hx_error *hx_query_view(hx_store *store, const struct hx_query *query, hx_rows **ret);
/* Which of its rows, from 0 on, is the object at an address; -1: none, or that costs too much to
 * find out. For the view `objects` in one snapshot. `near`: only when it is among the first ones.
 */
hx_error *hx_query_place(hx_store *store, const struct hx_query *query, uint64_t address, bool near,
                         int64_t *ret);
/* How many rows it gives without limit and offset. */
hx_error *hx_query_count(hx_store *store, const struct hx_query *query, int64_t *ret);
/* Any read-only statement; writing ones are refused. */
hx_error *hx_query_sql(hx_store *store, const char *sql, hx_rows **ret);

size_t hx_rows_columns(const hx_rows *rows);
const char *hx_rows_name(const hx_rows *rows, size_t column);
/* Steps; *ret_more false at the end. */
hx_error *hx_rows_next(hx_rows *rows, bool *ret_more);
/* The rows of a view of one snapshot once more from the start, of another one; cheaper than a new
 * query where there are many snapshots. */
void hx_rows_turn_to(hx_rows *rows, int64_t snapshot);
struct hx_value hx_rows_value(const hx_rows *rows, size_t column);
void hx_rows_end(hx_rows *rows); /* NULL is legal */
static inline void hx_cleanup_rows(hx_rows **rows)
{
    hx_rows_end(*rows);
}
#define HX_ROWS __attribute__((cleanup(hx_cleanup_rows)))

/* Rows made in memory, for results that no store holds (why, doctor): they are read and
 * printed like all others. Names and values are copied. Rows come out in the order in
 * which they were added; add none after the first hx_rows_next(). */
hx_error *hx_rows_create(const char *const *names, size_t columns, hx_rows **ret);
hx_error *hx_rows_add(hx_rows *rows, const struct hx_value *values);

/* Rows made one by one as they are read, for results too long to be kept: `next` fills one
 * row's values, or sets *ret_more false. Texts stay valid until it is called again; names until
 * the end. */
typedef hx_error *hx_rows_next_fn(void *context, struct hx_value *values, bool *ret_more);
hx_error *hx_rows_generate(const char *const *names, size_t columns, hx_rows_next_fn *next,
                           void *context, hx_rows **ret);

/* Printers: one data path, one form each. Columns named address, source, target, dominator,
 * parent are hexadecimal in text only. */
enum hx_format { HX_FORMAT_TEXT, HX_FORMAT_JSON, HX_FORMAT_CSV, HX_FORMAT_JSONL };
/* A word for one of the first three, which reports have. */
bool hx_format_parse(const char *s, enum hx_format *ret);
hx_error *hx_rows_print(hx_rows *rows, enum hx_format format, void *file /* FILE */);

#endif
