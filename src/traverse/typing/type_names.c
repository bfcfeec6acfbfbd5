/* type_names.c - types that objects were given into types of the snapshot, each name once. Types of
 * one name that differ by their size are told apart by it.
 */
#include "traverse/typing/typing_private.h"

#include "base/cleanup.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define RECENT 64

/* A type of the snapshot in the making. */
struct named {
    struct hx_type type;
    uint32_t number; /* in graph.type, or HX_TYPE_SEVERAL */
    uint64_t size;   /* of the table's; 0: it has none */
    uint64_t objects[HX_CONFIDENCE_GUESS + 1];
};

struct naming {
    struct hx_typing *typing;
    struct hx_snapshot *snapshot;
    HX_VEC(struct named) types;
    struct hx_pairs of;            /* type and repeats to types */
    struct hx_pair recent[RECENT]; /* of `of`, each at its key modulo RECENT */
    struct hx_index by_name;
    uint64_t seed;
};

void hx_typing_put_name(const hx_typing *typing, uint32_t type, bool repeats, struct hx_text *text)
{
    const struct hx_type_table *table = typing->source.table;
    unsigned stars = 0;
    while (type < table->n_types && table->type[type].kind == HX_TYPE_POINTER && stars < 8) {
        stars++;
        type = hx_typing_element(table, table->type[type].target);
    }
    const char *name = type >= table->n_types ? typing->maps.names.v[type - table->n_types].name
                                              : hx_type_table_name(table, type);
    if (!*name)
        name = table->type[type].kind == HX_TYPE_RECORD  ? "(anonymous struct)"
               : table->type[type].kind == HX_TYPE_UNION ? "(anonymous union)"
                                                         : "void";
    hx_text_puts(text, name);
    if (stars)
        hx_text_putc(text, ' ');
    while (stars--)
        hx_text_putc(text, '*');
    if (repeats)
        hx_text_puts(text, "[]");
}

static uint64_t size_of(const struct naming *naming, uint32_t type)
{
    const struct hx_type_table *table = naming->typing->source.table;
    const uint32_t n = table->n_types;
    if (type >= n && type - n < naming->typing->maps.names.n)
        type = naming->typing->maps.names.v[type - n].element;
    return type < n ? table->type[type].size : 0;
}

/* What is known by its vtable alone is taken for any of its name. */
static bool find_type(const struct naming *naming, const struct hx_text *name, uint64_t hash,
                      uint32_t type, uint32_t *ret)
{
    uint32_t at = 0;
    while (hx_index_next(&naming->by_name, hash, &at, ret)) {
        const struct named *named = &naming->types.v[*ret];
        if (strcmp(named->type.name, hx_text_str(name)) == 0 &&
            ((type | named->number) & HX_TYPE_BY_VTABLE || named->size == size_of(naming, type)))
            return true;
    }
    return false;
}

/* Another type that is called like one; takes its symbol. */
static void join_type(struct naming *naming, struct named *named, uint32_t type, char *symbol)
{
    if (!named->type.symbol)
        named->type.symbol = symbol;
    else
        free(symbol);
    if (named->number & HX_TYPE_BY_VTABLE) {
        named->number = type;
        named->size = size_of(naming, type);
    } else if (named->number != type && !(type & HX_TYPE_BY_VTABLE)) {
        named->number = HX_TYPE_SEVERAL; /* whose fields stand for none of them */
    }
}

static hx_error *add_type(struct naming *naming, uint32_t type, bool repeats, uint32_t *ret)
{
    HX_CLEANUP(hx_text_free) struct hx_text name = {0};
    struct named fresh = {.type = {.confidence = HX_CONFIDENCE_CERTAIN},
                          .number = type,
                          .size = size_of(naming, type)};
    const uint32_t of_vtable = type & HX_TYPE_BY_VTABLE ? type & ~HX_TYPE_BY_VTABLE
                               : repeats                ? HX_NO_PAIR
                                         : hx_pairs_find(&naming->typing->classes, type);
    const struct hx_type *class =
        of_vtable == HX_NO_PAIR ? NULL : &naming->snapshot->types.v[of_vtable];
    if (type & HX_TYPE_BY_VTABLE)
        fresh.type.layout = class->layout;
    if (class)
        hx_text_puts(&name, class->name);
    else
        hx_typing_put_name(naming->typing, type, repeats, &name);
    HX_NEED(!name.failed);
    if (class && class->symbol) {
        fresh.type.symbol = strdup(class->symbol);
        HX_NEED(fresh.type.symbol);
    }
    const uint64_t hash = hx_hash(naming->seed, hx_hash_bytes(hx_text_str(&name), name.n));
    if (find_type(naming, &name, hash, type, ret)) {
        join_type(naming, &naming->types.v[*ret], type, fresh.type.symbol);
        return NULL;
    }
    *ret = (uint32_t)naming->types.n;
    fresh.type.name = strdup(hx_text_str(&name));
    if (!fresh.type.name || !hx_vec_push(&naming->types, fresh)) {
        free(fresh.type.name);
        free(fresh.type.symbol);
        return hx_error_nomem();
    }
    return hx_index_add(&naming->by_name, hash, *ret);
}

static hx_error *number_of(struct naming *naming, uint32_t type, bool repeats, uint32_t *ret)
{
    const uint64_t key = hx_pair_key(repeats, type);
    struct hx_pair *recent = &naming->recent[key % RECENT];
    uint32_t *number;
    if (recent->key != key || recent->value == HX_NO_PAIR) {
        HX_TRY(hx_pairs_at(&naming->of, key, &number));
        if (*number == HX_NO_PAIR) {
            *number = 0;
            HX_TRY(add_type(naming, type, repeats, number));
        }
        *recent = (struct hx_pair){key, *number};
    }
    *ret = recent->value;
    return NULL;
}

static hx_error *name_objects(struct naming *naming)
{
    struct hx_graph *graph = &naming->snapshot->graph;
    memset(naming->recent, 0xff, sizeof naming->recent);
    for (hx_obj i = 0; i < graph->n; i++) {
        hx_typed typed = graph->typed[i];
        if (HX_TYPED_SOURCE(typed) == HX_TYPED_NOT) {
            graph->type[i] = HX_NO_TYPE;
            graph->typed[i] = 0;
            continue;
        }
        uint32_t number = 0;
        HX_TRY(number_of(naming, graph->type[i], typed & HX_TYPED_REPEATS, &number));
        graph->type[i] = number;
        naming->types.v[number].objects[HX_TYPED_CONFIDENCE(typed)]++;
        naming->types.v[number].type.sources |= (uint8_t)(1u << HX_TYPED_SOURCE(typed));
    }
    return NULL;
}

/* Certain is a type all of whose objects are; a guess one of which more than a tenth are guesses.
 */
static void rate_types(struct naming *naming)
{
    for (size_t i = 0; i < naming->types.n; i++) {
        const uint64_t *n = naming->types.v[i].objects;
        const uint64_t guesses = n[HX_CONFIDENCE_GUESS], likely = n[HX_CONFIDENCE_LIKELY];
        naming->types.v[i].type.confidence =
            !guesses && !likely                                          ? HX_CONFIDENCE_CERTAIN
            : guesses * 10 > guesses + likely + n[HX_CONFIDENCE_CERTAIN] ? HX_CONFIDENCE_GUESS
                                                                         : HX_CONFIDENCE_LIKELY;
    }
}

size_t hx_typing_unsized_length(const char *name)
{
    static const char end[] = " bytes)";
    const size_t n = strlen(name);
    const char *size = strrchr(name, '(');
    return n >= sizeof end && strcmp(name + n - sizeof end + 1, end) == 0 && size > name
               ? (size_t)(size - name) - 1
               : n;
}

struct by_name {
    struct named *named;
    uint32_t number;
};

static int compare_names(const void *a, const void *b)
{
    const struct named *x = ((const struct by_name *)a)->named,
                       *y = ((const struct by_name *)b)->named;
    const int names = strcmp(x->type.name, y->type.name);
    return names ? names : (x->size > y->size) - (x->size < y->size);
}

/* "dict (56 bytes)" of types in order, of which others are a "dict", too. */
static hx_error *tell_apart(const struct by_name *order, size_t n)
{
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1;
             end < n && !strcmp(order[end].named->type.name, order[i].named->type.name);)
            end++;
        for (size_t k = i; end - i > 1 && k < end; k++) {
            struct hx_text name = {0};
            hx_text_putf(&name, "%s (%" PRIu64 " bytes)", order[k].named->type.name,
                         order[k].named->size);
            HX_NEED(!name.failed);
            free(order[k].named->type.name);
            order[k].named->type.name = name.s;
        }
    }
    return NULL;
}

/* Types by name, as all of them are; typing->number follows. */
static hx_error *sort_types(struct naming *naming)
{
    struct hx_snapshot *snapshot = naming->snapshot;
    const size_t n = naming->types.n;
    HX_FREE struct by_name *order = calloc(n + 1, sizeof *order);
    HX_FREE uint32_t *place = calloc(n + 1, sizeof *place);
    HX_NEED(order && place && hx_vec_reserve(&naming->typing->number, n + 1));
    for (size_t i = 0; i < n; i++)
        order[i] = (struct by_name){&naming->types.v[i], (uint32_t)i};
    qsort(order, n, sizeof *order, compare_names);
    HX_TRY(tell_apart(order, n));
    qsort(order, n, sizeof *order, compare_names);
    for (size_t i = 0; i < snapshot->types.n; i++) {
        free(snapshot->types.v[i].name);
        free(snapshot->types.v[i].symbol);
    }
    snapshot->types.n = 0;
    HX_NEED(hx_vec_reserve(&snapshot->types, n + 1));
    for (size_t i = 0; i < n; i++) {
        place[order[i].number] = (uint32_t)i;
        naming->typing->number.v[i] = order[i].named->number;
        snapshot->types.v[i] = order[i].named->type;
    }
    snapshot->types.n = naming->typing->number.n = n;
    naming->types.n = 0; /* they are the snapshot's now */
    for (hx_obj i = 0; i < snapshot->graph.n; i++)
        if (snapshot->graph.type[i] != HX_NO_TYPE)
            snapshot->graph.type[i] = place[snapshot->graph.type[i]];
    return NULL;
}

hx_error *hx_typing_name_types(hx_typing *typing, struct hx_snapshot *snapshot)
{
    struct naming naming = {.typing = typing, .snapshot = snapshot, .seed = hx_hash_seed()};
    hx_error *err = name_objects(&naming);
    if (!err)
        rate_types(&naming);
    if (!err)
        err = sort_types(&naming);
    for (size_t i = 0; i < naming.types.n; i++) {
        free(naming.types.v[i].type.name);
        free(naming.types.v[i].type.symbol);
    }
    hx_vec_free(&naming.types);
    hx_pairs_free(&naming.of);
    hx_index_free(&naming.by_name);
    return err;
}
