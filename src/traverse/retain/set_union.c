/* set_union.c - sets that wait to be united. */
#include "traverse/retain/set_union.h"

#include <stdlib.h>

#define KEPT 16 /* larger piles give their memory back */

/* Sets on the way to a larger one cost memory, and few of them are wanted again; below a limit of
 * few elements they are soon MANY. */
enum { SMALL = 4, SMALL_UNDER_LIMIT = 16 };

void hx_gather_init(struct hx_gather *gather, hx_sets *sets)
{
    unsigned limit = hx_sets_limit(sets);
    *gather = (struct hx_gather){
        .sets = sets, .small = limit && limit <= SMALL_UNDER_LIMIT / 2 ? SMALL_UNDER_LIMIT : SMALL};
}

bool hx_gather_are_small(const struct hx_gather *gather, hx_set a, hx_set b)
{
    const hx_retainer *element;
    if ((a | b) & HX_GATHER_PILE)
        return false;
    return hx_sets_elements(gather->sets, a, &element) +
               hx_sets_elements(gather->sets, b, &element) <=
           gather->small;
}

static hx_pile *pile_at(struct hx_gather *gather, hx_set place)
{
    return &gather->piles.v[place & ~HX_GATHER_PILE];
}

/* The place becomes a pile that holds its set. */
static bool make_pile(struct hx_gather *gather, hx_set *place)
{
    uint32_t number = (uint32_t)gather->piles.n;
    if (gather->empty.n)
        number = gather->empty.v[--gather->empty.n];
    else if (number == HX_GATHER_PILE || !hx_vec_push(&gather->piles, (hx_pile){0}))
        return false;
    hx_pile *pile = &gather->piles.v[number];
    if (!hx_vec_push(pile, *place))
        return false; /* the pile stays unused, as all has failed */
    *place = HX_GATHER_PILE | number;
    return true;
}

static int compare_sets(const void *a, const void *b)
{
    hx_set x = *(const hx_set *)a, y = *(const hx_set *)b;
    return (x > y) - (x < y);
}

static void sort_out(hx_pile *pile)
{
    size_t n = 0;
    if (pile->n)
        qsort(pile->v, pile->n, sizeof *pile->v, compare_sets);
    for (size_t i = 0; i < pile->n; i++)
        if (n == 0 || pile->v[n - 1] != pile->v[i])
            pile->v[n++] = pile->v[i];
    pile->n = n;
}

/* Before a pile grows, what is there twice goes; it grows when that is less than half. */
static bool add_to_pile(hx_pile *pile, hx_set set)
{
    if (pile->n && pile->v[pile->n - 1] == set)
        return true;
    if (pile->n == pile->cap) {
        sort_out(pile);
        if (pile->n > pile->cap / 2 &&
            !hx_vec_reserve_raw((void **)&pile->v, &pile->cap, 2 * pile->cap, sizeof *pile->v))
            return false;
    }
    pile->v[pile->n++] = set;
    return true;
}

/* Neither is the empty set, and they are not the same. */
void hx_gather_meet(struct hx_gather *gather, hx_set *place, hx_set set)
{
    hx_set now = *place;
    if (!(now & HX_GATHER_PILE)) {
        if (set == HX_SET_MANY || hx_gather_are_small(gather, now, set)) {
            *place = hx_sets_union(gather->sets, now, set);
            return;
        }
        if (!make_pile(gather, place)) {
            gather->failed = true;
            return;
        }
    }
    gather->failed |= !add_to_pile(pile_at(gather, *place), set);
}

hx_set hx_gather_unite(struct hx_gather *gather, hx_set *place)
{
    uint32_t number = *place & ~HX_GATHER_PILE;
    hx_pile *pile = pile_at(gather, *place);
    sort_out(pile);
    *place = pile->n == 2 ? hx_sets_union(gather->sets, pile->v[0], pile->v[1])
                          : hx_sets_union_all(gather->sets, pile->v, pile->n);
    if (pile->cap > KEPT) {
        free(pile->v);
        *pile = (hx_pile){0};
    }
    pile->n = 0;
    gather->failed |= !hx_vec_push(&gather->empty, number);
    return *place;
}

void hx_gather_deinit(struct hx_gather *gather)
{
    for (size_t i = 0; i < gather->piles.n; i++)
        hx_vec_free(&gather->piles.v[i]);
    hx_vec_free(&gather->piles);
    hx_vec_free(&gather->empty);
    *gather = (struct hx_gather){0};
}
