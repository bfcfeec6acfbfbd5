/* word_map.h - what stands at each word of a type, with what hints say of it.
 *
 * Made of a type when it is first asked for: a type that contains others has what these have, and
 * where several lie over each other (unions) nothing is known.
 */
#ifndef HX_TRAVERSE_TYPING_WORD_MAP_H
#define HX_TRAVERSE_TYPING_WORD_MAP_H

#include "base/index.h"
#include "base/pairs.h"
#include "base/vec.h"
#include "model/type_table.h"
#include "query/type_hints.h"

/* A word of a type: what its objects point to, the number of a type or (from n_types of the table
 * on) of a name that the hints brought, or one of these. */
enum {
    HX_WORD_OPEN = 0,                /* nothing is known */
    HX_WORD_SCALAR = UINT32_MAX,     /* no pointer can stand there */
    HX_WORD_ANY = UINT32_MAX - 1,    /* a pointer to who knows what */
    HX_WORD_VTABLE = UINT32_MAX - 2, /* the compiler's own */
    HX_WORD_PLAIN = UINT32_MAX - 3,  /* a pointer to text or numbers */
};
#define HX_WORD_TARGET(word) ((word)-1 < UINT32_MAX - 4)
/* With a target: a hint said that one or more of it are there. */
#define HX_WORD_MANY       UINT32_C(0x40000000)
#define HX_WORD_TYPE(word) ((word) & ~HX_WORD_MANY)

#define HX_MAP_WORDS_MAX  ((uint64_t)1 << 16) /* of one type; what lies behind them is open */
#define HX_MAPS_WORDS_MAX ((uint64_t)1 << 24) /* of all: 64 MiB */

struct hx_word_map {
    uint32_t *word; /* n, and then `tail`; owned */
    uint32_t n;
    uint32_t tail, tail_from; /* a flexible array: words of an element, that go on from there */
    bool scalars;             /* all words are scalars: objects of this type hold nothing */
    bool self;                /* a word points to the type itself */
    uint64_t *perhaps;        /* bits of words: a hint says what a union has, which may be nothing;
                               * NULL: of none; owned */
};

static inline bool hx_word_is_perhaps(const struct hx_word_map *map, uint64_t word)
{
    return map->perhaps && word < map->n && map->perhaps[word / 64] >> word % 64 & 1;
}

/* A type that the table does not have: of a hint; what new[] makes of an element that has to be
 * destroyed: their number, and they; something that begins with a type, nobody knows which; or what
 * a hint says that names several. */
struct hx_word_name {
    char *name;
    uint32_t element; /* 0: it is none of new[] */
    uint32_t head;    /* what it begins with; 0: that is not known */
    uint32_t map;     /* as in `of` */
    bool one_of;
    uint32_t *types; /* of these: what an object is one of that is pointed to; owned */
    size_t n;
    uint32_t inside; /* what one is that is pointed into; 0: that says nothing */
};

struct hx_word_maps {
    const struct hx_type_table *table;
    const hx_type_hints *hints; /* may be NULL; those of other programs are left out by then */
    uint32_t *of;               /* of each type its number in maps, plus 1; 0: none yet */
    HX_VEC(struct hx_word_map) maps;
    HX_VEC(struct hx_word_name) names; /* number n_types + index */
    struct hx_pairs counted;           /* elements to numbers of arrays behind their number */
    struct hx_pairs headed;            /* heads to numbers */
    struct hx_pairs defined;           /* what is only declared to it, or to one of several */
    struct hx_index by_name;           /* records, what is only declared, and names of hints */
    uint64_t seed, words;
    bool indexed;
};

void hx_word_maps_init(struct hx_word_maps *maps, const struct hx_type_table *table,
                       const hx_type_hints *hints);
void hx_word_maps_deinit(struct hx_word_maps *maps);

/* The map of a type; the pointer is valid until the next call. A name of a hint: an empty map. */
hx_error *hx_word_map_of(struct hx_word_maps *maps, uint32_t type, const struct hx_word_map **ret);

/* The array in which a record ends that is larger than its type: of unknown length, or of one
 * element as was the custom before C99. NULL: it has none. *ret_offset: where it begins. */
const struct hx_type_entry *hx_flexible_array(const struct hx_type_table *table, uint32_t type,
                                              uint64_t *ret_offset);

/* An array of a type behind their number, as new[] makes it. */
hx_error *hx_word_maps_counted(struct hx_word_maps *maps, uint32_t element, uint32_t *ret);

/* A record or union, else one that is only declared, or a name that was brought; by its name,
 * blanks that do not count left out. *ret: 0 when there is none. */
hx_error *hx_word_maps_find(struct hx_word_maps *maps, const char *name, uint32_t *ret);

/* The name of what begins with a `head`: "T...". */
hx_error *hx_word_maps_headed(struct hx_word_maps *maps, uint32_t head, uint32_t *ret);

/* What a word stands for that names several types, or what it points into; else NULL. */
static inline const struct hx_word_name *hx_word_maps_one_of(const struct hx_word_maps *maps,
                                                             uint32_t word)
{
    const uint32_t n = maps->table->n_types, type = HX_WORD_TYPE(word);
    return type >= n && type - n < maps->names.n && maps->names.v[type - n].one_of
               ? &maps->names.v[type - n]
               : NULL;
}

/* What the type of this number begins with, when it is such a name; else 0. */
uint32_t hx_word_maps_head(const struct hx_word_maps *maps, uint32_t type);

#endif
