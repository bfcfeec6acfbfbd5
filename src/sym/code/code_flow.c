/* code_flow.c - reads the code of a file and follows it. */
#include "sym/code/code_flow.h"

#include "base/lower_bound.h"
#include "sym/code/code_private.h"

#include <stdlib.h>
#include <string.h>

#define PARTS_MAX  16
#define RUNS_MAX   4096 /* of one walk */
#define BUDGET_MIN 100000
#define LISTEN_GAP 4096 /* instructions between two looks whether to end */

static struct hx_code_part *part_at(const struct hx_code_flow *flow, uint64_t vaddr)
{
    for (size_t i = 0; i < flow->parts.n; i++)
        if (vaddr >= flow->parts.v[i].start && vaddr - flow->parts.v[i].start < flow->parts.v[i].n)
            return &flow->parts.v[i];
    return NULL;
}

bool hx_code_flow_open(struct hx_code_file *file, struct hx_reading *reading, int fd,
                       struct hx_code_flow *ret)
{
    uint64_t left = HX_READ_TABLE;
    *ret = (struct hx_code_flow){.reading = reading};
    for (size_t i = 0; i < file->file.layout.load.n && ret->parts.n < PARTS_MAX; i++) {
        const struct hx_elf_segment *segment = &file->file.layout.load.v[i];
        struct hx_cfi_bytes bytes;
        if (!(segment->flags & PF_X) || !segment->filesz || segment->filesz > left)
            continue;
        struct hx_code_part part = {.start = segment->vaddr};
        part.bytes = hx_code_file_read(file, fd, segment->vaddr, segment->filesz, &bytes);
        part.n = part.bytes ? bytes.len : 0;
        part.seen = calloc(1, part.n / 8 + 1);
        left -= part.n;
        ret->budget += part.n;
        if (!part.bytes || !part.seen || !hx_vec_push(&ret->parts, part)) {
            free(part.bytes);
            free(part.seen);
        }
    }
    ret->budget += BUDGET_MIN;
    return ret->parts.n > 0;
}

void hx_code_flow_close(struct hx_code_flow *flow)
{
    for (size_t i = 0; i < flow->parts.n; i++) {
        free(flow->parts.v[i].bytes);
        free(flow->parts.v[i].seen);
    }
    hx_vec_free(&flow->parts);
    hx_vec_free(&flow->runs);
    hx_vec_free(&flow->pending);
    hx_vec_free(&flow->marked);
}

const uint8_t *hx_code_flow_bytes(const struct hx_code_flow *flow, uint64_t vaddr, size_t *ret_n)
{
    const struct hx_code_part *part = part_at(flow, vaddr);
    if (!part)
        return NULL;
    *ret_n = part->n - (size_t)(vaddr - part->start);
    return part->bytes + (vaddr - part->start);
}

bool hx_code_flow_insn(const struct hx_code_flow *flow, uint64_t vaddr, struct hx_insn *ret)
{
    size_t n;
    const uint8_t *bytes = hx_code_flow_bytes(flow, vaddr, &n);
    return bytes && hx_insn_read(bytes, n, vaddr, ret);
}

/* False: it was looked at before, or is nowhere. */
static bool mark_instruction(struct hx_code_flow *flow, uint64_t vaddr)
{
    struct hx_code_part *part = part_at(flow, vaddr);
    if (!part)
        return false;
    size_t at = (size_t)(vaddr - part->start);
    if (part->seen[at / 8] & 1u << at % 8 || !hx_vec_push(&flow->marked, vaddr))
        return false;
    part->seen[at / 8] |= (uint8_t)(1u << at % 8);
    return true;
}

static void unmark(struct hx_code_flow *flow)
{
    for (size_t i = 0; i < flow->marked.n; i++) {
        struct hx_code_part *part = part_at(flow, flow->marked.v[i]);
        size_t at = (size_t)(flow->marked.v[i] - part->start);
        part->seen[at / 8] &= (uint8_t) ~(1u << at % 8);
    }
    flow->marked.n = 0;
}

static void lead(struct hx_code_flow *flow, struct hx_code_run *run, uint64_t to, uint64_t or_to)
{
    run->next[0] = to;
    run->next[1] = or_to;
    if (to)
        (void)hx_vec_push(&flow->pending, to);
    if (or_to)
        (void)hx_vec_push(&flow->pending, or_to);
}

/* One run, whose first instruction is marked. */
static struct hx_code_run follow_run(struct hx_code_flow *flow, uint64_t at, hx_code_visit *visit,
                                     void *context)
{
    struct hx_code_run run = {.start = at, .end = at};
    struct hx_insn insn;
    while (flow->budget && hx_code_flow_insn(flow, at, &insn)) {
        uint64_t to = 0;
        if (--flow->budget % LISTEN_GAP == 0 && hx_reading_ended(flow->reading))
            flow->budget = 0;
        enum hx_code_turn turn = visit(context, at, &insn, &to);
        run.end = at += insn.length;
        run.arrives = turn == HX_CODE_ARRIVE;
        if (turn == HX_CODE_GO_TO)
            lead(flow, &run, to, 0);
        else if (turn == HX_CODE_GO_ON && insn.kind == HX_INSN_JUMP)
            lead(flow, &run, insn.target, 0);
        else if (turn == HX_CODE_GO_ON && insn.kind == HX_INSN_BRANCH)
            lead(flow, &run, insn.target, at);
        if (turn != HX_CODE_GO_ON || insn.kind >= HX_INSN_JUMP)
            break;
        if (!mark_instruction(flow, at)) { /* it runs into what was looked at */
            run.next[0] = at;
            break;
        }
    }
    return run;
}

static int compare_run_starts(const void *a, const void *b)
{
    const struct hx_code_run *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

void hx_code_flow_walk(struct hx_code_flow *flow, uint64_t from, hx_code_visit *visit,
                       void *context)
{
    flow->runs.n = flow->pending.n = 0;
    (void)hx_vec_push(&flow->pending, from);
    while (flow->pending.n && flow->budget && flow->runs.n < RUNS_MAX) {
        uint64_t at = flow->pending.v[--flow->pending.n];
        if (!mark_instruction(flow, at))
            continue;
        struct hx_code_run run = follow_run(flow, at, visit, context);
        if (run.end > run.start && !hx_vec_push(&flow->runs, run))
            break;
    }
    unmark(flow);
    if (flow->runs.n)
        qsort(flow->runs.v, flow->runs.n, sizeof *flow->runs.v, compare_run_starts);
}

static bool leads_to_arrival(const struct hx_code_flow *flow, uint64_t vaddr)
{
    size_t low = HX_LOWER_BOUND(flow->runs.n, i, flow->runs.v[i].start <= vaddr);
    return low && vaddr < flow->runs.v[low - 1].end && flow->runs.v[low - 1].arrives;
}

void hx_code_flow_arrivals(struct hx_code_flow *flow)
{
    bool more = true;
    while (more && flow->budget > flow->runs.n) {
        more = false;
        flow->budget -= flow->runs.n;
        for (size_t i = flow->runs.n; i-- > 0;) {
            struct hx_code_run *run = &flow->runs.v[i];
            if (!run->arrives &&
                (leads_to_arrival(flow, run->next[0]) || leads_to_arrival(flow, run->next[1])))
                more = run->arrives = true;
        }
    }
}
