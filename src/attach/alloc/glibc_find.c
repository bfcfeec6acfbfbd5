/* glibc_find.c - main_arena in a target, by its shape, without symbols.
 *
 * main_arena lies in the initialised data of libc.so.6 or of a static program. Its bins are
 * pairs of links; an empty one points to itself minus 16, and the last one is always empty.
 * So every such pair is a candidate, and the ring of arenas through `next` proves it.
 */
#include "attach/alloc/glibc.h"
#include "base/cleanup.h"

#include <stdlib.h>
#include <string.h>

enum {
    BLOCK = 32768,      /* bytes of one read */
    OVERLAP = 4096,     /* more than a malloc_state, and than the version string */
    VERSION_LINE = 256, /* "GNU C Library (...) stable release version 2.36." */
};
static const uint64_t data_max = UINT64_C(512) << 20; /* per search: bytes looked at */

static uint64_t arena_word(const uint8_t *bytes, uint64_t offset)
{
    uint64_t word;
    memcpy(&word, bytes + offset, sizeof word);
    return word;
}

static uint32_t word32_at(const uint8_t *bytes, uint64_t offset)
{
    uint32_t word;
    memcpy(&word, bytes + offset, sizeof word);
    return word;
}

/* Zero but for mutex, flags, next and attached_threads: nobody called malloc yet. */
static bool is_unused(const struct hx_glibc_state_shape *shape, uint64_t addr, const uint8_t *bytes)
{
    if (arena_word(bytes, shape->next) != addr)
        return false;
    for (uint64_t i = 8; i + 8 <= shape->size; i += 8)
        if (i != shape->next && i != shape->attached && arena_word(bytes, i))
            return false;
    return word32_at(bytes, 0) <= 2 && word32_at(bytes, 4) <= 7 &&
           (!shape->attached || arena_word(bytes, shape->attached) <= 1);
}

enum hx_glibc_likeness hx_glibc_state_like(const struct hx_glibc_state_shape *shape, uint64_t addr,
                                           const uint8_t *bytes)
{
    if (is_unused(shape, addr, bytes))
        return HX_GLIBC_UNUSED;
    uint64_t top = arena_word(bytes, shape->top), next = arena_word(bytes, shape->next);
    if (word32_at(bytes, 0) > 2 || word32_at(bytes, 4) > 7 || !top || top & 7 || !next || next & 7)
        return HX_GLIBC_NOT;
    for (unsigned i = 0; i < HX_GLIBC_BINS; i++) {
        uint64_t bin = hx_glibc_bin(shape, addr, i);
        uint64_t fd = arena_word(bytes, shape->bins + 16u * i);
        uint64_t bk = arena_word(bytes, shape->bins + 16u * i + 8);
        bool empty = fd == bin && bk == bin;
        if (!empty && (!fd || !bk || fd & 7 || bk & 7 || i == HX_GLIBC_BINS - 1))
            return HX_GLIBC_NOT;
    }
    /* Shapes that share offsets differ in what follows `next`: the number of threads is
     * small, the memory of an arena begins with a hundred kilobytes. */
    uint64_t system_mem = arena_word(bytes, shape->system_mem);
    uint64_t max_mem = arena_word(bytes, shape->system_mem + 8u);
    if ((system_mem && system_mem < HX_GLIBC_PAGE) || max_mem < system_mem || max_mem >> 47)
        return HX_GLIBC_NOT;
    if (shape->attached && arena_word(bytes, shape->attached) > UINT16_MAX)
        return HX_GLIBC_NOT;
    return HX_GLIBC_USED;
}

/* --- search ---------------------------------------------------------------- */

struct search {
    const struct hx_mapping *mapping;
    size_t n;
    const struct hx_peek *peek;
    hx_modules *modules; /* NULL: none */
    struct hx_glibc *glibc;
    uint8_t *buffer;  /* BLOCK + OVERLAP */
    uint64_t at, len; /* what is in it */
    uint64_t looked;
    int ring_steps; /* over all candidates: they may be many, and made to be slow */
};

static bool maps_same_file(const struct hx_mapping *a, const struct hx_mapping *b)
{
    return a->dev == b->dev && a->inode == b->inode && strcmp(a->path, b->path) == 0;
}

/* Follows `next` until it comes back. What only looks like an arena may lead into a ring that it
 * is no part of, which must not use up the steps of the others: a place that was marked a while
 * ago comes again there (R. P. Brent, "An improved Monte Carlo factorization algorithm", 1980). */
static bool ring_closes(struct search *search, uint64_t addr,
                        const struct hx_glibc_state_shape *shape)
{
    uint64_t at = addr, mark = 0;
    unsigned steps = 0, lap = 1;
    while (search->ring_steps++ < 4 * HX_GLIBC_ARENAS_MAX) {
        if (!search->peek->read(search->peek->context, at + shape->next, &at, sizeof at))
            return false;
        if (at == addr)
            return true;
        if (!at || at & 7 || at == mark)
            return false;
        if (++steps == lap) {
            mark = at;
            lap *= 2;
            steps = 0;
        }
    }
    return false;
}

/* Each empty bin is a candidate: as a rule all of its arena is in the buffer. */
static bool read_state(const struct search *search, uint64_t addr, uint8_t *bytes, size_t size)
{
    if (addr < search->at || addr - search->at > search->len ||
        size > search->len - (addr - search->at))
        return search->peek->read(search->peek->context, addr, bytes, size);
    memcpy(bytes, search->buffer + (addr - search->at), size);
    return true;
}

static void consider(struct search *search, uint64_t addr, const struct hx_glibc_state_shape *shape)
{
    struct hx_glibc *glibc = search->glibc;
    uint8_t bytes[2304];
    for (size_t i = 0; i < glibc->n_mains; i++)
        if (addr < glibc->main[i].addr + glibc->main[i].shape->size &&
            glibc->main[i].addr < addr + shape->size)
            return;
    if (addr & 7 || glibc->n_mains == HX_GLIBC_MAINS || shape->size > sizeof bytes ||
        !read_state(search, addr, bytes, shape->size) ||
        hx_glibc_state_like(shape, addr, bytes) == HX_GLIBC_NOT ||
        !ring_closes(search, addr, shape))
        return;
    glibc->main[glibc->n_mains++] = (struct hx_glibc_main){.addr = addr, .shape = shape};
}

/* A word that could belong to a main_arena: an empty last bin, or the `next` of an unused
 * one. */
static void examine(struct search *search, uint64_t at, uint64_t word, uint64_t following)
{
    if (at - word > 4096)
        return;
    for (size_t i = 0; i < hx_glibc_n_state_shapes; i++) {
        const struct hx_glibc_state_shape *shape = hx_glibc_state_shapes[i];
        uint64_t last = shape->bins + 16u * (HX_GLIBC_BINS - 1);
        if (at - word == 16 && following == word && at > last)
            consider(search, at - last, shape);
        if (at - word == shape->next)
            consider(search, word, shape);
    }
}

/* Looks through [start, end) of the target. */
static void scan_for_arena(struct search *search, uint64_t start, uint64_t end)
{
    for (uint64_t at = start; at < end && search->looked < data_max; at += BLOCK) {
        uint64_t len = end - at < BLOCK ? end - at : BLOCK;
        search->looked += len;
        search->len = 0;
        if (!search->peek->read(search->peek->context, at, search->buffer, len))
            continue;
        search->at = at;
        search->len = len;
        /* A pair across two blocks has its first word at the end: read the other alone. */
        for (uint64_t i = 0; i + 8 <= len; i += 8) {
            uint64_t word = arena_word(search->buffer, i), following = 0;
            if (at + i - word > 4096)
                continue;
            if (i + 16 <= len)
                following = arena_word(search->buffer, i + 8);
            else
                search->peek->read(search->peek->context, at + i + 8, &following, 8);
            examine(search, at + i, word, following);
        }
    }
}

static bool is_code_of(const struct search *search, const struct hx_mapping *data)
{
    for (size_t i = 0; i < search->n; i++)
        if (search->mapping[i].prot & HX_PROT_X && maps_same_file(&search->mapping[i], data))
            return true;
    return false;
}

static bool is_private_data(const struct hx_mapping *mapping)
{
    return (mapping->prot & (HX_PROT_R | HX_PROT_W | HX_PROT_SHARED)) == (HX_PROT_R | HX_PROT_W) &&
           !mapping->device;
}

/* --- what surrounds a find ------------------------------------------------- */

/* The data mappings around main_arena without a gap, as far as they are of the same file or
 * anonymous (.bss): mp_ is there. */
static void set_arena_data_range(const struct search *search, struct hx_glibc_main *found,
                                 size_t home)
{
    const struct hx_mapping *mapping = search->mapping;
    size_t first = home, last = home;
    while (first > 0 && mapping[first - 1].end == mapping[first].start &&
           is_private_data(&mapping[first - 1]) &&
           maps_same_file(&mapping[first - 1], &mapping[home]))
        first--;
    while (last + 1 < search->n && mapping[last].end == mapping[last + 1].start &&
           is_private_data(&mapping[last + 1]) &&
           maps_same_file(&mapping[last + 1], &mapping[home]))
        last++;
    found->data_start = mapping[first].start;
    found->data_end = mapping[last].end;
    const char *slash = strrchr(mapping[home].path, '/');
    const char *name = slash ? slash + 1 : mapping[home].path;
    size_t len = strlen(name);
    if (len >= sizeof found->module)
        len = sizeof found->module - 1;
    memcpy(found->module, name, len);
    found->module[len] = '\0';
    found->offset = found->addr - mapping[home].start;
    for (size_t i = home; i-- > 0;)
        if (mapping[home].inode && maps_same_file(&mapping[i], &mapping[home]))
            found->offset = found->addr - mapping[i].start;
}

/* "... GNU C Library (Debian GLIBC 2.36-9) stable release version 2.36." -> 36 */
static int parse_version(const char *text, size_t len)
{
    static const char banner[] = "GNU C Library", word[] = "version 2.";
    const char *at = memmem(text, len, banner, sizeof banner - 1);
    if (!at)
        return 0;
    size_t rest = len - (size_t)(at - text);
    rest = rest < VERSION_LINE ? rest : VERSION_LINE;
    at = memmem(at, rest, word, sizeof word - 1);
    if (!at)
        return 0;
    int minor = 0;
    for (at += sizeof word - 1; at < text + len && *at >= '0' && *at <= '9' && minor < 1000; at++)
        minor = minor * 10 + (*at - '0');
    return minor;
}

/* The version string in the read-only parts of the file that holds main_arena. */
static int find_version(struct search *search, const struct hx_mapping *home)
{
    uint64_t looked = 0;
    for (size_t i = 0; i < search->n; i++) {
        const struct hx_mapping *m = &search->mapping[i];
        if (!m->inode || !maps_same_file(m, home) || m->prot & HX_PROT_W || !(m->prot & HX_PROT_R))
            continue;
        for (uint64_t at = m->start; at < m->end && looked < data_max / 8;) {
            uint64_t len = m->end - at < BLOCK ? m->end - at : BLOCK;
            looked += len;
            if ((search->modules && hx_module_read(search->modules, at, search->buffer, len)) ||
                search->peek->read(search->peek->context, at, search->buffer, len)) {
                int minor = parse_version((const char *)search->buffer, len);
                if (minor)
                    return minor;
            }
            at += len == BLOCK ? BLOCK - VERSION_LINE : len;
        }
    }
    return 0;
}

static void search_mappings(struct search *search, bool modules)
{
    for (size_t i = 0; i < search->n; i++) {
        const struct hx_mapping *m = &search->mapping[i];
        bool module = m->inode && is_private_data(m) && is_code_of(search, m);
        if (!is_private_data(m) || module != modules || strcmp(m->path, "[stack]") == 0)
            continue;
        size_t before = search->glibc->n_mains;
        scan_for_arena(search, m->start, m->end);
        for (size_t k = before; k < search->glibc->n_mains; k++) {
            set_arena_data_range(search, &search->glibc->main[k], i);
            if (m->inode)
                search->glibc->main[k].minor = find_version(search, m);
        }
    }
}

/* Data of ELF files first; a program that unpacked itself has its data in nameless memory,
 * where arenas of threads look the same: take one only when its ring does not lead to a
 * main_arena that is known. */
hx_error *hx_glibc_find(const struct hx_alloc_target *target, struct hx_allocator_share *share,
                        void **ret_state)
{
    *ret_state = NULL;
    struct hx_glibc *glibc = calloc(1, sizeof *glibc);
    HX_FREE uint8_t *buffer = malloc(BLOCK + OVERLAP);
    if (!glibc || !buffer) {
        free(glibc);
        return hx_error_nomem();
    }
    struct search search = {.mapping = target->mapping,
                            .n = target->n_mappings,
                            .peek = target->peek,
                            .modules = target->modules,
                            .glibc = glibc,
                            .buffer = buffer};
    search_mappings(&search, true);
    if (!glibc->n_mains) {
        search.looked = data_max - data_max / 8;
        search_mappings(&search, false);
        if (glibc->n_mains > 1)
            glibc->n_mains = 1;
    }
    if (!glibc->n_mains) {
        free(glibc);
        return NULL;
    }
    *ret_state = glibc;
    share->name = strdup("glibc");
    share->module = strdup(glibc->main[0].module);
    share->evidence = strdup("main_arena by shape");
    HX_NEED(share->name && share->module && share->evidence);
    if (glibc->main[0].minor && asprintf(&share->version, "2.%d", glibc->main[0].minor) < 0)
        share->version = NULL;
    return NULL;
}

/* The code of the allocator, as far as exported names tell: its entry points lie in one
 * object file together with the functions that they share. */
static struct hx_range find_code(hx_modules *modules)
{
    static const char *const names[] = {"malloc",         "free",           "calloc",
                                        "realloc",        "memalign",       "malloc_trim",
                                        "__libc_malloc",  "__libc_free",    "__libc_calloc",
                                        "__libc_realloc", "__libc_memalign"};
    for (size_t i = 0; i < hx_modules_count(modules); i++) {
        uint64_t addr, size, low = UINT64_MAX, high = 0;
        if (!hx_module_symbol(modules, i, "__libc_malloc", &addr, &size) &&
            !hx_module_symbol(modules, i, "malloc_trim", &addr, &size))
            continue;
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            if (!hx_module_symbol(modules, i, names[k], &addr, &size))
                continue;
            low = addr < low ? addr : low;
            high = addr + size > high ? addr + size : high;
        }
        if (low >= high || high - low > 1 << 20)
            continue;
        /* the functions that they share come first in that file */
        return (struct hx_range){low - (low < 0x5000 ? low : 0x5000), high};
    }
    return (struct hx_range){0};
}

hx_error *hx_glibc_guard(void *state, const struct hx_alloc_target *target, struct hx_guard *ret)
{
    const struct hx_glibc *glibc = state;
    struct hx_range code = find_code(target->modules);
    if (code.start < code.end)
        HX_NEED(hx_vec_push(&ret->code, code));
    for (size_t i = 0; i < glibc->n_mains; i++) {
        uint64_t at = glibc->main[i].addr;
        for (int k = 0; k < HX_GLIBC_ARENAS_MAX; k++) {
            HX_NEED(
                hx_vec_push(&ret->locks, (struct hx_lock_word){.addr = at, .mask = UINT32_MAX}));
            if (!hx_peek_u64(target->peek, at + glibc->main[i].shape->next, &at) ||
                at == glibc->main[i].addr || !at || at & 7)
                break;
        }
    }
    return NULL;
}
