/* frame_parts.c - frames, cut into the variables that lie in them and what is between these. */
#include "attach/roots/frame_parts.h"

#include "base/lower_bound.h"
#include "model/process.h"

#include <stdlib.h>
#include <string.h>

#define WORD      8
#define FRAME_MAX ((uint64_t)64 << 20) /* bytes; a larger one is none */
#define ABOVE     4096                 /* bytes of arguments that the caller has put on the stack */
#define RED_ZONE  128

/* --- one frame -------------------------------------------------------------------------- */

/* By DWARF's numbers. */
static const char *const register_name[] = {"rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp",
                                            "r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15"};
static const char *const kept_name[HX_CFI_KEPT] = {
    [HX_CFI_RBX] = "rbx", [HX_CFI_RBP] = "rbp", [HX_CFI_R12] = "r12",
    [HX_CFI_R13] = "r13", [HX_CFI_R14] = "r14", [HX_CFI_R15] = "r15"};

static hx_error *add_part(hx_frame_parts *frames, hx_frame_part_list *list,
                          const struct hx_frame_part *part)
{
    if (frames->parts.n + frames->registers.n + frames->spans.n >= HX_FRAME_PARTS_MAX) {
        frames->full = true;
        return NULL;
    }
    HX_NEED(hx_vec_push(list, *part));
    return NULL;
}

/* Where a variable begins; false: that is not known, or nowhere near its frame. */
static bool place_on_stack(const struct hx_code_local *local, const struct hx_stopped_frame *frame,
                           uint64_t *ret)
{
    if (local->base == HX_CODE_AT_FP && !frame->fp_known)
        return false;
    const uint64_t base = local->base == HX_CODE_AT_CFA  ? frame->cfa
                          : local->base == HX_CODE_AT_FP ? frame->fp
                                                         : frame->sp;
    *ret = base + (uint64_t)local->offset;
    return *ret >= frame->sp - RED_ZONE && *ret < frame->cfa + ABOVE && local->size >= WORD &&
           local->size <= FRAME_MAX;
}

/* Where the value of a register is: enum of model/snapshot.h, or an address. */
static uint64_t find_register(const char *name, const struct hx_stopped_frame *frame)
{
    for (unsigned i = 0; i < HX_CFI_KEPT; i++)
        if (strcmp(kept_name[i], name) == 0)
            return frame->kept[i];
    const bool own = frame->position == 0 && frame->kept[0] == HX_KEPT_HELD;
    return own ? HX_KEPT_HELD : HX_KEPT_NOT;
}

/* Has a function further inside said that it has it? */
static bool has_register(const hx_frame_parts *frames, pid_t tid, uint64_t number)
{
    const hx_frame_part_list *list = &frames->registers;
    for (size_t i = list->n; i-- > 0 && list->v[i].tid == tid;)
        if (list->v[i].start == number)
            return true;
    return false;
}

static hx_error *add_in_register(hx_frame_parts *frames, const struct hx_code_local *local,
                                 const struct hx_stopped_frame *frame, struct hx_frame_part *part)
{
    const uint64_t number = (uint64_t)local->offset;
    if (number >= sizeof register_name / sizeof *register_name || local->size != WORD)
        return NULL;
    const char *name = register_name[number];
    const uint64_t kept = find_register(name, frame);
    if (kept > HX_KEPT_HELD) {
        part->start = kept;
        part->end = kept + WORD;
        return part->start <= UINT64_MAX - WORD ? add_part(frames, &frames->parts, part) : NULL;
    }
    size_t i = 0;
    while (i < HX_REGS_MAX && strcmp(hx_reg_name(i), name) != 0)
        i++;
    part->start = i;
    part->end = i + 1;
    part->tid = frame->tid;
    if (kept != HX_KEPT_HELD || i == HX_REGS_MAX || has_register(frames, frame->tid, i))
        return NULL;
    return add_part(frames, &frames->registers, part);
}

hx_error *hx_frame_parts_add(hx_frame_parts *frames, hx_code *code, uint32_t file,
                             const struct hx_stopped_frame *frame)
{
    const uint64_t sp = frame->sp, cfa = frame->cfa;
    struct hx_frame_part span = {.sp = sp, .start = sp, .end = cfa, .type = ""};
    const struct hx_code_local *local;
    if (cfa <= sp || cfa - sp > FRAME_MAX || sp < RED_ZONE ||
        cfa > UINT64_MAX - ABOVE - FRAME_MAX || frames->full)
        return NULL;
    size_t n = hx_code_frame(code, file, frame->vaddr, &span.function, &local);
    if (!span.function)
        return NULL;
    span.module = hx_code_name(code, file);
    for (size_t i = 0; i < n; i++) {
        struct hx_frame_part part = span;
        if (!local[i].function)
            continue;
        part.function = local[i].function;
        part.local = local[i].name;
        part.type = local[i].type;
        if (local[i].base == HX_CODE_IN_REGISTER) {
            HX_TRY(add_in_register(frames, &local[i], frame, &part));
        } else if (place_on_stack(&local[i], frame, &part.start)) {
            part.end = part.start + local[i].size;
            HX_TRY(add_part(frames, &frames->parts, &part));
        }
    }
    return add_part(frames, &frames->spans, &span);
}

/* --- all of them ------------------------------------------------------------------------ */

static int compare_parts(const void *a, const void *b)
{
    const struct hx_frame_part *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    if (x->end != y->end)
        return x->end > y->end ? -1 : 1;
    return x->sp < y->sp ? -1 : x->sp > y->sp;
}

static int compare_registers(const void *a, const void *b)
{
    const struct hx_frame_part *x = a, *y = b;
    if (x->tid != y->tid)
        return x->tid < y->tid ? -1 : 1;
    return x->start < y->start ? -1 : x->start > y->start;
}

static void keep_apart(hx_frame_part_list *list)
{
    size_t n = 0;
    if (list->n)
        qsort(list->v, list->n, sizeof *list->v, compare_parts);
    for (size_t i = 0; i < list->n; i++)
        if (!n || list->v[i].start >= list->v[n - 1].end)
            list->v[n++] = list->v[i];
    list->n = n;
}

/* What is in a frame besides variables. */
static hx_error *add_rest(hx_frame_parts *frames, size_t n, const struct hx_frame_part *span)
{
    struct hx_frame_part rest = *span;
    size_t i = HX_LOWER_BOUND(n, k, frames->parts.v[k].end <= span->start);
    for (; rest.start < span->end; i++) {
        const bool more = i < n && frames->parts.v[i].start < span->end;
        rest.end = more ? frames->parts.v[i].start : span->end;
        if (rest.end > rest.start)
            HX_NEED(hx_vec_push(&frames->parts, rest));
        if (!more)
            break;
        rest.start = frames->parts.v[i].end;
    }
    return NULL;
}

hx_error *hx_frame_parts_join(hx_frame_parts *frames)
{
    keep_apart(&frames->parts);
    keep_apart(&frames->spans);
    const size_t n = frames->parts.n;
    for (size_t i = 0; i < frames->spans.n; i++)
        HX_TRY(add_rest(frames, n, &frames->spans.v[i]));
    keep_apart(&frames->parts);
    hx_vec_free(&frames->spans);
    if (frames->registers.n)
        qsort(frames->registers.v, frames->registers.n, sizeof *frames->registers.v,
              compare_registers);
    return NULL;
}

const struct hx_frame_part *hx_frame_parts_find(const hx_frame_parts *frames, uint64_t address)
{
    const struct hx_frame_part *v = frames->parts.v;
    const size_t at = HX_LOWER_BOUND(frames->parts.n, i, v[i].end <= address);
    return at < frames->parts.n ? &v[at] : NULL;
}

const struct hx_frame_part *hx_frame_parts_register(const hx_frame_parts *frames, pid_t tid,
                                                    size_t number)
{
    const struct hx_frame_part *v = frames->registers.v;
    const size_t at = HX_LOWER_BOUND(frames->registers.n, i,
                                     v[i].tid < tid || (v[i].tid == tid && v[i].start < number));
    const bool found = at < frames->registers.n && v[at].tid == tid && v[at].start == number;
    return found ? &v[at] : NULL;
}

void hx_frame_parts_deinit(hx_frame_parts *frames)
{
    hx_vec_free(&frames->parts);
    hx_vec_free(&frames->registers);
    hx_vec_free(&frames->spans);
}
