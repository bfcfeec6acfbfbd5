/* frames.c - the memory that frames of Python functions lie in.
 *
 * Each thread of the interpreter has chunks of it, from mappings of their own: the chunk before,
 * its size, how far it is used when another one follows, then frames with local variables. As roots
 * they would be nameless memory, and it is they that hold what functions work with.
 */
#include "attach/python/objects.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_MIN = 16 << 10, CHUNK_MAX = 1 << 30, PAGE = 4096, BEFORE = 64 * PAGE, PAGES = 256 };

/* Is this the beginning of a chunk that has so much room? */
static bool is_chunk(const struct hx_image *image, uint64_t addr, uint64_t room)
{
    uint64_t word[3], before;
    if (addr % 16 || !hx_image_read(image, addr, word, sizeof word) || word[1] < CHUNK_MIN ||
        word[1] > CHUNK_MAX || word[1] & (word[1] - 1) || word[1] > room || word[2] > word[1] / 8)
        return false;
    return !word[0] || (word[0] % 16 == 0 && hx_image_u64(image, word[0] + 8, &before) &&
                        before >= CHUNK_MIN && before <= CHUNK_MAX && !(before & (before - 1)));
}

static bool is_frames(const struct hx_snapshot *snapshot, const struct hx_root *root)
{
    size_t i = hx_mapping_find(snapshot->mapping, snapshot->n_mappings, root->address);
    if (root->kind != HX_ROOT_MAPPING || i == snapshot->n_mappings || snapshot->mapping[i].path[0])
        return false;
    /* the mapping can have other things in front or behind: most of the root has to be the chunk's
     */
    const struct hx_mapping *mapping = &snapshot->mapping[i];
    uint64_t page = root->address & ~(uint64_t)(PAGE - 1), end = root->address + root->size, bytes;
    page -= page - mapping->start < BEFORE ? page - mapping->start : BEFORE;
    for (int k = 0; k < PAGES && page < end; k++, page += PAGE) {
        if (!is_chunk(&snapshot->image, page, mapping->end - page) ||
            !hx_image_u64(&snapshot->image, page + 8, &bytes))
            continue;
        uint64_t from = page > root->address ? page : root->address;
        uint64_t to = page + bytes < end ? page + bytes : end;
        if (to > from && to - from > root->size / 2)
            return true;
    }
    return false;
}

hx_error *hx_py_name_frames(struct hx_snapshot *snapshot)
{
    size_t n = 0;
    for (size_t i = 0; i < snapshot->roots.n; i++)
        n += is_frames(snapshot, &snapshot->roots.v[i]);
    for (size_t i = 0; n && i < snapshot->roots.n; i++) {
        struct hx_root *root = &snapshot->roots.v[i];
        char *name = NULL;
        if (!is_frames(snapshot, root))
            continue;
        HX_NEED(asprintf(&name, n == 1 ? "frames of Python" : "frames of Python at 0x%" PRIx64,
                         root->address) >= 0);
        free(root->name);
        root->name = name;
    }
    return NULL;
}
