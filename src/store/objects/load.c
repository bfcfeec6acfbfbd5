/* load.c - a snapshot from the store back into the model.
 *
 * Everything that a file can lie about is tested: block sizes and order, addresses that do
 * not rise, edges to objects that are not there, counts that do not agree, numbers of types, sites
 * and roots, ranges that overlap. */
#include "store/store.h"

#include "base/cleanup.h"
#include "store/cost/attribute.h"
#include "store/db.h"
#include "store/objects/classes.h"
#include "store/objects/overlay.h"
#include "store/objects/packed_column.h"
#include "store/schema/row.h"
#include "store/schema/schema.h"
#include "store/store_private.h"
#include "traverse/hold/rounds.h"

#include <stdlib.h>
#include <string.h>

struct reader {
    sqlite3 *db;
    const char *what;
    int64_t id;
    struct hx_snapshot *snapshot;
    const struct hx_progress *progress;
    bool objects_only, roots_only;
    bool holders; /* the snapshot's own rule is by rounds */
    hx_codec *codec;
    uint64_t *value; /* HX_BLOCK_ROWS */
    uint16_t *class; /* of each object (classes.h) */
    struct hx_big class_mem;
    uint16_t *places;      /* HX_BLOCK_ROWS */
    const uint16_t *place; /* of the block's rows, once they are known */
    sqlite3_stmt *column;
    uint64_t rows_done, rows_total;
};

static hx_error *damaged_snapshot(const struct reader *r, const char *how)
{
    return hx_error_new(HX_E_CORRUPT, r->what, "take it from a backup or make it again",
                        "the store is damaged (snapshot %lld: %s)", (long long)r->id, how);
}

/* --- blocks ------------------------------------------------------------------------ */

struct block {
    int64_t id;
    uint64_t from, n, first, last;
};

/* *ret_there tells whether the column is there; NULL: it has to be. */
static hx_error *decode_if_there(struct reader *r, const struct block *block, int column,
                                 bool *ret_there)
{
    sqlite3_bind_int64(r->column, 1, block->id * HX_COLUMN_SLOTS + column);
    int code = sqlite3_step(r->column);
    bool there = code == SQLITE_ROW && sqlite3_column_type(r->column, 0) != SQLITE_NULL;
    hx_error *err = NULL;
    if (there)
        err = hx_column_decode(r->codec, sqlite3_column_blob(r->column, 0),
                               (size_t)sqlite3_column_bytes(r->column, 0), r->place, r->value,
                               block->n);
    else if (code != SQLITE_ROW && code != SQLITE_DONE)
        err = hx_db_error(r->db, code, r->what);
    else if (!ret_there)
        err = damaged_snapshot(r, "a column is missing");
    if (ret_there)
        *ret_there = there;
    sqlite3_reset(r->column);
    return err;
}

static hx_error *decode_column(struct reader *r, const struct block *block, int column)
{
    return decode_if_there(r, block, column, NULL);
}

/* How many rows the blocks of a family hold; their order and sizes are right. */
static hx_error *count_rows(struct reader *r, enum hx_family family, uint64_t *ret)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_overlay_blocks(r->db, r->what, r->id, family, &st));
    uint64_t rows = 0;
    int code;
    while ((code = sqlite3_step(st)) == SQLITE_ROW) {
        int64_t n = sqlite3_column_int64(st, 2);
        if ((uint64_t)sqlite3_column_int64(st, 1) != rows || rows % HX_BLOCK_ROWS || n < 1 ||
            n > HX_BLOCK_ROWS)
            return damaged_snapshot(r, "a block is missing");
        rows += (uint64_t)n;
    }
    if (code != SQLITE_DONE)
        return hx_db_error(r->db, code, r->what);
    *ret = rows;
    return NULL;
}

typedef hx_error *block_fn(struct reader *r, const struct block *block);

static hx_error *each_block(struct reader *r, enum hx_family family, uint64_t rows, block_fn *load)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_overlay_blocks(r->db, r->what, r->id, family, &st));
    uint64_t next = 0;
    int code;
    while ((code = sqlite3_step(st)) == SQLITE_ROW) {
        struct block block = {
            .id = sqlite3_column_int64(st, 0),
            .from = (uint64_t)sqlite3_column_int64(st, 1),
            .n = (uint64_t)sqlite3_column_int64(st, 2),
            .first = (uint64_t)sqlite3_column_int64(st, 3),
            .last = (uint64_t)sqlite3_column_int64(st, 4),
        };
        /* as counted before: the arrays were made for that */
        if (!hx_block_id_is_sane(block.id) || block.from != next || block.n < 1 ||
            block.n > HX_BLOCK_ROWS || block.n > rows - block.from)
            return damaged_snapshot(r, "a block is missing");
        next += block.n;
        r->place = NULL;
        HX_TRY(load(r, &block));
        r->rows_done += block.n;
        hx_progress_at(r->progress, "loading", r->rows_done, r->rows_total);
        if (hx_progress_cancelled(r->progress))
            return hx_error_cancelled(r->what);
    }
    if (code != SQLITE_DONE)
        return hx_db_error(r->db, code, r->what);
    return next == rows ? NULL : damaged_snapshot(r, "a block is missing");
}

/* --- objects and edges ------------------------------------------------------------- */

/* The types of a block's objects. Either all blocks have them or none; the first one tells. */
static hx_error *load_types(struct reader *r, const struct block *block)
{
    struct hx_graph *g = &r->snapshot->graph;
    bool there;
    HX_TRY(decode_if_there(r, block, HX_COL_TYPE, &there));
    if (there && block->from == 0)
        HX_TRY(hx_big_array(g->type, g->n));
    if (there != (g->type != NULL))
        return damaged_snapshot(r, "a column is missing");
    for (size_t i = 0; there && i < block->n; i++) {
        if (r->value[i] > r->snapshot->types.n)
            return damaged_snapshot(r, "a type that is not there");
        g->type[block->from + i] = r->value[i] ? (uint32_t)(r->value[i] - 1) : HX_NO_TYPE;
    }
    return NULL;
}

/* As types. */
static hx_error *load_typed(struct reader *r, const struct block *block)
{
    struct hx_graph *g = &r->snapshot->graph;
    bool there;
    HX_TRY(decode_if_there(r, block, HX_COL_TYPED, &there));
    if (there && block->from == 0)
        HX_TRY(hx_big_array(g->typed, g->n));
    if (there != (g->typed != NULL))
        return damaged_snapshot(r, "a column is missing");
    for (size_t i = 0; there && i < block->n; i++)
        g->typed[block->from + i] = (hx_typed)r->value[i];
    return NULL;
}

static int compare_read_stacks(const void *a, const void *b)
{
    int64_t x = ((const struct hx_site *)a)->stack_id, y = ((const struct hx_site *)b)->stack_id;
    return (x > y) - (x < y);
}

/* As types: either all blocks have a site and what was asked for, or none. */
static hx_error *load_sites(struct reader *r, const struct block *block)
{
    struct hx_graph *g = &r->snapshot->graph;
    const struct hx_site *sites = r->snapshot->sites.v, *site = NULL;
    bool there;
    HX_TRY(decode_if_there(r, block, HX_COL_STACK, &there));
    if (there && block->from == 0)
        HX_TRY(hx_big_array(g->site, g->n));
    if (there != (g->site != NULL))
        return damaged_snapshot(r, "a column is missing");
    for (size_t i = 0; there && i < block->n; i++) {
        struct hx_site wanted = {.stack_id = (int64_t)r->value[i]};
        if (!site || site->stack_id != wanted.stack_id) /* neighbours are often of one site */
            site = r->snapshot->sites.n ? bsearch(&wanted, sites, r->snapshot->sites.n,
                                                  sizeof wanted, compare_read_stacks)
                                        : NULL;
        if (!site)
            return damaged_snapshot(r, "a site that is not there");
        g->site[block->from + i] = (uint32_t)(site - sites);
    }
    return NULL;
}

static hx_error *load_requested(struct reader *r, const struct block *block)
{
    struct hx_graph *g = &r->snapshot->graph;
    bool there;
    HX_TRY(decode_if_there(r, block, HX_COL_REQUESTED, &there));
    if (there && block->from == 0)
        HX_TRY(hx_big_array(g->requested, g->n));
    if (there != (g->requested != NULL))
        return damaged_snapshot(r, "a column is missing");
    for (size_t i = 0; there && i < block->n; i++)
        g->requested[block->from + i] = r->value[i] - 1; /* 0: HX_NO_REQUEST */
    return NULL;
}

static hx_error *load_shapes(struct reader *r, const struct block *block)
{
    struct hx_graph *g = &r->snapshot->graph;
    bool there;
    HX_TRY(decode_if_there(r, block, HX_COL_SHAPE, &there));
    if (there && block->from == 0)
        HX_TRY(hx_big_array(g->shape, g->n));
    if (there != (g->shape != NULL))
        return damaged_snapshot(r, "a column is missing");
    for (size_t i = 0; there && i < block->n; i++) {
        if (r->value[i] > r->snapshot->shapes.n)
            return damaged_snapshot(r, "a shape that is not there");
        g->shape[block->from + i] = r->value[i] ? (uint16_t)(r->value[i] - 1) : HX_NO_SHAPE;
    }
    return NULL;
}

static hx_error *load_rounds(struct reader *r, const struct block *block)
{
    struct hx_graph *g = &r->snapshot->graph;
    bool there;
    if (!r->holders)
        return NULL;
    HX_TRY(decode_if_there(r, block, HX_COL_ROUND, &there));
    if (there && block->from == 0)
        HX_TRY(hx_big_array(g->round, g->n));
    if (there != (g->round != NULL))
        return damaged_snapshot(r, "a column is missing");
    for (size_t i = 0; there && i < block->n; i++) {
        if (r->value[i] > HX_ROUNDS)
            return damaged_snapshot(r, "a round");
        g->round[block->from + i] = (uint8_t)r->value[i];
    }
    return NULL;
}

static hx_error *classify_objects(struct reader *r, const struct block *block)
{
    const uint64_t *size = r->snapshot->graph.size + block->from;
    uint16_t *class = r->class + block->from;
    HX_TRY(decode_column(r, block, HX_COL_IN));
    for (size_t i = 0; i < block->n; i++)
        class[i] = hx_class_of(size[i], r->value[i], 0);
    HX_TRY(decode_column(r, block, HX_COL_OUT));
    for (size_t i = 0; i < block->n; i++)
        class[i] += hx_class_of_out(r->value[i]);
    HX_TRY(hx_classes_place(class, block->n, r->places));
    r->place = r->places;
    return NULL;
}

static hx_error *load_objects(struct reader *r, const struct block *block)
{
    struct hx_graph *g = &r->snapshot->graph;
    uint64_t *addr = g->addr + block->from, *size = g->size + block->from;
    HX_TRY(decode_column(r, block, HX_COL_SIZE));
    memcpy(size, r->value, block->n * sizeof *size);
    HX_TRY(decode_column(r, block, HX_COL_GAP));
    /* the end of the object before; the first block may begin anywhere */
    uint64_t floor = block->from ? addr[-1] + size[-1] : 0;
    bool bad = block->first < floor || r->value[0] != 0;
    uint64_t at = block->first;
    for (size_t i = 0; i < block->n; i++) {
        bad |= __builtin_add_overflow(at, r->value[i], &at);
        addr[i] = at;
        bad |= __builtin_add_overflow(at, size[i], &at);
    }
    if (bad || addr[block->n - 1] != block->last)
        return damaged_snapshot(r, "addresses");
    HX_TRY(decode_column(r, block, HX_COL_STATE));
    for (size_t i = 0; i < block->n; i++) {
        if (r->value[i] >= HX_STATES)
            return damaged_snapshot(r, "a state");
        g->state[block->from + i] = (uint8_t)r->value[i];
        r->snapshot->state_bytes[r->value[i]] += size[i];
        r->snapshot->state_objects[r->value[i]]++;
        r->snapshot->heap_bytes += size[i];
    }
    HX_TRY(classify_objects(r, block));
    HX_TRY(load_types(r, block));
    HX_TRY(load_typed(r, block));
    HX_TRY(load_sites(r, block));
    HX_TRY(load_requested(r, block));
    HX_TRY(load_shapes(r, block));
    HX_TRY(load_rounds(r, block));
    if (r->objects_only)
        return NULL;
    HX_TRY(decode_column(r, block, HX_COL_OUT));
    hx_eidx *fwd = g->fwd + block->from;
    for (size_t i = 0; i < block->n; i++)
        bad |= __builtin_add_overflow(fwd[i], r->value[i], &fwd[i + 1]);
    if (bad || fwd[block->n] > g->n_edges)
        return damaged_snapshot(r, "more edges than stored");
    return NULL;
}

/* The sources follow from the counts, which end at n_edges. */
static hx_error *classify_edges(struct reader *r, const struct block *block)
{
    const struct hx_graph *g = &r->snapshot->graph;
    uint64_t source = block->first, nth = 0;
    if (source >= g->n || block->from < g->fwd[source])
        return damaged_snapshot(r, "sources of edges");
    for (size_t i = 0; i < block->n; i++, nth++) {
        for (; source < g->n && block->from + i >= g->fwd[source + 1]; nth = 0)
            source++;
        if (source >= g->n)
            return damaged_snapshot(r, "sources of edges");
        r->places[i] = hx_edge_class_of(r->class[source], nth);
    }
    if (source != block->last)
        return damaged_snapshot(r, "sources of edges");
    HX_TRY(hx_classes_place(r->places, block->n, r->places));
    r->place = r->places;
    return NULL;
}

static hx_error *load_edges(struct reader *r, const struct block *block)
{
    struct hx_graph *g = &r->snapshot->graph;
    hx_edge *edge = g->edge + block->from;
    bool bad = false;
    HX_TRY(classify_edges(r, block));
    HX_TRY(decode_column(r, block, HX_COL_OFFSET));
    for (size_t i = 0; i < block->n; i++) {
        bad |= r->value[i] > HX_EDGE_OFFSET_MAX;
        edge[i] = (r->value[i] & HX_EDGE_OFFSET_MAX) << 2;
    }
    HX_TRY(decode_column(r, block, HX_COL_KIND));
    for (size_t i = 0; i < block->n; i++) {
        bad |= r->value[i] > HX_EDGE_INTERIOR;
        edge[i] |= r->value[i] & 3;
    }
    bool there;
    HX_TRY(decode_if_there(r, block, HX_COL_EVIDENCE, &there));
    if (there && block->from == 0)
        HX_TRY(hx_big_array(g->evidence, g->n_edges));
    if (there != (g->evidence != NULL))
        return damaged_snapshot(r, "a column is missing");
    for (size_t i = 0; there && i < block->n; i++) {
        if (r->value[i] >= HX_RULE_COUNT)
            return damaged_snapshot(r, "a rule that is not there");
        g->evidence[block->from + i] = HX_EVIDENCE(r->value[i], edge[i] & 3);
    }
    HX_TRY(decode_column(r, block, HX_COL_TARGET));
    if (bad)
        return damaged_snapshot(r, "an edge");
    hx_obj source = (hx_obj)block->first;
    for (size_t i = 0; i < block->n; i++) {
        while (block->from + i >= g->fwd[source + 1])
            source++;
        uint64_t target = (uint64_t)source + (uint64_t)hx_unzigzag(r->value[i]);
        if (target >= g->n)
            return damaged_snapshot(r, "an edge to nowhere");
        edge[i] |= target << 32;
    }
    return NULL;
}

static hx_error *load_root_edges(struct reader *r, const struct block *block)
{
    /* room as blocks come: what they claim may be more than they hold */
    HX_NEED(hx_vec_reserve(&r->snapshot->root_edges, block->from + block->n));
    struct hx_root_edge *edge = r->snapshot->root_edges.v + block->from;
    uint64_t at = block->first, roots = r->snapshot->roots.n;
    HX_TRY(decode_column(r, block, HX_COL_ROOT));
    for (size_t i = 0; i < block->n; i++) {
        if (__builtin_add_overflow(at, r->value[i], &at) || at >= roots)
            return damaged_snapshot(r, "an edge from no root");
        edge[i].root = (uint32_t)at;
    }
    HX_TRY(decode_column(r, block, HX_COL_ROOT_TARGET));
    at = 0;
    for (size_t i = 0; i < block->n; i++) {
        at += (uint64_t)hx_unzigzag(r->value[i]);
        if (at >= r->snapshot->graph.n)
            return damaged_snapshot(r, "an edge to nowhere");
        edge[i].target = (hx_obj)at;
    }
    HX_TRY(decode_column(r, block, HX_COL_WORD));
    at = 0;
    for (size_t i = 0; i < block->n; i++) {
        at += (uint64_t)hx_unzigzag(r->value[i]);
        edge[i].address = at;
    }
    HX_TRY(decode_column(r, block, HX_COL_KIND));
    for (size_t i = 0; i < block->n; i++) {
        if (r->value[i] > HX_EDGE_INTERIOR)
            return damaged_snapshot(r, "an edge");
        edge[i].kind = (uint8_t)r->value[i];
    }
    bool there;
    HX_TRY(decode_if_there(r, block, HX_COL_EVIDENCE, &there));
    if (r->snapshot->graph.n_edges && there != (r->snapshot->graph.evidence != NULL))
        return damaged_snapshot(r, "a column is missing");
    for (size_t i = 0; i < block->n; i++) {
        if (there && r->value[i] >= HX_RULE_COUNT)
            return damaged_snapshot(r, "a rule that is not there");
        edge[i].evidence = HX_EVIDENCE(there ? r->value[i] : HX_RULE_NONE, edge[i].kind);
    }
    return NULL;
}

/* Ranges of pages, from which everybody may compute addresses. */
static hx_error *load_resident(struct reader *r, const struct block *block)
{
    enum { PAGE = 4096 };
    const uint64_t top = UINT64_MAX / PAGE; /* no page has a higher number */
    hx_ranges *ranges = &r->snapshot->resident;
    HX_NEED(hx_vec_reserve(ranges, block->from + block->n));
    struct hx_range *range = ranges->v + block->from;
    uint64_t at = block->first, floor = block->from ? range[-1].end / PAGE : 0;
    HX_TRY(decode_column(r, block, HX_COL_PAGES));
    for (size_t i = 0; i < block->n; i++)
        range[i].end = r->value[i];
    HX_TRY(decode_column(r, block, HX_COL_FIRST_PAGE));
    bool bad = at < floor || r->value[0] != 0;
    for (size_t i = 0; i < block->n && !bad; i++) {
        uint64_t pages = range[i].end;
        bad = r->value[i] > top || pages < 1 || pages > top || (at += r->value[i]) > top ||
              pages > top - at || (i + 1 == block->n && at != block->last);
        range[i].start = at * PAGE;
        range[i].end = (at + pages) * PAGE;
        at += pages;
    }
    return bad ? damaged_snapshot(r, "resident pages") : NULL;
}

static hx_error *reserve_objects(struct hx_graph *g, uint64_t objects)
{
    g->n = (hx_obj)objects;
    HX_TRY(hx_big_array(g->addr, objects));
    HX_TRY(hx_big_array(g->size, objects));
    return hx_big_array(g->state, objects);
}

static hx_error *reserve_edges(struct hx_graph *g, uint64_t edges)
{
    g->n_edges = edges;
    HX_TRY(hx_big_array(g->fwd, (size_t)g->n + 1));
    return hx_big_array(g->edge, edges);
}

static hx_error *load_all_root_edges(struct reader *r)
{
    uint64_t root_edges;
    HX_TRY(count_rows(r, HX_FAMILY_ROOT_EDGE, &root_edges));
    HX_TRY(each_block(r, HX_FAMILY_ROOT_EDGE, root_edges, load_root_edges));
    r->snapshot->root_edges.n = root_edges;
    return NULL;
}

static hx_error *load_graph(struct reader *r)
{
    struct hx_graph *g = &r->snapshot->graph;
    uint64_t objects, edges, root_edges, resident;
    HX_TRY(count_rows(r, HX_FAMILY_OBJECT, &objects));
    if (objects > HX_OBJECTS_MAX)
        return damaged_snapshot(r, "too many objects");
    g->n = (hx_obj)objects;
    if (r->roots_only)
        return load_all_root_edges(r);
    HX_TRY(reserve_objects(g, objects));
    HX_TRY(hx_big_array(r->class, objects));
    r->rows_total = objects;
    hx_progress_at(r->progress, "objects", objects, objects);
    if (r->objects_only)
        return each_block(r, HX_FAMILY_OBJECT, objects, load_objects);
    HX_TRY(count_rows(r, HX_FAMILY_EDGE, &edges));
    HX_TRY(count_rows(r, HX_FAMILY_ROOT_EDGE, &root_edges));
    HX_TRY(count_rows(r, HX_FAMILY_RESIDENT, &resident));
    HX_TRY(reserve_edges(g, edges));
    r->rows_total += edges + root_edges + resident;
    hx_progress_at(r->progress, "edges", edges, edges);
    HX_TRY(each_block(r, HX_FAMILY_OBJECT, objects, load_objects));
    if (g->fwd[objects] != edges)
        return damaged_snapshot(r, "fewer edges than counted");
    HX_TRY(each_block(r, HX_FAMILY_EDGE, edges, load_edges));
    HX_TRY(load_all_root_edges(r));
    HX_TRY(each_block(r, HX_FAMILY_RESIDENT, resident, load_resident));
    if (r->holders && !g->n_edges) /* no column says so */
        HX_TRY(hx_big_array(g->evidence, 1));
    r->snapshot->resident.n = resident;
    r->snapshot->has_resident = resident > 0;
    return NULL;
}

/* --- the small tables -------------------------------------------------------------- */

/* The rows of a table that belong to the snapshot. */
static hx_error *select_rows(const struct reader *r, const char *sql, sqlite3_stmt **ret)
{
    HX_TRY(hx_db_prepare(r->db, r->what, sql, ret));
    sqlite3_bind_int64(*ret, 1, r->id);
    return NULL;
}

/* Copies a text; NULL stays NULL unless `must`, then it becomes "". */
static hx_error *copy_text(struct hx_str text, bool must, char **ret)
{
    if (text.s && text.n > HX_TEXT_NAME) {
        struct hx_text bounded = {0};
        hx_text_names(&bounded, text.s, strlen(text.s));
        *ret = bounded.failed ? NULL : hx_steal(bounded.s);
        hx_text_free(&bounded);
        return *ret ? NULL : hx_error_nomem();
    }
    if (!text.s && !must)
        return NULL;
    *ret = strdup(text.s ? text.s : "");
    return *ret ? NULL : hx_error_nomem();
}

static const char *method_literal(const char *text)
{
    static const char *const methods[] = {"copy", "precopy", "fork", "core", "import"};
    for (size_t i = 0; text && i < sizeof methods / sizeof *methods; i++) {
        if (strcmp(text, methods[i]) == 0)
            return methods[i];
    }
    return "copy";
}

static hx_error *load_summary(struct reader *r)
{
    struct hx_snapshot *s = r->snapshot;
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(select_rows(r, "SELECT * FROM hx_snapshot WHERE snapshot = ?", &st));
    int code = sqlite3_step(st);
    if (code == SQLITE_DONE)
        return hx_error_new(HX_E_ABSENT, r->what,
                            "heapx report FILE snapshots --snapshot all lists them",
                            "no snapshot %lld in it", (long long)r->id);
    if (code != SQLITE_ROW)
        return hx_db_error(r->db, code, r->what);
    struct hx_row_snapshot row = hx_row(st, snapshot);
    s->taken_at_ns = row.taken_at_ns.value;
    s->pid = (pid_t)row.pid.value;
    HX_TRY(copy_text(row.comm, false, &s->comm));
    HX_TRY(copy_text(row.exe, false, &s->exe));
    s->pause_us = (uint64_t)row.pause_us.value;
    s->pause_unknown = !row.pause_us.known;
    s->precopied = row.prepare_us.known;
    s->prepare_us = (uint64_t)row.prepare_us.value;
    s->held_us = (uint64_t)row.held_us.value;
    s->method = method_literal(row.method.s);
    HX_TRY(copy_text(row.allocator, false, &s->allocator));
    s->free_bytes = (uint64_t)row.free_bytes.value;
    s->overhead_bytes = (uint64_t)row.overhead_bytes.value;
    s->no_heap = !row.heap_objects.known;
    s->free_unknown = !s->no_heap && !row.free_bytes.known;
    s->has_rss = row.rss_bytes.known;
    s->rss_bytes = (uint64_t)row.rss_bytes.value;
    if (row.interior.value < HX_INTERIOR_KNOWN || row.interior.value > HX_INTERIOR_OFF)
        return damaged_snapshot(r, "interior rule");
    s->interior = (enum hx_interior)row.interior.value;
    s->complete = row.complete.value != 0;
    if (row.notes.s)
        hx_text_puts(&s->notes, row.notes.s);
    return NULL;
}

static hx_error *load_rule(struct reader *r)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(select_rows(r, "SELECT holders FROM hx_census WHERE snapshot = ?", &st));
    int code = sqlite3_step(st);
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        return hx_db_error(r->db, code, r->what);
    r->holders = code == SQLITE_ROW && sqlite3_column_int(st, 0);
    return NULL;
}

static hx_error *load_roots(struct reader *r)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(select_rows(r, "SELECT * FROM hx_root WHERE snapshot = ? ORDER BY root_id", &st));
    int code;
    while ((code = sqlite3_step(st)) == SQLITE_ROW) {
        struct hx_row_root row = hx_row(st, root);
        if (row.root_id.value != (int64_t)r->snapshot->roots.n || row.kind.value < 0 ||
            row.kind.value > HX_ROOT_NAMED)
            return damaged_snapshot(r, "a root");
        struct hx_root root = {
            .kind = (enum hx_root_kind)row.kind.value,
            .address = (uint64_t)row.address.value,
            .size = (uint64_t)row.size.value,
            .direct_objects = (uint64_t)row.direct_objects.value,
            .value = (uint64_t)row.value.value,
            .tid = (pid_t)row.tid.value,
            .layout = (uint32_t)row.layout.value,
            .layout_at = (uint64_t)row.layout_at.value,
        };
        HX_NEED(hx_vec_push(&r->snapshot->roots, root));
        struct hx_root *kept = &r->snapshot->roots.v[r->snapshot->roots.n - 1];
        HX_TRY(copy_text(row.name, true, &kept->name));
        HX_TRY(copy_text(row.module, true, &kept->module));
        HX_TRY(copy_text(row.symbol, false, &kept->symbol));
        HX_TRY(copy_text(row.near, false, &kept->near));
    }
    return code == SQLITE_DONE ? NULL : hx_db_error(r->db, code, r->what);
}

static hx_error *load_bare(struct reader *r)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(select_rows(r, "SELECT * FROM hx_bare WHERE snapshot = ?", &st));
    int code;
    while ((code = sqlite3_step(st)) == SQLITE_ROW) {
        struct hx_row_bare row = hx_row(st, bare);
        HX_NEED(hx_vec_push(&r->snapshot->bare, (struct hx_bare_module){0}));
        struct hx_bare_module *bare = &r->snapshot->bare.v[r->snapshot->bare.n - 1];
        HX_TRY(copy_text(row.module, true, &bare->module));
        HX_TRY(copy_text(row.path, true, &bare->path));
        HX_TRY(copy_text(row.build_id, false, &bare->build_id));
    }
    return code == SQLITE_DONE ? NULL : hx_db_error(r->db, code, r->what);
}

/* Whose roots of threads are. A name has as many characters as the kernel keeps, whatever the file
 * says. */
static hx_error *load_thread_names(struct reader *r)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(select_rows(r,
                       "SELECT r.root_id, substr(t.name, 1, 19) FROM hx_root AS r"
                       " CROSS JOIN hx_thread AS t ON t.snapshot = r.snapshot AND t.tid = r.tid"
                       " WHERE r.snapshot = ? AND r.tid <> 0",
                       &st));
    int code;
    while ((code = sqlite3_step(st)) == SQLITE_ROW) {
        uint64_t root = (uint64_t)sqlite3_column_int64(st, 0);
        const char *name = (const char *)sqlite3_column_text(st, 1);
        if (root < r->snapshot->roots.n && !r->snapshot->roots.v[root].thread && name)
            HX_NEED(r->snapshot->roots.v[root].thread = strdup(name));
    }
    return code == SQLITE_DONE ? NULL : hx_db_error(r->db, code, r->what);
}

static int compare_read_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Are there two of the same name? Sorts them. */
static bool have_twins(const char **name, size_t n)
{
    if (n)
        qsort(name, n, sizeof *name, compare_read_names);
    for (size_t i = 1; i < n; i++)
        if (strcmp(name[i - 1], name[i]) == 0)
            return true;
    return false;
}

static hx_error *load_type_names(struct reader *r)
{
    struct hx_snapshot *s = r->snapshot;
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(select_rows(r,
                       "SELECT * FROM hx_type WHERE snapshot = ?"
                       " AND type <> 0 ORDER BY type", /* 0 is what is not known */
                       &st));
    int code;
    while ((code = sqlite3_step(st)) == SQLITE_ROW) {
        struct hx_row_type row = hx_row(st, type);
        const char *confidence = row.confidence.s;
        struct hx_type type = {.confidence = HX_CONFIDENCE_GUESS,
                               .layout = (uint32_t)row.layout.value};
        if (row.type.value != (int64_t)s->types.n + 1 || s->types.n + 1 >= HX_NO_TYPE)
            return damaged_snapshot(r, "a type");
        while (confidence && type.confidence != HX_CONFIDENCE_CERTAIN &&
               strcmp(confidence, hx_confidence_name(type.confidence)) != 0)
            type.confidence--;
        for (int i = HX_TYPED_NOT + 1; row.source.s && i < HX_TYPE_SOURCES; i++)
            if (strstr(row.source.s, hx_type_source_name((enum hx_type_source)i)))
                type.sources |= (uint8_t)(1u << i);
        HX_NEED(hx_vec_push(&s->types, type));
        HX_TRY(copy_text(row.name, true, &s->types.v[s->types.n - 1].name));
        HX_TRY(copy_text(row.symbol, false, &s->types.v[s->types.n - 1].symbol));
    }
    if (code != SQLITE_DONE)
        return hx_db_error(r->db, code, r->what);
    HX_FREE const char **name = calloc(s->types.n + 1, sizeof *name);
    HX_NEED(name);
    for (size_t i = 0; i < s->types.n; i++)
        name[i] = s->types.v[i].name;
    return have_twins(name, s->types.n) ? damaged_snapshot(r, "two types of one name") : NULL;
}

static hx_error *load_layouts(struct reader *r)
{
    struct hx_snapshot *s = r->snapshot;
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(select_rows(r, "SELECT * FROM hx_layout WHERE snapshot = ? ORDER BY layout", &st));
    int code;
    while ((code = sqlite3_step(st)) == SQLITE_ROW) {
        struct hx_row_layout row = hx_row(st, layout);
        if (row.layout.value != (int64_t)s->layouts.n + 1)
            return damaged_snapshot(r, "a layout");
        HX_NEED(hx_vec_push(&s->layouts, (struct hx_layout){.size = (uint64_t)row.size.value,
                                                            .repeats = row.repeats.value != 0,
                                                            .alike = row.repeats.value == 2}));
    }
    return code == SQLITE_DONE ? NULL : hx_db_error(r->db, code, r->what);
}

static hx_error *load_fields(struct reader *r)
{
    struct hx_snapshot *s = r->snapshot;
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(
        select_rows(r, "SELECT * FROM hx_field WHERE snapshot = ? ORDER BY layout, offset", &st));
    int code;
    while ((code = sqlite3_step(st)) == SQLITE_ROW) {
        struct hx_row_field row = hx_row(st, field);
        if (row.layout.value < 1 || (uint64_t)row.layout.value > s->layouts.n)
            return damaged_snapshot(r, "a field");
        struct hx_layout *layout = &s->layouts.v[row.layout.value - 1];
        HX_NEED(
            hx_vec_push(&layout->fields, (struct hx_field){.offset = (uint64_t)row.offset.value}));
        HX_TRY(copy_text(row.name, true, &layout->fields.v[layout->fields.n - 1].name));
        HX_TRY(copy_text(row.target, false, &layout->fields.v[layout->fields.n - 1].target));
    }
    return code == SQLITE_DONE ? NULL : hx_db_error(r->db, code, r->what);
}

static hx_error *load_shape_labels(struct reader *r)
{
    struct hx_snapshot *s = r->snapshot;
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(select_rows(r, "SELECT * FROM hx_shape WHERE snapshot = ? AND shape <> 0 ORDER BY shape",
                       &st));
    int code;
    while ((code = sqlite3_step(st)) == SQLITE_ROW) {
        struct hx_row_shape row = hx_row(st, shape);
        if (row.shape.value != (int64_t)s->shapes.n + 1 || s->shapes.n + 1 >= HX_NO_SHAPE)
            return damaged_snapshot(r, "a shape");
        HX_NEED(hx_vec_push(&s->shapes, (struct hx_shape){0}));
        HX_TRY(copy_text(row.label, true, &s->shapes.v[s->shapes.n - 1].label));
    }
    if (code != SQLITE_DONE)
        return hx_db_error(r->db, code, r->what);
    HX_FREE const char **name = calloc(s->shapes.n + 1, sizeof *name);
    HX_NEED(name);
    for (size_t i = 0; i < s->shapes.n; i++)
        name[i] = s->shapes.v[i].label;
    return have_twins(name, s->shapes.n) ? damaged_snapshot(r, "two shapes of one name") : NULL;
}

static hx_error *load_site(struct reader *r, sqlite3_stmt *st, const hx_ccs_names *names)
{
    struct hx_snapshot *s = r->snapshot;
    HX_CLEANUP(hx_text_free) struct hx_text label = {0};
    struct hx_site site = {
        .stack_id = sqlite3_column_int64(st, 0),
        .ccs_id = sqlite3_column_int64(st, 1),
        .stack = HX_NO_STACK,
        .identity = (uint64_t)sqlite3_column_int64(st, 2),
    };
    if (site.stack_id < 1 || s->sites.n + 1 >= HX_NO_SITE ||
        (s->sites.n && s->sites.v[s->sites.n - 1].stack_id >= site.stack_id))
        return damaged_snapshot(r, "a site");
    if (site.stack_id == HX_CCS_BEFORE || site.stack_id == HX_CCS_UNKNOWN)
        site.stack = site.stack_id == HX_CCS_BEFORE ? HX_SITE_BEFORE : HX_SITE_UNKNOWN;
    HX_TRY(hx_ccs_names_label(names, site.ccs_id, &label));
    site.label = label.failed ? NULL : strdup(hx_text_str(&label));
    if (!site.label || !hx_vec_push(&s->sites, site)) {
        free(site.label);
        return hx_error_nomem();
    }
    return NULL;
}

/* Whole stacks, called by what they are attributed to now. */
static hx_error *load_site_labels(struct reader *r)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    hx_ccs_names *names = NULL;
    HX_TRY(select_rows(r,
                       "SELECT s.stack_id, a.ccs_id, t.identity FROM hx_stack_site AS s"
                       " LEFT JOIN hx_stack AS t ON t.stack_id = s.stack_id"
                       " LEFT JOIN hx_attributed AS a ON a.stack_id = s.stack_id"
                       " WHERE s.snapshot = ? ORDER BY s.stack_id",
                       &st));
    hx_error *err = NULL;
    int code;
    while (!err && (code = sqlite3_step(st)) == SQLITE_ROW) {
        if (!names)
            err = hx_ccs_names_load(r->db, r->what, &names);
        if (!err)
            err = load_site(r, st, names);
    }
    hx_ccs_names_free(names);
    if (err)
        return err;
    return code == SQLITE_DONE ? NULL : hx_db_error(r->db, code, r->what);
}

static hx_error *load_named(struct reader *r)
{
    struct hx_snapshot *s = r->snapshot;
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(select_rows(r, "SELECT * FROM hx_named WHERE snapshot = ? ORDER BY position", &st));
    int code;
    while ((code = sqlite3_step(st)) == SQLITE_ROW) {
        struct hx_row_named row = hx_row(st, named);
        int64_t root = row.root_id.value;
        if (root < 0 || (uint64_t)root >= s->roots.n)
            return damaged_snapshot(r, "a named root that is not there");
        HX_NEED(hx_vec_push(&s->named, ((struct hx_named){.root = (uint32_t)root})));
        struct hx_named *named = &s->named.v[s->named.n - 1];
        HX_TRY(copy_text(row.name, true, &named->name));
        HX_TRY(copy_text(row.expr, false, &named->expr));
    }
    if (code != SQLITE_DONE)
        return hx_db_error(r->db, code, r->what);
    HX_FREE const char **name = calloc(s->named.n + 1, sizeof *name);
    HX_NEED(name);
    for (size_t i = 0; i < s->named.n; i++)
        name[i] = s->named.v[i].name;
    return have_twins(name, s->named.n) ? damaged_snapshot(r, "two named roots of one name") : NULL;
}

static hx_error *load_account(struct reader *r)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(select_rows(r, "SELECT * FROM hx_account WHERE snapshot = ?", &st));
    int code;
    while ((code = sqlite3_step(st)) == SQLITE_ROW) {
        struct hx_row_account row = hx_row(st, account);
        if (row.position.value < 0 || row.position.value >= HX_PARTS)
            return damaged_snapshot(r, "account");
        r->snapshot->has_account = true;
        r->snapshot->account[row.position.value] = (uint64_t)row.bytes.value;
    }
    return code == SQLITE_DONE ? NULL : hx_db_error(r->db, code, r->what);
}

static hx_error *load_losses(struct reader *r)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(select_rows(r, "SELECT * FROM hx_loss WHERE snapshot = ?", &st));
    int code;
    while ((code = sqlite3_step(st)) == SQLITE_ROW) {
        struct hx_row_loss row = hx_row(st, loss);
        struct hx_loss loss = {
            .count = (uint64_t)row.count.value,
            .bytes = (uint64_t)row.bytes.value,
            .address = (uint64_t)row.address.value,
            .has_bytes = row.bytes.known,
            .has_address = row.address.known,
        };
        HX_NEED(hx_vec_push(&r->snapshot->losses, loss));
        HX_TRY(copy_text(row.what, true, &r->snapshot->losses.v[r->snapshot->losses.n - 1].what));
    }
    return code == SQLITE_DONE ? NULL : hx_db_error(r->db, code, r->what);
}

static hx_error *load_all_columns(struct reader *r)
{
    r->value = malloc(HX_BLOCK_ROWS * sizeof *r->value);
    r->places = malloc(HX_BLOCK_ROWS * sizeof *r->places);
    HX_NEED(r->value && r->places);
    HX_TRY(hx_codec_create(&r->codec));
    /* a statement that has not ended: all that follows reads the file as it is now, though
     * another process may revise the snapshot meanwhile */
    HX_STATEMENT sqlite3_stmt *hold = NULL;
    HX_TRY(hx_db_prepare(r->db, r->what, "SELECT snapshot FROM main.hx_snapshot", &hold));
    int code = sqlite3_step(hold);
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        return hx_db_error(r->db, code, r->what);
    HX_TRY(hx_overlay_column(r->db, r->what, &r->column));
    HX_TRY(load_summary(r));
    HX_TRY(load_rule(r));
    HX_TRY(load_type_names(r));
    HX_TRY(load_layouts(r));
    HX_TRY(load_fields(r));
    HX_TRY(load_shape_labels(r));
    HX_TRY(load_site_labels(r));
    if (r->objects_only)
        return load_graph(r);
    HX_TRY(load_roots(r));
    HX_TRY(load_bare(r));
    HX_TRY(load_thread_names(r));
    HX_TRY(load_named(r));
    HX_TRY(load_account(r));
    HX_TRY(load_losses(r));
    return load_graph(r);
}

static hx_error *load_snapshot(hx_store *store, struct reader r, int64_t snapshot,
                               const struct hx_progress *progress, struct hx_snapshot **ret)
{
    r.db = store->db;
    r.what = store->path;
    r.id = snapshot;
    r.progress = progress;
    HX_TRY(hx_snapshot_create(&r.snapshot));
    hx_error *err = load_all_columns(&r);
    sqlite3_finalize(r.column);
    hx_codec_destroy(r.codec);
    free(r.value);
    free(r.places);
    hx_big_free(&r.class_mem);
    if (err) {
        hx_snapshot_destroy(r.snapshot);
        return err;
    }
    *ret = r.snapshot;
    return NULL;
}

hx_error *hx_store_load(hx_store *store, int64_t snapshot, const struct hx_progress *progress,
                        struct hx_snapshot **ret)
{
    return load_snapshot(store, (struct reader){0}, snapshot, progress, ret);
}

hx_error *hx_store_load_objects(hx_store *store, int64_t snapshot,
                                const struct hx_progress *progress, struct hx_snapshot **ret)
{
    return load_snapshot(store, (struct reader){.objects_only = true}, snapshot, progress, ret);
}

hx_error *hx_store_load_roots(hx_store *store, int64_t snapshot, const struct hx_progress *progress,
                              struct hx_snapshot **ret)
{
    return load_snapshot(store, (struct reader){.roots_only = true}, snapshot, progress, ret);
}
