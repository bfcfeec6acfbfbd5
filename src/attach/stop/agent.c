/* agent.c - heapx's end of the socket to its agent. */
#include "attach/stop/agent.h"

#include "attach/stop/agent_protocol.h"
#include "base/cleanup.h"
#include "base/packet.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- the agent ------------------------------------------------------------------------- */

struct hx_agent {
    pid_t agent; /* 0: not our child */
    int socket;
    uint32_t serial; /* of the newest call */
    struct hx_agent_shared *shared;
};

/* Memory shared with an agent to be, of a memfd (-1: of the fork), and a socket whose other end
 * *ret_socket is. */
static hx_error *create_agent(int memory_fd, struct hx_agent **ret, int *ret_socket)
{
    int pair[2], flags = memory_fd < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED;
    struct hx_agent *agent = calloc(1, sizeof *agent);
    HX_NEED(agent);
    agent->shared = mmap(NULL, sizeof *agent->shared, PROT_READ | PROT_WRITE, flags, memory_fd, 0);
    hx_error *err = agent->shared == MAP_FAILED ? hx_error_nomem() : NULL;
    if (!err && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        err = hx_error_os(errno, "agent", "socketpair");
        munmap(agent->shared, sizeof *agent->shared);
    }
    if (err) {
        free(agent);
        return err;
    }
    agent->socket = pair[0];
    *ret_socket = pair[1];
    *ret = agent;
    return NULL;
}

hx_error *hx_agent_start(pid_t pid, struct hx_agent **ret)
{
    struct hx_agent *agent;
    int socket;
    HX_TRY(create_agent(-1, &agent, &socket));
    agent->agent = fork();
    if (agent->agent == 0)
        hx_agent_supervise(pid, socket, agent->shared);
    int err = errno;
    close(socket);
    if (agent->agent < 0) {
        hx_agent_stop(agent);
        return hx_error_os(err, "agent", "fork");
    }
    *ret = agent;
    return NULL;
}

/* Of an agent that is not our child. */
static void await_end(int socket)
{
    struct hx_agent_reply unused;
    int fds[2];
    while (hx_packet_receive(socket, &unused, sizeof unused, fds, 2) > 0)
        for (int i = 0; i < 2; i++)
            if (fds[i] >= 0)
                close(fds[i]);
}

void hx_agent_stop(struct hx_agent *agent)
{
    if (!agent)
        return;
    /* the agent sees the end, even when a child of ours holds the socket too; it lets go and exits
     */
    shutdown(agent->socket, agent->agent ? SHUT_RDWR : SHUT_WR);
    if (!agent->agent)
        await_end(agent->socket);
    close(agent->socket);
    if (agent->agent > 0)
        while (waitpid(agent->agent, NULL, 0) < 0 && errno == EINTR)
            ;
    munmap(agent->shared, sizeof *agent->shared);
    free(agent);
}

const struct hx_short_calls *hx_agent_short_calls(const struct hx_agent *agent)
{
    return &agent->shared->short_calls;
}

struct hx_stop_mark *hx_agent_stop_mark(struct hx_agent *agent)
{
    return &agent->shared->mark;
}

atomic_bool *hx_agent_exhausted(struct hx_agent *agent)
{
    return &agent->shared->exhausted;
}

static hx_error *lost_agent(struct hx_agent *agent)
{
    int status;
    pid_t got = 0;
    shutdown(agent->socket, SHUT_RDWR); /* should it be there after all */
    while (agent->agent > 0 && (got = waitpid(agent->agent, &status, 0)) < 0 && errno == EINTR)
        ;
    if (got > 0)
        agent->agent = -1;
    if (got > 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        return hx_agent_killed("its process");
    return hx_error_new(HX_E_FAIL, "agent", "start heapx again", "its process has ended");
}

static hx_error *reply_to_error(const struct hx_agent_reply *reply)
{
    hx_error *err = hx_error_new((enum hx_error_kind)reply->kind, reply->text[0],
                                 reply->has_todo ? reply->text[2] : NULL, "%s", reply->text[1]);
    if (err->kind != HX_E_NOMEM)
        err->os_errno = reply->os_errno;
    return err;
}

static bool send_call(struct hx_agent *agent, struct hx_agent_call *call, const int *fds,
                      size_t n_fds)
{
    call->serial = ++agent->serial;
    return hx_packet_send(agent->socket, call, sizeof *call, fds, n_fds);
}

/* A capture can be answered twice: by a worker and, when that was killed right afterwards, by the
 * supervisor. Drops an reply that belongs to an earlier call. */
static bool is_stale(const struct hx_agent *agent, const void *packet, ssize_t got, int fds[2])
{
    uint32_t serial;
    if (got < (ssize_t)sizeof serial)
        return false;
    memcpy(&serial, packet, sizeof serial);
    for (int i = 0; i < 2 && serial != agent->serial; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    return serial != agent->serial;
}

static ssize_t await_reply(struct hx_agent *agent, void *packet, size_t size, int fds[2])
{
    ssize_t got;
    do
        got = hx_packet_receive(agent->socket, packet, size, fds, 2);
    while (is_stale(agent, packet, got, fds));
    return got;
}

/* A call and its reply, with the reply's descriptors; an reply that is an error has none. */
static hx_error *call_agent(struct hx_agent *agent, struct hx_agent_call *call, const int *fds,
                            size_t n_fds, struct hx_agent_reply *reply, int ret_fds[2])
{
    if (!send_call(agent, call, fds, n_fds) ||
        await_reply(agent, reply, sizeof *reply, ret_fds) != sizeof *reply)
        return lost_agent(agent);
    return reply->kind >= 0 ? reply_to_error(reply) : NULL;
}

bool hx_agent_read(struct hx_agent *agent, uint64_t addr, void *dst, size_t len)
{
    struct hx_agent_call call = {.op = HX_AGENT_READ, .addr = addr, .len = len};
    struct hx_agent_bytes reply;
    int fds[2];
    if (len > sizeof reply.bytes || !send_call(agent, &call, NULL, 0))
        return false;
    ssize_t got = await_reply(agent, &reply, sizeof reply, fds);
    if (got != (ssize_t)(offsetof(struct hx_agent_bytes, bytes) + len) || !reply.ok)
        return false;
    memcpy(dst, reply.bytes, len);
    return true;
}

uint64_t hx_agent_held_ns(struct hx_agent *agent)
{
    char nothing;
    hx_agent_read(agent, 0, &nothing, 0); /* answered when who captured has ended */
    return atomic_load(&agent->shared->held_ns);
}

hx_error *hx_agent_start_by(struct hx_agent *other, pid_t pid, struct hx_agent **ret)
{
    struct hx_agent_call call = {.op = HX_AGENT_START, .addr = (uint64_t)pid};
    struct hx_agent_reply reply;
    struct hx_agent *agent;
    int socket, fds[2];
    HX_FD int memory = memfd_create("heapx agent", MFD_CLOEXEC);
    if (memory < 0 || ftruncate(memory, sizeof(struct hx_agent_shared)) != 0)
        return hx_error_os(errno, "agent", "memfd_create");
    HX_TRY(create_agent(memory, &agent, &socket));
    hx_error *err = call_agent(other, &call, (int[]){socket, memory}, 2, &reply, fds);
    close(socket);
    if (err)
        hx_agent_stop(agent);
    else
        *ret = agent;
    return err;
}

/* An array of n elements at *at of the file, which moves on; a byte 0 follows it. */
static hx_error *read_array(int fd, uint64_t *at, void *ret, size_t n, size_t element)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, element, &bytes))
        return hx_error_new(HX_E_CORRUPT, "agent", NULL, "an answer that cannot be");
    void *array = malloc(bytes + 1);
    HX_NEED(array);
    for (size_t done = 0; done < bytes;) {
        ssize_t got = pread(fd, (char *)array + done, bytes - done, (off_t)(*at + done));
        if (got <= 0) {
            free(array);
            return hx_error_new(HX_E_CORRUPT, "agent", NULL, "an answer that was cut short");
        }
        done += (size_t)got;
    }
    ((char *)array)[bytes] = 0;
    *at += bytes;
    *(void **)ret = array;
    return NULL;
}

hx_error *hx_agent_smaps(struct hx_agent *agent, uint64_t max_held_ns, struct hx_figures *ret)
{
    struct hx_agent_call call = {.op = HX_AGENT_SMAPS, .len = max_held_ns};
    struct hx_agent_reply reply;
    int fds[2];
    HX_TRY(call_agent(agent, &call, NULL, 0, &reply, fds));
    HX_FD int fd = fds[0];
    uint64_t at = 0;
    *ret = (struct hx_figures){.len = reply.smaps_len, .held_ns = reply.held_ns};
    return read_array(fd, &at, &ret->text, reply.smaps_len, 1);
}

static hx_error *await_agent(struct hx_agent *agent, const struct hx_progress *progress,
                             struct hx_agent_reply *reply, int fds[2])
{
    for (bool cancelled = false;;) {
        struct pollfd poll_fd = {.fd = agent->socket, .events = POLLIN};
        int ready = poll(&poll_fd, 1, 50);
        if (ready > 0) {
            ssize_t got = hx_packet_receive(agent->socket, reply, sizeof *reply, fds, 2);
            if (is_stale(agent, reply, got, fds))
                continue;
            return got == sizeof *reply ? NULL : lost_agent(agent);
        }
        hx_progress_at(progress, "copy", atomic_load(&agent->shared->bytes_read),
                       atomic_load(&agent->shared->bytes_total));
        if (hx_progress_cancelled(progress) && !cancelled) {
            struct hx_agent_call call = {.op = HX_AGENT_CANCEL};
            cancelled = hx_packet_send(agent->socket, &call, sizeof call, NULL, 0);
        }
    }
}

static hx_error *read_result_tables(int fd, struct hx_agent_result *ret)
{
    uint64_t at = 0;
    HX_TRY(read_array(fd, &at, &ret->thread, ret->n_threads, sizeof *ret->thread));
    HX_TRY(read_array(fd, &at, &ret->piece, ret->n_pieces, sizeof *ret->piece));
    HX_TRY(read_array(fd, &at, &ret->lost, ret->n_lost, sizeof *ret->lost));
    HX_TRY(read_array(fd, &at, &ret->swapped, ret->n_swapped, sizeof *ret->swapped));
    return read_array(fd, &at, &ret->smaps, ret->smaps_len, 1);
}

hx_error *hx_agent_capture(struct hx_agent *agent, const struct hx_agent_request *request,
                           int *memory_fd, const struct hx_progress *progress,
                           struct hx_agent_result *ret)
{
    HX_FD int memory = *memory_fd;
    *memory_fd = -1;
    HX_FD int fd = memfd_create("heapx request", MFD_CLOEXEC);
    if (fd < 0 || pwrite(fd, request, sizeof *request, 0) != sizeof *request)
        return hx_error_os(errno, "agent", "memfd_create");
    struct hx_agent_call call = {.op = HX_AGENT_CAPTURE};
    int fds[2] = {fd, memory};
    struct hx_agent_reply reply;
    atomic_store(&agent->shared->bytes_total, 0);
    if (!send_call(agent, &call, fds, 2))
        return lost_agent(agent);
    HX_TRY(await_agent(agent, progress, &reply, fds));
    HX_FD int tables = fds[0];
    HX_FD int copy = fds[1];
    *ret = (struct hx_agent_result){
        .pause_ns = reply.pause_ns, .locked = reply.locked, .memory_fd = -1};
    if (reply.kind >= 0) {
        *memory_fd = copy;
        copy = -1;
        return reply_to_error(&reply);
    }
    *ret = (struct hx_agent_result){.pause_ns = reply.pause_ns,
                                    .taken_at_ns = reply.taken_at_ns,
                                    .locked = reply.locked,
                                    .n_stuck = reply.n_stuck,
                                    .n_threads = reply.n_threads,
                                    .n_pieces = reply.n_pieces,
                                    .n_lost = reply.n_lost,
                                    .n_swapped = reply.n_swapped,
                                    .pages_known = reply.pages_known,
                                    .smaps_len = reply.smaps_len,
                                    .memory_bytes = reply.memory_bytes,
                                    .precopied = reply.precopied,
                                    .prepare_ns = reply.prepare_ns,
                                    .hot_bytes = reply.hot_bytes,
                                    .may_be_stale = reply.may_be_stale,
                                    .memory_fd = -1};
    snprintf(ret->why_not, sizeof ret->why_not, "%.*s", HX_AGENT_WHY - 1, reply.why_not);
    hx_error *err = read_result_tables(tables, ret);
    if (err) {
        hx_agent_result_deinit(ret);
        return err;
    }
    for (size_t i = 0; i < ret->n_lost; i++)
        ret->lost_bytes += ret->lost[i].end - ret->lost[i].start;
    hx_progress_at(progress, "copy", ret->memory_bytes, ret->memory_bytes);
    ret->memory_fd = copy;
    copy = -1;
    return NULL;
}

void hx_agent_result_deinit(struct hx_agent_result *result)
{
    free(result->thread);
    free(result->piece);
    free(result->lost);
    free(result->swapped);
    free(result->smaps);
    if (result->memory_fd >= 0)
        close(result->memory_fd);
    *result = (struct hx_agent_result){.memory_fd = -1};
}
