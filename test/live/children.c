/* children.c - a program whose children `heapx run --children` cannot always take.
 *
 *   children MODE [N]
 *
 *   plain    N children exit at the same time
 *   traced   the same, and the parent traces the first
 *   tracer   the same, and another child traces the parent until its end
 *   raw      the same, and the first leaves by a bare exit_group(5)
 *   become   each becomes `idle` by a bare execve, without its environment
 *   space    they live in a PID namespace of their own
 *   late     after a line on stdin a child allocates and exits; prints how many ms that took
 *
 *   forks    4 threads fork 3 children each, while 2 others allocate
 *
 *   left     no children; leaves by a bare exit_group(N)
 *
 *   idle     no children; sleeps for a moment
 *
 * Each child has 20 blocks and ends with status 7 (the raw one with 5), the program with 9 when all
 * of them did.
 */
#include "victim.h"

#include <pthread.h>
#include <sched.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>

enum { CHILDREN_MAX = 64, BLOCKS = 20, OPENED_US = 300000 };

static void *volatile kept[BLOCKS];

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static NOINLINE void allocate(void)
{
    for (int i = 0; i < BLOCKS; i++)
        kept[i] = malloc(100);
}

/* Waits for the end of a process that may be traced; its status. */
static int see_end(pid_t pid)
{
    int status;
    while (waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status)) {
        int number = status >> 16 ? 0 : WSTOPSIG(status);
        bool own = number == SIGTRAP || number == SIGSTOP;
        ptrace(PTRACE_CONT, pid, NULL, (void *)(long)(own ? 0 : number));
    }
    return status;
}

static void child(const char *mode, bool first)
{
    end_with_parent();
    if (strcmp(mode, "become") == 0) {
        char *const argv[] = {(char *)(uintptr_t) "children", (char *)(uintptr_t) "idle", NULL};
        char *const env[] = {NULL};
        syscall(SYS_execve, "/proc/self/exe", argv, env);
        _exit(1);
    }
    allocate();
    usleep(OPENED_US); /* heapx has come by */
    if (first && strcmp(mode, "traced") == 0) {
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        raise(SIGSTOP);
    }
    if (first && strcmp(mode, "raw") == 0)
        syscall(SYS_exit_group, 5);
    exit(7);
}

static int late(void)
{
    char line[16];
    allocate();
    say("ready\n");
    if (read(0, line, sizeof line) <= 0)
        return 1;
    uint64_t begun = now_ms();
    pid_t pid = fork();
    if (pid == 0) {
        allocate();
        exit(7);
    }
    see_end(pid);
    printf("child %llu\n", (unsigned long long)(now_ms() - begun));
    fflush(stdout);
    return 9;
}

static atomic_bool stop;

static void *churn(void *unused)
{
    (void)unused;
    while (!atomic_load(&stop)) {
        void *p = malloc(50);
        KEEP(p);
        free(p);
    }
    return NULL;
}

static void *fork_some(void *unused)
{
    (void)unused;
    uintptr_t good = 1;
    for (int i = 0; i < 3; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            allocate();
            exit(7);
        }
        int status = see_end(pid);
        good &= pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 7;
    }
    return (void *)good;
}

static int forks(void)
{
    pthread_t thread[6];
    bool good = true;
    for (int i = 0; i < 6; i++)
        if (pthread_create(&thread[i], NULL, i < 2 ? churn : fork_some, NULL) != 0)
            return 1;
    for (int i = 6; i-- > 0;) {
        void *ret;
        if (i == 1)
            atomic_store(&stop, true);
        pthread_join(thread[i], &ret);
        good &= i < 2 || ret;
    }
    return good ? 9 : 1;
}

static int children(const char *mode, int n)
{
    pid_t pid[CHILDREN_MAX];
    bool good = n >= 0 && n <= CHILDREN_MAX;
    allocate();
    if (strcmp(mode, "space") == 0 && unshare(CLONE_NEWPID) != 0)
        return 77;
    for (int i = 0; good && i < n; i++)
        if ((pid[i] = fork()) == 0)
            child(mode, i == 0);
    if (strcmp(mode, "tracer") == 0) {
        pid_t tracer = fork();
        if (tracer == 0) {
            pid_t parent = getppid();
            end_with_parent();
            if (ptrace(PTRACE_SEIZE, parent, NULL, NULL) == 0)
                see_end(parent);
            _exit(0);
        }
    }
    for (int i = 0; good && i < n; i++) {
        int status = see_end(pid[i]), want = 7;
        if (strcmp(mode, "raw") == 0 && i == 0)
            want = 5;
        if (strcmp(mode, "become") == 0)
            want = 0;
        good &= WIFEXITED(status) && WEXITSTATUS(status) == want;
    }
    return good ? 9 : 1;
}

int main(int argc, char **argv)
{
    end_with_parent();
    const char *mode = argc > 1 ? argv[1] : "plain";
    int n = argc > 2 ? atoi(argv[2]) : 0;
    if (strcmp(mode, "idle") == 0)
        usleep(OPENED_US);
    else if (strcmp(mode, "late") == 0)
        return late();
    else if (strcmp(mode, "forks") == 0)
        return forks();
    else if (strcmp(mode, "left") == 0) {
        allocate();
        syscall(SYS_exit_group, n);
    } else
        return children(mode, n);
    return 0;
}
