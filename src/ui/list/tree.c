/* tree.c - the rows of a tree: loading them, unfolding and folding. */
#include "ui/list/tree.h"

#include "base/lower_bound.h"
#include "ui/app.h"
#include "ui/command/request.h"

#include <inttypes.h>
#include <string.h>

#define CHUNK 200 /* nodes whose children one statement asks for */
#define CHAIN 100 /* nodes that unfold by themselves, one below the other */

void hx_tree_destroy(struct hx_tree *tree)
{
    if (!tree)
        return;
    hx_tree_marks_unref(tree->marks);
    hx_vec_free(&tree->way);
    free(tree);
}

void hx_tree_forget_filter(struct hx_tree *tree)
{
    if (tree)
        hx_tree_marks_unref(hx_steal(tree->marks));
}

static struct hx_cell *tree_cell_at(const struct hx_table *rows, size_t row,
                                    enum hx_tree_column column)
{
    return rows->cell + row * HX_TREE_WIDTH + column;
}

static int64_t int_at(const struct hx_table *rows, size_t row, enum hx_tree_column column)
{
    const struct hx_cell *cell = tree_cell_at(rows, row, column);
    return cell->type == HX_VALUE_INT ? cell->i : 0;
}

static bool is_below(const struct hx_table *rows, size_t row, const char *what)
{
    const struct hx_cell *cell = tree_cell_at(rows, row, HX_TREE_below);
    return cell->type == HX_VALUE_TEXT && strcmp(cell->text, what) == 0;
}

static hx_error *set_below(const struct hx_table *rows, size_t row, const char *what)
{
    return hx_cell_set_text(tree_cell_at(rows, row, HX_TREE_below), what, strlen(what));
}

/* Behind the last row that hangs on this one. */
static size_t subtree_end(const struct hx_table *rows, size_t row)
{
    int64_t depth = int_at(rows, row, HX_TREE_depth);
    size_t end = row + 1;
    while (end < rows->n_rows && int_at(rows, end, HX_TREE_depth) > depth)
        end++;
    return end;
}

static bool find_row(const struct hx_table *rows, int64_t id, size_t *ret)
{
    for (size_t row = 0; rows->n_columns == HX_TREE_WIDTH && row < rows->n_rows; row++) {
        if (int_at(rows, row, HX_TREE_ccs_id) == id) {
            *ret = row;
            return true;
        }
    }
    return false;
}

/* --- loading, on the lane's thread --- */

/* Children of one node among the rows that came. */
struct group {
    int64_t parent;
    size_t first, n;
    bool more, placed;
};

struct load {
    struct hx_job job;
    uint64_t pane, want;
    struct hx_tree_query query;
    struct hx_tree_marks *marks;
    char *condition;                /* whose marks are to be worked out first; owned */
    int64_t node;                   /* what is loaded hangs on it; 0: everything */
    int64_t depth;                  /* of the node */
    size_t skip;                    /* so many of its children are there already */
    bool all;                       /* all that is below, as far as it fits */
    bool single, main;              /* only children unfold, too; those that have nearly all do */
    HX_VEC(struct hx_tree_way) way; /* what is unfolded, by id */
    int64_t keep, go_to;
    /* answers */
    struct hx_table rows, facts; /* rows in the order of the tree */
    bool limited;                /* not all of it fitted */
    /* while it works */
    hx_store *store;
    const struct hx_progress *progress;
    struct hx_table loose; /* rows as they came */
    HX_VEC(struct group) groups;
    size_t cap;
};

static int compare_way(const void *a, const void *b)
{
    const struct hx_tree_way *x = a, *y = b;
    return x->id != y->id ? (x->id > y->id ? 1 : -1) : (x->cap < y->cap) - (x->cap > y->cap);
}

/* By id, each once, with the larger of its caps. */
static void sort_way(struct load *load)
{
    if (!load->way.n)
        return;
    qsort(load->way.v, load->way.n, sizeof *load->way.v, compare_way);
    size_t n = 1;
    for (size_t i = 1; i < load->way.n; i++)
        if (load->way.v[i].id != load->way.v[n - 1].id)
            load->way.v[n++] = load->way.v[i];
    load->way.n = n;
}

static int compare_group(const void *a, const void *b)
{
    const struct group *x = a, *y = b;
    return (x->parent > y->parent) - (x->parent < y->parent);
}

static struct group *find_group(const struct load *load, int64_t parent)
{
    struct group wanted = {.parent = parent};
    return load->groups.n
               ? bsearch(&wanted, load->groups.v, load->groups.n, sizeof wanted, compare_group)
               : NULL;
}

static hx_error *take_tree_row(struct load *load, hx_rows *rows)
{
    struct hx_cell *cell;
    HX_TRY(hx_table_add(&load->loose, &cell));
    for (size_t i = 0; i < HX_TREE_WIDTH; i++) {
        struct hx_value value = hx_rows_value(rows, i);
        HX_TRY(hx_cell_set_value(cell + i, &value));
    }
    if (!load->marks)
        return NULL;
    bool inner = hx_tree_mark(load->marks, cell[HX_TREE_ccs_id].i) & HX_MARK_ABOVE;
    return set_below(&load->loose, load->loose.n_rows - 1, inner ? HX_TREE_FOLDED : HX_TREE_NONE);
}

static size_t tree_row_limit(const struct load *load)
{
    return load->all ? HX_TREE_UNFOLDED : HX_TREE_ROWS;
}

/* Takes the children that a statement gives, ordered by parent, into groups. */
static hx_error *take_children(struct load *load, hx_rows *rows)
{
    struct group *group = NULL;
    size_t seen = 0, cap = 0;
    for (bool more = true;;) {
        if (hx_progress_cancelled(load->progress))
            return hx_error_cancelled("loading rows");
        HX_TRY(hx_rows_next(rows, &more));
        if (!more)
            return NULL;
        int64_t id = hx_rows_value(rows, HX_TREE_ccs_id).i;
        int64_t parent = hx_rows_value(rows, HX_TREE_parent_id).i;
        if (!group || group->parent != parent) {
            if (load->loose.n_rows >= tree_row_limit(load)) {
                load->limited = true;
                return NULL;
            }
            size_t way = HX_FIND_ID(load->way.n, i, load->way.v[i].id, parent);
            cap = way == SIZE_MAX ? 0 : load->way.v[way].cap;
            cap = cap > HX_TREE_BATCH ? cap : HX_TREE_BATCH;
            struct group made = {.parent = parent, .first = load->loose.n_rows};
            HX_NEED(hx_vec_push(&load->groups, made));
            group = &load->groups.v[load->groups.n - 1];
            seen = 0;
        }
        if (load->marks && !hx_tree_mark(load->marks, id))
            continue;
        if (seen++ < load->skip)
            continue;
        if (group->n >= cap) {
            group->more = true;
            continue;
        }
        HX_TRY(take_tree_row(load, rows));
        group->n++;
    }
}

/* Asks for the children of some nodes. Of a single one no more than are shown. */
static hx_error *ask_children(struct load *load, const int64_t *id, size_t n)
{
    struct hx_text sql = {0}, where = {0};
    HX_ROWS hx_rows *rows = NULL;
    hx_text_puts(&where, "c.parent_id IN (");
    for (size_t i = 0; i < n; i++)
        hx_text_putf(&where, "%s%" PRId64, i ? "," : "", id[i]);
    hx_text_puts(&where, ") AND c.ccs_id > c.parent_id");
    hx_tree_sql(&load->query, hx_text_str(&where), &sql);
    hx_tree_order_sql(&load->query, n == 1 ? "" : "parent_id, ", &sql);
    if (n == 1 && load->node == id[0] && !load->marks)
        hx_text_putf(&sql, " LIMIT %zu", load->skip + HX_TREE_BATCH + 1);
    hx_error *error =
        sql.failed || where.failed ? hx_error_nomem() : hx_query_sql(load->store, sql.s, &rows);
    hx_text_free(&sql);
    hx_text_free(&where);
    return error ? error : take_children(load, rows);
}

/* A node with one child is nothing to stop at; nor, at the first look, one of whose children has
 * nine tenths of what all of them have. The row of that child among the loose ones. */
static bool goes_on(const struct load *load, const struct group *group, size_t *ret)
{
    *ret = group->first;
    if (group->more || group->n < 2 || !load->main)
        return group->n == 1 && !group->more && (load->single || load->main);
    static const enum hx_tree_column figures[] = {HX_TREE_inherited_live_bytes,
                                                  HX_TREE_inherited_alloc_bytes};
    for (size_t f = 0; f < 2; f++) {
        double sum = 0, most = 0;
        for (size_t row = group->first; row < group->first + group->n; row++) {
            double bytes = (double)int_at(&load->loose, row, figures[f]);
            sum += bytes;
            if (bytes > most) {
                most = bytes;
                *ret = row;
            }
        }
        if (sum > 0)
            return most >= sum * 0.9;
    }
    return false;
}

/* What of the groups that came unfolds by itself. */
static bool follow_groups(struct load *load, size_t first_group, size_t *followed, int64_t *ret)
{
    for (size_t i = first_group, row; i < load->groups.n; i++) {
        if (*followed == CHAIN || !goes_on(load, &load->groups.v[i], &row) ||
            !is_below(&load->loose, row, HX_TREE_FOLDED))
            continue;
        ++*followed;
        *ret = int_at(&load->loose, row, HX_TREE_ccs_id);
        return true;
    }
    return false;
}

/* All children of what is unfolded; `all`: of what these unfold then, too. */
static hx_error *ask_all(struct load *load)
{
    HX_VEC(int64_t) next = {0};
    size_t followed = 0;
    hx_error *error = NULL;
    for (size_t i = 0; i < load->way.n && !error; i++)
        if (!hx_vec_push(&next, load->way.v[i].id))
            error = hx_error_nomem();
    for (size_t done = 0; done < next.n && !error && !load->limited;) {
        size_t n = next.n - done < CHUNK ? next.n - done : CHUNK;
        size_t before = load->loose.n_rows, groups = load->groups.n;
        int64_t id;
        error = ask_children(load, next.v + done, n);
        done += n;
        if (!error && !load->all && follow_groups(load, groups, &followed, &id) &&
            !hx_vec_push(&next, id))
            error = hx_error_nomem();
        for (size_t i = before; i < load->loose.n_rows && load->all && !error; i++)
            if (is_below(&load->loose, i, HX_TREE_FOLDED) &&
                !hx_vec_push(&next, int_at(&load->loose, i, HX_TREE_ccs_id)))
                error = hx_error_nomem();
    }
    hx_vec_free(&next);
    return error;
}

static hx_error *ask_top(struct load *load)
{
    struct hx_text sql = {0}, where = {0};
    HX_ROWS hx_rows *rows = NULL;
    bool more = false;
    hx_text_putf(&where, "c.ccs_id = %d", load->node ? 0 : HX_TREE_TOP);
    hx_tree_sql(&load->query, hx_text_str(&where), &sql);
    hx_error *error =
        sql.failed || where.failed ? hx_error_nomem() : hx_query_sql(load->store, sql.s, &rows);
    hx_text_free(&sql);
    hx_text_free(&where);
    HX_TRY(error);
    HX_TRY(hx_table_read(&load->loose, rows, 0)); /* begins it */
    HX_TRY(hx_rows_next(rows, &more));
    if (!more || (load->marks && !hx_tree_mark(load->marks, HX_TREE_TOP)))
        return NULL;
    return take_tree_row(load, rows);
}

/* --- the order of the tree --- */

/* A row goes from where it came in to where it is shown. */
static hx_error *place_tree_row(struct load *load, size_t from, int64_t depth)
{
    struct hx_cell *cell, *old = tree_cell_at(&load->loose, from, 0);
    HX_TRY(hx_table_add(&load->rows, &cell));
    memcpy(cell, old, HX_TREE_WIDTH * sizeof *cell);
    memset(old, 0, HX_TREE_WIDTH * sizeof *old);
    hx_cell_set_int(&cell[HX_TREE_depth], depth);
    return NULL;
}

static hx_error *place_more(struct load *load, int64_t parent, int64_t depth)
{
    static const char label[] = "more: + shows them";
    struct hx_cell *cell;
    HX_TRY(hx_table_add(&load->rows, &cell));
    hx_cell_set_int(&cell[HX_TREE_parent_id], parent);
    hx_cell_set_int(&cell[HX_TREE_depth], depth);
    HX_TRY(hx_cell_set_text(&cell[HX_TREE_below], HX_TREE_MORE, strlen(HX_TREE_MORE)));
    return hx_cell_set_text(&cell[HX_TREE_label], label, strlen(label));
}

struct step {
    struct group *group;
    size_t next;
};

/* Where a group has rows, they follow the row of their parent. A group is placed once, so that
 * wrong parents lead nowhere. */
static hx_error *place_groups(struct load *load, struct group *first, int64_t depth)
{
    HX_VEC(struct step) steps = {0};
    hx_error *error = NULL;
    if (first)
        HX_NEED(hx_vec_push(&steps, (struct step){first, 0}));
    while (steps.n && !error) {
        struct step *step = &steps.v[steps.n - 1];
        struct group *group = step->group;
        int64_t at = depth + (int64_t)steps.n;
        if (step->next == group->n) {
            error = group->more ? place_more(load, group->parent, at) : NULL;
            steps.n--;
            continue;
        }
        error = place_tree_row(load, group->first + step->next++, at);
        if (error)
            break;
        size_t row = load->rows.n_rows - 1;
        struct group *below = find_group(load, int_at(&load->rows, row, HX_TREE_ccs_id));
        if (!below || below->placed || !below->n)
            continue;
        below->placed = true;
        error = set_below(&load->rows, row, HX_TREE_OPEN);
        if (!error && !hx_vec_push(&steps, (struct step){below, 0}))
            error = hx_error_nomem();
    }
    hx_vec_free(&steps);
    return error;
}

static hx_error *order_tree_rows(struct load *load)
{
    if (load->groups.n)
        qsort(load->groups.v, load->groups.n, sizeof *load->groups.v, compare_group);
    HX_TRY(hx_table_begin(&load->rows, (const char *const *)load->loose.names));
    struct group *first = find_group(load, load->node ? load->node : HX_TREE_TOP);
    if (first)
        first->placed = true;
    if (load->node)
        return place_groups(load, first, load->depth);
    if (!load->loose.n_rows || int_at(&load->loose, 0, HX_TREE_ccs_id) != HX_TREE_TOP)
        return NULL;
    HX_TRY(place_tree_row(load, 0, 0));
    if (first && first->n)
        HX_TRY(set_below(&load->rows, 0, HX_TREE_OPEN));
    return place_groups(load, first, 0);
}

/* --- the job --- */

static hx_error *read_node_facts(struct load *load)
{
    const struct hx_tree_query *query = &load->query;
    struct hx_text sql = {0};
    HX_ROWS hx_rows *rows = NULL;
    hx_text_putf(&sql,
                 "SELECT k.inherited_live_bytes AS live, k.inherited_live_objects AS objects,"
                 " k.inherited_alloc_bytes AS alloc, s.heap_bytes AS heap_bytes,"
                 " r.events AS events, r.sample_bytes AS sample_bytes,"
                 " r.upper_bounds AS upper_bounds, o.ccs_id AS other,"
                 " k.inherited_live_bytes AS whole FROM snapshots s"
                 " LEFT JOIN hx_recording r ON r.snapshot = s.snapshot"
                 " LEFT JOIN hx_cost k ON k.snapshot = s.snapshot AND k.ccs_id = %d"
                 " LEFT JOIN hx_cost o ON o.snapshot = %" PRId64 " AND o.ccs_id = %d"
                 " WHERE s.snapshot = %" PRId64,
                 HX_TREE_TOP, query->other, HX_TREE_TOP, query->snapshot);
    hx_error *error = sql.failed ? hx_error_nomem() : hx_query_sql(load->store, sql.s, &rows);
    hx_text_free(&sql);
    HX_TRY(error);
    HX_TRY(hx_table_read(&load->facts, rows, 1));
    if (query->other && hx_table_at(&load->facts, 0, "other")->type == HX_VALUE_NULL) {
        char what[32];
        snprintf(what, sizeof what, "snapshot %" PRId64, query->other);
        return hx_error_new(HX_E_ABSENT, what, "d shows the figures themselves again",
                            "has no recording to compare with");
    }
    return NULL;
}

static hx_error *load_run(struct hx_job *job, hx_store *store, const struct hx_progress *progress)
{
    struct load *load = (struct load *)job;
    load->store = store;
    load->progress = progress;
    if (!load->node)
        HX_TRY(read_node_facts(load));
    if (load->condition)
        HX_TRY(
            hx_tree_find(store, &load->query, load->condition, NULL, NULL, progress, &load->marks));
    HX_TRY(ask_top(load));
    HX_TRY(ask_all(load));
    return order_tree_rows(load);
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

static void go_to(struct hx_pane *pane, int64_t id)
{
    size_t row;
    if (!id || !find_row(&pane->rows, id, &row))
        return;
    pane->top += (int64_t)row - pane->cursor; /* the row stays at its height on the screen */
    pane->cursor = (int64_t)row;
}

/* Of differences the largest one fills the bar. */
static void measure_bars(struct hx_pane *pane)
{
    int64_t most = 0;
    for (size_t row = 0; row < pane->rows.n_rows; row++) {
        int64_t bytes = int_at(&pane->rows, row, HX_TREE_inherited_live_bytes);
        most = bytes > most ? bytes : most;
    }
    for (size_t i = 0; i < pane->facts.n_columns && pane->facts.n_rows; i++)
        if (strcmp(pane->facts.names[i], "whole") == 0)
            hx_cell_set_int(&pane->facts.cell[i], most);
}

static void take_whole(struct load *load, struct hx_pane *pane)
{
    hx_table_deinit(&pane->rows);
    hx_table_deinit(&pane->facts);
    pane->rows = load->rows;
    pane->facts = load->facts;
    load->rows = load->facts = (struct hx_table){0};
    pane->offset = 0;
    pane->total = (int64_t)pane->rows.n_rows;
    hx_pane_go(pane, pane->cursor);
    go_to(pane, load->go_to ? load->go_to : load->keep);
    if (load->query.other)
        measure_bars(pane);
    struct hx_tree *tree = pane->tree;
    hx_tree_marks_unref(tree->marks);
    tree->marks = hx_tree_marks_ref(load->marks);
    tree->marks_of = load->query.snapshot;
    pane->loaded = true;
    pane->stale = false;
}

static hx_error *take_below(struct load *load, struct hx_pane *pane)
{
    size_t row;
    if (!find_row(&pane->rows, load->node, &row))
        return NULL;
    size_t at = row + 1, end = subtree_end(&pane->rows, row);
    if (load->skip) {
        if (end == at || !is_below(&pane->rows, end - 1, HX_TREE_MORE) ||
            int_at(&pane->rows, end - 1, HX_TREE_parent_id) != load->node)
            return NULL;
        at = end - 1;
    }
    bool some = load->rows.n_rows || load->skip;
    HX_TRY(splice(pane, at, end - at, &load->rows));
    return set_below(&pane->rows, row, some ? HX_TREE_OPEN : HX_TREE_NONE);
}

static void load_done(struct hx_job *job, struct hx_ui *ui, hx_error *error)
{
    struct load *load = (struct load *)job;
    struct hx_pane *pane = hx_ui_find_pane(ui, load->pane);
    if (!pane || pane->want != load->want) {
        hx_error_free(error);
        return;
    }
    if (!load->node) {
        pane->loading = false;
        free(hx_steal(pane->problem));
    }
    if (error && error->kind == HX_E_CANCEL && !job->by_user) {
        pane->stale |= !load->node; /* another list was wanted meanwhile */
        hx_error_free(error);
        return;
    }
    if (error) {
        if (!load->node) {
            hx_pane_problem(pane, error, "Cancelled. Ctrl-L loads the list.");
            pane->loaded = true;
            pane->stale = false;
        }
        hx_ui_complain(ui, error);
        return;
    }
    if (load->node)
        hx_ui_complain(ui, take_below(load, pane));
    else
        take_whole(load, pane);
    if (load->limited)
        hx_ui_say(ui, "unfolded as far as %d rows; + unfolds what is wanted of the rest",
                  (int)tree_row_limit(load));
}

static void load_destroy(struct hx_job *job)
{
    struct load *load = (struct load *)job;
    hx_table_deinit(&load->rows);
    hx_table_deinit(&load->facts);
    hx_table_deinit(&load->loose);
    hx_vec_free(&load->groups);
    hx_vec_free(&load->way);
    hx_tree_marks_unref(load->marks);
    free(load->condition);
    free(load);
}

static hx_error *begin_load(struct hx_pane *pane, int64_t node, struct load **ret)
{
    struct load *load = calloc(1, sizeof *load);
    HX_NEED(load);
    struct hx_tree *tree = pane->tree;
    load->job = (struct hx_job){.what = "loading rows",
                                .quiet = true,
                                .lane = HX_LANE_READ,
                                .run = load_run,
                                .done = load_done,
                                .destroy = load_destroy};
    load->pane = pane->serial;
    load->query = (struct hx_tree_query){.snapshot = pane->snapshot,
                                         .other = pane->other,
                                         .sort = pane->sort,
                                         .ascending = pane->ascending};
    load->node = node;
    /* Only the filter of these very figures says what to show. */
    if (pane->condition && tree->marks && tree->marks_of == pane->snapshot)
        load->marks = hx_tree_marks_ref(tree->marks);
    else if (pane->condition && !(load->condition = strdup(pane->condition)))
        goto nomem;
    if (node && !hx_vec_push(&load->way, (struct hx_tree_way){.id = node}))
        goto nomem;
    *ret = load;
    return NULL;
nomem:
    load_destroy(&load->job);
    return hx_error_nomem();
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
    bool ok = rows->n_rows || hx_vec_push(&load->way, (struct hx_tree_way){.id = HX_TREE_TOP});
    for (size_t row = 0; rows->n_columns == HX_TREE_WIDTH && row < rows->n_rows && ok; row++) {
        if (is_below(rows, row, HX_TREE_OPEN))
            ok = hx_vec_push(&load->way,
                             (struct hx_tree_way){.id = int_at(rows, row, HX_TREE_ccs_id)});
        if (ok && row)
            ok = hx_vec_push(&parents, int_at(rows, row, HX_TREE_parent_id));
    }
    if (parents.n)
        qsort(parents.v, parents.n, sizeof *parents.v, compare_ids);
    for (size_t i = 0, n; i < parents.n && ok; i += n) {
        for (n = 1; i + n < parents.n && parents.v[i + n] == parents.v[i];)
            n++;
        if (n > HX_TREE_BATCH)
            ok = hx_vec_push(&load->way, (struct hx_tree_way){parents.v[i], n});
    }
    for (size_t i = 0; i < pane->tree->way.n && ok; i++)
        ok = hx_vec_push(&load->way, pane->tree->way.v[i]);
    hx_vec_free(&parents);
    sort_way(load);
    return ok ? NULL : hx_error_nomem();
}

hx_error *hx_tree_fill(struct hx_ui *ui, struct hx_pane *pane)
{
    size_t row;
    if (!pane->tree)
        HX_NEED(pane->tree = calloc(1, sizeof *pane->tree));
    if (!pane->snapshot)
        return NULL;
    struct hx_tree *tree = pane->tree;
    struct load *load;
    HX_TRY(begin_load(pane, 0, &load));
    hx_error *error = note_unfolded(pane, load);
    if (error) {
        load_destroy(&load->job);
        return error;
    }
    load->keep =
        pane->cursor && hx_pane_row(pane, &row) ? int_at(&pane->rows, row, HX_TREE_ccs_id) : 0;
    load->go_to = tree->go_to;
    load->main = !pane->rows.n_rows;
    load->want = ++pane->want;
    hx_vec_free(&tree->way);
    tree->go_to = 0;
    pane->loading = true;
    hx_jobs_supersede(ui->jobs, load_run);
    hx_jobs_start(ui->jobs, &load->job);
    return NULL;
}

hx_error *hx_tree_show(struct hx_ui *ui, const struct hx_screen *screen, const int64_t *node,
                       size_t n)
{
    HX_TRY(hx_ui_show(ui, screen));
    struct hx_pane *pane = hx_ui_pane(ui);
    if (!pane->tree)
        HX_NEED(pane->tree = calloc(1, sizeof *pane->tree));
    struct hx_tree *tree = pane->tree;
    tree->way.n = 0;
    for (size_t i = 1; i < n; i++)
        HX_NEED(hx_vec_push(&tree->way, (struct hx_tree_way){.id = node[i]}));
    tree->go_to = n ? node[0] : 0;
    hx_pane_outdate(pane);
    return NULL;
}

/* --- the keys --- */

static hx_error *load_below(struct hx_ui *ui, struct hx_pane *pane, size_t row, bool all)
{
    const struct hx_table *rows = &pane->rows;
    bool rest = is_below(rows, row, HX_TREE_MORE);
    int64_t node = int_at(rows, row, rest ? HX_TREE_parent_id : HX_TREE_ccs_id);
    size_t parent = row;
    if (rest && !find_row(rows, node, &parent))
        return NULL;
    if (rows->n_rows + (all ? HX_TREE_UNFOLDED : HX_TREE_BATCH) > HX_TREE_ROWS)
        return hx_error_new(HX_E_LIMIT, "rows", "fold what is not wanted with -",
                            "there are %zu already", rows->n_rows);
    struct load *load;
    HX_TRY(begin_load(pane, node, &load));
    load->want = pane->want;
    load->depth = int_at(rows, parent, HX_TREE_depth);
    load->all = all && !rest;
    load->single = !rest;
    for (size_t i = parent + 1; rest && i < row; i++)
        load->skip += int_at(rows, i, HX_TREE_depth) == load->depth + 1;
    load->job.leads = HX_WAITS_LIST;
    hx_jobs_start(ui->jobs, &load->job);
    return NULL;
}

hx_error *hx_tree_unfold(struct hx_ui *ui, struct hx_pane *pane, size_t row)
{
    if (is_below(&pane->rows, row, HX_TREE_NONE))
        hx_ui_say(ui, "nothing is below this");
    else if (is_below(&pane->rows, row, HX_TREE_OPEN))
        hx_ui_say(ui, "this is unfolded already");
    else
        return load_below(ui, pane, row, false);
    return NULL;
}

hx_error *hx_tree_unfold_all(struct hx_ui *ui, struct hx_pane *pane, size_t row)
{
    if (is_below(&pane->rows, row, HX_TREE_NONE)) {
        hx_ui_say(ui, "nothing is below this");
        return NULL;
    }
    return load_below(ui, pane, row, true);
}

hx_error *hx_tree_fold(struct hx_ui *ui, struct hx_pane *pane, size_t row)
{
    struct hx_table nothing = {0};
    if (!is_below(&pane->rows, row, HX_TREE_OPEN)) { /* what it hangs on is meant */
        int64_t depth = int_at(&pane->rows, row, HX_TREE_depth);
        while (row && int_at(&pane->rows, row, HX_TREE_depth) >= depth)
            row--;
        hx_pane_go(pane, (int64_t)row);
        if (!is_below(&pane->rows, row, HX_TREE_OPEN)) {
            hx_ui_say(ui, "nothing is unfolded here");
            return NULL;
        }
    }
    HX_TRY(splice(pane, row + 1, subtree_end(&pane->rows, row) - row - 1, &nothing));
    return set_below(&pane->rows, row, HX_TREE_FOLDED);
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
