/* test_proc.c - the text files of /proc: lines of maps and smaps, and hostile ones. */
#include "unit.h"

#include "base/proc.h"
#include "model/process.h"

#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

struct list {
    struct hx_mapping *v;
    size_t n;
};

static struct list parse(const char *text)
{
    struct list list = {0};
    assert_null(hx_proc_mappings(text, strlen(text), &list.v, &list.n));
    return list;
}

static void assert_no_maps(const char *text, size_t len)
{
    struct hx_mapping *v = NULL;
    size_t n = 0;
    hx_error *err = hx_proc_mappings(text, len, &v, &n);
    assert_non_null(err);
    assert_int_equal(err->kind, HX_E_CORRUPT);
    hx_error_free(err);
}

static void kinds_of_lines(void **state)
{
    (void)state;
    struct list list = parse("1000-3000 r-xp 00002000 fe:01 77   /usr/lib/a b.so\n"
                             "3000-4000 rw-s 00000000 00:05 9 /dev/shm/x (deleted)\n"
                             "4000-5000 rw-p 00000000 00:00 0 \n"
                             "5000-6000 ---p 00000000 00:00 0                  [heap]\n"
                             "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]");
    assert_int_equal(list.n, 5);
    assert_int_equal(list.v[0].start, 0x1000);
    assert_int_equal(list.v[0].end, 0x3000);
    assert_int_equal(list.v[0].prot, HX_PROT_R | HX_PROT_X);
    assert_int_equal(list.v[0].offset, 0x2000);
    assert_int_equal(list.v[0].inode, 77);
    assert_string_equal(list.v[0].path, "/usr/lib/a b.so");
    assert_false(list.v[0].deleted);
    assert_int_equal(list.v[1].prot, HX_PROT_R | HX_PROT_W | HX_PROT_SHARED);
    assert_string_equal(list.v[1].path, "/dev/shm/x");
    assert_true(list.v[1].deleted);
    assert_string_equal(list.v[2].path, "");
    assert_string_equal(list.v[3].path, "[heap]");
    assert_int_equal(list.v[3].prot, 0);
    assert_int_equal(list.v[4].start, 0xffffffffff600000);
    hx_mappings_free(list.v, list.n);
}

static void figures(void **state)
{
    (void)state;
    struct list list = parse("1000-3000 rw-p 00000000 00:00 0 \n"
                             "Size:                  8 kB\n"
                             "Rss:                   4 kB\n"
                             "Anonymous:             3 kB\n"
                             "Swap:                  2 kB\n"
                             "SwapPss:               1 kB\n"
                             "VmFlags: rd wr mr\n"
                             "3000-4000 rw-s 00000000 00:05 9 /dev/gpu\n"
                             "VmFlags: rd wr io pf \n");
    assert_int_equal(list.n, 2);
    assert_int_equal(list.v[0].rss_bytes, 4096);
    assert_int_equal(list.v[0].anonymous_bytes, 3072);
    assert_int_equal(list.v[0].swap_bytes, 2048);
    assert_false(list.v[0].device);
    assert_int_equal(list.v[1].rss_bytes, 0);
    assert_true(list.v[1].device);
    hx_mappings_free(list.v, list.n);
}

/* The text is read in pieces: a mapping that changed in between can be there twice. */
static void overlaps_are_cut(void **state)
{
    (void)state;
    struct list list = parse("1000-3000 rw-p 00000000 00:00 0 \nRss: 4 kB\n"
                             "2000-3000 rw-p 00000000 00:00 0 \nRss: 8 kB\n"
                             "2000-5000 r--p 00004000 fe:01 7 /x\nRss: 12 kB\n");
    assert_int_equal(list.n, 2);
    assert_int_equal(list.v[0].rss_bytes, 4096); /* not those of the one left out */
    assert_int_equal(list.v[1].start, 0x3000);
    assert_int_equal(list.v[1].end, 0x5000);
    assert_int_equal(list.v[1].offset, 0x5000);
    assert_int_equal(list.v[1].rss_bytes, 12288);
    hx_mappings_free(list.v, list.n);
}

static void line_ends_in_names(void **state)
{
    (void)state;
    struct list list = parse("1000-2000 rw-p 00000000 fe:01 7 /a\\012b\\012\\012\n"
                             "2000-3000 rw-p 00000000 fe:01 7 /c\\01\\040\\n (deleted)\n"
                             "3000-4000 rw-p 00000000 fe:01 7 /d\\");
    assert_int_equal(list.n, 3);
    assert_string_equal(list.v[0].path, "/a\nb\n\n");
    assert_string_equal(list.v[1].path, "/c\\01\\040\\n"); /* the name's own backslashes */
    assert_true(list.v[1].deleted);
    assert_string_equal(list.v[2].path, "/d\\");
    hx_mappings_free(list.v, list.n);
}

static void hostile_text(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "1000",
        "1000-",
        "2000-1000 rw-p 00000000 00:00 0 \n",
        "1000-1000 rw-p 00000000 00:00 0 \n",
        "1000-2000 rw 00000000 00:00 0 \n",
        "1000-2000 rw-p zz 00:00 0 \n",
        "1000-2000 rw-p 00000000 00:00\n",
        "1000-2000 rw-p 00000000 00:00 0 /x\n0\n",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_no_maps(bad[i], strlen(bad[i]));
    assert_no_maps("1000\0-2000", 10);

    struct list list = parse("");
    assert_int_equal(list.n, 0);
    hx_mappings_free(list.v, list.n);
    list = parse("Rss: 4 kB\n\n\nVmFlags:\nVmFlags: i"); /* figures of nothing */
    assert_int_equal(list.n, 0);
    hx_mappings_free(list.v, list.n);
}

static void names_of_threads(void **state)
{
    (void)state;
    char name[20], cut[4];
    hx_proc_name("Name:\ta\\nb\\\\c\\\nUmask:\t0022\n", name, sizeof name);
    assert_string_equal(name, "a\nb\\c\\");
    hx_proc_name("Name:\tabcdef\n", cut, sizeof cut);
    assert_string_equal(cut, "abc");
    hx_proc_name("Name:\t\\", cut, sizeof cut);
    assert_string_equal(cut, "\\");
    hx_proc_name("Pid:\t1\n", name, sizeof name);
    assert_string_equal(name, "");
    hx_proc_name(NULL, name, sizeof name);
    assert_string_equal(name, "");
}

static void stat_of_any_name(void **state)
{
    (void)state;
    static const char *const names[] = {"plain", ") Z 1 2 3", "a b) ", "(((", "\n\\)"};
    pid_t me = getpid();
    uint64_t began = hx_proc_started(me), number[2], cpu = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_int_equal(prctl(PR_SET_NAME, names[i]), 0);
        assert_int_equal(hx_proc_state(me, me), 'R');
        assert_true(hx_proc_stat(me, 0, 4, number, 2));
        assert_int_equal(number[0], getppid());
        assert_int_equal(number[1], getpgrp());
        assert_true(hx_proc_stat(me, me, 4, number, 1));
        assert_int_equal(number[0], getppid());
        assert_true(began && hx_proc_started(me) == began);
        assert_true(hx_proc_cpu_ns(me, &cpu));
    }
    assert_false(hx_proc_stat(me, 0, 1000, number, 1));
    assert_false(hx_proc_stat(me, 0, 52, number, 2)); /* there is no 53rd */
    assert_false(hx_proc_stat(0, 0, 4, number, 1));
    assert_int_equal(hx_proc_state(0, 1), 0);
    assert_int_equal(hx_proc_started(0), 0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_of_lines),   cmocka_unit_test(figures),
        cmocka_unit_test(overlaps_are_cut), cmocka_unit_test(line_ends_in_names),
        cmocka_unit_test(hostile_text),     cmocka_unit_test(names_of_threads),
        cmocka_unit_test(stat_of_any_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
