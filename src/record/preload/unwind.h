/* unwind.h - taking the caller's stack inside a recorded program.
 *
 * Runs in the middle of malloc, in signal handlers, on any stack, in any thread: no allocation, no
 * lock, no errno, no fault. Frames are found with the program's own .eh_frame tables; what a
 * frame's address says is cached for the process, and whole stacks are remembered for each thread,
 * so that a stack that was taken before costs a comparison of the words that decide it.
 */
#ifndef HX_RECORD_PRELOAD_UNWIND_H
#define HX_RECORD_PRELOAD_UNWIND_H

#include "record/preload/marks.h"
#include "record/preload/pages.h"
#include "record/ring.h"

/* For all threads of a process: rules by address, and where stacks are interned. */
struct hx_unwind;

/* For one thread, or for one level of signal handlers on top of it: stacks it took lately. Memory
 * of a thread that ended may go to another one as it is. */
struct hx_unwind_thread;

/* How much memory each takes, to be given zeroed and aligned to a page. */
size_t hx_unwind_bytes(void);
size_t hx_unwind_thread_bytes(void);

/* Where whole stacks are interned. Of the region itself only what stands before its index is looked
 * at; of three parts the beginnings are mapped: of the index some levels (hx_index_bytes()). */
#define HX_INDEX_LEVELS 4
struct hx_tables {
    struct hx_region *region;
    struct hx_pages index, stacks, frames;
};
uint64_t hx_index_bytes(uint32_t levels);

/* Once a process, before its first stack; a child after fork goes on with a copy of the parent's
 * and tables of its own. */
void hx_unwind_init(struct hx_unwind *unwind, struct hx_tables *tables);

/* The key (event.h) of the stack whose innermost frame is the caller at return address pc, with the
 * registers that it will have on return. */
uint64_t hx_unwind_stack(struct hx_unwind *unwind, struct hx_unwind_thread *thread, uint64_t pc,
                         uint64_t sp, uint64_t fp);

/* The same with what is marked on it. Marks that were left behind are taken away. */
uint64_t hx_unwind_marked(struct hx_unwind *unwind, struct hx_unwind_thread *thread, uint64_t pc,
                          uint64_t sp, uint64_t fp, struct hx_marks *marks);

/* Completes a mark of that caller: its cfa, ret and base. */
void hx_unwind_complete_mark(struct hx_unwind *unwind, struct hx_unwind_thread *thread, uint64_t pc,
                             uint64_t sp, uint64_t fp, struct hx_mark *mark);

/* Which stack sp is on, for struct hx_mark's base; takes no more than a look on the thread's own.
 */
uint64_t hx_unwind_base(struct hx_unwind *unwind, struct hx_unwind_thread *thread, uint64_t pc,
                        uint64_t sp, uint64_t fp);

/* Are these two addresses on the thread's own stack? False also when that is not known. */
bool hx_unwind_on_own(const struct hx_unwind_thread *thread, uint64_t a, uint64_t b);

/* The stack that is captured when `key` is the current one: itself, or an earlier one when work
 * that was captured captures the same again, so that work which goes on for ever has an end of
 * stacks. */
uint64_t hx_unwind_capture(struct hx_unwind *unwind, struct hx_unwind_thread *thread, uint64_t key);

/* Code is about to be unmapped, or was: whatever is cached is forgotten, by all threads before they
 * take another stack. Call it before and after, and let region->generation grow before the first of
 * these calls: stacks from then on are different from those before. */
void hx_unwind_forget(struct hx_unwind *unwind);

/* The program is about to forbid itself system calls (seccomp): from now on the unwinder makes
 * none. Otherwise it makes openat, read, close, mincore and rt_sigprocmask, once for each thread,
 * for code that no library holds, and on stacks that are not the thread's own. Nothing takes it
 * back.
 */
void hx_unwind_bar_calls(struct hx_unwind *unwind);

#endif
