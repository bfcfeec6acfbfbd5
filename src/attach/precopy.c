/* precopy.c - rounds of copying beside a running target, and what is left for its stop. */
#include "attach/precopy.h"

#include "attach/ranges.h"
#include "attach/stop/pagemap.h"
#include "attach/track/hot.h"
#include "base/cleanup.h"
#include "base/lower_bound.h"
#include "base/proc.h"
#include "base/progress.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif

enum {
    PAGE = 4096,
    ROUNDS_MAX = 6,
    PROMISED_ROUNDS_MAX = 30, /* where the stop may take no longer than was promised */
    FEW_PAGES = 256,          /* what the stop may find written */
    NS_PAGE = 2000,           /* what a page costs in the stop, at most */
    COLLAPSE_TRIES = 5,
    LOOKS_MAX = 1000, /* times that a tracker may not know a part of a range */
};

/* Less is copied in the stop: a mapping that is tracked costs some calls. */
static const uint64_t least_bytes = 512 << 10, least_part = 128 << 10, huge_bytes = 2 << 20;
static const uint64_t reserve_bytes = 16 << 20, watched_bytes = 16 << 20,
                      arena_bytes = 64 << 20 /* HEAP_MAX_SIZE */;

/* --- the stop ------------------------------------------------------------------------------ */

struct looking {
    struct hx_copied *copied;
    int pagemap;
    uint64_t at; /* up to which all is told */
    hx_page_runs *runs;
    bool failed;
};

/* What is known of [at, end) is there. */
static bool tell_known(struct looking *looking, uint64_t end)
{
    const struct hx_copied *copied = looking->copied;
    size_t i = HX_LOWER_BOUND(copied->known.n, k, copied->known.v[k].end <= looking->at);
    for (; i < copied->known.n && copied->known.v[i].start < end; i++) {
        const struct hx_piece *known = &copied->known.v[i];
        uint64_t from = known->start > looking->at ? known->start : looking->at;
        uint64_t to = known->end < end ? known->end : end;
        if (!hx_vec_push(looking->runs, (struct hx_page_run){.start = from, .end = to}))
            return false;
    }
    looking->at = end;
    return true;
}

/* A range that was written, or whose pages are gone, or were never there. */
static bool look_at_range(void *context, uint64_t start, uint64_t end, uint64_t categories)
{
    (void)categories;
    struct looking *looking = context;
    if (!tell_known(looking, start) || !hx_ranges_add(&looking->copied->changed, start, end))
        looking->failed = true;
    if (looking->failed ||
        hx_pagemap_scan(looking->pagemap, start, end, false, looking->runs, &looking->failed) < end)
        return false;
    looking->at = end;
    return true;
}

/* Pages that are there, of which the tracker knows all. */
static bool take_pages(void *context, uint64_t start, uint64_t end, uint64_t categories)
{
    struct looking *looking = context;
    bool swapped = !(categories & HX_PAGE_PRESENT);
    looking->failed =
        !hx_vec_push(looking->runs,
                     (struct hx_page_run){.start = start, .end = end, .swapped = swapped}) ||
        (categories & HX_PAGE_WRITTEN && !hx_ranges_add(&looking->copied->changed, start, end));
    return !looking->failed;
}

/* Up to `end`. False: the tracker does not know all of that. */
static bool look_at_part(struct hx_precopy *pre, struct looking *looking, uint64_t end)
{
    const uint64_t at = looking->at;
    const size_t n_runs = looking->runs->n;
    const bool tells_all = pre->tracker->tells_all;
    if (pre->tracker->written(&pre->track, at, end, tells_all ? take_pages : look_at_range,
                              looking) &&
        (tells_all || tell_known(looking, end))) {
        looking->at = end;
        return true;
    }
    looking->at = at;
    looking->runs->n = n_runs;
    return false;
}

/* What has been mapped anew in the range is not tracked: halves of it are tried, and halves of
 * these.
 */
static uint64_t look(struct hx_copied *copied, int pagemap, uint64_t start, uint64_t end,
                     hx_page_runs *runs, bool *ret_failed)
{
    struct hx_precopy *pre = (struct hx_precopy *)copied;
    struct looking looking = {.copied = copied, .pagemap = pagemap, .at = start, .runs = runs};
    uint64_t part = pagemap >= 0 ? end - start : 0;
    for (int refused = 0; part && looking.at < end && !looking.failed;) {
        const uint64_t at = looking.at, to = end - at < part ? end : at + part;
        if (look_at_part(pre, &looking, to)) {
            part *= 2;
        } else if (to - at > least_part && ++refused < LOOKS_MAX) {
            part = (to - at) / 2 / PAGE * PAGE;
        } else if (!looking.failed) { /* as if nobody had tracked it */
            const uint64_t rest = refused < LOOKS_MAX ? to : end;
            looking.failed |= !hx_ranges_add(&copied->changed, at, rest);
            looking.at = hx_pagemap_scan(pagemap, at, rest, false, runs, &looking.failed);
            part = looking.at < rest ? 0 : part;
        }
    }
    *ret_failed |= looking.failed;
    return looking.at;
}

/* --- stops before that of the snapshot ------------------------------------------------------ */

struct short_stop {
    struct hx_precopy *pre;
    hx_error *(*act)(struct short_stop *stop); /* what is done while all threads stand still */
    void *context;
    struct hx_tracer tracer;
    pid_t tid; /* of the thread that makes it */
    hx_error *err;
};

static hx_error *stop_and_act(struct short_stop *stop)
{
    HX_TRY(hx_tracer_seize(&stop->tracer));
    HX_TRY(hx_tracer_stop(&stop->tracer));
    return stop->act(stop);
}

static void *make_short_stop(void *argument)
{
    struct short_stop *stop = argument;
    struct hx_urgent urgent;
    stop->tid = gettid();
    /* for the stop alone: the rounds may wait for the target */
    hx_urgent_begin(&urgent);
    stop->err = stop_and_act(stop);
    hx_tracer_release(&stop->tracer);
    if (!stop->tracer.ending)
        hx_urgent_end(&urgent);
    return NULL;
}

/* On a thread of its own: with its end the kernel lets go of what did not stand still, which would
 * be traced until the rounds are over. */
static hx_error *stop_shortly(struct short_stop *stop, struct hx_tracer *tracer)
{
    pthread_t thread;
    stop->tracer = *tracer;
    stop->tracer.ending = true;
    if (pthread_create(&thread, NULL, make_short_stop, stop) == 0) {
        pthread_join(thread, NULL);
        while (syscall(SYS_tgkill, getpid(), stop->tid, 0) == 0) /* joined before it has ended */
            sched_yield();
    } else {
        stop->tracer.ending = false;
        make_short_stop(stop);
    }
    const struct hx_tracer *done = &stop->tracer;
    const uint64_t took = done->stopped_at_ns ? done->released_at_ns - done->stopped_at_ns : 0;
    if (took > stop->pre->short_stop_ns)
        stop->pre->short_stop_ns = took;
    tracer->short_calls = done->short_calls; /* to go on from there */
    hx_tracer_deinit(&stop->tracer);
    return hx_steal(stop->err);
}

/* --- rounds ------------------------------------------------------------------------------- */

struct round {
    struct hx_precopy *pre;
    struct hx_copy *copy;
    hx_pieces pieces; /* to be read */
    bool is_first, failed;
    uint64_t pages;
};

static bool note_pages(void *context, uint64_t start, uint64_t end, uint64_t categories)
{
    struct round *round = context;
    round->pages += (end - start) / PAGE;
    if (categories & HX_PAGE_HUGE && !hx_ranges_add(&round->pre->huge, start, end))
        round->failed = true;
    if (!(categories & HX_PAGE_PRESENT) && !hx_ranges_add(&round->copy->swapped, start, end))
        round->failed = true;
    for (uint64_t to, offset; start < end && !round->failed; start = to) {
        bool is_known;
        to = hx_copy_place(round->copy, &round->pre->copied, start, end, &offset, &is_known);
        if (!hx_vec_push(&round->pieces, (struct hx_piece){start, to, offset}))
            round->failed = true;
    }
    return !round->failed;
}

static int by_start(const void *a, const void *b)
{
    const struct hx_piece *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

/* What was read joins what is known. */
static hx_error *keep_pieces(struct hx_copied *copied, const struct hx_piece *piece,
                             size_t n_pieces)
{
    size_t n = 0, old = copied->known.n;
    for (size_t i = 0; i < n_pieces; i++) {
        size_t at = HX_LOWER_BOUND(old, k, copied->known.v[k].end <= piece[i].start);
        if (at == old || copied->known.v[at].start > piece[i].start) /* else in its old place */
            HX_NEED(hx_vec_push(&copied->known, piece[i]));
    }
    if (copied->known.n)
        qsort(copied->known.v, copied->known.n, sizeof *copied->known.v, by_start);
    for (size_t i = 0; i < copied->known.n; i++) {
        struct hx_piece *last = n ? &copied->known.v[n - 1] : NULL, next = copied->known.v[i];
        if (last && last->end == next.start &&
            last->offset + (last->end - last->start) == next.offset)
            last->end = next.end;
        else
            copied->known.v[n++] = next;
    }
    copied->known.n = n;
    return NULL;
}

static hx_error *see_pages(struct hx_precopy *pre, bool again, hx_track_each *each, void *context,
                           const bool *failed, const struct hx_tracer *tracer)
{
    for (size_t i = 0; i < pre->track.ranges.n; i++) {
        const struct hx_range *range = &pre->track.ranges.v[i];
        pre->tracker->protect(&pre->track, range->start, range->end, again, each, context);
        HX_NEED(!*failed);
        HX_TRY(hx_tracer_pressed(tracer));
    }
    return NULL;
}

/* Another stop has to take less than what it saves that of the snapshot. */
static hx_error *pays_to_renew(struct hx_precopy *pre, const struct hx_tracer *tracer, bool *ret)
{
    uint64_t pages = 0;
    HX_TRY(see_pages(pre, true, hx_track_count, &pages, &(bool){false}, tracer));
    *ret = pages > FEW_PAGES && pages * NS_PAGE > 2 * pre->track.renewal_ns;
    return NULL;
}

static hx_error *renew_stopped(struct short_stop *stop)
{
    struct round *round = stop->context;
    HX_TRY(see_pages(stop->pre, true, note_pages, round, &round->failed, &stop->tracer));
    stop->pre->tracker->renew(&stop->pre->track); /* where it fails they were written still */
    return NULL;
}

/* Protects and copies what is there, or was written since. A range that the tracker loses is left
 * to the stop. */
static hx_error *run_round(struct round *round, struct hx_tracer *tracer)
{
    struct hx_precopy *pre = round->pre;
    struct hx_copy *copy = round->copy;
    bool pays = true;
    if (round->is_first || !pre->tracker->renew) {
        HX_TRY(see_pages(pre, !round->is_first, note_pages, round, &round->failed, tracer));
    } else {
        struct short_stop stop = {.pre = pre, .act = renew_stopped, .context = round};
        HX_TRY(pays_to_renew(pre, tracer, &pays));
        if (!pays)
            return NULL;
        HX_TRY(stop_shortly(&stop, tracer));
    }
    HX_TRY(hx_copy_make_room(copy));
    HX_TRY(hx_copy_read(copy, round->pieces.v, round->pieces.n, true, tracer));
    return keep_pieces(&pre->copied, round->pieces.v, round->pieces.n);
}

static bool is_worth_tracking(const struct hx_mapping *mapping)
{
    bool own_only;
    return hx_copy_takes(mapping, &own_only) && !mapping->inode && !mapping->device &&
           !mapping->huge && !(mapping->prot & HX_PROT_SHARED) &&
           strcmp(mapping->path, "[stack]") != 0 && mapping->rss_bytes >= least_bytes;
}

/* Does it pay to copy once more? Where it does not: would a stop as long as the first, and what is
 * left, take longer than was promised? */
static bool wants_round(const struct hx_precopy *pre, int rounds, uint64_t pages, uint64_t before)
{
    const uint64_t promised = pre->track.max_held_ns;
    bool pays = pages > FEW_PAGES && pages <= before - before / 4 && rounds < ROUNDS_MAX;
    return pays || (promised && pre->short_stop_ns + pages * NS_PAGE > promised &&
                    rounds < PROMISED_ROUNDS_MAX);
}

static hx_error *run_rounds(struct hx_precopy *pre, struct hx_copy *copy, struct hx_tracer *tracer)
{
    uint64_t before, pages = UINT64_MAX;
    int rounds = 0;
    do {
        struct round round = {.pre = pre, .copy = copy, .is_first = rounds == 0};
        hx_error *err = run_round(&round, tracer);
        hx_vec_free(&round.pieces);
        HX_TRY(err);
        before = pages;
        pages = round.pages;
        rounds++;
    } while (wants_round(pre, rounds, pages, before));
    return NULL;
}

/* By brk(), or at the cost of what is reserved behind it: that is large, or of an arena of glibc.
 * What is small may be the place that another mapping is about to be moved to. */
static bool grows_at_its_end(const struct hx_mapping *mapping, const struct hx_mapping *next)
{
    if (strcmp(mapping->path, "[heap]") == 0)
        return true;
    return next && next->start == mapping->end && !next->inode &&
           !(next->prot & (HX_PROT_R | HX_PROT_W | HX_PROT_X)) &&
           (next->end - next->start >= reserve_bytes ||
            (mapping->start % arena_bytes == 0 && next->end % arena_bytes == 0));
}

/* Whole mappings: tracking a part of one would cut it in two, and mremap() of both fails. But for
 * the last page of those that grow, which nobody moves: what comes behind a tracked page would be a
 * mapping of its own for ever. */
static void track_mappings(struct hx_precopy *pre, const struct hx_mapping *mapping, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t hot = HX_LOWER_BOUND(pre->hot.n, k, pre->hot.v[k].end <= mapping[i].start);
        if (hot < pre->hot.n && pre->hot.v[hot].start < mapping[i].end) {
            pre->hot_bytes += mapping[i].end - mapping[i].start;
            continue;
        }
        const bool grows = grows_at_its_end(&mapping[i], i + 1 < n ? &mapping[i + 1] : NULL);
        if (is_worth_tracking(&mapping[i]))
            pre->tracker->add(&pre->track, mapping[i].start, mapping[i].end - (grows ? PAGE : 0));
    }
}

static hx_error *copy_beside(struct hx_precopy *pre, struct hx_copy *copy, struct hx_tracer *tracer,
                             const struct hx_mapping *mapping, size_t n)
{
    HX_TRY(run_rounds(pre, copy, tracer));
    hx_ranges_join(&pre->huge);
    for (size_t i = 0; i < pre->track.ranges.n; i++)
        HX_NEED(hx_vec_push(&pre->copied.tracked, pre->track.ranges.v[i]));
    /* what went away while it was read may be there again */
    for (size_t i = 0; i < copy->lost.n; i++)
        HX_NEED(hx_vec_push(&pre->copied.changed, copy->lost.v[i]));
    copy->lost.n = 0;
    pre->copied.look = look;
    return hx_copy_use(copy, &pre->copied, mapping, n);
}

/* Writes of the kernel into pinned pages leave no trace. */
static bool has_pinned(pid_t pid)
{
    HX_FREE char *status = hx_proc_text("/proc/%d/status", pid);
    const char *pinned = status ? hx_proc_field(status, "VmPin") : NULL;
    return !pinned || strtoull(pinned, NULL, 10) != 0;
}

typedef bool file_test(pid_t pid, const char *number, const char *link);

static bool has_file(pid_t pid, file_test *test)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    HX_DIR DIR *folder = opendir(path);
    bool found = false;
    for (const struct dirent *entry; folder && !found && (entry = readdir(folder));) {
        char link[32] = "";
        found = readlinkat(dirfd(folder), entry->d_name, link, sizeof link - 1) > 0 &&
                test(pid, entry->d_name, link);
    }
    return found;
}

/* Whoever has the descriptor may have ranges, or make some at any time. */
static bool is_userfaultfd(pid_t pid, const char *number, const char *link)
{
    (void)pid, (void)number;
    return strcmp(link, "anon_inode:[userfaultfd]") == 0;
}

/* Devices write what is read from it, behind the back of whoever tracks pages. */
static bool is_direct(pid_t pid, const char *number, const char *link)
{
    HX_FREE char *about = link[0] == '/' ? hx_proc_text("/proc/%d/fdinfo/%s", pid, number) : NULL;
    const char *flags = about ? hx_proc_field(about, "flags") : NULL;
    return flags && strtoull(flags, NULL, 8) & O_DIRECT;
}

/* What neither tracker sees. */
static const char *why_unseen(pid_t pid, const struct hx_mapping *mapping, size_t n)
{
    bool userfault = has_file(pid, is_userfaultfd);
    for (size_t i = 0; i < n; i++)
        userfault |= mapping[i].userfault;
    if (userfault)
        return "it handles page faults itself (userfaultfd)";
    return has_pinned(pid) ? "the kernel writes into memory of it (VmPin)" : NULL;
}

/* From the best to the last. */
static const struct hx_tracker *const trackers[] = {&hx_track_wp, &hx_track_soft};
enum { TRACKERS = sizeof trackers / sizeof *trackers };

static void add_reason(char why[HX_UFFD_WHY], const char *reason)
{
    size_t n = strlen(why);
    snprintf(why + n, HX_UFFD_WHY - n, "%s%s", n ? "; " : "", reason);
}

/* Looks at the process; a tracker behind those that were tried, or NULL, and why it was none of
 * those before. */
static const struct hx_tracker *choose_tracker(struct hx_track *track, size_t *tried,
                                               const struct hx_mapping *mapping, size_t n,
                                               char why[HX_UFFD_WHY])
{
    const char *unseen = *tried ? NULL : why_unseen(track->pid, mapping, n);
    if (unseen)
        add_reason(why, unseen);
    while (!unseen && *tried < TRACKERS) {
        const struct hx_tracker *tracker = trackers[(*tried)++];
        struct hx_track fresh = hx_track_none(track->pid);
        char reason[HX_UFFD_WHY];
        fresh.max_held_ns = track->max_held_ns;
        hx_track_deinit(track);
        *track = fresh;
        if (tracker->prepare(track, mapping, n, reason))
            return tracker;
        add_reason(why, reason);
    }
    return NULL;
}

bool hx_precopy_possible(pid_t pid, const struct hx_mapping *mapping, size_t n,
                         char why[HX_UFFD_WHY])
{
    struct hx_track track = hx_track_none(pid);
    size_t tried = 0;
    why[0] = '\0';
    bool possible = choose_tracker(&track, &tried, mapping, n, why);
    hx_track_deinit(&track);
    return possible;
}

struct beginning {
    struct hx_stop_maps *maps;
    bool begun;
    char reason[HX_UFFD_WHY]; /* of what has not begun */
};

static hx_error *begin_stopped(struct short_stop *stop)
{
    struct beginning *beginning = stop->context;
    struct hx_precopy *pre = stop->pre;
    beginning->begun = pre->tracker->begin(&pre->track, &stop->tracer, beginning->reason);
    if (!beginning->begun)
        return NULL;
    struct hx_stop_maps *maps = beginning->maps;
    HX_TRY(hx_stop_maps_read(pre->track.pid, maps));
    track_mappings(pre, maps->now, maps->n);
    return NULL;
}

/* Not where the stop is to be as short as was promised. */
static hx_error *find_hot_mappings(struct hx_precopy *pre, const struct hx_mapping *mapping,
                                   size_t n)
{
    hx_ranges large = {0};
    bool failed = false;
    if (!pre->where_it_pays || pre->track.max_held_ns)
        return NULL;
    for (size_t i = 0; i < n && !failed; i++)
        if (is_worth_tracking(&mapping[i]) && mapping[i].end - mapping[i].start >= watched_bytes)
            failed = !hx_ranges_add(&large, mapping[i].start, mapping[i].end);
    pre->hot.n = 0;
    hx_error *err = failed ? hx_error_nomem()
                           : hx_hot_ranges(pre->track.pid, pre->track.pagemap, &large, &pre->hot);
    hx_vec_free(&large);
    return err;
}

static hx_error *start_tracker(struct hx_precopy *pre, struct hx_tracer *tracer,
                               struct hx_stop_maps *maps, bool *ret_begun)
{
    struct beginning beginning = {.maps = maps};
    struct short_stop stop = {.pre = pre, .act = begin_stopped, .context = &beginning};
    if (pre->tracker->begins_stopped) {
        HX_TRY(find_hot_mappings(pre, maps->before, maps->n_before));
        HX_TRY(stop_shortly(&stop, tracer));
    } else if ((beginning.begun = pre->tracker->begin(&pre->track, tracer, beginning.reason)))
        track_mappings(pre, maps->before, maps->n_before);
    *ret_begun = beginning.begun;
    if (!beginning.begun)
        add_reason(pre->why, beginning.reason);
    return NULL;
}

hx_error *hx_precopy_begin(struct hx_precopy *pre, struct hx_copy *copy, struct hx_tracer *tracer,
                           struct hx_stop_maps *maps)
{
    const struct hx_mapping *mapping = maps->before;
    const size_t n = maps->n_before;
    size_t tried = 0;
    bool begun = false;
    pre->begun_ns = hx_now_ns();
    pre->track = hx_track_none(copy->pid);
    pre->track.max_held_ns = tracer->deadline_ns;
    while (!begun && (pre->tracker = choose_tracker(&pre->track, &tried, mapping, n, pre->why)))
        HX_TRY(start_tracker(pre, tracer, maps, &begun));
    if (!begun)
        return NULL;
    hx_error *err = pre->tracker->begins_stopped
                        ? copy_beside(pre, copy, tracer, maps->now, maps->n)
                        : copy_beside(pre, copy, tracer, mapping, n);
    pre->may_be_stale = has_pinned(pre->track.pid) || has_file(pre->track.pid, is_direct);
    pre->prepare_ns = hx_now_ns() - pre->begun_ns;
    return err;
}

/* --- behind it ----------------------------------------------------------------------------- */

/* Once more where somebody else had one of its pages in hand, as the kernel itself does at times.
 */
static void collapse_one(struct hx_precopy *pre, const struct iovec *range)
{
    const struct timespec nap = {.tv_nsec = 1000000};
    for (int tries = 0, failed = EAGAIN; failed == EAGAIN && tries < COLLAPSE_TRIES; tries++) {
        if (tries > 0)
            nanosleep(&nap, NULL);
        const uint64_t since = hx_lock_begin(&pre->track.lock);
        failed = syscall(SYS_process_madvise, pre->track.way.pidfd, range, 1, MADV_COLLAPSE, 0) < 0
                     ? errno
                     : 0;
        hx_lock_used(&pre->track.lock, since);
    }
}

/* A huge page that was written has been split. One at a time, because the target waits for each;
 * and only where all of it is there still, because the kernel fills up what the target has given
 * back. */
static void collapse(struct hx_precopy *pre)
{
    const struct hx_page_scan split = {
        .none = HX_PAGE_HUGE | HX_PAGE_ZERO, .all = HX_PAGE_PRESENT, .told = HX_PAGE_PRESENT};
    for (size_t i = 0; i < pre->huge.n; i++)
        for (uint64_t at = pre->huge.v[i].start; at + huge_bytes <= pre->huge.v[i].end;
             at += huge_bytes) {
            uint64_t pages = 0;
            struct iovec range = {(void *)(uintptr_t)at, huge_bytes};
            hx_pagemap_each(pre->track.pagemap, at, at + huge_bytes, &split, hx_track_count,
                            &pages);
            if (pages * PAGE != huge_bytes)
                continue;
            collapse_one(pre, &range);
        }
}

void hx_precopy_end(struct hx_precopy *pre)
{
    if (pre->tracker) {
        pre->tracker->end(&pre->track);
        collapse(pre);
    }
    if (pre->begun_ns)
        hx_track_deinit(&pre->track);
    hx_vec_free(&pre->copied.known);
    hx_vec_free(&pre->copied.tracked);
    hx_vec_free(&pre->copied.changed);
    hx_vec_free(&pre->huge);
    hx_vec_free(&pre->hot);
}
