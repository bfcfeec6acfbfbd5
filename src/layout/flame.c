/* flame.c - the layout of flame graphs. */
#include "layout/flame.h"

/* The cell that a place in the whole lies in. */
static int cell_of(uint64_t at, uint64_t whole, int columns)
{
    return whole && columns > 0 ? (int)((unsigned __int128)at * (unsigned)columns / whole) : 0;
}

/* Where what is below a node ends: behind it stands its own. */
static uint64_t room_end(const struct hx_flame_node *node, const struct hx_flame_block *block)
{
    uint64_t has = block->to - block->from;
    return block->to - (node->own < has ? node->own : has);
}

void hx_flame_lay(const struct hx_flame_node *node, size_t n, int columns,
                  struct hx_flame_block *ret)
{
    uint64_t whole = n ? node[0].value : 0;
    for (size_t i = 0; i < n; i++) {
        struct hx_flame_block *block = &ret[i], *parent = &ret[node[i].parent];
        *block = (struct hx_flame_block){.to = whole};
        if (i) {
            uint64_t left = room_end(&node[node[i].parent], parent) - parent->end;
            block->from = parent->end;
            block->to = block->from + (node[i].value < left ? node[i].value : left);
            block->line = parent->line + 1;
            parent->end = block->to;
        }
        block->end = block->from;
        block->x = cell_of(block->from, whole, columns);
        block->width = cell_of(block->to, whole, columns) - block->x;
    }
    if (n && !whole)
        ret[0].width = columns > 0 ? columns : 0; /* nothing, but what there is */
    for (size_t i = 0; i < n; i++) {
        uint64_t end = room_end(&node[i], &ret[i]);
        ret[i].rest = end - ret[i].end;
        ret[i].rest_x = cell_of(ret[i].end, whole, columns);
        ret[i].rest_width = cell_of(end, whole, columns) - ret[i].rest_x;
    }
}

int hx_flame_lines(const struct hx_flame_block *block, size_t n)
{
    int lines = 0;
    for (size_t i = 0; i < n; i++) {
        int below = block[i].line + 1 + (block[i].rest_width > 0);
        if (block[i].width > 0 && below > lines)
            lines = below;
    }
    return lines;
}

bool hx_flame_at(const struct hx_flame_block *block, size_t n, int line, int x, size_t *ret)
{
    for (size_t i = 0; i < n; i++) {
        if (block[i].line == line && x >= block[i].x && x < block[i].x + block[i].width) {
            *ret = i;
            return true;
        }
    }
    return false;
}

int hx_flame_first(int line, int lines, int height, int first)
{
    if (first > line - 1)
        first = line - 1;
    if (first < line + 2 - height)
        first = line + 2 - height; /* a line of what is below it, too */
    if (height < 3)
        first = line;
    if (first > lines - height)
        first = lines - height;
    return first < 0 ? 0 : first;
}

uint32_t hx_flame_hash(const char *name)
{
    uint32_t hash = 2166136261u;
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 16777619u;
    return hash;
}

unsigned hx_flame_colour(const char *name, unsigned n)
{
    uint32_t hash = hx_flame_hash(name);
    return n ? (hash ^ hash >> 16) % n : 0;
}
