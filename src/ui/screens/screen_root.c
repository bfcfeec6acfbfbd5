/* screen_root.c - one root: the objects that its words point to. */
#include "ui/app.h"
#include "ui/list/pane.h"
#include "layout/type_name.h"

#include <inttypes.h>
#include <string.h>

static const struct hx_column columns[] = {
    {"offset", NULL, HX_AS_OFFSET, 10, 2, NULL, NULL},
    {"target", "object", HX_AS_HEX, 14, 0, NULL, NULL},
    {"kind", "points", HX_AS_TEXT, 8, 1, NULL, NULL},
    {"bytes", NULL, HX_AS_BYTES, 8, 0, NULL, NULL},
    {"type", NULL, HX_AS_TYPE, -10, 3, NULL, NULL},
    {"state", NULL, HX_AS_TEXT, 9, 5, NULL, NULL},
    {"edges_out", "refs out", HX_AS_COUNT, 9, 4, NULL, NULL},
    {0},
};

/* Roots have no number that lasts: in another snapshot it is found by its name. */
static void root_source(const struct hx_pane *pane, int64_t snapshot, struct hx_source *ret)
{
    const struct hx_query_args args = {
        .snapshot = snapshot, .id = pane->id, .other = pane->from == snapshot ? 0 : pane->from};
    ret->scattered = true;
    hx_query_put(HX_QUERY_root, &args, &ret->sql);
    hx_query_put(HX_QUERY_root_facts, &args, &ret->facts);
}

void hx_ui_put_hints(const struct hx_table *facts, bool ascii, struct hx_text *ret)
{
    const char *in = hx_table_text(facts, 0, "names_in");
    const char *near = hx_table_text(facts, 0, "near");
    const char *reaches = hx_table_text(facts, 0, "reaches");
    if (!*in)
        return;
    hx_text_puts(ret, "\nits name: ");
    hx_text_escape(ret, in, strlen(in), ascii);
    if (*reaches) {
        hx_text_puts(ret, "\nreaches ");
        hx_text_type_shown(ret, reaches, ascii);
    }
    if (*near) {
        hx_text_puts(ret, "\nnearest symbol: ");
        hx_text_type_shown(ret, near, ascii);
    }
}

static void root_title(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    bool ascii = !ui->term.utf8;
    char size[HX_HUMAN];
    const struct hx_table *facts = &pane->facts;
    hx_text_puts(ret, "Root ");
    const char *name = hx_table_text(facts, 0, "name");
    if (*name)
        hx_text_escape(ret, name, strlen(name), ascii);
    else /* not loaded yet, or not in this snapshot */
        hx_pane_put_text(pane, ascii, ret);
    if (!facts->n_rows)
        return;
    const char *module = hx_table_text(facts, 0, "module");
    if (*module) {
        hx_text_puts(ret, " of ");
        hx_text_escape(ret, module, strlen(module), ascii);
    }
    hx_text_putf(ret, "\n%s", hx_table_text(facts, 0, "kind"));
    int64_t address = hx_table_int(facts, 0, "address", 0);
    if (address)
        hx_text_putf(ret, " at 0x%" PRIx64, (uint64_t)address);
    hx_text_puts(ret, ", ");
    hx_text_count(ret, hx_table_int(facts, 0, "size", 0));
    int64_t objects = hx_table_int(facts, 0, "direct_objects", 0);
    hx_text_puts(ret, " bytes; points to ");
    hx_text_count(ret, objects);
    hx_text_puts(ret, objects == 1 ? " object" : " objects");
    int64_t retained = hx_table_int(facts, 0, "retained_bytes", -1);
    if (retained >= 0)
        hx_text_putf(ret, ", retains %s", hx_human_bytes((uint64_t)retained, size));
    hx_ui_put_hints(facts, ascii, ret);
}

static const char *const key[] = {"offset", "target", NULL};

const struct hx_screen hx_screen_root = {
    .name = "root",
    .about = "the objects that a root points to",
    .digit = -1,
    .by_argument = true,
    .columns = columns,
    .key = key,
    .object = "target",
    .source = root_source,
    .head = root_title,
    .empty = "This root points to no object in this snapshot.",
};
