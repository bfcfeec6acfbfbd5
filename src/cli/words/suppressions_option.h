/* suppressions_option.h - the files of --suppressions on the command line. */
#ifndef HX_CLI_WORDS_SUPPRESSIONS_OPTION_H
#define HX_CLI_WORDS_SUPPRESSIONS_OPTION_H

#include "cli/console.h"
#include "cli/words/options.h"
#include "store/store.h"

/* Reads the files of --suppressions; *ret is NULL when there are none. */
hx_error *hx_suppress_read(const struct hx_args *args, hx_suppressions **ret);

/* Takes what they know out of what the store shows of a snapshot (0: of all), and tells of entries
 * that take out nothing. */
hx_error *hx_suppress_apply(struct hx_console *console, hx_store *store, int64_t number,
                            hx_suppressions *list);

/* Prints rows of `leaks` as entries that match them, and ends the rows. */
hx_error *hx_suppress_print(hx_rows *rows);

static inline void hx_cleanup_suppressions(hx_suppressions **list)
{
    hx_suppressions_destroy(*list);
}
#define HX_SUPPRESSIONS __attribute__((cleanup(hx_cleanup_suppressions)))

#endif
