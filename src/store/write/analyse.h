/* analyse.h - what is worked out of a snapshot, computed and written part by part.
 *
 * Each part is computed, written and freed before the next one begins, so that no two need
 * memory at once.
 */
#ifndef HX_STORE_WRITE_ANALYSE_H
#define HX_STORE_WRITE_ANALYSE_H

#include "base/parallel.h"
#include "store/write/writer.h"
#include "traverse/dominate/dominators.h"
#include "traverse/key_sums.h"

/* Has the snapshot what an analysis needs: a heap, edges, states? */
bool hx_can_analyse(const struct hx_snapshot *snapshot);

/* Within a transaction; objects and roots are written. Old rows of the parts (enum
 * hx_analysis_part) go. What the snapshot's own row must say is left in w. Of a new one
 * the rule is kept in any case. */
hx_error *hx_analyse(struct hx_writer *w, const struct hx_analysis *analysis, unsigned parts);

/* How threads were told of in a snapshot, or in the last one before it that tells. */
hx_error *hx_analysed_threads(sqlite3 *db, const char *what, int64_t number,
                              enum hx_threads_as *ret);
/* The same of what edges were looked at. */
hx_error *hx_analysed_hold(sqlite3 *db, const char *what, int64_t number,
                           struct hx_hold_options *ret);

/* --- for the parts --- */

/* Finds the blocks of objects, and how their rows lie. hx_analyse() does it by itself. */
hx_error *hx_analyse_prepare(struct hx_writer *w);

/* Fills value[0 .. to - from) with what a column says of objects [from, to). Several threads do. */
typedef void hx_gather_fn(const void *context, uint64_t from, uint64_t to, uint64_t *value);

/* Writes a column of all objects. */
hx_error *hx_analyse_column(struct hx_writer *w, enum hx_column_id column, hx_gather_fn *gather,
                            const void *context);
/* The same where lists order by what is made of it and of others: `ordered` tells these values, as
 * they are served. */
hx_error *hx_analyse_ordered(struct hx_writer *w, enum hx_column_id column, hx_gather_fn *gather,
                             hx_gather_fn *ordered, const void *context);

/* Makes w->roots, who the roots are, on the first call. */
hx_error *hx_analyse_roots(struct hx_writer *w, const struct hx_analysis *analysis);

/* Runs a statement whose only parameter is the snapshot. */
hx_error *hx_analyse_forget(struct hx_writer *w, const char *sql);

/* Do the rows of a census sum to the heap, exactly? Else it is better not to store them. */
hx_error *hx_analyse_adds_up(const struct hx_writer *w, const struct hx_key_sums *census,
                             const char *name);

hx_error *hx_analyse_is_heap(const struct hx_writer *w, uint64_t bytes, uint64_t objects,
                             const char *name);

/* w->value = a column that was written before. */
hx_error *hx_analyse_read_back(struct hx_writer *w, const struct hx_object_block *block,
                               enum hx_column_id column);

/* Writes the pages of a census; `number` (NULL: the key itself) tells the number in the store. */
hx_error *hx_analyse_pages(struct hx_writer *w, const struct hx_key_sums *census, const char *name,
                           int64_t (*number)(const void *context, uint32_t key),
                           const void *context);

/* retained.c: dominators that are found while other parts are; zeroed: they are not. */
struct hx_dominators_aside {
    struct hx_aside aside;
    const struct hx_snapshot *snapshot;
    const uint32_t *of_root; /* who the roots are; NULL: what each alone keeps is not wanted */
    struct hx_progress progress;
    bool begun;
    hx_error *err;
    struct hx_dominators dominators;
    struct hx_big alone; /* alone.h, of the scheme root */
};

/* Begins it where there are threads for it: from then on the edges stay as they are until the next
 * two are called. */
hx_error *hx_dominators_begin(struct hx_writer *w, const struct hx_analysis *analysis,
                              unsigned parts, struct hx_dominators_aside *ret);
/* Of HX_ANALYSE_RETAINED, _SURE and _TYPES those that `parts` has. Takes what was begun. */
hx_error *hx_analyse_retained(struct hx_writer *w, const struct hx_analysis *analysis,
                              unsigned parts, struct hx_dominators_aside *aside);
/* Ends it in any case. */
void hx_dominators_end(struct hx_dominators_aside *aside);
/* Types without what they retain. */
hx_error *hx_analyse_types(struct hx_writer *w);

#endif
