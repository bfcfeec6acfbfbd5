/* paths_load.c - where paths come from: recorded stacks, merged trees of dominators and holders,
 * chains from roots, censuses.
 *
 * Trees in the store go into the tree of paths node by node as they are needed; of objects each
 * finds its node once, from that of the object above it. Nothing recurses. */
#include "export/paths/paths.h"

#include "base/cleanup.h"
#include "base/lower_bound.h"
#include "traverse/hold/rounds.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define NO_NODE UINT32_MAX

/* Runs and frees a statement. */
static const char *path_row_text(const hx_rows *rows, size_t column)
{
    struct hx_value value = hx_rows_value(rows, column);
    return value.type == HX_VALUE_TEXT ? value.text : NULL;
}

/* A count; *measured becomes false when there is none. */
static uint64_t count_at(const hx_rows *rows, size_t column, bool *measured)
{
    struct hx_value value = hx_rows_value(rows, column);
    if (value.type != HX_VALUE_INT)
        *measured = false;
    return value.type == HX_VALUE_INT && value.i > 0 ? (uint64_t)value.i : 0;
}

struct loading {
    const struct hx_export *export;
    int64_t snapshot;
    struct hx_paths *paths;
    size_t rows; /* that had something to add */
};

/* --- recorded stacks ----------------------------------------------------------------- */

/* A tree of the store, and what of it is among the paths. */
struct forest {
    enum hx_stacktree_of of;
    struct hx_stacktree tree;
    uint32_t *frame; /* of each centre */
    uint32_t *node;  /* of each stack; NO_NODE: not made yet */
    uint32_t unknown;
    HX_VEC(uint32_t) way; /* scratch */
};

static void deinit_forest(struct forest *forest)
{
    hx_stacktree_deinit(&forest->tree);
    free(forest->frame);
    free(forest->node);
    hx_vec_free(&forest->way);
}

static hx_error *load_stacks(const struct loading *l, struct forest *forest)
{
    struct hx_stacktree *tree = &forest->tree;
    HX_TRY(hx_stacktree_load(l->export->store, forest->of, tree));
    forest->frame = malloc((tree->centres.n + 1) * sizeof *forest->frame);
    forest->node = malloc((tree->rows.n + 1) * sizeof *forest->node);
    HX_NEED(forest->frame && forest->node);
    memset(forest->node, 0xff, tree->rows.n * sizeof *forest->node);
    for (size_t i = 0; i < tree->centres.n; i++) {
        const struct hx_stack_centre *centre = &tree->centres.v[i];
        struct hx_frame_texts texts = {.name = hx_stacktree_text(tree, centre->label),
                                       .module = hx_stacktree_text(tree, centre->module),
                                       .source = hx_stacktree_text(tree, centre->source),
                                       .symbol = hx_stacktree_text(tree, centre->symbol)};
        HX_TRY(hx_paths_frame(l->paths, &texts, &forest->frame[i]));
    }
    return hx_paths_frame(l->paths, &(struct hx_frame_texts){0}, &forest->unknown);
}

/* The path of a stack. One that is not there has an unknown frame. */
static hx_error *stack_path(const struct loading *l, struct forest *forest, uint32_t at,
                            uint32_t *ret)
{
    const struct hx_stack_row *row = forest->tree.rows.v;
    uint32_t node = 0;
    if (at == HX_NO_STACK)
        return hx_paths_child(l->paths, 0, forest->unknown, ret);
    forest->way.n = 0;
    for (; at != HX_NO_STACK && forest->node[at] == NO_NODE; at = row[at].parent)
        HX_NEED(hx_vec_push(&forest->way, at));
    if (at != HX_NO_STACK)
        node = forest->node[at];
    while (forest->way.n) {
        at = forest->way.v[--forest->way.n];
        uint32_t centre = row[at].centre;
        uint32_t frame = centre == HX_NO_STACK ? forest->unknown : forest->frame[centre];
        HX_TRY(hx_paths_child(l->paths, node, frame, &node));
        forest->node[at] = node;
    }
    *ret = node;
    return NULL;
}

/* Which values weights are, and of how many stacks they were measured. */
struct summing {
    struct loading *l;
    struct forest *forest;
    enum hx_path_value objects, bytes;
    size_t measured, unmeasured;
};

/* Without anything to add a row makes no path. */
static hx_error *add_weight(void *context, hx_rows *rows)
{
    struct summing *sum = context;
    bool known = true;
    uint64_t n_objects = count_at(rows, HX_WEIGHT_OBJECTS, &known);
    uint64_t n_bytes = count_at(rows, HX_WEIGHT_BYTES, &known);
    sum->measured += known;
    sum->unmeasured += !known;
    sum->l->rows++;
    if (!n_bytes && !n_objects)
        return NULL;
    uint32_t node, at = hx_stacktree_find(&sum->forest->tree, hx_rows_value(rows, HX_WEIGHT_ID).i);
    HX_TRY(stack_path(sum->l, sum->forest, at, &node));
    uint64_t *own = sum->l->paths->nodes.v[node].own;
    hx_paths_add(&own[sum->objects], n_objects);
    hx_paths_add(&own[sum->bytes], n_bytes);
    return NULL;
}

static hx_error *add_weights(enum hx_stack_weights which, struct summing *sum)
{
    return hx_query_each(sum->l->export->store, hx_stack_weights(sum->forest->of, which),
                         HX_QUERY_ARGS(.snapshot = sum->l->snapshot), add_weight, sum);
}

/* What was there before the recorder came has no costs; the others have. */
static hx_error *load_forest(struct loading *l, enum hx_stacktree_of of)
{
    HX_CLEANUP(deinit_forest) struct forest forest = {.of = of};
    struct summing now = {l, &forest, HX_PATH_OBJECTS, HX_PATH_BYTES, 0, 0};
    struct summing ever = {l, &forest, HX_PATH_ALLOC_OBJECTS, HX_PATH_ALLOC_BYTES, 0, 0};
    int64_t sampling = 0;
    HX_TRY(load_stacks(l, &forest));
    HX_TRY(add_weights(HX_WEIGHTS_LIVE, &now));
    l->paths->has_objects = now.unmeasured == 0;
    if (!now.measured && !now.unmeasured)
        return NULL;
    if (l->paths->detail & HX_PATHS_COSTS)
        HX_TRY(add_weights(HX_WEIGHTS_ALLOCATED, &ever));
    l->paths->has_alloc = ever.measured != 0;
    HX_TRY(hx_query_number(l->export->store, HX_QUERY_sampling,
                           HX_QUERY_ARGS(.snapshot = l->snapshot), &sampling));
    l->paths->sample_bytes = sampling > 0 ? (uint64_t)sampling : 0;
    return NULL;
}

static hx_error *load_ccs(struct loading *l)
{
    return load_forest(l, HX_TREE_CCS);
}

static hx_error *load_site(struct loading *l)
{
    return load_forest(l, HX_TREE_FRAMES);
}

/* --- merged trees -------------------------------------------------------------------- */

/* Rows of a view of nodes: a parent comes before what is below it. Without any l->rows stays 0. */
static hx_error *load_tree(struct loading *l, const char *view)
{
    enum { NODE, PARENT, LABEL, BYTES, OBJECTS, COLUMNS };
    static const char *const names[COLUMNS] = {"node", "parent", "label", "bytes", "objects"};
    const struct hx_query query = {
        .view = view, .snapshot = l->snapshot, .sort = "node", .ascending = true, .limit = -1};
    HX_ROWS hx_rows *rows = NULL;
    HX_FREE uint32_t *node = NULL;
    size_t column[COLUMNS] = {0};
    int64_t n = 0;
    HX_TRY(hx_query_count(l->export->store, &query, &n));
    HX_TRY(hx_query_view(l->export->store, &query, &rows));
    for (size_t i = 0; i < COLUMNS; i++)
        while (strcmp(hx_rows_name(rows, column[i]), names[i]) != 0)
            column[i]++;
    node = calloc((size_t)n + 1, sizeof *node); /* by its number; the first one is the top */
    HX_NEED(node);
    for (int64_t i = 1;; i++, l->rows++) {
        bool more, known = true;
        uint32_t frame;
        HX_TRY(hx_rows_next(rows, &more));
        if (!more)
            return NULL;
        struct hx_value parent = hx_rows_value(rows, column[PARENT]);
        int64_t above = parent.type == HX_VALUE_INT ? parent.i : 0;
        if (i > n || hx_rows_value(rows, column[NODE]).i != i || above < 0 || above >= i)
            return hx_export_damaged(l->export, "a tree has a node without a parent");
        struct hx_frame_texts texts = {.name = path_row_text(rows, column[LABEL])};
        HX_TRY(hx_paths_frame(l->paths, &texts, &frame));
        HX_TRY(hx_paths_child(l->paths, node[above], frame, &node[i]));
        uint64_t *own = l->paths->nodes.v[node[i]].own;
        hx_paths_add(&own[HX_PATH_BYTES], count_at(rows, column[BYTES], &known));
        hx_paths_add(&own[HX_PATH_OBJECTS], count_at(rows, column[OBJECTS], &known));
    }
}

/* --- objects ----------------------------------------------------------------------- */

/* Objects on their way into the tree. */
struct placing {
    struct loading *l;
    const struct hx_snapshot *snapshot;
    uint32_t *frame; /* of each name of objects; the one behind them: not known */
    uint32_t *node;  /* of each object; NO_NODE: none yet */
    hx_obj *above;   /* dominators: of each object; HX_NO_OBJ: none */
    uint32_t *queue; /* scratch: objects */
    struct hx_big node_mem, above_mem, queue_mem;
    uint32_t lost; /* node of what nothing reaches; NO_NODE: not made yet */
};

static void deinit_placing(struct placing *p)
{
    free(p->frame);
    hx_big_free(&p->node_mem);
    hx_big_free(&p->above_mem);
    hx_big_free(&p->queue_mem);
}

static hx_error *init_placing(struct loading *l, const struct hx_snapshot *snapshot,
                              struct placing *p)
{
    size_t n = snapshot->graph.n;
    *p = (struct placing){.l = l, .snapshot = snapshot, .lost = NO_NODE};
    const size_t names = hx_snapshot_names(snapshot);
    p->frame = calloc(names + 1, sizeof *p->frame);
    HX_NEED(p->frame);
    for (size_t i = 0; i <= names; i++) {
        const char *name = hx_snapshot_name(snapshot, i);
        HX_TRY(hx_paths_frame(l->paths, &(struct hx_frame_texts){.name = name}, &p->frame[i]));
    }
    HX_TRY(hx_big_array(p->node, n));
    HX_TRY(hx_big_array(p->queue, n));
    if (n)
        memset(p->node, 0xff, n * sizeof *p->node);
    return NULL;
}

static uint32_t name_frame(const struct placing *p, hx_obj object)
{
    return p->frame[hx_snapshot_number_of(p->snapshot, object)];
}

static hx_error *lost_node(struct placing *p, uint32_t *ret)
{
    uint32_t frame;
    if (p->lost == NO_NODE) {
        struct hx_frame_texts texts = {.name = "(unreachable)"};
        HX_TRY(hx_paths_frame(p->l->paths, &texts, &frame));
        HX_TRY(hx_paths_child(p->l->paths, 0, frame, &p->lost));
    }
    *ret = p->lost;
    return NULL;
}

static hx_error *placing_cancelled(const struct placing *p, const char *what, uint64_t done)
{
    const struct hx_progress *progress = p->l->export->progress;
    hx_progress_at(progress, what, done, p->snapshot->graph.n);
    return hx_progress_cancelled(progress) ? hx_error_cancelled("export") : NULL;
}

/* Every object has a node: what they weigh. */
static void add_objects(const struct placing *p)
{
    const struct hx_graph *graph = &p->snapshot->graph;
    for (hx_obj i = 0; i < graph->n; i++) {
        uint64_t *own = p->l->paths->nodes.v[p->node[i]].own;
        hx_paths_add(&own[HX_PATH_OBJECTS], 1);
        hx_paths_add(&own[HX_PATH_BYTES], graph->size[i]);
    }
    p->l->rows += graph->n;
}

/* --- dominators -------------------------------------------------------------------- */

/* The frame of the root that alone reaches what is in a set. */
struct lone_root {
    int64_t set;
    uint32_t frame;
};

/* Of sets with one member. Invariant: sets rise. */
struct lone_roots {
    struct hx_paths *paths;
    HX_VEC(struct lone_root) of;
};

static void deinit_lone_roots(struct lone_roots *roots)
{
    hx_vec_free(&roots->of);
}

static hx_error *add_lone_root(void *context, hx_rows *rows)
{
    struct lone_roots *roots = context;
    struct hx_frame_texts texts = {.name = path_row_text(rows, 1),
                                   .module = path_row_text(rows, 2),
                                   .symbol = path_row_text(rows, 3)};
    struct lone_root root = {.set = hx_rows_value(rows, 0).i};
    HX_TRY(hx_paths_frame(roots->paths, &texts, &root.frame));
    return hx_vec_push(&roots->of, root) ? NULL : hx_error_nomem();
}

static hx_error *load_lone_roots(struct loading *l, struct lone_roots *ret)
{
    const struct hx_scheme *scheme = NULL;
    HX_FREE char *patterns = NULL;
    HX_TRY(hx_store_scheme(l->export->store, l->snapshot, &scheme, &patterns));
    if (!scheme || strcmp(scheme->name, "root") != 0)
        return NULL;
    return hx_query_each(l->export->store, HX_QUERY_lone_retainers, HX_QUERY_ARGS(), add_lone_root,
                         ret);
}

/* An object directly under the roots: below the only one, or below several. */
static hx_error *place_top(struct placing *p, const struct lone_roots *lone, uint32_t several,
                           hx_obj object, struct hx_value set)
{
    size_t at =
        set.type == HX_VALUE_INT ? HX_FIND_ID(lone->of.n, i, lone->of.v[i].set, set.i) : SIZE_MAX;
    uint32_t root;
    HX_TRY(hx_paths_child(p->l->paths, 0, at == SIZE_MAX ? several : lone->of.v[at].frame, &root));
    return hx_paths_child(p->l->paths, root, name_frame(p, object), &p->node[object]);
}

/* How many of the sorted addresses are at most `address`. */
static size_t count_up_to(const uint64_t *address_of, size_t n, uint64_t address)
{
    return HX_LOWER_BOUND(n, i, address_of[i] <= address);
}

/* The object that contains an address. Every STRIDEth address lies in an array of its own, which
 * stays in the cache: of the whole only the last steps of the search are seen. */
enum { STRIDE = 64 };
static hx_obj find_object(const struct hx_graph *graph, const uint64_t *strides, uint64_t address)
{
    size_t n = ((size_t)graph->n + STRIDE - 1) / STRIDE;
    size_t block = count_up_to(strides, n, address);
    if (!block)
        return HX_NO_OBJ;
    size_t first = (block - 1) * STRIDE, rest = graph->n - first;
    first += count_up_to(graph->addr + first, rest < STRIDE ? rest : STRIDE, address) - 1;
    return address - graph->addr[first] < graph->size[first] ? (hx_obj)first : HX_NO_OBJ;
}

static hx_error *make_strides(const struct hx_graph *graph, uint64_t **ret)
{
    uint64_t *strides = malloc(((size_t)graph->n / STRIDE + 1) * sizeof *strides);
    HX_NEED(strides);
    for (size_t i = 0; i < graph->n; i += STRIDE)
        strides[i / STRIDE] = graph->addr[i];
    *ret = strides;
    return NULL;
}

/* Reads the column of dominators; places what has none. */
static hx_error *read_dominators(struct placing *p, const struct lone_roots *lone)
{
    const struct hx_graph *graph = &p->snapshot->graph;
    HX_ROWS hx_rows *rows = NULL;
    uint32_t several;
    struct hx_frame_texts texts = {.name = lone->of.n ? "(several roots)" : "(roots)"};
    HX_TRY(hx_paths_frame(p->l->paths, &texts, &several));
    HX_TRY(hx_query_named(p->l->export->store, HX_QUERY_object_dominators,
                          HX_QUERY_ARGS(.snapshot = p->l->snapshot), &rows));
    bool more = true;
    HX_FREE uint64_t *strides = NULL;
    HX_TRY(make_strides(graph, &strides));
    for (hx_obj i = 0; i < graph->n; i++) {
        HX_TRY(hx_rows_next(rows, &more));
        if (!more)
            return hx_export_damaged(p->l->export, "objects are missing");
        if ((i & 0xffff) == 0)
            HX_TRY(placing_cancelled(p, "read dominators", i));
        struct hx_value dominator = hx_rows_value(rows, 0);
        p->above[i] = HX_NO_OBJ;
        if (graph->state[i] == HX_STATE_DEFINITE || graph->state[i] == HX_STATE_INDIRECT) {
            HX_TRY(lost_node(p, &p->node[i]));
        } else if (dominator.type == HX_VALUE_INT) {
            p->above[i] = find_object(graph, strides, (uint64_t)dominator.i);
            if (p->above[i] == HX_NO_OBJ || p->above[i] == i)
                return hx_export_damaged(p->l->export, "a dominator is no object");
        } else {
            HX_TRY(place_top(p, lone, several, i, hx_rows_value(rows, 1)));
        }
    }
    return NULL;
}

/* Each object goes up to the first that has a node; all on this way get theirs. */
static hx_error *place_dominated(struct placing *p)
{
    const struct hx_graph *graph = &p->snapshot->graph;
    for (hx_obj i = 0; i < graph->n; i++) {
        size_t n = 0;
        hx_obj object = i;
        if ((i & 0xffff) == 0)
            HX_TRY(placing_cancelled(p, "follow dominators", i));
        for (; p->node[object] == NO_NODE; object = p->above[object]) {
            if (n == graph->n)
                return hx_export_damaged(p->l->export, "dominators go round in a circle");
            p->queue[n++] = object;
        }
        uint32_t node = p->node[object];
        while (n--) {
            HX_TRY(hx_paths_step(p->l->paths, node, name_frame(p, p->queue[n]), &node));
            p->node[p->queue[n]] = node;
        }
    }
    return NULL;
}

/* Snapshots of older schemas have no tree: there each object finds its place. */
static hx_error *load_dominator(struct loading *l)
{
    unsigned parts = 0;
    HX_TRY(load_tree(l, "tree"));
    if (l->rows)
        return NULL;
    HX_TRY(hx_store_parts(l->export->store, l->snapshot, &parts));
    if (!(parts & HX_ANALYSE_RETAINED))
        return NULL;
    HX_SNAPSHOT struct hx_snapshot *snapshot = NULL;
    HX_CLEANUP(deinit_lone_roots) struct lone_roots lone = {.paths = l->paths};
    HX_CLEANUP(deinit_placing) struct placing p = {0};
    HX_TRY(hx_store_load_objects(l->export->store, l->snapshot, l->export->progress, &snapshot));
    if (!snapshot->graph.n || !snapshot->graph.state)
        return NULL;
    HX_TRY(init_placing(l, snapshot, &p));
    HX_TRY(hx_big_array(p.above, snapshot->graph.n));
    HX_TRY(load_lone_roots(l, &lone));
    HX_TRY(read_dominators(&p, &lone));
    HX_TRY(place_dominated(&p));
    add_objects(&p);
    return NULL;
}

/* --- chains -------------------------------------------------------------------------- */

static inline bool is_path_edge(const struct hx_snapshot *snapshot, enum hx_edge_kind kind)
{
    return kind != HX_EDGE_ASIDE &&
           (kind != HX_EDGE_INTERIOR || snapshot->interior != HX_INTERIOR_OFF);
}

/* All that a root points to and nothing before it did; the first root wins. */
static hx_error *place_from_roots(struct placing *p, size_t *n)
{
    const struct hx_snapshot *snapshot = p->snapshot;
    uint32_t last = UINT32_MAX, frame = HX_NO_FRAME, root;
    for (size_t i = 0; i < snapshot->root_edges.n; i++) {
        const struct hx_root_edge *edge = &snapshot->root_edges.v[i];
        const struct hx_root *from = &snapshot->roots.v[edge->root];
        if (from->kind == HX_ROOT_NAMED || p->node[edge->target] != NO_NODE ||
            !is_path_edge(snapshot, (enum hx_edge_kind)edge->kind))
            continue;
        if (edge->root != last) {
            struct hx_frame_texts texts = {
                .name = from->name, .module = from->module, .symbol = from->symbol};
            HX_TRY(hx_paths_frame(p->l->paths, &texts, &frame));
            last = edge->root;
        }
        HX_TRY(hx_paths_child(p->l->paths, 0, frame, &root));
        HX_TRY(
            hx_paths_child(p->l->paths, root, name_frame(p, edge->target), &p->node[edge->target]));
        p->queue[(*n)++] = edge->target;
    }
    return NULL;
}

/* Breadth first: who is met first stands on a shortest chain. */
static hx_error *place_reached(struct placing *p, size_t n)
{
    const struct hx_graph *graph = &p->snapshot->graph;
    for (size_t at = 0; at < n; at++) {
        hx_obj object = p->queue[at];
        uint32_t node = p->node[object];
        if ((at & 0xffff) == 0)
            HX_TRY(placing_cancelled(p, "follow references", at));
        for (hx_eidx e = graph->fwd[object]; e < graph->fwd[(size_t)object + 1]; e++) {
            hx_obj target = hx_edge_target(graph->edge[e]);
            if (p->node[target] != NO_NODE ||
                !is_path_edge(p->snapshot, hx_edge_kind_of(graph->edge[e])))
                continue;
            HX_TRY(hx_paths_step(p->l->paths, node, name_frame(p, target), &p->node[target]));
            p->queue[n++] = target;
        }
    }
    return NULL;
}

static hx_error *load_chain(struct loading *l)
{
    HX_SNAPSHOT struct hx_snapshot *snapshot = NULL;
    HX_CLEANUP(deinit_placing) struct placing p = {0};
    size_t n = 0;
    HX_TRY(hx_store_load(l->export->store, l->snapshot, l->export->progress, &snapshot));
    if (!snapshot->graph.n || !snapshot->graph.fwd)
        return NULL;
    struct hx_hold_options hold;
    HX_TRY(hx_store_hold(l->export->store, l->snapshot, &hold));
    HX_TRY(hx_choose(snapshot, &hold, 0, l->export->progress));
    HX_TRY(init_placing(l, snapshot, &p));
    HX_TRY(place_from_roots(&p, &n));
    HX_TRY(place_reached(&p, n));
    for (hx_obj i = 0; i < snapshot->graph.n; i++)
        if (p.node[i] == NO_NODE)
            HX_TRY(lost_node(&p, &p.node[i]));
    add_objects(&p);
    return NULL;
}

/* --- censuses ------------------------------------------------------------------------ */

static hx_error *load_census(struct loading *l)
{
    struct hx_text sql = {0};
    HX_ROWS hx_rows *rows = NULL;
    const struct hx_stored_census *census = hx_census_find(l->paths->by);
    hx_census_sql(census, l->snapshot, &sql);
    HX_TRY(hx_query_text(l->export->store, &sql, &rows));
    for (bool more = true;;) {
        HX_TRY(hx_rows_next(rows, &more));
        if (!more)
            return NULL;
        bool known = true;
        uint32_t frame, node;
        struct hx_frame_texts texts = {.name = path_row_text(rows, 2)};
        char number[32];
        struct hx_value label = hx_rows_value(rows, 2);
        if (label.type == HX_VALUE_INT) {
            snprintf(number, sizeof number, "%" PRId64, label.i);
            texts.name = number;
        }
        HX_TRY(hx_paths_frame(l->paths, &texts, &frame));
        HX_TRY(hx_paths_child(l->paths, 0, frame, &node));
        uint64_t *own = l->paths->nodes.v[node].own;
        hx_paths_add(&own[HX_PATH_BYTES], count_at(rows, 3, &known));
        hx_paths_add(&own[HX_PATH_OBJECTS], count_at(rows, 4, &l->paths->has_objects));
        l->rows++;
    }
}

/* Their chains. */
static hx_error *load_holder(struct loading *l)
{
    HX_TRY(load_tree(l, "holder_tree"));
    return !l->rows && hx_census_find(l->paths->by) ? load_census(l) : NULL;
}

/* --- which of them ------------------------------------------------------------------- */

typedef hx_error *load_fn(struct loading *l);

/* All others are censuses. */
static load_fn *find_way(const char *by)
{
    static const struct {
        const char *by;
        load_fn *load;
    } ways[] = {{"ccs", load_ccs},
                {"site", load_site},
                {"dominator", load_dominator},
                {"holder", load_holder},
                {"chain", load_chain}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (strcmp(ways[i].by, by) == 0)
            return ways[i].load;
    return load_census;
}

static hx_error *load_way(const char *by, struct loading *l)
{
    struct hx_paths *paths = l->paths;
    paths->by = by;
    paths->has_objects = true;
    paths->has_alloc = false;
    paths->sample_bytes = 0;
    l->rows = 0;
    HX_TRY(hx_paths_clear(paths));
    return find_way(by)(l);
}

hx_error *hx_paths_load(const struct hx_export *export, int64_t snapshot, struct hx_paths *paths)
{
    /* in the order in which they are tried when nothing was said */
    static const char *const tried[] = {"ccs",    "dominator", "retainer", "type",
                                        "module", "biography", NULL};
    const char *const asked[] = {export->by, NULL};
    struct loading l = {.export = export, .snapshot = snapshot, .paths = paths};
    for (const char *const *by = export->by ? asked : tried; *by; by++) {
        HX_TRY(load_way(*by, &l));
        if (l.rows)
            return NULL;
    }
    return hx_export_absent(export, export->by ? export->by : "ccs or dominator");
}
