/* top.c - the first rows by a column: a heap of the best ones so far, its worst on top. */
#include "store/top.h"

#include "base/vec.h"

#include <stdlib.h>

struct candidate {
    uint64_t key; /* the value, inverted when the largest come first */
    uint64_t row;
};
typedef HX_VEC(struct candidate) candidates;

static bool is_before(const struct candidate *a, const struct candidate *b)
{
    return a->key != b->key ? a->key < b->key : a->row < b->row;
}

static void swap(struct candidate *a, struct candidate *b)
{
    struct candidate c = *a;
    *a = *b;
    *b = c;
}

static void sift_up(struct candidate *v, size_t i)
{
    for (; i && is_before(&v[(i - 1) / 2], &v[i]); i = (i - 1) / 2)
        swap(&v[(i - 1) / 2], &v[i]);
}

static void sift_down(struct candidate *v, size_t n)
{
    for (size_t i = 0;;) {
        size_t last = i, left = 2 * i + 1;
        for (size_t child = left; child < n && child < left + 2; child++)
            if (is_before(&v[last], &v[child]))
                last = child;
        if (last == i)
            return;
        swap(&v[i], &v[last]);
        i = last;
    }
}

static hx_error *offer_block(candidates *best, const struct hx_decoded *column, uint64_t from,
                             bool largest, uint64_t limit)
{
    for (size_t i = 0; i < column->n; i++) {
        uint64_t value = hx_decoded_at(column, i);
        struct candidate candidate = {largest ? ~value : value, from + i};
        if (best->n < limit) {
            if (!hx_vec_push(best, candidate))
                return hx_error_nomem();
            sift_up(best->v, best->n - 1);
        } else if (candidate.key < best->v[0].key) { /* an equal one came earlier */
            best->v[0] = candidate;
            sift_down(best->v, best->n);
        }
    }
    return NULL;
}

static int compare(const void *a, const void *b)
{
    return is_before(a, b) ? -1 : is_before(b, a);
}

hx_error *hx_top_rows(hx_blocks *blocks, const struct hx_block_index *index,
                      enum hx_derived derived, int column, bool largest, uint64_t limit,
                      uint64_t **ret, size_t *ret_n)
{
    candidates best = {0};
    hx_error *err = NULL;
    for (size_t b = 0; b < index->n && limit && !err; b++) {
        const struct hx_decoded *decoded;
        err = hx_blocks_column(blocks, index, b, derived, column, &decoded);
        if (err)
            break;
        err = offer_block(&best, decoded, index->block[b].from, largest, limit);
        hx_blocks_release(blocks, decoded);
    }
    uint64_t *row = err ? NULL : malloc((best.n + 1) * sizeof *row);
    if (row) {
        if (best.n)
            qsort(best.v, best.n, sizeof *best.v, compare);
        for (size_t i = 0; i < best.n; i++)
            row[i] = best.v[i].row;
        *ret = row;
        *ret_n = best.n;
    } else if (!err) {
        err = hx_error_nomem();
    }
    hx_vec_free(&best);
    return err;
}
