/* glibc_cut.c - the heap of an image that main_arena is missing from: a core that ends before
 * libc's data usually has all of brk's memory, which comes early in the file.
 *
 * The heap is proven by its structure: a chain of many chunks, in which each free one is named by
 * the chunk behind it and lies beside no other free one, from the first byte of the memory to the
 * top chunk, which ends with it, or to where memory is missing. The tcache of the first thread is
 * the first chunk; its size and the way its links are written tell the layout. Arenas of threads
 * keep their state in their own memory.
 */
#include "attach/alloc/glibc.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHAIN_LONG = 64, /* chunks that are proof without a top */
    CHAIN_SHORT = 4, /* chunks that are proof with one */
    FAULTS = 8,      /* disagreements that a chain may have, */
    FAULTS_IN = 32,  /* and one more in so many chunks */
    LOOK_UP = 4096,  /* chunks between two tests for cancellation */
};

/* Where the heaps of other arenas begin, unless huge pages move them. */
#define HEAP_STEP (UINT64_C(64) << 20)

/* What a chain of chunks adds up to. */
struct chain {
    uint64_t first, top;     /* 0: not there */
    uint64_t chunks, faults; /* a fault: two words that disagree, or a header that is insane */
};

/* --- proof ----------------------------------------------------------------- */

static bool has_too_many_faults(const struct chain *chain)
{
    return chain->faults > FAULTS + chain->chunks / FAULTS_IN;
}

/* The top chunk, which ends where the memory does: no other one can. */
static bool is_top(const struct hx_chunk_rule *rule, uint64_t p, uint64_t head)
{
    uint64_t size = head & ~(uint64_t)HX_CHUNK_FLAGS;
    return (head & 15) == HX_CHUNK_PREV_INUSE && size >= HX_CHUNK_MIN && size == rule->limit - p;
}

/* Does the header behind a chunk agree with it? */
static bool agrees(const uint64_t words[2], const uint64_t next[2])
{
    uint64_t size = words[1] & ~(uint64_t)HX_CHUNK_FLAGS;
    return next[1] & HX_CHUNK_PREV_INUSE || (next[0] == size && words[1] & HX_CHUNK_PREV_INUSE);
}

bool hx_glibc_ends_image(const struct hx_image *image, uint64_t from, uint64_t end)
{
    size_t i = hx_image_find(image, from);
    return i == image->n || image->span[i].start >= end;
}

/* Follows the chain from `from` (not 0) on. Damage is passed over while there is little of it. */
static hx_error *follow_chunk_chain(struct hx_glibc_walk *walk, const struct hx_chunk_rule *rule,
                                    uint64_t from, struct chain *ret)
{
    HX_CHUNK_CURSOR cursor = hx_chunk_cursor(walk->image);
    uint64_t words[2], next[2], size, p = from;
    *ret = (struct chain){.first = from};
    walk->window.start = walk->window.end = 0;
    while (p != UINT64_MAX && p < rule->limit && !has_too_many_faults(ret)) {
        if (ret->chunks % LOOK_UP == 0 && hx_progress_cancelled(walk->progress))
            return hx_error_cancelled("heap");
        if (!hx_chunk_header(&cursor, p, words))
            return NULL;
        enum hx_chunk_end end = hx_chunk_judge(&cursor, rule, p, words[1], &size);
        if (end == HX_CHUNK_GOES_ON && hx_chunk_header(&cursor, p + size, next)) {
            ret->faults += !agrees(words, next);
            ret->chunks++;
            p += size;
            continue;
        }
        if (end == HX_CHUNK_GOES_ON && hx_glibc_ends_image(walk->image, p + size, rule->limit))
            return NULL;
        if (end == HX_CHUNK_INSANE && is_top(rule, p, words[1])) {
            ret->top = p;
            return NULL;
        }
        ret->faults += end != HX_CHUNK_FENCE;
        HX_TRY(hx_chunk_resume(walk, rule, end == HX_CHUNK_FENCE ? p + size : p + 16, &p));
    }
    return NULL;
}

static bool is_proven_chain(const struct chain *chain)
{
    return !has_too_many_faults(chain) &&
           chain->chunks >= (chain->top ? (uint64_t)CHAIN_SHORT : (uint64_t)CHAIN_LONG);
}

/* --- brk's memory ---------------------------------------------------------- */

static bool is_anonymous_mapping(const struct hx_mapping *mapping)
{
    return !mapping->inode && !mapping->path[0] && !(mapping->prot & HX_PROT_SHARED);
}

/* The mapping behind the last one that adjoins mapping i and is of its kind. */
static size_t run_end(const struct hx_snapshot *snapshot, size_t i)
{
    const struct hx_mapping *mapping = snapshot->mapping;
    bool named = hx_mapping_is_brk(&mapping[i]);
    size_t k = i + 1;
    while (k < snapshot->n_mappings && mapping[k].start == mapping[k - 1].end &&
           (named ? hx_mapping_is_brk(&mapping[k]) : is_anonymous_mapping(&mapping[k])))
        k++;
    return k;
}

/* Without the kernel's word for it the memory has to begin as a heap does. */
static bool begins_heap(const struct hx_glibc_walk *walk, uint64_t start)
{
    uint64_t words[2];
    return hx_image_read(walk->image, start, words, sizeof words) && !words[0] &&
           (words[1] & 15) == HX_CHUNK_PREV_INUSE && words[1] > HX_CHUNK_MIN;
}

/* Memory from mapping i on; *ret is zero where it is no heap. */
static hx_error *try_memory(struct hx_glibc_walk *walk, size_t i, size_t end, struct chain *ret)
{
    const struct hx_mapping *mapping = walk->snapshot->mapping;
    struct hx_chunk_rule rule = {.limit = mapping[end - 1].end, .main = true};
    struct chain chain = {0};
    uint64_t start = mapping[i].start;
    *ret = chain;
    if (begins_heap(walk, start))
        HX_TRY(follow_chunk_chain(walk, &rule, start, &chain));
    if (!is_proven_chain(&chain) &&
        hx_mapping_is_brk(&mapping[i])) { /* somebody else took memory first */
        walk->window.start = walk->window.end = 0;
        HX_TRY(hx_chunk_resume(walk, &rule, start, &start));
        if (start != UINT64_MAX)
            HX_TRY(follow_chunk_chain(walk, &rule, start, &chain));
    }
    if (is_proven_chain(&chain))
        *ret = chain;
    return NULL;
}

static hx_error *name_heap_mapping(struct hx_snapshot *snapshot, size_t i, size_t end)
{
    for (; i < end; i++) {
        char *path = strdup("[heap]");
        HX_NEED(path);
        free(snapshot->mapping[i].path);
        snapshot->mapping[i].path = path;
    }
    return NULL;
}

/* Looks for brk's memory: where a mapping is called so, else in what has no name. */
static hx_error *find_memory(struct hx_glibc_walk *walk, struct chain *ret)
{
    struct hx_snapshot *snapshot = walk->snapshot;
    bool named = false;
    *ret = (struct chain){0};
    for (size_t i = 0; i < snapshot->n_mappings; i++)
        named |= hx_mapping_is_brk(&snapshot->mapping[i]);
    for (size_t i = 0, end; i < snapshot->n_mappings && !ret->chunks; i = end) {
        const struct hx_mapping *mapping = &snapshot->mapping[i];
        end = i + 1;
        if (named ? !hx_mapping_is_brk(mapping)
                  : !is_anonymous_mapping(mapping) || !(mapping->prot & HX_PROT_W) ||
                        !begins_heap(walk, mapping->start))
            continue;
        end = run_end(snapshot, i);
        HX_TRY(try_memory(walk, i, end, ret));
        if (ret->chunks && !named)
            HX_TRY(name_heap_mapping(snapshot, i, end));
    }
    return NULL;
}

/* --- arenas of threads ------------------------------------------------------ */

/* An arena's first heap begins with the address of the state that lies behind its header. */
static hx_error *add_arena(struct hx_glibc_walk *walk, uint64_t heap)
{
    const struct hx_glibc_state_shape *shape = walk->layout->state;
    uint64_t addr = heap + walk->layout->heap_info, words[2];
    uint8_t bytes[2304];
    if (!hx_image_read(walk->image, heap, words, sizeof words) || words[0] != addr || words[1] ||
        shape->size > sizeof bytes || !hx_image_read(walk->image, addr, bytes, shape->size) ||
        hx_glibc_state_like(shape, addr, bytes) != HX_GLIBC_USED)
        return NULL;
    struct hx_glibc_arena arena = {.addr = addr};
    memcpy(&arena.top, bytes + shape->top, sizeof arena.top);
    memcpy(&arena.last_remainder, bytes + shape->last_remainder, sizeof arena.last_remainder);
    memcpy(&arena.system_mem, bytes + shape->system_mem, sizeof arena.system_mem);
    if (arena.top == hx_glibc_bin(shape, addr, 0))
        arena.top = 0;
    return hx_vec_push(&walk->arenas, arena) ? NULL : hx_error_nomem();
}

static hx_error *find_arenas(struct hx_glibc_walk *walk)
{
    const struct hx_image *image = walk->image;
    walk->arenas.n = 1; /* main_arena's place */
    for (size_t i = 0; i < image->n && walk->arenas.n < HX_GLIBC_ARENAS_MAX; i++) {
        uint64_t at = (image->span[i].start + HEAP_STEP - 1) & -HEAP_STEP;
        for (; at >= image->span[i].start && at < image->span[i].end; at += HEAP_STEP)
            HX_TRY(add_arena(walk, at));
    }
    return NULL;
}

/* --- layout ------------------------------------------------------------------ */

/* Free slots in a tcache of which none is used up tell versions apart that count slots. */
static bool has_usual_slots(const struct hx_glibc_walk *walk)
{
    const struct hx_glibc_tcache_shape *shape = walk->layout->tcache;
    uint16_t slots[HX_TCACHE_BINS_MAX], most = 0;
    if (!shape->slots ||
        !hx_image_read(walk->image, walk->first_chunk + 16, slots, shape->n * sizeof *slots))
        return false;
    for (unsigned i = 0; i < shape->n; i++)
        most = slots[i] > most ? slots[i] : most;
    return most == (walk->layout->first >= 43 ? 16 : 7);
}

static hx_error *take_layout(struct hx_glibc_walk *walk, struct hx_glibc *glibc,
                             const struct hx_glibc_layout *layout, int64_t *ret_score)
{
    uint64_t good, bad;
    walk->layout = layout;
    glibc->main[0].shape = layout->state;
    HX_TRY(find_arenas(walk));
    HX_TRY(hx_glibc_caches(walk, &good, &bad));
    /* Arenas have links to each other, tcaches links that can be followed: the more the better. */
    *ret_score = 8 * ((int64_t)walk->arenas.n - 1) + 4 * (walk->n_tcaches != 0) + (int64_t)good -
                 8 * (int64_t)bad + 2 * has_usual_slots(walk);
    return NULL;
}

/* The newest one of those that explain the most. */
static hx_error *choose_layout(struct hx_glibc_walk *walk, struct hx_glibc *glibc)
{
    const struct hx_glibc_layout *best = NULL;
    int64_t best_score = 0, score;
    for (size_t i = hx_glibc_n_layouts; i-- > 0;) {
        HX_TRY(take_layout(walk, glibc, &hx_glibc_layouts[i], &score));
        if (!best || score > best_score) {
            best = &hx_glibc_layouts[i];
            best_score = score;
        }
    }
    return take_layout(walk, glibc, best, &score);
}

/* --- what is said ------------------------------------------------------------ */

static void note_missing_main_arena(struct hx_glibc_walk *walk, const struct chain *chain)
{
    struct hx_snapshot *snapshot = walk->snapshot;
    hx_snapshot_note(snapshot, true,
                     "glibc without main_arena, which is in the memory that is missing: the heap "
                     "at 0x%" PRIx64 " was found by its structure, %" PRIu64
                     " chunks walked %s, %zu other arenas",
                     chain->first, walk->n_chunks,
                     chain->top ? "up to the top" : "up to where memory is missing",
                     walk->arenas.n - 1);
    if (walk->layout->state->n_fastbins) {
        hx_snapshot_note(snapshot, true,
                         "which of its free blocks are in fastbins is not known: they count as "
                         "objects");
        hx_snapshot_lose(snapshot, "fastbins of main_arena", 1, 0, 0);
    }
    hx_snapshot_note(snapshot, true,
                     "variables and stacks in the missing memory are no roots: what only they hold "
                     "counts as lost, so that leaks are not proven");
    if (walk->n_damaged)
        hx_snapshot_note(snapshot, true,
                         "%" PRIu64 " heap blocks have a damaged header: %" PRIu64
                         " bytes are not explained",
                         walk->n_damaged, walk->damaged_bytes);
    if (walk->lists_cut)
        hx_snapshot_note(snapshot, true,
                         "%" PRIu64 " lists of cached blocks lead into memory that is missing: "
                         "free blocks can count as live",
                         walk->lists_cut);
    if (walk->cache_faults)
        hx_snapshot_note(snapshot, true,
                         "%" PRIu64 " lists of cached blocks lead nowhere: free blocks can count "
                         "as live",
                         walk->cache_faults);
    if (walk->lists_cut + walk->cache_faults)
        hx_snapshot_lose(snapshot, "lists of cached heap blocks that could not be followed",
                         walk->lists_cut + walk->cache_faults, 0, 0);
    if (walk->tag_faults)
        hx_snapshot_lose(snapshot, "free heap blocks with two sizes", walk->tag_faults, 0, 0);
}

static hx_error *walk_found(struct hx_glibc_walk *walk, struct hx_glibc *glibc,
                            const struct chain *chain, hx_ranges *excluded)
{
    struct hx_glibc_arena arena = {.is_main = true, .top = chain->top};
    HX_NEED(hx_vec_push(&walk->arenas, arena));
    walk->param[0].sbrk_base = chain->first;
    walk->first_chunk = chain->first;
    HX_TRY(choose_layout(walk, glibc));
    HX_TRY(hx_glibc_areas(walk));
    HX_TRY(hx_glibc_run(walk, excluded));
    note_missing_main_arena(walk, chain);
    walk->share->proven = true;
    walk->share->name = strdup("glibc");
    walk->share->evidence = strdup("by the structure of its blocks alone");
    HX_NEED(walk->share->name && walk->share->evidence);
    return NULL;
}

hx_error *hx_glibc_walk_cut(struct hx_snapshot *snapshot, struct hx_allocator_share *share,
                            hx_ranges *excluded, const struct hx_progress *progress,
                            enum hx_walk_verdict *ret_verdict, bool *ret_found)
{
    struct hx_glibc *glibc = calloc(1, sizeof *glibc);
    struct hx_glibc_walk walk = {.glibc = glibc,
                                 .snapshot = snapshot,
                                 .share = share,
                                 .image = &snapshot->image,
                                 .progress = progress,
                                 .is_cut = true};
    struct chain chain;
    HX_NEED(glibc);
    glibc->n_mains = 1;
    hx_error *err = find_memory(&walk, &chain);
    if (!err && chain.chunks)
        err = walk_found(&walk, glibc, &chain, excluded);
    *ret_found = chain.chunks != 0;
    *ret_verdict = walk.n_damaged ? HX_WALK_BAD : HX_WALK_OK;
    hx_glibc_walk_deinit(&walk);
    free(glibc);
    return err;
}
