/* filter_private.h - the parsed condition, and the words of the language: what the parts of the
 * filter share. */
#ifndef HX_QUERY_FILTER_PRIVATE_H
#define HX_QUERY_FILTER_PRIVATE_H

#include "base/vec.h"
#include "query/filter.h"
#include "query/regexp.h"

/* --- words ------------------------------------------------------------------------- */

enum hx_token_kind {
    HX_TOKEN_END,
    HX_TOKEN_NAME,   /* column or view.column */
    HX_TOKEN_NUMBER, /* value */
    HX_TOKEN_TEXT,   /* at and n include the quotes */
    HX_TOKEN_OP,     /* op */
    HX_TOKEN_OPEN,
    HX_TOKEN_CLOSE,
    HX_TOKEN_AND,
    HX_TOKEN_OR,
    HX_TOKEN_NOT,
    HX_TOKEN_IS,
    HX_TOKEN_NULL,
};

enum hx_filter_op {
    HX_OP_EQ,
    HX_OP_NE,
    HX_OP_LT,
    HX_OP_LE,
    HX_OP_GT,
    HX_OP_GE,
    HX_OP_MATCH,
    HX_OP_NO_MATCH,
    HX_OP_IS_NULL,
    HX_OP_IS_NOT_NULL,
};

struct hx_token {
    enum hx_token_kind kind;
    enum hx_filter_op op;
    size_t at, n; /* its bytes in the text */
    struct hx_filter_value value;
};

/* Reads words one after another. */
struct hx_lexer {
    const char *text;
    size_t at;
    struct hx_filter_position *place; /* of the last error */
};

hx_error *hx_lexer_next(struct hx_lexer *lexer, struct hx_token *ret);

/* Reads text[0..n) as one number; *ret_bad is where a wrong unit begins. */
enum hx_number { HX_NUMBER_OK, HX_NUMBER_NOMEM, HX_NUMBER_NONE, HX_NUMBER_UNIT, HX_NUMBER_HUGE };
enum hx_number hx_filter_number(const char *text, size_t n, struct hx_filter_value *ret,
                                size_t *ret_bad);

/* An error about text[at..at+n); todo may be NULL. */
hx_error *hx_lexer_error(const struct hx_lexer *lexer, size_t at, size_t n, const char *todo,
                         const char *why, ...) __attribute__((format(printf, 5, 6)));

/* --- the condition ----------------------------------------------------------------- */

/* Nodes stand in postfix order: a node directly follows its operands. */
enum hx_node_kind { HX_NODE_TEST, HX_NODE_NOT, HX_NODE_AND, HX_NODE_OR };

#define HX_NO_COLUMN UINT32_MAX

struct hx_operand {
    uint32_t column; /* index in hx_filter.columns, or HX_NO_COLUMN: a constant */
    struct hx_filter_value value;
};

/* Invariants: size = 1 + the sizes of its operands; yes and no are HX_FILTER_HOLDS,
 * HX_FILTER_FAILS or the index of a test behind this one. A test with one column has it left. */
#define HX_FILTER_HOLDS UINT32_MAX
#define HX_FILTER_FAILS (UINT32_MAX - 1)

struct hx_node {
    enum hx_node_kind kind;
    enum hx_filter_op op; /* of a test */
    bool strip;           /* SQL has to hide the affinities of the columns */
    uint32_t size;
    uint32_t yes, no;    /* of a test: which one is next */
    uint16_t first, all; /* what SQLite's parser stacks for it: see filter.c */
    struct hx_operand left, right;
    hx_regexp *regexp;
};

struct hx_filter {
    char *source;
    char *texts;          /* what constants point into */
    HX_VEC(char *) names; /* the same, of what is compared with a linker's name, too */
    HX_VEC(struct hx_filter_column) columns;
    HX_VEC(struct hx_node) nodes; /* at least one; the last one is the whole */
};

/* Finds the column that a word names, and gives it a place in filter->columns. */
struct hx_resolver {
    hx_filter *filter;
    const struct hx_lexer *lexer;
    const struct hx_filter_schema *schema;
    bool right_side; /* of a comparison: the name may be meant as a text */
};

hx_error *hx_filter_resolve(const struct hx_resolver *resolver, const struct hx_token *token,
                            uint32_t *ret);

/* The column `symbol` of a column's view; HX_NO_COLUMN: it has none. */
hx_error *hx_filter_symbol(const struct hx_resolver *resolver, uint32_t column, uint32_t *ret);

#endif
