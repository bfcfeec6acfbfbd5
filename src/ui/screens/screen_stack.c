/* screen_stack.c - the calls that led to an allocation, the innermost first. */
#include "config.h"

#include "ui/app.h"
#include "ui/data/call_label.h"

#include "model/function_name.h"
#include "ui/list/pane.h"

#include <inttypes.h>
#include <string.h>

#define MISSING_MAX 3 /* files that are named */
#define BEFORE      "<before attach>"

static const struct hx_column columns[] = {
    {"frame", "", HX_AS_TEXT, 4, 0, NULL, NULL},
    {"label", "function", HX_AS_CALLS, -24, 0, NULL, NULL},
    {"module", NULL, HX_AS_TEXT, -12, 1, NULL, NULL},
    {"source", NULL, HX_AS_SOURCE, -16, 2, NULL, NULL},
    {"inlined", "", HX_AS_TEXT, 7, 3, NULL, NULL},
    {0},
};

/* Of a site (id), or of an object (address). */
static void stack_source(const struct hx_pane *pane, int64_t snapshot, struct hx_source *ret)
{
    const struct hx_query_args args = {
        .snapshot = snapshot, .id = pane->id, .address = pane->address, .limit = HX_CALLS_MAX};
    ret->like = "frames";
    hx_query_put(HX_QUERY_stack, &args, &ret->sql);
    hx_query_put(HX_QUERY_stack_facts, &args, &ret->facts);
}

static void put_frame(const struct hx_table *frames, size_t i, bool ascii, struct hx_text *ret)
{
    struct hx_text call = {0};
    const char *source = hx_source_file(hx_table_text(frames, i, "source"));
    const char *module = hx_table_text(frames, i, "module");
    hx_text_calls(&call, hx_table_text(frames, i, "label"));
    hx_text_escape(ret, hx_text_str(&call), call.n, ascii);
    ret->failed |= call.failed;
    hx_text_free(&call);
    if (*source || *module) {
        hx_text_puts(ret, *source ? " at " : " in ");
        hx_text_escape(ret, *source ? source : module, strlen(*source ? source : module), ascii);
    }
}

/* Does a call belong to the program, or to a library that it knows it uses? */
static bool is_application_frame(const struct hx_table *frames, size_t i)
{
    const char *source = hx_table_text(frames, i, "source");
    return *hx_table_text(frames, i, "frame") && strncmp(source, "/usr/include/", 13) != 0 &&
           !strstr(source, "/include/c++/") &&
           !hx_call_is_library(hx_table_text(frames, i, "label")) &&
           strcmp(hx_table_text(frames, i, "label"), "_start") != 0 &&
           !hx_is_runtime_module(hx_source_file(hx_table_text(frames, i, "module")));
}

/* The first frame from there on that belongs to the program; n: there is none. */
static size_t next_own(const struct hx_table *frames, size_t i)
{
    while (i < frames->n_rows && !is_application_frame(frames, i))
        i++;
    return i;
}

size_t hx_frames_put(const struct hx_table *frames, size_t most, const char *between, bool ascii,
                     struct hx_text *ret)
{
    size_t n = frames->n_rows, i = next_own(frames, 0), put = 0;
    if (!n || !*hx_table_text(frames, 0, "frame"))
        return 0;
    if (strcmp(hx_table_text(frames, 0, "label"), BEFORE) == 0) {
        hx_text_puts(ret, "somebody before the recording began");
        return n;
    }
    bool any = i == n; /* it has no call of its own */
    for (i = any ? 0 : i; i < n && put < most; i = any ? i + 1 : next_own(frames, i + 1)) {
        hx_text_puts(ret, put++ ? between : "");
        put_frame(frames, i, ascii, ret);
    }
    return put;
}

/* Of a stack that begins in libraries: where the program called them. */
static void put_own(const struct hx_table *rows, bool ascii, struct hx_text *ret)
{
    size_t first = next_own(rows, 0);
    if (!first || first == rows->n_rows)
        return;
    hx_text_puts(ret, "\nby ");
    hx_frames_put(rows, 3, " < ", ascii, ret);
}

/* "3.3M in 5,000 objects" */
static void put_stack_sum(const struct hx_table *facts, const char *what, const char *bytes,
                          const char *objects, struct hx_text *ret)
{
    char size[HX_HUMAN];
    int64_t sum = hx_table_int(facts, 0, bytes, -1), n = hx_table_int(facts, 0, objects, 0);
    if (sum < 0)
        return;
    hx_text_putf(ret, "%s%s in ", what, hx_human_bytes((uint64_t)sum, size));
    hx_text_count(ret, n);
    hx_text_puts(ret, n == 1 ? " object" : " objects");
}

/* Has the file of that frame lines at all? Its start-up code has none even then. */
static bool has_lines(const struct hx_table *rows, const char *module)
{
    for (size_t i = 0; i < rows->n_rows; i++)
        if (strcmp(hx_table_text(rows, i, "module"), module) == 0 &&
            *hx_table_text(rows, i, "source"))
            return true;
    return false;
}

static bool is_mentioned(const struct hx_table *rows, size_t row, const char *module)
{
    for (size_t i = 0; i < row; i++)
        if (strcmp(hx_table_text(rows, i, "module"), module) == 0)
            return true;
    return false;
}

/* Which files lack debug information, and where it comes from. */
static void put_missing_lines(const struct hx_table *rows, bool ascii, struct hx_text *ret)
{
    size_t n = 0;
    for (size_t i = 0; i < rows->n_rows; i++) {
        const char *module = hx_table_text(rows, i, "module");
        if (!*module || *module == '(' || is_mentioned(rows, i, module) || has_lines(rows, module))
            continue;
        if (n++ >= MISSING_MAX)
            continue;
        hx_text_puts(ret, n == 1 ? "\nno lines (-dbgsym packages or -g give them): " : ", ");
        hx_text_escape(ret, module, strlen(module), ascii);
    }
    if (n > MISSING_MAX)
        hx_text_putf(ret, " and %zu more", n - MISSING_MAX);
#ifndef HX_HAVE_DEMANGLER
    for (size_t i = 0; i < rows->n_rows; i++) {
        if (strncmp(hx_table_text(rows, i, "label"), "_Z", 2) != 0)
            continue;
        hx_text_puts(ret, "\nC++ names as they are: heapx was built without libiberty-dev");
        return;
    }
#endif
}

static void stack_title(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    if (pane->subset == HX_SUBSET_THREAD) {
        hx_text_puts(ret, "Where the thread stood: ");
        hx_pane_put_text(pane, !ui->term.utf8, ret);
    } else if (pane->id)
        hx_text_puts(ret, "Stack of an allocation site");
    else
        hx_text_putf(ret, "Stack that allocated 0x%" PRIx64, pane->address);
    if (pane->chosen)
        hx_text_putf(ret, "\n%s", pane->chosen);
    if (!pane->loaded || pane->problem)
        return;
    if (pane->subset != HX_SUBSET_THREAD) {
        put_stack_sum(&pane->facts, "\nlive: ", "bytes", "objects", ret);
        if (hx_table_int(&pane->facts, 0, "bytes", -1) >= 0)
            hx_text_puts(ret, " (o lists them)");
        put_stack_sum(&pane->facts, "\nrequested so far: ", "alloc_bytes", "alloc_objects", ret);
        put_stack_sum(&pane->facts, ", freed: ", "freed_bytes", "freed_objects", ret);
        put_own(&pane->rows, !ui->term.utf8, ret);
    }
    put_missing_lines(&pane->rows, !ui->term.utf8, ret);
}

static bool frame_row_set(const struct hx_pane *pane, size_t row, struct hx_of *ret)
{
    (void)row;
    int64_t id = hx_table_int(&pane->facts, 0, "stack_id", 0);
    *ret = (struct hx_of){HX_SUBSET_SITE, hx_table_text(&pane->facts, 0, "label"), NULL, id};
    return id != 0;
}

static const char *const key[] = {"frame", NULL};

const struct hx_screen hx_screen_stack = {
    .name = "stack",
    .about = "the calls that led to an allocation",
    .digit = -1,
    .by_argument = true,
    .columns = columns,
    .key = key,
    .source = stack_source,
    .head = stack_title,
    .empty = "Who allocated it was not recorded; heapx run and heapx record do it.",
    .of = frame_row_set,
};
