/* holders.h - who holds each object: one root, the nearest by rounds, corrected by the weight of
 * evidence.
 *
 * Breadth first, round by round and, in the last one, stage by stage (rounds.h); ties by kind
 * (global, thread-local, mapping, thread), module, name, offset in the module. An object is
 * contested where a second holder reaches it firmly in the same round from many places. A block
 * into which words of the last round lead goes to whoever nearly all of these come from, unless a
 * variable points to it; it is mixed where it serves several.
 */
#ifndef HX_TRAVERSE_HOLD_HOLDERS_H
#define HX_TRAVERSE_HOLD_HOLDERS_H

#include "base/progress.h"
#include "traverse/hold/rules.h"
#include "traverse/retain/scheme.h"

/* The first two are always there, maybe empty. */
#define HX_HOLDER_LOST  0 /* `(unreachable)` */
#define HX_HOLDER_MIXED 1 /* `(mixed)` */

struct hx_holder {
    hx_retainer identity; /* in the rule; HX_NO_RETAINER for the first two */
    uint64_t bytes, objects;
    uint64_t contested_bytes; /* of these, those that a second one reaches, too */
    uint64_t entries;         /* edges of its roots into what it holds */
};

/* What one holds and the other reaches as well. */
struct hx_contest {
    uint32_t holder, other;
    uint64_t bytes, objects;
};

/* Invariant: bytes and objects of all holders add up to those of the heap. */
struct hx_holders {
    uint32_t *of;        /* for each object: index in holder */
    uint32_t *contested; /* for each object: another one that reaches it, 0: none */
    struct hx_big of_mem, contested_mem;
    struct hx_holder *holder;
    size_t n;
    struct hx_contest *contest; /* the largest first */
    size_t n_contests;
};

/* `roots` says who is who (scheme root applied to the snapshot): roots of one identity are one
 * holder. Fills graph.round, too. Needs evidence, and edges not set aside. */
hx_error *hx_holders_find(struct hx_snapshot *snapshot, const struct hx_scheme_rule *roots,
                          const struct hx_hold_options *options, unsigned threads,
                          const struct hx_progress *progress, struct hx_holders *ret);
void hx_holders_deinit(struct hx_holders *holders);

#endif
