/* screen_holder.c - what one holder holds, by who else reaches it: retainer sets. */
#include "ui/app.h"
#include "ui/data/difference.h"
#include "ui/list/pane.h"
#include "layout/type_name.h"

#include <string.h>

static const struct hx_column columns[] = {
    {"bytes", NULL, HX_AS_BYTES, 8, 0, NULL, NULL},
    {"bytes", "of it", HX_AS_SHARE, 6, 3, "bytes", NULL},
    {"bytes", "", HX_AS_BAR, 6, 4, "bytes", NULL},
    {"objects", NULL, HX_AS_COUNT, 9, 2, NULL, NULL},
    {"others", "reached by, too", HX_AS_NAMES, -20, 0, NULL, NULL},
    {"enters", "how", HX_AS_NAMES, -20, 1, NULL, NULL},
    {0},
};

static const struct hx_column differences[] = {
    {"status", NULL, HX_AS_TEXT, 8, 0, NULL, NULL},
    {"bytes_delta", "change", HX_AS_CHANGE, 8, 0, NULL, NULL},
    {"bytes_a", "then", HX_AS_BYTES, 6, 3, NULL, NULL},
    {"bytes_b", "now", HX_AS_BYTES, 6, 2, NULL, NULL},
    {"objects_delta", "objects", HX_AS_COUNT_CHANGE, 10, 4, NULL, NULL},
    {"label", "retained by", HX_AS_NAMES, -24, 0, NULL, "brief"},
    {0},
};

static void holder_source(const struct hx_pane *pane, int64_t snapshot, struct hx_source *ret)
{
    const struct hx_query_args args = {
        .snapshot = snapshot, .other = pane->other, .text = pane->text};
    hx_query_put(pane->other ? HX_QUERY_holder_changes : HX_QUERY_holder_sets, &args, &ret->sql);
    hx_query_put(HX_QUERY_holder_facts, &args, &ret->facts);
}

/* "alone 1.20M, contested 64.0K by g_index"; "12 references lead into it" */
static void put_others(const struct hx_table *facts, bool ascii, struct hx_text *ret)
{
    char size[HX_HUMAN];
    int64_t alone = hx_table_int(facts, 0, "alone_bytes", -1);
    int64_t contested = hx_table_int(facts, 0, "contested_bytes", 0);
    int64_t entries = hx_table_int(facts, 0, "entries", -1);
    if (alone >= 0)
        hx_text_putf(ret, "\nalone %s", hx_human_bytes((uint64_t)alone, size));
    if (contested > 0) {
        hx_text_putf(ret, "%scontested %s by ", alone >= 0 ? ", " : "\n",
                     hx_human_bytes((uint64_t)contested, size));
        hx_text_type_shown(ret, hx_table_text(facts, 0, "other"), ascii);
    }
    if (entries >= 0) {
        hx_text_puts(ret, "\n");
        hx_text_count(ret, entries);
        hx_text_puts(ret, entries == 1 ? " reference leads" : " references lead");
        hx_text_puts(ret, " into it");
    }
}

static void holder_title(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    const struct hx_table *facts = &pane->facts;
    const char *kind = hx_table_text(facts, 0, "kind");
    const char *module = hx_table_text(facts, 0, "module");
    char size[HX_HUMAN];
    hx_text_puts(ret, "Held by ");
    hx_pane_put_text(pane, !ui->term.utf8, ret);
    int64_t bytes = hx_table_int(facts, 0, "bytes", -1);
    int64_t heap = hx_table_int(facts, 0, "heap_bytes", 0);
    if (bytes < 0) {
        if (pane->loaded && !pane->problem)
            hx_text_puts(ret, "\nnothing in this snapshot");
        return;
    }
    if (*kind && strcmp(kind, "thread") != 0) /* a thread's name says so */
        hx_text_putf(ret, ", %s", kind);
    if (*module) {
        hx_text_puts(ret, " of ");
        hx_text_escape(ret, module, strlen(module), !ui->term.utf8);
    }
    hx_text_putf(ret, "\n%s in ", hx_human_bytes((uint64_t)bytes, size));
    hx_text_count(ret, hx_table_int(facts, 0, "objects", 0));
    hx_text_puts(ret, " objects (o lists them)");
    if (heap > 0)
        hx_text_putf(ret, ", %.1f%% of the heap", 100.0 * (double)bytes / (double)heap);
    if (pane->other) {
        hx_text_putf(ret, "\nagainst snapshot %lld: ", (long long)pane->other);
        hx_text_change(ret, bytes - hx_table_int(facts, 0, "before", 0));
        return;
    }
    put_others(facts, !ui->term.utf8, ret);
    hx_ui_put_hints(facts, !ui->term.utf8, ret);
}

static const char *row_label(const struct hx_pane *pane, size_t row)
{
    return hx_table_text(&pane->rows, row, "brief");
}

/* What the holder holds of the set. */
static bool holder_set_row_set(const struct hx_pane *pane, size_t row, struct hx_of *ret)
{
    *ret = (struct hx_of){HX_SUBSET_SET, row_label(pane, row), pane->text,
                          hx_table_int(&pane->rows, row, "set_id", -1)};
    return ret->id >= 0;
}

/* All of the set. */
static hx_error *open_holder_set_row(struct hx_ui *ui, struct hx_pane *pane, size_t row)
{
    struct hx_of set;
    if (!holder_set_row_set(pane, row, &set))
        return hx_error_new(HX_E_ABSENT, "this row", "o lists its objects",
                            "no retainer sets were worked out");
    set.more = NULL;
    return hx_ui_open_of(ui, &hx_screen_set, &set);
}

static const char *const key[] = {"set_id", NULL};

const struct hx_screen hx_screen_holder = {
    .name = "holder",
    .about = "what a holder holds, by who else reaches it",
    .digit = -1,
    .by_argument = true,
    .needs = HX_ANALYSE_HOLDERS,
    .lacks = "Holders are",
    .columns = columns,
    .key = key,
    .sort = "bytes",
    .differences = differences,
    .differences_sort = HX_DIFFERENCE_SORT,
    .source = holder_source,
    .head = holder_title,
    .empty = "It holds nothing in this snapshot.",
    .open = open_holder_set_row,
    .of = holder_set_row_set,
};
