/* cfi.h - call frame information: how to get from a frame to its caller's.
 *
 * Reads .eh_frame and .eh_frame_hdr as DWARF and the Linux Standard Base define them, and brings
 * each row down to what unwinding with the stack pointer and rbp needs. Freestanding: no
 * allocation, no lock, no libc but memcpy and the like, so that it also works inside a program
 * that is being recorded, in signal handlers and in the middle of malloc. The bytes come from a
 * target: nothing in them is believed, and the work on one has a bound.
 */
#ifndef HX_SYM_CFI_H
#define HX_SYM_CFI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The canonical frame address: what sp was in the caller, before it called. */
enum hx_cfa_kind {
    HX_CFA_END = 0, /* the outermost frame: its return address is undefined */
    HX_CFA_SP,      /* sp + cfa_off */
    HX_CFA_FP,      /* rbp + cfa_off */
    HX_CFA_AT_SP,   /* the word at sp + cfa_off (signal frames) */
    HX_CFA_AT_FP,   /* the word at rbp + cfa_off (realigned stacks) */
    HX_CFA_PLT,     /* sp + 8, and 8 more when pc & 15 >= cfa_off (a procedure linkage table) */
    HX_CFA_UNKNOWN, /* an expression, or a register, that is none of these: unwinding is cut */
};

/* Where a register of the caller was saved. */
enum hx_save_kind {
    HX_SAVE_SAME = 0, /* not saved: it has its value still */
    HX_SAVE_AT_CFA,   /* the word at CFA + offset */
    HX_SAVE_AT_SP,    /* the word at this frame's sp + offset (signal frames) */
    HX_SAVE_AT_FP,    /* the word at this frame's rbp + offset (realigned stacks); of rbp only */
    HX_SAVE_UNKNOWN,  /* the caller's value cannot be had; matters only if someone needs it */
};

struct hx_cfi_rule {
    uint8_t cfa;    /* enum hx_cfa_kind */
    uint8_t fp;     /* enum hx_save_kind: the caller's rbp */
    uint8_t ra;     /* enum hx_save_kind: the return address; AT_CFA or AT_SP */
    uint8_t signal; /* 1: a signal frame; the return address is the instruction that was
                       interrupted, not one behind a call */
    int32_t cfa_off, fp_off, ra_off;
};

/* One module's tables. Addresses are of whatever space the caller thinks in (loaded, or p_vaddr):
 * bytes[0] lies at addr. */
struct hx_cfi_bytes {
    const uint8_t *bytes;
    size_t len;
    uint64_t addr;
};
struct hx_cfi {
    struct hx_cfi_bytes hdr;   /* .eh_frame_hdr; len 0: there is none, no binary search */
    struct hx_cfi_bytes frame; /* .eh_frame; len may reach to the end of its segment */
};

/* The rule at pc, and the range [start, end) around it that it holds in. False: no entry covers pc
 * (a leaf in assembler, a JIT), or it is damaged. Binary search in hdr, then one entry is read. */
bool hx_cfi_find(const struct hx_cfi *cfi, uint64_t pc, struct hx_cfi_rule *ret,
                 uint64_t *ret_start, uint64_t *ret_end);

/* Registers that a function leaves as it found them, and where those of the caller are. */
enum hx_cfi_kept {
    HX_CFI_RBX,
    HX_CFI_RBP,
    HX_CFI_R12,
    HX_CFI_R13,
    HX_CFI_R14,
    HX_CFI_R15,
    HX_CFI_KEPT
};
struct hx_cfi_save {
    uint8_t kind; /* enum hx_save_kind: SAME, AT_CFA, AT_SP, AT_FP, UNKNOWN */
    int32_t off;
};
/* False: as hx_cfi_find(). */
bool hx_cfi_find_saves(const struct hx_cfi *cfi, uint64_t pc, struct hx_cfi_save ret[HX_CFI_KEPT]);

/* The range of code of the entry that covers pc: a function, or a part of one that was moved away.
 * False: none does. */
bool hx_cfi_function(const struct hx_cfi *cfi, uint64_t pc, uint64_t *ret_start, uint64_t *ret_end);

/* Calls each() for every row [start, end) of .eh_frame, entry by entry as they stand there (not
 * sorted), until it returns false. An entry is left out from where it is damaged on; returns how
 * many are. Adjacent rows of an entry that give the same rule are one. */
typedef bool hx_cfi_row_fn(void *context, uint64_t start, uint64_t end,
                           const struct hx_cfi_rule *rule);
uint64_t hx_cfi_each(const struct hx_cfi *cfi, hx_cfi_row_fn *each, void *context);

/* What unwinding needs of a frame. In all but the innermost frame, and those that a signal frame
 * led to, pc is a return address: look up pc - 1. */
struct hx_cfi_frame {
    uint64_t pc, sp, fp;
    bool fp_known;
    bool exact; /* pc is an instruction itself, not a return address */
};

/* The frame of the caller. read() gives a word of the target's memory. HX_STEP_END at the outermost
 * frame; HX_STEP_CUT when the rule or the memory does not tell, or the stack would not grow. */
enum hx_step { HX_STEP_OK, HX_STEP_END, HX_STEP_CUT };
enum hx_step hx_cfi_step(const struct hx_cfi_rule *rule, struct hx_cfi_frame *frame,
                         bool (*read)(void *context, uint64_t addr, uint64_t *ret), void *context);

#endif
