/* take_types.h - types of objects by debug information, for a snapshot that is taken. */
#ifndef HX_CLI_TAKE_TAKE_TYPES_H
#define HX_CLI_TAKE_TAKE_TYPES_H

#include "cli/take/take.h"

/* Types the objects of a capture whose words were judged, ranks words by types, and names fields.
 * What blocks alike tell was found before, by what vtables say alone: types would part them. */
hx_error *hx_take_types(struct hx_session *session, struct hx_snapshot *snapshot,
                        const struct hx_progress *progress);

/* A snapshot that is stored under this number, and waits for names, hands its stacks over. */
hx_error *hx_keep_stacks(struct hx_session *session, int64_t number, struct hx_snapshot *snapshot);

struct hx_debug_types;

/* The same of a snapshot whose debug information was read, also of a stored one. */
hx_error *hx_type_objects(const struct hx_args *args, struct hx_snapshot *snapshot,
                          const struct hx_debug_types *types, const struct hx_progress *progress);

#endif
