/* stages.c - what the stages of a snapshot cost: measured on the forest of test/bench, two threads.
 */
#include "store/stages.h"

#include "base/parallel.h"

enum {
    TAKE = HX_WORK_TAKE,
    STORE = HX_WORK_STORE,
    LOAD = HX_WORK_LOAD,
    HOLDERS = HX_ANALYSE_HOLDERS,
    RETAINERS = HX_ANALYSE_RETAINERS,
    RETAINED = HX_ANALYSE_RETAINED,
    SURE = HX_ANALYSE_SURE,
    TYPES = HX_ANALYSE_TYPES,
    BINS = HX_ANALYSE_BINS,
    BYTES = HX_SIZE_BYTES,
    OBJECTS = HX_SIZE_OBJECTS,
    EDGES = HX_SIZE_EDGES,
};

/* In the order in which they come; each name as it is told to hx_progress_at(). */
static const struct hx_stage stage[] = {
    /* name, part, size that it grows with, size that it tells, times, beside, ns */
    {"objects", TAKE | LOAD, 0, OBJECTS, 0, false, 0},
    {"edges", TAKE | LOAD, 0, EDGES, 0, false, 0},
    {"loading", LOAD, EDGES, 0, 1, false, 30},
    {"copy", TAKE, BYTES, BYTES, 1, false, 0.8},
    {"walk", TAKE, OBJECTS, 0, 1, false, 50},
    {"threads", TAKE, 0, 0, 1, false, 1e6},
    {"names", TAKE, 0, 0, 1, false, 5e7},
    {"scan", TAKE, BYTES, 0, 1, false, 0.7},
    {"types", TAKE, OBJECTS, 0, 1, false, 15},
    {"words", TAKE, EDGES, 0, 1, false, 270},
    {"shapes", TAKE, 0, 0, 1, false, 4e8},
    {"typing", TAKE, OBJECTS, 0, 1, false, 250},
    {"mark", TAKE, OBJECTS, 0, 1, false, 65},
    {"components", TAKE, OBJECTS, 0, 1, false, 5},
    {"storing", STORE, EDGES, 0, 1, false, 80},
    {"census", STORE, OBJECTS, 0, 1, false, 20},
    {"holders", HOLDERS, OBJECTS, 0, 1, false, 180},
    {"storing", HOLDERS, OBJECTS, 0, 2, false, 25},
    {"holders", HOLDERS, OBJECTS, 0, 1, false, 70},
    {"tree", HOLDERS, OBJECTS, 0, 1, false, 50},
    {"retainer sets", RETAINERS, OBJECTS, 0, 1, false, 80},
    {"components", RETAINERS, OBJECTS, 0, 1, false, 5},
    {"retainer sets", RETAINERS, OBJECTS, 0, 1, false, 10},
    {"census", RETAINERS, OBJECTS, 0, 1, false, 15},
    {"retainer sets", RETAINERS, OBJECTS, 0, 2, false, 130},
    {"storing", RETAINERS, OBJECTS, 0, 1, false, 15},
    {"number objects", RETAINED, OBJECTS, 0, 1, true, 230},
    {"semidominators", RETAINED, OBJECTS, 0, 1, true, 50},
    {"dominators", RETAINED, OBJECTS, 0, 1, true, 15},
    {"retained sizes", RETAINED, OBJECTS, 0, 2, true, 30},
    {"alone", RETAINED, OBJECTS, 0, 1, true, 80},
    {"storing", RETAINED, OBJECTS, 0, 3, false, 45},
    {"tree", RETAINED, OBJECTS, 0, 1, false, 30},
    {"sure", SURE, OBJECTS, 0, 1, false, 300},
    {"retained sizes of groups", TYPES, OBJECTS, 0, 1, false, 20},
    {"census", BINS, OBJECTS, 0, 2, false, 15},
    {"storing", BINS, OBJECTS, 0, 1, false, 15},
};

static const struct hx_stages stages = {
    .stage = stage,
    .n = sizeof stage / sizeof *stage,
    .guess = {[OBJECTS] = 1.0 / 200, [EDGES] = 1.7},
};

_Static_assert(sizeof stage / sizeof *stage <= HX_COURSE_STAGES, "room for their state");

unsigned hx_stages_of_new(const struct hx_analysis *analysis)
{
    unsigned parts = analysis->parts ? analysis->parts : HX_ANALYSE_ALL;
    return HX_WORK_TAKE | HX_WORK_STORE | (parts & HX_ANALYSE_EVER);
}

void hx_stages_begin(const struct hx_progress *progress, unsigned parts, unsigned now,
                     unsigned threads)
{
    const unsigned dominators = RETAINED | SURE | TYPES;
    bool beside =
        hx_threads(threads) > 1 && now & dominators && now & (HX_ANALYSE_EVER & ~dominators);
    hx_progress_begin(progress, &stages, parts, now, beside);
}
