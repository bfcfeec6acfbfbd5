/* state.c - the interpreter's own record of its threads. */
#include "attach/python/state.h"

#include <stdlib.h>
#include <string.h>

#define OFFSET_MAX  ((uint64_t)1 << 22) /* in an interpreter */
#define OBJECT_MAX  4096                /* in the others */
#define TABLE_WORDS 64

/* 3.11 and 3.12. */
static const struct known {
    uint32_t version;
    struct hx_py_state_layout layout;
} known[] = {
    {HX_PYTHON(3, 11),
     {.interpreters = 40,
      .next_interpreter = 0,
      .threads = 16,
      .gc = 648,
      .modules = 888,
      .sys = 904,
      .builtins = 912,
      .free_list = {{3872, 4512}, {4520, 5160}, {5168, 5808}, {5816, 6456}, {6464, 7104}},
      .next = 8,
      .interpreter = 16,
      .frame = 56,
      .id = 152,
      .tid = 160,
      .chunk = 296,
      .top = 304,
      .in_frame = 8,
      .code = 32,
      .previous = 48,
      .instruction = 56,
      .owner = 69,
      .locals = 72,
      .values = 64,
      .entry = 68,
      .code_object = {.stacksize = 68,
                      .first_line = 72,
                      .n_locals = 76,
                      .local_names = 96,
                      .file = 112,
                      .name = 120,
                      .qualname = 128,
                      .lines = 136,
                      .code = 184}}},
    {HX_PYTHON(3, 12),
     {.interpreters = 40,
      .next_interpreter = 0,
      .threads = 72,
      .gc = 112,
      .modules = 944,
      .sys = 352,
      .builtins = 360,
      .flags = 1712,
      .free_list = {{270072, 270712},
                    {270736, 272016},
                    {271376, 272020},
                    {272088, 272728},
                    {272736, 273376}},
      .next = 8,
      .interpreter = 16,
      .frame = 56,
      .id = 136,
      .tid = 144,
      .chunk = 232,
      .top = 240,
      .in_frame = 0,
      .code = 0,
      .previous = 8,
      .instruction = 56,
      .owner = 70,
      .locals = 72,
      .values = 64,
      .code_object = {.stacksize = 64,
                      .first_line = 68,
                      .n_locals = 72,
                      .local_names = 96,
                      .file = 112,
                      .name = 120,
                      .qualname = 128,
                      .lines = 136,
                      .code = 192}}},
};

/* Words of the table for debuggers: where its parts begin that lie elsewhere in some version. */
enum { INTERPRETERS = 5, NEXT_INTERPRETER = 8, THREADS = 9 };
enum { THREAD_NEXT = 2, THREAD_INTERPRETER, THREAD_FRAME, THREAD_ID, THREAD_TID, THREAD_CHUNK };
enum { FRAME_PREVIOUS = 1, FRAME_CODE, FRAME_INSTRUCTION, FRAME_LOCALS, FRAME_OWNER, FRAME_END };
enum {
    CODE_FILE = 1,
    CODE_NAME,
    CODE_QUALNAME,
    CODE_LINES,
    CODE_FIRST_LINE,
    CODE_ARGUMENTS,
    CODE_LOCAL_NAMES,
    CODE_KINDS,
    CODE_CODE
};
static const struct parts {
    uint32_t version;
    uint8_t gc, thread, frame, code;
    uint8_t tags;
    bool has_end;
    /* of an interpreter, which the table does not tell */
    uint32_t flags;
    struct hx_py_free_list free_list[HX_PY_FREE_LISTS];
} parts[] = {
    {HX_PYTHON(3, 13),
     10,
     19,
     28,
     34,
     0,
     false,
     8440,
     {{11208, 11848}, {11856, 12496}, {12504, 13144}, {13176, 13816}, {13824, 14464}}},
    {HX_PYTHON(3, 14), 11, 22, 31, 39, 3, true, 0, {{0}}}, /* its free lists are linked */
};

static bool read_table(const struct parts *at, const uint64_t *word, struct hx_py_state_layout *ret)
{
    const uint64_t *thread = word + at->thread, *frame = word + at->frame, *code = word + at->code;
    for (size_t i = INTERPRETERS; i <= at->code + (size_t)CODE_CODE; i++)
        if (word[i] > (i < at->thread ? OFFSET_MAX : OBJECT_MAX))
            return false;
    if (code[CODE_FIRST_LINE] < 4 || frame[FRAME_LOCALS] < 8)
        return false;
    *ret = (struct hx_py_state_layout){
        .interpreters = (uint32_t)word[INTERPRETERS],
        .next_interpreter = (uint32_t)word[NEXT_INTERPRETER],
        .threads = (uint32_t)word[THREADS],
        .flags = at->flags,
        .gc = (uint32_t)word[at->gc],
        .modules = (uint32_t)word[at->gc + 1],
        .sys = (uint32_t)word[at->gc + 2],
        .builtins = (uint32_t)word[at->gc + 3],
        .next = (uint16_t)thread[THREAD_NEXT],
        .interpreter = (uint16_t)thread[THREAD_INTERPRETER],
        .frame = (uint16_t)thread[THREAD_FRAME],
        .id = (uint16_t)thread[THREAD_ID],
        .tid = (uint16_t)thread[THREAD_TID],
        .chunk = (uint16_t)thread[THREAD_CHUNK],
        .top = (uint16_t)(thread[THREAD_CHUNK] + 8),
        .direct = true,
        .code = (uint16_t)frame[FRAME_CODE],
        .previous = (uint16_t)frame[FRAME_PREVIOUS],
        .instruction = (uint16_t)frame[FRAME_INSTRUCTION],
        .owner = (uint16_t)frame[FRAME_OWNER],
        .locals = (uint16_t)frame[FRAME_LOCALS],
        .values = (uint16_t)(frame[FRAME_LOCALS] - 8),
        .end = at->has_end ? (uint16_t)frame[FRAME_END] : 0,
        .tags = at->tags,
        .code_object = {.stacksize = (uint16_t)(code[CODE_FIRST_LINE] - 4),
                        .first_line = (uint16_t)code[CODE_FIRST_LINE],
                        .n_locals = (uint16_t)(code[CODE_FIRST_LINE] + 4),
                        .local_names = (uint16_t)code[CODE_LOCAL_NAMES],
                        .file = (uint16_t)code[CODE_FILE],
                        .name = (uint16_t)code[CODE_NAME],
                        .qualname = (uint16_t)code[CODE_QUALNAME],
                        .lines = (uint16_t)code[CODE_LINES],
                        .code = (uint16_t)code[CODE_CODE]}};
    memcpy(ret->free_list, at->free_list, sizeof ret->free_list);
    return true;
}

bool hx_py_state_layout(const struct hx_python *python, const struct hx_peek *peek,
                        struct hx_py_state_layout *ret)
{
    uint64_t word[TABLE_WORDS];
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].version == python->version) {
            *ret = known[i].layout;
            return true;
        }
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i].version == python->version)
            return hx_peek_read(peek, python->runtime, word, sizeof word) &&
                   read_table(&parts[i], word, ret);
    return false;
}

/* --- threads ---------------------------------------------------------------------------- */

static bool read_thread(const struct hx_py_state_layout *layout, const struct hx_image *image,
                        uint64_t at, struct hx_py_thread *ret)
{
    uint64_t tid;
    if (!hx_image_u64(image, at + layout->frame, &ret->frame) ||
        !hx_image_u64(image, at + layout->id, &ret->id) ||
        !hx_image_u64(image, at + layout->tid, &tid) ||
        !hx_image_u64(image, at + layout->chunk, &ret->chunk) ||
        !hx_image_u64(image, at + layout->top, &ret->top))
        return false;
    ret->tid = tid <= INT32_MAX ? (pid_t)tid : 0;
    ret->depth = layout->direct ? 0 : ret->frame;
    if (!layout->direct && ret->frame)
        return hx_image_u64(image, ret->frame + layout->in_frame, &ret->frame);
    return true;
}

static hx_error *read_threads(const struct hx_image *image, uint64_t interpreter,
                              struct hx_py_state *state)
{
    const struct hx_py_state_layout *layout = &state->layout;
    uint64_t at, of, seen = 0;
    bool ok = hx_image_u64(image, interpreter + layout->threads, &at);
    for (size_t n = 0; ok && at && state->threads.n < HX_PY_THREADS_MAX; n++) {
        struct hx_py_thread thread;
        if (at == seen)
            break; /* they go round */
        if ((n & (n - 1)) == 0)
            seen = at;
        ok = hx_image_u64(image, at + layout->interpreter, &of) && of == interpreter &&
             read_thread(layout, image, at, &thread);
        if (ok)
            HX_NEED(hx_vec_push(&state->threads, thread));
        ok = ok && hx_image_u64(image, at + layout->next, &at);
    }
    state->lost += !ok || at;
    return NULL;
}

/* From 3.12 on an interpreter can have arenas of its own, which nothing leads to that is known. */
static bool has_own_heap(const struct hx_py_state *state, const struct hx_image *image,
                         uint64_t interpreter, uint64_t next)
{
    enum { USES_MAIN_HEAP = 1 << 5 };
    uint64_t flags;
    return next && state->layout.flags &&
           hx_image_u64(image, interpreter + state->layout.flags, &flags) &&
           !(flags & USES_MAIN_HEAP);
}

hx_error *hx_py_state_read(const struct hx_python *python, const struct hx_image *image,
                           struct hx_py_state *ret)
{
    uint64_t at;
    bool ok = hx_image_u64(image, python->runtime + ret->layout.interpreters, &at);
    while (ok && at && ret->interpreters.n < HX_PY_INTERPRETERS_MAX) {
        HX_NEED(hx_vec_push(&ret->interpreters, at));
        HX_TRY(read_threads(image, at, ret));
        const uint64_t interpreter = at;
        ok = hx_image_u64(image, at + ret->layout.next_interpreter, &at);
        ret->own_heaps +=
            ok && has_own_heap(ret, image, interpreter, at); /* the last is the main one */
    }
    ret->lost += !ok || at;
    return NULL;
}

void hx_py_state_deinit(struct hx_py_state *state)
{
    hx_vec_free(&state->threads);
    hx_vec_free(&state->interpreters);
}
