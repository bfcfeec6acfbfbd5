/* test_census.c - sums and pages by key against a look at each page. */
#include "unit.h"

#include "../image/image.h"
#include "traverse/key_sums.h"

enum { OBJECTS = 300, KEYS = 6, PAGES = 80 };

#define PAGE UINT64_C(4096)
#define BASE UINT64_C(0x10000000)
#define HUGE (UINT64_C(4) << 40)

struct heap {
    uint64_t addr[OBJECTS], size[OBJECTS];
    uint32_t key[OBJECTS];
    hx_obj n;
};

static uint64_t random_size(struct unit_random *random, uint64_t large)
{
    switch (unit_below(random, 12)) {
    case 0:
        return 0;
    case 1:
        return 1 + unit_below(random, 8);
    case 2:
        return unit_below(random, 4 * PAGE);
    case 3:
        return PAGE * unit_below(random, 3);
    case 4:
        return unit_below(random, 8) ? 24 : large;
    default:
        return 8 + 16 * unit_below(random, 40);
    }
}

static void make_heap(struct unit_random *random, uint64_t large, struct heap *heap)
{
    uint64_t at = BASE + 16 * unit_below(random, 300);
    heap->n = (hx_obj)unit_below(random, OBJECTS);
    for (hx_obj i = 0; i < heap->n; i++) {
        at += unit_below(random, 4) * 8;
        if (unit_below(random, 30) == 0)
            at = (at + PAGE - 1) / PAGE * PAGE;
        heap->addr[i] = at;
        heap->size[i] = random_size(random, large);
        heap->key[i] = unit_below(random, 20) ? (uint32_t)unit_below(random, KEYS) : UINT32_MAX;
        at += heap->size[i];
    }
}

/* Pages near objects, at random in runs, at most PAGES of them. */
static size_t make_resident(struct unit_random *random, const struct heap *heap,
                            struct hx_snapshot *snapshot, uint64_t *page)
{
    size_t n = 0;
    uint64_t at = BASE / PAGE;
    for (hx_obj i = 0; i < heap->n && n < PAGES - 8; i += (hx_obj)(1 + unit_below(random, 4))) {
        uint64_t from = heap->addr[i] / PAGE + unit_below(random, 3);
        if (heap->size[i] == HUGE)
            from += unit_below(random, HUGE / PAGE);
        if (from < at)
            continue;
        uint64_t pages = 1 + unit_below(random, 4);
        assert_true(hx_vec_push(&snapshot->resident,
                                (struct hx_range){from * PAGE, (from + pages) * PAGE}));
        for (uint64_t k = 0; k < pages; k++)
            page[n++] = from + k;
        at = from + pages + unit_below(random, 2); /* runs may touch */
    }
    snapshot->has_resident = true;
    return n;
}

static uint32_t key_of(const struct heap *heap, hx_obj object)
{
    return heap->key[object] == UINT32_MAX ? KEYS - 1 : heap->key[object];
}

static void look_at_page(const struct heap *heap, uint64_t page, uint64_t *only, uint64_t *shared)
{
    bool on[KEYS] = {false};
    size_t keys = 0;
    for (hx_obj i = 0; i < heap->n; i++) {
        uint64_t start = heap->addr[i], end = start + heap->size[i];
        if (start == end || end <= page * PAGE || start >= (page + 1) * PAGE)
            continue;
        keys += !on[key_of(heap, i)];
        on[key_of(heap, i)] = true;
    }
    for (size_t k = 0; k < KEYS; k++)
        if (on[k])
            (keys == 1 ? only : shared)[k]++;
}

static void one_heap(struct unit_random *random, uint64_t large)
{
    struct heap heap;
    struct hx_snapshot *snapshot;
    struct hx_key_sums census;
    uint64_t page[PAGES], bytes[KEYS] = {0}, objects[KEYS] = {0}, only[KEYS] = {0},
                          shared[KEYS] = {0};
    make_heap(random, large, &heap);
    assert_null(hx_image_plain(heap.addr, heap.size, heap.n, &snapshot));
    size_t pages = make_resident(random, &heap, snapshot, page);
    for (size_t i = 0; i < pages; i++)
        look_at_page(&heap, page[i], only, shared);
    for (hx_obj i = 0; i < heap.n; i++) {
        bytes[key_of(&heap, i)] += heap.size[i];
        objects[key_of(&heap, i)]++;
    }
    assert_null(hx_key_sums_make(snapshot, heap.key, KEYS, NULL, &census));
    assert_int_equal(census.n, KEYS);
    for (size_t k = 0; k < KEYS; k++) {
        assert_int_equal(census.bytes[k], bytes[k]);
        assert_int_equal(census.objects[k], objects[k]);
        assert_int_equal(census.only_pages[k], only[k]);
        assert_int_equal(census.shared_pages[k], shared[k]);
    }
    hx_key_sums_deinit(&census);
    hx_snapshot_destroy(snapshot);
}

static void test_random_heaps(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("census");
    for (size_t round = unit_rounds(3000); round; round--)
        one_heap(&random, round % 2 ? HUGE : 9 * PAGE);
}

static void test_unknown_pages(void **state)
{
    (void)state;
    const uint64_t addr[] = {BASE, BASE + 32}, size[] = {24, 24};
    const uint32_t key[] = {0, UINT32_MAX};
    struct hx_snapshot *snapshot;
    struct hx_key_sums census;
    assert_null(hx_image_plain(addr, size, 2, &snapshot));
    assert_null(hx_key_sums_make(snapshot, key, 2, NULL, &census));
    assert_null(census.only_pages);
    assert_null(census.shared_pages);
    assert_int_equal(census.bytes[1], 24);
    hx_key_sums_deinit(&census);
    hx_snapshot_destroy(snapshot);
}

/* An object up to the last byte that there is. */
static void test_end_of_addresses(void **state)
{
    (void)state;
    const uint64_t addr[] = {PAGE}, size[] = {UINT64_MAX - PAGE + 1};
    const uint32_t key[] = {0};
    struct hx_snapshot *snapshot;
    struct hx_key_sums census;
    assert_null(hx_image_plain(addr, size, 1, &snapshot));
    snapshot->has_resident = true;
    assert_true(hx_vec_push(&snapshot->resident, (struct hx_range){PAGE, 3 * PAGE}));
    assert_null(hx_key_sums_make(snapshot, key, 1, NULL, &census));
    assert_int_equal(census.only_pages[0], 2);
    assert_int_equal(census.shared_pages[0], 0);
    hx_key_sums_deinit(&census);
    hx_snapshot_destroy(snapshot);
}

static void test_nothing(void **state)
{
    (void)state;
    struct hx_snapshot *snapshot;
    struct hx_key_sums census;
    assert_null(hx_image_plain(NULL, NULL, 0, &snapshot));
    assert_null(hx_key_sums_make(snapshot, NULL, 0, NULL, &census));
    assert_int_equal(census.n, 0);
    hx_key_sums_deinit(&census);
    hx_snapshot_destroy(snapshot);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_heaps),
        cmocka_unit_test(test_unknown_pages),
        cmocka_unit_test(test_end_of_addresses),
        cmocka_unit_test(test_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
