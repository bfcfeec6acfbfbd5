/* filter_sql.c - a condition as text for SQLite.
 *
 * SQL has a third truth, NULL, for a comparison with NULL. AND and OR alone make of it
 * nothing that is true and should not be; NOT would, so what stands under it is asked
 * whether it IS NOT TRUE. */
#include "query/filter_private.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void put_sql_quoted(struct hx_text *sql, const char *s, size_t n, char quote)
{
    hx_text_putc(sql, quote);
    for (size_t i = 0; i < n; i++) {
        if (s[i] == quote)
            hx_text_putc(sql, quote);
        hx_text_putc(sql, s[i]);
    }
    hx_text_putc(sql, quote);
}

/* As whole numbers and powers of two: whatever way SQLite reads decimals, this is exact. The
 * value is finite, and not whole unless it is beyond int64. */
static void put_exact_real(struct hx_text *sql, double real)
{
    int exponent;
    int64_t mantissa = (int64_t)ldexp(frexp(real, &exponent), 53);
    exponent -= 53;
    while (mantissa % 2 == 0 && mantissa) {
        mantissa /= 2;
        exponent++;
    }
    hx_text_putf(sql, "(%" PRId64, mantissa);
    while (exponent) {
        int step = abs(exponent) > 62 ? 62 : abs(exponent);
        hx_text_putf(sql, " %c CAST(%" PRId64 " AS REAL)", exponent < 0 ? '/' : '*',
                     INT64_C(1) << step);
        exponent += exponent < 0 ? step : -step;
    }
    hx_text_putc(sql, ')');
}

static void put_constant(struct hx_text *sql, const struct hx_filter_value *value)
{
    if (value->type == HX_FILTER_STRING)
        put_sql_quoted(sql, value->text, value->n, '\'');
    else if (value->type == HX_FILTER_REAL)
        put_exact_real(sql, value->real);
    else
        hx_text_putf(sql, "%" PRId64, value->i);
}

static void put_operand(struct hx_text *sql, const hx_filter *filter,
                        const struct hx_operand *operand, bool strip)
{
    if (operand->column == HX_NO_COLUMN) {
        put_constant(sql, &operand->value);
        return;
    }
    const struct hx_filter_column *column = &filter->columns.v[operand->column];
    if (strip)
        hx_text_putc(sql, '+');
    if (column->view) {
        put_sql_quoted(sql, column->view, strlen(column->view), '"');
        hx_text_putc(sql, '.');
    }
    put_sql_quoted(sql, column->name, strlen(column->name), '"');
}

static void put_test(struct hx_text *sql, const hx_filter *filter, const struct hx_node *node)
{
    static const char *const sign[] = {
        [HX_OP_EQ] = " = ",           [HX_OP_NE] = " <> ",
        [HX_OP_LT] = " < ",           [HX_OP_LE] = " <= ",
        [HX_OP_GT] = " > ",           [HX_OP_GE] = " >= ",
        [HX_OP_IS_NULL] = " IS NULL", [HX_OP_IS_NOT_NULL] = " IS NOT NULL",
    };
    if (node->op == HX_OP_MATCH || node->op == HX_OP_NO_MATCH) {
        hx_text_puts(sql, node->op == HX_OP_MATCH ? "regexp(" : "NOT regexp(");
        put_constant(sql, &node->right.value);
        hx_text_puts(sql, ", ");
        put_operand(sql, filter, &node->left, false);
        hx_text_putc(sql, ')');
        return;
    }
    put_operand(sql, filter, &node->left, node->strip);
    hx_text_puts(sql, sign[node->op]);
    if (node->op < HX_OP_MATCH)
        put_operand(sql, filter, &node->right, node->strip);
}

/* What is yet to be written, the next on top: a node, or a text. */
struct step {
    const struct hx_node *node;
    const char *text;
};

struct steps {
    HX_VEC(struct step) stack;
    bool failed;
};

static void push_step(struct steps *steps, const struct hx_node *node, const char *text)
{
    if (!hx_vec_push(&steps->stack, (struct step){node, text}))
        steps->failed = true;
}

/* In parentheses where OR stands below AND. */
static void later_operand(struct steps *steps, const struct hx_node *node,
                          const struct hx_node *operand)
{
    bool wrap = node->kind == HX_NODE_AND && operand->kind == HX_NODE_OR;
    if (wrap)
        push_step(steps, NULL, ")");
    push_step(steps, operand, NULL);
    if (wrap)
        push_step(steps, NULL, "(");
}

static void later_parts(struct steps *steps, const struct hx_node *node)
{
    const struct hx_node *right = node - 1, *left = right - right->size;
    if (node->kind == HX_NODE_NOT) {
        push_step(steps, NULL, ") IS NOT TRUE");
        push_step(steps, right, NULL);
        push_step(steps, NULL, "(");
        return;
    }
    later_operand(steps, node, right);
    push_step(steps, NULL, node->kind == HX_NODE_AND ? " AND " : " OR ");
    later_operand(steps, node, left);
}

void hx_filter_sql(const hx_filter *filter, struct hx_text *sql)
{
    struct steps steps = {0};
    push_step(&steps, &filter->nodes.v[filter->nodes.n - 1], NULL);
    while (steps.stack.n) {
        struct step step = steps.stack.v[--steps.stack.n];
        if (step.text)
            hx_text_puts(sql, step.text);
        else if (step.node->kind == HX_NODE_TEST)
            put_test(sql, filter, step.node);
        else
            later_parts(&steps, step.node);
    }
    sql->failed |= steps.failed;
    hx_vec_free(&steps.stack);
}

void hx_filter_part_sql(const hx_filter *filter, size_t part, struct hx_text *sql)
{
    put_test(sql, filter, &filter->nodes.v[part]);
}
