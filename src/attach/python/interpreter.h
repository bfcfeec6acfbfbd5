/* interpreter.h - the CPython interpreter in a target, if there is one, and its version.
 *
 * The program or its libpython exports _PyRuntime, PyType_Type and, from 3.11 on, Py_Version. From
 * 3.13 on _PyRuntime begins with a table of offsets for debuggers (_Py_DebugOffsets), whose cookie
 * and version have to agree. Layouts in this folder and in alloc/pymalloc.c hold for the versions
 * from HX_PYTHON_FIRST to HX_PYTHON_LAST.
 */
#ifndef HX_ATTACH_PYTHON_INTERPRETER_H
#define HX_ATTACH_PYTHON_INTERPRETER_H

#include "attach/alloc/alloc.h"

#define HX_PYTHON(major, minor) ((uint32_t)(major) << 8 | (uint32_t)(minor))
#define HX_PYTHON_FIRST         HX_PYTHON(3, 11)
#define HX_PYTHON_LAST          HX_PYTHON(3, 14)

struct hx_python {
    size_t module;
    uint32_t hex;        /* Py_Version; 0: it has none, as before 3.11 */
    uint32_t version;    /* HX_PYTHON() of it */
    uint64_t runtime;    /* where _PyRuntime is */
    uint64_t type_type;  /* where PyType_Type is */
    const char *refusal; /* why nothing can be told of its heap; NULL: it is one of those known */
};

/* False: there is none. Cheap where no file of a target is called python. */
bool hx_python_find(hx_modules *modules, const struct hx_peek *peek, struct hx_python *ret);

/* "3.11.2"; NULL: no memory, or not known. */
char *hx_python_version(const struct hx_python *python);

#endif
