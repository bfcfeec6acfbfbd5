/* meeting_folder.h - the private folder through which a program under `heapx run` and heapx find
 * each other.
 *
 * The program makes its region there (ring.h), or says why it cannot. The link `reader` names the
 * process that reads.
 */
#ifndef HX_RECORD_MEETING_FOLDER_H
#define HX_RECORD_MEETING_FOLDER_H

#include "base/folder.h"

/* Makes one with that link, on tmpfs and where there is room if possible. */
hx_error *hx_record_folder_make(struct hx_folder *ret);

#endif
