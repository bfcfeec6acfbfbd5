/* recorder.c - the pump: a thread that rounds a source, and keeps its state of each stop. */
#include "record/record.h"

#include "base/cleanup.h"
#include "base/timing.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

/* How long is slept at most when nothing comes: a stop's mark is looked for that often. */
static const uint64_t nap_ns = 2000000;

/* How long a snapshot waits for the pump: far longer than a round with a freeze takes. */
static const uint64_t poll_ns = 60000000000;

/* How often the status is made anew: where that takes long, a hundredth of the time. */
enum { PUBLISH_NS = 50000000, PUBLISH_SHARE = 100 };

struct hx_recorder {
    const struct hx_source *source;
    void *state;
    struct hx_stop_mark *mark;
    pthread_t thread;
    atomic_bool stop;
    atomic_bool now_wanted; /* a recording of now */

    pthread_mutex_t lock; /* of all below */
    pthread_cond_t changed;
    struct hx_recording *kept; /* of the stop at kept_ns, 0: of now; NULL: none */
    uint64_t kept_ns;
    struct hx_recorder_status status;
    hx_error *error; /* that ended the pump */
};

static uint64_t pump_time(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void keep_frozen(struct hx_recorder *recorder, struct hx_recording *recording,
                        uint64_t stop_ns)
{
    pthread_mutex_lock(&recorder->lock);
    hx_recording_destroy(recorder->kept);
    recorder->kept = recording;
    recorder->kept_ns = stop_ns;
    pthread_cond_broadcast(&recorder->changed);
    pthread_mutex_unlock(&recorder->lock);
}

static void publish_status(struct hx_recorder *recorder)
{
    struct hx_reader_figures figures;
    struct hx_record_overhead overhead = {0};
    recorder->source->figures(recorder->state, &figures);
    if (recorder->source->overhead)
        recorder->source->overhead(recorder->state, &overhead);
    uint64_t spent = pump_time();
    pthread_mutex_lock(&recorder->lock);
    recorder->status.figures = figures;
    recorder->status.overhead = overhead;
    recorder->status.pump_ns = spent;
    pthread_mutex_unlock(&recorder->lock);
}

static hx_error *freeze_at_stop(struct hx_recorder *recorder, uint64_t stop_ns)
{
    struct hx_recording *recording = NULL;
    HX_TRY(recorder->source->freeze(recorder->state, &recording));
    recording->frozen_ns = stop_ns ? stop_ns : hx_now_ns();
    keep_frozen(recorder, recording, stop_ns);
    return NULL;
}

/* One round and what it is for. */
static hx_error *pump_once(struct hx_recorder *recorder, bool *ret_idle)
{
    uint64_t stop_ns = 0;
    bool wanted = atomic_load(&recorder->now_wanted);
    HX_TRY(recorder->source->round(recorder->state, recorder->mark, ret_idle, &stop_ns));
    if (stop_ns) {
        HX_TRY(freeze_at_stop(recorder, stop_ns));
        atomic_store_explicit(&recorder->mark->handled, stop_ns, memory_order_release);
        *ret_idle = false;
    } else if (wanted) {
        atomic_store(&recorder->now_wanted, false);
        HX_TRY(freeze_at_stop(recorder, 0));
    }
    return NULL;
}

static void *run_pump(void *argument)
{
    struct hx_recorder *recorder = argument;
    hx_error *err = NULL;
    uint64_t due_ns = 0;
    while (!err && !atomic_load(&recorder->stop)) {
        bool idle = false;
        err = pump_once(recorder, &idle);
        uint64_t now = hx_now_ns();
        if (now >= due_ns || err) {
            publish_status(recorder);
            uint64_t took = hx_now_ns() - now;
            due_ns = now + PUBLISH_NS + took * PUBLISH_SHARE;
        }
        if (!err && idle && recorder->source->ended(recorder->state))
            break;
        if (!err && idle)
            recorder->source->wait(recorder->state, nap_ns);
    }
    publish_status(recorder);
    pthread_mutex_lock(&recorder->lock);
    recorder->error = err;
    recorder->status.ended = true;
    pthread_cond_broadcast(&recorder->changed);
    pthread_mutex_unlock(&recorder->lock);
    return NULL;
}

/* Signals are for those who wait for them; but a fault is the pump's own (guard.h). */
static int start_pump(struct hx_recorder *recorder)
{
    static const int faults[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL};
    sigset_t others, before;
    sigfillset(&others);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        sigdelset(&others, faults[i]);
    pthread_sigmask(SIG_SETMASK, &others, &before);
    int failed = pthread_create(&recorder->thread, NULL, run_pump, recorder);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

hx_error *hx_recorder_start(const struct hx_source *source, void *state, struct hx_stop_mark *mark,
                            hx_recorder **ret)
{
    struct hx_recorder *recorder = calloc(1, sizeof *recorder);
    if (!recorder) {
        source->close(state);
        return hx_error_nomem();
    }
    recorder->source = source;
    recorder->state = state;
    recorder->mark = mark;
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&recorder->lock, NULL);
    pthread_cond_init(&recorder->changed, &attr);
    pthread_condattr_destroy(&attr);
    int failed = start_pump(recorder);
    if (failed) {
        source->close(state);
        pthread_cond_destroy(&recorder->changed);
        pthread_mutex_destroy(&recorder->lock);
        free(recorder);
        return hx_error_os(failed, "recorder", "pthread_create");
    }
    *ret = recorder;
    return NULL;
}

/* Takes what is kept of that stop. With the lock. */
static bool take_frozen(struct hx_recorder *recorder, uint64_t stop_ns, struct hx_recording **ret)
{
    if (!recorder->kept || recorder->kept_ns != stop_ns)
        return false;
    *ret = hx_steal(recorder->kept);
    return true;
}

static hx_error *ended_early(struct hx_recorder *recorder)
{
    if (recorder->error)
        return hx_error_new(HX_E_ABSENT, "recorder", recorder->error->todo, "%s",
                            recorder->error->why);
    return hx_error_new(HX_E_ABSENT, "recorder", NULL,
                        "the process has ended or executed another program");
}

static hx_error *wait_for_frozen(struct hx_recorder *recorder, uint64_t stop_ns,
                                 struct hx_recording **ret)
{
    uint64_t end = hx_now_ns() + poll_ns;
    struct timespec until = {.tv_sec = (time_t)(end / 1000000000),
                             .tv_nsec = (long)(end % 1000000000)};
    hx_error *err = NULL;
    pthread_mutex_lock(&recorder->lock);
    while (!err && !take_frozen(recorder, stop_ns, ret)) {
        if (recorder->status.ended)
            err = ended_early(recorder);
        else if (pthread_cond_timedwait(&recorder->changed, &recorder->lock, &until))
            err = hx_error_new(HX_E_ABSENT, "recorder", NULL, "it did not answer in time");
    }
    pthread_mutex_unlock(&recorder->lock);
    return err;
}

/* On the caller's thread: the pump has the rings to empty meanwhile. */
static hx_error *name_frozen(const hx_recorder *recorder, struct hx_recording *recording,
                             const struct hx_progress *progress, struct hx_recording **ret)
{
    uint64_t begun = hx_timing_begin();
    hx_recording_sort(recording);
    hx_timing_end(begun, "sort", recording->n_blocks);
    begun = hx_timing_begin();
    hx_error *err = recorder->source->name(recorder->state, recording, progress);
    hx_timing_end(begun, "names", recording->places.n);
    if (err)
        hx_recording_destroy(recording);
    else
        *ret = recording;
    return err;
}

hx_error *hx_recorder_recording(hx_recorder *recorder, uint64_t stop_ns,
                                const struct hx_progress *progress, struct hx_recording **ret)
{
    struct hx_recording *recording = NULL;
    HX_TRY(wait_for_frozen(recorder, stop_ns, &recording));
    return name_frozen(recorder, recording, progress, ret);
}

static hx_error *freeze_now(hx_recorder *recorder, struct hx_recording **ret)
{
    atomic_store(&recorder->now_wanted, true);
    hx_error *err = wait_for_frozen(recorder, 0, ret);
    pthread_mutex_lock(&recorder->lock);
    /* when the pump has ended, nobody else uses the source */
    if (err && err->kind == HX_E_ABSENT && recorder->status.ended && !recorder->error) {
        hx_error_free(err);
        err = recorder->source->freeze(recorder->state, ret);
    }
    pthread_mutex_unlock(&recorder->lock);
    return err;
}

hx_error *hx_recorder_now(hx_recorder *recorder, const struct hx_progress *progress,
                          struct hx_recording **ret)
{
    struct hx_recording *recording = NULL;
    HX_TRY(freeze_now(recorder, &recording));
    return name_frozen(recorder, recording, progress, ret);
}

void hx_recorder_status(hx_recorder *recorder, struct hx_recorder_status *ret)
{
    pthread_mutex_lock(&recorder->lock);
    *ret = recorder->status;
    pthread_mutex_unlock(&recorder->lock);
}

hx_error *hx_recorder_stop(hx_recorder *recorder)
{
    if (!recorder)
        return NULL;
    atomic_store(&recorder->stop, true);
    pthread_join(recorder->thread, NULL);
    recorder->source->close(recorder->state);
    hx_error *err = recorder->error;
    hx_recording_destroy(recorder->kept);
    pthread_cond_destroy(&recorder->changed);
    pthread_mutex_destroy(&recorder->lock);
    free(recorder);
    return err;
}
