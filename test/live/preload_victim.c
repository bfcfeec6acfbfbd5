/* preload_victim.c - programs that make life hard for the library inside them: one for each word.
 *
 * Each ends with status 0 when what it saw was as it should be. Built without frame pointers.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what);                             \
            _exit(99);                                                                             \
        }                                                                                          \
    } while (0)

extern char **environ;
static char **arguments;
static void *made_early;

static __attribute__((constructor(101))) void early(void)
{
    made_early = malloc(333);
}

/* Random work on one heap: malloc, calloc, realloc, aligned, free. */
static void churn(unsigned seed, unsigned n)
{
    void *slot[256] = {0};
    for (unsigned i = 0; i < n; i++) {
        seed = seed * 1664525 + 1013904223;
        void **p = &slot[seed >> 24];
        size_t bytes = (seed >> 8 & 1023) + 1;
        switch (seed >> 18 & 7) {
        case 0:
            *p = realloc(*p, bytes);
            break;
        case 1:
            *p = reallocarray(*p, bytes, 2);
            break;
        case 2:
            free(*p);
            *p = calloc(bytes, 2);
            break;
        case 3:
            free(*p);
            CHECK(posix_memalign(p, 64, bytes) == 0 && (uintptr_t)*p % 64 == 0);
            break;
        case 4:
            free(*p);
            *p = aligned_alloc(128, 128 * (bytes / 128 + 1));
            break;
        default:
            free(*p);
            *p = malloc(bytes);
        }
    }
    for (size_t i = 0; i < 256; i++)
        free(slot[i]);
}

static void *churner(void *context)
{
    churn((unsigned)(uintptr_t)context, 100000);
    return NULL;
}

static int threads(void)
{
    pthread_t thread[8];
    for (uintptr_t i = 0; i < 8; i++)
        CHECK(pthread_create(&thread[i], NULL, churner, (void *)(i + 1)) == 0);
    for (int i = 0; i < 8; i++)
        pthread_join(thread[i], NULL);
    return 0;
}

/* Blocks that one thread makes and another frees, as fast as it goes. */
static _Atomic(void *) handed[64];

static void *giver(void *context)
{
    for (unsigned i = 0; i < 400000; i++) {
        void *p = malloc(i % 500 + 1);
        free(atomic_exchange(&handed[i * 7 % 64], p));
    }
    return context;
}

static int handing(void)
{
    pthread_t thread[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&thread[i], NULL, giver, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < 64; i++)
        free(handed[i]);
    return 0;
}

static void *one(void *context)
{
    free(malloc((size_t)(uintptr_t)context % 100 + 1));
    return NULL;
}

static int short_threads(void)
{
    for (uintptr_t i = 0; i < 10000; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, one, (void *)i) == 0);
        pthread_join(thread, NULL);
    }
    return 0;
}

static pthread_key_t key;
static void late(void *context)
{
    free(context);
    free(malloc(77));
    static __thread int rounds;
    if (rounds++ < 6)
        pthread_setspecific(key, malloc(88));
}

static void *leaver(void *context)
{
    (void)context;
    pthread_setspecific(key, malloc(66));
    pthread_exit(malloc(55));
}

static int exits(void)
{
    pthread_key_create(&key, late);
    for (int i = 0; i < 200; i++) {
        pthread_t thread;
        void *block;
        CHECK(pthread_create(&thread, NULL, leaver, NULL) == 0);
        pthread_join(thread, &block);
        free(block);
    }
    return 0;
}

/* Only with an allocator that signal handlers may use (preload_safe.c). */
static volatile sig_atomic_t storms;
static void on_alarm(int signal)
{
    (void)signal;
    int saved = errno;
    for (int i = 0; i < 3; i++)
        free(malloc(40 + (size_t)i));
    storms++;
    errno = saved;
}

static void *pest(void *context)
{
    pthread_t target = *(pthread_t *)context;
    while (storms < 20000)
        pthread_kill(target, storms & 1 ? SIGUSR1 : SIGUSR2);
    return NULL;
}

static int storm(void)
{
    pthread_t self = pthread_self(), thread;
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGUSR2, &action, NULL);
    pthread_create(&thread, NULL, pest, &self);
    while (storms < 20000) {
        void *p = malloc(99);
        p = realloc(p, 200);
        errno = 1234;
        free(p);
        CHECK(errno == 1234);
    }
    pthread_join(thread, NULL);
    return 0;
}

static int reap(pid_t pid)
{
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int forks(void)
{
    pthread_t thread[2];
    for (uintptr_t i = 0; i < 2; i++)
        pthread_create(&thread[i], NULL, churner, (void *)(i + 1));
    void *kept = malloc(1000);
    for (int i = 0; i < 20; i++) {
        pid_t pid = i & 1 ? fork() : (pid_t)syscall(SYS_fork);
        if (pid == 0) {
            if (i & 1)
                churn(5, 5000); /* after a bare fork locks may be held */
            free(i & 1 ? kept : NULL);
            _exit(7);
        }
        CHECK(reap(pid) == 7);
    }
    free(kept);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    return 0;
}

static int vforks(void)
{
    for (volatile int i = 0; i < 50; i++) {
        pid_t pid = vfork();
        if (pid == 0) {
            execl("/bin/true", "true", (char *)NULL);
            _exit(98);
        }
        CHECK(reap(pid) == 0);
        char *const argv[] = {"true", NULL};
        CHECK(posix_spawnp(&pid, "true", NULL, NULL, argv, environ) == 0);
        CHECK(reap(pid) == 0);
        churn(3, 100);
    }
    CHECK(system("exit 5") == 5 << 8);
    return 0;
}

/* As without heapx, for this program and for what it starts. */
static int environment(void)
{
    CHECK(!getenv("HEAPX_RUN"));
    const char *preload = getenv("LD_PRELOAD");
    CHECK(!preload || !strstr(preload, "heapx"));
    CHECK(system("test -z \"$HEAPX_RUN\" && case \"$LD_PRELOAD\" in *heapx*) exit 1;; esac") == 0);
    return 0;
}

static int again(void)
{
    char *const argv[] = {arguments[0], "threads", NULL};
    char *const none[] = {NULL};
    churn(1, 1000);
    execve("/proc/self/exe", argv, none);
    return 97;
}

static int cleared(void)
{
    clearenv();
    pid_t pid = fork();
    if (pid == 0) {
        execl("/proc/self/exe", arguments[0], "plain", (char *)NULL);
        _exit(98);
    }
    CHECK(reap(pid) == 0);
    churn(1, 1000);
    return 0;
}

static int closed(void)
{
    for (int fd = 3; fd < 1024; fd++)
        CHECK(close(fd) != 0 || fd > 4 || 1);
    int null = open("/dev/null", O_RDONLY);
    CHECK(null == 3); /* nothing of heapx holds one */
    return threads();
}

static int unloads(void)
{
    for (int i = 0; i < 20; i++) {
        void *handle = dlopen("libsqlite3.so.0", RTLD_NOW | RTLD_LOCAL);
        if (!handle)
            return 77;
        void *(*take)(int) = NULL;
        void (*give)(void *) = NULL;
        *(void **)&take = dlsym(handle, "sqlite3_malloc");
        *(void **)&give = dlsym(handle, "sqlite3_free");
        for (int k = 0; k < 100; k++)
            give(take(100));
        CHECK(dlclose(handle) == 0);
        churn(9, 500);
    }
    CHECK(dlclose(dlopen(NULL, RTLD_NOW)) == 0);
    return 0;
}

/* What may still be called: as good as nothing. Anything else kills. */
static int jailed(void)
{
    static struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 4, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_brk, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_munmap, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    churn(1, 100);
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    if (getenv("HX_SECCOMP_CALL"))
        CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0);
    else
        CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    churn(2, 300000);
    return 0;
}

static int limits(void)
{
    struct rlimit limit = {1 << 20, 1 << 20};
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        execl("/proc/self/exe", arguments[0], "plain", (char *)NULL);
        _exit(98);
    }
    CHECK(reap(pid) == 0);
    limit.rlim_cur = limit.rlim_max = (rlim_t)200 << 20;
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    execl("/proc/self/exe", arguments[0], "plain", (char *)NULL);
    return 97;
}

/* A limit of its own is all for itself, whatever else lies in its memory. */
static int limited(void)
{
    struct rlimit limit = {(rlim_t)512 << 20, RLIM_INFINITY};
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    for (int i = 0; i < 100; i++) {
        char *p = malloc((size_t)2 << 20);
        CHECK(p);
        p[i] = 1;
    }
    struct rlimit is;
    CHECK(getrlimit(RLIMIT_AS, &is) == 0 && is.rlim_cur == limit.rlim_cur);
    churn(1, 1000);
    return 0;
}

/* Locking all memory fills it: what was reserved only must stay so. */
static int locked(void)
{
    struct rusage usage;
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0)
        return 0; /* not allowed */
    churn(1, 1000);
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0 && usage.ru_maxrss < 100000);
    return 0;
}

/* Into another root, and another user: what it needs of the file system, it has. */
static int moved(void)
{
    pthread_t thread;
    churn(1, 1000);
    if (getuid() == 0) {
        CHECK(chroot("/proc/self/fdinfo") == 0 && chdir("/") == 0);
        CHECK(setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0);
    }
    CHECK(pthread_create(&thread, NULL, churner, (void *)1) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        churn(2, 1000);
        _exit(0);
    }
    CHECK(reap(pid) == 0);
    return 0;
}

/* A thread that libc knows nothing of, on the memory of its maker, which waits. */
static int run_bare(void *context)
{
    (void)context;
    churn(3, 1000);
    syscall(SYS_exit, 0);
    return 0;
}

static int bare(void)
{
    static _Atomic int tid; /* the kernel clears it when the thread is off its stack */
    const size_t bytes = 256 << 10;
    char *stack = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(stack != MAP_FAILED);
    for (int i = 0; i < 10; i++) {
        atomic_store(&tid, 1);
        CHECK(clone(run_bare, stack + bytes,
                    CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
                        CLONE_SYSVSEM | CLONE_CHILD_CLEARTID,
                    NULL, NULL, NULL, &tid) > 0);
        while (atomic_load(&tid))
            sched_yield();
        churn(1, 100);
    }
    return 0;
}

static volatile size_t huge = (size_t)1 << 62;

static int errors(void)
{
    errno = 0;
    CHECK(!malloc(huge) && errno == ENOMEM);
    errno = 0;
    CHECK(!calloc(huge, 4) && errno == ENOMEM);
    errno = 0;
    CHECK(!reallocarray(NULL, huge, 8) && errno == ENOMEM);
    void *p = malloc(10);
    memset(p, 7, 10);
    errno = 0;
    CHECK(!realloc(p, huge) && errno == ENOMEM && ((char *)p)[9] == 7);
    CHECK(!reallocarray(p, huge, 8) && errno == ENOMEM);
    free(p);
    p = NULL;
    CHECK(posix_memalign(&p, 3, 10) == EINVAL && !p);
    CHECK(posix_memalign(&p, 64, huge) == ENOMEM && !p);
    errno = 4321;
    p = malloc(100);
    free(p);
    free(NULL);
    CHECK(errno == 4321);
    p = realloc(NULL, 50);
    CHECK(p && malloc_usable_size(p) >= 50);
    p = realloc(p, 0);
    free(p);
    p = valloc(10);
    CHECK((uintptr_t)p % 4096 == 0);
    free(p);
    p = pvalloc(10);
    CHECK((uintptr_t)p % 4096 == 0 && malloc_usable_size(p) >= 4096);
    free(p);
    p = memalign(256, 10);
    CHECK((uintptr_t)p % 256 == 0);
    free(p);
    return 0;
}

static int mappings(void)
{
    for (int i = 0; i < 100; i++) {
        char *p = mmap(NULL, 10000, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        p = mremap(p, 10000, 1 << 20, MREMAP_MAYMOVE);
        p[1 << 19] = 1;
        CHECK(munmap(p, 1 << 20) == 0);
    }
    CHECK(mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED &&
          errno == EINVAL);
    return 0;
}

/* No handler of heapx is to be seen. */
static int handlers(void)
{
    struct sigaction action;
    for (int i = 1; i < 32; i++) {
        CHECK(sigaction(i, NULL, &action) == 0);
        CHECK(action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN);
    }
    CHECK(signal(SIGTERM, SIG_IGN) == SIG_DFL);
    CHECK(signal(SIGTERM, SIG_DFL) == SIG_IGN);
    CHECK(signal(SIGTERM, SIG_DFL) == SIG_DFL);
    stack_t stack;
    CHECK(sigaltstack(NULL, &stack) == 0 && stack.ss_flags & SS_DISABLE);
    return 0;
}

static int __attribute__((noinline)) deeper(volatile char *above)
{
    volatile char here[4096];
    here[0] = above[0];
    return here[0] == 'x' ? 0 : deeper(here) + here[0];
}

static int dies(const char *how)
{
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    made_early = malloc(4444);
    if (strcmp(how, "abort") == 0)
        abort();
    if (strcmp(how, "segv") == 0)
        *(volatile int *)(uintptr_t)strlen(how) = 1;
    if (strcmp(how, "overflow") == 0)
        return deeper("");
    if (strcmp(how, "term") == 0)
        kill(getpid(), SIGTERM);
    if (strcmp(how, "_exit") == 0)
        _exit(3);
    if (strcmp(how, "quick") == 0)
        quick_exit(4);
    if (strcmp(how, "trap") == 0)
        __asm__ volatile("int3");
    if (strcmp(how, "caught") == 0) {
        signal(SIGTERM, _exit);
        raise(SIGTERM);
    }
    pause();
    return 96;
}

int main(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : "plain";
    arguments = argv;
    CHECK(made_early);
    static const struct {
        const char *word;
        int (*run)(void);
    } all[] = {{"threads", threads},   {"handing", handing},   {"short", short_threads},
               {"exits", exits},       {"storm", storm},       {"forks", forks},
               {"vforks", vforks},     {"again", again},       {"environment", environment},
               {"cleared", cleared},   {"closed", closed},     {"unloads", unloads},
               {"jailed", jailed},     {"limits", limits},     {"errors", errors},
               {"mappings", mappings}, {"handlers", handlers}, {"limited", limited},
               {"locked", locked},     {"moved", moved},       {"bare", bare}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(word, all[i].word) == 0)
            return all[i].run();
    if (strcmp(word, "plain") != 0)
        return dies(word);
    churn(1, 1000);
    return 0;
}
