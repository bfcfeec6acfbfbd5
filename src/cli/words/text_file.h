/* text_file.h - files of text that an option names. */
#ifndef HX_CLI_WORDS_TEXT_FILE_H
#define HX_CLI_WORDS_TEXT_FILE_H

#include "base/error.h"

/* The whole file, or of a longer one at least max + 1 bytes; *ret is the caller's, not ended. */
hx_error *hx_text_file_read(const char *path, size_t max, char **ret, size_t *ret_n);

#endif
