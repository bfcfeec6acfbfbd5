/* timed_call.c - since when a thread sleeps, from the scheduler's own figures. */
#include "attach/stop/timed_call.h"

#include "attach/stop/registers.h"
#include "base/cleanup.h"
#include "base/proc.h"
#include "base/timing.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* /proc/PID/task/TID/NAME; pid 0: of the calling thread. */
static int open_task_file(pid_t pid, pid_t tid, const char *name)
{
    char path[64];
    if (pid)
        snprintf(path, sizeof path, "/proc/%d/task/%d/%s", pid, tid, name);
    else
        snprintf(path, sizeof path, "/proc/thread-self/%s", name);
    return open(path, O_RDONLY | O_CLOEXEC);
}

static bool read_head(int fd, char *text, size_t size)
{
    ssize_t n = fd < 0 ? -1 : pread(fd, text, size - 1, 0);
    text[n < 0 ? 0 : n] = 0;
    return n > 0;
}

/* The first bytes of it. */
static bool read_task_file(pid_t pid, pid_t tid, const char *name, char *text, size_t size)
{
    HX_FD int fd = open_task_file(pid, tid, name);
    return read_head(fd, text, size);
}

/* How often the clock of a processor is looked at, and how long the best of these takes from
 * being given the processor to reading the time, at most. */
enum { CLOCK_TRIES = 6 };

/* So many descriptors are left to others. */
enum { FILES_SPARED = 64 };
static const int64_t wake_ns = 5000;

/* What the clocks may be wrong by beyond that, and what part of the time slept: as much as the
 * kernel slows CLOCK_MONOTONIC down to set it right (500 ppm), twice. A limit ends later by it at
 * each stop. */
static const uint64_t margin_ns = 100000, margin_part = 1000;

/* Where the value of "NAME   :   VALUE" begins in /proc/PID/task/TID/sched. */
static const char *sched_value(const char *text, const char *name)
{
    const char *line = strstr(text, name);
    const char *colon = line ? strchr(line, ':') : NULL;
    return colon ? colon + 1 : NULL;
}

/* "MS.NNNNNN" */
static bool sched_figure(const char *text, const char *name, uint64_t *ret_ns)
{
    uint64_t ms, ns;
    const char *value = sched_value(text, name);
    if (!value || sscanf(value, "%" SCNu64 ".%6" SCNu64, &ms, &ns) != 2)
        return false;
    *ret_ns = ms * 1000000 + ns;
    return true;
}

static bool sched_count(const char *text, const char *name, uint64_t *ret)
{
    const char *value = sched_value(text, name);
    return value && sscanf(value, "%" SCNu64, ret) == 1;
}

static bool read_schedstat(pid_t pid, pid_t tid, uint64_t *ret)
{
    char text[128];
    return read_task_file(pid, tid, "schedstat", text, sizeof text) &&
           sscanf(text, "%*s %*s %" SCNu64, ret) == 1;
}

/* Does the thread sleep in a call with a time limit? */
static bool sleeps_in_timed_call(pid_t pid, pid_t tid)
{
    char text[160];
    return read_task_file(pid, tid, "syscall", text, sizeof text) && text[0] >= '0' &&
           text[0] <= '9' && hx_arch_is_timed_call(strtoul(text, NULL, 10));
}

static bool read_sched(int fd, struct hx_timeout *ret)
{
    char text[4096];
    return read_head(fd, text, sizeof text) && sched_figure(text, "se.exec_start", &ret->seen_ns) &&
           sched_figure(text, "se.sum_exec_runtime", &ret->ran_ns) &&
           sched_count(text, "nr_switches", &ret->slices) &&
           sched_count(text, "se.nr_migrations", &ret->moves);
}

static bool read_cpu(pid_t pid, pid_t tid, int *ret)
{
    uint64_t cpu;
    return hx_proc_stat(pid, tid, 39, &cpu, 1) && (*ret = (int)cpu) >= 0 && *ret < HX_TIMEOUT_CPUS;
}

/* Of a thread that sleeps in such a call all the while; looked at in between, because one that
 * runs can fall asleep afterwards without having been given a processor again. False when they
 * cannot be read or the thread ran meanwhile. */
static bool read_asleep(pid_t pid, pid_t tid, int sched, struct hx_timeout *ret)
{
    uint64_t slices, again;
    return read_schedstat(pid, tid, &slices) && sleeps_in_timed_call(pid, tid) &&
           read_cpu(pid, tid, &ret->cpu) && read_sched(sched, ret) &&
           read_schedstat(pid, tid, &again) && again == slices;
}

/* The scheduler counts time for each processor and leaves out what interrupts and the
 * hypervisor took, so its clock falls behind; by how much is seen by going there and being
 * woken, which is when it notes the time. */
static void learn_clock(struct hx_timeout_clocks *clocks, int cpu)
{
    const struct timespec nap = {.tv_nsec = 20000};
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        return;
    int64_t least = INT64_MIN, near = INT64_MAX, most = INT64_MAX;
    for (int i = 0; i < CLOCK_TRIES; i++) {
        char text[1024];
        uint64_t woken, before = hx_now_ns() + (uint64_t)nap.tv_nsec;
        nanosleep(&nap, NULL);
        uint64_t after = hx_now_ns();
        if (!read_task_file(0, 0, "sched", text, sizeof text) ||
            !sched_figure(text, "se.exec_start", &woken))
            return;
        uint64_t end = hx_now_ns();
        if (end - after > 1000000)
            continue;
        if ((int64_t)(before - woken) > least)
            least = (int64_t)(before - woken);
        if ((int64_t)(after - woken) < near)
            near = (int64_t)(after - woken);
        if ((int64_t)(end - woken) < most) /* a tick can have moved the figure on until now */
            most = (int64_t)(end - woken);
    }
    if (most == INT64_MAX)
        return;
    /* Most of what lies between the two is the way to being woken; the way back to here is
     * short in the best of the tries. */
    clocks->most_ns[cpu] = most;
    clocks->least_ns[cpu] = near - least > wake_ns ? near - wake_ns : least;
}

void hx_timeout_sample_clocks(struct hx_timeout_clocks *clocks)
{
    for (int cpu = 0; cpu < HX_TIMEOUT_CPUS; cpu++)
        clocks->least_ns[cpu] = clocks->most_ns[cpu] = INT64_MAX;
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return;
    prctl(PR_SET_TIMERSLACK, 1);
    for (int cpu = 0; cpu < HX_TIMEOUT_CPUS; cpu++)
        if (CPU_ISSET(cpu, &allowed))
            learn_clock(clocks, cpu);
    sched_setaffinity(0, sizeof allowed, &allowed);
    clocks->learnt_ns = hx_now_ns();
}

/* The latest time at which the thread can have fallen asleep. The kernel may move a thread that
 * has only just begun to sleep to another processor, so the figure can be of any one's clock,
 * and on a virtual machine these are far apart. Only what would lie in the future it is not, seen
 * from when the clocks were learnt, as far behind as they were then. A thread that was moved in
 * its sleep shows 0. */
static int64_t fell_asleep(const struct hx_timeout_clocks *clocks, const struct hx_timeout *asleep)
{
    int64_t learnt = (int64_t)clocks->learnt_ns, seen = (int64_t)asleep->seen_ns;
    if (!seen)
        return (int64_t)asleep->read_ns;
    int64_t latest = seen + clocks->most_ns[asleep->cpu];
    for (int cpu = 0; cpu < HX_TIMEOUT_CPUS; cpu++) {
        int64_t least = clocks->least_ns[cpu], most = clocks->most_ns[cpu];
        if (most != INT64_MAX && seen + least <= learnt && seen + most > latest)
            latest = seen + most;
    }
    return latest < (int64_t)asleep->read_ns ? latest : (int64_t)asleep->read_ns;
}

void hx_timeout_sample(pid_t pid, pid_t tid, struct hx_timeout *ret)
{
    *ret = (struct hx_timeout){.sched = -1};
    if (!sleeps_in_timed_call(pid, tid)) /* as most do; the rest costs more */
        return;
    HX_FD int sched = open_task_file(pid, tid, "sched");
    ret->known = read_asleep(pid, tid, sched, ret);
    ret->read_ns = hx_now_ns();
    struct rlimit files;
    if (!ret->known || getrlimit(RLIMIT_NOFILE, &files) != 0 ||
        (rlim_t)sched + FILES_SPARED > files.rlim_cur)
        return;
    ret->sched = sched;
    sched = -1;
}

void hx_timeout_shorten(pid_t pid, pid_t tid, const struct hx_timeout_clocks *clocks,
                        const struct hx_timeout *asleep, uint64_t interrupted_ns)
{
    if (!asleep->known || clocks->most_ns[asleep->cpu] == INT64_MAX)
        return;
    struct hx_timeout awake = *asleep;
    HX_FD int sched = asleep->sched < 0 ? open_task_file(pid, tid, "sched") : -1;
    if (!read_sched(sched < 0 ? asleep->sched : sched, &awake) ||
        awake.slices != asleep->slices + 1 ||
        (awake.moves != asleep->moves && !read_cpu(pid, tid, &awake.cpu)) ||
        clocks->least_ns[awake.cpu] == INT64_MAX)
        return;
    int64_t now = (int64_t)hx_now_ns();
    int64_t since = fell_asleep(clocks, asleep);
    if (since < 0 || now <= since)
        return;
    /* It must have run just once since, and not before it was told to stop: then it is the stop
     * that woke it, and the call is still the one in which it fell asleep. (In the future: by the
     * clock of another processor.) */
    uint64_t ran = awake.ran_ns - asleep->ran_ns;
    int64_t seen = (int64_t)awake.seen_ns + clocks->least_ns[awake.cpu];
    int64_t began = seen - (int64_t)ran;
    uint64_t slept = (uint64_t)(now - since), margin = margin_ns + slept / margin_part;
    if (began >= (int64_t)interrupted_ns && seen <= now && slept > margin)
        hx_arch_shorten_call(tid, slept - margin);
}
