/* code_private.h - how src/sym keeps the files of code and their names; only code*.c include it. */
#ifndef HX_SYM_CODE_CODE_PRIVATE_H
#define HX_SYM_CODE_CODE_PRIVATE_H

#include "sym/code/code.h"
#include "sym/debug_file.h"
#include "sym/module_private.h"
#include "sym/reading.h"
#include "sym/types/type_source.h"

#include "base/text.h"
#include "base/vec.h"

#include <elfutils/libdw.h>
#include <pthread.h>
#include <stdatomic.h>

struct hx_code_dwarf;
struct hx_code_reader;

/* Strings and lines that live as long as the set. Memory from pieces that never move. */
struct hx_code_piece {
    struct hx_code_piece *next;
    size_t used, size;
    _Alignas(16) char bytes[];
};
struct hx_code_store {
    struct hx_code_piece *piece; /* the one that is being filled */
    const char **slot;           /* hash of the strings, by content */
    size_t n, n_slots;           /* n_slots is 0 or a power of two, n <= n_slots / 2 */
};

/* NULL: no memory. */
void *hx_code_store_take(struct hx_code_store *store, size_t bytes);
const char *hx_code_store_string(struct hx_code_store *store, const char *s, size_t n);
void hx_code_store_free(struct hx_code_store *store);

/* A range of code that a symbol names. */
struct hx_code_symbol {
    uint64_t start, end; /* p_vaddr */
    uint32_t name;       /* offset in names */
    const char *shown;   /* demangled; NULL: not yet. With the lock of names */
};

/* A function that can be asked for by name. */
struct hx_code_function {
    uint64_t vaddr, size;
    uint32_t name;
    uint8_t rank; /* the least one wins */
    bool several; /* others have this name, too */
};

/* Invariant: ranges[i].end <= ranges[i + 1].start; functions by name, one for each. */
struct hx_code_symbols {
    HX_VEC(struct hx_code_symbol) ranges;
    HX_VEC(struct hx_code_function) functions;
    HX_VEC(char) names;
};

struct hx_code_type {
    const char *name;
    uint64_t bytes;
};

/* Code that runs once, and calls to such code. */
struct hx_code_once_range {
    uint64_t start, end;
    uint64_t site; /* the call that begins the initialisation; 0: the whole function is one */
    uint8_t kind;  /* enum hx_code_once */
};

/* The root folder of a target, where separate debug files are looked for. */
struct hx_code_root {
    uint64_t dev, inode, mounts; /* mounts: the number of its mount namespace */
    int fd;                      /* O_PATH */
};

struct hx_code_file {
    /* written before the file has a number, and never again; but for file.fd of one that is not
     * kept */
    struct hx_module_file file; /* fd -1: could not be opened, or is not kept open */
    pid_t pid;
    size_t root;                           /* in roots; SIZE_MAX: our own */
    uint64_t bytes, mtime_sec, mtime_nsec; /* when it was first opened */
    uint64_t entry;                        /* p_vaddr; 0: none */
    bool opened, sound, kept;              /* it could be opened; it has a layout; it stays open */
    char *build_id;

    /* With this lock; symbols can be read without it once they were loaded. */
    pthread_mutex_t lock;
    bool cfi_tried, symbols_tried;
    struct hx_cfi cfi;
    void *cfi_hdr, *cfi_frame; /* what cfi points into */
    struct hx_code_symbols symbols;
    char fd_path[32]; /* "": not asked for yet */

    /* With the lock of names. */
    bool dwarf_tried, size_tried, large;
    struct hx_code_reader *dwarf;             /* NULL: none */
    struct hx_file_stamp read[HX_TYPE_FILES]; /* the files that it has read; else as they are not */
    bool types_tried, types_whole;
    void *type_block; /* of the table; NULL: there is none yet */
    struct hx_type_table type_table;
    bool cache_tried;
    struct hx_type_source *type_source; /* NULL: it cannot be kept */
    HX_VEC(struct hx_code_type) types;
    bool once_tried;
    HX_VEC(struct hx_code_once_range) once; /* by start, apart */
};

/* Files never move, and whoever knows a number may go to its file without a lock: block k has room
 * for FIRST << k of them. */
#define HX_CODE_FIRST  64
#define HX_CODE_BLOCKS 26
struct hx_code_files {
    _Atomic(struct hx_code_file *) block[HX_CODE_BLOCKS];
    atomic_size_t n; /* complete ones */
};

/* Cache of answers: open addressing, by file and address. */
struct hx_code_answer {
    uint64_t vaddr;
    uint32_t file, n;
    const struct hx_code_line *lines; /* NULL: a free slot */
    const struct hx_code_local *locals;
    uint32_t n_locals;
    bool locals_tried;
};

#define HX_CODE_ROOTS 16 /* root folders of targets kept */

/* Three kinds of locks. While names is held, that of a file may be taken; no other two. */
struct hx_code {
    atomic_uint users;
    struct hx_reading reading;
    struct hx_code_files files;
    struct hx_code_root roots[HX_CODE_ROOTS]; /* those that a file has the number of never change */

    pthread_mutex_t adding; /* of what follows: files get their numbers */
    size_t n_roots, n_open;

    pthread_mutex_t names; /* of what follows, and of debug information: may be held for seconds */
    struct hx_code_store store;
    struct hx_code_answer *answers;
    size_t n_answers, n_slots, n_readers;
    struct hx_reader_stem *stem; /* of the readers; NULL: none was needed yet */
    struct hx_type_cache cache;
};

/* The number must be less than hx_code_count(). */
struct hx_code_file *hx_code_file_at(const hx_code *code, uint32_t number);

/* --- code_symbols.c ---------------------------------------------------------- */

/* Reads the symbols of fds[0], which is `file`, and of what was split off from it; -1 is left out.
 */
hx_error *hx_code_symbols_read(const struct hx_module_file *file, struct hx_reading *reading,
                               const int *fds, size_t n, struct hx_code_symbols *ret);
void hx_code_symbols_deinit(struct hx_code_symbols *symbols);
struct hx_code_symbol *hx_code_symbols_find(const struct hx_code_symbols *symbols, uint64_t vaddr);
/* Has it a second function that reads as `untagged` does, which is `symbol` without ABI tags? */
bool hx_code_symbols_namesake(const struct hx_code_symbols *symbols, const char *symbol,
                              const char *untagged);
const struct hx_code_function *hx_code_symbols_named(const struct hx_code_symbols *symbols,
                                                     const char *name);

/* --- code_plt.c -------------------------------------------------------------- */

/* Calls each() for every stub of a procedure linkage table, with the name of the function that it
 * goes to. */
void hx_code_each_stub(int fd,
                       void (*each)(void *context, uint64_t vaddr, uint64_t size, const char *name),
                       void *context);

/* The same for words that are filled in with the address of a function. */
void hx_code_each_slot(int fd,
                       void (*each)(void *context, uint64_t vaddr, uint64_t size, const char *name),
                       void *context);

/* --- code_init.c ------------------------------------------------------------- */

/* Functions that run when the file was loaded. */
struct hx_code_inits {
    HX_VEC(uint64_t) entries;
    Elf64_Rela *relocations; /* of the whole file */
    size_t n_relocations;
};
void hx_code_inits_find(struct hx_code_file *file, int fd, struct hx_code_inits *ret);
void hx_code_inits_free(struct hx_code_inits *inits);

/* --- code_tables.c ----------------------------------------------------------- */

/* The debug information of one file, in memory. */
struct hx_code_tables {
    Dwarf *dwarf;
    Elf *elf;
    uint64_t bytes; /* of all tables, unpacked */
    const uint8_t *lines;
    uint64_t n_lines; /* bytes of .debug_line */
    void *image;
    size_t image_bytes;
};

/* Is this section one of them? No more than so many are read: kinds of tables, and some that are
 * there twice. */
#define HX_CODE_TABLES_MAX 256
bool hx_code_is_table(const struct hx_elf_section *section);

/* Needs the descriptor no more afterwards. False: it has none, or they are no good. What is too
 * large is noted under `path`. */
bool hx_code_tables_open(int fd, struct hx_reading *reading, const char *path,
                         struct hx_code_tables *ret);

/* Stands for a shared file that is not there. */
bool hx_code_tables_none(struct hx_code_tables *ret);

void hx_code_tables_close(struct hx_code_tables *tables);

/* --- code_dwarf.c ------------------------------------------------------------ */

/* One function at an address; strings are valid until hx_code_dwarf_destroy(). */
#define HX_CODE_WITHIN_MAX 16
struct hx_code_scope {
    const char *linkage, *name;             /* mangled, plain; NULL: not there */
    const char *within[HX_CODE_WITHIN_MAX]; /* without a mangled name: classes and namespaces around
                                               it, innermost first */
    uint32_t n_within;
    uint64_t entry;  /* of the outermost one: where it begins */
    const char *dir; /* that a relative source is relative to; NULL: unknown */
    const char *source;
    uint32_t line;
    const char *declared; /* where the function itself is; NULL, 0: unknown */
    uint32_t declared_line;
};

/* NULL when neither the file (fds[0]) nor its debug file (fds[1]) has debug information that can be
 * used; fds[2] is what that shares with others. Needs none of them afterwards. guarded: what libdw
 * opens by itself goes through rules of ours. */
struct hx_code_dwarf *hx_code_dwarf_create(const struct hx_module_file *file,
                                           struct hx_reading *reading, const int fds[3],
                                           bool guarded);
void hx_code_dwarf_destroy(struct hx_code_dwarf *dwarf);

/* The functions at vaddr, innermost first, at most max; 0: nothing is known. One without a name
 * has a line only. */
size_t hx_code_dwarf_scopes(struct hx_code_dwarf *dwarf, uint64_t vaddr,
                            struct hx_code_scope *scopes, size_t max);

/* Was something left out because it was too much for one file? */
bool hx_code_dwarf_is_spent(const struct hx_code_dwarf *dwarf);

/* Calls each() for the units of entries, those without code too, until it returns false; returns
 * how many bytes the tables have. each may be NULL. */
uint64_t hx_code_dwarf_each_unit(struct hx_code_dwarf *dwarf,
                                 bool (*each)(void *context, Dwarf_Die *unit), void *context);

/* The next entry beside this one, in steps that can be ended; false: there is none. */
bool hx_code_dwarf_sibling(struct hx_code_dwarf *dwarf, Dwarf_Die *die, Dwarf_Die *ret);

/* What is read between these two counts as its time. */
void hx_code_dwarf_begin(struct hx_code_dwarf *dwarf);
void hx_code_dwarf_end(struct hx_code_dwarf *dwarf);

/* From now on so much time may be spent, and so much was; returns what it was. */
uint64_t hx_code_dwarf_allow(struct hx_code_dwarf *dwarf, uint64_t ns, uint64_t spent_ns);

/* The entries of the functions at vaddr, innermost first; 0: none, or not all can be had. */
size_t hx_code_dwarf_functions(struct hx_code_dwarf *dwarf, uint64_t vaddr, Dwarf_Die *ret,
                               size_t max);

/* Appends what an entry of the unit that has code at vaddr lies in: "ns::outer::". */
void hx_code_dwarf_put_spaces(struct hx_code_dwarf *dwarf, uint64_t vaddr, Dwarf_Die *die,
                              struct hx_text *to);

/* A copy that lives as long as it; NULL: no memory. */
const char *hx_code_dwarf_keep(struct hx_code_dwarf *dwarf, const char *s);

/* --- code_locals.c ------------------------------------------------------------ */

/* As hx_code_frame(); `function` is not filled in, but `depth`. At most max. */
size_t hx_code_dwarf_locals(struct hx_code_dwarf *dwarf, uint64_t vaddr,
                            struct hx_code_local *local, size_t max);

/* --- code_types.c ------------------------------------------------------------ */

/* As hx_code_types(). */
bool hx_code_dwarf_types(struct hx_code_dwarf *dwarf, uint64_t deadline_ns,
                         bool (*each)(void *context, const char *name, uint64_t bytes),
                         void *context);

/* How many elements an array has, all dimensions together. */
bool hx_code_dwarf_elements(struct hx_code_dwarf *dwarf, Dwarf_Die *array, uint64_t *ret);

/* --- code_reader.c ----------------------------------------------------------- */

/* The same, done by a process of its own: whatever becomes of that, its end is noted in `reading`,
 * and nothing is known from then on. `stem`: see hx_reader_start(). Strings are valid until the
 * next call. */
#define HX_CODE_READER_ENDED "debug information, whose reader ended"
struct hx_code_reader *hx_code_reader_create(const struct hx_module_file *file,
                                             struct hx_reading *reading,
                                             struct hx_reader_stem **stem, const int fds[3]);
void hx_code_reader_destroy(struct hx_code_reader *reader);
size_t hx_code_reader_scopes(struct hx_code_reader *reader, uint64_t vaddr,
                             struct hx_code_scope *scopes, size_t max);
size_t hx_code_reader_locals(struct hx_code_reader *reader, uint64_t vaddr,
                             struct hx_code_local *local, size_t max);
bool hx_code_reader_types(struct hx_code_reader *reader, uint64_t deadline_ns,
                          bool (*each)(void *context, const char *name, uint64_t bytes),
                          void *context);

/* The types of the file; false: none, the deadline has passed, or the reader has ended. *ret_whole:
 * all of them, and no other file was looked for. */
bool hx_code_reader_type_table(struct hx_code_reader *reader, uint64_t deadline_ns,
                               struct hx_type_table *ret, void **ret_block, bool *ret_whole);

/* --- code_lines.c ------------------------------------------------------------ */

/* A file, its debug file, and what that shares with others; -1: there is none. */
struct hx_code_debug {
    int fd[HX_TYPE_FILES];
    bool close; /* the first one, too */
};
#define HX_CODE_DEBUG_NONE ((struct hx_code_debug){.fd = {-1, -1, -1}})

/* False: there is no debug information. */
bool hx_code_debug_open(hx_code *code, struct hx_code_file *file, struct hx_code_debug *ret);
void hx_code_debug_close(struct hx_code_debug *debug);
#define HX_CODE_DEBUG HX_CLEANUP(hx_code_debug_close)

/* With the lock of names: does its debug information take long? */
bool hx_code_is_large(hx_code *code, struct hx_code_file *file);

/* Has the file's debug information read, once. With the lock of names. False: reading is to end. */
bool hx_code_load_dwarf(hx_code *code, struct hx_code_file *file);

/* What was read in part because reading was to end is read anew when somebody asks again. */
void hx_code_forget_dwarf(hx_code *code, struct hx_code_file *file);

/* --- code.c ------------------------------------------------------------------ */

/* Where its debug information may lie. */
struct hx_debug_search hx_code_debug_search(hx_code *code, const struct hx_code_file *file);

/* A descriptor of the file, *ret_close: the caller closes it. -1: none. With the file's lock. */
int hx_code_file_fd(struct hx_code_file *file, bool *ret_close);

/* Reads at most `size` bytes at vaddr, as many as its segment has in the file; the caller frees.
 * NULL: there are none. */
void *hx_code_file_read(const struct hx_code_file *file, int fd, uint64_t vaddr, uint64_t size,
                        struct hx_cfi_bytes *ret);

/* The file's unwind tables; takes its lock. False: it has none. */
bool hx_code_file_cfi(struct hx_code_file *file, struct hx_cfi *ret);

/* Afterwards the symbols can be read; takes the file's lock. False: they cannot, reading is to end.
 */
bool hx_code_load_symbols(hx_code *code, struct hx_code_file *file);

#endif
