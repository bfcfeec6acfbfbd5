/* fields.h - which attribute, item or key a word of a Python object is. */
#ifndef HX_ATTACH_PYTHON_FIELDS_H
#define HX_ATTACH_PYTHON_FIELDS_H

#include "attach/python/objects.h"

/* Each adds a layout to the snapshot; *ret: its index in snapshot.layouts + 1; left alone where it
 * would have no fields. */

hx_error *hx_py_layout_of_class(const struct hx_py_objects *objects,
                                const struct hx_py_class *class, uint32_t *ret);

/* Of a block of values that objects of a class have: the first one is at `at`. */
hx_error *hx_py_layout_of_values(const struct hx_py_objects *objects,
                                 const struct hx_py_class *class, uint64_t at, uint32_t *ret);

/* Of a block of words: of all the same name, `alike` or with a number before it. */
hx_error *hx_py_layout_of_words(const struct hx_py_objects *objects, const char *name, bool alike,
                                uint32_t *ret);

#endif
