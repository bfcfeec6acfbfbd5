/* vitals.h - what /proc tells of a process at a glance: nothing is stopped or traced for it. */
#ifndef HX_ATTACH_VITALS_H
#define HX_ATTACH_VITALS_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* name, what it is */
#define HX_VITALS(X)                                                                               \
    X(RSS, "rss", "resident memory, bytes")                                                        \
    X(ANON, "anon", "what of it belongs to no file")                                               \
    X(FILE, "file", "what of it is of files")                                                      \
    X(SHMEM, "shmem", "what of it is shared memory")                                               \
    X(SWAP, "swap", "bytes that are swapped out")                                                  \
    X(PSS, "pss", "resident memory, shared pages in parts")                                        \
    X(SIZE, "size", "address space, bytes")                                                        \
    X(DATA, "data", "private writable address space, bytes")                                       \
    X(HEAP, "heap", "the mapping [heap], bytes")                                                   \
    X(THREADS, "threads", "threads")                                                               \
    X(FDS, "fds", "open files")                                                                    \
    X(UPTIME, "uptime", "seconds since it began")                                                  \
    X(CPU, "cpu", "seconds of processor time")

enum hx_vital {
#define X(id, name, about) HX_VITAL_##id,
    HX_VITALS(X)
#undef X
        HX_VITALS_N
};

const char *hx_vital_name(enum hx_vital vital);

struct hx_vitals {
    bool has[HX_VITALS_N];
    double value[HX_VITALS_N]; /* bytes are exact: they stay below 2^53 */
};

/* Reads those with a bit in `wanted`, and opens only the files that they stand in. What cannot be
 * read is not known. HX_E_GONE: there is no such process any more. */
hx_error *hx_vitals_read(pid_t pid, unsigned wanted, struct hx_vitals *ret);

#endif
