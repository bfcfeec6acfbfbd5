/* test_cfi_step.c - real stacks of this process, unwound with the tables that it has loaded,
 * against the unwinder of the compiler's library: through functions without frame pointers, other
 * people's code, signal handlers, frames of variable size and realigned ones, and the starts of
 * threads.
 */
#include "unit.h"

#include "sym/cfi.h"

#include <alloca.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unwind.h>

#define BARE   __attribute__((noinline, noclone, optimize("O2", "omit-frame-pointer")))
#define FRAMES 512

/* --- tables of what is loaded --- */

struct find_module {
    uint64_t pc;
    struct hx_cfi cfi;
    bool found;
};

/* Takes the tables of the module around pc; .eh_frame ends at the latest where its segment does. */
static int take_module(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    struct find_module *find = context;
    const ElfW(Phdr) *hdr = NULL;
    bool inside = false;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
        uint64_t start = info->dlpi_addr + ph->p_vaddr;
        inside |= ph->p_type == PT_LOAD && find->pc >= start && find->pc < start + ph->p_memsz;
        if (ph->p_type == PT_GNU_EH_FRAME)
            hdr = ph;
    }
    if (!inside || !hdr)
        return 0;
    uint64_t at = info->dlpi_addr + hdr->p_vaddr;
    const uint8_t *bytes = (const uint8_t *)at;
    assert_int_equal(bytes[1], 0x1b); /* relative to itself, 4 bytes */
    int32_t off;
    memcpy(&off, bytes + 4, sizeof off);
    uint64_t frame = at + 4 + (uint64_t)(int64_t)off;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
        uint64_t start = info->dlpi_addr + ph->p_vaddr;
        if (ph->p_type == PT_LOAD && frame >= start && frame < start + ph->p_filesz) {
            find->cfi.hdr = (struct hx_cfi_bytes){bytes, hdr->p_memsz, at};
            find->cfi.frame =
                (struct hx_cfi_bytes){(const uint8_t *)frame, start + ph->p_filesz - frame, frame};
            find->found = true;
        }
    }
    return 1;
}

static bool find_here(uint64_t pc, struct hx_cfi_rule *ret)
{
    struct find_module find = {.pc = pc};
    uint64_t start, end;
    dl_iterate_phdr(take_module, &find);
    return find.found && hx_cfi_find(&find.cfi, pc, ret, &start, &end);
}

/* --- two unwinders --- */

struct stack {
    size_t n;
    uint64_t pc[FRAMES];
    bool ended;
};

__attribute__((no_sanitize("address"))) static bool read_here(void *context, uint64_t addr,
                                                              uint64_t *ret)
{
    (void)context;
    *ret = *(const uint64_t *)addr;
    return true;
}

/* From a frame whose registers are given up to the end. */
static void unwind_ours(struct hx_cfi_frame frame, struct stack *stack)
{
    enum hx_step step = HX_STEP_OK;
    stack->n = 0;
    while (step == HX_STEP_OK && stack->n < FRAMES) {
        struct hx_cfi_rule rule;
        stack->pc[stack->n++] = frame.pc;
        if (!find_here(frame.exact ? frame.pc : frame.pc - 1, &rule))
            break;
        step = hx_cfi_step(&rule, &frame, read_here, NULL);
    }
    stack->ended = step == HX_STEP_END;
}

static _Unwind_Reason_Code add_frame(struct _Unwind_Context *context, void *arg)
{
    struct stack *stack = arg;
    uint64_t pc = _Unwind_GetIP(context); /* 0: what would have called the outermost frame */
    if (stack->n < FRAMES && pc)
        stack->pc[stack->n++] = pc;
    return _URC_NO_REASON;
}

/* Set by compare_stacks(), which runs in signal handlers and other people's callbacks too. */
static struct {
    struct stack ours, theirs;
    unsigned compared;
    size_t deepest;
    char wrong[160];
} result;

/* The innermost frame is this function's own: its pc differs, as the two are taken one after the
 * other. */
BARE static void compare_stacks(void)
{
    struct hx_cfi_frame frame = {.fp_known = true, .exact = true};
    __asm__ volatile("lea 0(%%rip), %0\n\tmov %%rsp, %1\n\tmov %%rbp, %2"
                     : "=&r"(frame.pc), "=&r"(frame.sp), "=&r"(frame.fp));
    struct stack *ours = &result.ours, *theirs = &result.theirs;
    unwind_ours(frame, ours);
    theirs->n = 0;
    _Unwind_Backtrace(add_frame, theirs);
    result.compared++;
    if (ours->n > result.deepest)
        result.deepest = ours->n;
    if (ours->n != theirs->n || !ours->ended)
        snprintf(result.wrong, sizeof result.wrong, "%zu frames, should be %zu; ended: %d", ours->n,
                 theirs->n, ours->ended);
    for (size_t i = 1; i < ours->n && i < theirs->n; i++)
        if (ours->pc[i] != theirs->pc[i] && !result.wrong[0])
            snprintf(result.wrong, sizeof result.wrong, "frame %zu at 0x%lx, should be 0x%lx", i,
                     ours->pc[i], theirs->pc[i]);
    __asm__ volatile("" ::: "memory");
}

static void expect(unsigned compared, size_t depth)
{
    char wrong[sizeof result.wrong];
    memcpy(wrong, result.wrong, sizeof wrong);
    bool enough = result.compared >= compared && result.deepest >= depth;
    memset(&result, 0, sizeof result);
    if (wrong[0])
        fail_msg("%s", wrong);
    assert_true(enough);
}

/* --- kinds of frames --- */

static volatile unsigned sink;

BARE static unsigned deep(unsigned n)
{
    unsigned r = n;
    if (n > 0)
        r += deep(n - 1);
    else
        compare_stacks();
    sink += r;
    return r + sink;
}

static void test_nested(void **state)
{
    (void)state;
    deep(0);
    deep(200);
    expect(2, 200);
}

BARE static int compare_ints(const void *a, const void *b)
{
    compare_stacks();
    return *(const int *)a - *(const int *)b;
}

static void test_qsort(void **state)
{
    (void)state;
    int numbers[] = {5, 2, 4, 1, 3};
    qsort(numbers, 5, sizeof *numbers, compare_ints);
    expect(4, 5);
    assert_int_equal(numbers[0], 1);
}

/* A frame of variable size: its CFA is by rbp. */
BARE static int variable(size_t n)
{
    volatile char *room = alloca(n);
    room[0] = 1;
    deep(3);
    return room[0];
}

/* A realigned frame: its CFA is a word that it saved. */
BARE static int realigned(size_t n, int a, int b, int c, int d, int e, int f, int g)
{
    _Alignas(64) volatile char aligned[64];
    volatile char *room = alloca(n);
    __asm__ volatile("" ::"r"(aligned), "r"(room) : "memory");
    deep(2);
    return variable(n) + a + b + c + d + e + f + g + (((uintptr_t)aligned & 63) != 0);
}

static void test_variable(void **state)
{
    (void)state;
    for (size_t n = 1; n < 5000; n += 999) {
        variable(n);
        assert_int_equal(realigned(n, 1, 2, 3, 4, 5, 6, 7), 29);
    }
    expect(15, 6);
}

static void on_signal(int number)
{
    (void)number;
    deep(2);
}

static void test_signal(void **state)
{
    (void)state;
    struct sigaction action = {.sa_handler = on_signal}, before;
    sigaction(SIGUSR1, &action, &before);
    raise(SIGUSR1);
    expect(1, 7);
    sigaction(SIGUSR1, &before, NULL);
}

/* On a stack of its own, which may lie above or below the thread's. */
static void test_signal_stack(void **state)
{
    (void)state;
    const size_t bytes = 1 << 18;
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK}, before;
    sigaction(SIGUSR1, &action, &before);
    void *heap = malloc(bytes);
    char local[1 << 17];
    stack_t own = {.ss_sp = heap, .ss_size = bytes}, none;
    assert_int_equal(sigaltstack(&own, &none), 0);
    raise(SIGUSR1);
    own.ss_sp = local;
    own.ss_size = sizeof local;
    assert_int_equal(sigaltstack(&own, NULL), 0);
    raise(SIGUSR1);
    assert_int_equal(sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, NULL), 0);
    free(heap);
    expect(2, 7);
    sigaction(SIGUSR1, &before, NULL);
}

/* A fault at any instruction: the interrupted frame is exact, and may not have pushed yet. */
static void on_fault(int number, siginfo_t *info, void *context)
{
    (void)number;
    deep(1);
    mprotect(info->si_addr, 1, PROT_READ | PROT_WRITE);
    (void)context;
}

BARE static int touch(volatile char *at)
{
    return *at;
}

static void test_fault(void **state)
{
    (void)state;
    if (getenv("HX_VALGRIND"))
        skip(); /* there the program counter of a fault is not exact */
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO}, before;
    sigaction(SIGSEGV, &action, &before);
    char *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(page != MAP_FAILED);
    assert_int_equal(touch(page), 0);
    munmap(page, 4096);
    sigaction(SIGSEGV, &before, NULL);
    expect(1, 6);
}

static void *thread_main(void *arg)
{
    deep(4);
    return arg;
}

static void test_thread(void **state)
{
    (void)state;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, thread_main, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    expect(1, 6);
}

/* --- rules and memory that lead nowhere --- */

struct words {
    uint64_t addr;
    uint64_t word[8];
};

static bool read_words(void *context, uint64_t addr, uint64_t *ret)
{
    const struct words *words = context;
    uint64_t i = (addr - words->addr) / 8;
    if (addr % 8 || addr < words->addr || i >= 8)
        return false;
    *ret = words->word[i];
    return true;
}

static void test_steps(void **state)
{
    (void)state;
    struct words words = {0x1000, {0x401000, 0x2222, 0x3333, 0x4444, 0x5555, 0x1038, 0x7777, 0}};
    const struct hx_cfi_frame at = {.pc = 0x400000, .sp = 0x1000, .fp = 0x1010, .fp_known = true};
    const struct {
        struct hx_cfi_rule rule;
        enum hx_step step;
        uint64_t pc, sp, fp;
        bool fp_known, exact;
    } cases[] = {
        {{HX_CFA_SP, 0, 1, 0, 8, 0, -8}, HX_STEP_OK, 0x401000, 0x1008, 0x1010, true, false},
        {{HX_CFA_FP, 1, 1, 0, 16, -16, -8}, HX_STEP_OK, 0x4444, 0x1020, 0x3333, true, false},
        {{HX_CFA_SP, 4, 1, 0, 16, 0, -8}, HX_STEP_OK, 0x2222, 0x1010, 0, false, false},
        {{HX_CFA_SP, 1, 1, 0, 16, 800, -8}, HX_STEP_OK, 0x2222, 0x1010, 0, false, false},
        {{HX_CFA_AT_SP, 2, 2, 1, 40, 16, 24}, HX_STEP_OK, 0x4444, 0x1038, 0x3333, true, true},
        {{HX_CFA_AT_FP, 3, 1, 0, 24, 0, -8}, HX_STEP_OK, 0x7777, 0x1038, 0x3333, true, false},
        {{HX_CFA_PLT, 0, 1, 0, 0, 0, -8}, HX_STEP_OK, 0x2222, 0x1010, 0x1010, true, false},
        {{HX_CFA_PLT, 0, 1, 0, 1, 0, -8}, HX_STEP_OK, 0x401000, 0x1008, 0x1010, true, false},
        {{HX_CFA_END, 0, 0, 0, 0, 0, 0}, HX_STEP_END, 0, 0, 0, false, false},
        {{HX_CFA_UNKNOWN, 0, 0, 0, 0, 0, 0}, HX_STEP_CUT, 0, 0, 0, false, false},
        {{HX_CFA_SP, 0, 1, 0, 0, 0, -8}, HX_STEP_CUT, 0, 0, 0, false, false},
        {{HX_CFA_SP, 0, 1, 0, -8, 0, -8}, HX_STEP_CUT, 0, 0, 0, false, false},
        {{HX_CFA_SP, 0, 1, 0, 0x800, 0, -8}, HX_STEP_CUT, 0, 0, 0, false, false},
        {{HX_CFA_AT_SP, 0, 1, 0, 0x800, 0, -8}, HX_STEP_CUT, 0, 0, 0, false, false},
        {{HX_CFA_SP, 0, 1, 0, 64, 0, -8}, HX_STEP_END, 0, 0, 0, false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hx_cfi_frame frame = at;
        assert_int_equal(hx_cfi_step(&cases[i].rule, &frame, read_words, &words), cases[i].step);
        if (cases[i].step != HX_STEP_OK)
            continue;
        assert_int_equal(frame.pc, cases[i].pc);
        assert_int_equal(frame.sp, cases[i].sp);
        assert_int_equal(frame.fp_known, cases[i].fp_known);
        assert_int_equal(frame.fp, cases[i].fp);
        assert_int_equal(frame.exact, cases[i].exact);
    }
    struct hx_cfi_frame lost = {.pc = 0x400000, .sp = 0x1000};
    assert_int_equal(hx_cfi_step(&cases[1].rule, &lost, read_words, &words), HX_STEP_CUT);
    assert_int_equal(hx_cfi_step(&cases[5].rule, &lost, read_words, &words), HX_STEP_CUT);
    assert_int_equal(hx_cfi_step(&cases[0].rule, &lost, read_words, &words), HX_STEP_OK);
    assert_false(lost.fp_known);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nested),       cmocka_unit_test(test_qsort),
        cmocka_unit_test(test_variable),     cmocka_unit_test(test_signal),
        cmocka_unit_test(test_signal_stack), cmocka_unit_test(test_fault),
        cmocka_unit_test(test_thread),       cmocka_unit_test(test_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
