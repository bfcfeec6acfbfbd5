/* memory_limits.h - the limits on memory that heapx and its target live under.
 *
 * Memory cgroups of both versions and both processes, each one with a limit from that of the
 * process up to the highest one that can be seen, and the machine. What the kernel can take back
 * at once (page cache that nobody has mapped or must write) counts as free. Reads files only.
 */
#ifndef HX_ATTACH_MEMORY_LIMITS_H
#define HX_ATTACH_MEMORY_LIMITS_H

#include "base/error.h"
#include "base/vec.h"

#include <sys/types.h>

enum hx_limit_kind { HX_LIMIT_V2, HX_LIMIT_V1, HX_LIMIT_V1_SWAP, HX_LIMIT_MACHINE };

struct hx_limit {
    enum hx_limit_kind kind;
    char *name;     /* "the memory cgroup FOLDER", "this machine"; owned */
    bool ours, its; /* heapx, the target is below it */
    uint64_t bytes;
    uint64_t reserve;      /* what heapx leaves free */
    int usage_fd, stat_fd; /* of the machine both are /proc/meminfo */
};
typedef HX_VEC(struct hx_limit) hx_limits;

/* The limits of this process and of pid (0: of this one alone). root: a folder with proc and sys
 * as at /; "" is /. What cannot be read or seen is left out: no error but HX_E_NOMEM. */
hx_error *hx_limits_find(const char *root, pid_t pid, hx_limits *ret);
void hx_limits_deinit(hx_limits *limits);

/* How many bytes are free below the limit now; a cheap lower bound where that is `enough`.
 * UINT64_MAX: not known. */
uint64_t hx_limit_left(const struct hx_limit *limit, uint64_t enough);

/* What a capture will take. */
struct hx_memory_need {
    uint64_t ours; /* by heapx */
    uint64_t its;  /* swapped pages of the target, which reading brings back */
};

/* What the analysis of so much memory takes beside it, in an ordinary heap (blocks of about 100
 * bytes). One of smaller blocks takes up to twice that, which only the walk can tell. */
uint64_t hx_memory_analysis(uint64_t bytes);

/* The limit below which that does not fit with the reserve; NULL: there is none. *ret_left: what
 * is left below it. */
const struct hx_limit *hx_limits_short(const hx_limits *limits, const struct hx_memory_need *need,
                                       uint64_t *ret_left);

/* The same as an error, HX_E_LIMIT, that says what to type. */
hx_error *hx_limits_fit(const hx_limits *limits, const struct hx_memory_need *need);

/* What to do about a limit that is too near. */
const char *hx_limit_todo(const struct hx_limit *limit);

#endif
