/* regexp.h - POSIX extended regular expressions that may come from anybody.
 *
 * What would take the library too far is refused first: back references (no part of extended
 * expressions, and exponential), and expressions that repetition or nesting blows up. What
 * remains matches in time linear in the text. */
#ifndef HX_QUERY_REGEXP_H
#define HX_QUERY_REGEXP_H

#include "base/error.h"
#include "query/filter.h"

#define HX_REGEXP_MAX_BYTES 2000
#define HX_REGEXP_MAX_SIZE  2000  /* elements, once repetitions are written out */
#define HX_REGEXP_MAX_DEPTH 50    /* groups in groups */
#define HX_REGEXP_MAX_FORKS 10    /* ways through nothing that part: see regexp.c */
#define HX_REGEXP_MAX_WORK  16384 /* size, doubled for each fork */

typedef struct hx_regexp hx_regexp;

/* Errors are HX_E_USAGE, with the library's own words where it refused. */
hx_error *hx_regexp_create(const char *pattern, hx_regexp **ret);
void hx_regexp_destroy(hx_regexp *regexp);

/* Is it found in the value? A number is looked at as JSON and CSV write it; NULL never matches.
 * Several threads may use one expression. */
bool hx_regexp_matches(const hx_regexp *regexp, struct hx_filter_value value);

#endif
