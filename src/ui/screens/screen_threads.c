/* screen_threads.c - where each thread stood when the program was stopped. */
#include "ui/app.h"
#include "ui/list/pane.h"

static const struct hx_column columns[] = {
    {"tid", "thread", HX_AS_TEXT, 8, 0, NULL, NULL},
    {"name", NULL, HX_AS_TEXT, 15, 1, NULL, NULL},
    {"stack", "stood in", HX_AS_CALLS, -30, 0, NULL, NULL},
    {"source", NULL, HX_AS_SOURCE, -18, 2, NULL, NULL},
    {0},
};

static void threads_source(const struct hx_pane *pane, int64_t snapshot, struct hx_source *ret)
{
    (void)pane;
    ret->like = "threads";
    hx_query_put(HX_QUERY_threads, HX_QUERY_ARGS(.snapshot = snapshot), &ret->sql);
    hx_query_put(HX_QUERY_count, HX_QUERY_ARGS(.view = "threads", .snapshot = snapshot),
                 &ret->facts);
}

static void threads_title(const struct hx_ui *ui, const struct hx_pane *pane, struct hx_text *ret)
{
    (void)ui;
    hx_text_puts(ret, "Threads");
    if (pane->total) {
        hx_text_puts(ret, ": ");
        hx_text_count(ret, pane->total);
        hx_text_puts(ret, ", as they stood at the stop");
    }
}

static hx_error *open_thread_row(struct hx_ui *ui, struct hx_pane *pane, size_t row)
{
    const struct hx_table *rows = &pane->rows;
    const char *name = hx_table_text(rows, row, "name");
    int64_t id = hx_table_int(rows, row, "stack_id", 0);
    if (!id)
        return hx_error_new(HX_E_ABSENT, "this thread", NULL, "its stack is not known");
    return hx_ui_open_of(ui, &hx_screen_stack,
                         &(struct hx_of){HX_SUBSET_THREAD,
                                         *name ? name : hx_table_text(rows, row, "tid"), NULL, id});
}

static const char *const key[] = {"tid", NULL};

const struct hx_screen hx_screen_threads = {
    .name = "threads",
    .about = "where each thread stood",
    .digit = -1,
    .columns = columns,
    .key = key,
    .source = threads_source,
    .head = threads_title,
    .empty = "The stacks of the threads are not in this snapshot: heapx attach and heapx snap"
             " store them with each new one.",
    .open = open_thread_row,
};
