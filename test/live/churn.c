/* churn.c - a program that knows every block it holds and what it asked for.
 *
 *   churn --out FILE [--threads N] [--operations N] [--slots N] [--seed N] [--wait]
 *
 * Threads take, resize and free blocks at random through every entry point of malloc. The
 * slots are everybody's, so most blocks are freed by another thread than the one that took
 * them. Threads come and go. Then a line "address requested usable function" for each block goes
 * to FILE, "ready" to stdout, and the program rests until its input ends. With --wait it says
 * where malloc and its kin lie, and begins when a line comes.
 */
#include "victim.h"

#include <dlfcn.h>
#include <getopt.h>
#include <pthread.h>

enum { MAX_SLOTS = 1 << 20, MAX_THREADS = 256, LIVES = 4 };

static struct slot {
    atomic_flag busy;
    uint8_t function;
    void *block;
    uint64_t requested;
} slots[MAX_SLOTS];

static const char *const function_name[] = {"malloc",        "calloc",         "realloc",
                                            "aligned_alloc", "posix_memalign", "memalign",
                                            "reallocarray",  "valloc"};

static struct {
    uint64_t threads, operations, slots, seed;
    const char *out;
    bool wait;
} option = {.threads = 8, .operations = 200000, .slots = 20000, .seed = 1};

static void acquire(struct slot *slot)
{
    while (atomic_flag_test_and_set_explicit(&slot->busy, memory_order_acquire))
        __builtin_ia32_pause();
}

static void release(struct slot *slot)
{
    atomic_flag_clear_explicit(&slot->busy, memory_order_release);
}

/* Mostly small, seldom large enough for a mapping of its own, sometimes nothing. */
static uint64_t some_size(struct rng *rng)
{
    uint64_t dice = rng_below(rng, 1000);
    if (dice < 10)
        return 0;
    if (dice < 800)
        return 1 + rng_below(rng, 256);
    if (dice < 980)
        return 1 + rng_below(rng, 4096);
    if (dice < 999)
        return 1 + rng_below(rng, 65536);
    return 1 + rng_below(rng, 300000);
}

NOINLINE static void take(struct slot *slot, struct rng *rng)
{
    uint64_t size = some_size(rng), align = (uint64_t)8 << rng_below(rng, 8);
    void *p = NULL;
    unsigned function = (unsigned)rng_below(rng, 20);
    switch (function) {
    case 1:
        p = calloc(1 + rng_below(rng, 1), size);
        break;
    case 2:
        p = realloc(NULL, size);
        break;
    case 3:
        p = aligned_alloc(align, size);
        break;
    case 4:
        if (posix_memalign(&p, align, size) != 0)
            p = NULL;
        break;
    case 5:
        p = memalign(align, size);
        break;
    case 6:
        p = reallocarray(NULL, size, 1);
        break;
    case 7:
        if (rng_below(rng, 50) == 0) {
            p = valloc(size);
            break;
        }
        /* fall through */
    default:
        function = 0;
        p = malloc(size);
    }
    /* Not as a whole: compilers zero the struct first, and the slot is free for a moment. */
    slot->function = (uint8_t)function;
    slot->block = p;
    slot->requested = size;
}

NOINLINE static void resize(struct slot *slot, struct rng *rng)
{
    uint64_t size = 1 + some_size(rng);
    bool array = rng_below(rng, 2);
    void *p = array ? reallocarray(slot->block, 1, size) : realloc(slot->block, size);
    if (!p)
        return; /* as it was */
    slot->block = p;
    slot->requested = size;
    slot->function = array ? 6 : 2;
}

NOINLINE static void drop(struct slot *slot, struct rng *rng)
{
    void *old = slot->block;
    slot->block = NULL;
    if (old && rng_below(rng, 20) == 0)
        KEEP(realloc(old, 0)); /* frees */
    else
        free(old);
}

/* What must change nothing. */
NOINLINE static void fail(struct slot *slot)
{
    size_t volatile huge = SIZE_MAX / 2;
    void *p = slot->block;
    KEEP(malloc(huge));
    KEEP(calloc(huge, 16));
    if (p)
        KEEP(realloc(p, huge));
    KEEP(reallocarray(p, huge, 16));
    KEEP(posix_memalign(&p, 3, 8));
    free(NULL);
}

static void *work(void *argument)
{
    uint64_t number = (uint64_t)(uintptr_t)argument;
    struct rng rng = {option.seed * 1000003 + number};
    uint64_t rounds = option.operations / option.threads / LIVES;
    for (uint64_t i = 0; i < rounds; i++) {
        struct slot *slot = &slots[rng_below(&rng, option.slots)];
        acquire(slot);
        uint64_t dice = rng_below(&rng, 1000);
        if (dice == 0)
            fail(slot);
        else if (!slot->block)
            take(slot, &rng);
        else if (dice < 300)
            resize(slot, &rng);
        else
            drop(slot, &rng);
        release(slot);
    }
    return NULL;
}

static void churn(void)
{
    for (uint64_t life = 0; life < LIVES; life++) {
        pthread_t thread[MAX_THREADS];
        for (uint64_t i = 0; i < option.threads; i++)
            if (pthread_create(&thread[i], NULL, work, (void *)(uintptr_t)(life * MAX_THREADS + i)))
                abort();
        for (uint64_t i = 0; i < option.threads; i++)
            pthread_join(thread[i], NULL);
    }
}

static bool write_table(void)
{
    static char buffer[1 << 16];
    FILE *out = fopen(option.out, "w");
    if (!out)
        return false;
    setvbuf(out, buffer, _IOFBF, sizeof buffer);
    for (uint64_t i = 0; i < option.slots; i++)
        if (slots[i].block)
            fprintf(out, "%lu %lu %lu %s\n", (uintptr_t)slots[i].block, slots[i].requested,
                    malloc_usable_size(slots[i].block), function_name[slots[i].function]);
    return fclose(out) == 0;
}

static void say_entries(void)
{
    static const char *const entry[] = {"malloc", "free", "calloc", "realloc", "posix_memalign"};
    char line[256], *p = line + sprintf(line, "entry");
    for (size_t i = 0; i < sizeof entry / sizeof *entry; i++)
        p += sprintf(p, " %#lx", (uintptr_t)dlsym(RTLD_DEFAULT, entry[i]));
    strcpy(p, "\n");
    say(line);
}

static void options(int argc, char **argv)
{
    static const struct option known[] = {
        {"out", 1, NULL, 'o'},   {"threads", 1, NULL, 't'}, {"operations", 1, NULL, 'n'},
        {"slots", 1, NULL, 's'}, {"seed", 1, NULL, 'r'},    {"wait", 0, NULL, 'w'},
        {NULL, 0, NULL, 0},
    };
    for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        uint64_t n = optarg ? strtoull(optarg, NULL, 0) : 0;
        switch (c) {
        case 'o':
            option.out = optarg;
            break;
        case 't':
            option.threads = n;
            break;
        case 'n':
            option.operations = n;
            break;
        case 's':
            option.slots = n;
            break;
        case 'r':
            option.seed = n;
            break;
        case 'w':
            option.wait = true;
            break;
        default:
            exit(2);
        }
    }
    if (!option.out || option.threads < 1 || option.threads > MAX_THREADS ||
        option.slots > MAX_SLOTS || option.slots < 1)
        exit(2);
}

int main(int argc, char **argv)
{
    end_with_parent();
    options(argc, argv);
    char line[8];
    if (option.wait) {
        say_entries();
        if (read(0, line, sizeof line) <= 0)
            return 1;
    }
    churn();
    if (!write_table())
        return 1;
    say("ready\n");
    while (read(0, line, sizeof line) > 0)
        ;
    return 0;
}
