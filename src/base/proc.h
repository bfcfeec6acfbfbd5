/* proc.h - reading /proc/PID: text files whole, and figures of a process and its threads. */
#ifndef HX_BASE_PROC_H
#define HX_BASE_PROC_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Reads a file of /proc to its end, NUL-terminated. Bounded by 1 GiB. The caller frees. */
hx_error *hx_proc_read(const char *path, char **ret, size_t *ret_len);

/* The same; *longest_ns: how long the longest read took, where that was less. */
hx_error *hx_proc_read_timed(const char *path, char **ret, size_t *ret_len, uint64_t *longest_ns);

/* The same of the file that the format names; NULL when it cannot be read. The caller frees. */
char *hx_proc_text(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* "Name:\tVALUE" of a status text: the value as text, NULL when there is no such line. The
 * result points into text. */
const char *hx_proc_field(const char *text, const char *name);

/* The name of a thread from its status text, without the kernel's escapes (\n and \\). Cut at
 * size - 1 bytes; "" when there is none. */
void hx_proc_name(const char *status, char *buf, size_t size);

/* n numbers of /proc/PID/task/TID/stat, or of /proc/PID/stat where tid is 0, from a field on that
 * comes after the third. False: it is gone. Nothing is allocated. */
bool hx_proc_stat(pid_t pid, pid_t tid, int field, uint64_t *ret, int n);

/* Processor time of all threads of a process. False, and *ret as it was: it is gone. */
bool hx_proc_cpu_ns(pid_t pid, uint64_t *ret);

/* The state letter of a thread from /proc/PID/task/TID/stat ('R', 'S', 'D', 'Z', 't', ...), 0
 * when the thread is gone. */
char hx_proc_state(pid_t pid, pid_t tid);

/* When the process or thread began, in clock ticks since the machine did: tells it from a later
 * one of the same number. 0 when it is gone. */
uint64_t hx_proc_started(pid_t pid);

/* The same as nanoseconds since 1970-01-01 UTC, by the clocks of now; 0: not known. */
int64_t hx_proc_started_at_ns(pid_t pid);

/* The thread by which /proc shows the memory of a process: pid itself, or another thread when
 * the first one has exited (a zombie shows none); 0 when all have. */
pid_t hx_proc_living(pid_t pid);

/* While another heapx traces the process, waits: it does so for a moment only. At most 2 s. */
void hx_proc_await_heapx(pid_t pid);

#endif
