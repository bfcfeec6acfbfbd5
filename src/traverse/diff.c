/* diff.c - which objects of one snapshot are in another one: a merge by address.
 *
 * Types and sites are numbered by each snapshot for itself. Their names are put into one
 * order first and get numbers that mean the same on both sides, so that the merge compares
 * numbers. */
#include "traverse/diff.h"

#include "base/cleanup.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK = 65536 }; /* objects between two looks at whether to stop */

#define UNKNOWN UINT32_MAX

const char *hx_diff_name(enum hx_diff diff)
{
    static const char *const names[] = {"gone", "appeared", "same"};
    return (size_t)diff < sizeof names / sizeof *names ? names[diff] : "?";
}

/* --- names ------------------------------------------------------------------------- */

struct name {
    const char *name;
    uint64_t identity; /* the same in every store; 0: the name says it all */
    uint32_t *number;  /* where its common number goes */
};

/* A column of numbers of a snapshot's own, and the common number of each. */
struct numbers {
    uint32_t *common;
    size_t n;
};

static inline uint32_t common_number(const struct numbers *numbers, uint32_t own)
{
    return own < numbers->n ? numbers->common[own] : UNKNOWN;
}

static int compare_type_names(const void *a, const void *b)
{
    const struct name *x = a, *y = b;
    if (x->identity != y->identity)
        return x->identity < y->identity ? -1 : 1;
    return x->identity ? 0 : strcmp(x->name, y->name);
}

/* Gives the names of both sides their common numbers: equal ones the same. */
static void number_names(struct name *order, size_t n)
{
    if (n)
        qsort(order, n, sizeof *order, compare_type_names);
    uint32_t number = 0;
    for (size_t i = 0; i < n; i++) {
        number += i && compare_type_names(&order[i - 1], &order[i]) != 0;
        *order[i].number = number;
    }
}

enum { BEFORE, NOW, SIDES };

/* What the merge compares besides address and size; columns are NULL where a side knows none. */
struct identity {
    const uint32_t *own[SIDES];
    struct numbers numbers[SIDES];
};

static void deinit_identity(struct identity *identity)
{
    free(identity->numbers[BEFORE].common);
    free(identity->numbers[NOW].common);
}
#define IDENTITY HX_CLEANUP(deinit_identity)

/* Both know it, and it is not the same. */
static inline bool differs(const struct identity *identity, hx_obj before, hx_obj now)
{
    if (!identity->own[BEFORE] || !identity->own[NOW])
        return false;
    uint32_t a = common_number(&identity->numbers[BEFORE], identity->own[BEFORE][before]);
    uint32_t b = common_number(&identity->numbers[NOW], identity->own[NOW][now]);
    return a != b && a != UNKNOWN && b != UNKNOWN;
}

typedef void name_fn(const struct hx_snapshot *snapshot, size_t i, struct name *ret);

static void snapshot_type_name(const struct hx_snapshot *snapshot, size_t i, struct name *ret)
{
    ret->name = snapshot->types.v[i].name;
}

static void site_name(const struct hx_snapshot *snapshot, size_t i, struct name *ret)
{
    ret->name = snapshot->sites.v[i].label;
    ret->identity = snapshot->sites.v[i].identity;
}

static hx_error *make_identity(const struct hx_snapshot *const side[SIDES],
                               const size_t count[SIDES], name_fn *name, struct identity *identity)
{
    if (!identity->own[BEFORE] || !identity->own[NOW])
        return NULL;
    HX_FREE struct name *order = calloc(count[BEFORE] + count[NOW] + 1, sizeof *order);
    HX_NEED(order);
    size_t n = 0;
    for (int s = 0; s < SIDES; s++) {
        struct numbers *numbers = &identity->numbers[s];
        numbers->common = malloc((count[s] + 1) * sizeof *numbers->common);
        HX_NEED(numbers->common);
        numbers->n = count[s];
        for (size_t i = 0; i < count[s]; i++, n++) {
            order[n].number = &numbers->common[i];
            name(side[s], i, &order[n]);
        }
    }
    number_names(order, n);
    return NULL;
}

/* What was not seen allocated may be the same as what was: but not when it was there before a
 * recorder came that has seen the other one. */
static void forget_unseen(const struct hx_snapshot *snapshot, int side, struct identity *site)
{
    struct numbers *numbers = &site->numbers[side];
    for (size_t i = 0; i < numbers->n; i++) {
        uint32_t stack = snapshot->sites.v[i].stack;
        if (stack == HX_SITE_UNKNOWN || (stack == HX_SITE_BEFORE && side == NOW))
            numbers->common[i] = UNKNOWN;
    }
}

/* --- the merge --------------------------------------------------------------------- */

hx_error *hx_diff_objects(const struct hx_snapshot *before, const struct hx_snapshot *now,
                          const struct hx_progress *progress, struct hx_big *ret_bits)
{
    const struct hx_snapshot *const side[SIDES] = {before, now};
    const struct hx_graph *a = &before->graph, *b = &now->graph;
    IDENTITY struct identity type = {.own = {a->type, b->type}};
    IDENTITY struct identity site = {.own = {a->site, b->site}};
    HX_TRY(
        make_identity(side, (size_t[]){before->types.n, now->types.n}, snapshot_type_name, &type));
    HX_TRY(make_identity(side, (size_t[]){before->sites.n, now->sites.n}, site_name, &site));
    forget_unseen(before, BEFORE, &site);
    forget_unseen(now, NOW, &site);
    struct hx_big bits = {0};
    HX_TRY(hx_big_reserve(&bits, ((size_t)b->n + 63) / 64 * sizeof(uint64_t)));
    uint64_t *word = bits.base;
    size_t i = 0;
    for (size_t j = 0; j < b->n; j++) {
        if (j % BLOCK == 0) {
            hx_progress_at(progress, "compare", j, b->n);
            if (hx_progress_cancelled(progress)) {
                hx_big_free(&bits);
                return hx_error_cancelled("comparison");
            }
        }
        while (i < a->n && a->addr[i] < b->addr[j])
            i++;
        if (i == a->n || a->addr[i] != b->addr[j])
            continue;
        if (a->size[i] == b->size[j] && !differs(&type, (hx_obj)i, (hx_obj)j) &&
            !differs(&site, (hx_obj)i, (hx_obj)j))
            hx_bit_set(word, j);
        i++;
    }
    *ret_bits = bits;
    return NULL;
}
