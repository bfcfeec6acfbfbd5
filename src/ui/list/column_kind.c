/* column_kind.c - what the name of a column says of its values. */
#include "ui/list/column_kind.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

/* Without the _2 of a second one of the name. */
static size_t length(const char *name)
{
    size_t n = strlen(name), digits = n;
    while (digits && isdigit((unsigned char)name[digits - 1]))
        digits--;
    return digits > 1 && digits < n && name[digits - 1] == '_' ? digits - 1 : n;
}

/* Is it that word, or does it end with _word? */
static bool ends_with(const char *name, const char *word)
{
    size_t n = length(name), len = strlen(word);
    return n >= len && strncmp(name + n - len, word, len) == 0 &&
           (n == len || name[n - len - 1] == '_');
}

static bool column_name_is(const char *name, const char *word)
{
    return length(name) == strlen(word) && strncmp(name, word, strlen(word)) == 0;
}

static bool is_count_column(const char *name)
{
    return strncmp(name, "count_", 6) == 0;
}

bool hx_name_is_address(const char *name)
{
    static const char *const addresses[] = {"source", "target", "object", "dominator", "parent"};
    for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++)
        if (column_name_is(name, addresses[i]))
            return true;
    return ends_with(name, "address") && !is_count_column(name);
}

bool hx_name_is_bytes(const char *name)
{
    return ends_with(name, "bytes") && !is_count_column(name);
}

bool hx_name_is_id(const char *name)
{
    return column_name_is(name, "pid") || column_name_is(name, "tid") ||
           column_name_is(name, "snapshot") || (ends_with(name, "id") && !is_count_column(name));
}

bool hx_name_is_us(const char *name)
{
    return ends_with(name, "us") && !is_count_column(name) && strcmp(name, "us") != 0;
}
