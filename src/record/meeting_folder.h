/* meeting_folder.h - the private folder in which a program under `heapx run` and heapx find each
 * other.
 *
 * The program makes its region there (ring.h), and leaves a word when it cannot; the link `reader`
 * tells it who reads.
 */
#ifndef HX_RECORD_MEETING_FOLDER_H
#define HX_RECORD_MEETING_FOLDER_H

#include "base/folder.h"

/* Makes one where there is memory and room if possible, with that link. */
hx_error *hx_record_folder_make(struct hx_folder *ret);

#endif
