/* tree_search.c - the next node of a tree whose names match, also where it is folded.
 *
 * The nodes that match, and all on the way to one, are marked first. Then only marked nodes are
 * walked, in the order in which they would be shown: each step down leads to a match.
 */
#include "ui/app.h"
#include "ui/list/tree.h"

#include <inttypes.h>
#include <string.h>

struct search {
    struct hx_job job;
    uint64_t pane, want, number;
    struct hx_tree_query query;
    struct hx_matcher *matcher;
    struct hx_tree_marks *within; /* of the filter; NULL: none */
    char *condition;              /* owned; NULL: none, or `within` is what it says */
    bool backwards;
    int64_t from;
    /* while it works */
    hx_store *store;
    const struct hx_progress *progress;
    struct hx_tree_marks *marks;
    HX_VEC(uint32_t) children; /* marked ones of a node, in order */
    HX_VEC(size_t) place;      /* of each among all that are shown */
    /* answers */
    int64_t found; /* 0: nowhere */
    bool wrapped;
    HX_VEC(struct hx_tree_way) way; /* from the top to it */
};

static hx_error *read_children(struct search *search, uint32_t node)
{
    const struct hx_tree_marks *marks = search->marks;
    struct hx_text sql = {0}, where = {0};
    HX_ROWS hx_rows *rows = NULL;
    search->children.n = search->place.n = 0;
    hx_text_putf(&where, "c.parent_id = %" PRId64 " AND c.ccs_id > c.parent_id", marks->id[node]);
    hx_tree_sql(&search->query, hx_text_str(&where), &sql);
    hx_tree_order_sql(&search->query, "", &sql);
    hx_error *error =
        sql.failed || where.failed ? hx_error_nomem() : hx_query_sql(search->store, sql.s, &rows);
    hx_text_free(&sql);
    hx_text_free(&where);
    size_t place = 0;
    for (bool more = true; !error && more;) {
        if (hx_progress_cancelled(search->progress))
            error = hx_error_cancelled("search");
        if (!error)
            error = hx_rows_next(rows, &more);
        if (error || !more)
            break;
        int64_t id = hx_rows_value(rows, HX_TREE_ccs_id).i;
        if (search->within && !hx_tree_mark(search->within, id))
            continue;
        place++;
        uint32_t at = hx_tree_mark_at(marks, id);
        if (at == UINT32_MAX || !marks->flag[at] || marks->parent[at] != node)
            continue;
        if (!hx_vec_push(&search->children, at) || !hx_vec_push(&search->place, place))
            error = hx_error_nomem();
    }
    return error;
}

/* One node further down the way. */
static hx_error *descend_to_match(struct search *search, uint32_t parent, size_t child)
{
    struct hx_tree_way step = {search->marks->id[parent], search->place.v[child]};
    return hx_vec_push(&search->way, step) ? NULL : hx_error_nomem();
}

/* The first match at or below a marked node. */
static hx_error *first_below(struct search *search, uint32_t node)
{
    const struct hx_tree_marks *marks = search->marks;
    while (!(marks->flag[node] & HX_MARK_HOLDS)) {
        HX_TRY(read_children(search, node));
        if (!search->children.n)
            return NULL;
        HX_TRY(descend_to_match(search, node, 0));
        node = search->children.v[0];
    }
    search->found = marks->id[node];
    return NULL;
}

/* The last one; a node comes before what is below it. */
static hx_error *last_below(struct search *search, uint32_t node)
{
    const struct hx_tree_marks *marks = search->marks;
    while (marks->flag[node] & HX_MARK_ABOVE) {
        HX_TRY(read_children(search, node));
        if (!search->children.n)
            break;
        HX_TRY(descend_to_match(search, node, search->children.n - 1));
        node = search->children.v[search->children.n - 1];
    }
    if (marks->flag[node] & HX_MARK_HOLDS)
        search->found = marks->id[node];
    return NULL;
}

/* Behind `child` among its parent's children, or before it; in *ret, UINT32_MAX: none. What has no
 * match in it is not among those that are read: it is looked for by its place. */
static hx_error *next_sibling(struct search *search, uint32_t child, uint32_t *ret)
{
    const struct hx_tree_marks *marks = search->marks;
    uint32_t parent = marks->parent[child];
    uint8_t flag = marks->flag[child];
    search->marks->flag[child] |= HX_MARK_ABOVE; /* so that it is among them */
    hx_error *error = read_children(search, parent);
    search->marks->flag[child] = flag;
    HX_TRY(error);
    *ret = UINT32_MAX;
    for (size_t i = 0; i < search->children.n; i++) {
        if (search->children.v[i] != child)
            continue;
        size_t other = search->backwards ? i - 1 : i + 1;
        if (other < search->children.n) {
            *ret = search->children.v[other];
            return descend_to_match(search, parent, other);
        }
    }
    return NULL;
}

static hx_error *search_forwards(struct search *search, uint32_t node)
{
    const struct hx_tree_marks *marks = search->marks;
    if (marks->flag[node] & HX_MARK_ABOVE) {
        HX_TRY(read_children(search, node));
        if (search->children.n) {
            HX_TRY(descend_to_match(search, node, 0));
            return first_below(search, search->children.v[0]);
        }
    }
    for (; marks->parent[node] != node; node = marks->parent[node]) {
        uint32_t next;
        HX_TRY(next_sibling(search, node, &next));
        if (next != UINT32_MAX)
            return first_below(search, next);
    }
    search->wrapped = true;
    return first_below(search, node);
}

static hx_error *search_backwards(struct search *search, uint32_t node)
{
    const struct hx_tree_marks *marks = search->marks;
    while (marks->parent[node] != node) {
        uint32_t next;
        HX_TRY(next_sibling(search, node, &next));
        if (next != UINT32_MAX)
            return last_below(search, next);
        node = marks->parent[node];
        if (marks->flag[node] & HX_MARK_HOLDS) {
            search->found = marks->id[node];
            return NULL;
        }
    }
    search->wrapped = true;
    return last_below(search, node);
}

/* The places of nodes above where the search began are not known: they are shown already. */
static hx_error *add_way(struct search *search)
{
    const struct hx_tree_marks *marks = search->marks;
    uint32_t node = hx_tree_mark_at(marks, search->found);
    while (node != UINT32_MAX && marks->parent[node] != node) {
        node = marks->parent[node];
        HX_NEED(hx_vec_push(&search->way, (struct hx_tree_way){.id = marks->id[node]}));
    }
    return NULL;
}

static hx_error *search_run(struct hx_job *job, hx_store *store, const struct hx_progress *progress)
{
    struct search *search = (struct search *)job;
    search->store = store;
    search->progress = progress;
    if (search->condition)
        HX_TRY(hx_tree_find(store, &search->query, search->condition, NULL, NULL, progress,
                            &search->within));
    HX_TRY(hx_tree_find(store, &search->query, NULL, search->matcher, search->within, progress,
                        &search->marks));
    uint32_t top = hx_tree_mark_at(search->marks, HX_TREE_TOP);
    uint32_t node = hx_tree_mark_at(search->marks, search->from);
    if (top == UINT32_MAX || !search->marks->flag[top])
        return NULL;
    if (node == UINT32_MAX)
        node = top;
    HX_TRY(search->backwards ? search_backwards(search, node) : search_forwards(search, node));
    return search->found ? add_way(search) : NULL;
}

/* Where it is visible the cursor goes there; else the way to it is unfolded first. */
static hx_error *show_match(struct search *search, struct hx_ui *ui, struct hx_pane *pane)
{
    for (size_t row = 0; row < pane->rows.n_rows; row++) {
        if (hx_table_int(&pane->rows, row, "ccs_id", 0) == search->found) {
            hx_pane_go(pane, (int64_t)row);
            return NULL;
        }
    }
    for (size_t i = 0; i < search->way.n; i++)
        HX_NEED(hx_vec_push(&pane->tree->way, search->way.v[i]));
    pane->tree->go_to = search->found;
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
    if (!error && !search->found) {
        hx_ui_say(ui, "not found: %s", ui->pattern ? ui->pattern : "");
        return;
    }
    if (!error)
        error = show_match(search, ui, pane);
    if (!error && search->wrapped)
        hx_ui_say(ui, "search went on at the %s", search->backwards ? "end" : "beginning");
    hx_ui_complain(ui, error);
}

static void search_destroy(struct hx_job *job)
{
    struct search *search = (struct search *)job;
    hx_matcher_destroy(search->matcher);
    hx_tree_marks_unref(search->within);
    hx_tree_marks_unref(search->marks);
    hx_vec_free(&search->children);
    hx_vec_free(&search->place);
    hx_vec_free(&search->way);
    free(search->condition);
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
    search->query = (struct hx_tree_query){.snapshot = pane->snapshot,
                                           .other = pane->other,
                                           .sort = pane->sort,
                                           .ascending = pane->ascending};
    search->backwards = backwards;
    hx_error *error = hx_matcher_create(pattern, &search->matcher);
    if (!error && pane->condition) {
        if (pane->tree->marks && pane->tree->marks_of == pane->snapshot)
            search->within = hx_tree_marks_ref(pane->tree->marks);
        else if (!(search->condition = strdup(pane->condition)))
            error = hx_error_nomem();
    }
    if (error) {
        search_destroy(&search->job);
        return error;
    }
    if (hx_pane_row(pane, &row)) /* a row for the rest of some children stands for their parent */
        search->from = hx_table_int(&pane->rows, row, "ccs_id",
                                    hx_table_int(&pane->rows, row, "parent_id", HX_TREE_TOP));
    search->job.leads = HX_WAITS_ROW;
    hx_jobs_supersede(ui->jobs, search_run);
    hx_jobs_start(ui->jobs, &search->job);
    return NULL;
}
