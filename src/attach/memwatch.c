/* memwatch.c - the thread that looks at the limits while a snapshot is made. */
#include "attach/memwatch.h"

#include "attach/stop/urgent.h"
#include "base/cleanup.h"
#include "base/parallel.h"
#include "base/proc.h"
#include "base/text.h"
#include "base/timing.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* The fastest growth that was measured, with a margin: by that the next look is planned. */
static const uint64_t bytes_per_ns = 8;
static const uint64_t least_nap_ns = 500000, most_nap_ns = 20000000;

/* At this part of the reserve there is no time left to end in order. */
enum { LAST_PART = 4 };

struct hx_memwatch {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t ending;
    bool end; /* guarded by lock */
    hx_limits limits;
    struct hx_memory_need need;
    atomic_bool *exhausted;
    _Atomic(const struct hx_limit *) reached; /* the first one; NULL: none */
    uint64_t kills;                           /* of the kernel, when it began */
};

void hx_oom_volunteer(void)
{
    HX_FD int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0 && write(fd, "1000", 4) != 4)
        return; /* then the kernel decides as it would have */
}

/* How many processes the kernel has ended for lack of memory, in any cgroup. */
static uint64_t count_kills(void)
{
    HX_FREE char *text = hx_proc_text("/proc/vmstat");
    const char *line = text ? strstr(text, "\noom_kill ") : NULL;
    return line ? strtoull(line + strlen("\noom_kill "), NULL, 10) : 0;
}

bool hx_memwatch_killed(const struct hx_memwatch *watch)
{
    return watch && count_kills() > watch->kills;
}

hx_error *hx_memwatch_error(const struct hx_memwatch *watch)
{
    const struct hx_limit *limit = watch ? atomic_load(&watch->reached) : NULL;
    char reserve[HX_HUMAN], all[HX_HUMAN];
    HX_NEED(limit);
    return hx_error_new(HX_E_LIMIT, "memory", hx_limit_todo(limit),
                        "while the snapshot was made less than %s was left of the %s of %s: it was "
                        "given up",
                        hx_human_bytes(limit->reserve, reserve), hx_human_bytes(limit->bytes, all),
                        limit->name);
}

/* At once, as the kernel would: a thread that waits or computes cannot delay it. The explorer's
 * handler for crashes restores the terminal. */
static _Noreturn void end_process(const struct hx_memwatch *watch)
{
    char line[512];
    struct sigaction crash;
    hx_error *err = hx_memwatch_error(watch);
    hx_error_line(err, line, sizeof line);
    prctl(PR_SET_DUMPABLE, 0);
    bool handled = sigaction(SIGABRT, NULL, &crash) == 0 && crash.sa_flags & SA_SIGINFO;
    if (handled) {
        crash.sa_sigaction(SIGABRT, &(siginfo_t){.si_code = 1}, NULL);
        signal(SIGABRT, SIG_DFL);
    }
    dprintf(STDERR_FILENO, "heapx: %s\n", line);
    _exit(1);
}

/* Looks once; how long until it must look again. */
static uint64_t poll_memory(struct hx_memwatch *watch)
{
    uint64_t nap = most_nap_ns;
    for (size_t i = 0; i < watch->limits.n; i++) {
        const struct hx_limit *limit = &watch->limits.v[i];
        if (!limit->ours && !watch->need.its)
            continue;
        uint64_t left = hx_limit_left(limit, 2 * limit->reserve);
        uint64_t over = left > limit->reserve ? (left - limit->reserve) / bytes_per_ns : 0;
        nap = over < nap ? over : nap;
        if (left >= limit->reserve)
            continue;
        const struct hx_limit *none = NULL;
        atomic_compare_exchange_strong(&watch->reached, &none, limit);
        atomic_store(watch->exhausted, true);
        if (limit->ours && left < limit->reserve / LAST_PART)
            end_process(watch);
    }
    return nap < least_nap_ns ? least_nap_ns : nap;
}

static void *watch_limits(void *argument)
{
    struct hx_memwatch *watch = argument;
    struct hx_urgent until_it_ends;
    hx_urgent_begin(&until_it_ends);
    pthread_mutex_lock(&watch->lock);
    while (!watch->end) {
        uint64_t until = hx_now_ns() + poll_memory(watch);
        struct timespec time = {(time_t)(until / 1000000000), (long)(until % 1000000000)};
        pthread_cond_timedwait(&watch->ending, &watch->lock, &time);
    }
    pthread_mutex_unlock(&watch->lock);
    return NULL;
}

struct hx_memwatch *hx_memwatch_begin(hx_limits *limits, const struct hx_memory_need *need,
                                      atomic_bool *exhausted)
{
    struct hx_memwatch *watch = calloc(1, sizeof *watch);
    if (!watch)
        return NULL;
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&watch->ending, &clock);
    pthread_condattr_destroy(&clock);
    pthread_mutex_init(&watch->lock, NULL);
    watch->need = *need;
    watch->exhausted = exhausted;
    watch->kills = count_kills();
    watch->limits = *limits;
    sigset_t blocked, before;
    hx_thread_signals(&blocked);
    pthread_sigmask(SIG_BLOCK, &blocked, &before);
    bool made = pthread_create(&watch->thread, NULL, watch_limits, watch) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!made) {
        free(watch);
        return NULL;
    }
    *limits = (hx_limits){0};
    return watch;
}

void hx_memwatch_end(struct hx_memwatch *watch)
{
    if (!watch)
        return;
    pthread_mutex_lock(&watch->lock);
    watch->end = true;
    pthread_cond_signal(&watch->ending);
    pthread_mutex_unlock(&watch->lock);
    pthread_join(watch->thread, NULL);
    pthread_cond_destroy(&watch->ending);
    pthread_mutex_destroy(&watch->lock);
    hx_limits_deinit(&watch->limits);
    free(watch);
}
