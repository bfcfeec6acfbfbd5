/* test_mimalloc.c - the walks of mimalloc 2 and 3 on heaps that the test builds itself: every
 * layout, encoded links, delayed lists, random words anywhere. */
#include "attach/alloc/mimalloc.h"

#include "unit.h"

enum {
    SLICE = 1 << HX_MI_SLICE_SHIFT,
    SLICES = 8, /* that have contents */
    HEAP = 0x30000000,
    BASE = 0x40000000, /* of a segment or arena */
    MAP = 0x50000000,
    MAP_BYTES = 4096,
    SMALL = 64, /* bytes of a block */
    SMALL_BLOCKS = 100,
};

/* Memory of a process with one segment (2) or one arena and a map (3). */
struct fake {
    const struct hx_mi_layout *layout; /* NULL: version 3 */
    uint64_t heap[HX_MI_THREAD_DATA / 8], base[SLICES * SLICE / 8];
    uint64_t map[(MAP_BYTES + (8 << 14)) / 8];
    uint64_t keys[2];
    bool live[SMALL_BLOCKS];
};

static uint8_t *at(struct fake *fake, uint64_t addr)
{
    if (addr >= MAP)
        return (uint8_t *)fake->map + (addr - MAP);
    return addr >= BASE ? (uint8_t *)fake->base + (addr - BASE)
                        : (uint8_t *)fake->heap + (addr - HEAP);
}

static void put(struct fake *fake, uint64_t addr, uint64_t value, size_t width)
{
    memcpy(at(fake, addr), &value, width);
}

/* --- lists ----------------------------------------------------------------------------- */

static uint64_t encode(const struct fake *fake, uint64_t addr, uint64_t owner)
{
    uint64_t x = (addr ? addr : owner) ^ fake->keys[1], by = fake->keys[0] & 63;
    if (!fake->keys[0])
        return addr;
    return (by ? x << by | x >> (64 - by) : x) + fake->keys[0];
}

/* Every n-th block from `from` on; returns the head of the list. */
static uint64_t make_list(struct fake *fake, uint64_t first, uint64_t owner, unsigned from,
                          unsigned step, unsigned end)
{
    uint64_t head = 0;
    for (unsigned i = from; i < end; i += step) {
        put(fake, first + i * SMALL, encode(fake, head, owner), 8);
        head = first + i * SMALL;
        fake->live[i] = false;
    }
    return head;
}

/* Blocks 0, 8, ... of each list are free: 50 of 100 are left. */
struct lists {
    uint64_t free, local, remote, delayed;
};

static struct lists make_lists(struct fake *fake, uint64_t first, uint64_t page)
{
    memset(fake->live, true, sizeof fake->live);
    return (struct lists){
        make_list(fake, first, page, 0, 8, 80), make_list(fake, first, page, 1, 8, 80),
        make_list(fake, first, page, 2, 8, 80), make_list(fake, first, HEAP, 3, 8, 80)};
}

/* --- version 2 ------------------------------------------------------------------------- */

static uint64_t slice_at(const struct fake *fake, unsigned i)
{
    return BASE + fake->layout->slices + (uint64_t)i * fake->layout->slice_bytes;
}

static void put_run(struct fake *fake, unsigned i, uint32_t count, uint64_t size)
{
    put(fake, slice_at(fake, i), count, 4);
    put(fake, slice_at(fake, i) + fake->layout->block_size, size, fake->layout->block_size_bytes);
}

static void put_head(struct fake *fake)
{
    const struct hx_mi_layout *layout = fake->layout;
    put(fake, BASE + layout->segment_slices, layout->slices_max, 8);
    put(fake, BASE + layout->slice_entries, layout->slices_max, 8);
    put(fake, BASE + layout->info_slices, 1, 8);
    put(fake, BASE + layout->used_pages, 2, 8);
    put_run(fake, 0, 1, SLICE);
    put_run(fake, 1, 1, SMALL);
    put_run(fake, 2, 2, 2 * SLICE); /* a page of one block */
    put_run(fake, 4, layout->slices_max - 4u, 0);
}

static uint64_t first_of(const struct hx_mi_layout *layout)
{
    static const uint64_t offsets[] = {0, 128, 384, 3 * SMALL};
    return BASE + SLICE + (layout->page_start ? 192 : offsets[layout->start_rule]);
}

static void put_page(struct fake *fake, unsigned i, uint64_t first, uint32_t capacity,
                     uint32_t reserved, uint32_t used)
{
    const struct hx_mi_layout *layout = fake->layout;
    uint64_t page = slice_at(fake, i);
    put(fake, page + 10, capacity, 2);
    put(fake, page + 12, reserved, 2);
    put(fake, page + layout->used, used, layout->used_bytes);
    put(fake, page + layout->xheap, HEAP, 8);
    put(fake, page + layout->near, slice_at(fake, 3 - i), 8);
    if (layout->page_start)
        put(fake, page + layout->page_start, first, 8);
    if (layout->keys)
        memcpy(at(fake, page + layout->keys), fake->keys, sizeof fake->keys);
}

static void build(struct fake *fake, const struct hx_mi_layout *layout)
{
    memset(fake, 0, sizeof *fake);
    fake->layout = layout;
    if (layout->keys)
        memcpy(fake->keys, (uint64_t[]){0x9e3779b97f4a7c15, 0x5bd1e995c3a5c85d}, 16);
    uint64_t first = first_of(layout), page = slice_at(fake, 1);
    uint32_t reserved = (uint32_t)((BASE + 2 * SLICE - first) / SMALL);
    put_head(fake);
    struct lists lists = make_lists(fake, first, page);
    put_page(fake, 1, first, SMALL_BLOCKS, reserved, SMALL_BLOCKS - 20);
    put_page(fake, 2, BASE + 2 * SLICE, 1, 1, 1);
    put(fake, page + 16, lists.free, 8);
    put(fake, page + layout->local_free, lists.local, 8);
    put(fake, page + layout->xthread_free, lists.remote | 2, 8);
    put(fake, HEAP + layout->heap_delayed, lists.delayed, 8);
    memcpy(at(fake, HEAP + layout->heap_keys[0]), fake->keys, sizeof fake->keys);
}

/* --- version 3 ------------------------------------------------------------------------- */

/* As version 3.4 has it. */
struct page {
    uint64_t thread, free;
    uint16_t used, capacity, reserved, flags;
    uint64_t local, remote, size;
    uint32_t offset, committed;
    uint64_t theap, heap, next, prev, arena;
    uint32_t slice, slices;
    uint64_t kind;
};

static void build_arena(struct fake *fake)
{
    uint64_t pages = BASE + 4096, sub = MAP + MAP_BYTES + (8 << 13);
    memset(fake, 0, sizeof *fake);
    struct lists lists = make_lists(fake, BASE + SLICE + SMALL, pages);
    struct page small = {.thread = 0x7000,
                         .free = lists.free,
                         .used = SMALL_BLOCKS - 20,
                         .capacity = SMALL_BLOCKS,
                         .reserved = SLICE / SMALL - 1,
                         .local = lists.local,
                         .remote = lists.remote | 1,
                         .size = SMALL,
                         .offset = (uint32_t)(BASE + SLICE + SMALL - pages) / 8,
                         .theap = HEAP,
                         .next = pages + sizeof small,
                         .arena = BASE,
                         .slice = 1,
                         .slices = 1,
                         .kind = 7};
    struct page large = {.thread = 0x7000,
                         .used = 1,
                         .capacity = 1,
                         .reserved = 1,
                         .size = 2 * SLICE,
                         .theap = HEAP,
                         .arena = BASE,
                         .slice = 2,
                         .slices = 2,
                         .offset = (uint32_t)(BASE + 2 * SLICE - pages - sizeof small) / 8,
                         .prev = pages,
                         .kind = 7};
    memcpy(at(fake, pages), &small, sizeof small);
    memcpy(at(fake, pages + sizeof small), &large, sizeof large);
    put(fake, BASE + 40, SLICES, 8);
    put(fake, BASE + 48, 1, 8);
    put(fake, MAP, MAP + MAP_BYTES, 8);
    put(fake, MAP + 8 * (BASE >> 29), sub, 8);
    put(fake, sub + 8, pages, 8);
    for (unsigned i = 2; i < 4; i++)
        put(fake, sub + 8 * i, pages + sizeof small, 8);
    for (unsigned i = 3; i < 80; i += 8)
        fake->live[i] = true; /* heaps have no lists */
}

/* --- walks ----------------------------------------------------------------------------- */

static void add_mapping(struct hx_snapshot *snapshot, uint64_t start, uint64_t end,
                        const void *content, uint64_t bytes)
{
    size_t i = snapshot->n_mappings++;
    snapshot->mapping[i] = (struct hx_mapping){
        .start = start, .end = end, .prot = HX_PROT_R | HX_PROT_W, .path = strdup("")};
    snapshot->image.span[i] = (struct hx_span){start, start + bytes, content};
    snapshot->image.n = i + 1;
}

static struct hx_snapshot *walk(const struct fake *fake, enum hx_walk_verdict *ret,
                                struct hx_allocator_share *share)
{
    struct hx_snapshot *snapshot;
    assert_null(hx_snapshot_create(&snapshot));
    snapshot->mapping = calloc(3, sizeof *snapshot->mapping);
    snapshot->image.span = calloc(3, sizeof *snapshot->image.span);
    uint64_t bytes = fake->layout ? UINT64_C(1) << fake->layout->shift : sizeof fake->base;
    add_mapping(snapshot, HEAP, HEAP + sizeof fake->heap, fake->heap, sizeof fake->heap);
    add_mapping(snapshot, BASE, BASE + bytes, fake->base, sizeof fake->base);
    add_mapping(snapshot, MAP, MAP + sizeof fake->map, fake->map, sizeof fake->map);
    snapshot->n_threads = 1;
    struct hx_mi_walk mi = {.snapshot = snapshot, .map = fake->layout ? 0 : MAP};
    hx_ranges excluded = {0};
    hx_slabs_init(&mi.slabs, snapshot);
    assert_null(hx_mi_walk_heap(&mi, share, &excluded, NULL, ret));
    hx_mi_walk_deinit(&mi);
    hx_vec_free(&excluded);
    return snapshot;
}

static void check_whole(struct fake *fake, uint64_t first)
{
    enum hx_walk_verdict verdict;
    struct hx_allocator_share share = {0};
    struct hx_snapshot *snapshot = walk(fake, &verdict, &share);
    size_t n = 0;
    assert_true(share.proven);
    assert_int_equal(verdict, HX_WALK_OK);
    for (unsigned i = 0; i < SMALL_BLOCKS; i++) {
        if (!fake->live[i])
            continue;
        assert_int_equal(snapshot->graph.addr[n], first + i * SMALL);
        assert_int_equal(snapshot->graph.size[n++], SMALL);
    }
    assert_int_equal(snapshot->graph.addr[n], BASE + 2 * SLICE);
    assert_int_equal(snapshot->graph.size[n++], 2 * SLICE);
    assert_int_equal(snapshot->graph.n, n);
    assert_int_equal(share.claimed_bytes, share.walked_bytes);
    hx_allocator_share_deinit(&share);
    hx_snapshot_destroy(snapshot);
}

/* Whatever it reads: objects in order, apart, in segments; figures add up. */
static void check_damaged(const struct fake *fake)
{
    enum hx_walk_verdict verdict;
    struct hx_allocator_share share = {0};
    struct hx_snapshot *snapshot = walk(fake, &verdict, &share);
    uint64_t end = 0, bytes = 0, segments = 0;
    for (uint64_t i = 0; i < snapshot->graph.n; i++) {
        assert_true(snapshot->graph.addr[i] >= end);
        end = snapshot->graph.addr[i] + snapshot->graph.size[i];
        bytes += snapshot->graph.size[i];
    }
    for (size_t i = 0; i < snapshot->segments.n; i++)
        segments += snapshot->segments.v[i].end - snapshot->segments.v[i].start;
    assert_int_equal(bytes, snapshot->heap_bytes);
    assert_int_equal(segments, bytes + snapshot->free_bytes + snapshot->overhead_bytes);
    assert_true(share.walked_bytes <= share.claimed_bytes);
    assert_true(verdict == HX_WALK_OK || !snapshot->complete);
    assert_true(share.proven || !snapshot->graph.n);
    hx_allocator_share_deinit(&share);
    hx_snapshot_destroy(snapshot);
}

/* --- tests ----------------------------------------------------------------------------- */

static void layouts(void **state)
{
    struct fake *fake = *state;
    for (size_t i = 0; i < hx_mi_n_layouts; i++) {
        build(fake, &hx_mi_layouts[i]);
        check_whole(fake, first_of(&hx_mi_layouts[i]));
    }
    build_arena(fake);
    check_whole(fake, BASE + SLICE + SMALL);
}

/* A word of the structures or of a block. */
static void damage(struct fake *fake, struct unit_random *random)
{
    uint64_t places[] = {BASE + 8 * unit_below(random, 128),
                         BASE + 8 * unit_below(random, 1024),
                         BASE + SLICE + 8 * unit_below(random, 1024),
                         HEAP + 8 * unit_below(random, sizeof fake->heap / 8),
                         MAP + 8 * unit_below(random, MAP_BYTES / 8),
                         MAP + MAP_BYTES + (8 << 13) + 8 * unit_below(random, SLICES)};
    uint64_t addr = places[unit_below(random, 6)], old;
    memcpy(&old, at(fake, addr), sizeof old);
    uint64_t values[] = {0, unit_random(random), old ^ UINT64_C(1) << unit_below(random, 64),
                         places[unit_below(random, 6)], unit_below(random, 4096)};
    put(fake, addr, values[unit_below(random, 5)], 8);
}

static void random_words(void **state)
{
    struct fake *fake = *state;
    struct unit_random random = unit_random_begin("random_words");
    for (size_t round = 0; round < unit_rounds(30000); round++) {
        size_t layout = unit_below(&random, hx_mi_n_layouts + 4);
        if (layout < hx_mi_n_layouts)
            build(fake, &hx_mi_layouts[layout]);
        else
            build_arena(fake);
        for (uint64_t n = (uint64_t)1 << unit_below(&random, 11); n; n--)
            damage(fake, &random);
        check_damaged(fake);
    }
}

static int set_up(void **state)
{
    *state = malloc(sizeof(struct fake));
    return *state ? 0 : -1;
}

static int tear_down(void **state)
{
    free(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(layouts), cmocka_unit_test(random_words)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
