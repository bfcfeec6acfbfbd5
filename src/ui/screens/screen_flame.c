/* screen_flame.c - the tree of cost-centre stacks as a flame graph: a line for each level, from the
 * top down, and a block for each stack, as wide as its part of the bytes.
 *
 * Rows are the blocks in the order of the tree, so that whatever works on a row of the tree works
 * on a block. Where the levels leave room they are listed below the picture. Zooming into a block
 * opens a pane of its own.
 */
#include "ui/app.h"
#include "ui/data/call_label.h"
#include "ui/data/flame_load.h"
#include "ui/list/matcher.h"
#include "ui/list/pane.h"

#include <inttypes.h>
#include <string.h>

#define LIST_MIN  4 /* lines of a list that is worth its heading */
#define LABEL_MIN 4 /* cells of a block that has room for a name */

/* --- the figures ----------------------------------------------------------------- */

static void put_amount(const struct hx_flame_figure *figure, int64_t amount, struct hx_text *ret)
{
    char size[HX_HUMAN];
    uint64_t n = amount < 0 ? 0 - (uint64_t)amount : (uint64_t)amount;
    if (amount < 0)
        hx_text_putc(ret, '-');
    hx_text_puts(ret, figure->bytes ? hx_human_bytes(n, size) : hx_human_count(n, size));
}

/* A figure of a row; what was not recorded is not 0. */
static void put_value(const struct hx_pane *pane, size_t row, const char *column,
                      struct hx_text *ret)
{
    const struct hx_cell *cell = hx_table_at(&pane->rows, row, column);
    if (cell->type == HX_VALUE_INT)
        put_amount(hx_flame_figure(pane), cell->i, ret);
    else
        hx_text_putc(ret, '-');
}

static void put_flame_percent(double part, double whole, struct hx_text *ret)
{
    if (whole > 0)
        hx_text_putf(ret, "%.1f%%", 100 * part / whole);
    else
        hx_text_putc(ret, '-');
}

/* What a pane has to draw; NULL: nothing. */
static struct hx_flame *flame_of(const struct hx_pane *pane)
{
    struct hx_flame *flame = pane->data;
    bool there = flame && flame->n && flame->n == pane->rows.n_rows && !pane->problem;
    return there ? flame : NULL;
}

static void lay_out_blocks(struct hx_flame *flame)
{
    int columns = hx_flame_columns();
    if (flame->laid == columns)
        return;
    hx_flame_lay(flame->node, flame->n, columns, flame->block);
    flame->laid = columns;
}

/* Which blocks the search matches: they look like rows of the list to it. */
static void find_matches(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_flame *flame)
{
    struct hx_matcher *matcher = NULL;
    if (!ui->pattern || (flame->pattern && strcmp(flame->pattern, ui->pattern) == 0))
        return;
    free(flame->pattern);
    flame->pattern = strdup(ui->pattern);
    hx_error *error = hx_matcher_create(ui->pattern, &matcher);
    for (size_t i = 0; i < flame->n; i++) {
        struct hx_text text = {0};
        if (!error)
            hx_column_row(pane->columns, &pane->rows, i, &pane->facts, !ui->term.utf8, &text);
        flame->match[i] = !error && hx_matcher_matches(matcher, hx_text_str(&text));
        hx_text_free(&text);
    }
    hx_error_free(error); /* whoever searches is told */
    hx_matcher_destroy(matcher);
}

/* What all matches have together: of those that lie below each other the highest counts. */
static uint64_t sum_matches(const struct hx_flame *flame)
{
    uint64_t sum = 0;
    int below = -1; /* the line of a match that this is below of */
    for (size_t i = 0; i < flame->n; i++) {
        const struct hx_flame_block *block = &flame->block[i];
        if (below >= 0 && block->line > below)
            continue;
        below = flame->match[i] ? block->line : -1;
        sum += flame->match[i] ? block->to - block->from : 0;
    }
    return sum;
}

/* --- the picture ------------------------------------------------------------------- */

static int info_lines(int lines, int columns)
{
    return lines < 5 ? 0 : lines < 8 ? 1 : columns < 70 && lines > 9 ? 3 : 2;
}

static int flame_picture_lines(const struct hx_ui *ui, const struct hx_pane *pane, int lines,
                               int columns)
{
    (void)ui;
    struct hx_flame *flame = flame_of(pane);
    if (!flame || lines < 1)
        return 0;
    lay_out_blocks(flame);
    flame->info = info_lines(lines, columns);
    int wanted = hx_flame_lines(flame->block, flame->n) + flame->info;
    return lines - wanted >= LIST_MIN ? wanted : lines;
}

static enum hx_style style_of(const struct hx_pane *pane, const struct hx_flame *flame, size_t i)
{
    static const unsigned char bands[] = {1, 6, 2, 0, 4};
    int64_t grown = hx_table_int(&pane->rows, i, "grown", 0);
    if ((int64_t)i == pane->cursor)
        return HX_STYLE_CURSOR;
    if (flame->match[i])
        return HX_STYLE_FILL + 3;
    if (pane->other)
        return grown > 0 ? HX_STYLE_FILL_BAD : grown < 0 ? HX_STYLE_FILL : HX_STYLE_NORMAL;
    return HX_STYLE_FILL +
           bands[hx_flame_colour(hx_table_text(&pane->rows, i, "label"), sizeof bands)];
}

/* "|serve", and "|+12.0K serve" with differences. */
static void put_block(const struct hx_ui *ui, const struct hx_pane *pane,
                      const struct hx_flame *flame, size_t i, struct hx_text *ret)
{
    int width = flame->block[i].width;
    hx_text_puts(ret, ui->term.utf8 ? "\u2502" : "|");
    if (width < LABEL_MIN)
        return;
    hx_text_puts(ret, flame->match[i] ? "*" : "");
    struct hx_text name = {0}, grown = {0};
    hx_node_name(&pane->rows, i, !ui->term.utf8, &name);
    int64_t more = hx_table_int(&pane->rows, i, "grown", 0);
    if (pane->other && more) {
        hx_text_puts(&grown, more > 0 ? "+" : "");
        put_amount(hx_flame_figure(pane), more, &grown);
        bool fits = hx_text_width(hx_text_str(&name)) + (int)grown.n + 2 <= width;
        hx_text_putn(ret, hx_text_str(&grown), fits ? grown.n : 1);
        hx_text_puts(ret, fits ? " " : "");
    }
    hx_text_middle(&ui->term, width - hx_text_width(hx_text_str(ret)), &name);
    hx_text_puts(ret, hx_text_str(&name));
    for (int used = hx_text_width(hx_text_str(ret)); used < width && !ui->term.color; used++)
        hx_text_puts(ret,
                     ui->term.utf8 ? "\u2500" : "_"); /* there its end is told by nothing else */
    ret->failed |= name.failed || grown.failed;
    hx_text_free(&name);
    hx_text_free(&grown);
}

/* What is too narrow for a block: dots, and how much it is. */
static void draw_rest(const struct hx_ui *ui, const struct hx_pane *pane,
                      const struct hx_flame_block *block, int y)
{
    struct hx_text text = {0}, amount = {0};
    const char *dot = ui->term.utf8 ? "\u00b7" : ".";
    hx_text_puts(&text, dot);
    put_amount(hx_flame_figure(pane), (int64_t)block->rest, &amount);
    if ((int)amount.n + 2 <= block->rest_width)
        hx_text_puts(&text, hx_text_str(&amount));
    for (int used = hx_text_width(hx_text_str(&text)); used < block->rest_width; used++)
        hx_text_puts(&text, dot);
    hx_put(&ui->term, y, 1 + block->rest_x, block->rest_width, hx_text_str(&text), false,
           HX_STYLE_DIM);
    hx_text_free(&text);
    hx_text_free(&amount);
}

static void draw_blocks(struct hx_ui *ui, struct hx_pane *pane, struct hx_flame *flame, int y,
                        int height)
{
    size_t cursor = pane->cursor < pane->total ? (size_t)pane->cursor : 0;
    int lines = hx_flame_lines(flame->block, flame->n);
    flame->first = hx_flame_first(flame->block[cursor].line, lines, height, flame->first);
    for (size_t i = 0; i < flame->n; i++) {
        const struct hx_flame_block *block = &flame->block[i];
        int at = block->line - flame->first;
        if (at >= 0 && at < height && block->width > 0) {
            struct hx_text text = {0};
            put_block(ui, pane, flame, i, &text);
            hx_put(&ui->term, y + at, 1 + block->x, block->width, hx_text_str(&text), false,
                   style_of(pane, flame, i));
            hx_text_free(&text);
        }
        if (at + 1 >= 0 && at + 1 < height && block->rest_width > 0)
            draw_rest(ui, pane, block, y + at + 1);
    }
    const char *up = ui->term.utf8 ? "\u25b4" : "^", *down = ui->term.utf8 ? "\u25be" : "v";
    if (flame->first > 0)
        hx_put(&ui->term, y, 0, 1, up, false, HX_STYLE_DIM);
    if (flame->first + height < lines)
        hx_put(&ui->term, y + height - 1, 0, 1, down, false, HX_STYLE_DIM);
}

/* --- what is known of the block under the cursor ----------------------------------- */

/* Parts of a sentence, in lines that they fit into. */
struct lines {
    const struct hx_ui *ui;
    int y, left, columns; /* the line, how many there are from it on */
    struct hx_text line;
};

static void end_line(struct lines *lines, enum hx_style style)
{
    if (lines->line.n && lines->left > 0) {
        hx_put(&lines->ui->term, lines->y, 1, lines->columns - 1, hx_text_str(&lines->line), false,
               style);
        lines->y++;
        lines->left--;
    }
    hx_text_clear(&lines->line);
}

/* Takes the part. */
static void add_line_part(struct lines *lines, const char *between, struct hx_text *part)
{
    int width = hx_text_width(hx_text_str(&lines->line)) + hx_text_width(hx_text_str(part)) + 2;
    if (lines->line.n && width > lines->columns - 1)
        end_line(lines, HX_STYLE_NORMAL);
    hx_text_puts(&lines->line, lines->line.n ? between : "");
    hx_text_puts(&lines->line, hx_text_str(part));
    hx_text_free(part);
}

/* The block that this one lies in. */
static bool find_parent(const struct hx_flame *flame, size_t i, size_t *ret)
{
    *ret = flame->node[i].parent;
    return i > 0;
}

static void add_frame_name(struct lines *lines, const struct hx_pane *pane, size_t i)
{
    bool ascii = !lines->ui->term.utf8;
    const char *source = hx_source_file(hx_table_text(&pane->rows, i, "source"));
    const char *module = hx_table_text(&pane->rows, i, "module");
    const char *kind = hx_table_text(&pane->rows, i, "kind");
    struct hx_text part = {0};
    hx_node_name(&pane->rows, i, ascii, &part);
    if (*source) {
        hx_text_puts(&part, " at ");
        hx_text_escape(&part, source, strlen(source), ascii);
    }
    if (strcmp(kind, "caf") == 0) {
        hx_text_puts(&part, ": what the module's initialisers do");
    } else if (*module && strcmp(kind, "builtin") != 0) {
        hx_text_puts(&part, " (");
        hx_text_escape(&part, module, strlen(module), ascii);
        hx_text_putc(&part, ')');
    }
    add_line_part(lines, "", &part);
}

static void add_shares(struct lines *lines, const struct hx_pane *pane,
                       const struct hx_flame *flame, size_t i)
{
    const struct hx_flame_figure *figure = hx_flame_figure(pane);
    double value = (double)flame->node[i].value;
    struct hx_text part = {0};
    size_t parent;
    put_value(pane, i, figure->column, &part);
    hx_text_putf(&part, " %s, ", figure->what);
    put_flame_percent(value, (double)hx_table_int(&pane->facts, 0, "whole", 0), &part);
    hx_text_puts(&part, " of all");
    add_line_part(lines, "  ", &part);
    if (find_parent(flame, i, &parent)) {
        put_flame_percent(value, (double)flame->node[parent].value, &part);
        hx_text_puts(&part, " of its caller");
        add_line_part(lines, ", ", &part);
    }
    if (pane->other) {
        int64_t grown = hx_table_int(&pane->rows, i, "grown", 0);
        hx_text_puts(&part, grown > 0 ? "+" : "");
        put_amount(figure, grown, &part);
        hx_text_putf(&part, " since snapshot %" PRId64, pane->other);
        add_line_part(lines, ", ", &part);
    }
    hx_text_puts(&part, "own ");
    put_value(pane, i, figure->own, &part);
    add_line_part(lines, ", ", &part);
    if (flame->block[i].rest) {
        put_amount(figure, (int64_t)flame->block[i].rest, &part);
        hx_text_puts(&part, pane->filter ? " not shown" : " too narrow to show");
        add_line_part(lines, ", ", &part);
    }
}

/* The other figures. */
static void add_others(struct lines *lines, const struct hx_pane *pane, size_t i)
{
    for (size_t k = 0; k < HX_FLAME_FIGURES; k++) {
        const struct hx_flame_figure *figure = &hx_flame_figures[k];
        const struct hx_cell *cell = hx_table_at(&pane->rows, i, figure->column);
        struct hx_text part = {0};
        if (figure == hx_flame_figure(pane) || cell->type != HX_VALUE_INT)
            continue;
        put_amount(figure, cell->i, &part);
        hx_text_putf(&part, " %s", figure->brief);
        add_line_part(lines, ", ", &part);
    }
}

static void draw_info(const struct hx_ui *ui, const struct hx_pane *pane,
                      const struct hx_flame *flame, int y, int height, int columns)
{
    struct lines lines = {.ui = ui, .y = y, .left = height, .columns = columns};
    size_t row;
    if (!hx_pane_row(pane, &row))
        return;
    add_frame_name(&lines, pane, row);
    if (height > 1)
        end_line(&lines, HX_STYLE_TITLE);
    add_shares(&lines, pane, flame, row);
    add_others(&lines, pane, row);
    end_line(&lines, HX_STYLE_NORMAL);
    hx_text_free(&lines.line);
}

static void draw_flame(struct hx_ui *ui, struct hx_pane *pane, int y, int height, int columns)
{
    struct hx_flame *flame = flame_of(pane);
    if (!flame)
        return;
    lay_out_blocks(flame);
    find_matches(ui, pane, flame);
    int blocks = height - flame->info;
    draw_blocks(ui, pane, flame, y, blocks);
    draw_info(ui, pane, flame, y + blocks, flame->info, columns);
}

/* --- keys -------------------------------------------------------------------------- */

/* Opens what is below a block over the whole width, in the same order, of what the filter shows. */
static hx_error *zoom(struct hx_ui *ui, const struct hx_pane *pane, size_t row)
{
    struct hx_pane *made;
    HX_TRY(hx_pane_create(ui, &hx_screen_flame, &made));
    made->id = hx_table_int(&pane->rows, row, "ccs_id", 0);
    made->sort = pane->sort;
    made->ascending = pane->ascending;
    made->other = pane->other;
    made->columns = pane->columns;
    hx_error *error = hx_pane_set_text(made, hx_table_text(&pane->rows, row, "label"));
    bool ok = !pane->filter || ((made->filter = strdup(pane->filter)) &&
                                (made->condition = strdup(pane->condition)) &&
                                (made->tree = calloc(1, sizeof *made->tree)));
    if (ok && made->tree && pane->tree) {
        made->tree->marks = hx_tree_marks_ref(pane->tree->marks);
        made->tree->marks_of = pane->tree->marks_of;
    }
    if (error || !ok) {
        hx_pane_destroy(made);
        return error ? error : hx_error_nomem();
    }
    return hx_ui_push(ui, made);
}

/* What has nothing below, and the block that is as wide as all, is looked at itself. */
static hx_error *open_flame_block_row(struct hx_ui *ui, struct hx_pane *pane, size_t row)
{
    if (row && strcmp(hx_table_text(&pane->rows, row, "below"), HX_TREE_NONE) != 0)
        return zoom(ui, pane, row);
    return hx_ui_open_of(ui, &hx_screen_centre,
                         &(struct hx_of){HX_SUBSET_CCS, hx_table_text(&pane->rows, row, "label"),
                                         NULL, hx_table_int(&pane->rows, row, "ccs_id", 0)});
}

static hx_error *click_flame(struct hx_ui *ui, struct hx_pane *pane, int y, int x, bool twice)
{
    struct hx_flame *flame = flame_of(pane);
    size_t row;
    if (!flame || y >= pane->picture_height - flame->info ||
        !hx_flame_at(flame->block, flame->n, y + flame->first, x - 1, &row))
        return NULL;
    if (twice && (int64_t)row == pane->cursor)
        return open_flame_block_row(ui, pane, row);
    hx_pane_go(pane, (int64_t)row);
    return NULL;
}

/* The tree with the cursor on the same node. Where one was zoomed into, the panes that this was
 * done from say what it hangs on. */
static hx_error *show_view(struct hx_ui *ui, const struct hx_pane *pane)
{
    (void)pane;
    struct hx_tree_path path = {0};
    hx_error *error = NULL;
    for (size_t at = ui->at + 1; at-- > 0 && !error;) {
        const struct hx_pane *from = ui->open.v[at];
        size_t row;
        if (from->screen != &hx_screen_flame)
            break;
        if (flame_of(from) && hx_pane_row(from, &row))
            error = hx_tree_path_add(from, row, &path);
    }
    if (!error)
        error = hx_tree_show(ui, &hx_screen_centres, &path);
    hx_vec_free(&path.id);
    return error;
}

static bool flame_block_row_set(const struct hx_pane *pane, size_t row, struct hx_of *ret)
{
    *ret = (struct hx_of){HX_SUBSET_BELOW, hx_table_text(&pane->rows, row, "label"), NULL,
                          hx_table_int(&pane->rows, row, "ccs_id", 0)};
    return true;
}

/* --- the title --------------------------------------------------------------------- */

/* "called by serve < main" */
static void put_callers(const struct hx_pane *pane, bool ascii, struct hx_text *ret)
{
    for (size_t i = 1; i < pane->facts.n_rows; i++) {
        struct hx_text call = {0};
        hx_text_calls(&call, hx_table_text(&pane->facts, i, "caller"));
        hx_text_puts(ret, i > 1 ? " < " : "\ncalled by ");
        hx_text_escape(ret, hx_text_str(&call), call.n, ascii);
        ret->failed |= call.failed;
        hx_text_free(&call);
    }
}

static void put_search(const struct hx_flame *flame, const struct hx_flame_figure *figure,
                       struct hx_text *ret)
{
    uint64_t sum = flame->pattern ? sum_matches(flame) : 0;
    if (!sum)
        return;
    hx_text_puts(ret, ", matches ");
    put_amount(figure, (int64_t)sum, ret);
    hx_text_puts(ret, " (");
    put_flame_percent((double)sum, (double)flame->node[0].value, ret);
    hx_text_putc(ret, ')');
}

static void flame_title(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    bool ascii = !ui->term.utf8;
    const struct hx_flame_figure *figure = hx_flame_figure(pane);
    struct hx_flame *flame = flame_of(pane);
    hx_text_putf(ret, "Flame of %s", figure->what);
    if (!flame)
        return;
    lay_out_blocks(flame);
    find_matches(ui, pane, flame);
    hx_text_puts(ret, ": ");
    if (pane->id) {
        hx_node_name(&pane->rows, 0, ascii, ret);
        hx_text_puts(ret, ", ");
    }
    put_value(pane, 0, figure->column, ret);
    if (pane->id) {
        hx_text_puts(ret, ", ");
        put_flame_percent((double)flame->node[0].value,
                          (double)hx_table_int(&pane->facts, 0, "whole", 0), ret);
        hx_text_puts(ret, " of all");
    }
    put_search(flame, figure, ret);
    put_callers(pane, ascii, ret);
    if (pane->other)
        hx_text_putf(ret,
                     "\n+ grown, - shrunk since snapshot %" PRId64 " (d: the figures themselves)",
                     pane->other);
    if (hx_table_int(&pane->facts, 0, "upper_bounds", 0))
        hx_text_puts(ret, "\nevents were lost, frees among them: see :screen losses");
}

static const struct hx_picture picture = {flame_picture_lines, draw_flame, click_flame};

/* Names and lines have no title: blocks are ordered by figures. */
static const struct hx_column columns[] = {
    {"inherited_live_bytes", "live", HX_AS_BYTES, 8, 0, NULL, NULL},
    {"inherited_alloc_bytes", "alloc", HX_AS_BYTES, 8, 2, NULL, NULL},
    {"inherited_live_objects", "objects", HX_AS_COUNT, 9, 3, NULL, NULL},
    {"inherited_alloc_objects", "allocs", HX_AS_COUNT, 9, 5, NULL, NULL},
    {"label", "", HX_AS_TREE, -23, 0, NULL, NULL},
    {"source", "", HX_AS_SOURCE, -18, 4, NULL, NULL},
    {0},
};
static const struct hx_column differences[] = {
    {"inherited_live_bytes", "live", HX_AS_BYTES, 8, 0, NULL, NULL},
    {"grown", NULL, HX_AS_CHANGE, 8, 0, NULL, NULL},
    {"inherited_alloc_bytes", "alloc", HX_AS_BYTES, 8, 2, NULL, NULL},
    {"inherited_live_objects", "objects", HX_AS_COUNT, 9, 3, NULL, NULL},
    {"inherited_alloc_objects", "allocs", HX_AS_COUNT, 9, 5, NULL, NULL},
    {"label", "", HX_AS_TREE, -23, 0, NULL, NULL},
    {"source", "", HX_AS_SOURCE, -18, 4, NULL, NULL},
    {0},
};
/* The same where widths are numbers of objects. */
static const struct hx_column differences_in_objects[] = {
    {"inherited_live_bytes", "live", HX_AS_BYTES, 8, 5, NULL, NULL},
    {"inherited_alloc_bytes", "alloc", HX_AS_BYTES, 8, 4, NULL, NULL},
    {"inherited_live_objects", "objects", HX_AS_COUNT, 9, 1, NULL, NULL},
    {"inherited_alloc_objects", "allocs", HX_AS_COUNT, 9, 2, NULL, NULL},
    {"grown", NULL, HX_AS_COUNT_CHANGE, 9, 0, NULL, NULL},
    {"label", "", HX_AS_TREE, -23, 0, NULL, NULL},
    {"source", "", HX_AS_SOURCE, -18, 3, NULL, NULL},
    {0},
};

/* Before each drawing: another width has other blocks. */
static void lay_out_flame(const struct hx_ui *ui, struct hx_pane *pane, int width)
{
    (void)ui, (void)width;
    const struct hx_flame *flame = flame_of(pane);
    if (flame && flame->columns != hx_flame_columns() && !pane->loading)
        pane->stale = true;
    if (pane->other)
        pane->columns = hx_flame_figure(pane)->bytes ? differences : differences_in_objects;
}

static const char *const key[] = {"ccs_id", NULL};

const struct hx_screen hx_screen_flame = {
    .name = "flame",
    .about = "the tree of cost centres as a flame graph",
    .digit = -1,
    .stored = true,
    .columns = columns,
    .key = key,
    .sort = "inherited_live_bytes",
    .differences = differences,
    .differences_sort = "inherited_live_bytes",
    .picture = &picture,
    .lay_out = lay_out_flame,
    .view = &hx_screen_centres,
    .show_view = show_view,
    .fill = hx_flame_fill,
    .head = flame_title,
    .empty = HX_UI_NOT_RECORDED,
    .open = open_flame_block_row,
    .of = flame_block_row_set,
};
