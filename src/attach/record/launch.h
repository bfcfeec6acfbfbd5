/* launch.h - starting a program with the recording library in it. */
#ifndef HX_ATTACH_RECORD_LAUNCH_H
#define HX_ATTACH_RECORD_LAUNCH_H

#include "attach/record/record.h"

/* A program that was started, its folder of regions (ring.h), and its recorded processes. */
struct hx_launched {
    pid_t pid;    /* of the program; the caller reaps it */
    char *folder; /* private, on tmpfs where there is one; owned */
    int folder_fd;
    bool preloaded; /* false: it cannot be (static, set-uid): only a bare start */
};

/* Whether a program can have the library: HX_E_LIMIT and why, when it is static or gains rights on
 * start. Looks through PATH as execvp does. */
hx_error *hx_launch_possible(const char *command);

/* Starts argv with the library preloaded (`preload` false: without it), stopped by nothing; it runs
 * at once. Errors of execvp come back. */
hx_error *hx_launch(char *const *argv, bool preload, const struct hx_record_options *options,
                    struct hx_launched *ret);

/* Lets go of the folder (regions that are mapped stay so). */
void hx_launched_deinit(struct hx_launched *launched);

#endif
