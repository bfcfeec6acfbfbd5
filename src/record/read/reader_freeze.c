/* reader_freeze.c - from a reader to a recording, its figures, and its invariants. */
#include "base/cleanup.h"
#include "base/lower_bound.h"
#include "record/read/reader_private.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t reader_bytes(const hx_reader *reader)
{
    return sizeof *reader + hx_live_bytes(&reader->live) + hx_interned_bytes(&reader->interned) +
           reader->costs.cap * sizeof *reader->costs.v +
           reader->recent.cap * sizeof *reader->recent.v +
           reader->estimates.cap * sizeof *reader->estimates.v + sizeof *reader->sizes +
           reader->entries.cap * sizeof *reader->entries.v +
           reader->races.v.cap * sizeof *reader->races.v.v +
           reader->races.log.cap * sizeof *reader->races.log.v +
           reader->moving.cap * sizeof *reader->moving.v + reader->bounce.cap +
           (uint64_t)(reader->races.index.cap + reader->moving_index.cap) *
               sizeof(struct hx_index_slot);
}

static uint64_t round_sample(double value)
{
    return value <= 0 ? 0 : value >= 0x1p63 ? (uint64_t)1 << 63 : (uint64_t)llround(value);
}

static uint64_t is_less_block(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

static double all_bytes(const struct hx_reader_estimate *estimate)
{
    double sum = 0;
    for (unsigned i = 0; i < HX_SIZE_CLASSES; i++)
        sum += estimate->alloc_bytes[i];
    return sum;
}

void hx_reader_figures(const hx_reader *reader, struct hx_reader_figures *ret)
{
    struct hx_reader_figures figures = {.events = reader->events,
                                        .stacks = reader->interned.stacks.n,
                                        .lost = reader->lost_allocs + reader->lost_frees +
                                                reader->source_allocs + reader->source_frees,
                                        .memory_bytes = reader_bytes(reader)};
    uint64_t freed_bytes = 0;
    for (size_t i = 0; i < reader->costs.n; i++) {
        struct hx_reader_cost cost = hx_reader_cost(reader, i);
        figures.allocs += cost.way[HX_READER_ALLOC].n;
        figures.alloc_bytes += hx_reader_bytes(&cost.way[HX_READER_ALLOC]);
        figures.frees += cost.way[HX_READER_FREE].n;
        freed_bytes += hx_reader_bytes(&cost.way[HX_READER_FREE]);
    }
    if (reader->options.sample_bytes) {
        struct hx_reader_estimate sum = {0};
        double alloc_bytes = 0;
        for (size_t i = 0; i < reader->estimates.n; i++) {
            sum.allocs += reader->estimates.v[i].allocs;
            alloc_bytes += all_bytes(&reader->estimates.v[i]);
            sum.frees += reader->estimates.v[i].frees;
            sum.freed_bytes += reader->estimates.v[i].freed_bytes;
        }
        figures.allocs = round_sample(sum.allocs);
        figures.alloc_bytes = round_sample(alloc_bytes);
        figures.frees = round_sample(sum.frees);
        freed_bytes = round_sample(sum.freed_bytes);
    }
    figures.live = is_less_block(figures.allocs, figures.frees);
    figures.live_bytes = is_less_block(figures.alloc_bytes, freed_bytes);
    *ret = figures;
}

/* --- blocks ------------------------------------------------------------------------
 * Taken as they come: whoever waits for the recording sorts them (hx_recording_sort()), while the
 * reader goes on. */

struct taking {
    const hx_reader *reader;
    const struct hx_recording *recording;
    struct hx_rec_block *block;
    uint64_t n;
};

/* What was allocated without a stack has one without frames, behind all others. */
static uint32_t stack_of(const struct hx_recording *recording, uint32_t stack)
{
    return stack == HX_NO_STACK ? (uint32_t)recording->stacks.n - 1 : stack;
}

static void take_block(void *context, const struct hx_live_block *block)
{
    struct taking *taking = context;
    const struct hx_reader_source *source = &taking->reader->source;
    taking->block[taking->n++] = (struct hx_rec_block){
        .address = block->address,
        .requested = block->requested,
        .usable = block->usable,
        .born_ns = source->to_ns ? source->to_ns(source->context, block->when) : block->when,
        .stack = stack_of(taking->recording, block->stack)};
}

/* All requests of that size; NULL: none was counted. */
static struct hx_rec_size *request_size_entry(struct hx_recording *recording, uint64_t bytes)
{
    size_t low = HX_LOWER_BOUND(recording->sizes.n, i, recording->sizes.v[i].size < bytes);
    if (low < recording->sizes.n && recording->sizes.v[low].size != bytes)
        low = recording->sizes.n - 1; /* among the rest, if there is one */
    struct hx_rec_size *size = low < recording->sizes.n ? &recording->sizes.v[low] : NULL;
    return size && (size->size == bytes || size->size == UINT64_MAX) ? size : NULL;
}

/* A block in realloc whose address someone else has already: it is freed, only the event is
 * still to come. */
static void book_moved(const hx_reader *reader, struct hx_recording *recording,
                       const struct hx_live_block *block)
{
    if (reader->options.sample_bytes)
        return;
    struct hx_rec_costs *costs = &recording->costs.v[stack_of(recording, block->stack)];
    costs->frees++;
    costs->freed_bytes += block->requested;
    costs->freed_class[hx_size_class(block->requested)] += block->requested;
    struct hx_rec_size *size = request_size_entry(recording, block->requested);
    if (size) {
        size->frees++;
        size->freed_bytes += block->requested;
    }
}

/* Is it one of several reallocs that all have a block of its address, and not the first? */
static bool moves_again(const hx_reader *reader, uint32_t number)
{
    const struct hx_reader_moving *moving = reader->moving.v;
    uint64_t address = moving[number].block.address;
    uint32_t other;
    for (uint32_t at = 0;
         hx_index_next(&reader->moving_index, hx_reader_moving_hash(reader, address), &at, &other);)
        if (other < number && moving[other].block.address == address && moving[other].has_block)
            return true;
    return false;
}

static hx_error *freeze_blocks(const hx_reader *reader, struct hx_recording *recording)
{
    uint64_t most = reader->live.n + reader->n_moving;
    if (!most)
        return NULL;
    HX_TRY(hx_big_reserve(&recording->block_mem, most * sizeof(struct hx_rec_block)));
    struct taking taking = {reader, recording, recording->block_mem.base, 0};
    hx_live_each(&reader->live, take_block, &taking);
    for (uint32_t i = 0; i < reader->moving.n; i++) {
        const struct hx_reader_moving *moving = &reader->moving.v[i];
        if (!moving->block.address || !moving->has_block)
            continue;
        if (hx_live_has(&reader->live, moving->block.address) || moves_again(reader, i))
            book_moved(reader, recording, &moving->block);
        else
            take_block(&taking, &moving->block);
    }
    hx_big_trim(&recording->block_mem, taking.n * sizeof *taking.block);
    recording->block = taking.block;
    recording->n_blocks = taking.n;
    return NULL;
}

/* --- for a child ------------------------------------------------------------------ */

struct writing {
    struct hx_ev_alloc *event;
    size_t n;
    const uint64_t *key; /* of each stack; 0 (HX_EV_KEY_UNKNOWN): not known */
    size_t n_keys;
};

static void freeze_block(void *context, const struct hx_live_block *block)
{
    struct writing *writing = context;
    writing->event[writing->n++] = (struct hx_ev_alloc){
        .head = HX_EV_HEAD(HX_EV_ALLOC, block->when),
        .address = block->address,
        .requested = block->requested,
        .usable = block->usable,
        .stack = block->stack < writing->n_keys ? writing->key[block->stack] : HX_EV_KEY_UNKNOWN};
}

hx_error *hx_reader_inherit(const hx_reader *reader, void **ret, size_t *ret_bytes)
{
    const struct hx_interned *interned = &reader->interned;
    HX_FREE uint64_t *key = calloc(interned->stacks.n + 1, sizeof *key);
    struct writing writing = {.n_keys = interned->stacks.n, .key = key};
    writing.event = malloc((reader->live.n + reader->n_moving + 1) * sizeof *writing.event);
    if (!key || !writing.event) {
        free(writing.event);
        return hx_error_nomem();
    }
    for (size_t i = 0; i < interned->dense.n; i++)
        if (interned->dense.v[i])
            key[interned->dense.v[i] - 1] = i;
    for (size_t i = 0; i < interned->keys.n; i++)
        key[interned->keys.v[i].stack] = interned->keys.v[i].key;
    hx_live_each(&reader->live, freeze_block, &writing);
    for (uint32_t i = 0; i < reader->moving.n; i++) {
        const struct hx_reader_moving *moving = &reader->moving.v[i];
        if (moving->block.address && moving->has_block &&
            !hx_live_has(&reader->live, moving->block.address) && !moves_again(reader, i))
            freeze_block(&writing, &moving->block);
    }
    *ret = writing.event;
    *ret_bytes = writing.n * sizeof *writing.event;
    return NULL;
}

/* --- costs and stacks -------------------------------------------------------------- */

#define COPY_VEC(to, from)                                                                         \
    do {                                                                                           \
        HX_NEED(hx_vec_reserve((to), (from)->n));                                                  \
        if ((from)->n)                                                                             \
            memcpy((to)->v, (from)->v, (from)->n * sizeof *(from)->v);                             \
        (to)->n = (from)->n;                                                                       \
    } while (0)

/* Costs of the reader begin with those without a stack, and those of a recording end with them. */
static size_t cost_index(const hx_reader *reader, size_t stack)
{
    return stack < reader->interned.stacks.n ? stack + 1 : 0;
}

/* The names of regions are known now, and are the recording's own. */
static hx_error *freeze_places(const hx_reader *reader, struct hx_recording *recording)
{
    const struct hx_interned *interned = &reader->interned;
    HX_NEED(hx_vec_reserve(&recording->places, interned->places.n));
    for (size_t i = 0; i < interned->places.n; i++) {
        struct hx_rec_place *place = &recording->places.v[recording->places.n++];
        *place = interned->places.v[i];
        place->lines = NULL;
        place->n_lines = 0;
        if (interned->places.v[i].n_lines)
            HX_TRY(hx_interned_copy_lines(&interned->places.v[i], place));
    }
    return NULL;
}

static void freeze_cost(const struct hx_reader_cost *cost, struct hx_rec_costs *ret)
{
    const struct hx_reader_sums *all = &cost->way[HX_READER_ALLOC];
    const struct hx_reader_sums *freed = &cost->way[HX_READER_FREE];
    *ret = (struct hx_rec_costs){.allocs = all->n,
                                 .alloc_bytes = hx_reader_bytes(all),
                                 .frees = freed->n,
                                 .freed_bytes = hx_reader_bytes(freed)};
    memcpy(ret->alloc_class, all->bytes, sizeof ret->alloc_class);
    memcpy(ret->freed_class, freed->bytes, sizeof ret->freed_class);
}

static int by_size(const void *a, const void *b)
{
    const struct hx_rec_size *x = a, *y = b;
    return (x->size > y->size) - (x->size < y->size);
}

/* Of a sampled stream the allocations are what they stand for, and the frees follow. */
static struct hx_rec_size freeze_size(const hx_reader *reader, uint32_t number, uint64_t size,
                                      const uint64_t count[HX_READER_WAYS])
{
    const struct hx_reader_sizes *sizes = reader->sizes;
    double weight = sizes->weight[number];
    bool rest = number == HX_READER_REST;
    if (reader->options.sample_bytes)
        return (struct hx_rec_size){
            .size = size,
            .allocs = round_sample(weight),
            .alloc_bytes = round_sample(rest ? sizes->rest_weight : weight * (double)size)};
    return (struct hx_rec_size){
        .size = size,
        .allocs = count[HX_READER_ALLOC],
        .alloc_bytes = rest ? sizes->rest_bytes[HX_READER_ALLOC] : count[HX_READER_ALLOC] * size,
        .frees = count[HX_READER_FREE],
        .freed_bytes = rest ? sizes->rest_bytes[HX_READER_FREE] : count[HX_READER_FREE] * size,
    };
}

static hx_error *freeze_sizes(const hx_reader *reader, struct hx_recording *recording)
{
    for (uint32_t i = 0; i < HX_READER_SIZES; i++) {
        uint64_t size, count[HX_READER_WAYS];
        if (hx_reader_size_at(reader->sizes, i, &size, count) && count[HX_READER_ALLOC])
            HX_NEED(hx_vec_push(&recording->sizes, freeze_size(reader, i, size, count)));
    }
    if (recording->sizes.n)
        qsort(recording->sizes.v, recording->sizes.n, sizeof *recording->sizes.v, by_size);
    return NULL;
}

static hx_error *freeze_stacks(const hx_reader *reader, struct hx_recording *recording)
{
    HX_TRY(freeze_places(reader, recording));
    COPY_VEC(&recording->stack_places, &reader->interned.stack_places);
    COPY_VEC(&recording->stacks, &reader->interned.stacks);
    struct hx_reader_cost without = hx_reader_cost(reader, 0);
    if (without.way[HX_READER_ALLOC].n || (reader->entries.n && reader->entries.v[0])) {
        struct hx_rec_stack none = {.first = recording->stack_places.n, .cut = true};
        HX_NEED(hx_vec_push(&recording->stacks, none));
    }
    size_t n = recording->stacks.n;
    HX_NEED(hx_vec_reserve(&recording->costs, n));
    for (size_t i = 0; i < n; i++) {
        size_t number = cost_index(reader, i);
        struct hx_rec_costs *costs = &recording->costs.v[i];
        struct hx_reader_cost cost = hx_reader_cost(reader, number);
        freeze_cost(&cost, costs);
        costs->entries = number < reader->entries.n ? reader->entries.v[number] : 0;
        /* those without any stack are counted by why they have none */
        recording->cut_stacks +=
            recording->stacks.v[i].cut && recording->stacks.v[i].n ? costs->allocs : 0;
    }
    recording->costs.n = n;
    return NULL;
}

/* The bytes of each class are rounded by themselves, and everything else is their sum. */
static void round_costs(const struct hx_reader_estimate *all, const struct hx_reader_estimate *left,
                        struct hx_rec_costs *ret)
{
    struct hx_rec_costs costs = {.allocs = round_sample(all->allocs),
                                 .live = round_sample(left->allocs),
                                 .entries = ret->entries,
                                 .alloc_variance = all->variance,
                                 .live_variance = left->variance};
    costs.frees = is_less_block(costs.allocs, costs.live);
    for (unsigned i = 0; i < HX_SIZE_CLASSES; i++) {
        costs.alloc_class[i] = round_sample(all->alloc_bytes[i]);
        costs.freed_class[i] =
            is_less_block(costs.alloc_class[i], round_sample(left->alloc_bytes[i]));
        costs.alloc_bytes += costs.alloc_class[i];
        costs.freed_bytes += costs.freed_class[i];
    }
    costs.live_bytes = is_less_block(costs.alloc_bytes, costs.freed_bytes);
    *ret = costs;
}

/* What is not live any more was freed. */
static void estimate_frees(struct hx_recording *recording, const struct hx_reader_estimate *live)
{
    for (size_t i = 0; i < recording->sizes.n; i++) {
        struct hx_rec_size *size = &recording->sizes.v[i];
        size->frees = is_less_block(size->allocs, round_sample(live[i].allocs));
        size->freed_bytes = is_less_block(size->alloc_bytes, round_sample(live[i].alloc_bytes[0]));
    }
}

/* What the live blocks of a sample stand for. Summed anew each time, so that no rounding adds up.
 */
static hx_error *estimate_sample(const hx_reader *reader, struct hx_recording *recording)
{
    size_t n = recording->costs.n;
    HX_FREE struct hx_reader_estimate *live = calloc(n + 1, sizeof *live);
    HX_FREE struct hx_reader_estimate *sized =
        calloc(recording->sizes.n + 1, sizeof *sized); /* all bytes in class 0 */
    HX_NEED(live && sized);
    for (uint64_t i = 0; i < recording->n_blocks; i++) {
        const struct hx_rec_block *block = &recording->block[i];
        struct hx_reader_estimate *sum = &live[block->stack];
        double weight = hx_reader_weight(reader, block->requested);
        double size = (double)block->requested;
        sum->allocs += weight;
        sum->alloc_bytes[hx_size_class(block->requested)] += weight * size;
        sum->variance += size * size * weight * (weight - 1);
        const struct hx_rec_size *one = request_size_entry(recording, block->requested);
        if (one) {
            sized[one - recording->sizes.v].allocs += weight;
            sized[one - recording->sizes.v].alloc_bytes[0] += weight * size;
        }
    }
    for (size_t i = 0; i < n; i++)
        round_costs(&reader->estimates.v[cost_index(reader, i)], &live[i], &recording->costs.v[i]);
    estimate_frees(recording, sized);
    return NULL;
}

static void freeze_losses(const hx_reader *reader, struct hx_recording *recording)
{
    recording->lost_allocs = reader->lost_allocs + reader->source_allocs;
    recording->lost_frees = reader->lost_frees + reader->source_frees;
    recording->upper_bounds = recording->lost_frees != 0;
    recording->cut_stacks += reader->no_stack; /* nothing of these is known */
    recording->full_stacks = reader->full_stacks;
    /* a sample knows few blocks: that others are freed is no loss */
    recording->unmatched_frees = reader->options.sample_bytes ? 0 : reader->unmatched_frees;
    recording->implied_frees = reader->implied_frees;
    recording->unbalanced_pops = reader->unbalanced;
    recording->lost_captures = reader->interned.lost_captures;
    recording->lost_regions = reader->interned.lost_regions;
    recording->lost_entries = reader->source_entries;
}

hx_error *hx_reader_freeze(hx_reader *reader, struct hx_recording **ret)
{
    HX_RECORDING struct hx_recording *recording = NULL;
    struct timespec now;
    HX_TRY(hx_recording_create(&recording));
    clock_gettime(CLOCK_MONOTONIC, &now);
    recording->method = reader->options.method;
    recording->from_start = reader->options.from_start;
    recording->sample_bytes = reader->options.sample_bytes;
    recording->began_ns = reader->began_ns;
    recording->frozen_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    recording->events = reader->events;
    freeze_losses(reader, recording);
    HX_TRY(freeze_stacks(reader, recording));
    HX_TRY(freeze_sizes(reader, recording));
    HX_TRY(freeze_blocks(reader, recording));
    if (reader->options.sample_bytes)
        HX_TRY(estimate_sample(reader, recording));
    for (size_t i = 0; i < recording->costs.n && !reader->options.sample_bytes; i++) {
        struct hx_rec_costs *costs = &recording->costs.v[i];
        costs->live = is_less_block(costs->allocs, costs->frees);
        costs->live_bytes = is_less_block(costs->alloc_bytes, costs->freed_bytes);
    }
    *ret = hx_steal(recording);
    return NULL;
}

/* --- invariants ------------------------------------------------------------------ */

static hx_error *broken_reader(const char *why)
{
    return hx_error_new(HX_E_CORRUPT, "reader", NULL, "%s", why);
}

struct tally {
    uint64_t *live;
    size_t n;
    bool wrong;
};

static void count_block(void *context, const struct hx_live_block *block)
{
    struct tally *tally = context;
    uint32_t at = block->stack + 1;
    if (at < tally->n)
        tally->live[at]++;
    else
        tally->wrong = true;
}

hx_error *hx_reader_check(const hx_reader *reader)
{
    HX_TRY(hx_live_check(&reader->live));
    size_t n = reader->costs.n;
    if (n != reader->interned.stacks.n + 1 || n != reader->recent.n)
        return broken_reader("as many costs as stacks were expected");
    HX_FREE uint64_t *live = calloc(n, sizeof *live);
    HX_NEED(live);
    struct tally tally = {live, n, false};
    hx_live_each(&reader->live, count_block, &tally);
    uint32_t moving = 0;
    for (size_t i = 0; i < reader->moving.n; i++) {
        if (!reader->moving.v[i].block.address)
            continue;
        moving++;
        if (reader->moving.v[i].has_block)
            count_block(&tally, &reader->moving.v[i].block);
    }
    for (size_t i = 0; i < reader->races.v.n; i++)
        if (reader->races.v.v[i].has_latest)
            count_block(&tally, &reader->races.v.v[i].latest);
    if (tally.wrong || moving != reader->n_moving || moving != reader->moving_index.n)
        return broken_reader("a block has a stack that is not there, or a realloc is lost");
    uint64_t all[HX_READER_WAYS] = {0};
    for (size_t i = 0; i < n; i++) {
        struct hx_reader_cost cost = hx_reader_cost(reader, i);
        if (cost.way[HX_READER_ALLOC].n - cost.way[HX_READER_FREE].n != live[i])
            return broken_reader("a stack has another number of live blocks than its costs say");
        for (unsigned way = 0; way < HX_READER_WAYS; way++)
            all[way] += cost.way[way].n;
    }
    for (uint32_t i = 0; i < HX_READER_SIZES; i++) {
        uint64_t size, count[HX_READER_WAYS];
        if (!hx_reader_size_at(reader->sizes, i, &size, count))
            continue;
        for (unsigned way = 0; way < HX_READER_WAYS; way++)
            all[way] -= count[way];
    }
    if (all[HX_READER_ALLOC] || all[HX_READER_FREE])
        return broken_reader("sizes were counted in other numbers than stacks");
    return NULL;
}
