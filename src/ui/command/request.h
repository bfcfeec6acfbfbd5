/* request.h - from a key or a command line to what it asks for. */
#ifndef HX_UI_COMMAND_REQUEST_H
#define HX_UI_COMMAND_REQUEST_H

#include "ui/command/requests.h"

/* By its name or the only one that begins so; NULL when there is none. */
const struct hx_request *hx_request_find(const char *name, size_t n);
const struct hx_request *hx_request_of_key(int key);

/* The request of "NAME ARGUMENT"; NULL: there is none of that name. */
const struct hx_request *hx_command_request(const char *line);

/* Runs "NAME ARGUMENT". */
hx_error *hx_command_run(struct hx_ui *ui, const char *line);

/* Keys have names ("j", "Enter", "Ctrl-D", "F1"); 0 when unknown. Longer ones come from curses
 * as negative numbers (term.h). */
int hx_key_parse(const char *name, size_t n);

#endif
