/* histogram.h - any objects of a snapshot, broken down by what they are. */
#ifndef HX_STORE_QUERY_HISTOGRAM_H
#define HX_STORE_QUERY_HISTOGRAM_H

#include "store/query.h"

/* age: since which snapshot it has been there, as object_facts of named.h has it. */
#define HX_HISTOGRAMS(X) X(type) X(shape) X(size) X(site) X(age) X(state)

extern const char *const hx_histogram_words[]; /* ends with NULL */
/* By type, and what has none by shape: no word of a command. */
#define HX_HISTOGRAM_NAMES "type or shape"

/* Columns of the rows, as those of a view. */
extern const struct hx_filter_schema hx_histogram_schema;

/* What objects may be chosen by: columns of `objects`; `set` (set_id); `retainer`, one of the names
 * in its set, and `thread`, the same of threads; `label`, all of the set; `root`, the name of a
 * root that points to it. HX_E_USAGE for what is no such condition. Appends the condition on
 * `objects`.
 */
hx_error *hx_objects_where(const char *text, int64_t snapshot, struct hx_text *ret);

/* Appends a statement: snapshot, key, bytes, objects of what is chosen by a condition on `objects`
 * ("": all), by one of the words. The rows add up to what is chosen. */
void hx_histogram_sql(const char *by, int64_t snapshot, const char *where, struct hx_text *sql);
/* The same of a list: how many rows they are, and the bytes of all. */
void hx_histogram_facts(const char *by, int64_t snapshot, const char *where, struct hx_text *sql);

struct hx_histogram {
    const char *of; /* of hx_objects_where(); NULL: all */
    const char *by;
};
/* Its rows as those of a view, the largest first; the query's view does not matter. */
hx_error *hx_query_histogram(hx_store *store, const struct hx_histogram *histogram,
                             const struct hx_query *query, hx_rows **ret);

#endif
