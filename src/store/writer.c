/* writer.c - one snapshot into the store, in one transaction.
 *
 * The large tables go block by block: a block's columns are gathered from the model,
 * compressed and inserted before the next one begins, so that memory beyond the model
 * stays at a block (and four bytes an object for the count of incoming edges). */
#include "store/store.h"

#include "base/cleanup.h"
#include "store/column.h"
#include "store/db.h"
#include "store/schema.h"
#include "store/store_private.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

struct writer {
    sqlite3 *db;
    const char *what;
    const struct hx_snapshot *snapshot;
    const struct hx_graph *graph;
    const struct hx_progress *progress;
    int64_t id;
    sqlite3_stmt *block, *column;
    hx_codec *codec;
    uint64_t *value; /* HX_BLOCK_ROWS */
    uint8_t *blob;   /* hx_column_bound() */
    uint32_t *in;    /* incoming edges of each object; NULL: take graph.rev */
    struct hx_big in_mem;
    uint64_t rows_done, rows_total;
    uint64_t state_bytes[HX_STATES], state_objects[HX_STATES], heap_bytes;
};

/* --- the large tables -------------------------------------------------------------- */

/* Rows [from, to) of a family, gathered for one column. */
struct span {
    uint64_t from, to;
    hx_obj source; /* edges: the object that edge `from` belongs to */
};

typedef void gather_fn(const struct writer *w, const struct span *span, uint64_t *value);

static void gather_gap(const struct writer *w, const struct span *span, uint64_t *value)
{
    const struct hx_graph *g = w->graph;
    *value++ = 0;
    for (uint64_t i = span->from + 1; i < span->to; i++)
        *value++ = g->addr[i] - (g->addr[i - 1] + g->size[i - 1]);
}

static void gather_size(const struct writer *w, const struct span *span, uint64_t *value)
{
    memcpy(value, w->graph->size + span->from, (span->to - span->from) * sizeof *value);
}

static void gather_state(const struct writer *w, const struct span *span, uint64_t *value)
{
    for (uint64_t i = span->from; i < span->to; i++)
        *value++ = w->graph->state ? w->graph->state[i] : HX_STATE_NONE;
}

static void gather_in(const struct writer *w, const struct span *span, uint64_t *value)
{
    const hx_eidx *rev = w->graph->rev;
    for (uint64_t i = span->from; i < span->to; i++)
        *value++ = w->in ? w->in[i] : rev ? rev[i + 1] - rev[i] : 0;
}

static void gather_out(const struct writer *w, const struct span *span, uint64_t *value)
{
    const hx_eidx *fwd = w->graph->fwd;
    for (uint64_t i = span->from; i < span->to; i++)
        *value++ = fwd ? fwd[i + 1] - fwd[i] : 0;
}

static void gather_source(const struct writer *w, const struct span *span, uint64_t *value)
{
    const hx_eidx *fwd = w->graph->fwd;
    hx_obj source = span->source, before = span->source;
    for (uint64_t e = span->from; e < span->to; e++) {
        while (e >= fwd[source + 1])
            source++;
        *value++ = source - before;
        before = source;
    }
}

static void gather_target(const struct writer *w, const struct span *span, uint64_t *value)
{
    const struct hx_graph *g = w->graph;
    hx_obj source = span->source;
    for (uint64_t e = span->from; e < span->to; e++) {
        while (e >= g->fwd[source + 1])
            source++;
        *value++ = hx_zigzag((int64_t)hx_edge_target(g->edge[e]) - (int64_t)source);
    }
}

static void gather_offset(const struct writer *w, const struct span *span, uint64_t *value)
{
    for (uint64_t e = span->from; e < span->to; e++)
        *value++ = hx_edge_offset(w->graph->edge[e]) / 8;
}

static void gather_kind(const struct writer *w, const struct span *span, uint64_t *value)
{
    for (uint64_t e = span->from; e < span->to; e++)
        *value++ = hx_edge_kind_of(w->graph->edge[e]);
}

static void gather_root(const struct writer *w, const struct span *span, uint64_t *value)
{
    const struct hx_root_edge *edge = w->snapshot->root_edges.v;
    *value++ = 0;
    for (uint64_t e = span->from + 1; e < span->to; e++)
        *value++ = edge[e].root - edge[e - 1].root;
}

static void gather_root_target(const struct writer *w, const struct span *span, uint64_t *value)
{
    const struct hx_root_edge *edge = w->snapshot->root_edges.v;
    int64_t before = 0;
    for (uint64_t e = span->from; e < span->to; e++) {
        *value++ = hx_zigzag((int64_t)edge[e].target - before);
        before = edge[e].target;
    }
}

static void gather_word(const struct writer *w, const struct span *span, uint64_t *value)
{
    const struct hx_root_edge *edge = w->snapshot->root_edges.v;
    uint64_t before = 0;
    for (uint64_t e = span->from; e < span->to; e++) {
        *value++ = hx_zigzag((int64_t)(edge[e].address - before));
        before = edge[e].address;
    }
}

static void gather_root_kind(const struct writer *w, const struct span *span, uint64_t *value)
{
    for (uint64_t e = span->from; e < span->to; e++)
        *value++ = w->snapshot->root_edges.v[e].kind;
}

struct column {
    enum hx_column_id id;
    gather_fn *gather;
};
static const struct column object_columns[] = {
    {HX_COL_GAP, gather_gap}, {HX_COL_SIZE, gather_size}, {HX_COL_STATE, gather_state},
    {HX_COL_IN, gather_in},   {HX_COL_OUT, gather_out},
};
static const struct column edge_columns[] = {
    {HX_COL_SOURCE, gather_source},
    {HX_COL_TARGET, gather_target},
    {HX_COL_OFFSET, gather_offset},
    {HX_COL_KIND, gather_kind},
};
static const struct column root_edge_columns[] = {
    {HX_COL_ROOT, gather_root},
    {HX_COL_ROOT_TARGET, gather_root_target},
    {HX_COL_WORD, gather_word},
    {HX_COL_KIND, gather_root_kind},
};

struct keys {
    uint64_t first, last, bytes;
};

static hx_error *write_block(struct writer *w, enum hx_family family, const struct span *span,
                             const struct keys *keys, const struct column *column, size_t columns)
{
    size_t n = span->to - span->from;
    sqlite3_bind_int64(w->block, 1, w->id);
    sqlite3_bind_int(w->block, 2, family);
    sqlite3_bind_int64(w->block, 3, (int64_t)span->from);
    sqlite3_bind_int64(w->block, 4, (int64_t)n);
    sqlite3_bind_int64(w->block, 5, (int64_t)keys->first);
    sqlite3_bind_int64(w->block, 6, (int64_t)keys->last);
    sqlite3_bind_int64(w->block, 7, (int64_t)keys->bytes);
    HX_TRY(hx_db_run(w->db, w->what, w->block));
    int64_t id = sqlite3_last_insert_rowid(w->db) * HX_COLUMN_SLOTS;
    for (size_t c = 0; c < columns; c++) {
        size_t bytes;
        column[c].gather(w, span, w->value);
        HX_TRY(hx_column_encode(w->codec, w->value, n, w->blob, &bytes));
        sqlite3_bind_int64(w->column, 1, id + column[c].id);
        sqlite3_bind_blob(w->column, 2, w->blob, (int)bytes, SQLITE_STATIC);
        HX_TRY(hx_db_run(w->db, w->what, w->column));
    }
    w->rows_done += n;
    hx_progress_at(w->progress, "storing", w->rows_done, w->rows_total);
    return hx_progress_cancelled(w->progress) ? hx_error_cancelled(w->what) : NULL;
}

static uint64_t block_end(uint64_t from, uint64_t n)
{
    return n - from < HX_BLOCK_ROWS ? n : from + HX_BLOCK_ROWS;
}

static hx_error *write_objects(struct writer *w)
{
    const struct hx_graph *g = w->graph;
    for (uint64_t from = 0; from < g->n;) {
        struct span span = {.from = from, .to = block_end(from, g->n)};
        struct keys keys = {g->addr[from], g->addr[span.to - 1], 0};
        for (uint64_t i = from; i < span.to; i++) {
            unsigned state = g->state && g->state[i] < HX_STATES ? g->state[i] : HX_STATE_NONE;
            w->state_bytes[state] += g->size[i];
            w->state_objects[state]++;
            keys.bytes += g->size[i];
        }
        w->heap_bytes += keys.bytes;
        HX_TRY(write_block(w, HX_FAMILY_OBJECT, &span, &keys, object_columns,
                           sizeof object_columns / sizeof *object_columns));
        from = span.to;
    }
    return NULL;
}

static hx_error *write_edges(struct writer *w)
{
    const struct hx_graph *g = w->graph;
    hx_obj source = 0;
    for (uint64_t from = 0; g->fwd && from < g->n_edges;) {
        while (from >= g->fwd[source + 1])
            source++;
        struct span span = {.from = from, .to = block_end(from, g->n_edges), .source = source};
        hx_obj last = source;
        while (span.to - 1 >= g->fwd[last + 1])
            last++;
        struct keys keys = {source, last, 0};
        HX_TRY(write_block(w, HX_FAMILY_EDGE, &span, &keys, edge_columns,
                           sizeof edge_columns / sizeof *edge_columns));
        from = span.to;
        source = last;
    }
    return NULL;
}

static hx_error *write_root_edges(struct writer *w)
{
    const struct hx_root_edge *edge = w->snapshot->root_edges.v;
    uint64_t n = w->snapshot->root_edges.n;
    for (uint64_t from = 0; from < n;) {
        struct span span = {.from = from, .to = block_end(from, n)};
        struct keys keys = {edge[from].root, edge[span.to - 1].root, 0};
        HX_TRY(write_block(w, HX_FAMILY_ROOT_EDGE, &span, &keys, root_edge_columns,
                           sizeof root_edge_columns / sizeof *root_edge_columns));
        from = span.to;
    }
    return NULL;
}

/* Incoming edges in one pass over the edges when the reverse index is not there. */
static hx_error *count_incoming(struct writer *w)
{
    const struct hx_graph *g = w->graph;
    if (g->rev || !g->fwd)
        return NULL;
    HX_TRY(hx_big_reserve(&w->in_mem, (size_t)g->n * sizeof *w->in));
    w->in = w->in_mem.base;
    for (hx_eidx e = 0; e < g->n_edges; e++) {
        uint32_t *count = &w->in[hx_edge_target(g->edge[e])];
        if (++*count == 0)
            return hx_error_new(HX_E_FAIL, w->what, NULL,
                                "an object with more than 2^32 references");
    }
    return NULL;
}

/* --- the small tables -------------------------------------------------------------- */

static void bind_text(sqlite3_stmt *statement, int i, const char *text)
{
    sqlite3_bind_text(statement, i, text, -1, SQLITE_STATIC); /* NULL binds NULL */
}

static hx_error *write_roots(struct writer *w)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(w->db, w->what,
                         "INSERT INTO hx_root VALUES(?,?,?,?,?,?,?,?,?,?,?,NULL,NULL)", &st));
    for (size_t i = 0; i < w->snapshot->roots.n; i++) {
        const struct hx_root *root = &w->snapshot->roots.v[i];
        sqlite3_bind_int64(st, 1, w->id);
        sqlite3_bind_int64(st, 2, (int64_t)i);
        sqlite3_bind_int(st, 3, root->kind);
        bind_text(st, 4, hx_root_kind_name(root->kind));
        bind_text(st, 5, root->name);
        bind_text(st, 6, root->module && *root->module ? root->module : NULL);
        if (root->kind == HX_ROOT_REGISTER)
            sqlite3_bind_null(st, 7);
        else
            sqlite3_bind_int64(st, 7, (int64_t)root->address);
        sqlite3_bind_int64(st, 8, (int64_t)root->size);
        sqlite3_bind_int64(st, 9, (int64_t)root->direct_objects);
        sqlite3_bind_int64(st, 10, (int64_t)root->value);
        sqlite3_bind_int64(st, 11, root->tid);
        HX_TRY(hx_db_run(w->db, w->what, st));
    }
    return NULL;
}

static hx_error *write_account(struct writer *w)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(w->db, w->what, "INSERT INTO hx_account VALUES(?,?,?,?)", &st));
    /* what was not measured has no row: the others sum to the resident memory all the same */
    int first = w->snapshot->no_heap ? HX_PART_OVERHEAD + 1 : 0;
    for (int part = first; w->snapshot->has_account && part < HX_PARTS; part++) {
        sqlite3_bind_int64(st, 1, w->id);
        sqlite3_bind_int(st, 2, part);
        bind_text(st, 3, hx_part_name((enum hx_account_part)part));
        sqlite3_bind_int64(st, 4, (int64_t)w->snapshot->account[part]);
        HX_TRY(hx_db_run(w->db, w->what, st));
    }
    return NULL;
}

static hx_error *write_leaks(struct writer *w)
{
    static const enum hx_state kinds[] = {HX_STATE_DEFINITE, HX_STATE_INDIRECT, HX_STATE_POSSIBLE};
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(w->db, w->what, "INSERT INTO hx_leak VALUES(?,?,NULL,NULL,?,?)", &st));
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!w->state_objects[kinds[i]])
            continue;
        sqlite3_bind_int64(st, 1, w->id);
        bind_text(st, 2, hx_state_name(kinds[i]));
        sqlite3_bind_int64(st, 3, (int64_t)w->state_bytes[kinds[i]]);
        sqlite3_bind_int64(st, 4, (int64_t)w->state_objects[kinds[i]]);
        HX_TRY(hx_db_run(w->db, w->what, st));
    }
    return NULL;
}

static hx_error *write_losses(struct writer *w)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(w->db, w->what, "INSERT INTO hx_loss VALUES(?,?,?,?,?)", &st));
    for (size_t i = 0; i < w->snapshot->losses.n; i++) {
        const struct hx_loss *loss = &w->snapshot->losses.v[i];
        sqlite3_bind_int64(st, 1, w->id);
        bind_text(st, 2, loss->what);
        sqlite3_bind_int64(st, 3, (int64_t)loss->count);
        if (loss->has_bytes)
            sqlite3_bind_int64(st, 4, (int64_t)loss->bytes);
        else
            sqlite3_bind_null(st, 4);
        if (loss->has_address)
            sqlite3_bind_int64(st, 5, (int64_t)loss->address);
        else
            sqlite3_bind_null(st, 5);
        HX_TRY(hx_db_run(w->db, w->what, st));
    }
    return NULL;
}

/* ISO 8601 in UTC with milliseconds. */
static void format_time(int64_t ns, char *buf, size_t size)
{
    time_t seconds = (time_t)(ns / 1000000000);
    int64_t rest = ns % 1000000000;
    if (rest < 0) {
        rest += 1000000000;
        seconds--;
    }
    struct tm tm = {0};
    gmtime_r(&seconds, &tm);
    size_t n = strftime(buf, size, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(buf + n, size - n, ".%03dZ", (int)(rest / 1000000));
}

/* Figures of a heap that nobody walked stay unbound: NULL. */
static void bind_heap(const struct writer *w, sqlite3_stmt *st)
{
    static const enum hx_state good[2] = {HX_STATE_REACHABLE, HX_STATE_POSSIBLE};
    static const enum hx_state lost[2] = {HX_STATE_DEFINITE, HX_STATE_INDIRECT};
    const uint64_t *bytes = w->state_bytes, *objects = w->state_objects;
    if (w->snapshot->no_heap)
        return;
    sqlite3_bind_int64(st, 10, (int64_t)w->heap_bytes);
    sqlite3_bind_int64(st, 11, (int64_t)w->graph->n);
    if (w->graph->state || !w->graph->n) { /* no object: all of them are reachable */
        sqlite3_bind_int64(st, 12, (int64_t)(bytes[good[0]] + bytes[good[1]]));
        sqlite3_bind_int64(st, 13, (int64_t)(objects[good[0]] + objects[good[1]]));
        sqlite3_bind_int64(st, 14, (int64_t)(bytes[lost[0]] + bytes[lost[1]]));
        sqlite3_bind_int64(st, 15, (int64_t)(objects[lost[0]] + objects[lost[1]]));
    }
    sqlite3_bind_int64(st, 16, (int64_t)w->snapshot->free_bytes);
    sqlite3_bind_int64(st, 17, (int64_t)w->snapshot->overhead_bytes);
}

static hx_error *write_summary(struct writer *w)
{
    const struct hx_snapshot *s = w->snapshot;
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(w->db, w->what,
                         "INSERT INTO hx_snapshot VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,"
                         "?13,?14,?15,?16,?17,?18,NULL,?19,?20,?21,0)",
                         &st));
    char taken_at[64];
    format_time(s->taken_at_ns, taken_at, sizeof taken_at);
    sqlite3_bind_int64(st, 1, w->id);
    sqlite3_bind_int64(st, 2, s->taken_at_ns);
    bind_text(st, 3, taken_at);
    sqlite3_bind_int64(st, 4, s->pid);
    bind_text(st, 5, s->comm);
    bind_text(st, 6, s->exe);
    sqlite3_bind_int64(st, 7, (int64_t)s->pause_us);
    bind_text(st, 8, s->method);
    bind_text(st, 9, s->allocator);
    bind_heap(w, st);
    if (s->has_rss)
        sqlite3_bind_int64(st, 18, (int64_t)s->rss_bytes);
    sqlite3_bind_int(st, 19, s->interior);
    sqlite3_bind_int(st, 20, s->complete);
    bind_text(st, 21, s->notes.n ? s->notes.s : NULL);
    return hx_db_run(w->db, w->what, st);
}

/* --- the transaction --------------------------------------------------------------- */

static hx_error *prepare(struct writer *w)
{
    HX_TRY(hx_db_prepare(w->db, w->what,
                         "INSERT INTO hx_block(snapshot, family, first_row, n, first_key,"
                         " last_key, bytes) VALUES(?,?,?,?,?,?,?)",
                         &w->block));
    HX_TRY(hx_db_prepare(w->db, w->what, "INSERT INTO hx_column VALUES(?,?)", &w->column));
    HX_TRY(hx_codec_create(&w->codec));
    w->value = malloc(HX_BLOCK_ROWS * sizeof *w->value);
    w->blob = malloc(hx_column_bound(HX_BLOCK_ROWS));
    return w->value && w->blob ? NULL : hx_error_nomem();
}

static hx_error *write_all(struct writer *w)
{
    HX_TRY(hx_db_int(w->db, w->what, "SELECT coalesce(max(snapshot), 0) + 1 FROM hx_snapshot",
                     &w->id));
    HX_TRY(prepare(w));
    HX_TRY(count_incoming(w));
    HX_TRY(write_objects(w));
    HX_TRY(write_edges(w));
    HX_TRY(write_root_edges(w));
    HX_TRY(write_roots(w));
    HX_TRY(write_account(w));
    HX_TRY(write_leaks(w));
    HX_TRY(write_losses(w));
    return write_summary(w); /* last: with it the snapshot exists */
}

static void writer_deinit(struct writer *w)
{
    sqlite3_finalize(w->block);
    sqlite3_finalize(w->column);
    hx_codec_destroy(w->codec);
    free(w->value);
    free(w->blob);
    hx_big_free(&w->in_mem);
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

hx_error *hx_store_add(hx_store *store, const struct hx_snapshot *snapshot,
                       const struct hx_analysis *analysis, const struct hx_progress *progress,
                       int64_t *ret)
{
    (void)analysis; /* TODO with schema 2 */
    if (!store->writer)
        return hx_error_new(HX_E_FAIL, store->path, NULL, "the store is open for reading only");
    struct writer w = {
        .db = store->db,
        .what = store->path,
        .snapshot = snapshot,
        .graph = &snapshot->graph,
        .progress = progress,
        .rows_total = snapshot->graph.n + snapshot->graph.n_edges + snapshot->root_edges.n,
    };
    HX_TRY(hx_db_exec(store->db, store->path, "BEGIN IMMEDIATE"));
    hx_error *err = write_all(&w);
    writer_deinit(&w);
    if (!err)
        err = hx_db_exec(store->db, store->path, "COMMIT");
    /* a full disk may have rolled it back already */
    if (err && !sqlite3_get_autocommit(store->db))
        hx_error_free(hx_db_exec(store->db, store->path, "ROLLBACK"));
    empty_log(store);
    if (err)
        return err;
    store->added = true;
    *ret = w.id;
    return NULL;
}
