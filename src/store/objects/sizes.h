/* sizes.h - bytes and objects by size class, from the packed sizes of a snapshot.
 *
 * Classes are those of glibc on 64 bits, whatever the allocator: a block counts in the class that
 * glibc would give it. Up to a chunk of 1024 bytes each size of chunk is a class, named by its
 * usable bytes: "24", "40", "56". Above that a class is a large bin, "1032-1079", and above the
 * largest bin what lies between two powers of two.
 */
#ifndef HX_STORE_OBJECTS_SIZES_H
#define HX_STORE_OBJECTS_SIZES_H

#include "base/error.h"
#include "store/objects/blocks.h"
#include "store/sqlite.h"

enum { HX_SIZES = 172, HX_SIZE_NAME = 48 };

/* The class of so many usable bytes. */
unsigned hx_block_size_class(uint64_t bytes);
/* The most and the least of a class: each number is in exactly one. */
uint64_t hx_block_size_most(unsigned number);
uint64_t hx_block_size_least(unsigned number);
const char *hx_block_size_name(unsigned number, char buf[HX_SIZE_NAME]);

/* Makes known to a connection the table hx_size_sum(snapshot, size, bytes, objects), whose rows are
 * counted when they are asked for, block by block, and three functions: hx_size_class(BYTES), the
 * name of a class, and hx_size_least(NAME), hx_size_most(NAME). */
hx_error *hx_size_table(sqlite3 *db, hx_blocks *blocks);

#endif
