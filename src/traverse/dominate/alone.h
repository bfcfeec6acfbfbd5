/* alone.h - which objects one retainer alone reaches, of roots that have names.
 *
 * As retainer sets of at most one element, in less memory.
 */
#ifndef HX_TRAVERSE_DOMINATE_ALONE_H
#define HX_TRAVERSE_DOMINATE_ALONE_H

#include "base/progress.h"
#include "model/snapshot.h"

#define HX_ALONE_NONE    UINT32_MAX       /* no root reaches it */
#define HX_ALONE_SEVERAL (UINT32_MAX - 1) /* more than one */

/* Fills *ret_of, for each object who reaches it: of_root is for each root a number below
 * HX_ALONE_SEVERAL, or HX_ALONE_NONE: its edges do not count. `follows`: bit for each enum
 * hx_edge_kind. Linear; 13 bytes an object, of which 4 remain. */
hx_error *hx_alone_find(const struct hx_snapshot *snapshot, const uint32_t *of_root,
                        unsigned follows, const struct hx_progress *progress,
                        struct hx_big *ret_of);

#endif
