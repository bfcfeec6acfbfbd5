/* test_space.c - where code lies in a process, and unwinding one that stands still.
 *
 * Addresses of this process are placed and compared with what the dynamic linker says; a child
 * takes its own backtrace() deep in calls and stops, and the space unwinds it from outside.
 */
#include "unit.h"

#include "record/read/space.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))
#define DEEP     12
#define FRAMES   64

struct setup {
    hx_code *code;
    hx_space *space;
};

static void begin(struct setup *setup, pid_t pid)
{
    assert_null(hx_code_create(&setup->code));
    assert_null(hx_space_create(pid, setup->code, &setup->space));
}

static void end(struct setup *setup)
{
    hx_space_destroy(setup->space);
    hx_code_destroy(setup->code);
}

/* The place of an address is the one that the dynamic linker knows. */
static void expect_place(struct setup *setup, void *address, struct hx_location *ret)
{
    Dl_info info;
    struct link_map *map;
    char path[4096];
    assert_true(dladdr1(address, &info, (void **)&map, RTLD_DL_LINKMAP));
    hx_space_locate(setup->space, (uint64_t)(uintptr_t)address, ret);
    assert_true(ret->file < hx_code_count(setup->code));
    assert_int_equal(ret->vaddr, (uint64_t)(uintptr_t)address - map->l_addr);
    assert_non_null(realpath(*map->l_name ? map->l_name : "/proc/self/exe", path));
    assert_string_equal(hx_code_path(setup->code, ret->file), path);
    const struct hx_space_part *part = hx_space_find(setup->space, (uint64_t)(uintptr_t)address);
    assert_non_null(part);
    assert_in_range((uintptr_t)address, part->start, part->end - 1);
    assert_int_equal(part->file, ret->file);
    assert_int_equal(part->bias, map->l_addr);
}

static void test_place(void **unused)
{
    (void)unused;
    struct setup setup;
    struct hx_location here, libc, allocator;
    void *handle = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD); /* not what a sanitizer has */
    assert_non_null(handle);
    begin(&setup, getpid());
    expect_place(&setup, (void *)(uintptr_t)&test_place, &here);
    expect_place(&setup, dlsym(handle, "qsort"), &libc);
    assert_int_not_equal(here.file, libc.file);
    assert_false(here.allocator);
    assert_false(libc.allocator);
    expect_place(&setup, (char *)dlsym(handle, "malloc") + 1, &allocator);
    assert_int_equal(allocator.file, libc.file);
    assert_true(allocator.allocator);
    dlclose(handle);
    end(&setup);
}

static void test_parts(void **unused)
{
    (void)unused;
    struct setup setup;
    const struct hx_space_part *part;
    begin(&setup, getpid());
    size_t n = hx_space_parts(setup.space, &part);
    assert_true(n > 2);
    for (size_t i = 0; i < n; i++) {
        assert_true(part[i].start < part[i].end);
        assert_true(!i || part[i - 1].end <= part[i].start);
        assert_true(part[i].file == HX_NO_FILE || part[i].file < hx_code_count(setup.code));
    }
    for (size_t i = 0; i < n; i++) {
        assert_ptr_equal(hx_space_find(setup.space, part[i].start), &part[i]);
        assert_ptr_equal(hx_space_find(setup.space, part[i].end - 1), &part[i]);
    }
    assert_null(hx_space_find(setup.space, 0));
    assert_null(hx_space_find(setup.space, UINT64_MAX));
    end(&setup);
}

/* Code that came later is found by itself, and what was unloaded keeps its place by number. */
static void test_later(void **unused)
{
    (void)unused;
    struct setup setup;
    struct hx_location before, library, jit;
    begin(&setup, getpid());
    size_t files = hx_code_count(setup.code);
    expect_place(&setup, (void *)(uintptr_t)&test_later, &before);
    void *handle = dlopen("libresolv.so.2", RTLD_NOW);
    assert_non_null(handle);
    void *address = dlsym(handle, "ns_parserr");
    assert_non_null(address);
    expect_place(&setup, address, &library);
    assert_string_equal(hx_code_name(setup.code, library.file), "libresolv.so.2");
    if (dlclose(handle) == 0 && !dlopen("libresolv.so.2", RTLD_NOW | RTLD_NOLOAD)) {
        assert_true(hx_code_count(setup.code) > files);
        assert_null(hx_space_refresh(setup.space));
        /* something else can have come to that address meanwhile */
        const struct hx_space_part *part = hx_space_find(setup.space, (uint64_t)(uintptr_t)address);
        assert_true(!part || part->file != library.file);
        assert_string_equal(hx_code_name(setup.code, library.file), "libresolv.so.2");
    }
    void *page = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(page, MAP_FAILED);
    assert_null(hx_space_refresh(setup.space));
    hx_space_locate(setup.space, (uint64_t)(uintptr_t)page + 16, &jit);
    assert_int_equal(jit.file, HX_NO_FILE);
    assert_int_equal(jit.vaddr, (uint64_t)(uintptr_t)page + 16);
    munmap(page, 4096);
    end(&setup);
}

/* A process that is gone keeps what was known of it. */
static void test_gone(void **unused)
{
    (void)unused;
    struct setup setup;
    struct hx_location before, after;
    pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    begin(&setup, child);
    expect_place(&setup, (void *)(uintptr_t)&test_gone, &before);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    assert_null(hx_space_refresh(setup.space));
    expect_place(&setup, (void *)(uintptr_t)&test_gone, &after);
    assert_int_equal(before.file, after.file);
    end(&setup);
}

/* --- unwinding a child ---------------------------------------------------------------- */

struct told {
    void *frame[FRAMES];
    int n;
};

static NOINLINE void stop_here(struct told *told)
{
    told->n = backtrace(told->frame, FRAMES);
    raise(SIGSTOP);
}

static NOINLINE int go_down(struct told *told, int depth)
{
    volatile char room[64 + 40 * DEEP];
    room[depth * 40] = (char)depth;
    if (depth)
        return go_down(told, depth - 1) + room[depth * 40];
    stop_here(told);
    return room[0];
}

static struct told *handled;
static void on_signal(int number)
{
    (void)number;
    go_down(handled, DEEP / 2);
}

static bool read_word(void *context, uint64_t addr, uint64_t *ret)
{
    struct iovec local = {ret, sizeof *ret}, remote = {(void *)(uintptr_t)addr, sizeof *ret};
    return process_vm_readv(*(pid_t *)context, &local, 1, &remote, 1, 0) == sizeof *ret;
}

static size_t unwind(pid_t pid, hx_space *space, uint64_t *frame, uint64_t *exact)
{
    struct user_regs_struct regs;
    assert_int_equal(ptrace(PTRACE_GETREGS, pid, NULL, &regs), 0);
    struct hx_cfi_frame from = {regs.rip, regs.rsp, regs.rbp, true, true};
    size_t n = 0;
    *exact = 0;
    assert_true(hx_space_unwind(space, from, read_word, &pid, frame, NULL, FRAMES, &n, exact));
    return n;
}

/* Under Valgrind the registers of a child are Valgrind's. */
static void skip_under_valgrind(void)
{
    const char *valgrind = getenv("HX_VALGRIND");
    if (valgrind && strcmp(valgrind, "yes") == 0)
        skip();
}

/* Runs the child to its stop, unwinds it, and compares all from stop_here() outwards. */
static void compare(bool in_signal)
{
    struct told *told =
        mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint64_t frame[FRAMES], exact;
    struct setup setup;
    int status;
    assert_ptr_not_equal(told, MAP_FAILED);
    pid_t child = fork();
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        handled = told;
        if (!in_signal)
            _exit(go_down(told, DEEP) & 1);
        struct sigaction action = {.sa_handler = on_signal};
        sigaction(SIGALRM, &action, NULL);
        raise(SIGALRM);
        _exit(0);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (in_signal) {
        assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGALRM);
        assert_int_equal(ptrace(PTRACE_CONT, child, NULL, (void *)SIGALRM), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
    }
    assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
    begin(&setup, child);
    size_t n = unwind(child, setup.space, frame, &exact), at = 0;
    /* told->frame[0] lies in stop_here() itself, or is a sanitizer's, and is there no more */
    assert_true(told->n > DEEP / 2 + 3);
    int first = 1;
    for (; first < 3; first++) {
        for (at = 0; at < n && frame[at] != (uint64_t)(uintptr_t)told->frame[first];)
            at++;
        if (at < n)
            break;
    }
    for (int i = first; i < told->n; i++, at++) {
        assert_true(at < n);
        assert_int_equal(frame[at], (uint64_t)(uintptr_t)told->frame[i]);
    }
    assert_int_equal(at, n);
    assert_int_equal(exact != 0, in_signal);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    end(&setup);
    munmap(told, sizeof *told);
}

static void test_unwind(void **unused)
{
    (void)unused;
    skip_under_valgrind();
    compare(false);
}

static void test_unwind_signal(void **unused)
{
    (void)unused;
    skip_under_valgrind();
    compare(true);
}

int main(void)
{
    void *warm[4];
    backtrace(warm, 4); /* loads what it needs now */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_place),  cmocka_unit_test(test_parts),
        cmocka_unit_test(test_later),  cmocka_unit_test(test_gone),
        cmocka_unit_test(test_unwind), cmocka_unit_test(test_unwind_signal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
