/* test_join.c - recorded blocks beside walked objects, on random heaps: each byte of a segment is
 * explained once, each block is found again, and nobody gets a site that is not his. */
#include "unit.h"

#include "model/snapshot.h"
#include "record/read/join.h"

/* Slots of 64 bytes in three mappings; a slot belongs to the walked heap, to an allocator that
 * nobody walks, or to nobody. */
enum { SLOTS = 64, SLOT = 64, MAPPINGS = 3 };
#define BASE(m) (UINT64_C(0x7f0000000000) + (uint64_t)(m)*0x100000)

struct world {
    struct hx_snapshot *snapshot;
    struct hx_recording *recording;
    bool walked[MAPPINGS][SLOTS], recorded[MAPPINGS][SLOTS];
    uint64_t requested[MAPPINGS][SLOTS];
    uint32_t stack[MAPPINGS][SLOTS];
    int segment_end; /* mapping 0: slots below are in a walked segment */
};

static void add_mappings(struct world *world)
{
    struct hx_snapshot *snapshot = world->snapshot;
    snapshot->mapping = calloc(MAPPINGS, sizeof *snapshot->mapping);
    snapshot->n_mappings = MAPPINGS;
    for (int m = 0; m < MAPPINGS; m++)
        snapshot->mapping[m] = (struct hx_mapping){.start = BASE(m),
                                                   .end = BASE(m) + SLOTS * SLOT,
                                                   .prot = HX_PROT_R | HX_PROT_W,
                                                   .path = strdup(m == 2 ? "/lib/x.so" : "")};
}

/* The walk knows the first slots of mapping 0: objects, and free ranges between them. */
static void add_walk(struct world *world, struct unit_random *random)
{
    struct hx_graph *graph = &world->snapshot->graph;
    world->segment_end = (int)unit_below(random, SLOTS);
    assert_null(hx_big_reserve(&graph->addr_mem, SLOTS * 8));
    assert_null(hx_big_reserve(&graph->size_mem, SLOTS * 8));
    graph->addr = graph->addr_mem.base;
    graph->size = graph->size_mem.base;
    for (int i = 0; i < world->segment_end; i++) {
        uint64_t at = BASE(0) + (uint64_t)i * SLOT;
        world->walked[0][i] = unit_below(random, 2);
        if (world->walked[0][i]) {
            graph->addr[graph->n] = at;
            graph->size[graph->n++] = SLOT - 8;
            world->snapshot->heap_bytes += SLOT - 8;
        } else {
            struct hx_range range = {at, at + SLOT};
            assert_true(hx_vec_push(&world->snapshot->free_ranges, range));
            world->snapshot->free_bytes += SLOT;
        }
    }
    world->snapshot->no_heap = world->segment_end == 0;
    struct hx_segment segment = {BASE(0), BASE(0) + (uint64_t)world->segment_end * SLOT, 0};
    if (world->segment_end)
        assert_true(hx_vec_push(&world->snapshot->segments, segment));
    world->snapshot->allocator = strdup(world->segment_end ? "glibc" : "none found");
}

static void add_recording(struct world *world, struct unit_random *random)
{
    struct hx_recording *recording = world->recording;
    enum { STACKS = 4 };
    for (uint32_t i = 0; i < STACKS; i++) {
        struct hx_rec_place place = {.file = UINT32_MAX, .vaddr = 0x1000 + i};
        assert_true(hx_vec_push(&recording->places, place));
        assert_true(hx_vec_push(&recording->stack_places, i));
        assert_true(hx_vec_push(&recording->stacks, (struct hx_rec_stack){.first = i, .n = 1}));
        assert_true(hx_vec_push(&recording->costs, (struct hx_rec_costs){0}));
    }
    recording->from_start = unit_below(random, 2);
    assert_null(hx_big_reserve(&recording->block_mem, MAPPINGS * SLOTS * sizeof *recording->block));
    recording->block = recording->block_mem.base;
    for (int m = 0; m < MAPPINGS; m++)
        for (int i = 0; i < SLOTS; i++) {
            if (unit_below(random, 3) == 0)
                continue;
            world->recorded[m][i] = true;
            world->requested[m][i] = unit_below(random, SLOT + 30); /* some reach too far */
            world->stack[m][i] =
                unit_below(random, 8) ? (uint32_t)unit_below(random, STACKS) : HX_NO_STACK;
            recording->block[recording->n_blocks++] =
                (struct hx_rec_block){.address = BASE(m) + (uint64_t)i * SLOT,
                                      .requested = world->requested[m][i],
                                      .stack = world->stack[m][i]};
        }
    assert_null(hx_recording_check(recording));
}

static bool in_walk(const struct world *world, int m, int i)
{
    return m == 0 && i < world->segment_end;
}

static void judge_objects(const struct world *world)
{
    const struct hx_snapshot *snapshot = world->snapshot;
    const struct hx_graph *graph = &snapshot->graph;
    uint64_t k = 0, bytes = 0, absent = 0;
    for (int m = 0; m < MAPPINGS; m++)
        for (int i = 0; i < SLOTS; i++) {
            bool object = in_walk(world, m, i) ? world->walked[m][i] : world->recorded[m][i];
            absent += world->recorded[m][i] && !object;
            if (!object)
                continue;
            assert_true(k < graph->n);
            assert_true(graph->addr[k] == BASE(m) + (uint64_t)i * SLOT);
            assert_true(graph->size[k] > 0);
            if (!in_walk(world, m, i) && world->requested[m][i] && world->requested[m][i] < SLOT)
                assert_true(graph->size[k] == world->requested[m][i]);
            if (k)
                assert_true(graph->addr[k - 1] + graph->size[k - 1] <= graph->addr[k]);
            bytes += graph->size[k];
            assert_true(graph->site[k] < snapshot->sites.n);
            uint32_t site = snapshot->sites.v[graph->site[k]].stack;
            if (!world->recorded[m][i]) {
                assert_true(graph->requested[k] == HX_NO_REQUEST);
                assert_true(site ==
                            (world->recording->from_start ? HX_SITE_UNKNOWN : HX_SITE_BEFORE));
            } else {
                assert_true(graph->requested[k] == world->requested[m][i]);
                assert_true(site == (world->stack[m][i] == HX_NO_STACK ? HX_SITE_UNKNOWN
                                                                       : world->stack[m][i]));
            }
            k++;
        }
    assert_true(k == graph->n);
    assert_true(bytes == snapshot->heap_bytes);
    uint64_t lost = 0;
    for (size_t i = 0; i < snapshot->losses.n; i++)
        lost += snapshot->losses.v[i].count;
    /* what was there before the recorder is one more */
    assert_true(lost == absent + snapshot->free_unknown);
    assert_true(snapshot->complete != snapshot->free_unknown);
}

/* Every byte of a segment is in one object, or in one free range, or in neither; none is in two. */
static void judge_segments(const struct world *world)
{
    const struct hx_snapshot *snapshot = world->snapshot;
    const struct hx_graph *graph = &snapshot->graph;
    for (size_t i = 0; i < snapshot->segments.n; i++) {
        assert_true(snapshot->segments.v[i].start < snapshot->segments.v[i].end);
        if (i)
            assert_true(snapshot->segments.v[i - 1].end <= snapshot->segments.v[i].start);
    }
    size_t segment = 0;
    for (uint64_t k = 0; k < graph->n; k++) {
        while (snapshot->segments.v[segment].end <= graph->addr[k])
            assert_true(++segment < snapshot->segments.n);
        assert_true(snapshot->segments.v[segment].start <= graph->addr[k]);
        assert_true(graph->addr[k] + graph->size[k] <= snapshot->segments.v[segment].end);
    }
    uint64_t free_bytes = 0, object = 0;
    for (size_t i = 0; i < snapshot->free_ranges.n; i++) {
        struct hx_range range = snapshot->free_ranges.v[i];
        assert_true(range.start < range.end);
        free_bytes += range.end - range.start;
        if (i)
            assert_true(snapshot->free_ranges.v[i - 1].end <= range.start);
        while (object < graph->n && graph->addr[object] + graph->size[object] <= range.start)
            object++;
        assert_true(object == graph->n || graph->addr[object] >= range.end);
    }
    assert_true(free_bytes == snapshot->free_bytes);
}

/* Only a recorder that saw everything may say what the rest of a mapping is. */
static void judge_rest(const struct world *world)
{
    const struct hx_snapshot *snapshot = world->snapshot;
    for (size_t i = 0; i < snapshot->segments.n; i++)
        for (int m = 1; m < MAPPINGS; m++)
            if (snapshot->segments.v[i].start == BASE(m) && snapshot->segments.n > 1 && m != 2 &&
                snapshot->segments.v[i].end == BASE(m) + SLOTS * SLOT)
                assert_true(world->recording->from_start || !snapshot->free_ranges.n ||
                            snapshot->free_ranges.v[snapshot->free_ranges.n - 1].end <= BASE(1));
    if (snapshot->free_unknown)
        assert_false(world->recording->from_start);
}

static void test_random(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("join");
    size_t rounds = unit_rounds(2000);
    for (size_t round = 0; round < rounds; round++) {
        struct world world = {0};
        assert_null(hx_snapshot_create(&world.snapshot));
        assert_null(hx_recording_create(&world.recording));
        add_mappings(&world);
        add_walk(&world, &random);
        add_recording(&world, &random);
        assert_null(hx_join(world.snapshot, world.recording));
        judge_objects(&world);
        judge_segments(&world);
        judge_rest(&world);
        hx_snapshot_destroy(world.snapshot);
    }
}

/* Young blocks are no leaks yet: costs count those that are old enough. */
static void test_young(void **state)
{
    (void)state;
    struct hx_recording *recording;
    assert_null(hx_recording_create(&recording));
    assert_null(hx_big_reserve(&recording->block_mem, 4 * sizeof *recording->block));
    recording->block = recording->block_mem.base;
    assert_true(hx_vec_push(&recording->stacks, (struct hx_rec_stack){0}));
    assert_true(hx_vec_push(&recording->costs,
                            (struct hx_rec_costs){.allocs = 9, .live = 4, .live_bytes = 1000}));
    for (uint64_t i = 0; i < 4; i++)
        recording->block[recording->n_blocks++] = (struct hx_rec_block){
            .address = 0x1000 + 0x100 * i, .requested = 10 * (i + 1), .born_ns = 1000 * i};
    recording->frozen_ns = 4000;
    hx_recording_drop_young(recording, 2000);
    assert_true(recording->costs.v[0].live == 3);
    assert_true(recording->costs.v[0].live_bytes == 60);
    assert_true(recording->costs.v[0].allocs == 9);
    hx_recording_drop_young(recording, 5000);
    assert_true(recording->costs.v[0].live == 1); /* born at 0: as old as can be told */
    hx_recording_destroy(recording);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random), cmocka_unit_test(test_young)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
