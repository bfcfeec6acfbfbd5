/* type_name.h - the name of a type or a variable as people say it: "std::map<int, std::string>". */
#ifndef HX_LAYOUT_TYPE_NAME_H
#define HX_LAYOUT_TYPE_NAME_H

#include "base/text.h"

/* Appends any text without "(anonymous namespace)::", which says nothing. */
void hx_text_named_scopes(struct hx_text *text, const char *name);

/* Appends a demangled name without scopes that have no name and what the C++ library adds of its
 * own: template arguments that nobody chose, scopes of versions, and blocks that only wrap
 * something else, which are named by what is inside ("chat::Session (make_shared)"). What cannot be
 * understood stays as it is. Not escaped. */
void hx_text_type(struct hx_text *text, const char *name);
/* The same, safe for a terminal. */
void hx_text_type_shown(struct hx_text *text, const char *name, bool ascii);

#endif
