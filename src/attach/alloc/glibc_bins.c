/* glibc_bins.c - the self-check of a walk: bins against tags.
 *
 * The links of all free chunks and bin heads of an arena are a permutation of their
 * addresses exactly when the bins hold what the tags call free. Sums over the walk prove
 * that without following a list; only when they differ are the lists followed.
 */
#include "attach/alloc/glibc.h"

/* Adds the bin heads of an arena. */
static void add_heads(const struct hx_glibc_walk *walk, const struct hx_glibc_arena *arena,
                      struct hx_glibc_sums *sums)
{
    const struct hx_glibc_state_shape *shape = walk->glibc->main[arena->main].shape;
    for (unsigned i = 0; i < HX_GLIBC_BINS; i++) {
        uint64_t links[2];
        if (!hx_image_read(walk->image, arena->addr + shape->bins + 16u * i, links, sizeof links))
            continue;
        sums->self += hx_glibc_mix(hx_glibc_bin(shape, arena->addr, i));
        sums->next += hx_glibc_mix(links[0]);
        sums->prev += hx_glibc_mix(links[1]);
    }
}

/* Follows one bin. *ret_n counts its chunks; false at a link that leads to no chunk. */
static bool follow_bin(const struct hx_glibc_walk *walk, uint64_t bin, uint64_t max,
                       uint64_t *ret_n, uint64_t *ret_bad)
{
    uint64_t links[2], at, before = bin;
    if (!hx_image_u64(walk->image, bin + 16, &at))
        return true;
    while (at != bin && *ret_n <= max) {
        *ret_bad = before;
        if (at & 15 || !hx_image_read(walk->image, at + 16, links, sizeof links))
            return false;
        if (links[1] != before)
            return true; /* half an update: the sums have told */
        before = at;
        at = links[0];
        ++*ret_n;
    }
    return true;
}

/* Is an arena's disagreement due to links that lead nowhere? Counts them. */
static uint64_t damaged_links(struct hx_glibc_walk *walk, const struct hx_glibc_arena *arena)
{
    const struct hx_glibc_state_shape *shape = walk->glibc->main[arena->main].shape;
    uint64_t n = 0, damaged = 0, damaged_at = 0;
    for (unsigned i = 0; i < HX_GLIBC_BINS; i++) {
        uint64_t bin = hx_glibc_bin(shape, arena->addr, i);
        if (!follow_bin(walk, bin, arena->sums.n + 1, &n, &damaged_at)) {
            damaged++;
            hx_snapshot_lose(walk->snapshot, "free heap blocks with damaged links", 1, 0,
                             damaged_at);
        }
    }
    return damaged;
}

static bool bins_agree(const struct hx_glibc_sums *sums)
{
    return sums->self == sums->next && sums->self == sums->prev;
}

enum hx_walk_verdict hx_glibc_check_bins(struct hx_glibc_walk *walk)
{
    struct hx_glibc_sums mains = {0};
    enum hx_walk_verdict verdict = HX_WALK_OK;
    uint64_t damaged = 0;
    bool differ = false;
    for (size_t i = 0; i < walk->arenas.n; i++) {
        struct hx_glibc_arena *arena = &walk->arenas.v[i];
        if (arena->top)
            add_heads(walk, arena, &arena->sums);
        if (arena->is_main) { /* several copies of libc share the brk area */
            mains.self += arena->sums.self;
            mains.next += arena->sums.next;
            mains.prev += arena->sums.prev;
        } else if (!bins_agree(&arena->sums)) {
            differ = true;
            damaged += damaged_links(walk, arena);
        }
    }
    if (!bins_agree(&mains)) {
        differ = true;
        for (size_t i = 0; i < walk->arenas.n; i++)
            if (walk->arenas.v[i].is_main)
                damaged += damaged_links(walk, &walk->arenas.v[i]);
    }
    if (differ)
        verdict = damaged ? HX_WALK_BAD : HX_WALK_TORN;
    return verdict;
}
