/* precopy_victim.c - a process whose pages change all the time, in a way that shows whether all
 * that a copy holds is of one instant.
 *
 *   precopy_victim idle          a heap at rest
 *   precopy_victim sparse        the same beside 4 TiB that are reserved, a page here and there
 *   precopy_victim huge          the same beside huge pages, of which it writes a byte now and then
 *   precopy_victim wild          pairs of words that one thread writes, one after the other
 *   precopy_victim shifting      the same, while memory comes, goes, moves and is discarded
 *   precopy_victim moving        it moves mappings that lie beside each other, as fast as it can
 *   precopy_victim opening       opens and closes files all the time, in two threads
 *   precopy_victim growing|spreading   allocates all the time: by brk(), or in an arena of a thread
 *   precopy_victim forking       has a child all the time, which looks at its memory and ends
 *   precopy_victim exits|execs US   after so many microseconds it ends, or becomes `idle`, whose
 *                                blocks of 500 bytes hold no pointers, as do those before
 *   precopy_victim sandboxed     `wild` under a seccomp filter
 *   precopy_victim filtered|faults|full|shared|coroutine|dispatched|restartable   what must not be
 *                                led: under a seccomp filter, with a userfaultfd of its own, with a
 *                                full table of files, or one that is another process's, too; the
 *                                one thread on a stack of its own making, under syscall user
 *                                dispatch, or in a restartable sequence
 *
 * Prints "ready", and "odd" when one of its own checks fails: its calls, its signals, its heap.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/rseq.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum { BLOCKS = 8, WORDS = 8192, NODES = 4096, FILL = 40000, GAPS = 16384, CLOCK_BYTES = 9000 };

/* The first word of a block is its node, the others lead anywhere; the word of `first` is written
 * before its fellow of `second`, which is larger by a word. */
static void **first[BLOCKS], **second[BLOCKS], *node[NODES], *fill[FILL], **shown_node;
static _Atomic(const char *) odd; /* what is */

static uint64_t next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static void *allocate(size_t bytes)
{
    void *block = calloc(1, bytes);
    if (!block)
        exit(1);
    return block;
}

static void make_heap(void)
{
    uint64_t state = 1;
    shown_node = allocate(CLOCK_BYTES);
    for (int i = 0; i < NODES; i++)
        node[i] = allocate(40);
    for (int i = 0; i < FILL; i++)
        fill[i] = allocate(500);
    for (int i = 0; i < BLOCKS; i++) {
        first[i] = allocate(WORDS * sizeof(void *));
        second[i] = allocate((WORDS + 2) * sizeof(void *));
        first[i][0] = second[i][0] = node[i];
        for (int k = 1; k < WORDS; k++)
            first[i][k] = second[i][k] = node[next(&state) % NODES];
    }
}

/* When `wild` has not run, for whoever stopped it: its clock counts thousands of writes, to the
 * base of NODES; the second and third word of a block of CLOCK_BYTES lead to the nodes that are its
 * digits, the lower first. In the file that HX_INSTANTS names; addresses inverted, for this is no
 * part of the heap. */
struct instants {
    uint64_t n_gaps, gap[GAPS] /* what the clock showed */, node[NODES];
};

static struct instants *map_instants(void)
{
    const char *path = getenv("HX_INSTANTS");
    int fd = path ? open(path, O_RDWR) : -1;
    void *map = mmap(NULL, sizeof(struct instants), PROT_READ | PROT_WRITE,
                     fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, fd, 0);
    if (map == MAP_FAILED || (fd >= 0 && close(fd) != 0))
        exit(1);
    struct instants *instants = map;
    for (int i = 0; i < NODES; i++)
        instants->node[i] = ~(uint64_t)(uintptr_t)node[i];
    return instants;
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Writes the clock on, and notes when it was not looked at for longer than an interrupt takes. */
static void tick(struct instants *instants, uint64_t n)
{
    static uint64_t last, shown;
    uint64_t at = now_ns();
    if (last && at - last > 40000)
        instants->gap[instants->n_gaps++ % GAPS] = shown;
    last = at;
    if (n % 1024 == 0) {
        shown_node[2] = node[n / 1024 / NODES % NODES];
        ((void *volatile *)shown_node)[1] = node[n / 1024 % NODES];
        shown = n / 1024 % ((uint64_t)NODES * NODES);
    }
}

static void *write_pairs(void *instants)
{
    uint64_t state = 2;
    for (uint64_t n = 0;; n++) {
        tick(instants, n);
        uint64_t i = next(&state) % BLOCKS, k = 1 + next(&state) % (WORDS - 1);
        void *to = node[next(&state) % NODES];
        ((void *volatile *)first[i])[k] = to;
        atomic_signal_fence(memory_order_seq_cst);
        ((void *volatile *)second[i])[k] = to;
    }
    return instants;
}

static void *shift(void *unused)
{
    enum { LARGE = 1 << 20 };
    uint64_t state = 3;
    char *block[16] = {0},
         *apart = mmap(NULL, 8 * LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (;;) {
        uint64_t i = next(&state) % 16, bytes = LARGE + next(&state) % LARGE;
        char *moved = realloc(block[i], bytes); /* mremap() */
        if (moved)
            block[i] = memset(moved, (int)i, bytes);
        for (uint64_t k = 0; moved && k < bytes; k += 4096)
            if (block[i][k] != (char)i)
                odd = "a block that was moved";
        if (next(&state) % 4 == 0) {
            free(block[i]);
            block[i] = NULL;
        }
        char *part = apart + next(&state) % 8 * LARGE;
        memset(part, 7, LARGE);
        madvise(part, LARGE / 2, MADV_DONTNEED);
        if (part[0] != 0 || part[LARGE - 1] != 7)
            odd = "memory that was discarded in part";
        mprotect(part, LARGE, PROT_READ);
        mprotect(part, LARGE, PROT_READ | PROT_WRITE);
    }
    return unused;
}

/* Where one of them were two in the kernel's eyes, it could not be moved as one. */
static void *move_on(void *unused)
{
    enum { AREAS = 8, AREA = 1 << 20, MORE = 33 * 4096 };
    char *area[AREAS];
    uint64_t state = 5;
    const int ours = PROT_READ | PROT_WRITE, how = MAP_PRIVATE | MAP_ANONYMOUS;
    for (int i = 0; i < AREAS; i++)
        area[i] = memset(mmap(NULL, AREA + i * MORE, ours, how, -1, 0), i, AREA + i * MORE);
    for (;;) {
        uint64_t i = next(&state) % AREAS, bytes = AREA + i * MORE;
        char *to = mmap(NULL, bytes, PROT_NONE, how, -1, 0);
        char *moved = mremap(area[i], bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to);
        if (moved == MAP_FAILED) {
            odd = "mremap";
            return unused;
        }
        area[i] = moved;
        moved[next(&state) % bytes] = (char)i;
        if (moved[next(&state) % bytes] != (char)i)
            odd = "a mapping that was moved";
    }
}

static atomic_uint_fast64_t ticks;

static void on_tick(int number)
{
    (void)number;
    atomic_fetch_add(&ticks, 1);
}

/* Calls that a stop must not cut short, with signals blocked and not. */
static void *wait_long(void *unused)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    pthread_sigmask(SIG_BLOCK, NULL, &all); /* but for those that cannot be */
    for (;;) {
        struct timespec time = {.tv_nsec = 20000000};
        sigset_t now;
        pthread_sigmask(SIG_BLOCK, NULL, &now);
        if (nanosleep(&time, NULL) != 0 || memcmp(&now, &all, sizeof(long)) != 0)
            odd = "a sleep, or the signals of its thread";
    }
    return unused;
}

static int ends[2];

static void *rest(void *unused)
{
    char byte;
    if (read(ends[0], &byte, 1) != -2)
        odd = "a read";
    return unused;
}

/* Ends well when all is as it was made, and can be written. */
static void look_at_heap(void)
{
    bool same = true;
    for (int i = 0; i < FILL; i++) {
        same &= ((char *volatile *)fill)[i][499] == 0;
        *(char *)fill[i] = 1;
    }
    for (int i = 0; i < BLOCKS; i++)
        same &= first[i][0] == second[i][0] && first[i][0] == node[i];
    _exit(same ? 0 : 1);
}

static void *fork_on(void *unused)
{
    for (;;) {
        int status = 0;
        pid_t child = fork();
        if (child == 0)
            look_at_heap();
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
            odd = "a child";
    }
    return unused;
}

static bool reserve(void)
{
    const uint64_t reserved = (uint64_t)4 << 40, apart = (uint64_t)32 << 30, dense = 64 << 20;
    char *bytes = mmap(NULL, reserved, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    for (uint64_t at = 0; bytes != MAP_FAILED && at < reserved; at += apart)
        bytes[at] = 1;
    return bytes != MAP_FAILED && memset(bytes + reserved / 2, 2, dense);
}

enum { HUGE_BYTES = 64 << 20, HUGE_PAGE = 2 << 20 };
static char *huge;

static bool make_huge(void)
{
    huge = aligned_alloc(HUGE_PAGE, HUGE_BYTES);
    return huge && madvise(huge, HUGE_BYTES, MADV_HUGEPAGE) == 0 && memset(huge, 1, HUGE_BYTES);
}

static void *write_huge(void *unused)
{
    for (uint64_t state = 4;; usleep(300))
        ((char volatile *)huge)[next(&state) % HUGE_BYTES]++;
    return unused;
}

static bool filter(void)
{
    struct sock_filter all = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {1, &all};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static bool handle_faults(void)
{
    enum { BYTES = 1 << 16, USER_MODE_ONLY = 1 };
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | USER_MODE_ONLY);
    void *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_api api = {.api = UFFD_API};
    struct uffdio_register range = {.range = {(uintptr_t)at, BYTES},
                                    .mode = UFFDIO_REGISTER_MODE_MISSING};
    return fd >= 0 && ioctl(fd, UFFDIO_API, &api) == 0 && ioctl(fd, UFFDIO_REGISTER, &range) == 0;
}

static bool fill_files(void)
{
    struct rlimit limit = {20, 20};
    setrlimit(RLIMIT_NOFILE, &limit);
    while (dup(0) >= 0)
        ;
    return errno == EMFILE;
}

/* Whoever closes what is not his shows here. */
static void *open_files(void *unused)
{
    for (struct stat st; !odd;) {
        int fd = open("/dev/null", O_RDONLY);
        if (fd < 0 || fstat(fd, &st) != 0 || close(fd) != 0)
            odd = "a file";
    }
    return unused;
}

static void *grow(void *unused)
{
    for (;;) {
        for (int i = 0; i < 20; i++)
            allocate(400);
        usleep(1000);
    }
    return unused;
}

/* Says what is odd. */
static void watch(void)
{
    for (uint64_t before = 0;;) {
        struct timespec time = {.tv_nsec = 200000000};
        while (nanosleep(&time, &time) != 0)
            ; /* a tick */
        uint64_t now = atomic_load(&ticks);
        if (now == before || odd) {
            printf("odd: %s\n", odd ? odd : "a timer");
            fflush(stdout);
            for (;;)
                pause();
        }
        before = now;
    }
}

enum { STACK = 1 << 18 };
static char *elsewhere;

static void watch_elsewhere(void)
{
    static ucontext_t here, there;
    getcontext(&there);
    there.uc_stack = (stack_t){.ss_sp = elsewhere, .ss_size = STACK};
    there.uc_link = &here;
    makecontext(&there, watch, 0);
    swapcontext(&here, &there);
}

/* Nearly all the time in a restartable sequence, and in no system call. */
static void restart(void)
{
    struct rseq *area = (void *)((char *)__builtin_thread_pointer() + __rseq_offset);
    for (;;) {
        uint64_t n = 1 << 24;
        __asm__ volatile(".pushsection __rseq_cs, \"aw\"\n"
                         ".balign 32\n"
                         "3: .long 0, 0\n"
                         ".quad 1f, 2f - 1f, 4f\n"
                         ".popsection\n"
                         "leaq 3b(%%rip), %%rax\n"
                         "movq %%rax, %0\n"
                         "1: decq %1\n"
                         "jnz 1b\n"
                         "2: jmp 4f\n"
                         ".long %c2\n"
                         "4: movq $0, %0\n"
                         : "+m"(area->rseq_cs), "+r"(n)
                         : "i"(RSEQ_SIG)
                         : "rax", "cc", "memory");
    }
}

static bool share_files(void)
{
    long child = syscall(SYS_clone, CLONE_FILES | SIGCHLD, NULL, NULL, NULL, NULL);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    return child > 0;
}

/* All addresses may call: only that it is on is of interest. */
static bool dispatch_calls(void)
{
    enum { SYSCALL_USER_DISPATCH = 59, ON = 1 };
    return prctl(SYSCALL_USER_DISPATCH, ON, 0, (uint64_t)1 << 47, NULL) == 0;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    const char *what = argc > 1 ? argv[1] : "idle";
    if (strcmp(what, "growing") == 0)
        mallopt(M_ARENA_MAX, 1);
    make_heap();
    if (pipe(ends) != 0)
        return 1;
    bool wild = strcmp(what, "wild") == 0, sandboxed = strcmp(what, "sandboxed") == 0,
         restartable = strcmp(what, "restartable") == 0;
    if (((sandboxed || strcmp(what, "filtered") == 0) && !filter()) ||
        (strcmp(what, "faults") == 0 && !handle_faults()) ||
        (strcmp(what, "full") == 0 && !fill_files()) ||
        (strcmp(what, "shared") == 0 && !share_files()) ||
        (strcmp(what, "coroutine") == 0 && !(elsewhere = allocate(STACK))) ||
        (strcmp(what, "dispatched") == 0 && !dispatch_calls()) ||
        (restartable && __rseq_size == 0) || (strcmp(what, "huge") == 0 && !make_huge()) ||
        (strcmp(what, "sparse") == 0 && !reserve())) {
        printf("not possible here, not ready\n");
        return 1;
    }
    if (strcmp(what, "coroutine") != 0 && strcmp(what, "dispatched") != 0 && !restartable) {
        pthread_create(&thread, NULL, rest, NULL);
        pthread_create(&thread, NULL, wait_long, NULL);
    }
    if (wild || sandboxed || strcmp(what, "shifting") == 0)
        pthread_create(&thread, NULL, write_pairs, map_instants());
    if (strcmp(what, "shifting") == 0)
        pthread_create(&thread, NULL, shift, NULL);
    if (huge)
        pthread_create(&thread, NULL, write_huge, NULL);
    for (int i = 0; i < 2 && strcmp(what, "opening") == 0; i++)
        pthread_create(&thread, NULL, open_files, NULL);
    if (strcmp(what, "growing") == 0 || strcmp(what, "spreading") == 0)
        pthread_create(&thread, NULL, grow, NULL);
    if (strcmp(what, "moving") == 0)
        pthread_create(&thread, NULL, move_on, NULL);
    if (strcmp(what, "forking") == 0)
        pthread_create(&thread, NULL, fork_on, NULL);
    struct sigaction action = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    timer_t timer;
    struct itimerspec period = {{0, 5000000}, {0, 5000000}};
    timer_create(CLOCK_MONOTONIC, NULL, &timer);
    timer_settime(timer, 0, &period, NULL);
    printf("ready\n");
    fflush(stdout);
    if (argc > 2) {
        for (int i = 0; i < FILL; i++)
            *(void **)fill[i] = node[0];
        printf("written\n");
        fflush(stdout);
        long us = atol(argv[2]);
        struct timespec time = {us / 1000000, us % 1000000 * 1000};
        while (nanosleep(&time, &time) != 0)
            ; /* a tick */
        if (strcmp(what, "execs") == 0)
            execl("/proc/self/exe", argv[0], "idle", NULL);
        _exit(0);
    }
    if (elsewhere)
        watch_elsewhere();
    if (restartable)
        restart();
    watch();
}
