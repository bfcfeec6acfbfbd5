/* screen_retainers.c - bytes by the set of who retains them. */
#include "ui/app.h"
#include "ui/data/difference.h"

#include "store/census.h"

#include <inttypes.h>
#include <string.h>

static const struct hx_column columns[] = {
    {"bytes", NULL, HX_AS_BYTES, 8, 0, NULL, NULL},
    {"bytes", "of heap", HX_AS_SHARE, 7, 4, "heap_bytes", NULL},
    {"bytes", "", HX_AS_BAR, 8, 5, "heap_bytes", NULL},
    {"objects", NULL, HX_AS_COUNT, 9, 2, NULL, NULL},
    {"bytes_delta", "change", HX_AS_CHANGE, 7, 1, NULL, NULL},
    {"members", NULL, HX_AS_COUNT, 7, 6, NULL, NULL},
    {"label", "retained by", HX_AS_TEXT, -34, 0, NULL, NULL},
    {"only_pages", "own pages", HX_AS_COUNT, 9, 7, NULL, NULL},
    {"shared_pages", "shared", HX_AS_COUNT, 8, 8, NULL, NULL},
    {0},
};

static const struct hx_column differences[] = {
    HX_DIFFERENCE_COLUMNS,
    {"label", "retained by", HX_AS_TEXT, -24, 0, NULL, NULL},
    {0},
};

static const char *const key[] = {"set_id", NULL};

static void put_retainer_set_rows_sql(const struct hx_pane *pane, int64_t snapshot,
                                      struct hx_text *sql)
{
    (void)pane;
    hx_text_putf(sql, "SELECT set_id, bytes, objects FROM hx_retention WHERE snapshot = %" PRId64,
                 snapshot);
}

static void put_retainer_set_columns_sql(const struct hx_pane *pane, int64_t snapshot,
                                         struct hx_text *sql)
{
    (void)pane;
    (void)snapshot;
    hx_text_puts(sql, ", (SELECT s.members FROM hx_set AS s WHERE s.set_id = d.set_id"
                      " AND d.set_id > 1) AS members, ");
    hx_census_label_sql(hx_census_find("retainer"), "d.set_id", sql);
    hx_text_puts(sql, " AS label");
}

static const struct hx_difference difference = {
    .title = "Retainer sets",
    .lacks = "retainer sets",
    .total = "heap_bytes",
    .total_title = "heap",
    .total_objects = "heap_objects",
    .alike = HX_ALIKE_SCHEME,
    .keys = key,
    .rows = put_retainer_set_rows_sql,
    .written = "label",
    .more = put_retainer_set_columns_sql,
};

/* Against sets of another snapshot that were made in the same way: of the same scheme, with the
 * same patterns, and MANY from the same size on. */
static void put_retainer_set_change_sql(const struct hx_pane *pane, int64_t snapshot,
                                        struct hx_text *sql)
{
    char then[128], made[320];
    snprintf(then, sizeof then,
             "(SELECT t.bytes FROM hx_retention t WHERE t.snapshot = %" PRId64
             " AND t.set_id = r.set_id)",
             pane->before);
    snprintf(made, sizeof made,
             "EXISTS (SELECT 1 FROM hx_census a, hx_census b WHERE a.snapshot = %" PRId64
             " AND b.snapshot = %" PRId64 " AND a.scheme IS b.scheme AND a.max_set IS b.max_set"
             " AND a.patterns IS b.patterns)",
             pane->before, snapshot);
    hx_change_sql(pane->before == snapshot ? 0 : pane->before, "r.bytes", then, made, sql);
}

static void retainers_source(const struct hx_pane *pane, int64_t snapshot, struct hx_source *ret)
{
    ret->like = "retainers";
    hx_text_puts(&ret->sql,
                 "SELECT r.*, p.only_pages AS only_pages, p.shared_pages AS shared_pages");
    put_retainer_set_change_sql(pane, snapshot, &ret->sql);
    hx_text_putf(&ret->sql,
                 " FROM retainers r LEFT JOIN hx_page p ON p.snapshot = r.snapshot"
                 " AND p.census = 'retainer' AND p.key = r.set_id WHERE r.snapshot = %" PRId64,
                 snapshot);
    hx_text_putf(&ret->facts,
                 "SELECT (SELECT count(*) FROM hx_retention WHERE snapshot = %" PRId64 ") AS rows,"
                 " s.heap_bytes, c.scheme, c.sets, c.visits_per_object FROM snapshots s"
                 " LEFT JOIN censuses c ON c.snapshot = s.snapshot WHERE s.snapshot = %" PRId64,
                 snapshot, snapshot);
}

static void retainers_title(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    const struct hx_table *facts = &pane->facts;
    hx_text_puts(ret, "Retainer sets");
    const char *scheme = hx_table_text(facts, 0, "scheme");
    if (!*scheme)
        return;
    hx_text_puts(ret, ", scheme ");
    hx_text_escape(ret, scheme, strlen(scheme), !ui->term.utf8);
    int64_t sets = hx_table_int(facts, 0, "sets", -1);
    if (sets >= 0) {
        hx_text_puts(ret, ": ");
        hx_text_count(ret, sets);
        hx_text_puts(ret, sets == 1 ? " set" : " sets");
    }
    const struct hx_cell *visits = hx_table_at(facts, 0, "visits_per_object");
    if (visits->type == HX_VALUE_REAL)
        hx_text_putf(ret, ", %.2f visits per object", visits->real);
}

static hx_error *open_retainer_set_row(struct hx_ui *ui, struct hx_pane *pane, size_t row)
{
    return hx_ui_open_of(ui, &hx_screen_set,
                         &(struct hx_of){HX_SUBSET_SET, hx_table_text(&pane->rows, row, "label"),
                                         NULL, hx_table_int(&pane->rows, row, "set_id", -1)});
}

static bool retainer_set_row_set(const struct hx_pane *pane, size_t row, struct hx_of *ret)
{
    *ret = (struct hx_of){HX_SUBSET_SET, hx_table_text(&pane->rows, row, "label"), NULL,
                          hx_table_int(&pane->rows, row, "set_id", -1)};
    return true;
}

const struct hx_screen hx_screen_retainers = {
    .name = "retainers",
    .brief = "sets",
    .about = "bytes by who retains them",
    .digit = 2,
    .needs = HX_ANALYSE_RETAINERS,
    .lacks = "Retainer sets are",
    .columns = columns,
    .key = key,
    .sort = "bytes",
    .differences = differences,
    .differences_sort = HX_DIFFERENCE_SORT,
    .difference = &difference,
    .source = retainers_source,
    .head = retainers_title,
    .empty = "There are no objects, and so no retainer sets.",
    .open = open_retainer_set_row,
    .of = retainer_set_row_set,
};
