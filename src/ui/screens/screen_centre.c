/* screen_centre.c - one cost-centre stack: its costs, what it called, its largest objects, and its
 * bytes over the snapshots. */
#include "ui/app.h"
#include "ui/data/call_label.h"
#include "ui/list/pane.h"
#include "ui/list/tree.h"

#include <string.h>

#define CALLERS 6  /* so many functions of the way to it stand above the list */
#define SPARK   24 /* cells of the line of its bytes over time */

static const struct hx_column columns[] = {
    {"what", NULL, HX_AS_TEXT, 8, 0, NULL, NULL},
    {"label", "", HX_AS_TREE, -20, 0, NULL, NULL},
    {"about", "", HX_AS_SOURCE, -14, 3, NULL, NULL},
    {"bytes", "live", HX_AS_BYTES, 8, 0, NULL, NULL},
    {"own", "own live", HX_AS_BYTES, 8, 2, NULL, NULL},
    {"bytes", "", HX_AS_BAR, 6, 1, "most", NULL},
    {"objects", NULL, HX_AS_COUNT, 9, 4, NULL, NULL},
    {0},
};

static void centre_source(const struct hx_pane *pane, int64_t snapshot, struct hx_source *ret)
{
    const struct hx_query_args args = {.snapshot = snapshot, .id = pane->id, .limit = CALLERS + 2};
    hx_query_put(HX_QUERY_ccs, &args, &ret->sql);
    hx_query_put(HX_QUERY_ccs_facts, &args, &ret->facts);
}

/* "1.2M in 5,000 objects" */
static void put_centre_sum(const struct hx_table *facts, const char *bytes, const char *objects,
                           struct hx_text *ret)
{
    char size[HX_HUMAN];
    int64_t n = hx_table_int(facts, 0, objects, -1), sum = hx_table_int(facts, 0, bytes, 0);
    hx_text_puts(ret, hx_human_bytes(sum > 0 ? (uint64_t)sum : 0, size));
    if (n < 0) /* nobody counted them */
        return;
    hx_text_puts(ret, " in ");
    hx_text_count(ret, n);
    hx_text_puts(ret, n == 1 ? " object" : " objects");
}

static void put_costs(const struct hx_table *facts, struct hx_text *ret)
{
    hx_text_puts(ret, "\nlive: ");
    put_centre_sum(facts, "inherited_live_bytes", "inherited_live_objects", ret);
    hx_text_puts(ret, ", of its own ");
    put_centre_sum(facts, "live_bytes", "live_objects", ret);
    if (hx_table_at(facts, 0, "alloc_bytes")->type == HX_VALUE_INT) {
        hx_text_puts(ret, "\nallocated so far: ");
        put_centre_sum(facts, "inherited_alloc_bytes", "inherited_alloc_objects", ret);
        hx_text_puts(ret, ", of its own ");
        put_centre_sum(facts, "alloc_bytes", "alloc_objects", ret);
        hx_text_puts(ret, "\nfreed of its own: ");
        put_centre_sum(facts, "freed_bytes", "freed_objects", ret);
    }
    if (hx_table_at(facts, 0, "retained_bytes")->type == HX_VALUE_INT) {
        hx_text_puts(ret, "\nretained by its own: ");
        put_centre_sum(facts, "retained_bytes", "retained_objects", ret);
    }
    if (hx_table_at(facts, 0, "entries")->type == HX_VALUE_INT) {
        hx_text_puts(ret, "\nentered: ");
        hx_text_count(ret, hx_table_int(facts, 0, "entries", 0));
    }
}

/* Its bytes in each snapshot, as a line of heights. */
static void put_over_time(const struct hx_table *facts, bool ascii, struct hx_text *ret)
{
    const char *numbers = hx_table_text(facts, 0, "over_time");
    char size[HX_HUMAN];
    int64_t most = hx_table_int(facts, 0, "most", 0);
    if (!strchr(numbers, ' ') || most <= 0)
        return; /* one snapshot, or nothing in any of them */
    hx_text_puts(ret, "\nlive over all snapshots: ");
    hx_text_spark_of(ret, numbers, SPARK, ascii);
    hx_text_putf(ret, " most %s", hx_human_bytes((uint64_t)most, size));
}

/* What the marks of its name mean. */
static void put_marks(const struct hx_table *facts, struct hx_text *ret)
{
    if (strcmp(hx_table_text(facts, 0, "kind"), "caf") == 0)
        hx_text_puts(ret, "\nwhat the module's initialisers do, before main and when it is loaded");
    if (hx_table_int(facts, 0, "recursive", 0))
        hx_text_puts(ret, "\nrecursive: what deeper calls of it do is counted here, too");
}

/* "< serve < main" */
static void put_callers(const struct hx_table *facts, bool ascii, struct hx_text *ret)
{
    int64_t depth = hx_table_int(facts, 0, "depth", 0);
    for (size_t i = 1; i < facts->n_rows && i <= CALLERS; i++) {
        struct hx_text call = {0};
        hx_text_calls(&call, hx_table_text(facts, i, "caller"));
        hx_text_puts(ret, i > 1 ? " < " : "\ncalled by ");
        hx_text_escape(ret, hx_text_str(&call), call.n, ascii);
        hx_text_free(&call);
    }
    if (depth > CALLERS + 1)
        hx_text_puts(ret, " < ...");
}

static void centre_title(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    bool ascii = !ui->term.utf8;
    const struct hx_table *facts = &pane->facts;
    const char *module = hx_table_text(facts, 0, "module");
    const char *source = hx_source_file(hx_table_text(facts, 0, "source"));
    bool known = pane->loaded && !pane->problem && facts->n_rows;
    hx_text_puts(ret, "Cost centre ");
    if (known)
        hx_node_name(facts, 0, ascii, ret);
    else
        hx_pane_put_calls(pane, ascii, ret);
    if (!known)
        return;
    if (*source) {
        hx_text_puts(ret, " at ");
        hx_text_escape(ret, source, strlen(source), ascii);
    }
    if (*module && strcmp(hx_table_text(facts, 0, "kind"), "caf") != 0) {
        hx_text_puts(ret, " (");
        hx_text_escape(ret, module, strlen(module), ascii);
        hx_text_putc(ret, ')');
    }
    if (hx_table_at(facts, 0, "inherited_live_bytes")->type == HX_VALUE_INT)
        put_costs(facts, ret);
    else
        hx_text_puts(ret, "\nnothing in this snapshot");
    put_over_time(facts, ascii, ret);
    put_marks(facts, ret);
    put_callers(facts, ascii, ret);
}

static hx_error *open_centre_row(struct hx_ui *ui, struct hx_pane *pane, size_t row)
{
    const struct hx_table *rows = &pane->rows;
    int64_t id = hx_table_int(rows, row, "ccs_id", 0);
    uint64_t address;
    if (hx_pane_object(pane, row, &address))
        return hx_ui_open_object(ui, address);
    if (id)
        return hx_ui_open_of(
            ui, &hx_screen_centre,
            &(struct hx_of){HX_SUBSET_CCS, hx_table_text(rows, row, "label"), NULL, id});
    hx_ui_set_snapshot(ui, hx_table_int(rows, row, "number", ui->snapshot));
    return NULL;
}

/* Of what it called everything; of any other row its own. */
static bool centre_row_set(const struct hx_pane *pane, size_t row, struct hx_of *ret)
{
    int64_t id = hx_table_int(&pane->rows, row, "ccs_id", 0);
    *ret = id ? (struct hx_of){HX_SUBSET_BELOW, hx_table_text(&pane->rows, row, "label"), NULL, id}
              : (struct hx_of){HX_SUBSET_CCS, pane->text, NULL, pane->id};
    return true;
}

static const char *const key[] = {"what", "position", "object", NULL};

const struct hx_screen hx_screen_centre = {
    .name = "centre",
    .about = "a cost centre: what it called, objects, bytes over time",
    .digit = -1,
    .by_argument = true,
    .columns = columns,
    .key = key,
    .object = "object",
    .source = centre_source,
    .head = centre_title,
    .open = open_centre_row,
    .of = centre_row_set,
};
