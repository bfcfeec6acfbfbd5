/* spread.h - objects while types go along their pointers. */
#ifndef HX_TRAVERSE_TYPING_SPREAD_H
#define HX_TRAVERSE_TYPING_SPREAD_H

#include "traverse/typing/typing_private.h"

#define HX_SPREAD_STACK   ((size_t)1 << 16) /* objects; those without room are found again */
#define HX_SPREAD_SAYINGS 64                /* that wait for what they are held against */
#define HX_SPREAD_CHANGES 3                 /* of an object's type */
#define HX_SUPPORT_MAX    15

/* What a word of an object of type `from` says of `object`, before that is weighed. */
struct hx_saying {
    hx_obj object;
    uint32_t word, from;
    enum hx_edge_kind kind;
};

/* What a pointer says of an object. */
struct hx_vote {
    uint32_t type;
    enum hx_fit fit; /* HX_FIT_NOT: nothing */
    enum hx_confidence confidence;
};

/* What is known of an object so far: together, as a pointer that leads anywhere wants all of it. */
struct hx_known {
    uint32_t type; /* as in graph.type, and typed as there */
    hx_typed typed;
    uint8_t votes; /* low 4 bits for the type that it has, high 4 how often it changed */
    uint16_t size; /* UINT16_MAX: that or more, as graph.size says */
};

struct hx_spread {
    struct hx_typing *typing;
    struct hx_snapshot *snapshot;
    struct hx_graph *graph;
    const struct hx_type_table *table;
    struct hx_known *known; /* of objects, in place of graph.type and graph.typed */
    struct hx_big known_mem;
    hx_obj *stack;
    size_t n_stack;
    bool overflow;
    uint64_t done;      /* objects that have spoken, some more than once */
    uint64_t *doubtful; /* bits of those of which one has spoken that has another type now; NULL
                           as long as no type has changed */
    struct hx_saying saying[HX_SPREAD_SAYINGS]; /* first_saying up to end_saying, by number */
    uint64_t first_saying, end_saying;
};

/* One more word agrees with the type that an object has. */
static inline void hx_typing_support(struct hx_spread *spread, hx_obj object)
{
    if ((spread->known[object].votes & 15) < HX_SUPPORT_MAX)
        spread->known[object].votes++;
}

static inline uint64_t hx_known_size(const struct hx_spread *spread, hx_obj object)
{
    const uint16_t size = spread->known[object].size;
    return size < UINT16_MAX ? size : spread->graph->size[object];
}

/* Is what is of one type of another one, too, as it begins with it? */
static inline bool hx_typing_is_a(const struct hx_spread *spread, uint32_t has, uint32_t type)
{
    const uint32_t head =
        has & HX_TYPE_BY_VTABLE ? 0 : hx_word_maps_head(&spread->typing->maps, has);
    return has == type || hx_typing_begins_with(spread->table, head ? head : has, type);
}

/* How many pointers of an object are in words of a type that can have some, and that cannot. */
struct hx_agreement {
    unsigned good, bad;
};
struct hx_agreement hx_typing_agreement(const struct hx_graph *graph, hx_obj object,
                                        const struct hx_word_map *map, enum hx_fit fit);

/* What a word says that has one of several types, or is of a hint about what it points into. */
hx_error *hx_typing_choose(struct hx_spread *spread, enum hx_edge_kind kind, hx_obj object,
                           uint32_t word, struct hx_vote *vote);

/* Is what a word says one of those types that an object has? */
bool hx_typing_speaks_for(const struct hx_spread *spread, enum hx_edge_kind kind, uint32_t word,
                          uint32_t has);

/* What an object says of others; hx_spread_all() then goes on from these. */
hx_error *hx_spread_object(struct hx_spread *spread, hx_obj object);
hx_error *hx_spread_all(struct hx_spread *spread, const struct hx_progress *progress);

/* The type of an object is about to change, or is none any more: what it said is in doubt. */
hx_error *hx_typing_doubt(struct hx_spread *spread, hx_obj object);

/* An object whose type has changed has said something of others before. What nobody says any more
 * is taken back, and others may speak then. */
hx_error *hx_typing_take_back(struct hx_spread *spread, const struct hx_progress *progress);

#endif
