/* retset.h - sets of retainers, each of which exists once.
 *
 * A set is a number; equal sets have equal numbers, so comparing, copying and storing them
 * is comparing, copying and storing integers. Sets are kept under an order-free additive
 * key, as in S. Park, S. Peyton Jones, "Implementation of Retainer Profiling", section 3:
 * the key of a set with one more element is its key plus the element's. A retainer is a
 * number, too: whoever makes the store gives retainers their numbers.
 *
 * One thread at a time may use a store of sets.
 */
#ifndef HX_TRAVERSE_RETAIN_RETSET_H
#define HX_TRAVERSE_RETAIN_RETSET_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint32_t hx_retainer;
typedef uint32_t hx_set;

#define HX_SET_NONE ((hx_set)0) /* the empty set: nothing retains it */
#define HX_SET_MANY ((hx_set)1) /* more elements than the limit; every retainer is a member */

typedef struct hx_sets hx_sets;

/* max_elements: a set with more is MANY; 0: no limit. */
hx_error *hx_sets_create(unsigned max_elements, hx_sets **ret);
void hx_sets_destroy(hx_sets *sets);

/* The results of these are HX_SET_NONE only when memory ran out (or, for the union, when
 * both are empty); hx_sets_failed() tells. */
hx_set hx_sets_singleton(hx_sets *sets, hx_retainer retainer);
hx_set hx_sets_add(hx_sets *sets, hx_set set, hx_retainer retainer);
hx_set hx_sets_union(hx_sets *sets, hx_set a, hx_set b);

/* The union of n sets, made at once: no set in between is kept. */
hx_set hx_sets_union_all(hx_sets *sets, const hx_set *set, size_t n);

bool hx_sets_member(const hx_sets *sets, hx_set set, hx_retainer retainer);

/* Elements in rising order; 0 elements and NULL for NONE and MANY. The array is valid until the
 * next set is made. */
size_t hx_sets_elements(const hx_sets *sets, hx_set set, const hx_retainer **ret);

/* All sets have numbers below this one, NONE and MANY included, and below 2^31. */
hx_set hx_sets_count(const hx_sets *sets);

/* As given when the store was made. */
unsigned hx_sets_limit(const hx_sets *sets);

/* Out of memory or past the budget, at any time so far: then sets made since may be too small. */
bool hx_sets_failed(const hx_sets *sets);
/* What it was: HX_E_LIMIT for the budget, HX_E_NOMEM; NULL when nothing failed. */
hx_error *hx_sets_error(const hx_sets *sets);

/* The elements that all sets together may have, HX_SETS_BUDGET unless another is given. A target of
 * n retainers can ask for n * n / 2 of them. */
#define HX_SETS_BUDGET ((size_t)1 << 26)
void hx_sets_allow(hx_sets *sets, size_t elements);

#endif
