/* glibc.h - what the files of the glibc walker share. Private to src/attach/alloc.
 *
 * glibc_layout.c  where the fields lie, by version
 * glibc_find.c    main_arena in a target, by its shape
 * glibc_param.c   mp_, by its shape; the choice of a layout on evidence
 * glibc_cache.c   tcache of each thread and fastbins: chunks that are cached
 * glibc_area.c    the memory of every arena, and blocks with a mapping of their own
 * glibc_chain.c   chunk headers; where to go on after a damaged one
 * glibc_walk.c    the walk over all chunks of all areas
 * glibc_bins.c    the self-check: bins against tags
 * glibc_cut.c     a heap without main_arena, in an image that lacks memory
 * glibc.c         the table of functions
 *
 * Words: a chunk at p has its size and flags at p + 8; the block that the program got
 * begins at p + 16 and ends at p + size + 8, because the first word of the next chunk
 * belongs to it while it is in use. So [p + 8, p + size + 8) is what a chunk occupies.
 */
#ifndef HX_ATTACH_ALLOC_GLIBC_H
#define HX_ATTACH_ALLOC_GLIBC_H

#include "attach/alloc/alloc.h"

enum {
    HX_CHUNK_PREV_INUSE = 1,
    HX_CHUNK_MMAPPED = 2,
    HX_CHUNK_NON_MAIN = 4,
    HX_CHUNK_FLAGS = 7,
    HX_CHUNK_HEADER = 16,
    HX_CHUNK_MIN = 32,
    HX_CHUNK_ALIGN = 16,
    HX_GLIBC_BINS = 127, /* pairs of links in malloc_state.bins */
    HX_GLIBC_PAGE = 4096,
    HX_GLIBC_HEAP_ALIGN = 1 << 19, /* at least: of the heaps of arenas */
    HX_TCACHE_SMALL_BINS = 64,
    HX_TCACHE_BINS_MAX = 76,
};

/* --- layouts --------------------------------------------------------------- */

/* Byte offsets in struct malloc_state. */
struct hx_glibc_state_shape {
    uint16_t fastbins, n_fastbins, top, last_remainder, bins, next;
    uint16_t attached; /* 0: there is none */
    uint16_t system_mem, size;
};

/* Byte offsets in struct malloc_par (mp_). */
struct hx_glibc_param_shape {
    uint16_t hp_pagesize; /* 0: there is none */
    uint16_t n_mmaps;     /* n_mmaps_max, max_n_mmaps and no_dyn_threshold follow */
    uint16_t mmapped_mem; /* max_mmapped_mem follows */
    uint16_t sbrk_base;
    uint16_t tcache; /* bins, max_bytes, count, unsorted_limit; 0: there are none */
    uint16_t size;
};

/* struct tcache_perthread_struct. */
struct hx_glibc_tcache_shape {
    uint16_t n;          /* bins; 0: no tcache */
    uint16_t count_size; /* bytes of one count */
    bool slots;          /* the counts say how many may still come */
    uint16_t size;       /* of the struct; the entries begin at n * count_size */
};

/* A range of versions 2.first to 2.last with one layout. */
struct hx_glibc_layout {
    uint8_t first, last;
    const struct hx_glibc_state_shape *state;
    const struct hx_glibc_param_shape *param;
    const struct hx_glibc_tcache_shape *tcache;
    uint16_t heap_info;  /* bytes of struct heap_info */
    bool safe_linking;   /* links of fastbins and tcache are mixed with their address */
    bool mmapped_header; /* the size of an mmapped chunk leaves out its header */
};

extern const struct hx_glibc_layout hx_glibc_layouts[];
extern const size_t hx_glibc_n_layouts;
/* The different state shapes, for the search. */
extern const struct hx_glibc_state_shape *const hx_glibc_state_shapes[];
extern const size_t hx_glibc_n_state_shapes;

/* Bytes that lie in front of bins[0] of a state, so that bin i is a pretended chunk at
 * state + shape->bins + 16 i - 16. */
static inline uint64_t hx_glibc_bin(const struct hx_glibc_state_shape *shape, uint64_t state,
                                    unsigned i)
{
    return state + shape->bins + 16u * i - 16;
}

/* The layout of version 2.minor, NULL when the table has none. */
const struct hx_glibc_layout *hx_glibc_layout_of(int minor);

/* Whether this version was run through the tests of this project. */
bool hx_glibc_proven(int minor);

/* --- what is known of a target --------------------------------------------- */

/* One main_arena. A target has one for each copy of libc. */
struct hx_glibc_main {
    uint64_t addr;
    const struct hx_glibc_state_shape *shape;
    uint64_t data_start, data_end; /* the writable data it lies in; mp_ is there too */
    char module[64];               /* file name */
    uint64_t offset;               /* of main_arena from the module's first byte */
    int minor;                     /* version 2.minor by the version string; 0: unknown */
};

enum { HX_GLIBC_MAINS = 8, HX_GLIBC_ARENAS_MAX = 1 << 16 };

struct hx_glibc {
    struct hx_glibc_main main[HX_GLIBC_MAINS];
    size_t n_mains;
};

hx_error *hx_glibc_find(const struct hx_alloc_target *target, struct hx_allocator_share *share,
                        void **ret_state);
hx_error *hx_glibc_guard(void *state, const struct hx_alloc_target *target, struct hx_guard *ret);

/* Does `bytes`, read at addr, look like a main_arena or an arena of this shape? Unused: as
 * it lies in the file, before the first malloc. */
enum hx_glibc_likeness { HX_GLIBC_NOT, HX_GLIBC_UNUSED, HX_GLIBC_USED };
enum hx_glibc_likeness hx_glibc_state_like(const struct hx_glibc_state_shape *shape, uint64_t addr,
                                           const uint8_t *bytes);

/* --- one walk -------------------------------------------------------------- */

/* What the links of free chunks add up to. Each free chunk by tags and each bin head adds
 * itself to `self` and what its links name to `next` and `prev`: all three agree exactly
 * when the bins hold each free chunk once and nothing else. */
struct hx_glibc_sums {
    uint64_t self, next, prev, n;
};

struct hx_glibc_arena {
    uint64_t addr;
    uint32_t main; /* index of its main_arena */
    bool is_main;
    uint32_t flags;
    uint64_t top, last_remainder, system_mem;
    struct hx_glibc_sums sums;
};

struct hx_glibc_param {
    uint64_t addr; /* 0: not found */
    uint64_t sbrk_base, mmapped_mem, hp_pagesize;
    uint64_t tcache_count; /* 0: threads keep no tcache */
    int64_t n_mmaps;
    int score;
};

enum hx_glibc_area_kind {
    HX_AREA_BRK,     /* of the main arena, can hold several runs with foreign memory between */
    HX_AREA_RUN,     /* of the main arena, one run of chunks */
    HX_AREA_HEAP,    /* of another arena, one run of chunks after heap_info */
    HX_AREA_MMAPPED, /* one block */
};

/* Memory that is walked as a whole. */
struct hx_glibc_area {
    enum hx_glibc_area_kind kind;
    uint64_t start, end; /* end: of HX_AREA_BRK and HX_AREA_RUN the bound of the search */
    uint64_t first;      /* the first chunk; 0: to be searched (HX_AREA_BRK only) */
    uint32_t arena;      /* index in arenas; HX_ARENA_MMAP */
    bool loose;          /* HX_AREA_MMAPPED: neither end meets another mapping or block */
};

/* Reads headers in growing order of address quickly; any order works. */
struct hx_chunk_cursor {
    const struct hx_image *image;
    uint64_t low, high; /* of what is at hand */
    const uint8_t *bytes;
    struct hx_peeked peeked;
};
static inline void hx_chunk_cursor_deinit(struct hx_chunk_cursor *cursor)
{
    hx_peeked_deinit(&cursor->peeked);
}
#define HX_CHUNK_CURSOR __attribute__((cleanup(hx_chunk_cursor_deinit))) struct hx_chunk_cursor

/* The believable headers of a window of memory. */
struct hx_chunk_window {
    uint64_t start, end;
    uint8_t *steps; /* for each 16 bytes: how many believable headers follow each other */
    size_t cap;
};

struct hx_glibc_walk {
    const struct hx_glibc *glibc;
    struct hx_snapshot *snapshot;
    struct hx_allocator_share *share;
    const struct hx_image *image;
    const struct hx_progress *progress;
    const struct hx_glibc_layout *layout;
    bool layout_certain;  /* one layout fits better than all others */
    bool is_cut;          /* memory is missing, main_arena too: arenas[0] stands for it at 0 */
    uint64_t first_chunk; /* is_cut: of the main arena; where the first tcache is */
    HX_VEC(struct hx_glibc_arena) arenas; /* those of main_arenas first */
    struct hx_glibc_param param[HX_GLIBC_MAINS];
    HX_VEC(struct hx_glibc_area) areas; /* sorted, do not overlap */
    /* Chunks that tags call in use although they are not: sorted; bit 0 set: a tcache
     * itself (overhead), else cached (free). */
    HX_VEC(uint64_t) marks;
    size_t n_tcaches;
    uint64_t tcache_key;      /* of the chunks in tcaches (2.34); 0: unknown */
    size_t n_tcaches_lost;    /* of threads that have one which was not recognised */
    HX_VEC(uint64_t) orphans; /* chunks in use that are tcaches of no thread that is left */
    uint64_t cache_faults;    /* links of caches that lead nowhere */
    uint64_t lists_cut;       /* is_cut: caches that lead into missing memory */
    struct hx_chunk_window window;
    uint64_t pages;          /* of the image: no more heaps than that */
    uint64_t piece_failures; /* pieces of the main arena that led nowhere */

    /* what the walk found */
    uint64_t n_chunks, n_damaged, damaged_bytes, tag_faults, torn_hints;
    bool links_damaged; /* of free chunks */
    uint64_t n_mmapped, mmapped_bytes;
    uint64_t n_foreign; /* gaps of others in the brk area */
};

/* Frees what the walk holds. */
void hx_glibc_walk_deinit(struct hx_glibc_walk *walk);

/* Is there no memory in the image from `from` on, up to `end`? */
bool hx_glibc_ends_image(const struct hx_image *image, uint64_t from, uint64_t end);

/* Fills arenas. */
hx_error *hx_glibc_arenas(struct hx_glibc_walk *walk);

/* Chooses layout, param and marks by what fits best. */
hx_error *hx_glibc_choose(struct hx_glibc_walk *walk);

/* mp_ of a main_arena under a layout, by shape. */
struct hx_glibc_param hx_glibc_param_find(const struct hx_glibc_walk *walk, size_t main,
                                          const struct hx_glibc_layout *layout);

/* Follows tcaches and fastbins under walk->layout; fills marks. *ret_good and *ret_bad count
 * links that fit and that do not. */
hx_error *hx_glibc_caches(struct hx_glibc_walk *walk, uint64_t *ret_good, uint64_t *ret_bad);

/* The size of the chunk that holds a tcache; 0: there are none. */
uint64_t hx_glibc_tcache_chunk(const struct hx_glibc_walk *walk);

/* Is the chunk, in use by its tags, a tcache that is not empty and fits in every respect, or that
 * its ending thread has half emptied? */
bool hx_glibc_is_tcache(const struct hx_glibc_walk *walk, uint64_t chunk);

/* Replaces marks by those of the orphans: the tcaches of threads that a fork left behind, that
 * were ending, or whose thread pointer is not known. */
hx_error *hx_glibc_adopt(struct hx_glibc_walk *walk);

/* Fills areas. */
hx_error *hx_glibc_areas(struct hx_glibc_walk *walk);

/* Walks the areas into the snapshot. */
hx_error *hx_glibc_run(struct hx_glibc_walk *walk, hx_ranges *excluded);

/* After the walk: do the bins hold exactly the chunks that are free by tags? Where not, says
 * whether links are damaged (counted in losses) or an update was under way. */
enum hx_walk_verdict hx_glibc_check_bins(struct hx_glibc_walk *walk);

/* Spreads addresses over 64 bits, so that sums of different sets differ. */
static inline uint64_t hx_glibc_mix(uint64_t x)
{
    x *= UINT64_C(0x9e3779b97f4a7c15);
    return x ^ x >> 29;
}

/* --- headers (glibc_chain.c) ----------------------------------------------- */

static inline struct hx_chunk_cursor hx_chunk_cursor(const struct hx_image *image)
{
    return (struct hx_chunk_cursor){.image = image};
}

bool hx_chunk_seek(struct hx_chunk_cursor *cursor, uint64_t p);

/* The two header words of the chunk at p (aligned to 16); false when not in the image. */
static inline bool hx_chunk_header(struct hx_chunk_cursor *cursor, uint64_t p, uint64_t ret[2])
{
    if (__builtin_expect(p < cursor->low || p >= cursor->high || cursor->high - p < 16, 0) &&
        !hx_chunk_seek(cursor, p))
        return false;
    __builtin_memcpy(ret, cursor->bytes + (p - cursor->low), 16);
    return true;
}

/* What chunks of an area must look like. */
struct hx_chunk_rule {
    uint64_t limit; /* no chunk ends after this */
    uint64_t top;   /* of the arena, when it lies here; else 0 */
    bool main;      /* chunks of the main arena: never NON_MAIN */
};

enum hx_chunk_end {
    HX_CHUNK_GOES_ON, /* an ordinary chunk */
    HX_CHUNK_TOP,     /* the top chunk: the last */
    HX_CHUNK_FENCE,   /* fenceposts: the last */
    HX_CHUNK_INSANE,
};

/* Judges the header at p; *ret_size is the size of an ordinary chunk or of top, or the bytes
 * that the fenceposts take. */
enum hx_chunk_end hx_chunk_judge(struct hx_chunk_cursor *cursor, const struct hx_chunk_rule *rule,
                                 uint64_t p, uint64_t head, uint64_t *ret_size);

/* How many sane chunks follow each other from p on before `to`; at most max. */
unsigned hx_chunk_count(const struct hx_image *image, const struct hx_chunk_rule *rule, uint64_t p,
                        uint64_t to, unsigned max);

/* The first address >= from, aligned to 16, at which a believable chain of chunks begins;
 * UINT64_MAX when there is none. The work over all calls of one walk is linear in the memory
 * when `from` never shrinks. */
hx_error *hx_chunk_resume(struct hx_glibc_walk *walk, const struct hx_chunk_rule *rule,
                          uint64_t from, uint64_t *ret);

#endif
