/* unsplit.c - what lies behind the request in blocks that were not split.
 *
 * glibc gives out a whole block where what would be left is too small for one: 16 bytes. Where an
 * array leads to blocks of one size, nearly all of them, some are larger by just that: behind the
 * others' size stands what was there before. Nodes of a hash table are such blocks.
 */
#include "traverse/hold/judge.h"

#include "base/vote.h"

#define ALIKE 64 /* blocks of one size: fewer say nothing */
#define REST  16 /* bytes */
#define SHOWN 4  /* larger blocks: so many tell whether they are of another type */

/* Percent of what the array leads to. */
enum {
    NEARLY = 90, /* blocks of the size, at least */
    RARE = 5     /* larger ones, at most */
};

/* Sizes of blocks of glibc are 8 more than a multiple of 16. */
static bool is_size(uint64_t size)
{
    return size % REST == REST / 2;
}

static bool is_asked(const struct hx_graph *graph, hx_obj array, hx_eidx e)
{
    return hx_edge_kind_of(graph->edge[e]) == HX_EDGE_START &&
           hx_edge_target(graph->edge[e]) != array;
}

static uint64_t size_to(const struct hx_graph *graph, hx_eidx e)
{
    return graph->size[hx_edge_target(graph->edge[e])];
}

/* The size of more than half of the blocks, if there is one. */
static uint64_t usual_size(const struct hx_graph *graph, hx_obj array)
{
    uint64_t size = 0;
    int64_t votes = 0;
    for (hx_eidx e = graph->fwd[array]; e < graph->fwd[(size_t)array + 1]; e++)
        if (is_asked(graph, array, e))
            HX_VOTE(size, votes, size_to(graph, e));
    return size;
}

static bool has_words_from(const struct hx_graph *graph, hx_obj object, uint64_t from)
{
    return hx_graph_edge_from(graph, object, from) < graph->fwd[(size_t)object + 1];
}

/* Are there larger ones, and are they no blocks of another type, which would use those words? */
static bool are_unsplit(const struct hx_graph *graph, hx_obj array, uint64_t size)
{
    uint64_t all = 0, alike = 0, larger = 0, used = 0;
    for (hx_eidx e = graph->fwd[array]; e < graph->fwd[(size_t)array + 1]; e++) {
        if (!is_asked(graph, array, e))
            continue;
        all++;
        alike += size_to(graph, e) == size;
        if (size_to(graph, e) != size + REST)
            continue;
        larger++;
        used += has_words_from(graph, hx_edge_target(graph->edge[e]), size);
    }
    return larger && alike >= ALIKE && !hx_part_below(alike, all, NEARLY) &&
           hx_part_below(larger, all, RARE) && (larger < SHOWN || used * 2 <= larger);
}

static void judge_array(const struct hx_judge *judge, hx_obj array)
{
    const struct hx_graph *graph = judge->graph;
    if (graph->fwd[(size_t)array + 1] - graph->fwd[array] < ALIKE)
        return;
    const uint64_t size = usual_size(graph, array);
    if (!is_size(size) || !are_unsplit(graph, array, size))
        return;
    for (hx_eidx e = graph->fwd[array]; e < graph->fwd[(size_t)array + 1]; e++)
        if (is_asked(graph, array, e) && size_to(graph, e) == size + REST)
            hx_judge_words(judge, hx_edge_target(graph->edge[e]), size, UINT64_MAX, HX_RULE_slack);
}

static void judge_arrays(void *context, unsigned worker, hx_obj from, hx_obj to)
{
    (void)worker;
    for (hx_obj i = from; i < to; i++)
        judge_array(context, i);
}

hx_error *hx_judge_unsplit(const struct hx_judge *judge)
{
    return hx_judge_objects(judge, judge_arrays, (void *)judge);
}
