/* build.c - from the image of a target to its heap and its roots. */
#include "attach/target.h"

#include "attach/python/roots.h"
#include "attach/roots/backtrace.h"
#include "attach/roots/rootmap.h"
#include "base/cleanup.h"
#include "base/timing.h"
#include "record/launch.h"
#include "record/read/join.h"
#include "sym/code/code.h"
#include "sym/reading.h"

#include <stdlib.h>
#include <string.h>

/* --- memory at the stop ---------------------------------------------------------------- */

bool hx_stopped_memory_read(void *context, uint64_t addr, void *dst, size_t len)
{
    const struct hx_stopped_memory *memory = context;
    const struct hx_snapshot *snapshot = memory->snapshot;
    if (hx_image_read(&snapshot->image, addr, dst, len))
        return true;
    size_t i = hx_mapping_find(snapshot->mapping, snapshot->n_mappings, addr);
    if (i == snapshot->n_mappings || snapshot->mapping[i].prot & HX_PROT_W ||
        len > snapshot->mapping[i].end - addr)
        return false;
    return memory->attach->ops->read_constant(memory->attach, addr, dst, len);
}

/* --- allocators ------------------------------------------------------------------------ */

hx_error *hx_target_guard(const struct hx_alloc_target *target, struct hx_guard *ret)
{
    hx_error *err = NULL;
    for (size_t i = 0; !err && hx_allocators[i]; i++) {
        void *state = NULL;
        struct hx_allocator_share share = {0};
        err = hx_allocators[i]->find(target, &share, &state);
        if (!err && state)
            err = hx_allocators[i]->guard(state, target, ret);
        if (state)
            hx_allocators[i]->end(state);
        hx_allocator_share_deinit(&share);
    }
    return err;
}

void hx_target_note_locked(struct hx_snapshot *snapshot)
{
    hx_snapshot_note(snapshot, true,
                     "an arena was locked at the stop: blocks on their way through malloc or "
                     "free may be missing");
    hx_snapshot_lose(snapshot, "arenas locked at the stop", 1, 0, 0);
}

/* Nobody knows what the heap holds: that is no heap of 0 bytes. */
static void lose_heap(struct hx_snapshot *snapshot)
{
    snapshot->no_heap = snapshot->segments.n == 0;
    hx_snapshot_lose(snapshot, "heap of an unknown allocator", 1, 0, 0);
}

static hx_error *walk_allocators(hx_attach *attach, struct hx_snapshot *snapshot, unsigned threads,
                                 hx_ranges *excluded, const struct hx_progress *progress,
                                 enum hx_walk_verdict *ret)
{
    struct hx_stopped_memory memory = {.attach = attach, .snapshot = snapshot};
    struct hx_peek peek = {.read = hx_stopped_memory_read, .context = &memory};
    struct hx_alloc_target target = {snapshot->mapping, snapshot->n_mappings, attach->via, &peek,
                                     attach->modules};
    bool found;
    struct hx_heaps_options options = {hx_allocators, attach->ops->lacks_memory(attach), threads};
    HX_TRY(hx_heaps_walk(&options, &target, snapshot, excluded, progress, ret, &found));
    if (!found)
        lose_heap(snapshot);
    return NULL;
}

/* The module that is the C library; SIZE_MAX: none. Allocators that take its place export most of
 * its names for malloc, but none of these. */
static size_t c_library(hx_modules *modules)
{
    uint64_t addr, size;
    for (size_t i = 0; i < hx_modules_count(modules); i++)
        if (hx_module_symbol(modules, i, "__libc_start_main", &addr, &size))
            return i;
    return SIZE_MAX;
}

/* Does a word of [start, end) have one of these values? */
static bool has_word_of(const struct hx_image *image, uint64_t start, uint64_t end,
                        const uint64_t *value, size_t n)
{
    HX_PEEKED peeked = {0};
    for (size_t i = hx_image_find(image, start); i < image->n && image->span[i].start < end; i++) {
        const struct hx_span *span = &image->span[i];
        uint64_t at = (start > span->start ? start : span->start) + 7;
        at &= ~(uint64_t)7;
        for (; at < span->end && at < end && span->end - at >= 8; at += 8) {
            const uint64_t *word = hx_image_peek(image, at, 1, &peeked);
            for (size_t k = 0; word && *word && k < n; k++)
                if (value[k] == *word)
                    return true;
        }
    }
    return false;
}

/* Is a module's malloc a mere wrapper? Then the module keeps where the C library's is. */
static bool is_wrapper(const struct hx_snapshot *snapshot, hx_modules *modules, size_t module,
                       size_t library)
{
    enum { RANGES = 16 };
    static const char *const names[] = {"malloc", "calloc", "realloc", "memalign", "aligned_alloc"};
    uint64_t value[sizeof names / sizeof *names], ranges[RANGES][2], size;
    size_t n_values = 0, n = hx_module_data(modules, module, ranges, RANGES);
    for (size_t i = 0; library != SIZE_MAX && i < sizeof names / sizeof *names; i++)
        n_values += hx_module_symbol(modules, library, names[i], &value[n_values], &size);
    for (size_t i = 0; n_values && i < n; i++)
        if (has_word_of(&snapshot->image, ranges[i][0], ranges[i][1], value, n_values))
            return true;
    return false;
}

/* Is it a part of what a library consists of ("libtbbmalloc_proxy.so.2" of "libtbbmalloc.so.2")? */
static bool is_part_of(const char *module, const char *library)
{
    const char *end = strstr(library, ".so");
    return strcmp(module, library) == 0 ||
           (end && strncmp(module, library, (size_t)(end - library)) == 0);
}

/* Is its heap, or what is known of that, told of? */
static bool is_walked(const struct hx_snapshot *snapshot, const char *module)
{
    for (size_t i = 0; i < snapshot->allocators.n; i++) {
        const struct hx_allocator_share *share = &snapshot->allocators.v[i];
        if (share->claimed_bytes && share->module && is_part_of(module, share->module))
            return true;
    }
    return false;
}

/* Was one recognised and not proven? Then that is told. */
static bool is_refused(const struct hx_snapshot *snapshot)
{
    for (size_t i = 0; i < snapshot->allocators.n; i++)
        if (!snapshot->allocators.v[i].proven)
            return true;
    return false;
}

/* Whose malloc a module's is that heapx has no walk for, by a function of it: " (NAME)" or "". */
static const char *name_of_malloc(hx_modules *modules, size_t module)
{
    static const char *const known[][2] = {
        {"TCMallocInternalMalloc", " (Google's tcmalloc)"},
        {"_ZN14allocator_shim8internal20PartitionAllocMalloc9AllocatorEv", " (PartitionAlloc)"}};
    uint64_t addr, size;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (hx_module_symbol(modules, module, known[i][0], &addr, &size))
            return known[i][1];
    return "";
}

/* Another malloc than the C library's: what it hands out nobody walks, unless it is a wrapper
 * or was recorded. Where the C library's heap is empty it is the allocator. */
static void note_other_malloc(hx_attach *attach, struct hx_snapshot *snapshot)
{
    hx_modules *modules = attach->modules;
    size_t library = c_library(modules);
    for (size_t i = 0; i < hx_modules_count(modules); i++) {
        const char *name = hx_module_name(modules, i);
        uint64_t addr, size;
        if (strncmp(name, "ld-", 3) == 0 || strcmp(name, HX_RECORD_LIBRARY) == 0 ||
            (i == library && (!snapshot->no_heap || is_refused(snapshot))) ||
            is_walked(snapshot, name) || !hx_module_symbol(modules, i, "malloc", &addr, &size))
            continue;
        if (snapshot->graph.n == 0) {
            hx_snapshot_note(snapshot, true,
                             "malloc is that of %s%s, which this version does not know: its blocks "
                             "are no objects",
                             name, name_of_malloc(modules, i));
            lose_heap(snapshot);
        } else if (snapshot->recording || is_wrapper(snapshot, modules, i, library)) {
            hx_snapshot_note(snapshot, false,
                             "%s has a malloc, too: blocks that it keeps to itself are no objects",
                             name);
        } else {
            hx_snapshot_note(snapshot, true,
                             "%s has a malloc of its own%s, which this version does not know: its "
                             "blocks are no objects",
                             name, name_of_malloc(modules, i));
            lose_heap(snapshot);
        }
        return;
    }
}

/* Does the data of a module begin as the linker of Go makes it? */
static bool is_go(hx_modules *modules, size_t module)
{
    static const char magic[] = "\xff Go buildinf:";
    uint64_t ranges[1][2];
    char bytes[sizeof magic - 1];
    return hx_module_data(modules, module, ranges, 1) &&
           hx_module_read_initial(modules, ranges[0][0], bytes, sizeof bytes) == sizeof bytes &&
           memcmp(bytes, magic, sizeof bytes) == 0;
}

/* Languages that keep objects in heaps of their own, by a symbol of their runtimes, and who tells
 * these. */
static void note_runtime(hx_attach *attach, struct hx_snapshot *snapshot)
{
    static const struct known {
        const char *symbol, *name, *tool;
    } known[] = {
        {"runtime.mheap_", "Go", "its net/http/pprof or runtime/pprof"},
        {"JNI_CreateJavaVM", "Java", "jmap"},
        {"_ZN2v87Isolate3NewERKNS0_12CreateParamsE", "JavaScript (V8)", "its heap snapshots"},
        {"coreclr_initialize", ".NET", "dotnet-gcdump"},
        {"caml_gc_full_major", "OCaml", "its Gc module"},
        {"hs_init_ghc", "Haskell (GHC)", "its +RTS -h"},
        {"GC_gcollect", "Boehm's collector", "GC_dump()"},
        {"zend_mm_gc", "PHP", "memory_get_usage()"}};
    uint64_t addr, size;
    const struct known *found = NULL;
    for (size_t i = 0; i < hx_modules_count(attach->modules) && !found; i++) {
        for (size_t k = 0; k < sizeof known / sizeof *known && !found; k++)
            if (hx_module_symbol(attach->modules, i, known[k].symbol, &addr, &size))
                found = &known[k];
        if (!found && is_go(attach->modules, i))
            found = &known[0];
    }
    if (found)
        hx_snapshot_note(
            snapshot, false,
            "a process of %s: the heap of that runtime has no objects here (%s tells them), its "
            "memory is in the account and is searched for pointers; what libraries have from "
            "malloc is told",
            found->name, found->tool);
}

/* --- recording and roots --------------------------------------------------------------- */

/* Adds who allocated, if that is recorded. A recorder that has ended does not spoil the snapshot.
 */
static hx_error *join_recording(hx_attach *attach, struct hx_snapshot *snapshot,
                                const struct hx_capture_options *options,
                                const struct hx_progress *progress)
{
    struct hx_recording *recording = NULL;
    if (!options->recording || !attach->stop_mark)
        return NULL;
    uint64_t stop_ns = atomic_load(&attach->stop_mark->ns);
    hx_error *err = options->recording(options->context, stop_ns, progress, &recording);
    if (err && err->kind == HX_E_ABSENT) {
        hx_snapshot_note(snapshot, true, "who allocated is not known: %s", err->why);
        hx_error_free(err);
        return NULL;
    }
    HX_TRY(err);
    return hx_join(snapshot, recording);
}

static hx_error *find_python_roots(hx_attach *attach, struct hx_snapshot *snapshot,
                                   hx_root_list *roots, hx_ranges *excluded)
{
    struct hx_stopped_memory memory = {.attach = attach, .snapshot = snapshot};
    const struct hx_peek peek = {.read = hx_stopped_memory_read, .context = &memory};
    return hx_python_roots(snapshot, attach->modules, &peek, roots, excluded);
}

hx_error *hx_target_build(hx_attach *attach, struct hx_snapshot *snapshot,
                          const struct hx_capture_options *options,
                          const struct hx_progress *progress, enum hx_walk_verdict *ret)
{
    hx_modules_destroy(attach->modules);
    attach->modules = NULL;
    HX_TRY(
        hx_modules_create(attach->via, snapshot->mapping, snapshot->n_mappings, &attach->modules));
    hx_reading_listen(hx_modules_reading(attach->modules), progress);
    attach->image = &snapshot->image;
    hx_ranges excluded = {0};
    hx_frame_parts frames = {0};
    hx_root_list given = {0};
    hx_error *err = walk_allocators(attach, snapshot, options->beside, &excluded, progress, ret);
    uint64_t begun = hx_timing_begin();
    if (!err)
        err = join_recording(attach, snapshot, options, progress);
    hx_timing_end(begun, "recording", snapshot->recording ? snapshot->recording->n_blocks : 0);
    if (!err) {
        note_other_malloc(attach, snapshot);
        note_runtime(attach, snapshot);
    }
    begun = hx_timing_begin();
    if (!err)
        err = hx_backtraces(snapshot, attach->via, attach->code, options->names_ns, progress,
                            &frames);
    if (!err)
        err = find_python_roots(attach, snapshot, &given, &excluded);
    if (!err)
        err = hx_rootmap(snapshot, attach->modules, &excluded, &frames, &given);
    hx_root_list_free(&given);
    hx_frame_parts_deinit(&frames);
    hx_vec_free(&excluded);
    hx_timing_end(begun, "roots", 0);
    if (!err && hx_progress_cancelled(progress))
        err = hx_error_cancelled("roots");
    return err;
}

/* What was left out of the files: names are missing, no figure is wrong. */
static void note_unread(struct hx_snapshot *snapshot, const struct hx_text *notes, uint64_t n)
{
    if (!n || notes->failed)
        return;
    if (!snapshot->notes.n || !strstr(hx_text_str(&snapshot->notes), notes->s))
        hx_snapshot_note(snapshot, false, "%s", notes->s);
    hx_snapshot_lose(snapshot, "parts of files with names that were not read", n, 0, 0);
}

void hx_attach_note_unread(const hx_attach *attach, struct hx_snapshot *snapshot)
{
    HX_CLEANUP(hx_text_free) struct hx_text notes = {0};
    uint64_t n;
    hx_reading_tell(hx_code_reading(attach->code), &notes, &n);
    note_unread(snapshot, &notes, n);
}

void hx_target_finish(const hx_attach *attach, struct hx_snapshot *snapshot)
{
    struct hx_text notes = {0};
    uint64_t n;
    hx_reading_tell(hx_modules_reading(attach->modules), &notes, &n);
    if (n)
        note_unread(snapshot, &notes, n);
    hx_text_free(&notes);
    const struct hx_recording *named[] = {snapshot->recording, snapshot->backtraces};
    for (size_t i = 0; i < 2; i++)
        if (named[i] && named[i]->unread)
            note_unread(snapshot, &named[i]->unread_notes, named[i]->unread);
    if (!snapshot->complete && !snapshot->losses.n)
        hx_snapshot_lose(snapshot, "parts of the heap that the notes tell of", 1, 0, 0);
}
