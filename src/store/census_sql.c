/* census_sql.c - statements made from rows of the table of censuses. */
#include "store/census.h"

#include <inttypes.h>
#include <string.h>

void hx_census_label_sql(const struct hx_stored_census *census, const char *key,
                         struct hx_text *sql)
{
    if (!census->label[0]) {
        hx_text_putf(sql, "(%s)", key);
        return;
    }
    if (census->numbers)
        hx_text_putf(sql, "(CASE %s %s ELSE ", key, census->numbers);
    hx_text_putf(sql, "coalesce(%s%s%s, '(unknown)')", census->label[0], key, census->label[1]);
    hx_text_puts(sql, census->numbers ? " END)" : "");
}

void hx_census_brief_sql(const struct hx_stored_census *census, const char *key,
                         struct hx_text *sql)
{
    if (census->brief[0])
        hx_text_putf(sql, "%s%s%s", census->brief[0], key, census->brief[1]);
    else
        hx_census_label_sql(census, key, sql);
}

/* " WHERE ...": of a finished snapshot, or of all that are. */
static void put_where(int64_t snapshot, const char *and, struct hx_text *sql)
{
    if (snapshot)
        hx_text_putf(
            sql,
            " WHERE x.snapshot = (SELECT snapshot FROM hx_snapshot WHERE snapshot = %" PRId64 ")",
            snapshot);
    else
        hx_text_puts(sql, " WHERE x.snapshot IN (SELECT snapshot FROM hx_snapshot)");
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

static void put_figures(const struct hx_stored_census *census, struct hx_text *sql)
{
    const char *bytes = census->bytes ? census->bytes : "x.bytes";
    const char *objects = census->objects ? census->objects : "x.objects";
    hx_text_putf(sql, census->several ? "sum(%s) AS bytes, sum(%s)" : "%s AS bytes, %s", bytes,
                 objects);
    hx_text_puts(sql, " AS objects");
}

void hx_census_sql(const struct hx_stored_census *census, int64_t snapshot, struct hx_text *sql)
{
    if (census->statement) {
        hx_text_putf(sql, "SELECT * FROM (%s)", census->statement);
        if (snapshot)
            hx_text_putf(sql, " WHERE snapshot = %" PRId64, snapshot);
        return;
    }
    hx_text_putf(sql, "SELECT x.snapshot AS snapshot, %s AS key, ", census->key);
    hx_census_label_sql(census, census->key, sql);
    hx_text_puts(sql, " AS label, ");
    put_figures(census, sql);
    hx_text_putf(sql, " FROM %s AS x", census->table);
    put_where(snapshot, census->where, sql);
    if (census->several)
        hx_text_puts(sql, " GROUP BY 1, 2");
    if (census->lost)
        put_rest(snapshot, sql);
    if (census->also) {
        hx_text_putf(sql,
                     " UNION ALL SELECT x.snapshot, x.name, x.name, x.bytes, x.objects FROM %s"
                     " AS x",
                     census->also);
        put_where(snapshot, NULL, sql);
    }
}

/* Rows of the table, without those of another one. */
static void put_rows(const struct hx_stored_census *census, const char *columns,
                     const char *identity, int64_t snapshot, struct hx_text *sql)
{
    hx_text_putf(sql, "SELECT %s%s, %s AS bytes, %s AS objects FROM %s AS x", columns, identity,
                 census->bytes ? census->bytes : "x.bytes",
                 census->objects ? census->objects : "x.objects", census->table);
    put_where(snapshot, census->where, sql);
}

static void put_also(const struct hx_stored_census *census, const char *identity, int64_t snapshot,
                     struct hx_text *sql)
{
    if (!census->also)
        return;
    hx_text_putf(sql, " UNION ALL SELECT x.name%s, x.bytes, x.objects FROM %s AS x", identity,
                 census->also);
    put_where(snapshot, NULL, sql);
}

void hx_census_rows_sql(const struct hx_stored_census *census, int64_t snapshot, int64_t below,
                        struct hx_text *sql)
{
    put_rows(census, census->here.sql, "", snapshot, sql);
    if (below) {
        hx_text_puts(sql, " AND x.stack_id IN (SELECT y.stack_id FROM hx_attributed AS y"
                          " WHERE y.ccs_id IN ");
        hx_below_sql(below, sql);
        hx_text_puts(sql, ")");
    }
    put_also(census, "", snapshot, sql);
}

void hx_census_rows_across_sql(const struct hx_stored_census *census, int64_t snapshot,
                               struct hx_text *sql)
{
    struct hx_text identity = {0};
    hx_text_putf(&identity, ", %s AS identity", census->identity ? census->identity : "NULL");
    put_rows(census, census->across.sql, hx_text_str(&identity), snapshot, sql);
    put_also(census, ", NULL", snapshot, sql);
    sql->failed |= identity.failed;
    hx_text_free(&identity);
}
