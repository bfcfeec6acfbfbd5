/* core.h - an ELF core as a target: what a stopped process would have shown.
 *
 * Cores of gcore and of the kernel, whole or cut short, 64-bit little-endian x86-64. A core is a
 * hostile file: what lies is refused with its offset, what is missing is counted.
 *
 * core.c        headers and segments
 * core_notes.c  threads, process, files, auxiliary vector
 * core_files.c  the files that the process had mapped, as they lie here, by build id
 * core_map.c    mappings, with the names that the kernel would have given them
 * core_image.c  memory
 */
#ifndef HX_ATTACH_CORE_CORE_H
#define HX_ATTACH_CORE_CORE_H

#include "base/progress.h"
#include "model/snapshot.h"

typedef struct hx_core hx_core;

/* Is the file an ELF core? False also when it cannot be read. */
bool hx_core_detect(const char *path);

/* Reads headers and notes. exe (NULL: none): the main program's file; sysroot (NULL: none): the
 * folder below which the other files lie. */
hx_error *hx_core_open(const char *path, const char *exe, const char *sysroot, hx_core **ret);
void hx_core_close(hx_core *core); /* NULL is legal */

/* Fills in process, mappings, threads and image, and what is missing of them. threads: readers; 0:
 * decide. */
hx_error *hx_core_take(hx_core *core, unsigned threads, const struct hx_progress *progress,
                       struct hx_snapshot *snapshot);

/* Did the newest one lack memory that the core should have? */
bool hx_core_lacks_memory(const hx_core *core);

#endif
