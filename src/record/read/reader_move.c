/* reader_move.c - reallocations, and the events of contested addresses. */
#include "record/read/reader_private.h"

#include <stdlib.h>

/* Makes the address contested, with what is live there. */
static hx_error *find_or_begin_race(hx_reader *reader, uint64_t address, struct hx_race **ret)
{
    *ret = hx_race_find(&reader->races, address);
    if (*ret)
        return NULL;
    struct hx_live_block block;
    enum hx_live_removal took;
    HX_TRY(hx_live_remove(&reader->live, address, UINT64_MAX, &block, &took));
    return hx_race_begin(&reader->races, address, took == HX_LIVE_REMOVED ? &block : NULL, ret);
}

hx_error *hx_reader_race_alloc(hx_reader *reader, const struct hx_live_block *block)
{
    struct hx_race *race;
    struct hx_live_block gone;
    HX_TRY(find_or_begin_race(reader, block->address, &race));
    if (hx_race_alloc(race, block, &gone))
        hx_reader_book_free(reader, &gone);
    return NULL;
}

hx_error *hx_reader_race_free(hx_reader *reader, uint64_t address, uint64_t when)
{
    struct hx_race *race;
    HX_TRY(find_or_begin_race(reader, address, &race));
    hx_race_free_at(race, when);
    return NULL;
}

hx_error *hx_reader_log_free(hx_reader *reader, uint64_t address, uint64_t when)
{
    bool pushed = hx_vec_push(&reader->races.log, (struct hx_race_free){address, when});
    return pushed ? NULL : hx_error_nomem();
}

/* The realloc of that block by that thread; NULL: it was not seen to begin. */
static struct hx_reader_moving *find_moving(hx_reader *reader, uint32_t tid, uint64_t address)
{
    uint32_t number;
    uint64_t hash = hx_reader_moving_hash(reader, address);
    for (uint32_t at = 0; hx_index_next(&reader->moving_index, hash, &at, &number);) {
        struct hx_reader_moving *moving = &reader->moving.v[number];
        if (moving->tid == tid && moving->block.address == address)
            return moving;
    }
    return NULL;
}

static void drop_moving(hx_reader *reader, struct hx_reader_moving *moving)
{
    uint32_t number = (uint32_t)(moving - reader->moving.v);
    hx_index_remove(&reader->moving_index, hx_reader_moving_hash(reader, moving->block.address),
                    number);
    *moving = (struct hx_reader_moving){.next_free = reader->moving_free};
    reader->moving_free = number + 1;
    reader->n_moving--;
}

static hx_error *add_moving(hx_reader *reader, uint32_t tid, uint64_t when,
                            const struct hx_live_block *block, bool has_block, uint32_t *ret)
{
    if (!reader->moving_free) {
        HX_NEED(reader->moving.n < UINT32_MAX - 1 &&
                hx_vec_push(&reader->moving, (struct hx_reader_moving){0}));
        reader->moving_free = (uint32_t)reader->moving.n;
    }
    uint32_t number = reader->moving_free - 1;
    HX_TRY(
        hx_index_add(&reader->moving_index, hx_reader_moving_hash(reader, block->address), number));
    reader->moving_free = reader->moving.v[number].next_free;
    reader->moving.v[number] = (struct hx_reader_moving){
        .block = *block, .when = when, .tid = tid, .has_block = has_block};
    reader->n_moving++;
    *ret = number;
    return NULL;
}

hx_error *hx_reader_release_moved(hx_reader *reader, uint64_t address, uint64_t when)
{
    uint32_t number;
    uint64_t hash = hx_reader_moving_hash(reader, address);
    for (uint32_t at = 0; hx_index_next(&reader->moving_index, hash, &at, &number);) {
        struct hx_reader_moving *moving = &reader->moving.v[number];
        if (moving->block.address != address || !moving->has_block || moving->when >= when)
            continue;
        hx_reader_book_free(reader, &moving->block);
        moving->has_block = false;
        moving->released = true; /* the end may still come in this round, then it is forgotten */
        HX_NEED(hx_vec_push(&reader->begun, number));
        HX_TRY(hx_reader_log_free(reader, address, moving->when));
    }
    return NULL;
}

/* The block is gone for the time being, as if it were freed; what becomes of it the end tells. */
hx_error *hx_reader_begin_move(hx_reader *reader, const struct hx_ev_realloc_begin *event)
{
    uint64_t when = HX_EV_WHEN(event->head);
    if (!event->address)
        return NULL;
    struct hx_reader_moving *old = find_moving(reader, event->tid, event->address);
    if (old) { /* its end was lost: most likely it had failed */
        old->when = when;
        return NULL;
    }
    struct hx_live_block block = {.address = event->address};
    enum hx_live_removal took = HX_LIVE_ABSENT;
    if (!hx_race_find(&reader->races, event->address))
        HX_TRY(hx_live_remove(&reader->live, event->address, when, &block, &took));
    struct hx_race *race;
    uint32_t number = 0;
    if (took != HX_LIVE_REMOVED)
        HX_TRY(find_or_begin_race(reader, event->address, &race));
    HX_TRY(add_moving(reader, event->tid, when, &block, took == HX_LIVE_REMOVED, &number));
    return hx_vec_push(&reader->begun, number) ? NULL : hx_error_nomem();
}

/* It failed: the block was there all the time. */
static hx_error *restore_block(hx_reader *reader, struct hx_reader_moving *moving)
{
    struct hx_race *race;
    struct hx_live_block block = moving->block, gone;
    bool has_block = moving->has_block, released = moving->released;
    drop_moving(reader, moving);
    if (!has_block && !released)
        return NULL; /* it is not in any figure yet */
    HX_TRY(find_or_begin_race(reader, block.address, &race));
    race->allocs += released;
    if (has_block && hx_race_alloc(race, &block, &gone))
        hx_reader_book_free(reader, &gone);
    return NULL;
}

/* It succeeded: its beginning was a free. */
static hx_error *finish_move(hx_reader *reader, struct hx_reader_moving *moving)
{
    struct hx_reader_moving was = *moving;
    drop_moving(reader, moving);
    if (was.released)
        return NULL;
    if (!was.has_block) {
        HX_TRY(hx_reader_release_moved(reader, was.block.address, was.when));
        return hx_reader_race_free(reader, was.block.address, was.when);
    }
    hx_reader_book_free(reader, &was.block);
    return hx_reader_log_free(reader, was.block.address, was.when);
}

hx_error *hx_reader_end_move(hx_reader *reader, const struct hx_ev_realloc_end *event)
{
    uint64_t when = HX_EV_WHEN(event->head);
    struct hx_reader_moving *moving =
        event->old ? find_moving(reader, event->tid, event->old) : NULL;
    if (moving) {
        if (!event->address && event->freed != 1)
            return restore_block(reader, moving);
        HX_TRY(finish_move(reader, moving));
    }
    if (!event->address)
        return NULL;
    return hx_reader_alloc(reader, when, event->address, event->requested, event->usable,
                           event->stack);
}

/* Which of its blocks an address had when a realloc took it matters as long as that has not ended:
 * the round's end tells, as for what is contested. */
static hx_error *race_unfinished_moves(hx_reader *reader)
{
    for (size_t i = 0; i < reader->begun.n; i++) {
        struct hx_reader_moving *moving = &reader->moving.v[reader->begun.v[i]];
        if (!moving->block.address || !moving->has_block)
            continue; /* it has ended, or is at a contested address anyway */
        struct hx_live_block block = moving->block;
        moving->has_block = false;
        HX_TRY(hx_reader_race_alloc(reader, &block));
    }
    return NULL;
}

static void decide_moves(hx_reader *reader)
{
    for (size_t i = 0; i < reader->begun.n; i++) {
        struct hx_reader_moving *moving = &reader->moving.v[reader->begun.v[i]];
        if (!moving->block.address || moving->has_block)
            continue;
        struct hx_race *race = hx_race_find(&reader->races, moving->block.address);
        if (race && !moving->released && hx_race_alive(race) && race->latest.when <= moving->when) {
            moving->block = race->latest;
            moving->has_block = race->reallocating = true;
        } else {
            if (race && !moving->released)
                race->frees++;
            drop_moving(reader, moving);
        }
    }
    reader->begun.n = 0;
}

hx_error *hx_reader_end_round(hx_reader *reader)
{
    HX_TRY(race_unfinished_moves(reader));
    hx_races_resolve(&reader->races);
    decide_moves(reader);
    for (size_t i = 0; i < reader->races.v.n; i++) {
        struct hx_race *race = &reader->races.v.v[i];
        bool live = hx_race_alive(race), there;
        if (live)
            HX_TRY(hx_live_add(&reader->live, &race->latest, &there));
        else if (race->has_latest && !race->reallocating)
            hx_reader_book_free(reader, &race->latest);
        uint64_t ended = race->frees + live + race->reallocating;
        if (race->allocs > ended)
            reader->implied_frees += race->allocs - ended;
        else
            reader->unmatched_frees += ended - race->allocs;
    }
    hx_races_clear(&reader->races);
    reader->one_stream = false;
    return NULL;
}
