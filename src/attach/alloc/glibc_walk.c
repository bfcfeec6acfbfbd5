/* glibc_walk.c - all chunks of all areas, in order of address.
 *
 * A run of chunks goes from its first one to top or to fenceposts. Each step reads one
 * header; whether a chunk is in use stands in the header after it.
 */
#include "attach/alloc/glibc.h"

#include <stdlib.h>
#include <string.h>

enum {
    LOSS_ROWS = 64,          /* damaged places with a row of their own in losses */
    INSIDE = 3,              /* chunks inside of a block that say that its size is wrong */
    PROGRESS_STEP = 1 << 20, /* chunks between two calls of progress */
};

#define NO_MORE UINT64_MAX

struct emit {
    struct hx_glibc_walk *walk;
    struct hx_snapshot *snapshot;
    struct hx_chunk_cursor cursor;
    uint64_t *addr, *size; /* the graph's columns */
    uint64_t n, max;
    const uint64_t *mark, *mark_end;
    uint64_t tcache_chunk; /* size of one that holds a tcache, or 16 less; 0: none */
    const struct hx_glibc_area *area;
    struct hx_glibc_arena *arena;
    struct hx_chunk_rule rule;
    uint64_t done, total; /* bytes, for progress */
    uint64_t overfull;    /* objects beyond the index width */
};

/* --- output ---------------------------------------------------------------- */

static inline void put_object(struct emit *emit, uint64_t addr, uint64_t size)
{
    if (emit->n == emit->max) {
        emit->overfull++;
        return;
    }
    emit->addr[emit->n] = addr;
    emit->size[emit->n] = size;
    emit->n++;
    emit->snapshot->heap_bytes += size;
}

static hx_error *put_free(struct emit *emit, uint64_t start, uint64_t end)
{
    struct hx_snapshot *snapshot = emit->snapshot;
    if (start >= end)
        return NULL;
    snapshot->free_bytes += end - start;
    if (snapshot->free_ranges.n &&
        snapshot->free_ranges.v[snapshot->free_ranges.n - 1].end == start) {
        snapshot->free_ranges.v[snapshot->free_ranges.n - 1].end = end;
        return NULL;
    }
    struct hx_range range = {start, end};
    return hx_vec_push(&snapshot->free_ranges, range) ? NULL : hx_error_nomem();
}

static hx_error *put_segment(struct emit *emit, uint64_t start, uint64_t end)
{
    struct hx_segment segment = {.start = start, .end = end, .arena = emit->area->arena};
    if (start >= end)
        return NULL;
    return hx_vec_push(&emit->snapshot->segments, segment) ? NULL : hx_error_nomem();
}

/* What lies between a damaged header and the next believable one belongs to no segment, so it is
 * scanned as memory that can hold pointers. */
static void lose_range(struct emit *emit, uint64_t start, uint64_t end)
{
    struct hx_glibc_walk *walk = emit->walk;
    walk->n_damaged++;
    walk->damaged_bytes += end - start;
    hx_snapshot_lose(emit->snapshot, "heap blocks with a damaged header", 1, end - start,
                     walk->n_damaged <= LOSS_ROWS ? start : 0);
}

/* --- chunks ---------------------------------------------------------------- */

/* A chunk that its tags call free: its footer must name its size, its links add up. */
static hx_error *emit_free_chunk(struct emit *emit, uint64_t p, uint64_t size, uint64_t footer)
{
    struct hx_glibc_sums *sums = &emit->arena->sums;
    uint64_t links[2];
    emit->walk->tag_faults += footer != size;
    if (hx_chunk_header(&emit->cursor, p + 16, links)) {
        sums->next += hx_glibc_mix(links[0]);
        sums->prev += hx_glibc_mix(links[1]);
    }
    sums->self += hx_glibc_mix(p);
    sums->n++;
    return put_free(emit, p + 8, p + size + 8);
}

/* A chunk of the size of a tcache, or with a mapping of its own, that no thread named. */
static hx_error *take_suspect(struct emit *emit, uint64_t p, uint64_t size)
{
    put_object(emit, p + 16, size - 8);
    if (hx_glibc_is_tcache(emit->walk, p))
        HX_NEED(hx_vec_push(&emit->walk->orphans, p));
    return NULL;
}

/* A chunk in use by its tags that may be marked. */
static hx_error *emit_marked_chunk(struct emit *emit, uint64_t p, uint64_t size)
{
    while (emit->mark < emit->mark_end && (*emit->mark & ~UINT64_C(1)) < p)
        emit->mark++;
    if (emit->mark == emit->mark_end || (*emit->mark & ~UINT64_C(1)) != p) {
        bool alone = emit->area->kind == HX_AREA_MMAPPED && emit->tcache_chunk;
        if (alone || size - emit->tcache_chunk <= HX_CHUNK_MIN)
            return take_suspect(emit, p, size);
        put_object(emit, p + 16, size - 8);
        return NULL;
    }
    bool overhead = *emit->mark++ & 1;
    emit->walk->share->cached_bytes += overhead ? 0 : size;
    return overhead ? NULL : put_free(emit, p + 8, p + size + 8);
}

static hx_error *report_walk_progress(struct emit *emit, uint64_t p)
{
    hx_progress_at(emit->walk->progress, "objects", emit->n, 0);
    hx_progress_at(emit->walk->progress, "walk", emit->done + (p - emit->area->start), emit->total);
    return hx_progress_cancelled(emit->walk->progress) ? hx_error_cancelled("heap") : NULL;
}

/* Walks from p to the end of the run: *ret_end is the first byte after it. *ret_next is where
 * to go on after damage (the damage begins at *ret_end), 0 at a proper end, NO_MORE where memory
 * is missing that the image should have: whether the last block is in use is not known. */
static hx_error *walk_run(struct emit *emit, uint64_t p, uint64_t *ret_end, uint64_t *ret_next)
{
    struct hx_chunk_rule rule = emit->rule;
    uint64_t words[2], size, until_progress = PROGRESS_STEP;
    uint64_t next_mark = 0;
    *ret_end = p;
    *ret_next = p + 16;
    if (!hx_chunk_header(&emit->cursor, p, words))
        return NULL;
    enum hx_chunk_end end = hx_chunk_judge(&emit->cursor, &rule, p, words[1], &size);
    while (end == HX_CHUNK_GOES_ON) {
        uint64_t n = p + size, after;
        end = HX_CHUNK_INSANE;
        if (hx_chunk_header(&emit->cursor, n, words))
            end = hx_chunk_judge(&emit->cursor, &rule, n, words[1], &after);
        else if (emit->walk->is_cut && hx_glibc_ends_image(emit->walk->image, n, rule.limit)) {
            *ret_end = p;
            *ret_next = NO_MORE;
            return NULL;
        }
        if (end == HX_CHUNK_INSANE) {
            *ret_end = p;
            *ret_next = n;
            return NULL;
        }
        if (!(words[1] & HX_CHUNK_PREV_INUSE)) {
            HX_TRY(emit_free_chunk(emit, p, size, words[0]));
        } else if (p >= next_mark || size - emit->tcache_chunk <= HX_CHUNK_ALIGN) {
            HX_TRY(emit_marked_chunk(emit, p, size));
            next_mark = emit->mark < emit->mark_end ? *emit->mark & ~UINT64_C(1) : UINT64_MAX;
        } else {
            put_object(emit, p + 16, size - 8);
        }
        emit->walk->n_chunks++;
        if (--until_progress == 0) {
            until_progress = PROGRESS_STEP;
            HX_TRY(report_walk_progress(emit, p));
        }
        p = n;
        size = after;
    }
    *ret_end = p;
    if (end == HX_CHUNK_INSANE)
        return NULL;
    if (end == HX_CHUNK_TOP)
        HX_TRY(put_free(emit, p + 8, p + size));
    *ret_end = p + size;
    *ret_next = 0;
    return NULL;
}

/* --- damage ---------------------------------------------------------------- */

/* A thread that stands in malloc has its arena's newest chunk half made: then the place is
 * one that the arena itself names. */
static void hint_if_torn(struct emit *emit, uint64_t p, uint64_t n)
{
    const struct hx_glibc_arena *arena = emit->arena;
    const struct hx_glibc_state_shape *shape = emit->walk->glibc->main[arena->main].shape;
    uint64_t unsorted[2] = {0};
    for (int i = 0; i < 2; i++)
        hx_image_u64(emit->walk->image, arena->addr + shape->bins + 8u * (unsigned)i, &unsorted[i]);
    if (arena->top && (n == arena->top || p == arena->top))
        emit->walk->torn_hints++;
    else if (n && (n == arena->last_remainder || n == unsorted[0] || n == unsorted[1]))
        emit->walk->torn_hints++;
    /* The block before top can still have the size with which it was the top itself. */
    uint64_t candidate[] = {p, n}, words[2];
    for (int i = 0; i < 2; i++) {
        if (candidate[i] >= arena->top || !hx_chunk_header(&emit->cursor, candidate[i], words))
            continue;
        uint64_t size = words[1] & ~(uint64_t)HX_CHUNK_FLAGS;
        if (size > arena->top - candidate[i] && size <= emit->rule.limit - candidate[i] &&
            (candidate[i] + size) % HX_GLIBC_PAGE == 0)
            emit->walk->torn_hints++;
    }
}

/* The run broke: the header at `next` makes no sense, or that at p, which led there. Finds
 * where to go on. Several chunks in a row inside of p's block say that p's size is wrong; one
 * or two can be what an earlier use of that memory left. Then p is a block, as it seems, and
 * the damage begins at next. *ret_resume is UINT64_MAX when nothing follows. */
static hx_error *pass_damage(struct emit *emit, uint64_t p, uint64_t next, uint64_t *ret_end,
                             uint64_t *ret_resume)
{
    uint64_t words[2], size = 0;
    hint_if_torn(emit, p, next);
    if (hx_chunk_header(&emit->cursor, p, words))
        size = words[1] & ~(uint64_t)HX_CHUNK_FLAGS;
    HX_TRY(hx_chunk_resume(emit->walk, &emit->rule, p + 16, ret_resume));
    *ret_end = p;
    if (p + size != next || size < HX_CHUNK_MIN)
        return NULL;
    if (*ret_resume <= next &&
        hx_chunk_count(emit->walk->image, &emit->rule, *ret_resume, next, INSIDE) >= INSIDE)
        return NULL;
    if (*ret_resume <= next)
        HX_TRY(hx_chunk_resume(emit->walk, &emit->rule, next + 16, ret_resume));
    HX_TRY(emit_marked_chunk(emit, p, size));
    emit->walk->n_chunks++;
    *ret_end = next;
    return NULL;
}

/* --- areas ----------------------------------------------------------------- */

static uint64_t top_in(const struct hx_glibc_walk *walk, const struct hx_glibc_area *area)
{
    bool heap = area->kind == HX_AREA_HEAP;
    for (size_t i = heap ? area->arena : 0; i < (heap ? area->arena + 1 : walk->glibc->n_mains);
         i++) {
        uint64_t top = walk->arenas.v[i].top;
        if (top >= area->start && top < area->end)
            return top;
    }
    return 0;
}

/* Continues behind the end of a run in the brk area: memory that other code took with sbrk(),
 * then perhaps another run. UINT64_MAX: nothing follows. */
static hx_error *next_run(struct emit *emit, uint64_t from, uint64_t *ret)
{
    *ret = UINT64_MAX;
    if (emit->area->kind != HX_AREA_BRK || from + HX_CHUNK_MIN > emit->rule.limit)
        return NULL;
    HX_TRY(hx_chunk_resume(emit->walk, &emit->rule, from, ret));
    if (*ret != UINT64_MAX && *ret > from)
        emit->walk->n_foreign++;
    return NULL;
}

static hx_error *walk_area(struct emit *emit)
{
    const struct hx_glibc_area *area = emit->area;
    uint64_t p = area->first, start = area->kind == HX_AREA_BRK ? p : area->start;
    emit->rule = (struct hx_chunk_rule){
        .limit = area->end, .top = top_in(emit->walk, area), .main = area->kind != HX_AREA_HEAP};
    emit->walk->window.start = emit->walk->window.end = 0;
    if (!p) {
        HX_TRY(next_run(emit, area->start, &p));
        start = p;
    }
    while (p != UINT64_MAX && p < area->end) {
        uint64_t end, next;
        HX_TRY(walk_run(emit, p, &end, &next));
        if (next == NO_MORE)
            return put_segment(emit, start, end);
        if (next) {
            uint64_t resume;
            HX_TRY(pass_damage(emit, end, next, &end, &resume));
            /* The first word of a damaged chunk is still the block's before it, and the
             * word at the place to go on belongs to the damage. */
            if (end > start)
                HX_TRY(put_segment(emit, start, end + 8));
            lose_range(emit, end, resume == UINT64_MAX ? area->end : resume);
            start = resume + 8;
            p = resume;
            continue;
        }
        HX_TRY(put_segment(emit, start, end));
        if (emit->rule.top && end > emit->rule.top)
            return NULL;
        HX_TRY(next_run(emit, end, &p));
        start = p;
    }
    return NULL;
}

static hx_error *walk_mmapped(struct emit *emit)
{
    const struct hx_glibc_area *area = emit->area;
    uint64_t end = area->end - (emit->walk->layout->mmapped_header ? 8 : 0);
    HX_TRY(emit_marked_chunk(emit, area->first, end - area->first - 8));
    emit->walk->n_chunks++;
    return put_segment(emit, area->start, area->end);
}

/* --- tcaches without a thread --------------------------------------------------- */

/* Takes the objects at marks out of the graph; what is cached becomes a free range. */
static hx_error *take_out_cached(struct emit *emit, hx_ranges *ret)
{
    uint64_t kept = 0;
    const uint64_t *mark = emit->walk->marks.v, *end = mark + emit->walk->marks.n;
    for (uint64_t i = 0; i < emit->n; i++) {
        uint64_t chunk = emit->addr[i] - 16;
        while (mark < end && (*mark & ~UINT64_C(1)) < chunk)
            mark++;
        if (mark == end || (*mark & ~UINT64_C(1)) != chunk) {
            emit->addr[kept] = emit->addr[i];
            emit->size[kept++] = emit->size[i];
            continue;
        }
        emit->snapshot->heap_bytes -= emit->size[i];
        struct hx_range range = {chunk + 8, emit->addr[i] + emit->size[i]};
        if (*mark & 1)
            continue;
        emit->walk->share->cached_bytes += range.end - range.start;
        HX_NEED(hx_vec_push(ret, range));
    }
    emit->n = kept;
    return NULL;
}

/* Merges sorted ranges into the free ranges; none overlap. */
static hx_error *merge_free(struct emit *emit, const hx_ranges *more)
{
    struct hx_snapshot *snapshot = emit->snapshot;
    struct hx_range *old = snapshot->free_ranges.v;
    size_t n = snapshot->free_ranges.n;
    snapshot->free_ranges.v = NULL;
    snapshot->free_ranges.n = snapshot->free_ranges.cap = 0;
    snapshot->free_bytes = 0;
    hx_error *err = NULL;
    for (size_t i = 0, k = 0; (i < n || k < more->n) && !err;) {
        bool first = k == more->n || (i < n && old[i].start < more->v[k].start);
        const struct hx_range *range = first ? &old[i++] : &more->v[k++];
        err = put_free(emit, range->start, range->end);
    }
    free(old);
    return err;
}

static hx_error *adopt_orphans(struct emit *emit)
{
    hx_ranges more = {0};
    if (!emit->walk->orphans.n)
        return NULL;
    HX_TRY(hx_glibc_adopt(emit->walk));
    hx_error *err = take_out_cached(emit, &more);
    if (!err)
        err = merge_free(emit, &more);
    hx_vec_free(&more);
    return err;
}

/* --- all ------------------------------------------------------------------- */

static hx_error *reserve_heap_objects(struct emit *emit)
{
    struct hx_graph *graph = &emit->snapshot->graph;
    uint64_t max = 0;
    for (size_t i = 0; i < emit->walk->areas.n; i++) {
        uint64_t bytes = emit->walk->areas.v[i].end - emit->walk->areas.v[i].start;
        max += emit->walk->areas.v[i].kind == HX_AREA_MMAPPED ? 1 : bytes / HX_CHUNK_MIN;
        emit->total += bytes;
    }
    if (max > HX_OBJECTS_MAX)
        max = HX_OBJECTS_MAX;
    emit->max = max;
    HX_TRY(hx_big_array(graph->addr, max));
    HX_TRY(hx_big_array(graph->size, max));
    emit->addr = graph->addr;
    emit->size = graph->size;
    return NULL;
}

static hx_error *exclude(const struct hx_glibc_walk *walk, hx_ranges *excluded)
{
    const struct hx_glibc *glibc = walk->glibc;
    for (size_t i = 0; i < glibc->n_mains; i++) {
        const struct hx_glibc_param *param = &walk->param[i];
        if (walk->is_cut)
            continue;
        struct hx_range state = {glibc->main[i].addr,
                                 glibc->main[i].addr + glibc->main[i].shape->size};
        struct hx_range mp = {param->addr, param->addr + walk->layout->param->size};
        if (!hx_vec_push(excluded, state) || (param->addr && !hx_vec_push(excluded, mp)))
            return hx_error_nomem();
    }
    return NULL;
}

static void finish_heap_walk(struct emit *emit)
{
    struct hx_snapshot *snapshot = emit->snapshot;
    struct hx_graph *graph = &snapshot->graph;
    graph->n = (hx_obj)emit->n;
    hx_big_trim(&graph->addr_mem, emit->n * sizeof *graph->addr);
    hx_big_trim(&graph->size_mem, emit->n * sizeof *graph->size);
    uint64_t segments = 0;
    for (size_t i = 0; i < snapshot->segments.n; i++)
        segments += snapshot->segments.v[i].end - snapshot->segments.v[i].start;
    uint64_t held = snapshot->heap_bytes + snapshot->free_bytes;
    emit->walk->share->walked_bytes = segments;
    emit->walk->share->claimed_bytes = segments + emit->walk->damaged_bytes;
    emit->walk->share->cache_known = !emit->walk->is_cut;
    snapshot->overhead_bytes = segments > held ? segments - held : 0;
    if (emit->overfull)
        hx_snapshot_lose(snapshot, "objects beyond what one snapshot can number", emit->overfull, 0,
                         0);
}

hx_error *hx_glibc_run(struct hx_glibc_walk *walk, hx_ranges *excluded)
{
    struct emit emit = {.walk = walk,
                        .snapshot = walk->snapshot,
                        .cursor = hx_chunk_cursor(walk->image),
                        .mark = walk->marks.v,
                        .mark_end = walk->marks.v + walk->marks.n,
                        .tcache_chunk = hx_glibc_tcache_chunk(walk)};
    HX_TRY(reserve_heap_objects(&emit));
    hx_error *err = NULL;
    for (size_t i = 0; i < walk->areas.n && !err; i++) {
        emit.area = &walk->areas.v[i];
        emit.arena = emit.area->kind == HX_AREA_MMAPPED ? NULL : &walk->arenas.v[emit.area->arena];
        err = emit.arena ? walk_area(&emit) : walk_mmapped(&emit);
        emit.done += emit.area->end - emit.area->start;
    }
    if (!err)
        err = adopt_orphans(&emit);
    finish_heap_walk(&emit);
    hx_chunk_cursor_deinit(&emit.cursor);
    return err ? err : exclude(walk, excluded);
}
