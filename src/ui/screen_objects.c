/* screen_objects.c - every object, or those of one state (the pane's text). */
#include "ui/app.h"

#include "model/graph.h"

#include <inttypes.h>
#include <string.h>

static const struct hx_column columns[] = {
    {"address", NULL, HX_AS_HEX, 14, 0, NULL, NULL},
    {"bytes", NULL, HX_AS_BYTES, 8, 0, NULL, NULL},
    {"bytes", "of list", HX_AS_SHARE, 7, 4, "bytes", NULL},
    {"state", NULL, HX_AS_TEXT, 9, 1, NULL, NULL},
    {"edges_in", "refs in", HX_AS_COUNT, 9, 2, NULL, NULL},
    {"edges_out", "refs out", HX_AS_COUNT, 9, 3, NULL, NULL},
    {0},
};

/* Only words of the model get into a statement. */
static const char *state_of(const struct hx_pane *pane)
{
    for (int i = HX_STATE_NONE + 1; pane->text && i < HX_STATES; i++)
        if (strcmp(hx_state_name((enum hx_state)i), pane->text) == 0)
            return hx_state_name((enum hx_state)i);
    return NULL;
}

static void source(const struct hx_pane *pane, int64_t snapshot, struct hx_source *ret)
{
    const char *state = state_of(pane);
    ret->view = "objects";
    if (state) {
        hx_text_putf(&ret->where, "state = '%s'", state);
        hx_text_putf(&ret->facts,
                     "SELECT coalesce(sum(objects), 0) AS rows, coalesce(sum(bytes), 0) AS bytes"
                     " FROM leaks WHERE snapshot = %" PRId64 " AND kind = '%s'",
                     snapshot, state);
    } else {
        hx_text_putf(&ret->facts,
                     "SELECT heap_objects AS rows, heap_bytes AS bytes FROM snapshots"
                     " WHERE snapshot = %" PRId64,
                     snapshot);
    }
}

static void head(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    (void)ui;
    char size[HX_HUMAN];
    const char *state = state_of(pane);
    if (state)
        hx_text_putf(ret, "Objects that are %s",
                     strcmp(state, "definite") == 0   ? "lost (definite)"
                     : strcmp(state, "indirect") == 0 ? "lost with others (indirect)"
                     : strcmp(state, "possible") == 0 ? "possibly lost"
                                                      : state);
    else
        hx_text_puts(ret, "Objects of the heap");
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
    .about = "every object",
    .digit = 8,
    .columns = columns,
    .key = key,
    .sort = "bytes",
    .object = "address",
    .source = source,
    .head = head,
    .empty = "There are no objects here.",
};
