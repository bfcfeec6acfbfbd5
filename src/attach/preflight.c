/* preflight.c - the checks that decide whether a process can be taken: runs them in order. */
#include "attach/preflight_private.h"

#include "base/cleanup.h"
#include "base/proc.h"

#include <stdarg.h>
#include <stdlib.h>

enum { CAP_SYS_PTRACE_BIT = 19 };

void hx_check_say(struct hx_check *check, enum hx_check_result result, const char *todo,
                  const char *format, ...)
{
    check->result = result;
    snprintf(check->todo, sizeof check->todo, "%s", todo);
    va_list args;
    va_start(args, format);
    vsnprintf(check->detail, sizeof check->detail, format, args);
    va_end(args);
}

int64_t hx_status_number(const char *status, const char *name, int base, int64_t missing)
{
    const char *value = status ? hx_proc_field(status, name) : NULL;
    return value ? (int64_t)strtoull(value, NULL, base) : missing;
}

bool hx_preflight_can_trace(const struct hx_preflight *p)
{
    return (uint64_t)hx_status_number(p->self, "CapEff", 16, 0) >> CAP_SYS_PTRACE_BIT & 1;
}

int hx_yama_scope(void)
{
    HX_FREE char *text = hx_proc_text("/proc/sys/kernel/yama/ptrace_scope");
    return text ? atoi(text) : -1;
}

static size_t run_preflight(struct hx_preflight *p, const struct hx_preflight_check *list,
                            struct hx_check *checks, size_t room)
{
    size_t done = 0;
    for (size_t i = 0; list[i].name && done < room && !p->gone; i++) {
        if (p->refusals_only && !list[i].required)
            continue;
        checks[done] = (struct hx_check){
            .name = list[i].name, .required = list[i].required, .kind = list[i].kind};
        list[i].run(p, &checks[done++]);
    }
    return done;
}

static void preflight_open(struct hx_preflight *p, pid_t pid)
{
    *p = (struct hx_preflight){.pid = pid, .self = hx_proc_text("/proc/self/status")};
    if (pid <= 0)
        return;
    char path[64];
    p->via = hx_proc_living(pid);
    p->via = p->via ? p->via : pid;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    hx_error *err = hx_proc_read(path, &p->status, NULL);
    p->status_errno = err ? err->os_errno : 0;
    hx_error_free(err);
}

static void preflight_close(struct hx_preflight *p)
{
    free(p->self);
    free(p->status);
}

size_t hx_preflight(pid_t pid, struct hx_check checks[HX_CHECKS_MAX])
{
    struct hx_preflight p;
    preflight_open(&p, pid);
    size_t n = run_preflight(&p, hx_machine_checks, checks, HX_CHECKS_MAX);
    if (pid > 0)
        n += run_preflight(&p, hx_process_checks, checks + n, HX_CHECKS_MAX - n);
    preflight_close(&p);
    return n;
}

static hx_error *first_refusal(const struct hx_check *checks, size_t n, const char *what)
{
    for (size_t i = 0; i < n; i++)
        if (checks[i].required && checks[i].result == HX_CHECK_NO)
            return hx_error_new(checks[i].kind, what, checks[i].todo[0] ? checks[i].todo : NULL,
                                "%s", checks[i].detail);
    return NULL;
}

/* The process first: "no such process" is worth more than what the machine lacks. */
hx_error *hx_preflight_error(pid_t pid)
{
    char what[32];
    snprintf(what, sizeof what, "PID %d", pid);
    if (pid <= 0)
        return hx_error_new(HX_E_ABSENT, what, "see: ps -e", "no such process");
    HX_FREE struct hx_check *checks = calloc(HX_CHECKS_MAX, sizeof *checks);
    struct hx_preflight p;
    HX_NEED(checks);
    hx_proc_await_heapx(pid);
    preflight_open(&p, pid);
    p.refusals_only = true;
    size_t n = run_preflight(&p, hx_process_checks, checks, HX_CHECKS_MAX);
    hx_error *err = first_refusal(checks, n, what);
    if (!err) {
        p.gone = false;
        n = run_preflight(&p, hx_machine_checks, checks, HX_CHECKS_MAX);
        err = first_refusal(checks, n, "this machine");
    }
    preflight_close(&p);
    return err;
}
