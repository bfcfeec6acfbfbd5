/* rootscan.c - scanning roots, splitting the nameless, dropping the idle. */
#include "traverse/scan/rootscan.h"

#include "base/bits.h"
#include "base/lower_bound.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORD        8
#define CLUSTER_GAP 128   /* so many bytes without a pointer end a group */
#define MAX_GROUPS  65536 /* of one cluster; above this the gap is doubled */

/* --- order ------------------------------------------------------------------- */

/* Registers have no address and come first. */
static bool roots_are_sorted(const struct hx_snapshot *snapshot)
{
    for (size_t i = 1; i < snapshot->roots.n; i++)
        if (snapshot->roots.v[i - 1].address > snapshot->roots.v[i].address)
            return false;
    return true;
}

struct placed {
    struct hx_root root;
    size_t made;
};

static int compare_root_addresses(const void *a, const void *b)
{
    const struct placed *x = a, *y = b;
    if (x->root.address != y->root.address)
        return x->root.address < y->root.address ? -1 : 1;
    return x->made < y->made ? -1 : 1;
}

hx_error *hx_root_scan_prepare(struct hx_snapshot *snapshot)
{
    if (snapshot->roots.n > UINT32_MAX)
        return hx_error_new(HX_E_CORRUPT, "roots", NULL, "there are more than 2^32 of them");
    if (roots_are_sorted(snapshot))
        return NULL;
    size_t n = snapshot->roots.n;
    struct placed *placed = malloc(n * sizeof *placed);
    HX_NEED(placed);
    for (size_t i = 0; i < n; i++)
        placed[i] = (struct placed){.root = snapshot->roots.v[i], .made = i};
    qsort(placed, n, sizeof *placed, compare_root_addresses);
    for (size_t i = 0; i < n; i++)
        snapshot->roots.v[i] = placed[i].root;
    free(placed);
    return NULL;
}

/* --- words ------------------------------------------------------------------- */

struct sink {
    struct hx_lookup *lookup;
    struct hx_root_scan *scan;
    uint32_t root;
};

static bool flush_root(struct sink *sink)
{
    struct hx_lookup *lookup = sink->lookup;
    size_t n = hx_lookup_run(lookup);
    if (n && !hx_vec_reserve(&sink->scan->edges, sink->scan->edges.n + n))
        return false;
    for (size_t i = 0; i < n; i++)
        sink->scan->edges.v[sink->scan->edges.n++] =
            (struct hx_root_edge){.root = sink->root,
                                  .target = lookup->target[i],
                                  .address = lookup->tag[i],
                                  .kind = lookup->kind[i],
                                  .evidence = HX_EVIDENCE(0, lookup->kind[i])};
    return true;
}

/* The words [from, to) of a root, both aligned, as far as the image holds them. */
static bool scan_root(const struct hx_image *image, struct sink *sink, uint64_t from, uint64_t to)
{
    HX_PEEKED window = {0};
    for (size_t i = hx_image_find(image, from); i < image->n && image->span[i].start < to; i++) {
        const struct hx_span *span = &image->span[i];
        uint64_t at = from > span->start ? from : span->start;
        uint64_t end = to < span->end ? to : span->end;
        while (at < end) {
            size_t n = (end - at) / WORD < HX_LOOKUP_RUN ? (end - at) / WORD : HX_LOOKUP_RUN;
            const uint64_t *words = hx_image_peek(image, at, n, &window);
            if (!words)
                return false;
            hx_lookup_words(sink->lookup, words, n, at, WORD);
            if (sink->lookup->n >= HX_LOOKUP_BATCH && !flush_root(sink))
                return false;
            at += n * WORD;
        }
    }
    return flush_root(sink);
}

/* The first root that reaches beyond addr. */
static size_t first_beyond(const struct hx_snapshot *snapshot, uint64_t addr)
{
    const struct hx_root *root = snapshot->roots.v;
    return HX_LOWER_BOUND(snapshot->roots.n, i,
                          root[i].kind == HX_ROOT_REGISTER ||
                              root[i].address + root[i].size <= addr);
}

bool hx_root_scan(const struct hx_snapshot *snapshot, struct hx_lookup *lookup, uint64_t start,
                  uint64_t stop, struct hx_root_scan *ret)
{
    for (size_t i = first_beyond(snapshot, start);
         i < snapshot->roots.n && snapshot->roots.v[i].address < stop; i++) {
        const struct hx_root *root = &snapshot->roots.v[i];
        if (root->kind == HX_ROOT_REGISTER || root->size < WORD ||
            root->size > UINT64_MAX - WORD - root->address)
            continue;
        uint64_t from = (root->address + WORD - 1) & ~(uint64_t)(WORD - 1);
        uint64_t to = (root->address + root->size) & ~(uint64_t)(WORD - 1);
        from = from > start ? from : start;
        to = to < stop ? to : stop;
        struct sink sink = {.lookup = lookup, .scan = ret, .root = (uint32_t)i};
        if (from < to && !scan_root(&snapshot->image, &sink, from, to))
            return false;
    }
    return true;
}

bool hx_root_scan_registers(struct hx_snapshot *snapshot, struct hx_lookup *lookup)
{
    struct hx_root_scan part = {0};
    bool fine = true;
    for (size_t i = 0; fine && i < snapshot->roots.n; i++) {
        const struct hx_root *root = &snapshot->roots.v[i];
        if (root->kind != HX_ROOT_REGISTER)
            continue;
        struct sink sink = {.lookup = lookup, .scan = &part, .root = (uint32_t)i};
        hx_lookup_words(lookup, &root->value, 1, 0, 0);
        fine = flush_root(&sink);
    }
    fine = fine && hx_root_scan_append(snapshot, &part);
    hx_vec_free(&part.edges);
    return fine;
}

bool hx_root_scan_append(struct hx_snapshot *snapshot, struct hx_root_scan *part)
{
    size_t n = part->edges.n;
    if (n) {
        if (!hx_vec_reserve(&snapshot->root_edges, snapshot->root_edges.n + n))
            return false;
        memcpy(snapshot->root_edges.v + snapshot->root_edges.n, part->edges.v,
               n * sizeof *part->edges.v);
        snapshot->root_edges.n += n;
    }
    hx_vec_free(&part->edges);
    return true;
}

/* --- which roots remain ------------------------------------------------------ */

struct finisher {
    struct hx_snapshot *snapshot;
    struct hx_root *root; /* the new list */
    size_t n, cap;
    uint64_t *seen; /* bit for each object: counted for the current root */
};

/* Takes `root` (its strings are then the list's) with edges [from, to). */
static bool keep_root(struct finisher *finisher, struct hx_root *root, size_t from, size_t to)
{
    if (!hx_vec_reserve_raw((void **)&finisher->root, &finisher->cap, finisher->n + 1,
                            sizeof *finisher->root))
        return false;
    struct hx_root_edge *edge = finisher->snapshot->root_edges.v;
    root->direct_objects =
        to > from ? hx_root_edge_targets(edge + from, to - from, finisher->seen) : 0;
    for (size_t i = from; i < to; i++)
        edge[i].root = (uint32_t)finisher->n;
    finisher->root[finisher->n++] = *root;
    *root = (struct hx_root){0};
    return true;
}

/* One root for the group of edges [from, to). */
static bool keep_group(struct finisher *finisher, const struct hx_root *cluster, size_t from,
                       size_t to)
{
    const struct hx_root_edge *edge = finisher->snapshot->root_edges.v;
    struct hx_root part = *cluster;
    bool has_module = cluster->module && cluster->module[0];
    const char *prefix = has_module ? cluster->module : cluster->name ? cluster->name : "";
    part.address = edge[from].address;
    part.size = edge[to - 1].address + WORD - part.address;
    part.cluster = false;
    part.module = strdup(cluster->module ? cluster->module : "");
    part.name = part.symbol = part.thread = NULL;
    if (asprintf(&part.name, "%s+0x%" PRIx64, prefix, part.address - cluster->bias) < 0)
        part.name = NULL;
    bool fine = part.name && part.module && finisher->n < UINT32_MAX &&
                keep_root(finisher, &part, from, to);
    hx_root_deinit(&part);
    return fine;
}

/* The end of the group of edges that begins at `from`. */
static size_t edge_group_end(const struct hx_root_edge *edge, size_t from, size_t to, uint64_t gap)
{
    size_t end = from + 1;
    while (end < to && edge[end].address - (edge[end - 1].address + WORD) < gap)
        end++;
    return end;
}

/* The smallest gap, doubled from CLUSTER_GAP, at which the cluster has few groups. */
static uint64_t choose_gap(const struct hx_root_edge *edge, size_t from, size_t to)
{
    for (uint64_t gap = CLUSTER_GAP;; gap *= 2) {
        size_t groups = 0;
        for (size_t at = from; at < to && groups <= MAX_GROUPS; groups++)
            at = edge_group_end(edge, at, to, gap);
        if (groups <= MAX_GROUPS)
            return gap;
    }
}

static bool split_cluster(struct finisher *finisher, const struct hx_root *cluster, size_t from,
                          size_t to)
{
    const struct hx_root_edge *edge = finisher->snapshot->root_edges.v;
    uint64_t gap = choose_gap(edge, from, to);
    while (from < to) {
        size_t end = edge_group_end(edge, from, to, gap);
        if (!keep_group(finisher, cluster, from, end))
            return false;
        from = end;
    }
    return true;
}

hx_error *hx_root_scan_finish(struct hx_snapshot *snapshot)
{
    struct finisher finisher = {.snapshot = snapshot};
    finisher.seen = calloc((size_t)snapshot->graph.n / 64 + 1, sizeof *finisher.seen);
    bool fine = finisher.seen != NULL;
    size_t from = 0;
    for (size_t i = 0; fine && i < snapshot->roots.n; i++) {
        struct hx_root *root = &snapshot->roots.v[i];
        size_t to = from;
        while (to < snapshot->root_edges.n && snapshot->root_edges.v[to].root == i)
            to++;
        if (root->cluster)
            fine = split_cluster(&finisher, root, from, to);
        else if (to > from || (root->kind == HX_ROOT_STACK && !root->rest))
            fine = keep_root(&finisher, root, from, to);
        from = to;
    }
    free(finisher.seen);
    /* Even after a failure every root stays owned by one list only. */
    for (size_t i = 0; i < snapshot->roots.n; i++)
        hx_root_deinit(&snapshot->roots.v[i]);
    free(snapshot->roots.v);
    snapshot->roots.v = finisher.root;
    snapshot->roots.n = finisher.n;
    snapshot->roots.cap = finisher.cap;
    return fine ? NULL : hx_error_nomem();
}
