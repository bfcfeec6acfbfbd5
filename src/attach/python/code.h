/* code.h - code objects of Python: which function of which file, which line, which variables. */
#ifndef HX_ATTACH_PYTHON_CODE_H
#define HX_ATTACH_PYTHON_CODE_H

#include "attach/python/classes.h"

#define HX_PY_CODES_MAX  ((size_t)1 << 14)
#define HX_PY_LOCALS_MAX 4096                  /* variables of one function that get their names */
#define HX_PY_STACK_MAX  65536                 /* values that a function has on its stack */
#define HX_PY_TABLE_MAX  ((size_t)1 << 20)     /* bytes of a table of lines that are read */
#define HX_PY_TABLES_MAX ((uint64_t)256 << 20) /* the same of all that are asked for */

/* Offsets in code objects. */
struct hx_py_code_layout {
    uint16_t stacksize, first_line, n_locals, local_names, file, name, qualname, lines, code;
};

struct hx_py_code {
    uint64_t addr, start, bytes;  /* of the object; of its instructions */
    char *name, *qualname, *file; /* "add", "Cache.add", "/srv/cache.py"; owned */
    uint64_t local_names;         /* a tuple of n_locals names */
    uint64_t lines, n_lines;      /* the bytes of its table of lines */
    uint32_t first_line, n_locals, n_stack;
};

struct hx_py_codes {
    struct hx_py_classes *classes;
    const struct hx_py_code_layout *layout;
    HX_VEC(struct hx_py_code) code;
    struct hx_pairs by_addr; /* to numbers */
    uint8_t *table;          /* HX_PY_TABLE_MAX */
    uint64_t looked_at;      /* bytes of tables */
};

/* The number of the code object at addr; HX_NO_PAIR: it makes no sense, or there are too many. */
hx_error *hx_py_code_at(struct hx_py_codes *codes, uint64_t addr, uint32_t *ret);

/* The line of the instruction at an address; 0: it has none, or nobody knows. */
hx_error *hx_py_code_line(struct hx_py_codes *codes, uint32_t code, uint64_t instruction,
                          uint32_t *ret);

/* Appends the name of a variable; false: it has none. */
bool hx_py_code_put_local(const struct hx_py_codes *codes, uint32_t code, uint32_t local,
                          struct hx_text *text);

void hx_py_codes_deinit(struct hx_py_codes *codes);

/* What a table of lines (co_linetable, from 3.11 on) says of a unit of code, which is two bytes
 * long; 0: it has no line. */
uint32_t hx_py_line_of(const uint8_t *table, size_t n, uint32_t first_line, uint64_t unit);

#endif
