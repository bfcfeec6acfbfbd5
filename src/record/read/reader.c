/* reader.c - takes events one by one.
 *
 * The way of nearly all of them is short: a key that is known, a table of live blocks whose lines
 * were fetched some events ago, two additions. What is out of order goes to reader_move.c.
 */
#include "record/read/reader_private.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BLOCK         16                   /* records that are looked at before their turn */
#define RAW_BYTES_MAX ((uint32_t)64 << 10) /* memory of one raw stack */

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Makes room for the costs of every stack. */
static hx_error *reserve_costs(hx_reader *reader)
{
    size_t need = reader->interned.stacks.n + 1, had = reader->costs.n;
    if (had < need) {
        HX_NEED(hx_vec_reserve(&reader->costs, need) && hx_vec_reserve(&reader->recent, need));
        memset(reader->costs.v + had, 0, (need - had) * sizeof *reader->costs.v);
        memset(reader->recent.v + had, 0, (need - had) * sizeof *reader->recent.v);
        reader->costs.n = reader->recent.n = need;
    }
    had = reader->estimates.n;
    if (reader->options.sample_bytes && had < need) {
        HX_NEED(hx_vec_reserve(&reader->estimates, need));
        memset(reader->estimates.v + had, 0, (need - had) * sizeof *reader->estimates.v);
        reader->estimates.n = need;
    }
    return NULL;
}

hx_error *hx_reader_create(const struct hx_reader_source *source,
                           const struct hx_reader_options *options, hx_reader **ret)
{
    hx_reader *reader = calloc(1, sizeof *reader);
    HX_NEED(reader);
    reader->source = *source;
    reader->options = *options;
    reader->began_ns = now_ns();
    hx_interned_init(&reader->interned);
    hx_live_init(&reader->live);
    reader->races.seed = hx_hash_seed();
    hx_error *err = hx_reader_sizes_create(&reader->sizes);
    if (!err)
        err = reserve_costs(reader);
    if (err)
        hx_reader_destroy(reader);
    else
        *ret = reader;
    return err;
}

void hx_reader_destroy(hx_reader *reader)
{
    if (!reader)
        return;
    hx_interned_deinit(&reader->interned);
    hx_live_deinit(&reader->live);
    hx_races_deinit(&reader->races);
    hx_vec_free(&reader->costs);
    hx_vec_free(&reader->recent);
    hx_vec_free(&reader->estimates);
    hx_vec_free(&reader->entries);
    free(reader->sizes);
    hx_vec_free(&reader->moving);
    hx_index_free(&reader->moving_index);
    hx_vec_free(&reader->begun);
    free(reader->bounce.v);
    free(reader);
}

/* --- events -------------------------------------------------------------------- */

/* The stack of a key that is not known yet. */
static __attribute__((noinline)) hx_error *find_stack(hx_reader *reader, uint64_t key,
                                                      uint32_t *ret)
{
    HX_TRY(hx_interned_find(&reader->interned, &reader->source, key, ret));
    if (*ret == HX_NO_STACK) {
        reader->full_stacks += key == HX_EV_KEY_FULL;
        reader->no_stack += key != HX_EV_KEY_FULL;
    }
    return reserve_costs(reader);
}

hx_error *hx_reader_alloc(hx_reader *reader, uint64_t when, uint64_t address, uint64_t requested,
                          uint64_t usable, uint64_t key)
{
    if (!address)
        return NULL;
    struct hx_live_block block = {.address = address,
                                  .when = when,
                                  .requested = requested,
                                  .usable = usable,
                                  .stack = hx_interned_lookup(&reader->interned, key)};
    if (__builtin_expect(block.stack == HX_NO_STACK, 0))
        HX_TRY(find_stack(reader, key, &block.stack));
    hx_reader_book_alloc(reader, &block);
    if (__builtin_expect(reader->n_moving != 0, 0))
        HX_TRY(hx_reader_release_moved(reader, address, when));
    bool there = true;
    if (!reader->races.v.n || !hx_race_find(&reader->races, address))
        HX_TRY(hx_live_add(&reader->live, &block, &there));
    return there ? hx_reader_race_alloc(reader, &block) : NULL;
}

static hx_error *process_free(hx_reader *reader, uint64_t when, uint64_t address)
{
    if (!address)
        return NULL;
    struct hx_live_block block;
    enum hx_live_removal took = HX_LIVE_ABSENT;
    if (__builtin_expect(reader->n_moving != 0, 0))
        HX_TRY(hx_reader_release_moved(reader, address, when));
    if (!reader->races.v.n || !hx_race_find(&reader->races, address))
        HX_TRY(hx_live_remove(&reader->live, address, when, &block, &took));
    if (took != HX_LIVE_REMOVED)
        return hx_reader_race_free(reader, address, when);
    hx_reader_book_free(reader, &block);
    return reader->one_stream ? NULL : hx_reader_log_free(reader, address, when);
}

static hx_error *read_stack_event(hx_reader *reader, const struct hx_ev_stack *event)
{
    uint32_t stack;
    HX_TRY(hx_interned_add(&reader->interned, &reader->source, event->key, event->frame, event->n,
                           event->exact, event->flags & HX_EV_STACK_CUT, &stack));
    return reserve_costs(reader);
}

static hx_error *take_raw_stack(hx_reader *reader, const struct hx_ev_raw_stack *event)
{
    uint64_t frame[HX_EV_FRAMES_MAX], exact = event->exact;
    size_t n = event->n;
    bool cut = true;
    uint32_t stack;
    memcpy(frame, event->frame, n * sizeof *frame);
    if (reader->source.unwind)
        reader->source.unwind(reader->source.context, event, frame, HX_EV_FRAMES_MAX, &n, &exact,
                              &cut);
    HX_TRY(hx_interned_add(&reader->interned, &reader->source, event->key, frame, n, exact, cut,
                           &stack));
    return reserve_costs(reader);
}

/* A region was pushed: entries are those of the stack that ends in it. Those of an unknown one are
 * kept with what was allocated without a stack. */
static hx_error *count_entry(hx_reader *reader, uint64_t key)
{
    uint32_t stack;
    HX_TRY(hx_interned_find(&reader->interned, &reader->source, key, &stack));
    HX_TRY(reserve_costs(reader));
    size_t had = reader->entries.n, at = (uint32_t)(stack + 1);
    if (at >= had) {
        HX_NEED(hx_vec_reserve(&reader->entries, at + 1));
        memset(reader->entries.v + had, 0, (at + 1 - had) * sizeof *reader->entries.v);
        reader->entries.n = at + 1;
    }
    reader->entries.v[at]++;
    return NULL;
}

/* Length of the record at p; 0: it is not whole, or of no kind. */
static inline size_t record_size(const uint8_t *p, size_t left)
{
    static const uint8_t fixed[HX_EV_KINDS] = {
        [HX_EV_ALLOC] = sizeof(struct hx_ev_alloc),
        [HX_EV_FREE] = sizeof(struct hx_ev_free),
        [HX_EV_REALLOC_BEGIN] = sizeof(struct hx_ev_realloc_begin),
        [HX_EV_REALLOC_END] = sizeof(struct hx_ev_realloc_end),
        [HX_EV_STACK] = sizeof(struct hx_ev_stack),
        [HX_EV_LOST] = sizeof(struct hx_ev_lost),
        [HX_EV_MAPS] = sizeof(struct hx_ev_word),
        [HX_EV_FORK] = sizeof(struct hx_ev_word),
        [HX_EV_EXEC] = sizeof(struct hx_ev_word),
        [HX_EV_EXIT] = sizeof(struct hx_ev_word),
        [HX_EV_RAW_STACK] = sizeof(struct hx_ev_raw_stack),
        [HX_EV_CENTRE] = sizeof(struct hx_ev_centre),
        [HX_EV_ENTRY] = sizeof(struct hx_ev_word),
        [HX_EV_UNBALANCED] = sizeof(struct hx_ev_word),
    };
    uint8_t kind = left ? *p : 0;
    size_t size = kind < HX_EV_KINDS ? fixed[kind] : 0;
    if (!size || size > left)
        return 0;
    if (kind == HX_EV_STACK || kind == HX_EV_RAW_STACK) {
        uint32_t n, n_bytes = 0;
        memcpy(&n, p + offsetof(struct hx_ev_stack, n), sizeof n);
        if (kind == HX_EV_RAW_STACK)
            memcpy(&n_bytes, p + offsetof(struct hx_ev_raw_stack, n_bytes), sizeof n_bytes);
        if (n > HX_EV_FRAMES_MAX || n_bytes > RAW_BYTES_MAX)
            return 0;
        size += (size_t)n * 8 + (((size_t)n_bytes + 7) & ~(size_t)7);
    } else if (kind == HX_EV_CENTRE) {
        uint32_t n;
        memcpy(&n, p + offsetof(struct hx_ev_centre, n), sizeof n);
        if (n > HX_EV_CENTRE_TEXT)
            return 0;
        size += ((size_t)n + 7) & ~(size_t)7;
    }
    return size <= left ? size : 0;
}

/* The record where its words are aligned. */
static const void *aligned(hx_reader *reader, const uint8_t *p, size_t size)
{
    if ((uintptr_t)p % 8 == 0)
        return p;
    if (reader->bounce.cap < size) {
        uint64_t *grown = realloc(reader->bounce.v, size);
        if (!grown)
            return NULL;
        reader->bounce.v = grown;
        reader->bounce.cap = size;
    }
    return memcpy(reader->bounce.v, p, size);
}

/* All but ALLOC and FREE. */
static __attribute__((noinline)) hx_error *take_rare(hx_reader *reader, const uint8_t *p,
                                                     size_t size)
{
    const void *event = aligned(reader, p, size);
    HX_NEED(event);
    const struct hx_ev_word *word = event;
    const struct hx_ev_lost *lost = event;
    enum hx_event_kind kind = (enum hx_event_kind)HX_EV_KIND(word->head);
    switch (kind) {
    case HX_EV_REALLOC_BEGIN:
        return hx_reader_begin_move(reader, event);
    case HX_EV_REALLOC_END:
        return hx_reader_end_move(reader, event);
    case HX_EV_STACK:
        return read_stack_event(reader, event);
    case HX_EV_RAW_STACK:
        return take_raw_stack(reader, event);
    case HX_EV_CENTRE:
        return hx_interned_centre(&reader->interned, &reader->source, event);
    case HX_EV_ENTRY:
        return count_entry(reader, word->word);
    case HX_EV_UNBALANCED:
        reader->unbalanced += word->word;
        return NULL;
    case HX_EV_LOST:
        reader->lost_allocs += lost->allocs;
        reader->lost_frees += lost->frees;
        return NULL;
    default:
        if (reader->source.process_event)
            reader->source.process_event(reader->source.context, kind, HX_EV_WHEN(word->head),
                                         word->word);
        return NULL;
    }
}

/* --- the short way ---------------------------------------------------------------
 * Taken while nothing is contested, in a realloc, wide or sampled; false: the long way decides, and
 * nothing has happened. */

static inline bool is_plain_order(const hx_reader *reader)
{
    return !(reader->races.v.n | reader->n_moving | reader->live.wide_n |
             reader->options.sample_bytes);
}

static inline uint64_t load_u64(const uint8_t *p, size_t offset)
{
    uint64_t word;
    memcpy(&word, p + offset, sizeof word);
    return word;
}

static inline bool plain_alloc(hx_reader *reader, const uint8_t *p, uint64_t hash)
{
    struct hx_live_shard *shard = hx_live_shard_of(&reader->live, hash);
    struct hx_live_entry entry;
    const struct hx_live_block block = {
        .address = load_u64(p, offsetof(struct hx_ev_alloc, address)),
        .when = HX_EV_WHEN(load_u64(p, offsetof(struct hx_ev_alloc, head))),
        .requested = load_u64(p, offsetof(struct hx_ev_alloc, requested)),
        .usable = load_u64(p, offsetof(struct hx_ev_alloc, usable)),
        .stack = hx_interned_lookup(&reader->interned,
                                    load_u64(p, offsetof(struct hx_ev_alloc, stack)))};
    if (!block.address || block.stack == HX_NO_STACK || !hx_live_may_grow(shard) ||
        !hx_live_pack(&block, &entry) || hx_live_find(shard, hash, block.address))
        return false;
    *hx_live_insert(shard, hash) = entry;
    reader->live.n++;
    hx_reader_count(reader, block.stack, block.requested, HX_READER_ALLOC);
    return true;
}

static inline bool plain_free(hx_reader *reader, const uint8_t *p, uint64_t hash)
{
    struct hx_live_shard *shard = hx_live_shard_of(&reader->live, hash);
    uint64_t address = load_u64(p, offsetof(struct hx_ev_free, address));
    uint64_t when = HX_EV_WHEN(load_u64(p, offsetof(struct hx_ev_free, head)));
    struct hx_live_entry *entry = hx_live_find(shard, hash, address);
    struct hx_races *races = &reader->races;
    if (!entry || entry->when > when || !hx_live_may_shrink(shard) ||
        (!reader->one_stream && races->log.n == races->log.cap))
        return false;
    hx_reader_count(reader, entry->stack, entry->requested, HX_READER_FREE);
    hx_live_erase(shard, hash, entry);
    reader->live.n--;
    if (!reader->one_stream)
        races->log.v[races->log.n++] = (struct hx_race_free){address, when};
    return true;
}

/* A record whose turn will come: by then the lines of the table that it needs are there. */
struct item {
    const uint8_t *p;
    uint64_t hash; /* of its address */
};

static __attribute__((noinline)) hx_error *take_long(hx_reader *reader, const uint8_t *p)
{
    if (*p == HX_EV_ALLOC) {
        struct hx_ev_alloc event;
        memcpy(&event, p, sizeof event);
        return hx_reader_alloc(reader, HX_EV_WHEN(event.head), event.address, event.requested,
                               event.usable, event.stack);
    }
    if (*p == HX_EV_FREE) {
        struct hx_ev_free event;
        memcpy(&event, p, sizeof event);
        return process_free(reader, HX_EV_WHEN(event.head), event.address);
    }
    return take_rare(reader, p, record_size(p, SIZE_MAX));
}

/* Only the long way leads away from what is plain, or back. */
static inline hx_error *take_items(hx_reader *reader, const struct item *item, size_t n)
{
    bool plain = is_plain_order(reader);
    for (const struct item *end = item + n; item < end; item++) {
        if (__builtin_expect(plain, 1)) {
            if (*item->p == HX_EV_ALLOC
                    ? plain_alloc(reader, item->p, item->hash)
                    : *item->p == HX_EV_FREE && plain_free(reader, item->p, item->hash))
                continue;
        }
        HX_TRY(take_long(reader, item->p));
        plain = is_plain_order(reader);
    }
    return NULL;
}

/* Looks at the records from *from on that only change blocks; how many. */
static inline size_t prefetch_records(const hx_reader *reader, const uint8_t **from,
                                      const uint8_t *end, uint64_t until, struct item *item)
{
    const uint8_t *p = *from;
    size_t n = 0;
    for (; n < BLOCK; n++) {
        size_t left = (size_t)(end - p), size, at = 8;
        uint8_t kind = left >= sizeof(struct hx_ev_free) ? *p : 0;
        if (kind == HX_EV_ALLOC)
            size = sizeof(struct hx_ev_alloc);
        else if (kind == HX_EV_FREE)
            size = sizeof(struct hx_ev_free);
        else if (kind == HX_EV_REALLOC_BEGIN)
            size = sizeof(struct hx_ev_realloc_begin);
        else if (kind == HX_EV_REALLOC_END)
            size = sizeof(struct hx_ev_realloc_end), at = 16; /* of the new block */
        else
            break;
        if (size > left || HX_EV_WHEN(load_u64(p, 0)) >= until)
            break;
        item[n] = (struct item){p, hx_live_hash(&reader->live, load_u64(p, at))};
        hx_live_prefetch(&reader->live, item[n].hash);
        p += size;
    }
    *from = p;
    return n;
}

/* All such records; *p is then at the first other one. */
static hx_error *take_blocks(hx_reader *reader, const uint8_t **p, const uint8_t *end,
                             uint64_t until)
{
    struct item items[2][BLOCK];
    unsigned turn = 0;
    size_t n = prefetch_records(reader, p, end, until, items[0]), next;
    for (; n; n = next, turn = !turn) {
        next = prefetch_records(reader, p, end, until, items[!turn]);
        HX_TRY(take_items(reader, items[turn], n));
        reader->events += n;
    }
    return NULL;
}

hx_error *hx_reader_feed(hx_reader *reader, const void *bytes, size_t len, uint64_t until,
                         size_t *ret_used)
{
    const uint8_t *p = bytes, *end = p + len;
    size_t size;
    for (;; p += size) {
        uint64_t head;
        HX_TRY(take_blocks(reader, &p, end, until));
        size = record_size(p, (size_t)(end - p));
        if (!size)
            break;
        memcpy(&head, p, sizeof head);
        if (HX_EV_WHEN(head) >= until)
            break;
        HX_TRY(take_rare(reader, p, size));
        reader->events++;
    }
    *ret_used = (size_t)(p - (const uint8_t *)bytes);
    return NULL;
}

void hx_reader_one_stream(hx_reader *reader)
{
    reader->one_stream = true;
}

void hx_reader_add_losses(hx_reader *reader, uint64_t allocs, uint64_t frees)
{
    if (allocs > reader->source_allocs)
        reader->source_allocs = allocs;
    if (frees > reader->source_frees)
        reader->source_frees = frees;
}

void hx_reader_add_lost_entries(hx_reader *reader, uint64_t entries)
{
    if (entries > reader->source_entries)
        reader->source_entries = entries;
}
