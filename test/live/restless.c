/* restless.c - programs that are hard to stop.
 *
 *   restless threads    threads are born and die all the time
 *   restless busy       four threads do nothing but malloc and free
 *   restless exec       replaces itself every few milliseconds
 *   restless fork       has children that exit all the time
 *   restless exit MS    exits after so many milliseconds
 *   restless vfork      a thread waits in vfork for a child that sleeps
 *   restless seccomp    may call only what it needs; anything else kills it
 *   restless leaderless the first thread has exited, others go on
 *   restless crowd      1,500 threads that sleep
 *   restless shreds     30,000 mappings
 *   restless sparse     4 TiB of address space, hardly any of it touched
 *   restless idle       does nothing
 *
 * Says "ready" and works until it is killed or its parent ends.
 */
#include "victim.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/wait.h>

static void *churn(void *arg)
{
    struct rng rng = {(uint64_t)(uintptr_t)arg};
    void *slot[64] = {NULL};
    for (;;) {
        void **at = &slot[rng_below(&rng, 64)];
        free(*at);
        *at = need(malloc(1 + rng_below(&rng, 3000)));
        memset(*at, 1, 1);
    }
    return NULL;
}

static void *short_life(void *arg)
{
    void *p = need(malloc(1000));
    KEEP(p);
    usleep((useconds_t)(uintptr_t)arg % 3000);
    free(p);
    return NULL;
}

static void *spawner(void *arg)
{
    struct rng rng = {(uint64_t)(uintptr_t)arg};
    for (;;) {
        pthread_t thread[4];
        for (int i = 0; i < 4; i++)
            if (pthread_create(&thread[i], NULL, short_life, (void *)rng_next(&rng)))
                abort();
        for (int i = 0; i < 4; i++)
            pthread_join(thread[i], NULL);
    }
    return NULL;
}

static void run_threads(void *(*body)(void *), uintptr_t n)
{
    for (uintptr_t i = 1; i <= n; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, body, (void *)i))
            abort();
    }
}

static void run_forks(void)
{
    for (;;) {
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        waitpid(child, NULL, 0);
    }
}

static void *in_vfork(void *arg)
{
    (void)arg;
    if (vfork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            sleep(1000);
    }
    return NULL;
}

/* Everything but what glibc needs to sleep, write and end kills the process. */
static void forbid(void)
{
    static const int allowed[] = {SYS_read,         SYS_write,           SYS_exit_group,
                                  SYS_nanosleep,    SYS_clock_nanosleep, SYS_restart_syscall,
                                  SYS_rt_sigreturn, SYS_futex,           SYS_brk};
    enum { N = sizeof allowed / sizeof *allowed };
    struct sock_filter filter[N + 3];
    filter[0] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int i = 0; i < N; i++)
        filter[1 + i] =
            (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)allowed[i], N - i, 0);
    filter[N + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    filter[N + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {N + 3, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        abort();
}

static void *sleeper(void *arg)
{
    for (;;)
        usleep((useconds_t)(uintptr_t)arg + 20000);
    return NULL;
}

static void run_crowd(void)
{
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 64 << 10);
    for (int i = 0; i < 1500; i++) {
        pthread_t thread;
        if (pthread_create(&thread, &attr, sleeper, (void *)50000000))
            abort();
    }
}

/* Neighbours of different rights do not merge. */
static void run_shreds(void)
{
    enum { N = 30000 };
    char *at =
        mmap(NULL, (size_t)N * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        abort();
    for (size_t i = 0; i < N; i += 2) {
        at[i * 4096] = 1;
        if (mprotect(at + i * 4096, 4096, PROT_READ))
            abort();
    }
}

static void run_sparse(void)
{
    size_t size = (size_t)1 << 42;
    char *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                    -1, 0);
    if (at == MAP_FAILED)
        abort();
    for (size_t i = 0; i < 4000; i++)
        at[i * (size / 4096)] = 1;
}

static void *volatile held[100];

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "idle";
    end_with_parent();
    for (int i = 0; i < 100; i++)
        held[i] = need(malloc(100));
    if (strcmp(mode, "crowd") == 0)
        run_crowd();
    else if (strcmp(mode, "shreds") == 0)
        run_shreds();
    else if (strcmp(mode, "sparse") == 0)
        run_sparse();
    if (argc < 4) /* not again after an exec */
        say("ready\n");
    if (strcmp(mode, "threads") == 0)
        run_threads(spawner, 3);
    else if (strcmp(mode, "busy") == 0)
        run_threads(churn, 4);
    else if (strcmp(mode, "vfork") == 0)
        run_threads(in_vfork, 1);
    else if (strcmp(mode, "fork") == 0)
        run_forks();
    else if (strcmp(mode, "seccomp") == 0)
        forbid();
    else if (strcmp(mode, "leaderless") == 0) {
        run_threads(sleeper, 2);
        pthread_exit(NULL);
    } else if (strcmp(mode, "exec") == 0) {
        usleep(4000);
        execl("/proc/self/exe", argv[0], mode, "0", "again", (char *)NULL);
        abort();
    } else if (strcmp(mode, "exit") == 0) {
        usleep((useconds_t)atoi(argc > 2 ? argv[2] : "50") * 1000);
        return 0;
    }
    for (;;)
        usleep(20000);
}
