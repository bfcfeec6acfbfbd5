/* python.c - names and fields of Python objects, from what each block is. */
#include "attach/python/python.h"

#include "attach/python/fields.h"
#include "base/cleanup.h"
#include "base/index.h"
#include "base/parallel.h"
#include "base/timing.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define WORD  8
#define CHUNK ((uint64_t)1 << 12) /* objects */
#define OWNERS_MAX                                                                                 \
    ((size_t)1 << 16) /* names of containers; the others have those of their types                 \
                       */

/* Whose a container is: an attribute of a class's objects, or (with this bit) a name of its own. */
#define NO_OWNER   0
#define BY_NAME    UINT32_C(0x80000000)
#define ITS_DICT   31 /* in the place of an attribute: the dict of an object */
#define ATTRIBUTES 32

struct namer {
    struct hx_snapshot *snapshot;
    struct hx_py_objects objects;
    const struct hx_progress *progress;
    uint32_t *owner; /* of each object: class * ATTRIBUTES + attribute + 1, or BY_NAME + name */
    struct hx_big owner_mem;
    HX_VEC(char *) name;   /* of containers, such as "module.cache" */
    uint32_t *class_type;  /* of classes: in snapshot.types + 1; 0: none yet */
    uint32_t *values_type; /* the same of their values */
    uint32_t part_type[HX_PY_PARTS];
    struct hx_pairs owned;   /* class and owner to types */
    struct hx_index by_name; /* of snapshot.types */
    uint64_t seed;
};

static const struct hx_py_class *class_of(const struct namer *namer, hx_obj i)
{
    const uint32_t class = hx_py_class_of(&namer->objects, i);
    return class == HX_PY_NO_CLASS ? NULL : &namer->objects.classes->class.v[class];
}

/* Has it a name by whose it is? */
static bool is_container(const struct namer *namer, hx_obj i)
{
    const struct hx_py_class *class = i == HX_NO_OBJ ? NULL : class_of(namer, i);
    return class && class->exact &&
           (class->kind == HX_PY_DICT || class->kind == HX_PY_LIST || class->kind == HX_PY_SET);
}

/* --- attributes of objects ---------------------------------------------------------------- */

/* The smallest owner has it, so that no order of threads matters. */
static void own(const struct namer *namer, hx_obj i, uint32_t owner)
{
    uint32_t now = __atomic_load_n(&namer->owner[i], __ATOMIC_RELAXED);
    while ((now == NO_OWNER || owner < now) &&
           !__atomic_compare_exchange_n(&namer->owner[i], &now, owner, true, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED))
        ;
}

static void own_attribute(const struct namer *namer, const struct hx_py_class *class, hx_obj i,
                          uint64_t attribute)
{
    if (is_container(namer, i) && attribute < ATTRIBUTES &&
        class->number < BY_NAME / ATTRIBUTES - 1)
        own(namer, i, class->number * ATTRIBUTES + (uint32_t)attribute + 1);
}

/* The containers among values of attributes at `at` of block i. */
static void own_values(const struct namer *namer, const struct hx_py_class *class, hx_obj i,
                       uint64_t at)
{
    const struct hx_graph *graph = &namer->snapshot->graph;
    const uint64_t from = at - graph->addr[i];
    for (hx_eidx e = hx_graph_edge_from(graph, i, from); e < graph->fwd[(size_t)i + 1]; e++) {
        const uint64_t attribute = (hx_edge_offset(graph->edge[e]) - from) / WORD;
        if (attribute >= HX_PY_ATTRIBUTES)
            break;
        own_attribute(namer, class, hx_edge_target(graph->edge[e]), attribute);
    }
}

static void own_of_object(const struct namer *namer, hx_obj i)
{
    const struct hx_py_layout *layout = namer->objects.classes->layout;
    const struct hx_py_class *class = class_of(namer, i);
    if (!class || !(class->flags & HX_PY_FLAG_HEAP) || !(class->flags & HX_PY_FLAG_DICT))
        return;
    const uint64_t at = hx_py_object_at(&namer->objects, i, class);
    if (layout->inline_values && class->flags & HX_PY_FLAG_INLINE)
        own_values(namer, class, i, at + class->basicsize + WORD);
    hx_obj other = hx_py_follow(&namer->objects, i, at - HX_PY_BEFORE_DICT);
    own_attribute(namer, class, other, ITS_DICT);
    if (!layout->tagged_values && !layout->inline_values)
        other = hx_py_follow(&namer->objects, i, at - HX_PY_BEFORE_OTHER);
    uint64_t values;
    if (layout->inline_values || other == HX_NO_OBJ ||
        namer->objects.role[other] != HX_PY_ROLE(HX_PY_ROLE_VALUES, class->number) ||
        !hx_image_u64(&namer->snapshot->image,
                      at - (layout->tagged_values ? HX_PY_BEFORE_DICT : HX_PY_BEFORE_OTHER),
                      &values))
        return;
    own_values(namer, class, other, values + layout->tagged_values);
}

static void own_of_objects(void *context, unsigned worker, size_t from, size_t to)
{
    (void)worker;
    for (size_t i = from; i < to; i++)
        own_of_object(context, (hx_obj)i);
}

/* --- attributes of modules and classes ------------------------------------------------------ */

static hx_error *own_by_name(struct namer *namer, hx_obj i, const char *name)
{
    if (!is_container(namer, i) || namer->owner[i] & BY_NAME || namer->name.n >= OWNERS_MAX)
        return NULL;
    char *copy = strdup(name);
    if (!copy || !hx_vec_push(&namer->name, copy)) {
        free(copy);
        return hx_error_nomem();
    }
    namer->owner[i] = BY_NAME + (uint32_t)(namer->name.n - 1);
    return NULL;
}

/* A dict that has the attributes of `of`, and containers among its values. */
static hx_error *own_dict(struct namer *namer, hx_obj dict, const char *of)
{
    const struct hx_graph *graph = &namer->snapshot->graph;
    struct hx_py_classes *classes = namer->objects.classes;
    struct hx_py_keys keys;
    if (!is_container(namer, dict))
        return NULL;
    HX_TRY(own_by_name(namer, dict, of));
    const uint64_t at = hx_py_object_at(&namer->objects, dict, class_of(namer, dict));
    const hx_obj table = hx_py_follow(&namer->objects, dict, at + HX_PY_DICT_KEYS);
    if (table == HX_NO_OBJ ||
        !hx_py_keys_at(classes, graph->addr[table] + hx_py_before(&namer->objects, table), &keys))
        return NULL;
    for (hx_eidx e = graph->fwd[table]; e < graph->fwd[(size_t)table + 1]; e++) {
        const uint64_t word = graph->addr[table] + hx_edge_offset(graph->edge[e]);
        const hx_obj value = hx_edge_target(graph->edge[e]);
        HX_CLEANUP(hx_text_free) struct hx_text name = {0};
        if (word < keys.entries || (word - keys.entries) % keys.stride != keys.value ||
            !is_container(namer, value) || namer->owner[value] & BY_NAME)
            continue;
        hx_text_putf(&name, "%s.", of);
        if (hx_py_put_key(classes, &keys, (word - keys.entries) / keys.stride, &name))
            HX_TRY(own_by_name(namer, value, hx_text_str(&name)));
        HX_NEED(!name.failed);
    }
    return NULL;
}

static hx_error *own_of_named(struct namer *namer, hx_obj i)
{
    struct hx_py_classes *classes = namer->objects.classes;
    const struct hx_py_class *class = class_of(namer, i);
    if (!class || (class->kind != HX_PY_MODULE && class->kind != HX_PY_CLASS))
        return NULL;
    HX_CLEANUP(hx_text_free) struct hx_text name = {0};
    const uint64_t at = hx_py_object_at(&namer->objects, i, class);
    uint64_t str, dict = at + HX_PY_MODULE_DICT;
    if (class->kind == HX_PY_CLASS) {
        const struct hx_py_class of = hx_py_class_at(classes, at);
        if (of.number == HX_PY_NO_CLASS)
            return NULL;
        HX_NEED(hx_py_put_class(classes, &of, &name));
        dict = at + HX_PY_TP_DICT;
    } else if (!hx_image_u64(classes->image, at + HX_PY_MODULE_NAME, &str) ||
               !hx_py_put_str(classes, str, &name)) {
        return NULL;
    }
    HX_NEED(!name.failed);
    return own_dict(namer, hx_py_follow(&namer->objects, i, dict), hx_text_str(&name));
}

static hx_error *find_owners(struct namer *namer, unsigned threads)
{
    HX_TRY(hx_big_array(namer->owner, namer->snapshot->graph.n));
    hx_parallel_blocks(threads, namer->snapshot->graph.n, CHUNK, own_of_objects, namer, NULL);
    for (hx_obj i = 0; i < namer->snapshot->graph.n; i++)
        HX_TRY(own_of_named(namer, i));
    return NULL;
}

/* --- types ------------------------------------------------------------------------------------ */

/* The type of a name: one for each. `layout` is a new one's. */
static hx_error *type_of_name(struct namer *namer, const struct hx_text *name, uint32_t layout,
                              const struct hx_type_words *words, uint32_t *ret)
{
    struct hx_snapshot *snapshot = namer->snapshot;
    const uint64_t hash = hx_hash(namer->seed, hx_hash_bytes(hx_text_str(name), name->n));
    uint32_t at = 0, number;
    HX_NEED(!name->failed);
    while (hx_index_next(&namer->by_name, hash, &at, &number))
        if (strcmp(snapshot->types.v[number].name, hx_text_str(name)) == 0) {
            *ret = number + 1;
            return NULL;
        }
    struct hx_type type = {.name = strdup(hx_text_str(name)),
                           .confidence = HX_CONFIDENCE_CERTAIN,
                           .sources = 1u << HX_TYPED_PYTHON,
                           .layout = layout,
                           .words = *words};
    if (!type.name || !hx_vec_push(&snapshot->types, type)) {
        free(type.name);
        return hx_error_nomem();
    }
    *ret = (uint32_t)snapshot->types.n;
    return hx_index_add(&namer->by_name, hash, *ret - 1);
}

static const struct hx_type_words pointers = {.pointer = ~UINT64_C(0), .rest_pointer = true},
                                  scalars = {.scalar = ~UINT64_C(0), .rest_scalar = true};

static uint64_t word_bit(uint64_t offset)
{
    return offset % WORD || offset / WORD >= 64 ? 0 : UINT64_C(1) << offset / WORD;
}

/* Words that keep nothing alive: links of the garbage collector, and weak references. */
static uint64_t weak_words(const struct namer *namer, const struct hx_py_class *class)
{
    const struct hx_py_classes *classes = namer->objects.classes;
    const uint64_t object = namer->objects.before + class->prefix;
    uint64_t bits = 0, offset;
    if (class->flags & HX_PY_FLAG_GC)
        bits |= word_bit(object - 16) | word_bit(object - 8);
    if (class->flags & HX_PY_FLAG_WEAK && classes->layout->weak_before)
        bits |= word_bit(object - HX_PY_BEFORE_OTHER);
    if (hx_image_u64(classes->image, class->addr + HX_PY_TP_WEAKLIST, &offset) && offset &&
        offset < class->basicsize)
        bits |= word_bit(object + offset);
    if (class->kind == HX_PY_WEAK)
        bits |= word_bit(object + HX_PY_WEAK_OBJECT) | word_bit(object + HX_PY_WEAK_PREVIOUS) |
                word_bit(object + HX_PY_WEAK_NEXT);
    return bits;
}

/* Types of other languages keep what they like; their counts of references are none. */
static struct hx_type_words words_of(const struct namer *namer, const struct hx_py_class *class)
{
    const struct hx_py_layout *layout = namer->objects.classes->layout;
    const uint64_t object = namer->objects.before + class->prefix;
    struct hx_type_words words = {.weak = weak_words(namer, class), .scalar = word_bit(object)};
    switch (class->kind) {
    case HX_PY_INT:
    case HX_PY_BYTES:
    case HX_PY_STR:
        words.rest_scalar = class->exact;
        words.pointer = word_bit(object + HX_PY_TYPE);
        if (class->kind == HX_PY_STR)
            words.pointer |=
                word_bit(object + layout->str_utf8) | word_bit(object + layout->str_data);
        words.scalar = class->exact ? ~words.pointer : words.scalar;
        break;
    case HX_PY_LIST:
    case HX_PY_TUPLE:
    case HX_PY_DICT:
    case HX_PY_SET:
    case HX_PY_CLASS:
    case HX_PY_MODULE:
        words.rest_pointer = true;
        words.pointer = ~UINT64_C(0);
        break;
    default:
        words.rest_pointer = class->flags & HX_PY_FLAG_HEAP && class->flags & HX_PY_FLAG_DICT;
        words.pointer = words.rest_pointer ? ~UINT64_C(0) : 0;
    }
    return words;
}

static hx_error *type_of_class(struct namer *namer, uint32_t number, uint32_t *ret)
{
    HX_CLEANUP(hx_text_free) struct hx_text name = {0};
    const struct hx_py_class class = namer->objects.classes->class.v[number];
    uint32_t *type = &namer->class_type[number], layout = 0;
    if (!*type) {
        HX_NEED(hx_py_put_class(namer->objects.classes, &class, &name));
        HX_TRY(hx_py_layout_of_class(&namer->objects, &class, &layout));
        const struct hx_type_words words = words_of(namer, &class);
        HX_TRY(type_of_name(namer, &name, layout, &words, type));
    }
    *ret = *type;
    return NULL;
}

static hx_error *type_of_values(struct namer *namer, uint32_t number, uint32_t *ret)
{
    HX_CLEANUP(hx_text_free) struct hx_text name = {0};
    const struct hx_py_class class = namer->objects.classes->class.v[number];
    uint32_t *type = &namer->values_type[number], layout = 0;
    if (!*type) {
        HX_NEED(hx_py_put_class(namer->objects.classes, &class, &name));
        hx_text_puts(&name, " values");
        HX_TRY(hx_py_layout_of_values(&namer->objects, &class,
                                      namer->objects.before + class.values_first, &layout));
        HX_TRY(type_of_name(namer, &name, layout, &pointers, type));
    }
    *ret = *type;
    return NULL;
}

static hx_error *type_of_part(struct namer *namer, uint32_t part, uint32_t *ret)
{
    static const char *const names[HX_PY_PARTS] = {
        "dict keys", "list items", "set table", "bytearray bytes", "str text", "attribute values"};
    HX_CLEANUP(hx_text_free) struct hx_text name = {0};
    uint32_t layout = 0;
    if (!namer->part_type[part]) {
        hx_text_puts(&name, names[part]);
        if (part == HX_PY_PART_ITEMS && !namer->objects.before)
            HX_TRY(hx_py_layout_of_words(&namer->objects, "", false, &layout));
        else if (part == HX_PY_PART_KEYS) /* what the keys are is contents */
            HX_TRY(hx_py_layout_of_words(&namer->objects, "[key]", true, &layout));
        HX_TRY(
            type_of_name(namer, &name, layout,
                         part == HX_PY_PART_BYTES || part == HX_PY_PART_TEXT ? &scalars : &pointers,
                         &namer->part_type[part]));
    }
    *ret = namer->part_type[part];
    return NULL;
}

static hx_error *put_owner(struct namer *namer, uint32_t owner, struct hx_text *text)
{
    struct hx_py_keys keys;
    if (owner & BY_NAME) {
        hx_text_puts(text, namer->name.v[owner & ~BY_NAME]);
        return NULL;
    }
    const uint32_t attribute = (owner - 1) % ATTRIBUTES;
    const struct hx_py_class *class = &namer->objects.classes->class.v[(owner - 1) / ATTRIBUTES];
    HX_NEED(hx_py_put_class(namer->objects.classes, class, text));
    if (attribute == ITS_DICT)
        return NULL;
    hx_text_puts(text, ".");
    if (!hx_py_shared_keys(namer->objects.classes, class, &keys) ||
        !hx_py_put_key(namer->objects.classes, &keys, attribute, text))
        hx_text_puts(text, "?");
    return NULL;
}

/* "dict (module.Class.attribute)" */
static hx_error *type_of_owned(struct namer *namer, uint32_t number, uint32_t owner, uint32_t *ret)
{
    HX_CLEANUP(hx_text_free) struct hx_text name = {0};
    uint32_t plain, *known;
    HX_TRY(type_of_class(namer, number, &plain));
    HX_TRY(hx_pairs_at(&namer->owned, hx_pair_key(number, owner), &known));
    if (*known == HX_NO_PAIR) {
        const struct hx_type type = namer->snapshot->types.v[plain - 1];
        *known = plain;
        hx_text_putf(&name, "%s (", type.name);
        HX_TRY(put_owner(namer, owner, &name));
        hx_text_puts(&name, ")");
        HX_TRY(type_of_name(namer, &name, type.layout, &type.words, known));
    }
    *ret = *known;
    return NULL;
}

static hx_error *type_of(struct namer *namer, hx_obj i, uint32_t *ret)
{
    const uint32_t role = namer->objects.role[i], of = HX_PY_ROLE_OF(role);
    switch (HX_PY_ROLE_IS(role)) {
    case HX_PY_ROLE_OBJECT:
        if (namer->owner[i] != NO_OWNER)
            return type_of_owned(namer, of, namer->owner[i], ret);
        return type_of_class(namer, of, ret);
    case HX_PY_ROLE_VALUES:
        return type_of_values(namer, of, ret);
    case HX_PY_ROLE_PART:
        return type_of_part(namer, of, ret);
    default:
        return NULL;
    }
}

/* What vtables said of blocks that are no Python objects stays. */
static hx_error *prepare_types(struct namer *namer)
{
    struct hx_snapshot *snapshot = namer->snapshot;
    struct hx_graph *graph = &snapshot->graph;
    const size_t n = namer->objects.classes->class.n;
    namer->class_type = calloc(n + 1, sizeof *namer->class_type);
    namer->values_type = calloc(n + 1, sizeof *namer->values_type);
    HX_NEED(namer->class_type && namer->values_type);
    for (size_t i = 0; i < snapshot->types.n; i++) {
        const char *name = snapshot->types.v[i].name;
        const uint64_t hash = hx_hash(namer->seed, hx_hash_bytes(name, strlen(name)));
        HX_TRY(hx_index_add(&namer->by_name, hash, (uint32_t)i));
    }
    if (!graph->type) {
        HX_TRY(hx_big_array(graph->type, graph->n));
        memset(graph->type, 0xff, graph->n * sizeof *graph->type);
    }
    if (graph->typed)
        return NULL;
    HX_TRY(hx_big_array(graph->typed, graph->n));
    for (hx_obj i = 0; i < graph->n; i++)
        if (graph->type[i] < snapshot->types.n)
            graph->typed[i] =
                HX_TYPED(snapshot->types.v[graph->type[i]].confidence, HX_TYPED_VTABLE);
    return NULL;
}

static hx_error *write_types(struct namer *namer)
{
    struct hx_graph *graph = &namer->snapshot->graph;
    HX_TRY(prepare_types(namer));
    for (hx_obj i = 0; i < graph->n; i++) {
        uint32_t type = 0;
        HX_TRY(type_of(namer, i, &type));
        if (!type)
            continue;
        graph->type[i] = type - 1;
        graph->typed[i] = HX_TYPED(HX_CONFIDENCE_CERTAIN, HX_TYPED_PYTHON);
    }
    return NULL;
}

/* --- the whole -------------------------------------------------------------------------------- */

static void finish(struct namer *namer)
{
    for (size_t i = 0; i < namer->name.n; i++)
        free(namer->name.v[i]);
    hx_vec_free(&namer->name);
    hx_big_array_free(namer->owner);
    free(namer->class_type);
    free(namer->values_type);
    hx_pairs_free(&namer->owned);
    hx_index_free(&namer->by_name);
    hx_py_objects_deinit(&namer->objects);
}

hx_error *hx_python_types(struct hx_snapshot *snapshot, hx_modules *modules,
                          const struct hx_peek *peek, unsigned threads,
                          const struct hx_progress *progress)
{
    struct hx_python python;
    struct hx_py_classes classes;
    if (!snapshot->graph.n || !hx_python_find(modules, peek, &python) || python.refusal)
        return NULL;
    HX_TRY(hx_py_classes_init(&classes, &python, modules, &snapshot->image, peek));
    struct namer namer = {.snapshot = snapshot,
                          .objects = {.classes = &classes, .snapshot = snapshot},
                          .progress = progress,
                          .seed = hx_hash_seed()};
    uint64_t begun = hx_timing_begin();
    hx_error *err = hx_py_objects_find(&namer.objects, threads, progress);
    hx_timing_end(begun, "python-objects", snapshot->graph.n);
    begun = hx_timing_begin();
    if (!err)
        hx_py_judge_edges(&namer.objects, hx_threads(threads), progress);
    hx_timing_end(begun, "python-edges", snapshot->graph.n_edges);
    begun = hx_timing_begin();
    if (!err)
        err = find_owners(&namer, hx_threads(threads));
    if (!err)
        err = write_types(&namer);
    hx_timing_end(begun, "python-types", snapshot->types.n);
    finish(&namer);
    hx_py_classes_deinit(&classes);
    return err;
}
