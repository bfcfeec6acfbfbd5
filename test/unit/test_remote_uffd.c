/* test_remote_uffd.c - a thread that is led through userfaultfd() comes back as it was, whenever
 * its tracer dies. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/signalfd.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

/* What all processes of a round share. */
static struct shared {
    atomic_int steps,
        dies_at; /* calls that touch the thread; the one before which its tracer dies */
    atomic_bool ready, enough, made;
    char why[128];
} * shared;

static void step(void)
{
    if (atomic_fetch_add(&shared->steps, 1) + 1 == atomic_load(&shared->dies_at))
        kill(getpid(), SIGKILL);
}
#define ptrace(request, tid, addr, data) (step(), ptrace(request, tid, addr, data))
#define process_vm_writev(...)           (step(), process_vm_writev(__VA_ARGS__))
#include "attach/track/remote_uffd.c"

/* --- who is led ------------------------------------------------------------------------- */

static int gate[2]; /* a byte comes when the tracer has gone */

static void on_signal(int number)
{
    (void)number;
}

static bool in_read(void)
{
    char byte;
    return read(gate[0], &byte, 1) == 1 && byte == 'x';
}

static bool in_poll(void)
{
    sigset_t usual;
    sigemptyset(&usual);
    struct pollfd fd = {.fd = gate[0], .events = POLLIN};
    return ppoll(&fd, 1, NULL, &usual) == 1 && in_read();
}

static bool in_sleep(void)
{
    uint64_t begun = hx_now_ns();
    struct timespec time = {.tv_nsec = 120000000};
    return nanosleep(&time, NULL) == 0 && hx_now_ns() - begun >= 120000000 && in_read();
}

/* The upper half of a vector register is no part of the older state. */
static bool keeps_upper_half(void)
{
    static const uint64_t in[4] = {1, 2, 3, 4};
    uint64_t out[4] = {0}, n = 100000;
    if (!__builtin_cpu_supports("avx"))
        return true;
    __asm__ volatile("vmovups %[in], %%ymm14\n1: dec %[n]\njnz 1b\nvmovups %%ymm14, %[out]\n"
                     "vzeroupper\n"
                     : [out] "=m"(out), [n] "+r"(n)
                     : [in] "m"(in)
                     : "xmm14");
    return memcmp(in, out, sizeof in) == 0;
}

/* Registers of all kinds hold what nothing but the loop itself changes. */
static bool in_code(void)
{
    bool kept = true;
    uint64_t a = 1, b = 2, c = 3, d = 4, e = 0;
    double x = 1.5, y = 2.5, z = 3.5;
    uint64_t n = 0;
    do {
        __asm__ volatile("mov $100000, %[e]\n"
                         "1: add $1, %[a]\nadd $2, %[b]\nadd $3, %[c]\nadd $4, %[d]\n"
                         "addsd %[one], %[x]\naddsd %[one], %[y]\naddsd %[one], %[z]\n"
                         "dec %[e]\njnz 1b\n"
                         : [a] "+r"(a), [b] "+r"(b), [c] "+r"(c), [d] "+r"(d), [e] "+r"(e),
                           [x] "+x"(x), [y] "+x"(y), [z] "+x"(z)
                         : [one] "x"(1.0));
        n += 100000;
        kept &= keeps_upper_half();
    } while (!atomic_load(&shared->enough));
    return kept && a == 1 + n && b == 2 + 2 * n && c == 3 + 3 * n && d == 4 + 4 * n &&
           x == 1.5 + (double)n && y == 2.5 + (double)n && z == 3.5 + (double)n && in_read();
}

struct kept {
    sigset_t mask;
    stack_t stack;
    uint64_t files;
};

static struct kept look(void)
{
    struct kept kept = {0};
    sigprocmask(SIG_BLOCK, NULL, &kept.mask);
    sigaltstack(NULL, &kept.stack);
    for (int fd = 0; fd < 64; fd++)
        kept.files |= (uint64_t)(fcntl(fd, F_GETFD) >= 0) << fd;
    return kept;
}

static _Noreturn void be_led(bool (*work)(void))
{
    static char other_stack[1 << 16];
    sigset_t blocked;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR2);
    sigprocmask(SIG_SETMASK, &blocked, NULL);
    signal(SIGUSR1, on_signal);
    sigaltstack(&(stack_t){.ss_sp = other_stack, .ss_size = sizeof other_stack}, NULL);
    struct kept before = look();
    atomic_store(&shared->ready, true);
    bool ok = work();
    struct kept after = look();
    ok &= memcmp(&before.mask, &after.mask, sizeof before.mask) == 0;
    ok &= before.stack.ss_sp == after.stack.ss_sp && before.stack.ss_size == after.stack.ss_size &&
          before.stack.ss_flags == after.stack.ss_flags;
    _exit(ok ? before.files == after.files ? 0 : 3 : 2);
}

/* --- who leads -------------------------------------------------------------------------- */

static _Noreturn void lead_it(pid_t pid)
{
    struct hx_tracer tracer = {.pid = pid};
    struct hx_mapping *mapping = NULL;
    size_t n = 0;
    struct hx_uffd_way way;
    int uffd = -1, dies_at = atomic_exchange(&shared->dies_at, 0);
    sigset_t set;
    sigemptyset(&set);
    tracer.cancel_fd = signalfd(-1, &set, SFD_CLOEXEC);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    if (hx_proc_read_mappings(pid, "smaps", &mapping, &n) ||
        !hx_uffd_prepare(pid, mapping, n, &way, shared->why) || hx_tracer_seize(&tracer) ||
        hx_tracer_stop(&tracer))
        _exit(1);
    atomic_store(&shared->steps, 0);
    atomic_store(&shared->dies_at, dies_at);
    bool ok = hx_uffd_make(&way, &tracer, &uffd, shared->why);
    atomic_store(&shared->dies_at, 0);
    hx_tracer_release(&tracer);
    if (!ok)
        _exit(1);
    struct uffdio_api api = {.api = UFFD_API};
    atomic_store(&shared->made, fcntl(uffd, F_GETFD) >= 0 && uffd > 2 && api.api == UFFD_API);
    _exit(0);
}

/* One round; how many steps there were. The tracer dies before step `dies_at`; 0: it does not. */
static int one_round(bool (*work)(void), int dies_at)
{
    int status;
    memset(shared, 0, sizeof *shared);
    atomic_store(&shared->dies_at, dies_at);
    assert_int_equal(pipe(gate), 0);
    pid_t led = fork();
    if (led == 0)
        be_led(work);
    while (!atomic_load(&shared->ready))
        usleep(200);
    usleep(2000); /* it sleeps by now */
    pid_t leader = fork();
    if (leader == 0)
        lead_it(led);
    assert_int_equal(waitpid(leader, &status, 0), leader);
    if (!dies_at && WIFEXITED(status) && WEXITSTATUS(status) == 1) {
        kill(led, SIGKILL);
        waitpid(led, NULL, 0);
        print_message("%s\n", shared->why);
        return 0;
    }
    assert_true(dies_at ? WIFSIGNALED(status) : atomic_load(&shared->made));
    atomic_store(&shared->enough, true);
    assert_int_equal(write(gate[1], "x", 1), 1);
    assert_int_equal(waitpid(led, &status, 0), led);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) != 0)
        fail_msg("tracer dead before step %d: the thread ends with %d", dies_at,
                 WEXITSTATUS(status));
    close(gate[0]);
    close(gate[1]);
    return atomic_load(&shared->steps);
}

static void test_way_back(bool (*work)(void))
{
    int steps = one_round(work, 0);
    if (steps == 0)
        skip();
    assert_in_range(steps, 10, 60);
    for (int i = 1; i <= steps; i++)
        one_round(work, i);
}

static void test_read(void **state)
{
    (void)state;
    test_way_back(in_read);
}

static void test_poll(void **state)
{
    (void)state;
    test_way_back(in_poll);
}

static void test_sleep(void **state)
{
    (void)state;
    test_way_back(in_sleep);
}

static void test_code(void **state)
{
    (void)state;
    test_way_back(in_code);
}

int main(void)
{
    if (getenv("HX_VALGRIND")) /* a child's thread is Valgrind's, on its stacks */
        return 77;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read),
        cmocka_unit_test(test_poll),
        cmocka_unit_test(test_sleep),
        cmocka_unit_test(test_code),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
