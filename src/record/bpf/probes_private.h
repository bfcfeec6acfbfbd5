/* probes_private.h - the parts of the recorder of running processes among themselves. */
#ifndef HX_RECORD_BPF_PROBES_PRIVATE_H
#define HX_RECORD_BPF_PROBES_PRIVATE_H

#include "record/bpf/probes.bpf.h"
#include "record/bpf/probes_find.h"
#include "record/bpf/unwind_table.h"
#include "record/read/space.h"
#include "record/record.h"

/* Arrays of the kernel that are mapped here, too. */
struct hx_probe_array {
    int fd;
    void *base;
    size_t bytes;
};

/* --- the programs (probes_load.c) ------------------------------------------------ */

struct bpf_object;

typedef HX_VEC(int) hx_probe_links; /* descriptors */

struct hx_probe_kernel {
    struct bpf_object *object;
    struct bpf_object *marks; /* what serves a program's marks; NULL: there were none so far */
    bool session;             /* one link for many probes, entry and return in one */
    hx_probe_links links;     /* nothing else holds a probe */
    struct hx_probe_shared *shared;
    struct hx_probe_array shared_array, pieces, rows, rules;
    /* the ring */
    int ring_fd;
    uint64_t ring_bytes;
    _Atomic uint64_t *consumed, *produced;
    const uint8_t *ring;
};

/* Sizes of the maps. */
struct hx_probe_sizes {
    uint64_t ring_bytes; /* a power of two, at least a page */
    uint32_t pieces, rows, rules, sampled;
    uint32_t captures; /* stacks that a program may hold captured */
};

hx_error *hx_probe_load(const struct hx_probe_config *config, const struct hx_probe_sizes *sizes,
                        bool session, struct hx_probe_kernel *ret);

/* What serves the probes of a program's marks; before those are linked. It takes the verifier as
 * long as all the rest. Twice is legal. */
hx_error *hx_probe_load_marks(struct hx_probe_kernel *kernel);

/* Sets the probes of functions [from, n) that lie in one file after the other. */
hx_error *hx_probe_link(struct hx_probe_kernel *kernel, hx_code *code, pid_t pid,
                        const struct hx_probe_functions *functions, size_t from);
/* Sets all of them on another thread, those of `marks` as far as possible, then takes those away
 * that were set on a thread that has ended. One link a probe only. */
hx_error *hx_probe_relink(struct hx_probe_kernel *kernel, hx_code *code, pid_t pid,
                          const struct hx_probe_functions *functions,
                          const struct hx_probe_functions *marks);
hx_error *hx_probe_link_exec(struct hx_probe_kernel *kernel);

/* The probes of an allocation (its alignment and size) and a free on this process's own code. */
hx_error *hx_probe_link_own(struct hx_probe_kernel *kernel, uint64_t alloc, uint64_t free);

/* A return probe of any program on one instruction of heapx's, in a process of our own: for
 * trials. */
hx_error *hx_probe_link_trial(struct hx_probe_kernel *kernel, pid_t pid, uint64_t offset);

/* Ends all probes; what they wrote can still be read. That can take seconds, and is not waited for
 * much longer once *hurry (NULL: never) is true: they do nothing from now on, and are gone soon
 * after. */
void hx_probe_unlink(struct hx_probe_kernel *kernel, const atomic_bool *hurry);

/* Ends all probes, then frees. Zeroes; twice is legal. */
void hx_probe_unload(struct hx_probe_kernel *kernel);

/* --- what they cost (probes_cost.c) ---------------------------------------------------- */

struct hx_probe_cost {
    double alloc_ns, free_ns; /* of one call; 0: not known */
    uint64_t begun_ns;        /* processor time of the process when the recording began */
};

/* Tries them on heapx itself, for a few milliseconds. The programs are loaded and nothing else:
 * no mappings, no seed, no links. The same afterwards. */
void hx_probe_measure(struct hx_probe_kernel *kernel, const struct hx_probe_config *config,
                      struct hx_probe_cost *ret);
void hx_probe_cost_begin(struct hx_probe_cost *cost, pid_t pid);
void hx_probe_cost_now(const struct hx_probe_cost *cost, const struct hx_probe_kernel *kernel,
                       pid_t pid, struct hx_record_overhead *ret);

/* Where a function of this program lies in its file. */
bool hx_probe_own_offset(const void *function, uint64_t *ret);

/* --- what is possible (probes_possible.c) ------------------------------------------- */

/* Does a return probe kill a process whose system calls are filtered? NULL: no. */
hx_error *hx_probe_try_filtered(struct hx_probe_kernel *kernel, pid_t target);
/* Are the system calls of any thread filtered? */
bool hx_probe_is_filtered(pid_t pid);
/* A refusal of bpf() or of the probes, in words. */
hx_error *hx_probe_refused(int err, const char *call);

/* --- mappings and tables (probes_map.c) ------------------------------------------------ */

struct hx_probe_file {
    bool seen, has_table;
    struct hx_unwind_file table;
};

struct hx_probe_tables {
    hx_code *code;
    hx_space *space;
    HX_VEC(struct hx_probe_file) files; /* by number */
    struct hx_probe_part *last;         /* what the kernel has: n_last */
    size_t n_last;
    uint32_t pieces, rows, rules; /* used */
    struct hx_probe_sizes sizes;
    HX_VEC(struct hx_unwind_table) built; /* before there are maps: by number */
    uint64_t too_many_parts, too_large;
};

/* Builds the tables of what is mapped now, and says how large the maps have to be. */
hx_error *hx_probe_tables_init(struct hx_probe_tables *tables, hx_code *code, hx_space *space);
void hx_probe_tables_deinit(struct hx_probe_tables *tables);
/* The maps are new and empty. */
void hx_probe_tables_forget(struct hx_probe_tables *tables);

/* The rules that no table has. */
void hx_probe_put_fixed(struct hx_unwind_rule *rule);

/* Gives the kernel the mappings that the space has now, and tables of files that are new. */
hx_error *hx_probe_tables_push(struct hx_probe_tables *tables, struct hx_probe_kernel *kernel);

#endif
