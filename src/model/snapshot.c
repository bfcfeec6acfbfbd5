/* snapshot.c - making, annotating and freeing a snapshot. */
#include "model/snapshot.h"

#include "base/bits.h"
#include "base/lower_bound.h"
#include "model/function_name.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *hx_root_kind_name(enum hx_root_kind kind)
{
    static const char *const names[] = {"global", "stack",   "frame", "register",
                                        "tls",    "mapping", "named"};
    return (size_t)kind < sizeof names / sizeof *names ? names[kind] : "?";
}

const char *hx_part_name(enum hx_account_part part)
{
    static const char *const names[HX_PARTS] = {"live",   "free",      "overhead", "files",
                                                "stacks", "anonymous", "shared",   "other"};
    return (size_t)part < HX_PARTS ? names[part] : "?";
}

hx_error *hx_snapshot_create(struct hx_snapshot **ret)
{
    struct hx_snapshot *snapshot = calloc(1, sizeof *snapshot);
    HX_NEED(snapshot);
    snapshot->method = "copy";
    snapshot->complete = true;
    *ret = snapshot;
    return NULL;
}

void hx_snapshot_drop_image(struct hx_snapshot *snapshot)
{
    hx_image_deinit(&snapshot->image);
}

static int compare_ranges(const void *a, const void *b)
{
    const struct hx_range *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

void hx_ranges_sort(hx_ranges *ranges)
{
    if (ranges->n)
        qsort(ranges->v, ranges->n, sizeof *ranges->v, compare_ranges);
}

static int compare_segments(const void *a, const void *b)
{
    const struct hx_segment *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

void hx_segments_sort(hx_segments *segments)
{
    if (segments->n)
        qsort(segments->v, segments->n, sizeof *segments->v, compare_segments);
}

void hx_allocator_share_deinit(struct hx_allocator_share *share)
{
    free(share->name);
    free(share->version);
    free(share->module);
    free(share->evidence);
}

void hx_snapshot_destroy(struct hx_snapshot *snapshot)
{
    if (!snapshot)
        return;
    if (snapshot->early)
        snapshot->drop_early(snapshot->early);
    free(snapshot->comm);
    free(snapshot->exe);
    free(snapshot->allocator);
    hx_text_free(&snapshot->notes);
    for (size_t i = 0; i < snapshot->n_mappings; i++) {
        free(snapshot->mapping[i].path);
        free(snapshot->mapping[i].local);
    }
    free(snapshot->mapping);
    free(snapshot->thread);
    hx_image_deinit(&snapshot->image);
    hx_vec_free(&snapshot->segments);
    for (size_t i = 0; i < snapshot->allocators.n; i++)
        hx_allocator_share_deinit(&snapshot->allocators.v[i]);
    hx_vec_free(&snapshot->allocators);
    hx_vec_free(&snapshot->free_ranges);
    hx_graph_deinit(&snapshot->graph);
    for (size_t i = 0; i < snapshot->types.n; i++) {
        free(snapshot->types.v[i].name);
        free(snapshot->types.v[i].symbol);
    }
    hx_vec_free(&snapshot->types);
    for (size_t i = 0; i < snapshot->layouts.n; i++)
        hx_layout_deinit(&snapshot->layouts.v[i]);
    hx_vec_free(&snapshot->layouts);
    for (size_t i = 0; i < snapshot->shapes.n; i++)
        free(snapshot->shapes.v[i].label);
    hx_vec_free(&snapshot->shapes);
    for (size_t i = 0; i < snapshot->sites.n; i++)
        free(snapshot->sites.v[i].label);
    hx_vec_free(&snapshot->sites);
    hx_recording_destroy(snapshot->recording);
    hx_recording_destroy(snapshot->backtraces);
    hx_vec_free(&snapshot->thread_stack);
    hx_vec_free(&snapshot->resident);
    for (size_t i = 0; i < snapshot->roots.n; i++)
        hx_root_deinit(&snapshot->roots.v[i]);
    hx_vec_free(&snapshot->roots);
    hx_vec_free(&snapshot->root_edges);
    for (size_t i = 0; i < snapshot->named.n; i++) {
        free(snapshot->named.v[i].name);
        free(snapshot->named.v[i].expr);
    }
    hx_vec_free(&snapshot->named);
    for (size_t i = 0; i < snapshot->bare.n; i++) {
        free(snapshot->bare.v[i].module);
        free(snapshot->bare.v[i].path);
        free(snapshot->bare.v[i].build_id);
    }
    hx_vec_free(&snapshot->bare);
    for (size_t i = 0; i < snapshot->loaded.n; i++) {
        free(snapshot->loaded.v[i].path);
        free(snapshot->loaded.v[i].build_id);
    }
    hx_vec_free(&snapshot->loaded);
    hx_vec_free(&snapshot->frames);
    hx_vec_free(&snapshot->tls_blocks);
    for (size_t i = 0; i < snapshot->losses.n; i++)
        free(snapshot->losses.v[i].what);
    hx_vec_free(&snapshot->losses);
    free(snapshot);
}

const char *hx_type_sources(const struct hx_type *type, char buf[HX_SOURCES])
{
    int n = 0;
    for (int i = HX_TYPED_NOT + 1; i < HX_TYPE_SOURCES; i++)
        if (type->sources >> i & 1)
            n += snprintf(buf + n, HX_SOURCES - (size_t)n, "%s%s", n ? "+" : "",
                          hx_type_source_name((enum hx_type_source)i));
    return n ? buf : NULL;
}

void hx_layout_deinit(struct hx_layout *layout)
{
    for (size_t i = 0; i < layout->fields.n; i++) {
        free(layout->fields.v[i].name);
        free(layout->fields.v[i].target);
    }
    hx_vec_free(&layout->fields);
}

/* The name of the field at an offset of a layout; *ret_index: which element. NULL: it has none. */
static const char *find_field(const struct hx_layout *layout, uint64_t offset, uint64_t *ret_index)
{
    *ret_index = layout->repeats && layout->size ? offset / layout->size : 0;
    if (layout->repeats && layout->size)
        offset %= layout->size;
    size_t i = HX_LOWER_BOUND(layout->fields.n, k, layout->fields.v[k].offset < offset);
    return i < layout->fields.n && layout->fields.v[i].offset == offset ? layout->fields.v[i].name
                                                                        : NULL;
}

static bool put_field(const struct hx_snapshot *snapshot, uint32_t layout, uint64_t offset,
                      struct hx_text *text)
{
    uint64_t index;
    if (!layout || layout > snapshot->layouts.n)
        return false;
    const struct hx_layout *of = &snapshot->layouts.v[layout - 1];
    const char *name = find_field(of, offset, &index);
    if (!name)
        return false;
    if (of->repeats && !of->alike)
        hx_text_putf(text, "[%" PRIu64 "]%s", index, *name && *name != '[' ? "." : "");
    hx_text_puts(text, name);
    return true;
}

bool hx_snapshot_put_field(const struct hx_snapshot *snapshot, hx_obj object, uint64_t offset,
                           struct hx_text *text)
{
    const struct hx_graph *graph = &snapshot->graph;
    if (!graph->type || graph->type[object] >= snapshot->types.n)
        return false;
    const uint32_t number = snapshot->types.v[graph->type[object]].layout;
    /* Of an object of that class somewhere in a larger block nothing is known. */
    if (number && number <= snapshot->layouts.n &&
        snapshot->layouts.v[number - 1].size > graph->size[object])
        return false;
    return put_field(snapshot, number, offset, text);
}

bool hx_snapshot_put_root_field(const struct hx_snapshot *snapshot, uint32_t root, uint64_t address,
                                struct hx_text *text)
{
    const struct hx_root *of = &snapshot->roots.v[root];
    const uint64_t at = of->address + of->layout_at;
    return address >= at && put_field(snapshot, of->layout, address - at, text);
}

void hx_root_deinit(struct hx_root *root)
{
    free(root->name);
    free(root->symbol);
    free(root->module);
    free(root->near);
    free(root->thread);
    free(root->type_spelling);
}

const struct hx_bare_module *hx_snapshot_bare(const struct hx_snapshot *snapshot,
                                              const char *module)
{
    for (size_t i = 0; i < snapshot->bare.n; i++)
        if (strcmp(snapshot->bare.v[i].module, module) == 0)
            return &snapshot->bare.v[i];
    return NULL;
}

size_t hx_root_function_length(const struct hx_root *root)
{
    size_t n = strlen(root->name);
    for (size_t i = n; i-- > 1;)
        if (root->name[i] == ' ')
            return i - (root->name[i - 1] == ':');
    return n;
}

bool hx_root_is_nameless(const struct hx_root *root)
{
    static const char mark[] = "+0x";
    size_t module = strlen(root->module), n = sizeof mark - 1;
    if (root->kind != HX_ROOT_GLOBAL || !module || strncmp(root->name, root->module, module) != 0 ||
        strncmp(root->name + module, mark, n) != 0)
        return false;
    const char *offset = root->name + module + n;
    return *offset && !offset[strspn(offset, "0123456789abcdef")];
}

uint64_t hx_root_edge_targets(const struct hx_root_edge *edge, size_t n, uint64_t *seen)
{
    uint64_t distinct = 0;
    for (size_t i = 0; i < n; i++)
        distinct += hx_bit_add(seen, edge[i].target);
    for (size_t i = 0; i < n; i++)
        hx_bit_clear(seen, edge[i].target);
    return distinct;
}

size_t hx_snapshot_root_edges(const struct hx_snapshot *snapshot, uint64_t root)
{
    return HX_LOWER_BOUND(snapshot->root_edges.n, i, snapshot->root_edges.v[i].root < root);
}

void hx_snapshot_note(struct hx_snapshot *snapshot, bool partial, const char *format, ...)
{
    if (partial)
        snapshot->complete = false;
    if (snapshot->notes.n)
        hx_text_puts(&snapshot->notes, "; ");
    va_list args;
    va_start(args, format);
    hx_text_vputf(&snapshot->notes, format, args);
    va_end(args);
}

void hx_snapshot_named(struct hx_snapshot *snapshot)
{
    static const char gap[] = "; ";
    char *at = snapshot->notes.n ? strstr(snapshot->notes.s, HX_UNNAMED) : NULL;
    snapshot->unnamed = false;
    if (!at)
        return;
    size_t n = strlen(HX_UNNAMED);
    if (strncmp(at + n, gap, strlen(gap)) == 0) {
        n += strlen(gap);
    } else if (at != snapshot->notes.s) { /* the last one of several */
        at -= strlen(gap);
        n += strlen(gap);
    }
    memmove(at, at + n, strlen(at + n) + 1);
    snapshot->notes.n -= n;
}

static struct hx_loss *find_loss(struct hx_snapshot *snapshot, const char *what, uint64_t address)
{
    for (size_t i = 0; i < snapshot->losses.n; i++) {
        struct hx_loss *loss = &snapshot->losses.v[i];
        if (loss->address == address && strcmp(loss->what, what) == 0)
            return loss;
    }
    return NULL;
}

/* A heap that is broken everywhere must not make the list, nor the time to search it, grow
 * without bound: beyond HX_LOSSES_MAX rows only one more row of each kind is made, without
 * an address, and beyond twice that one for all kinds. */
void hx_snapshot_lose(struct hx_snapshot *snapshot, const char *what, uint64_t count,
                      uint64_t bytes, uint64_t address)
{
    struct hx_loss *loss = find_loss(snapshot, what, address);
    if (!loss && snapshot->losses.n >= HX_LOSSES_MAX) {
        address = 0;
        loss = find_loss(snapshot, what, 0);
    }
    if (!loss && snapshot->losses.n >= 2 * HX_LOSSES_MAX) {
        what = "more losses than are listed";
        loss = find_loss(snapshot, what, 0);
    }
    if (loss) {
        loss->count += count;
        loss->bytes += bytes;
        loss->has_bytes |= bytes != 0;
        return;
    }
    char *name = strdup(what);
    if (!name || !hx_vec_push(&snapshot->losses, (struct hx_loss){.what = name,
                                                                  .count = count,
                                                                  .bytes = bytes,
                                                                  .address = address,
                                                                  .has_bytes = bytes != 0,
                                                                  .has_address = address != 0})) {
        free(name);
        snapshot->complete = false; /* no memory to count it: at least that is said */
    }
}

size_t hx_snapshot_names(const struct hx_snapshot *snapshot)
{
    return snapshot->types.n + snapshot->shapes.n;
}

const char *hx_snapshot_name(const struct hx_snapshot *snapshot, size_t number)
{
    const size_t types = snapshot->types.n;
    if (number < types)
        return snapshot->types.v[number].name;
    return number < hx_snapshot_names(snapshot) ? snapshot->shapes.v[number - types].label : NULL;
}

size_t hx_snapshot_number_of(const struct hx_snapshot *snapshot, hx_obj object)
{
    const struct hx_graph *graph = &snapshot->graph;
    const size_t types = snapshot->types.n, shapes = snapshot->shapes.n;
    if (graph->type && graph->type[object] < types)
        return graph->type[object];
    return types + (graph->shape && graph->shape[object] < shapes ? graph->shape[object] : shapes);
}

const char *hx_snapshot_name_of(const struct hx_snapshot *snapshot, hx_obj object)
{
    return hx_snapshot_name(snapshot, hx_snapshot_number_of(snapshot, object));
}

void hx_snapshot_put_maker(const struct hx_snapshot *snapshot, hx_obj object, struct hx_text *text)
{
    const struct hx_graph *graph = &snapshot->graph;
    const uint32_t site = graph->site ? graph->site[object] : HX_NO_SITE;
    const size_t name = hx_snapshot_number_of(snapshot, object);
    if (site >= snapshot->sites.n || name < snapshot->types.n ||
        name == hx_snapshot_names(snapshot))
        return;
    const char *label = snapshot->sites.v[site].label;
    const uint32_t stack = snapshot->sites.v[site].stack;
    if (!label || !*label || stack == HX_SITE_BEFORE || stack == HX_SITE_UNKNOWN)
        return;
    hx_function_name_maker(text, label);
}

void hx_snapshot_put_name(const struct hx_snapshot *snapshot, hx_obj object, struct hx_text *text)
{
    const char *name = hx_snapshot_name_of(snapshot, object);
    if (!name)
        return;
    hx_text_puts(text, name);
    hx_snapshot_put_maker(snapshot, object, text);
}
