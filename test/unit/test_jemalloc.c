/* test_jemalloc.c - jemalloc's walk on heaps that the test builds itself: every layout, and random
 * words in each of its structures. */
#include "attach/alloc/jemalloc.h"

#include "base/cleanup.h"

#include "unit.h"

enum { PAGE = 4096, PLACES = 4, WORDS = 1000, OBJECTS_MAX = 16384, CACHED = 5 };
#define DATA  UINT64_C(0x10000000)
#define BASE  UINT64_C(0x7f0000000000)
#define HEAP  UINT64_C(0x7f1000000000)
#define TLS   UINT64_C(0x7f2000000000)
#define ROOT  (DATA + 0x10078)
#define ARENA (BASE + 0x10000)
#define BINS  (BASE + 0x40000)  /* where they do not follow the arena */
#define LEAF  (BASE + 0x200000) /* 2 MiB with pages of 4 KiB, which is the most */
#define CACHE (TLS + 0x800)

/* A run of the target's memory. */
struct place {
    uint64_t start, bytes;
    uint8_t *at;
};

/* A structure that words are written into. */
struct part {
    const char *name;
    uint64_t start, bytes;
};

struct fake {
    const struct hx_jemalloc_layout *layout;
    struct place place[PLACES];
    struct hx_jemalloc_heap heap;
    uint64_t next_record, next_page;
    uint64_t pages; /* of active extents */
    struct {
        uint64_t addr, size;
    } object[OBJECTS_MAX];
    size_t n_objects;
    uint64_t cached[CACHED], stack, stack_bytes;
};

static uint64_t *word(struct fake *fake, uint64_t addr)
{
    for (size_t i = 0; i < PLACES; i++) {
        struct place *place = &fake->place[i];
        if (addr >= place->start && addr < place->start + place->bytes)
            return (uint64_t *)(void *)(place->at + (addr - place->start) / 8 * 8);
    }
    fail_msg("no such place");
    return NULL;
}

static uint64_t page_of(const struct fake *fake)
{
    return UINT64_C(1) << fake->layout->lg_page;
}

static uint64_t bin_at(const struct fake *fake, unsigned i)
{
    uint64_t bins = fake->layout->flat_bins ? ARENA + fake->layout->bins : BINS;
    return bins + i * fake->layout->bin_bytes;
}

/* The tree tells 48 bits apart, in two levels. */
static void into_tree(struct fake *fake, uint64_t addr, uint64_t record)
{
    unsigned bits = 48 - fake->layout->lg_page, low = bits / 2 + bits % 2;
    *word(fake, ROOT + 8 * (addr >> (fake->layout->lg_page + low))) = LEAF;
    uint64_t key = addr >> fake->layout->lg_page & ((UINT64_C(1) << low) - 1);
    *word(fake, LEAF + 8 * key) = record;
}

static uint64_t extent(struct fake *fake, uint64_t pages, unsigned szind, unsigned state, bool slab,
                       uint64_t offset)
{
    const struct hx_jemalloc_layout *layout = fake->layout;
    uint64_t record = fake->next_record, addr = fake->next_page, page = page_of(fake);
    fake->next_record += 2048;
    fake->next_page += pages * page;
    *word(fake, record) = (uint64_t)slab << 12 | 1 << 13 | (uint64_t)state << layout->state_shift |
                          (uint64_t)szind << layout->szind_shift;
    *word(fake, record + 8) = addr + offset;
    *word(fake, record + 16) = pages * page + 1;
    into_tree(fake, addr, record);
    into_tree(fake, addr + (pages - 1) * page, record);
    if (!state)
        fake->pages += pages;
    return record;
}

static void object(struct fake *fake, uint64_t addr, uint64_t size)
{
    assert_true(fake->n_objects < OBJECTS_MAX);
    fake->object[fake->n_objects].addr = addr;
    fake->object[fake->n_objects++].size = size;
}

/* A slab of which every third block is free, and the first ones are cached. */
static void slab(struct fake *fake, uint64_t pages, unsigned szind, unsigned cached)
{
    const struct hx_jemalloc_layout *layout = fake->layout;
    uint64_t addr = fake->next_page, size = hx_jemalloc_size(szind), free_blocks = 0;
    uint64_t record = extent(fake, pages, szind, HX_JEMALLOC_ACTIVE, true, 0);
    uint64_t n = pages * page_of(fake) / size, bin = bin_at(fake, szind);
    for (uint64_t i = 0; i < n; i++) {
        if (i % 3 == 2) {
            *word(fake, record + 64 + i / 64 * 8) |= UINT64_C(1) << i % 64;
            free_blocks++;
        } else if (cached) {
            fake->cached[--cached] = addr + i * size;
        } else {
            object(fake, addr + i * size, size);
        }
    }
    *word(fake, record) |= free_blocks << (layout->szind_shift + 8);
    *word(fake, bin + layout->bin_slabs) += 1;
    *word(fake, bin + layout->bin_regs) += n - free_blocks;
    *word(fake, bin + layout->bin_current) = record;
}

static void large(struct fake *fake, unsigned szind, uint64_t offset)
{
    uint64_t addr = fake->next_page, size = hx_jemalloc_size(szind);
    uint64_t record =
        extent(fake, size / page_of(fake) + 1, szind, HX_JEMALLOC_ACTIVE, false, offset);
    object(fake, addr + offset, size);
    *word(fake, ARENA + fake->layout->large) = record;
}

/* A cache with some blocks of class 3; its stacks are a block that jemalloc has from itself. */
static void cache(struct fake *fake)
{
    const struct hx_jemalloc_layout *layout = fake->layout;
    unsigned szind = hx_jemalloc_bins(layout);
    uint64_t bins = layout->stacks ? CACHE + 0x200 : CACHE - 904;
    uint64_t size = hx_jemalloc_size(szind);
    fake->stack = fake->next_page;
    fake->stack_bytes = 16 * 64;
    extent(fake, size / page_of(fake) + 1, szind, HX_JEMALLOC_ACTIVE, false, 0);
    *word(fake, ARENA + layout->internal) = size;
    *word(fake, ARENA + layout->caches) = *word(fake, CACHE) = *word(fake, CACHE + 8) = CACHE;
    *word(fake, CACHE + 16) = bins;
    *word(fake, CACHE + 24) = layout->stacks ? ARENA : CACHE + 80;
    *word(fake, CACHE + 32) = ARENA;
    if (layout->stacks) {
        *word(fake, CACHE + layout->cache_self) = bins - 8;
        *word(fake, bins - 8) = CACHE - 16;
    }
    for (uint64_t i = 0; i < 8; i++) {
        uint64_t low = fake->stack + 8 + i * 64, end = low + 64, top = end;
        if (i == 3)
            for (unsigned k = 0; k < CACHED; k++)
                *word(fake, top -= 8) = fake->cached[k];
        if (layout->stacks) {
            *word(fake, bins + 24 * i) = top;
            *word(fake, bins + 24 * i + 16) = (end & 0xffff) << 32 | (low & 0xffff) << 16;
        } else {
            *word(fake, bins + 24 * i) = (end - top) / 8 << 32;
            *word(fake, bins + 24 * i + 16) = end;
        }
    }
}

static void base(struct fake *fake)
{
    const struct hx_jemalloc_layout *layout = fake->layout;
    uint64_t bytes = fake->place[1].bytes;
    *word(fake, BASE) = bytes;
    *word(fake, BASE + 24) = BASE + bytes - 64;
    *word(fake, BASE + 32) = 64;
    *word(fake, BASE + 0xc0 + layout->base_blocks) = BASE;
    *word(fake, DATA + 0x40) = ARENA;
    *word(fake, ARENA + layout->base) = BASE + 0xc0;
    for (unsigned i = 0; !layout->flat_bins && i < hx_jemalloc_bins(layout); i++)
        *word(fake, ARENA + layout->bins + 8 * i) = bin_at(fake, i);
}

static struct fake *make(const struct hx_jemalloc_layout *layout)
{
    struct fake *fake = calloc(1, sizeof *fake);
    const struct place place[PLACES] = {{DATA, 0x220000, NULL},
                                        {BASE, 0x400000, NULL},
                                        {HEAP, 0x800000, NULL},
                                        {TLS, 0x4000, NULL}};
    assert_non_null(fake);
    fake->layout = layout;
    for (size_t i = 0; i < PLACES; i++) {
        fake->place[i] = place[i];
        fake->place[i].at = calloc(1, place[i].bytes);
        assert_non_null(fake->place[i].at);
    }
    fake->heap = (struct hx_jemalloc_heap){.layout = layout,
                                           .arenas = DATA + 0x40,
                                           .data = {{DATA, DATA + 0x220000}},
                                           .n_data = 1,
                                           .version = "5"};
    fake->next_record = BASE + 0x100000;
    fake->next_page = HEAP;
    unsigned small = hx_jemalloc_bins(layout);
    base(fake);
    slab(fake, 3, 3, CACHED);
    slab(fake, 1, 0, 0);
    large(fake, small + 2, 64);
    extent(fake, 4, HX_JEMALLOC_SIZES, HX_JEMALLOC_DIRTY, false, 0);
    slab(fake, 3, 3, 0);
    extent(fake, 2, HX_JEMALLOC_SIZES, HX_JEMALLOC_RETAINED, false, 0);
    large(fake, small, 0);
    extent(fake, 2, HX_JEMALLOC_SIZES, HX_JEMALLOC_MUZZY, false, 0);
    cache(fake);
    *word(fake, ARENA + layout->nactive) = fake->pages;
    return fake;
}

static void unmake(struct fake *fake)
{
    for (size_t i = 0; i < PLACES; i++)
        free(fake->place[i].at);
    free(fake);
}

static bool is_zero(const uint8_t *page)
{
    static const uint8_t zero[PAGE];
    return memcmp(page, zero, PAGE) == 0;
}

/* Pages that hold nothing were never written. */
static void add_spans(struct fake *fake, struct hx_image *image)
{
    for (size_t i = 0; i < PLACES; i++) {
        const struct place *place = &fake->place[i];
        for (uint64_t at = 0; at < place->bytes; at += PAGE) {
            struct hx_span *last = image->n ? &image->span[image->n - 1] : NULL;
            uint64_t start = place->start + at;
            if (place->start == BASE && is_zero(place->at + at))
                continue;
            if (place->start == DATA && is_zero(place->at + at))
                continue;
            if (last && last->end == start)
                last->end += PAGE;
            else
                image->span[image->n++] = (struct hx_span){start, start + PAGE, place->at + at};
        }
    }
}

static struct hx_snapshot *walk(struct fake *fake, struct hx_allocator_share *share,
                                enum hx_walk_verdict *verdict)
{
    struct hx_snapshot *snapshot;
    hx_ranges excluded = {0};
    struct hx_jemalloc found = {.n = 1};
    found.heap[0] = fake->heap;
    *share = (struct hx_allocator_share){.name = strdup("jemalloc"), .module = strdup("fake")};
    assert_null(hx_snapshot_create(&snapshot));
    snapshot->mapping = calloc(PLACES, sizeof *snapshot->mapping);
    snapshot->image.span = calloc(2048, sizeof *snapshot->image.span);
    assert_true(snapshot->mapping && snapshot->image.span);
    snapshot->n_mappings = PLACES;
    for (size_t i = 0; i < PLACES; i++)
        snapshot->mapping[i] =
            (struct hx_mapping){.start = fake->place[i].start,
                                .end = fake->place[i].start + fake->place[i].bytes,
                                .prot = HX_PROT_R | HX_PROT_W,
                                .path = strdup("")};
    add_spans(fake, &snapshot->image);
    assert_null(hx_allocator_jemalloc.walk(&found, snapshot, share, &excluded, NULL, verdict));
    hx_vec_free(&excluded);
    return snapshot;
}

/* Each byte of a segment is in an object, in a free range, or overhead. */
static void check_partition(const struct hx_snapshot *snapshot)
{
    uint64_t before = 0, sum = snapshot->overhead_bytes;
    for (size_t i = 0; i < snapshot->segments.n; i++) {
        assert_true(snapshot->segments.v[i].start >= before);
        before = snapshot->segments.v[i].end;
        sum -= before - snapshot->segments.v[i].start;
    }
    before = 0;
    size_t f = 0;
    for (hx_obj i = 0; i < snapshot->graph.n; i++) {
        uint64_t start = snapshot->graph.addr[i], end = start + snapshot->graph.size[i];
        assert_true(start >= before && end > start);
        before = end;
        sum += end - start;
        while (f < snapshot->free_ranges.n && snapshot->free_ranges.v[f].end <= start)
            f++;
        assert_true(f == snapshot->free_ranges.n || snapshot->free_ranges.v[f].start >= end);
    }
    assert_int_equal(sum + snapshot->free_bytes, 0);
}

static bool has_all(const struct fake *fake, const struct hx_snapshot *snapshot)
{
    if (snapshot->graph.n != fake->n_objects)
        return false;
    for (size_t i = 0; i < fake->n_objects; i++)
        if (snapshot->graph.addr[i] != fake->object[i].addr ||
            snapshot->graph.size[i] != fake->object[i].size)
            return false;
    return true;
}

static void test_layouts(void **state)
{
    (void)state;
    for (size_t i = 0; i < hx_jemalloc_n_layouts; i++) {
        struct fake *fake = make(&hx_jemalloc_layouts[i]);
        struct hx_allocator_share share;
        enum hx_walk_verdict verdict;
        struct hx_snapshot *snapshot = walk(fake, &share, &verdict);
        assert_true(share.proven);
        assert_int_equal(verdict, HX_WALK_OK);
        assert_true(snapshot->complete);
        assert_int_equal(snapshot->losses.n, 0);
        assert_true(has_all(fake, snapshot));
        assert_int_equal(share.cached_bytes, CACHED * 48);
        assert_int_equal(share.walked_bytes, share.claimed_bytes);
        check_partition(snapshot);
        hx_allocator_share_deinit(&share);
        hx_snapshot_destroy(snapshot);
        unmake(fake);
    }
}

/* --- damage -------------------------------------------------------------------------------- */

static uint64_t nasty(struct unit_random *rng, uint64_t old)
{
    static const uint64_t from[] = {HEAP, DATA, TLS, ARENA, LEAF, BASE + 0x100000};
    uint64_t r = unit_random(rng);
    switch (r % 6) {
    case 0:
        return from[r / 8 % 6] + (r >> 32) % 0x8000 / 8 * 8;
    case 1:
        return old ^ UINT64_C(1) << (r >> 32) % 64;
    case 2:
        return (r >> 32) % 4096;
    case 3:
        return old + ((r >> 32) % 64 - 32) * 64;
    case 4:
        return r;
    default:
        return 0;
    }
}

/* Nothing else tells where in its page a large block begins, which ones of a slab's blocks are free
 * when as many are, and how many and which blocks a cache has. */
static bool is_untold(struct fake *fake, const struct part *part, uint64_t at, uint64_t new)
{
    uint64_t in_record = (at - BASE) % 2048, old = *word(fake, at);
    if (strcmp(part->name, "stacks") == 0)
        return new >= HEAP &&new < fake->next_page;
    if (strncmp(part->name, "record", 6) != 0)
        return strcmp(part->name, "cache") == 0;
    return in_record == 8
               ? !(*word(fake, at - 8) >> 12 & 1)
               : in_record >= 64 && __builtin_popcountll(new) == __builtin_popcountll(old);
}

static void damage(struct fake *fake, const struct part *part, struct unit_random *rng)
{
    uint64_t at = part->start + unit_below(rng, part->bytes / 8) * 8, old = *word(fake, at);
    uint64_t new = nasty(rng, old);
    bool untold = is_untold(fake, part, at, new);
    struct hx_allocator_share share;
    enum hx_walk_verdict verdict;
    *word(fake, at) = new;
    struct hx_snapshot *snapshot = walk(fake, &share, &verdict);
    if (!share.proven) {
        assert_int_equal(snapshot->graph.n, 0);
        assert_int_equal(snapshot->segments.n, 0);
        assert_non_null(share.evidence);
    } else {
        check_partition(snapshot);
        assert_true(share.walked_bytes <= share.claimed_bytes);
        assert_true(verdict == HX_WALK_OK || snapshot->losses.n);
        if (!untold && !has_all(fake, snapshot) && verdict == HX_WALK_OK && !snapshot->losses.n)
            fail_msg("%s: %llx at %llx (was %llx) is believed", part->name,
                     (unsigned long long)*word(fake, at), (unsigned long long)at,
                     (unsigned long long)old);
    }
    *word(fake, at) = old;
    hx_allocator_share_deinit(&share);
    hx_snapshot_destroy(snapshot);
}

static void test_damage(void **state)
{
    (void)state;
    struct unit_random rng = unit_random_begin("damage");
    for (size_t i = 0; i < hx_jemalloc_n_layouts; i++) {
        const struct hx_jemalloc_layout *layout = &hx_jemalloc_layouts[i];
        struct fake *fake = make(layout);
        unsigned bits = 48 - layout->lg_page;
        uint64_t low = layout->lg_page + bits / 2 + bits % 2;
        const struct part parts[] = {
            {"arenas", DATA + 0x40, 64},
            {"arena", ARENA, (layout->base + 16) & ~7u},
            {"figures", ARENA + layout->nactive, 8},
            {"list of caches", ARENA + layout->caches, 8},
            {"base block", BASE, 40},
            {"base", BASE + 0xc0, layout->base_blocks + 16},
            {"bins", bin_at(fake, 0), 5u * layout->bin_bytes},
            {"root", ROOT + 8 * (HEAP >> low), 16},
            {"leaf", LEAF + 8 * (HEAP >> layout->lg_page & ((1u << (bits - bits / 2)) - 1)),
             8 * 32},
            {"records", BASE + 0x100000, fake->next_record - BASE - 0x100000},
            {"record", BASE + 0x100000, 128},
            {"cache", TLS + 0x400, 0xa00},
            {"stacks", fake->stack, fake->stack_bytes},
        };
        for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
            for (size_t n = unit_rounds(WORDS / hx_jemalloc_n_layouts); n-- > 0;)
                damage(fake, &parts[k], &rng);
        unmake(fake);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_layouts),
                                       cmocka_unit_test(test_damage)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
