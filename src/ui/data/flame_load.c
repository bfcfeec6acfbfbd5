/* flame_load.c - asks for a flame graph level by level: only children that are at least a cell
 * wide, of nodes that are. */
#include "ui/data/flame_load.h"

#include "ui/app.h"
#include "ui/data/call_label.h"
#include "ui/list/tree.h"

#include <inttypes.h>
#include <string.h>

#define CALLERS 12 /* functions on the way to the node that are asked for */

/* A row as it came: where its children stand among them. */
struct link {
    size_t first, n;
};

struct parent {
    int64_t id;
    size_t row;
};

struct load {
    struct hx_job job;
    uint64_t pane, want;
    struct hx_tree_query query;
    struct hx_tree_marks *marks;
    char *condition; /* whose marks are to be worked out first; owned */
    int64_t node;
    HX_VEC(int64_t) keep; /* where the cursor goes: to the first of these that can be seen */
    int columns;
    /* answers; rows in the order of the tree */
    struct hx_table rows, facts;
    /* while it works */
    hx_store *store;
    const struct hx_progress *progress;
    uint64_t least;
    struct hx_table loose; /* rows as they came: one level after the other */
    HX_VEC(struct link) link;
    HX_VEC(struct parent) parents; /* of the level that is asked for, by id */
};

static const enum hx_tree_column figures[] = {
    HX_TREE_inherited_live_bytes, HX_TREE_inherited_alloc_bytes, HX_TREE_inherited_live_objects,
    HX_TREE_inherited_alloc_objects};
#define FIGURES (sizeof figures / sizeof *figures)

static const char *const names[] = {
#define NAME(name) #name,
    HX_TREE_COLUMNS(NAME)
#undef NAME
};

static enum hx_tree_column sort_figure(const char *sort)
{
    for (size_t i = 0; sort && i < FIGURES; i++)
        if (strcmp(names[figures[i]], sort) == 0)
            return figures[i];
    return HX_TREE_inherited_live_bytes;
}

const char *hx_flame_figure(const struct hx_pane *pane)
{
    return names[sort_figure(pane->sort)];
}

int hx_flame_columns(void)
{
    int columns = hx_term_columns() - 2;
    return columns > 1 ? columns : 1;
}

/* --- on the lane's thread --- */

static const struct hx_cell *flame_cell_at(const struct hx_table *rows, size_t row, size_t column)
{
    return rows->cell + row * rows->n_columns + column;
}

static uint64_t flame_row_value(const struct hx_table *rows, size_t row, size_t column)
{
    const struct hx_cell *cell = flame_cell_at(rows, row, column);
    return cell->type == HX_VALUE_INT && cell->i > 0 ? (uint64_t)cell->i : 0;
}

static bool is_inner(const struct hx_table *rows, size_t row)
{
    const struct hx_cell *cell = flame_cell_at(rows, row, HX_TREE_below);
    return cell->type == HX_VALUE_TEXT && strcmp(cell->text, HX_TREE_FOLDED) == 0;
}

static hx_error *set_below(struct hx_table *rows, size_t row, const char *what)
{
    return hx_cell_set_text(rows->cell + row * rows->n_columns + HX_TREE_below, what, strlen(what));
}

static hx_error *query_flame(struct load *load, const char *where, const char *first, int64_t limit,
                             hx_rows **ret)
{
    struct hx_text sql = {0};
    hx_tree_sql(&load->query, where, &sql);
    hx_tree_order_sql(&load->query, first, &sql);
    hx_text_putf(&sql, " LIMIT %" PRId64, limit);
    hx_error *error = sql.failed ? hx_error_nomem() : hx_query_sql(load->store, sql.s, ret);
    hx_text_free(&sql);
    return error;
}

/* A row of facts for each function on the way to the node. */
static hx_error *read_path_facts(struct load *load)
{
    const struct hx_tree_query *query = &load->query;
    struct hx_text sql = {0};
    HX_ROWS hx_rows *rows = NULL;
    hx_text_putf(&sql,
                 "SELECT k.\"%s\" AS whole, k.ccs_id AS top, o.ccs_id AS other,"
                 " r.sample_bytes AS sample_bytes, r.upper_bounds AS upper_bounds,"
                 " f.label AS caller FROM snapshots s"
                 " LEFT JOIN hx_recording r ON r.snapshot = s.snapshot"
                 " LEFT JOIN hx_cost k ON k.snapshot = s.snapshot AND k.ccs_id = %d"
                 " LEFT JOIN hx_cost o ON o.snapshot = %" PRId64 " AND o.ccs_id = %d LEFT JOIN (",
                 query->figure, HX_TREE_TOP, query->before, HX_TREE_TOP);
    hx_query_put(HX_QUERY_ccs_stack, HX_QUERY_ARGS(.id = load->node, .limit = CALLERS + 2), &sql);
    hx_text_putf(&sql, ") f WHERE s.snapshot = %" PRId64, query->snapshot);
    hx_error *error = sql.failed ? hx_error_nomem() : hx_query_sql(load->store, sql.s, &rows);
    hx_text_free(&sql);
    HX_TRY(error);
    HX_TRY(hx_table_read(&load->facts, rows, HX_FACTS_MAX));
    bool recorded = hx_table_int(&load->facts, 0, "top", 0);
    if (recorded && query->before && !hx_table_int(&load->facts, 0, "other", 0)) {
        char what[32];
        snprintf(what, sizeof what, "snapshot %" PRId64, query->before);
        return hx_error_new(HX_E_ABSENT, what, "d shows the figures themselves again",
                            "has no recording to compare with");
    }
    return NULL;
}

static hx_error *take_flame_row(struct load *load, hx_rows *rows)
{
    struct hx_cell *cell;
    HX_TRY(hx_table_add(&load->loose, &cell));
    for (size_t i = 0; i < load->loose.n_columns; i++) {
        struct hx_value value = hx_rows_value(rows, i);
        HX_TRY(hx_cell_set_value(cell + i, &value));
    }
    HX_NEED(hx_vec_push(&load->link, (struct link){0, 0}));
    if (!load->marks)
        return NULL;
    bool inner = hx_tree_mark(load->marks, cell[HX_TREE_ccs_id].i) & HX_MARK_ABOVE;
    return set_below(&load->loose, load->loose.n_rows - 1, inner ? HX_TREE_FOLDED : HX_TREE_NONE);
}

static hx_error *ask_top(struct load *load)
{
    char where[64];
    HX_ROWS hx_rows *rows = NULL;
    bool more = false;
    snprintf(where, sizeof where, "c.ccs_id = %" PRId64, load->node);
    HX_TRY(query_flame(load, where, "", 1, &rows));
    HX_TRY(hx_table_read(&load->loose, rows, 0)); /* begins it */
    HX_TRY(hx_rows_next(rows, &more));
    if (!more && load->node != HX_TREE_TOP && hx_table_int(&load->facts, 0, "top", 0))
        return hx_error_new(HX_E_ABSENT, "cost centre", "Left goes back to what there is",
                            "nothing of it is in this snapshot");
    if (!more || (load->marks && !hx_tree_mark(load->marks, load->node)))
        return NULL;
    HX_TRY(take_flame_row(load, rows));
    load->least = hx_flame_least(flame_row_value(&load->loose, 0, sort_figure(load->query.figure)),
                                 load->columns);
    return NULL;
}

static int compare_parents(const void *a, const void *b)
{
    const struct parent *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

/* Children come ordered by their parents. */
static hx_error *take_level(struct load *load, hx_rows *rows)
{
    struct link *link = NULL;
    struct parent wanted = {.id = -1};
    for (bool more = true;;) {
        if (hx_progress_cancelled(load->progress))
            return hx_error_cancelled("loading rows");
        HX_TRY(hx_rows_next(rows, &more));
        if (!more)
            return NULL;
        int64_t parent = hx_rows_value(rows, HX_TREE_parent_id).i;
        if (load->marks && !hx_tree_mark(load->marks, hx_rows_value(rows, HX_TREE_ccs_id).i))
            continue;
        if (parent != wanted.id) {
            wanted.id = parent;
            const struct parent *found =
                bsearch(&wanted, load->parents.v, load->parents.n, sizeof wanted, compare_parents);
            if (!found)
                continue;
            link = &load->link.v[found->row];
            *link = (struct link){load->loose.n_rows, 0};
        }
        size_t row = (size_t)(link - load->link.v);
        HX_TRY(take_flame_row(load, rows));
        link = &load->link.v[row];
        link->n++;
    }
}

/* The children of rows [begin, end); a level has no more blocks than cells, if the store is right.
 */
static hx_error *ask_level(struct load *load, size_t begin, size_t end)
{
    struct hx_text where = {0};
    HX_ROWS hx_rows *rows = NULL;
    load->parents.n = 0;
    hx_text_puts(&where, "c.parent_id IN (");
    for (size_t row = begin; row < end; row++) {
        int64_t id = flame_cell_at(&load->loose, row, HX_TREE_ccs_id)->i;
        if (!is_inner(&load->loose, row))
            continue;
        hx_text_putf(&where, "%s%" PRId64, load->parents.n ? "," : "", id);
        if (!hx_vec_push(&load->parents, (struct parent){id, row}))
            where.failed = true;
    }
    hx_text_putf(&where, ") AND c.ccs_id > c.parent_id AND k.\"%s\" >= %" PRIu64,
                 load->query.figure, load->least);
    hx_error *error = where.failed ? hx_error_nomem() : NULL;
    if (!error && load->parents.n) {
        qsort(load->parents.v, load->parents.n, sizeof *load->parents.v, compare_parents);
        error = query_flame(load, hx_text_str(&where), "parent_id, ", 4 * load->columns + 4, &rows);
        if (!error)
            error = take_level(load, rows);
    }
    hx_text_free(&where);
    return error;
}

static hx_error *ask_levels(struct load *load)
{
    size_t begin = 0;
    for (int level = 1; level < HX_FLAME_LEVELS; level++) {
        size_t end = load->loose.n_rows;
        if (begin == end || end > HX_TREE_ROWS)
            return NULL;
        HX_TRY(ask_level(load, begin, end));
        begin = end;
    }
    return NULL;
}

/* --- the order of the tree --- */

struct step {
    size_t next, end;
    int64_t depth;
};

static hx_error *place_flame_row(struct load *load, size_t from, int64_t depth)
{
    struct hx_cell *cell, *old = load->loose.cell + from * load->loose.n_columns;
    HX_TRY(hx_table_add(&load->rows, &cell));
    memcpy(cell, old, load->loose.n_columns * sizeof *cell);
    memset(old, 0, load->loose.n_columns * sizeof *old);
    hx_cell_set_int(&cell[HX_TREE_depth], depth);
    return load->link.v[from].n ? set_below(&load->rows, load->rows.n_rows - 1, HX_TREE_OPEN)
                                : NULL;
}

/* Children stand behind their parents among the rows that came, so that this ends. */
static hx_error *order_flame_rows(struct load *load)
{
    HX_VEC(struct step) steps = {0};
    HX_TRY(hx_table_begin(&load->rows, (const char *const *)load->loose.names));
    hx_error *error = NULL;
    if (load->loose.n_rows)
        HX_NEED(hx_vec_push(&steps, (struct step){0, 1, 0}));
    while (steps.n && !error) {
        struct step *step = &steps.v[steps.n - 1];
        if (step->next == step->end) {
            steps.n--;
            continue;
        }
        size_t row = step->next++;
        int64_t depth = step->depth;
        struct link link = load->link.v[row];
        error = place_flame_row(load, row, depth);
        if (!error && link.n &&
            !hx_vec_push(&steps, (struct step){link.first, link.first + link.n, depth + 1}))
            error = hx_error_nomem();
    }
    hx_vec_free(&steps);
    return error;
}

static hx_error *load_run(struct hx_job *job, hx_store *store, const struct hx_progress *progress)
{
    struct load *load = (struct load *)job;
    load->store = store;
    load->progress = progress;
    HX_TRY(read_path_facts(load));
    if (load->condition)
        HX_TRY(
            hx_tree_find(store, &load->query, load->condition, NULL, NULL, progress, &load->marks));
    HX_TRY(ask_top(load));
    HX_TRY(ask_levels(load));
    return order_flame_rows(load);
}

/* --- what came --- */

static void free_flame(void *data)
{
    struct hx_flame *flame = data;
    if (!flame)
        return;
    free(flame->node);
    free(flame->block);
    free(flame->match);
    free(flame->pattern);
    free(flame);
}

/* What a node has itself, where its figure tells it apart. */
static enum hx_tree_column own_figure(enum hx_tree_column figure)
{
    switch (figure) {
    case HX_TREE_inherited_alloc_bytes:
        return HX_TREE_alloc_bytes;
    case HX_TREE_inherited_live_objects:
        return HX_TREE_live_objects;
    case HX_TREE_inherited_alloc_objects:
        return HX_TREE_alloc_objects;
    default:
        return HX_TREE_live_bytes;
    }
}

static void make_nodes(const struct load *load, struct hx_flame *flame)
{
    enum hx_tree_column figure = sort_figure(load->query.figure), own = own_figure(figure);
    uint32_t way[HX_FLAME_LEVELS] = {0}; /* the last node of each level */
    for (size_t i = 0; i < flame->n; i++) {
        int64_t depth = flame_cell_at(&load->rows, i, HX_TREE_depth)->i;
        flame->node[i] = (struct hx_flame_node){.parent = depth ? way[depth - 1] : 0,
                                                .value = flame_row_value(&load->rows, i, figure),
                                                .own = flame_row_value(&load->rows, i, own)};
        way[depth] = (uint32_t)i;
    }
}

static hx_error *make_flame(const struct load *load, const struct hx_flame *before,
                            struct hx_flame **ret)
{
    size_t n = load->rows.n_rows;
    struct hx_flame *flame = calloc(1, sizeof *flame);
    HX_NEED(flame);
    *flame = (struct hx_flame){.columns = load->columns,
                               .first = before ? before->first : 0,
                               .n = n,
                               .node = calloc(n + 1, sizeof *flame->node),
                               .block = calloc(n + 1, sizeof *flame->block),
                               .match = calloc(n + 1, sizeof *flame->match)};
    if (!flame->node || !flame->block || !flame->match) {
        free_flame(flame);
        return hx_error_nomem();
    }
    make_nodes(load, flame);
    *ret = flame;
    return NULL;
}

static hx_error *take_flame(struct load *load, struct hx_pane *pane)
{
    struct hx_flame *flame = NULL;
    HX_TRY(make_flame(load, pane->data, &flame));
    free_flame(pane->data);
    pane->data = flame;
    pane->free_data = free_flame;
    hx_table_deinit(&pane->rows);
    hx_table_deinit(&pane->facts);
    pane->rows = load->rows;
    pane->facts = load->facts;
    load->rows = load->facts = (struct hx_table){0};
    pane->offset = 0;
    pane->total = (int64_t)pane->rows.n_rows;
    bool found = false;
    for (size_t i = 0; i < load->keep.n && !found; i++)
        for (size_t row = 0; row < pane->rows.n_rows && !found; row++) {
            found = flame_cell_at(&pane->rows, row, HX_TREE_ccs_id)->i == load->keep.v[i];
            pane->cursor = found ? (int64_t)row : pane->cursor;
        }
    hx_pane_go(pane, pane->cursor);
    struct hx_tree *tree = pane->tree;
    hx_tree_marks_unref(tree->marks);
    tree->marks = hx_tree_marks_ref(load->marks);
    tree->marks_of = load->query.snapshot;
    return NULL;
}

static void show_problem(struct hx_pane *pane, const struct hx_error *error)
{
    hx_pane_problem(pane, error, "Cancelled. Ctrl-L loads it.");
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
    pane->loading = false;
    free(hx_steal(pane->problem));
    if (error && error->kind == HX_E_CANCEL && !job->by_user) {
        pane->stale = true; /* another one was wanted meanwhile */
        hx_error_free(error);
        return;
    }
    if (!error)
        error = take_flame(load, pane);
    if (error)
        show_problem(pane, error);
    hx_ui_complain(ui, error);
    pane->loaded = true;
    pane->stale = false;
}

static void load_destroy(struct hx_job *job)
{
    struct load *load = (struct load *)job;
    hx_table_deinit(&load->rows);
    hx_table_deinit(&load->facts);
    hx_table_deinit(&load->loose);
    hx_vec_free(&load->link);
    hx_vec_free(&load->parents);
    hx_vec_free(&load->keep);
    hx_tree_marks_unref(load->marks);
    free(load->condition);
    free(load);
}

/* The row under the cursor and what it hangs on, or where the cursor was sent. */
static bool keep_cursor(const struct hx_pane *pane, struct load *load)
{
    const struct hx_tree *tree = pane->tree;
    const struct hx_flame *flame = pane->data;
    size_t row;
    bool ok = !tree->go_to || hx_vec_push(&load->keep, tree->go_to);
    for (size_t i = 0; i < tree->way.n && ok; i++)
        ok = hx_vec_push(&load->keep, tree->way.v[i].id);
    if (tree->go_to || !flame || !hx_pane_row(pane, &row))
        return ok;
    for (; row && row < flame->n && ok; row = flame->node[row].parent)
        ok = hx_vec_push(&load->keep, flame_cell_at(&pane->rows, row, HX_TREE_ccs_id)->i);
    return ok;
}

static hx_error *begin_load(const struct hx_pane *pane, struct load **ret)
{
    struct load *load = calloc(1, sizeof *load);
    struct hx_tree *tree = pane->tree;
    HX_NEED(load);
    load->job = (struct hx_job){.what = "loading rows",
                                .quiet = true,
                                .lane = HX_LANE_READ,
                                .run = load_run,
                                .done = load_done,
                                .destroy = load_destroy};
    load->pane = pane->serial;
    load->query = (struct hx_tree_query){.snapshot = pane->snapshot,
                                         .before = pane->other,
                                         .figure = hx_flame_figure(pane),
                                         .sort = pane->sort,
                                         .ascending = pane->ascending};
    load->node = pane->id ? pane->id : HX_TREE_TOP;
    load->columns = hx_flame_columns();
    /* Only the filter of these very figures says what to show. */
    if (pane->condition && tree->marks && tree->marks_of == pane->snapshot) {
        load->marks = hx_tree_marks_ref(tree->marks);
    } else if (pane->condition && !(load->condition = strdup(pane->condition))) {
        load_destroy(&load->job);
        return hx_error_nomem();
    }
    if (!keep_cursor(pane, load)) {
        load_destroy(&load->job);
        return hx_error_nomem();
    }
    *ret = load;
    return NULL;
}

hx_error *hx_flame_fill(struct hx_ui *ui, struct hx_pane *pane)
{
    struct load *load = NULL;
    if (!pane->tree)
        HX_NEED(pane->tree = calloc(1, sizeof *pane->tree));
    if (!pane->snapshot)
        return NULL;
    HX_TRY(begin_load(pane, &load));
    load->want = ++pane->want;
    hx_vec_free(&pane->tree->way);
    pane->tree->go_to = 0;
    pane->loading = true;
    hx_jobs_supersede(ui->jobs, load_run);
    hx_jobs_start(ui->jobs, &load->job);
    return NULL;
}
