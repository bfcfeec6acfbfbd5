/* test_naming.c - names in a recording: of this program's own code and types. */
#include "unit.h"

#include "base/cleanup.h"
#include "base/timing.h"
#include "record/read/space.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

/* Several of one size, more than are shown. */
#define ALIKE(n)                                                                                   \
    struct alike_##n {                                                                             \
        char bytes[991];                                                                           \
    };                                                                                             \
    struct alike_##n alike_##n = {{0}};                                                            \
    extern struct alike_##n alike_##n
ALIKE(a);
ALIKE(b);
ALIKE(c);
ALIKE(d);
ALIKE(e);
ALIKE(f);
ALIKE(g);
ALIKE(h);
ALIKE(i);
ALIKE(j);
ALIKE(k);
ALIKE(l);
ALIKE(m);

struct odd_one {
    char bytes[983];
};
struct odd_one odd = {{0}};
extern struct odd_one odd;

static __attribute__((noinline)) uint64_t here(void)
{
    return (uint64_t)(uintptr_t)__builtin_return_address(0) - 1;
}

static hx_code *create(uint32_t *ret_file, uint64_t *ret_bias)
{
    struct stat st;
    Dl_info info;
    hx_code *code;
    assert_true(dladdr((void *)(uintptr_t)here(), &info));
    char *path = realpath("/proc/self/exe", NULL); /* what it leads to is Valgrind, under that */
    assert_non_null(path);
    assert_int_equal(stat(path, &st), 0);
    struct hx_mapping mapping = {.start = 0x1000,
                                 .end = 0x2000,
                                 .prot = HX_PROT_R | HX_PROT_X,
                                 .path = path,
                                 .dev = st.st_dev,
                                 .inode = st.st_ino};
    assert_null(hx_code_create(&code));
    assert_null(hx_code_add(code, getpid(), &mapping, ret_file));
    *ret_bias = (uint64_t)(uintptr_t)info.dli_fbase;
    free(path);
    return code;
}

static struct hx_recording *record(uint32_t file, uint64_t vaddr)
{
    struct hx_recording *recording;
    assert_null(hx_recording_create(&recording));
    struct hx_rec_place code = {.file = file, .vaddr = vaddr};
    struct hx_rec_place region = {.file = file, .vaddr = vaddr, .kind = HX_REC_REGION};
    struct hx_rec_place deferred = {
        .file = UINT32_MAX, .kind = HX_REC_DEFERRED, .stack = HX_NO_STACK};
    struct hx_rec_place nowhere = {.file = UINT32_MAX, .vaddr = 4711};
    region.lines = calloc(1, sizeof *region.lines);
    region.lines->function = strdup("label");
    region.n_lines = 1;
    assert_true(hx_vec_push(&recording->places, code));
    assert_true(hx_vec_push(&recording->places, region));
    assert_true(hx_vec_push(&recording->places, deferred));
    assert_true(hx_vec_push(&recording->places, nowhere));
    return recording;
}

static void test_places(void **state)
{
    (void)state;
    uint64_t bias, at = here();
    uint32_t file;
    hx_code *code = create(&file, &bias);
    for (int briefly = 0; briefly < 2; briefly++) {
        HX_RECORDING struct hx_recording *recording = record(file, at - bias);
        assert_null(briefly ? hx_recording_name_until(recording, code, hx_now_ns(), NULL)
                            : hx_recording_name(recording, code, NULL));
        const struct hx_rec_place *place = recording->places.v;
        const struct hx_rec_line *line = &place[0].lines[place[0].n_lines - 1];
        assert_string_equal(line->function, "test_places");
        assert_int_equal(place[0].initialiser, HX_REC_NOT_INITIALISER);
        assert_false(place[0].recorder);
        assert_int_equal(!line->source, briefly);
        assert_int_equal(!line->declared, briefly);
        assert_int_equal(line->entry, (uint64_t)(uintptr_t)test_places - bias);
        assert_int_equal(place[1].n_lines, 1);
        assert_string_equal(place[1].lines->function, "label");
        assert_null(place[1].lines->source);
        assert_null(place[2].lines);
        assert_null(place[3].lines);
        assert_int_equal(recording->files.n, 1);
    }
    hx_code_destroy(code);
}

static void test_types(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {0, 8, 983, 991, 100003, UINT64_MAX};
    uint64_t bias, at = here();
    uint32_t file;
    hx_code *code = create(&file, &bias);
    for (int round = 0; round < 2; round++) { /* of the same code: the second one is quick */
        HX_RECORDING struct hx_recording *recording = record(file, at - bias);
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            assert_true(hx_vec_push(&recording->sizes, (struct hx_rec_size){.size = sizes[i]}));
        assert_null(hx_recording_name(recording, code, NULL));
        size_t alike = 0, odds = 0;
        for (size_t i = 0; i < recording->sized_types.n; i++) {
            const struct hx_rec_sized_type *type = &recording->sized_types.v[i];
            alike += type->bytes == 991;
            odds += type->bytes == 983 && strcmp(type->name, "odd_one") == 0;
            assert_true(type->bytes != 0 && type->bytes != UINT64_MAX && type->bytes != 100003);
            if (i)
                assert_true(type[-1].bytes < type->bytes || strcmp(type[-1].name, type->name) < 0);
        }
        assert_int_equal(alike, 12);
        assert_int_equal(odds, 1);
        assert_null(hx_recording_name(recording, code, NULL)); /* changes nothing */
    }
    hx_code_destroy(code);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
