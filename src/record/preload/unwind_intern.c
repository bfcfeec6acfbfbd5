/* unwind_intern.c - whole stacks in the region: each is stored once and has a key.
 *
 * Lock-free. An entry is complete before the index refers to it, so no thread waits for another. A
 * writer that loses a race, ends, or never returns from an interruption leaves an entry that is
 * never found.
 *
 * The index has levels, each several times larger than the one before, of buckets of eight words. A
 * stack goes to the first level whose bucket for it has room; words are never removed, so it
 * need not be looked for behind an empty one. Few stacks touch few pages.
 */
#include "record/preload/unwind_private.h"

#include <string.h>

#define BUCKET     8                         /* words: a cache line */
#define LAST_TRIES 16                        /* buckets that are looked at in the last level */
#define INDEX_MASK (((uint64_t)1 << 21) - 1) /* 1 + the entry; above it a part of the hash */

static const uint32_t level_words[HX_INDEX_LEVELS] = {1U << 12, 1U << 15, 1U << 18, 1U << 20};

uint64_t hx_index_bytes(uint32_t levels)
{
    uint64_t words = 0;
    for (uint32_t i = 0; i < levels && i < HX_INDEX_LEVELS; i++)
        words += level_words[i];
    return words * sizeof(uint64_t);
}

static bool calls_barred(const struct hx_unwind *unwind)
{
    return atomic_load_explicit(&unwind->barred, memory_order_relaxed) != 0;
}

/* Memory that is shared with heapx, which may write to it: not even its own entries are believed.
 */
static bool same_interned_stack(struct hx_unwind *unwind, uint64_t entry, uint16_t generation,
                                const struct hx_call_stack *call_stack)
{
    uint64_t at = entry * sizeof(struct hx_region_stack);
    if (!hx_pages_use(&unwind->tables->stacks, at, sizeof(struct hx_region_stack), true))
        return false;
    const struct hx_region_stack *stack = (const void *)(unwind->tables->stacks.at + at);
    uint32_t n = atomic_load_explicit(&stack->n, memory_order_acquire);
    uint64_t first = stack->first;
    if (n == 0 || n != call_stack->n || stack->exact != call_stack->exact ||
        stack->generation != generation ||
        stack->flags != (call_stack->cut ? HX_EV_STACK_CUT : 0) || first > HX_REGION_FRAMES ||
        !hx_pages_use(&unwind->tables->frames, first * 8, (uint64_t)n * 8, true))
        return false;
    const uint64_t *frame = (const uint64_t *)unwind->tables->frames.at + first;
    uint64_t differ = 0;
    for (uint32_t i = 0; i < n; i++)
        differ |= frame[i] ^ call_stack->frame[i];
    return differ == 0;
}

bool hx_interned(struct hx_unwind *unwind, uint64_t key, struct hx_call_stack *ret)
{
    uint64_t entry = key - HX_EV_KEY_FIRST, at = entry * sizeof(struct hx_region_stack);
    if (key < HX_EV_KEY_FIRST || entry >= HX_REGION_STACKS ||
        !hx_pages_use(&unwind->tables->stacks, at, sizeof(struct hx_region_stack), true))
        return false;
    const struct hx_region_stack *stack = (const void *)(unwind->tables->stacks.at + at);
    uint32_t n = atomic_load_explicit(&stack->n, memory_order_acquire);
    uint64_t first = stack->first;
    if (n == 0 || n > HX_EV_FRAMES_MAX || first > HX_REGION_FRAMES ||
        !hx_pages_use(&unwind->tables->frames, first * 8, (uint64_t)n * 8, true))
        return false;
    *ret = (struct hx_call_stack){.frame = (const uint64_t *)unwind->tables->frames.at + first,
                                  .n = n,
                                  .cut = stack->flags & HX_EV_STACK_CUT,
                                  .exact = stack->exact};
    return true;
}

/* Gives out n of what a counter counts; `room` when there are not so many. */
static uint64_t reserve_entries(_Atomic uint64_t *used, uint64_t n, uint64_t room)
{
    uint64_t first = atomic_load_explicit(used, memory_order_relaxed);
    do {
        if (first >= room || room - first < n)
            return room;
    } while (!atomic_compare_exchange_weak_explicit(used, &first, first + n, memory_order_relaxed,
                                                    memory_order_relaxed));
    return first;
}

/* Is there room for one more of n frames? Asked before anything is given out, so that what cannot
 * be stored does not use up what could. */
static bool has_room(struct hx_unwind *unwind, uint32_t n)
{
    const struct hx_region *region = unwind->tables->region;
    bool no_calls = calls_barred(unwind);
    uint64_t entry = atomic_load_explicit(&region->stacks_used, memory_order_relaxed);
    uint64_t first = atomic_load_explicit(&region->frames_used, memory_order_relaxed);
    return entry < HX_REGION_STACKS && first < HX_REGION_FRAMES &&
           hx_pages_use(&unwind->tables->stacks, entry * sizeof(struct hx_region_stack),
                        sizeof(struct hx_region_stack), no_calls) &&
           hx_pages_use(&unwind->tables->frames, first * 8, (uint64_t)n * 8, no_calls);
}

/* Stores the stack; the number of its entry, or HX_REGION_STACKS. */
static uint64_t store_call_stack(struct hx_unwind *unwind, uint16_t generation,
                                 const struct hx_call_stack *call_stack)
{
    struct hx_region *region = unwind->tables->region;
    const uint64_t size = sizeof(struct hx_region_stack);
    uint64_t frames = unwind->tables->frames.bytes / 8,
             stacks = unwind->tables->stacks.bytes / size;
    if (!has_room(unwind, call_stack->n))
        return HX_REGION_STACKS;
    uint64_t first = reserve_entries(&region->frames_used, call_stack->n, frames);
    if (first == frames || !hx_pages_use(&unwind->tables->frames, first * 8,
                                         (uint64_t)call_stack->n * 8, calls_barred(unwind)))
        return HX_REGION_STACKS;
    uint64_t entry = reserve_entries(&region->stacks_used, 1, stacks);
    if (entry == stacks ||
        !hx_pages_use(&unwind->tables->stacks, entry * size, size, calls_barred(unwind)))
        return HX_REGION_STACKS;
    memcpy(unwind->tables->frames.at + first * 8, call_stack->frame,
           call_stack->n * sizeof(uint64_t));
    struct hx_region_stack *stack =
        (struct hx_region_stack *)(void *)(unwind->tables->stacks.at + entry * size);
    stack->first = first;
    stack->exact = call_stack->exact;
    stack->flags = call_stack->cut ? HX_EV_STACK_CUT : 0;
    stack->generation = generation;
    atomic_store_explicit(&stack->n, call_stack->n, memory_order_release);
    return entry;
}

/* Each frame for itself and by its position, so that no step waits for the one before. */
static uint64_t hash_frames(const struct hx_call_stack *call_stack)
{
    uint64_t hash = 0, position = 0x2545f4914f6cdd1d;
    for (uint32_t i = 0; i < call_stack->n; i++) {
        uint64_t mixed = (call_stack->frame[i] + position) * 0xd6e8feb86659fd93;
        hash += mixed ^ mixed >> 32;
        position += 0x9e3779b97f4a7c15;
    }
    return hash;
}

/* A stack that is looked for. */
struct sought {
    const struct hx_call_stack *call_stack;
    uint64_t hash;
    uint64_t entry; /* HX_REGION_STACKS: not stored yet */
    uint16_t generation;
};

enum found { FOUND_NOT, FOUND, FOUND_NO_ROOM };

/* In one bucket, where it is put if there is room. */
static enum found probe_bucket(struct hx_unwind *unwind, uint64_t word, struct sought *sought)
{
    if (!hx_pages_use(&unwind->tables->index, word * 8, BUCKET * 8, calls_barred(unwind)))
        return FOUND_NO_ROOM;
    _Atomic uint64_t *bucket = (_Atomic uint64_t *)(void *)unwind->tables->index.at + word;
    for (int i = 0; i < BUCKET; i++) {
        uint64_t held = atomic_load_explicit(&bucket[i], memory_order_acquire);
        if (held == 0) {
            if (sought->entry == HX_REGION_STACKS)
                sought->entry = store_call_stack(unwind, sought->generation, sought->call_stack);
            if (sought->entry == HX_REGION_STACKS)
                return FOUND_NO_ROOM;
            uint64_t own = (sought->hash & ~INDEX_MASK) | (sought->entry + 1);
            if (atomic_compare_exchange_strong_explicit(&bucket[i], &held, own,
                                                        memory_order_acq_rel, memory_order_acquire))
                return FOUND;
        }
        uint64_t entry = (held & INDEX_MASK) - 1;
        if ((held ^ sought->hash) >> 21 == 0 && entry < HX_REGION_STACKS &&
            same_interned_stack(unwind, entry, sought->generation, sought->call_stack)) {
            sought->entry = entry;
            return FOUND;
        }
    }
    return FOUND_NOT;
}

/* The buckets of all levels at once: most stacks are in a level behind others that are full. */
static void prefetch_buckets(const struct hx_unwind *unwind, uint64_t hash)
{
    uint64_t words = unwind->tables->index.bytes / 8, from = 0;
    for (int level = 0; from < words; from += level_words[level++])
        __builtin_prefetch((const uint64_t *)(const void *)unwind->tables->index.at + from +
                           (hash >> 21) % (level_words[level] / BUCKET) * BUCKET);
}

uint64_t hx_intern(struct hx_unwind *unwind, const struct hx_call_stack *call_stack)
{
    struct hx_region *region = unwind->tables->region;
    uint16_t generation = (uint16_t)atomic_load_explicit(&region->generation, memory_order_acquire);
    uint64_t hash =
        hx_hash_mix(hash_frames(call_stack),
                    (uint64_t)generation << 32 | call_stack->n << 1 | (uint64_t)call_stack->cut);
    hash = hx_hash_mix(hash, call_stack->exact);
    struct sought sought = {call_stack, hash, HX_REGION_STACKS, generation};
    prefetch_buckets(unwind, hash);
    enum found found = FOUND_NOT;
    uint64_t words = unwind->tables->index.bytes / 8, from = 0;
    for (int level = 0; found == FOUND_NOT && from < words; from += level_words[level++]) {
        uint64_t buckets = level_words[level] / BUCKET;
        bool last = from + level_words[level] >= words;
        uint64_t at = hash >> 21;
        for (int i = 0; found == FOUND_NOT && i < (last ? LAST_TRIES : 1); i++)
            found = probe_bucket(unwind, from + (at + (uint64_t)i) % buckets * BUCKET, &sought);
    }
    if (found == FOUND)
        return HX_EV_KEY_FIRST + sought.entry;
    atomic_fetch_add_explicit(&region->stacks_full, 1, memory_order_relaxed);
    return HX_EV_KEY_FULL;
}
