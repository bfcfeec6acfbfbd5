/* folder.h - the private folder in which a program under `heapx run` and heapx find each other.
 *
 * The program makes its region there (ring.h), and leaves a word when it cannot; the link `reader`
 * tells it who reads. It is removed when heapx ends; one that a killed heapx has left is removed by
 * the next one of the same user.
 */
#ifndef HX_ATTACH_RECORD_FOLDER_H
#define HX_ATTACH_RECORD_FOLDER_H

#include "base/error.h"

/* Makes one (0700), where there is memory and room if possible. The caller frees the path, closes
 * the descriptor, and removes the folder. */
hx_error *hx_folder_make(char **ret, int *ret_fd);

/* Leaves the link that tells who reads. */
void hx_folder_sign(int folder_fd);

/* Removes what lies in it. */
void hx_folder_empty(int folder_fd);

#endif
