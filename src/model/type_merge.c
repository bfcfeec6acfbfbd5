/* type_merge.c - one table of several, and the index by names. */
#include "model/type_merge.h"

#include "base/cleanup.h"
#include "model/type_build.h"

#include <stdlib.h>
#include <string.h>

/* --- one of several ---------------------------------------------------------------- */

static hx_error *add_string(struct hx_type_build *build, const struct hx_type_table *table,
                            uint32_t offset, uint32_t *ret)
{
    const char *s = table->strings + offset;
    return hx_type_build_string(build, s, strlen(s), ret);
}

/* A table behind what is there: its type t gets the number of types that were there, plus t. */
static hx_error *add_table(struct hx_type_build *build, const struct hx_type_table *table)
{
    const uint32_t types = (uint32_t)build->types.n, fields = (uint32_t)build->fields.n;
    if (table->n_types > HX_TYPES_MAX - types || table->n_fields > 4 * HX_TYPES_MAX - fields)
        return hx_error_new(HX_E_LIMIT, "types", NULL, "there are more than 16 million");
    HX_NEED(hx_vec_reserve(&build->types, types + table->n_types) &&
            hx_vec_reserve(&build->fields, fields + table->n_fields + 1));
    for (uint32_t i = 0; i < table->n_types; i++) {
        struct hx_type_entry type = table->type[i];
        HX_TRY(add_string(build, table, type.name, &type.name));
        type.target += types;
        type.first += fields;
        build->types.v[build->types.n++] = type;
    }
    for (uint32_t i = 0; i < table->n_fields; i++) {
        struct hx_type_field field = table->field[i];
        HX_TRY(add_string(build, table, field.name, &field.name));
        field.type += types;
        build->fields.v[build->fields.n++] = field;
    }
    build->left_out += table->left_out;
    return NULL;
}

static hx_error *split_numbers(const struct hx_type_table *const *table, size_t n,
                               const uint32_t *number, struct hx_merged_types *types)
{
    types->number = calloc(n + 1, sizeof *types->number);
    HX_NEED(types->number);
    types->n = n;
    number++; /* the first one is the build's own */
    for (size_t i = 0; i < n; i++) {
        types->number[i] = malloc(table[i]->n_types * sizeof **types->number);
        HX_NEED(types->number[i]);
        memcpy(types->number[i], number, table[i]->n_types * sizeof *number);
        number += table[i]->n_types;
    }
    return NULL;
}

static hx_error *merge_into(struct hx_type_build *build, const struct hx_type_table *const *table,
                            size_t n, struct hx_merged_types *types)
{
    size_t bytes;
    for (size_t i = 0; i < n; i++)
        HX_TRY(add_table(build, table[i]));
    HX_FREE uint32_t *number = malloc((build->types.n + 1) * sizeof *number);
    HX_NEED(number);
    HX_TRY(hx_type_build_finish(build, number, &types->block, &bytes));
    HX_TRY(hx_type_table_open(types->block, bytes, &types->table));
    return split_numbers(table, n, number, types);
}

hx_error *hx_type_tables_merge(const struct hx_type_table *const *table, size_t n,
                               struct hx_merged_types *ret)
{
    struct hx_type_build build;
    struct hx_merged_types types = {0};
    HX_TRY(hx_type_build_init(&build));
    hx_error *err = merge_into(&build, table, n, &types);
    hx_type_build_deinit(&build);
    if (err)
        hx_merged_types_deinit(&types);
    else
        *ret = types;
    return err;
}

void hx_merged_types_deinit(struct hx_merged_types *types)
{
    for (size_t i = 0; i < types->n; i++)
        free(types->number[i]);
    free(types->number);
    free(types->block);
    *types = (struct hx_merged_types){0};
}

/* --- by names ---------------------------------------------------------------------- */

static uint64_t hash_target(enum hx_type_kind kind, uint32_t target, uint64_t count)
{
    return hx_mix(hx_mix(kind, target), count);
}

hx_error *hx_type_index_init(struct hx_type_index *index, const struct hx_type_table *table)
{
    *index = (struct hx_type_index){.table = table};
    hx_error *err = NULL;
    for (uint32_t i = 1; !err && i < table->n_types; i++) {
        const struct hx_type_entry *type = &table->type[i];
        const char *name = hx_type_table_name(table, i);
        if (type->kind == HX_TYPE_POINTER || type->kind == HX_TYPE_ARRAY)
            err = hx_index_add(&index->by_target,
                               hash_target((enum hx_type_kind)type->kind, type->target,
                                           type->kind == HX_TYPE_ARRAY ? type->count : 0),
                               i);
        else if (*name)
            err = hx_index_add(&index->by_name, hx_hash_bytes(name, strlen(name)), i);
    }
    if (err)
        hx_type_index_deinit(index);
    return err;
}

void hx_type_index_deinit(struct hx_type_index *index)
{
    hx_index_free(&index->by_name);
    hx_index_free(&index->by_target);
    index->table = NULL;
}

static uint32_t find_name(const struct hx_type_index *index, const char *name)
{
    uint32_t at = 0, number, found = 0;
    bool several = false;
    while (hx_index_next(&index->by_name, hx_hash_bytes(name, strlen(name)), &at, &number)) {
        const bool declared = index->table->type[number].flags & HX_TYPE_DECLARED;
        if (strcmp(hx_type_table_name(index->table, number), name) != 0)
            continue;
        if (!found || index->table->type[found].flags & HX_TYPE_DECLARED) {
            found = number;
            several = false;
        } else {
            several |= !declared;
        }
    }
    return several ? 0 : found;
}

static uint32_t find_made_of(const struct hx_type_index *index, enum hx_type_kind kind,
                             uint32_t target, uint64_t count)
{
    uint32_t at = 0, number;
    while (hx_index_next(&index->by_target, hash_target(kind, target, count), &at, &number)) {
        const struct hx_type_entry *type = &index->table->type[number];
        if (type->kind == kind && type->target == target &&
            (kind == HX_TYPE_POINTER || type->count == count))
            return number;
    }
    return 0;
}

uint32_t hx_type_table_find(const struct hx_type_index *index, const char *spelling)
{
    const char *name = spelling;
    while (*name == '*' || *name == '[')
        name += *name == '*' ? 1 : strcspn(name, "]") + (strchr(name, ']') != NULL);
    uint32_t type = find_name(index, name);
    for (const char *at = name; type && at > spelling;) { /* from the inside out */
        at--;
        if (*at == '*') {
            type = find_made_of(index, HX_TYPE_POINTER, type, 0);
            continue;
        }
        while (at > spelling && *at != '[')
            at--;
        type = find_made_of(index, HX_TYPE_ARRAY, type, strtoull(at + 1, NULL, 10));
    }
    return type;
}
