/* diff.c - `heapx diff FILE[:N] FILE[:M] [VIEW]`: what differs between two snapshots. */
#include "cli/diff.h"

#include "cli/commands.h"
#include "cli/take/take.h"
#include "cli/words/input_file.h"
#include "cli/words/view.h"
#include "store/query/named.h"
#include "traverse/diff.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* --- values ------------------------------------------------------------------------ */

struct hx_value hx_value_int(int64_t i)
{
    return (struct hx_value){.type = HX_VALUE_INT, .i = i};
}

struct hx_value hx_value_text(const char *text)
{
    if (!text)
        return (struct hx_value){.type = HX_VALUE_NULL};
    return (struct hx_value){.type = HX_VALUE_TEXT, .text = text, .text_bytes = strlen(text)};
}

static struct hx_filter_value for_filter(struct hx_value value)
{
    switch (value.type) {
    case HX_VALUE_INT:
        return (struct hx_filter_value){.type = HX_FILTER_INT, .i = value.i};
    case HX_VALUE_REAL:
        return (struct hx_filter_value){.type = HX_FILTER_REAL, .real = value.real};
    case HX_VALUE_TEXT:
        return (struct hx_filter_value){
            .type = HX_FILTER_STRING, .text = value.text, .n = value.text_bytes};
    case HX_VALUE_NULL:
        break;
    }
    return (struct hx_filter_value){.type = HX_FILTER_NULL};
}

/* --- which rows -------------------------------------------------------------------- */

void hx_diff_column(struct hx_diff_choice *choice, const char *name, enum hx_filter_class class)
{
    size_t i = choice->columns++;
    choice->name[i] = name;
    choice->column[i] = (struct hx_filter_column){.name = name, .class = class, .id = i};
}

static hx_error *choose_order(const char *sort, struct hx_diff_choice *choice)
{
    HX_FREE char *column = NULL;
    HX_TRY(hx_sort_word(sort, &column, &choice->ascending));
    for (size_t i = 0; i < choice->columns; i++)
        if (strcmp(choice->name[i], column) == 0)
            choice->sort = i;
    if (choice->sort < choice->columns)
        return NULL;
    struct hx_text text = {0};
    for (size_t i = 0; i < choice->columns; i++)
        hx_text_putf(&text, "%s%s", i ? ", " : "columns of this view: ", choice->name[i]);
    hx_error *err = hx_error_new(HX_E_USAGE, column, hx_text_str(&text), "not a column to sort by");
    hx_text_free(&text);
    return err;
}

hx_error *hx_diff_choose(const struct hx_args *args, struct hx_diff_choice *choice)
{
    struct hx_filter_schema schema = {choice->column, choice->columns, NULL};
    choice->sort = choice->columns;
    choice->limit = hx_args_given(args, HX_OPT_LIMIT) ? args->limit : UINT64_MAX;
    if (args->sort)
        HX_TRY(choose_order(args->sort, choice));
    return args->where ? hx_where_word("--where", args->where, &schema, &choice->where) : NULL;
}

void hx_diff_choice_deinit(struct hx_diff_choice *choice)
{
    hx_filter_destroy(choice->where);
    choice->where = NULL;
}

static struct hx_filter_value diff_operand(void *context, size_t id)
{
    return for_filter(((const struct hx_value *)context)[id]);
}

bool hx_diff_chosen(const struct hx_diff_choice *choice, const struct hx_value *values)
{
    return !choice->where || hx_filter_holds(choice->where, diff_operand, (void *)values);
}

int hx_diff_order(const struct hx_diff_choice *choice, struct hx_value a, struct hx_value b)
{
    if (a.type == HX_VALUE_NULL || b.type == HX_VALUE_NULL)
        return (a.type == HX_VALUE_NULL) - (b.type == HX_VALUE_NULL);
    int order = hx_filter_order(for_filter(a), for_filter(b));
    return choice->ascending ? order : -order;
}

/* --- the snapshots ----------------------------------------------------------------- */

hx_error *hx_diff_lacks(const struct hx_diff_side *side, const char *what)
{
    return hx_error_new(HX_E_ABSENT, side->place.file, "take another view, or another snapshot",
                        "snapshot %" PRId64 " has no %s", side->number, what);
}

hx_error *hx_diff_load(const struct hx_diff_call *call, int side, struct hx_snapshot **ret)
{
    const struct hx_diff_side *from = &call->side[side];
    int64_t objects = -1;
    HX_TRY(hx_query_number(from->store, HX_QUERY_snapshot_value,
                           HX_QUERY_ARGS(.snapshot = from->number, .column = "heap_objects"),
                           &objects));
    if (objects < 0)
        return hx_diff_lacks(from, "objects");
    return hx_store_load_objects(from->store, from->number, &call->console->progress, ret);
}

hx_error *hx_diff_still(const struct hx_diff_call *call, const struct hx_snapshot *b,
                        struct hx_big *ret)
{
    const struct hx_progress *progress = &call->console->progress;
    struct hx_big before = {0}, after = {0};
    struct hx_snapshot *other = NULL;
    hx_error *err = hx_diff_load(call, HX_SIDE_A, &other);
    if (!err)
        err = hx_diff_objects(other, b, progress, &before);
    hx_snapshot_destroy(hx_steal(other)); /* one at a time beside b */
    if (!err)
        err = hx_diff_load(call, HX_SIDE_STILL, &other);
    if (!err)
        err = hx_diff_objects(other, b, progress, &after);
    hx_snapshot_destroy(other);
    if (!err) {
        uint64_t *there = after.base;
        const uint64_t *old = before.base;
        for (size_t i = 0; i < ((size_t)b->graph.n + 63) / 64; i++)
            there[i] &= ~old[i];
        *ret = after;
        after = (struct hx_big){0};
    }
    hx_big_free(&before);
    hx_big_free(&after);
    return err;
}

static hx_error *open_side(struct hx_diff_call *call, int number)
{
    struct hx_diff_side *side = &call->side[number];
    for (int i = 0; i < number && !side->store; i++)
        if (strcmp(call->side[i].place.file, side->place.file) == 0) {
            side->store = call->side[i].store;
            side->borrowed = true;
        }
    bool partial; /* `snapshots` says so */
    if (!side->store)
        HX_TRY(hx_file_open(call->args, call->console, side->place.file, &side->store, &partial));
    return hx_store_resolve(side->store, side->place.which, &side->number);
}

hx_error *hx_diff_open(struct hx_diff_call *call)
{
    for (int i = 0; i < (hx_diff_is_still(call) ? HX_SIDES : HX_SIDE_STILL); i++)
        HX_TRY(open_side(call, i));
    return NULL;
}

static void deinit_call(struct hx_diff_call *call)
{
    for (int i = 0; i < HX_SIDES; i++) {
        struct hx_diff_side *side = &call->side[i];
        if (!side->borrowed)
            hx_error_free(hx_store_close(side->store));
        hx_place_deinit(&side->place);
    }
}

/* --- the command ------------------------------------------------------------------- */

/* Is it a view that can be compared? *ret: NULL for objects. */
static hx_error *choose_view(const char *view, const struct hx_stored_census **ret)
{
    *ret = hx_census_compared(view);
    if (*ret || strcmp(view, "objects") == 0)
        return NULL;
    HX_TRY(hx_view_word(view));
    struct hx_text todo = {0};
    hx_text_puts(&todo, "those that do: ");
    hx_diff_censuses(false, &todo);
    hx_error *err =
        hx_error_new(HX_E_USAGE, view, hx_text_str(&todo), "the rows of this view do not compare");
    hx_text_free(&todo);
    return err;
}

hx_error *hx_cmd_diff(const struct hx_args *args, int *status)
{
    (void)status;
    const char *view = args->n_words > 2 ? args->word[2] : args->still ? "objects" : "retainers";
    const struct hx_stored_census *census;
    HX_TRY(choose_view(view, &census));
    HX_CONSOLE struct hx_console console;
    hx_console_init(&console);
    HX_CLEANUP(deinit_call) struct hx_diff_call call = {.args = args, .console = &console};
    HX_TRY(hx_place_parse(args->word[0], &call.side[HX_SIDE_A].place));
    HX_TRY(hx_place_parse(args->word[1], &call.side[HX_SIDE_B].place));
    if (args->still)
        HX_TRY(hx_place_parse(args->still, &call.side[HX_SIDE_STILL].place));
    return census ? hx_diff_print_census(&call, census) : hx_diff_print_objects(&call);
}
