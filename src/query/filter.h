/* filter.h - the filter language: one condition over the columns of a row.
 *
 *   condition   := condition or condition | condition and condition | not condition
 *                | ( condition ) | comparison            not binds tighter than and, and than or
 *   comparison  := operand OP operand                    OP: = == != <> < <= > >=
 *                | column ~ 'REGEX' | column !~ 'REGEX'  POSIX extended, anywhere in the text
 *                | column is null | column is not null
 *   operand     := column | view.column | number | 'text' | "text"
 *
 * Keywords and the names of columns and views are found in any case. In a text the quote
 * around it is written twice to mean itself; a backslash is a backslash. A number is decimal
 * (-12, 1.5, .5, 2e6) or hexadecimal (0x7f), a decimal one may have a unit K, M, G or T, a power
 * of 1024, and behind that B or iB (1.5KiB). Whole numbers are exact within int64; all
 * others are the nearest double.
 *
 * What a comparison means:
 * - with NULL it is false, whatever the operator; `not` turns exactly true and false around, so
 *   `not a > 1` holds where a is NULL. A NaN is NULL.
 * - numbers compare with numbers exactly, also whole ones with doubles; texts compare
 *   with texts byte by byte.
 * - beside a column of texts a number is a text, as it was written; beside a column of numbers a
 *   text has to read as a number. A column of numbers and one of texts do not compare. Those are
 *   errors of the parser. Where a class shows only with the row (HX_FILTER_ANY), every number
 *   is less than every text.
 * - an expression sees a number as JSON and CSV show it.
 *
 * A linker's name finds what goes by it: beside one, = != ~ !~ of a column of texts look at the
 * column `symbol` of its view as well, and = and != without one at what programs call it.
 *
 * A condition is parsed once and never changes: any number of threads may evaluate it. It has
 * no recursion, and its size is limited (HX_FILTER_MAX_*), so it may come from anybody.
 */
#ifndef HX_QUERY_FILTER_H
#define HX_QUERY_FILTER_H

#include "base/cleanup.h"
#include "base/error.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HX_FILTER_MAX_BYTES       65536 /* of text */
#define HX_FILTER_MAX_COMPARISONS 800
#define HX_FILTER_MAX_PARENTHESES 200 /* open at once */
#define HX_FILTER_MAX_REGEXPS     64

enum hx_filter_type { HX_FILTER_NULL, HX_FILTER_INT, HX_FILTER_REAL, HX_FILTER_STRING };

struct hx_filter_value {
    enum hx_filter_type type;
    int64_t i;
    double real;
    const char *text; /* any bytes, no end mark; may be NULL when n is 0 */
    size_t n;
};

/* What is known of a column's values before there is a row. Its SQL column has to agree: one of
 * numbers has a numeric affinity or none, one of texts TEXT or none. */
enum hx_filter_class { HX_FILTER_ANY, HX_FILTER_NUMBER, HX_FILTER_TEXT };

struct hx_filter_column {
    const char *view; /* NULL: the row's own, and SQL then names the column alone */
    const char *name;
    enum hx_filter_class class;
    size_t id; /* the caller's; comes back to hx_filter_get */
};

/* The columns that a condition may speak of. */
struct hx_filter_schema {
    const struct hx_filter_column *columns;
    size_t n;
    const char *row; /* the view that a column without a view belongs to; may be NULL */
};

/* Where an error is, for a mark below the text. */
struct hx_filter_position {
    size_t offset, length; /* bytes; length 0: at the end */
    size_t column;         /* characters, from 1 */
};

typedef struct hx_filter hx_filter;

/* Parses a condition. Errors are HX_E_USAGE (or out of memory), name the column, and fill
 * *ret_place, which may be NULL. Nothing of the schema is kept. */
hx_error *hx_filter_parse(const char *text, const struct hx_filter_schema *schema,
                          struct hx_filter_position *ret_place, hx_filter **ret);
void hx_filter_destroy(hx_filter *filter);

static inline void hx_cleanup_filter(hx_filter **filter)
{
    hx_filter_destroy(*filter);
}
#define HX_FILTER HX_CLEANUP(hx_cleanup_filter)

/* The text that it was parsed from. */
const char *hx_filter_source(const hx_filter *filter);

/* The columns that it reads, each once, in the order of their first use. */
size_t hx_filter_columns(const hx_filter *filter, const struct hx_filter_column **ret);

/* A column that the schema has under another name, too: its name in SQL. */
hx_error *hx_filter_rename(hx_filter *filter, const char *name, const char *sql);

/* The value of the column with this id in the row in question. Texts have to stay valid until
 * hx_filter_holds() returns; a column may be asked for more than once. */
typedef struct hx_filter_value hx_filter_get(void *context, size_t id);

/* Does it hold for the row? */
bool hx_filter_holds(const hx_filter *filter, hx_filter_get *get, void *context);

/* A condition in parts, for whoever knows the truth of comparisons and not the values: parts from 0
 * to hx_filter_parts() - 1 are a comparison each, or what joins others. */
struct hx_filter_part {
    bool is_test;     /* a comparison */
    bool two_views;   /* it compares columns of two views */
    const char *view; /* whose column it reads; NULL: of the row's own columns, or none at all */
};
size_t hx_filter_parts(const hx_filter *filter);
struct hx_filter_part hx_filter_part(const hx_filter *filter, size_t part);
/* Appends the comparison for SQLite: 1, or else 0 or NULL. */
void hx_filter_part_sql(const hx_filter *filter, size_t part, struct hx_text *sql);
/* Does the condition hold, when holds[part] says it of each comparison? */
bool hx_filter_holds_by(const hx_filter *filter, const bool *holds);

/* The order of two values, none of them NULL: < 0, 0, > 0. */
int hx_filter_order(struct hx_filter_value a, struct hx_filter_value b);

/* Appends the condition for SQLite, to stand after WHERE, in parentheses or as the operand of
 * AND: it is true for exactly the rows for which the condition holds, and else 0 or NULL.
 * Comparisons that stand under no `not` are plain, so that indexes and virtual tables see
 * them. Expressions become regexp(PATTERN, VALUE), which has to be registered with
 * hx_regexp_*() (see regexp.h) behind it, NULL for NULL. */
void hx_filter_sql(const hx_filter *filter, struct hx_text *sql);

#endif
