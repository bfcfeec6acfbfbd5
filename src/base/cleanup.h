/* cleanup.h - scope guards by the cleanup attribute.
 *
 * Guards of a type of ours stand next to that type; here are those of libc's.
 * hx_steal(x) hands a guarded pointer on and disarms its guard.
 */
#ifndef HX_BASE_CLEANUP_H
#define HX_BASE_CLEANUP_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define HX_CLEANUP(function) __attribute__((cleanup(function)))

static inline void hx_cleanup_free(void *slot)
{
    free(*(void **)slot);
}

static inline void hx_cleanup_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
}

static inline void hx_cleanup_file(FILE **file)
{
    if (*file)
        fclose(*file);
}

static inline void hx_cleanup_dir(DIR **dir)
{
    if (*dir)
        closedir(*dir);
}

#define HX_FREE HX_CLEANUP(hx_cleanup_free)
#define HX_FD   HX_CLEANUP(hx_cleanup_fd)
#define HX_FILE HX_CLEANUP(hx_cleanup_file)
#define HX_DIR  HX_CLEANUP(hx_cleanup_dir)

#define hx_steal(pointer)                                                                          \
    ({                                                                                             \
        __auto_type hx_stolen_ = (pointer);                                                        \
        (pointer) = NULL;                                                                          \
        hx_stolen_;                                                                                \
    })

#endif
