/* type_table.h - what debug information says of types and variables, as flat arrays.
 *
 * A table is one piece of memory without pointers, so that it can be made in another process, kept
 * in a cache and compared byte for byte. Nobody who made one is trusted: hx_type_table_open() tests
 * every number in it, and what it has let through can be walked without looking at bounds again.
 *
 * Types are numbered from 0; type 0 is HX_TYPE_OPAQUE, of which nothing is known (void, a function,
 * a type that is only declared). Typedefs and qualifiers are seen through: no type stands for them,
 * but a record, union or enum without a name of its own is called by the typedef that names it.
 * No two types of a table are equal in name, kind, size and parts.
 *
 * Invariants, tested by hx_type_table_open():
 *   records and unions have all fields, one behind the other in the order of types:
 *   first of the first one 0, of each other first + n of the one before, at the end n_fields
 *   type[t].target < n_types                   (whatever it is)
 *   array: size == count * size of target, or count == 0 (a flexible array, or of unknown length)
 *   a record contains only types with smaller numbers by value (field, base, array element), so
 *   nothing contains itself; how deep containment goes is at most HX_TYPE_DEPTH
 *   field.offset + size of field.type <= size of its record, but for a flexible array at the end
 *   fields of a record are sorted by offset; offsets in strings are below n_bytes, which end in 0
 *   variables are sorted by (tls, vaddr)
 */
#ifndef HX_MODEL_TYPE_TABLE_H
#define HX_MODEL_TYPE_TABLE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum hx_type_kind {
    HX_TYPE_OPAQUE, /* void, functions, what is only declared */
    HX_TYPE_INT,    /* integers, characters, bool */
    HX_TYPE_FLOAT,  /* and complex */
    HX_TYPE_ENUM,
    HX_TYPE_POINTER, /* and reference; target OPAQUE: void *, to a function, ... */
    HX_TYPE_ARRAY,   /* of several dimensions: of arrays */
    HX_TYPE_RECORD,  /* struct, class */
    HX_TYPE_UNION,
    HX_TYPE_KINDS
};

#define HX_TYPE_DEPTH 64
#define HX_TYPES_MAX  ((uint32_t)1 << 24) /* of one table; fields: 4 times as many */

enum {
    HX_TYPE_POLYMORPHIC = 1, /* it, or a base at offset 0, has a pointer to a vtable there */
    HX_TYPE_DECLARED = 2,    /* OPAQUE with a name: only declared; merging looks for its like */
    HX_TYPE_CHAR = 4, /* INT of one byte that is a character (char, unsigned char, char8_t) */
    HX_TYPE_CXX = 8,  /* from a unit in C++: its name is unique in the program (ODR) */
};

struct hx_type_entry {
    uint32_t name; /* offset in strings: full name, "ns::Node<int>", "struct" left out; "": none */
    uint8_t kind;  /* enum hx_type_kind */
    uint8_t flags;
    uint16_t depth;  /* of containment by value: 0 when it contains nothing */
    uint64_t size;   /* sizeof; 0: unknown or empty */
    uint32_t target; /* pointer: to what; array: of what; else 0 */
    uint32_t first;  /* records and unions: first field */
    uint32_t n;      /* and how many */
    uint32_t pad;
    uint64_t count; /* array: elements; 0: flexible or unknown */
};

enum {
    HX_FIELD_BASE = 1,    /* a base class; its name is that of the class */
    HX_FIELD_VIRTUAL = 2, /* a virtual base: offset is not known, 0; not walked */
    HX_FIELD_BITS = 4,    /* a bit-field: never a pointer */
    HX_FIELD_VPTR = 8,    /* the compiler's pointer to a vtable */
};

struct hx_type_field {
    uint32_t name; /* offset in strings; "" for an anonymous member */
    uint32_t type;
    uint64_t offset; /* in bytes */
    uint32_t flags;
    uint32_t pad;
};

/* A global variable, a static one of a class or function, or a thread-local one. */
struct hx_type_variable {
    uint64_t vaddr; /* p_vaddr; tls: offset in the module's TLS block */
    uint32_t
        name; /* full: "ns::cache", of a function's static "f()::last" as the linker names it */
    uint32_t type;
    uint32_t tls;     /* 0 or 1 */
    uint32_t linkage; /* linker's name, offset in strings; "": none */
};

struct hx_type_table {
    const struct hx_type_entry *type;
    const struct hx_type_field *field;
    const struct hx_type_variable *variable;
    const char *strings;
    uint32_t n_types, n_fields, n_variables;
    uint64_t n_bytes;   /* of strings */
    uint64_t left_out;  /* types, fields and variables that bounds left out */
    const void *memory; /* of all of them: what hx_type_table_open() was given */
    size_t bytes;
};

static inline const char *hx_type_table_name(const struct hx_type_table *table, uint32_t type)
{
    return table->strings + table->type[type].name;
}

static inline bool hx_type_is_record(const struct hx_type_entry *type)
{
    return type->kind == HX_TYPE_RECORD || type->kind == HX_TYPE_UNION;
}

/* The header that stands before the arrays, in the order: types, fields, variables, strings. */
struct hx_type_table_head {
    uint64_t magic; /* HX_TYPE_TABLE_MAGIC: changes when the layout or the reading changes */
    uint32_t n_types, n_fields, n_variables, pad;
    uint64_t n_bytes, left_out;
};
#define HX_TYPE_TABLE_MAGIC 0x3130545058485448u

/* Tests `memory` and makes a table of it, which borrows it. An error says what is wrong with it. */
hx_error *hx_type_table_open(const void *memory, size_t bytes, struct hx_type_table *ret);

/* --- what lies at an offset --------------------------------------------------- */

/* What a word at an offset of a type is. */
enum hx_word_kind {
    HX_WORD_UNKNOWN, /* a union, an 8-byte integer, an array of char, behind an opaque end */
    HX_WORD_POINTER, /* `target` is what it points to; 0 (OPAQUE): void * and its like */
    HX_WORD_VPTR,
    HX_WORD_NONE, /* no pointer can stand there: small integers, floats, enums, padding */
};
struct hx_word_type {
    enum hx_word_kind kind;
    uint32_t target;
};

/* The aligned word at `offset` of an object of a type, in which the type may repeat (an array of
 * them; `repeat` false: what lies behind its size is UNKNOWN when its last field is a flexible
 * array that no type explains, else NONE). */
struct hx_word_type hx_type_word(const struct hx_type_table *table, uint32_t type, uint64_t offset,
                                 bool repeat);

/* Is that word a pointer to the type of a record that it lies in, as those of a list's head are? */
bool hx_type_is_link(const struct hx_type_table *table, uint32_t type, uint64_t offset);

/* Appends the path of fields to the scalar at `offset` as a programmer writes it: "next",
 * "pos.x", "[3].slots[2].key"; of a union "name" alone. False: nothing lies there. */
struct hx_text;
bool hx_type_put_path(const struct hx_type_table *table, uint32_t type, uint64_t offset,
                      bool repeat, struct hx_text *text);

#endif
