/* code.h - the files that code of a target ran from, and what addresses in them are called.
 *
 * Files are opened when they are first seen, through the target's own view, and kept: what a
 * program has unloaded, and a program that has ended, can still be named. An address in a file
 * is its p_vaddr (loaded address less load bias), so that it means the same in each run.
 * Names are looked up lazily and cached.
 *
 * Any number of threads may use one set at a time; only its end wants to be alone. Names by debug
 * information can take seconds, and have a lock of their own: hx_code_lines() keeps nobody waiting
 * but other calls of hx_code_lines(). Of what the others share, symbols and unwind tables are
 * loaded once for each file, by whoever asks first, and those who ask for that file meanwhile wait.
 */
#ifndef HX_SYM_CODE_CODE_H
#define HX_SYM_CODE_CODE_H

#include "base/error.h"
#include "model/process.h"
#include "model/type_table.h"
#include "sym/cfi.h"

typedef struct hx_code hx_code;

#define HX_NO_FILE UINT32_MAX

hx_error *hx_code_create(hx_code **ret);
void hx_code_destroy(hx_code *code); /* NULL is legal */

/* One more that uses the set: it lives until each of them has destroyed it. So targets that run the
 * same files read these once. */
hx_code *hx_code_share(hx_code *code);

/* What is read of its files: who may end it, and what was left out. Answers to a thread that is to
 * end know nothing, and are not kept. */
struct hx_reading;
struct hx_reading *hx_code_reading(hx_code *code);

/* Starts, and ends, a process as those that read debug information: what keeps it from doing harm
 * (enum hx_reader_guard). */
hx_error *hx_code_try_reader(unsigned *ret_guards);

/* The number of the file behind an executable mapping of the process; one file has one number,
 * however often it is mapped. "[vdso]" is one. HX_NO_FILE: no file (a JIT). A file that cannot be
 * opened or makes no sense has a number all the same, its path, no names and no tables. */
hx_error *hx_code_add(hx_code *code, pid_t pid, const struct hx_mapping *mapping, uint32_t *ret);

size_t hx_code_count(const hx_code *code);
const char *hx_code_path(const hx_code *code, uint32_t file);
const char *hx_code_name(const hx_code *code, uint32_t file);     /* "libc.so.6" */
const char *hx_code_build_id(const hx_code *code, uint32_t file); /* hexadecimal, "" when none */

/* Load bias of a mapping of the file: p_vaddr = address - bias. False when the mapping belongs to
 * no load segment. */
bool hx_code_bias(const hx_code *code, uint32_t file, const struct hx_mapping *mapping,
                  uint64_t *ret);

/* The unwind tables, addresses as p_vaddr; kept until hx_code_destroy(). False: it has none. */
bool hx_code_cfi(hx_code *code, uint32_t file, struct hx_cfi *ret);

/* The functions at an address, innermost first: those that were inlined there, then the one that
 * has code of its own. Strings are the set's, valid until it is destroyed, not escaped. */
struct hx_code_line {
    const char *function; /* as its program calls it; NULL: no symbol covers it */
    const char *symbol;   /* as the linker does; NULL: it has no name for it */
    uint64_t offset;      /* into the function; of the last one (not inlined) only */
    const char *source;   /* path of the file; NULL: unknown */
    uint32_t line;        /* 0: unknown */
    /* The function itself, which is the same wherever a part of it was inlined, moved away (.cold,
     * .part) or specialised (.constprop, .isra) to; function has no such ending. */
    const char *declared;   /* file in which it is declared; NULL: unknown */
    uint32_t declared_line; /* 0: unknown */
    uint64_t entry;         /* p_vaddr where it begins, by its symbol or the unwind tables; of one
                               that was inlined, and unknown: 0 */
};
#define HX_CODE_LINES_MAX 32

/* Does the code at an address (as in hx_code_lines()) run once for the whole file, whoever comes
 * first? By structure, so in stripped files too: entries of .init_array and its like, calls between
 * those of __cxa_guard_acquire and __cxa_guard_release, and inside pthread_once() and call_once().
 * *ret_site: an address inside the call with which the initialisation of a static variable begins,
 * whose innermost function is the one that it is in (it may be inlined into others); else 0. Takes
 * the lock of names. */
enum hx_code_once {
    HX_CODE_NOT_ONCE,
    HX_CODE_ONCE,       /* the function that the address is in is an initialiser, or initialises a
                           static variable there */
    HX_CODE_CALLS_ONCE, /* what is called there is one */
};
enum hx_code_once hx_code_once(hx_code *code, uint32_t file, uint64_t vaddr, uint64_t *ret_site);

/* Calls each() for structures, classes, unions and typedefs that the file's debug information
 * defines, with sizeof, until it returns false or deadline_ns (CLOCK_MONOTONIC) has passed; false
 * then. Each once. What was found is kept, also when time ran out: it is quick from then on. Names
 * are the set's, valid until it is destroyed. Takes the lock of names, also during each(). */
bool hx_code_types(hx_code *code, uint32_t file, uint64_t deadline_ns,
                   bool (*each)(void *context, const char *name, uint64_t bytes), void *context);

/* The types and variables that the file's debug information has; *ret NULL: it has none, or they
 * could not be read by deadline_ns (then a later call begins anew: *ret_later). Where there is a
 * deadline (not UINT64_MAX) large files are not begun with. Made once; valid until the set is
 * destroyed. Takes the lock of names. */
hx_error *hx_code_type_table(hx_code *code, uint32_t file, uint64_t deadline_ns,
                             const struct hx_type_table **ret, bool *ret_later);

/* From now on such tables come from the user's cache where it has them (sym/types/type_cache.h),
 * and are put there. Takes the lock of names. */
void hx_code_cache_types(hx_code *code);

/* In a hurry (hx_reading_hurry()): is nothing asked any more of what the file's debug information
 * has, as it is large, or the time is over? hx_code_lines() and hx_code_frame() know nothing then,
 * but what they did before. Takes the lock of names. */
bool hx_code_waits(hx_code *code, uint32_t file);

/* Fills at most HX_CODE_LINES_MAX lines; at least one. `vaddr` is an address inside the instruction
 * that is meant (of a return address: less one). */
size_t hx_code_lines(hx_code *code, uint32_t file, uint64_t vaddr, const struct hx_code_line **ret);

/* A variable of a function, or of one that was inlined into it, that lies on the stack or in a
 * register. Strings are the set's. */
enum hx_code_base {
    HX_CODE_AT_CFA,
    HX_CODE_AT_FP,
    HX_CODE_AT_SP,
    HX_CODE_IN_REGISTER,
    HX_CODE_BASES
};
struct hx_code_local {
    const char *function, *name;
    const char *type; /* as hx_type_table_find() wants it; "": it cannot be spelled */
    enum hx_code_base base;
    uint32_t depth; /* its function, as in hx_code_lines() */
    int64_t offset; /* from the base, in the function's frame; the number that DWARF has for it */
    uint64_t size;
};
#define HX_CODE_LOCALS_MAX 1024

/* Those at an address (as in hx_code_lines()), the innermost function's first. *ret_function: the
 * function with code of its own; NULL: no debug information tells. */
size_t hx_code_frame(hx_code *code, uint32_t file, uint64_t vaddr, const char **ret_function,
                     const struct hx_code_local **ret);

/* hx_code_lines() without debug information: the function that has code there, by its symbol and
 * the unwind tables. */
void hx_code_symbol_line(hx_code *code, uint32_t file, uint64_t vaddr, struct hx_code_line *ret);

/* The address (p_vaddr) and size of a function that the file defines (.symtab, else .dynsym, also
 * in .gnu_debugdata and separate debug files); of several versions the default one. */
bool hx_code_function(hx_code *code, uint32_t file, const char *name, uint64_t *ret_vaddr,
                      uint64_t *ret_size);

/* The name of the symbol at an address as the file has it, not demangled, "malloc@plt" for a stub;
 * NULL: none. Never looks at debug information. */
const char *hx_code_symbol(hx_code *code, uint32_t file, uint64_t vaddr, uint64_t *ret_offset);

/* Does a process begin there? At the file's entry point, and in what it goes on with: that was
 * called by nobody, and often has no unwind tables that say so. */
bool hx_code_is_start(hx_code *code, uint32_t file, uint64_t vaddr);

/* Where in the file the byte of a p_vaddr lies; false when the file has none. */
bool hx_code_file_offset(const hx_code *code, uint32_t file, uint64_t vaddr, uint64_t *ret);

/* A path by which the file can be opened now (/proc/self/fd/N), valid while `code` lives; NULL:
 * none. For the kernel, which wants one for its probes. */
const char *hx_code_open_path(hx_code *code, uint32_t file);

#endif
