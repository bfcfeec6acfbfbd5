/* block_groups.c - each worker numbers the groups of its own part of the objects; then the parts
 * are put together in order of address, so that the numbers do not depend on how many workers there
 * are. */
#include "traverse/hold/block_groups.h"

#include "base/cleanup.h"
#include "base/index.h"
#include "base/pairs.h"
#include "base/parallel.h"

#include <stdlib.h>

#define FEW 32768 /* objects: fewer are no work for two */

/* What one worker sees. */
struct part {
    hx_obj from, to;
    struct hx_pairs by_key;
    HX_VEC(uint64_t) keys; /* of its groups; after that, their numbers */
    HX_VEC(uint32_t) objects;
    HX_VEC(hx_obj) sample;
    bool failed;
};

struct grouping {
    const struct hx_judge *judge;
    struct hx_block_groups *groups;
    struct part part[HX_THREADS_MAX];
    unsigned parts;
};

static uint64_t group_key(const struct hx_judge *judge, hx_obj object, struct hx_peeked *window)
{
    const struct hx_graph *graph = judge->graph;
    const uint64_t *word =
        graph->size[object] < HX_WORD ? NULL : hx_judge_peek(judge, graph->addr[object], 1, window);
    uint64_t key = hx_mix(1, graph->size[object]);
    if (graph->type && graph->type[object] != HX_NO_TYPE)
        key = hx_mix(key, graph->type[object]);
    if (word && hx_judge_module(judge, *word))
        key = hx_mix(key + 1, *word);
    return key;
}

static hx_error *add_group(struct part *part, uint64_t key, uint32_t *ret)
{
    uint32_t *number;
    HX_TRY(hx_pairs_at(&part->by_key, key, &number));
    if (*number == HX_NO_PAIR) {
        *number = (uint32_t)part->keys.n;
        HX_NEED(hx_vec_push(&part->keys, key));
        HX_NEED(hx_vec_push(&part->objects, 0));
    }
    *ret = *number;
    return NULL;
}

static hx_error *group_part(const struct grouping *grouping, struct part *part)
{
    uint64_t last_key = 0;
    uint32_t last = HX_NO_PAIR;
    HX_PEEKED window = {0};
    for (hx_obj i = part->from; i < part->to; i++) {
        if (part->to - i > HX_AHEAD_RANGE)
            hx_judge_prefetch(grouping->judge, i + HX_AHEAD_RANGE, &window);
        uint64_t key = group_key(grouping->judge, i, &window);
        if (last == HX_NO_PAIR || key != last_key)
            HX_TRY(add_group(part, key, &last));
        last_key = key;
        grouping->groups->of[i] = last;
        part->objects.v[last]++;
    }
    return NULL;
}

static void group_worker(void *context, unsigned i)
{
    struct grouping *grouping = context;
    hx_error *err = group_part(grouping, &grouping->part[i]);
    grouping->part[i].failed = err != NULL;
    hx_error_free(err);
}

/* One number for what is one group in several parts. */
static hx_error *join_parts(struct grouping *grouping)
{
    HX_CLEANUP(hx_pairs_free) struct hx_pairs by_key = {0};
    struct hx_block_groups *groups = grouping->groups;
    size_t cap = 0;
    for (unsigned p = 0; p < grouping->parts; p++) {
        struct part *part = &grouping->part[p];
        HX_NEED(!part->failed);
        for (size_t k = 0; k < part->keys.n; k++) {
            uint32_t *number;
            HX_TRY(hx_pairs_at(&by_key, part->keys.v[k], &number));
            if (*number == HX_NO_PAIR) {
                HX_NEED(hx_vec_reserve_raw((void **)&groups->group, &cap, groups->n + 1,
                                           sizeof *groups->group));
                groups->group[groups->n] = (struct hx_block_group){0};
                *number = groups->n++;
            }
            groups->group[*number].objects += part->objects.v[k];
            part->keys.v[k] = *number;
        }
    }
    return NULL;
}

/* Of large groups a part of the members, that is the same whoever looks. */
static inline bool is_sample(const struct hx_block_group *group, hx_obj object)
{
    return group->objects <= HX_SAMPLE || hx_mix(7, object) % group->objects < HX_SAMPLE;
}

static void number_worker(void *context, unsigned i)
{
    struct grouping *grouping = context;
    struct part *part = &grouping->part[i];
    struct hx_block_groups *groups = grouping->groups;
    for (hx_obj k = part->from; k < part->to; k++) {
        groups->of[k] = (uint32_t)part->keys.v[groups->of[k]];
        if (is_sample(&groups->group[groups->of[k]], k))
            part->failed |= !hx_vec_push(&part->sample, k);
    }
}

static hx_error *gather_samples(struct grouping *grouping)
{
    struct hx_block_groups *groups = grouping->groups;
    uint32_t n = 0;
    for (unsigned p = 0; p < grouping->parts; p++) {
        const struct part *part = &grouping->part[p];
        HX_NEED(!part->failed);
        for (size_t i = 0; i < part->sample.n; i++)
            groups->group[groups->of[part->sample.v[i]]].samples++;
    }
    for (uint32_t g = 0; g < groups->n; g++) {
        groups->group[g].first = n;
        n += groups->group[g].samples;
        groups->group[g].samples = 0;
    }
    groups->sample = malloc(((size_t)n + 1) * sizeof *groups->sample);
    HX_NEED(groups->sample);
    for (unsigned p = 0; p < grouping->parts; p++)
        for (size_t i = 0; i < grouping->part[p].sample.n; i++) {
            hx_obj object = grouping->part[p].sample.v[i];
            struct hx_block_group *group = &groups->group[groups->of[object]];
            groups->sample[group->first + group->samples++] = object;
            group->size = grouping->judge->graph->size[object];
            groups->largest = group->size > groups->largest ? group->size : groups->largest;
        }
    return NULL;
}

static hx_error *find_groups(struct grouping *grouping)
{
    const hx_obj n = grouping->judge->graph->n;
    HX_TRY(hx_big_array(grouping->groups->of, n));
    grouping->parts = n < FEW ? 1 : grouping->judge->threads;
    for (unsigned p = 0; p < grouping->parts; p++) {
        grouping->part[p].from = (hx_obj)((uint64_t)n * p / grouping->parts);
        grouping->part[p].to = (hx_obj)((uint64_t)n * (p + 1) / grouping->parts);
    }
    hx_parallel(grouping->parts, group_worker, grouping);
    HX_TRY(join_parts(grouping));
    hx_parallel(grouping->parts, number_worker, grouping);
    return gather_samples(grouping);
}

hx_error *hx_block_groups_find(const struct hx_judge *judge, struct hx_block_groups *ret)
{
    HX_FREE struct grouping *grouping = calloc(1, sizeof *grouping);
    HX_NEED(grouping);
    *ret = (struct hx_block_groups){0};
    grouping->judge = judge;
    grouping->groups = ret;
    hx_error *err = find_groups(grouping);
    for (unsigned p = 0; p < grouping->parts; p++) {
        struct part *part = &grouping->part[p];
        hx_pairs_free(&part->by_key);
        hx_vec_free(&part->keys);
        hx_vec_free(&part->objects);
        hx_vec_free(&part->sample);
    }
    if (err)
        hx_block_groups_deinit(ret);
    return err;
}

void hx_block_groups_deinit(struct hx_block_groups *groups)
{
    hx_big_free(&groups->of_mem);
    free(groups->group);
    free(groups->sample);
    *groups = (struct hx_block_groups){0};
}

/* --- one after the other -------------------------------------------------------------------- */

struct pass {
    const struct hx_judge *judge;
    hx_block_group_fn *work;
    void *context;
};

static void judge_group(void *context, unsigned i, size_t group, size_t next)
{
    (void)next;
    struct pass *pass = context;
    pass->work(pass->context, i, (uint32_t)group);
}

hx_error *hx_judge_groups(const struct hx_judge *judge, hx_block_group_fn *work, void *context)
{
    struct pass pass = {.work = work, .context = context};
    hx_parallel_blocks(judge->graph->n < FEW ? 1 : judge->threads, judge->groups->n, 1, judge_group,
                       &pass, judge->progress);
    return hx_progress_cancelled(judge->progress) ? hx_error_cancelled("words") : NULL;
}
