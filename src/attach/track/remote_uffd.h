/* remote_uffd.h - a userfaultfd over the memory of a process that stands still.
 *
 * Only the process itself can make one, so one of its threads is led through userfaultfd() and,
 * once the agent has taken the descriptor over, close(). Where all stands is written below the red
 * zone of its stack before it sets out: a chain of frames for rt_sigreturn() that closes the
 * descriptor and brings the thread back where it was, registers, vector state and signals. The
 * thread goes that way by itself if the agent dies meanwhile (Bosman and Bos, "Framing Signals - A
 * Return to Portable Shellcode", 2014, use such chains for worse); else it is brought back by the
 * agent, with the call that it sleeps in, and the bytes of its stack.
 */
#ifndef HX_ATTACH_TRACK_REMOTE_UFFD_H
#define HX_ATTACH_TRACK_REMOTE_UFFD_H

#include "attach/stop/tracer.h"
#include "model/process.h"

/* Longest text of a refusal, with its end. */
#define HX_UFFD_WHY 128

/* What is learnt while the process runs. */
struct hx_uffd_way {
    pid_t pid;
    int pidfd;                        /* -1: none */
    uint64_t call;                    /* where its code has `syscall; ret` */
    uint64_t pop;                     /* ... `pop %rax; ret` */
    const struct hx_mapping *mapping; /* smaps; the caller's */
    size_t n_mappings;
    struct hx_uffd_led *led; /* of the thread that is led; made before the stop */
    HX_VEC(pid_t) tid;       /* threads that may be led: no filter, no other table of files */
};

/* False: it is not to be led, and why, in words behind "because". Whoever asks has seen that it has
 * no userfaultfd of its own. */
bool hx_uffd_prepare(pid_t pid, const struct hx_mapping *mapping, size_t n, struct hx_uffd_way *ret,
                     char why[HX_UFFD_WHY]);
void hx_uffd_deinit(struct hx_uffd_way *way);

/* On the tracing thread, while all stand still. The descriptor is the caller's. */
bool hx_uffd_make(const struct hx_uffd_way *way, struct hx_tracer *tracer, int *ret,
                  char why[HX_UFFD_WHY]);

#endif
