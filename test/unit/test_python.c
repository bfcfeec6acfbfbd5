/* test_python.c - Python's tables of lines, its table of offsets, and builds that are refused. */
#include "attach/python/state.h"

#include "unit.h"

#include "base/proc.h"

#include <dlfcn.h>
#include <unistd.h>

/* --- lines ------------------------------------------------------------------------------ */

struct table {
    uint8_t bytes[4096];
    size_t n;
};

static void put_number(struct table *table, uint64_t value)
{
    for (; value >= 0x40; value >>= 6)
        table->bytes[table->n++] = (uint8_t)(0x40 | (value & 0x3f));
    table->bytes[table->n++] = (uint8_t)value;
}

static void put_head(struct table *table, unsigned kind, unsigned units)
{
    table->bytes[table->n++] = (uint8_t)(0x80 | kind << 3 | (units - 1));
}

/* An entry of any kind that can tell this change of the line; `none`: that there is none. */
static void put_entry(struct table *table, unsigned units, int delta, bool none)
{
    const uint64_t number = delta < 0 ? (uint64_t)-delta << 1 | 1 : (uint64_t)delta << 1;
    const unsigned way = (unsigned)rand() % 4;
    if (none) {
        put_head(table, 15, units);
    } else if (delta == 0 && way < 2) {
        put_head(table, (unsigned)rand() % 10, units);
        table->bytes[table->n++] = (uint8_t)(rand() & 0x7f);
    } else if (delta >= 0 && delta < 3 && way < 3) {
        put_head(table, 10 + (unsigned)delta, units);
        table->bytes[table->n++] = 4;
        table->bytes[table->n++] = 0x7f;
    } else if (way & 1) {
        put_head(table, 13, units);
        put_number(table, number);
    } else {
        put_head(table, 14, units);
        put_number(table, number);
        put_number(table, 3);
        put_number(table, 1000);
        put_number(table, 70);
    }
}

static void test_lines(void **state)
{
    (void)state;
    for (int round = 0; round < 500; round++) {
        struct table table = {.n = 0};
        uint32_t line[800];
        size_t n = 0;
        int at = 1000;
        while (table.n < 1000 && n < 780) {
            static const int deltas[] = {0, 0, 1, 2, 3, -1, 31, 32, -33, 700, -500, 5000};
            const int delta = deltas[(unsigned)rand() % 12];
            const unsigned units = 1 + (unsigned)rand() % 8;
            const bool none = rand() % 8 == 0;
            if (!none && at + delta <= 0)
                continue;
            put_entry(&table, units, delta, none);
            at += none ? 0 : delta;
            for (unsigned i = 0; i < units; i++)
                line[n++] = none ? 0 : (uint32_t)at;
        }
        for (size_t i = 0; i < n; i++)
            assert_int_equal(hx_py_line_of(table.bytes, table.n, 1000, i), line[i]);
        assert_int_equal(hx_py_line_of(table.bytes, table.n, 1000, n), 0);
    }
}

static void test_lines_that_lie(void **state)
{
    (void)state;
    struct table table;
    for (int round = 0; round < 20000; round++) {
        table.n = (size_t)rand() % 64;
        for (size_t i = 0; i < table.n; i++)
            table.bytes[i] = (uint8_t)(rand() >> 7 | (round & 1) << 6);
        assert_true(hx_py_line_of(table.bytes, table.n, (uint32_t)rand(), (uint64_t)rand() % 200) <=
                    INT32_MAX);
    }
    /* lines without end */
    table.n = 0;
    for (int i = 0; i < 500; i++) {
        put_head(&table, 13, 1);
        put_number(&table, UINT32_MAX & ~1u);
    }
    assert_int_equal(hx_py_line_of(table.bytes, table.n, 1, 400), 0);
}

/* --- offsets ----------------------------------------------------------------------------- */

struct words {
    uint64_t word[64];
};

static bool read_words(void *context, uint64_t addr, void *dst, size_t len)
{
    const struct words *words = context;
    if (addr > sizeof words->word || len > sizeof words->word - addr)
        return false;
    memcpy(dst, (const uint8_t *)words->word + addr, len);
    return true;
}

static void test_offsets(void **state)
{
    (void)state;
    struct words words = {{0}};
    const struct hx_peek peek = {.read = read_words, .context = &words};
    struct hx_python python = {.version = HX_PYTHON(3, 13)};
    struct hx_py_state_layout layout;
    for (size_t i = 0; i < 64; i++)
        words.word[i] = 8 * i;
    assert_true(hx_py_state_layout(&python, &peek, &layout));
    assert_int_equal(layout.threads, 8 * 9);
    assert_int_equal(layout.frame, 8 * 23);
    assert_int_equal(layout.code_object.lines, 8 * 38);
    python.version = HX_PYTHON(3, 14);
    assert_true(hx_py_state_layout(&python, &peek, &layout));
    assert_int_equal(layout.frame, 8 * 26);
    assert_int_equal(layout.code_object.lines, 8 * 43);
    words.word[26] = UINT64_MAX - 7;
    assert_false(hx_py_state_layout(&python, &peek, &layout));
    python.runtime = 1 << 20;
    assert_false(hx_py_state_layout(&python, &peek, &layout));
    python.version = HX_PYTHON(3, 12);
    assert_true(hx_py_state_layout(&python, &peek, &layout));
    python.version = HX_PYTHON(3, 15);
    assert_false(hx_py_state_layout(&python, &peek, &layout));
}

/* --- builds ------------------------------------------------------------------------------ */

static bool read_own(void *context, uint64_t addr, void *dst, size_t len)
{
    (void)context;
    memcpy(dst, (const void *)(uintptr_t)addr, len);
    return true;
}

static void check_build(const struct hx_peek *peek, const char *refusal)
{
    struct hx_mapping *mapping;
    size_t n;
    hx_modules *modules;
    struct hx_python python;
    assert_null(hx_proc_read_mappings(getpid(), "maps", &mapping, &n));
    assert_null(hx_modules_create(getpid(), mapping, n, &modules));
    assert_true(hx_python_find(modules, peek, &python));
    if (refusal)
        assert_non_null(strstr(python.refusal, refusal));
    else
        assert_null(python.refusal);
    hx_modules_destroy(modules);
    hx_mappings_free(mapping, n);
}

static void test_builds(void **state)
{
    (void)state;
    void *plugin = dlopen("./python_plugin.so", RTLD_NOW);
    const struct hx_peek peek = {.read = read_own};
    assert_non_null(plugin);
    uint64_t *runtime = dlsym(plugin, "_PyRuntime"), *version = dlsym(plugin, "Py_Version");
    check_build(&peek, NULL);
    runtime[2] = 1;
    check_build(&peek, "free-threaded");
    runtime[2] = 0;
    runtime[1] = 0x030d01f0;
    check_build(&peek, "says otherwise");
    *version = 0x030f00f0;
    check_build(&peek, "not known");
    *version = 0x030a00f0;
    check_build(&peek, "not known");
    *version = 0;
    check_build(&peek, "older than 3.11");
    dlclose(plugin);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_lines_that_lie),
        cmocka_unit_test(test_offsets),
        cmocka_unit_test(test_builds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
