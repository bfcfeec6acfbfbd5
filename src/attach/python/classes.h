/* classes.h - types of Python objects: is an address one's, how large are its objects, and what are
 * they called?
 *
 * A type proves itself: its own type is `type` or another type whose objects are types, its name is
 * text, it is ready, and its sizes can be. Nothing else of the target is believed for it.
 */
#ifndef HX_ATTACH_PYTHON_CLASSES_H
#define HX_ATTACH_PYTHON_CLASSES_H

#include "attach/python/interpreter.h"
#include "base/text.h"
#include "base/pairs.h"

#include <pthread.h>

#define HX_PY_CLASSES_MAX ((size_t)1 << 20)
#define HX_PY_NAME_MAX    256 /* bytes of a name */
#define HX_PY_NO_CLASS    UINT32_MAX
#define HX_PY_ATTRIBUTES  30 /* whose names a class shares with its objects */

/* Offsets in objects, which are the same in all versions that are known. */
enum {
    HX_PY_REFCOUNT = 0,
    HX_PY_TYPE = 8,
    HX_PY_SIZE = 16, /* number of items, in those that have some */
    HX_PY_HEAD = 16,
    HX_PY_TP_NAME = 24,
    HX_PY_TP_BASICSIZE = 32,
    HX_PY_TP_ITEMSIZE = 40,
    HX_PY_TP_FLAGS = 168,
    HX_PY_TP_WEAKLIST = 208,
    HX_PY_TP_MEMBERS = 240,
    HX_PY_TP_BASE = 256,
    HX_PY_TP_DICT = 264,
    HX_PY_TP_DICTOFFSET = 288,
    HX_PY_DICT_KEYS = 32,
    HX_PY_DICT_VALUES = 40,
    HX_PY_LIST_ITEMS = 24,
    HX_PY_LIST_ALLOCATED = 32,
    HX_PY_SET_MASK = 32,
    HX_PY_SET_TABLE = 40,
    HX_PY_BYTEARRAY_ALLOCATED = 24,
    HX_PY_BYTEARRAY_BYTES = 32,
    HX_PY_STR_STATE = 32,
    HX_PY_MODULE_DICT = 16,
    HX_PY_MODULE_NAME = 48,
    HX_PY_WEAK_OBJECT = 16,
    HX_PY_WEAK_PREVIOUS = 40,
    HX_PY_WEAK_NEXT = 48,
    HX_PY_KEYS_ENTRIES = 32, /* behind them the table of indices, then entries */
    HX_PY_BEFORE_DICT = 24,  /* before an object: a dict, or values of attributes */
    HX_PY_BEFORE_OTHER = 32, /* 3.11: values of attributes; from 3.12 on weak references */
};

/* What differs. */
struct hx_py_layout {
    uint32_t version;
    uint16_t qualname, cached_keys; /* of types that a program made */
    uint16_t ascii, compact;        /* bytes of str objects before their text */
    uint16_t str_utf8, str_data;    /* pointers to text in other blocks */
    bool inline_values;             /* behind the object */
    bool tagged_values;             /* in the place of the dict, as an odd address */
    bool long_tag;                  /* digits of a number are counted in its tag */
    bool weak_before;               /* weak references can be in the words before */
};

/* The word at HX_PY_STR_STATE. */
enum { HX_PY_STR_COMPACT = 1 << 5, HX_PY_STR_ASCII = 1 << 6 };

enum hx_py_kind {
    HX_PY_PLAIN,
    HX_PY_INT,
    HX_PY_LIST,
    HX_PY_TUPLE,
    HX_PY_BYTES,
    HX_PY_STR,
    HX_PY_DICT,
    HX_PY_CLASS,
    HX_PY_SET,
    HX_PY_BYTEARRAY,
    HX_PY_CODE,
    HX_PY_MODULE,
    HX_PY_WEAK,
};

enum {
    HX_PY_FLAG_INLINE = 1 << 2, /* from 3.13 on */
    HX_PY_FLAG_WEAK = 1 << 3,   /* from 3.12 on */
    HX_PY_FLAG_DICT = 1 << 4,
    HX_PY_FLAG_HEAP = 1 << 9,
    HX_PY_FLAG_READY = 1 << 12,
    HX_PY_FLAG_GC = 1 << 14,
};
#define HX_PY_FLAG_IS_TYPE (UINT64_C(1) << 31)

struct hx_py_class {
    uint64_t addr, flags, basicsize, itemsize;
    uint64_t values_first, values_bytes; /* of a block that values of attributes have: where they
                                            begin, and all; 0: they have none */
    uint32_t prefix;                     /* bytes of a block before the object */
    uint32_t number;                     /* HX_PY_NO_CLASS: there is no type at addr */
    enum hx_py_kind kind;
    bool exact; /* the interpreter's own, and no class made of it */
};

struct hx_py_classes {
    const struct hx_py_layout *layout;
    const struct hx_image *image;
    const struct hx_peek *peek; /* also of what no image has, such as names of types */
    uint64_t type_type, weak_type;
    pthread_mutex_t lock;
    HX_VEC(struct hx_py_class) class; /* by number */
    struct hx_pairs by_addr;          /* to numbers */
    bool nomem;
};

/* HX_E_ABSENT: nothing is known of this version. All is borrowed. */
hx_error *hx_py_classes_init(struct hx_py_classes *classes, const struct hx_python *python,
                             hx_modules *modules, const struct hx_image *image,
                             const struct hx_peek *peek);
void hx_py_classes_deinit(struct hx_py_classes *classes);

/* The type at addr. Safe from any thread. */
struct hx_py_class hx_py_class_at(struct hx_py_classes *classes, uint64_t addr);

/* Appends its full name, "dict", "module.Class". False: there is no memory. */
bool hx_py_put_class(struct hx_py_classes *classes, const struct hx_py_class *class,
                     struct hx_text *text);

/* Appends the text of a str, at most HX_PY_NAME_MAX characters, without control characters. False:
 * it is none such. (strings.c) */
bool hx_py_put_str(const struct hx_py_classes *classes, uint64_t str, struct hx_text *text);

/* The same of any characters, and no more than `max`: then "..." follows. What is no character is
 * written as Python does, "\udc80". */
bool hx_py_put_any_str(const struct hx_py_classes *classes, uint64_t str, uint64_t max,
                       struct hx_text *text);

/* Appends text that ends with a null byte. */
bool hx_py_put_text(const struct hx_py_classes *classes, uint64_t addr, struct hx_text *text);

/* The keys of a dict, or those that the objects of a class share. */
struct hx_py_keys {
    uint64_t addr, entries; /* of the first entry */
    uint64_t room, used;    /* entries */
    uint64_t shared;        /* so many values have objects that share the keys */
    uint64_t stride, value; /* of an entry; of its value in it */
    uint64_t bytes;         /* of the block */
};
bool hx_py_keys_at(const struct hx_py_classes *classes, uint64_t addr, struct hx_py_keys *ret);

/* Appends the text of the key of entry i. */
bool hx_py_put_key(const struct hx_py_classes *classes, const struct hx_py_keys *keys, uint64_t i,
                   struct hx_text *text);

/* The names that objects of the class have of their attributes; false: they have none. */
bool hx_py_shared_keys(const struct hx_py_classes *classes, const struct hx_py_class *class,
                       struct hx_py_keys *ret);

#endif
