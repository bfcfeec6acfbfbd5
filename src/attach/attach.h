/* attach.h - a target: a live process, or an ELF core.
 *
 * hx_attach_open() forks the agent, a small process of its own that alone traces.
 * The agent ends, and with it every stop, when this process ends for any reason.
 * Open early: before large mappings and before other threads exist.
 */
#ifndef HX_ATTACH_ATTACH_H
#define HX_ATTACH_ATTACH_H

#include "base/progress.h"
#include "model/snapshot.h"
#include "record/stop_mark.h"

typedef struct hx_attach hx_attach;
typedef struct hx_code hx_code; /* sym/code.h */

/* precopy.h: beside the running target, where that can be; AUTO: where it shortens the stop. */
enum hx_pause { HX_PAUSE_AUTO, HX_PAUSE_COPY, HX_PAUSE_PRECOPY };

struct hx_capture_options {
    uint64_t max_pause_ns; /* 0: none. A stop that would last longer is given up */
    enum hx_pause pause;   /* how the copy is made */
    unsigned threads;      /* readers in the stop; 0: 2 */
    unsigned beside;       /* threads while the target runs; 0: as `threads`, and all to walk */
    uint64_t names_ns; /* what names of debug information may take; then the snapshot is `unnamed`.
                          0: a while, and what is missing then is left out */
    /* Who allocated: a recording of the stop at stop_ns (CLOCK_MONOTONIC), which becomes the
     * snapshot's. HX_E_ABSENT: there is none any more. NULL: nobody records. */
    hx_error *(*recording)(void *context, uint64_t stop_ns, const struct hx_progress *progress,
                           struct hx_recording **ret);
    void *context;
};

/* Preflight and agent. Refusals say what to type. Nothing of the target is touched. */
hx_error *hx_attach_open(pid_t pid, hx_attach **ret);

/* One more beside `first`, late: this process may be large, and have threads. */
hx_error *hx_attach_open_sibling(hx_attach *first, pid_t pid, hx_attach **ret);

/* An ELF core instead. exe (NULL: none): the main program's file; sysroot (NULL: none): the folder
 * below which the files of its machine lie. hx_attach_stop_mark() is NULL then, hx_attach_peek()
 * HX_E_ABSENT. */
hx_error *hx_attach_open_core(const char *path, const char *exe, const char *sysroot,
                              hx_attach **ret);

/* "PID 12", or the path of the core; lives as long as `attach`. */
const char *hx_attach_name(const hx_attach *attach);

/* Files of code are kept in this set from now on, which other targets share; it is destroyed with
 * the last of them. Before the first capture. */
void hx_attach_share_code(hx_attach *attach, hx_code *code);

/* Stops the target, takes its memory, lets it go, walks its allocators. The snapshot has
 * process, image, heap, root regions and account; hx_scan() and hx_reach() come next.
 * Kind HX_E_GONE when the target exited. A partial result is no error: `complete`. */
hx_error *hx_attach_capture(hx_attach *attach, const struct hx_capture_options *options,
                            const struct hx_progress *progress, struct hx_snapshot **ret);

/* Memory is watched from the beginning of a capture until it is settled. This turns true when too
 * little is left: work on the snapshot ends then as if it were cancelled (struct hx_progress). */
const atomic_bool *hx_attach_exhausted(hx_attach *attach);

/* The work on a snapshot is at its end, with this error or NULL, which comes back: in words about
 * memory where that was why. *ret_killed: the target has ended meanwhile, and the kernel has ended
 * processes for lack of memory. */
hx_error *hx_attach_settle(hx_attach *attach, hx_error *err, bool *ret_killed);

/* Where each stop of a capture is marked, for a recorder; lives as long as `attach`. */
struct hx_stop_mark *hx_attach_stop_mark(hx_attach *attach);

/* Whether addr is a vtable of the target (struct hx_scan_options.is_vtable; context is
 * the hx_attach). Valid for the newest capture while its image lives. */
bool hx_attach_is_vtable(void *attach, uint64_t addr);

/* Gives roots with a symbol the names that their programs have for them. After hx_scan(), which
 * leaves few of them. */
hx_error *hx_attach_names(hx_attach *attach, struct hx_snapshot *snapshot,
                          const struct hx_progress *progress);

/* Fills snapshot->types and graph.type of the newest capture: an object of a polymorphic C++
 * class has a vtable pointer, and the vtable leads to the class's name, also in stripped
 * programs. Needs the image. threads as in struct hx_scan_options. */
hx_error *hx_attach_types(hx_attach *attach, struct hx_snapshot *snapshot, unsigned threads,
                          const struct hx_progress *progress);

/* The types and variables of the newest capture's files, as far as they are read by deadline_ns
 * (CLOCK_MONOTONIC): attach/types/debug_types.h. */
struct hx_debug_types;
hx_error *hx_attach_debug_types(hx_attach *attach, struct hx_snapshot *snapshot,
                                uint64_t deadline_ns, const struct hx_progress *progress,
                                struct hx_debug_types *ret);

/* Gives the roots of a stored snapshot of this target, loaded with hx_store_load_stop(), the names
 * that its capture left to later (hx_roots_rename()); it is ready for hx_attach_debug_types(). */
hx_error *hx_attach_rename(hx_attach *attach, struct hx_snapshot *snapshot,
                           const struct hx_progress *progress);

/* Names the stacks of its threads anew, by all that debug information has. */
hx_error *hx_attach_name_stacks(hx_attach *attach, struct hx_recording *backtraces,
                                const struct hx_progress *progress);

/* Notes, and counts as lost, what was left out of the files that these two read. */
void hx_attach_note_unread(const hx_attach *attach, struct hx_snapshot *snapshot);

/* From now on what is read for these comes from the user's cache, and goes there. */
void hx_attach_cache_types(hx_attach *attach);

/* The roots that the target itself names (heapx/roots.h) in the newest capture: what the program
 * has in its arrays, dangling pointers included. Needs the image. Names are the caller's. */
struct hx_program_root {
    char *name; /* at most HX_NAME_MAX bytes */
    uint64_t address;
};
struct hx_program_roots {
    struct hx_program_root *v;
    size_t n;
};
hx_error *hx_attach_program_roots(hx_attach *attach, struct hx_snapshot *snapshot,
                                  const struct hx_progress *progress, struct hx_program_roots *ret);
void hx_program_roots_deinit(struct hx_program_roots *roots);

/* Calls each() for the name of every variable, of any size, in a module of the target (NULL: in all
 * of them), until it returns false. Some come twice. */
void hx_attach_each_variable(hx_attach *attach, const char *module,
                             bool (*each)(void *context, const char *name), void *context);

/* Copies up to n bytes at addr of the running target, as they are now, and does not touch it.
 * *ret_n: so many, from the first on; memory that cannot be read ends them. HX_E_GONE: it has
 * exited. Callable from any thread. */
hx_error *hx_attach_peek(const hx_attach *attach, uint64_t addr, size_t n, void *ret,
                         size_t *ret_n);

/* Lets the target go and ends the agent; NULL is legal. */
void hx_attach_close(hx_attach *attach);

#endif
