/* stop_maps.c - figures before the stop, maps in it, and what has changed in between. */
#include "attach/stop/stop_maps.h"

#include "attach/stop/figures.h"
#include "attach/stop/touch.h"
#include "base/cleanup.h"
#include "base/proc.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* More than there was before the stop: what the target may have mapped until then. */
enum { MORE_TEXT = 1 << 18, MORE_MAPPINGS = 4096 };

/* Memory that costs no page faults later. */
static void *touched(size_t bytes)
{
    void *memory = malloc(bytes);
    return memory ? memset(memory, 1, bytes) : NULL;
}

/* --- before the stop ------------------------------------------------------------------ */

/* Copies the lines of mappings out of smaps. */
static void copy_lines(const char *smaps, size_t len, struct hx_stop_maps *maps)
{
    char *to = maps->lines;
    size_t i = 0;
    for (const char *line = smaps, *stop = smaps + len; line < stop && i < maps->n_before;) {
        const char *end = memchr(line, '\n', (size_t)(stop - line));
        end = end ? end + 1 : stop;
        if (hx_proc_is_range(line, end)) {
            size_t bytes = (size_t)(end - line);
            uint64_t start = strtoull(line, NULL, 16);
            while (i < maps->n_before && maps->before[i].start < start)
                maps->bytes[i++] = 0;
            if (i < maps->n_before && maps->before[i].start == start) {
                memcpy(to, line, bytes);
                to += bytes;
                maps->bytes[i++] = (uint32_t)bytes;
            }
        }
        line = end;
    }
    for (; i < maps->n_before; i++)
        maps->bytes[i] = 0;
    maps->text_room = (size_t)(to - maps->lines) * 5 / 4 + MORE_TEXT;
}

/* Room for as many mappings, and for a text of text_room bytes. */
static hx_error *make_room(struct hx_stop_maps *maps, size_t mappings)
{
    maps->room = mappings;
    maps->now = touched(mappings * sizeof *maps->now);
    maps->line = touched(mappings * sizeof *maps->line);
    maps->paths = touched(maps->text_room + 1);
    HX_NEED(maps->now && maps->line && maps->paths);
    return NULL;
}

hx_error *hx_stop_maps_begin(const char *smaps, size_t len, struct hx_stop_maps *ret)
{
    HX_TRY(hx_proc_mappings(smaps, len, &ret->before, &ret->n_before));
    ret->lines = malloc(len + 1);
    ret->bytes = malloc(ret->n_before * sizeof *ret->bytes + 1);
    HX_NEED(ret->lines && ret->bytes);
    copy_lines(smaps, len, ret);
    ret->text = touched(ret->text_room);
    HX_NEED(ret->text);
    hx_touch_by_kernel(ret->text, ret->text_room);
    HX_TRY(make_room(ret, ret->n_before * 5 / 4 + MORE_MAPPINGS));
    size_t line = 0;
    for (; ret->kept < ret->n_before; line += ret->bytes[ret->kept++]) {
        ret->now[ret->kept] = ret->before[ret->kept];
        ret->line[ret->kept] = line;
    }
    return NULL;
}

hx_error *hx_stop_maps_prepare(pid_t pid, uint64_t max_held_ns, struct hx_stop_maps *ret)
{
    struct hx_figures figures = {0};
    HX_TRY(hx_figures_read(pid, max_held_ns, &figures));
    hx_error *err = hx_stop_maps_begin(figures.text, figures.len, ret);
    ret->held_ns = figures.held_ns;
    free(figures.text);
    return err;
}

/* --- in the stop ---------------------------------------------------------------------- */

static hx_error *read_text(pid_t pid, struct hx_stop_maps *maps)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    HX_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return hx_error_os(errno, path, "open");
    for (maps->text_len = 0;;) {
        if (maps->text_len == maps->text_room) {
            char *more = realloc(maps->text, maps->text_room * 2);
            HX_NEED(more);
            maps->text = more;
            maps->text_room *= 2;
        }
        ssize_t got = read(fd, maps->text + maps->text_len, maps->text_room - maps->text_len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return hx_error_os(errno, path, "read");
        if (got == 0)
            return NULL;
        maps->text_len += (size_t)got;
    }
}

static uint64_t share(uint64_t bytes, uint64_t part, uint64_t whole)
{
    return (uint64_t)((unsigned __int128)bytes * part / whole) / 4096 * 4096;
}

/* What smaps said of the mappings in whose place this one is. *first: of `before`, moved on as
 * mappings come by in order of address. */
static void take_over(struct hx_mapping *mapping, const struct hx_mapping *before, size_t n,
                      size_t *first)
{
    while (*first < n && before[*first].end <= mapping->start)
        ++*first;
    for (size_t i = *first; i < n && before[i].start < mapping->end; i++) {
        const struct hx_mapping *old = &before[i];
        if (old->inode != mapping->inode || old->dev != mapping->dev)
            continue;
        uint64_t start = old->start > mapping->start ? old->start : mapping->start;
        uint64_t end = old->end < mapping->end ? old->end : mapping->end;
        uint64_t whole = old->end - old->start;
        mapping->rss_bytes += share(old->rss_bytes, end - start, whole);
        mapping->anonymous_bytes += share(old->anonymous_bytes, end - start, whole);
        mapping->swap_bytes += share(old->swap_bytes, end - start, whole);
        mapping->device |= old->device;
        mapping->huge |= old->huge;
    }
}

static bool grow(struct hx_stop_maps *maps)
{
    size_t room = maps->room * 2;
    struct hx_mapping *now = realloc(maps->now, room * sizeof *now);
    maps->now = now ? now : maps->now;
    size_t *line = realloc(maps->line, room * sizeof *line);
    maps->line = line ? line : maps->line;
    maps->room = now && line ? room : maps->room;
    return now && line;
}

hx_error *hx_stop_maps_update(struct hx_stop_maps *maps)
{
    const char *text = maps->text, *stop = text + maps->text_len, *old = maps->lines, *line = text;
    char *paths = maps->paths;
    size_t i = 0, first = 0; /* of before */
    /* what has not changed is not even looked at: it is in no cache */
    for (size_t bytes; i < maps->kept && (bytes = maps->bytes[i]) &&
                       bytes <= (size_t)(stop - line) && memcmp(line, old, bytes) == 0;
         i++) {
        old += bytes;
        line += bytes;
    }
    maps->n = maps->kept = i;
    uint64_t done = i ? maps->now[i - 1].end : 0;
    while (line < stop) {
        HX_NEED(maps->n < maps->room || grow(maps));
        struct hx_mapping *mapping = &maps->now[maps->n];
        size_t bytes = i < maps->n_before ? maps->bytes[i] : 0;
        bool same = bytes && bytes <= (size_t)(stop - line) && memcmp(line, old, bytes) == 0;
        maps->line[maps->n] = (size_t)(line - text);
        if (same) {
            *mapping = maps->before[i++];
            old += bytes;
            line += bytes;
        } else {
            const char *end = memchr(line, '\n', (size_t)(stop - line));
            end = end ? end : stop;
            if (!hx_proc_mapping(line, (size_t)(end - line), &paths, mapping))
                return hx_error_new(HX_E_CORRUPT, "/proc/PID/maps", NULL,
                                    "a line that is no mapping");
            line = end < stop ? end + 1 : end;
            take_over(mapping, maps->before, maps->n_before, &first);
        }
        for (; i < maps->n_before && maps->before[i].start < mapping->end; old += maps->bytes[i++])
            ;
        if (mapping->start < done) /* another process changes the memory that they share */
            continue;
        done = mapping->end;
        maps->n++;
    }
    return NULL;
}

hx_error *hx_stop_maps_read(pid_t pid, struct hx_stop_maps *maps)
{
    size_t room = maps->text_room;
    HX_TRY(read_text(pid, maps));
    if (room != maps->text_room) {
        maps->paths = malloc(maps->text_room + 1);
        HX_NEED(maps->paths);
    }
    return hx_stop_maps_update(maps);
}

/* --- after the stop ------------------------------------------------------------------- */

hx_error *hx_stop_maps_print(const struct hx_stop_maps *maps, char **ret, size_t *ret_len)
{
    struct hx_text text = {0};
    for (size_t i = 0; i < maps->n; i++) {
        const struct hx_mapping *mapping = &maps->now[i];
        const char *line = maps->text + maps->line[i];
        const char *end = memchr(line, '\n', maps->text_len - maps->line[i]);
        size_t len = end ? (size_t)(end - line) : maps->text_len - maps->line[i];
        hx_figures_put(&text, line, len, mapping);
    }
    HX_NEED(!text.failed);
    *ret_len = text.n;
    *ret = text.s;
    return NULL;
}
