/* screen_sites.c - bytes by the recorded stack that allocated them: all, or those of a cost centre
 * and what it called. */
#include "ui/app.h"
#include "ui/data/difference.h"
#include "ui/list/pane.h"

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
    .census = "site",
    .differences = differences,
    .source = hx_census_source,
    .head = sites_title,
    .empty = HX_UI_NOT_RECORDED,
    .open = hx_ui_open_objects,
    .of = site_row_set,
};
