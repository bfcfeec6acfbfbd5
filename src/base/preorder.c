/* preorder.c - the order of a tree. */
#include "base/preorder.h"

#include "base/cleanup.h"

/* Children lie together by their parent: slot 0 are tops, slot i + 1 those of node i. */
static size_t slot_of(const struct hx_parents *parents, uint32_t node)
{
    uint32_t parent =
        *(const uint32_t *)((const char *)parents->first + parents->stride * (size_t)node);
    return parent < node ? (size_t)parent + 1 : 0;
}

/* begin[slot] .. begin[slot + 1] in `child`, by number. */
static void group_children(const struct hx_parents *parents, size_t *begin, uint32_t *child)
{
    uint32_t n = parents->n;
    for (uint32_t i = 0; i < n; i++)
        begin[slot_of(parents, i)]++;
    for (size_t slot = 1; slot <= (size_t)n + 1; slot++)
        begin[slot] += begin[slot - 1]; /* the end, for now */
    for (uint32_t i = n; i-- > 0;)
        child[--begin[slot_of(parents, i)]] = i;
}

hx_error *hx_preorder(const struct hx_parents *parents,
                      int (*compare)(const void *, const void *, void *), void *context,
                      uint32_t **ret)
{
    size_t n = parents->n, depth = 0, placed = 0;
    HX_FREE size_t *begin = calloc(n + 2, sizeof *begin);
    HX_FREE uint32_t *child = malloc((n + 1) * sizeof *child);
    HX_FREE uint32_t *stack = malloc((n + 1) * sizeof *stack);
    HX_FREE uint32_t *order = malloc((n + 1) * sizeof *order);
    HX_NEED(begin && child && stack && order);
    group_children(parents, begin, child);
    for (size_t slot = 0; slot <= n && compare; slot++)
        qsort_r(child + begin[slot], begin[slot + 1] - begin[slot], sizeof *child, compare,
                context);
    for (size_t slot = 0;; slot = (size_t)order[placed++] + 1) {
        for (size_t i = begin[slot + 1]; i-- > begin[slot];)
            stack[depth++] = child[i];
        if (!depth)
            break;
        order[placed] = stack[--depth];
    }
    *ret = hx_steal(order);
    return NULL;
}
