/* type_build.c - each type once, in an order in which what is contained comes first. */
#include "model/type_build.h"

#include "base/cleanup.h"

#include <stdlib.h>
#include <string.h>

#define ROUNDS 4
#define NONE   UINT32_MAX

hx_error *hx_type_build_init(struct hx_type_build *build)
{
    uint32_t empty;
    *build = (struct hx_type_build){.seed = hx_hash_seed()};
    HX_TRY(hx_type_build_string(build, "", 0, &empty));
    HX_NEED(hx_vec_push(&build->types, (struct hx_type_entry){.kind = HX_TYPE_OPAQUE}));
    return NULL;
}

void hx_type_build_deinit(struct hx_type_build *build)
{
    hx_vec_free(&build->types);
    hx_vec_free(&build->fields);
    hx_vec_free(&build->variables);
    hx_vec_free(&build->strings);
    hx_index_free(&build->by_string);
}

hx_error *hx_type_build_string(struct hx_type_build *build, const char *s, size_t n, uint32_t *ret)
{
    uint64_t hash = hx_hash(build->seed, hx_hash_bytes(s, n));
    uint32_t at = 0, offset;
    while (hx_index_next(&build->by_string, hash, &at, &offset))
        if (strncmp(build->strings.v + offset, s, n) == 0 && !build->strings.v[offset + n]) {
            *ret = offset;
            return NULL;
        }
    if (build->strings.n + n + 1 >= UINT32_MAX)
        return hx_error_new(HX_E_LIMIT, "types", NULL, "their names have more than 4 GiB");
    HX_NEED(hx_vec_reserve(&build->strings, build->strings.n + n + 1));
    *ret = (uint32_t)build->strings.n;
    memcpy(build->strings.v + build->strings.n, s, n);
    build->strings.v[build->strings.n + n] = 0;
    build->strings.n += n + 1;
    return hx_index_add(&build->by_string, hash, *ret);
}

bool hx_type_build_is_full(const struct hx_type_build *build)
{
    const uint64_t bytes = build->types.n * sizeof *build->types.v +
                           build->fields.n * sizeof *build->fields.v +
                           build->variables.n * sizeof *build->variables.v + build->strings.n +
                           build->by_string.cap * sizeof *build->by_string.slot;
    return build->types.n >= HX_TYPES_MAX || build->fields.n >= 4 * (uint64_t)HX_TYPES_MAX ||
           (build->most_bytes && bytes >= build->most_bytes);
}

/* --- what is equal --------------------------------------------------------------- */

struct hashing {
    const struct hx_type_build *build;
    uint32_t from;
    const uint64_t *known;
    uint64_t *now, *before;
};

static uint64_t hash_before(const struct hashing *hashing, uint32_t type)
{
    return type >= hashing->from ? hashing->before[type - hashing->from]
           : hashing->known      ? hashing->known[type]
                                 : type;
}

static uint64_t hash_itself(const struct hashing *hashing, const struct hx_type_entry *type)
{
    const struct hx_type_build *build = hashing->build;
    uint64_t hash = hx_mix(build->seed, type->kind);
    hash = hx_mix(hash, type->name);
    hash = hx_mix(hash, type->size);
    hash = hx_mix(hash, type->kind == HX_TYPE_ARRAY ? type->count : type->n);
    hash = hx_mix(hash, type->flags & ~(unsigned)HX_TYPE_CXX);
    for (uint32_t i = 0; hx_type_is_record(type) && i < type->n; i++) {
        const struct hx_type_field *field = &build->fields.v[type->first + i];
        hash = hx_mix(hx_mix(hash, field->name), hx_mix(field->offset, field->flags));
    }
    return hash;
}

static uint64_t hash_further(const struct hashing *hashing, uint32_t number)
{
    const struct hx_type_entry *type = &hashing->build->types.v[number];
    uint64_t hash = hash_before(hashing, number);
    if (type->kind == HX_TYPE_POINTER || type->kind == HX_TYPE_ARRAY)
        return hx_mix(hash, hash_before(hashing, type->target));
    for (uint32_t i = 0; hx_type_is_record(type) && i < type->n; i++)
        hash = hx_mix(hash, hash_before(hashing, hashing->build->fields.v[type->first + i].type));
    return hash;
}

hx_error *hx_type_build_hash(const struct hx_type_build *build, uint32_t from,
                             const uint64_t *known, uint64_t *hash)
{
    const size_t n = build->types.n - from;
    HX_FREE uint64_t *before = malloc((n + 1) * sizeof *before);
    HX_NEED(before);
    struct hashing hashing = {.build = build, .from = from, .known = known};
    for (size_t i = 0; i < n; i++)
        hash[i] = hash_itself(&hashing, &build->types.v[from + i]);
    hashing.before = before;
    for (unsigned round = 0; round < ROUNDS; round++) {
        memcpy(before, hash, n * sizeof *before);
        for (size_t i = 0; i < n; i++)
            hash[i] = hash_further(&hashing, (uint32_t)(from + i));
    }
    return NULL;
}

/* The number of the first type that is equal, for each. */
static hx_error *find_equal(const struct hx_type_build *build, uint32_t *same)
{
    HX_FREE uint64_t *hash = malloc((build->types.n + 1) * sizeof *hash);
    HX_NEED(hash);
    HX_TRY(hx_type_build_hash(build, 0, NULL, hash));
    struct hx_index index = {0};
    hx_error *err = NULL;
    for (uint32_t i = 0; !err && i < build->types.n; i++) {
        uint32_t at = 0;
        if (!hx_index_next(&index, hash[i], &at, &same[i])) {
            same[i] = i;
            err = hx_index_add(&index, hash[i], i);
        }
    }
    hx_index_free(&index);
    return err;
}

/* Where a name is only declared: what is defined of that name, if all of these are equal. */
static hx_error *resolve_declared(const struct hx_type_build *build, uint32_t *same)
{
    HX_FREE uint32_t *defined = malloc((build->strings.n + 1) * sizeof *defined);
    HX_NEED(defined);
    memset(defined, 0xff, (build->strings.n + 1) * sizeof *defined);
    enum { SEVERAL = UINT32_MAX - 1 };
    for (uint32_t i = 0; i < build->types.n; i++) {
        const struct hx_type_entry *type = &build->types.v[i];
        if (!hx_type_is_record(type) || !build->strings.v[type->name])
            continue;
        uint32_t *known = &defined[type->name];
        *known = *known == NONE || *known == same[i] ? same[i] : (uint32_t)SEVERAL;
    }
    for (uint32_t i = 0; i < build->types.n; i++) {
        const struct hx_type_entry *type = &build->types.v[i];
        if (type->kind == HX_TYPE_OPAQUE && type->flags & HX_TYPE_DECLARED &&
            defined[type->name] < (uint32_t)SEVERAL)
            same[i] = defined[type->name];
    }
    return NULL;
}

static void redirect(struct hx_type_build *build, const uint32_t *same)
{
    for (size_t i = 0; i < build->types.n; i++)
        build->types.v[i].target = same[build->types.v[i].target];
    for (size_t i = 0; i < build->fields.n; i++)
        build->fields.v[i].type = same[build->fields.v[i].type];
    for (size_t i = 0; i < build->variables.n; i++)
        build->variables.v[i].type = same[build->variables.v[i].type];
}

/* --- the order ------------------------------------------------------------------- */

struct ordering {
    struct hx_type_build *build;
    uint32_t *place; /* number in the table; NONE: none yet */
    uint8_t *depth;  /* plus 1; 0: not known */
    HX_VEC(uint32_t) order;
};

/* The k-th type that a type contains; NONE: there are not so many. */
static uint32_t *part_of(struct hx_type_build *build, uint32_t number, uint32_t k)
{
    struct hx_type_entry *type = &build->types.v[number];
    if (type->kind == HX_TYPE_ARRAY)
        return k ? NULL : &type->target;
    return hx_type_is_record(type) && k < type->n ? &build->fields.v[type->first + k].type : NULL;
}

/* A type and what it contains, what is inside first. What contains itself, or too much, loses that
 * part: it is of an unknown type then. */
static hx_error *place_type(struct ordering *ordering, uint32_t number)
{
    struct {
        uint32_t type, next;
        unsigned depth;
    } stack[HX_TYPE_DEPTH];
    unsigned n = 1;
    stack[0].type = number;
    stack[0].next = stack[0].depth = 0;
    while (n) {
        const uint32_t type = stack[n - 1].type;
        uint32_t *part = part_of(ordering->build, type, stack[n - 1].next);
        bool looping = false;
        if (!part) {
            HX_NEED(hx_vec_push(&ordering->order, type));
            ordering->depth[type] = (uint8_t)(stack[n - 1].depth + 1);
            if (--n && stack[n - 1].depth <= ordering->depth[type] - 1u)
                stack[n - 1].depth = ordering->depth[type];
            continue;
        }
        if (!ordering->depth[*part]) {
            for (unsigned i = 0; i < n; i++)
                looping |= stack[i].type == *part;
            if (!looping && n < HX_TYPE_DEPTH) {
                stack[n].type = *part;
                stack[n].next = stack[n].depth = 0;
                n++;
                continue;
            }
        }
        const bool deep = ordering->depth[*part] && ordering->depth[*part] + n > HX_TYPE_DEPTH;
        if (looping || deep || !ordering->depth[*part]) {
            *part = 0;
            ordering->build->left_out++;
        } else if (stack[n - 1].depth < ordering->depth[*part]) {
            stack[n - 1].depth = ordering->depth[*part];
        }
        stack[n - 1].next++;
    }
    return NULL;
}

/* Sizes as type_table.h wants them: what lies does not reach the table. */
static void mend_type(struct hx_type_build *build, struct hx_type_entry *type)
{
    if (type->size > INT64_MAX)
        type->size = 0;
    if (type->kind == HX_TYPE_ARRAY &&
        __builtin_mul_overflow(type->count, build->types.v[type->target].size, &type->size))
        type->count = type->size = 0;
    if (type->kind == HX_TYPE_ARRAY && type->size > INT64_MAX)
        type->count = type->size = 0;
    if (type->kind != HX_TYPE_POINTER && type->kind != HX_TYPE_ARRAY)
        type->target = 0;
    if (!hx_type_is_record(type))
        type->first = type->n = 0;
}

static int compare_fields(const void *a, const void *b)
{
    const struct hx_type_field *x = a, *y = b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Fields in order; those that do not lie within are left out. */
static void mend_fields(struct hx_type_build *build, struct hx_type_entry *type)
{
    struct hx_type_field *field = build->fields.v + type->first;
    uint32_t n = 0;
    for (uint32_t i = 0; i < type->n; i++) {
        const uint64_t size = build->types.v[field[i].type].size;
        if (field[i].offset <= type->size && size <= type->size - field[i].offset)
            field[n++] = field[i];
        else
            build->left_out++;
    }
    type->n = n;
    if (n && type->kind == HX_TYPE_RECORD)
        qsort(field, n, sizeof *field, compare_fields);
}

static hx_error *order_types(struct ordering *ordering, const uint32_t *same)
{
    struct hx_type_build *build = ordering->build;
    for (uint32_t i = 0; i < build->types.n; i++)
        if (same[i] == i && !ordering->depth[i])
            HX_TRY(place_type(ordering, i));
    for (uint32_t i = 0; i < ordering->order.n; i++)
        ordering->place[ordering->order.v[i]] = i;
    for (uint32_t i = 0; i < ordering->order.n; i++) {
        struct hx_type_entry *type = &build->types.v[ordering->order.v[i]];
        mend_type(build, type);
        if (hx_type_is_record(type))
            mend_fields(build, type);
    }
    return NULL;
}

/* --- the block ------------------------------------------------------------------- */

static int compare_variables(const void *a, const void *b)
{
    const struct hx_type_variable *x = a, *y = b;
    if (x->tls != y->tls)
        return x->tls < y->tls ? -1 : 1;
    return x->vaddr < y->vaddr ? -1 : x->vaddr > y->vaddr;
}

static hx_error *write_block(const struct ordering *ordering, void **ret, size_t *ret_bytes)
{
    struct hx_type_build *build = ordering->build;
    struct hx_type_table_head head = {.magic = HX_TYPE_TABLE_MAGIC,
                                      .n_types = (uint32_t)ordering->order.n,
                                      .n_variables = (uint32_t)build->variables.n,
                                      .n_bytes = build->strings.n,
                                      .left_out = build->left_out};
    for (uint32_t i = 0; i < head.n_types; i++)
        head.n_fields += build->types.v[ordering->order.v[i]].n;
    const size_t bytes = sizeof head + head.n_types * sizeof(struct hx_type_entry) +
                         head.n_fields * sizeof(struct hx_type_field) +
                         head.n_variables * sizeof(struct hx_type_variable) + head.n_bytes;
    char *block = malloc(bytes), *at = block + sizeof head;
    HX_NEED(block);
    memcpy(block, &head, sizeof head);
    uint32_t fields = 0;
    for (uint32_t i = 0; i < head.n_types; i++) {
        struct hx_type_entry type = build->types.v[ordering->order.v[i]];
        type.depth = (uint16_t)(ordering->depth[ordering->order.v[i]] - 1);
        if (type.target)
            type.target = ordering->place[type.target];
        for (uint32_t k = 0; k < type.n; k++)
            build->fields.v[type.first + k].type =
                ordering->place[build->fields.v[type.first + k].type];
        if (type.n)
            memcpy(at + head.n_types * sizeof type + fields * sizeof *build->fields.v,
                   build->fields.v + type.first, type.n * sizeof *build->fields.v);
        type.first = fields;
        fields += type.n;
        memcpy(at + i * sizeof type, &type, sizeof type);
    }
    at += head.n_types * sizeof(struct hx_type_entry) + fields * sizeof *build->fields.v;
    for (uint32_t i = 0; i < head.n_variables; i++)
        build->variables.v[i].type = ordering->place[build->variables.v[i].type];
    if (head.n_variables) {
        qsort(build->variables.v, head.n_variables, sizeof *build->variables.v, compare_variables);
        memcpy(at, build->variables.v, head.n_variables * sizeof *build->variables.v);
    }
    memcpy(at + head.n_variables * sizeof *build->variables.v, build->strings.v, head.n_bytes);
    *ret = block;
    *ret_bytes = bytes;
    return NULL;
}

static hx_error *finish_ordered(struct ordering *ordering, uint32_t *same, uint32_t *number,
                                void **ret, size_t *ret_bytes)
{
    struct hx_type_build *build = ordering->build;
    const size_t n = build->types.n;
    ordering->place = malloc((n + 1) * sizeof *ordering->place);
    ordering->depth = calloc(n + 1, sizeof *ordering->depth);
    HX_NEED(ordering->place && ordering->depth);
    HX_TRY(order_types(ordering, same));
    for (size_t i = 0; number && i < n; i++)
        number[i] = ordering->place[same[i]];
    return write_block(ordering, ret, ret_bytes);
}

hx_error *hx_type_build_finish(struct hx_type_build *build, uint32_t *number, void **ret,
                               size_t *ret_bytes)
{
    const size_t n = build->types.n;
    HX_FREE uint32_t *same = malloc((n + 1) * sizeof *same);
    HX_FREE uint32_t *first = malloc((n + 1) * sizeof *first);
    HX_NEED(same && first);
    HX_TRY(find_equal(build, first));
    HX_TRY(resolve_declared(build, first));
    redirect(build, first);
    HX_TRY(find_equal(build, same)); /* what differed in declarations alone */
    for (size_t i = 0; i < n; i++)
        first[i] = same[first[i]];
    redirect(build, first);
    for (size_t i = 0; i < n; i++)
        same[i] = same[first[i]];
    struct ordering ordering = {.build = build};
    hx_error *err = finish_ordered(&ordering, same, number, ret, ret_bytes);
    free(ordering.place);
    free(ordering.depth);
    hx_vec_free(&ordering.order);
    return err;
}
