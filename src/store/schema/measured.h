/* measured.h - a view that is empty because nothing is there, and one whose rows were never
 * measured.
 */
#ifndef HX_STORE_SCHEMA_MEASURED_H
#define HX_STORE_SCHEMA_MEASURED_H

#include "store/query.h"

/* HX_E_ABSENT where the rows that a query asks for were never measured; it says what to do, and
 * calls the store `target`. Of view, snapshot and no other word of the query. */
hx_error *hx_query_measured(hx_store *store, const char *target, const struct hx_query *query);

/* The same, of views about who allocated. */
hx_error *hx_query_recorded(hx_store *store, const char *target, const struct hx_query *query);

#endif
