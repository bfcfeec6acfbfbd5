/* records.c - the small tables of a snapshot: plain rows, and the one that makes it visible. */
#include "store/write/writer.h"

#include "base/cleanup.h"
#include "base/pairs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

hx_error *hx_writer_roots(struct hx_writer *w, bool named_only)
{
    for (size_t i = 0; i < w->snapshot->roots.n; i++) {
        const struct hx_root *root = &w->snapshot->roots.v[i];
        bool place = hx_root_has_place(root);
        if (named_only && root->kind != HX_ROOT_NAMED)
            continue;
        HX_TRY(
            hx_write(w, root, .root_id = hx_int(i), .kind = hx_int(root->kind),
                     .kind_name = hx_str(hx_root_kind_name(root->kind)), .name = hx_str(root->name),
                     .module = hx_str(root->module && *root->module ? root->module : NULL),
                     .address = hx_int_if(place, root->address),
                     .size = hx_int_if(place || root->kind == HX_ROOT_REGISTER, root->size),
                     .direct_objects = hx_int(root->direct_objects), .value = hx_int(root->value),
                     .tid = hx_int(root->tid), .symbol = hx_str(root->symbol),
                     .near = hx_str(root->near), .layout = hx_int_if(root->layout, root->layout),
                     .layout_at = hx_int_if(root->layout, root->layout_at)));
    }
    return NULL;
}

hx_error *hx_writer_bare(struct hx_writer *w)
{
    for (size_t i = 0; i < w->snapshot->bare.n; i++) {
        const struct hx_bare_module *bare = &w->snapshot->bare.v[i];
        HX_TRY(hx_write(w, bare, .module = hx_str(bare->module), .path = hx_str(bare->path),
                        .build_id = hx_str(bare->build_id)));
    }
    return NULL;
}

/* What heapx symbolize asks for. */
static hx_error *write_stop(struct hx_writer *w)
{
    const struct hx_snapshot *s = w->snapshot;
    for (size_t i = 0; i < s->loaded.n; i++)
        HX_TRY(hx_write(w, loaded, .number = hx_int(i), .path = hx_str(s->loaded.v[i].path),
                        .build_id = hx_str(s->loaded.v[i].build_id),
                        .bias = hx_int(s->loaded.v[i].bias)));
    for (size_t i = 0; i < s->frames.n; i++) {
        const struct hx_stopped_frame *frame = &s->frames.v[i];
        const uint64_t *kept = frame->kept;
        HX_TRY(hx_write(w, stopped_frame, .tid = hx_int(frame->tid),
                        .position = hx_int(frame->position), .file = hx_int(frame->file),
                        .vaddr = hx_int(frame->vaddr), .sp = hx_int(frame->sp),
                        .cfa = hx_int(frame->cfa), .fp = hx_int_if(frame->fp_known, frame->fp),
                        .rbx = hx_int(kept[0]), .rbp = hx_int(kept[1]), .r12 = hx_int(kept[2]),
                        .r13 = hx_int(kept[3]), .r14 = hx_int(kept[4]), .r15 = hx_int(kept[5])));
    }
    for (size_t i = 0; i < s->tls_blocks.n; i++) {
        const struct hx_tls_block *block = &s->tls_blocks.v[i];
        HX_TRY(hx_write(w, tls_block, .start = hx_int(block->start),
                        .bytes = hx_int(block->end - block->start), .file = hx_int(block->file),
                        .tid = hx_int(block->tid)));
    }
    return NULL;
}

hx_error *hx_writer_named(struct hx_writer *w)
{
    for (size_t i = 0; i < w->snapshot->named.n; i++) {
        const struct hx_named *named = &w->snapshot->named.v[i];
        HX_TRY(hx_write(w, named, .position = hx_int(i), .name = hx_str(named->name),
                        .expr = hx_str(named->expr), .root_id = hx_int(named->root)));
    }
    return NULL;
}

/* Names only: what an analysis counts comes with it. */
static hx_error *write_types(struct hx_writer *w)
{
    for (size_t i = 0; i < w->snapshot->types.n; i++) {
        const struct hx_type *type = &w->snapshot->types.v[i];
        char source[HX_SOURCES];
        HX_TRY(hx_write(w, type, .type = hx_int(i + 1), .name = hx_str(type->name),
                        .confidence = hx_str(hx_confidence_name(type->confidence)),
                        .symbol = hx_str(type->symbol),
                        .source = hx_str(hx_type_sources(type, source)),
                        .layout = hx_int_if(type->layout, type->layout)));
    }
    return NULL;
}

hx_error *hx_writer_layouts(struct hx_writer *w)
{
    for (size_t i = 0; i < w->snapshot->layouts.n; i++) {
        const struct hx_layout *layout = &w->snapshot->layouts.v[i];
        HX_TRY(hx_write(w, layout, .layout = hx_int(i + 1), .size = hx_int(layout->size),
                        .repeats = hx_int(layout->repeats + layout->alike)));
        for (size_t k = 0; k < layout->fields.n; k++)
            HX_TRY(hx_write(w, field, .layout = hx_int(i + 1),
                            .offset = hx_int(layout->fields.v[k].offset),
                            .name = hx_str(layout->fields.v[k].name),
                            .target = hx_str(layout->fields.v[k].target)));
    }
    return NULL;
}

static hx_error *write_shapes(struct hx_writer *w)
{
    size_t n = w->graph->shape ? w->snapshot->shapes.n + 1 : 0;
    HX_FREE uint64_t *bytes = calloc(n + 1, sizeof *bytes);
    HX_FREE uint64_t *objects = calloc(n + 1, sizeof *objects);
    HX_NEED(bytes && objects);
    for (hx_obj i = 0; n && i < w->graph->n; i++) {
        bytes[hx_writer_shape(w, i)] += w->graph->size[i];
        objects[hx_writer_shape(w, i)]++;
    }
    for (size_t i = 0; i < n; i++)
        HX_TRY(hx_write(w, shape, .shape = hx_int(i),
                        .label = hx_str(i ? w->snapshot->shapes.v[i - 1].label : NULL),
                        .bytes = hx_int(bytes[i]), .objects = hx_int(objects[i])));
    return NULL;
}

static hx_error *write_account(struct hx_writer *w)
{
    /* what was not measured has no row: the others sum to the resident memory all the same */
    int first = w->snapshot->no_heap ? HX_PART_OVERHEAD + 1 : 0;
    const uint64_t *account = w->snapshot->account;
    bool free_unknown = w->snapshot->free_unknown;
    for (int part = first; w->snapshot->has_account && part < HX_PARTS; part++) {
        if (free_unknown && (part == HX_PART_FREE || part == HX_PART_OVERHEAD))
            continue;
        /* between the blocks that were recorded: nobody knows whose that is */
        uint64_t rest = free_unknown && part == HX_PART_ANONYMOUS
                            ? account[HX_PART_FREE] + account[HX_PART_OVERHEAD]
                            : 0;
        HX_TRY(hx_write(w, account, .position = hx_int(part),
                        .part = hx_str(hx_part_name((enum hx_account_part)part)),
                        .bytes = hx_int(account[part] + rest)));
    }
    return NULL;
}

static const enum hx_state leak_kinds[] = {HX_STATE_DEFINITE, HX_STATE_INDIRECT, HX_STATE_POSSIBLE};

/* What is lost of one type (0: unknown) and one site (the number of sites: unknown), by kind. */
struct leak {
    uint32_t type, site;
    uint64_t bytes[COUNT(leak_kinds)], objects[COUNT(leak_kinds)];
};

struct leaks {
    HX_VEC(struct leak) rows;
    struct hx_pairs known; /* (site, type) to a row */
};

static void deinit_leaks(struct leaks *leaks)
{
    hx_vec_free(&leaks->rows);
    hx_pairs_free(&leaks->known);
}

static hx_error *add_leak(const struct hx_writer *w, hx_obj object, size_t kind,
                          struct leaks *leaks)
{
    const struct hx_graph *g = w->graph;
    size_t sites = w->snapshot->sites.n;
    uint32_t site = g->site && g->site[object] < sites ? g->site[object] : (uint32_t)sites;
    uint32_t type = hx_writer_type(w, object), *row;
    HX_TRY(hx_pairs_at(&leaks->known, hx_pair_key(site, type), &row));
    if (*row == HX_NO_PAIR) {
        HX_NEED(hx_vec_push(&leaks->rows, ((struct leak){.type = type, .site = site})));
        *row = (uint32_t)leaks->rows.n - 1;
    }
    leaks->rows.v[*row].bytes[kind] += g->size[object];
    leaks->rows.v[*row].objects[kind]++;
    return NULL;
}

static hx_error *sum_leaks(const struct hx_writer *w, struct leaks *leaks)
{
    const struct hx_graph *g = w->graph;
    for (hx_obj i = 0; i < g->n && g->state; i++)
        for (size_t k = 0; k < COUNT(leak_kinds); k++)
            if (g->state[i] == leak_kinds[k])
                HX_TRY(add_leak(w, i, k, leaks));
    return NULL;
}

hx_error *hx_writer_leaks(struct hx_writer *w)
{
    HX_CLEANUP(deinit_leaks) struct leaks leaks = {0};
    HX_TRY(sum_leaks(w, &leaks));
    for (size_t i = 0; i < leaks.rows.n * COUNT(leak_kinds); i++) {
        const struct leak *leak = &leaks.rows.v[i / COUNT(leak_kinds)];
        size_t kind = i % COUNT(leak_kinds);
        if (!leak->objects[kind])
            continue;
        const char *type = leak->type ? w->snapshot->types.v[leak->type - 1].name : NULL;
        HX_TRY(hx_write(w, leak, .kind = hx_str(hx_state_name(leak_kinds[kind])),
                        .type = hx_str(type), .bytes = hx_int(leak->bytes[kind]),
                        .objects = hx_int(leak->objects[kind]),
                        .stack_id = hx_int_if(leak->site < w->snapshot->sites.n,
                                              w->snapshot->sites.v[leak->site].stack_id)));
    }
    return NULL;
}

hx_error *hx_writer_losses(struct hx_writer *w)
{
    for (size_t i = 0; i < w->snapshot->losses.n; i++) {
        const struct hx_loss *loss = &w->snapshot->losses.v[i];
        HX_TRY(hx_write(w, loss, .what = hx_str(loss->what), .count = hx_int(loss->count),
                        .bytes = hx_int_if(loss->has_bytes, loss->bytes),
                        .address = hx_int_if(loss->has_address, loss->address)));
    }
    return NULL;
}

static hx_error *write_allocators(struct hx_writer *w)
{
    for (size_t i = 0; i < w->snapshot->allocators.n; i++) {
        const struct hx_allocator_share *share = &w->snapshot->allocators.v[i];
        bool known = share->proven, rest = known && !share->free_unknown;
        HX_TRY(hx_write(w, allocator, .position = hx_int((int64_t)i), .name = hx_str(share->name),
                        .version = hx_str(share->version), .evidence = hx_str(share->evidence),
                        .claimed_bytes = hx_int(share->claimed_bytes),
                        .walked_bytes = hx_int(known ? share->walked_bytes : 0),
                        .bytes = hx_int_if(known, share->bytes),
                        .objects = hx_int_if(known, share->objects),
                        .free_bytes = hx_int_if(rest, share->free_bytes),
                        .cached_bytes = hx_int_if(rest && share->cache_known, share->cached_bytes),
                        .overhead_bytes = hx_int_if(rest, share->overhead_bytes)));
    }
    return NULL;
}

hx_error *hx_writer_records(struct hx_writer *w)
{
    HX_TRY(hx_writer_roots(w, false));
    HX_TRY(hx_writer_bare(w));
    HX_TRY(write_stop(w));
    HX_TRY(hx_writer_named(w));
    HX_TRY(write_types(w));
    HX_TRY(hx_writer_layouts(w));
    HX_TRY(write_shapes(w));
    HX_TRY(write_account(w));
    HX_TRY(write_allocators(w));
    HX_TRY(hx_writer_leaks(w));
    return hx_writer_losses(w);
}

void hx_writer_time(int64_t ns, char *buf, size_t size)
{
    time_t seconds = (time_t)(ns / 1000000000);
    int64_t rest = ns % 1000000000;
    if (rest < 0) {
        rest += 1000000000;
        seconds--;
    }
    struct tm tm = {0};
    gmtime_r(&seconds, &tm);
    size_t n = strftime(buf, size, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(buf + n, size - n, ".%03dZ", (int)(rest / 1000000));
}

static const char glue[] = "; "; /* between the sentences of notes */

static const char *end_of_sentence(const char *s)
{
    const char *end = strstr(s, glue);
    return end ? end : s + strlen(s);
}

static const char *next_sentence(const char *end)
{
    return *end ? end + strlen(glue) : end;
}

static bool has_sentence(const char *text, const char *sentence, size_t n)
{
    for (const char *end; *text; text = next_sentence(end)) {
        end = end_of_sentence(text);
        if ((size_t)(end - text) == n && memcmp(text, sentence, n) == 0)
            return true;
    }
    return false;
}

/* Adds the sentences that are not there yet: a loaded snapshot has those of the time before. */
static void add_notes(struct hx_text *text, const char *notes)
{
    for (const char *end; *notes; notes = next_sentence(end)) {
        end = end_of_sentence(notes);
        if (has_sentence(hx_text_str(text), notes, (size_t)(end - notes)))
            continue;
        hx_text_puts(text, text->n ? glue : "");
        hx_text_putn(text, notes, (size_t)(end - notes));
    }
}

hx_error *hx_writer_notes(const struct hx_writer *w, const char *before, struct hx_text *ret)
{
    hx_text_puts(ret, before ? before : "");
    add_notes(ret, hx_text_str(&w->snapshot->notes));
    add_notes(ret, hx_text_str(&w->notes));
    return ret->failed || w->notes.failed ? hx_error_nomem() : NULL;
}

struct hx_int hx_writer_typed_bytes(const struct hx_writer *w)
{
    uint64_t bytes = 0;
    for (uint64_t i = 0; w->graph->type && i < w->graph->n; i++)
        bytes += hx_writer_type(w, i) ? w->graph->size[i] : 0;
    return hx_int_if(!w->snapshot->no_heap && w->graph->type, bytes);
}

hx_error *hx_writer_summary(struct hx_writer *w)
{
    const struct hx_snapshot *s = w->snapshot;
    const uint64_t *bytes = w->state_bytes, *objects = w->state_objects;
    /* of a heap that nobody walked nothing is known; without objects all of them are reachable */
    bool heap = !s->no_heap, states = heap && (w->graph->state || !w->graph->n);
    bool free_known = heap && !s->free_unknown;
    HX_CLEANUP(hx_text_free) struct hx_text notes = {0};
    char taken_at[64];
    hx_writer_time(s->taken_at_ns, taken_at, sizeof taken_at);
    HX_TRY(hx_writer_notes(w, hx_text_str(&s->notes), &notes));
    return hx_write(
        w, snapshot, .taken_at_ns = hx_int(s->taken_at_ns), .taken_at = hx_str(taken_at),
        .pid = hx_int_if(s->pid, s->pid), .comm = hx_str(s->comm), .exe = hx_str(s->exe),
        .pause_us = hx_int_if(!s->pause_unknown, s->pause_us), .method = hx_str(s->method),
        .allocator = hx_str(s->allocator), .heap_bytes = hx_int_if(heap, w->heap_bytes),
        .heap_objects = hx_int_if(heap, w->graph->n),
        .reachable_bytes = hx_int_if(states, bytes[HX_STATE_REACHABLE] + bytes[HX_STATE_POSSIBLE]),
        .reachable_objects =
            hx_int_if(states, objects[HX_STATE_REACHABLE] + objects[HX_STATE_POSSIBLE]),
        .leaked_bytes = hx_int_if(states, bytes[HX_STATE_DEFINITE] + bytes[HX_STATE_INDIRECT]),
        .leaked_objects =
            hx_int_if(states, objects[HX_STATE_DEFINITE] + objects[HX_STATE_INDIRECT]),
        .free_bytes = hx_int_if(free_known, s->free_bytes),
        .overhead_bytes = hx_int_if(free_known, s->overhead_bytes),
        .rss_bytes = hx_int_if(s->has_rss, s->rss_bytes), .scheme = hx_str(w->scheme),
        .interior = hx_int(s->interior), .complete = hx_int(s->complete),
        .notes = {notes.n ? notes.s : NULL, notes.n}, .parts = hx_int(w->parts),
        .started_at_ns = hx_int_if(s->started_at_ns, s->started_at_ns),
        .stray_edges = w->stray_edges, .doubt_bytes = w->doubt_bytes,
        .typed_bytes = hx_writer_typed_bytes(w),
        .prepare_us = hx_int_if(s->precopied, s->prepare_us),
        .held_us = hx_int_if(s->precopied, s->held_us));
}
