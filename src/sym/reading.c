/* reading.c - the account of what was not read of a target's files. */
#include "sym/reading.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "base/timing.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define UNREAD_MAX 16                /* told one by one */
#define SORT_RUN   ((size_t)1 << 15) /* sorted between two looks whether to end */

void hx_reading_init(struct hx_reading *reading)
{
    *reading = (struct hx_reading){0};
    pthread_mutex_init(&reading->lock, NULL);
}

static void free_unread(struct hx_unread *unread)
{
    free(unread->path);
    free(unread->what);
}

void hx_reading_deinit(struct hx_reading *reading)
{
    for (size_t i = 0; i < reading->unread.n; i++)
        free_unread(&reading->unread.v[i]);
    hx_vec_free(&reading->unread);
    pthread_mutex_destroy(&reading->lock);
}

void hx_reading_listen(struct hx_reading *reading, const struct hx_progress *progress)
{
    atomic_store(&reading->cancel, NULL);
    atomic_store(&reading->exhausted, NULL);
    reading->listener = pthread_self();
    atomic_store(&reading->cancel, progress ? progress->cancel : NULL);
    atomic_store(&reading->exhausted, progress ? progress->exhausted : NULL);
}

bool hx_reading_ended(const struct hx_reading *reading)
{
    if (!reading)
        return false;
    struct hx_progress progress = {.cancel = atomic_load(&reading->cancel),
                                   .exhausted = atomic_load(&reading->exhausted)};
    return hx_progress_cancelled(&progress) && pthread_equal(reading->listener, pthread_self());
}

void hx_reading_hurry(struct hx_reading *reading, uint64_t deadline_ns)
{
    reading->hurried = pthread_self();
    atomic_store(&reading->late_ns, deadline_ns);
}

bool hx_reading_hurries(const struct hx_reading *reading)
{
    return atomic_load(&reading->late_ns) && pthread_equal(reading->hurried, pthread_self());
}

bool hx_reading_late(const struct hx_reading *reading)
{
    return hx_reading_ended(reading) || (reading && hx_reading_hurries(reading) &&
                                         hx_now_ns() >= atomic_load(&reading->late_ns));
}

void hx_reading_leave(struct hx_reading *reading, const char *path, const char *what)
{
    if (!reading || hx_reading_late(reading))
        return;
    pthread_mutex_lock(&reading->lock);
    bool known = false;
    for (size_t i = 0; i < reading->unread.n && !known; i++)
        known =
            !strcmp(reading->unread.v[i].what, what) && !strcmp(reading->unread.v[i].path, path);
    if (!known && reading->unread.n < UNREAD_MAX) {
        struct hx_unread unread = {strdup(path), strdup(what)};
        if (!unread.path || !unread.what || !hx_vec_push(&reading->unread, unread))
            free_unread(&unread);
    }
    reading->n_unread += !known;
    pthread_mutex_unlock(&reading->lock);
}

void hx_reading_tell(struct hx_reading *reading, struct hx_text *text, uint64_t *ret_n)
{
    pthread_mutex_lock(&reading->lock);
    *ret_n = reading->n_unread;
    for (size_t i = 0; i < reading->unread.n; i++)
        hx_text_putf(text, "%s%s: %s", i ? ", " : "not read: ", reading->unread.v[i].path,
                     reading->unread.v[i].what);
    if (reading->n_unread > reading->unread.n)
        hx_text_putf(text, ", and %" PRIu64 " more", reading->n_unread - reading->unread.n);
    pthread_mutex_unlock(&reading->lock);
}

bool hx_reading_sort(const struct hx_reading *reading, void *v, size_t n, size_t size,
                     int (*compare)(const void *a, const void *b, void *context), void *context)
{
    HX_FREE uint8_t *room = n > SORT_RUN ? calloc(n, size) : NULL;
    uint8_t *from = v, *to = room;
    if (n > SORT_RUN && !room)
        return false;
    for (size_t i = 0; i < n; i += SORT_RUN) {
        if (hx_reading_ended(reading))
            return false;
        qsort_r(from + i * size, n - i < SORT_RUN ? n - i : SORT_RUN, size, compare, context);
    }
    for (size_t run = SORT_RUN; run < n; run *= 2) {
        for (size_t i = 0; i < n; i += 2 * run) {
            size_t middle = n - i < run ? n : i + run, end = n - middle < run ? n : middle + run;
            for (size_t a = i, b = middle, at = i; at < end; at++) {
                if (at % SORT_RUN == 0 && hx_reading_ended(reading))
                    return false;
                bool first = b == end || (a < middle &&
                                          compare(from + a * size, from + b * size, context) <= 0);
                memcpy(to + at * size, from + (first ? a++ : b++) * size, size);
            }
        }
        uint8_t *swapped = from;
        from = to;
        to = swapped;
    }
    if (from != v)
        memcpy(v, from, n * size);
    return true;
}
