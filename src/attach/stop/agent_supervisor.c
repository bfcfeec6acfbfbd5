/* agent_supervisor.c - the body of the agent: it answers calls, and forks and watches workers. */
#include "attach/stop/agent_protocol.h"

#include "attach/memwatch.h"
#include "attach/stop/figures.h"
#include "attach/stop/pagemap.h"
#include "base/cleanup.h"
#include "base/packet.h"
#include "base/proc.h"
#include "base/timing.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

/* A worker that holds the target and does not get on for this long is ended, one that was
 * asked to end gets this long to let go by itself. */
static const uint64_t hang_ns = 10000000000;
enum { GRACE_MS = 1000 };

struct supervisor {
    pid_t pid;        /* the target */
    uint64_t started; /* hx_proc_started() of it */
    uint32_t serial;  /* of the call that is being answered */
    int socket;
    struct hx_agent_shared *shared;
    struct hx_agent_request request;
};

hx_error *hx_agent_target_gone(pid_t pid)
{
    char what[32];
    snprintf(what, sizeof what, "PID %d", pid);
    return hx_error_new(HX_E_GONE, what, NULL, "the process has exited");
}

/* --- replies --------------------------------------------------------------------------- */

static void reply_read(struct supervisor *self, const struct hx_agent_call *call)
{
    struct hx_agent_bytes reply;
    size_t len = call->len < sizeof reply.bytes ? call->len : sizeof reply.bytes;
    struct iovec local = {.iov_base = reply.bytes, .iov_len = len};
    struct iovec remote = {.iov_base = (void *)call->addr, .iov_len = len};
    struct hx_lock_use lock = {0};
    reply.serial = self->serial;
    reply.ok = hx_lock_readv(&lock, self->pid, &local, 1, &remote, 1) == (ssize_t)len;
    size_t head = offsetof(struct hx_agent_bytes, bytes);
    hx_packet_send(self->socket, &reply, reply.ok ? head + len : head, NULL, 0);
}

void hx_agent_fill_error(struct hx_agent_reply *reply, const hx_error *err)
{
    reply->kind = (int32_t)err->kind;
    reply->os_errno = err->os_errno;
    reply->has_todo = err->todo != NULL;
    snprintf(reply->text[0], sizeof reply->text[0], "%s", err->what);
    snprintf(reply->text[1], sizeof reply->text[1], "%s", err->why);
    snprintf(reply->text[2], sizeof reply->text[2], "%s", err->todo ? err->todo : "");
}

static void reply_error(struct supervisor *self, hx_error *err)
{
    struct hx_agent_reply reply = {.serial = self->serial};
    hx_agent_fill_error(&reply, err);
    hx_error_free(err);
    hx_packet_send(self->socket, &reply, sizeof reply, NULL, 0);
}

static void reply_smaps(struct supervisor *self, uint64_t max_held_ns)
{
    struct hx_figures figures = {0};
    hx_error *err = hx_figures_read(self->pid, max_held_ns, &figures);
    HX_FREE char *text = figures.text;
    size_t len = figures.len;
    HX_FD int fd = memfd_create("heapx smaps", MFD_CLOEXEC);
    if (!err && hx_proc_started(self->pid) != self->started)
        err = hx_agent_target_gone(self->pid);
    for (size_t at = 0; !err && at < len;) {
        ssize_t n = write(fd, text + at, len - at);
        if (n < 0 && errno != EINTR)
            err = hx_error_os(errno, "agent", fd < 0 ? "memfd_create" : "write");
        at += n > 0 ? (size_t)n : 0;
    }
    if (err) {
        reply_error(self, err);
        return;
    }
    struct hx_agent_reply reply = {
        .serial = self->serial, .kind = -1, .smaps_len = len, .held_ns = figures.held_ns};
    hx_packet_send(self->socket, &reply, sizeof reply, &fd, 1);
}

/* --- the worker ------------------------------------------------------------------------ */

/* Asks the worker to let go, then makes it. Naps are counted and not the time: where the machine
 * stood still the worker could not let go either. */
static void end_worker(pid_t worker)
{
    kill(worker, SIGTERM);
    for (int ms = 0; ms < GRACE_MS; ms++) {
        if (waitpid(worker, NULL, WNOHANG) != 0)
            return;
        usleep(1000);
    }
    kill(worker, SIGKILL);
    waitpid(worker, NULL, 0);
}

/* Looks, for 2 ms, at what the parent wants next, and leaves it there; 0: nothing. False when the
 * parent is gone. */
static bool next_op(int socket, enum hx_agent_op *ret)
{
    struct pollfd poll_fd = {.fd = socket, .events = POLLIN};
    struct hx_agent_call call;
    *ret = 0;
    if (poll(&poll_fd, 1, 2) <= 0)
        return true;
    ssize_t got = recv(socket, &call, sizeof call, MSG_PEEK | MSG_DONTWAIT);
    if (got == sizeof call)
        *ret = (enum hx_agent_op)call.op;
    return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

hx_error *hx_agent_killed(const char *which)
{
    return hx_error_new(
        HX_E_LIMIT, "memory",
        "free some, or take the snapshot where there is more; see: heapx doctor PID",
        "%s was killed, as the kernel does when memory runs out", which);
}

static void reply_ended(struct supervisor *self, int status)
{
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        reply_error(self, hx_agent_killed("the process that copies"));
    else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        reply_error(self, hx_error_new(HX_E_FAIL, "agent", NULL,
                                       "the capture ended early (status %d)", status));
}

static void give_worker_up(struct supervisor *self, pid_t worker)
{
    atomic_store(&self->shared->given_up, true);
    end_worker(worker);
    reply_error(self, hx_error_new(HX_E_FAIL, "agent", "try again",
                                   "the copy made no progress for %d s and was given up",
                                   (int)(hang_ns / 1000000000)));
}

/* Handles what the parent wants meanwhile; false when it is gone. */
static bool heed_parent(struct supervisor *self, pid_t worker)
{
    enum hx_agent_op op = 0;
    if (!next_op(self->socket, &op))
        return false;
    if (op == HX_AGENT_CANCEL) {
        struct hx_agent_call call;
        int fds[2];
        hx_packet_receive(self->socket, &call, sizeof call, fds, 2);
        kill(worker, SIGTERM);
    } else if (op) {
        usleep(500); /* the reply is out, the next call is in: the worker is ending */
    }
    return true;
}

/* Waits for the worker to end; false when the parent is gone. */
static bool watch_worker(struct supervisor *self, pid_t worker)
{
    uint64_t last = 0, since = hx_now_ns();
    for (;;) {
        int status;
        if (waitpid(worker, &status, WNOHANG) == worker) {
            reply_ended(self, status);
            return true;
        }
        if (!heed_parent(self, worker)) {
            end_worker(worker);
            return false;
        }
        uint64_t now = hx_now_ns(), bytes = atomic_load(&self->shared->bytes_read);
        if (bytes != last || !atomic_load(&self->shared->stopped_at_ns)) {
            last = bytes;
            since = now;
        } else if (now - since > hang_ns) {
            give_worker_up(self, worker);
            return true;
        }
    }
}

static bool run_capture(struct supervisor *self, int memory_fd, int request_fd)
{
    HX_FD int memory = memory_fd, request = request_fd;
    if (pread(request, &self->request, sizeof self->request, 0) != sizeof self->request) {
        reply_error(self, hx_error_os(errno, "agent", "read"));
        return true;
    }
    atomic_store(&self->shared->bytes_read, 0);
    atomic_store(&self->shared->stopped_at_ns, 0);
    atomic_store(&self->shared->held_ns, 0);
    atomic_store(&self->shared->given_up, false);
    /* The worker looks for SIGTERM itself; one that comes before it does must wait, not kill. */
    sigset_t term, before;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_BLOCK, &term, &before);
    pid_t self_pid = getpid();
    pid_t worker = fork();
    if (worker != 0)
        sigprocmask(SIG_SETMASK, &before, NULL);
    if (worker < 0) {
        reply_error(self, hx_error_os(errno, "agent", "fork"));
        return true;
    }
    if (worker == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prctl(PR_SET_NAME, "heapx-capture");
        if (getppid() != self_pid)
            _exit(1);
        hx_agent_worker(&(struct hx_agent_job){.pid = self->pid,
                                               .started = self->started,
                                               .serial = self->serial,
                                               .socket = self->socket,
                                               .memory_fd = memory,
                                               .request = &self->request,
                                               .shared = self->shared});
    }
    return watch_worker(self, worker);
}

/* --- calls ----------------------------------------------------------------------------- */

/* The thread that stood for the process may have exited, and others not. */
static void stay_with_living(struct supervisor *self)
{
    if (hx_proc_started(self->pid) != self->started)
        return;
    pid_t living = hx_proc_living(self->pid);
    if (living == 0 || living == self->pid)
        return;
    self->pid = living;
    self->started = hx_proc_started(living);
}

/* Forks the agent of another process. */
static void start_another(struct supervisor *self, pid_t pid, int socket_fd, int shared_fd)
{
    HX_FD int socket = socket_fd, memory = shared_fd;
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ; /* earlier ones that have ended */
    struct hx_agent_shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    pid_t agent = shared == MAP_FAILED || socket < 0 ? -1 : fork();
    if (agent == 0)
        hx_agent_supervise(pid, socket, shared);
    if (agent < 0)
        reply_error(self, hx_error_os(errno, "agent", "fork"));
    else
        hx_packet_send(self->socket, &(struct hx_agent_reply){.serial = self->serial, .kind = -1},
                       sizeof(struct hx_agent_reply), NULL, 0);
    if (shared != MAP_FAILED)
        munmap(shared, sizeof *shared);
}

static _Noreturn void answer_calls(struct supervisor *self)
{
    for (;;) {
        struct hx_agent_call call;
        int fds[2];
        ssize_t got = hx_packet_receive(self->socket, &call, sizeof call, fds, 2);
        if (got == 0 || (got < 0 && errno != EAGAIN))
            _exit(0);
        if (got != sizeof call || call.op == HX_AGENT_CANCEL) /* that came too late */
            continue;
        self->serial = call.serial;
        if (call.op == HX_AGENT_START)
            start_another(self, (pid_t)call.addr, fds[0], fds[1]);
        else if (call.op != HX_AGENT_READ)
            stay_with_living(self);
        if (call.op == HX_AGENT_READ)
            reply_read(self, &call);
        else if (call.op == HX_AGENT_SMAPS)
            reply_smaps(self, call.len);
        else if (call.op == HX_AGENT_CAPTURE && !run_capture(self, fds[1], fds[0]))
            _exit(0);
    }
}

/* The socket becomes descriptor 3, standard input and output /dev/null; all others are closed, the
 * parent's end of the socket above all: its end is how the agent learns of the parent's. */
static void keep_only(int socket)
{
    if (socket != 3 && dup2(socket, 3) < 0)
        _exit(1);
    fcntl(3, F_SETFD, FD_CLOEXEC);
    if (close_range(4, ~0u, 0) != 0)
        for (long fd = 4, end = sysconf(_SC_OPEN_MAX); fd < end && fd < 1 << 20; fd++)
            close((int)fd);
    int null = open("/dev/null", O_RDWR); /* one of 0, 1, 2 where heapx was started without */
    for (int fd = 0; fd < 3 && null >= 0; fd++)
        dup2(null, fd);
    if (null > 3)
        close(null);
}

_Noreturn void hx_agent_supervise(pid_t pid, int socket, struct hx_agent_shared *shared)
{
    setsid();
    prctl(PR_SET_NAME, "heapx-agent");
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    static const int ignored[] = {SIGINT,  SIGHUP,  SIGQUIT, SIGPIPE,
                                  SIGTSTP, SIGTTIN, SIGTTOU, SIGXFSZ};
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
        signal(ignored[i], SIG_IGN);
    static const int plain[] = {SIGTERM, SIGCHLD, SIGUSR1, SIGUSR2, SIGALRM};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        signal(plain[i], SIG_DFL);
    struct rlimit files; /* counts for the copy, too, though it is no file on a disk */
    if (getrlimit(RLIMIT_FSIZE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_FSIZE, &files);
    }
    keep_only(socket);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) { /* of many threads files are kept open */
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    hx_oom_volunteer(); /* also where heapx did not */
    /* not from malloc, which a thread that was not forked may have locked (sanitizers' may) */
    struct supervisor *self =
        mmap(NULL, sizeof *self, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (self == MAP_FAILED)
        _exit(1);
    self->pid = pid; /* field by field: it is large, and the stack may be small */
    self->started = hx_proc_started(pid);
    self->socket = 3;
    self->shared = shared;
    answer_calls(self);
}
