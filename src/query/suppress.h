/* suppress.h - leaks that are known: entries of a suppressions file, and what they take out.
 *
 *   # a comment
 *   NAME {
 *       kind: definite, possible         of these kinds; definite, indirect, possible
 *       type: PATTERN                    of this type; (unknown) as in the views
 *       site: PATTERN                    allocated there: f < g < main
 *       chain: PATTERN -> ... -> PATTERN held like this
 *       at most: 10M, 200 objects        as long as it is no more
 *   }
 *
 * A PATTERN is the whole name, in which * is any text, ? one character, and a backslash takes their
 * meaning away (\xNN is a byte); behind ~ stands a POSIX extended expression that is found in it.
 * Names are known as the linker writes them and as people do.
 *
 * An entry matches an object for which all that it says holds. A chain begins at a definite
 * leak, or, to an object that is possibly lost, at a root (its name, or module!name), and leads
 * over references to the object itself; each element is a type, and ... any number of them. It is
 * enough that one chain is such.
 *
 * What an entry matches is taken out, and with it what is lost only through that: everything that
 * no other leak reaches without passing through something taken out. An object belongs to the first
 * entry that matches it. An entry that would take out more than its `at most` takes out nothing.
 */
#ifndef HX_QUERY_SUPPRESS_H
#define HX_QUERY_SUPPRESS_H

#include "base/progress.h"
#include "base/text.h"
#include "model/snapshot.h"

#define HX_SUPPRESSIONS_MAX_BYTES   ((size_t)16 << 20) /* of a file */
#define HX_SUPPRESSIONS_MAX_LINE    100000             /* bytes */
#define HX_SUPPRESSIONS_MAX_ENTRIES 10000
#define HX_SUPPRESSIONS_MAX_CHAIN   60 /* elements */

typedef struct hx_suppressions hx_suppressions;

/* What is known of an entry; figures are sums over all snapshots that were looked at. */
struct hx_suppression {
    const char *name, *file;
    unsigned line;
    uint64_t bytes, objects; /* taken out */
    uint64_t over_bytes;     /* of a snapshot in which it was above its limit; 0: none was */
    uint64_t over_objects;
};

hx_error *hx_suppressions_create(hx_suppressions **ret);
void hx_suppressions_destroy(hx_suppressions *list); /* NULL is legal */

/* Adds the entries of a file's text. Errors are HX_E_USAGE and begin with FILE:LINE:COLUMN. */
hx_error *hx_suppressions_parse(hx_suppressions *list, const char *file, const char *text,
                                size_t n);

size_t hx_suppressions_count(const hx_suppressions *list);
const struct hx_suppression *hx_suppressions_at(const hx_suppressions *list, size_t i);

/* Takes out of a snapshot with edges and states: the states of those objects become
 * HX_STATE_NONE. Labels of sites are what patterns of sites see. *ret_bytes, *ret_objects: how much
 * of what was lost (definite and indirect) is taken out. */
hx_error *hx_suppress(hx_suppressions *list, struct hx_snapshot *snapshot,
                      const struct hx_progress *progress, uint64_t *ret_bytes,
                      uint64_t *ret_objects);

/* Appends an entry that matches what a row of leaks counts; type and site may be NULL: unknown, and
 * of any site. */
void hx_suppression_put(struct hx_text *text, const char *name, const char *kind, const char *type,
                        const char *site, uint64_t objects);

#endif
