/* input_file.h - FILE of a call: a store, or what can be read like one. */
#ifndef HX_CLI_WORDS_INPUT_FILE_H
#define HX_CLI_WORDS_INPUT_FILE_H

#include "cli/console.h"
#include "cli/take/spool.h"
#include "cli/words/options.h"
#include "store/store.h"

/* Opens a store for reading. A core or a profile of another program is read into a private
 * temporary store first; "-" is standard input (spool.h). *ret_partial: something is missing of it.
 */
hx_error *hx_file_open(const struct hx_args *args, struct hx_console *console, const char *path,
                       hx_store **ret, bool *ret_partial);

/* The same of what was read from a pipe, or was none. */
hx_error *hx_file_open_spooled(const struct hx_args *args, struct hx_console *console,
                               const struct hx_spool *spool, hx_store **ret, bool *ret_partial);

/* Reads such a file into a store that is open for appending. HX_E_USAGE: it is of no kind that
 * is known. */
hx_error *hx_file_import(const struct hx_args *args, struct hx_console *console, const char *path,
                         hx_store *store, bool *ret_partial);

#endif
