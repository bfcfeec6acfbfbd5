/* cut.c - a program whose heap is to be found in a core that ends before libc's data.
 *
 *   cut [BLOCKS [FREED]]
 *
 * Makes so many blocks (600) in the main arena and some in that of a thread, frees many of them, so
 * that bins, tcaches and fastbins are all in use, writes the addresses of small blocks that it
 * freed into FREED (words), says "ready" and rests until stdin ends.
 */
#include "victim.h"

#include <fcntl.h>
#include <pthread.h>

enum { SMALL_MAX = 120, IN_THREAD = 2000, FEW = 600 };

static void **volatile table; /* blocks that stay, in a list */
static void **volatile in_thread;
static int freed = -1;
static pthread_barrier_t made;

/* Blocks of all sizes; each fourth one is freed, so that nothing merges with its neighbours. */
static void **make(uint64_t n, uint64_t seed)
{
    struct rng rng = {.state = seed};
    void **last = NULL, **hole = NULL;
    for (uint64_t i = 0; i < n; i++) {
        size_t size = 24 + rng_next(&rng) % (i % 16 ? 80 : 3000);
        void **block = malloc(size);
        if (!block)
            abort();
        block[0] = i % 4 ? last : hole;
        if (i % 4)
            last = block;
        else
            hole = block;
    }
    while (hole) {
        void **next = *hole;
        if (freed >= 0 && malloc_usable_size(hole) <= SMALL_MAX &&
            write(freed, &hole, sizeof hole) != sizeof hole)
            abort();
        free(hole);
        hole = next;
    }
    return last;
}

static void *work(void *seed)
{
    in_thread = make(IN_THREAD, (uintptr_t)seed);
    pthread_barrier_wait(&made);
    pause();
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    char byte;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pthread_barrier_init(&made, NULL, 2);
    if (pthread_create(&thread, NULL, work, (void *)(uintptr_t)9))
        return 1;
    pthread_barrier_wait(&made);
    if (argc > 2)
        freed = open(argv[2], O_WRONLY | O_CREAT | O_TRUNC, 0600);
    /* last: a large request would empty the fastbins */
    table = make(argc > 1 ? strtoull(argv[1], NULL, 10) : FEW, 7);
    if (write(STDOUT_FILENO, "ready\n", 6) != 6)
        return 1;
    while (read(STDIN_FILENO, &byte, 1) > 0) {
    }
    return 0;
}
