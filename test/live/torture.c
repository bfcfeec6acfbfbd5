/* torture.c - a program that notices when somebody has stopped it.
 *
 *   torture
 *
 * Eight threads keep a running checksum over memory of their own, which mremap() moves about, and
 * over a heap under a lock, load and unload a library, and wait in every way
 * in which a careless tracer shows: each -EINTR, each wait that ends early or late, each
 * odd wait status, each signal that is lost or out of order, each write that is undone is counted.
 * Says "ready", works until stdin ends, then prints one line "outcome ..." that is the same for
 * every undisturbed run, and one line "detail ..." for people. SIGCHLD stays at its default and
 * open in all threads: it is ignored, and must stay so while the program is traced.
 */
#include "victim.h"

#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

/* Late is more than a busy machine explains; a wait that begins anew after every stop is. */
static const uint64_t late_ns = UINT64_C(5000000000);
enum { WORKERS = 8, WORDS = 1 << 17, CELLS = 1 << 16 };

static atomic_bool ending;

static struct {
    atomic_ulong eintr, early, ticks_early, late, odd, lost;
    atomic_ulong waits, worst_ns;
    _Atomic(const char *) first, worst; /* what went wrong first; what ended latest */
} tally;

static void blame(atomic_ulong *counter, const char *what)
{
    const char *none = NULL;
    atomic_fetch_add(counter, 1);
    atomic_compare_exchange_strong(&tally.first, &none, what);
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* A socket's time limit is counted in ticks of the kernel, and the one that has begun counts. Where
 * the kernel was late to count them, several have begun at once: that is no tracer's doing, and
 * counted apart, with the sockets of a run that nobody stops for comparison. */
static const uint64_t tick_ns = 10000000;

static _Noreturn void give_up(const char *what)
{
    perror(what);
    abort();
}

/* A wait of `ns` that began at `begin` and should have run out of time, as `result` and
 * `err` tell. */
static void judge(const char *what, uint64_t begin, uint64_t ns, bool as_it_should, int err)
{
    bool in_ticks = strncmp(what, "recv", 4) == 0;
    uint64_t slack = in_ticks ? tick_ns : 1500000;
    uint64_t took = now_ns() - begin;
    atomic_fetch_add(&tally.waits, 1);
    if (!as_it_should)
        blame(err == EINTR ? &tally.eintr : &tally.odd, what);
    else if (took + slack < ns)
        blame(in_ticks ? &tally.ticks_early : &tally.early, what);
    else if (took > ns + late_ns)
        blame(&tally.late, what);
    if (took > ns && took - ns > tally.worst_ns) {
        tally.worst_ns = took - ns;
        tally.worst = what;
    }
}

/* --- the checksum ------------------------------------------------------------------ */

struct worker {
    pthread_t thread;
    uint64_t seed, steps, sum;
    uint64_t *words;
    struct rng rng;
};

/* One step of work over the heap; its result depends on every earlier one. */
static uint64_t step(uint64_t *words, uint64_t sum, uint64_t n)
{
    size_t bytes = 16 + (sum >> 20) % 4000;
    uint64_t *scratch = need(malloc(bytes));
    memset(scratch, (int)n, bytes);
    for (int i = 0; i < 256; i++) {
        size_t at = (sum >> 7) % WORDS;
        words[at] = words[at] * 0x9e3779b97f4a7c15u + sum + ((unsigned char *)scratch)[bytes - 1];
        sum = (sum << 13 | sum >> 51) ^ words[at];
    }
    free(scratch);
    return sum;
}

static uint64_t *pages_new(int protection)
{
    void *pages =
        mmap(NULL, WORDS * sizeof(uint64_t), protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        give_up("mmap");
    return pages;
}

static uint64_t *words_new(uint64_t seed)
{
    uint64_t *words = pages_new(PROT_READ | PROT_WRITE);
    for (size_t i = 0; i < WORDS; i++)
        words[i] = seed * i;
    return words;
}

static void words_free(uint64_t *words)
{
    munmap(words, WORDS * sizeof *words);
}

static void words_move(struct worker *worker)
{
    void *to = pages_new(PROT_NONE);
    worker->words = mremap(worker->words, WORDS * sizeof(uint64_t), WORDS * sizeof(uint64_t),
                           MREMAP_MAYMOVE | MREMAP_FIXED, to);
    if (worker->words == MAP_FAILED)
        give_up("mremap");
}

/* A heap that all change, each write under a lock. */
static struct cell {
    uint64_t value, inverted;
} * cell[CELLS];
static uint64_t cells_sum;
static pthread_mutex_t cells_lock = PTHREAD_MUTEX_INITIALIZER;

static void cells_new(void)
{
    for (size_t i = 0; i < CELLS; i++) {
        cell[i] = need(malloc(sizeof *cell[i]));
        *cell[i] = (struct cell){0, ~(uint64_t)0};
    }
}

static void cells_change(struct rng *rng)
{
    pthread_mutex_lock(&cells_lock);
    for (int i = 0; i < 64; i++) {
        struct cell *one = cell[rng_below(rng, CELLS)];
        uint64_t more = rng_next(rng);
        if (one->inverted != ~one->value)
            blame(&tally.odd, "a cell of the heap");
        one->value += more;
        one->inverted = ~one->value;
        cells_sum += more;
    }
    pthread_mutex_unlock(&cells_lock);
}

static bool cells_are_right(void)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < CELLS; i++)
        sum += cell[i]->value;
    return sum == cells_sum;
}

/* Mappings come and go, written in part. */
static void load_library(void)
{
    void *library = dlopen("libresolv.so.2", RTLD_NOW | RTLD_LOCAL);
    if (library && !dlsym(library, "ns_get32"))
        blame(&tally.odd, "a library");
    if (library)
        dlclose(library);
}

static void compute(struct worker *worker, int n)
{
    for (int i = 0; i < n; i++)
        worker->sum = step(worker->words, worker->sum, worker->steps++);
    cells_change(&worker->rng);
    if (rng_below(&worker->rng, 8) == 0)
        words_move(worker);
    if (rng_below(&worker->rng, 16) == 0)
        load_library();
}

/* The same steps once more, undisturbed. */
static bool sum_is_right(const struct worker *worker)
{
    uint64_t *words = words_new(worker->seed), sum = worker->seed;
    for (uint64_t i = 0; i < worker->steps; i++)
        sum = step(words, sum, i);
    bool same = sum == worker->sum && memcmp(words, worker->words, WORDS * sizeof *words) == 0;
    words_free(words);
    return same;
}

/* --- ways to wait -------------------------------------------------------------------- */

static struct timespec after(uint64_t ns)
{
    return (struct timespec){(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
}

static void sleeps(uint64_t ns)
{
    struct timespec t = after(ns);
    uint64_t begin = now_ns();
    int err = nanosleep(&t, NULL) ? errno : 0;
    judge("nanosleep", begin, ns, err == 0, err);
    begin = now_ns();
    err = clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
    judge("clock_nanosleep", begin, ns, err == 0, err);
    begin = now_ns();
    t = after(begin + ns);
    err = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
    judge("clock_nanosleep until", begin, ns, err == 0, err);
}

static void polls(uint64_t ns)
{
    static int fd[2] = {-1, -1};
    if (fd[0] < 0 && pipe(fd))
        give_up("pipe");
    struct pollfd p = {.fd = fd[0], .events = POLLIN};
    uint64_t begin = now_ns();
    int n = poll(&p, 1, (int)(ns / 1000000));
    judge("poll", begin, ns, n == 0, errno);
    struct timespec t = after(ns);
    begin = now_ns();
    n = ppoll(&p, 1, &t, NULL);
    judge("ppoll", begin, ns, n == 0, errno);
    fd_set set;
    FD_ZERO(&set);
    FD_SET(fd[0], &set);
    struct timeval v = {0, (suseconds_t)(ns / 1000)};
    begin = now_ns();
    n = select(fd[0] + 1, &set, NULL, NULL, &v);
    judge("select", begin, ns, n == 0, errno);
}

static void futexes(uint64_t ns)
{
    static int word;
    struct timespec t = after(ns);
    uint64_t begin = now_ns();
    long n = syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &t, NULL, 0);
    judge("futex", begin, ns, n == -1 && errno == ETIMEDOUT, errno);
    begin = now_ns();
    t = after(begin + ns);
    n = syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, 0, &t, NULL, ~0);
    judge("futex until", begin, ns, n == -1 && errno == ETIMEDOUT, errno);
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
    struct timespec real;
    clock_gettime(CLOCK_REALTIME, &real);
    uint64_t until = (uint64_t)real.tv_sec * 1000000000u + (uint64_t)real.tv_nsec + ns;
    t = after(until);
    pthread_mutex_lock(&mutex);
    int err = pthread_cond_timedwait(&cond, &mutex, &t);
    pthread_mutex_unlock(&mutex);
    /* by its own clock, which somebody may have set right meanwhile */
    clock_gettime(CLOCK_REALTIME, &real);
    begin = now_ns() + until - ns - ((uint64_t)real.tv_sec * 1000000000u + (uint64_t)real.tv_nsec);
    judge("condition", begin, ns, err == ETIMEDOUT, err);
}

static void epolls(uint64_t ns)
{
    static int fd = -1;
    if (fd < 0 && (fd = epoll_create1(EPOLL_CLOEXEC)) < 0)
        give_up("epoll_create1");
    struct epoll_event event;
    uint64_t begin = now_ns();
    int n = epoll_wait(fd, &event, 1, (int)(ns / 1000000));
    judge("epoll_wait", begin, ns, n == 0, errno);
    sigset_t none;
    sigfillset(&none);
    sigdelset(&none, SIGCHLD);
    begin = now_ns();
    n = epoll_pwait(fd, &event, 1, (int)(ns / 1000000), &none);
    judge("epoll_pwait", begin, ns, n == 0, errno);
}

static int semaphore = -1;

static void signals_and_semaphores(uint64_t ns)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    struct timespec t = after(ns);
    uint64_t begin = now_ns();
    int n = sigtimedwait(&set, NULL, &t);
    judge("sigtimedwait", begin, ns, n == -1 && errno == EAGAIN, errno);
    struct sembuf take = {0, -1, 0};
    t = after(ns);
    begin = now_ns();
    n = semtimedop(semaphore, &take, 1, &t);
    judge("semtimedop", begin, ns, n == -1 && errno == EAGAIN, errno);
    /* what is left cannot be noted, so that the kernel answers EINTR */
    static const struct timespec fixed = {0, 10000000};
    begin = now_ns();
    n = (int)syscall(SYS_ppoll, NULL, 0, &fixed, NULL, 0);
    judge("ppoll with a limit in read-only memory", begin, 10000000, n == 0, errno);
}

static void sockets(uint64_t ns)
{
    static int fd[2] = {-1, -1};
    struct timeval v = {(time_t)(ns / 1000000000u), (suseconds_t)(ns % 1000000000u / 1000)};
    if ((fd[0] < 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, fd)) ||
        setsockopt(fd[0], SOL_SOCKET, SO_RCVTIMEO, &v, sizeof v))
        give_up("socketpair");
    char byte;
    uint64_t begin = now_ns();
    ssize_t n = recv(fd[0], &byte, 1, 0);
    judge("recv with a timeout", begin, ns, n == -1 && errno == EAGAIN, errno);
}

static void wait_for(pid_t child, int flags, int want, const char *what)
{
    int status = 0;
    pid_t got = waitpid(child, &status, flags);
    atomic_fetch_add(&tally.waits, 1);
    if (got < 0 && errno == EINTR)
        blame(&tally.eintr, what);
    else if (got != child || status != want)
        blame(&tally.odd, what);
}

/* Not posix_spawn: it blocks all signals for a moment, and a SIGCHLD that falls into it is
 * not ignored but wakes one of the waiting threads, tracer or not. */
static NOINLINE pid_t run_true(void)
{
    pid_t child = vfork();
    if (child == 0) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(127);
    }
    return child;
}

static void children(struct rng *rng)
{
    int code = (int)rng_below(rng, 200);
    pid_t child = fork();
    if (child == 0) {
        usleep(3000);
        _exit(code);
    }
    wait_for(child, 0, code << 8, "child that exits");
    child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    kill(child, SIGSTOP);
    wait_for(child, WUNTRACED, SIGSTOP << 8 | 0x7f, "child that stops");
    kill(child, SIGCONT);
    wait_for(child, WCONTINUED, 0xffff, "child that continues");
    kill(child, SIGKILL);
    wait_for(child, 0, SIGKILL, "child that is killed");
    wait_for(run_true(), 0, 0, "program that exits");
}

/* --- signals: thread 0 alone takes them ------------------------------------------------ */

static atomic_ulong ticks, queued;

static void on_tick(int sig, siginfo_t *info, void *context)
{
    (void)sig, (void)context;
    atomic_fetch_add(&ticks, 1 + (unsigned long)info->si_overrun);
}

static void on_queued(int sig, siginfo_t *info, void *context)
{
    (void)sig, (void)context;
    if ((unsigned long)info->si_value.sival_int != atomic_fetch_add(&queued, 1))
        blame(&tally.lost, "queued signal out of order");
}

enum { TICK_NS = 5000000 };

static void start_ticks(timer_t *ret)
{
    struct sigaction action = {.sa_sigaction = on_tick, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGRTMIN + 1, &action, NULL);
    action.sa_sigaction = on_queued;
    sigaction(SIGRTMIN + 2, &action, NULL);
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN + 1};
    event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
    struct itimerspec every = {after(TICK_NS), after(TICK_NS)};
    if (timer_create(CLOCK_MONOTONIC, &event, ret) || timer_settime(*ret, 0, &every, NULL))
        give_up("timer_create");
    sigset_t open;
    sigemptyset(&open);
    sigaddset(&open, SIGRTMIN + 1);
    sigaddset(&open, SIGRTMIN + 2);
    pthread_sigmask(SIG_UNBLOCK, &open, NULL);
}

static void *signalled(struct worker *worker)
{
    timer_t timer;
    uint64_t begin = now_ns();
    unsigned long sent = 0;
    start_ticks(&timer);
    while (!ending) {
        compute(worker, 20);
        for (int i = 0; i < 3; i++)
            if (pthread_sigqueue(pthread_self(), SIGRTMIN + 2,
                                 (union sigval){.sival_int = (int)sent}) == 0)
                sent++;
        usleep(1000);
    }
    while (ticks == 0 && now_ns() - begin < 1000000000u)
        usleep(1000);
    uint64_t want = (now_ns() - begin) / TICK_NS, have = ticks;
    timer_delete(timer);
    usleep(20000);
    if (have + 3 < want || have > want + 3)
        blame(&tally.lost, "timer ticks");
    if (queued != sent)
        blame(&tally.lost, "queued signals");
    return NULL;
}

/* --- threads ----------------------------------------------------------------------------- */

static struct worker worker[WORKERS];

static void *worker_main(void *arg)
{
    struct worker *self = arg;
    long kind = self - worker;
    if (kind == 0)
        return signalled(self);
    while (!ending) {
        compute(self, 10);
        uint64_t ns = (5 + rng_below(&self->rng, 40)) * 1000000;
        /* Long enough for several stops in one wait. Not so for sockets: their limit is not
         * among the arguments of the call, so a call that begins again has all of it. */
        if ((kind == 4 || kind == 5) && rng_below(&self->rng, 24) == 0)
            ns = 1100000000;
        switch (kind) {
        case 1:
            sleeps(ns);
            break;
        case 2:
            polls(ns);
            break;
        case 3:
            futexes(ns);
            break;
        case 4:
            epolls(ns);
            break;
        case 5:
            signals_and_semaphores(ns);
            break;
        case 6:
            sockets(ns);
            break;
        default:
            children(&self->rng);
        }
    }
    return NULL;
}

static void set_up(void)
{
    sigset_t all;
    sigfillset(&all);
    sigdelset(&all, SIGCHLD);
    sigprocmask(SIG_SETMASK, &all, NULL);
    if (unshare(CLONE_NEWIPC)) { /* the semaphore then ends with us; else at our exit */
    }
    semaphore = semget(IPC_PRIVATE, 1, 0600);
    if (semaphore < 0)
        give_up("semget");
    cells_new();
    for (int i = 0; i < WORKERS; i++) {
        worker[i].seed = worker[i].sum = worker[i].rng.state = (uint64_t)i + 1;
        worker[i].words = words_new(worker[i].seed);
        if (pthread_create(&worker[i].thread, NULL, worker_main, &worker[i]))
            give_up("pthread_create");
    }
}

int main(void)
{
    end_with_parent();
    set_up();
    say("ready\n");
    char byte;
    ssize_t n;
    while ((n = read(0, &byte, 1)) > 0)
        ;
    if (n < 0)
        blame(errno == EINTR ? &tally.eintr : &tally.odd, "read");
    ending = true;
    for (int i = 0; i < WORKERS; i++)
        pthread_join(worker[i].thread, NULL);
    bool right = cells_are_right();
    for (int i = 0; i < WORKERS; i++)
        right = right && sum_is_right(&worker[i]);
    semctl(semaphore, 0, IPC_RMID);
    dprintf(1, "outcome eintr=%lu early=%lu late=%lu odd=%lu lost=%lu checksum=%s\n", tally.eintr,
            tally.early, tally.late, tally.odd, tally.lost, right ? "right" : "WRONG");
    dprintf(1, "detail waits=%lu ticks_early=%lu ticks=%lu latest=%lu us %s first=%s\n",
            tally.waits, tally.ticks_early, ticks, tally.worst_ns / 1000,
            tally.worst ? tally.worst : "", tally.first ? tally.first : "none");
    return 0;
}
