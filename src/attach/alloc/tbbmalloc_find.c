/* tbbmalloc_find.c - where oneTBB's allocator keeps its structures, by their shape.
 *
 * Its pool is a variable that leads to itself at three places, and the table of back references
 * leads to it, in turn. The list of what threads have begins somewhere behind.
 */
#include "attach/alloc/tbbmalloc.h"

#include "attach/alloc/module_data.h"
#include "base/cleanup.h"

#include <stdlib.h>

static const uint64_t segment_min = UINT64_C(96) << 10; /* the pool is larger */

static bool is_backend(const struct hx_module_data *data, uint64_t offset)
{
    uint64_t own = data->start + offset;
    return hx_data_u64(data, offset) == own && offset >= HX_TBB_POOL_BACKEND &&
           hx_data_u64(data, offset + HX_TBB_QUEUE_SYNC) == own + HX_TBB_SYNC &&
           hx_data_u64(data, offset + HX_TBB_SYNC_BACKEND) == own &&
           hx_data_u64(data, offset + HX_TBB_REGION_LOCK) <= UINT8_MAX;
}

/* Is that the table of back references of the pool? Its first leaves lie behind it. */
static bool is_main(const struct hx_module_data *data, uint64_t addr, uint64_t backend)
{
    const struct hx_peek *peek = data->target->peek;
    uint64_t to_backend, first, last;
    return addr && !(addr & 4095) && hx_peek_u64(peek, addr, &to_backend) &&
           to_backend == backend && hx_peek_u64(peek, addr + HX_TBB_MAIN_LAST, &last) &&
           last < HX_TBB_LEAVES_MAX && hx_peek_u64(peek, addr + HX_TBB_MAIN_LEAVES, &first) &&
           first == addr + HX_TBB_MAIN;
}

/* Is that what the newest thread of the pool has? */
static bool is_first_thread(const struct hx_module_data *data, uint64_t addr, uint64_t backend)
{
    const struct hx_peek *peek = data->target->peek;
    uint64_t prev, pool, to_backend;
    return addr && !(addr & 7) && hx_peek_u64(peek, addr + HX_TBB_TLS_POOL, &pool) &&
           pool == backend - HX_TBB_POOL_BACKEND && hx_peek_u64(peek, addr + 8, &prev) && !prev &&
           hx_peek_u64(peek, addr + HX_TBB_TLS_BACKEND, &to_backend) && to_backend == backend;
}

static bool is_elsewhere(const struct hx_module_data *data, uint64_t word)
{
    const struct hx_alloc_target *target = data->target;
    if (word < 4096 || word & 7 || (word >= data->start && word < data->start + data->len))
        return false;
    size_t i = hx_mapping_find(target->mapping, target->n_mappings, word);
    return i < target->n_mappings && target->mapping[i].prot & HX_PROT_W;
}

static void find_main(const struct hx_module_data *data, struct hx_tbbmalloc *tbb)
{
    for (uint64_t at = (0 - data->start) & 7; at + 8 <= data->len && !tbb->main; at += 8) {
        uint64_t word = hx_data_u64(data, at);
        if (is_elsewhere(data, word) && is_main(data, word, tbb->backend))
            tbb->main = word;
    }
}

static void find_threads(const struct hx_module_data *data, struct hx_tbbmalloc *tbb)
{
    uint64_t at = tbb->backend - data->start, end = at + HX_TBB_BACKEND_MAX;
    for (; at < end && at + 8 <= data->len && !tbb->threads; at += 8) {
        uint64_t word = hx_data_u64(data, at);
        if (!is_elsewhere(data, word) || !is_first_thread(data, word, tbb->backend))
            continue;
        tbb->threads = data->start + at;
        tbb->first_thread = word;
    }
}

/* "TBBmalloc: VERSION\t\t2021.8", what it prints when asked to. */
static void find_version(const struct hx_module_data *data, struct hx_tbbmalloc *tbb)
{
    static const char name[] = "TBBmalloc: VERSION";
    const char *end = (const char *)data->bytes + data->len;
    const char *at = memmem(data->bytes, data->len, name, sizeof name - 1);
    if (!at)
        return;
    at += sizeof name - 1;
    while (at < end && *at == '\t')
        at++;
    for (size_t i = 0; i + 1 < sizeof tbb->version && at + i < end &&
                       ((at[i] >= '0' && at[i] <= '9') || at[i] == '.');
         i++)
        tbb->version[i] = at[i];
}

static bool examine_module(void *context, const struct hx_module_data *data)
{
    struct hx_tbbmalloc *tbb = context;
    for (uint64_t at = (0 - data->start) & 7; at + HX_TBB_TOTAL <= data->len; at += 8) {
        if (hx_data_u64(data, at) != data->start + at || !is_backend(data, at))
            continue;
        *tbb = (struct hx_tbbmalloc){
            .module = data->module, .data = data->start, .backend = data->start + at};
        find_main(data, tbb);
        if (!tbb->main)
            continue;
        find_threads(data, tbb);
        find_version(data, tbb);
        return true;
    }
    return false;
}

hx_error *hx_tbb_find(const struct hx_alloc_target *target, struct hx_allocator_share *share,
                      void **ret_state)
{
    bool found;
    *ret_state = NULL;
    HX_FREE struct hx_tbbmalloc *tbb = calloc(1, sizeof *tbb);
    HX_NEED(tbb);
    HX_TRY(
        hx_module_data_search(target, segment_min, "scalable_malloc", examine_module, tbb, &found));
    if (!found)
        return NULL;
    share->name = strdup("tbbmalloc");
    share->module = strdup(hx_module_name(target->modules, tbb->module));
    share->evidence = strdup("pool and table of back references by shape");
    HX_NEED(share->name && share->module && share->evidence);
    if (tbb->version[0])
        HX_NEED(share->version = strdup(tbb->version));
    *ret_state = hx_steal(tbb);
    return NULL;
}

/* Most of its lists have no locks: threads are led out of its code. */
hx_error *hx_tbb_guard(void *state, const struct hx_alloc_target *target, struct hx_guard *ret)
{
    static const char *const functions[][8] = {
        {"scalable_malloc", "scalable_free", "scalable_calloc", "scalable_realloc",
         "scalable_posix_memalign", "scalable_aligned_malloc", "scalable_msize"}};
    const struct hx_tbbmalloc *tbb = state;
    HX_TRY(hx_guard_module(target, tbb->module, "tbbmalloc", functions, 1, ret));
    HX_NEED(hx_vec_push(&ret->locks,
                        (struct hx_lock_word){tbb->backend + HX_TBB_REGION_LOCK, UINT8_MAX}));
    return NULL;
}
