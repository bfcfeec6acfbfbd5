/* immediate.c - semidominators, and from them immediate dominators. */
#include "traverse/dominate/immediate.h"

#include "base/prefetch.h"

#define CHECK_MASK 0xffff /* every so many nodes + 1 */
#define AHEAD      32     /* nodes: how far ahead scattered reads are prefetched */

struct pair {
    hx_node a, b;
};
_Static_assert(sizeof(struct pair) <= HX_NODE_ROOM, "room for nodes");

static bool report_immediate(const struct hx_spanning *tree, const struct hx_progress *progress,
                             const char *stage, hx_node node, hx_node done)
{
    if (node & CHECK_MASK)
        return true;
    hx_progress_at(progress, stage, done, tree->n);
    return !hx_progress_cancelled(progress);
}

/* --- semidominators ------------------------------------------------------------- */

/* link[v].a: an ancestor of v above which nothing was looked at yet; link[v].b: the least
 * semidominator of the nodes from v up to below it. Nodes up to `bound` have no link so far. */
static inline hx_node eval_semidominator(struct pair *link, hx_node v, hx_node bound)
{
    if (link[v].a <= bound)
        return link[v].b;
    /* On the way up the pointers are turned round, which leads back down without a stack;
     * 0 ends the way, as the virtual root has no link. */
    hx_node below = 0;
    while (link[v].a > bound) {
        hx_node above = link[v].a;
        link[v].a = below;
        below = v;
        v = above;
    }
    hx_node top = link[v].a, least = link[v].b;
    while (below) {
        hx_node next = link[below].a;
        if (link[below].b > least)
            link[below].b = least;
        else
            least = link[below].b;
        link[below].a = top;
        below = next;
    }
    return least;
}

/* What will be asked of nodes that come soon. */
HX_PREFETCHES void prefetch_late(const struct hx_spanning *tree, const struct pair *link, hx_node w)
{
    if (w <= 2 * AHEAD)
        return;
    __builtin_prefetch(&tree->late[tree->late_of[w - 2 * AHEAD]]);
    __builtin_prefetch(&link[tree->late[tree->late_of[w - AHEAD]].source], 1);
}

/* Makes `low` the semidominators. */
static bool find_semidominators(struct hx_spanning *tree, struct pair *link,
                                const struct hx_progress *progress)
{
    for (hx_node w = tree->n - 1; w > 0; w--) {
        hx_node semi = tree->low[w];
        prefetch_late(tree, link, w);
        for (hx_eidx i = tree->late_of[w]; i; i = tree->late[i].next) {
            hx_node least = eval_semidominator(link, tree->late[i].source, w);
            if (least < semi)
                semi = least;
        }
        tree->low[w] = semi;
        link[w] = (struct pair){tree->parent[w], semi};
        if (!report_immediate(tree, progress, "semidominators", w, tree->n - w))
            return false;
    }
    return true;
}

/* --- immediate dominators -------------------------------------------------------- */

/* Makes `parent` the immediate dominators: the nearest node on the way up the dominator tree
 * that is not below the semidominator. skip[w].a is a node further up, skip[w].b w's depth. */
static bool assign_immediate_dominators(struct hx_spanning *tree, struct pair *skip,
                                        const struct hx_progress *progress)
{
    hx_node *dominator = tree->parent;
    skip[0] = (struct pair){0, 0};
    for (hx_node w = 1; w < tree->n; w++) {
        hx_node d = tree->parent[w], semi = tree->low[w];
        while (d > semi)
            d = skip[d].a > semi ? skip[d].a : dominator[d];
        dominator[w] = d;
        hx_node far = skip[d].a, farther = skip[far].a;
        bool equal = skip[d].b - skip[far].b == skip[far].b - skip[farther].b;
        skip[w] = (struct pair){equal ? farther : d, skip[d].b + 1};
        if (!report_immediate(tree, progress, "dominators", w, w))
            return false;
    }
    return true;
}

hx_error *hx_immediate_dominators(struct hx_spanning *tree, const struct hx_progress *progress)
{
    struct pair *pair = tree->room.base;
    if (!find_semidominators(tree, pair, progress) ||
        !assign_immediate_dominators(tree, pair, progress))
        return hx_error_cancelled("search for dominators");
    hx_big_array_free(tree->late);
    return NULL;
}
