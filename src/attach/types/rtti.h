/* rtti.h - the class of a C++ object, by what its vtable says.
 *
 * Itanium C++ ABI, as GCC and Clang follow it on x86-64. The first word of an object of a
 * polymorphic class is the address of a vtable:
 *
 *   object ---> vtable[-2]  offset from here to the top of the complete object, 0 or less
 *               vtable[-1]  typeinfo ---> [0] vtable of the typeinfo's own class ---+
 *               vtable[0]   functions     [1] name of the class, mangled            |
 *                                                                                   |
 *   ... whose [-1] is the typeinfo of the typeinfo's class, and its name one of    <+
 *   __cxxabiv1::__class_type_info, __si_class_type_info, __vmi_class_type_info
 *
 * The last name is the proof; it is there in stripped and in static programs too. Classes
 * built without RTTI have none and stay without a type. The rules, the first that holds:
 *
 *   word 0 is a vtable of offset 0                          T,   certain
 *   a count, a vtable behind it, and what new[] would have
 *   asked for; the second element agrees                    T[], certain
 *   one of the words 1 to 16 is a vtable whose complete
 *   object begins there or with the block                   T,   likely
 *
 * The last rule finds an object inside the node of a container and behind the header of an
 * exception (16 words). During construction and destruction an object shows its base class.
 */
#ifndef HX_ATTACH_TYPES_RTTI_H
#define HX_ATTACH_TYPES_RTTI_H

#include "base/progress.h"
#include "model/snapshot.h"

#define HX_RTTI_WORDS  17    /* of an object that are looked at */
#define HX_MANGLED_MAX 4096  /* bytes of a name */
#define HX_CLASSES_MAX 65536 /* the others are counted in losses */

/* Where vtables are, and how to read what the image lacks. */
struct hx_rtti_source {
    const struct hx_range *range; /* the segments of modules, sorted, apart */
    size_t n_ranges;
    /* Bytes that are as in the module's file. Safe from any thread. May be NULL. */
    bool (*read)(void *context, uint64_t addr, void *dst, size_t len);
    /* Has a module another symbol that reads so, but for ABI tags? NULL: none has. */
    bool (*has_namesake)(void *context, const char *symbol, const char *untagged);
    void *context;
};

/* Fills graph.type and types (replacing what was there; sorted by name) from the image. An
 * empty graph stays without both. threads as in struct hx_scan_options. */
hx_error *hx_rtti(struct hx_snapshot *snapshot, const struct hx_rtti_source *source,
                  unsigned threads, const struct hx_progress *progress);

#endif
