/* insn.h - how long an instruction of x86-64 is, and where it leads.
 *
 * No more than it takes to follow the flow of a function: lengths of all instructions that
 * compilers emit, and of those that lead somewhere else what they lead to. Freestanding; the bytes
 * come from a target, and none but those of the buffer is looked at.
 */
#ifndef HX_SYM_INSN_H
#define HX_SYM_INSN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum hx_insn_kind {
    HX_INSN_OTHER,
    HX_INSN_CALL,          /* to `target` */
    HX_INSN_CALL_WORD,     /* to what the word at `target` holds */
    HX_INSN_CALL_REGISTER, /* to what a register, or memory that one points to, holds */
    HX_INSN_JUMP,          /* the same three; nothing follows */
    HX_INSN_JUMP_WORD,
    HX_INSN_JUMP_REGISTER,
    HX_INSN_BRANCH, /* to `target`, or on */
    HX_INSN_END,    /* a return, or what nothing comes back from */
};

struct hx_insn {
    uint8_t length;
    uint8_t kind;   /* enum hx_insn_kind */
    uint8_t opcode; /* the last byte of it */
    bool two;       /* the opcode is in the map behind 0f */
    uint8_t modrm;  /* where the operand is; sib is its second byte */
    uint8_t sib;
    uint64_t target; /* address */
};

/* The instruction that begins at address `at`, whose bytes are these. False: it is none, or does
 * not end in n bytes. */
bool hx_insn_read(const uint8_t *bytes, size_t n, uint64_t at, struct hx_insn *ret);

#endif
