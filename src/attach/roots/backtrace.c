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
    /* of each frame of all threads */
    HX_VEC(struct hx_cfi_frame) frames;
    HX_VEC(uint64_t) first;  /* of each thread: its first one; one more at the end */
    size_t left_out;         /* threads for whose frames there was no room, or no time */
    HX_VEC(uint32_t) loaded; /* of each file of `code` its number in snapshot.loaded */
    uint64_t deadline_ns;    /* of names */
    size_t not_kept;         /* frames */
};
_Static_assert((int)HX_KEPT_REGISTERS == (int)HX_CFI_KEPT, "as cfi.h has them");

static void cleanup_tracing(struct tracing *tracing)
{
    hx_reading_hurry(hx_code_reading(tracing->code), 0);
    hx_space_destroy(tracing->space);
    hx_interned_deinit(&tracing->interned);
    hx_vec_free(&tracing->frames);
    hx_vec_free(&tracing->first);
    hx_vec_free(&tracing->loaded);
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
                          uint64_t *word, struct hx_cfi_frame *state, size_t *n, uint64_t *exact)
{
    struct hx_cfi_frame frame = {.pc = thread->pc, .sp = thread->sp, .exact = true};
    frame.fp_known = thread->has_regs && tracing->fp < thread->n_regs;
    frame.fp = frame.fp_known ? thread->regs[tracing->fp] : 0;
    word[0] = HX_EV_VALUE(thread->pc);
    state[0] = frame;
    *n = 1;
    *exact = 1;
    return hx_space_unwind(tracing->space, frame, read_stack_word,
                           (void *)(uintptr_t)&tracing->snapshot->image, word, state,
                           HX_EV_FRAMES_MAX, n, exact);
}

static hx_error *backtrace_thread(struct tracing *tracing, const struct hx_thread *thread,
                                  uint64_t key, uint32_t *ret)
{
    const struct hx_reader_source source = {.locate = locate_pc, .context = tracing};
    uint64_t word[HX_EV_FRAMES_MAX], exact;
    struct hx_cfi_frame state[HX_EV_FRAMES_MAX];
    size_t n;
    *ret = HX_NO_STACK;
    if (!thread->pc && !thread->sp)
        return NULL; /* it could not be stopped, and the kernel did not tell */
    bool whole = unwind_thread(tracing, thread, word, state, &n, &exact);
    if (tracing->frames.n + n > HX_FRAME_PARTS_MAX) {
        tracing->left_out++;
    } else {
        HX_NEED(hx_vec_reserve(&tracing->frames, tracing->frames.n + n));
        memcpy(tracing->frames.v + tracing->frames.n, state, n * sizeof *state);
        tracing->frames.n += n;
    }
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
        HX_NEED(hx_vec_push(&tracing->first, tracing->frames.n));
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
    HX_NEED(hx_vec_push(&tracing->first, tracing->frames.n));
    return NULL;
}

/* --- what lies in frames ------------------------------------------------------------ */

/* The files that code is mapped from, each once. */
static hx_error *collect_loaded(struct tracing *tracing, struct hx_snapshot *snapshot, pid_t via)
{
    for (size_t i = 0; i < snapshot->n_mappings; i++) {
        const struct hx_mapping *mapping = &snapshot->mapping[i];
        struct hx_loaded_file file = {0};
        if (!(mapping->prot & HX_PROT_X) || !hx_mapping_is_file(mapping))
            continue;
        HX_TRY(hx_code_add(tracing->code, via, mapping, &file.code));
        if (file.code == HX_NO_FILE || !hx_code_bias(tracing->code, file.code, mapping, &file.bias))
            continue;
        while (tracing->loaded.n <= file.code)
            HX_NEED(hx_vec_push(&tracing->loaded, HX_NO_FILE));
        if (tracing->loaded.v[file.code] != HX_NO_FILE || snapshot->loaded.n >= HX_LOADED_FILES_MAX)
            continue;
        const char *build_id = hx_code_build_id(tracing->code, file.code);
        tracing->loaded.v[file.code] = (uint32_t)snapshot->loaded.n;
        HX_NEED(hx_vec_push(&snapshot->loaded, file));
        struct hx_loaded_file *kept = &snapshot->loaded.v[snapshot->loaded.n - 1];
        kept->path = strdup(hx_code_path(tracing->code, file.code));
        kept->build_id = *build_id ? strdup(build_id) : NULL;
        HX_NEED(kept->path && (kept->build_id || !*build_id));
    }
    return NULL;
}

/* From what registers had in a frame to what they had in its caller's. */
static void leave_frame(const struct tracing *tracing, uint32_t file,
                        struct hx_stopped_frame *frame)
{
    struct hx_cfi cfi;
    struct hx_cfi_save save[HX_CFI_KEPT];
    bool known = file < hx_code_count(tracing->code) && hx_code_cfi(tracing->code, file, &cfi) &&
                 hx_cfi_find_saves(&cfi, frame->vaddr, save);
    for (unsigned i = 0; i < HX_CFI_KEPT; i++) {
        if (!known || save[i].kind == HX_SAVE_UNKNOWN ||
            (save[i].kind == HX_SAVE_AT_FP && !frame->fp_known)) {
            frame->kept[i] = HX_KEPT_NOT;
        } else if (save[i].kind != HX_SAVE_SAME) {
            const uint64_t base = save[i].kind == HX_SAVE_AT_CFA  ? frame->cfa
                                  : save[i].kind == HX_SAVE_AT_SP ? frame->sp
                                                                  : frame->fp;
            frame->kept[i] = base + (uint64_t)(int64_t)save[i].off;
        }
    }
}

/* For who names it later. */
static hx_error *keep_frame(struct tracing *tracing, struct hx_snapshot *snapshot, uint32_t file,
                            const struct hx_stopped_frame *frame)
{
    if (file >= tracing->loaded.n || tracing->loaded.v[file] == HX_NO_FILE ||
        frame->cfa <= frame->sp)
        return NULL;
    if (snapshot->frames.n >= HX_STOPPED_FRAMES_MAX) {
        tracing->not_kept++;
        return NULL;
    }
    struct hx_stopped_frame kept = *frame;
    kept.file = tracing->loaded.v[file];
    HX_NEED(hx_vec_push(&snapshot->frames, kept));
    return NULL;
}

/* A frame ends where that of its caller begins; of the outermost one nobody knows. */
static hx_error *cut_thread(struct tracing *tracing, struct hx_snapshot *snapshot,
                            const struct hx_recording *recording, size_t thread, uint32_t number,
                            hx_frame_parts *ret)
{
    const struct hx_rec_stack *stack = &recording->stacks.v[number];
    const struct hx_cfi_frame *left = tracing->frames.v + tracing->first.v[thread];
    const uint64_t n = tracing->first.v[thread + 1] - tracing->first.v[thread];
    struct hx_stopped_frame frame = {.tid = snapshot->thread[thread].tid};
    bool looked = true;
    for (unsigned i = 0; i < HX_CFI_KEPT && snapshot->thread[thread].has_regs; i++)
        frame.kept[i] = HX_KEPT_HELD;
    for (uint64_t i = 0; i + 1 < n && i < stack->n; i++) {
        const struct hx_rec_place *at =
            &recording->places.v[recording->stack_places.v[stack->first + i]];
        const uint32_t file = at->kind == HX_REC_CODE ? at->file : HX_NO_FILE;
        frame.position = (uint32_t)i;
        frame.vaddr = at->vaddr;
        frame.sp = left[i].sp;
        frame.fp = left[i].fp;
        frame.fp_known = left[i].fp_known;
        frame.cfa = left[i + 1].sp;
        HX_TRY(keep_frame(tracing, snapshot, file, &frame));
        looked = looked && !ret->full && hx_now_ns() < tracing->deadline_ns;
        if (looked)
            HX_TRY(hx_frame_parts_add(ret, tracing->code, file, &frame));
        leave_frame(tracing, file, &frame);
    }
    tracing->left_out += !looked;
    return NULL;
}

static hx_error *cut_frames(struct tracing *tracing, struct hx_snapshot *snapshot,
                            const struct hx_recording *recording,
                            const struct hx_progress *progress, hx_frame_parts *ret)
{
    hx_error *err = NULL;
    hx_reading_listen(hx_code_reading(tracing->code), progress);
    for (size_t i = 0; i < snapshot->thread_stack.n && !err; i++) {
        if (snapshot->thread_stack.v[i] != HX_NO_STACK)
            err = cut_thread(tracing, snapshot, recording, i, snapshot->thread_stack.v[i], ret);
        if (!err && hx_progress_cancelled(progress))
            err = hx_error_cancelled("variables of functions");
    }
    hx_reading_listen(hx_code_reading(tracing->code), NULL);
    for (size_t i = 0; i < snapshot->loaded.n && !snapshot->unnamed; i++)
        snapshot->unnamed = hx_code_waits(tracing->code, snapshot->loaded.v[i].code);
    if (snapshot->unnamed) { /* all at once: what lies over each other is parted together */
        hx_frame_parts_deinit(ret);
        *ret = (hx_frame_parts){0};
    }
    if (!err && tracing->left_out && !snapshot->unnamed)
        hx_snapshot_note(snapshot, false,
                         "variables on the stacks of %zu threads were not looked for",
                         tracing->left_out);
    if (!err && tracing->not_kept)
        hx_snapshot_note(snapshot, false, "%zu frames are too many to be kept for heapx symbolize",
                         tracing->not_kept);
    return err ? err : hx_frame_parts_join(ret);
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

hx_error *hx_backtraces(struct hx_snapshot *snapshot, pid_t via, hx_code *code, uint64_t names_ns,
                        const struct hx_progress *progress, hx_frame_parts *ret)
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
    tracing.deadline_ns = hx_now_ns() + (names_ns ? names_ns : NAMING_NS);
    if (names_ns)
        hx_reading_hurry(hx_code_reading(code), tracing.deadline_ns);
    HX_TRY(hx_recording_name_until(recording, code, tracing.deadline_ns, progress));
    HX_TRY(collect_loaded(&tracing, snapshot, via));
    HX_TRY(cut_frames(&tracing, snapshot, recording, progress, ret));
    leave_recorder(recording);
    snapshot->backtraces = hx_steal(recording);
    hx_timing_end(begun, "backtraces", snapshot->n_threads); /* "names" included */
    return NULL;
}
