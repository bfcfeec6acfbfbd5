/* course.c - the share and the time left of work of many stages. */
#include "base/course.h"

#include <string.h>

/* Until that part of the work is done the table counts for more than what was measured. */
#define PRIOR 0.1
/* Of the newest estimate, ten times a second. */
#define SMOOTH 0.2
/* Who tells nothing for so long waits. */
#define SILENT_NS 300000000u

void hx_course_init(struct hx_course *course)
{
    *course = (struct hx_course){.lock = PTHREAD_MUTEX_INITIALIZER};
}

void hx_course_deinit(struct hx_course *course)
{
    pthread_mutex_destroy(&course->lock);
}

static bool is_beside(const struct hx_course *course, size_t i)
{
    return course->beside && course->stages->stage[i].beside;
}

/* Stages before the one at `to`, of what is being done, have come to their end: also those beside
 * them, when it is not beside others itself. */
static void finish_before(struct hx_course *course, size_t to, bool beside)
{
    for (size_t i = 0; i < to; i++)
        if (course->stages->stage[i].parts & course->now && (!beside || is_beside(course, i)))
            course->done[i] = 1;
}

void hx_course_begin(struct hx_course *course, const struct hx_stages *stages, unsigned parts,
                     unsigned now, bool beside, uint64_t now_ns)
{
    pthread_mutex_lock(&course->lock);
    if (!parts && course->stages) {
        finish_before(course, stages->n, false);
    } else {
        memset((char *)course + offsetof(struct hx_course, stages), 0,
               sizeof *course - offsetof(struct hx_course, stages));
        course->stages = stages;
        course->parts = parts ? parts : now;
        course->began_ns = course->told_ns[0] = now_ns;
        course->left_s = -1;
    }
    course->now = now;
    course->beside = beside;
    course->at[0] = course->at[1] = stages->n;
    pthread_mutex_unlock(&course->lock);
}

void hx_course_end(struct hx_course *course)
{
    pthread_mutex_lock(&course->lock);
    course->stages = NULL;
    pthread_mutex_unlock(&course->lock);
}

/* --- where it is ------------------------------------------------------------------------ */

/* The stage of a lane that a name means, in order but for what only tells; stages->n: none. */
static size_t find_stage(const struct hx_course *course, const char *name, bool beside)
{
    const struct hx_stages *stages = course->stages;
    size_t at = course->at[beside];
    for (size_t i = 0; i < stages->n; i++)
        if (stages->stage[i].parts & course->now && is_beside(course, i) == beside &&
            (at == stages->n || i >= at || !stages->stage[i].times) &&
            strcmp(stages->stage[i].name, name) == 0)
            return i;
    return stages->n;
}

/* Workers are not in step: only what falls by half the whole begins anew. */
static void note_done(struct hx_course *course, size_t i, double part)
{
    const struct hx_stage *stage = &course->stages->stage[i];
    double before = course->done[i] * stage->times - course->begun[i];
    if (part < before - 0.5 && course->begun[i] + 1 < stage->times)
        course->begun[i]++;
    double done = (course->begun[i] + part) / stage->times;
    if (done > course->done[i])
        course->done[i] = done < 1 ? done : 1;
}

static void note_size(struct hx_course *course, unsigned size, uint64_t done, uint64_t total)
{
    if (total)
        course->size[size] = total;
    if (done > course->seen[size])
        course->seen[size] = done;
}

static void note_stage(struct hx_course *course, const char *name, uint64_t done, uint64_t total,
                       uint64_t now_ns)
{
    bool beside = false;
    size_t i = find_stage(course, name, false);
    if (i == course->stages->n)
        i = find_stage(course, name, beside = true);
    if (i == course->stages->n)
        return;
    const struct hx_stage *stage = &course->stages->stage[i];
    if (stage->tells)
        note_size(course, stage->tells, done, total);
    if (!stage->times)
        return;
    if (!beside &&
        (course->at[0] == course->stages->n || !course->stages->stage[course->at[0]].size))
        course->apart_ns += now_ns - course->told_ns[0];
    course->told_ns[beside] = now_ns;
    if (course->at[beside] != i)
        finish_before(course, i, beside);
    course->at[beside] = i;
    if (total)
        note_done(course, i, done < total ? (double)done / (double)total : 1);
}

void hx_course_at(struct hx_course *course, const char *name, uint64_t done, uint64_t total,
                  uint64_t now_ns)
{
    pthread_mutex_lock(&course->lock);
    if (course->stages)
        note_stage(course, name, done, total, now_ns);
    pthread_mutex_unlock(&course->lock);
}

/* --- what it costs ---------------------------------------------------------------------- */

static double size_of(const struct hx_course *course, unsigned size)
{
    double times = 1;
    while (size > 1 && !course->size[size])
        times *= course->stages->guess[size--];
    return times * (double)course->size[size];
}

struct cost {
    double sized, apart; /* ns */
};

/* What all stages cost, or what is left of them: where some are done beside those before them, the
 * longer of the two counts. */
static struct cost cost_of(const struct hx_course *course, bool left)
{
    const struct hx_stages *stages = course->stages;
    double before[2] = {0, 0}, apart = 0;
    for (size_t i = 0; i < stages->n; i++) {
        const struct hx_stage *stage = &stages->stage[i];
        if (!(stage->parts & course->parts))
            continue;
        double cost = stage->ns * (left ? 1 - course->done[i] : 1);
        bool beside = is_beside(course, i);
        if (!beside && before[1] > 0) { /* behind those: they were waited for */
            before[0] = before[0] > before[1] ? before[0] : before[1];
            before[1] = 0;
        }
        if (stage->size)
            before[beside] += cost * size_of(course, stage->size);
        else
            apart += cost;
    }
    return (struct cost){before[0] > before[1] ? before[0] : before[1], apart};
}

static void smooth_left(struct hx_course *course, double left_s, uint64_t now_ns)
{
    double passed = (double)(now_ns - course->left_ns) / 1e9;
    double weight = passed * 10 * SMOOTH;
    if (course->left_s < 0 || weight > 1)
        weight = 1;
    double expected = course->left_s > passed ? course->left_s - passed : 0;
    course->left_s = weight * left_s + (1 - weight) * expected;
    course->left_ns = now_ns;
}

static void look(struct hx_course *course, uint64_t now_ns)
{
    struct cost all = cost_of(course, false), left = cost_of(course, true);
    double elapsed = (double)(now_ns - course->began_ns);
    if (all.sized <= 0 || elapsed <= 0)
        return; /* no size is known yet */
    double prior = PRIOR * all.sized, spent = elapsed - (double)course->apart_ns;
    double scale = (spent + prior) / (all.sized - left.sized + prior);
    double left_ns = left.sized * scale + left.apart;
    double share = elapsed / (elapsed + left_ns);
    if (share > course->share)
        course->share = share < 0.99 ? share : 0.99;
    smooth_left(course, left_ns / 1e9, now_ns);
}

/* The stage to name: of what is done side by side that which does not wait for the other. */
static const char *stage_name(const struct hx_course *course, uint64_t now_ns)
{
    bool beside =
        now_ns - course->told_ns[0] > SILENT_NS && course->told_ns[1] > course->told_ns[0];
    size_t at = course->at[beside];
    return at < course->stages->n ? course->stages->stage[at].name : "";
}

bool hx_course_look(struct hx_course *course, uint64_t now_ns, struct hx_course_look *ret)
{
    pthread_mutex_lock(&course->lock);
    bool is_there = course->stages != NULL;
    if (is_there)
        look(course, now_ns);
    *ret = (struct hx_course_look){.stage = is_there ? stage_name(course, now_ns) : "",
                                   .share = course->share,
                                   .left_s = course->left_s};
    memcpy(ret->seen, course->seen, sizeof ret->seen);
    pthread_mutex_unlock(&course->lock);
    return is_there;
}
