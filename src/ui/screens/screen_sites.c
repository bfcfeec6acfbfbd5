/* screen_sites.c - bytes by the recorded stack that allocated them: all, or those of a cost centre
 * and what it called. */
#include "ui/app.h"
#include "ui/data/difference.h"

#include <inttypes.h>
#include <string.h>

static const struct hx_column columns[] = {
    {"bytes", NULL, HX_AS_BYTES, 8, 0, NULL, NULL},
    {"bytes", "of heap", HX_AS_SHARE, 7, 2, "heap_bytes", NULL},
    {"objects", NULL, HX_AS_COUNT, 10, 1, NULL, NULL},
    {"bytes_delta", "change", HX_AS_CHANGE, 7, 3, NULL, NULL},
    {"alloc_bytes", "allocated", HX_AS_BYTES, 9, 4, NULL, NULL},
    {"site", "allocated by", HX_AS_CALLS, -32, 0, NULL, NULL},
    {"source", NULL, HX_AS_SOURCE, -18, 5, NULL, NULL},
    {0},
};

static const struct hx_column differences[] = {
    HX_DIFFERENCE_COLUMNS,
    {"site", "allocated by", HX_AS_CALLS, -24, 0, NULL, NULL},
    {"source", NULL, HX_AS_SOURCE, -18, 6, NULL, NULL},
    {0},
};

static const char *const key[] = {"stack_id", NULL};

/* "(SELECT ...)": the stacks to list. Of a cost centre also those that have nothing any more. */
static void put_stacks(const struct hx_pane *pane, int64_t snapshot, struct hx_text *sql)
{
    if (pane->subset != HX_SUBSET_BELOW) {
        hx_text_putf(sql,
                     " (SELECT snapshot, stack_id, bytes, objects FROM hx_stack_site"
                     " WHERE snapshot = %" PRId64 ")",
                     snapshot);
        return;
    }
    hx_text_putf(sql,
                 " (SELECT %" PRId64 " AS snapshot, y.stack_id AS stack_id, x.bytes AS bytes,"
                 " x.objects AS objects FROM hx_attributed y LEFT JOIN hx_stack_site x"
                 " ON x.snapshot = %" PRId64 " AND x.stack_id = y.stack_id"
                 " LEFT JOIN hx_stack_cost z ON z.snapshot = %" PRId64
                 " AND z.stack_id = y.stack_id WHERE (x.stack_id IS NOT NULL OR z.stack_id"
                 " IS NOT NULL) AND y.ccs_id IN ",
                 snapshot, snapshot, snapshot);
    hx_below_sql(pane->id, sql);
    hx_text_puts(sql, ")");
}

/* Those that have bytes: what was freed before and after is no difference. */
static void put_site_rows_sql(const struct hx_pane *pane, int64_t snapshot, struct hx_text *sql)
{
    hx_text_puts(sql, "SELECT stack_id, bytes, objects FROM");
    put_stacks(pane, snapshot, sql);
    hx_text_puts(sql, " WHERE objects > 0 OR (objects IS NULL AND bytes IS NOT NULL)");
}

static void put_site_columns_sql(const struct hx_pane *pane, int64_t snapshot, struct hx_text *sql)
{
    (void)pane;
    (void)snapshot;
    hx_text_puts(sql, ", (SELECT t.label FROM hx_stack t WHERE t.stack_id = d.stack_id) AS site,"
                      " (SELECT a.ccs_id FROM hx_attributed a WHERE a.stack_id = d.stack_id)"
                      " AS ccs_id, (SELECT p.source FROM hx_frame c JOIN hx_place p"
                      " ON p.place = c.place WHERE c.frame_id = d.stack_id) AS source");
}

#define RECORDED                                                                                   \
    "SELECT EXISTS (SELECT 1 FROM hx_stack_site x WHERE x.snapshot = s.snapshot)"                  \
    " OR s.heap_objects = 0 FROM hx_snapshot s WHERE s.snapshot = "

static const struct hx_difference difference = {
    .title = "Allocation sites",
    .lacks = "allocation sites (nobody recorded them)",
    .total = "heap_bytes",
    .total_title = "heap",
    .total_objects = "heap_objects",
    .keys = key,
    .rows = put_site_rows_sql,
    .written = "stack_id, site",
    .more = put_site_columns_sql,
    .made = RECORDED,
};

static void put_site_change_sql(const struct hx_pane *pane, struct hx_text *sql)
{
    char then[128], made[256];
    snprintf(then, sizeof then,
             "(SELECT o.bytes FROM hx_stack_site o WHERE o.snapshot = %" PRId64
             " AND o.stack_id = s.stack_id)",
             pane->before);
    snprintf(made, sizeof made, "(" RECORDED "%" PRId64 ")", pane->before);
    hx_change_sql(pane->before, "coalesce(s.bytes, 0)", then, made, sql);
}

/* Several sites may have one label: they differ in the lines that the calls stand in. */
static void sites_source(const struct hx_pane *pane, int64_t snapshot, struct hx_source *ret)
{
    ret->like = "stacks";
    hx_text_puts(&ret->sql, "SELECT s.snapshot AS snapshot, s.stack_id AS stack_id,"
                            " a.ccs_id AS ccs_id, s.bytes AS bytes, s.objects AS objects,"
                            " k.alloc_bytes AS alloc_bytes, k.alloc_objects AS alloc_objects,"
                            " t.label AS site, t.module AS module, p.source AS source");
    put_site_change_sql(pane, &ret->sql);
    hx_text_puts(&ret->sql, " FROM");
    put_stacks(pane, snapshot, &ret->sql);
    hx_text_putf(&ret->sql,
                 " s LEFT JOIN hx_stack_cost k ON k.snapshot = %" PRId64
                 " AND k.stack_id = s.stack_id LEFT JOIN hx_stack t ON t.stack_id = s.stack_id"
                 " LEFT JOIN hx_attributed a ON a.stack_id = s.stack_id"
                 " LEFT JOIN hx_frame c ON c.frame_id = s.stack_id"
                 " LEFT JOIN hx_place p ON p.place = c.place",
                 snapshot);
    hx_text_putf(&ret->facts,
                 "SELECT (SELECT count(*) FROM hx_stack_site WHERE snapshot = s.snapshot) AS rows,"
                 " (SELECT sum(x.bytes) FROM hx_stack_site x"
                 " JOIN hx_frame c ON c.frame_id = x.stack_id JOIN hx_place p ON p.place = c.place "
                 "WHERE x.snapshot = s.snapshot"
                 " AND p.inlined >= 0) AS known, s.heap_bytes AS heap_bytes,"
                 " r.method AS method, r.events AS events, r.sample_bytes AS sample_bytes,"
                 " r.upper_bounds AS upper_bounds FROM snapshots s"
                 " LEFT JOIN hx_recording r ON r.snapshot = s.snapshot"
                 " WHERE s.snapshot = %" PRId64,
                 snapshot);
}

static void sites_title(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    char size[HX_HUMAN];
    const struct hx_table *facts = &pane->facts;
    int64_t heap = hx_table_int(facts, 0, "heap_bytes", 0);
    int64_t events = hx_table_int(facts, 0, "events", -1);
    int64_t sample = hx_table_int(facts, 0, "sample_bytes", 0);
    if (pane->subset == HX_SUBSET_BELOW) {
        hx_text_puts(ret, "Stacks of ");
        hx_pane_put_calls(pane, !ui->term.utf8, ret);
        hx_text_puts(ret, " and what it called");
        return;
    }
    hx_text_puts(ret, "Allocation sites");
    if (!pane->total || events < 0)
        return;
    if (heap > 0)
        hx_text_putf(ret, ": known for %.1f%% of the heap",
                     100.0 * (double)hx_table_int(facts, 0, "known", 0) / (double)heap);
    hx_text_puts(ret, "; ");
    hx_text_count(ret, events);
    hx_text_puts(ret, events == 1 ? " event" : " events");
    if (sample > 0)
        hx_text_putf(ret, ", one in %s", hx_human_bytes((uint64_t)sample, size));
    if (hx_table_int(facts, 0, "upper_bounds", 0))
        hx_text_puts(ret, "\nevents were lost, frees among them: see :screen losses");
}

static bool site_row_set(const struct hx_pane *pane, size_t row, struct hx_of *ret)
{
    *ret = (struct hx_of){HX_SUBSET_SITE, hx_table_text(&pane->rows, row, "site"), NULL,
                          hx_table_int(&pane->rows, row, "stack_id", 0)};
    return true;
}

const struct hx_screen hx_screen_sites = {
    .name = "sites",
    .about = "bytes by the stack that allocated them",
    .digit = -1,
    .columns = columns,
    .key = key,
    .sort = "bytes",
    .differences = differences,
    .differences_sort = HX_DIFFERENCE_SORT,
    .difference = &difference,
    .source = sites_source,
    .head = sites_title,
    .empty = HX_UI_NOT_RECORDED,
    .open = hx_ui_open_objects,
    .of = site_row_set,
};
