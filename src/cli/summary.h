/* summary.h - a store's newest snapshot in one page of text, out of the views. */
#ifndef HX_CLI_SUMMARY_H
#define HX_CLI_SUMMARY_H

#include "store/store.h"

#include <stdio.h>

/* Heap, account, leaks, who holds most, types and losses of a snapshot. */
hx_error *hx_summary_print(hx_store *store, int64_t snapshot, FILE *file);

/* One line: number, objects, leaked, pause. */
hx_error *hx_summary_line(hx_store *store, int64_t snapshot, FILE *file);

#endif
