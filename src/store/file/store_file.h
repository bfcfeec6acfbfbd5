/* store_file.h - the store as a file: what it is before SQLite sees it, how it comes into
 * being, private copies. */
#ifndef HX_STORE_FILE_STORE_FILE_H
#define HX_STORE_FILE_STORE_FILE_H

#include "base/error.h"
#include "base/folder.h"
#include "base/pin.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* What stands at a path. */
enum hx_file_kind { HX_FILE_ABSENT, HX_FILE_STORE };

/* Follows the path and looks at what is there without changing anything. Whatever is neither absent
 * nor a store that this program knows is an error that says what it is. *ret is legal to deinit
 * after an error, too. */
hx_error *hx_file_probe(const char *path, struct hx_pin *ret, enum hx_file_kind *ret_kind);

/* Puts `bytes` bytes where nothing is: complete or not at all, mode 0600. HX_E_OS with EEXIST when
 * something has come there. `what` is the file for people, here and below. */
hx_error *hx_file_create(const struct hx_pin *file, const char *what, const void *data,
                         size_t bytes);

/* The same with what `fill` writes into the descriptor; it may be called a second time. */
typedef hx_error *hx_file_fill_fn(void *context, int fd);
hx_error *hx_file_create_by(const struct hx_pin *file, const char *what, hx_file_fill_fn *fill,
                            void *context);

/* Writes all n bytes at the descriptor's place. */
hx_error *hx_file_write(int fd, const char *what, const void *bytes, size_t n);

/* May this process write the file and make others beside it? */
bool hx_file_writable(const struct hx_pin *file);

/* Does it belong to somebody whom we need not trust? */
bool hx_file_foreign(const struct hx_pin *file);

/* Is there a log or a journal that SQLite will read, or does the file ask for a log? */
bool hx_file_logged(const struct hx_pin *file);

/* Copies a store with what lies beside it (-wal, -journal) to the file of that name in a private
 * folder. */
hx_error *hx_file_copy(const struct hx_pin *file, const char *what, const struct hx_pin *to);

/* Copies the file alone. *ret: what was copied, whatever stands at its name by now. */
hx_error *hx_file_copy_plain(const struct hx_pin *file, const char *what, const struct hx_pin *to,
                             struct stat *ret);

/* Puts a copy in the place of the file that it was made of, whose rights and owner it gets. */
hx_error *hx_file_replace(const struct hx_pin *file, const char *what, const struct hx_pin *by,
                          const struct stat *old);

/* Removes a store and what SQLite put beside it. */
void hx_file_remove(const struct hx_pin *file);

#endif
