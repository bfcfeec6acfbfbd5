/* census.h - the censuses that a store keeps of its snapshots, each as rows of one form: what
 * breaks bytes down by one identity, for whoever compares snapshots, draws them over time or
 * writes them for other programs. */
#ifndef HX_STORE_CENSUS_H
#define HX_STORE_CENSUS_H

#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

struct hx_stored_census {
    const char *name;  /* one word: "retainer" */
    const char *title; /* for people: "retainer sets" */
    const char *view;  /* the public view that its figures are those of */
    const char *total; /* the column of `snapshots` that its bytes add up to */
};
extern const struct hx_stored_census hx_stored_censuses[]; /* ends with name NULL */

const struct hx_stored_census *hx_census_find(const char *name); /* NULL when unknown */

/* Appends a statement, without order, of the rows (snapshot, key, label, bytes, objects) of one
 * snapshot, or of all of them (0). A key comes once in a snapshot, and is the same in all
 * snapshots of a store. `objects` is NULL where none are counted. A snapshot of
 * which the census was not made has no rows. Labels of retainer, ccs and site are looked up row by
 * row, and only where they are asked for: who adds up many rows by key asks afterwards, for the
 * few keys that are left, with hx_census_label_sql(). */
void hx_census_sql(const struct hx_stored_census *census, int64_t snapshot, struct hx_text *sql);

/* Appends an expression: the label of a key, which is an expression in SQL. */
void hx_census_label_sql(const struct hx_stored_census *census, const char *key,
                         struct hx_text *sql);

#endif
