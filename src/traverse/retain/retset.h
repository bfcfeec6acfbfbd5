/* retset.h - sets of retainers, each of which exists once.
 *
 * A set is a number; equal sets have equal numbers, so comparing, copying and storing them
 * is comparing, copying and storing integers. Sets are kept under an order-free additive
 * key, as in S. Park, S. Peyton Jones, "Implementation of Retainer Profiling", section 3:
 * the key of a set with one more element is its key plus the element's. A retainer is a
 * number, too: whoever makes the store gives retainers their numbers.
 *
 * A store of sets has a limit: a set of more elements is MANY. One that is to be found
 * (HX_SETS_AUTO) begins as none, and falls when the sets that count have no room: then the largest
 * of them become MANY. A set depends on the limit that holds in the end alone, and that one on the
 * sizes of the sets that count, so that no order in which sets are made matters.
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

#define HX_SETS_AUTO UINT32_MAX

/* max_elements: a set with more is MANY; 0: no limit; HX_SETS_AUTO: the largest limit with which
 * all sets that count have room. */
hx_error *hx_sets_create(unsigned max_elements, hx_sets **ret);
/* Another store of the same sets, with the same numbers and the limit by now, which has room for so
 * many elements more. */
hx_error *hx_sets_copy(const hx_sets *sets, size_t elements, hx_sets **ret);
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

/* The limit by now; 0: none. */
unsigned hx_sets_limit(const hx_sets *sets);

/* A limit that is found is at most this; 0: any. Before sets are made. */
void hx_sets_at_most(hx_sets *sets, unsigned limit);

/* For a limit that is found: this set counts, as some object ends with it. */
void hx_sets_keep(hx_sets *sets, hx_set set);

/* MANY for a set that the limit has fallen below since it was made. */
hx_set hx_sets_now(const hx_sets *sets, hx_set set);

/* What a set that counts takes: its record and, for each element, what that takes here and as a row
 * of the store. A limit of 1 always has room. */
#define HX_SETS_ROOM     ((uint64_t)64 << 20)
#define HX_SET_BYTES     64
#define HX_ELEMENT_BYTES 16
void hx_sets_make_room(hx_sets *sets, uint64_t bytes); /* other than HX_SETS_ROOM: for tests */

/* Out of memory or past the budget, at any time so far: then sets made since may be too small. */
bool hx_sets_failed(const hx_sets *sets);
/* What it was: HX_E_LIMIT for the budget, HX_E_NOMEM; NULL when nothing failed. */
hx_error *hx_sets_error(const hx_sets *sets);

/* The elements that all sets together may have, those in between included; HX_SETS_BUDGET unless
 * another is given. A target of n retainers can ask for n * n / 2 of them. A limit that is found
 * falls further rather than that there are more. */
#define HX_SETS_BUDGET ((size_t)1 << 26)
void hx_sets_allow(hx_sets *sets, size_t elements);

#endif
