/* column_names.c - names by number, in one piece of memory. */
#include "store/objects/column_names.h"

#include "base/cleanup.h"
#include "base/lower_bound.h"
#include "base/text.h"
#include "base/vec.h"
#include "store/db.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct name {
    uint64_t number;
    size_t at, bytes; /* in text */
    bool null;
};

struct hx_names {
    HX_VEC(struct name) name; /* by growing number; no gaps, unless a store lies */
    HX_VEC(char) text;
};

static hx_error *add_stored_name(hx_names *names, uint64_t number, const char *text, size_t bytes)
{
    struct name name = {.number = number, .at = names->text.n, .bytes = bytes, .null = !text};
    HX_NEED(hx_vec_reserve(&names->text, names->text.n + bytes) && hx_vec_push(&names->name, name));
    if (bytes)
        memcpy(names->text.v + name.at, text, bytes);
    names->text.n += bytes;
    return NULL;
}

static hx_error *read_names(sqlite3 *db, int64_t snapshot, enum hx_name_list list, hx_names *names)
{
    static const char *const tables[] = {[HX_NAMES_TYPE] = "hx_type",
                                         [HX_NAMES_BIN] = "hx_bin",
                                         [HX_NAMES_SHAPE] = "hx_shape",
                                         [HX_NAMES_HOLDER] = "hx_holding"};
    static const char *const sql[] = {
        [HX_NAMES_TYPE] = "SELECT type, name FROM hx_type WHERE snapshot = ? ORDER BY type",
        [HX_NAMES_BIN] = "SELECT bin, roots FROM hx_bin WHERE snapshot = ? ORDER BY bin",
        [HX_NAMES_SHAPE] = "SELECT shape, label FROM hx_shape WHERE snapshot = ? ORDER BY shape",
        [HX_NAMES_HOLDER] =
            "SELECT holder, name FROM hx_holding WHERE snapshot = ? ORDER BY holder"};
    if (sqlite3_table_column_metadata(db, NULL, tables[list], NULL, NULL, NULL, NULL, NULL, NULL) !=
        SQLITE_OK)
        return NULL;
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(db, "store", sql[list], &st));
    sqlite3_bind_int64(st, 1, snapshot);
    int code;
    while ((code = sqlite3_step(st)) == SQLITE_ROW) {
        const char *text = (const char *)sqlite3_column_text(st, 1);
        HX_CLEANUP(hx_text_free) struct hx_text bounded = {0};
        if (text)
            hx_text_names(&bounded, text, (size_t)sqlite3_column_bytes(st, 1));
        HX_NEED(!bounded.failed);
        HX_TRY(add_stored_name(names, (uint64_t)sqlite3_column_int64(st, 0),
                               text ? hx_text_str(&bounded) : NULL, bounded.n));
    }
    return code == SQLITE_DONE ? NULL : hx_db_error(db, code, "store");
}

hx_error *hx_names_load(sqlite3 *db, int64_t snapshot, enum hx_name_list list, hx_names **ret)
{
    hx_names *names = calloc(1, sizeof *names);
    HX_NEED(names);
    hx_error *err = read_names(db, snapshot, list, names);
    if (err) {
        hx_names_free(names);
        return err;
    }
    *ret = names;
    return NULL;
}

void hx_names_free(hx_names *names)
{
    if (!names)
        return;
    hx_vec_free(&names->name);
    hx_vec_free(&names->text);
    free(names);
}

size_t hx_names_bytes(const hx_names *names)
{
    return names->text.n + names->name.n * sizeof *names->name.v;
}

/* Numbers have no gaps: one look. In a store that lies the binary search finds them all the
 * same. */
static const struct name *find_name(const hx_names *names, uint64_t number)
{
    size_t at = HX_FIND_ID(names->name.n, i, names->name.v[i].number, number);
    return at == SIZE_MAX ? NULL : &names->name.v[at];
}

hx_error *hx_names_of(const hx_names *names, uint64_t number, const char **ret, size_t *ret_bytes)
{
    const struct name *name = find_name(names, number);
    if (!name)
        return hx_error_new(HX_E_CORRUPT, "store", "take it from a backup or make it again",
                            "the store is damaged (a number without a name)");
    *ret = name->null ? NULL : name->bytes ? names->text.v + name->at : "";
    *ret_bytes = name->bytes;
    return NULL;
}

size_t hx_names_find(const hx_names *names, const char *text, size_t bytes, uint64_t *ret)
{
    size_t found = 0;
    for (size_t i = 0; i < names->name.n; i++) {
        const struct name *name = &names->name.v[i];
        if (name->null || name->bytes != bytes ||
            (bytes && memcmp(names->text.v + name->at, text, bytes) != 0))
            continue;
        if (!found++)
            *ret = name->number;
    }
    return found;
}

static int compare_texts(const struct name *x, const struct name *y, const char *text)
{
    size_t least = x->bytes < y->bytes ? x->bytes : y->bytes;
    int order = least ? memcmp(text + x->at, text + y->at, least) : 0;
    return order ? order : (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static int compare_stored_names(const void *a, const void *b, void *context)
{
    return compare_texts(*(const struct name *const *)a, *(const struct name *const *)b, context);
}

hx_error *hx_names_ranks(const hx_names *names, uint32_t **ret, size_t *ret_n)
{
    size_t n = names->name.n;
    uint64_t numbers = n ? names->name.v[n - 1].number + 1 : 0;
    if (numbers > 2 * n + 2) /* they have no gaps, but perhaps begin at 1 */
        return hx_error_new(HX_E_CORRUPT, "store", "take it from a backup or make it again",
                            "the store is damaged (numbers of names)");
    uint32_t *rank = calloc(numbers + 1, sizeof *rank);
    const struct name **order = calloc(n + 1, sizeof *order);
    if (!rank || !order) {
        free(rank);
        free(order);
        return hx_error_nomem();
    }
    for (size_t i = 0; i < n; i++)
        order[i] = &names->name.v[i];
    if (n)
        qsort_r(order, n, sizeof *order, compare_stored_names, names->text.v);
    uint32_t at = 0;
    for (size_t i = 0; i < n; i++) {
        at += !i || compare_texts(order[i - 1], order[i], names->text.v) != 0;
        if (!order[i]->null && order[i]->number < numbers)
            rank[order[i]->number] = at;
    }
    free(order);
    *ret = rank;
    *ret_n = numbers;
    return NULL;
}
