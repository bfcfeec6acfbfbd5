/* live_image.c - which bytes come from the process, and which from the file. */
#include "attach/live_image.h"

#include "attach/stop/pagemap.h"
#include "base/cleanup.h"

#include <string.h>
#include <sys/uio.h>

enum { PAGE = 4096, PAGES = HX_AGENT_READ_MAX / PAGE + 1 };

/* Pages from `start` on. */
struct pages {
    uint64_t start;
    bool there[PAGES]; /* in memory, or swapped: the process's own */
};

static bool mark_present_pages(void *context, uint64_t start, uint64_t end, bool swapped)
{
    (void)swapped;
    struct pages *pages = context;
    for (uint64_t at = start; at < end && (at - pages->start) / PAGE < PAGES; at += PAGE)
        pages->there[(at - pages->start) / PAGE] = true;
    return true;
}

/* Where the kernel does not tell, all of them are there. */
static void find_pages(const struct hx_live_memory *live, uint64_t addr, size_t len,
                       struct pages *ret)
{
    HX_FD int opened = live->pagemap ? -1 : hx_pagemap_open(live->pid);
    const int fd = live->pagemap ? live->pagemap : opened;
    uint64_t end = (addr + len + PAGE - 1) / PAGE * PAGE;
    *ret = (struct pages){.start = addr / PAGE * PAGE};
    struct hx_lock_use lock = {0};
    if (!hx_pagemap_runs(fd, ret->start, end, false, &lock, mark_present_pages, ret))
        memset(ret->there, true, sizeof ret->there);
}

static bool read_memory(const struct hx_live_memory *live, uint64_t addr, void *dst, size_t len)
{
    if (live->agent)
        return hx_agent_read(live->agent, addr, dst, len);
    struct iovec local = {dst, len}, remote = {(void *)(uintptr_t)addr, len};
    struct hx_lock_use lock = {0};
    return hx_lock_readv(&lock, live->pid, &local, 1, &remote, 1) == (ssize_t)len;
}

/* How many of the bytes at addr lie in memory that no file is behind. Where nobody has touched it,
 * reading it in the target would give it a page of zeros, for good. */
static size_t anonymous_bytes(const struct hx_live_memory *live, uint64_t addr, size_t len)
{
    size_t i =
        live->mapping ? hx_mapping_find(live->mapping, live->n_mappings, addr) : live->n_mappings;
    if (i == live->n_mappings || live->mapping[i].inode)
        return 0;
    return live->mapping[i].end - addr < len ? live->mapping[i].end - addr : len;
}

/* The bytes of pages that are not there; what no file has is left to the agent. */
static bool read_absent(const struct hx_live_memory *live, uint64_t addr, char *dst, size_t len)
{
    for (size_t n; len; addr += n, dst += n, len -= n) {
        n = live->modules ? hx_module_read_initial(live->modules, addr, dst, len) : 0;
        if (!n) {
            n = anonymous_bytes(live, addr, len);
            memset(dst, 0, n);
        }
        if (!n)
            return live->agent && hx_agent_read(live->agent, addr, dst, len);
    }
    return true;
}

static bool read_part(const struct hx_live_memory *live, uint64_t addr, char *dst, size_t len)
{
    struct pages pages;
    find_pages(live, addr, len, &pages);
    for (size_t n; len; addr += n, dst += n, len -= n) {
        size_t i = (addr - pages.start) / PAGE, k = i + 1;
        while (k < PAGES && pages.there[k] == pages.there[i])
            k++;
        uint64_t end = pages.start + k * PAGE;
        n = end - addr < len ? end - addr : len;
        if (!(pages.there[i] ? read_memory(live, addr, dst, n) : read_absent(live, addr, dst, n)))
            return false;
    }
    return true;
}

bool hx_live_memory_read(void *context, uint64_t addr, void *dst, size_t len)
{
    const struct hx_live_memory *live = context;
    for (size_t done = 0; done < len;) {
        size_t part = len - done < HX_AGENT_READ_MAX ? len - done : HX_AGENT_READ_MAX;
        if (!read_part(live, addr + done, (char *)dst + done, part))
            return false;
        done += part;
    }
    return true;
}
