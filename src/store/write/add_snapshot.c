/* add_snapshot.c - one snapshot into the store, in one transaction.
 *
 * The large tables go block by block: the columns of some blocks are gathered from the model and
 * compressed ahead by several threads, and inserted in order, so that memory beyond the model stays
 * at a few blocks (and four bytes an object for the count of incoming edges). What an analysis
 * finds follows, part by part (analyse.c); the row that makes the snapshot visible comes last. */
#include "store/write/writer.h"

#include "base/cleanup.h"
#include "base/lower_bound.h"
#include "store/db.h"
#include "store/objects/classes.h"
#include "store/store_private.h"
#include "store/write/alike.h"
#include "store/write/analyse.h"
#include "store/write/write_recording.h"

#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* --- the large tables -------------------------------------------------------------- */

/* Rows [from, to) of a family, gathered for one column. */
struct span {
    uint64_t from, to;
};

typedef void gather_fn(const struct hx_writer *w, const struct span *span, uint64_t *value);

static void gather_gap(const struct hx_writer *w, const struct span *span, uint64_t *value)
{
    const struct hx_graph *g = w->graph;
    *value++ = 0;
    for (uint64_t i = span->from + 1; i < span->to; i++)
        *value++ = g->addr[i] - (g->addr[i - 1] + g->size[i - 1]);
}

static void gather_size(const struct hx_writer *w, const struct span *span, uint64_t *value)
{
    memcpy(value, w->graph->size + span->from, (span->to - span->from) * sizeof *value);
}

static void gather_state(const struct hx_writer *w, const struct span *span, uint64_t *value)
{
    for (uint64_t i = span->from; i < span->to; i++)
        *value++ = w->graph->state ? w->graph->state[i] : HX_STATE_NONE;
}

static uint64_t edges_in(const struct hx_writer *w, uint64_t i)
{
    const hx_eidx *rev = w->graph->rev;
    return w->in ? w->in[i] : rev ? rev[i + 1] - rev[i] : 0;
}

static uint64_t edges_out(const struct hx_writer *w, uint64_t i)
{
    const hx_eidx *fwd = w->graph->fwd;
    return fwd ? fwd[i + 1] - fwd[i] : 0;
}

static void gather_in(const struct hx_writer *w, const struct span *span, uint64_t *value)
{
    for (uint64_t i = span->from; i < span->to; i++)
        *value++ = edges_in(w, i);
}

static void gather_out(const struct hx_writer *w, const struct span *span, uint64_t *value)
{
    for (uint64_t i = span->from; i < span->to; i++)
        *value++ = edges_out(w, i);
}

static void gather_type(const struct hx_writer *w, const struct span *span, uint64_t *value)
{
    for (uint64_t i = span->from; i < span->to; i++)
        *value++ = hx_writer_type(w, i);
}

static void gather_typed(const struct hx_writer *w, const struct span *span, uint64_t *value)
{
    for (uint64_t i = span->from; i < span->to; i++)
        *value++ = w->graph->typed[i];
}

static void gather_requested(const struct hx_writer *w, const struct span *span, uint64_t *value)
{
    for (uint64_t i = span->from; i < span->to; i++)
        *value++ = w->graph->requested[i] + 1; /* unknown: 0 */
}

static void gather_shape(const struct hx_writer *w, const struct span *span, uint64_t *value)
{
    for (uint64_t i = span->from; i < span->to; i++)
        *value++ = hx_writer_shape(w, i);
}

static void gather_stack(const struct hx_writer *w, const struct span *span, uint64_t *value)
{
    for (uint64_t i = span->from; i < span->to; i++)
        *value++ = (uint64_t)w->snapshot->sites.v[w->graph->site[i]].stack_id;
}

/* The object that an edge belongs to. */
static hx_obj source_of(const struct hx_graph *graph, hx_eidx edge)
{
    return (hx_obj)HX_LOWER_BOUND(graph->n, i, graph->fwd[i + 1] <= edge);
}

static void gather_target(const struct hx_writer *w, const struct span *span, uint64_t *value)
{
    const struct hx_graph *g = w->graph;
    hx_obj source = source_of(g, span->from);
    for (uint64_t e = span->from; e < span->to; e++) {
        while (e >= g->fwd[source + 1])
            source++;
        *value++ = hx_zigzag((int64_t)hx_edge_target(g->edge[e]) - (int64_t)source);
    }
}

static void gather_offset(const struct hx_writer *w, const struct span *span, uint64_t *value)
{
    for (uint64_t e = span->from; e < span->to; e++)
        *value++ = hx_edge_offset(w->graph->edge[e]) / 8;
}

static void gather_kind(const struct hx_writer *w, const struct span *span, uint64_t *value)
{
    for (uint64_t e = span->from; e < span->to; e++)
        *value++ = hx_edge_kind_of(w->graph->edge[e]);
}

static void gather_evidence(const struct hx_writer *w, const struct span *span, uint64_t *value)
{
    for (uint64_t e = span->from; e < span->to; e++)
        *value++ = HX_EVIDENCE_RULE(w->graph->evidence[e]);
}

static void gather_root(const struct hx_writer *w, const struct span *span, uint64_t *value)
{
    const struct hx_root_edge *edge = w->snapshot->root_edges.v;
    *value++ = 0;
    for (uint64_t e = span->from + 1; e < span->to; e++)
        *value++ = edge[e].root - edge[e - 1].root;
}

static void gather_root_target(const struct hx_writer *w, const struct span *span, uint64_t *value)
{
    const struct hx_root_edge *edge = w->snapshot->root_edges.v;
    int64_t before = 0;
    for (uint64_t e = span->from; e < span->to; e++) {
        *value++ = hx_zigzag((int64_t)edge[e].target - before);
        before = edge[e].target;
    }
}

static void gather_word(const struct hx_writer *w, const struct span *span, uint64_t *value)
{
    const struct hx_root_edge *edge = w->snapshot->root_edges.v;
    uint64_t before = 0;
    for (uint64_t e = span->from; e < span->to; e++) {
        *value++ = hx_zigzag((int64_t)(edge[e].address - before));
        before = edge[e].address;
    }
}

static void gather_root_kind(const struct hx_writer *w, const struct span *span, uint64_t *value)
{
    for (uint64_t e = span->from; e < span->to; e++)
        *value++ = w->snapshot->root_edges.v[e].kind;
}

static void gather_root_evidence(const struct hx_writer *w, const struct span *span,
                                 uint64_t *value)
{
    for (uint64_t e = span->from; e < span->to; e++)
        *value++ = HX_EVIDENCE_RULE(w->snapshot->root_edges.v[e].evidence);
}

static uint64_t first_page(const struct hx_range *range)
{
    return range->start / HX_PAGE_BYTES;
}

static uint64_t end_page(const struct hx_range *range)
{
    return (range->end + HX_PAGE_BYTES - 1) / HX_PAGE_BYTES;
}

static void gather_first_page(const struct hx_writer *w, const struct span *span, uint64_t *value)
{
    const struct hx_range *range = w->snapshot->resident.v;
    *value++ = 0;
    for (uint64_t i = span->from + 1; i < span->to; i++)
        *value++ = first_page(&range[i]) - end_page(&range[i - 1]);
}

static void gather_pages(const struct hx_writer *w, const struct span *span, uint64_t *value)
{
    const struct hx_range *range = w->snapshot->resident.v;
    for (uint64_t i = span->from; i < span->to; i++)
        *value++ = end_page(&range[i]) - first_page(&range[i]);
}

struct column {
    enum hx_column_id id;
    gather_fn *gather;
};
/* The first OBJECT_COLUMNS are always there, each of the others when somebody has looked. */
static const struct column object_columns[] = {
    {HX_COL_GAP, gather_gap},
    {HX_COL_SIZE, gather_size},
    {HX_COL_STATE, gather_state},
    {HX_COL_IN, gather_in},
    {HX_COL_OUT, gather_out},
    {HX_COL_TYPE, gather_type},
    {HX_COL_REQUESTED, gather_requested},
    {HX_COL_STACK, gather_stack},
    {HX_COL_SHAPE, gather_shape},
    {HX_COL_TYPED, gather_typed},
};
enum { OBJECT_COLUMNS = 5 };
/* Who the sources are follows from what goes out of each object. */
static const struct column edge_columns[] = {
    {HX_COL_TARGET, gather_target},
    {HX_COL_OFFSET, gather_offset},
    {HX_COL_KIND, gather_kind},
    {HX_COL_EVIDENCE, gather_evidence}, /* last: where words were judged */
};
static const struct column root_edge_columns[] = {
    {HX_COL_ROOT, gather_root},
    {HX_COL_ROOT_TARGET, gather_root_target},
    {HX_COL_WORD, gather_word},
    {HX_COL_KIND, gather_root_kind},
    {HX_COL_EVIDENCE, gather_root_evidence}, /* last: where words were judged */
};

static const struct column resident_columns[] = {
    {HX_COL_FIRST_PAGE, gather_first_page},
    {HX_COL_PAGES, gather_pages},
};

struct keys {
    uint64_t first, last, bytes;
};
typedef void keys_fn(struct hx_writer *w, const struct span *span, struct keys *ret);
typedef void classify_fn(const struct hx_writer *w, const struct span *span, uint16_t *class);

hx_error *hx_writer_put(struct hx_writer *w, int64_t block, enum hx_column_id column, size_t n)
{
    size_t bytes;
    HX_TRY(hx_column_encode(w->codec, w->value, NULL, n, w->blob, &bytes));
    return hx_alike_put(w, block, column, w->blob, bytes);
}

/* All rows of a family, and the columns that they have. */
struct family {
    struct hx_writer *w;
    enum hx_family id;
    uint64_t rows;
    struct column column[COUNT(object_columns)];
    size_t columns;
    keys_fn *keys;
    classify_fn *classify;                /* NULL: no column is placed */
    int64_t block;                        /* that pieces are put into */
    hx_ends *ends[COUNT(object_columns)]; /* of objects; NULL: none */
};

/* Piece i is a column of a block. */
static struct span span_of_piece(const struct family *family, size_t i)
{
    struct span span = {.from = (uint64_t)(i / family->columns) * HX_BLOCK_ROWS};
    uint64_t left = family->rows - span.from;
    span.to = span.from + (left < HX_BLOCK_ROWS ? left : HX_BLOCK_ROWS);
    return span;
}

static size_t gather_piece(const void *context, size_t i, uint64_t *value)
{
    const struct family *family = context;
    struct span span = span_of_piece(family, i);
    family->column[i % family->columns].gather(family->w, &span, value);
    hx_ends *ends = family->ends[i % family->columns];
    if (ends)
        hx_ends_take(ends, span.from, value, span.to - span.from);
    return span.to - span.from;
}

static void classify_rows(const void *context, size_t block, uint16_t *class)
{
    const struct family *family = context;
    struct span span = span_of_piece(family, block * family->columns);
    family->classify(family->w, &span, class);
}

static bool is_placed(const void *context, size_t i)
{
    const struct family *family = context;
    return hx_column_may_be_placed(family->id, family->column[i % family->columns].id);
}

static hx_error *put_block(struct hx_writer *w, enum hx_family family, const struct span *span,
                           const struct keys *keys, int64_t *ret)
{
    int64_t block = w->next_block;
    if (!hx_block_id_is_sane(block))
        return hx_error_new(HX_E_CORRUPT, w->what, "take it from a backup or make it again",
                            "the store is damaged (numbers of blocks)");
    w->next_block++;
    *ret = block;
    return hx_insert(&w->insert, block, .id = hx_int(block), .snapshot = hx_int(w->id),
                     .family = hx_int(family), .first_row = hx_int(span->from),
                     .n = hx_int(span->to - span->from), .first_key = hx_int(keys->first),
                     .last_key = hx_int(keys->last), .bytes = hx_int(keys->bytes));
}

static hx_error *put_piece(void *sink, size_t i, const void *blob, size_t bytes)
{
    struct family *family = sink;
    struct hx_writer *w = family->w;
    enum hx_column_id column = family->column[i % family->columns].id;
    if (i % family->columns == 0) {
        struct span span = span_of_piece(family, i);
        struct keys keys = {0};
        family->keys(w, &span, &keys);
        HX_TRY(put_block(w, family->id, &span, &keys, &family->block));
        w->rows_done += span.to - span.from;
    }
    hx_progress_at(w->progress, w->adding ? "storing" : "storing roots", w->rows_done,
                   w->rows_total);
    if (hx_progress_cancelled(w->progress))
        return hx_error_cancelled(w->what);
    return hx_alike_put(w, family->block, column, blob, bytes);
}

static hx_error *write_family(struct family *family)
{
    uint64_t blocks = (family->rows + HX_BLOCK_ROWS - 1) / HX_BLOCK_ROWS;
    struct hx_encode encode = {.pieces = (size_t)blocks * family->columns,
                               .context = family,
                               .gather = gather_piece,
                               .columns = family->columns,
                               .classify = family->classify ? classify_rows : NULL,
                               .is_placed = is_placed,
                               .put = put_piece,
                               .sink = family};
    return hx_encode(family->w->encoder, &encode, family->rows * family->columns);
}

static void find_object_keys(struct hx_writer *w, const struct span *span, struct keys *ret)
{
    const struct hx_graph *g = w->graph;
    *ret = (struct keys){g->addr[span->from], g->addr[span->to - 1], 0};
    for (uint64_t i = span->from; i < span->to; i++) {
        unsigned state = g->state && g->state[i] < HX_STATES ? g->state[i] : HX_STATE_NONE;
        w->state_bytes[state] += g->size[i];
        w->state_objects[state]++;
        ret->bytes += g->size[i];
    }
    w->heap_bytes += ret->bytes;
}

static void classify_objects(const struct hx_writer *w, const struct span *span, uint16_t *class)
{
    memcpy(class, w->class + span->from, (span->to - span->from) * sizeof *class);
}

static hx_error *write_objects(struct hx_writer *w)
{
    const struct hx_graph *g = w->graph;
    const bool known[] = {g->type, g->requested, g->site, g->shape, g->typed};
    struct family family = {.w = w,
                            .id = HX_FAMILY_OBJECT,
                            .rows = g->n,
                            .columns = OBJECT_COLUMNS,
                            .keys = find_object_keys,
                            .classify = classify_objects};
    memcpy(family.column, object_columns, sizeof object_columns);
    for (size_t i = OBJECT_COLUMNS; i < COUNT(object_columns); i++)
        if (known[i - OBJECT_COLUMNS])
            family.column[family.columns++] = object_columns[i];
    hx_error *err = NULL;
    int64_t first = w->next_block;
    for (size_t i = 0; i < family.columns && !err; i++)
        err = hx_writer_ends_begin(w, family.column[i].id, &family.ends[i]);
    if (!err)
        err = write_family(&family);
    for (size_t i = 0; i < family.columns; i++) {
        if (!err)
            err = hx_writer_ends_put(w, first, family.column[i].id, family.ends[i]);
        hx_ends_destroy(family.ends[i]);
    }
    for (size_t i = OBJECT_COLUMNS; i < COUNT(object_columns) && !err; i++)
        if (!known[i - OBJECT_COLUMNS])
            err = hx_writer_ends_alike(w, first, object_columns[i].id);
    return err;
}

static void find_edge_keys(struct hx_writer *w, const struct span *span, struct keys *ret)
{
    const struct hx_graph *g = w->graph;
    hx_obj first = source_of(g, span->from);
    *ret = (struct keys){first, source_of(g, span->to - 1), span->from - g->fwd[first]};
}

static void classify_edges(const struct hx_writer *w, const struct span *span, uint16_t *class)
{
    const hx_eidx *fwd = w->graph->fwd;
    hx_obj source = source_of(w->graph, span->from);
    uint64_t nth = 0;
    for (uint64_t e = span->from; e < span->to; e++, nth++) {
        while (e >= fwd[source + 1]) {
            source++;
            nth = 0;
        }
        *class ++ = hx_edge_class_of(w->class[source], nth);
    }
}

static hx_error *write_edges(struct hx_writer *w)
{
    struct family family = {.w = w,
                            .id = HX_FAMILY_EDGE,
                            .rows = w->graph->fwd ? w->graph->n_edges : 0,
                            .columns = COUNT(edge_columns) - !w->graph->evidence,
                            .keys = find_edge_keys,
                            .classify = classify_edges};
    memcpy(family.column, edge_columns, sizeof edge_columns);
    return write_family(&family);
}

static void find_root_edge_keys(struct hx_writer *w, const struct span *span, struct keys *ret)
{
    const struct hx_root_edge *edge = w->snapshot->root_edges.v;
    *ret = (struct keys){edge[span->from].root, edge[span->to - 1].root, 0};
}

hx_error *hx_writer_root_edges(struct hx_writer *w)
{
    struct family family = {.w = w,
                            .id = HX_FAMILY_ROOT_EDGE,
                            .rows = w->snapshot->root_edges.n,
                            .columns = COUNT(root_edge_columns) - !w->graph->evidence,
                            .keys = find_root_edge_keys};
    memcpy(family.column, root_edge_columns, sizeof root_edge_columns);
    return write_family(&family);
}

hx_error *hx_writer_no_root_edges(struct hx_writer *w)
{
    int64_t block;
    return put_block(w, HX_FAMILY_ROOT_EDGE, &(struct span){0}, &(struct keys){0}, &block);
}

static void find_page_keys(struct hx_writer *w, const struct span *span, struct keys *ret)
{
    const struct hx_range *range = w->snapshot->resident.v;
    *ret = (struct keys){first_page(&range[span->from]), first_page(&range[span->to - 1]), 0};
}

static hx_error *write_resident(struct hx_writer *w)
{
    struct family family = {.w = w,
                            .id = HX_FAMILY_RESIDENT,
                            .rows = w->snapshot->has_resident ? w->snapshot->resident.n : 0,
                            .columns = COUNT(resident_columns),
                            .keys = find_page_keys};
    memcpy(family.column, resident_columns, sizeof resident_columns);
    return write_family(&family);
}

/* Incoming edges in one pass over the edges when the reverse index is not there. */
static hx_error *count_incoming(struct hx_writer *w)
{
    const struct hx_graph *g = w->graph;
    if (g->rev || !g->fwd)
        return NULL;
    HX_TRY(hx_big_array(w->in, g->n));
    for (hx_eidx e = 0; e < g->n_edges; e++) {
        uint32_t *count = &w->in[hx_edge_target(g->edge[e])];
        if (++*count == 0)
            return hx_error_new(HX_E_FAIL, w->what, NULL,
                                "an object with more than 2^32 references");
    }
    return NULL;
}

static hx_error *classify_all(struct hx_writer *w)
{
    HX_TRY(hx_big_array(w->class, w->graph->n));
    for (uint64_t i = 0; i < w->graph->n; i++)
        w->class[i] = hx_class_of(w->graph->size[i], edges_in(w, i), edges_out(w, i));
    return NULL;
}

/* --- the transaction --------------------------------------------------------------- */

static hx_error *find_next_block(struct hx_writer *w)
{
    return hx_db_int(w->db, w->what,
                     w->overlay ? "SELECT max(coalesce((SELECT max(id) FROM main.hx_block), 0),"
                                  " coalesce((SELECT max(id) FROM temp.hx_block), 0)) + 1"
                                : "SELECT coalesce(max(id), 0) + 1 FROM hx_block",
                     &w->next_block);
}

hx_error *hx_writer_prepare(struct hx_writer *w)
{
    HX_TRY(find_next_block(w));
    w->insert = (struct hx_inserter){.db = w->db, .what = w->what};
    HX_TRY(hx_codec_create(&w->codec));
    w->value = malloc(HX_BLOCK_ROWS * sizeof *w->value);
    w->blob = malloc(hx_column_bound(HX_BLOCK_ROWS));
    HX_NEED(w->value && w->blob);
    return hx_encoder_create(w->threads, &w->encoder);
}

hx_error *hx_writer_leave(struct hx_writer *w)
{
    if (!w->apart)
        return NULL;
    HX_TRY(hx_db_exec(w->db, w->what, "COMMIT"));
    if (w->apart->leave)
        w->apart->leave(w->apart->context);
    return NULL;
}

hx_error *hx_writer_enter(struct hx_writer *w, hx_error *err)
{
    if (!w->apart)
        return err;
    if (w->apart->enter)
        w->apart->enter(w->apart->context);
    HX_TRY(err);
    HX_TRY(hx_db_exec(w->db, w->what, w->overlay ? "BEGIN" : "BEGIN IMMEDIATE"));
    return find_next_block(w); /* others may have written */
}

static hx_error *write_snapshot(struct hx_writer *w, const struct hx_analysis *analysis)
{
    HX_TRY(hx_db_int(w->db, w->what, "SELECT coalesce(max(snapshot), 0) + 1 FROM hx_snapshot",
                     &w->id));
    HX_TRY(hx_writer_prepare(w));
    HX_TRY(hx_writer_recorded(w));
    HX_TRY(count_incoming(w));
    HX_TRY(classify_all(w));
    HX_TRY(write_objects(w));
    hx_big_free(&w->in_mem);
    HX_TRY(write_edges(w));
    HX_TRY(hx_writer_root_edges(w));
    HX_TRY(write_resident(w));
    HX_TRY(hx_writer_records(w));
    HX_TRY(hx_writer_recording(w));
    if (analysis && hx_can_analyse(w->snapshot))
        HX_TRY(hx_analyse(w, analysis, analysis->parts ? analysis->parts : HX_ANALYSE_ALL));
    return hx_writer_summary(w); /* last: with it the snapshot exists */
}

void hx_writer_deinit(struct hx_writer *w)
{
    hx_inserter_deinit(&w->insert);
    sqlite3_finalize(w->same);
    sqlite3_finalize(w->packed);
    hx_codec_destroy(w->codec);
    hx_encoder_destroy(w->encoder);
    free(w->value);
    free(w->blob);
    hx_big_free(&w->in_mem);
    hx_big_free(&w->class_mem);
    hx_vec_free(&w->objects);
    free(w->holding);
    hx_scheme_rule_deinit(&w->roots);
    hx_text_free(&w->notes);
    hx_recorded_destroy(w->recorded);
}

/* Moves the log into the file and gives its room back, unless a reader needs it now. Done
 * after each snapshot, a failed one included: on a full disk the log of the failed one must
 * not take the room that the finished ones need. */
static void empty_log(hx_store *store)
{
    sqlite3_busy_timeout(store->db, 0);
    sqlite3_wal_checkpoint_v2(store->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    sqlite3_busy_timeout(store->db, HX_STORE_BUSY_MS);
}

hx_error *hx_store_end(hx_store *store, hx_error *err)
{
    if (!err)
        err = hx_db_exec(store->db, store->path, "COMMIT");
    /* a full disk may have rolled it back already */
    if (err && !sqlite3_get_autocommit(store->db))
        hx_error_free(hx_db_exec(store->db, store->path, "ROLLBACK"));
    if (store->writer)
        empty_log(store);
    return err;
}

hx_error *hx_store_add(hx_store *store, struct hx_snapshot *snapshot,
                       const struct hx_analysis *analysis, const struct hx_progress *progress,
                       int64_t *ret)
{
    if (!store->writer)
        return hx_error_new(HX_E_FAIL, store->path, NULL, "the store is open for reading only");
    HX_TRY(hx_store_attributed_end(store));
    struct hx_writer w = {
        .db = store->db,
        .what = store->path,
        .snapshot = snapshot,
        .graph = &snapshot->graph,
        .adding = true,
        .progress = progress,
        .threads = analysis ? analysis->threads : 0,
        .rows_total = snapshot->graph.n + snapshot->graph.n_edges + snapshot->root_edges.n,
    };
    HX_TRY(hx_db_exec(store->db, store->path, "BEGIN IMMEDIATE"));
    hx_error *err = write_snapshot(&w, analysis);
    hx_writer_deinit(&w);
    err = hx_store_end(store, err);
    if (err)
        return err;
    store->added = true;
    *ret = w.id;
    return NULL;
}
