/* image.h - synthetic heaps, drawn as text.
 *
 * hx_image_draw() makes a snapshot of a heap that never was: objects, roots, and an
 * image that holds their words. The text is a list of items that ';' or line ends
 * separate; '#' begins a comment up to the line's end.
 *
 *   obj NAME SIZE [@ADDR]: WORD...     an object of SIZE usable bytes
 *   root NAME [KIND] [@ADDR] [/SIZE]: WORD...
 *                                      KIND: global (default), stack, frame, tls,
 *                                      mapping, named, register
 *   cluster MODULE [@ADDR] [/SIZE]: WORD...
 *                                      a nameless root with load bias CLUSTER_BIAS
 *   hole ADDR SIZE                     these bytes (multiples of 8) are not in the image
 *
 *   WORD = [OFFSET->] VALUE            put VALUE at this offset, else at the next word
 *   VALUE = NUMBER | NAME[+NUMBER]     a plain word, or the address of that object
 *
 * "obj a 48: 8->b+16 0x1234; obj b 24; root g: a" is an object a whose second word
 * points into b and whose third one is a number; root g's first word points to a.
 * Objects without an address follow each other with 16 bytes between, from HEAP_BASE
 * on; roots from ROOT_BASE on, with ROOT_GAP bytes between.
 */
#ifndef HX_TEST_IMAGE_H
#define HX_TEST_IMAGE_H

#include "model/snapshot.h"

#define HX_DRAW_HEAP_BASE    UINT64_C(0x10000000)
#define HX_DRAW_ROOT_BASE    UINT64_C(0x700000000000)
#define HX_DRAW_ROOT_GAP     4096
#define HX_DRAW_CLUSTER_BIAS UINT64_C(0x600000000000)

/* Names, to find objects again in the snapshot. */
struct hx_drawing {
    struct hx_snapshot *snapshot;
    struct hx_drawn {
        char *name;
        uint64_t addr;
    } * drawn;
    size_t n;
};

/* HX_E_CORRUPT names the line of a mistake. */
hx_error *hx_image_draw(const char *text, struct hx_drawing *ret);
void hx_drawing_deinit(struct hx_drawing *drawing);

/* The index of a drawn object, which must be there (else HX_NO_OBJ). */
hx_obj hx_drawing_object(const struct hx_drawing *drawing, const char *name);
/* The index of a root by name, UINT32_MAX when it is not (or no longer) there. */
uint32_t hx_drawing_root(const struct hx_drawing *drawing, const char *name);

/* For graphs made by programs: a snapshot of objects with given places (n of them, sorted)
 * without an image. */
hx_error *hx_image_plain(const uint64_t *addr, const uint64_t *size, hx_obj n,
                         struct hx_snapshot **ret);

/* An edge of a graph that is given by its edges. */
struct hx_drawn_edge {
    uint32_t source; /* object; in root edges: root */
    hx_obj target;
    uint8_t kind;
};

/* `wanted` objects, or as many as the index has room for. */
static inline hx_obj hx_image_objects(uint64_t wanted)
{
    return wanted < HX_OBJECTS_MAX ? (hx_obj)wanted : HX_OBJECTS_MAX;
}

/* A snapshot of n objects with these edges, sorted by source, whose offsets grow from 0 in
 * steps of 8; and of n_roots globals "r0", "r1", ... in the same way. No image. */
hx_error *hx_image_graph(hx_obj n, const struct hx_drawn_edge *edge, size_t n_edges,
                         uint32_t n_roots, const struct hx_drawn_edge *root_edge,
                         size_t n_root_edges, struct hx_snapshot **ret);

#endif
