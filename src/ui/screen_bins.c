/* screen_bins.c - bytes by the exact set of named roots that reach them. */
#include "ui/app.h"

#include <inttypes.h>
#include <string.h>

/* So many named roots have a line above the list. */
#define NAMES_MAX 5

static const struct hx_column columns[] = {
    {"bytes", NULL, HX_AS_BYTES, 8, 0, NULL, NULL},
    {"bytes", "of heap", HX_AS_SHARE, 7, 2, "heap_bytes", NULL},
    {"objects", NULL, HX_AS_COUNT, 10, 1, NULL, NULL},
    {"roots", "reached by exactly", HX_AS_TEXT, -24, 0, NULL, NULL},
    {"only_pages", "own pages", HX_AS_COUNT, 9, 3, NULL, NULL},
    {"shared_pages", "shared", HX_AS_COUNT, 8, 4, NULL, NULL},
    {0},
};

static void source(const struct hx_pane *pane, int64_t snapshot, struct hx_source *ret)
{
    (void)pane;
    ret->like = "bins";
    hx_text_putf(&ret->sql,
                 "SELECT b.snapshot AS snapshot, b.roots AS roots, b.bytes AS bytes,"
                 " b.objects AS objects, p.only_pages AS only_pages,"
                 " p.shared_pages AS shared_pages FROM hx_bin b LEFT JOIN hx_page p"
                 " ON p.snapshot = b.snapshot AND p.census = 'bin' AND p.key = b.bin"
                 " WHERE b.objects > 0 AND b.snapshot = %" PRId64,
                 snapshot);
    /* A row for each named root: what it reaches alone, and together with others. */
    hx_text_putf(&ret->facts,
                 "SELECT (SELECT count(*) FROM bins WHERE snapshot = s.snapshot) AS rows,"
                 " s.heap_bytes AS heap_bytes, n.name AS name,"
                 " (SELECT count(*) FROM hx_named WHERE snapshot = s.snapshot) AS names, ");
    hx_named_bytes_sql(&ret->facts);
    hx_text_putf(&ret->facts,
                 " FROM snapshots s LEFT JOIN hx_named n ON n.snapshot = s.snapshot"
                 " WHERE s.snapshot = %" PRId64 " ORDER BY n.position LIMIT %d",
                 snapshot, NAMES_MAX + 1);
}

static void put_root(const struct hx_table *facts, size_t row, bool ascii, struct hx_text *ret)
{
    char size[HX_HUMAN];
    const char *name = hx_table_shown(facts, row, "name");
    uint64_t alone = (uint64_t)hx_table_int(facts, row, "exclusive_bytes", 0);
    uint64_t shared = (uint64_t)hx_table_int(facts, row, "shared_bytes", 0);
    hx_text_escape(ret, name, strlen(name), ascii);
    hx_text_putf(ret, ": %s alone", hx_human_bytes(alone, size));
    hx_text_putf(ret, ", %s shared", hx_human_bytes(shared, size));
}

static void head(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    const struct hx_table *facts = &pane->facts;
    int64_t names = hx_table_int(facts, 0, "names", 0);
    hx_text_puts(ret, "Root bins");
    if (!pane->loaded || !facts->n_rows)
        return;
    if (!names) {
        hx_text_puts(ret, ": no root is named; :root NAME=SYMBOL names one");
        return;
    }
    hx_text_puts(ret, " of ");
    hx_text_count(ret, names);
    hx_text_puts(ret, names == 1 ? " named root" : " named roots");
    if (pane->screen->needs & ~pane->parts)
        return;
    size_t lines = facts->n_rows > NAMES_MAX ? NAMES_MAX - 1 : facts->n_rows;
    for (size_t i = 0; i < lines; i++) {
        hx_text_puts(ret, "\n  ");
        put_root(facts, i, !ui->term.utf8, ret);
    }
    if (lines < (uint64_t)names)
        hx_text_putf(ret, "\n  and %lld more: :root lists them",
                     (long long)names - (long long)lines);
}

static hx_error *open_row(struct hx_ui *ui, struct hx_pane *pane, size_t row)
{
    return hx_ui_open_of(
        ui, &hx_screen_bin,
        &(struct hx_of){HX_SUBSET_BIN, hx_table_text(&pane->rows, row, "roots"), NULL, 0});
}

static bool of(const struct hx_pane *pane, size_t row, struct hx_of *ret)
{
    *ret = (struct hx_of){HX_SUBSET_BIN, hx_table_text(&pane->rows, row, "roots"), NULL, 0};
    return true;
}

static const char *const key[] = {"roots", NULL};

const struct hx_screen hx_screen_bins = {
    .name = "bins",
    .about = "bytes by the named roots that reach them",
    .digit = 3,
    .needs = HX_ANALYSE_BINS,
    .lacks = "Root bins are",
    .columns = columns,
    .key = key,
    .sort = "bytes",
    .source = source,
    .head = head,
    .empty = "There are no objects, and so no bins.",
    .open = open_row,
    .of = of,
};
