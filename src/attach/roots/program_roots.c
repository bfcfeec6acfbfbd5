/* program_roots.c - reading the arrays of heapx/roots.h out of an image. */
#include "attach/roots/program_roots.h"

#include "base/cleanup.h"
#include "sym/demangle.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096 };

/* The layouts of heapx/roots.h, version 1. */
struct descriptor {
    uint64_t roots, n;
    uint32_t busy, unused[3];
};
struct entry {
    uint64_t name, pointer;
};
_Static_assert(sizeof(struct descriptor) == 32 && sizeof(struct entry) == 16, "as in the header");

static const char descriptor_symbol[] = "heapx_roots_v1", note_owner[] = "heapx";
enum { NOTE_TYPE = 1 };

/* The target's memory at the stop, through a window of at most a page. */
struct reader {
    const struct hx_program_source *source;
    uint64_t start, end; /* what `bytes` are */
    uint8_t bytes[PAGE];
};

/* --- memory at the stop ------------------------------------------------------------- */

/* Moves the window so that it begins at addr. A page that the image does not have was never
 * written: it is as its file says, or zero. */
static bool move_window(struct reader *reader, uint64_t addr)
{
    const struct hx_snapshot *snapshot = reader->source->snapshot;
    size_t len = PAGE - addr % PAGE;
    reader->start = reader->end = 0;
    size_t i = hx_mapping_find(snapshot->mapping, snapshot->n_mappings, addr);
    if (i == snapshot->n_mappings)
        return false;
    const struct hx_mapping *mapping = &snapshot->mapping[i];
    if (!hx_image_read(&snapshot->image, addr, reader->bytes, len)) {
        if (!(mapping->prot & HX_PROT_R) || mapping->device)
            return false;
        size_t got =
            mapping->prot & HX_PROT_SHARED
                ? 0
                : hx_module_read_initial(reader->source->modules, addr, reader->bytes, len);
        if (got)
            len = got;
        else if (mapping->prot & HX_PROT_W && mapping->inode == 0)
            memset(reader->bytes, 0, len);
        else if (mapping->prot & HX_PROT_W ||
                 !reader->source->read_live(reader->source->context, addr, reader->bytes, len))
            return false;
    }
    reader->start = addr;
    reader->end = addr + len;
    return true;
}

/* The bytes from addr on, at least one and at most `most`: how many are in a row; 0: none. */
static size_t read_program_bytes(struct reader *reader, uint64_t addr, size_t most,
                                 const uint8_t **ret)
{
    if ((addr < reader->start || addr >= reader->end) && !move_window(reader, addr))
        return 0;
    *ret = reader->bytes + (addr - reader->start);
    return reader->end - addr < most ? reader->end - addr : most;
}

static bool read_stopped_bytes(struct reader *reader, uint64_t addr, void *dst, size_t len)
{
    for (size_t done = 0, n; done < len; done += n) {
        const uint8_t *bytes;
        if (addr > UINT64_MAX - len ||
            !(n = read_program_bytes(reader, addr + done, len - done, &bytes)))
            return false;
        memcpy((uint8_t *)dst + done, bytes, n);
    }
    return true;
}

/* Is all of [start, end) mapped and readable? */
static bool is_readable_range(const struct hx_snapshot *snapshot, uint64_t start, uint64_t end)
{
    size_t i = hx_mapping_find(snapshot->mapping, snapshot->n_mappings, start);
    for (; i < snapshot->n_mappings && start < end; i++) {
        const struct hx_mapping *mapping = &snapshot->mapping[i];
        if (mapping->start > start || !(mapping->prot & HX_PROT_R))
            return false;
        start = mapping->end;
    }
    return start >= end;
}

/* --- entries ----------------------------------------------------------------------------- */

/* The name at addr, cut where it is too long, not in the middle of a character. */
static size_t read_root_name(struct reader *reader, uint64_t addr, char name[HX_ROOT_NAME_MAX + 1])
{
    size_t n = 0, most = HX_ROOT_NAME_MAX + 1;
    while (addr && n < most) {
        const uint8_t *bytes;
        size_t got =
            addr > UINT64_MAX - most ? 0 : read_program_bytes(reader, addr + n, most - n, &bytes);
        if (!got)
            return 0;
        const uint8_t *end = memchr(bytes, 0, got);
        size_t take = end ? (size_t)(end - bytes) : got;
        memcpy(name + n, bytes, take);
        n += take;
        if (end)
            break;
    }
    if (n > HX_ROOT_NAME_MAX) {
        size_t cut = HX_ROOT_NAME_MAX;
        while (cut > HX_ROOT_NAME_MAX - 3 && (name[cut] & 0xc0) == 0x80)
            cut--;
        n = (name[cut] & 0xc0) == 0x80 ? HX_ROOT_NAME_MAX : cut;
    }
    name[n] = 0;
    return n;
}

static hx_error *add_program_root(struct reader *reader, const struct entry *entry,
                                  struct hx_program_roots *roots)
{
    char name[HX_ROOT_NAME_MAX + 1];
    if (!read_root_name(reader, entry->name, name) || !strcmp(name, "-") ||
        !strcmp(name, "(unreachable)"))
        snprintf(name, sizeof name, "root %zu", roots->n + 1);
    char *copy = hx_written_name(name);
    HX_NEED(copy);
    for (char *at = copy; (at = strchr(at, '+'));)
        *at = '_'; /* it joins the names of a bin */
    roots->v[roots->n++] = (struct hx_program_root){.name = copy, .address = entry->pointer};
    return NULL;
}

/* --- modules --------------------------------------------------------------------------------- */

static bool find_descriptor(const struct hx_program_source *source, size_t module, uint64_t *ret)
{
    int64_t distance;
    uint64_t addr, size;
    if (hx_module_note(source->modules, module, note_owner, NOTE_TYPE, &distance, sizeof distance,
                       &addr))
        addr += (uint64_t)distance;
    else if (!hx_module_symbol(source->modules, module, descriptor_symbol, &addr, &size))
        return false;
    *ret = addr;
    return true;
}

static hx_error *read_root_array(struct reader *reader, const char *module,
                                 const struct descriptor *descriptor,
                                 struct hx_program_roots *roots)
{
    struct hx_snapshot *snapshot = reader->source->snapshot;
    uint64_t bytes, end, n = descriptor->n;
    if (__builtin_mul_overflow(n, sizeof(struct entry), &bytes) ||
        __builtin_add_overflow(descriptor->roots, bytes, &end) ||
        !is_readable_range(snapshot, descriptor->roots, end)) {
        hx_snapshot_note(snapshot, false,
                         "the roots that %s names were not read: there is no array of %" PRIu64
                         " at 0x%" PRIx64,
                         module, n, descriptor->roots);
        return NULL;
    }
    if (n > HX_PROGRAM_ROOTS_MAX - roots->n) {
        n = HX_PROGRAM_ROOTS_MAX - roots->n;
        hx_snapshot_note(snapshot, false,
                         "of the %" PRIu64 " roots that %s names %" PRIu64 " were read",
                         descriptor->n, module, n);
    }
    struct hx_program_root *v = reallocarray(roots->v, roots->n + n + 1, sizeof *v);
    HX_NEED(v);
    roots->v = v;
    for (uint64_t i = 0; i < n; i++) {
        struct entry entry;
        if (!read_stopped_bytes(reader, descriptor->roots + i * sizeof entry, &entry,
                                sizeof entry)) {
            hx_snapshot_note(snapshot, false,
                             "of the %" PRIu64 " roots that %s names only %" PRIu64
                             " could be read",
                             descriptor->n, module, i);
            break;
        }
        HX_TRY(add_program_root(reader, &entry, roots));
    }
    return NULL;
}

static hx_error *read_module(struct reader *reader, size_t module, struct hx_program_roots *roots)
{
    struct hx_snapshot *snapshot = reader->source->snapshot;
    const char *name = hx_module_name(reader->source->modules, module);
    uint64_t addr;
    struct descriptor descriptor;
    if (!find_descriptor(reader->source, module, &addr))
        return NULL;
    if (hx_modules_find(reader->source->modules, addr) != module ||
        !read_stopped_bytes(reader, addr, &descriptor, sizeof descriptor)) {
        hx_snapshot_note(snapshot, false,
                         "the roots that %s names were not read: nothing is at 0x%" PRIx64, name,
                         addr);
        return NULL;
    }
    if (descriptor.n)
        return read_root_array(reader, name, &descriptor, roots);
    if (descriptor.busy)
        hx_snapshot_note(snapshot, false, "the roots that %s names were changing at the stop",
                         name);
    return NULL;
}

hx_error *hx_program_roots_find(const struct hx_program_source *source,
                                struct hx_program_roots *ret)
{
    HX_FREE struct reader *reader = calloc(1, sizeof *reader);
    HX_NEED(reader);
    reader->source = source;
    struct hx_program_roots roots = {0};
    hx_error *err = NULL;
    for (size_t i = 0; i < hx_modules_count(source->modules) && !err; i++)
        err = read_module(reader, i, &roots);
    if (err) {
        hx_program_roots_deinit(&roots);
        return err;
    }
    *ret = roots;
    return NULL;
}

void hx_program_roots_deinit(struct hx_program_roots *roots)
{
    for (size_t i = 0; i < roots->n; i++)
        free(roots->v[i].name);
    free(roots->v);
    *roots = (struct hx_program_roots){0};
}
