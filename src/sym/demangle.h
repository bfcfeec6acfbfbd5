/* demangle.h - from the mangled name of a C++ type to what a programmer writes.
 *
 * Names come from a target. A short one can stand for a text of any length, or keep a
 * demangler at work for years; so the text has a bound, the work ends when it is reached,
 * and names of a kind that makes work without text are left as they are.
 */
#ifndef HX_SYM_DEMANGLE_H
#define HX_SYM_DEMANGLE_H

#include "base/text.h"

#define HX_DEMANGLED_MAX 1000 /* bytes; a longer text is cut there and ends in "..." */

/* Appends the type that a typeinfo name stands for: "4Node" gives "Node". What is not
 * mangled, or more than the demangler takes (1024 bytes), is appended as it is, with the same
 * bound. Safe from any thread; takes about 200 KiB of stack. */
void hx_demangle_type(struct hx_text *text, const char *name);

#endif
