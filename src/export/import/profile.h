/* profile.h - a heap profile of a Haskell program on its way from a file into a store.
 *
 * Whoever reads a format puts samples and rows here; rows keep their texts in the file. When all of
 * the file has been read and tested, hx_profile_store() makes names, sets and stacks of the texts,
 * tests these, and only then writes a snapshot for each sample.
 */
#ifndef HX_EXPORT_IMPORT_PROFILE_H
#define HX_EXPORT_IMPORT_PROFILE_H

#include "base/pairs.h"
#include "base/text.h"
#include "base/vec.h"
#include "export/import/import.h"
#include "store/write/imported.h"

/* By what a profile breaks the heap down; the numbers are those of event logs. */
enum hx_breakdown {
    HX_BREAKDOWN_UNKNOWN, /* its rows tell */
    HX_BREAKDOWN_CENTRE,
    HX_BREAKDOWN_MODULE,
    HX_BREAKDOWN_CLOSURE,
    HX_BREAKDOWN_TYPE,
    HX_BREAKDOWN_RETAINER,
    HX_BREAKDOWN_BIOGRAPHY,
    HX_BREAKDOWN_CLOSURE_TYPE,
    HX_BREAKDOWN_INFO_TABLE,
    HX_BREAKDOWN_ERA,
    HX_BREAKDOWN_NEWER, /* one that later runtimes have: its rows are taken for types */
    HX_BREAKDOWNS,
};
const char *hx_breakdown_name(enum hx_breakdown breakdown); /* "type description" */

/* What the options of a run say of its profile; words between blanks. UNKNOWN: nothing. */
enum hx_breakdown hx_breakdown_of_option(const char *word, size_t n);

struct hx_profile_text {
    size_t at, n; /* bytes of the file */
};

struct hx_profile_row {
    uint64_t bytes;
    struct hx_profile_text text; /* of a stack: where its numbers are, and how many */
    uint32_t profile;            /* in profiles */
    bool is_stack;               /* numbers of cost centres, innermost first */
};

struct hx_profile_sample {
    uint64_t time_ns;     /* since the run began */
    size_t at;            /* where it begins in the file */
    size_t first, n;      /* in rows */
    struct hx_text notes; /* of its own */
};

/* What was begun under one number. */
struct hx_profile_kind {
    uint8_t number;
    bool begun; /* the file says what it is */
    enum hx_breakdown breakdown;
    size_t at;
};

struct hx_profile_centre {
    uint32_t id;
    const char *label, *module, *source; /* in the file, with an end mark */
    bool is_caf;
    uint32_t number; /* hx_imported_centre() */
};

/* What stands behind the address of an info table. */
struct hx_profile_table {
    uint64_t address;
    const char *name, *type, *label, *module, *source; /* in the file, with an end mark */
};

enum hx_profile_loss {
    HX_LOSS_NEWER_EVENTS,
    HX_LOSS_NEWER_BYTES,
    HX_LOSS_TICKS,
    HX_LOSS_OUTSIDE,
    HX_LOSS_UNFINISHED,
    HX_LOSS_SECOND,
    HX_LOSS_BEHIND,
    HX_LOSSES,
};

#define HX_PROFILE_KINDS 256

struct hx_profile {
    struct hx_import *import;
    HX_VEC(struct hx_profile_row) rows;
    HX_VEC(struct hx_profile_sample) samples;
    HX_VEC(struct hx_profile_kind) kinds;
    HX_VEC(struct hx_profile_centre) centres;
    HX_VEC(struct hx_profile_table) tables;
    struct hx_pairs centre_by_id, table_by_address;

    bool has_clock;           /* began_ns is a time of day */
    int64_t began_ns;         /* since 1970-01-01 UTC */
    int64_t pid;              /* 0: unknown */
    char *comm, *exe;         /* NULL: unknown */
    enum hx_breakdown option; /* what the program was called with */
    size_t name_bytes;        /* where it cuts names; 0: not said, SIZE_MAX: nowhere */
    struct hx_text notes;     /* of all samples */
    uint64_t lost[HX_LOSSES];
    bool cut;      /* the file ends too early, */
    size_t cut_at; /* here */
};

void hx_profile_deinit(struct hx_profile *profile);
#define HX_PROFILE __attribute__((cleanup(hx_profile_deinit)))

/* A sentence into notes. */
void hx_profile_note(struct hx_text *notes, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* One word of the program's call. */
void hx_profile_option(struct hx_profile *profile, const char *word, size_t n);
/* Its first word; bytes that are no UTF-8 become U+FFFD. */
hx_error *hx_profile_program(struct hx_profile *profile, const char *path, size_t n);

/* The index of what was begun under a number; it is made where there is none. */
hx_error *hx_profile_kind(struct hx_profile *profile, uint8_t number, size_t at, uint32_t *ret);

/* Is the text UTF-8 without NUL? An error tells the first byte that is not. */
hx_error *hx_profile_utf8(const struct hx_import *import, size_t at, size_t n);

hx_error *hx_profile_store(struct hx_profile *profile);

#endif
