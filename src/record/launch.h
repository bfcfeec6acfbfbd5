/* launch.h - starting a program with the recording library in it. */
#ifndef HX_RECORD_LAUNCH_H
#define HX_RECORD_LAUNCH_H

#include "base/folder.h"
#include "record/record.h"

#define HX_RECORD_LIBRARY "libheapx-record.so"

/* About what the library makes a malloc and its free take longer, ten frames deep, as measured by
 * `scripts/bench record` (the table is in doc/figures.md): each recorded, and sampled by 512K.
 * While a program runs, the library times some of its own: see struct hx_record_overhead. */
#define HX_LAUNCH_PAIR_NS    70
#define HX_LAUNCH_SAMPLED_NS 5

/* A program that was started, or is about to be, and its folder of regions (ring.h). */
struct hx_launched {
    pid_t pid;               /* of the program; the caller reaps it */
    struct hx_folder folder; /* on tmpfs where there is one */
    int folder_fd;           /* the folder's; -1: none, it is not preloaded */
    int go_fd, status_fd;
    bool preloaded;
    struct hx_launched_announcer *announcer; /* NULL: none */
};

/* Whether a program can have the library: HX_E_LIMIT and why, when it is static, gains rights on
 * start, or brings its own malloc. Looks through PATH as execvp does, and at a script's
 * interpreter. */
hx_error *hx_launch_possible(const char *command);

/* The path of the library: beside heapx (a build folder), else where it was installed. The caller
 * frees. */
hx_error *hx_launch_library(char **ret);

/* Makes the process that will be argv, with the library preloaded (`preload` false: without it). It
 * waits for hx_launched_go(), and ends when heapx does before. */
hx_error *hx_launch(char *const *argv, bool preload, const struct hx_record_options *options,
                    struct hx_launched *ret);

/* Around hx_launched_go(): the program is held at its first instruction, so that probes can be set.
 * It goes on by itself when heapx ends. */
hx_error *hx_launched_hold(const struct hx_launched *launched);
hx_error *hx_launched_held(const struct hx_launched *launched);
void hx_launched_release(const struct hx_launched *launched);

/* Lets it become the program. The errors of execvp come back; then the process is gone. */
hx_error *hx_launched_go(struct hx_launched *launched, const char *command);

/* Why the library in a process of the program does not record: one sentence, which the process has
 * left in the folder and which is taken from there. False: it said nothing. */
bool hx_launched_why(const struct hx_launched *launched, pid_t pid, char *ret, size_t size);

/* Nobody will read the region of that process; it does not wait for anybody. */
void hx_launched_refuse(const struct hx_launched *launched, pid_t pid);

/* From now on a thread tells processes whose regions are not open yet that heapx is alive;
 * otherwise they wait no longer than a second. hx_launched_deinit() ends the thread. */
hx_error *hx_launched_announce(struct hx_launched *launched);

/* How many processes have left such a sentence, and one of these. */
size_t hx_launched_unrecorded(const struct hx_launched *launched, char *ret, size_t size);

/* Whose is the region that has a process's number? A stranger's is of another PID namespace, as
 * its library says. One that is being made cannot be told yet. Of one that is gone the process has
 * ended, or become another program. */
enum hx_launched_owner {
    HX_LAUNCHED_OWN,
    HX_LAUNCHED_GONE,
    HX_LAUNCHED_FOREIGN,
    HX_LAUNCHED_UNKNOWN,
};
enum hx_launched_owner hx_launched_owner(const struct hx_launched *launched, pid_t pid);

/* Removes the folder; regions that are mapped stay so. A process that waits to become the program
 * ends, and one whose region is not open stops waiting. */
void hx_launched_deinit(struct hx_launched *launched);

#endif
