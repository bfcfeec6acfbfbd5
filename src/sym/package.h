/* package.h - from a file to the package that has the names of its variables. */
#ifndef HX_SYM_PACKAGE_H
#define HX_SYM_PACKAGE_H

#include "base/text.h"

/* Appends "package vim-dbgsym", the package of debug information of a file as Debian calls it;
 * nothing where dpkg knows no file of that path here, or the one here has another build-id. Only
 * lists of dpkg are searched for the path, and only what they have is opened: whoever names it gets
 * nothing else done. */
void hx_debug_package(const char *path, const char *build_id, struct hx_text *ret);

#endif
