/* backtrace.c - from registers and the copied stacks to named stacks of all threads. */
#include "attach/roots/backtrace.h"

#include "base/cleanup.h"
#include "base/timing.h"
#include "record/read/interned.h"
#include "record/read/space.h"
#include "sym/reading.h"

#include <stdlib.h>
#include <string.h>

#define NAMING_NS ((uint64_t)2000000000)

struct tracing {
    const struct hx_snapshot *snapshot;
    hx_code *code;
    hx_space *space;
    struct hx_interned interned;
    size_t fp; /* index of the frame pointer in registers */
};

static void cleanup_tracing(struct tracing *tracing)
{
    hx_space_destroy(tracing->space);
    hx_interned_deinit(&tracing->interned);
}

/* --- one thread ------------------------------------------------------------------ */

static bool read_stack_word(void *context, uint64_t addr, uint64_t *ret)
{
    return hx_image_u64(context, addr, ret);
}

/* For the interned stacks. The allocator's frames are frames as all others here: a thread may stand
 * in them. */
static void locate_pc(void *context, uint64_t pc, struct hx_location *ret)
{
    const struct tracing *tracing = context;
    const struct hx_space_part *part = hx_space_find(tracing->space, pc);
    *ret = (struct hx_location){.file = HX_NO_FILE, .vaddr = pc};
    if (!part || part->file == HX_NO_FILE)
        return;
    ret->file = part->file;
    ret->vaddr = pc - part->bias;
    ret->start = hx_code_is_start(tracing->code, ret->file, ret->vaddr);
}

static size_t frame_pointer_register(void)
{
    for (size_t i = 0; i < HX_REGS_MAX; i++)
        if (strcmp(hx_reg_name(i), "rbp") == 0)
            return i;
    return HX_REGS_MAX;
}

/* The frames of a thread, innermost first; true: all of them. */
static bool unwind_thread(const struct tracing *tracing, const struct hx_thread *thread,
                          uint64_t *word, size_t *n, uint64_t *exact)
{
    struct hx_cfi_frame frame = {.pc = thread->pc, .sp = thread->sp, .exact = true};
    frame.fp_known = thread->has_regs && tracing->fp < thread->n_regs;
    frame.fp = frame.fp_known ? thread->regs[tracing->fp] : 0;
    word[0] = HX_EV_VALUE(thread->pc);
    *n = 1;
    *exact = 1;
    return hx_space_unwind(tracing->space, frame, read_stack_word,
                           (void *)(uintptr_t)&tracing->snapshot->image, word, HX_EV_FRAMES_MAX, n,
                           exact);
}

static hx_error *backtrace_thread(struct tracing *tracing, const struct hx_thread *thread,
                                  uint64_t key, uint32_t *ret)
{
    const struct hx_reader_source source = {.locate = locate_pc, .context = tracing};
    uint64_t word[HX_EV_FRAMES_MAX], exact;
    size_t n;
    *ret = HX_NO_STACK;
    if (!thread->pc && !thread->sp)
        return NULL; /* it could not be stopped, and the kernel did not tell */
    bool whole = unwind_thread(tracing, thread, word, &n, &exact);
    return hx_interned_add(&tracing->interned, &source, key, word, n, exact, !whole, ret);
}

/* --- all of them ------------------------------------------------------------------ */

static hx_error *trace_all(struct tracing *tracing, struct hx_snapshot *snapshot,
                           const struct hx_progress *progress)
{
    size_t n = snapshot->n_threads;
    snapshot->thread_stack.n = 0;
    HX_NEED(hx_vec_reserve(&snapshot->thread_stack, n));
    for (size_t i = 0; i < n; i++) {
        uint32_t *stack = &snapshot->thread_stack.v[snapshot->thread_stack.n++];
        *stack = HX_NO_STACK;
        if (i >= HX_BACKTRACES_MAX)
            continue;
        if (i % 64 == 0) {
            hx_progress_at(progress, "threads", i, n);
            if (hx_progress_cancelled(progress))
                return hx_error_cancelled("stacks of threads");
        }
        HX_TRY(backtrace_thread(tracing, &snapshot->thread[i], HX_EV_KEY_FIRST + i, stack));
    }
    if (n > HX_BACKTRACES_MAX)
        hx_snapshot_note(snapshot, false, "the stacks of %zu more threads were not looked at",
                         n - HX_BACKTRACES_MAX);
    return NULL;
}

/* The stacks change hands; they cost nothing. */
static hx_error *hand_over(struct hx_interned *interned, struct hx_recording *recording)
{
    size_t n = interned->stacks.n;
    HX_NEED(hx_vec_reserve(&recording->costs, n));
    for (size_t i = 0; i < n; i++)
        recording->costs.v[i] = (struct hx_rec_costs){0};
    recording->costs.n = n;
    memcpy(&recording->places, &interned->places, sizeof recording->places);
    memcpy(&recording->stack_places, &interned->stack_places, sizeof recording->stack_places);
    memcpy(&recording->stacks, &interned->stacks, sizeof recording->stacks);
    memset(&interned->places, 0, sizeof interned->places);
    memset(&interned->stack_places, 0, sizeof interned->stack_places);
    memset(&interned->stacks, 0, sizeof interned->stacks);
    recording->method = "stop";
    return NULL;
}

/* A thread that was stopped inside the recorder's library stands where it went there. */
static void leave_recorder(struct hx_recording *recording)
{
    for (size_t i = 0; i < recording->stacks.n; i++) {
        struct hx_rec_stack *stack = &recording->stacks.v[i];
        const uint32_t *place = recording->stack_places.v;
        while (stack->n > 1 && recording->places.v[place[stack->first]].recorder) {
            stack->first++;
            stack->n--;
        }
    }
}

hx_error *hx_backtraces(struct hx_snapshot *snapshot, pid_t via, hx_code *code,
                        const struct hx_progress *progress)
{
    HX_CLEANUP(cleanup_tracing)
    struct tracing tracing = {.snapshot = snapshot, .code = code, .fp = frame_pointer_register()};
    HX_RECORDING struct hx_recording *recording = NULL;
    uint64_t begun = hx_timing_begin();
    /* a recorder with the same set has named its frames, and listens no longer */
    hx_reading_listen(hx_code_reading(code), progress);
    hx_interned_init(&tracing.interned);
    HX_TRY(
        hx_space_create_fixed(via, code, snapshot->mapping, snapshot->n_mappings, &tracing.space));
    HX_TRY(hx_recording_create(&recording));
    HX_TRY(trace_all(&tracing, snapshot, progress));
    HX_TRY(hand_over(&tracing.interned, recording));
    HX_TRY(hx_recording_name_until(recording, code, hx_now_ns() + NAMING_NS, progress));
    leave_recorder(recording);
    snapshot->backtraces = hx_steal(recording);
    hx_timing_end(begun, "backtraces", snapshot->n_threads); /* "names" included */
    return NULL;
}
