/* attribution_tables.h - what an attribution that is laid over a store's own has in memory.
 *
 * Cost-centre stacks and their costs can be a row for each recorded frame and snapshot: nobody
 * looks at more than a few of these. So hx_ccs, hx_cost and hx_estimate are not filled then but are
 * virtual tables over the pass; the costs of a snapshot are added up when they are asked for, and
 * kept for the last few.
 */
#ifndef HX_STORE_COST_ATTRIBUTION_TABLES_H
#define HX_STORE_COST_ATTRIBUTION_TABLES_H

#include "store/cost/attribute.h"

/* Of one connection. */
typedef struct hx_ccs_overlay hx_ccs_overlay;

/* Makes the module HX_CCS_OVERLAY_MODULE known to the connection: CREATE VIRTUAL TABLE ... USING
 * HX_CCS_OVERLAY_MODULE(NAME), NAME being one of the tables. They are empty until there is a pass.
 */
hx_error *hx_ccs_overlay_create(sqlite3 *db, const char *what, hx_ccs_overlay **ret);
void hx_ccs_overlay_unref(hx_ccs_overlay *overlay); /* NULL is legal */

/* A pass, with the frames that it is of; both from malloc. Takes them over, also when this fails.
 * Without any (NULL) the tables are empty again. No statement may be reading the tables. Snapshot
 * 0: of all that were recorded. */
hx_error *hx_ccs_overlay_set(hx_ccs_overlay *overlay, struct hx_frames *frames,
                             struct hx_attributing *pass, int64_t snapshot);

#endif
