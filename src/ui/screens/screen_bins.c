/* screen_bins.c - bytes by the exact set of named roots that reach them: an intersection matrix,
 * or, while no root is named, the roots that could be. */
#include "ui/app.h"
#include "ui/data/difference.h"
#include "ui/picture/matrix.h"

#include <inttypes.h>
#include <string.h>

static const struct hx_column columns[] = {
    {"bytes", NULL, HX_AS_BYTES, 8, 0, NULL, NULL},
    {"bytes", "", HX_AS_BAR, -8, 3, "most", NULL},
    {"bytes", "of heap", HX_AS_SHARE, 7, 2, "heap_bytes", NULL},
    {"bytes_delta", "change", HX_AS_CHANGE, 7, 3, NULL, NULL},
    {"objects", NULL, HX_AS_COUNT, 10, 1, NULL, NULL},
    {"roots", "reached by exactly", HX_AS_TEXT, -18, 4, NULL, NULL},
    {"only_pages", "own pages", HX_AS_COUNT, 9, 5, NULL, NULL},
    {"shared_pages", "shared", HX_AS_COUNT, 8, 6, NULL, NULL},
    {0},
};

/* While no root is named. */
static const struct hx_column unnamed_columns[] = {
    {"bytes", NULL, HX_AS_BYTES, 8, 0, NULL, NULL},
    {"bytes", "of heap", HX_AS_SHARE, 7, 4, "heap_bytes", NULL},
    {"objects", NULL, HX_AS_COUNT, 10, 3, NULL, NULL},
    {"offer", "", HX_AS_OWN, 15, 2, NULL, NULL},
    {"roots", "reached by", HX_AS_TEXT, -16, 0, NULL, NULL},
    {"retained_bytes", "retains", HX_AS_BYTES, 8, 1, NULL, NULL},
    {0},
};

static const struct hx_column differences[] = {
    HX_DIFFERENCE_COLUMNS,
    {"roots", "reached by exactly", HX_AS_TEXT, -16, 6, NULL, NULL},
    {0},
};

static const char *const by_roots[] = {"roots", NULL};

static void put_bin_rows_sql(const struct hx_pane *pane, int64_t snapshot, struct hx_text *sql)
{
    (void)pane;
    hx_text_putf(
        sql, "SELECT roots, bytes, objects FROM hx_bin WHERE objects > 0 AND snapshot = %" PRId64,
        snapshot);
}

static void put_bin_columns_sql(const struct hx_pane *pane, int64_t snapshot, struct hx_text *sql)
{
    (void)pane;
    (void)snapshot;
    hx_text_puts(sql, ", 0 AS rank");
}

static const struct hx_difference difference = {
    .title = "Root bins",
    .lacks = "root bins",
    .total = "heap_bytes",
    .total_title = "heap",
    .total_objects = "heap_objects",
    .alike = HX_ALIKE_ROOTS,
    .keys = by_roots,
    .rows = put_bin_rows_sql,
    .more = put_bin_columns_sql,
    .written = "roots",
};

/* Bins of other roots do not compare. */
static void put_bin_change_sql(const struct hx_pane *pane, int64_t snapshot, struct hx_text *sql)
{
    struct hx_text made = {0};
    for (int i = 0; i < 2; i++)
        hx_text_putf(&made,
                     "%s(SELECT group_concat(name, '+') FROM (SELECT name FROM hx_named"
                     " WHERE snapshot = %" PRId64 " ORDER BY position))",
                     i ? " IS " : "", i ? snapshot : pane->before);
    hx_text_putf(&made, " AND EXISTS (SELECT 1 FROM hx_bin WHERE snapshot = %" PRId64 ")",
                 pane->before);
    sql->failed |= made.failed;
    hx_change_sql(pane->before == snapshot ? 0 : pane->before, "b.bytes", "o.bytes",
                  hx_text_str(&made), sql);
    hx_text_free(&made);
}

/* Bins are numbered in each snapshot anew: those of the other one go by their roots. */
static void put_bins(const struct hx_pane *pane, int64_t snapshot, struct hx_text *sql)
{
    hx_text_puts(sql, "SELECT b.snapshot AS snapshot, b.roots AS roots, b.bytes AS bytes,"
                      " b.objects AS objects, p.only_pages AS only_pages,"
                      " p.shared_pages AS shared_pages, 0 AS rank, NULL AS expr,"
                      " NULL AS retained_bytes");
    put_bin_change_sql(pane, snapshot, sql);
    hx_text_putf(sql,
                 " FROM hx_bin b LEFT JOIN hx_page p"
                 " ON p.snapshot = b.snapshot AND p.census = 'bin' AND p.key = b.bin"
                 " LEFT JOIN (SELECT roots, sum(bytes) AS bytes FROM hx_bin WHERE objects > 0"
                 " AND snapshot = %" PRId64 " GROUP BY roots) AS o ON o.roots = b.roots"
                 " WHERE b.objects > 0 AND b.snapshot = %" PRId64,
                 pane->before, snapshot);
}

static void bins_source(const struct hx_pane *pane, int64_t snapshot, struct hx_source *ret)
{
    ret->like = "bins";
    hx_text_puts(&ret->written,
                 "snapshot, roots, bytes, objects, only_pages, shared_pages, bytes_delta");
    ret->written_where = "expr IS NULL"; /* what could be named is no bin */
    put_bins(pane, snapshot, &ret->sql);
    hx_text_putf(&ret->sql,
                 " UNION ALL SELECT %" PRId64 ", name, NULL, NULL, NULL, NULL,"
                 " rank, expr, retained_bytes, NULL FROM (",
                 snapshot);
    hx_query_put(HX_QUERY_nameable, HX_QUERY_ARGS(.snapshot = snapshot), &ret->sql);
    hx_text_putf(&ret->sql,
                 ") WHERE EXISTS (SELECT 1 FROM hx_bin WHERE snapshot = %" PRId64
                 ") AND NOT EXISTS (SELECT 1 FROM hx_named WHERE snapshot = %" PRId64 ")",
                 snapshot, snapshot);
    /* A row for each named root: what it reaches alone, and together with others. */
    hx_text_putf(&ret->facts,
                 "SELECT c.rows AS rows, c.most AS most, s.heap_bytes AS heap_bytes,"
                 " n.name AS name, k.names AS names,"
                 " coalesce(t.exclusive_bytes, 0) AS exclusive_bytes,"
                 " coalesce(t.shared_bytes, 0) AS shared_bytes FROM snapshots s CROSS JOIN"
                 " (SELECT count(*) AS rows, max(bytes) AS most FROM bins WHERE snapshot = %" PRId64
                 ") AS c CROSS JOIN"
                 " (SELECT count(*) AS names FROM hx_named WHERE snapshot = %" PRId64 ") AS k"
                 " LEFT JOIN hx_named n ON n.snapshot = s.snapshot LEFT JOIN (",
                 snapshot, snapshot);
    hx_query_put(HX_QUERY_named_root_bytes, HX_QUERY_ARGS(.snapshot = snapshot), &ret->facts);
    hx_text_putf(&ret->facts,
                 ") AS t ON t.name = n.name WHERE s.snapshot = %" PRId64
                 " ORDER BY n.position LIMIT %d",
                 snapshot, HX_FACTS_MAX);
}

/* Is it a root that could be named? */
static bool is_offer(const struct hx_pane *pane, size_t row)
{
    return hx_table_at(&pane->rows, row, "expr")->type == HX_VALUE_TEXT;
}

static void lay_out_bins(const struct hx_ui *ui, struct hx_pane *pane, int width)
{
    bool named = hx_table_int(&pane->facts, 0, "names", 1) > 0;
    hx_matrix_lay_out(ui, pane,
                      pane->other ? differences
                      : named     ? columns
                                  : unnamed_columns,
                      width);
}

/* The dots, or what a root that has no name is there for. */
static void bins_cell(const struct hx_pane *pane, size_t row, bool ascii, struct hx_text *ret)
{
    if (pane->columns != unnamed_columns)
        hx_matrix_cell(pane, row, ascii, ret);
    else if (is_offer(pane, row))
        hx_text_puts(ret, "Enter names it:");
}

static void bins_title(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    const struct hx_table *facts = &pane->facts;
    int64_t names = hx_table_int(facts, 0, "names", 0);
    if (!pane->loaded || !facts->n_rows || (pane->screen->needs & ~pane->parts)) {
        hx_text_puts(ret, "Root bins");
    } else if (!names) {
        hx_text_puts(ret, "No root is named: Enter names one of these, :root NAME=EXPR others");
    } else {
        hx_text_puts(ret, "Root bins of ");
        hx_text_count(ret, names);
        hx_text_puts(ret, names == 1 ? " named root" : " named roots");
    }
    struct hx_text window = {0};
    hx_matrix_window(pane, &window);
    if (window.n)
        hx_text_putf(ret, ", %s shown", window.s);
    hx_text_free(&window);
    if (ui->revising)
        hx_text_puts(ret, "; being worked out");
    else if (names)
        hx_text_puts(ret, "; :root NAME=EXPR adds one, :unroot NAME removes");
}

static bool bin_row_set(const struct hx_pane *pane, size_t row, struct hx_of *ret)
{
    if (is_offer(pane, row))
        return false;
    *ret = (struct hx_of){HX_SUBSET_BIN, hx_table_text(&pane->rows, row, "roots"), NULL, 0};
    return true;
}

static hx_error *open_bin_row(struct hx_ui *ui, struct hx_pane *pane, size_t row)
{
    struct hx_of bin;
    if (bin_row_set(pane, row, &bin))
        return hx_ui_open_of(ui, &hx_screen_bin, &bin);
    return hx_ui_choose_root(ui, hx_table_text(&pane->rows, row, "expr"));
}

static const char *const key[] = {"rank", "roots", NULL};

const struct hx_screen hx_screen_bins = {
    .name = "bins",
    .about = "bytes by the named roots that reach them",
    .digit = 3,
    .needs = HX_ANALYSE_BINS,
    .lacks = "Root bins are",
    .columns = columns,
    .key = key,
    .sort = "bytes",
    .differences = differences,
    .differences_sort = HX_DIFFERENCE_SORT,
    .difference = &difference,
    .picture = &hx_matrix_picture,
    .lay_out = lay_out_bins,
    .cell = bins_cell,
    .source = bins_source,
    .head = bins_title,
    .empty = "There are no objects, and so no bins.",
    .open = open_bin_row,
    .of = bin_row_set,
};
