/* matrix.c - which roots have a column of dots, the dots, and the roots above them. */
#include "ui/picture/matrix.h"

#include "layout/bin_roots.h"
#include "ui/app.h"
#include "ui/list/pane.h"
#include "layout/type_name.h"

#include <string.h>

/* The letters that stand over the columns where their names have no line of their own. So many
 * columns there are at most. */
static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
#define DOTS_MAX ((int)sizeof letters - 1)

/* Narrower than that an entry of the legend is not legible. */
#define ENTRY_MIN 36

struct matrix {
    const struct hx_column *plain; /* what `columns` was made of */
    struct hx_column columns[HX_COLUMNS_MAX];
    int n;            /* names in the facts */
    int first, shown; /* those with a column */
    int step;         /* cells of a column */
    bool named;       /* each name stands in a line of its own, led to its column */
    int lines;        /* of the names above the list */
    int per_line;     /* so many of them in a line */
    char heading[4 * DOTS_MAX + 8];
};

/* --- names --- */

/* Name number i: a row of the facts, or, where they are those of differences, a part of their
 * text. */
static bool matrix_name(const struct hx_pane *pane, int i, const char **ret, size_t *ret_n)
{
    const struct hx_cell *name = hx_table_at(&pane->facts, (size_t)i, "name");
    const char *at = hx_table_text(&pane->facts, 0, "kind_b");
    if (name->type == HX_VALUE_TEXT) {
        *ret = name->text;
        *ret_n = name->n;
        return true;
    }
    while (hx_bin_next(&at, ret, ret_n))
        if (i-- == 0)
            return *ret_n > 0;
    return false;
}

static int count_names(const struct hx_pane *pane)
{
    const char *name;
    size_t length;
    int n = 0;
    while (n < HX_FACTS_MAX && matrix_name(pane, n, &name, &length))
        n++;
    return n;
}

static int64_t count_all_names(const struct hx_pane *pane)
{
    const char *joined = hx_table_text(&pane->facts, 0, "kind_b");
    return *joined ? hx_bin_count(joined) : hx_table_int(&pane->facts, 0, "names", 0);
}

static bool is_member(const struct hx_pane *pane, const char *roots, int i)
{
    const char *name;
    size_t n;
    return matrix_name(pane, i, &name, &n) && hx_bin_has(roots, name, n);
}

/* --- the layout --- */

/* The list keeps this much of the width. */
static int dots_room(int columns)
{
    return columns >= 120 ? columns - 64 : columns / 2;
}

/* Moves the window to the members of the bin under the cursor; those that come first count more
 * where not all fit. */
static void follow_cursor(const struct hx_pane *pane, struct matrix *matrix)
{
    size_t row;
    int low = -1, high = -1;
    if (matrix->first > matrix->n - matrix->shown)
        matrix->first = matrix->n - matrix->shown;
    if (!hx_pane_row(pane, &row))
        return;
    const char *roots = hx_table_text(&pane->rows, row, "roots");
    for (int i = 0; i < matrix->n; i++) {
        if (!is_member(pane, roots, i))
            continue;
        low = low < 0 ? i : low;
        high = i;
    }
    if (low < 0)
        return;
    if (high >= matrix->first + matrix->shown)
        matrix->first = high - matrix->shown + 1;
    if (low < matrix->first)
        matrix->first = low;
}

/* Cells of all columns together: one more at each side where a window hides members. */
static int dots_width(const struct matrix *matrix)
{
    return matrix->shown * matrix->step - matrix->step + 1 + 2 * (matrix->shown < matrix->n);
}

static int dots_begin(const struct matrix *matrix)
{
    return matrix->shown < matrix->n;
}

static void put_heading(const struct hx_ui *ui, struct matrix *matrix)
{
    struct hx_text text = {0};
    if (dots_begin(matrix))
        hx_text_putc(&text, ' ');
    for (int i = 0; i < matrix->shown; i++) {
        if (i && matrix->step > 1)
            hx_text_putc(&text, ' ');
        if (matrix->named)
            hx_text_puts(&text, ui->term.utf8 ? "\u2502" : "|");
        else
            hx_text_putc(&text, letters[i]);
    }
    snprintf(matrix->heading, sizeof matrix->heading, "%s", hx_text_str(&text));
    hx_text_free(&text);
}

static struct matrix *matrix_of(struct hx_pane *pane, const struct hx_column *plain)
{
    struct matrix *matrix = pane->data;
    if (!matrix) {
        matrix = calloc(1, sizeof *matrix);
        pane->data = matrix;
        pane->free_data = free;
    }
    if (!matrix || matrix->plain == plain)
        return matrix;
    matrix->plain = plain;
    matrix->columns[0] = (struct hx_column){.name = "dots", .as = HX_AS_OWN, .width = 1};
    for (int i = 1; i < HX_COLUMNS_MAX; i++) {
        matrix->columns[i] = *plain;
        plain += plain->name != NULL;
    }
    return matrix;
}

/* The list keeps more than half of the lines. */
static void set_lines(struct matrix *matrix, bool more, int columns)
{
    int most = (hx_term_lines() - 4) * 2 / 5;
    matrix->named = !more && matrix->step == 2 && matrix->shown == matrix->n && matrix->n <= most;
    matrix->per_line = matrix->named || columns - 2 < ENTRY_MIN ? 1 : (columns - 2) / ENTRY_MIN;
    matrix->lines = (matrix->shown + matrix->per_line - 1) / matrix->per_line;
    matrix->lines = matrix->lines > most ? most : matrix->lines;
}

void hx_matrix_lay_out(const struct hx_ui *ui, struct hx_pane *pane, const struct hx_column *plain,
                       int columns)
{
    int n = count_names(pane), room = dots_room(columns);
    bool there = n && !(pane->screen->needs & ~pane->parts);
    struct matrix *matrix = there ? matrix_of(pane, plain) : NULL;
    if (!matrix) {
        pane->columns = plain;
        return;
    }
    int64_t names = count_all_names(pane);
    matrix->n = n;
    matrix->step = 2 * n - 1 <= room ? 2 : 1;
    matrix->shown = n;
    if (n > room || n > DOTS_MAX)
        matrix->shown = room - 2 < DOTS_MAX ? room - 2 : DOTS_MAX;
    matrix->shown = matrix->shown < 1 ? 1 : matrix->shown;
    set_lines(matrix, names > n, columns);
    follow_cursor(pane, matrix);
    put_heading(ui, matrix);
    matrix->columns[0].width = dots_width(matrix);
    matrix->columns[0].title = matrix->heading;
    pane->columns = matrix->columns;
}

void hx_matrix_cell(const struct hx_pane *pane, size_t row, bool ascii, struct hx_text *ret)
{
    const struct matrix *matrix = pane->data;
    if (!matrix)
        return;
    const char *roots = hx_table_text(&pane->rows, row, "roots");
    int end = matrix->first + matrix->shown, before = 0, inside = 0;
    struct hx_text dots = {0};
    for (int i = 0; i < end && i < matrix->n; i++) {
        bool member = is_member(pane, roots, i);
        before += member && i < matrix->first;
        if (i < matrix->first)
            continue;
        inside += member;
        if (i > matrix->first && matrix->step > 1)
            hx_text_putc(&dots, ' ');
        if (ascii)
            hx_text_putc(&dots, member ? 'x' : '.');
        else
            hx_text_puts(&dots, member ? "\u25cf" : "\u00b7");
    }
    if (dots_begin(matrix))
        hx_text_putc(ret, before ? '<' : ' ');
    hx_text_puts(ret, hx_text_str(&dots));
    if (hx_bin_count(roots) > before + inside)
        hx_text_putc(ret, '>');
    ret->failed |= dots.failed;
    hx_text_free(&dots);
}

void hx_matrix_window(const struct hx_pane *pane, struct hx_text *ret)
{
    const struct matrix *matrix = pane->data;
    int64_t names = count_all_names(pane);
    if (!matrix || matrix->shown >= names)
        return;
    hx_text_putf(ret, "%d to %d", matrix->first + 1, matrix->first + matrix->shown);
}

/* --- the roots above the list --- */

static int matrix_lines(const struct hx_ui *ui, const struct hx_pane *pane, int lines, int columns)
{
    (void)ui;
    (void)columns;
    const struct matrix *matrix = pane->data;
    if (!matrix || pane->columns != matrix->columns)
        return 0;
    return matrix->lines < lines - 3 ? matrix->lines : 0;
}

/* What is alone in full cells, what is shared in lighter ones. */
static void draw_matrix_bar(const struct hx_ui *ui, int y, int x, int width, double alone,
                            double shared, double whole)
{
    struct hx_text bar = {0};
    double scale = whole > 0 ? width / whole : 0;
    int full = (int)(alone * scale + 0.5), both = (int)((alone + shared) * scale + 0.5);
    full += !full && alone > 0; /* something is never drawn as nothing */
    both = both < full ? full : both;
    both += both == full && shared > 0 && both < width;
    for (int i = 0; i < both && i < width; i++)
        hx_text_puts(&bar, i < full        ? ui->term.utf8 ? "\u2588" : "#"
                           : ui->term.utf8 ? "\u2592"
                                           : "-");
    hx_put(&ui->term, y, x, width, hx_text_str(&bar), false, HX_STYLE_BAR);
    hx_text_free(&bar);
}

static double matrix_bytes(const struct hx_pane *pane, int i, const char *name)
{
    return (double)hx_table_int(&pane->facts, (size_t)i, name, 0);
}

/* The most that one root reaches, which has the longest bar. */
static double most_bytes(const struct hx_pane *pane, int n)
{
    double most = 0;
    for (int i = 0; i < n; i++) {
        double sum =
            matrix_bytes(pane, i, "exclusive_bytes") + matrix_bytes(pane, i, "shared_bytes");
        most = sum > most ? sum : most;
    }
    return most;
}

static void draw_root_name(const struct hx_ui *ui, const struct hx_pane *pane, int i, int y, int x,
                           int width)
{
    struct hx_text text = {0};
    const char *name;
    size_t n;
    if (!matrix_name(pane, i, &name, &n))
        return;
    HX_FREE char *copy = strndup(name, n);
    hx_text_type_shown(&text, copy ? copy : "", !ui->term.utf8);
    hx_text_middle(&ui->term, width, &text);
    hx_put(&ui->term, y, x, width, hx_text_str(&text), false, HX_STYLE_NORMAL);
    hx_text_free(&text);
}

/* "cache      20.6K alone   544K shared  ####---": name, bytes, bar; of differences the name. */
static void put_entry(const struct hx_ui *ui, const struct hx_pane *pane, int i, int y, int x,
                      int width, double most)
{
    char alone_size[HX_HUMAN], shared_size[HX_HUMAN];
    bool words = width >= 60;
    int figures = words ? 31 : 17, name_width = (width - figures) * 3 / 5;
    double alone = matrix_bytes(pane, i, "exclusive_bytes"),
           shared = matrix_bytes(pane, i, "shared_bytes");
    struct hx_text text = {0};
    if (hx_table_at(&pane->facts, (size_t)i, "exclusive_bytes")->type != HX_VALUE_INT) {
        draw_root_name(ui, pane, i, y, x, width);
        return;
    }
    name_width = name_width > 28 ? 28 : name_width;
    draw_root_name(ui, pane, i, y, x, name_width);
    hx_text_putf(&text, words ? "%8s alone %8s shared" : "%7s +%7s",
                 hx_human_bytes((uint64_t)alone, alone_size),
                 hx_human_bytes((uint64_t)shared, shared_size));
    hx_put(&ui->term, y, x + name_width, figures, hx_text_str(&text), false, HX_STYLE_NORMAL);
    hx_text_free(&text);
    int bar = width - name_width - figures;
    if (bar > 0)
        draw_matrix_bar(ui, y, x + name_width + figures, bar > 40 ? 40 : bar, alone, shared, most);
}

/* A line from the name down to its column, past those of the names above. */
static void put_leader(const struct hx_ui *ui, int i, int n, int y)
{
    bool utf8 = ui->term.utf8;
    struct hx_text line = {0};
    for (int k = 0; k < n; k++) {
        const char *at = k < i    ? (utf8 ? "\u2502" : "|")
                         : k == i ? (utf8 ? "\u250c" : ".")
                                  : (utf8 ? "\u2500" : "-");
        hx_text_puts(&line, at);
        hx_text_puts(&line, k < i ? " " : utf8 ? "\u2500" : "-");
    }
    hx_put(&ui->term, y, 2, 2 * n, hx_text_str(&line), false, HX_STYLE_DIM);
    hx_text_free(&line);
}

static void put_named(const struct hx_ui *ui, const struct hx_pane *pane,
                      const struct matrix *matrix, int y, int columns)
{
    double most = most_bytes(pane, matrix->n);
    for (int i = 0; i < matrix->n; i++) {
        int x = 2 + 2 * matrix->n + 1;
        put_leader(ui, i, matrix->n, y + i);
        put_entry(ui, pane, i, y + i, x, columns - x, most);
    }
}

/* The names behind the letters of their columns, in columns of their own, which read downwards. */
static void put_legend(const struct hx_ui *ui, const struct hx_pane *pane,
                       const struct matrix *matrix, int y, int height, int columns)
{
    double most = most_bytes(pane, matrix->n);
    int width = (columns - 2) / matrix->per_line, room = height * matrix->per_line;
    bool all = matrix->shown <= room;
    for (int i = 0; i < matrix->shown && i < room; i++) {
        int line = y + i % height, x = 2 + i / height * width;
        char letter[2] = {letters[i], 0};
        if (!all && i == room - 1) {
            char rest[64];
            snprintf(rest, sizeof rest, "and %d more; :root lists them", matrix->shown - i);
            hx_put(&ui->term, line, x, width, rest, false, HX_STYLE_DIM);
            return;
        }
        hx_put(&ui->term, line, x, 1, letter, false, HX_STYLE_COLUMN);
        put_entry(ui, pane, matrix->first + i, line, x + 2, width - 4, most);
    }
}

static void draw_matrix(struct hx_ui *ui, struct hx_pane *pane, int y, int height, int columns)
{
    const struct matrix *matrix = pane->data;
    if (matrix->named)
        put_named(ui, pane, matrix, y, columns);
    else
        put_legend(ui, pane, matrix, y, height, columns);
}

const struct hx_picture hx_matrix_picture = {.lines = matrix_lines, .draw = draw_matrix};
