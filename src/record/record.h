/* record.h - a recorder of a process: who allocates, from now on or from the start.
 *
 * Two sources give the same events: the probes (kernel and libbpf, on a process that runs), and the
 * library inside a program that heapx starts. A thread pumps them into a reader; a snapshot that
 * is taken meanwhile gets the recording of its very stop.
 */
#ifndef HX_RECORD_RECORD_H
#define HX_RECORD_RECORD_H

#include "base/progress.h"
#include "record/read/reader.h"
#include "record/stop_mark.h"

#include <stdatomic.h>
#include <sys/types.h>

typedef struct hx_code hx_code; /* sym/code.h */

typedef struct hx_recorder hx_recorder;

struct hx_record_options {
    uint64_t sample_bytes;            /* 0: every allocation */
    uint64_t least_bytes, most_bytes; /* only requests of this size; most 0: no limit */
    bool mappings;                    /* also the program's own mmap and munmap */
    bool children;                    /* run only: processes that it starts, too */
    bool at_exit;                     /* run only */
    const atomic_bool *hurry; /* true: nobody waits until the probes are gone; NULL: never */
};

/* What recording costs the program. */
struct hx_record_overhead {
    double pair_ns;      /* that an allocation and its free take longer; 0: not known */
    uint64_t spent_ns;   /* so far, of all its threads together, */
    uint64_t program_ns; /* of so much processor time of theirs */
};

/* --- sources ------------------------------------------------------------------
 * A source is one file with a const table of these, and a function that opens it. */
struct hx_source {
    const char *method; /* "run", "probes" */
    /* One round: gives the reader all events before the moment of the call, or, when a mark is
     * pending (hx_stop_mark_pending(), asked after that moment was read), those before the mark;
     * and ends the round. *ret_idle: nothing came. *ret_stop_ns: the mark's, 0: none was pending;
     * then the pump freezes and says that it is handled. Called by the pump alone. */
    hx_error *(*round)(void *state, const struct hx_stop_mark *mark, bool *ret_idle,
                       uint64_t *ret_stop_ns);
    /* Sleeps until events may have come, at most ns; any wake-up may be early. */
    void (*wait)(void *state, uint64_t ns);
    /* The reader's state as a recording; its files, and the functions at its places, have no names
     * yet. After a round. */
    hx_error *(*freeze)(void *state, struct hx_recording **ret);
    /* Fills these in. May take seconds, while the program must not wait for the pump: any thread
     * calls it, also while the pump is in one of the others but close. */
    hx_error *(*name)(void *state, struct hx_recording *recording,
                      const struct hx_progress *progress);
    void (*figures)(void *state, struct hx_reader_figures *ret);
    /* NULL: not known. By the pump, like figures. */
    void (*overhead)(void *state, struct hx_record_overhead *ret);
    /* Ended: the process is gone, or has executed another program, and all it wrote was read. */
    bool (*ended)(void *state);
    /* Lets the target go; nothing of the recorder stays behind in it or in the kernel. */
    void (*close)(void *state);
};

/* --- the pump -------------------------------------------------------------------
 * A thread of its own that rounds a source. It takes the source over. */

/* `mark`: of the target's captures; outlives the recorder. */
hx_error *hx_recorder_start(const struct hx_source *source, void *state, struct hx_stop_mark *mark,
                            hx_recorder **ret);

/* The recording of the stop at stop_ns, which the caller has seen end, with names; waits for the
 * pump. Once for each stop. HX_E_ABSENT: the recorder ended before. */
hx_error *hx_recorder_recording(hx_recorder *recorder, uint64_t stop_ns,
                                const struct hx_progress *progress, struct hx_recording **ret);

/* The same of now, or of its end when it has ended. */
hx_error *hx_recorder_now(hx_recorder *recorder, const struct hx_progress *progress,
                          struct hx_recording **ret);

struct hx_recorder_status {
    struct hx_reader_figures figures;
    uint64_t pump_ns; /* processor time that the pump took */
    struct hx_record_overhead overhead;
    bool ended; /* struct hx_source.ended, or an error */
};
void hx_recorder_status(hx_recorder *recorder, struct hx_recorder_status *ret);

/* Ends the pump and closes the source. The error that ended it early, if one did. NULL is legal. */
hx_error *hx_recorder_stop(hx_recorder *recorder);

/* --- opening sources --- */

/* Probes on a running process. Refusals say which permission or part of the kernel is missing. The
 * error of a build without libbpf says so. *ret_notes (may be NULL): sentences for the user
 * (which functions are probed, what could not be). The caller frees. */
hx_error *hx_probes_open(pid_t pid, const struct hx_record_options *options,
                         const struct hx_source **ret, void **ret_state, char **ret_notes);

/* Can this user record with probes here at all? NULL: yes. Touches no process. */
hx_error *hx_probes_possible(void);

/* The rings of one process of a launched program. Its region is looked for in the folder, and its
 * name removed there once it is mapped. HX_E_ABSENT: it is not there (yet). `others`: states that
 * were opened here before and are still in use (NULL: none), by the same thread; a child of one of
 * them begins with the blocks that its parent had at the fork. When that moment is missed (two
 * threads fork at the same time, the parent is gone, or forks without its C library) the child
 * begins empty, and its recording is not `from_start`. `code`: the set that its files are kept in,
 * as others do; NULL: one of its own. */
hx_error *hx_rings_open(int folder_fd, pid_t pid, hx_code *code, void *const *others,
                        size_t n_others, const struct hx_source **ret, void **ret_state);

/* The processes that have a region in the folder and were not opened yet; at most max. */
size_t hx_rings_list(int folder_fd, pid_t *ret, size_t max);

/* Does the program wait for its last snapshot (HX_RUN_AT_EXIT)? *ret_signal: what ends it, 0: it
 * exits. Then lets it go on. */
bool hx_rings_wants_exit(void *state, int *ret_signal);
void hx_rings_let_exit(void *state);

#endif
