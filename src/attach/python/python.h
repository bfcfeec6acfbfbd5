/* python.h - types of Python objects, by what their words say.
 *
 * A block of the interpreter's allocator or of malloc holds an object where its words are those of
 * one: a count of references, and a type (classes.h) whose objects begin so far behind the start of
 * a block and have room in it:
 *
 *   +0   links of the garbage collector   where the type's objects have them; before that the words
 *   +16  count of references, type, ...   of a dict and weak references, where it has these
 *
 * Blocks that an object has to itself are named after it: "list items", "dict keys". A dict, list
 * or set that is the value of an attribute of a module, a class or an object of a class is named
 * after that: "dict (module.Class.attribute)".
 */
#ifndef HX_ATTACH_PYTHON_PYTHON_H
#define HX_ATTACH_PYTHON_PYTHON_H

#include "attach/python/interpreter.h"
#include "base/progress.h"

/* Adds types to graph.type, graph.typed, types and
 * layouts, and fills graph.requested of objects whose size they tell. Nothing where there is no
 * interpreter that is known. Needs the edges. */
hx_error *hx_python_types(struct hx_snapshot *snapshot, hx_modules *modules,
                          const struct hx_peek *peek, unsigned threads,
                          const struct hx_progress *progress);

#endif
