/* debug_types.c - one table for all files, and where their variables lie. */
#include "attach/types/debug_types.h"

#include "base/cleanup.h"
#include "base/pairs.h"
#include "base/text.h"
#include "base/timing.h"
#include "sym/code/code.h"
#include "sym/reading.h"

#include <stdlib.h>
#include <string.h>

#define HURRIED_MAX 50000 /* types that are brought together in a moment */

struct debug_file {
    const struct hx_type_table *table;
    const char *name;
    uint64_t bias;
};
typedef HX_VEC(struct debug_file) debug_files;

/* The loaded files whose types could be read. */
static hx_error *collect_files(const struct hx_snapshot *snapshot, hx_code *code,
                               uint64_t deadline_ns, const struct hx_progress *progress,
                               debug_files *ret, size_t *ret_late)
{
    const bool hurried = deadline_ns != UINT64_MAX;
    uint32_t n_types = 0;
    for (size_t i = 0; i < snapshot->loaded.n; i++) {
        const struct hx_loaded_file *loaded = &snapshot->loaded.v[i];
        struct debug_file file = {.bias = loaded->bias};
        bool later = false;
        if (loaded->code == HX_NO_FILE)
            continue;
        HX_TRY(hx_code_type_table(code, loaded->code, deadline_ns, &file.table, &later));
        if (file.table && hurried && file.table->n_types > HURRIED_MAX - n_types) {
            file.table = NULL;
            later = true;
        }
        n_types += file.table ? file.table->n_types : 0;
        *ret_late += later;
        if (hx_progress_cancelled(progress))
            return hx_error_cancelled("types");
        file.name = hx_code_name(code, loaded->code);
        HX_NEED(!file.table || hx_vec_push(ret, file));
    }
    return NULL;
}

static hx_error *merge_tables(const debug_files *files, struct hx_merged_types *ret)
{
    HX_FREE const struct hx_type_table **table = calloc(files->n + 1, sizeof *table);
    HX_NEED(table);
    for (size_t i = 0; i < files->n; i++)
        table[i] = files->v[i].table;
    return hx_type_tables_merge(table, files->n, ret);
}

/* --- places ---------------------------------------------------------------------- */

static hx_error *add_place(struct hx_debug_types *types, uint64_t address, uint32_t root,
                           uint32_t type)
{
    const uint64_t size = types->types.table.type[type].size;
    if (size && size < UINT64_MAX - address)
        HX_NEED(hx_vec_push(&types->places, (struct hx_typed_place){address, size, root, type}));
    return NULL;
}

static hx_error *place_globals(const debug_files *files, struct hx_debug_types *types)
{
    for (size_t i = 0; i < files->n; i++)
        for (uint32_t k = 0; k < files->v[i].table->n_variables; k++) {
            const struct hx_type_variable *variable = &files->v[i].table->variable[k];
            if (!variable->tls)
                HX_TRY(add_place(types, files->v[i].bias + variable->vaddr, 0,
                                 types->types.number[i][variable->type]));
        }
    return NULL;
}

/* The type of the thread-local variable that a root is called by. */
static uint32_t type_of_tls(const debug_files *files, const struct hx_debug_types *types,
                            const struct hx_root *root)
{
    for (size_t i = 0; i < files->n; i++) {
        const struct hx_type_table *table = files->v[i].table;
        if (strcmp(files->v[i].name, root->module ? root->module : "") != 0)
            continue;
        for (uint32_t k = table->n_variables; k-- > 0 && table->variable[k].tls;)
            if (strcmp(table->strings + table->variable[k].name, root->name) == 0)
                return types->types.number[i][table->variable[k].type];
    }
    return 0;
}

static hx_error *place_roots(const struct hx_snapshot *snapshot, const debug_files *files,
                             struct hx_debug_types *types)
{
    HX_CLEANUP(hx_type_index_deinit) struct hx_type_index index = {0};
    for (size_t i = 0; i < snapshot->roots.n; i++) {
        const struct hx_root *root = &snapshot->roots.v[i];
        uint32_t type = 0;
        if (root->type_spelling) {
            if (!index.table)
                HX_TRY(hx_type_index_init(&index, &types->types.table));
            type = hx_type_table_find(&index, root->type_spelling);
        } else if (root->kind == HX_ROOT_TLS) {
            type = type_of_tls(files, types, root);
        }
        if (type)
            HX_TRY(add_place(types, root->kind == HX_ROOT_REGISTER ? 0 : root->address, (uint32_t)i,
                             type));
    }
    return NULL;
}

static int compare_places(const void *a, const void *b)
{
    const struct hx_typed_place *x = a, *y = b;
    if (x->address != y->address)
        return x->address < y->address ? -1 : 1;
    if (!x->address && x->root != y->root)
        return x->root < y->root ? -1 : 1;
    return x->size > y->size ? -1 : x->size < y->size; /* what is outside first */
}

/* Of what lies over each other (aliases, variables of a common block) the first one remains. */
static void part_places(struct hx_debug_types *types)
{
    size_t n = 0;
    if (types->places.n)
        qsort(types->places.v, types->places.n, sizeof *types->places.v, compare_places);
    for (size_t i = 0; i < types->places.n; i++) {
        const struct hx_typed_place *place = &types->places.v[i],
                                    *last = n ? &types->places.v[n - 1] : NULL;
        bool over =
            last && (place->address ? last->address && place->address - last->address < last->size
                                    : last->root == place->root);
        if (!over)
            types->places.v[n++] = *place;
    }
    types->places.n = n;
}

/* --- names of statics in functions ------------------------------------------------ */

/* What a static of a function is called by the linker and in debug information: "map.0" and
 * "f::map" (GCC), "f.map" and that or "map" (Clang, of a function that is nowhere but inside
 * others); puts "f::map", or nothing where the two do not fit. */
static void put_static(const char *symbol, const char *name, struct hx_text *text)
{
    const char *colon = strrchr(name, ':'), *own = colon ? colon + 1 : name;
    const size_t n = strlen(own), length = strlen(symbol);
    const bool last =
        length > n && symbol[length - n - 1] == '.' && strcmp(symbol + length - n, own) == 0;
    if (n && last && !colon)
        hx_text_putf(text, "%.*s::%s", (int)(length - n - 1), symbol, own);
    else if (n && colon && (last || (strncmp(symbol, own, n) == 0 && symbol[n] == '.')))
        hx_text_puts(text, name);
}

/* Symbols of C do not say which function a static is in. */
static hx_error *name_statics(struct hx_snapshot *snapshot, const debug_files *files)
{
    HX_CLEANUP(hx_pairs_free) struct hx_pairs statics = {0}; /* addresses to roots */
    for (size_t i = 0; i < snapshot->roots.n; i++) {
        const struct hx_root *root = &snapshot->roots.v[i];
        uint32_t *number;
        if (root->kind != HX_ROOT_GLOBAL || !root->symbol || !strchr(root->symbol, '.'))
            continue;
        HX_TRY(hx_pairs_at(&statics, root->address, &number));
        *number = (uint32_t)i;
    }
    for (size_t i = 0; statics.n && i < files->n; i++)
        for (uint32_t k = 0; k < files->v[i].table->n_variables; k++) {
            const struct hx_type_table *table = files->v[i].table;
            const struct hx_type_variable *variable = &table->variable[k];
            const char *name = table->strings + variable->name;
            const uint32_t number =
                variable->tls ? HX_NO_PAIR
                              : hx_pairs_find(&statics, files->v[i].bias + variable->vaddr);
            HX_CLEANUP(hx_text_free) struct hx_text called = {0};
            if (number == HX_NO_PAIR)
                continue;
            put_static(snapshot->roots.v[number].symbol, name, &called);
            HX_NEED(!called.failed);
            if (!called.n)
                continue;
            free(snapshot->roots.v[number].name);
            snapshot->roots.v[number].name = hx_steal(called.s);
        }
    return NULL;
}

/* --- the whole ------------------------------------------------------------------- */

static hx_error *bring_together(struct hx_snapshot *snapshot, const debug_files *files,
                                struct hx_debug_types *types)
{
    HX_TRY(name_statics(snapshot, files));
    HX_TRY(merge_tables(files, &types->types));
    HX_TRY(place_globals(files, types));
    HX_TRY(place_roots(snapshot, files, types));
    part_places(types);
    return NULL;
}

hx_error *hx_debug_types_find(struct hx_snapshot *snapshot, hx_code *code, uint64_t deadline_ns,
                              const struct hx_progress *progress, struct hx_debug_types *ret)
{
    debug_files files = {0};
    uint64_t begun = hx_timing_begin();
    hx_reading_listen(hx_code_reading(code), progress);
    hx_reading_hurry(hx_code_reading(code), deadline_ns == UINT64_MAX ? 0 : deadline_ns);
    size_t late = 0;
    hx_error *err = collect_files(snapshot, code, deadline_ns, progress, &files, &late);
    hx_reading_hurry(hx_code_reading(code), 0);
    hx_reading_listen(hx_code_reading(code), NULL);
    hx_timing_end(begun, "type tables", files.n);
    begun = hx_timing_begin();
    *ret = (struct hx_debug_types){.late = late};
    if (!err && files.n)
        err = bring_together(snapshot, &files, ret);
    hx_timing_end(begun, "types together", ret->types.table.n_types);
    hx_vec_free(&files);
    if (err)
        hx_debug_types_deinit(ret);
    return err;
}

void hx_debug_types_deinit(struct hx_debug_types *types)
{
    hx_merged_types_deinit(&types->types);
    hx_vec_free(&types->places);
}
