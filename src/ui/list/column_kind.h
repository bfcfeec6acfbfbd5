/* column_kind.h - what a column's name says of its values, where nothing else does. */
#ifndef HX_UI_LIST_COLUMN_KIND_H
#define HX_UI_LIST_COLUMN_KIND_H

#include <stdbool.h>

/* An address: address, source, target, ..., and min_address. A number behind the name that
 * tells it apart from another one (source_2) does not count, here and below. */
bool hx_name_is_address(const char *name);
/* An amount of bytes: bytes, retained_bytes, sum_bytes; not count_bytes. */
bool hx_name_is_bytes(const char *name);
/* A name that happens to be written in digits: pid, snapshot, set_id. */
bool hx_name_is_id(const char *name);
/* Microseconds. */
bool hx_name_is_us(const char *name);

#endif
