/* glibc_param.c - arenas, mp_ and the choice of a layout on evidence. */
#include "attach/alloc/glibc.h"

#include <string.h>

static uint64_t param_word(const uint8_t *bytes, uint64_t offset)
{
    uint64_t word;
    memcpy(&word, bytes + offset, sizeof word);
    return word;
}

static int32_t param_int_at(const uint8_t *bytes, uint64_t offset)
{
    int32_t word;
    memcpy(&word, bytes + offset, sizeof word);
    return word;
}

/* --- arenas ---------------------------------------------------------------- */

static bool read_arena(const struct hx_glibc_walk *walk, uint32_t main, uint64_t addr,
                       struct hx_glibc_arena *ret, uint64_t *ret_next)
{
    const struct hx_glibc_state_shape *shape = walk->glibc->main[main].shape;
    uint8_t bytes[2304];
    if (shape->size > sizeof bytes || !hx_image_read(walk->image, addr, bytes, shape->size))
        return false;
    *ret = (struct hx_glibc_arena){.addr = addr,
                                   .main = main,
                                   .flags = (uint32_t)param_int_at(bytes, 4),
                                   .top = param_word(bytes, shape->top),
                                   .last_remainder = param_word(bytes, shape->last_remainder),
                                   .system_mem = param_word(bytes, shape->system_mem)};
    *ret_next = param_word(bytes, shape->next);
    /* Before its first memory, top is the unsorted bin. */
    if (ret->top == hx_glibc_bin(shape, addr, 0) ||
        hx_glibc_state_like(shape, addr, bytes) == HX_GLIBC_UNUSED)
        ret->top = 0;
    return true;
}

hx_error *hx_glibc_arenas(struct hx_glibc_walk *walk)
{
    const struct hx_glibc *glibc = walk->glibc;
    struct hx_glibc_arena arena;
    uint64_t first[HX_GLIBC_MAINS] = {0}, next;
    for (uint32_t i = 0; i < glibc->n_mains; i++) {
        if (!read_arena(walk, i, glibc->main[i].addr, &arena, &first[i])) {
            hx_snapshot_note(walk->snapshot, true, "main_arena at 0x%lx could not be read",
                             (unsigned long)glibc->main[i].addr);
            hx_snapshot_lose(walk->snapshot, "arenas unreadable", 1, 0, glibc->main[i].addr);
            arena = (struct hx_glibc_arena){.addr = glibc->main[i].addr, .main = i};
        }
        arena.is_main = true;
        HX_NEED(hx_vec_push(&walk->arenas, arena));
    }
    for (uint32_t i = 0; i < glibc->n_mains; i++) {
        uint64_t at = first[i];
        for (int k = 0; at && at != glibc->main[i].addr && k < HX_GLIBC_ARENAS_MAX; k++) {
            if (at & 7 || !read_arena(walk, i, at, &arena, &next)) {
                hx_snapshot_note(walk->snapshot, true, "the ring of arenas breaks at 0x%lx",
                                 (unsigned long)at);
                hx_snapshot_lose(walk->snapshot, "rings of arenas that break", 1, 0, at);
                break;
            }
            HX_NEED(hx_vec_push(&walk->arenas, arena));
            at = next;
        }
    }
    return NULL;
}

/* --- mp_ ------------------------------------------------------------------- */

/* What must hold, whatever tunables and mallopt did. */
static bool is_param(const struct hx_glibc_walk *walk, const struct hx_glibc_layout *layout,
                     const uint8_t *bytes)
{
    const struct hx_glibc_param_shape *shape = layout->param;
    const uint8_t *count = bytes + shape->n_mmaps;
    int32_t n = param_int_at(count, 0), limit = param_int_at(count, 4),
            max = param_int_at(count, 8);
    int32_t no_dyn = param_int_at(count, 12);
    if (n < 0 || limit < 0 || max < n || no_dyn < 0 || no_dyn > 1)
        return false;
    uint64_t mem = param_word(bytes, shape->mmapped_mem),
             most = param_word(bytes, shape->mmapped_mem + 8u);
    /* In 2.43 each mremap adds 16 bytes too many, which stay. */
    bool drifts = layout->mmapped_header;
    uint64_t odd = drifts ? 15 : HX_GLIBC_PAGE - 1;
    if (mem > most || mem & odd || most & odd || (n && !mem) || (!n && mem && !drifts) ||
        !max != !most || mem / HX_GLIBC_PAGE < (uint64_t)n)
        return false;
    if (param_word(bytes, 24) > 1 << 22 ||
        param_word(bytes, 32) > 1 << 22) /* arena_test, arena_max */
        return false;
    uint64_t base = param_word(bytes, shape->sbrk_base);
    if (base && hx_mapping_find(walk->snapshot->mapping, walk->snapshot->n_mappings, base) ==
                    walk->snapshot->n_mappings)
        return false;
    if (shape->hp_pagesize) {
        uint64_t hp = param_word(bytes, shape->hp_pagesize);
        if (hp & (hp - 1) || (hp && (hp < HX_GLIBC_PAGE || hp > UINT64_C(1) << 40)))
            return false;
    }
    if (shape->tcache) {
        uint64_t bins = param_word(bytes, shape->tcache),
                 bytes_max = param_word(bytes, shape->tcache + 8u);
        if (bins > HX_TCACHE_SMALL_BINS || bytes_max > 8 << 20 ||
            param_word(bytes, shape->tcache + 16u) > UINT16_MAX)
            return false;
    }
    return true;
}

/* How much is as it usually is. */
static int score_param(const struct hx_glibc_walk *walk, const struct hx_glibc_layout *layout,
                       const uint8_t *bytes)
{
    const struct hx_glibc_param_shape *shape = layout->param;
    uint64_t trim = param_word(bytes, 0), mmap_threshold = param_word(bytes, 16);
    uint64_t base = param_word(bytes, shape->sbrk_base);
    int score = 0;
    score += 2 * (param_int_at(bytes, shape->n_mmaps + 4u) == 65536);
    score += 2 * (param_word(bytes, 24) == 8);
    score += param_word(bytes, 8) == 131072;
    score += mmap_threshold == 131072 || (mmap_threshold && trim == 2 * mmap_threshold);
    if (shape->tcache) {
        uint64_t bins = param_word(bytes, shape->tcache),
                 max = param_word(bytes, shape->tcache + 8u);
        score += 2 * (bins == HX_TCACHE_SMALL_BINS && max >= 1032 && max <= 1048);
        score += bins && max / 16 <= bins + 2 && bins <= max / 16 + 2;
        score += param_word(bytes, shape->tcache + 16u) == (layout->first >= 43 ? 16 : 7);
    }
    if (base) {
        const struct hx_snapshot *snapshot = walk->snapshot;
        size_t i = hx_mapping_find(snapshot->mapping, snapshot->n_mappings, base);
        score += 3 * (i < snapshot->n_mappings && hx_mapping_is_brk(&snapshot->mapping[i]));
    }
    return score;
}

struct hx_glibc_param hx_glibc_param_find(const struct hx_glibc_walk *walk, size_t main,
                                          const struct hx_glibc_layout *layout)
{
    const struct hx_glibc_main *home = &walk->glibc->main[main];
    const struct hx_glibc_param_shape *shape = layout->param;
    struct hx_glibc_param best = {.score = 5}; /* a chance find has less */
    HX_PEEKED peeked = {0};
    for (size_t i = hx_image_find(walk->image, home->data_start);
         i < walk->image->n && walk->image->span[i].start < home->data_end; i++) {
        const struct hx_span *span = &walk->image->span[i];
        uint64_t from = span->start > home->data_start ? span->start : home->data_start;
        uint64_t to = span->end < home->data_end ? span->end : home->data_end;
        for (uint64_t at = from; at + shape->size <= to; at += 8) {
            const uint8_t *bytes =
                (const uint8_t *)hx_image_peek(walk->image, at, (shape->size + 7) / 8, &peeked);
            if (!bytes)
                break;
            /* Cheap and telling: arena_test is small, and so is arena_max. */
            if (param_word(bytes, 24) > 1 << 22 || param_word(bytes, 32) > 1 << 22 ||
                !is_param(walk, layout, bytes))
                continue;
            int score = score_param(walk, layout, bytes);
            score += at < home->addr + 65536 && home->addr < at + 65536;
            if (score > best.score)
                best = (struct hx_glibc_param){
                    .addr = at,
                    .sbrk_base = param_word(bytes, shape->sbrk_base),
                    .mmapped_mem = param_word(bytes, shape->mmapped_mem),
                    .hp_pagesize = shape->hp_pagesize ? param_word(bytes, shape->hp_pagesize) : 0,
                    .tcache_count = shape->tcache ? param_word(bytes, shape->tcache + 16u) : 0,
                    .n_mmaps = param_int_at(bytes, shape->n_mmaps),
                    .score = score};
        }
    }
    return best;
}

/* --- choice ---------------------------------------------------------------- */

/* Does struct heap_info of the other arenas have the size of this layout? Positive: yes. */
static int score_heap_info(const struct hx_glibc_walk *walk, const struct hx_glibc_layout *layout)
{
    for (size_t i = 0; i < walk->arenas.n; i++)
        if (!walk->arenas.v[i].is_main)
            return (walk->arenas.v[i].addr & 4095) == layout->heap_info ? 4 : -4;
    return 0;
}

/* Nothing speaks against it: then the others need not be tried. */
enum { SCORE_FULL = 14 };

static hx_error *try_layout(struct hx_glibc_walk *walk, const struct hx_glibc_layout *layout,
                            int *ret_score)
{
    uint64_t good, bad;
    walk->layout = layout;
    for (size_t i = 0; i < walk->glibc->n_mains; i++)
        walk->param[i] = hx_glibc_param_find(walk, i, layout);
    HX_TRY(hx_glibc_caches(walk, &good, &bad));
    *ret_score = walk->param[0].score + score_heap_info(walk, layout);
    if (walk->n_tcaches)
        *ret_score += 4;
    if (good > bad)
        *ret_score += 4;
    if (bad > good)
        *ret_score -= 8;
    return NULL;
}

hx_error *hx_glibc_choose(struct hx_glibc_walk *walk)
{
    const struct hx_glibc_main *main = &walk->glibc->main[0];
    const struct hx_glibc_layout *said = main->minor ? hx_glibc_layout_of(main->minor) : NULL;
    const struct hx_glibc_layout *best = NULL;
    int best_score = 0, second = 0, score;
    if (said && said->state == main->shape) {
        HX_TRY(try_layout(walk, said, &score));
        walk->layout_certain = true;
        if (score >= SCORE_FULL && !walk->cache_faults)
            return NULL;
    }
    for (size_t i = hx_glibc_n_layouts; i-- > 0;) {
        const struct hx_glibc_layout *layout = &hx_glibc_layouts[i];
        if (layout->state != main->shape)
            continue;
        HX_TRY(try_layout(walk, layout, &score));
        score += 100 + 3 * (layout == said);
        if (score > best_score) {
            second = best_score;
            best = layout;
            best_score = score;
        } else if (score > second) {
            second = score;
        }
    }
    walk->layout_certain = best_score > second;
    return try_layout(walk, best, &score);
}
