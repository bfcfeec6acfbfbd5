/* difference.c - a census as differences between two snapshots. */
#include "ui/data/difference.h"

#include "ui/app.h"
#include "ui/list/pane.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

const struct hx_stored_census *hx_screen_census(const struct hx_screen *screen)
{
    return screen->census ? hx_census_find(screen->census) : NULL;
}

/* --- statements --- */

/* Of a list of stacks only those of a cost centre, where it is about one. */
static int64_t below_of(const struct hx_pane *pane)
{
    return pane->subset == HX_SUBSET_BELOW ? pane->id : 0;
}

void hx_difference_source(const struct hx_pane *pane, int64_t snapshot, struct hx_source *ret)
{
    const struct hx_difference_of of = {hx_screen_census(pane->screen), pane->other, snapshot,
                                        below_of(pane)};
    hx_text_putf(&ret->written,
                 "%s, status, bytes_a, bytes_b, bytes_delta, objects_a, objects_b, objects_delta",
                 of.census->written);
    hx_difference_sql(&of, &ret->sql);
    hx_difference_facts_sql(&of, &ret->facts);
}

void hx_census_source(const struct hx_pane *pane, int64_t snapshot, struct hx_source *ret)
{
    const struct hx_stored_census *census = hx_screen_census(pane->screen);
    const struct hx_query_args args = {
        .snapshot = snapshot, .other = pane->before, .id = below_of(pane)};
    ret->like = census->view;
    hx_text_puts(&ret->written, census->list_written ? census->list_written : "");
    hx_query_expand(args.id ? census->list_below : census->list, &args, &ret->sql);
    hx_query_expand(census->facts, &args, &ret->facts);
}

/* --- words --- */

static bool delta(const struct hx_table *facts, const char *before, const char *after, int64_t *ret)
{
    const struct hx_cell *a = hx_table_at(facts, 0, before), *b = hx_table_at(facts, 0, after);
    return a->type == HX_VALUE_INT && b->type == HX_VALUE_INT &&
           !__builtin_sub_overflow(b->i, a->i, ret);
}

/* "1 appeared, 2 grown; 3 the same" */
static void put_states(const struct hx_table *facts, struct hx_text *ret)
{
    static const char *const states[] = {"appeared", "gone", "grown", "shrunk"};
    int64_t same = hx_table_int(facts, 0, "same", 0);
    bool any = false;
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        int64_t n = hx_table_int(facts, 0, states[i], 0);
        if (!n)
            continue;
        hx_text_puts(ret, any ? ", " : "");
        hx_text_count(ret, n);
        hx_text_putf(ret, " %s", states[i]);
        any = true;
    }
    if (!any)
        hx_text_puts(ret, "nothing differs");
    if (same) {
        hx_text_puts(ret, any ? ", " : ": ");
        hx_text_count(ret, same);
        hx_text_puts(ret, " the same");
    }
}

void hx_difference_head(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    const struct hx_stored_census *census = hx_screen_census(pane->screen);
    const struct hx_table *facts = &pane->facts;
    int64_t bytes, objects;
    (void)ui;
    hx_text_putc(ret, (char)toupper((unsigned char)census->title[0]));
    hx_text_puts(ret, census->title + 1);
    if (!facts->n_rows) {
        hx_text_puts(ret, ", differences");
        return;
    }
    hx_text_putf(ret, ", %" PRId64 " against %" PRId64,
                 hx_table_int(facts, 0, "snapshot_b", pane->snapshot),
                 hx_table_int(facts, 0, "snapshot_a", pane->other));
    if (delta(facts, "total_a", "total_b", &bytes)) {
        hx_text_putf(ret, ": %s ", census->moved_as ? census->moved_as : "heap");
        if (bytes)
            hx_text_change(ret, bytes);
        else
            hx_text_puts(ret, "unchanged");
    }
    if (delta(facts, "objects_a", "objects_b", &objects)) {
        hx_text_puts(ret, objects > 0 ? ", +" : ", ");
        hx_text_count(ret, objects);
        hx_text_puts(ret, objects == 1 || objects == -1 ? " object" : " objects");
    }
    if (hx_table_int(facts, 0, "rows", 0)) {
        hx_text_putc(ret, '\n');
        put_states(facts, ret);
    }
}

static void put_kind_of(const struct hx_ui *ui, const struct hx_table *facts, const char *name,
                        struct hx_text *ret)
{
    const char *kind = hx_table_text(facts, 0, name);
    if (*kind)
        hx_text_escape(ret, kind, strlen(kind), !ui->term.utf8);
    else
        hx_text_puts(ret, "none");
}

bool hx_difference_instead(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    const struct hx_stored_census *census = hx_screen_census(pane->screen);
    const struct hx_table *facts = &pane->facts;
    int64_t a = hx_table_int(facts, 0, "snapshot_a", 0),
            b = hx_table_int(facts, 0, "snapshot_b", 0);
    bool made_a = hx_table_int(facts, 0, "made_a", 0), made_b = hx_table_int(facts, 0, "made_b", 0);
    if (!facts->n_rows || hx_table_int(facts, 0, "rows", 0))
        return false;
    if (!made_a || !made_b) {
        hx_text_putf(ret, "Snapshot %" PRId64 " has no %s. ", made_a ? b : a, census->lacks);
        if (census->alike != HX_ALIKE_ANYWAY && ui->revising)
            hx_text_puts(ret, "They are being worked out.");
        else if (census->alike != HX_ALIKE_ANYWAY)
            hx_text_puts(ret, "`:analyse` works out what both lack.");
        else
            hx_text_puts(ret, "`:difference N` compares with another one; d ends this.");
        return true;
    }
    const char *of_a = hx_table_text(facts, 0, "kind_a"), *of_b = hx_table_text(facts, 0, "kind_b");
    if (strcmp(of_a, of_b) == 0) {
        hx_text_putf(ret, "Neither of the two snapshots has %s.", census->lacks);
        return true;
    }
    bool scheme = census->alike == HX_ALIKE_SCHEME;
    hx_text_putf(ret, "These do not compare: snapshot %" PRId64 " has %s %s ", a, census->lacks,
                 scheme ? "of scheme" : "of the roots");
    put_kind_of(ui, facts, "kind_a", ret);
    hx_text_putf(ret, ", snapshot %" PRId64 " of ", b);
    put_kind_of(ui, facts, "kind_b", ret);
    hx_text_puts(ret, ui->revising ? ". They are being worked out alike."
                      : scheme     ? ". `:scheme NAME` works both out alike."
                                   : ". `:root NAME=EXPR` names the same in both.");
    return true;
}

hx_error *hx_difference_gone(const struct hx_pane *pane, size_t row)
{
    if (!pane->other || strcmp(hx_table_text(&pane->rows, row, "status"), "gone") != 0)
        return NULL;
    HX_FREE char *todo = NULL;
    if (asprintf(&todo, "`:snapshot %" PRId64 "` goes to where it was", pane->other) < 0)
        todo = NULL;
    return hx_error_new(HX_E_ABSENT, "this row", todo, "gone: snapshot %" PRId64 " has none of it",
                        pane->snapshot);
}
