/* parallel.c - starting and joining the threads of one piece of work. */
#include "base/parallel.h"

#include <sched.h>

#define THREADS_DEFAULT_MAX 16

unsigned hx_threads(unsigned asked)
{
    if (asked)
        return asked < HX_THREADS_MAX ? asked : HX_THREADS_MAX;
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    if (n < 1)
        n = 1;
    return n < THREADS_DEFAULT_MAX ? (unsigned)n : THREADS_DEFAULT_MAX;
}

struct worker {
    void (*work)(void *context, unsigned i);
    void *context;
    unsigned i;
    pthread_t thread;
    bool started;
};

static void *worker_main(void *arg)
{
    struct worker *worker = arg;
    worker->work(worker->context, worker->i);
    return NULL;
}

void hx_thread_signals(sigset_t *ret)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};
    sigfillset(ret);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        sigdelset(ret, faults[i]);
}

void hx_parallel(unsigned n, void (*work)(void *context, unsigned i), void *context)
{
    struct worker worker[HX_THREADS_MAX];
    if (n > HX_THREADS_MAX)
        n = HX_THREADS_MAX;
    /* A signal belongs to the thread that knows what to do about it. */
    sigset_t blocked, before;
    hx_thread_signals(&blocked);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    for (unsigned i = 1; i < n; i++) {
        worker[i] = (struct worker){.work = work, .context = context, .i = i};
        worker[i].started = pthread_create(&worker[i].thread, NULL, worker_main, &worker[i]) == 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (n)
        work(context, 0);
    for (unsigned i = 1; i < n; i++) {
        if (worker[i].started)
            pthread_join(worker[i].thread, NULL);
        else
            work(context, i);
    }
}

static void *aside_main(void *arg)
{
    const struct hx_aside *aside = arg;
    aside->work(aside->context);
    return NULL;
}

void hx_aside_begin(void (*work)(void *context), void *context, struct hx_aside *ret)
{
    sigset_t blocked, before;
    *ret = (struct hx_aside){.work = work, .context = context};
    hx_thread_signals(&blocked);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    ret->started = pthread_create(&ret->thread, NULL, aside_main, ret) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void hx_aside_end(struct hx_aside *aside)
{
    if (aside->started)
        pthread_join(aside->thread, NULL);
    else
        aside->work(aside->context);
}
