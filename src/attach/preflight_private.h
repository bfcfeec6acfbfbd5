/* preflight_private.h - the files of checks among themselves. */
#ifndef HX_ATTACH_PREFLIGHT_PRIVATE_H
#define HX_ATTACH_PREFLIGHT_PRIVATE_H

#include "attach/preflight.h"

#include <stdint.h>

/* What the checks of one call share. */
struct hx_preflight {
    pid_t pid;
    pid_t via;    /* whose files in /proc show the process: see hx_proc_living(); else pid */
    char *self;   /* /proc/self/status */
    char *status; /* /proc/PID/status; NULL: not readable */
    int status_errno;
    bool gone;          /* nothing more can be said of the process */
    bool refusals_only; /* leave out what only works worse */
};

struct hx_preflight_check {
    const char *name;
    bool required;
    enum hx_error_kind kind;
    void (*run)(struct hx_preflight *p, struct hx_check *check);
};

/* In the order in which a refusal should be told; a row without a name ends the list. */
extern const struct hx_preflight_check hx_machine_checks[], hx_process_checks[];

/* The result of a check: what to type, what was seen. */
void hx_check_say(struct hx_check *check, enum hx_check_result result, const char *todo,
                  const char *format, ...) __attribute__((format(printf, 4, 5)));

/* A number of a status text (NULL: none). */
int64_t hx_status_number(const char *status, const char *name, int base, int64_t missing);

bool hx_preflight_can_trace(const struct hx_preflight *p); /* CAP_SYS_PTRACE */

/* kernel.yama.ptrace_scope; -1 when the kernel has no such rule. */
int hx_yama_scope(void);

#endif
