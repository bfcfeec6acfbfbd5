/* test_glibc.c - the glibc walker on heaps that the test builds itself: every layout, damaged
 * headers, loops, torn updates, and random bytes anywhere. */
#include "attach/alloc/glibc.h"

#include "unit.h"

enum {
    TEXT = 0x10000000,
    DATA = 0x10010000,
    HEAP = 0x20000000,
    OWN = 0x28000000, /* a block with a mapping of its own */
    TLS = 0x30000000,
    TEXT_BYTES = 0x1000,
    DATA_BYTES = 0x3000,
    HEAP_BYTES = 0x21000,
    OWN_BYTES = 0x1000,
    TLS_BYTES = 0x1000,
    ARENA = DATA + 0x400,
    PARAM = DATA + 0x200,
    TP = TLS + 0x800,
    OBJECTS_MAX = 256,
};

static const uint64_t KEY = 0x5bd1e995c3a5c85d; /* of all tcaches, from 2.34 on */

struct expected {
    uint64_t addr, size;
};

/* A process with one thread whose libc has the layout. */
struct fake {
    const struct hx_glibc_layout *layout;
    uint64_t text[TEXT_BYTES / 8], data[DATA_BYTES / 8], heap[HEAP_BYTES / 8], tls[TLS_BYTES / 8];
    uint64_t own[OWN_BYTES / 8];
    struct expected object[OBJECTS_MAX];
    size_t n_objects;
    uint64_t at;            /* where the next chunk begins */
    uint64_t previous_free; /* size of the chunk before, when that is free; else 0 */
};

static uint64_t *word(struct fake *fake, uint64_t addr)
{
    if (addr >= TLS)
        return &fake->tls[(addr - TLS) / 8];
    if (addr >= OWN)
        return &fake->own[(addr - OWN) / 8];
    if (addr >= HEAP)
        return &fake->heap[(addr - HEAP) / 8];
    if (addr >= DATA)
        return &fake->data[(addr - DATA) / 8];
    return &fake->text[(addr - TEXT) / 8];
}

static void put32(struct fake *fake, uint64_t addr, uint32_t value)
{
    memcpy((uint8_t *)word(fake, addr & ~UINT64_C(7)) + (addr & 7), &value, 4);
}

/* Begins a chunk; returns its address. */
static uint64_t chunk(struct fake *fake, uint64_t size, bool in_use)
{
    uint64_t p = fake->at;
    *word(fake, p + 8) = size | !fake->previous_free;
    if (fake->previous_free)
        *word(fake, p) = fake->previous_free;
    fake->previous_free = in_use ? 0 : size;
    fake->at += size;
    return p;
}

static uint64_t object(struct fake *fake, uint64_t size)
{
    uint64_t p = chunk(fake, size, true);
    fake->object[fake->n_objects++] = (struct expected){p + 16, size - 8};
    return p;
}

/* Puts a free chunk into the list of bin i, at its front. */
static uint64_t binned(struct fake *fake, uint64_t size, unsigned i)
{
    uint64_t p = chunk(fake, size, false);
    uint64_t bin = hx_glibc_bin(fake->layout->state, ARENA, i);
    uint64_t first = *word(fake, bin + 16);
    *word(fake, p + 16) = first;
    *word(fake, p + 24) = bin;
    *word(fake, first + 24) = p;
    *word(fake, bin + 16) = p;
    return p;
}

static uint64_t link_word(const struct fake *fake, uint64_t at, uint64_t to)
{
    return fake->layout->safe_linking ? to ^ at >> 12 : to;
}

static void fill_param(struct fake *fake)
{
    const struct hx_glibc_param_shape *shape = fake->layout->param;
    *word(fake, PARAM) = 131072;
    *word(fake, PARAM + 8) = 131072;
    *word(fake, PARAM + 16) = 131072;
    *word(fake, PARAM + 24) = 8;
    put32(fake, PARAM + shape->n_mmaps + 4u, 65536);
    *word(fake, PARAM + shape->sbrk_base) = HEAP;
    if (shape->tcache) {
        *word(fake, PARAM + shape->tcache) = 64;
        *word(fake, PARAM + shape->tcache + 8u) = 1032;
        *word(fake, PARAM + shape->tcache + 16u) = fake->layout->first >= 43 ? 16 : 7;
    }
}

static void fill_arena(struct fake *fake)
{
    const struct hx_glibc_state_shape *shape = fake->layout->state;
    for (unsigned i = 0; i < HX_GLIBC_BINS; i++) {
        uint64_t bin = hx_glibc_bin(shape, ARENA, i);
        *word(fake, bin + 16) = *word(fake, bin + 24) = bin;
    }
    *word(fake, ARENA + shape->next) = ARENA;
    if (shape->attached)
        *word(fake, ARENA + shape->attached) = 1;
    *word(fake, ARENA + shape->system_mem) = HEAP_BYTES;
    *word(fake, ARENA + shape->system_mem + 8u) = HEAP_BYTES;
}

static void put_count(struct fake *fake, uint64_t tcache, unsigned i, unsigned count)
{
    const struct hx_glibc_tcache_shape *shape = fake->layout->tcache;
    unsigned full = fake->layout->first >= 43 ? 16 : 7;
    uint8_t *bytes = (uint8_t *)word(fake, tcache);
    bytes[i * shape->count_size] = (uint8_t)(shape->slots ? full - count : count);
}

/* An empty one. */
static uint64_t new_tcache(struct fake *fake)
{
    uint64_t mem = chunk(fake, (fake->layout->tcache->size + 23u) & ~15u, true) + 16;
    for (unsigned i = 0; i < fake->layout->tcache->n; i++)
        put_count(fake, mem, i, 0);
    return mem;
}

/* Puts a chunk in front of list i; returns its block. */
static uint64_t cached(struct fake *fake, uint64_t tcache, unsigned i, uint64_t key)
{
    const struct hx_glibc_tcache_shape *shape = fake->layout->tcache;
    uint64_t mem = chunk(fake, 32 + 16 * (uint64_t)i, true) + 16;
    uint64_t *entry = word(fake, tcache + shape->n * shape->count_size + 8u * i);
    *word(fake, mem) = link_word(fake, mem, *entry);
    *word(fake, mem + 8) = key;
    return *entry = mem;
}

/* None before 2.30: of 2.27 to 2.29, which share a layout, the last alone has one. */
static uint64_t key_of(const struct fake *fake, uint64_t tcache)
{
    if (fake->layout->first >= 34)
        return KEY;
    return fake->layout->first >= 30 ? tcache : 0;
}

/* The tcache: two chunks of 48 bytes in bin 1. */
static void fill_tcache(struct fake *fake)
{
    if (!fake->layout->tcache->n)
        return;
    uint64_t mem = new_tcache(fake);
    object(fake, 64);
    cached(fake, mem, 1, key_of(fake, mem));
    object(fake, 32);
    cached(fake, mem, 1, key_of(fake, mem));
    put_count(fake, mem, 1, 2);
    *word(fake, TP - 0x48) = mem;
}

static void fill_fastbin(struct fake *fake)
{
    const struct hx_glibc_state_shape *shape = fake->layout->state;
    if (!shape->n_fastbins)
        return;
    uint64_t a = chunk(fake, 64, true);
    object(fake, 32);
    uint64_t b = chunk(fake, 64, true);
    *word(fake, ARENA + shape->fastbins + 16) = b;
    *word(fake, b + 16) = link_word(fake, b + 16, a);
    *word(fake, a + 16) = link_word(fake, a + 16, 0);
}

static void put_top(struct fake *fake)
{
    *word(fake, ARENA + fake->layout->state->top) = fake->at;
    *word(fake, fake->at + 8) = (HEAP + HEAP_BYTES - fake->at) | 1;
}

static struct fake *make(size_t layout, bool version)
{
    struct fake *fake = calloc(1, sizeof *fake);
    assert_non_null(fake);
    fake->layout = &hx_glibc_layouts[layout];
    fake->at = HEAP;
    if (version)
        snprintf((char *)fake->text + 100, 200,
                 "GNU C Library (Test 2.%d-1) stable release version 2.%d.", fake->layout->first,
                 fake->layout->first);
    fill_param(fake);
    fill_arena(fake);
    fill_tcache(fake);
    fill_fastbin(fake);
    for (unsigned i = 0; i < 20; i++) {
        object(fake, 32 + 16 * i);
        if (i % 3 == 0)
            binned(fake, 1040 + 16 * i, 0);
        if (i % 3 == 1)
            binned(fake, 160, 9);
    }
    object(fake, 4000);
    put_top(fake);
    return fake;
}

/* --- running ----------------------------------------------------------------------------- */

static bool peek_image(void *context, uint64_t addr, void *dst, size_t len)
{
    return hx_image_read(context, addr, dst, len);
}

static void add_mapping(struct hx_snapshot *snapshot, uint64_t start, uint64_t bytes, uint32_t prot,
                        const char *path, const void *content)
{
    size_t i = snapshot->n_mappings++;
    snapshot->mapping[i] = (struct hx_mapping){.start = start,
                                               .end = start + bytes,
                                               .prot = prot,
                                               .inode = path[0] == '/',
                                               .path = strdup(path)};
    snapshot->image.span[i] = (struct hx_span){start, start + bytes, content};
    snapshot->image.n = i + 1;
}

static struct hx_snapshot *snapshot_of(const struct fake *fake)
{
    struct hx_snapshot *snapshot;
    assert_null(hx_snapshot_create(&snapshot));
    snapshot->mapping = calloc(5, sizeof *snapshot->mapping);
    snapshot->thread = calloc(1, sizeof *snapshot->thread);
    snapshot->image.span = calloc(5, sizeof *snapshot->image.span);
    snapshot->n_threads = 1;
    snapshot->thread[0] = (struct hx_thread){.tid = 1, .has_regs = true, .tp = TP};
    const char *libc = "/lib/libc.so.6";
    add_mapping(snapshot, TEXT, TEXT_BYTES, HX_PROT_R | HX_PROT_X, libc, fake->text);
    add_mapping(snapshot, DATA, DATA_BYTES, HX_PROT_R | HX_PROT_W, libc, fake->data);
    add_mapping(snapshot, HEAP, HEAP_BYTES, HX_PROT_R | HX_PROT_W, "[heap]", fake->heap);
    if (fake->own[1])
        add_mapping(snapshot, OWN, OWN_BYTES, HX_PROT_R | HX_PROT_W, "", fake->own);
    add_mapping(snapshot, TLS, TLS_BYTES, HX_PROT_R | HX_PROT_W, "", fake->tls);
    return snapshot;
}

/* Walks; NULL, and the snapshot is gone, when no allocator was found. */
static struct hx_snapshot *walk_snapshot(struct hx_snapshot *snapshot, enum hx_walk_verdict *ret)
{
    struct hx_peek peek = {peek_image, &snapshot->image};
    hx_modules *modules;
    assert_null(hx_modules_create(0, NULL, 0, &modules));
    struct hx_alloc_target target = {snapshot->mapping, snapshot->n_mappings, 0, &peek, modules};
    struct hx_heaps_options options = {hx_allocators, false, 1};
    struct hx_guard guard = {0};
    struct hx_allocator_share share = {0};
    hx_ranges excluded = {0};
    bool found;
    void *state;
    assert_null(hx_allocator_glibc.find(&target, &share, &state));
    if (state) {
        assert_null(hx_allocator_glibc.guard(state, &target, &guard));
        assert_true(guard.locks.n >= 1);
        hx_allocator_glibc.end(state);
    }
    assert_null(hx_heaps_walk(&options, &target, snapshot, &excluded, NULL, ret, &found));
    assert_int_equal(found, state != NULL);
    assert_true(!found || excluded.n >= 1);
    hx_vec_free(&excluded);
    hx_guard_deinit(&guard);
    hx_allocator_share_deinit(&share);
    hx_modules_destroy(modules);
    if (found)
        return snapshot;
    hx_snapshot_destroy(snapshot);
    return NULL;
}

/* The caller destroys the snapshot. */
static struct hx_snapshot *walk(const struct fake *fake, enum hx_walk_verdict *ret)
{
    return walk_snapshot(snapshot_of(fake), ret);
}

static void check_partition(const struct hx_snapshot *snapshot)
{
    uint64_t before = 0, objects = 0, free_bytes = 0, segments = 0;
    for (size_t i = 0; i < snapshot->segments.n; i++) {
        assert_true(snapshot->segments.v[i].start >= before);
        before = snapshot->segments.v[i].end;
        segments += before - snapshot->segments.v[i].start;
    }
    before = 0;
    size_t f = 0;
    for (hx_obj i = 0; i < snapshot->graph.n; i++) {
        uint64_t start = snapshot->graph.addr[i], end = start + snapshot->graph.size[i];
        assert_true(start >= before && end > start);
        before = end;
        objects += snapshot->graph.size[i];
        while (f < snapshot->free_ranges.n && snapshot->free_ranges.v[f].end <= start)
            f++;
        assert_true(f == snapshot->free_ranges.n || snapshot->free_ranges.v[f].start >= end);
    }
    before = 0;
    for (size_t i = 0; i < snapshot->free_ranges.n; i++) {
        assert_true(snapshot->free_ranges.v[i].start >= before);
        before = snapshot->free_ranges.v[i].end;
        free_bytes += before - snapshot->free_ranges.v[i].start;
    }
    assert_int_equal(objects, snapshot->heap_bytes);
    assert_int_equal(free_bytes, snapshot->free_bytes);
    assert_int_equal(segments, objects + free_bytes + snapshot->overhead_bytes);
}

static bool has_object(const struct hx_snapshot *snapshot, const struct expected *object)
{
    hx_obj i = hx_graph_find(&snapshot->graph, object->addr);
    return i != HX_NO_OBJ && snapshot->graph.addr[i] == object->addr &&
           snapshot->graph.size[i] == object->size;
}

static void check_objects(const struct fake *fake, const struct hx_snapshot *snapshot, size_t lost)
{
    size_t missing = 0;
    for (size_t i = 0; i < fake->n_objects; i++)
        missing += !has_object(snapshot, &fake->object[i]);
    assert_int_equal(missing, lost);
    check_partition(snapshot);
}

/* --- tests ---------------------------------------------------------------------------------- */

static void test_layouts(void **state)
{
    (void)state;
    for (size_t i = 0; i < hx_glibc_n_layouts; i++)
        for (int version = 0; version < 2; version++) {
            enum hx_walk_verdict verdict;
            char name[32];
            struct fake *fake = make(i, version);
            struct hx_snapshot *snapshot = walk(fake, &verdict);
            assert_non_null(snapshot);
            assert_int_equal(verdict, HX_WALK_OK);
            assert_true(snapshot->complete);
            assert_int_equal(snapshot->losses.n, 0);
            check_objects(fake, snapshot, 0);
            assert_int_equal(snapshot->graph.n, fake->n_objects);
            snprintf(name, sizeof name, "glibc 2.%d", fake->layout->first);
            if (version || fake->layout->tcache->n)
                assert_int_equal(strncmp(snapshot->allocator, name, strlen(name)), 0);
            bool proven = hx_glibc_proven(fake->layout->first);
            if (version)
                assert_int_equal(!strstr(hx_text_str(&snapshot->notes), "not one of those"),
                                 proven);
            hx_snapshot_destroy(snapshot);
            free(fake);
        }
}

/* More objects than an index of 16 bits can number; one of 32 bits takes all. */
static void test_many(void **state)
{
    (void)state;
    const size_t more = 70000;
    enum hx_walk_verdict verdict;
    struct fake *fake = make(7, true);
    const size_t bytes = HEAP_BYTES + more * 32;
    uint8_t *heap = calloc(1, bytes);
    assert_non_null(heap);
    memcpy(heap, fake->heap, HEAP_BYTES);
    uint64_t at = fake->at - HEAP, word_of[2] = {0, 32 | 1};
    for (size_t i = 0; i < more; i++, at += 32)
        memcpy(heap + at, word_of, sizeof word_of);
    word_of[1] = (bytes - at) | 1;
    memcpy(heap + at, word_of, sizeof word_of);
    *word(fake, ARENA + fake->layout->state->top) = HEAP + at;
    *word(fake, ARENA + fake->layout->state->system_mem) = bytes;
    *word(fake, ARENA + fake->layout->state->system_mem + 8u) = bytes;
    struct hx_snapshot *snapshot = snapshot_of(fake);
    snapshot->mapping[2].end = snapshot->image.span[2].end = HEAP + bytes;
    snapshot->image.span[2].bytes = heap;
    snapshot = walk_snapshot(snapshot, &verdict);
    assert_non_null(snapshot);
    const uint64_t all = fake->n_objects + more;
    const hx_obj numbered = all < HX_OBJECTS_MAX ? (hx_obj)all : HX_OBJECTS_MAX;
    assert_int_equal(snapshot->graph.n, numbered);
    assert_int_equal(snapshot->losses.n, numbered < all);
    if (numbered < all)
        assert_int_equal(snapshot->losses.v[0].count, all - numbered);
    check_partition(snapshot);
    hx_snapshot_destroy(snapshot);
    free(heap);
    free(fake);
}

static void test_unused(void **state)
{
    (void)state;
    enum hx_walk_verdict verdict;
    struct fake *fake = make(7, true);
    memset(fake->data, 0, sizeof fake->data);
    memset(fake->heap, 0, sizeof fake->heap);
    memset(fake->tls, 0, sizeof fake->tls);
    *word(fake, ARENA + fake->layout->state->next) = ARENA;
    *word(fake, ARENA + fake->layout->state->attached) = 1;
    struct hx_snapshot *snapshot = walk(fake, &verdict);
    assert_non_null(snapshot);
    assert_string_equal(snapshot->allocator, "glibc 2.35, unused");
    assert_int_equal(verdict, HX_WALK_OK);
    assert_int_equal(snapshot->graph.n, 0);
    assert_int_equal(snapshot->segments.n, 0);
    assert_true(snapshot->complete);
    hx_snapshot_destroy(snapshot);
    free(fake);
}

/* A header of nonsense costs its own block and no other. */
static void test_damaged(void **state)
{
    (void)state;
    static const uint64_t nonsense[] = {0x4141414141414141, 0, 1, ~UINT64_C(0), 0x7ffffffffff1};
    for (size_t i = 0; i < sizeof nonsense / sizeof *nonsense; i++) {
        enum hx_walk_verdict verdict;
        struct fake *fake = make(7, true);
        struct expected *victim = &fake->object[15];
        *word(fake, victim->addr - 8) = nonsense[i];
        struct hx_snapshot *snapshot = walk(fake, &verdict);
        assert_int_equal(verdict, HX_WALK_BAD);
        assert_false(snapshot->complete);
        assert_false(has_object(snapshot, victim));
        check_objects(fake, snapshot, 1);
        assert_int_equal(snapshot->losses.n, 1);
        assert_string_equal(snapshot->losses.v[0].what, "heap blocks with a damaged header");
        assert_int_equal(snapshot->losses.v[0].address, victim->addr - 16);
        assert_int_equal(snapshot->losses.v[0].count, 1);
        hx_snapshot_destroy(snapshot);
        free(fake);
    }
}

/* Links that go in circles or nowhere. */
static void test_wild_links(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        enum hx_walk_verdict verdict;
        struct fake *fake = make(7, true);
        uint64_t mem = HEAP + 16, entry = mem + 128 + 8, first = *word(fake, entry);
        uint64_t bin = hx_glibc_bin(fake->layout->state, ARENA, 0),
                 free_chunk = *word(fake, bin + 16);
        if (i == 0) /* tcache: a loop */
            *word(fake, first) = link_word(fake, first, first);
        if (i == 1) /* tcache: nowhere */
            *word(fake, first) = 0x123456789abcdef0;
        if (i == 2) /* tcache: into libc's data */
            *word(fake, first) = link_word(fake, first, ARENA);
        if (i == 3) /* bin: nowhere */
            *word(fake, free_chunk + 16) = 0x4242424242424242;
        if (i == 4) /* bin: a loop */
            *word(fake, free_chunk + 16) = free_chunk;
        if (i == 5) { /* fastbin: a loop */
            uint64_t *head = word(fake, ARENA + fake->layout->state->fastbins + 16);
            *word(fake, *head + 16) = link_word(fake, *head + 16, *head);
        }
        struct hx_snapshot *snapshot = walk(fake, &verdict);
        check_objects(fake, snapshot, 0);
        assert_false(snapshot->complete);
        if (i == 3)
            assert_int_equal(verdict, HX_WALK_BAD);
        if (i == 4)
            assert_int_equal(verdict, HX_WALK_TORN);
        hx_snapshot_destroy(snapshot);
        free(fake);
    }
}

/* --- tcaches --------------------------------------------------------------------------------- */

/* A small mmap_threshold: the tcache has a mapping of its own. What was its chunk is a block. */
static void move_tcache(struct fake *fake)
{
    const struct hx_glibc_layout *layout = fake->layout;
    const struct hx_glibc_param_shape *shape = layout->param;
    memcpy(word(fake, OWN + 16), word(fake, HEAP + 16), layout->tcache->size);
    *word(fake, OWN + 8) = (OWN_BYTES - (layout->mmapped_header ? 16 : 0)) | HX_CHUNK_MMAPPED;
    *word(fake, TP - 0x48) = OWN + 16;
    fake->object[fake->n_objects++] =
        (struct expected){HEAP + 16, (*word(fake, HEAP + 8) & ~UINT64_C(7)) - 8};
    memset(word(fake, HEAP + 16), 0, layout->tcache->size);
    put32(fake, PARAM + shape->n_mmaps, 1);
    put32(fake, PARAM + shape->n_mmaps + 8u, 1);
    *word(fake, PARAM + shape->mmapped_mem) = OWN_BYTES;
    *word(fake, PARAM + shape->mmapped_mem + 8u) = OWN_BYTES;
}

/* With a thread, and without one: a fork leaves the tcaches of others behind. */
static void test_mapped_tcache(void **state)
{
    (void)state;
    for (size_t i = 0; i < hx_glibc_n_layouts; i++)
        for (int orphan = 0; orphan < 2 && hx_glibc_layouts[i].tcache->n; orphan++) {
            enum hx_walk_verdict verdict;
            struct fake *fake = make(i, true);
            move_tcache(fake);
            struct hx_snapshot *snapshot = snapshot_of(fake);
            if (orphan) {
                *word(fake, TP - 0x48) = 0;
                snapshot->pid = 2; /* and the thread is not the first one */
            }
            snapshot = walk_snapshot(snapshot, &verdict);
            assert_int_equal(verdict, HX_WALK_OK);
            assert_true(snapshot->complete);
            assert_int_equal(snapshot->losses.n, 0);
            check_objects(fake, snapshot, 0);
            assert_int_equal(snapshot->graph.n, fake->n_objects);
            hx_snapshot_destroy(snapshot);
            free(fake);
        }
}

/* A second thread, with the word that leads to its tcache and the one beside it that leads to its
 * arena. Only what can be a tcache, and is not understood, is a loss. */
static void test_lost_tcache(void **state)
{
    (void)state;
    enum { SECOND = TLS + 0xc00 };
    for (int i = 0; i < 6; i++) {
        enum hx_walk_verdict verdict;
        struct fake *fake = make(7, true);
        uint64_t object = fake->object[fake->n_objects - 1].addr;
        *word(fake, TP - 0x38) = *word(fake, SECOND - 0x38) = i == 4 ? 0 : ARENA;
        if (i != 5)
            *word(fake, SECOND - 0x48) = object;
        if (i == 1) /* not yet, or no more */
            *word(fake, SECOND - 0x48) = 0;
        if (i == 2) /* the stand-in */
            *word(fake, SECOND - 0x48) = TEXT + 0x100;
        if (i == 3) /* tunable: threads keep none */
            *word(fake, PARAM + fake->layout->param->tcache + 16u) = 0;
        struct hx_snapshot *snapshot = snapshot_of(fake);
        snapshot->thread = realloc(snapshot->thread, 2 * sizeof *snapshot->thread);
        snapshot->thread[1] = (struct hx_thread){.tid = 2, .has_regs = true, .tp = SECOND};
        snapshot->n_threads = 2;
        snapshot = walk_snapshot(snapshot, &verdict);
        check_objects(fake, snapshot, 0);
        assert_int_equal(snapshot->complete, i != 0);
        assert_int_equal(snapshot->losses.n, i == 0);
        if (i == 0)
            assert_string_equal(snapshot->losses.v[0].what, "tcaches not found");
        hx_snapshot_destroy(snapshot);
        free(fake);
    }
}

/* A block like an empty tcache, to which a pointer in thread-local storage leads that is nearer
 * than libc's, is a block all the same. */
static void test_like_a_tcache(void **state)
{
    (void)state;
    enum hx_walk_verdict verdict;
    struct fake *fake = make(7, true);
    move_tcache(fake);
    memset(word(fake, OWN + 16), 0, fake->layout->tcache->size);
    *word(fake, TP - 0x200 + 0x10) = ARENA;
    *word(fake, TP - 0x200) = OWN + 16;
    *word(fake, TP - 0x48) = HEAP + 16;
    struct hx_snapshot *snapshot = walk(fake, &verdict);
    assert_true(snapshot->complete);
    check_objects(fake, snapshot, 0);
    assert_int_equal(snapshot->graph.n, fake->n_objects + 2); /* what it held is in use now */
    hx_snapshot_destroy(snapshot);
    free(fake);
}

/* A thread in the middle of its end: glibc has taken its tcache from it and is emptying that, bin
 * by bin. What is not exactly so is a block of the program. */
static void test_ending(void **state)
{
    (void)state;
    enum way {
        RIGHT,
        KEYS_DIFFER,
        KEY_STRANGE,  /* not that of the thread's tcache */
        KEY_ALONE,    /* there is no other to compare it with */
        KEY_ADDRESS,  /* of the tcache itself */
        LONG_PRESENT, /* a list longer than its count */
        SHORT_BEHIND, /* a list that was not reached yet, shorter than its count */
        EMPTY_BEHIND,
        WILD_BEHIND,
        ABOVE_LIMIT, /* a count that no list can have */
        ALL_EMPTY,
        WAYS
    };
    for (size_t i = 0; i < hx_glibc_n_layouts; i++)
        for (enum way way = 0; way < WAYS && hx_glibc_layouts[i].tcache->n; way++) {
            enum hx_walk_verdict verdict;
            struct fake *fake = make(i, true);
            const struct hx_glibc_layout *layout = fake->layout;
            uint64_t mem = new_tcache(fake), key = key_of(fake, mem);
            if (way == KEY_STRANGE || way == KEY_ALONE)
                key = KEY + 1;
            if (way == KEY_ADDRESS)
                key = mem;
            if (way == KEY_ALONE) /* a program wrote to both */
                for (uint64_t at = HEAP; at < mem; at += 8)
                    if (*word(fake, at) == key_of(fake, HEAP + 16))
                        *word(fake, at) = 0;
            put_count(fake, mem, 0, way == ABOVE_LIMIT ? 20 : 3);
            put_count(fake, mem, 2, way == LONG_PRESENT ? 1 : 4);
            put_count(fake, mem, 5, way == SHORT_BEHIND ? 3 : 2);
            put_count(fake, mem, 6, way == EMPTY_BEHIND);
            for (unsigned k = 0; k < 2 && way != ALL_EMPTY; k++) {
                cached(fake, mem, 2, key);
                object(fake, 32);
                cached(fake, mem, 5, key + (way == KEYS_DIFFER));
            }
            if (way == WILD_BEHIND)
                *word(fake, mem + layout->tcache->n * layout->tcache->count_size + 8u * 7) = ARENA;
            put_top(fake);
            bool taken = way == RIGHT && layout->first >= 30;
            taken |= way == KEY_ALONE && layout->last >= 34;
            taken |= way == KEY_ADDRESS && layout->first < 34;
            struct hx_snapshot *snapshot = walk(fake, &verdict);
            assert_int_equal(verdict, HX_WALK_OK);
            assert_true(snapshot->complete);
            check_objects(fake, snapshot, 0);
            size_t more = taken ? 0 : way == ALL_EMPTY ? 1 : 5;
            assert_int_equal(snapshot->graph.n, fake->n_objects + more);
            hx_snapshot_destroy(snapshot);
            free(fake);
        }
}

/* Moments in the middle of malloc and free. */
static void test_torn(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        enum hx_walk_verdict verdict;
        struct fake *fake = make(7, true);
        const struct hx_glibc_state_shape *shape = fake->layout->state;
        uint64_t top = *word(fake, ARENA + shape->top);
        uint64_t bin = hx_glibc_bin(shape, ARENA, 0), chunk_ = *word(fake, bin + 16);
        uint64_t size = *word(fake, chunk_ + 8) & ~UINT64_C(7);
        if (i == 0) { /* the top moved, the block before it still has the old size */
            *word(fake, ARENA + shape->top) = top + 64;
            *word(fake, top + 64 + 8) = (HEAP + HEAP_BYTES - top - 64) | 1;
        }
        if (i == 1) { /* the top moved, its header is not written yet */
            *word(fake, ARENA + shape->top) = top + 64;
            *word(fake, top + 8) = 64 | 1;
        }
        if (i == 2) /* taken by the tags, not unlinked yet */
            *word(fake, chunk_ + size + 8) |= 1;
        if (i == 3) { /* unlinked, still free by the tags */
            uint64_t next = *word(fake, chunk_ + 16);
            *word(fake, bin + 16) = next;
            *word(fake, next + 24) = bin;
        }
        struct hx_snapshot *snapshot = walk(fake, &verdict);
        assert_int_equal(verdict, HX_WALK_TORN);
        assert_false(snapshot->complete);
        check_objects(fake, snapshot, 0);
        hx_snapshot_destroy(snapshot);
        free(fake);
    }
}

/* A count may be one off: a thread stands between two stores. */
static void test_count_off_by_one(void **state)
{
    (void)state;
    enum hx_walk_verdict verdict;
    struct fake *fake = make(7, true);
    put32(fake, HEAP + 16, 3 << 16);
    struct hx_snapshot *snapshot = walk(fake, &verdict);
    assert_int_equal(verdict, HX_WALK_OK);
    assert_int_equal(snapshot->graph.n, fake->n_objects);
    check_objects(fake, snapshot, 0);
    hx_snapshot_destroy(snapshot);
    free(fake);
}

/* A word that hurts: a pointer somewhere, a size, a flag more, anything. */
static uint64_t nasty(struct unit_random *rng, uint64_t old)
{
    static const uint64_t base[] = {HEAP, DATA, TLS, ARENA, 0, ~UINT64_C(0) - 4096};
    uint64_t r = unit_random(rng);
    switch (r % 6) {
    case 0:
        return base[r / 8 % 6] + (r >> 32) % HEAP_BYTES / 8 * 8;
    case 1:
        return old ^ UINT64_C(1) << (r >> 32) % 64;
    case 2:
        return (r >> 32) % 4096;
    case 3:
        return old + ((r >> 32) % 64 - 32) * 16;
    case 4:
        return r;
    default:
        return 0;
    }
}

static void test_random_bytes(void **state)
{
    (void)state;
    struct unit_random seed = unit_random_begin("random bytes"), rng;
    uint64_t found = 0;
    size_t rounds = unit_rounds(1500);
    for (size_t i = 0; i < rounds; i++) {
        rng.state = unit_random(&seed);
        struct fake *fake = make(unit_random(&rng) % hx_glibc_n_layouts, i % 2);
        int n = 1 + (int)(unit_random(&rng) % 40);
        for (int k = 0; k < n; k++) {
            uint64_t r = unit_random(&rng), *at;
            if (r % 4 == 0)
                at = &fake->data[(r >> 8) % (DATA_BYTES / 8)];
            else if (r % 4 == 1)
                at = &fake->tls[(r >> 8) % (TLS_BYTES / 8)];
            else
                at = word(fake, HEAP + (r >> 8) % (fake->at - HEAP) / 8 * 8);
            *at = nasty(&rng, *at);
        }
        enum hx_walk_verdict verdict;
        struct hx_snapshot *snapshot = walk(fake, &verdict);
        if (snapshot) {
            check_partition(snapshot);
            found++;
        }
        hx_snapshot_destroy(snapshot);
        free(fake);
    }
    assert_true(found * 4 > rounds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layouts),          cmocka_unit_test(test_many),
        cmocka_unit_test(test_unused),           cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_wild_links),       cmocka_unit_test(test_torn),
        cmocka_unit_test(test_mapped_tcache),    cmocka_unit_test(test_lost_tcache),
        cmocka_unit_test(test_like_a_tcache),    cmocka_unit_test(test_ending),
        cmocka_unit_test(test_count_off_by_one), cmocka_unit_test(test_random_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
