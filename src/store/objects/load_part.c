/* load_part.c - parts of a snapshot that is too large to be loaded: who refers to whom, and some
 * objects with the edges between them. */
#include "base/bits.h"
#include "base/cleanup.h"
#include "store/store_private.h"

#include <stdlib.h>
#include <string.h>

enum { PART_COLUMNS = 4 };

/* Some columns of the blocks of one family, of one block at a time. */
struct part {
    hx_blocks *blocks;
    const struct hx_block_index *index;
    const struct hx_decoded *column[PART_COLUMNS];
};

struct part_column {
    enum hx_derived derived;
    int column;
};

static void part_release(struct part *part)
{
    for (size_t i = 0; i < PART_COLUMNS; i++) {
        hx_blocks_release_once(part->blocks, part->column[i]);
        part->column[i] = NULL;
    }
}

static hx_error *part_read(struct part *part, size_t block, const struct part_column *columns,
                           size_t n)
{
    part_release(part);
    for (size_t i = 0; i < n; i++)
        HX_TRY(hx_blocks_column(part->blocks, part->index, block, columns[i].derived,
                                columns[i].column, &part->column[i]));
    return NULL;
}

static void part_end(struct part *part)
{
    part_release(part);
    hx_blocks_index_done(part->blocks, part->index);
    part->index = NULL;
}

static hx_error *damaged_part(const hx_store *store, const char *how)
{
    return hx_error_new(HX_E_CORRUPT, store->path, "take it from a backup or make it again",
                        "the store is damaged (%s)", how);
}

static hx_error *report_part_progress(const hx_store *store, const struct hx_progress *progress,
                                      uint64_t done, uint64_t total)
{
    hx_progress_at(progress, "loading", done, total);
    return hx_progress_cancelled(progress) ? hx_error_cancelled(store->path) : NULL;
}

/* --- who refers to whom --------------------------------------------------------------- */

struct filling {
    hx_store *store;
    const struct hx_progress *progress;
    hx_store_pause_fn *pause;
    void *context;
    struct part objects, edges;
    hx_backwards *backwards;
};

static hx_error *fill_counts(struct filling *filling)
{
    static const struct part_column columns[] = {{HX_PLAIN, HX_COL_IN}};
    struct part *part = &filling->objects;
    for (size_t b = 0; b < part->index->n; b++) {
        const struct hx_block *block = &part->index->block[b];
        HX_TRY(part_read(part, b, columns, 1));
        for (size_t i = 0; i < block->n; i++)
            HX_TRY(hx_backwards_count(filling->backwards, (hx_obj)(block->from + i),
                                      hx_decoded_at(part->column[0], i)));
        part_release(part);
        if (filling->pause)
            filling->pause(filling->context);
    }
    return hx_backwards_begin(filling->backwards);
}

static hx_error *fill_edges(struct filling *filling)
{
    static const struct part_column columns[] = {
        {HX_SOURCE_OBJ, 0}, {HX_TARGET_OBJ, 0}, {HX_PLAIN, HX_COL_KIND}};
    struct part *part = &filling->edges;
    for (size_t b = 0; b < part->index->n; b++) {
        const struct hx_block *block = &part->index->block[b];
        HX_TRY(part_read(part, b, columns, 3));
        for (size_t i = 0; i < block->n; i++)
            HX_TRY(hx_backwards_add(filling->backwards, (hx_obj)hx_decoded_at(part->column[0], i),
                                    (hx_obj)hx_decoded_at(part->column[1], i),
                                    (enum hx_edge_kind)hx_decoded_at(part->column[2], i)));
        part_release(part);
        HX_TRY(report_part_progress(filling->store, filling->progress, block->from,
                                    part->index->rows));
        if (filling->pause)
            filling->pause(filling->context);
    }
    return NULL;
}

static hx_error *fill_part(struct filling *filling, int64_t snapshot)
{
    hx_blocks *blocks = filling->store->blocks;
    hx_blocks_refresh(blocks);
    HX_TRY(hx_blocks_index(blocks, snapshot, HX_FAMILY_OBJECT, &filling->objects.index));
    HX_TRY(hx_blocks_index(blocks, snapshot, HX_FAMILY_EDGE, &filling->edges.index));
    if (filling->objects.index->rows > HX_OBJECTS_MAX)
        return damaged_part(filling->store, "too many objects");
    HX_TRY(hx_backwards_create((hx_obj)filling->objects.index->rows, filling->edges.index->rows,
                               &filling->backwards));
    HX_TRY(fill_counts(filling));
    return fill_edges(filling);
}

hx_error *hx_store_backwards(hx_store *store, int64_t snapshot, const struct hx_progress *progress,
                             hx_store_pause_fn *pause, void *context, hx_backwards **ret)
{
    struct filling filling = {.store = store,
                              .progress = progress,
                              .pause = pause,
                              .context = context,
                              .objects = {.blocks = store->blocks},
                              .edges = {.blocks = store->blocks}};
    hx_error *err = fill_part(&filling, snapshot);
    part_end(&filling.objects);
    part_end(&filling.edges);
    if (err)
        hx_backwards_destroy(filling.backwards);
    else
        *ret = filling.backwards;
    return err;
}

hx_error *hx_store_object(hx_store *store, int64_t snapshot, uint64_t address, hx_obj *ret)
{
    struct part part = {.blocks = store->blocks};
    uint64_t row, found = 0, size = 0;
    uint16_t at;
    *ret = HX_NO_OBJ;
    hx_blocks_refresh(store->blocks);
    HX_TRY(hx_blocks_index(store->blocks, snapshot, HX_FAMILY_OBJECT, &part.index));
    hx_error *err = address < UINT64_MAX
                        ? hx_blocks_lower_bound(store->blocks, part.index, address + 1, &row)
                        : hx_error_new(HX_E_ABSENT, "object", NULL, "no such address");
    if (!err && row-- && row < HX_OBJECTS_MAX) {
        at = (uint16_t)(row % HX_BLOCK_ROWS);
        err = hx_blocks_address(store->blocks, part.index, row, &found);
        if (!err)
            err = hx_blocks_pick(store->blocks, part.index, row / HX_BLOCK_ROWS, HX_PLAIN,
                                 HX_COL_SIZE, &at, 1, &size);
        if (!err && (address == found || address - found < size))
            *ret = (hx_obj)row;
    }
    part_end(&part);
    return err;
}

/* --- some objects --------------------------------------------------------------------- */

struct choosing {
    hx_store *store;
    const struct hx_progress *progress;
    const uint64_t *chosen;
    uint32_t *before; /* for each 64 objects: so many were chosen before them */
    struct hx_snapshot *into;
    struct part objects, edges;
    hx_obj n, n_all; /* chosen, and all of them */
    uint64_t end;    /* of the last chosen object */
};

/* The new number of a chosen object. */
static hx_obj part_object_number(const struct choosing *choosing, uint64_t object)
{
    return (hx_obj)(choosing->before[object / 64] + hx_bits_below(choosing->chosen, object));
}

static hx_error *number_part_objects(struct choosing *choosing)
{
    size_t words = (size_t)choosing->n_all / 64 + 1;
    uint64_t sum = 0;
    choosing->before = calloc(words, sizeof *choosing->before);
    HX_NEED(choosing->before);
    for (size_t w = 0; w < words; w++) {
        choosing->before[w] = (uint32_t)sum;
        sum += (unsigned)__builtin_popcountll(choosing->chosen[w]);
    }
    choosing->n = (hx_obj)sum;
    return NULL;
}

static hx_error *reserve_part(struct choosing *choosing)
{
    struct hx_graph *g = &choosing->into->graph;
    size_t n = (size_t)choosing->n + 1; /* and the one that stands for all others */
    g->n = (hx_obj)n;
    HX_TRY(hx_big_array(g->addr, n));
    HX_TRY(hx_big_array(g->size, n));
    HX_TRY(hx_big_array(g->state, n));
    HX_TRY(hx_big_array(g->type, n));
    HX_TRY(hx_big_array(g->fwd, n + 1));
    HX_TRY(hx_big_array(g->edge, choosing->edges.index->rows));
    g->addr[n - 1] = UINT64_MAX;
    g->type[n - 1] = HX_NO_TYPE;
    return NULL;
}

/* Are any of the objects first..last chosen? */
static bool any_chosen(const struct choosing *choosing, uint64_t first, uint64_t last)
{
    uint64_t next = last + 1;
    hx_obj before_next =
        next / 64 > choosing->n_all / 64 ? choosing->n : part_object_number(choosing, next);
    return before_next > part_object_number(choosing, first);
}

static hx_error *take_part_object(struct choosing *choosing, size_t i, hx_obj to)
{
    struct hx_graph *g = &choosing->into->graph;
    const struct hx_decoded *const *column = choosing->objects.column;
    uint64_t state = hx_decoded_at(column[2], i), type = hx_decoded_at(column[3], i);
    g->addr[to] = hx_decoded_at(column[0], i);
    g->size[to] = hx_decoded_at(column[1], i);
    bool bad = g->addr[to] < choosing->end || state >= HX_STATES ||
               type > choosing->into->types.n ||
               __builtin_add_overflow(g->addr[to], g->size[to], &choosing->end);
    g->state[to] = (uint8_t)state;
    g->type[to] = type ? (uint32_t)(type - 1) : HX_NO_TYPE;
    return bad ? damaged_part(choosing->store, "an object") : NULL;
}

static hx_error *take_objects(struct choosing *choosing)
{
    static const struct part_column columns[] = {{HX_ADDRESS, 0},
                                                 {HX_PLAIN, HX_COL_SIZE},
                                                 {HX_PLAIN, HX_COL_STATE},
                                                 {HX_PLAIN, HX_COL_TYPE}};
    struct part *part = &choosing->objects;
    for (size_t b = 0; b < part->index->n; b++) {
        const struct hx_block *block = &part->index->block[b];
        if (!any_chosen(choosing, block->from, block->from + block->n - 1))
            continue;
        HX_TRY(part_read(part, b, columns, 4));
        for (size_t i = 0; i < block->n; i++)
            if (hx_bit(choosing->chosen, block->from + i))
                HX_TRY(
                    take_part_object(choosing, i, part_object_number(choosing, block->from + i)));
        HX_TRY(report_part_progress(choosing->store, choosing->progress, block->from,
                                    part->index->rows));
    }
    part_release(part);
    return NULL;
}

static hx_error *take_edge(struct choosing *choosing, size_t i)
{
    struct hx_graph *g = &choosing->into->graph;
    const struct hx_decoded *const *column = choosing->edges.column;
    uint64_t source = hx_decoded_at(column[0], i), target = hx_decoded_at(column[1], i);
    uint64_t offset = hx_decoded_at(column[2], i), kind = hx_decoded_at(column[3], i);
    if (source >= choosing->n_all || target >= choosing->n_all || offset > HX_EDGE_OFFSET_MAX ||
        kind > HX_EDGE_INTERIOR)
        return damaged_part(choosing->store, "an edge");
    if (!hx_bit(choosing->chosen, source) || !hx_bit(choosing->chosen, target))
        return NULL;
    g->fwd[(size_t)part_object_number(choosing, source) + 1]++;
    g->edge[g->n_edges++] =
        hx_edge_make(part_object_number(choosing, target), offset, (enum hx_edge_kind)kind);
    return NULL;
}

static hx_error *take_edges(struct choosing *choosing)
{
    static const struct part_column columns[] = {
        {HX_SOURCE_OBJ, 0}, {HX_TARGET_OBJ, 0}, {HX_PLAIN, HX_COL_OFFSET}, {HX_PLAIN, HX_COL_KIND}};
    struct hx_graph *g = &choosing->into->graph;
    struct part *part = &choosing->edges;
    for (size_t b = 0; b < part->index->n; b++) {
        const struct hx_block *block = &part->index->block[b];
        if (block->last_key >= choosing->n_all)
            return damaged_part(choosing->store, "an edge from nowhere");
        if (!any_chosen(choosing, block->first_key, block->last_key))
            continue;
        HX_TRY(part_read(part, b, columns, 4));
        for (size_t i = 0; i < block->n; i++)
            HX_TRY(take_edge(choosing, i));
        HX_TRY(report_part_progress(choosing->store, choosing->progress, block->from,
                                    part->index->rows));
    }
    part_release(part);
    for (size_t i = 0; i < g->n; i++)
        g->fwd[i + 1] += g->fwd[i];
    return NULL;
}

static hx_error *choose_part_objects(struct choosing *choosing, int64_t snapshot)
{
    hx_blocks *blocks = choosing->store->blocks;
    struct hx_snapshot *into = choosing->into;
    hx_blocks_refresh(blocks);
    HX_TRY(hx_blocks_index(blocks, snapshot, HX_FAMILY_OBJECT, &choosing->objects.index));
    HX_TRY(hx_blocks_index(blocks, snapshot, HX_FAMILY_EDGE, &choosing->edges.index));
    if (choosing->objects.index->rows != choosing->n_all)
        return hx_error_new(HX_E_BUSY, choosing->store->path, "ask again", "it was changed");
    HX_TRY(number_part_objects(choosing));
    HX_TRY(reserve_part(choosing));
    HX_TRY(take_objects(choosing));
    HX_TRY(take_edges(choosing));
    for (size_t i = 0; i < into->root_edges.n; i++) {
        hx_obj *target = &into->root_edges.v[i].target;
        *target =
            hx_bit(choosing->chosen, *target) ? part_object_number(choosing, *target) : choosing->n;
    }
    return NULL;
}

hx_error *hx_store_load_chosen(hx_store *store, int64_t snapshot, const uint64_t *chosen,
                               const struct hx_progress *progress, struct hx_snapshot *into)
{
    struct choosing choosing = {.store = store,
                                .progress = progress,
                                .chosen = chosen,
                                .into = into,
                                .n_all = into->graph.n,
                                .objects = {.blocks = store->blocks},
                                .edges = {.blocks = store->blocks}};
    hx_error *err = choose_part_objects(&choosing, snapshot);
    part_end(&choosing.objects);
    part_end(&choosing.edges);
    free(choosing.before);
    return err;
}
