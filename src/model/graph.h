/* graph.h - objects and the edges between them, in compressed columns.
 *
 * Objects are numbered 0..n-1 in order of address. Edges are stored by source
 * (forward) and, once hx_graph_reverse() ran, by target (reverse).
 */
#ifndef HX_MODEL_GRAPH_H
#define HX_MODEL_GRAPH_H

#include "base/error.h"
#include "base/progress.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Index of an object: the one typedef for the index width. */
#if defined(HX_OBJ_BITS) && HX_OBJ_BITS == 16 /* tests, to meet the boundary */
typedef uint16_t hx_obj;
#else
typedef uint32_t hx_obj;
#endif
typedef uint64_t hx_eidx; /* index of an edge */
#define HX_NO_OBJ      ((hx_obj)-1)
#define HX_OBJECTS_MAX HX_NO_OBJ /* objects of one graph at most: HX_NO_OBJ is none of them */
#define HX_NO_TYPE     UINT32_MAX
#define HX_NO_SITE     UINT32_MAX
#define HX_NO_REQUEST  UINT64_MAX

/* How an edge points, in order of strength (the contract's words). */
enum hx_edge_kind {
    HX_EDGE_START = 0,
    HX_EDGE_KNOWN = 1,
    HX_EDGE_INTERIOR = 2,
    HX_EDGE_ASIDE = 3, /* not followed for now: it is no edge of the chosen graph (hold/rounds.h) */
};
#define HX_EDGE_KINDS_ALL ((1u << (HX_EDGE_ASIDE + 1)) - 1) /* a bit for each */
const char *hx_edge_kind_name(enum hx_edge_kind kind);

enum hx_state {
    HX_STATE_NONE = 0, /* not computed yet */
    HX_STATE_REACHABLE,
    HX_STATE_POSSIBLE,
    HX_STATE_DEFINITE,
    HX_STATE_INDIRECT,
    HX_STATES
};
const char *hx_state_name(enum hx_state state); /* "reachable", ... */

/* --interior: what a plain interior edge counts as. */
enum hx_interior { HX_INTERIOR_KNOWN = 0, HX_INTERIOR_ON, HX_INTERIOR_OFF };

/* One edge in 64 bits: target in the high 32, word offset in the source (byte
 * offset / 8) in the next 30, kind in the low 2. */
typedef uint64_t hx_edge;
#define HX_EDGE_OFFSET_MAX (((uint64_t)1 << 30) - 1) /* words: 8 GiB into an object */

static inline hx_edge hx_edge_make(hx_obj target, uint64_t word, enum hx_edge_kind kind)
{
    return (uint64_t)target << 32 | word << 2 | (uint64_t)kind;
}
static inline hx_obj hx_edge_target(hx_edge edge)
{
    return (hx_obj)(edge >> 32);
}
static inline uint64_t hx_edge_offset(hx_edge edge) /* in bytes */
{
    return (edge >> 2 & HX_EDGE_OFFSET_MAX) * 8;
}
static inline enum hx_edge_kind hx_edge_kind_of(hx_edge edge)
{
    return (enum hx_edge_kind)(edge & 3);
}

/* What the word of an edge was judged by: low 6 bits the rule (hold/rules.h), 0: none, and the kind
 * of the edge in the high two, which the edge itself does not tell while it is set aside. */
typedef uint8_t hx_evidence;
#define HX_EVIDENCE(rule, kind)    ((hx_evidence)((rule) | (kind) << 6))
#define HX_EVIDENCE_RULE(evidence) ((evidence)&63)
#define HX_EVIDENCE_KIND(evidence) ((enum hx_edge_kind)((evidence) >> 6))
#define HX_NO_SHAPE                UINT16_MAX

/* How much an object's type is to be believed, and what said so. */
enum hx_confidence { HX_CONFIDENCE_CERTAIN, HX_CONFIDENCE_LIKELY, HX_CONFIDENCE_GUESS };
enum hx_type_source {
    HX_TYPED_NOT,
    HX_TYPED_VTABLE,  /* its vtable */
    HX_TYPED_POINTER, /* typed pointers to it */
    HX_TYPED_SITE,    /* others that were allocated there */
    HX_TYPED_PYTHON,  /* its type object */
    HX_TYPE_SOURCES
};
const char *hx_confidence_name(enum hx_confidence confidence); /* "certain", "likely", "guess" */
const char *hx_type_source_name(enum hx_type_source source);   /* "vtable", "pointer", ... */

/* In a byte: 0 where there is no type. */
typedef uint8_t hx_typed;
#define HX_TYPED(confidence, source) ((hx_typed)((source) | (confidence) << 3))
#define HX_TYPED_SOURCE(typed)       ((enum hx_type_source)((typed)&7))
#define HX_TYPED_CONFIDENCE(typed)   ((enum hx_confidence)((typed) >> 3 & 3))
#define HX_TYPED_REPEATS             32 /* an array of its type's elements */
#define HX_TYPED_CONFLICT            64 /* something else said otherwise */

/* Invariants:
 *   addr[i] + size[i] <= addr[i + 1]
 *   fwd[0] == 0, fwd[i] <= fwd[i + 1], fwd[n] == n_edges   (fwd NULL before the scan)
 *   edge[fwd[i] .. fwd[i+1]) are the edges of object i by growing offset
 *   rev[0] == 0, rev[n] == n_edges; rev_source[rev[i] .. rev[i+1]) are the sources of the
 *   edges into i by growing index, one entry for each edge   (rev NULL before the reversal)
 */
struct hx_graph {
    hx_obj n;
    uint64_t *addr;      /* n: first usable byte */
    uint64_t *size;      /* n: usable bytes */
    uint8_t *state;      /* n: enum hx_state, NULL before hx_reach() */
    uint32_t *type;      /* n: index in snapshot.types, HX_NO_TYPE; NULL: nobody looked for types */
    hx_typed *typed;     /* n: what says so; NULL: by vtables alone */
    uint32_t *site;      /* n: index in snapshot.sites, HX_NO_SITE; NULL: nothing was recorded */
    uint64_t *requested; /* n: bytes asked for, HX_NO_REQUEST; NULL: nothing was recorded */
    uint16_t *shape; /* n: index in snapshot.shapes, HX_NO_SHAPE; NULL: nobody looked for shapes */
    uint8_t *round;  /* n: 1 to 4, 0: lost; NULL before hx_rounds_find() */
    hx_eidx n_edges;
    hx_eidx *fwd; /* n + 1 */
    hx_edge *edge;
    hx_evidence *evidence; /* n_edges; NULL: no word was judged */
    hx_eidx *rev;          /* n + 1 */
    hx_obj *rev_source;
    struct hx_big addr_mem, size_mem, state_mem, type_mem, typed_mem, site_mem, requested_mem,
        shape_mem, round_mem, fwd_mem, edge_mem, evidence_mem, rev_mem, rev_source_mem;
};

/* The kind of an edge where `follows` (bit for each enum hx_edge_kind) says what is followed: with
 * HX_EDGE_ASIDE among them, of one that was set aside what its evidence says. */
static inline enum hx_edge_kind hx_edge_kind_over(const struct hx_graph *graph, hx_eidx e,
                                                  unsigned follows)
{
    enum hx_edge_kind kind = hx_edge_kind_of(graph->edge[e]);
    if (kind == HX_EDGE_ASIDE && follows >> HX_EDGE_ASIDE & 1)
        return HX_EVIDENCE_KIND(graph->evidence[e]);
    return kind;
}

/* The object that contains addr, HX_NO_OBJ when none does; binary search. */
hx_obj hx_graph_find(const struct hx_graph *graph, uint64_t addr);

/* The first edge of an object whose word begins at `offset` or behind it; binary search. */
hx_eidx hx_graph_edge_from(const struct hx_graph *graph, hx_obj object, uint64_t offset);

/* Builds rev and rev_source; linear. */
hx_error *hx_graph_reverse(struct hx_graph *graph, unsigned threads,
                           const struct hx_progress *progress);

/* Tests the invariants above (linear); NULL when they hold. */
hx_error *hx_graph_check(const struct hx_graph *graph);

void hx_graph_deinit(struct hx_graph *graph);

#endif
