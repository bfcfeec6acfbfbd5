/* timing.h - the clock, and how long the stages of a snapshot take, for the benchmark.
 *
 * With HEAPX_TIMING=1 in the environment each stage prints one line on stderr:
 * `timing STAGE SECONDS COUNT`, COUNT being what the stage worked on (objects, bytes),
 * 0 when it does not count. Without it nothing is measured or printed. With HEAPX_TIMING=cpu it is
 * the time of the processors, of all threads, which other work on the machine does not change.
 */
#ifndef HX_BASE_TIMING_H
#define HX_BASE_TIMING_H

#include <stdint.h>

/* CLOCK_MONOTONIC in nanoseconds. */
uint64_t hx_now_ns(void);

/* The processor's time-stamp counter, read after all that came before; 0 where there is none. */
uint64_t hx_now_ticks(void);

/* The clock that timings are asked for by, 0 when nobody asks. */
uint64_t hx_timing_begin(void);

/* Prints the line of a stage that began at `begin`; nothing when begin is 0. */
void hx_timing_end(uint64_t begin, const char *stage, uint64_t count);

#endif
