/* ends.c - the ends of orders, gathered while columns of objects are encoded. */
#include "base/cleanup.h"
#include "store/write/writer.h"

#include <stdlib.h>

static int compare_names(const void *a, const void *b)
{
    return strcmp((*(const struct hx_type *const *)a)->name,
                  (*(const struct hx_type *const *)b)->name);
}

/* As hx_names_ranks() has the numbers of hx_writer_type(). */
static hx_error *rank_types(const struct hx_writer *w, uint32_t **ret, size_t *ret_n)
{
    size_t n = w->snapshot->types.n;
    HX_FREE const struct hx_type **order = calloc(n + 1, sizeof *order);
    uint32_t *rank = calloc(n + 1, sizeof *rank);
    if (!order || !rank) {
        free(rank);
        return hx_error_nomem();
    }
    for (size_t i = 0; i < n; i++)
        order[i] = &w->snapshot->types.v[i];
    qsort(order, n, sizeof *order, compare_names);
    for (size_t i = 0, at = 0; i < n; i++) {
        at += !i || strcmp(order[i - 1]->name, order[i]->name) != 0;
        rank[order[i] - w->snapshot->types.v + 1] = (uint32_t)at;
    }
    *ret = rank;
    *ret_n = n + 1;
    return NULL;
}

hx_error *hx_writer_ends_begin(const struct hx_writer *w, enum hx_column_id column, hx_ends **ret)
{
    const bool retained = column == HX_COL_RETAINED_REST;
    HX_FREE uint32_t *types = NULL;
    uint32_t states[HX_STATES];
    const uint64_t objects = w->graph->n;
    size_t n = 0;
    bool nulls;
    *ret = NULL;
    if (objects >= HX_ENDS_LEAST && hx_ends_are_some((int)column))
        return hx_ends_create_some(ret);
    if (objects < HX_ENDS_LEAST ||
        hx_ends_of(retained ? HX_RETAINED : HX_PLAIN, (int)column, &nulls) < 0)
        return NULL;
    if (column == HX_COL_TYPE)
        HX_TRY(rank_types(w, &types, &n));
    hx_rank_states(states);
    return column == HX_COL_STATE ? hx_ends_create(nulls, states, HX_STATES, ret)
                                  : hx_ends_create(nulls, types, n, ret);
}

hx_error *hx_writer_ends_put(struct hx_writer *w, int64_t block, enum hx_column_id column,
                             hx_ends *ends)
{
    if (!ends)
        return NULL;
    HX_TRY(hx_ends_list(ends, w->value));
    return hx_writer_put(w, block, (enum hx_column_id)(HX_COL_ENDS + column),
                         hx_ends_values((int)column));
}

hx_error *hx_writer_ends_alike(struct hx_writer *w, int64_t block, enum hx_column_id column)
{
    const uint64_t objects = w->graph->n;
    bool nulls;
    if (objects < HX_ENDS_LEAST || hx_ends_of(HX_PLAIN, (int)column, &nulls) < 0)
        return NULL;
    for (uint64_t i = 0; i < HX_ENDS_VALUES; i++)
        w->value[i] = i % HX_ENDS + (i / HX_ENDS % 2 ? objects - HX_ENDS : 0);
    return hx_writer_put(w, block, (enum hx_column_id)(HX_COL_ENDS + column), HX_ENDS_VALUES);
}
