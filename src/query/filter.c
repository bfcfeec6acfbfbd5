/* filter.c - parses a condition: an operator-precedence parser with a stack of its own, which
 * leaves nodes in postfix order and then links the tests, so that evaluation is a walk from
 * test to test and needs neither a stack nor a look at and, or, not. */
#include "query/filter.h"

#include "query/filter_private.h"
#include "sym/demangle.h"

#include <string.h>

/* SQLite's parser has a stack of 100 entries. A condition that would fill more of it than this
 * is refused here, where the error can say so. */
#define MAX_STACKED 72

/* Entries that a single test takes at most: 'x' (N / CAST(M AS REAL)), regexp(P, +V.C). */
#define TEST_STACKED 12

/* SQLite's limit for the depth of an expression is 1000; long chains are deep. */
#define MAX_NOTS 100

struct pending {
    enum { PENDING_OPEN, PENDING_OR, PENDING_AND, PENDING_NOT } what; /* binds tighter upwards */
    size_t at, n;
};

struct parser {
    struct hx_lexer lexer;
    struct hx_token token; /* the one to look at */
    hx_filter *filter;
    HX_VEC(struct pending) stack;
    size_t parentheses, comparisons, nots, regexps;
    size_t texts; /* bytes of filter->texts in use */
    struct hx_resolver resolver;
};

#define error_at(parser, token, todo, ...)                                                         \
    hx_lexer_error(&(parser)->lexer, (token)->at, (token)->n, todo, __VA_ARGS__)

static hx_error *advance_token(struct parser *parser)
{
    return hx_lexer_next(&parser->lexer, &parser->token);
}

/* The token's words for a message: its length for %.*s, and its bytes. */
static int shown(const struct hx_token *token)
{
    return token->n > 60 ? 60 : (int)token->n;
}

static const char *words(const struct parser *parser, const struct hx_token *token)
{
    return parser->lexer.text + token->at;
}

/* --- nodes ------------------------------------------------------------------------- */

static const struct hx_node *node_at(const struct parser *parser, size_t back)
{
    return &parser->filter->nodes.v[parser->filter->nodes.n - back];
}

static uint16_t larger_depth(unsigned a, unsigned b)
{
    return (uint16_t)(a > b ? a : b);
}

/* Keeps count of what SQLite's parser stacks for the text that hx_filter_sql() will write: `all`
 * for the whole node, `first` up to the end of the first member of a chain. A member that is
 * not the first one stands on "expr OR"; parentheses are one entry more. */
static void stack_binary(struct hx_node *node, const struct hx_node *left,
                         const struct hx_node *right)
{
    bool wrap_left = left->kind == HX_NODE_OR && node->kind == HX_NODE_AND;
    bool wrap_right = right->kind == HX_NODE_OR && node->kind == HX_NODE_AND;
    node->first = left->kind == node->kind ? left->first : left->all + wrap_left;
    node->all = left->all + wrap_left;
    if (right->kind == node->kind)
        node->all = larger_depth(node->all, larger_depth(right->all, right->first + 2));
    else
        node->all = larger_depth(node->all, right->all + 2U + wrap_right);
}

/* Replaces the operands on top of the nodes by the node of a pending operator. */
static hx_error *reduce(struct parser *parser, struct pending pending)
{
    struct hx_filter *filter = parser->filter;
    struct hx_node *top = &filter->nodes.v[filter->nodes.n - 1];
    struct hx_node node = {.size = top->size + 1};
    if (pending.what == PENDING_NOT) {
        if (top->kind == HX_NODE_TEST && top->op >= HX_OP_IS_NULL) {
            top->op = top->op == HX_OP_IS_NULL ? HX_OP_IS_NOT_NULL : HX_OP_IS_NULL;
            return NULL;
        }
        if (top->kind == HX_NODE_NOT) {
            filter->nodes.n--;
            return NULL;
        }
        if (++parser->nots > MAX_NOTS)
            return hx_lexer_error(&parser->lexer, pending.at, pending.n, "write a shorter one",
                                  "more than %d not in one condition", MAX_NOTS);
        node.kind = HX_NODE_NOT;
        node.first = node.all = top->all + 1;
    } else {
        const struct hx_node *left = node_at(parser, 1 + top->size);
        node.kind = pending.what == PENDING_AND ? HX_NODE_AND : HX_NODE_OR;
        node.size += left->size;
        stack_binary(&node, left, top);
    }
    if (node.all > MAX_STACKED)
        return hx_lexer_error(&parser->lexer, pending.at, pending.n, "write a flatter condition",
                              "the condition is nested too deeply");
    return hx_vec_push(&filter->nodes, node) ? NULL : hx_error_nomem();
}

/* Reduces what binds at least as tightly as `what`. */
static hx_error *reduce_to(struct parser *parser, unsigned what)
{
    while (parser->stack.n && parser->stack.v[parser->stack.n - 1].what >= what)
        HX_TRY(reduce(parser, parser->stack.v[--parser->stack.n]));
    return NULL;
}

static hx_error *push_pending_operator(struct parser *parser, unsigned what)
{
    struct pending pending = {.what = what, .at = parser->token.at, .n = parser->token.n};
    return hx_vec_push(&parser->stack, pending) ? NULL : hx_error_nomem();
}

/* --- operands ---------------------------------------------------------------------- */

/* Keeps bytes for a constant. There is room: see hx_filter_parse(). `quote`, when not 0, is
 * written twice where it means itself. */
static struct hx_filter_value keep_constant(struct parser *parser, const char *s, size_t n,
                                            char quote)
{
    char *out = parser->filter->texts + parser->texts;
    struct hx_filter_value value = {.type = HX_FILTER_STRING, .text = out};
    for (size_t i = 0; i < n; i++) {
        out[value.n++] = s[i];
        i += quote && s[i] == quote;
    }
    out[value.n] = 0;
    parser->texts += value.n + 1;
    return value;
}

static hx_error *parse_operand(struct parser *parser, struct hx_token *ret_token,
                               struct hx_operand *ret)
{
    static const char todo[] = "give a column, a number, or a text in quotes";
    const struct hx_token token = parser->token;
    const char *text = words(parser, &token);
    struct hx_operand operand = {.column = HX_NO_COLUMN};
    if (token.kind == HX_TOKEN_NAME)
        HX_TRY(hx_filter_resolve(&parser->resolver, &token, &operand.column));
    else if (token.kind == HX_TOKEN_NUMBER)
        operand.value = token.value;
    else if (token.kind == HX_TOKEN_TEXT)
        operand.value = keep_constant(parser, text + 1, token.n - 2, *text);
    else if (token.kind == HX_TOKEN_END)
        return error_at(parser, &token, todo, "the condition ends too early");
    else
        return error_at(parser, &token, todo, "\"%.*s\" where a value should stand", shown(&token),
                        text);
    *ret_token = token;
    *ret = operand;
    return advance_token(parser);
}

static enum hx_filter_class operand_class(const struct parser *parser,
                                          const struct hx_operand *operand)
{
    if (operand->column != HX_NO_COLUMN)
        return parser->filter->columns.v[operand->column].class;
    return operand->value.type == HX_FILTER_STRING ? HX_FILTER_TEXT : HX_FILTER_NUMBER;
}

/* Makes a constant fit the class of the column that it is compared with. */
static hx_error *fit_constant(struct parser *parser, struct hx_operand *constant,
                              const struct hx_token *token, enum hx_filter_class class,
                              const struct hx_token *column)
{
    size_t bad;
    if (class == HX_FILTER_TEXT) {
        constant->value = keep_constant(parser, words(parser, token), token->n, 0);
        return NULL;
    }
    struct hx_filter_value text = constant->value;
    switch (hx_filter_number(text.text, text.n, &constant->value, &bad)) {
    case HX_NUMBER_OK:
        return NULL;
    case HX_NUMBER_NOMEM:
        return hx_error_nomem();
    default:
        return error_at(parser, token, "compare it with a number", "%.*s is a number, %.*s is none",
                        shown(column), words(parser, column), shown(token), words(parser, token));
    }
}

/* --- tests ------------------------------------------------------------------------- */

static hx_error *add_test(struct parser *parser, struct hx_node node)
{
    node.kind = HX_NODE_TEST;
    node.size = 1;
    node.first = node.all = TEST_STACKED;
    return hx_vec_push(&parser->filter->nodes, node) ? NULL : hx_error_nomem();
}

/* A mangled name as programs write it, or NULL. */
static hx_error *written_name(struct parser *parser, const struct hx_filter_value *value,
                              struct hx_filter_value *ret)
{
    HX_CLEANUP(hx_text_free) struct hx_text full = {0}, name = {0};
    hx_demangle_names(&full, value->text, value->n);
    hx_put_untagged(&name, hx_text_str(&full));
    *ret = (struct hx_filter_value){.type = HX_FILTER_NULL};
    HX_NEED(!full.failed && !name.failed);
    if (strcmp(hx_text_str(&name), value->text) == 0)
        return NULL;
    HX_NEED(hx_vec_push(&parser->filter->names, name.s));
    *ret = (struct hx_filter_value){.type = HX_FILTER_STRING, .text = name.s, .n = name.n};
    name = (struct hx_text){0};
    return NULL;
}

/* Has a test to do with a name that a linker knows? */
static bool has_mangled(const struct hx_node *node)
{
    bool match = node->op == HX_OP_MATCH || node->op == HX_OP_NO_MATCH;
    if (node->left.column == HX_NO_COLUMN || node->right.column != HX_NO_COLUMN ||
        node->right.value.type != HX_FILTER_STRING)
        return false;
    return match ? strstr(node->right.value.text, "_Z") || strstr(node->right.value.text, "_R")
                 : node->op <= HX_OP_NE && hx_is_mangled(node->right.value.text);
}

/* Behind a test beside a linker's name: the same of the view's symbols, or of what programs call
 * it. One of the two has to hold, or with != and !~ not the second one. */
static hx_error *add_symbol_test(struct parser *parser, const struct hx_token *token,
                                 struct hx_node node)
{
    struct pending pending = {.what = PENDING_OR, .at = token->at, .n = token->n};
    bool match = node.op == HX_OP_MATCH || node.op == HX_OP_NO_MATCH;
    bool negative = node.op == HX_OP_NE || node.op == HX_OP_NO_MATCH;
    uint32_t symbol;
    const struct hx_filter_value mangled = node.right.value;
    HX_TRY(hx_filter_symbol(&parser->resolver, node.left.column, &symbol));
    if (symbol == node.left.column || (symbol == HX_NO_COLUMN && match))
        return NULL;
    if (symbol != HX_NO_COLUMN)
        node.left.column = symbol;
    else
        HX_TRY(written_name(parser, &mangled, &node.right.value));
    if (node.right.value.type == HX_FILTER_NULL)
        return NULL;
    node.regexp = NULL;
    if (match)
        HX_TRY(hx_regexp_create(node.right.value.text, &node.regexp));
    node.op = match ? HX_OP_MATCH : HX_OP_EQ;
    hx_error *err = add_test(parser, node);
    if (err) {
        hx_regexp_destroy(node.regexp);
        return err;
    }
    if (negative) {
        pending.what = PENDING_NOT;
        HX_TRY(reduce(parser, pending));
        pending.what = PENDING_AND;
    }
    return reduce(parser, pending);
}

/* Behind "is". */
static hx_error *parse_null(struct parser *parser, const struct hx_token *token,
                            struct hx_operand operand)
{
    struct hx_node node = {.op = HX_OP_IS_NULL, .left = operand};
    HX_TRY(advance_token(parser));
    if (parser->token.kind == HX_TOKEN_NOT) {
        node.op = HX_OP_IS_NOT_NULL;
        HX_TRY(advance_token(parser));
    }
    if (parser->token.kind != HX_TOKEN_NULL)
        return error_at(parser, &parser->token, "write: is null, or: is not null",
                        "null is missing behind is");
    if (operand.column == HX_NO_COLUMN)
        return error_at(parser, token, "name a column", "only a column can be null");
    HX_TRY(add_test(parser, node));
    return advance_token(parser);
}

/* Behind ~ or !~. */
static hx_error *parse_match(struct parser *parser, enum hx_filter_op op,
                             const struct hx_token *token, struct hx_operand operand)
{
    struct hx_node node = {.op = op, .left = operand};
    if (operand.column == HX_NO_COLUMN)
        return error_at(parser, token, "put the column on the left side",
                        "only a column is matched with an expression");
    if (parser->token.kind != HX_TOKEN_TEXT)
        return error_at(parser, &parser->token, "write it in quotes",
                        "a regular expression is missing");
    if (++parser->regexps > HX_FILTER_MAX_REGEXPS)
        return error_at(parser, &parser->token, "join some by |",
                        "more than %d regular expressions", HX_FILTER_MAX_REGEXPS);
    struct hx_token pattern;
    HX_TRY(parse_operand(parser, &pattern, &node.right));
    hx_error *err = hx_regexp_create(node.right.value.text, &node.regexp);
    if (err && err->kind == HX_E_USAGE) {
        hx_error *inner = err;
        err = error_at(parser, &pattern, inner->todo, "%s", inner->why);
        hx_error_free(inner);
    }
    if (!err)
        err = add_test(parser, node);
    if (err && node.regexp)
        hx_regexp_destroy(node.regexp);
    return err || !has_mangled(&node) ? err : add_symbol_test(parser, &pattern, node);
}

static enum hx_filter_op turned(enum hx_filter_op op)
{
    static const enum hx_filter_op other[] = {
        [HX_OP_EQ] = HX_OP_EQ, [HX_OP_NE] = HX_OP_NE, [HX_OP_LT] = HX_OP_GT,
        [HX_OP_LE] = HX_OP_GE, [HX_OP_GT] = HX_OP_LT, [HX_OP_GE] = HX_OP_LE};
    return other[op];
}

/* Behind = and its like: settles what the two sides are to each other. */
static hx_error *parse_order(struct parser *parser, enum hx_filter_op op,
                             const struct hx_token *left_token, struct hx_operand left)
{
    struct hx_node node = {.op = op, .left = left};
    struct hx_token right_token, *tokens[2] = {(struct hx_token *)left_token, &right_token};
    parser->resolver.right_side = true;
    HX_TRY(parse_operand(parser, &right_token, &node.right));
    parser->resolver.right_side = false;
    if (left.column == HX_NO_COLUMN && node.right.column != HX_NO_COLUMN) {
        node.left = node.right;
        node.right = left;
        node.op = turned(op);
        tokens[0] = &right_token;
        tokens[1] = (struct hx_token *)left_token;
    }
    enum hx_filter_class a = operand_class(parser, &node.left),
                         b = operand_class(parser, &node.right);
    bool two = node.right.column != HX_NO_COLUMN, none = node.left.column == HX_NO_COLUMN;
    node.strip = two || a == HX_FILTER_ANY;
    if (a != b && a != HX_FILTER_ANY && b != HX_FILTER_ANY) {
        if (two || none)
            return error_at(parser, tokens[1], "compare what is of one kind",
                            "%.*s is a %s, %.*s is a %s", shown(tokens[0]),
                            words(parser, tokens[0]), a == HX_FILTER_TEXT ? "text" : "number",
                            shown(tokens[1]), words(parser, tokens[1]),
                            b == HX_FILTER_TEXT ? "text" : "number");
        HX_TRY(fit_constant(parser, &node.right, tokens[1], a, tokens[0]));
    }
    HX_TRY(add_test(parser, node));
    return has_mangled(&node) ? add_symbol_test(parser, tokens[1], node) : NULL;
}

static hx_error *parse_test(struct parser *parser)
{
    struct hx_token token;
    struct hx_operand operand;
    HX_TRY(parse_operand(parser, &token, &operand));
    if (++parser->comparisons > HX_FILTER_MAX_COMPARISONS)
        return error_at(parser, &token, "write a shorter one", "more than %d comparisons",
                        HX_FILTER_MAX_COMPARISONS);
    if (parser->token.kind == HX_TOKEN_IS)
        return parse_null(parser, &token, operand);
    if (parser->token.kind != HX_TOKEN_OP)
        return error_at(
            parser, &parser->token, "the operators are = != < <= > >= ~ !~, is null, is not null",
            "a comparison is missing behind %.*s", shown(&token), words(parser, &token));
    enum hx_filter_op op = parser->token.op;
    HX_TRY(advance_token(parser));
    if (op == HX_OP_MATCH || op == HX_OP_NO_MATCH)
        return parse_match(parser, op, &token, operand);
    return parse_order(parser, op, &token, operand);
}

/* --- the whole --------------------------------------------------------------------- */

/* Up to and with one test: not, (, and the test. */
static hx_error *parse_front(struct parser *parser)
{
    for (;;) {
        struct pending *top = parser->stack.n ? &parser->stack.v[parser->stack.n - 1] : NULL;
        if (parser->token.kind == HX_TOKEN_NOT) {
            if (top && top->what == PENDING_NOT)
                parser->stack.n--; /* not not */
            else
                HX_TRY(push_pending_operator(parser, PENDING_NOT));
        } else if (parser->token.kind == HX_TOKEN_OPEN) {
            if (++parser->parentheses > HX_FILTER_MAX_PARENTHESES)
                return error_at(parser, &parser->token, "write a flatter condition",
                                "more than %d open parentheses", HX_FILTER_MAX_PARENTHESES);
            HX_TRY(push_pending_operator(parser, PENDING_OPEN));
        } else {
            return parse_test(parser);
        }
        HX_TRY(advance_token(parser));
    }
}

/* What follows a test: ), then `and`, `or` or the end. */
static hx_error *parse_back(struct parser *parser, bool *ret_more)
{
    while (parser->token.kind == HX_TOKEN_CLOSE) {
        HX_TRY(reduce_to(parser, PENDING_OR));
        if (!parser->stack.n)
            return error_at(parser, &parser->token, "take it away, or open one before it",
                            "a ) that closes nothing");
        parser->stack.n--;
        parser->parentheses--;
        HX_TRY(advance_token(parser));
    }
    enum hx_token_kind kind = parser->token.kind;
    *ret_more = kind != HX_TOKEN_END;
    if (kind == HX_TOKEN_END) {
        HX_TRY(reduce_to(parser, PENDING_OR));
        if (!parser->stack.n)
            return NULL;
        struct pending open = parser->stack.v[parser->stack.n - 1];
        return hx_lexer_error(&parser->lexer, open.at, open.n, "write the missing )",
                              "a ( that is never closed");
    }
    if (kind != HX_TOKEN_AND && kind != HX_TOKEN_OR)
        return error_at(parser, &parser->token, "join conditions by and, or",
                        "\"%.*s\" behind a complete condition", shown(&parser->token),
                        words(parser, &parser->token));
    unsigned what = kind == HX_TOKEN_AND ? PENDING_AND : PENDING_OR;
    HX_TRY(reduce_to(parser, what));
    HX_TRY(push_pending_operator(parser, what));
    return advance_token(parser);
}

/* Tells every test which one comes next. Nodes come before their operands here, so that the
 * way on from an operand is known when it is met. */
static void link_tests(hx_filter *filter)
{
    struct hx_node *nodes = filter->nodes.v;
    nodes[filter->nodes.n - 1].yes = HX_FILTER_HOLDS;
    nodes[filter->nodes.n - 1].no = HX_FILTER_FAILS;
    for (size_t i = filter->nodes.n - 1; i > 0; i--) {
        struct hx_node *node = &nodes[i], *right = &nodes[i - 1];
        if (node->kind == HX_NODE_TEST)
            continue;
        right->yes = node->kind == HX_NODE_NOT ? node->no : node->yes;
        right->no = node->kind == HX_NODE_NOT ? node->yes : node->no;
        if (node->kind == HX_NODE_NOT)
            continue;
        struct hx_node *left = right - right->size;
        uint32_t right_begins = (uint32_t)(i - right->size);
        left->yes = node->kind == HX_NODE_AND ? right_begins : node->yes;
        left->no = node->kind == HX_NODE_AND ? node->no : right_begins;
    }
}

static hx_error *parse_filter(struct parser *parser)
{
    bool more = true;
    HX_TRY(advance_token(parser));
    if (parser->token.kind == HX_TOKEN_END)
        return error_at(parser, &parser->token, "give one like: bytes > 1K",
                        "there is no condition");
    while (more) {
        HX_TRY(parse_front(parser));
        HX_TRY(parse_back(parser, &more));
    }
    link_tests(parser->filter);
    return NULL;
}

hx_error *hx_filter_parse(const char *text, const struct hx_filter_schema *schema,
                          struct hx_filter_position *ret_place, hx_filter **ret)
{
    struct hx_filter_position unused;
    struct parser parser = {.lexer = {.text = text, .place = ret_place ? ret_place : &unused}};
    size_t n = strnlen(text, HX_FILTER_MAX_BYTES + 1);
    if (n > HX_FILTER_MAX_BYTES)
        return hx_lexer_error(&parser.lexer, HX_FILTER_MAX_BYTES, 0, "write a shorter one",
                              "the condition is too long");
    HX_FILTER hx_filter *filter = calloc(1, sizeof *filter);
    HX_NEED(filter);
    /* Each word of n bytes is kept at most once as a text of n + 1 bytes. */
    filter->source = strdup(text);
    filter->texts = malloc(2 * n + 1);
    HX_NEED(filter->source && filter->texts);
    parser.filter = filter;
    parser.resolver =
        (struct hx_resolver){.filter = filter, .lexer = &parser.lexer, .schema = schema};
    hx_error *err = parse_filter(&parser);
    hx_vec_free(&parser.stack);
    if (err)
        return err;
    *ret = hx_steal(filter);
    return NULL;
}

void hx_filter_destroy(hx_filter *filter)
{
    if (!filter)
        return;
    for (size_t i = 0; i < filter->nodes.n; i++)
        hx_regexp_destroy(filter->nodes.v[i].regexp);
    for (size_t i = 0; i < filter->columns.n; i++) {
        free((char *)filter->columns.v[i].view);
        free((char *)filter->columns.v[i].name);
    }
    for (size_t i = 0; i < filter->names.n; i++)
        free(filter->names.v[i]);
    hx_vec_free(&filter->names);
    hx_vec_free(&filter->nodes);
    hx_vec_free(&filter->columns);
    free(filter->texts);
    free(filter->source);
    free(filter);
}

const char *hx_filter_source(const hx_filter *filter)
{
    return filter->source;
}

size_t hx_filter_columns(const hx_filter *filter, const struct hx_filter_column **ret)
{
    *ret = filter->columns.v;
    return filter->columns.n;
}
