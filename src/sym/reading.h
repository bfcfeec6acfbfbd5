/* reading.h - how much is read of files that a target chose, who may end it, and what was given up.
 *
 * Whoever starts a program chooses its files, and what these name: separate debug information,
 * checksums, packed tables. All bounds on what is read of one file stand here. They are far above
 * what the largest programs have, and count bytes, which are the same on a slow machine; time has
 * one bound, for what no count of bytes foresees. What lies beyond is left out and told.
 *
 * Figures of browsers are estimates: they are the largest programs that people look at.
 */
#ifndef HX_SYM_READING_H
#define HX_SYM_READING_H

#include "base/progress.h"
#include "base/vec.h"

#include <pthread.h>

#define HX_MIB ((uint64_t)1 << 20)

/* A table of symbols or of their names, unwind tables, relocations, code: browsers with everything
 * linked in have 300 MiB of names. */
#define HX_READ_TABLE (512 * HX_MIB)
/* All tables of debug information, unpacked: Chromium's are a little more than 1 GiB. */
#define HX_READ_DEBUG (2048 * HX_MIB)
/* The line table of one unit: the largest units that are written have less than 1 MiB, a library
 * that the linker optimised as one piece some. Each byte can take 100 of memory. */
#define HX_READ_LINES (16 * HX_MIB)
/* A file whose checksum is asked for, in one piece of disk: only files from before build-ids. */
#define HX_READ_CHECKED (1024 * HX_MIB)
/* .gnu_debugdata, and what is in it: symbols of functions, 10 MiB for a browser. */
#define HX_READ_PACKED   (32 * HX_MIB)
#define HX_READ_UNPACKED (128 * HX_MIB)
#define HX_READ_UNPACKER                                                                           \
    (256 * HX_MIB) /* memory of the decoder: the strongest setting takes 65                        \
                    */
/* Section headers, names of sections, notes: compilers write some ten, and a few KiB. */
#define HX_READ_SECTIONS ((uint64_t)1 << 16)
#define HX_READ_SEGMENTS ((uint64_t)1 << 12)
#define HX_READ_NAMES    (16 * HX_MIB)
#define HX_READ_NOTES    HX_MIB
/* Symbols of functions of one file; units of its debug information: Chromium has 1.5 million, and
 * 60,000. A unit that was looked at takes 300 bytes. */
#define HX_READ_SYMBOLS ((size_t)4 << 20)
#define HX_READ_UNITS   ((size_t)1 << 20)
/* Processor time for names by the debug information of one file; a browser's takes 4 s. */
#define HX_READ_FILE_NS ((uint64_t)10000000000)
/* The same for the table of its types, which is read once: 1 GiB takes 15 to 20 s. */
#define HX_READ_TYPES_NS ((uint64_t)60000000000)

#define HX_UNREAD_SYMBOLS "symbols beyond the first 4 million"

/* A part of a file that was left out. */
struct hx_unread {
    char *path, *what;
};

/* Of all files of a target. Any thread may read; only the one that listens is ended. */
struct hx_reading {
    pthread_mutex_t lock;
    HX_VEC(struct hx_unread) unread;                /* each once, the first ones */
    uint64_t n_unread;                              /* all of them */
    _Atomic(const atomic_bool *) cancel, exhausted; /* of hx_progress */
    pthread_t listener;
    _Atomic uint64_t late_ns; /* CLOCK_MONOTONIC; 0: never */
    pthread_t hurried;
};

void hx_reading_init(struct hx_reading *reading);
void hx_reading_deinit(struct hx_reading *reading);

/* What this thread reads from now on ends soon after `progress` was cancelled, without a result;
 * NULL: no more. */
void hx_reading_listen(struct hx_reading *reading, const struct hx_progress *progress);

/* Is it to end? Never when reading is NULL. */
bool hx_reading_ended(const struct hx_reading *reading);

/* What this thread asks of debug information from now on ends at deadline_ns (CLOCK_MONOTONIC) as
 * if it were cancelled; symbols are read all the same. 0: it takes as long as it takes. */
void hx_reading_hurry(struct hx_reading *reading, uint64_t deadline_ns);

/* Has this thread such a deadline? */
bool hx_reading_hurries(const struct hx_reading *reading);

/* Is debug information to be left alone, for that or because reading is to end? */
bool hx_reading_late(const struct hx_reading *reading);

/* Sorts like qsort_r(), stably, unless reading is to end or there is no memory: false. */
bool hx_reading_sort(const struct hx_reading *reading, void *v, size_t n, size_t size,
                     int (*compare)(const void *a, const void *b, void *context), void *context);

/* Appends what was left out, as one sentence. *ret_n: how many parts; 0: none, and no sentence. */
struct hx_text;
void hx_reading_tell(struct hx_reading *reading, struct hx_text *text, uint64_t *ret_n);

/* Notes that a part was left out; not when it was because reading is to end. */
void hx_reading_leave(struct hx_reading *reading, const char *path, const char *what);

#endif
