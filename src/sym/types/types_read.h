/* types_read.h - the types and variables of one file, by its debug information.
 *
 * Runs where that is read (sym/reader): what comes out is one block (model/type_table.h), which
 * whoever asked tests. A unit at a time, with those that it refers to; equal types of several units
 * are kept once. Types of functions' insides are read, too.
 *
 * What is beyond the bounds, memory of a quarter of the tables of debug information and 64 MiB, is
 * left out and counted.
 */
#ifndef HX_SYM_TYPES_TYPES_READ_H
#define HX_SYM_TYPES_TYPES_READ_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct hx_code_dwarf;

/* *ret is the caller's. HX_E_CANCEL: deadline_ns (CLOCK_MONOTONIC) has passed. */
hx_error *hx_types_read(struct hx_code_dwarf *dwarf, uint64_t deadline_ns, void **ret,
                        size_t *ret_bytes);

#endif
