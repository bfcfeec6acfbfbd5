/* diff_objects.c - two snapshots object by object: rows that are made as they are printed. */
#include "cli/diff.h"

#include "traverse/diff.h"

#include <stdio.h>
#include <string.h>

enum { ADDRESS, BYTES, TYPE, STATUS, COLUMNS };
enum { BATCH = 4096 }; /* rows to sort at least */

/* A row: an object of B (appeared, same) or of A (gone), and which of the three. */
struct ref {
    hx_obj object;
    uint8_t status; /* enum hx_diff */
};

/* The walk over both snapshots by address. With --still there is no A. */
struct walk {
    const struct hx_snapshot *a, *b;
    const struct hx_big *bits; /* of B: same, or, with --still, appeared and still there */
    bool still;
    size_t i, j; /* the next objects */
};

struct rows {
    struct walk walk;
    struct hx_diff_choice choice;
    bool sorted; /* refs are made, and come in their order; else the walk's */
    HX_VEC(struct ref) refs;
    size_t next;
    uint64_t shown, seen;
};

/* The next row by address; of two at one address first the one that is gone. */
static bool step_still(struct walk *walk, struct ref *ret)
{
    while (walk->j < walk->b->graph.n && !hx_diff_has(walk->bits, (hx_obj)walk->j))
        walk->j++;
    if (walk->j == walk->b->graph.n)
        return false;
    *ret = (struct ref){(hx_obj)walk->j++, HX_DIFF_APPEARED};
    return true;
}

static bool next_object_pair(struct walk *walk, struct ref *ret)
{
    if (walk->still)
        return step_still(walk, ret);
    const struct hx_graph *a = &walk->a->graph, *b = &walk->b->graph;
    bool left = walk->i < a->n, right = walk->j < b->n;
    if (!left && !right)
        return false;
    bool same = right && hx_diff_has(walk->bits, (hx_obj)walk->j);
    if (left && (!right || a->addr[walk->i] < b->addr[walk->j] ||
                 (a->addr[walk->i] == b->addr[walk->j] && !same))) {
        *ret = (struct ref){(hx_obj)walk->i++, HX_DIFF_GONE};
        return true;
    }
    walk->i += same; /* its other half */
    *ret = (struct ref){(hx_obj)walk->j++, same ? HX_DIFF_SAME : HX_DIFF_APPEARED};
    return true;
}

static const char *object_type_name(const struct hx_snapshot *snapshot, hx_obj object)
{
    uint32_t type = snapshot->graph.type ? snapshot->graph.type[object] : HX_NO_TYPE;
    return type < snapshot->types.n ? snapshot->types.v[type].name : NULL;
}

static struct hx_value diff_column_value(const struct walk *walk, struct ref ref, size_t column)
{
    const struct hx_snapshot *from = ref.status == HX_DIFF_GONE ? walk->a : walk->b;
    switch (column) {
    case ADDRESS:
        return hx_value_int((int64_t)from->graph.addr[ref.object]);
    case BYTES:
        return hx_value_int((int64_t)from->graph.size[ref.object]);
    case TYPE:
        return hx_value_text(object_type_name(from, ref.object));
    default:
        return hx_value_text(hx_diff_name((enum hx_diff)ref.status));
    }
}

static void make_values(const struct walk *walk, struct ref ref, struct hx_value *values)
{
    for (size_t i = 0; i < COLUMNS; i++)
        values[i] = diff_column_value(walk, ref, i);
}

/* The next row that is chosen, in the order of addresses. */
static hx_error *next_chosen(struct rows *rows, struct ref *ref, struct hx_value *values,
                             bool *ret_more)
{
    while ((*ret_more = next_object_pair(&rows->walk, ref))) {
        if (++rows->seen % 65536 == 0 && atomic_load(hx_interrupted()))
            return hx_error_cancelled("comparison");
        make_values(&rows->walk, *ref, values);
        if (hx_diff_chosen(&rows->choice, values))
            return NULL;
    }
    return NULL;
}

static hx_error *next_row(void *context, struct hx_value *values, bool *ret_more)
{
    struct rows *rows = context;
    struct ref ref;
    *ret_more = rows->shown < rows->choice.limit;
    if (!*ret_more)
        return NULL;
    rows->shown++;
    if (!rows->sorted)
        return next_chosen(rows, &ref, values, ret_more);
    *ret_more = rows->next < rows->refs.n;
    if (*ret_more)
        make_values(&rows->walk, rows->refs.v[rows->next++], values);
    return NULL;
}

static int by_column(const void *a, const void *b, void *context)
{
    const struct rows *rows = context;
    const struct walk *walk = &rows->walk;
    struct ref x = *(const struct ref *)a, y = *(const struct ref *)b;
    size_t sort = rows->choice.sort;
    int order = hx_diff_order(&rows->choice, diff_column_value(walk, x, sort),
                              diff_column_value(walk, y, sort));
    if (order)
        return order;
    uint64_t left = (uint64_t)diff_column_value(walk, x, ADDRESS).i;
    uint64_t right = (uint64_t)diff_column_value(walk, y, ADDRESS).i;
    return left != right ? (left > right) - (left < right) : x.status - y.status;
}

static void sort_refs(struct rows *rows)
{
    if (rows->refs.n)
        qsort_r(rows->refs.v, rows->refs.n, sizeof *rows->refs.v, by_column, rows);
    if (rows->refs.n > rows->choice.limit)
        rows->refs.n = rows->choice.limit;
}

/* Keeps no more than twice what is to be shown: what lies behind the last of those that were
 * sorted already is not taken. */
static hx_error *sort_rows(struct rows *rows)
{
    const uint64_t limit = rows->choice.limit;
    struct hx_value values[COLUMNS];
    struct ref ref, worst = {0};
    bool more, full = false;
    for (;;) {
        HX_TRY(next_chosen(rows, &ref, values, &more));
        if (!more)
            break;
        if (full && by_column(&ref, &worst, rows) > 0)
            continue;
        HX_NEED(hx_vec_push(&rows->refs, ref));
        if (limit && limit < UINT32_MAX && rows->refs.n >= 2 * limit + BATCH) {
            sort_refs(rows);
            worst = rows->refs.v[rows->refs.n - 1];
            full = true;
        }
    }
    sort_refs(rows);
    rows->sorted = true;
    return NULL;
}

static hx_error *print_object_diff(const struct hx_diff_call *call, struct rows *rows)
{
    if (rows->choice.sort < rows->choice.columns)
        HX_TRY(sort_rows(rows));
    hx_rows *printed;
    HX_TRY(hx_rows_generate(rows->choice.name, COLUMNS, next_row, rows, &printed));
    hx_console_clear(call->console);
    hx_error *err = hx_rows_print(printed, call->args->format, stdout);
    hx_rows_end(printed);
    return err;
}

static hx_error *compare_heap_objects(const struct hx_diff_call *call, struct rows *rows,
                                      struct hx_big *bits)
{
    HX_SNAPSHOT struct hx_snapshot *a = NULL, *b = NULL;
    HX_TRY(hx_diff_load(call, HX_SIDE_B, &b));
    if (hx_diff_is_still(call)) {
        HX_TRY(hx_diff_still(call, b, bits));
    } else {
        HX_TRY(hx_diff_load(call, HX_SIDE_A, &a));
        HX_TRY(hx_diff_objects(a, b, &call->console->progress, bits));
    }
    rows->walk = (struct walk){.a = a, .b = b, .bits = bits, .still = hx_diff_is_still(call)};
    return print_object_diff(call, rows);
}

hx_error *hx_diff_print_objects(struct hx_diff_call *call)
{
    struct rows rows = {0};
    struct hx_diff_choice *choice = &rows.choice;
    hx_diff_column(choice, "address", HX_FILTER_NUMBER);
    hx_diff_column(choice, "bytes", HX_FILTER_NUMBER);
    hx_diff_column(choice, "type", HX_FILTER_TEXT);
    hx_diff_column(choice, "status", HX_FILTER_TEXT);
    struct hx_big bits = {0};
    hx_error *err = hx_diff_choose(call->args, choice);
    if (!err)
        err = hx_diff_open(call);
    if (!err)
        err = compare_heap_objects(call, &rows, &bits);
    hx_big_free(&bits);
    hx_vec_free(&rows.refs);
    hx_diff_choice_deinit(choice);
    return err;
}
