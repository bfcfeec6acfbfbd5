/* rootmap.c - names every place outside the heap that can hold a pointer. */
#include "attach/roots/rootmap.h"

#include "attach/ranges.h"
#include "attach/roots/stacks.h"
#include "attach/roots/thread_locals.h"
#include "base/cleanup.h"
#include "base/lower_bound.h"
#include "model/function_name.h"
#include "record/own_mappings.h"
#include "sym/demangle.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define PAGE              4096
#define THREAD_LOCALS_MAX 1000000 /* with names; of more the threads are told of only */
#define DATA_MAX          64      /* writable segments looked at in one module */
#define POINTER_LEAST                                                                              \
    4096 /* no object lies below: a register's word less than this is a number                     \
          */

/* A writable load segment, grown to whole pages: what the loader left around it counts as the
 * module's too. */
struct data {
    uint64_t start, end;
    size_t module;
};

struct builder {
    struct hx_snapshot *snapshot;
    hx_modules *modules;
    struct hx_stacks stacks;
    hx_ranges blocked; /* in order: segments and what the allocator excluded */
    hx_ranges covered; /* in order: blocked, dead and stack parts, named */
    hx_thread_blocks thread_blocks;
    hx_ranges named; /* thread-local variables */
    const hx_frame_parts *frames;
    HX_VEC(struct data) data;
    size_t at_data;                 /* the data range that pieces have come to */
    const struct hx_symbol *symbol; /* its symbols from there on */
    size_t n_symbols, at_symbol;
    bool has_symbols;             /* were those of at_data asked for? */
    const struct hx_symbol *last; /* the symbol that the last root was made for */
    size_t unreadable;            /* modules whose symbols could not be read */
};

static void cleanup_builder(struct builder *builder)
{
    hx_stacks_deinit(&builder->stacks);
    hx_vec_free(&builder->blocked);
    hx_vec_free(&builder->covered);
    hx_vec_free(&builder->data);
    hx_vec_free(&builder->thread_blocks);
    hx_vec_free(&builder->named);
}

/* Takes over the symbol, copies module, formats the name. */
static hx_error *add_mapped_root(struct hx_snapshot *snapshot, struct hx_root root,
                                 const char *module, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static hx_error *add_mapped_root(struct hx_snapshot *snapshot, struct hx_root root,
                                 const char *module, const char *format, ...)
{
    struct hx_text name = {0};
    va_list args;
    va_start(args, format);
    hx_text_vputf(&name, format, args);
    va_end(args);
    root.name = name.s;
    root.module = strdup(module);
    if (name.failed || !root.name || !root.module || !hx_vec_push(&snapshot->roots, root)) {
        hx_root_deinit(&root);
        return hx_error_nomem();
    }
    return NULL;
}

/* Does [start, end) hold a whole aligned word? */
static bool has_aligned_word(uint64_t start, uint64_t end)
{
    uint64_t first = (start + 7) & ~(uint64_t)7;
    return first >= start && end > first && end - first >= 8;
}

/* --- frames ---------------------------------------------------------------------- */

hx_error *hx_frame_root_name(struct hx_root *root, const struct hx_frame_part *part,
                             const char *where)
{
    HX_CLEANUP(hx_text_free) struct hx_text function = {0}, name = {0};
    hx_function_name_bare(&function, part->function, strlen(part->function));
    if (part->local)
        hx_text_putf(&name, "%s: %s%s", hx_text_str(&function), part->local, where);
    else
        hx_text_putf(&name, "%s +0x%" PRIx64, hx_text_str(&function), root->address - part->sp);
    HX_NEED(!function.failed && !name.failed);
    root->name = hx_steal(name.s);
    root->module = strdup(part->module);
    root->type_spelling = part->local && *part->type ? strdup(part->type) : NULL;
    HX_NEED(root->module && (root->type_spelling || !part->local || !*part->type));
    return NULL;
}

static hx_error *add_frame_root(struct builder *builder, struct hx_root root,
                                const struct hx_frame_part *part, const char *where)
{
    hx_error *err = hx_frame_root_name(&root, part, where);
    if (!err && !hx_vec_push(&builder->snapshot->roots, root))
        err = hx_error_nomem();
    if (err)
        hx_root_deinit(&root);
    return err;
}

/* --- registers ------------------------------------------------------------------- */

static hx_error *add_registers(struct builder *builder, const struct hx_thread *thread)
{
    struct hx_snapshot *snapshot = builder->snapshot;
    struct hx_root root = {.kind = HX_ROOT_REGISTER, .size = 8, .tid = thread->tid};
    for (size_t i = 0; thread->has_regs && i < thread->n_regs && i < HX_REGS_MAX; i++) {
        root.value = thread->regs[i];
        const char *name = hx_reg_name(i);
        /* The stack pointer says which part of the stack is in use; it holds nothing alive. */
        if (root.value < POINTER_LEAST || strcmp(name, "rsp") == 0)
            continue;
        const struct hx_frame_part *part = hx_frame_parts_register(builder->frames, thread->tid, i);
        if (part) {
            char where[16];
            snprintf(where, sizeof where, " in %s", name);
            HX_TRY(add_frame_root(builder, root, part, where));
        } else {
            HX_TRY(add_mapped_root(snapshot, root, "", "%s of thread %d", name, (int)thread->tid));
        }
    }
    for (size_t i = 0; i < thread->n_vector && i < HX_VECTOR_MAX; i++) {
        char name[8];
        root.value = thread->vector[i];
        hx_vector_name(i, name);
        if (root.value >= POINTER_LEAST)
            HX_TRY(add_mapped_root(snapshot, root, "", "%s of thread %d", name, (int)thread->tid));
    }
    return NULL;
}

/* --- data of modules -------------------------------------------------------------- */

static int compare_root_starts(const void *a, const void *b)
{
    const struct data *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

static hx_error *collect_data(struct builder *builder)
{
    for (size_t i = 0; i < hx_modules_count(builder->modules); i++) {
        uint64_t ranges[DATA_MAX][2];
        size_t n = hx_module_data(builder->modules, i, ranges, DATA_MAX);
        for (size_t k = 0; k < n; k++)
            HX_NEED(
                hx_vec_push(&builder->data,
                            (struct data){ranges[k][0] & ~(uint64_t)(PAGE - 1),
                                          (ranges[k][1] + PAGE - 1) & ~(uint64_t)(PAGE - 1), i}));
    }
    if (builder->data.n)
        qsort(builder->data.v, builder->data.n, sizeof *builder->data.v, compare_root_starts);
    for (size_t i = 0; i + 1 < builder->data.n; i++)
        if (builder->data.v[i].end > builder->data.v[i + 1].start)
            builder->data.v[i].end = builder->data.v[i + 1].start;
    return NULL;
}

static void read_module_symbols(struct builder *builder, const struct data *data)
{
    builder->has_symbols = true;
    builder->at_symbol = builder->n_symbols = 0;
    hx_error *err = hx_module_symbols(builder->modules, data->module, data->start, data->end,
                                      &builder->symbol, &builder->n_symbols);
    if (err)
        builder->unreadable++;
    hx_error_free(err);
}

/* The root that was added last, when it ends at `start` and more of it may follow. */
static struct hx_root *last_root(struct builder *builder, uint64_t start)
{
    struct hx_snapshot *snapshot = builder->snapshot;
    struct hx_root *last = snapshot->roots.n ? &snapshot->roots.v[snapshot->roots.n - 1] : NULL;
    return last && last->kind == HX_ROOT_GLOBAL && last->address + last->size == start ? last
                                                                                       : NULL;
}

static hx_error *add_symbol(struct builder *builder, const struct data *data,
                            const struct hx_symbol *symbol, uint64_t start, uint64_t end)
{
    struct hx_root *last = last_root(builder, start);
    if (last && builder->last == symbol) {
        last->size += end - start; /* it goes on in the next mapping */
        return NULL;
    }
    builder->last = symbol;
    struct hx_root root = {.kind = HX_ROOT_GLOBAL,
                           .address = start,
                           .size = end - start,
                           .symbol = strdup(symbol->name)};
    HX_NEED(root.symbol);
    return add_mapped_root(builder->snapshot, root, hx_module_name(builder->modules, data->module),
                           "%s", symbol->name);
}

static hx_error *add_cluster(struct builder *builder, const struct data *data, uint64_t start,
                             uint64_t end)
{
    const char *module = hx_module_name(builder->modules, data->module);
    uint64_t bias = hx_module_bias(builder->modules, data->module);
    struct hx_root *last = last_root(builder, start);
    if (last && last->cluster && last->bias == bias) {
        last->size += end - start;
        return NULL;
    }
    if (!has_aligned_word(start, end))
        return NULL;
    builder->last = NULL;
    struct hx_root root = {.kind = HX_ROOT_GLOBAL,
                           .address = start,
                           .size = end - start,
                           .cluster = true,
                           .bias = bias};
    return add_mapped_root(builder->snapshot, root, module, "%s+0x%" PRIx64, module, start - bias);
}

/* A piece of a module's data: symbols, and clusters between them. Symbols too small for a
 * pointer are left to the clusters. */
static hx_error *add_data(struct builder *builder, const struct data *data, uint64_t start,
                          uint64_t end)
{
    if (!builder->has_symbols)
        read_module_symbols(builder, data);
    uint64_t at = start;
    for (; builder->at_symbol < builder->n_symbols; builder->at_symbol++) {
        const struct hx_symbol *symbol = &builder->symbol[builder->at_symbol];
        if (symbol->address >= end)
            break;
        uint64_t from = symbol->address > at ? symbol->address : at;
        uint64_t to = symbol->address + symbol->size < end ? symbol->address + symbol->size : end;
        if (to > from && has_aligned_word(from, to)) {
            if (from > at)
                HX_TRY(add_cluster(builder, data, at, from));
            HX_TRY(add_symbol(builder, data, symbol, from, to));
            at = to;
        }
        if (symbol->address + symbol->size > end)
            break; /* its rest may be in the next piece */
    }
    return at < end ? add_cluster(builder, data, at, end) : NULL;
}

/* --- mappings ------------------------------------------------------------------------ */

/* Can there be a pointer that the program stored? Private memory that was written and then
 * protected has anonymous pages. */
static bool is_scannable(const struct hx_mapping *mapping, const struct hx_mapping *next)
{
    const char *path = mapping->path ? mapping->path : "";
    if (mapping->device || !strncmp(path, "[vvar", 5) || !strcmp(path, "[vdso]") ||
        !strcmp(path, "[vsyscall]") || !strcmp(path, "[uprobes]") || hx_is_recorders(mapping, next))
        return false;
    if (mapping->prot & HX_PROT_W || hx_mapping_is_memory(mapping))
        return true;
    return !(mapping->prot & HX_PROT_SHARED) && (mapping->anonymous_bytes || mapping->swap_bytes);
}

static hx_error *add_mapping_part(struct builder *builder, const struct hx_mapping *mapping,
                                  uint64_t start, uint64_t end)
{
    if (!has_aligned_word(start, end))
        return NULL;
    struct hx_root root = {.kind = HX_ROOT_MAPPING, .address = start, .size = end - start};
    if (mapping->path && mapping->path[0])
        return add_mapped_root(builder->snapshot, root, "", "%s", mapping->path);
    return add_mapped_root(builder->snapshot, root, "", "anonymous memory at 0x%" PRIx64,
                           mapping->start);
}

/* A piece of a mapping that nothing has claimed. Pieces come in order of address. */
static hx_error *add_piece(struct builder *builder, const struct hx_mapping *mapping,
                           struct hx_range piece)
{
    uint64_t at = piece.start;
    while (at < piece.end) {
        while (builder->at_data < builder->data.n && builder->data.v[builder->at_data].end <= at) {
            builder->at_data++;
            builder->has_symbols = false;
        }
        uint64_t end = piece.end;
        const struct data *data =
            builder->at_data < builder->data.n ? &builder->data.v[builder->at_data] : NULL;
        if (data && data->start <= at) {
            end = end < data->end ? end : data->end;
            HX_TRY(add_data(builder, data, at, end));
        } else {
            if (data && data->start < end)
                end = data->start;
            HX_TRY(add_mapping_part(builder, mapping, at, end));
        }
        at = end;
    }
    return NULL;
}

static hx_error *add_mapping_roots(struct builder *builder)
{
    size_t cursor = 0;
    for (size_t i = 0; i < builder->snapshot->n_mappings; i++) {
        const struct hx_mapping *mapping = &builder->snapshot->mapping[i];
        bool last = i + 1 == builder->snapshot->n_mappings;
        if (!is_scannable(mapping, last ? NULL : mapping + 1))
            continue;
        uint64_t at = mapping->start;
        struct hx_range piece;
        while (hx_ranges_outside(&builder->covered, &cursor, &at, mapping->end, &piece))
            HX_TRY(add_piece(builder, mapping, piece));
    }
    return NULL;
}

/* --- stacks and thread-local storage --------------------------------------------------- */

/* For who names them later. */
static hx_error *keep_block(struct builder *builder, const struct hx_thread_block *block)
{
    struct hx_snapshot *snapshot = builder->snapshot;
    const uint64_t bias = hx_module_bias(builder->modules, block->module);
    uint32_t file = 0;
    while (file < snapshot->loaded.n && snapshot->loaded.v[file].bias != bias)
        file++;
    if (file < snapshot->loaded.n && snapshot->tls_blocks.n < HX_TLS_BLOCKS_MAX)
        HX_NEED(hx_vec_push(&snapshot->tls_blocks,
                            (struct hx_tls_block){block->start, block->end, file, block->tid}));
    return NULL;
}

/* The named variables of a block of thread-local storage. What is in them is theirs, wherever the
 * block lies. */
static hx_error *add_thread_locals(struct builder *builder, const struct hx_thread_block *block)
{
    const struct hx_symbol *symbol;
    size_t n;
    hx_error *err = hx_module_symbols(builder->modules, block->module, HX_TLS_SPACE,
                                      HX_TLS_SPACE + (block->end - block->start), &symbol, &n);
    if (err) {
        builder->unreadable++;
        hx_error_free(err);
        return NULL;
    }
    const char *unused;
    if (hx_module_is_bare(builder->modules, block->module, &unused))
        return keep_block(builder, block);
    for (size_t i = 0; i < n && builder->named.n < THREAD_LOCALS_MAX; i++) {
        const uint64_t start = block->start + (symbol[i].address - HX_TLS_SPACE);
        if (!has_aligned_word(start, start + symbol[i].size))
            continue;
        HX_NEED(hx_ranges_add(&builder->named, start, start + symbol[i].size));
        struct hx_root root = {.kind = HX_ROOT_TLS,
                               .address = start,
                               .size = symbol[i].size,
                               .tid = block->tid,
                               .symbol = strdup(symbol[i].name)};
        HX_NEED(root.symbol);
        HX_TRY(add_mapped_root(builder->snapshot, root,
                               hx_module_name(builder->modules, block->module), "%s",
                               symbol[i].name));
    }
    return NULL;
}

static hx_error *add_all_thread_locals(struct builder *builder)
{
    const hx_thread_blocks *blocks = &builder->thread_blocks;
    size_t i = 0;
    for (; i < blocks->n && builder->named.n < THREAD_LOCALS_MAX; i++)
        HX_TRY(add_thread_locals(builder, &blocks->v[i]));
    if (i < blocks->n)
        hx_snapshot_note(builder->snapshot, false,
                         "%zu more blocks of thread-local variables were not given their names",
                         blocks->n - i);
    return NULL;
}

static hx_error *add_stack_root(struct builder *builder, const struct hx_stack_part *part,
                                struct hx_range range, bool rest)
{
    struct hx_root root = {.kind = part->kind,
                           .address = range.start,
                           .size = range.end - range.start,
                           .rest = rest,
                           .tid = part->tid};
    if (part->kind == HX_ROOT_STACK)
        return add_mapped_root(builder->snapshot, root, "", "stack of thread %d", (int)part->tid);
    if (part->tid)
        return add_mapped_root(builder->snapshot, root, "", "tls of thread %d", (int)part->tid);
    return add_mapped_root(builder->snapshot, root, "", "tls of an exited thread");
}

static hx_error *add_stack_part(struct builder *builder, const struct hx_stack_part *part,
                                struct hx_range range)
{
    bool cut = false;
    while (part->kind == HX_ROOT_STACK && range.start < range.end) {
        const struct hx_frame_part *frame = hx_frame_parts_find(builder->frames, range.start);
        if (!frame || frame->start >= range.end)
            break;
        cut = true;
        if (frame->start > range.start) {
            const struct hx_range below = {range.start, frame->start};
            HX_TRY(add_stack_root(builder, part, below, true));
            range.start = frame->start;
        }
        const uint64_t end = frame->end < range.end ? frame->end : range.end;
        const struct hx_root root = {.kind = HX_ROOT_FRAME,
                                     .address = range.start,
                                     .size = end - range.start,
                                     .tid = part->tid};
        if (has_aligned_word(range.start, end))
            HX_TRY(add_frame_root(builder, root, frame, ""));
        range.start = end;
    }
    return range.start < range.end ? add_stack_root(builder, part, range, cut) : NULL;
}

static hx_error *add_stack_roots(struct builder *builder)
{
    hx_ranges holes = {0};
    hx_error *err = NULL;
    for (size_t i = 0; i < builder->blocked.n + builder->stacks.dead.n && !err; i++) {
        struct hx_range r = i < builder->blocked.n ? builder->blocked.v[i]
                                                   : builder->stacks.dead.v[i - builder->blocked.n];
        if (!hx_ranges_add(&holes, r.start, r.end))
            err = hx_error_nomem();
    }
    for (size_t i = 0; i < builder->named.n && !err; i++)
        if (!hx_ranges_add(&holes, builder->named.v[i].start, builder->named.v[i].end))
            err = hx_error_nomem();
    hx_ranges_join(&holes);
    size_t cursor = 0;
    for (size_t i = 0; i < builder->stacks.parts.n && !err; i++) {
        const struct hx_stack_part *part = &builder->stacks.parts.v[i];
        uint64_t at = part->start;
        struct hx_range range;
        while (!err && hx_ranges_outside(&holes, &cursor, &at, part->end, &range))
            err = add_stack_part(builder, part, range);
    }
    hx_vec_free(&holes);
    return err;
}

/* --- given ------------------------------------------------------------------------------ */

static int compare_roots_by_address(const void *a, const void *b)
{
    const struct hx_root *x = a, *y = b;
    return x->address < y->address ? -1 : x->address > y->address;
}

/* They are covered from then on. */
static hx_error *add_given(struct builder *builder, hx_root_list *given)
{
    const size_t first = builder->snapshot->roots.n;
    size_t cursor = 0;
    uint64_t last = 0;
    if (given->n)
        qsort(given->v, given->n, sizeof *given->v, compare_roots_by_address);
    for (size_t i = 0; i < given->n; i++) {
        struct hx_root *root = &given->v[i];
        const uint64_t start = root->address, end = start + root->size;
        uint64_t at = start;
        struct hx_range piece;
        if (start < last || !hx_ranges_outside(&builder->covered, &cursor, &at, end, &piece) ||
            piece.start != start || piece.end != end)
            continue;
        HX_NEED(hx_vec_push(&builder->snapshot->roots, *root));
        *root = (struct hx_root){0};
        last = end;
    }
    for (size_t i = first; i < builder->snapshot->roots.n; i++) {
        const struct hx_root *root = &builder->snapshot->roots.v[i];
        HX_NEED(hx_ranges_add(&builder->covered, root->address, root->address + root->size));
    }
    hx_ranges_join(&builder->covered);
    return NULL;
}

void hx_root_list_free(hx_root_list *roots)
{
    for (size_t i = 0; i < roots->n; i++)
        hx_root_deinit(&roots->v[i]);
    hx_vec_free(roots);
}

/* --- all -------------------------------------------------------------------------------- */

static hx_error *collect_covered(struct builder *builder, const hx_ranges *excluded)
{
    const struct hx_snapshot *snapshot = builder->snapshot;
    bool ok = true;
    for (size_t i = 0; i < snapshot->segments.n; i++)
        ok &= hx_ranges_add(&builder->blocked, snapshot->segments.v[i].start,
                            snapshot->segments.v[i].end);
    for (size_t i = 0; excluded && i < excluded->n; i++)
        ok &= hx_ranges_add(&builder->blocked, excluded->v[i].start, excluded->v[i].end);
    hx_ranges_join(&builder->blocked);
    for (size_t i = 0; i < builder->blocked.n; i++)
        ok &= hx_ranges_add(&builder->covered, builder->blocked.v[i].start,
                            builder->blocked.v[i].end);
    for (size_t i = 0; i < builder->stacks.dead.n; i++)
        ok &= hx_ranges_add(&builder->covered, builder->stacks.dead.v[i].start,
                            builder->stacks.dead.v[i].end);
    for (size_t i = 0; i < builder->stacks.parts.n; i++)
        ok &= hx_ranges_add(&builder->covered, builder->stacks.parts.v[i].start,
                            builder->stacks.parts.v[i].end);
    for (size_t i = 0; i < builder->named.n; i++)
        ok &= hx_ranges_add(&builder->covered, builder->named.v[i].start, builder->named.v[i].end);
    hx_ranges_join(&builder->covered);
    return ok ? NULL : hx_error_nomem();
}

static int compare_tids(const void *a, const void *b)
{
    const struct hx_thread *const *x = a, *const *y = b;
    return ((*x)->tid > (*y)->tid) - ((*x)->tid < (*y)->tid);
}

/* What a thread holds has its name. */
static hx_error *name_threads(struct hx_snapshot *snapshot)
{
    const size_t n = snapshot->n_threads;
    HX_FREE const struct hx_thread **by_tid = calloc(n + 1, sizeof *by_tid);
    HX_NEED(by_tid);
    for (size_t i = 0; i < n; i++)
        by_tid[i] = &snapshot->thread[i];
    if (n)
        qsort(by_tid, n, sizeof *by_tid, compare_tids);
    for (size_t i = 0; i < snapshot->roots.n; i++) {
        struct hx_root *root = &snapshot->roots.v[i];
        size_t at = HX_LOWER_BOUND(n, k, by_tid[k]->tid < root->tid);
        if (!root->tid || at == n || by_tid[at]->tid != root->tid || by_tid[at]->nameless)
            continue;
        HX_NEED(root->thread = strndup(by_tid[at]->comm, sizeof by_tid[at]->comm));
    }
    return NULL;
}

hx_error *hx_rootmap(struct hx_snapshot *snapshot, hx_modules *modules, const hx_ranges *excluded,
                     const hx_frame_parts *frames, hx_root_list *given)
{
    HX_CLEANUP(cleanup_builder)
    struct builder builder = {.snapshot = snapshot, .modules = modules, .frames = frames};
    HX_TRY(hx_stacks_find(snapshot, modules, &builder.stacks));
    HX_TRY(hx_thread_blocks_find(snapshot, modules, &builder.thread_blocks));
    HX_TRY(collect_data(&builder));
    for (size_t i = 0; i < snapshot->n_threads; i++)
        HX_TRY(add_registers(&builder, &snapshot->thread[i]));
    size_t first = snapshot->roots.n; /* registers stay as they are, in front */
    HX_TRY(add_all_thread_locals(&builder));
    HX_TRY(collect_covered(&builder, excluded));
    if (given)
        HX_TRY(add_given(&builder, given));
    HX_TRY(add_stack_roots(&builder));
    HX_TRY(add_mapping_roots(&builder));
    if (snapshot->roots.n > first)
        qsort(snapshot->roots.v + first, snapshot->roots.n - first, sizeof *snapshot->roots.v,
              compare_roots_by_address);
    HX_TRY(name_threads(snapshot));
    if (builder.unreadable)
        hx_snapshot_note(snapshot, false, "symbols of %zu modules could not be read",
                         builder.unreadable);
    return NULL;
}

/* --- names as programs write them -------------------------------------------------------- */

/* ABI tags stay only where the module has a second symbol of that name. */
static hx_error *name_root(struct hx_root *root, hx_modules *modules, size_t module)
{
    HX_CLEANUP(hx_text_free) struct hx_text full = {0}, untagged = {0};
    hx_demangle_symbol(&full, root->symbol);
    hx_put_untagged(&untagged, hx_text_str(&full));
    bool tagged = untagged.n < full.n && module != SIZE_MAX &&
                  hx_module_has_namesake(modules, module, root->symbol, hx_text_str(&untagged));
    char *name =
        full.failed || untagged.failed ? NULL : strdup(hx_text_str(tagged ? &full : &untagged));
    HX_NEED(name);
    free(root->name);
    root->name = name;
    return NULL;
}

static hx_error *add_bare(struct hx_snapshot *snapshot, const char *module, const char *path,
                          const char *build_id)
{
    if (hx_snapshot_bare(snapshot, module))
        return NULL;
    HX_NEED(hx_vec_push(&snapshot->bare, (struct hx_bare_module){0}));
    struct hx_bare_module *bare = &snapshot->bare.v[snapshot->bare.n - 1];
    bare->module = strdup(module);
    bare->path = strdup(path);
    bare->build_id = build_id ? strdup(build_id) : NULL;
    HX_NEED(bare->module && bare->path && (bare->build_id || !build_id));
    return NULL;
}

/* What helps a person with a place that has no name. */
static hx_error *hint_root(struct hx_snapshot *snapshot, struct hx_root *root, hx_modules *modules,
                           size_t module)
{
    const char *build_id;
    if (module == SIZE_MAX || !hx_module_is_bare(modules, module, &build_id))
        return NULL;
    const struct hx_symbol *symbol = hx_module_symbol_below(modules, module, root->address);
    if (symbol) {
        struct hx_text near = {0};
        hx_demangle_symbol(&near, symbol->name);
        hx_text_putf(&near, "+0x%" PRIx64, root->address - symbol->address);
        HX_NEED(!near.failed);
        free(root->near); /* of a root that was stored */
        root->near = near.s;
    }
    return add_bare(snapshot, root->module, hx_module_path(modules, module), build_id);
}

hx_error *hx_rootmap_names(struct hx_snapshot *snapshot, hx_modules *modules,
                           const struct hx_progress *progress)
{
    for (size_t i = 0; i < snapshot->roots.n; i++) {
        struct hx_root *root = &snapshot->roots.v[i];
        size_t module = hx_modules_find(modules, root->address);
        if (root->symbol && hx_is_mangled(root->symbol))
            HX_TRY(name_root(root, modules, module));
        else if (hx_root_is_nameless(root))
            HX_TRY(hint_root(snapshot, root, modules, module));
        if (hx_progress_cancelled(progress))
            return hx_error_cancelled("names of roots");
    }
    return NULL;
}
