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

/* The table of slots is never more than a fourth full. */
uint32_t hx_reader_large(struct hx_reader_sizes *sizes, uint64_t seed, uint64_t size)
{
    const uint32_t mask = sizeof sizes->slot / sizeof *sizes->slot - 1;
    uint32_t at = (uint32_t)hx_hash(seed, size) & mask;
    for (; sizes->slot[at]; at = (at + 1) & mask)
        if (sizes->large[sizes->slot[at] - 1] == size)
            return HX_SIZE_EXACT + sizes->slot[at];
    if (sizes->n_large == HX_SIZES_LARGE || size == UINT64_MAX) /* that one names the rest */
        return HX_READER_REST;
    sizes->large[sizes->n_large++] = size;
    sizes->slot[at] = (uint16_t)sizes->n_large;
    return HX_SIZE_EXACT + sizes->n_large;
}

uint32_t hx_reader_size_number(hx_reader *reader, uint64_t size)
{
    return size <= HX_SIZE_EXACT ? (uint32_t)size
                                 : hx_reader_large(reader->sizes, reader->contests.seed, size);
}

unsigned hx_reader_count_large(hx_reader *reader, uint64_t size, bool freed)
{
    struct hx_reader_sizes *sizes = reader->sizes;
    uint32_t number = hx_reader_large(sizes, reader->contests.seed, size);
    *(freed ? &sizes->v[number].frees : &sizes->v[number].allocs) += 1;
    if (number == HX_READER_REST)
        *(freed ? &sizes->rest_freed : &sizes->rest_allocated) += size;
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
