/* test_image.c - looking things up in memory images and mappings: src/model. */
#include "unit.h"

#include "model/image.h"
#include "model/packed.h"
#include "model/process.h"

#include <sys/mman.h>

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

/* What heaps have, and what they do not. */
static uint64_t make_word(struct unit_random *random, uint64_t last, uint64_t near)
{
    switch (unit_below(random, 7)) {
    case 0:
        return 0;
    case 1:
        return last;
    case 2:
        return near + unit_below(random, 1 << 30);
    case 3: /* about where near ones begin and end */
        return near - (UINT64_C(1) << 30) + (unit_below(random, 2) << 32) - 4 +
               unit_below(random, 8);
    case 4:
        return unit_random(random) >> 8 * unit_below(random, 8);
    case 5:
        return UINT64_MAX - unit_below(random, 2);
    default:
        return unit_random(random);
    }
}

static void pages(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin(__func__);
    struct hx_unpacking how;
    hx_unpacking_init(&how);
    for (size_t round = 0; round < unit_rounds(300); round++) {
        uint64_t word[HX_PAGE_WORDS], out[HX_PAGE_WORDS];
        uint8_t packed[HX_PAGE_PACKED];
        const uint64_t near = unit_random(&random) >> 1 >> unit_below(&random, 40),
                       mixed = round % 3;
        for (size_t i = 0; i < HX_PAGE_WORDS; i++)
            word[i] = mixed ? make_word(&random, i ? word[i - 1] : 0, near) : unit_random(&random);
        const uint64_t base = hx_near_base(near);
        assert_true(hx_page_pack(word, base, packed) <= sizeof packed - 16);
        for (size_t k = 0; k < 20; k++) {
            const size_t from = unit_below(&random, HX_PAGE_WORDS);
            const size_t to = from + 1 + unit_below(&random, HX_PAGE_WORDS - from);
            hx_page_unpack(k % 2 ? &how : NULL, packed, base, from, to, out);
            assert_memory_equal(out, word + from, (to - from) * 8);
        }
    }
}

/* Whoever looks at a packed image sees what was there: spans that are packed and one that is too
 * small, words in any order, and bytes. */
static void packed_agrees_with_a_plain_copy(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin(__func__);
    enum { PAGE = 4096, SIZE = 120 * PAGE, WORDS = SIZE / 8 };
    static const uint64_t cut[] = {0, 80, 84, 120}; /* pages, with a hole before the last span */
    const uint64_t start = UINT64_C(0x7ff0fff00000);
    struct hx_image taken = {.span = calloc(3, sizeof *taken.span), .n = 3, .mapping_bytes = SIZE};
    taken.mapping = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(taken.mapping != MAP_FAILED);
    uint64_t *all = taken.mapping, *plain = malloc(SIZE);
    for (size_t i = 0; i < WORDS; i++)
        all[i] = make_word(&random, i ? all[i - 1] : 0, start);
    memcpy(plain, all, SIZE);
    for (size_t i = 0; i < 3; i++)
        taken.span[i] =
            (struct hx_span){start + (cut[i] + (i == 2)) * PAGE, start + cut[i + 1] * PAGE,
                             (const uint8_t *)taken.mapping + (cut[i] + (i == 2)) * PAGE};
    assert_null(hx_image_pack(&taken, 3));
    assert_null(taken.span[0].bytes);
    assert_non_null(taken.span[1].bytes);
    assert_null(taken.span[2].bytes);
    assert_int_equal(all[WORDS - 1], 0); /* given back */
    HX_PEEKED peeked = {0};
    uint64_t at = 0;
    for (size_t probe = 0; probe < unit_rounds(30000); probe++) {
        at = unit_below(&random, 4) ? at + unit_below(&random, 300) : unit_below(&random, WORDS);
        at = at < WORDS ? at : 0;
        size_t n = 1 + unit_below(&random, unit_below(&random, 50) ? 20 : 5000), span = 0;
        while (span < 3 && start + at * 8 >= taken.span[span].end)
            span++;
        const bool there = start + at * 8 >= taken.span[span].start;
        const bool whole = there && start + (at + n) * 8 <= taken.span[span].end;
        const uint64_t *word = hx_image_peek(&taken, start + at * 8, n, &peeked);
        assert_int_equal(word != NULL, whole);
        if (word)
            assert_memory_equal(word, plain + at, n * 8);
        word = hx_image_run(&taken, start + at * 8, start + (at + n) * 8, &peeked, &n);
        assert_int_equal(word != NULL, there);
        if (word)
            assert_true(n && memcmp(word, plain + at, n * 8) == 0);
        uint8_t out[100];
        const size_t skip = unit_below(&random, 8), len = unit_below(&random, 92);
        if (there && start + at * 8 + skip + len <= taken.span[span].end) {
            assert_true(hx_image_read(&taken, start + at * 8 + skip, out, len));
            assert_memory_equal(out, (const uint8_t *)(plain + at) + skip, len);
        }
    }
    assert_null(hx_image_peek(&taken, start + 1, 1, &peeked)); /* not aligned */
    assert_null(hx_image_failed(&taken));
    free(plain);
    hx_image_deinit(&taken);
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
        cmocka_unit_test(pages),
        cmocka_unit_test(packed_agrees_with_a_plain_copy),
        cmocka_unit_test(deinit_empties),
        cmocka_unit_test(mapping_find),
    };
    return cmocka_run_group_tests_name("image", tests, NULL, NULL);
}
