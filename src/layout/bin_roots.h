/* bin_roots.h - which named roots share a bin: they are its name, joined by '+'. Bins of what no
 * named root reaches, "-" and "(unreachable)", have none.
 */
#ifndef HX_LAYOUT_BIN_ROOTS_H
#define HX_LAYOUT_BIN_ROOTS_H

#include <stdbool.h>
#include <stddef.h>

/* Goes through names that '+' joins: *at begins as all of them and is NULL behind the last. */
bool hx_bin_next(const char **at, const char **ret, size_t *ret_n);

/* Is the name one of them? */
bool hx_bin_has(const char *roots, const char *name, size_t n);

bool hx_bin_is_named(const char *roots);
/* How many named roots share it. */
int hx_bin_count(const char *roots);

#endif
