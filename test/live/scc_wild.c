/* scc_wild.c - a program with notes that look like those of heapx/scc.h and lead anywhere, beside
 * the right ones. What they lead to must stay as it is.
 *
 *   scc_wild          waits for a line in the middle
 */
#include "scc_victim.h"

#include <stdio.h>
#include <unistd.h>

/* Where a module is said to be. */
#define NOTE(to)                                                                                   \
    __asm__(".pushsection .note.wild,\"a\",%note\n\t.balign 4\n\t.4byte 6,8,2\n"                   \
            "\t.ascii \"heapx\\0\\0\\0\"\n\t.8byte " to "\n\t.popsection\n")

/* Where a probe is said to be. */
#define PROBE(at, base, semaphore, name, arguments)                                                \
    __asm__(".pushsection .note.stapsdt,\"\",%note\n\t.balign 4\n\t.4byte 8,98f-97f,3\n"           \
            "\t.asciz \"stapsdt\"\n97:\t.8byte " at "," base "," semaphore "\n"                    \
            "\t.asciz \"heapx\",\"" name "\",\"" arguments "\"\n98:\t.balign 4\n\t.popsection\n")
#define BASE "_.stapsdt.base"

NOTE("0");
NOTE("8");
NOTE("1");
NOTE("-1");
NOTE("-4096");
NOTE("0x7fffffffffffffff");
NOTE("0x8000000000000000");
NOTE("wild_code-.");
NOTE("wild_data-.");
NOTE("wild_data+4-.");
NOTE("wild_const-.");
NOTE("_end-8-.");

PROBE("wild_code", "0", "wild_data", "push", "8@%rdi");
PROBE("wild_code+1", BASE, "wild_data", "push", "8@%rdi");
PROBE("0", BASE, "0", "pop", "8@%rdi");
PROBE("-1", BASE, "-1", "capture", "8@%rdi");
PROBE("wild_data", BASE, "wild_data", "enter", "8@%rdi");
PROBE("wild_nop", BASE, "wild_data", "pop", "8@%rdi");
PROBE("wild_nop", BASE, "wild_code", "leave", "8@%rdi");
PROBE("heapx_scc_v1_push", BASE, "wild_data", "leave", "8@%rsi");
PROBE("heapx_scc_v1_push", BASE, "wild_data+1", "pop", "8@%rdi");
PROBE("heapx_scc_v1_push", BASE, "heapx_scc_v1", "no such", "8@%rdi");

/* Longer than what holds them. */
__asm__(".pushsection .note.wild,\"a\",%note\n\t.4byte 0xfffffff0,0xfffffff0,2\n"
        "\t.ascii \"heapx\"\n\t.balign 4\n\t.popsection\n"
        ".pushsection .note.stapsdt,\"\",%note\n\t.4byte 8,0xffffffff,3\n"
        "\t.asciz \"stapsdt\"\n\t.popsection\n");

#define HERE __attribute__((visibility("hidden")))
HERE extern uint64_t wild_data[8];
HERE extern const uint64_t wild_const[4];
HERE int wild_code(void);
uint64_t wild_data[8] = {1, 2, 3, 4, 5, 6, 7, 8};
const uint64_t wild_const[4] = {9, 9, 9, 9};
__asm__(".pushsection .text\n"
        "wild_code:\tmovl $1,%eax\n\tretq\n"
        "wild_nop:\tnop\n\tretq\n\t.popsection\n");

static FAR int as_before(void)
{
    int same = wild_code() == 1;
    HEAPX_SCC("wild");
    keep(1001);
    for (uint64_t i = 0; i < 8; i++)
        same &= __atomic_load_n(&wild_data[i], __ATOMIC_RELAXED) == i + 1;
    return same;
}

int main(void)
{
    char byte;
    int same = as_before();
    printf("at %lx %lx %lx\n", (unsigned long)(uintptr_t)&heapx_scc_v1.listener,
           (unsigned long)(uintptr_t)&heapx_scc_v1.semaphore,
           (unsigned long)(uintptr_t)heapx_scc_v1_push);
    fflush(stdout);
    same &= read(0, &byte, 1) >= 0;
    for (int i = 0; i < 10; i++)
        same &= as_before();
    puts(same ? "wild: ok" : "wild: changed");
    return !same;
}
