/* allocators_victim.c - a program that uses one allocator in every way, and tells the truth.
 *
 *   allocators_victim BLOCKS SEED FILE [nothreads] [fork] [forever] [small]
 *
 * Eight threads allocate BLOCKS blocks of all sizes, free and resize some of them, their own and
 * those of others; half of the threads then end. FILE gets two words of each live block: its
 * address, and how many bytes of it the allocator says may be used. Then it says "ready" and waits.
 * fork: a child tells and waits in its place; forever: it goes on until it is killed, and says
 * "ready" first, with the place and the length of its table of blocks: what that has is live;
 * nothreads: one thread does all; small: no block is larger than 200 bytes.
 *
 * It is built for each allocator: PREFIX(malloc) is its malloc (je_malloc, mi_malloc, ...), USABLE
 * what tells usable sizes.
 */
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef PREFIX
#define PREFIX(name) name
#endif
#ifndef USABLE
#define USABLE PREFIX(malloc_usable_size)
#endif
void *PREFIX(malloc)(size_t n);
void PREFIX(free)(void *p);
void *PREFIX(calloc)(size_t n, size_t m);
void *PREFIX(realloc)(void *p, size_t n);
#ifndef NO_ALIGNED
int PREFIX(posix_memalign)(void **ret, size_t alignment, size_t n);
#endif
size_t USABLE(void *p);
#ifdef NESTED /* mimalloc gets its memory from glibc's malloc */
bool mi_manage_os_memory(void *start, size_t n, bool committed, bool large, bool zero, int node);

static void nest(void)
{
    const size_t n = (size_t)2 << 30;
    void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    void *(*memalign)(size_t, size_t) = (void *(*)(size_t, size_t))dlsym(libc, "__libc_memalign");
    void *(*take)(size_t) = (void *(*)(size_t))dlsym(libc, "__libc_malloc");
    void *block = take(100) ? memalign((size_t)64 << 20, n) : NULL;
    if (!block || !mi_manage_os_memory(block, n, true, false, true, -1))
        exit(1);
}
#else
static void nest(void)
{
}
#endif

enum { THREADS = 8, MIX = 16 };

static void *_Atomic *slot; /* of all threads, in a mapping of its own */
static uint64_t n_slots, n_blocks, seed;
static int forever, small;
static pthread_barrier_t barrier;

static uint64_t next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Small ones most of the time, now and then large and huge. */
static size_t some_size(uint64_t *rng)
{
    uint64_t kind = small ? 4095 : next(rng) % 4096, r = next(rng);
    if (kind == 0)
        return r % (5 << 20);
    if (kind < 4)
        return r % (1 << 19);
    if (kind < 64)
        return r % 40000;
    if (kind < 1024)
        return r % 1500;
    return r % 200;
}

static void *some_block(uint64_t *rng)
{
    size_t n = some_size(rng);
    void *p = NULL;
    switch (next(rng) % MIX) {
    case 0:
        return PREFIX(calloc)(1, n);
#ifndef NO_ALIGNED
    case 1:
        return PREFIX(posix_memalign)(&p, (size_t)16 << next(rng) % 9, n) == 0 ? p : NULL;
    case 2: /* seldom: whole pages and more */
        if (next(rng) % 256 == 0)
            return PREFIX(posix_memalign)(&p, (size_t)4096 << next(rng) % 9, n) == 0 ? p : NULL;
        break;
#endif
    case 3:
        return PREFIX(realloc)(PREFIX(malloc)(n / 2), n ? n : 1);
    default:
        break;
    }
    return PREFIX(malloc)(n);
}

/* Half of what it puts anywhere pushes out a block that another thread may have made. */
static void churn(uint64_t *rng, uint64_t ops)
{
    for (uint64_t i = 0; i < ops; i++) {
        void *block = next(rng) % 3 ? some_block(rng) : NULL;
        if (block)
            *(uint64_t *)block = 0;
        PREFIX(free)(atomic_exchange(&slot[next(rng) % n_slots], block));
    }
}

static void *worker(void *argument)
{
    uint64_t me = (uint64_t)(uintptr_t)argument, rng = seed * 1000003 + me + 1;
    for (uint64_t i = me; i < n_slots; i += THREADS) {
        void *block = some_block(&rng);
        PREFIX(free)(atomic_exchange(&slot[i], block));
    }
    churn(&rng, n_slots / THREADS);
    while (forever) { /* leaves the others some of the processors */
        churn(&rng, 2000);
        usleep(1000);
    }
    pthread_barrier_wait(&barrier);
    while (me % 2) /* the others end */
        pause();
    return NULL;
}

static void tell(const char *path)
{
    FILE *file = fopen(path, "w");
    if (!file)
        exit(1);
    static uint64_t out[2048];
    size_t n = 0;
    static char buffer[1 << 16];
    setvbuf(file, buffer, _IOFBF, sizeof buffer);
    for (uint64_t i = 0; i < n_slots; i++) {
        void *block = atomic_load(&slot[i]);
        if (block) {
            out[n++] = (uint64_t)(uintptr_t)block;
            out[n++] = USABLE(block);
        }
        if (n == 2048 || i + 1 == n_slots) {
            fwrite(out, sizeof *out, n, file);
            n = 0;
        }
    }
    fclose(file);
}

static int has(int argc, char **argv, const char *word)
{
    for (int i = 4; i < argc; i++)
        if (strcmp(argv[i], word) == 0)
            return 1;
    return 0;
}

static void run_threads(void)
{
    pthread_t thread[THREADS];
    pthread_barrier_init(&barrier, NULL, THREADS + 1);
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, worker, (void *)i);
    if (forever) {
        dprintf(1, "ready %p %lu\n", (void *)slot, (unsigned long)n_slots);
        pause();
    }
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < THREADS; i += 2)
        pthread_join(thread[i], NULL);
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    nest();
    n_blocks = strtoull(argv[1], NULL, 10);
    seed = strtoull(argv[2], NULL, 10);
    n_slots = n_blocks * 4 / 3 + 1; /* two of three places are taken behind the churn */
    forever = has(argc, argv, "forever");
    small = has(argc, argv, "small");
    slot = mmap(NULL, n_slots * sizeof *slot, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                -1, 0);
    if (slot == MAP_FAILED)
        return 1;
    if (has(argc, argv, "nothreads")) {
        uint64_t rng = seed + 1;
        for (int i = 0; i < 3; i++)
            churn(&rng, n_slots);
    } else {
        run_threads();
    }
    if (has(argc, argv, "fork") && fork() != 0) {
        wait(NULL);
        return 0;
    }
    if (has(argc, argv, "fork")) { /* what a child does with what it inherited */
        uint64_t rng = seed + 77;
        churn(&rng, n_slots / 8);
    }
    tell(argv[3]);
    char line[64];
    int n = snprintf(line, sizeof line, "ready %d\n", (int)getpid());
    if (write(1, line, (size_t)n) != n)
        return 1;
    for (;;)
        pause();
}
