/* folder.h - private folders for what heapx keeps for a while: nobody else can look or write there.
 *
 * A folder is WHERE/heapx-XXXXXX, 0700, and locked (flock) while it is in use, which other
 * PID namespaces see, too. What a heapx that was killed has left is removed by the next one of the
 * same user that makes a folder in the same place.
 */
#ifndef HX_BASE_FOLDER_H
#define HX_BASE_FOLDER_H

#include "base/cleanup.h"
#include "base/error.h"

#include <stdbool.h>

struct hx_folder {
    int fd;     /* -1: none */
    int where;  /* the folder in which it lies */
    char *path; /* WHERE/heapx-XXXXXX, for others who look for it by name */
};

#define HX_FOLDER_NONE ((struct hx_folder){.fd = -1, .where = -1})

/* Makes one in `where`. HX_E_PERM when other users could exchange it there. */
hx_error *hx_folder_make(const char *where, struct hx_folder *ret);

/* The same in the folder for temporary files: TMPDIR, else /tmp. */
hx_error *hx_folder_make_temporary(struct hx_folder *ret);

/* Removes it with what lies in it, and keeps the descriptor. False: something was made there
 * meanwhile. */
bool hx_folder_clear(struct hx_folder *folder);

/* The same, and lets go of it; legal for none. */
void hx_folder_remove(struct hx_folder *folder);
#define HX_FOLDER HX_CLEANUP(hx_folder_remove)

/* Is it a folder of this user's that nobody else can use? */
struct stat;
bool hx_folder_is_private(int folder, struct stat *ret);

#endif
