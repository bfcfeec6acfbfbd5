/* join.c - recorded blocks and walked objects, both in order of address, side by side. */
#include "record/read/join.h"

#include "base/cleanup.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Frames in the label of a site. */
enum { LABEL_FRAMES = 5 };

/* Gaps up to this between blocks of an unknown allocator are its own: no block fits. */
enum { GAP = 16 };

struct join {
    struct hx_snapshot *snapshot;
    const struct hx_recording *recording;
    uint32_t *site; /* by stack: index in sites, HX_NO_SITE */
    uint32_t unknown, before;
};

static void cleanup_join(struct join *join)
{
    free(join->site);
}

/* --- blocks that no allocator table explains ----------------------------------------- */

static uint64_t block_bytes(const struct hx_rec_block *block)
{
    return block->usable ? block->usable : block->requested;
}

/* The first segment that ends behind addr, from number *at on. */
static bool in_segment(const struct hx_snapshot *snapshot, size_t *at, uint64_t addr)
{
    while (*at < snapshot->segments.n && snapshot->segments.v[*at].end <= addr)
        ++*at;
    return *at < snapshot->segments.n && snapshot->segments.v[*at].start <= addr;
}

/* Was this memory, which may hold pointers and has no file behind it, there at the stop? */
static const struct hx_mapping *writable_at(const struct hx_snapshot *snapshot, uint64_t addr)
{
    size_t i = hx_mapping_find(snapshot->mapping, snapshot->n_mappings, addr);
    if (i == snapshot->n_mappings || !(snapshot->mapping[i].prot & HX_PROT_W))
        return NULL;
    return &snapshot->mapping[i];
}

/* Objects that are added, by address; sizes are cut where the next one, a segment or the mapping
 * begins to disagree. */
struct extra {
    uint64_t addr, size;
};
typedef HX_VEC(struct extra) extras;

static hx_error *find_extras(const struct join *join, extras *ret)
{
    const struct hx_recording *recording = join->recording;
    const struct hx_snapshot *snapshot = join->snapshot;
    size_t segment = 0;
    for (uint64_t i = 0; i < recording->n_blocks; i++) {
        const struct hx_rec_block *block = &recording->block[i];
        if (in_segment(snapshot, &segment, block->address))
            continue;
        const struct hx_mapping *mapping = writable_at(snapshot, block->address);
        uint64_t end = mapping ? mapping->end : 0, size = block_bytes(block);
        if (!mapping)
            continue; /* counted as one that the heap does not have */
        if (i + 1 < recording->n_blocks && recording->block[i + 1].address < end)
            end = recording->block[i + 1].address;
        if (segment < snapshot->segments.n && snapshot->segments.v[segment].start < end)
            end = snapshot->segments.v[segment].start;
        if (size > end - block->address)
            size = end - block->address;
        HX_NEED(hx_vec_push(ret, (struct extra){block->address, size ? size : 1}));
    }
    return NULL;
}

/* graph.addr and graph.size with the extras in their places. */
static hx_error *merge_recorded_objects(struct hx_graph *graph, const extras *extra)
{
    uint64_t n = (uint64_t)graph->n + extra->n;
    if (n >= HX_OBJECTS_MAX)
        return hx_error_new(HX_E_LIMIT, "heap", "record a part: --min-size BYTES",
                            "it has more objects than heapx can number");
    struct hx_big addr = {0}, size = {0};
    HX_TRY(hx_big_reserve(&addr, (size_t)n * sizeof *graph->addr));
    hx_error *err = hx_big_reserve(&size, (size_t)n * sizeof *graph->size);
    if (err) {
        hx_big_free(&addr);
        return err;
    }
    uint64_t *to_addr = addr.base, *to_size = size.base;
    for (uint64_t i = 0, object = 0, k = 0; i < n; i++) {
        bool walked =
            k == extra->n || (object < graph->n && graph->addr[object] < extra->v[k].addr);
        to_addr[i] = walked ? graph->addr[object] : extra->v[k].addr;
        to_size[i] = walked ? graph->size[object] : extra->v[k].size;
        object += walked;
        k += !walked;
    }
    hx_big_free(&graph->addr_mem);
    hx_big_free(&graph->size_mem);
    graph->addr_mem = addr;
    graph->size_mem = size;
    graph->addr = to_addr;
    graph->size = to_size;
    graph->n = (hx_obj)n;
    return NULL;
}

static hx_error *add_recorded_segment(struct hx_snapshot *snapshot, uint64_t start, uint64_t end)
{
    /* each block of an unknown allocator stands for itself */
    struct hx_segment segment = {start, end, HX_ARENA_MMAP};
    return hx_vec_push(&snapshot->segments, segment) ? NULL : hx_error_nomem();
}

static hx_error *add_free(struct hx_snapshot *snapshot, uint64_t start, uint64_t end)
{
    if (start >= end)
        return NULL;
    snapshot->free_bytes += end - start;
    struct hx_range range = {start, end};
    return hx_vec_push(&snapshot->free_ranges, range) ? NULL : hx_error_nomem();
}

/* Runs of blocks, with nothing but small gaps between them. */
static hx_error *add_runs(struct hx_snapshot *snapshot, const extras *extra)
{
    for (size_t i = 0; i < extra->n;) {
        uint64_t start = extra->v[i].addr, end = start + extra->v[i].size;
        for (i++; i < extra->n && extra->v[i].addr - end < GAP; i++)
            end = extra->v[i].addr + extra->v[i].size;
        HX_TRY(add_recorded_segment(snapshot, start, end));
    }
    snapshot->free_unknown = true;
    return NULL;
}

/* The parts of a mapping that no segment of the walk has, each with its free memory. */
static hx_error *add_mapping(struct hx_snapshot *snapshot, const struct hx_mapping *mapping,
                             size_t n_walked, const extras *extra, size_t from, size_t to)
{
    uint64_t at = mapping->start;
    size_t k = from;
    for (size_t i = 0; i <= n_walked && at < mapping->end; i++) {
        uint64_t hole = i < n_walked ? snapshot->segments.v[i].start : UINT64_MAX;
        uint64_t next = i < n_walked ? snapshot->segments.v[i].end : UINT64_MAX;
        if (next <= at)
            continue;
        uint64_t end = hole < mapping->end ? hole : mapping->end;
        if (k < to && extra->v[k].addr < end) { /* a part without a block stays what it is */
            HX_TRY(add_recorded_segment(snapshot, at, end));
            for (; k < to && extra->v[k].addr < end; k++) {
                HX_TRY(add_free(snapshot, at, extra->v[k].addr));
                at = extra->v[k].addr + extra->v[k].size;
            }
            HX_TRY(add_free(snapshot, at, end));
        }
        at = next;
    }
    return NULL;
}

/* Static data: of a file, or what lies behind its last page (.bss). */
static bool is_static_data(const struct hx_snapshot *snapshot, const struct hx_mapping *mapping)
{
    const struct hx_mapping *before = mapping - 1;
    return (mapping->path && mapping->path[0] == '/') ||
           (mapping > snapshot->mapping && before->end == mapping->start && before->path &&
            before->path[0] == '/' && before->prot & HX_PROT_W);
}

/* The recorder saw every block: what is none of them is free or the allocator's. Static data in a
 * file's mapping is neither. */
static hx_error *explain_mappings(struct hx_snapshot *snapshot, const extras *extra)
{
    size_t n_walked = snapshot->segments.n;
    for (size_t i = 0; i < extra->n;) {
        const struct hx_mapping *mapping = writable_at(snapshot, extra->v[i].addr);
        size_t to = i + 1;
        while (to < extra->n && extra->v[to].addr < mapping->end)
            to++;
        if (is_static_data(snapshot, mapping))
            for (size_t k = i; k < to; k++)
                HX_TRY(add_recorded_segment(snapshot, extra->v[k].addr,
                                            extra->v[k].addr + extra->v[k].size));
        else
            HX_TRY(add_mapping(snapshot, mapping, n_walked, extra, i, to));
        i = to;
    }
    return NULL;
}

static uint64_t segment_bytes(const struct hx_snapshot *snapshot)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < snapshot->segments.n; i++)
        bytes += snapshot->segments.v[i].end - snapshot->segments.v[i].start;
    return bytes;
}

/* What the recorder alone knows, as if it were an allocator's. */
static hx_error *add_recorded_share(struct hx_snapshot *snapshot, const extras *extra,
                                    uint64_t walked_bytes, uint64_t walked_free)
{
    struct hx_allocator_share share = {
        .proven = true,
        .name = strdup("recorded"),
        .evidence = strdup("a recorder saw them allocated"),
        .objects = extra->n,
        .free_bytes = snapshot->free_bytes - walked_free,
        .free_unknown = snapshot->free_unknown,
        .claimed_bytes = segment_bytes(snapshot) - walked_bytes,
    };
    for (size_t i = 0; i < extra->n; i++)
        share.bytes += extra->v[i].size;
    share.walked_bytes = share.claimed_bytes;
    if (share.name && share.evidence && hx_vec_push(&snapshot->allocators, share))
        return NULL;
    hx_allocator_share_deinit(&share);
    return hx_error_nomem();
}

static void say_recorded(struct hx_snapshot *snapshot, size_t n, bool sizes_known)
{
    char *name = NULL;
    bool alone =
        snapshot->no_heap || !snapshot->allocator || strcmp(snapshot->allocator, "none found") == 0;
    if (asprintf(&name, "%s%srecorded", alone ? "" : snapshot->allocator, alone ? "" : ", ") >= 0) {
        free(snapshot->allocator);
        snapshot->allocator = name;
    }
    snapshot->no_heap = false;
    hx_snapshot_note(snapshot, snapshot->free_unknown,
                     "%zu objects are blocks that were recorded, in memory whose allocator heapx "
                     "does not know%s%s",
                     n, sizes_known ? "" : ", with the sizes that were asked for",
                     snapshot->free_unknown ? ": what was there before is not among them"
                                            : "; what lies between them counts as free");
    if (snapshot->free_unknown)
        hx_snapshot_lose(snapshot, "blocks from before the recorder", 1, 0, 0);
}

/* A sample is no heap: where nobody walks the allocator, objects are what was recorded whole. */
static hx_error *add_recorded_objects(const struct join *join)
{
    struct hx_snapshot *snapshot = join->snapshot;
    extras extra = {0};
    if (join->recording->sample_bytes)
        return NULL;
    hx_error *err = find_extras(join, &extra);
    if (!err && extra.n) {
        uint64_t walked_bytes = segment_bytes(snapshot), walked_free = snapshot->free_bytes;
        bool all = join->recording->from_start;
        err = merge_recorded_objects(&snapshot->graph, &extra);
        if (!err)
            err = all ? explain_mappings(snapshot, &extra) : add_runs(snapshot, &extra);
        hx_segments_sort(&snapshot->segments);
        hx_ranges_sort(&snapshot->free_ranges);
        if (!err)
            err = add_recorded_share(snapshot, &extra, walked_bytes, walked_free);
        if (!err)
            snapshot->heap_bytes += snapshot->allocators.v[snapshot->allocators.n - 1].bytes;
        say_recorded(snapshot, extra.n,
                     join->recording->n_blocks && join->recording->block[0].usable);
    }
    hx_vec_free(&extra);
    return err;
}

/* --- sites -------------------------------------------------------------------------------- */

static hx_error *number_site(struct join *join, uint32_t stack, uint32_t *ret)
{
    struct hx_snapshot *snapshot = join->snapshot;
    HX_CLEANUP(hx_text_free) struct hx_text text = {0};
    hx_recording_label(join->recording, stack, LABEL_FRAMES, &text);
    struct hx_site site = {.label = strdup(hx_text_str(&text)), .stack = stack};
    if (!site.label || !hx_vec_push(&snapshot->sites, site)) {
        free(site.label);
        return hx_error_nomem();
    }
    *ret = (uint32_t)snapshot->sites.n - 1;
    return NULL;
}

static hx_error *site_of(struct join *join, const struct hx_rec_block *block, uint32_t *ret)
{
    uint32_t stack = block ? block->stack : HX_NO_STACK;
    if (stack < join->recording->stacks.n) {
        if (join->site[stack] == HX_NO_SITE)
            HX_TRY(number_site(join, stack, &join->site[stack]));
        *ret = join->site[stack];
        return NULL;
    }
    /* what came before the recorder was not seen by it; a sampling one misses others, too */
    bool before = !block && !join->recording->from_start && !join->recording->sample_bytes;
    uint32_t *site = before ? &join->before : &join->unknown;
    if (*site == HX_NO_SITE)
        HX_TRY(number_site(join, before ? HX_SITE_BEFORE : HX_SITE_UNKNOWN, site));
    *ret = *site;
    return NULL;
}

static hx_error *fill_columns(struct join *join)
{
    struct hx_snapshot *snapshot = join->snapshot;
    struct hx_graph *graph = &snapshot->graph;
    const struct hx_recording *recording = join->recording;
    HX_TRY(hx_big_array(graph->site, graph->n));
    HX_TRY(hx_big_array(graph->requested, graph->n));
    uint64_t k = 0, absent = 0, bytes = 0;
    for (uint64_t i = 0; i < graph->n; i++) {
        for (; k < recording->n_blocks && recording->block[k].address < graph->addr[i]; k++) {
            absent++;
            bytes += recording->block[k].requested;
        }
        const struct hx_rec_block *block = NULL;
        if (k < recording->n_blocks && recording->block[k].address == graph->addr[i])
            block = &recording->block[k++];
        graph->requested[i] = block ? block->requested : HX_NO_REQUEST;
        HX_TRY(site_of(join, block, &graph->site[i]));
    }
    for (; k < recording->n_blocks; k++) {
        absent++;
        bytes += recording->block[k].requested;
    }
    if (absent)
        hx_snapshot_lose(snapshot, "recorded blocks that the heap does not have", absent, bytes, 0);
    return NULL;
}

hx_error *hx_join(struct hx_snapshot *snapshot, struct hx_recording *recording)
{
    HX_CLEANUP(cleanup_join)
    struct join join = {
        .snapshot = snapshot, .recording = recording, .unknown = HX_NO_SITE, .before = HX_NO_SITE};
    snapshot->recording = recording;
    join.site = malloc((recording->stacks.n + 1) * sizeof *join.site);
    HX_NEED(join.site);
    memset(join.site, 0xff, (recording->stacks.n + 1) * sizeof *join.site);
    HX_TRY(add_recorded_objects(&join));
    return fill_columns(&join);
}
