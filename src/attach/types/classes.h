/* classes.h - the C++ classes of a target: from the address of a vtable to a name.
 *
 * What proves a class is told in attach/rtti.h. All that is read is the target's: names have
 * a bound, chains are followed a fixed number of steps, and no more than HX_CLASSES_MAX
 * classes are kept.
 */
#ifndef HX_ATTACH_TYPES_CLASSES_H
#define HX_ATTACH_TYPES_CLASSES_H

#include "attach/types/rtti.h"

#include <pthread.h>
#include <stdatomic.h>

#define HX_NO_CLASS UINT32_MAX

/* What an address says that could be that of a vtable. */
struct hx_vtable {
    uint64_t addr;
    uint32_t class; /* index in names; HX_NO_CLASS: it is none; HX_CLASSES_MAX: one too many */
    int32_t top;    /* offset to the top of the complete object: 0 or less */
};

struct hx_class {
    char *name, *symbol; /* "Node", "_ZTI4Node" */
};

struct hx_typeinfo;

struct hx_classes {
    const struct hx_image *image; /* both borrowed */
    const struct hx_rtti_source *source;
    atomic_bool nomem;             /* there was no memory for a class */
    HX_VEC(struct hx_class) names; /* two can have the same; read it when no thread asks */
    struct hx_typeinfo *info;      /* those that were looked at, at most half of the slots */
    size_t n_infos;
    pthread_mutex_t lock; /* guards names and info */
};

hx_error *hx_classes_init(struct hx_classes *classes, const struct hx_image *image,
                          const struct hx_rtti_source *source);

/* Reads the words before addr and what they lead to. Safe from any thread. */
struct hx_vtable hx_classes_vtable(struct hx_classes *classes, uint64_t addr);

/* Where a word begins to look in a table of 2^k slots. */
static inline size_t hx_classes_hash(uint64_t addr, size_t slots)
{
    return (size_t)(addr / 8 * 0x9e3779b97f4a7c15u >> 32) & (slots - 1);
}

void hx_classes_deinit(struct hx_classes *classes);

#endif
