/* writer.h - what the files that write a snapshot into the store share.
 *
 * Table names in their statements are bare, so that temporary tables of the same names
 * (hx_schema_overlay()) take the place of the file's own.
 */
#ifndef HX_STORE_WRITE_WRITER_H
#define HX_STORE_WRITE_WRITER_H

#include "base/text.h"
#include "store/objects/ends.h"
#include "store/objects/packed_column.h"
#include "store/schema/row.h"
#include "store/schema/schema.h"
#include "store/store.h"
#include "store/write/encode.h"
#include "traverse/retain/scheme.h"

#include <string.h>

#define HX_PAGE_BYTES 4096 /* of HX_FAMILY_RESIDENT, whatever the machine's are */

/* Rows [from, to) of the objects: where they lie. */
struct hx_object_block {
    int64_t id;
    uint64_t from, to;
};

struct hx_recorded;
struct hx_writer {
    sqlite3 *db;
    const char *what;
    struct hx_snapshot *snapshot; /* as it was, but while its edges are chosen (analyse.c) */
    const struct hx_graph *graph;
    const struct hx_progress *progress;
    int64_t id; /* of the snapshot */
    int64_t next_block;
    struct hx_inserter insert;
    unsigned threads; /* 0: decide */
    hx_encoder *encoder;
    hx_codec *codec;
    uint64_t *value; /* HX_BLOCK_ROWS */
    uint8_t *blob;   /* hx_column_bound() */
    uint32_t *in;    /* incoming edges of each object; NULL: take graph.rev */
    struct hx_big in_mem;
    uint16_t *class; /* of each object (classes.h) */
    struct hx_big class_mem;
    struct hx_early_columns *early; /* NULL: none, or written; owned */
    uint64_t rows_done, rows_total;
    uint64_t state_bytes[HX_STATES], state_objects[HX_STATES], heap_bytes;

    int64_t before; /* the last snapshot of the same process; 0: none near (alike.h) */
    bool before_known;
    sqlite3_stmt *same, *packed;

    bool adding;                  /* a new snapshot, not one that is revised */
    struct hx_recorded *recorded; /* write_recording.h; NULL: it is revised */

    /* what the analysis leaves for the snapshot's row */
    HX_VEC(struct hx_object_block) objects;
    unsigned parts;     /* enum hx_analysis_part: done */
    const char *scheme; /* of the retainer sets; NULL: none made */
    struct hx_int stray_edges, doubt_bytes;

    struct hx_scheme_rule roots; /* the scheme root, once hx_analyse_roots() was called */
    bool has_roots;
    int64_t *holding; /* of identities of the scheme root: rows in hx_holding; NULL: none made */
    size_t n_holding;
    struct hx_text notes;         /* beside those of the snapshot */
    const struct hx_apart *apart; /* NULL: all is one transaction */
    bool overlay;
};

/* Around what computes for long and needs no statement. Gives the error on; where there was none,
 * the transaction goes on. */
hx_error *hx_writer_leave(struct hx_writer *w);
hx_error *hx_writer_enter(struct hx_writer *w, hx_error *err);

/* Statements and buffers; needed by all below but hx_writer_leaks(). */
hx_error *hx_writer_prepare(struct hx_writer *w);
void hx_writer_deinit(struct hx_writer *w);

/* Writes w->value[0 .. n) as a column of a block. */
hx_error *hx_writer_put(struct hx_writer *w, int64_t block, enum hx_column_id column, size_t n);

/* The ends of the order by a column of objects (ends.h) while it is written; *ret is NULL where
 * none are stored. Then the values (hx_ends_take()); then the rows of its column, in the first
 * block of objects. */
hx_error *hx_writer_ends_begin(const struct hx_writer *w, enum hx_column_id column, hx_ends **ret);
/* The same of a column that is absent, in which all rows are alike. */
hx_error *hx_writer_ends_alike(struct hx_writer *w, int64_t block, enum hx_column_id column);
hx_error *hx_writer_ends_put(struct hx_writer *w, int64_t block, enum hx_column_id column,
                             hx_ends *ends);

/* A row of the snapshot (row.h). */
#define hx_write(w, table, ...)                                                                    \
    hx_insert(&(w)->insert, table, .snapshot = hx_int((w)->id), __VA_ARGS__)

/* The number of an object's type in hx_type; 0: unknown. */
static inline uint32_t hx_writer_type(const struct hx_writer *w, uint64_t object)
{
    const uint32_t *type = w->graph->type;
    return type && type[object] < w->snapshot->types.n ? type[object] + 1 : 0;
}

/* The number of an object's shape in hx_shape; 0: unknown. */
static inline uint32_t hx_writer_shape(const struct hx_writer *w, uint64_t object)
{
    const uint16_t *shape = w->graph->shape;
    return shape && shape[object] < w->snapshot->shapes.n ? shape[object] + 1u : 0;
}

/* Rows that are not there yet: all roots, or those of kind named; what they point to; names. */
hx_error *hx_writer_roots(struct hx_writer *w, bool named_only);
hx_error *hx_writer_root_edges(struct hx_writer *w);
hx_error *hx_writer_named(struct hx_writer *w);
hx_error *hx_writer_bare(struct hx_writer *w);
hx_error *hx_writer_layouts(struct hx_writer *w);
struct hx_int hx_writer_typed_bytes(const struct hx_writer *w); /* NULL: nobody looked */

/* What is lost, by kind, type and site. */
hx_error *hx_writer_leaks(struct hx_writer *w);

/* All small tables but hx_snapshot; needs the sums that writing the objects leaves. Then that. */
hx_error *hx_writer_records(struct hx_writer *w);
hx_error *hx_writer_summary(struct hx_writer *w);

/* A block of no rows: in an overlay it says that the snapshot has no root edges (overlay.h). */
hx_error *hx_writer_no_root_edges(struct hx_writer *w);

/* Puts the notes that were there before (NULL: none), and those of the snapshot and of the analysis
 * that are not among them. */
hx_error *hx_writer_losses(struct hx_writer *w);
hx_error *hx_writer_notes(const struct hx_writer *w, const char *before, struct hx_text *ret);

/* hx_snapshot.taken_at: ISO 8601 in UTC with milliseconds. */
void hx_writer_time(int64_t ns, char *buf, size_t size);

/* Ends the transaction: with `err` rolls it back. Gives the error on. */
hx_error *hx_store_end(hx_store *store, hx_error *err);

#endif
