/* ccs_names.c - what cost-centre stacks are called in one line. */
#include "store/cost/attribute.h"

#include "base/cleanup.h"
#include "model/function_name.h"
#include "store/db.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void hx_ccs_label(hx_ccs_name_fn *name, const void *context, hx_ccs_row row, struct hx_text *text)
{
    int64_t id = hx_ccs_id_of(row);
    const char *builtin = hx_builtin_name(id);
    if (builtin && id != HX_CCS_CUT) { /* nobody can mistake these */
        hx_text_puts(text, builtin);
        return;
    }
    hx_text_putf(text, "#%" PRId64, id);
    for (int shown = 0; row != HX_CCS_TOP; shown++) {
        struct hx_ccs_name entry;
        bool missing = hx_ccs_id_of(row) == HX_CCS_CUT && shown;
        hx_text_puts(text, shown ? " < " : " ");
        if (shown == HX_SITE_FRAMES || missing) {
            hx_text_puts(text, "...");
            return;
        }
        name(context, row, &entry);
        if (entry.function)
            hx_function_name_short(text, entry.label);
        else
            hx_text_puts(text, entry.label);
        row = entry.parent;
    }
}

void hx_attributing_name(const void *context, hx_ccs_row row, struct hx_ccs_name *ret)
{
    const struct hx_attributing *a = context;
    const struct hx_ccs_entry *entry = &hx_ccs_rows(a->table)[row];
    *ret = (struct hx_ccs_name){
        .parent = entry->parent,
        .label = hx_frames_label(a->frames, entry->centre),
        .function = a->frames->centres.v[entry->centre].kind == HX_CENTRE_FUNCTION,
    };
}

/* --- those of a store -------------------------------------------------------------- */

struct centre {
    int64_t id;
    size_t label; /* in strings */
    bool function;
};

struct row {
    hx_ccs_row parent;
    uint32_t centre; /* index */
};

/* Invariant: rows[i] is ccs_id i + 1, and its parent stands before it. */
struct hx_ccs_names {
    HX_VEC(struct centre) centres;
    HX_VEC(struct row) rows;
    HX_VEC(char) strings;
};

static hx_error *damaged_ccs(const char *what)
{
    return hx_error_new(HX_E_CORRUPT, what, "take it from a backup or make it again",
                        "the store is damaged (cost-centre stacks)");
}

static hx_error *load_centres(sqlite3 *db, const char *what, hx_ccs_names *names)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(db, what,
                         "SELECT centre, label, kind = 'function' FROM hx_centre"
                         " ORDER BY centre",
                         &st));
    int code;
    while ((code = sqlite3_step(st)) == SQLITE_ROW) {
        const char *label = (const char *)sqlite3_column_text(st, 1);
        size_t bytes = label ? strlen(label) : 0;
        struct centre centre = {.id = sqlite3_column_int64(st, 0),
                                .label = names->strings.n,
                                .function = sqlite3_column_int(st, 2)};
        HX_NEED(hx_vec_reserve(&names->strings, names->strings.n + bytes + 1) &&
                hx_vec_push(&names->centres, centre));
        memcpy(names->strings.v + centre.label, label ? label : "", bytes + 1);
        names->strings.n += bytes + 1;
    }
    return code == SQLITE_DONE ? NULL : hx_db_error(db, code, what);
}

static int by_id(const void *a, const void *b)
{
    int64_t x = ((const struct centre *)a)->id, y = ((const struct centre *)b)->id;
    return (x > y) - (x < y);
}

static const struct centre *find_named_centre(const hx_ccs_names *names, int64_t id)
{
    if (id >= 1 && (uint64_t)id <= names->centres.n && names->centres.v[id - 1].id == id)
        return &names->centres.v[id - 1];
    struct centre wanted = {.id = id};
    return names->centres.n
               ? bsearch(&wanted, names->centres.v, names->centres.n, sizeof wanted, by_id)
               : NULL;
}

static hx_error *load_rows(sqlite3 *db, const char *what, hx_ccs_names *names)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(db, what, "SELECT ccs_id, parent_id, centre FROM hx_ccs ORDER BY ccs_id",
                         &st));
    int code;
    while ((code = sqlite3_step(st)) == SQLITE_ROW) {
        int64_t id = sqlite3_column_int64(st, 0), up = sqlite3_column_int64(st, 1);
        const struct centre *centre = find_named_centre(names, sqlite3_column_int64(st, 2));
        bool top = id == 1;
        if (!centre || id != (int64_t)names->rows.n + 1 || (!top && (up < 1 || up >= id)) ||
            id >= HX_NO_CCS_ROW)
            return damaged_ccs(what);
        struct row row = {.parent = top ? 0 : (hx_ccs_row)(up - 1),
                          .centre = (uint32_t)(centre - names->centres.v)};
        HX_NEED(hx_vec_push(&names->rows, row));
    }
    return code == SQLITE_DONE ? NULL : hx_db_error(db, code, what);
}

hx_error *hx_ccs_names_load(sqlite3 *db, const char *what, hx_ccs_names **ret)
{
    hx_ccs_names *names = calloc(1, sizeof *names);
    HX_NEED(names);
    hx_error *err = load_centres(db, what, names);
    if (!err)
        err = load_rows(db, what, names);
    if (err) {
        hx_ccs_names_free(names);
        return err;
    }
    *ret = names;
    return NULL;
}

void hx_ccs_names_free(hx_ccs_names *names)
{
    if (!names)
        return;
    hx_vec_free(&names->centres);
    hx_vec_free(&names->rows);
    hx_vec_free(&names->strings);
    free(names);
}

static void stored_name(const void *context, hx_ccs_row row, struct hx_ccs_name *ret)
{
    const hx_ccs_names *names = context;
    const struct row *at = &names->rows.v[row];
    *ret = (struct hx_ccs_name){
        .parent = at->parent,
        .label = names->strings.v + names->centres.v[at->centre].label,
        .function = names->centres.v[at->centre].function,
    };
}

hx_error *hx_ccs_names_label(const hx_ccs_names *names, int64_t ccs_id, struct hx_text *text)
{
    if (ccs_id < 1 || (uint64_t)ccs_id > names->rows.n)
        return damaged_ccs("store");
    hx_ccs_label(stored_name, names, (hx_ccs_row)(ccs_id - 1), text);
    return NULL;
}
