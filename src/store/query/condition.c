/* condition.c - conditions over the columns of all views, as statements. */
#include "store/query/condition.h"

#include "store/query/named.h"

#include <inttypes.h>
#include <string.h>

static bool has_snapshots(const char *view)
{
    struct hx_filter_schema schema;
    if (hx_view_schema(view, &schema))
        for (size_t i = 0; i < schema.n; i++)
            if (strcmp(schema.columns[i].name, "snapshot") == 0)
                return true;
    return false;
}

static void put_view_join(const char *view, int64_t snapshot, struct hx_text *sql)
{
    hx_text_putf(sql, " LEFT JOIN \"%s\" ON \"%s\".", view, view);
    if (has_snapshots(view))
        hx_text_putf(sql, "snapshot = %" PRId64, snapshot);
    else /* members of sets that the snapshot has */
        hx_text_putf(sql,
                     "set_id IN (SELECT r.set_id FROM retainers r WHERE r.snapshot = %" PRId64 ")",
                     snapshot);
}

/* " FROM ...": rows of some views beside the one of the snapshot. */
static void put_from(int64_t snapshot, const char *const *views, size_t n_views,
                     struct hx_text *sql)
{
    hx_text_puts(sql, " FROM snapshots");
    for (size_t i = 0; i < n_views; i++)
        put_view_join(views[i], snapshot, sql);
    hx_text_putf(sql, " WHERE snapshots.snapshot = %" PRId64, snapshot);
}

static void put_filter(const hx_filter *filter, struct hx_text *sql)
{
    hx_text_puts(sql, " AND (");
    hx_filter_sql(filter, sql);
    hx_text_puts(sql, ")");
}

hx_error *hx_condition_ask(hx_store *store, const struct hx_condition *condition,
                           const char *const *views, size_t n_views, hx_rows **ret)
{
    struct hx_text sql = {0};
    hx_text_puts(&sql, "SELECT EXISTS(SELECT 1");
    put_from(condition->snapshot, views, n_views, &sql);
    put_filter(condition->filter, &sql);
    hx_text_puts(&sql, ")");
    return hx_query_text(store, &sql, ret);
}

hx_error *hx_condition_combinations(hx_store *store, const struct hx_condition *condition,
                                    const char *view, const size_t *parts, size_t n_parts,
                                    hx_rows **ret)
{
    struct hx_text sql = {0};
    hx_text_puts(&sql, "SELECT DISTINCT ");
    for (size_t i = 0; i < n_parts; i++) {
        hx_text_puts(&sql, i ? ", (" : "(");
        hx_filter_part_sql(condition->filter, parts[i], &sql);
        hx_text_puts(&sql, ") IS TRUE");
    }
    put_from(condition->snapshot, &view, view != NULL, &sql);
    return hx_query_text(store, &sql, ret);
}

static void put_rows_from(const struct hx_condition *condition, const char *view,
                          struct hx_text *sql)
{
    if (condition->filter) {
        put_from(condition->snapshot, &view, 1, sql);
        put_filter(condition->filter, sql);
    } else {
        hx_text_putf(sql,
                     " FROM leaks WHERE leaks.snapshot = %" PRId64 " AND leaks.kind <> 'possible'",
                     condition->snapshot);
    }
}

/* An empty view joins as a row of NULLs, which is nothing to show. */
hx_error *hx_condition_rows(hx_store *store, const struct hx_condition *condition, const char *view,
                            int64_t limit, hx_rows **ret)
{
    struct hx_text sql = {0};
    struct hx_filter_schema schema = {0};
    bool any = false;
    hx_text_puts(&sql, "SELECT ");
    hx_view_schema(view, &schema);
    for (size_t i = 0; i < schema.n; i++) {
        const char *column = schema.columns[i].name;
        if (strcmp(column, "snapshot") == 0)
            continue;
        hx_text_putf(&sql, "%s\"%s\".\"%s\" AS \"%s\"", any ? ", " : "", view, column, column);
        any = true;
    }
    put_rows_from(condition, view, &sql);
    if (hx_view_find(view)->sort)
        hx_text_putf(&sql, " ORDER BY \"%s\".\"%s\" DESC", view, hx_view_find(view)->sort);
    hx_text_putf(&sql, " LIMIT %" PRId64, limit);
    return hx_query_text(store, &sql, ret);
}

hx_error *hx_condition_count(hx_store *store, const struct hx_condition *condition,
                             const char *view, int64_t limit, hx_rows **ret)
{
    struct hx_text sql = {0};
    hx_text_puts(&sql, "SELECT count(*) FROM (SELECT 1");
    put_rows_from(condition, view, &sql);
    hx_text_putf(&sql, " LIMIT %" PRId64 ")", limit);
    return hx_query_text(store, &sql, ret);
}
