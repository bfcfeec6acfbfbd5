/* top.c - windows of ordered rows.
 *
 * A window near the beginning comes from one pass that keeps the best rows so far. Any other window
 * lies between two keys: histograms of ever smaller ranges find these, and a last pass takes what
 * is between them. Keys are values, turned so that the smallest come first.
 */
#include "store/objects/top.h"

#include "base/bits.h"
#include "base/cleanup.h"
#include "base/vec.h"
#include "store/objects/best.h"
#include "store/objects/children.h"
#include "store/objects/column_scan.h"
#include "store/objects/ends.h"
#include "store/objects/pass.h"

#include <stdlib.h>
#include <string.h>

#define BEST_MAX 16384 /* rows up to the end of a window that one pass keeps */
#define BUCKETS  4096

static uint64_t sort_key(const struct hx_top *top, uint64_t value)
{
    if (top->rank)
        value = value < top->ranks ? top->rank[value] : top->ranks;
    return top->largest ? ~value : value - top->zero_last;
}

/* Of the last rows the last comes first. */
static struct hx_candidate candidate_of(const struct hx_top *top, uint64_t value, uint64_t row)
{
    uint64_t key = sort_key(top, value);
    return top->backwards ? (struct hx_candidate){~key, ~row} : (struct hx_candidate){key, row};
}

/* --- all rows that pass ------------------------------------------------------------------- */

static hx_error *count_part(const struct hx_part *part, void *context)
{
    uint64_t *count = context;
    *count += hx_part_passing(part);
    return NULL;
}

/* A level of the tree of dominators may be known from the edges of the object above it. */
static hx_error *pass_children(hx_blocks *blocks, const struct hx_block_index *index,
                               const struct hx_top *top)
{
    const struct hx_condition *of = top->condition;
    struct hx_passed_sets *sets = hx_tops_passed(blocks);
    HX_FREE uint64_t *row = NULL;
    struct hx_passed passed;
    size_t n;
    bool all;
    if (!sets || top->conditions != 1 || of->derived != HX_DOMINATOR || !of->low ||
        of->low != of->high || !hx_passed_can(index, top) || hx_passed_find(sets, index, top))
        return NULL;
    HX_TRY(hx_children_find(blocks, index, of->low - 1, &row, &n, &all));
    if (all)
        hx_passed_begin(index, top, &passed);
    if (!all || !passed.bit)
        return NULL;
    for (size_t i = 0; i < n; i++)
        hx_bit_set(passed.bit, row[i]);
    hx_passed_keep(sets, &passed);
    return NULL;
}

static hx_error *count_rows(hx_blocks *blocks, const struct hx_block_index *index,
                            const struct hx_top *top, uint64_t *ret)
{
    HX_TRY(pass_children(blocks, index, top));
    struct hx_passed_sets *sets = hx_tops_passed(blocks);
    const struct hx_passed *passed = sets ? hx_passed_find(sets, index, top) : NULL;
    *ret = passed ? hx_passed_count(passed, top->from, top->end) : 0;
    return passed ? NULL : hx_pass_over(blocks, index, top, HX_WANTS_COUNT, count_part, ret);
}

struct looking {
    hx_look_fn *look;
    void *context;
};

static hx_error *look_at_part(const struct hx_part *part, void *context)
{
    const struct looking *looking = context;
    const struct hx_passing rows = {part->from, hx_part_passing(part), part->all ? NULL : part->at};
    return looking->look(looking->context, (size_t)(part->row / HX_BLOCK_ROWS), &rows);
}

hx_error *hx_top_look(hx_blocks *blocks, const struct hx_block_index *index,
                      const struct hx_top *top, hx_look_fn *look, void *context)
{
    struct looking looking = {look, context};
    return hx_pass_over(blocks, index, top, HX_WANTS_ROWS, look_at_part, &looking);
}

/* --- rows of a part ------------------------------------------------------------------- */

/* The values whose keys lie in low..high; false: they are no interval. */
static bool values_of(const struct hx_top *top, uint64_t low, uint64_t high, uint64_t *ret_low,
                      uint64_t *ret_high)
{
    if (top->rank || (top->zero_last && high == UINT64_MAX))
        return false;
    *ret_low = top->largest ? ~high : low + top->zero_last;
    *ret_high = top->largest ? ~low : high + top->zero_last;
    return true;
}

#define NEXT_RANKED(type)                                                                          \
    {                                                                                              \
        const type *v = column->v;                                                                 \
        while (i < end && sort_key(top, column->base + v[i]) - low > high - low)                   \
            i++;                                                                                   \
        return i;                                                                                  \
    }

/* The next row from i on whose key is in low..high, of a column whose values have ranks; or `end`.
 */
HX_HOT static size_t next_ranked(const struct hx_top *top, const struct hx_decoded *column,
                                 uint64_t low, uint64_t high, size_t i, size_t end)
{
    switch (column->shift) {
    case 0:
        NEXT_RANKED(uint8_t)
    case 1:
        NEXT_RANKED(uint16_t)
    case 2:
        NEXT_RANKED(uint32_t)
    default:
        NEXT_RANKED(uint64_t)
    }
}

/* The next row from i on whose key is in low..high, whether it passes or not; or part->end. */
static size_t next_key(const struct hx_part *part, uint64_t low, uint64_t high, size_t i)
{
    uint64_t least, most;
    if (low > high)
        return part->end;
    if (!values_of(part->top, low, high, &least, &most))
        return next_ranked(part->top, part->column, low, high, i, part->end);
    return hx_scan_next(part->column, least, most, i, part->end);
}

/* --- the beginning ------------------------------------------------------------------ */

static hx_error *offer_row(const struct hx_part *part, size_t i, struct hx_best *best)
{
    HX_NEED(
        hx_best_take(best, candidate_of(part->top, hx_decoded_at(part->column, i), part->row + i)));
    return NULL;
}

/* Of rows that were chosen one by one. */
HX_HOT static hx_error *offer_rows(const struct hx_part *part, struct hx_best *best)
{
    for (size_t nth = 0; nth < part->n; nth++) {
        const size_t i = part->at[nth];
        struct hx_candidate candidate =
            candidate_of(part->top, hx_decoded_at(part->column, i), part->row + i);
        if (!best->full || hx_candidate_is_before(&candidate, &best->worst))
            HX_NEED(hx_best_take(best, candidate));
    }
    return NULL;
}

static hx_error *offer_part(const struct hx_part *part, void *context)
{
    struct hx_best *best = context;
    if (!part->all)
        return offer_rows(part, best);
    for (size_t i = part->from; i < part->end; i++) {
        /* Most rows come behind those there; one of the same key, too, as it is a later row. */
        if (best->full && part->top->backwards)
            i = next_key(part, ~best->worst.key, UINT64_MAX, i);
        else if (best->full)
            i = best->worst.key ? next_key(part, 0, best->worst.key - 1, i) : part->end;
        if (i < part->end)
            HX_TRY(offer_row(part, i, best));
    }
    return NULL;
}

/* --- any window --------------------------------------------------------------------- */

/* Finds the key at one place of the order. */
struct search {
    uint64_t place;     /* in the whole order */
    uint64_t low, high; /* the key lies between them */
    uint64_t before;    /* rows with smaller keys than `low` */
    unsigned shift;
    uint64_t bucket[BUCKETS];
};

struct searches {
    struct search first, last;
};

#define COUNT_KEYS(type)                                                                           \
    for (size_t i = part->from; i < part->end; i++) {                                              \
        const uint64_t value = column->base + ((const type *)column->v)[i];                        \
        const uint64_t key = (top->largest ? ~value : value - top->zero_last) - search->low;       \
        if (key <= range)                                                                          \
            search->bucket[key >> shift]++;                                                        \
    }

/* Of all rows of a part, whose values have no ranks. */
HX_HOT static void count_all_keys(const struct hx_part *part, struct search *search)
{
    const struct hx_decoded *column = part->column;
    const struct hx_top *top = part->top;
    const uint64_t range = search->high - search->low;
    const unsigned shift = search->shift;
    HX_BY_SHIFT(column->shift, COUNT_KEYS);
}

static void count_key(struct search *search, uint64_t key)
{
    if (key >= search->low && key <= search->high)
        search->bucket[(key - search->low) >> search->shift]++;
}

HX_HOT static hx_error *count_keys(const struct hx_part *part, void *context)
{
    struct searches *searches = context;
    const struct hx_top *top = part->top;
    bool same =
        searches->first.low == searches->last.low && searches->first.high == searches->last.high;
    if (part->all && !top->rank) {
        count_all_keys(part, &searches->first);
        if (!same)
            count_all_keys(part, &searches->last);
        return NULL;
    }
    for (size_t nth = 0, n = hx_part_passing(part); nth < n; nth++) {
        uint64_t key = sort_key(top, hx_decoded_at(part->column, hx_part_row(part, nth)));
        count_key(&searches->first, key);
        if (!same)
            count_key(&searches->last, key);
    }
    return NULL;
}

static bool is_found(const struct search *search)
{
    return search->low == search->high;
}

static void begin_count(struct search *search)
{
    uint64_t range = search->high - search->low;
    search->shift = 0;
    while (range >> search->shift >= BUCKETS)
        search->shift++;
    memset(search->bucket, 0, sizeof search->bucket);
}

/* Goes down into the bucket where the place is; places behind the last row have none. */
static void narrow_to_bucket(struct search *search, const uint64_t *bucket)
{
    for (uint64_t b = 0; b < BUCKETS && search->before != UINT64_MAX; b++) {
        if (search->place - search->before < bucket[b]) {
            uint64_t rest = ((uint64_t)1 << search->shift) - 1; /* of the bucket; it may not fit */
            search->low += b << search->shift;
            search->high -=
                search->high - search->low > rest ? search->high - search->low - rest : 0;
            return;
        }
        search->before += bucket[b];
    }
    search->low = search->high; /* fewer rows than that: all to the end */
    search->before = UINT64_MAX;
}

/* Takes the rows between two keys: of the first key's from a number on. */
struct taking {
    uint64_t first, last; /* keys */
    uint64_t skip;        /* rows of the first key to leave out */
    uint64_t limit;
    uint64_t last_limit; /* rows of the last key at most */
    hx_candidates taken;
};

static hx_error *take_top_rows(const struct hx_part *part, void *context)
{
    struct taking *taking = context;
    for (size_t nth = 0, n = hx_part_passing(part); nth < n; nth++) {
        size_t i = hx_part_row(part, nth);
        if (part->all) {
            i = next_key(part, taking->first, taking->last, i);
            nth = i - part->from;
        }
        if (i == part->end)
            break;
        uint64_t key = sort_key(part->top, hx_decoded_at(part->column, i));
        if (key < taking->first || key > taking->last)
            continue;
        if (key == taking->first && taking->skip) {
            taking->skip--;
            continue;
        }
        if (key == taking->last && taking->last_limit-- == 0) {
            taking->last_limit = 0;
            continue;
        }
        HX_NEED(hx_vec_push(&taking->taken, ((struct hx_candidate){key, part->row + i})));
    }
    return NULL;
}

/* All keys there can be. */
/* The least and the greatest of the values, or what lies beyond them. */
static hx_error *limits(hx_blocks *blocks, const struct hx_block_index *index,
                        const struct hx_top *top, uint64_t *ret_low, uint64_t *ret_high)
{
    uint64_t low = UINT64_MAX, high = 0;
    const uint64_t *value;
    size_t n;
    HX_TRY(hx_pass_values(blocks, index, top, &value, &n));
    for (size_t i = 0; value && i < n; i++) {
        low = value[i] < low ? value[i] : low;
        high = value[i] > high ? value[i] : high;
    }
    for (uint64_t b = top->from / HX_BLOCK_ROWS; !value && b * HX_BLOCK_ROWS < top->end; b++) {
        const struct hx_decoded *column;
        HX_TRY(hx_blocks_interrupted(blocks));
        HX_TRY(hx_blocks_column(blocks, index, b, top->derived, top->column, &column));
        low = column->base < low ? column->base : low;
        high = hx_decoded_most(column) > high ? hx_decoded_most(column) : high;
        hx_blocks_release(blocks, column);
    }
    *ret_low = low;
    *ret_high = high;
    return NULL;
}

static hx_error *bounds(hx_blocks *blocks, const struct hx_block_index *index,
                        const struct hx_top *top, uint64_t *ret_low, uint64_t *ret_high)
{
    uint64_t low = 0, high = 0;
    HX_TRY(limits(blocks, index, top, &low, &high));
    if (top->rank) {
        low = 0;
        high = top->ranks;
    }
    bool wraps = top->zero_last && low == 0; /* the key of 0 is the largest there is */
    *ret_low = top->largest ? ~high : wraps ? 0 : low - top->zero_last;
    *ret_high = top->largest ? ~low : wraps ? UINT64_MAX : high - top->zero_last;
    return NULL;
}

static hx_error *find_keys(hx_blocks *blocks, const struct hx_block_index *index,
                           const struct hx_top *top, struct searches *searches)
{
    struct search *first = &searches->first, *last = &searches->last;
    uint64_t low, high;
    HX_TRY(bounds(blocks, index, top, &low, &high));
    first->low = last->low = low;
    first->high = last->high = high;
    first->before = last->before = 0;
    first->place = top->offset;
    last->place = top->offset + top->limit - 1;
    while (!is_found(first) || !is_found(last)) {
        bool same = first->low == last->low && first->high == last->high;
        begin_count(first);
        begin_count(last);
        HX_TRY(hx_pass_over(blocks, index, top, HX_WANTS_VALUES, count_keys, searches));
        const uint64_t *bucket = same ? first->bucket : last->bucket;
        narrow_to_bucket(last, bucket);
        narrow_to_bucket(first, first->bucket);
    }
    return NULL;
}

static hx_error *take_window(hx_blocks *blocks, const struct hx_block_index *index,
                             const struct hx_top *top, hx_candidates *ret)
{
    struct searches *searches = malloc(sizeof *searches);
    HX_NEED(searches);
    hx_error *err = find_keys(blocks, index, top, searches);
    const struct search *first = &searches->first, *last = &searches->last;
    struct taking taking = {.first = first->low, .last = last->low};
    bool none = !err && first->before == UINT64_MAX; /* the window begins behind the end */
    if (!err && !none) {
        taking.skip = top->offset - first->before;
        taking.last_limit =
            last->before == UINT64_MAX ? UINT64_MAX : top->offset + top->limit - last->before;
        if (first->low == last->low && taking.last_limit != UINT64_MAX)
            taking.last_limit -= taking.skip;
        err = hx_pass_over(blocks, index, top, HX_WANTS_VALUES, take_top_rows, &taking);
    }
    *ret = taking.taken;
    free(searches);
    return err;
}

/* --- in the order of rows ------------------------------------------------------------- */

/* Takes the rows of some places, counted from the first one. */
struct placed {
    uint64_t skip, limit;
    hx_candidates taken; /* key: the place */
};

static hx_error *take_placed(const struct hx_part *part, void *context)
{
    struct placed *placed = context;
    const size_t n = hx_part_passing(part);
    size_t nth = placed->skip < n ? (size_t)placed->skip : n;
    placed->skip -= nth;
    for (; nth < n && placed->taken.n < placed->limit; nth++)
        HX_NEED(hx_vec_push(&placed->taken,
                            ((struct hx_candidate){0, part->row + hx_part_row(part, nth)})));
    return NULL;
}

/* Addresses rise with rows: what is looked for are places, from the end when they shall fall. */
static hx_error *take_by_row(hx_blocks *blocks, const struct hx_block_index *index,
                             const struct hx_top *top, hx_candidates *ret)
{
    uint64_t rows;
    struct hx_top within = *top;
    struct placed placed = {.skip = top->offset, .limit = top->limit};
    HX_TRY(hx_top_count(blocks, index, top, &rows));
    placed.limit = top->offset >= rows               ? 0
                   : top->limit < rows - top->offset ? top->limit
                                                     : rows - top->offset;
    if (top->largest)
        placed.skip = rows - top->offset - placed.limit;
    if (!placed.limit)
        return NULL;
    if (!top->conditions) {
        within.from += placed.skip;
        within.end = within.from + placed.limit;
        placed.skip = 0;
    }
    hx_error *err = hx_pass_over(blocks, index, &within, HX_WANTS_ROWS, take_placed, &placed);
    for (size_t i = 0; i < placed.taken.n && top->largest; i++)
        placed.taken.v[i].key = ~placed.taken.v[i].row;
    *ret = placed.taken;
    return err;
}

/* --- all of them --------------------------------------------------------------------------- */

static hx_error *take_rows(hx_candidates *found, uint64_t skip, uint64_t **ret, size_t *ret_n)
{
    uint64_t *row = malloc((found->n + 1) * sizeof *row);
    HX_NEED(row);
    hx_candidates_sort(found);
    *ret_n = 0;
    for (size_t i = skip < found->n ? (size_t)skip : found->n; i < found->n; i++)
        row[(*ret_n)++] = found->v[i].row;
    *ret = row;
    return NULL;
}

/* The `most` last rows of the order, the window being the first of these. */
static hx_error *find_last_rows(hx_blocks *blocks, const struct hx_block_index *index,
                                const struct hx_top *top, uint64_t most, uint64_t **ret,
                                size_t *ret_n)
{
    struct hx_top backwards = *top;
    struct hx_best best = {.most = most};
    backwards.backwards = true;
    hx_error *err = hx_pass_over(blocks, index, &backwards, HX_WANTS_VALUES, offer_part, &best);
    hx_best_end(&best);
    if (!err)
        err = take_rows(&best.taken, 0, ret, ret_n);
    for (size_t i = 0, n = best.taken.n; !err && i < n; i++)
        (*ret)[i] = ~best.taken.v[n - 1 - i].row;
    if (!err && *ret_n > top->limit)
        *ret_n = (size_t)top->limit;
    hx_vec_free(&best.taken);
    return err;
}

static hx_error *find_rows(hx_blocks *blocks, const struct hx_block_index *index,
                           const struct hx_top *top, uint64_t **ret, size_t *ret_n)
{
    uint64_t rows = top->from < top->end ? top->end - top->from : 0;
    struct hx_top within = *top;
    within.offset = top->offset < rows ? top->offset : rows;
    within.limit = top->limit < rows - within.offset ? top->limit : rows - within.offset;
    uint64_t most = within.offset + within.limit;
    hx_error *err = NULL;
    hx_candidates found = {0};
    bool by_row = top->derived == HX_ADDRESS, near = !by_row && most <= BEST_MAX;
    if (!by_row && !near && within.limit)
        HX_TRY(hx_top_count(blocks, index, top, &rows));
    if (!by_row && !near && within.offset < rows && rows - within.offset <= BEST_MAX)
        return find_last_rows(blocks, index, &within, rows - within.offset, ret, ret_n);
    if (by_row) {
        err = take_by_row(blocks, index, &within, &found);
    } else if (within.limit && near) {
        struct hx_best best = {.most = most};
        err = hx_pass_over(blocks, index, &within, HX_WANTS_VALUES, offer_part, &best);
        hx_best_end(&best);
        found = best.taken;
    } else if (within.limit) {
        err = take_window(blocks, index, &within, &found);
    }
    if (!err)
        err = take_rows(&found, near ? within.offset : 0, ret, ret_n);
    hx_vec_free(&found);
    return err;
}

/* --- windows that are kept ---------------------------------------------------------- */

enum { KEPT = 48, COUNTED = 32, AHEAD = 2048, CONDITIONS_MAX = 16 };

/* How many rows pass some conditions. */
struct counted {
    int64_t snapshot; /* 0: nothing here */
    uint64_t from, end, count;
    struct hx_condition condition[CONDITIONS_MAX];
    size_t conditions;
};

/* Rows of an order, from a place on. */
struct kept {
    int64_t snapshot;
    struct hx_top top; /* without what it points to, offset and limit */
    struct hx_condition condition[CONDITIONS_MAX];
    uint64_t first;
    size_t n;
    bool to_end; /* no row comes behind them */
    uint64_t *row;
    uint64_t used;
};

struct hx_kept_tops {
    struct kept kept[KEPT];
    uint64_t clock;
    struct counted counted[COUNTED];
    size_t next; /* the one to be replaced */
    struct hx_passed_sets passed;
};

static struct hx_kept_tops *make_tops(hx_blocks *blocks)
{
    struct hx_kept_tops **tops = hx_blocks_tops(blocks);
    return *tops ? *tops : (*tops = calloc(1, sizeof **tops));
}

struct hx_passed_sets *hx_tops_passed(hx_blocks *blocks)
{
    struct hx_kept_tops *tops = make_tops(blocks);
    return tops ? &tops->passed : NULL;
}

void hx_tops_free(struct hx_kept_tops *tops)
{
    for (size_t i = 0; tops && i < KEPT; i++)
        free(tops->kept[i].row);
    if (tops)
        hx_passed_sets_free(&tops->passed);
    free(tops);
}

static bool are_same(const struct hx_condition *a, const struct hx_condition *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (a[i].derived != b[i].derived || a[i].column != b[i].column || a[i].low != b[i].low ||
            a[i].high != b[i].high)
            return false;
    return true;
}

static bool is_top_of(const struct kept *kept, int64_t snapshot, const struct hx_top *top)
{
    const struct hx_top *it = &kept->top;
    if (!kept->row || kept->snapshot != snapshot || it->from != top->from || it->end != top->end ||
        it->conditions != top->conditions || it->derived != top->derived ||
        it->column != top->column || it->largest != top->largest || it->zero_last != top->zero_last)
        return false;
    return are_same(kept->condition, top->condition, top->conditions);
}

/* One that holds the window; NULL: none. */
static struct kept *find_kept(struct hx_kept_tops *tops, int64_t snapshot, const struct hx_top *top)
{
    for (size_t i = 0; tops && i < KEPT; i++) {
        struct kept *kept = &tops->kept[i];
        if (is_top_of(kept, snapshot, top) && top->offset >= kept->first &&
            (kept->to_end || (top->offset - kept->first <= kept->n &&
                              top->limit <= kept->n - (top->offset - kept->first)))) {
            kept->used = ++tops->clock;
            return kept;
        }
    }
    return NULL;
}

/* Keeps the rows in place of what was not used for longest; without memory they are not kept. */
static struct kept *keep_top_rows(hx_blocks *blocks, int64_t snapshot, const struct hx_top *top,
                                  uint64_t *row, size_t n)
{
    struct hx_kept_tops *tops = make_tops(blocks);
    if (!tops)
        return NULL;
    struct kept *oldest = &tops->kept[0];
    for (size_t i = 1; i < KEPT; i++)
        if (tops->kept[i].used < oldest->used)
            oldest = &tops->kept[i];
    free(oldest->row);
    *oldest = (struct kept){.snapshot = snapshot,
                            .top = *top,
                            .first = top->offset,
                            .n = n,
                            .to_end = n < top->limit,
                            .row = row,
                            .used = ++tops->clock};
    oldest->top.condition = NULL;
    oldest->top.rank = NULL;
    for (size_t i = 0; i < top->conditions; i++)
        oldest->condition[i] = top->condition[i];
    return oldest;
}

/* Was it counted how many rows pass? */
static bool find_count(hx_blocks *blocks, const struct hx_block_index *index,
                       const struct hx_top *top, uint64_t *ret)
{
    const struct hx_kept_tops *tops = *hx_blocks_tops(blocks);
    for (size_t i = 0; tops && i < COUNTED; i++) {
        const struct counted *it = &tops->counted[i];
        if (it->snapshot == index->snapshot && it->from == top->from && it->end == top->end &&
            it->conditions == top->conditions &&
            are_same(it->condition, top->condition, top->conditions)) {
            *ret = it->count;
            return true;
        }
    }
    return false;
}

/* The window with some rows around it; the first ones always begin with the very first. */
static struct hx_top widen_window(const struct hx_top *top)
{
    struct hx_top wide = *top;
    wide.offset = top->offset > AHEAD ? top->offset - AHEAD : 0;
    wide.limit = top->limit + (top->offset - wide.offset) + AHEAD;
    return wide;
}

static void keep_count(hx_blocks *blocks, const struct hx_block_index *index,
                       const struct hx_top *top, uint64_t count)
{
    struct hx_kept_tops *tops = make_tops(blocks);
    if (!tops || top->conditions > CONDITIONS_MAX)
        return; /* then it is counted again */
    struct counted *counted = &tops->counted[tops->next++ % COUNTED];
    *counted = (struct counted){index->snapshot, top->from, top->end, count,
                                .conditions = top->conditions};
    memcpy(counted->condition, top->condition, top->conditions * sizeof *top->condition);
}

/* Do the conditions let through what hangs directly under the roots, and nothing else? */
static bool is_under_roots(const struct hx_top *top)
{
    bool rootless = false, retains = false;
    for (size_t c = 0; c < top->conditions; c++) {
        const struct hx_condition *it = &top->condition[c];
        rootless |= it->derived == HX_DOMINATOR && it->low == 0 && it->high == 0;
        retains |= it->derived == HX_RETAINED && it->low == 1 && it->high == UINT64_MAX;
    }
    return top->conditions == 2 && rootless && retains;
}

/* The stored column that has the ends of such an order; -1: none. */
static int ends_of(const struct hx_top *top)
{
    bool nulls;
    if (is_under_roots(top))
        return top->derived == HX_RETAINED ? HX_COL_DOMINATOR : -1;
    const int column = top->conditions ? -1 : hx_ends_of(top->derived, top->column, &nulls);
    return column >= 0 && !top->largest && top->zero_last != nulls ? -1 : column;
}

/* Both ends of an order, where they are stored. */
static hx_error *keep_ends(hx_blocks *blocks, const struct hx_block_index *index,
                           const struct hx_top *top)
{
    bool there;
    const int column = ends_of(top);
    if (top->from || top->end != index->rows || top->end < HX_ENDS_LEAST || column < 0)
        return NULL;
    HX_FREE uint64_t *ends = malloc(HX_ENDS_ROOM * sizeof *ends);
    HX_NEED(ends);
    HX_TRY(hx_blocks_ends(blocks, index, column, ends, &there));
    const uint64_t rows = there ? ends[HX_ENDS_VALUES] : 0;
    const size_t n = rows < HX_ENDS ? (size_t)rows : HX_ENDS;
    if (there && top->conditions)
        keep_count(blocks, index, top, rows);
    for (int last = 0; last < 2 && there; last++) {
        struct hx_top end = *top;
        HX_FREE uint64_t *row = malloc(HX_ENDS * sizeof *row);
        HX_NEED(row);
        memcpy(row, ends + (top->largest ? last : 2 + last) * HX_ENDS + (last ? HX_ENDS - n : 0),
               n * sizeof *row);
        end.offset = last ? rows - n : 0;
        end.limit = HX_ENDS + last; /* one more than there are */
        HX_NEED(keep_top_rows(blocks, index->snapshot, &end, row, n));
        (void)hx_steal(row);
    }
    return NULL;
}

hx_error *hx_top_count(hx_blocks *blocks, const struct hx_block_index *index,
                       const struct hx_top *top, uint64_t *ret)
{
    *ret = top->from < top->end ? top->end - top->from : 0;
    if (!*ret || !top->conditions)
        return NULL;
    if (find_count(blocks, index, top, ret))
        return NULL;
    if (is_under_roots(top)) {
        struct hx_top retained = *top;
        retained.derived = HX_RETAINED;
        retained.column = 0;
        HX_TRY(keep_ends(blocks, index, &retained));
        if (find_count(blocks, index, top, ret))
            return NULL;
    }
    HX_TRY(count_rows(blocks, index, top, ret));
    keep_count(blocks, index, top, *ret);
    return NULL;
}

static int compare_rows(const void *a, const void *b)
{
    const struct hx_candidate *x = a, *y = b;
    return x->row < y->row ? -1 : x->row > y->row;
}

/* Strikes out the rows of one block that do not pass: their `there` becomes 0. `of` rises by row;
 * its keys are places in `there`. */
static hx_error *strike_rows(hx_blocks *blocks, const struct hx_block_index *index,
                             const struct hx_top *top, const struct hx_candidate *of, size_t n,
                             uint8_t *there)
{
    HX_FREE uint16_t *at = malloc(n * sizeof *at);
    HX_FREE uint64_t *value = malloc(n * sizeof *value);
    HX_NEED(at && value);
    HX_TRY(hx_blocks_interrupted(blocks));
    struct hx_passed_sets *sets = hx_tops_passed(blocks);
    const struct hx_passed *passed = sets ? hx_passed_find(sets, index, top) : NULL;
    for (size_t i = 0; passed && i < n; i++)
        there[of[i].key] = hx_passed_has(passed, of[i].row);
    if (passed)
        return NULL;
    for (size_t i = 0; i < n; i++)
        at[i] = (uint16_t)(of[i].row % HX_BLOCK_ROWS);
    for (size_t c = 0; c < top->conditions; c++) {
        const struct hx_condition *condition = &top->condition[c];
        HX_TRY(hx_blocks_pick(blocks, index, of->row / HX_BLOCK_ROWS, condition->derived,
                              condition->column, at, n, value));
        for (size_t i = 0; i < n; i++)
            there[of[i].key] &= value[i] >= condition->low && value[i] <= condition->high;
    }
    return NULL;
}

/* Of the first rows in the whole order those that pass: where there are enough of them, no other
 * comes before. The same of the last ones, where it is known how many pass. */
static hx_error *keep_passing(hx_blocks *blocks, const struct hx_block_index *index,
                              const struct hx_top *top, const struct kept *first, uint64_t count)
{
    const bool last = first->first != 0;
    HX_FREE struct hx_candidate *of = malloc(first->n * sizeof *of);
    HX_FREE uint64_t *row = malloc(first->n * sizeof *row);
    HX_FREE uint8_t *there = malloc(first->n);
    HX_NEED(of && row && there);
    const size_t rows = first->n;
    memcpy(row, first->row, rows * sizeof *row);
    memset(there, 1, rows);
    for (size_t i = 0; i < rows; i++)
        of[i] = (struct hx_candidate){i, row[i]};
    qsort(of, rows, sizeof *of, compare_rows);
    for (size_t i = 0, n; i < rows; i += n) {
        for (n = 1; i + n < rows && of[i + n].row / HX_BLOCK_ROWS == of[i].row / HX_BLOCK_ROWS;)
            n++;
        HX_TRY(strike_rows(blocks, index, top, of + i, n, there));
    }
    struct hx_top passing = *top;
    passing.offset = passing.limit = 0;
    for (size_t i = 0; i < rows; i++)
        if (there[i])
            row[passing.limit++] = row[i];
    const size_t n = (size_t)passing.limit;
    if (last ? n > count || count - n > top->offset : n < top->offset + top->limit)
        return NULL;
    passing.offset = last ? count - n : 0;
    passing.limit += last; /* one more than there are */
    HX_NEED(keep_top_rows(blocks, index->snapshot, &passing, row, n));
    (void)hx_steal(row);
    return NULL;
}

/* Finds which rows pass, where that can be kept: a few of them would cost as much, as they lie in
 * as many blocks, and who shows them asks how many there are, too. */
static hx_error *find_passing(hx_blocks *blocks, const struct hx_block_index *index,
                              const struct hx_top *top)
{
    struct hx_passed_sets *sets = hx_tops_passed(blocks);
    uint64_t count;
    if (!sets || !hx_passed_can(index, top) || hx_passed_find(sets, index, top))
        return NULL;
    HX_TRY(count_rows(blocks, index, top, &count));
    keep_count(blocks, index, top, count);
    return NULL;
}

/* One that holds the window, if need be after a look at what is stored; NULL: none. */
static hx_error *find_stored(hx_blocks *blocks, const struct hx_block_index *index,
                             const struct hx_top *top, struct kept **ret)
{
    enum { NEAR = 512 }; /* a pass over a column costs more than to look for so many */
    struct hx_top all = *top;
    uint64_t count = 0;
    *ret = find_kept(*hx_blocks_tops(blocks), index->snapshot, top);
    const bool last = top->conditions && top->offset > NEAR;
    if (!*ret && top->limit <= HX_ENDS && is_under_roots(top)) {
        HX_TRY(keep_ends(blocks, index, top));
        *ret = find_kept(*hx_blocks_tops(blocks), index->snapshot, top);
    }
    if (*ret || top->limit > HX_ENDS)
        return NULL;
    HX_TRY(find_passing(blocks, index, top));
    if (last && (!find_count(blocks, index, top, &count) || count - NEAR > top->offset))
        return NULL;
    all.conditions = 0;
    all.condition = NULL;
    HX_TRY(keep_ends(blocks, index, &all));
    if (top->conditions) {
        all.offset = last ? all.end - HX_ENDS : 0;
        all.limit = HX_ENDS;
        const struct kept *rows = find_kept(*hx_blocks_tops(blocks), index->snapshot, &all);
        if (rows && rows->first == all.offset)
            HX_TRY(keep_passing(blocks, index, top, rows, count));
    }
    *ret = find_kept(*hx_blocks_tops(blocks), index->snapshot, top);
    return NULL;
}

hx_error *hx_top_rows(hx_blocks *blocks, const struct hx_block_index *index,
                      const struct hx_top *top, uint64_t **ret, size_t *ret_n)
{
    if (top->limit > AHEAD || top->conditions > CONDITIONS_MAX || top->offset > UINT64_MAX / 2)
        return find_rows(blocks, index, top, ret, ret_n);
    struct kept *kept;
    HX_TRY(find_stored(blocks, index, top, &kept));
    if (!kept) {
        struct hx_top wide = widen_window(top);
        uint64_t *row;
        size_t n;
        HX_TRY(find_rows(blocks, index, &wide, &row, &n));
        kept = keep_top_rows(blocks, index->snapshot, &wide, row, n);
        if (!kept) {
            free(row);
            return hx_error_nomem();
        }
    }
    uint64_t skip = top->offset - kept->first;
    size_t n = skip < kept->n ? kept->n - (size_t)skip : 0;
    n = n < top->limit ? n : (size_t)top->limit;
    uint64_t *row = malloc((n + 1) * sizeof *row);
    HX_NEED(row);
    if (n)
        memcpy(row, kept->row + skip, n * sizeof *row);
    *ret = row;
    *ret_n = n;
    return NULL;
}

/* --- the place of a row ------------------------------------------------------------- */

static hx_error *value_at(hx_blocks *blocks, const struct hx_block_index *index,
                          enum hx_derived derived, int column, uint64_t row, uint64_t *ret)
{
    uint16_t at = (uint16_t)(row % HX_BLOCK_ROWS);
    return hx_blocks_pick(blocks, index, row / HX_BLOCK_ROWS, derived, column, &at, 1, ret);
}

struct placing {
    struct hx_candidate of;
    uint64_t before;
};

HX_HOT static hx_error *count_before(const struct hx_part *part, void *context)
{
    struct placing *placing = context;
    const struct hx_top *top = part->top;
    uint64_t before = 0, low, high, of = placing->of.key;
    size_t here = placing->of.row <= part->row + part->from ? part->from
                  : placing->of.row < part->row + part->end ? (size_t)(placing->of.row - part->row)
                                                            : part->end;
    if (part->all &&
        values_of(top, 0, of, &low, &high)) { /* equal ones only before the row itself */
        placing->before += hx_scan_count(part->column, low, high, part->from, here);
        if (of && values_of(top, 0, of - 1, &low, &high))
            placing->before += hx_scan_count(part->column, low, high, here, part->end);
        return NULL;
    }
    for (size_t nth = 0, n = hx_part_passing(part); nth < n; nth++) {
        const size_t i = hx_part_row(part, nth);
        uint64_t key = sort_key(top, hx_decoded_at(part->column, i));
        before += key < of || (key == of && i < here);
    }
    placing->before += before;
    return NULL;
}

/* Looks for the row among those that are kept; `near`: among the first ones, kept or not. */
static hx_error *place_near(hx_blocks *blocks, const struct hx_block_index *index,
                            const struct hx_top *top, uint64_t row, bool near, bool *ret_there,
                            uint64_t *ret)
{
    struct kept *kept;
    struct hx_top first = *top;
    first.offset = 0;
    first.limit = AHEAD;
    *ret_there = false;
    HX_TRY(find_stored(blocks, index, &first, &kept));
    if (!kept && near) {
        HX_FREE uint64_t *rows = NULL;
        size_t n;
        HX_TRY(hx_top_rows(blocks, index, &first, &rows, &n));
    }
    const struct hx_kept_tops *tops = *hx_blocks_tops(blocks);
    for (size_t i = 0; tops && i < KEPT && !*ret_there; i++) {
        kept = (struct kept *)&tops->kept[i];
        if (!is_top_of(kept, index->snapshot, top))
            continue;
        for (size_t k = 0; k < kept->n && !*ret_there; k++) {
            *ret = kept->first + k;
            *ret_there = kept->row[k] == row && (!near || *ret < AHEAD);
        }
    }
    return NULL;
}

hx_error *hx_top_place(hx_blocks *blocks, const struct hx_block_index *index,
                       const struct hx_top *top, uint64_t row, bool near, bool *ret_there,
                       uint64_t *ret)
{
    uint64_t value;
    *ret_there = row >= top->from && row < top->end;
    if (*ret_there && (near || top->derived != HX_ADDRESS)) {
        bool found;
        HX_TRY(place_near(blocks, index, top, row, near, &found, ret));
        *ret_there = found || !near;
        if (found || near)
            return NULL;
    }
    for (size_t c = 0; *ret_there && c < top->conditions; c++) {
        const struct hx_condition *condition = &top->condition[c];
        HX_TRY(value_at(blocks, index, condition->derived, condition->column, row, &value));
        *ret_there = value >= condition->low && value <= condition->high;
    }
    if (!*ret_there)
        return NULL;
    if (top->derived == HX_ADDRESS) {
        struct hx_top before = *top;
        before.from = top->largest ? row + 1 : top->from;
        before.end = top->largest ? top->end : row;
        return hx_top_count(blocks, index, &before, ret);
    }
    HX_TRY(value_at(blocks, index, top->derived, top->column, row, &value));
    struct placing placing = {.of = {sort_key(top, value), row}};
    HX_TRY(hx_pass_over(blocks, index, top, HX_WANTS_VALUES, count_before, &placing));
    *ret = placing.before;
    return NULL;
}
