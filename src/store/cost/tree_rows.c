/* tree_rows.c - rows of the tree of cost-centre stacks: asked for level by level, then put in the
 * order of the tree. */
#include "store/cost/tree_rows.h"

#include "base/lower_bound.h"
#include "store/query/named.h"

#include <inttypes.h>
#include <string.h>

#define CHUNK 200 /* nodes whose children one statement asks for */
#define CHAIN 100 /* nodes that unfold by themselves, one below the other */

int64_t hx_tree_int(const struct hx_table *rows, size_t row, enum hx_tree_column column)
{
    const struct hx_cell *cell = hx_tree_cell(rows, row, column);
    return cell->type == HX_VALUE_INT ? cell->i : 0;
}

bool hx_tree_is_below(const struct hx_table *rows, size_t row, const char *what)
{
    return strcmp(hx_cell_text(hx_tree_cell(rows, row, HX_TREE_below)), what) == 0;
}

hx_error *hx_tree_set_below(const struct hx_table *rows, size_t row, const char *what)
{
    return hx_cell_set_text(hx_tree_cell(rows, row, HX_TREE_below), what, strlen(what));
}

/* --- statements --- */

static void put_tree_figure(const struct hx_tree_query *query, const char *name,
                            struct hx_text *sql)
{
    if (query->other)
        hx_text_putf(sql, ", coalesce(k.%s, 0) - coalesce(o.%s, 0) AS %s", name, name, name);
    else
        hx_text_putf(sql, ", k.%s AS %s", name, name);
}

/* Has a node children with figures? What is more with them than without them says so at once. */
static void put_below(const struct hx_tree_query *query, struct hx_text *sql)
{
    hx_text_puts(sql, ", CASE WHEN k.inherited_alloc_objects > k.alloc_objects"
                      " OR k.inherited_live_objects > k.live_objects");
    for (int i = 0; i < 2; i++) {
        int64_t snapshot = i ? query->other : query->snapshot;
        if (snapshot)
            hx_text_putf(sql,
                         " OR EXISTS (SELECT 1 FROM hx_ccs x CROSS JOIN hx_cost y"
                         " ON y.snapshot = %" PRId64 " AND y.ccs_id = x.ccs_id"
                         " WHERE x.parent_id = c.ccs_id AND x.ccs_id > c.ccs_id)",
                         snapshot);
    }
    hx_text_puts(sql, " THEN '" HX_TREE_FOLDED "' ELSE '" HX_TREE_NONE "' END AS below");
}

void hx_tree_sql(const struct hx_tree_query *query, const char *where, struct hx_text *sql)
{
    static const char *const figures[] = {"inherited_live_bytes",
                                          "live_bytes",
                                          "inherited_alloc_bytes",
                                          "alloc_bytes",
                                          "inherited_live_objects",
                                          "live_objects",
                                          "inherited_alloc_objects",
                                          "alloc_objects",
                                          "freed_bytes",
                                          "freed_objects"};
    hx_text_puts(sql, "SELECT c.ccs_id AS ccs_id, c.parent_id AS parent_id, c.depth AS depth");
    put_below(query, sql);
    hx_text_puts(sql, ", n.label AS label, n.module AS module, n.source AS source,"
                      " n.kind AS kind, n.is_caf AS is_caf, c.recursive AS recursive");
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        put_tree_figure(query, figures[i], sql);
    /* Entries and what is retained are not known everywhere: a difference to nothing is none. */
    hx_text_putf(sql, ", k.entries%s AS entries, s.retained_bytes%s AS retained_bytes",
                 query->other ? " - o.entries" : "", query->other ? " - p.retained_bytes" : "");
    if (query->before)
        hx_text_putf(sql, ", k.\"%s\" - coalesce(b.\"%s\", 0) AS grown", query->figure,
                     query->figure);
    hx_text_putf(sql,
                 " FROM hx_ccs c %s JOIN hx_cost k ON k.snapshot = %" PRId64
                 " AND k.ccs_id = c.ccs_id LEFT JOIN hx_centre n ON n.centre = c.centre"
                 " LEFT JOIN hx_site s ON s.snapshot = %" PRId64 " AND s.ccs_id = c.ccs_id",
                 query->other ? "LEFT" : "CROSS", query->snapshot, query->snapshot);
    if (query->before)
        hx_text_putf(sql,
                     " LEFT JOIN hx_cost b ON b.snapshot = %" PRId64 " AND b.ccs_id = c.ccs_id",
                     query->before);
    if (query->other)
        hx_text_putf(sql,
                     " LEFT JOIN hx_cost o ON o.snapshot = %" PRId64 " AND o.ccs_id = c.ccs_id"
                     " LEFT JOIN hx_site p ON p.snapshot = %" PRId64 " AND p.ccs_id = c.ccs_id"
                     " WHERE (k.ccs_id IS NOT NULL OR o.ccs_id IS NOT NULL)",
                     query->other, query->other);
    if (where)
        hx_text_putf(sql, " %s %s", query->other ? "AND" : "WHERE", where);
}

/* Runs and frees a statement. */
static hx_error *query_tree(hx_store *store, struct hx_text *sql, hx_rows **ret)
{
    hx_error *error = sql->failed ? hx_error_nomem() : hx_query_sql(store, hx_text_str(sql), ret);
    hx_text_free(sql);
    return error;
}

hx_error *hx_tree_children(hx_store *store, const struct hx_tree_query *query,
                           const struct hx_tree_children *of, hx_rows **ret)
{
    struct hx_text sql = {0}, where = {0};
    hx_text_puts(&where, "c.parent_id IN (");
    for (size_t i = 0; i < of->n; i++)
        hx_text_putf(&where, "%s%" PRId64, i ? "," : "", of->id[i]);
    hx_text_puts(&where, ") AND c.ccs_id > c.parent_id");
    if (of->least)
        hx_text_putf(&where, " AND k.\"%s\" >= %" PRIu64, query->figure, of->least);
    hx_tree_sql(query, hx_text_str(&where), &sql);
    hx_text_putf(&sql, " ORDER BY %s\"%s\" %s, ccs_id", of->n == 1 ? "" : "parent_id, ",
                 query->sort ? query->sort : "ccs_id",
                 query->ascending ? "ASC NULLS LAST" : "DESC");
    if (of->limit >= 0)
        hx_text_putf(&sql, " LIMIT %" PRId64, of->limit);
    sql.failed |= where.failed;
    hx_text_free(&where);
    return query_tree(store, &sql, ret);
}

hx_error *hx_tree_facts(hx_store *store, const struct hx_tree_query *query, int64_t node,
                        int callers, struct hx_table *ret)
{
    struct hx_text sql = {0};
    HX_ROWS hx_rows *rows = NULL;
    int64_t other = query->other ? query->other : query->before;
    hx_text_putf(&sql,
                 "SELECT k.inherited_live_bytes AS live, k.inherited_alloc_bytes AS alloc,"
                 " k.\"%s\" AS whole, k.ccs_id AS top, o.ccs_id AS other,"
                 " r.sample_bytes AS sample_bytes, r.upper_bounds AS upper_bounds,"
                 " f.label AS caller FROM snapshots s"
                 " LEFT JOIN hx_recording r ON r.snapshot = s.snapshot"
                 " LEFT JOIN hx_cost k ON k.snapshot = s.snapshot AND k.ccs_id = %d"
                 " LEFT JOIN hx_cost o ON o.snapshot = %" PRId64 " AND o.ccs_id = %d LEFT JOIN (",
                 query->figure, HX_TREE_TOP, other, HX_TREE_TOP);
    hx_query_put(HX_QUERY_ccs_stack, HX_QUERY_ARGS(.id = node, .limit = callers), &sql);
    hx_text_putf(&sql, ") f WHERE s.snapshot = %" PRId64, query->snapshot);
    HX_TRY(query_tree(store, &sql, &rows));
    HX_TRY(hx_table_read(ret, rows, -1));
    bool recorded = query->other || hx_table_int(ret, 0, "top", 0);
    if (recorded && other && !hx_table_int(ret, 0, "other", 0)) {
        char what[32];
        snprintf(what, sizeof what, "snapshot %" PRId64, other);
        return hx_error_new(HX_E_ABSENT, what, "d shows the figures themselves again",
                            "has no recording to compare with");
    }
    return NULL;
}

/* --- loading --- */

/* Children of one node among the rows that came. */
struct group {
    int64_t parent;
    size_t first, n;
    bool more, placed;
};

struct loading {
    struct hx_tree_load *load;
    hx_store *store;
    const struct hx_progress *progress;
    uint64_t least;        /* of the figure that a node has */
    struct hx_table loose; /* rows as they came */
    HX_VEC(struct group) groups;
};

void hx_tree_load_deinit(struct hx_tree_load *load)
{
    hx_table_deinit(&load->rows);
    hx_vec_free(&load->way.of);
    hx_tree_marks_unref(load->marks);
    free(load->condition);
}

static int compare_ways(const void *a, const void *b)
{
    const struct hx_tree_way *x = a, *y = b;
    return x->id != y->id ? (x->id > y->id ? 1 : -1) : (x->cap < y->cap) - (x->cap > y->cap);
}

/* By id, each once, with the larger of its caps. */
static void sort_ways(struct hx_tree_ways *ways)
{
    if (!ways->of.n)
        return;
    qsort(ways->of.v, ways->of.n, sizeof *ways->of.v, compare_ways);
    size_t n = 1;
    for (size_t i = 1; i < ways->of.n; i++)
        if (ways->of.v[i].id != ways->of.v[n - 1].id)
            ways->of.v[n++] = ways->of.v[i];
    ways->of.n = n;
}

static size_t cap_of(const struct hx_tree_load *load, int64_t parent)
{
    size_t way = HX_FIND_ID(load->way.of.n, i, load->way.of.v[i].id, parent);
    size_t cap = way == SIZE_MAX ? 0 : load->way.of.v[way].cap;
    return cap > load->children ? cap : load->children;
}

static int compare_groups(const void *a, const void *b)
{
    const struct group *x = a, *y = b;
    return (x->parent > y->parent) - (x->parent < y->parent);
}

static struct group *find_group(const struct loading *l, int64_t parent)
{
    struct group wanted = {.parent = parent};
    return l->groups.n ? bsearch(&wanted, l->groups.v, l->groups.n, sizeof wanted, compare_groups)
                       : NULL;
}

static hx_error *begin_rows(const struct hx_tree_query *query, struct hx_table *ret)
{
    const char *names[HX_TREE_WIDTH + 2] = {
#define NAME(name) #name,
        HX_TREE_COLUMNS(NAME)
#undef NAME
    };
    names[HX_TREE_WIDTH] = query->before ? "grown" : NULL;
    return hx_table_begin(ret, names);
}

static hx_error *take_row(struct loading *l, hx_rows *rows)
{
    const struct hx_tree_marks *marks = l->load->marks;
    struct hx_cell *cell;
    HX_TRY(hx_table_add(&l->loose, &cell));
    for (size_t i = 0; i < l->loose.n_columns; i++) {
        struct hx_value value = hx_rows_value(rows, i);
        HX_TRY(hx_cell_set_value(cell + i, &value));
    }
    if (!marks)
        return NULL;
    bool inner = hx_tree_mark(marks, cell[HX_TREE_ccs_id].i) & HX_MARK_ABOVE;
    return hx_tree_set_below(&l->loose, l->loose.n_rows - 1, inner ? HX_TREE_FOLDED : HX_TREE_NONE);
}

/* Takes the children that a statement gives, ordered by parent, into groups. */
static hx_error *take_children(struct loading *l, hx_rows *rows)
{
    struct hx_tree_load *load = l->load;
    struct group *group = NULL;
    size_t seen = 0, cap = 0;
    for (bool more = true;;) {
        if (hx_progress_cancelled(l->progress))
            return hx_error_cancelled("loading rows");
        HX_TRY(hx_rows_next(rows, &more));
        if (!more)
            return NULL;
        int64_t id = hx_rows_value(rows, HX_TREE_ccs_id).i;
        int64_t parent = hx_rows_value(rows, HX_TREE_parent_id).i;
        if (!group || group->parent != parent) {
            if (l->loose.n_rows >= load->most) {
                load->limited = true;
                return NULL;
            }
            struct group made = {.parent = parent, .first = l->loose.n_rows};
            HX_NEED(hx_vec_push(&l->groups, made));
            group = &l->groups.v[l->groups.n - 1];
            cap = cap_of(load, parent);
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
        HX_TRY(take_row(l, rows));
        group->n++;
    }
}

/* Of a single one no more are asked for than are shown. */
static hx_error *ask_children(struct loading *l, const int64_t *id, size_t n)
{
    HX_ROWS hx_rows *rows = NULL;
    struct hx_tree_children of = {.id = id, .n = n, .least = l->least, .limit = -1};
    if (n == 1 && !l->load->marks)
        of.limit = (int64_t)(l->load->skip + cap_of(l->load, id[0]) + 1);
    HX_TRY(hx_tree_children(l->store, &l->load->query, &of, &rows));
    return take_children(l, rows);
}

/* A node with one child is nothing to stop at; nor, at the first look, one of whose children has
 * nine tenths of what all of them have. The row of that child among the loose ones. */
static bool goes_on(const struct loading *l, const struct group *group, size_t *ret)
{
    *ret = group->first;
    if (group->more || group->n < 2 || !l->load->main)
        return group->n == 1 && !group->more && (l->load->single || l->load->main);
    static const enum hx_tree_column figures[] = {HX_TREE_inherited_live_bytes,
                                                  HX_TREE_inherited_alloc_bytes};
    for (size_t f = 0; f < 2; f++) {
        double sum = 0, most = 0;
        for (size_t row = group->first; row < group->first + group->n; row++) {
            double bytes = (double)hx_tree_int(&l->loose, row, figures[f]);
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
static bool follow_groups(struct loading *l, size_t first_group, size_t *followed, int64_t *ret)
{
    for (size_t i = first_group, row; i < l->groups.n; i++) {
        if (*followed == CHAIN || !goes_on(l, &l->groups.v[i], &row) ||
            !hx_tree_is_below(&l->loose, row, HX_TREE_FOLDED))
            continue;
        ++*followed;
        *ret = hx_tree_int(&l->loose, row, HX_TREE_ccs_id);
        return true;
    }
    return false;
}

/* Nodes whose children are to be asked for. */
struct queue {
    HX_VEC(int64_t) of;
    size_t done, followed;
};

static hx_error *ask_chunk(struct loading *l, struct queue *queue, size_t n)
{
    size_t before = l->loose.n_rows, groups = l->groups.n;
    int64_t id;
    HX_TRY(ask_children(l, queue->of.v + queue->done, n));
    queue->done += n;
    if (!l->load->all && follow_groups(l, groups, &queue->followed, &id))
        HX_NEED(hx_vec_push(&queue->of, id));
    for (size_t i = before; i < l->loose.n_rows && l->load->all; i++)
        if (hx_tree_is_below(&l->loose, i, HX_TREE_FOLDED))
            HX_NEED(hx_vec_push(&queue->of, hx_tree_int(&l->loose, i, HX_TREE_ccs_id)));
    return NULL;
}

/* All children of what is unfolded; with `all` of what these unfold then, too. */
static hx_error *ask_all(struct loading *l)
{
    struct hx_tree_load *load = l->load;
    struct queue queue = {0};
    hx_error *error = NULL;
    for (size_t i = 0; i < load->way.of.n && !error; i++)
        if (!hx_vec_push(&queue.of, load->way.of.v[i].id))
            error = hx_error_nomem();
    size_t end = queue.of.n; /* of the level, where it matters */
    for (uint32_t level = 1; queue.done < queue.of.n && !error && !load->limited;) {
        if (load->levels && queue.done == end && ++level == load->levels)
            break;
        if (!load->levels || queue.done == end)
            end = queue.of.n;
        size_t n = end - queue.done;
        error = ask_chunk(l, &queue, n < CHUNK ? n : CHUNK);
    }
    hx_vec_free(&queue.of);
    return error;
}

/* The row of the node itself, which the smallest ones are measured by. */
static hx_error *ask_itself(struct loading *l)
{
    struct hx_tree_load *load = l->load;
    struct hx_text sql = {0};
    char where[64];
    HX_ROWS hx_rows *rows = NULL;
    snprintf(where, sizeof where, "c.ccs_id = %" PRId64, load->node);
    hx_tree_sql(&load->query, where, &sql);
    HX_TRY(query_tree(l->store, &sql, &rows));
    HX_TRY(hx_rows_next(rows, &load->found));
    if (!load->found || (load->marks && !hx_tree_mark(load->marks, load->node)))
        return NULL;
    HX_TRY(take_row(l, rows));
    int64_t whole = hx_table_int(&l->loose, 0, load->query.figure, 0);
    l->least = load->parts ? hx_tree_part(whole > 0 ? (uint64_t)whole : 0, load->parts) : 0;
    return NULL;
}

/* --- the order of the tree --- */

/* A row goes from where it came in to where it is shown. */
static hx_error *place_row(struct loading *l, size_t from, int64_t depth)
{
    struct hx_cell *cell, *old = hx_tree_cell(&l->loose, from, 0);
    HX_TRY(hx_table_add(&l->load->rows, &cell));
    memcpy(cell, old, l->loose.n_columns * sizeof *cell);
    memset(old, 0, l->loose.n_columns * sizeof *old);
    hx_cell_set_int(&cell[HX_TREE_depth], depth);
    return NULL;
}

static hx_error *place_more(struct loading *l, int64_t parent, int64_t depth)
{
    static const char label[] = "more: + shows them";
    struct hx_table *rows = &l->load->rows;
    struct hx_cell *cell;
    HX_TRY(hx_table_add(rows, &cell));
    hx_cell_set_int(&cell[HX_TREE_parent_id], parent);
    hx_cell_set_int(&cell[HX_TREE_depth], depth);
    HX_TRY(hx_tree_set_below(rows, rows->n_rows - 1, HX_TREE_MORE));
    return hx_cell_set_text(&cell[HX_TREE_label], label, strlen(label));
}

struct step {
    struct group *group;
    size_t next;
};
struct steps {
    HX_VEC(struct step) of;
};

/* What hangs on the last row that was placed comes next. A group is placed once, so that wrong
 * parents lead nowhere. */
static hx_error *descend(struct loading *l, struct steps *steps)
{
    struct hx_table *rows = &l->load->rows;
    size_t row = rows->n_rows - 1;
    struct group *below = find_group(l, hx_tree_int(rows, row, HX_TREE_ccs_id));
    if (!below || below->placed || !below->n)
        return NULL;
    below->placed = true;
    HX_NEED(hx_vec_push(&steps->of, (struct step){below, 0}));
    return hx_tree_set_below(rows, row, HX_TREE_OPEN);
}

static hx_error *place_groups(struct loading *l, struct steps *steps)
{
    while (steps->of.n) {
        struct step *step = &steps->of.v[steps->of.n - 1];
        struct group *group = step->group;
        int64_t at = l->load->depth + (int64_t)steps->of.n;
        if (step->next < group->n) {
            HX_TRY(place_row(l, group->first + step->next++, at));
            HX_TRY(descend(l, steps));
            continue;
        }
        if (group->more && !l->load->parts)
            HX_TRY(place_more(l, group->parent, at));
        steps->of.n--;
    }
    return NULL;
}

static hx_error *place_rows(struct loading *l, struct steps *steps)
{
    struct hx_tree_load *load = l->load;
    if (l->groups.n)
        qsort(l->groups.v, l->groups.n, sizeof *l->groups.v, compare_groups);
    if (load->itself) {
        HX_TRY(place_row(l, 0, load->depth));
        HX_TRY(descend(l, steps));
    } else {
        struct group *first = find_group(l, load->node);
        if (first)
            first->placed = true;
        if (first)
            HX_NEED(hx_vec_push(&steps->of, (struct step){first, 0}));
    }
    return place_groups(l, steps);
}

/* --- all of it --- */

static hx_error *load_rows(struct loading *l)
{
    struct hx_tree_load *load = l->load;
    struct steps steps = {0};
    HX_TRY(begin_rows(&load->query, &load->rows));
    HX_TRY(begin_rows(&load->query, &l->loose));
    sort_ways(&load->way);
    if (load->condition && !load->marks)
        HX_TRY(hx_tree_filter(l->store, &load->query, load->condition, l->progress, &load->marks));
    if (load->itself) {
        HX_TRY(ask_itself(l));
        if (!l->loose.n_rows)
            return NULL;
    }
    HX_TRY(ask_all(l));
    hx_error *error = place_rows(l, &steps);
    hx_vec_free(&steps.of);
    return error;
}

hx_error *hx_tree_load(hx_store *store, struct hx_tree_load *load,
                       const struct hx_progress *progress)
{
    struct loading l = {.load = load, .store = store, .progress = progress};
    hx_error *error = load_rows(&l);
    hx_table_deinit(&l.loose);
    hx_vec_free(&l.groups);
    return error;
}
