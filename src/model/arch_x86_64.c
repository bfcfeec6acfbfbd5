/* arch_x86_64.c - names of the general purpose registers, in the order of hx_thread.regs. */
#include "model/process.h"

const char *hx_reg_name(size_t i)
{
    static const char *const names[] = {"rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp",
                                        "r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15"};
    return i < sizeof names / sizeof *names ? names[i] : "?";
}
