/* regions.c - what it costs to mark a region by heapx/scc.h: test/bench/regions.py builds and runs
 * it.
 *
 *   regions PAIRS [--wait]
 *
 * Prints "without NS with NS": what a turn of an empty loop takes, and one with a push and a pop,
 * the best of several times. --wait: says where malloc lies, and begins when a line comes.
 */
#include "heapx/scc.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define KEEP_LOOP __asm__ volatile("" ::: "memory")

enum { rounds = 20 };

HEAPX_CENTRE(region, "region");

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

__attribute__((noinline)) static double without(uint64_t pairs)
{
    double begin = now_ns();
    for (uint64_t i = 0; i < pairs; i++) {
        KEEP_LOOP;
        KEEP_LOOP;
    }
    return now_ns() - begin;
}

__attribute__((noinline)) static double with(uint64_t pairs)
{
    double begin = now_ns();
    for (uint64_t i = 0; i < pairs; i++) {
        heapx_scc_push(&region);
        KEEP_LOOP;
        heapx_scc_pop(&region);
        KEEP_LOOP;
    }
    return now_ns() - begin;
}

int main(int argc, char **argv)
{
    uint64_t pairs = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
    double least[2] = {1e18, 1e18};
    if (!pairs)
        return 2;
    if (argc > 2 && !strcmp(argv[2], "--wait")) {
        printf("entry %#lx\n", (unsigned long)(uintptr_t)malloc);
        fflush(stdout);
        if (getchar() == EOF)
            return 1;
    }
    for (int i = 0; i < rounds; i++) {
        double spent[2] = {without(pairs), with(pairs)};
        for (int k = 0; k < 2; k++)
            least[k] = spent[k] < least[k] ? spent[k] : least[k];
    }
    printf("without %.3f with %.3f\n", least[0] / (double)pairs, least[1] / (double)pairs);
    return 0;
}
