/* type_build.h - making a table of types: what was read, or tables of several files, each type
 * once.
 *
 * Types are added in any order and refer to each other by their numbers here. What is equal is
 * found by hashes that are refined in rounds (as in partition refinement): name, kind, size and
 * fields, and then the same of what fields and pointers lead to.
 */
#ifndef HX_MODEL_TYPE_BUILD_H
#define HX_MODEL_TYPE_BUILD_H

#include "base/index.h"
#include "base/vec.h"
#include "model/type_table.h"

struct hx_type_build {
    HX_VEC(struct hx_type_entry) types; /* types.v[0] is HX_TYPE_OPAQUE; records: first and n */
    HX_VEC(struct hx_type_field) fields;
    HX_VEC(struct hx_type_variable) variables;
    HX_VEC(char) strings;
    struct hx_index by_string;
    uint64_t seed, left_out;
    uint64_t most_bytes; /* of all of it; what is more is left out; 0: no bound */
};

hx_error *hx_type_build_init(struct hx_type_build *build);
void hx_type_build_deinit(struct hx_type_build *build);

/* The offset of a string. */
hx_error *hx_type_build_string(struct hx_type_build *build, const char *s, size_t n, uint32_t *ret);

/* Is there no room for more? */
bool hx_type_build_is_full(const struct hx_type_build *build);

/* A hash of each type, equal for equal ones: hash[types.n - from] of those from `from` on. `known`
 * (may be NULL) has those of earlier ones. */
hx_error *hx_type_build_hash(const struct hx_type_build *build, uint32_t from,
                             const uint64_t *known, uint64_t *hash);

/* Each type once, what is only declared replaced by what is defined of that name, in the order of
 * type_table.h, as one malloc'ed block. `number` (types.n of them; may be NULL): each type's number
 * in it. The build is of no use afterwards. */
hx_error *hx_type_build_finish(struct hx_type_build *build, uint32_t *number, void **ret,
                               size_t *ret_bytes);

#endif
