/* urgent.c - real-time, or the highest nice value. */
#include "attach/stop/urgent.h"

#include <errno.h>
#include <sched.h>
#include <sys/resource.h>

static bool is_usual(int policy)
{
    return policy == SCHED_OTHER || policy == SCHED_BATCH || policy == SCHED_IDLE;
}

static void go_before(struct hx_urgent *ret, bool is_short)
{
    const struct sched_param lowest = {.sched_priority = 1};
    const int err = errno;
    *ret =
        (struct hx_urgent){.policy = sched_getscheduler(0), .nice = getpriority(PRIO_PROCESS, 0)};
    if (is_usual(ret->policy) && is_short)
        ret->real_time = sched_setscheduler(0, SCHED_FIFO, &lowest) == 0;
    if (!ret->real_time)
        setpriority(PRIO_PROCESS, 0, -20);
    errno = err;
}

void hx_urgent_begin(struct hx_urgent *ret)
{
    go_before(ret, true);
}

void hx_urgent_begin_long(struct hx_urgent *ret)
{
    go_before(ret, false);
}

void hx_urgent_end(const struct hx_urgent *urgent)
{
    const struct sched_param none = {.sched_priority = 0};
    const int err = errno;
    if (urgent->real_time)
        sched_setscheduler(0, urgent->policy, &none);
    else
        setpriority(PRIO_PROCESS, 0, urgent->nice);
    errno = err;
}
