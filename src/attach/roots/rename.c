/* rename.c - words that point to objects go from roots without names to those that names make. */
#include "attach/roots/rename.h"

#include "attach/roots/rootmap.h"
#include "base/cleanup.h"
#include "base/lower_bound.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { DATA_RANGES = 64, WORD = 8, SPANS_MAX = 1 << 22 };

/* Memory that has a name: a variable, or a part of a frame. */
struct named_span {
    uint64_t start, end;
    const char *symbol;               /* NULL: of a frame */
    const struct hx_frame_part *part; /* NULL: of a symbol */
    uint32_t file;                    /* of a symbol: in `loaded` */
    pid_t tid;                        /* of a thread-local one */
};
typedef HX_VEC(struct named_span) named_spans;

struct renaming {
    struct hx_snapshot *snapshot;
    hx_modules *modules;
    hx_code *code;
    hx_frame_parts frames;
    named_spans spans; /* by address, apart */
    size_t left_out;   /* variables */
    HX_VEC(struct hx_root) roots;
    const struct named_span *last; /* of the newest of these; NULL: of none */
    uint64_t *seen;
    uint32_t *number; /* of each old root: the first that it became */
};

static void cleanup_renaming(struct renaming *renaming)
{
    for (size_t i = 0; i < renaming->roots.n; i++)
        hx_root_deinit(&renaming->roots.v[i]);
    hx_vec_free(&renaming->roots);
    hx_vec_free(&renaming->spans);
    hx_frame_parts_deinit(&renaming->frames);
    free(renaming->seen);
    free(renaming->number);
}

/* --- what has a name ------------------------------------------------------------------- */

static hx_error *add_symbols(struct renaming *renaming, uint32_t file, uint64_t start, uint64_t end,
                             uint64_t shift, pid_t tid)
{
    const struct hx_symbol *symbol;
    size_t n;
    HX_TRY(hx_module_symbols(renaming->modules, file, start, end, &symbol, &n));
    if (n > SPANS_MAX - renaming->spans.n) {
        renaming->left_out += n;
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        const struct named_span span = {.start = symbol[i].address + shift,
                                        .end = symbol[i].address + shift + symbol[i].size,
                                        .symbol = symbol[i].name,
                                        .file = file,
                                        .tid = tid};
        if (((span.start + WORD - 1) & ~(uint64_t)(WORD - 1)) + WORD <= span.end)
            HX_NEED(hx_vec_push(&renaming->spans, span));
    }
    return NULL;
}

static hx_error *add_variables(struct renaming *renaming)
{
    const struct hx_snapshot *snapshot = renaming->snapshot;
    for (uint32_t i = 0; i < snapshot->loaded.n; i++) {
        uint64_t ranges[DATA_RANGES][2];
        size_t n = hx_module_data(renaming->modules, i, ranges, DATA_RANGES);
        for (size_t k = 0; k < n; k++)
            HX_TRY(add_symbols(renaming, i, ranges[k][0], ranges[k][1], 0, 0));
    }
    for (size_t i = 0; i < snapshot->tls_blocks.n; i++) {
        const struct hx_tls_block *block = &snapshot->tls_blocks.v[i];
        HX_TRY(add_symbols(renaming, block->file, HX_TLS_SPACE,
                           HX_TLS_SPACE + (block->end - block->start), block->start - HX_TLS_SPACE,
                           block->tid));
    }
    return NULL;
}

static hx_error *add_frames(struct renaming *renaming, const struct hx_progress *progress)
{
    const struct hx_snapshot *snapshot = renaming->snapshot;
    for (size_t i = 0; i < snapshot->frames.n; i++) {
        const struct hx_stopped_frame *frame = &snapshot->frames.v[i];
        const uint32_t code = snapshot->loaded.v[frame->file].code;
        if (code != HX_NO_FILE)
            HX_TRY(hx_frame_parts_add(&renaming->frames, renaming->code, code, frame));
        if (hx_progress_cancelled(progress))
            return hx_error_cancelled("variables of functions");
    }
    HX_TRY(hx_frame_parts_join(&renaming->frames));
    for (size_t i = 0; i < renaming->frames.parts.n; i++) {
        const struct hx_frame_part *part = &renaming->frames.parts.v[i];
        HX_NEED(hx_vec_push(&renaming->spans, (struct named_span){
                                                  .start = part->start,
                                                  .end = part->end,
                                                  .part = part,
                                              }));
    }
    return NULL;
}

static int compare_spans(const void *a, const void *b)
{
    const struct named_span *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->end > y->end ? -1 : x->end < y->end;
}

static void part_spans(named_spans *spans)
{
    size_t n = 0;
    if (spans->n)
        qsort(spans->v, spans->n, sizeof *spans->v, compare_spans);
    for (size_t i = 0; i < spans->n; i++)
        if (!n || spans->v[i].start >= spans->v[n - 1].end)
            spans->v[n++] = spans->v[i];
    spans->n = n;
}

/* The span around an address; NULL: none. *ret_next: the first one behind it. */
static const struct named_span *find_span(const struct renaming *renaming, uint64_t address,
                                          const struct named_span **ret_next)
{
    const struct named_span *v = renaming->spans.v;
    const size_t i = HX_LOWER_BOUND(renaming->spans.n, k, v[k].end <= address);
    const bool inside = i < renaming->spans.n && v[i].start <= address;
    *ret_next = i + inside < renaming->spans.n ? &v[i + inside] : NULL;
    return inside ? &v[i] : NULL;
}

/* --- roots ----------------------------------------------------------------------------- */

/* May names be found for parts of it? */
static bool is_open(const struct hx_root *root)
{
    return root->kind == HX_ROOT_STACK || (root->kind == HX_ROOT_TLS && !root->symbol) ||
           hx_root_is_nameless(root);
}

/* Takes over the root, with the edges [from, to). */
static hx_error *push_root(struct renaming *renaming, struct hx_root *root, size_t from, size_t to)
{
    struct hx_root_edge *edge = renaming->snapshot->root_edges.v;
    if (renaming->roots.n >= UINT32_MAX || !hx_vec_push(&renaming->roots, *root)) {
        hx_root_deinit(root);
        return hx_error_nomem();
    }
    *root = (struct hx_root){0};
    for (size_t i = from; i < to; i++)
        edge[i].root = (uint32_t)renaming->roots.n - 1;
    renaming->last = NULL;
    return NULL;
}

static hx_error *name_by_symbol(const struct renaming *renaming, const struct named_span *span,
                                struct hx_root *root)
{
    root->symbol = strdup(span->symbol);
    root->name = strdup(span->symbol);
    root->module = strdup(hx_module_name(renaming->modules, span->file));
    HX_NEED(root->symbol && root->name && root->module);
    return NULL;
}

/* The root of a span, of which some edges were in `old`. */
static hx_error *push_span(struct renaming *renaming, const struct named_span *span,
                           const struct hx_root *old, size_t from, size_t to)
{
    struct hx_root_edge *edge = renaming->snapshot->root_edges.v;
    if (renaming->last == span) { /* it goes on */
        for (size_t i = from; i < to; i++)
            edge[i].root = (uint32_t)renaming->roots.n - 1;
        return NULL;
    }
    const bool local = span->tid != 0;
    struct hx_root root = {.kind = span->part ? HX_ROOT_FRAME
                                   : local    ? HX_ROOT_TLS
                                              : HX_ROOT_GLOBAL,
                           .address = span->start,
                           .size = span->end - span->start,
                           .tid = span->part ? old->tid : span->tid};
    hx_error *err = span->part ? hx_frame_root_name(&root, span->part, "")
                               : name_by_symbol(renaming, span, &root);
    if (!err && root.tid && old->thread && !(root.thread = strdup(old->thread)))
        err = hx_error_nomem();
    if (err) {
        hx_root_deinit(&root);
        return err;
    }
    HX_TRY(push_root(renaming, &root, from, to));
    renaming->last = span;
    return NULL;
}

/* A stack reaches from one frame to the next, whatever lies in it. */
static void widen_rest(const struct renaming *renaming, const struct hx_root *old,
                       const struct named_span *next, struct hx_root *rest)
{
    const struct named_span *first = renaming->spans.v, *end = first + renaming->spans.n;
    const struct named_span *last = next ? next : end;
    const uint64_t until = old->address + old->size;
    const uint64_t above = last != end && last->start < until ? last->start : until;
    rest->address = last != first && last[-1].end > old->address ? last[-1].end : old->address;
    rest->size = above - rest->address;
}

/* What is left of a root between two spans; a stretch of data is called by where it begins. */
static hx_error *push_rest(struct renaming *renaming, const struct hx_root *old, size_t from,
                           size_t to, const struct named_span *next)
{
    const struct hx_root_edge *edge = renaming->snapshot->root_edges.v;
    struct hx_root root = {.kind = old->kind,
                           .address = edge[from].address,
                           .size = edge[to - 1].address + WORD - edge[from].address,
                           .tid = old->tid};
    if (old->kind == HX_ROOT_STACK)
        widen_rest(renaming, old, next, &root);
    const size_t module =
        renaming->modules ? hx_modules_find(renaming->modules, root.address) : SIZE_MAX;
    hx_error *err = NULL;
    if (old->kind != HX_ROOT_GLOBAL || module == SIZE_MAX)
        root.name = strdup(old->name);
    else if (asprintf(&root.name, "%s+0x%" PRIx64, old->module,
                      root.address - hx_module_bias(renaming->modules, module)) < 0)
        root.name = NULL;
    root.module = strdup(old->module);
    root.thread = old->thread ? strdup(old->thread) : NULL;
    if (!root.name || !root.module || (old->thread && !root.thread))
        err = hx_error_nomem();
    if (!err)
        return push_root(renaming, &root, from, to);
    hx_root_deinit(&root);
    return err;
}

static hx_error *cut_root(struct renaming *renaming, struct hx_root *old, size_t from, size_t to)
{
    const struct hx_root_edge *edge = renaming->snapshot->root_edges.v;
    bool any = false;
    for (size_t i = from; i < to && !any; i++) {
        const struct named_span *next;
        any = find_span(renaming, edge[i].address, &next) != NULL;
    }
    if (!any)
        return push_root(renaming, old, from, to);
    for (size_t i = from, end; i < to; i = end) {
        const struct named_span *next, *span = find_span(renaming, edge[i].address, &next);
        const uint64_t until = span ? span->end : next ? next->start : UINT64_MAX;
        for (end = i + 1; end < to && edge[end].address < until;)
            end++;
        HX_TRY(span ? push_span(renaming, span, old, i, end)
                    : push_rest(renaming, old, i, end, next));
    }
    return NULL;
}

static hx_error *name_register(struct renaming *renaming, struct hx_root *root)
{
    size_t number = 0;
    char where[16];
    while (number < HX_REGS_MAX &&
           (strncmp(root->name, hx_reg_name(number), strlen(hx_reg_name(number))) != 0 ||
            root->name[strlen(hx_reg_name(number))] != ' '))
        number++;
    const struct hx_frame_part *part =
        number < HX_REGS_MAX ? hx_frame_parts_register(&renaming->frames, root->tid, number) : NULL;
    if (!part)
        return NULL;
    snprintf(where, sizeof where, " in %s", hx_reg_name(number));
    struct hx_root named = *root;
    HX_TRY(hx_frame_root_name(&named, part, where));
    free(root->name);
    free(root->module);
    *root = named;
    return NULL;
}

/* --- the whole --------------------------------------------------------------------------- */

/* Of a stack that frames were cut out of nothing is left. */
static bool is_empty_rest(const struct renaming *renaming, const struct hx_root *root)
{
    const struct hx_snapshot *snapshot = renaming->snapshot;
    const struct hx_stopped_frame *frame = snapshot->frames.v;
    if (root->kind != HX_ROOT_STACK)
        return false;
    size_t i = HX_LOWER_BOUND(snapshot->frames.n, k, frame[k].tid < root->tid);
    for (; i < snapshot->frames.n && frame[i].tid == root->tid; i++) {
        const struct hx_frame_part *part = hx_frame_parts_find(&renaming->frames, frame[i].sp);
        if (part && part->sp == frame[i].sp)
            return true;
    }
    return false;
}

static hx_error *rename_roots(struct renaming *renaming)
{
    struct hx_snapshot *snapshot = renaming->snapshot;
    for (size_t i = 0, from = 0, to = 0; i < snapshot->roots.n; i++, from = to) {
        struct hx_root *root = &snapshot->roots.v[i];
        while (to < snapshot->root_edges.n && snapshot->root_edges.v[to].root == i)
            to++;
        renaming->number[i] = (uint32_t)renaming->roots.n;
        if (root->kind == HX_ROOT_REGISTER)
            HX_TRY(name_register(renaming, root));
        if (from == to && is_empty_rest(renaming, root))
            continue;
        HX_TRY(is_open(root) ? cut_root(renaming, root, from, to)
                             : push_root(renaming, root, from, to));
    }
    return NULL;
}

/* Puts the new list in the place of the old one. */
static void take_over(struct renaming *renaming)
{
    struct hx_snapshot *snapshot = renaming->snapshot;
    for (size_t i = 0; i < snapshot->roots.n; i++)
        hx_root_deinit(&snapshot->roots.v[i]);
    hx_vec_free(&snapshot->roots);
    memcpy(&snapshot->roots, &renaming->roots, sizeof snapshot->roots);
    memset(&renaming->roots, 0, sizeof renaming->roots);
    for (size_t i = 0; i < snapshot->named.n; i++)
        snapshot->named.v[i].root = renaming->number[snapshot->named.v[i].root];
    for (size_t i = 0, from = 0; i < snapshot->roots.n; i++) {
        const size_t to = hx_snapshot_root_edges(snapshot, i + 1);
        snapshot->roots.v[i].direct_objects =
            hx_root_edge_targets(snapshot->root_edges.v + from, to - from, renaming->seen);
        from = to;
    }
}

/* Files whose names were found lack none. */
static void forget_bare(struct hx_snapshot *snapshot, const hx_modules *modules)
{
    size_t kept = 0;
    for (size_t i = 0; i < snapshot->bare.n; i++) {
        struct hx_bare_module *bare = &snapshot->bare.v[i];
        bool found = false;
        for (size_t k = 0; k < snapshot->loaded.n && !found; k++)
            found = snapshot->loaded.v[k].code != HX_NO_FILE &&
                    strcmp(hx_module_name(modules, k), bare->module) == 0;
        if (!found) {
            snapshot->bare.v[kept++] = *bare;
            continue;
        }
        free(bare->module);
        free(bare->path);
        free(bare->build_id);
    }
    snapshot->bare.n = kept;
}

hx_error *hx_roots_rename(struct hx_snapshot *snapshot, hx_modules *modules, hx_code *code,
                          const struct hx_progress *progress)
{
    HX_CLEANUP(cleanup_renaming)
    struct renaming renaming = {.snapshot = snapshot, .modules = modules, .code = code};
    renaming.seen = calloc(snapshot->graph.n / 64 + 1, sizeof *renaming.seen);
    renaming.number = calloc(snapshot->roots.n + 1, sizeof *renaming.number);
    HX_NEED(renaming.seen && renaming.number);
    if (modules)
        HX_TRY(add_variables(&renaming));
    if (renaming.left_out)
        hx_snapshot_note(snapshot, false, "%zu variables are too many to be given their names",
                         renaming.left_out);
    HX_TRY(add_frames(&renaming, progress));
    part_spans(&renaming.spans);
    HX_TRY(rename_roots(&renaming));
    take_over(&renaming);
    if (!modules)
        return NULL;
    forget_bare(snapshot, modules);
    return hx_rootmap_names(snapshot, modules, progress);
}
