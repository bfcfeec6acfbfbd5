/* screen_sites.c - bytes by the stack that allocated them. */
#include "ui/app.h"

#include <inttypes.h>
#include <string.h>

static const struct hx_column columns[] = {
    {"bytes", NULL, HX_AS_BYTES, 8, 0, NULL, NULL},
    {"bytes", "of heap", HX_AS_SHARE, 7, 2, "heap_bytes", NULL},
    {"objects", NULL, HX_AS_COUNT, 10, 1, NULL, NULL},
    {"retained_bytes", "retained", HX_AS_BYTES, 9, 3, NULL, NULL},
    {"site", "allocated by", HX_AS_CALLS, -36, 0, NULL, NULL},
    {"source", NULL, HX_AS_SOURCE, -18, 4, NULL, NULL},
    {0},
};

/* Several sites may have one label: they differ in the lines that the calls stand in. */
static void source(const struct hx_pane *pane, int64_t snapshot, struct hx_source *ret)
{
    (void)pane;
    ret->like = "sites";
    hx_text_putf(&ret->sql,
                 "SELECT s.snapshot AS snapshot, s.ccs_id AS ccs_id, s.bytes AS bytes,"
                 " s.objects AS objects, s.retained_bytes AS retained_bytes,"
                 " t.label AS site, t.module AS module, p.source AS source FROM hx_site s"
                 " LEFT JOIN hx_stack t ON t.ccs_id = s.ccs_id"
                 " LEFT JOIN hx_ccs c ON c.ccs_id = s.ccs_id"
                 " LEFT JOIN hx_place p ON p.place = c.place WHERE s.snapshot = %" PRId64,
                 snapshot);
    hx_text_putf(&ret->facts,
                 "SELECT (SELECT count(*) FROM hx_site WHERE snapshot = s.snapshot) AS rows,"
                 " (SELECT sum(x.bytes) FROM hx_site x JOIN hx_ccs c ON c.ccs_id = x.ccs_id"
                 " JOIN hx_place p ON p.place = c.place WHERE x.snapshot = s.snapshot"
                 " AND p.inlined >= 0) AS known, s.heap_bytes AS heap_bytes,"
                 " r.method AS method, r.events AS events, r.sample_bytes AS sample_bytes,"
                 " r.upper_bounds AS upper_bounds FROM snapshots s"
                 " LEFT JOIN hx_recording r ON r.snapshot = s.snapshot"
                 " WHERE s.snapshot = %" PRId64,
                 snapshot);
}

static void head(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    (void)ui;
    char size[HX_HUMAN];
    const struct hx_table *facts = &pane->facts;
    int64_t heap = hx_table_int(facts, 0, "heap_bytes", 0);
    int64_t events = hx_table_int(facts, 0, "events", -1);
    int64_t sample = hx_table_int(facts, 0, "sample_bytes", 0);
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

static hx_error *open_row(struct hx_ui *ui, struct hx_pane *pane, size_t row)
{
    return hx_ui_open_subset(ui, &hx_screen_objects, HX_SUBSET_SITE,
                             hx_table_text(&pane->rows, row, "site"), NULL,
                             hx_table_int(&pane->rows, row, "ccs_id", 0));
}

static const char *const key[] = {"ccs_id", NULL};

const struct hx_screen hx_screen_sites = {
    .name = "sites",
    .about = "bytes by the stack that allocated them",
    .digit = -1,
    .columns = columns,
    .key = key,
    .sort = "bytes",
    .source = source,
    .head = head,
    .empty = "Who allocated was not recorded: heapx run -- CMD, heapx record PID and"
             " heapx attach --record PID do it.",
    .open = open_row,
    .objects = open_row,
};
