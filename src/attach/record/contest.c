/* contest.c - addresses whose events came out of order; contest.h says why this is right. */
#include "attach/record/contest.h"

#include <stdlib.h>

hx_error *hx_contest_begin(struct hx_contests *contests, uint64_t address,
                           const struct hx_live_block *block, struct hx_contest **ret)
{
    struct hx_contest contest = {.latest.address = address};
    if (block)
        contest = (struct hx_contest){.latest = *block, .allocs = 1, .has_latest = true};
    HX_NEED(contests->v.n < UINT32_MAX - 1 && hx_vec_push(&contests->v, contest));
    *ret = &contests->v.v[contests->v.n - 1];
    return hx_index_add(&contests->index, hx_hash(contests->seed, address),
                        (uint32_t)contests->v.n - 1);
}

bool hx_contest_alloc(struct hx_contest *contest, const struct hx_live_block *block,
                      struct hx_live_block *ret_gone)
{
    bool had = contest->has_latest;
    contest->allocs++;
    if (had && block->when < contest->latest.when) {
        *ret_gone = *block;
        return true;
    }
    *ret_gone = contest->latest;
    contest->latest = *block;
    contest->has_latest = true;
    return had;
}

static void freed_at(struct hx_contest *contest, uint64_t when)
{
    if (contest->freed < when)
        contest->freed = when;
}

void hx_contest_free_at(struct hx_contest *contest, uint64_t when)
{
    contest->frees++;
    freed_at(contest, when);
}

void hx_contests_settle(struct hx_contests *contests)
{
    for (size_t i = 0; contests->v.n && i < contests->log.n; i++) {
        struct hx_contest *contest = hx_contest_find(contests, contests->log.v[i].address);
        if (contest)
            freed_at(contest, contests->log.v[i].when);
    }
}

void hx_contests_clear(struct hx_contests *contests)
{
    contests->log.n = 0;
    if (!contests->v.n)
        return;
    if (contests->v.cap > 65536)
        hx_vec_free(&contests->v);
    contests->v.n = 0;
    hx_index_clear(&contests->index);
}

void hx_contests_deinit(struct hx_contests *contests)
{
    hx_vec_free(&contests->v);
    hx_vec_free(&contests->log);
    hx_index_free(&contests->index);
}
