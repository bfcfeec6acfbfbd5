/* sure.c - the small graph of what uncertain edges concern, and the sums over its dominators. */
#include "traverse/dominate/sure.h"

#include "base/bits.h"
#include "base/lower_bound.h"
#include "traverse/dominate/immediate.h"

#define CHECK_MASK 0xffff /* every so many objects + 1 */
#define AHEAD      16     /* objects: how far ahead scattered reads are prefetched */
#define NEAR       4      /* dominators of its source that an uncertain edge is compared with */
#define FEW        16     /* edges of each of them, at most */

static const char what[] = "search for dominators";

struct work {
    const struct hx_snapshot *snapshot;
    const struct hx_graph *graph;
    const struct hx_dominators *all;
    const struct hx_progress *progress;
    struct hx_sure *sure;
    size_t looks;        /* at objects that may make an edge idle: how many are left */
    size_t n, limit;     /* objects concerned so far, and at most */
    hx_eidx edge_limit;  /* sure edges that are copied at most */
    uint64_t *beyond;    /* bit for each object: in R (sure.h) */
    uint64_t *concerned; /* bit for each object: in R or A; before that, see is_idle() */
    hx_obj *rank;        /* for each word of `concerned`: how many stand before it */
    struct hx_big beyond_mem, concerned_mem, rank_mem;
    struct hx_graph small; /* objects by number: place in sure.object, n: the top of all */
};

static bool report_sure(const struct work *work, const char *stage, size_t done, size_t total)
{
    if (done & CHECK_MASK)
        return true;
    hx_progress_at(work->progress, stage, done, total);
    return !hx_progress_cancelled(work->progress);
}

/* Number of a concerned object in the small graph. */
static inline hx_obj small_number(const struct work *work, hx_obj object)
{
    return (hx_obj)(work->rank[object / 64] + hx_bits_below(work->concerned, object));
}

/* --- what is concerned ------------------------------------------------------------- */

static inline bool is_sure_kind(unsigned kind)
{
    return kind == HX_EDGE_START || kind == HX_EDGE_KNOWN;
}

static inline bool is_sure(hx_edge edge)
{
    return is_sure_kind(hx_edge_kind_of(edge));
}

/* Adds an object to R. */
static inline void put_beyond(struct work *work, hx_obj object)
{
    if (!hx_bit_add(work->beyond, object))
        return;
    if (work->n < work->limit)
        work->sure->object[work->n] = object;
    work->n++;
}

/* Has the object a sure edge to the target, as far as a short look tells? */
static inline bool points_surely(const struct hx_graph *graph, hx_obj object, hx_obj target)
{
    hx_eidx e = graph->fwd[object], end = graph->fwd[(size_t)object + 1];
    for (end = end - e > FEW ? e + FEW : end; e < end; e++)
        if (is_sure(graph->edge[e]) && hx_edge_target(graph->edge[e]) == target)
            return true;
    return false;
}

/* Does an uncertain edge decide nothing (sure.h)? `concerned` holds what roots surely point to. */
static bool is_idle(struct work *work, hx_obj object, hx_obj target)
{
    if (hx_bit(work->concerned, target))
        return true;
    for (unsigned k = 0; k <= NEAR && object != HX_NO_OBJ && work->looks; k++, work->looks--) {
        if (object == target || points_surely(work->graph, object, target))
            return true;
        object = work->all->parent[object];
    }
    return false;
}

static inline bool counts_as_sure(const struct work *work, const struct hx_root_edge *edge)
{
    return work->snapshot->roots.v[edge->root].kind != HX_ROOT_NAMED;
}

/* The targets of uncertain edges from roots. */
static void find_root_targets(struct work *work)
{
    const struct hx_snapshot *snapshot = work->snapshot;
    for (size_t i = 0; i < snapshot->root_edges.n; i++) {
        const struct hx_root_edge *edge = &snapshot->root_edges.v[i];
        if (is_sure_kind(edge->kind) && counts_as_sure(work, edge))
            hx_bit_set(work->concerned, edge->target);
    }
    for (size_t i = 0; i < snapshot->root_edges.n; i++) {
        const struct hx_root_edge *edge = &snapshot->root_edges.v[i];
        if (edge->kind == HX_EDGE_INTERIOR && counts_as_sure(work, edge) &&
            !hx_bit(work->concerned, edge->target))
            put_beyond(work, edge->target);
    }
}

/* The targets of uncertain edges. */
static hx_error *find_uncertain_targets(struct work *work)
{
    const struct hx_graph *graph = work->graph;
    find_root_targets(work);
    for (hx_obj i = 0; i < graph->n && work->n <= work->limit; i++) {
        if (!report_sure(work, "uncertain edges", i, graph->n))
            return hx_error_cancelled(what);
        for (hx_eidx e = graph->fwd[i]; e < graph->fwd[(size_t)i + 1]; e++) {
            hx_edge edge = graph->edge[e];
            hx_obj target = hx_edge_target(edge);
            if (hx_edge_kind_of(edge) == HX_EDGE_INTERIOR && hx_dominators_has(work->all, i) &&
                !hx_bit(work->beyond, target) && !is_idle(work, i, target))
                put_beyond(work, target);
        }
    }
    return NULL;
}

/* What they reach over sure edges. sure.object is the queue. */
static hx_error *spread_sure_edges(struct work *work)
{
    const struct hx_graph *graph = work->graph;
    const hx_obj *queue = work->sure->object;
    for (size_t k = 0; k < work->n && work->n <= work->limit; k++) {
        if (!report_sure(work, "uncertain objects", k, work->n))
            return hx_error_cancelled(what);
        if (k + 2 * AHEAD < work->n)
            __builtin_prefetch(&graph->fwd[queue[k + 2 * AHEAD]]);
        if (k + AHEAD < work->n)
            __builtin_prefetch(&graph->edge[graph->fwd[queue[k + AHEAD]]]);
        for (hx_eidx e = graph->fwd[queue[k]]; e < graph->fwd[(size_t)queue[k] + 1]; e++)
            if (is_sure(graph->edge[e]))
                put_beyond(work, hx_edge_target(graph->edge[e]));
    }
    return NULL;
}

/* Adds an object outside R, and what dominates it, to A. */
static void put_above(struct work *work, hx_obj object)
{
    for (; object != HX_NO_OBJ && hx_bit_add(work->concerned, object);
         object = work->all->parent[object])
        work->n++;
}

/* The sources of edges into R, with what dominates them. */
static hx_error *find_sources(struct work *work)
{
    const struct hx_graph *graph = work->graph;
    for (size_t i = 0; i < (size_t)graph->n / 64 + 1; i++)
        work->concerned[i] = work->beyond[i];
    for (hx_obj i = 0; i < graph->n && work->n <= work->limit; i++) {
        if (!report_sure(work, "sources of edges", i, graph->n))
            return hx_error_cancelled(what);
        if (hx_bit(work->concerned, i) || !hx_dominators_has(work->all, i))
            continue;
        for (hx_eidx e = graph->fwd[i]; e < graph->fwd[(size_t)i + 1]; e++)
            if (hx_bit(work->beyond, hx_edge_target(graph->edge[e]))) {
                put_above(work, i);
                break;
            }
    }
    return NULL;
}

/* Numbers what is concerned, in order of the objects. */
static void number_concerned(struct work *work)
{
    const size_t words = (size_t)work->graph->n / 64 + 1;
    struct hx_sure *sure = work->sure;
    sure->n = 0;
    for (size_t i = 0; i < words; i++) {
        work->rank[i] = sure->n;
        for (uint64_t left = work->concerned[i]; left; left &= left - 1)
            sure->object[sure->n++] = (hx_obj)(i * 64 + (size_t)__builtin_ctzll(left));
    }
}

/* --- the small graph ----------------------------------------------------------------- */

/* Calls `visit` for each edge of the small graph: the sure ones into and within R, and those of
 * A's tree; from the top where a root is the source. */
typedef void visit_fn(struct work *work, hx_obj source, hx_obj target);

static inline void visit_edges_of(struct work *work, hx_obj k, visit_fn *visit)
{
    const struct hx_graph *graph = work->graph;
    const hx_obj object = work->sure->object[k];
    for (hx_eidx e = graph->fwd[object]; e < graph->fwd[(size_t)object + 1]; e++) {
        hx_obj target = hx_edge_target(graph->edge[e]);
        if (is_sure(graph->edge[e]) && hx_bit(work->beyond, target))
            visit(work, k, small_number(work, target));
    }
    if (hx_bit(work->beyond, object))
        return;
    hx_obj above = work->all->parent[object];
    visit(work, above == HX_NO_OBJ ? work->sure->n : small_number(work, above), k);
}

static inline bool visit_edges(struct work *work, const char *stage, visit_fn *visit)
{
    const struct hx_snapshot *snapshot = work->snapshot;
    const struct hx_sure *sure = work->sure;
    for (size_t i = 0; i < snapshot->root_edges.n; i++) {
        const struct hx_root_edge *edge = &snapshot->root_edges.v[i];
        if (is_sure_kind(edge->kind) && hx_bit(work->beyond, edge->target) &&
            counts_as_sure(work, edge))
            visit(work, sure->n, small_number(work, edge->target));
    }
    for (hx_obj k = 0; k < sure->n; k++) {
        if (!report_sure(work, stage, k, sure->n))
            return false;
        if (k + AHEAD < sure->n)
            __builtin_prefetch(&work->graph->fwd[sure->object[k + AHEAD]]);
        visit_edges_of(work, k, visit);
    }
    return true;
}

/* The counts stand two places up, so that the places, one up, end as the first of the next. */
static void count_edge(struct work *work, hx_obj source, hx_obj target)
{
    (void)target;
    work->small.fwd[(size_t)source + 2]++;
}

static void put_uncertain_edge(struct work *work, hx_obj source, hx_obj target)
{
    hx_eidx place = work->small.fwd[(size_t)source + 1]++;
    work->small.edge[place] = hx_edge_make(target, 0, HX_EDGE_START);
}

/* Leaves small.edge NULL when there are too many of them. */
static hx_error *make_small(struct work *work)
{
    struct hx_graph *small = &work->small;
    small->n = (hx_obj)(work->sure->n + 1);
    HX_TRY(hx_big_array(small->fwd, (size_t)small->n + 2));
    if (!visit_edges(work, "count edges", count_edge))
        return hx_error_cancelled(what);
    for (size_t i = 2; i < (size_t)small->n + 2; i++)
        small->fwd[i] += small->fwd[i - 1];
    small->n_edges = small->fwd[(size_t)small->n + 1];
    if (small->n_edges > work->edge_limit + work->sure->n)
        return NULL;
    HX_TRY(hx_big_array(small->edge, small->n_edges + 1));
    return visit_edges(work, "copy edges", put_uncertain_edge) ? NULL : hx_error_cancelled(what);
}

/* The dominators of the small graph, which is given back on the way. Nodes 0 to 2 are the virtual
 * root, the one root and the top. */
static hx_error *find_tree(struct work *work, struct hx_spanning *ret)
{
    struct hx_snapshot snapshot = {.graph = work->small};
    struct hx_root root = {.kind = HX_ROOT_GLOBAL};
    struct hx_root_edge edge = {.target = work->sure->n, .kind = HX_EDGE_START};
    snapshot.roots.v = &root;
    snapshot.root_edges.v = &edge;
    snapshot.roots.n = snapshot.root_edges.n = 1;
    HX_TRY(hx_spanning_find(&snapshot, 1u << HX_EDGE_START, work->progress, ret));
    hx_graph_deinit(&work->small);
    return hx_immediate_dominators(ret, work->progress);
}

/* --- sums ------------------------------------------------------------------------------ */

/* Gives those of A what they retain without R and A. */
static bool share_out(const struct work *work)
{
    const struct hx_dominators *all = work->all;
    const struct hx_sure *sure = work->sure;
    for (hx_obj k = 0; k < sure->n; k++) {
        if (!report_sure(work, "shares", k, sure->n))
            return false;
        hx_obj object = sure->object[k], above = all->parent[object];
        if (!hx_bit(work->beyond, object)) {
            sure->bytes[k] += all->bytes[object];
            sure->objects[k] = (hx_obj)(sure->objects[k] + all->objects[object]);
        }
        if (above == HX_NO_OBJ || hx_bit(work->beyond, above))
            continue;
        hx_obj from = small_number(work, above);
        sure->bytes[from] -= all->bytes[object];
        sure->objects[from] = (hx_obj)(sure->objects[from] - all->objects[object]);
    }
    return true;
}

/* From the leaves up. */
static bool sum_sure_retained(const struct work *work, const struct hx_spanning *tree)
{
    enum { TOP_NODE = 2 };
    const struct hx_sure *sure = work->sure;
    for (hx_node w = tree->n - 1; w > TOP_NODE; w--) {
        if (!report_sure(work, "retained sizes", tree->n - w, tree->n))
            return false;
        hx_node k = tree->vertex[w];
        if (hx_bit(work->beyond, sure->object[k])) {
            sure->bytes[k] += work->graph->size[sure->object[k]];
            sure->objects[k]++;
        }
        if (tree->parent[w] <= TOP_NODE)
            continue;
        hx_node above = tree->vertex[tree->parent[w]];
        sure->bytes[above] += sure->bytes[k];
        sure->objects[above] = (hx_obj)(sure->objects[above] + sure->objects[k]);
    }
    return true;
}

static hx_error *sum_over_tree(const struct work *work, const struct hx_spanning *tree)
{
    struct hx_sure *sure = work->sure;
    HX_TRY(hx_big_array(sure->bytes, sure->n));
    HX_TRY(hx_big_array(sure->objects, sure->n));
    return share_out(work) && sum_sure_retained(work, tree) ? NULL : hx_error_cancelled(what);
}

/* --- all of it ----------------------------------------------------------------------------- */

static hx_error *reserve_sure(struct work *work)
{
    const size_t words = (size_t)work->graph->n / 64 + 1;
    HX_TRY(hx_big_array(work->beyond, words));
    HX_TRY(hx_big_array(work->concerned, words));
    HX_TRY(hx_big_array(work->rank, words));
    return hx_big_array(work->sure->object, work->limit + 1);
}

/* *ret_all: false when too many are concerned. */
static hx_error *find_sure_objects(struct work *work, bool *ret_all)
{
    *ret_all = false;
    HX_TRY(reserve_sure(work));
    HX_TRY(find_uncertain_targets(work));
    HX_TRY(spread_sure_edges(work));
    if (work->n && work->n <= work->limit)
        HX_TRY(find_sources(work));
    if (work->n > work->limit)
        return NULL;
    *ret_all = true;
    if (!work->n)
        return NULL;
    number_concerned(work);
    HX_TRY(make_small(work));
    *ret_all = work->small.edge != NULL;
    if (!*ret_all)
        return NULL;
    struct hx_spanning tree = {0};
    hx_error *err = find_tree(work, &tree);
    if (!err)
        err = sum_over_tree(work, &tree);
    hx_spanning_deinit(&tree);
    return err;
}

hx_error *hx_sure_find(const struct hx_snapshot *snapshot, const struct hx_dominators *all,
                       unsigned part, const struct hx_progress *progress, struct hx_sure *ret)
{
    *ret = (struct hx_sure){0};
    if (!(all->follows >> HX_EDGE_INTERIOR & 1) || !snapshot->graph.n)
        return NULL;
    const size_t most = HX_OBJECTS_MAX - 1; /* one more stands for the roots */
    struct work work = {.snapshot = snapshot,
                        .graph = &snapshot->graph,
                        .all = all,
                        .progress = progress,
                        .sure = ret,
                        .looks = snapshot->graph.n,
                        .limit = snapshot->graph.n / part,
                        .edge_limit = (snapshot->graph.n_edges + snapshot->root_edges.n) / part};
    work.limit = work.limit < most ? work.limit : most;
    bool found_all;
    hx_error *err = find_sure_objects(&work, &found_all);
    hx_graph_deinit(&work.small);
    hx_big_free(&work.beyond_mem);
    hx_big_free(&work.concerned_mem);
    hx_big_free(&work.rank_mem);
    if (!err && found_all)
        return NULL;
    hx_sure_deinit(ret);
    ret->too_many = !err;
    return err;
}

hx_obj hx_sure_from(const struct hx_sure *sure, hx_obj object)
{
    return HX_LOWER_BOUND(sure->n, i, sure->object[i] < object);
}

void hx_sure_deinit(struct hx_sure *sure)
{
    hx_big_free(&sure->object_mem);
    hx_big_free(&sure->bytes_mem);
    hx_big_free(&sure->objects_mem);
    *sure = (struct hx_sure){0};
}
