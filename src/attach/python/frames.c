/* frames.c - which functions of Python threads are in, and what these hold. */
#include "attach/python/frames.h"

#include "attach/ranges.h"
#include "attach/roots/backtrace.h"
#include "base/cleanup.h"
#include "base/lower_bound.h"
#include "base/timing.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define WORD       8
#define PAGE       4096
#define PIECES_MAX ((size_t)1 << 16)
#define PIECE_MAX  ((uint64_t)1 << 30)
#define LOOP       "_PyEval_EvalFrameDefault"

enum { OWNED_BY_THREAD = 0, OF_C = 3 /* or more: it is of no function */ };

struct frame {
    uint64_t addr, instruction;
    uint32_t code;
    bool entered; /* a loop was begun for it: a frame of C is around it */
    bool owned;   /* it lies in the thread's memory of frames */
};

/* Memory of frames: [start, live) is in use. */
struct piece {
    uint64_t start, live, end;
};

struct tracing {
    struct hx_snapshot *snapshot;
    const struct hx_image *image;
    const struct hx_py_state *state;
    struct hx_py_codes codes;
    struct hx_pairs places;        /* of a code object and an offset in it */
    struct hx_pairs by_id, by_tid; /* threads of the process */
    bool *traced;                  /* of each of these */
    HX_VEC(struct frame) frames;   /* of one thread, innermost first */
    HX_VEC(struct piece) pieces;   /* the same */
    bool cut;                      /* outer frames of the thread are missing */
    size_t n_frames, n_pieces;     /* of all */
    size_t cut_threads, strange;   /* threads; threads that are none of the process */
    hx_root_list *roots;
    hx_ranges *excluded;
};

static void cleanup_tracing(struct tracing *tracing)
{
    hx_py_codes_deinit(&tracing->codes);
    hx_pairs_free(&tracing->places);
    hx_pairs_free(&tracing->by_id);
    hx_pairs_free(&tracing->by_tid);
    free(tracing->traced);
    hx_vec_free(&tracing->frames);
    hx_vec_free(&tracing->pieces);
}

/* --- the frames of a thread --------------------------------------------------------------- */

static bool read_frame(const struct tracing *tracing, uint64_t at, struct frame *ret,
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

/* Ends at what is no frame, and where they go round. */
static hx_error *read_frames(struct tracing *tracing, uint64_t at)
{
    uint64_t seen = 0, code, previous;
    uint8_t owner;
    size_t n = 0;
    tracing->frames.n = 0;
    tracing->cut = false;
    for (; at; at = previous, n++) {
        struct frame frame;
        tracing->cut = at == seen || n >= 2 * HX_PY_FRAMES_MAX ||
                       tracing->frames.n >= HX_PY_FRAMES_MAX ||
                       tracing->n_frames >= HX_PY_ALL_FRAMES_MAX ||
                       !read_frame(tracing, at, &frame, &code, &previous, &owner);
        if (tracing->cut)
            break;
        if ((n & (n - 1)) == 0)
            seen = at;
        if (owner >= OF_C) {
            if (tracing->frames.n)
                tracing->frames.v[tracing->frames.n - 1].entered = true;
            continue;
        }
        HX_TRY(hx_py_code_at(&tracing->codes, code, &frame.code));
        tracing->cut = frame.code == HX_NO_PAIR;
        if (tracing->cut)
            break;
        HX_NEED(hx_vec_push(&tracing->frames, frame));
        tracing->n_frames++;
    }
    tracing->cut_threads += tracing->cut;
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
static hx_error *place_of(struct tracing *tracing, const struct frame *frame, uint32_t *ret)
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
static hx_error *push_frames(struct tracing *tracing, bool all, size_t *i)
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
static hx_error *join_frames(struct tracing *tracing, size_t thread)
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

/* --- roots -------------------------------------------------------------------------------- */

static bool read_piece(const struct tracing *tracing, uint64_t at, uint64_t top, struct piece *ret,
                       uint64_t *ret_before)
{
    const struct hx_snapshot *snapshot = tracing->snapshot;
    const size_t i = hx_mapping_find(snapshot->mapping, snapshot->n_mappings, at);
    uint64_t word[3];
    if (at % WORD || i == snapshot->n_mappings || snapshot->mapping[i].path[0] ||
        !(snapshot->mapping[i].prot & HX_PROT_W) ||
        !hx_image_read(tracing->image, at, word, sizeof word) || word[1] < PAGE || word[1] % PAGE ||
        word[1] > PIECE_MAX || word[1] > snapshot->mapping[i].end - at)
        return false;
    *ret = (struct piece){at, top, at + word[1]};
    if (!top)
        ret->live = word[2] > word[1] / WORD ? 0 : at + sizeof word + word[2] * WORD;
    *ret_before = word[0];
    return ret->live >= at + sizeof word && ret->live <= ret->end && ret->live % WORD == 0;
}

/* A piece that makes no sense ends them: what is left stays nameless memory. */
static hx_error *read_pieces(struct tracing *tracing, const struct hx_py_thread *thread)
{
    uint64_t top = thread->top, before;
    struct piece piece;
    tracing->pieces.n = 0;
    for (uint64_t at = thread->chunk; at && tracing->n_pieces < PIECES_MAX; at = before, top = 0) {
        if (!read_piece(tracing, at, top, &piece, &before))
            break;
        HX_NEED(hx_vec_push(&tracing->pieces, piece));
        HX_NEED(hx_ranges_add(tracing->excluded, piece.live, piece.end));
        tracing->n_pieces++;
    }
    return NULL;
}

static bool is_in_pieces(const struct tracing *tracing, uint64_t start, uint64_t end)
{
    for (size_t i = 0; i < tracing->pieces.n; i++)
        if (start >= tracing->pieces.v[i].start && end <= tracing->pieces.v[i].live)
            return true;
    return false;
}

/* Takes the name. */
static hx_error *add_root(struct tracing *tracing, struct hx_root root, struct hx_text *name,
                          const char *file)
{
    const char *slash = strrchr(file, '/');
    root.name = name->failed ? NULL : hx_steal(name->s);
    root.module = strdup(slash ? slash + 1 : file);
    if (root.name && root.module && hx_vec_push(tracing->roots, root))
        return NULL;
    hx_root_deinit(&root);
    return hx_error_nomem();
}

static hx_error *add_frame_root(struct tracing *tracing, const struct frame *frame, pid_t tid,
                                uint64_t start, uint64_t end, const char *local)
{
    const struct hx_py_code *code = &tracing->codes.code.v[frame->code];
    HX_CLEANUP(hx_text_free) struct hx_text name = {0};
    const struct hx_root root = {.kind = HX_ROOT_FRAME,
                                 .address = start,
                                 .size = end - start,
                                 .words = local ? HX_WORDS_IN_USE : HX_WORDS_ANY,
                                 .tid = tid};
    if (end <= start)
        return NULL;
    if (local)
        hx_text_putf(&name, "%s: %s", code->qualname, local);
    else
        hx_text_putf(&name, "%s +0x%" PRIx64, code->qualname, start - frame->addr);
    return add_root(tracing, root, &name, code->file);
}

/* Where the values end that a function works with: behind them lie old ones. While it runs, or
 * calls a function of C, nobody knows. */
static uint64_t end_of_values(const struct tracing *tracing, const struct frame *frame,
                              uint64_t values, uint64_t end)
{
    const struct hx_py_state_layout *layout = &tracing->state->layout;
    uint64_t at = 0;
    uint32_t n;
    if (layout->end)
        hx_image_u64(tracing->image, frame->addr + layout->end, &at);
    else if (hx_image_u32(tracing->image, frame->addr + layout->values, &n) && n <= INT32_MAX)
        at = frame->addr + layout->locals + n * (uint64_t)WORD;
    return at >= values && at <= end && at % WORD == 0 ? at : end;
}

/* Each variable, and what is around them. */
static hx_error *add_frame(struct tracing *tracing, const struct frame *frame, pid_t tid)
{
    const struct hx_py_code *code = &tracing->codes.code.v[frame->code];
    const uint64_t locals = frame->addr + tracing->state->layout.locals;
    const uint64_t values = locals + code->n_locals * (uint64_t)WORD;
    const uint64_t end = values + code->n_stack * (uint64_t)WORD;
    const uint64_t live = end_of_values(tracing, frame, values, end);
    uint64_t at = frame->addr;
    if (!frame->owned || !is_in_pieces(tracing, frame->addr, end))
        return NULL;
    HX_NEED(hx_ranges_add(tracing->excluded, live, end));
    for (uint32_t i = 0; i < code->n_locals; i++) {
        HX_CLEANUP(hx_text_free) struct hx_text local = {0};
        const uint64_t word = locals + i * (uint64_t)WORD;
        if (!hx_py_code_put_local(&tracing->codes, frame->code, i, &local))
            continue;
        HX_NEED(!local.failed);
        HX_TRY(add_frame_root(tracing, frame, tid, at, word, NULL));
        HX_TRY(add_frame_root(tracing, frame, tid, word, word + WORD, hx_text_str(&local)));
        at = word + WORD;
    }
    return add_frame_root(tracing, frame, tid, at, live, NULL);
}

static hx_error *add_rest(struct tracing *tracing, pid_t tid, uint64_t start, uint64_t end)
{
    HX_CLEANUP(hx_text_free) struct hx_text name = {0};
    const struct hx_root root = {
        .kind = HX_ROOT_STACK, .address = start, .size = end - start, .rest = true, .tid = tid};
    if (end <= start)
        return NULL;
    hx_text_puts(&name, "frames of Python");
    if (tid)
        hx_text_putf(&name, " of thread %d", (int)tid);
    return add_root(tracing, root, &name, "");
}

static int compare_roots(const void *a, const void *b)
{
    const struct hx_root *x = a, *y = b;
    return (x->address > y->address) - (x->address < y->address);
}

/* What of the memory in use is in none of the roots [first, n), which are the thread's. */
static hx_error *add_rests(struct tracing *tracing, pid_t tid, size_t first)
{
    const size_t n = tracing->roots->n;
    if (n > first)
        qsort(tracing->roots->v + first, n - first, sizeof *tracing->roots->v, compare_roots);
    for (size_t i = 0; i < tracing->pieces.n; i++) {
        const struct piece *piece = &tracing->pieces.v[i];
        uint64_t at = piece->start;
        size_t k = first + HX_LOWER_BOUND(n - first, m,
                                          tracing->roots->v[first + m].address < piece->start);
        for (; k < n && tracing->roots->v[k].address < piece->live; k++) {
            const uint64_t start = tracing->roots->v[k].address;
            const uint64_t end = start + tracing->roots->v[k].size;
            HX_TRY(add_rest(tracing, tid, at, start));
            at = end > at ? end : at;
        }
        HX_TRY(add_rest(tracing, tid, at, piece->live));
    }
    return NULL;
}

/* --- all of them -------------------------------------------------------------------------- */

static hx_error *list_threads(struct tracing *tracing)
{
    const struct hx_snapshot *snapshot = tracing->snapshot;
    uint32_t *number;
    HX_NEED(tracing->traced = calloc(snapshot->n_threads + 1, sizeof *tracing->traced));
    for (size_t i = 0; i < snapshot->n_threads && i < HX_BACKTRACES_MAX; i++) {
        HX_TRY(hx_pairs_at(&tracing->by_id, snapshot->thread[i].tp, &number));
        *number = (uint32_t)i;
        HX_TRY(hx_pairs_at(&tracing->by_tid, (uint64_t)snapshot->thread[i].ns_tid, &number));
        *number = (uint32_t)i;
    }
    return NULL;
}

/* The number of the thread of the process; HX_NO_PAIR: it is none. */
static uint32_t find_thread(const struct tracing *tracing, const struct hx_py_thread *thread)
{
    const uint32_t i = thread->id ? hx_pairs_find(&tracing->by_id, thread->id) : HX_NO_PAIR;
    return i == HX_NO_PAIR && thread->tid ? hx_pairs_find(&tracing->by_tid, (uint64_t)thread->tid)
                                          : i;
}

static hx_error *trace_thread(struct tracing *tracing, const struct hx_py_thread *thread)
{
    const uint32_t i = find_thread(tracing, thread);
    const bool known = i != HX_NO_PAIR && !tracing->traced[i];
    const pid_t tid = known ? tracing->snapshot->thread[i].tid : 0;
    const size_t first = tracing->roots->n;
    HX_TRY(read_frames(tracing, thread->frame));
    HX_TRY(read_pieces(tracing, thread));
    for (size_t k = 0; k < tracing->frames.n; k++)
        HX_TRY(add_frame(tracing, &tracing->frames.v[k], tid));
    HX_TRY(add_rests(tracing, tid, first));
    tracing->strange += !known && tracing->frames.n;
    if (!known || !tracing->frames.n || i >= tracing->snapshot->thread_stack.n)
        return NULL;
    tracing->traced[i] = true;
    return join_frames(tracing, i);
}

static void tell_losses(const struct tracing *tracing)
{
    struct hx_snapshot *snapshot = tracing->snapshot;
    if (tracing->cut_threads)
        hx_snapshot_lose(snapshot, "threads whose outer frames of Python are missing",
                         tracing->cut_threads, 0, 0);
    if (tracing->strange)
        hx_snapshot_lose(snapshot, "threads of Python that the process has not", tracing->strange,
                         0, 0);
}

hx_error *hx_py_frames_find(struct hx_snapshot *snapshot, struct hx_py_classes *classes,
                            const struct hx_py_state *state, hx_root_list *roots,
                            hx_ranges *excluded)
{
    HX_CLEANUP(cleanup_tracing)
    struct tracing tracing = {.snapshot = snapshot,
                              .image = &snapshot->image,
                              .state = state,
                              .codes = {.classes = classes, .layout = &state->layout.code_object},
                              .roots = roots,
                              .excluded = excluded};
    const uint64_t begun = hx_timing_begin();
    HX_TRY(list_threads(&tracing));
    for (size_t i = 0; i < state->threads.n; i++)
        HX_TRY(trace_thread(&tracing, &state->threads.v[i]));
    tell_losses(&tracing);
    hx_timing_end(begun, "python-frames", tracing.n_frames);
    return NULL;
}
