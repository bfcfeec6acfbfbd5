/* centres.h - which functions are cost centres: chosen by patterns, also long after the recording.
 *
 * A pattern is a POSIX extended expression (pattern.h) over function names; behind `module:`,
 * `file:` or `region:` over the module, the source file, or the labels of regions alone; behind
 * `function:` over names, where one begins like these words. `!` before it all excludes.
 */
#ifndef HX_COST_CENTRES_H
#define HX_COST_CENTRES_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

struct hx_centre_name {
    const char *label, *module;
    const char *source; /* "FILE:LINE"; NULL: unknown. The line is not part of what patterns see */
    bool region;
};

/* ret[i]: centre i is chosen. One is when no pattern excludes it and one names it, or none names
 * anything of its kind: functions are named by function, module and file, regions by `region:`.
 * HX_E_USAGE: a pattern is none. *ret_idle (may be NULL): the first pattern that stands for no
 * centre, NULL when each does. */
hx_error *hx_centres_choose(const struct hx_centre_name *centre, size_t n,
                            const char *const *pattern, size_t n_patterns, bool *ret,
                            const char **ret_idle);

/* HX_E_USAGE when the text is no pattern. */
hx_error *hx_centre_pattern_test(const char *pattern);

#endif
