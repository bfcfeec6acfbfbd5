/* objects.h - which blocks hold Python objects, and what else they have. */
#ifndef HX_ATTACH_PYTHON_OBJECTS_H
#define HX_ATTACH_PYTHON_OBJECTS_H

#include "attach/python/classes.h"
#include "base/progress.h"

/* Blocks that an object has to itself. */
enum hx_py_part {
    HX_PY_PART_KEYS,
    HX_PY_PART_ITEMS,
    HX_PY_PART_TABLE,
    HX_PY_PART_BYTES,
    HX_PY_PART_TEXT,
    HX_PY_PART_VALUES,
    HX_PY_PARTS,
};

/* What a block is: a class, a part, the values of a class's attributes, or a container that belongs
 * to an attribute. */
enum hx_py_role {
    HX_PY_ROLE_NONE,
    HX_PY_ROLE_OBJECT, /* of: its class */
    HX_PY_ROLE_PART,   /* of: enum hx_py_part */
    HX_PY_ROLE_VALUES, /* of: the class */
};
#define HX_PY_ROLE(role, of) ((uint32_t)(role) << 29 | (uint32_t)(of))
#define HX_PY_ROLE_OF(word)  ((word)&0x1fffffff)
#define HX_PY_ROLE_IS(word)  ((enum hx_py_role)((word) >> 29))

struct hx_py_objects {
    struct hx_py_classes *classes;
    struct hx_snapshot *snapshot;
    uint64_t before; /* bytes that the interpreter's debug hooks put before each block */
    uint32_t *role;  /* of each object of the graph */
    struct hx_big role_mem;
};

hx_error *hx_py_objects_find(struct hx_py_objects *objects, unsigned threads,
                             const struct hx_progress *progress);
void hx_py_objects_deinit(struct hx_py_objects *objects);

/* The class of the object in block i; HX_PY_NO_CLASS: none. */
static inline uint32_t hx_py_class_of(const struct hx_py_objects *objects, hx_obj i)
{
    const uint32_t role = objects->role[i];
    return HX_PY_ROLE_IS(role) == HX_PY_ROLE_OBJECT ? HX_PY_ROLE_OF(role) : HX_PY_NO_CLASS;
}

/* The same of block i: one that malloc gave to the interpreter has them twice. */
uint64_t hx_py_before(const struct hx_py_objects *objects, hx_obj i);

/* Where the object in block i is. */
static inline uint64_t hx_py_object_at(const struct hx_py_objects *objects, hx_obj i,
                                       const struct hx_py_class *class)
{
    return objects->snapshot->graph.addr[i] + hx_py_before(objects, i) + class->prefix;
}

/* The block that the word at an address of block i leads to; HX_NO_OBJ: none. */
hx_obj hx_py_follow(const struct hx_py_objects *objects, hx_obj i, uint64_t addr);

/* The kinds of edges and root edges, by whether they lead to objects. */
void hx_py_judge_edges(const struct hx_py_objects *objects, unsigned threads,
                       const struct hx_progress *progress);

#endif
