/* probes_cost.c - what the probes cost: tried on functions of heapx's own before any is set, and
 * counted while they are there.
 */
#include "base/cleanup.h"
#include "base/proc.h"
#include "base/timing.h"
#include "model/process.h"
#include "record/bpf/probes_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Each batch is timed; the quickest counts, as others were interrupted. */
enum { batches = 12, calls_a_batch = 96, depth = 10 };

/* hx_trial_alloc(block, size) gives the block; hx_trial_free(block). Both begin like most functions
 * of allocators. hx_trial_calls(frames, rounds, size, with) goes down that many frames, linked by
 * rbp, and there `rounds` times frees what stands for a block, having allocated it when `with`. */
__asm__(".pushsection .text\n"
        ".balign 16\n"
        "hx_trial_alloc:\n"
        "    push %rbp\n"
        "    mov %rsp, %rbp\n"
        "    mov %rdi, %rax\n"
        "    pop %rbp\n"
        "    ret\n"
        ".balign 16\n"
        "hx_trial_free:\n"
        "    push %rbp\n"
        "    mov %rsp, %rbp\n"
        "    pop %rbp\n"
        "    ret\n"
        ".balign 16\n"
        "hx_trial_calls:\n"
        "    push %rbp\n"
        "    mov %rsp, %rbp\n"
        "    test %edi, %edi\n"
        "    jz 1f\n"
        "    dec %edi\n"
        "    call hx_trial_calls\n"
        "    pop %rbp\n"
        "    ret\n"
        "1:  push %rbx\n"
        "    push %r12\n"
        "    push %r13\n"
        "    mov %esi, %ebx\n"
        "    mov %rdx, %r12\n"
        "    mov %ecx, %r13d\n"
        "2:  mov $0x10000, %edi\n"
        "    mov %r12, %rsi\n"
        "    test %r13d, %r13d\n"
        "    jz 3f\n"
        "    call hx_trial_alloc\n"
        "3:  mov $0x10000, %edi\n"
        "    call hx_trial_free\n"
        "    dec %ebx\n"
        "    jnz 2b\n"
        "    pop %r13\n"
        "    pop %r12\n"
        "    pop %rbx\n"
        "    pop %rbp\n"
        "    ret\n"
        ".popsection\n");

extern const uint8_t hx_trial_alloc[], hx_trial_free[];
void hx_trial_calls(unsigned frames, unsigned rounds, uint64_t size, unsigned with);

bool hx_probe_own_offset(const void *function, uint64_t *ret)
{
    struct hx_mapping *mapping = NULL;
    size_t n = 0;
    hx_error *err = hx_proc_read_mappings(getpid(), "maps", &mapping, &n);
    size_t i = err ? 0 : hx_mapping_find(mapping, n, (uintptr_t)function);
    bool found = !err && i < n && mapping[i].inode;
    if (found)
        *ret = (uintptr_t)function - mapping[i].start + mapping[i].offset;
    hx_error_free(err);
    hx_mappings_free(mapping, n);
    return found;
}

/* --- the trial ---------------------------------------------------------------------- */

static double quickest(uint64_t size, bool with)
{
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < batches; i++) {
        uint64_t begin = hx_now_ns();
        hx_trial_calls(depth, calls_a_batch, size, with);
        uint64_t took = hx_now_ns() - begin;
        if (took < best)
            best = took;
    }
    return (double)best / calls_a_batch;
}

/* The frames of the trial have a table, as those of programs do; by it they are linked. */
static void know_frames(struct hx_probe_kernel *kernel)
{
    enum { pieces = 4 };
    struct hx_probe_shared *shared = kernel->shared;
    struct hx_unwind_rule *rule = kernel->rules.base;
    struct hx_unwind_piece *piece = kernel->pieces.base;
    hx_probe_put_fixed(rule);
    rule[HX_PROBE_RULE_FIRST] = rule[HX_PROBE_RULE_FP];
    for (size_t i = 0; i < pieces; i++)
        piece[i] = (struct hx_unwind_piece){.rule = 1};
    shared->part[shared->side][0] = (struct hx_probe_part){
        .start = 0,
        .end = UINT64_MAX,
        .base = (uintptr_t)hx_trial_alloc & ~(uint64_t)(HX_UNWIND_PIECE - 1),
        .span = pieces * HX_UNWIND_PIECE,
        .rules = HX_PROBE_RULE_FIRST - 1,
    };
    shared->n_parts[shared->side] = 1;
}

/* Nothing that the trial left counts. */
static void forget_trial(struct hx_probe_kernel *kernel)
{
    struct hx_probe_shared *shared = kernel->shared;
    shared->n_parts[shared->side] = 0;
    shared->lost_allocs = shared->lost_frees = shared->lost_bytes = shared->lost_stacks = 0;
    shared->over = 0;
    memset(shared->hits, 0, sizeof shared->hits);
    memset(shared->cache, 0, sizeof shared->cache);
    memset(shared->recent_keys, 0, sizeof shared->recent_keys);
    atomic_store(kernel->consumed, atomic_load(kernel->produced));
}

void hx_probe_measure(struct hx_probe_kernel *kernel, const struct hx_probe_config *config,
                      struct hx_probe_cost *ret)
{
    uint64_t alloc, free_offset;
    uint64_t size = config->least_bytes > 64 ? config->least_bytes : 64;
    *ret = (struct hx_probe_cost){0};
    if (config->most_bytes && size > config->most_bytes)
        size = config->most_bytes;
    if (!hx_probe_own_offset(hx_trial_alloc, &alloc) ||
        !hx_probe_own_offset(hx_trial_free, &free_offset))
        return;
    know_frames(kernel);
    hx_error *err = hx_probe_link_own(kernel, alloc, free_offset);
    if (!err) {
        __atomic_store_n(&kernel->shared->armed, 1, __ATOMIC_SEQ_CST);
        ret->free_ns = quickest(size, false);
        ret->alloc_ns = quickest(size, true) - ret->free_ns;
        if (ret->alloc_ns < 0)
            ret->alloc_ns = 0;
    }
    hx_error_free(err); /* then it is not known */
    hx_probe_unlink(kernel, NULL);
    forget_trial(kernel);
}

/* --- while it runs -------------------------------------------------------------------- */

void hx_probe_cost_begin(struct hx_probe_cost *cost, pid_t pid)
{
    cost->begun_ns = 0;
    hx_proc_cpu_ns(pid, &cost->begun_ns);
}

void hx_probe_cost_now(const struct hx_probe_cost *cost, const struct hx_probe_kernel *kernel,
                       pid_t pid, struct hx_record_overhead *ret)
{
    uint64_t allocs = 0, frees = 0, pushes = 0, now = 0;
    hx_proc_cpu_ns(pid, &now);
    for (size_t i = 0; kernel->shared && i < HX_PROBE_HITS; i++) {
        allocs += __atomic_load_n(&kernel->shared->hits[i].allocs, __ATOMIC_RELAXED);
        frees += __atomic_load_n(&kernel->shared->hits[i].frees, __ATOMIC_RELAXED);
        /* a pop is one trap as a free is; a push takes a stack besides, as an allocation does at
         * the second of its two */
        frees += __atomic_load_n(&kernel->shared->hits[i].pops, __ATOMIC_RELAXED);
        pushes += __atomic_load_n(&kernel->shared->hits[i].pushes, __ATOMIC_RELAXED);
    }
    double push_ns =
        cost->alloc_ns > 2 * cost->free_ns ? cost->alloc_ns - cost->free_ns : cost->free_ns;
    ret->pair_ns = cost->alloc_ns + cost->free_ns;
    ret->spent_ns = (uint64_t)((double)allocs * cost->alloc_ns + (double)frees * cost->free_ns +
                               (double)pushes * push_ns);
    ret->program_ns = now > cost->begun_ns ? now - cost->begun_ns : 0;
    if (ret->spent_ns > ret->program_ns)
        ret->spent_ns = ret->program_ns;
}
