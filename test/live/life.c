/* life.c - what programs do with themselves, for a recorder that lives inside.
 *
 *   life WHAT [ARG...]     see the table at the end; each prints what must not change
 *
 * Output and exit status of each must be the same with a recorder in the process as without.
 */
#include "victim.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <spawn.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>

extern char **environ;
static char *self;

/* Takes and frees; returns a number that depends on all contents. */
static NOINLINE uint64_t use(uint64_t seed, int rounds)
{
    struct rng rng = {seed};
    void *block[64] = {0};
    size_t size[64] = {0};
    uint64_t sum = 0;
    for (int i = 0; i < rounds; i++) {
        uint64_t slot = rng_below(&rng, 64);
        for (size_t k = 0; k < size[slot]; k += 64)
            sum = sum * 31 + ((uint8_t *)block[slot])[k];
        free(block[slot]);
        size[slot] = rng_below(&rng, 2000);
        block[slot] = malloc(size[slot]);
        memset(block[slot], (int)i, size[slot]);
    }
    for (int i = 0; i < 64; i++)
        free(block[i]);
    return sum;
}

static void tell(const char *what, uint64_t n)
{
    char line[200];
    snprintf(line, sizeof line, "%s %lu\n", what, n);
    say(line);
}

static int reap(pid_t pid)
{
    int status = -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

static int life_hello(char **arg)
{
    tell(arg[0] ? arg[0] : "hello", use(1, 5000));
    return 5;
}

static int life_fork(char **arg)
{
    (void)arg;
    for (int i = 0; i < 4; i++) {
        void *kept = malloc(1000);
        pid_t pid = fork();
        if (pid == 0) {
            free(kept); /* the parent's block, gone in the child only */
            tell("child", use((uint64_t)i, 3000));
            if (i % 2)
                exit(i);
            if (fork() == 0) {
                tell("grandchild", use((uint64_t)i, 300));
                _exit(9);
            }
            wait(NULL);
            _exit(i);
        }
        tell("status", (uint64_t)reap(pid));
        tell("parent", use((uint64_t)i, 3000));
        free(kept);
    }
    return 0;
}

static atomic_bool stop;

static void *churn(void *seed)
{
    uint64_t n = (uint64_t)(uintptr_t)seed;
    while (!atomic_load(&stop))
        use(n++, 100);
    return NULL;
}

/* The child of a fork has only one thread, whatever the others were doing. */
static int life_fork_threads(char **arg)
{
    (void)arg;
    pthread_t thread[4];
    for (uint64_t i = 0; i < 4; i++)
        pthread_create(&thread[i], NULL, churn, (void *)(uintptr_t)i);
    int sum = 0;
    for (int i = 0; i < 12; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            use((uint64_t)i, 500);
            _exit(1);
        }
        sum += reap(pid);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    tell("children", (uint64_t)sum);
    return 0;
}

static int life_exec(char **arg)
{
    (void)arg;
    use(2, 1000);
    execl(self, self, "hello", "executed", NULL);
    return 1;
}

static int life_exec_thread(char **arg)
{
    (void)arg;
    pthread_t thread;
    pthread_create(&thread, NULL, churn, NULL);
    use(2, 1000);
    execl(self, self, "hello", "executed beside a thread", NULL);
    return 1;
}

static int life_spawn(char **arg)
{
    (void)arg;
    char *argv[] = {self, (char *)"hello", (char *)"spawned", NULL};
    pid_t pid;
    for (volatile int i = 0; i < 3; i++) {
        if (posix_spawn(&pid, self, NULL, NULL, argv, environ) != 0)
            return 1;
        tell("status", (uint64_t)reap(pid));
        pid = vfork();
        if (pid == 0) {
            execv(self, argv);
            _exit(100);
        }
        tell("status", (uint64_t)reap(pid));
        pid = vfork();
        if (pid == 0)
            _exit(3);
        tell("status", (uint64_t)reap(pid));
        tell("parent", use(3, 100));
    }
    tell("system", (uint64_t)system("exit 4"));
    FILE *pipe = popen("echo from a pipe", "r");
    char line[64] = "";
    if (!pipe || !fgets(line, sizeof line, pipe))
        return 1;
    say(line);
    return pclose(pipe);
}

static int life_closefrom(char **arg)
{
    (void)arg;
    closefrom(3);
    uint64_t sum = use(4, 3000);
    for (int fd = 3; fd < 256; fd++)
        close(fd);
    /* what it opens now gets the lowest number, as ever */
    tell("descriptor", (uint64_t)open("/dev/null", O_RDONLY));
    tell("sum", sum + use(5, 3000));
    pid_t pid = fork();
    if (pid == 0)
        _exit((int)(use(6, 3000) & 1));
    tell("status", (uint64_t)reap(pid));
    return 0;
}

static int life_clearenv(char **arg)
{
    (void)arg;
    clearenv();
    tell("sum", use(7, 1000));
    setenv("ONE", "1", 1);
    execl(self, self, "environment", NULL);
    return 1;
}

static int life_environment(char **arg)
{
    (void)arg;
    for (char **e = environ; *e; e++) {
        say(*e);
        say("\n");
    }
    tell("preload", getenv("LD_PRELOAD") != NULL);
    return 0;
}

/* Nothing but read, write, exit and sigreturn from here on. */
static int life_strict(char **arg)
{
    (void)arg;
    free(malloc(1 << 20));
    use(8, 3000); /* the heap has grown */
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0)
        return 1;
    uint64_t sum = 0;
    for (int i = 0; i < 40; i++)
        sum += use(8, 3000);
    say(sum ? "strict\n" : "nothing\n");
    syscall(SYS_exit, 6);
    return 1;
}

/* Only what a program like this one needs. */
static int life_filter(char **arg)
{
    (void)arg;
    static const int allowed[] = {SYS_read,         SYS_write,     SYS_brk,  SYS_mmap,
                                  SYS_munmap,       SYS_mremap,    SYS_exit, SYS_futex,
                                  SYS_rt_sigreturn, SYS_exit_group};
    enum { N = sizeof allowed / sizeof *allowed };
    struct sock_filter code[N + 4] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    };
    for (unsigned i = 0; i < N; i++)
        code[1 + i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)allowed[i],
                                                   (unsigned char)(N - i), 0);
    code[1 + N] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    code[2 + N] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {.len = N + 3, .filter = code};
    free(malloc(4 << 20));
    use(9, 3000);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        return 1;
    uint64_t sum = 0;
    for (int i = 0; i < 40; i++)
        sum += use(9, 3000);
    void *volatile large = malloc(1 << 20);
    free(large);
    say(sum ? "filtered\n" : "nothing\n");
    return 8;
}

/* Two forks and a new session; the daemon goes on after the program has ended. */
static int life_daemon(char **arg)
{
    if (!arg[0])
        return 2;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        setsid();
        if (fork() != 0)
            _exit(0);
        int fd = open("/dev/null", O_RDWR);
        dup2(fd, 0), dup2(fd, 1), dup2(fd, 2);
        closefrom(3);
        uint64_t sum = 0;
        for (int i = 0; i < 10; i++, usleep(20000))
            sum += use((uint64_t)i, 500);
        fd = open(arg[0], O_WRONLY | O_CREAT | O_TRUNC, 0600);
        dprintf(fd, "daemon %lu\n", sum);
        exit(0);
    }
    tell("forked", (uint64_t)reap(pid));
    return 0;
}

static volatile sig_atomic_t ticks;

static void on_tick(int number)
{
    (void)number;
    ticks++;
}

/* A timer that interrupts malloc all the time. */
static int life_signals(char **arg)
{
    (void)arg;
    signal(SIGALRM, on_tick);
    signal(SIGUSR1, on_tick);
    struct itimerval every = {{0, 150}, {0, 150}};
    setitimer(ITIMER_REAL, &every, NULL);
    uint64_t sum = 0;
    for (int i = 0; i < 200; i++)
        sum += use((uint64_t)i, 2000);
    while (ticks < 200)
        sum += use(1, 100) & 0;
    every = (struct itimerval){{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &every, NULL);
    tell("sum", sum);
    return 0;
}

static void on_alarm(int number)
{
    (void)number;
    ticks++;
    use(11, 50); /* allowed here: what it interrupts does not allocate */
}

static sigjmp_buf back;
static void on_jump(int number)
{
    (void)number;
    siglongjmp(back, 1);
}

/* Handlers that allocate, on a stack of their own, and that are left by a jump. */
static int life_handlers(char **arg)
{
    (void)arg;
    static char stack[128 << 10];
    sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL);
    sigaction(SIGUSR1, &(struct sigaction){.sa_handler = on_alarm, .sa_flags = SA_ONSTACK}, NULL);
    signal(SIGUSR2, on_jump);
    for (int i = 0; i < 500; i++)
        raise(SIGUSR1);
    for (volatile int i = 0; i < 500; i++)
        if (sigsetjmp(back, 1) == 0)
            raise(SIGUSR2);
        else
            use(12, 10);
    tell("ticks", (uint64_t)ticks);
    return 0;
}

static void *short_thread(void *passed)
{
    free(passed);
    use((uint64_t)(uintptr_t)&short_thread & 0xff, 20);
    return malloc(100);
}

static int life_threads(char **arg)
{
    int n = arg[0] ? atoi(arg[0]) : 1000;
    void *passed = NULL;
    for (int i = 0; i < n; i += 4) {
        pthread_t thread[4];
        for (int k = 0; k < 4; k++) {
            pthread_create(&thread[k], NULL, short_thread, k ? NULL : passed);
        }
        for (int k = 0; k < 4; k++) {
            void *got;
            pthread_join(thread[k], &got);
            if (k == 0)
                passed = got;
            else
                free(got);
        }
    }
    free(passed);
    tell("threads", (uint64_t)n);
    return 0;
}

#ifndef LIFE_STATIC
static int life_dlclose(char **arg)
{
    uint64_t n = 0;
    for (int i = 0; i < 100 && arg[0]; i++) {
        void *library = dlopen(arg[0], RTLD_LAZY);
        if (!library) {
            say(dlerror());
            return 1;
        }
        void (*call)(void (*)(int), int);
        *(void **)&call = dlsym(library, "stripped_callback");
        n += call != NULL;
        use((uint64_t)i, 50);
        dlclose(library);
    }
    tell("loaded", n);
    return 0;
}
#endif

static int life_nobody(char **arg)
{
    (void)arg;
    uint64_t sum = use(13, 1000);
    if (setgid(65534) != 0 || setuid(65534) != 0)
        say("still somebody\n");
    sum += use(13, 100000);
    pid_t pid = fork();
    if (pid == 0)
        _exit((int)(use(14, 1000) & 1));
    tell("status", (uint64_t)reap(pid));
    tell("sum", sum);
    return 0;
}

static int clone_child(void *unused)
{
    (void)unused;
    use(15, 100);
    return 3;
}

static int life_clone(char **arg)
{
    (void)arg;
    static char stack[256 << 10];
    int pid = clone(clone_child, stack + sizeof stack, SIGCHLD, NULL);
    tell("status", (uint64_t)reap(pid));
    tell("sum", use(15, 1000));
    return 0;
}

static int life_large(char **arg)
{
    (void)arg;
    uint64_t sum = 0;
    for (size_t bytes = 1; bytes < (size_t)1 << 40; bytes *= 3) {
        void *volatile p = malloc(bytes);
        sum = sum * 2 + (p != NULL || bytes < (size_t)1 << 33);
        free(p);
    }
    errno = 0;
    size_t volatile huge = SIZE_MAX - 100;
    void *volatile p = malloc(huge);
    tell("errno", (uint64_t)errno);
    errno = 77;
    free(p);
    p = malloc(10);
    free(p);
    tell("errno", (uint64_t)errno);
    return 0;
}

static const struct {
    const char *name;
    int (*run)(char **arg);
} lives[] = {
    {"clearenv", life_clearenv},
    {"clone", life_clone},
    {"closefrom", life_closefrom},
    {"daemon", life_daemon},
#ifndef LIFE_STATIC
    {"dlclose", life_dlclose},
#endif
    {"environment", life_environment},
    {"exec", life_exec},
    {"exec_thread", life_exec_thread},
    {"filter", life_filter},
    {"fork", life_fork},
    {"fork_threads", life_fork_threads},
    {"handlers", life_handlers},
    {"hello", life_hello},
    {"large", life_large},
    {"nobody", life_nobody},
    {"signals", life_signals},
    {"spawn", life_spawn},
    {"strict", life_strict},
    {"threads", life_threads},
};

int main(int argc, char **argv)
{
    static char path[4096];
    if (argc < 2 || readlink("/proc/self/exe", path, sizeof path - 1) <= 0)
        return 2;
    self = path;
    for (size_t i = 0; i < sizeof lives / sizeof *lives; i++)
        if (strcmp(argv[1], lives[i].name) == 0)
            return lives[i].run(argv + 2);
    return 2;
}
