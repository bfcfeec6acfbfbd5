/* target.h - what a live process and a core have in common; only attach.c, build.c and the two
 * kinds include this.
 *
 * A kind of target is a struct with struct hx_attach as its first member and a const table of
 * functions: live_process.c, core/core_target.c.
 */
#ifndef HX_ATTACH_TARGET_H
#define HX_ATTACH_TARGET_H

#include "attach/alloc/alloc.h"
#include "attach/attach.h"
#include "attach/memory_limits.h"
#include "sym/module.h"

struct hx_target_ops {
    /* As hx_attach_capture(), by hx_target_watch(), hx_target_build() and hx_target_finish(). */
    hx_error *(*capture)(hx_attach *attach, const struct hx_capture_options *options,
                         const struct hx_progress *progress, struct hx_snapshot **ret);
    /* Reads memory that nobody may write to, and no image holds therefore: it is as it was at the
     * stop. All bytes or none. While attach->modules are those of the newest capture. */
    bool (*read_constant)(void *attach, uint64_t addr, void *dst, size_t len);
    /* Does the newest image lack memory that was not to be left out of it? */
    bool (*lacks_memory)(const hx_attach *attach);
    /* As hx_attach_peek(). */
    hx_error *(*peek)(const hx_attach *attach, uint64_t addr, size_t n, void *ret, size_t *ret_n);
    /* Has the process ended since the target was opened? False where there was none. */
    bool (*has_exited)(const hx_attach *attach);
    /* Frees the target; what the members of struct hx_attach own is gone already. */
    void (*close)(hx_attach *attach);
};

struct hx_attach {
    const struct hx_target_ops *ops;
    char *name; /* "PID 12", or the path of the core */
    pid_t via;  /* the thread whose files in /proc show the process; 0: there is no process */
    atomic_bool *exhausted;         /* set by `watch`; the kind's */
    struct hx_stop_mark *stop_mark; /* the kind's; NULL: nothing is ever stopped */
    hx_code *code;             /* for the stacks of threads: the names stay for the next capture */
    struct hx_memwatch *watch; /* from the beginning of a capture until it is settled */
    /* of the newest capture */
    hx_modules *modules;
    const struct hx_image *image; /* owned by that snapshot */
};

/* Completes a target of which ops, via, exhausted and stop_mark are set, or closes it when `err`,
 * which comes back, is not NULL. `name` is taken over; NULL: no memory. */
hx_error *hx_target_opened(hx_attach *attach, char *name, hx_error *err, hx_attach **ret);

/* Refuses what does not fit, and watches from here on what is taken. */
hx_error *hx_target_watch(hx_attach *attach, const struct hx_memory_need *need);

/* Appends what guards the updates of all allocators. */
hx_error *hx_target_guard(const struct hx_alloc_target *target, struct hx_guard *ret);
void hx_target_note_locked(struct hx_snapshot *snapshot);

/* From mappings, threads and image to heap, recording, stacks of threads and roots. Memory at the
 * stop is read from the image, and by read_constant() where nobody may write. */
hx_error *hx_target_build(hx_attach *attach, struct hx_snapshot *snapshot,
                          const struct hx_capture_options *options,
                          const struct hx_progress *progress, enum hx_walk_verdict *ret);

/* Notes of names that were not read. Last. */
void hx_target_finish(const hx_attach *attach, struct hx_snapshot *snapshot);

/* Memory of a snapshot as it was at the stop: `read` of a struct hx_peek, whose context is this. */
struct hx_stopped_memory {
    hx_attach *attach;
    const struct hx_snapshot *snapshot;
};
bool hx_stopped_memory_read(void *memory, uint64_t addr, void *dst, size_t len);

#endif
