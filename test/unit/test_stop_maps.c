/* test_stop_maps.c - mappings at a stop: text of before and of the stop, and pages of a child that
 * changes in between, against what smaps says of it then. */
#include "unit.h"

#include "attach/stop/copy.h"
#include "attach/stop/figures.h"
#include "attach/stop/stop_maps.h"
#include "live.h"

#include <linux/perf_event.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { PAGE_BYTES = 4096, PAGES = 16, LARGE = 512 };

static const char smaps[] = "1000-5000 rw-p 00000000 00:00 0 \n"
                            "Rss: 16 kB\nAnonymous: 16 kB\nSwap: 0 kB\nVmFlags: rd wr\n"
                            "5000-7000 r--p 00000000 00:00 0 \n"
                            "Rss: 8 kB\nAnonymous: 8 kB\nSwap: 4 kB\nVmFlags: rd\n"
                            "8000-c000 rw-s 00001000 00:05 9 /dev/gpu\nVmFlags: rd wr io pf\n"
                            "c000-e000 rw-p 00000000 00:0f 7 /anon_hugepage (deleted)\n"
                            "VmFlags: rd wr ht\n"
                            "f000-10000 r-xp 00000000 fe:01 5 /a\\012b\nRss: 4 kB\n";

static struct hx_stop_maps begin(const char *text)
{
    struct hx_stop_maps maps = {0};
    assert_null(hx_stop_maps_begin(text, strlen(text), &maps));
    return maps;
}

static hx_error *update(struct hx_stop_maps *maps, const char *text)
{
    maps->text_len = strlen(text);
    assert_true(maps->text_len <= maps->text_room);
    memcpy(maps->text, text, maps->text_len);
    return hx_stop_maps_update(maps);
}

static void end(struct hx_stop_maps *maps)
{
    hx_mappings_free(maps->before, maps->n_before);
    free(maps->lines);
    free(maps->bytes);
    free(maps->text);
    free(maps->now);
    free(maps->line);
    free(maps->paths);
}

static void assert_mapping(const struct hx_mapping *mapping, uint64_t start, uint64_t stop,
                           const char *path, uint64_t rss, uint64_t anonymous, uint64_t swap)
{
    assert_int_equal(mapping->start, start);
    assert_int_equal(mapping->end, stop);
    assert_string_equal(mapping->path, path);
    assert_int_equal(mapping->rss_bytes, rss);
    assert_int_equal(mapping->anonymous_bytes, anonymous);
    assert_int_equal(mapping->swap_bytes, swap);
}

static void nothing_has_changed(void **state)
{
    (void)state;
    struct hx_stop_maps maps = begin(smaps);
    assert_null(update(&maps, "1000-5000 rw-p 00000000 00:00 0 \n"
                              "5000-7000 r--p 00000000 00:00 0 \n"
                              "8000-c000 rw-s 00001000 00:05 9 /dev/gpu\n"
                              "c000-e000 rw-p 00000000 00:0f 7 /anon_hugepage (deleted)\n"
                              "f000-10000 r-xp 00000000 fe:01 5 /a\\012b\n"));
    assert_int_equal(maps.n, 5);
    for (size_t i = 0; i < maps.n; i++) /* not parsed again */
        assert_ptr_equal(maps.now[i].path, maps.before[i].path);
    assert_mapping(&maps.now[1], 0x5000, 0x7000, "", 8192, 8192, 4096);
    assert_true(maps.now[2].device);
    assert_true(maps.now[3].huge);
    char *text;
    size_t len, n;
    struct hx_mapping *again;
    assert_null(hx_stop_maps_print(&maps, &text, &len));
    assert_null(hx_proc_mappings(text, len, &again, &n));
    assert_int_equal(n, 5);
    assert_mapping(&again[1], 0x5000, 0x7000, "", 8192, 8192, 4096);
    assert_true(again[2].device && !again[2].huge && again[2].prot & HX_PROT_SHARED);
    assert_true(again[3].huge && again[3].deleted);
    assert_string_equal(again[4].path, "/a\nb");
    hx_mappings_free(again, n);
    free(text);
    end(&maps);
}

static void cut_joined_new_and_gone(void **state)
{
    (void)state;
    struct hx_stop_maps maps = begin(smaps);
    assert_null(update(&maps, "0500-1000 rw-p 00000000 00:00 0 [heap]\n" /* new */
                              "1000-2000 rw-p 00000000 00:00 0 \n"       /* cut in two */
                              "2000-6000 r--p 00000000 00:00 0 \n"       /* of two parts */
                              "6000-7000 rw-p 00000000 fe:01 77 /x\n"    /* in its place */
                              "9000-a000 rw-s 00002000 00:05 9 /dev/gpu\n"
                              "c000-d000 rw-p 00000000 00:0f 7 /anon_hugepage (deleted)\n"
                              "f000-10000 r-xp 00000000 fe:01 5 /a\\012b\n"
                              "20000-21000 rw-p 00000000 00:00 0 [stack]"));
    assert_int_equal(maps.n, 8);
    assert_mapping(&maps.now[0], 0x500, 0x1000, "[heap]", 0, 0, 0);
    assert_mapping(&maps.now[1], 0x1000, 0x2000, "", 4096, 4096, 0);
    assert_mapping(&maps.now[2], 0x2000, 0x6000, "", 12288 + 4096, 12288 + 4096, 0);
    assert_mapping(&maps.now[3], 0x6000, 0x7000, "/x", 0, 0, 0);
    assert_mapping(&maps.now[4], 0x9000, 0xa000, "/dev/gpu", 0, 0, 0);
    assert_true(maps.now[4].device);
    assert_true(maps.now[5].huge && maps.now[5].deleted);
    assert_ptr_equal(maps.now[6].path, maps.before[4].path); /* found again behind the others */
    assert_mapping(&maps.now[7], 0x20000, 0x21000, "[stack]", 0, 0, 0);
    end(&maps);
}

/* Of a running process the same range can be there twice: the line that was cut is like no other.
 */
static void cut_lines(void **state)
{
    (void)state;
    struct hx_stop_maps maps = begin("1000-3000 rw-p 00000000 00:00 0 \nRss: 4 kB\n"
                                     "2000-3000 rw-p 00000000 00:00 0 \nRss: 8 kB\n"
                                     "2000-5000 r--p 00004000 fe:01 7 /x\nRss: 12 kB\n"
                                     "6000-7000 r--p 00004000 fe:01 7 /x\nRss: 4 kB\n");
    assert_int_equal(maps.n_before, 3);
    assert_null(update(&maps, "1000-2000 rw-p 00000000 00:00 0 \n"
                              "2000-5000 r--p 00004000 fe:01 7 /x\n"
                              "6000-7000 r--p 00004000 fe:01 7 /x\n"
                              "6000-8000 r--p 00004000 fe:01 7 /y\n"));
    assert_int_equal(maps.n, 3);
    assert_mapping(&maps.now[1], 0x2000, 0x5000, "/x", 12288, 0, 0);
    assert_ptr_equal(maps.now[2].path, maps.before[2].path);
    hx_error *err = update(&maps, "1000-2000 rw-p 00000000 00:00 0 \nRss: 4 kB\n");
    assert_non_null(err);
    assert_int_equal(err->kind, HX_E_CORRUPT);
    hx_error_free(err);
    end(&maps);
}

static void many_new_ones(void **state)
{
    (void)state;
    enum { N = 20000, LINE = 40 };
    struct hx_stop_maps maps = begin("");
    char *text = malloc((size_t)N * LINE), *at = text;
    for (unsigned i = 1; i <= N; i++)
        at += sprintf(at, "%x000-%x800 rw-p 00000000 00:00 0 \n", i, i);
    free(maps.text);
    free(maps.paths);
    maps.text_len = maps.text_room = (size_t)(at - text);
    maps.text = text;
    maps.paths = malloc(maps.text_room + 1);
    assert_null(hx_stop_maps_update(&maps));
    assert_int_equal(maps.n, N);
    assert_mapping(&maps.now[N - 1], (uint64_t)N << 12, ((uint64_t)N << 12) + 0x800, "", 0, 0, 0);
    end(&maps);
}

/* --- a child ------------------------------------------------------------------------- */

struct shared {
    volatile int change, changed;
    int file;
};

static char *map(size_t pages, int prot, int flags, int fd)
{
    char *bytes = mmap(NULL, (pages + 2) * PAGE_BYTES, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return mmap(bytes + PAGE_BYTES, pages * PAGE_BYTES, prot, flags | MAP_FIXED, fd, 0);
}

static void touch(char *bytes, size_t first, size_t last, bool write)
{
    for (size_t i = first; i < last; i++) {
        volatile char *at = bytes + i * PAGE_BYTES;
        if (write)
            *at = 1;
        else
            (void)*at;
    }
}

static void change_meanwhile(void *context, int ready)
{
    struct shared *shared = context;
    const int rw = PROT_READ | PROT_WRITE, own = MAP_PRIVATE | MAP_ANONYMOUS;
    char *split = map(PAGES, rw, own, -1), *joined = map(PAGES, rw, own, -1);
    char *moved = map(PAGES, rw, own, -1), *zeros = map(PAGES, rw, own, -1);
    char *data = map(PAGES, rw, MAP_PRIVATE, shared->file);
    char *seen = map(PAGES, PROT_READ, MAP_SHARED, shared->file);
    char *memory = map(PAGES, rw, MAP_SHARED | MAP_ANONYMOUS, -1);
    char *index = map(LARGE, PROT_READ, MAP_SHARED, shared->file);
    char *code = map(LARGE, PROT_READ, MAP_PRIVATE, shared->file);
    mprotect(joined, PAGES / 2 * PAGE_BYTES, PROT_READ);
    touch(split, 2, 10, true);
    touch(joined, 9, 12, true);
    touch(moved, 1, 5, true);
    touch(zeros, 0, 4, false);
    touch(data, 3, 6, true);
    touch(data, 8, 10, false);
    touch(seen, 0, 5, false);
    touch(memory, 0, 7, true);
    touch(index, 0, LARGE, false);
    touch(code, 0, LARGE, false);
    (void)!write(ready, "", 1);
    while (!shared->change)
        usleep(1000);
    mprotect(split + 4 * PAGE_BYTES, 3 * PAGE_BYTES, PROT_READ);
    touch(split, 12, 14, true);
    madvise(split + 2 * PAGE_BYTES, PAGE_BYTES, MADV_DONTNEED);
    mprotect(joined, PAGES / 2 * PAGE_BYTES, rw);
    touch(joined, 0, 2, true);
    (void)!mremap(moved, PAGES * PAGE_BYTES, 2 * PAGES * PAGE_BYTES, MREMAP_MAYMOVE);
    touch(zeros, 0, 1, true);
    touch(data, 6, 9, true);
    munmap(seen, PAGES * PAGE_BYTES);
    touch(map(LARGE, PROT_READ, MAP_SHARED, shared->file), 0, 300, false);
    touch(map(PAGES, rw, MAP_PRIVATE, shared->file), 0, 2, true);
    touch(map(PAGES, rw, own, -1), 5, 9, true);
    touch(memory, 7, 9, true);
    mprotect(code + 8 * PAGE_BYTES, 8 * PAGE_BYTES, rw);
    touch(code, 8, 11, true);
    shared->changed = 1;
    for (;;)
        pause();
}

/* The figures are those of smaps, and the pieces are pages that are there. */
static void figures_of_the_stop(void **state)
{
    (void)state;
    struct shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    FILE *file = tmpfile();
    assert_non_null(file);
    shared->file = fileno(file);
    assert_int_equal(ftruncate(shared->file, LARGE * PAGE_BYTES), 0);
    pid_t pid = live_start(change_meanwhile, shared);
    _Atomic uint64_t progress = 0;
    struct hx_tracer tracer = {.pid = pid, .cancel_fd = -1};
    struct hx_copy copy = {
        .pid = pid, .threads = 1, .memory_fd = -1, .pagemap = -1, .progress = &progress};
    struct hx_stop_maps maps = {0};
    assert_null(hx_stop_maps_prepare(pid, 0, &maps));
    assert_null(hx_copy_prepare(&copy, maps.before, maps.n_before, &tracer));
    shared->change = 1;
    while (!shared->changed)
        usleep(1000);
    assert_null(hx_copy_scan(&copy));
    assert_null(hx_stop_maps_read(pid, &maps));
    assert_null(hx_copy_plan(&copy, maps.now, maps.n, maps.before, maps.n_before));
    assert_null(hx_copy_read_rest(&copy, &tracer));
    assert_int_equal(copy.lost.n, 0);
    struct hx_mapping *mapping;
    size_t n;
    assert_null(hx_proc_read_mappings(pid, "smaps", &mapping, &n));
    assert_int_equal(maps.n, n);
    for (size_t i = 0; i < n; i++)
        assert_mapping(&maps.now[i], mapping[i].start, mapping[i].end, mapping[i].path,
                       mapping[i].rss_bytes, mapping[i].anonymous_bytes, mapping[i].swap_bytes);
    hx_mappings_free(mapping, n);
    hx_copy_deinit(&copy);
    end(&maps);
    live_end(pid);
    fclose(file);
    munmap(shared, sizeof *shared);
}

/* Memory of the kernel's, as a device's, of which it tells no pages. */
static void map_events(void)
{
    struct perf_event_attr attr = {
        .type = PERF_TYPE_SOFTWARE, .size = sizeof attr, .exclude_kernel = 1};
    int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
    char *pages = mmap(NULL, 3 * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (pages != MAP_FAILED)
        touch(pages, 0, 3, false);
}

static void be_there(void *context, int ready)
{
    (void)context;
    const int rw = PROT_READ | PROT_WRITE;
    FILE *file = tmpfile();
    if (!file || ftruncate(fileno(file), LARGE * PAGE_BYTES) != 0)
        _exit(1);
    touch(map(LARGE, rw, MAP_PRIVATE | MAP_ANONYMOUS, -1), 3, 200, true);
    touch(map(LARGE, rw, MAP_PRIVATE | MAP_ANONYMOUS, -1), 0, LARGE, true);
    (void)*(volatile char *)map(LARGE, rw, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    map(LARGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
    touch(map(LARGE, rw, MAP_SHARED | MAP_ANONYMOUS, -1), 1, 50, true);
    char *data = map(LARGE, rw, MAP_PRIVATE, fileno(file));
    touch(data, 0, 20, true);
    touch(data, 40, 60, false);
    touch(map(LARGE, PROT_READ, MAP_SHARED, fileno(file)), 0, 30, false);
    map_events();
    (void)!write(ready, "", 1);
    for (;;)
        pause();
}

static bool add_bytes(void *bytes, uint64_t start, uint64_t end, uint64_t categories)
{
    (void)categories;
    *(uint64_t *)bytes += end - start;
    return true;
}

/* Pages that were read and never written, as Valgrind's own: entries tell them from no others. */
static uint64_t zero_bytes(pid_t pid, const struct hx_mapping *mapping)
{
    const struct hx_page_scan zeros = {.all = HX_PAGE_ZERO};
    uint64_t bytes = 0;
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/pagemap", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    if (mapping->end <= INT64_MAX) /* [vsyscall] */
        hx_pagemap_each(fd, mapping->start, mapping->end, &zeros, add_bytes, &bytes);
    close(fd);
    return bytes;
}

static void assert_counted(pid_t pid, bool by_entries)
{
    struct hx_figures figures = {0};
    struct hx_mapping *counted, *told;
    size_t n_counted, n;
    bool done;
    assert_null(hx_figures_count(pid, by_entries, &figures, &done));
    assert_true(done);
    assert_null(hx_proc_mappings(figures.text, figures.len, &counted, &n_counted));
    assert_null(hx_proc_read_mappings(pid, "smaps", &told, &n));
    assert_int_equal(n_counted, n);
    for (size_t i = 0; i < n; i++) {
        const uint64_t zeros = by_entries ? zero_bytes(pid, &told[i]) : 0;
        assert_mapping(&counted[i], told[i].start, told[i].end, told[i].path,
                       told[i].rss_bytes + zeros, told[i].anonymous_bytes + zeros,
                       told[i].swap_bytes);
        assert_int_equal(counted[i].huge, told[i].huge);
    }
    hx_mappings_free(told, n);
    hx_mappings_free(counted, n_counted);
    free(figures.text);
}

/* Pages tell the same as smaps. */
static void figures_without_smaps(void **state)
{
    (void)state;
    pid_t pid = live_start(be_there, NULL);
    assert_counted(pid, false);
#ifndef __SANITIZE_ADDRESS__ /* which reserves terabytes: more than is read so */
    assert_counted(pid, true);
#endif
    live_end(pid);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_has_changed), cmocka_unit_test(cut_joined_new_and_gone),
        cmocka_unit_test(cut_lines),           cmocka_unit_test(many_new_ones),
        cmocka_unit_test(figures_of_the_stop), cmocka_unit_test(figures_without_smaps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
