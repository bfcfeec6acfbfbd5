/* test_course.c - one progress for work of many stages: shares of time that never fall. */
#include "unit.h"

#include "base/course.h"
#include "base/progress.h"
#include "store/stages.h"

enum { FIRST = 1, SECOND = 2, BYTES = 1, OBJECTS = 2 };

#define S UINT64_C(1000000000)
#define N (sizeof table / sizeof *table)

static const struct hx_stage table[] = {
    {"objects", FIRST, 0, OBJECTS, 0, false, 0}, {"copy", FIRST, BYTES, BYTES, 1, false, 1},
    {"names", FIRST, 0, 0, 1, false, 1e9},       {"mark", FIRST, OBJECTS, 0, 2, false, 100},
    {"sets", SECOND, OBJECTS, 0, 1, false, 100}, {"tree", SECOND, OBJECTS, 0, 1, true, 300},
    {"sizes", SECOND, OBJECTS, 0, 1, true, 100}, {"storing", SECOND, OBJECTS, 0, 1, false, 100},
};
static const struct hx_stages stages = {table, N, {[OBJECTS] = 0.01}};

static double share_at(struct hx_course *course, uint64_t now)
{
    struct hx_course_look look;
    assert_true(hx_course_look(course, now, &look));
    return look.share;
}

static void assert_near(double value, double wanted)
{
    if (value < wanted - 0.01 || value > wanted + 0.01)
        fail_msg("%f is not near %f", value, wanted);
}

/* As much time as the table says: the share is that of the time. */
static void shares_are_of_time(void **state)
{
    (void)state;
    struct hx_course course;
    struct hx_course_look look;
    hx_course_init(&course);
    assert_false(hx_course_look(&course, 0, &look));
    hx_course_begin(&course, &stages, FIRST, FIRST, false, S);
    assert_near(share_at(&course, S), 0);
    hx_course_at(&course, "objects", 10000000, 10000000, S);
    for (uint64_t part = 0; part <= 10; part++) { /* 1 s of 3 s */
        uint64_t now = S + part * S / 10;
        hx_course_at(&course, "copy", part * 100000000, 1000000000, now);
        assert_near(share_at(&course, now), (double)part / 30);
    }
    hx_course_at(&course, "names", 0, 1, 2 * S);
    hx_course_at(&course, "mark", 0, 10, 3 * S);
    assert_near(share_at(&course, 3 * S), 2. / 3);
    hx_course_at(&course, "mark", 10, 10, 3 * S + S / 2); /* the first of two times */
    assert_near(share_at(&course, 3 * S + S / 2), 2.5 / 3);
    hx_course_at(&course, "mark", 0, 10, 3 * S + S / 2);
    assert_near(share_at(&course, 3 * S + S / 2), 2.5 / 3);
    hx_course_at(&course, "mark", 5, 10, 3 * S + S / 2 + S / 4);
    assert_near(share_at(&course, 3 * S + S / 2 + S / 4), 2.75 / 3);
    assert_true(hx_course_look(&course, 4 * S, &look));
    assert_string_equal(look.stage, "mark");
    assert_int_equal(look.seen[OBJECTS], 10000000);
    hx_course_end(&course);
    assert_false(hx_course_look(&course, 5 * S, &look));
    hx_course_deinit(&course);
}

/* Twice as slow as by the table: what is left takes twice as long, too. */
static void time_left_is_as_measured(void **state)
{
    (void)state;
    struct hx_course course;
    struct hx_course_look look;
    hx_course_init(&course);
    hx_course_begin(&course, &stages, FIRST | SECOND, FIRST, false, S);
    hx_course_at(&course, "objects", 10000000, 10000000, S);
    hx_course_at(&course, "copy", 0, 1000000000, S);
    hx_course_at(&course, "copy", 1000000000, 1000000000, 3 * S);
    hx_course_at(&course, "names", 0, 0, 3 * S);
    hx_course_at(&course, "mark", 0, 1, 4 * S);
    hx_course_at(&course, "mark", 1, 1, 5 * S);
    hx_course_at(&course, "mark", 0, 1, 5 * S);
    hx_course_at(&course, "mark", 1, 1, 6 * S);
    assert_true(hx_course_look(&course, 6 * S, &look)); /* 6 s by the table are left */
    assert_true(look.left_s > 9 && look.left_s < 12);
    assert_true(look.share > 5. / 17.5 && look.share < 5. / 14);
    hx_course_deinit(&course);
}

/* Whatever is told, in whatever order: the share stays or rises, and is below 1. */
static void shares_never_fall(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("shares_never_fall");
    for (int round = 0; round < 200; round++) {
        struct hx_course course;
        hx_course_init(&course);
        hx_course_begin(&course, &stages, FIRST | SECOND, FIRST | SECOND, round % 2, 0);
        uint64_t now = 0;
        double before = 0;
        for (int i = 0; i < 300; i++) {
            struct hx_course_look look;
            uint64_t total = unit_random(&random) % 1000, some = unit_random(&random) % 1200;
            now += unit_random(&random) % S;
            if (unit_random(&random) % 50 == 0)
                hx_course_begin(&course, &stages, 0, 1u << unit_random(&random) % 2, round % 2,
                                now);
            hx_course_at(&course, i % 9 == 8 ? "else" : table[unit_random(&random) % N].name, some,
                         total, now);
            assert_true(hx_course_look(&course, now, &look));
            assert_true(look.share >= before && look.share < 1);
            before = look.share;
        }
        hx_course_deinit(&course);
    }
}

/* The longer of what is done side by side counts; behind it they are one way again. */
static void lanes_are_one_way(void **state)
{
    (void)state;
    struct hx_course course;
    struct hx_course_look look;
    hx_course_init(&course);
    hx_course_begin(&course, &stages, FIRST | SECOND, FIRST, true, 0);
    hx_course_at(&course, "objects", 10000000, 10000000, 0);
    hx_course_begin(&course, &stages, 0, SECOND, true, 0); /* sets, tree and sizes, storing: 5 s */
    hx_course_at(&course, "sets", 0, 10, 0);
    hx_course_at(&course, "tree", 0, 10, 0);
    hx_course_at(&course, "sets", 10, 10, S);
    hx_course_at(&course, "tree", 3, 9, S);
    assert_near(share_at(&course, S), 1. / 5);
    hx_course_at(&course, "tree", 9, 9, 3 * S);
    assert_near(share_at(&course, 3 * S), 3. / 5);
    assert_true(hx_course_look(&course, 3 * S, &look));
    assert_string_equal(look.stage, "tree"); /* the other one waits */
    hx_course_at(&course, "sizes", 9, 9, 4 * S);
    assert_near(share_at(&course, 4 * S), 4. / 5);
    hx_course_at(&course, "storing", 1, 2, 4 * S + S / 2);
    assert_near(share_at(&course, 4 * S + S / 2), 4.5 / 5);
    assert_true(hx_course_look(&course, 4 * S + S / 2, &look));
    assert_string_equal(look.stage, "storing");
    hx_course_deinit(&course);
}

/* Each part of the analysis has stages, and work that is over has all of them behind it. */
static void parts_add_up(void **state)
{
    (void)state;
    static const unsigned parts[] = {HX_WORK_TAKE,         HX_WORK_STORE,   HX_WORK_LOAD,
                                     HX_ANALYSE_RETAINERS, HX_ANALYSE_BINS, HX_ANALYSE_RETAINED,
                                     HX_ANALYSE_HOLDERS,   HX_ANALYSE_SURE, HX_ANALYSE_TYPES};
    struct hx_course course;
    hx_course_init(&course);
    const struct hx_progress progress = {.course = &course};
    unsigned all = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        all |= parts[i];
    double before = 0;
    hx_stages_begin(&progress, all, HX_WORK_TAKE, 2);
    hx_progress_at(&progress, "copy", 1000000000, 1000000000);
    hx_progress_at(&progress, "objects", 10000000, 10000000);
    hx_progress_at(&progress, "edges", 20000000, 20000000);
    for (size_t i = 1; i < sizeof parts / sizeof *parts; i++) {
        uint64_t later = hx_now_ns() + i * S;
        hx_stages_begin(&progress, 0, parts[i], 2);
        double share = share_at(&course, later);
        assert_true(share > before);
        before = share;
    }
    hx_stages_begin(&progress, 0, 0, 2);
    assert_near(share_at(&course, hx_now_ns() + 20 * S), 0.99);
    hx_course_deinit(&course);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_are_of_time), cmocka_unit_test(time_left_is_as_measured),
        cmocka_unit_test(shares_never_fall),  cmocka_unit_test(lanes_are_one_way),
        cmocka_unit_test(parts_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
