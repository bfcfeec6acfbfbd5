/* alloc_victim.c - a program that uses malloc in every way and tells the truth about it.
 *
 *   alloc_victim [threads=N] [ops=N] [seed=N] [max=BYTES] [block] [sbrk] [exit] [fork]
 *                [smash=N] [dangle=N] [fill] [forever]
 *
 * block: puts a mapping behind brk, so that the main arena goes on in mapped pieces;
 * sbrk: takes memory with sbrk between allocations; exit: half of the threads end; fork: a
 * child without the other threads goes on; smash: overwrites N headers; dangle: writes into
 * N freed blocks; fill: blocks are filled with words that look like headers; forever: does
 * not tell anything, but works until it is killed.
 *
XX its address and malloc_usable_size, three figures of mallinfo (arena, uordblks,
 * hblkhd) and the number of smashed blocks with their addresses. Then it waits. It needs
 * only symbols that old versions of glibc have, and after the first block writes by system
 * call only.
 */
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef ALLOC_OLD_SYMBOLS
__asm__(".symver pthread_create,pthread_create@GLIBC_2.2.5");
__asm__(".symver pthread_join,pthread_join@GLIBC_2.2.5");
__asm__(".symver __libc_start_main,__libc_start_main@GLIBC_2.2.5");
int __libc_start_main(int (*)(int, char **), int, char **, void *, void *, void *, void *);
int main(int argc, char **argv);
void start_c(long *stack, void *at_exit);
void __attribute__((used)) start_c(long *stack, void *at_exit)
{
    __libc_start_main(main, (int)stack[0], (char **)(stack + 1), NULL, NULL, at_exit, stack);
}
__asm__(".globl _start\n_start:\n xor %ebp, %ebp\n mov %rsp, %rdi\n mov %rdx, %rsi\n"
        " and $-16, %rsp\n call start_c\n hlt\n");
#endif

enum { SLOTS = 1 << 14, THREADS_MAX = 256 };

struct block {
    void *p;
};

static struct {
    uint64_t threads, ops, seed, max, smash, dangle;
    bool block, sbrk, exit, fork, fill, forever;
} option = {.ops = 20000, .seed = 1, .max = 1 << 20};

static struct block *slots; /* SLOTS for each thread, in a mapping of their own */
static atomic_uint ready;

static uint64_t next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Mostly small, now and then up to the maximum. */
static uint64_t some_size(uint64_t *rng)
{
    uint64_t r = next(rng), max = option.max;
    uint64_t limit = r % 100 < 70 ? 200 : r % 100 < 95 ? 4000 : max;
    return 1 + (r >> 20) % limit;
}

static void fill(void *p)
{
    uint64_t *word = p;
    size_t n = malloc_usable_size(p) / 8;
    if (option.fill)
        for (size_t i = 0; i < n; i++)
            word[i] = i % 2 ? 0x21 + 16 * (i % 7) : i % 3 ? 0x30 : (uint64_t)p;
    else if (n)
        word[0] = (uint64_t)p;
}

static void *some_block(uint64_t *rng, void *old)
{
    uint64_t size = some_size(rng);
    if (old)
        return realloc(old, size);
    switch (next(rng) % 8) {
    case 0:
        return calloc(1, size);
    case 1:
        return memalign((size_t)16 << next(rng) % 10, size);
    case 2:
        if (option.max > 300000 && next(rng) % 20 == 0)
            return memalign((size_t)4096 << next(rng) % 9, 140000 + size);
        return malloc(size);
    default:
        return malloc(size);
    }
}

static void churn(struct block *mine, uint64_t *rng, uint64_t ops)
{
    for (uint64_t i = 0; i < ops; i++) {
        struct block *b = &mine[next(rng) % SLOTS];
        uint64_t what = next(rng) % 10;
        if (b->p && what < 5) {
            free(b->p);
            b->p = NULL;
        } else if (!b->p || what < 7) {
            b->p = some_block(rng, b->p);
            if (b->p)
                fill(b->p);
        }
        if (option.sbrk && i % 1000 == 999)
            sbrk((intptr_t)(next(rng) % 5000));
    }
}

static void wait_forever(void)
{
    for (;;)
        pause();
}

static void *worker(void *argument)
{
    uint64_t index = (uint64_t)argument, rng = option.seed * 1000 + index;
    churn(slots + index * SLOTS, &rng, option.ops);
    while (option.forever)
        churn(slots + index * SLOTS, &rng, option.ops);
    if (option.exit && index % 2)
        return NULL;
    atomic_fetch_add(&ready, 1);
    wait_forever();
    return NULL;
}

static void put(const void *bytes, size_t n)
{
    for (const char *at = bytes; n > 0;) {
        ssize_t done = write(1, at, n);
        if (done <= 0)
            _exit(1);
        at += done;
        n -= (size_t)done;
    }
}

static uint64_t smashed[64], n_smashed;

/* Overwrites headers of blocks in use: with nonsense, and with sizes that look right. */
static void smash(uint64_t *rng)
{
    for (uint64_t tries = 0; n_smashed < option.smash && tries < SLOTS; tries++) {
        struct block *b = &slots[next(rng) % SLOTS];
        if (!b->p || malloc_usable_size(b->p) > 100000)
            continue;
        uint64_t *head = (uint64_t *)b->p - 1;
        if (*head & 2)
            continue;
        *head = n_smashed % 2 ? 0x4141414141414141 : *head + 0x50;
        smashed[n_smashed++] = (uint64_t)b->p;
        b->p = NULL;
    }
}

static void dangle(uint64_t *rng)
{
    for (uint64_t i = 0; i < option.dangle; i++) {
        uint64_t *p = malloc(2000 + 500 * (next(rng) % 8)), *guard = malloc(3000);
        uint64_t at = (uint64_t)p;
        __asm__ volatile("" : "+r"(at)); /* the compiler would see through it */
        free(p);
        *(volatile uint64_t *)at = 0x4242424242424242;
        if (!guard)
            _exit(1);
    }
}

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
static void tell(void)
{
    static uint64_t out[2 * SLOTS];
    uint64_t threads = option.threads ? option.threads : 1, n = 0;
    struct mallinfo info = mallinfo();
    uint64_t figures[3] = {(uint32_t)info.arena, (uint32_t)info.uordblks, (uint32_t)info.hblkhd};
    for (uint64_t i = 0; i < threads * SLOTS; i++)
        n += slots[i].p != NULL;
    uint64_t self = (uint64_t)getpid();
    put(&self, sizeof self);
    put(&n, sizeof n);
    for (uint64_t t = 0; t < threads; t++) {
        n = 0;
        for (uint64_t i = t * SLOTS; i < (t + 1) * SLOTS; i++)
            if (slots[i].p) {
                out[n++] = (uint64_t)slots[i].p;
                out[n++] = malloc_usable_size(slots[i].p);
            }
        put(out, n * sizeof *out);
    }
    put(figures, sizeof figures);
    put(&n_smashed, sizeof n_smashed);
    put(smashed, n_smashed * sizeof *smashed);
}

static void block_brk(void)
{
    void *end = sbrk(0);
    uint64_t page = ((uint64_t)end + 4095) & ~(uint64_t)4095;
    mmap((void *)page, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

static uint64_t number(const char *text)
{
    uint64_t n = 0;
    for (; *text >= '0' && *text <= '9'; text++)
        n = n * 10 + (uint64_t)(*text - '0');
    return n;
}

static void parse(int argc, char **argv)
{
    struct {
        const char *name;
        uint64_t *n;
        bool *flag;
    } words[] = {{"threads=", &option.threads, NULL}, {"ops=", &option.ops, NULL},
                 {"seed=", &option.seed, NULL},       {"max=", &option.max, NULL},
                 {"smash=", &option.smash, NULL},     {"dangle=", &option.dangle, NULL},
                 {"block", NULL, &option.block},      {"sbrk", NULL, &option.sbrk},
                 {"exit", NULL, &option.exit},        {"fork", NULL, &option.fork},
                 {"fill", NULL, &option.fill},        {"forever", NULL, &option.forever}};
    for (int i = 1; i < argc; i++)
        for (size_t k = 0; k < sizeof words / sizeof *words; k++)
            if (strncmp(argv[i], words[k].name, strlen(words[k].name)) == 0) {
                if (words[k].n)
                    *words[k].n = number(argv[i] + strlen(words[k].name));
                else
                    *words[k].flag = true;
            }
}

int main(int argc, char **argv)
{
    static pthread_t thread[THREADS_MAX];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    parse(argc, argv);
    if (option.threads > THREADS_MAX)
        option.threads = THREADS_MAX;
    uint64_t threads = option.threads ? option.threads : 1, rng = option.seed;
    slots = mmap(NULL, threads * SLOTS * sizeof *slots, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (slots == MAP_FAILED)
        return 1;
    if (option.block) {
        churn(slots, &rng, 500);
        block_brk();
    }
    churn(slots, &rng, option.ops);
    while (option.forever && !option.threads)
        churn(slots, &rng, option.ops);
    for (uint64_t i = 0; i < option.threads; i++)
        pthread_create(&thread[i], NULL, worker, (void *)i);
    uint64_t stay = option.exit ? (option.threads + 1) / 2 : option.threads;
    if (option.forever)
        wait_forever();
    if (option.exit)
        for (uint64_t i = 1; i < option.threads; i += 2)
            pthread_join(thread[i], NULL);
    while (atomic_load(&ready) < stay)
        usleep(1000);
    if (option.fork) {
        if (syscall(SYS_fork) != 0)
            wait_forever();
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    }
    dangle(&rng);
    smash(&rng);
    tell();
    wait_forever();
}
