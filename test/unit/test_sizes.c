/* test_sizes.c - size classes: what glibc gives is a class, each number of bytes is in exactly one,
 * and the table of their sums says what all objects say. */
#include "analysis_check.h"

#include "store/objects/sizes.h"

#include <malloc.h>

static void test_bounds(void **state)
{
    char name[HX_SIZE_NAME];
    (void)state;
    for (unsigned number = 0; number < HX_SIZES; number++) {
        uint64_t least = hx_block_size_least(number), most = hx_block_size_most(number);
        assert_true(least <= most && (number || !least));
        assert_int_equal(hx_block_size_class(least), number);
        assert_int_equal(hx_block_size_class(most), number);
        assert_int_equal(hx_block_size_class(least + (most - least) / 2), number);
    }
    assert_true(hx_block_size_most(HX_SIZES - 1) == UINT64_MAX);
    assert_string_equal(hx_block_size_name(hx_block_size_class(24), name), "24");
    assert_string_equal(hx_block_size_name(hx_block_size_class(40), name), "40");
    assert_string_equal(hx_block_size_name(hx_block_size_class(1016), name), "1016");
    assert_string_equal(hx_block_size_name(hx_block_size_class(1032), name), "1032-1079");
    assert_string_equal(hx_block_size_name(hx_block_size_class(1080), name), "1080-1143");
    assert_string_equal(hx_block_size_name(hx_block_size_class(3128), name), "3128-3575");
    assert_string_equal(hx_block_size_name(hx_block_size_class(1 << 20), name), "1048568-2097143");
}

/* Up to a chunk of 1024 bytes the blocks of a class are of one size. Under Valgrind and the
 * sanitizers they are as large as was asked for. */
static void test_glibc(void **state)
{
    (void)state;
    for (size_t n = 1; n <= 1016; n++) {
        void *block = malloc(n);
        assert_non_null(block);
        size_t usable = malloc_usable_size(block);
        if (usable != n)
            assert_int_equal(hx_block_size_most(hx_block_size_class(usable)), usable);
        free(block);
    }
}

static void test_table(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("sizes");
    for (int round = 0; round < 20; round++) {
        hx_store *store;
        assert_done(hx_store_temporary(&store));
        for (int i = 0; i < 2; i++) {
            struct hx_snapshot *s = model_to_analyse(&random, 40);
            struct hx_analysis analysis = some_analysis(&random);
            int64_t id;
            assert_done(hx_store_add(store, s, &analysis, NULL, &id));
            hx_snapshot_destroy(s);
        }
        assert_same_rows(store, "SELECT * FROM hx_size_sum",
                         "SELECT snapshot, hx_size_class(bytes), sum(bytes), count(*) FROM objects"
                         " GROUP BY 1, 2");
        assert_same_rows(store, "SELECT * FROM hx_size_sum WHERE snapshot = 2",
                         "SELECT * FROM hx_size_sum WHERE snapshot > 1");
        assert_nothing(store, "SELECT * FROM hx_size_sum WHERE snapshot = 3");
        assert_nothing(store, "SELECT * FROM hx_size_sum AS x WHERE (bytes, objects) IS NOT"
                              " (SELECT sum(bytes), count(*) FROM objects AS o"
                              " WHERE o.snapshot = x.snapshot AND o.bytes BETWEEN"
                              " hx_size_least(x.size) AND hx_size_most(x.size))");
        assert_done(hx_store_close(store));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_glibc),
        cmocka_unit_test(test_table),
    };
    return unit_run_some(tests);
}
