/* roots.h - places of the Python interpreter that have names for who programs in it.
 *
 * Else they are a part of _PyRuntime, or of nameless data: sys.modules, the dicts of sys and
 * builtins, the table of interned strings, the garbage collector's lists of its generations (which
 * keep nothing alive), and what threads have in frames (frames.h). Text, bytes and instructions of
 * objects that are built in are no roots, nor are places of free lists behind those in use.
 */
#ifndef HX_ATTACH_PYTHON_ROOTS_H
#define HX_ATTACH_PYTHON_ROOTS_H

#include "attach/python/interpreter.h"
#include "attach/roots/rootmap.h"

/* Adds roots, and to `excluded` what of the interpreter's memory is not in use, or is text;
 * functions of Python to snapshot->backtraces. Nothing where there is no interpreter that is known.
 */
hx_error *hx_python_roots(struct hx_snapshot *snapshot, hx_modules *modules,
                          const struct hx_peek *peek, hx_root_list *roots, hx_ranges *excluded);

#endif
