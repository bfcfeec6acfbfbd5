/* core_target.c - an ELF core as a target: the capture is read out of the file. */
#include "attach/core/core.h"
#include "attach/target.h"
#include "base/cleanup.h"
#include "base/timing.h"

#include <stdlib.h>
#include <string.h>

struct core_target {
    struct hx_attach attach;
    hx_core *core;
    atomic_bool exhausted;
};

/* --- a capture ------------------------------------------------------------------------- */

/* Did a thread hold an arena when the process was stopped for good? */
static hx_error *note_held_locks(hx_attach *attach, struct hx_snapshot *snapshot)
{
    struct hx_stopped_memory memory = {.attach = attach, .snapshot = snapshot};
    struct hx_peek peek = {.read = hx_stopped_memory_read, .context = &memory};
    struct hx_alloc_target place = {snapshot->mapping, snapshot->n_mappings, attach->via, &peek,
                                    attach->modules};
    struct hx_guard guard = {0};
    bool locked = false;
    hx_error *err = hx_target_guard(&place, &guard);
    for (size_t i = 0; !err && i < guard.locks.n && !locked; i++) {
        const struct hx_lock_word *lock = &guard.locks.v[i];
        uint32_t word;
        locked = hx_image_u32(&snapshot->image, lock->addr, &word) && word & lock->mask;
    }
    hx_guard_deinit(&guard);
    if (locked)
        hx_target_note_locked(snapshot);
    return err;
}

static hx_error *capture_core(hx_attach *attach, const struct hx_capture_options *options,
                              const struct hx_progress *progress, struct hx_snapshot **ret)
{
    struct core_target *target = (struct core_target *)attach;
    HX_SNAPSHOT struct hx_snapshot *snapshot = NULL;
    enum hx_walk_verdict verdict = HX_WALK_OK;
    uint64_t begun = hx_timing_begin();
    HX_TRY(hx_target_watch(attach, &(struct hx_memory_need){.ours = 1}));
    HX_TRY(hx_snapshot_create(&snapshot));
    HX_TRY(hx_core_take(target->core, options->threads, progress, snapshot));
    hx_timing_end(begun, "core", 0);
    HX_TRY(hx_target_build(attach, snapshot, options, progress, &verdict));
    HX_TRY(note_held_locks(attach, snapshot));
    if (verdict == HX_WALK_TORN)
        hx_snapshot_note(snapshot, true,
                         "the core was taken in the middle of a change of the heap: "
                         "some blocks may be missing or stale");
    hx_target_finish(attach, snapshot);
    *ret = hx_steal(snapshot);
    return NULL;
}

/* --- where there is no process --------------------------------------------------------- */

/* What was not dumped is read from the files. */
static bool read_mapped_files(void *context, uint64_t addr, void *dst, size_t len)
{
    const struct hx_attach *attach = context;
    for (size_t done = 0, n; done < len; done += n) {
        n = hx_module_read_initial(attach->modules, addr + done, (char *)dst + done, len - done);
        if (!n)
            return false;
    }
    return true;
}

static bool core_lacks_memory(const hx_attach *attach)
{
    return hx_core_lacks_memory(((const struct core_target *)attach)->core);
}

static hx_error *peek_core(const hx_attach *attach, uint64_t addr, size_t n, void *ret,
                           size_t *ret_n)
{
    (void)attach, (void)addr, (void)n, (void)ret, (void)ret_n;
    return hx_error_new(HX_E_ABSENT, "the process", NULL, "is not there: this is a core");
}

static bool core_has_exited(const hx_attach *attach)
{
    (void)attach;
    return false;
}

static void close_core(hx_attach *attach)
{
    struct core_target *target = (struct core_target *)attach;
    hx_core_close(target->core);
    free(target);
}

static const struct hx_target_ops core_ops = {
    .capture = capture_core,
    .read_constant = read_mapped_files,
    .lacks_memory = core_lacks_memory,
    .peek = peek_core,
    .has_exited = core_has_exited,
    .close = close_core,
};

hx_error *hx_attach_open_core(const char *path, const char *exe, const char *sysroot,
                              hx_attach **ret)
{
    struct core_target *target = calloc(1, sizeof *target);
    HX_NEED(target);
    target->attach.ops = &core_ops;
    target->attach.exhausted = &target->exhausted;
    return hx_target_opened(&target->attach, strdup(path),
                            hx_core_open(path, exe, sysroot, &target->core), ret);
}
