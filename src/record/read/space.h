/* space.h - the code mappings of a recorded process: from addresses to locations in files.
 *
 * Keeps /proc/PID/maps, and reads it again on hx_space_refresh() or, at a limited rate, when an
 * address is in no mapping. Files are numbered by the hx_code of the recording.
 */
#ifndef HX_RECORD_READ_SPACE_H
#define HX_RECORD_READ_SPACE_H

#include "base/progress.h"
#include "record/read/reader.h"
#include "sym/code/code.h"

typedef struct hx_space hx_space;

/* `code` must outlive it. */
hx_error *hx_space_create(pid_t pid, hx_code *code, hx_space **ret);
/* Of the mappings of a snapshot; nothing is read again. */
hx_error *hx_space_create_fixed(pid_t pid, hx_code *code, const struct hx_mapping *mapping,
                                size_t n, hx_space **ret);
void hx_space_destroy(hx_space *space); /* NULL is legal */

/* Reads the mappings again. A process that is gone keeps what was known; so does one that has no
 * mappings any more. */
hx_error *hx_space_refresh(hx_space *space);

/* For struct hx_reader_source: context is the space. Finds data of a file, too. */
void hx_space_locate(void *space, uint64_t pc, struct hx_location *ret);

/* The executable mapping that contains pc, NULL when there is none. Until the next refresh. */
struct hx_space_part {
    uint64_t start, end;
    uint32_t file; /* HX_NO_FILE: a JIT, or a file that is gone */
    uint64_t bias; /* p_vaddr = address - bias */
};
const struct hx_space_part *hx_space_find(hx_space *space, uint64_t pc);

/* All of them, by address. */
size_t hx_space_parts(const hx_space *space, const struct hx_space_part **ret);

/* Unwinds on from a frame with the tables of the files, or by frame pointers where code has none.
 * Appends return addresses to frame[*n ...max), and a bit to *exact for what a signal interrupted.
 * `state`, where it is not NULL, has as many places: the registers of each frame that is appended.
 * True: the outermost frame was reached. */
bool hx_space_unwind(hx_space *space, struct hx_cfi_frame from,
                     bool (*read)(void *context, uint64_t addr, uint64_t *ret), void *context,
                     uint64_t *frame, struct hx_cfi_frame *state, size_t max, size_t *n,
                     uint64_t *exact);

/* Fills in what code is called (naming.c): files, lines, initialiser and recorder of the places of
 * a recording that the reader froze, and the types of its sizes. Regions have their lines already,
 * and work that was put off has none. Any thread may, also while another one places stacks with the
 * same code. */
hx_error *hx_recording_name(struct hx_recording *recording, hx_code *code,
                            const struct hx_progress *progress);

/* The same without types; places that have no lines at the deadline (CLOCK_MONOTONIC) are named by
 * symbols alone. A look-up that has begun is ended. */
hx_error *hx_recording_name_until(struct hx_recording *recording, hx_code *code,
                                  uint64_t deadline_ns, const struct hx_progress *progress);

#endif
