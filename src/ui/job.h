/* job.h - work that must not hold up the screen.
 *
 * Two lanes, each a thread with a queue: READ fetches rows for lists, WORK takes snapshots
 * and loads graphs. A job runs on its lane's thread and is then handed back to the screen's
 * thread, which calls done() and destroy(). Each lane has a store; where both have the same
 * one, a lock keeps them apart, and lists are drawn from what is in memory meanwhile.
 */
#ifndef HX_UI_JOB_H
#define HX_UI_JOB_H

#include "base/progress.h"
#include "base/text.h"
#include "store/store.h"
#include "ui/command/requests.h"

struct hx_ui;
typedef struct hx_jobs hx_jobs;

enum hx_lane { HX_LANE_READ, HX_LANE_WORK, HX_LANES };

/* The head of every kind of job. */
struct hx_job {
    const char *what; /* for the status line: "snapshot", "search" */
    bool quiet;       /* as a rule short: announced and cancelled only once it takes long */
    bool unasked;     /* nobody asked for it: cancelled, and announced, where nothing else is */
    /* What it changes at its end, other than the rows of the list it is for: keys that wait for
     * that, or for more, wait for the job. HX_WAITS_NOW: nothing. */
    enum hx_waits leads;
    bool ahead; /* of what nobody looks at yet: gives way to any other job of its lane */
    enum hx_lane lane;
    uint64_t
        began_ns; /* CLOCK_MONOTONIC: of one that goes on with another's work; 0: it does not */
    /* On the lane's thread, the second with the store for itself. prepare may be NULL. */
    hx_error *(*prepare)(struct hx_job *job, const struct hx_progress *progress);
    hx_error *(*run)(struct hx_job *job, hx_store *store, const struct hx_progress *progress);
    /* On the screen's thread; owns the error. */
    void (*done)(struct hx_job *job, struct hx_ui *ui, hx_error *error);
    void (*destroy)(struct hx_job *job);

    /* job.c's own */
    struct hx_job *next;
    hx_error *error;
    atomic_bool cancel;
    bool by_user; /* hx_jobs_cancel() did it */
    bool told;    /* it was announced, and ended so */
};

/* `read` may be the same as `work`. */
hx_error *hx_jobs_create(hx_store *read, hx_store *work, hx_jobs **ret);

/* Cancels everything, waits for the threads, destroys what is left. NULL is legal. */
void hx_jobs_destroy(hx_jobs *jobs);

/* Becomes readable when something ended or progressed. */
int hx_jobs_fd(const hx_jobs *jobs);

/* Puts a job at the end of its lane's queue; owns it. */
void hx_jobs_start(hx_jobs *jobs, struct hx_job *job);

/* For a job of the WORK lane, in run(), between statements: leaves the store to the READ lane and
 * comes back; the second only when that lane waits for it, a jobs pointer being its context. */
void hx_jobs_leave_store(hx_jobs *jobs);
void hx_jobs_enter_store(hx_jobs *jobs);
void hx_jobs_breathe(void *jobs);

/* A job that ended, for done() and destroy(); NULL when there is none. */
struct hx_job *hx_jobs_ended(hx_jobs *jobs);

/* Is anything that somebody waits for queued, running or ended but not yet taken? */
bool hx_jobs_busy(hx_jobs *jobs, enum hx_lane lane);

/* Is one under way, or not yet taken, that keys which wait for so much have to wait for? */
bool hx_jobs_leading(hx_jobs *jobs, enum hx_waits waits);

/* Cancels the jobs of this kind: their answers are not wanted any more. */
void hx_jobs_supersede(hx_jobs *jobs,
                       hx_error *(*run)(struct hx_job *, hx_store *, const struct hx_progress *));

/* Cancels all jobs that somebody may be waiting for, else those that nobody asked for; false when
 * there were none. */
bool hx_jobs_cancel(hx_jobs *jobs);

/* A line on the job under way, for a screen so wide; false when there is none to speak of. */
bool hx_jobs_status(hx_jobs *jobs, int columns, bool utf8, struct hx_text *ret);

/* How far the work of several stages on the WORK lane is; false when there is none. */
bool hx_jobs_seen(hx_jobs *jobs, struct hx_course_look *ret);

#endif
