/* copy.c - copying what can hold heap, roots and stacks, as fast as the memory allows. */
#include "attach/stop/copy.h"

#include "attach/ranges.h"
#include "attach/stop/touch.h"
#include "base/cleanup.h"
#include "base/lower_bound.h"
#include "base/parallel.h"
#include "base/proc.h"
#include "record/own_mappings.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static const uint64_t mib = 1 << 20;
enum { PAGE = 4096, VECTORS = 256 };

/* --- which mappings ------------------------------------------------------------------ */

/* Kernel pages and devices: reading them is useless or has effects. */
static bool is_special(const struct hx_mapping *mapping)
{
    const char *path = mapping->path;
    if (mapping->device || strncmp(path, "[v", 2) == 0) /* [vdso], [vvar], [vsyscall] */
        return true;
    return strncmp(path, "/dev/", 5) == 0 && strncmp(path, "/dev/shm/", 9) != 0 &&
           strcmp(path, "/dev/zero") != 0;
}

/* own_only: file pages that the process never wrote hold no pointer of it. The right to read does
 * not matter: what was written once is there, whatever its owner may do with it now. */
bool hx_copy_takes(const struct hx_mapping *mapping, bool *ret_own_only)
{
    bool shared = mapping->prot & HX_PROT_SHARED;
    *ret_own_only = !shared && mapping->inode != 0;
    if (is_special(mapping) || hx_is_recorder_region(mapping))
        return false;
    if (mapping->prot & HX_PROT_W || hx_mapping_is_memory(mapping))
        return true;
    *ret_own_only = true; /* written once, protected now: RELRO, sealed data */
    return !shared;
}

/* How much there was to read of it. */
static uint64_t present_bytes(const struct hx_mapping *mapping, bool own_only)
{
    return (own_only ? mapping->anonymous_bytes : mapping->rss_bytes) + mapping->swap_bytes;
}

uint64_t hx_copy_bytes(const struct hx_mapping *mapping, size_t n)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        bool own_only;
        if (hx_copy_takes(&mapping[i], &own_only))
            sum += present_bytes(&mapping[i], own_only);
    }
    return sum;
}

/* --- what is scanned in the stop ------------------------------------------------------ */

/* Below it, asking is cheaper than beginning another scan. */
static const uint64_t few_bytes = 1 << 20;

/* Mappings of which a scan would tell nothing that is needed, for much: all their pages are those
 * of a file or not copied. Their figures stay those of before the stop. */
static bool is_left_out(const struct hx_mapping *mapping)
{
    bool own_only, copied = hx_copy_takes(mapping, &own_only);
    if (mapping->rss_bytes < few_bytes)
        return false;
    return !copied || mapping->device ||
           (own_only && !(mapping->prot & HX_PROT_W) && !present_bytes(mapping, own_only));
}

static bool is_private_file(const struct hx_mapping *mapping)
{
    return mapping->inode && !(mapping->prot & HX_PROT_SHARED);
}

/* Up to where the mapping is tracked, from its start on; 0: it is not. */
static uint64_t tracked_end(const struct hx_copied *copied, const struct hx_mapping *mapping,
                            size_t *cursor)
{
    if (!copied)
        return 0;
    while (*cursor < copied->tracked.n && copied->tracked.v[*cursor].end <= mapping->start)
        ++*cursor;
    if (*cursor == copied->tracked.n || copied->tracked.v[*cursor].start > mapping->start)
        return 0;
    const uint64_t end = copied->tracked.v[*cursor].end;
    return end < mapping->end ? end : mapping->end;
}

/* All there is up to the end of the last mapping, but for those that are left out; with as few
 * turns as possible between what has to be asked for pages of files, which costs more, and the
 * rest. */
static hx_error *choose_scans(struct hx_copy *copy, const struct hx_mapping *mapping, size_t n)
{
    size_t tracked = 0;
    const uint64_t kernel = (uint64_t)1 << 63; /* [vsyscall] lies beyond */
    uint64_t done = 0;
    copy->scans.n = 0;
    for (size_t i = 0; i < n && mapping[i].start < kernel; done = mapping[i++].end) {
        const uint64_t part = tracked_end(copy->copied, &mapping[i], &tracked);
        if (part) {
            const struct hx_copy_scan parts[] = {
                {.start = done, .end = mapping[i].start}, /* where new ones may come */
                {.start = mapping[i].start, .end = part, .tracked = true},
                {.start = part, .end = mapping[i].end},
            };
            for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
                HX_NEED(parts[k].start == parts[k].end || hx_vec_push(&copy->scans, parts[k]));
            continue;
        }
        if (is_left_out(&mapping[i]))
            continue;
        struct hx_copy_scan *last = copy->scans.n ? &copy->scans.v[copy->scans.n - 1] : NULL;
        bool file = is_private_file(&mapping[i]);
        bool goes_on = last && last->end == done && !last->tracked &&
                       (file == last->ask_file || (!file && mapping[i].rss_bytes < few_bytes));
        if (goes_on)
            last->end = mapping[i].end;
        else
            HX_NEED(hx_vec_push(
                &copy->scans,
                (struct hx_copy_scan){.start = done, .end = mapping[i].end, .ask_file = file}));
    }
    HX_NEED(hx_vec_reserve(&copy->runs, n + 4096));
    return NULL;
}

hx_error *hx_copy_scan(struct hx_copy *copy)
{
    bool failed = false;
    copy->pagemap = hx_pagemap_open(copy->pid);
    copy->runs.n = 0;
    for (size_t i = 0; i < copy->scans.n; i++) {
        struct hx_copy_scan *scan = &copy->scans.v[i];
        uint64_t end = scan->start;
        if (scan->tracked)
            end = copy->copied->look(copy->copied, copy->pagemap, scan->start, scan->end,
                                     &copy->runs, &failed);
        else if (copy->pagemap >= 0)
            end = hx_pagemap_scan(copy->pagemap, scan->start, scan->end, scan->ask_file,
                                  &copy->runs, &failed);
        HX_NEED(!failed);
        scan->end = end;
    }
    if (copy->copied)
        hx_ranges_join(&copy->copied->changed);
    return NULL;
}

/* --- memory touched before the stop -------------------------------------------------- */

struct touch {
    const struct hx_tracer *tracer;
    uint8_t *memory;
    uint64_t bytes;
    atomic_uint_fast64_t next;
    atomic_int failed; /* errno; ECANCELED: cancelled */
};

static void touch_slices(void *context, unsigned worker)
{
    (void)worker;
    struct touch *touch = context;
    const uint64_t slice = 4 * mib; /* so often is looked whether there is memory left */
    while (!atomic_load(&touch->failed)) {
        uint64_t at = atomic_fetch_add(&touch->next, slice);
        if (at >= touch->bytes)
            break;
        uint64_t len = touch->bytes - at < slice ? touch->bytes - at : slice;
        hx_error *pressed = hx_tracer_pressed(touch->tracer);
        hx_error_free(pressed);
        if (pressed) {
            atomic_store(&touch->failed, ECANCELED);
            break;
        }
        bool done = madvise(touch->memory + at, len, MADV_POPULATE_WRITE) == 0;
        if (!done && errno != EINVAL) {
            atomic_store(&touch->failed, errno);
            break;
        }
        for (uint64_t i = 0; !done && i < len; i += PAGE) /* Linux before 5.14 */
            *(volatile uint8_t *)(touch->memory + at + i) = 0;
        hx_touch_by_kernel(touch->memory + at, len);
    }
}

static hx_error *map_memory(struct hx_copy *copy, uint64_t room)
{
    if (ftruncate(copy->memory_fd, (off_t)room) != 0)
        return hx_error_os(errno, "copy of the target's memory", "ftruncate");
    void *memory = copy->memory ? mremap(copy->memory, copy->room, room, MREMAP_MAYMOVE)
                                : mmap(NULL, room, PROT_READ | PROT_WRITE,
                                       MAP_SHARED | MAP_NORESERVE, copy->memory_fd, 0);
    if (memory == MAP_FAILED)
        return hx_error_os(errno, "copy of the target's memory", "mmap");
    copy->memory = memory;
    copy->room = room;
    madvise(memory, room, MADV_HUGEPAGE);
    return NULL;
}

/* A little more than there is now, because it may grow until the stop. */
static uint64_t room_for(uint64_t bytes)
{
    return (bytes + bytes / 32 + 8 * mib) / mib * mib;
}

hx_error *hx_copy_make_room(struct hx_copy *copy)
{
    return copy->used > copy->room ? map_memory(copy, copy->used) : NULL;
}

hx_error *hx_copy_use(struct hx_copy *copy, struct hx_copied *copied,
                      const struct hx_mapping *mapping, size_t n)
{
    copy->copied = copied;
    return choose_scans(copy, mapping, n);
}

struct hx_memory_need hx_copy_need(const struct hx_mapping *mapping, size_t n)
{
    uint64_t bytes = hx_copy_bytes(mapping, n);
    struct hx_memory_need need = {.ours = room_for(bytes) + hx_memory_analysis(bytes)};
    for (size_t i = 0; i < n; i++) {
        bool own_only;
        if (hx_copy_takes(&mapping[i], &own_only))
            need.its += mapping[i].swap_bytes;
    }
    return need;
}

hx_error *hx_copy_prepare(struct hx_copy *copy, const struct hx_mapping *mapping, size_t n,
                          const struct hx_tracer *tracer)
{
    uint64_t need = room_for(hx_copy_bytes(mapping, n));
    if (copy->memory_fd < 0)
        copy->memory_fd = memfd_create("heapx copy", MFD_CLOEXEC);
    if (copy->memory_fd < 0)
        return hx_error_os(errno, "copy of the target's memory", "memfd_create");
    HX_TRY(map_memory(copy, need * 2));
    HX_TRY(choose_scans(copy, mapping, n));
    struct touch touch = {.tracer = tracer, .memory = copy->memory, .bytes = need};
    hx_parallel(copy->threads, touch_slices, &touch);
    HX_TRY(hx_tracer_pressed(tracer));
    if (atomic_load(&touch.failed)) {
        char text[HX_HUMAN];
        return hx_error_new(HX_E_LIMIT, "copy of the target's memory",
                            "free some memory, or take the snapshot where there is more",
                            "the kernel does not give %s of memory", hx_human_bytes(need, text));
    }
    return NULL;
}

/* --- which pages --------------------------------------------------------------------- */

struct plan {
    struct hx_copy *copy;
    bool failed;
    uint64_t resident, swapped; /* bytes of all runs */
};

static bool add_piece(hx_pieces *pieces, uint64_t start, uint64_t end, uint64_t offset)
{
    struct hx_piece *last = pieces->n ? &pieces->v[pieces->n - 1] : NULL;
    bool goes_on = last && last->end == start && last->offset + (last->end - last->start) == offset;
    if (goes_on)
        last->end = end;
    return goes_on || hx_vec_push(pieces, (struct hx_piece){start, end, offset});
}

/* The end of the part of [start, end) that begins at start and is in the set or not; *ret_in which.
 */
static uint64_t part_end(const hx_ranges *ranges, uint64_t start, uint64_t end, bool *ret_in)
{
    size_t i = HX_LOWER_BOUND(ranges->n, k, ranges->v[k].end <= start);
    *ret_in = i < ranges->n && ranges->v[i].start <= start;
    uint64_t to = i == ranges->n ? end : *ret_in ? ranges->v[i].end : ranges->v[i].start;
    return to < end ? to : end;
}

uint64_t hx_copy_place(struct hx_copy *copy, const struct hx_copied *copied, uint64_t start,
                       uint64_t end, uint64_t *ret_offset, bool *ret_known)
{
    size_t i = HX_LOWER_BOUND(copied->known.n, k, copied->known.v[k].end <= start);
    const struct hx_piece *next = i < copied->known.n ? &copied->known.v[i] : NULL;
    *ret_known = next && next->start <= start;
    uint64_t to = *ret_known ? next->end : next ? next->start : end;
    to = to < end ? to : end;
    *ret_offset = *ret_known ? next->offset + (start - next->start) : copy->used;
    copy->used += *ret_known ? 0 : to - start;
    return to;
}

/* What was copied before and has not changed is not read. */
static bool add_beside_copied(struct hx_copy *copy, uint64_t start, uint64_t end)
{
    for (uint64_t to, offset; start < end; start = to) {
        bool is_known, changed = true;
        to = hx_copy_place(copy, copy->copied, start, end, &offset, &is_known);
        if (is_known)
            to = part_end(&copy->copied->changed, start, to, &changed);
        if (!add_piece(&copy->pieces, start, to, offset) ||
            (changed && !add_piece(&copy->unread, start, to, offset)))
            return false;
    }
    return true;
}

static bool add_page_run(void *context, uint64_t start, uint64_t end, bool swapped)
{
    struct plan *plan = context;
    struct hx_copy *copy = plan->copy;
    if (copy->copied) {
        plan->failed |= !add_beside_copied(copy, start, end);
    } else {
        plan->failed |= !add_piece(&copy->pieces, start, end, copy->used);
        copy->used += end - start;
    }
    *(swapped ? &plan->swapped : &plan->resident) += end - start;
    if (swapped && !hx_ranges_add(&copy->swapped, start, end))
        plan->failed = true;
    return !plan->failed;
}

/* The mapping as it was before the stop, NULL when it is new or has changed. */
static const struct hx_mapping *same_before(const struct hx_mapping *mapping,
                                            const struct hx_mapping *before, size_t n_before)
{
    size_t i = hx_mapping_find(before, n_before, mapping->start);
    return i < n_before && before[i].start == mapping->start && before[i].end == mapping->end &&
                   before[i].inode == mapping->inode
               ? &before[i]
               : NULL;
}

/* Was the range empty and inaccessible before the stop? Such a part of a reservation changes its
 * bounds whenever some of it is used, and without PAGEMAP_SCAN it would cost the stop 8 bytes a
 * page. */
static bool was_empty(const struct hx_mapping *mapping, const struct hx_mapping *before,
                      size_t n_before)
{
    uint64_t at = mapping->start;
    for (size_t i = hx_mapping_find(before, n_before, at); i < n_before && at < mapping->end; i++) {
        if (before[i].start > at || before[i].inode || before[i].prot & HX_PROT_W ||
            present_bytes(&before[i], false))
            return false;
        at = before[i].end;
    }
    return at >= mapping->end;
}

/* Places in the sorted scans and runs, moved on as mappings come by in order of address. */
struct seen {
    const struct hx_copy *copy;
    const hx_page_runs *runs;
    size_t scan, run;
};

/* Has the scan told of all that is to be known of the mapping's pages? */
static bool was_scanned(struct seen *at, const struct hx_mapping *mapping)
{
    const struct hx_copy_scan *scan = at->copy->scans.v;
    size_t n = at->copy->scans.n;
    bool file = is_private_file(mapping);
    while (at->scan < n && scan[at->scan].end <= mapping->start)
        at->scan++;
    uint64_t done = mapping->start;
    for (size_t i = at->scan; i < n && scan[i].start <= done && done < mapping->end; i++) {
        if (file && !scan[i].ask_file)
            return false;
        done = scan[i].end;
    }
    return done >= mapping->end;
}

/* The figures of a mapping from what was counted in the stop. What the kernel says of huge pages,
 * of its own pages, and of shared memory that is swapped out, pages do not show. */
static void set_figures(struct hx_mapping *mapping, uint64_t resident, uint64_t of_files,
                        uint64_t swapped)
{
    if (mapping->rss_bytes == resident && !resident && !mapping->swap_bytes && !swapped)
        return; /* most of many: not looked at, as little of them is in a cache */
    if (mapping->huge || is_special(mapping))
        return;
    mapping->rss_bytes = resident;
    if (mapping->prot & HX_PROT_SHARED)
        return;
    mapping->anonymous_bytes = resident - of_files;
    mapping->swap_bytes = swapped;
}

static void take_runs(struct seen *at, struct plan *plan, struct hx_mapping *mapping)
{
    const struct hx_page_run *run = at->runs->v;
    size_t n = at->runs->n;
    uint64_t resident = 0, of_files = 0, swapped = 0;
    bool copied = false, own_only = false;
    while (at->run < n && run[at->run].end <= mapping->start)
        at->run++;
    if (at->run < n && run[at->run].start < mapping->end)
        copied = hx_copy_takes(mapping, &own_only) && !mapping->device;
    for (size_t i = at->run; i < n && run[i].start < mapping->end; i++) {
        uint64_t start = run[i].start > mapping->start ? run[i].start : mapping->start;
        uint64_t end = run[i].end < mapping->end ? run[i].end : mapping->end;
        *(run[i].swapped ? &swapped : &resident) += end - start;
        of_files += run[i].file && !run[i].swapped ? end - start : 0;
        if (copied && !(own_only && run[i].file))
            add_page_run(plan, start, end, run[i].swapped);
    }
    set_figures(mapping, resident, of_files, swapped);
}

/* What the kernel cannot scan, 8 bytes a page; of pages of files, as many as before the stop. */
static hx_error *read_entries(struct plan *plan, struct hx_mapping *mapping, bool own_only)
{
    struct hx_copy *copy = plan->copy;
    uint64_t resident = plan->resident, swapped = plan->swapped, of_files = 0;
    if (own_only && mapping->rss_bytes > mapping->anonymous_bytes)
        of_files = mapping->rss_bytes - mapping->anonymous_bytes;
    if (hx_pagemap_runs(copy->pagemap, mapping->start, mapping->end, own_only, NULL, add_page_run,
                        plan)) {
        if (copy->pagemap >= 0)
            set_figures(mapping, plan->resident - resident + of_files, of_files,
                        plan->swapped - swapped);
        return NULL;
    }
    HX_NEED(!plan->failed);
    copy->pages_known = false;
    HX_NEED(hx_vec_push(&copy->lost, (struct hx_range){mapping->start, mapping->end}));
    return NULL;
}

/* A mapping by itself: where the scan was not told to go because it is new, or the kernel cannot
 * scan. */
static hx_error *look_at(struct plan *plan, struct hx_mapping *mapping,
                         const struct hx_mapping *before, size_t n_before)
{
    struct hx_copy *copy = plan->copy;
    bool own_only, copied = hx_copy_takes(mapping, &own_only) && !mapping->device;
    const struct hx_mapping *old = same_before(mapping, before, n_before);
    if (old &&
        (!copied || old->device || (!(mapping->prot & HX_PROT_W) && !present_bytes(old, own_only))))
        return NULL;
    if (!old && !mapping->inode && !(mapping->prot & (HX_PROT_R | HX_PROT_W)) &&
        was_empty(mapping, before, n_before))
        return NULL;
    hx_page_runs runs = {0};
    bool failed = false;
    if (copy->pagemap >= 0 &&
        hx_pagemap_scan(copy->pagemap, mapping->start, mapping->end, is_private_file(mapping),
                        &runs, &failed) == mapping->end)
        take_runs(&(struct seen){.runs = &runs}, plan, mapping);
    else if (copied && !failed)
        HX_TRY(read_entries(plan, mapping, own_only)); /* runs: none was found */
    hx_vec_free(&runs);
    HX_NEED(!failed);
    return NULL;
}

hx_error *hx_copy_plan(struct hx_copy *copy, struct hx_mapping *mapping, size_t n,
                       const struct hx_mapping *before, size_t n_before)
{
    struct plan plan = {.copy = copy};
    struct seen at = {.copy = copy, .runs = &copy->runs};
    copy->pieces.n = copy->unread.n = 0;
    if (!copy->copied) {
        copy->swapped.n = 0;
        copy->used = 0;
    }
    copy->pages_known = copy->pagemap >= 0;
    for (size_t i = 0; i < n; i++) {
        if (was_scanned(&at, &mapping[i]))
            take_runs(&at, &plan, &mapping[i]);
        else
            HX_TRY(look_at(&plan, &mapping[i], before, n_before));
    }
    HX_NEED(!plan.failed);
    hx_ranges_join(&copy->swapped);
    return hx_copy_make_room(copy);
}

/* --- reading ------------------------------------------------------------------------- */

struct reading {
    struct hx_copy *copy;
    const struct hx_tracer *tracer;
    bool beside;                   /* the target runs */
    HX_VEC(struct hx_piece) slice; /* pieces, cut to at most 1 MiB */
    size_t step;                   /* slices taken at once */
    int memory; /* /proc/PID/mem, which also gives what the target may not read itself; -1: none;
                 * 0: not opened yet, with the lock */
    atomic_size_t next;
    atomic_int failed; /* errno: the target is gone or refuses */
    atomic_bool pressed;
    pthread_mutex_t lock; /* guards copy->lost, too */
};

static void lose_unread(struct reading *reading, uint64_t start, uint64_t end)
{
    pthread_mutex_lock(&reading->lock);
    if (!hx_vec_push(&reading->copy->lost, (struct hx_range){start, end}))
        atomic_store(&reading->failed, ENOMEM);
    pthread_mutex_unlock(&reading->lock);
}

static int memory_of(struct reading *reading)
{
    char path[64];
    pthread_mutex_lock(&reading->lock);
    snprintf(path, sizeof path, "/proc/%d/mem", reading->copy->pid);
    if (!reading->memory)
        reading->memory = open(path, O_RDONLY | O_CLOEXEC);
    pthread_mutex_unlock(&reading->lock);
    return reading->memory;
}

/* Where process_vm_readv() gave up within a slice: reads on as far as the other way leads. */
static uint64_t read_protected(struct reading *reading, const struct hx_piece *slice, uint64_t skip)
{
    ssize_t got = pread(memory_of(reading), reading->copy->memory + slice->offset + skip,
                        slice->end - slice->start - skip, (off_t)(slice->start + skip));
    uint64_t done = got < 0 ? 0 : (uint64_t)got;
    atomic_fetch_add_explicit(reading->copy->progress, done, memory_order_relaxed);
    return done;
}

/* Reads slices [first, last). lock: NULL in the stop. */
static void read_slices(struct reading *reading, size_t first, size_t last,
                        struct hx_lock_use *lock)
{
    const struct hx_piece *slice = reading->slice.v;
    uint64_t skip = 0; /* bytes of the first slice that are done */
    while (first < last) {
        struct iovec remote[VECTORS], local[VECTORS];
        size_t n = 0, n_local = 0;
        uint64_t want = 0;
        for (size_t i = first; i < last && n < VECTORS && (!lock || want < mib); i++, n++) {
            uint64_t from = i == first ? skip : 0;
            remote[n].iov_base = (void *)(slice[i].start + from);
            remote[n].iov_len = slice[i].end - slice[i].start - from;
            want += remote[n].iov_len;
            uint8_t *to = reading->copy->memory + slice[i].offset + from;
            struct iovec *behind = n_local ? &local[n_local - 1] : NULL;
            if (behind && (uint8_t *)behind->iov_base + behind->iov_len == to)
                behind->iov_len += remote[n].iov_len;
            else
                local[n_local++] = (struct iovec){to, remote[n].iov_len};
        }
        ssize_t got = hx_lock_readv(lock, reading->copy->pid, local, n_local, remote, n);
        if (got < 0 && errno != EFAULT && errno != EIO) {
            atomic_store(&reading->failed, errno);
            return;
        }
        uint64_t done = got < 0 ? 0 : (uint64_t)got;
        atomic_fetch_add_explicit(reading->copy->progress, done, memory_order_relaxed);
        for (uint64_t left = done; first < last; first++, skip = 0) {
            uint64_t rest = slice[first].end - slice[first].start - skip;
            if (left < rest) {
                skip += left;
                break;
            }
            left -= rest;
        }
        if (done == want)
            continue;
        uint64_t more = read_protected(reading, &slice[first], skip);
        skip += more;
        if (!more) { /* the page at which it ended cannot be read */
            uint64_t at = (slice[first].start + skip) / PAGE * PAGE;
            lose_unread(reading, at, at + PAGE);
            skip = at + PAGE - slice[first].start;
        }
        if (slice[first].start + skip >= slice[first].end) {
            first++;
            skip = 0;
        }
    }
}

static void copy_worker(void *context, unsigned worker)
{
    (void)worker;
    struct reading *reading = context;
    struct hx_lock_use lock = {0};
    while (!atomic_load(&reading->failed) && !atomic_load(&reading->pressed)) {
        size_t first = atomic_fetch_add(&reading->next, reading->step);
        if (first >= reading->slice.n)
            break;
        size_t left = reading->slice.n - first;
        read_slices(reading, first, first + (left < reading->step ? left : reading->step),
                    reading->beside ? &lock : NULL);
        hx_error *pressed = hx_tracer_pressed(reading->tracer);
        if (pressed)
            atomic_store(&reading->pressed, true);
        hx_error_free(pressed);
    }
}

/* *ret_threads: so many as read it sooner than one does. */
static bool cut_slices(struct reading *reading, const struct hx_piece *piece, size_t n,
                       unsigned *ret_threads)
{
    const uint64_t few = 2 * mib, at_once = mib / 4;
    uint64_t bytes = 0;
    for (size_t i = 0; i < n; i++) {
        struct hx_piece rest = piece[i];
        bytes += rest.end - rest.start;
        while (rest.start < rest.end) {
            uint64_t end = rest.end - rest.start > mib ? rest.start + mib : rest.end;
            if (!hx_vec_push(&reading->slice, (struct hx_piece){rest.start, end, rest.offset}))
                return false;
            rest.offset += end - rest.start;
            rest.start = end;
        }
    }
    *ret_threads = bytes > few ? reading->copy->threads : 1;
    size_t step = reading->slice.n / (*ret_threads * 64u);
    size_t worth = bytes ? reading->slice.n * at_once / bytes : 0;
    step = step > worth ? step : worth;
    reading->step = step < 1 ? 1 : step > VECTORS ? VECTORS : step;
    return true;
}

hx_error *hx_copy_read(struct hx_copy *copy, const struct hx_piece *piece, size_t n, bool beside,
                       const struct hx_tracer *tracer)
{
    struct reading reading = {
        .copy = copy, .tracer = tracer, .beside = beside, .lock = PTHREAD_MUTEX_INITIALIZER};
    unsigned threads;
    bool cut = cut_slices(&reading, piece, n, &threads);
    if (cut)
        hx_parallel(threads, copy_worker, &reading);
    if (reading.memory > 0)
        close(reading.memory);
    hx_vec_free(&reading.slice);
    HX_NEED(cut);
    HX_TRY(hx_tracer_pressed(tracer));
    int err = atomic_load(&reading.failed);
    char what[32];
    snprintf(what, sizeof what, "PID %d", copy->pid);
    if (err == ESRCH)
        return hx_error_new(HX_E_GONE, what, NULL, "the process has exited");
    if (err)
        return hx_error_os(err, what, "process_vm_readv");
    hx_ranges_join(&copy->lost);
    return NULL;
}

hx_error *hx_copy_read_rest(struct hx_copy *copy, const struct hx_tracer *tracer)
{
    return copy->copied ? hx_copy_read(copy, copy->unread.v, copy->unread.n, false, tracer)
                        : hx_copy_read(copy, copy->pieces.v, copy->pieces.n, false, tracer);
}

void hx_copy_deinit(struct hx_copy *copy)
{
    if (copy->memory)
        munmap(copy->memory, copy->room);
    if (copy->memory_fd >= 0)
        close(copy->memory_fd);
    hx_vec_free(&copy->pieces);
    hx_vec_free(&copy->unread);
    hx_vec_free(&copy->lost);
    hx_vec_free(&copy->swapped);
    hx_vec_free(&copy->scans);
    hx_vec_free(&copy->runs);
    if (copy->pagemap >= 0)
        close(copy->pagemap);
    copy->memory = NULL;
    copy->memory_fd = copy->pagemap = -1;
}
