/* code_store.c - strings and lines that stay where they are until the set of files ends. */
#include "sym/code/code_private.h"

#include <stdlib.h>
#include <string.h>

#define PIECE_BYTES ((size_t)64 << 10)

void *hx_code_store_take(struct hx_code_store *store, size_t bytes)
{
    bytes = (bytes + 15) & ~(size_t)15;
    struct hx_code_piece *piece = store->piece;
    if (!piece || piece->size - piece->used < bytes) {
        size_t size = bytes > PIECE_BYTES ? bytes : PIECE_BYTES;
        piece = malloc(sizeof *piece + size);
        if (!piece)
            return NULL;
        *piece = (struct hx_code_piece){.next = store->piece, .size = size};
        store->piece = piece;
    }
    void *taken = piece->bytes + piece->used;
    piece->used += bytes;
    return taken;
}

/* FNV-1a, mixed once more for the low bits. */
static size_t hash_stored_text(const char *s, size_t n)
{
    uint64_t h = 0xcbf29ce484222325;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)s[i]) * 0x100000001b3;
    return (size_t)(h ^ h >> 32);
}

static bool grow_code_store(struct hx_code_store *store)
{
    size_t n = store->n_slots ? store->n_slots * 2 : 256;
    const char **slot = calloc(n, sizeof *slot);
    if (!slot)
        return false;
    for (size_t i = 0; i < store->n_slots; i++) {
        const char *s = store->slot[i];
        size_t at = s ? hash_stored_text(s, strlen(s)) & (n - 1) : 0;
        while (s && slot[at])
            at = (at + 1) & (n - 1);
        if (s)
            slot[at] = s;
    }
    free(store->slot);
    store->slot = slot;
    store->n_slots = n;
    return true;
}

const char *hx_code_store_string(struct hx_code_store *store, const char *s, size_t n)
{
    if (store->n * 2 >= store->n_slots && !grow_code_store(store))
        return NULL;
    n = strnlen(s, n);
    size_t at = hash_stored_text(s, n) & (store->n_slots - 1);
    for (; store->slot[at]; at = (at + 1) & (store->n_slots - 1))
        if (strncmp(store->slot[at], s, n) == 0 && !store->slot[at][n])
            return store->slot[at];
    char *kept = hx_code_store_take(store, n + 1);
    if (!kept)
        return NULL;
    memcpy(kept, s, n);
    kept[n] = 0;
    store->slot[at] = kept;
    store->n++;
    return kept;
}

void hx_code_store_free(struct hx_code_store *store)
{
    for (struct hx_code_piece *piece = store->piece, *next; piece; piece = next) {
        next = piece->next;
        free(piece);
    }
    free(store->slot);
    *store = (struct hx_code_store){0};
}
