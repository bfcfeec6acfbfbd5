/* print_centres.c - the views of cost-centre stacks for people: a stack by its name, not only by
 * its number, and the figures that matter, so that a row fits the width of a terminal. */
#include "store/print/print_centres.h"

#include "base/cleanup.h"
#include "model/function_name.h"
#include "store/db.h"
#include "store/print/print.h"
#include "store/store_private.h"

#include <string.h>

enum { COLUMNS = 10, WORDS_LEAST = 12, SNAPSHOT = 10 };

/* What is shown of a view, and by which name; "" is the stack in words. */
static const struct form {
    const char *view;
    size_t figures; /* columns of the screen that these mostly take */
    struct {
        const char *column, *title;
    } columns[COLUMNS];
} forms[] = {
    {"ccs",
     0,
     {{"ccs_id", "ccs_id"},
      {"parent_id", "parent_id"},
      {"depth", "depth"},
      {"label", "label"},
      {"module", "module"},
      {"source", "source"},
      {"is_caf", "is_caf"}}},
    {"costs",
     64,
     {{"snapshot", "snapshot"},
      {"ccs_id", "ccs_id"},
      {"entries", "entries"},
      {"alloc_bytes", "own_alloc"},
      {"live_bytes", "own_live"},
      {"inherited_alloc_bytes", "alloc"},
      {"inherited_live_bytes", "live"},
      {"inherited_live_objects", "objects"},
      {"", "cost_centre"}}},
    {"sites",
     46,
     {{"snapshot", "snapshot"},
      {"ccs_id", "ccs_id"},
      {"bytes", "bytes"},
      {"objects", "objects"},
      {"retained_bytes", "retained_bytes"},
      {"", "site"}}},
};

struct maker {
    hx_store *store;
    hx_rows *rows;
    size_t columns, from[COLUMNS]; /* in rows; SIZE_MAX: in words */
    size_t id;
    sqlite3_stmt *name;
    size_t room; /* for a stack in words */
    bool site, ascii;
    struct hx_text words, whole, bare, label, caller;
};

/* A label as people read it: of C++ and Rust without what makes it long. */
static void put_readable_label(struct maker *maker, const char *label, size_t n)
{
    hx_text_clear(&maker->whole);
    hx_text_putn(&maker->whole, label, n);
    hx_function_name_short(&maker->words, hx_text_str(&maker->whole));
    maker->words.failed |= maker->whole.failed;
}

/* Scopes and name of a centre, as a terminal may show them. */
static void read_label(struct maker *maker, const char *label, struct hx_text *ret)
{
    struct hx_text *whole = &maker->whole, *bare = &maker->bare;
    hx_text_clear(bare);
    hx_text_clear(ret);
    hx_function_name_short(bare, label);
    hx_text_clear(whole);
    hx_function_name_bare(whole, hx_text_str(bare), bare->n);
    hx_text_escape(ret, hx_text_str(whole), whole->n, maker->ascii);
    ret->failed |= whole->failed || bare->failed;
}

/* The first centre is there in any case, its callers as far as they fit. */
static bool put_centre(struct maker *maker, const struct hx_text *label)
{
    struct hx_text *words = &maker->words;
    const char *s = hx_text_str(label);
    if (!words->n) {
        hx_print_cut(words, s, label->n, maker->room, maker->ascii);
        return true;
    }
    size_t used = hx_print_width(words->s, words->n) + strlen(" < ");
    if (used + hx_print_width(s, label->n) > maker->room)
        return false;
    hx_text_puts(words, " < ");
    hx_text_putn(words, s, label->n);
    return true;
}

static bool is_library(const struct hx_text *label)
{
    return strncmp(hx_text_str(label), "std::", 5) == 0 ||
           strncmp(hx_text_str(label), "__gnu_cxx::", 11) == 0;
}

/* Label and parent of a stack; 0: there is none. */
static hx_error *read_stack(struct maker *maker, int64_t id, struct hx_text *ret, int64_t *parent)
{
    sqlite3_bind_int64(maker->name, 1, id);
    int code = sqlite3_step(maker->name);
    hx_text_clear(ret);
    *parent = 0;
    if (code == SQLITE_ROW) {
        *parent = sqlite3_column_int64(maker->name, 0);
        read_label(maker, (const char *)sqlite3_column_text(maker->name, 1) ?: "", ret);
    }
    sqlite3_reset(maker->name);
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        return hx_db_error(maker->store->db, code, maker->store->path);
    return NULL;
}

/* The innermost centres of a stack, the nearest first. In a site there is of calls within the C++
 * library only the one that the program made. */
static hx_error *put_innermost_centres(struct maker *maker, int64_t id)
{
    struct hx_text *label = &maker->label, *caller = &maker->caller;
    int64_t parent;
    HX_TRY(read_stack(maker, id, label, &parent));
    for (bool more = true; more;) {
        bool has_caller = parent > 1 && parent < id; /* MAIN is the caller of all */
        id = parent;
        if (has_caller)
            HX_TRY(read_stack(maker, id, caller, &parent));
        if (!has_caller || !maker->site || !is_library(label) || !is_library(caller))
            more = put_centre(maker, label);
        more &= has_caller;
        struct hx_text *other = label;
        label = caller;
        caller = other;
    }
    maker->words.failed |= maker->label.failed || maker->caller.failed;
    return NULL;
}

static hx_error *next_centre_row(void *context, struct hx_value *values, bool *ret_more)
{
    struct maker *maker = context;
    HX_TRY(hx_rows_next(maker->rows, ret_more));
    hx_text_clear(&maker->words);
    for (size_t c = 0; *ret_more && c < maker->columns; c++) {
        bool words = maker->from[c] == SIZE_MAX;
        if (!words)
            values[c] = hx_rows_value(maker->rows, maker->from[c]);
        bool label = !words && strcmp(hx_rows_name(maker->rows, maker->from[c]), "label") == 0 &&
                     values[c].type == HX_VALUE_TEXT;
        if (words)
            HX_TRY(put_innermost_centres(maker, hx_rows_value(maker->rows, maker->id).i));
        else if (label)
            put_readable_label(maker, values[c].text, values[c].text_bytes);
        if (words || label)
            values[c] = (struct hx_value){.type = HX_VALUE_TEXT,
                                          .text = hx_text_str(&maker->words),
                                          .text_bytes = maker->words.n};
    }
    return maker->words.failed ? hx_error_nomem() : NULL;
}

static const struct form *find_form(const char *view)
{
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (strcmp(forms[i].view, view) == 0)
            return &forms[i];
    return NULL;
}

bool hx_centres_is_view(const char *view)
{
    return find_form(view) != NULL;
}

static size_t column_of(const hx_rows *rows, const char *name)
{
    for (size_t c = 0; c < hx_rows_columns(rows); c++)
        if (strcmp(hx_rows_name(rows, c), name) == 0)
            return c;
    return SIZE_MAX;
}

static hx_error *print_centre_rows(struct maker *maker, const struct form *form, bool all,
                                   void *file)
{
    const char *titles[COLUMNS];
    size_t shown = SIZE_MAX; /* in words */
    for (size_t c = 0; c < COLUMNS && form->columns[c].column; c++) {
        const char *column = form->columns[c].column;
        if (!all && strcmp(column, "snapshot") == 0) /* the same in each row */
            continue;
        titles[maker->columns] = form->columns[c].title;
        if (!*column)
            shown = maker->columns;
        maker->from[maker->columns++] = column_of(maker->rows, column);
    }
    maker->id = column_of(maker->rows, "ccs_id");
    hx_rows *made = NULL;
    size_t screen = hx_print_columns(file, &maker->ascii), figures = form->figures;
    figures += all ? SNAPSHOT : 0;
    maker->room = screen > figures + WORDS_LEAST ? screen - figures : WORDS_LEAST;
    maker->site = strcmp(form->view, "sites") == 0;
    HX_TRY(hx_rows_generate(titles, maker->columns, next_centre_row, maker, &made));
    hx_error *error = hx_print_fitted(made, screen, maker->ascii, shown, file);
    hx_rows_end(made);
    return error;
}

hx_error *hx_centres_print(hx_store *store, const struct hx_query *query, void *file)
{
    HX_STATEMENT sqlite3_stmt *name = NULL;
    struct maker maker = {.store = store};
    HX_TRY(hx_db_prepare(store->db, store->path,
                         "SELECT parent_id, label FROM ccs WHERE ccs_id = ?1", &name));
    maker.name = name;
    HX_TRY(hx_query_view(store, query, &maker.rows));
    hx_error *error = print_centre_rows(&maker, find_form(query->view), query->snapshot == 0, file);
    hx_rows_end(maker.rows);
    hx_text_free(&maker.words);
    hx_text_free(&maker.whole);
    hx_text_free(&maker.bare);
    hx_text_free(&maker.label);
    hx_text_free(&maker.caller);
    return error;
}
