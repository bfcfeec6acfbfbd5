/* reader_cost.c - costs beside the short way: requests by size, sums that overflow, and what a
 * sample stands for. */
#include "record/read/reader_private.h"

#include <math.h>
#include <stdlib.h>

/* --- sizes ----------------------------------------------------------------------- */

#define TAGS UINT64_C(0x0101010101010101) /* the lowest bit of each */
#define USED (TAGS * 0x80)                /* the highest: set in all but empty ones */

hx_error *hx_reader_sizes_create(struct hx_reader_sizes **ret)
{
    struct hx_reader_sizes *sizes = calloc(1, sizeof *sizes);
    HX_NEED(sizes);
    for (unsigned i = 0; i <= HX_SIZE_EXACT; i++)
        sizes->at_bit[i] = HX_READER_FEW_AT(hx_size_class(i));
    *ret = sizes;
    return NULL;
}

/* Sizes differ in few bits, so the topmost ones of their hashes differ best. */
static inline uint32_t group_of(uint64_t hash)
{
    return (uint32_t)(hash >> 56) % HX_READER_GROUPS;
}

static inline uint64_t tag_of(uint64_t hash)
{
    return 0x80 | (hash >> 48 & 0x7f);
}

/* The slots of a group whose tags are that of the hash, as their highest bits; the lowest of them
 * surely, others that follow may be wrong. */
static inline uint64_t match_tags(uint64_t tags, uint64_t hash)
{
    uint64_t differ = tags ^ (TAGS * tag_of(hash));
    return (differ - TAGS) & ~differ & USED;
}

/* No size gets a slot any more. */
static void note_settled(struct hx_reader_sizes *sizes)
{
    for (uint32_t group = 0; group < HX_READER_GROUPS; group++)
        sizes->settled[group] = (sizes->tags[group] & USED) != USED;
}

/* The slot of a size above HX_SIZE_EXACT, which gets one if there is room. */
static __attribute__((noinline)) uint32_t search_large(struct hx_reader_sizes *sizes, uint64_t size,
                                                       uint64_t hash)
{
    for (uint32_t group = group_of(hash);; group = (group + 1) % HX_READER_GROUPS) {
        uint64_t tags = sizes->tags[group], empty = ~tags & USED;
        for (uint64_t m = match_tags(tags, hash); m; m &= m - 1) {
            uint32_t slot = group * 8 + (uint32_t)__builtin_ctzll(m) / 8;
            if (sizes->large[slot].size == size)
                return slot;
        }
        if (!empty)
            continue;
        if (sizes->n_large == HX_SIZES_LARGE || size == UINT64_MAX) /* that one names the rest */
            return HX_READER_SLOTS;
        uint32_t bit = (uint32_t)__builtin_ctzll(empty) - 7;
        sizes->tags[group] |= tag_of(hash) << bit;
        sizes->large[group * 8 + bit / 8].size = size;
        if (++sizes->n_large == HX_SIZES_LARGE)
            note_settled(sizes);
        return group * 8 + bit / 8;
    }
}

uint32_t hx_reader_size_number(hx_reader *reader, uint64_t size)
{
    if (size <= HX_SIZE_EXACT)
        return (uint32_t)size;
    return HX_SIZE_EXACT + 1 + search_large(reader->sizes, size, hx_hash(reader->races.seed, size));
}

bool hx_reader_size_at(const struct hx_reader_sizes *sizes, uint32_t number, uint64_t *ret_size,
                       uint64_t ret_count[HX_READER_WAYS])
{
    bool exact = number <= HX_SIZE_EXACT, rest = number == HX_READER_REST;
    const struct hx_reader_large *large = exact ? NULL : &sizes->large[number - HX_SIZE_EXACT - 1];
    const uint32_t *count = exact ? sizes->exact[number] : large->count;
    for (unsigned way = 0; way < HX_READER_WAYS; way++)
        ret_count[way] = (uint64_t)sizes->carry[number][way] << 32 | count[way];
    *ret_size = exact ? number : rest ? UINT64_MAX : large->size;
    return exact || rest || large->size;
}

void hx_reader_carry_size(hx_reader *reader, uint32_t number, unsigned way)
{
    reader->sizes->carry[number][way]++;
}

static inline void count_large(hx_reader *reader, size_t at, uint64_t size, unsigned way,
                               uint32_t slot)
{
    struct hx_reader_sizes *sizes = reader->sizes;
    if (size <= HX_SIZE_EXACT)
        __builtin_unreachable(); /* so that one comparison tells the class */
    sizes->rest_bytes[way] += slot == HX_READER_SLOTS ? size : 0;
    if (__builtin_expect(!++sizes->large[slot].count[way], 0))
        hx_reader_carry_size(reader, HX_SIZE_EXACT + 1 + slot, way);
    struct hx_reader_few *few = &reader->recent.v[at].way[way];
    uint64_t word, last = hx_size_class(size) == HX_SIZE_CLASSES - 1 ? size : 0;
    uint64_t more = HX_READER_FEW_ONE + ((size - last) << HX_READER_FEW_AT(HX_SIZE_CLASSES - 2));
    if (__builtin_expect(__builtin_add_overflow(few->word, more, &word), 0)) {
        hx_reader_carry_sums(reader, at, size, way);
        return;
    }
    few->word = word;
    few->large += last;
}

static __attribute__((noinline)) void count_searched(hx_reader *reader, size_t at, uint64_t size,
                                                     unsigned way)
{
    count_large(reader, at, size, way, hx_reader_size_number(reader, size) - HX_SIZE_EXACT - 1);
}

/* Nearly every size is decided by the tags of its first group: it has the slot of the lowest match,
 * or, once there is no room, none. */
void hx_reader_count_large(hx_reader *reader, size_t at, uint64_t size, unsigned way)
{
    const struct hx_reader_sizes *sizes = reader->sizes;
    uint64_t hash = hx_hash(reader->races.seed, size);
    uint32_t group = group_of(hash);
    uint64_t m = match_tags(sizes->tags[group], hash);
    uint32_t slot = m ? group * 8 + (uint32_t)__builtin_ctzll(m) / 8 : HX_READER_SLOTS;
    bool sure = m ? sizes->large[slot].size == size : sizes->settled[group];
    if (__builtin_expect(sure, 1))
        count_large(reader, at, size, way, slot);
    else
        count_searched(reader, at, size, way);
}

/* --- stacks ---------------------------------------------------------------------- */

static void add_few(struct hx_reader_sums *sums, const struct hx_reader_few *few)
{
    sums->n += few->word / HX_READER_FEW_ONE;
    for (unsigned i = 0; i < HX_SIZE_CLASSES - 1; i++) {
        uint64_t end = UINT64_C(1) << HX_READER_FEW_AT(i + 1);
        sums->bytes[i] += few->word % end >> HX_READER_FEW_AT(i);
    }
    sums->bytes[HX_SIZE_CLASSES - 1] += few->large;
}

void hx_reader_carry_sums(hx_reader *reader, size_t at, uint64_t size, unsigned way)
{
    struct hx_reader_sums *sums = &reader->costs.v[at].way[way];
    add_few(sums, &reader->recent.v[at].way[way]);
    reader->recent.v[at].way[way] = (struct hx_reader_few){0};
    sums->n++;
    sums->bytes[hx_size_class(size)] += size;
}

struct hx_reader_cost hx_reader_cost(const hx_reader *reader, size_t at)
{
    struct hx_reader_cost cost = reader->costs.v[at];
    for (unsigned way = 0; way < HX_READER_WAYS; way++)
        add_few(&cost.way[way], &reader->recent.v[at].way[way]);
    return cost;
}

uint64_t hx_reader_bytes(const struct hx_reader_sums *sums)
{
    uint64_t bytes = 0;
    for (unsigned i = 0; i < HX_SIZE_CLASSES; i++)
        bytes += sums->bytes[i];
    return bytes;
}

/* --- sampling ------------------------------------------------------------------
 * A block of s bytes is in the sample with p = 1 - exp(-s / mean). One that is counts 1 / p
 * times, which makes sums unbiased; (1 - p) / p^2 s^2 is the unbiased estimate of the variance of
 * their bytes. */

double hx_reader_weight(const struct hx_reader *reader, uint64_t requested)
{
    double size = requested ? (double)requested : 1;
    return -1 / expm1(-size / (double)reader->options.sample_bytes);
}

void hx_reader_estimate_alloc(hx_reader *reader, uint32_t stack, uint64_t requested)
{
    struct hx_reader_estimate *estimate = &reader->estimates.v[(uint32_t)(stack + 1)];
    double weight = hx_reader_weight(reader, requested), size = (double)requested;
    estimate->allocs += weight;
    estimate->alloc_bytes[hx_size_class(requested)] += weight * size;
    estimate->variance += size * size * weight * (weight - 1);
    uint32_t number = hx_reader_size_number(reader, requested);
    reader->sizes->weight[number] += weight;
    reader->sizes->rest_weight += number == HX_READER_REST ? weight * size : 0;
}

void hx_reader_estimate_free(hx_reader *reader, uint32_t stack, uint64_t requested)
{
    struct hx_reader_estimate *estimate = &reader->estimates.v[(uint32_t)(stack + 1)];
    double weight = hx_reader_weight(reader, requested);
    estimate->frees += weight;
    estimate->freed_bytes += weight * (double)requested;
}
