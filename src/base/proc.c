/* proc.c - reading /proc/PID. */
#include "base/proc.h"

#include "base/cleanup.h"
#include "base/timing.h"
#include "base/vec.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { FILE_MAX_BYTES = 1 << 30 };

hx_error *hx_proc_read_timed(const char *path, char **ret, size_t *ret_len, uint64_t *longest_ns)
{
    HX_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return hx_error_os(errno, path, "open");
    HX_FREE char *text = NULL;
    size_t n = 0, cap = 0;
    for (;;) {
        if (n >= FILE_MAX_BYTES)
            return hx_error_new(HX_E_FAIL, path, NULL, "longer than 1 GiB");
        HX_NEED(hx_vec_reserve_raw((void **)&text, &cap, n + (n < 65536 ? 65536 : n / 2) + 1, 1));
        uint64_t since = hx_now_ns();
        ssize_t got = read(fd, text + n, cap - n - 1);
        if (got < 0 && errno == EINTR)
            continue;
        uint64_t took = hx_now_ns() - since;
        *longest_ns = took > *longest_ns ? took : *longest_ns;
        if (got < 0)
            return hx_error_os(errno, path, "read");
        if (got == 0)
            break;
        n += (size_t)got;
    }
    text[n] = 0;
    *ret = hx_steal(text);
    if (ret_len)
        *ret_len = n;
    return NULL;
}

hx_error *hx_proc_read(const char *path, char **ret, size_t *ret_len)
{
    uint64_t unused = 0;
    return hx_proc_read_timed(path, ret, ret_len, &unused);
}

char *hx_proc_text(const char *format, ...)
{
    char path[PATH_MAX], *text = NULL;
    va_list args;
    va_start(args, format);
    vsnprintf(path, sizeof path, format, args);
    va_end(args);
    hx_error_free(hx_proc_read(path, &text, NULL));
    return text;
}

const char *hx_proc_field(const char *text, const char *name)
{
    size_t len = strlen(name);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, len) == 0 && line[len] == ':')
            return line + len + 1 + strspn(line + len + 1, " \t");
    }
    return NULL;
}

void hx_proc_name(const char *status, char *buf, size_t size)
{
    const char *from = status ? hx_proc_field(status, "Name") : NULL;
    size_t n = 0;
    for (; from && *from && *from != '\n' && n + 1 < size; from++) {
        bool escaped = *from == '\\' && (from[1] == 'n' || from[1] == '\\');
        from += escaped;
        buf[n++] = escaped && *from == 'n' ? '\n' : *from;
    }
    buf[n] = 0;
}

/* NULL: it is gone. */
static const char *stat_field(pid_t pid, pid_t tid, int field, char *line, size_t size)
{
    char path[64];
    if (tid)
        snprintf(path, sizeof path, "/proc/%d/task/%d/stat", pid, tid);
    else
        snprintf(path, sizeof path, "/proc/%d/stat", pid);
    HX_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, line, size - 1);
    line[n < 0 ? 0 : n] = 0;
    const char *at = strrchr(line, ')'); /* the name may hold anything, ')' too */
    for (int i = 2; at && i < field; i++)
        at = strchr(at + 1, ' ');
    return at ? at + 1 : NULL;
}

bool hx_proc_stat(pid_t pid, pid_t tid, int field, uint64_t *ret, int n)
{
    char line[1024], *end;
    const char *at = stat_field(pid, tid, field, line, sizeof line);
    for (int i = 0; at && i < n; i++, at = end == at ? NULL : end)
        ret[i] = strtoull(at, &end, 10);
    return at;
}

bool hx_proc_cpu_ns(pid_t pid, uint64_t *ret)
{
    uint64_t ticks[2]; /* user, system */
    if (!hx_proc_stat(pid, 0, 14, ticks, 2))
        return false;
    *ret = (uint64_t)((double)(ticks[0] + ticks[1]) * 1e9 / (double)sysconf(_SC_CLK_TCK));
    return true;
}

char hx_proc_state(pid_t pid, pid_t tid)
{
    char line[512];
    const char *at = stat_field(pid, tid, 3, line, sizeof line);
    return at ? *at : 0;
}

uint64_t hx_proc_started(pid_t pid)
{
    uint64_t ticks;
    return hx_proc_stat(pid, 0, 22, &ticks, 1) ? ticks : 0;
}

int64_t hx_proc_started_at_ns(pid_t pid)
{
    uint64_t ticks = hx_proc_started(pid);
    long hertz = sysconf(_SC_CLK_TCK);
    struct timespec wall, boot;
    if (!ticks || hertz <= 0 || clock_gettime(CLOCK_REALTIME, &wall) ||
        clock_gettime(CLOCK_BOOTTIME, &boot))
        return 0;
    uint64_t up_ns = ticks / (uint64_t)hertz * 1000000000 +
                     ticks % (uint64_t)hertz * 1000000000 / (uint64_t)hertz;
    return ((int64_t)wall.tv_sec - boot.tv_sec) * 1000000000 + (wall.tv_nsec - boot.tv_nsec) +
           (int64_t)up_ns;
}

static bool lives(char state)
{
    return state != 0 && state != 'Z' && state != 'X';
}

pid_t hx_proc_living(pid_t pid)
{
    char path[64];
    errno = 0;
    char state = hx_proc_state(pid, pid);
    if (lives(state) || (!state && (errno == EMFILE || errno == ENFILE)))
        return pid; /* with no file to spare nothing is known: what comes next tells why */
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    HX_DIR DIR *dir = opendir(path);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        pid_t tid = atoi(entry->d_name);
        if (tid > 0 && lives(hx_proc_state(pid, tid)))
            return tid;
    }
    return 0;
}

static bool heapx_traces(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    HX_FREE char *status = NULL, *comm = NULL;
    hx_error *err = hx_proc_read(path, &status, NULL);
    const char *tracer = err ? NULL : hx_proc_field(status, "TracerPid");
    if (tracer && atoi(tracer) > 0) {
        snprintf(path, sizeof path, "/proc/%d/comm", atoi(tracer));
        err = hx_proc_read(path, &comm, NULL);
    }
    hx_error_free(err);
    return comm && strncmp(comm, "heapx-", 6) == 0;
}

void hx_proc_await_heapx(pid_t pid)
{
    for (int i = 0; i < 400 && heapx_traces(pid); i++)
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
}
