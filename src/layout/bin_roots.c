/* bin_roots.c - the names that a bin's is made of. */
#include "layout/bin_roots.h"

#include <string.h>

bool hx_bin_next(const char **at, const char **ret, size_t *ret_n)
{
    if (!*at)
        return false;
    *ret = *at;
    *ret_n = strcspn(*at, "+");
    *at = (*at)[*ret_n] ? *at + *ret_n + 1 : NULL;
    return true;
}

bool hx_bin_has(const char *roots, const char *name, size_t n)
{
    const char *root;
    for (size_t length; hx_bin_next(&roots, &root, &length);)
        if (length == n && memcmp(root, name, n) == 0)
            return true;
    return false;
}

bool hx_bin_is_named(const char *roots)
{
    return strcmp(roots, "-") != 0 && strcmp(roots, "(unreachable)") != 0;
}

int hx_bin_count(const char *roots)
{
    int n = *roots && hx_bin_is_named(roots);
    for (; n && *roots; roots++)
        n += *roots == '+';
    return n;
}
