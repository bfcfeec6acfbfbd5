/* difference.c - a census as differences between two snapshots. */
#include "store/difference.h"

#include "base/cleanup.h"
#include "store/db.h"
#include "store/query/named.h"
#include "store/store_private.h"

#include <inttypes.h>
#include <string.h>

/* What the statement is made of. */
struct parts {
    const char *const *keys; /* ends with NULL */
    const char *identity;    /* a key that is not shown; NULL: none */
    const char *kept;        /* NULL: none */
    bool counted;            /* there are objects */
    struct hx_text rows[2];  /* of each side: keys, what is kept, bytes and objects */
};

static bool counts_objects(const struct hx_stored_census *census)
{
    return !census->objects || strcmp(census->objects, "NULL") != 0;
}

static void deinit_parts(struct parts *parts)
{
    hx_text_free(&parts->rows[0]);
    hx_text_free(&parts->rows[1]);
}

/* --- the statement --- */

/* "A, B, " */
static void put_keys(const struct parts *parts, struct hx_text *sql)
{
    for (const char *const *key = parts->keys; *key; key++)
        hx_text_putf(sql, "%s, ", *key);
    if (parts->identity)
        hx_text_putf(sql, "%s, ", parts->identity);
}

/* Rows of one side: the figures of the other one are 0, which is what it has of a row that it does
 * not have. */
static void put_side(const struct parts *parts, int side, struct hx_text *sql)
{
    const char *none = parts->counted ? "0" : "NULL";
    hx_text_putf(sql, "SELECT %d AS side, ", side);
    put_keys(parts, sql);
    if (parts->kept)
        hx_text_putf(sql, "%s, ", parts->kept);
    if (side == HX_DIFFERENCE_B)
        hx_text_putf(sql, "0 AS bytes_a, bytes AS bytes_b, %s AS objects_a, objects AS objects_b",
                     none);
    else
        hx_text_putf(sql, "bytes AS bytes_a, 0 AS bytes_b, objects AS objects_a, %s AS objects_b",
                     none);
    hx_text_putf(sql, " FROM (%s)", hx_text_str(&parts->rows[side]));
    sql->failed |= parts->rows[side].failed;
}

/* A sum of which a part is not known is not known. */
static void put_sums(struct hx_text *sql)
{
    static const char *const figures[] = {"bytes_a", "bytes_b", "objects_a", "objects_b"};
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        hx_text_putf(sql, ", CASE WHEN count(*) = count(%s) THEN sum(%s) END AS %s", figures[i],
                     figures[i], figures[i]);
}

/* Both sides in one row for each key, with its status: by bytes, else by objects. */
static void put_rows(const struct parts *parts, struct hx_text *sql)
{
    hx_text_puts(sql, "SELECT ");
    put_keys(parts, sql);
    hx_text_puts(sql,
                 "CASE WHEN NOT in_a THEN 'appeared' WHEN NOT in_b THEN 'gone'"
                 " WHEN bytes_delta IS NULL AND objects_delta IS NULL THEN NULL"
                 " WHEN coalesce(nullif(bytes_delta, 0), objects_delta, 0) > 0 THEN 'grown'"
                 " WHEN coalesce(nullif(bytes_delta, 0), objects_delta, 0) < 0 THEN 'shrunk'"
                 " ELSE 'same' END AS status, bytes_a, bytes_b, bytes_delta, objects_a, objects_b,"
                 " objects_delta, ");
    if (parts->kept)
        hx_text_putf(sql, "%s, ", parts->kept);
    hx_text_puts(sql, "abs(bytes_delta) AS moved, abs(objects_delta) AS objects_moved"
                      " FROM (SELECT *, bytes_b - bytes_a AS bytes_delta,"
                      " objects_b - objects_a AS objects_delta FROM (SELECT ");
    put_keys(parts, sql);
    if (parts->kept)
        hx_text_putf(sql, "max(%s) AS %s, ", parts->kept, parts->kept);
    hx_text_puts(sql, "max(side = 0) AS in_a, max(side = 1) AS in_b");
    put_sums(sql);
    hx_text_puts(sql, " FROM (");
    put_side(parts, HX_DIFFERENCE_A, sql);
    hx_text_puts(sql, " UNION ALL ");
    put_side(parts, HX_DIFFERENCE_B, sql);
    hx_text_puts(sql, ") GROUP BY ");
    for (const char *const *key = parts->keys; *key; key++)
        hx_text_putf(sql, "%s%s", key == parts->keys ? "" : ", ", *key);
    hx_text_putf(sql, "%s%s))", parts->identity ? ", " : "",
                 parts->identity ? parts->identity : "");
}

/* --- of one store --- */

static void put_rows_here(const struct hx_difference_of *of, struct hx_text *sql)
{
    const struct hx_stored_census *census = of->census;
    HX_CLEANUP(deinit_parts)
    struct parts parts = {
        .keys = census->here.name, .kept = census->kept, .counted = counts_objects(census)};
    hx_census_rows_sql(census, of->a, of->below, &parts.rows[HX_DIFFERENCE_A]);
    hx_census_rows_sql(census, of->b, of->below, &parts.rows[HX_DIFFERENCE_B]);
    put_rows(&parts, sql);
}

/* An expression: has the snapshot such rows at all? */
static void put_made(const struct hx_difference_of *of, int64_t snapshot, struct hx_text *sql)
{
    const struct hx_stored_census *census = of->census;
    if (census->made) {
        hx_text_puts(sql, "(");
        hx_query_expand(census->made, HX_QUERY_ARGS(.snapshot = snapshot), sql);
        hx_text_puts(sql, ")");
        return;
    }
    hx_text_puts(sql, "(EXISTS (");
    hx_census_rows_sql(census, snapshot, of->below, sql);
    hx_text_putf(sql,
                 ") OR (SELECT heap_objects FROM hx_snapshot WHERE snapshot = %" PRId64 ") = 0)",
                 snapshot);
}

hx_error *hx_difference_made(hx_store *store, const struct hx_stored_census *census,
                             int64_t snapshot, bool *ret)
{
    HX_CLEANUP(hx_text_free) struct hx_text sql = {0};
    const struct hx_difference_of of = {.census = census};
    hx_text_puts(&sql, "SELECT ");
    put_made(&of, snapshot, &sql);
    HX_NEED(!sql.failed);
    hx_rows *rows;
    HX_TRY(hx_query_sql(store, hx_text_str(&sql), &rows));
    bool more;
    hx_error *err = hx_rows_next(rows, &more);
    if (!err)
        *ret = more && hx_rows_value(rows, 0).i == 1;
    hx_rows_end(rows);
    return err;
}

/* An expression: what both have to share; NULL where that is nothing. */
static void put_kind(enum hx_alike alike, int64_t snapshot, struct hx_text *sql)
{
    if (alike == HX_ALIKE_SCHEME)
        hx_text_putf(sql,
                     "(SELECT scheme || ' ' || coalesce(threads_as, '') ||"
                     " iif(holders, coalesce(rules, 'on'), 'off') FROM hx_census"
                     " WHERE snapshot = %" PRId64 ")",
                     snapshot);
    else if (alike == HX_ALIKE_ROOTS)
        hx_text_putf(sql,
                     "(SELECT group_concat(name, '+') FROM (SELECT name FROM hx_named"
                     " WHERE snapshot = %" PRId64 " ORDER BY position))",
                     snapshot);
    else
        hx_text_puts(sql, "NULL");
}

/* A condition: rows of the one are rows of the other. */
static void put_comparable(const struct hx_difference_of *of, struct hx_text *sql)
{
    enum hx_alike alike = of->census->alike;
    put_made(of, of->a, sql);
    hx_text_puts(sql, " AND ");
    put_made(of, of->b, sql);
    if (alike == HX_ALIKE_ANYWAY)
        return;
    hx_text_puts(sql, " AND ");
    put_kind(alike, of->a, sql);
    hx_text_puts(sql, " IS ");
    put_kind(alike, of->b, sql);
}

void hx_difference_sql(const struct hx_difference_of *of, struct hx_text *sql)
{
    hx_text_putf(sql, "SELECT d.*%s FROM (", of->census->more ? of->census->more : "");
    put_rows_here(of, sql);
    hx_text_puts(sql, ") AS d WHERE ");
    put_comparable(of, sql);
}

void hx_difference_facts_sql(const struct hx_difference_of *of, struct hx_text *sql)
{
    static const char *const states[] = {"appeared", "gone", "grown", "shrunk", "same"};
    const struct hx_stored_census *census = of->census;
    const char *counts = !counts_objects(census) ? "NULL"
                         : census->counts        ? census->counts
                                                 : "heap_objects";
    hx_text_puts(sql, "SELECT count(*) AS rows, sum(moved) AS moved");
    for (size_t i = 0; i < sizeof states / sizeof *states; i++)
        hx_text_putf(sql, ", sum(status = '%s') AS %s", states[i], states[i]);
    for (int i = 0; i < 2; i++) {
        int64_t number = i ? of->b : of->a;
        const char *side = i ? "b" : "a";
        hx_text_putf(sql, ", %" PRId64 " AS snapshot_%s, ", number, side);
        put_made(of, number, sql);
        hx_text_putf(sql, " AS made_%s, ", side);
        put_kind(census->alike, number, sql);
        hx_text_putf(sql,
                     " AS kind_%s, (SELECT %s FROM hx_snapshot WHERE snapshot = %" PRId64
                     ") AS total_%s, (SELECT %s FROM hx_snapshot WHERE snapshot = %" PRId64
                     ") AS objects_%s",
                     side, census->moved ? census->moved : census->total, number, side, counts,
                     number, side);
    }
    hx_text_puts(sql, " FROM (");
    put_rows_here(of, sql);
    hx_text_puts(sql, ") WHERE ");
    put_comparable(of, sql);
}

/* --- of any two snapshots --- */

#define TABLE "temp.hx_compared"

/* "A, B, identity" */
static void put_table_keys(const struct hx_stored_census *census, struct hx_text *sql)
{
    for (const char *const *key = census->across.name; *key; key++)
        hx_text_putf(sql, "%s, ", *key);
    hx_text_puts(sql, "identity");
}

static size_t table_columns(const struct hx_stored_census *census)
{
    size_t n = 4; /* side, identity, bytes, objects */
    for (const char *const *key = census->across.name; *key; key++)
        n++;
    return n;
}

/* Without types, so that values stay as they are. */
hx_error *hx_difference_begin(const struct hx_difference *difference)
{
    HX_CLEANUP(hx_text_free) struct hx_text sql = {0};
    hx_text_puts(&sql, "DROP TABLE IF EXISTS " TABLE "; CREATE TABLE " TABLE " (side, ");
    put_table_keys(difference->census, &sql);
    hx_text_puts(&sql, ", bytes, objects)");
    HX_NEED(!sql.failed);
    return hx_db_exec(difference->store->db, difference->store->path, hx_text_str(&sql));
}

static hx_error *prepare_insert(const struct hx_difference *difference, const char *where,
                                sqlite3_stmt **ret)
{
    HX_CLEANUP(hx_text_free) struct hx_text sql = {0};
    hx_text_puts(&sql, "INSERT INTO " TABLE " SELECT ?1");
    for (size_t i = 2; i <= table_columns(difference->census); i++)
        hx_text_putf(&sql, ", ?%zu", i);
    hx_text_puts(&sql, where);
    HX_NEED(!sql.failed);
    return hx_db_prepare(difference->store->db, difference->store->path, hx_text_str(&sql), ret);
}

/* Rows of a statement that has the columns of the table but `side`. */
static hx_error *insert_rows(const struct hx_difference *difference, int side, hx_store *from,
                             sqlite3_stmt *rows, sqlite3_stmt *insert, uint64_t *ret_rows)
{
    int n = (int)table_columns(difference->census) - 1;
    *ret_rows = 0;
    for (int code; (code = sqlite3_step(rows)) != SQLITE_DONE; ++*ret_rows) {
        if (code != SQLITE_ROW)
            return hx_db_error(from->db, code, from->path);
        sqlite3_bind_int(insert, 1, side);
        for (int i = 0; i < n; i++)
            if (sqlite3_bind_value(insert, i + 2, sqlite3_column_value(rows, i)) != SQLITE_OK)
                return hx_error_nomem();
        if (difference->census->numbered && difference->two_stores)
            sqlite3_bind_null(insert, 2);
        HX_TRY(hx_db_run(difference->store->db, difference->store->path, insert));
    }
    return NULL;
}

static hx_error *add_rows(const struct hx_difference *difference, int side, hx_store *from,
                          const struct hx_text *sql, const char *where, uint64_t *ret_rows)
{
    HX_STATEMENT sqlite3_stmt *rows = NULL;
    HX_STATEMENT sqlite3_stmt *insert = NULL;
    hx_store *store = difference->store;
    HX_NEED(!sql->failed);
    HX_TRY(prepare_insert(difference, where, &insert));
    HX_TRY(hx_query_prepare(from, sql->s, NULL, &rows));
    HX_TRY(hx_db_exec(store->db, store->path, "BEGIN"));
    hx_error *error = insert_rows(difference, side, from, rows, insert, ret_rows);
    sqlite3_reset(rows);
    sqlite3_reset(insert);
    return hx_db_end(store->db, store->path, error);
}

/* The columns of the table over rows x; ends with "FROM". */
static void put_across(const struct hx_stored_census *census, const char *bytes,
                       const char *objects, struct hx_text *sql)
{
    hx_text_putf(sql, "SELECT %s, %s AS identity, %s AS bytes, %s AS objects FROM ",
                 census->across.sql, census->identity ? census->identity : "NULL", bytes, objects);
}

hx_error *hx_difference_add(const struct hx_difference *difference, int side, hx_store *from,
                            int64_t snapshot, uint64_t *ret_rows)
{
    HX_CLEANUP(hx_text_free) struct hx_text sql = {0};
    hx_census_rows_across_sql(difference->census, snapshot, &sql);
    return add_rows(difference, side, from, &sql, "", ret_rows);
}

struct chosen {
    hx_difference_chosen_fn *chosen;
    void *context;
};

static void sql_chosen(sqlite3_context *context, int n, sqlite3_value **argv)
{
    const struct chosen *chosen = sqlite3_user_data(context);
    (void)n;
    sqlite3_result_int(context,
                       chosen->chosen(chosen->context, (uint64_t)sqlite3_value_int64(argv[0])));
}

/* Of each key the objects are added up before its labels are looked up. */
static void put_objects(const struct hx_stored_census *census, int64_t snapshot,
                        struct hx_text *sql)
{
    put_across(census, "x.bytes", "x.objects", sql);
    hx_text_putf(sql,
                 "(SELECT %s, sum(bytes) AS bytes, count(*) AS objects FROM objects"
                 " WHERE snapshot = %" PRId64 " AND hx_chosen(address)%s GROUP BY 1",
                 census->objects_are, snapshot,
                 census->lost ? " AND state IN ('definite', 'indirect', 'possible')" : "");
    int n = 1;
    for (const char *comma = census->objects_are; (comma = strstr(comma, ", ")); comma++)
        hx_text_putf(sql, ", %d", ++n);
    hx_text_puts(sql, ") AS x");
}

hx_error *hx_difference_add_objects(const struct hx_difference *difference, int side,
                                    hx_store *from, int64_t snapshot,
                                    hx_difference_chosen_fn *chosen, void *context)
{
    struct chosen user = {chosen, context};
    HX_CLEANUP(hx_text_free) struct hx_text sql = {0};
    uint64_t rows;
    if (sqlite3_create_function_v2(from->db, "hx_chosen", 1, SQLITE_UTF8, &user, sql_chosen, NULL,
                                   NULL, NULL) != SQLITE_OK)
        return hx_error_nomem();
    put_objects(difference->census, snapshot, &sql);
    hx_error *error = add_rows(difference, side, from, &sql, "", &rows);
    sqlite3_create_function_v2(from->db, "hx_chosen", 1, SQLITE_UTF8, NULL, NULL, NULL, NULL, NULL);
    return error;
}

/* Addresses that the side has no row of: "1, 2, 3". */
static hx_error *list_missing(const struct hx_difference *difference, int side,
                              struct hx_text *list)
{
    hx_store *store = difference->store;
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(store->db, store->path,
                         "SELECT group_concat(address, ', ') FROM (SELECT address FROM " TABLE
                         " GROUP BY address, type HAVING max(side = ?1) = 0)",
                         &st));
    sqlite3_bind_int(st, 1, side);
    int code = sqlite3_step(st);
    if (code != SQLITE_ROW)
        return hx_db_error(store->db, code, store->path);
    const char *found = (const char *)sqlite3_column_text(st, 0);
    hx_text_puts(list, found ? found : "");
    return NULL;
}

/* What is found is there, only small; what nothing keeps alive retains nothing. */
hx_error *hx_difference_add_missing(const struct hx_difference *difference, int side,
                                    hx_store *from, int64_t snapshot)
{
    const struct hx_stored_census *census = difference->census;
    HX_CLEANUP(hx_text_free) struct hx_text list = {0}, sql = {0};
    uint64_t rows;
    HX_TRY(hx_db_exec(difference->store->db, difference->store->path,
                      "CREATE INDEX IF NOT EXISTS temp.hx_compared_address"
                      " ON hx_compared(address)"));
    HX_TRY(list_missing(difference, side, &list));
    put_across(census, census->bytes, census->objects, &sql);
    hx_text_putf(&sql, "objects AS x WHERE x.snapshot = %" PRId64 " AND x.address IN (", snapshot);
    hx_text_puts(&sql, hx_text_str(&list));
    hx_text_putf(&sql, ") AND %s IS NOT NULL", census->bytes);
    sql.failed |= list.failed;
    return add_rows(difference, side, from, &sql,
                    " WHERE EXISTS (SELECT 1 FROM " TABLE " AS c WHERE c.address = ?2"
                    " AND c.type IS ?3) AND NOT EXISTS (SELECT 1 FROM " TABLE
                    " AS c WHERE c.address = ?2 AND c.type IS ?3 AND c.side = ?1)",
                    &rows);
}

static void put_table_differences(const struct hx_difference *difference, struct hx_text *sql)
{
    const struct hx_stored_census *census = difference->census;
    HX_CLEANUP(deinit_parts)
    struct parts parts = {
        .keys = census->across.name, .identity = "identity", .counted = counts_objects(census)};
    for (int side = HX_DIFFERENCE_A; side <= HX_DIFFERENCE_B; side++) {
        hx_text_puts(&parts.rows[side], "SELECT ");
        put_table_keys(census, &parts.rows[side]);
        hx_text_putf(&parts.rows[side], ", bytes, objects FROM " TABLE " WHERE side = %d", side);
    }
    put_rows(&parts, sql);
}

hx_error *hx_difference_rows(const struct hx_difference *difference,
                             const struct hx_selection *selection, hx_rows **ret)
{
    HX_CLEANUP(hx_text_free) struct hx_text sql = {0};
    struct hx_selection ordered = *selection;
    const char *key[6] = {NULL};
    size_t n = 0;
    for (; difference->census->across.name[n]; n++)
        key[n] = difference->census->across.name[n];
    key[n] = "identity";
    ordered.then = "objects_moved";
    ordered.key = key;
    put_table_differences(difference, &sql);
    HX_NEED(!sql.failed);
    return hx_query_select(difference->store, sql.s, &ordered, ret);
}
