/* screen_losses.c - what could not be seen. */
#include "ui/app.h"

static const struct hx_column columns[] = {
    {"what", NULL, HX_AS_TEXT, 0, 0, NULL, NULL},
    {"count", NULL, HX_AS_COUNT, 11, 0, NULL, NULL},
    {"bytes", NULL, HX_AS_BYTES, 8, 1, NULL, NULL},
    {"address", NULL, HX_AS_HEX, 14, 2, NULL, NULL},
    {0},
};

static void losses_source(const struct hx_pane *pane, int64_t snapshot, struct hx_source *ret)
{
    (void)pane;
    ret->view = "losses";
    hx_query_put(HX_QUERY_count, HX_QUERY_ARGS(.view = "losses", .snapshot = snapshot),
                 &ret->facts);
}

static void losses_title(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    (void)pane;
    hx_text_puts(ret, "What could not be seen in this snapshot");
    hx_ui_put_partial(ui, ret);
}

static const char *const key[] = {"what", "address", NULL};

const struct hx_screen hx_screen_losses = {
    .name = "losses",
    .about = "what could not be seen",
    .digit = -1,
    .columns = columns,
    .key = key,
    .sort = "count",
    .source = losses_source,
    .head = losses_title,
    .empty = "Nothing was lost.",
};
