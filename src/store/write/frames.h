/* frames.h - recorded stacks as the store has them: one tree of frames for the whole file.
 *
 * A frame is its parent and a place: a function at a place in code (an inlined one is a frame of
 * its own), a region that the program pushed, or a captured stack that was entered. It has one
 * number for good. What is in the store is read first; what is new gets numbers behind it. Parents,
 * and entered stacks, stand before those who name them. Each place but entered ones has a cost
 * centre (hx_centre), the code object or region that it is.
 *
 * For whoever attributes stacks: hx_frames_load(), hx_frames_make(), then frame i of the array is
 * node i here, and its centre an index in `centres`.
 */
#ifndef HX_STORE_WRITE_FRAMES_H
#define HX_STORE_WRITE_FRAMES_H

#include "base/pairs.h"
#include "base/text.h"
#include "base/vec.h"
#include "cost/ccs.h"
#include "store/sqlite.h"

#include <stdbool.h>

/* Cost centres that every store has; their index is their number less 1. All but the last have
 * frames of the same numbers, and all of them cost-centre stacks. */
enum hx_builtin {
    HX_CCS_MAIN = 1,
    HX_CCS_BEFORE,   /* "<before attach>" */
    HX_CCS_UNKNOWN,  /* "<unknown>" */
    HX_CCS_CUT,      /* "<cut>": above stacks whose outermost frames are missing */
    HX_CCS_RECORDER, /* "<recorder>": what the recorder itself asked for */
};
enum { HX_BUILTINS = HX_CCS_RECORDER, HX_BUILTIN_FRAMES = HX_CCS_CUT };
const char *hx_builtin_name(int64_t ccs_id); /* NULL: it is none */

#define HX_FRAMES_NO_FILE UINT32_MAX

/* A function at a place in code, or what else can stand in a stack. */
struct hx_frames_place {
    uint32_t file;         /* what hx_frames_file() gave, HX_FRAMES_NO_FILE */
    uint64_t vaddr, entry; /* entry: where its function begins; 0: unknown, or it is inlined */
    int32_t inlined;       /* how many functions at the place it is inlined into; -1: built in */
    const char *label, *module, *source; /* source of the call; NULL: unknown */
    uint8_t kind;                        /* enum hx_frame_kind */
    uint8_t initialiser;                 /* enum hx_rec_initialiser */
    uint32_t target;                     /* HX_FRAME_DEFERRED: a node; HX_NO_PAIR: not known */
    hx_centre centre;                    /* what hx_frames_centre() gave, HX_NO_CENTRE */
};

enum hx_centre_kind { HX_CENTRE_FUNCTION, HX_CENTRE_REGION, HX_CENTRE_CAF, HX_CENTRE_BUILTIN };

/* A cost centre; `entry` tells functions apart of which nothing is declared, and regions. */
struct hx_frames_centre {
    enum hx_centre_kind kind;
    uint32_t file;
    const char *label, *module, *source; /* source: where it is declared; NULL: unknown */
    const char *symbol;                  /* the linker's name, no part of what it is; or NULL */
    uint64_t entry;
};

struct hx_frames_node {
    int64_t id;
    uint32_t parent; /* index; that of MAIN is its own */
    uint32_t place;
    uint32_t depth;
    uint64_t identity; /* of the whole stack, the same in every store; never 0 */
};

struct hx_known_centre {
    int64_t id;
    enum hx_centre_kind kind;
    uint32_t file;
    uint64_t identity;                    /* the same in every store; never 0 */
    size_t label, module, source, symbol; /* in strings; source, symbol SIZE_MAX: unknown */
    uint32_t next;                        /* of the same identity; HX_NO_PAIR: none */
};

struct hx_known_file;
struct hx_known_place;
struct hx_frames {
    sqlite3 *db;
    const char *what;
    HX_VEC(struct hx_frames_node) node;
    HX_VEC(struct hx_known_centre) centres;
    size_t n_stored, centres_stored; /* of them in the store */

    /* its own */
    bool interning; /* there are tables to find what is known */
    HX_VEC(struct hx_known_file) files;
    HX_VEC(struct hx_known_place) places;
    size_t files_stored, places_stored;
    HX_VEC(char) strings;
    struct hx_pairs children, by_hash; /* (parent, place) to node; hash to the first of a chain */
    struct hx_pairs centre_by_identity;
};

/* Reads what the store has. With `interning` more may be made, and the built-in ones are; else a
 * store without frames has none. HX_E_CORRUPT: they make no sense. */
hx_error *hx_frames_load(sqlite3 *db, const char *what, bool interning, struct hx_frames *ret);
void hx_frames_deinit(struct hx_frames *frames);

/* What a centre is called; valid until one more is made. */
const char *hx_frames_label(const struct hx_frames *frames, hx_centre centre);
const char *hx_frames_module(const struct hx_frames *frames, hx_centre centre);
const char *hx_frames_source(const struct hx_frames *frames, hx_centre centre); /* or NULL */

/* The frames as traverse/ccs.h has them: *ret (malloc'ed) has frames->node.n. Makes the CAFs of the
 * modules that need one, and stores them, where there are none. HX_E_CORRUPT. */
hx_error *hx_frames_make(struct hx_frames *frames, struct hx_frame **ret);

/* Are two nodes of one centre the same code? Clones of a function, and parts that were split from
 * it, are of its centre, too. What is not known to differ is the same. */
bool hx_frames_same_code(const struct hx_frames *frames, size_t a, size_t b);

/* The index of a number; SIZE_MAX: there is none. */
size_t hx_frames_index(const struct hx_frames *frames, int64_t frame_id);

/* --- for whoever writes: the number of a file, a centre, a place, and of a child of a node, made
 * where there is none --- */
hx_error *hx_frames_file(struct hx_frames *frames, const char *path, const char *name,
                         const char *build_id, uint32_t *ret);
hx_error *hx_frames_centre(struct hx_frames *frames, const struct hx_frames_centre *centre,
                           hx_centre *ret);
hx_error *hx_frames_place(struct hx_frames *frames, const struct hx_frames_place *place,
                          uint32_t *ret);
hx_error *hx_frames_child(struct hx_frames *frames, uint32_t parent, uint32_t place, uint32_t *ret);
/* The node of `<recorder>`, which has no number of its own in files of an older schema. */
hx_error *hx_frames_recorder(struct hx_frames *frames, uint32_t *ret);

/* As hx_frames_load(), from a store that came from schema 3: gives the places their centres, and
 * stores these. */
hx_error *hx_frames_adopt(sqlite3 *db, const char *what, struct hx_frames *ret);

/* The hash that identities are made with, step by step. */
uint64_t hx_frames_mix(uint64_t hash, uint64_t word);

/* Writes what is new. */
hx_error *hx_frames_store(struct hx_frames *frames);

#endif
