/* pattern.h - names that a user picks by patterns: the name itself, or a POSIX extended
 * expression that is found in it (regexp.h).
 */
#ifndef HX_QUERY_PATTERN_H
#define HX_QUERY_PATTERN_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct hx_patterns hx_patterns;

/* HX_E_USAGE for what is no expression, and cannot be a name either. */
hx_error *hx_pattern_check(const char *pattern);

/* The same of each pattern. They are copied. */
hx_error *hx_patterns_create(const char *const *pattern, size_t n, hx_patterns **ret);
void hx_patterns_destroy(hx_patterns *patterns); /* NULL is legal */

/* Does one of them pick the name? "dict" picks "dict (48 bytes)", too: one of several types of that
 * name. Without any pattern every name is picked. */
bool hx_patterns_match(const hx_patterns *patterns, const char *name);

#endif
