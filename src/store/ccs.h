/* ccs.h - the tree of cost centres while it is written.
 *
 * One tree for the whole store: a node (a cost-centre stack) is its parent and a place in code, and
 * has one number for good. What is in the store is read first, what is new gets numbers behind it
 * and is written at once. Parents stand before their children.
 */
#ifndef HX_STORE_CCS_H
#define HX_STORE_CCS_H

#include "base/text.h"
#include "base/vec.h"
#include "store/pairs.h"
#include "store/sqlite.h"

/* Nodes that every tree has; their index is their number less 1. */
enum hx_ccs_builtin {
    HX_CCS_MAIN = 1,
    HX_CCS_BEFORE,  /* "<before attach>" */
    HX_CCS_UNKNOWN, /* "<unknown>" */
    HX_CCS_CUT,     /* "<cut>": above stacks whose outermost frames are missing */
};
const char *hx_ccs_builtin_name(int64_t ccs_id); /* NULL: it is none */

#define HX_CCS_NO_FILE UINT32_MAX

/* A function at a place in code. */
struct hx_ccs_place {
    uint32_t file; /* what hx_ccs_file() gave, HX_CCS_NO_FILE */
    uint64_t vaddr;
    int32_t inlined; /* how many functions at the place it is inlined into; -1: built in */
    const char *label, *module, *source; /* source NULL: unknown */
};

struct hx_ccs_node {
    int64_t id;
    uint32_t parent; /* index; MAIN's is its own */
    uint32_t place;
    uint32_t depth;
    uint64_t identity; /* of the whole stack, the same in every store; never 0 */
};

struct hx_ccs_known_file;
struct hx_ccs_known_place;
struct hx_ccs {
    sqlite3 *db;
    const char *what;
    HX_VEC(struct hx_ccs_node) node;
    size_t n_stored; /* of them in the store */

    /* its own */
    HX_VEC(struct hx_ccs_known_file) files;
    HX_VEC(struct hx_ccs_known_place) places;
    size_t files_stored, places_stored;
    HX_VEC(char) strings;
    struct hx_pairs children, by_hash; /* (parent, place) to node; hash to the first of a chain */
};

/* Reads what the store has; makes the built-in nodes where there are none. */
hx_error *hx_ccs_load(sqlite3 *db, const char *what, struct hx_ccs *ret);
void hx_ccs_deinit(struct hx_ccs *ccs);

/* The number of a file, of a place, and of a child of a node, made where there is none. */
hx_error *hx_ccs_file(struct hx_ccs *ccs, const char *path, const char *name, const char *build_id,
                      uint32_t *ret);
hx_error *hx_ccs_place(struct hx_ccs *ccs, const struct hx_ccs_place *place, uint32_t *ret);
hx_error *hx_ccs_child(struct hx_ccs *ccs, uint32_t parent, uint32_t place, uint32_t *ret);

/* The index of a number; SIZE_MAX: there is none. */
size_t hx_ccs_index(const struct hx_ccs *ccs, int64_t ccs_id);

/* Writes what is new. */
hx_error *hx_ccs_store(struct hx_ccs *ccs);

#endif
