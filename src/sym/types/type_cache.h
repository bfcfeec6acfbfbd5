/* type_cache.h - a folder of type tables that were read before: $XDG_CACHE_HOME/heapx, else
 * ~/.cache/heapx.
 *
 * The folder is the user's and open to nobody else, and so is every file in it; no link is
 * followed there. A file is called by a hash of what it was made from, with a random key that lies
 * in the folder, so that nobody else can make two things that have the same hash. It has a
 * checksum, and is tested as if somebody else had written it. One that is damaged, or of another
 * kind, is removed, and made again by whoever needs it.
 *
 * Nothing here is an error: where there is no cache, things are read anew.
 */
#ifndef HX_SYM_TYPES_TYPE_CACHE_H
#define HX_SYM_TYPES_TYPE_CACHE_H

#include "base/cleanup.h"
#include "base/siphash.h"
#include "model/type_table.h"

struct hx_type_cache {
    int folder; /* -1: there is none */
    uint64_t key[2];
    uint64_t max_bytes, max_files; /* kept in the folder, about */
    uint64_t until_sweep;          /* bytes that may be put before its size is looked at */
};
#define HX_TYPE_CACHE_NONE ((struct hx_type_cache){.folder = -1})

/* Where the environment says, in a folder that belongs to this user. False: there is none. */
bool hx_type_cache_open(struct hx_type_cache *ret);
void hx_type_cache_close(struct hx_type_cache *cache); /* legal for none */
#define HX_TYPE_CACHE HX_CLEANUP(hx_type_cache_close)

/* A hash that is begun with the key of the folder; `of` says of what, which has no other hashes. */
enum hx_type_cached { HX_CACHED_TABLE, HX_CACHED_HASH, HX_CACHED_SECTIONS };
void hx_type_cache_hash(const struct hx_type_cache *cache, enum hx_type_cached of,
                        struct hx_siphash *ret);

/* The table of that name; *ret_block is the caller's. False: there is none. */
bool hx_type_cache_get(const struct hx_type_cache *cache, struct hx_hash128 name,
                       struct hx_type_table *ret, void **ret_block);
void hx_type_cache_put(struct hx_type_cache *cache, struct hx_hash128 name,
                       const struct hx_type_table *table);

/* The same of a hash by another one. */
bool hx_type_cache_get_hash(const struct hx_type_cache *cache, struct hx_hash128 name,
                            struct hx_hash128 *ret);
void hx_type_cache_put_hash(struct hx_type_cache *cache, struct hx_hash128 name,
                            struct hx_hash128 hash);

#endif
