/* mappings.c - the text of /proc/PID/maps and smaps as mappings. */
#include "model/process.h"

#include "base/cleanup.h"
#include "base/proc.h"
#include "base/vec.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

/* The kernel prints a line end in a file's name as \012, and nothing else differently. */
static void undo_escapes(char *path)
{
    static const char line_end[] = "\\012";
    char *to = path;
    for (const char *from = path; *from;) {
        bool escaped = strncmp(from, line_end, sizeof line_end - 1) == 0;
        *to++ = escaped ? '\n' : *from;
        from += escaped ? sizeof line_end - 1 : 1;
    }
    *to = 0;
}

/* One line of maps: "start-end rwxp offset major:minor inode   path". */
static bool parse_range(const char *line, size_t len, struct hx_mapping *out)
{
    char head[128];
    size_t n = len < sizeof head - 1 ? len : sizeof head - 1;
    memcpy(head, line, n);
    head[n] = 0;
    char prot[5];
    unsigned major_, minor_;
    int path_at = -1;
    if (sscanf(head, "%" SCNx64 "-%" SCNx64 " %4[rwxsp-] %" SCNx64 " %x:%x %" SCNu64 "%n",
               &out->start, &out->end, prot, &out->offset, &major_, &minor_, &out->inode,
               &path_at) != 7 ||
        path_at < 0 || strlen(prot) != 4 || out->start >= out->end)
        return false;
    out->prot = (prot[0] == 'r' ? HX_PROT_R : 0u) | (prot[1] == 'w' ? HX_PROT_W : 0u) |
                (prot[2] == 'x' ? HX_PROT_X : 0u) | (prot[3] == 's' ? HX_PROT_SHARED : 0u);
    out->dev = makedev(major_, minor_);
    const char *path = line + path_at, *end = line + len;
    while (path < end && *path == ' ')
        path++;
    static const char deleted[] = " (deleted)";
    size_t path_len = (size_t)(end - path), tail = sizeof deleted - 1;
    if (path_len > tail && memcmp(end - tail, deleted, tail) == 0) {
        out->deleted = true;
        path_len -= tail;
    }
    out->path = malloc(path_len + 1); /* checked by the caller */
    if (out->path) {
        memcpy(out->path, path, path_len);
        out->path[path_len] = 0;
        undo_escapes(out->path);
    }
    return true;
}

/* A line "Rss:    12 kB" or "VmFlags: rd wr" of smaps. */
static void parse_figure(const char *line, const char *end, struct hx_mapping *out)
{
    static const struct {
        const char *name;
        size_t field;
    } figures[] = {{"Rss:", offsetof(struct hx_mapping, rss_bytes)},
                   {"Anonymous:", offsetof(struct hx_mapping, anonymous_bytes)},
                   {"Swap:", offsetof(struct hx_mapping, swap_bytes)}};
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        size_t len = strlen(figures[i].name);
        if ((size_t)(end - line) > len && memcmp(line, figures[i].name, len) == 0) {
            uint64_t kb = strtoull(line + len, NULL, 10);
            *(uint64_t *)((char *)out + figures[i].field) = kb * 1024;
            return;
        }
    }
    static const char flags[] = "VmFlags:";
    size_t len = sizeof flags - 1;
    if ((size_t)(end - line) <= len || memcmp(line, flags, len) != 0)
        return;
    for (const char *flag = line + len; flag + 3 <= end; flag += 3)
        if (memcmp(flag, " io", 3) == 0 || memcmp(flag, " pf", 3) == 0)
            out->device = true;
}

static bool is_range_line(const char *line, const char *end)
{
    /* figures begin with a capital letter; addresses are lower-case hexadecimal */
    return line < end && ((*line >= '0' && *line <= '9') || (*line >= 'a' && *line <= 'f'));
}

/* Cuts off what lies below `least`; false when nothing is left. */
static bool clip_mapping(struct hx_mapping *mapping, uint64_t least)
{
    if (mapping->start < least) {
        mapping->offset += mapping->inode ? least - mapping->start : 0;
        mapping->start = least;
    }
    return mapping->start < mapping->end;
}

hx_error *hx_proc_mappings(const char *text, size_t len, struct hx_mapping **ret, size_t *ret_n)
{
    HX_VEC(struct hx_mapping) list = {0};
    hx_error *err = NULL;
    const char *stop = text + len;
    bool skipped = false; /* the newest line was left out, and so are its figures */
    for (const char *line = text; line < stop && !err;) {
        const char *end = memchr(line, '\n', (size_t)(stop - line));
        if (!end)
            end = stop;
        if (is_range_line(line, end)) {
            struct hx_mapping next = {0};
            bool parsed = parse_range(line, (size_t)(end - line), &next);
            skipped = parsed && !clip_mapping(&next, list.n ? list.v[list.n - 1].end : 0);
            if (skipped) {
                free(next.path);
            } else if (!parsed) {
                free(next.path);
                err = hx_error_new(HX_E_CORRUPT, "/proc/PID/maps", NULL,
                                   "a line that is no mapping: %.*s",
                                   (int)(end - line < 100 ? end - line : 100), line);
            } else if (!next.path || !hx_vec_push(&list, next)) {
                free(next.path);
                err = hx_error_nomem();
            }
        } else if (list.n && !skipped) {
            parse_figure(line, end, &list.v[list.n - 1]);
        }
        line = end + 1;
    }
    if (err) {
        hx_mappings_free(list.v, list.n);
        return err;
    }
    *ret = list.v;
    *ret_n = list.n;
    return NULL;
}

hx_error *hx_proc_read_mappings(pid_t pid, const char *file, struct hx_mapping **ret, size_t *ret_n)
{
    char path[64];
    HX_FREE char *text = NULL;
    size_t len;
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file);
    HX_TRY(hx_proc_read(path, &text, &len));
    return hx_proc_mappings(text, len, ret, ret_n);
}

void hx_mappings_free(struct hx_mapping *mapping, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(mapping[i].path);
        free(mapping[i].local);
    }
    free(mapping);
}
