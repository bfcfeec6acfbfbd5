/* track.c - what the trackers share. */
#include "attach/track/track.h"

#include "attach/stop/pagemap.h"
#include "base/progress.h"

#include <stdlib.h>
#include <unistd.h>

struct hx_track hx_track_none(pid_t pid)
{
    return (struct hx_track){
        .pid = pid, .pagemap = -1, .uffd = -1, .clear_refs = -1, .way.pidfd = -1};
}

bool hx_track_count(void *context, uint64_t start, uint64_t end, uint64_t categories)
{
    (void)categories;
    *(uint64_t *)context += (end - start) / 4096;
    return true;
}

static bool nothing(void *context, uint64_t start, uint64_t end, uint64_t categories)
{
    (void)context, (void)start, (void)end, (void)categories;
    return true;
}

bool hx_track_open(struct hx_track *track, const struct hx_mapping *mapping, size_t n)
{
    track->pagemap = hx_pagemap_open(track->pid);
    const struct hx_page_scan present = {.all = HX_PAGE_PRESENT, .told = HX_PAGE_PRESENT};
    track->scans = track->pagemap >= 0 && n &&
                   hx_pagemap_each(track->pagemap, mapping[0].start, mapping[0].start + 4096,
                                   &present, nothing, NULL) >= 0;
    return track->pagemap >= 0;
}

void hx_track_deinit(struct hx_track *track)
{
    if (track->uffd >= 0)
        close(track->uffd);
    if (track->clear_refs >= 0)
        close(track->clear_refs);
    if (track->pagemap >= 0)
        close(track->pagemap);
    hx_uffd_deinit(&track->way);
    hx_vec_free(&track->ranges);
    free(track->room.entry);
}
