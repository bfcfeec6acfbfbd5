/* writer.c - one snapshot into the store, in one transaction.
 *
 * The large tables go block by block: a block's columns are gathered from the model,
 * compressed and inserted before the next one begins, so that memory beyond the model
 * stays at a block (and four bytes an object for the count of incoming edges). What an analysis
 * finds follows, part by part (analyse.c); the row that makes the snapshot visible comes last. */
#include "store/writer.h"

#include "base/cleanup.h"
#include "store/analyse.h"
#include "store/db.h"
#include "store/store_private.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* --- the large tables -------------------------------------------------------------- */

/* Rows [from, to) of a family, gathered for one column. */
struct span {
    uint64_t from, to;
    hx_obj source; /* edges: the object that edge `from` belongs to */
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

static void gather_in(const struct hx_writer *w, const struct span *span, uint64_t *value)
{
    const hx_eidx *rev = w->graph->rev;
    for (uint64_t i = span->from; i < span->to; i++)
        *value++ = w->in ? w->in[i] : rev ? rev[i + 1] - rev[i] : 0;
}

static void gather_out(const struct hx_writer *w, const struct span *span, uint64_t *value)
{
    const hx_eidx *fwd = w->graph->fwd;
    for (uint64_t i = span->from; i < span->to; i++)
        *value++ = fwd ? fwd[i + 1] - fwd[i] : 0;
}

static uint32_t type_of(const struct hx_writer *w, uint64_t object)
{
    const uint32_t *type = w->graph->type;
    return type && type[object] < w->snapshot->types.n ? type[object] + 1 : 0;
}

static void gather_type(const struct hx_writer *w, const struct span *span, uint64_t *value)
{
    for (uint64_t i = span->from; i < span->to; i++)
        *value++ = type_of(w, i);
}

static void gather_source(const struct hx_writer *w, const struct span *span, uint64_t *value)
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

static void gather_target(const struct hx_writer *w, const struct span *span, uint64_t *value)
{
    const struct hx_graph *g = w->graph;
    hx_obj source = span->source;
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
static const struct column object_columns[] = {
    {HX_COL_GAP, gather_gap}, {HX_COL_SIZE, gather_size}, {HX_COL_STATE, gather_state},
    {HX_COL_IN, gather_in},   {HX_COL_OUT, gather_out},   {HX_COL_TYPE, gather_type},
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

static const struct column resident_columns[] = {
    {HX_COL_FIRST_PAGE, gather_first_page},
    {HX_COL_PAGES, gather_pages},
};

struct keys {
    uint64_t first, last, bytes;
};

hx_error *hx_writer_put(struct hx_writer *w, int64_t block, enum hx_column_id column, size_t n)
{
    size_t bytes;
    HX_TRY(hx_column_encode(w->codec, w->value, n, w->blob, &bytes));
    sqlite3_bind_int64(w->column, 1, block * HX_COLUMN_SLOTS + column);
    sqlite3_bind_blob(w->column, 2, w->blob, (int)bytes, SQLITE_STATIC);
    return hx_db_run(w->db, w->what, w->column);
}

static hx_error *write_block(struct hx_writer *w, enum hx_family family, const struct span *span,
                             const struct keys *keys, const struct column *column, size_t columns)
{
    size_t n = span->to - span->from;
    int64_t block = w->next_block++;
    if (!hx_block_id_is_sane(block))
        return hx_error_new(HX_E_CORRUPT, w->what, "take it from a backup or make it again",
                            "the store is damaged (numbers of blocks)");
    sqlite3_bind_int64(w->block, 1, block);
    sqlite3_bind_int64(w->block, 2, w->id);
    sqlite3_bind_int(w->block, 3, family);
    sqlite3_bind_int64(w->block, 4, (int64_t)span->from);
    sqlite3_bind_int64(w->block, 5, (int64_t)n);
    sqlite3_bind_int64(w->block, 6, (int64_t)keys->first);
    sqlite3_bind_int64(w->block, 7, (int64_t)keys->last);
    sqlite3_bind_int64(w->block, 8, (int64_t)keys->bytes);
    HX_TRY(hx_db_run(w->db, w->what, w->block));
    for (size_t c = 0; c < columns; c++) {
        column[c].gather(w, span, w->value);
        HX_TRY(hx_writer_put(w, block, column[c].id, n));
    }
    w->rows_done += n;
    hx_progress_at(w->progress, "storing", w->rows_done, w->rows_total);
    return hx_progress_cancelled(w->progress) ? hx_error_cancelled(w->what) : NULL;
}

static uint64_t block_end(uint64_t from, uint64_t n)
{
    return n - from < HX_BLOCK_ROWS ? n : from + HX_BLOCK_ROWS;
}

static hx_error *write_objects(struct hx_writer *w)
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
        /* the type comes last: nobody may have looked for types */
        HX_TRY(write_block(w, HX_FAMILY_OBJECT, &span, &keys, object_columns,
                           COUNT(object_columns) - !g->type));
        from = span.to;
    }
    return NULL;
}

static hx_error *write_edges(struct hx_writer *w)
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
        HX_TRY(write_block(w, HX_FAMILY_EDGE, &span, &keys, edge_columns, COUNT(edge_columns)));
        from = span.to;
        source = last;
    }
    return NULL;
}

hx_error *hx_writer_root_edges(struct hx_writer *w)
{
    const struct hx_root_edge *edge = w->snapshot->root_edges.v;
    uint64_t n = w->snapshot->root_edges.n;
    for (uint64_t from = 0; from < n;) {
        struct span span = {.from = from, .to = block_end(from, n)};
        struct keys keys = {edge[from].root, edge[span.to - 1].root, 0};
        HX_TRY(write_block(w, HX_FAMILY_ROOT_EDGE, &span, &keys, root_edge_columns,
                           COUNT(root_edge_columns)));
        from = span.to;
    }
    return NULL;
}

hx_error *hx_writer_no_root_edges(struct hx_writer *w)
{
    return write_block(w, HX_FAMILY_ROOT_EDGE, &(struct span){0}, &(struct keys){0}, NULL, 0);
}

static hx_error *write_resident(struct hx_writer *w)
{
    const struct hx_range *range = w->snapshot->resident.v;
    uint64_t n = w->snapshot->has_resident ? w->snapshot->resident.n : 0;
    for (uint64_t from = 0; from < n;) {
        struct span span = {.from = from, .to = block_end(from, n)};
        struct keys keys = {first_page(&range[from]), first_page(&range[span.to - 1]), 0};
        HX_TRY(write_block(w, HX_FAMILY_RESIDENT, &span, &keys, resident_columns,
                           COUNT(resident_columns)));
        from = span.to;
    }
    return NULL;
}

/* Incoming edges in one pass over the edges when the reverse index is not there. */
static hx_error *count_incoming(struct hx_writer *w)
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

hx_error *hx_writer_roots(struct hx_writer *w, bool named_only)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(w->db, w->what,
                         "INSERT INTO hx_root VALUES(?,?,?,?,?,?,?,?,?,?,?,NULL,NULL)", &st));
    for (size_t i = 0; i < w->snapshot->roots.n; i++) {
        const struct hx_root *root = &w->snapshot->roots.v[i];
        if (named_only && root->kind != HX_ROOT_NAMED)
            continue;
        sqlite3_bind_int64(st, 1, w->id);
        sqlite3_bind_int64(st, 2, (int64_t)i);
        sqlite3_bind_int(st, 3, root->kind);
        hx_bind_text(st, 4, hx_root_kind_name(root->kind));
        hx_bind_text(st, 5, root->name);
        hx_bind_text(st, 6, root->module && *root->module ? root->module : NULL);
        if (hx_root_has_place(root))
            sqlite3_bind_int64(st, 7, (int64_t)root->address);
        else
            sqlite3_bind_null(st, 7);
        if (hx_root_has_place(root) || root->kind == HX_ROOT_REGISTER)
            sqlite3_bind_int64(st, 8, (int64_t)root->size);
        else
            sqlite3_bind_null(st, 8);
        sqlite3_bind_int64(st, 9, (int64_t)root->direct_objects);
        sqlite3_bind_int64(st, 10, (int64_t)root->value);
        sqlite3_bind_int64(st, 11, root->tid);
        HX_TRY(hx_db_run(w->db, w->what, st));
    }
    return NULL;
}

hx_error *hx_writer_named(struct hx_writer *w)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(w->db, w->what, "INSERT INTO hx_named VALUES(?,?,?,?,?)", &st));
    for (size_t i = 0; i < w->snapshot->named.n; i++) {
        const struct hx_named *named = &w->snapshot->named.v[i];
        sqlite3_bind_int64(st, 1, w->id);
        sqlite3_bind_int64(st, 2, (int64_t)i);
        hx_bind_text(st, 3, named->name);
        hx_bind_text(st, 4, named->expr);
        sqlite3_bind_int64(st, 5, named->root);
        HX_TRY(hx_db_run(w->db, w->what, st));
    }
    return NULL;
}

/* Names only: what an analysis counts comes with it. */
static hx_error *write_types(struct hx_writer *w)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(w->db, w->what,
                         "INSERT INTO hx_type(snapshot, type, name, confidence) VALUES(?,?,?,?)",
                         &st));
    for (size_t i = 0; i < w->snapshot->types.n; i++) {
        const struct hx_type *type = &w->snapshot->types.v[i];
        sqlite3_bind_int64(st, 1, w->id);
        sqlite3_bind_int64(st, 2, (int64_t)i + 1);
        hx_bind_text(st, 3, type->name);
        hx_bind_text(st, 4, hx_confidence_name(type->confidence));
        HX_TRY(hx_db_run(w->db, w->what, st));
    }
    return NULL;
}

static hx_error *write_account(struct hx_writer *w)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(w->db, w->what, "INSERT INTO hx_account VALUES(?,?,?,?)", &st));
    /* what was not measured has no row: the others sum to the resident memory all the same */
    int first = w->snapshot->no_heap ? HX_PART_OVERHEAD + 1 : 0;
    for (int part = first; w->snapshot->has_account && part < HX_PARTS; part++) {
        sqlite3_bind_int64(st, 1, w->id);
        sqlite3_bind_int(st, 2, part);
        hx_bind_text(st, 3, hx_part_name((enum hx_account_part)part));
        sqlite3_bind_int64(st, 4, (int64_t)w->snapshot->account[part]);
        HX_TRY(hx_db_run(w->db, w->what, st));
    }
    return NULL;
}

static const enum hx_state leak_kinds[] = {HX_STATE_DEFINITE, HX_STATE_INDIRECT, HX_STATE_POSSIBLE};

struct leak {
    uint64_t bytes, objects;
};

/* Row k * types + t of `leak` is that of kind k and type t; 0: unknown. */
static void sum_leaks(const struct hx_writer *w, size_t types, struct leak *leak)
{
    const struct hx_graph *g = w->graph;
    for (hx_obj i = 0; i < g->n && g->state; i++) {
        for (size_t k = 0; k < COUNT(leak_kinds); k++) {
            if (g->state[i] != leak_kinds[k])
                continue;
            struct leak *row = &leak[k * types + type_of(w, i)];
            row->bytes += g->size[i];
            row->objects++;
        }
    }
}

static hx_error *write_leaks(struct hx_writer *w)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(w->db, w->what, "INSERT INTO hx_leak VALUES(?,?,?,NULL,?,?)", &st));
    size_t types = w->snapshot->types.n + 1;
    HX_FREE struct leak *leak = calloc(types, COUNT(leak_kinds) * sizeof *leak);
    if (!leak)
        return hx_error_nomem();
    sum_leaks(w, types, leak);
    for (size_t i = 0; i < types * COUNT(leak_kinds); i++) {
        if (!leak[i].objects)
            continue;
        size_t type = i % types;
        sqlite3_bind_int64(st, 1, w->id);
        hx_bind_text(st, 2, hx_state_name(leak_kinds[i / types]));
        hx_bind_text(st, 3, type ? w->snapshot->types.v[type - 1].name : NULL);
        sqlite3_bind_int64(st, 4, (int64_t)leak[i].bytes);
        sqlite3_bind_int64(st, 5, (int64_t)leak[i].objects);
        HX_TRY(hx_db_run(w->db, w->what, st));
    }
    return NULL;
}

static hx_error *write_losses(struct hx_writer *w)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(w->db, w->what, "INSERT INTO hx_loss VALUES(?,?,?,?,?)", &st));
    for (size_t i = 0; i < w->snapshot->losses.n; i++) {
        const struct hx_loss *loss = &w->snapshot->losses.v[i];
        sqlite3_bind_int64(st, 1, w->id);
        hx_bind_text(st, 2, loss->what);
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
static void bind_heap(const struct hx_writer *w, sqlite3_stmt *st)
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

static const char glue[] = "; "; /* between the sentences of notes */

static const char *end_of_sentence(const char *s)
{
    const char *end = strstr(s, glue);
    return end ? end : s + strlen(s);
}

static const char *next_sentence(const char *end)
{
    return *end ? end + strlen(glue) : end;
}

static bool has_sentence(const char *text, const char *sentence, size_t n)
{
    for (const char *end; *text; text = next_sentence(end)) {
        end = end_of_sentence(text);
        if ((size_t)(end - text) == n && memcmp(text, sentence, n) == 0)
            return true;
    }
    return false;
}

/* Adds the sentences that are not there yet: a loaded snapshot has those of the time before. */
static void add_notes(struct hx_text *text, const char *notes)
{
    for (const char *end; *notes; notes = next_sentence(end)) {
        end = end_of_sentence(notes);
        if (has_sentence(hx_text_str(text), notes, (size_t)(end - notes)))
            continue;
        hx_text_puts(text, text->n ? glue : "");
        hx_text_putn(text, notes, (size_t)(end - notes));
    }
}

hx_error *hx_writer_bind_notes(const struct hx_writer *w, const char *before,
                               sqlite3_stmt *statement, int i)
{
    struct hx_text text = {0};
    hx_text_puts(&text, before ? before : "");
    add_notes(&text, hx_text_str(&w->snapshot->notes));
    add_notes(&text, hx_text_str(&w->notes));
    bool failed = text.failed || w->notes.failed;
    if (text.n)
        sqlite3_bind_text(statement, i, text.s, (int)text.n, SQLITE_TRANSIENT);
    hx_text_free(&text);
    return failed ? hx_error_nomem() : NULL;
}

static hx_error *write_summary(struct hx_writer *w)
{
    const struct hx_snapshot *s = w->snapshot;
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(w->db, w->what,
                         "INSERT INTO hx_snapshot VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,"
                         "?13,?14,?15,?16,?17,?18,?19,?20,?21,?22,?23)",
                         &st));
    char taken_at[64];
    format_time(s->taken_at_ns, taken_at, sizeof taken_at);
    sqlite3_bind_int64(st, 1, w->id);
    sqlite3_bind_int64(st, 2, s->taken_at_ns);
    hx_bind_text(st, 3, taken_at);
    sqlite3_bind_int64(st, 4, s->pid);
    hx_bind_text(st, 5, s->comm);
    hx_bind_text(st, 6, s->exe);
    sqlite3_bind_int64(st, 7, (int64_t)s->pause_us);
    hx_bind_text(st, 8, s->method);
    hx_bind_text(st, 9, s->allocator);
    bind_heap(w, st);
    if (s->has_rss)
        sqlite3_bind_int64(st, 18, (int64_t)s->rss_bytes);
    hx_bind_text(st, 19, w->scheme);
    sqlite3_bind_int(st, 20, s->interior);
    sqlite3_bind_int(st, 21, s->complete);
    HX_TRY(hx_writer_bind_notes(w, hx_text_str(&s->notes), st, 22));
    sqlite3_bind_int64(st, 23, w->parts);
    return hx_db_run(w->db, w->what, st);
}

/* --- the transaction --------------------------------------------------------------- */

hx_error *hx_writer_prepare(struct hx_writer *w, bool overlay)
{
    HX_TRY(hx_db_int(w->db, w->what,
                     overlay ? "SELECT max(coalesce((SELECT max(id) FROM main.hx_block), 0),"
                               " coalesce((SELECT max(id) FROM temp.hx_block), 0)) + 1"
                             : "SELECT coalesce(max(id), 0) + 1 FROM hx_block",
                     &w->next_block));
    HX_TRY(hx_db_prepare(w->db, w->what,
                         "INSERT INTO hx_block(id, snapshot, family, first_row, n, first_key,"
                         " last_key, bytes) VALUES(?,?,?,?,?,?,?,?)",
                         &w->block));
    HX_TRY(
        hx_db_prepare(w->db, w->what, "INSERT OR REPLACE INTO hx_column VALUES(?,?)", &w->column));
    HX_TRY(hx_codec_create(&w->codec));
    w->value = malloc(HX_BLOCK_ROWS * sizeof *w->value);
    w->blob = malloc(hx_column_bound(HX_BLOCK_ROWS));
    return w->value && w->blob ? NULL : hx_error_nomem();
}

static hx_error *write_all(struct hx_writer *w, const struct hx_analysis *analysis)
{
    HX_TRY(hx_db_int(w->db, w->what, "SELECT coalesce(max(snapshot), 0) + 1 FROM hx_snapshot",
                     &w->id));
    HX_TRY(hx_writer_prepare(w, false));
    HX_TRY(count_incoming(w));
    HX_TRY(write_objects(w));
    hx_big_free(&w->in_mem);
    HX_TRY(write_edges(w));
    HX_TRY(hx_writer_root_edges(w));
    HX_TRY(write_resident(w));
    HX_TRY(hx_writer_roots(w, false));
    HX_TRY(hx_writer_named(w));
    HX_TRY(write_types(w));
    HX_TRY(write_account(w));
    HX_TRY(write_leaks(w));
    HX_TRY(write_losses(w));
    if (analysis && hx_can_analyse(w->snapshot))
        HX_TRY(hx_analyse(w, analysis, HX_ANALYSE_ALL));
    return write_summary(w); /* last: with it the snapshot exists */
}

void hx_writer_deinit(struct hx_writer *w)
{
    sqlite3_finalize(w->block);
    sqlite3_finalize(w->column);
    hx_codec_destroy(w->codec);
    free(w->value);
    free(w->blob);
    hx_big_free(&w->in_mem);
    hx_vec_free(&w->objects);
    hx_text_free(&w->notes);
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

hx_error *hx_store_add(hx_store *store, const struct hx_snapshot *snapshot,
                       const struct hx_analysis *analysis, const struct hx_progress *progress,
                       int64_t *ret)
{
    if (!store->writer)
        return hx_error_new(HX_E_FAIL, store->path, NULL, "the store is open for reading only");
    struct hx_writer w = {
        .db = store->db,
        .what = store->path,
        .snapshot = snapshot,
        .graph = &snapshot->graph,
        .progress = progress,
        .rows_total = snapshot->graph.n + snapshot->graph.n_edges + snapshot->root_edges.n,
    };
    HX_TRY(hx_db_exec(store->db, store->path, "BEGIN IMMEDIATE"));
    hx_error *err = write_all(&w, analysis);
    hx_writer_deinit(&w);
    err = hx_store_end(store, err);
    if (err)
        return err;
    store->added = true;
    *ret = w.id;
    return NULL;
}
