/* function_name.h - demangled names of functions as labels want them: short, and those of a
 * language's library that nobody calls by name told apart; and files of such a library.
 */
#ifndef HX_MODEL_FUNCTION_NAME_H
#define HX_MODEL_FUNCTION_NAME_H

#include "base/text.h"

/* Appends a name; of a long one without what it returns, and template arguments after the first and
 * long lists of parameters become "...": "std::vector<int, ...>::reserve(unsigned long)";
 * std::string goes by this name. What cannot be understood stays as it is. */
void hx_function_name_short(struct hx_text *text, const char *name);

/* Appends n bytes of a name without parameters, template arguments and what it returns. */
void hx_function_name_bare(struct hx_text *text, const char *name, size_t n);

/* Is it the business of an allocator, a container or a smart pointer of the library, which the
 * program did not call by this name (std::allocator<int>::allocate, std::vector<int>::_M_insert,
 * alloc::raw_vec::finish_grow)? */
bool hx_function_name_internal(const char *name);

/* Appends " from b", who allocates by a stack's label, "a < b < c": its first function that is not
 * internal, without parameters. Nothing where all are that it names. */
void hx_function_name_maker(struct hx_text *text, const char *label);

/* Is a file, by its name, one of the language's own libraries ("libc.so.6", "libstdc++.so.6.0.30")?
 * They run initialisers for somebody else, and what they allocate for themselves has no name in the
 * program. */
bool hx_is_runtime_module(const char *name);

#endif
