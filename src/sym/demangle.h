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

/* Appends what the function or variable of a symbol is called in its source: "_Znwm" gives
 * "operator new(unsigned long)"; C++, and Rust of both manglings. Others, and the version behind an
 * @, as they are; bounds and stack as above. */
void hx_demangle_symbol(struct hx_text *text, const char *name);

/* Appends a list of names: each word in it that is the mangled name of a variable or
 * function is put demangled, within the bounds above, all else stays as it is. Of a
 * text with thousands of names only the first HX_DEMANGLED_NAMES are demangled. Without a demangler
 * the text is appended as it is. */
#define HX_DEMANGLED_NAMES 256
void hx_demangle_names(struct hx_text *text, const char *s, size_t n);

/* Looks a name like one that a linker knows, and a program would write in another way? */
bool hx_is_mangled(const char *name);

/* What a name of a linker stands for, without ABI tags, a copy of any other; malloc'ed. NULL: no
 * memory. */
char *hx_written_name(const char *name);

/* --- ABI tags, which nobody writes ("slots[abi:cxx11]") --- */

/* The end of a tag, NULL when none begins at `at`. */
const char *hx_behind_tag(const char *at);
bool hx_has_tag(const char *name); /* of a demangled one */

/* Appends a demangled name without its tags. */
void hx_put_untagged(struct hx_text *text, const char *name);

/* Every symbol that reads as this one does but for tags begins with so many of its bytes. */
size_t hx_untagged_bytes(const char *symbol);

/* Does another symbol read as `untagged` does, but for tags? Who has to ask of more symbols than
 * these leaves the tags alone. */
#define HX_NAMESAKES_MAX 1000
bool hx_is_namesake(const char *symbol, const char *untagged, const char *other);

#endif
