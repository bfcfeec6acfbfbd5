/* core_private.h - what the files that read cores share; only they include this. */
#ifndef HX_ATTACH_CORE_CORE_PRIVATE_H
#define HX_ATTACH_CORE_CORE_PRIVATE_H

#include "attach/core/core.h"

#include <elf.h>

#define HX_CORE_PAGE      4096
#define HX_CORE_BUILD_ID  64 /* bytes of a build id that are looked at */
#define HX_CORE_PHDRS_MAX 72 /* of a mapped file */

/* A PT_LOAD: [start, end) of the target; the first `filesz` bytes were dumped at `offset`, and
 * `present` of them are in the file. */
struct hx_core_segment {
    uint64_t start, end, offset, filesz, present;
    uint64_t header; /* where its program header is */
    uint32_t prot;   /* enum hx_prot */
};

/* A mapped file, from NT_FILE. */
struct hx_core_file {
    uint64_t start, end, offset;
    uint32_t name; /* index in names */
    uint64_t note; /* where the note says so */
};

/* A name of NT_FILE, and its file here. */
struct hx_core_name {
    char *path;  /* without " (deleted)" */
    char *local; /* struct hx_mapping.local */
    bool deleted;
    bool is_elf;   /* its first page in memory says so */
    bool is_exe;   /* the main program */
    uint64_t base; /* where its first byte is mapped; 0: nowhere */
};

struct hx_core_thread {
    struct hx_thread thread;
    uint64_t note; /* where its status is */
};

struct hx_core {
    int fd;
    char *path, *exe, *sysroot;
    uint64_t size;
    int64_t mtime_ns;
    HX_VEC(struct hx_core_segment) segments; /* by address, apart */
    HX_VEC(struct hx_core_file) files;       /* by address, apart */
    HX_VEC(struct hx_core_name) names;
    HX_VEC(struct hx_core_thread) threads; /* by tid */
    bool has_files;                        /* NT_FILE is there */
    bool notes_cut;                        /* the file ends within the notes */
    bool has_process;
    pid_t pid;
    char comm[16];                            /* as long as the kernel lets it be */
    int signal;                               /* that ended it; 0: none is known */
    uint64_t phdr, phnum, entry, vdso, stack; /* from the auxiliary vector; 0: not there */
    uint64_t note_bytes;                      /* read so far */
    bool lacks_memory;                        /* that it should have, by the newest image */
};

/* An error at an offset of the core (printf). */
hx_error *hx_core_lie(const hx_core *core, uint64_t offset, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* len bytes at an offset of the file; false when they are not all there. */
bool hx_core_pread(const hx_core *core, uint64_t offset, void *dst, size_t len);

/* len bytes at an address, from one segment's dumped part; false when they are not there. */
bool hx_core_memory(const hx_core *core, uint64_t addr, void *dst, size_t len);

/* The segment that contains addr; NULL: none. */
const struct hx_core_segment *hx_core_segment(const hx_core *core, uint64_t addr);

/* Reads the notes at [offset, offset + bytes) of the file. */
hx_error *hx_core_notes(hx_core *core, uint64_t offset, uint64_t bytes);
/* After all of them: puts threads and files in order. */
hx_error *hx_core_notes_end(hx_core *core);

/* The program headers of a file that is mapped at base, as its first page says; 0: it has none. */
size_t hx_core_phdrs(const hx_core *core, uint64_t base, Elf64_Phdr ret[HX_CORE_PHDRS_MAX],
                     uint64_t *ret_bias);

/* Finds the local files of all names. Refuses an --exe that is not the program's. */
hx_error *hx_core_find_files(hx_core *core);

/* Fills snapshot->mapping. */
hx_error *hx_core_map(const hx_core *core, struct hx_snapshot *snapshot);

/* Fills snapshot->image, and what is missing of it. Says of read-only mappings what was written. */
hx_error *hx_core_image(const hx_core *core, unsigned threads, const struct hx_progress *progress,
                        struct hx_snapshot *snapshot, bool *ret_lacks);

#endif
