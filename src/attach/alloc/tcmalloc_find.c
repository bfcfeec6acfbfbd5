/* tcmalloc_find.c - where gperftools' allocator keeps its structures, by their shape.
 *
 * Few builds have symbols for them, and none is needed: the heads of the lists of free runs of
 * pages lead to themselves at equal distances, and how many there are tells the size of a page; the
 * table of size classes agrees with the one that it was made from; the central lists are numbered.
 * All lie in one segment, of more than a megabyte, as the root of the page map is part of it.
 */
#include "attach/alloc/tcmalloc.h"

#include "attach/alloc/module_data.h"
#include "base/cleanup.h"

#include <stdlib.h>
#include <string.h>

enum {
    PAGE = 4096,
    BLOCK = 1 << 16,
    SHIFT_MIN = 12,
    SHIFT_MAX = 18,
    FIRST_MAX = 256,      /* lists of which the first empty one is one */
    MAX_SIZE = 256 << 10, /* the largest size class */
    CLASS_INDEX = ((MAX_SIZE + 127 + 15360) >> 7) + 1, /* entries of class_array_ */
    CACHE_BYTES = (1 << 16) * 8,                       /* pagemap_cache_ */
    VERSION_MAX = 32,                                  /* bytes of that string */
    SETS_BYTES = 2 * 48 + 8,                           /* large_normal_, large_returned_, and
                                                          before them what allocates leaves */
};
static const uint64_t segment_min = UINT64_C(1) << 20;
static const uint64_t constants_max = UINT64_C(64) << 20; /* bytes looked through for a version */

/* --- shapes ---------------------------------------------------------------------------- */

/* The head of a list of spans: links and nothing else. */
static bool is_head(const struct hx_module_data *data, uint64_t offset)
{
    if (offset > data->len || data->len - offset < HX_TC_SPAN)
        return false;
    uint64_t next = hx_data_u64(data, offset + 16), prev = hx_data_u64(data, offset + 24);
    return !hx_data_u64(data, offset) && !hx_data_u64(data, offset + 8) && next && prev &&
           !(next & 7) && !(prev & 7) && !hx_data_u64(data, offset + 32) &&
           !hx_data_u32(data, offset + 40);
}

static bool is_empty_head(const struct hx_module_data *data, uint64_t offset)
{
    uint64_t own = data->start + offset;
    return hx_data_u64(data, offset + 16) == own && hx_data_u64(data, offset + 24) == own &&
           is_head(data, offset);
}

/* Are there n heads from an offset on, but for a few that are damaged? */
static bool are_heads(const struct hx_module_data *data, uint64_t first, uint64_t n)
{
    uint64_t bad = 0;
    for (uint64_t i = 0; i < n && bad * 4 <= n; i++)
        bad += !is_head(data, first + i * HX_TC_SPAN);
    return bad * 4 <= n && !is_head(data, first + n * HX_TC_SPAN);
}

static bool set_heap(const struct hx_module_data *data, uint64_t first, unsigned shift,
                     struct hx_tcmalloc *tc)
{
    unsigned bits = HX_TC_ADDRESS_BITS - shift, leaf_bits = (bits + 1) / 2;
    uint64_t n_root = UINT64_C(1) << (bits - leaf_bits), n = UINT64_C(2) << (20 - shift);
    uint64_t before = CACHE_BYTES + n_root * 8 + SETS_BYTES;
    if (first < before || is_head(data, first - HX_TC_SPAN) || !are_heads(data, first, n) ||
        !hx_modules_is_code(data->target->modules, hx_data_u64(data, first - SETS_BYTES)))
        return false;
    tc->shift = shift;
    tc->leaf_bits = leaf_bits;
    tc->n_root = n_root;
    tc->heap = data->start + first - before;
    tc->root = tc->heap + CACHE_BYTES;
    tc->stats = tc->heap_end = data->start + first + n * HX_TC_SPAN;
    return true;
}

/* The lists of free runs of pages, two for each length up to a megabyte. The head at an offset is
 * one of the first of them. */
static bool examine_heap(const struct hx_module_data *data, uint64_t offset, struct hx_tcmalloc *tc)
{
    for (unsigned i = 0; i < FIRST_MAX && offset >= i * HX_TC_SPAN; i++)
        for (unsigned shift = SHIFT_MIN; shift <= SHIFT_MAX; shift++)
            if (set_heap(data, offset - i * HX_TC_SPAN, shift, tc))
                return true;
    return false;
}

static bool examine_central(const struct hx_module_data *data, uint64_t offset,
                            struct hx_tcmalloc *tc)
{
    if (offset < HX_TC_CENTRAL_EMPTY)
        return false;
    uint64_t base = offset - HX_TC_CENTRAL_EMPTY, n = 0, bad = 0;
    for (; n < tc->n_classes; n++) {
        uint64_t at = base + n * HX_TC_CENTRAL_STRIDE;
        bad += hx_data_u64(data, at + HX_TC_CENTRAL_CLASS) != n ||
               !is_head(data, at + HX_TC_CENTRAL_EMPTY) ||
               !is_head(data, at + HX_TC_CENTRAL_EMPTY + HX_TC_SPAN);
    }
    if (bad * 4 > n)
        return false;
    tc->central = data->start + base;
    return data->start + data->len - tc->central >= tc->n_classes * HX_TC_CENTRAL_STRIDE;
}

/* Which class a size has, as the table that malloc looks into has it. */
static uint64_t class_index(uint64_t size)
{
    return size <= 1024 ? (size + 7) >> 3 : (size + 127 + 15360) >> 7;
}

unsigned hx_tc_class_of(const struct hx_tcmalloc *tc, uint64_t bytes)
{
    for (unsigned i = 1; i < tc->n_classes; i++)
        if (tc->size[i] >= bytes)
            return i;
    return 0;
}

/* class_to_size_ at an offset, with what lies before and behind it. */
static bool examine_classes(const struct hx_module_data *data, uint64_t offset, unsigned room,
                            struct hx_tcmalloc *tc)
{
    uint64_t before = room * 4 + ((CLASS_INDEX + 3) & ~3), pages = (offset + room * 4 + 7);
    pages -= (data->start + pages) & 7;
    if (offset < before || pages > data->len || data->len - pages < room * 8 + 8)
        return false;
    const uint8_t *index = data->bytes + (offset - before);
    uint64_t n = hx_data_u64(data, pages + room * 8);
    if (n < 8 ||
        hx_data_u32(data, offset + (n - 1) * 4) != MAX_SIZE) /* from 2.11 on one word later */
        n = hx_data_u64(data, pages + room * 8 + 8);
    if (n < 8 || n > room || hx_data_u32(data, offset + (n - 1) * 4) != MAX_SIZE)
        return false;
    tc->n_classes = (unsigned)n;
    tc->room = room;
    for (unsigned i = 1; i < n; i++) {
        tc->size[i] = hx_data_u32(data, offset + i * 4);
        tc->batch[i] = hx_data_u32(data, offset - room * 4 + i * 4);
        tc->pages[i] = hx_data_u64(data, pages + i * 8);
        if (tc->size[i] <= tc->size[i - 1] || tc->size[i] > MAX_SIZE || !tc->pages[i] ||
            tc->pages[i] > UINT16_MAX || index[class_index(tc->size[i])] != i ||
            index[class_index(tc->size[i - 1] + 1)] != i)
            return false;
    }
    return true;
}

static bool find_classes(const struct hx_module_data *data, struct hx_tcmalloc *tc)
{
    static const unsigned rooms[] = {128, 96};
    for (uint64_t at = (0 - data->start) & 3; at + 12 <= data->len; at += 4)
        if (hx_data_u32(data, at + 4) == 8 && !hx_data_u32(data, at) &&
            hx_data_u32(data, at + 8) == 16)
            for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++)
                if (examine_classes(data, at, rooms[i], tc))
                    return true;
    return false;
}

static bool find_structures(const struct hx_module_data *data, struct hx_tcmalloc *tc)
{
    bool heap = false, central = false, classes = false;
    for (uint64_t at = (0 - data->start) & 7; at + HX_TC_SPAN <= data->len && !(heap && central);
         at += 8) {
        if (hx_data_u64(data, at + 16) != data->start + at || !is_empty_head(data, at))
            continue;
        if (!classes && !(classes = find_classes(data, tc)))
            return false;
        heap = heap || examine_heap(data, at, tc);
        central = central || examine_central(data, at, tc);
    }
    return heap && central;
}

/* --- thread caches --------------------------------------------------------------------- */

bool hx_tc_is_cache(const struct hx_tcmalloc *tc, const uint8_t *bytes)
{
    for (unsigned i = 1; i < tc->n_classes; i++) {
        uint32_t size;
        memcpy(&size, bytes + i * HX_TC_LIST + HX_TC_LIST_SIZE, sizeof size);
        if (size != tc->size[i])
            return false;
    }
    return true;
}

static void examine_cache(const struct hx_module_data *data, uint64_t addr, struct hx_tcmalloc *tc)
{
    const struct hx_alloc_target *target = data->target;
    uint8_t bytes[HX_TC_LISTS_MAX];
    size_t i = hx_mapping_find(target->mapping, target->n_mappings, addr);
    if (i == target->n_mappings || !(target->mapping[i].prot & HX_PROT_W))
        return;
    for (size_t k = 0; k < tc->n_heads; k++)
        if (tc->heads[k] == addr)
            return;
    if (tc->n_heads < HX_TC_HEADS_MAX &&
        hx_peek_read(target->peek, addr, bytes, tc->n_classes * HX_TC_LIST) &&
        hx_tc_is_cache(tc, bytes))
        tc->heads[tc->n_heads++] = addr;
}

/* Words of the data that lead to thread caches: the list of all of them, and others. */
static void find_caches(const struct hx_module_data *data, struct hx_tcmalloc *tc)
{
    uint64_t central_end = tc->central + (uint64_t)tc->room * HX_TC_CENTRAL_STRIDE;
    for (uint64_t at = (0 - data->start) & 7; at + 8 <= data->len; at += 8) {
        uint64_t addr = data->start + at, word;
        if (addr >= tc->heap && addr < tc->heap_end)
            at = tc->heap_end - data->start;
        else if (addr >= tc->central && addr < central_end)
            at = central_end - data->start;
        word = hx_data_u64(data, at);
        if (word >= PAGE && !(word & 7) && (word < data->start || word >= data->start + data->len))
            examine_cache(data, word, tc);
    }
}

/* --- one module ------------------------------------------------------------------------ */

/* "gperftools 2.10", which tc_version() returns, in what a module has of constants. */
static void find_version(const struct hx_alloc_target *target, struct hx_tcmalloc *tc)
{
    static const char name[] = "gperftools 2.";
    const char *path = hx_module_path(target->modules, tc->module);
    HX_FREE char *buffer = malloc(BLOCK);
    uint64_t looked = 0;
    for (size_t i = 0; buffer && i < target->n_mappings; i++) {
        const struct hx_mapping *mapping = &target->mapping[i];
        if (mapping->prot & HX_PROT_W || !(mapping->prot & HX_PROT_R) ||
            strcmp(mapping->path, path) != 0)
            continue;
        for (uint64_t at = mapping->start; at < mapping->end && looked < constants_max;
             at += BLOCK - PAGE, looked += BLOCK) {
            size_t len = mapping->end - at < BLOCK ? mapping->end - at : BLOCK;
            const char *found = hx_peek_read(target->peek, at, buffer, len)
                                    ? memmem(buffer, len - VERSION_MAX, name, sizeof name - 1)
                                    : NULL;
            if (!found)
                continue;
            found += sizeof "gperftools " - 1;
            for (size_t k = 0;
                 k + 1 < sizeof tc->version && found[k] && strchr("0123456789.", found[k]); k++)
                tc->version[k] = found[k];
            return;
        }
    }
}

static uint64_t symbol_of(const struct hx_alloc_target *target, size_t module, const char *name)
{
    uint64_t addr, size;
    return hx_module_symbol(target->modules, module, name, &addr, &size) ? addr : 0;
}

/* What has a name, where names are left: the lock of the page heap, which is part of it from 2.11
 * on, and how many thread caches there are. */
static void find_named(const struct hx_alloc_target *target, struct hx_tcmalloc *tc)
{
    int minor = strncmp(tc->version, "2.", 2) == 0 ? atoi(tc->version + 2) : 0;
    tc->lock = minor >= 11 ? tc->heap - 8
                           : symbol_of(target, tc->module, "_ZN8tcmalloc6Static14pageheap_lock_E");
    tc->count = symbol_of(target, tc->module, "_ZN8tcmalloc11ThreadCache18thread_heap_count_E");
}

static bool examine_module(void *context, const struct hx_module_data *data)
{
    struct hx_tcmalloc *tc = context;
    *tc = (struct hx_tcmalloc){
        .module = data->module, .data = data->start, .data_end = data->start + data->len};
    if (!find_structures(data, tc))
        return false;
    find_caches(data, tc);
    find_version(data->target, tc);
    find_named(data->target, tc);
    return true;
}

hx_error *hx_tc_find(const struct hx_alloc_target *target, struct hx_allocator_share *share,
                     void **ret_state)
{
    bool found;
    *ret_state = NULL;
    HX_FREE struct hx_tcmalloc *tc = malloc(sizeof *tc);
    HX_NEED(tc);
    HX_TRY(hx_module_data_search(target, segment_min, "tc_malloc", examine_module, tc, &found));
    if (!found)
        return NULL;
    share->name = strdup("tcmalloc");
    share->module = strdup(hx_module_name(target->modules, tc->module));
    share->evidence = strdup("page heap and size classes by shape");
    HX_NEED(share->name && share->module && share->evidence);
    if (tc->version[0])
        HX_NEED(share->version = strdup(tc->version));
    *ret_state = hx_steal(tc);
    return NULL;
}

/* --- guard ----------------------------------------------------------------------------- */

/* Names of functions that lie where all of them do; a list for each place. */
static const char *const functions[][8] = {
    {"tc_malloc", "tc_free", "tc_calloc", "tc_realloc", "tc_memalign", "tc_new", "tc_delete"},
    {"_ZN8tcmalloc15CentralFreeList11InsertRangeEPvS1_i",
     "_ZN8tcmalloc15CentralFreeList11RemoveRangeEPPvS2_i",
     "_ZN8tcmalloc15CentralFreeList8PopulateEv", "_ZN8tcmalloc8PageHeap3NewEm",
     "_ZN8tcmalloc11ThreadCache8ScavengeEv"},
};

hx_error *hx_tc_guard(void *state, const struct hx_alloc_target *target, struct hx_guard *ret)
{
    const struct hx_tcmalloc *tc = state;
    HX_TRY(hx_guard_module(target, tc->module, "tcmalloc", functions,
                           sizeof functions / sizeof *functions, ret));
    for (unsigned i = 0; i < tc->n_classes; i++)
        HX_NEED(hx_vec_push(
            &ret->locks,
            (struct hx_lock_word){tc->central + (uint64_t)i * HX_TC_CENTRAL_STRIDE, UINT32_MAX}));
    if (tc->lock)
        HX_NEED(hx_vec_push(&ret->locks, (struct hx_lock_word){tc->lock, UINT32_MAX}));
    return NULL;
}
