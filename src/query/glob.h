/* glob.h - patterns over whole names: * is any text, ? one character, a backslash takes the meaning
 * of what follows away and \xNN is a byte; behind ~ stands an extended expression (regexp.h) that
 * is found in the name. */
#ifndef HX_QUERY_GLOB_H
#define HX_QUERY_GLOB_H

#include "base/error.h"
#include "base/text.h"

typedef struct hx_glob hx_glob;

/* text[0..n). Errors are HX_E_USAGE; *ret_at is then where in the text they are. */
hx_error *hx_glob_create(const char *text, size_t n, size_t *ret_at, hx_glob **ret);
void hx_glob_destroy(hx_glob *glob); /* NULL is legal */

/* In time of the name times the pattern at worst. */
bool hx_glob_matches(const hx_glob *glob, const char *name, size_t n);

/* Appends the pattern that matches exactly this name, of printable characters only. */
void hx_glob_quote(struct hx_text *text, const char *name, size_t n);

#endif
