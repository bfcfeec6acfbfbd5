/* pane.c - windows over lists: loading, moving, keeping the cursor on its row. */
#include "ui/app.h"
#include "ui/data/call_label.h"
#include "ui/data/difference.h"
#include "ui/list/marked_rows.h"
#include "ui/list/tree.h"
#include "layout/type_name.h"

#include "store/answer.h"
#include "ui/job.h"
#include "ui/list/pane.h"

#include <string.h>

/* Rows that are fetched at least: finding the first of a sorted list costs far more than
 * reading some more of them. Of objects, each row lies elsewhere: first come those that are looked
 * at, then, when nothing else is to be done, the others. */
#define WINDOW_MIN       1024
#define SCATTERED_AROUND 3 /* screens before and behind what is looked at */
/* How far to look for the row under the cursor after a change of order. */
#define KEEP_SCAN 100000

hx_error *hx_pane_create(struct hx_ui *ui, const struct hx_screen *screen, struct hx_pane **ret)
{
    struct hx_pane *pane = calloc(1, sizeof *pane);
    HX_NEED(pane);
    pane->screen = screen;
    pane->columns = screen->columns;
    pane->keys = screen->key;
    pane->object = screen->object;
    pane->serial = ++ui->serial;
    pane->sort = screen->sort;
    pane->from = ui->snapshot;
    *ret = pane;
    return NULL;
}

void hx_pane_destroy(struct hx_pane *pane)
{
    if (!pane)
        return;
    hx_table_deinit(&pane->rows);
    hx_table_deinit(&pane->facts);
    free(pane->text);
    free(pane->more);
    free(pane->chosen);
    free(pane->filter);
    free(pane->condition);
    hx_filter_destroy(pane->parsed);
    hx_tree_destroy(pane->tree);
    hx_marks_destroy(pane->marks);
    if (pane->free_data)
        pane->free_data(pane->data);
    free(pane->full);
    free(pane->keep);
    free(pane->problem);
    free(pane);
}

hx_error *hx_pane_set_text(struct hx_pane *pane, const char *text)
{
    if (!text)
        return NULL;
    pane->text = strdup(text);
    return pane->text ? NULL : hx_error_nomem();
}

void hx_pane_put_text(const struct hx_pane *pane, bool ascii, struct hx_text *ret)
{
    hx_text_type_shown(ret, pane->text ? pane->text : "", ascii);
}

void hx_pane_put_calls(const struct hx_pane *pane, bool ascii, struct hx_text *ret)
{
    struct hx_text calls = {0};
    hx_text_calls(&calls, pane->text ? pane->text : "");
    hx_text_escape(ret, hx_text_str(&calls), calls.n, ascii);
    ret->failed |= calls.failed;
    hx_text_free(&calls);
}

void hx_pane_problem(struct hx_pane *pane, const struct hx_error *error, const char *cancelled)
{
    char line[512];
    hx_error_line(error, line, sizeof line);
    free(pane->problem);
    pane->problem = strdup(error->kind == HX_E_CANCEL ? cancelled : line);
}

void hx_pane_key(const char *const *keys, const struct hx_table *rows, size_t row,
                 struct hx_text *ret)
{
    for (const char *const *name = keys; name && *name; name++) {
        const struct hx_cell *cell = hx_table_at(rows, row, *name);
        if (cell->type == HX_VALUE_TEXT)
            hx_text_putn(ret, cell->text, cell->n);
        else if (cell->type == HX_VALUE_INT)
            hx_text_putf(ret, "%lld", (long long)cell->i);
        hx_text_putc(ret, '\x1f');
    }
}

bool hx_pane_row(const struct hx_pane *pane, size_t *ret)
{
    if (pane->cursor < pane->offset || pane->cursor >= pane->total ||
        (uint64_t)(pane->cursor - pane->offset) >= pane->rows.n_rows)
        return false;
    *ret = (size_t)(pane->cursor - pane->offset);
    return true;
}

bool hx_pane_object(const struct hx_pane *pane, size_t row, uint64_t *ret)
{
    if (!pane->object)
        return false;
    const struct hx_cell *cell = hx_table_at(&pane->rows, row, pane->object);
    if (cell->type != HX_VALUE_INT)
        return false;
    *ret = (uint64_t)cell->i;
    return true;
}

void hx_pane_go(struct hx_pane *pane, int64_t row)
{
    if (row >= pane->total)
        row = pane->total - 1;
    pane->cursor = row < 0 ? 0 : row;
}

/* --- names that would read the same --- */

static bool is_shortened(const struct hx_column *column)
{
    return column->as == HX_AS_TYPE || column->as == HX_AS_NAMES || column->as == HX_AS_NAME;
}

struct hx_column hx_pane_column(const struct hx_pane *pane, const struct hx_column *column,
                                size_t row)
{
    struct hx_column ret = *column;
    if (is_shortened(column) && pane->full && pane->full[row])
        ret.as = HX_AS_TEXT;
    return ret;
}

struct shown_name {
    char *name; /* as it is shown; owned */
    const char *full;
    size_t row;
};

static int compare_shown_names(const void *a, const void *b)
{
    const struct shown_name *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : strcmp(x->full, y->full);
}

/* Marks rows with different names that are shown alike. */
static void mark_alike(const struct shown_name *names, size_t n, bool *full)
{
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && strcmp(names[i].name, names[end].name) == 0; end++)
            ;
        bool alike = strcmp(names[i].full, names[end - 1].full) != 0;
        for (size_t k = i; k < end; k++)
            full[names[k].row] |= alike;
    }
}

/* Without memory for it names stay short. */
static void find_alike(const struct hx_pane *pane, const struct hx_column *column, bool *full)
{
    HX_VEC(struct shown_name) names = {0};
    for (size_t row = 0; row < pane->rows.n_rows; row++) {
        const struct hx_cell *cell = hx_table_at(&pane->rows, row, column->name);
        struct hx_text text = {0};
        if (cell->type != HX_VALUE_TEXT)
            continue;
        hx_column_text(column, &pane->rows, row, &pane->facts, false, &text);
        struct shown_name name = {strdup(hx_text_str(&text)), hx_cell_text(cell), row};
        hx_text_free(&text);
        if (!name.name || !hx_vec_push(&names, name)) {
            free(name.name);
            break;
        }
    }
    if (names.n)
        qsort(names.v, names.n, sizeof *names.v, compare_shown_names);
    mark_alike(names.v, names.n, full);
    for (size_t i = 0; i < names.n; i++)
        free(names.v[i].name);
    hx_vec_free(&names);
}

/* Two rows never read the same. */
static void tell_apart(struct hx_pane *pane)
{
    free(pane->full);
    pane->full = calloc(pane->rows.n_rows + 1, sizeof *pane->full);
    for (const struct hx_column *column = pane->columns; pane->full && column->name; column++)
        if (is_shortened(column))
            find_alike(pane, column, pane->full);
}

void hx_pane_set_rows(struct hx_pane *pane, struct hx_table *rows)
{
    hx_table_deinit(&pane->rows);
    pane->rows = *rows;
    *rows = (struct hx_table){0};
    if (pane->parsed)
        hx_table_filter(&pane->rows, pane->parsed);
    tell_apart(pane);
    pane->offset = 0;
    pane->total = (int64_t)pane->rows.n_rows;
    pane->loaded = true;
    pane->stale = false;
    hx_pane_go(pane, pane->cursor);
}

/* --- loading --- */

void hx_pane_source(const struct hx_pane *pane, int64_t snapshot, struct hx_source *ret)
{
    if (pane->other && pane->screen->census)
        hx_difference_source(pane, snapshot, ret);
    else
        pane->screen->source(pane, snapshot, ret);
}

/* Are its rows objects, each of which lies elsewhere? */
static bool is_scattered(const struct hx_load *load)
{
    return load->source.view && strcmp(load->source.view, "objects") == 0;
}

/* Each column of a scattered row lies for itself: those are read that the screen shows, at whatever
 * width, or that a key wants to know. */
static void put_shown(const struct hx_column *columns, struct hx_text *ret)
{
    hx_text_puts(ret, "snapshot, holder");
    for (const struct hx_column *column = columns; column->name; column++) {
        const struct hx_column *before = columns;
        while (strcmp(before->name, column->name) != 0)
            before++;
        if (before == column)
            hx_text_putf(ret, ", %s", column->name);
        if (column->as == HX_AS_TYPE)
            hx_text_puts(ret, ", shape");
    }
}

void hx_load_begin(const struct hx_pane *pane, int64_t snapshot, struct hx_load *ret)
{
    *ret = (struct hx_load){.snapshot = snapshot,
                            .all = pane->screen->over_time,
                            .sort = pane->sort,
                            .ascending = pane->ascending,
                            .keys = pane->keys};
    hx_pane_source(pane, snapshot, &ret->source);
    if (is_scattered(ret))
        put_shown(pane->screen->columns, &ret->shown);
    if (pane->condition && !(ret->condition = strdup(pane->condition)))
        ret->source.sql.failed = true; /* hx_load_open() says so */
}

/* Its rows, where they are those of a view. */
static struct hx_query query_of(const struct hx_load *load)
{
    const struct hx_text *where = &load->source.where;
    return (struct hx_query){.view = load->source.view,
                             .snapshot = load->all ? 0 : load->snapshot,
                             .sort = load->sort,
                             .ascending = load->ascending,
                             .limit = -1,
                             .columns = load->written ? NULL : load->shown.s,
                             .where = where->n ? where->s : NULL,
                             .also = load->condition};
}

hx_error *hx_load_open(const struct hx_load *load, hx_store *store, int64_t offset, int64_t limit,
                       hx_rows **ret)
{
    const struct hx_source *source = &load->source;
    HX_NEED(!source->where.failed && !source->sql.failed && !source->facts.failed &&
            !source->written.failed && !load->shown.failed);
    if (source->view) {
        struct hx_query query = query_of(load);
        query.limit = limit;
        query.offset = offset;
        return hx_query_view(store, &query, ret);
    }
    if (source->answer) {
        struct hx_answer_query query = {.table = source->answer,
                                        .columns = load->written ? source->written.s : NULL,
                                        .where = load->condition,
                                        .sort = load->sort,
                                        .ascending = load->ascending,
                                        .offset = offset,
                                        .limit = limit};
        return hx_answer_rows(store, &query, ret);
    }
    bool changes = load->sort && strcmp(load->sort, HX_DIFFERENCE_SORT) == 0;
    const struct hx_selection selection = {
        .columns = load->written && source->written.n ? source->written.s : NULL,
        .without = load->written ? source->written_without : NULL,
        .where = load->condition,
        .sort = load->sort,
        .ascending = load->ascending,
        .then = changes ? "objects_moved" : NULL,
        .key = load->keys,
        .limit = limit,
        .offset = offset,
    };
    return hx_query_select(store, hx_text_str(&source->sql), &selection, ret);
}

hx_error *hx_load_count(const struct hx_load *load, hx_store *store, int64_t *ret)
{
    if (!load->source.view)
        return hx_query_select_count(store, hx_text_str(&load->source.sql), load->condition, ret);
    const struct hx_query query = query_of(load);
    return hx_query_count(store, &query, ret);
}

bool hx_pane_is_brief(const struct hx_pane *pane)
{
    if (!hx_pane_windowed(pane))
        return false;
    struct hx_load load;
    hx_load_begin(pane, pane->snapshot, &load);
    const bool brief = load.shown.n;
    hx_load_end(&load);
    return brief;
}

void hx_load_end(struct hx_load *load)
{
    free(load->condition);
    hx_text_free(&load->shown);
    hx_text_free(&load->source.where);
    hx_text_free(&load->source.sql);
    hx_text_free(&load->source.facts);
    hx_text_free(&load->source.written);
}

struct fetch {
    struct hx_job job;
    uint64_t pane, want;
    const struct hx_screen *screen;
    struct hx_load load;
    bool with_facts;
    int64_t offset, limit;
    int64_t above; /* rows on the screen above the cursor */
    bool near;     /* another order: the row is looked for at its beginning only */
    char *keep;
    /* answers */
    int64_t keep_row; /* -1: not found */
    int64_t count;    /* rows that match the filter; -1: there is none */
    unsigned parts;
    struct hx_table rows, facts;
};

static hx_error *read_window(struct fetch *fetch, hx_store *store)
{
    HX_ROWS hx_rows *rows = NULL;
    hx_table_deinit(&fetch->rows);
    HX_TRY(hx_load_open(&fetch->load, store, fetch->offset, fetch->limit, &rows));
    return hx_table_read(&fetch->rows, rows, fetch->limit);
}

static bool find_key(struct fetch *fetch, const struct hx_table *rows, int64_t offset)
{
    bool found = false;
    for (size_t i = 0; i < rows->n_rows && !found; i++) {
        struct hx_text key = {0};
        hx_pane_key(fetch->load.keys, rows, i, &key);
        found = strcmp(hx_text_str(&key), fetch->keep) == 0;
        hx_text_free(&key);
        if (found)
            fetch->keep_row = offset + (int64_t)i;
    }
    return found;
}

/* The row under the cursor is not where it was: looks through the list's beginning and, where
 * it is found, loads the window around it. */
static hx_error *find_kept(struct fetch *fetch, hx_store *store, const struct hx_progress *progress)
{
    if (find_key(fetch, &fetch->rows, fetch->offset))
        return NULL;
    if (fetch->offset == 0 && (int64_t)fetch->rows.n_rows < fetch->limit)
        return NULL;
    HX_ROWS hx_rows *rows = NULL;
    HX_TRY(hx_load_open(&fetch->load, store, 0, KEEP_SCAN, &rows));
    for (int64_t at = 0; at < KEEP_SCAN && !hx_progress_cancelled(progress);) {
        struct hx_table block = {0};
        HX_TRY(hx_table_read(&block, rows, 256));
        size_t n = block.n_rows;
        bool found = find_key(fetch, &block, at);
        hx_table_deinit(&block);
        at += (int64_t)n;
        if (found) {
            hx_rows_end(hx_steal(rows));
            fetch->offset =
                fetch->keep_row > fetch->limit / 2 ? fetch->keep_row - fetch->limit / 2 : 0;
            return read_window(fetch, store);
        }
        if (n < 256)
            break;
    }
    return NULL;
}

/* The same of objects, whose place can be asked for: the last column of their key is the
 * address. */
static hx_error *find_place(struct fetch *fetch, hx_store *store)
{
    const char *key = fetch->keep + strspn(fetch->keep, "\x1f");
    const struct hx_query query = query_of(&fetch->load);
    hx_error *error =
        hx_query_place(store, &query, strtoull(key, NULL, 10), fetch->near, &fetch->keep_row);
    if (fetch->keep_row >= 0)
        fetch->offset = fetch->keep_row > fetch->above ? fetch->keep_row - fetch->above : 0;
    return error;
}

static hx_error *fetch_run(struct hx_job *job, hx_store *store, const struct hx_progress *progress)
{
    struct fetch *fetch = (struct fetch *)job;
    bool scattered = is_scattered(&fetch->load);
    if (fetch->with_facts && fetch->load.source.facts.n) {
        HX_ROWS hx_rows *rows = NULL;
        HX_TRY(hx_query_sql(store, fetch->load.source.facts.s, &rows));
        HX_TRY(hx_table_read(&fetch->facts, rows, HX_FACTS_MAX));
    }
    if (fetch->with_facts && fetch->screen->needs)
        HX_TRY(hx_store_parts(store, fetch->load.snapshot, &fetch->parts));
    if (fetch->keep && scattered)
        HX_TRY(find_place(fetch, store));
    HX_TRY(read_window(fetch, store));
    bool counted = !scattered || hx_table_int(&fetch->facts, 0, "rows", -1) >= 0;
    if (fetch->with_facts && (fetch->load.condition || !counted))
        HX_TRY(hx_load_count(&fetch->load, store, &fetch->count));
    return fetch->keep && !scattered ? find_kept(fetch, store, progress) : NULL;
}

static void take_rows(struct fetch *fetch, struct hx_pane *pane)
{
    hx_table_deinit(&pane->rows);
    pane->rows = fetch->rows;
    fetch->rows = (struct hx_table){0};
    tell_apart(pane);
    pane->offset = fetch->offset;
    if (fetch->with_facts) {
        hx_table_deinit(&pane->facts);
        pane->facts = fetch->facts;
        fetch->facts = (struct hx_table){0};
        pane->total = fetch->count >= 0 ? fetch->count : hx_table_int(&pane->facts, 0, "rows", 0);
        pane->parts = fetch->parts;
        pane->snapshot = fetch->load.snapshot;
    }
    /* What came is worth more than what was counted. */
    int64_t end = pane->offset + (int64_t)pane->rows.n_rows;
    if ((int64_t)pane->rows.n_rows < fetch->limit && (pane->rows.n_rows || !pane->offset))
        pane->total = end;
    else if (pane->rows.n_rows && pane->total < end)
        pane->total = end;
    else if (!pane->rows.n_rows && pane->total > pane->offset)
        pane->total = pane->offset;
    if (fetch->keep && fetch->keep_row >= 0) {
        /* The row stays at its height on the screen. */
        pane->top += fetch->keep_row - pane->cursor;
        pane->cursor = fetch->keep_row;
    }
    hx_pane_go(pane, pane->cursor);
}

/* What lies elsewhere takes too long: back to the rows in memory, well inside of them. */
static void stay(struct hx_pane *pane)
{
    hx_pane_go(pane, pane->offset + (int64_t)pane->rows.n_rows / 2);
    pane->top = pane->cursor - pane->height / 2;
}

/* With all that belongs to the list, or only rows: those on the screen, or, ahead of what will be
 * looked at, those around. */
enum extent { FETCH_ALL, FETCH_VISIBLE, FETCH_AROUND };

static void start_fetch(struct hx_ui *ui, struct hx_pane *pane, int64_t snapshot, enum extent what);

static void fetch_done(struct hx_job *job, struct hx_ui *ui, hx_error *error)
{
    struct fetch *fetch = (struct fetch *)job;
    struct hx_pane *pane = hx_ui_find_pane(ui, fetch->pane);
    if (!pane || pane->want != fetch->want) {
        hx_error_free(error);
        return;
    }
    pane->loading = pane->ahead = false;
    if (error && job->ahead) {                    /* what is looked at is there */
        pane->ahead = error->kind != HX_E_CANCEL; /* not again and again */
        hx_error_free(error);
        return;
    }
    free(pane->problem);
    pane->problem = NULL;
    if (error && error->kind == HX_E_CANCEL && !(job->by_user && fetch->with_facts)) {
        if (job->by_user) {
            stay(pane);
            hx_ui_say(ui, "cancelled; still where the rows were loaded");
        } else {
            pane->stale = true; /* another list was wanted meanwhile */
        }
        hx_error_free(error);
        return;
    }
    if (error) {
        hx_pane_problem(pane, error, "Cancelled. Ctrl-L loads the list.");
        hx_ui_complain(ui, error);
        pane->stale = false; /* not again and again; the next snapshot or order tries anew */
        pane->loaded = true;
        pane->snapshot = fetch->load.snapshot;
        return;
    }
    if (hx_table_int(&fetch->facts, 0, "widely", 0)) { /* a level of a large heap */
        pane->id = 1;
        start_fetch(ui, pane, fetch->load.snapshot, FETCH_ALL);
        return;
    }
    take_rows(fetch, pane);
    pane->loaded = true;
    pane->stale = false;
}

static void fetch_destroy(struct hx_job *job)
{
    struct fetch *fetch = (struct fetch *)job;
    hx_load_end(&fetch->load);
    hx_table_deinit(&fetch->rows);
    hx_table_deinit(&fetch->facts);
    free(fetch->keep);
    free(fetch);
}

/* The key (hx_pane_key) of a snapshot in a list of snapshots. */
static char *current_key(int64_t snapshot)
{
    char *key = NULL;
    return asprintf(&key, "%lld\x1f", (long long)snapshot) < 0 ? NULL : key;
}

/* Which rows: those on the screen at least. */
static void choose_window(struct fetch *fetch, const struct hx_pane *pane, bool visible)
{
    int64_t height = pane->height > 0 ? pane->height : 24, top = pane->top;
    if (is_scattered(&fetch->load) || fetch->load.source.scattered) {
        const int64_t around = visible ? 0 : SCATTERED_AROUND * height;
        if (pane->total && top > pane->total - height)
            top = pane->total - height;
        fetch->offset = top > around ? top - around : 0;
        fetch->limit = top > 0 ? top + height + around - fetch->offset : height + around;
        fetch->above = pane->cursor - top;
        return;
    }
    fetch->limit = 4 * height > WINDOW_MIN ? 4 * height : WINDOW_MIN;
    fetch->offset = top > fetch->limit / 2 ? top - fetch->limit / 2 : 0;
}

static void start_fetch(struct hx_ui *ui, struct hx_pane *pane, int64_t snapshot, enum extent what)
{
    struct fetch *fetch = calloc(1, sizeof *fetch);
    bool whole = what == FETCH_ALL;
    if (!fetch) {
        hx_ui_complain(ui, hx_error_nomem());
        return;
    }
    fetch->job = (struct hx_job){.what = "loading rows",
                                 .quiet = true,
                                 .ahead = what == FETCH_AROUND,
                                 .lane = HX_LANE_READ,
                                 .run = fetch_run,
                                 .done = fetch_done,
                                 .destroy = fetch_destroy};
    fetch->pane = pane->serial;
    fetch->want = ++pane->want;
    fetch->screen = pane->screen;
    fetch->with_facts = whole;
    pane->beside = whole ? 0 : pane->beside;
    fetch->keep_row = fetch->count = -1;
    if (whole && pane->keep)
        fetch->keep = strdup(pane->keep);
    else if (whole && pane->screen->over_time && !pane->loaded)
        fetch->keep = current_key(snapshot); /* begins at the current one */
    fetch->near = pane->snapshot == snapshot;
    hx_load_begin(pane, snapshot, &fetch->load);
    choose_window(fetch, pane, what != FETCH_AROUND);
    pane->loading = !fetch->job.ahead;
    pane->ahead = fetch->job.ahead;
    hx_jobs_supersede(ui->jobs, fetch_run);
    hx_jobs_start(ui->jobs, &fetch->job);
}

/* Remembers which row the cursor is on. */
static void keep_cursor(struct hx_pane *pane)
{
    size_t row;
    struct hx_text key = {0};
    free(pane->keep);
    pane->keep = NULL;
    if (!pane->keys || !hx_pane_row(pane, &row))
        return;
    hx_pane_key(pane->keys, &pane->rows, row, &key);
    pane->keep = key.failed ? NULL : hx_steal(key.s);
    hx_text_free(&key);
}

void hx_pane_order(struct hx_ui *ui, struct hx_pane *pane, const char *sort, bool ascending)
{
    pane->sort = sort;
    pane->ascending = ascending;
    if (!pane->cursor) { /* who looks at the top wants to see the new top */
        free(hx_steal(pane->keep));
        pane->stale = true;
    }
    hx_pane_reload(ui, pane);
}

void hx_pane_outdate(struct hx_pane *pane)
{
    if ((!hx_screen_stored(pane->screen) && !pane->screen->over_time) || !pane->loaded)
        return;
    if (!pane->stale)
        keep_cursor(pane);
    pane->stale = true;
    pane->loading = pane->ahead = false; /* what is under way comes too late */
    pane->want++;
}

/* The snapshot whose differences a pane has to show. */
static int64_t wanted_other(const struct hx_ui *ui, const struct hx_pane *pane)
{
    return ui->differences && pane->screen->differences ? hx_ui_other(ui) : 0;
}

/* Figures and their differences are different lists: what was loaded and the filter go. */
static void take_other(const struct hx_ui *ui, struct hx_pane *pane)
{
    int64_t other = wanted_other(ui, pane);
    pane->before = hx_ui_other(ui);
    if (!other == !pane->other) {
        pane->other = other;
        return;
    }
    keep_cursor(pane);
    if (!pane->cursor) /* who looks at the top wants to see the new top */
        free(hx_steal(pane->keep));
    pane->other = other;
    pane->columns = other ? pane->screen->differences : pane->screen->columns;
    pane->sort = !other                 ? pane->screen->sort
                 : pane->screen->census ? HX_DIFFERENCE_SORT
                                        : pane->screen->differences_sort;
    pane->ascending = false;
    pane->stale = true;
    free(hx_steal(pane->filter));
    free(hx_steal(pane->condition));
    hx_filter_destroy(hx_steal(pane->parsed));
    hx_tree_forget_filter(pane->tree);
    if (!pane->tree) {
        hx_table_deinit(&pane->rows);
        hx_table_deinit(&pane->facts);
        pane->total = pane->offset = 0;
        pane->loaded = false;
    }
}

void hx_pane_reload(struct hx_ui *ui, struct hx_pane *pane)
{
    take_other(ui, pane);
    if (pane->other && pane->screen->fill_differences) {
        pane->snapshot = ui->snapshot;
        hx_ui_complain(ui, pane->screen->fill_differences(ui, pane));
    } else if (pane->screen->source) {
        if (!pane->stale)
            keep_cursor(pane);
        pane->stale = true;
        start_fetch(ui, pane, ui->snapshot, FETCH_ALL);
    } else {
        pane->snapshot = ui->snapshot;
        hx_ui_complain(ui, pane->screen->fill(ui, pane));
    }
}

/* Keeps the cursor between the first and the last visible row. */
static void scroll(struct hx_pane *pane)
{
    int64_t height = pane->height > 0 ? pane->height : 1;
    if (pane->top > pane->cursor)
        pane->top = pane->cursor;
    if (pane->top < pane->cursor - height + 1)
        pane->top = pane->cursor - height + 1;
    if (pane->top > pane->total - height)
        pane->top = pane->total - height;
    if (pane->top < 0)
        pane->top = 0;
}

/* Does what is `around` screens before the visible one to as many after it reach beyond the rows in
 * memory? */
static bool lacks_rows(const struct hx_pane *pane, int64_t around)
{
    int64_t height = pane->height > 0 ? pane->height : 1;
    int64_t first = pane->top - around * height, last = pane->top + (1 + around) * height;
    if (first < 0)
        first = 0;
    if (last > pane->total)
        last = pane->total;
    return first < pane->offset || last > pane->offset + (int64_t)pane->rows.n_rows;
}

void hx_pane_update(struct hx_ui *ui, struct hx_pane *pane)
{
    scroll(pane);
    if (hx_screen_stored(pane->screen) && !ui->snapshot)
        return; /* nothing was taken yet */
    bool other = (pane->snapshot != ui->snapshot && !pane->screen->pinned) ||
                 (pane->loaded && pane->other != wanted_other(ui, pane)) ||
                 (pane->loaded && pane->screen->census && pane->before != hx_ui_other(ui));
    if ((!pane->loaded || pane->stale) && !pane->loading) {
        hx_pane_reload(ui, pane);
    } else if (other && !pane->loading) {
        hx_pane_reload(ui, pane);
    } else if (hx_pane_windowed(pane) && !pane->loading && !pane->problem) {
        if (lacks_rows(pane, 0))
            start_fetch(ui, pane, pane->snapshot, FETCH_VISIBLE);
        else if (!pane->ahead && lacks_rows(pane, 1))
            start_fetch(ui, pane, pane->snapshot, FETCH_AROUND);
    } else if (pane->screen->windows && !pane->loading && !pane->problem && lacks_rows(pane, 1)) {
        hx_ui_complain(ui, pane->screen->fill(ui, pane));
    }
}
