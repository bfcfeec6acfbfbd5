/* matcher.h - what was typed for a search, made ready. */
#ifndef HX_UI_LIST_MATCHER_H
#define HX_UI_LIST_MATCHER_H

#include "base/error.h"

#include <stdbool.h>

/* A POSIX extended regular expression. Small letters find both; a capital means what it says. */
struct hx_matcher;
hx_error *hx_matcher_create(const char *pattern, struct hx_matcher **ret);
bool hx_matcher_matches(const struct hx_matcher *matcher, const char *text);
void hx_matcher_destroy(struct hx_matcher *matcher); /* NULL is legal */

#endif
