/* take_core.h - an ELF core as a snapshot in a store. */
#ifndef HX_CLI_TAKE_TAKE_CORE_H
#define HX_CLI_TAKE_TAKE_CORE_H

#include "cli/console.h"
#include "cli/words/options.h"
#include "store/store.h"

/* Reads the core at path, analysed as the call says, into a store that is open for appending.
 * *ret_partial: something is missing of it. */
hx_error *hx_core_store(const struct hx_args *args, struct hx_console *console, const char *path,
                        hx_store *store, bool *ret_partial);

#endif
