/* live_image.h - reading a running target without changing what it has in memory.
 *
 * A page of a file that the target has not in memory would be brought in by reading it there: its
 * Rss would grow for good, at no use to it. The file has the same bytes.
 */
#ifndef HX_ATTACH_LIVE_IMAGE_H
#define HX_ATTACH_LIVE_IMAGE_H

#include "attach/stop/agent.h"
#include "sym/module.h"

struct hx_live_memory {
    pid_t pid;              /* the thread that stands for it */
    struct hx_agent *agent; /* reads; NULL: this process does, and nothing that no file has and the
                               target has not in memory */
    hx_modules *modules;    /* whose files are read; NULL: none */
    /* where no file is behind it, absent memory is zeros; NULL: not known */
    const struct hx_mapping *mapping;
    size_t n_mappings;
    int pagemap; /* hx_pagemap_open() for many reads; 0: opened for each */
};

/* As struct hx_peek has it, with a struct hx_live_memory for the context. False when a byte cannot
 * be read. */
bool hx_live_memory_read(void *live, uint64_t addr, void *dst, size_t len);

#endif
