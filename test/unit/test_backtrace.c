/* test_backtrace.c - the stacks of a stopped process's threads, by its copied memory.
 *
 * Threads of a child stand where a debugger finds them: in system calls, in a loop, in a signal
 * handler on a stack of its own, after a call of NULL, deep in recursion. What is found is compared
 * with the functions that were called.
 */
#include "live.h"

#include "attach/roots/backtrace.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>

#define NOINLINE __attribute__((noinline, noclone))
#define DEEP     400

/* What the child tells: its threads, and how many are where they are meant to be. */
struct told {
    _Atomic pid_t tid[8];
    atomic_uint ready;
    atomic_uint never; /* stays 0 */
};

static struct told *told;

enum { WAITS, SPINS, HANDLES, CALLS_NULL, RECURSES, LOCKS, THREADS };

/* Keeps a call from being the last thing that a function does. */
#define AFTER(call)                                                                                \
    do {                                                                                           \
        call;                                                                                      \
        __asm__ volatile("" ::: "memory");                                                         \
    } while (0)

static NOINLINE void in_pipe(int end)
{
    char byte;
    atomic_fetch_add(&told->ready, 1);
    AFTER(while (read(end, &byte, 1) < 0));
}
static NOINLINE void waits(void)
{
    int ends[2];
    if (pipe(ends) == 0)
        AFTER(in_pipe(ends[0]));
}

static NOINLINE void in_loop(void)
{
    atomic_fetch_add(&told->ready, 1);
    while (!atomic_load_explicit(&told->never, memory_order_relaxed))
        ;
}
static NOINLINE void spins(void)
{
    AFTER(in_loop());
}

static NOINLINE void in_handler(void)
{
    atomic_fetch_add(&told->ready, 1);
    for (;;)
        AFTER(pause());
}
static void handler(int number)
{
    (void)number;
    AFTER(in_handler());
}
static void set_handler(int number)
{
    stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    sigaltstack(&stack, NULL);
    sigaction(number, &action, NULL);
}
static NOINLINE void handles(void)
{
    set_handler(SIGUSR1);
    AFTER(pthread_kill(pthread_self(), SIGUSR1));
}

static NOINLINE void calls_null(void)
{
    void (*volatile nothing)(void) = NULL;
    set_handler(SIGSEGV);
    AFTER(nothing());
}

static NOINLINE int recurses(int depth)
{
    volatile int here = depth;
    if (!depth)
        waits();
    else
        here = recurses(depth - 1) + 1;
    return here;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static NOINLINE void locks(void)
{
    atomic_fetch_add(&told->ready, 1);
    AFTER(pthread_mutex_lock(&lock));
}

static void *begin_thread(void *number)
{
    int which = (int)(intptr_t)number;
    told->tid[which] = gettid();
    switch (which) {
    case WAITS:
        AFTER(waits());
        break;
    case SPINS:
        AFTER(spins());
        break;
    case HANDLES:
        AFTER(handles());
        break;
    case CALLS_NULL:
        AFTER(calls_null());
        break;
    case RECURSES:
        AFTER(recurses(DEEP));
        break;
    default:
        AFTER(locks());
    }
    return NULL;
}

static NOINLINE void main_thread(void *shared, int ready)
{
    pthread_t thread;
    told = shared;
    pthread_mutex_lock(&lock);
    for (intptr_t i = 0; i < THREADS; i++)
        pthread_create(&thread, NULL, begin_thread, (void *)i);
    while (atomic_load(&told->ready) < THREADS)
        usleep(1000);
    usleep(20000); /* the last step into the kernel */
    if (write(ready, "", 1) != 1)
        return;
    for (;;)
        AFTER(pause());
}

/* --- what is found ------------------------------------------------------------------ */

static uint32_t stack_of(const struct live *live, pid_t tid)
{
    const struct hx_snapshot *snapshot = live->snapshot;
    assert_int_equal(snapshot->thread_stack.n, snapshot->n_threads);
    for (size_t i = 0; i < snapshot->n_threads; i++)
        if (snapshot->thread[i].tid == tid)
            return snapshot->thread_stack.v[i];
    fail_msg("thread %d is not there", tid);
    return HX_NO_STACK;
}

/* The functions stand in that order, innermost first; others may stand between them. */
static void expect(const struct live *live, pid_t tid, const char *const *function)
{
    const struct hx_recording *recording = live->snapshot->backtraces;
    uint32_t number = stack_of(live, tid);
    HX_CLEANUP(hx_text_free) struct hx_text text = {0};
    assert_true(number < recording->stacks.n);
    hx_recording_label(recording, number, 1000, &text);
    const char *at = hx_text_str(&text);
    for (; *function; function++) {
        const char *found = strstr(at, *function);
        if (!found)
            fail_msg("%s is not in its place: %s", *function, hx_text_str(&text));
        at = found + strlen(*function);
    }
}
#define EXPECT(live, tid, ...) expect((live), (tid), (const char *const[]){__VA_ARGS__, NULL})

static void begin(struct live *live, pid_t *pid, hx_code *code)
{
    told = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(told, MAP_FAILED);
    *pid = live_start(main_thread, told);
    *live = live_capture(*pid);
    hx_frame_parts frames = {0};
    assert_null(hx_backtraces(live->snapshot, *pid, code, 0, NULL, &frames));
    hx_frame_parts_deinit(&frames);
    assert_null(hx_recording_check(live->snapshot->backtraces));
}

static void test_threads(void **unused)
{
    (void)unused;
    struct live live;
    pid_t pid;
    hx_code *code;
    assert_null(hx_code_create(&code));
    begin(&live, &pid, code);
    const struct hx_recording *recording = live.snapshot->backtraces;
    assert_string_equal(recording->method, "stop");
    assert_int_equal(recording->n_blocks, 0);
    EXPECT(&live, pid, "main_thread", " < live_start", " < main");
    EXPECT(&live, told->tid[WAITS], "in_pipe", " < waits", " < begin_thread");
    EXPECT(&live, told->tid[SPINS], "in_loop", " < spins", " < begin_thread");
    EXPECT(&live, told->tid[HANDLES], "in_handler", " < handler", " < handles", " < begin_thread");
    EXPECT(&live, told->tid[CALLS_NULL], "in_handler", " < handler", " < 0x0 < calls_null",
           " < begin_thread");
    EXPECT(&live, told->tid[LOCKS], "locks", " < begin_thread");
    EXPECT(&live, told->tid[RECURSES], "in_pipe", " < waits", " < recurses", " < ...");
    for (int i = 0; i < THREADS; i++) {
        const struct hx_rec_stack *stack = &recording->stacks.v[stack_of(&live, told->tid[i])];
        assert_int_equal(stack->cut, i == RECURSES);
        assert_int_equal(stack->n == 256, i == RECURSES);
    }
    live_end(pid);
    live_free(&live);
    hx_code_destroy(code);
}

/* Stack memory that was not copied, and registers that were not seen: what there is, then an end.
 */
static void test_missing(void **unused)
{
    (void)unused;
    struct live live;
    pid_t pid;
    hx_code *code;
    assert_null(hx_code_create(&code));
    begin(&live, &pid, code);
    struct hx_snapshot *snapshot = live.snapshot;
    hx_recording_destroy(snapshot->backtraces);
    snapshot->backtraces = NULL;
    snapshot->image.n = 0; /* nothing was copied */
    for (size_t i = 0; i < snapshot->n_threads; i++) {
        struct hx_thread *thread = &snapshot->thread[i];
        if (thread->tid == told->tid[SPINS])
            thread->has_regs = false;
        if (thread->tid == told->tid[LOCKS])
            *thread = (struct hx_thread){.tid = thread->tid};
        if (thread->tid == told->tid[WAITS])
            thread->pc = UINT64_MAX; /* registers say what the target likes */
    }
    hx_frame_parts frames = {0};
    assert_null(hx_backtraces(snapshot, pid, code, 0, NULL, &frames));
    hx_frame_parts_deinit(&frames);
    assert_null(hx_recording_check(snapshot->backtraces));
    assert_int_equal(stack_of(&live, told->tid[LOCKS]), HX_NO_STACK);
    EXPECT(&live, told->tid[SPINS], "in_loop < ...");
    EXPECT(&live, told->tid[WAITS], "0xfffffffffffffff < ...");
    assert_true(snapshot->backtraces->stacks.v[stack_of(&live, told->tid[SPINS])].cut);
    live_end(pid);
    live_free(&live);
    hx_code_destroy(code);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_missing),
    };
    if (getenv("HX_VALGRIND")) /* a child's threads are Valgrind's, on its stacks */
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
