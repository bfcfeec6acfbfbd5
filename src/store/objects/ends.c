/* ends.c - of each order that lists show the first and the last rows. */
#include "store/objects/ends.h"

#include "store/objects/best.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    enum hx_derived derived;
    int column;
    bool nulls;
} orders[] = {
    {HX_PLAIN, HX_COL_SIZE, false},
    {HX_PLAIN, HX_COL_STATE, true},
    {HX_PLAIN, HX_COL_IN, false},
    {HX_PLAIN, HX_COL_OUT, false},
    {HX_PLAIN, HX_COL_TYPE, true},
    {HX_PLAIN, HX_COL_REQUESTED, true},
    {HX_RETAINED, HX_COL_RETAINED_REST, true},
};

int hx_ends_of(enum hx_derived derived, int column, bool *ret_nulls)
{
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        if (orders[i].derived != derived || (derived == HX_PLAIN && orders[i].column != column))
            continue;
        *ret_nulls = orders[i].nulls;
        return orders[i].column;
    }
    return -1;
}

void hx_rank_states(uint32_t rank[HX_STATES])
{
    memset(rank, 0, HX_STATES * sizeof *rank);
    for (int state = HX_STATE_NONE + 1; state < HX_STATES; state++)
        for (int other = HX_STATE_NONE + 1; other < HX_STATES; other++)
            rank[state] += strcmp(hx_state_name((enum hx_state)other),
                                  hx_state_name((enum hx_state)state)) <= 0;
}

/* The last rows of an order are the first ones of the opposite, in which rows fall, too. */
enum { LARGEST, LARGEST_LAST, SMALLEST, SMALLEST_LAST };

struct hx_ends {
    pthread_mutex_t mutex;
    bool nulls, some, failed;
    uint64_t rows;
    uint32_t *rank; /* NULL: none */
    size_t ranks;
    struct hx_best list[HX_ENDS_LISTS];
};

hx_error *hx_ends_create(bool nulls, const uint32_t *rank, size_t ranks, hx_ends **ret)
{
    hx_ends *ends = calloc(1, sizeof *ends);
    HX_NEED(ends);
    ends->nulls = nulls;
    ends->ranks = ranks;
    if (rank && !(ends->rank = malloc((ranks + 1) * sizeof *rank))) {
        free(ends);
        return hx_error_nomem();
    }
    if (rank)
        memcpy(ends->rank, rank, ranks * sizeof *rank);
    pthread_mutex_init(&ends->mutex, NULL);
    for (int i = 0; i < HX_ENDS_LISTS; i++)
        ends->list[i].most = HX_ENDS;
    *ret = ends;
    return NULL;
}

hx_error *hx_ends_create_some(hx_ends **ret)
{
    HX_TRY(hx_ends_create(false, NULL, 0, ret));
    (*ret)->some = true;
    return NULL;
}

void hx_ends_destroy(hx_ends *ends)
{
    if (!ends)
        return;
    for (int i = 0; i < HX_ENDS_LISTS; i++)
        hx_vec_free(&ends->list[i].taken);
    pthread_mutex_destroy(&ends->mutex);
    free(ends->rank);
    free(ends);
}

/* What the values count by. */
static const uint64_t *ranks_of(const hx_ends *ends, const uint64_t *value, size_t n,
                                uint64_t *ranked)
{
    for (size_t i = 0; ends->rank && i < n; i++)
        ranked[i] = value[i] < ends->ranks ? ends->rank[value[i]] : ends->ranks;
    return ends->rank ? ranked : value;
}

static void offer(hx_ends *ends, int list, uint64_t key, uint64_t row)
{
    struct hx_best *best = &ends->list[list];
    const struct hx_candidate candidate = {key, row};
    if (!best->full || hx_candidate_is_before(&candidate, &best->worst))
        ends->failed |= !hx_best_take(best, candidate);
}

/* The values of which neither of two lists takes any more: from `low` on, so many. */
struct middle {
    uint64_t low, n;
};

/* For rows of which none comes before `row`, as the lists count them: equal values come by rows. */
static struct middle find_middle(const hx_ends *ends, int smallest, int largest, bool nulls,
                                 uint64_t row)
{
    const struct hx_best *low = &ends->list[smallest], *high = &ends->list[largest];
    if (!low->full || !high->full)
        return (struct middle){0};
    const uint64_t first = low->worst.key + nulls + (row <= low->worst.row),
                   end = ~high->worst.key + (row > high->worst.row && high->worst.key);
    return (struct middle){first, first >= low->worst.key && first < end ? end - first : 0};
}

enum { STEP = 256 /* values */ };

/* Most values are in no list, and so most steps are over with this. */
static bool are_middle(const struct middle *middle, const uint64_t *value, size_t n)
{
    uint64_t outside = 0;
    for (size_t i = 0; i < n; i++)
        outside |= value[i] - middle->low >= middle->n;
    return !outside;
}

static void offer_first(hx_ends *ends, uint64_t from, const uint64_t *value, size_t n)
{
    const bool nulls = ends->nulls;
    const struct middle middle = find_middle(ends, SMALLEST, LARGEST, nulls, from);
    if (are_middle(&middle, value, n))
        return;
    for (size_t i = 0; i < n; i++)
        if (value[i] - middle.low >= middle.n && !(ends->some && !value[i])) {
            offer(ends, LARGEST, ~value[i], from + i);
            offer(ends, SMALLEST, value[i] - nulls, from + i);
        }
}

static void offer_last(hx_ends *ends, uint64_t from, const uint64_t *value, size_t n)
{
    const struct middle middle =
        find_middle(ends, LARGEST_LAST, SMALLEST_LAST, false, ~(from + n - 1));
    if (are_middle(&middle, value, n))
        return;
    for (size_t i = n; i-- > 0;)
        if (value[i] - middle.low >= middle.n && !(ends->some && !value[i])) {
            offer(ends, LARGEST_LAST, value[i], ~(from + i));
            offer(ends, SMALLEST_LAST, ~(value[i] - ends->nulls), ~(from + i));
        }
}

void hx_ends_take(hx_ends *ends, uint64_t from, const uint64_t *value, size_t n)
{
    uint64_t ranked[STEP];
    pthread_mutex_lock(&ends->mutex);
    for (size_t at = 0; at < n; at += STEP) {
        const size_t step = n - at < STEP ? n - at : STEP;
        const uint64_t *of = ranks_of(ends, value + at, step, ranked);
        for (size_t i = 0; ends->some && i < step; i++)
            ends->rows += of[i] != 0;
        ends->rows += ends->some ? 0 : step;
        offer_first(ends, from + at, of, step);
    }
    /* from the last one on: so the first ones that are met shut out the others */
    for (size_t end = n; end > 0;) {
        const size_t step = end % STEP ? end % STEP : STEP;
        end -= step;
        offer_last(ends, from + end, ranks_of(ends, value + end, step, ranked), step);
    }
    pthread_mutex_unlock(&ends->mutex);
}

hx_error *hx_ends_list(hx_ends *ends, uint64_t ret[HX_ENDS_ROOM])
{
    HX_NEED(!ends->failed);
    ret[HX_ENDS_VALUES] = ends->rows;
    for (int list = 0; list < HX_ENDS_LISTS; list++) {
        struct hx_best *best = &ends->list[list];
        bool last = list == LARGEST_LAST || list == SMALLEST_LAST;
        hx_best_end(best);
        hx_candidates_sort(&best->taken);
        for (size_t i = 0; i < HX_ENDS; i++)
            ret[list * HX_ENDS + (last ? HX_ENDS - 1 - i : i)] = i >= best->taken.n ? 0
                                                                 : last ? ~best->taken.v[i].row
                                                                        : best->taken.v[i].row;
    }
    return NULL;
}
