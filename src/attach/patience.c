/* patience.c - since when a thread sleeps, from the scheduler's own figures. */
#include "attach/patience.h"

#include "attach/arch.h"
#include "attach/tracer.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The first bytes of /proc/PID/task/TID/NAME; pid 0: of the calling thread. */
static bool read_some(pid_t pid, pid_t tid, const char *name, char *text, size_t size)
{
    char path[64];
    if (pid)
        snprintf(path, sizeof path, "/proc/%d/task/%d/%s", pid, tid, name);
    else
        snprintf(path, sizeof path, "/proc/thread-self/%s", name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);
    if (fd >= 0)
        close(fd);
    text[n < 0 ? 0 : n] = 0;
    return n > 0;
}

/* When the scheduler last looked at the thread, on the clock of its processor. */
static bool last_run(pid_t pid, pid_t tid, uint64_t *ret_ns)
{
    char text[1024];
    uint64_t ms, ns;
    if (!read_some(pid, tid, "sched", text, sizeof text))
        return false;
    const char *line = strstr(text, "se.exec_start");
    const char *colon = line ? strchr(line, ':') : NULL;
    if (!colon || sscanf(colon + 1, "%" SCNu64 ".%6" SCNu64, &ms, &ns) != 2)
        return false;
    *ret_ns = ms * 1000000 + ns;
    return true;
}

static bool slices_of(pid_t pid, pid_t tid, uint64_t *ret)
{
    char text[128];
    return read_some(pid, tid, "schedstat", text, sizeof text) &&
           sscanf(text, "%*s %*s %" SCNu64, ret) == 1;
}

static int processor_of(pid_t pid, pid_t tid)
{
    char text[1024];
    if (!read_some(pid, tid, "stat", text, sizeof text))
        return -1;
    const char *at = strrchr(text, ')');
    for (int field = 2; at && field < 39; field++)
        at = strchr(at + 1, ' ');
    return at ? atoi(at) : -1;
}

/* The scheduler counts time for each processor and leaves out what interrupts and the
 * hypervisor took, so its clock falls behind; by how much is seen by going there. */
static bool learn_clock(struct hx_patience_clocks *clocks, int cpu)
{
    if (cpu < 0 || cpu >= HX_PATIENCE_CPUS)
        return false;
    if (clocks->known[cpu])
        return true;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    uint64_t ran;
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        return false;
    nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL); /* being woken sets exec_start */
    if (!last_run(0, 0, &ran))
        return false;
    clocks->behind_ns[cpu] = (int64_t)(hx_now_ns() - ran);
    clocks->known[cpu] = true;
    return true;
}

void hx_patience_learn(pid_t pid, pid_t tid, struct hx_patience_clocks *clocks,
                       struct hx_patience *ret)
{
    char text[160];
    uint64_t ran, again;
    *ret = (struct hx_patience){0};
    if (!read_some(pid, tid, "syscall", text, sizeof text) || text[0] < '0' || text[0] > '9' ||
        !hx_arch_is_timed_call(strtoul(text, NULL, 10)))
        return;
    int cpu = processor_of(pid, tid);
    if (!learn_clock(clocks, cpu) || !slices_of(pid, tid, &ret->slices) ||
        !last_run(pid, tid, &ran) || processor_of(pid, tid) != cpu ||
        !slices_of(pid, tid, &again) || again != ret->slices)
        return;
    ret->since_ns = (uint64_t)((int64_t)ran + clocks->behind_ns[cpu]);
    ret->known = true;
}

void hx_patience_settle(const struct hx_patience_clocks *clocks)
{
    bool moved = false;
    for (int i = 0; i < HX_PATIENCE_CPUS; i++)
        moved |= clocks->known[i];
    cpu_set_t all;
    memset(&all, 0xff, sizeof all);
    if (moved)
        sched_setaffinity(0, sizeof all, &all);
}

void hx_patience_apply(pid_t pid, pid_t tid, const struct hx_patience *patience)
{
    uint64_t slices, now = hx_now_ns();
    /* once more than before: it was woken, to stop; any other wake-up began a new wait */
    if (!patience->known || !slices_of(pid, tid, &slices) || slices != patience->slices + 1)
        return;
    if (now > patience->since_ns)
        hx_arch_shorten_call(tid, now - patience->since_ns);
}
