/* screen_objects.c - every object, or those of a subset: of a leak's kind, a retainer set, a
 * bin, a type, an allocation site. */
#include "ui/app.h"
#include "ui/data/call_label.h"
#include "ui/data/difference.h"
#include "ui/list/pane.h"
#include "layout/type_name.h"

#include <string.h>

/* References from roots are not among those "from objs"; R on a row tells them, too. */
static const struct hx_column columns[] = {
    {"address", NULL, HX_AS_HEX, 14, 0, NULL, NULL},
    {"bytes", NULL, HX_AS_BYTES, 8, 0, NULL, NULL},
    {"bytes", "of list", HX_AS_SHARE, 7, 6, "bytes", NULL},
    {"retained_bytes", "retained", HX_AS_BYTES, 9, 2, NULL, NULL},
    {"state", NULL, HX_AS_TEXT, 9, 3, NULL, NULL},
    {"type", NULL, HX_AS_TYPE, -12, 1, NULL, NULL},
    {"edges_in", "from objs", HX_AS_COUNT, 9, 4, NULL, NULL},
    {"edges_out", "to objs", HX_AS_COUNT, 8, 5, NULL, NULL},
    {"requested", NULL, HX_AS_COUNT, 9, 7, NULL, NULL},
    {0},
};

static const struct hx_column differences[] = {
    {"status", NULL, HX_AS_TEXT, 8, 0, NULL, NULL}, {"address", NULL, HX_AS_HEX, 14, 0, NULL, NULL},
    {"bytes", NULL, HX_AS_BYTES, 8, 0, NULL, NULL}, {"state", NULL, HX_AS_TEXT, 9, 2, NULL, NULL},
    {"type", NULL, HX_AS_TYPE, -12, 1, NULL, NULL}, {0},
};

struct hx_of hx_pane_of(const struct hx_pane *pane)
{
    return (struct hx_of){pane->subset, pane->text, pane->more, pane->id};
}

static void objects_source(const struct hx_pane *pane, int64_t snapshot, struct hx_source *ret)
{
    ret->view = "objects";
    struct hx_of of = hx_pane_of(pane);
    hx_of_where(&of, &ret->where);
    hx_of_facts(&of, snapshot, &ret->facts);
}

/* The site of a leak is among the facts of its objects. */
static void put_leak_site(const struct hx_pane *pane, bool ascii, struct hx_text *ret)
{
    const char *site = hx_table_text(&pane->facts, 0, "site");
    struct hx_text calls = {0};
    if (!*site)
        return;
    hx_text_calls(&calls, site);
    hx_text_puts(ret, ", allocated by ");
    hx_text_escape(ret, hx_text_str(&calls), calls.n, ascii);
    hx_text_free(&calls);
}

void hx_pane_put_subset(const struct hx_pane *pane, bool ascii, struct hx_text *ret)
{
    const char *state = hx_of_state(pane->text);
    switch (pane->subset) {
    case HX_SUBSET_THREAD:
    case HX_SUBSET_DOMINATED:
    case HX_SUBSET_NONE:
    case HX_SUBSET_ALL:
        hx_text_puts(ret, "Objects of the heap");
        break;
    case HX_SUBSET_KEY:
        hx_text_putf(ret, "Objects%s", hx_stored_censuses[pane->id].of);
        hx_pane_put_text(pane, ascii, ret);
        break;
    case HX_SUBSET_MODULE:
        hx_text_puts(ret, "Objects allocated by module ");
        hx_pane_put_text(pane, ascii, ret);
        break;
    case HX_SUBSET_STATE:
    case HX_SUBSET_LEAK:
        hx_text_putf(ret, "Objects that are %s",
                     strcmp(state, "definite") == 0   ? "lost (definite)"
                     : strcmp(state, "indirect") == 0 ? "lost with others (indirect)"
                     : strcmp(state, "possible") == 0 ? "possibly lost"
                                                      : state);
        if (pane->more) {
            hx_text_puts(ret, ", of type ");
            hx_text_escape(ret, pane->more, strlen(pane->more), ascii);
        }
        put_leak_site(pane, ascii, ret);
        break;
    case HX_SUBSET_SET:
        hx_text_puts(ret, "Objects ");
        if (pane->more) {
            hx_text_puts(ret, "held by ");
            hx_text_type_shown(ret, pane->more, ascii);
            hx_text_puts(ret, ", ");
        }
        hx_text_puts(ret, "retained by ");
        hx_pane_put_text(pane, ascii, ret);
        break;
    case HX_SUBSET_BIN:
        hx_text_puts(ret, "Objects of bin ");
        hx_pane_put_text(pane, ascii, ret);
        break;
    case HX_SUBSET_TYPE:
        hx_text_puts(ret, pane->text ? "Objects of type " : "Objects of unknown type");
        hx_pane_put_text(pane, ascii, ret);
        break;
    case HX_SUBSET_SITE:
    case HX_SUBSET_CCS:
    case HX_SUBSET_BELOW:
        hx_text_puts(ret, "Objects allocated by ");
        hx_pane_put_calls(pane, ascii, ret);
        hx_text_puts(ret, pane->subset == HX_SUBSET_BELOW ? " and what it called" : "");
        break;
    }
}

static void objects_title(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    char size[HX_HUMAN];
    hx_pane_put_subset(pane, !ui->term.utf8, ret);
    if (pane->other) {
        hx_difference_objects_head(pane, ret);
        return;
    }
    if (hx_table_int(&pane->facts, 0, "rows", -1) >= 0) { /* they were counted */
        hx_text_puts(ret, ": ");
        hx_text_count(ret, hx_table_int(&pane->facts, 0, "rows", 0));
        hx_text_putf(ret, ", %s in all",
                     hx_human_bytes((uint64_t)hx_table_int(&pane->facts, 0, "bytes", 0), size));
    }
}

static const char *const key[] = {"address", NULL};

const struct hx_screen hx_screen_objects = {
    .name = "objects",
    .brief = "objs",
    .about = "every object",
    .digit = 8,
    .columns = columns,
    .key = key,
    .sort = "bytes",
    .object = "address",
    .differences = differences,
    .fill_differences = hx_difference_objects_fill,
    .source = objects_source,
    .head = objects_title,
    .empty = "There are no objects here.",
};
