/* tracer.c - PTRACE_SEIZE, INTERRUPT and DETACH of every thread. */
#include "attach/stop/tracer.h"

#include "attach/stop/registers.h"
#include "base/cleanup.h"
#include "base/lower_bound.h"
#include "base/proc.h"
#include "base/progress.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SEIZE_TRIES = 3, SEIZE_ROUNDS = 3, PRESSED_EVERY = 64, HELD_UP_NS = 200000 };

/* How long a thread may take to stop: one that sleeps in the kernel without a way to be woken
 * (state D) is left there, a parent in vfork, whose child as a rule is another program within a
 * millisecond or will not be for long, sooner; one that is only waiting for a processor gets
 * longer. */
static const uint64_t stuck_after_ns = 50000000, vfork_after_ns = 5000000,
                      stop_limit_ns = 5000000000;

/* How long one thread is waited for while others may stand by now. */
static const uint64_t one_thread_ns = 1000000;

/* How long is waited at the end for threads that were interrupted and do not stand still yet,
 * while the others run: on a busy machine they wait for a processor. Less than what the agent
 * grants after its parent's death. */
static const uint64_t late_ns = 700000000, late_in_kernel_ns = 20000000, longest_nap_ns = 2000000;

hx_error *hx_tracer_pressed(const struct hx_tracer *tracer)
{
    struct pollfd poll_fd[2] = {
        {.fd = tracer->cancel_fd, .events = POLLIN},
        {.fd = tracer->parent_fd > 0 ? tracer->parent_fd : -1}, /* POLLHUP comes unasked */
    };
    char what[32];
    snprintf(what, sizeof what, "PID %d", tracer->pid);
    if (poll(poll_fd, 2, 0) > 0 || (tracer->exhausted && atomic_load(tracer->exhausted)))
        return hx_error_cancelled(what);
    if (tracer->deadline_ns && tracer->stopped_at_ns && hx_now_ns() > tracer->deadline_ns)
        return hx_error_new(HX_E_BUSY, what, "allow a longer --max-pause",
                            "the target would have stood still for longer than --max-pause");
    return NULL;
}

static hx_error *target_gone(const struct hx_tracer *tracer)
{
    char what[32];
    snprintf(what, sizeof what, "PID %d", tracer->pid);
    return hx_error_new(HX_E_GONE, what, NULL, "the process has exited");
}

static struct hx_tracee *find_tracee(const struct hx_tracer *tracer, size_t n_sorted, pid_t tid)
{
    size_t low = HX_LOWER_BOUND(n_sorted, i, tracer->tracee.v[i].thread.tid < tid);
    return low < n_sorted && tracer->tracee.v[low].thread.tid == tid ? &tracer->tracee.v[low]
                                                                     : NULL;
}

struct hx_tracee *hx_tracer_find(const struct hx_tracer *tracer, pid_t tid)
{
    return find_tracee(tracer, tracer->tracee.n, tid);
}

static int by_tid(const void *a, const void *b)
{
    pid_t left = ((const struct hx_tracee *)a)->thread.tid;
    pid_t right = ((const struct hx_tracee *)b)->thread.tid;
    return left < right ? -1 : left > right;
}

/* Who traces the thread; 0: nobody. */
static pid_t tracer_of(pid_t pid, pid_t tid)
{
    HX_FREE char *status = hx_proc_text("/proc/%d/task/%d/status", pid, tid);
    const char *by = status ? hx_proc_field(status, "TracerPid") : NULL;
    return by ? atoi(by) : 0;
}

static hx_error *refused(const struct hx_tracer *tracer, pid_t tid, pid_t by, int err)
{
    char what[48];
    snprintf(what, sizeof what, "PID %d", tracer->pid);
    if (by > 0) {
        hx_error *traced = hx_error_new(HX_E_BUSY, what, "end or detach that one first",
                                        "is traced already, by PID %d", by);
        if (traced->kind == HX_E_BUSY)
            traced->os_errno = EPERM; /* which tells it from what is busy by itself */
        return traced;
    }
    return hx_error_new(HX_E_PERM, what,
                        "run `heapx doctor` with the PID to see which rule forbids it",
                        "tracing thread %d: %s", tid, strerror(err));
}

static bool has_children(const struct hx_tracer *tracer, pid_t tid)
{
    char path[64], first;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", tracer->pid, tid);
    HX_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd >= 0 && read(fd, &first, 1) == 1;
}

/* Will signals that the process ignores be sent by way of this thread: SIGCHLD for a child of
 * its own, others for the first thread? Not looked at in the stop, where all but the newborn stand
 * still already: those that such a signal harms are let go last in any case. */
static bool is_addressee(const struct hx_tracer *tracer, pid_t tid)
{
    return tid == tracer->pid || (!tracer->stopped_at_ns && has_children(tracer, tid));
}

static hx_error *seize_one(const struct hx_tracer *tracer, struct hx_tracee *tracee)
{
    const pid_t tid = tracee->thread.tid;
    int err = 0;
    pid_t by = 0;
    tracee->state = HX_TRACEE_SEIZED;
    for (int i = 0; i < SEIZE_TRIES; i++) {
        err = ptrace(PTRACE_SEIZE, tid, NULL, NULL) == 0 ? 0 : errno;
        /* The kernel says the same of what it forbids and of what is traced, or was just now. */
        if (err != EPERM || (by = tracer_of(tracer->pid, tid)) > 0)
            break;
    }
    char state = hx_proc_state(tracer->pid, tid);
    if (err || state == 0) /* exits, has exited, or is another process's by now */
        tracee->state = HX_TRACEE_GONE;
    bool there = state != 0 && state != 'Z' && state != 'X';
    return err && err != ESRCH && there ? refused(tracer, tid, by, err) : NULL;
}

/* The threads that are new in /proc/PID/task; *ret_fresh says whether there were any: also one that
 * exits already can have started another. */
static hx_error *list_new(struct hx_tracer *tracer, bool *ret_fresh)
{
    const size_t n_sorted = tracer->tracee.n;
    struct dirent *entry;
    rewinddir(tracer->tasks);
    while ((entry = readdir(tracer->tasks))) {
        pid_t tid = atoi(entry->d_name);
        if (tid <= 0 || find_tracee(tracer, n_sorted, tid))
            continue;
        struct hx_tracee fresh = {.state = HX_TRACEE_LISTED,
                                  .addressee = is_addressee(tracer, tid),
                                  .thread = {.tid = tid, .ns_tid = tid}};
        HX_NEED(hx_vec_push(&tracer->tracee, fresh));
    }
    *ret_fresh = tracer->tracee.n > n_sorted;
    if (*ret_fresh)
        qsort(tracer->tracee.v, tracer->tracee.n, sizeof *tracer->tracee.v, by_tid);
    return NULL;
}

/* A signal that is ignored is queued all the same while its addressee is traced, and wakes any
 * thread of the process; one that is not traced yet (or no more) then returns from its call
 * with EINTR. So addressees are seized last, and let go first. */
static hx_error *seize_listed(struct hx_tracer *tracer)
{
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < tracer->tracee.n; i++) {
            struct hx_tracee *tracee = &tracer->tracee.v[i];
            if (tracee->state == HX_TRACEE_LISTED && (round == 1 || !tracee->addressee))
                HX_TRY(seize_one(tracer, tracee));
        }
    return NULL;
}

/* Are all threads of the process among those that stand still, so that none can be born? The kernel
 * tells their number with the folder, which takes no time; one more is there when the first thread
 * has exited before the others. */
static bool has_all(const struct hx_tracer *tracer)
{
    struct stat st;
    size_t n = 0;
    for (size_t i = 0; i < tracer->tracee.n; i++) {
        const struct hx_tracee *tracee = &tracer->tracee.v[i];
        n += tracee->state != HX_TRACEE_GONE || tracee->thread.tid == tracer->leader;
    }
    return fstat(dirfd(tracer->tasks), &st) == 0 && st.st_nlink == n + 2;
}

/* Name and number inside the target's namespace; best effort, before the stop. */
static void name_thread(pid_t pid, struct hx_thread *thread)
{
    HX_FREE char *status = hx_proc_text("/proc/%d/task/%d/status", pid, thread->tid);
    if (status)
        hx_proc_name(status, thread->comm, sizeof thread->comm);
    const char *numbers = status ? hx_proc_field(status, "NSpid") : NULL;
    if (!numbers)
        return;
    const char *end = numbers + strcspn(numbers, "\n");
    while (end > numbers && end[-1] >= '0' && end[-1] <= '9')
        end--;
    thread->ns_tid = atoi(end);
}

static void learn_threads(struct hx_tracer *tracer)
{
    for (size_t i = 0; i < tracer->tracee.n; i++) {
        struct hx_tracee *tracee = &tracer->tracee.v[i];
        if (tracee->learnt)
            continue;
        name_thread(tracer->pid, &tracee->thread);
        hx_timeout_sample(tracer->pid, tracee->thread.tid, &tracee->timeout);
        tracee->learnt = true;
    }
}

hx_error *hx_tracer_seize(struct hx_tracer *tracer)
{
    char path[64];
    HX_TRY(hx_tracer_pressed(tracer));
    snprintf(path, sizeof path, "/proc/%d/task", tracer->pid);
    tracer->tasks = opendir(path);
    if (!tracer->tasks)
        return errno == ENOENT ? target_gone(tracer) : hx_error_os(errno, path, "opendir");
    HX_FREE char *status = hx_proc_text("/proc/%d/status", tracer->pid);
    const char *leader = status ? hx_proc_field(status, "Tgid") : NULL;
    tracer->leader = leader ? atoi(leader) : 0;
    hx_arch_learn_layout(&tracer->layout);
    /* Some are born while the others are learnt of; what is left is seized in the stop. */
    bool fresh = true, timed = false;
    for (int i = 0; i < SEIZE_ROUNDS && fresh; i++) {
        HX_TRY(list_new(tracer, &fresh));
        learn_threads(tracer);
    }
    for (size_t i = 0; i < tracer->tracee.n && !timed; i++)
        timed = tracer->tracee.v[i].timeout.known;
    if (timed)
        hx_timeout_sample_clocks(&tracer->clocks);
    /* As short as can be before the stop: of two threads that an ignored signal wakes one finds it,
     * and the other goes on with EINTR unless it has been told to stop. */
    return seize_listed(tracer);
}

/* Takes one change of state of a seized thread; true when there was one. A stop is looked at
 * without taking it (WNOWAIT): the signal that it stands for then stays with the thread, and
 * is delivered even when this process dies before it could pass it on. */
static bool collect_state_change(struct hx_tracer *tracer, struct hx_tracee *tracee)
{
    siginfo_t info = {.si_pid = 0};
    int got = waitid(P_PID, (id_t)tracee->thread.tid, &info,
                     WEXITED | WSTOPPED | __WALL | WNOHANG | WNOWAIT);
    if (got == 0 && info.si_pid == 0)
        return false;
    if (got != 0 || (info.si_code != CLD_TRAPPED && info.si_code != CLD_STOPPED)) {
        waitpid(tracee->thread.tid, NULL, __WALL | WNOHANG);
        tracee->state = HX_TRACEE_GONE;
        return true;
    }
    bool there =
        hx_arch_stopped(tracee->thread.tid, &tracer->layout, &tracee->thread, &tracee->call);
    int event = info.si_status >> 8, signal = info.si_status & 0xff;
    tracee->deliver = event ? 0 : signal;
    tracee->group_stop = event && signal != SIGTRAP;
    tracee->state = there ? HX_TRACEE_STOPPED : HX_TRACEE_GONE;
    tracer->n_partial += there && tracee->call.partial;
    return true;
}

/* Of calls that may have come back short: the few of which files have to be asked in the stop. */
static void look_at_calls(struct hx_tracer *tracer)
{
    for (size_t i = 0; i < tracer->tracee.n && tracer->n_partial; i++) {
        struct hx_tracee *tracee = &tracer->tracee.v[i];
        if (tracee->state != HX_TRACEE_STOPPED || !tracee->call.partial)
            continue;
        hx_short_call(tracer->pid, tracee->thread.tid, &tracer->short_calls);
        tracee->call.partial = false;
        tracer->n_partial--;
    }
}

/* sp and pc of a thread that sleeps in the kernel, from /proc, and whether in vfork: nothing else
 * that starts a process sleeps like that. */
static void read_stuck_registers(pid_t pid, struct hx_thread *thread, bool *ret_vfork)
{
    HX_FREE char *text = hx_proc_text("/proc/%d/task/%d/syscall", pid, thread->tid);
    /* "NR ARG*6 SP PC", or "-1 SP PC" outside a call, or "running" */
    HX_VEC(uint64_t) words = {0};
    for (char *at = text, *end; at && *at; at = end) {
        uint64_t word = strtoull(at, &end, 0);
        if (end == at || words.n > 16 || !hx_vec_push(&words, word))
            break;
    }
    if (words.n >= 3) {
        thread->sp = words.v[words.n - 2];
        thread->pc = words.v[words.n - 1];
        thread->in_syscall = true;
    }
    *ret_vfork = words.n > 3 &&
                 (words.v[0] == SYS_vfork || words.v[0] == SYS_clone || words.v[0] == SYS_clone3);
    hx_vec_free(&words);
}

void hx_await_sigchld(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigtimedwait(&set, NULL, &(struct timespec){.tv_nsec = 200000});
}

/* The same; how long it took. Where the machine stood still nobody else has run either, so of that
 * little counts. */
static uint64_t nap(void)
{
    const uint64_t before = hx_now_ns();
    hx_await_sigchld();
    const uint64_t took = hx_now_ns() - before;
    return took < longest_nap_ns ? took : longest_nap_ns;
}

/* Threads that sleep in the kernel, or have exited, will not stop. */
static hx_error *judge_running(struct hx_tracer *tracer, uint64_t waited)
{
    for (size_t i = 0; i < tracer->tracee.n; i++) {
        struct hx_tracee *tracee = &tracer->tracee.v[i];
        if (tracee->state != HX_TRACEE_SEIZED)
            continue;
        char what[32], state = hx_proc_state(tracer->pid, tracee->thread.tid);
        snprintf(what, sizeof what, "PID %d", tracer->pid);
        if (state == 'D') {
            bool vfork;
            read_stuck_registers(tracer->pid, &tracee->thread, &vfork);
            if (vfork || waited >= stuck_after_ns)
                tracee->state = HX_TRACEE_STUCK;
        } else if (state == 0 || state == 'Z' || state == 'X') {
            tracee->state = HX_TRACEE_GONE;
        } else if (waited > stop_limit_ns) {
            return hx_error_new(HX_E_BUSY, what, "try again when the machine is less busy",
                                "thread %d (state %c) did not stop within %d s", tracee->thread.tid,
                                state, (int)(stop_limit_ns / 1000000000));
        }
    }
    return NULL;
}

/* Looks at the threads that were told to stop one after the other. One that does not stand yet is
 * waited for, because the others come to do so meanwhile; once that took long, the rest is not.
 * *ret_running: how many do not stand. */
static hx_error *collect_all(struct hx_tracer *tracer, size_t *ret_running)
{
    bool patient = true;
    *ret_running = 0;
    for (size_t i = 0; i < tracer->tracee.n; i++) {
        struct hx_tracee *tracee = &tracer->tracee.v[i];
        if (tracee->state != HX_TRACEE_SEIZED)
            continue;
        if (i % PRESSED_EVERY == 0)
            HX_TRY(hx_tracer_pressed(tracer));
        bool moved = collect_state_change(tracer, tracee);
        for (uint64_t end = moved ? 0 : hx_now_ns() + one_thread_ns; !moved && patient;) {
            HX_TRY(hx_tracer_pressed(tracer));
            hx_await_sigchld();
            moved = collect_state_change(tracer, tracee);
            patient = hx_now_ns() < end;
        }
        *ret_running += !moved;
    }
    return NULL;
}

/* Waits until no thread is in state SEIZED. */
static hx_error *wait_all(struct hx_tracer *tracer)
{
    size_t running;
    for (uint64_t begun = hx_now_ns();;) {
        HX_TRY(collect_all(tracer, &running));
        if (!running)
            break;
        uint64_t waited = hx_now_ns() - begun;
        if (waited >= vfork_after_ns)
            HX_TRY(judge_running(tracer, waited));
    }
    look_at_calls(tracer);
    return NULL;
}

static void interrupt(struct hx_tracer *tracer)
{
    if (!tracer->stopped_at_ns) {
        uint64_t now = hx_now_ns();
        if (tracer->deadline_ns) /* until now a duration */
            tracer->deadline_ns += now;
        tracer->stopped_at_ns = now;
    }
    for (size_t i = 0; i < tracer->tracee.n; i++) {
        struct hx_tracee *tracee = &tracer->tracee.v[i];
        bool first = !tracee->interrupted_ns;
        if (first)
            tracee->interrupted_ns = hx_now_ns();
        if (tracee->state == HX_TRACEE_SEIZED &&
            ptrace(PTRACE_INTERRUPT, tracee->thread.tid, NULL, NULL) != 0)
            tracee->state = HX_TRACEE_GONE;
        /* Whoever was held up in between cannot tell the stop from what else woke the thread. */
        if (first && hx_now_ns() - tracee->interrupted_ns > HELD_UP_NS)
            tracee->timeout.known = false;
    }
}

static hx_error *too_lively(const struct hx_tracer *tracer, uint64_t begun)
{
    char what[32];
    snprintf(what, sizeof what, "PID %d", tracer->pid);
    return hx_error_new(HX_E_BUSY, what, "try again when the process is less busy",
                        "threads were born without an end for %d s",
                        (int)((hx_now_ns() - begun) / 1000000000));
}

hx_error *hx_tracer_stop(struct hx_tracer *tracer)
{
    bool fresh = true;
    for (uint64_t begun = hx_now_ns(); fresh;) {
        interrupt(tracer);
        HX_TRY(wait_all(tracer));
        if (has_all(tracer))
            break;
        HX_TRY(list_new(tracer, &fresh));
        HX_TRY(seize_listed(tracer));
        HX_TRY(hx_tracer_pressed(tracer));
        if (fresh && hx_now_ns() - begun > stop_limit_ns)
            return too_lively(tracer, begun);
    }
    for (size_t i = 0; i < tracer->tracee.n; i++)
        if (tracer->tracee.v[i].state != HX_TRACEE_GONE)
            return NULL;
    return target_gone(tracer);
}

static bool is_code(const struct hx_way_out *way, uint64_t addr)
{
    for (size_t i = 0; i < way->n_codes; i++)
        if (addr >= way->code[i].start && addr < way->code[i].end)
            return true;
    return false;
}

/* Is the thread in the code, or was it called from there a few frames ago? Where locks do not tell,
 * that is asked only of those that may have waited for one: old words lie on the stacks of others.
 */
static bool is_inside_code(pid_t pid, const struct hx_thread *thread, const struct hx_way_out *way,
                           size_t held)
{
    if (is_code(way, thread->pc))
        return true;
    if (way->lockless && !held && !thread->in_syscall)
        return false;
    uint64_t words[64];
    struct iovec local = {.iov_base = words, .iov_len = sizeof words};
    struct iovec remote = {.iov_base = (void *)thread->sp, .iov_len = sizeof words};
    ssize_t got = process_vm_readv(pid, &local, 1, &remote, 1, 0);
    for (ssize_t i = 0; i < got / 8; i++)
        if (is_code(way, words[i]))
            return true;
    return false;
}

/* How often a thread was given a processor, from its open schedstat; 0 when unknown. */
static uint64_t count_slices(int schedstat)
{
    char text[96];
    uint64_t slices = 0;
    ssize_t n = pread(schedstat, text, sizeof text - 1, 0);
    text[n < 0 ? 0 : n] = 0;
    return sscanf(text, "%*s %*s %" SCNu64, &slices) == 1 ? slices : 0;
}

/* Lets one thread run for about `ns`, counted from when it gets a processor: on a busy machine
 * that takes longer than the running, and it may need this one. Else this spins, because sleeping
 * takes longer still. */
static hx_error *run_briefly(struct hx_tracer *tracer, struct hx_tracee *tracee, int schedstat,
                             uint64_t ns)
{
    const uint64_t awake_ns = 20000, limit_ns = 5000000;
    uint64_t pc = tracee->thread.pc, before = count_slices(schedstat), since = hx_now_ns();
    if (ptrace(PTRACE_CONT, tracee->thread.tid, NULL, (void *)(long)tracee->deliver) != 0) {
        tracee->state = HX_TRACEE_GONE;
        return NULL;
    }
    tracee->deliver = 0;
    tracee->state = HX_TRACEE_SEIZED;
    while (count_slices(schedstat) == before && hx_now_ns() < since + limit_ns) {
        if (hx_now_ns() < since + awake_ns)
            sched_yield();
        else
            hx_await_sigchld();
    }
    for (uint64_t end = hx_now_ns() + ns; hx_now_ns() < end;)
        sched_yield();
    interrupt(tracer);
    HX_TRY(wait_all(tracer));
    tracee->idle = tracee->thread.in_syscall && tracee->thread.pc == pc;
    return hx_tracer_pressed(tracer);
}

static hx_error *lead_one_out(struct hx_tracer *tracer, struct hx_tracee *tracee,
                              const struct hx_way_out *way, uint64_t end)
{
    HX_FD int schedstat = -1; /* of the few that have to run */
    size_t held = way->held(way->context);
    /* odd lengths of time, so as not to meet the same place of a loop again and again */
    for (uint64_t ns = 1100; hx_now_ns() < end; ns = ns < 20000 ? ns + ns / 3 : 1300) {
        if (tracee->state != HX_TRACEE_STOPPED || tracee->group_stop || tracee->idle ||
            !is_inside_code(tracer->pid, &tracee->thread, way, held))
            break;
        if (schedstat < 0) {
            char path[64];
            snprintf(path, sizeof path, "/proc/%d/task/%d/schedstat", tracer->pid,
                     tracee->thread.tid);
            schedstat = open(path, O_RDONLY | O_CLOEXEC);
        }
        HX_TRY(run_briefly(tracer, tracee, schedstat, ns));
        if (!held)
            continue;
        size_t now = way->held(way->context);
        if (now < held && !way->lockless)
            break;
        held = now;
    }
    return NULL;
}

hx_error *hx_tracer_lead_out(struct hx_tracer *tracer, const struct hx_way_out *way,
                             uint64_t limit_ns)
{
    uint64_t end = hx_now_ns() + limit_ns;
    size_t n = tracer->tracee.n;
    for (size_t i = 0; i < n && hx_now_ns() < end; i++) {
        /* with several threads the locks say all, if there are; one thread alone takes none */
        if (n > 1 && !way->lockless && !way->held(way->context))
            break;
        HX_TRY(lead_one_out(tracer, &tracer->tracee.v[i], way, end));
    }
    return hx_tracer_stop(tracer); /* threads that were born meanwhile, too */
}

static void detach(struct hx_tracee *tracee)
{
    ptrace(PTRACE_DETACH, tracee->thread.tid, NULL, (void *)(long)tracee->deliver);
    tracee->state = HX_TRACEE_GONE;
}

/* A signal that came since a thread was seized may have ended its call: it stands in it, or will.
 * So whoever was not told to stop yet is. */
static void interrupt_rest(struct hx_tracer *tracer)
{
    bool rest = false;
    for (size_t i = 0; i < tracer->tracee.n; i++)
        rest |=
            tracer->tracee.v[i].state == HX_TRACEE_SEIZED && !tracer->tracee.v[i].interrupted_ns;
    if (rest)
        interrupt(tracer);
}

/* Those that do not stand still though they were told to. */
struct late {
    bool awaited;   /* some will soon */
    bool addressee; /* ignored signals may come by way of one */
};

/* Threads that were interrupted are waited for, so that their calls are put right too. Not those
 * that sleep in the kernel, whom the interruption does not reach. Who has got children since it was
 * seized is looked at of the few that are not there after `waited`; 0: all of them may have. */
static struct late see_late(struct hx_tracer *tracer, uint64_t waited)
{
    struct late late = {0};
    for (size_t i = 0; i < tracer->tracee.n; i++) {
        struct hx_tracee *tracee = &tracer->tracee.v[i];
        pid_t tid = tracee->thread.tid;
        bool awaited = tracee->state == HX_TRACEE_SEIZED && tracee->interrupted_ns &&
                       !collect_state_change(tracer, tracee);
        if (awaited)
            late.awaited |= waited < late_in_kernel_ns || hx_proc_state(tracer->pid, tid) != 'D';
        if (awaited || tracee->state == HX_TRACEE_STUCK)
            late.addressee = late.addressee || tracee->addressee || (awaited && !waited) ||
                             has_children(tracer, tid);
    }
    return late;
}

/* What is left to be seen to before a thread goes on. */
static void put_calls_right(struct hx_tracer *tracer)
{
    for (size_t i = 0; i < tracer->tracee.n; i++) {
        struct hx_tracee *tracee = &tracer->tracee.v[i];
        if (tracee->state == HX_TRACEE_STOPPED && !tracee->deliver)
            hx_timeout_shorten(tracer->pid, tracee->thread.tid, &tracer->clocks, &tracee->timeout,
                               tracee->interrupted_ns);
    }
    look_at_calls(tracer);
}

/* So long the first thread may take to be given a processor. */
static const uint64_t takes_ns = 300000;

static bool has_common_signal(pid_t tid)
{
    struct __ptrace_peeksiginfo_args common = {.flags = PTRACE_PEEKSIGINFO_SHARED, .nr = 1};
    siginfo_t info;
    return ptrace(PTRACE_PEEKSIGINFO, tid, &common, &info) == 1;
}

/* What was sent to the process meanwhile goes to its first thread, as ever when that does not block
 * it; not to whoever is let go first, whose call it would end. */
static void let_first_take_signals(struct hx_tracer *tracer)
{
    struct hx_tracee *first = hx_tracer_find(tracer, tracer->pid), *other = NULL;
    for (size_t i = 0; i < tracer->tracee.n && !other; i++)
        if (tracer->tracee.v[i].state == HX_TRACEE_STOPPED && &tracer->tracee.v[i] != first)
            other = &tracer->tracee.v[i];
    if (!first || first->state != HX_TRACEE_STOPPED || !other ||
        !has_common_signal(other->thread.tid))
        return;
    detach(first);
    const uint64_t end = hx_now_ns() + takes_ns;
    while (has_common_signal(other->thread.tid) && hx_now_ns() < end)
        sched_yield();
}

/* Lets those go that stand still, addressees of ignored signals first and those whom such a signal
 * would end the call last. */
static void let_stopped_go(struct hx_tracer *tracer)
{
    for (int round = 0; round < 3; round++)
        for (size_t i = 0; i < tracer->tracee.n; i++) {
            struct hx_tracee *tracee = &tracer->tracee.v[i];
            if (tracee->state == HX_TRACEE_STOPPED &&
                (round == 2 || (round == 0 ? tracee->addressee : !tracee->call.restarted)))
                detach(tracee);
        }
}

/* While an addressee is late nobody is let go: a signal that is queued for it would wake one of
 * those that are not traced any more. When it does not come, all go at once, by our end. */
void hx_tracer_release(struct hx_tracer *tracer)
{
    uint64_t waited = 0;
    interrupt_rest(tracer);
    for (;;) {
        struct late late = see_late(tracer, waited);
        bool last = !late.awaited || waited >= late_ns;
        bool held = late.addressee && (!last || tracer->ending);
        if (last || !held)
            put_calls_right(tracer);
        if (!held) {
            let_first_take_signals(tracer);
            let_stopped_go(tracer);
        }
        if (last)
            break;
        waited += nap();
    }
    tracer->released_at_ns = hx_now_ns();
    for (size_t i = 0; i < tracer->tracee.n; i++)
        if (tracer->tracee.v[i].state != HX_TRACEE_STUCK) /* what is left is let go by our end */
            tracer->tracee.v[i].state = HX_TRACEE_GONE;
}

void hx_tracer_name_rest(struct hx_tracer *tracer)
{
    for (size_t i = 0; i < tracer->tracee.n; i++)
        if (!tracer->tracee.v[i].learnt && tracer->tracee.v[i].thread.has_regs)
            name_thread(tracer->pid, &tracer->tracee.v[i].thread);
}

void hx_tracer_deinit(struct hx_tracer *tracer)
{
    for (size_t i = 0; i < tracer->tracee.n; i++)
        if (tracer->tracee.v[i].timeout.sched > 0)
            close(tracer->tracee.v[i].timeout.sched);
    if (tracer->tasks)
        closedir(tracer->tasks);
    hx_vec_free(&tracer->tracee);
}
