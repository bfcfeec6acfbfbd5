/* demangle.h - from the mangled names of C++ types and symbols to what a programmer writes.
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

/* Appends what a function of this symbol's name is called in its source: "_Znwm" gives
 * "operator new(unsigned long)"; C++, and Rust of both manglings. Others as they are; bounds and
 * stack as above. */
void hx_demangle_function(struct hx_text *text, const char *name);

/* Appends a text for people: each word in it that begins with _Z and is the mangled name of a
 * variable or function is put demangled, within the bounds above, all else stays as it is. A label
 * of several names thus stays one. Of a text with thousands of names only the first
 * HX_DEMANGLED_NAMES are demangled. What is stored keeps its names. The result still has to be
 * escaped. Without a demangler the text is appended as it is. */
#define HX_DEMANGLED_NAMES 256
void hx_demangle_names(struct hx_text *text, const char *s, size_t n);

/* Can hx_demangle_names() change it? Quick, and mostly false. */
bool hx_has_mangled(const char *s, size_t n);

#endif
