/* index.c - the table from hashes to numbers. */
#include "base/index.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

uint64_t hx_hash_seed(void)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) == (ssize_t)sizeof seed)
        return seed;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_nsec * 0xd1342543de82ef95ULL ^ (uint64_t)(uintptr_t)&seed;
}

static void put_slot(struct hx_index *index, uint64_t hash, uint32_t number)
{
    uint32_t at = (uint32_t)hash & (index->cap - 1);
    while (index->slot[at].number)
        at = (at + 1) & (index->cap - 1);
    index->slot[at] = (struct hx_index_slot){hash, number};
    index->n++;
}

hx_error *hx_index_add(struct hx_index *index, uint64_t hash, uint32_t number)
{
    if (index->n >= index->cap / 4 * 3) {
        uint32_t cap = index->cap ? index->cap * 2 : 16;
        struct hx_index grown = {calloc(cap, sizeof *grown.slot), cap, 0};
        HX_NEED(cap && grown.slot);
        for (uint32_t i = 0; i < index->cap; i++)
            if (index->slot[i].number)
                put_slot(&grown, index->slot[i].hash, index->slot[i].number);
        free(index->slot);
        *index = grown;
    }
    put_slot(index, hash, number + 1);
    return NULL;
}

void hx_index_remove(struct hx_index *index, uint64_t hash, uint32_t number)
{
    if (!index->n)
        return;
    uint32_t mask = index->cap - 1, at = (uint32_t)hash & mask;
    while (index->slot[at].number != number + 1 || index->slot[at].hash != hash) {
        if (!index->slot[at].number)
            return;
        at = (at + 1) & mask;
    }
    /* close the gap, so that no search ends too early */
    for (uint32_t next = (at + 1) & mask; index->slot[next].number; next = (next + 1) & mask) {
        uint32_t home = (uint32_t)index->slot[next].hash & mask;
        if (((next - home) & mask) >= ((next - at) & mask)) {
            index->slot[at] = index->slot[next];
            at = next;
        }
    }
    index->slot[at].number = 0;
    index->n--;
}

void hx_index_clear(struct hx_index *index)
{
    if (index->cap > 4096)
        hx_index_free(index);
    else if (index->n)
        memset(index->slot, 0, index->cap * sizeof *index->slot);
    index->n = 0;
}

void hx_index_free(struct hx_index *index)
{
    free(index->slot);
    *index = (struct hx_index){0};
}
