/* sqlite.h - SQLite's interface for sources that are built twice: into the program, and
 * into the loadable extension, which reaches SQLite through the caller's table of
 * functions. */
#ifndef HX_STORE_SQLITE_H
#define HX_STORE_SQLITE_H

#ifdef HX_EXTENSION
#include <sqlite3ext.h>
SQLITE_EXTENSION_INIT3
#else
#include <sqlite3.h>
#endif

#endif
