/* thread_locals.c - the blocks of thread-local variables, from link_map and dtv. */
#include "attach/roots/thread_locals.h"

#include "attach/roots/pthread_record.h"
#include "base/cleanup.h"
#include "base/lower_bound.h"

#include <link.h>
#include <stdlib.h>
#include <string.h>

#define MAPS_MAX       65536 /* objects in a list of the loader */
#define MEMBER_MAX     4096  /* bytes of a link_map before the member */
#define DTV_ENTRY      16    /* of a module: its block, and what is to be freed */
#define FIRST_ID       1     /* the loader begins with the program */
#define UNKNOWN_MEMBER SIZE_MAX

/* Where the number of a module is in its link_map: libc tells debuggers { bits, elements, offset }.
 */
static size_t id_member(hx_modules *modules)
{
    uint32_t member[3];
    uint64_t addr, size;
    for (size_t i = 0; i < hx_modules_count(modules); i++)
        if (hx_module_symbol(modules, i, "_thread_db_link_map_l_tls_modid", &addr, &size) &&
            hx_module_read(modules, addr, member, sizeof member) && member[0] == 64 &&
            member[2] <= MEMBER_MAX)
            return member[2];
    return UNKNOWN_MEMBER;
}

static void number_by_list(const struct hx_snapshot *snapshot, hx_modules *modules, uint64_t map,
                           size_t member, uint64_t *id)
{
    const struct hx_image *image = &snapshot->image;
    uint64_t bias, dynamic, number;
    for (unsigned i = 0; map && i < MAPS_MAX; i++) {
        if (!hx_image_u64(image, map + offsetof(struct link_map, l_addr), &bias) ||
            !hx_image_u64(image, map + offsetof(struct link_map, l_ld), &dynamic) ||
            !hx_image_u64(image, map + member, &number))
            return;
        const size_t module = hx_modules_find(modules, dynamic);
        if (module != SIZE_MAX && hx_module_bias(modules, module) == bias)
            id[module] = number;
        if (!hx_image_u64(image, map + offsetof(struct link_map, l_next), &map))
            return;
    }
}

/* The number of each module that has thread-local variables; 0: it is not known. */
static void number_modules(const struct hx_snapshot *snapshot, hx_modules *modules, uint64_t *id)
{
    const size_t n = hx_modules_count(modules), member = id_member(modules);
    uint64_t debug, size, map;
    size_t having = 0, only = 0;
    for (size_t i = 0; i < n && member != UNKNOWN_MEMBER; i++)
        if (hx_module_symbol(modules, i, "_r_debug", &debug, &size) &&
            hx_image_u64(&snapshot->image, debug + offsetof(struct r_debug, r_map), &map))
            number_by_list(snapshot, modules, map, member, id);
    for (size_t i = 0; i < n; i++)
        if (hx_module_tls_bytes(modules, i)) {
            only = i;
            having++;
        }
    if (having == 1 && !id[only])
        id[only] = FIRST_ID;
}

static int compare_blocks(const void *a, const void *b)
{
    const struct hx_thread_block *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

static void drop_overlapping(hx_thread_blocks *blocks)
{
    size_t kept = 0;
    if (blocks->n)
        qsort(blocks->v, blocks->n, sizeof *blocks->v, compare_blocks);
    for (size_t i = 0; i < blocks->n; i++)
        if (!kept || blocks->v[kept - 1].end <= blocks->v[i].start)
            blocks->v[kept++] = blocks->v[i];
    blocks->n = kept;
}

/* On the heap a block has to be one with its object. */
static bool is_block_whole(const struct hx_snapshot *snapshot, uint64_t start, uint64_t bytes)
{
    const struct hx_graph *graph = &snapshot->graph;
    const size_t segment =
        HX_LOWER_BOUND(snapshot->segments.n, i, snapshot->segments.v[i].end <= start);
    if (segment == snapshot->segments.n || snapshot->segments.v[segment].start >= start + bytes)
        return true;
    const hx_obj object = hx_graph_find(graph, start);
    return object < graph->n && start + bytes <= graph->addr[object] + graph->size[object];
}

hx_error *hx_thread_blocks_find(const struct hx_snapshot *snapshot, hx_modules *modules,
                                hx_thread_blocks *ret)
{
    const size_t n = hx_modules_count(modules);
    HX_FREE uint64_t *id = calloc(n + 1, sizeof *id);
    HX_NEED(id);
    number_modules(snapshot, modules, id);
    for (size_t i = 0; i < snapshot->n_threads; i++) {
        const struct hx_thread *thread = &snapshot->thread[i];
        struct hx_pthread_record record;
        uint64_t entries, start;
        if (!thread->tp || !hx_pthread_read(&snapshot->image, thread->tp, &record) ||
            !hx_image_u64(&snapshot->image, record.word[1] - DTV_ENTRY, &entries))
            continue;
        for (size_t k = 0; k < n; k++) {
            const uint64_t bytes = id[k] && id[k] <= entries ? hx_module_tls_bytes(modules, k) : 0;
            /* the thread may not have used it yet: then that is 0 or -1 */
            if (bytes &&
                hx_image_u64(&snapshot->image, record.word[1] + DTV_ENTRY * id[k], &start) &&
                start && bytes < UINT64_MAX - start && is_block_whole(snapshot, start, bytes))
                HX_NEED(hx_vec_push(
                    ret, (struct hx_thread_block){start, start + bytes, k, thread->tid}));
        }
    }
    drop_overlapping(ret);
    return NULL;
}
