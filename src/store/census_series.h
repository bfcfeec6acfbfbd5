/* census_series.h - one census over all snapshots of a store: its largest rows as bands, and what
 * they leave.
 *
 * The rows of all snapshots are added up as they are read, and never kept; those of the largest are
 * then read once more.
 */
#ifndef HX_STORE_CENSUS_SERIES_H
#define HX_STORE_CENSUS_SERIES_H

#include "base/progress.h"
#include "base/vec.h"
#include "store/census.h"
#include "store/query.h"

/* What tells a row of a census apart in all snapshots: a number, or (text not NULL) a text. */
struct hx_band_key {
    int64_t number;
    char *text; /* owned */
};

struct hx_census_band {
    struct hx_band_key key;
    char *label;      /* as the target gave it; owned */
    int64_t *bytes;   /* in each snapshot; owned */
    int64_t *objects; /* -1: not counted; owned */
};

/* Invariants: the arrays have n entries, in the order of the snapshots' numbers. Bands stand in the
 * order of their area over time, the largest first; `rest` is all others. Bytes and objects are 0
 * where a row is not there but its census is, so that bands and rest add up to the census. */
struct hx_census_series {
    const struct hx_stored_census *census;
    size_t n;
    int64_t *snapshot;
    double *time;   /* seconds since the first; never falls */
    int64_t *total; /* of the snapshot: what the census adds up to; -1: not measured */
    int64_t *rss;   /* -1: not measured */
    bool *known;    /* the census was made of it */
    struct hx_census_band *band;
    size_t n_bands;
    struct hx_census_band rest;
    size_t n_rest; /* rows in it; 0: there is none */
    size_t n_known;
    char *scheme;  /* of retainer sets: the one that is shown; owned; NULL: none */
    bool named;    /* of bins: some root has a name */
    bool *differs; /* of bins: other roots have names than in those that are known */
};

/* What to read. */
struct hx_census_series_request {
    const struct hx_stored_census *census; /* NULL: the best there is */
    size_t most;                           /* bands and rest */
    /* All rows as they are, whatever they were made by; the order is that of sums, `most` is
     * without the rest, and an empty heap is none that the census was made of. */
    bool plain;
    const char *scheme; /* of retainer sets; NULL: that of `snapshot` */
    int64_t snapshot;   /* its scheme and named roots, where it has some and nothing else is said */
    const struct hx_band_key *without; /* rows that are left out */
    size_t n_without;
};

hx_error *hx_census_series_read(hx_store *store, const struct hx_census_series_request *request,
                                const struct hx_progress *progress, struct hx_census_series **ret);
void hx_census_series_destroy(struct hx_census_series *series); /* NULL is legal */

/* The place of a snapshot; n when it is not there. */
size_t hx_census_series_find(const struct hx_census_series *series, int64_t snapshot);

bool hx_band_key_same(const struct hx_band_key *a, const struct hx_band_key *b);
hx_error *hx_band_key_copy(const struct hx_band_key *from, struct hx_band_key *ret);

#endif
