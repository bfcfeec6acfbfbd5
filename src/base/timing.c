/* timing.c - how long the stages of a snapshot take, for the benchmark. */
#include "base/timing.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

uint64_t hx_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t hx_now_ticks(void)
{
#ifdef __x86_64__
    __builtin_ia32_lfence();
    return __builtin_ia32_rdtsc();
#else
    return 0;
#endif
}

static uint64_t now_of(const char *wanted)
{
    struct timespec now;
    if (!wanted || strcmp(wanted, "cpu") != 0)
        return wanted && strcmp(wanted, "1") == 0 ? hx_now_ns() : 0;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t hx_timing_begin(void)
{
    return now_of(getenv("HEAPX_TIMING"));
}

void hx_timing_end(uint64_t begin, const char *stage, uint64_t count)
{
    if (begin)
        fprintf(stderr, "timing %s %.6f %" PRIu64 "\n", stage,
                (double)(now_of(getenv("HEAPX_TIMING")) - begin) / 1e9, count);
}
