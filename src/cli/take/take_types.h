/* take_types.h - types of objects by debug information, for a snapshot that is taken. */
#ifndef HX_CLI_TAKE_TAKE_TYPES_H
#define HX_CLI_TAKE_TAKE_TYPES_H

#include "attach/types/debug_types.h"
#include "cli/take/take.h"
#include "traverse/typing/typing.h"

/* Zeroed to begin. */
struct hx_take_types {
    struct hx_debug_types debug;
    hx_type_hints hints;
    hx_typing *typing; /* NULL: the program has no debug information */
};

/* Types the objects of a capture that was scanned. */
hx_error *hx_take_types(struct hx_session *session, struct hx_snapshot *snapshot,
                        const struct hx_progress *progress, struct hx_take_types *ret);
/* Once words were judged: ranks by types, and names of fields. */
hx_error *hx_take_typed_words(struct hx_take_types *types, struct hx_snapshot *snapshot);
void hx_take_types_deinit(struct hx_take_types *types);

#endif
