/* guard.c - the handler of SIGBUS.
 *
 * A handler gets no context, so this file has the one table of the program that is global. Its
 * words are atomic: an entry counts from the store of its end on.
 */
#include "record/guard.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>

#define GUARDS 256

static struct {
    _Atomic uintptr_t start, end; /* end 0: not in use */
    atomic_bool claimed, cut;
} guards[GUARDS];
static struct sigaction before;
static pthread_once_t installed = PTHREAD_ONCE_INIT;

static void on_sigbus(int number, siginfo_t *info, void *context)
{
    uintptr_t at = (uintptr_t)info->si_addr, page = at & ~(uintptr_t)4095;
    int saved = errno;
    for (int i = 0; i < GUARDS; i++) {
        if (at < atomic_load(&guards[i].start) || at >= atomic_load(&guards[i].end))
            continue;
        atomic_store(&guards[i].cut, true);
        void *got = mmap((void *)page, 4096, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        errno = saved;
        if (got != MAP_FAILED)
            return;
    }
    /* not ours: as if we were not here. The access is repeated when this returns. */
    if (before.sa_flags & SA_SIGINFO)
        before.sa_sigaction(number, info, context);
    else if (before.sa_handler != SIG_IGN && before.sa_handler != SIG_DFL)
        before.sa_handler(number);
    else
        signal(SIGBUS, SIG_DFL);
}

static void install_sigbus_handler(void)
{
    struct sigaction action = {.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &before);
}

hx_error *hx_guard_add(void *base, size_t bytes, int *ret)
{
    pthread_once(&installed, install_sigbus_handler);
    for (int i = 0; i < GUARDS; i++) {
        bool is_free = false;
        if (!atomic_compare_exchange_strong(&guards[i].claimed, &is_free, true))
            continue;
        atomic_store(&guards[i].cut, false);
        atomic_store(&guards[i].start, (uintptr_t)base);
        atomic_store(&guards[i].end, (uintptr_t)base + bytes);
        *ret = i;
        return NULL;
    }
    return hx_error_new(HX_E_LIMIT, "recorder", "record fewer processes at a time",
                        "%d processes are recorded already", GUARDS);
}

void hx_guard_remove(int number)
{
    atomic_store(&guards[number].end, 0);
    atomic_store(&guards[number].claimed, false);
}

bool hx_guard_was_cut(int number)
{
    return atomic_load_explicit(&guards[number].cut, memory_order_relaxed);
}
