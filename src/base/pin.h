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

/* Who else than we, root, and the owner of the folder or file could choose what lies there. */
enum hx_pin_doubt {
    HX_PIN_SURE,   /* nobody */
    HX_PIN_LED,    /* whose link was followed, to what is not his */
    HX_PIN_SHARED, /* who may write in the folder, which has no sticky bit */
};

struct hx_pin {
    int folder; /* O_PATH; -1: nothing is pinned */
    char *name; /* in the folder; "." for the folder itself; there may be no such file */
    char *at;   /* /proc/self/fd/FOLDER/NAME */
    enum hx_pin_doubt doubt;
};

#define HX_PIN_NONE ((struct hx_pin){.folder = -1})

/* Follows a path with its links. An error when a folder on the way is missing (ENOENT), or when the
 * path ends in a link to nothing. Only what /proc has for a pipe or a device (/dev/stdout) is still
 * a link at the end. */
hx_error *hx_pin(const char *path, struct hx_pin *ret);

/* A name in a folder that is open, without a doubt. */
hx_error *hx_pin_in(int folder, const char *name, struct hx_pin *ret);

void hx_pin_deinit(struct hx_pin *pin);
#define HX_PIN HX_CLEANUP(hx_pin_deinit)

/* The error that says why nothing is written at a pinned path with a doubt. */
hx_error *hx_pin_doubted(const struct hx_pin *pin, const char *what);

/* Opens a file for results of a command (open(), with O_CREAT and others of its flags). A link of
 * another user is not followed to what is not his, and no second name that another one may have
 * made is overwritten. */
hx_error *hx_pin_write(const char *path, int flags, int *ret);

/* May somebody else give a file of ours another name in this folder? */
bool hx_pin_named_by_others(int folder);

/* Is this user one of whom we need not be afraid: ourselves, or root? */
bool hx_trusted_user(uid_t user);

#endif
