/* guard.h - memory shared with a program that may cut its file short.
 *
 * Access behind the end of a file is a SIGBUS. Seals would forbid cutting, but exist only
 * for files without a name; copying by pread would do for reading, but the words that the reader
 * writes must be atomic. So pages that have lost their file are replaced, when they are touched, by
 * empty ones of our own, and the reader asks now and then whether that has happened.
 */
#ifndef HX_RECORD_GUARD_H
#define HX_RECORD_GUARD_H

#include "base/error.h"

#include <stdbool.h>

/* Guards a mapping. HX_E_LIMIT: too many are guarded already. *ret: its number. */
hx_error *hx_guard_add(void *base, size_t bytes, int *ret);

/* Before the mapping is undone. */
void hx_guard_remove(int number);

/* Was a page replaced? */
bool hx_guard_was_cut(int number);

#endif
