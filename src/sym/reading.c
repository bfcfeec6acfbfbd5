/* reading.c - the account of what was not read of a target's files. */
#include "sym/reading.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define UNREAD_MAX 16 /* told one by one */

void hx_reading_init(struct hx_reading *reading)
{
    *reading = (struct hx_reading){0};
    pthread_mutex_init(&reading->lock, NULL);
}

void hx_reading_deinit(struct hx_reading *reading)
{
    for (size_t i = 0; i < reading->unread.n; i++)
        free(reading->unread.v[i].path);
    hx_vec_free(&reading->unread);
    pthread_mutex_destroy(&reading->lock);
}

void hx_reading_listen(struct hx_reading *reading, const struct hx_progress *progress)
{
    atomic_store(&reading->cancel, NULL);
    reading->listener = pthread_self();
    atomic_store(&reading->cancel, progress ? progress->cancel : NULL);
}

bool hx_reading_ended(const struct hx_reading *reading)
{
    const atomic_bool *cancel = reading ? atomic_load(&reading->cancel) : NULL;
    return cancel && pthread_equal(reading->listener, pthread_self()) &&
           atomic_load_explicit(cancel, memory_order_relaxed);
}

void hx_reading_leave(struct hx_reading *reading, const char *path, const char *what)
{
    if (!reading || hx_reading_ended(reading))
        return;
    pthread_mutex_lock(&reading->lock);
    bool known = false;
    for (size_t i = 0; i < reading->unread.n && !known; i++)
        known = reading->unread.v[i].what == what && !strcmp(reading->unread.v[i].path, path);
    struct hx_unread unread = {known || reading->unread.n == UNREAD_MAX ? NULL : strdup(path),
                               what};
    if (unread.path && !hx_vec_push(&reading->unread, unread))
        free(unread.path);
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
