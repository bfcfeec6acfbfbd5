/* frames.c - which functions of Python threads are in, and what these hold. */
#include "attach/python/frames_private.h"

#include "attach/roots/backtrace.h"
#include "attach/roots/frame_parts.h"
#include "base/cleanup.h"

#include <stdlib.h>
#include <string.h>

#define WORD         8
#define SEARCHES_MAX 1000
#define LOOP         "_PyEval_EvalFrameDefault"

enum { OWNED_BY_THREAD = 0, OF_C = 3 /* or more: it is of no function */ };

static void cleanup_tracing(struct hx_py_tracing *tracing)
{
    hx_py_codes_deinit(&tracing->codes);
    hx_pairs_free(&tracing->places);
    hx_pairs_free(&tracing->by_id);
    hx_pairs_free(&tracing->by_tid);
    hx_vec_free(&tracing->turns);
    hx_vec_free(&tracing->frames);
    hx_vec_free(&tracing->pieces);
}

/* --- the frames of a thread --------------------------------------------------------------- */

static bool read_frame(const struct hx_py_tracing *tracing, uint64_t at, struct hx_py_frame *ret,
                       uint64_t *ret_code, uint64_t *ret_previous, uint8_t *ret_owner)
{
    const struct hx_py_state_layout *layout = &tracing->state->layout;
    uint8_t entered = 0;
    ret->addr = at;
    if (at % WORD || !hx_image_u64(tracing->image, at + layout->code, ret_code) ||
        !hx_image_u64(tracing->image, at + layout->previous, ret_previous) ||
        !hx_image_u64(tracing->image, at + layout->instruction, &ret->instruction) ||
        !hx_image_read(tracing->image, at + layout->owner, ret_owner, 1) ||
        (layout->entry && !hx_image_read(tracing->image, at + layout->entry, &entered, 1)))
        return false;
    *ret_code &= ~layout->tags;
    ret->entered = entered;
    ret->owned = *ret_owner == OWNED_BY_THREAD;
    return true;
}

/* Appends them. Ends at what is no frame, and where they go round. */
static hx_error *read_frames(struct hx_py_tracing *tracing, uint64_t at)
{
    uint64_t seen = 0, code, previous;
    uint8_t owner;
    size_t n = 0;
    bool cut = false;
    for (; at && !cut; at = previous, n++) {
        struct hx_py_frame frame;
        cut = at == seen || n >= 2 * HX_PY_FRAMES_MAX || tracing->frames.n >= HX_PY_FRAMES_MAX ||
              tracing->n_frames >= HX_PY_ALL_FRAMES_MAX ||
              !read_frame(tracing, at, &frame, &code, &previous, &owner);
        if (cut)
            break;
        if ((n & (n - 1)) == 0)
            seen = at;
        if (owner >= OF_C) {
            if (tracing->frames.n)
                tracing->frames.v[tracing->frames.n - 1].entered = true;
            continue;
        }
        HX_TRY(hx_py_code_at(&tracing->codes, code, &frame.code));
        cut = frame.code == HX_NO_PAIR;
        if (cut)
            break;
        HX_NEED(hx_vec_push(&tracing->frames, frame));
        tracing->n_frames++;
    }
    tracing->cut |= cut;
    tracing->cut_threads += cut;
    return NULL;
}

/* --- in the stack of the thread ------------------------------------------------------------ */

static hx_error *set_line(const struct hx_py_code *code, uint32_t at, struct hx_rec_line *ret)
{
    *ret = (struct hx_rec_line){.function = strdup(code->name),
                                .brief = strdup(code->name),
                                .source = strdup(code->file),
                                .line = at,
                                .declared = strdup(code->file),
                                .declared_line = code->first_line};
    HX_NEED(ret->function && ret->brief && ret->source && ret->declared);
    return NULL;
}

/* The place of a frame: one for each instruction that a thread is at. */
static hx_error *place_of(struct hx_py_tracing *tracing, const struct hx_py_frame *frame,
                          uint32_t *ret)
{
    struct hx_recording *stacks = tracing->snapshot->backtraces;
    const struct hx_py_code *code = &tracing->codes.code.v[frame->code];
    const uint64_t offset = frame->instruction - code->start;
    uint32_t *number, line;
    HX_TRY(hx_pairs_at(&tracing->places, hx_pair_key(frame->code, (uint32_t)offset), &number));
    if (*number == HX_NO_PAIR) {
        HX_TRY(hx_py_code_line(&tracing->codes, frame->code, frame->instruction, &line));
        HX_NEED(hx_vec_push(&stacks->places, (struct hx_rec_place){.file = UINT32_MAX,
                                                                   .vaddr = frame->instruction,
                                                                   .language = "Python"}));
        *number = (uint32_t)stacks->places.n - 1;
        struct hx_rec_place *place = &stacks->places.v[*number];
        HX_NEED(place->lines = calloc(1, sizeof *place->lines));
        place->n_lines = 1;
        HX_TRY(set_line(code, line, place->lines));
    }
    *ret = *number;
    return NULL;
}

static bool is_loop(const struct hx_recording *stacks, uint32_t place)
{
    const struct hx_rec_place *at = &stacks->places.v[place];
    for (size_t i = 0; i < at->n_lines; i++)
        if (at->lines[i].function && strncmp(at->lines[i].function, LOOP, strlen(LOOP)) == 0)
            return true;
    return false;
}

/* Frames from `i` on, up to the one that a loop was begun for; `all`: to the last one. */
static hx_error *push_frames(struct hx_py_tracing *tracing, bool all, size_t *i)
{
    struct hx_recording *stacks = tracing->snapshot->backtraces;
    for (bool more = true; more && *i < tracing->frames.n; ++*i) {
        uint32_t place = 0;
        HX_TRY(place_of(tracing, &tracing->frames.v[*i], &place));
        HX_NEED(hx_vec_push(&stacks->stack_places, place));
        more = all || !tracing->frames.v[*i].entered;
    }
    return NULL;
}

/* How many frames of a stack are the interpreter's loop. */
static uint32_t count_loops(const struct hx_recording *stacks, const struct hx_rec_stack *stack)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < stack->n; i++)
        n += is_loop(stacks, stacks->stack_places.v[stack->first + i]);
    return n;
}

/* Where a stack of C is cut, or a loop has no name, the outer functions of Python stand together.
 */
static hx_error *join_frames(struct hx_py_tracing *tracing, size_t thread)
{
    struct hx_recording *stacks = tracing->snapshot->backtraces;
    uint32_t *number = &tracing->snapshot->thread_stack.v[thread];
    struct hx_rec_stack of_c = {0};
    if (*number != HX_NO_STACK)
        of_c = stacks->stacks.v[*number];
    struct hx_rec_stack joined = {.first = stacks->stack_places.n, .cut = of_c.cut || tracing->cut};
    uint32_t loops = count_loops(stacks, &of_c);
    size_t at = 0;
    for (uint32_t i = 0; i < of_c.n; i++) {
        const uint32_t place = stacks->stack_places.v[of_c.first + i];
        if (is_loop(stacks, place))
            HX_TRY(push_frames(tracing, --loops == 0, &at));
        HX_NEED(hx_vec_push(&stacks->stack_places, place));
    }
    HX_TRY(push_frames(tracing, true, &at));
    joined.n = (uint32_t)(stacks->stack_places.n - joined.first);
    HX_NEED(hx_vec_push(&stacks->costs, (struct hx_rec_costs){0}));
    HX_NEED(hx_vec_push(&stacks->stacks, joined));
    *number = (uint32_t)stacks->stacks.n - 1;
    return NULL;
}

/* --- all of them -------------------------------------------------------------------------- */

static hx_error *list_threads(struct hx_py_tracing *tracing)
{
    const struct hx_snapshot *snapshot = tracing->snapshot;
    uint32_t *number;
    for (size_t i = 0; i < snapshot->n_threads && i < HX_BACKTRACES_MAX; i++) {
        HX_TRY(hx_pairs_at(&tracing->by_id, snapshot->thread[i].tp, &number));
        *number = (uint32_t)i;
        HX_TRY(hx_pairs_at(&tracing->by_tid, (uint64_t)snapshot->thread[i].ns_tid, &number));
        *number = (uint32_t)i;
    }
    return NULL;
}

/* The number of the thread of the process; HX_NO_PAIR: it is none. */
static uint32_t find_thread(const struct hx_py_tracing *tracing, const struct hx_py_thread *thread)
{
    const uint32_t i = thread->id ? hx_pairs_find(&tracing->by_id, thread->id) : HX_NO_PAIR;
    return i == HX_NO_PAIR && thread->tid ? hx_pairs_find(&tracing->by_tid, (uint64_t)thread->tid)
                                          : i;
}

/* Where the loop of a thread is on the stack of C: there its innermost frame of no function lies.
 */
static uint64_t depth_of(const struct hx_py_tracing *tracing, const struct hx_py_thread *thread)
{
    uint64_t at = thread->frame, code, previous;
    uint8_t owner = 0;
    struct hx_py_frame frame;
    for (size_t n = 0; !thread->depth && n < HX_PY_FRAMES_MAX && at; n++, at = previous)
        if (!read_frame(tracing, at, &frame, &code, &previous, &owner) || owner >= OF_C)
            return at;
    return thread->depth;
}

/* Of a thread of an interpreter that was made in another one its loop tells where it is. */
static uint32_t find_by_depth(struct hx_py_tracing *tracing, uint32_t thread, uint64_t depth)
{
    const struct hx_snapshot *snapshot = tracing->snapshot;
    const size_t stack = hx_mapping_find(snapshot->mapping, snapshot->n_mappings, depth);
    const size_t n = snapshot->n_threads < HX_BACKTRACES_MAX ? snapshot->n_threads : 0;
    if (!depth || stack == snapshot->n_mappings || tracing->n_searches >= SEARCHES_MAX)
        return thread;
    const uint64_t start = snapshot->mapping[stack].start;
    if (thread < n && snapshot->thread[thread].sp >= start && snapshot->thread[thread].sp <= depth)
        return thread;
    tracing->n_searches++;
    for (size_t i = 0; i < n; i++)
        if (snapshot->thread[i].sp >= start && snapshot->thread[i].sp <= depth)
            return (uint32_t)i;
    return thread;
}

static int compare_turns(const void *a, const void *b)
{
    const struct hx_py_turn *x = a, *y = b;
    if (x->thread != y->thread)
        return x->thread < y->thread ? -1 : 1;
    if (x->depth != y->depth)
        return x->depth < y->depth ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

static hx_error *find_turns(struct hx_py_tracing *tracing)
{
    for (size_t i = 0; i < tracing->state->threads.n; i++) {
        const struct hx_py_thread *thread = &tracing->state->threads.v[i];
        struct hx_py_turn turn = {.thread = find_thread(tracing, thread), .number = (uint32_t)i};
        if (tracing->state->interpreters.n > 1) {
            turn.depth = depth_of(tracing, thread);
            turn.thread = find_by_depth(tracing, turn.thread, turn.depth);
        }
        HX_NEED(hx_vec_push(&tracing->turns, turn));
    }
    if (tracing->turns.n)
        qsort(tracing->turns.v, tracing->turns.n, sizeof *tracing->turns.v, compare_turns);
    return NULL;
}

static hx_error *trace_turn(struct hx_py_tracing *tracing, const struct hx_py_turn *turn)
{
    const struct hx_py_thread *thread = &tracing->state->threads.v[turn->number];
    const bool known = turn->thread != HX_NO_PAIR;
    const pid_t tid = known ? tracing->snapshot->thread[turn->thread].tid : 0;
    const size_t frames = tracing->frames.n;
    HX_TRY(read_frames(tracing, thread->frame));
    HX_TRY(hx_py_frame_roots(tracing, thread, frames, tid));
    if (tracing->frames.n > frames) {
        tracing->frames.v[tracing->frames.n - 1].entered = true;
        tracing->strange += !known;
    }
    return NULL;
}

static hx_error *trace_all(struct hx_py_tracing *tracing)
{
    for (size_t i = 0; i < tracing->turns.n;) {
        const uint32_t thread = tracing->turns.v[i].thread;
        tracing->frames.n = 0;
        tracing->cut = false;
        do
            HX_TRY(trace_turn(tracing, &tracing->turns.v[i++]));
        while (thread != HX_NO_PAIR && i < tracing->turns.n &&
               tracing->turns.v[i].thread == thread);
        if (tracing->frames.n && thread < tracing->snapshot->thread_stack.n)
            HX_TRY(join_frames(tracing, thread));
    }
    return NULL;
}

static void tell_losses(const struct hx_py_tracing *tracing)
{
    struct hx_snapshot *snapshot = tracing->snapshot;
    if (tracing->cut_threads)
        hx_snapshot_lose(snapshot, "threads whose outer frames of Python are missing",
                         tracing->cut_threads, 0, 0);
    if (tracing->full)
        hx_snapshot_note(snapshot, false, "Python's functions have more variables than are named");
    if (tracing->strange)
        hx_snapshot_lose(snapshot, "threads of Python that the process has not", tracing->strange,
                         0, 0);
}

hx_error *hx_py_frames_find(struct hx_snapshot *snapshot, struct hx_py_classes *classes,
                            const struct hx_py_state *state, hx_root_list *roots,
                            hx_ranges *excluded)
{
    HX_CLEANUP(cleanup_tracing)
    struct hx_py_tracing tracing = {
        .snapshot = snapshot,
        .image = &snapshot->image,
        .state = state,
        .codes = {.classes = classes, .layout = &state->layout.code_object},
        .roots = roots,
        .excluded = excluded};
    HX_TRY(list_threads(&tracing));
    HX_TRY(find_turns(&tracing));
    HX_TRY(trace_all(&tracing));
    tell_losses(&tracing);
    return NULL;
}
