/* glibc.c - the allocator of the GNU C library, 64 bit: its table of functions. */
#include "attach/alloc/glibc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "2.36", or as much as is known; NULL: nothing is. */
static char *name_version(const struct hx_glibc_walk *walk)
{
    const struct hx_glibc_layout *layout = walk->layout;
    int minor = walk->glibc->main[0].minor, n = -1;
    char *name = NULL;
    if (minor)
        n = asprintf(&name, "2.%d", minor);
    else if (!walk->layout_certain)
        return NULL;
    else if (layout->first == layout->last)
        n = asprintf(&name, "2.%d", layout->first);
    else
        n = asprintf(&name, "2.%d to 2.%d", layout->first, layout->last);
    return n < 0 ? NULL : name;
}

static bool is_proven_walk(const struct hx_glibc_walk *walk)
{
    int minor = walk->glibc->main[0].minor;
    if (minor)
        return hx_glibc_proven(minor) && hx_glibc_layout_of(minor) == walk->layout;
    for (int i = walk->layout->first; i <= walk->layout->last; i++)
        if (hx_glibc_proven(i))
            return walk->layout_certain;
    return false;
}

/* On what evidence. */
static hx_error *note_evidence(struct hx_glibc_walk *walk, enum hx_walk_verdict verdict)
{
    const struct hx_glibc_main *main = &walk->glibc->main[0];
    static const char *const verdicts[] = {"bins agree", "bins and blocks disagree",
                                           "heap damaged"};
    char others[32] = "", *evidence;
    if (walk->glibc->n_mains > 1)
        snprintf(others, sizeof others, " and %zu more", walk->glibc->n_mains - 1);
    HX_NEED(asprintf(&evidence,
                     "%s, main_arena by shape at %s+0x%lx%s, %zu arenas, %lu chunks walked, %s",
                     main->minor ? "version string" : "no version string, layout by shape",
                     main->module[0] ? main->module : "nameless memory",
                     (unsigned long)main->offset, others, walk->arenas.n,
                     (unsigned long)walk->n_chunks, verdicts[verdict]) >= 0);
    free(walk->share->evidence);
    walk->share->evidence = evidence;
    if (!is_proven_walk(walk))
        hx_snapshot_note(walk->snapshot, false,
                         "this version of glibc is not one of those that heapx was proven on "
                         "(2.31, 2.36, 2.41, 2.43)");
    if (walk->n_foreign)
        hx_snapshot_note(walk->snapshot, false,
                         "%lu ranges of the heap belong to others than malloc",
                         (unsigned long)walk->n_foreign);
    return NULL;
}

static void note_trouble(struct hx_glibc_walk *walk, enum hx_walk_verdict verdict)
{
    struct hx_snapshot *snapshot = walk->snapshot;
    if (walk->n_damaged)
        hx_snapshot_note(snapshot, true,
                         "%lu heap blocks have a damaged header: %lu bytes are not explained",
                         (unsigned long)walk->n_damaged, (unsigned long)walk->damaged_bytes);
    else if (verdict == HX_WALK_BAD && walk->links_damaged)
        hx_snapshot_note(snapshot, true, "links or sizes of free heap blocks are damaged");
    if (walk->tag_faults)
        hx_snapshot_lose(snapshot, "free heap blocks with two sizes", walk->tag_faults, 0, 0);
    if (verdict == HX_WALK_TORN) {
        hx_snapshot_note(snapshot, true,
                         "malloc's lists and counts disagree with the blocks (damaged, or an "
                         "update was under way): a few blocks can be wrong");
        hx_snapshot_lose(snapshot, "malloc's lists or counts that disagree with the blocks", 1, 0,
                         0);
    }
    if (walk->cache_faults) {
        hx_snapshot_note(snapshot, true,
                         "%lu lists of cached blocks lead nowhere: free blocks can count as live",
                         (unsigned long)walk->cache_faults);
        hx_snapshot_lose(snapshot, "lists of cached heap blocks with damaged links",
                         walk->cache_faults, 0, 0);
    }
    if (!walk->param[0].addr) {
        hx_snapshot_note(
            snapshot, true,
            "mp_ was not found: blocks with a mapping of their own are not counted up");
        hx_snapshot_lose(snapshot, "counts of malloc (mp_) not found", 1, 0, 0);
    }
}

/* Do the blocks with mappings of their own add up to what mp_ says? glibc maps before it
 * counts up and counts down before it unmaps, so an update under way shows as one too many
 * (dropped already) or, in mremap, as other bytes; blocks that are missing are damaged. */
static enum hx_walk_verdict check_mmapped(struct hx_glibc_walk *walk)
{
    uint64_t n = 0, bytes = 0;
    for (size_t i = 0; i < walk->glibc->n_mains; i++) {
        if (!walk->param[i].addr)
            return HX_WALK_OK;
        n += (uint64_t)walk->param[i].n_mmaps;
        bytes += walk->param[i].mmapped_mem;
    }
    /* Where the header is not counted, mremap lets the bytes of mp_ drift. */
    if (n == walk->n_mmapped && (bytes == walk->mmapped_bytes || walk->layout->mmapped_header))
        return HX_WALK_OK;
    hx_snapshot_note(walk->snapshot, true,
                     "%lu blocks of %lu bytes have a mapping of their own, mp_ counts %lu of %lu",
                     (unsigned long)walk->n_mmapped, (unsigned long)walk->mmapped_bytes,
                     (unsigned long)n, (unsigned long)bytes);
    if (walk->n_mmapped >= n)
        return HX_WALK_TORN;
    hx_snapshot_lose(walk->snapshot, "heap blocks with a mapping of their own not found",
                     n - walk->n_mmapped,
                     bytes > walk->mmapped_bytes ? bytes - walk->mmapped_bytes : 0, 0);
    return HX_WALK_BAD;
}

static bool is_used(const struct hx_glibc_walk *walk)
{
    for (size_t i = 0; i < walk->arenas.n; i++)
        if (walk->arenas.v[i].top)
            return true;
    return walk->n_mmapped != 0;
}

/* The first thread has called malloc, and so has a tcache; others need not have. */
static bool has_first_thread(const struct hx_snapshot *snapshot)
{
    for (size_t i = 0; i < snapshot->n_threads; i++)
        if (!snapshot->pid || snapshot->thread[i].tid == snapshot->pid)
            return true;
    return false;
}

static void check_tcaches(struct hx_glibc_walk *walk)
{
    struct hx_snapshot *snapshot = walk->snapshot;
    if (!walk->layout->tcache->n || !walk->param[0].tcache_count)
        return;
    if (walk->n_tcaches_lost) {
        hx_snapshot_note(snapshot, true,
                         "%zu tcaches were not recognised: blocks in them count as live",
                         walk->n_tcaches_lost);
        hx_snapshot_lose(snapshot, "tcaches not found", walk->n_tcaches_lost, 0, 0);
    } else if (!walk->n_tcaches && has_first_thread(snapshot)) {
        hx_snapshot_note(snapshot, true,
                         "no thread's tcache was found: blocks in them count as live");
        hx_snapshot_lose(snapshot, "tcaches not found", 1, 0, 0);
    }
}

static enum hx_walk_verdict judge_heap_walk(struct hx_glibc_walk *walk)
{
    if (walk->n_damaged)
        return walk->torn_hints ? HX_WALK_TORN : HX_WALK_BAD;
    enum hx_walk_verdict verdict = hx_glibc_check_bins(walk);
    if (walk->tag_faults)
        verdict = walk->tag_faults > 2 ? HX_WALK_BAD : HX_WALK_TORN;
    walk->links_damaged = verdict == HX_WALK_BAD;
    return verdict;
}

static hx_error *do_walk(struct hx_glibc_walk *walk, hx_ranges *excluded, enum hx_walk_verdict *ret)
{
    HX_TRY(hx_glibc_arenas(walk));
    HX_TRY(hx_glibc_choose(walk));
    HX_TRY(hx_glibc_areas(walk));
    HX_TRY(hx_glibc_run(walk, excluded));
    *ret = judge_heap_walk(walk);
    free(walk->share->version);
    walk->share->version = name_version(walk);
    walk->share->proven = true;
    if (!is_used(walk))
        return NULL;
    enum hx_walk_verdict mmapped = check_mmapped(walk);
    if (*ret == HX_WALK_OK)
        *ret = mmapped;
    check_tcaches(walk);
    HX_TRY(note_evidence(walk, *ret));
    note_trouble(walk, *ret);
    return NULL;
}

void hx_glibc_walk_deinit(struct hx_glibc_walk *walk)
{
    hx_vec_free(&walk->arenas);
    hx_vec_free(&walk->areas);
    hx_vec_free(&walk->marks);
    hx_vec_free(&walk->orphans);
    free(walk->window.steps);
}

static hx_error *glibc_walk(void *state, struct hx_snapshot *snapshot,
                            struct hx_allocator_share *share, hx_ranges *excluded,
                            const struct hx_progress *progress, enum hx_walk_verdict *ret)
{
    struct hx_glibc_walk walk = {.glibc = state,
                                 .snapshot = snapshot,
                                 .share = share,
                                 .image = &snapshot->image,
                                 .progress = progress};
    hx_error *err = do_walk(&walk, excluded, ret);
    hx_glibc_walk_deinit(&walk);
    return err;
}

static void glibc_end(void *state)
{
    free(state);
}

const struct hx_allocator hx_allocator_glibc = {.name = "glibc",
                                                .find = hx_glibc_find,
                                                .guard = hx_glibc_guard,
                                                .walk = glibc_walk,
                                                .end = glibc_end};
