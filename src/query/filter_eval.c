/* filter_eval.c - does a condition hold for a row? */
#include "query/filter_private.h"

#include <math.h>
#include <string.h>

static bool is_null_value(const struct hx_filter_value *value)
{
    return value->type == HX_FILTER_NULL || (value->type == HX_FILTER_REAL && isnan(value->real));
}

/* Exact, although a double does not hold every int64 and an int64 no fraction. */
static int order_int_real(int64_t i, double real)
{
    if (real < -0x1p63)
        return 1;
    if (real >= 0x1p63)
        return -1;
    int64_t whole = (int64_t)real; /* towards 0 */
    if (i != whole)
        return i < whole ? -1 : 1;
    double fraction = real - (double)whole; /* exact: there is none from 2^53 on */
    return (fraction < 0) - (fraction > 0);
}

static int order_text(struct hx_filter_value a, struct hx_filter_value b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int order = n ? memcmp(a.text, b.text, n) : 0;
    return order ? order : (a.n > b.n) - (a.n < b.n);
}

int hx_filter_order(struct hx_filter_value a, struct hx_filter_value b)
{
    if (a.type == HX_FILTER_STRING || b.type == HX_FILTER_STRING)
        return a.type == b.type ? order_text(a, b) : a.type == HX_FILTER_STRING ? 1 : -1;
    if (a.type == HX_FILTER_INT && b.type == HX_FILTER_INT)
        return (a.i > b.i) - (a.i < b.i);
    if (a.type == HX_FILTER_INT)
        return order_int_real(a.i, b.real);
    if (b.type == HX_FILTER_INT)
        return -order_int_real(b.i, a.real);
    return (a.real > b.real) - (a.real < b.real);
}

static struct hx_filter_value operand_value(const hx_filter *filter,
                                            const struct hx_operand *operand, hx_filter_get *get,
                                            void *context)
{
    if (operand->column == HX_NO_COLUMN)
        return operand->value;
    return get(context, filter->columns.v[operand->column].id);
}

static bool eval_comparison(const hx_filter *filter, const struct hx_node *node, hx_filter_get *get,
                            void *context)
{
    struct hx_filter_value left = operand_value(filter, &node->left, get, context), right;
    if (node->op == HX_OP_IS_NULL || node->op == HX_OP_IS_NOT_NULL)
        return is_null_value(&left) == (node->op == HX_OP_IS_NULL);
    if (is_null_value(&left))
        return false;
    if (node->op == HX_OP_MATCH || node->op == HX_OP_NO_MATCH)
        return hx_regexp_matches(node->regexp, left) == (node->op == HX_OP_MATCH);
    right = operand_value(filter, &node->right, get, context);
    if (is_null_value(&right))
        return false;
    int order = hx_filter_order(left, right);
    switch (node->op) {
    case HX_OP_EQ:
        return order == 0;
    case HX_OP_NE:
        return order != 0;
    case HX_OP_LT:
        return order < 0;
    case HX_OP_LE:
        return order <= 0;
    case HX_OP_GT:
        return order > 0;
    default:
        return order >= 0;
    }
}

bool hx_filter_holds(const hx_filter *filter, hx_filter_get *get, void *context)
{
    uint32_t at = 0; /* postfix: the first node is the first test */
    while (at < HX_FILTER_FAILS) {
        const struct hx_node *node = &filter->nodes.v[at];
        at = eval_comparison(filter, node, get, context) ? node->yes : node->no;
    }
    return at == HX_FILTER_HOLDS;
}

size_t hx_filter_parts(const hx_filter *filter)
{
    return filter->nodes.n;
}

struct hx_filter_part hx_filter_part(const hx_filter *filter, size_t part)
{
    const struct hx_node *node = &filter->nodes.v[part];
    struct hx_filter_part ret = {.is_test = node->kind == HX_NODE_TEST};
    if (!ret.is_test || node->left.column == HX_NO_COLUMN)
        return ret;
    ret.view = filter->columns.v[node->left.column].view;
    bool compares = node->op < HX_OP_MATCH && node->right.column != HX_NO_COLUMN;
    const char *other = compares ? filter->columns.v[node->right.column].view : ret.view;
    ret.two_views = other != ret.view && (!other || !ret.view || strcmp(other, ret.view) != 0);
    return ret;
}

bool hx_filter_holds_by(const hx_filter *filter, const bool *holds)
{
    uint32_t at = 0;
    while (at < HX_FILTER_FAILS)
        at = holds[at] ? filter->nodes.v[at].yes : filter->nodes.v[at].no;
    return at == HX_FILTER_HOLDS;
}
