/* progress.h - how long work tells where it is and learns that it should end.
 *
 * Long functions take a `const struct hx_progress *` (NULL: nobody listens), call
 * hx_progress_at() every few milliseconds of work and return HX_E_CANCEL soon
 * after hx_progress_cancelled() turns true. Where the stages of work as a whole are known, a course
 * makes one progress of them.
 */
#ifndef HX_BASE_PROGRESS_H
#define HX_BASE_PROGRESS_H

#include "base/course.h"
#include "base/error.h"
#include "base/timing.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hx_progress {
    /* May be called from any thread; done and total in units of the stage, total 0
     * when unknown. NULL: not interested. */
    void (*report)(void *context, const char *stage, uint64_t done, uint64_t total);
    void *context;
    struct hx_course *course;     /* NULL: nobody asks for the whole */
    const atomic_bool *cancel;    /* NULL: cannot be cancelled */
    const atomic_bool *exhausted; /* memory runs out: a cancel, too. NULL: nobody looks */
};

static inline void hx_progress_at(const struct hx_progress *progress, const char *stage,
                                  uint64_t done, uint64_t total)
{
    if (progress && progress->course)
        hx_course_at(progress->course, stage, done, total, hx_now_ns());
    if (progress && progress->report)
        progress->report(progress->context, stage, done, total);
}

/* As hx_course_begin(). */
static inline void hx_progress_begin(const struct hx_progress *progress,
                                     const struct hx_stages *stages, unsigned parts, unsigned now,
                                     bool beside)
{
    if (progress && progress->course)
        hx_course_begin(progress->course, stages, parts, now, beside, hx_now_ns());
}

static inline void hx_progress_end(const struct hx_progress *progress)
{
    if (progress && progress->course)
        hx_course_end(progress->course);
}

static inline bool hx_progress_cancelled(const struct hx_progress *progress)
{
    return progress &&
           ((progress->cancel && atomic_load_explicit(progress->cancel, memory_order_relaxed)) ||
            (progress->exhausted &&
             atomic_load_explicit(progress->exhausted, memory_order_relaxed)));
}

/* The error of work that was cancelled. */
hx_error *hx_error_cancelled(const char *what);

#endif
