/* typing.h - objects get the types that pointers to them have, by debug information.
 *
 * A word of a typed root or object whose type is T * says that what it points to the start of is a
 * T; its fields go on, to a fixed point. No bytes are read: edges have source, offset and target,
 * so the same works at the stop, on a core, and on a store. What is said of one object is weighed:
 *
 *   its vtable             certain
 *   typed pointers         likely; guess where they disagree. The type that most of them have, but
 *                          one that begins with another one says more than that
 *                          A block that is too large for a type is what begins with it, when only
 *                          one type does and is as large: guess
 *   where it was allocated guess: nearly all others from there are of one type
 *
 * A type is believed where the block has room for one (what malloc rounds up may be left over), for
 * several (T[], behind their number, too), or for one with a flexible array, and where its edges
 * are not in fields that cannot hold a pointer. void *, char *, unions and integers prove nothing;
 * hints (type_hints.h) say what is behind some of them.
 */
#ifndef HX_TRAVERSE_TYPING_TYPING_H
#define HX_TRAVERSE_TYPING_TYPING_H

#include "base/progress.h"
#include "model/snapshot.h"
#include "model/type_table.h"
#include "query/type_hints.h"

/* All borrowed. */
struct hx_typing_source {
    const struct hx_type_table *table;
    const struct hx_typed_place *place; /* by address, apart; registers first, by root */
    size_t n_places;
    const hx_type_hints *hints; /* NULL: none */
    unsigned threads;           /* as in hx_threads() */
};

typedef struct hx_typing hx_typing;

/* Types what snapshot.types (of vtables) leaves, and makes these anew: graph.type, graph.typed,
 * types and layouts. Needs edges and root edges. */
hx_error *hx_typing_find(struct hx_snapshot *snapshot, const struct hx_typing_source *source,
                         const struct hx_progress *progress, hx_typing **ret);

/* What types say of words, once other rules have judged these: ranks (rules `pointer`, `scalar`,
 * `other` and `lent`), and snapshot.layouts, the fields that edges and root edges go through. */
hx_error *hx_typing_tell(hx_typing *typing, struct hx_snapshot *snapshot);

void hx_typing_destroy(hx_typing *typing); /* NULL is legal */

static inline void hx_cleanup_typing(hx_typing **typing)
{
    hx_typing_destroy(*typing);
}
#define HX_TYPING __attribute__((cleanup(hx_cleanup_typing)))

#endif
