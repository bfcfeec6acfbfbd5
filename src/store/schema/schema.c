/* schema.c - views, and the statements that make and lay over tables.
 *
 * A new store is made from the tables of tables.h; one of an older schema goes the steps of
 * steps.c, which end with the same words. Views hold nothing: both make all of them anew. */
#include "store/schema/schema.h"

#include "base/text.h"
#include "store/db.h"
#include "store/schema/mprof_sql.h"
#include "store/store.h"

#include <string.h>

/* clang-format off */
#define TREE(kind)                                                                                 \
    "SELECT s.snapshot AS snapshot, t.node AS node, t.parent AS parent, t.depth AS depth,"         \
    " t.label AS label, t.bytes AS bytes, t.objects AS objects,"                                   \
    " t.retained_bytes AS retained_bytes FROM hx_snapshot AS s CROSS JOIN hx_tree AS t"            \
    " ON t.snapshot = " HX_WHOSE("s.snapshot", kind) " AND t.kind = " kind

#define FINISHED " WHERE snapshot IN (SELECT snapshot FROM hx_snapshot)"

static const struct public_view {
    int since; /* schema */
    const char *name, *select;
} views[] = {
    {1, "snapshots",
     "SELECT snapshot, taken_at, pid, comm, exe, pause_us, method,"
     " allocator, heap_bytes, heap_objects, reachable_bytes, reachable_objects, leaked_bytes,"
     " leaked_objects, free_bytes, overhead_bytes, rss_bytes, scheme, complete, notes,"
     " stray_edges, doubt_bytes, rtrim(iif(parts & 8, 'holders ', '') ||"
     " iif(parts & 1, 'sets ', '') || iif(parts & 2, 'bins ', '') ||"
     " iif(parts & 4, 'dominators ', '') || iif(parts & 16, 'sure ', '') ||"
     " iif(parts & 32, 'types ', '') || iif(parts & 35 = 35, 'pages', '')) AS analysed, typed_bytes,"
     " prepare_us, held_us"
     " FROM hx_snapshot"},
    {1, "account",
     "SELECT snapshot, part, bytes FROM hx_account" FINISHED},
    {1, "roots",
     "SELECT snapshot, root_id, kind_name AS kind, name, module, address,"
     " size, direct_objects, retained_bytes, symbol FROM hx_root" FINISHED},
    {1, "leaks",
     "SELECT l.snapshot AS snapshot, l.kind AS kind, l.type AS type,"
     " coalesce(t.label, l.site) AS site, sum(l.bytes) AS bytes, sum(l.objects) AS objects"
     " FROM hx_leak AS l LEFT JOIN hx_stack AS t ON t.stack_id = l.stack_id" FINISHED
     " GROUP BY 1, 2, 3, 4"},
    {11, "allocators",
     "SELECT snapshot, name AS allocator, version, evidence,"
     " CAST(walked_bytes AS REAL) / nullif(claimed_bytes, 0) AS coverage, bytes, objects,"
     " free_bytes, cached_bytes, overhead_bytes FROM hx_allocator" FINISHED},
    {1, "losses",
     "SELECT snapshot, what, count, bytes, address FROM hx_loss" FINISHED},

    {2, "censuses",
     "SELECT snapshot, scheme, max_set, holders, threads_as, visits_per_object, total_bytes, sets"
     " FROM hx_census" FINISHED},
    /* members lie in the order of their labels; the join's order keeps it */
    {2, "retainers",
     "SELECT snapshot, set_id,"
     " CASE set_id WHEN 0 THEN 0 WHEN 1 THEN NULL"
     " ELSE (SELECT s.members FROM hx_set AS s WHERE s.set_id = hx_retention.set_id)"
     " END AS members,"
     " set_id = 1 AS many,"
     " CASE set_id WHEN 0 THEN '(unreachable)' WHEN 1 THEN 'MANY'"
     " ELSE (SELECT group_concat(label, ', ') FROM"
     " (SELECT r.label AS label FROM hx_set_member AS m CROSS JOIN hx_retainer AS r"
     " ON r.retainer = m.retainer"
     " WHERE m.set_id = hx_retention.set_id ORDER BY m.position))"
     " END AS label,"
     " bytes, objects FROM hx_retention" FINISHED},
    {2, "retainer_members",
     "SELECT m.set_id AS set_id, m.position AS position, r.kind AS kind, r.label AS label,"
     " r.module AS module, r.symbol AS symbol"
     " FROM hx_set_member AS m CROSS JOIN hx_retainer AS r ON r.retainer = m.retainer"
     " WHERE EXISTS (SELECT 1 FROM hx_retention AS x WHERE x.set_id = m.set_id)"},
    {2, "bins",
     "SELECT snapshot, roots, bytes, objects FROM hx_bin" FINISHED " AND objects > 0"},
    {2, "types",
     "SELECT snapshot, coalesce(name, '(unknown)') AS type, confidence, bytes, objects,"
     " retained_bytes, symbol, source FROM hx_type" FINISHED
     " AND (objects > 0 OR (objects IS NULL AND bytes IS NOT NULL))"},
    {2, "dominators",
     "SELECT s.snapshot AS snapshot, d.address AS address, d.type AS type, d.bytes AS bytes,"
     " d.retained_bytes AS retained_bytes, d.retained_objects AS retained_objects,"
     " d.sure_retained_bytes AS sure_retained_bytes,"
     " d.sure_retained_objects AS sure_retained_objects, d.parent AS parent"
     " FROM hx_snapshot AS s CROSS JOIN hx_dominator AS d"
     " ON d.snapshot = " HX_WHOSE("s.snapshot", "'dominators'")},
    {2, "pages",
     "SELECT snapshot, census,"
     " CASE census"
     " WHEN 'bin' THEN (SELECT b.roots FROM hx_bin AS b"
     " WHERE b.snapshot = hx_page.snapshot AND b.bin = hx_page.key)"
     " WHEN 'type' THEN (SELECT coalesce(t.name, '(unknown)') FROM hx_type AS t"
     " WHERE t.snapshot = hx_page.snapshot AND t.type = hx_page.key)"
     " ELSE key END AS key,"
     " only_pages, shared_pages FROM hx_page" FINISHED},

    {3, "ccs",
     "SELECT c.ccs_id AS ccs_id, c.parent_id AS parent_id, c.depth AS depth, k.label AS label,"
     " k.module AS module, k.source AS source, k.is_caf AS is_caf, k.symbol AS symbol"
     " FROM hx_ccs AS c CROSS JOIN hx_centre AS k ON k.centre = c.centre"},
    {3, "costs",
     "SELECT snapshot, ccs_id, entries, alloc_bytes, alloc_objects, freed_bytes,"
     " freed_objects, live_bytes, live_objects, inherited_alloc_bytes, inherited_alloc_objects,"
     " inherited_live_bytes, inherited_live_objects FROM hx_cost" FINISHED},
    {3, "estimates",
     "SELECT e.snapshot AS snapshot, e.ccs_id AS ccs_id, c.alloc_bytes AS alloc_bytes,"
     " e.alloc_error_bytes AS alloc_error_bytes, c.live_bytes AS live_bytes,"
     " e.live_error_bytes AS live_error_bytes FROM hx_estimate AS e CROSS JOIN hx_cost AS c"
     " ON c.snapshot = e.snapshot AND c.ccs_id = e.ccs_id"
     " WHERE e.snapshot IN (SELECT snapshot FROM hx_snapshot)"},
    {3, "sites",
     "SELECT snapshot, ccs_id, bytes, objects, retained_bytes FROM hx_site" FINISHED},
    {3, "stacks",
     "SELECT c.snapshot AS snapshot, c.stack_id AS stack_id, a.ccs_id AS ccs_id,"
     " c.alloc_bytes AS alloc_bytes, c.alloc_objects AS alloc_objects,"
     " c.freed_bytes AS freed_bytes, c.freed_objects AS freed_objects,"
     " c.live_bytes AS live_bytes, c.live_objects AS live_objects, s.bytes AS bytes,"
     " s.objects AS objects, t.label AS site"
     " FROM hx_stack_cost AS c JOIN hx_stack AS t ON t.stack_id = c.stack_id"
     " LEFT JOIN hx_attributed AS a ON a.stack_id = c.stack_id"
     " LEFT JOIN hx_stack_site AS s ON s.snapshot = c.snapshot AND s.stack_id = c.stack_id"
     " WHERE c.snapshot IN (SELECT snapshot FROM hx_snapshot)"},
    {3, "modules",
     "SELECT s.snapshot AS snapshot, coalesce(t.module, '(unknown)') AS module,"
     " sum(s.bytes) AS bytes, sum(s.objects) AS objects"
     " FROM hx_stack_site AS s LEFT JOIN hx_stack AS t ON t.stack_id = s.stack_id" FINISHED
     " GROUP BY 1, 2"
     " UNION ALL SELECT snapshot, name, bytes, objects FROM hx_module" FINISHED},

    {4, "frames",
     "SELECT f.frame_id AS frame_id, f.parent_id AS parent_id, f.depth AS depth,"
     " p.label AS label, p.module AS module, p.source AS source"
     " FROM hx_frame AS f CROSS JOIN hx_place AS p ON p.place = f.place"},
    {4, "threads",
     "SELECT h.snapshot AS snapshot, h.tid AS tid, h.name AS name, h.stack_id AS stack_id,"
     " a.ccs_id AS ccs_id, t.label AS stack FROM hx_thread AS h"
     " LEFT JOIN hx_attributed AS a ON a.stack_id = h.stack_id"
     " LEFT JOIN hx_stack AS t ON t.stack_id = h.stack_id"
     " WHERE h.snapshot IN (SELECT snapshot FROM hx_snapshot)"},
    HX_MPROF_VIEWS

    {6, "biography",
     "SELECT snapshot, phase, bytes, objects FROM hx_biography" FINISHED},

    {8, "holders",
     "SELECT snapshot, name AS holder, kind, module, symbol, bytes, objects, alone_bytes,"
     " contested_bytes, entries FROM hx_holding" FINISHED " AND objects > 0"},
    {8, "shapes",
     "SELECT snapshot, coalesce(label, '(unknown)') AS shape, bytes, objects FROM hx_shape" FINISHED
     " AND objects > 0"},
    {8, "tree",
     TREE("'dominator'")},
    {8, "holder_tree",
     TREE("'holder'")},
    {8, "retainer_entries",
     "SELECT snapshot, set_id, position, entries, alike, doubt FROM hx_entry" FINISHED},
};
/* clang-format on */

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* --- statements -------------------------------------------------------------------- */

static void put_table(struct hx_text *sql, const struct hx_table_info *table, const char *temp)
{
    static const char *const types[] = {
        [HX_INTEGER] = "INTEGER", [HX_REAL] = "REAL", [HX_TEXT] = "TEXT",
        [HX_NAME] = "TEXT",       [HX_BLOB] = "BLOB",
    };
    const char *quote = table->quoted ? "\"" : "";
    hx_text_putf(sql, "CREATE %sTABLE %s%s%s(", temp, quote, table->name, quote);
    for (const struct hx_column_info *column = table->column; column->name; column++)
        hx_text_putf(sql, "%s%s %s%s%s", column == table->column ? "" : ", ", column->name,
                     types[column->type], *column->constraint ? " " : "", column->constraint);
    if (table->unique)
        hx_text_putf(sql, ", UNIQUE(%s)", table->unique);
    if (table->primary_key)
        hx_text_putf(sql, ", PRIMARY KEY(%s)", table->primary_key);
    hx_text_puts(sql, table->primary_key ? ") WITHOUT ROWID;\n" : ");\n");
}

static void put_in_memory(struct hx_text *sql, const struct hx_table_info *table)
{
    hx_text_putf(sql, "CREATE VIRTUAL TABLE temp.%s USING " HX_CCS_OVERLAY_MODULE "(%s);\n",
                 table->name, table->name);
}

static void put_index(struct hx_text *sql, const struct hx_table_info *table, const char *schema)
{
    if (table->index)
        hx_text_putf(sql, "CREATE %sINDEX %s%s;\n", table->index_is_unique ? "UNIQUE " : "", schema,
                     table->index);
}

static void put_view(struct hx_text *sql, const struct public_view *view, const char *how)
{
    hx_text_putf(sql, "CREATE %s %s AS %s;\n", how, view->name, view->select);
}

static void put_views(struct hx_text *sql, const char *how)
{
    for (size_t i = 0; i < COUNT(views); i++)
        put_view(sql, &views[i], how);
}

/* Runs and frees the text. */
static hx_error *run_schema_sql(sqlite3 *db, const char *what, struct hx_text *sql)
{
    hx_error *err = sql->failed ? hx_error_nomem() : hx_db_exec(db, what, hx_text_str(sql));
    hx_text_free(sql);
    return err;
}

static void put_version(struct hx_text *sql)
{
    hx_text_putf(sql, "PRAGMA user_version = %d;\n", HX_STORE_SCHEMA);
}

hx_error *hx_schema_create(sqlite3 *db, const char *what)
{
    struct hx_text sql = {0};
    hx_text_putf(&sql, "PRAGMA application_id = %d;\n", HX_STORE_APPLICATION_ID);
    for (size_t i = 0; i < HX_TABLES; i++) {
        put_table(&sql, &hx_tables[i], "");
        put_index(&sql, &hx_tables[i], "");
    }
    put_views(&sql, "VIEW");
    put_version(&sql);
    return run_schema_sql(db, what, &sql);
}

void hx_schema_migration(int version, struct hx_text *sql)
{
    for (size_t i = 0; i < COUNT(views); i++)
        if (views[i].since <= version)
            hx_text_putf(sql, "DROP VIEW %s;\n", views[i].name);
    for (int v = version + 1; v <= HX_STORE_SCHEMA; v++)
        hx_text_puts(sql, hx_schema_step(v));
    put_views(sql, "VIEW");
    put_version(sql);
}

static bool is_overlaid(sqlite3 *db, const struct hx_table_info *table)
{
    return sqlite3_table_column_metadata(db, "temp", table->name, NULL, NULL, NULL, NULL, NULL,
                                         NULL) == SQLITE_OK;
}

static hx_error *run_overlay(sqlite3 *db, const char *what, struct hx_text *sql)
{
    hx_text_puts(sql, "COMMIT;\n");
    hx_error *err = run_schema_sql(db, what, sql);
    return err ? hx_db_end(db, what, err) : NULL;
}

/* What is there keeps what it holds. */
static hx_error *make_overlay(sqlite3 *db, const char *what, unsigned kind, const char *then)
{
    struct hx_text sql = {0};
    hx_text_puts(&sql, "BEGIN;\n");
    for (size_t i = 0; i < HX_TABLES; i++) {
        const struct hx_table_info *table = &hx_tables[i];
        if (!(table->overlaid & kind) || is_overlaid(db, table))
            continue;
        if (table->overlaid & HX_IN_MEMORY) {
            put_in_memory(&sql, table);
            continue;
        }
        put_table(&sql, table, "TEMP ");
        if (!(kind & HX_ATTRIBUTED))
            put_index(&sql, table, "temp.");
        if (table->overlaid & kind & ~(unsigned)HX_ATTRIBUTED && !(table->overlaid & HX_JOINED))
            hx_text_putf(&sql, "INSERT INTO temp.%s SELECT * FROM main.%s;\n", table->name,
                         table->name);
    }
    put_views(&sql, "TEMP VIEW IF NOT EXISTS");
    hx_text_puts(&sql, then);
    return run_overlay(db, what, &sql);
}

hx_error *hx_schema_overlay(sqlite3 *db, const char *what, enum hx_overlaid kind)
{
    return make_overlay(db, what, kind, "");
}

hx_error *hx_schema_overlay_attribution(sqlite3 *db, const char *what)
{
    struct hx_text sql = {0};
    for (size_t i = 0; i < HX_TABLES; i++)
        if (hx_tables[i].overlaid & HX_ATTRIBUTED)
            hx_text_putf(&sql, "DROP TABLE IF EXISTS temp.%s;\n", hx_tables[i].name);
    HX_TRY(run_schema_sql(db, what, &sql));
    return make_overlay(db, what, HX_ATTRIBUTED | HX_PAGES,
                        "DELETE FROM temp.hx_page WHERE census = 'site';\n");
}

hx_error *hx_schema_index_attribution(sqlite3 *db, const char *what)
{
    struct hx_text sql = {0};
    for (size_t i = 0; i < HX_TABLES; i++)
        if (hx_tables[i].overlaid & HX_ATTRIBUTED && !(hx_tables[i].overlaid & HX_IN_MEMORY))
            put_index(&sql, &hx_tables[i], "temp.");
    hx_text_puts(&sql, "SELECT 1");
    return run_schema_sql(db, what, &sql);
}

static const struct hx_table_info *find_table(const char *name)
{
    for (size_t i = 0; i < HX_TABLES; i++)
        if (strcmp(hx_tables[i].name, name) == 0)
            return &hx_tables[i];
    return NULL;
}

int hx_schema_number(const char *name)
{
    const struct hx_table_info *table = find_table(name);
    return table && !(table->overlaid & HX_JOINED) ? (int)(table - hx_tables) : -1;
}

hx_error *hx_schema_drop_index(sqlite3 *db, const char *what, const char *name)
{
    const struct hx_table_info *table = find_table(name);
    struct hx_text sql = {0};
    if (table && table->index)
        hx_text_putf(&sql, "DROP INDEX IF EXISTS main.%.*s;\n", (int)strcspn(table->index, " "),
                     table->index);
    hx_text_puts(&sql, "SELECT 1");
    return run_schema_sql(db, what, &sql);
}

hx_error *hx_schema_make_index(sqlite3 *db, const char *what, const char *name)
{
    const struct hx_table_info *table = find_table(name);
    struct hx_text sql = {0};
    if (table)
        put_index(&sql, table, "main.");
    hx_text_puts(&sql, "SELECT 1");
    return run_schema_sql(db, what, &sql);
}

hx_error *hx_schema_drop_attribution(sqlite3 *db, const char *what)
{
    struct hx_text sql = {0};
    hx_text_puts(&sql, "BEGIN;\n");
    for (size_t i = 0; i < COUNT(views); i++)
        hx_text_putf(&sql, "DROP VIEW IF EXISTS temp.%s;\n", views[i].name);
    for (size_t i = 0; i < HX_TABLES; i++)
        if (hx_tables[i].overlaid & (HX_ATTRIBUTED | HX_PAGES))
            hx_text_putf(&sql, "DROP TABLE IF EXISTS temp.%s;\n", hx_tables[i].name);
    return run_overlay(db, what, &sql);
}

/* --- what a file is ---------------------------------------------------------------- */

hx_error *hx_schema_foreign(const char *what, const char *why)
{
    return hx_error_new(HX_E_CORRUPT, what, "give a file made by heapx, or a new name",
                        "not a heapx store: %s", why);
}

hx_error *hx_schema_newer(const char *what, long version)
{
    return hx_error_new(HX_E_CORRUPT, what, "use that heapx, or update this one",
                        "made by a newer heapx (schema %ld, this one knows up to %d)", version,
                        HX_STORE_SCHEMA);
}

/* --- what it has to hold --------------------------------------------------------------- */

/* `sql` is one statement with ";\n" behind it, which sqlite_schema has not. Clears it. */
static hx_error *expect(sqlite3 *db, const char *what, sqlite3_stmt *insert, const char *type,
                        const char *name, const char *of, struct hx_text *sql)
{
    sqlite3_bind_text(insert, 1, type, -1, SQLITE_STATIC);
    sqlite3_bind_text(insert, 2, name, (int)strcspn(name, " "), SQLITE_STATIC);
    sqlite3_bind_text(insert, 3, of, -1, SQLITE_STATIC);
    sqlite3_bind_text(insert, 4, hx_text_str(sql), sql->failed ? 0 : (int)sql->n - 2,
                      SQLITE_TRANSIENT);
    hx_error *err = sql->failed ? hx_error_nomem() : hx_db_run(db, what, insert);
    hx_text_clear(sql);
    return err;
}

static hx_error *expect_tables(sqlite3 *db, const char *what, sqlite3_stmt *insert,
                               struct hx_text *sql)
{
    for (size_t i = 0; i < HX_TABLES; i++) {
        const struct hx_table_info *table = &hx_tables[i];
        put_table(sql, table, "");
        HX_TRY(expect(db, what, insert, "table", table->name, table->name, sql));
        put_index(sql, table, "");
        if (table->index)
            HX_TRY(expect(db, what, insert, "index", table->index, table->name, sql));
    }
    return hx_db_exec(db, what,
                      "INSERT INTO expected SELECT 'index', 'sqlite_autoindex_' || name || '_1',"
                      " name, NULL, 0 FROM expected WHERE sql LIKE '%UNIQUE(%'");
}

static hx_error *expect_views(sqlite3 *db, const char *what, int version, sqlite3_stmt *insert,
                              struct hx_text *sql)
{
    for (size_t i = 0; i < COUNT(views); i++)
        if (views[i].since <= version) {
            put_view(sql, &views[i], "VIEW");
            HX_TRY(expect(db, what, insert, "view", views[i].name, views[i].name, sql));
        }
    return NULL;
}

hx_error *hx_schema_expect(sqlite3 *db, const char *what, int version)
{
    HX_STATEMENT sqlite3_stmt *insert = NULL;
    struct hx_text sql = {0};
    for (int v = 1; v <= version && version < HX_STORE_SCHEMA; v++)
        HX_TRY(hx_db_exec(db, what, hx_schema_step(v)));
    HX_TRY(hx_db_exec(db, what,
                      "CREATE TEMP TABLE expected AS SELECT type, name, tbl_name, sql,"
                      " 0 AS optional FROM main.sqlite_schema"));
    HX_TRY(hx_db_prepare(db, what, "INSERT INTO expected VALUES(?, ?, ?, ?, 0)", &insert));
    hx_error *err = NULL;
    if (version == HX_STORE_SCHEMA)
        err = expect_tables(db, what, insert, &sql);
    if (!err)
        err = expect_views(db, what, version, insert, &sql);
    hx_text_free(&sql);
    return err;
}
