/* call_label.h - the label of a stack ("make_widget < load < main") as people read it in one line.
 */
#ifndef HX_UI_DATA_CALL_LABEL_H
#define HX_UI_DATA_CALL_LABEL_H

#include "base/text.h"

/* Appends the calls of a label, innermost first. A C++ function is said without its result, its
 * parameters and template arguments; of the C++ library's functions that call each other only the
 * one that was called from outside; a function that calls itself is said once; and nothing of what
 * calls main. A single function is a label, too. Not escaped. */
void hx_text_calls(struct hx_text *text, const char *label);

/* "table.c:118" of "/home/anna/src/table.c:118"; a part of it. */
const char *hx_source_file(const char *source);

/* Is a function the C++ library's? */
bool hx_call_is_library(const char *function);

/* In a store that lies a stack has more calls than are asked for. */
#define HX_CALLS_MAX 10000

#endif
