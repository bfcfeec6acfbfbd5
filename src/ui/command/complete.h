/* complete.h - commands that are typed: prompts for them, and what Tab makes of a part of one. */
#ifndef HX_UI_COMMAND_COMPLETE_H
#define HX_UI_COMMAND_COMPLETE_H

#include "ui/command/prompt.h"

/* Runs a command of which only the name is known; where it needs an argument, or `type`, asks for
 * that at the prompt. */
hx_error *hx_ui_begin_command(struct hx_ui *ui, const char *name, bool type);

/* For hx_prompt.complete. Of a command line; of a condition, whose words are columns; of SQL, whose
 * words are views and their columns; of the name of a file. */
hx_error *hx_complete_command(struct hx_ui *ui, struct hx_prompt *prompt);
hx_error *hx_complete_condition(struct hx_ui *ui, struct hx_prompt *prompt);
hx_error *hx_complete_sql(struct hx_ui *ui, struct hx_prompt *prompt);
hx_error *hx_complete_file(struct hx_ui *ui, struct hx_prompt *prompt);

#endif
