/* jemalloc_tree.c - jemalloc's radix tree, from its root to the records of all extents.
 *
 * The root lies somewhere in the data of its module. Arenas have lists of extents; the root is
 * where the node of such an extent's address leads, through all levels, to its record. What the
 * tree says is believed where the record says the same: it has the address that led to it.
 */
#include "attach/alloc/jemalloc.h"

#include <stdlib.h>
#include <string.h>

enum {
    LEVELS_MAX = 3,
    KNOWN_MAX = 64,      /* extents that a root is proven by */
    NODES_MAX = 1 << 18, /* that are looked at */
    RECORD_BYTES = 64,   /* before the bitmap of a slab */
    QUICK_BYTES = 24,    /* bits, address, size */
};

/* How a tree is built that tells `vaddr` bits apart. */
struct shape {
    unsigned vaddr, levels;
    unsigned shift[LEVELS_MAX], bits[LEVELS_MAX]; /* of an address, root first */
    unsigned leaf_bytes;                          /* of an element */
};

static struct shape shape_of(const struct hx_jemalloc_layout *layout, unsigned vaddr)
{
    unsigned bits = vaddr - layout->lg_page;
    struct shape shape = {.vaddr = vaddr, .levels = bits <= 36 ? 2 : 3};
    unsigned n = shape.levels, rest = bits % n;
    for (unsigned i = 0; i < n; i++)
        shape.bits[i] = bits / n;
    shape.bits[n - 1] += rest - (n == 3 ? rest / 2 : 0);
    if (n == 3)
        shape.bits[1] += rest / 2;
    unsigned shift = layout->lg_page;
    for (unsigned i = n; i-- > 0; shift += shape.bits[i])
        shape.shift[i] = shift;
    /* where an address leaves room for the size class, all is in one word */
    shape.leaf_bytes = vaddr <= 56 ? 8 : 16;
    return shape;
}

static uint64_t key_at(const struct shape *shape, unsigned level, uint64_t addr)
{
    return addr >> shape->shift[level] & ((UINT64_C(1) << shape->bits[level]) - 1);
}

/* The record that a leaf's first word points to; what lies in its low bits are flags. */
static uint64_t record_of(const struct shape *shape, uint64_t word)
{
    return word & ((UINT64_C(1) << (shape->vaddr < 56 ? shape->vaddr : 56)) - 1) & ~UINT64_C(63);
}

static bool in_blocks(const struct hx_jemalloc_walk *walk, uint64_t addr, uint64_t bytes)
{
    size_t low = 0, high = walk->blocks.n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (walk->blocks.v[middle].end > addr)
            high = middle;
        else
            low = middle + 1;
    }
    return low < walk->blocks.n && walk->blocks.v[low].start <= addr &&
           walk->blocks.v[low].end - addr >= bytes;
}

/* --- records ------------------------------------------------------------------------------- */

static uint64_t bits_at(uint64_t word, unsigned shift, unsigned n)
{
    return word >> shift & ((UINT64_C(1) << n) - 1);
}

static bool read_bitmap(const struct hx_jemalloc_walk *walk, uint64_t record,
                        struct hx_jemalloc_extent *extent)
{
    uint64_t n =
        extent->szind < HX_JEMALLOC_SIZES ? extent->size / hx_jemalloc_size(extent->szind) : 0;
    if (!n || extent->szind >= hx_jemalloc_bins(walk->layout) ||
        n > UINT64_C(1) << (walk->layout->lg_page - 3))
        return false;
    extent->bitmap = hx_image_at(walk->image, record + RECORD_BYTES, (n + 63) / 64 * 8);
    return extent->bitmap != NULL;
}

bool hx_jemalloc_extent(const struct hx_jemalloc_walk *walk, uint64_t record,
                        struct hx_jemalloc_extent *ret)
{
    const struct hx_jemalloc_layout *layout = walk->layout;
    uint64_t page = UINT64_C(1) << layout->lg_page, word[QUICK_BYTES / 8];
    if (!in_blocks(walk, record, RECORD_BYTES))
        return false;
    const uint8_t *at = hx_image_at(walk->image, record, QUICK_BYTES);
    if (!at)
        return false;
    memcpy(word, at, sizeof word);
    *ret = (struct hx_jemalloc_extent){
        .addr = word[1] & ~(page - 1),
        .size = word[2] & ~(page - 1),
        .block = word[1],
        .arena = (unsigned)bits_at(word[0], 0, 12),
        .slab = word[0] >> 12 & 1,
        .committed = word[0] >> 13 & 1,
        .huge = layout->stacks && word[0] >> 14 & 1,
        .state = (unsigned)bits_at(word[0], layout->state_shift, layout->state_bits),
        .szind = (unsigned)bits_at(word[0], layout->szind_shift, 8),
        .nfree = (unsigned)bits_at(word[0], layout->szind_shift + 8, layout->lg_page - 2),
        .shard = (unsigned)bits_at(word[0], layout->szind_shift + 6 + layout->lg_page, 6),
    };
    if (!ret->addr || !ret->size || ret->addr >> 56 || ret->size > (UINT64_C(1) << 56) - ret->addr)
        return false;
    if (ret->state != HX_JEMALLOC_ACTIVE)
        ret->slab = false;
    return !ret->slab || read_bitmap(walk, record, ret);
}

/* --- the root ------------------------------------------------------------------------------ */

struct known {
    uint64_t record, addr;
};

static void note_known(const struct hx_jemalloc_walk *walk, uint64_t at, struct known *known,
                       size_t *n)
{
    uint64_t record;
    struct hx_jemalloc_extent extent;
    if (*n < KNOWN_MAX && hx_image_u64(walk->image, at, &record) && record && !(record & 63) &&
        hx_jemalloc_extent(walk, record, &extent) && extent.state == HX_JEMALLOC_ACTIVE)
        known[(*n)++] = (struct known){record, extent.addr};
}

uint64_t hx_jemalloc_bin(const struct hx_jemalloc_walk *walk, uint64_t arena, unsigned i)
{
    const struct hx_jemalloc_layout *layout = walk->layout;
    uint64_t bin = arena + layout->bins + i * layout->bin_bytes;
    if (!layout->flat_bins && !hx_image_u64(walk->image, arena + layout->bins + 8u * i, &bin))
        return 0;
    return bin;
}

/* Extents that arenas have in their lists. */
static size_t find_known(const struct hx_jemalloc_walk *walk, struct known *known)
{
    const struct hx_jemalloc_layout *layout = walk->layout;
    size_t n = 0;
    for (size_t i = 0; i < walk->arenas.n && n < KNOWN_MAX; i++) {
        uint64_t arena = walk->arenas.v[i].addr;
        note_known(walk, arena + layout->large, known, &n);
        for (unsigned k = 0; k < hx_jemalloc_bins(layout); k++) {
            uint64_t bin = hx_jemalloc_bin(walk, arena, k);
            note_known(walk, bin + layout->bin_current, known, &n);
            note_known(walk, bin + layout->bin_full, known, &n);
        }
    }
    return n;
}

/* Does the node that the root has for this extent lead to its record? */
static bool leads_to(const struct hx_jemalloc_walk *walk, const struct shape *shape, uint64_t node,
                     const struct known *known)
{
    unsigned level = 1;
    for (; level + 1 < shape->levels; level++)
        if (!node ||
            !hx_image_u64(walk->image, node + 8 * key_at(shape, level, known->addr), &node))
            return false;
    uint64_t word;
    return node &&
           hx_image_u64(walk->image, node + shape->leaf_bytes * key_at(shape, level, known->addr),
                        &word) &&
           record_of(shape, word) == known->record;
}

static bool root_holds(const struct hx_jemalloc_walk *walk, const struct shape *shape,
                       uint64_t root, const struct known *known, size_t n)
{
    size_t good = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t node;
        good += hx_image_u64(walk->image, root + 8 * key_at(shape, 0, known[i].addr), &node) &&
                leads_to(walk, shape, node, &known[i]);
    }
    return good * 4 >= n * 3;
}

/* Looks through one range of data for a word that leads to known[0]. */
static uint64_t search_root(const struct hx_jemalloc_walk *walk, const struct shape *shape,
                            const uint64_t range[2], const struct known *known, size_t n)
{
    const struct hx_image *image = walk->image;
    uint64_t bytes = UINT64_C(8) << shape->bits[0];
    for (size_t i = hx_image_find(image, range[0]); i < image->n; i++) {
        const struct hx_span *span = &image->span[i];
        uint64_t at = ((span->start > range[0] ? span->start : range[0]) + 7) & ~UINT64_C(7);
        for (; at + 8 <= span->end && at + 8 <= range[1]; at += 8) {
            uint64_t word, root = at - 8 * key_at(shape, 0, known->addr);
            memcpy(&word, span->bytes + (at - span->start), sizeof word);
            if (!word || word & 63 || root < range[0] || root > range[1] ||
                range[1] - root < bytes || !in_blocks(walk, word, 64))
                continue;
            if (leads_to(walk, shape, word, known) && root_holds(walk, shape, root, known, n))
                return root;
        }
        if (span->end >= range[1])
            break;
    }
    return 0;
}

void hx_jemalloc_find_root(struct hx_jemalloc_walk *walk)
{
    static const unsigned vaddrs[] = {48, 57, 47, 52};
    struct known known[KNOWN_MAX];
    size_t n = find_known(walk, known);
    for (size_t v = 0; v < sizeof vaddrs / sizeof *vaddrs && !walk->root; v++) {
        struct shape shape = shape_of(walk->layout, vaddrs[v]);
        walk->vaddr = vaddrs[v];
        walk->root_bytes = UINT64_C(8) << shape.bits[0];
        for (size_t k = 0; k < n && k < 4 && !walk->root; k++)
            for (size_t i = 0; i < walk->heap->n_data && !walk->root; i++)
                walk->root = search_root(walk, &shape, walk->heap->data[i], &known[k], n - k);
    }
}

/* --- all extents --------------------------------------------------------------------------- */

/* A leaf, and the addresses that it is for. */
struct node {
    uint64_t at, addr;
};
typedef HX_VEC(struct node) nodes;

static int by_place(const void *a, const void *b)
{
    const struct node *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

static int by_addr(const void *a, const void *b)
{
    const struct node *x = a, *y = b;
    return (x->addr > y->addr) - (x->addr < y->addr);
}

/* Each node is for one stretch of addresses: of those that share memory one is kept. */
static void drop_shared(struct hx_jemalloc_walk *walk, nodes *all, uint64_t bytes)
{
    size_t n = 0;
    qsort(all->v, all->n, sizeof *all->v, by_place);
    for (size_t i = 0; i < all->n; i++)
        if (n && all->v[n - 1].at + bytes > all->v[i].at)
            walk->bad_nodes++;
        else
            all->v[n++] = all->v[i];
    all->n = n;
    qsort(all->v, all->n, sizeof *all->v, by_addr);
}

/* The nodes of the next level that one node of this level has. */
static hx_error *add_nodes(struct hx_jemalloc_walk *walk, const struct shape *shape, unsigned level,
                           const struct node *node, nodes *ret)
{
    const struct hx_image *image = walk->image;
    uint64_t end = node->at + (UINT64_C(8) << shape->bits[level]);
    unsigned bytes = level + 2 == shape->levels ? shape->leaf_bytes : 8;
    for (size_t i = hx_image_find(image, node->at); i < image->n && image->span[i].start < end;
         i++) {
        const struct hx_span *span = &image->span[i];
        uint64_t at = span->start > node->at ? span->start : node->at;
        for (; at + 8 <= span->end && at + 8 <= end; at += 8) {
            struct node next = {.addr = node->addr | (at - node->at) / 8 << shape->shift[level]};
            memcpy(&next.at, span->bytes + (at - span->start), sizeof next.at);
            if (!next.at)
                continue;
            if (in_blocks(walk, next.at, (uint64_t)bytes << shape->bits[level + 1]) &&
                ret->n < NODES_MAX)
                HX_NEED(hx_vec_push(ret, next));
            else
                walk->bad_nodes++;
        }
    }
    return NULL;
}

static hx_error *add_slab(struct hx_jemalloc_walk *walk, uint64_t record,
                          const struct hx_jemalloc_extent *extent)
{
    uint64_t bytes = hx_jemalloc_size(extent->szind);
    walk->n_slabs++;
    return hx_slabs_add(walk->slabs,
                        &(struct hx_slab){
                            .start = extent->addr,
                            .end = extent->addr + extent->size,
                            .first = extent->addr,
                            .stride = bytes,
                            .usable = bytes,
                            .n = (uint32_t)(extent->size / bytes),
                            .rest = HX_BLOCK_OWN,
                            .tag = hx_jemalloc_tag(record, extent->szind, walk->number),
                        });
}

/* A large block has its size class, and may have a page more, so that it can begin anywhere in its
 * first one. Where it is not rounded up to its class, small ones tell which it is: no other size
 * would be in their class. */
static void vote_pad(struct hx_jemalloc_walk *walk, const struct hx_jemalloc_extent *extent)
{
    uint64_t most = hx_jemalloc_size(extent->szind), least = hx_jemalloc_size(extent->szind - 1);
    uint64_t page = UINT64_C(1) << walk->layout->lg_page;
    walk->against_none += extent->size > most || extent->block != extent->addr;
    walk->against_pad += extent->size <= page || extent->size - page <= least;
}

/* A block that is sampled has the pages of the smallest large one. */
static bool is_large(const struct hx_jemalloc_walk *walk, const struct hx_jemalloc_extent *extent)
{
    unsigned small = hx_jemalloc_bins(walk->layout);
    uint64_t page = UINT64_C(1) << walk->layout->lg_page, size = extent->size;
    uint64_t whole = hx_jemalloc_size(extent->szind < small ? small : extent->szind);
    if (extent->block & 63)
        return false;
    if (walk->layout->unrounded && extent->szind > small)
        return size <= whole + page && size > hx_jemalloc_size(extent->szind - 1);
    return size == whole || size == whole + page;
}

static hx_error *add_large(struct hx_jemalloc_walk *walk, uint64_t record,
                           const struct hx_jemalloc_extent *extent)
{
    uint64_t bytes = hx_jemalloc_size(extent->szind), end = extent->addr + extent->size;
    if (!is_large(walk, extent)) {
        walk->bad_extents++;
        return NULL;
    }
    if (walk->layout->unrounded && extent->szind >= hx_jemalloc_bins(walk->layout)) {
        vote_pad(walk, extent);
        bytes = end - extent->block < bytes ? end - extent->block : bytes;
    }
    return hx_slabs_add(walk->slabs,
                        &(struct hx_slab){
                            .start = extent->addr,
                            .end = end,
                            .first = extent->block,
                            .stride = bytes,
                            .usable = bytes,
                            .n = 1,
                            .rest = HX_BLOCK_OWN,
                            .tag = hx_jemalloc_tag(record, extent->szind, walk->number),
                        });
}

static void count_active(struct hx_jemalloc_walk *walk, struct hx_jemalloc_arena *arena,
                         const struct hx_jemalloc_extent *extent)
{
    arena->pages += extent->size >> walk->layout->lg_page;
    if (!extent->slab)
        return;
    arena->bin[extent->szind].slabs++;
    arena->bin[extent->szind].regs +=
        (uint32_t)(extent->size / hx_jemalloc_size(extent->szind)) - extent->nfree;
    if (extent->shard > walk->shard_max[extent->szind])
        walk->shard_max[extent->szind] = extent->shard;
}

static struct hx_jemalloc_arena *arena_of(struct hx_jemalloc_walk *walk, unsigned number)
{
    size_t low = 0, high = walk->arenas.n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (walk->arenas.v[middle].number >= number)
            high = middle;
        else
            low = middle + 1;
    }
    bool found = low < walk->arenas.n && walk->arenas.v[low].number == number;
    return found ? &walk->arenas.v[low] : NULL;
}

/* One that is active and has no size class is on its way to the system, or to another list. */
static hx_error *add_extent(struct hx_jemalloc_walk *walk, uint64_t record,
                            const struct hx_jemalloc_extent *extent)
{
    struct hx_jemalloc_arena *arena = arena_of(walk, extent->arena);
    bool active = extent->state == HX_JEMALLOC_ACTIVE && extent->szind < HX_JEMALLOC_SIZES;
    if (!arena || (active && !extent->committed)) {
        walk->bad_extents++;
        return NULL;
    }
    walk->n_extents++;
    walk->n_huge += extent->huge;
    walk->in_work += extent->state > HX_JEMALLOC_RETAINED;
    if (active)
        count_active(walk, arena, extent);
    if (active && extent->slab)
        return add_slab(walk, record, extent);
    if (active)
        return add_large(walk, record, extent);
    if (!extent->committed)
        return NULL; /* address space alone */
    return hx_slabs_add_memory(walk->slabs, extent->addr, extent->addr + extent->size,
                               HX_BLOCK_FREE);
}

/* Both ends of an extent lead to its record; a slab is the only one of which more pages do. */
static hx_error *add_extents(struct hx_jemalloc_walk *walk, const struct shape *shape,
                             const struct node *leaf)
{
    const struct hx_image *image = walk->image;
    unsigned level = shape->levels - 1, bytes = shape->leaf_bytes;
    uint64_t end = leaf->at + ((uint64_t)bytes << shape->bits[level]), before = 0;
    for (size_t i = hx_image_find(image, leaf->at); i < image->n && image->span[i].start < end;
         i++) {
        const struct hx_span *span = &image->span[i];
        uint64_t at = span->start > leaf->at ? span->start : leaf->at;
        at += (leaf->at - at) % bytes;
        for (; at + 8 <= span->end && at + 8 <= end; at += bytes) {
            uint64_t word, record;
            memcpy(&word, span->bytes + (at - span->start), sizeof word);
            record = record_of(shape, word);
            if (!record || record == before)
                continue;
            before = record;
            uint64_t addr = leaf->addr | (at - leaf->at) / bytes << walk->layout->lg_page;
            struct hx_jemalloc_extent extent;
            if (!hx_jemalloc_extent(walk, record, &extent) || addr - extent.addr >= extent.size)
                walk->bad_extents++;
            else if (addr == extent.addr)
                HX_TRY(add_extent(walk, record, &extent));
        }
    }
    return NULL;
}

static void cut_large(struct hx_jemalloc_walk *walk, size_t first)
{
    uint64_t pad =
        walk->against_none > walk->against_pad ? UINT64_C(1) << walk->layout->lg_page : 0;
    for (size_t i = first; i < walk->slabs->slab.n; i++) {
        struct hx_slab *slab = &walk->slabs->slab.v[i];
        uint64_t bytes = slab->end - slab->start - pad;
        if (slab->n == 1 && hx_jemalloc_tag_size(slab->tag) >= hx_jemalloc_bins(walk->layout) &&
            bytes && bytes <= slab->end - slab->first)
            slab->usable = slab->stride = bytes;
    }
}

hx_error *hx_jemalloc_extents(struct hx_jemalloc_walk *walk)
{
    struct shape shape = shape_of(walk->layout, walk->vaddr);
    nodes level = {0}, next = {0};
    size_t first = walk->slabs->slab.n;
    hx_error *err = NULL;
    HX_NEED(hx_vec_push(&level, (struct node){walk->root, 0}));
    for (unsigned i = 0; i + 1 < shape.levels && !err; i++) {
        unsigned bytes = i + 2 == shape.levels ? shape.leaf_bytes : 8;
        for (size_t k = 0; k < level.n && !err; k++)
            err = add_nodes(walk, &shape, i, &level.v[k], &next);
        if (next.n)
            drop_shared(walk, &next, (uint64_t)bytes << shape.bits[i + 1]);
        hx_vec_free(&level);
        memcpy(&level, &next, sizeof level);
        memset(&next, 0, sizeof next);
    }
    for (size_t i = 0; i < level.n && !err; i++)
        err = add_extents(walk, &shape, &level.v[i]);
    if (walk->layout->unrounded)
        cut_large(walk, first);
    hx_vec_free(&level);
    hx_vec_free(&next);
    return err;
}
