/* recording_sort.c - puts the blocks of a recording in order.
 *
 * A radix sort in place, from the highest bits in which addresses differ: after one or two steps a
 * part fits into a cache, and is finished there. The parts of the first step are shared out among
 * threads.
 */
#include "model/recording.h"

#include "base/parallel.h"

#include <stddef.h>

#define DIGIT      8 /* bits of a step at most */
#define BUCKETS    ((size_t)1 << DIGIT)
#define SMALL      24      /* so few are sorted by insertion */
#define SHARE_FROM 1000000 /* blocks: from here on several threads pay */
#define THREADS    4

struct split {
    uint64_t end[BUCKETS]; /* of each bucket */
    size_t n;              /* buckets */
    unsigned shift;
};

static void insertion_sort(struct hx_rec_block *block, uint64_t n)
{
    for (uint64_t i = 1; i < n; i++) {
        struct hx_rec_block one = block[i];
        uint64_t at = i;
        for (; at && block[at - 1].address > one.address; at--)
            block[at] = block[at - 1];
        block[at] = one;
    }
}

static size_t bucket_of(const struct split *split, const struct hx_rec_block *block)
{
    return block->address >> split->shift & (split->n - 1);
}

/* By which bits n blocks are split; false: no two differ. */
static bool plan_radix(const struct hx_rec_block *block, uint64_t n, struct split *split)
{
    uint64_t differ = 0;
    for (uint64_t i = 1; i < n; i++)
        differ |= block[i].address ^ block[0].address;
    if (!differ)
        return false;
    unsigned top = 64 - (unsigned)__builtin_clzll(differ), bits = 4;
    while (bits < DIGIT && n >> (bits + 2))
        bits++;
    split->shift = top > bits ? top - bits : 0;
    split->n = (size_t)1 << bits;
    return true;
}

/* One step: each block goes to its bucket, what stood there is the next one to go. */
static void split_blocks(struct hx_rec_block *block, uint64_t n, struct split *split)
{
    uint64_t next[BUCKETS], sum = 0;
    for (size_t b = 0; b < split->n; b++)
        split->end[b] = 0;
    for (uint64_t i = 0; i < n; i++)
        split->end[bucket_of(split, &block[i])]++;
    for (size_t b = 0; b < split->n; b++) {
        next[b] = sum;
        sum += split->end[b];
        split->end[b] = sum;
    }
    for (size_t b = 0; b < split->n; b++)
        while (next[b] < split->end[b]) {
            struct hx_rec_block one = block[next[b]];
            for (size_t to; (to = bucket_of(split, &one)) != b;) {
                struct hx_rec_block other = block[next[to]];
                block[next[to]++] = one;
                one = other;
            }
            block[next[b]++] = one;
        }
}

/* At most 16 deep, of 4 bits and more each. */
static void sort(struct hx_rec_block *block, uint64_t n)
{
    struct split split;
    if (n <= SMALL) {
        insertion_sort(block, n);
        return;
    }
    if (!plan_radix(block, n, &split))
        return;
    split_blocks(block, n, &split);
    for (size_t b = 0; split.shift && b < split.n; b++) {
        uint64_t begin = b ? split.end[b - 1] : 0;
        if (split.end[b] - begin > 1)
            sort(block + begin, split.end[b] - begin);
    }
}

struct sharing {
    struct hx_rec_block *block;
    const struct split *split;
    unsigned threads;
};

/* Every so many-th bucket. */
static void sort_share(void *context, unsigned number)
{
    const struct sharing *sharing = context;
    for (size_t b = number; b < sharing->split->n; b += sharing->threads) {
        uint64_t begin = b ? sharing->split->end[b - 1] : 0;
        sort(sharing->block + begin, sharing->split->end[b] - begin);
    }
}

void hx_recording_sort(struct hx_recording *recording)
{
    struct split split;
    unsigned threads = hx_threads(0);
    if (recording->n_blocks < SHARE_FROM || threads < 2) {
        sort(recording->block, recording->n_blocks);
        return;
    }
    if (!plan_radix(recording->block, recording->n_blocks, &split))
        return;
    split_blocks(recording->block, recording->n_blocks, &split);
    struct sharing sharing = {recording->block, &split, threads < THREADS ? threads : THREADS};
    hx_parallel(sharing.threads, sort_share, &sharing);
}
