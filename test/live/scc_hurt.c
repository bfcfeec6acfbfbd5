/* scc_hurt.c - a program that marks regions (heapx/scc.h) as fast and as badly as can be, and looks
 * whether anything of its own went wrong meanwhile.
 *
 *   scc_hurt [THREADS [PLUGIN]]      until its input ends
 *   scc_hurt seccomp                 waits for a line; in a sandbox that allows next to nothing
 *   scc_hurt child                   for a moment, once
 *   scc_hurt hostile [scribble]      marks what is not there, with names that hurt; then writes
 * over what it shares with heapx
 *
 * Says "at LISTENER SEMAPHORE STUBS" first, "went wrong: ..." when it did, and at the end how often
 * it did everything.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "scc_victim.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

enum { MOST_THREADS = 16, STACK = 64 << 20, DEEP = 100000 };

static atomic_int ends, wrong;
static atomic_ullong done[16];
static const char *plugin_path, *own_path = "/proc/self/exe";

static void say_wrong(const char *what)
{
    char line[128];
    int n = snprintf(line, sizeof line, "went wrong: %s, errno %d\n", what, errno);
    if (atomic_fetch_add(&wrong, 1) < 10 && write(1, line, (size_t)n) < 0)
        _exit(9);
}
#define MUST(condition) ((condition) ? (void)0 : say_wrong(#condition))

struct self {
    uint64_t seed;
    ucontext_t home, routine;
    char *stack;
    jmp_buf back;
    heapx_stack stacks[8];
    unsigned number;
};

static unsigned chance(struct self *self, unsigned n)
{
    self->seed = self->seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return (unsigned)(self->seed >> 33) % n;
}

HEAPX_CENTRE(fast, "fast");
HEAPX_CENTRE(other, "other");
HEAPX_CENTRE(never, "never pushed");

/* A block with something in it, for as long as a mark. */
static FAR void block(struct self *self, size_t bytes)
{
    unsigned char *p = malloc(bytes);
    MUST(p != NULL);
    memset(p, (int)(bytes & 255), bytes);
    self->stacks[chance(self, 8)] = heapx_scc_capture();
    for (size_t i = 0; i < bytes; i += 7)
        MUST(p[i] == (bytes & 255));
    free(p);
}

/* --- ways to mark --------------------------------------------------------------------------- */

static FAR void spin(struct self *self)
{
    errno = 4711;
    for (int i = 0; i < 5000; i++) {
        heapx_scc_push(&fast);
        heapx_scc_pop(&fast);
    }
    MUST(errno == 4711);
    (void)self;
}

static FAR unsigned nest(struct self *self, unsigned depth)
{
    HEAPX_SCC("nest");
    if (depth % 5 == 0)
        block(self, 16 + chance(self, 200));
    if (depth > 0) {
        HEAPX_SCC("deeper");
        return 1 + nest(self, depth - 1);
    }
    return 0;
}

static FAR void scopes(struct self *self)
{
    unsigned depth = chance(self, 60);
    MUST(nest(self, depth) == depth);
}

static FAR void unbalanced(struct self *self)
{
    for (unsigned i = 0; i < 40; i++)
        switch (chance(self, 4)) {
        case 0:
            heapx_scc_push(&other);
            break;
        case 1:
            heapx_scc_pop(&never);
            break;
        case 2:
            heapx_scc_leave((heapx_stack){chance(self, 1000)});
            break;
        default:
            heapx_scc_pop(&other);
        }
    block(self, 100);
}

static FAR void deferred(struct self *self)
{
    for (unsigned i = 0; i < 50; i++) {
        heapx_stack stack = self->stacks[chance(self, 8)];
        if (chance(self, 20) == 0)
            stack.id = self->seed; /* of nobody */
        HEAPX_SCC_ENTER(stack);
        block(self, 50);
        self->stacks[chance(self, 8)] = heapx_scc_capture();
    }
}

static FAR void jump_out(struct self *self, unsigned depth)
{
    HEAPX_SCC("left by a jump");
    if (depth > 0)
        jump_out(self, depth - 1);
    else if (chance(self, 50)) /* or not */
        longjmp(self->back, 1);
    THEN();
}

static FAR void jumps(struct self *self)
{
    if (setjmp(self->back) == 0)
        jump_out(self, chance(self, 30));
    block(self, 60);
}

static FAR unsigned recurse(unsigned n)
{
    HEAPX_SCC("deep");
    return n ? 1 + recurse(n - 1) : 0;
}

static FAR void deep(struct self *self)
{
    if (chance(self, 10) == 0)
        MUST(recurse(DEEP) == DEEP);
}

/* --- other stacks ----------------------------------------------------------------------------- */

static FAR void routine(unsigned low, unsigned high)
{
    struct self *self = (struct self *)((uintptr_t)high << 32 | low);
    HEAPX_SCC("routine");
    for (int i = 0; i < 5; i++) {
        HEAPX_SCC("in a routine");
        block(self, 80);
        swapcontext(&self->routine, &self->home);
    }
    THEN();
}

static FAR void switches(struct self *self)
{
    getcontext(&self->routine);
    self->routine.uc_stack.ss_sp = self->stack;
    self->routine.uc_stack.ss_size = 65536;
    self->routine.uc_link = &self->home;
    makecontext(&self->routine, (void (*)(void))(void *)routine, 2, (unsigned)(uintptr_t)self,
                (unsigned)((uintptr_t)self >> 32));
    for (unsigned i = chance(self, 6); i > 0; i--) { /* often given up half way */
        HEAPX_SCC("around a routine");
        swapcontext(&self->home, &self->routine);
        block(self, 90);
    }
}

static FAR void in_handler(void)
{
    HEAPX_SCC("handler");
    heapx_stack stack = heapx_scc_capture();
    HEAPX_SCC_ENTER(stack);
    for (int i = 0; i < 20; i++) {
        heapx_scc_push(&fast);
        heapx_scc_pop(&fast);
    }
    THEN();
}

static void on_signal(int number)
{
    int before = errno;
    in_handler();
    atomic_fetch_add(&done[14], 1);
    MUST(errno == before);
    (void)number;
}

static FAR void signals(struct self *self)
{
    char space[32768];
    stack_t stack = {.ss_sp = space, .ss_size = sizeof space}, off = {.ss_flags = SS_DISABLE};
    HEAPX_SCC("signals");
    sigaltstack(&stack, NULL);
    pthread_kill(pthread_self(), SIGUSR1);
    block(self, 70);
    sigaltstack(&off, NULL);
}

/* --- other threads, files and processes ------------------------------------------------------- */

static void *short_lived(void *context)
{
    struct self *self = context;
    HEAPX_SCC("short-lived");
    HEAPX_SCC_ENTER(self->stacks[0]);
    void *p = malloc(33);
    MUST(p != NULL);
    free(p);
    if (self->number % 2)
        pthread_exit(context); /* leaves its marks behind */
    return context;
}

static FAR void threads(struct self *self)
{
    pthread_t thread[4];
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    HEAPX_SCC("threads");
    for (int i = 0; i < 4; i++)
        MUST(pthread_create(&thread[i], &small, short_lived, self) == 0);
    for (int i = 0; i < 4; i++) {
        void *result = NULL;
        MUST(pthread_join(thread[i], &result) == 0 && result == self);
    }
    pthread_attr_destroy(&small);
}

static FAR void plugin(struct self *self)
{
    void *handle = plugin_path ? dlopen(plugin_path, RTLD_NOW) : NULL;
    if (!handle)
        return;
    void (*work)(void);
    *(void **)&work = dlsym(handle, "plugin_work");
    const struct heapx_centre *within;
    *(void **)&within = dlsym(handle, "plugin_centre");
    HEAPX_SCC("around a plugin");
    work();
    if (within)
        heapx_scc_push(within); /* is gone with its file, and never popped */
    dlclose(handle);
    block(self, 40);
}

static int in_clone(void *context)
{
    HEAPX_SCC("cloned");
    heapx_scc_push(&other);
    heapx_scc_pop(&other);
    (void)context;
    return 7;
}

static FAR void processes(struct self *self)
{
    HEAPX_SCC("processes");
    char *const child[] = {(char *)(uintptr_t)own_path, (char *)(uintptr_t) "child", NULL};
    int status = -1;
    pid_t pid;
    switch (chance(self, 4)) {
    case 0:
        pid = fork();
        if (pid == 0) {
            block(self, 30);
            HEAPX_SCC_ENTER(self->stacks[1]);
            _exit(nest(self, 10) == 10 ? 7 : 1);
        }
        break;
    case 1:
        pid = vfork();
        if (pid == 0)
            _exit(7);
        break;
    case 2:
        pid = fork();
        if (pid == 0) {
            execv(own_path, child);
            _exit(1);
        }
        break;
    default:
        pid = clone(in_clone, self->stack + 65536, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
    }
    MUST(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
         WEXITSTATUS(status) == 7);
    if (status != 7 << 8) {
        char line[64];
        int n = snprintf(line, sizeof line, "went wrong: status %x\n", (unsigned)status);
        MUST(write(1, line, (size_t)n) == n);
    }
}

/* --- all of it -------------------------------------------------------------------------------- */

static void (*const ways[])(struct self *) = {
    spin, scopes, unbalanced, deferred, jumps, deep, switches, signals, threads, plugin, processes};
enum { WAYS = sizeof ways / sizeof *ways };

static void *mark(void *context)
{
    struct self *self = context;
    while (!ends) {
        unsigned way = chance(self, WAYS);
        if (way >= 8 && chance(self, 10)) /* expensive */
            way = 0;
        ways[way](self);
        atomic_fetch_add(&done[way], 1);
    }
    return context;
}

static void look_at_stubs(unsigned char *ret)
{
    memcpy(ret, (const void *)(uintptr_t)heapx_scc_v1_push, 16);
    memcpy(ret + 16, (const void *)(uintptr_t)heapx_scc_v1_capture, 16);
    memcpy(ret + 32, (const void *)(uintptr_t)heapx_scc_v1_leave, 16);
}

/* --- lies ---------------------------------------------------------------------------------------
 */

/* Writable memory that is shared, but for where it was told is not. */
static FAR void scribble(struct self *self)
{
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    unsigned long start[64], end[64], n = 0;
    MUST(maps != NULL);
    while (maps && n < 64 && fgets(line, sizeof line, maps)) {
        char how[8];
        if (sscanf(line, "%lx-%lx %7s", &start[n], &end[n], how) == 3 && strcmp(how, "rw-s") == 0)
            n++;
    }
    if (maps)
        fclose(maps);
    printf("%lu shared\n", n);
    fflush(stdout);
    for (int round = 0; round < 20; round++) {
        for (unsigned long i = 0; i < n; i++)
            for (unsigned long at = start[i]; at < end[i]; at += 8 * (1 + chance(self, 200)))
                *(volatile uint64_t *)at = chance(self, 3)   ? chance(self, 1000)
                                           : chance(self, 2) ? self->seed
                                                             : *(volatile uint64_t *)(at ^ 64);
        usleep(30000);
    }
    _exit(0);
}

static FAR void on(const struct heapx_centre *centre, size_t bytes)
{
    heapx_scc_push(centre);
    keep(bytes);
    heapx_stack stack = heapx_scc_capture();
    heapx_scc_pop(centre);
    for (int i = 0; i < 40; i++) { /* what is captured next to it is nobody's, or another's */
        heapx_stack wild = {i < 10   ? stack.id + (uint64_t)i
                            : i < 30 ? stack.id ^ (uint64_t)1 << i
                                     : (uint64_t)i << 58};
        HEAPX_SCC_ENTER(wild);
        keep(bytes + 1);
        stack = heapx_scc_capture();
    }
    THEN();
}

static int hostile(int scribbles)
{
    static char large[1 << 20];
    static struct heapx_centre centre[16];
    struct self self = {.seed = 5};
    char *page = mmap(NULL, 3 << 12, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(large, 'x', sizeof large - 1);
    memset(page, 'u', 2 << 12);
    mprotect(page + (2 << 12), 1 << 12, PROT_NONE);
    char *const labels[] = {page + (2 << 12) - 20,
                            page + (2 << 12),
                            (char *)8,
                            (char *)-4096,
                            (char *)0x800000000000,
                            large,
                            (char *)(uintptr_t) "\033[31mred\033]0;title\a",
                            (char *)(uintptr_t) "\xff\xfe\xc2\x9b"
                                                "5n",
                            (char *)(uintptr_t) "\u202eright",
                            (char *)(uintptr_t) "a\nb\rc\td",
                            (char *)(uintptr_t) "",
                            NULL};
    size_t n = sizeof labels / sizeof *labels;
    for (size_t i = 0; i < n; i++) {
        centre[i] = (struct heapx_centre){labels[i], labels[(i + 1) % n], labels[(i + 2) % n],
                                          (unsigned)-1, 77};
        on(&centre[i], 5000 + 2 * i);
    }
    const struct heapx_centre *const wild[] = {(void *)8,
                                               (void *)-8,
                                               (void *)(page + (2 << 12)),
                                               (void *)(page + (2 << 12) - 8),
                                               (void *)0x800000000000,
                                               (void *)(page + 3),
                                               NULL,
                                               (void *)(uintptr_t)hostile};
    for (size_t i = 0; i < sizeof wild / sizeof *wild; i++)
        on(wild[i], 6000 + 2 * i);
    for (int i = 0; i < 200; i++) { /* one after the other at one place */
        struct heapx_centre *own = malloc(sizeof *own);
        *own = (struct heapx_centre){i % 2 ? "even" : "odd", "freed", "freed.c", (unsigned)i, 0};
        on(own, 7000);
        memset(own, 0xee, sizeof *own);
        free(own);
    }
    for (uintptr_t i = 0; i < 40000; i++) { /* more than can be told apart */
        heapx_scc_push((void *)(i << 12 | 16));
        heapx_scc_pop((void *)(i << 12 | 16));
    }
    if (scribbles)
        scribble(&self);
    printf("hostile: ok\n");
    return 0;
}

/* exit_group() is more than strict mode allows. */
static int in_sandbox(void)
{
    struct self self = {.seed = 1};
    HEAPX_SCC("before");
    block(&self, 20);
    MUST(prctl(PR_SET_SECCOMP, 1) == 0);
    for (int i = 0; i < 100; i++) {
        spin(&self);
        MUST(nest(&self, 100) == 100);
        unbalanced(&self);
        deferred(&self);
        jumps(&self);
    }
    static const char text[] = "sandbox: ok\n";
    for (int i = 0; i < 20; i++) { /* for as long as a recorder needs */
        spin(&self);
        block(&self, 20);
    }
    int good = write(1, text, sizeof text - 1) == sizeof text - 1 && !wrong;
    syscall(SYS_exit, good ? 0 : 1);
    return 1;
}

static int as_child(void)
{
    struct self self = {.seed = 7};
    spin(&self);
    scopes(&self);
    jumps(&self);
    return wrong ? 1 : 7;
}

int main(int argc, char **argv)
{
    static struct self self[MOST_THREADS];
    pthread_t thread[MOST_THREADS];
    unsigned char before[48], after[48];
    const char *how = argc > 1 ? argv[1] : "4";
    if (strcmp(how, "child") == 0)
        return as_child();
    int n = atoi(how);
    n = n < 0 || n > MOST_THREADS ? 4 : n;
    plugin_path = argc > 2 ? argv[2] : NULL;
    look_at_stubs(before);
    printf("at %lx %lx %lx\n", (unsigned long)(uintptr_t)&heapx_scc_v1.listener,
           (unsigned long)(uintptr_t)&heapx_scc_v1.semaphore,
           (unsigned long)(uintptr_t)heapx_scc_v1_push);
    fflush(stdout);

    if (strcmp(how, "seccomp") == 0)
        return read(0, before, 1) < 0 || in_sandbox();
    if (strcmp(how, "hostile") == 0)
        return read(0, before, 1) < 0 || hostile(argc > 2);
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK | SA_RESTART};
    struct itimerval often = {{0, 2000}, {0, 2000}}, never_again = {{0, 0}, {0, 0}};
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    pthread_attr_t large;
    pthread_attr_init(&large);
    pthread_attr_setstacksize(&large, STACK);
    for (int i = 0; i < n; i++) {
        self[i].seed = (uint64_t)i * 77 + (uint64_t)getpid();
        self[i].number = (unsigned)i;
        self[i].stack = malloc(65536);
        pthread_create(&thread[i], &large, mark, &self[i]);
    }
    char line[64];
    ssize_t got;
    while ((got = read(0, line, sizeof line)) != 0) /* a line: say how it stands */
        if (got > 0) {
            spin(&self[0]);
            printf("so far %llu\n", done[0]);
            fflush(stdout);
        }
    ends = 1;
    for (int i = 0; i < n; i++)
        pthread_join(thread[i], NULL);
    setitimer(ITIMER_REAL, &never_again, NULL);
    look_at_stubs(after);
    if (memcmp(before, after, sizeof before) != 0 && heapx_scc_v1.semaphore == 0)
        say_wrong("code has changed");
    for (int i = 0; i < WAYS; i++)
        printf("way %d: %llu\n", i, done[i]);
    printf("semaphore %u, %llu signals, %d went wrong\n", (unsigned)heapx_scc_v1.semaphore,
           done[14], wrong);
    return wrong ? 1 : 0;
}
