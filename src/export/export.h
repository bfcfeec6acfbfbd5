/* export.h - rows of a store in the formats of other programs.
 *
 * A format is one file: src/export/FOLDER/NAME.c with a `const struct hx_exporter
 * hx_export_NAME`, a line in HX_EXPORTS below, a line in Makefile.am, a test in test/export, a
 * paragraph in heapx-export(1). `heapx export`, its help and its errors come from the table.
 * Exporters ask views, named queries (store/query/named.h) and censuses, and hold no SQL;
 * store/schema/measured.h refuses what was never measured. What they write goes into a sink.
 */
#ifndef HX_EXPORT_EXPORT_H
#define HX_EXPORT_EXPORT_H

#include "base/progress.h"
#include "base/text.h"
#include "export/sink.h"
#include "store/census.h"
#include "store/cost/attribution.h"
#include "store/cost/stacktree.h"
#include "store/store.h"

/* The formats, in the order in which they are shown. */
#define HX_EXPORTS(X)                                                                              \
    X(hp)                                                                                          \
    X(prof)                                                                                        \
    X(eventlog)                                                                                    \
    X(svg)                                                                                         \
    X(dot)                                                                                         \
    X(json)                                                                                        \
    X(jsonl)                                                                                       \
    X(csv)                                                                                         \
    X(heapsnapshot)                                                                                \
    X(folded)                                                                                      \
    X(pprof)                                                                                       \
    X(speedscope)                                                                                  \
    X(flamegraph)

/* What is asked for. */
struct hx_export {
    hx_store *store;
    int64_t snapshot;                   /* its number; 0: all of them */
    const char *by;                     /* a word of the format's list; NULL: not said */
    const char *title;                  /* what the store is called: a file name; not escaped */
    uint64_t object;                    /* --object: an address */
    bool has_object;                    /* it was given */
    const struct hx_analysis *analysis; /* as the call chose it */
    const struct hx_attribution *attribution; /* the same: whose cost centres */
    const struct hx_progress *progress;
    struct hx_text *notes; /* sentences, a line each: what the format could not say; for people */
};

/* Which snapshots one file of a format can hold; by default all where it can, else the last. */
enum hx_export_span { HX_EXPORT_ONE, HX_EXPORT_SERIES };

struct hx_exporter {
    const char *name;
    const char *about; /* for the help: at most 60 characters, no full stop */
    const char *by;    /* words of --by that it takes, with one blank between; "*": the censuses */
    unsigned censuses; /* these: with one of the marks HX_CENSUS_... */
    enum hx_export_span span;
    bool binary; /* not for terminals */
    /* Is --object of any meaning? */
    bool takes_object;
    /* With by NULL it chooses by what the store has. Without data: HX_E_ABSENT, and nothing is
     * written. */
    hx_error *(*write)(const struct hx_export *export, struct hx_sink *sink);
};
extern const struct hx_exporter *const hx_exporters[]; /* ends with NULL */

const struct hx_exporter *hx_exporter_find(const char *name); /* NULL when unknown */

/* Appends all words of --by that it takes. */
void hx_export_words(const struct hx_exporter *exporter, struct hx_text *words);
/* Is `word` one of the words of a list with one blank between? */
bool hx_export_has_word(const char *list, const char *word);

/* Is there any row of the census in what is asked for? */
hx_error *hx_export_has(const struct hx_export *export, const struct hx_stored_census *census,
                        bool *ret);

/* What to break the heap down by when nobody said it: the first census with rows in what is asked
 * for; the first of all when none has. */
hx_error *hx_export_choose(const struct hx_export *export, const struct hx_stored_census **ret);

/* The error of a break-down that the store has no data of. */
hx_error *hx_export_absent(const struct hx_export *export, const char *by);

/* The error of rows that no heapx has written. */
hx_error *hx_export_damaged(const struct hx_export *export, const char *what);

/* The stacks of the store; that error when they are no tree. */
hx_error *hx_export_stacktree(const struct hx_export *export, enum hx_stacktree_of of,
                              struct hx_stacktree *ret);

#endif
