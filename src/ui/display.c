/* display.c - draws a pane: header, screens, title, columns, rows, last line. */
#include "base/pin.h"
#include "store/stages.h"
#include "ui/app.h"
#include "ui/command/prompt.h"
#include "ui/data/difference.h"
#include "ui/job.h"
#include "ui/list/marked_rows.h"
#include "ui/list/pane.h"
#include "ui/ui_options.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define LINES_MIN   5
#define COLUMNS_MIN 20

struct layout {
    int lines, columns;
    int title;   /* lines that the title has */
    int picture; /* lines that the picture has */
    int heading, first, height;
};

/* Appends ` | part` when it fits into what is left of the line. */
static void add_status_part(struct hx_text *line, const char *part, int columns,
                            const char *between)
{
    if (!*part)
        return;
    int needed = hx_text_width(hx_text_str(line)) + hx_text_width(part) + (int)strlen(between);
    if (line->n && needed > columns)
        return;
    if (line->n)
        hx_text_puts(line, between);
    hx_text_puts(line, part);
}

/* "snapshot 5 of 7", "snapshot 5 against *2": a star stands before the marked one. */
static void put_snapshot(const struct hx_ui *ui, size_t n, struct hx_text *ret)
{
    int64_t other = ui->differences ? hx_ui_other(ui) : 0;
    const char *mark = ui->marked == ui->snapshot ? "*" : "";
    hx_text_putf(ret, "snapshot %s%lld ", mark, (long long)ui->snapshot);
    if (other)
        hx_text_putf(ret, "against %s%lld", ui->marked == other ? "*" : "", (long long)other);
    else
        hx_text_putf(ret, "of %zu", n);
    if (!other && ui->marked && ui->marked != ui->snapshot)
        hx_text_putf(ret, "  *%lld", (long long)ui->marked);
}

static void draw_header(const struct hx_ui *ui, const struct layout *layout)
{
    size_t row = hx_ui_snapshot_row(ui), n = ui->snapshots.n_rows;
    const struct hx_table *snapshots = &ui->snapshots;
    bool ascii = !ui->term.utf8;
    struct hx_text line = {0}, part = {0};
    hx_text_puts(&line, " ");
    const char *title = ui->options->title ? ui->options->title : "heapx";
    hx_text_escape(&line, title, strlen(title), ascii);
    int columns = layout->columns - 1;
    if (row < n) {
        char pause[HX_HUMAN];
        put_snapshot(ui, n, &part);
        add_status_part(&line, part.s, columns, "  ");
        hx_text_clear(&part);
        if (!hx_table_int(snapshots, row, "complete", 1))
            hx_text_puts(&part, "PARTIAL");
        add_status_part(&line, hx_text_str(&part), columns, "  ");
        hx_text_clear(&part);
        if (ui->gone)
            hx_text_puts(&part, "EXITED");
        add_status_part(&line, hx_text_str(&part), columns, "  ");
        hx_text_clear(&part);
        const char *comm = hx_table_text(snapshots, row, "comm");
        hx_text_escape(&part, comm, strlen(comm), ascii);
        int64_t pid = hx_table_int(snapshots, row, "pid", 0);
        if (pid)
            hx_text_putf(&part, "[%lld]", (long long)pid);
        add_status_part(&line, hx_text_str(&part), columns, "  ");
        hx_text_clear(&part);
        int64_t us = hx_table_int(snapshots, row, "pause_us", -1);
        if (us >= 0)
            hx_text_putf(&part, "pause %s", hx_human_ns((uint64_t)us * 1000, pause));
        add_status_part(&line, hx_text_str(&part), columns, "  ");
        hx_text_clear(&part);
        struct hx_column time = {.name = "taken_at", .as = HX_AS_TIME};
        hx_column_text(&time, snapshots, row, NULL, ascii, &part);
        hx_text_putc(&part, 'Z');
        add_status_part(&line, hx_text_str(&part), columns, "  ");
    } else {
        add_status_part(&line, "no snapshot yet", columns, "  ");
    }
    hx_put(&ui->term, 0, 0, layout->columns, hx_text_str(&line), false, HX_STYLE_HEAD);
    hx_text_free(&line);
    hx_text_free(&part);
}

/* How one came here: the names of the open panes, the first ones left out where they do not
 * fit. */
static void draw_way(const struct hx_ui *ui, int x, int width)
{
    const char *arrow = ui->term.utf8 ? " \u203a " : " > ";
    struct hx_text way = {0};
    for (size_t first = 1; first <= ui->at; first++) {
        hx_text_clear(&way);
        if (first > 1)
            hx_text_putf(&way, "%s...", arrow);
        for (size_t i = first; i <= ui->at; i++)
            hx_text_putf(&way, "%s%s", arrow, ui->open.v[i]->screen->name);
        if (hx_text_width(hx_text_str(&way)) <= width)
            break;
    }
    hx_put(&ui->term, 1, x, width, hx_text_str(&way), false, HX_STYLE_TITLE);
    hx_text_free(&way);
}

/* How the list of screens names them, and all but the current one. */
enum naming { NAME_FULL, NAME_BRIEF, NAME_ALL_BRIEF, NAME_DIGIT, NAME_BRIEF_DIGIT };

/* " 3 bins ", "[3 bins]"; brief ones stand closer: " 3 bins", " [3 bins]" */
static void screen_label(int digit, const struct hx_screen *screen, bool current,
                         enum naming naming, char label[64])
{
    bool brief = naming == NAME_ALL_BRIEF || naming == NAME_BRIEF_DIGIT ||
                 (naming == NAME_BRIEF && !current);
    bool close = naming == NAME_ALL_BRIEF || naming == NAME_BRIEF;
    const char *name = brief && screen->brief ? screen->brief : screen->name;
    if (current)
        snprintf(label, 64, "%s[%d %s]", close ? " " : "", digit, name);
    else if (naming >= NAME_DIGIT)
        snprintf(label, 64, " %d ", digit);
    else
        snprintf(label, 64, " %d %s%s", digit, name, close ? "" : " ");
}

/* What is done with the list of screens: added up, drawn, or asked what stands in a column. */
struct tabs {
    bool draw;
    int columns;
    int at; /* -1: nothing is asked */
    const struct hx_screen *found;
};

/* Returns how wide they are. */
static int put_screens(const struct hx_ui *ui, enum naming naming, struct tabs *tabs)
{
    int x = naming == NAME_FULL || naming >= NAME_DIGIT;
    for (size_t i = 0; i < HX_SCREENS; i++) {
        const struct hx_screen *screen = hx_screens[i];
        if (screen->digit < 0)
            continue;
        const struct hx_screen *base = ui->open.v[0]->screen;
        bool current = base == screen || (base->digit < 0 && base->view == screen);
        char label[64];
        screen_label(screen->digit, hx_ui_stands_for(ui, screen), current, naming, label);
        int width = (int)strlen(label);
        if (tabs->draw && x + width > tabs->columns)
            break;
        if (tabs->draw)
            hx_put(&ui->term, 1, x, width, label, false,
                   current ? HX_STYLE_TITLE : HX_STYLE_NORMAL);
        if (tabs->at >= x && tabs->at < x + width)
            tabs->found = screen;
        x += width + (naming == NAME_FULL);
    }
    return x;
}

/* The fewer of their letters are shown, the more room the way has. */
static enum naming choose_naming(const struct hx_ui *ui, int columns)
{
    int way = ui->at ? 3 + (int)strlen(hx_ui_pane(ui)->screen->name) : 0;
    way += ui->at > 1 ? 6 : 0; /* where the others are left out */
    enum naming naming = NAME_FULL;
    while (naming < NAME_BRIEF_DIGIT &&
           put_screens(ui, naming, &(struct tabs){.at = -1}) + way > columns)
        naming++;
    return naming;
}

/* The screens with a digit; the one that is shown (or that led here) stands out. */
static void draw_screens(const struct hx_ui *ui, const struct layout *layout)
{
    struct tabs tabs = {.draw = true, .columns = layout->columns, .at = -1};
    int x = put_screens(ui, choose_naming(ui, layout->columns), &tabs);
    if (x < layout->columns)
        draw_way(ui, x, layout->columns - x);
}

const struct hx_screen *hx_ui_screen_at(const struct hx_ui *ui, int x)
{
    struct tabs tabs = {.at = x};
    put_screens(ui, choose_naming(ui, hx_term_columns()), &tabs);
    return tabs.found;
}

/* What stands above the list: the screen's own lines, and the filter before or behind the first
 * of them, as there is room. */
static void title(const struct hx_ui *ui, const struct hx_pane *pane, int room, struct hx_text *ret)
{
    struct hx_text head = {0};
    if (pane->other && pane->screen->census)
        hx_difference_head(ui, pane, &head);
    else if (pane->screen->head)
        pane->screen->head(ui, pane, &head);
    const char *s = hx_text_str(&head);
    if (pane->filter) {
        size_t first = room > 1 ? strcspn(s, "\n") : 0;
        hx_text_putn(ret, s, first);
        hx_text_puts(ret, first ? "\nFilter: " : "Filter: ");
        hx_text_escape(ret, pane->filter, strlen(pane->filter), !ui->term.utf8);
        s += first + (s[first] == '\n');
        if (*s)
            hx_text_putc(ret, '\n');
    }
    hx_text_puts(ret, s);
    hx_text_free(&head);
}

static void draw_title(const struct hx_ui *ui, const struct hx_pane *pane,
                       const struct layout *layout)
{
    struct hx_text head = {0};
    title(ui, pane, layout->title, &head);
    const char *s = hx_text_str(&head);
    for (int i = 0; i < layout->title; i++) {
        size_t n = strcspn(s, "\n");
        HX_FREE char *line = strndup(s, n);
        if (line)
            hx_put(&ui->term, 2 + i, 1, layout->columns - 1, line, false,
                   i ? HX_STYLE_NORMAL : HX_STYLE_TITLE);
        s += n + (s[n] == '\n');
    }
    hx_text_free(&head);
}

static int title_lines(const struct hx_ui *ui, const struct hx_pane *pane)
{
    struct hx_text head = {0};
    int n = 0;
    title(ui, pane, 1, &head);
    for (size_t i = 0; i < head.n; i++)
        n += head.s[i] == '\n';
    n += head.n && head.s[head.n - 1] != '\n';
    hx_text_free(&head);
    return n;
}

static const char *heading(const struct hx_column *column)
{
    return column->title ? column->title : column->name;
}

static bool is_sorted_by(const struct hx_pane *pane, const struct hx_column *column)
{
    return pane->sort && strcmp(pane->sort, column->name) == 0 && column->as != HX_AS_BAR &&
           column->as != HX_AS_SHARE && column->as != HX_AS_SWING;
}

/* The heading with the mark of the order needs a cell more: it is taken where nothing stands, else
 * from the widest column that takes what others leave. */
static void widen_heading(const struct hx_pane *pane, int columns_wide, int *width)
{
    const struct hx_column *columns = pane->columns;
    int used = -1, widest = -1, lacking = 0, sorted = -1;
    for (int i = 0; i < HX_COLUMNS_MAX && columns[i].name; i++) {
        if (!width[i])
            continue;
        used += width[i] + 1;
        if (columns[i].width <= 0 && (widest < 0 || width[i] > width[widest]))
            widest = i;
        if (is_sorted_by(pane, &columns[i]) && sorted < 0) {
            sorted = i;
            lacking = hx_text_width(heading(&columns[i])) + 1 - width[i];
        }
    }
    if (lacking <= 0)
        return;
    int taken = lacking - (columns_wide - used);
    if (taken > 0 && (widest < 0 || widest == sorted || width[widest] - taken < lacking + 12))
        return;
    if (taken > 0)
        width[widest] -= taken;
    width[sorted] += lacking;
}

static void draw_heading(const struct hx_ui *ui, const struct hx_pane *pane,
                         const struct layout *layout, const int *width)
{
    const struct hx_column *columns = pane->columns;
    int x = 2;
    hx_put(&ui->term, layout->heading, 0, layout->columns, "", false, HX_STYLE_COLUMN);
    for (int i = 0; i < HX_COLUMNS_MAX && columns[i].name; i++) {
        if (!width[i])
            continue;
        struct hx_text text = {0};
        const char *mark = !is_sorted_by(pane, &columns[i]) ? ""
                           : ui->term.utf8   ? (pane->ascending ? "\u25b4" : "\u25be")
                           : pane->ascending ? "^"
                                             : "v";
        hx_text_putf(&text, "%s%s", heading(&columns[i]), mark);
        hx_put(&ui->term, layout->heading, x, width[i], hx_text_str(&text),
               hx_column_right(&columns[i]), HX_STYLE_COLUMN);
        hx_text_free(&text);
        x += width[i] + 1;
    }
}

static double row_number(const struct hx_table *rows, size_t row, const char *name)
{
    return name ? (double)hx_table_int(rows, row, name, 0) : 0;
}

/* Levels of a deep tree that are left out of the indentation, so that the names around the cursor
 * are legible. */
static int64_t levels_left_out(const struct hx_pane *pane, int width)
{
    size_t row;
    if (!hx_pane_row(pane, &row))
        return 0;
    int64_t depth = hx_table_int(&pane->rows, row, "depth", 0), room = width / 4;
    return depth > room ? depth - room : 0;
}

/* Takes levels off the beginning of a node's text; its name keeps some room, and loses its middle
 * where that is too little. */
static void fit_node(const struct hx_term *term, struct hx_text *text, int64_t levels, int width)
{
    size_t indent = strspn(hx_text_str(text), " "), most = width > 12 ? (size_t)width - 12 : 0;
    size_t left = (int64_t)indent > levels ? indent - (size_t)levels : 0;
    if (indent && left > most)
        left = most;
    if (!text->failed && indent > left) {
        memmove(text->s, text->s + indent - left, text->n - (indent - left) + 1);
        text->n -= indent - left;
    }
    struct hx_text name = {0};
    size_t first = left + 2 < text->n ? left + 2 : text->n; /* behind the mark */
    hx_text_puts(&name, hx_text_str(text) + first);
    hx_text_middle(term, width - (int)first, &name);
    if (!text->failed && !name.failed && width > (int)first) {
        text->n = first;
        hx_text_puts(text, hx_text_str(&name));
    }
    hx_text_free(&name);
}

/* Names that are too long lose their middle, for scopes and what they are of stand at the ends; but
 * types first lose the note behind them, and calls and shapes their end. */
static void fit_name(const struct hx_term *term, const struct hx_column *column, int width,
                     struct hx_text *text)
{
    bool type = column->as == HX_AS_TYPE || column->as == HX_AS_NAME;
    if (column->as == HX_AS_NAMES)
        hx_text_fewer(term, width, text);
    if (column->width > 0 || hx_text_width(hx_text_str(text)) <= width ||
        (!type && column->as != HX_AS_TEXT && column->as != HX_AS_SOURCE))
        return;
    if (column->as == HX_AS_NAME && strstr(hx_text_str(text), " < "))
        return;
    if (column->as == HX_AS_TYPE && hx_text_str(text)[0] == '{')
        return;
    char *note =
        column->as == HX_AS_TYPE && text->s[text->n - 1] == ')' ? strrchr(text->s, '(') : NULL;
    if (note && note > text->s && note[-1] == ' ') {
        note[-1] = 0;
        text->n = (size_t)(note - 1 - text->s);
    }
    hx_text_middle(term, width, text);
}

/* --- names of rows that are seen together --- */

/* The column of names; HX_COLUMNS_MAX: there is none. */
static int name_column(const struct hx_pane *pane, const int *width)
{
    int i = 0;
    while (i < HX_COLUMNS_MAX && pane->columns[i].name &&
           !(width[i] && pane->columns[i].width <= 0 &&
             (pane->columns[i].as == HX_AS_NAMES || pane->columns[i].as == HX_AS_TYPE)))
        i++;
    return i < HX_COLUMNS_MAX && pane->columns[i].name ? i : HX_COLUMNS_MAX;
}

/* Where the word begins in which two texts differ. */
static size_t differing_word(const char *a, const char *b)
{
    size_t same = 0, word = 0;
    for (; a[same] && a[same] == b[same]; same++)
        if (strchr(" ,:<", a[same]))
            word = same + 1;
    return word;
}

/* From that word on at least, and as much of the beginning as there is room for. */
static void fit_from(const struct hx_term *term, const struct hx_column *column, int width,
                     const char *whole, size_t word, struct hx_text *ret)
{
    struct hx_text rest = {0};
    hx_text_puts(&rest, whole + word);
    fit_name(term, column, width * 2 / 3, &rest);
    int left = width - hx_text_width(hx_text_str(&rest)) - 1;
    hx_text_clear(ret);
    hx_text_putn(ret, whole, word);
    hx_text_puts(ret, hx_text_str(&rest));
    hx_text_cut(term, width, left, ret);
    hx_text_free(&rest);
}

/* A name of a row. */
struct row_name {
    struct hx_text whole, shown;
    size_t word; /* from which on it has to be seen; 0: wherever */
};

/* Where the name differs from others that are shown alike. */
static void tell_name_apart(struct row_name *name, const struct row_name *names, size_t n)
{
    const char *whole = hx_text_str(&name->whole), *shown = hx_text_str(&name->shown);
    for (size_t i = 0; i < n && strcmp(whole, shown) != 0; i++) {
        if (strcmp(shown, hx_text_str(&names[i].shown)) != 0)
            continue;
        size_t word = differing_word(whole, hx_text_str(&names[i].whole));
        bool differs = strcmp(whole, hx_text_str(&names[i].whole)) != 0;
        name->word = differs && word > name->word ? word : name->word;
    }
}

/* The names that `n` rows from `first` on show: cut so that two that differ do not read the same.
 */
static void fit_names(const struct hx_ui *ui, const struct hx_pane *pane, size_t first, size_t n,
                      int at, int width, struct row_name *ret)
{
    for (size_t i = 0; i < n; i++) {
        struct hx_column column = hx_pane_column(pane, &pane->columns[at], first + i);
        hx_column_text(&column, &pane->rows, first + i, &pane->facts, !ui->term.utf8,
                       &ret[i].whole);
        hx_text_puts(&ret[i].shown, hx_text_str(&ret[i].whole));
        fit_name(&ui->term, &column, width, &ret[i].shown);
    }
    for (size_t i = 0; i < n; i++)
        tell_name_apart(&ret[i], ret, n);
    for (size_t i = 0; i < n; i++)
        if (ret[i].word)
            fit_from(&ui->term, &pane->columns[at], width, hx_text_str(&ret[i].whole), ret[i].word,
                     &ret[i].shown);
}

static void draw_row(const struct hx_ui *ui, const struct hx_pane *pane, size_t row, int y,
                     const int *width, bool cursor, int named, const struct row_name *name)
{
    const struct hx_column *columns = pane->columns;
    int64_t snapshot = pane->screen->over_time ? hx_table_int(&pane->rows, row, "snapshot", 0) : 0;
    bool marked = hx_marks_has(pane, row) || (snapshot && snapshot == ui->marked);
    enum hx_style style = cursor ? HX_STYLE_CURSOR : marked ? HX_STYLE_MARK : HX_STYLE_NORMAL;
    const char *at = cursor ? ">" : snapshot && snapshot == ui->snapshot ? "@" : " ";
    hx_put(&ui->term, y, 0, hx_term_columns(), "", false, style);
    hx_put(&ui->term, y, 0, 1, at, false, style);
    if (marked)
        hx_put(&ui->term, y, 1, 1, "*", false, style);
    int x = 2;
    for (int i = 0; i < HX_COLUMNS_MAX && columns[i].name; i++) {
        if (!width[i])
            continue;
        struct hx_column column = hx_pane_column(pane, &columns[i], row);
        if (columns[i].as == HX_AS_BAR) {
            hx_put_bar(&ui->term, y, x, width[i], row_number(&pane->rows, row, columns[i].name),
                       row_number(&pane->rows, row, columns[i].marked),
                       row_number(&pane->facts, 0, columns[i].whole), cursor);
        } else {
            struct hx_text text = {0};
            bool band = columns[i].as == HX_AS_BAND;
            int64_t value = band ? hx_table_int(&pane->rows, row, columns[i].name, 0) : 0;
            if (i == named)
                hx_text_puts(&text, hx_text_str(&name->shown));
            else if (band || columns[i].as == HX_AS_OWN)
                pane->screen->cell(pane, row, !ui->term.utf8, &text);
            else
                hx_column_text(&column, &pane->rows, row, &pane->facts, !ui->term.utf8, &text);
            fit_name(&ui->term, &column, width[i], &text);
            if (columns[i].as == HX_AS_TREE)
                fit_node(&ui->term, &text, levels_left_out(pane, width[i]), width[i]);
            hx_put(&ui->term, y, x, width[i], hx_text_str(&text), hx_column_right(&columns[i]),
                   band ? (enum hx_style)(HX_STYLE_BAND + value % HX_BANDS)
                   : columns[i].as == HX_AS_SWING && !cursor ? HX_STYLE_BAR
                                                             : style);
            hx_text_free(&text);
        }
        x += width[i] + 1;
    }
}

void hx_ui_put_no_heap(const struct hx_ui *ui, const char *between, struct hx_text *ret)
{
    size_t row = hx_ui_snapshot_row(ui);
    const char *notes = hx_table_text(&ui->snapshots, row, "notes");
    hx_text_puts(ret, "No heap was found in this snapshot");
    hx_text_puts(ret, *notes ? ": " : "");
    hx_text_escape(ret, notes, strlen(notes), !ui->term.utf8);
    hx_text_puts(ret, ".");
    hx_text_puts(ret, between);
    hx_text_puts(ret, "Screen 0 shows the resident memory.");
    if (!hx_table_int(&ui->snapshots, row, "recorded", 0))
        hx_text_puts(ret, " Of a program that calls malloc, heapx attach PID --record finds what is"
                          " allocated from then on, heapx run all of it.");
}

/* A profile of another program tells its own break-down, and nothing of single objects. */
static bool put_imported(const struct hx_ui *ui, struct hx_text *ret)
{
    size_t row = hx_ui_snapshot_row(ui);
    if (row >= ui->snapshots.n_rows ||
        strcmp(hx_table_text(&ui->snapshots, row, "method"), "import") != 0)
        return false;
    const char *notes = hx_table_text(&ui->snapshots, row, "notes");
    hx_text_puts(ret,
                 "This snapshot was imported, and its profile does not tell this. What it is: ");
    hx_text_escape(ret, notes, strlen(notes), !ui->term.utf8);
    hx_text_puts(ret, ". Screen 1 shows it over time.");
    return true;
}

void hx_ui_put_partial(const struct hx_ui *ui, struct hx_text *ret)
{
    size_t row = hx_ui_snapshot_row(ui);
    const char *notes = hx_table_text(&ui->snapshots, row, "notes");
    if (row >= ui->snapshots.n_rows || hx_table_int(&ui->snapshots, row, "complete", 1))
        return;
    hx_text_puts(ret, "\npartial: ");
    hx_text_escape(ret, notes, strlen(notes), !ui->term.utf8);
}

/* Rows that were never worked out. */
static void say_lacking(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    size_t row = hx_ui_snapshot_row(ui);
    if (hx_table_int(&ui->snapshots, row, "heap_bytes", -1) < 0)
        hx_ui_put_no_heap(ui, " ", ret);
    else if (ui->revising)
        hx_text_putf(ret, "%s being worked out.", pane->screen->lacks);
    else
        hx_text_putf(ret, "%s not worked out yet; :analyse does it.", pane->screen->lacks);
}

static void instead_of_rows(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    if ((hx_screen_stored(pane->screen) || pane->screen->over_time) && !ui->snapshot)
        hx_text_puts(ret,
                     ui->snapping ? "The first snapshot is being taken."
                     : ui->options->take
                         ? "No snapshot yet. Press a to take one."
                         : "There is no snapshot in this file: heapx snap PID -o FILE stores one.");
    else if (pane->problem)
        hx_text_puts(ret, pane->problem);
    else if (pane->loading && ui->snapping && pane->screen == &hx_screen_why)
        hx_text_puts(ret, "As soon as the snapshot is taken; Esc gives the snapshot up.");
    else if (pane->loading || !pane->loaded)
        hx_text_puts(ret, "Loading.");
    else if (pane->screen->needs & ~pane->parts)
        say_lacking(ui, pane, ret);
    else if (pane->filter)
        hx_text_puts(ret, "The filter holds for no row; F clears it.");
    else if (pane->other && pane->screen->census && hx_difference_instead(ui, pane, ret))
        return;
    else if (pane->other && pane->screen->fill_differences)
        hx_text_puts(ret, "None appeared, and none is gone.");
    else if ((pane->screen->digit >= 0 || pane->screen->needs || pane->screen->differences) &&
             put_imported(ui, ret))
        return;
    else if (pane->screen->instead)
        pane->screen->instead(ui, pane, ret);
    if (!ret->n)
        hx_text_puts(ret, pane->screen->empty ? pane->screen->empty : "Nothing here.");
}

/* Cells that a text takes at most once it is escaped. */
static int text_bound(const struct hx_cell *cell)
{
    const char *s = hx_cell_text(cell);
    size_t length = strlen(s), n = cell->type == HX_VALUE_TEXT ? length : 1;
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)s[i];
        n += c < 0x20 || c >= 0x7f || c == '\\' ? 3 : 0;
    }
    return n < 1000 ? (int)n : 1000;
}

/* On wide screens a column of text takes what the rows in memory need, so that the others
 * stay near; steps of eight keep it from changing all the time. */
static void tighten(const struct hx_pane *pane, int *width)
{
    const struct hx_column *columns = pane->columns;
    for (int i = 0; i < HX_COLUMNS_MAX && columns[i].name; i++) {
        int longest = 32;
        if (width[i] <= longest || columns[i].width > 0 ||
            (columns[i].as != HX_AS_TEXT && columns[i].as != HX_AS_TYPE &&
             columns[i].as != HX_AS_NAMES))
            continue;
        for (size_t row = 0; row < pane->rows.n_rows && longest < width[i]; row++) {
            int bound = text_bound(hx_table_at(&pane->rows, row, columns[i].name));
            longest = bound > longest ? (bound + 7) / 8 * 8 : longest;
        }
        width[i] = longest < width[i] ? longest : width[i];
    }
}

/* In as many lines as it takes and there are; broken between words. */
static void draw_wrapped(const struct hx_ui *ui, const struct layout *layout, const char *s,
                         enum hx_style style)
{
    int width = layout->columns - 2;
    for (int i = 0; i < layout->height && *s; i++) {
        HX_FREE char *line = strdup(s);
        char *blank = line ? line + strlen(line) : NULL;
        while (line && i + 1 < layout->height && hx_text_width(line) > width) {
            blank = strrchr(line, ' ');
            if (!blank)
                break;
            *blank = 0;
        }
        if (!line || !blank) { /* a word that is too long */
            hx_put(&ui->term, layout->first + i, 2, width, s, false, style);
            return;
        }
        hx_put(&ui->term, layout->first + i, 2, width, line, false, style);
        s += strlen(line);
        s += *s == ' ';
    }
}

static void column_widths(const struct hx_pane *pane, int columns, int width[HX_COLUMNS_MAX])
{
    hx_column_layout(pane->columns, columns - 2, width);
    tighten(pane, width);
    widen_heading(pane, columns - 2, width);
}

const struct hx_column *hx_pane_column_at(const struct hx_pane *pane, int x)
{
    int width[HX_COLUMNS_MAX], from = 2;
    column_widths(pane, hx_term_columns(), width);
    for (int i = 0; i < HX_COLUMNS_MAX && pane->columns[i].name; i++) {
        if (!width[i])
            continue;
        if (x >= from && x < from + width[i])
            return &pane->columns[i];
        from += width[i] + 1;
    }
    return NULL;
}

/* Rows of names and values. */
static void draw_facts(const struct hx_ui *ui, const struct layout *layout, int from,
                       struct hx_text *facts)
{
    enum { NAME = 12 };
    char *rest = facts->s;
    for (char *line; rest && from < layout->height && (line = strsep(&rest, "\n")); from++) {
        char *name = strsep(&line, "\t");
        hx_put(&ui->term, layout->first + from, 2, NAME, name, false, HX_STYLE_DIM);
        if (line)
            hx_put(&ui->term, layout->first + from, 2 + NAME, layout->columns - 2 - NAME, line,
                   false, HX_STYLE_NORMAL);
    }
}

/* What is known while the first snapshot is taken. */
static void draw_first(const struct hx_ui *ui, const struct layout *layout)
{
    struct hx_text facts = {0};
    struct hx_course_look look;
    char number[HX_HUMAN];
    ui->options->facts(ui->options->context, &facts);
    bool known = hx_jobs_seen(ui->jobs, &look);
    const uint64_t *seen = look.seen;
    if (known && seen[HX_SIZE_BYTES])
        hx_text_putf(&facts, "copied\t%s\n", hx_human_bytes(seen[HX_SIZE_BYTES], number));
    if (known && seen[HX_SIZE_OBJECTS])
        hx_text_putf(&facts, "objects\t%s\n", hx_human_count(seen[HX_SIZE_OBJECTS], number));
    if (known && seen[HX_SIZE_EDGES])
        hx_text_putf(&facts, "references\t%s\n", hx_human_count(seen[HX_SIZE_EDGES], number));
    draw_facts(ui, layout, 2, &facts);
    hx_text_free(&facts);
}

static void draw_rows(const struct hx_ui *ui, const struct hx_pane *pane,
                      const struct layout *layout)
{
    int width[HX_COLUMNS_MAX];
    column_widths(pane, layout->columns, width);
    if (layout->heading >= 0)
        draw_heading(ui, pane, layout, width);
    if (!pane->total || pane->problem) {
        struct hx_text text = {0};
        instead_of_rows(ui, pane, &text);
        draw_wrapped(ui, layout, hx_text_str(&text),
                     pane->problem ? HX_STYLE_BAD : HX_STYLE_NORMAL);
        if (!ui->snapshot && ui->snapping && ui->options->facts && !pane->problem)
            draw_first(ui, layout);
        hx_text_free(&text);
        return;
    }
    int named = name_column(pane, width);
    int64_t first = pane->top > pane->offset ? pane->top - pane->offset : 0,
            n = (int64_t)pane->rows.n_rows - first;
    n = n < 0 ? 0 : n > layout->height ? layout->height : n;
    struct row_name *names = calloc((size_t)n + 1, sizeof *names);
    named = names ? named : HX_COLUMNS_MAX;
    if (named < HX_COLUMNS_MAX)
        fit_names(ui, pane, (size_t)first, (size_t)n, named, width[named], names);
    for (int i = 0; i < layout->height; i++) {
        int64_t row = pane->top + i, at = row - pane->offset;
        int y = layout->first + i;
        if (row >= pane->total)
            break;
        if (at >= 0 && (size_t)at < pane->rows.n_rows)
            draw_row(ui, pane, (size_t)at, y, width, row == pane->cursor, named,
                     names ? &names[at - first] : NULL);
        else
            hx_put(&ui->term, y, 0, layout->columns, row == pane->cursor ? "> ..." : "  ...", false,
                   row == pane->cursor ? HX_STYLE_CURSOR : HX_STYLE_DIM);
    }
    for (int64_t i = 0; names && i < n; i++) {
        hx_text_free(&names[i].whole);
        hx_text_free(&names[i].shown);
    }
    free(names);
}

/* "recording: 12 lost of 1,234,567 events" */
static void put_recording(const struct hx_ui *ui, int columns, struct hx_text *ret)
{
    struct hx_ui_recording recording = {0};
    struct hx_text part = {0};
    if (!ui->options->recording)
        return;
    ui->options->recording(ui->options->context, &recording);
    hx_text_puts(&part, recording.ended ? "recording ended: " : "recording: ");
    if (recording.lost) {
        hx_text_count(&part, (int64_t)recording.lost);
        hx_text_puts(&part, " LOST of ");
    }
    hx_text_count(&part, (int64_t)(recording.events + recording.lost));
    hx_text_puts(&part, recording.events + recording.lost == 1 ? " event" : " events");
    add_status_part(ret, hx_text_str(&part), columns, "  ");
    hx_text_free(&part);
}

/* Returns the column of the text cursor, -1 when nothing is being typed. */
static int draw_last_line(const struct hx_ui *ui, const struct hx_pane *pane,
                          const struct layout *layout)
{
    int y = layout->lines - 1, right = 0;
    struct hx_text text = {0};
    enum hx_style style = HX_STYLE_NORMAL;
    if (ui->prompt->active)
        return hx_prompt_draw(ui, y, layout->columns);
    if (pane->total) {
        hx_text_count(&text, pane->cursor + 1);
        hx_text_putc(&text, '/');
        hx_text_count(&text, pane->total);
        right = (int)text.n + 1;
        if (right < layout->columns / 2)
            hx_put(&ui->term, y, layout->columns - right, right, text.s, true, HX_STYLE_NORMAL);
        else
            right = 0;
        hx_text_clear(&text);
    }
    hx_text_putc(&text, ' ');
    if (ui->message.n) {
        hx_text_puts(&text, ui->message.s);
        style = ui->message_bad ? HX_STYLE_BAD : HX_STYLE_NORMAL;
    } else if (!hx_jobs_status(ui->jobs, layout->columns, ui->term.utf8, &text) &&
               hx_marks_count(pane)) {
        hx_marks_put(pane, &text);
        add_status_part(&text, "U unmarks", layout->columns - right - 2, "  ");
        add_status_part(&text, "P writes them", layout->columns - right - 2, "  ");
    } else if (text.n == 1) {
        const char *hints[] = {"? help",   "Enter open",   "w why",  "/ search",
                               "< > sort", "[ ] snapshot", "a snap", "q quit"};
        if (pane->screen->tree)
            hints[2] = "+ - unfold";
        text.n = 0;
        put_recording(ui, layout->columns - right - 2, &text);
        for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
            if (i != 6 || ui->options->take)
                add_status_part(&text, hints[i], layout->columns - right - 2, "  ");
        style = HX_STYLE_DIM;
    }
    hx_put(&ui->term, y, 0, layout->columns - right, hx_text_str(&text), false, style);
    hx_text_free(&text);
    return -1;
}

/* Lines that the title may have: the list has at least as many. */
static int title_room(int lines)
{
    return lines >= 24 ? 9 : lines >= 16 ? 6 : lines >= 8 ? 2 : lines >= 7 ? 1 : 0;
}

void hx_ui_draw(struct hx_ui *ui)
{
    struct hx_pane *pane = hx_ui_pane(ui);
    struct layout layout = {.lines = hx_term_lines(), .columns = hx_term_columns()};
    hx_term_clear();
    if (layout.lines < LINES_MIN || layout.columns < COLUMNS_MIN) {
        hx_put(&ui->term, 0, 0, layout.columns, "too small: 20x5", false, HX_STYLE_NORMAL);
        hx_term_show(-1, -1);
        return;
    }
    hx_marks_see(pane);
    if (pane->screen->lay_out)
        pane->screen->lay_out(ui, pane, layout.columns);
    int room = title_room(layout.lines);
    layout.title = title_lines(ui, pane);
    if (layout.title > room)
        layout.title = room;
    const struct hx_picture *picture = pane->screen->picture;
    int left = layout.lines - 3 - layout.title; /* header, screens, last line */
    layout.picture = picture && left > 0 ? picture->lines(ui, pane, left, layout.columns) : 0;
    layout.picture = layout.picture > left ? left : layout.picture;
    layout.heading = 2 + layout.title + layout.picture;
    layout.first = layout.heading + 1;
    layout.height = layout.lines - 1 - layout.first;
    pane->height = layout.height;
    pane->first_line = layout.first;
    pane->picture_line = 2 + layout.title;
    pane->picture_height = layout.picture;
    hx_pane_update(ui, pane);
    draw_header(ui, &layout);
    draw_screens(ui, &layout);
    draw_title(ui, pane, &layout);
    if (layout.picture)
        picture->draw(ui, pane, pane->picture_line, layout.picture, layout.columns);
    if (layout.height > 0)
        draw_rows(ui, pane, &layout);
    int x = draw_last_line(ui, pane, &layout);
    hx_term_show(x < 0 ? -1 : layout.lines - 1, x);
}

hx_error *hx_ui_save_display(struct hx_ui *ui, const char *path)
{
    hx_ui_draw(ui);
    struct hx_text text = {0};
    hx_term_text(&text);
    /* A pipe that nobody reads is an error, and no reason to wait. */
    int fd = -1;
    hx_error *error =
        text.failed ? hx_error_nomem() : hx_pin_write(path, O_CREAT | O_TRUNC | O_NONBLOCK, &fd);
    errno = 0;
    if (!error && write(fd, hx_text_str(&text), text.n) != (ssize_t)text.n)
        error = hx_error_os(errno ? errno : ENOSPC, path, "write");
    if (fd >= 0)
        close(fd);
    hx_text_free(&text);
    return error;
}
