/* test_image.c - looking things up in memory images and mappings: src/model. */
#include "unit.h"

#include "model/image.h"
#include "model/process.h"

/* Three spans, the first two adjoining, the last at the very top of the address space. */
static const uint8_t low[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
static const uint8_t mid[8] = {16, 17, 18, 19, 20, 21, 22, 23};
static const uint8_t top[8] = {0xf0, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7};
#define TOP (UINT64_MAX - 15)

static struct hx_span spans[] = {
    {0x1000, 0x1010, low},
    {0x1010, 0x1018, mid},
    {TOP, TOP + 8, top},
};
static const struct hx_image image = {.span = spans, .n = 3};
static const struct hx_image empty;

static void find(void **state)
{
    (void)state;
    assert_int_equal(hx_image_find(&image, 0), 0);
    assert_int_equal(hx_image_find(&image, 0xfff), 0);
    assert_int_equal(hx_image_find(&image, 0x100f), 0);
    assert_int_equal(hx_image_find(&image, 0x1010), 1);
    assert_int_equal(hx_image_find(&image, 0x1018), 2);
    assert_int_equal(hx_image_find(&image, TOP + 7), 2);
    assert_int_equal(hx_image_find(&image, TOP + 8), 3);
    assert_int_equal(hx_image_find(&image, UINT64_MAX), 3);
    assert_int_equal(hx_image_find(&empty, 0x1000), 0);
}

static void at(void **state)
{
    (void)state;
    assert_ptr_equal(hx_image_at(&image, 0x1000, 16), low);
    assert_ptr_equal(hx_image_at(&image, 0x100f, 1), low + 15);
    assert_null(hx_image_at(&image, 0x100f, 2)); /* two spans */
    assert_null(hx_image_at(&image, 0xfff, 1));
    assert_null(hx_image_at(&image, 0x1018, 1));
    assert_ptr_equal(hx_image_at(&image, TOP, 8), top);
    assert_null(hx_image_at(&image, TOP, 9));
    assert_null(hx_image_at(&image, TOP + 1, SIZE_MAX)); /* end wraps around */
    assert_null(hx_image_at(&image, UINT64_MAX, 1));
    assert_null(hx_image_at(&empty, 0, 0));
}

static void read_across(void **state)
{
    (void)state;
    uint8_t bytes[32];
    assert_true(hx_image_read(&image, 0x1000, bytes, 24));
    for (size_t i = 0; i < 24; i++)
        assert_int_equal(bytes[i], i);
    assert_true(hx_image_read(&image, 0x100f, bytes, 2));
    assert_int_equal(bytes[0], 15);
    assert_int_equal(bytes[1], 16);
    assert_true(hx_image_read(&image, 0x500, bytes, 0));
    assert_false(hx_image_read(&image, 0x1000, bytes, 25)); /* into the gap */
    assert_false(hx_image_read(&image, 0xff8, bytes, 16));  /* from before the first */
    assert_false(hx_image_read(&image, TOP, bytes, 9));     /* behind the last */
    assert_false(hx_image_read(&image, UINT64_MAX, bytes, 2));
    assert_false(hx_image_read(&empty, 0x1000, bytes, 1));
}

static void words(void **state)
{
    (void)state;
    uint64_t w64 = 7;
    uint32_t w32 = 7;
    assert_true(hx_image_u64(&image, 0x1000, &w64));
    assert_true(w64 == UINT64_C(0x0706050403020100));
    assert_true(hx_image_u64(&image, 0x100c, &w64)); /* half here, half there */
    assert_true(w64 == UINT64_C(0x131211100f0e0d0c));
    assert_true(hx_image_u32(&image, 0x1001, &w32)); /* not aligned */
    assert_true(w32 == 0x04030201);
    assert_false(hx_image_u64(&image, 0x1011, &w64));
    assert_false(hx_image_u32(&image, TOP + 5, &w32));
}

/* Against a plain array with holes. */
static void read_agrees_with_a_plain_copy(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin(__func__);
    enum { SIZE = 512 };
    uint8_t memory[SIZE];
    for (size_t round = 0; round < unit_rounds(300); round++) {
        bool there[SIZE / 8];
        struct hx_span made[SIZE / 8];
        struct hx_image sparse = {.span = made};
        for (size_t i = 0; i < SIZE; i++)
            memory[i] = (uint8_t)unit_random(&random);
        for (size_t w = 0; w < SIZE / 8; w++) {
            there[w] = unit_below(&random, 4) != 0;
            bool joins = there[w] && w && there[w - 1] && unit_below(&random, 3);
            if (joins)
                made[sparse.n - 1].end += 8;
            else if (there[w])
                made[sparse.n++] = (struct hx_span){w * 8, w * 8 + 8, memory + w * 8};
        }
        for (size_t probe = 0; probe < 100; probe++) {
            uint8_t out[SIZE];
            size_t addr = unit_below(&random, SIZE), len = 1 + unit_below(&random, 40);
            bool want = addr + len <= SIZE;
            for (size_t a = addr; want && a < addr + len; a++)
                want = there[a / 8];
            assert_int_equal(hx_image_read(&sparse, addr, out, len), want);
            if (want)
                assert_memory_equal(out, memory + addr, len);
        }
    }
}

static void deinit_empties(void **state)
{
    (void)state;
    struct hx_image owned = {.span = calloc(2, sizeof *owned.span), .n = 2};
    hx_image_deinit(&owned);
    assert_null(owned.span);
    assert_int_equal(owned.n, 0);
    hx_image_deinit(&owned);
}

static void mapping_find(void **state)
{
    (void)state;
    const struct hx_mapping mapping[] = {
        {.start = 0x1000, .end = 0x2000},
        {.start = 0x2000, .end = 0x3000},
        {.start = 0x8000, .end = UINT64_MAX},
    };
    assert_int_equal(hx_mapping_find(mapping, 3, 0xfff), 3);
    assert_int_equal(hx_mapping_find(mapping, 3, 0x1000), 0);
    assert_int_equal(hx_mapping_find(mapping, 3, 0x1fff), 0);
    assert_int_equal(hx_mapping_find(mapping, 3, 0x2000), 1);
    assert_int_equal(hx_mapping_find(mapping, 3, 0x3000), 3);
    assert_int_equal(hx_mapping_find(mapping, 3, 0x7fff), 3);
    assert_int_equal(hx_mapping_find(mapping, 3, UINT64_MAX - 1), 2);
    assert_int_equal(hx_mapping_find(mapping, 3, UINT64_MAX), 3);
    assert_int_equal(hx_mapping_find(NULL, 0, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(find),
        cmocka_unit_test(at),
        cmocka_unit_test(read_across),
        cmocka_unit_test(words),
        cmocka_unit_test(read_agrees_with_a_plain_copy),
        cmocka_unit_test(deinit_empties),
        cmocka_unit_test(mapping_find),
    };
    return cmocka_run_group_tests_name("image", tests, NULL, NULL);
}
