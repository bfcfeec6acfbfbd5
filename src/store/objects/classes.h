/* classes.h - the order in which columns that are alike within a class of objects are stored.
 *
 * Objects of one size, with as many references out and in, are much alike: in their shape, in who
 * holds them, in where their words lead. Columns of such things are cut into blocks of rows as
 * all are, but within a block the rows of one class lie beside one another, in their order. An edge
 * is of the class of its source, and of its place among the edges of that. Which row lies where
 * follows from the sizes and counts, which are stored in order: it takes no room.
 *
 * These numbers are part of the format (HX_PLACED of packed_column.h) and never change. */
#ifndef HX_STORE_OBJECTS_CLASSES_H
#define HX_STORE_OBJECTS_CLASSES_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

enum {
    HX_CLASS_EXACT = 128,                 /* sizes told apart, in words */
    HX_CLASS_SIZES = HX_CLASS_EXACT + 54, /* larger ones by their magnitude */
    HX_CLASSES = HX_CLASS_SIZES * 16,
    HX_EDGE_CLASSES = HX_CLASSES * 4
};

enum { HX_CLASS_COUNTS = 3 }; /* references in or out: so many or more are one */

/* An object's class is the sum of what its columns say: less than HX_CLASSES. */
static inline uint16_t hx_class_of_size(uint64_t size)
{
    unsigned by_size = size < 8 * HX_CLASS_EXACT
                           ? (unsigned)size / 8
                           : HX_CLASS_EXACT + 53 - (unsigned)__builtin_clzll(size);
    return (uint16_t)(by_size << 4);
}
static inline uint16_t hx_class_of_out(uint64_t out)
{
    return (uint16_t)((out < HX_CLASS_COUNTS ? out : HX_CLASS_COUNTS) << 2);
}
static inline uint16_t hx_class_of_in(uint64_t in)
{
    return (uint16_t)(in < HX_CLASS_COUNTS ? in : HX_CLASS_COUNTS);
}
static inline uint16_t hx_class_of(uint64_t size, uint64_t in, uint64_t out)
{
    return (uint16_t)(hx_class_of_size(size) + hx_class_of_out(out) + hx_class_of_in(in));
}

/* The class of an edge, the nth of its source's (from 0) within its block. */
static inline uint16_t hx_edge_class_of(uint16_t source, uint64_t nth)
{
    return (uint16_t)(source << 2 | (nth < 3 ? nth : 3));
}

/* place[i]: where row i of n <= HX_BLOCK_ROWS lies, a permutation of 0 .. n - 1. Each class is less
 * than HX_EDGE_CLASSES; `place` may be `class`. */
hx_error *hx_classes_place(const uint16_t *class, size_t n, uint16_t *place);

#endif
