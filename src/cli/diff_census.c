/* diff_census.c - two snapshots by the rows of a census: what is asked for of
 * store/difference.h, and printed. */
#include "cli/diff.h"

#include "base/lower_bound.h"
#include "cli/take/take.h"
#include "store/difference.h"
#include "store/query/named.h"
#include "traverse/diff.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void put_names(const struct hx_stored_census *table, bool still, struct hx_text *text)
{
    for (; table->name; table++)
        if (still ? table->objects_are && table->across.sql : table->across.sql != NULL)
            hx_text_putf(text, "%s, ", hx_census_word(table));
}

void hx_diff_censuses(bool still, struct hx_text *text)
{
    put_names(hx_stored_censuses, still, text);
    put_names(hx_compared_views, still, text);
    hx_text_puts(text, "objects");
}

/* --- both sides --- */

/* A census without rows is one of an empty heap, or none was made. */
static hx_error *check_rows(const struct hx_diff_side *side, const struct hx_stored_census *census)
{
    bool made;
    HX_TRY(hx_difference_made(side->store, census, side->number, &made));
    return made ? NULL : hx_diff_lacks(side, hx_census_word(census));
}

static hx_error *revise(const struct hx_diff_call *call, int side,
                        const struct hx_stored_census *census)
{
    char number[24];
    snprintf(number, sizeof number, "%" PRId64, call->side[side].number);
    return hx_revise(call->args, call->console, call->side[side].store, number, census->needs);
}

static hx_error *read_side(const struct hx_diff_call *call, int side,
                           const struct hx_difference *difference)
{
    const struct hx_diff_side *from = &call->side[side];
    uint64_t rows;
    HX_TRY(revise(call, side, difference->census));
    hx_interrupts_end_queries(from->store);
    hx_error *err = hx_difference_add(difference, side, from->store, from->number, &rows);
    hx_interrupts_end_queries(NULL);
    if (!err && !rows)
        err = check_rows(from, difference->census);
    return err;
}

static hx_error *put_scheme(const struct hx_diff_side *side, struct hx_text *ret)
{
    HX_TRY(hx_query_string(side->store, HX_QUERY_snapshot_value,
                           HX_QUERY_ARGS(.snapshot = side->number, .column = "scheme"), ret));
    HX_NEED(!ret->failed);
    return NULL;
}

/* What else decides who is in a set, as options say it. */
static hx_error *put_rule(const struct hx_diff_side *side, struct hx_text *ret)
{
    HX_ROWS hx_rows *rows = NULL;
    bool more;
    HX_TRY(hx_query_named(side->store, HX_QUERY_census_options,
                          HX_QUERY_ARGS(.snapshot = side->number), &rows));
    HX_TRY(hx_rows_next(rows, &more));
    if (!more || hx_rows_value(rows, 3).type != HX_VALUE_TEXT)
        return NULL;
    hx_text_putf(ret, "--threads-as %s --max-set %" PRId64 " --holders %s",
                 hx_rows_value(rows, 3).text, hx_rows_value(rows, 1).i,
                 hx_rows_value(rows, 4).i ? "on" : "off");
    return ret->failed ? hx_error_nomem() : NULL;
}

/* Sets by two rules have little to do with each other: that is said. */
static hx_error *compare_schemes(const struct hx_diff_call *call)
{
    const struct hx_diff_side *a = &call->side[HX_SIDE_A], *b = &call->side[HX_SIDE_B];
    HX_CLEANUP(hx_text_free) struct hx_text of_a = {0}, of_b = {0}, by_a = {0}, by_b = {0};
    HX_TRY(put_scheme(a, &of_a));
    HX_TRY(put_scheme(b, &of_b));
    HX_TRY(put_rule(a, &by_a));
    HX_TRY(put_rule(b, &by_b));
    hx_console_clear(call->console);
    if (strcmp(hx_text_str(&of_a), hx_text_str(&of_b)) != 0)
        hx_say(call->console, "retainers",
               "snapshot %" PRId64 " has those of scheme %s, snapshot %" PRId64 " of scheme %s",
               a->number, hx_text_str(&of_a), b->number, hx_text_str(&of_b));
    else if (by_a.n && by_b.n && strcmp(by_a.s, by_b.s) != 0)
        hx_say(call->console, "retainers",
               "snapshot %" PRId64 " has those of %s, snapshot %" PRId64 " of %s", a->number,
               by_a.s, b->number, by_b.s);
    return NULL;
}

/* --- objects that are still there --- */

/* The objects of B, and the bits that choose among them. */
struct choosing {
    const struct hx_graph *graph;
    struct hx_big bits;
};

static bool is_chosen(void *context, uint64_t address)
{
    const struct choosing *choosing = context;
    const struct hx_graph *graph = choosing->graph;
    size_t at = HX_LOWER_BOUND(graph->n, i, graph->addr[i] < address);
    return at < graph->n && graph->addr[at] == address && hx_diff_has(&choosing->bits, (hx_obj)at);
}

static hx_error *read_still(const struct hx_diff_call *call, const struct hx_difference *difference)
{
    const struct hx_diff_side *b = &call->side[HX_SIDE_B];
    HX_SNAPSHOT struct hx_snapshot *objects = NULL;
    HX_TRY(revise(call, HX_SIDE_B, difference->census));
    HX_TRY(hx_diff_load(call, HX_SIDE_B, &objects));
    struct choosing choosing = {.graph = &objects->graph};
    HX_TRY(hx_diff_still(call, objects, &choosing.bits));
    hx_interrupts_end_queries(b->store);
    hx_error *err = hx_difference_add_objects(difference, HX_DIFFERENCE_B, b->store, b->number,
                                              is_chosen, &choosing);
    hx_interrupts_end_queries(NULL);
    hx_big_free(&choosing.bits);
    return err;
}

static hx_error *check_still(const struct hx_stored_census *census)
{
    if (census->objects_are)
        return NULL;
    HX_CLEANUP(hx_text_free) struct hx_text todo = {0};
    hx_text_puts(&todo, "views that can: ");
    hx_diff_censuses(true, &todo);
    return hx_error_new(HX_E_USAGE, "--still", hx_text_str(&todo),
                        "%s does not say which objects it counts", hx_census_word(census));
}

/* --- rows --- */

static void name_columns(const struct hx_stored_census *census, struct hx_diff_choice *choice)
{
    static const char *const figures[] = {"bytes_a",   "bytes_b",   "bytes_delta",
                                          "objects_a", "objects_b", "objects_delta"};
    for (size_t i = 0; census->across.name[i]; i++) {
        const char *name = census->across.name[i];
        bool number = strcmp(name, "address") == 0 || (census->numbered && !i);
        hx_diff_column(choice, name, number ? HX_FILTER_NUMBER : HX_FILTER_TEXT);
    }
    hx_diff_column(choice, "status", HX_FILTER_TEXT);
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        hx_diff_column(choice, figures[i], HX_FILTER_NUMBER);
}

static hx_error *query_chosen(const struct hx_difference *difference,
                              const struct hx_diff_choice *choice, hx_rows **ret)
{
    HX_CLEANUP(hx_text_free) struct hx_text columns = {0}, where = {0};
    for (size_t i = 0; i < choice->columns; i++)
        hx_text_putf(&columns, "%s%s", i ? ", " : "", choice->name[i]);
    if (choice->where)
        hx_filter_sql(choice->where, &where);
    HX_NEED(!columns.failed && !where.failed);
    const struct hx_selection selection = {
        .columns = columns.s,
        .where = where.s,
        .sort = choice->sort < choice->columns ? choice->name[choice->sort] : HX_DIFFERENCE_SORT,
        .ascending = choice->ascending,
        .limit = choice->limit < INT64_MAX ? (int64_t)choice->limit : INT64_MAX,
    };
    return hx_difference_rows(difference, &selection, ret);
}

static hx_error *print_rows(const struct hx_diff_call *call, const struct hx_difference *difference,
                            const struct hx_diff_choice *choice)
{
    hx_rows *rows;
    HX_TRY(query_chosen(difference, choice, &rows));
    hx_console_clear(call->console);
    hx_interrupts_end_queries(difference->store);
    hx_error *err = hx_rows_print(rows, call->args->format, stdout);
    hx_interrupts_end_queries(NULL);
    hx_rows_end(rows);
    return err;
}

static hx_error *compare(struct hx_diff_call *call, const struct hx_stored_census *census,
                         const struct hx_diff_choice *choice)
{
    HX_TRY(hx_diff_open(call));
    const struct hx_difference difference = {census, call->side[HX_SIDE_B].store,
                                             call->side[HX_SIDE_A].store !=
                                                 call->side[HX_SIDE_B].store};
    HX_TRY(hx_difference_begin(&difference));
    if (hx_diff_is_still(call)) {
        HX_TRY(read_still(call, &difference));
        return print_rows(call, &difference, choice);
    }
    for (int side = HX_SIDE_A; side <= HX_SIDE_B; side++)
        HX_TRY(read_side(call, side, &difference));
    if (census->alike == HX_ALIKE_SCHEME)
        HX_TRY(compare_schemes(call));
    for (int side = HX_SIDE_A; side <= HX_SIDE_B && census->largest_only; side++)
        HX_TRY(hx_difference_add_missing(&difference, side, call->side[side].store,
                                         call->side[side].number));
    return print_rows(call, &difference, choice);
}

hx_error *hx_diff_print_census(struct hx_diff_call *call, const struct hx_stored_census *census)
{
    HX_DIFF_CHOICE struct hx_diff_choice choice = {0};
    if (hx_diff_is_still(call))
        HX_TRY(check_still(census));
    name_columns(census, &choice);
    HX_TRY(hx_diff_choose(call->args, &choice));
    return compare(call, census, &choice);
}
