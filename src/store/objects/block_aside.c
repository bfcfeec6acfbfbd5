/* block_aside.c - the next block is decoded, or rows of it picked, on another thread. */
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
    case HX_RETAINED: /* with sizes; of older stores HX_COL_RETAINED: not aside */
        ret[0] = HX_COL_RETAINED_REST;
        ret[1] = HX_COL_RETAINED_OBJECTS;
        return 2;
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

/* What is known of a block already; NULL: it is not. */
static const struct hx_decoded *hold_known(hx_blocks *blocks, const struct hx_block *block,
                                           enum hx_derived derived, int column)
{
    struct hx_entry *known = hx_entry_find(blocks, block->id, hx_entry_what(derived, column));
    if (!known)
        return NULL;
    known->users++;
    return &known->decoded;
}

static hx_error *stash_sizes(hx_blocks *blocks, const struct hx_block *block,
                             struct hx_stash *stash)
{
    stash->size = hold_known(blocks, block, HX_PLAIN, HX_COL_SIZE);
    return stash->size ? NULL
                       : stash_column(blocks, block->id * HX_COLUMN_SLOTS + HX_COL_SIZE, stash);
}

/* What classes of objects are made of. */
static hx_error *stash_classes(hx_blocks *blocks, const struct hx_block *block,
                               struct hx_stash *stash)
{
    HX_TRY(stash_sizes(blocks, block, stash));
    HX_TRY(stash_column(blocks, block->id * HX_COLUMN_SLOTS + HX_COL_IN, stash));
    return stash_column(blocks, block->id * HX_COLUMN_SLOTS + HX_COL_OUT, stash);
}

/* Where the rows lie, if one of the columns wants that: it is known, or made of classes. Sizes
 * where they are wanted. */
static hx_error *stash_place_and_sizes(hx_blocks *blocks, const struct hx_block *block, bool sizes,
                                       struct hx_stash *stash)
{
    bool placed = false;
    for (size_t i = 0; i < stash->n; i++)
        placed |= stash->column[i].there &&
                  hx_column_is_placed(stash->column[i].blob, stash->column[i].bytes);
    if (placed)
        stash->place = hold_known(blocks, block, HX_PLACE, 0);
    if (block->index->family != HX_FAMILY_OBJECT)
        return NULL;
    if (placed && !stash->place)
        return stash_classes(blocks, block, stash);
    return sizes ? stash_sizes(blocks, block, stash) : NULL;
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

/* The block behind this one comes from objects whose classes nobody knows yet: they are made on the
 * other thread, when it has done the rest. */
static hx_error *stash_next_objects(hx_blocks *blocks, const struct hx_block *block,
                                    struct hx_stash *stash)
{
    const size_t number = block->last_key / HX_BLOCK_ROWS + 1;
    const struct hx_block_index *objects;
    HX_TRY(hx_blocks_index(blocks, block->index->snapshot, HX_FAMILY_OBJECT, &objects));
    if (number >= objects->n || stash->n + 3 > HX_STASHED || !stash->column[0].there ||
        hx_entry_find(blocks, objects->block[number].id, hx_entry_what(HX_CLASS, 0))) {
        hx_blocks_index_done(blocks, objects);
        return NULL;
    }
    stash->next = objects;
    stash->next_block = number;
    return stash_classes(blocks, &objects->block[number], stash);
}

static bool has_stashed(const struct hx_stash *stash)
{
    for (size_t i = 0; i < stash->n; i++)
        if (stash->column[i].there)
            return true;
    return false;
}

static void decode_column_aside(struct hx_blocks_aside *aside, const struct hx_block_index *index,
                                size_t block, enum hx_derived derived, int column)
{
    const struct hx_decoded *decoded = NULL;
    hx_error_free(hx_blocks_column(aside->blocks, index, block, derived, column, &decoded));
    hx_blocks_release(aside->blocks, decoded);
}

static void decode_aside(void *context)
{
    struct hx_blocks_aside *aside = context;
    const struct hx_stash *stash = &aside->stash;
    struct hx_picked *picked = &aside->picked[aside->picking];
    if (picked->n) {
        hx_error *err =
            hx_blocks_pick(aside->blocks, aside->index, aside->block, aside->wanted->derived,
                           aside->wanted->column, picked->at, picked->n, picked->value);
        picked->n = err ? 0 : picked->n;
        hx_error_free(err);
        return;
    }
    for (size_t i = 0; i < aside->n; i++)
        decode_column_aside(aside, aside->index, aside->block, aside->wanted[i].derived,
                            aside->wanted[i].column);
    if (stash->next) {
        decode_column_aside(aside, stash->next, stash->next_block, HX_PLAIN, HX_COL_OUT);
        decode_column_aside(aside, stash->next, stash->next_block, HX_CLASS, 0);
    }
}

size_t hx_blocks_asides(void)
{
    const unsigned threads = hx_threads(0);
    return threads - 1 < HX_ASIDES ? threads - 1 : HX_ASIDES;
}

/* One that has nothing to do; NULL: there is none. */
static struct hx_blocks_aside *find_aside(hx_blocks *blocks)
{
    const size_t n = hx_blocks_asides();
    size_t i = 0;
    while (i < n && blocks->aside[i] && blocks->aside[i]->begun)
        i++;
    if (i == n)
        return NULL;
    if (blocks->aside[i])
        return blocks->aside[i];
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
    aside->thread = (struct hx_helper)HX_HELPER;
    return blocks->aside[i] = aside;
}

static void forget_held(hx_blocks *blocks, struct hx_stash *stash)
{
    hx_blocks_release(blocks, stash->place);
    hx_blocks_release(blocks, stash->size);
    hx_blocks_index_done(blocks, stash->next);
    stash->place = stash->size = NULL;
    stash->next = NULL;
    while (stash->objects)
        hx_blocks_release(blocks, stash->object[--stash->objects].column);
}

/* The thread's blocks, for something new about a block; NULL: it makes no sense. */
static struct hx_blocks_aside *prepare_aside(hx_blocks *blocks, const struct hx_block_index *index,
                                             size_t block)
{
    bool whole =
        (index->family == HX_FAMILY_OBJECT || index->family == HX_FAMILY_EDGE) && block < index->n;
    struct hx_blocks_aside *aside = whole ? find_aside(blocks) : NULL;
    if (!aside)
        return NULL;
    aside->n = aside->stash.n = 0;
    aside->index = index;
    aside->block = block;
    aside->picked[aside->picking].n = 0;
    return aside;
}

/* Takes what a column is made of, where there is room and it is not known; *sizes: with them. */
static hx_error *stash_wanted(hx_blocks *blocks, struct hx_blocks_aside *aside,
                              const struct hx_wanted *wanted, bool *sizes)
{
    const struct hx_block *where = &aside->index->block[aside->block];
    int columns[HX_STASHED / HX_WANTED_MAX];
    size_t stored = stored_columns(wanted, columns);
    if (!stored || aside->stash.n + stored > HX_STASHED - 3 || aside->n == HX_WANTED_MAX ||
        hx_entry_find(blocks, where->id, hx_entry_what(wanted->derived, wanted->column)))
        return NULL;
    for (size_t c = 0; c < stored; c++)
        HX_TRY(stash_column(blocks, where->id * HX_COLUMN_SLOTS + columns[c], &aside->stash));
    *sizes |= wanted->derived == HX_RETAINED;
    aside->wanted[aside->n++] = *wanted;
    return NULL;
}

/* All that is wanted was stashed, unless that failed. */
static void start_aside(hx_blocks *blocks, struct hx_blocks_aside *aside, bool sizes, hx_error *err)
{
    const struct hx_block *where = &aside->index->block[aside->block];
    if (!err && aside->n && aside->index->family == HX_FAMILY_EDGE)
        err = stash_objects(blocks, where, &aside->stash);
    if (!err)
        err = stash_place_and_sizes(blocks, where, sizes, &aside->stash);
    if (!err && aside->n && aside->index->family == HX_FAMILY_EDGE)
        err = stash_next_objects(blocks, where, &aside->stash);
    aside->begun = !err && has_stashed(&aside->stash);
    hx_error_free(err);
    if (aside->begun)
        hx_helper_begin(&aside->thread, decode_aside, aside);
    else
        forget_held(blocks, &aside->stash);
}

void hx_blocks_begin_aside(hx_blocks *blocks, const struct hx_block_index *index, size_t block,
                           const struct hx_wanted *wanted, size_t n)
{
    struct hx_blocks_aside *aside = prepare_aside(blocks, index, block);
    hx_error *err = NULL;
    bool sizes = false;
    for (size_t i = 0; aside && i < n && !err; i++)
        err = stash_wanted(blocks, aside, &wanted[i], &sizes);
    if (aside)
        start_aside(blocks, aside, sizes, err);
}

void hx_blocks_begin_pick_aside(hx_blocks *blocks, const struct hx_block_index *index, size_t block,
                                enum hx_derived derived, int column, const uint16_t *at, size_t n)
{
    const struct hx_wanted wanted = {derived, column};
    struct hx_blocks_aside *aside = n <= HX_PICKED_MAX ? prepare_aside(blocks, index, block) : NULL;
    bool sizes = false;
    if (!aside)
        return;
    hx_error *err = stash_wanted(blocks, aside, &wanted, &sizes);
    if (!err && aside->n) {
        struct hx_picked *picked = &aside->picked[aside->picking];
        picked->id = index->block[block].id;
        picked->what = hx_entry_what(derived, column);
        picked->n = n;
        memcpy(picked->at, at, n * sizeof *at);
    }
    start_aside(blocks, aside, sizes, err);
}

bool hx_blocks_take_picked(hx_blocks *blocks, int64_t id, unsigned what, const uint16_t *at,
                           size_t n, uint64_t *ret)
{
    for (size_t i = 0; i < HX_ASIDES && blocks->aside[i]; i++) {
        const struct hx_picked *picked = &blocks->aside[i]->picked[!blocks->aside[i]->picking];
        if (!n || picked->n != n || picked->id != id || picked->what != what ||
            memcmp(picked->at, at, n * sizeof *at) != 0)
            continue;
        memcpy(ret, picked->value, n * sizeof *ret);
        return true;
    }
    return false;
}

void hx_blocks_forget_picked(hx_blocks *blocks)
{
    for (size_t i = 0; i < HX_ASIDES && blocks->aside[i]; i++)
        blocks->aside[i]->picked[0].n = blocks->aside[i]->picked[1].n = 0;
}

static void end_aside(hx_blocks *blocks, struct hx_blocks_aside *aside)
{
    hx_helper_end(&aside->thread);
    aside->begun = false;
    aside->picking = !aside->picking;
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

void hx_blocks_end_asides(hx_blocks *blocks)
{
    for (size_t i = 0; i < HX_ASIDES; i++)
        if (blocks->aside[i] && blocks->aside[i]->begun)
            end_aside(blocks, blocks->aside[i]);
}
