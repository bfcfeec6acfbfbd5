/* why.c - chains from roots to an object, shortest first.
 *
 * A breadth-first search backwards gives each object's exact distance to the target. Each
 * root's shortest chain is a walk down these distances. When the limit leaves room for more,
 * chains are grown forwards from the roots, best first: a prefix waits under the length of the
 * shortest chain that it can still become, so chains come out in order of length, each once, and
 * none passes an object twice. How many prefixes wait and how many edges are read is bounded; past
 * the bounds there are fewer of these further chains.
 */
#include "traverse/reach.h"
#include "traverse/why/distance.h"
#include "traverse/why/nearest_roots.h"

#include <stdlib.h>
#include <string.h>

#define STRONG_EDGES    3u /* bits: start, known */
#define ALL_EDGES       7u
#define MAX_DETOURS     ((size_t)1 << 20) /* waiting prefixes that leave a shortest way */
#define MAX_PREFIXES    ((size_t)1 << 23)
#define MAX_WORK        ((uint64_t)1 << 26) /* edges read and prefixes walked */
#define MAX_TOTAL_STEPS ((size_t)1 << 22)   /* of all chains; the first may be longer */
#define SPARE_CHILDREN  64 /* prefixes kept beyond the limit, as some lead nowhere */
#define NO_PARENT       SIZE_MAX

/* A prefix of chains: root, ..., parent's object, object. */
struct prefix {
    size_t parent; /* NO_PARENT: start is where it begins */
    hx_obj object;
    uint32_t length;  /* objects in it */
    uint32_t nearest; /* the smallest distance in it */
    uint32_t start;   /* index in root_edges */
    hx_eidx edge;     /* by which it came to object; none in the first */
};

/* A waiting prefix. Equal totals: the longest first, so that a chain gets finished
 * before its many equals are begun. */
struct waiting {
    uint64_t total;
    size_t prefix;
};

struct start {
    uint32_t distance, edge; /* edge: index in root_edges */
};

struct child {
    uint32_t distance;
    hx_obj object;
    hx_eidx edge;
};

struct finder {
    const struct hx_snapshot *snapshot;
    const struct hx_progress *progress;
    struct hx_distance distance;
    hx_obj target;
    size_t limit;
    uint64_t bound; /* totals above it are not needed */
    HX_VEC(struct start) starts;
    HX_VEC(struct prefix) prefixes;
    HX_VEC(struct waiting) heap;
    HX_VEC(struct child) children;
    size_t detours;
    uint64_t work;
    size_t steps;
    struct hx_chains chains; /* first those of the near roots, in their order */
    hx_near_roots near;
    uint32_t *near_1; /* for each root: index in near, + 1 */
};

/* --- heap -------------------------------------------------------------------- */

static bool before(const struct finder *finder, const struct waiting *a, const struct waiting *b)
{
    if (a->total != b->total)
        return a->total < b->total;
    uint32_t x = finder->prefixes.v[a->prefix].length, y = finder->prefixes.v[b->prefix].length;
    return x != y ? x > y : a->prefix < b->prefix;
}

static bool heap_push(struct finder *finder, struct waiting entry)
{
    if (!hx_vec_push(&finder->heap, entry))
        return false;
    struct waiting *heap = finder->heap.v;
    size_t i = finder->heap.n - 1;
    for (; i && before(finder, &entry, &heap[(i - 1) / 2]); i = (i - 1) / 2)
        heap[i] = heap[(i - 1) / 2];
    heap[i] = entry;
    return true;
}

static struct waiting heap_pop(struct finder *finder)
{
    struct waiting *heap = finder->heap.v;
    struct waiting top = heap[0], last = heap[--finder->heap.n];
    size_t n = finder->heap.n, i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= n)
            break;
        if (child + 1 < n && before(finder, &heap[child + 1], &heap[child]))
            child++;
        if (!before(finder, &heap[child], &last))
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = last;
    return top;
}

static hx_error *wait_with(struct finder *finder, struct prefix prefix, uint32_t distance)
{
    uint64_t total = (uint64_t)prefix.length + distance;
    HX_NEED(hx_vec_push(&finder->prefixes, prefix) &&
            heap_push(finder, (struct waiting){total, finder->prefixes.n - 1}));
    return NULL;
}

/* --- where chains begin ------------------------------------------------------ */

static int compare_starts(const void *a, const void *b, void *context)
{
    const struct start *x = a, *y = b;
    const struct hx_root_edge *edges = context;
    const struct hx_root_edge *p = &edges[x->edge], *q = &edges[y->edge];
    if (x->distance != y->distance)
        return x->distance < y->distance ? -1 : 1;
    if (p->root != q->root)
        return p->root < q->root ? -1 : 1;
    if (p->target != q->target)
        return p->target < q->target ? -1 : 1;
    if (p->kind != q->kind)
        return p->kind < q->kind ? -1 : 1;
    return x->edge < y->edge ? -1 : x->edge > y->edge;
}

/* The nearest `limit` distinct pairs of root and first object, each by its strongest
 * and then lowest word. */
static hx_error *find_starts(struct finder *finder)
{
    const struct hx_root_edge *edges = finder->snapshot->root_edges.v;
    for (size_t i = 0; i < finder->snapshot->root_edges.n && i < UINT32_MAX; i++) {
        uint32_t distance;
        if (hx_distance_root_edge(&finder->distance, &edges[i]) &&
            hx_distance_of(&finder->distance, edges[i].target, &distance))
            HX_NEED(hx_vec_push(&finder->starts, (struct start){distance, (uint32_t)i}));
    }
    if (!finder->starts.n)
        return NULL;
    qsort_r(finder->starts.v, finder->starts.n, sizeof *finder->starts.v, compare_starts,
            (void *)edges);
    size_t kept = 0;
    for (size_t i = 0; i < finder->starts.n && kept < finder->limit; i++) {
        const struct hx_root_edge *edge = &edges[finder->starts.v[i].edge];
        const struct hx_root_edge *last = kept ? &edges[finder->starts.v[kept - 1].edge] : NULL;
        if (!last || last->root != edge->root || last->target != edge->target)
            finder->starts.v[kept++] = finder->starts.v[i];
    }
    finder->starts.n = kept;
    if (kept == finder->limit)
        finder->bound = (uint64_t)finder->starts.v[kept - 1].distance + 1;
    for (size_t i = 0; i < kept; i++) {
        struct start start = finder->starts.v[i];
        HX_TRY(wait_with(finder,
                         (struct prefix){.parent = NO_PARENT,
                                         .object = edges[start.edge].target,
                                         .length = 1,
                                         .nearest = start.distance,
                                         .start = start.edge},
                         start.distance));
    }
    return NULL;
}

/* --- growing ----------------------------------------------------------------- */

static bool passes(struct finder *finder, size_t at, hx_obj object)
{
    for (; at != NO_PARENT; at = finder->prefixes.v[at].parent) {
        finder->work++;
        if (finder->prefixes.v[at].object == object)
            return true;
    }
    return false;
}

/* Nearest first, of equal objects the strongest and then first edge. */
static int compare_children(const void *a, const void *b, void *context)
{
    const struct hx_graph *graph = context;
    const struct child *x = a, *y = b;
    if (x->distance != y->distance)
        return x->distance < y->distance ? -1 : 1;
    if (x->object != y->object)
        return x->object < y->object ? -1 : 1;
    unsigned p = hx_edge_kind_of(graph->edge[x->edge]), q = hx_edge_kind_of(graph->edge[y->edge]);
    if (p != q)
        return p < q ? -1 : 1;
    return x->edge < y->edge ? -1 : x->edge > y->edge;
}

/* Collects the objects that can come after the prefix, nearest first, each once. */
static hx_error *find_children(struct finder *finder, size_t at)
{
    const struct hx_graph *graph = &finder->snapshot->graph;
    struct prefix prefix = finder->prefixes.v[at];
    bool full = finder->detours >= MAX_DETOURS;
    finder->children.n = 0;
    for (hx_eidx e = graph->fwd[prefix.object]; e < graph->fwd[prefix.object + 1]; e++) {
        hx_obj object = hx_edge_target(graph->edge[e]);
        uint32_t distance;
        finder->work++;
        if (!hx_distance_follows(&finder->distance, hx_edge_kind_of(graph->edge[e])) ||
            !hx_distance_of(&finder->distance, object, &distance) ||
            (uint64_t)prefix.length + 1 + distance > finder->bound)
            continue;
        /* Nearer than all before: surely new. */
        if (distance >= prefix.nearest && (full || passes(finder, at, object)))
            continue;
        HX_NEED(hx_vec_push(&finder->children, (struct child){distance, object, e}));
    }
    if (!finder->children.n)
        return NULL;
    qsort_r(finder->children.v, finder->children.n, sizeof *finder->children.v, compare_children,
            (void *)graph);
    size_t kept = 0;
    for (size_t i = 0; i < finder->children.n; i++)
        if (!kept || finder->children.v[kept - 1].object != finder->children.v[i].object)
            finder->children.v[kept++] = finder->children.v[i];
    finder->children.n = kept;
    return NULL;
}

static hx_error *grow_chain(struct finder *finder, size_t at)
{
    HX_TRY(find_children(finder, at));
    struct prefix prefix = finder->prefixes.v[at];
    size_t most =
        finder->limit < SIZE_MAX - SPARE_CHILDREN ? finder->limit + SPARE_CHILDREN : SIZE_MAX;
    if (finder->detours >= MAX_DETOURS)
        most = 1;
    for (size_t i = 0; i < finder->children.n && i < most; i++) {
        struct child child = finder->children.v[i];
        finder->detours += i > 0;
        HX_TRY(
            wait_with(finder,
                      (struct prefix){.parent = at,
                                      .object = child.object,
                                      .length = prefix.length + 1,
                                      .nearest = child.distance < prefix.nearest ? child.distance
                                                                                 : prefix.nearest,
                                      .start = prefix.start,
                                      .edge = child.edge},
                      child.distance));
    }
    return NULL;
}

/* --- chains ------------------------------------------------------------------ */

static hx_error *push_found_chain(struct finder *finder, struct hx_chain chain)
{
    struct hx_chain *grown =
        reallocarray(finder->chains.chain, finder->chains.n + 1, sizeof *grown);
    if (!grown) {
        free(chain.step);
        return hx_error_nomem();
    }
    finder->chains.chain = grown;
    grown[finder->chains.n++] = chain;
    finder->steps += chain.n;
    return NULL;
}

/* Is it the chain by which its root is there already? */
static bool is_known_chain(const struct finder *finder, size_t at)
{
    const struct prefix *prefix = &finder->prefixes.v[at];
    uint32_t root = finder->snapshot->root_edges.v[prefix->start].root;
    if (!finder->near_1[root])
        return false;
    const struct hx_chain *chain = &finder->chains.chain[finder->near_1[root] - 1];
    if (chain->n != prefix->length)
        return false;
    for (size_t i = chain->n; i-- > 0; prefix = &finder->prefixes.v[prefix->parent]) {
        if (chain->step[i].target != prefix->object)
            return false;
        if (prefix->parent == NO_PARENT)
            break;
    }
    return true;
}

static hx_error *finish_chain(struct finder *finder, size_t at)
{
    size_t n = finder->prefixes.v[at].length;
    finder->work += n;
    if (is_known_chain(finder, at))
        return NULL;
    struct hx_step *step = calloc(n, sizeof *step);
    HX_NEED(step);
    for (size_t i = n; i-- > 1;) {
        const struct prefix *prefix = &finder->prefixes.v[at];
        hx_obj source = finder->prefixes.v[prefix->parent].object;
        step[i] = hx_step_from_object(&finder->snapshot->graph, source, prefix->edge);
        at = prefix->parent;
    }
    step[0] = hx_step_from_root(finder->snapshot, finder->prefixes.v[at].start);
    return push_found_chain(finder, (struct hx_chain){.step = step, .n = n});
}

/* The shortest chain of each of the nearest roots. */
static hx_error *find_first_chains(struct finder *finder, struct hx_walker *walker)
{
    HX_TRY(hx_nearest_roots_find(&finder->distance, finder->limit, &finder->near));
    for (size_t i = 0; i < finder->near.n; i++) {
        const struct hx_near_root *root = &finder->near.v[i];
        struct hx_chain chain;
        if (hx_progress_cancelled(finder->progress))
            return hx_error_cancelled("chain search");
        if (i && finder->steps + root->distance + 1 > MAX_TOTAL_STEPS) {
            finder->chains.left_out = finder->near.n - i;
            break; /* the others are no shorter */
        }
        HX_TRY(hx_walk(walker, root, &chain));
        HX_TRY(push_found_chain(finder, chain));
    }
    return NULL;
}

/* The shortest of all other chains. Of `limit` chains at most all of the first ones are known. */
static hx_error *find_further_chains(struct finder *finder)
{
    finder->near_1 = calloc(finder->snapshot->roots.n + 1, sizeof *finder->near_1);
    HX_NEED(finder->near_1);
    for (size_t i = 0; i < finder->near.n; i++)
        finder->near_1[finder->near.v[i].root] = (uint32_t)i + 1;
    HX_TRY(find_starts(finder));
    while (finder->heap.n && finder->chains.n < finder->limit) {
        if (hx_progress_cancelled(finder->progress))
            return hx_error_cancelled("chain search");
        if (finder->work > MAX_WORK || finder->prefixes.n > MAX_PREFIXES ||
            finder->steps > MAX_TOTAL_STEPS)
            break;
        struct waiting next = heap_pop(finder);
        if (finder->prefixes.v[next.prefix].object == finder->target)
            HX_TRY(finish_chain(finder, next.prefix));
        else
            HX_TRY(grow_chain(finder, next.prefix));
    }
    return NULL;
}

static hx_error *search_chains(struct finder *finder)
{
    struct hx_walker walker;
    hx_error *err = hx_walker_init(&walker, &finder->distance);
    if (!err)
        err = find_first_chains(finder, &walker);
    hx_walker_deinit(&walker);
    if (!err && finder->chains.n && finder->chains.n < finder->limit && !finder->chains.left_out)
        err = find_further_chains(finder);
    return err;
}

/* What is asked, over edges of the kinds in `follows`. */
struct question {
    const struct hx_snapshot *snapshot;
    hx_obj object;
    struct hx_why_options options;
    const struct hx_progress *progress;
};

/* *ret_first: so many of the chains, in front, are the first of their root. */
static hx_error *chains_over(const struct question *question, unsigned follows, size_t limit,
                             struct hx_chains *ret, size_t *ret_first)
{
    struct finder finder = {.snapshot = question->snapshot,
                            .progress = question->progress,
                            .target = question->object,
                            .limit = limit,
                            .bound = UINT64_MAX};
    hx_error *err =
        hx_distance_init(&finder.distance, question->snapshot, follows, question->options.roots,
                         question->object, limit, question->progress);
    if (!err)
        err = search_chains(&finder);
    *ret_first = finder.near.n < finder.chains.n ? finder.near.n : finder.chains.n;
    hx_distance_deinit(&finder.distance);
    hx_vec_free(&finder.starts);
    hx_vec_free(&finder.prefixes);
    hx_vec_free(&finder.heap);
    hx_vec_free(&finder.children);
    hx_vec_free(&finder.near);
    free(finder.near_1);
    if (err)
        hx_chains_deinit(&finder.chains);
    else
        *ret = finder.chains;
    return err;
}

/* --- the answer -------------------------------------------------------------- */

static bool is_strong(const struct hx_chain *chain)
{
    for (size_t i = 0; i < chain->n; i++)
        if (chain->step[i].kind == HX_EDGE_INTERIOR)
            return false;
    return true;
}

struct ranked {
    struct hx_chain chain;
    bool weak;
    size_t found;
};

static int compare_ranked(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->chain.n != y->chain.n)
        return x->chain.n < y->chain.n ? -1 : 1;
    if (x->weak != y->weak)
        return x->weak ? 1 : -1;
    return x->found < y->found ? -1 : 1;
}

/* Shortest first; of equal ones those without plain interior edges first. */
static hx_error *rank(struct hx_chains *chains)
{
    if (!chains->n)
        return NULL;
    struct ranked *ranked = calloc(chains->n, sizeof *ranked);
    HX_NEED(ranked);
    for (size_t i = 0; i < chains->n; i++)
        ranked[i] = (struct ranked){chains->chain[i], !is_strong(&chains->chain[i]), i};
    qsort(ranked, chains->n, sizeof *ranked, compare_ranked);
    for (size_t i = 0; i < chains->n; i++)
        chains->chain[i] = ranked[i].chain;
    free(ranked);
    return NULL;
}

/* Puts the chain in: behind the others, or where there is no room in place of the last, unless
 * that is the first chain of its root and the new one is not. Takes what it uses from *chain. */
static hx_error *put_in(struct hx_chains *chains, size_t limit, size_t first,
                        struct hx_chain *chain)
{
    if (chains->n < limit) {
        struct hx_chain *grown = reallocarray(chains->chain, chains->n + 1, sizeof *grown);
        HX_NEED(grown);
        chains->chain = grown;
        grown[chains->n++] = *chain;
        *chain = (struct hx_chain){0};
        return NULL;
    }
    for (size_t i = 0; i < chains->n && first == chains->n; i++)
        if (chains->chain[i].step[0].root == chain->step[0].root)
            return NULL;
    struct hx_chain last = chains->chain[chains->n - 1];
    chains->chain[chains->n - 1] = *chain;
    *chain = last;
    return NULL;
}

/* A reachable object has a chain without plain interior edges. When all that were found are
 * shorter than it, it still belongs to the answer. */
static hx_error *add_strong(const struct question *question, size_t first, struct hx_chains *chains)
{
    for (size_t i = 0; i < chains->n; i++)
        if (is_strong(&chains->chain[i]))
            return NULL;
    struct hx_chains strong = {0};
    size_t unused;
    HX_TRY(chains_over(question, STRONG_EDGES, 1, &strong, &unused));
    hx_error *err =
        strong.n ? put_in(chains, question->options.limit, first, &strong.chain[0]) : NULL;
    hx_chains_deinit(&strong);
    return err;
}

hx_error *hx_why(const struct hx_snapshot *snapshot, hx_obj object,
                 const struct hx_why_options *options, const struct hx_progress *progress,
                 struct hx_chains *ret)
{
    const struct hx_graph *graph = &snapshot->graph;
    const struct question question = {
        .snapshot = snapshot, .object = object, .options = *options, .progress = progress};
    struct hx_chains chains = {0};
    if (object >= graph->n)
        return hx_error_new(HX_E_ABSENT, "object", NULL, "there is no object %u", object);
    if (options->limit && graph->rev) {
        unsigned follows = snapshot->interior == HX_INTERIOR_OFF ? STRONG_EDGES : ALL_EDGES;
        size_t first;
        HX_TRY(chains_over(&question, follows, options->limit, &chains, &first));
        hx_error *err = NULL;
        if (options->limit > 1 && snapshot->interior == HX_INTERIOR_KNOWN && graph->state &&
            graph->state[object] == HX_STATE_REACHABLE)
            err = add_strong(&question, first, &chains);
        if (!err)
            err = rank(&chains);
        if (err) {
            hx_chains_deinit(&chains);
            return err;
        }
    }
    *ret = chains;
    return NULL;
}

unsigned hx_step_rule(const struct hx_snapshot *snapshot, const struct hx_step *step,
                      hx_eidx *ret_edge)
{
    const struct hx_graph *graph = &snapshot->graph;
    if (!graph->evidence)
        return 0;
    if (step->source != HX_NO_OBJ) {
        for (hx_eidx e = graph->fwd[step->source]; e < graph->fwd[(size_t)step->source + 1]; e++)
            if (hx_edge_offset(graph->edge[e]) == step->offset) {
                *ret_edge = e;
                return HX_EVIDENCE_RULE(graph->evidence[e]);
            }
        return 0;
    }
    size_t end = hx_snapshot_root_edges(snapshot, (uint64_t)step->root + 1);
    for (size_t e = hx_snapshot_root_edges(snapshot, step->root); e < end; e++) {
        const struct hx_root_edge *edge = &snapshot->root_edges.v[e];
        if (edge->target == step->target &&
            edge->address - snapshot->roots.v[step->root].address == step->offset)
            return HX_EVIDENCE_RULE(edge->evidence);
    }
    return 0;
}

bool hx_step_put_field(const struct hx_snapshot *snapshot, const struct hx_step *step,
                       struct hx_text *text)
{
    if (step->source != HX_NO_OBJ)
        return hx_snapshot_put_field(snapshot, step->source, step->offset, text);
    const struct hx_root *root = &snapshot->roots.v[step->root];
    return hx_snapshot_put_root_field(snapshot, step->root, root->address + step->offset, text);
}

void hx_chains_deinit(struct hx_chains *chains)
{
    for (size_t i = 0; i < chains->n; i++)
        free(chains->chain[i].step);
    free(chains->chain);
    *chains = (struct hx_chains){0};
}
