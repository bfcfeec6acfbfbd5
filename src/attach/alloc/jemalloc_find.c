/* jemalloc_find.c - where a target has a jemalloc, by its shape, without symbols.
 *
 * Only modules with a large .bss are looked at, as the root of jemalloc's tree is there. Beside it
 * is the array of arenas, whose pointers lead into base blocks: rare enough to be told by their
 * heads alone. Then an arena must lead to a base that has its number.
 */
#include "attach/alloc/jemalloc.h"
#include "attach/alloc/module_data.h"

#include "base/cleanup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHUNK = 32768,       /* bytes of one read */
    DATA_MIN = 96 << 10, /* the smallest root and the array */
    TESTS_MAX = 20000,   /* base blocks that are looked for in one process */
    REFUSED = 1024,
    VERSION_BYTES = 64, /* "5.3.0-0-g54eaed1d8b56b1aa528be3bdd1877e59c56fa90c" */
};
static const uint64_t data_max = UINT64_C(256) << 20; /* bytes looked at in one process */
static const uint64_t block_mask = ~(HX_JEMALLOC_BLOCK - 1);

struct search {
    const struct hx_alloc_target *target;
    struct hx_jemalloc *found;
    uint8_t *buffer; /* CHUNK */
    uint64_t looked;
    unsigned tests;
    uint64_t refused[REFUSED]; /* blocks that are no base, by their numbers' lowest bits */
};

/* --- an arena ---------------------------------------------------------------------------- */

/* What is left of a block ends where the block does. */
bool hx_jemalloc_is_base(const struct hx_peek *peek, uint64_t addr, uint64_t *ret_size,
                         uint64_t *ret_next)
{
    uint64_t head[5]; /* size, next, bits, address and size of what is left */
    if (!addr || addr & ~block_mask || !hx_peek_read(peek, addr, head, sizeof head))
        return false;
    if (!head[0] || head[0] & ~block_mask || head[0] >> 40 || head[1] & ~block_mask ||
        head[3] <= addr || head[3] > addr + head[0] || head[3] + head[4] != addr + head[0])
        return false;
    *ret_size = head[0];
    *ret_next = head[1];
    return true;
}

/* The number of an arena of this layout at addr; -1: there is none. */
static int arena_number(const struct hx_peek *peek, const struct hx_jemalloc_layout *layout,
                        uint64_t addr)
{
    uint64_t base, blocks, size, next;
    uint32_t number;
    if (!hx_peek_u64(peek, addr + layout->base, &base) ||
        (base & block_mask) != (addr & block_mask) || base & 7 ||
        !hx_peek_u32(peek, base, &number) || number >= HX_JEMALLOC_ARENAS_MAX ||
        !hx_peek_u64(peek, base + layout->base_blocks, &blocks) ||
        !hx_jemalloc_is_base(peek, blocks, &size, &next))
        return -1;
    return (int)number;
}

/* Is it the array? Its words are zero, or lead to the arena of that number; damage is tolerated. */
static bool is_array(const struct search *search, const struct hx_jemalloc_layout *layout,
                     uint64_t array)
{
    HX_FREE uint64_t *arena = malloc(HX_JEMALLOC_ARENAS_MAX * sizeof *arena);
    const struct hx_peek *peek = search->target->peek;
    unsigned n = 0, good = 0;
    if (!arena || array & 63)
        return false;
    hx_peek_pages(peek, array, (uint8_t *)arena, HX_JEMALLOC_ARENAS_MAX * sizeof *arena);
    for (int i = 0; i < HX_JEMALLOC_ARENAS_MAX; i++) {
        n += arena[i] != 0;
        good += arena[i] && !(arena[i] & 63) && arena_number(peek, layout, arena[i]) == i;
    }
    return good && good >= n - n / 4;
}

/* --- its version --------------------------------------------------------------------------- */

/* "5.3.0-0-g54ea": 50300; 0: it is none. */
static unsigned parse_version(const char *text, char ret[24])
{
    unsigned major, minor, patch;
    int n = 0, all = 0;
    if (sscanf(text, "%1u.%2u.%2u%n-%*u-g%n", &major, &minor, &patch, &n, &all) < 3 || !all)
        return 0;
    memcpy(ret, text, (size_t)n);
    ret[n] = '\0';
    return major * 10000 + minor * 100 + patch;
}

static unsigned version_in(const char *bytes, size_t len, char ret[24])
{
    const char *at = bytes, *end = bytes + len;
    while ((at = memmem(at, (size_t)(end - at), "-g", 2))) {
        const char *start = at;
        while (start > bytes && at - start < 16 && start[-1] != '\0')
            start--;
        char text[24] = "";
        memcpy(text, start, (size_t)(at + 2 - start));
        unsigned version = parse_version(text, ret);
        if (version)
            return version;
        at += 2;
    }
    return 0;
}

static unsigned find_version(struct search *search, size_t module, char ret[24])
{
    const struct hx_alloc_target *target = search->target;
    for (size_t i = 0; i < target->n_mappings; i++) {
        const struct hx_mapping *m = &target->mapping[i];
        if (m->prot & (HX_PROT_W | HX_PROT_X) || !(m->prot & HX_PROT_R) || !m->inode ||
            hx_modules_find(target->modules, m->start) != module)
            continue;
        for (uint64_t at = m->start; at < m->end && search->looked < data_max;) {
            size_t len = m->end - at < CHUNK ? m->end - at : CHUNK;
            search->looked += len;
            unsigned version = 0;
            if (hx_module_read(target->modules, at, search->buffer, len) ||
                hx_peek_read(target->peek, at, search->buffer, len))
                version = version_in((const char *)search->buffer, len, ret);
            if (version)
                return version;
            at += len == CHUNK ? CHUNK - VERSION_BYTES : len;
        }
    }
    return 0;
}

/* --- search -------------------------------------------------------------------------------- */

/* A pointer at `at` that leads into a base block. */
static void consider(struct search *search, struct hx_jemalloc_heap *heap, uint64_t at,
                     uint64_t word)
{
    for (size_t i = 0; i < hx_jemalloc_n_layouts && !heap->arenas; i++) {
        const struct hx_jemalloc_layout *layout = &hx_jemalloc_layouts[i];
        int number = arena_number(search->target->peek, layout, word);
        uint64_t array = at - (uint64_t)(number < 0 ? 0 : number) * 8;
        if (number < 0 || !is_array(search, layout, array))
            continue;
        heap->layout = layout;
        heap->arenas = array;
    }
}

static bool may_lead_to_base(struct search *search, uint64_t word)
{
    uint64_t block = word & block_mask, size, next,
             *refused = &search->refused[block / HX_JEMALLOC_BLOCK % REFUSED];
    if (word & 63 || !block || word >> 56 || block == *refused)
        return false;
    const struct hx_alloc_target *target = search->target;
    size_t i = hx_mapping_find(target->mapping, target->n_mappings, word);
    if (i == target->n_mappings || target->mapping[i].start > block ||
        !(target->mapping[i].prot & HX_PROT_W) || search->tests == TESTS_MAX)
        return false;
    search->tests++;
    if (hx_jemalloc_is_base(target->peek, block, &size, &next))
        return true;
    *refused = block;
    return false;
}

static void scan_data(struct search *search, struct hx_jemalloc_heap *heap, uint64_t start,
                      uint64_t end)
{
    const struct hx_peek *peek = search->target->peek;
    start = (start + 7) & ~(uint64_t)7;
    for (uint64_t at = start; at < end && search->looked < data_max; at += CHUNK) {
        size_t len = end - at < CHUNK ? end - at : CHUNK;
        search->looked += len;
        hx_peek_pages(peek, at, search->buffer, len);
        for (size_t i = 0; i + 8 <= len && !heap->arenas; i += 8) {
            uint64_t word;
            memcpy(&word, search->buffer + i, sizeof word);
            if (may_lead_to_base(search, word))
                consider(search, heap, at + i, word);
        }
        if (heap->arenas)
            return;
    }
}

/* The layout that was found by shape has to be that of the version that the file tells. */
static void name_heap(struct search *search, struct hx_jemalloc_heap *heap)
{
    unsigned version = find_version(search, heap->module, heap->version);
    if (version && (version < heap->layout->first || version > heap->layout->last))
        heap->layout = NULL;
}

static void search_module(struct search *search, size_t module)
{
    struct hx_jemalloc_heap *heap = &search->found->heap[search->found->n];
    uint64_t most = 0;
    *heap = (struct hx_jemalloc_heap){.module = module};
    heap->n_data = hx_module_data(search->target->modules, module, heap->data, 2);
    for (size_t i = 0; i < heap->n_data; i++)
        if (heap->data[i][1] - heap->data[i][0] > most)
            most = heap->data[i][1] - heap->data[i][0];
    for (size_t i = 0; i < heap->n_data && most >= DATA_MIN && !heap->arenas; i++)
        scan_data(search, heap, heap->data[i][0], heap->data[i][1]);
    if (!heap->arenas)
        return;
    name_heap(search, heap);
    search->found->n++;
}

static hx_error *name_share(const struct hx_alloc_target *target, const struct hx_jemalloc *found,
                            struct hx_allocator_share *share)
{
    const struct hx_jemalloc_heap *heap = &found->heap[0];
    share->name = strdup("jemalloc");
    share->module = strdup(hx_module_name(target->modules, heap->module));
    share->evidence = strdup("arenas by shape");
    HX_NEED(share->name && share->module && share->evidence);
    if (heap->version[0])
        HX_NEED(share->version = strdup(heap->version));
    return NULL;
}

/* --- code and locks -------------------------------------------------------------------------- */

/* Of a library of its own, all of its code; of what was linked in, from the first to the last of
 * functions that lie in its first and its last files. */
static struct hx_range code_of(hx_modules *modules, size_t module)
{
    static const char *const prefixes[] = {"je_", "_rjem_je_", ""};
    static const char *const names[] = {"malloc_default",
                                        "free_default",
                                        "a0malloc",
                                        "sdallocx_default",
                                        "arena_ralloc",
                                        "arena_boot",
                                        "arena_prefork8",
                                        "base_alloc",
                                        "large_dalloc",
                                        "malloc_mutex_boot",
                                        "rtree_new",
                                        "tcache_arena_associate",
                                        "tcache_boot",
                                        "tcache_postfork_child",
                                        "tsd_boot0",
                                        "tsd_fetch_slow",
                                        "tsd_postfork_child",
                                        "malloc_usable_size",
                                        "mallocx",
                                        "xallocx"};
    struct hx_range range = {UINT64_MAX, 0};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes && !range.end; i++)
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            char name[64];
            uint64_t addr, size;
            snprintf(name, sizeof name, "%s%s", prefixes[i], names[k]);
            if (!hx_module_symbol(modules, module, name, &addr, &size))
                continue;
            range.start = addr < range.start ? addr : range.start;
            range.end = addr + size > range.end ? addr + size : range.end;
        }
    return range.end > range.start && range.end - range.start < 4 << 20 ? range
                                                                        : (struct hx_range){0};
}

static hx_error *add_code(const struct hx_alloc_target *target, size_t module, struct hx_guard *ret)
{
    if (strstr(hx_module_name(target->modules, module), "jemalloc"))
        return hx_guard_module(target, module, "jemalloc", NULL, 0, ret);
    struct hx_range code = code_of(target->modules, module);
    return code.end ? hx_guard_lockless(ret, code) : NULL;
}

/* A thread that was stopped on the way into or out of a mutex is not out of jemalloc. */
static hx_error *add_mutex_code(hx_modules *modules, struct hx_guard *ret)
{
    static const char *const names[] = {"pthread_mutex_lock", "pthread_mutex_trylock",
                                        "pthread_mutex_unlock"};
    for (size_t i = 0; i < hx_modules_count(modules); i++)
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            uint64_t addr, size;
            if (!hx_module_symbol(modules, i, names[k], &addr, &size))
                break;
            HX_NEED(hx_vec_push(&ret->code, (struct hx_range){addr, addr + size}));
        }
    return NULL;
}

static hx_error *push_lock(struct hx_guard *guard, uint64_t addr)
{
    HX_NEED(hx_vec_push(&guard->locks, (struct hx_lock_word){.addr = addr, .mask = UINT32_MAX}));
    return NULL;
}

static hx_error *guard_arena(const struct hx_jemalloc_layout *layout, const struct hx_peek *peek,
                             uint64_t arena, struct hx_guard *ret)
{
    uint64_t base = 0;
    for (unsigned i = 0; i < HX_JEMALLOC_MUTEXES && layout->mutex[i]; i++)
        HX_TRY(push_lock(ret, arena + layout->mutex[i] + layout->lock));
    if (hx_peek_u64(peek, arena + layout->base, &base))
        HX_TRY(push_lock(ret, base + layout->base_mutex + layout->lock));
    for (unsigned i = 0; i < hx_jemalloc_bins(layout); i++) {
        uint64_t bin = arena + layout->bins + i * layout->bin_bytes;
        if (layout->flat_bins || hx_peek_u64(peek, arena + layout->bins + 8u * i, &bin))
            HX_TRY(push_lock(ret, bin + layout->lock));
    }
    return NULL;
}

hx_error *hx_jemalloc_guard(void *state, const struct hx_alloc_target *target, struct hx_guard *ret)
{
    const struct hx_jemalloc *found = state;
    const size_t bytes = HX_JEMALLOC_ARENAS_MAX * sizeof(uint64_t);
    HX_FREE uint64_t *arena = malloc(bytes);
    HX_NEED(arena);
    for (size_t i = 0; i < found->n; i++)
        HX_TRY(add_code(target, found->heap[i].module, ret));
    if (ret->lockless)
        HX_TRY(add_mutex_code(target->modules, ret));
    for (size_t i = 0; i < found->n; i++) {
        const struct hx_jemalloc_heap *heap = &found->heap[i];
        if (!heap->layout)
            continue;
        hx_peek_pages(target->peek, heap->arenas, (uint8_t *)arena, bytes);
        for (size_t k = 0; k < HX_JEMALLOC_ARENAS_MAX; k++)
            if (arena[k])
                HX_TRY(guard_arena(heap->layout, target->peek, arena[k], ret));
    }
    return NULL;
}

/* --- all of it ------------------------------------------------------------------------------- */

static hx_error *do_find(struct search *search, struct hx_allocator_share *share)
{
    hx_modules *modules = search->target->modules;
    size_t n = modules ? hx_modules_count(modules) : 0;
    HX_NEED(search->buffer);
    for (size_t i = 0; i < n && search->found->n < HX_JEMALLOC_HEAPS; i++)
        search_module(search, i);
    if (!search->found->n)
        return NULL;
    return name_share(search->target, search->found, share);
}

hx_error *hx_jemalloc_find(const struct hx_alloc_target *target, struct hx_allocator_share *share,
                           void **ret_state)
{
    HX_FREE uint8_t *buffer = malloc(CHUNK);
    struct hx_jemalloc *found = calloc(1, sizeof *found);
    *ret_state = NULL;
    HX_NEED(found);
    struct search search = {.target = target, .found = found, .buffer = buffer};
    hx_error *err = do_find(&search, share);
    if (!err && found->n) {
        *ret_state = found;
        return NULL;
    }
    free(found);
    return err;
}
