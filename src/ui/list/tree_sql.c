/* tree_sql.c - statements on the tree of cost-centre stacks, and its nodes found by a condition. */
#include "ui/list/tree.h"

#include "base/lower_bound.h"
#include "ui/app.h"
#include "ui/data/call_label.h"

#include <inttypes.h>
#include <string.h>

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

void hx_tree_order_sql(const struct hx_tree_query *query, const char *first, struct hx_text *sql)
{
    hx_text_putf(sql, " ORDER BY %s\"%s\" %s, ccs_id", first, query->sort ? query->sort : "ccs_id",
                 query->ascending ? "ASC NULLS LAST" : "DESC");
}

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

uint32_t hx_tree_mark_at(const struct hx_tree_marks *marks, int64_t id)
{
    size_t at = HX_FIND_ID(marks->n, i, marks->id[i], id);
    return at == SIZE_MAX ? UINT32_MAX : (uint32_t)at;
}

uint8_t hx_tree_mark(const struct hx_tree_marks *marks, int64_t id)
{
    uint32_t at = hx_tree_mark_at(marks, id);
    return at == UINT32_MAX ? 0 : marks->flag[at];
}

/* All nodes with figures, and with `match`, which centres match. */
struct finding {
    hx_store *store;
    const struct hx_tree_query *query;
    const struct hx_progress *progress;
    const struct hx_tree_marks *within;
    HX_VEC(int64_t) centres; /* that match, ascending */
    bool by_name;
    struct hx_tree_marks *marks;
    size_t cap_id, cap_parent, cap_flag;
};

static hx_error *finding_cancelled(const struct finding *finding, size_t n)
{
    if (n % 4096 == 0 && hx_progress_cancelled(finding->progress))
        return hx_error_cancelled("search");
    return NULL;
}

static void put_shown(struct hx_text *text, const struct hx_value *value)
{
    if (value->type != HX_VALUE_TEXT)
        return;
    hx_text_putc(text, ' ');
    hx_text_putn(text, value->text, value->text_bytes);
}

/* A centre is looked at as it is shown, and with its whole name. */
static bool centre_matches(hx_rows *rows, const struct hx_matcher *matcher, struct hx_text *text)
{
    struct hx_value label = hx_rows_value(rows, 1);
    hx_text_clear(text);
    put_shown(text, &label);
    struct hx_text calls = {0};
    hx_text_calls(&calls, text->n ? hx_text_str(text) + 1 : "");
    hx_text_putf(text, " %s", hx_text_str(&calls));
    hx_text_free(&calls);
    for (size_t i = 2; i < 4; i++) {
        struct hx_value value = hx_rows_value(rows, i);
        put_shown(text, &value);
    }
    return hx_matcher_matches(matcher, hx_text_str(text));
}

static hx_error *find_centres(struct finding *finding, const struct hx_matcher *matcher)
{
    HX_ROWS hx_rows *rows = NULL;
    struct hx_text text = {0};
    hx_error *error =
        hx_query_sql(finding->store,
                     "SELECT centre, label, module, source FROM hx_centre ORDER BY centre", &rows);
    for (bool more = true; !error && more;) {
        error = hx_rows_next(rows, &more);
        if (error || !more)
            break;
        if (centre_matches(rows, matcher, &text) &&
            !hx_vec_push(&finding->centres, hx_rows_value(rows, 0).i))
            error = hx_error_nomem();
    }
    hx_text_free(&text);
    return error;
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
    uint32_t up = hx_tree_mark_at(marks, parent);
    marks->id[n] = id;
    marks->parent[n] = up == UINT32_MAX ? (uint32_t)n : up;
    marks->flag[n] = finding->by_name && has_centre(finding, centre) &&
                     (!finding->within || hx_tree_mark(finding->within, id));
    marks->n++;
    return NULL;
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
    hx_error *error = sql.failed ? hx_error_nomem() : hx_query_sql(finding->store, sql.s, &rows);
    hx_text_free(&sql);
    for (bool more = true; !error && more;) {
        error = finding_cancelled(finding, finding->marks->n);
        if (!error)
            error = hx_rows_next(rows, &more);
        if (!error && more)
            error = add_match_node(finding, hx_rows_value(rows, 0).i, hx_rows_value(rows, 1).i,
                                   hx_rows_value(rows, 2).i);
    }
    return error;
}

static hx_error *mark_condition(struct finding *finding, const char *condition)
{
    struct hx_text sql = {0};
    HX_ROWS hx_rows *rows = NULL;
    hx_text_puts(&sql, "SELECT ccs_id FROM (");
    hx_tree_sql(finding->query, NULL, &sql);
    hx_text_putf(&sql, ") WHERE %s", condition);
    hx_error *error = sql.failed ? hx_error_nomem() : hx_query_sql(finding->store, sql.s, &rows);
    hx_text_free(&sql);
    size_t n = 0;
    for (bool more = true; !error && more; n++) {
        error = finding_cancelled(finding, n);
        if (!error)
            error = hx_rows_next(rows, &more);
        if (error || !more)
            break;
        uint32_t at = hx_tree_mark_at(finding->marks, hx_rows_value(rows, 0).i);
        if (at != UINT32_MAX)
            finding->marks->flag[at] |= HX_MARK_HOLDS;
    }
    return error;
}

hx_error *hx_tree_find(hx_store *store, const struct hx_tree_query *query, const char *condition,
                       const struct hx_matcher *matcher, const struct hx_tree_marks *within,
                       const struct hx_progress *progress, struct hx_tree_marks **ret)
{
    struct finding finding = {.store = store,
                              .query = query,
                              .progress = progress,
                              .within = within,
                              .by_name = matcher != NULL,
                              .marks = calloc(1, sizeof(struct hx_tree_marks))};
    struct hx_tree_marks *marks = finding.marks;
    HX_NEED(marks);
    marks->users = 1;
    hx_error *error = matcher ? find_centres(&finding, matcher) : NULL;
    if (!error)
        error = load_match_nodes(&finding);
    if (!error && condition)
        error = mark_condition(&finding, condition);
    hx_vec_free(&finding.centres);
    if (error) {
        hx_tree_marks_unref(marks);
        return error;
    }
    /* A node stands behind its parent. */
    for (size_t i = marks->n; i-- > 0;)
        if (marks->flag[i] && marks->parent[i] != i)
            marks->flag[marks->parent[i]] |= HX_MARK_ABOVE;
    *ret = marks;
    return NULL;
}
