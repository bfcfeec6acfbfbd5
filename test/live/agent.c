/* agent.c - the agent against a process that counts everything that happens to it.
 *
 * The child keeps a known pattern in memory, sleeps in the calls that answer EINTR to any
 * wake-up, takes queued signals, and counts; the parent captures it in every state.
 * Exit 77 where processes may not be traced.
 */
#include "attach/stop/agent.h"
#include "attach/stop/tracer.h"
#include "base/proc.h"
#include "model/process.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/wait.h>
#include <unistd.h>

/* More at work than there are processors, so that those that sleep are moved about. */
enum { PATTERN_BYTES = 24 << 20, LIMIT_MS = 150, N_AT_WORK = 3, N_THREADS = 4 + N_AT_WORK };

/* Shared between child and parent. */
struct shared {
    atomic_ulong interrupted, laps, signals;
    atomic_ulong early, in_time, latest_ms; /* of the time limits of the waiting calls */
    uint64_t *pattern;                      /* address in the child */
    atomic_bool ready;
    int semaphores; /* one set with one semaphore, at 0 */
};

static struct shared *shared; /* tests may: one process, one thread */

static uint64_t pattern_at(uint64_t i)
{
    return (i + 1) * 0x9e3779b97f4a7c15u;
}

/* A call with a time limit of LIMIT_MS that began at begun_ns has run out. */
static void count_limit(uint64_t begun_ns)
{
    uint64_t ms = (hx_now_ns() - begun_ns) / 1000000;
    atomic_fetch_add(ms < LIMIT_MS ? &shared->early : &shared->in_time, 1);
    if (ms > atomic_load(&shared->latest_ms))
        atomic_store(&shared->latest_ms, ms);
}

static void *in_epoll(void *unused)
{
    (void)unused;
    int fd = epoll_create1(EPOLL_CLOEXEC);
    for (;;) {
        struct epoll_event event;
        uint64_t begun = hx_now_ns();
        if (epoll_wait(fd, &event, 1, LIMIT_MS) < 0)
            atomic_fetch_add(&shared->interrupted, 1);
        else
            count_limit(begun);
    }
    return NULL;
}

static void *in_sigtimedwait(void *unused)
{
    (void)unused;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN);
    for (;;) {
        uint64_t begun = hx_now_ns();
        int got = sigtimedwait(&set, NULL, &(struct timespec){.tv_nsec = LIMIT_MS * 1000000});
        if (got == SIGRTMIN)
            atomic_fetch_add(&shared->signals, 1);
        else if (errno != EAGAIN)
            atomic_fetch_add(&shared->interrupted, 1);
        else
            count_limit(begun);
    }
    return NULL;
}

static void *in_semtimedop(void *unused)
{
    (void)unused;
    for (;;) {
        uint64_t begun = hx_now_ns();
        struct sembuf take = {.sem_op = -1};
        if (semtimedop(shared->semaphores, &take, 1,
                       &(struct timespec){.tv_nsec = LIMIT_MS * 1000000}) == 0 ||
            errno != EAGAIN)
            atomic_fetch_add(&shared->interrupted, 1);
        else
            count_limit(begun);
    }
    return NULL;
}

static void *at_work(void *unused)
{
    (void)unused;
    for (volatile uint64_t sum = 0;; atomic_fetch_add(&shared->laps, 1))
        for (int i = 0; i < 100000; i++)
            sum = sum * 31 + (uint64_t)i;
    return NULL;
}

static _Noreturn void child(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN);
    sigprocmask(SIG_BLOCK, &set, NULL);
    uint64_t *pattern =
        mmap(NULL, PATTERN_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (uint64_t i = 0; i < PATTERN_BYTES / 8; i++)
        pattern[i] = pattern_at(i);
    shared->pattern = pattern;
    pthread_t thread;
    pthread_create(&thread, NULL, in_epoll, NULL);
    pthread_create(&thread, NULL, in_sigtimedwait, NULL);
    pthread_create(&thread, NULL, in_semtimedop, NULL);
    for (int i = 0; i < N_AT_WORK; i++)
        pthread_create(&thread, NULL, at_work, NULL);
    usleep(20000);
    atomic_store(&shared->ready, true);
    for (;;)
        pause();
}

static pid_t start_child(void)
{
    memset(shared, 0, sizeof *shared);
    shared->semaphores = semget(IPC_PRIVATE, 1, 0600);
    pid_t pid = fork();
    if (pid == 0)
        child();
    while (!atomic_load(&shared->ready))
        usleep(1000);
    return pid;
}

static void end_child(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    semctl(shared->semaphores, 0, IPC_RMID);
}

static void fail(const char *what, const char *detail)
{
    printf("FAIL: %s %s\n", what, detail);
    exit(1);
}

static void expect(bool ok, const char *what)
{
    if (!ok)
        fail(what, "");
}

static hx_error *capture(struct hx_agent *agent, struct hx_agent_result *result,
                         uint64_t max_pause_ns, const struct hx_progress *progress)
{
    struct hx_agent_request *request = calloc(1, sizeof *request);
    request->threads = 2;
    request->max_pause_ns = max_pause_ns;
    int memory_fd = -1;
    hx_error *err = hx_agent_capture(agent, request, &memory_fd, progress, result);
    if (memory_fd >= 0)
        close(memory_fd);
    free(request);
    return err;
}

static void expect_pattern(const struct hx_agent_result *result)
{
    uint64_t start = (uintptr_t)shared->pattern, seen = 0;
    uint8_t *memory = mmap(NULL, result->memory_bytes, PROT_READ, MAP_SHARED, result->memory_fd, 0);
    expect(memory != MAP_FAILED, "the copy can be mapped");
    for (size_t i = 0; i < result->n_pieces; i++) {
        const struct hx_piece *piece = &result->piece[i];
        for (uint64_t at = piece->start; at < piece->end; at += 8) {
            if (at < start || at >= start + PATTERN_BYTES)
                continue;
            seen++;
            if (*(uint64_t *)(memory + piece->offset + (at - piece->start)) !=
                pattern_at((at - start) / 8))
                fail("the copy equals the target's memory", "");
        }
    }
    munmap(memory, result->memory_bytes);
    expect(seen == PATTERN_BYTES / 8, "all of the pattern was copied");
}

static char thread_state(pid_t pid)
{
    return hx_proc_state(pid, pid);
}

static bool is_traced(pid_t pid)
{
    char path[64], *text;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    hx_error *err = hx_proc_read(path, &text, NULL);
    expect(!err, "the target's status can be read");
    bool traced = atoi(hx_proc_field(text, "TracerPid")) != 0;
    free(text);
    return traced;
}

static void expect_free(pid_t pid)
{
    expect(!is_traced(pid), "nobody traces the target afterwards");
    unsigned long laps = atomic_load(&shared->laps);
    for (int i = 0; i < 2000 && atomic_load(&shared->laps) == laps; i++)
        usleep(1000);
    expect(atomic_load(&shared->laps) > laps, "the target works on");
    expect(atomic_load(&shared->interrupted) == 0, "no call came back with EINTR");
}

static void quiet_captures(void)
{
    struct hx_agent *agent;
    pid_t pid = start_child();
    expect(!hx_agent_start(pid, &agent), "the agent starts");
    for (int i = 0; i < 20; i++) {
        struct hx_agent_result result;
        hx_error *err = capture(agent, &result, 0, NULL);
        if (err && err->kind == HX_E_PERM) {
            printf("SKIP: %s\n", err->why);
            exit(77);
        }
        if (err)
            fail("a capture works", err->why);
        expect(result.n_threads == N_THREADS && result.n_stuck == 0, "all threads stood still");
        expect_pattern(&result);
        hx_agent_result_deinit(&result);
        kill(pid, SIGRTMIN);
    }
    usleep(100000);
    expect_free(pid);
    expect(atomic_load(&shared->signals) == 20, "every queued signal arrived once");

    kill(pid, SIGSTOP);
    while (thread_state(pid) != 'T')
        usleep(1000);
    struct hx_agent_result result;
    expect(!capture(agent, &result, 0, NULL), "a stopped process can be captured");
    hx_agent_result_deinit(&result);
    usleep(20000);
    expect(thread_state(pid) == 'T', "and stays stopped");
    kill(pid, SIGCONT);
    usleep(20000);
    atomic_store(&shared->interrupted, 0); /* SIGSTOP itself makes epoll_wait answer EINTR */
    expect_free(pid);

    hx_error *err = capture(agent, &result, 1, NULL);
    expect(err && err->kind == HX_E_BUSY, "a pause that is too long is given up");
    hx_error_free(err);
    expect_free(pid);

    atomic_bool cancel = true;
    err = capture(agent, &result, 0, &(struct hx_progress){.cancel = &cancel});
    expect(!err || err->kind == HX_E_CANCEL, "a capture can be cancelled");
    if (!err)
        hx_agent_result_deinit(&result);
    hx_error_free(err);
    expect_free(pid);

    end_child(pid);
    err = capture(agent, &result, 0, NULL);
    expect(err != NULL, "a process that is gone cannot be captured");
    hx_error_free(err);
    hx_agent_stop(agent);
}

/* Captures that follow each other faster than the time limits of the target's calls run out
 * must not put these off. */
static void limits_run_out(void)
{
    struct hx_agent *agent;
    pid_t pid = start_child();
    expect(!hx_agent_start(pid, &agent), "the agent starts");
    unsigned n = 0;
    for (uint64_t end = hx_now_ns() + 2000000000; hx_now_ns() < end; n++) {
        struct hx_agent_result result;
        expect(!capture(agent, &result, 0, NULL), "a capture works");
        hx_agent_result_deinit(&result);
    }
    hx_agent_stop(agent);
    printf("%u captures: %lu time limits ran out, the latest after %lu of %d ms\n", n,
           atomic_load(&shared->in_time), atomic_load(&shared->latest_ms), LIMIT_MS);
    expect(atomic_load(&shared->early) == 0, "no time limit ends early");
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/sched", pid);
    if (access(path, R_OK) == 0) /* a kernel without it cannot tell since when a thread sleeps */
        expect(atomic_load(&shared->in_time) >= 9, "time limits run out");
    expect_free(pid);
    end_child(pid);
}

/* A heapx that is killed in the middle of a capture; sometimes its agent or worker is, too. */
static void killed_captures(unsigned seed)
{
    pid_t pid = start_child();
    srand(seed);
    for (int i = 0; i < 40; i++) {
        pid_t victim = fork();
        if (victim == 0) {
            struct hx_agent *agent;
            struct hx_agent_result result;
            if (hx_agent_start(pid, &agent))
                _exit(1);
            for (;;)
                if (!capture(agent, &result, 0, NULL))
                    hx_agent_result_deinit(&result);
        }
        usleep((useconds_t)(rand() % 30000));
        kill(victim, SIGKILL);
        waitpid(victim, NULL, 0);
    }
    for (uint64_t end = hx_now_ns() + 20000000000; is_traced(pid) && hx_now_ns() < end;)
        usleep(10000); /* agents let go and end, once they have a processor */
    usleep(300000);
    expect_free(pid);
    char state = thread_state(pid);
    expect(state == 'S' || state == 'R', "the target is not stopped");
    end_child(pid);
}

/* Pages behind the end of a file cannot be read; everything else still is. */
static void unreadable_pages(void)
{
    int ready[2];
    expect(pipe(ready) == 0, "pipe");
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        int fd = memfd_create("short", MFD_CLOEXEC);
        expect(fd >= 0 && ftruncate(fd, 1 << 20) == 0, "memfd");
        char *bytes = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        memset(bytes, 1, 1 << 20);
        expect(ftruncate(fd, 4096) == 0 && write(ready[1], "x", 1) == 1, "truncated");
        for (;;)
            pause();
    }
    char byte;
    expect(read(ready[0], &byte, 1) == 1, "child is ready");
    struct hx_agent *agent;
    struct hx_agent_result result;
    expect(!hx_agent_start(pid, &agent), "the agent starts");
    hx_error *err = capture(agent, &result, 0, NULL);
    expect(!err, "pages that cannot be read are no failure");
    hx_agent_result_deinit(&result);
    hx_agent_stop(agent);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* Starts a child that prepares itself, and waits until it has. */
static pid_t start_other(void (*prepare)(void))
{
    atomic_store(&shared->ready, false);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prepare();
        atomic_store(&shared->ready, true);
        for (;;)
            pause();
    }
    expect(pid > 0, "fork");
    while (!atomic_load(&shared->ready))
        usleep(1000);
    return pid;
}

static void end_other(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* Children of a process that does nothing about their ends. */
static void await_child_for(useconds_t us)
{
    pid_t pid = vfork(); /* in which no stop reaches the thread */
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        usleep(us);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    atomic_fetch_add(&shared->laps, 1);
}

static void *with_children(void *unused)
{
    for (useconds_t i = 0;; i++)
        await_child_for(1000 + i * 17 % 60 * 1000);
    return unused;
}

static void *with_lasting_child(void *unused)
{
    await_child_for(1000000000);
    return unused;
}

static void *with_many_children(void *unused)
{
    for (;;) {
        pid_t pid[6];
        for (useconds_t i = 0; i < 6; i++)
            if ((pid[i] = fork()) == 0) {
                usleep(4000 + 2000 * i);
                _exit(0);
            }
        for (int i = 0; i < 6; i++)
            waitpid(pid[i], NULL, 0);
        atomic_fetch_add(&shared->laps, 1);
    }
    return unused;
}

/* The end of a child can only wake its parent and those whose call answers EINTR then. */
static void begin_family(void *(*parent)(void *))
{
    pthread_t thread;
    sigset_t set;
    shared->semaphores = semget(IPC_PRIVATE, 1, 0600);
    pthread_create(&thread, NULL, in_epoll, NULL);
    pthread_create(&thread, NULL, in_semtimedop, NULL);
    pthread_create(&thread, NULL, parent, NULL);
    pthread_create(&thread, NULL, in_sigtimedwait, NULL);
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    usleep(20000);
}

static void have_children(void)
{
    begin_family(with_children);
}

static void have_lasting_child(void)
{
    begin_family(with_lasting_child);
}

static void have_many_children(void)
{
    begin_family(with_many_children);
}

/* While the thread that a signal is for is traced yet, the signal is not ignored: it must find
 * nobody who was let go before. The kernel remembers of a thread that it was told to stop in vfork
 * until it is out of it, and meanwhile has others take its signals: so one capture for each. */
static void children_end(void)
{
    struct hx_agent *agent;
    struct hx_agent_result result;
    memset(shared, 0, sizeof *shared);
    pid_t pid = start_other(have_children);
    expect(!hx_agent_start(pid, &agent), "the agent starts");
    for (int i = 0; i < 60; i++) {
        unsigned long laps = atomic_load(&shared->laps);
        hx_error *err = capture(agent, &result, 1, NULL);
        expect(err && err->kind == HX_E_BUSY, "a pause that is too long is given up");
        hx_error_free(err);
        while (atomic_load(&shared->laps) <= laps + 1)
            usleep(500);
    }
    usleep(100000);
    printf("%lu children ended, %lu calls came back with EINTR\n", atomic_load(&shared->laps),
           atomic_load(&shared->interrupted));
    expect_free(pid);
    hx_agent_stop(agent);
    end_child(pid);
}

/* A signal that is not ignored because its thread is traced ends the calls of others also when no
 * stop comes of it. */
static void seized_and_let_go(void)
{
    memset(shared, 0, sizeof *shared);
    pid_t pid = start_other(have_many_children);
    for (int i = 0; i < 20; i++) {
        int status;
        pid_t tracing = fork();
        if (tracing == 0) {
            struct hx_tracer tracer = {.pid = pid, .cancel_fd = -1, .ending = true};
            sigset_t set;
            sigemptyset(&set);
            sigaddset(&set, SIGCHLD);
            sigprocmask(SIG_BLOCK, &set, NULL);
            hx_error *err = hx_tracer_seize(&tracer);
            usleep(15000);
            hx_tracer_release(&tracer);
            _exit(err != NULL);
        }
        expect(waitpid(tracing, &status, 0) == tracing && status == 0, "all threads are seized");
    }
    usleep(200000);
    printf("%lu calls of those seized alone came back with EINTR\n",
           atomic_load(&shared->interrupted));
    expect_free(pid);
    end_child(pid);
}

/* A thread that sleeps in the kernel is in nobody's way, in neither stop of a pre-copy. */
static void thread_that_cannot_stop(void)
{
    struct hx_agent *agent;
    struct hx_agent_result result;
    pid_t pid = start_other(have_lasting_child);
    expect(!hx_agent_start(pid, &agent), "the agent starts");
    for (int i = 0; i < 3; i++) {
        hx_error *err = capture(agent, &result, 0, NULL);
        if (err)
            fail("a thread that cannot stop is no failure", err->why);
        expect(result.n_threads == 5 && result.n_stuck == 1, "it is told of");
        hx_agent_result_deinit(&result);
    }
    hx_agent_stop(agent);
    end_child(pid);
}

enum { MANY_MAPPINGS = 50000 };

static void make_mappings(void)
{
    char *bytes = mmap(NULL, (size_t)MANY_MAPPINGS * 4096, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; bytes != MAP_FAILED && i < MANY_MAPPINGS; i += 2) {
        bytes[i * 4096] = 1;
        mprotect(bytes + i * 4096, 4096, PROT_READ);
    }
}

/* The kernel needs long to describe many mappings; the target goes at the deadline all the
 * same. */
static void deadline_holds(void)
{
    struct hx_agent *agent;
    struct hx_agent_result result;
    pid_t pid = start_other(make_mappings);
    char path[64], *text;
    snprintf(path, sizeof path, "/proc/%d/smaps", pid);
    uint64_t begun = hx_now_ns();
    expect(!hx_proc_read(path, &text, NULL), "smaps can be read");
    uint64_t reading = hx_now_ns() - begun;
    free(text);
    expect(!hx_agent_start(pid, &agent), "the agent starts");
    hx_error *err = capture(agent, &result, 2000000, NULL);
    printf("smaps takes %lu ms, the target stood still for %lu of 2 ms\n",
           (unsigned long)(reading / 1000000), (unsigned long)(result.pause_ns / 1000000));
    expect(err && err->kind == HX_E_BUSY, "what takes longer is given up");
    expect(reading < 80000000 || result.pause_ns < reading / 2, "the deadline holds");
    hx_error_free(err);
    hx_agent_stop(agent);
    end_other(pid);
}

enum { CROWD = 400, CROWD_IN_CALLS = 150 };

static void *in_crowd(void *waits)
{
    prctl(PR_SET_NAME, "crowd");
    if (waits)
        in_epoll(NULL);
    for (;;)
        pause();
    return NULL;
}

static void make_crowd(void)
{
    pthread_attr_t attr;
    pthread_t thread;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 65536);
    for (intptr_t i = 0; i < CROWD; i++)
        while (pthread_create(&thread, &attr, in_crowd, (void *)(i < CROWD_IN_CALLS ? 1L : 0L)) !=
               0)
            usleep(100);
    prctl(PR_SET_NAME, "crowd");
}

/* All of many threads are seen, with their names, and the calls of those that sleep in one with a
 * time limit go on, as many as they are. */
static void many_threads(void)
{
    struct hx_agent *agent;
    pid_t pid = start_other(make_crowd);
    atomic_store(&shared->interrupted, 0);
    atomic_store(&shared->early, 0);
    atomic_store(&shared->in_time, 0);
    usleep(100000);
    expect(!hx_agent_start(pid, &agent), "the agent starts");
    for (int i = 0; i < 5; i++) {
        struct hx_agent_result result;
        hx_error *err = capture(agent, &result, 0, NULL);
        if (err)
            fail("many threads can be captured", err->why);
        expect(result.n_threads == CROWD + 1, "every thread is there");
        for (size_t k = 0; k < result.n_threads; k++)
            expect(result.thread[k].has_regs && strcmp(result.thread[k].comm, "crowd") == 0,
                   "with its registers and its name");
        hx_agent_result_deinit(&result);
    }
    for (int i = 0; i < 100 && atomic_load(&shared->in_time) < CROWD_IN_CALLS; i++)
        usleep(50000);
    printf("%lu time limits of %d threads ran out\n", atomic_load(&shared->in_time),
           CROWD_IN_CALLS);
    expect(atomic_load(&shared->in_time) >= CROWD_IN_CALLS, "their time limits run out");
    expect(atomic_load(&shared->early) == 0, "none of them early");
    expect(atomic_load(&shared->interrupted) == 0, "no call of many came back with EINTR");
    hx_agent_stop(agent);
    end_other(pid);
}

/* Each of these threads adds one to the first word of the pattern, then sets the last to the
 * same, and starts the next before it ends. */
static void *in_relay(void *unused)
{
    pthread_attr_t attr;
    pthread_t next;
    shared->pattern[PATTERN_BYTES / 8 - 1] = ++shared->pattern[0];
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    while (pthread_create(&next, &attr, in_relay, NULL) != 0)
        usleep(100);
    pthread_attr_destroy(&attr);
    return unused;
}

static void begin_relay(void)
{
    shared->pattern =
        mmap(NULL, PATTERN_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(shared->pattern, 0, PATTERN_BYTES);
    in_relay(NULL);
}

/* The word of the copy at an address of the target. */
static uint64_t word_of(const struct hx_agent_result *result, uint64_t *address)
{
    uint64_t word = UINT64_MAX, at = (uintptr_t)address;
    for (size_t i = 0; i < result->n_pieces; i++) {
        const struct hx_piece *piece = &result->piece[i];
        if (at >= piece->start && at < piece->end)
            expect(pread(result->memory_fd, &word, sizeof word,
                         (off_t)(piece->offset + (at - piece->start))) == sizeof word,
                   "the copy can be read");
    }
    return word;
}

static void short_lived_threads(void)
{
    struct hx_agent *agent;
    pid_t pid = start_other(begin_relay);
    expect(!hx_agent_start(pid, &agent), "the agent starts");
    for (int i = 0; i < 20; i++) {
        struct hx_agent_result result;
        hx_error *err = capture(agent, &result, 0, NULL);
        if (err)
            fail("threads that come and go can be captured", err->why);
        uint64_t first = word_of(&result, shared->pattern);
        uint64_t last = word_of(&result, shared->pattern + PATTERN_BYTES / 8 - 1);
        expect(first - last <= 1, "no thread runs while the others stand still");
        hx_agent_result_deinit(&result);
    }
    hx_agent_stop(agent);
    end_other(pid);
}

static void do_nothing(void)
{
}

/* Gives the number of a process that has ended to another one, where that can be done. */
static void number_used_again(void)
{
    struct hx_agent *agent;
    pid_t again = 0, pid = start_other(do_nothing);
    expect(!hx_agent_start(pid, &agent), "the agent starts");
    struct hx_figures unused;
    expect(!hx_agent_smaps(agent, 0, &unused), "and knows the process");
    free(unused.text);
    end_other(pid);
    usleep(20000); /* processes of one clock tick look alike */
    for (int i = 0; i < 50 && again != pid; i++) {
        int fd = open("/proc/sys/kernel/ns_last_pid", O_WRONLY | O_CLOEXEC);
        if (fd >= 0 && dprintf(fd, "%d", pid - 1) > 0)
            again = start_other(do_nothing);
        if (fd >= 0)
            close(fd);
        if (again > 0 && again != pid)
            end_other(again);
    }
    printf("the number %s used again\n", again == pid ? "is" : "cannot be");
    struct hx_agent_result result;
    hx_error *err = capture(agent, &result, 0, NULL);
    expect(err != NULL && err->kind != HX_E_PERM, "another process is not taken for the first");
    expect(again != pid || err->kind == HX_E_GONE, "it is said to be gone");
    hx_error_free(err);
    hx_agent_stop(agent);
    if (again == pid)
        end_other(pid);
}

/* What the kernel says of a process that maps and unmaps meanwhile. */
static void lines_that_overlap(void)
{
    static const char text[] = "1000-5000 rw-p 00000000 00:00 0 \nRss: 4 kB\n"
                               "3000-5000 rw-p 00000000 00:00 0 \nRss: 8 kB\n"
                               "4000-9000 rw-p 00000000 00:00 0 \nRss: 12 kB\n";
    struct hx_mapping *mapping;
    size_t n;
    expect(!hx_proc_mappings(text, sizeof text - 1, &mapping, &n), "lines that overlap are read");
    expect(n == 2 && mapping[0].rss_bytes == 4096, "what is in another one is left out");
    expect(mapping[1].start == 0x5000 && mapping[1].rss_bytes == 12288, "the rest is cut");
    hx_mappings_free(mapping, n);
}

int main(void)
{
    const char *given = getenv("HX_SEED");
    unsigned seed = given ? (unsigned)atoi(given) : (unsigned)getpid();
    printf("HX_SEED=%u\n", seed);
    setlinebuf(stdout);
    alarm(100);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 1;
    lines_that_overlap();
    quiet_captures();
    limits_run_out();
    killed_captures(seed);
    children_end();
    seized_and_let_go();
    thread_that_cannot_stop();
    unreadable_pages();
    deadline_holds();
    many_threads();
    short_lived_threads();
    number_used_again();
    puts("PASS");
    return 0;
}
