/* block_aside.c - the next block is decoded on another thread. */
#include "store/objects/blocks_private.h"

#include <stdlib.h>
#include <string.h>

/* The stored columns that one is made of, of edges with those of stash_objects(); 0: others, too.
 */
static size_t stored_columns(const struct hx_wanted *wanted, int ret[HX_STASHED / HX_WANTED_MAX])
{
    switch (wanted->derived) {
    case HX_PLAIN:
    case HX_PLUS_ONE:
        ret[0] = wanted->column;
        return 1;
    case HX_DOMINATOR:
        ret[0] = HX_COL_DOMINATOR;
        return 1;
    case HX_RETAINED:
        ret[0] = HX_COL_RETAINED;
        ret[1] = HX_COL_RETAINED_REST;
        ret[2] = HX_COL_RETAINED_OBJECTS;
        ret[3] = HX_COL_SIZE;
        return 4;
    case HX_TARGET_OBJ:
        ret[0] = HX_COL_TARGET;
        ret[1] = HX_COL_SOURCE;
        return 2;
    default:
        return 0;
    }
}

static hx_error *stash_column(hx_blocks *blocks, int64_t id, struct hx_stash *stash)
{
    struct stashed *to = &stash->column[stash->n];
    const void *blob;
    size_t bytes;
    for (size_t i = 0; i < stash->n; i++)
        if (stash->column[i].id == id)
            return NULL;
    if (stash->n == HX_STASHED)
        return hx_error_nomem();
    HX_TRY(hx_blocks_find_blob(blocks, id, &blob, &bytes));
    if (blob && to->room < bytes) {
        free(to->blob);
        to->blob = malloc(to->room = bytes);
    }
    bool failed = blob && !to->blob;
    if (blob && !failed)
        memcpy(to->blob, blob, bytes);
    sqlite3_reset(blocks->column);
    to->room = failed ? 0 : to->room;
    to->id = id;
    to->bytes = bytes;
    to->there = blob != NULL;
    stash->n++;
    return failed ? hx_error_nomem() : NULL;
}

/* Where the rows lie, if one of the columns wants that: it is known, or made of three others. */
static hx_error *stash_place(hx_blocks *blocks, const struct hx_block *block,
                             struct hx_stash *stash)
{
    static const int made_of[] = {HX_COL_SIZE, HX_COL_IN, HX_COL_OUT};
    bool placed = false;
    for (size_t i = 0; i < stash->n; i++)
        placed |= stash->column[i].there &&
                  hx_column_is_placed(stash->column[i].blob, stash->column[i].bytes);
    struct hx_entry *known =
        placed ? hx_entry_find(blocks, block->id, hx_entry_what(HX_PLACE, 0)) : NULL;
    if (known) {
        known->users++;
        stash->place = &known->decoded;
    }
    bool made = placed && !known && block->index->family == HX_FAMILY_OBJECT;
    for (size_t i = 0; made && i < 3; i++)
        HX_TRY(stash_column(blocks, block->id * HX_COLUMN_SLOTS + made_of[i], stash));
    return NULL;
}

/* What tells the sources of a block's edges, and their classes. */
static hx_error *stash_objects(hx_blocks *blocks, const struct hx_block *block,
                               struct hx_stash *stash)
{
    const uint64_t first = block->first_key / HX_BLOCK_ROWS, last = block->last_key / HX_BLOCK_ROWS;
    if (last - first >= HX_SOURCES_MAX)
        return hx_block_damaged("too many sources"); /* or so it looks: not aside */
    for (uint64_t number = first; number <= last; number++)
        for (int classes = 0; classes < 2; classes++) {
            const enum hx_derived derived = classes ? HX_CLASS : HX_PLAIN;
            const struct hx_decoded *column;
            HX_TRY(hx_blocks_find_objects(blocks, block, (size_t)number, derived,
                                          classes ? 0 : HX_COL_OUT, &column));
            stash->object[stash->objects].number = (size_t)number;
            stash->object[stash->objects].derived = derived;
            stash->object[stash->objects++].column = column;
        }
    return NULL;
}

static bool has_stashed(const struct hx_stash *stash)
{
    for (size_t i = 0; i < stash->n; i++)
        if (stash->column[i].there)
            return true;
    return false;
}

static void decode_aside(void *context)
{
    struct hx_blocks_aside *aside = context;
    for (size_t i = 0; i < aside->n; i++) {
        const struct hx_decoded *column = NULL;
        hx_error_free(hx_blocks_column(aside->blocks, aside->index, aside->block,
                                       aside->wanted[i].derived, aside->wanted[i].column, &column));
        hx_blocks_release(aside->blocks, column);
    }
}

static struct hx_blocks_aside *find_aside(hx_blocks *blocks)
{
    if (blocks->aside || hx_threads(0) < 2)
        return blocks->aside;
    struct hx_blocks_aside *aside = calloc(1, sizeof *aside);
    if (!aside)
        return NULL;
    hx_error *err = hx_blocks_create(NULL, &aside->blocks);
    if (err) {
        hx_error_free(err);
        free(aside);
        return NULL;
    }
    aside->blocks->stash = &aside->stash;
    return blocks->aside = aside;
}

static void forget_held(hx_blocks *blocks, struct hx_stash *stash)
{
    hx_blocks_release(blocks, stash->place);
    stash->place = NULL;
    while (stash->objects)
        hx_blocks_release(blocks, stash->object[--stash->objects].column);
}

void hx_blocks_begin_aside(hx_blocks *blocks, const struct hx_block_index *index, size_t block,
                           const struct hx_wanted *wanted, size_t n)
{
    bool whole =
        (index->family == HX_FAMILY_OBJECT || index->family == HX_FAMILY_EDGE) && block < index->n;
    struct hx_blocks_aside *aside = whole ? find_aside(blocks) : NULL;
    if (!aside || aside->begun)
        return;
    const struct hx_block *where = &index->block[block];
    hx_error *err = NULL;
    aside->n = aside->stash.n = 0;
    aside->index = index;
    aside->block = block;
    for (size_t i = 0; i < n && !err; i++) {
        int columns[HX_STASHED / HX_WANTED_MAX];
        size_t stored = stored_columns(&wanted[i], columns);
        if (!stored || aside->stash.n + stored > HX_STASHED - 3 || aside->n == HX_WANTED_MAX ||
            hx_entry_find(blocks, where->id, hx_entry_what(wanted[i].derived, wanted[i].column)))
            continue;
        for (size_t c = 0; c < stored && !err; c++)
            err = stash_column(blocks, where->id * HX_COLUMN_SLOTS + columns[c], &aside->stash);
        aside->wanted[aside->n++] = wanted[i];
    }
    if (!err && aside->n && index->family == HX_FAMILY_EDGE)
        err = stash_objects(blocks, where, &aside->stash);
    if (!err)
        err = stash_place(blocks, where, &aside->stash);
    aside->begun = !err && has_stashed(&aside->stash);
    hx_error_free(err);
    if (aside->begun)
        hx_aside_begin(decode_aside, aside, &aside->thread);
    else
        forget_held(blocks, &aside->stash);
}

void hx_blocks_end_aside(hx_blocks *blocks)
{
    struct hx_blocks_aside *aside = blocks->aside;
    if (!aside || !aside->begun)
        return;
    hx_aside_end(&aside->thread);
    aside->begun = false;
    forget_held(blocks, &aside->stash);
    hx_blocks *from = aside->blocks;
    for (struct hx_entry *entry = from->oldest, *newer; entry; entry = newer) {
        newer = entry->newer;
        hx_entry_unlink_from_slot(from, entry);
        hx_entry_unlink_use(from, entry);
        if (hx_entry_find(blocks, entry->id, entry->what)) { /* asked for meanwhile */
            free(entry);
            continue;
        }
        hx_blocks_evict(blocks, entry->bytes);
        entry->again = false;
        entry->ahead = true;
        hx_entry_put_in_slot(blocks, entry);
        hx_entry_link_newest(blocks, entry);
        if (hx_blocks_has_sieve((enum hx_derived)(entry->what >> 8)))
            hx_blocks_make_sieve(blocks, (struct hx_block_index *)aside->index, aside->block,
                                 &entry->decoded);
    }
}
