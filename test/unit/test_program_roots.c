/* test_program_roots.c - the arrays of heapx/roots.h, read from a child that has one; as it is, and
 * with bytes that make no sense.
 */
#include "live.h"

#include "attach/roots/program_roots.h"

#include <heapx/roots.h>
#include <sys/mman.h>

#define PAGE 4096

enum { NAMED = 8 };

/* Within one page: what is captured may be cut between two. */
static struct heapx_root child_roots[NAMED] __attribute__((aligned(128)));
static char long_name[600], long_utf8[600];
static int some_object;
/* its names are in pages that only the file has */
static const struct heapx_root unwritten[2] = {{"constant", &some_object}, {"second", NULL}};

/* Names in every place where they can lie: constants, data, the heap's end before nothing. */
static void name_all(void *shared, int ready)
{
    (void)shared;
    char *pages = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(pages + 2 * PAGE, PAGE);
    memcpy(pages + 2 * PAGE - 4, "edge", 4); /* without an end */
    strcpy(pages + PAGE - 3, "across");
    memset(long_name, 'l', sizeof long_name - 1);
    long_utf8[0] = 'x';
    for (size_t i = 1; i + 3 < sizeof long_utf8; i += 3)
        memcpy(long_utf8 + i, "\xe2\x82\xac", 3);
    const char *const names[NAMED] = {
        "constant", pages + 2 * PAGE - 4, pages + PAGE - 3, long_name, long_utf8, "a+b++", "-", ""};
    for (size_t i = 0; i < NAMED; i++)
        child_roots[i] = (struct heapx_root){names[i], (void *)(uintptr_t)(i * 16)};
    heapx_set_roots(child_roots, NAMED);
    (void)!write(ready, "", 1);
    for (;;)
        pause();
}

static void name_constants(void *shared, int ready)
{
    (void)shared;
    heapx_set_roots(unwritten, 2);
    (void)!write(ready, "", 1);
    for (;;)
        pause();
}

struct taken {
    struct live live;
    hx_modules *modules;
    struct hx_program_source source;
};

static bool read_nothing(void *context, uint64_t addr, void *dst, size_t len)
{
    (void)context;
    (void)addr;
    (void)dst;
    (void)len;
    return false;
}

static void take(void (*body)(void *, int), struct taken *ret)
{
    if (getenv("HX_VALGRIND"))
        skip(); /* nothing can be traced there */
    pid_t pid = live_start(body, NULL);
    ret->live = live_capture(pid);
    struct hx_snapshot *snapshot = ret->live.snapshot;
    assert_null(hx_modules_create(pid, snapshot->mapping, snapshot->n_mappings, &ret->modules));
    ret->source = (struct hx_program_source){
        .snapshot = snapshot, .modules = ret->modules, .read_live = read_nothing};
    live_end(pid);
}

static void release(struct taken *taken)
{
    hx_modules_destroy(taken->modules);
    live_free(&taken->live);
}

static void test_names(void **state)
{
    (void)state;
    struct taken taken;
    struct hx_program_roots roots;
    take(name_all, &taken);
    assert_null(hx_program_roots_find(&taken.source, &roots));
    assert_int_equal(roots.n, NAMED);
    static const char *const expected[NAMED] = {"constant", "root 2", "across", NULL,
                                                NULL,       "a_b__",  "root 7", "root 8"};
    for (size_t i = 0; i < NAMED; i++) {
        assert_int_equal(roots.v[i].address, i * 16);
        if (expected[i])
            assert_string_equal(roots.v[i].name, expected[i]);
    }
    assert_int_equal(strlen(roots.v[3].name), HX_ROOT_NAME_MAX);
    assert_int_equal(strlen(roots.v[4].name), 253); /* whole characters */
    assert_int_equal(taken.source.snapshot->notes.n, 0);
    hx_program_roots_deinit(&roots);
    release(&taken);
}

static void test_unwritten(void **state)
{
    (void)state;
    struct taken taken;
    struct hx_program_roots roots;
    take(name_constants, &taken);
    assert_null(hx_program_roots_find(&taken.source, &roots));
    assert_int_equal(roots.n, 2);
    assert_string_equal(roots.v[0].name, "constant");
    assert_int_equal(roots.v[0].address, (uintptr_t)&some_object);
    assert_string_equal(roots.v[1].name, "second");
    hx_program_roots_deinit(&roots);
    release(&taken);
}

/* The captured bytes at an address of the child, which is this program once more. */
static void *captured(const struct taken *taken, const volatile void *address, size_t len)
{
    const uint8_t *bytes =
        hx_image_at(&taken->source.snapshot->image, (uint64_t)(uintptr_t)address, len);
    assert_non_null(bytes);
    return (void *)(uintptr_t)bytes;
}

static uint64_t odd_word(struct unit_random *random, const struct hx_snapshot *snapshot)
{
    static const uint64_t values[] = {0, 1, 8, 65536, 65537, 1 << 30, INT64_MAX, UINT64_MAX / 16};
    const struct hx_mapping *mapping = &snapshot->mapping[unit_below(random, snapshot->n_mappings)];
    switch (unit_below(random, 4)) {
    case 0:
        return unit_random(random);
    case 1:
        return values[unit_below(random, 8)];
    case 2:
        return mapping->start + unit_below(random, mapping->end - mapping->start);
    default:
        return mapping->end - unit_below(random, 40);
    }
}

/* Whatever the words say: no more roots than the limit, each with a name that bins can have. */
static void test_nonsense(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("arrays that make no sense");
    struct taken taken;
    take(name_all, &taken);
    struct hx_snapshot *snapshot = taken.source.snapshot;
    struct heapx_roots *array = captured(&taken, &heapx_roots_v1, sizeof *array);
    uint64_t *entry = captured(&taken, child_roots, sizeof child_roots);
    const struct heapx_roots good = *array;
    size_t read = 0;
    for (size_t round = unit_rounds(400); round; round--) {
        uint64_t word[2] = {odd_word(&random, snapshot), odd_word(&random, snapshot)};
        *array = good;
        if (unit_below(&random, 2))
            memcpy(&array->roots, &word[0], 8);
        if (unit_below(&random, 2))
            memcpy(&array->n, &word[1], 8);
        array->busy = (unsigned)unit_below(&random, 2);
        for (size_t i = 0; i < NAMED; i++)
            if (unit_below(&random, 3) == 0)
                entry[2 * i] = odd_word(&random, snapshot);
        hx_text_clear(&snapshot->notes);
        struct hx_program_roots roots;
        assert_null(hx_program_roots_find(&taken.source, &roots));
        assert_true(roots.n <= HX_PROGRAM_ROOTS_MAX && snapshot->notes.n < 1000);
        assert_true(snapshot->complete);
        for (size_t i = 0; i < roots.n; i++) {
            size_t len = strlen(roots.v[i].name);
            assert_true(len > 0 && len <= HX_ROOT_NAME_MAX && !strchr(roots.v[i].name, '+'));
        }
        read += roots.n > 0;
        hx_program_roots_deinit(&roots);
    }
    assert_true(read > 0);
    array->n = 0;
    array->busy = 1;
    hx_text_clear(&snapshot->notes);
    struct hx_program_roots roots;
    assert_null(hx_program_roots_find(&taken.source, &roots));
    assert_int_equal(roots.n, 0);
    assert_non_null(strstr(hx_text_str(&snapshot->notes), "were changing at the stop"));
    release(&taken);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_unwritten),
        cmocka_unit_test(test_nonsense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
