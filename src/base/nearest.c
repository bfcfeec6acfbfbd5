/* nearest.c - the name that a misspelt word was meant to be. */
#include "base/nearest.h"

#include <limits.h>
#include <string.h>

enum { NEAR_MAX = 32 };

/* Edit distance, with two neighbours exchanged counting as one; words longer than NEAR_MAX
 * are far from everything. */
static unsigned distance(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    if (n > NEAR_MAX || m > NEAR_MAX)
        return UINT_MAX;
    unsigned d[NEAR_MAX + 1][NEAR_MAX + 1];
    for (size_t i = 0; i <= n; i++) {
        for (size_t j = 0; j <= m; j++) {
            if (i == 0 || j == 0) {
                d[i][j] = (unsigned)(i + j);
                continue;
            }
            unsigned best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            if (d[i - 1][j] + 1 < best)
                best = d[i - 1][j] + 1;
            if (d[i][j - 1] + 1 < best)
                best = d[i][j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                d[i - 2][j - 2] + 1 < best)
                best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    }
    return d[n][m];
}

const char *hx_nearest(const char *word, const char *(*next)(void *context), void *context)
{
    const char *best = NULL, *candidate;
    unsigned best_distance = UINT_MAX;
    while ((candidate = next(context))) {
        unsigned far = distance(word, candidate);
        size_t typed = strlen(word), whole = strlen(candidate);
        /* the beginning of a name is a near miss, however short; and a name with more behind it */
        if (typed >= 2 && strncmp(word, candidate, typed) == 0)
            far = 1;
        else if (whole >= 3 && strncmp(word, candidate, whole) == 0 && far > 2)
            far = 2;
        if (far < best_distance) {
            best_distance = far;
            best = candidate;
        }
    }
    return best && best_distance <= 2 && best_distance < strlen(best) ? best : NULL;
}
