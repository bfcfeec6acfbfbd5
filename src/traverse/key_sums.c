/* key_sums.c - sums by key, and the blame for pages, in one sweep by address. */
#include "traverse/key_sums.h"

#include "base/cleanup.h"

#include <stdlib.h>

#define CHECK_MASK 0xffff /* progress every so many objects + 1 */
#define PAGE_SHIFT 12     /* of the target; see hx_ranges `resident` */
#define PAGE_BYTES ((size_t)1 << PAGE_SHIFT)

/* The page that the sweep is on, and who is on it. Pages only grow, and with them the place in
 * the list of resident ranges. */
struct sweep {
    const hx_ranges *resident;
    struct hx_key_sums *sums;
    size_t range; /* all before it end before the page */
    uint64_t page;
    uint64_t *stamp;          /* for each key: the last page, + 1, that it was found on */
    uint32_t key[PAGE_BYTES]; /* different ones; objects of no bytes are not on the page */
    size_t n_keys;
    struct hx_big stamp_mem;
};

/* Resident pages among [from, to), which is not before what was asked before. */
static uint64_t resident_pages(struct sweep *sweep, uint64_t from, uint64_t to)
{
    const hx_ranges *resident = sweep->resident;
    uint64_t pages = 0;
    while (sweep->range < resident->n && resident->v[sweep->range].end >> PAGE_SHIFT <= from)
        sweep->range++;
    for (; sweep->range < resident->n; sweep->range++) {
        const struct hx_range *range = &resident->v[sweep->range];
        uint64_t start = range->start >> PAGE_SHIFT, end = range->end >> PAGE_SHIFT;
        start = start > from ? start : from;
        pages += start < to && start < end ? (end < to ? end : to) - start : 0;
        if (end >= to) /* it may reach further */
            break;
    }
    return pages;
}

static void leave_page(struct sweep *sweep)
{
    struct hx_key_sums *sums = sweep->sums;
    if (sweep->n_keys && resident_pages(sweep, sweep->page, sweep->page + 1)) {
        uint64_t *pages = sweep->n_keys == 1 ? sums->only_pages : sums->shared_pages;
        for (size_t i = 0; i < sweep->n_keys; i++)
            pages[sweep->key[i]]++;
    }
    sweep->n_keys = 0;
}

static void count_page(struct sweep *sweep, uint64_t page, uint32_t key)
{
    if (page != sweep->page) {
        leave_page(sweep);
        sweep->page = page;
    }
    if (sweep->stamp[key] == page + 1 || sweep->n_keys == PAGE_BYTES)
        return;
    sweep->stamp[key] = page + 1;
    sweep->key[sweep->n_keys++] = key;
}

/* Only the first and the last page of an object can hold others. */
static void blame_pages(struct sweep *sweep, uint64_t addr, uint64_t size, uint32_t key)
{
    uint64_t last = addr + (size - 1);
    if (size == 0)
        return;
    if (last < addr) /* no such object */
        last = UINT64_MAX;
    uint64_t first_page = addr >> PAGE_SHIFT, last_page = last >> PAGE_SHIFT;
    count_page(sweep, first_page, key);
    if (last_page == first_page)
        return;
    leave_page(sweep);
    sweep->sums->only_pages[key] += resident_pages(sweep, first_page + 1, last_page);
    count_page(sweep, last_page, key);
}

static hx_error *reserve_sums(const struct hx_snapshot *snapshot, struct sweep *sweep, uint32_t n)
{
    struct hx_key_sums *sums = sweep->sums;
    const size_t bytes = (size_t)n * sizeof(uint64_t);
    sums->n = n;
    HX_TRY(hx_big_reserve(&sums->mem[0], bytes));
    HX_TRY(hx_big_reserve(&sums->mem[1], bytes));
    sums->bytes = sums->mem[0].base;
    sums->objects = sums->mem[1].base;
    if (!snapshot->has_resident)
        return NULL;
    HX_TRY(hx_big_reserve(&sums->mem[2], bytes));
    HX_TRY(hx_big_reserve(&sums->mem[3], bytes));
    sums->only_pages = sums->mem[2].base;
    sums->shared_pages = sums->mem[3].base;
    return hx_big_array(sweep->stamp, n);
}

static hx_error *sum_by_key(const struct hx_snapshot *snapshot, const uint32_t *key,
                            const struct hx_progress *progress, struct sweep *sweep)
{
    const struct hx_graph *graph = &snapshot->graph;
    struct hx_key_sums *sums = sweep->sums;
    for (hx_obj i = 0; i < graph->n; i++) {
        uint32_t k = key[i] < sums->n ? key[i] : sums->n - 1;
        sums->bytes[k] += graph->size[i];
        sums->objects[k]++;
        if (sweep->stamp)
            blame_pages(sweep, graph->addr[i], graph->size[i], k);
        if ((i & CHECK_MASK) == CHECK_MASK) {
            hx_progress_at(progress, "census", i, graph->n);
            if (hx_progress_cancelled(progress))
                return hx_error_cancelled("census");
        }
    }
    if (sweep->stamp)
        leave_page(sweep);
    return NULL;
}

hx_error *hx_key_sums_make(const struct hx_snapshot *snapshot, const uint32_t *key, uint32_t n,
                           const struct hx_progress *progress, struct hx_key_sums *ret)
{
    struct hx_key_sums sums = {0};
    HX_FREE struct sweep *sweep = calloc(1, sizeof *sweep);
    HX_NEED(sweep);
    sweep->resident = &snapshot->resident;
    sweep->sums = &sums;
    hx_error *err = reserve_sums(snapshot, sweep, n);
    if (!err && n)
        err = sum_by_key(snapshot, key, progress, sweep);
    hx_big_free(&sweep->stamp_mem);
    if (err)
        hx_key_sums_deinit(&sums);
    else
        *ret = sums;
    return err;
}

void hx_key_sums_deinit(struct hx_key_sums *sums)
{
    for (size_t i = 0; i < sizeof sums->mem / sizeof *sums->mem; i++)
        hx_big_free(&sums->mem[i]);
    *sums = (struct hx_key_sums){0};
}
