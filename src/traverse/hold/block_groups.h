/* block_groups.h - blocks of one size, and of one type as far as it is known: what statistics are
 * made of. */
#ifndef HX_TRAVERSE_HOLD_BLOCK_GROUPS_H
#define HX_TRAVERSE_HOLD_BLOCK_GROUPS_H

#include "base/vec.h"
#include "traverse/hold/judge.h"

#define HX_SAMPLE 16384 /* members of a group that are counted, about */

struct hx_block_group {
    uint64_t size; /* of each */
    uint32_t objects;
    uint32_t first, samples; /* in hx_block_groups.sample */
};

/* A type is what the snapshot says, or the address of something in a module in the first word.
 * Groups are in the order of their first members, samples of a group in order of address; who is
 * in a sample does not depend on who looks. */
struct hx_block_groups {
    uint32_t *of; /* for each object */
    struct hx_block_group *group;
    uint32_t n;
    uint64_t largest; /* size */
    hx_obj *sample;
    struct hx_big of_mem;
};

/* Every so many of a group's sample are enough for what is frequent or not there at all. */
static inline uint32_t hx_sample_step(const struct hx_block_group *group)
{
    return group->samples <= HX_SAMPLE / 4 ? 1 : 4;
}

hx_error *hx_block_groups_find(const struct hx_judge *judge, struct hx_block_groups *ret);
void hx_block_groups_deinit(struct hx_block_groups *groups);

/* Calls work(context, worker, group) for all groups, from several threads. */
typedef void hx_block_group_fn(void *context, unsigned worker, uint32_t group);
hx_error *hx_judge_groups(const struct hx_judge *judge, hx_block_group_fn *work, void *context);

#endif
