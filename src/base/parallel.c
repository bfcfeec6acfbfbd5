/* parallel.c - starting and joining the threads of one piece of work. */
#include "base/parallel.h"

#include "base/cleanup.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define THREADS_DEFAULT_MAX 16
#define SPINS               4000 /* looks at a word before a thread sleeps or yields: about 100 us */

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

unsigned hx_threads_free(void)
{
    HX_FILE FILE *load = fopen("/proc/loadavg", "re");
    long all = sysconf(_SC_NPROCESSORS_ONLN), running = 1; /* this thread */
    unsigned usable = hx_threads(0);
    if (!load || fscanf(load, "%*s %*s %*s %ld/", &running) != 1)
        running = 1;
    long left = all - (running - 1);
    return left < 1 ? 1 : left < (long)usable ? (unsigned)left : usable;
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

/* Makes a thread; false: there is none. A signal belongs to the thread that knows what to do about
 * it. */
static bool make_thread(void *(*run)(void *), void *arg, pthread_t *ret)
{
    sigset_t blocked, before;
    hx_thread_signals(&blocked);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    bool made = pthread_create(ret, NULL, run, arg) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return made;
}

void hx_parallel(unsigned n, void (*work)(void *context, unsigned i), void *context)
{
    struct worker worker[HX_THREADS_MAX];
    if (n > HX_THREADS_MAX)
        n = HX_THREADS_MAX;
    for (unsigned i = 1; i < n; i++) {
        worker[i] = (struct worker){.work = work, .context = context, .i = i};
        worker[i].started = make_thread(worker_main, &worker[i], &worker[i].thread);
    }
    if (n)
        work(context, 0);
    for (unsigned i = 1; i < n; i++) {
        if (worker[i].started)
            pthread_join(worker[i].thread, NULL);
        else
            work(context, i);
    }
}

struct blocks {
    size_t n, block;
    hx_block_work *work;
    void *context;
    const struct hx_progress *progress;
    atomic_size_t claimed;
};

static void blocks_worker(void *context, unsigned i)
{
    struct blocks *blocks = context;
    size_t from;
    while ((from = atomic_fetch_add(&blocks->claimed, blocks->block)) < blocks->n &&
           !hx_progress_cancelled(blocks->progress))
        blocks->work(blocks->context, i, from,
                     blocks->n - from < blocks->block ? blocks->n : from + blocks->block);
}

void hx_parallel_blocks(unsigned workers, size_t n, size_t block, hx_block_work *work,
                        void *context, const struct hx_progress *progress)
{
    struct blocks blocks = {
        .n = n, .block = block, .work = work, .context = context, .progress = progress};
    const size_t most = n <= block ? 1 : (n - 1) / block + 1;
    hx_parallel(workers < most ? workers : (unsigned)most, blocks_worker, &blocks);
}

/* --- a team ------------------------------------------------------------------------------- */

/* `piece` counts the pieces of work; at the last one, which is none, all end. A worker that sleeps
 * has said so before it looked at `piece` again, so that nobody is missed. */
struct hx_team {
    void (*work)(void *context, unsigned i);
    void *context;
    unsigned n, asked;
    atomic_uint piece, busy, asleep;
    atomic_bool ends;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct member {
        struct hx_team *team;
        unsigned i;
        pthread_t thread;
    } member[HX_THREADS_MAX];
};

static inline void spin(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static void wait_for_piece(struct hx_team *team, unsigned last)
{
    for (unsigned i = 0; i < SPINS; i++, spin())
        if (atomic_load(&team->piece) != last)
            return;
    pthread_mutex_lock(&team->lock);
    atomic_fetch_add(&team->asleep, 1);
    while (atomic_load(&team->piece) == last)
        pthread_cond_wait(&team->wake, &team->lock);
    atomic_fetch_sub(&team->asleep, 1);
    pthread_mutex_unlock(&team->lock);
}

static void *member_main(void *arg)
{
    const struct member *member = arg;
    struct hx_team *team = member->team;
    for (unsigned piece = 0;; piece++) {
        wait_for_piece(team, piece);
        if (atomic_load(&team->ends))
            return NULL;
        team->work(team->context, member->i);
        atomic_fetch_sub(&team->busy, 1);
    }
}

static void begin_piece(struct hx_team *team)
{
    atomic_fetch_add(&team->piece, 1);
    if (!atomic_load(&team->asleep))
        return;
    pthread_mutex_lock(&team->lock);
    pthread_cond_broadcast(&team->wake);
    pthread_mutex_unlock(&team->lock);
}

hx_error *hx_team_create(unsigned n, struct hx_team **ret)
{
    struct hx_team *team = calloc(1, sizeof *team);
    HX_NEED(team);
    team->asked = n < HX_THREADS_MAX ? n : HX_THREADS_MAX;
    pthread_mutex_init(&team->lock, NULL);
    pthread_cond_init(&team->wake, NULL);
    for (team->n = 1; team->n < team->asked; team->n++) {
        struct member *member = &team->member[team->n];
        *member = (struct member){.team = team, .i = team->n};
        if (!make_thread(member_main, member, &member->thread))
            break;
    }
    *ret = team;
    return NULL;
}

void hx_team_run(struct hx_team *team, void (*work)(void *context, unsigned i), void *context)
{
    team->work = work;
    team->context = context;
    atomic_store(&team->busy, team->n - 1);
    begin_piece(team);
    work(context, 0);
    for (unsigned i = team->n; i < team->asked; i++)
        work(context, i);
    for (unsigned i = 0; atomic_load(&team->busy); i++, spin())
        if (i >= SPINS)
            sched_yield();
}

void hx_team_destroy(struct hx_team *team)
{
    if (!team)
        return;
    atomic_store(&team->ends, true);
    begin_piece(team);
    for (unsigned i = 1; i < team->n; i++)
        pthread_join(team->member[i].thread, NULL);
    pthread_mutex_destroy(&team->lock);
    pthread_cond_destroy(&team->wake);
    free(team);
}

/* --- beside ------------------------------------------------------------------------------- */

static void *aside_main(void *arg)
{
    const struct hx_aside *aside = arg;
    aside->work(aside->context);
    return NULL;
}

void hx_aside_begin(void (*work)(void *context), void *context, struct hx_aside *ret)
{
    *ret = (struct hx_aside){.work = work, .context = context};
    ret->started = make_thread(aside_main, ret, &ret->thread);
}

void hx_aside_end(struct hx_aside *aside)
{
    if (aside->started)
        pthread_join(aside->thread, NULL);
    else
        aside->work(aside->context);
}

static void *helper_main(void *arg)
{
    struct hx_helper *helper = arg;
    pthread_mutex_lock(&helper->mutex);
    for (;;) {
        while (!helper->work && !helper->ending)
            pthread_cond_wait(&helper->changed, &helper->mutex);
        if (!helper->work)
            break;
        pthread_mutex_unlock(&helper->mutex);
        helper->work(helper->context);
        pthread_mutex_lock(&helper->mutex);
        helper->work = NULL;
        pthread_cond_signal(&helper->changed);
    }
    pthread_mutex_unlock(&helper->mutex);
    return NULL;
}

void hx_helper_begin(struct hx_helper *helper, void (*work)(void *context), void *context)
{
    pthread_mutex_lock(&helper->mutex);
    helper->context = context;
    helper->work = work;
    pthread_cond_signal(&helper->changed);
    pthread_mutex_unlock(&helper->mutex);
    if (!helper->started)
        helper->started = make_thread(helper_main, helper, &helper->thread);
}

void hx_helper_end(struct hx_helper *helper)
{
    if (!helper->started) {
        helper->work(helper->context);
        helper->work = NULL;
        return;
    }
    pthread_mutex_lock(&helper->mutex);
    while (helper->work)
        pthread_cond_wait(&helper->changed, &helper->mutex);
    pthread_mutex_unlock(&helper->mutex);
}

void hx_helper_stop(struct hx_helper *helper)
{
    if (!helper->started)
        return;
    pthread_mutex_lock(&helper->mutex);
    helper->ending = true;
    pthread_cond_signal(&helper->changed);
    pthread_mutex_unlock(&helper->mutex);
    pthread_join(helper->thread, NULL);
    helper->started = helper->ending = false;
}
