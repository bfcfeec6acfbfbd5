/* word_map.c - types as arrays of words. */
#include "traverse/typing/word_map.h"

#include "base/cleanup.h"

#include <stdlib.h>
#include <string.h>

#define WORD         8
#define PARTS_MAX    (1 << 20) /* fields and elements looked at in one type */
#define POINTERS_MAX 8         /* levels of pointers in a hint */

void hx_word_maps_init(struct hx_word_maps *maps, const struct hx_type_table *table,
                       const hx_type_hints *hints)
{
    *maps = (struct hx_word_maps){.table = table, .hints = hints, .seed = hx_hash_seed()};
}

void hx_word_maps_deinit(struct hx_word_maps *maps)
{
    for (size_t i = 0; i < maps->maps.n; i++) {
        free(maps->maps.v[i].word);
        free(maps->maps.v[i].perhaps);
    }
    for (size_t i = 0; i < maps->names.n; i++) {
        free(maps->names.v[i].name);
        free(maps->names.v[i].types);
    }
    hx_vec_free(&maps->maps);
    hx_vec_free(&maps->names);
    free(maps->of);
    hx_pairs_free(&maps->counted);
    hx_pairs_free(&maps->headed);
    hx_pairs_free(&maps->defined);
    hx_index_free(&maps->by_name);
}

typedef HX_VEC(uint32_t) numbers; /* of types */

static void free_numbers(numbers *vec)
{
    hx_vec_free(vec);
}

/* --- types by name ------------------------------------------------------------- */

static uint64_t hash_name(const struct hx_word_maps *maps, const struct hx_text *plain)
{
    return hx_hash(maps->seed, hx_hash_bytes(hx_text_str(plain), plain->n));
}

static hx_error *index_records(struct hx_word_maps *maps)
{
    HX_CLEANUP(hx_text_free) struct hx_text plain = {0};
    for (uint32_t i = 0; i < maps->table->n_types; i++) {
        const char *name = hx_type_table_name(maps->table, i);
        const struct hx_type_entry *type = &maps->table->type[i];
        if ((!hx_type_is_record(type) && !(type->flags & HX_TYPE_DECLARED)) || !*name)
            continue;
        hx_text_clear(&plain);
        hx_type_hint_plain(&plain, name, strlen(name));
        HX_NEED(!plain.failed);
        HX_TRY(hx_index_add(&maps->by_name, hash_name(maps, &plain), i));
    }
    maps->indexed = true;
    return NULL;
}

static bool is_declared(const struct hx_word_maps *maps, uint32_t number)
{
    return number < maps->table->n_types && maps->table->type[number].flags & HX_TYPE_DECLARED;
}

static const char *name_of_number(const struct hx_word_maps *maps, uint32_t number)
{
    const uint32_t n = maps->table->n_types;
    return number < n ? hx_type_table_name(maps->table, number) : maps->names.v[number - n].name;
}

/* Puts a number among those of one name: in their order, which tables of hashes do not keep, and
 * declared ones only where there are no others. */
static hx_error *add_number(const struct hx_word_maps *maps, numbers *all, uint32_t number)
{
    const bool declared = is_declared(maps, number);
    size_t at = all->n;
    if (at && is_declared(maps, all->v[0]) != declared) {
        if (declared)
            return NULL;
        all->n = at = 0;
    }
    HX_NEED(hx_vec_push(all, number));
    for (; at && all->v[at - 1] > number; at--)
        all->v[at] = all->v[at - 1];
    all->v[at] = number;
    return NULL;
}

/* All types of a name, which several files of a program may each have for themselves. */
static hx_error *find_all(struct hx_word_maps *maps, const char *name, numbers *ret)
{
    HX_CLEANUP(hx_text_free) struct hx_text plain = {0}, other = {0};
    uint32_t at = 0, number;
    if (!maps->indexed)
        HX_TRY(index_records(maps));
    hx_type_hint_plain(&plain, name, strlen(name));
    while (hx_index_next(&maps->by_name, hash_name(maps, &plain), &at, &number)) {
        const char *candidate = name_of_number(maps, number);
        hx_text_clear(&other);
        hx_type_hint_plain(&other, candidate, strlen(candidate));
        if (strcmp(hx_text_str(&other), hx_text_str(&plain)) == 0)
            HX_TRY(add_number(maps, ret, number));
    }
    HX_NEED(!plain.failed && !other.failed);
    return NULL;
}

hx_error *hx_word_maps_find(struct hx_word_maps *maps, const char *name, uint32_t *ret)
{
    HX_CLEANUP(free_numbers) numbers all = {0};
    HX_TRY(find_all(maps, name, &all));
    *ret = all.n ? all.v[0] : 0;
    return NULL;
}

/* The pointer to a type, which a table has once; 0: none. */
static uint32_t pointer_to(const struct hx_word_maps *maps, uint32_t target)
{
    for (uint32_t i = 0; i < maps->table->n_types; i++)
        if (maps->table->type[i].kind == HX_TYPE_POINTER && maps->table->type[i].target == target)
            return i;
    return 0;
}

/* A name of our own; takes it. */
static hx_error *add_name(struct hx_word_maps *maps, char *name, uint32_t element, uint32_t *ret)
{
    const struct hx_word_name entry = {.name = name, .element = element};
    if (!name || !hx_vec_push(&maps->names, entry)) {
        free(name);
        return hx_error_nomem();
    }
    *ret = maps->table->n_types + (uint32_t)maps->names.n - 1;
    return NULL;
}

hx_error *hx_word_maps_counted(struct hx_word_maps *maps, uint32_t element, uint32_t *ret)
{
    HX_CLEANUP(hx_text_free) struct hx_text name = {0};
    uint32_t *known;
    HX_TRY(hx_pairs_at(&maps->counted, element, &known));
    if (*known == HX_NO_PAIR) {
        *known = 0;
        hx_text_putf(&name, "%s[]", hx_type_table_name(maps->table, element));
        HX_NEED(!name.failed);
        HX_TRY(add_name(maps, strdup(name.s), element, known));
    }
    *ret = *known;
    return NULL;
}

hx_error *hx_word_maps_headed(struct hx_word_maps *maps, uint32_t head, uint32_t *ret)
{
    HX_CLEANUP(hx_text_free) struct hx_text name = {0};
    uint32_t *known;
    HX_TRY(hx_pairs_at(&maps->headed, head, &known));
    if (*known == HX_NO_PAIR) {
        *known = 0;
        hx_text_putf(&name, "%s...", hx_type_table_name(maps->table, head));
        HX_NEED(!name.failed);
        HX_TRY(add_name(maps, strdup(name.s), 0, known));
        maps->names.v[maps->names.n - 1].head = head;
    }
    *ret = *known;
    return NULL;
}

uint32_t hx_word_maps_head(const struct hx_word_maps *maps, uint32_t type)
{
    const uint32_t n = maps->table->n_types;
    return type >= n && type - n < maps->names.n ? maps->names.v[type - n].head : 0;
}

/* Takes a "[]" away that stands at a place. */
static bool take_many(struct hx_text *name, size_t at)
{
    if (name->n < at + 2 || name->s[at] != '[' || name->s[at + 1] != ']')
        return false;
    memmove(name->s + at, name->s + at + 2, name->n - at - 1);
    name->n -= 2;
    return true;
}

/* One name of a hint: the types of the table that have it or, when there cannot be one, a new name
 * (`fresh`). Nothing is added when it is nothing. */
static hx_error *find_named(struct hx_word_maps *maps, struct hx_text *name, bool fresh,
                            numbers *ret)
{
    HX_CLEANUP(free_numbers) numbers all = {0};
    unsigned levels = 0;
    const bool headed = name->n > 3 && strcmp(name->s + name->n - 3, "...") == 0;
    if (headed)
        name->s[name->n -= 3] = 0;
    const bool many = take_many(name, 0) || (name->n > 2 && take_many(name, name->n - 2));
    while (levels < POINTERS_MAX && name->s[levels] == '*')
        levels++;
    const char *begin = name->s + levels;
    while (levels < POINTERS_MAX && name->s + name->n > begin && name->s[name->n - 1] == '*') {
        name->s[--name->n] = 0; /* of a template argument */
        levels++;
    }
    HX_TRY(find_all(maps, begin, &all));
    if (!all.n && !levels && !headed && fresh) {
        uint32_t number;
        HX_TRY(add_name(maps, strdup(name->s), 0, &number));
        HX_TRY(hx_index_add(&maps->by_name, hash_name(maps, name), number));
        HX_NEED(hx_vec_push(&all, number));
    }
    for (size_t k = 0; k < all.n; k++) {
        uint32_t number = all.v[k];
        for (unsigned i = 0; number && i < levels; i++)
            number = number < maps->table->n_types ? pointer_to(maps, number) : 0;
        if (headed && number >= maps->table->n_types)
            number = 0;
        if (headed && number)
            HX_TRY(hx_word_maps_headed(maps, number, &number));
        if (number)
            HX_NEED(hx_vec_push(ret, number | (many && !headed ? HX_WORD_MANY : 0)));
    }
    return NULL;
}

/* What is one of several; takes these. */
static hx_error *add_one_of(struct hx_word_maps *maps, const char *name, numbers *types,
                            uint32_t *ret)
{
    HX_TRY(add_name(maps, strdup(name), 0, ret));
    struct hx_word_name *entry = &maps->names.v[maps->names.n - 1];
    entry->one_of = true;
    entry->n = types->n;
    entry->types = hx_steal(types->v);
    return NULL;
}

/* One type, or "T | U | +V": those of them that there are. */
static hx_error *find_one_of(struct hx_word_maps *maps, const char *target, bool fresh,
                             uint32_t *ret)
{
    HX_CLEANUP(hx_text_free) struct hx_text name = {0}, all = {0};
    HX_CLEANUP(free_numbers) numbers types = {0}, inside = {0};
    for (const char *at = target; *at;) {
        const size_t length = strcspn(at, "|");
        const bool within = *at == '+';
        hx_text_clear(&name);
        hx_text_putn(&name, at + within, length - within);
        hx_text_puts(&all, at == target ? "" : " | ");
        hx_text_putn(&all, at + within, length - within);
        HX_NEED(!name.failed && !all.failed);
        HX_TRY(find_named(maps, &name, fresh, within ? &inside : &types));
        at += length + (at[length] != 0);
    }
    *ret = types.n ? types.v[0] : 0;
    if (types.n + inside.n == 0 || (types.n == 1 && !strpbrk(target, "|+")))
        return NULL;
    HX_TRY(add_one_of(maps, all.s, &types, ret));
    if (inside.n)
        maps->names.v[maps->names.n - 1].inside = HX_WORD_TYPE(inside.v[inside.n - 1]);
    return NULL;
}

/* What a hint says of a record. */
static hx_error *find_target(struct hx_word_maps *maps, const struct hx_type_hint *hint,
                             const char *plain, uint32_t *ret)
{
    HX_CLEANUP(hx_text_free) struct hx_text name = {0};
    HX_CLEANUP(free_numbers) numbers types = {0};
    const bool fresh = !hint->within && !strchr(hint->target, '$');
    *ret = 0;
    if (!hx_type_hint_target(hint, plain, &name))
        return name.failed ? hx_error_nomem() : NULL;
    if (!hint->within && (fresh || strpbrk(hint->target, "|+")))
        return find_one_of(maps, name.s, fresh, ret);
    HX_TRY(find_named(maps, &name, fresh, &types));
    *ret = types.n ? types.v[0] : 0;
    return NULL;
}

/* --- a field by its name ------------------------------------------------------- */

struct field_step {
    uint32_t type;
    uint64_t offset;
};

/* A field of a record, or of what it is made of: bases and members without a name. */
static bool find_field(const struct hx_type_table *table, uint32_t record, const char *name,
                       size_t n, struct field_step *ret)
{
    struct field_step queue[HX_TYPE_DEPTH] = {{.type = record, .offset = ret->offset}};
    for (size_t at = 0, end = 1; at < end; at++) {
        const struct hx_type_entry *type = &table->type[queue[at].type];
        for (uint32_t i = 0; hx_type_is_record(type) && i < type->n; i++) {
            const struct hx_type_field *field = &table->field[type->first + i];
            const char *own = table->strings + field->name;
            if (field->flags & HX_FIELD_VIRTUAL)
                continue;
            const struct field_step step = {field->type, queue[at].offset + field->offset};
            if (!(field->flags & HX_FIELD_BASE) && strncmp(own, name, n) == 0 && !own[n])
                return *ret = step, true;
            if ((field->flags & HX_FIELD_BASE || !*own) && end < HX_TYPE_DEPTH)
                queue[end++] = step;
        }
    }
    return false;
}

/* The same of a path of names. */
static bool find_path(const struct hx_type_table *table, uint32_t record, const char *path,
                      struct field_step *ret)
{
    *ret = (struct field_step){.type = record};
    for (;;) {
        size_t n = strcspn(path, ".");
        if (!find_field(table, ret->type, path, n, ret))
            return false;
        if (!path[n])
            return true;
        path += n + 1;
    }
}

/* --- one type ------------------------------------------------------------------ */

struct part {
    uint32_t type;
    uint64_t offset;
};

struct mapping {
    struct hx_word_maps *maps;
    struct hx_word_map *map;
    HX_VEC(struct part) todo;   /* the last one next */
    HX_VEC(struct part) within; /* behind these */
};

static void set_word(struct hx_word_map *map, uint64_t offset, uint32_t word)
{
    if (offset % WORD == 0 && offset / WORD < map->n)
        map->word[offset / WORD] = word;
}

/* Nothing is known of [offset, offset + size). */
static void open_words(struct hx_word_map *map, uint64_t offset, uint64_t size)
{
    for (uint64_t i = offset / WORD; i * WORD < offset + size && i < map->n; i++)
        map->word[i] = HX_WORD_OPEN;
}

static uint32_t word_of_pointer(const struct hx_type_table *table, const struct hx_type_entry *type)
{
    const struct hx_type_entry *target = &table->type[type->target];
    bool says = target->kind == HX_TYPE_POINTER || hx_type_is_record(target) ||
                target->kind == HX_TYPE_ARRAY || target->flags & HX_TYPE_DECLARED;
    const bool plain = target->kind == HX_TYPE_INT || target->kind == HX_TYPE_FLOAT;
    return says ? type->target : plain ? HX_WORD_PLAIN : HX_WORD_ANY;
}

/* What is only declared where a pointer is, and which several other files have: any of these. */
static hx_error *find_definitions(struct hx_word_maps *maps, uint32_t declared, uint32_t *ret)
{
    HX_CLEANUP(free_numbers) numbers all = {0};
    const char *name = hx_type_table_name(maps->table, declared);
    uint32_t *known;
    HX_TRY(hx_pairs_at(&maps->defined, declared, &known));
    if (*known == HX_NO_PAIR) {
        *known = declared;
        if (*name)
            HX_TRY(find_all(maps, name, &all));
        if (all.n > 1 && !is_declared(maps, all.v[0]))
            HX_TRY(add_one_of(maps, name, &all, known));
    }
    *ret = *known;
    return NULL;
}

static hx_error *map_pointer(struct mapping *mapping, const struct part *part)
{
    struct hx_word_maps *maps = mapping->maps;
    uint32_t word = word_of_pointer(maps->table, &maps->table->type[part->type]);
    if (HX_WORD_TARGET(word) && is_declared(maps, word))
        HX_TRY(find_definitions(maps, word, &word));
    set_word(mapping->map, part->offset, word);
    return NULL;
}

static hx_error *push_elements(struct mapping *mapping, const struct part *part, uint64_t *left)
{
    const struct hx_type_table *table = mapping->maps->table;
    const struct hx_type_entry *type = &table->type[part->type];
    const struct hx_type_entry *element = &table->type[type->target];
    const uint64_t end = (uint64_t)mapping->map->n * WORD;
    if (element->flags & HX_TYPE_CHAR || !element->size) {
        open_words(mapping->map, part->offset, type->size);
        return NULL;
    }
    for (uint64_t i = 0; i < type->count && *left; i++, --*left) {
        const struct part next = {type->target, part->offset + i * element->size};
        if (next.offset >= end)
            break;
        HX_NEED(hx_vec_push(&mapping->todo, next));
    }
    return NULL;
}

/* A field of a type that is only declared, which compilers leave when they think that another file
 * has it: it may reach to the next field. */
static void open_unknown(struct mapping *mapping, const struct part *part, uint32_t number)
{
    const struct hx_type_table *table = mapping->maps->table;
    const struct hx_type_entry *type = &table->type[part->type];
    const struct hx_type_field *field = &table->field[type->first + number];
    const enum hx_type_kind kind = (enum hx_type_kind)table->type[field->type].kind;
    uint64_t end = type->size;
    if (table->type[field->type].size || (kind != HX_TYPE_OPAQUE && kind != HX_TYPE_ARRAY))
        return;
    for (uint32_t i = number + 1; i < type->n && end == type->size; i++)
        if (table->field[type->first + i].offset > field->offset)
            end = table->field[type->first + i].offset;
    open_words(mapping->map, part->offset + field->offset, end - field->offset);
}

static hx_error *push_fields(struct mapping *mapping, const struct part *part, uint64_t *left)
{
    const struct hx_type_table *table = mapping->maps->table;
    const struct hx_type_entry *type = &table->type[part->type];
    for (uint32_t i = 0; i < type->n && *left; i++, --*left) {
        const struct hx_type_field *field = &table->field[type->first + i];
        if (field->flags & HX_FIELD_VPTR)
            set_word(mapping->map, part->offset + field->offset, HX_WORD_VTABLE);
        else if (!(field->flags & (HX_FIELD_VIRTUAL | HX_FIELD_BITS))) {
            if (type->kind == HX_TYPE_RECORD)
                open_unknown(mapping, part, i);
            HX_NEED(hx_vec_push(&mapping->todo,
                                (struct part){field->type, part->offset + field->offset}));
        }
    }
    return NULL;
}

/* A set of signals: a bit for each. The kernel writes the first word alone, and what sigaction()
 * gives back has words of the stack behind it, in glibc. */
static bool is_signal_set(const struct hx_type_table *table, uint32_t type)
{
    return strcmp(hx_type_table_name(table, type), "__sigset_t") == 0;
}

static hx_error *map_part(struct mapping *mapping, const struct part *part, uint64_t *left)
{
    const struct hx_type_table *table = mapping->maps->table;
    const struct hx_type_entry *type = &table->type[part->type];
    switch ((enum hx_type_kind)type->kind) {
    case HX_TYPE_POINTER:
        return map_pointer(mapping, part);
    case HX_TYPE_ARRAY:
        return push_elements(mapping, part, left);
    case HX_TYPE_RECORD:
        return is_signal_set(table, part->type) ? NULL : push_fields(mapping, part, left);
    case HX_TYPE_INT:
        if (type->size >= WORD)
            open_words(mapping->map, part->offset, type->size);
        return NULL;
    case HX_TYPE_UNION:
    case HX_TYPE_OPAQUE:
        open_words(mapping->map, part->offset, type->size);
        return NULL;
    case HX_TYPE_FLOAT:
    case HX_TYPE_ENUM:
    case HX_TYPE_KINDS:
        break;
    }
    return NULL;
}

/* What the hints say of a record at an offset; the first one that can be followed counts. */
static hx_error *apply_hints(struct hx_word_maps *maps, uint32_t type, uint64_t offset,
                             struct hx_word_map *map)
{
    const char *name = hx_type_table_name(maps->table, type);
    HX_CLEANUP(hx_text_free) struct hx_text plain = {0};
    if (!maps->hints || !*name)
        return NULL;
    hx_type_hint_plain(&plain, name, strlen(name));
    HX_NEED(!plain.failed);
    for (size_t i = maps->hints->n; i-- > 0;) {
        const struct hx_type_hint *hint = &maps->hints->v[i];
        struct field_step step;
        uint32_t target;
        if (hint->within || !hx_glob_matches(hint->type, plain.s, plain.n) ||
            !find_path(maps->table, type, hint->field, &step))
            continue;
        HX_TRY(find_target(maps, hint, plain.s, &target));
        /* an array: each of its elements */
        const struct hx_type_entry *field = &maps->table->type[step.type];
        uint64_t words = field->kind == HX_TYPE_ARRAY ? field->size / WORD : 1;
        for (uint64_t k = 0; target && k < words && k < map->n; k++)
            set_word(map, offset + step.offset + k * WORD, target);
    }
    return NULL;
}

/* Nobody knows whether what a union is said to have is there. */
static hx_error *note_union(struct hx_word_map *map, uint64_t offset, uint64_t size)
{
    if (!map->perhaps)
        HX_NEED(map->perhaps = calloc(map->n / 64 + 1, sizeof *map->perhaps));
    for (uint64_t i = offset / WORD; i * WORD < offset + size && i < map->n; i++)
        map->perhaps[i / 64] |= UINT64_C(1) << i % 64;
    return NULL;
}

/* What the hints say lies in fields of a record: parts that are mapped last. */
static hx_error *push_within(struct mapping *mapping, const struct part *record)
{
    struct hx_word_maps *maps = mapping->maps;
    const char *name = hx_type_table_name(maps->table, record->type);
    HX_CLEANUP(hx_text_free) struct hx_text plain = {0};
    for (size_t i = 0; maps->hints && *name && i < maps->hints->n; i++) {
        const struct hx_type_hint *hint = &maps->hints->v[i];
        struct field_step step;
        struct part part = {.offset = record->offset};
        if (!hint->within)
            continue;
        if (!plain.n)
            hx_type_hint_plain(&plain, name, strlen(name));
        HX_NEED(!plain.failed);
        if (!hx_glob_matches(hint->type, plain.s, plain.n) ||
            !find_path(maps->table, record->type, hint->field, &step))
            continue;
        HX_TRY(find_target(maps, hint, plain.s, &part.type));
        part.offset += step.offset;
        if (!part.type || part.type >= maps->table->n_types ||
            maps->table->type[part.type].size > maps->table->type[step.type].size)
            continue;
        HX_NEED(hx_vec_push(&mapping->within, part));
        if (maps->table->type[step.type].kind == HX_TYPE_UNION)
            HX_TRY(note_union(mapping->map, part.offset, maps->table->type[part.type].size));
    }
    return NULL;
}

static hx_error *fill_map(struct mapping *mapping, uint32_t type)
{
    struct hx_word_map *map = mapping->map;
    HX_VEC(struct part) records = {0};
    uint64_t left = PARTS_MAX;
    hx_error *err = hx_vec_push(&mapping->todo, (struct part){type, 0}) ? NULL : hx_error_nomem();
    while (!err && (mapping->todo.n || mapping->within.n) && left) {
        const struct part part = mapping->todo.n ? mapping->todo.v[--mapping->todo.n]
                                                 : mapping->within.v[--mapping->within.n];
        if (mapping->maps->table->type[part.type].kind == HX_TYPE_RECORD)
            err = push_within(mapping, &part);
        left--;
        if (mapping->maps->table->type[part.type].kind == HX_TYPE_RECORD && mapping->maps->hints &&
            !hx_vec_push(&records, part))
            err = hx_error_nomem();
        if (!err && left)
            err = map_part(mapping, &part, &left);
    }
    hx_vec_free(&mapping->within);
    if (!left)
        open_words(map, 0, (uint64_t)map->n * WORD);
    for (size_t i = records.n; !err && left && i-- > 0;) /* what is outside has the last word */
        err = apply_hints(mapping->maps, records.v[i].type, records.v[i].offset, map);
    hx_vec_free(&records);
    return err;
}

const struct hx_type_entry *hx_flexible_array(const struct hx_type_table *table, uint32_t type,
                                              uint64_t *ret_offset)
{
    *ret_offset = 0;
    for (unsigned depth = 0;
         depth < HX_TYPE_DEPTH && table->type[type].kind == HX_TYPE_RECORD && table->type[type].n;
         depth++) {
        const struct hx_type_field *last =
            &table->field[table->type[type].first + table->type[type].n - 1];
        *ret_offset += last->offset;
        type = last->type;
        if (table->type[type].kind == HX_TYPE_ARRAY)
            return table->type[type].count <= 1 ? &table->type[type] : NULL;
    }
    return NULL;
}

/* The elements of a flexible array go on behind the type. */
static hx_error *add_tail(struct hx_word_maps *maps, uint32_t type, struct hx_word_map *map)
{
    uint64_t offset;
    const struct hx_type_entry *array = hx_flexible_array(maps->table, type, &offset);
    struct hx_word_map element = {0};
    struct mapping mapping = {.maps = maps, .map = &element};
    if (!array || offset % WORD || offset / WORD > map->n)
        return NULL;
    const uint64_t size = maps->table->type[array->target].size;
    if (!size || size % WORD || size / WORD > HX_MAP_WORDS_MAX - map->n)
        return NULL;
    uint32_t *word = realloc(map->word, (map->n + size / WORD) * sizeof *word);
    HX_NEED(word);
    map->word = word;
    element.word = word + map->n;
    element.n = (uint32_t)(size / WORD);
    memset(element.word, 0xff, element.n * sizeof *word);
    hx_error *err = fill_map(&mapping, array->target);
    hx_vec_free(&mapping.todo);
    map->tail = element.n;
    map->tail_from = (uint32_t)(offset / WORD);
    return err;
}

static hx_error *make_map(struct hx_word_maps *maps, uint32_t type, struct hx_word_map *map)
{
    struct mapping mapping = {.maps = maps, .map = map};
    uint64_t n = maps->table->type[type].size / WORD;
    n = n < HX_MAP_WORDS_MAX ? n : HX_MAP_WORDS_MAX;
    if (!n || n > HX_MAPS_WORDS_MAX - maps->words)
        return NULL;
    map->word = malloc(n * sizeof *map->word);
    HX_NEED(map->word);
    memset(map->word, 0xff, n * sizeof *map->word); /* padding: scalars */
    map->n = (uint32_t)n;
    maps->words += n;
    hx_error *err = fill_map(&mapping, type);
    hx_vec_free(&mapping.todo);
    if (!err)
        err = add_tail(maps, type, map);
    map->scalars = true;
    for (uint32_t i = 0; i < map->n + map->tail; i++) {
        map->scalars &= map->word[i] == HX_WORD_SCALAR;
        map->self |= map->word[i] == type;
    }
    return err;
}

/* The number of elements, and words of an element that go on from there. */
static hx_error *make_counted(struct hx_word_maps *maps, uint32_t element, struct hx_word_map *map)
{
    const struct hx_word_map *of;
    HX_TRY(hx_word_map_of(maps, element, &of));
    if (!of->n || of->n * (uint64_t)WORD != maps->table->type[element].size)
        return NULL;
    map->word = malloc((of->n + 1) * sizeof *map->word);
    HX_NEED(map->word);
    map->word[0] = HX_WORD_SCALAR;
    memcpy(map->word + 1, of->word, of->n * sizeof *map->word);
    map->n = map->tail_from = 1;
    map->tail = of->n;
    map->scalars = of->scalars;
    return NULL;
}

hx_error *hx_word_map_of(struct hx_word_maps *maps, uint32_t type, const struct hx_word_map **ret)
{
    static const struct hx_word_map nothing; /* of a name */
    const uint32_t n = maps->table->n_types;
    type = hx_word_maps_head(maps, type) ? hx_word_maps_head(maps, type) : type;
    const uint32_t element = type < n ? 0 : maps->names.v[type - n].element;
    *ret = &nothing;
    if (type >= n && !element)
        return NULL;
    if (!maps->of && n) {
        maps->of = calloc(n, sizeof *maps->of);
        HX_NEED(maps->of);
    }
    uint32_t *known = type < n ? &maps->of[type] : &maps->names.v[type - n].map;
    if (!*known) {
        struct hx_word_map map = {0};
        hx_error *err = type < n ? make_map(maps, type, &map) : make_counted(maps, element, &map);
        if (!err && !hx_vec_push(&maps->maps, map))
            err = hx_error_nomem();
        if (err) {
            free(map.word);
            return err;
        }
        *known = (uint32_t)maps->maps.n;
    }
    *ret = &maps->maps.v[*known - 1];
    return NULL;
}
