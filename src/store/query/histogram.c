/* histogram.c - the statements of histograms, and what chooses their objects. */
#include "store/query/histogram.h"

#include "store/objects/sums.h"
#include "store/query/named.h"
#include "store/store.h"

#include <inttypes.h>
#include <string.h>

#define WORD(word) #word,
const char *const hx_histogram_words[] = {HX_HISTOGRAMS(WORD) NULL};
#undef WORD

static const struct hx_filter_column histogram_columns[] = {
    {NULL, "snapshot", HX_FILTER_NUMBER, 0},
    {NULL, "key", HX_FILTER_TEXT, 1},
    {NULL, "bytes", HX_FILTER_NUMBER, 2},
    {NULL, "objects", HX_FILTER_NUMBER, 3},
};
const struct hx_filter_schema hx_histogram_schema = {
    .columns = histogram_columns, .n = sizeof histogram_columns / sizeof *histogram_columns};

enum { SNAPSHOTS = 400 }; /* in one statement; SQLite's own limit is 500 */

/* --- which objects -------------------------------------------------------------------------- */

/* What `objects` does not have: columns of sets, and of roots. */
enum { OF_SETS = 1, OF_ROOTS = 2, OF_OBJECTS = 4, COLUMNS = 64 };

static const struct {
    struct hx_filter_column column;
    unsigned of;
} others[] = {
    {{NULL, "retainer", HX_FILTER_TEXT, 0}, OF_SETS},
    {{NULL, "thread", HX_FILTER_TEXT, 0}, OF_SETS},
    {{NULL, "label", HX_FILTER_TEXT, 0}, OF_SETS},
    {{NULL, "root", HX_FILTER_TEXT, 0}, OF_ROOTS},
    {{NULL, "set", HX_FILTER_NUMBER, 0}, OF_OBJECTS},
};
enum { OTHERS = sizeof others / sizeof *others };

static hx_error *parse_condition(const char *text, hx_filter **ret)
{
    struct hx_filter_column column[COLUMNS];
    struct hx_filter_schema all, schema = {.columns = column};
    hx_view_schema("objects", &all);
    for (size_t i = 0; i < all.n && schema.n < COLUMNS - OTHERS; i++) {
        column[schema.n] = all.columns[i];
        column[schema.n++].view = NULL;
    }
    for (size_t i = 0; i < OTHERS; i++)
        column[schema.n++] = others[i].column;
    HX_TRY(hx_filter_parse(text, &schema, NULL, ret));
    return hx_filter_rename(*ret, "set", "set_id");
}

static unsigned what_it_reads(const hx_filter *filter)
{
    const struct hx_filter_column *column;
    size_t n = hx_filter_columns(filter, &column);
    unsigned reads = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned of = OF_OBJECTS;
        for (size_t k = 0; k < OTHERS; k++)
            if (strcmp(others[k].column.name, column[i].name) == 0)
                of = others[k].of;
        reads |= of;
    }
    return reads;
}

static void put_sets(int64_t snapshot, struct hx_text *sql)
{
    hx_text_putf(sql,
                 "(SELECT x.set_id AS of_set, m.label AS retainer, x.label AS label,"
                 " CASE m.kind WHEN 'thread' THEN substr(m.label, 8) END AS thread"
                 " FROM retainers x LEFT JOIN retainer_members m ON m.set_id = x.set_id"
                 " WHERE x.snapshot = %" PRId64 ") q",
                 snapshot);
}

static void put_roots(int64_t snapshot, struct hx_text *sql)
{
    hx_text_putf(sql,
                 "(SELECT e.target AS of_target, r.name AS root FROM roots r"
                 " CROSS JOIN root_edges e ON e.snapshot = r.snapshot AND e.root_id = r.root_id"
                 " WHERE r.snapshot = %" PRId64 ") r",
                 snapshot);
}

/* A set is looked at once, not for each of its objects. A condition on several kinds holds by one
 * name of the set, and one root. */
static void put_condition(const hx_filter *filter, int64_t snapshot, struct hx_text *sql)
{
    unsigned reads = what_it_reads(filter);
    if (!(reads & ~OF_OBJECTS)) {
        hx_filter_sql(filter, sql);
        return;
    }
    if (reads == OF_SETS) {
        hx_text_puts(sql, "set_id IN (SELECT of_set FROM ");
        put_sets(snapshot, sql);
        hx_text_puts(sql, " WHERE ");
    } else if (reads == OF_ROOTS) {
        hx_text_puts(sql, "address IN (SELECT of_target FROM ");
        put_roots(snapshot, sql);
        hx_text_puts(sql, " WHERE ");
    } else {
        hx_text_puts(sql, "address IN (SELECT o.address FROM objects o");
        if (reads & OF_SETS) {
            hx_text_puts(sql, " LEFT JOIN ");
            put_sets(snapshot, sql);
            hx_text_puts(sql, " ON q.of_set = o.set_id");
        }
        if (reads & OF_ROOTS) {
            hx_text_puts(sql, " LEFT JOIN ");
            put_roots(snapshot, sql);
            hx_text_puts(sql, " ON r.of_target = o.address");
        }
        hx_text_putf(sql, " WHERE o.snapshot = %" PRId64 " AND ", snapshot);
    }
    hx_text_puts(sql, "(");
    hx_filter_sql(filter, sql);
    hx_text_puts(sql, "))");
}

hx_error *hx_objects_where(const char *text, int64_t snapshot, struct hx_text *ret)
{
    HX_FILTER hx_filter *filter = NULL;
    HX_TRY(parse_condition(text, &filter));
    put_condition(filter, snapshot, ret);
    return ret->failed ? hx_error_nomem() : NULL;
}

/* --- by what -------------------------------------------------------------------------------- */

#define NAME_OF_TYPE                                                                               \
    "(SELECT t.name FROM hx_type t WHERE t.snapshot = i.snapshot AND t.type = i.number)"
#define NAME_OF_SHAPE                                                                              \
    "(SELECT t.label FROM hx_shape t WHERE t.snapshot = i.snapshot AND t.shape = i.number)"

/* By word: an expression over the objects that groups them, and the name of a group x; where one
 * pass can add up (store/objects/sums.h), by what, and the name of a number. Of age the snapshots
 * are looked through backwards up to the first that does not have it. */
static const struct {
    const char *word, *group, *name;
    enum hx_sums_by by;
    const char *number; /* NULL: no pass can */
} keys[] = {
    {"type", "type", "coalesce(x, '(unknown)')", HX_SUMS_TYPE, NAME_OF_TYPE},
    {HX_HISTOGRAM_NAMES, "coalesce(type, shape)", "coalesce(x, '(unknown)')", HX_SUMS_NAMES,
     "CASE i.kind WHEN 0 THEN " NAME_OF_TYPE " ELSE " NAME_OF_SHAPE " END"},
    {"shape", "shape", "coalesce(x, '(unknown)')", HX_SUMS_SHAPE, NAME_OF_SHAPE},
    {"size", "hx_size_class(bytes)", "x", HX_SUMS_SIZE, "i.number"},
    {"site", "stack_id",
     "coalesce((SELECT t.label FROM hx_stack t WHERE t.stack_id = x), '(unknown)')", 0, NULL},
    {"state", "state", "coalesce(x, '(unknown)')", HX_SUMS_STATE, "i.number"},
    {"age",
     "(SELECT t.snapshot FROM hx_snapshot t WHERE t.snapshot < objects.snapshot AND (NOT EXISTS"
     " (SELECT 1 FROM objects p WHERE p.snapshot = t.snapshot AND p.address = objects.address"
     " AND p.bytes = objects.bytes) OR t.pid IS NOT (SELECT s.pid FROM hx_snapshot s"
     " WHERE s.snapshot = objects.snapshot)) ORDER BY t.snapshot DESC LIMIT 1)",
     "CASE WHEN x IS NULL THEN 'since snapshot ' || (SELECT min(snapshot) FROM hx_snapshot)"
     " || ' or before' ELSE 'since snapshot ' ||"
     " (SELECT min(t.snapshot) FROM hx_snapshot t WHERE t.snapshot > x) END",
     0, NULL},
};

static void put_quoted(const char *text, struct hx_text *ret)
{
    hx_text_putc(ret, '\'');
    for (; *text; text++)
        hx_text_putn(ret, *text == '\'' ? "''" : text, *text == '\'' ? 2 : 1);
    hx_text_putc(ret, '\'');
}

void hx_histogram_sql(const char *by, int64_t snapshot, const char *where, struct hx_text *sql)
{
    size_t k = 0;
    while (k + 1 < sizeof keys / sizeof *keys && strcmp(keys[k].word, by) != 0)
        k++;
    /* a query in the condition would be asked for the window of the one around it */
    const bool pass = keys[k].number && !strcasestr(where, "select");
    hx_text_putf(sql,
                 "SELECT %" PRId64 " AS snapshot, %s AS key, sum(b) AS bytes, sum(n) AS objects"
                 " FROM (",
                 snapshot, keys[k].name);
    if (pass) {
        hx_text_putf(sql, "WITH hx_j(hx_sums) AS MATERIALIZED (SELECT hx_sums(%d, %" PRId64 ", ",
                     (int)keys[k].by, snapshot);
        put_quoted(where, sql);
        hx_text_putf(sql,
                     ")) SELECT %s AS x, i.b AS b, i.n AS n FROM (SELECT %" PRId64 " AS snapshot,"
                     " json_extract(value, '$[0]') AS kind, json_extract(value, '$[1]') AS number,"
                     " json_extract(value, '$[2]') AS b, json_extract(value, '$[3]') AS n"
                     " FROM hx_j, json_each(hx_sums)) AS i UNION ALL ",
                     keys[k].number, snapshot);
    }
    hx_text_putf(sql,
                 "SELECT %s AS x, sum(bytes) AS b, count(*) AS n FROM %s WHERE"
                 " %sobjects.snapshot = %" PRId64,
                 keys[k].group, pass ? "hx_j CROSS JOIN objects" : "objects",
                 pass ? "hx_sums IS NULL AND " : "", snapshot);
    if (*where)
        hx_text_putf(sql, " AND (%s)", where);
    hx_text_puts(sql, " GROUP BY 1) GROUP BY 2");
}

void hx_histogram_facts(const char *by, int64_t snapshot, const char *where, struct hx_text *sql)
{
    hx_text_puts(sql, "SELECT count(*) AS rows, sum(bytes) AS bytes FROM (");
    hx_histogram_sql(by, snapshot, where, sql);
    hx_text_puts(sql, ")");
}

static hx_error *put_snapshot(const struct hx_histogram *histogram, int64_t snapshot,
                              struct hx_text *sql)
{
    HX_CLEANUP(hx_text_free) struct hx_text where = {0};
    if (histogram->of)
        HX_TRY(hx_objects_where(histogram->of, snapshot, &where));
    hx_histogram_sql(histogram->by, snapshot, hx_text_str(&where), sql);
    return NULL;
}

/* A statement for each snapshot. */
static hx_error *put_snapshots(hx_store *store, const struct hx_histogram *histogram,
                               int64_t snapshot, struct hx_text *sql)
{
    if (snapshot)
        return put_snapshot(histogram, snapshot, sql);
    HX_TRY(hx_store_next(store, 0, &snapshot));
    HX_TRY(put_snapshot(histogram, snapshot, sql)); /* number 0 has no rows */
    for (size_t n = 1; snapshot; n++) {
        HX_TRY(hx_store_next(store, snapshot, &snapshot));
        if (!snapshot)
            break;
        if (n == SNAPSHOTS)
            return hx_error_new(HX_E_LIMIT, "histogram", "name one with --snapshot",
                                "there are more than %d snapshots", SNAPSHOTS);
        hx_text_puts(sql, " UNION ALL ");
        HX_TRY(put_snapshot(histogram, snapshot, sql));
    }
    return NULL;
}

static hx_error *put_query(hx_store *store, const struct hx_histogram *histogram,
                           const struct hx_query *query, struct hx_text *sql)
{
    hx_text_puts(sql, "SELECT snapshot, key, bytes, objects FROM (");
    HX_TRY(put_snapshots(store, histogram, query->snapshot, sql));
    hx_text_puts(sql, ")");
    if (query->where)
        hx_text_putf(sql, " WHERE %s", query->where);
    hx_text_putf(sql, " ORDER BY %s %s, snapshot, key LIMIT %" PRId64,
                 query->sort ? query->sort : "bytes",
                 query->sort && query->ascending ? "ASC" : "DESC", query->limit);
    return NULL;
}

hx_error *hx_query_histogram(hx_store *store, const struct hx_histogram *histogram,
                             const struct hx_query *query, hx_rows **ret)
{
    struct hx_text sql = {0};
    hx_error *err = put_query(store, histogram, query, &sql);
    if (!err)
        return hx_query_text(store, &sql, ret);
    hx_text_free(&sql);
    return err;
}
