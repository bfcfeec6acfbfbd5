/* scc_victim.h - what the programs of scc.py share. */
#ifndef HX_TEST_SCC_VICTIM_H
#define HX_TEST_SCC_VICTIM_H

#include <heapx/scc.h>

#include <stddef.h>
#include <stdlib.h>

#define FAR __attribute__((noinline, noclone))

/* Nothing is freed; whoever asks for so many bytes is what the test looks at. */
static inline void keep(size_t bytes)
{
    void *volatile p = malloc(bytes);
    (void)p;
}

/* So that a call is none that the caller ends with. */
#define THEN() __asm__ volatile("" ::: "memory")

#endif
