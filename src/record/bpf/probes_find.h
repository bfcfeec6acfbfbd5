/* probes_find.h - which functions of a file are an allocator's, where it marks regions, and where
 * the probes of these go. */
#ifndef HX_RECORD_BPF_PROBES_FIND_H
#define HX_RECORD_BPF_PROBES_FIND_H

#include "base/vec.h"
#include "sym/code/code.h"

/* One function, as one probe sees it. */
struct hx_probe_function {
    uint32_t file;
    const char *name; /* literal */
    uint32_t kind;    /* enum hx_probe_kind */
    uint64_t vaddr;
    uint64_t offset;    /* in the file, of the instruction that gets the probe */
    uint64_t semaphore; /* in the file: 2 bytes that count who listens; 0: none */
    bool stepped;       /* the kernel will have to step over that instruction, which costs */
    bool leaf;          /* malloc itself, with no other allocator below it known */
};
struct hx_probe_functions {
    struct hx_probe_function *v;
    size_t n, cap;
};

/* Appends the functions of one file: nothing when it defines no allocator. Aliases are one. With
 * `mappings` also mmap, munmap and mremap. *ret_allocators: how many sets of malloc and free. */
hx_error *hx_probe_find(hx_code *code, uint32_t file, bool mappings, struct hx_probe_functions *ret,
                        unsigned *ret_allocators);

/* Appends the probes of one file that heapx/scc.h left: kinds HX_PROBE_PUSH and what follows.
 * *ret_odd grows by those that are not as the header has them, and are left out. */
hx_error *hx_probe_find_marks(hx_code *code, uint32_t file, struct hx_probe_functions *ret,
                              uint64_t *ret_odd);

/* Where in the bytes of a function a probe costs least: the first instruction that the kernel
 * emulates, if everything before it is straight, leaves the stack and the registers of `keeps`
 * (bit = number of the register) alone, and is jumped to by nobody in the function. Else 0, and
 * *ret_stepped says whether the first instruction has to be stepped over. */
#define HX_PROBE_KEEP_ARGS (1u << 7 | 1u << 6 | 1u << 2 | 1u << 4)
size_t hx_probe_site(const uint8_t *bytes, size_t len, uint32_t keeps, bool *ret_stepped);

#endif
