/* ui.h - the explorer. The only folder that includes curses. */
#ifndef HX_UI_UI_H
#define HX_UI_UI_H

#include "ui/ui_options.h"

/* Runs until the user quits. *ret_left, also with an error: so many snapshots that nobody was asked
 * about are in no file, because something else ended it. */
hx_error *hx_ui_run(const struct hx_ui_options *options, int64_t *ret_left);

#endif
