/* test_probe_marks.c - regions and deferred work (heapx/scc.h) as the recorder of running processes
 * sees them: in threads, over signals, longjmp and coroutines, before it came and after it was
 * killed; and notes of probes that are not what they should be. */
#include "base/proc.h"
#include "heapx/scc.h"
#include "model/process.h"
#include "probed.h"
#include "record/bpf/probes.bpf.h"
#include "record/bpf/probes_find.h"

#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <ucontext.h>

#define FUNCTION __attribute__((noinline, noclone, used)) static

/* Keeps the call before it from becoming a jump. */
#define NO_JUMP __asm__ volatile("" ::: "memory")

/* --- what a stack says ----------------------------------------------------------------- */

static void put_stack(const struct hx_recording *recording, uint32_t number, int depth,
                      struct hx_text *text)
{
    assert_true(number < recording->stacks.n);
    const struct hx_rec_stack *stack = &recording->stacks.v[number];
    for (uint32_t i = 0; i < stack->n; i++) {
        const struct hx_rec_place *place =
            &recording->places.v[recording->stack_places.v[stack->first + i]];
        const char *name = place->n_lines && place->lines[place->n_lines - 1].function
                               ? place->lines[place->n_lines - 1].function
                               : "?";
        if (place->kind == HX_REC_REGION)
            hx_text_putf(text, "[%s] ", name);
        else if (place->kind == HX_REC_CODE && !place->allocator)
            hx_text_putf(text, "%s ", name);
        if (place->kind != HX_REC_DEFERRED)
            continue;
        hx_text_puts(text, "{ ");
        if (place->stack == HX_NO_STACK)
            hx_text_puts(text, "? ");
        else if (depth < 100)
            put_stack(recording, place->stack, depth + 1, text);
        hx_text_puts(text, "} ");
    }
}

static void stack_of(const struct scene *scene, size_t i, struct hx_text *ret)
{
    assert_true(i < scene->stage->n);
    const struct hx_rec_block *block =
        hx_recording_block(scene->recording, scene->stage->block[i].address);
    assert_non_null(block);
    put_stack(scene->recording, block->stack, 0, ret);
}

/* The stack of the i-th noted block begins with these words. */
static void expect_stack(const struct scene *scene, size_t i, const char *wanted)
{
    struct hx_text text = {0};
    stack_of(scene, i, &text);
    if (strncmp(text.s, wanted, strlen(wanted)) != 0)
        fail_msg("block %zu: \"%s\", not \"%s\"", i, text.s, wanted);
    hx_text_free(&text);
}

/* How often regions of this label were pushed. */
static uint64_t entries(const struct scene *scene, const char *label)
{
    const struct hx_recording *recording = scene->recording;
    uint64_t sum = 0;
    for (size_t i = 0; i < recording->stacks.n; i++) {
        const struct hx_rec_stack *stack = &recording->stacks.v[i];
        const struct hx_rec_place *place =
            stack->n ? &recording->places.v[recording->stack_places.v[stack->first]] : NULL;
        if (place && place->kind == HX_REC_REGION && !strcmp(place->lines->function, label))
            sum += recording->costs.v[i].entries;
    }
    return sum;
}

static void see(struct scene *scene, void (*act)(struct stage *))
{
    begin(scene, act, 0, &everything);
    watch(scene);
}

/* --- regions ------------------------------------------------------------------------------ */

FUNCTION void inner_region(struct stage *stage)
{
    HEAPX_SCC("inner");
    note_block(stage, probe_leaf(11), 11);
    NO_JUMP;
}

FUNCTION void outer_region(struct stage *stage)
{
    HEAPX_SCC("outer");
    inner_region(stage);
    note_block(stage, probe_leaf(12), 12);
    {
        HEAPX_SCC("block");
        note_block(stage, probe_leaf(13), 13);
    }
    note_block(stage, probe_leaf(14), 14);
}

static void victim_regions(struct stage *stage)
{
    static struct heapx_centre *made;
    for (int i = 0; i < 10; i++)
        outer_region(stage);
    note_block(stage, probe_leaf(15), 15);
    made = malloc(sizeof *made);
    *made = (struct heapx_centre){.label = "made"};
    heapx_scc_push(made);
    note_block(stage, probe_leaf(16), 16);
    heapx_scc_pop(made);
}

/* One place, in the file that it is in. */
static void expect_inner(const struct hx_recording *recording)
{
    size_t found = 0;
    for (size_t i = 0; i < recording->places.n; i++) {
        const struct hx_rec_place *place = &recording->places.v[i];
        if (place->kind != HX_REC_REGION || strcmp(place->lines->function, "inner") != 0)
            continue;
        found++;
        assert_true(place->file < recording->files.n);
        assert_non_null(strstr(recording->files.v[place->file].name, "test_probe_marks"));
        assert_non_null(strstr(place->lines->source, "test_probe_marks.c"));
        assert_true(place->lines->line > 0);
    }
    assert_int_equal(found, 1);
}

static void test_regions(void **state)
{
    NEEDS_PROBES;
    struct scene scene;
    see(&scene, victim_regions);
    for (size_t i = 0; i < 40; i += 4) {
        expect_stack(&scene, i, "probe_leaf [inner] inner_region [outer] outer_region victim_");
        expect_stack(&scene, i + 1, "probe_leaf [outer] outer_region victim_regions ");
        expect_stack(&scene, i + 2, "probe_leaf [block] [outer] outer_region victim_regions ");
        expect_stack(&scene, i + 3, "probe_leaf [outer] outer_region victim_regions ");
    }
    expect_stack(&scene, 40, "probe_leaf victim_regions ");
    expect_stack(&scene, 41, "probe_leaf [made] victim_regions ");
    assert_int_equal(entries(&scene, "outer"), 10);
    assert_int_equal(entries(&scene, "inner"), 10);
    assert_int_equal(entries(&scene, "made"), 1);
    assert_int_equal(scene.recording->unbalanced_pops, 0);
    expect_inner(scene.recording);
    end(&scene);
}

/* Each thread has marks of its own, and many come and go. */
enum { many_threads = 40 };
static struct stage *thread_stage;
static pthread_mutex_t thread_lock = PTHREAD_MUTEX_INITIALIZER;

FUNCTION void *region_thread(void *argument)
{
    HEAPX_SCC("thread");
    void *p = probe_leaf(21);
    pthread_mutex_lock(&thread_lock);
    note_block(thread_stage, p, 21);
    pthread_mutex_unlock(&thread_lock);
    return argument;
}

static void victim_threads(struct stage *stage)
{
    pthread_t thread[4];
    thread_stage = stage;
    HEAPX_SCC("maker");
    for (size_t i = 0; i < many_threads; i += 4) {
        for (size_t k = 0; k < 4; k++)
            pthread_create(&thread[k], NULL, region_thread, NULL);
        for (size_t k = 0; k < 4; k++)
            pthread_join(thread[k], NULL);
    }
}

static void test_threads(void **state)
{
    NEEDS_PROBES;
    struct scene scene;
    see(&scene, victim_threads);
    for (size_t i = 0; i < many_threads; i++)
        expect_stack(&scene, i, "probe_leaf [thread] region_thread ");
    assert_int_equal(entries(&scene, "thread"), many_threads);
    assert_int_equal(entries(&scene, "maker"), 1);
    assert_int_equal(scene.recording->unbalanced_pops, 0);
    end(&scene);
}

/* --- what goes wrong ---------------------------------------------------------------------------
 */

HEAPX_CENTRE(left_centre, "left");
HEAPX_CENTRE(late_centre, "late");

FUNCTION void leave_by_jump(jmp_buf *to, int depth)
{
    if (depth < 0)
        return;
    heapx_scc_push(&left_centre);
    if (depth)
        leave_by_jump(to, depth - 1);
    else
        longjmp(*to, 1);
    NO_JUMP;
}

FUNCTION void push_late(struct stage *stage)
{
    heapx_scc_push(&late_centre);
    note_block(stage, probe_leaf(32), 32);
    heapx_scc_pop(&late_centre);
    NO_JUMP;
}

/* In turn: left by a jump (4 marks, found when the next is pushed), one forgotten in another, and
 * one that is not there, twice. */
static void victim_mistakes(struct stage *stage)
{
    jmp_buf to;
    HEAPX_SCC("work");
    if (!setjmp(to))
        leave_by_jump(&to, 3);
    note_block(stage, probe_leaf(31), 31);
    push_late(stage);
    {
        HEAPX_SCC("around");
        heapx_scc_push(&late_centre);
        note_block(stage, probe_leaf(33), 33);
    }
    note_block(stage, probe_leaf(34), 34);
    heapx_scc_pop(&late_centre);
    heapx_scc_pop(&late_centre);
    note_block(stage, probe_leaf(35), 35);
}

static void test_mistakes(void **state)
{
    NEEDS_PROBES;
    struct scene scene;
    see(&scene, victim_mistakes);
    expect_stack(&scene, 0, "probe_leaf [work] victim_mistakes ");
    expect_stack(&scene, 1, "probe_leaf [late] push_late [work] victim_mistakes ");
    expect_stack(&scene, 2, "probe_leaf [late] [around] [work] victim_mistakes ");
    expect_stack(&scene, 3, "probe_leaf [work] victim_mistakes ");
    expect_stack(&scene, 4, "probe_leaf [work] victim_mistakes ");
    assert_in_range(scene.recording->unbalanced_pops, 6, 7);
    end(&scene);
}

FUNCTION void nest(struct stage *stage, int depth)
{
    HEAPX_SCC("nest");
    if (depth)
        nest(stage, depth - 1);
    else
        note_block(stage, probe_leaf(41), 41);
    NO_JUMP;
}

/* More than there is room for, balanced, then left by a jump. */
static void victim_nested(struct stage *stage)
{
    jmp_buf to;
    HEAPX_SCC("base");
    nest(stage, 2000);
    note_block(stage, probe_leaf(42), 42);
    if (!setjmp(to))
        leave_by_jump(&to, 2000);
    note_block(stage, probe_leaf(43), 43);
    push_late(stage);
    note_block(stage, probe_leaf(44), 44);
}

static void test_nested(void **state)
{
    NEEDS_PROBES;
    struct scene scene;
    see(&scene, victim_nested);
    expect_stack(&scene, 1, "probe_leaf [base] victim_nested ");
    expect_stack(&scene, 2, "probe_leaf [base] victim_nested ");
    expect_stack(&scene, 3, "probe_leaf [late] push_late [base] victim_nested ");
    expect_stack(&scene, 4, "probe_leaf [base] victim_nested ");
    assert_in_range(scene.recording->unbalanced_pops, 2000, 2001);
    end(&scene);
}

/* The same left again and again in one frame: the list heals itself when it is full. */
static void victim_forgotten(struct stage *stage)
{
    HEAPX_SCC("base");
    for (int i = 0; i < 1000; i++)
        heapx_scc_push(&left_centre);
    note_block(stage, probe_leaf(45), 45);
    push_late(stage);
}

static void test_forgotten(void **state)
{
    NEEDS_PROBES;
    struct scene scene;
    see(&scene, victim_forgotten);
    expect_stack(&scene, 0, "probe_leaf [left] ");
    expect_stack(&scene, 1, "probe_leaf [late] push_late [left] ");
    assert_true(scene.recording->unbalanced_pops > 0);
    end(&scene);
}

/* Faster than anybody reads: what does not fit is counted. */
enum { many_entries = 800000 };

static void victim_fills(struct stage *stage)
{
    for (int i = 0; i < many_entries; i++) {
        HEAPX_SCC("fill");
        NO_JUMP;
    }
    stage->note = 1;
}

static void test_full(void **state)
{
    NEEDS_PROBES;
    struct scene scene;
    begin(&scene, victim_fills, 0, &everything);
    for (int i = 0; atomic_load(&scene.stage->done) < 2 && i < 60000; i++)
        nap();
    watch(&scene);
    assert_true(scene.recording->lost_entries > 0);
    assert_int_equal(entries(&scene, "fill") + scene.recording->lost_entries, many_entries);
    end(&scene);
}

/* --- other stacks ---------------------------------------------------------------------------- */

static struct stage *handling;

FUNCTION void region_handler(int sig)
{
    HEAPX_SCC("handler");
    note_block(handling, probe_leaf(51), 51);
    (void)sig;
}

FUNCTION void region_raises(struct stage *stage)
{
    HEAPX_SCC("raises");
    raise(SIGUSR1);
    note_block(stage, probe_leaf(52), 52);
}

static void victim_handler(struct stage *stage)
{
    static char other[65536];
    handling = stage;
    struct sigaction action = {.sa_handler = region_handler};
    sigaction(SIGUSR1, &action, NULL);
    region_raises(stage);
    sigaltstack(&(stack_t){.ss_sp = other, .ss_size = sizeof other}, NULL);
    action.sa_flags = SA_ONSTACK;
    sigaction(SIGUSR1, &action, NULL);
    region_raises(stage);
}

static void test_handler(void **state)
{
    NEEDS_PROBES;
    struct scene scene;
    see(&scene, victim_handler);
    for (size_t i = 0; i < 4; i += 2) {
        struct hx_text text = {0};
        expect_stack(&scene, i, "probe_leaf [handler] region_handler ");
        stack_of(&scene, i, &text);
        assert_non_null(strstr(text.s, "[raises] region_raises victim_handler "));
        hx_text_free(&text);
        expect_stack(&scene, i + 1, "probe_leaf [raises] region_raises victim_handler ");
    }
    assert_int_equal(scene.recording->unbalanced_pops, 0);
    end(&scene);
}

/* Marks that are made at any instant of others, by a signal. */
static atomic_int ticks;

FUNCTION void tick_handler(int sig)
{
    HEAPX_SCC("tick");
    atomic_fetch_add(&ticks, 1);
    (void)sig;
}

static void victim_ticks(struct stage *stage)
{
    struct sigaction action = {.sa_handler = tick_handler, .sa_flags = SA_RESTART};
    struct itimerspec every = {{0, 3000000}, {0, 3000000}};
    timer_t timer;
    sigaction(SIGALRM, &action, NULL);
    if (timer_create(CLOCK_MONOTONIC, NULL, &timer) || timer_settime(timer, 0, &every, NULL))
        _exit(98);
    HEAPX_SCC("ticked");
    for (int i = 0; i < 1000 || atomic_load(&ticks) < 20; i++) {
        HEAPX_SCC("loop");
        NO_JUMP;
    }
    timer_delete(timer);
    note_block(stage, probe_leaf(53), 53);
    stage->note = (uint64_t)atomic_load(&ticks);
}

static void test_ticks(void **state)
{
    NEEDS_PROBES;
    struct scene scene;
    see(&scene, victim_ticks);
    expect_stack(&scene, 0, "probe_leaf [ticked] victim_ticks ");
    assert_int_equal(entries(&scene, "tick"), scene.stage->note);
    assert_int_equal(scene.recording->unbalanced_pops, 0);
    end(&scene);
}

static ucontext_t main_context, coroutine[2];

FUNCTION void run_coroutine(int number)
{
    struct stage *stage = handling;
    HEAPX_SCC("coroutine");
    for (int i = 0; i < 3; i++) {
        HEAPX_SCC("turn");
        note_block(stage, probe_leaf(54), 54);
        swapcontext(&coroutine[number], number ? &main_context : &coroutine[1]);
        note_block(stage, probe_leaf(55), 55);
    }
}

FUNCTION void make_coroutine(int number, char *stack, size_t bytes)
{
    ucontext_t *made = &coroutine[number];
    getcontext(made);
    made->uc_stack.ss_sp = stack;
    made->uc_stack.ss_size = bytes;
    made->uc_link = number ? &main_context : &coroutine[1];
    makecontext(made, (void (*)(void))run_coroutine, 1, number);
}

static void victim_coroutines(struct stage *stage)
{
    static char stack[2][65536];
    handling = stage;
    make_coroutine(0, stack[0], sizeof stack[0]);
    make_coroutine(1, stack[1], sizeof stack[1]);
    HEAPX_SCC("scheduler");
    for (int i = 0; i < 4; i++) {
        HEAPX_SCC("round");
        swapcontext(&main_context, &coroutine[0]);
        note_block(stage, malloc(56), 56);
    }
}

static void test_coroutines(void **state)
{
    NEEDS_PROBES;
    struct scene scene;
    see(&scene, victim_coroutines);
    assert_int_equal(scene.stage->n, 16);
    for (size_t i = 0; i < 16; i++)
        expect_stack(&scene, i,
                     scene.stage->block[i].requested == 56
                         ? "[round] [scheduler] victim_coroutines "
                         : "probe_leaf [turn] [coroutine] run_coroutine ");
    assert_int_equal(scene.recording->unbalanced_pops, 0);
    end(&scene);
}

/* --- deferred work ------------------------------------------------------------------------------
 */

struct task {
    heapx_stack stack;
    struct stage *stage;
    int left;
    void (*run)(struct task *);
};

FUNCTION void *run_task(void *argument)
{
    struct task *task = argument;
    HEAPX_SCC_ENTER(task->stack);
    task->run(task);
    return NULL;
}

FUNCTION void task_allocates(struct task *task)
{
    HEAPX_SCC("task");
    note_block(task->stage, probe_leaf(61), 61);
}

FUNCTION void submit(struct task *task)
{
    task->stack = heapx_scc_capture();
    NO_JUMP;
}

FUNCTION void submit_in_region(struct task *task)
{
    HEAPX_SCC("submits");
    submit(task);
}

static void victim_deferred(struct stage *stage)
{
    struct task task = {.stage = stage, .run = task_allocates};
    pthread_t thread;
    submit_in_region(&task);
    pthread_create(&thread, NULL, run_task, &task);
    pthread_join(thread, NULL);
    note_block(stage, probe_leaf(62), 62);
    submit(&task);
    run_task(&task);
    task.stack.id = 0; /* it was made before anybody listened */
    run_task(&task);
    note_block(stage, probe_leaf(63), 63);
}

static void test_deferred(void **state)
{
    NEEDS_PROBES;
    struct scene scene;
    see(&scene, victim_deferred);
    expect_stack(&scene, 0,
                 "probe_leaf [task] task_allocates { submit [submits] submit_in_region "
                 "victim_deferred ");
    expect_stack(&scene, 1, "probe_leaf victim_deferred ");
    expect_stack(&scene, 2, "probe_leaf [task] task_allocates { submit victim_deferred ");
    expect_stack(&scene, 3, "probe_leaf [task] task_allocates { ? } run_task victim_deferred ");
    expect_stack(&scene, 4, "probe_leaf victim_deferred ");
    assert_int_equal(scene.recording->unbalanced_pops, 0);
    assert_true(scene.recording->lost_captures > 0);
    end(&scene);
}

FUNCTION void task_again(struct task *task)
{
    if (task->left % 100 == 0)
        note_block(task->stage, probe_leaf(64), 64);
    if (task->left--)
        submit(task);
    NO_JUMP;
}

static void victim_again(struct stage *stage)
{
    struct task task = {.stage = stage, .run = task_again, .left = 1000};
    submit(&task);
    while (task.left >= 0)
        run_task(&task);
}

/* Work that submits itself for ever has few stacks. */
static void test_again(void **state)
{
    NEEDS_PROBES;
    struct scene scene;
    see(&scene, victim_again);
    assert_int_equal(scene.stage->n, 11);
    assert_true(scene.recording->stacks.n < 40);
    for (size_t i = 1; i < scene.stage->n; i++)
        expect_stack(&scene, i, "probe_leaf task_again { submit task_again { submit victim_again ");
    assert_int_equal(scene.recording->lost_captures, 0);
    end(&scene);
}

FUNCTION void submit_at(struct task *task, int depth)
{
    if (depth)
        submit_at(task, depth - 1);
    else
        submit(task);
    NO_JUMP;
}

FUNCTION void task_deeper(struct task *task)
{
    note_block(task->stage, probe_leaf(65), 65);
    submit_at(task, task->left--);
}

static void victim_chain(struct stage *stage)
{
    struct task task = {.stage = stage, .run = task_deeper, .left = 150};
    submit(&task);
    while (task.left >= 0)
        run_task(&task);
}

/* Each time from elsewhere: the chain is cut. */
static void test_chain(void **state)
{
    NEEDS_PROBES;
    struct scene scene;
    see(&scene, victim_chain);
    assert_int_equal(scene.stage->n, 151);
    for (size_t i = 0; i < scene.stage->n; i++) {
        struct hx_text text = {0};
        size_t links = 0;
        stack_of(&scene, i, &text);
        for (const char *s = text.s; (s = strchr(s, '{')); s++)
            links++;
        hx_text_free(&text);
        assert_in_range(links, 1, 65);
    }
    end(&scene);
}

/* --- before and after the recorder --------------------------------------------------------------
 */

FUNCTION void already_inside(struct stage *stage)
{
    HEAPX_SCC("before");
    atomic_store(&stage->done, 1);
    await(&stage->go, 2);
    inner_region(stage);
    note_block(stage, probe_leaf(71), 71);
}

FUNCTION void victim_before(struct stage *stage)
{
    already_inside(stage);
    inner_region(stage);
    NO_JUMP;
}

static void test_before(void **state)
{
    NEEDS_PROBES;
    struct scene scene;
    begin_victim(&scene, victim_before, 0);
    atomic_store(&scene.stage->go, 1);
    await(&scene.stage->done, 1);
    show_error(hx_probes_open(scene.victim, &everything, &scene.source, &scene.state, NULL));
    atomic_store(&scene.stage->go, 2);
    watch(&scene);
    expect_stack(&scene, 0, "probe_leaf [inner] inner_region already_inside ");
    expect_stack(&scene, 1, "probe_leaf already_inside ");
    expect_stack(&scene, 2, "probe_leaf [inner] inner_region victim_before ");
    assert_int_equal(scene.recording->unbalanced_pops, 0);
    end(&scene);
}

static void victim_marking(struct stage *stage)
{
    struct task task = {.stage = stage};
    atomic_store(&stage->done, 1);
    while (atomic_load(&stage->go) < 2) {
        HEAPX_SCC("busy");
        submit(&task);
        HEAPX_SCC_ENTER(task.stack);
        free(probe_leaf(72));
    }
    stage->note = 1;
}

static uint16_t semaphore(pid_t victim)
{
    uint16_t n;
    read_text(victim, &heapx_scc_v1, (uint8_t *)&n, sizeof n);
    return n;
}

static void await_semaphore(pid_t victim, uint16_t n)
{
    for (int k = 0; k < 5000 && semaphore(victim) != n; k++)
        nap();
    assert_int_equal(semaphore(victim), n);
}

/* Whatever ends the recorder, nobody listens any more, and the victim goes on. */
static void test_killed(void **state)
{
    NEEDS_PROBES;
    struct scene scene;
    begin_victim(&scene, victim_marking, 0);
    atomic_store(&scene.stage->go, 1);
    await(&scene.stage->done, 1);
    for (size_t i = 0; i < 2; i++) {
        pid_t recorder = fork();
        if (recorder == 0) {
            const struct hx_source *source;
            void *opened;
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            hx_error *err = hx_probes_open(scene.victim, &everything, &source, &opened, NULL);
            for (bool idle; !err;) {
                uint64_t stop;
                err = source->round(opened, NULL, &idle, &stop);
            }
            _exit(1);
        }
        await_semaphore(scene.victim, 5);
        nap();
        kill(recorder, SIGKILL);
        waitpid(recorder, NULL, 0);
        await_semaphore(scene.victim, 0);
    }
    assert_true(is_empty("/sys/kernel/tracing/uprobe_events"));
    atomic_store(&scene.stage->go, 2);
    await(&scene.stage->done, 2);
    assert_int_equal(scene.stage->note, 1);
    end(&scene);
}

/* --- a library that comes later -------------------------------------------------------------- */

static void victim_plugin(struct stage *stage)
{
    void *(*marked)(size_t) = NULL;
    int (*probes)(void) = NULL;
    HEAPX_SCC("loads");
    for (int i = 0; i < 2; i++) {
        void *library = dlopen("./marks_plugin.so", RTLD_NOW);
        void *symbol = library ? dlsym(library, "marked_malloc") : NULL;
        memcpy(&marked, &symbol, sizeof marked);
        symbol = marked ? dlsym(library, "marked_probes") : NULL;
        memcpy(&probes, &symbol, sizeof probes);
        if (!probes)
            return;
        for (int k = 0; k < 10000 && probes() < 5; k++) /* they are set by and by */
            nap();
        for (int k = 0; k < 100; k++) /* as are the tables of its code */
            nap();
        note_block(stage, marked(81), 81);
        for (int k = 0; k < 100; k++) /* and its texts are read */
            nap();
        dlclose(library);
    }
    stage->note = 1;
}

static void test_plugin(void **state)
{
    NEEDS_PROBES;
    struct scene scene;
    see(&scene, victim_plugin);
    assert_int_equal(scene.stage->note, 1);
    for (size_t i = 0; i < 2; i++)
        expect_stack(&scene, i, "[plugin] marked_malloc [loads] victim_plugin ");
    assert_int_equal(entries(&scene, "plugin"), 2);
    end(&scene);
}

/* --- notes --------------------------------------------------------------------------------------
 */

/* A copy of this program, and where the notes lie in it. */
struct copy {
    int fd;
    uint8_t *bytes;
    size_t len, notes, notes_len;
};

static void find_notes(struct copy *copy)
{
    static const char owner[] = "stapsdt";
    uint8_t *p = copy->bytes, *end = copy->bytes + copy->len;
    for (; (p = memmem(p, (size_t)(end - p), owner, sizeof owner)); p++) {
        uint32_t header[3];
        memcpy(header, p - sizeof header, sizeof header);
        if (header[0] != sizeof owner || header[2] != 3)
            continue;
        if (!copy->notes)
            copy->notes = (size_t)(p - copy->bytes) - sizeof header;
        copy->notes_len = (size_t)(p - copy->bytes) + sizeof owner + header[1] - copy->notes;
    }
    assert_true(copy->notes && copy->notes_len < 1024);
}

static void copy_program(struct copy *copy)
{
    char path[] = "/tmp/hx-marks-XXXXXX";
    HX_FD int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    *copy = (struct copy){.fd = mkstemp(path)};
    assert_true(from >= 0 && copy->fd >= 0);
    unlink(path);
    copy->len = (size_t)lseek(from, 0, SEEK_END);
    assert_int_equal(ftruncate(copy->fd, (off_t)copy->len), 0);
    copy->bytes = mmap(NULL, copy->len, PROT_READ | PROT_WRITE, MAP_SHARED, copy->fd, 0);
    assert_true(copy->bytes != MAP_FAILED);
    assert_int_equal(pread(from, copy->bytes, copy->len, 0), copy->len);
    find_notes(copy);
}

static void remove_copy(struct copy *copy)
{
    munmap(copy->bytes, copy->len);
    close(copy->fd);
}

/* What is found in the copy where it is mapped as code. */
static void look_into(struct copy *copy, struct hx_probe_functions *ret, uint64_t *ret_odd)
{
    hx_code *code;
    uint32_t file;
    HX_FREE char *text = NULL;
    struct hx_mapping *mapping = NULL;
    size_t len, n;
    void *mapped = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, copy->fd, 0);
    show_error(hx_proc_read("/proc/self/maps", &text, &len));
    show_error(hx_proc_mappings(text, len, &mapping, &n));
    size_t i = hx_mapping_find(mapping, n, (uintptr_t)mapped);
    assert_true(i < n);
    show_error(hx_code_create(&code));
    show_error(hx_code_add(code, getpid(), &mapping[i], &file));
    show_error(hx_probe_find_marks(code, file, ret, ret_odd));
    hx_code_destroy(code);
    hx_mappings_free(mapping, n);
    munmap(mapped, 4096);
}

static void test_notes(void **state)
{
    (void)state;
    struct copy copy;
    struct hx_probe_functions found = {0};
    uint64_t odd = 0;
    copy_program(&copy);
    look_into(&copy, &found, &odd);
    assert_int_equal(found.n, 5);
    assert_int_equal(odd, 0);
    for (size_t i = 0; i < found.n; i++) {
        assert_int_equal(found.v[i].kind, HX_PROBE_PUSH + i);
        assert_int_equal(copy.bytes[found.v[i].offset], 0x90);
        assert_int_equal(found.v[i].semaphore, found.v[0].semaphore);
        assert_true(found.v[i].semaphore != 0);
    }
    found.n = 0;
    uint8_t *argument = memmem(copy.bytes + copy.notes, copy.notes_len, "8@%rdi", 6);
    argument[4] = 's';
    look_into(&copy, &found, &odd);
    assert_int_equal(found.n, 4);
    assert_int_equal(odd, 1);
    hx_vec_free(&found);
    remove_copy(&copy);
}

/* Whatever stands there, a probe goes to an instruction that does nothing, or nowhere. */
static void test_any_notes(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("any notes");
    struct copy copy;
    copy_program(&copy);
    uint8_t sound[1024];
    memcpy(sound, copy.bytes + copy.notes, copy.notes_len);
    for (size_t i = 0; i < unit_rounds(300); i++) {
        struct hx_probe_functions found = {0};
        uint64_t odd = 0;
        for (size_t k = 1 + unit_below(&random, 6); k; k--)
            copy.bytes[copy.notes + unit_below(&random, copy.notes_len)] =
                (uint8_t)(unit_random(&random) % 3 ? unit_random(&random) : 0xff);
        look_into(&copy, &found, &odd);
        for (size_t k = 0; k < found.n; k++) {
            uint8_t byte = copy.bytes[found.v[k].offset];
            assert_true(byte == 0x90 || byte == 0x0f);
            assert_true(found.v[k].semaphore + 2 <= copy.len);
        }
        hx_vec_free(&found);
        memcpy(copy.bytes + copy.notes, sound, copy.notes_len);
    }
    remove_copy(&copy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_notes),     cmocka_unit_test(test_any_notes),
        cmocka_unit_test(test_regions),   cmocka_unit_test(test_threads),
        cmocka_unit_test(test_mistakes),  cmocka_unit_test(test_nested),
        cmocka_unit_test(test_forgotten), cmocka_unit_test(test_handler),
        cmocka_unit_test(test_ticks),     cmocka_unit_test(test_coroutines),
        cmocka_unit_test(test_deferred),  cmocka_unit_test(test_again),
        cmocka_unit_test(test_chain),     cmocka_unit_test(test_before),
        cmocka_unit_test(test_killed),    cmocka_unit_test(test_plugin),
        cmocka_unit_test(test_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
