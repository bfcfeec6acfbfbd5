/* screen_dominated.c - a level of the dominator tree: the objects that one dominates immediately,
 * or all that hang directly under the roots. */
#include "ui/app.h"
#include "ui/list/type_name.h"

#include <inttypes.h>
#include <string.h>

static const struct hx_column columns[] = {
    {"address", NULL, HX_AS_HEX, 14, 0, NULL, NULL},
    {"retained_bytes", "retained", HX_AS_BYTES, 9, 0, NULL, NULL},
    {"retained_bytes", "", HX_AS_BAR, -8, 2, "all_bytes", NULL},
    {"retained_bytes", "share", HX_AS_SHARE, 6, 4, "all_bytes", NULL},
    {"sure_retained_bytes", "sure refs", HX_AS_BYTES, 9, 5, NULL, NULL},
    {"retained_objects", "objects", HX_AS_COUNT, 9, 3, NULL, NULL},
    {"bytes", "own", HX_AS_BYTES, 8, 6, NULL, NULL},
    {"type", NULL, HX_AS_TYPE, -12, 1, NULL, NULL},
    {0},
};

/* Of so many objects all are looked through for those of a level. In larger heaps they are taken
 * from the largest of all levels, where there are some of this one, and one row stands for the
 * rest. */
#define LOOKED_THROUGH 2000000

/* " = X" or " IS NULL": who dominates the rows. */
static void put_dominator(const struct hx_pane *pane, struct hx_text *sql)
{
    if (pane->address)
        hx_text_putf(sql, " = %" PRId64, (int64_t)pane->address);
    else
        hx_text_puts(sql, " IS NULL AND retained_bytes IS NOT NULL");
}

/* Table `s`, of one row: what the level adds up to, and whether the largest of it will do. */
static void put_level(const struct hx_pane *pane, int64_t snapshot, struct hx_text *sql)
{
    hx_text_putf(sql, "WITH d AS MATERIALIZED (SELECT * FROM dominators WHERE snapshot = %" PRId64,
                 snapshot);
    hx_text_puts(sql, " AND parent");
    put_dominator(pane, sql);
    hx_text_puts(sql, "), s AS MATERIALIZED (SELECT s.snapshot AS snapshot, ");
    if (pane->address)
        hx_text_puts(sql, "o.retained_bytes AS all_bytes, o.retained_objects AS all_objects,"
                          " o.bytes AS own, 1 AS self, ");
    else
        hx_text_puts(sql, "s.reachable_bytes AS all_bytes, s.reachable_objects AS all_objects,"
                          " 0 AS own, 0 AS self, ");
    /* Who opened the row of the rest wants all of them. */
    hx_text_putf(sql,
                 "s.heap_objects > %d AS large,"
                 " %d AND s.heap_objects > %d AND EXISTS (SELECT 1 FROM d) AS brief"
                 " FROM snapshots s",
                 LOOKED_THROUGH, !pane->id, LOOKED_THROUGH);
    if (pane->address)
        hx_text_putf(sql,
                     " LEFT JOIN objects o ON o.snapshot = s.snapshot AND o.address = %" PRId64,
                     (int64_t)pane->address);
    hx_text_putf(sql, " WHERE s.snapshot = %" PRId64 ") ", snapshot);
}

/* The rows of a level as they are: the object table finds windows of them in any order. */
static void level_source(const struct hx_pane *pane, int64_t snapshot, struct hx_source *ret)
{
    ret->view = "objects";
    hx_text_puts(&ret->where, "dominator");
    put_dominator(pane, &ret->where);
    put_level(pane, snapshot, &ret->facts);
    hx_text_putf(&ret->facts,
                 "SELECT coalesce((SELECT matching FROM objects WHERE snapshot = %" PRId64
                 " AND %s ORDER BY address LIMIT 1), 0) AS rows, s.all_bytes AS all_bytes,"
                 " s.all_objects AS all_objects, s.own AS own, o.type AS type,"
                 " o.address AS address FROM s LEFT JOIN objects o ON o.snapshot = %" PRId64
                 " AND o.address = %" PRId64,
                 snapshot, hx_text_str(&ret->where), snapshot, (int64_t)pane->address);
}

void hx_dominated_source(const struct hx_pane *pane, int64_t snapshot, struct hx_source *ret)
{
    struct hx_text *sql = &ret->sql;
    if (pane->id) { /* all of a large level */
        level_source(pane, snapshot, ret);
        return;
    }
    ret->like = "objects";
    put_level(pane, snapshot, sql);
    /* A row may lie in any block of a large heap: columns that are not shown are left alone. */
    for (int large = 0; large < 2; large++) {
        hx_text_putf(sql,
                     "%s, 0 AS rest FROM s CROSS JOIN objects o WHERE %s AND NOT s.brief"
                     " AND o.snapshot = %" PRId64 " AND o.dominator",
                     large ? " UNION ALL SELECT o.snapshot, o.address, o.bytes, NULL, o.type, NULL,"
                             " NULL, NULL, NULL, o.dominator, o.retained_bytes, o.retained_objects,"
                             " o.sure_retained_bytes, o.sure_retained_objects, NULL, NULL"
                           : "SELECT o.*",
                     large ? "s.large" : "NOT s.large", snapshot);
        put_dominator(pane, sql);
    }
    hx_text_puts(sql,
                 " UNION ALL SELECT d.snapshot, d.address, d.bytes, NULL, d.type, NULL, NULL, NULL,"
                 " NULL, d.parent, d.retained_bytes, d.retained_objects, d.sure_retained_bytes,"
                 " d.sure_retained_objects, NULL, NULL, 0 FROM s CROSS JOIN d WHERE s.brief"
                 " UNION ALL SELECT snapshot, NULL, NULL, NULL, '(all smaller ones)', NULL, NULL,"
                 " NULL, NULL, NULL, bytes, objects, NULL, NULL, NULL, NULL, 1 FROM (SELECT"
                 " snapshot, all_bytes - own - (SELECT sum(retained_bytes) FROM d) AS bytes,"
                 " all_objects - self - (SELECT sum(retained_objects) FROM d) AS objects"
                 " FROM s WHERE brief) WHERE objects > 0");
    put_level(pane, snapshot, &ret->facts);
    hx_text_putf(&ret->facts,
                 "SELECT CASE WHEN s.brief THEN 0 ELSE (SELECT count(*) FROM objects WHERE"
                 " snapshot = %" PRId64 " AND dominator",
                 snapshot);
    put_dominator(pane, &ret->facts);
    hx_text_puts(&ret->facts, ") END AS rows, s.all_bytes AS all_bytes,"
                              " s.all_objects AS all_objects, s.own AS own, o.type AS type,"
                              " o.address AS address FROM s LEFT JOIN objects o ON");
    hx_text_putf(&ret->facts, " o.snapshot = %" PRId64 " AND o.address = %" PRId64, snapshot,
                 (int64_t)pane->address);
}

/* " / 0x55d0c0de (cache)" for each level down to that of a pane, from the one with that number on.
 */
static void put_levels(const struct hx_ui *ui, const struct hx_pane *pane, size_t from,
                       struct hx_text *ret)
{
    for (size_t i = from; i < ui->open.n; i++) {
        const struct hx_pane *level = ui->open.v[i];
        if (level->screen == &hx_screen_dominated && level->address) {
            const char *type = hx_table_text(&level->facts, 0, "type");
            hx_text_putf(ret, " / 0x%" PRIx64, level->address);
            if (*type) {
                hx_text_puts(ret, " (");
                hx_text_type_shown(ret, type, !ui->term.utf8);
                hx_text_putc(ret, ')');
            }
        }
        if (level == pane)
            return;
    }
}

/* How one came here; the first levels are left out where the last ones would not fit. */
static void put_dominator_path(const struct hx_ui *ui, const struct hx_pane *pane, int room,
                               struct hx_text *ret)
{
    struct hx_text path = {0};
    hx_text_puts(&path, "roots");
    put_levels(ui, pane, 0, &path);
    for (size_t from = 1; from < ui->at + 1 && hx_text_width(hx_text_str(&path)) > room; from++) {
        hx_text_clear(&path);
        hx_text_puts(&path, "..");
        put_levels(ui, pane, from, &path);
    }
    hx_text_puts(ret, hx_text_str(&path));
    hx_text_free(&path);
}

/* What the rows add up to with the object's own bytes. */
static void put_dominated_sum(const struct hx_pane *pane, struct hx_text *ret)
{
    char all[HX_HUMAN], own[HX_HUMAN], below[HX_HUMAN];
    const struct hx_table *facts = &pane->facts;
    int64_t retained = hx_table_int(facts, 0, "all_bytes", -1),
            bytes = hx_table_int(facts, 0, "own", 0);
    if (retained < 0) {
        hx_text_puts(ret, "\nnot reachable in this snapshot: it retains nothing");
        return;
    }
    hx_text_putf(ret, "\n%s in ", hx_human_bytes((uint64_t)retained, all));
    hx_text_count(ret, hx_table_int(facts, 0, "all_objects", 0));
    hx_text_puts(ret, " objects");
    if (pane->address)
        hx_text_putf(ret, ": %s of its own and %s below", hx_human_bytes((uint64_t)bytes, own),
                     hx_human_bytes((uint64_t)(retained > bytes ? retained - bytes : 0), below));
    hx_text_puts(ret, "; bar: retained");
}

static void dominated_title(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    const struct hx_table *facts = &pane->facts;
    put_dominator_path(ui, pane, hx_term_columns() - 2, ret);
    if (!pane->loaded || pane->problem || !facts->n_rows)
        return;
    if (pane->address && hx_table_at(facts, 0, "address")->type == HX_VALUE_NULL)
        hx_text_puts(ret, "\nno object of this snapshot");
    else
        put_dominated_sum(pane, ret);
}

static const char *const key[] = {"rest", "address", NULL};

const struct hx_screen hx_screen_dominated = {
    .name = "dominated",
    .about = "the objects that an object dominates immediately",
    .digit = -1,
    .by_argument = true,
    .needs = HX_ANALYSE_RETAINED,
    .lacks = "Dominators are",
    .columns = columns,
    .key = key,
    .sort = "retained_bytes",
    .object = "address",
    .source = hx_dominated_source,
    .head = dominated_title,
    .empty = "Nothing is freed with it in this snapshot; R shows the object.",
    .open = hx_ui_open_dominated,
    .objects = hx_ui_open_dominated,
};
