/* pin.h - a path that was followed once: the folder is held open, so that nobody can exchange it
 * afterwards, and it is known who could put something else at the name in it.
 *
 * What is opened, made, moved or removed by `at` lies in that folder, whatever is renamed
 * meanwhile. That the name itself may be exchanged is for the caller: O_NOFOLLOW, O_EXCL and
 * fstat().
 */
#ifndef HX_BASE_PIN_H
#define HX_BASE_PIN_H

#include "base/cleanup.h"
#include "base/error.h"

#include <stdbool.h>
#include <sys/stat.h>

struct hx_pin {
    int folder;        /* O_PATH; -1: nothing is pinned */
    char *name;        /* in the folder; "." for the folder itself; there may be no such file */
    char *at;          /* /proc/self/fd/FOLDER/NAME */
    const char *doubt; /* why another user than we, root, and the owner of the folder or file could
                          choose what lies there; NULL: nobody can */
};

#define HX_PIN_NONE ((struct hx_pin){.folder = -1})

/* Follows a path with its links. An error when a folder on the way is missing (ENOENT), or when the
 * path ends in a link to nothing. */
hx_error *hx_pin(const char *path, struct hx_pin *ret);

/* A name in a folder that is open, without a doubt. */
hx_error *hx_pin_in(int folder, const char *name, struct hx_pin *ret);

void hx_pin_deinit(struct hx_pin *pin);
#define HX_PIN HX_CLEANUP(hx_pin_deinit)

/* The error that says why nothing is written at a pinned path with a doubt. */
hx_error *hx_pin_doubted(const struct hx_pin *pin, const char *what);

/* Is this user one of whom we need not be afraid: ourselves, or root? */
bool hx_trusted_user(uid_t user);

#endif
