/* stack.c - a stack of our own, by makecontext(). */
#include "base/stack.h"

#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <ucontext.h>

enum { STACK_BYTES = 2 << 20, GUARD_BYTES = 64 << 10 };

struct call {
    int (*main)(int argc, char **argv);
    int argc;
    char **argv;
    int status;
};

static void give_threads_stack(void)
{
    pthread_attr_t attr;
    size_t bytes;
    if (pthread_getattr_default_np(&attr) != 0)
        return;
    if (pthread_attr_getstacksize(&attr, &bytes) == 0 && bytes < STACK_BYTES &&
        pthread_attr_setstacksize(&attr, STACK_BYTES) == 0)
        pthread_setattr_default_np(&attr);
    pthread_attr_destroy(&attr);
}

/* makecontext() hands over ints. */
static void enter_stack(unsigned high, unsigned low)
{
    struct call *call = (void *)((uintptr_t)high << 32 | low);
    call->status = call->main(call->argc, call->argv);
}

int hx_stack_run(int (*main)(int argc, char **argv), int argc, char **argv)
{
    struct call call = {main, argc, argv, 0};
    struct rlimit limit;
    ucontext_t here, there;
    char *memory = MAP_FAILED;
    give_threads_stack();
    if (getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < STACK_BYTES)
        memory = mmap(NULL, GUARD_BYTES + STACK_BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory, GUARD_BYTES, PROT_NONE) != 0 ||
        getcontext(&there) != 0)
        return main(argc, argv);
    there.uc_stack = (stack_t){.ss_sp = memory + GUARD_BYTES, .ss_size = STACK_BYTES};
    there.uc_link = &here;
    makecontext(&there, (void (*)(void))enter_stack, 2, (unsigned)((uintptr_t)&call >> 32),
                (unsigned)(uintptr_t)&call);
    return swapcontext(&here, &there) == 0 ? call.status : main(argc, argv);
}
