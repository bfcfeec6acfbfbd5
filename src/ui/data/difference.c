/* difference.c - a census as differences between two snapshots. */
#include "ui/data/difference.h"

#include "ui/app.h"

#include <inttypes.h>
#include <string.h>

/* --- statements --- */

/* "x.A, x.B, " or, for the greatest of each, "max(x.A) AS A, " */
static void put_names(const char *const *names, const char *before, const char *after, bool named,
                      struct hx_text *sql)
{
    for (; names && *names; names++) {
        hx_text_putf(sql, "%s%s%s", before, *names, after);
        hx_text_putf(sql, named ? " AS %s, " : ", ", *names);
    }
}

/* Rows of one side: the figures of the other one are 0, which is what it has of a row that it does
 * not have. */
static void put_side(const struct hx_pane *pane, int64_t snapshot, bool now, struct hx_text *sql)
{
    const struct hx_difference *difference = pane->screen->difference;
    const char *none = difference->total_objects ? "0" : "NULL";
    hx_text_putf(sql, "SELECT %d AS side, ", now);
    put_names(difference->keys, "", "", false, sql);
    put_names(difference->kept, "", "", false, sql);
    if (now)
        hx_text_putf(sql, "0 AS bytes_a, bytes AS bytes_b, %s AS objects_a, objects AS objects_b",
                     none);
    else
        hx_text_putf(sql, "bytes AS bytes_a, 0 AS bytes_b, objects AS objects_a, %s AS objects_b",
                     none);
    hx_text_puts(sql, " FROM (");
    difference->rows(pane, snapshot, sql);
    hx_text_puts(sql, ")");
}

/* A sum of which a part is not known is not known. */
static void put_sums(struct hx_text *sql)
{
    static const char *const figures[] = {"bytes_a", "bytes_b", "objects_a", "objects_b"};
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        hx_text_putf(sql, ", CASE WHEN count(*) = count(%s) THEN sum(%s) END AS %s", figures[i],
                     figures[i], figures[i]);
}

/* Both sides in one row for each key, with its status: by bytes, else by objects. */
static void put_rows(const struct hx_pane *pane, int64_t snapshot, struct hx_text *sql)
{
    const struct hx_difference *difference = pane->screen->difference;
    hx_text_puts(sql, "SELECT ");
    put_names(difference->keys, "", "", false, sql);
    hx_text_puts(sql,
                 "CASE WHEN NOT in_a THEN 'appeared' WHEN NOT in_b THEN 'gone'"
                 " WHEN bytes_delta IS NULL AND objects_delta IS NULL THEN NULL"
                 " WHEN coalesce(nullif(bytes_delta, 0), objects_delta, 0) > 0 THEN 'grown'"
                 " WHEN coalesce(nullif(bytes_delta, 0), objects_delta, 0) < 0 THEN 'shrunk'"
                 " ELSE 'same' END AS status, bytes_a, bytes_b, bytes_delta, objects_a, objects_b,"
                 " objects_delta, ");
    put_names(difference->kept, "", "", false, sql);
    hx_text_puts(sql, "abs(bytes_delta) AS moved, abs(objects_delta) AS objects_moved"
                      " FROM (SELECT *, bytes_b - bytes_a AS bytes_delta,"
                      " objects_b - objects_a AS objects_delta FROM (SELECT ");
    put_names(difference->keys, "", "", false, sql);
    put_names(difference->kept, "max(", ")", true, sql);
    hx_text_puts(sql, "max(side = 0) AS in_a, max(side = 1) AS in_b");
    put_sums(sql);
    hx_text_puts(sql, " FROM (");
    put_side(pane, pane->other, false, sql);
    hx_text_puts(sql, " UNION ALL ");
    put_side(pane, snapshot, true, sql);
    hx_text_puts(sql, ") GROUP BY ");
    for (size_t i = 0; difference->keys[i]; i++)
        hx_text_putf(sql, "%s%s", i ? ", " : "", difference->keys[i]);
    hx_text_puts(sql, "))");
}

/* An expression: has the snapshot such rows at all? */
static void put_made(const struct hx_pane *pane, int64_t snapshot, struct hx_text *sql)
{
    const struct hx_difference *difference = pane->screen->difference;
    if (difference->made) {
        hx_text_putf(sql, "(%s%" PRId64 ")", difference->made, snapshot);
        return;
    }
    hx_text_puts(sql, "(EXISTS (");
    difference->rows(pane, snapshot, sql);
    hx_text_putf(sql,
                 ") OR (SELECT heap_objects FROM hx_snapshot WHERE snapshot = %" PRId64 ") = 0)",
                 snapshot);
}

/* An expression: what both have to share; NULL where that is nothing. */
static void put_kind(enum hx_alike alike, int64_t snapshot, struct hx_text *sql)
{
    if (alike == HX_ALIKE_SCHEME)
        hx_text_putf(sql, "(SELECT scheme FROM hx_census WHERE snapshot = %" PRId64 ")", snapshot);
    else if (alike == HX_ALIKE_ROOTS)
        hx_text_putf(sql,
                     "(SELECT group_concat(name, '+') FROM (SELECT name FROM hx_named"
                     " WHERE snapshot = %" PRId64 " ORDER BY position))",
                     snapshot);
    else
        hx_text_puts(sql, "NULL");
}

/* A condition: rows of the one are rows of the other. */
static void put_comparable(const struct hx_pane *pane, int64_t snapshot, struct hx_text *sql)
{
    enum hx_alike alike = pane->screen->difference->alike;
    put_made(pane, pane->other, sql);
    hx_text_puts(sql, " AND ");
    put_made(pane, snapshot, sql);
    if (alike == HX_ALIKE_ANYWAY)
        return;
    hx_text_puts(sql, " AND ");
    put_kind(alike, pane->other, sql);
    hx_text_puts(sql, " IS ");
    put_kind(alike, snapshot, sql);
}

static void put_facts(const struct hx_pane *pane, int64_t snapshot, struct hx_text *sql)
{
    static const char *const states[] = {"appeared", "gone", "grown", "shrunk", "same"};
    const struct hx_difference *difference = pane->screen->difference;
    hx_text_puts(sql, "SELECT count(*) AS rows, sum(moved) AS moved");
    for (size_t i = 0; i < sizeof states / sizeof *states; i++)
        hx_text_putf(sql, ", sum(status = '%s') AS %s", states[i], states[i]);
    for (int i = 0; i < 2; i++) {
        int64_t number = i ? snapshot : pane->other;
        const char *side = i ? "b" : "a";
        hx_text_putf(sql, ", %" PRId64 " AS snapshot_%s, ", number, side);
        put_made(pane, number, sql);
        hx_text_putf(sql, " AS made_%s, ", side);
        put_kind(difference->alike, number, sql);
        hx_text_putf(sql,
                     " AS kind_%s, (SELECT %s FROM hx_snapshot WHERE snapshot = %" PRId64
                     ") AS total_%s, (SELECT %s FROM hx_snapshot WHERE snapshot = %" PRId64
                     ") AS objects_%s",
                     side, difference->total, number, side,
                     difference->total_objects ? difference->total_objects : "NULL", number, side);
    }
    hx_text_puts(sql, " FROM (");
    put_rows(pane, snapshot, sql);
    hx_text_puts(sql, ") WHERE ");
    put_comparable(pane, snapshot, sql);
}

void hx_difference_source(const struct hx_pane *pane, int64_t snapshot, struct hx_source *ret)
{
    const struct hx_difference *difference = pane->screen->difference;
    hx_text_putf(&ret->written,
                 "%s, status, bytes_a, bytes_b, bytes_delta, objects_a, objects_b, objects_delta",
                 difference->written);
    hx_text_puts(&ret->sql, "SELECT d.*");
    if (difference->more)
        difference->more(pane, snapshot, &ret->sql);
    hx_text_puts(&ret->sql, " FROM (");
    put_rows(pane, snapshot, &ret->sql);
    hx_text_puts(&ret->sql, ") AS d WHERE ");
    put_comparable(pane, snapshot, &ret->sql);
    put_facts(pane, snapshot, &ret->facts);
}

void hx_change_sql(int64_t other, const char *now, const char *then, const char *made,
                   struct hx_text *sql)
{
    if (!other)
        hx_text_puts(sql, ", NULL AS bytes_delta");
    else
        hx_text_putf(sql, ", CASE WHEN %s THEN %s - coalesce(%s, 0) END AS bytes_delta", made, now,
                     then);
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
    const struct hx_difference *difference = pane->screen->difference;
    const struct hx_table *facts = &pane->facts;
    int64_t bytes, objects;
    (void)ui;
    hx_text_puts(ret, difference->title);
    if (!facts->n_rows) {
        hx_text_puts(ret, ", differences");
        return;
    }
    hx_text_putf(ret, ", %" PRId64 " against %" PRId64,
                 hx_table_int(facts, 0, "snapshot_b", pane->snapshot),
                 hx_table_int(facts, 0, "snapshot_a", pane->other));
    if (delta(facts, "total_a", "total_b", &bytes)) {
        hx_text_putf(ret, ": %s ", difference->total_title);
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
    const struct hx_difference *difference = pane->screen->difference;
    const struct hx_table *facts = &pane->facts;
    int64_t a = hx_table_int(facts, 0, "snapshot_a", 0),
            b = hx_table_int(facts, 0, "snapshot_b", 0);
    bool made_a = hx_table_int(facts, 0, "made_a", 0), made_b = hx_table_int(facts, 0, "made_b", 0);
    if (!facts->n_rows || hx_table_int(facts, 0, "rows", 0))
        return false;
    if (!made_a || !made_b) {
        hx_text_putf(ret, "Snapshot %" PRId64 " has no %s. ", made_a ? b : a, difference->lacks);
        if (difference->alike != HX_ALIKE_ANYWAY && ui->revising)
            hx_text_puts(ret, "They are being worked out.");
        else if (difference->alike != HX_ALIKE_ANYWAY)
            hx_text_puts(ret, "`:analyse` works out what both lack.");
        else
            hx_text_puts(ret, "`:difference N` compares with another one; d ends this.");
        return true;
    }
    const char *of_a = hx_table_text(facts, 0, "kind_a"), *of_b = hx_table_text(facts, 0, "kind_b");
    if (strcmp(of_a, of_b) == 0) {
        hx_text_putf(ret, "Neither of the two snapshots has %s.", difference->lacks);
        return true;
    }
    bool scheme = difference->alike == HX_ALIKE_SCHEME;
    hx_text_putf(ret, "These do not compare: snapshot %" PRId64 " has %s %s ", a, difference->lacks,
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
