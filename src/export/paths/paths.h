/* paths.h - weighted paths from the roots to the leaves: what all formats of stacks are made from.
 *
 * The paths of a snapshot are one tree; equal ones are one, and what a node has of its own is what
 * ends there. Memory goes with the number of different paths, which has a bound, and while it is
 * loaded with that of objects: some 20 bytes each for dominators, the whole graph for chains.
 */
#ifndef HX_EXPORT_PATHS_PATHS_H
#define HX_EXPORT_PATHS_PATHS_H

#include "export/export.h"

#include "base/index.h"
#include "base/pairs.h"
#include "base/vec.h"

/* Words of --by that have paths. The first ones are stacks as recorded (of cost centres, of calls
 * with their lines), the merged trees of dominators and of holders, and shortest chains from roots;
 * all others have one frame. */
#define HX_PATHS_BY "ccs site dominator holder chain *"

/* What a path weighs; in the order of Go's heap profiles. */
enum hx_path_value {
    HX_PATH_ALLOC_OBJECTS,
    HX_PATH_ALLOC_BYTES,
    HX_PATH_OBJECTS,
    HX_PATH_BYTES,
    HX_PATH_VALUES
};

#define HX_PATHS_DEPTH 1000    /* frames of a path at most; the rest is "(deeper)" */
#define HX_PATHS_LONG  128     /* from here on a type that recurs leads back to where it was */
#define HX_PATHS_NODES 4000000 /* of a tree; what is beyond is "(other)" */
#define HX_PATHS_NAME  65535   /* bytes of a name; longer ones are cut */

/* Texts are owned, valid UTF-8, escaped as base/text.h does; "" for what is not known. No two
 * frames of a table are the same in all of them. */
struct hx_path_frame {
    char *name;
    char *symbol; /* the linker's name, where that is another one; else "" */
    char *module, *file;
    uint32_t line; /* 0: not known */
};

/* Invariants: node 0 is the top, of frame HX_NO_FRAME; parent < index of each other node; no two
 * children of a node have the same frame. */
#define HX_NO_FRAME UINT32_MAX
struct hx_path {
    uint32_t parent, frame, depth; /* depth: frames of its path */
    uint64_t own[HX_PATH_VALUES];  /* at most INT64_MAX */
};

/* Which texts tell frames apart, beside their names; others are "". And what was allocated, too:
 * else only stacks that have something now are loaded. */
enum { HX_PATHS_MODULES = 1, HX_PATHS_LINES = 2, HX_PATHS_COSTS = 4 };

struct hx_paths {
    unsigned detail; /* HX_PATHS_MODULES, ...; set it before the first load */
    HX_VEC(struct hx_path_frame) frames;
    HX_VEC(struct hx_path) nodes;
    /* of what was loaded */
    const char *by;
    bool has_objects, has_alloc; /* the values were measured */
    uint64_t sample_bytes;       /* alloc: mean bytes between samples; 0: each was recorded */
    uint64_t recurring, deeper, beyond, cut_names; /* how often these bounds were met */
    /* for looking things up */
    struct hx_index frame_index;
    struct hx_pairs entries; /* from a node and a frame to the node of both */
    uint32_t other, below;   /* the frames "(other)" and "(deeper)"; HX_NO_FRAME: not made yet */
};

/* Loads the paths of one snapshot by export->by, or by what the store has, in place of those of
 * another one; frames stay. HX_E_ABSENT when it has none. */
hx_error *hx_paths_load(const struct hx_export *export, int64_t snapshot, struct hx_paths *paths);
void hx_paths_deinit(struct hx_paths *paths);
#define HX_PATHS __attribute__((cleanup(hx_paths_deinit)))

/* Lines of export->notes: which bounds were met. Call it once. */
void hx_paths_note(const struct hx_export *export, const struct hx_paths *paths);

/* What each node and all below it have: nodes.n numbers, the caller's to free. Sums stop at
 * INT64_MAX. */
hx_error *hx_paths_inclusive(const struct hx_paths *paths, enum hx_path_value value,
                             uint64_t **ret);

/* Nodes (but the top) with a value of their own: what becomes a sample or a line. */
size_t hx_paths_samples(const struct hx_paths *paths);

/* Merges the lightest paths into "(other)" where they leave the others, until there are at most so
 * many samples (at least 1) and no node has less than `least` of `value` with all below it. All
 * sums stay. *ret_merged counts the samples that were merged. */
struct hx_paths_cut {
    size_t samples;
    enum hx_path_value value;
    uint64_t least;
};
hx_error *hx_paths_cut(struct hx_paths *paths, const struct hx_paths_cut *cut, size_t *ret_merged);

/* Nodes in the order of the tree: parents before children, siblings by name, or the heaviest first
 * and then by name. nodes.n numbers, the caller's to free. */
hx_error *hx_paths_order(const struct hx_paths *paths, const uint64_t *weight, uint32_t **ret);

/* Frames of a node's path: ret[0 .. depth), the root first; ret has room for HX_PATHS_DEPTH + 1. */
uint32_t hx_paths_frames(const struct hx_paths *paths, uint32_t node, uint32_t *ret);

/* --- while paths are made (paths_load.c) --- */

/* A tree with nothing but its top. */
hx_error *hx_paths_clear(struct hx_paths *paths);

/* The frame of these texts, which are copied and escaped; NULL: not known. */
struct hx_frame_texts {
    const char *name, *module, *source; /* source: FILE:LINE */
    const char *symbol;                 /* the linker's name */
};
hx_error *hx_paths_frame(struct hx_paths *paths, const struct hx_frame_texts *texts, uint32_t *ret);

/* The child of a node; made when it is not there. */
hx_error *hx_paths_child(struct hx_paths *paths, uint32_t node, uint32_t frame, uint32_t *ret);

/* The same for a step along objects: a frame that follows itself stays one, and a long path goes
 * back to where its next frame stands already. */
hx_error *hx_paths_step(struct hx_paths *paths, uint32_t node, uint32_t frame, uint32_t *ret);

/* Adds to a value, up to INT64_MAX. */
static inline void hx_paths_add(uint64_t *sum, uint64_t value)
{
    *sum = value > (uint64_t)INT64_MAX - *sum ? (uint64_t)INT64_MAX : *sum + value;
}

#endif
