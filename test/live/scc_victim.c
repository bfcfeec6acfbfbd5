/* scc_victim.c - a program that marks regions in all ways there are; the sizes of its blocks say
 * which way it was. Built a second time with HEAPX_SCC_DISABLE.
 *
 *   scc_victim PLUGIN [exec]
 */
#include "scc_victim.h"

#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

/* --- scopes ---------------------------------------------------------------------------------- */

static FAR int early(int how)
{
    HEAPX_SCC("outer");
    keep(1001);
    for (int i = 0; i < 2; i++) {
        HEAPX_SCC("inner");
        keep(1002);
        if (how == i)
            return how;
    }
    keep(1003);
    return 0;
}

HEAPX_CENTRE(by_hand, "by hand");
static FAR void by_calls(void)
{
    heapx_scc_push(&by_hand);
    keep(1101);
    heapx_scc_pop(&by_hand);
    keep(1102);
    THEN();
}

static FAR void scopes(void)
{
    early(5);
    early(1);
    early(0);
    by_calls();
    keep(1004);
    THEN();
}

/* --- what is left ---------------------------------------------------------------------------- */

static jmp_buf back;

static FAR void jumps(void)
{
    HEAPX_SCC("left by a jump");
    keep(1201);
    longjmp(back, 1);
}

static FAR void after_jump(void)
{
    volatile char space[300];
    memset((void *)(uintptr_t)space, 1, sizeof space);
    keep(1202);
    THEN();
}

HEAPX_CENTRE(forgotten, "forgotten");
HEAPX_CENTRE(never, "never pushed");
static FAR void forgets(void)
{
    heapx_scc_push(&forgotten);
    keep(1203);
    THEN();
}

static FAR void left(void)
{
    if (setjmp(back) == 0)
        jumps();
    after_jump();
    forgets();
    keep(1204);
    after_jump();
    heapx_scc_pop(&never);
    {
        HEAPX_SCC("around");
        heapx_scc_push(&forgotten); /* taken away with what it is on */
    }
    keep(1205);
    THEN();
}

/* --- a pool ------------------------------------------------------------------------------------
 */

struct task {
    struct task *next;
    void (*run)(struct task *task);
    heapx_stack stack;
    size_t bytes;
};
static struct task *queue, **queue_end = &queue;
static int closed;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;

static FAR void *pool_worker(void *context)
{
    for (;;) {
        pthread_mutex_lock(&lock);
        while (!queue && !closed)
            pthread_cond_wait(&more, &lock);
        struct task *task = queue;
        if (task && !(queue = task->next))
            queue_end = &queue;
        pthread_mutex_unlock(&lock);
        if (!task)
            return context;
        heapx_scc_enter(task->stack);
        task->run(task);
        heapx_scc_leave(task->stack);
        keep(1303);
    }
}

static FAR void submit(struct task *task)
{
    task->stack = heapx_scc_capture();
    pthread_mutex_lock(&lock);
    *queue_end = task;
    queue_end = &task->next;
    pthread_cond_signal(&more);
    pthread_mutex_unlock(&lock);
}

static FAR void build(struct task *task)
{
    keep(task->bytes);
    THEN();
}

static struct task tasks[60];

static FAR void alice(void)
{
    for (int i = 0; i < 20; i++) {
        tasks[i] = (struct task){.run = build, .bytes = 1301};
        submit(&tasks[i]);
    }
}
static FAR void bob(void)
{
    HEAPX_SCC("bob's share");
    for (int i = 20; i < 60; i++) {
        tasks[i] = (struct task){.run = build, .bytes = 1302};
        submit(&tasks[i]);
    }
}

static FAR void pool(void)
{
    pthread_t thread[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&thread[i], NULL, pool_worker, NULL);
    alice();
    bob();
    pthread_mutex_lock(&lock);
    closed = 1;
    pthread_cond_broadcast(&more);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
}

/* Work that asks for itself again and again. */
static heapx_stack next_stack;
static FAR void resubmit(void)
{
    keep(1401);
    next_stack = heapx_scc_capture();
}
static FAR void loop(void)
{
    next_stack = heapx_scc_capture();
    for (int i = 0; i < 500; i++) {
        HEAPX_SCC_ENTER(next_stack);
        resubmit();
    }
}

/* --- threads, signals, other stacks ------------------------------------------------------------
 */

static FAR void *own_region(void *context)
{
    HEAPX_SCC("a thread's own");
    for (int i = 0; i < 100; i++)
        keep(1501);
    return context;
}

static FAR void threads(void)
{
    pthread_t thread[4];
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    for (int i = 0; i < 4; i++)
        pthread_create(&thread[i], &small, own_region, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
}

static FAR void on_signal_work(void)
{
    HEAPX_SCC("handler");
    keep(1602);
    THEN();
}
static void on_signal(int number)
{
    (void)number;
    on_signal_work();
}
static FAR void interrupted(void)
{
    HEAPX_SCC("interrupted");
    raise(SIGUSR1);
    keep(1601);
    THEN();
}
static FAR void signals(void)
{
    static char space[65536];
    stack_t stack = {.ss_sp = space, .ss_size = sizeof space};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &action, NULL);
    interrupted();
    sigaltstack(&stack, NULL);
    interrupted();
    stack.ss_flags = SS_DISABLE;
    sigaltstack(&stack, NULL);
}

static ucontext_t driver, routine[2];
static FAR void routine_body(int which)
{
    HEAPX_SCC("routine");
    for (int i = 0; i < 10; i++) {
        if (which) {
            HEAPX_SCC("second");
            swapcontext(&routine[1], &driver);
            keep(1702);
        } else {
            HEAPX_SCC("first");
            swapcontext(&routine[0], &driver);
            keep(1701);
        }
    }
}
static FAR void routines(void)
{
    static char space[2][65536];
    for (int i = 0; i < 2; i++) {
        getcontext(&routine[i]);
        routine[i].uc_stack.ss_sp = space[i];
        routine[i].uc_stack.ss_size = sizeof space[i];
        routine[i].uc_link = &driver;
        makecontext(&routine[i], (void (*)(void))(void *)routine_body, 1, i);
    }
    HEAPX_SCC("driver");
    for (int i = 0; i < 22; i++) {
        swapcontext(&driver, &routine[i % 2]);
        keep(1703);
    }
}

/* --- many --------------------------------------------------------------------------------------
 */

static FAR void deep(int n)
{
    HEAPX_SCC("deep");
    if (n > 0)
        deep(n - 1);
    else
        keep(1801);
    THEN();
}

static FAR void dynamic(void)
{
    static struct heapx_centre centre[3000];
    static char label[3000][16];
    for (int i = 0; i < 3000; i++) {
        snprintf(label[i], sizeof label[i], "script %d", i);
        centre[i] = (struct heapx_centre){label[i], "script", "a.script", (unsigned)i + 1, 0};
    }
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 3000; i++) {
            heapx_scc_push(&centre[i]);
            if (i % 1000 == 7)
                keep(1802);
            heapx_scc_pop(&centre[i]);
        }
}

/* --- other files and processes -------------------------------------------------------------------
 */

static FAR void plugin(const char *path)
{
    HEAPX_SCC("loading");
    void *handle = dlopen(path, RTLD_NOW);
    if (!handle) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    void (*work)(void);
    *(void **)&work = dlsym(handle, "plugin_work");
    work();
    dlclose(handle);
    keep(1903);
}

static FAR void child_work(heapx_stack stack)
{
    keep(2002);
    HEAPX_SCC_ENTER(stack);
    keep(2003);
    THEN();
}

static FAR void forks(void)
{
    HEAPX_SCC("forking");
    heapx_stack stack = heapx_scc_capture();
    pid_t pid = fork();
    if (pid == 0) {
        child_work(stack);
        exit(0);
    }
    waitpid(pid, NULL, 0);
    pid = vfork();
    if (pid == 0)
        _exit(0);
    waitpid(pid, NULL, 0);
    keep(2001);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[2], "exec") == 0) {
        HEAPX_SCC("before exec");
        char *const args[] = {argv[0], argv[1], NULL};
        execv("/proc/self/exe", args);
    }
    scopes();
    left();
    pool();
    loop();
    threads();
    signals();
    routines();
    deep(20);
    deep(2000);
    keep(1803);
    dynamic();
    if (argc > 1)
        plugin(argv[1]);
    forks();
    return 0;
}
