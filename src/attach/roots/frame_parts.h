/* frame_parts.h - which words of stacks and registers belong to which function, and to which
 * variable of it.
 *
 * Of functions that debug information tells of; what lies in the frames of others stays a part of
 * their thread's stack. A register that a function further inside has saved is where it was saved.
 */
#ifndef HX_ATTACH_ROOTS_FRAME_PARTS_H
#define HX_ATTACH_ROOTS_FRAME_PARTS_H

#include "base/vec.h"
#include "model/snapshot.h"
#include "sym/code/code.h"

#include <sys/types.h>

/* Of more the stacks of threads are told of only. */
#define HX_FRAME_PARTS_MAX 1000000

/* Strings belong to the set of files. */
struct hx_frame_part {
    uint64_t start, end; /* in memory; of a register: its number (hx_reg_name()), and one more */
    const char *function, *module;
    const char *local; /* NULL: of no variable that is known */
    const char *type;  /* the variable's, as hx_type_table_find() wants it; "": unknown */
    uint64_t sp;       /* the frame begins there */
    pid_t tid;         /* of a register: whose; else 0 */
};
typedef HX_VEC(struct hx_frame_part) hx_frame_part_list;

typedef struct hx_frame_parts {
    hx_frame_part_list parts;     /* by address and apart, when hx_frame_parts_join() was called */
    hx_frame_part_list registers; /* by thread and number, from then on */
    hx_frame_part_list spans;     /* frames as they came */
    bool full;                    /* there were more */
} hx_frame_parts;

/* file: that of the frame's code, in the set of files. */
hx_error *hx_frame_parts_add(hx_frame_parts *frames, hx_code *code, uint32_t file,
                             const struct hx_stopped_frame *frame);

/* Brings all of them together: of parts that lie over each other the one that begins first stays.
 */
hx_error *hx_frame_parts_join(hx_frame_parts *frames);

/* The part around an address, or the next one behind it; NULL: there is none. */
const struct hx_frame_part *hx_frame_parts_find(const hx_frame_parts *frames, uint64_t address);

/* The variable that a thread's register holds; NULL: none is known. */
const struct hx_frame_part *hx_frame_parts_register(const hx_frame_parts *frames, pid_t tid,
                                                    size_t number);

void hx_frame_parts_deinit(hx_frame_parts *frames); /* a zeroed one is legal */

#endif
