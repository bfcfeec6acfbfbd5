/* spool.h - a file that comes through a pipe, as one that can be read from any place on.
 *
 * "-" is standard input. A pipe, a FIFO or a socket (`<(zcat x.eventlog.gz)`, core_pattern,
 * coredumpctl) is read to its end into a private file without a name in TMPDIR, which is gone when
 * the spool is closed. Zeros take no room there. So much of the file system stays free that others
 * can go on; interrupts end the reading. */
#ifndef HX_CLI_TAKE_SPOOL_H
#define HX_CLI_TAKE_SPOOL_H

#include "base/cleanup.h"
#include "base/error.h"
#include "base/progress.h"

struct hx_spool {
    const char *name; /* for people */
    const char *path; /* to be opened: the word itself, or that file */
    int fd;           /* -1: there is none */
    char own[32];
};

/* Reads what stands at the path; nothing of what is no pipe. */
hx_error *hx_spool_open(const char *path, const struct hx_progress *progress, struct hx_spool *ret);
void hx_spool_close(struct hx_spool *spool);

/* An error about the path, told about what the user named. */
hx_error *hx_spool_error(const struct hx_spool *spool, hx_error *error);

#define HX_SPOOL HX_CLEANUP(hx_spool_close)

#endif
