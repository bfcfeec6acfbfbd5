/* unit.h - what unit tests share: cmocka with the headers it wants, and random numbers
 * that can be had again.
 *
 * A property test takes its seed from HX_SEED when that is set and prints it otherwise, so
 * that a failure can be repeated. HX_QUICK=1 (set under Valgrind) asks for fewer rounds.
 */
#ifndef HX_TEST_UNIT_H
#define HX_TEST_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

struct unit_random {
    uint64_t state;
};

/* Begins a sequence and prints how to get it again. */
static inline struct unit_random unit_random_begin(const char *test)
{
    const char *given = getenv("HX_SEED");
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t seed = given ? strtoull(given, NULL, 0) : (uint64_t)now.tv_nsec ^ (uint64_t)now.tv_sec;
    printf("%s: HX_SEED=%llu\n", test, (unsigned long long)seed);
    fflush(stdout);
    return (struct unit_random){seed};
}

/* splitmix64: each state gives one well-mixed word. */
static inline uint64_t unit_random(struct unit_random *random)
{
    uint64_t z = random->state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

/* A number in 0..limit-1; limit is not 0. */
static inline uint64_t unit_below(struct unit_random *random, uint64_t limit)
{
    return unit_random(random) % limit;
}

/* What part of all that a test could do it should do: 1 of this many. Less when HX_QUICK is set,
 * still less under Valgrind. */
static inline size_t unit_part(void)
{
    const char *quick = getenv("HX_QUICK");
    return getenv("HX_VALGRIND") ? 40 : quick && *quick && *quick != '0' ? 10 : 1;
}

/* Rounds, of `full` ones. */
static inline size_t unit_rounds(size_t full)
{
    return (full + unit_part() - 1) / unit_part();
}

#endif
