/* schema.c - tables, views, and the steps from one schema to the next.
 *
 * A table is written down once, in the words of the schema that brought it; what later ones change
 * of it are ALTERs, and what they move into tables of their own are statements behind these. A new
 * store goes the same way as an old one that is brought up to date, so that both end the same.
 * Views hold nothing: each step makes all of them anew. */
#include "store/schema/schema.h"

#include "base/text.h"
#include "store/cost/attribute.h"
#include "store/db.h"
#include "store/cost/attribution_tables.h"
#include "store/schema/mprof_sql.h"
#include "store/schema/rename.h"
#include "store/store.h"

#include <string.h>

struct table {
    int since; /* schema */
    const char *name, *columns;
    const char *index; /* "NAME ON TABLE(...)"; NULL: none */
    bool unique;       /* the index is */
    bool rowid;
    enum {
        STAYS = 0,
        OVERLAID = 1,       /* hx_schema_overlay(): with what the file's own holds */
        OVERLAID_EMPTY = 2, /* hx_schema_overlay(): empty */
        ATTRIBUTED = 4,     /* hx_schema_overlay_attribution(): empty */
        PAGES = 8,          /* the same: but for the census of sites */
        LAID = 16,          /* with ATTRIBUTED: in memory (attribution_tables.h) */
        SUPPRESSED = 32,    /* hx_schema_overlay_leaks(): with what is shown now */
    } overlay;
};

/* clang-format off */
static const struct table tables[] = {
    {1, "hx_snapshot",
     "snapshot INTEGER PRIMARY KEY, taken_at_ns INTEGER NOT NULL,"
     " taken_at TEXT NOT NULL, pid INTEGER, comm TEXT, exe TEXT, pause_us INTEGER, method TEXT,"
     " allocator TEXT, heap_bytes INTEGER, heap_objects INTEGER, reachable_bytes INTEGER,"
     " reachable_objects INTEGER, leaked_bytes INTEGER, leaked_objects INTEGER,"
     " free_bytes INTEGER, overhead_bytes INTEGER, rss_bytes INTEGER, scheme TEXT,"
     " interior INTEGER NOT NULL, complete INTEGER NOT NULL, notes TEXT",
     NULL, false, true, OVERLAID | SUPPRESSED},
    {1, "hx_account",
     "snapshot INTEGER, position INTEGER, part TEXT, bytes INTEGER,"
     " PRIMARY KEY(snapshot, position)",
     NULL, false, false, STAYS},
    {1, "hx_root",
     "snapshot INTEGER, root_id INTEGER, kind INTEGER, kind_name TEXT,"
     " name TEXT, module TEXT, address INTEGER, size INTEGER, direct_objects INTEGER,"
     " value INTEGER, tid INTEGER, PRIMARY KEY(snapshot, root_id)",
     NULL, false, false, OVERLAID},
    {1, "hx_leak",
     "snapshot INTEGER, kind TEXT, type TEXT, site TEXT, bytes INTEGER,"
     " objects INTEGER",
     "hx_leak_snapshot ON hx_leak(snapshot)", false, true, SUPPRESSED},
    {1, "hx_loss",
     "snapshot INTEGER, what TEXT, count INTEGER, bytes INTEGER,"
     " address INTEGER",
     "hx_loss_snapshot ON hx_loss(snapshot)", false, true, STAYS},
    {1, "hx_block",
     "id INTEGER PRIMARY KEY, snapshot INTEGER, family INTEGER,"
     " first_row INTEGER, n INTEGER, first_key INTEGER, last_key INTEGER, bytes INTEGER",
     "hx_block_place ON hx_block(snapshot, family, first_row)", true, true, OVERLAID_EMPTY},
    {1, "hx_column",
     "id INTEGER PRIMARY KEY, data BLOB",
     NULL, false, true, OVERLAID_EMPTY},

    {2, "hx_type",
     "snapshot INTEGER, type INTEGER, name TEXT, confidence TEXT, bytes INTEGER,"
     " objects INTEGER, retained_bytes INTEGER, retained_objects INTEGER,"
     " PRIMARY KEY(snapshot, type)",
     NULL, false, false, OVERLAID},
    {2, "hx_named",
     "snapshot INTEGER, position INTEGER, name TEXT, expr TEXT, root_id INTEGER,"
     " PRIMARY KEY(snapshot, position)",
     NULL, false, false, OVERLAID},
    {2, "hx_bin",
     "snapshot INTEGER, bin INTEGER, roots TEXT, bytes INTEGER, objects INTEGER,"
     " PRIMARY KEY(snapshot, bin)",
     NULL, false, false, OVERLAID},
    {2, "hx_retainer",
     "retainer INTEGER PRIMARY KEY, space TEXT, label TEXT, kind TEXT, module TEXT,"
     " UNIQUE(space, label)",
     NULL, false, true, OVERLAID},
    {2, "hx_set",
     "set_id INTEGER PRIMARY KEY, key INTEGER, members INTEGER",
     "hx_set_key ON hx_set(key)", false, true, OVERLAID},
    {2, "hx_set_member",
     "set_id INTEGER, position INTEGER, retainer INTEGER, PRIMARY KEY(set_id, position)",
     NULL, false, false, OVERLAID},
    {2, "hx_retention",
     "snapshot INTEGER, set_id INTEGER, bytes INTEGER, objects INTEGER,"
     " PRIMARY KEY(snapshot, set_id)",
     "hx_retention_set ON hx_retention(set_id)", false, false, OVERLAID},
    {2, "hx_census",
     "snapshot INTEGER PRIMARY KEY, scheme TEXT, max_set INTEGER, patterns TEXT,"
     " visits_per_object REAL, total_bytes INTEGER, sets INTEGER",
     NULL, false, true, OVERLAID},
    {2, "hx_dominator",
     "snapshot INTEGER, position INTEGER, address INTEGER, type TEXT, bytes INTEGER,"
     " retained_bytes INTEGER, retained_objects INTEGER, sure_retained_bytes INTEGER,"
     " sure_retained_objects INTEGER, parent INTEGER, PRIMARY KEY(snapshot, position)",
     NULL, false, false, OVERLAID},
    {2, "hx_page", /* key: a set_id, a bin, a type, as the census says */
     "snapshot INTEGER, census TEXT, key INTEGER, only_pages INTEGER, shared_pages INTEGER,"
     " PRIMARY KEY(snapshot, census, key)",
     NULL, false, false, OVERLAID | PAGES},

    {3, "hx_file", /* that code ran from */
     "file INTEGER PRIMARY KEY, path TEXT, name TEXT, build_id TEXT",
     NULL, false, true, STAYS},
    {3, "hx_place", /* a function at a place in code; file 0: none; inlined -1: built in */
     "place INTEGER PRIMARY KEY, file INTEGER, vaddr INTEGER, inlined INTEGER, label TEXT,"
     " module TEXT, source TEXT, is_caf INTEGER",
     NULL, false, true, STAYS},
    {3, "hx_ccs", /* hx_frame since 4 */
     "ccs_id INTEGER PRIMARY KEY, parent_id INTEGER, depth INTEGER, place INTEGER",
     "hx_ccs_place ON hx_ccs(parent_id, place)", true, true, STAYS},
    {3, "hx_stack", /* frames that are whole stacks; site: the shorter label */
     "ccs_id INTEGER PRIMARY KEY, label TEXT, site TEXT, module TEXT, identity INTEGER",
     NULL, false, true, STAYS},
    {3, "hx_recording",
     "snapshot INTEGER PRIMARY KEY, method TEXT, from_start INTEGER, upper_bounds INTEGER,"
     " sample_bytes INTEGER, began_ns INTEGER, frozen_ns INTEGER, events INTEGER,"
     " unmatched_frees INTEGER",
     NULL, false, true, STAYS},
    {3, "hx_cost", /* hx_stack_cost since 4 */
     "snapshot INTEGER, ccs_id INTEGER, alloc_bytes INTEGER, alloc_objects INTEGER,"
     " freed_bytes INTEGER, freed_objects INTEGER, live_bytes INTEGER, live_objects INTEGER,"
     " inherited_alloc_bytes INTEGER, inherited_alloc_objects INTEGER,"
     " inherited_live_bytes INTEGER, inherited_live_objects INTEGER,"
     " PRIMARY KEY(snapshot, ccs_id)",
     NULL, false, false, STAYS},
    {3, "hx_estimate",
     "snapshot INTEGER, ccs_id INTEGER, alloc_error_bytes INTEGER, live_error_bytes INTEGER,"
     " PRIMARY KEY(snapshot, ccs_id)",
     NULL, false, false, ATTRIBUTED | LAID},
    {3, "hx_site",
     "snapshot INTEGER, ccs_id INTEGER, bytes INTEGER, objects INTEGER, retained_bytes INTEGER,"
     " retained_objects INTEGER, PRIMARY KEY(snapshot, ccs_id)",
     NULL, false, false, OVERLAID | ATTRIBUTED},

    /* what was recorded: by whole stacks, whose number is that of their innermost frame */
    {4, "hx_stack_cost", /* classes: mprof's, by size of the request; NULL: not known */
     "snapshot INTEGER, stack_id INTEGER, entries INTEGER, alloc_bytes INTEGER,"
     " alloc_objects INTEGER, freed_bytes INTEGER, freed_objects INTEGER, live_bytes INTEGER,"
     " live_objects INTEGER, alloc_s INTEGER, alloc_m INTEGER, alloc_l INTEGER, alloc_x INTEGER,"
     " freed_s INTEGER, freed_m INTEGER, freed_l INTEGER, freed_x INTEGER, alloc_variance REAL,"
     " live_variance REAL, PRIMARY KEY(snapshot, stack_id)",
     NULL, false, false, STAYS},
    {4, "hx_stack_site",
     "snapshot INTEGER, stack_id INTEGER, bytes INTEGER, objects INTEGER,"
     " PRIMARY KEY(snapshot, stack_id)",
     NULL, false, false, STAYS},
    {4, "hx_centre", /* identity: the same in every store */
     "centre INTEGER PRIMARY KEY, kind TEXT, label TEXT, module TEXT, source TEXT,"
     " is_caf INTEGER, file INTEGER, identity INTEGER",
     NULL, false, true, STAYS},
    {4, "hx_thread",
     "snapshot INTEGER, tid INTEGER, name TEXT, stack_id INTEGER, PRIMARY KEY(snapshot, tid)",
     NULL, false, false, STAYS},
    {4, "hx_size", /* size -1: larger ones that found no room */
     "snapshot INTEGER, size INTEGER, alloc_objects INTEGER, alloc_bytes INTEGER,"
     " freed_objects INTEGER, freed_bytes INTEGER, PRIMARY KEY(snapshot, size)",
     NULL, false, false, STAYS},
    {4, "hx_size_type",
     "snapshot INTEGER, size INTEGER, name TEXT, PRIMARY KEY(snapshot, size, name)",
     NULL, false, false, STAYS},

    /* what follows from it for a choice of cost centres; retained_* of sites and hx_holder also
     * from the objects */
    {4, "hx_ccs",
     "ccs_id INTEGER PRIMARY KEY, parent_id INTEGER, depth INTEGER, centre INTEGER,"
     " identity INTEGER",
     "hx_ccs_centre ON hx_ccs(parent_id, centre)", true, true, ATTRIBUTED | LAID},
    {4, "hx_attributed",
     "stack_id INTEGER PRIMARY KEY, ccs_id INTEGER",
     "hx_attributed_ccs ON hx_attributed(ccs_id)", false, true, ATTRIBUTED},
    {4, "hx_cost",
     "snapshot INTEGER, ccs_id INTEGER, entries INTEGER, alloc_bytes INTEGER,"
     " alloc_objects INTEGER, freed_bytes INTEGER, freed_objects INTEGER, live_bytes INTEGER,"
     " live_objects INTEGER, inherited_alloc_bytes INTEGER, inherited_alloc_objects INTEGER,"
     " inherited_live_bytes INTEGER, inherited_live_objects INTEGER,"
     " PRIMARY KEY(snapshot, ccs_id)",
     NULL, false, false, ATTRIBUTED | LAID},
    {4, "hx_holder", /* the largest sets that hold a stack's objects; set_id NULL: the others */
     "snapshot INTEGER, stack_id INTEGER, state TEXT, set_id INTEGER, bytes INTEGER,"
     " objects INTEGER",
     "hx_holder_stack ON hx_holder(snapshot, stack_id)", false, true, OVERLAID},
    HX_MPROF_TABLES

    {6, "hx_biography", /* phase: lag, use, drag, void, inherent */
     "snapshot INTEGER, phase TEXT, bytes INTEGER, objects INTEGER, PRIMARY KEY(snapshot, phase)",
     NULL, false, false, STAYS},
    {6, "hx_module", /* of profiles that know modules and no stacks */
     "snapshot INTEGER, name TEXT, bytes INTEGER, objects INTEGER, PRIMARY KEY(snapshot, name)",
     NULL, false, false, STAYS},
};

/* Tables that later schemas have by another name, or not at all. */
static const struct ended {
    int since, until;
    const char *name;
} ended[] = {
    {3, 4, "hx_ccs"},
    {3, 4, "hx_cost"},
};

/* Before a step's tables are made, in this order. */
static const struct alteration {
    int since;
    const char *table, *what;
} alterations[] = {
    {2, "hx_root", "ADD COLUMN retained_bytes INTEGER"},
    {2, "hx_root", "ADD COLUMN retained_objects INTEGER"},
    {2, "hx_snapshot", "ADD COLUMN parts INTEGER NOT NULL DEFAULT 0"},
    {3, "hx_leak", "ADD COLUMN ccs_id INTEGER"},
    {4, "hx_leak", "RENAME COLUMN ccs_id TO stack_id"},
    {4, "hx_place", "ADD COLUMN kind INTEGER"},   /* enum hx_frame_kind; NULL: of schema 3 */
    {4, "hx_place", "ADD COLUMN centre INTEGER"}, /* NULL: none */
    {4, "hx_place", "ADD COLUMN target INTEGER"}, /* the frame that was entered; NULL: unknown */
    {4, "hx_place", "ADD COLUMN initialiser INTEGER"}, /* enum hx_rec_initialiser */
    {4, "hx_place", "ADD COLUMN entry INTEGER"}, /* vaddr of its function; NULL: unknown */
    {4, "hx_ccs", "RENAME TO hx_frame"},
    {4, "hx_frame", "RENAME COLUMN ccs_id TO frame_id"},
    {4, "hx_stack", "RENAME COLUMN ccs_id TO stack_id"},
    {4, "hx_stack", "ADD COLUMN origin INTEGER"}, /* the frame that asked for the memory */
    {4, "hx_cost", "RENAME TO hx_cost_3"},
    {5, "hx_ccs", "ADD COLUMN recursive INTEGER"}, /* NULL: not known */
    {6, "hx_snapshot", "ADD COLUMN started_at_ns INTEGER"}, /* of the process; NULL: not known */
    /* the linker's name of what `name` or `label` calls; NULL: it has none, or several */
    {7, "hx_root", "ADD COLUMN symbol TEXT"},
    {7, "hx_retainer", "ADD COLUMN symbol TEXT"},
    {7, "hx_type", "ADD COLUMN symbol TEXT"},
    {7, "hx_centre", "ADD COLUMN symbol TEXT"},
};

/* Behind them. Without classes of sizes nothing is known of them. */
static const struct move {
    int since;
    const char *sql;
} moves[] = {
    {4, "DROP INDEX hx_ccs_place"},
    {4, "UPDATE hx_stack SET origin = stack_id"},
    {4, "INSERT INTO hx_stack_cost(snapshot, stack_id, alloc_bytes, alloc_objects, freed_bytes,"
        " freed_objects, live_bytes, live_objects, alloc_variance, live_variance)"
        " SELECT c.snapshot, c.ccs_id, c.alloc_bytes, c.alloc_objects, c.freed_bytes,"
        " c.freed_objects, c.live_bytes, c.live_objects,"
        " 1.0 * e.alloc_error_bytes * e.alloc_error_bytes,"
        " 1.0 * e.live_error_bytes * e.live_error_bytes FROM hx_cost_3 AS c"
        " LEFT JOIN hx_estimate AS e ON e.snapshot = c.snapshot AND e.ccs_id = c.ccs_id"
        " WHERE c.ccs_id IN (SELECT stack_id FROM hx_stack)"
        " AND (coalesce(c.alloc_objects, 1) <> 0 OR c.live_objects <> 0 OR c.freed_objects <> 0"
        " OR c.alloc_bytes <> 0 OR c.live_bytes <> 0 OR c.freed_bytes <> 0)"},
    {4, "DROP TABLE hx_cost_3"},
    {4, "DELETE FROM hx_estimate"},
    {4, "INSERT INTO hx_stack_site SELECT snapshot, ccs_id, bytes, objects FROM hx_site"},
    /* what was there counted edges of another algorithm than the document's, and lost objects */
    {7, "UPDATE hx_census SET visits_per_object = NULL, total_bytes = (SELECT"
        " coalesce(sum(r.bytes), 0) FROM hx_retention AS r WHERE r.snapshot = hx_census.snapshot"
        " AND r.set_id <> 0) WHERE scheme IS NOT NULL"},
};

#define FINISHED " WHERE snapshot IN (SELECT snapshot FROM hx_snapshot)"

static const struct public_view {
    int since; /* schema */
    const char *name, *select;
} views[] = {
    {1, "snapshots",
     "SELECT snapshot, taken_at, pid, comm, exe, pause_us, method,"
     " allocator, heap_bytes, heap_objects, reachable_bytes, reachable_objects, leaked_bytes,"
     " leaked_objects, free_bytes, overhead_bytes, rss_bytes, scheme, complete, notes"
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
    {1, "losses",
     "SELECT snapshot, what, count, bytes, address FROM hx_loss" FINISHED},

    {2, "censuses",
     "SELECT snapshot, scheme, visits_per_object, total_bytes, sets FROM hx_census" FINISHED},
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
     " retained_bytes, symbol FROM hx_type" FINISHED
     " AND (objects > 0 OR (objects IS NULL AND bytes IS NOT NULL))"},
    {2, "dominators",
     "SELECT snapshot, address, type, bytes, retained_bytes, retained_objects,"
     " sure_retained_bytes, sure_retained_objects, parent FROM hx_dominator" FINISHED},
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
};
/* clang-format on */

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* --- statements -------------------------------------------------------------------- */

static void put_create_table(struct hx_text *sql, const struct table *table, const char *temp)
{
    hx_text_putf(sql, "CREATE %sTABLE %s(%s)%s;\n", temp, table->name, table->columns,
                 table->rowid ? "" : " WITHOUT ROWID");
}

static void put_laid(struct hx_text *sql, const struct table *table)
{
    hx_text_putf(sql, "CREATE VIRTUAL TABLE temp.%s USING " HX_CCS_OVERLAY_MODULE "(%s);\n",
                 table->name, table->name);
}

static void put_index(struct hx_text *sql, const struct table *table, const char *schema)
{
    if (table->index)
        hx_text_putf(sql, "CREATE %sINDEX %s%s;\n", table->unique ? "UNIQUE " : "", schema,
                     table->index);
}

/* Has schema `version` the table? */
static bool is_table_in_version(const struct table *table, int version)
{
    for (size_t i = 0; i < COUNT(ended); i++)
        if (ended[i].since == table->since && ended[i].until <= version &&
            strcmp(ended[i].name, table->name) == 0)
            return false;
    return table->since <= version;
}

/* What schema `since` brought. */
static void put_step(struct hx_text *sql, int since)
{
    for (size_t i = 0; i < COUNT(alterations); i++)
        if (alterations[i].since == since)
            hx_text_putf(sql, "ALTER TABLE %s %s;\n", alterations[i].table, alterations[i].what);
    for (size_t i = 0; i < COUNT(tables); i++)
        if (tables[i].since == since) {
            put_create_table(sql, &tables[i], "");
            put_index(sql, &tables[i], "");
        }
    for (size_t i = 0; i < COUNT(moves); i++)
        if (moves[i].since == since)
            hx_text_putf(sql, "%s;\n", moves[i].sql);
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

/* From `version` to this program's schema: 0 is an empty database. */
static void put_steps(struct hx_text *sql, int version)
{
    for (size_t i = 0; i < COUNT(views); i++)
        if (views[i].since <= version)
            hx_text_putf(sql, "DROP VIEW %s;\n", views[i].name);
    for (int v = version + 1; v <= HX_STORE_SCHEMA; v++)
        put_step(sql, v);
    put_views(sql, "VIEW");
    hx_text_putf(sql, "PRAGMA user_version = %d;\n", HX_STORE_SCHEMA);
}

hx_error *hx_schema_create(sqlite3 *db, const char *what)
{
    struct hx_text sql = {0};
    hx_text_putf(&sql, "PRAGMA application_id = %d;\n", HX_STORE_APPLICATION_ID);
    put_steps(&sql, 0);
    return run_schema_sql(db, what, &sql);
}

hx_error *hx_schema_migrate(sqlite3 *db, const char *what, int version,
                            const struct hx_progress *progress)
{
    if (version >= HX_STORE_SCHEMA)
        return NULL;
    struct hx_text sql = {0};
    hx_text_puts(&sql, "BEGIN IMMEDIATE;\n");
    put_steps(&sql, version);
    hx_error *err = run_schema_sql(db, what, &sql);
    if (!err && version < 4)
        err = hx_attribute_migrated(db, what, progress);
    else if (!err && version < 5)
        err = hx_attribute_recursion(db, what, progress);
    if (!err && version < 7)
        err = hx_rename_migrated(db, what);
    if (!err)
        err = hx_db_exec(db, what, "COMMIT");
    if (err && !sqlite3_get_autocommit(db))
        hx_error_free(hx_db_exec(db, what, "ROLLBACK"));
    return err;
}

/* The tables of this program's schema that an overlay of a kind has and that are not there yet;
 * what is there keeps what it holds. */
static void put_overlay(struct hx_text *sql, sqlite3 *db, unsigned kind)
{
    for (size_t i = 0; i < COUNT(tables); i++) {
        const struct table *table = &tables[i];
        if (!(table->overlay & kind) || !is_table_in_version(table, HX_STORE_SCHEMA) ||
            sqlite3_table_column_metadata(db, "temp", table->name, NULL, NULL, NULL, NULL, NULL,
                                          NULL) == SQLITE_OK)
            continue;
        if (table->overlay & LAID) {
            put_laid(sql, table);
            continue;
        }
        put_create_table(sql, table, "TEMP ");
        if (kind & OVERLAID)
            put_index(sql, table, "temp.");
        for (size_t k = 0; k < COUNT(alterations); k++)
            if (strcmp(alterations[k].table, table->name) == 0 &&
                alterations[k].since > table->since)
                hx_text_putf(sql, "ALTER TABLE temp.%s %s;\n", table->name, alterations[k].what);
        if (table->overlay & kind & (OVERLAID | PAGES))
            hx_text_putf(sql, "INSERT INTO temp.%s SELECT * FROM main.%s;\n", table->name,
                         table->name);
    }
    put_views(sql, "TEMP VIEW IF NOT EXISTS");
}

static hx_error *run_overlay(sqlite3 *db, const char *what, struct hx_text *sql)
{
    hx_text_puts(sql, "COMMIT;\n");
    hx_error *err = run_schema_sql(db, what, sql);
    if (err && !sqlite3_get_autocommit(db))
        hx_error_free(hx_db_exec(db, what, "ROLLBACK"));
    return err;
}

hx_error *hx_schema_overlay(sqlite3 *db, const char *what)
{
    struct hx_text sql = {0};
    hx_text_puts(&sql, "BEGIN;\n");
    put_overlay(&sql, db, OVERLAID | OVERLAID_EMPTY);
    return run_overlay(db, what, &sql);
}

hx_error *hx_schema_overlay_leaks(sqlite3 *db, const char *what)
{
    struct hx_text sql = {0};
    hx_text_puts(&sql, "BEGIN;\n");
    for (size_t i = 0; i < COUNT(tables); i++)
        if (tables[i].overlay & SUPPRESSED &&
            sqlite3_table_column_metadata(db, "temp", tables[i].name, NULL, NULL, NULL, NULL, NULL,
                                          NULL) != SQLITE_OK)
            hx_text_putf(&sql, "CREATE TEMP TABLE %s AS SELECT * FROM main.%s;\n", tables[i].name,
                         tables[i].name);
    put_views(&sql, "TEMP VIEW IF NOT EXISTS");
    return run_overlay(db, what, &sql);
}

hx_error *hx_schema_overlay_attribution(sqlite3 *db, const char *what)
{
    struct hx_text sql = {0};
    for (size_t i = 0; i < COUNT(tables); i++)
        if (tables[i].overlay & ATTRIBUTED && is_table_in_version(&tables[i], HX_STORE_SCHEMA))
            hx_text_putf(&sql, "DROP TABLE IF EXISTS temp.%s;\n", tables[i].name);
    hx_error *err = run_schema_sql(db, what, &sql);
    if (err)
        return err;
    hx_text_puts(&sql, "BEGIN;\n");
    put_overlay(&sql, db, ATTRIBUTED | PAGES);
    hx_text_puts(&sql, "DELETE FROM temp.hx_page WHERE census = 'site';\n");
    return run_overlay(db, what, &sql);
}

hx_error *hx_schema_index_attribution(sqlite3 *db, const char *what)
{
    struct hx_text sql = {0};
    for (size_t i = 0; i < COUNT(tables); i++)
        if (tables[i].overlay & ATTRIBUTED && !(tables[i].overlay & LAID) &&
            is_table_in_version(&tables[i], HX_STORE_SCHEMA))
            put_index(&sql, &tables[i], "temp.");
    hx_text_puts(&sql, "SELECT 1");
    return run_schema_sql(db, what, &sql);
}

static const struct table *find_table(const char *name)
{
    for (size_t i = 0; i < COUNT(tables); i++)
        if (strcmp(tables[i].name, name) == 0 && is_table_in_version(&tables[i], HX_STORE_SCHEMA))
            return &tables[i];
    return NULL;
}

int hx_schema_number(const char *name)
{
    const struct table *table = find_table(name);
    return table && !(table->overlay & OVERLAID_EMPTY) ? (int)(table - tables) : -1;
}

const char *hx_schema_name(int number)
{
    return tables[number].name;
}

hx_error *hx_schema_drop_index(sqlite3 *db, const char *what, const char *name)
{
    const struct table *table = find_table(name);
    struct hx_text sql = {0};
    if (table && table->index)
        hx_text_putf(&sql, "DROP INDEX IF EXISTS main.%.*s;\n", (int)strcspn(table->index, " "),
                     table->index);
    hx_text_puts(&sql, "SELECT 1");
    return run_schema_sql(db, what, &sql);
}

hx_error *hx_schema_make_index(sqlite3 *db, const char *what, const char *name)
{
    const struct table *table = find_table(name);
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
    for (size_t i = 0; i < COUNT(tables); i++)
        if (tables[i].overlay & (ATTRIBUTED | PAGES) &&
            is_table_in_version(&tables[i], HX_STORE_SCHEMA))
            hx_text_putf(&sql, "DROP TABLE IF EXISTS temp.%s;\n", tables[i].name);
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

/* Is its text another than the one above, or does SQLite add an index to it? */
static bool needs_making(const struct table *table)
{
    for (size_t i = 0; i < COUNT(alterations); i++)
        if (strcmp(alterations[i].table, table->name) == 0)
            return true;
    return table->rowid && strstr(table->columns, "UNIQUE(");
}

/* The tables that have to be made, step by step in an empty database. Moves of others fail there,
 * and change no text. */
static hx_error *make_altered(sqlite3 *db, const char *what, int version)
{
    struct hx_text sql = {0};
    for (int v = 1; v <= version; v++) {
        for (size_t i = 0; i < COUNT(alterations); i++)
            if (alterations[i].since == v)
                hx_text_putf(&sql, "ALTER TABLE %s %s;\n", alterations[i].table,
                             alterations[i].what);
        for (size_t i = 0; i < COUNT(tables); i++)
            if (tables[i].since == v && needs_making(&tables[i])) {
                put_create_table(&sql, &tables[i], "");
                put_index(&sql, &tables[i], "");
            }
        hx_text_puts(&sql, ";");
        HX_TRY(run_schema_sql(db, what, &sql));
        for (size_t i = 0; i < COUNT(moves); i++)
            if (moves[i].since == v)
                hx_error_free(hx_db_exec(db, what, moves[i].sql));
    }
    return NULL;
}

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

static hx_error *expect_others(sqlite3 *db, const char *what, int version, sqlite3_stmt *insert,
                               struct hx_text *sql)
{
    for (size_t i = 0; i < COUNT(tables); i++) {
        const struct table *table = &tables[i];
        if (!is_table_in_version(table, version) || needs_making(table))
            continue;
        put_create_table(sql, table, "");
        HX_TRY(expect(db, what, insert, "table", table->name, table->name, sql));
        put_index(sql, table, "");
        if (table->index)
            HX_TRY(expect(db, what, insert, "index", table->index, table->name, sql));
    }
    for (size_t i = 0; i < COUNT(views); i++)
        if (views[i].since <= version) {
            put_view(sql, &views[i], "VIEW");
            HX_TRY(expect(db, what, insert, "view", views[i].name, views[i].name, sql));
        }
    return NULL;
}

hx_error *hx_schema_expect(sqlite3 *db, const char *what, int version)
{
    HX_TRY(make_altered(db, what, version));
    HX_TRY(hx_db_exec(db, what,
                      "CREATE TEMP TABLE expected AS SELECT type, name, tbl_name, sql,"
                      " 0 AS optional FROM main.sqlite_schema"));
    HX_STATEMENT sqlite3_stmt *insert = NULL;
    HX_TRY(hx_db_prepare(db, what, "INSERT INTO expected VALUES(?, ?, ?, ?, 0)", &insert));
    struct hx_text sql = {0};
    hx_error *err = expect_others(db, what, version, insert, &sql);
    hx_text_free(&sql);
    return err;
}
