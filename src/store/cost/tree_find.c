/* tree_find.c - nodes of the tree of cost-centre stacks: those for which a condition holds, and the
 * next one whose centre matches.
 *
 * Such nodes, and all on the way to one, are marked first. Then only marked nodes are walked, in
 * the order in which they would be shown: each step down leads to a match.
 */
#include "store/cost/tree_rows.h"

#include "base/lower_bound.h"
#include "store/query/named.h"

#include <inttypes.h>
#include <string.h>

/* --- marks --- */

struct hx_tree_marks *hx_tree_marks_ref(struct hx_tree_marks *marks)
{
    if (marks)
        marks->users++;
    return marks;
}

void hx_tree_marks_unref(struct hx_tree_marks *marks)
{
    if (!marks || --marks->users)
        return;
    free(marks->id);
    free(marks->parent);
    free(marks->flag);
    free(marks);
}

static uint32_t mark_at(const struct hx_tree_marks *marks, int64_t id)
{
    size_t at = HX_FIND_ID(marks->n, i, marks->id[i], id);
    return at == SIZE_MAX ? UINT32_MAX : (uint32_t)at;
}

uint8_t hx_tree_mark(const struct hx_tree_marks *marks, int64_t id)
{
    uint32_t at = mark_at(marks, id);
    return at == UINT32_MAX ? 0 : marks->flag[at];
}

/* All nodes with figures, and which of them match. */
struct finding {
    hx_store *store;
    const struct hx_tree_query *query;
    const struct hx_progress *progress;
    const struct hx_tree_search *search; /* NULL: by a condition */
    HX_VEC(int64_t) centres;             /* that match, ascending */
    struct hx_tree_marks *marks;
    size_t cap_id, cap_parent, cap_flag;
};

/* The next of the rows, of which there were n. */
static hx_error *next_node(const struct finding *finding, hx_rows *rows, size_t n, bool *ret_more)
{
    if (n % 4096 == 0 && hx_progress_cancelled(finding->progress))
        return hx_error_cancelled("search");
    return hx_rows_next(rows, ret_more);
}

static const char *text_at(const hx_rows *rows, size_t column)
{
    struct hx_value value = hx_rows_value(rows, column);
    return value.type == HX_VALUE_TEXT ? value.text : NULL;
}

/* A row of HX_QUERY_centres. */
static hx_error *add_centre(void *context, hx_rows *rows)
{
    struct finding *finding = context;
    const struct hx_tree_search *search = finding->search;
    if (search->matches(search->context, text_at(rows, 1), text_at(rows, 2), text_at(rows, 3)))
        HX_NEED(hx_vec_push(&finding->centres, hx_rows_value(rows, 0).i));
    return NULL;
}

static bool has_centre(const struct finding *finding, int64_t centre)
{
    return HX_FIND_ID(finding->centres.n, i, finding->centres.v[i], centre) != SIZE_MAX;
}

static hx_error *add_match_node(struct finding *finding, int64_t id, int64_t parent, int64_t centre)
{
    struct hx_tree_marks *marks = finding->marks;
    size_t n = marks->n;
    if (n >= UINT32_MAX - 1)
        return hx_error_new(HX_E_LIMIT, "cost centres", NULL, "there are too many to look at");
    HX_NEED(
        hx_vec_reserve_raw((void **)&marks->id, &finding->cap_id, n + 1, sizeof *marks->id) &&
        hx_vec_reserve_raw((void **)&marks->parent, &finding->cap_parent, n + 1,
                           sizeof *marks->parent) &&
        hx_vec_reserve_raw((void **)&marks->flag, &finding->cap_flag, n + 1, sizeof *marks->flag));
    uint32_t up = mark_at(marks, parent);
    marks->id[n] = id;
    marks->parent[n] = up == UINT32_MAX ? (uint32_t)n : up;
    marks->flag[n] = finding->search && has_centre(finding, centre) &&
                     (!finding->search->within || hx_tree_mark(finding->search->within, id));
    marks->n++;
    return NULL;
}

/* Runs and frees a statement. */
static hx_error *query_nodes(const struct finding *finding, struct hx_text *sql, hx_rows **ret)
{
    hx_error *error =
        sql->failed ? hx_error_nomem() : hx_query_sql(finding->store, hx_text_str(sql), ret);
    hx_text_free(sql);
    return error;
}

static hx_error *load_match_nodes(struct finding *finding)
{
    const struct hx_tree_query *query = finding->query;
    struct hx_text sql = {0};
    HX_ROWS hx_rows *rows = NULL;
    if (query->other)
        hx_text_putf(&sql,
                     "SELECT ccs_id, parent_id, centre FROM hx_ccs c WHERE EXISTS (SELECT 1"
                     " FROM hx_cost k WHERE k.snapshot = %" PRId64 " AND k.ccs_id = c.ccs_id) OR"
                     " EXISTS (SELECT 1 FROM hx_cost k WHERE k.snapshot = %" PRId64
                     " AND k.ccs_id = c.ccs_id) ORDER BY ccs_id",
                     query->snapshot, query->other);
    else
        hx_text_putf(&sql,
                     "SELECT k.ccs_id, c.parent_id, c.centre FROM hx_cost k CROSS JOIN hx_ccs c"
                     " ON c.ccs_id = k.ccs_id WHERE k.snapshot = %" PRId64 " ORDER BY k.ccs_id",
                     query->snapshot);
    HX_TRY(query_nodes(finding, &sql, &rows));
    for (bool more = true;;) {
        HX_TRY(next_node(finding, rows, finding->marks->n, &more));
        if (!more)
            return NULL;
        HX_TRY(add_match_node(finding, hx_rows_value(rows, 0).i, hx_rows_value(rows, 1).i,
                              hx_rows_value(rows, 2).i));
    }
}

static hx_error *mark_condition(struct finding *finding, const char *condition)
{
    struct hx_text sql = {0};
    HX_ROWS hx_rows *rows = NULL;
    hx_text_puts(&sql, "SELECT ccs_id FROM (");
    hx_tree_sql(finding->query, NULL, &sql);
    hx_text_putf(&sql, ") WHERE %s", condition);
    HX_TRY(query_nodes(finding, &sql, &rows));
    bool more = true;
    for (size_t n = 0;; n++) {
        HX_TRY(next_node(finding, rows, n, &more));
        if (!more)
            return NULL;
        uint32_t at = mark_at(finding->marks, hx_rows_value(rows, 0).i);
        if (at != UINT32_MAX)
            finding->marks->flag[at] |= HX_MARK_HOLDS;
    }
}

static hx_error *mark_nodes(struct finding *finding, const char *condition)
{
    struct hx_tree_marks *marks = finding->marks;
    if (finding->search)
        HX_TRY(
            hx_query_each(finding->store, HX_QUERY_centres, HX_QUERY_ARGS(), add_centre, finding));
    HX_TRY(load_match_nodes(finding));
    if (condition)
        HX_TRY(mark_condition(finding, condition));
    /* A node stands behind its parent. */
    for (size_t i = marks->n; i-- > 0;)
        if (marks->flag[i] && marks->parent[i] != i)
            marks->flag[marks->parent[i]] |= HX_MARK_ABOVE;
    return NULL;
}

/* By a condition, or by the names that are searched for. */
static hx_error *find_nodes(struct finding *finding, const char *condition,
                            struct hx_tree_marks **ret)
{
    struct hx_tree_marks *marks = finding->marks = calloc(1, sizeof *marks);
    HX_NEED(marks);
    marks->users = 1;
    hx_error *error = mark_nodes(finding, condition);
    hx_vec_free(&finding->centres);
    if (error)
        hx_tree_marks_unref(marks);
    else
        *ret = marks;
    return error;
}

hx_error *hx_tree_filter(hx_store *store, const struct hx_tree_query *query, const char *condition,
                         const struct hx_progress *progress, struct hx_tree_marks **ret)
{
    struct finding finding = {.store = store, .query = query, .progress = progress};
    return find_nodes(&finding, condition, ret);
}

/* --- the next one that matches --- */

struct walk {
    struct hx_tree_search *search;
    hx_store *store;
    const struct hx_progress *progress;
    struct hx_tree_marks *marks;
    HX_VEC(uint32_t) children; /* marked ones of a node, in order */
    HX_VEC(size_t) place;      /* of each among all that are shown */
};

static hx_error *read_children(struct walk *walk, uint32_t node)
{
    const struct hx_tree_marks *marks = walk->marks, *within = walk->search->within;
    struct hx_tree_children of = {.id = &marks->id[node], .n = 1, .limit = -1};
    HX_ROWS hx_rows *rows = NULL;
    walk->children.n = walk->place.n = 0;
    HX_TRY(hx_tree_children(walk->store, &walk->search->query, &of, &rows));
    size_t place = 0;
    for (bool more = true;;) {
        if (hx_progress_cancelled(walk->progress))
            return hx_error_cancelled("search");
        HX_TRY(hx_rows_next(rows, &more));
        if (!more)
            return NULL;
        int64_t id = hx_rows_value(rows, HX_TREE_ccs_id).i;
        if (within && !hx_tree_mark(within, id))
            continue;
        place++;
        uint32_t at = mark_at(marks, id);
        if (at == UINT32_MAX || !marks->flag[at] || marks->parent[at] != node)
            continue;
        HX_NEED(hx_vec_push(&walk->children, at) && hx_vec_push(&walk->place, place));
    }
}

/* One node further down the way. */
static hx_error *descend_to_match(struct walk *walk, uint32_t parent, size_t child)
{
    struct hx_tree_way step = {walk->marks->id[parent], walk->place.v[child]};
    return hx_vec_push(&walk->search->way.of, step) ? NULL : hx_error_nomem();
}

/* The first match at or below a marked node. */
static hx_error *first_below(struct walk *walk, uint32_t node)
{
    const struct hx_tree_marks *marks = walk->marks;
    while (!(marks->flag[node] & HX_MARK_HOLDS)) {
        HX_TRY(read_children(walk, node));
        if (!walk->children.n)
            return NULL;
        HX_TRY(descend_to_match(walk, node, 0));
        node = walk->children.v[0];
    }
    walk->search->found = marks->id[node];
    return NULL;
}

/* The last one; a node comes before what is below it. */
static hx_error *last_below(struct walk *walk, uint32_t node)
{
    const struct hx_tree_marks *marks = walk->marks;
    while (marks->flag[node] & HX_MARK_ABOVE) {
        HX_TRY(read_children(walk, node));
        if (!walk->children.n)
            break;
        HX_TRY(descend_to_match(walk, node, walk->children.n - 1));
        node = walk->children.v[walk->children.n - 1];
    }
    if (marks->flag[node] & HX_MARK_HOLDS)
        walk->search->found = marks->id[node];
    return NULL;
}

/* Behind `child` among its parent's children, or before it; in *ret, UINT32_MAX: none. What has no
 * match in it is not among those that are read: it is looked for by its place. */
static hx_error *next_sibling(struct walk *walk, uint32_t child, uint32_t *ret)
{
    const struct hx_tree_marks *marks = walk->marks;
    uint32_t parent = marks->parent[child];
    uint8_t flag = marks->flag[child];
    walk->marks->flag[child] |= HX_MARK_ABOVE; /* so that it is among them */
    hx_error *error = read_children(walk, parent);
    walk->marks->flag[child] = flag;
    HX_TRY(error);
    *ret = UINT32_MAX;
    for (size_t i = 0; i < walk->children.n; i++) {
        if (walk->children.v[i] != child)
            continue;
        size_t other = walk->search->backwards ? i - 1 : i + 1;
        if (other < walk->children.n) {
            *ret = walk->children.v[other];
            return descend_to_match(walk, parent, other);
        }
    }
    return NULL;
}

static hx_error *search_forwards(struct walk *walk, uint32_t node)
{
    const struct hx_tree_marks *marks = walk->marks;
    if (marks->flag[node] & HX_MARK_ABOVE) {
        HX_TRY(read_children(walk, node));
        if (walk->children.n) {
            HX_TRY(descend_to_match(walk, node, 0));
            return first_below(walk, walk->children.v[0]);
        }
    }
    for (; marks->parent[node] != node; node = marks->parent[node]) {
        uint32_t next;
        HX_TRY(next_sibling(walk, node, &next));
        if (next != UINT32_MAX)
            return first_below(walk, next);
    }
    walk->search->wrapped = true;
    return first_below(walk, node);
}

static hx_error *search_backwards(struct walk *walk, uint32_t node)
{
    const struct hx_tree_marks *marks = walk->marks;
    while (marks->parent[node] != node) {
        uint32_t next;
        HX_TRY(next_sibling(walk, node, &next));
        if (next != UINT32_MAX)
            return last_below(walk, next);
        node = marks->parent[node];
        if (marks->flag[node] & HX_MARK_HOLDS) {
            walk->search->found = marks->id[node];
            return NULL;
        }
    }
    walk->search->wrapped = true;
    return last_below(walk, node);
}

/* The places of nodes above where the search began are not known: they are shown already. */
static hx_error *add_way(struct walk *walk)
{
    const struct hx_tree_marks *marks = walk->marks;
    uint32_t node = mark_at(marks, walk->search->found);
    while (node != UINT32_MAX && marks->parent[node] != node) {
        node = marks->parent[node];
        HX_NEED(hx_vec_push(&walk->search->way.of, (struct hx_tree_way){.id = marks->id[node]}));
    }
    return NULL;
}

static hx_error *walk_to_match(struct walk *walk)
{
    struct hx_tree_search *search = walk->search;
    uint32_t top = mark_at(walk->marks, HX_TREE_TOP), node = mark_at(walk->marks, search->from);
    if (top == UINT32_MAX || !walk->marks->flag[top])
        return NULL;
    if (node == UINT32_MAX)
        node = top;
    HX_TRY(search->backwards ? search_backwards(walk, node) : search_forwards(walk, node));
    return search->found ? add_way(walk) : NULL;
}

hx_error *hx_tree_search_next(hx_store *store, struct hx_tree_search *search,
                              const struct hx_progress *progress)
{
    struct walk walk = {.search = search, .store = store, .progress = progress};
    struct finding finding = {
        .store = store, .query = &search->query, .progress = progress, .search = search};
    if (search->condition && !search->within)
        HX_TRY(hx_tree_filter(store, &search->query, search->condition, progress, &search->within));
    HX_TRY(find_nodes(&finding, NULL, &walk.marks));
    hx_error *error = walk_to_match(&walk);
    hx_tree_marks_unref(walk.marks);
    hx_vec_free(&walk.children);
    hx_vec_free(&walk.place);
    return error;
}

void hx_tree_search_deinit(struct hx_tree_search *search)
{
    hx_tree_marks_unref(search->within);
    hx_vec_free(&search->way.of);
    free(search->condition);
}
