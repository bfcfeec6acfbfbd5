/* set_union.c - lists of sets that are yet to be united. */
#include "traverse/retain/set_union.h"

#include <stdlib.h>

#define KEPT 16 /* longer lists give their memory back */

/* Sets on the way to a larger one cost memory, and few of them are wanted again; below a limit of
 * few elements they are soon MANY. */
enum { SMALL = 4, SMALL_UNDER_LIMIT = 16 };

void hx_set_unions_init(struct hx_set_unions *unions, hx_sets *sets)
{
    unsigned limit = hx_sets_limit(sets);
    *unions = (struct hx_set_unions){
        .sets = sets, .small = limit && limit <= SMALL_UNDER_LIMIT / 2 ? SMALL_UNDER_LIMIT : SMALL};
}

/* Are both sets so small that they are united at once? */
static bool are_small(const struct hx_set_unions *unions, hx_set a, hx_set b)
{
    const hx_retainer *element;
    if ((a | b) & HX_SET_UNION_DEFERRED)
        return false;
    return hx_sets_elements(unions->sets, a, &element) +
               hx_sets_elements(unions->sets, b, &element) <=
           unions->small;
}

static hx_operands *list_of(struct hx_set_unions *unions, hx_set into)
{
    return &unions->lists.v[into & ~HX_SET_UNION_DEFERRED];
}

/* Makes the union a list that holds its set. */
static bool defer_union(struct hx_set_unions *unions, hx_set *into)
{
    uint32_t number = (uint32_t)unions->lists.n;
    if (unions->unused.n)
        number = unions->unused.v[--unions->unused.n];
    else if (number == HX_SET_UNION_DEFERRED || !hx_vec_push(&unions->lists, (hx_operands){0}))
        return false;
    hx_operands *list = &unions->lists.v[number];
    if (!hx_vec_push(list, *into))
        return false; /* the list stays unused, as all has failed */
    *into = HX_SET_UNION_DEFERRED | number;
    return true;
}

static int compare_sets(const void *a, const void *b)
{
    hx_set x = *(const hx_set *)a, y = *(const hx_set *)b;
    return (x > y) - (x < y);
}

static void sort_unique(hx_operands *list)
{
    size_t n = 0;
    if (list->n)
        qsort(list->v, list->n, sizeof *list->v, compare_sets);
    for (size_t i = 0; i < list->n; i++)
        if (n == 0 || list->v[n - 1] != list->v[i])
            list->v[n++] = list->v[i];
    list->n = n;
}

/* A full list first loses its duplicates; it grows when these were less than half. */
static bool push_operand(hx_operands *list, hx_set set)
{
    if (list->n && list->v[list->n - 1] == set)
        return true;
    if (list->n == list->cap) {
        sort_unique(list);
        if (list->n > list->cap / 2 &&
            !hx_vec_reserve_raw((void **)&list->v, &list->cap, 2 * list->cap, sizeof *list->v))
            return false;
    }
    list->v[list->n++] = set;
    return true;
}

/* Neither is the empty set, and they are not the same. */
void hx_set_union_add_other(struct hx_set_unions *unions, hx_set *into, hx_set set)
{
    hx_set now = *into;
    if (!(now & HX_SET_UNION_DEFERRED)) {
        if (set == HX_SET_MANY || are_small(unions, now, set)) {
            *into = hx_sets_union(unions->sets, now, set);
            return;
        }
        if (!defer_union(unions, into)) {
            unions->failed = true;
            return;
        }
    }
    unions->failed |= !push_operand(list_of(unions, *into), set);
}

hx_set hx_set_union_resolve(struct hx_set_unions *unions, hx_set *into)
{
    uint32_t number = *into & ~HX_SET_UNION_DEFERRED;
    hx_operands *list = list_of(unions, *into);
    sort_unique(list);
    *into = list->n == 2 ? hx_sets_union(unions->sets, list->v[0], list->v[1])
                         : hx_sets_union_all(unions->sets, list->v, list->n);
    if (list->cap > KEPT) {
        free(list->v);
        *list = (hx_operands){0};
    }
    list->n = 0;
    unions->failed |= !hx_vec_push(&unions->unused, number);
    return *into;
}

void hx_set_unions_deinit(struct hx_set_unions *unions)
{
    for (size_t i = 0; i < unions->lists.n; i++)
        hx_vec_free(&unions->lists.v[i]);
    hx_vec_free(&unions->lists);
    hx_vec_free(&unions->unused);
    *unions = (struct hx_set_unions){0};
}
