/* pairs.c - malloc and free in pairs, ten frames deep: what a recorder costs.
 *
 *   pairs [--pairs N] [--threads N] [--live N] [--ways N | --loop] [--wait] [--rest]
 *
 * Each pair frees the oldest of `live` blocks and takes one of 16 to 512 bytes. Every pair goes
 * down through ten functions by one of eight ways (or fewer: 1, 2, 4) in turn; with --loop the
 * pairs are made in a loop at the bottom, so that the calls themselves cost nothing. Built -O2
 * without frame pointers. Prints "pairs N seconds S ns X cpu Y" for the time from the first to the
 * last pair, by the clock and of all processors. --wait: says where malloc lies, and begins when a
 * line comes; --rest: then waits for the end of its input.
 */
#include "../live/victim.h"

#include <dlfcn.h>
#include <getopt.h>
#include <pthread.h>
#include <time.h>

enum { MAX_THREADS = 64 };

static uint64_t pairs = 20000000, threads = 1, live = 1024, ways = 8;
static bool loop, waits, rests;

struct worker {
    struct rng rng;
    void **slot;
    uint64_t next, pairs, slots;
};

static inline void one(struct worker *w)
{
    uint64_t i = w->next++ % w->slots;
    uint64_t size = 16 + (w->rng.state >> 40) % 497;
    w->rng.state = w->rng.state * 6364136223846793005u + 1442695040888963407u;
    free(w->slot[i]);
    char *p = malloc(size);
    *p = (char)i;
    w->slot[i] = p;
}

static NOINLINE void bottom(struct worker *w, uint64_t way)
{
    KEEP(way);
    if (!loop) {
        one(w);
    } else {
        for (uint64_t n = w->pairs; n; n--)
            one(w);
    }
    KEEP(w);
}

#define LEVEL(name, below)                                                                         \
    static NOINLINE void name(struct worker *w, uint64_t way)                                      \
    {                                                                                              \
        below(w, way);                                                                             \
        KEEP(w);                                                                                   \
    }
/* Two call sites, so that the ways are different stacks. */
#define FORK(name, below)                                                                          \
    static NOINLINE void name(struct worker *w, uint64_t way)                                      \
    {                                                                                              \
        if (way & 1) {                                                                             \
            below(w, way >> 1);                                                                    \
            KEEP(w);                                                                               \
        } else {                                                                                   \
            below(w, way >> 1);                                                                    \
            KEEP(way);                                                                             \
        }                                                                                          \
    }
LEVEL(eighth, bottom)
FORK(seventh, eighth)
LEVEL(sixth, seventh)
FORK(fifth, sixth)
LEVEL(fourth, fifth)
FORK(third, fourth)
LEVEL(second, third)
LEVEL(first, second)

static NOINLINE void *work(void *argument)
{
    struct worker *w = argument;
    for (uint64_t n = loop ? 1 : w->pairs; n; n--)
        first(w, n % ways);
    return NULL;
}

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void options(int argc, char **argv)
{
    static const struct option known[] = {
        {"pairs", 1, NULL, 'p'}, {"threads", 1, NULL, 't'}, {"live", 1, NULL, 'l'},
        {"loop", 0, NULL, 'o'},  {"wait", 0, NULL, 'w'},    {"rest", 0, NULL, 'r'},
        {"ways", 1, NULL, 'y'},  {NULL, 0, NULL, 0},
    };
    for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        uint64_t n = optarg ? strtoull(optarg, NULL, 0) : 0;
        if (c == 'p')
            pairs = n;
        else if (c == 't')
            threads = n;
        else if (c == 'l')
            live = n;
        else if (c == 'o')
            loop = true;
        else if (c == 'w')
            waits = true;
        else if (c == 'r')
            rests = true;
        else if (c == 'y')
            ways = n;
        else
            exit(2);
    }
    if (threads < 1 || threads > MAX_THREADS || live < threads || pairs < threads || ways < 1)
        exit(2);
}

int main(int argc, char **argv)
{
    static struct worker worker[MAX_THREADS];
    pthread_t thread[MAX_THREADS];
    char line[16];
    end_with_parent();
    options(argc, argv);
    for (uint64_t i = 0; i < threads; i++) {
        void **slot = mmap(NULL, live / threads * sizeof *slot, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (slot == MAP_FAILED)
            return 1;
        worker[i] = (struct worker){{i + 1}, slot, 0, pairs / threads, live / threads};
    }
    if (waits) {
        printf("entry %p\n", dlsym(RTLD_DEFAULT, "malloc"));
        fflush(stdout);
        if (read(0, line, sizeof line) <= 0)
            return 1;
    }
    double begin = seconds(CLOCK_MONOTONIC), began = seconds(CLOCK_PROCESS_CPUTIME_ID);
    if (threads == 1) {
        work(&worker[0]);
    } else {
        for (uint64_t i = 0; i < threads; i++)
            if (pthread_create(&thread[i], NULL, work, &worker[i]))
                return 1;
        for (uint64_t i = 0; i < threads; i++)
            pthread_join(thread[i], NULL);
    }
    double took = seconds(CLOCK_MONOTONIC) - begin;
    double used = seconds(CLOCK_PROCESS_CPUTIME_ID) - began;
    printf("pairs %lu seconds %.6f ns %.2f cpu %.2f\n", pairs, took, took * 1e9 / (double)pairs,
           used * 1e9 / (double)pairs);
    fflush(stdout);
    while (rests && read(0, line, sizeof line) > 0)
        ;
    return 0;
}
