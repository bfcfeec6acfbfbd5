/* test_region_marks.c - what a program marks on its stack: putting on and taking off against a
 * plain list, and stacks with marks against what is known by construction, through calls, frames of
 * all sizes, jumps, signals and stacks of the program's own making.
 */
#include "unit.h"

#include "record/preload/unwind_private.h"

#include <alloca.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#if __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>
#else
#define VALGRIND_DISABLE_ERROR_REPORTING
#define VALGRIND_ENABLE_ERROR_REPORTING
#endif

#define FAR __attribute__((noinline, noclone, noipa))

/* --- the list ------------------------------------------------------------------------------------
 */

struct plain {
    uint64_t object, sp;
    uint64_t base;
};

static bool together(uint64_t a, uint64_t b)
{
    return a == b || a == 1 || b == 1;
}

static void pop(struct hx_marks *marks, uint64_t tag, uint64_t object, uint64_t base, uint64_t sp)
{
    const struct hx_mark which = {.sp = sp, .word = tag, .object = object, .base = base};
    hx_marks_pop(marks, &which);
}

/* As marks.h says it: from the topmost mark of the object up, but those on other stacks. */
static size_t plain_pop(struct plain *list, size_t n, uint64_t object, uint64_t on,
                        uint32_t *unbalanced)
{
    size_t found = n;
    while (found > 0 && !(list[found - 1].object == object && together(list[found - 1].base, on)))
        found--;
    if (found == 0) {
        ++*unbalanced;
        return n;
    }
    size_t to = found - 1;
    uint64_t base = list[found - 1].base;
    for (size_t i = found; i < n; i++) {
        if (together(list[i].base, base))
            ++*unbalanced;
        else
            list[to++] = list[i];
    }
    return to;
}

static void check_marks(struct hx_marks *marks, const struct plain *list, size_t n)
{
    const struct hx_mark *mark = hx_marks_at(marks);
    size_t at = 0;
    for (uint32_t i = 0; i < hx_marks_room(marks); i++) {
        if (i >= marks->n)
            assert_int_equal(mark[i].sp, HX_MARK_MAKING);
        else if (hx_mark_is_there(&mark[i])) {
            assert_true(at < n);
            assert_int_equal(mark[i].object, list[at].object);
            assert_int_equal(mark[i].sp, list[at].sp);
            at++;
        }
    }
    assert_int_equal(at, n);
    assert_true(marks->n == 0 || mark[marks->n - 1].sp != HX_MARK_GONE);
    assert_int_equal(hx_marks_hash(marks) == 0, n == 0);
}

static void test_list(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin(__func__);
    static struct hx_mark large[HX_MARKS_MAX];
    static struct plain list[HX_MARKS_MAX];
    for (int round = 0; round < (int)unit_rounds(300); round++) {
        struct hx_marks marks = {0};
        uint32_t unbalanced = 0;
        size_t n = 0;
        memset(large, 0, sizeof large);
        if (round % 2)
            hx_marks_grow(&marks, large);
        size_t room = round % 4 == 1 ? 60 : 12;
        uint64_t stacks = round % 3 ? 1 : 3;
        for (int i = 0; i < 400; i++) {
            uint64_t object = 1 + unit_below(&random, 8);
            uint64_t base = stacks == 1 ? 0 : (uint64_t[]){0, 1, 1000}[unit_below(&random, 3)];
            if (unit_below(&random, 5) < 3 && marks.n < room) {
                struct hx_mark mark = {.sp = 1000000 - (uint64_t)i,
                                       .word = HX_EV_REGION | object,
                                       .object = object,
                                       .base = base};
                uint64_t hash = hx_marks_hash(&marks);
                assert_true(hx_marks_push(&marks, &mark));
                assert_int_not_equal(hx_marks_hash(&marks), hash);
                list[n++] = (struct plain){object, mark.sp, base};
            } else {
                pop(&marks, HX_EV_REGION, object, base, 1);
                n = plain_pop(list, n, object, base, &unbalanced);
            }
            check_marks(&marks, list, n);
            assert_int_equal(marks.unbalanced, unbalanced);
        }
        pop(&marks, HX_EV_DEFERRED, 1, 0, 1); /* of another kind */
        assert_int_equal(marks.unbalanced, unbalanced + 1);
    }
}

/* The same marks have the same number, however they came to be there; others another one. */
static void test_hash(void **state)
{
    (void)state;
    struct hx_marks a = {0}, b = {0};
    struct hx_mark one = {.sp = 100, .word = HX_EV_REGION | 1, .object = 1};
    struct hx_mark two = {.sp = 90, .word = HX_EV_REGION | 2, .object = 2};
    hx_marks_push(&a, &one);
    uint64_t alone = hx_marks_hash(&a);
    hx_marks_push(&a, &two);
    hx_marks_push(&b, &one);
    hx_marks_push(&b, &one);
    pop(&b, HX_EV_REGION, 1, 0, 80);
    assert_int_equal(hx_marks_hash(&b), alone);
    hx_marks_push(&b, &two);
    assert_int_equal(hx_marks_hash(&a), hx_marks_hash(&b));
    hx_marks_drop(&a, 0);
    assert_int_not_equal(hx_marks_hash(&a), hx_marks_hash(&b));
    assert_int_equal(a.unbalanced, 1);
}

/* More than there is room for: they are balanced, and those that have room stay right. */
static void test_many(void **state)
{
    (void)state;
    struct hx_marks marks = {0};
    for (uint64_t i = 0; i < 100; i++) {
        struct hx_mark mark = {.sp = 10000 - i, .word = HX_EV_REGION | 1, .object = i + 1};
        assert_int_equal(hx_marks_push(&marks, &mark), i < HX_MARKS_INLINE);
    }
    assert_int_equal(marks.over, 100 - HX_MARKS_INLINE);
    for (uint64_t i = 100; i-- > 0;)
        pop(&marks, HX_EV_REGION, i + 1, 0, 10000 - i);
    assert_int_equal(marks.n, 0);
    assert_int_equal(marks.unbalanced, 0);
    /* a jump out of all of them */
    for (uint64_t i = 0; i < 100; i++) {
        struct hx_mark mark = {.sp = 10000 - i, .word = HX_EV_REGION | 1, .object = i + 1};
        hx_marks_push(&marks, &mark);
    }
    pop(&marks, HX_EV_REGION, 1, 0, 10000);
    assert_int_equal(marks.n, 0);
    assert_int_equal(marks.unbalanced, HX_MARKS_INLINE - 1);
}

/* --- stacks --------------------------------------------------------------------------------------
 */

struct bench {
    struct hx_region *region;
    struct hx_unwind *unwind;
    struct hx_unwind_thread *thread;
    struct hx_marks marks;
};
static struct bench bench;

static void *pages(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(memory != MAP_FAILED);
    return memory;
}

static void set_up(void)
{
    static struct hx_tables tables;
    struct hx_region *region = bench.region = pages(sizeof *bench.region);
    bench.unwind = pages(hx_unwind_bytes());
    bench.thread = pages(hx_unwind_thread_bytes());
    tables = (struct hx_tables){
        .region = region,
        .index = {.at = (uint8_t *)region->index, .bytes = sizeof region->index},
        .stacks = {.at = (uint8_t *)region->stack, .bytes = sizeof region->stack},
        .frames = {.at = (uint8_t *)region->frame, .bytes = sizeof region->frame}};
    hx_unwind_init(bench.unwind, &tables);
    memset(&bench.marks, 0, sizeof bench.marks);
    hx_marks_grow(&bench.marks, pages(HX_MARKS_MAX * sizeof(struct hx_mark)));
}

static void tear_down(void)
{
    munmap(bench.marks.large, HX_MARKS_MAX * sizeof(struct hx_mark));
    munmap(bench.region, sizeof *bench.region);
    munmap(bench.unwind, hx_unwind_bytes());
    munmap(bench.thread, hx_unwind_thread_bytes());
}

enum op { OP_TAKE, OP_PUSH, OP_POP, OP_CAPTURE, OP_ENTER, OP_LEAVE };

/* say(op, object): as the stubs of heapx/scc.h call the listener. */
uint64_t say(enum op op, uint64_t object);
__asm__(".text\n"
        ".type say, @function\n"
        "say:\n"
        ".cfi_startproc\n"
        "movq (%rsp), %rdx\n"
        "leaq 8(%rsp), %rcx\n"
        "movq %rbp, %r8\n"
        "jmp say_from\n"
        ".cfi_endproc\n"
        ".size say, . - say\n");

__attribute__((used)) uint64_t say_from(enum op op, uint64_t object, uint64_t pc, uint64_t sp,
                                        uint64_t fp);
uint64_t say_from(enum op op, uint64_t object, uint64_t pc, uint64_t sp, uint64_t fp)
{
    uint64_t key = 0;
    VALGRIND_DISABLE_ERROR_REPORTING;
    if (op == OP_PUSH || op == OP_ENTER) {
        struct hx_mark mark = {.sp = sp,
                               .word = (op == OP_PUSH ? HX_EV_REGION : HX_EV_DEFERRED) | object,
                               .object = object};
        hx_unwind_complete_mark(bench.unwind, bench.thread, pc, sp, fp, &mark);
        hx_marks_push(&bench.marks, &mark);
    }
    if (op == OP_POP || op == OP_LEAVE)
        pop(&bench.marks, op == OP_POP ? HX_EV_REGION : HX_EV_DEFERRED, object,
            hx_unwind_base(bench.unwind, bench.thread, pc, sp, fp), sp);
    else
        key = hx_unwind_marked(bench.unwind, bench.thread, pc, sp, fp, &bench.marks);
    if (op == OP_CAPTURE)
        key = hx_unwind_capture(bench.unwind, bench.thread, key);
    VALGRIND_ENABLE_ERROR_REPORTING;
    return key;
}

static const struct hx_region_stack *stack_of(uint64_t key)
{
    assert_true(key >= HX_EV_KEY_FIRST && key - HX_EV_KEY_FIRST < HX_REGION_STACKS);
    return &bench.region->stack[key - HX_EV_KEY_FIRST];
}

/* What is known: each call of one of the test's functions, and what it marked. */
struct shadow {
    bool is_mark;
    uint64_t value; /* of a mark: its object; of a call: the function's number */
};
static struct shadow shadow[4096];
static size_t n_shadow;
static uint64_t left; /* marks of frames that were left by a jump */
static uint64_t n_taken, n_marks_seen;
static struct unit_random *dice;

static FAR void wander(int depth);

/* Functions with frames of different kinds and sizes. Each is one range of addresses, and the
 * linker knows where all of them end. */
extern const char __stop_walk_code[];
#define WALK(number, frame)                                                                        \
    static FAR __attribute__((section("walk_code"))) void walk_##number(int depth)                 \
    {                                                                                              \
        frame;                                                                                     \
        space[0] = 1;                                                                              \
        shadow[n_shadow++] = (struct shadow){false, number};                                       \
        size_t at = n_shadow;                                                                      \
        wander(depth);                                                                             \
        n_shadow = at - 1;                                                                         \
        __asm__ volatile("" ::"r"(space) : "memory");                                              \
    }
WALK(0, volatile char space[16])
WALK(1, volatile char space[200])
WALK(2, volatile char *space = alloca(unit_below(dice, 100) + 1))
WALK(3, volatile char *space = alloca(unit_below(dice, 1000) + 1))
WALK(4, volatile char space[16])
WALK(5, volatile char space[5000])
#define WALKS 6
static void (*const walks[WALKS])(int) = {walk_0, walk_1, walk_2, walk_3, walk_4, walk_5};

static uint64_t walk_end[WALKS];

/* Which of them an address is in; WALKS: none. They are ordered by address to find their ends. */
static uint64_t walk_of(uint64_t pc)
{
    uint64_t best = WALKS, start = 0;
    for (uint64_t i = 0; i < WALKS; i++)
        if ((uint64_t)walks[i] <= pc && (uint64_t)walks[i] >= start && pc < walk_end[i]) {
            best = i;
            start = (uint64_t)walks[i];
        }
    return best;
}

static void find_ends(void)
{
    for (int i = 0; i < WALKS; i++) {
        walk_end[i] = (uint64_t)__stop_walk_code;
        for (int j = 0; j < WALKS; j++)
            if ((uint64_t)walks[j] > (uint64_t)walks[i] && (uint64_t)walks[j] < walk_end[i])
                walk_end[i] = (uint64_t)walks[j];
    }
}

static void compare(uint64_t key)
{
    const struct hx_region_stack *stack = stack_of(key);
    const uint64_t *frame = &bench.region->frame[stack->first];
    size_t at = n_shadow;
    for (uint32_t i = 0; i < stack->n; i++) {
        bool is_mark = HX_EV_TAG(frame[i]) != 0;
        uint64_t value = is_mark ? HX_EV_VALUE(frame[i]) : walk_of(frame[i] - 1);
        if (!is_mark && value == WALKS)
            continue;
        n_marks_seen += is_mark;
        if (at == 0 || shadow[at - 1].is_mark != is_mark || shadow[at - 1].value != value)
            fail_msg("word %u is %#lx, of %zu known ones that are left", i, frame[i], at);
        at--;
    }
    assert_int_equal(at, 0);
    n_taken++;
}

static void mark_here(uint64_t object)
{
    shadow[n_shadow++] = (struct shadow){true, object};
}

/* Marks of this frame, from `own` on: one is popped, with all that are on it. */
static uint64_t choose_own(size_t own)
{
    return shadow[own + unit_below(dice, n_shadow - own)].value;
}

static jmp_buf *jump_to;
static size_t jump_shadow;

static FAR void leave_by_jump(void)
{
    for (size_t i = jump_shadow; i < n_shadow; i++)
        left += shadow[i].is_mark;
    n_shadow = jump_shadow;
    longjmp(*jump_to, 1);
}

/* What comes after a jump, from a place of its own. */
static FAR void land(void)
{
    volatile char space[700];
    space[unit_below(dice, 700)] = 1;
    compare(say(OP_TAKE, 0));
    __asm__ volatile("" ::"r"(space) : "memory");
}

static FAR void try_jump(int depth)
{
    jmp_buf here, *before = jump_to;
    size_t before_shadow = jump_shadow;
    if (setjmp(here) == 0) {
        jump_to = &here;
        jump_shadow = n_shadow;
        walks[unit_below(dice, WALKS)](depth - 1);
    } else {
        if (unit_below(dice, 2)) {
            VALGRIND_DISABLE_ERROR_REPORTING;
            hx_marks_leave_frames(&bench.marks, (uint64_t)__builtin_frame_address(0) - 512);
            VALGRIND_ENABLE_ERROR_REPORTING;
        }
        land();
        if (unit_below(dice, 2))
            compare(say(OP_TAKE, 0));
    }
    jump_to = before;
    jump_shadow = before_shadow;
}

static uint64_t next_object = 1;

static FAR void wander(int depth)
{
    size_t own = n_shadow;
    for (uint64_t turns = 1 + unit_below(dice, 4); turns > 0; turns--) {
        uint64_t object = unit_below(dice, 3) ? next_object++ % 50000 + 1 : unit_below(dice, 5) + 1;
        switch (unit_below(dice, 10)) {
        case 0:
        case 1:
            mark_here(object);
            compare(say(OP_PUSH, object));
            break;
        case 2:
            mark_here(object);
            compare(say(OP_ENTER, object));
            say(OP_LEAVE, object);
            n_shadow--;
            break;
        case 3:
            if (n_shadow > own) {
                object = choose_own(own);
                uint32_t skipped = 0;
                while (shadow[n_shadow - 1].value != object) {
                    n_shadow--;
                    skipped++;
                }
                n_shadow--;
                uint32_t unbalanced = bench.marks.unbalanced;
                say(OP_POP, object);
                assert_int_equal(bench.marks.unbalanced, unbalanced + skipped);
                bench.marks.unbalanced -= skipped;
            }
            break;
        case 4:
            if (depth > 0)
                try_jump(depth);
            break;
        case 5:
            if (jump_to && n_shadow > jump_shadow && unit_below(dice, 2))
                leave_by_jump();
            break;
        default:
            compare(say(OP_TAKE, 0));
            if (depth > 0)
                walks[unit_below(dice, WALKS)](depth - 1);
        }
    }
    while (n_shadow > own) { /* as scopes do */
        say(OP_POP, shadow[--n_shadow].value);
    }
    compare(say(OP_TAKE, 0));
}

static void test_random(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin(__func__);
    dice = &random;
    set_up();
    find_ends();
    for (int round = 0; round < (int)unit_rounds(3000); round++) {
        n_shadow = left = 0;
        bench.marks.unbalanced = 0;
        jump_to = NULL;
        walks[unit_below(dice, WALKS)](3 + (int)unit_below(dice, 6));
        land();
        assert_int_equal(bench.marks.n, 0);
        assert_int_equal(bench.marks.unbalanced, left);
    }
    printf("%lu stacks with %lu marks\n", n_taken, n_marks_seen);
    tear_down();
}

/* --- other stacks --------------------------------------------------------------------------------
 */

static uint32_t words_of(uint64_t key, uint64_t *ret, uint32_t max)
{
    const struct hx_region_stack *stack = stack_of(key);
    uint32_t n = 0;
    for (uint32_t i = 0; i < stack->n; i++) {
        uint64_t word = bench.region->frame[stack->first + i];
        if (HX_EV_TAG(word) && n < max)
            ret[n++] = word;
    }
    return n;
}

#define EXPECT_WORDS(key, ...)                                                                     \
    do {                                                                                           \
        const uint64_t expected_[] = {__VA_ARGS__};                                                \
        uint64_t got_[16];                                                                         \
        uint32_t n_ = words_of((key), got_, 16);                                                   \
        assert_int_equal(n_, sizeof expected_ / sizeof *expected_);                                \
        for (uint32_t i_ = 0; i_ < n_; i_++)                                                       \
            assert_int_equal(got_[i_], expected_[i_]);                                             \
    } while (0)
#define REGION(n) (HX_EV_REGION | (n))

static bool own_stacks_only(void)
{
    const char *valgrind = getenv("HX_VALGRIND");
    return valgrind && strcmp(valgrind, "yes") == 0;
}

static volatile int sink;
static uint64_t in_handler[2];

static FAR void handle(void)
{
    say(OP_PUSH, 2);
    in_handler[1] = say(OP_TAKE, 0);
    say(OP_POP, 2);
    sink = 1;
}

static void on_signal(int number)
{
    (void)number;
    in_handler[0] = say(OP_TAKE, 0);
    handle();
    sink = 2;
}

static FAR void interrupted(void)
{
    say(OP_PUSH, 1);
    raise(SIGUSR1);
    EXPECT_WORDS(say(OP_TAKE, 0), REGION(1));
    say(OP_POP, 1);
    sink = 3;
}

static void test_signals(void **state)
{
    (void)state;
    set_up();
    stack_t alternative = {.ss_sp = pages(65536), .ss_size = 65536}, old;
    for (int on_stack = 0; on_stack < (own_stacks_only() ? 1 : 2); on_stack++) {
        struct sigaction act = {.sa_handler = on_signal, .sa_flags = on_stack ? SA_ONSTACK : 0};
        struct sigaction before;
        assert_int_equal(sigaltstack(&alternative, &old), 0);
        assert_int_equal(sigaction(SIGUSR1, &act, &before), 0);
        interrupted();
        sigaction(SIGUSR1, &before, NULL);
        sigaltstack(&old, NULL);
        EXPECT_WORDS(in_handler[0], REGION(1));
        EXPECT_WORDS(in_handler[1], REGION(2), REGION(1));
        assert_int_equal(bench.marks.n, 0);
        assert_int_equal(bench.marks.unbalanced, 0);
    }
    munmap(alternative.ss_sp, 65536);
    tear_down();
}

/* Two routines that take turns, and who drives them: none sees what the others marked. */
static ucontext_t driver, routine[2];

static FAR void yield_to_driver(int which)
{
    swapcontext(&routine[which], &driver);
    sink = which;
}

static FAR void routine_inner(int which)
{
    uint64_t own = which ? 21 : 11;
    say(OP_PUSH, own);
    yield_to_driver(which);
    EXPECT_WORDS(say(OP_TAKE, 0), REGION(own), REGION(10));
    say(OP_POP, own);
    sink = which;
}

static void routine_body(int which)
{
    uint64_t own = 10; /* the same for both */
    for (int i = 0; i < 3; i++) {
        say(OP_PUSH, own);
        EXPECT_WORDS(say(OP_TAKE, 0), REGION(own));
        routine_inner(which);
        EXPECT_WORDS(say(OP_TAKE, 0), REGION(own));
        yield_to_driver(which);
        say(OP_POP, own);
    }
}

static void test_routines(void **state)
{
    (void)state;
    if (own_stacks_only())
        skip();
    set_up();
    enum { BYTES = 65536 };
    char *room = pages(2 * BYTES);
    for (int i = 0; i < 2; i++) {
        getcontext(&routine[i]);
        routine[i].uc_stack.ss_sp = room + i * BYTES;
        routine[i].uc_stack.ss_size = BYTES;
        routine[i].uc_link = &driver;
        makecontext(&routine[i], (void (*)(void))(void *)routine_body, 1, i);
    }
    say(OP_PUSH, 30);
    for (int turn = 0; turn < 14; turn++) {
        swapcontext(&driver, &routine[turn % 2]);
        EXPECT_WORDS(say(OP_TAKE, 0), REGION(30));
    }
    say(OP_POP, 30);
    assert_int_equal(bench.marks.n, 0);
    assert_int_equal(bench.marks.unbalanced, 0);
    munmap(room, 2 * BYTES);
    tear_down();
}

/* --- capturing -----------------------------------------------------------------------------------
 */

static FAR uint64_t submit(void)
{
    uint64_t key = say(OP_CAPTURE, 0);
    sink = 1;
    return key;
}
static FAR uint64_t other_task(void)
{
    uint64_t key = submit();
    sink = 2;
    return key;
}
static FAR uint64_t run(uint64_t (*task)(void), uint64_t key)
{
    say(OP_ENTER, key);
    uint64_t next = task();
    say(OP_LEAVE, key);
    return next;
}

/* Work that creates work for ever has a few stacks only. */
static void test_capture(void **state)
{
    (void)state;
    set_up();
    uint64_t first = submit(), keys[50];
    assert_int_equal(words_of(say(OP_TAKE, 0), keys, 1), 0);
    keys[0] = run(submit, first);
    EXPECT_WORDS(keys[0], HX_EV_DEFERRED | first);
    for (int i = 1; i < 10; i++) {
        keys[i] = run(submit, keys[i - 1]);
        assert_int_equal(keys[i], i == 1 ? keys[1] : keys[1]);
    }
    /* two kinds that create each other */
    uint64_t a = run(submit, first), b = 0;
    uint64_t stacks = 0;
    for (int i = 0; i < 20; i++) {
        b = run(other_task, a);
        a = run(submit, b);
        if (i == 3)
            stacks = atomic_load(&bench.region->stacks_used);
    }
    assert_int_equal(atomic_load(&bench.region->stacks_used), stacks);
    tear_down();
}

static FAR uint64_t deeper(int n)
{
    uint64_t key = n > 0 ? deeper(n - 1) : say(OP_CAPTURE, 0);
    sink = n;
    return key;
}

/* Each captures another stack: the chain is cut at last. */
static void test_chain(void **state)
{
    (void)state;
    set_up();
    uint64_t key = submit();
    for (int i = 0; i < 100; i++) {
        say(OP_ENTER, key);
        key = deeper(i);
        say(OP_LEAVE, say(OP_TAKE, 0) ? HX_EV_VALUE(bench.marks.large[0].word) : 0);
    }
    int length = 0;
    for (uint64_t words[4], at = key; at >= HX_EV_KEY_FIRST && words_of(at, words, 4) > 0;
         at = HX_EV_VALUE(words[0]))
        length++;
    assert_in_range(length, 2, 66);
    tear_down();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_list),    cmocka_unit_test(test_hash),
        cmocka_unit_test(test_many),    cmocka_unit_test(test_random),
        cmocka_unit_test(test_signals), cmocka_unit_test(test_routines),
        cmocka_unit_test(test_capture), cmocka_unit_test(test_chain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
