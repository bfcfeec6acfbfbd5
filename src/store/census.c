/* census.c - the table of censuses, and their rows. */
#include "store/census.h"

#include <inttypes.h>
#include <string.h>

/* A cost-centre stack by its innermost centres; the key stands between the two. */
#define CCS_LABEL                                                                                  \
    "(WITH RECURSIVE up(parent, n, label) AS (SELECT c.parent_id, 0, k.label FROM hx_ccs AS c"     \
    " JOIN hx_centre AS k ON k.centre = c.centre WHERE c.ccs_id = "
#define CCS_LABEL_END                                                                              \
    " UNION ALL SELECT c.parent_id, up.n + 1, k.label FROM up CROSS JOIN hx_ccs AS c"              \
    " ON c.ccs_id = up.parent CROSS JOIN hx_centre AS k ON k.centre = c.centre"                    \
    " WHERE c.parent_id IS NOT NULL AND up.n < 12)"                                                \
    " SELECT group_concat(CASE n WHEN 12 THEN '...' ELSE label END, ' < ') FROM up)"

/* Members lie in the order of their labels. */
#define SET_LABEL                                                                                  \
    "(SELECT group_concat(label, ', ') FROM (SELECT r.label AS label FROM hx_set_member AS m"      \
    " CROSS JOIN hx_retainer AS r ON r.retainer = m.retainer WHERE m.set_id = "
#define SET_LABEL_END " ORDER BY m.position))"

/* What stands behind a census: a table of sums for each snapshot, and its column for the key. */
static const struct census_rows {
    const char *table, *key;
    const char *where;    /* rows that are shown; NULL: all */
    const char *objects;  /* NULL: as its column says */
    bool several;         /* rows may have one key: they are added up */
    bool lost;            /* of objects that are lost, or may be: a row counts the others */
    const char *label[2]; /* SQL around the key; NULL: the key says it */
    const char *numbers;  /* keys that have a label of their own */
    const char *also;     /* a table of (snapshot, name, bytes, objects) with more of its rows */
} census_rows[] = {
    {.table = "hx_retention",
     .key = "x.set_id",
     .numbers = "WHEN 0 THEN '(unreachable)' WHEN 1 THEN 'MANY'",
     .label = {SET_LABEL, SET_LABEL_END}},
    {.table = "hx_bin", .key = "x.roots", .where = "x.objects > 0", .several = true},
    {.table = "hx_site", .key = "x.ccs_id", .label = {CCS_LABEL, CCS_LABEL_END}},
    {.table = "hx_type",
     .key = "coalesce(x.name, '(unknown)')",
     .where = "(x.objects > 0 OR (x.objects IS NULL AND x.bytes IS NOT NULL))",
     .several = true},
    {.table = "hx_stack_site",
     .key = "coalesce((SELECT module FROM hx_stack AS t WHERE t.stack_id = x.stack_id),"
            " '(unknown)')",
     .also = "hx_module",
     .several = true},
    {.table = "hx_stack_site",
     .key = "x.stack_id",
     .label = {"(SELECT t.label FROM hx_stack AS t WHERE t.stack_id = ", ")"}},
    {.table = "hx_leak", .key = "x.kind", .several = true, .lost = true},
    {.table = "hx_account", .key = "x.part", .objects = "NULL"},
    {.table = "hx_biography", .key = "x.phase"},
};

const struct hx_stored_census hx_stored_censuses[] = {
    {"retainer", "retainer sets", "retainers", "heap_bytes"},
    {"bin", "root bins", "bins", "heap_bytes"},
    {"ccs", "cost-centre stacks", "sites", "heap_bytes"},
    {"type", "types", "types", "heap_bytes"},
    {"module", "modules", "modules", "heap_bytes"},
    {"site", "allocation sites", "stacks", "heap_bytes"},
    {"leak", "leaks", "leaks", "heap_bytes"},
    {"account", "resident memory", "account", "rss_bytes"},
    {"biography", "phases of life", "biography", "heap_bytes"},
    {0},
};

const struct hx_stored_census *hx_census_find(const char *name)
{
    for (const struct hx_stored_census *census = hx_stored_censuses; census->name; census++)
        if (strcmp(census->name, name) == 0)
            return census;
    return NULL;
}

static const struct census_rows *stored_census_rows(const struct hx_stored_census *census)
{
    return &census_rows[census - hx_stored_censuses];
}

void hx_census_label_sql(const struct hx_stored_census *census, const char *key,
                         struct hx_text *sql)
{
    const struct census_rows *rows = stored_census_rows(census);
    if (!rows->label[0]) {
        hx_text_putf(sql, "(%s)", key);
        return;
    }
    if (rows->numbers)
        hx_text_putf(sql, "(CASE %s %s ELSE ", key, rows->numbers);
    hx_text_putf(sql, "coalesce(%s%s%s, '(unknown)')", rows->label[0], key, rows->label[1]);
    hx_text_puts(sql, rows->numbers ? " END)" : "");
}

/* " WHERE ...": of a finished snapshot, or of all that are. */
static void put_where(int64_t snapshot, const char *and, struct hx_text *sql)
{
    hx_text_puts(sql, " WHERE x.snapshot IN (SELECT snapshot FROM hx_snapshot)");
    if (snapshot)
        hx_text_putf(sql, " AND x.snapshot = %" PRId64, snapshot);
    if (and)
        hx_text_putf(sql, " AND %s", and);
}

/* What is not lost, and not perhaps lost, so that leaks, too, count every object once. */
static void put_rest(int64_t snapshot, struct hx_text *sql)
{
    hx_text_puts(sql, " UNION ALL SELECT snapshot, 'reachable', 'reachable', bytes, objects FROM"
                      " (SELECT x.snapshot AS snapshot,"
                      " x.heap_bytes - coalesce((SELECT sum(l.bytes) FROM hx_leak AS l"
                      " WHERE l.snapshot = x.snapshot), 0) AS bytes,"
                      " x.heap_objects - coalesce((SELECT sum(l.objects) FROM hx_leak AS l"
                      " WHERE l.snapshot = x.snapshot), 0) AS objects FROM hx_snapshot AS x");
    put_where(snapshot, "x.reachable_bytes IS NOT NULL", sql);
    hx_text_puts(sql, ") WHERE objects > 0");
}

void hx_census_sql(const struct hx_stored_census *census, int64_t snapshot, struct hx_text *sql)
{
    const struct census_rows *rows = stored_census_rows(census);
    hx_text_putf(sql, "SELECT x.snapshot AS snapshot, %s AS key, ", rows->key);
    hx_census_label_sql(census, rows->key, sql);
    if (rows->several)
        hx_text_puts(sql, " AS label, sum(x.bytes) AS bytes, sum(x.objects) AS objects");
    else
        hx_text_putf(sql, " AS label, x.bytes AS bytes, %s AS objects",
                     rows->objects ? rows->objects : "x.objects");
    hx_text_putf(sql, " FROM %s AS x", rows->table);
    put_where(snapshot, rows->where, sql);
    if (rows->several)
        hx_text_puts(sql, " GROUP BY 1, 2");
    if (rows->lost)
        put_rest(snapshot, sql);
    if (rows->also) {
        hx_text_putf(sql,
                     " UNION ALL SELECT x.snapshot, x.name, x.name, x.bytes, x.objects FROM %s"
                     " AS x",
                     rows->also);
        put_where(snapshot, NULL, sql);
    }
}
