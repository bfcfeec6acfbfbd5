/* agent.c - the supervisor, and the parent's end of the socket. */
#include "attach/stop/agent.h"

#include "attach/stop/agent_protocol.h"
#include "attach/memwatch.h"
#include "base/proc.h"
#include "attach/stop/tracer.h"
#include "base/cleanup.h"

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
static const uint64_t hang_ns = 10000000000, grace_ns = 1000000000;

/* --- packets ------------------------------------------------------------------------- */

bool hx_agent_send(int socket, const void *packet, size_t len, const int *fds, size_t n_fds)
{
    struct iovec iov = {.iov_base = (void *)packet, .iov_len = len};
    union {
        char bytes[CMSG_SPACE(2 * sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    int live[2];
    size_t n = 0;
    for (size_t i = 0; i < n_fds && i < 2; i++)
        if (fds[i] >= 0)
            live[n++] = fds[i];
    if (n) {
        msg.msg_control = control.bytes;
        msg.msg_controllen = CMSG_SPACE(n * sizeof(int));
        struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);
        cmsg->cmsg_level = SOL_SOCKET;
        cmsg->cmsg_type = SCM_RIGHTS;
        cmsg->cmsg_len = CMSG_LEN(n * sizeof(int));
        memcpy(CMSG_DATA(cmsg), live, n * sizeof(int));
    }
    ssize_t sent;
    while ((sent = sendmsg(socket, &msg, MSG_NOSIGNAL)) < 0 && errno == EINTR)
        ;
    return sent == (ssize_t)len;
}

ssize_t hx_agent_recv(int socket, void *packet, size_t len, int fds[2])
{
    struct iovec iov = {.iov_base = packet, .iov_len = len};
    union {
        char bytes[CMSG_SPACE(2 * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof control.bytes};
    fds[0] = fds[1] = -1;
    ssize_t got;
    while ((got = recvmsg(socket, &msg, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR)
        ;
    for (struct cmsghdr *cmsg = got > 0 ? CMSG_FIRSTHDR(&msg) : NULL; cmsg;
         cmsg = CMSG_NXTHDR(&msg, cmsg))
        if (cmsg->cmsg_level == SOL_SOCKET && cmsg->cmsg_type == SCM_RIGHTS)
            memcpy(fds, CMSG_DATA(cmsg), cmsg->cmsg_len - CMSG_LEN(0));
    return got;
}

/* --- the supervisor ------------------------------------------------------------------ */

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

static void answer_read(struct supervisor *self, const struct hx_agent_call *call)
{
    struct hx_agent_bytes answer;
    size_t len = call->len < sizeof answer.bytes ? call->len : sizeof answer.bytes;
    struct iovec local = {.iov_base = answer.bytes, .iov_len = len};
    struct iovec remote = {.iov_base = (void *)call->addr, .iov_len = len};
    answer.serial = self->serial;
    answer.ok = process_vm_readv(self->pid, &local, 1, &remote, 1, 0) == (ssize_t)len;
    size_t head = offsetof(struct hx_agent_bytes, bytes);
    hx_agent_send(self->socket, &answer, answer.ok ? head + len : head, NULL, 0);
}

void hx_agent_fill_error(struct hx_agent_answer *answer, const hx_error *err)
{
    answer->kind = (int32_t)err->kind;
    answer->os_errno = err->os_errno;
    answer->has_todo = err->todo != NULL;
    snprintf(answer->text[0], sizeof answer->text[0], "%s", err->what);
    snprintf(answer->text[1], sizeof answer->text[1], "%s", err->why);
    snprintf(answer->text[2], sizeof answer->text[2], "%s", err->todo ? err->todo : "");
}

static void answer_error(struct supervisor *self, hx_error *err)
{
    struct hx_agent_answer answer = {.serial = self->serial};
    hx_agent_fill_error(&answer, err);
    hx_error_free(err);
    hx_agent_send(self->socket, &answer, sizeof answer, NULL, 0);
}

static void answer_smaps(struct supervisor *self)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/smaps", self->pid);
    HX_FREE char *text = NULL;
    size_t len = 0;
    hx_error *err = hx_proc_read(path, &text, &len);
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
        answer_error(self, err);
        return;
    }
    struct hx_agent_answer answer = {.serial = self->serial, .kind = -1, .smaps_len = len};
    hx_agent_send(self->socket, &answer, sizeof answer, &fd, 1);
}

/* Asks the worker to let go, then makes it. */
static void end_worker(pid_t worker)
{
    kill(worker, SIGTERM);
    for (uint64_t end = hx_now_ns() + grace_ns; hx_now_ns() < end;) {
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

/* One of ours that got SIGKILL, which heapx did not send. */
static hx_error *killed(const char *which)
{
    return hx_error_new(
        HX_E_LIMIT, "memory",
        "free some, or take the snapshot where there is more; see: heapx doctor PID",
        "%s was killed, as the kernel does when memory runs out", which);
}

/* Waits for the worker to end; false when the parent is gone. */
static bool watch_worker(struct supervisor *self, pid_t worker)
{
    uint64_t last = 0, since = hx_now_ns();
    for (;;) {
        int status;
        if (waitpid(worker, &status, WNOHANG) == worker) {
            if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
                answer_error(self, killed("the process that copies"));
            else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
                answer_error(self, hx_error_new(HX_E_FAIL, "agent", NULL,
                                                "the capture ended early (status %d)", status));
            return true;
        }
        enum hx_agent_op op = 0;
        if (!next_op(self->socket, &op)) {
            end_worker(worker);
            return false;
        }
        if (op == HX_AGENT_CANCEL) {
            struct hx_agent_call call;
            int fds[2];
            hx_agent_recv(self->socket, &call, sizeof call, fds);
            kill(worker, SIGTERM);
        } else if (op) {
            usleep(500); /* the answer is out, the next call is in: the worker is ending */
        }
        uint64_t now = hx_now_ns(), bytes = atomic_load(&self->shared->bytes_read);
        if (bytes != last || !atomic_load(&self->shared->stopped_at_ns)) {
            last = bytes;
            since = now;
        } else if (now - since > hang_ns) {
            atomic_store(&self->shared->given_up, true);
            end_worker(worker);
            answer_error(self, hx_error_new(HX_E_FAIL, "agent", "try again",
                                            "the copy made no progress for %d s and was given up",
                                            (int)(hang_ns / 1000000000)));
            return true;
        }
    }
}

static bool run_capture(struct supervisor *self, int memory_fd, int request_fd)
{
    HX_FD int memory = memory_fd, request = request_fd;
    if (pread(request, &self->request, sizeof self->request, 0) != sizeof self->request) {
        answer_error(self, hx_error_os(errno, "agent", "read"));
        return true;
    }
    atomic_store(&self->shared->bytes_read, 0);
    atomic_store(&self->shared->stopped_at_ns, 0);
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
        answer_error(self, hx_error_os(errno, "agent", "fork"));
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

static _Noreturn void become_agent(pid_t pid, int socket, struct hx_agent_shared *shared);

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
        become_agent(pid, socket, shared);
    if (agent < 0)
        answer_error(self, hx_error_os(errno, "agent", "fork"));
    else
        hx_agent_send(self->socket, &(struct hx_agent_answer){.serial = self->serial, .kind = -1},
                      sizeof(struct hx_agent_answer), NULL, 0);
    if (shared != MAP_FAILED)
        munmap(shared, sizeof *shared);
}

static _Noreturn void supervise(struct supervisor *self)
{
    for (;;) {
        struct hx_agent_call call;
        int fds[2];
        ssize_t got = hx_agent_recv(self->socket, &call, sizeof call, fds);
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
            answer_read(self, &call);
        else if (call.op == HX_AGENT_SMAPS)
            answer_smaps(self);
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

/* In the child: out of reach of the terminal's signals and of everything that was inherited. */
static _Noreturn void become_agent(pid_t pid, int socket, struct hx_agent_shared *shared)
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
    supervise(self);
}

/* --- the parent's end ---------------------------------------------------------------- */

struct hx_agent {
    pid_t agent; /* 0: not our child */
    int socket;
    uint32_t serial; /* of the newest call */
    struct hx_agent_shared *shared;
};

hx_error *hx_agent_start(pid_t pid, struct hx_agent **ret)
{
    struct hx_agent *agent = calloc(1, sizeof *agent);
    HX_NEED(agent);
    int pair[2] = {-1, -1};
    agent->shared = mmap(NULL, sizeof *agent->shared, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (agent->shared == MAP_FAILED) {
        free(agent);
        return hx_error_nomem();
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        hx_error *err = hx_error_os(errno, "agent", "socketpair");
        munmap(agent->shared, sizeof *agent->shared);
        free(agent);
        return err;
    }
    agent->agent = fork();
    if (agent->agent == 0)
        become_agent(pid, pair[1], agent->shared);
    close(pair[1]);
    agent->socket = pair[0];
    if (agent->agent < 0) {
        int err = errno;
        hx_agent_stop(agent);
        return hx_error_os(err, "agent", "fork");
    }
    *ret = agent;
    return NULL;
}

/* Of an agent that is not our child. */
static void await_end(int socket)
{
    struct hx_agent_answer unused;
    int fds[2];
    while (hx_agent_recv(socket, &unused, sizeof unused, fds) > 0)
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
        return killed("its process");
    return hx_error_new(HX_E_FAIL, "agent", "start heapx again", "its process has ended");
}

static hx_error *answer_to_error(const struct hx_agent_answer *answer)
{
    hx_error *err = hx_error_new((enum hx_error_kind)answer->kind, answer->text[0],
                                 answer->has_todo ? answer->text[2] : NULL, "%s", answer->text[1]);
    if (err->kind != HX_E_NOMEM)
        err->os_errno = answer->os_errno;
    return err;
}

static bool send_call(struct hx_agent *agent, struct hx_agent_call *call, const int *fds,
                      size_t n_fds)
{
    call->serial = ++agent->serial;
    return hx_agent_send(agent->socket, call, sizeof *call, fds, n_fds);
}

/* A capture can be answered twice: by a worker and, when that was killed right afterwards, by the
 * supervisor. Drops an answer that belongs to an earlier call. */
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

static ssize_t await_answer(struct hx_agent *agent, void *packet, size_t size, int fds[2])
{
    ssize_t got;
    do
        got = hx_agent_recv(agent->socket, packet, size, fds);
    while (is_stale(agent, packet, got, fds));
    return got;
}

bool hx_agent_read(struct hx_agent *agent, uint64_t addr, void *dst, size_t len)
{
    struct hx_agent_call call = {.op = HX_AGENT_READ, .addr = addr, .len = len};
    struct hx_agent_bytes answer;
    int fds[2];
    if (len > sizeof answer.bytes || !send_call(agent, &call, NULL, 0))
        return false;
    ssize_t got = await_answer(agent, &answer, sizeof answer, fds);
    if (got != (ssize_t)(offsetof(struct hx_agent_bytes, bytes) + len) || !answer.ok)
        return false;
    memcpy(dst, answer.bytes, len);
    return true;
}

hx_error *hx_agent_start_by(struct hx_agent *other, pid_t pid, struct hx_agent **ret)
{
    HX_FD int memory = memfd_create("heapx agent", MFD_CLOEXEC);
    int pair[2], none[2];
    struct hx_agent_call call = {.op = HX_AGENT_START, .addr = (uint64_t)pid};
    struct hx_agent_answer answer;
    if (memory < 0 || ftruncate(memory, sizeof(struct hx_agent_shared)) != 0)
        return hx_error_os(errno, "agent", "memfd_create");
    struct hx_agent *agent = calloc(1, sizeof *agent);
    HX_NEED(agent);
    agent->shared =
        mmap(NULL, sizeof *agent->shared, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    if (agent->shared == MAP_FAILED) {
        free(agent);
        return hx_error_nomem();
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        hx_error *err = hx_error_os(errno, "agent", "socketpair");
        munmap(agent->shared, sizeof *agent->shared);
        free(agent);
        return err;
    }
    agent->socket = pair[0];
    hx_error *err = NULL;
    if (!send_call(other, &call, (int[]){pair[1], memory}, 2) ||
        await_answer(other, &answer, sizeof answer, none) != sizeof answer)
        err = lost_agent(other);
    else if (answer.kind >= 0)
        err = answer_to_error(&answer);
    close(pair[1]);
    if (err)
        hx_agent_stop(agent);
    else
        *ret = agent;
    return err;
}

static hx_error *read_back(int fd, uint64_t *at, void *ret, size_t n, size_t element)
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

hx_error *hx_agent_smaps(struct hx_agent *agent, char **ret, size_t *ret_len)
{
    struct hx_agent_call call = {.op = HX_AGENT_SMAPS};
    struct hx_agent_answer answer;
    int fds[2];
    if (!send_call(agent, &call, NULL, 0) ||
        await_answer(agent, &answer, sizeof answer, fds) != sizeof answer)
        return lost_agent(agent);
    HX_FD int fd = fds[0];
    if (answer.kind >= 0)
        return answer_to_error(&answer);
    uint64_t at = 0;
    *ret_len = answer.smaps_len;
    return read_back(fd, &at, ret, answer.smaps_len, 1);
}

static hx_error *await_agent(struct hx_agent *agent, const struct hx_progress *progress,
                             struct hx_agent_answer *answer, int fds[2])
{
    for (bool cancelled = false;;) {
        struct pollfd poll_fd = {.fd = agent->socket, .events = POLLIN};
        int ready = poll(&poll_fd, 1, 50);
        if (ready > 0) {
            ssize_t got = hx_agent_recv(agent->socket, answer, sizeof *answer, fds);
            if (is_stale(agent, answer, got, fds))
                continue;
            return got == sizeof *answer ? NULL : lost_agent(agent);
        }
        hx_progress_at(progress, "copy", atomic_load(&agent->shared->bytes_read),
                       atomic_load(&agent->shared->bytes_total));
        if (hx_progress_cancelled(progress) && !cancelled) {
            struct hx_agent_call call = {.op = HX_AGENT_CANCEL};
            cancelled = hx_agent_send(agent->socket, &call, sizeof call, NULL, 0);
        }
    }
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
    struct hx_agent_answer answer;
    atomic_store(&agent->shared->bytes_total, 0);
    if (!send_call(agent, &call, fds, 2))
        return lost_agent(agent);
    HX_TRY(await_agent(agent, progress, &answer, fds));
    HX_FD int tables = fds[0];
    HX_FD int copy = fds[1];
    *ret = (struct hx_agent_result){
        .pause_ns = answer.pause_ns, .locked = answer.locked, .memory_fd = -1};
    if (answer.kind >= 0) {
        *memory_fd = copy;
        copy = -1;
        return answer_to_error(&answer);
    }
    *ret = (struct hx_agent_result){.pause_ns = answer.pause_ns,
                                    .taken_at_ns = answer.taken_at_ns,
                                    .locked = answer.locked,
                                    .n_stuck = answer.n_stuck,
                                    .n_threads = answer.n_threads,
                                    .n_pieces = answer.n_pieces,
                                    .n_lost = answer.n_lost,
                                    .n_swapped = answer.n_swapped,
                                    .pages_known = answer.pages_known,
                                    .smaps_len = answer.smaps_len,
                                    .memory_bytes = answer.memory_bytes,
                                    .memory_fd = -1};
    uint64_t at = 0;
    hx_error *err = read_back(tables, &at, &ret->thread, ret->n_threads, sizeof *ret->thread);
    if (!err)
        err = read_back(tables, &at, &ret->piece, ret->n_pieces, sizeof *ret->piece);
    if (!err)
        err = read_back(tables, &at, &ret->lost, ret->n_lost, sizeof *ret->lost);
    if (!err)
        err = read_back(tables, &at, &ret->swapped, ret->n_swapped, sizeof *ret->swapped);
    if (!err)
        err = read_back(tables, &at, &ret->smaps, ret->smaps_len, 1);
    if (err) {
        hx_agent_result_deinit(ret);
        return err;
    }
    for (size_t i = 0; i < ret->n_lost; i++)
        ret->lost_bytes += ret->lost[i].end - ret->lost[i].start;
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
