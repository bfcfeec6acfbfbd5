/* callgraph.h - the call graph of allocations, and partial call chains: mprof's view of recorded
 * stacks.
 *
 * Source: B. Zorn, P. Hilfinger, "A memory allocation profiler for C and Lisp programs", 1988. An
 * allocation is charged to each pair of caller and callee on its chain, and directly to the
 * function that asked. Functions that call each other are one node, a cycle: strongly connected
 * components.
 */
#ifndef HX_COST_CALLGRAPH_H
#define HX_COST_CALLGRAPH_H

#include "base/text.h"
#include "cost/ccs.h"
#include "model/recording.h"

struct hx_call_costs {
    uint64_t bytes[HX_SIZE_CLASSES];
    uint64_t calls; /* allocations that passed here */
};

#define HX_NO_CYCLE UINT32_MAX
/* A function on some chain that allocated. MAIN is nobody: it calls none, and is a function itself
 * only where something is charged to it directly. */
struct hx_call_function {
    hx_centre centre;
    uint32_t cycle;              /* HX_NO_CYCLE: it is in none. Recursion of its own is none */
    uint32_t entry;              /* its place in the table: by total_bytes, falling */
    struct hx_call_costs direct; /* asked for by itself */
    uint64_t total_bytes;        /* and by what it called, each allocation once; of a member of a
                                    cycle that of the whole cycle */
    uint64_t calls;              /* from others, members of its cycle included */
    uint64_t recursive;          /* from itself; of members of a cycle, too */
};
/* From one function to another, never itself. Inside a cycle only `calls` mean anything: a chain
 * that goes round twice is charged twice. */
struct hx_call {
    uint32_t caller, callee; /* indexes of functions */
    struct hx_call_costs costs;
};
/* Several functions that call each other; in the order of `entry`, so that cycle i is "<cycle
 * i+1>". */
struct hx_call_cycle {
    uint32_t first, n; /* in members */
    uint32_t entry;
    struct hx_call_costs direct; /* of all members */
    uint64_t total_bytes;
    uint64_t calls, internal_calls; /* from outside; between different members */
};

/* Invariants: the direct costs of all functions sum to those that came in; total_bytes of what is
 * in no cycle == direct + what its calls to others cost, and of a cycle direct + what calls of its
 * members to others outside cost. functions are sorted by centre, calls by caller and callee, the
 * members of a cycle by index. entry: 0 .. functions.n + cycles.n - 1, each once; among equals
 * first cycles, then what has the lower centre. */
struct hx_callgraph {
    HX_VEC(struct hx_call_function) functions;
    HX_VEC(struct hx_call) calls;
    HX_VEC(struct hx_call_cycle) cycles;
    HX_VEC(uint32_t) members; /* indexes of functions */
};

/* frame, n and caller as in ccs.h (hx_frames_callers()): caller[i] < i has a centre, or is 0, that
 * is nobody. own[i]: what was allocated at frame i; at one without a centre, its caller asked.
 * Linear in the frames, but for sorting. */
hx_error *hx_callgraph_make(const struct hx_frame *frame, const uint32_t *caller, uint32_t n,
                            const struct hx_call_costs *own, const struct hx_progress *progress,
                            struct hx_callgraph *ret);
void hx_callgraph_deinit(struct hx_callgraph *graph);
hx_error *hx_callgraph_check(const struct hx_callgraph *graph);

#endif
