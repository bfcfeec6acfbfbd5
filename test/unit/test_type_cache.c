/* test_type_cache.c - type tables that are kept: files that are damaged, of others, or too many;
 * folders that are not ours; and which files can be told by what the kernel says of them.
 */
#include "unit.h"

#include "model/type_build.h"
#include "sym/types/type_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME "00000000000000010000000000000002.types"

struct setup {
    char base[64]; /* XDG_CACHE_HOME */
    char file[128];
    struct hx_type_cache cache;
    struct hx_type_table table;
    void *block;
};
static const struct hx_hash128 NUMBER = {{1, 2}};

static void make_table(struct setup *setup)
{
    struct hx_type_build build;
    size_t bytes;
    uint32_t name;
    assert_null(hx_type_build_init(&build));
    assert_null(hx_type_build_string(&build, "node", 4, &name));
    struct hx_type_entry type = {.name = name, .kind = HX_TYPE_INT, .size = 4};
    assert_true(hx_vec_push(&build.types, type));
    assert_null(hx_type_build_finish(&build, NULL, &setup->block, &bytes));
    hx_type_build_deinit(&build);
    assert_null(hx_type_table_open(setup->block, bytes, &setup->table));
}

static int begin(void **state)
{
    struct setup *setup = calloc(1, sizeof *setup);
    strcpy(setup->base, "/tmp/hx-type-cache-XXXXXX");
    assert_non_null(mkdtemp(setup->base));
    setenv("XDG_CACHE_HOME", setup->base, 1);
    snprintf(setup->file, sizeof setup->file, "%s/heapx/" NAME, setup->base);
    make_table(setup);
    assert_true(hx_type_cache_open(&setup->cache));
    hx_type_cache_put(&setup->cache, NUMBER, &setup->table);
    *state = setup;
    return 0;
}

static int end(void **state)
{
    struct setup *setup = *state;
    char words[128];
    hx_type_cache_close(&setup->cache);
    free(setup->block);
    snprintf(words, sizeof words, "rm -r %s", setup->base);
    assert_int_equal(system(words), 0); // NOLINT(cert-env33-c)
    free(setup);
    return 0;
}

static bool is_there(const struct setup *setup)
{
    struct stat st;
    return lstat(setup->file, &st) == 0;
}

/* Is it what was put? */
static bool has(const struct setup *setup, struct hx_hash128 name)
{
    struct hx_type_table table;
    void *block;
    if (!hx_type_cache_get(&setup->cache, name, &table, &block))
        return false;
    assert_int_equal(table.bytes, setup->table.bytes);
    assert_memory_equal(block, setup->block, table.bytes);
    assert_ptr_equal(table.memory, block);
    free(block);
    return true;
}

/* It is not taken, and goes; afterwards it can be made again. */
static void check_refused(struct setup *setup)
{
    assert_false(has(setup, NUMBER));
    assert_false(is_there(setup));
    hx_type_cache_put(&setup->cache, NUMBER, &setup->table);
    assert_true(has(setup, NUMBER));
}

/* --- hashes ---------------------------------------------------------------------- */

/* The first vectors of the reference implementation, and pieces of any size. */
static void test_siphash(void **state)
{
    (void)state;
    static const uint8_t none[] = {0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6,
                                   0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55, 0x02, 0x93};
    static const uint8_t one[] = {0xda, 0x87, 0xc1, 0xd8, 0x6b, 0x99, 0xaf, 0x44,
                                  0x34, 0x76, 0x59, 0x11, 0x9b, 0x22, 0xfc, 0x45};
    uint8_t text[256];
    uint64_t key[2];
    struct hx_siphash hash;
    struct hx_hash128 got, whole;
    for (unsigned i = 0; i < sizeof text; i++)
        text[i] = (uint8_t)i;
    memcpy(key, text, sizeof key);
    hx_siphash_begin(&hash, key);
    got = hx_siphash_end(&hash);
    assert_memory_equal(&got, none, sizeof got);
    hx_siphash_begin(&hash, key);
    hx_siphash_add(&hash, text, 1);
    got = hx_siphash_end(&hash);
    assert_memory_equal(&got, one, sizeof got);
    hx_siphash_begin(&hash, key);
    hx_siphash_add(&hash, text, sizeof text);
    whole = hx_siphash_end(&hash);
    for (size_t step = 1; step < 40; step++) {
        hx_siphash_begin(&hash, key);
        for (size_t at = 0; at < sizeof text; at += step)
            hx_siphash_add(&hash, text + at, step < sizeof text - at ? step : sizeof text - at);
        got = hx_siphash_end(&hash);
        assert_memory_equal(&got, &whole, sizeof got);
    }
}

/* --- files ----------------------------------------------------------------------- */

static void test_kept(void **state)
{
    struct setup *setup = *state;
    struct stat st;
    struct hx_hash128 hash;
    assert_true(has(setup, NUMBER));
    assert_false(has(setup, (struct hx_hash128){{2, 1}}));
    assert_int_equal(lstat(setup->file, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_false(hx_type_cache_get_hash(&setup->cache, NUMBER, &hash));
    hx_type_cache_put_hash(&setup->cache, NUMBER, (struct hx_hash128){{7, 8}});
    assert_true(hx_type_cache_get_hash(&setup->cache, NUMBER, &hash));
    assert_int_equal(hash.word[0], 7);
    assert_int_equal(hash.word[1], 8);
    const uint64_t key = setup->cache.key[0];
    hx_type_cache_close(&setup->cache);
    assert_false(has(setup, NUMBER));
    assert_true(hx_type_cache_open(&setup->cache));
    assert_int_equal(setup->cache.key[0], key);
    assert_true(has(setup, NUMBER));
}

static void change_byte(const char *path, off_t at)
{
    uint8_t byte;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 0x10;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

/* Each byte of the file: version, kind, name, length, sum, and the table. */
static void test_damaged(void **state)
{
    struct setup *setup = *state;
    struct stat st;
    assert_int_equal(lstat(setup->file, &st), 0);
    for (off_t at = 0; at < st.st_size; at++) {
        change_byte(setup->file, at);
        check_refused(setup);
    }
    for (off_t size = 0; size < st.st_size; size++) {
        assert_int_equal(truncate(setup->file, size), 0);
        check_refused(setup);
    }
    assert_int_equal(truncate(setup->file, st.st_size + 1), 0);
    check_refused(setup);
}

/* A sound file with a table that is not. */
static void test_no_table(void **state)
{
    struct setup *setup = *state;
    ((struct hx_type_table_head *)setup->block)->magic++; /* of another version */
    hx_type_cache_put(&setup->cache, NUMBER, &setup->table);
    ((struct hx_type_table_head *)setup->block)->magic--;
    check_refused(setup);
}

static void test_not_ours(void **state)
{
    struct setup *setup = *state;
    char other[160];
    assert_int_equal(chmod(setup->file, 0640), 0);
    check_refused(setup);
    snprintf(other, sizeof other, "%s/other", setup->base);
    assert_int_equal(link(setup->file, other), 0);
    check_refused(setup);
    assert_int_equal(unlink(setup->file), 0);
    assert_int_equal(symlink(other, setup->file), 0);
    check_refused(setup);
    assert_int_equal(unlink(setup->file), 0);
    assert_int_equal(mkfifo(setup->file, 0600), 0);
    check_refused(setup);
    if (geteuid() == 0) {
        assert_int_equal(chown(setup->file, 12345, 0), 0);
        check_refused(setup);
    }
}

/* Later than all before: the clock of files goes by ticks. */
static void put_now(struct setup *setup, uint64_t number)
{
    usleep(20000);
    setup->cache.until_sweep = 0;
    hx_type_cache_put(&setup->cache, (struct hx_hash128){{number, 0}}, &setup->table);
    usleep(20000);
}

/* The oldest go. */
static void test_bounds(void **state)
{
    struct setup *setup = *state;
    struct hx_type_table large = setup->table;
    large.bytes = UINT64_C(1) << 40;
    hx_type_cache_put(&setup->cache, (struct hx_hash128){{9, 9}}, &large);
    assert_false(has(setup, (struct hx_hash128){{9, 9}}));
    setup->cache.max_bytes = 4 * 4096;
    for (uint64_t i = 10; i < 17; i++) {
        if (i == 14)
            assert_true(has(setup, (struct hx_hash128){{12, 0}})); /* used */
        put_now(setup, i);
    }
    assert_false(is_there(setup));
    assert_false(has(setup, (struct hx_hash128){{13, 0}}));
    assert_true(has(setup, (struct hx_hash128){{12, 0}}));
    assert_true(has(setup, (struct hx_hash128){{16, 0}}));
    setup->cache.max_bytes = 1 << 30;
    setup->cache.max_files = 1;
    put_now(setup, 20);
    assert_false(has(setup, (struct hx_hash128){{16, 0}}));
    assert_true(has(setup, (struct hx_hash128){{20, 0}}));
}

/* --- folders --------------------------------------------------------------------- */

static bool opens(void)
{
    struct hx_type_cache cache;
    if (!hx_type_cache_open(&cache))
        return false;
    hx_type_cache_close(&cache);
    return true;
}

static void test_folder(void **state)
{
    struct setup *setup = *state;
    char folder[128], other[128];
    snprintf(folder, sizeof folder, "%s/heapx", setup->base);
    snprintf(other, sizeof other, "%s/elsewhere", setup->base);
    assert_true(opens());
    assert_int_equal(chmod(folder, 0750), 0);
    assert_false(opens());
    assert_int_equal(chmod(folder, 0700), 0);
    assert_int_equal(rename(folder, other), 0);
    assert_int_equal(symlink(other, folder), 0);
    assert_false(opens());
    assert_int_equal(unlink(folder), 0);
    assert_int_equal(chmod(setup->base, 0777), 0); /* others may rename it there */
    assert_false(opens());
    assert_int_equal(chmod(setup->base, 0700), 0);
    assert_true(opens()); /* made anew */
    assert_int_equal(access(folder, F_OK), 0);
    if (geteuid() == 0) {
        assert_int_equal(chown(folder, 12345, 0), 0);
        assert_false(opens());
        assert_int_equal(chown(setup->base, 12345, 0), 0);
        assert_false(opens());
        assert_int_equal(chown(setup->base, 0, 0), 0);
    }
}

static void test_places(void **state)
{
    struct setup *setup = *state;
    char home[128], *before = getenv("HOME") ? strdup(getenv("HOME")) : NULL;
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    assert_false(opens());
    setenv("HOME", "tmp", 1);
    setenv("XDG_CACHE_HOME", "tmp", 1);
    assert_false(opens());
    snprintf(home, sizeof home, "%s/nowhere", setup->base);
    setenv("HOME", home, 1);
    assert_false(opens());
    setenv("HOME", setup->base, 1);
    assert_true(opens());
    snprintf(home, sizeof home, "%s/.cache/heapx/key", setup->base);
    assert_int_equal(access(home, F_OK), 0);
    if (before)
        setenv("HOME", before, 1);
    free(before);
}

/* --- what a table is made from --------------------------------------------------- */

static void test_stamps(void **state)
{
    struct setup *setup = *state;
    struct hx_file_stamp stamp, again;
    int fd = open(setup->file, O_RDWR | O_CLOEXEC);
    assert_true(hx_file_stamp(fd, &stamp));
    assert_true(hx_file_stamp(fd, &again));
    assert_memory_equal(&stamp, &again, sizeof stamp);
    assert_int_equal(stamp.user, geteuid());
    assert_true(stamp.group == UINT64_MAX);
    usleep(20000);
    assert_int_equal(pwrite(fd, "x", 1, 0), 1);
    assert_true(hx_file_stamp(fd, &again));
    assert_true(again.changed_ns > stamp.changed_ns);
    assert_int_equal(fchmod(fd, 0620), 0);
    assert_true(hx_file_stamp(fd, &again));
    assert_true(again.group == getegid());
    assert_int_equal(fchmod(fd, 0602), 0);
    assert_false(hx_file_stamp(fd, &again));
    close(fd);
    assert_true(hx_file_stamp(-1, &again));
    fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_false(hx_file_stamp(fd, &again));
    close(fd);
}

/* Two copies of this program are told by content and owner alone. */
static void test_sources(void **state)
{
    struct setup *setup = *state;
    char copy[2][128], own[256] = "", words[1024];
    struct hx_type_source source[3];
    assert_true(readlink("/proc/self/exe", own, sizeof own - 1) > 0);
    for (int i = 0; i < 2; i++) {
        snprintf(copy[i], sizeof copy[i], "%s/copy-%d", setup->base, i);
        snprintf(words, sizeof words, "cp %s %s && chmod 755 %s", own, copy[i], copy[i]);
        assert_int_equal(system(words), 0); // NOLINT(cert-env33-c)
    }
    for (int i = 0; i < 3; i++) {
        int fd[HX_TYPE_FILES] = {open(copy[i > 0], O_RDONLY | O_CLOEXEC), -1, -1};
        if (i == 2 && geteuid() == 0)
            assert_int_equal(fchown(fd[0], 12345, 0), 0);
        usleep(200000); /* what was only just changed has no hash */
        assert_false(hx_type_source(&setup->cache, fd, NULL, 0, &source[i])); /* not by then */
        assert_true(hx_type_source(&setup->cache, fd, NULL, UINT64_MAX, &source[i]));
        close(fd[0]);
    }
    assert_memory_equal(&source[0].hash, &source[1].hash, sizeof source[0].hash);
    assert_int_equal(memcmp(&source[1].hash, &source[2].hash, sizeof source[0].hash) == 0,
                     geteuid() != 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_siphash),
        cmocka_unit_test_setup_teardown(test_kept, begin, end),
        cmocka_unit_test_setup_teardown(test_damaged, begin, end),
        cmocka_unit_test_setup_teardown(test_no_table, begin, end),
        cmocka_unit_test_setup_teardown(test_not_ours, begin, end),
        cmocka_unit_test_setup_teardown(test_bounds, begin, end),
        cmocka_unit_test_setup_teardown(test_folder, begin, end),
        cmocka_unit_test_setup_teardown(test_places, begin, end),
        cmocka_unit_test_setup_teardown(test_stamps, begin, end),
        cmocka_unit_test_setup_teardown(test_sources, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
