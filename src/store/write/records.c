/* records.c - the small tables of a snapshot: plain rows, and the one that makes it visible. */
#include "store/write/writer.h"

#include "base/cleanup.h"
#include "store/db.h"
#include "base/pairs.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

hx_error *hx_writer_roots(struct hx_writer *w, bool named_only)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(w->db, w->what,
                         "INSERT INTO hx_root VALUES(?,?,?,?,?,?,?,?,?,?,?,NULL,NULL,?)", &st));
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
        hx_bind_text(st, 12, root->symbol);
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
                         "INSERT INTO hx_type(snapshot, type, name, confidence, symbol)"
                         " VALUES(?,?,?,?,?)",
                         &st));
    for (size_t i = 0; i < w->snapshot->types.n; i++) {
        const struct hx_type *type = &w->snapshot->types.v[i];
        sqlite3_bind_int64(st, 1, w->id);
        sqlite3_bind_int64(st, 2, (int64_t)i + 1);
        hx_bind_text(st, 3, type->name);
        hx_bind_text(st, 4, hx_confidence_name(type->confidence));
        hx_bind_text(st, 5, type->symbol);
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
    const uint64_t *account = w->snapshot->account;
    bool free_unknown = w->snapshot->free_unknown;
    for (int part = first; w->snapshot->has_account && part < HX_PARTS; part++) {
        if (free_unknown && (part == HX_PART_FREE || part == HX_PART_OVERHEAD))
            continue;
        /* between the blocks that were recorded: nobody knows whose that is */
        uint64_t rest = free_unknown && part == HX_PART_ANONYMOUS
                            ? account[HX_PART_FREE] + account[HX_PART_OVERHEAD]
                            : 0;
        sqlite3_bind_int64(st, 1, w->id);
        sqlite3_bind_int(st, 2, part);
        hx_bind_text(st, 3, hx_part_name((enum hx_account_part)part));
        sqlite3_bind_int64(st, 4, (int64_t)(account[part] + rest));
        HX_TRY(hx_db_run(w->db, w->what, st));
    }
    return NULL;
}

static const enum hx_state leak_kinds[] = {HX_STATE_DEFINITE, HX_STATE_INDIRECT, HX_STATE_POSSIBLE};

/* What is lost of one type (0: unknown) and one site (the number of sites: unknown), by kind. */
struct leak {
    uint32_t type, site;
    uint64_t bytes[COUNT(leak_kinds)], objects[COUNT(leak_kinds)];
};

struct leaks {
    HX_VEC(struct leak) rows;
    struct hx_pairs known; /* (site, type) to a row */
};

static void deinit_leaks(struct leaks *leaks)
{
    hx_vec_free(&leaks->rows);
    hx_pairs_free(&leaks->known);
}

static hx_error *add_leak(const struct hx_writer *w, hx_obj object, size_t kind,
                          struct leaks *leaks)
{
    const struct hx_graph *g = w->graph;
    size_t sites = w->snapshot->sites.n;
    uint32_t site = g->site && g->site[object] < sites ? g->site[object] : (uint32_t)sites;
    uint32_t type = hx_writer_type(w, object), *row;
    HX_TRY(hx_pairs_at(&leaks->known, hx_pair_key(site, type), &row));
    if (*row == HX_NO_PAIR) {
        HX_NEED(hx_vec_push(&leaks->rows, ((struct leak){.type = type, .site = site})));
        *row = (uint32_t)leaks->rows.n - 1;
    }
    leaks->rows.v[*row].bytes[kind] += g->size[object];
    leaks->rows.v[*row].objects[kind]++;
    return NULL;
}

static hx_error *sum_leaks(const struct hx_writer *w, struct leaks *leaks)
{
    const struct hx_graph *g = w->graph;
    for (hx_obj i = 0; i < g->n && g->state; i++)
        for (size_t k = 0; k < COUNT(leak_kinds); k++)
            if (g->state[i] == leak_kinds[k])
                HX_TRY(add_leak(w, i, k, leaks));
    return NULL;
}

hx_error *hx_writer_leaks(struct hx_writer *w)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(w->db, w->what, "INSERT INTO hx_leak VALUES(?,?,?,NULL,?,?,?)", &st));
    HX_CLEANUP(deinit_leaks) struct leaks leaks = {0};
    HX_TRY(sum_leaks(w, &leaks));
    for (size_t i = 0; i < leaks.rows.n * COUNT(leak_kinds); i++) {
        const struct leak *leak = &leaks.rows.v[i / COUNT(leak_kinds)];
        size_t kind = i % COUNT(leak_kinds);
        if (!leak->objects[kind])
            continue;
        sqlite3_clear_bindings(st);
        sqlite3_bind_int64(st, 1, w->id);
        hx_bind_text(st, 2, hx_state_name(leak_kinds[kind]));
        hx_bind_text(st, 3, leak->type ? w->snapshot->types.v[leak->type - 1].name : NULL);
        sqlite3_bind_int64(st, 4, (int64_t)leak->bytes[kind]);
        sqlite3_bind_int64(st, 5, (int64_t)leak->objects[kind]);
        if (leak->site < w->snapshot->sites.n)
            sqlite3_bind_int64(st, 6, w->snapshot->sites.v[leak->site].stack_id);
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

hx_error *hx_writer_records(struct hx_writer *w)
{
    HX_TRY(hx_writer_roots(w, false));
    HX_TRY(hx_writer_named(w));
    HX_TRY(write_types(w));
    HX_TRY(write_account(w));
    HX_TRY(hx_writer_leaks(w));
    return write_losses(w);
}

void hx_writer_time(int64_t ns, char *buf, size_t size)
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
    if (w->snapshot->free_unknown)
        return;
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

hx_error *hx_writer_summary(struct hx_writer *w)
{
    const struct hx_snapshot *s = w->snapshot;
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(w->db, w->what,
                         "INSERT INTO hx_snapshot VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,"
                         "?13,?14,?15,?16,?17,?18,?19,?20,?21,?22,?23,?24)",
                         &st));
    char taken_at[64];
    hx_writer_time(s->taken_at_ns, taken_at, sizeof taken_at);
    sqlite3_bind_int64(st, 1, w->id);
    sqlite3_bind_int64(st, 2, s->taken_at_ns);
    hx_bind_text(st, 3, taken_at);
    if (s->pid)
        sqlite3_bind_int64(st, 4, s->pid);
    hx_bind_text(st, 5, s->comm);
    hx_bind_text(st, 6, s->exe);
    if (!s->pause_unknown)
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
    if (s->started_at_ns)
        sqlite3_bind_int64(st, 24, s->started_at_ns);
    return hx_db_run(w->db, w->what, st);
}
