/* screen_object.c - one object: what it is, who allocated, retains and dominates it, what refers to
 * it and what it refers to. */
#include "ui/app.h"
#include "ui/list/pane.h"
#include "layout/type_name.h"

#include <inttypes.h>
#include <string.h>

#define FRAMES_READ 32 /* innermost calls, of which some stand above the list */
#define FRAMES      3

static const struct hx_column columns[] = {
    {"what", "", HX_AS_TEXT, 5, 0, NULL, NULL},
    {"other", "what, who, whom", HX_AS_NAME, -23, 0, NULL, NULL},
    {"offset", NULL, HX_AS_OFFSET, 8, 1, NULL, NULL},
    {"points", NULL, HX_AS_TEXT, 8, 3, NULL, NULL},
    {"bytes", NULL, HX_AS_BYTES, 7, 2, NULL, NULL},
    {"state", NULL, HX_AS_TEXT, 9, 5, NULL, NULL},
    {"type", NULL, HX_AS_TYPE, -8, 4, NULL, NULL},
    {0},
};

static void object_source(const struct hx_pane *pane, int64_t snapshot, struct hx_source *ret)
{
    const struct hx_query_args args = {
        .snapshot = snapshot, .address = pane->address, .limit = FRAMES_READ};
    ret->scattered = true;
    hx_query_put(HX_QUERY_object, &args, &ret->sql);
    hx_query_put(HX_QUERY_object_facts, &args, &ret->facts);
}

/* --- the title --- */

static void put_object_count(struct hx_text *ret, int64_t n)
{
    hx_text_count(ret, n);
    hx_text_puts(ret, n == 1 ? " object" : " objects");
}

/* What would go with it; more or less of it, where interior pointers do not count. */
static void put_retained(const struct hx_table *facts, struct hx_text *ret)
{
    char size[HX_HUMAN];
    int64_t retained = hx_table_int(facts, 0, "retained_bytes", -1);
    int64_t sure = hx_table_int(facts, 0, "sure_retained_bytes", -1);
    if (retained < 0)
        return;
    hx_text_putf(ret, "\nretains %s in ", hx_human_bytes((uint64_t)retained, size));
    put_object_count(ret, hx_table_int(facts, 0, "retained_objects", 0));
    if (sure < 0)
        return;
    int64_t objects = hx_table_int(facts, 0, "sure_retained_objects", 0);
    if (sure == retained && objects == hx_table_int(facts, 0, "retained_objects", 0))
        return;
    hx_text_putf(ret, "; by sure references %s in ", hx_human_bytes((uint64_t)sure, size));
    put_object_count(ret, objects);
}

/* The facts are an object's. */
void hx_ui_put_held(const struct hx_table *facts, bool ascii, struct hx_text *ret)
{
    static const char *const by[] = {
        [1] = "",
        [2] = ", through threads",
        [3] = ", through sparse words",
        [4] = ", through stray or interior words",
    };
    const char *holder = hx_table_text(facts, 0, "holder");
    const char *shape = hx_table_text(facts, 0, "shape");
    int64_t round = hx_table_int(facts, 0, "round", 0);
    if (*holder) {
        hx_text_puts(ret, "\nheld by ");
        hx_text_type_shown(ret, holder, ascii);
        if (round >= 1 && round <= 4)
            hx_text_putf(ret, "%s (round %" PRId64 ")", by[round], round);
    }
    if (*shape) {
        hx_text_puts(ret, "\nshape ");
        hx_text_escape(ret, shape, strlen(shape), ascii);
    }
}

/* "here since snapshot 2; references: ..." */
static void put_life_text(const struct hx_pane *pane, struct hx_text *ret)
{
    const struct hx_table *facts = &pane->facts;
    int64_t since = hx_table_int(facts, 0, "since", 0);
    int64_t earliest = hx_table_int(facts, 0, "earliest", 0);
    hx_text_puts(ret, "\n");
    if (since == pane->snapshot && since != earliest)
        hx_text_puts(ret, "new in this snapshot; ");
    else if (since && since != pane->snapshot)
        hx_text_putf(ret, "here %ssince snapshot %" PRId64 "%s; ",
                     since == hx_table_int(facts, 0, "looked", 0) && since != earliest ? "at least "
                                                                                       : "",
                     since, since == earliest ? ", the first" : "");
    int64_t roots = hx_table_int(facts, 0, "roots", 0), in = hx_table_int(facts, 0, "edges_in", 0);
    hx_text_puts(ret, "references from ");
    hx_text_count(ret, roots);
    hx_text_puts(ret, roots == 1 ? " root and " : " roots and ");
    put_object_count(ret, in);
    hx_text_puts(ret, ", to ");
    hx_text_count(ret, hx_table_int(facts, 0, "edges_out", 0));
}

/* Who allocated it: the innermost calls, from where the program left its own code on. */
static void put_frames(const struct hx_table *facts, bool ascii, struct hx_text *ret)
{
    struct hx_text calls = {0};
    size_t n = hx_frames_put(facts, FRAMES, "\n             ", ascii, &calls);
    int64_t depth = hx_table_int(facts, 0, "depth", 0);
    if (n)
        hx_text_putf(ret, "\nallocated by %s", hx_text_str(&calls));
    if (n && depth > (int64_t)n) {
        hx_text_puts(ret, "\n             ");
        hx_text_count(ret, depth - (int64_t)n);
        hx_text_puts(ret, " more: s shows the stack");
    }
    ret->failed |= calls.failed;
    hx_text_free(&calls);
}

static void object_title(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    bool ascii = !ui->term.utf8;
    const struct hx_table *facts = &pane->facts;
    hx_text_putf(ret, "Object 0x%" PRIx64, pane->address);
    if (!pane->loaded || pane->problem)
        return;
    if (hx_table_at(facts, 0, "address")->type != HX_VALUE_INT) {
        hx_text_puts(ret, ": there is none at this address in this snapshot");
        return;
    }
    hx_text_puts(ret, ": ");
    hx_text_count(ret, hx_table_int(facts, 0, "bytes", 0));
    hx_text_puts(ret, " bytes");
    if (hx_table_at(facts, 0, "requested")->type == HX_VALUE_INT) {
        hx_text_puts(ret, " (");
        hx_text_count(ret, hx_table_int(facts, 0, "requested", 0));
        hx_text_puts(ret, " requested)");
    }
    hx_text_putf(ret, ", %s", hx_table_text(facts, 0, "state"));
    const char *type = hx_table_text(facts, 0, "type");
    if (*type) {
        hx_text_puts(ret, ", ");
        hx_text_type_shown(ret, type, ascii);
        hx_text_putf(ret, " (%s)", hx_table_text(facts, 0, "confidence"));
    }
    if (pane->chosen)
        hx_text_putf(ret, "\n%s", pane->chosen);
    put_retained(facts, ret);
    hx_ui_put_held(facts, ascii, ret);
    put_life_text(pane, ret);
    put_frames(facts, ascii, ret);
}

/* --- what rows stand for --- */

static bool edge_row_set(const struct hx_pane *pane, size_t row, struct hx_of *ret)
{
    static const struct {
        const char *what;
        enum hx_subset subset;
        bool by_id;
    } sets[] = {
        {"type", HX_SUBSET_TYPE, false}, {"stack", HX_SUBSET_SITE, true},
        {"held", HX_SUBSET_KEY, false},  {"set", HX_SUBSET_SET, true},
        {"bin", HX_SUBSET_BIN, false},
    };
    const struct hx_table *rows = &pane->rows;
    const char *what = hx_table_text(rows, row, "what");
    bool has_text = hx_table_at(rows, row, "text")->type == HX_VALUE_TEXT;
    bool has_id = hx_table_at(rows, row, "id")->type == HX_VALUE_INT;
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        if (strcmp(what, sets[i].what) != 0)
            continue;
        *ret = (struct hx_of){
            sets[i].subset, has_text ? hx_table_text(rows, row, "text") : NULL, NULL,
            sets[i].by_id                     ? hx_table_int(rows, row, "id", 0)
            : sets[i].subset == HX_SUBSET_KEY ? hx_census_find("holder") - hx_stored_censuses
                                              : 0};
        return sets[i].subset == HX_SUBSET_TYPE || (sets[i].by_id ? has_id : has_text);
    }
    return false;
}

static hx_error *open_set(struct hx_ui *ui, const struct hx_of *of)
{
    switch (of->subset) {
    case HX_SUBSET_KEY:
        return hx_ui_open_of(ui, &hx_screen_holder, of);
    case HX_SUBSET_SET:
        return hx_ui_open_of(ui, &hx_screen_set, of);
    case HX_SUBSET_BIN:
        return hx_ui_open_of(ui, &hx_screen_bin, of);
    case HX_SUBSET_SITE:
        return hx_ui_open_text(ui, &hx_screen_stack, NULL, of->id);
    default:
        return hx_ui_open_of(ui, &hx_screen_objects, of);
    }
}

static hx_error *open_edge_row(struct hx_ui *ui, struct hx_pane *pane, size_t row)
{
    const struct hx_table *rows = &pane->rows;
    int64_t root_id = hx_table_int(rows, row, "root_id", -1);
    uint64_t address;
    struct hx_of set;
    if (hx_pane_object(pane, row, &address))
        return hx_ui_open_object(ui, address);
    if (root_id >= 0)
        return hx_ui_open_text(ui, &hx_screen_root, hx_table_text(rows, row, "text"), root_id);
    if (edge_row_set(pane, row, &set))
        return open_set(ui, &set);
    return hx_error_new(HX_E_ABSENT, hx_table_text(rows, row, "what"), NULL, "%s",
                        hx_table_text(rows, row, "other"));
}

static const char *const key[] = {"what", "other", "offset", NULL};

const struct hx_screen hx_screen_object = {
    .name = "object",
    .about = "an object: what it is, who holds it, what it refers to",
    .digit = -1,
    .by_argument = true,
    .columns = columns,
    .key = key,
    .object = "object",
    .source = object_source,
    .head = object_title,
    .empty = "There is no object at this address in this snapshot.",
    .open = open_edge_row,
    .of = edge_row_set,
};
