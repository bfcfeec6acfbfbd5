/* test_urgent.c - a thread that goes before others, and is as before afterwards. */
#include "attach/stop/urgent.h"

#include "unit.h"

#include <errno.h>
#include <sched.h>
#include <sys/resource.h>

static void set_policy(int policy)
{
    assert_int_equal(sched_setscheduler(0, policy, &(struct sched_param){0}), 0);
}

static void test_back_again(void **state)
{
    (void)state;
    static const int usual[] = {SCHED_BATCH, SCHED_OTHER};
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        struct hx_urgent urgent;
        set_policy(usual[i]);
        const int nice = getpriority(PRIO_PROCESS, 0);
        errno = EAGAIN;
        hx_urgent_begin(&urgent);
        assert_int_equal(errno, EAGAIN);
        assert_true(sched_getscheduler(0) == (urgent.real_time ? SCHED_FIFO : usual[i]));
        hx_urgent_end(&urgent);
        assert_int_equal(errno, EAGAIN);
        assert_int_equal(sched_getscheduler(0), usual[i]);
        assert_int_equal(getpriority(PRIO_PROCESS, 0), nice);
    }
}

/* What reads memory in the stop does so for calls that hold a lock, too. */
static void test_one_in_another(void **state)
{
    (void)state;
    struct hx_urgent outer, inner;
    hx_urgent_begin(&outer);
    const int policy = sched_getscheduler(0);
    hx_urgent_begin(&inner);
    hx_urgent_end(&inner);
    assert_int_equal(sched_getscheduler(0), policy);
    hx_urgent_end(&outer);
    assert_int_equal(sched_getscheduler(0), SCHED_OTHER);
}

static void test_long_is_not_real_time(void **state)
{
    (void)state;
    struct hx_urgent urgent;
    hx_urgent_begin_long(&urgent);
    assert_false(urgent.real_time);
    assert_int_equal(sched_getscheduler(0), SCHED_OTHER);
    hx_urgent_end(&urgent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_back_again),
        cmocka_unit_test(test_one_in_another),
        cmocka_unit_test(test_long_is_not_real_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
