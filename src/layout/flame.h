/* flame.h - where the blocks of a flame graph are: a line for each level of a tree, a block for
 * each node, as wide as its part of the whole.
 *
 * Knows neither terminal nor store. Edges are rounded down from exact fractions, so that blocks lie
 * within their parents', beside each other, and what is worth at least a cell has one. What a node
 * neither has itself nor shows in blocks below it stands beside these as its rest.
 */
#ifndef HX_LAYOUT_FLAME_H
#define HX_LAYOUT_FLAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In the order of the tree, node 0 is its top; children come from left to right. */
struct hx_flame_node {
    uint32_t parent; /* index, below the own one; of node 0: 0 */
    uint64_t value;  /* with all that is below; children that claim more than is left get less */
    uint64_t own;    /* what of it is in no child */
};

/* Places are in 0 .. the whole; cells are what they lie in, rounded down. What a node has goes from
 * left to right: its children, its rest, its own. */
struct hx_flame_block {
    uint64_t from, to;      /* place */
    uint64_t end;           /* of its children */
    uint64_t rest;          /* so much of what is below it has no block */
    int line;               /* level; 0 is the top */
    int x, width;           /* cells; width 0: it cannot be seen */
    int rest_x, rest_width; /* of the rest, a line below */
};

/* Fills ret[0 .. n). A whole of 0 has nothing below its top. */
void hx_flame_lay(const struct hx_flame_node *node, size_t n, int columns,
                  struct hx_flame_block *ret);

/* Levels that have blocks. */
int hx_flame_lines(const struct hx_flame_block *block, size_t n);

/* The block there; false when there is none. */
bool hx_flame_at(const struct hx_flame_block *block, size_t n, int line, int x, size_t *ret);

/* The first level to show in `height` lines, so that `line` and what is around it can be seen;
 * `first` is that of the last time. */
int hx_flame_first(int line, int lines, int height, int first);

/* What a name always has: FNV-1a, for colours, and a number below `n`. */
uint32_t hx_flame_hash(const char *name);
unsigned hx_flame_colour(const char *name, unsigned n);

#endif
