/* dominators.h - who alone keeps an object alive, and what would go with it.
 *
 * Object a dominates object b when every chain of edges from a root to b passes a; the
 * nearest such a is b's immediate dominator. What an object dominates, itself included, is
 * what becomes unreachable when it vanishes: its retained bytes and objects. A root retains
 * what is reached from no other root.
 *
 * Semidominators by path compression, then nearest common ancestors (L. Georgiadis,
 * R. E. Tarjan, R. F. Werneck, "Finding Dominators in Practice", 2006: SNCA), the latter
 * with the skip pointers of E. W. Myers ("An applicative random-access stack", 1983), so
 * that no shape of the graph costs more than O(edges * log objects). No recursion.
 */
#ifndef HX_TRAVERSE_DOMINATE_DOMINATORS_H
#define HX_TRAVERSE_DOMINATE_DOMINATORS_H

#include "base/progress.h"
#include "model/snapshot.h"

/* A figure that was not measured. */
#define HX_RETAINED_UNKNOWN UINT64_MAX

enum hx_dominators_over {
    HX_OVER_FOLLOWED, /* every edge that snapshot.interior follows, also into possible objects */
    HX_OVER_SURE,     /* start and known edges only */
};

/* Invariants, for objects i in scope (what the roots reach over these edges; objects[i] != 0):
 *   bytes[i] = size[i] + sum of bytes[k], objects[i] = 1 + sum of objects[k] over the k in
 *   scope with parent[k] == i
 * Objects not in scope have parent HX_NO_OBJ, bytes 0, objects 0. */
struct hx_dominators {
    hx_obj n;
    unsigned follows; /* bit for each enum hx_edge_kind */
    hx_obj *parent;   /* n: immediate dominator, HX_NO_OBJ directly under the roots */
    uint64_t *bytes;  /* n: retained, with its own */
    hx_obj *objects;  /* n: retained, itself included; 0: not in scope */
    uint32_t *order;  /* n: the objects, each behind its parent */
    size_t n_roots;
    uint64_t *root_bytes;   /* n_roots, by index in snapshot.roots: retained bytes and objects; */
    uint64_t *root_objects; /* HX_RETAINED_UNKNOWN for named roots, which decide bins only */
    uint64_t scope_bytes, scope_objects; /* all that is in scope */
    struct hx_big parent_mem, bytes_mem, objects_mem, order_mem;
};

static inline bool hx_dominators_has(const struct hx_dominators *dominators, hx_obj object)
{
    return dominators->objects[object] != 0;
}

/* Needs the edges and, for HX_OVER_FOLLOWED, snapshot.interior; neither states nor the reverse
 * edges. The result takes 20 bytes an object; until it returns, 20 more and 12 for each edge out of
 * the tree of a search, with that of the longest path. Only reads the snapshot: both choices may
 * run at once. Cancelled work is HX_E_CANCEL. */
hx_error *hx_dominators_find(const struct hx_snapshot *snapshot, enum hx_dominators_over over,
                             const struct hx_progress *progress, struct hx_dominators *ret);
/* Gives `parent` and `order` back, for whoever wants retained figures only. */
void hx_dominators_drop_parent(struct hx_dominators *dominators);
void hx_dominators_deinit(struct hx_dominators *dominators);

#endif
