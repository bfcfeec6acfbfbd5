/* reader_cost.c - costs beside the short way: requests by size, and what a sample stands for. */
#include "attach/record/reader_private.h"

#include <math.h>
#include <stdlib.h>

/* --- sizes ----------------------------------------------------------------------- */

hx_error *hx_reader_sizes_create(struct hx_reader_sizes **ret)
{
    struct hx_reader_sizes *sizes = calloc(1, sizeof *sizes);
    if (!sizes)
        return hx_error_nomem();
    for (unsigned i = 0; i <= HX_SIZE_EXACT; i++)
        sizes->class_of[i] = (uint8_t)hx_size_class(i);
    *ret = sizes;
    return NULL;
}

/* The slot of a size above HX_SIZE_EXACT; NULL: it is among the rest. Never more than a fourth of
 * the slots is used. */
static inline struct hx_reader_large *find_large(hx_reader *reader, uint64_t size)
{
    struct hx_reader_sizes *sizes = reader->sizes;
    uint32_t at = (uint32_t)hx_hash(reader->contests.seed, size) % HX_READER_SLOTS;
    for (; sizes->large[at].size; at = (at + 1) % HX_READER_SLOTS)
        if (sizes->large[at].size == size)
            return &sizes->large[at];
    if (sizes->n_large == HX_SIZES_LARGE || size == UINT64_MAX) /* that one names the rest */
        return NULL;
    sizes->n_large++;
    sizes->large[at].size = size;
    return &sizes->large[at];
}

uint32_t hx_reader_size_number(hx_reader *reader, uint64_t size)
{
    if (size <= HX_SIZE_EXACT)
        return (uint32_t)size;
    const struct hx_reader_large *large = find_large(reader, size);
    return large ? (uint32_t)(HX_SIZE_EXACT + 1 + (large - reader->sizes->large)) : HX_READER_REST;
}

bool hx_reader_size_at(const struct hx_reader_sizes *sizes, uint32_t number, uint64_t *ret_size,
                       const struct hx_reader_size **ret)
{
    if (number <= HX_SIZE_EXACT) {
        *ret_size = number;
        *ret = &sizes->exact[number];
        return true;
    }
    const struct hx_reader_large *large = &sizes->large[number - HX_SIZE_EXACT - 1];
    bool rest = number == HX_READER_REST;
    *ret_size = rest ? UINT64_MAX : large->size;
    *ret = rest ? &sizes->rest : &large->counts;
    return rest || large->size;
}

unsigned hx_reader_count_large(hx_reader *reader, uint64_t size, bool freed)
{
    struct hx_reader_large *large = find_large(reader, size);
    struct hx_reader_size *counts = large ? &large->counts : &reader->sizes->rest;
    *(freed ? &counts->frees : &counts->allocs) += 1;
    if (!large)
        *(freed ? &reader->sizes->rest_freed : &reader->sizes->rest_allocated) += size;
    return hx_size_class(size);
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
