/* figures.h - what smaps tells of the mappings of a running process, without holding it up.
 *
 * smaps holds the lock of the mappings, in which mmap() and some page faults wait, for all pages of
 * a mapping and more at a time. Where that would take long, maps and counts of pages take its
 * place. Then memory that is shared has no swap_bytes, `userfault` is not told (the descriptor is,
 * precopy.c), and `device` neither: of memory that drivers map by its frames (VM_PFNMAP) the kernel
 * tells no pages, so that none is read.
 */
#ifndef HX_ATTACH_STOP_FIGURES_H
#define HX_ATTACH_STOP_FIGURES_H

#include "base/text.h"
#include "model/process.h"

struct hx_figures {
    char *text; /* of smaps, with no more than hx_proc_mappings() takes from it */
    size_t len;
    uint64_t held_ns; /* the longest call that held the lock */
};

/* max_held_ns: for so long at most, as far as can be known beforehand; 0: some milliseconds. The
 * caller frees the text. smaps is read all the same where only it can tell: huge pages of their own
 * (hugetlb) before Linux 6.11; more than 64 GiB, there or not, before 6.7. */
hx_error *hx_figures_read(pid_t pid, uint64_t max_held_ns, struct hx_figures *ret);

/* The same as mappings. The caller frees: hx_mappings_free(). */
hx_error *hx_figures_mappings(pid_t pid, struct hx_mapping **ret, size_t *ret_n);

/* Appends a mapping: its line of maps, and the figures. */
void hx_figures_put(struct hx_text *text, const char *line, size_t len,
                    const struct hx_mapping *mapping);

/* For tests: from maps and pages, by the older 8 bytes a page if need be, of which those that were
 * read and never written count as there. False: these cannot tell. */
hx_error *hx_figures_count(pid_t pid, bool by_entries, struct hx_figures *ret, bool *ret_done);

#endif
