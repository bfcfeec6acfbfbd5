/* view.h - views, their columns and conditions over them as words of the command line. */
#ifndef HX_CLI_WORDS_VIEW_H
#define HX_CLI_WORDS_VIEW_H

#include "base/error.h"
#include "query/filter.h"

#include <stdbool.h>

/* Is it a view of this version? HX_E_USAGE with a hint when not. */
hx_error *hx_view_word(const char *name);

/* What has to be worked out for a view: enum hx_analysis_part. */
unsigned hx_view_parts(const char *view);
/* The same for the words of a condition or of an order (NULL: none), by the columns they name. */
unsigned hx_words_parts(const char *words);
/* The same for a statement, by the views that it names. */
unsigned hx_statement_parts(const char *sql);

/* Reads COL, COL:asc or COL:desc; *column is the caller's. */
hx_error *hx_sort_word(const char *sort, char **column, bool *ascending);

/* Parses a condition; errors begin with `what` ("--where"). */
hx_error *hx_where_word(const char *what, const char *text, const struct hx_filter_schema *schema,
                        hx_filter **ret);

#endif
