/* agent_protocol.h - packets between heapx and its agent, and inside the agent. */
#ifndef HX_ATTACH_AGENT_PROTOCOL_H
#define HX_ATTACH_AGENT_PROTOCOL_H

#include "attach/agent.h"

#include <stdatomic.h>

enum hx_agent_op { HX_AGENT_READ = 1, HX_AGENT_SMAPS, HX_AGENT_CAPTURE, HX_AGENT_CANCEL };

struct hx_agent_call {
    uint32_t op;   /* enum hx_agent_op */
    uint64_t addr; /* READ */
    uint64_t len;  /* READ */
};

/* An answer. A failure carries the parts of its error one after the other. */
struct hx_agent_answer {
    int32_t kind; /* enum hx_error_kind, -1: it worked */
    int32_t os_errno;
    uint64_t pause_ns;
    int64_t taken_at_ns;
    uint64_t memory_bytes;
    uint64_t n_threads, n_pieces, n_lost, smaps_len;
    uint32_t n_stuck;
    uint8_t locked, has_todo;
    char text[3][256]; /* what, why, todo */
};

/* One page that heapx, supervisor and worker share. */
struct hx_agent_shared {
    _Atomic uint64_t bytes_read;
    _Atomic uint64_t bytes_total;
    _Atomic uint64_t beat;          /* moves on while the worker makes progress */
    _Atomic uint64_t stopped_at_ns; /* 0: the target runs */
};

/* The body of the capture worker: does one capture for the call that is in `request`, answers
 * on the socket. memory_fd may be -1. Never returns. */
void hx_agent_worker(pid_t pid, int socket, int memory_fd, const struct hx_agent_request *request,
                     struct hx_agent_shared *shared) __attribute__((noreturn));

/* Packets with up to two descriptors. recv: 0 at the end of the peer, -1 with errno. fds are -1
 * where none came. */
bool hx_agent_send(int socket, const void *packet, size_t len, const int *fds, size_t n_fds);
ssize_t hx_agent_recv(int socket, void *packet, size_t len, int fds[2]);

#endif
