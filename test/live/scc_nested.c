/* scc_nested.c - captured stacks that are entered inside of others: 900 blocks of 100 bytes, each
 * on behalf of one of 30 askers, inside of work that was captured in the block before.
 *
 *   scc_nested [wait]     wait: until somebody listens, and for a line on stdin before and after
 */
#include "heapx/scc.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define FAR    __attribute__((noinline, noclone))
#define THEN() __asm__ volatile("" ::: "memory") /* no tail calls */

enum { ASKERS = 30, BLOCKS = 900 };

HEAPX_CENTRE(asker, "asker");
void *volatile kept[BLOCKS];
static heapx_stack asked[ASKERS], before;

static FAR heapx_stack ask(int depth)
{
    heapx_stack stack;
    if (depth > 0) {
        stack = ask(depth - 1);
    } else {
        heapx_scc_push(&asker);
        stack = heapx_scc_capture();
        heapx_scc_pop(&asker);
    }
    THEN();
    return stack;
}

static FAR void work(int depth, int i)
{
    if (depth > 0) {
        work(depth - 1, i);
        THEN();
        return;
    }
    heapx_scc_enter(asked[i % ASKERS]);
    kept[i] = malloc(100);
    before = heapx_scc_capture();
    heapx_scc_leave(asked[i % ASKERS]);
}

static FAR void serve(int i)
{
    heapx_stack outer = before;
    heapx_scc_enter(outer);
    work(i % ASKERS, i);
    heapx_scc_leave(outer);
}

static void await_line(int argc, const char *said)
{
    if (argc < 2)
        return;
    puts(said);
    fflush(stdout);
    getchar();
}

int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1) {
        puts("ready");
        fflush(stdout);
        while (!HEAPX_LISTENS_())
            usleep(1000);
    }
    await_line(argc, "heard");
    for (int i = 0; i < ASKERS; i++)
        asked[i] = ask(i);
    before = asked[0];
    for (int i = 0; i < BLOCKS; i++)
        serve(i);
    await_line(argc, "done");
    return 0;
}
