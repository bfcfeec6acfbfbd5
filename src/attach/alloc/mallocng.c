/* mallocng.c - the allocator of musl from 1.2.1 on.
 *
 * Groups of at most 32 equal slots; a group has mappings of its own, lies in a slot of a larger
 * group, or in memory that the dynamic linker had left over. All descriptions of groups (metas) lie
 * in areas of a page each, which are a list from the context on; each area repeats the context's
 * secret, which proves both. A slot that is in use has a header of 4 bytes in front of the block,
 * from which its offset in the slot and its length follow. There are no caches.
 */
#include "attach/alloc/musl.h"
#include "attach/alloc/slabs.h"

#include "base/cleanup.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    UNIT = 16,
    HEADER = 4, /* of a slot, in front of it; its bytes: of large offsets, index, offset (2) */
    PAGE = 4096,
    CLASSES = 48,
    AREA_HEADER = 24,
    META_BYTES = 40,
    AREA_METAS = (PAGE - AREA_HEADER) / META_BYTES,
    MOVED = 7 << 5, /* in the place of the index: the block begins at an offset */
    STEP = PAGE,
};

static const uint16_t class_units[CLASSES] = {
    1,   2,   3,   4,    5,    6,    7,    8,    9,    10,   12,   15,   18,   20,   25,   31,
    36,  42,  50,  63,   72,   84,   102,  127,  146,  170,  204,  255,  292,  340,  409,  511,
    584, 682, 818, 1023, 1169, 1364, 1637, 2047, 2340, 2730, 3276, 4095, 4680, 5460, 6552, 8191};

/* Byte offsets in the context. */
struct shape {
    uint16_t init_done, head, tail, usage, size;
};
static const struct shape shapes[] = {
    {.init_done = 8, .head = 56, .tail = 64, .usage = 464, .size = 928},
    /* where the size of a page is not known when it is compiled */
    {.init_done = 16, .head = 64, .tail = 72, .usage = 472, .size = 936},
};

struct state {
    uint64_t context, secret, head;
    const struct shape *shape;
    struct hx_range code;
    bool own;      /* nothing else lies in the code */
    uint64_t lock; /* 0: not known */
};

/* --- where it is ------------------------------------------------------------------------ */

/* Is this a context that is in use? Its first area has its secret. */
static bool is_context(const struct hx_peek *peek, uint64_t addr, const uint8_t *bytes,
                       const struct shape *shape, struct state *ret)
{
    uint64_t secret, head, tail, check;
    uint32_t init_done;
    memcpy(&init_done, bytes + shape->init_done, sizeof init_done);
    memcpy(&secret, bytes, sizeof secret);
    memcpy(&head, bytes + shape->head, sizeof head);
    memcpy(&tail, bytes + shape->tail, sizeof tail);
    if (init_done != 1 || !secret || !head || head % PAGE || !tail || tail % PAGE ||
        !hx_peek_u64(peek, head, &check) || check != secret)
        return false;
    ret->context = addr;
    ret->secret = secret;
    ret->head = head;
    ret->shape = shape;
    return true;
}

static bool find_by_symbol(const struct hx_alloc_target *target, size_t module, struct state *ret)
{
    uint64_t addr, size, lock;
    uint8_t bytes[1024];
    if (!hx_module_symbol(target->modules, module, "__malloc_context", &addr, &size))
        return false;
    if (hx_module_symbol(target->modules, module, "__malloc_lock", &lock, &size))
        ret->lock = lock;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (hx_peek_read(target->peek, addr, bytes, shapes[i].size) &&
            is_context(target->peek, addr, bytes, &shapes[i], ret))
            return true;
    return false;
}

static bool find_in(const struct hx_alloc_target *target, uint64_t start, uint64_t end,
                    struct state *ret)
{
    enum { OVERLAP = 1024 };
    uint8_t bytes[STEP + OVERLAP];
    for (uint64_t at = (start + 7) & ~UINT64_C(7); at < end; at += STEP) {
        size_t n = end - at < sizeof bytes ? end - at : sizeof bytes;
        hx_peek_pages(target->peek, at, bytes, n);
        for (size_t i = 0; i < STEP && i < n; i += 8)
            for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++)
                if (n - i >= shapes[k].size &&
                    is_context(target->peek, at + i, bytes + i, &shapes[k], ret))
                    return true;
    }
    return false;
}

static bool try_data(void *context, const struct hx_alloc_target *target, uint64_t start,
                     uint64_t end)
{
    return find_in(target, start, end, context);
}

static hx_error *mallocng_find(const struct hx_alloc_target *target,
                               struct hx_allocator_share *share, void **ret_state)
{
    struct state found = {0};
    size_t n = hx_modules_count(target->modules), i = 0;
    *ret_state = NULL;
    while (i < n && !find_by_symbol(target, i, &found))
        i++;
    bool by_symbol = i < n;
    if (!by_symbol && !hx_musl_search(target, try_data, &found, &i))
        return NULL;
    hx_musl_code(target->modules, i, &found.code);
    found.own = hx_musl_is_library(target->modules, i);
    struct state *state = malloc(sizeof *state);
    HX_NEED(state);
    *state = found;
    *ret_state = state;
    share->name = strdup("mallocng");
    share->version = hx_musl_version(target, i);
    share->module = strdup(hx_module_name(target->modules, i));
    share->evidence = strdup(by_symbol ? "__malloc_context by its symbol" : "context by shape");
    HX_NEED(share->name && share->module && share->evidence);
    return NULL;
}

static hx_error *mallocng_guard(void *context, const struct hx_alloc_target *target,
                                struct hx_guard *ret)
{
    (void)target;
    const struct state *state = context;
    if (state->code.start < state->code.end && state->own)
        HX_TRY(hx_guard_lockless(ret, state->code)); /* free() takes its lock at the end */
    else if (state->code.start < state->code.end)
        HX_NEED(hx_vec_push(&ret->code, state->code));
    if (state->lock)
        HX_NEED(hx_vec_push(&ret->locks, (struct hx_lock_word){state->lock, UINT32_MAX}));
    return NULL;
}

/* --- groups ------------------------------------------------------------------------------ */

struct group {
    uint64_t mem, end; /* of its header; behind its memory */
    uint64_t stride;
    uint64_t maplen; /* pages of its own; 0: none */
    uint32_t in_use; /* a bit for each slot */
    uint32_t inner;  /* slots that smaller groups lie in */
    uint8_t n, size_class;
    const uint8_t *bytes; /* of all of it; NULL: not in one piece */
};

struct walk {
    const struct state *state;
    struct hx_snapshot *snapshot;
    const struct hx_image *image;
    HX_VEC(struct group) groups; /* by address, those around first */
    struct hx_slabs slabs;
    uint64_t slots[CLASSES]; /* as groups have them */
    uint64_t damaged;        /* metas that make no sense */
    uint64_t torn;           /* slots in use whose headers do not agree */
    uint64_t areas;
};

/* Takes a meta that describes a group. */
static hx_error *add_group(struct walk *walk, uint64_t meta_at, const uint8_t *meta)
{
    uint64_t mem, bits, meta_of;
    uint32_t avail, freed;
    memcpy(&mem, meta + 16, sizeof mem);
    memcpy(&avail, meta + 24, sizeof avail);
    memcpy(&freed, meta + 28, sizeof freed);
    memcpy(&bits, meta + 32, sizeof bits);
    if (!mem)
        return NULL;
    unsigned size_class = bits >> 6 & 63;
    struct group group = {.mem = mem,
                          .n = (uint8_t)((bits & 31) + 1),
                          .size_class = (uint8_t)size_class,
                          .maplen = bits >> 12};
    bool alone = group.n == 1 && group.maplen;
    bool fits = mem % UNIT == 0 && group.maplen < UINT64_C(1) << 36 &&
                (alone || size_class < CLASSES) && hx_image_u64(walk->image, mem, &meta_of) &&
                meta_of == meta_at;
    if (!fits) {
        walk->damaged++;
        return NULL;
    }
    group.stride = alone ? group.maplen * PAGE - UNIT : (uint64_t)UNIT * class_units[size_class];
    group.end = mem + (group.maplen ? group.maplen * PAGE : UNIT + group.n * group.stride);
    if (group.end < mem || mem + UNIT + group.n * group.stride > group.end) {
        walk->damaged++;
        return NULL;
    }
    uint32_t all = (uint32_t)((UINT64_C(2) << (group.n - 1)) - 1);
    group.in_use = all & ~(avail | freed);
    bool donated = !(bits >> 5 & 1); /* is never given back */
    if (size_class < CLASSES && !donated)
        walk->slots[size_class] += group.n;
    group.bytes = hx_image_at(walk->image, mem, group.end - mem);
    HX_NEED(hx_vec_push(&walk->groups, group));
    return NULL;
}

/* The areas in their list; each is the allocator's own. */
static hx_error *read_areas(struct walk *walk)
{
    uint64_t max = 0;
    for (size_t i = 0; i < walk->image->n; i++)
        max += (walk->image->span[i].end - walk->image->span[i].start) / PAGE;
    uint8_t bytes[PAGE];
    uint64_t check, next;
    for (uint64_t at = walk->state->head; at; at = next) {
        if (at % PAGE || walk->areas++ > max || !hx_image_read(walk->image, at, bytes, PAGE)) {
            walk->damaged++;
            return NULL;
        }
        memcpy(&check, bytes, sizeof check);
        memcpy(&next, bytes + 8, sizeof next);
        if (check != walk->state->secret) {
            walk->damaged++;
            return NULL;
        }
        HX_TRY(hx_slabs_add_memory(&walk->slabs, at, at + PAGE, HX_BLOCK_OWN));
        for (unsigned i = 0; i < AREA_METAS; i++) {
            uint64_t offset = AREA_HEADER + (uint64_t)i * META_BYTES;
            HX_TRY(add_group(walk, at + offset, bytes + offset));
        }
    }
    return NULL;
}

static int by_place(const void *a, const void *b)
{
    const struct group *x = a, *y = b;
    if (x->mem != y->mem)
        return x->mem < y->mem ? -1 : 1;
    return (x->end < y->end) - (x->end > y->end);
}

/* Finds in which slots of larger groups groups lie. */
static void nest_groups(struct walk *walk)
{
    enum { DEPTH = 64 };
    struct group *around[DEPTH];
    size_t depth = 0;
    if (walk->groups.n)
        qsort(walk->groups.v, walk->groups.n, sizeof *walk->groups.v, by_place);
    for (size_t i = 0; i < walk->groups.n; i++) {
        struct group *group = &walk->groups.v[i];
        while (depth && around[depth - 1]->end <= group->mem)
            depth--;
        if (depth) {
            struct group *outer = around[depth - 1];
            uint64_t slot = (group->mem - outer->mem - UNIT) / outer->stride;
            if (group->mem > outer->mem && slot < outer->n)
                outer->inner |= UINT32_C(1) << slot;
        }
        if (depth < DEPTH)
            around[depth++] = group;
    }
}

static inline bool read_group(const struct walk *walk, const struct group *group, uint64_t addr,
                              void *dst, size_t len)
{
    if (!group->bytes)
        return hx_image_read(walk->image, addr, dst, len);
    memcpy(dst, group->bytes + (addr - group->mem), len); /* of a slot, or just before it */
    return true;
}

/* The block in a slot: by the bytes in front of the slot it begins there or at an offset; by those
 * in front of the block it is of this slot, and what is left over behind it. False: the header does
 * not agree with itself. */
static bool read_block(const struct walk *walk, const struct group *group, uint64_t i,
                       uint64_t *ret_addr, uint64_t *ret_bytes)
{
    uint8_t header[8], tail[4];
    uint64_t start = group->mem + UNIT + i * group->stride, addr = start;
    uint64_t end = start + group->stride - HEADER;
    uint16_t moved, offset;
    if (!read_group(walk, group, start - 8, header, sizeof header))
        return false;
    memcpy(&moved, header + 6, sizeof moved);
    memcpy(&offset, header + 6, sizeof offset);
    if (header[5] == MOVED) {
        uint32_t far = 0;
        addr = UINT64_MAX;
        /* of extreme alignments only the low bits of the offset are kept */
        for (uint64_t at = start + (uint64_t)moved * UNIT; at > start && at < end;
             at += UINT64_C(65536) * UNIT) {
            if (!read_group(walk, group, at - 8, header, sizeof header))
                return false;
            memcpy(&far, header, sizeof far);
            memcpy(&offset, header + 6, sizeof offset);
            uint64_t units = header[4] ? far : offset;
            if (units * UNIT == at - group->mem - UNIT && (header[5] & 31) == i) {
                addr = at;
                break;
            }
        }
    } else if ((uint64_t)offset * UNIT != start - group->mem - UNIT) {
        return false;
    }
    if (addr >= end || (header[5] & 31) != i)
        return false;
    uint32_t reserved = header[5] >> 5;
    if (reserved >= 5) {
        if (!read_group(walk, group, end - 4, tail, sizeof tail))
            return false;
        memcpy(&reserved, tail, sizeof reserved);
    }
    if (reserved > end - addr)
        return false;
    *ret_addr = addr;
    *ret_bytes = end - addr - reserved;
    return true;
}

/* --- slabs ------------------------------------------------------------------------------- */

static hx_error *add_slots(struct walk *walk, size_t g, uint64_t from, uint64_t n)
{
    const struct group *group = &walk->groups.v[g];
    uint64_t first = group->mem + UNIT + from * group->stride;
    struct hx_slab slab = {.start = first,
                           .end = first + n * group->stride,
                           .first = first,
                           .stride = group->stride,
                           .usable = group->stride - HEADER,
                           .n = (uint32_t)n,
                           .rest = HX_BLOCK_OWN,
                           .tag = (uint64_t)g << 5 | from};
    return n ? hx_slabs_add(&walk->slabs, &slab) : NULL;
}

static hx_error *add_own(struct walk *walk, uint64_t start, uint64_t end)
{
    return start < end ? hx_slabs_add_memory(&walk->slabs, start, end, HX_BLOCK_OWN) : NULL;
}

/* What is left of a slot around the groups in it; *next: the first group behind this one. */
static hx_error *add_around(struct walk *walk, size_t *next, uint64_t start, uint64_t end)
{
    uint64_t at = start;
    for (; *next < walk->groups.n && walk->groups.v[*next].mem < end; ++*next) {
        const struct group *inner = &walk->groups.v[*next];
        if (inner->mem < at)
            continue;
        HX_TRY(add_own(walk, at, inner->mem));
        at = inner->end;
    }
    return add_own(walk, at, end);
}

static hx_error *add_slabs(struct walk *walk, size_t g)
{
    const struct group *group = &walk->groups.v[g];
    size_t next = g + 1;
    HX_TRY(add_own(walk, group->mem, group->mem + UNIT));
    for (uint64_t i = 0; i < group->n;) {
        uint64_t n = 0;
        while (i + n < group->n && !(group->inner >> (i + n) & 1))
            n++;
        HX_TRY(add_slots(walk, g, i, n));
        i += n;
        if (i == group->n)
            break;
        uint64_t start = group->mem + UNIT + i * group->stride;
        while (next < walk->groups.n && walk->groups.v[next].mem < start)
            next++;
        HX_TRY(add_around(walk, &next, start, start + group->stride));
        i++;
    }
    return add_own(walk, group->mem + UNIT + group->n * group->stride, group->end);
}

/* Has the headers of a slab's slots fetched before they are looked at. */
static void fetch_headers(const struct walk *walk, const struct hx_slab *slab)
{
    const struct group *group = slab->n ? &walk->groups.v[slab->tag >> 5] : NULL;
    for (uint64_t i = 0; group && group->bytes && i < slab->n; i++)
        __builtin_prefetch(group->bytes + UNIT + ((slab->tag & 31) + i) * group->stride - 8);
}

/* Slots that are not in use are free. */
static void mark_slots(struct walk *walk)
{
    for (size_t k = 0; k < walk->slabs.slab.n; k++) {
        const struct hx_slab *slab = &walk->slabs.slab.v[k];
        for (uint64_t i = 0; i < slab->n; i++)
            if (!(walk->groups.v[slab->tag >> 5].in_use >> ((slab->tag & 31) + i) & 1))
                hx_slabs_mark(&walk->slabs, slab, i, HX_BLOCK_FREE);
    }
}

/* A block whose header does not agree is on its way. */
static bool place_block(void *context, const struct hx_slab *slab, uint32_t i, uint64_t *addr,
                        uint64_t *bytes)
{
    struct walk *walk = context;
    if (i == 0 && slab + 1 < walk->slabs.slab.v + walk->slabs.slab.n)
        fetch_headers(walk, slab + 1);
    bool agrees =
        read_block(walk, &walk->groups.v[slab->tag >> 5], (slab->tag & 31) + i, addr, bytes);
    walk->torn += !agrees;
    return agrees;
}

/* --- the self-check ------------------------------------------------------------------------ */

/* Do the counts of the context agree with the groups? */
static bool counts_agree(const struct walk *walk)
{
    for (unsigned i = 0; i < CLASSES; i++) {
        uint64_t usage, at = walk->state->context + walk->state->shape->usage + 8u * i;
        if (!hx_image_u64(walk->image, at, &usage) || usage != walk->slots[i])
            return false;
    }
    return true;
}

static hx_error *say_evidence(const struct walk *walk, struct hx_allocator_share *share, bool agree)
{
    char *evidence;
    HX_NEED(asprintf(&evidence, "%s, %" PRIu64 " areas with its secret, %zu groups, %s",
                     share->evidence, walk->areas, walk->groups.n,
                     agree ? "counts agree" : "counts and groups disagree") >= 0);
    free(share->evidence);
    share->evidence = evidence;
    share->proven = true;
    return NULL;
}

static enum hx_walk_verdict judge(const struct walk *walk, bool agree, bool told)
{
    struct hx_snapshot *snapshot = walk->snapshot;
    if (walk->damaged) {
        hx_snapshot_note(snapshot, true,
                         "%" PRIu64 " descriptions of mallocng's groups are damaged",
                         walk->damaged);
        hx_snapshot_lose(snapshot, "descriptions of heap blocks that are damaged", walk->damaged, 0,
                         0);
    }
    if (walk->torn) {
        hx_snapshot_note(snapshot, true,
                         "%" PRIu64 " blocks of mallocng have headers that do not agree",
                         walk->torn);
        hx_snapshot_lose(snapshot, "heap blocks with a damaged header", walk->torn, 0, 0);
    }
    if (!agree && !walk->damaged && !walk->torn) {
        hx_snapshot_note(snapshot, true, "mallocng's counts disagree with its groups");
        hx_snapshot_lose(snapshot, "malloc's lists or counts that disagree with the blocks", 1, 0,
                         0);
    }
    if (walk->damaged || told)
        return HX_WALK_BAD;
    return walk->torn || !agree ? HX_WALK_TORN : HX_WALK_OK;
}

static hx_error *do_walk(struct walk *walk, struct hx_allocator_share *share, hx_ranges *excluded,
                         const struct hx_progress *progress, enum hx_walk_verdict *ret)
{
    struct hx_slabs_place place = {place_block, walk};
    HX_TRY(read_areas(walk));
    nest_groups(walk);
    for (size_t i = 0; i < walk->groups.n; i++)
        HX_TRY(add_slabs(walk, i));
    HX_TRY(hx_slabs_sort(&walk->slabs));
    mark_slots(walk);
    HX_TRY(hx_slabs_put(&walk->slabs, &place, walk->snapshot, share, progress));
    bool agree = counts_agree(walk);
    *ret = judge(walk, agree, hx_slabs_tell(&walk->slabs, share->name, walk->snapshot));
    struct hx_range own = {walk->state->context, walk->state->context + walk->state->shape->size};
    HX_NEED(hx_vec_push(excluded, own));
    return say_evidence(walk, share, agree);
}

static hx_error *mallocng_walk(void *state, struct hx_snapshot *snapshot,
                               struct hx_allocator_share *share, hx_ranges *excluded,
                               const struct hx_progress *progress, enum hx_walk_verdict *ret)
{
    struct walk walk = {.state = state, .snapshot = snapshot, .image = &snapshot->image};
    hx_slabs_init(&walk.slabs, snapshot);
    hx_error *err = do_walk(&walk, share, excluded, progress, ret);
    hx_slabs_deinit(&walk.slabs);
    hx_vec_free(&walk.groups);
    return err;
}

static void mallocng_end(void *state)
{
    free(state);
}

const struct hx_allocator hx_allocator_mallocng = {.name = "mallocng",
                                                   .linked = true,
                                                   .find = mallocng_find,
                                                   .guard = mallocng_guard,
                                                   .walk = mallocng_walk,
                                                   .end = mallocng_end};
