/* process.h - what the kernel says of a target: mappings and threads. */
#ifndef HX_MODEL_PROCESS_H
#define HX_MODEL_PROCESS_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum hx_prot { HX_PROT_R = 1, HX_PROT_W = 2, HX_PROT_X = 4, HX_PROT_SHARED = 8 };

/* One line of /proc/PID/maps, [start, end), with the figures of smaps. */
struct hx_mapping {
    uint64_t start, end;
    uint32_t prot;   /* enum hx_prot */
    uint64_t offset; /* bytes into the file */
    uint64_t dev, inode;
    char *path; /* as the kernel prints it: "/usr/lib/x.so", "[heap]", "" */
    uint64_t rss_bytes, anonymous_bytes, swap_bytes;
    bool device;    /* VM_IO or VM_PFNMAP: never read */
    bool userfault; /* somebody's userfaultfd looks after it */
    bool huge;      /* VM_HUGETLB: counts for no figure of the kernel's */
    bool deleted;   /* the file's name is gone */
    char *local; /* of a core: where that file lies here, "" where it is not to be had; else NULL */
};

#define HX_REGS_MAX     32
#define HX_VECTOR_WORDS 8 /* of a vector register */
#define HX_VECTOR_MAX   (32 * HX_VECTOR_WORDS)

/* One thread at the stop. */
struct hx_thread {
    pid_t tid;    /* as the tracer sees it */
    pid_t ns_tid; /* as the target's innermost PID namespace sees it; equal when there is none */
    char comm[20];
    bool nameless;              /* comm is not known */
    bool has_regs;              /* false: could not be stopped in time; sp, pc from /proc or 0 */
    bool in_syscall;            /* stopped in (or on the way out of) a system call */
    uint64_t sp, pc;            /* stack pointer, program counter */
    uint64_t tp;                /* thread pointer (fs base on x86-64) */
    size_t n_regs;              /* how many of regs are valid */
    uint64_t regs[HX_REGS_MAX]; /* general purpose registers, names in hx_reg_name() */
    size_t n_vector;            /* words in vector, 0 when not taken */
    /* The vector registers one after the other, names in hx_vector_name(); only outside system
     * calls. What the processor has not is 0. */
    uint64_t vector[HX_VECTOR_MAX];
};

/* The name of regs[i] of the architecture of this build ("rax", ...). */
const char *hx_reg_name(size_t i);

/* The shortest name of what holds vector[i] ("xmm3", "ymm3", "zmm3"). */
void hx_vector_name(size_t i, char ret[8]);

/* Does it show a file? A core tells no inodes. */
static inline bool hx_mapping_is_file(const struct hx_mapping *mapping)
{
    return mapping->path && mapping->path[0] == '/';
}

/* Memory of brk(), as the kernel says. */
static inline bool hx_mapping_is_brk(const struct hx_mapping *mapping)
{
    return __builtin_strcmp(mapping->path, "[heap]") == 0;
}

/* Memory that processes share and that is in no folder: anonymous, memfd, System V. */
bool hx_mapping_is_memory(const struct hx_mapping *mapping);

/* Is the line, which ends at `end`, one of maps, and none of the figures of smaps? */
static inline bool hx_proc_is_range(const char *line, const char *end)
{
    /* figures begin with a capital letter; addresses are lower-case hexadecimal */
    return line < end && ((*line >= '0' && *line <= '9') || (*line >= 'a' && *line <= 'f'));
}

/* Parses one line of maps, without its end. Its path, of at most len bytes and a NUL, goes to
 * *paths, which moves on; paths NULL: it is allocated, NULL when there is no memory. False: the
 * line makes no sense. */
bool hx_proc_mapping(const char *line, size_t len, char **paths, struct hx_mapping *ret);

/* Parses the text of maps or smaps (smaps fills rss_bytes, anonymous_bytes, swap_bytes,
 * device and huge; with maps these stay 0). Lines that make no sense are an HX_E_CORRUPT. Those of
 * a running process can overlap, because it maps and unmaps meanwhile: the earlier one counts. The
 * caller owns the array and each path: hx_mappings_free(). */
hx_error *hx_proc_mappings(const char *text, size_t len, struct hx_mapping **ret, size_t *ret_n);

/* The same of `file` ("maps", "smaps") of a process as it is now. */
hx_error *hx_proc_read_mappings(pid_t pid, const char *file, struct hx_mapping **ret,
                                size_t *ret_n);
void hx_mappings_free(struct hx_mapping *mapping, size_t n);

/* Index of the mapping that contains addr, n when none does. Mappings are sorted. */
size_t hx_mapping_find(const struct hx_mapping *mapping, size_t n, uint64_t addr);

#endif
