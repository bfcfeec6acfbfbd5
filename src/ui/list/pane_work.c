/* pane_work.c - searching a list and writing it to a file, in the background. */
#include "base/pin.h"
#include "ui/app.h"
#include "ui/list/marked_rows.h"
#include "ui/list/matcher.h"
#include "ui/list/tree.h"

#include "store/print/row_writer.h"
#include "ui/command/requests.h"
#include "ui/job.h"
#include "ui/list/pane.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

/* --- search --- */

struct search {
    struct hx_job job;
    uint64_t pane, number;
    const struct hx_column *columns;
    struct hx_load load;
    struct hx_table facts;
    struct hx_matcher *matcher;
    bool backwards, ascii;
    int64_t from; /* the cursor */
    int64_t seen, total;
    struct hx_table row; /* the one that is looked at */
    struct hx_text text;
    int64_t found; /* -1: nowhere */
    bool wrapped;
};

static bool row_matches(struct search *search, const struct hx_table *rows, size_t row)
{
    struct hx_text *text = &search->text;
    hx_text_clear(text);
    hx_column_row(search->columns, rows, row, &search->facts, search->ascii, text);
    return hx_matcher_matches(search->matcher, hx_text_str(text));
}

/* Which columns of the rows are shown, so that the others need not be decoded. */
static hx_error *wanted_columns(const struct search *search, const hx_rows *rows, bool **ret)
{
    size_t n = hx_rows_columns(rows);
    bool *wanted = calloc(n + 1, sizeof *wanted);
    HX_NEED(wanted);
    for (size_t i = 0; i < n; i++)
        for (const struct hx_column *column = search->columns; column->name; column++)
            wanted[i] |= strcmp(column->name, hx_rows_name(rows, i)) == 0 ||
                         (column->as == HX_AS_TYPE && strcmp("shape", hx_rows_name(rows, i)) == 0);
    *ret = wanted;
    return NULL;
}

/* Rows that are asked for at once: a window of ordered objects needs memory for all of its rows. */
#define SEARCH_ROWS ((int64_t)1 << 17)

/* Looks at the rows [begin, end): forwards the first hit ends it, backwards the last counts.
 * *ret_more false: the list has ended. */
static hx_error *search_window(struct search *search, hx_store *store, int64_t begin, int64_t end,
                               const struct hx_progress *progress, bool *ret_more)
{
    HX_ROWS hx_rows *rows = NULL;
    HX_FREE bool *wanted = NULL;
    HX_TRY(hx_load_open(&search->load, store, begin, end - begin, &rows));
    HX_TRY(wanted_columns(search, rows, &wanted));
    hx_table_deinit(&search->row);
    for (int64_t at = begin; at < end && *ret_more; at++) {
        if (at % 4096 == 0) {
            if (hx_progress_cancelled(progress))
                return hx_error_cancelled("search");
            hx_progress_at(progress, "search", (uint64_t)search->seen, (uint64_t)search->total);
        }
        HX_TRY(hx_table_next(&search->row, rows, wanted, ret_more));
        if (!*ret_more)
            break;
        search->seen++;
        if (row_matches(search, &search->row, 0)) {
            search->found = at;
            if (!search->backwards)
                break;
        }
    }
    return NULL;
}

static hx_error *search_range(struct search *search, hx_store *store, int64_t begin, int64_t end,
                              const struct hx_progress *progress)
{
    bool more = true;
    for (; begin < end && more && (search->backwards || search->found < 0); begin += SEARCH_ROWS)
        HX_TRY(search_window(search, store, begin,
                             end - begin < SEARCH_ROWS ? end : begin + SEARCH_ROWS, progress,
                             &more));
    return NULL;
}

static hx_error *search_run(struct hx_job *job, hx_store *store, const struct hx_progress *progress)
{
    struct search *search = (struct search *)job;
    int64_t after = search->from + 1, end = INT64_MAX / 2;
    if (search->backwards)
        HX_TRY(search_range(search, store, 0, search->from, progress));
    else
        HX_TRY(search_range(search, store, after, end, progress));
    if (search->found >= 0)
        return NULL;
    search->wrapped = true;
    if (search->backwards)
        return search_range(search, store, search->from, end, progress);
    return search_range(search, store, 0, after, progress);
}

static void search_done(struct hx_job *job, struct hx_ui *ui, hx_error *error)
{
    struct search *search = (struct search *)job;
    struct hx_pane *pane = hx_ui_find_pane(ui, search->pane);
    if (search->number != ui->searches) {
        hx_error_free(error); /* another one was begun meanwhile */
    } else if (error || !pane) {
        hx_ui_complain(ui, error);
    } else if (search->found < 0) {
        hx_ui_say(ui, "not found: %s", ui->pattern ? ui->pattern : "");
    } else {
        hx_pane_go(pane, search->found);
        if (search->wrapped)
            hx_ui_say(ui, "search went on at the %s", search->backwards ? "end" : "beginning");
    }
}

static void search_destroy(struct hx_job *job)
{
    struct search *search = (struct search *)job;
    hx_matcher_destroy(search->matcher);
    hx_table_deinit(&search->row);
    hx_text_free(&search->text);
    hx_load_end(&search->load);
    hx_table_deinit(&search->facts);
    free(search);
}

/* Rows in memory need no job. */
static void search_memory(struct hx_ui *ui, struct search *search, struct hx_pane *pane)
{
    int64_t n = (int64_t)pane->rows.n_rows, step = search->backwards ? n - 1 : 1;
    int64_t cursor = pane->cursor - pane->offset, at = cursor < 0 || cursor >= n ? 0 : cursor;
    for (int64_t i = 0; i < n; i++) {
        at = (at + step) % n;
        if (row_matches(search, &pane->rows, (size_t)at)) {
            if (search->backwards ? at >= cursor : at <= cursor)
                search->wrapped = true;
            search->found = pane->offset + at;
            break;
        }
    }
    search_done(&search->job, ui, NULL);
    search_destroy(&search->job);
}

/* The totals that shares are of, for text that looks as on the screen. */
static hx_error *copy_facts(const struct hx_table *facts, struct hx_table *ret)
{
    if (!facts->n_columns)
        return NULL;
    HX_TRY(hx_table_begin(ret, (const char *const *)facts->names));
    for (size_t row = 0; row < facts->n_rows; row++) {
        struct hx_cell *cell;
        HX_TRY(hx_table_add(ret, &cell));
        for (size_t i = 0; i < facts->n_columns; i++) {
            const struct hx_cell *from = facts->cell + row * facts->n_columns + i;
            if (from->type == HX_VALUE_TEXT) {
                HX_TRY(hx_cell_set_text(cell + i, from->text, from->n));
            } else {
                cell[i] = *from;
            }
        }
    }
    return NULL;
}

hx_error *hx_pane_search(struct hx_ui *ui, struct hx_pane *pane, const char *pattern,
                         bool backwards)
{
    if (!pane->loaded || !pane->columns)
        return NULL;
    if (pane->screen->tree)
        return hx_tree_search(ui, pane, pattern, backwards);
    struct search *search = calloc(1, sizeof *search);
    HX_NEED(search);
    search->job = (struct hx_job){.what = "search",
                                  .leads = HX_WAITS_ROW,
                                  .lane = HX_LANE_READ,
                                  .run = search_run,
                                  .done = search_done,
                                  .destroy = search_destroy};
    search->pane = pane->serial;
    search->number = ++ui->searches;
    search->columns = pane->columns;
    search->backwards = backwards;
    search->ascii = !ui->term.utf8;
    search->from = pane->cursor;
    search->found = -1;
    search->total = pane->total;
    hx_error *error = hx_matcher_create(pattern, &search->matcher);
    if (!error)
        error = copy_facts(&pane->facts, &search->facts);
    if (error) {
        search_destroy(&search->job);
        return error;
    }
    if (hx_pane_windowed(pane)) {
        hx_load_begin(pane, pane->snapshot, &search->load);
        hx_jobs_supersede(ui->jobs, search_run);
        hx_jobs_start(ui->jobs, &search->job);
    } else {
        search_memory(ui, search, pane);
    }
    return NULL;
}

/* --- write --- */

struct writing {
    struct hx_job job;
    struct hx_load load;
    bool memory, marked; /* marked: only those rows */
    struct hx_text text; /* of rows in memory */
    struct hx_text part; /* which rows these are; empty: all of them */
    enum hx_format format;
    char *path;
    FILE *file;
    bool regular, written;
};

static hx_error *writing_run(struct hx_job *job, hx_store *store,
                             const struct hx_progress *progress)
{
    struct writing *writing = (struct writing *)job;
    (void)progress;
    if (writing->memory) {
        HX_NEED(!writing->text.failed);
        fwrite(hx_text_str(&writing->text), 1, writing->text.n, writing->file);
    } else {
        HX_ROWS hx_rows *rows = NULL;
        HX_TRY(hx_load_open(&writing->load, store, 0, -1, &rows));
        HX_TRY(hx_rows_print(rows, writing->format, writing->file));
    }
    bool bad = ferror(writing->file);
    if (fclose(hx_steal(writing->file)) || bad)
        return hx_error_os(errno, writing->path, "write");
    writing->written = true;
    return NULL;
}

static void writing_done(struct hx_job *job, struct hx_ui *ui, hx_error *error)
{
    struct writing *writing = (struct writing *)job;
    if (error) {
        hx_ui_complain(ui, error);
    } else if (writing->marked) {
        hx_ui_say(ui, "the marked rows are written to %s", writing->path);
    } else {
        hx_ui_say(ui, "%swritten to %s", hx_text_str(&writing->part), writing->path);
    }
}

static void writing_destroy(struct hx_job *job)
{
    struct writing *writing = (struct writing *)job;
    if (writing->file)
        fclose(writing->file);
    if (writing->regular && !writing->written)
        unlink(writing->path); /* nothing half-written; no device either */
    hx_load_end(&writing->load);
    hx_text_free(&writing->text);
    hx_text_free(&writing->part);
    free(writing->path);
    free(writing);
}

/* A name without an ending is text; one with an ending that means something else (a store's, say)
 * would lie. */
static hx_error *format_of(const char *path, enum hx_format *ret)
{
    static const struct {
        const char *ending;
        enum hx_format format;
    } known[] = {
        {".json", HX_FORMAT_JSON},
        {".csv", HX_FORMAT_CSV},
        {".txt", HX_FORMAT_TEXT},
    };
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    *ret = HX_FORMAT_TEXT;
    if (!dot)
        return NULL;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcasecmp(dot, known[i].ending) == 0) {
            *ret = known[i].format;
            return NULL;
        }
    }
    return hx_error_new(HX_E_USAGE, path,
                        "end it in .json, .csv or .txt; `:save FILE` keeps the snapshots",
                        "no list has the ending %s", dot);
}

static struct hx_value cell_value(const struct hx_cell *cell)
{
    return (struct hx_value){cell->type, cell->i, cell->real, cell->text, cell->n};
}

/* Marked rows are what is meant, wherever a filter would hide them. */
static void take_marked(struct writing *writing, const struct hx_pane *pane)
{
    struct hx_text where = {0};
    hx_marks_where(pane, &where);
    writing->marked = true;
    writing->load.source.sql.failed |= where.failed; /* hx_load_open() says so */
    free(writing->load.condition);
    writing->load.condition = where.s;
}

/* Rows that the explorer made itself. In text they look as on the screen. */
static void print_memory(const struct hx_ui *ui, const struct hx_pane *pane, enum hx_format format,
                         struct hx_text *ret)
{
    const struct hx_table *rows = &pane->rows;
    bool marked = hx_marks_count(pane), text = format == HX_FORMAT_TEXT;
    HX_CLEANUP(hx_row_writer_deinit) struct hx_row_writer writer = {.format = format};
    if (!text)
        hx_row_writer_begin(&writer, NULL);
    for (size_t i = 0; !text && i < rows->n_columns; i++)
        hx_row_writer_column(&writer, rows->names[i]);
    for (size_t row = 0; row < rows->n_rows; row++) {
        if (marked && !hx_marks_has(pane, row))
            continue;
        for (size_t i = 0; !text && i < rows->n_columns; i++)
            hx_row_writer_value(&writer, cell_value(rows->cell + row * rows->n_columns + i));
        if (text) {
            struct hx_text line = {0};
            hx_column_row(pane->columns, rows, row, &pane->facts, !ui->term.utf8, &line);
            hx_text_putf(&writer.text, "%s\n", hx_text_str(&line));
            hx_text_free(&line);
        }
    }
    if (!text)
        hx_row_writer_end(&writer);
    *ret = writer.text;
    writer.text = (struct hx_text){0};
}

hx_error *hx_pane_write(struct hx_ui *ui, struct hx_pane *pane, const char *path, bool overwrite)
{
    enum hx_format format;
    HX_TRY(format_of(path, &format));
    int fd = -1;
    struct stat stat;
    /* A pipe that nobody reads is an error, and no reason to wait. */
    hx_error *err = hx_pin_write(path, O_CREAT | O_NONBLOCK | (overwrite ? O_TRUNC : O_EXCL), &fd);
    if (err && err->os_errno == EEXIST) {
        hx_error_free(err);
        return hx_error_new(HX_E_FAIL, path, "`:write! FILE` overwrites it", "exists already");
    }
    HX_TRY(err);
    struct writing *writing = calloc(1, sizeof *writing);
    FILE *file = fdopen(fd, "w");
    if (!writing || !file || !(writing->path = strdup(path))) {
        free(writing);
        if (file)
            fclose(file);
        else
            close(fd);
        return hx_error_nomem();
    }
    writing->job = (struct hx_job){.what = "writing",
                                   .lane = HX_LANE_READ,
                                   .run = writing_run,
                                   .done = writing_done,
                                   .destroy = writing_destroy};
    writing->file = file;
    writing->regular = fstat(fd, &stat) == 0 && S_ISREG(stat.st_mode);
    writing->format = format;
    writing->memory = !hx_pane_windowed(pane);
    if (writing->memory)
        print_memory(ui, pane, writing->format, &writing->text);
    else
        hx_load_begin(pane, pane->snapshot, &writing->load);
    writing->load.written = true;
    if (hx_marks_count(pane))
        take_marked(writing, pane);
    if (writing->memory && (int64_t)pane->rows.n_rows < pane->total && pane->screen->windows)
        hx_text_putf(&writing->part, "rows %" PRId64 " to %" PRId64 " of %" PRId64 " ",
                     pane->offset + 1, pane->offset + (int64_t)pane->rows.n_rows, pane->total);
    hx_jobs_start(ui->jobs, &writing->job);
    return NULL;
}
