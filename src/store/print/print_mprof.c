/* print_mprof.c - mprof's tables for people, laid out like the paper's.
 *
 * A share is two characters: nothing for 0, "." below 1, "**" for 100, else whole percents, never
 * rounded up. Tables fit the width of the terminal, or 100 columns: names are cut in the middle
 * and paths go on in further lines, numbers are never cut. Rows are asked for twice, to find the
 * widths and to print them, so that any number of them needs the same memory. */
#include "store/print/print_mprof.h"

#include "base/cleanup.h"
#include "store/cost/mprof_private.h"
#include "store/db.h"
#include "store/store_private.h"

#include <inttypes.h>
#include <string.h>

enum { PATH_LEAST = 40, NAME_LEAST = 8 };

/* --- cells ---------------------------------------------------------------------------- */

void hx_mprof_cell(struct hx_value share, char cell[HX_MPROF_CELL])
{
    double percent = share.type == HX_VALUE_INT    ? (double)share.i
                     : share.type == HX_VALUE_REAL ? share.real
                                                   : 0;
    if (!(percent > 0))
        cell[0] = 0;
    else if (percent < 1)
        strcpy(cell, ".");
    else if (percent >= 100)
        strcpy(cell, "**");
    else
        snprintf(cell, HX_MPROF_CELL, "%d", (int)percent);
}

void hx_mprof_put_share(struct hx_text *out, struct hx_value share)
{
    char cell[HX_MPROF_CELL], full[HX_MPROF_CELL + 2] = "";
    hx_mprof_cell(share, cell);
    if (*cell)
        snprintf(full, sizeof full, "(%s)", cell);
    hx_text_putf(out, "%-4s", full);
}

void hx_mprof_put_split(struct hx_text *out, const struct hx_value *share)
{
    for (int k = 0; k < HX_SIZE_CLASSES; k++) {
        char cell[HX_MPROF_CELL];
        hx_mprof_cell(share[k], cell);
        hx_text_putf(out, k ? " %2s" : "%2s", cell);
    }
}

void hx_mprof_put_count(struct hx_text *out, size_t width, struct hx_value value)
{
    if (value.type == HX_VALUE_INT)
        hx_text_putf(out, "%*" PRId64, (int)width, value.i);
    else if (value.type == HX_VALUE_REAL) /* a sum that left the range of whole numbers */
        hx_text_putf(out, "%*.0f", (int)width, value.real);
    else
        hx_text_putf(out, "%*s", (int)width, "-");
}

void hx_mprof_put_spaces(struct hx_text *out, size_t n)
{
    hx_text_putf(out, "%*s", (int)n, "");
}

void hx_mprof_end_line(struct hx_text *out)
{
    while (out->n && out->s[out->n - 1] == ' ')
        out->s[--out->n] = 0;
    hx_text_putc(out, '\n');
}

/* --- names ---------------------------------------------------------------------------- */

/* Takes a name as it is shown into p->name; returns its width. */
static size_t take_name(struct hx_mprof_printer *p, const char *s, size_t n)
{
    hx_text_clear(&p->name);
    hx_text_escape(&p->name, s, n, p->ascii);
    p->out.failed |= p->name.failed;
    return hx_print_width(hx_text_str(&p->name), p->name.n);
}

size_t hx_mprof_put_name(struct hx_mprof_printer *p, const char *s, size_t n, size_t width)
{
    take_name(p, s, n);
    return hx_print_cut_function(&p->out, &p->name, width, p->ascii);
}

/* Where the next arrow of a path stands. Lists of template arguments may have one, too: behind
 * another bracket, and where some are open. */
static const char *next_arrow(const char *s, const char *end)
{
    int open = 0;
    const char *at = s;
    for (; end - at > 2; at++) {
        if (at[0] == ' ' && at[1] == '>' && at[2] == ' ' && at > s && (at[-1] != '>' || !open))
            return at;
        size_t symbols =
            at - s >= 8 && memcmp(at - 8, "operator", 8) == 0 ? strspn(at, "<>-=*&") : 0;
        if (symbols) {
            at += symbols - 1;
            continue;
        }
        open += *at == '<';
        open -= *at == '>' && open && at[-1] != '-';
    }
    return NULL;
}

/* "|| > f > g": what does not fit goes on in further lines that begin at `column`. */
static void put_mprof_path(struct hx_mprof_printer *p, struct hx_value path, bool cut,
                           size_t column, size_t width)
{
    static const char arrow[] = " > ";
    const char *s = path.type == HX_VALUE_TEXT ? path.text : "?";
    const char *end = s + (path.type == HX_VALUE_TEXT ? path.text_bytes : 1);
    size_t at = strlen(cut ? "..." : "||"), indent = 3;
    hx_text_puts(&p->out, cut ? "..." : "||");
    for (bool first = true; first || s < end; first = false) {
        const char *next = next_arrow(s, end);
        size_t n = (size_t)((next ? next : end) - s);
        size_t wide = take_name(p, s, n);
        if (!first && at + strlen(arrow) + wide > width) {
            hx_mprof_end_line(&p->out);
            hx_mprof_put_spaces(&p->out, column + indent);
            at = indent;
        }
        hx_text_puts(&p->out, arrow);
        at += strlen(arrow);
        size_t room = at + NAME_LEAST < width ? width - at : NAME_LEAST;
        at += hx_print_cut_function(&p->out, &p->name, room, p->ascii);
        s = next ? next + strlen(arrow) : end;
    }
    hx_mprof_end_line(&p->out);
}

/* --- leaks ---------------------------------------------------------------------------- */

enum {
    LEAK_KEPT = 1,
    LEAK_KEPT_SHARE,
    LEAK_ALLOCS,
    LEAK_BYTES,
    LEAK_BYTES_SHARE,
    LEAK_FREES,
    LEAK_FREED,
    LEAK_FREED_SHARE,
    LEAK_PATH,
    LEAK_CUT,
    HELD, /* reachable, possible and lost bytes, objects, holder and its bytes */
};

static int64_t whole(struct hx_value value)
{
    return value.type == HX_VALUE_INT && value.i > 0 ? value.i : 0;
}

static void put_part(struct hx_text *out, int64_t part, double all, const char *what, bool *first)
{
    double percent = all > 0 ? 100 * (double)part / all : 0;
    if (!part)
        return;
    hx_text_puts(out, *first ? "" : "; ");
    if (percent < 1)
        hx_text_putf(out, "< 1 %% %s", what);
    else
        hx_text_putf(out, "%d %% %s", (int)percent, what);
    *first = false;
}

/* Goes on in another line when it does not fit behind what took `used` columns. */
static void put_holder(struct hx_mprof_printer *p, struct hx_value holder, bool most, size_t used,
                       size_t column, size_t width)
{
    const char *word = most ? "mostly by `" : "the most by `";
    size_t wide = take_name(p, holder.text, holder.text_bytes), around = strlen(word) + 1;
    if (used + strlen("; ") + around + wide <= width) {
        hx_text_puts(&p->out, "; ");
    } else {
        size_t indent = strlen("held: ");
        hx_mprof_end_line(&p->out);
        hx_mprof_put_spaces(&p->out, column + indent);
        around += indent;
    }
    hx_text_puts(&p->out, word);
    hx_print_cut(&p->out, hx_text_str(&p->name), p->name.n,
                 around + NAME_LEAST < width ? width - around : NAME_LEAST, p->ascii);
    hx_text_putc(&p->out, '`');
}

/* Never freed is not lost: who still has it? */
static void put_held(struct hx_mprof_printer *p, const struct hx_rows *rows, size_t column,
                     size_t width)
{
    int64_t reachable = whole(hx_rows_value(rows, HELD));
    int64_t possible = whole(hx_rows_value(rows, HELD + 1));
    int64_t lost = whole(hx_rows_value(rows, HELD + 2));
    struct hx_value holder = hx_rows_value(rows, HELD + 4);
    double held = (double)reachable + (double)possible, all = held + (double)lost;
    bool first = true;
    if (!(all > 0))
        return;
    hx_mprof_put_spaces(&p->out, column);
    size_t begin = p->out.n;
    hx_text_puts(&p->out, "held: ");
    put_part(&p->out, reachable, all, "reachable", &first);
    put_part(&p->out, possible, all, "possibly reachable", &first);
    put_part(&p->out, lost, all, "lost", &first);
    if (holder.type == HX_VALUE_TEXT)
        put_holder(p, holder, 2 * (double)whole(hx_rows_value(rows, HELD + 5)) > held,
                   p->out.n - begin, column, width);
    hx_mprof_end_line(&p->out);
}

static void put_leak(struct hx_mprof_printer *p, const hx_rows *rows, size_t column, size_t width)
{
    put_mprof_path(p, hx_rows_value(rows, LEAK_PATH), hx_rows_value(rows, LEAK_CUT).i != 0, column,
                   width);
    put_held(p, rows, column, width);
}

/* --- sizes ---------------------------------------------------------------------------- */

enum {
    BIN_SIZE = 1,
    BIN_ALLOCS,
    BIN_BYTES,
    BIN_BYTES_SHARE,
    BIN_FREES,
    BIN_KEPT,
    BIN_KEPT_SHARE,
    BIN_TYPES
};

/* Where the next type begins; commas in brackets belong to a name. */
static const char *end_of_type(const char *s, const char *end)
{
    int open = 0;
    for (; s < end; s++) {
        open += *s == '<' || *s == '(';
        open -= (*s == '>' || *s == ')') && open;
        if (!open && *s == ',' && end - s > 1 && s[1] == ' ')
            break;
    }
    return s;
}

/* Three a line, or as many as fit. */
static void put_types(struct hx_mprof_printer *p, const hx_rows *rows, size_t column, size_t room)
{
    struct hx_value types = hx_rows_value(rows, BIN_TYPES);
    const char *s = types.text, *end = s + types.text_bytes;
    size_t on_line = 0, used = 0;
    while (types.type == HX_VALUE_TEXT && s < end) {
        const char *next = end_of_type(s, end);
        size_t wide = take_name(p, s, (size_t)(next - s)) + strlen(", ");
        if (on_line == 3 || (on_line && used + wide > room)) {
            hx_mprof_end_line(&p->out);
            hx_mprof_put_spaces(&p->out, column);
            on_line = used = 0;
        }
        hx_print_cut(&p->out, hx_text_str(&p->name), p->name.n, room - 1, p->ascii);
        hx_text_puts(&p->out, next < end ? ", " : "");
        on_line++;
        used += wide;
        s = next < end ? next + strlen(", ") : end;
    }
    hx_mprof_end_line(&p->out);
}

/* --- functions ------------------------------------------------------------------------ */

enum {
    DIRECT_SHARE = 1,
    DIRECT_BYTES,
    DIRECT_SPLIT,
    DIRECT_KEPT = DIRECT_SPLIT + HX_SIZE_CLASSES,
    DIRECT_KEPT_SPLIT,
    DIRECT_CALLS = DIRECT_KEPT_SPLIT + HX_SIZE_CLASSES,
    DIRECT_NAME
};

static void put_direct(struct hx_mprof_printer *p, const hx_rows *rows, size_t column, size_t width)
{
    (void)column;
    struct hx_value name = hx_rows_value(rows, DIRECT_NAME);
    if (name.type == HX_VALUE_TEXT)
        hx_mprof_put_name(p, name.text, name.text_bytes, width);
    hx_mprof_end_line(&p->out);
}

/* --- rows ----------------------------------------------------------------------------- */

enum kind {
    COUNT,
    LABEL, /* a text in place of a count, perhaps */
    PERCENT,
    SPLIT, /* percents by size class, which are columns */
};

static const struct table {
    const char *view, *title;
    struct figure {
        const char *title; /* NULL: no more */
        size_t column;
        enum kind kind;
        bool share; /* the next column is its share */
        bool freed; /* only where anything was freed */
    } figures[8];
    const char *last; /* title of what stands behind the figures; NULL: the view is no table */
    bool below;       /* that has a line of its own where there is no room */
    void (*put_last)(struct hx_mprof_printer *p, const hx_rows *rows, size_t column, size_t width);
} tables[] = {
    {.view = "mprof_leaks",
     .title = "Memory leaks",
     .figures = {{"kept bytes", LEAK_KEPT, .share = true},
                 {"allocs", LEAK_ALLOCS},
                 {"bytes", LEAK_BYTES, .share = true},
                 {"frees", LEAK_FREES, .freed = true},
                 {"bytes", LEAK_FREED, .share = true, .freed = true}},
     .last = "path",
     .below = true,
     .put_last = put_leak},
    {.view = "mprof_bins",
     .title = "Allocation bins",
     .figures = {{"size", BIN_SIZE, LABEL},
                 {"allocs", BIN_ALLOCS},
                 {"bytes", BIN_BYTES, .share = true},
                 {"frees", BIN_FREES},
                 {"kept", BIN_KEPT, .share = true}},
     .last = "types",
     .put_last = put_types},
    {.view = "mprof_direct",
     .title = "Direct allocation",
     .figures = {{"% mem", DIRECT_SHARE, PERCENT},
                 {"bytes", DIRECT_BYTES},
                 {"% mem(size)", DIRECT_SPLIT, SPLIT},
                 {"bytes kept", DIRECT_KEPT},
                 {"% all kept ", DIRECT_KEPT_SPLIT, SPLIT},
                 {"calls", DIRECT_CALLS}},
     .last = "name",
     .put_last = put_direct},
    {.view = "mprof_graph", .title = "Allocation call graph"},
};

static size_t figure_width(const struct hx_mprof_printer *p, const struct figure *figure)
{
    size_t least = strlen(figure->kind == LABEL ? "other bins" : figure->title);
    size_t width = figure->kind == COUNT ? p->width[figure->column] : 0;
    return width > least ? width : least;
}

static void put_figure(struct hx_mprof_printer *p, const struct figure *figure, size_t width,
                       const hx_rows *rows)
{
    struct hx_text *out = &p->out;
    struct hx_value value = hx_rows_value(rows, figure->column), split[HX_SIZE_CLASSES];
    char cell[HX_MPROF_CELL];
    if (figure->kind == PERCENT) {
        hx_mprof_cell(value, cell);
        hx_text_putf(out, "%*s", (int)width, cell);
    } else if (figure->kind == SPLIT) {
        for (size_t k = 0; k < HX_SIZE_CLASSES; k++)
            split[k] = hx_rows_value(rows, figure->column + k);
        hx_mprof_put_split(out, split);
    } else if (figure->kind == LABEL && value.type == HX_VALUE_TEXT) {
        hx_text_putf(out, "%*s", (int)width, value.text);
    } else {
        hx_mprof_put_count(out, width, value);
    }
    if (figure->share) {
        hx_text_putc(out, ' ');
        hx_mprof_put_share(out, hx_rows_value(rows, figure->column + 1));
    }
    hx_text_puts(out, "  ");
}

/* The line of titles, or with `classes` that of the size classes below it; returns its width with
 * the blank behind. */
static size_t put_titles(struct hx_mprof_printer *p, const struct table *table, bool classes)
{
    size_t total = 0;
    for (const struct figure *figure = table->figures; figure->title; figure++) {
        if (figure->freed && !p->freed)
            continue;
        size_t width = figure_width(p, figure);
        const char *below = figure->kind == SPLIT ? " s  m  l  x" : "";
        hx_text_putf(&p->out, "%*s%s  ", (int)width, classes ? below : figure->title,
                     figure->share ? classes ? "     " : " (%) " : "");
        total += width + (figure->share ? 5 : 0) + 2;
    }
    return total;
}

static hx_error *print_rows(struct hx_mprof_printer *p, const struct table *table, hx_rows *rows)
{
    size_t column = put_titles(p, table, false);
    bool below = table->below && column + PATH_LEAST > p->screen;
    hx_text_puts(&p->out, below ? "" : table->last);
    hx_mprof_end_line(&p->out);
    if (below)
        hx_text_putf(&p->out, "%*s%s\n", (int)(column = 4), "", table->last);
    if (table->put_last == put_direct) {
        put_titles(p, table, true);
        hx_mprof_end_line(&p->out);
    }
    size_t width = p->screen > column + NAME_LEAST ? p->screen - column : NAME_LEAST;
    for (;;) {
        bool more;
        HX_TRY(hx_rows_next(rows, &more));
        if (!more)
            return NULL;
        p->rows++;
        for (const struct figure *figure = table->figures; figure->title; figure++)
            if (!figure->freed || p->freed)
                put_figure(p, figure, figure_width(p, figure), rows);
        if (below) {
            hx_mprof_end_line(&p->out);
            hx_mprof_put_spaces(&p->out, column);
        }
        table->put_last(p, rows, column, width);
        HX_TRY(hx_mprof_flush(p, false));
    }
}

/* --- the whole ------------------------------------------------------------------------ */

hx_error *hx_mprof_flush(struct hx_mprof_printer *p, bool all)
{
    HX_NEED(!p->out.failed);
    return all || p->out.n > 1 << 16 ? hx_print_flush(&p->out, p->file) : NULL;
}

/* Leaks with who holds them. */
static const char held_sql[] =
    "WITH h AS MATERIALIZED (SELECT * FROM mprof_held) SELECT l.*, h.reachable_bytes,"
    " h.possible_bytes, h.lost_bytes, h.objects, h.holder, h.holder_bytes FROM mprof_leaks AS l"
    " LEFT JOIN h ON h.snapshot = l.snapshot AND h.path = l.path AND h.cut = l.cut";

static hx_error *query_mprof(struct hx_mprof_printer *p, const struct hx_query *query, bool held,
                             hx_rows **ret)
{
    if (!held || strcmp(query->view, "mprof_leaks") != 0)
        return hx_mprof_rows(p->store, query, p->level, ret);
    char sql[sizeof held_sql + 64];
    snprintf(sql, sizeof sql, "%s%s", held_sql,
             p->level == HX_MPROF_TERSE    ? " WHERE alloc_percent >= 1"
             : p->level == HX_MPROF_NORMAL ? " WHERE alloc_percent >= 0.5"
                                           : "");
    return hx_query_from(p->store, query, sql, ret);
}

static hx_error *measure_mprof_columns(struct hx_mprof_printer *p, hx_rows *rows)
{
    memset(p->width, 0, sizeof p->width);
    for (;;) {
        bool more;
        HX_TRY(hx_rows_next(rows, &more));
        if (!more)
            return NULL;
        for (size_t c = 0; c < hx_rows_columns(rows) && c < HX_MPROF_COLUMNS; c++) {
            struct hx_value value = hx_rows_value(rows, c);
            char digits[512] = "";
            if (value.type == HX_VALUE_INT)
                snprintf(digits, sizeof digits, "%" PRId64, value.i);
            if (strlen(digits) > p->width[c])
                p->width[c] = strlen(digits);
        }
    }
}

/* One snapshot, the totals of which `st` stands on. */
static hx_error *print_snapshot(struct hx_mprof_printer *p, const struct table *table,
                                struct hx_query *query, sqlite3_stmt *st)
{
    query->snapshot = sqlite3_column_int64(st, 0);
    p->freed = sqlite3_column_int64(st, 3) > 0;
    hx_text_putf(&p->out,
                 "%s of snapshot %" PRId64 "\n%" PRId64 " bytes in %" PRId64
                 " allocations, %" PRId64 " bytes not freed\n\n",
                 table->title, query->snapshot, (int64_t)sqlite3_column_int64(st, 2),
                 (int64_t)sqlite3_column_int64(st, 1), (int64_t)sqlite3_column_int64(st, 4));
    hx_rows *rows = NULL;
    HX_TRY(query_mprof(p, query, false, &rows));
    hx_error *err = measure_mprof_columns(p, rows);
    hx_rows_end(rows);
    HX_TRY(err);
    HX_TRY(query_mprof(p, query, true, &rows));
    err = table->last ? print_rows(p, table, rows) : hx_mprof_print_graph(p, rows);
    hx_rows_end(rows);
    return err;
}

static hx_error *print_all(struct hx_mprof_printer *p, const struct table *table,
                           const struct hx_query *query)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    struct hx_query one = *query;
    HX_TRY(hx_db_prepare(p->store->db, p->store->path,
                         "SELECT snapshot, allocs, bytes, frees, kept_bytes FROM hx_mprof"
                         " WHERE ?1 IN (0, snapshot)"
                         " AND snapshot IN (SELECT snapshot FROM hx_snapshot) ORDER BY snapshot",
                         &st));
    sqlite3_bind_int64(st, 1, query->snapshot);
    int code;
    for (bool first = true; (code = sqlite3_step(st)) == SQLITE_ROW; first = false) {
        if (!first)
            hx_text_puts(&p->out, "\n");
        p->rows = 0;
        HX_TRY(print_snapshot(p, table, &one, st));
        if (one.limit >= 0) /* it is one for all tables */
            one.limit = one.limit > p->rows ? one.limit - p->rows : 0;
    }
    if (code != SQLITE_DONE)
        return hx_db_error(p->store->db, code, p->store->path);
    HX_TRY(hx_mprof_flush(p, true));
    return hx_print_end(p->file);
}

hx_error *hx_mprof_print(hx_store *store, const struct hx_query *query, enum hx_mprof_level level,
                         void *file)
{
    HX_TRY(hx_mprof_test(store, query));
    const struct table *table = tables;
    while (strcmp(table->view, query->view) != 0)
        table++;
    if (!table->last && query->sort) {
        hx_rows *rows = NULL;
        HX_TRY(hx_mprof_rows(store, query, level, &rows));
        hx_error *err = hx_rows_print(rows, HX_FORMAT_TEXT, file);
        hx_rows_end(rows);
        return err;
    }
    struct hx_mprof_printer p = {.store = store, .level = level, .file = file};
    p.screen = hx_print_columns(file, &p.ascii);
    hx_error *err = print_all(&p, table, query);
    hx_text_free(&p.out);
    hx_text_free(&p.name);
    return err;
}
