/* trusted_file.h - files at paths that another file names. */
#ifndef HX_SYM_READER_TRUSTED_FILE_H
#define HX_SYM_READER_TRUSTED_FILE_H

/* Opens a regular file to read, at an absolute path on which nobody but this user and root could
 * put another one, or cut it off under our hands; -1: it is no such file. */
int hx_trusted_file_open(const char *path);

#endif
