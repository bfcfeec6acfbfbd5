/* pause.c - targets that are long to stop without a heap, and the least that any stop of them
 * takes.
 *
 *     pause threads|mappings N   a target without a heap
 *     pause heap|dirty N         a target with N MiB of blocks, of whose pages it writes none, or
 *                                one of 64 again and again
 *     pause mmap|busy N          the same: it maps, writes and unmaps a page all the while; it
 *                                allocates, writes and frees at full speed
 *
 * Prints "ready"; for each line on its input "gap NS OPERATIONS", since the line before: the
 * longest that one of its threads, which looks at the clock all the while, did not come to do so
 * (mmap: that a page took, without waiting for a processor, be it of the kernel or of the host),
 * and how many blocks `busy` took and gave back.
 *
 *     pause stop PID             all threads seized, then interrupted, waited for, asked for their
 *                                general and extended registers, and let go: nanoseconds from the
 *                                first interrupt to the last release
 *     pause maps PID             one read of /proc/PID/maps: nanoseconds
 */
#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/procfs.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { THREADS_MAX = 65536, PAGE = 4096, STACK = 65536 };

static uint64_t now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (uint64_t)at.tv_sec * 1000000000 + (uint64_t)at.tv_nsec;
}

/* --- targets ------------------------------------------------------------------------- */

static _Atomic uint64_t longest, operations;

static void map_page(void)
{
    volatile char *page =
        mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        exit(3);
    *page = 1;
    munmap((void *)page, PAGE);
}

/* How long this thread has waited for a processor so far. */
static uint64_t waited(int schedstat)
{
    char text[96] = "";
    unsigned long ns = 0;
    return pread(schedstat, text, sizeof text - 1, 0) > 0 && sscanf(text, "%*u %lu", &ns) == 1 ? ns
                                                                                               : 0;
}

/* What nobody came to do anything in, because the host had the processors: how late a process of
 * the highest priority woke up so far. */
static _Atomic uint64_t *host_took;

static void watch_host(void)
{
    const uint64_t every_ns = 250000, late_ns = 1000000;
    pid_t parent = getpid();
    host_took = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (host_took == MAP_FAILED)
        exit(3);
    pid_t child = fork();
    if (child < 0)
        exit(3);
    if (child > 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){.sched_priority = 1});
    for (uint64_t before = now(), at; getppid() == parent; before = at) {
        nanosleep(&(struct timespec){.tv_nsec = (long)every_ns}, NULL);
        at = now();
        if (at - before > every_ns + late_ns)
            *host_took += at - before - every_ns;
    }
    _exit(0);
}

static void keep_longest(uint64_t ns)
{
    if (ns > atomic_load_explicit(&longest, memory_order_relaxed))
        atomic_store(&longest, ns);
}

static void *watch_clock(void *unused)
{
    for (uint64_t before = now(), at;; before = at) {
        at = now();
        keep_longest(at - before);
    }
    return unused;
}

/* Without what it waited for a processor: that the kernel or the host, not heapx, gave to others.
 */
static void *watch_mmap(void *unused)
{
    const uint64_t short_ns = 100000;
    int schedstat = open("/proc/thread-self/schedstat", O_RDONLY);
    for (uint64_t known = 0;;) {
        uint64_t before = now();
        map_page();
        uint64_t took = now() - before;
        if (took < short_ns)
            continue;
        uint64_t then = waited(schedstat);
        usleep(1000); /* so that it has been seen that the host was away */
        then += *host_took;
        keep_longest(took > then - known ? took - (then - known) : 0);
        known = waited(schedstat) + *host_took;
    }
    return unused;
}

static void *sleep_on(void *unused)
{
    for (;;)
        pause();
    return unused;
}

static void make_threads(long n)
{
    pthread_attr_t attr;
    pthread_t thread;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK);
    for (long i = 2; i < n; i++) /* the first one and the one that watches are there, too */
        if (pthread_create(&thread, &attr, sleep_on, NULL) != 0)
            exit(3);
}

static void make_mappings(long n)
{
    char *bytes = mmap(NULL, (size_t)n * PAGE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    for (long i = 0; bytes != MAP_FAILED && i < n; i += 2)
        if (mprotect(bytes + i * PAGE, PAGE, PROT_READ) != 0)
            exit(3);
}

enum { BLOCK = 240 };

static char *heap;
static size_t heap_bytes;

static void make_heap(long mib)
{
    void **last = NULL;
    for (heap_bytes = 0; heap_bytes < (size_t)mib << 20; heap_bytes += BLOCK + 16) {
        void **block = malloc(BLOCK);
        if (!block)
            exit(3);
        *block = last;
        heap = heap ? heap : (char *)block;
        last = block;
    }
}

/* The blocks lie one behind the other: a page of 64, in the second word of whatever is there. */
static void *write_pages(void *unused)
{
    for (;; usleep(10000))
        for (size_t at = 0; at + PAGE < heap_bytes; at += 64 * PAGE)
            heap[at + 8]++;
    return unused;
}

static void *work(void *unused)
{
    enum { SLOTS = 4096 };
    static char *slot[SLOTS];
    for (uint64_t state = 1;; state = state * 6364136223846793005u + 1442695040888963407u) {
        char **some = &slot[state >> 33 & (SLOTS - 1)];
        size_t bytes = 16 + (state >> 45) % 1000;
        free(*some);
        *some = malloc(bytes);
        if (!*some)
            exit(3);
        memset(*some, 1, bytes);
        heap[(state >> 20) % heap_bytes / 8 * 8 / (BLOCK + 16) * (BLOCK + 16) + 8]++;
        atomic_fetch_add_explicit(&operations, 1, memory_order_relaxed);
    }
    return unused;
}

static int be_target(const char *what, long n)
{
    pthread_t thread;
    char line[16];
    if (strcmp(what, "threads") == 0)
        make_threads(n);
    else if (strcmp(what, "mappings") == 0)
        make_mappings(n);
    else {
        if (strcmp(what, "mmap") == 0)
            watch_host();
        make_heap(n);
    }
    if (strcmp(what, "dirty") == 0 && pthread_create(&thread, NULL, write_pages, NULL) != 0)
        return 3;
    void *(*run)(void *) = strcmp(what, "busy") == 0   ? work
                           : strcmp(what, "mmap") == 0 ? watch_mmap
                                                       : watch_clock;
    if (pthread_create(&thread, NULL, run, NULL) != 0)
        return 3;
    printf("ready\n");
    fflush(stdout);
    while (read(STDIN_FILENO, line, sizeof line) > 0) {
        printf("gap %lu %lu\n", (unsigned long)atomic_exchange(&longest, 0),
               (unsigned long)atomic_exchange(&operations, 0));
        fflush(stdout);
    }
    return 0;
}

/* --- beside -------------------------------------------------------------------------- */

static size_t seize_all(int pid, pid_t *tid)
{
    char path[64];
    size_t n = 0;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && (entry = readdir(dir)) && n < THREADS_MAX;)
        if (entry->d_name[0] != '.' &&
            ptrace(PTRACE_SEIZE, tid[n] = atoi(entry->d_name), NULL, NULL) == 0)
            n++;
    if (dir)
        closedir(dir);
    return n;
}

static uint64_t stop_once(int pid, pid_t *tid)
{
    static char state[8192];
    elf_gregset_t general;
    size_t n = seize_all(pid, tid);
    uint64_t begun = now();
    for (size_t i = 0; i < n; i++)
        ptrace(PTRACE_INTERRUPT, tid[i], NULL, NULL);
    for (size_t i = 0; i < n; i++)
        waitpid(tid[i], NULL, __WALL);
    for (size_t i = 0; i < n; i++) {
        struct iovec some = {&general, sizeof general}, all = {state, sizeof state};
        ptrace(PTRACE_GETREGSET, tid[i], (void *)NT_PRSTATUS, &some);
        ptrace(PTRACE_GETREGSET, tid[i], (void *)NT_X86_XSTATE, &all);
    }
    for (size_t i = 0; i < n; i++)
        ptrace(PTRACE_DETACH, tid[i], NULL, NULL);
    return n ? now() - begun : 0;
}

static uint64_t read_maps_once(int pid)
{
    static char text[1 << 20];
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    uint64_t begun = now();
    int fd = open(path, O_RDONLY);
    while (fd >= 0 && read(fd, text, sizeof text) > 0)
        ;
    close(fd);
    return now() - begun;
}

int main(int argc, char **argv)
{
    static pid_t tid[THREADS_MAX];
    if (argc != 3)
        return 2;
    bool stop = strcmp(argv[1], "stop") == 0;
    if (!stop && strcmp(argv[1], "maps") != 0)
        return be_target(argv[1], atol(argv[2]));
    setpriority(PRIO_PROCESS, 0, -20); /* as heapx does for as long */
    if (stop)
        printf("%lu\n", (unsigned long)stop_once(atoi(argv[2]), tid));
    else
        printf("%lu\n", (unsigned long)read_maps_once(atoi(argv[2])));
    return 0;
}
