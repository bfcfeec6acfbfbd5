/* glibc_cache.c - chunks that their tags call in use although they are free: those in a
 * thread's tcache and in fastbins.
 *
 * A thread keeps the address of its tcache in thread-local storage of libc, at the same
 * distance from the thread pointer in all threads. That distance is the one under which
 * most threads have a word that leads to a valid tcache.
 */
#include "attach/alloc/glibc.h"
#include "base/cleanup.h"

#include <stdlib.h>
#include <string.h>

enum {
    TLS_WINDOW = 64 << 10,    /* below the thread pointer: modules' thread-local storage */
    TLS_WINDOW_FAR = 2 << 20, /* when a program has a lot of it */
    ARENA_WINDOW = 128,       /* between the words for a thread's tcache and its arena */
    CHAIN_MAX = 65537,        /* tcache counts have 16 bits; one more for a torn update */
};

/* --- chains ---------------------------------------------------------------- */

/* Size of the chunk whose block is at mem; 0 when that is none. */
static uint64_t chunk_size_of(const struct hx_glibc_walk *walk, uint64_t mem)
{
    uint64_t head;
    if (mem & 15 || mem < 16 || !hx_image_u64(walk->image, mem - 8, &head))
        return 0;
    if (head & (HX_CHUNK_MMAPPED | 8))
        return 0;
    return head & ~(uint64_t)HX_CHUNK_FLAGS;
}

static bool next_link(const struct hx_glibc_walk *walk, uint64_t at, uint64_t *ret)
{
    if (!hx_image_u64(walk->image, at, ret))
        return false;
    if (walk->layout->safe_linking)
        *ret ^= at >> 12;
    return true;
}

static uint64_t request_to_chunk(uint64_t bytes)
{
    return (bytes + 8 + 15) & ~UINT64_C(15);
}

/* Sizes that bin i of a tcache holds; bins from 64 on hold powers of two. */
static bool fits_bin(uint64_t size, unsigned i)
{
    if (i < HX_TCACHE_SMALL_BINS)
        return size == 32 + 16 * (uint64_t)i;
    return size > 32 + 16 * (HX_TCACHE_SMALL_BINS - 1);
}

/* Does mem lead into memory that the image should have? */
static bool is_missing(const struct hx_glibc_walk *walk, uint64_t mem)
{
    const struct hx_snapshot *snapshot = walk->snapshot;
    uint64_t head;
    return walk->is_cut && !(mem & 15) && !hx_image_u64(walk->image, mem - 8, &head) &&
           hx_mapping_find(snapshot->mapping, snapshot->n_mappings, mem) < snapshot->n_mappings;
}

struct tcache {
    uint64_t chunk;
    unsigned counts[HX_TCACHE_BINS_MAX];
    uint64_t entries[HX_TCACHE_BINS_MAX];
    unsigned empty_bins, used_bins;
};

/* Is the block at mem the only one of a mapping that was made for a tcache? So it is where
 * blocks of that size have mappings of their own (mmap_threshold). */
static bool fills_mapping(const struct hx_glibc_walk *walk, uint64_t mem)
{
    uint64_t words[2], header = walk->layout->mmapped_header ? HX_CHUNK_HEADER : 0;
    uint64_t total = request_to_chunk(walk->layout->tcache->size) + 8 + HX_GLIBC_PAGE - 1;
    total &= -(uint64_t)HX_GLIBC_PAGE;
    return mem % HX_GLIBC_PAGE == HX_CHUNK_HEADER &&
           hx_image_read(walk->image, mem - HX_CHUNK_HEADER, words, sizeof words) && !words[0] &&
           words[1] == total - header + HX_CHUNK_MMAPPED;
}

static bool read_tcache(const struct hx_glibc_walk *walk, uint64_t mem, struct tcache *ret)
{
    const struct hx_glibc_tcache_shape *shape = walk->layout->tcache;
    uint8_t bytes[HX_TCACHE_BINS_MAX * 10];
    uint64_t size = chunk_size_of(walk, mem);
    /* Also when the remainder was too small to be split off: behind an aligned block that is
     * what is no larger than the smallest chunk. */
    uint64_t least = request_to_chunk(shape->size);
    bool fits = size >= least && size <= least + HX_CHUNK_MIN;
    if ((!fits && (size || !fills_mapping(walk, mem))) ||
        !hx_image_read(walk->image, mem, bytes, shape->size))
        return false;
    *ret = (struct tcache){.chunk = mem - 16};
    for (unsigned i = 0; i < shape->n; i++) {
        if (shape->count_size == 1) {
            ret->counts[i] = bytes[i];
        } else {
            uint16_t count;
            memcpy(&count, bytes + 2 * i, 2);
            ret->counts[i] = count;
        }
        memcpy(&ret->entries[i], bytes + shape->n * shape->count_size + 8 * i, 8);
        if (ret->entries[i])
            ret->used_bins++;
        else
            ret->empty_bins++;
    }
    return true;
}

/* Free slots to counts, by mp_'s limit, else by the value that empty bins still have. */
static void slots_to_counts(const struct hx_glibc_walk *walk, struct tcache *tcache)
{
    unsigned n = walk->layout->tcache->n, max = 0;
    if (walk->param[0].addr && walk->param[0].tcache_count <= UINT16_MAX)
        max = (unsigned)walk->param[0].tcache_count;
    for (unsigned i = 0; i < n; i++)
        if (tcache->counts[i] > max)
            max = tcache->counts[i];
    for (unsigned i = 0; i < n; i++)
        tcache->counts[i] = max - tcache->counts[i];
}

/* Does it look like a tcache? Counts may be off by one: a thread can stand between the two
 * stores of an update. *ret_off counts such bins. */
static bool is_tcache(const struct hx_glibc_walk *walk, uint64_t mem, struct tcache *ret,
                      unsigned *ret_off)
{
    const struct hx_glibc_tcache_shape *shape = walk->layout->tcache;
    *ret_off = 0;
    if (!read_tcache(walk, mem, ret))
        return false;
    if (shape->slots)
        slots_to_counts(walk, ret);
    for (unsigned i = 0; i < shape->n; i++) {
        if (ret->entries[i] && !is_missing(walk, ret->entries[i]) &&
            !fits_bin(chunk_size_of(walk, ret->entries[i]), i))
            return false;
        if (!ret->entries[i] != !ret->counts[i]) {
            (*ret_off)++;
            if (ret->counts[i] > 1)
                return false;
        }
    }
    return *ret_off <= 1;
}

static hx_error *mark_cached_chunk(struct hx_glibc_walk *walk, uint64_t chunk)
{
    return hx_vec_push(&walk->marks, chunk) ? NULL : hx_error_nomem();
}

/* A list of cached chunks. */
struct chain {
    uint64_t head;   /* value of the first link */
    uint64_t offset; /* from what a link names (the block, or the chunk) to the block */
    uint64_t size;   /* of every chunk; 0: use bin */
    unsigned bin;
    uint64_t max; /* how long it may be */
};

/* Marks the chunks of a list. Loops are seen by Brent's method, so that the work is linear in
 * the list. *ret_clean: it ends as it should. */
static hx_error *follow_free_list(struct hx_glibc_walk *walk, const struct chain *chain,
                                  uint64_t *ret_n, bool *ret_clean)
{
    uint64_t at = chain->head, anchor = 0, power = 1, since = 0;
    *ret_n = 0;
    *ret_clean = false;
    while (at && *ret_n < chain->max) {
        uint64_t mem = at + chain->offset, next;
        uint64_t size = chunk_size_of(walk, mem);
        if (is_missing(walk, mem)) {
            walk->lists_cut++;
            return NULL;
        }
        if (chain->size ? size != chain->size : !fits_bin(size, chain->bin))
            return NULL;
        if (at == anchor)
            return NULL;
        if (++since == power) {
            anchor = at;
            power *= 2;
            since = 0;
        }
        HX_TRY(mark_cached_chunk(walk, mem - 16));
        ++*ret_n;
        if (!next_link(walk, mem, &next))
            return NULL;
        at = next;
    }
    *ret_clean = at == 0;
    return NULL;
}

/* --- tcaches --------------------------------------------------------------- */

static hx_error *take_tcache(struct hx_glibc_walk *walk, const struct tcache *tcache,
                             uint64_t *ret_good, uint64_t *ret_bad)
{
    HX_TRY(mark_cached_chunk(walk, tcache->chunk | 1));
    walk->n_tcaches++;
    for (unsigned i = 0; i < walk->layout->tcache->n; i++) {
        struct chain chain = {.head = tcache->entries[i], .bin = i, .max = CHAIN_MAX};
        uint64_t n;
        bool clean;
        uint64_t cut = walk->lists_cut;
        HX_TRY(follow_free_list(walk, &chain, &n, &clean));
        *ret_good += n;
        if (walk->lists_cut > cut)
            continue;
        uint64_t count = tcache->counts[i];
        if (!clean || n > count + 1 || count > n + 1)
            ++*ret_bad;
        else if (n && !walk->tcache_key)
            hx_image_u64(walk->image, tcache->entries[i] + 8, &walk->tcache_key);
    }
    return NULL;
}

/* A distance from the thread pointer, and what was found there in the threads. */
struct distance {
    uint64_t bytes;
    uint64_t valid, filled, near_arena;
};
typedef HX_VEC(struct distance) distances;

static int compare_chunk_sizes(const void *a, const void *b)
{
    const struct distance *x = a, *y = b;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* Does a word near `at` lead to an arena, as the one in which libc keeps the thread's arena
 * does? It lies beside that of the tcache. */
static bool is_near_arena(const struct hx_glibc_walk *walk, uint64_t at)
{
    for (uint64_t near = at - ARENA_WINDOW; near <= at + ARENA_WINDOW; near += 8) {
        uint64_t word;
        if (!hx_image_u64(walk->image, near, &word) || !word)
            continue;
        if (word % HX_GLIBC_HEAP_ALIGN == walk->layout->heap_info)
            return true;
        for (size_t i = 0; i < walk->glibc->n_mains; i++)
            if (word == walk->glibc->main[i].addr)
                return true;
    }
    return false;
}

/* Collects the distances in (near, far] at which the thread has a valid tcache. */
static hx_error *search_below(struct hx_glibc_walk *walk, const struct hx_thread *thread,
                              uint64_t near, uint64_t far, distances *ret)
{
    struct tcache tcache;
    unsigned off;
    if (!thread->tp || thread->tp & 7 || thread->tp <= far)
        return NULL;
    uint64_t low = thread->tp - far, high = thread->tp - near;
    HX_PEEKED peeked = {0};
    for (size_t i = hx_image_find(walk->image, low);
         i < walk->image->n && walk->image->span[i].start < high; i++) {
        const struct hx_span *span = &walk->image->span[i];
        uint64_t from = span->start > low ? span->start : low;
        uint64_t to = span->end < high ? span->end : high;
        for (uint64_t at = from; at + 8 <= to; at += 8) {
            const uint64_t *here = hx_image_peek(walk->image, at, 1, &peeked);
            const uint64_t word = here ? *here : 0;
            if (word < 4096 || word & 15 || word >> 47 || !is_tcache(walk, word, &tcache, &off))
                continue;
            struct distance found = {.bytes = thread->tp - at,
                                     .valid = 1,
                                     .filled = tcache.used_bins != 0,
                                     .near_arena = is_near_arena(walk, at)};
            HX_NEED(hx_vec_push(ret, found));
        }
    }
    return NULL;
}

static uint64_t tcache_distance_weight(const struct distance *distance)
{
    return (distance->filled + distance->near_arena) * 4 + distance->valid;
}

/* The distance that the most threads agree on, preferring tcaches that hold something and those
 * beside the thread's arena, then the nearest; 0: none. */
static uint64_t best_distance(distances *list)
{
    struct distance best = {0};
    qsort(list->v, list->n, sizeof *list->v, compare_chunk_sizes);
    for (size_t i = 0; i < list->n;) {
        struct distance sum = {.bytes = list->v[i].bytes};
        for (; i < list->n && list->v[i].bytes == sum.bytes; i++) {
            sum.valid++;
            sum.filled += list->v[i].filled;
            sum.near_arena += list->v[i].near_arena;
        }
        if (tcache_distance_weight(&sum) > tcache_distance_weight(&best))
            best = sum;
    }
    return best.bytes;
}

/* A thread that uses malloc and has its tcache at mem: is that memory in which one can lie? Where
 * there is none yet, or no more, libc has NULL or a stand-in among its constants. */
static bool is_lost_tcache(const struct hx_glibc_walk *walk, uint64_t at, uint64_t mem)
{
    const struct hx_snapshot *snapshot = walk->snapshot;
    size_t i = hx_mapping_find(snapshot->mapping, snapshot->n_mappings, mem);
    return i < snapshot->n_mappings && !snapshot->mapping[i].inode &&
           snapshot->mapping[i].prot & HX_PROT_W && is_near_arena(walk, at);
}

/* Where the words that lead to tcaches can be missing: the first thread's is the first chunk. */
static hx_error *count_first_tcache(struct hx_glibc_walk *walk, uint64_t *ret_good,
                                    uint64_t *ret_bad)
{
    struct tcache tcache;
    unsigned off;
    if (!walk->is_cut || !is_tcache(walk, walk->first_chunk + 16, &tcache, &off))
        return NULL;
    for (size_t i = 0; i < walk->marks.n; i++)
        if (walk->marks.v[i] == (walk->first_chunk | 1))
            return NULL;
    return take_tcache(walk, &tcache, ret_good, ret_bad);
}

static hx_error *tcaches(struct hx_glibc_walk *walk, uint64_t *ret_good, uint64_t *ret_bad)
{
    const struct hx_snapshot *snapshot = walk->snapshot;
    distances list = {0};
    hx_error *err = NULL;
    for (size_t i = 0; i < snapshot->n_threads && !err; i++)
        err = search_below(walk, &snapshot->thread[i], 0, TLS_WINDOW, &list);
    if (!list.n)
        for (size_t i = 0; i < snapshot->n_threads && !err; i++)
            err = search_below(walk, &snapshot->thread[i], TLS_WINDOW, TLS_WINDOW_FAR, &list);
    uint64_t distance = list.n ? best_distance(&list) : 0;
    hx_vec_free(&list);
    for (size_t i = 0; i < snapshot->n_threads && !err && distance; i++) {
        struct tcache tcache;
        unsigned off;
        uint64_t at = snapshot->thread[i].tp - distance, mem;
        if (!snapshot->thread[i].tp || !hx_image_u64(walk->image, at, &mem) || !mem)
            continue;
        /* One that does not fit in every respect is this thread's all the same: its links
         * are tested one by one. */
        if (is_tcache(walk, mem, &tcache, &off))
            err = take_tcache(walk, &tcache, ret_good, ret_bad);
        else if (read_tcache(walk, mem, &tcache)) {
            if (walk->layout->tcache->slots)
                slots_to_counts(walk, &tcache);
            err = take_tcache(walk, &tcache, ret_good, ret_bad);
        } else if (is_lost_tcache(walk, at, mem)) {
            walk->n_tcaches_lost++;
        }
    }
    return err ? err : count_first_tcache(walk, ret_good, ret_bad);
}

uint64_t hx_glibc_tcache_chunk(const struct hx_glibc_walk *walk)
{
    return walk->layout->tcache->n ? request_to_chunk(walk->layout->tcache->size) : 0;
}

/* The word by which glibc knows a cached chunk, behind its link: the address of the tcache (2.29 to
 * 2.33), or a random number that is the same in all tcaches (2.34). */
static bool is_tcache_key(const struct hx_glibc_walk *walk, uint64_t mem, uint64_t key)
{
    if (walk->layout->first < 34 && key == mem)
        return true;
    return walk->layout->last >= 34 && key && (!walk->tcache_key || key == walk->tcache_key);
}

/* Is it the tcache of a thread that was ending? glibc takes it from the thread, then frees its
 * chunks bin by bin and leaves the counts alone: the bins before the present one are empty, that
 * one is shorter than its count, those behind are whole. As the counts prove less then, each list
 * must have its length and each chunk the key; versions without one have no such tcache. */
static bool is_ending(const struct hx_glibc_walk *walk, uint64_t mem, struct tcache *ret)
{
    const struct hx_glibc_param *param = &walk->param[0];
    uint64_t key = 0, word;
    if (!read_tcache(walk, mem, ret))
        return false;
    if (walk->layout->tcache->slots)
        slots_to_counts(walk, ret);
    for (unsigned i = 0; i < walk->layout->tcache->n; i++) {
        uint64_t at = ret->entries[i], left = ret->counts[i];
        if (param->addr && left > param->tcache_count)
            return false;
        bool is_present = at && !key;
        for (; at && left; left--) {
            if (!fits_bin(chunk_size_of(walk, at), i) || !hx_image_u64(walk->image, at + 8, &word))
                return false;
            if (!key && is_tcache_key(walk, mem, word))
                key = word;
            if (!key || word != key || !next_link(walk, at, &at))
                return false;
        }
        if (at || (left && key && !is_present))
            return false;
    }
    return key != 0;
}

/* A tcache of no thread, not empty. Nobody updates it, so nothing may be off. */
static bool is_orphan(const struct hx_glibc_walk *walk, uint64_t mem, struct tcache *ret)
{
    unsigned off;
    return (is_tcache(walk, mem, ret, &off) && ret->used_bins && !off) || is_ending(walk, mem, ret);
}

bool hx_glibc_is_tcache(const struct hx_glibc_walk *walk, uint64_t chunk)
{
    struct tcache tcache;
    return is_orphan(walk, chunk + 16, &tcache);
}

/* --- fastbins -------------------------------------------------------------- */

static hx_error *fastbins(struct hx_glibc_walk *walk, uint64_t *ret_good, uint64_t *ret_bad)
{
    for (size_t k = 0; k < walk->arenas.n; k++) {
        const struct hx_glibc_arena *arena = &walk->arenas.v[k];
        const struct hx_glibc_state_shape *shape = walk->glibc->main[arena->main].shape;
        for (unsigned i = 0; i < shape->n_fastbins && arena->addr; i++) {
            uint64_t head, n;
            bool clean;
            if (!hx_image_u64(walk->image, arena->addr + shape->fastbins + 8u * i, &head) || !head)
                continue;
            struct chain chain = {.head = head,
                                  .offset = 16,
                                  .size = 32 + 16 * (uint64_t)i,
                                  .max = UINT64_C(1) << 36};
            uint64_t cut = walk->lists_cut;
            HX_TRY(follow_free_list(walk, &chain, &n, &clean));
            *ret_good += n;
            *ret_bad += !clean && walk->lists_cut == cut;
        }
    }
    return NULL;
}

/* --- sorting --------------------------------------------------------------- */

/* Least significant digit first, 11 bits at a time: there can be millions. */
static hx_error *sort_marks(struct hx_glibc_walk *walk)
{
    size_t n = walk->marks.n;
    if (n < 2)
        return NULL;
    HX_FREE uint64_t *spare = malloc(n * sizeof *spare);
    HX_FREE size_t *at = malloc(2048 * sizeof *at);
    HX_NEED(spare && at);
    uint64_t *from = walk->marks.v, *to = spare;
    for (unsigned shift = 0; shift < 66; shift += 11) {
        memset(at, 0, 2048 * sizeof *at);
        for (size_t i = 0; i < n; i++)
            at[from[i] >> shift & 2047]++;
        size_t sum = 0;
        for (size_t i = 0; i < 2048; i++) {
            size_t count = at[i];
            at[i] = sum;
            sum += count;
        }
        for (size_t i = 0; i < n; i++)
            to[at[from[i] >> shift & 2047]++] = from[i];
        uint64_t *swap = from;
        from = to;
        to = swap;
    }
    /* Six rounds: the result is where it began. A chunk in two caches counts once, and a
     * tcache that is also in one is a tcache. */
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (kept && walk->marks.v[kept - 1] >> 4 == walk->marks.v[i] >> 4)
            walk->marks.v[kept - 1] |= walk->marks.v[i] & 1;
        else
            walk->marks.v[kept++] = walk->marks.v[i];
    }
    walk->marks.n = kept;
    return NULL;
}

hx_error *hx_glibc_caches(struct hx_glibc_walk *walk, uint64_t *ret_good, uint64_t *ret_bad)
{
    *ret_good = *ret_bad = 0;
    walk->marks.n = 0;
    walk->n_tcaches = walk->n_tcaches_lost = 0;
    walk->lists_cut = walk->tcache_key = 0;
    if (walk->layout->tcache->n)
        HX_TRY(tcaches(walk, ret_good, ret_bad));
    HX_TRY(fastbins(walk, ret_good, ret_bad));
    HX_TRY(sort_marks(walk));
    walk->cache_faults = *ret_bad;
    return NULL;
}

hx_error *hx_glibc_adopt(struct hx_glibc_walk *walk)
{
    uint64_t good = 0, bad = 0;
    walk->marks.n = 0;
    for (size_t i = 0; i < walk->orphans.n; i++) {
        struct tcache tcache;
        if (is_orphan(walk, walk->orphans.v[i] + 16, &tcache))
            HX_TRY(take_tcache(walk, &tcache, &good, &bad));
    }
    return sort_marks(walk);
}
