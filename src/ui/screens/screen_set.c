/* screen_set.c - one retainer set, or one bin: its members, its largest objects, and its bytes
 * over the snapshots. */
#include "ui/app.h"
#include "ui/list/pane.h"

#include <string.h>

static const struct hx_column columns[] = {
    {"what", NULL, HX_AS_TEXT, 8, 0, NULL, NULL},
    {"shown", "", HX_AS_TYPE, -23, 0, NULL, NULL},
    {"about", "", HX_AS_TEXT, -16, 3, NULL, NULL},
    {"bytes", NULL, HX_AS_BYTES, 8, 0, NULL, NULL},
    {"bytes", "", HX_AS_BAR, -8, 1, "most", NULL},
    {"objects", NULL, HX_AS_COUNT, 10, 2, NULL, NULL},
    {0},
};

static bool is_bin(const struct hx_pane *pane)
{
    return pane->subset == HX_SUBSET_BIN;
}

static void set_source(const struct hx_pane *pane, int64_t snapshot, struct hx_source *ret)
{
    const struct hx_query_args args = {
        .snapshot = snapshot, .id = pane->id, .text = is_bin(pane) ? pane->text : NULL};
    hx_query_put(HX_QUERY_set, &args, &ret->sql);
    hx_query_put(HX_QUERY_set_facts, &args, &ret->facts);
}

/* "Over 4 snapshots: .-=# first 12.8K, last 20.6K, most 20.6K" */
static void put_history_line(const struct hx_ui *ui, const struct hx_pane *pane,
                             struct hx_text *ret)
{
    static const char *const marks[] = {"first", "last", "most"};
    const struct hx_table *facts = &pane->facts;
    int64_t snapshots = hx_table_int(facts, 0, "snapshots", 0);
    struct hx_text words = {0};
    char size[HX_HUMAN];
    if (snapshots < 2)
        return;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        int64_t bytes = hx_table_int(facts, 0, marks[i], -1);
        if (bytes >= 0)
            hx_text_putf(&words, "%s%s %s", words.n ? ", " : "", marks[i],
                         hx_human_bytes((uint64_t)bytes, size));
    }
    hx_text_puts(ret, "\nOver ");
    hx_text_count(ret, snapshots);
    hx_text_puts(ret, " snapshots: ");
    int room = hx_term_columns() - 2 - (int)sizeof "Over 1,000,000 snapshots: " - (int)words.n;
    hx_text_spark_of(ret, hx_table_text(facts, 0, "history"), room, !ui->term.utf8);
    hx_text_putf(ret, " %s", hx_text_str(&words));
    hx_text_free(&words);
}

static void set_title(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    char size[HX_HUMAN];
    const struct hx_table *facts = &pane->facts;
    if (!is_bin(pane) && pane->id == 0) {
        hx_text_puts(ret, "Unreachable: retained by nobody");
    } else if (!is_bin(pane) && pane->id == 1) {
        hx_text_puts(ret, "Retained by many (:max-set 0 names them all)");
    } else {
        hx_text_puts(ret, is_bin(pane) ? "Bin " : "Retained by ");
        hx_pane_put_text(pane, !ui->term.utf8, ret);
    }
    int64_t bytes = hx_table_int(facts, 0, "bytes", -1);
    int64_t heap = hx_table_int(facts, 0, "heap_bytes", 0);
    if (!facts->n_rows || bytes < 0) {
        if (pane->loaded && !pane->problem)
            hx_text_puts(ret, "\nnothing in this snapshot");
        if (facts->n_rows)
            put_history_line(ui, pane, ret);
        return;
    }
    hx_text_putf(ret, "\n%s", hx_human_bytes((uint64_t)bytes, size));
    int64_t objects = hx_table_int(facts, 0, "objects", -1);
    if (objects >= 0) { /* else nobody counted them */
        hx_text_puts(ret, " in ");
        hx_text_count(ret, objects);
        hx_text_puts(ret, objects == 1 ? " object (o lists it)" : " objects (o lists them)");
    }
    if (heap > 0)
        hx_text_putf(ret, ", %.1f%% of the heap", 100.0 * (double)bytes / (double)heap);
    put_history_line(ui, pane, ret);
    int64_t only = hx_table_int(facts, 0, "only_pages", -1);
    if (only >= 0) {
        hx_text_puts(ret, "\nresident pages: ");
        hx_text_count(ret, only);
        hx_text_puts(ret, " of its own, ");
        hx_text_count(ret, hx_table_int(facts, 0, "shared_pages", 0));
        hx_text_puts(ret, " shared with others");
    }
}

static hx_error *open_set_row(struct hx_ui *ui, struct hx_pane *pane, size_t row)
{
    const struct hx_table *rows = &pane->rows;
    int64_t number = hx_table_int(rows, row, "number", 0);
    int64_t root = hx_table_int(rows, row, "root_id", -1);
    const char *label = hx_table_text(rows, row, "label");
    uint64_t address;
    if (hx_pane_object(pane, row, &address))
        return hx_ui_open_object(ui, address);
    if (number) {
        hx_ui_set_snapshot(ui, number);
        return NULL;
    }
    if (root >= 0)
        return hx_ui_open_text(ui, &hx_screen_root, label, root);
    if (strcmp(hx_table_text(rows, row, "kind"), "type") == 0)
        return hx_ui_open_of(ui, &hx_screen_objects,
                             &(struct hx_of){HX_SUBSET_TYPE, label, NULL, 0});
    return hx_ui_open_text(ui, &hx_screen_details, NULL, 0);
}

/* From a retainer to the largest object that it retains. */
static hx_error *why(struct hx_ui *ui, struct hx_pane *pane, size_t row)
{
    const struct hx_table *rows = &pane->rows;
    const char *label = hx_table_text(rows, row, "label");
    uint64_t address = 0;
    if (strcmp(hx_table_text(rows, row, "what"), "retainer") != 0)
        return hx_error_new(HX_E_ABSENT, "this row", "choose a retainer or an object",
                            "stands for no object");
    if (strcmp(hx_table_text(rows, row, "kind"), "type") == 0)
        return hx_error_new(HX_E_ABSENT, "this row", "Enter lists them",
                            "stands for all objects of a type");
    size_t i = 0;
    while (i < rows->n_rows && !hx_pane_object(pane, i, &address))
        i++;
    if (i == rows->n_rows)
        return hx_error_new(HX_E_ABSENT, "this set", "o lists its objects",
                            "has no object in this list");
    struct hx_pane *chains;
    HX_TRY(hx_pane_create(ui, &hx_screen_why, &chains));
    chains->address = address;
    chains->more = strdup(hx_table_text(&pane->facts, 0, "scheme"));
    hx_error *error = chains->more ? hx_pane_set_text(chains, label) : hx_error_nomem();
    if (error) {
        hx_pane_destroy(chains);
        return error;
    }
    return hx_ui_push(ui, chains);
}

static bool set_row_set(const struct hx_pane *pane, size_t row, struct hx_of *ret)
{
    (void)row;
    *ret = hx_pane_of(pane);
    return true;
}

static const char *const key[] = {"what", "position", "object", NULL};

const struct hx_screen hx_screen_set = {
    .name = "set",
    .about = "a retainer set: members, objects, bytes over time",
    .digit = -1,
    .by_argument = true,
    .needs = HX_ANALYSE_RETAINERS,
    .lacks = "Retainer sets are",
    .columns = columns,
    .key = key,
    .object = "object",
    .source = set_source,
    .head = set_title,
    .open = open_set_row,
    .of = set_row_set,
    .why = why,
};

const struct hx_screen hx_screen_bin = {
    .name = "bin",
    .about = "a bin: named roots, objects, bytes over time",
    .digit = -1,
    .by_argument = true,
    .needs = HX_ANALYSE_BINS,
    .lacks = "Root bins are",
    .columns = columns,
    .key = key,
    .object = "object",
    .source = set_source,
    .head = set_title,
    .open = open_set_row,
    .of = set_row_set,
};
