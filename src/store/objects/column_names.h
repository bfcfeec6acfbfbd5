/* column_names.h - the names behind the numbers in columns: of types, bins, shapes, holders. */
#ifndef HX_STORE_OBJECTS_COLUMN_NAMES_H
#define HX_STORE_OBJECTS_COLUMN_NAMES_H

#include "base/error.h"
#include "store/sqlite.h"

#include <stddef.h>
#include <stdint.h>

enum hx_name_list {
    HX_NAMES_TYPE,   /* hx_type.type, name */
    HX_NAMES_BIN,    /* hx_bin.bin, roots */
    HX_NAMES_SHAPE,  /* hx_shape.shape, label */
    HX_NAMES_HOLDER, /* hx_holding.holder, name */
    HX_NAME_LISTS
};

typedef struct hx_names hx_names;

/* Reads the names of one snapshot. A store of an old schema has none. */
hx_error *hx_names_load(sqlite3 *db, int64_t snapshot, enum hx_name_list list, hx_names **ret);
void hx_names_free(hx_names *names); /* NULL is legal */
size_t hx_names_bytes(const hx_names *names);

/* The name of a number. *ret is NULL where the number has none; HX_E_CORRUPT when there is no such
 * number. */
hx_error *hx_names_of(const hx_names *names, uint64_t number, const char **ret, size_t *ret_bytes);

/* How many numbers have this name (at most one, unless a store lies), and the first of them. */
size_t hx_names_find(const hx_names *names, const char *name, size_t bytes, uint64_t *ret);

/* Where each number below *ret_n stands in the order of names, from 1 on; equal names at the same
 * place; 0: it has none. *ret is the caller's to free. */
hx_error *hx_names_ranks(const hx_names *names, uint32_t **ret, size_t *ret_n);

#endif
