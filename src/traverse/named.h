/* named.h - roots that the user or the program names: what an expression stands for.
 *
 *   symbol, module!symbol   every word of the variable (of each one, where several have the name);
 *                           a C++ variable also as the source writes it ("app::cache",
 *                           "app::get()::cache"; see cxxname.h)
 *   symbol.field->field[3]  the words of a part of a variable, and of what they point to, where
 *                           its fields are known
 *   thread:TID              stack, registers and thread-local storage of a thread
 *   module:NAME             all roots of a module
 *   frame:FUNCTION          what lies in the frames of a function, where debug information tells
 *   type:PATTERN            every object of such a type (as in struct hx_scheme_options)
 *   0xADDRESS               the object that contains it, itself counted; a whole global when it
 *                           lies in one; among data without symbols as *0xADDRESS
 *   *0xADDRESS              the pointer stored there
 *
 * Everything is found in the edges that a snapshot has, so that roots can be named
 * long after it was taken.
 */
#ifndef HX_TRAVERSE_NAMED_H
#define HX_TRAVERSE_NAMED_H

#include "model/snapshot.h"

#define HX_NAME_MAX 255 /* bytes of a root's name */

/* One root to name; strings are borrowed. */
struct hx_naming {
    const char *name;
    const char *expr; /* NULL: the object or global at `address`, from the program's own array */
    uint64_t address;
};

/* Splits and checks "NAME=EXPR" without a snapshot: HX_E_USAGE. *ret_name is the caller's to free,
 * *ret_expr points into `arg`. Names: not empty, no '+', not `-` or `(unreachable)`. */
hx_error *hx_naming_parse(const char *arg, char **ret_name, const char **ret_expr);

/* Is the expression the name of a variable? Then *ret_symbol is that (in `expr`) and *ret_module
 * the caller's to free, NULL for any module. HX_E_USAGE for what is no expression. */
hx_error *hx_naming_symbol(const char *expr, bool *ret_is, char **ret_module,
                           const char **ret_symbol);

/* Makes these the named roots of the snapshot, in this order, in place of those it had. Needs
 * edges. What stands for nothing here (no such symbol, a null or dangling pointer) is a root
 * without edges and a note in the snapshot; *ret_missing counts them, may be NULL. Of several of
 * one name the first counts, and a note says so. */
hx_error *hx_named_set(struct hx_snapshot *snapshot, const struct hx_naming *naming, size_t n,
                       size_t *ret_missing);

/* The same, but the roots that the program itself has named stay, in front: for a snapshot out of
 * a store, whose image is gone. */
hx_error *hx_named_renew(struct hx_snapshot *snapshot, const struct hx_naming *naming, size_t n,
                         size_t *ret_missing);

#endif
