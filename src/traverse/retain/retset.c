/* retset.c - interning sets of retainers. */
#include "traverse/retain/retset.h"

#include "base/lower_bound.h"
#include "base/vec.h"

#include <stdlib.h>
#include <string.h>

/* Unions that were made before are found here first; a power of two. */
enum { MEMO_SLOTS = 1 << 15, LIST_SLOTS = 1 << 12, LIST_MAX = 6 };

#define SETS_MAX ((hx_set)1 << 31)

struct record {
    size_t start; /* of the elements */
    uint32_t n : 31, kept : 1;
    hx_set next; /* in the chain of its bucket; HX_SET_NONE ends it */
    uint64_t key;
};

struct memo {
    hx_set a, b, both; /* a < b */
};

/* Few sets in the order in which they were given: large structures share what they lead to, so
 * that the same come together again and again. */
struct list_memo {
    hx_set set[LIST_MAX], all; /* 0 behind the last */
};

/* Invariants: record[0] and record[1] stand for NONE and MANY; the elements of a record of no more
 * than the limit lie at element[start .. start + n), rising; buckets is a power of two, and every
 * record but the first two is in the chain bucket[key & (buckets - 1)]. kept_bytes is the sum of
 * set_bytes(i) * of_size[i], and at most `room` where the limit is above 1. */
struct hx_sets {
    unsigned max_elements; /* by now; 0: no limit */
    bool automatic;
    uint64_t room, kept_bytes;
    HX_VEC(uint32_t) of_size; /* sets that count, by their size */
    HX_VEC(uint32_t) mark;    /* by retainer: the last union that had it */
    uint32_t marks;
    bool failed, full; /* full: for want of budget, not of memory */
    size_t budget;
    HX_VEC(struct record) record;
    HX_VEC(hx_retainer) element;
    HX_VEC(hx_retainer) work; /* the set that is being looked for */
    hx_set *bucket;
    size_t buckets;
    struct memo *memo;
    struct list_memo *list_memo;
};

/* Spreads a retainer's number, so that sums of them differ where the sets do. The constants are
 * those of SplitMix64 (G. Steele et al., "Fast splittable pseudorandom number generators"). */
static uint64_t retainer_hash(hx_retainer retainer)
{
    uint64_t x = (retainer + UINT64_C(1)) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static hx_error *init_sets(hx_sets *sets)
{
    sets->bucket = calloc(sets->buckets, sizeof *sets->bucket);
    sets->memo = calloc(MEMO_SLOTS, sizeof *sets->memo);
    sets->list_memo = calloc(LIST_SLOTS, sizeof *sets->list_memo);
    HX_NEED(sets->bucket && sets->memo && sets->list_memo);
    return NULL;
}

static hx_error *created(hx_sets *sets, hx_error *err, hx_sets **ret)
{
    if (err)
        hx_sets_destroy(sets);
    else
        *ret = sets;
    return err;
}

hx_error *hx_sets_create(unsigned max_elements, hx_sets **ret)
{
    hx_sets *sets = calloc(1, sizeof *sets);
    HX_NEED(sets);
    sets->automatic = max_elements == HX_SETS_AUTO;
    sets->max_elements = sets->automatic ? 0 : max_elements;
    sets->room = HX_SETS_ROOM;
    sets->budget = sets->automatic ? HX_SETS_BUDGET / 4 : HX_SETS_BUDGET;
    sets->buckets = 1024;
    hx_error *err = init_sets(sets);
    if (!err && (!hx_vec_push(&sets->record, (struct record){0}) ||
                 !hx_vec_push(&sets->record, (struct record){0})))
        err = hx_error_nomem();
    return created(sets, err, ret);
}

static hx_error *copy_sets(const hx_sets *sets, hx_sets *copy)
{
    HX_TRY(init_sets(copy));
    HX_NEED(hx_vec_reserve(&copy->record, sets->record.n) &&
            hx_vec_reserve(&copy->element, sets->element.n + 1));
    memcpy(copy->bucket, sets->bucket, sets->buckets * sizeof *sets->bucket);
    memcpy(copy->record.v, sets->record.v, sets->record.n * sizeof *sets->record.v);
    if (sets->element.n)
        memcpy(copy->element.v, sets->element.v, sets->element.n * sizeof *sets->element.v);
    copy->record.n = sets->record.n;
    copy->element.n = sets->element.n;
    return NULL;
}

hx_error *hx_sets_copy(const hx_sets *sets, size_t elements, hx_sets **ret)
{
    hx_sets *copy = calloc(1, sizeof *copy);
    HX_NEED(copy);
    copy->max_elements = sets->max_elements;
    copy->budget = sets->element.n + elements;
    copy->buckets = sets->buckets;
    return created(copy, copy_sets(sets, copy), ret);
}

void hx_sets_destroy(hx_sets *sets)
{
    if (!sets)
        return;
    hx_vec_free(&sets->record);
    hx_vec_free(&sets->element);
    hx_vec_free(&sets->work);
    hx_vec_free(&sets->of_size);
    hx_vec_free(&sets->mark);
    free(sets->bucket);
    free(sets->memo);
    free(sets->list_memo);
    free(sets);
}

hx_set hx_sets_count(const hx_sets *sets)
{
    return (hx_set)sets->record.n;
}

unsigned hx_sets_limit(const hx_sets *sets)
{
    return sets->max_elements;
}

bool hx_sets_failed(const hx_sets *sets)
{
    return sets->failed;
}

hx_error *hx_sets_error(const hx_sets *sets)
{
    if (!sets->failed)
        return NULL;
    HX_NEED(sets->full);
    return hx_error_new(HX_E_LIMIT, "sets", "name fewer roots, or give --max-set N",
                        "they have more than %zu names in all", sets->budget);
}

void hx_sets_allow(hx_sets *sets, size_t elements)
{
    sets->budget = elements;
}

static bool is_above_limit(const hx_sets *sets, size_t n)
{
    return sets->max_elements && n > sets->max_elements;
}

hx_set hx_sets_now(const hx_sets *sets, hx_set set)
{
    return is_above_limit(sets, sets->record.v[set].n) ? HX_SET_MANY : set;
}

size_t hx_sets_elements(const hx_sets *sets, hx_set set, const hx_retainer **ret)
{
    const struct record *record = &sets->record.v[hx_sets_now(sets, set)];
    *ret = record->n ? sets->element.v + record->start : NULL;
    return record->n;
}

bool hx_sets_member(const hx_sets *sets, hx_set set, hx_retainer retainer)
{
    const hx_retainer *element;
    size_t n = hx_sets_elements(sets, set, &element);
    if (hx_sets_now(sets, set) == HX_SET_MANY)
        return true;
    size_t at = HX_LOWER_BOUND(n, i, element[i] < retainer);
    return at < n && element[at] == retainer;
}

/* --- a limit that is found ------------------------------------------------------------ */

void hx_sets_make_room(hx_sets *sets, uint64_t bytes)
{
    sets->room = bytes;
}

void hx_sets_at_most(hx_sets *sets, unsigned limit)
{
    if (sets->automatic)
        sets->max_elements = limit;
}

static uint64_t set_bytes(size_t n)
{
    return HX_SET_BYTES + (uint64_t)n * HX_ELEMENT_BYTES;
}

/* Larger sets do not count any more. */
static void lower_limit(hx_sets *sets, unsigned limit)
{
    sets->max_elements = limit;
    while (sets->of_size.n > (size_t)limit + 1) {
        size_t n = --sets->of_size.n;
        sets->kept_bytes -= sets->of_size.v[n] * set_bytes(n);
    }
}

void hx_sets_keep(hx_sets *sets, hx_set set)
{
    struct record *record = &sets->record.v[hx_sets_now(sets, set)];
    if (!sets->automatic || !record->n || record->kept)
        return;
    while (sets->of_size.n <= record->n)
        if (!hx_vec_push(&sets->of_size, 0)) {
            sets->failed = true;
            return;
        }
    record->kept = 1;
    sets->of_size.v[record->n]++;
    sets->kept_bytes += set_bytes(record->n);
    while (sets->kept_bytes > sets->room && sets->of_size.n > 2) {
        size_t largest = sets->of_size.n - 1;
        if (sets->of_size.v[largest])
            lower_limit(sets, (unsigned)largest - 1);
        else
            sets->of_size.n--;
    }
    if (sets->kept_bytes > sets->room)
        lower_limit(sets, 1);
}

static bool has_budget(const hx_sets *sets, size_t n)
{
    return sets->element.n <= sets->budget && n <= sets->budget - sets->element.n;
}

/* Forgets the elements of sets that are MANY by now. */
static void forget_elements(hx_sets *sets)
{
    size_t at = 0;
    for (size_t i = 2; i < sets->record.n; i++) { /* they lie in the order of the records */
        struct record *record = &sets->record.v[i];
        if (is_above_limit(sets, record->n))
            continue;
        memmove(sets->element.v + at, sets->element.v + record->start,
                record->n * sizeof *sets->element.v);
        record->start = at;
        at += record->n;
    }
    sets->element.n = at;
}

/* Half of the budget is free after this, or the limit is 1. What is in between counts here: so this
 * is for graphs that are made to hurt. */
static void free_elements(hx_sets *sets)
{
    forget_elements(sets);
    while (sets->element.n > sets->budget / 2 && sets->max_elements != 1) {
        unsigned largest = 0;
        for (size_t i = 2; i < sets->record.n; i++)
            if (!is_above_limit(sets, sets->record.v[i].n) && sets->record.v[i].n > largest)
                largest = sets->record.v[i].n;
        lower_limit(sets, largest > 2 ? largest / 2 : 1);
        forget_elements(sets);
    }
}

/* --- sets --------------------------------------------------------------------------------- */

/* Twice the buckets; without the memory for it, chains only grow longer. */
static void grow_buckets(hx_sets *sets)
{
    size_t buckets = sets->buckets * 2;
    hx_set *bucket = calloc(buckets, sizeof *bucket);
    if (!bucket)
        return;
    for (size_t i = 2; i < sets->record.n; i++) {
        struct record *record = &sets->record.v[i];
        record->next = bucket[record->key & (buckets - 1)];
        bucket[record->key & (buckets - 1)] = (hx_set)i;
    }
    free(sets->bucket);
    sets->bucket = bucket;
    sets->buckets = buckets;
}

/* The set whose elements are in `work`. */
static hx_set intern_set(hx_sets *sets, uint64_t key)
{
    const size_t n = sets->work.n;
    if (sets->automatic && !has_budget(sets, n)) {
        free_elements(sets);
        if (!has_budget(sets, n) && n > 1 && !is_above_limit(sets, n))
            lower_limit(sets, (unsigned)n - 1);
    }
    if (is_above_limit(sets, n))
        return HX_SET_MANY;
    hx_set *head = &sets->bucket[key & (sets->buckets - 1)];
    for (hx_set i = *head; i != HX_SET_NONE; i = sets->record.v[i].next) {
        const struct record *record = &sets->record.v[i];
        if (record->key == key && record->n == n &&
            memcmp(sets->element.v + record->start, sets->work.v, n * sizeof *sets->work.v) == 0)
            return i;
    }
    struct record record = {.start = sets->element.n, .n = (uint32_t)n, .next = *head, .key = key};
    hx_set fresh = (hx_set)sets->record.n;
    sets->full |= !has_budget(sets, n);
    if (sets->full || fresh == SETS_MAX || !hx_vec_reserve(&sets->element, sets->element.n + n) ||
        !hx_vec_push(&sets->record, record)) {
        sets->failed = true;
        return HX_SET_NONE;
    }
    memcpy(sets->element.v + sets->element.n, sets->work.v, n * sizeof *sets->work.v);
    sets->element.n += n;
    *head = fresh;
    if (sets->record.n > sets->buckets)
        grow_buckets(sets);
    return fresh;
}

static bool begin_sets(hx_sets *sets, size_t most)
{
    sets->work.n = 0;
    if (!hx_vec_reserve(&sets->work, most))
        sets->failed = true;
    return !sets->failed;
}

hx_set hx_sets_singleton(hx_sets *sets, hx_retainer retainer)
{
    return hx_sets_add(sets, HX_SET_NONE, retainer);
}

hx_set hx_sets_add(hx_sets *sets, hx_set set, hx_retainer retainer)
{
    if (hx_sets_member(sets, set, retainer))
        return set;
    const hx_retainer *element;
    size_t n = hx_sets_elements(sets, set, &element), i = 0;
    if (!begin_sets(sets, n + 1))
        return HX_SET_NONE;
    hx_retainer *work = sets->work.v;
    for (; i < n && element[i] < retainer; i++)
        work[i] = element[i];
    work[i] = retainer;
    for (; i < n; i++)
        work[i + 1] = element[i];
    sets->work.n = n + 1;
    return intern_set(sets, sets->record.v[set].key + retainer_hash(retainer));
}

/* Merges two rising lists into `work`; gives up past the limit. */
static uint64_t merge_sets(hx_sets *sets, hx_set a, hx_set b)
{
    const hx_retainer *x, *y;
    size_t n_x = hx_sets_elements(sets, a, &x), n_y = hx_sets_elements(sets, b, &y), i = 0, k = 0;
    size_t limit = sets->max_elements ? sets->max_elements : SIZE_MAX;
    uint64_t key = sets->record.v[a].key;
    hx_retainer *work = sets->work.v;
    size_t n = 0;
    while ((i < n_x || k < n_y) && n <= limit) {
        if (k == n_y || (i < n_x && x[i] < y[k])) {
            work[n++] = x[i++];
        } else if (i < n_x && x[i] == y[k]) {
            work[n++] = x[i++];
            k++;
        } else {
            key += retainer_hash(y[k]);
            work[n++] = y[k++];
        }
    }
    sets->work.n = n;
    return key;
}

hx_set hx_sets_union(hx_sets *sets, hx_set a, hx_set b)
{
    if (a == b || b == HX_SET_NONE)
        return a;
    if (a == HX_SET_NONE)
        return b;
    if (hx_sets_now(sets, a) == HX_SET_MANY || hx_sets_now(sets, b) == HX_SET_MANY)
        return HX_SET_MANY;
    if (a > b) {
        hx_set swap = a;
        a = b;
        b = swap;
    }
    uint64_t pair = (uint64_t)a << 32 | b;
    struct memo *memo = &sets->memo[pair * UINT64_C(0x9e3779b97f4a7c15) >> 49];
    if (memo->a == a && memo->b == b)
        return memo->both;
    if (!begin_sets(sets, (size_t)sets->record.v[a].n + sets->record.v[b].n + 1))
        return HX_SET_NONE;
    uint64_t key = merge_sets(sets, a, b);
    hx_set both = intern_set(sets, key);
    if (!sets->failed)
        *memo = (struct memo){a, b, both};
    return both;
}

static int compare_retainers(const void *a, const void *b)
{
    hx_retainer x = *(const hx_retainer *)a, y = *(const hx_retainer *)b;
    return (x > y) - (x < y);
}

/* Is it the first time since mark_none() that this retainer comes? */
static bool mark_retainer(hx_sets *sets, hx_retainer retainer)
{
    bool first = sets->mark.v[retainer] != sets->marks;
    sets->mark.v[retainer] = sets->marks;
    return first;
}

/* Prepares for marks of retainers up to `last`. */
static bool mark_none(hx_sets *sets, hx_retainer last)
{
    size_t n = sets->mark.n;
    if (n <= last && !hx_vec_reserve(&sets->mark, (size_t)last + 1))
        return false;
    if (n <= last) {
        memset(sets->mark.v + n, 0, ((size_t)last + 1 - n) * sizeof *sets->mark.v);
        sets->mark.n = (size_t)last + 1;
    }
    if (++sets->marks == 0) {
        memset(sets->mark.v, 0, sets->mark.n * sizeof *sets->mark.v);
        sets->marks = 1;
    }
    return true;
}

/* Adds to `work` what the sets have and the marks have not; gives up past the limit. */
static bool gather_others(hx_sets *sets, const hx_set *set, size_t n, size_t n_largest,
                          uint64_t *key)
{
    const hx_retainer *element;
    for (size_t i = 0; i < n; i++) {
        size_t some = hx_sets_elements(sets, set[i], &element);
        for (size_t k = 0; k < some; k++) {
            if (!mark_retainer(sets, element[k]))
                continue;
            if (!hx_vec_push(&sets->work, element[k]))
                return false;
            *key += retainer_hash(element[k]);
            if (is_above_limit(sets, n_largest + sets->work.n))
                return true;
        }
    }
    return true;
}

/* Puts the rising elements among those in `work`, which are others and rise, too. */
static bool merge_others(hx_sets *sets, hx_set largest)
{
    const hx_retainer *element;
    size_t n = hx_sets_elements(sets, largest, &element), others = sets->work.n;
    if (!hx_vec_reserve(&sets->work, n + others))
        return false;
    hx_retainer *work = sets->work.v;
    sets->work.n = n + others;
    for (size_t at = n + others; n; at--) {
        bool other = others && work[others - 1] > element[n - 1];
        work[at - 1] = other ? work[--others] : element[--n];
    }
    return true;
}

/* What the largest one lacks is put beside it: mostly that is little or nothing. */
static hx_set unite_all(hx_sets *sets, const hx_set *set, size_t n)
{
    const hx_retainer *element;
    hx_set largest = HX_SET_NONE;
    size_t most = 0;
    hx_retainer last = 0;
    for (size_t i = 0; i < n; i++) {
        if (hx_sets_now(sets, set[i]) == HX_SET_MANY)
            return HX_SET_MANY;
        size_t some = hx_sets_elements(sets, set[i], &element);
        if (some > most) {
            most = some;
            largest = set[i];
        }
        if (some && element[some - 1] > last)
            last = element[some - 1];
    }
    if (most == 0 || !begin_sets(sets, 0))
        return HX_SET_NONE;
    uint64_t key = sets->record.v[largest].key;
    bool fine = mark_none(sets, last);
    most = hx_sets_elements(sets, largest, &element);
    for (size_t i = 0; fine && i < most; i++)
        mark_retainer(sets, element[i]);
    fine = fine && gather_others(sets, set, n, most, &key);
    if (fine && sets->work.n == 0)
        return largest;
    if (fine && is_above_limit(sets, most + sets->work.n))
        return HX_SET_MANY;
    if (fine)
        qsort(sets->work.v, sets->work.n, sizeof *sets->work.v, compare_retainers);
    if (!fine || !merge_others(sets, largest)) {
        sets->failed = true;
        return HX_SET_NONE;
    }
    return intern_set(sets, key);
}

static struct list_memo *list_memo_of(const hx_sets *sets, const hx_set *set, size_t n)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < n; i++)
        hash = (hash + set[i]) * UINT64_C(0x9e3779b97f4a7c15);
    return &sets->list_memo[hash >> 52];
}

hx_set hx_sets_union_all(hx_sets *sets, const hx_set *set, size_t n)
{
    if (n == 0 || n > LIST_MAX)
        return unite_all(sets, set, n);
    struct list_memo *memo = list_memo_of(sets, set, n), list = {0};
    memcpy(list.set, set, n * sizeof *set);
    if (memcmp(memo->set, list.set, sizeof list.set) == 0)
        return memo->all;
    list.all = unite_all(sets, set, n);
    if (!sets->failed)
        *memo = list;
    return list.all;
}
