/* word_table.c - a table of kinds, filled row by row. */
#include "traverse/hold/word_table.h"

#include "base/cleanup.h"
#include "base/lower_bound.h"

#include <stdatomic.h>
#include <stdlib.h>

#define HOLE (1 << 20) /* bytes between blocks: what is larger was no block alike */

bool hx_is_gone(const struct hx_graph *graph, uint64_t value)
{
    if (value <= graph->addr[0] || value >= graph->addr[graph->n - 1] || value % HX_WORD)
        return false;
    size_t next = HX_LOWER_BOUND(graph->n, i, graph->addr[i] <= value);
    return value - graph->addr[next - 1] >= graph->size[next - 1] + HX_WORD &&
           graph->addr[next] - value < HOLE;
}

static void fill_row(const struct hx_judge *judge, struct hx_word_table *table, hx_obj object,
                     bool gone)
{
    const struct hx_graph *graph = judge->graph;
    const uint64_t *word = hx_word_row(table, table->rows);
    uint8_t *kind = table->kind + table->rows * table->words;
    hx_eidx e = graph->fwd[object], end = graph->fwd[object + 1];
    for (size_t i = 0; i < table->words; i++) {
        while (e < end && hx_edge_offset(graph->edge[e]) / HX_WORD < i)
            e++;
        if (e < end && hx_edge_offset(graph->edge[e]) / HX_WORD == i)
            kind[i] = HX_EVIDENCE_RULE(graph->evidence[e]) ? HX_WORD_JUDGED : HX_WORD_POINTER;
        else
            kind[i] = !word[i]                             ? HX_WORD_ZERO
                      : gone && hx_is_gone(graph, word[i]) ? HX_WORD_GONE
                                                           : HX_WORD_VALUE;
    }
    table->object[table->rows++] = object;
}

static bool have_pointers(const struct hx_judge *judge, const struct hx_block_group *group)
{
    const struct hx_graph *graph = judge->graph;
    const hx_obj *sample = judge->groups->sample + group->first;
    for (uint32_t i = 0; i < group->samples; i++)
        if (graph->fwd[sample[i]] != graph->fwd[sample[i] + 1])
            return true;
    return false;
}

hx_error *hx_word_table_fill(const struct hx_judge *judge, const struct hx_block_group *group,
                             size_t cells, bool gone, struct hx_word_table *ret)
{
    const struct hx_graph *graph = judge->graph;
    const hx_obj *sample = judge->groups->sample + group->first;
    const uint64_t words = graph->size[*sample] / HX_WORD;
    *ret = (struct hx_word_table){0};
    if (!words || !have_pointers(judge, group))
        return NULL;
    ret->words = words < cells ? words : cells;
    size_t rows = cells / ret->words;
    HX_PEEKED window = {0};
    rows = rows < group->samples ? rows : group->samples;
    ret->word = malloc(rows * ret->words * sizeof *ret->word);
    ret->object = malloc(rows * sizeof *ret->object);
    ret->kind = malloc(rows * ret->words);
    if (!ret->word || !ret->object || !ret->kind) {
        hx_word_table_deinit(ret);
        return hx_error_nomem();
    }
    for (size_t i = 0; i < rows; i++) {
        hx_obj object = sample[i * group->samples / rows];
        hx_judge_look_ahead(judge, sample, i * group->samples / rows, group->samples,
                            group->samples / rows, &window);
        const uint64_t *word = hx_judge_peek(judge, graph->addr[object], ret->words, &window);
        if (!word)
            continue;
        memcpy(ret->word + ret->rows * ret->words, word, ret->words * sizeof *word);
        fill_row(judge, ret, object, gone);
    }
    return NULL;
}

void hx_word_table_deinit(struct hx_word_table *table)
{
    free(table->word);
    free(table->object);
    free(table->kind);
    *table = (struct hx_word_table){0};
}

/* --- judges of groups ----------------------------------------------------------------------- */

struct look {
    const struct hx_judge *judge;
    const struct hx_group_judge *how;
    bool *found; /* for each group */
    atomic_bool any, failed;
};

static void scan_group(void *context, unsigned worker, uint32_t group)
{
    (void)worker;
    struct look *look = context;
    hx_error *err = look->how->scan(look->how->context, group, &look->found[group]);
    if (err)
        atomic_store(&look->failed, true);
    else if (look->found[group])
        atomic_store(&look->any, true);
    hx_error_free(err);
}

static void judge_block(void *context, unsigned worker, hx_obj from, hx_obj to)
{
    (void)worker;
    const struct look *look = context;
    HX_PEEKED window = {0};
    for (hx_obj i = from; i < to; i++)
        if (look->found[look->judge->groups->of[i]])
            look->how->judge(look->how->context, i, &window);
}

hx_error *hx_judge_by_group(const struct hx_judge *judge, const struct hx_group_judge *how)
{
    HX_FREE bool *found = calloc((size_t)judge->groups->n + 1, sizeof *found);
    HX_NEED(found);
    struct look look = {.judge = judge, .how = how, .found = found};
    HX_TRY(hx_judge_groups(judge, scan_group, &look));
    HX_NEED(!atomic_load(&look.failed));
    return atomic_load(&look.any) ? hx_judge_objects(judge, judge_block, &look) : NULL;
}
