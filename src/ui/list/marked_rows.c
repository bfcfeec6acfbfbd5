/* marked_rows.c - a sorted array of marked rows, each by its key as SQL literals, so that a
 * statement can ask for them. */
#include "ui/list/marked_rows.h"

#include "base/lower_bound.h"
#include "ui/app.h"
#include "ui/data/difference.h"
#include "ui/list/pane.h"

#include <inttypes.h>
#include <string.h>

struct mark {
    char *key; /* owned */
    /* figures of the row, as last seen: of this snapshot, as difference to the other one */
    int64_t snapshot, other, bytes, objects;
    bool has_bytes, has_objects;
};

struct hx_marks {
    HX_VEC(struct mark) all; /* ascending by key */
};

void hx_marks_destroy(struct hx_marks *marks)
{
    if (!marks)
        return;
    for (size_t i = 0; i < marks->all.n; i++)
        free(marks->all.v[i].key);
    hx_vec_free(&marks->all);
    free(marks);
}

/* Figures and their differences are told apart by the same columns. */
static const char *const *keys_of(const struct hx_pane *pane)
{
    return pane->screen->census ? hx_screen_census(pane->screen)->here.name : pane->keys;
}

size_t hx_marks_count(const struct hx_pane *pane)
{
    return pane->marks ? pane->marks->all.n : 0;
}

/* --- keys --- */

/* As hx_keys_where() wants it. */
static void put_key(const struct hx_pane *pane, size_t row, struct hx_text *ret)
{
    for (const char *const *name = keys_of(pane); *name; name++) {
        const struct hx_cell *cell = hx_table_at(&pane->rows, row, *name);
        if (cell->type == HX_VALUE_TEXT)
            hx_text_sql(ret, cell->text);
        else if (cell->type == HX_VALUE_INT)
            hx_text_putf(ret, "%" PRId64, cell->i);
        else if (cell->type == HX_VALUE_NULL)
            hx_text_puts(ret, "NULL");
        hx_text_putc(ret, ',');
    }
}

void hx_marks_where(const struct hx_pane *pane, struct hx_text *sql)
{
    size_t n = hx_marks_count(pane);
    HX_FREE const char **keys = calloc(n + 1, sizeof *keys);
    for (size_t i = 0; keys && i < n; i++)
        keys[i] = pane->marks->all.v[i].key;
    sql->failed |= !keys;
    if (keys)
        hx_keys_where(keys_of(pane), keys, n, sql);
}

/* The first mark that is not before the key; *ret_same: it is that one. */
static size_t find_mark(const struct hx_marks *marks, const char *key, bool *ret_same)
{
    size_t low = HX_LOWER_BOUND(marks->all.n, i, strcmp(marks->all.v[i].key, key) < 0);
    *ret_same = low < marks->all.n && strcmp(marks->all.v[low].key, key) == 0;
    return low;
}

static struct mark *mark_of(const struct hx_pane *pane, size_t row)
{
    struct hx_text key = {0};
    bool same = false;
    if (!hx_marks_count(pane))
        return NULL;
    put_key(pane, row, &key);
    size_t at = key.failed ? 0 : find_mark(pane->marks, hx_text_str(&key), &same);
    hx_text_free(&key);
    return same ? &pane->marks->all.v[at] : NULL;
}

bool hx_marks_has(const struct hx_pane *pane, size_t row)
{
    return mark_of(pane, row) != NULL;
}

/* --- figures --- */

/* The first of these columns that the row has a number in. */
static bool mark_figure(const struct hx_pane *pane, size_t row, const char *const *names,
                        int64_t *ret)
{
    for (; *names; names++) {
        const struct hx_cell *cell = hx_table_at(&pane->rows, row, *names);
        if (cell->type != HX_VALUE_INT)
            continue;
        *ret = cell->i;
        return true;
    }
    return false;
}

/* A level of the dominator tree adds up by what its rows retain; elsewhere that would count
 * objects twice. */
static bool adds_retained(const struct hx_pane *pane)
{
    return pane->screen == &hx_screen_dominators || pane->screen == &hx_screen_dominated;
}

static void read_mark(const struct hx_pane *pane, size_t row, struct mark *mark)
{
    static const char *const changes[] = {"bytes_delta", NULL},
                             *const object_changes[] = {"objects_delta", NULL},
                             *const bytes[] = {"bytes", "live_bytes", "exclusive_bytes", NULL},
                             *const objects[] = {"objects", "live_objects", NULL},
                             *const retained[] = {"retained_bytes", NULL},
                             *const retained_objects[] = {"retained_objects", NULL};
    bool change = pane->other && pane->screen->census;
    mark->snapshot = pane->snapshot;
    mark->other = pane->other;
    mark->has_bytes = mark_figure(pane, row,
                                  change                ? changes
                                  : adds_retained(pane) ? retained
                                                        : bytes,
                                  &mark->bytes);
    mark->has_objects = mark_figure(pane, row,
                                    change                ? object_changes
                                    : adds_retained(pane) ? retained_objects
                                                          : objects,
                                    &mark->objects);
    uint64_t address;
    if (!mark->has_objects && !change && hx_pane_object(pane, row, &address)) {
        mark->has_objects = true;
        mark->objects = 1;
    }
}

void hx_marks_see(struct hx_pane *pane)
{
    /* Trees may have many rows in memory: those around the visible ones are enough to look at, all
     * others were seen when the cursor was there. */
    int64_t first = pane->top - pane->offset - 1024, end = first + 3072;
    if (!hx_marks_count(pane) || !pane->loaded || pane->stale)
        return;
    first = first < 0 ? 0 : first;
    for (int64_t i = first; i < end && i < (int64_t)pane->rows.n_rows; i++) {
        struct mark *mark = mark_of(pane, (size_t)i);
        if (mark)
            read_mark(pane, (size_t)i, mark);
    }
}

struct sum {
    uint64_t n, seen;
    int64_t bytes, objects;
    bool has_bytes, has_objects;
};

static struct sum add_up(const struct hx_pane *pane)
{
    struct sum sum = {.n = hx_marks_count(pane)};
    for (size_t i = 0; i < sum.n; i++) {
        const struct mark *mark = &pane->marks->all.v[i];
        if (mark->snapshot != pane->snapshot || mark->other != pane->other)
            continue;
        sum.seen++;
        sum.has_bytes |= mark->has_bytes;
        sum.has_objects |= mark->has_objects;
        /* A store may hold any number: a sum that does not fit stays at the end of its range. */
        if (mark->has_bytes && __builtin_add_overflow(sum.bytes, mark->bytes, &sum.bytes))
            sum.bytes = mark->bytes < 0 ? INT64_MIN : INT64_MAX;
        if (mark->has_objects && __builtin_add_overflow(sum.objects, mark->objects, &sum.objects))
            sum.objects = mark->objects < 0 ? INT64_MIN : INT64_MAX;
    }
    return sum;
}

void hx_marks_put(const struct hx_pane *pane, struct hx_text *ret)
{
    char size[HX_HUMAN];
    struct sum sum = add_up(pane);
    const char *plus = pane->other && pane->screen->census && sum.bytes > 0 ? "+" : "";
    hx_text_count(ret, (int64_t)sum.n);
    hx_text_puts(ret, " marked");
    if (sum.seen < sum.n) {
        hx_text_puts(ret, ", ");
        hx_text_count(ret, (int64_t)sum.seen);
        hx_text_puts(ret, " of them seen here");
    }
    if (sum.has_bytes)
        hx_text_putf(
            ret, ": %s%s", sum.bytes < 0 ? "-" : plus,
            hx_human_bytes(sum.bytes < 0 ? 0 - (uint64_t)sum.bytes : (uint64_t)sum.bytes, size));
    if (!sum.has_objects)
        return;
    hx_text_puts(ret, !sum.has_bytes ? ": " : pane->other ? ", " : " in ");
    hx_text_puts(ret, sum.objects > 0 ? plus : "");
    hx_text_count(ret, sum.objects);
    hx_text_puts(ret, sum.objects == 1 ? " object" : " objects");
}

/* --- marking --- */

static hx_error *insert_mark(struct hx_marks *marks, size_t at, struct mark *mark)
{
    if (marks->all.n >= HX_MARKS_MAX)
        return hx_error_new(HX_E_LIMIT, "mark", "a filter (f) chooses more",
                            "%d rows are marked, as many as can be", HX_MARKS_MAX);
    HX_NEED(hx_vec_reserve(&marks->all, marks->all.n + 1));
    memmove(marks->all.v + at + 1, marks->all.v + at, (marks->all.n - at) * sizeof *marks->all.v);
    marks->all.v[at] = *mark;
    marks->all.n++;
    mark->key = NULL;
    return NULL;
}

static void remove_mark(struct hx_marks *marks, size_t at)
{
    free(marks->all.v[at].key);
    marks->all.n--;
    memmove(marks->all.v + at, marks->all.v + at + 1, (marks->all.n - at) * sizeof *marks->all.v);
}

hx_error *hx_marks_toggle(struct hx_ui *ui, struct hx_pane *pane)
{
    size_t row;
    bool same;
    struct hx_text key = {0};
    if (!keys_of(pane))
        return hx_error_new(HX_E_ABSENT, pane->screen->name, "lists of figures have them",
                            "has no rows to mark");
    if (!hx_pane_row(pane, &row))
        return hx_error_new(HX_E_ABSENT, pane->screen->name, NULL, "there is no row here");
    if (!pane->marks)
        HX_NEED(pane->marks = calloc(1, sizeof *pane->marks));
    put_key(pane, row, &key);
    struct mark mark = {.key = key.s};
    hx_error *error = key.failed || !key.s ? hx_error_nomem() : NULL;
    size_t at = error ? 0 : find_mark(pane->marks, mark.key, &same);
    if (!error && same) {
        remove_mark(pane->marks, at);
    } else if (!error) {
        read_mark(pane, row, &mark);
        error = insert_mark(pane->marks, at, &mark);
    }
    free(mark.key);
    HX_TRY(error);
    hx_text_clear(&ui->message); /* the sum stands there */
    hx_pane_go(pane, pane->cursor + 1);
    return NULL;
}

void hx_marks_clear(struct hx_pane *pane)
{
    hx_marks_destroy(pane->marks);
    pane->marks = NULL;
}
