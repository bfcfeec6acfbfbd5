/* best.c - rows that are not among the first are thrown out together. */
#include "store/objects/best.h"

#include <stddef.h>
#include <stdlib.h>

enum { ROOM = 256 };

static void swap(struct hx_candidate *a, struct hx_candidate *b)
{
    struct hx_candidate c = *a;
    *a = *b;
    *b = c;
}

/* Puts the `most` best of them in front, in any order. */
static void select_best(struct hx_candidate *v, size_t n, size_t most)
{
    ptrdiff_t low = 0, high = (ptrdiff_t)n - 1, at = (ptrdiff_t)most;
    for (uint64_t random = n; low < at && at <= high;) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        struct hx_candidate pivot =
            v[low + (ptrdiff_t)((random >> 33) % (uint64_t)(high - low + 1))];
        ptrdiff_t i = low, k = high;
        while (i <= k) {
            while (hx_candidate_is_before(&v[i], &pivot))
                i++;
            while (hx_candidate_is_before(&pivot, &v[k]))
                k--;
            if (i <= k)
                swap(&v[i++], &v[k--]);
        }
        if (at <= k)
            high = k;
        else if (at >= i)
            low = i;
        else
            return;
    }
}

void hx_best_end(struct hx_best *best)
{
    if (best->taken.n <= best->most)
        return;
    select_best(best->taken.v, best->taken.n, (size_t)best->most);
    best->taken.n = (size_t)best->most;
    best->full = true;
    best->worst = (struct hx_candidate){0};
    for (size_t i = 0; i < best->taken.n; i++)
        if (hx_candidate_is_before(&best->worst, &best->taken.v[i]))
            best->worst = best->taken.v[i];
}

bool hx_best_take(struct hx_best *best, struct hx_candidate candidate)
{
    if (!hx_vec_push(&best->taken, candidate))
        return false;
    if (best->taken.n >= 2 * best->most + ROOM)
        hx_best_end(best);
    return true;
}

static int compare_candidates(const void *a, const void *b)
{
    return hx_candidate_is_before(a, b) ? -1 : hx_candidate_is_before(b, a);
}

void hx_candidates_sort(hx_candidates *candidates)
{
    if (candidates->n)
        qsort(candidates->v, candidates->n, sizeof *candidates->v, compare_candidates);
}
