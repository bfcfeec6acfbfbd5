/* screen_details.c - all values of the row that the cursor was on, nothing rounded, and the stack
 * that allocated what it stands for. */
#include "ui/app.h"
#include "ui/data/call_label.h"
#include "ui/job.h"
#include "ui/list/column_kind.h"
#include "traverse/hold/rules.h"
#include "ui/list/pane.h"

#include <inttypes.h>
#include <string.h>

static const struct hx_column columns[] = {
    {"name", NULL, HX_AS_TEXT, 22, 0, NULL, NULL},
    {"value", NULL, HX_AS_SAFE, 0, 0, NULL, NULL},
    {0},
};
static const struct hx_column narrow[] = {
    {"name", NULL, HX_AS_TEXT, 13, 0, NULL, NULL},
    {"value", NULL, HX_AS_SAFE, 0, 0, NULL, NULL},
    {0},
};
#define NARROW 60

/* With as few digits as say it exactly. */
static void put_exact_number(double real, struct hx_text *ret)
{
    char digits[40];
    for (int n = 6; n <= 17; n++) {
        snprintf(digits, sizeof digits, "%.*g", n, real);
        if (strtod(digits, NULL) == real)
            break;
    }
    hx_text_puts(ret, digits);
}

static void value_text(const char *name, const struct hx_cell *cell, bool ascii,
                       struct hx_text *ret)
{
    char size[HX_HUMAN];
    uint64_t positive = cell->i < 0 ? 0 - (uint64_t)cell->i : (uint64_t)cell->i;
    if (cell->type == HX_VALUE_NULL)
        hx_text_putc(ret, '-');
    else if (cell->type == HX_VALUE_TEXT)
        hx_text_escape(ret, hx_cell_text(cell), strlen(hx_cell_text(cell)), ascii);
    else if (cell->type == HX_VALUE_REAL)
        put_exact_number(cell->real, ret);
    else if (hx_name_is_address(name))
        hx_text_putf(ret, "0x%" PRIx64, (uint64_t)cell->i);
    else if (hx_name_is_id(name))
        hx_text_putf(ret, "%" PRId64, cell->i);
    else
        hx_text_count(ret, cell->i);
    const char *why =
        strcmp(name, "rule") == 0 ? hx_rule_text(hx_rule_find(hx_cell_text(cell))) : NULL;
    if (why)
        hx_text_putf(ret, ": %s", why);
    if (cell->type == HX_VALUE_INT && positive >= 1024 && hx_name_is_bytes(name))
        hx_text_putf(ret, " (%s%s)", cell->i < 0 ? "-" : "", hx_human_bytes(positive, size));
    if (cell->type == HX_VALUE_INT && cell->i >= 1000 && hx_name_is_us(name))
        hx_text_putf(ret, " (%s)", hx_human_ns(positive * 1000, size));
}

/* A long text takes several rows, broken between words where there are some; only its first has
 * the name. */
static hx_error *add_lines(struct hx_table *rows, const char *name, const char *text, int width)
{
    do {
        size_t n = 0, blank = 0;
        for (int used = 0; text[n];) {
            size_t next = n + 1;
            while (((unsigned char)text[next] & 0xc0) == 0x80)
                next++;
            char one[8] = "";
            if (next - n < sizeof one)
                memcpy(one, text + n, next - n);
            used += hx_text_width(one);
            if (used > width && n) {
                n = blank > n / 2 ? blank : n;
                break;
            }
            n = next;
            blank = text[n - 1] == ' ' ? n : blank;
        }
        struct hx_cell *cell;
        HX_TRY(hx_table_add(rows, &cell));
        HX_TRY(hx_cell_set_text(&cell[0], name, strlen(name)));
        HX_TRY(hx_cell_set_text(&cell[1], text, n));
        text += n;
        name = "";
    } while (*text);
    return NULL;
}

static int value_width(void)
{
    int width = hx_term_columns(), taken = width < NARROW ? 16 : 25;
    return width - taken > 10 ? width - taken : 10;
}

/* A line for each value of a row. */
static hx_error *add_row(struct hx_table *rows, const struct hx_table *of, size_t row, bool ascii)
{
    hx_error *error = NULL;
    for (size_t i = 0; i < of->n_columns && !error; i++) {
        struct hx_text text = {0};
        const char *name = of->names[i];
        if (strcmp(name, "brief") == 0 ||                   /* of a label that stands there whole */
            strncmp(name, "alike_", strlen("alike_")) == 0) /* said in words */
            continue;
        const struct hx_cell *cell = of->cell + row * of->n_columns + i;
        value_text(name, cell, ascii, &text);
        size_t first = rows->n_rows;
        error = add_lines(rows, name, hx_text_str(&text), value_width());
        if (!error && cell->type == HX_VALUE_INT && hx_name_is_address(name))
            hx_cell_set_int(rows->cell + first * rows->n_columns + 2, cell->i);
        hx_text_free(&text);
    }
    return error;
}

/* --- the whole row, and the stack --- */

static const char *const names[] = {"name", "value", "object", NULL};

struct asking {
    struct hx_job job;
    uint64_t pane, want;
    int64_t stack_id, ccs_id; /* one of them; of neither, the stack of an object */
    int64_t snapshot;
    uint64_t address;
    enum hx_rule rule; /* or of the word at an offset of the object at the address */
    int64_t offset;
    struct hx_word_figures figures;
    bool brief; /* the list has some columns of an object only: all of them are read */
    struct hx_table row, frames;
};

hx_error *hx_ui_word_figures(hx_store *store, int64_t snapshot, uint64_t address, int64_t offset,
                             struct hx_word_figures *ret)
{
    HX_ROWS hx_rows *rows = NULL;
    const struct hx_query_args args = {.snapshot = snapshot, .address = address, .offset = offset};
    HX_TRY(hx_query_named(store, HX_QUERY_alike, &args, &rows));
    bool more; /* of offset 0 it gives those of all others behind it */
    HX_TRY(hx_rows_next(rows, &more));
    if (!more || hx_rows_value(rows, 0).i != offset)
        return NULL;
    struct hx_value requested = hx_rows_value(rows, 3);
    ret->words = hx_rows_value(rows, 1).i;
    ret->alike = hx_rows_value(rows, 2).i;
    ret->requested = requested.type == HX_VALUE_INT ? requested.i : -1;
    return NULL;
}

static hx_error *read_object(struct asking *asking, hx_store *store)
{
    HX_ROWS hx_rows *rows = NULL;
    char where[64];
    const struct hx_query query = {
        .view = "objects", .snapshot = asking->snapshot, .limit = 1, .where = where};
    snprintf(where, sizeof where, "address = %" PRId64, (int64_t)asking->address);
    HX_TRY(hx_query_view(store, &query, &rows));
    return hx_table_read(&asking->row, rows, 1);
}

static hx_error *details_job_run(struct hx_job *job, hx_store *store,
                                 const struct hx_progress *progress)
{
    struct asking *asking = (struct asking *)job;
    const struct hx_query_args args = {
        .snapshot = asking->snapshot,
        .id = asking->stack_id ? asking->stack_id : asking->ccs_id,
        .address = asking->address,
        .limit = HX_CALLS_MAX,
    };
    HX_ROWS hx_rows *rows = NULL;
    (void)progress;
    if (asking->brief)
        HX_TRY(read_object(asking, store));
    if (asking->rule)
        return hx_ui_word_figures(store, asking->snapshot, asking->address, asking->offset,
                                  &asking->figures);
    HX_TRY(
        hx_query_named(store, asking->ccs_id ? HX_QUERY_ccs_stack : HX_QUERY_stack, &args, &rows));
    return hx_table_read(&asking->frames, rows, -1);
}

/* "zoo::serve(int) at zoo.cc:21 (zoo)" */
static void put_frame(const struct hx_table *frames, size_t i, bool ascii, struct hx_text *ret)
{
    const char *function = hx_table_text(frames, i, "label");
    const char *source = hx_table_text(frames, i, "source");
    const char *module = hx_table_text(frames, i, "module");
    hx_text_escape(ret, function, strlen(function), ascii);
    if (*source) {
        hx_text_puts(ret, " at ");
        hx_text_escape(ret, source, strlen(source), ascii);
    }
    if (*module) {
        hx_text_puts(ret, " (");
        hx_text_escape(ret, module, strlen(module), ascii);
        hx_text_putc(ret, ')');
    }
    if (*hx_table_text(frames, i, "inlined"))
        hx_text_puts(ret, ", inlined");
}

static void details_job_done(struct hx_job *job, struct hx_ui *ui, hx_error *error)
{
    struct asking *asking = (struct asking *)job;
    struct hx_pane *pane = hx_ui_find_pane(ui, asking->pane);
    if (error || !pane || pane->want != asking->want) {
        hx_ui_complain(ui, error);
        return;
    }
    struct hx_table rows = {0};
    if (asking->row.n_rows) {
        error = hx_table_begin(&rows, names);
        error = error ? error : add_row(&rows, &asking->row, 0, !ui->term.utf8);
    } else {
        rows = pane->rows;
        pane->rows = (struct hx_table){0};
    }
    if (asking->rule && !error) {
        struct hx_text text = {0};
        hx_rule_put(asking->rule, &asking->figures, &text);
        error = add_lines(&rows, "counted", hx_text_str(&text), value_width());
        hx_text_free(&text);
    }
    for (size_t i = 0; i < asking->frames.n_rows && !error; i++) {
        struct hx_text name = {0}, text = {0};
        hx_text_putf(&name, "%s%s",
                     i                ? "             "
                     : asking->ccs_id ? "called       "
                                      : "allocated by ",
                     hx_table_text(&asking->frames, i, "frame"));
        put_frame(&asking->frames, i, !ui->term.utf8, &text);
        error = add_lines(&rows, hx_text_str(&name), hx_text_str(&text), value_width());
        hx_text_free(&name);
        hx_text_free(&text);
    }
    hx_pane_set_rows(pane, &rows);
    hx_ui_complain(ui, error);
}

static void details_job_destroy(struct hx_job *job)
{
    struct asking *asking = (struct asking *)job;
    hx_table_deinit(&asking->row);
    hx_table_deinit(&asking->frames);
    free(asking);
}

/* Does the row stand for a word of an object that a rule says something of, with figures? */
static bool is_word(const struct hx_pane *below, size_t row, struct asking *ret)
{
    const struct hx_table *rows = &below->rows;
    const char *what = hx_table_text(rows, row, "what");
    ret->rule = hx_rule_find(hx_table_text(rows, row, "rule"));
    ret->offset = hx_table_int(rows, row, "offset", -1);
    ret->address = below->address;
    if (below->screen == &hx_screen_object && strcmp(what, "from") == 0)
        ret->address = (uint64_t)hx_table_int(rows, row, "object", 0);
    else if (below->screen != &hx_screen_hex && strcmp(what, "to") != 0)
        ret->rule = HX_RULE_NONE;
    if (ret->offset < 0 || (ret->rule != HX_RULE_requested && !hx_rule_counts(ret->rule)))
        ret->rule = HX_RULE_NONE;
    return ret->rule != HX_RULE_NONE;
}

/* The stack comes later than the rest: that of the row, or of the object that it stands for; so do
 * figures of a word. */
static hx_error *request_details(struct hx_ui *ui, struct hx_pane *pane,
                                 const struct hx_pane *below, size_t row)
{
    struct asking word = {.figures.requested = -1};
    int64_t stack_id = hx_table_int(&below->rows, row, "stack_id", 0);
    int64_t ccs_id = stack_id ? 0 : hx_table_int(&below->rows, row, "ccs_id", 0);
    uint64_t address = 0;
    bool is_of_word = is_word(below, row, &word);
    word.brief = hx_pane_is_brief(below) && hx_pane_object(below, row, &address);
    if (!stack_id && !ccs_id && !is_of_word && !word.brief)
        return NULL;
    if (!stack_id && hx_pane_object(below, row, &address))
        ccs_id = 0;

    struct asking *asking = calloc(1, sizeof *asking);
    HX_NEED(asking);
    *asking = word;
    asking->job = (struct hx_job){.what = "loading the stack",
                                  .quiet = true,
                                  .lane = HX_LANE_READ,
                                  .run = details_job_run,
                                  .done = details_job_done,
                                  .destroy = details_job_destroy};
    asking->pane = pane->serial;
    asking->want = ++pane->want;
    asking->stack_id = stack_id;
    asking->ccs_id = ccs_id;
    asking->snapshot = below->snapshot;
    if (!is_of_word)
        asking->address = address;
    hx_jobs_start(ui->jobs, &asking->job);
    return NULL;
}

/* --- the screen --- */

static hx_error *fill_details(struct hx_ui *ui, struct hx_pane *pane)
{
    struct hx_table rows;
    size_t row;
    const struct hx_pane *below = ui->at ? ui->open.v[ui->at - 1] : NULL;
    pane->id = value_width();
    HX_TRY(hx_table_begin(&rows, names));
    hx_error *error = NULL;
    if (below && hx_pane_row(below, &row))
        error = add_row(&rows, &below->rows, row, !ui->term.utf8);
    if (error) {
        hx_table_deinit(&rows);
        return error;
    }
    hx_pane_set_rows(pane, &rows);
    return below && hx_pane_row(below, &row) ? request_details(ui, pane, below, row) : NULL;
}

/* Texts are broken anew for another width; pane->id is the one that they were broken for. */
static void lay_out_details(const struct hx_ui *ui, struct hx_pane *pane, int width)
{
    (void)ui;
    pane->columns = width < NARROW ? narrow : columns;
    pane->stale |= pane->loaded && pane->id != value_width();
}

static void details_title(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    (void)ui;
    (void)pane;
    hx_text_puts(ret, "All values of this row");
}

static hx_error *open_detail_row(struct hx_ui *ui, struct hx_pane *pane, size_t row)
{
    uint64_t address;
    const struct hx_pane *below = ui->at ? ui->open.v[ui->at - 1] : NULL;
    size_t of;
    if (hx_pane_object(pane, row, &address)) {
        if (below && hx_pane_row(below, &of))
            hx_ui_follow_row(ui, below, of);
        return hx_ui_resolve(ui, address, hx_ui_open_object);
    }
    hx_ui_say(ui, "nothing is below this; q goes back");
    return NULL;
}

const struct hx_screen hx_screen_details = {
    .name = "details",
    .about = "all values of a row",
    .digit = -1,
    .by_argument = true,
    .pinned = true,
    .columns = columns,
    .object = "object",
    .lay_out = lay_out_details,
    .fill = fill_details,
    .head = details_title,
    .open = open_detail_row,
};
