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

/* A number that `stop` follows, which *at is moved behind; false: there is none. */
static bool take_number(const char **at, const char *end, unsigned base, char stop, uint64_t *ret)
{
    uint64_t value = 0;
    const char *c = *at;
    for (; c < end && *c != stop; c++) {
        unsigned digit = *c >= '0' && *c <= '9'   ? (unsigned)(*c - '0')
                         : *c >= 'a' && *c <= 'f' ? (unsigned)(*c - 'a') + 10
                                                  : base;
        if (digit >= base || value > (UINT64_MAX - digit) / base)
            return false;
        value = value * base + digit;
    }
    if (c == *at || (c == end && stop != ' '))
        return false;
    *at = c < end ? c + 1 : c;
    *ret = value;
    return true;
}

/* "rwxp " */
static bool take_prot(const char **at, const char *end, uint32_t *ret)
{
    static const char letter[] = "rwx";
    const char *c = *at;
    if (end - c < 5 || c[4] != ' ' || (c[3] != 's' && c[3] != 'p'))
        return false;
    *ret = c[3] == 's' ? HX_PROT_SHARED : 0;
    for (unsigned i = 0; i < 3; i++) {
        if (c[i] != letter[i] && c[i] != '-')
            return false;
        *ret |= c[i] == '-' ? 0 : 1u << i; /* enum hx_prot */
    }
    *at = c + 5;
    return true;
}

/* "start-end rwxp offset major:minor inode   path" */
bool hx_proc_mapping(const char *line, size_t len, char **paths, struct hx_mapping *out)
{
    const char *at = line, *end = line + len;
    uint64_t major_, minor_;
    *out = (struct hx_mapping){0};
    if (!take_number(&at, end, 16, '-', &out->start) ||
        !take_number(&at, end, 16, ' ', &out->end) || !take_prot(&at, end, &out->prot) ||
        !take_number(&at, end, 16, ' ', &out->offset) || !take_number(&at, end, 16, ':', &major_) ||
        !take_number(&at, end, 16, ' ', &minor_) || !take_number(&at, end, 10, ' ', &out->inode) ||
        out->start >= out->end)
        return false;
    out->dev = makedev((unsigned)major_, (unsigned)minor_);
    while (at < end && *at == ' ')
        at++;
    static const char deleted[] = " (deleted)";
    size_t path_len = (size_t)(end - at), tail = sizeof deleted - 1;
    if (path_len > tail && memcmp(end - tail, deleted, tail) == 0) {
        out->deleted = true;
        path_len -= tail;
    }
    out->path = paths ? *paths : malloc(path_len + 1); /* checked by the caller */
    if (out->path) {
        memcpy(out->path, at, path_len);
        out->path[path_len] = 0;
        undo_escapes(out->path);
    }
    if (paths)
        *paths += path_len + 1;
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
    for (const char *flag = line + len; flag + 3 <= end; flag += 3) {
        out->device |= memcmp(flag, " io", 3) == 0 || memcmp(flag, " pf", 3) == 0;
        out->huge |= memcmp(flag, " ht", 3) == 0;
        out->userfault |= memcmp(flag, " u", 2) == 0 && memchr("miw", flag[2], 3);
    }
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
        if (hx_proc_is_range(line, end)) {
            struct hx_mapping next;
            bool parsed = hx_proc_mapping(line, (size_t)(end - line), NULL, &next);
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
