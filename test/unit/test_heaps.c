/* test_heaps.c - heaps of several allocators put together, against a map of the same memory that is
 * painted unit by unit: heaps beside one another, inside blocks of others, and in conflict. */
#include "attach/alloc/slabs.h"

#include "unit.h"

enum {
    BASE = 0x10000000,
    UNIT = 64,
    UNITS = 4096,
    FAKES = 3,
    SLABS = 24,
    FREE = 1, /* in `map`, else the number of an object, from 3 on */
    OWN = 2,
};

/* An allocator with slabs; blocks whose number is a multiple of `free_every` are free. */
struct fake {
    struct hx_slab slab[SLABS];
    size_t n;
    uint64_t free_every;
    enum hx_walk_verdict verdict;
    bool proven;
};

struct world {
    struct fake fake[FAKES];
    uint32_t map[UNITS];  /* 0: nobody's */
    uint8_t owner[UNITS]; /* number of the fake */
    uint8_t outer[UNITS]; /* of the one whose memory it was before */
    uint32_t n_objects;
};

/* --- fakes ------------------------------------------------------------------------------ */

static struct world *world; /* of the test that runs: functions of a table have no context */

static hx_error *find_number(size_t number, struct hx_allocator_share *share, void **ret_state)
{
    static const char *const names[] = {"first", "second", "third"};
    *ret_state = world->fake[number].n ? &world->fake[number] : NULL;
    share->name = strdup(names[number]);
    share->evidence = strdup("made up");
    return NULL;
}

static hx_error *find_0(const struct hx_alloc_target *target, struct hx_allocator_share *share,
                        void **ret_state)
{
    (void)target;
    return find_number(0, share, ret_state);
}

static hx_error *find_1(const struct hx_alloc_target *target, struct hx_allocator_share *share,
                        void **ret_state)
{
    (void)target;
    return find_number(1, share, ret_state);
}

static hx_error *find_2(const struct hx_alloc_target *target, struct hx_allocator_share *share,
                        void **ret_state)
{
    (void)target;
    return find_number(2, share, ret_state);
}

static hx_error *fake_guard(void *state, const struct hx_alloc_target *target, struct hx_guard *ret)
{
    (void)state, (void)target, (void)ret;
    return NULL;
}

static bool is_free(const struct fake *fake, uint64_t i)
{
    return fake->free_every && i % fake->free_every == 0;
}

static hx_error *fake_walk(void *state, struct hx_snapshot *snapshot,
                           struct hx_allocator_share *share, hx_ranges *excluded,
                           const struct hx_progress *progress, enum hx_walk_verdict *ret)
{
    const struct fake *fake = state;
    struct hx_slabs slabs;
    (void)excluded;
    hx_slabs_init(&slabs, snapshot);
    *ret = fake->verdict;
    share->proven = fake->proven;
    share->claimed_bytes = UNIT;
    if (!fake->proven)
        return NULL;
    for (size_t i = 0; i < fake->n; i++)
        assert_null(hx_slabs_add(&slabs, &fake->slab[i]));
    assert_null(hx_slabs_sort(&slabs));
    assert_int_equal(slabs.outside + slabs.overlaps, 0);
    for (size_t k = 0; k < slabs.slab.n; k++)
        for (uint64_t i = 0; i < slabs.slab.v[k].n; i++)
            if (is_free(fake, i))
                assert_true(hx_slabs_mark(&slabs, &slabs.slab.v[k], i, HX_BLOCK_FREE));
    assert_null(hx_slabs_put(&slabs, NULL, snapshot, share, progress));
    hx_slabs_deinit(&slabs);
    return NULL;
}

static void fake_end(void *state)
{
    (void)state;
}

static const struct hx_allocator fakes[FAKES] = {
    {.name = "first", .find = find_0, .guard = fake_guard, .walk = fake_walk, .end = fake_end},
    {.name = "second", .find = find_1, .guard = fake_guard, .walk = fake_walk, .end = fake_end},
    {.name = "third", .find = find_2, .guard = fake_guard, .walk = fake_walk, .end = fake_end},
};
static const struct hx_allocator *const all_fakes[] = {&fakes[0], &fakes[1], &fakes[2], NULL};

/* --- the world ---------------------------------------------------------------------------- */

/* Adds a slab in units [from, to) and paints it over what was there: a block in which it lies is
 * no object any more. */
static void add_slab(struct world *w, size_t number, uint64_t from, uint64_t to, uint64_t units)
{
    struct fake *fake = &w->fake[number];
    uint32_t around = w->map[from];
    uint8_t outer = w->owner[from];
    uint64_t n = (to - from) / units;
    fake->slab[fake->n++] = (struct hx_slab){.start = BASE + from * UNIT,
                                             .end = BASE + to * UNIT,
                                             .first = BASE + from * UNIT,
                                             .stride = units * UNIT,
                                             .usable = units * UNIT,
                                             .n = (uint32_t)n,
                                             .rest = HX_BLOCK_OWN};
    for (uint64_t i = 0; around > OWN && i < UNITS; i++)
        if (w->map[i] == around)
            w->map[i] = OWN;
    for (uint64_t i = from; i < to; i++) {
        uint64_t block = (i - from) / units;
        bool begins = (i - from) % units == 0;
        w->owner[i] = (uint8_t)number;
        w->outer[i] = outer;
        if (block >= n)
            w->map[i] = OWN;
        else if (is_free(fake, block))
            w->map[i] = FREE;
        else
            w->map[i] = begins ? OWN + ++w->n_objects : OWN + w->n_objects;
    }
}

/* Two slabs of one allocator that touch are one segment: are they in memory of one outer one? */
static bool joins_well(const struct world *w, uint64_t at, size_t number, uint8_t outer)
{
    return at >= UNITS || !w->map[at] || w->owner[at] != number || w->outer[at] == outer;
}

/* So many units that are all of one object of those before number `inside`, or, with 0, of nobody;
 * false: none found in some tries. */
static bool find_place(struct unit_random *random, const struct world *w, uint64_t units,
                       size_t inside, uint64_t *ret_from, uint64_t *ret_to)
{
    for (int tries = 0; tries < 200; tries++) {
        uint64_t from = unit_below(random, UNITS - units), to = from + units;
        uint32_t what = w->map[from];
        bool fits = inside ? what > OWN && w->owner[from] < inside : !what;
        for (uint64_t i = from; i < to && fits; i++)
            fits = w->map[i] == what;
        /* a slab that touches another one of its allocator is one segment with it */
        fits = fits && (inside || ((!from || !w->map[from - 1]) && (to == UNITS || !w->map[to])));
        fits = fits && (!inside || (joins_well(w, from - 1, inside, w->owner[from]) &&
                                    joins_well(w, to, inside, w->owner[from])));
        *ret_from = from;
        *ret_to = to;
        if (fits)
            return true;
    }
    return false;
}

static struct world *random_world(struct unit_random *random)
{
    struct world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    for (size_t number = 0; number < FAKES; number++) {
        struct fake *fake = &w->fake[number];
        fake->free_every = unit_below(random, 5);
        fake->proven = true;
        uint64_t slabs = unit_below(random, SLABS);
        for (uint64_t i = 0; i < slabs; i++) {
            bool inside = number && unit_below(random, 3);
            uint64_t units = 1 + unit_below(random, inside ? 20 : 120), from, to;
            if (find_place(random, w, units, inside ? number : 0, &from, &to))
                add_slab(w, number, from, to, 1 + unit_below(random, units));
        }
    }
    return w;
}

static struct hx_snapshot *walk_world(struct world *w, enum hx_walk_verdict *ret)
{
    struct hx_snapshot *snapshot;
    assert_null(hx_snapshot_create(&snapshot));
    snapshot->mapping = calloc(1, sizeof *snapshot->mapping);
    snapshot->n_mappings = 1;
    snapshot->complete = true;
    snapshot->mapping[0] = (struct hx_mapping){.start = BASE,
                                               .end = BASE + (uint64_t)UNITS * UNIT,
                                               .prot = HX_PROT_R | HX_PROT_W,
                                               .path = strdup("")};
    struct hx_heaps_options options = {all_fakes, false, 1};
    struct hx_alloc_target target = {snapshot->mapping, 1, 0, NULL, NULL};
    hx_ranges excluded = {0};
    bool found;
    world = w;
    assert_null(hx_heaps_walk(&options, &target, snapshot, &excluded, NULL, ret, &found));
    hx_vec_free(&excluded);
    return snapshot;
}

/* Objects, free memory and overhead of the map are those of the snapshot; shares add up to it. */
static void check_world(const struct world *w, const struct hx_snapshot *snapshot)
{
    uint64_t free_bytes = 0, own = 0, bytes[FAKES] = {0}, objects = 0, at = 0;
    for (uint64_t i = 0; i < UNITS; i++) {
        free_bytes += w->map[i] == FREE ? UNIT : 0;
        own += w->map[i] == OWN ? UNIT : 0;
        if (w->map[i] <= OWN)
            continue;
        bytes[w->owner[i]] += UNIT;
        if (i && w->map[i - 1] == w->map[i]) {
            at += UNIT;
            assert_true(snapshot->graph.size[objects - 1] >= at);
            continue;
        }
        assert_true(objects < snapshot->graph.n);
        assert_int_equal(snapshot->graph.addr[objects], BASE + i * UNIT);
        at = UNIT;
        objects++;
    }
    assert_int_equal(objects, snapshot->graph.n);
    assert_int_equal(free_bytes, snapshot->free_bytes);
    assert_int_equal(own, snapshot->overhead_bytes);
    uint64_t sums[4] = {0};
    for (size_t i = 0; i < snapshot->allocators.n; i++) {
        const struct hx_allocator_share *share = &snapshot->allocators.v[i];
        for (size_t k = 0; k < FAKES; k++)
            if (strcmp(share->name, fakes[k].name) == 0)
                assert_int_equal(share->bytes, bytes[k]);
        sums[0] += share->bytes;
        sums[1] += share->objects;
        sums[2] += share->free_bytes;
        sums[3] += share->overhead_bytes;
    }
    assert_int_equal(sums[0], snapshot->heap_bytes);
    assert_int_equal(sums[1], snapshot->graph.n);
    assert_int_equal(sums[2], snapshot->free_bytes);
    assert_int_equal(sums[3], snapshot->overhead_bytes);
    uint64_t segments = 0, end = 0;
    for (size_t i = 0; i < snapshot->segments.n; i++) {
        assert_true(snapshot->segments.v[i].start >= end);
        end = snapshot->segments.v[i].end;
        segments += end - snapshot->segments.v[i].start;
    }
    assert_int_equal(segments, sums[0] + sums[2] + sums[3]);
    end = 0;
    for (size_t i = 0; i < snapshot->free_ranges.n; i++) {
        assert_true(snapshot->free_ranges.v[i].start >= end);
        end = snapshot->free_ranges.v[i].end;
    }
}

/* --- tests ---------------------------------------------------------------------------------- */

static void test_random_worlds(void **state)
{
    struct unit_random random = unit_random_begin("random_worlds");
    (void)state;
    for (int round = 0; round < (unit_is_set("HX_QUICK") ? 20 : 300); round++) {
        enum hx_walk_verdict verdict;
        struct world *w = random_world(&random);
        struct hx_snapshot *snapshot = walk_world(w, &verdict);
        assert_int_equal(verdict, HX_WALK_OK);
        assert_int_equal(snapshot->losses.n, 0);
        check_world(w, snapshot);
        hx_snapshot_destroy(snapshot);
        free(w);
    }
}

/* Two that claim the same memory: the one whose self-check holds has it, else the first. */
static void test_conflict(void **state)
{
    (void)state;
    for (int damaged = 0; damaged < 2; damaged++) {
        enum hx_walk_verdict verdict;
        struct world *w = calloc(1, sizeof *w);
        assert_non_null(w);
        w->fake[0].proven = w->fake[1].proven = true;
        w->fake[0].verdict = damaged ? HX_WALK_BAD : HX_WALK_OK;
        add_slab(w, damaged, 10, 30, 4);
        w->fake[!damaged].slab[0] = (struct hx_slab){.start = BASE + 20 * UNIT,
                                                     .end = BASE + 40 * UNIT,
                                                     .first = BASE + 20 * UNIT,
                                                     .stride = UNIT,
                                                     .usable = UNIT,
                                                     .n = 20,
                                                     .rest = HX_BLOCK_OWN};
        w->fake[!damaged].n = 1;
        struct hx_snapshot *snapshot = walk_world(w, &verdict);
        check_world(w, snapshot);
        assert_int_equal(snapshot->losses.n, 1);
        assert_string_equal(snapshot->losses.v[0].what, "memory that two allocators claim");
        assert_false(snapshot->complete);
        assert_true(snapshot->allocators.v[!damaged].walked_bytes <
                    snapshot->allocators.v[!damaged].claimed_bytes);
        hx_snapshot_destroy(snapshot);
        free(w);
    }
}

/* One that was recognised and not proven has a row without figures, and the snapshot says so. */
static void test_unproven(void **state)
{
    enum hx_walk_verdict verdict;
    struct world *w = calloc(1, sizeof *w);
    (void)state;
    assert_non_null(w);
    w->fake[1].proven = true;
    add_slab(w, 1, 10, 30, 4);
    w->fake[0].n = 1;
    struct hx_snapshot *snapshot = walk_world(w, &verdict);
    check_world(w, snapshot);
    assert_int_equal(snapshot->allocators.n, 2);
    assert_false(snapshot->allocators.v[0].proven);
    assert_string_equal(snapshot->allocator, "first (not proven), second");
    assert_false(snapshot->complete);
    assert_non_null(strstr(hx_text_str(&snapshot->notes), "made up"));
    hx_snapshot_destroy(snapshot);
    free(w);
}

/* What a target may say of slabs, and cannot be. */
static void test_lies(void **state)
{
    struct unit_random random = unit_random_begin("lies");
    struct hx_snapshot *snapshot;
    struct world empty = {0};
    enum hx_walk_verdict verdict;
    (void)state;
    snapshot = walk_world(&empty, &verdict);
    for (int round = 0; round < 2000; round++) {
        struct hx_slabs slabs;
        struct hx_allocator_share share = {0};
        hx_slabs_init(&slabs, snapshot);
        for (int i = 0; i < 8; i++) {
            struct hx_slab slab = {.start = BASE + unit_below(&random, UNITS * UNIT + 64),
                                   .stride = unit_below(&random, 300),
                                   .usable = unit_below(&random, 300),
                                   .n = (uint32_t)unit_below(&random, 40)};
            slab.end = slab.start + unit_below(&random, 9000);
            slab.first = slab.start + unit_below(&random, 100);
            uint64_t *words[] = {&slab.start, &slab.end, &slab.first, &slab.stride, &slab.usable};
            if (unit_below(&random, 3) == 0)
                *words[unit_below(&random, 5)] = unit_random(&random);
            if (unit_below(&random, 5) == 0)
                slab.n = (uint32_t)unit_random(&random);
            assert_null(hx_slabs_add(&slabs, &slab));
        }
        assert_null(hx_slabs_sort(&slabs));
        for (int i = 0; i < 100; i++)
            hx_slabs_mark_at(&slabs, BASE + unit_below(&random, UNITS * UNIT), HX_BLOCK_FREE);
        assert_null(hx_slabs_put(&slabs, NULL, snapshot, &share, NULL));
        uint64_t segments = 0, end = 0;
        for (size_t i = 0; i < snapshot->segments.n; i++)
            segments += snapshot->segments.v[i].end - snapshot->segments.v[i].start;
        for (hx_obj i = 0; i < snapshot->graph.n; i++) {
            assert_true(snapshot->graph.addr[i] >= end);
            end = snapshot->graph.addr[i] + snapshot->graph.size[i];
            assert_true(end <= BASE + (uint64_t)UNITS * UNIT);
        }
        assert_int_equal(segments,
                         snapshot->heap_bytes + snapshot->free_bytes + snapshot->overhead_bytes);
        hx_big_array_free(snapshot->graph.addr);
        hx_big_array_free(snapshot->graph.size);
        snapshot->graph.n = 0;
        hx_vec_free(&snapshot->segments);
        hx_vec_free(&snapshot->free_ranges);
        snapshot->heap_bytes = snapshot->free_bytes = snapshot->overhead_bytes = 0;
        hx_slabs_deinit(&slabs);
    }
    hx_snapshot_destroy(snapshot);
}

/* A link in a page of zeros, which cores leave out, ends its list. */
static void test_links(void **state)
{
    (void)state;
    static const uint64_t words[2] = {BASE + 64, 0};
    struct hx_span span = {BASE, BASE + sizeof words, (const uint8_t *)words};
    const struct hx_image image = {.span = &span, .n = 1};
    assert_int_equal(hx_slabs_link(&image, BASE), BASE + 64);
    assert_int_equal(hx_slabs_link(&image, BASE + 8), 0);
    assert_int_equal(hx_slabs_link(&image, BASE + 64), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_worlds), cmocka_unit_test(test_conflict),
        cmocka_unit_test(test_unproven),      cmocka_unit_test(test_lies),
        cmocka_unit_test(test_links),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
