/* flame_load.c - the nodes of a flame graph: those at least a cell wide, level by level. */
#include "ui/data/flame_load.h"

#include "ui/app.h"
#include "ui/list/pane.h"

#include <string.h>

#define CALLERS 12 /* functions on the way to the node that are asked for */

#define FIGURE(name, what, brief, bytes)                                                           \
    {                                                                                              \
        "inherited_" #name, #name, what, brief, HX_TREE_inherited_##name, HX_TREE_##name, bytes    \
    }
const struct hx_flame_figure hx_flame_figures[HX_FLAME_FIGURES] = {
    FIGURE(live_bytes, "live bytes", "live", true),
    FIGURE(alloc_bytes, "allocated bytes", "allocated", true),
    FIGURE(live_objects, "live objects", "objects", false),
    FIGURE(alloc_objects, "allocated objects", "allocations", false),
};

static const struct hx_flame_figure *find_figure(const char *column)
{
    size_t i = HX_FLAME_FIGURES - 1;
    while (i && (!column || strcmp(hx_flame_figures[i].column, column) != 0))
        i--;
    return &hx_flame_figures[i];
}

const struct hx_flame_figure *hx_flame_figure(const struct hx_pane *pane)
{
    return find_figure(pane->sort);
}

int hx_flame_columns(void)
{
    int columns = hx_term_columns() - 2;
    return columns > 1 ? columns : 1;
}

static void free_flame(void *data)
{
    struct hx_flame *flame = data;
    if (!flame)
        return;
    free(flame->node);
    free(flame->block);
    free(flame->match);
    free(flame->pattern);
    free(flame);
}

static uint64_t value_at(const struct hx_table *rows, size_t row, enum hx_tree_column column)
{
    int64_t value = hx_tree_int(rows, row, column);
    return value > 0 ? (uint64_t)value : 0;
}

static void make_nodes(const struct hx_table *rows, const struct hx_flame_figure *figure,
                       struct hx_flame *flame)
{
    uint32_t way[HX_FLAME_LEVELS] = {0}; /* the last node of each level */
    for (size_t i = 0; i < flame->n; i++) {
        int64_t depth = hx_tree_int(rows, i, HX_TREE_depth);
        flame->node[i] = (struct hx_flame_node){.parent = depth ? way[depth - 1] : 0,
                                                .value = value_at(rows, i, figure->inherited),
                                                .own = value_at(rows, i, figure->itself)};
        way[depth] = (uint32_t)i;
    }
}

static hx_error *make_flame(struct hx_pane *pane, const struct hx_tree_look *look)
{
    const struct hx_flame *before = pane->data;
    size_t n = pane->rows.n_rows;
    struct hx_flame *flame = calloc(1, sizeof *flame);
    HX_NEED(flame);
    *flame = (struct hx_flame){.columns = (int)look->parts,
                               .first = before ? before->first : 0,
                               .n = n,
                               .node = calloc(n + 1, sizeof *flame->node),
                               .block = calloc(n + 1, sizeof *flame->block),
                               .match = calloc(n + 1, sizeof *flame->match)};
    if (!flame->node || !flame->block || !flame->match) {
        free_flame(flame);
        return hx_error_nomem();
    }
    make_nodes(&pane->rows, find_figure(look->query.figure), flame);
    free_flame(pane->data);
    pane->data = flame;
    pane->free_data = free_flame;
    return NULL;
}

hx_error *hx_flame_fill(struct hx_ui *ui, struct hx_pane *pane)
{
    struct hx_tree_look look = {.query = {.snapshot = pane->snapshot,
                                          .before = pane->other,
                                          .figure = hx_flame_figure(pane)->column,
                                          .sort = pane->sort,
                                          .ascending = pane->ascending},
                                .node = pane->id ? pane->id : HX_TREE_TOP,
                                .parts = (uint32_t)hx_flame_columns(),
                                .levels = HX_FLAME_LEVELS,
                                .callers = CALLERS + 2,
                                .came = make_flame};
    return hx_tree_fill_look(ui, pane, &look);
}
