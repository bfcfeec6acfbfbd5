/* must.c - see must.h. */
#include "must.h"

#include <stdio.h>
#include <stdlib.h>

void die(const char *why)
{
    fprintf(stderr, "test: %s\n", why);
    exit(1);
}

void must(hx_error *error)
{
    char line[512];
    if (!error)
        return;
    hx_error_line(error, line, sizeof line);
    die(line);
}
