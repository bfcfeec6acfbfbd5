/* tcmalloc.c - gperftools' allocator: from its page map to blocks.
 *
 * Memory consists of spans, runs of pages: free ones, blocks of their own, and runs of blocks of
 * one size class. The page map leads to all of them. Free blocks are in the list of their span, in
 * chains of a central list, or in the cache of a thread. Each of these counts what it has, and so
 * does the page heap: that is the proof.
 */
#include "attach/alloc/tcmalloc.h"

#include "attach/alloc/slabs.h"
#include "base/cleanup.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PAGE = 4096,
    WORDS = PAGE / 8,
    STEP = 1 << 12,        /* spans between two looks at whether to go on */
    OWN_GAP = 256 << 10,   /* between parts of its own memory that are one */
    SAMPLE = 256,          /* runs of blocks that are looked at for headers */
    THREADS_MAX = 1 << 16, /* thread caches */
    LINE = 64,             /* bytes of the processor's cache */
    AHEAD = 32 << 10,      /* bytes of a span that are fetched before its list is followed */
    DEBUG_MIN = 48,        /* bytes of a block that has a header */
    DEBUG_MAGIC = 16,      /* offset of what its header is known by */
};

enum span_location { IN_USE, FREE, RETURNED, LOCATIONS };

struct span {
    uint64_t start, length, objects; /* of pages */
    uint32_t refcount;
    uint8_t class, location;
    bool sample;
};

struct walk {
    const struct hx_tcmalloc *tc;
    struct hx_snapshot *snapshot;
    const struct hx_image *image;
    struct hx_slabs slabs;
    hx_ranges own;               /* memory for its structures, in pieces */
    uint64_t next_page;          /* before which all spans are known */
    uint64_t n_spans, n_damaged; /* damaged: words of the page map that lead to no span */
    uint64_t last_damaged;
    uint64_t pages[LOCATIONS];
    uint64_t spans_of[HX_TC_CLASSES_MAX], free_of[HX_TC_CLASSES_MAX];
    uint64_t disagree; /* counts that are not those of what they count */
    size_t n_caches;
    uint64_t system_bytes;
};

/* --- spans ----------------------------------------------------------------------------- */

static bool read_span(const struct walk *walk, uint64_t addr, struct span *ret)
{
    const uint8_t *at = addr & 7 ? NULL : hx_image_at(walk->image, addr, HX_TC_SPAN);
    if (!at)
        return false;
    uint32_t bits = hx_load_u32(at + 40);
    *ret = (struct span){.start = hx_load_u64(at),
                         .length = hx_load_u64(at + 8),
                         .objects = hx_load_u64(at + 32),
                         .refcount = bits & 0xffff,
                         .class = (uint8_t)(bits >> 16),
                         .location = bits >> 24 & 3,
                         .sample = bits >> 26 & 1};
    return ret->length && ret->location < LOCATIONS && ret->class < walk->tc->n_classes;
}

static hx_error *note_own(struct walk *walk, uint64_t start, uint64_t end)
{
    struct hx_range range = {start & ~(uint64_t)(PAGE - 1),
                             (end + PAGE - 1) & ~(uint64_t)(PAGE - 1)};
    const hx_ranges *own = &walk->own;
    for (size_t i = own->n; i-- > 0 && i + 4 > own->n;)
        if (own->v[i].start <= range.start && own->v[i].end >= range.end)
            return NULL;
    HX_NEED(hx_vec_push(&walk->own, range));
    return NULL;
}

/* What malloc_usable_size() says of a block that has pages of its own. */
static uint64_t usable_of(const struct walk *walk, const struct span *span)
{
    uint64_t bytes = span->length << walk->tc->shift, asked;
    if (!span->sample || !hx_image_u64(walk->image, span->objects, &asked) || asked > bytes)
        return bytes;
    unsigned class = hx_tc_class_of(walk->tc, asked);
    return class && walk->tc->size[class] <= bytes ? walk->tc->size[class] : bytes;
}

static hx_error *add_span(struct walk *walk, uint64_t addr, const struct span *span)
{
    const struct hx_tcmalloc *tc = walk->tc;
    struct hx_slab slab = {.start = span->start << tc->shift, .rest = HX_BLOCK_OWN, .tag = addr};
    uint64_t bytes = span->length << tc->shift;
    slab.first = slab.start;
    slab.end = slab.start + bytes;
    walk->pages[span->location] += span->length;
    if (span->location != IN_USE) {
        slab.rest = HX_BLOCK_FREE;
    } else if (!span->class) {
        slab.n = 1;
        slab.usable = slab.stride = usable_of(walk, span);
    } else {
        slab.stride = slab.usable = tc->size[span->class];
        slab.n = (uint32_t)(bytes / slab.stride < UINT32_MAX ? bytes / slab.stride : 0);
        walk->spans_of[span->class]++;
        walk->disagree += span->length != tc->pages[span->class];
    }
    HX_TRY(note_own(walk, addr, addr + HX_TC_SPAN));
    if (span->sample)
        HX_TRY(note_own(walk, span->objects, span->objects + 8));
    return hx_slabs_add(&walk->slabs, &slab);
}

/* What the page map has of a page at which a span should begin. */
static hx_error *visit_page(struct walk *walk, uint64_t page, uint64_t addr)
{
    struct span span;
    uint64_t page_end = UINT64_C(1) << (HX_TC_ADDRESS_BITS - walk->tc->shift);
    if (!read_span(walk, addr, &span) || span.start != page || span.length > page_end - page) {
        walk->n_damaged += addr != walk->last_damaged;
        walk->last_damaged = addr;
        return NULL;
    }
    walk->n_spans++;
    walk->next_page = page + span.length;
    return add_span(walk, addr, &span);
}

/* --- the page map ---------------------------------------------------------------------- */

/* A leaf: a word for each page; those of pages inside a span may be old. */
static hx_error *walk_leaf(struct walk *walk, uint64_t leaf, uint64_t first_page)
{
    uint64_t n = UINT64_C(1) << walk->tc->leaf_bits, i = 0;
    const struct hx_image *image = walk->image;
    HX_TRY(note_own(walk, leaf, leaf + n * 8));
    if (walk->next_page > first_page)
        i = walk->next_page - first_page;
    for (size_t at = SIZE_MAX; i < n;) {
        uint64_t addr = leaf + i * 8;
        if (at == SIZE_MAX || image->span[at].end <= addr)
            at = hx_image_find(image, addr);
        if (at == image->n)
            return NULL;
        const struct hx_span *memory = &image->span[at];
        if (memory->start > addr) {
            i = (memory->start - leaf + 7) / 8;
            continue;
        }
        uint64_t word =
            memory->end - addr >= 8 ? hx_load_u64(memory->bytes + (addr - memory->start)) : 0;
        i++;
        if (!word)
            continue;
        HX_TRY(visit_page(walk, first_page + i - 1, word));
        if (walk->next_page > first_page + i)
            i = walk->next_page - first_page;
    }
    return NULL;
}

/* Leaves are apart, in memory that can be written; so many that they fit there. */
static hx_error *walk_page_map(struct walk *walk, const struct hx_progress *progress)
{
    const struct hx_tcmalloc *tc = walk->tc;
    uint64_t leaf_bytes = UINT64_C(8) << tc->leaf_bits, room = 0, last = 0;
    for (size_t i = 0; i < walk->snapshot->n_mappings; i++)
        if (walk->snapshot->mapping[i].prot & HX_PROT_W)
            room += walk->snapshot->mapping[i].end - walk->snapshot->mapping[i].start;
    for (uint64_t i = 0; i < tc->n_root; i++) {
        uint64_t leaf;
        if (!hx_image_u64(walk->image, tc->root + i * 8, &leaf) || !leaf)
            continue;
        if (leaf & 7 || leaf == last || room < leaf_bytes || leaf > UINT64_MAX - leaf_bytes) {
            walk->n_damaged++;
            continue;
        }
        room -= leaf_bytes;
        last = leaf;
        HX_TRY(walk_leaf(walk, leaf, i << tc->leaf_bits));
        if (hx_progress_cancelled(progress))
            return hx_error_cancelled("heap");
    }
    return NULL;
}

/* --- its own memory -------------------------------------------------------------------- */

static int by_start(const void *a, const void *b)
{
    const struct hx_range *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

/* Does a span begin in [start, end)? They are in order until its own memory is added. */
static bool has_span(const struct walk *walk, size_t n, uint64_t start, uint64_t end)
{
    const struct hx_slab *slab = walk->slabs.slab.v;
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (slab[middle].start < start)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && slab[low].start < end;
}

/* Is the memory between two parts of its own that, too? */
static bool is_one(const struct walk *walk, size_t n, uint64_t start, uint64_t end)
{
    const struct hx_snapshot *snapshot = walk->snapshot;
    if (end <= start)
        return true;
    size_t i = hx_mapping_find(snapshot->mapping, snapshot->n_mappings, start);
    return end - start <= OWN_GAP && i < snapshot->n_mappings && end <= snapshot->mapping[i].end &&
           !has_span(walk, n, start, end);
}

/* Spans, caches of threads, nodes of its trees lie in memory that it cuts up. */
static hx_error *add_own(struct walk *walk)
{
    struct hx_range *own = walk->own.v;
    size_t n = walk->slabs.slab.n, i = 0;
    if (walk->own.n)
        qsort(own, walk->own.n, sizeof *own, by_start);
    while (i < walk->own.n) {
        struct hx_range range = own[i++];
        while (i < walk->own.n && is_one(walk, n, range.end, own[i].start)) {
            range.end = own[i].end > range.end ? own[i].end : range.end;
            i++;
        }
        HX_TRY(hx_slabs_add_memory(&walk->slabs, range.start, range.end, HX_BLOCK_OWN));
    }
    return NULL;
}

/* --- free blocks ----------------------------------------------------------------------- */

/* Marks the blocks of a list, at most so many; returns how many. *last: the last one. */
static uint64_t mark_list(struct walk *walk, uint64_t addr, uint64_t max, enum hx_block_use use,
                          uint64_t *last)
{
    uint64_t n = 0;
    const struct hx_slab *slab = NULL;
    while (addr && n < max) {
        if (!slab || addr < slab->start || addr >= slab->end)
            slab = hx_slabs_find(&walk->slabs, addr);
        uint64_t i = slab ? hx_slab_block(slab, addr) : UINT64_MAX;
        if (i == UINT64_MAX) {
            walk->slabs.stray++;
            return n;
        }
        if (!hx_slabs_mark(&walk->slabs, slab, i, use))
            return n;
        n++;
        *last = addr;
        addr = hx_slabs_link(walk->image, addr);
    }
    return n;
}

/* The same of the list of a span: all lie in it. */
static uint64_t mark_span_list(struct walk *walk, const struct hx_slab *slab, uint64_t addr)
{
    const uint8_t *bytes = hx_image_at(walk->image, slab->start, slab->end - slab->start);
    uint64_t n = 0, last;
    if (!bytes)
        return mark_list(walk, addr, slab->n, HX_BLOCK_FREE, &last);
    /* The list leads criss-cross through memory that nobody has looked at yet. */
    for (uint64_t i = 0; addr && i < slab->end - slab->start && i < AHEAD; i += LINE)
        __builtin_prefetch(bytes + i);
    for (; addr; n++) {
        uint64_t i = hx_slab_block(slab, addr);
        if (i == UINT64_MAX)
            walk->slabs.stray++;
        if (i == UINT64_MAX || !hx_slabs_mark(&walk->slabs, slab, i, HX_BLOCK_FREE))
            return n;
        addr = hx_load_u64(bytes + (addr - slab->start));
    }
    return n;
}

static hx_error *mark_spans(struct walk *walk, const struct hx_progress *progress)
{
    for (size_t i = 0; i < walk->slabs.slab.n; i++) {
        const struct hx_slab *slab = &walk->slabs.slab.v[i];
        struct span span;
        if (i % STEP == 0 && hx_progress_cancelled(progress))
            return hx_error_cancelled("heap");
        if (!slab->n || !read_span(walk, slab->tag, &span) || !span.class)
            continue;
        uint64_t n = mark_span_list(walk, slab, span.objects);
        walk->free_of[span.class] += n;
        walk->disagree += n + span.refcount != slab->n;
    }
    return NULL;
}

/* The central list of a class: what it counts, and its chains. */
static void mark_central(struct walk *walk, unsigned class)
{
    const struct hx_tcmalloc *tc = walk->tc;
    uint64_t central = tc->central + (uint64_t) class * HX_TC_CENTRAL_STRIDE;
    uint8_t bytes[HX_TC_CENTRAL_STRIDE];
    if (!hx_image_read(walk->image, central, bytes, sizeof bytes)) {
        walk->disagree++;
        return;
    }
    uint32_t used = hx_load_u32(bytes + HX_TC_CENTRAL_USED);
    walk->disagree += hx_load_u64(bytes + HX_TC_CENTRAL_SPANS) != walk->spans_of[class];
    walk->disagree += hx_load_u64(bytes + HX_TC_CENTRAL_FREE) != walk->free_of[class];
    walk->disagree += used > HX_TC_SLOTS_MAX;
    for (uint32_t i = 0; i < used && i < HX_TC_SLOTS_MAX; i++) {
        const uint8_t *slot = bytes + HX_TC_CENTRAL_SLOTS + (size_t)i * 16;
        uint64_t last = 0;
        uint64_t n = mark_list(walk, hx_load_u64(slot), tc->batch[class], HX_BLOCK_FREE, &last);
        walk->disagree += n != tc->batch[class] || last != hx_load_u64(slot + 8);
    }
}

static void mark_cache(struct walk *walk, const uint8_t *bytes)
{
    for (unsigned i = 1; i < walk->tc->n_classes; i++) {
        const uint8_t *list = bytes + (size_t)i * HX_TC_LIST;
        uint64_t last, length = hx_load_u32(list + HX_TC_LIST_LENGTH);
        /* one more than it counts, so that a list that is too long shows */
        uint64_t n = mark_list(walk, hx_load_u64(list), length + 1, HX_BLOCK_CACHED, &last);
        walk->disagree += n != length;
    }
}

/* --- caches of threads ----------------------------------------------------------------- */

struct caches {
    uint8_t bytes[HX_TC_LISTS_MAX];
    uint64_t link; /* offset of next_, before prev_; 0: not known */
    size_t linked; /* in the longest list; others are not in use any more */
    HX_VEC(uint64_t) addr;
};

static bool read_cache(const struct walk *walk, uint64_t addr, uint8_t bytes[HX_TC_LISTS_MAX])
{
    uint64_t len = (uint64_t)walk->tc->n_classes * HX_TC_LIST;
    return addr && !(addr & 7) && hx_image_read(walk->image, addr, bytes, len) &&
           hx_tc_is_cache(walk->tc, bytes);
}

/* The next one by a link at an offset, if it leads back; 0: there is none. */
static uint64_t next_cache(const struct walk *walk, uint64_t addr, uint64_t link, bool back)
{
    uint8_t bytes[HX_TC_LISTS_MAX];
    uint64_t there = 0, here = 0;
    uint64_t to = link + (back ? 8 : 0), from = link + (back ? 0 : 8);
    bool linked = hx_image_u64(walk->image, addr + to, &there) && there != addr &&
                  read_cache(walk, there, bytes) &&
                  hx_image_u64(walk->image, there + from, &here) && here == addr;
    return linked ? there : 0;
}

/* Where the links are: behind the lists and what the version keeps for samples. */
static uint64_t find_link(const struct walk *walk)
{
    const struct hx_tcmalloc *tc = walk->tc;
    uint64_t lists = (uint64_t)tc->room * HX_TC_LIST;
    for (size_t i = 0; i < tc->n_heads; i++)
        for (uint64_t link = lists; link + 16 <= lists + HX_TC_CACHE_TAIL; link += 8)
            if (next_cache(walk, tc->heads[i], link, false) ||
                next_cache(walk, tc->heads[i], link, true))
                return link;
    return 0;
}

static bool is_known(const struct caches *caches, uint64_t addr)
{
    for (size_t i = 0; i < caches->addr.n; i++)
        if (caches->addr.v[i] == addr)
            return true;
    return false;
}

/* All that are linked with one: from the first of them on. */
static hx_error *add_caches(const struct walk *walk, struct caches *caches, uint64_t addr)
{
    uint64_t first = addr;
    size_t before = caches->addr.n;
    if (is_known(caches, addr))
        return NULL;
    for (size_t i = 0; i < THREADS_MAX && caches->link && addr; i++) {
        first = addr;
        addr = next_cache(walk, addr, caches->link, true);
    }
    for (addr = first; addr && caches->addr.n < THREADS_MAX;) {
        HX_NEED(hx_vec_push(&caches->addr, addr));
        addr = caches->link ? next_cache(walk, addr, caches->link, false) : 0;
        if (addr == first)
            break;
    }
    if (caches->addr.n - before > caches->linked)
        caches->linked = caches->addr.n - before;
    return NULL;
}

/* Blocks in a cache that was not found would be the program's. */
static void check_caches(struct walk *walk)
{
    uint32_t n = 0;
    bool known = walk->tc->count && hx_image_u32(walk->image, walk->tc->count, &n);
    if (known ? n == walk->n_caches : walk->n_caches || !walk->n_spans)
        return;
    hx_snapshot_note(walk->snapshot, true,
                     "%zu of %" PRIu32
                     " thread caches of tcmalloc were found: blocks in the others "
                     "count as live",
                     walk->n_caches, known ? n : 1);
    hx_snapshot_lose(walk->snapshot, "tcaches not found", 1, 0, 0);
    walk->disagree++;
}

static hx_error *find_caches(struct walk *walk, struct caches *caches)
{
    uint64_t len = (uint64_t)walk->tc->room * HX_TC_LIST + 64;
    caches->link = find_link(walk);
    for (size_t i = 0; i < walk->tc->n_heads; i++)
        HX_TRY(add_caches(walk, caches, walk->tc->heads[i]));
    for (size_t i = 0; i < caches->addr.n; i++)
        HX_TRY(note_own(walk, caches->addr.v[i], caches->addr.v[i] + len));
    walk->n_caches = caches->linked;
    check_caches(walk);
    return NULL;
}

/* --- proof ----------------------------------------------------------------------------- */

static void check_pages(struct walk *walk)
{
    uint64_t stat[3] = {0};
    if (!hx_image_read(walk->image, walk->tc->stats, stat, sizeof stat)) {
        walk->disagree++;
        return;
    }
    uint64_t sum = 0;
    for (int i = 0; i < LOCATIONS; i++)
        sum += walk->pages[i] << walk->tc->shift;
    walk->system_bytes = stat[0];
    walk->disagree += sum != stat[0];
    walk->disagree += walk->pages[FREE] << walk->tc->shift != stat[1];
    walk->disagree += walk->pages[RETURNED] << walk->tc->shift != stat[2];
}

/* A build that checks the program (libtcmalloc_debug) puts a header before each block, and keeps
 * freed ones for a while, all of whose bytes it sets. */
static bool has_headers(const struct walk *walk)
{
    uint64_t looked = 0, headers = 0, wiped = 0, word;
    for (size_t i = 0; i < walk->slabs.slab.n && looked < SAMPLE; i++) {
        const struct hx_slab *slab = &walk->slabs.slab.v[i];
        uint64_t k = 0;
        while (k < slab->n && hx_slabs_use(&walk->slabs, slab, k) != HX_BLOCK_LIVE)
            k++;
        if (k == slab->n || slab->usable < DEBUG_MIN ||
            !hx_image_u64(walk->image, slab->first + k * slab->stride + DEBUG_MAGIC, &word))
            continue;
        looked++;
        headers += word == 0xdeadbeef || word == 0xabcdefab;
        wiped += word == 0xcdcdcdcdcdcdcdcd;
    }
    return headers && (headers + wiped) * 2 >= looked;
}

static hx_error *refuse(struct hx_allocator_share *share, uint64_t claimed, const char *why)
{
    free(share->evidence);
    share->claimed_bytes = claimed;
    HX_NEED(share->evidence = strdup(why));
    return NULL;
}

/* Nothing that lies must make more of it than can be mapped. */
static uint64_t claimed_bytes(const struct walk *walk)
{
    uint64_t mapped = 0;
    for (size_t i = 0; i < walk->snapshot->n_mappings; i++)
        mapped += walk->snapshot->mapping[i].end - walk->snapshot->mapping[i].start;
    return walk->system_bytes < mapped ? walk->system_bytes : mapped;
}

/* What the page heap has and no span tells of is claimed all the same. */
static void claim_all(const struct walk *walk, struct hx_allocator_share *share)
{
    uint64_t spans = 0, claimed = claimed_bytes(walk);
    for (int i = 0; i < LOCATIONS; i++)
        spans += walk->pages[i] << walk->tc->shift;
    if (claimed > spans)
        share->claimed_bytes += claimed - spans;
}

static enum hx_walk_verdict judge(struct walk *walk)
{
    struct hx_snapshot *snapshot = walk->snapshot;
    bool bad = hx_slabs_tell(&walk->slabs, "tcmalloc", snapshot);
    if (walk->n_damaged) {
        hx_snapshot_note(snapshot, true,
                         "%" PRIu64 " entries of tcmalloc's page map lead to no run of pages",
                         walk->n_damaged);
        hx_snapshot_lose(snapshot, "runs of an allocator's memory that cannot be", walk->n_damaged,
                         0, 0);
    }
    if (walk->disagree) {
        hx_snapshot_note(snapshot, true,
                         "%" PRIu64 " counts of tcmalloc disagree with what they count (damaged, "
                         "or an update was under way): a few blocks can be wrong",
                         walk->disagree);
        hx_snapshot_lose(snapshot, "malloc's lists or counts that disagree with the blocks",
                         walk->disagree, 0, 0);
    }
    bad |= walk->n_damaged != 0;
    return bad ? HX_WALK_BAD : walk->disagree ? HX_WALK_TORN : HX_WALK_OK;
}

static hx_error *tell_evidence(const struct walk *walk, struct hx_allocator_share *share,
                               enum hx_walk_verdict verdict)
{
    const struct hx_tcmalloc *tc = walk->tc;
    static const char *const verdicts[] = {"counts agree", "counts disagree", "damaged"};
    free(share->evidence);
    share->evidence = NULL;
    HX_NEED(asprintf(&share->evidence,
                     "page heap by shape at %s+0x%" PRIx64 ", pages of %u KiB, %u size classes, "
                     "%" PRIu64 " spans, %zu thread caches, %s",
                     share->module, tc->heap - tc->data, 1u << (tc->shift - 10), tc->n_classes,
                     walk->n_spans, walk->n_caches, verdicts[verdict]) >= 0);
    return NULL;
}

static hx_error *mark_free(struct walk *walk, struct caches *caches,
                           const struct hx_progress *progress)
{
    HX_TRY(mark_spans(walk, progress));
    for (unsigned i = 1; i < walk->tc->n_classes; i++)
        mark_central(walk, i);
    for (size_t i = 0; i < caches->addr.n; i++)
        if (read_cache(walk, caches->addr.v[i], caches->bytes))
            mark_cache(walk, caches->bytes);
    return NULL;
}

static hx_error *walk_heap(struct walk *walk, struct caches *caches,
                           struct hx_allocator_share *share, hx_ranges *excluded,
                           const struct hx_progress *progress, enum hx_walk_verdict *ret)
{
    const struct hx_tcmalloc *tc = walk->tc;
    HX_TRY(walk_page_map(walk, progress));
    check_pages(walk);
    if (walk->n_damaged > walk->n_spans || (walk->system_bytes && !walk->n_spans))
        return refuse(share, claimed_bytes(walk), "its page map does not lead to runs of pages");
    HX_TRY(find_caches(walk, caches));
    HX_TRY(add_own(walk));
    HX_TRY(hx_slabs_sort(&walk->slabs));
    HX_TRY(mark_free(walk, caches, progress));
    if (has_headers(walk))
        return refuse(share, claimed_bytes(walk),
                      "it is the build that checks the program: blocks have headers of their own");
    uint64_t central_end = tc->central + (uint64_t)tc->room * HX_TC_CENTRAL_STRIDE;
    HX_NEED(hx_vec_push(excluded, (struct hx_range){tc->heap, tc->heap_end}));
    HX_NEED(hx_vec_push(excluded, (struct hx_range){tc->central, central_end}));
    *ret = judge(walk);
    share->proven = true;
    HX_TRY(hx_slabs_put(&walk->slabs, NULL, walk->snapshot, share, progress));
    claim_all(walk, share);
    return tell_evidence(walk, share, *ret);
}

static hx_error *tcmalloc_walk(void *state, struct hx_snapshot *snapshot,
                               struct hx_allocator_share *share, hx_ranges *excluded,
                               const struct hx_progress *progress, enum hx_walk_verdict *ret)
{
    HX_FREE struct walk *walk = calloc(1, sizeof *walk);
    HX_FREE struct caches *caches = calloc(1, sizeof *caches);
    HX_NEED(walk && caches);
    walk->tc = state;
    walk->snapshot = snapshot;
    walk->image = &snapshot->image;
    hx_slabs_init(&walk->slabs, snapshot);
    *ret = HX_WALK_OK;
    hx_error *err = walk_heap(walk, caches, share, excluded, progress, ret);
    hx_slabs_deinit(&walk->slabs);
    hx_vec_free(&walk->own);
    hx_vec_free(&caches->addr);
    return err;
}

const struct hx_allocator hx_allocator_tcmalloc = {.name = "tcmalloc",
                                                   .linked = true,
                                                   .find = hx_tc_find,
                                                   .guard = hx_tc_guard,
                                                   .walk = tcmalloc_walk,
                                                   .end = free};
