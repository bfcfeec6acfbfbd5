/* arch_x86_64.c - names of registers, in the order of hx_thread. */
#include "model/process.h"

#include <stdio.h>

const char *hx_reg_name(size_t i)
{
    static const char *const names[] = {"rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp",
                                        "r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15"};
    return i < sizeof names / sizeof *names ? names[i] : "?";
}

void hx_vector_name(size_t i, char ret[8])
{
    size_t part = i % HX_VECTOR_WORDS;
    snprintf(ret, 8, "%cmm%u",
             part < 2   ? 'x'
             : part < 4 ? 'y'
                        : 'z',
             (unsigned)(i / HX_VECTOR_WORDS) % 100);
}
