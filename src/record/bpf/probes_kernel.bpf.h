/* probes_kernel.bpf.h - the few types of the kernel that the probes look into.
 *
 * Only the fields that are used; where they really lie is put right when the programs are loaded,
 * from what the running kernel says of its types.
 */
#ifndef HX_RECORD_BPF_PROBES_KERNEL_BPF_H
#define HX_RECORD_BPF_PROBES_KERNEL_BPF_H

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct return_instance {
    unsigned long stack;          /* where the return address was replaced */
    unsigned long orig_ret_vaddr; /* by what it was */
    struct return_instance *next;
};

struct uprobe_task {
    struct return_instance *return_instances;
};

struct xol_area {
    unsigned long vaddr; /* what replaces them */
};

struct uprobes_state {
    struct xol_area *xol_area;
};

struct mm_struct {
    struct uprobes_state uprobes_state;
};

struct task_struct {
    int pid, tgid;
    struct mm_struct *mm;
    struct uprobe_task *utask;
    unsigned long long start_time; /* CLOCK_MONOTONIC */
};

#pragma clang attribute pop

/* Registers as the programs get them; part of the interface, not of the kernel's inside. */
struct pt_regs {
    unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs,
        flags, sp, ss;
};

#endif
