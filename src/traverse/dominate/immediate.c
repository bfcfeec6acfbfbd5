/* immediate.c - semidominators, and from them immediate dominators. */
#include "traverse/dominate/immediate.h"

#define CHECK_MASK   0xffff  /* every so many nodes + 1 */
#define DISCARD_MASK 0xfffff /* every so many nodes + 1, when memory is given back */
#define AHEAD        32      /* edges: how far ahead scattered reads are prefetched */

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
static inline hx_node eval_semidominator(struct hx_node_pair *link, hx_node v, hx_node bound)
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

/* What belongs to nodes from w on was used: gives it back while links come to be. `given` is
 * where the part begins that was given back before. */
static void discard_pages(struct hx_spanning *tree, hx_node w, hx_node *discarded_to)
{
    hx_big_discard(&tree->late_mem, tree->first[w] * sizeof *tree->late,
                   tree->first[*discarded_to] * sizeof *tree->late);
    hx_big_discard(&tree->first_mem, ((size_t)w + 1) * sizeof *tree->first,
                   (size_t)*discarded_to * sizeof *tree->first);
    *discarded_to = w;
}

/* Makes `low` the semidominators. Uses `first` and `late` up. */
static bool find_semidominators(struct hx_spanning *tree, const struct hx_progress *progress)
{
    struct hx_node_pair *link = tree->pair;
    hx_node discarded_to = tree->n;
    for (hx_node w = tree->n - 1; w > 0; w--) {
        hx_node semi = tree->low[w];
        for (hx_eidx i = tree->first[(size_t)w + 1]; i-- > tree->first[w];) {
            __builtin_prefetch(&link[tree->late[i < AHEAD ? 0 : i - AHEAD]], 1);
            hx_node least = eval_semidominator(link, tree->late[i], w);
            if (least < semi)
                semi = least;
        }
        tree->low[w] = semi;
        link[w] = (struct hx_node_pair){tree->parent[w], semi};
        if (!report_immediate(tree, progress, "semidominators", w, tree->n - w))
            return false;
        if ((w & DISCARD_MASK) == 0)
            discard_pages(tree, w, &discarded_to);
    }
    return true;
}

/* --- immediate dominators -------------------------------------------------------- */

/* Makes `parent` the immediate dominators: the nearest node on the way up the dominator tree
 * that is not below the semidominator. skip[w].a is a node further up, skip[w].b w's depth. */
static bool assign_immediate_dominators(struct hx_spanning *tree,
                                        const struct hx_progress *progress)
{
    hx_node *dominator = tree->parent;
    struct hx_node_pair *skip = tree->pair;
    skip[0] = (struct hx_node_pair){0, 0};
    for (hx_node w = 1; w < tree->n; w++) {
        hx_node d = tree->parent[w], semi = tree->low[w];
        while (d > semi)
            d = skip[d].a > semi ? skip[d].a : dominator[d];
        dominator[w] = d;
        hx_node far = skip[d].a, farther = skip[far].a;
        bool equal = skip[d].b - skip[far].b == skip[far].b - skip[farther].b;
        skip[w] = (struct hx_node_pair){equal ? farther : d, skip[d].b + 1};
        if (!report_immediate(tree, progress, "dominators", w, w))
            return false;
    }
    return true;
}

hx_error *hx_immediate_dominators(struct hx_spanning *tree, const struct hx_progress *progress)
{
    if (!find_semidominators(tree, progress))
        return hx_error_cancelled("search for dominators");
    hx_big_free(&tree->late_mem);
    hx_big_free(&tree->first_mem);
    if (!assign_immediate_dominators(tree, progress))
        return hx_error_cancelled("search for dominators");
    hx_big_free(&tree->pair_mem);
    hx_big_free(&tree->low_mem);
    return NULL;
}
