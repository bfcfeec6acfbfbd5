/* test_track_soft.c - soft-dirty bits: whether the kernel keeps them is tried, not believed; pages
 * by entries of pagemap. */
#include "unit.h"

#include "attach/stop/pagemap.h"
#include "attach/track/track.h"
#include "model/process.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 8 };

/* Where the kernel was built with them its own word for it is in smaps: "sd". */
static void the_probe_says_what_smaps_says(void **state)
{
    (void)state;
    char line[4096];
    bool known = false;
    FILE *smaps = fopen("/proc/self/smaps", "re");
    assert_non_null(smaps);
    while (fgets(line, sizeof line, smaps))
        known |= strncmp(line, "VmFlags:", 8) == 0 && strstr(line, " sd ");
    fclose(smaps);
    assert_int_equal(hx_track_soft_works(), known);
    assert_int_equal(hx_track_soft_works(), known);
}

struct seen {
    uint8_t *page;
    unsigned present, alone, dirty; /* bits by page */
};

static bool see(void *context, uint64_t start, uint64_t end, uint64_t categories)
{
    struct seen *seen = context;
    for (uint64_t at = start; at < end; at += PAGE) {
        unsigned bit = 1u << (at - (uint64_t)(uintptr_t)seen->page) / PAGE;
        seen->present |= categories & HX_PAGE_PRESENT ? bit : 0;
        seen->alone |= categories & HX_PAGE_ALONE ? bit : 0;
        seen->dirty |= categories & HX_PAGE_SOFT_DIRTY ? bit : 0;
    }
    return true;
}

/* Of the mapping that begins there, by smaps. */
static unsigned resident_pages(uint64_t start)
{
    struct hx_mapping *mapping;
    size_t n;
    assert_null(hx_proc_read_mappings(getpid(), "smaps", &mapping, &n));
    size_t i = hx_mapping_find(mapping, n, start);
    assert_true(i < n && mapping[i].start == start);
    unsigned pages = (unsigned)(mapping[i].rss_bytes / PAGE);
    hx_mappings_free(mapping, n);
    return pages;
}

/* A page that was read and never written is one of zeros, which does not look like one's own and is
 * not resident, unless the kernel has none (pvm_no_zero_page). */
static void entries_tell_what_is_there(void **state)
{
    (void)state;
    const struct hx_page_scan how = {.any = HX_PAGE_PRESENT | HX_PAGE_SWAPPED,
                                     .told = HX_PAGE_PRESENT | HX_PAGE_ALONE | HX_PAGE_SOFT_DIRTY};
    struct seen seen = {.page = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)};
    uint64_t start = (uint64_t)(uintptr_t)seen.page, end = start + PAGES * PAGE;
    int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    assert_true(seen.page != MAP_FAILED && fd >= 0);
    madvise(seen.page, PAGES * PAGE, MADV_DONTFORK); /* a mapping by itself */
    madvise(seen.page, PAGES * PAGE, MADV_NOHUGEPAGE);
    seen.page[PAGE] = seen.page[2 * PAGE] = seen.page[7 * PAGE] = 1;
    assert_int_equal(((volatile uint8_t *)seen.page)[4 * PAGE], 0);
    assert_true(hx_pagemap_entries(fd, start, end, &how, see, &seen));
    assert_int_equal(seen.present, 0x96);
    assert_int_equal(seen.alone, resident_pages(start) == 3 ? 0x86 : 0x96);
    assert_int_equal(seen.dirty & 0x86, hx_track_soft_works() ? 0x86 : 0);
    madvise(seen.page + PAGE, PAGE, MADV_DONTNEED);
    seen.present = 0;
    assert_true(hx_pagemap_entries(fd, start, end, &how, see, &seen));
    assert_int_equal(seen.present, 0x94);
    munmap(seen.page, PAGES * PAGE);
    close(fd);
}

struct found {
    uint64_t start;
    uint8_t *page; /* of each, whether it was told */
};

static bool find(void *context, uint64_t start, uint64_t end, uint64_t categories)
{
    const struct found *found = context;
    assert_int_equal(categories, HX_PAGE_PRESENT);
    memset(found->page + (start - found->start) / PAGE, 1, (end - start) / PAGE);
    return true;
}

/* However many are read at a time, and by how many threads. */
static void many_entries_are_read_as_few(void **state)
{
    (void)state;
    enum { MANY = 50000, ENTRIES = 40000 };
    static uint8_t touched[MANY], told[MANY];
    static uint64_t entry[ENTRIES];
    const struct hx_page_room room = {entry, ENTRIES, 3};
    struct hx_page_scan how = {.any = HX_PAGE_PRESENT, .told = HX_PAGE_PRESENT};
    uint8_t *page =
        mmap(NULL, (size_t)MANY * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    assert_true(page != MAP_FAILED && fd >= 0);
    madvise(page, (size_t)MANY * PAGE, MADV_NOHUGEPAGE);
    uint64_t start = (uint64_t)(uintptr_t)page;
    struct unit_random random = unit_random_begin(__func__);
    for (size_t i = 0; i < MANY; i++) {
        touched[i] = unit_below(&random, 4) == 0 || i / 1000 % 5 == 0;
        if (touched[i])
            page[i * PAGE] = 1;
    }
    for (int big = 0; big < 2; big++) {
        struct found found = {start, told};
        how.room = big ? &room : NULL;
        memset(told, 0, sizeof told);
        assert_true(
            hx_pagemap_entries(fd, start, start + (uint64_t)MANY * PAGE, &how, find, &found));
        assert_memory_equal(told, touched, MANY);
    }
    munmap(page, (size_t)MANY * PAGE);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_probe_says_what_smaps_says),
        cmocka_unit_test(entries_tell_what_is_there),
        cmocka_unit_test(many_entries_are_read_as_few),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
