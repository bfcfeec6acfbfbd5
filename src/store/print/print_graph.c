/* print_graph.c - the call graph of allocations for people: an entry for each function, with who
 * asked it above and whom it asked below its own line. */
#include "store/print/print_mprof.h"

#include "base/cleanup.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ENTRY = 1,
    LINE,
    NAME,
    NAME_ENTRY,
    TOTAL_SHARE,
    BYTES,
    BYTES_SHARE,
    SIZE,
    FRAC = SIZE + HX_SIZE_CLASSES,
    CALLED = FRAC + HX_SIZE_CLASSES,
    TOTAL,
    RECURSIVE,
    CYCLE,
    COLUMNS
};
enum { NAME_LEAST = 8, INDENT = 2 };

enum kind { SELF, ANCESTOR, DESCENDANT, MEMBER, KINDS };

struct line {
    enum kind kind;
    struct hx_value value[COLUMNS];
    size_t name; /* in names */
};

struct entry {
    HX_VEC(struct line) lines;
    struct hx_text names;
    size_t index, bytes, called, total; /* widths */
};

/* --- lines ----------------------------------------------------------------------------- */

static void put_columns(struct hx_mprof_printer *p, const struct entry *entry,
                        const struct line *line)
{
    static const char rule[] = "-----------";
    struct hx_text *out = &p->out;
    char cell[HX_MPROF_CELL], index[32] = "";
    bool self = line->kind == SELF;
    if (self)
        snprintf(index, sizeof index, "[%" PRId64 "]", line->value[ENTRY].i);
    hx_mprof_cell(line->value[TOTAL_SHARE], cell);
    hx_text_putf(out, "%-*s %4s  ", (int)entry->index, index, cell);
    if (line->value[BYTES].type == HX_VALUE_NULL) /* inside a cycle */
        hx_mprof_put_spaces(out, entry->bytes);
    else
        hx_mprof_put_count(out, entry->bytes, line->value[BYTES]);
    hx_text_putc(out, ' ');
    hx_mprof_put_share(out, line->value[BYTES_SHARE]);
    hx_text_puts(out, "  ");
    hx_mprof_put_split(out, &line->value[SIZE]);
    hx_text_puts(out, "  ");
    if (self)
        hx_text_puts(out, rule);
    else
        hx_mprof_put_split(out, &line->value[FRAC]);
    hx_text_puts(out, "  ");
}

/* "12/15", of one that calls itself "12+3". */
static void put_calls(struct hx_mprof_printer *p, const struct entry *entry,
                      const struct line *line)
{
    struct hx_value behind = line->value[TOTAL];
    char sign = '/';
    char digits[32] = "";
    if (line->value[RECURSIVE].type == HX_VALUE_INT && line->value[RECURSIVE].i > 0) {
        behind = line->value[RECURSIVE];
        sign = '+';
    }
    hx_mprof_put_count(&p->out, entry->called, line->value[CALLED]);
    if (behind.type == HX_VALUE_INT)
        snprintf(digits, sizeof digits, "%c%" PRId64, sign, behind.i);
    hx_text_putf(&p->out, "%-*s  ", (int)entry->total + 1, digits);
}

static void put_graph_name(struct hx_mprof_printer *p, const struct entry *entry,
                           const struct line *line, bool as_a_whole)
{
    char behind[96] = "";
    const char *name = hx_text_str(&entry->names) + line->name;
    bool is_cycle = line->kind == SELF && strncmp(name, "<cycle ", 7) == 0;
    size_t used = entry->index + 1 + 4 + 2 + entry->bytes + 1 + 4 + 2 + 11 + 2 + 11 + 2 +
                  entry->called + 1 + entry->total + 2;
    if (line->kind != SELF) {
        hx_mprof_put_spaces(&p->out, INDENT);
        used += INDENT;
    }
    if (line->value[NAME_ENTRY].type == HX_VALUE_INT)
        snprintf(behind, sizeof behind, " [%" PRId64 "]%s", line->value[NAME_ENTRY].i,
                 as_a_whole ? " as a whole" : "");
    if (line->value[CYCLE].type == HX_VALUE_INT && !is_cycle)
        snprintf(behind + strlen(behind), sizeof behind - strlen(behind),
                 line->kind == SELF ? " in <cycle %" PRId64 ">" : " <cycle %" PRId64 ">",
                 line->value[CYCLE].i);
    used += strlen(behind);
    hx_mprof_put_name(p, name, strlen(name),
                      p->screen > used + NAME_LEAST ? p->screen - used : NAME_LEAST);
    hx_text_puts(&p->out, behind);
    hx_mprof_end_line(&p->out);
}

static void put_graph_line(struct hx_mprof_printer *p, const struct entry *entry,
                           const struct line *line, bool as_a_whole)
{
    put_columns(p, entry, line);
    put_calls(p, entry, line);
    put_graph_name(p, entry, line, as_a_whole);
}

/* --- all callers, all called ------------------------------------------------------------ */

static double real(struct hx_value value)
{
    return value.type == HX_VALUE_REAL  ? value.real
           : value.type == HX_VALUE_INT ? (double)value.i
                                        : 0;
}

static struct hx_value percent_of(double part, double all)
{
    return (struct hx_value){.type = HX_VALUE_REAL, .real = all > 0 ? 100 * part / all : 0};
}

/* Bytes by class come back from shares, which are not rounded, to the byte. */
static void sum_graph_entry(const struct entry *entry, enum kind kind, struct line *ret)
{
    double bytes = 0, class[HX_SIZE_CLASSES] = {0};
    int64_t called = 0;
    for (size_t i = 0; i < entry->lines.n; i++) {
        const struct line *line = &entry->lines.v[i];
        if (line->kind != kind)
            continue;
        if (__builtin_add_overflow(called, line->value[CALLED].i, &called))
            called = INT64_MAX;
        bytes += real(line->value[BYTES]);
        for (int k = 0; k < HX_SIZE_CLASSES; k++)
            class[k] += round(real(line->value[BYTES]) * real(line->value[SIZE + k]) / 100);
    }
    *ret = (struct line){.kind = kind};
    ret->value[BYTES] = (struct hx_value){
        .type = HX_VALUE_INT, .i = bytes < (double)INT64_MAX ? (int64_t)bytes : INT64_MAX};
    ret->value[BYTES_SHARE] = percent_of(bytes, bytes);
    for (int k = 0; k < HX_SIZE_CLASSES; k++)
        ret->value[SIZE + k] = ret->value[FRAC + k] = percent_of(class[k], bytes);
    ret->value[CALLED] = (struct hx_value){.type = HX_VALUE_INT, .i = called};
}

static void put_all(struct hx_mprof_printer *p, const struct entry *entry, enum kind kind)
{
    struct line all;
    size_t n = 0;
    for (size_t i = 0; i < entry->lines.n; i++)
        n += entry->lines.v[i].kind == kind;
    if (n < 2)
        return;
    sum_graph_entry(entry, kind, &all);
    put_columns(p, entry, &all);
    put_calls(p, entry, &all);
    hx_mprof_put_spaces(&p->out, INDENT);
    hx_text_puts(&p->out, "all\n");
}

/* --- entries ---------------------------------------------------------------------------- */

static void put_kind(struct hx_mprof_printer *p, const struct entry *entry, enum kind kind,
                     bool as_a_whole)
{
    for (size_t i = 0; i < entry->lines.n; i++)
        if (entry->lines.v[i].kind == kind)
            put_graph_line(p, entry, &entry->lines.v[i], as_a_whole);
}

static void put_rule(struct hx_mprof_printer *p)
{
    for (size_t i = 0; i < p->screen; i++)
        hx_text_putc(&p->out, '-');
    hx_text_putc(&p->out, '\n');
}

/* A cycle comes twice: with its members, and as a function like others. */
static hx_error *put_entry(struct hx_mprof_printer *p, const struct entry *entry)
{
    bool members = false;
    for (size_t i = 0; i < entry->lines.n; i++)
        members |= entry->lines.v[i].kind == MEMBER;
    if (!entry->lines.n)
        return NULL;
    if (members) {
        put_rule(p);
        put_kind(p, entry, SELF, true);
        put_kind(p, entry, MEMBER, false);
    }
    put_rule(p);
    put_all(p, entry, ANCESTOR);
    put_kind(p, entry, ANCESTOR, false);
    put_kind(p, entry, SELF, false);
    put_kind(p, entry, DESCENDANT, false);
    put_all(p, entry, DESCENDANT);
    return hx_mprof_flush(p, false);
}

static enum kind line_kind(struct hx_value value)
{
    static const char *const words[KINDS] = {"self", "ancestor", "descendant", "member"};
    for (int kind = 0; kind < KINDS; kind++)
        if (value.type == HX_VALUE_TEXT && strcmp(value.text, words[kind]) == 0)
            return (enum kind)kind;
    return SELF;
}

static hx_error *take_line(struct entry *entry, const hx_rows *rows)
{
    struct line line = {.kind = line_kind(hx_rows_value(rows, LINE)), .name = entry->names.n};
    struct hx_value name = hx_rows_value(rows, NAME);
    for (size_t c = 0; c < COLUMNS; c++)
        line.value[c] = hx_rows_value(rows, c);
    line.value[LINE] = line.value[NAME] = (struct hx_value){0}; /* these texts will not stay */
    hx_text_puts(&entry->names, name.type == HX_VALUE_TEXT ? name.text : "?");
    hx_text_putn(&entry->names, "", 1);
    return !entry->names.failed && hx_vec_push(&entry->lines, line) ? NULL : hx_error_nomem();
}

static void put_titles(struct hx_mprof_printer *p, const struct entry *entry)
{
    hx_text_putf(&p->out, "%-*s %4s  %*s       %-11s  %s\n", (int)entry->index, "index", "self",
                 (int)entry->bytes, "self", " size-func", " frac");
    hx_text_putf(&p->out, "%-*s %4s  %*s %-4s  %-11s  %-11s  %*s%-*s  name [index]\n",
                 (int)entry->index, "", "desc", (int)entry->bytes, "bytes", "(%)", " s  m  l  x",
                 " s  m  l  x", (int)entry->called, "called", (int)entry->total + 1, "/total");
}

static hx_error *print_entries(struct hx_mprof_printer *p, hx_rows *rows, struct entry *entry)
{
    int64_t at = -1;
    for (;;) {
        bool more;
        HX_TRY(hx_rows_next(rows, &more));
        int64_t number = more ? hx_rows_value(rows, ENTRY).i : -1;
        if (!more || number != at) {
            HX_TRY(put_entry(p, entry));
            entry->lines.n = 0;
            hx_text_clear(&entry->names);
            at = number;
        }
        if (!more)
            return NULL;
        p->rows++;
        HX_TRY(take_line(entry, rows));
    }
}

static size_t larger_width(size_t a, size_t b)
{
    return a > b ? a : b;
}

hx_error *hx_mprof_print_graph(struct hx_mprof_printer *p, hx_rows *rows)
{
    struct entry entry = {
        .index = larger_width(p->width[ENTRY] + 2, 5),
        .bytes = larger_width(p->width[BYTES], 5),
        .called = larger_width(p->width[CALLED], 6),
        .total = larger_width(larger_width(p->width[TOTAL], p->width[RECURSIVE]), 5),
    };
    put_titles(p, &entry);
    hx_error *err = print_entries(p, rows, &entry);
    hx_vec_free(&entry.lines);
    hx_text_free(&entry.names);
    return err;
}
