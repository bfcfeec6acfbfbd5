/* typing_private.h - what the parts of src/traverse/typing share. */
#ifndef HX_TRAVERSE_TYPING_TYPING_PRIVATE_H
#define HX_TRAVERSE_TYPING_TYPING_PRIVATE_H

#include "traverse/typing/typing.h"
#include "base/text.h"
#include "traverse/typing/word_map.h"

/* A type in graph.type while objects are typed: a number of the table, then what was brought
 * (word_map.h), then (with this bit) a type of snapshot.types that the table lacks. */
#define HX_TYPE_BY_VTABLE UINT32_C(0x80000000)

struct hx_derived_type {
    uint32_t base, type; /* `type` begins with a `base` */
};

struct hx_typing {
    struct hx_typing_source source;
    struct hx_word_maps maps;
    HX_VEC(struct hx_derived_type) derived; /* once it was found; by base */
    bool derived_found;
    HX_VEC(uint32_t) number; /* of each of snapshot.types: in the table, or as above */
};

/* How a block can be a type: as one, with a flexible array at its end, as an array of several. */
enum hx_fit { HX_FIT_NOT, HX_FIT_ONE, HX_FIT_FLEXIBLE, HX_FIT_SEVERAL };

enum hx_fit hx_typing_fit(const struct hx_type_table *table, uint32_t type, uint64_t size,
                          uint64_t requested);

bool hx_typing_edges_agree(const struct hx_graph *graph, hx_obj object,
                           const struct hx_word_map *map, enum hx_fit fit);

/* Does `outer` begin with `inner`: its first base or member, or that of this one, ...? */
bool hx_typing_begins_with(const struct hx_type_table *table, uint32_t outer, uint32_t inner);

/* What a word of type `from` says of an object that it points to. */
struct hx_claim {
    uint32_t from;
    bool inside; /* the word points into it, not to its start */
    bool loose;  /* what the object begins with is enough */
    /* The answer: */
    uint32_t type;
    enum hx_fit fit; /* HX_FIT_NOT: it is not believed, */
    bool larger;     /* since the object is larger than that */
    bool vague;      /* by what it begins with */
};
hx_error *hx_typing_claim(hx_typing *typing, const struct hx_graph *graph, hx_obj object,
                          uint32_t word, struct hx_claim *claim);

/* Appends what objects of a type are called: "Node", "Node *[]". */
void hx_typing_put_name(const hx_typing *typing, uint32_t type, bool repeats, struct hx_text *text);

/* The typed variable that holds the word of a root edge; NULL: none. */
const struct hx_typed_place *hx_typing_place(const struct hx_typing_source *source,
                                             const struct hx_snapshot *snapshot,
                                             const struct hx_root_edge *edge);

/* The word of a map at an offset. */
static inline uint32_t hx_map_word(const struct hx_word_map *map, uint64_t offset, bool repeats)
{
    uint64_t word = offset / 8;
    if (repeats && map->n)
        word %= map->n;
    if (word < map->n)
        return map->word[word];
    return map->tail ? map->word[map->n + (word - map->tail_from) % map->tail] : HX_WORD_OPEN;
}

/* The type that an array, of arrays too, consists of. */
uint32_t hx_typing_element(const struct hx_type_table *table, uint32_t type);

#endif
