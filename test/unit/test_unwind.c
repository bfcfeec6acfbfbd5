/* test_unwind.c - stacks taken inside a program: against backtrace(), against what is known by
 * construction, from memory against taken anew, by many threads, and through all that bends a
 * stack.
 *
 * HX_UNWIND_BENCH=1 also prints what a stack costs.
 */
#include "unit.h"

#include "record/preload/unwind_private.h"

#include <alloca.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

/* Where stacks differed is a hint that may lead to a word that was never written. */
#if __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>
#else
#define VALGRIND_DISABLE_ERROR_REPORTING
#define VALGRIND_ENABLE_ERROR_REPORTING
#endif

#ifdef __SANITIZE_ADDRESS__
#define EXTRA 1 /* its backtrace() has a frame of its own */
#else
#define EXTRA 0
#endif

#define FAR __attribute__((noinline, noclone, noipa))

struct bench {
    struct hx_region *region;
    struct hx_unwind *unwind;
    struct hx_unwind_thread *thread, *fresh;
};
/* The functions that are called have the signatures of callbacks, so what they use stands here. */
static struct bench bench;
static __thread struct hx_unwind_thread *my_thread;

static void *pages(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(memory != MAP_FAILED);
    return memory;
}

static struct hx_tables *tables_of(struct hx_region *region)
{
    static struct hx_tables tables;
    tables = (struct hx_tables){
        .region = region,
        .index = {.at = (uint8_t *)region->index, .bytes = sizeof region->index},
        .stacks = {.at = (uint8_t *)region->stack, .bytes = sizeof region->stack},
        .frames = {.at = (uint8_t *)region->frame, .bytes = sizeof region->frame}};
    return &tables;
}

static void set_up(void)
{
    bench.region = pages(sizeof *bench.region);
    bench.unwind = pages(hx_unwind_bytes());
    bench.thread = pages(hx_unwind_thread_bytes());
    bench.fresh = pages(hx_unwind_thread_bytes());
    hx_unwind_init(bench.unwind, tables_of(bench.region));
    my_thread = bench.thread;
}

static void tear_down(void)
{
    munmap(bench.region, sizeof *bench.region);
    munmap(bench.unwind, hx_unwind_bytes());
    munmap(bench.thread, hx_unwind_thread_bytes());
    munmap(bench.fresh, hx_unwind_thread_bytes());
}

static const struct hx_region_stack *stack_of(uint64_t key)
{
    assert_true(key >= HX_EV_KEY_FIRST && key - HX_EV_KEY_FIRST < HX_REGION_STACKS);
    const struct hx_region_stack *stack = &bench.region->stack[key - HX_EV_KEY_FIRST];
    assert_true(atomic_load(&stack->n) > 0);
    assert_true(stack->first + stack->n <= atomic_load(&bench.region->frames_used));
    return stack;
}

/* take_with(thread): the stack of its caller, as a wrapper of malloc would take it. */
uint64_t take_with(struct hx_unwind_thread *thread);
__asm__(".text\n"
        ".type take_with, @function\n"
        "take_with:\n"
        ".cfi_startproc\n"
        "movq (%rsp), %rsi\n"
        "leaq 8(%rsp), %rdx\n"
        "movq %rbp, %rcx\n"
        "jmp take_from\n"
        ".cfi_endproc\n"
        ".size take_with, . - take_with\n");

__attribute__((used)) uint64_t take_from(struct hx_unwind_thread *thread, uint64_t pc, uint64_t sp,
                                         uint64_t fp);
uint64_t take_from(struct hx_unwind_thread *thread, uint64_t pc, uint64_t sp, uint64_t fp)
{
    VALGRIND_DISABLE_ERROR_REPORTING;
    uint64_t key = hx_unwind_stack(bench.unwind, thread, pc, sp, fp);
    VALGRIND_ENABLE_ERROR_REPORTING;
    return key;
}

/* One key by all ways of getting it: anew, from memory, by a thread that remembers nothing. */
struct sight {
    int round;
    uint64_t keys[3];
    void *expected[1100];
    int n_expected;
};

static void forget_fresh(void)
{
    for (int set = 0; set < HX_MEMO_SETS; set++)
        for (int way = 0; way < HX_MEMO_WAYS; way++)
            bench.fresh->memo[set][way].epoch = 0;
}

/* Who takes next; out of the optimizer's sight, so that there is only one call that takes. */
static FAR struct hx_unwind_thread *next_taker(const struct sight *sight)
{
    return sight->round == 3 ? NULL : sight->round == 2 ? bench.fresh : my_thread;
}

#define SEE(sight)                                                                                 \
    do {                                                                                           \
        struct hx_unwind_thread *taker_;                                                           \
        (sight)->round = 0;                                                                        \
        while ((taker_ = next_taker(sight)))                                                       \
            (sight)->keys[(sight)->round++] = take_with(taker_);                                   \
        (sight)->n_expected = backtrace((sight)->expected, 1100);                                  \
        forget_fresh();                                                                            \
    } while (0)

/* All but the innermost frame must be what backtrace() says. */
static void compare(const struct sight *sight, bool cut)
{
    assert_int_equal(sight->keys[0], sight->keys[1]);
    assert_int_equal(sight->keys[0], sight->keys[2]);
    const struct hx_region_stack *stack = stack_of(sight->keys[0]);
    int n = sight->n_expected - EXTRA;
    void *const *expected = sight->expected + EXTRA;
    /* libgcc may give one more word behind the outermost frame */
    while (n > 1 && expected[n - 1] == NULL)
        n--;
    if (cut)
        assert_true(stack->n == HX_EV_FRAMES_MAX && n > HX_EV_FRAMES_MAX);
    else
        assert_int_equal(stack->n, n);
    assert_int_equal(stack->flags, cut ? HX_EV_STACK_CUT : 0);
    for (uint32_t i = 1; i < stack->n; i++) {
        uint64_t frame = bench.region->frame[stack->first + i];
        if (frame != (uint64_t)expected[i])
            fail_msg("frame %u: %#lx instead of %p", i, frame, expected[i]);
    }
}

/* --- calls of all kinds --------------------------------------------------------------------------
 */

static struct sight sight;
static volatile int sink;

static FAR int nest(int depth, int how);

static FAR int nest_plain(int depth, int how)
{
    int got = nest(depth - 1, how >> 2);
    sink = got;
    return got + 1;
}

static FAR int nest_saves(int depth, int how)
{
    int a = sink, b = depth * 3, c = how ^ 5, d = sink, e = sink;
    int got = nest(depth - 1, how >> 2);
    __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e)::"memory");
    sink = a + b + c + d + e;
    return got + 1;
}

static FAR int nest_alloca(int depth, int how)
{
    volatile char *room = alloca((size_t)(depth % 7) * 100 + 16);
    room[0] = (char)how;
    int got = nest(depth - 1, how >> 2);
    return got + room[0];
}

static FAR int nest_big(int depth, int how)
{
    volatile char room[9000];
    room[depth & 1023] = (char)how;
    int got = nest(depth - 1, how >> 2);
    return got + room[5];
}

static FAR int nest(int depth, int how)
{
    static int (*const kinds[])(int, int) = {nest_plain, nest_saves, nest_alloca, nest_big};
    if (depth == 0) {
        SEE(&sight);
        return sink;
    }
    return kinds[how & 3](depth, how); /* a tail call */
}

static void test_calls(void **state)
{
    (void)state;
    set_up();
    for (int how = 0; how < 256; how++) {
        sink = nest(4, how);
        compare(&sight, false);
    }
    sink = nest(16, (int)0xe4e4e4e4);
    compare(&sight, false);
    tear_down();
}

static FAR int recurse(int depth)
{
    if (depth == 0) {
        SEE(&sight);
        return 1;
    }
    int got = recurse(depth - 1);
    sink = got;
    return got + 1;
}

static void test_recursion(void **state)
{
    (void)state;
    set_up();
    sink = recurse(200);
    compare(&sight, false);
    sink = recurse(1000);
    compare(&sight, true);
    sink = recurse(3);
    compare(&sight, false);
    tear_down();
}

static FAR int by_qsort(const void *a, const void *b)
{
    if (sight.n_expected == 0)
        SEE(&sight);
    return *(const int *)a - *(const int *)b;
}

static void test_qsort(void **state)
{
    (void)state;
    int numbers[] = {3, 1, 2, 9, 8, 7};
    set_up();
    memset(&sight, 0, sizeof sight);
    qsort(numbers, 6, sizeof(int), by_qsort);
    compare(&sight, false);
    tear_down();
}

static void on_signal(int number)
{
    (void)number;
    sink = recurse(2);
}

static FAR void raise_it(int depth)
{
    if (depth > 0)
        raise_it(depth - 1);
    else
        raise(SIGUSR1);
    sink = depth;
}

static void run_signal(int flags)
{
    struct sigaction act = {.sa_handler = on_signal, .sa_flags = flags};
    struct sigaction old;
    assert_int_equal(sigaction(SIGUSR1, &act, &old), 0);
    raise_it(3);
    sigaction(SIGUSR1, &old, NULL);
    compare(&sight, false);
    const struct hx_region_stack *stack = stack_of(sight.keys[0]);
    assert_int_equal(__builtin_popcountll(stack->exact), 1);
}

/* Valgrind asks that what the kernel is shown be initialised, and the kernel is asked whether the
 * stacks that a program makes can be read. */
static bool own_stacks_only(void)
{
    const char *valgrind = getenv("HX_VALGRIND");
    return valgrind && strcmp(valgrind, "yes") == 0;
}

static void test_signals(void **state)
{
    (void)state;
    set_up();
    run_signal(0);
    if (own_stacks_only()) {
        tear_down();
        return;
    }
    stack_t alternative = {.ss_sp = pages(65536), .ss_size = 65536}, old;
    assert_int_equal(sigaltstack(&alternative, &old), 0);
    run_signal(SA_ONSTACK);
    sigaltstack(&old, NULL);
    munmap(alternative.ss_sp, 65536);
    tear_down();
}

static ucontext_t main_context, routine;

static void routine_body(void)
{
    sink = nest(3, 0x39);
}

static void test_coroutines(void **state)
{
    (void)state;
    if (own_stacks_only())
        skip();
    set_up();
    /* stacks between holes, which no read may touch; the second is smaller than the first */
    for (size_t bytes = 16 * 4096; bytes >= 12 * 4096; bytes -= 4 * 4096) {
        char *room = mmap((void *)0x200000000000, 18 * 4096, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        assert_true(room != MAP_FAILED);
        assert_int_equal(mprotect(room + 4096, bytes, PROT_READ | PROT_WRITE), 0);
        getcontext(&routine);
        routine.uc_stack.ss_sp = room + 4096;
        routine.uc_stack.ss_size = bytes;
        routine.uc_link = &main_context;
        makecontext(&routine, routine_body, 0);
        swapcontext(&main_context, &routine);
        compare(&sight, false);
        munmap(room, 18 * 4096);
    }
    tear_down();
}

#ifdef HX_TEST_CXX
void unwind_throw(void (*take)(void)); /* unwind_throw.cc */

static int thrown;
static FAR void take_in_constructor(void)
{
    SEE(&sight);
    compare(&sight, false);
    thrown++;
}

static void test_exceptions(void **state)
{
    (void)state;
    set_up();
    thrown = 0;
    unwind_throw(take_in_constructor);
    assert_int_equal(thrown, 3);
    tear_down();
}
#endif

/* --- memory --------------------------------------------------------------------------------------
 */

static struct unit_random *dice;
static uint64_t n_walks, n_stacks_seen;

static FAR uint64_t walk_more(int depth);

#define WALK(number, room)                                                                         \
    static FAR uint64_t walk_##number(int depth)                                                   \
    {                                                                                              \
        volatile char *space = alloca((size_t)(room) ? unit_below(dice, (room)) + 1 : 1);          \
        space[0] = 1;                                                                              \
        uint64_t got = walk_more(depth - 1);                                                       \
        return got + space[0];                                                                     \
    }
#define WALK_FIXED(number, room)                                                                   \
    static FAR uint64_t walk_##number(int depth)                                                   \
    {                                                                                              \
        volatile char space[room];                                                                 \
        space[0] = 1;                                                                              \
        uint64_t got = walk_more(depth - 1);                                                       \
        return got + space[0];                                                                     \
    }
WALK(0, 40)
WALK(1, 300)
WALK_FIXED(2, 16)
WALK_FIXED(3, 16)
WALK_FIXED(4, 64)
WALK_FIXED(5, 16)
WALK(6, 64)
WALK_FIXED(7, 48)

static FAR uint64_t walk_more(int depth)
{
    static uint64_t (*const walks[])(int) = {walk_0, walk_1, walk_2, walk_3,
                                             walk_4, walk_5, walk_6, walk_7};
    if (depth <= 0) {
        uint64_t keys[2];
        sight.round = 1;
        for (struct hx_unwind_thread *taker; (taker = next_taker(&sight)); sight.round++)
            keys[sight.round - 1] = take_with(taker);
        forget_fresh();
        if (keys[0] != keys[1])
            fail_msg("from memory %lu, anew %lu", keys[0], keys[1]);
        n_walks++;
        return keys[0];
    }
    uint64_t got = 0;
    for (uint64_t i = 0, n = unit_below(dice, 3) + 1; i < n; i++)
        got += walks[unit_below(dice, 4) * (unit_below(dice, 4) ? 1 : 2) % 8](
            depth - (int)unit_below(dice, 2));
    return got;
}

static void test_memory(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("memory");
    set_up();
    dice = &random;
    n_walks = 0;
    for (uint64_t rounds = unit_rounds(300000); n_walks < rounds;)
        sink = (int)walk_more(1 + (int)unit_below(dice, 9));
    n_stacks_seen = atomic_load(&bench.region->stacks_used);
    assert_true(n_stacks_seen > 100);
    assert_int_equal(atomic_load(&bench.region->stacks_full), 0);
    tear_down();
}

/* Many stacks that begin alike: ways down that differ by call sites only, or by the sizes of frames
 * whose sum is the same, with words between them that are never the same twice. */
static volatile uint64_t litter;
static FAR uint64_t way_more(int depth, uint64_t way);

static FAR uint64_t way_other(int depth, uint64_t way)
{
    uint64_t key = way_more(depth, way);
    sink = 2;
    return key;
}

#define WAY(number, words)                                                                         \
    static FAR uint64_t way_##number(int depth, uint64_t way)                                      \
    {                                                                                              \
        volatile uint64_t space[words];                                                            \
        for (int i = 0; i < (words); i++)                                                          \
            space[i] = litter++;                                                                   \
        uint64_t key;                                                                              \
        if (way & 2)                                                                               \
            key = way_more(depth - 1, way >> 2);                                                   \
        else                                                                                       \
            key = way_other(depth - 1, way >> 2);                                                  \
        return space[0] == litter ? 0 : key;                                                       \
    }
WAY(0, 2)
WAY(1, 6)

static FAR uint64_t way_more(int depth, uint64_t way)
{
    if (depth == 0)
        return take_with(my_thread);
    uint64_t key = way & 1 ? way_1(depth, way) : way_0(depth, way);
    sink = 1;
    return key;
}

/* From memory and anew, by one and the same call. */
static FAR uint64_t way_twice(int depth, uint64_t way)
{
    struct hx_unwind_thread *mine = my_thread;
    uint64_t keys[2];
    sight.round = 1;
    for (struct hx_unwind_thread *taker; (taker = next_taker(&sight)); sight.round++) {
        my_thread = taker;
        keys[sight.round - 1] = way_more(depth, way);
        my_thread = mine;
    }
    forget_fresh();
    if (keys[0] != keys[1])
        fail_msg("way %lu: from memory %lu, anew %lu", way, keys[0], keys[1]);
    return keys[0];
}

static void test_ways(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("ways");
    set_up();
    uint64_t mask = 0;
    for (uint64_t round = 0, rounds = unit_rounds(100000); round < rounds; round++) {
        if (unit_below(&random, 1000) == 0)
            hx_unwind_forget(bench.unwind);
        if (unit_below(&random, 100) == 0)
            mask = unit_random(&random) & unit_random(&random) & 0xfff;
        sink = (int)way_twice(6, unit_random(&random) & (unit_below(&random, 50) ? mask : 0xfff));
    }
    assert_int_equal(atomic_load(&bench.region->stacks_full), 0);
    tear_down();
}

/* --- threads -------------------------------------------------------------------------------------
 */

#define THREADS 8
struct job {
    pthread_barrier_t *barrier;
    uint64_t keys[256];
    int rounds;
};

static FAR uint64_t take_nested(int depth, int how);
static FAR uint64_t take_left(int depth, int how)
{
    uint64_t key = take_nested(depth - 1, how >> 1);
    sink = 1;
    return key;
}
static FAR uint64_t take_right(int depth, int how)
{
    volatile uint64_t key = take_nested(depth - 1, how >> 1);
    return key;
}
static FAR uint64_t take_nested(int depth, int how)
{
    if (depth == 0)
        return take_with(my_thread);
    uint64_t key = how & 1 ? take_left(depth, how) : take_right(depth, how);
    sink = 2;
    return key;
}

static bool same_stack(const struct hx_region_stack *a, const struct hx_region_stack *b)
{
    return a->n == b->n && memcmp(bench.region->frame + a->first, bench.region->frame + b->first,
                                  a->n * sizeof(uint64_t)) == 0;
}

static void *run_job(void *argument)
{
    struct job *job = argument;
    my_thread = pages(hx_unwind_thread_bytes());
    pthread_barrier_wait(job->barrier);
    for (int round = 0; round < job->rounds; round++)
        for (int how = 0; how < 256; how++) {
            uint64_t key = take_nested(8, how);
            if (round == 0)
                job->keys[how] = key;
            else if (!same_stack(stack_of(job->keys[how]), stack_of(key)))
                job->keys[how] = 0;
        }
    munmap(my_thread, hx_unwind_thread_bytes());
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    static struct job jobs[THREADS];
    pthread_barrier_t barrier;
    set_up();
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        jobs[i] = (struct job){.barrier = &barrier, .rounds = (int)unit_rounds(50)};
        assert_int_equal(pthread_create(&threads[i], NULL, run_job, &jobs[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&barrier);
    for (int how = 0; how < 256; how++)
        for (int i = 0; i < THREADS; i++) {
            const struct hx_region_stack *stack = stack_of(jobs[i].keys[how]);
            assert_true(same_stack(stack, stack_of(jobs[0].keys[how])));
            assert_int_equal(stack->flags, 0);
            if (how > 0)
                assert_false(same_stack(stack, stack_of(jobs[0].keys[how - 1])));
        }
    /* a race may be lost now and then, but not as a rule */
    uint64_t used = atomic_load(&bench.region->stacks_used);
    assert_true(used >= 256 && used <= 256 + 256 * (THREADS - 1) / 2);
    tear_down();
}

/* --- code that comes and goes --------------------------------------------------------------------
 */

static uint64_t library_key;
static void *library_frames[64];
static int library_n;
static FAR void take_for_library(void)
{
    SEE(&sight);
    library_key = sight.keys[0];
    library_n = backtrace(library_frames, 64);
}

static void *run_library(const char *path)
{
    void *handle = dlopen(path, RTLD_NOW);
    if (handle == NULL)
        fail_msg("%s", dlerror());
    void (*run)(void (*)(void)) = (void (*)(void (*)(void)))dlsym(handle, "unwind_plugin");
    assert_non_null(run);
    run(take_for_library);
    compare(&sight, false);
    void *address = (void *)run;
    atomic_fetch_add(&bench.region->generation, 1);
    hx_unwind_forget(bench.unwind);
    dlclose(handle);
    hx_unwind_forget(bench.unwind);
    return address;
}

static void test_libraries(void **state)
{
    (void)state;
    set_up();
    int same_place = 0;
    for (int i = 0; i < 6; i++) {
        void *first = run_library("./unwind_plugin_1.so");
        uint64_t before = library_key;
        void *second = run_library("./unwind_plugin_2.so");
        same_place += first == second;
        assert_int_not_equal(before, library_key);
    }
    /* where the loader puts them is its affair; nearly always the same place */
    printf("libraries: %d of 6 at the same address\n", same_place);
    tear_down();
}

static void test_generations(void **state)
{
    (void)state;
    uint64_t keys[2];
    set_up();
    for (int i = 0; i < 2; i++) {
        keys[i] = take_nested(3, 5);
        atomic_fetch_add(&bench.region->generation, 1);
        hx_unwind_forget(bench.unwind);
    }
    assert_int_not_equal(keys[0], keys[1]);
    assert_int_equal(stack_of(keys[0])->n, stack_of(keys[1])->n);
    tear_down();
}

static void test_child(void **state)
{
    (void)state;
    uint64_t keys[2];
    set_up();
    struct hx_region *other = pages(sizeof *other), *parent = bench.region;
    for (int i = 0; i < 2; i++) {
        keys[i] = take_nested(3, 5);
        assert_true(stack_of(keys[i])->n > 3);
        bench.region = other;
        hx_unwind_init(bench.unwind, tables_of(other));
    }
    assert_int_equal(atomic_load(&other->stacks_used), 1);
    munmap(parent, sizeof *parent);
    tear_down();
}

/* Code of no library: calls its argument, with a frame pointer or without. */
static void test_bare(void **state)
{
    (void)state;
    static const uint8_t with[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x83,
                                   0xec, 0x20, 0xff, 0xd7, 0xc9, 0xc3};
    static const uint8_t without[] = {0x48, 0x83, 0xec, 0x28, 0xff, 0xd7,
                                      0x48, 0x83, 0xc4, 0x28, 0xc3};
    set_up();
    uint8_t *code = pages(4096);
    memcpy(code, with, sizeof with);
    memcpy(code + 64, without, sizeof without);
    assert_int_equal(mprotect(code, 4096, PROT_READ | PROT_EXEC), 0);

    ((void (*)(void (*)(void)))(uintptr_t)code)(take_for_library);
    assert_int_equal(sight.keys[0], sight.keys[1]);
    const struct hx_region_stack *stack = stack_of(sight.keys[0]);
    const uint64_t *frame = bench.region->frame + stack->first;
    assert_int_equal(frame[1], (uint64_t)code + 10);
    assert_int_equal(stack->flags, 0);
    assert_true(stack->n > 3);

    ((void (*)(void (*)(void)))(uintptr_t)(code + 64))(take_for_library);
    stack = stack_of(sight.keys[0]);
    assert_int_equal(bench.region->frame[stack->first + 1], (uint64_t)code + 64 + 6);
    munmap(code, 4096);
    tear_down();
}

static void test_barred(void **state)
{
    (void)state;
    set_up();
    struct hx_tables *tables = tables_of(bench.region);
    hx_unwind_bar_calls(bench.unwind);
    assert_int_equal(take_nested(3, 5), HX_EV_KEY_FULL); /* no page is ready, nor can be made so */
    assert_true(hx_pages_get(&tables->index, 0, tables->index.bytes, false));
    assert_true(hx_pages_get(&tables->stacks, 0, 4096, false));
    assert_true(hx_pages_get(&tables->frames, 0, 4096, false));
    uint64_t key = take_nested(3, 5);
    assert_true(key >= HX_EV_KEY_FIRST && stack_of(key)->n >= 2);
    tear_down();
}

/* A full table is told, and found entries stay. */
static void test_full(void **state)
{
    (void)state;
    set_up();
    uint64_t keys[3];
    for (int i = 0; i < 3; i++) {
        keys[i] = take_nested(3, i == 1 ? 6 : 5);
        atomic_store(&bench.region->frames_used, HX_REGION_FRAMES - 1);
    }
    assert_int_equal(keys[1], HX_EV_KEY_FULL);
    assert_int_equal(keys[2], keys[0]);
    assert_int_equal(atomic_load(&bench.region->stacks_full), 1);
    tear_down();
}

/* Registers that do not belong together: any answer will do, but no read may leave the stack. The
 * words on it are code, addresses of it, and whatever. */
static FAR void test_nonsense(void **state)
{
    (void)state;
    if (own_stacks_only())
        skip();
    struct unit_random random = unit_random_begin("nonsense");
    volatile uint64_t room[512];
    const uint64_t codes[] = {(uint64_t)(uintptr_t)qsort, (uint64_t)(uintptr_t)nest,
                              (uint64_t)(uintptr_t)_cmocka_run_group_tests};
    set_up();
    char *island = mmap(NULL, 3 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(island != MAP_FAILED);
    assert_int_equal(mprotect(island + 4096, 4096, PROT_READ | PROT_WRITE), 0);
    for (uint64_t round = 0, rounds = unit_rounds(100000); round < rounds; round++) {
        volatile uint64_t *stack = round & 1 ? room : (volatile uint64_t *)(void *)(island + 4096);
        for (int i = 0; i < 16; i++) {
            uint64_t code = codes[unit_below(&random, 3)] + unit_below(&random, 1 << 17);
            uint64_t near = (uint64_t)(uintptr_t)&stack[unit_below(&random, 512)];
            uint64_t kind = unit_below(&random, 8);
            stack[unit_below(&random, 512)] = kind < 5   ? code
                                              : kind < 7 ? near + unit_below(&random, 4) * 4
                                                         : unit_random(&random);
        }
        uint64_t pc = codes[unit_below(&random, 3)] + unit_below(&random, 1 << 17);
        uint64_t sp = (uint64_t)(uintptr_t)&stack[unit_below(&random, 511) + 1];
        uint64_t fp =
            unit_below(&random, 4) ? sp + unit_below(&random, 400) * 8 : unit_random(&random);
        (void)hx_unwind_stack(bench.unwind, my_thread, pc, sp, fp);
    }
    munmap(island, 3 * 4096);
    tear_down();
}

/* --- what it costs
 * -------------------------------------------------------------------------------- */

enum { FROM_MEMORY, LIKE_LAST, ANEW, COLD };
static double best_ns;

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* The same calls, with a stack that is taken at the bottom and without. */
#define FORK(name, bottom)                                                                         \
    static FAR uint64_t name(int depth, uint64_t way)                                              \
    {                                                                                              \
        uint64_t key;                                                                              \
        if (depth == 0)                                                                            \
            return bottom;                                                                         \
        if (way & 1) {                                                                             \
            key = name(depth - 1, way >> 1);                                                       \
            sink = 1;                                                                              \
        } else {                                                                                   \
            key = name(depth - 1, way >> 1);                                                       \
            sink = 2;                                                                              \
        }                                                                                          \
        return key;                                                                                \
    }
FORK(fork_more, take_with(my_thread))
FORK(fork_none, (uint64_t)sink)

/* The set that holds what was remembered in this epoch. */
static FAR struct hx_memo *find_set(void)
{
    for (int set = 0; set < HX_MEMO_SETS; set++)
        for (int way = 0; way < HX_MEMO_WAYS; way++)
            if (my_thread->memo[set][way].epoch == atomic_load(&bench.unwind->epoch))
                return my_thread->memo[set];
    return my_thread->memo[0];
}

static FAR int time_it(int depth, int what)
{
    if (depth > 0) {
        int got = time_it(depth - 1, what);
        sink = got;
        return got + 1;
    }
    best_ns = 1e9;
    int rounds = what == COLD ? 5 : 20000;
    for (int repeat = 0; repeat < 20; repeat++) {
        struct hx_memo *set = find_set();
        uint64_t began = now_ns(), keys = 0;
        for (int i = 0; i < rounds; i++) {
            if (what == COLD)
                hx_unwind_forget(bench.unwind);
            if (what == ANEW)
                atomic_fetch_add_explicit(&bench.unwind->epoch, 1, memory_order_relaxed);
            if (what == LIKE_LAST)
                set[0].epoch = set[1].epoch = 0;
            keys += take_with(my_thread);
        }
        double ns = (double)(now_ns() - began) / rounds;
        if (repeat > 0) /* else nothing is known yet */
            best_ns = ns < best_ns ? ns : best_ns;
        sink = (int)keys;
    }
    return 0;
}

/* Of many stacks that begin alike, in turn and at random. */
static void time_ways(int depth, uint64_t ways, bool at_random)
{
    uint64_t rng = 1, keys = 0;
    int rounds = 20000;
    double cost[2] = {1e9, 1e9};
    uint64_t (*volatile take)(int, uint64_t);
    for (int repeat = 0; repeat < 20; repeat++)
        for (int what = 0; what < 2; what++) {
            take = what ? fork_more : fork_none;
            uint64_t began = now_ns();
            for (int i = 0; i < rounds; i++) {
                rng = rng * 6364136223846793005u + 1442695040888963407u;
                keys += take(depth, (at_random ? rng >> 40 : (uint64_t)i) % ways);
            }
            double ns = (double)(now_ns() - began) / rounds;
            cost[what] = ns < cost[what] ? ns : cost[what];
        }
    sink = (int)keys;
    printf("bench: %2d frames, %3lu stacks that begin alike, %s: %.1f ns\n", depth + 5, ways,
           at_random ? "at random" : "in turn", cost[1] - cost[0]);
}

static void run_clock(void)
{
    static const char *const names[] = {"from memory", "as far as unlike the last", "anew",
                                        "cold, with a forget"};
    set_up();
    /* main() and two of libc's are around */
    for (int depth = 5; depth <= 45; depth += 10)
        for (int what = 0; what <= COLD; what++) {
            hx_unwind_forget(bench.unwind);
            sink = time_it(depth, what);
            printf("bench: %2u frames, %s: %.1f ns\n", depth + 5, names[what], best_ns);
        }
    static const uint64_t ways[] = {1, 2, 8, 64, 512};
    for (int depth = 5; depth <= 45; depth += 40)
        for (int i = 0; i < 10; i++)
            time_ways(depth < 9 && ways[i / 2] > 64 ? 9 : depth, ways[i / 2], i & 1);
    tear_down();
}

int main(void)
{
    void *first[4];
    backtrace(first, 4); /* loads libgcc */
    if (getenv("HX_UNWIND_BENCH"))
        run_clock();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls),       cmocka_unit_test(test_recursion),
        cmocka_unit_test(test_qsort),       cmocka_unit_test(test_signals),
        cmocka_unit_test(test_coroutines),
#ifdef HX_TEST_CXX
        cmocka_unit_test(test_exceptions),
#endif
        cmocka_unit_test(test_memory),      cmocka_unit_test(test_ways),
        cmocka_unit_test(test_threads),     cmocka_unit_test(test_libraries),
        cmocka_unit_test(test_generations), cmocka_unit_test(test_child),
        cmocka_unit_test(test_bare),        cmocka_unit_test(test_barred),
        cmocka_unit_test(test_full),        cmocka_unit_test(test_nonsense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
