/* stop_maps.h - the mappings of a target at its stop.
 *
 * Runs in the capture worker, which ends afterwards: nothing here is freed. smaps takes the kernel
 * several times as long as maps, so it, or what stands for it (figures.h), is read before the stop,
 * and maps in it; what maps does not tell is taken from before. A line of maps that is as it was is
 * not parsed again.
 */
#ifndef HX_ATTACH_STOP_STOP_MAPS_H
#define HX_ATTACH_STOP_STOP_MAPS_H

#include "model/process.h"

/* Paths of `now` belong to `before` or to `paths`. Both are sorted. */
struct hx_stop_maps {
    struct hx_mapping *before; /* with the figures of smaps */
    size_t n_before;
    char *lines;     /* the lines of `before`, one behind the other */
    uint32_t *bytes; /* of each line with its end; 0: cut, so that no line is like it */
    char *text;      /* of maps, at the stop */
    size_t text_len, text_room;
    struct hx_mapping *now; /* rss_bytes, ... as before the stop, in proportion where a mapping was
                             * cut or joined, until somebody has counted pages */
    size_t n, room;
    size_t *line; /* of each of `now`: where it begins in `text` */
    size_t kept;  /* the first of `now`, and their lines, which are still those of `before` */
    char *paths;
    uint64_t held_ns; /* the longest call before the stop that held the lock of the mappings */
};

/* Before the stop: hx_figures_read(), and makes and touches room for what comes. */
hx_error *hx_stop_maps_prepare(pid_t pid, uint64_t max_held_ns, struct hx_stop_maps *ret);

/* In the stop: reads maps; takes what has changed from its text. */
hx_error *hx_stop_maps_read(pid_t pid, struct hx_stop_maps *maps);

/* The parts of it, for tests: from the text of smaps; from text and text_len, which are set. */
hx_error *hx_stop_maps_begin(const char *smaps, size_t len, struct hx_stop_maps *ret);
hx_error *hx_stop_maps_update(struct hx_stop_maps *maps);

/* After the stop: `now` as the text of smaps, with no more than hx_proc_mappings() takes from it.
 * The caller frees. */
hx_error *hx_stop_maps_print(const struct hx_stop_maps *maps, char **ret, size_t *ret_len);

#endif
