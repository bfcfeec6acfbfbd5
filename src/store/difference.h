/* difference.h - a census as differences between two snapshots: one statement for all of them.
 *
 * The table of censuses says which rows one snapshot has; what differs follows from it, in columns
 * of the same names: behind those of the key status, bytes_a, bytes_b, bytes_delta, objects_a,
 * objects_b, objects_delta, and moved and objects_moved, which are how much a row moved.
 *
 * Of one store the explorer asks by the keys of that store. `heapx diff` compares any two
 * snapshots, of two stores perhaps: the rows of both sides are put into a temporary table first,
 * with keys that mean the same in every store.
 */
#ifndef HX_STORE_DIFFERENCE_H
#define HX_STORE_DIFFERENCE_H

#include "store/census.h"
#include "store/query/named.h"
#include "store/store.h"

/* The order of the first look: what moved most first. */
#define HX_DIFFERENCE_SORT "moved"

/* Two snapshots of one store, and which part of the rows. */
struct hx_difference_of {
    const struct hx_stored_census *census;
    int64_t a, b;
    int64_t below; /* of a cost-centre stack and what it called; 0: all */
};

/* Appends the statement of the rows; there are none where the two do not compare. */
void hx_difference_sql(const struct hx_difference_of *of, struct hx_text *sql);

/* The same of what stands above them: rows, moved, how many have each status, and of each side (_a,
 * _b) snapshot, made (has it such rows?), kind (what both have to share), total, objects. */
void hx_difference_facts_sql(const struct hx_difference_of *of, struct hx_text *sql);

/* --- of any two snapshots: a table of a store, which goes with it --- */

enum { HX_DIFFERENCE_A, HX_DIFFERENCE_B };

struct hx_difference {
    const struct hx_stored_census *census;
    hx_store *store; /* that has the table; borrowed */
    bool two_stores; /* numbers of the sides have nothing to do with each other */
};
hx_error *hx_difference_begin(const struct hx_difference *difference);

/* Has a snapshot such rows, or none because there is nothing to count? False: they were not made.
 */
hx_error *hx_difference_made(hx_store *store, const struct hx_stored_census *census,
                             int64_t snapshot, bool *ret);

/* Adds the rows of a snapshot to a side, and counts them. */
hx_error *hx_difference_add(const struct hx_difference *difference, int side, hx_store *from,
                            int64_t snapshot, uint64_t *ret_rows);

/* The same of only those objects that are chosen. */
typedef bool hx_difference_chosen_fn(void *context, uint64_t address);
hx_error *hx_difference_add_objects(const struct hx_difference *difference, int side,
                                    hx_store *from, int64_t snapshot,
                                    hx_difference_chosen_fn *chosen, void *context);

/* Where rows are left out: what only the other side has has figures on this one, too. */
hx_error *hx_difference_add_missing(const struct hx_difference *difference, int side,
                                    hx_store *from, int64_t snapshot);

/* Some rows of the differences, columns as above; behind the column to sort by what moved more
 * comes first, then keys decide. */
hx_error *hx_difference_rows(const struct hx_difference *difference,
                             const struct hx_selection *selection, hx_rows **ret);

#endif
