/* screen_sql.c - the answer to a statement: a list that is sorted, filtered, searched, followed and
 * written as all others. */
#include "ui/app.h"
#include "ui/command/complete.h"
#include "ui/command/prompt.h"
#include "ui/command/requests.h"
#include "ui/job.h"
#include "ui/list/pane.h"
#include "ui/list/sql_reply.h"

#include <string.h>

/* Rows that the widths of columns are made of. */
#define SAMPLE 1000

#define PROMPT "sql: "

/* What a pane keeps of its statement. */
struct statement {
    char *sql;
    const struct hx_reply *reply; /* of the explorer; NULL: none yet, or it failed */
    bool failed;
    size_t wrong; /* where, in bytes; SIZE_MAX: not known */
};

static void free_statement(void *data)
{
    struct statement *statement = data;
    if (!statement)
        return;
    free(statement->sql);
    free(statement);
}

/* --- asking --- */

struct asking {
    struct hx_job job;
    uint64_t pane;
    char *sql;
    bool ascii;
    int64_t id;
    HX_VEC(int64_t) old; /* answers that nobody shows any more */
    struct hx_answer_place place;
    struct hx_reply *reply;
};

static hx_error *sql_job_run(struct hx_job *job, hx_store *store,
                             const struct hx_progress *progress)
{
    struct asking *asking = (struct asking *)job;
    for (size_t i = 0; i < asking->old.n; i++)
        HX_TRY(hx_answer_drop(store, asking->old.v[i]));
    struct hx_answer answer;
    HX_TRY(hx_answer_make(store, asking->id, asking->sql, progress, &asking->place, &answer));
    const struct hx_answer_query query = {.table = answer.table, .limit = SAMPLE};
    HX_ROWS hx_rows *rows = NULL;
    struct hx_table sample = {0};
    hx_error *error = hx_answer_rows(store, &query, &rows);
    if (!error)
        error = hx_table_read(&sample, rows, SAMPLE);
    if (error)
        hx_answer_deinit(&answer);
    else
        error = hx_reply_create(&answer, &sample, asking->ascii, &asking->reply);
    hx_table_deinit(&sample);
    return error;
}

/* Shown in place of rows; the statement comes back with the next `;`. */
static void say_failed(struct hx_ui *ui, struct hx_pane *pane, const struct asking *asking,
                       hx_error *error)
{
    struct statement *statement = pane->data;
    char line[1024];
    hx_error_line(error, line, sizeof line);
    statement->failed = true;
    statement->wrong = asking->place.offset;
    free(pane->problem);
    pane->problem = strdup(error->kind == HX_E_CANCEL ? "Cancelled. ; asks again." : line);
    pane->snapshot = ui->snapshot;
    pane->loaded = true;
    free(ui->statement);
    ui->statement = strdup(asking->sql);
}

static void sql_job_done(struct hx_job *job, struct hx_ui *ui, hx_error *error)
{
    struct asking *asking = (struct asking *)job;
    struct hx_pane *pane = hx_ui_find_pane(ui, asking->pane);
    if (!error && !hx_vec_push(&ui->replies, asking->reply))
        error = hx_error_nomem();
    if (!pane) {
        if (!error)
            asking->reply = NULL; /* its rows go with the next statement */
        hx_error_free(error);
        return;
    }
    pane->loading = false;
    if (error) {
        say_failed(ui, pane, asking, error);
        if (error->kind == HX_E_CANCEL) {
            hx_ui_say(ui, "cancelled");
            hx_error_free(error);
        } else {
            hx_ui_complain(ui, error);
        }
        return;
    }
    const struct hx_reply *reply = hx_steal(asking->reply);
    ((struct statement *)pane->data)->reply = reply;
    pane->columns = reply->columns;
    pane->keys = reply->keys;
    pane->object = reply->object;
    free(hx_steal(ui->statement));
}

static void sql_job_destroy(struct hx_job *job)
{
    struct asking *asking = (struct asking *)job;
    hx_reply_destroy(asking->reply);
    hx_vec_free(&asking->old);
    free(asking->sql);
    free(asking);
}

static bool is_shown(const struct hx_ui *ui, const struct hx_reply *reply)
{
    for (size_t i = 0; i < ui->open.n; i++) {
        const struct hx_pane *pane = ui->open.v[i];
        const struct statement *statement = pane->data;
        if (pane->screen == &hx_screen_sql && statement && statement->reply == reply)
            return true;
    }
    return false;
}

static hx_error *start_sql_job(struct hx_ui *ui, const struct hx_pane *pane, const char *sql)
{
    struct asking *asking = calloc(1, sizeof *asking);
    HX_NEED(asking);
    asking->job = (struct hx_job){.what = "asking",
                                  .lane = HX_LANE_READ,
                                  .run = sql_job_run,
                                  .done = sql_job_done,
                                  .destroy = sql_job_destroy};
    asking->pane = pane->serial;
    asking->id = (int64_t)++ui->asked;
    asking->ascii = !ui->term.utf8;
    asking->sql = strdup(sql);
    bool enough = asking->sql != NULL;
    for (size_t i = 0; i < ui->replies.n && enough; i++) {
        struct hx_reply *reply = ui->replies.v[i];
        if (reply->dropped || is_shown(ui, reply))
            continue;
        enough = hx_vec_push(&asking->old, reply->answer.id);
        reply->dropped = enough;
    }
    if (!enough) {
        sql_job_destroy(&asking->job);
        return hx_error_nomem();
    }
    hx_jobs_supersede(ui->jobs, sql_job_run); /* one statement at a time */
    hx_jobs_start(ui->jobs, &asking->job);
    return NULL;
}

static hx_error *begin_statement(struct hx_pane *pane, const char *sql)
{
    struct statement *statement = calloc(1, sizeof *statement);
    HX_NEED(statement);
    statement->wrong = SIZE_MAX;
    statement->sql = strdup(sql);
    pane->data = statement;
    pane->free_data = free_statement;
    pane->loading = true; /* until the answer is there */
    return statement->sql ? NULL : hx_error_nomem();
}

/* A statement that failed makes room for the next one. */
static bool is_failed(const struct hx_pane *pane)
{
    const struct statement *statement = pane->data;
    return pane->screen == &hx_screen_sql && statement && statement->failed;
}

hx_error *hx_ui_ask(struct hx_ui *ui, const char *sql)
{
    struct hx_pane *pane;
    if (!sql[strspn(sql, " \t;")])
        return hx_ui_pane(ui)->screen == &hx_screen_views
                   ? NULL
                   : hx_ui_open_text(ui, &hx_screen_views, NULL, 0);
    hx_prompt_remember(ui->prompt, PROMPT, sql); /* wherever it came from */
    HX_TRY(hx_pane_create(ui, &hx_screen_sql, &pane));
    hx_error *error = begin_statement(pane, sql);
    if (error) {
        hx_pane_destroy(pane);
        return error;
    }
    if (ui->at && is_failed(hx_ui_pane(ui)))
        ui->at--;
    HX_TRY(hx_ui_push(ui, pane));
    return start_sql_job(ui, pane, sql);
}

hx_error *hx_do_sql(struct hx_ui *ui, const char *arg)
{
    if (*arg)
        return hx_ui_ask(ui, arg);
    hx_ui_prompt(ui, PROMPT, ui->statement ? ui->statement : "", hx_ui_ask);
    ui->prompt->complete = hx_complete_sql;
    return NULL;
}

/* --- the screen --- */

static void sql_source(const struct hx_pane *pane, int64_t snapshot, struct hx_source *ret)
{
    const struct statement *statement = pane->data;
    const struct hx_reply *reply = statement ? statement->reply : NULL;
    (void)snapshot;
    if (!reply) { /* it failed */
        hx_query_put(HX_QUERY_nothing, HX_QUERY_ARGS(), &ret->sql);
        return;
    }
    ret->answer = reply->answer.table;
    hx_query_put(HX_QUERY_view, HX_QUERY_ARGS(.view = reply->answer.table), &ret->sql);
    hx_query_put(HX_QUERY_number, HX_QUERY_ARGS(.id = (int64_t)reply->answer.rows), &ret->facts);
    hx_answer_given(&reply->answer, &ret->written);
}

/* The statement on one line, and a mark below what is wrong with it. */
static void put_wrong(const struct hx_ui *ui, const struct statement *statement,
                      struct hx_text *ret)
{
    const char *sql = statement->sql;
    struct hx_text before = {0}, after = {0};
    size_t n = strlen(sql), first = 0;
    size_t wrong = statement->wrong == SIZE_MAX ? 0 : statement->wrong < n ? statement->wrong : n;
    int room = hx_term_columns() - 8;
    bool ascii = !ui->term.utf8;
    for (;;) {
        hx_text_clear(&before);
        hx_text_escape(&before, sql + first, wrong - first, ascii);
        if (hx_text_width(hx_text_str(&before)) <= room / 2 || first == wrong)
            break;
        do
            first++;
        while (first < wrong && ((unsigned char)sql[first] & 0xc0) == 0x80);
    }
    hx_text_escape(&after, sql + wrong, n - wrong, ascii);
    hx_text_putf(ret, "SQL: %s%s", hx_text_str(&before), hx_text_str(&after));
    if (statement->wrong != SIZE_MAX)
        hx_text_putf(ret, "\n%*s^", 5 + hx_text_width(hx_text_str(&before)), "");
    ret->failed |= before.failed || after.failed;
    hx_text_free(&before);
    hx_text_free(&after);
}

static void sql_title(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    const struct statement *statement = pane->data;
    if (!statement)
        return;
    put_wrong(ui, statement, ret);
    const struct hx_reply *reply = statement->reply;
    if (reply && reply->answer.cut) {
        hx_text_puts(ret, "\nCut: the first ");
        hx_text_count(ret, (int64_t)reply->answer.rows);
        hx_text_puts(ret, " rows; WHERE, LIMIT or sums ask for less");
    }
    if (reply && reply->answer.n_columns > HX_COLUMNS_MAX)
        hx_text_putf(ret, "\nThe first %d of %zu columns; i shows all of a row", HX_COLUMNS_MAX,
                     reply->answer.n_columns);
}

/* A row of another snapshot is looked at there. */
void hx_ui_follow_row(struct hx_ui *ui, const struct hx_pane *pane, size_t row)
{
    int64_t snapshot = hx_table_int(&pane->rows, row, "snapshot", 0);
    if (pane->screen != &hx_screen_sql || snapshot == ui->snapshot)
        return;
    for (size_t i = 0; i < ui->snapshots.n_rows; i++)
        if (hx_table_int(&ui->snapshots, i, "snapshot", 0) == snapshot) {
            hx_ui_set_snapshot(ui, snapshot);
            hx_ui_say(ui, "the row is of snapshot %lld: that is the current one now",
                      (long long)snapshot);
            return;
        }
}

/* Rows of censuses stand for objects. */
static bool sql_row_set(const struct hx_pane *pane, size_t row, struct hx_of *ret)
{
    const struct hx_table *rows = &pane->rows;
    int64_t set = hx_table_int(rows, row, "set_id", -1), ccs = hx_table_int(rows, row, "ccs_id", 0);
    const struct hx_cell *type = hx_table_at(rows, row, "type");
    const struct hx_cell *bin = hx_table_at(rows, row, "roots");
    if (set >= 0)
        *ret = (struct hx_of){HX_SUBSET_SET, NULL, NULL, set};
    else if (ccs > 0)
        *ret = (struct hx_of){HX_SUBSET_CCS, hx_table_text(rows, row, "label"), NULL, ccs};
    else if (bin->type == HX_VALUE_TEXT)
        *ret = (struct hx_of){HX_SUBSET_BIN, bin->text, NULL, 0};
    else if (type->type == HX_VALUE_TEXT)
        *ret = (struct hx_of){HX_SUBSET_TYPE,
                              strcmp(type->text, "(unknown)") == 0 ? NULL : type->text, NULL, 0};
    else
        return false;
    return true;
}

static hx_error *open_sql_row(struct hx_ui *ui, struct hx_pane *pane, size_t row)
{
    uint64_t address;
    struct hx_of of_row;
    if (hx_pane_object(pane, row, &address)) {
        hx_ui_follow_row(ui, pane, row);
        return hx_ui_resolve(ui, address, hx_ui_open_object);
    }
    if (sql_row_set(pane, row, &of_row)) {
        hx_ui_follow_row(ui, pane, row);
        return hx_ui_open_objects(ui, pane, row);
    }
    return hx_ui_open_text(ui, &hx_screen_details, NULL, 0);
}

/* Until the answer says which there are. */
static const struct hx_column columns[] = {
    {"answer", "", HX_AS_TEXT, 0, 0, NULL, NULL},
    {0},
};

const struct hx_screen hx_screen_sql = {
    .name = "sql",
    .about = "the answer to a statement",
    .digit = -1,
    .by_argument = true,
    .pinned = true,
    .columns = columns,
    .source = sql_source,
    .head = sql_title,
    .empty = "The answer has no rows.",
    .open = open_sql_row,
    .of = sql_row_set,
};
