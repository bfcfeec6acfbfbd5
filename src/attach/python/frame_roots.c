/* frame_roots.c - what lies in frames of Python: each variable, and what is around them. */
#include "attach/python/frames_private.h"

#include "attach/ranges.h"
#include "base/cleanup.h"
#include "base/lower_bound.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define WORD       8
#define PAGE       4096
#define PIECES_MAX ((size_t)1 << 16)
#define PIECE_MAX  ((uint64_t)1 << 30)

static bool read_piece(const struct hx_py_tracing *tracing, uint64_t at, uint64_t top,
                       struct hx_py_piece *ret, uint64_t *ret_before)
{
    const struct hx_snapshot *snapshot = tracing->snapshot;
    const size_t i = hx_mapping_find(snapshot->mapping, snapshot->n_mappings, at);
    uint64_t word[3];
    if (at % WORD || i == snapshot->n_mappings || snapshot->mapping[i].path[0] ||
        !(snapshot->mapping[i].prot & HX_PROT_W) ||
        !hx_image_read(tracing->image, at, word, sizeof word) || word[1] < PAGE || word[1] % PAGE ||
        word[1] > PIECE_MAX || word[1] > snapshot->mapping[i].end - at)
        return false;
    *ret = (struct hx_py_piece){at, top, at + word[1]};
    if (!top)
        ret->live = word[2] > word[1] / WORD ? 0 : at + sizeof word + word[2] * WORD;
    *ret_before = word[0];
    return ret->live >= at + sizeof word && ret->live <= ret->end && ret->live % WORD == 0;
}

/* A piece that makes no sense ends them: what is left stays nameless memory. */
static hx_error *read_pieces(struct hx_py_tracing *tracing, const struct hx_py_thread *thread)
{
    uint64_t top = thread->top, before;
    struct hx_py_piece piece;
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

static bool is_in_pieces(const struct hx_py_tracing *tracing, uint64_t start, uint64_t end)
{
    for (size_t i = 0; i < tracing->pieces.n; i++)
        if (start >= tracing->pieces.v[i].start && end <= tracing->pieces.v[i].live)
            return true;
    return false;
}

/* Takes the name. */
static hx_error *add_root(struct hx_py_tracing *tracing, struct hx_root root, struct hx_text *name,
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

static hx_error *add_frame_root(struct hx_py_tracing *tracing, const struct hx_py_frame *frame,
                                pid_t tid, uint64_t start, uint64_t end, const char *local)
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
static uint64_t end_of_values(const struct hx_py_tracing *tracing, const struct hx_py_frame *frame,
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
static hx_error *add_frame(struct hx_py_tracing *tracing, const struct hx_py_frame *frame,
                           pid_t tid)
{
    const struct hx_py_code *code = &tracing->codes.code.v[frame->code];
    const uint64_t locals = frame->addr + tracing->state->layout.locals;
    const uint64_t values = locals + code->n_locals * (uint64_t)WORD;
    const uint64_t end = values + code->n_stack * (uint64_t)WORD;
    const uint64_t live = end_of_values(tracing, frame, values, end);
    uint64_t at = frame->addr;
    tracing->n_locals += code->n_locals;
    tracing->full |= tracing->n_locals > HX_FRAME_PARTS_MAX;
    if (tracing->full || !frame->owned || !is_in_pieces(tracing, frame->addr, end))
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

static hx_error *add_rest(struct hx_py_tracing *tracing, pid_t tid, uint64_t start, uint64_t end)
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
static hx_error *add_rests(struct hx_py_tracing *tracing, pid_t tid, size_t first)
{
    const size_t n = tracing->roots->n;
    if (n > first)
        qsort(tracing->roots->v + first, n - first, sizeof *tracing->roots->v, compare_roots);
    for (size_t i = 0; i < tracing->pieces.n; i++) {
        const struct hx_py_piece *piece = &tracing->pieces.v[i];
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

hx_error *hx_py_frame_roots(struct hx_py_tracing *tracing, const struct hx_py_thread *thread,
                            size_t from, pid_t tid)
{
    const size_t first = tracing->roots->n;
    HX_TRY(read_pieces(tracing, thread));
    for (size_t i = from; i < tracing->frames.n; i++)
        HX_TRY(add_frame(tracing, &tracing->frames.v[i], tid));
    return add_rests(tracing, tid, first);
}
