/* file.h - the store as a file: what it is before SQLite sees it, how it comes into
 * being, private copies. */
#ifndef HX_STORE_FILE_H
#define HX_STORE_FILE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* What stands at a path. */
enum hx_file_is { HX_FILE_ABSENT, HX_FILE_STORE };

/* Looks at the path without changing anything. Whatever is neither absent nor a store
 * that this program knows is an error that says what it is. */
hx_error *hx_file_probe(const char *path, enum hx_file_is *ret);

/* Puts `bytes` bytes at a path where nothing is: complete or not at all, mode 0600.
 * HX_E_OS with EEXIST when something has come there. */
hx_error *hx_file_create(const char *path, const void *data, size_t bytes);

/* The same with what `fill` writes into the descriptor; it may be called a second time. */
typedef hx_error *hx_file_fill_fn(void *context, int fd);
hx_error *hx_file_create_by(const char *path, hx_file_fill_fn *fill, void *context);

/* May this process write the file and make others beside it? */
bool hx_file_writable(const char *path);

/* Is there a file PATH SUFFIX beside it, of that many bytes at least? */
bool hx_file_beside(const char *path, const char *suffix, off_t least);

/* Makes a private file with these bytes in TMPDIR, 0600; *ret is its path. */
hx_error *hx_file_temporary(const void *data, size_t bytes, char **ret);

/* Copies a store with what lies beside it (-wal, -journal) to a new private file in
 * TMPDIR. */
hx_error *hx_file_copy(const char *path, char **ret);

/* The same for one plain file, to a new file in its own directory that can take its place
 * by rename(). *ret_real is the file itself when the path is a link. */
hx_error *hx_file_copy_beside(const char *path, char **ret, char **ret_real);

/* Removes a file and what SQLite put beside it. */
void hx_file_remove(const char *path);

#endif
