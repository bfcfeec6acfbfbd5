/* import.h - profiles of other programs as a store.
 *
 * A format is one file: src/export/import_NAME.c with a `const struct hx_importer hx_import_NAME`,
 * a line in HX_IMPORTS below, a line in Makefile.am, a test in test/export, a part in test/fuzz, a
 * paragraph in heapx-export(1). `heapx import`, `heapx open` and all that reads a store know it.
 *
 * Files are hostile. Nothing that one says is believed before it was tested: lengths, counts, ids,
 * references, UTF-8. The error of a file that lies names the offset: "at byte 123 (0x7b)".
 */
#ifndef HX_EXPORT_IMPORT_IMPORT_H
#define HX_EXPORT_IMPORT_IMPORT_H

#include "base/progress.h"
#include "store/store.h"

#define HX_IMPORTS(X) X(eventlog) X(hp)

/* A whole file, mapped or read; it does not change. */
struct hx_import {
    const char *path;
    const uint8_t *bytes;
    size_t n;
    const struct hx_progress *progress;
    hx_store *store; /* open for appending; all snapshots go into one transaction each */
    bool partial;    /* out: something is missing, and the notes of the snapshots say what */
};

struct hx_importer {
    const char *name;
    const char *about; /* "GHC event log" */
    /* Is it such a file? By its first bytes (n of them, of a file of `size`). */
    bool (*detect)(const uint8_t *head, size_t n, uint64_t size);
    /* Reads and tests all of the file before it writes anything. */
    hx_error *(*read)(struct hx_import *import);
};
extern const struct hx_importer *const hx_importers[]; /* ends with NULL */

/* The one that knows the file at path; *ret NULL: none does. */
hx_error *hx_importer_detect(const char *path, const struct hx_importer **ret);

/* Reads a file into the store. */
hx_error *hx_import_file(const struct hx_importer *importer, const char *path, hx_store *store,
                         const struct hx_progress *progress, bool *ret_partial);

/* An error at an offset of the file (printf). */
hx_error *hx_import_error(const struct hx_import *import, uint64_t offset, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
