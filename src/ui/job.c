/* job.c - lanes of background work. */
#include "ui/job.h"

#include "base/cleanup.h"
#include "base/parallel.h"
#include "base/timing.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct lane {
    hx_jobs *jobs;
    pthread_t thread;
    bool has_thread;
    hx_store *store;
    pthread_mutex_t *store_lock;
    struct hx_job *queue, **queue_end;
    struct hx_job *running;
    bool in_store; /* the running job has the store for itself */
    /* progress of the running job */
    char stage[64];
    uint64_t done, total, started_ns, stage_ns, reported_ns; /* stage_ns: when the stage began */
    struct hx_course course;                                 /* of work whose stages are known */
};

struct hx_jobs {
    pthread_mutex_t lock; /* over everything below but the stores */
    pthread_cond_t queued;
    pthread_mutex_t store_lock[2];
    atomic_uint reading; /* jobs of the READ lane that wait for a store */
    struct lane lane[HX_LANES];
    struct hx_job *ended, **ended_end;
    bool quit;
    int fd;
};

static void wake_jobs(const hx_jobs *jobs)
{
    uint64_t one = 1;
    ssize_t n = write(jobs->fd, &one, sizeof one);
    (void)n; /* full means that a wake-up is waiting already */
}

static void report(void *context, const char *stage, uint64_t done, uint64_t total)
{
    struct lane *lane = context;
    uint64_t now = hx_now_ns();
    pthread_mutex_lock(&lane->jobs->lock);
    if (strncmp(lane->stage, stage ? stage : "", sizeof lane->stage - 1) != 0) {
        snprintf(lane->stage, sizeof lane->stage, "%s", stage ? stage : "");
        if (lane->done || !lane->running->began_ns)
            lane->stage_ns = now;
    }
    lane->done = done;
    lane->total = total;
    bool tell = now - lane->reported_ns > 100000000;
    if (tell)
        lane->reported_ns = now;
    pthread_mutex_unlock(&lane->jobs->lock);
    if (tell)
        wake_jobs(lane->jobs);
}

/* Takes the next job; NULL when the lane shall end. Called and returns with the lock held. */
static struct hx_job *next_job(struct lane *lane)
{
    hx_jobs *jobs = lane->jobs;
    while (!lane->queue && !jobs->quit)
        pthread_cond_wait(&jobs->queued, &jobs->lock);
    if (jobs->quit)
        return NULL;
    struct hx_job *job = lane->queue;
    lane->queue = job->next;
    if (!lane->queue)
        lane->queue_end = &lane->queue;
    job->next = NULL;
    lane->running = job;
    if (!job->began_ns)
        hx_course_end(&lane->course);
    lane->stage[0] = 0;
    lane->done = lane->total = 0;
    lane->started_ns = lane->stage_ns = job->began_ns ? job->began_ns : hx_now_ns();
    return job;
}

/* With the store's lock held. While a job has it, its flag ends the statements. */
static void set_in_store(struct lane *lane, bool in_store)
{
    pthread_mutex_lock(&lane->jobs->lock);
    hx_store_cancelled_by(lane->store, in_store ? &lane->running->cancel : NULL);
    lane->in_store = in_store;
    pthread_mutex_unlock(&lane->jobs->lock);
}

static hx_error *run_job(struct lane *lane, struct hx_job *job)
{
    struct hx_progress progress = {
        .report = report, .context = lane, .course = &lane->course, .cancel = &job->cancel};
    if (job->prepare)
        HX_TRY(job->prepare(job, &progress));
    bool reads = job->lane == HX_LANE_READ;
    if (reads)
        atomic_fetch_add(&lane->jobs->reading, 1);
    pthread_mutex_lock(lane->store_lock);
    if (reads)
        atomic_fetch_sub(&lane->jobs->reading, 1);
    set_in_store(lane, true);
    hx_error *error = atomic_load(&job->cancel) ? hx_error_cancelled(job->what)
                                                : job->run(job, lane->store, &progress);
    set_in_store(lane, false);
    pthread_mutex_unlock(lane->store_lock);
    return error;
}

void hx_jobs_leave_store(hx_jobs *jobs)
{
    struct lane *lane = &jobs->lane[HX_LANE_WORK];
    set_in_store(lane, false);
    pthread_mutex_unlock(lane->store_lock);
}

void hx_jobs_enter_store(hx_jobs *jobs)
{
    struct lane *lane = &jobs->lane[HX_LANE_WORK];
    pthread_mutex_lock(lane->store_lock);
    set_in_store(lane, true);
}

void hx_jobs_breathe(void *context)
{
    hx_jobs *jobs = context;
    const struct lane *lane = &jobs->lane[HX_LANE_WORK];
    if (lane->store_lock != jobs->lane[HX_LANE_READ].store_lock || !atomic_load(&jobs->reading))
        return;
    hx_jobs_leave_store(jobs);
    while (atomic_load(&jobs->reading)) /* a lock alone is not fair */
        usleep(100);
    hx_jobs_enter_store(jobs);
}

/* A quiet job is announced all the same once it has run for this long. */
#define QUIET_NS 300000000u

static struct hx_job *announced(const struct lane *lane, uint64_t now)
{
    struct hx_job *job = lane->running;
    if (!job || (job->quiet && now - lane->started_ns < QUIET_NS))
        return NULL;
    return job;
}

static void *lane_main(void *context)
{
    struct lane *lane = context;
    hx_jobs *jobs = lane->jobs;
    pthread_mutex_lock(&jobs->lock);
    for (struct hx_job *job; (job = next_job(lane));) {
        pthread_mutex_unlock(&jobs->lock);
        hx_error *error = run_job(lane, job);
        pthread_mutex_lock(&jobs->lock);
        job->error = error;
        job->told = announced(lane, hx_now_ns());
        lane->running = NULL;
        *jobs->ended_end = job;
        jobs->ended_end = &job->next;
        wake_jobs(jobs);
    }
    pthread_mutex_unlock(&jobs->lock);
    return NULL;
}

static hx_error *start_lane(struct lane *lane)
{
    /* Signals are for the screen's thread, which knows the terminal. */
    sigset_t blocked, old;
    hx_thread_signals(&blocked);
    pthread_sigmask(SIG_SETMASK, &blocked, &old);
    int err = pthread_create(&lane->thread, NULL, lane_main, lane);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (err)
        return hx_error_os(err, "explorer", "pthread_create");
    lane->has_thread = true;
    return NULL;
}

hx_error *hx_jobs_create(hx_store *read, hx_store *work, hx_jobs **ret)
{
    hx_jobs *jobs = calloc(1, sizeof *jobs);
    HX_NEED(jobs);
    pthread_mutex_init(&jobs->lock, NULL);
    pthread_mutex_init(&jobs->store_lock[0], NULL);
    pthread_mutex_init(&jobs->store_lock[1], NULL);
    pthread_cond_init(&jobs->queued, NULL);
    jobs->ended_end = &jobs->ended;
    jobs->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    hx_error *error = jobs->fd < 0 ? hx_error_os(errno, "explorer", "eventfd") : NULL;
    for (int i = 0; i < HX_LANES && !error; i++) {
        struct lane *lane = &jobs->lane[i];
        lane->jobs = jobs;
        lane->queue_end = &lane->queue;
        hx_course_init(&lane->course);
        lane->store = i == HX_LANE_READ ? read : work;
        lane->store_lock = &jobs->store_lock[i == HX_LANE_READ && read != work];
        error = start_lane(lane);
    }
    if (error) {
        hx_jobs_destroy(jobs);
        return error;
    }
    *ret = jobs;
    return NULL;
}

/* With the lock held. A query is interrupted in the middle of a sort; a snapshot looks at its
 * flag and rolls back by itself. */
static void cancel_running(struct lane *lane)
{
    atomic_store(&lane->running->cancel, true);
    if (lane->running->lane == HX_LANE_READ && lane->in_store)
        hx_store_interrupt(lane->store);
}

static void destroy_all(struct hx_job *job)
{
    while (job) {
        struct hx_job *next = job->next;
        hx_error_free(job->error);
        job->destroy(job);
        job = next;
    }
}

void hx_jobs_destroy(hx_jobs *jobs)
{
    if (!jobs)
        return;
    pthread_mutex_lock(&jobs->lock);
    jobs->quit = true;
    for (int i = 0; i < HX_LANES; i++)
        if (jobs->lane[i].running)
            cancel_running(&jobs->lane[i]);
    pthread_cond_broadcast(&jobs->queued);
    pthread_mutex_unlock(&jobs->lock);
    for (int i = 0; i < HX_LANES; i++)
        if (jobs->lane[i].has_thread)
            pthread_join(jobs->lane[i].thread, NULL);
    for (int i = 0; i < HX_LANES; i++) {
        destroy_all(jobs->lane[i].queue);
        hx_course_deinit(&jobs->lane[i].course);
    }
    destroy_all(jobs->ended);
    if (jobs->fd >= 0)
        close(jobs->fd);
    pthread_cond_destroy(&jobs->queued);
    pthread_mutex_destroy(&jobs->store_lock[0]);
    pthread_mutex_destroy(&jobs->store_lock[1]);
    pthread_mutex_destroy(&jobs->lock);
    free(jobs);
}

int hx_jobs_fd(const hx_jobs *jobs)
{
    return jobs->fd;
}

void hx_jobs_start(hx_jobs *jobs, struct hx_job *job)
{
    pthread_mutex_lock(&jobs->lock);
    struct lane *lane = &jobs->lane[job->lane];
    for (int i = 0; i < HX_LANES; i++) { /* of any that the job would wait for */
        struct lane *other = &jobs->lane[i];
        if (other->store_lock == lane->store_lock && other->running && other->running->ahead)
            cancel_running(other);
    }
    for (struct hx_job *other = lane->queue; other; other = other->next)
        if (other->ahead)
            atomic_store(&other->cancel, true);
    *lane->queue_end = job;
    lane->queue_end = &job->next;
    pthread_cond_broadcast(&jobs->queued);
    pthread_mutex_unlock(&jobs->lock);
}

struct hx_job *hx_jobs_ended(hx_jobs *jobs)
{
    uint64_t count;
    ssize_t n = read(jobs->fd, &count, sizeof count);
    (void)n; /* nothing to read: look all the same */
    pthread_mutex_lock(&jobs->lock);
    struct hx_job *job = jobs->ended;
    if (job) {
        jobs->ended = job->next;
        if (!jobs->ended)
            jobs->ended_end = &jobs->ended;
        job->next = NULL;
    }
    pthread_mutex_unlock(&jobs->lock);
    return job;
}

bool hx_jobs_busy(hx_jobs *jobs, enum hx_lane lane)
{
    pthread_mutex_lock(&jobs->lock);
    const struct hx_job *running = jobs->lane[lane].running;
    bool busy = running && !running->ahead;
    for (const struct hx_job *job = jobs->lane[lane].queue; job && !busy; job = job->next)
        busy = !job->ahead;
    for (const struct hx_job *job = jobs->ended; job && !busy; job = job->next)
        busy = job->lane == lane && !job->ahead;
    pthread_mutex_unlock(&jobs->lock);
    return busy;
}

static bool leads(const struct hx_job *job, enum hx_waits waits)
{
    bool found = false;
    for (; job && !found; job = job->next)
        found = job->leads && job->leads <= waits;
    return found;
}

bool hx_jobs_leading(hx_jobs *jobs, enum hx_waits waits)
{
    pthread_mutex_lock(&jobs->lock);
    bool found = leads(jobs->ended, waits);
    for (int i = 0; i < HX_LANES && !found; i++)
        found = leads(jobs->lane[i].running, waits) || leads(jobs->lane[i].queue, waits);
    pthread_mutex_unlock(&jobs->lock);
    return found;
}

void hx_jobs_supersede(hx_jobs *jobs,
                       hx_error *(*run)(struct hx_job *, hx_store *, const struct hx_progress *))
{
    pthread_mutex_lock(&jobs->lock);
    for (int i = 0; i < HX_LANES; i++) {
        struct lane *lane = &jobs->lane[i];
        if (lane->running && lane->running->run == run)
            cancel_running(lane);
        for (struct hx_job *job = lane->queue; job; job = job->next)
            if (job->run == run)
                atomic_store(&job->cancel, true);
    }
    pthread_mutex_unlock(&jobs->lock);
}

/* With the lock held. */
static bool cancel_those(hx_jobs *jobs, bool unasked)
{
    bool any = false;
    uint64_t now = hx_now_ns();
    for (int i = 0; i < HX_LANES; i++) {
        struct lane *lane = &jobs->lane[i];
        struct hx_job *running = announced(lane, now);
        if (running && running->unasked == unasked) {
            running->by_user = any = true;
            cancel_running(lane);
        }
        for (struct hx_job *job = lane->queue; job; job = job->next) {
            if (!job->quiet && job->unasked == unasked) {
                atomic_store(&job->cancel, true);
                job->by_user = any = true;
            }
        }
    }
    return any;
}

bool hx_jobs_cancel(hx_jobs *jobs)
{
    pthread_mutex_lock(&jobs->lock);
    bool any = cancel_those(jobs, false) || cancel_those(jobs, true);
    pthread_mutex_unlock(&jobs->lock);
    return any;
}

#define BAR_CELLS 10
/* An estimate from less than that would be a guess. */
#define ESTIMATE_NS 500000000u
/* What the line has besides: the place in the list. */
#define ROOM_BESIDE 8
/* Time left that is not worth a word. */
#define SHORT_S 1

static void put_job_bar(double part, bool utf8, struct hx_text *ret)
{
    int full = (int)(part * BAR_CELLS + 0.5);
    hx_text_puts(ret, " [");
    for (int i = 0; i < BAR_CELLS; i++)
        hx_text_puts(ret, i >= full ? (utf8 ? "\u2591" : ".") : utf8 ? "\u2588" : "#");
    hx_text_putc(ret, ']');
}

/* Whole seconds, rounded up: finer ones would only flicker. */
static void put_left(double seconds, struct hx_text *ret)
{
    char number[HX_HUMAN];
    uint64_t whole = (uint64_t)seconds + 1;
    if (whole < 60)
        hx_text_putf(ret, ", %us left", (unsigned)whole);
    else
        hx_text_putf(ret, ", %s left", hx_human_ns(whole * 1000000000, number));
}

/* How far the stage is: bar, part, rate and time left, or the time it took. The bar and the rate
 * only where there is room. */
static void put_stage(const struct lane *lane, uint64_t now, int room, bool utf8,
                      struct hx_text *ret)
{
    char number[HX_HUMAN];
    struct hx_text rest = {0};
    double seconds = (double)(now - lane->stage_ns) / 1e9;
    double rate = seconds > 0 ? (double)lane->done / seconds : 0;
    double left = rate > 0 ? ((double)lane->total - (double)lane->done) / rate : 0;
    bool sure = now - lane->stage_ns >= ESTIMATE_NS && rate >= 1;
    if (sure && left > 0 && left < 100000)
        put_left(left, &rest);
    else
        hx_text_putf(&rest, ", %.1f s", (double)(now - lane->started_ns) / 1e9);
    room -= (int)(ret->n + rest.n);
    if (lane->total && lane->done <= lane->total) {
        double part = (double)lane->done / (double)lane->total;
        room -= 5;
        if (room >= BAR_CELLS + 3) {
            put_job_bar(part, utf8, ret);
            room -= BAR_CELLS + 3;
        }
        hx_text_putf(ret, " %u%%", (unsigned)(100 * part));
    }
    if (sure && room >= 9)
        hx_text_putf(ret, ", %s/s", hx_human_count((uint64_t)rate, number));
    hx_text_puts(ret, hx_text_str(&rest));
    hx_text_free(&rest);
}

/* The same of the whole. */
static void put_course(const struct hx_course_look *look, double elapsed, int room, bool utf8,
                       struct hx_text *ret)
{
    struct hx_text rest = {0};
    if (look->left_s >= SHORT_S)
        put_left(look->left_s, &rest);
    else
        hx_text_putf(&rest, ", %.1f s", elapsed);
    if (room >= (int)(ret->n + rest.n) + BAR_CELLS + 8)
        put_job_bar(look->share, utf8, ret);
    hx_text_putf(ret, " %u%%%s", (unsigned)(100 * look->share), hx_text_str(&rest));
    hx_text_free(&rest);
}

bool hx_jobs_seen(hx_jobs *jobs, struct hx_course_look *ret)
{
    return hx_course_look(&jobs->lane[HX_LANE_WORK].course, hx_now_ns(), ret);
}

bool hx_jobs_status(hx_jobs *jobs, int columns, bool utf8, struct hx_text *ret)
{
    bool any = false;
    uint64_t now = hx_now_ns();
    pthread_mutex_lock(&jobs->lock);
    for (int k = 2 * HX_LANES - 1; k >= 0 && !any; k--) { /* what nobody asked for comes last */
        struct lane *lane = &jobs->lane[k % HX_LANES];
        struct hx_course_look look;
        const struct hx_job *job = announced(lane, now);
        if (!lane->running && lane->queue && lane->queue->began_ns)
            job = lane->queue; /* goes on in a moment, from where the lane stands */
        if (!job || job->unasked != (k < HX_LANES))
            continue;
        any = true;
        hx_text_puts(ret, job->what);
        bool whole = hx_course_look(&lane->course, now, &look);
        const char *stage = whole ? look.stage : lane->stage;
        if (*stage && strcmp(stage, job->what) != 0)
            hx_text_putf(ret, ": %s", stage);
        const char *end = atomic_load(&job->cancel) ? ", cancelling"
                          : columns >= 60           ? " (Ctrl-C cancels)"
                                                    : " (Ctrl-C)";
        const int room = columns - ROOM_BESIDE - (int)strlen(end);
        if (whole)
            put_course(&look, (double)(now - lane->started_ns) / 1e9, room, utf8, ret);
        else
            put_stage(lane, now, room, utf8, ret);
        hx_text_puts(ret, end);
    }
    pthread_mutex_unlock(&jobs->lock);
    return any;
}
