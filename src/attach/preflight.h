/* preflight.h - may this process be taken, and if not, what to type.
 *
 * Reads /proc and asks the kernel about this process and a child of its own; touches
 * nothing of the target. One list of checks serves both the refusal of `attach` and the
 * table of `heapx doctor`.
 */
#ifndef HX_ATTACH_PREFLIGHT_H
#define HX_ATTACH_PREFLIGHT_H

#include "base/error.h"
#include "base/text.h"

#include <sys/types.h>

enum hx_check_result { HX_CHECK_OK, HX_CHECK_NO, HX_CHECK_UNKNOWN };

struct hx_check {
    const char *name; /* "exists", "ptrace_scope", ... */
    enum hx_check_result result;
    bool required;           /* NO is a refusal; without: only something will work worse */
    enum hx_error_kind kind; /* of the refusal */
    char detail[200];        /* what was seen */
    char todo[200];          /* what to type; "" when nothing */
};

#define HX_CHECKS_MAX 32

/* Checks of the machine, and of the process when pid > 0. Returns how many. */
size_t hx_preflight(pid_t pid, struct hx_check checks[HX_CHECKS_MAX]);

/* NULL when pid may be traced, else the first refusal as an error. */
hx_error *hx_preflight_error(pid_t pid);

#endif
