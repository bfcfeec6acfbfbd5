/* short_call.c - what came back short, and was it the stop that did it? */
#include "attach/stop/short_call.h"

#include "attach/stop/registers.h"
#include "base/cleanup.h"
#include "base/proc.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* Its source gives random bytes. The name first: a look at a file can take long. */
static bool is_random(pid_t pid, pid_t tid, int fd)
{
    char path[80], name[16];
    struct stat st;
    snprintf(path, sizeof path, "/proc/%d/task/%d/fd/%d", pid, tid, fd);
    ssize_t n = readlink(path, name, sizeof name - 1);
    name[n < 0 ? 0 : n] = 0;
    return (!strcmp(name, "/dev/urandom") || !strcmp(name, "/dev/random")) &&
           stat(path, &st) == 0 && S_ISCHR(st.st_mode) &&
           (st.st_rdev == makedev(1, 8) || st.st_rdev == makedev(1, 9));
}

static uint64_t descriptor_number(const char *text, const char *name, int base)
{
    const char *value = hx_proc_field(text, name);
    return value ? strtoull(value, NULL, base) : 0;
}

/* Would it have waited for the rest? */
static bool is_waiting_call(struct hx_short_result *call, const char *about)
{
    if (!about || descriptor_number(about, "flags", 8) & O_NONBLOCK)
        return false;
    if (call->kind != HX_SHORT_COMPLETIONS)
        return true;
    call->done =
        (uint32_t)(descriptor_number(about, "CqTail", 10) - descriptor_number(about, "CqHead", 10));
    return call->done < call->requested;
}

bool hx_short_call(pid_t pid, pid_t tid, struct hx_short_calls *calls)
{
    struct hx_short_result call;
    if (!hx_arch_short_result(pid, tid, &call))
        return false;
    if (call.kind == HX_SHORT_RANDOM ||
        (call.kind == HX_SHORT_READ && is_random(pid, tid, call.fd))) {
        hx_arch_begin_again(tid);
        return false;
    }
    if (call.kind == HX_SHORT_READ)
        return false; /* as much as there was */
    HX_FREE char *about = hx_proc_text("/proc/%d/task/%d/fdinfo/%d", pid, tid, call.fd);
    if (!is_waiting_call(&call, about))
        return false;
    calls->n++;
    snprintf(calls->newest, sizeof calls->newest, "%s of thread %d (%" PRIu64 " of %" PRIu64 " %s)",
             call.name, tid, call.done, call.requested,
             call.kind == HX_SHORT_COMPLETIONS ? "completions" : "bytes");
    return true;
}
