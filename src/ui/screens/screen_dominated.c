/* screen_dominated.c - a level of the dominator tree: the objects that one dominates immediately,
 * or all that hang directly under the roots. */
#include "ui/app.h"
#include "ui/list/pane.h"
#include "layout/type_name.h"

#include <inttypes.h>
#include <string.h>

const struct hx_column hx_dominated_columns[] = {
    {"address", NULL, HX_AS_HEX, 14, 0, NULL, NULL},
    {"retained_bytes", "retained", HX_AS_BYTES, 9, 0, NULL, NULL},
    {"retained_bytes", "", HX_AS_BAR, -8, 2, "all_bytes", NULL},
    {"retained_bytes", "share", HX_AS_SHARE, 6, 4, "all_bytes", NULL},
    {"sure_retained_bytes", "sure refs", HX_AS_BYTES, 9, 5, NULL, NULL},
    {"retained_objects", "objects", HX_AS_COUNT, 9, 3, NULL, NULL},
    {"bytes", "own", HX_AS_BYTES, 8, 6, NULL, NULL},
    {"type", NULL, HX_AS_TYPE, -12, 1, NULL, NULL},
    {0},
};

void hx_dominated_source(const struct hx_pane *pane, int64_t snapshot, struct hx_source *ret)
{
    const struct hx_query_args args = {.snapshot = snapshot, .address = pane->address};
    if (pane->id) { /* all of a large level: the object table finds windows of it in any order */
        ret->view = "objects";
        hx_of_where(&(struct hx_of){.subset = HX_SUBSET_DOMINATED, .id = (int64_t)pane->address},
                    &ret->where);
        hx_query_put(HX_QUERY_level_facts, &args, &ret->facts);
        return;
    }
    ret->like = "objects";
    hx_query_put(HX_QUERY_dominated, &args, &ret->sql);
    hx_query_put(HX_QUERY_dominated_facts, &args, &ret->facts);
}

/* " / 0x55d0c0de (cache)" for each level down to that of a pane, from the one with that number on.
 */
static void put_levels(const struct hx_ui *ui, const struct hx_pane *pane, size_t from,
                       struct hx_text *ret)
{
    for (size_t i = from; i < ui->open.n; i++) {
        const struct hx_pane *level = ui->open.v[i];
        if (level->screen == &hx_screen_dominated && level->address) {
            const char *type = hx_table_text(&level->facts, 0, "type");
            hx_text_putf(ret, " / 0x%" PRIx64, level->address);
            if (*type) {
                hx_text_puts(ret, " (");
                hx_text_type_shown(ret, type, !ui->term.utf8);
                hx_text_putc(ret, ')');
            }
        }
        if (level == pane)
            return;
    }
}

/* How one came here; the first levels are left out where the last ones would not fit. */
static void put_dominator_path(const struct hx_ui *ui, const struct hx_pane *pane, int room,
                               struct hx_text *ret)
{
    struct hx_text path = {0};
    hx_text_puts(&path, "roots");
    put_levels(ui, pane, 0, &path);
    for (size_t from = 1; from < ui->at + 1 && hx_text_width(hx_text_str(&path)) > room; from++) {
        hx_text_clear(&path);
        hx_text_puts(&path, "..");
        put_levels(ui, pane, from, &path);
    }
    hx_text_puts(ret, hx_text_str(&path));
    hx_text_free(&path);
}

/* What the rows add up to with the object's own bytes. */
static void put_dominated_sum(const struct hx_pane *pane, struct hx_text *ret)
{
    char all[HX_HUMAN], own[HX_HUMAN], below[HX_HUMAN];
    const struct hx_table *facts = &pane->facts;
    int64_t retained = hx_table_int(facts, 0, "all_bytes", -1),
            bytes = hx_table_int(facts, 0, "own", 0);
    if (retained < 0) {
        hx_text_puts(ret, "\nnot reachable in this snapshot: it retains nothing");
        return;
    }
    hx_text_putf(ret, "\n%s in ", hx_human_bytes((uint64_t)retained, all));
    hx_text_count(ret, hx_table_int(facts, 0, "all_objects", 0));
    hx_text_puts(ret, " objects");
    if (pane->address)
        hx_text_putf(ret, ": %s of its own and %s below", hx_human_bytes((uint64_t)bytes, own),
                     hx_human_bytes((uint64_t)(retained > bytes ? retained - bytes : 0), below));
    hx_text_puts(ret, "; bar: retained");
}

static void dominated_title(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    const struct hx_table *facts = &pane->facts;
    put_dominator_path(ui, pane, hx_term_columns() - 2, ret);
    if (!pane->loaded || pane->problem || !facts->n_rows)
        return;
    if (pane->address && hx_table_at(facts, 0, "address")->type == HX_VALUE_NULL)
        hx_text_puts(ret, "\nno object of this snapshot");
    else
        put_dominated_sum(pane, ret);
}

static const char *const key[] = {"rest", "address", NULL};

const struct hx_screen hx_screen_dominated = {
    .name = "dominated",
    .about = "the objects that an object dominates immediately",
    .digit = -1,
    .by_argument = true,
    .needs = HX_ANALYSE_RETAINED,
    .lacks = "Dominators are",
    .columns = hx_dominated_columns,
    .key = key,
    .sort = "retained_bytes",
    .object = "address",
    .source = hx_dominated_source,
    .head = dominated_title,
    .empty = "Nothing is freed with it in this snapshot; R shows the object.",
    .open = hx_ui_open_dominated,
    .objects = hx_ui_open_dominated,
};
