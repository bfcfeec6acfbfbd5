/* unit.h - what unit tests share: cmocka with the headers it wants, and random numbers
 * that can be had again.
 *
 * A property test takes its seed from HX_SEED when that is set and prints it otherwise, so
 * that a failure can be repeated. HX_QUICK=1 (set under Valgrind) asks for fewer rounds,
 * HX_NIGHTLY=1 for all of them.
 */
#ifndef HX_TEST_UNIT_H
#define HX_TEST_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
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

static inline bool unit_is_set(const char *variable)
{
    const char *value = getenv(variable);
    return value && *value && *value != '0';
}

/* Without large sizes and long lists. */
static inline bool unit_quick(void)
{
    return unit_is_set("HX_QUICK");
}

/* What part of a list of cases a test should do: 1 of this many, others each time. */
static inline size_t unit_part(void)
{
    return getenv("HX_VALGRIND") ? unit_is_set("HX_NIGHTLY") ? 10 : 40 : unit_quick() ? 10 : 1;
}

/* Rounds with random numbers, of `full` ones. */
static inline size_t unit_rounds(size_t full)
{
    size_t part = unit_part() > 1 || unit_is_set("HX_NIGHTLY") ? unit_part() : 3;
    return (full + part - 1) / part;
}

/* Runs a group of tests that is long under Valgrind: there one of three, others each time. */
#define unit_run_some(tests) unit_run_some_with(tests, NULL, NULL)
#define unit_run_some_with(tests, enter, leave)                                                    \
    unit_run_some_of(#tests, tests, sizeof(tests) / sizeof *(tests), enter, leave)

static inline int unit_run_some_of(const char *name, const struct CMUnitTest *tests, size_t n,
                                   CMFixtureFunction enter, CMFixtureFunction leave)
{
    struct CMUnitTest chosen[64];
    assert_true(n <= sizeof chosen / sizeof *chosen);
    if (!getenv("HX_VALGRIND") || unit_is_set("HX_NIGHTLY"))
        return _cmocka_run_group_tests(name, tests, n, enter, leave);
    struct unit_random random = unit_random_begin(name);
    size_t count = 0;
    for (size_t i = unit_below(&random, n < 3 ? n : 3); i < n; i += 3)
        chosen[count++] = tests[i];
    return _cmocka_run_group_tests(name, chosen, count, enter, leave);
}

#endif
