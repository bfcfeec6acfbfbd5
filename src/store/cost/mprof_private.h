/* mprof_private.h - what the rows of mprof's tables and their printer share. */
#ifndef HX_STORE_COST_MPROF_PRIVATE_H
#define HX_STORE_COST_MPROF_PRIVATE_H

#include "store/cost/mprof.h"

/* HX_E_ABSENT when no snapshot of the query has what its view is made of. */
hx_error *hx_mprof_test(hx_store *store, const struct hx_query *query);

/* hx_query_mprof() without that test. */
hx_error *hx_mprof_rows(hx_store *store, const struct hx_query *query, enum hx_mprof_level level,
                        hx_rows **ret);

#endif
