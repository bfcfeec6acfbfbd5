/* fuzz.h - what the drivers of test/fuzz share: cases that are made of seeds and a number, run in
 * batches in a process of their own, so that a crash or a hang is found and can be made again.
 *
 * A driver is fuzz_NAME.c: a function that takes one case, and main() which hands it to
 * hx_fuzz_main(). scripts/fuzz runs all of them.
 */
#ifndef HX_TEST_FUZZ_H
#define HX_TEST_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hx_fuzz_case {
    const char *seed; /* the file it was made of */
    uint8_t *bytes;
    size_t n;
    bool cut;        /* the seed's beginning, else unchanged */
    bool own;        /* the seed as it is, which the driver changes: see struct hx_fuzz */
    uint64_t number; /* of the case, for choices that the driver makes */
};

struct hx_fuzz {
    /* A case; returns false when it must not have come out so, and has said why. `kind` counts
     * outcomes: one of the names below. */
    bool (*one)(void *context, const struct hx_fuzz_case *fuzz_case, unsigned *kind);
    const char *const *kinds; /* ends with NULL; at most HX_FUZZ_KINDS */
    void *(*begin)(void);     /* for one batch; may be NULL */
    void (*end)(void *context);
    const char *const *words; /* put into cases now and then; ends with NULL; may be NULL */
    unsigned own; /* so many of 100 cases are left to the driver to change, by what they mean */
};
#define HX_FUZZ_KINDS 16

/* The next of a row of random numbers; one below n, 0 when n is 0. */
uint64_t hx_fuzz_next(uint64_t *state);
size_t hx_fuzz_below(uint64_t *state, size_t n);

/* fuzz_NAME [--cases N] [--seconds N] [--cuts] [--from NUMBER] SEED...
 * HX_SEED is the first number. Without --cuts cases are mutations, else all beginnings of all
 * seeds. Prints what came out; returns the exit status. */
int hx_fuzz_main(const struct hx_fuzz *fuzz, int argc, char **argv);

#endif
