/* test_base.c - errors, growable arrays, large reservations, scope guards: src/base. */
#include "unit.h"

#include "base/bits.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/index.h"
#include "base/lower_bound.h"
#include "base/pairs.h"
#include "base/progress.h"
#include "base/vec.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

/* --- errors ----------------------------------------------------------------------- */

static void check_line(hx_error *err, const char *want)
{
    char line[512];
    hx_error_line(err, line, sizeof line);
    assert_string_equal(line, want);
    hx_error_free(err);
}

static void error_lines(void **state)
{
    (void)state;
    hx_error *err = hx_error_new(HX_E_FAIL, "PID 12", "try %s", "gone after %d ms", 5);
    assert_int_equal(err->kind, HX_E_FAIL);
    assert_int_equal(err->os_errno, 0);
    check_line(err, "PID 12: gone after 5 ms; try %s"); /* todo is no format */
    check_line(hx_error_new(HX_E_FAIL, "x", NULL, "why"), "x: why");
    check_line(hx_error_new(HX_E_FAIL, "", NULL, "why"), "why");
    check_line(hx_error_new(HX_E_FAIL, NULL, "do", "why"), "why; do");
    check_line(hx_error_new(HX_E_FAIL, "a\nb\x1b[2J", "\xe2\x80\xae", "%s", "\xff"),
               "a\\x0ab\\x1b[2J: \\xff; \\u{202e}");
    check_line(hx_error_cancelled("snap"), "snap: interrupted");
}

static void error_of_a_system_call(void **state)
{
    (void)state;
    hx_error *err = hx_error_os(ENOENT, "store.db", "open");
    assert_int_equal(err->kind, HX_E_OS);
    assert_int_equal(err->os_errno, ENOENT);
    check_line(err, "store.db: open: No such file or directory");
}

static void error_line_is_cut_at_a_character(void **state)
{
    (void)state;
    hx_error *err = hx_error_new(HX_E_FAIL, "f", NULL, "gr\xc3\xbcn");
    char line[16];
    memset(line, 'x', sizeof line);
    hx_error_line(err, line, 7); /* "f: gr" and half of the next */
    assert_string_equal(line, "f: gr");
    hx_error_line(err, line, 8);
    assert_string_equal(line, "f: gr\xc3\xbc");
    hx_error_line(err, line, 1);
    assert_string_equal(line, "");
    line[0] = 'x';
    hx_error_line(err, line, 0); /* nothing may be written */
    assert_int_equal(line[0], 'x');
    hx_error_free(err);
}

static void error_copies_and_frees(void **state)
{
    (void)state;
    assert_null(hx_error_copy(NULL));
    hx_error_free(NULL);
    assert_ptr_equal(hx_error_copy(hx_error_nomem()), hx_error_nomem());
    hx_error_free(hx_error_nomem()); /* static: stays usable */
    assert_int_equal(hx_error_nomem()->kind, HX_E_NOMEM);

    hx_error *err = hx_error_os(EACCES, "%s", "open");
    hx_error *copy = hx_error_copy(err);
    hx_error_free(err);
    assert_int_equal(copy->kind, HX_E_OS);
    assert_int_equal(copy->os_errno, EACCES);
    check_line(copy, "%s: open: Permission denied");
}

static hx_error *try_twice(hx_error *first, bool *reached)
{
    HX_TRY(first);
    *reached = true;
    return NULL;
}

static void try_returns_the_error(void **state)
{
    (void)state;
    bool reached = false;
    assert_ptr_equal(try_twice(hx_error_nomem(), &reached), hx_error_nomem());
    assert_false(reached);
    assert_null(try_twice(NULL, &reached));
    assert_true(reached);
}

static hx_error *need_pair(const char *memory, int a, int b)
{
    struct pair {
        int a, b;
    };
    HX_NEED(memory && (struct pair){a, b}.a == a);
    return NULL;
}

static void need_returns_out_of_memory(void **state)
{
    (void)state;
    assert_null(need_pair("memory", 1, 2));
    assert_ptr_equal(need_pair(NULL, 1, 2), hx_error_nomem());
}

/* --- arrays ------------------------------------------------------------------------- */

static void vec_grows_and_keeps(void **state)
{
    (void)state;
    HX_VEC(uint32_t) vec = {0};
    for (uint32_t i = 0; i < 10000; i++)
        assert_true(hx_vec_push(&vec, i * 7));
    assert_int_equal(vec.n, 10000);
    assert_true(vec.cap >= vec.n);
    for (uint32_t i = 0; i < 10000; i++)
        assert_int_equal(vec.v[i], i * 7);
    hx_vec_free(&vec);
    assert_null(vec.v);
    assert_int_equal(vec.cap, 0);
}

static void vec_refuses_what_overflows(void **state)
{
    (void)state;
    HX_VEC(uint64_t) vec = {0};
    assert_true(hx_vec_push(&vec, 42));
    uint64_t *before = vec.v;
    size_t cap = vec.cap;
    assert_false(hx_vec_reserve(&vec, SIZE_MAX));
    assert_false(hx_vec_reserve(&vec, SIZE_MAX / 8 + 1));
    assert_ptr_equal(vec.v, before);
    assert_int_equal(vec.cap, cap);
    assert_int_equal(vec.n, 1);
    assert_int_equal(vec.v[0], 42);
    assert_true(hx_vec_reserve(&vec, 0));
    hx_vec_free(&vec);
}

static void vec_of_structures(void **state)
{
    (void)state;
    struct pair {
        int a;
        const char *b;
    };
    HX_VEC(struct pair) vec = {0};
    assert_true(hx_vec_push(&vec, (struct pair){.a = 1, .b = "one, with a comma"}));
    assert_int_equal(vec.v[0].a, 1);
    assert_string_equal(vec.v[0].b, "one, with a comma");
    hx_vec_free(&vec);
}

/* --- bits --------------------------------------------------------------------------- */

static void bits_are_set_one_by_one(void **state)
{
    (void)state;
    enum { N = 200 };
    uint64_t bits[N / 64 + 1] = {0};
    bool want[N] = {false};
    struct unit_random random = unit_random_begin("bits");
    for (size_t round = 0, rounds = unit_rounds(2000); round < rounds; round++) {
        size_t i = unit_below(&random, N), below = 0;
        switch (unit_below(&random, 3)) {
        case 0:
            assert_int_equal(hx_bit_add(bits, i), !want[i]);
            want[i] = true;
            break;
        case 1:
            hx_bit_set(bits, i);
            want[i] = true;
            break;
        default:
            hx_bit_clear(bits, i);
            want[i] = false;
        }
        for (size_t k = 0; k < N; k++) {
            assert_int_equal(hx_bit(bits, k), want[k]);
            below = k % 64 ? below : 0;
            assert_int_equal(hx_bits_below(bits, k), below);
            below += want[k];
        }
    }
}

/* --- binary searches ---------------------------------------------------------------- */

static void lower_bound_is_what_a_scan_finds(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("lower_bound");
    for (size_t round = 0, rounds = unit_rounds(2000); round < rounds; round++) {
        uint64_t v[65], key = unit_below(&random, 34);
        uint32_t n = (uint32_t)unit_below(&random, 65), want = 0, probes = 0;
        for (uint64_t i = 0, at = 0; i < n; i++)
            v[i] = at += unit_below(&random, 2);
        while (want < n && v[want] < key)
            want++;
        assert_int_equal(HX_LOWER_BOUND(n, i, (probes++, assert_true(i < n), v[i] < key)), want);
        assert_true(probes <= 7);
        for (uint32_t i = 0; i <= n; i++)
            assert_int_equal(HX_LOWER_BOUND(n, j, j < i), i);
    }
    assert_true(HX_LOWER_BOUND(UINT64_MAX, i, i < UINT64_MAX - 1) == UINT64_MAX - 1);
    assert_true(HX_LOWER_BOUND(UINT64_MAX, i, true) == UINT64_MAX);
}

static void ids_are_found_with_gaps_and_without(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("ids");
    for (size_t round = 0, rounds = unit_rounds(500); round < rounds; round++) {
        int64_t id[40], at = (int64_t)unit_below(&random, 20) - 10;
        uint64_t n = unit_below(&random, 41), step = 1 + unit_below(&random, 3);
        for (uint64_t i = 0; i < n; i++, at += 1 + (int64_t)unit_below(&random, step))
            id[i] = at;
        for (int64_t wanted = -12; wanted < 140; wanted++) {
            size_t want = SIZE_MAX;
            for (size_t i = 0; i < n; i++)
                if (id[i] == wanted)
                    want = i;
            assert_int_equal(HX_FIND_ID(n, i, id[i], wanted), want);
        }
        assert_int_equal(HX_FIND_ID(n, i, id[i], INT64_MIN), SIZE_MAX);
        assert_int_equal(HX_FIND_ID(n, i, id[i], INT64_MAX), SIZE_MAX);
    }
}

/* --- tables --------------------------------------------------------------------------- */

static void pairs_keep_their_numbers(void **state)
{
    (void)state;
    enum { KEYS = 5000 };
    struct hx_pairs pairs = {0};
    assert_int_equal(hx_pairs_find(&pairs, 7), HX_NO_PAIR);
    for (uint32_t i = 0, *number; i < 2 * KEYS; i++) {
        uint32_t k = i % KEYS; /* each twice; keys that differ in few bits */
        assert_null(hx_pairs_at(&pairs, hx_pair_key(k % 64, k / 64), &number));
        assert_int_equal(*number, i < KEYS ? HX_NO_PAIR : k);
        *number = k;
    }
    assert_int_equal(pairs.n, KEYS);
    assert_int_equal(hx_pairs_find(&pairs, hx_pair_key(63, 3)), 3 * 64 + 63);
    assert_int_equal(hx_pairs_find(&pairs, hx_pair_key(64, 3)), HX_NO_PAIR);
    hx_pairs_free(&pairs);
    assert_int_equal(hx_pairs_find(&pairs, hx_pair_key(63, 3)), HX_NO_PAIR);
}

static void index_gives_the_numbers_of_a_hash(void **state)
{
    (void)state;
    enum { NUMBERS = 3000, HASHES = 700 };
    struct hx_index index = {0};
    uint32_t at = 0, number;
    assert_false(hx_index_next(&index, 0, &at, &number));
    for (uint32_t i = 0; i < NUMBERS; i++) {
        uint32_t hash = i % HASHES;
        assert_null(hx_index_add(&index, hx_hash_bytes(&hash, sizeof hash), i));
    }
    for (uint32_t removed = 0; removed < 2; removed++) { /* then without every third of them */
        for (uint32_t hash = 0; hash < HASHES; hash++) {
            uint64_t word = hx_hash_bytes(&hash, sizeof hash), sum = 0, want = 0;
            for (at = 0; hx_index_next(&index, word, &at, &number);)
                sum += number;
            for (uint32_t i = hash; i < NUMBERS; i += HASHES)
                want += removed && i % 3 == 0 ? 0 : i;
            assert_int_equal(sum, want);
        }
        for (uint32_t i = 0; i < NUMBERS; i += 3) {
            uint32_t hash = i % HASHES;
            hx_index_remove(&index, hx_hash_bytes(&hash, sizeof hash), i);
        }
    }
    assert_int_equal(index.n, NUMBERS - NUMBERS / 3);
    hx_index_free(&index);
}

/* --- reservations ------------------------------------------------------------------- */

static void big_is_zero_and_trims(void **state)
{
    (void)state;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct hx_big big;
    assert_null(hx_big_reserve(&big, 100 * page + 5));
    uint8_t *p = big.base;
    assert_int_equal((uintptr_t)p % page, 0);
    assert_int_equal(p[0] | p[50 * page] | p[100 * page + 4], 0);
    p[0] = 1;
    p[10 * page] = 2;
    hx_big_trim(&big, 10 * page + 1);
    assert_ptr_equal(big.base, p);
    assert_int_equal(big.bytes, 11 * page);
    assert_int_equal(p[0], 1);
    assert_int_equal(p[10 * page], 2);
    hx_big_trim(&big, SIZE_MAX); /* more than there is: nothing happens */
    hx_big_trim(&big, 11 * page);
    assert_int_equal(big.bytes, 11 * page);
    assert_int_equal(p[10 * page], 2);
    hx_big_trim(&big, 0);
    assert_ptr_equal(big.base, p);
    assert_int_equal(p[0], 1);
    hx_big_free(&big);
    assert_null(big.base);
    hx_big_free(&big);
}

static void big_discards_whole_pages_only(void **state)
{
    (void)state;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct hx_big big;
    assert_null(hx_big_reserve(&big, 4 * page));
    uint8_t *p = big.base;
    memset(p, 7, 4 * page);
    hx_big_discard(&big, 1, 2 * page + 1);
    assert_int_equal(p[0], 7);
    assert_int_equal(p[page], 0);
    assert_int_equal(p[2 * page - 1], 0);
    assert_int_equal(p[2 * page], 7);
    hx_big_discard(&big, 2 * page + 1, 3 * page - 1); /* no whole page inside */
    assert_int_equal(p[2 * page + 1], 7);
    hx_big_discard(&big, 3 * page, 2 * page);
    hx_big_discard(&big, SIZE_MAX - 1, SIZE_MAX);
    assert_int_equal(p[3 * page], 7);
    hx_big_discard(&big, 3 * page, SIZE_MAX); /* ends with the reservation */
    assert_int_equal(p[3 * page], 0);
    hx_big_free(&big);
}

static void big_array_is_typed(void **state)
{
    (void)state;
    struct {
        uint32_t *key;
        struct hx_big key_mem;
    } row, *at = &row;
    assert_null(hx_big_array(at->key, 3000));
    assert_ptr_equal(row.key, row.key_mem.base);
    assert_int_equal(row.key_mem.bytes, 12000);
    row.key[2999] = 7;
    hx_big_array_free(at->key);
    assert_null(row.key);
    assert_null(row.key_mem.base);
    hx_error_free(hx_big_array(row.key, SIZE_MAX / 8));
    assert_null(row.key);
}

static void big_of_nothing_and_of_too_much(void **state)
{
    (void)state;
    struct hx_big big;
    assert_null(hx_big_reserve(&big, 0));
    assert_null(big.base);
    hx_big_trim(&big, 0);
    hx_big_discard(&big, 0, 100);
    hx_big_free(&big);
    hx_error *err = hx_big_reserve(&big, SIZE_MAX / 2);
    assert_non_null(err); /* of which kind, Valgrind's kernel and the real one disagree */
    assert_null(big.base);
    hx_error_free(err);
}

/* --- scope guards and progress --------------------------------------------------------- */

static int open_and_guard(void)
{
    HX_FD int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return fd;
}

static char *steal_it(void)
{
    HX_FREE char *text = strdup("stolen");
    HX_FREE char *lost = strdup("freed");
    assert_non_null(lost);
    return hx_steal(text);
}

static void guards(void **state)
{
    (void)state;
    int fd = open_and_guard();
    assert_true(fd >= 0);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    char *text = steal_it();
    assert_string_equal(text, "stolen");
    free(text);
}

static void note_report(void *context, const char *stage, uint64_t done, uint64_t total)
{
    snprintf(context, 64, "%s %llu/%llu", stage, (unsigned long long)done,
             (unsigned long long)total);
}

static void progress_is_optional(void **state)
{
    (void)state;
    hx_progress_at(NULL, "scan", 1, 2);
    assert_false(hx_progress_cancelled(NULL));
    atomic_bool cancel = false;
    char seen[64] = "";
    struct hx_progress progress = {.report = note_report, .context = seen, .cancel = &cancel};
    hx_progress_at(&progress, "scan", 1, 2);
    assert_string_equal(seen, "scan 1/2");
    assert_false(hx_progress_cancelled(&progress));
    atomic_store(&cancel, true);
    assert_true(hx_progress_cancelled(&progress));
    progress.cancel = NULL;
    assert_false(hx_progress_cancelled(&progress));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(error_lines),
        cmocka_unit_test(error_of_a_system_call),
        cmocka_unit_test(error_line_is_cut_at_a_character),
        cmocka_unit_test(error_copies_and_frees),
        cmocka_unit_test(try_returns_the_error),
        cmocka_unit_test(need_returns_out_of_memory),
        cmocka_unit_test(vec_grows_and_keeps),
        cmocka_unit_test(vec_refuses_what_overflows),
        cmocka_unit_test(vec_of_structures),
        cmocka_unit_test(bits_are_set_one_by_one),
        cmocka_unit_test(lower_bound_is_what_a_scan_finds),
        cmocka_unit_test(ids_are_found_with_gaps_and_without),
        cmocka_unit_test(pairs_keep_their_numbers),
        cmocka_unit_test(index_gives_the_numbers_of_a_hash),
        cmocka_unit_test(big_is_zero_and_trims),
        cmocka_unit_test(big_discards_whole_pages_only),
        cmocka_unit_test(big_array_is_typed),
        cmocka_unit_test(big_of_nothing_and_of_too_much),
        cmocka_unit_test(guards),
        cmocka_unit_test(progress_is_optional),
    };
    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
