/* typing_private.h - what the parts of src/traverse/typing share. */
#ifndef HX_TRAVERSE_TYPING_TYPING_PRIVATE_H
#define HX_TRAVERSE_TYPING_TYPING_PRIVATE_H

#include "traverse/typing/typing.h"
#include "base/pairs.h"
#include "base/text.h"
#include "traverse/hold/rules.h"
#include "traverse/typing/word_map.h"

/* A type in graph.type while objects are typed: a number of the table, then names that hints
 * brought, then (with this bit) a type of snapshot.types that the table lacks. */
#define HX_TYPE_BY_VTABLE UINT32_C(0x80000000)
#define HX_TYPE_SEVERAL   UINT32_C(0x7fffffff) /* of one name */

/* Types by what they begin with. */
struct hx_outer_types {
    uint32_t *first, *next; /* of each type: a record that begins with it; the next one alike */
    struct hx_pairs known;  /* of types and sizes */
};

/* Types by what they have within, not at their start. */
struct hx_container_types {
    uint32_t *field_1, *next_1; /* of each type: a field that is one, plus 1; the next one alike */
    uint32_t *owner;            /* of each field: the record that it is in */
    struct hx_pairs known;      /* of types and sizes */
};

struct hx_typing {
    struct hx_typing_source source;
    struct hx_outer_types outer;
    struct hx_container_types containers;
    struct hx_pairs classes; /* types of the table to those of vtables, as these were */
    struct hx_word_maps maps;
    HX_VEC(uint32_t) number; /* of each of snapshot.types: in the table, or as above */
};

#define HX_LEAST_BLOCK 24

/* How a block can be a type: as one, with room left over that malloc rarely leaves, with a flexible
 * array at its end, as an array of several. */
enum hx_fit { HX_FIT_NOT, HX_FIT_ONE, HX_FIT_LOOSE, HX_FIT_FLEXIBLE, HX_FIT_SEVERAL };

/* May a block of `size` bytes, of which `requested` were asked for, be of a type? */
enum hx_fit hx_typing_fit(const struct hx_type_table *table, uint32_t type, uint64_t size,
                          uint64_t requested);
/* The same where it is known to be one or more. */
enum hx_fit hx_typing_fit_many(const struct hx_type_table *table, uint32_t type, uint64_t size,
                               uint64_t requested);
/* Is an object with a vtable nothing but one of its class? */
bool hx_typing_is_whole(const hx_typing *typing, const struct hx_graph *graph, hx_obj object,
                        uint32_t type);
/* Can it be a single one, with what malloc leaves at most? The type fits somehow. */
bool hx_typing_is_loose(const struct hx_type_table *table, uint32_t type, uint64_t size,
                        uint64_t requested);

/* Does `outer` begin with `inner`: its first base or member, or that of this one, ...? */
bool hx_typing_begins_with(const struct hx_type_table *table, uint32_t outer, uint32_t inner);

/* *ret: the only record with a name that begins with a type (as its base only: `bases`) and is as
 * large as a block, 0: there is none, or several. */
hx_error *hx_outer_type(struct hx_outer_types *outer, const struct hx_type_table *table,
                        uint32_t type, uint64_t size, uint64_t requested, bool bases, uint32_t *ret,
                        bool *ret_several);
void hx_outer_types_deinit(struct hx_outer_types *outer);

/* *ret: the only record with a name that has a part within, and that a block of that size can be
 * one of; 0: there is none, or several. */
hx_error *hx_container_type(struct hx_container_types *containers,
                            const struct hx_type_table *table, uint32_t part, uint64_t size,
                            uint64_t requested, uint32_t *ret);
void hx_container_types_deinit(struct hx_container_types *containers);
/* Has a record a part within? */
bool hx_typing_contains(const struct hx_type_table *table, uint32_t record, uint32_t part);

/* Appends what objects of a type are called: "Node", "Node *[]". */
void hx_typing_put_name(const hx_typing *typing, uint32_t type, bool repeats, struct hx_text *text);

/* The length of a type's name of the snapshot without the size that tells it apart from others. */
size_t hx_typing_unsized_length(const char *name);

/* Makes snapshot.types of what objects have, which get its numbers; typing.number follows. */
hx_error *hx_typing_name_types(hx_typing *typing, struct hx_snapshot *snapshot);

/* The typed variable that holds the word of a root edge; NULL: none. */
const struct hx_typed_place *hx_typing_place(const struct hx_typing_source *source,
                                             const struct hx_snapshot *snapshot,
                                             const struct hx_root_edge *edge);
/* What the type of that variable, or of its elements, says of the word, where there is one. */
hx_error *hx_typing_root_word(hx_typing *typing, const struct hx_snapshot *snapshot,
                              const struct hx_root_edge *edge, bool *ret_is_typed,
                              uint32_t *ret_type, uint32_t *ret_word);

/* Is the word of an edge left over from something else, so that its type says nothing? Counts of
 * blocks alike can be wrong there, types know better. */
static inline bool hx_typing_is_silent(const struct hx_graph *graph, hx_eidx edge)
{
    const enum hx_rule rule =
        graph->evidence ? HX_EVIDENCE_RULE(graph->evidence[edge]) : HX_RULE_NONE;
    return hx_rule_rank(rule) == HX_RANK_STRAY && rule != HX_RULE_bytes && rule != HX_RULE_field &&
           rule != HX_RULE_slack;
}

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

/* A class that begins with a pointer to its vtable: does something else stand there? Vtables lie in
 * no object of a heap. */
static inline bool hx_typing_lacks_vtable(const struct hx_graph *graph, hx_obj object,
                                          const struct hx_word_map *map)
{
    if (!map->n || map->word[0] != HX_WORD_VTABLE)
        return false; /* and nothing of the object is read */
    const hx_eidx first = graph->fwd[object];
    return first < graph->fwd[(size_t)object + 1] && !hx_edge_offset(graph->edge[first]);
}

/* The type that an array, of arrays too, consists of. */
uint32_t hx_typing_element(const struct hx_type_table *table, uint32_t type);

#endif
