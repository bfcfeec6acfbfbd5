/* victim.h - what the programs that heapx is tested on share.
 *
 * Random numbers, a log of every block that says what it must be found as, and the
 * means to forget a pointer: work runs in deep stack frames that are wiped afterwards,
 * and threads park in a system call with clean registers.
 */
#ifndef HX_TEST_VICTIM_H
#define HX_TEST_VICTIM_H

#include <errno.h>
#include <linux/futex.h>
#include <malloc.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone, unused))

/* Keeps the compiler from dropping a store that nobody reads. */
#define KEEP(p) __asm__ volatile("" : : "r"(p) : "memory")

/* --- random numbers (splitmix64) --------------------------------------------- */
struct rng {
    uint64_t state;
};

static inline uint64_t rng_next(struct rng *rng)
{
    uint64_t z = rng->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static inline uint64_t rng_below(struct rng *rng, uint64_t n)
{
    return rng_next(rng) % n;
}

/* --- the truth ------------------------------------------------------------------ */
enum truth_class {
    TRUTH_FREED,
    TRUTH_LIVE,
    TRUTH_DEFINITE,
    TRUTH_INDIRECT,
    TRUTH_POSSIBLE,
    TRUTH_SMASHED, /* its header was overwritten */
};

/* One event; the later one of an address counts. Addresses are stored inverted: the log
 * itself must not hold the blocks. */
struct truth_record {
    uint64_t not_address, bytes, class;
};

struct truth {
    struct truth_record *record;
    size_t max;
    atomic_size_t n;
};
static struct truth truth;

static inline void truth_init(size_t max)
{
    truth.max = max;
    truth.record = mmap(NULL, max * sizeof *truth.record, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (truth.record == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
}

static inline void truth_note(const void *p, size_t bytes, enum truth_class class)
{
    size_t i = atomic_fetch_add(&truth.n, 1);
    if (i >= truth.max) {
        static const char why[] = "victim: too many records\n";
        (void)!write(2, why, sizeof why - 1);
        _exit(1);
    }
    truth.record[i] = (struct truth_record){~(uint64_t)(uintptr_t)p, bytes, class};
}

/* The class of a block that is already logged. */
static inline void truth_mark(const void *p, enum truth_class class)
{
    truth_note(p, malloc_usable_size((void *)(uintptr_t)p), class);
}

static inline void write_all(int fd, const void *bytes, size_t n)
{
    for (const char *at = bytes; n > 0;) {
        ssize_t done = write(fd, at, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            _exit(1);
        at += done;
        n -= (size_t)done;
    }
}

/* --- blocks ----------------------------------------------------------------------- */

/* Overwrites a whole block, slack included, with words that are no addresses: what an
 * earlier owner left there would hold blocks that should be lost. */
static inline void fill(void *p)
{
    size_t usable = malloc_usable_size(p);
    uint64_t word = 0xa5c3000000000000u ^ (uint64_t)usable * 0x9e3779b9u;
    for (size_t i = 0; i + 8 <= usable; i += 8)
        memcpy((char *)p + i, &word, 8);
    if (usable & 7)
        memset((char *)p + (usable & ~(size_t)7), 0xa5, usable & 7);
}

static inline void *need(void *p)
{
    if (!p)
        abort();
    return p;
}

static inline void *block_new(size_t size, enum truth_class class)
{
    void *p = need(malloc(size));
    fill(p);
    truth_mark(p, class);
    return p;
}

static inline void block_free(void *p)
{
    truth_note(p, 0, TRUTH_FREED);
    free(p);
}

/* --- forgetting ------------------------------------------------------------------- */

/* Runs fn in frames that lie far below those of a thread that parks. */
static NOINLINE void on_deep_stack(void (*fn)(void *), void *arg)
{
    char pad[64 << 10];
    KEEP(pad);
    fn(arg);
    KEEP(pad);
}

static NOINLINE void wipe_stack(void)
{
    char pad[256 << 10];
    memset(pad, 0xa5, sizeof pad);
    KEEP(pad);
}

/* Waits in a system call. The block whose inverted address is not_held lies in rbx and
 * nowhere else; the other registers that survive calls are empty. */
static NOINLINE long park(long call, long a, long b, long c, uint64_t not_held)
{
    register long r10 __asm__("r10") = 0;
    register long rdi __asm__("rdi") = a;
    register long rsi __asm__("rsi") = b;
    register long rdx __asm__("rdx") = c;
    register long rax __asm__("rax") = call;
    register uint64_t r8 __asm__("r8") = not_held;
    __asm__ volatile("mov %%r8, %%rbx\n\t"
                     "not %%rbx\n\t"
                     "xor %%r8d, %%r8d\n\t"
                     "xor %%r9d, %%r9d\n\t"
                     "xor %%r12d, %%r12d\n\t"
                     "xor %%r13d, %%r13d\n\t"
                     "xor %%r14d, %%r14d\n\t"
                     "xor %%r15d, %%r15d\n\t"
                     "syscall"
                     : "+r"(rax), "+r"(r8), "+r"(rdi), "+r"(rsi), "+r"(rdx), "+r"(r10)
                     :
                     : "rbx", "rcx", "r9", "r11", "r12", "r13", "r14", "r15", "memory");
    return rax;
}

static inline void park_forever(uint64_t not_held)
{
    static int word;
    for (;;)
        park(SYS_futex, (long)&word, FUTEX_WAIT_PRIVATE, 0, not_held);
}

/* Ends with its parent: nothing may be left running after a test. */
static inline void end_with_parent(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
}

static inline void say(const char *line)
{
    write_all(1, line, strlen(line));
}

#endif
