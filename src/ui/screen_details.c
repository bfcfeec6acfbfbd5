/* screen_details.c - all values of the row that the cursor was on, nothing rounded. */
#include "ui/app.h"

#include <inttypes.h>
#include <string.h>

static const struct hx_column columns[] = {
    {"name", NULL, HX_AS_TEXT, 22, 0, NULL, NULL},
    {"value", NULL, HX_AS_SAFE, 0, 0, NULL, NULL},
    {0},
};

static bool is_address(const char *name)
{
    static const char *const addresses[] = {"address", "source",    "target",
                                            "object",  "dominator", "parent"};
    for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++)
        if (strcmp(addresses[i], name) == 0)
            return true;
    return false;
}

/* A name that happens to be written in digits. */
static bool is_number(const char *name)
{
    size_t n = strlen(name);
    return strcmp(name, "pid") == 0 || strcmp(name, "snapshot") == 0 ||
           (n > 3 && strcmp(name + n - 3, "_id") == 0);
}

static void value_text(const char *name, const struct hx_cell *cell, bool ascii,
                       struct hx_text *ret)
{
    size_t n = strlen(name);
    char size[HX_HUMAN];
    if (cell->type == HX_VALUE_NULL)
        hx_text_putc(ret, '-');
    else if (cell->type == HX_VALUE_TEXT)
        hx_text_escape(ret, hx_cell_shown(cell), strlen(hx_cell_shown(cell)), ascii);
    else if (cell->type == HX_VALUE_REAL)
        hx_text_putf(ret, "%g", cell->real);
    else if (is_address(name))
        hx_text_putf(ret, "0x%" PRIx64, (uint64_t)cell->i);
    else if (is_number(name))
        hx_text_putf(ret, "%" PRId64, cell->i);
    else
        hx_text_count(ret, cell->i);
    if (cell->type == HX_VALUE_INT && cell->i >= 1024 && n > 5 &&
        strcmp(name + n - 5, "bytes") == 0)
        hx_text_putf(ret, " (%s)", hx_human_bytes((uint64_t)cell->i, size));
}

/* A long text takes several rows; only its first has the name. */
static hx_error *add_lines(struct hx_table *rows, const char *name, const char *text, int width)
{
    do {
        size_t n = 0;
        for (int used = 0; text[n];) {
            size_t next = n + 1;
            while (((unsigned char)text[next] & 0xc0) == 0x80)
                next++;
            char one[8] = "";
            if (next - n < sizeof one)
                memcpy(one, text + n, next - n);
            used += hx_text_width(one);
            if (used > width && n)
                break;
            n = next;
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

static hx_error *fill(struct hx_ui *ui, struct hx_pane *pane)
{
    static const char *const names[] = {"name", "value", NULL};
    struct hx_table rows;
    size_t row;
    const struct hx_pane *below = ui->at ? ui->open.v[ui->at - 1] : NULL;
    int width = hx_term_columns() - 25 > 10 ? hx_term_columns() - 25 : 10;
    HX_TRY(hx_table_begin(&rows, names));
    hx_error *error = NULL;
    for (size_t i = 0; below && hx_pane_row(below, &row) && i < below->rows.n_columns && !error;
         i++) {
        struct hx_text text = {0};
        const char *name = below->rows.names[i];
        const struct hx_cell *cell = below->rows.cell + row * below->rows.n_columns + i;
        value_text(name, cell, !ui->term.utf8, &text);
        error = add_lines(&rows, name, hx_text_str(&text), width);
        if (!error && cell->shown) { /* filters and commands take it so */
            hx_text_clear(&text);
            hx_text_escape(&text, cell->text, cell->n, !ui->term.utf8);
            error = add_lines(&rows, "  as stored", hx_text_str(&text), width);
        }
        hx_text_free(&text);
    }
    if (error)
        hx_table_deinit(&rows);
    else
        hx_pane_set_rows(pane, &rows);
    return error;
}

static void head(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    (void)ui;
    (void)pane;
    hx_text_puts(ret, "All values of this row");
}

static hx_error *open_row(struct hx_ui *ui, struct hx_pane *pane, size_t row)
{
    (void)pane;
    (void)row;
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
    .fill = fill,
    .head = head,
    .open = open_row,
};
