/* screen_dominated.c - the objects that one dominates immediately: a level of the tree. */
#include "ui/app.h"

#include <inttypes.h>
#include <string.h>

static const struct hx_column columns[] = {
    {"address", NULL, HX_AS_HEX, 14, 0, NULL, NULL},
    {"bytes", NULL, HX_AS_BYTES, 8, 3, NULL, NULL},
    {"retained_bytes", "retained", HX_AS_BYTES, 9, 0, NULL, NULL},
    {"retained_bytes", "of it", HX_AS_SHARE, 7, 4, "retained_bytes", NULL},
    {"retained_bytes", "", HX_AS_BAR, -8, 2, "retained_bytes", NULL},
    {"sure_retained_bytes", "surely", HX_AS_BYTES, 8, 5, NULL, NULL},
    {"retained_objects", "objects", HX_AS_COUNT, 9, 6, NULL, NULL},
    {"type", NULL, HX_AS_TEXT, -12, 1, NULL, NULL},
    {0},
};

static void source(const struct hx_pane *pane, int64_t snapshot, struct hx_source *ret)
{
    int64_t address = (int64_t)pane->address;
    ret->view = "objects";
    hx_text_putf(&ret->where, "dominator = %" PRId64, address);
    hx_text_putf(&ret->facts,
                 "SELECT (SELECT count(*) FROM objects WHERE snapshot = %" PRId64
                 " AND dominator = %" PRId64 ") AS rows, o.* FROM snapshots s LEFT JOIN objects o"
                 " ON o.snapshot = s.snapshot AND o.address = %" PRId64
                 " WHERE s.snapshot = %" PRId64,
                 snapshot, address, address, snapshot);
}

static void head(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    const struct hx_table *facts = &pane->facts;
    char size[HX_HUMAN];
    hx_text_putf(ret, "Freed with 0x%" PRIx64, pane->address);
    if (!pane->loaded || pane->problem)
        return;
    const char *type = hx_table_text(facts, 0, "type");
    int64_t retained = hx_table_int(facts, 0, "retained_bytes", -1);
    if (*type) {
        hx_text_putc(ret, ' ');
        hx_text_escape(ret, type, strlen(type), !ui->term.utf8);
    }
    if (retained >= 0) {
        hx_text_putf(ret, ": %s in ", hx_human_bytes((uint64_t)retained, size));
        hx_text_count(ret, hx_table_int(facts, 0, "retained_objects", 0));
        hx_text_putf(ret, " objects with itself (%s)",
                     hx_human_bytes((uint64_t)hx_table_int(facts, 0, "bytes", 0), size));
    }
}

static const char *const key[] = {"address", NULL};

const struct hx_screen hx_screen_dominated = {
    .name = "dominated",
    .about = "the objects that an object dominates immediately",
    .digit = -1,
    .by_argument = true,
    .needs = HX_ANALYSE_RETAINED,
    .lacks = "Dominators are",
    .columns = columns,
    .key = key,
    .sort = "retained_bytes",
    .object = "address",
    .source = source,
    .head = head,
    .empty = "It dominates nothing in this snapshot; R shows the object.",
    .open = hx_ui_open_dominated,
    .objects = hx_ui_open_dominated,
};
