/* figures.c - smaps, or maps and counts of pages. */
#include "attach/stop/figures.h"

#include "attach/stop/pagemap.h"
#include "base/cleanup.h"
#include "base/proc.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* The kernel's interface since Linux 6.11 (include/uapi/linux/fs.h). */
struct map_query {
    uint64_t size, flags, addr, start, end, vma_flags, page_size, offset, inode;
    uint32_t dev[2], name_size, build_id_size;
    uint64_t name, build_id;
};
#define QUERY_CALL _IOWR('f', 17, struct map_query)

enum { PAGE = 4096, NS_PAGE = 40 /* what smaps takes */ };

/* The lock is held for so long as a rule; how far a call goes, and how many pages of that it may
 * find. */
static const uint64_t usual_held_ns = 2500000, piece_bytes = 256 << 20, piece_pages = 8192;

/* Without PAGEMAP_SCAN there are 8 bytes to read of each page, there or not. */
static const uint64_t entries_bytes = (uint64_t)64 << 30;

static uint64_t status_bytes(const char *status, const char *name)
{
    const char *kb = status ? hx_proc_field(status, name) : NULL;
    return kb ? strtoull(kb, NULL, 10) * 1024 : 0;
}

void hx_figures_put(struct hx_text *text, const char *line, size_t len,
                    const struct hx_mapping *mapping)
{
    hx_text_putn(text, line, len);
    hx_text_putf(text, "\nRss: %" PRIu64 " kB\nAnonymous: %" PRIu64 " kB\nSwap: %" PRIu64 " kB\n",
                 mapping->rss_bytes / 1024, mapping->anonymous_bytes / 1024,
                 mapping->swap_bytes / 1024);
    if (mapping->device || mapping->huge)
        hx_text_putf(text, "VmFlags:%s%s\n", mapping->device ? " io" : "",
                     mapping->huge ? " ht" : "");
}

/* --- maps and pages ---------------------------------------------------------------------- */

struct counting {
    int pagemap, maps; /* descriptors */
    bool by_entries, hugetlb;
    uint64_t bytes; /* that 8 bytes a page were read of */
    struct hx_lock_use lock;
    uint64_t present, of_files, swapped;
};

static bool count_pages(void *context, uint64_t start, uint64_t end, uint64_t categories)
{
    struct counting *counting = context;
    uint64_t *there = categories & HX_PAGE_PRESENT ? &counting->present : &counting->swapped;
    *there += end - start;
    if (categories & HX_PAGE_PRESENT && categories & HX_PAGE_FILE)
        counting->of_files += end - start;
    return true;
}

/* False: the kernel does not tell. */
static bool count_mapping(struct counting *counting, uint64_t start, uint64_t end)
{
    const struct hx_page_scan how = {.none = HX_PAGE_ZERO | HX_PAGE_GUARD,
                                     .any = HX_PAGE_PRESENT | HX_PAGE_SWAPPED,
                                     .told = HX_PAGE_PRESENT | HX_PAGE_FILE,
                                     .max_pages = piece_pages,
                                     .lock = &counting->lock};
    counting->present = counting->of_files = counting->swapped = 0;
    for (uint64_t at = start, to; at < end && !counting->by_entries; at = to) {
        to = end - at < piece_bytes ? end : at + piece_bytes;
        int done = hx_pagemap_each(counting->pagemap, at, to, &how, count_pages, counting);
        counting->by_entries = done < 0 && at == start;
        if (done != 1 && !counting->by_entries)
            return false;
    }
    if (!counting->by_entries)
        return true;
    counting->bytes += end - start;
    return counting->bytes <= entries_bytes &&
           hx_pagemap_entries(counting->pagemap, start, end, &how, count_pages, counting);
}

static bool asks_page_size(const struct counting *counting, struct hx_mapping *mapping)
{
    struct map_query query = {.size = sizeof query, .addr = mapping->start};
    if (ioctl(counting->maps, QUERY_CALL, &query) != 0)
        return errno == ENOENT; /* gone meanwhile */
    mapping->huge = query.page_size > PAGE;
    return true;
}

static bool take_figures(struct counting *counting, struct hx_mapping *mapping)
{
    const uint64_t kernel = (uint64_t)1 << 63; /* [vsyscall] lies beyond */
    if (mapping->start >= kernel)
        return true;
    if (counting->hugetlb && mapping->inode && !asks_page_size(counting, mapping))
        return false;
    if (mapping->huge)
        return true;
    if (!count_mapping(counting, mapping->start, mapping->end))
        return false;
    mapping->rss_bytes = counting->present;
    if (mapping->prot & HX_PROT_SHARED)
        return true;
    mapping->anonymous_bytes = counting->present - counting->of_files;
    mapping->swap_bytes = counting->swapped;
    return true;
}

/* Each line of maps with its figures. */
static hx_error *count_all(struct counting *counting, const char *maps, struct hx_text *text,
                           bool *ret_done)
{
    HX_FREE char *path = malloc(strlen(maps) + 1);
    HX_NEED(path);
    for (const char *line = maps; *line;) {
        size_t len = strcspn(line, "\n");
        char *paths = path;
        struct hx_mapping mapping;
        if (!hx_proc_mapping(line, len, &paths, &mapping) || !take_figures(counting, &mapping))
            return NULL;
        hx_figures_put(text, line, len, &mapping);
        line += len + (line[len] == '\n');
    }
    HX_NEED(!text->failed);
    *ret_done = true;
    return NULL;
}

static int open_of(pid_t pid, const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
    return open(path, O_RDONLY | O_CLOEXEC);
}

static hx_error *count(pid_t pid, bool by_entries, bool hugetlb, struct hx_figures *ret,
                       bool *ret_done)
{
    HX_FD int pagemap = open_of(pid, "pagemap");
    HX_FD int query = open_of(pid, "maps");
    HX_FREE char *maps = hx_proc_text("/proc/%d/maps", pid);
    HX_CLEANUP(hx_text_free) struct hx_text text = {0};
    struct counting counting = {
        .pagemap = pagemap, .maps = query, .by_entries = by_entries, .hugetlb = hugetlb};
    *ret_done = false;
    if (pagemap < 0 || !maps)
        return NULL;
    HX_TRY(count_all(&counting, maps, &text, ret_done));
    if (!*ret_done)
        return NULL;
    *ret = (struct hx_figures){text.s, text.n, counting.lock.longest_ns};
    text.s = NULL;
    return NULL;
}

hx_error *hx_figures_count(pid_t pid, bool by_entries, struct hx_figures *ret, bool *ret_done)
{
    HX_FREE char *status = hx_proc_text("/proc/%d/status", pid);
    return count(pid, by_entries, status_bytes(status, "HugetlbPages") != 0, ret, ret_done);
}

hx_error *hx_figures_read(pid_t pid, uint64_t max_held_ns, struct hx_figures *ret)
{
    HX_FREE char *status = hx_proc_text("/proc/%d/status", pid);
    uint64_t held =
        (status_bytes(status, "VmRSS") + status_bytes(status, "VmSwap")) / PAGE * NS_PAGE;
    bool done = false;
    if (held > (max_held_ns && max_held_ns < usual_held_ns ? max_held_ns : usual_held_ns))
        HX_TRY(hx_figures_count(pid, false, ret, &done));
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/smaps", pid);
    return done ? NULL : hx_proc_read_timed(path, &ret->text, &ret->len, &ret->held_ns);
}

hx_error *hx_figures_mappings(pid_t pid, struct hx_mapping **ret, size_t *ret_n)
{
    struct hx_figures figures = {0};
    HX_TRY(hx_figures_read(pid, 0, &figures));
    hx_error *err = hx_proc_mappings(figures.text, figures.len, ret, ret_n);
    free(figures.text);
    return err;
}
