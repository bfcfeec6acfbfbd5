/* type_table.c - testing a table that somebody made, and finding what lies at an offset of a type.
 */
#include "model/type_table.h"

#include "base/text.h"

#include <inttypes.h>
#include <string.h>

static hx_error *bad_table(const char *why)
{
    return hx_error_new(HX_E_CORRUPT, "a table of types", NULL, "makes no sense: %s", why);
}

/* --- testing --------------------------------------------------------------------- */

/* Takes `n` elements from what is left of the block. */
static const void *take_array(const unsigned char **at, size_t *left, uint64_t n, size_t element)
{
    const unsigned char *array = *at;
    if (n > *left / element)
        return NULL;
    *at += n * element;
    *left -= n * element;
    return array;
}

/* `fields` counts those of records so far: if two could share some, testing would take the square
 * of what is there. */
static const char *test_record(const struct hx_type_table *table, uint32_t number, uint32_t *fields)
{
    const struct hx_type_entry *type = &table->type[number];
    uint64_t last = 0;
    if (type->first != *fields || type->n > table->n_fields - *fields)
        return "whose fields are whose";
    *fields += type->n;
    for (uint32_t i = 0; i < type->n; i++) {
        const struct hx_type_field *field = &table->field[type->first + i];
        if (field->type >= number || field->name >= table->n_bytes)
            return "a field";
        const struct hx_type_entry *of = &table->type[field->type];
        if (of->depth >= type->depth)
            return "how deep types contain each other";
        if (field->offset < last || field->offset > type->size ||
            of->size > type->size - field->offset)
            return "where a field lies";
        last = type->kind == HX_TYPE_RECORD ? field->offset : 0;
    }
    return NULL;
}

static const char *test_array(const struct hx_type_table *table, uint32_t number)
{
    const struct hx_type_entry *type = &table->type[number];
    uint64_t size;
    if (type->target >= number || table->type[type->target].depth >= type->depth)
        return "an array";
    if (__builtin_mul_overflow(type->count, table->type[type->target].size, &size) ||
        size != type->size)
        return "the size of an array";
    return NULL;
}

static const char *test_type(const struct hx_type_table *table, uint32_t number, uint32_t *fields)
{
    const struct hx_type_entry *type = &table->type[number];
    if (type->kind >= HX_TYPE_KINDS || type->name >= table->n_bytes ||
        type->depth > HX_TYPE_DEPTH || type->size > INT64_MAX || type->target >= table->n_types)
        return "a type";
    if (hx_type_is_record(type))
        return test_record(table, number, fields);
    return type->kind == HX_TYPE_ARRAY ? test_array(table, number) : NULL;
}

static const char *test_variables(const struct hx_type_table *table)
{
    for (uint32_t i = 0; i < table->n_variables; i++) {
        const struct hx_type_variable *variable = &table->variable[i], *last = variable - 1;
        if (variable->name >= table->n_bytes || variable->linkage >= table->n_bytes ||
            variable->type >= table->n_types || variable->tls > 1)
            return "a variable";
        if (i && (last->tls > variable->tls ||
                  (last->tls == variable->tls && last->vaddr > variable->vaddr)))
            return "the order of variables";
    }
    return NULL;
}

hx_error *hx_type_table_open(const void *memory, size_t bytes, struct hx_type_table *ret)
{
    struct hx_type_table_head head;
    const unsigned char *at = memory;
    size_t left = bytes;
    if (bytes < sizeof head)
        return bad_table("it is cut off");
    memcpy(&head, memory, sizeof head);
    (void)take_array(&at, &left, 1, sizeof head);
    if (head.magic != HX_TYPE_TABLE_MAGIC)
        return bad_table("another version made it");
    struct hx_type_table table = {.n_types = head.n_types,
                                  .n_fields = head.n_fields,
                                  .n_variables = head.n_variables,
                                  .n_bytes = head.n_bytes,
                                  .left_out = head.left_out,
                                  .memory = memory,
                                  .bytes = bytes};
    table.type = take_array(&at, &left, head.n_types, sizeof *table.type);
    table.field = take_array(&at, &left, head.n_fields, sizeof *table.field);
    table.variable = take_array(&at, &left, head.n_variables, sizeof *table.variable);
    table.strings = take_array(&at, &left, head.n_bytes, 1);
    if (!table.type || !table.field || !table.variable || !table.strings)
        return bad_table("it is cut off");
    if (!table.n_types || table.n_types > HX_TYPES_MAX || !table.n_bytes ||
        table.n_bytes > UINT32_MAX || table.strings[0] || table.strings[table.n_bytes - 1])
        return bad_table("its strings");
    const char *why = table.type[0].kind == HX_TYPE_OPAQUE ? NULL : "its first type";
    uint32_t fields = 0;
    for (uint32_t i = 0; !why && i < table.n_types; i++)
        why = test_type(&table, i, &fields);
    if (!why && fields != table.n_fields)
        why = "fields of no type";
    if (!why)
        why = test_variables(&table);
    if (why)
        return bad_table(why);
    *ret = table;
    return NULL;
}

/* --- what lies at an offset ------------------------------------------------------- */

/* The last field of a record that begins at an offset or below and reaches beyond it. */
static const struct hx_type_field *field_at(const struct hx_type_table *table,
                                            const struct hx_type_entry *type, uint64_t offset)
{
    const struct hx_type_field *found = NULL;
    for (uint32_t i = 0; i < type->n; i++) {
        const struct hx_type_field *field = &table->field[type->first + i];
        if (field->offset > offset)
            break;
        const uint64_t size = table->type[field->type].size;
        const bool flexible = !size && table->type[field->type].kind == HX_TYPE_ARRAY;
        if (!(field->flags & (HX_FIELD_VIRTUAL | HX_FIELD_BITS)) &&
            (flexible || offset - field->offset < size))
            found = field;
    }
    return found;
}

/* A way down from a type to the scalar at an offset. */
struct way {
    uint32_t type;
    uint64_t offset;
    const struct hx_type_field *field; /* that was gone through last; NULL: an element */
    uint64_t index;
    bool flexible;
};

/* One step down; false: nothing lies there, or it is a scalar or union. */
static bool step_down(const struct hx_type_table *table, struct way *way)
{
    const struct hx_type_entry *type = &table->type[way->type];
    way->field = NULL;
    if (type->kind == HX_TYPE_ARRAY) {
        const uint64_t size = table->type[type->target].size;
        if (!size || (type->count && way->offset / size >= type->count))
            return false;
        way->index = way->offset / size;
        way->offset %= size;
        way->type = type->target;
        return true;
    }
    if (type->kind != HX_TYPE_RECORD)
        return false;
    way->field = field_at(table, type, way->offset);
    if (!way->field)
        return false;
    way->offset -= way->field->offset;
    way->type = way->field->type;
    return true;
}

static struct way begin_way(const struct hx_type_table *table, uint32_t type, uint64_t offset,
                            bool repeat)
{
    const uint64_t size = table->type[type].size;
    return (struct way){.type = type, .offset = repeat && size ? offset % size : offset};
}

struct hx_word_type hx_type_word(const struct hx_type_table *table, uint32_t type, uint64_t offset,
                                 bool repeat)
{
    struct way way = begin_way(table, type, offset, repeat);
    bool vptr = false;
    while (step_down(table, &way))
        vptr = way.field && way.field->flags & HX_FIELD_VPTR;
    const struct hx_type_entry *at = &table->type[way.type];
    if (vptr)
        return (struct hx_word_type){HX_WORD_VPTR, 0};
    switch ((enum hx_type_kind)at->kind) {
    case HX_TYPE_POINTER:
        return way.offset ? (struct hx_word_type){HX_WORD_NONE, 0}
                          : (struct hx_word_type){HX_WORD_POINTER, at->target};
    case HX_TYPE_INT:
        return (struct hx_word_type){
            at->size < 8 && !(at->flags & HX_TYPE_CHAR) ? HX_WORD_NONE : HX_WORD_UNKNOWN, 0};
    case HX_TYPE_OPAQUE:
    case HX_TYPE_UNION:
        return (struct hx_word_type){HX_WORD_UNKNOWN, 0};
    default:
        return (struct hx_word_type){HX_WORD_NONE, 0};
    }
}

bool hx_type_is_link(const struct hx_type_table *table, uint32_t type, uint64_t offset)
{
    const struct hx_word_type word = hx_type_word(table, type, offset, false);
    struct way way = begin_way(table, type, offset, false);
    bool within = way.type == word.target;
    while (step_down(table, &way))
        within |= way.type == word.target;
    return word.kind == HX_WORD_POINTER && word.target && within;
}

bool hx_type_put_path(const struct hx_type_table *table, uint32_t type, uint64_t offset,
                      bool repeat, struct hx_text *text)
{
    struct way way = begin_way(table, type, offset, repeat);
    const size_t begin = text->n;
    while (step_down(table, &way)) {
        if (!way.field) {
            hx_text_putf(text, "[%" PRIu64 "]", way.index);
            continue;
        }
        const char *name = table->strings + way.field->name;
        if (way.field->flags & HX_FIELD_BASE || !*name)
            continue;
        hx_text_putf(text, "%s%s", text->n > begin ? "." : "", name);
    }
    const enum hx_type_kind kind = (enum hx_type_kind)table->type[way.type].kind;
    return !text->failed && kind != HX_TYPE_RECORD && kind != HX_TYPE_ARRAY &&
           way.offset < (table->type[way.type].size ? table->type[way.type].size : 1);
}
