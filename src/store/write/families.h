/* families.h - the large tables of a snapshot, column by column. */
#ifndef HX_STORE_WRITE_FAMILIES_H
#define HX_STORE_WRITE_FAMILIES_H

#include "store/write/writer.h"

void hx_early_columns_destroy(struct hx_early_columns *columns); /* NULL is legal */

/* Objects, edges, root edges and what is resident. */
hx_error *hx_writer_families(struct hx_writer *w);

#endif
