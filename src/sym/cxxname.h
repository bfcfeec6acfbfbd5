/* cxxname.h - is a linker's name the variable that a C++ program calls so?
 *
 * The linker's name is demangled and compared as a whole. Left out of it first is what nobody
 * writes: ABI tags ("slots[abi:cxx11]"), cv-qualifiers of member functions; of the functions
 * around a variable that is static in one the parameters, unless the user wrote some; and, where
 * asked to, namespaces without a name. Blanks count only between words.
 */
#ifndef HX_SYM_CXXNAME_H
#define HX_SYM_CXXNAME_H

#include "base/error.h"
#include "base/text.h"

struct hx_cxx_name {
    struct hx_text plain; /* what the user wrote, in the form that is compared */
    bool has_parameters, has_unnamed;
    struct hx_text name, other; /* room for one to compare */
};

hx_error *hx_cxx_name_init(const char *name, struct hx_cxx_name *ret);
void hx_cxx_name_deinit(struct hx_cxx_name *name);

/* False for what is not mangled, and NULL. "inner": the variable may lie in namespaces without a
 * name that the user left out. */
bool hx_cxx_name_is(struct hx_cxx_name *name, const char *symbol, bool inner);

#endif
