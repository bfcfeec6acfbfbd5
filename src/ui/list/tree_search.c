/* tree_search.c - the next node of a tree whose names match, also where it is folded. */
#include "ui/app.h"
#include "ui/command/requests.h"
#include "ui/data/call_label.h"
#include "ui/job.h"
#include "ui/list/pane.h"
#include "ui/list/tree.h"

#include <string.h>

struct search {
    struct hx_job job;
    uint64_t pane, want, number;
    struct hx_matcher *matcher;
    struct hx_tree_search tree;
};

static void put_shown(struct hx_text *text, const char *s)
{
    if (s)
        hx_text_putf(text, " %s", s);
}

/* A centre is looked at as it is shown, and with its whole name. */
static bool centre_matches(const void *context, const char *label, const char *module,
                           const char *source)
{
    const struct search *search = context;
    struct hx_text text = {0}, calls = {0};
    hx_text_calls(&calls, label ? label : "");
    put_shown(&text, label);
    put_shown(&text, hx_text_str(&calls));
    put_shown(&text, module);
    put_shown(&text, source);
    bool matches = hx_matcher_matches(search->matcher, hx_text_str(&text));
    hx_text_free(&text);
    hx_text_free(&calls);
    return matches;
}

static hx_error *search_run(struct hx_job *job, hx_store *store, const struct hx_progress *progress)
{
    struct search *search = (struct search *)job;
    return hx_tree_search_next(store, &search->tree, progress);
}

/* Where it is visible the cursor goes there; else the way to it is unfolded first. */
static hx_error *show_match(struct search *search, struct hx_ui *ui, struct hx_pane *pane)
{
    for (size_t row = 0; row < pane->rows.n_rows; row++) {
        if (hx_table_int(&pane->rows, row, "ccs_id", 0) == search->tree.found) {
            hx_pane_go(pane, (int64_t)row);
            return NULL;
        }
    }
    for (size_t i = 0; i < search->tree.way.of.n; i++)
        HX_NEED(hx_vec_push(&pane->tree->way.of, search->tree.way.of.v[i]));
    pane->tree->go_to = search->tree.found;
    return hx_tree_fill(ui, pane);
}

static void search_done(struct hx_job *job, struct hx_ui *ui, hx_error *error)
{
    struct search *search = (struct search *)job;
    struct hx_pane *pane = hx_ui_find_pane(ui, search->pane);
    if (search->number != ui->searches || !pane || (!error && pane->want != search->want)) {
        hx_error_free(error); /* another one was begun, or other rows are shown */
        return;
    }
    if (!error && !search->tree.found) {
        hx_ui_say(ui, "not found: %s", ui->pattern ? ui->pattern : "");
        return;
    }
    if (!error)
        error = show_match(search, ui, pane);
    if (!error && search->tree.wrapped)
        hx_ui_say(ui, "search went on at the %s", search->tree.backwards ? "end" : "beginning");
    hx_ui_complain(ui, error);
}

static void search_destroy(struct hx_job *job)
{
    struct search *search = (struct search *)job;
    hx_matcher_destroy(search->matcher);
    hx_tree_search_deinit(&search->tree);
    free(search);
}

hx_error *hx_tree_search(struct hx_ui *ui, struct hx_pane *pane, const char *pattern,
                         bool backwards)
{
    size_t row;
    if (!pane->loaded || !pane->tree)
        return NULL;
    struct search *search = calloc(1, sizeof *search);
    HX_NEED(search);
    search->job = (struct hx_job){.what = "search",
                                  .lane = HX_LANE_READ,
                                  .run = search_run,
                                  .done = search_done,
                                  .destroy = search_destroy};
    search->pane = pane->serial;
    search->want = pane->want;
    search->number = ++ui->searches;
    search->tree = (struct hx_tree_search){.query = hx_tree_query_of(pane),
                                           .matches = centre_matches,
                                           .context = search,
                                           .backwards = backwards};
    hx_error *error = hx_matcher_create(pattern, &search->matcher);
    if (!error)
        error = hx_tree_filter_of(pane, &search->tree.within, &search->tree.condition);
    if (error) {
        search_destroy(&search->job);
        return error;
    }
    if (hx_pane_row(pane, &row)) /* a row for the rest of some children stands for their parent */
        search->tree.from = hx_table_int(&pane->rows, row, "ccs_id",
                                         hx_table_int(&pane->rows, row, "parent_id", HX_TREE_TOP));
    search->job.leads = HX_WAITS_ROW;
    hx_jobs_supersede(ui->jobs, search_run);
    hx_jobs_start(ui->jobs, &search->job);
    return NULL;
}
