/* tree.c - the tree of cost-centre stacks in panes: loading it, unfolding and folding a list. */
#include "ui/list/tree.h"

#include "ui/app.h"
#include "ui/command/requests.h"
#include "ui/job.h"
#include "ui/list/pane.h"

#include <inttypes.h>
#include <string.h>

void hx_tree_destroy(struct hx_tree *tree)
{
    if (!tree)
        return;
    hx_tree_marks_unref(tree->marks);
    hx_vec_free(&tree->way.of);
    free(tree);
}

void hx_tree_forget_filter(struct hx_tree *tree)
{
    if (tree)
        hx_tree_marks_unref(hx_steal(tree->marks));
}

/* Behind the last row that hangs on this one. */
static size_t subtree_end(const struct hx_table *rows, size_t row)
{
    int64_t depth = hx_tree_int(rows, row, HX_TREE_depth);
    size_t end = row + 1;
    while (end < rows->n_rows && hx_tree_int(rows, end, HX_TREE_depth) > depth)
        end++;
    return end;
}

static bool find_row(const struct hx_table *rows, int64_t id, size_t *ret)
{
    for (size_t row = 0; row < rows->n_rows; row++) {
        if (hx_tree_int(rows, row, HX_TREE_ccs_id) == id) {
            *ret = row;
            return true;
        }
    }
    return false;
}

hx_error *hx_tree_path_add(const struct hx_pane *pane, size_t row, struct hx_tree_path *path)
{
    int64_t depth = INT64_MAX;
    for (row++; row-- > 0;) {
        int64_t id = hx_tree_int(&pane->rows, row, HX_TREE_ccs_id);
        int64_t at = hx_tree_int(&pane->rows, row, HX_TREE_depth);
        if (at >= depth)
            continue;
        depth = at;
        if (id && (!path->id.n || path->id.v[path->id.n - 1] != id))
            HX_NEED(hx_vec_push(&path->id, id));
    }
    return NULL;
}

/* --- the job --- */

struct load {
    struct hx_job job;
    uint64_t pane, want;
    bool whole;               /* all rows; else what is below a node */
    struct hx_tree_look look; /* without parts: a list */
    struct hx_tree_load tree;
    struct hx_table facts;
};

static hx_error *load_run(struct hx_job *job, hx_store *store, const struct hx_progress *progress)
{
    struct load *load = (struct load *)job;
    struct hx_tree_load *tree = &load->tree;
    if (load->whole)
        HX_TRY(hx_tree_facts(store, &tree->query, tree->node, load->look.callers, &load->facts));
    HX_TRY(hx_tree_load(store, tree, progress));
    if (tree->itself && !tree->found && tree->node != HX_TREE_TOP &&
        hx_table_int(&load->facts, 0, "top", 0))
        return hx_error_new(HX_E_ABSENT, "cost centre", "Left goes back to what there is",
                            "nothing of it is in this snapshot");
    return NULL;
}

/* Lists and flame graphs do not supersede each other. */
static hx_error *look_run(struct hx_job *job, hx_store *store, const struct hx_progress *progress)
{
    return load_run(job, store, progress);
}

/* Puts rows in the place of others. What the cursor is on stays where it is. */
static hx_error *splice(struct hx_pane *pane, size_t at, size_t away, struct hx_table *with)
{
    struct hx_table *rows = &pane->rows;
    size_t n = rows->n_rows - away + with->n_rows, width = HX_TREE_WIDTH;
    HX_NEED(hx_vec_reserve_raw((void **)&rows->cell, &rows->cap, n * width, sizeof *rows->cell));
    for (size_t i = at * width; i < (at + away) * width; i++)
        free(rows->cell[i].text);
    memmove(rows->cell + (at + with->n_rows) * width, rows->cell + (at + away) * width,
            (rows->n_rows - at - away) * width * sizeof *rows->cell);
    if (with->n_rows)
        memcpy(rows->cell + at * width, with->cell, with->n_rows * width * sizeof *rows->cell);
    rows->n_rows = n;
    int64_t moved = (int64_t)with->n_rows - (int64_t)away, first = (int64_t)at;
    with->n_rows = 0;
    if (pane->cursor >= first + (int64_t)away)
        pane->cursor += moved;
    else if (pane->cursor >= first && moved < 0)
        pane->cursor = first ? first - 1 : 0;
    if (pane->top > first)
        pane->top += moved;
    pane->total = (int64_t)n;
    hx_pane_go(pane, pane->cursor);
    return NULL;
}

/* Of differences the largest one fills the bar. */
static void measure_bars(struct hx_pane *pane)
{
    int64_t most = 0;
    for (size_t row = 0; row < pane->rows.n_rows; row++) {
        int64_t bytes = hx_tree_int(&pane->rows, row, HX_TREE_inherited_live_bytes);
        most = bytes > most ? bytes : most;
    }
    for (size_t i = 0; i < pane->facts.n_columns && pane->facts.n_rows; i++)
        if (strcmp(pane->facts.names[i], "whole") == 0)
            hx_cell_set_int(&pane->facts.cell[i], most);
}

/* The cursor goes to the first node that is kept; in a list its row stays at its height. */
static void keep_cursor(struct hx_pane *pane, const struct load *load)
{
    size_t row;
    for (size_t i = 0; i < load->look.keep.id.n; i++) {
        if (!find_row(&pane->rows, load->look.keep.id.v[i], &row))
            continue;
        pane->top += load->look.parts ? 0 : (int64_t)row - pane->cursor;
        pane->cursor = (int64_t)row;
        return;
    }
}

static hx_error *take_whole(struct load *load, struct hx_pane *pane)
{
    struct hx_tree *tree = pane->tree;
    hx_table_deinit(&pane->rows);
    hx_table_deinit(&pane->facts);
    pane->rows = load->tree.rows;
    pane->facts = load->facts;
    load->tree.rows = load->facts = (struct hx_table){0};
    pane->offset = 0;
    pane->total = (int64_t)pane->rows.n_rows;
    hx_pane_go(pane, pane->cursor);
    keep_cursor(pane, load);
    if (load->tree.query.other)
        measure_bars(pane);
    hx_tree_marks_unref(tree->marks);
    tree->marks = hx_tree_marks_ref(load->tree.marks);
    tree->marks_of = load->tree.query.snapshot;
    return load->look.came ? load->look.came(pane, &load->look) : NULL;
}

static hx_error *take_below(struct load *load, struct hx_pane *pane)
{
    size_t row, skip = load->tree.skip;
    int64_t node = load->tree.node;
    if (!find_row(&pane->rows, node, &row))
        return NULL;
    size_t at = row + 1, end = subtree_end(&pane->rows, row);
    if (skip) {
        if (end == at || !hx_tree_is_below(&pane->rows, end - 1, HX_TREE_MORE) ||
            hx_tree_int(&pane->rows, end - 1, HX_TREE_parent_id) != node)
            return NULL;
        at = end - 1;
    }
    bool some = load->tree.rows.n_rows || skip;
    HX_TRY(splice(pane, at, end - at, &load->tree.rows));
    return hx_tree_set_below(&pane->rows, row, some ? HX_TREE_OPEN : HX_TREE_NONE);
}

/* A list keeps its rows: they say what is unfolded. */
static void show_problem(struct load *load, struct hx_pane *pane, const hx_error *error)
{
    bool list = !load->look.parts;
    hx_pane_problem(pane, error,
                    list ? "Cancelled. Ctrl-L loads the list." : "Cancelled. Ctrl-L loads it.");
    if (list)
        return;
    hx_table_deinit(&pane->rows);
    pane->total = 0;
}

static void load_done(struct hx_job *job, struct hx_ui *ui, hx_error *error)
{
    struct load *load = (struct load *)job;
    struct hx_pane *pane = hx_ui_find_pane(ui, load->pane);
    if (!pane || pane->want != load->want) {
        hx_error_free(error);
        return;
    }
    if (load->whole) {
        pane->loading = false;
        free(hx_steal(pane->problem));
    }
    if (error && error->kind == HX_E_CANCEL && !job->by_user) {
        pane->stale |= load->whole; /* other rows were wanted meanwhile */
        hx_error_free(error);
        return;
    }
    if (!error && load->tree.limited && !load->look.parts)
        hx_ui_say(ui, "unfolded as far as %d rows; + unfolds what is wanted of the rest",
                  (int)load->tree.most);
    if (!error)
        error = load->whole ? take_whole(load, pane) : take_below(load, pane);
    if (load->whole) {
        if (error)
            show_problem(load, pane, error);
        pane->loaded = true;
        pane->stale = false;
    }
    hx_ui_complain(ui, error);
}

static void load_destroy(struct hx_job *job)
{
    struct load *load = (struct load *)job;
    hx_tree_load_deinit(&load->tree);
    hx_table_deinit(&load->facts);
    hx_vec_free(&load->look.keep.id);
    free(load);
}

struct hx_tree_query hx_tree_query_of(const struct hx_pane *pane)
{
    return (struct hx_tree_query){.snapshot = pane->snapshot,
                                  .other = pane->other,
                                  .figure = "inherited_live_bytes",
                                  .sort = pane->sort,
                                  .ascending = pane->ascending};
}

hx_error *hx_tree_filter_of(const struct hx_pane *pane, struct hx_tree_marks **ret_marks,
                            char **ret_condition)
{
    struct hx_tree *tree = pane->tree;
    if (!pane->condition)
        return NULL;
    if (tree->marks && tree->marks_of == pane->snapshot)
        *ret_marks = hx_tree_marks_ref(tree->marks);
    else
        HX_NEED(*ret_condition = strdup(pane->condition));
    return NULL;
}

static hx_error *begin_load(const struct hx_pane *pane, const struct hx_tree_look *look,
                            struct load **ret)
{
    struct load *load = calloc(1, sizeof *load);
    HX_NEED(load);
    load->job = (struct hx_job){.what = "loading rows",
                                .quiet = true,
                                .lane = HX_LANE_READ,
                                .run = look->parts ? look_run : load_run,
                                .done = load_done,
                                .destroy = load_destroy};
    load->pane = pane->serial;
    load->want = pane->want;
    load->look = *look;
    load->look.keep = (struct hx_tree_path){0};
    load->tree = (struct hx_tree_load){.query = look->query,
                                       .node = look->node,
                                       .parts = look->parts,
                                       .levels = look->levels,
                                       .children = HX_TREE_BATCH,
                                       .most = HX_TREE_ROWS};
    hx_error *error = hx_tree_filter_of(pane, &load->tree.marks, &load->tree.condition);
    if (error)
        load_destroy(&load->job);
    else
        *ret = load;
    return error;
}

/* All rows of the pane. */
static void start_whole(struct hx_ui *ui, struct hx_pane *pane, struct load *load)
{
    load->whole = load->tree.itself = true;
    load->want = ++pane->want;
    hx_vec_free(&pane->tree->way.of);
    pane->tree->go_to = 0;
    pane->loading = true;
    hx_jobs_supersede(ui->jobs, load->job.run);
    hx_jobs_start(ui->jobs, &load->job);
}

static hx_error *need_tree(struct hx_pane *pane)
{
    if (!pane->tree)
        HX_NEED(pane->tree = calloc(1, sizeof *pane->tree));
    return NULL;
}

/* What a flame graph loads, and where its cursor goes: to where it was sent, if it was. */
static hx_error *aim(const struct hx_pane *pane, const struct hx_tree_look *look, struct load *load)
{
    const struct hx_tree *tree = pane->tree;
    struct hx_tree_path *keep = &load->look.keep;
    load->tree.all = true;
    load->tree.children = 4 * (size_t)look->parts + 4;
    HX_NEED(hx_vec_push(&load->tree.way.of, (struct hx_tree_way){.id = look->node}));
    if (tree->go_to)
        HX_NEED(hx_vec_push(&keep->id, tree->go_to));
    for (size_t i = 0; i < tree->way.of.n; i++)
        HX_NEED(hx_vec_push(&keep->id, tree->way.of.v[i].id));
    size_t row;
    if (tree->go_to || !hx_pane_row(pane, &row))
        return NULL;
    HX_TRY(hx_tree_path_add(pane, row, keep));
    keep->id.n -= keep->id.n > 0; /* without the first row, which is always there */
    return NULL;
}

hx_error *hx_tree_fill_look(struct hx_ui *ui, struct hx_pane *pane, const struct hx_tree_look *look)
{
    struct load *load;
    HX_TRY(need_tree(pane));
    if (!pane->snapshot)
        return NULL;
    HX_TRY(begin_load(pane, look, &load));
    hx_error *error = aim(pane, look, load);
    if (error)
        load_destroy(&load->job);
    else
        start_whole(ui, pane, load);
    return error;
}

/* --- what is unfolded --- */

static int compare_ids(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Of a node with very many children as many are shown again as were. */
static hx_error *note_unfolded(const struct hx_pane *pane, struct load *load)
{
    const struct hx_table *rows = &pane->rows;
    HX_VEC(int64_t) parents = {0};
    bool ok =
        rows->n_rows || hx_vec_push(&load->tree.way.of, (struct hx_tree_way){.id = HX_TREE_TOP});
    for (size_t row = 0; row < rows->n_rows && ok; row++) {
        if (hx_tree_is_below(rows, row, HX_TREE_OPEN))
            ok = hx_vec_push(&load->tree.way.of,
                             (struct hx_tree_way){.id = hx_tree_int(rows, row, HX_TREE_ccs_id)});
        if (ok && row)
            ok = hx_vec_push(&parents, hx_tree_int(rows, row, HX_TREE_parent_id));
    }
    if (parents.n)
        qsort(parents.v, parents.n, sizeof *parents.v, compare_ids);
    for (size_t i = 0, n; i < parents.n && ok; i += n) {
        for (n = 1; i + n < parents.n && parents.v[i + n] == parents.v[i];)
            n++;
        if (n > HX_TREE_BATCH)
            ok = hx_vec_push(&load->tree.way.of, (struct hx_tree_way){parents.v[i], n});
    }
    for (size_t i = 0; i < pane->tree->way.of.n && ok; i++)
        ok = hx_vec_push(&load->tree.way.of, pane->tree->way.of.v[i]);
    hx_vec_free(&parents);
    return ok ? NULL : hx_error_nomem();
}

hx_error *hx_tree_fill(struct hx_ui *ui, struct hx_pane *pane)
{
    struct hx_tree_look look = {.query = hx_tree_query_of(pane), .node = HX_TREE_TOP, .callers = 1};
    struct load *load;
    size_t row;
    HX_TRY(need_tree(pane));
    if (!pane->snapshot)
        return NULL;
    HX_TRY(begin_load(pane, &look, &load));
    int64_t keep = pane->tree->go_to;
    if (!keep && pane->cursor && hx_pane_row(pane, &row))
        keep = hx_tree_int(&pane->rows, row, HX_TREE_ccs_id);
    hx_error *error = note_unfolded(pane, load);
    if (!error && keep && !hx_vec_push(&load->look.keep.id, keep))
        error = hx_error_nomem();
    load->tree.main = !pane->rows.n_rows;
    if (error)
        load_destroy(&load->job);
    else
        start_whole(ui, pane, load);
    return error;
}

hx_error *hx_tree_show(struct hx_ui *ui, const struct hx_screen *screen,
                       const struct hx_tree_path *path)
{
    HX_TRY(hx_ui_show(ui, screen));
    struct hx_pane *pane = hx_ui_pane(ui);
    HX_TRY(need_tree(pane));
    struct hx_tree *tree = pane->tree;
    tree->way.of.n = 0;
    for (size_t i = 1; i < path->id.n; i++)
        HX_NEED(hx_vec_push(&tree->way.of, (struct hx_tree_way){.id = path->id.v[i]}));
    tree->go_to = path->id.n ? path->id.v[0] : 0;
    hx_pane_outdate(pane);
    return NULL;
}

/* --- the keys --- */

static hx_error *load_below(struct hx_ui *ui, struct hx_pane *pane, size_t row, bool all)
{
    const struct hx_table *rows = &pane->rows;
    bool rest = hx_tree_is_below(rows, row, HX_TREE_MORE);
    int64_t node = hx_tree_int(rows, row, rest ? HX_TREE_parent_id : HX_TREE_ccs_id);
    size_t parent = row;
    if (rest && !find_row(rows, node, &parent))
        return NULL;
    if (rows->n_rows + (all ? HX_TREE_UNFOLDED : HX_TREE_BATCH) > HX_TREE_ROWS)
        return hx_error_new(HX_E_LIMIT, "rows", "fold what is not wanted with -",
                            "there are %zu already", rows->n_rows);
    struct hx_tree_look look = {.query = hx_tree_query_of(pane), .node = node};
    struct load *load;
    HX_TRY(begin_load(pane, &look, &load));
    struct hx_tree_load *tree = &load->tree;
    tree->depth = hx_tree_int(rows, parent, HX_TREE_depth);
    tree->all = all && !rest;
    tree->single = !rest;
    tree->most = tree->all ? HX_TREE_UNFOLDED : HX_TREE_ROWS;
    for (size_t i = parent + 1; rest && i < row; i++)
        tree->skip += hx_tree_int(rows, i, HX_TREE_depth) == tree->depth + 1;
    if (!hx_vec_push(&tree->way.of, (struct hx_tree_way){.id = node})) {
        load_destroy(&load->job);
        return hx_error_nomem();
    }
    load->job.leads = HX_WAITS_LIST;
    hx_jobs_start(ui->jobs, &load->job);
    return NULL;
}

hx_error *hx_tree_unfold(struct hx_ui *ui, struct hx_pane *pane, size_t row)
{
    if (hx_tree_is_below(&pane->rows, row, HX_TREE_NONE))
        hx_ui_say(ui, "nothing is below this");
    else if (hx_tree_is_below(&pane->rows, row, HX_TREE_OPEN))
        hx_ui_say(ui, "this is unfolded already");
    else
        return load_below(ui, pane, row, false);
    return NULL;
}

hx_error *hx_tree_unfold_all(struct hx_ui *ui, struct hx_pane *pane, size_t row)
{
    if (hx_tree_is_below(&pane->rows, row, HX_TREE_NONE)) {
        hx_ui_say(ui, "nothing is below this");
        return NULL;
    }
    return load_below(ui, pane, row, true);
}

hx_error *hx_tree_fold(struct hx_ui *ui, struct hx_pane *pane, size_t row)
{
    struct hx_table nothing = {0};
    if (!hx_tree_is_below(&pane->rows, row, HX_TREE_OPEN)) { /* what it hangs on is meant */
        int64_t depth = hx_tree_int(&pane->rows, row, HX_TREE_depth);
        while (row && hx_tree_int(&pane->rows, row, HX_TREE_depth) >= depth)
            row--;
        hx_pane_go(pane, (int64_t)row);
        if (!hx_tree_is_below(&pane->rows, row, HX_TREE_OPEN)) {
            hx_ui_say(ui, "nothing is unfolded here");
            return NULL;
        }
    }
    HX_TRY(splice(pane, row + 1, subtree_end(&pane->rows, row) - row - 1, &nothing));
    return hx_tree_set_below(&pane->rows, row, HX_TREE_FOLDED);
}

/* To the next row that hangs on the same one; `step` is 1 or -1. */
static hx_error *go_to_sibling(struct hx_ui *ui, int step)
{
    struct hx_pane *pane = hx_ui_pane(ui);
    const struct hx_table *rows = &pane->rows;
    size_t row, n = rows->n_rows;
    if (pane->screen->tree && !n)
        return hx_error_new(HX_E_ABSENT, pane->screen->name, NULL, "there is no row here");
    if (!hx_pane_row(pane, &row) || hx_table_at(rows, row, "depth")->type != HX_VALUE_INT)
        return hx_error_new(HX_E_ABSENT, pane->screen->name, "screen 4 is one", "is no tree");
    int64_t depth = hx_table_int(rows, row, "depth", 0), at = depth + 1;
    while (at > depth && (step > 0 ? row + 1 < n : row > 0)) {
        row += (size_t)step;
        at = hx_table_int(rows, row, "depth", 0);
    }
    if (at == depth)
        hx_pane_go(pane, pane->offset + (int64_t)row);
    else
        hx_ui_say(ui, "this is the %s one here", step > 0 ? "last" : "first");
    return NULL;
}

hx_error *hx_do_next_sibling(struct hx_ui *ui, const char *arg)
{
    (void)arg;
    return go_to_sibling(ui, 1);
}

hx_error *hx_do_previous_sibling(struct hx_ui *ui, const char *arg)
{
    (void)arg;
    return go_to_sibling(ui, -1);
}
