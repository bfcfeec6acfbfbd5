/* bands.h - break-downs over time as GHC's formats want them: samples, and in each of them bands,
 * that is a name with its bytes.
 *
 * Band names follow GHC: "(12)a,b" is retainer set 12 of a and b, "MANY" the saturated one,
 * "(7)f/g/main" cost-centre stack 7 with the innermost centre first, "MAIN" the outermost alone.
 * Two bands never have one name: where clean ones would be the same, they are numbered.
 */
#ifndef HX_EXPORT_GHC_BANDS_H
#define HX_EXPORT_GHC_BANDS_H

#include "export/timepoints.h"
#include "store/query/named.h"

/* What a name may be made of. Control characters and what is no UTF-8 are always escaped. */
enum hx_band_form {
    HX_BAND_WORD, /* no blanks, no keyword of .hp files, no number: one word of a file of words */
    HX_BAND_TEXT,
};

/* Words of --by: the censuses, and what an object is as far as it is known. */
#define HX_BANDS_BY "* kind"

struct hx_band {
    uint64_t bytes;
    int64_t id;       /* of a set or stack */
    const char *name; /* as the form wants it; until the next one. NULL: not asked for */
    const char *key;  /* HX_KEY_TEXT: as stored; NULL: none */
    size_t key_bytes;
};

struct hx_band_name {
    size_t key, key_bytes; /* in texts */
    size_t name;
};

struct hx_bands {
    const struct hx_export *export;
    const struct hx_stored_census *census;
    struct hx_timepoints timepoints;
    struct hx_stacktree tree; /* of labels that are stacks */
    bool named;               /* bands have names; may be turned off before the first sample */

    enum hx_band_form form;
    size_t limit; /* bytes of a name */
    hx_rows *rows;
    bool more;  /* `rows` stands on a row */
    bool given; /* and it was given out */
    size_t next_timepoint;
    const struct hx_timepoint *timepoint;
    uint64_t sum;                      /* of the sample so far */
    HX_VEC(struct hx_band_name) names; /* HX_KEY_TEXT: sorted by key */
    HX_VEC(char) texts;
    struct hx_text text, scratch;
    uint64_t cut, absent; /* names cut, samples without data */
};

/* Begins with the break-down export->by; where it is NULL, with the first that there is data of.
 * HX_E_ABSENT: without data. To be given back also after an error. */
hx_error *hx_bands_begin(const struct hx_export *export, enum hx_band_form form, size_t limit,
                         struct hx_bands *bands);
void hx_bands_deinit(struct hx_bands *bands);
#define HX_BANDS __attribute__((cleanup(hx_bands_deinit)))

/* What the target is called: its program, else its name, else the store's. Not escaped. */
const char *hx_timepoints_program(const struct hx_timepoints *timepoints,
                                  const struct hx_export *export);

/* A moment as GHC writes dates, "Sat Nov 21 06:25 2026", in UTC, so that a store gives one file
 * everywhere. Returns buf. */
#define HX_BAND_DATE 64
const char *hx_band_date(int64_t at_ns, char buf[HX_BAND_DATE]);

/* The next sample, *ret NULL at the end: then export->notes say what could not be written.
 * Snapshots of which the break-down was not made are left out. */
hx_error *hx_bands_sample(struct hx_bands *bands, const struct hx_timepoint **ret);

/* The next band of the sample, the largest first; *ret_more false at its end. */
hx_error *hx_bands_next(struct hx_bands *bands, struct hx_band *ret, bool *ret_more);

/* Appends a text by the rules of a form. */
void hx_band_clean(struct hx_text *text, enum hx_band_form form, const char *s, size_t n);

/* Makes a text that is longer than `limit` end in "..."; cuts between characters, and says whether
 * it did. The limit is 8 or more. */
bool hx_band_cut(struct hx_text *text, size_t limit);

/* For bands.c: names the keys in bands->names. */
hx_error *hx_bands_name_keys(struct hx_bands *bands);

#endif
