/* module_private.h - how src/sym keeps modules; only its own files include this. */
#ifndef HX_SYM_MODULE_PRIVATE_H
#define HX_SYM_MODULE_PRIVATE_H

#include "sym/elf.h"
#include "sym/module.h"
#include "sym/reading.h"

#include <pthread.h>

#define HX_PAGE 4096

/* One file. Several modules can be of one file (dlmopen). */
struct hx_module_file {
    char *path;  /* as the target names it, without " (deleted)" */
    char *local; /* struct hx_mapping.local */
    uint64_t dev, inode;
    uint64_t map_start, map_end; /* a mapping of it, for /proc/PID/map_files */
    bool deleted;
    int fd; /* -1: not kept open, opened again when needed */
    struct hx_elf_layout layout;
    uint64_t *named;     /* bits by the hashes of its symbols' names; NULL: not looked at yet */
    uint64_t named_bits; /* a power of two */
};

struct hx_module {
    size_t file;
    uint64_t bias;
    uint64_t low;                     /* first mapped address */
    bool symbols_tried, bare;         /* bare: there is no .symtab, here or in a debug file */
    HX_VEC(struct hx_symbol) symbols; /* by address, not overlapping */
    char *names;                      /* what their names point into */
    char *build_id;                   /* of a bare one; NULL: it has none */
};

/* A load segment where it lies in the target: [start, end), clipped to what is mapped. Up to
 * file_end it has the file's bytes, beyond it is .bss. */
struct hx_placed {
    uint64_t start, file_end, end;
    uint64_t offset; /* of start in the file */
    uint32_t flags;
    uint32_t module;
};

/* Invariant: placed[i].end <= placed[i + 1].start. */
struct hx_modules {
    pid_t pid;
    HX_VEC(struct hx_module_file) files;
    HX_VEC(struct hx_module) modules;
    HX_VEC(struct hx_placed) placed;
    size_t n_open;
    struct hx_reading reading;
    pthread_mutex_t lock; /* guards the lazily read symbols, and `named` */
};

/* The process, or, when its first thread has exited and with it what /proc/PID showed, one of
 * its other threads. */
pid_t hx_module_process(pid_t pid);

/* Opens a file as the target sees it, read only; -1 when it cannot be had or is no regular
 * file. Never blocks and never touches a device. */
int hx_module_file_open(pid_t pid, const struct hx_module_file *file);

/* The file that is kept open, or else *ret_opened, which the caller closes; -1 as above. */
int hx_module_file_use(const hx_modules *modules, const struct hx_module_file *file,
                       int *ret_opened);

/* The root folder of the process, O_PATH, and its mount namespace; -1: it is like our own. */
int hx_module_root(pid_t pid, struct stat *ret_mounts);

/* The path of a mapping without " (deleted)"; NULL: no memory. */
char *hx_module_clean_path(const struct hx_mapping *mapping);

/* Takes the file's names from a mapping of it. False: no memory. */
bool hx_module_take_names(struct hx_module_file *file, const struct hx_mapping *mapping);

/* The load bias of a mapping of a file with this layout, and which segments it shows. */
bool hx_module_find_bias(const struct hx_elf_layout *layout, const struct hx_mapping *mapping,
                         uint64_t *ret, uint64_t *ret_used);

/* The load segment that contains addr; NULL when none does. */
const struct hx_placed *hx_modules_placed(const hx_modules *modules, uint64_t addr);

#endif
