/* core_image.c - the memory in a core, read into memory of our own.
 *
 * Read, not mapped: a file that is cut while it is looked at must not end us. What is zero takes no
 * memory: holes of the file are not read, and pages of zeros are left as they were mapped.
 */
#include "attach/core/core_private.h"

#include "attach/ranges.h"
#include "attach/stop/copy.h"
#include "base/cleanup.h"
#include "base/parallel.h"
#include "record/own_mappings.h"
#include "sym/module.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SLICE ((uint64_t)1 << 20)

/* A piece of memory to be read. */
struct slice {
    uint64_t start, end, offset; /* addresses; in the file */
    uint64_t at;                 /* in our memory */
    bool zero;                   /* nothing but zeros: no span */
    bool failed;                 /* the file ended earlier than it said */
};

struct reading {
    const hx_core *core;
    struct hx_snapshot *snapshot;
    const struct hx_progress *progress;
    HX_VEC(struct slice) slices;
    uint64_t bytes; /* of all of them */
    uint8_t *memory;
    atomic_size_t next;
    atomic_bool nomem;
    hx_ranges cut, left_out; /* memory that the file does not have */
    bool dumps_anonymous;
    uint64_t untouched; /* bytes of memory that it does not need to have */
};

/* --- what is read -------------------------------------------------------------------------- */

static bool add_slices(struct reading *reading, uint64_t start, uint64_t end, uint64_t offset)
{
    for (uint64_t at = start; at < end;) {
        /* a hole of the file is zeros that nobody wrote */
        off_t data = lseek(reading->core->fd, (off_t)(offset + (at - start)), SEEK_DATA);
        if (data < 0 && errno == ENXIO)
            return true;
        uint64_t hole = data < 0 ? 0 : (uint64_t)data - (offset + (at - start));
        if (hole >= end - at)
            return true;
        at += hole / HX_CORE_PAGE * HX_CORE_PAGE;
        uint64_t stop = end - at > SLICE ? at + SLICE : end;
        if (!hx_vec_push(&reading->slices, (struct slice){.start = at,
                                                          .end = stop,
                                                          .offset = offset + (at - start),
                                                          .at = reading->bytes}))
            return false;
        reading->bytes += (stop - at + HX_CORE_PAGE - 1) & ~(uint64_t)(HX_CORE_PAGE - 1);
        at = stop;
    }
    return true;
}

/* Of a file that is mapped read-only only what differs from the file was ever written; the rest
 * nobody stored. Counts it as anonymous, as the kernel would. */
static bool add_written(struct reading *reading, struct hx_mapping *mapping, uint64_t end,
                        uint64_t offset)
{
    uint8_t page[HX_CORE_PAGE], file[HX_CORE_PAGE];
    struct stat st;
    HX_FD int fd = hx_module_open_regular(mapping->local, &st);
    if (fd < 0 && mapping->offset == 0 && !hx_mapping_is_memory(mapping))
        return true; /* headers, left for debuggers */
    for (uint64_t at = mapping->start; at < end; at += HX_CORE_PAGE) {
        uint64_t in = at - mapping->start;
        size_t len = end - at < HX_CORE_PAGE ? (size_t)(end - at) : HX_CORE_PAGE;
        if (!hx_core_pread(reading->core, offset + in, page, len))
            return true;
        memset(file, 0, sizeof file);
        if (fd >= 0 && pread(fd, file, len, (off_t)(mapping->offset + in)) >= 0 &&
            memcmp(page, file, len) == 0)
            continue;
        mapping->anonymous_bytes += HX_CORE_PAGE;
        if (!add_slices(reading, at, at + len, offset + in))
            return false;
    }
    return true;
}

/* What of a mapping can hold pointers that the process stored? */
static bool may_hold_pointers(const struct hx_mapping *mapping)
{
    const char *path = mapping->path;
    return !mapping->device && !hx_is_recorder_region(mapping) &&
           strncmp(path, "[v", 2) != 0; /* [vdso], [vvar], [vsyscall] */
}

/* A private mapping of a file that nobody wrote to is left out rightly; of a shared one the
 * contents are lost. Which it was is not known, but programs are mapped privately. */
static bool is_loss(const hx_core *core, const struct hx_mapping *mapping)
{
    if (!(mapping->prot & HX_PROT_W) || !may_hold_pointers(mapping))
        return false;
    return !mapping->inode || !core->names.v[mapping->inode - 1].is_elf;
}

/* The kernel leaves out anonymous memory that nobody ever touched, when it dumps what was (see
 * dumps_anonymous()). Only what a program keeps out of cores by itself looks the same. */
static bool is_untouched(const struct reading *reading, const struct hx_core_segment *segment,
                         const struct hx_mapping *mapping)
{
    return reading->dumps_anonymous && !mapping->inode && !segment->filesz;
}

static hx_error *plan_segment(struct reading *reading, const struct hx_core_segment *segment,
                              struct hx_mapping *mapping)
{
    uint64_t present = segment->start + segment->present / 8 * 8;
    uint64_t dumped = segment->start + segment->filesz;
    bool ok = true;
    if (!may_hold_pointers(mapping))
        return NULL;
    if (mapping->inode && !(mapping->prot & HX_PROT_W))
        ok = add_written(reading, mapping, present, segment->offset);
    else
        ok = add_slices(reading, segment->start, present, segment->offset);
    if (!mapping->inode && !(mapping->prot & HX_PROT_W))
        mapping->anonymous_bytes = segment->present;
    bool matters = mapping->prot & HX_PROT_W || !mapping->inode;
    if (matters && present < dumped)
        ok = ok && hx_vec_push(&reading->cut, (struct hx_range){present, dumped});
    if (is_loss(reading->core, mapping) && dumped < segment->end &&
        is_untouched(reading, segment, mapping))
        reading->untouched += segment->end - segment->start;
    else if (is_loss(reading->core, mapping) && dumped < segment->end)
        ok = ok && hx_vec_push(&reading->left_out, (struct hx_range){dumped, segment->end});
    return ok ? NULL : hx_error_nomem();
}

/* Is there private memory that was dumped, as a stack always is? Then coredump_filter has its bit.
 */
static bool dumps_anonymous(const hx_core *core, const struct hx_snapshot *snapshot)
{
    for (size_t i = 0; i < core->segments.n; i++) {
        const struct hx_core_segment *segment = &core->segments.v[i];
        size_t k = segment->filesz && segment->filesz == segment->end - segment->start
                       ? hx_mapping_find(snapshot->mapping, snapshot->n_mappings, segment->start)
                       : snapshot->n_mappings;
        if (k < snapshot->n_mappings && !snapshot->mapping[k].inode &&
            snapshot->mapping[k].prot & HX_PROT_W)
            return true;
    }
    return false;
}

static hx_error *plan_core_reading(struct reading *reading)
{
    const hx_core *core = reading->core;
    struct hx_snapshot *snapshot = reading->snapshot;
    reading->dumps_anonymous = dumps_anonymous(core, snapshot);
    for (size_t i = 0; i < core->segments.n; i++) {
        if (i % 256 == 0 && hx_progress_cancelled(reading->progress))
            return hx_error_cancelled("reading the core");
        size_t k =
            hx_mapping_find(snapshot->mapping, snapshot->n_mappings, core->segments.v[i].start);
        if (k < snapshot->n_mappings)
            HX_TRY(plan_segment(reading, &core->segments.v[i], &snapshot->mapping[k]));
    }
    return NULL;
}

/* --- reading ------------------------------------------------------------------------------- */

static bool is_zero_page(const uint8_t *bytes, size_t n)
{
    return n == 0 || (!bytes[0] && memcmp(bytes, bytes + 1, n - 1) == 0);
}

/* Only what is not zero is touched. */
static void read_slice(struct reading *reading, struct slice *slice, uint8_t *buffer)
{
    size_t n = (size_t)(slice->end - slice->start);
    slice->zero = true;
    if (!hx_core_pread(reading->core, slice->offset, buffer, n)) {
        slice->failed = true;
        return;
    }
    for (size_t at = 0; at < n; at += HX_CORE_PAGE) {
        size_t len = n - at < HX_CORE_PAGE ? n - at : HX_CORE_PAGE;
        if (is_zero_page(buffer + at, len))
            continue;
        memcpy(reading->memory + slice->at + at, buffer + at, len);
        slice->zero = false;
    }
    /* a single page of zeros may be one that was written; a whole slice is part of an object, or
     * was never touched */
    slice->zero &= slice->end - slice->start == SLICE;
}

static void read_core_worker(void *context, unsigned worker)
{
    struct reading *reading = context;
    HX_FREE uint8_t *buffer = malloc(SLICE);
    if (!buffer) {
        atomic_store(&reading->nomem, true);
        return;
    }
    for (size_t i; (i = atomic_fetch_add(&reading->next, 1)) < reading->slices.n;) {
        if (hx_progress_cancelled(reading->progress))
            return;
        if (worker == 0 && i % 64 == 0)
            hx_progress_at(reading->progress, "core", i, reading->slices.n);
        read_slice(reading, &reading->slices.v[i], buffer);
    }
}

static hx_error *check_core_memory(uint64_t bytes)
{
    hx_limits limits = {0};
    HX_TRY(hx_limits_find("", 0, &limits));
    struct hx_memory_need need = {.ours = bytes + hx_memory_analysis(bytes)};
    hx_error *err = hx_limits_fit(&limits, &need);
    hx_limits_deinit(&limits);
    return err;
}

static hx_error *read_core_image(struct reading *reading, unsigned threads)
{
    struct hx_image *image = &reading->snapshot->image;
    if (!reading->bytes)
        return NULL;
    HX_TRY(check_core_memory(reading->bytes));
    void *memory = mmap(NULL, reading->bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return hx_error_os(errno, "memory of the core", "mmap");
    image->mapping = reading->memory = memory;
    image->mapping_bytes = reading->bytes;
    madvise(memory, reading->bytes, MADV_HUGEPAGE);
    hx_parallel(hx_threads(threads), read_core_worker, reading);
    if (hx_progress_cancelled(reading->progress))
        return hx_error_cancelled("reading the core");
    return atomic_load(&reading->nomem) ? hx_error_nomem() : NULL;
}

static hx_error *make_spans(struct reading *reading)
{
    struct hx_image *image = &reading->snapshot->image;
    HX_VEC(struct hx_span) spans = {0};
    for (size_t i = 0; i < reading->slices.n; i++) {
        const struct slice *slice = &reading->slices.v[i];
        const uint8_t *bytes = reading->memory + slice->at;
        struct hx_span *last = spans.n ? &spans.v[spans.n - 1] : NULL;
        bool ok = true;
        if (slice->failed)
            ok = hx_vec_push(&reading->cut, (struct hx_range){slice->start, slice->end});
        else if (slice->zero)
            continue;
        else if (last && last->end == slice->start &&
                 last->bytes + (last->end - last->start) == bytes)
            last->end = slice->end;
        else
            ok = hx_vec_push(&spans, (struct hx_span){slice->start, slice->end, bytes});
        if (!ok) {
            hx_vec_free(&spans);
            return hx_error_nomem();
        }
    }
    image->span = spans.v;
    image->n = spans.n;
    return NULL;
}

/* --- what is missing ------------------------------------------------------------------------ */

static void note_missing_ranges(struct hx_snapshot *snapshot, const hx_ranges *ranges,
                                const char *what, const char *why)
{
    enum { NAMED = 8 };
    struct hx_text list = {0};
    char human[HX_HUMAN];
    uint64_t bytes = 0;
    for (size_t i = 0; i < ranges->n; i++) {
        const struct hx_range *range = &ranges->v[i];
        bytes += range->end - range->start;
        hx_snapshot_lose(snapshot, what, (range->end - range->start + 4095) / 4096,
                         range->end - range->start, range->start);
        if (i < NAMED)
            hx_text_putf(&list, "%s0x%" PRIx64 "-0x%" PRIx64, i ? ", " : "", range->start,
                         range->end);
    }
    if (ranges->n > NAMED)
        hx_text_putf(&list, " and %zu more", ranges->n - NAMED);
    if (ranges->n)
        hx_snapshot_note(snapshot, true, "%s: %" PRIu64 " bytes (%s) of memory are missing: %s",
                         why, bytes, hx_human_bytes(bytes, human), hx_text_str(&list));
    hx_text_free(&list);
}

static void note_missing_memory(struct reading *reading)
{
    struct hx_text cut = {0};
    hx_ranges_join(&reading->cut);
    uint64_t whole = 0;
    for (size_t i = 0; i < reading->core->segments.n; i++) {
        const struct hx_core_segment *segment = &reading->core->segments.v[i];
        if (segment->filesz && segment->offset + segment->filesz > whole)
            whole = segment->offset + segment->filesz;
    }
    hx_text_putf(&cut, "the core is cut short after %" PRIu64 " of at least %" PRIu64 " bytes",
                 reading->core->size, whole);
    note_missing_ranges(reading->snapshot, &reading->cut, "memory behind the end of the core",
                        hx_text_str(&cut));
    note_missing_ranges(reading->snapshot, &reading->left_out, "memory that was not dumped",
                        "the core was written without some of it");
    if (reading->untouched)
        hx_snapshot_note(reading->snapshot, false,
                         "%s of memory are not in the core: nobody touched them, or the program "
                         "keeps them out of cores",
                         hx_human_bytes(reading->untouched, (char[HX_HUMAN]){0}));
    hx_text_free(&cut);
}

hx_error *hx_core_image(const hx_core *core, unsigned threads, const struct hx_progress *progress,
                        struct hx_snapshot *snapshot, bool *ret_lacks)
{
    struct reading reading = {.core = core, .snapshot = snapshot, .progress = progress};
    hx_error *err = plan_core_reading(&reading);
    if (!err)
        err = read_core_image(&reading, threads);
    if (!err)
        err = make_spans(&reading);
    if (!err)
        note_missing_memory(&reading);
    *ret_lacks = reading.cut.n || reading.left_out.n;
    hx_vec_free(&reading.slices);
    hx_vec_free(&reading.cut);
    hx_vec_free(&reading.left_out);
    return err;
}
