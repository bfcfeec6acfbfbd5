/* scan.c - every aligned word of objects and roots, looked up.
 *
 * The image is cut into pieces of equal length, which the workers claim one by one.
 * A piece is an interval of addresses: its worker scans what of objects and roots
 * lies in it, so even one huge object is shared. Each worker writes edges one after
 * the other into a reservation of its own; afterwards they are moved into the order
 * of the pieces, which is that of the sources, while what was moved is given back.
 */
#include "traverse/scan/scan.h"

#include "base/lower_bound.h"
#include "base/parallel.h"
#include "traverse/scan/lookup.h"
#include "traverse/scan/rootscan.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define PIECE_BYTES ((uint64_t)2 << 20)
#define WORD        8
#define MOVE_BYTES  ((uint64_t)8 << 20) /* edges moved at once */
#define GIVE_BACK   ((size_t)2 << 20)   /* moved edges are given back in such steps: a huge page */

/* Addresses [start, next piece's start). */
struct piece {
    uint64_t start;
    hx_obj first;    /* the first object that starts in it */
    unsigned worker; /* who scanned it */
    uint64_t at, n;  /* its edges in that worker's reservation */
    uint64_t final;  /* where they belong in graph.edge */
    struct hx_root_scan roots;
};

struct scanner;

struct worker {
    struct scanner *scanner;
    struct hx_big edges;
    hx_edge *edge;
    uint64_t n_edges;
    uint64_t too_far; /* edges at offsets that an edge cannot hold */
    hx_obj next;      /* the first object whose fwd is not written yet */
    struct hx_lookup lookup;
    struct hx_peeked window;
};

struct scanner {
    struct hx_snapshot *snapshot;
    const struct hx_progress *progress;
    struct hx_blockmap map;
    hx_ranges taken;     /* in order: words of objects that are roots */
    struct piece *piece; /* n_pieces + 1, the last one begins where all ends */
    size_t n_pieces;
    uint64_t image_bytes;
    unsigned threads;
    struct worker *worker;
    atomic_size_t next_piece;
    size_t last_piece; /* end of the pieces that are being moved */
    atomic_bool stop;
    atomic_bool nomem;
};

/* --- pieces ------------------------------------------------------------------ */

static hx_obj first_object_at(const struct hx_graph *graph, uint64_t addr)
{
    return HX_LOWER_BOUND(graph->n, i, graph->addr[i] < addr);
}

static hx_error *cut_pieces(struct scanner *scanner)
{
    const struct hx_image *image = &scanner->snapshot->image;
    const struct hx_graph *graph = &scanner->snapshot->graph;
    uint64_t bytes = 0;
    for (size_t i = 0; i < image->n; i++)
        bytes += image->span[i].end - image->span[i].start;
    size_t n = bytes / PIECE_BYTES + 1;
    scanner->image_bytes = bytes;
    scanner->piece = calloc(n + 1, sizeof *scanner->piece);
    HX_NEED(scanner->piece);

    /* Piece k begins at byte k * PIECE_BYTES of the image, the first one at address 0. */
    size_t k = 1;
    uint64_t before = 0;
    for (size_t i = 0; i < image->n; i++) {
        uint64_t len = image->span[i].end - image->span[i].start;
        for (; k < n && k * PIECE_BYTES < before + len; k++)
            scanner->piece[k].start = image->span[i].start + (k * PIECE_BYTES - before);
        before += len;
    }
    scanner->n_pieces = k;
    scanner->piece[k].start = UINT64_MAX;
    scanner->piece[k].first = graph->n;
    for (size_t i = 1; i < k; i++)
        scanner->piece[i].first = first_object_at(graph, scanner->piece[i].start);
    return NULL;
}

/* --- objects ----------------------------------------------------------------- */

/* Is a word of an object a root's? */
static bool is_taken(const struct scanner *scanner, hx_obj source, uint64_t word)
{
    const hx_ranges *taken = &scanner->taken;
    const uint64_t addr = scanner->snapshot->graph.addr[source] + word * WORD;
    const size_t i = HX_LOWER_BOUND(taken->n, k, taken->v[k].end <= addr);
    return i < taken->n && taken->v[i].start <= addr;
}

/* tag: the object in the high half, the word offset in the low one; an offset above
 * HX_EDGE_OFFSET_MAX means only that. */
static void flush_objects(struct worker *worker)
{
    struct hx_lookup *lookup = &worker->lookup;
    const bool any_taken = worker->scanner->taken.n != 0;
    hx_eidx *fwd = worker->scanner->snapshot->graph.fwd;
    size_t n = hx_lookup_run(lookup);
    for (size_t i = 0; i < n; i++) {
        hx_obj source = (hx_obj)(lookup->tag[i] >> 32);
        uint64_t word = (uint32_t)lookup->tag[i];
        if (__builtin_expect(word > HX_EDGE_OFFSET_MAX, 0)) {
            worker->too_far++;
            continue;
        }
        if (any_taken && is_taken(worker->scanner, source, word))
            continue;
        while (worker->next <= source)
            fwd[worker->next++] = worker->n_edges;
        worker->edge[worker->n_edges++] = hx_edge_make(lookup->target[i], word, lookup->kind[i]);
    }
}

/* The words [from, to) of one object. */
static void scan_run(struct worker *worker, hx_obj object, const uint64_t *words, uint64_t from,
                     uint64_t to)
{
    while (from < to) {
        size_t n = to - from < HX_LOOKUP_RUN ? to - from : HX_LOOKUP_RUN;
        bool far = from > HX_EDGE_OFFSET_MAX;
        uint64_t tag = (uint64_t)object << 32 | (far ? HX_EDGE_OFFSET_MAX + 1 : from);
        hx_lookup_words(&worker->lookup, words, n, tag, !far);
        if (worker->lookup.n >= HX_LOOKUP_BATCH)
            flush_objects(worker);
        from += n;
        words += n;
    }
}

/* What the image holds of the object between `from` and `to`; *span is a hint that
 * only grows. */
static void scan_object(struct worker *worker, hx_obj object, uint64_t from, uint64_t to,
                        size_t *span)
{
    const struct hx_image *image = &worker->scanner->snapshot->image;
    uint64_t addr = worker->scanner->snapshot->graph.addr[object];
    to -= (to - addr) % WORD;
    while (*span < image->n && image->span[*span].end <= from)
        ++*span;
    for (size_t i = *span; i < image->n && image->span[i].start < to; i++) {
        const struct hx_span *piece = &image->span[i];
        uint64_t start = from > piece->start ? from : piece->start;
        uint64_t end = to < piece->end ? to : piece->end;
        for (size_t n; start < end; start += n * WORD) {
            const uint64_t *words = hx_image_run(image, start, end, &worker->window, &n);
            if (!words)
                break;
            scan_run(worker, object, words, (start - addr) / WORD, (start - addr) / WORD + n);
        }
    }
}

/* The usual case, without any loop over spans: scans objects from `object` on as long as
 * they are small and lie in one run of words and before `stop`. Returns the first that is not. */
static hx_obj scan_small(struct worker *worker, hx_obj object, hx_obj end, uint64_t stop)
{
    const struct hx_graph *graph = &worker->scanner->snapshot->graph;
    const uint64_t start = object < end ? graph->addr[object] : stop;
    size_t n;
    const uint64_t *words = start < stop ? hx_image_run(&worker->scanner->snapshot->image, start,
                                                        stop, &worker->window, &n)
                                         : NULL;
    for (; words && object < end; object++) {
        uint64_t from = graph->addr[object], size = graph->size[object];
        if (from + size > start + n * WORD || size / WORD > HX_LOOKUP_RUN)
            break;
        hx_lookup_words(&worker->lookup, words + (from - start) / WORD, size / WORD,
                        (uint64_t)object << 32, 1);
        if (worker->lookup.n >= HX_LOOKUP_BATCH)
            flush_objects(worker);
    }
    return object;
}

static void scan_objects(struct worker *worker, struct piece *piece)
{
    const struct hx_image *image = &worker->scanner->snapshot->image;
    const struct hx_graph *graph = &worker->scanner->snapshot->graph;
    uint64_t start = piece->start, stop = piece[1].start;
    size_t span = hx_image_find(image, start);
    hx_obj end = piece[1].first;
    piece->worker = (unsigned)(worker - worker->scanner->worker);
    piece->at = worker->n_edges;
    worker->next = piece->first;
    /* An object that began in an earlier piece goes on here. */
    hx_obj object = piece->first;
    if (object > 0 && graph->addr[object - 1] + graph->size[object - 1] > start)
        object--;
    while (object < end) {
        uint64_t from = graph->addr[object], to = from + graph->size[object];
        scan_object(worker, object, from > start ? from : start, to < stop ? to : stop, &span);
        object = scan_small(worker, object + 1, end, stop);
    }
    flush_objects(worker);
    while (worker->next < end)
        graph->fwd[worker->next++] = worker->n_edges;
    piece->n = worker->n_edges - piece->at;
}

/* --- workers ----------------------------------------------------------------- */

static void scan_worker(void *context, unsigned i)
{
    struct scanner *scanner = context;
    struct worker *worker = &scanner->worker[i];
    while (!atomic_load_explicit(&scanner->stop, memory_order_relaxed)) {
        size_t k = atomic_fetch_add(&scanner->next_piece, 1);
        if (k >= scanner->n_pieces)
            break;
        struct piece *piece = &scanner->piece[k];
        scan_objects(worker, piece);
        if (!hx_root_scan(scanner->snapshot, &worker->lookup, piece->start, piece[1].start,
                          &piece->roots)) {
            atomic_store(&scanner->nomem, true);
            atomic_store(&scanner->stop, true);
        }
        hx_progress_at(scanner->progress, "scan",
                       (k + 1) * PIECE_BYTES < scanner->image_bytes ? (k + 1) * PIECE_BYTES
                                                                    : scanner->image_bytes,
                       scanner->image_bytes);
        if (hx_progress_cancelled(scanner->progress))
            atomic_store(&scanner->stop, true);
    }
}

static hx_error *prepare_workers(struct scanner *scanner, const struct hx_scan_options *options)
{
    struct hx_snapshot *snapshot = scanner->snapshot;
    scanner->worker = calloc(scanner->threads, sizeof *scanner->worker);
    HX_NEED(scanner->worker);
    for (unsigned i = 0; i < scanner->threads; i++) {
        struct worker *worker = &scanner->worker[i];
        worker->scanner = scanner;
        worker->lookup.map = &scanner->map;
        worker->lookup.graph = &snapshot->graph;
        hx_interior_rules_init(&worker->lookup.rules, &snapshot->image, options);
        /* No more edges than words. */
        HX_TRY(hx_big_reserve(&worker->edges, scanner->image_bytes));
        worker->edge = worker->edges.base;
    }
    return NULL;
}

/* --- putting the edges in order ---------------------------------------------- */

static void move_piece(struct scanner *scanner, const struct piece *piece)
{
    struct hx_graph *graph = &scanner->snapshot->graph;
    const struct worker *worker = &scanner->worker[piece->worker];
    uint64_t delta = piece->final - piece->at; /* may wrap: only added */
    for (hx_obj object = piece->first; delta && object < piece[1].first; object++)
        graph->fwd[object] += delta;
    if (piece->n && worker->edge != graph->edge)
        memcpy(graph->edge + piece->final, worker->edge + piece->at, piece->n * sizeof(hx_edge));
}

static void move_pieces(void *context, unsigned i)
{
    (void)i;
    struct scanner *scanner = context;
    size_t k;
    while ((k = atomic_fetch_add(&scanner->next_piece, 1)) < scanner->last_piece)
        move_piece(scanner, &scanner->piece[k]);
}

/* Moves all edges to their places, some pieces at a time, so that little is there twice. */
static void move_edges(struct scanner *scanner)
{
    size_t moved[HX_THREADS_MAX] = {0}; /* bytes of each worker, given back already */
    for (size_t from = 0, to; from < scanner->n_pieces; from = to) {
        uint64_t bytes = 0;
        for (to = from; to < scanner->n_pieces && bytes < MOVE_BYTES; to++)
            bytes += scanner->piece[to].n * sizeof(hx_edge);
        atomic_store(&scanner->next_piece, from);
        scanner->last_piece = to;
        hx_parallel(scanner->threads, move_pieces, scanner);
        for (size_t k = from; k < to; k++) {
            const struct piece *piece = &scanner->piece[k];
            struct hx_big *edges = &scanner->worker[piece->worker].edges;
            size_t end = (piece->at + piece->n) * sizeof(hx_edge) / GIVE_BACK * GIVE_BACK;
            if (end > moved[piece->worker])
                hx_big_discard(edges, moved[piece->worker], end);
            moved[piece->worker] = end;
        }
    }
}

static hx_error *order_edges(struct scanner *scanner)
{
    struct hx_graph *graph = &scanner->snapshot->graph;
    uint64_t total = 0;
    for (size_t k = 0; k < scanner->n_pieces; k++) {
        scanner->piece[k].final = total;
        total += scanner->piece[k].n;
    }
    if (scanner->threads == 1) { /* in order already */
        graph->edge_mem = scanner->worker[0].edges;
        scanner->worker[0].edges = (struct hx_big){0};
        hx_big_trim(&graph->edge_mem, total * sizeof(hx_edge));
        graph->edge = graph->edge_mem.base;
    } else {
        HX_TRY(hx_big_array(graph->edge, total));
    }
    graph->n_edges = total;
    graph->fwd[graph->n] = total;
    move_edges(scanner);
    return NULL;
}

/* --- the whole --------------------------------------------------------------- */

static void finish_scan(struct scanner *scanner)
{
    for (size_t k = 0; scanner->piece && k < scanner->n_pieces; k++)
        hx_vec_free(&scanner->piece[k].roots.edges);
    free(scanner->piece);
    for (unsigned i = 0; scanner->worker && i < scanner->threads; i++) {
        hx_big_free(&scanner->worker[i].edges);
        hx_peeked_deinit(&scanner->worker[i].window);
    }
    free(scanner->worker);
    hx_blockmap_deinit(&scanner->map);
    hx_vec_free(&scanner->taken);
}

static hx_error *scan_roots(struct scanner *scanner)
{
    struct hx_snapshot *snapshot = scanner->snapshot;
    HX_NEED(hx_root_scan_registers(snapshot, &scanner->worker[0].lookup));
    for (size_t k = 0; k < scanner->n_pieces; k++)
        HX_NEED(hx_root_scan_append(snapshot, &scanner->piece[k].roots));
    return hx_root_scan_finish(snapshot);
}

/* Thread-local variables that the allocator gave the place of. */
static hx_error *find_taken(struct scanner *scanner)
{
    const struct hx_snapshot *snapshot = scanner->snapshot;
    for (size_t i = 0; i < snapshot->roots.n; i++) {
        const struct hx_root *root = &snapshot->roots.v[i];
        if (root->kind == HX_ROOT_TLS && root->symbol &&
            hx_graph_find(&snapshot->graph, root->address) < snapshot->graph.n)
            HX_NEED(hx_vec_push(&scanner->taken,
                                (struct hx_range){root->address, root->address + root->size}));
    }
    return NULL;
}

static hx_error *scan_graph(struct scanner *scanner, const struct hx_scan_options *options)
{
    struct hx_snapshot *snapshot = scanner->snapshot;
    struct hx_graph *graph = &snapshot->graph;
    HX_TRY(hx_root_scan_prepare(snapshot));
    HX_TRY(find_taken(scanner));
    HX_TRY(hx_blockmap_init(&scanner->map, graph));
    HX_TRY(cut_pieces(scanner));
    HX_TRY(prepare_workers(scanner, options));
    HX_TRY(hx_big_array(graph->fwd, (size_t)graph->n + 1));

    hx_parallel(scanner->threads, scan_worker, scanner);
    if (atomic_load(&scanner->nomem))
        return hx_error_nomem();
    if (hx_progress_cancelled(scanner->progress))
        return hx_error_cancelled("scan");
    HX_TRY(hx_image_failed(&snapshot->image));
    HX_TRY(order_edges(scanner));
    HX_TRY(scan_roots(scanner));
    uint64_t too_far = 0;
    for (unsigned i = 0; i < scanner->threads; i++)
        too_far += scanner->worker[i].too_far;
    if (too_far)
        hx_snapshot_lose(snapshot, "edges more than 8 GiB into an object", too_far, 0, 0);
    return NULL;
}

/* After a failure the graph has no edges, as before. */
static void forget_edges(struct hx_graph *graph)
{
    hx_big_array_free(graph->fwd);
    hx_big_array_free(graph->edge);
    graph->n_edges = 0;
}

hx_error *hx_scan(struct hx_snapshot *snapshot, const struct hx_scan_options *options,
                  const struct hx_progress *progress)
{
    static const struct hx_scan_options defaults = {0};
    if (!options)
        options = &defaults;
    struct scanner scanner = {
        .snapshot = snapshot, .progress = progress, .threads = hx_threads(options->threads)};
    forget_edges(&snapshot->graph);
    hx_vec_free(&snapshot->root_edges);
    hx_error *err = scan_graph(&scanner, options);
    if (err)
        forget_edges(&snapshot->graph);
    finish_scan(&scanner);
    return err;
}
