/* test_limits.c - limits of memory in made-up trees of proc and cgroup files: both versions, mixed,
 * as containers see them, and damaged ones. */
#include "unit.h"

#include "attach/memory_limits.h"
#include "base/cleanup.h"

#include <ftw.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const uint64_t mib = 1 << 20;

/* --- trees ---------------------------------------------------------------------------- */

static char *make_tree(void)
{
    char *root = strdup("/tmp/hx-limits-XXXXXX");
    assert_non_null(mkdtemp(root));
    return root;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st, (void)kind, (void)at;
    return remove(path);
}

static void remove_tree(char *root)
{
    assert_int_equal(nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
    free(root);
}

/* Writes ROOT/PATH with the folders that it lies in. */
static void __attribute__((format(printf, 3, 4)))
put(const char *root, const char *path, const char *format, ...)
{
    char name[PATH_MAX];
    int n = snprintf(name, sizeof name, "%s/%s", root, path);
    for (char *slash = name + strlen(root) + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = 0;
        mkdir(name, 0700);
    }
    assert_true(n < (int)sizeof name);
    HX_FILE FILE *file = fopen(name, "we");
    assert_non_null(file);
    va_list args;
    va_start(args, format);
    vfprintf(file, format, args);
    va_end(args);
}

static void put_machine(const char *root, uint64_t total, uint64_t available)
{
    put(root, "proc/meminfo", "MemTotal: %lu kB\nMemFree: 1 kB\nMemAvailable: %lu kB\n",
        total / 1024, available / 1024);
}

static void put_v2(const char *root, const char *folder, const char *max, const char *high,
                   uint64_t current)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "sys/fs/cgroup%s/memory.max", folder);
    put(root, path, "%s\n", max);
    snprintf(path, sizeof path, "sys/fs/cgroup%s/memory.high", folder);
    put(root, path, "%s\n", high);
    snprintf(path, sizeof path, "sys/fs/cgroup%s/memory.current", folder);
    put(root, path, "%lu\n", current);
    snprintf(path, sizeof path, "sys/fs/cgroup%s/memory.stat", folder);
    put(root, path,
        "anon 1\nfile 50000000\nshmem 30000000\ninactive_file 20000000\nactive_file 8000000\n"
        "file_mapped 5000000\nfile_dirty 2000000\nfile_writeback 1000000\nslab_reclaimable "
        "4000000\n");
}

/* The limit of a folder below ROOT; NULL: there is none. */
static const struct hx_limit *of(const hx_limits *limits, const char *root, const char *folder,
                                 enum hx_limit_kind kind)
{
    char name[PATH_MAX];
    snprintf(name, sizeof name, "the memory cgroup %s%s", root, folder);
    for (size_t i = 0; i < limits->n; i++)
        if (limits->v[i].kind == kind && strcmp(limits->v[i].name, name) == 0)
            return &limits->v[i];
    return NULL;
}

static const struct hx_limit *machine(const hx_limits *limits)
{
    for (size_t i = 0; i < limits->n; i++)
        if (limits->v[i].kind == HX_LIMIT_MACHINE)
            return &limits->v[i];
    return NULL;
}

static hx_limits find(const char *root, pid_t pid)
{
    hx_limits limits = {0};
    assert_null(hx_limits_find(root, pid, &limits));
    return limits;
}

/* --- tests ---------------------------------------------------------------------------- */

static const char v2_mount[] =
    "25 1 0:22 / / rw - ext4 /dev/vda rw\n"
    "30 25 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
    "31 25 0:27 / /odd rw - fuse odd rw,last=\\4\n"; /* no code of a character, at the very end */

static void second_version(void **state)
{
    (void)state;
    char *root = make_tree();
    put(root, "proc/self/mountinfo", "%s", v2_mount);
    put(root, "proc/self/cgroup", "0::/pods/a/debug\n");
    put(root, "proc/77/cgroup", "0::/pods/a/server\n");
    put_machine(root, 64000 * mib, 32000 * mib);
    put_v2(root, "/pods", "max", "max", 1000 * mib);
    put_v2(root, "/pods/a", "524288000", "419430400", 300 * mib);
    put_v2(root, "/pods/a/debug", "max", "max", 10 * mib);
    put_v2(root, "/pods/a/server", "314572800", "max", 290 * mib);
    hx_limits limits = find(root, 77);
    assert_int_equal(limits.n, 3);
    const struct hx_limit *shared = of(&limits, root, "/sys/fs/cgroup/pods/a", HX_LIMIT_V2);
    const struct hx_limit *its = of(&limits, root, "/sys/fs/cgroup/pods/a/server", HX_LIMIT_V2);
    assert_true(shared && shared->ours && shared->its && its && !its->ours && its->its);
    assert_int_equal(shared->bytes, 400 * mib); /* memory.high slows down: a limit, too */
    assert_int_equal(shared->reserve, 32 * mib);
    assert_int_equal(machine(&limits)->reserve, 256 * mib);
    /* what is mapped, dirty or being written is not to be had; half of the slab is */
    uint64_t back = 20000000 + 8000000 - 5000000 - 2000000 - 1000000 + 2000000;
    assert_int_equal(hx_limit_left(shared, UINT64_MAX), 100 * mib + back);
    assert_int_equal(hx_limit_left(shared, 50 * mib), 100 * mib);
    assert_int_equal(hx_limit_left(machine(&limits), UINT64_MAX), 32000 * mib);

    uint64_t left;
    struct hx_memory_need need = {.ours = 68 * mib};
    assert_null(hx_limits_short(&limits, &need, &left));
    need.ours += back + mib;
    assert_ptr_equal(hx_limits_short(&limits, &need, &left), shared);
    assert_int_equal(left, 100 * mib + back);
    /* the target's own limit is full, which matters only to pages that come back */
    need = (struct hx_memory_need){.ours = mib, .its = mib};
    assert_ptr_equal(hx_limits_short(&limits, &need, &left), its);
    hx_error *err = hx_limits_fit(&limits, &need);
    assert_int_equal(err->kind, HX_E_LIMIT);
    assert_non_null(strstr(err->why, "swapped"));
    hx_error_free(err);
    hx_limits_deinit(&limits);
    remove_tree(root);
}

static void first_version(void **state)
{
    (void)state;
    char *root = make_tree();
    put(root, "proc/self/mountinfo",
        "30 25 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
        "31 25 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
        "32 25 0:28 / /mnt/me\\040mory rw - cgroup cgroup rw,memory\n");
    put(root, "proc/self/cgroup", "5:cpu:/x\n4:hugetlb,memory:/a\n0::/unified\n");
    put(root, "proc/77/cgroup", "5:cpu:/y\n4:hugetlb,memory:/a/b\n0::/unified\n");
    put_machine(root, 1000 * mib, 500 * mib);
    put(root, "mnt/me mory/memory.limit_in_bytes", "9223372036854771712\n");
    put(root, "mnt/me mory/memory.usage_in_bytes", "1\n");
    put(root, "mnt/me mory/a/memory.limit_in_bytes", "104857600\n");
    put(root, "mnt/me mory/a/memory.usage_in_bytes", "94371840\n");
    put(root, "mnt/me mory/a/memory.memsw.limit_in_bytes", "209715200\n");
    put(root, "mnt/me mory/a/memory.memsw.usage_in_bytes", "199715200\n");
    put(root, "mnt/me mory/a/memory.stat",
        "inactive_file 1\nactive_file 2\nhierarchical_memory_limit 104857600\n"
        "total_inactive_file 6000000\ntotal_active_file 4000000\ntotal_mapped_file 3000000\n"
        "total_dirty 500000\ntotal_writeback 0\n");
    put(root, "mnt/me mory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
    hx_limits limits = find(root, 77);
    assert_int_equal(limits.n, 3);
    const struct hx_limit *ram = of(&limits, root, "/mnt/me mory/a", HX_LIMIT_V1);
    const struct hx_limit *swap = of(&limits, root, "/mnt/me mory/a", HX_LIMIT_V1_SWAP);
    assert_true(ram && ram->ours && ram->its && swap && swap->ours && swap->its);
    assert_int_equal(hx_limit_left(ram, UINT64_MAX), 10 * mib + 6500000);
    assert_int_equal(hx_limit_left(swap, UINT64_MAX), 10000000 + 6500000);
    hx_limits_deinit(&limits);
    remove_tree(root);
}

/* The mount shows a container's own cgroup as its top, by the name that the host knows (no cgroup
 * namespace) or as the root (one of its own). */
static void containers(void **state)
{
    (void)state;
    char *root = make_tree();
    put(root, "proc/self/mountinfo",
        "32 25 0:28 /docker/1a /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
    put(root, "proc/self/cgroup", "4:memory:/docker/1a\n");
    put(root, "proc/77/cgroup", "4:memory:/docker/1a/child\n");
    put(root, "proc/88/cgroup", "4:memory:/docker/1ab\n"); /* another one, which is not seen */
    put_machine(root, 1000 * mib, 500 * mib);
    put(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put(root, "sys/fs/cgroup/memory/memory.usage_in_bytes", "%lu\n", 60 * mib);
    /* a limit above, which only this line tells of */
    put(root, "sys/fs/cgroup/memory/memory.stat", "hierarchical_memory_limit %lu\n", 100 * mib);
    hx_limits limits = find(root, 77);
    const struct hx_limit *top = of(&limits, root, "/sys/fs/cgroup/memory", HX_LIMIT_V1);
    assert_true(top && top->ours && top->its);
    assert_int_equal(hx_limit_left(top, UINT64_MAX), 40 * mib);
    hx_limits_deinit(&limits);
    limits = find(root, 88);
    top = of(&limits, root, "/sys/fs/cgroup/memory", HX_LIMIT_V1);
    assert_true(top && top->ours && !top->its);
    hx_limits_deinit(&limits);
    remove_tree(root);

    root = make_tree();
    put(root, "proc/self/mountinfo", "%s", v2_mount);
    put(root, "proc/self/cgroup", "0::/\n");
    put(root, "proc/77/cgroup", "0::/\n");
    put(root, "proc/88/cgroup", "0::/../other\n");
    put_machine(root, 1000 * mib, 500 * mib);
    put_v2(root, "", "104857600", "max", 90 * mib);
    limits = find(root, 77);
    top = of(&limits, root, "/sys/fs/cgroup", HX_LIMIT_V2);
    assert_true(top && top->ours && top->its && limits.n == 2);
    hx_limits_deinit(&limits);
    limits = find(root, 88);
    top = of(&limits, root, "/sys/fs/cgroup", HX_LIMIT_V2);
    assert_true(top && top->ours && !top->its && limits.n == 2);
    hx_limits_deinit(&limits);
    remove_tree(root);
}

/* What is not there, or makes no sense, is no limit and no error. */
static void damaged(void **state)
{
    (void)state;
    char *root = make_tree();
    hx_limits limits = find(root, 77);
    assert_int_equal(limits.n, 0);
    hx_limits_deinit(&limits);
    put(root, "proc/self/mountinfo",
        "\n30\n30 25 0:26 /\n30 25 0:26 / /a - \n30 25 0:26 / /a rw\n30 25 0:26 / /a rw - cgroup\n"
        "30 25 0:26 / /sys/fs/cgroup rw shared:1 - cgroup2 none\n   \n\\\n\\04 \\9 - -\n");
    put(root, "proc/self/cgroup", "\n:\n0:\n0::/a/../b\n0::/c\n::::\n");
    put(root, "proc/77/cgroup", "0::");
    put_machine(root, 1000 * mib, 500 * mib);
    put_v2(root, "", "never", "", 90 * mib);
    limits = find(root, 77);
    assert_int_equal(limits.n, 1); /* the machine */
    struct hx_memory_need need = {.ours = UINT64_MAX / 2};
    hx_error *err = hx_limits_fit(&limits, &need);
    assert_non_null(strstr(err->why, "this machine"));
    hx_error_free(err);
    hx_limits_deinit(&limits);
    /* a usage that cannot be read any more: nobody can say what is left */
    put(root, "proc/self/cgroup", "0::/gone\n");
    put_v2(root, "/gone", "1000", "max", 5000);
    limits = find(root, 0);
    const struct hx_limit *limit = of(&limits, root, "/sys/fs/cgroup/gone", HX_LIMIT_V2);
    assert_non_null(limit);
    assert_int_equal(hx_limit_left(limit, UINT64_MAX), 1000); /* all of it can be taken back */
    put(root, "sys/fs/cgroup/gone/memory.current", "%s", "");
    assert_int_equal(hx_limit_left(limit, UINT64_MAX), UINT64_MAX);
    hx_limits_deinit(&limits);
    remove_tree(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(second_version),
        cmocka_unit_test(first_version),
        cmocka_unit_test(containers),
        cmocka_unit_test(damaged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
