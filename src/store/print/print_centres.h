/* print_centres.h - ccs, costs and sites as text. */
#ifndef HX_STORE_PRINT_PRINT_CENTRES_H
#define HX_STORE_PRINT_PRINT_CENTRES_H

#include "store/query.h"

bool hx_centres_is_view(const char *view);

/* Only for such a view. It fits the width of the terminal, of COLUMNS, or 100 columns. */
hx_error *hx_centres_print(hx_store *store, const struct hx_query *query, void *file /* FILE */);

#endif
