/* named.h - the questions that screens, exporters and commands have of a store, by name. Nobody
 * else knows how the store keeps its answers.
 *
 * To add one: a line here, and its text in the file of its subject (named_*.c) in this folder.
 */
#ifndef HX_STORE_QUERY_NAMED_H
#define HX_STORE_QUERY_NAMED_H

#include "store/census.h"
#include "store/query.h"
#include "store/query/subset.h"

/* What a question is about; each takes what its line names. 0 and NULL are "not given". */
struct hx_query_args {
    int64_t snapshot, other; /* snapshots */
    int64_t id;              /* of a stack, a cost-centre stack, a set, a root, ... */
    uint64_t address;
    int64_t limit, offset;
    const char *text, *more;
    const char *view;   /* a public view, or the table of an answer */
    const char *column; /* of `snapshots` */
    const char *where;  /* of hx_of_where() */
    const struct hx_stored_census *census;
};
#define HX_QUERY_ARGS(...) (&(const struct hx_query_args){__VA_ARGS__})

/* name, parameters (those in brackets may be left out), columns, what it tells.
 * `rows` is how many rows the list of that name has, or at least about so many. */
#define HX_NAMED_QUERIES(X)                                                                        \
    X(count, "view snapshot", "rows", "the rows of a view")                                        \
    X(nothing, "", "answer", "no row")                                                             \
    X(number, "id", "rows", "one row, the number itself")                                          \
    X(view, "view [snapshot]", "*", "all of a view, or of an answer (answer.h)")                   \
    HX_NAMED_SNAPSHOTS(X)                                                                          \
    HX_NAMED_CENSUSES(X)                                                                           \
    HX_NAMED_OBJECTS(X)                                                                            \
    HX_NAMED_SETS(X)                                                                               \
    HX_NAMED_STACKS(X)

/* named_snapshots.c */
#define HX_NAMED_SNAPSHOTS(X)                                                                      \
    X(snapshots, "", "* recorded held later",                                                      \
      "all of them; recorded: has costs; held: has holders, NULL: not worked out; later: left to " \
      "whoever looks")                                                                             \
    X(snapshot_list, "", "* whole", "the same; whole: yes, or PARTIAL")                            \
    X(snapshot_list_facts, "", "rows most", "most: the largest heap")                              \
    X(snapshot_value, "snapshot column", "value", "one figure of a snapshot")                      \
    X(heap_sums, "snapshot", "rows bytes", "objects and bytes of the heap")                        \
    X(reachable_sums, "snapshot", "bytes objects", "of the heap what roots reach")                 \
    X(timepoints, "[snapshot]",                                                                    \
      "snapshot taken_at_ns started_at_ns pid comm exe heap_bytes heap_objects",                   \
      "times of all snapshots, or of one")                                                         \
    X(heap_samples, "", "snapshot allocated live size",                                            \
      "of each: bytes requested since the program began (NULL: not known), of objects, of the"     \
      " heap with what is free")                                                                   \
    X(census_options, "[snapshot]", "scheme max_set patterns threads_as holders",                  \
      "by what retainer sets were made, last or in one; patterns: a line for each")

/* named_censuses.c */
#define HX_NAMED_CENSUSES(X)                                                                       \
    X(census_any, "census [snapshot]", "rows", "a row when the census has any")                    \
    X(census_keys, "census [snapshot]", "k", "its keys as texts")                                  \
    X(census_samples, "census [snapshot]", "snapshot k n",                                         \
      "bytes by key as text, the largest first")                                                   \
    X(census_stack_samples, "census [snapshot]", "snapshot k n members", "the same by number")     \
    X(census_set_samples, "census [snapshot]", "snapshot k n members",                             \
      "of retainer sets also the members with char(31) between, char(30) before sites")            \
    X(leaks_and_rest, "census snapshot", "snapshot kind type site bytes objects",                  \
      "the view leaks, and with the census of leaks a row for what is reachable")                  \
    X(labelled_sites, "census [snapshot]", "snapshot ccs_id label bytes objects retained_bytes",   \
      "the view sites with labels, by the census of cost-centre stacks")

/* named_objects.c */
#define HX_NAMED_OBJECTS(X)                                                                        \
    X(object, "snapshot address",                                                                  \
      "what other offset kind bytes state type object root_id id text points rule",                \
      "what an object is, who allocated and holds it, what refers to it, to what it refers; empty" \
      " texts are what does not apply, NULL is what is not known; points: as kind, sparse or "     \
      "stray")                                                                                     \
    X(object_facts, "snapshot address limit",                                                      \
      "rows roots depth confidence frame label module source since looked earliest *",             \
      "a row for each of the innermost `limit` frames that allocated it; since: the snapshot from" \
      " which on an object of its size and type, from the same stack where that is known, was"     \
      " there; looked: the first that was asked; and the columns of `objects`")                    \
    X(object_at, "snapshot address", "address bytes", "the last that begins there or before")      \
    X(objects_behind, "snapshot address [where] limit", "address bytes type state stack_id",       \
      "the objects behind an address, in that order")                                              \
    X(object_dominators, "snapshot", "dominator set_id", "of each object, in their order")         \
    X(object_head, "snapshot address", "bytes type edges_out pid requested shape round holder",    \
      "an object in its process")                                                                  \
    X(largest_object, "snapshot where", "address", "of a set of objects")                          \
    X(largest_new_object, "snapshot other where limit", "address",                                 \
      "of the `limit` largest of a set (-1: of all) the first that the other snapshot has not")    \
    X(edge_first, "snapshot address", "row", "the number of an object's first edge")               \
    X(alike, "snapshot address [offset]", "offset words alike requested",                          \
      "of the objects of its shape how many have a pointer at an offset; of very many the first")  \
    X(edge_offset, "id address", "offset", "of the object's edge with that number")                \
    X(edges_by_number, "id address limit", "offset target kind bytes type points rule",            \
      "edges of an object from that number on")                                                    \
    X(edges_by_offset, "snapshot address [limit] [offset]",                                        \
      "offset target kind bytes type points rule", "edges of an object")                           \
    X(root, "snapshot [other] id", "offset address target kind bytes type state edges_out",        \
      "to what a root refers; with `other` the root that has the name of that one there")          \
    X(root_facts, "snapshot [other] id", "rows * near names_in reaches",                           \
      "the root in `roots`, and what helps where it has no name")                                  \
    X(root_at, "snapshot address", "root_id name",                                                 \
      "the root, no named one, that holds an address")                                             \
    X(dominated, "snapshot [address]", "* rest",                                                   \
      "what an object dominates immediately, or what hangs directly under the roots; of large"     \
      " heaps the largest of it, and a row for the rest")                                          \
    X(dominated_facts, "snapshot [address]", "widely rows all_bytes all_objects own type address", \
      "the object, and what it retains")                                                           \
    X(level_facts, "snapshot [address]", "rows all_bytes all_objects own type address",            \
      "the same for all of a level of a large heap")                                               \
    X(dominators_facts, "snapshot", "rows heap_bytes", "of the largest of all levels")             \
    X(merged_tree, "snapshot text id [more]", "node depth label bytes objects total",              \
      "rows of a merged tree down to a depth, as the kind says (dominator, holder), perhaps only"  \
      " those below a root; label: indented, with how many objects; total: with all below")        \
    X(merged_tree_facts, "snapshot text id [more]", "rows deepest heap_bytes",                     \
      "how many rows these are, and how deep the tree is")                                         \
    X(dominators, "snapshot", "* shape", "the view dominators, and shapes of its objects")         \
    X(largest_dominator, "snapshot", "address bytes", "the object that retains most")              \
    X(largest_dominated, "snapshot [address] limit",                                               \
      "address type bytes retained_bytes retained_objects",                                        \
      "the largest that an object dominates immediately, or that hang directly under the roots")   \
    X(object_retained, "snapshot address", "address type bytes retained_bytes retained_objects",   \
      "the same of an object itself")

/* named_sets.c */
#define HX_NAMED_SETS(X)                                                                           \
    X(set, "snapshot id [text]",                                                                   \
      "rank position what label about bytes objects object number root_id kind shown",             \
      "a retainer set, or with `text` a bin: its members, its largest objects, its bytes in each"  \
      " snapshot; shown: the label, with `?` of a member in doubt")                                \
    X(largest_sets, "snapshot", "label bytes objects", "ten, with labels for people")              \
    X(set_facts, "snapshot id [text]",                                                             \
      "rows bytes objects heap_bytes only_pages shared_pages scheme most snapshots history first"  \
      " last",                                                                                     \
      "history: its bytes over all snapshots with blanks between, of many the largest of those"    \
      " that lie together")                                                                        \
    X(holder_sets, "snapshot text",                                                                \
      "snapshot set_id members label brief others bytes objects enters",                           \
      "the retainer sets of what a holder holds; label: members in doubt stand last, with `?`;"    \
      " enters: `alone`, or by how many references those in doubt come in")                        \
    X(holder_changes, "snapshot other text",                                                       \
      "snapshot set_id members label brief status moved bytes_a bytes_b bytes_delta objects_a "    \
      "objects_b"                                                                                  \
      " objects_delta objects_moved",                                                              \
      "the same sets as differences of two snapshots")                                             \
    X(holder_facts, "snapshot [other] text",                                                       \
      "rows heap_bytes kind module bytes objects alone_bytes contested_bytes entries other "       \
      "before near "                                                                               \
      "names_in reaches",                                                                          \
      "a holder; other: who contests most of what it holds; before: its bytes in the snapshot "    \
      "`other`")                                                                                   \
    X(nameless, "snapshot", "module names_in",                                                     \
      "of the modules whose variables hold more than 1 % of the heap those that lack their names") \
    X(named_roots, "snapshot",                                                                     \
      "rank position snapshot name expr root_id kind module address direct_objects"                \
      " exclusive_bytes shared_bytes retained_bytes naming",                                       \
      "roots with names for bins, then those that could have some: naming is what names them")     \
    X(named_roots_facts, "snapshot", "named rows", "named: how many there are")                    \
    X(named_root_names, "snapshot", "name", "in their order")                                      \
    X(nameable, "snapshot", "rank name expr module root_id direct_objects retained_bytes",         \
      "roots that could be named, expr NAME=MODULE!SYMBOL; the largest first")                     \
    X(named_root_bytes, "snapshot", "name exclusive_bytes shared_bytes",                           \
      "of roots that are in a"                                                                     \
      " bin")                                                                                      \
    X(bin_sums, "snapshot", "roots bytes objects", "the bins, the largest first")                  \
    X(last_bins, "", "snapshot", "the last snapshot that has bins")                                \
    X(page_list, "snapshot", "snapshot census key label only_pages shared_pages id known",         \
      "the view pages; label: the key for people, id: number of the set, bin, type or cost-centre" \
      " stack, known 0: of objects without a type")                                                \
    X(census_runs, "[snapshot]", "snapshot visits_per_object total_bytes sets",                    \
      "what each census of retainers has cost; sets: those that there were until then")            \
    X(census_members, "[snapshot]", "set_id space label module", "of the sets that have bytes")    \
    X(lone_retainers, "", "set_id label module symbol", "of sets with one member, by number")

/* named_stacks.c */
#define HX_NAMED_STACKS(X)                                                                         \
    X(stack, "snapshot id|address limit", "frame label module source inlined",                     \
      "the calls of a stack, or of the stack that allocated an object, the innermost first: frame" \
      " #0. Where a task was entered that somebody else had asked for, rows without a frame say"   \
      " whose frames follow. inlined: inlined, region or nothing")                                 \
    X(stack_facts, "snapshot id|address",                                                          \
      "rows label bytes objects alloc_bytes alloc_objects freed_bytes freed_objects stack_id",     \
      "what was allocated there")                                                                  \
    X(ccs_stack, "id limit", "frame label module source inlined",                                  \
      "the same of a cost-centre stack: its centres, and the lines where these are declared")      \
    X(threads, "snapshot", "snapshot tid name stack source stack_id", "where each thread stood")   \
    X(ccs, "snapshot id",                                                                          \
      "rank position what label about bytes own objects object number ccs_id module kind"          \
      " recursive",                                                                                \
      "what a cost-centre stack called, its largest objects, its bytes in each snapshot")          \
    X(ccs_facts, "snapshot id limit",                                                              \
      "rows * label module source kind recursive over_time retained_bytes retained_objects depth"  \
      " caller most",                                                                              \
      "a row for each of `limit` functions on the way to it; over_time: as history of a set; and"  \
      " its costs")                                                                                \
    X(centres, "", "centre label module source symbol is_caf", "all cost centres")                 \
    X(places, "", "place label module source symbol is_caf",                                       \
      "all places in code, as centres of the frames that are there")                               \
    X(ccs_tree, "", "ccs_id parent_id centre", "all cost-centre stacks, by number")                \
    X(frame_tree, "", "frame_id parent_id place", "all frames, by number")                         \
    X(ccs_live, "snapshot", "ccs_id bytes objects", "objects that are there, by stack")            \
    X(frame_live, "snapshot", "stack_id bytes objects", "the same by recorded stack")              \
    X(ccs_allocated, "snapshot", "ccs_id alloc_bytes alloc_objects entries inherited_alloc_bytes", \
      "by stack")                                                                                  \
    X(frame_allocated, "snapshot", "stack_id alloc_bytes alloc_objects", "by recorded stack")      \
    X(sampling, "snapshot", "sample_bytes", "mean bytes between samples; 0, NULL: each recorded")  \
    X(files, "", "name path build_id", "that code ran from")                                       \
    X(last_allocations, "[snapshot]", "snapshot",                                                  \
      "the last with recorded allocations; NULL: none")                                            \
    X(tick_threads, "", "tid", "threads of recordings")                                            \
    X(ticks, "", "snapshot tid ccs_id", "where they were in each snapshot")

enum hx_query_name {
#define HX_QUERY_NUMBER(name, parameters, columns, about) HX_QUERY_##name,
    HX_NAMED_QUERIES(HX_QUERY_NUMBER)
#undef HX_QUERY_NUMBER
        HX_QUERIES
};

/* The contract of each, for tests. */
struct hx_named_query {
    const char *name, *parameters, *columns;
};
extern const struct hx_named_query hx_named_queries[HX_QUERIES];

/* Appends the statement; for whoever shows some of its rows, in an order (hx_query_select()). */
void hx_query_put(enum hx_query_name name, const struct hx_query_args *args, struct hx_text *sql);

/* Asks. */
hx_error *hx_query_named(hx_store *store, enum hx_query_name name, const struct hx_query_args *args,
                         hx_rows **ret);

/* Asks for one number, the first column of the first row; *ret stays when there is none. */
hx_error *hx_query_number(hx_store *store, enum hx_query_name name,
                          const struct hx_query_args *args, int64_t *ret);

/* Asks for one text in the same way, and appends it. */
hx_error *hx_query_string(hx_store *store, enum hx_query_name name,
                          const struct hx_query_args *args, struct hx_text *ret);

/* Asks, and calls a function for each row until one fails. */
typedef hx_error *hx_row_fn(void *context, hx_rows *row);
hx_error *hx_query_each(hx_store *store, enum hx_query_name name, const struct hx_query_args *args,
                        hx_row_fn *row, void *context);

/* Asks a statement that was made here, and frees it. */
hx_error *hx_query_text(hx_store *store, struct hx_text *statement, hx_rows **ret);

/* Some rows of a statement. */
struct hx_selection {
    const char *columns; /* trusted SQL: what SELECT names; NULL: all */
    const char *without; /* a column: rows with a value in it stay out; NULL: none */
    const char *where;   /* trusted condition; NULL: none */
    const char *sort;    /* a column; NULL: as the statement says */
    bool ascending;
    const char *then;       /* the largest of that column first; NULL: none */
    const char *const *key; /* columns that break ties, ends with NULL; NULL: none */
    int64_t limit, offset;  /* limit < 0: no limit */
};
hx_error *hx_query_select(hx_store *store, const char *statement,
                          const struct hx_selection *selection, hx_rows **ret);
/* How many rows it has for which a condition holds; NULL: all. */
hx_error *hx_query_select_count(hx_store *store, const char *statement, const char *where,
                                int64_t *ret);

/* For texts of this folder: appends one with $NAME as a literal of that parameter, {NAME:A~B} as A
 * when it is given, else B; braces are not nested. */
void hx_query_expand(const char *text, const struct hx_query_args *args, struct hx_text *sql);

/* Appends a condition: the row has one of these keys. A key is its columns as literals
 * (hx_text_sql(), numbers as they are, fractions as nothing: they may be written in several ways)
 * with a comma behind each. */
void hx_keys_where(const char *const *columns, const char *const *keys, size_t n_keys,
                   struct hx_text *sql);

/* Appends text as an SQL literal, NULL as NULL. */
void hx_text_sql(struct hx_text *sql, const char *text);

#endif
