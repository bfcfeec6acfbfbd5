/* truth.c - a program that knows what every one of its blocks is.
 *
 *   truth --out FILE [--seed N] [--threads N] [--arenas N] [--steps N] [--leaks N]
 *         [--no-nested] [--smash HOW]
 *
 * Worker threads churn through every entry point of malloc; what stays alive hangs on
 * globals, stacks, thread-local storage, registers and mappings, through tables, lists
 * and trees. Planter threads leak blocks in every way that the leak kinds tell apart.
 * Then the log goes to FILE (struct truth_record), "ready" to stdout, and the program
 * rests until stdin ends. --no-nested plants no lost cycle below another lost block:
 * there Valgrind counts by its own rule. --smash overwrites malloc's data (see smash()). Under
 * Valgrind it asks for a leak check first.
 */
#include "victim.h"

#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>

#if __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>
#else
#define VALGRIND_DO_LEAK_CHECK ((void)0)
#endif

enum { MAX_THREADS = 128, BUCKETS = 64, VAULT = 4096 };

static struct {
    uint64_t seed, threads, arenas, steps, leaks;
    const char *out;
    const char *smash;
    bool nested;
} option = {.seed = 1, .threads = 8, .steps = 6000, .leaks = 2400, .nested = true};

/* --- what is alive ------------------------------------------------------------------ */

/* Each table is held in one place only; which one, is the thread's number. */
struct node {
    struct node *next, *left, *right;
    void *payload;
    uint64_t key;
};
struct table {
    struct node *bucket[BUCKETS];
    struct node *first, *last; /* a list, held at both ends */
    struct node *tree;
};

static struct table *in_bss[MAX_THREADS];
static struct table *in_data[MAX_THREADS] = {(struct table *)1};
static void **in_mapping;        /* private anonymous */
static void **in_shared;         /* shared anonymous */
static __thread void *in_tls[5]; /* initial zeros: .tbss */
static pthread_key_t key;
/* Nobody frees before all threads are there: what the C library allocates for a thread would
 * take the place of a block that is logged as free. */
static pthread_barrier_t started, planted;
static void *vault[MAX_THREADS]; /* live holders of what the planters keep */

struct worker {
    struct rng rng;
    uint64_t index;
    struct table *table; /* cleared before the thread parks */
};

/* Mostly small ones, some that get mappings of their own. */
static size_t random_size(struct rng *rng)
{
    switch (rng_below(rng, 64)) {
    case 0:
        return 1 + rng_below(rng, 256 << 10);
    case 1 ... 4:
        return 1 + rng_below(rng, 16 << 10);
    case 5 ... 20:
        return 1 + rng_below(rng, 1032 + 64);
    default:
        return 1 + rng_below(rng, 120);
    }
}

static void *random_block(struct rng *rng)
{
    size_t size = random_size(rng);
    if (rng_below(rng, 2000) == 0)
        size = (1 << 20) + rng_below(rng, 3 << 20);
    void *p = NULL;
    switch (rng_below(rng, 8)) {
    case 0:
        p = calloc(1 + rng_below(rng, 4), size);
        break;
    case 1:
        p = aligned_alloc((size_t)16 << rng_below(rng, 9), size);
        break;
    case 2:
        if (posix_memalign(&p, (size_t)8 << rng_below(rng, 14), size))
            abort();
        break;
    default:
        p = malloc(size);
    }
    fill(need(p));
    truth_mark(p, TRUTH_LIVE);
    return p;
}

static void *random_resize(struct rng *rng, void *p)
{
    truth_note(p, 0, TRUTH_FREED);
    p = need(realloc(p, random_size(rng)));
    fill(p);
    truth_mark(p, TRUTH_LIVE);
    return p;
}

static struct node *node_new(struct rng *rng)
{
    struct node *node = block_new(sizeof *node + rng_below(rng, 32), TRUTH_LIVE);
    *node = (struct node){.key = rng_next(rng) | (uint64_t)1 << 63};
    node->payload = random_block(rng);
    return node;
}

static void table_step(struct table *table, struct rng *rng)
{
    struct node **slot = &table->bucket[rng_below(rng, BUCKETS)];
    switch (rng_below(rng, 8)) {
    case 0 ... 3: {
        struct node *node = node_new(rng);
        node->next = *slot;
        *slot = node;
        break;
    }
    case 4 ... 5:
        if (*slot) {
            struct node *node = *slot;
            *slot = node->next;
            block_free(node->payload);
            block_free(node);
        }
        break;
    default:
        if (*slot)
            (*slot)->payload = random_resize(rng, (*slot)->payload);
    }
}

static void tree_insert(struct node **at, struct node *node)
{
    while (*at)
        at = node->key < (*at)->key ? &(*at)->left : &(*at)->right;
    *at = node;
}

static void work(void *arg)
{
    struct worker *worker = arg;
    struct rng *rng = &worker->rng;
    struct table *table = block_new(sizeof *table, TRUTH_LIVE);
    memset(table, 0, sizeof *table);
    for (uint64_t i = 0; i < option.steps; i++)
        table_step(table, rng);
    for (int i = 0; i < 200; i++)
        tree_insert(&table->tree, node_new(rng));
    for (int i = 0; i < 200; i++) {
        struct node *node = node_new(rng);
        node->left = table->last;
        if (table->last)
            table->last->next = node;
        else
            table->first = node;
        table->last = node;
    }
    worker->table = table;
}

/* Every other thread that needs no thread to hold its table exits. */
static void *worker_main(void *arg)
{
    struct worker *worker = arg;
    pthread_barrier_wait(&started);
    on_deep_stack(work, worker);
    wipe_stack();
    void *volatile on_stack[4] = {NULL};
    uint64_t not_in_register = ~(uint64_t)0;
    uint64_t i = worker->index;
    switch (i % 8) {
    case 0:
        in_bss[i] = worker->table;
        break;
    case 1:
        in_tls[3] = worker->table;
        break;
    case 2:
        on_stack[1] = worker->table;
        break;
    case 3:
        not_in_register = ~(uint64_t)(uintptr_t)worker->table;
        break;
    case 4:
        in_data[i] = worker->table;
        break;
    case 5:
        pthread_setspecific(key, worker->table);
        break;
    case 6:
        in_mapping[i] = worker->table;
        break;
    default:
        in_shared[i] = worker->table;
    }
    worker->table = NULL;
    KEEP(on_stack);
    KEEP(in_tls);
    KEEP(in_bss);
    KEEP(in_data);
    pthread_barrier_wait(&planted);
    if (i % 2 == 0 && i % 8 != 2)
        return NULL;
    park_forever(not_in_register);
    KEEP(on_stack);
    return NULL;
}

/* --- what is lost ------------------------------------------------------------------- */

struct planter {
    struct rng rng;
    uint64_t index, leaks;
    void **vault;
    size_t kept;
};

/* Vtables as compilers lay them out: offset to top, type, functions. */
static void method_a(void)
{
}
static void method_b(void)
{
}
static void method_c(void)
{
}
static const void *const vtable_first[] = {NULL, NULL, (const void *)method_a,
                                           (const void *)method_b, (const void *)method_c};
static const void *const vtable_second[] = {(const void *)-48, NULL, (const void *)method_c,
                                            (const void *)method_b, (const void *)method_a};

static void keep(struct planter *planter, void *p)
{
    if (planter->kept == VAULT - 1) { /* the last word leads to another vault */
        void **next = block_new(VAULT * sizeof *next, TRUTH_LIVE);
        memset(next, 0, VAULT * sizeof *next);
        planter->vault[VAULT - 1] = next;
        planter->vault = next;
        planter->kept = 0;
    }
    planter->vault[planter->kept++] = p;
}

/* Room for links at the front, never a shape that is known by accident. */
static void **lost_block(struct planter *planter, enum truth_class class)
{
    return block_new(64 + rng_below(&planter->rng, 400), class);
}

static void plant_list(struct planter *planter, enum truth_class class, uint64_t n)
{
    void **head = lost_block(planter, class), **last = head;
    for (uint64_t i = 1; i < n; i++)
        last = last[1] = lost_block(planter, TRUTH_INDIRECT);
}

/* A ring of n; the lowest address stands for it. Returns a block of it. */
static void **plant_ring(struct planter *planter, uint64_t n, bool below)
{
    void **first = lost_block(planter, TRUTH_INDIRECT), **last = first, **lowest = first;
    for (uint64_t i = 1; i < n; i++) {
        last = last[2] = lost_block(planter, TRUTH_INDIRECT);
        lowest = last < lowest ? last : lowest;
    }
    last[2] = first;
    if (!below)
        truth_mark(lowest, TRUTH_DEFINITE);
    return first;
}

static void plant_tree(struct planter *planter)
{
    void **node[15];
    for (int i = 0; i < 15; i++) {
        node[i] = lost_block(planter, i == 0 ? TRUTH_DEFINITE : TRUTH_INDIRECT);
        if (i > 0)
            node[(i - 1) / 2][1 + i % 2] = node[i];
    }
}

/* Held by a plain interior pointer, with members behind it. */
static void plant_possible(struct planter *planter, uint64_t members)
{
    void **head = lost_block(planter, TRUTH_POSSIBLE), **last = head;
    keep(planter, (char *)head + 33 + rng_below(&planter->rng, 30));
    for (uint64_t i = 0; i < members; i++)
        last = last[1] = lost_block(planter, TRUTH_POSSIBLE);
}

/* A block without more slack than the rules for known shapes forgive: malloc gives up to 31
 * bytes too much when what would remain of a free chunk is too small for another. */
static uint64_t *snug_block(struct planter *planter, size_t size, enum truth_class class)
{
    void *p;
    while (malloc_usable_size(p = block_new(size, class)) - size >= 16) {
        truth_mark(p, TRUTH_LIVE);
        keep(planter, p);
    }
    return p;
}

/* A block that is held by an interior pointer that programs hold on purpose; returns it. */
static void *known_shape(struct planter *planter, uint64_t shape, enum truth_class class)
{
    uint64_t n = 1 + rng_below(&planter->rng, 40);
    uint64_t *block;
    switch (shape % 4) {
    case 0: /* body of a shared string: length, capacity, references, text */
        block = snug_block(planter, 24 + n + 40 + 1, class);
        block[0] = n;
        block[1] = n + 40;
        block[2] = 0;
        return block + 3;
    case 1: /* array cookie: how many elements of 24 bytes */
        block = snug_block(planter, 8 + n * 24, class);
        block[0] = n;
        return block + 1;
    case 2: /* length prefix */
        block = snug_block(planter, 8 + 64 + n * 8, class);
        block[0] = 64 + n * 8;
        return block + 1;
    default: /* second base class */
        block = snug_block(planter, 128, class);
        block[0] = (uint64_t)(uintptr_t)(vtable_first + 2);
        block[6] = (uint64_t)(uintptr_t)(vtable_second + 2);
        return block + 6;
    }
}

static void plant_shared_tail(struct planter *planter)
{
    void **tail = lost_block(planter, TRUTH_INDIRECT);
    lost_block(planter, TRUTH_DEFINITE)[0] = tail;
    lost_block(planter, TRUTH_DEFINITE)[3] = tail;
}

static void plant_interior_member(struct planter *planter)
{
    void **head = lost_block(planter, TRUTH_DEFINITE);
    head[1] = (char *)lost_block(planter, TRUTH_INDIRECT) + 40;
    head[2] = known_shape(planter, rng_below(&planter->rng, 4), TRUTH_INDIRECT);
}

static void plant_one(struct planter *planter, uint64_t i)
{
    struct rng *rng = &planter->rng;
    switch (i % 12) {
    case 0:
        block_new(1 + rng_below(rng, 200), TRUTH_DEFINITE);
        break;
    case 1:
        plant_list(planter, TRUTH_DEFINITE, 2 + rng_below(rng, 8));
        break;
    case 2:
        plant_ring(planter, 2 + rng_below(rng, 5), false);
        break;
    case 3:
        plant_tree(planter);
        break;
    case 4:
        plant_possible(planter, rng_below(rng, 3));
        break;
    case 5 ... 8:
        keep(planter, known_shape(planter, i, TRUTH_LIVE));
        break;
    case 9:
        plant_interior_member(planter);
        break;
    case 10:
        plant_shared_tail(planter);
        break;
    default: {
        void **head = lost_block(planter, TRUTH_DEFINITE);
        head[1] = head; /* holds itself */
        if (option.nested)
            head[2] = plant_ring(planter, 3, true);
    }
    }
    if (i % 100 == 99)
        block_new((200 << 10) + rng_below(rng, 1 << 20), TRUTH_DEFINITE);
}

static void plant(void *arg)
{
    struct planter *planter = arg;
    for (uint64_t i = 0; i < planter->leaks; i++) {
        plant_one(planter, i);
        /* Freed and cached neighbours between the lost ones. */
        void *p = random_block(&planter->rng);
        if (rng_below(&planter->rng, 4))
            block_free(p);
        else
            keep(planter, p);
    }
}

static void *planter_main(void *arg)
{
    struct planter *planter = arg;
    pthread_barrier_wait(&started);
    on_deep_stack(plant, planter);
    wipe_stack();
    planter->vault = NULL;
    return NULL;
}

/* --- main ---------------------------------------------------------------------------- */

static void options(int argc, char **argv)
{
    static const struct option table[] = {
        {"out", 1, NULL, 'o'},       {"seed", 1, NULL, 's'},  {"threads", 1, NULL, 't'},
        {"arenas", 1, NULL, 'a'},    {"steps", 1, NULL, 'n'}, {"leaks", 1, NULL, 'l'},
        {"no-nested", 0, NULL, 'v'}, {"smash", 1, NULL, 'x'}, {NULL, 0, NULL, 0}};
    for (int c; (c = getopt_long(argc, argv, "", table, NULL)) != -1;) {
        uint64_t number = optarg ? strtoull(optarg, NULL, 0) : 0;
        switch (c) {
        case 'o':
            option.out = optarg;
            break;
        case 's':
            option.seed = number;
            break;
        case 't':
            option.threads = number < 2 ? 2 : number > MAX_THREADS ? MAX_THREADS : number;
            break;
        case 'a':
            option.arenas = number;
            break;
        case 'n':
            option.steps = number;
            break;
        case 'l':
            option.leaks = number;
            break;
        case 'v':
            option.nested = false;
            break;
        case 'x':
            option.smash = optarg;
            break;
        default:
            exit(2);
        }
    }
    if (!option.out)
        exit(2);
}

static void start_workers(pthread_t *thread, struct worker *worker)
{
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 1 << 20);
    for (uint64_t i = 0; i < option.threads; i++) {
        worker[i] = (struct worker){.rng = {option.seed * 1000 + i}, .index = i};
        if (pthread_create(&thread[i], &attr, worker_main, &worker[i]))
            abort();
    }
    pthread_attr_destroy(&attr);
}

static uint64_t planters(void)
{
    return (option.threads + 3) / 4;
}

static void run_planters(struct planter *planter, pthread_t *thread)
{
    uint64_t n = planters();
    for (uint64_t i = 0; i < n; i++) {
        void **first = block_new(VAULT * sizeof *first, TRUTH_LIVE);
        memset(first, 0, VAULT * sizeof *first);
        vault[i] = first;
        KEEP(vault);
        planter[i] = (struct planter){
            .rng = {option.seed * 7919 + i}, .index = i, .leaks = option.leaks / n, .vault = first};
        if (pthread_create(&thread[i], NULL, planter_main, &planter[i]))
            abort();
    }
    pthread_barrier_wait(&started);
    for (uint64_t i = 0; i < n; i++)
        pthread_join(thread[i], NULL);
}

/* Damages one block between two others, or what malloc keeps of it, as a program with a bug
 * would. The block at which that happens is marked. */
static void smash(void)
{
    static void *held[64];
    for (int i = 0; i < 64; i++)
        held[i] = block_new(200, TRUTH_LIVE);
    KEEP(held);
    uint64_t *block = held[40], *size = block - 1;
    const char *how = option.smash;
    if (strcmp(how, "mmapped") == 0) {
        static void *own;
        own = block = block_new(64 << 20, TRUTH_LIVE);
        KEEP(&own);
        __asm__("" : "+r"(block)); /* no longer known to come from malloc */
        size = block - 1;
        *size = 0x4141414141414141;
    } else if (strcmp(how, "text") == 0) {
        *size = 0x4141414141414141;
    } else if (strcmp(how, "zero") == 0) {
        *size = 0;
    } else if (strcmp(how, "longer") == 0) { /* ends inside another block */
        *size += 32;
    } else if (strcmp(how, "shorter") == 0) {
        *size -= 32;
    } else if (strcmp(how, "huge") == 0) {
        *size = 0x7fffffff1;
    } else if (strcmp(how, "flags") == 0) {
        *size |= 7;
    } else if (strcmp(how, "overflow") == 0) { /* over the end of the one before */
        memset(block - 2, 'A', 64);
    } else if (strcmp(how, "links") == 0) { /* used after it was freed */
        for (int i = 0; i < 64; i += 2)     /* more than are cached */
            block_free(held[i]);
        block_free(block_new(3000, TRUTH_FREED)); /* into the bins */
        memset(held[20], 'A', 64);
        block = held[20];
    } else {
        exit(2);
    }
    if (strcmp(how, "links") != 0)
        truth_note(block, 0, TRUTH_SMASHED);
}

static void set_up(void *arg)
{
    (void)arg;
    static struct worker worker[MAX_THREADS];
    static struct planter planter[MAX_THREADS];
    static pthread_t thread[MAX_THREADS], planter_thread[MAX_THREADS];
    start_workers(thread, worker);
    run_planters(planter, planter_thread);
    pthread_barrier_wait(&planted);
    for (uint64_t i = 0; i < option.threads; i++)
        if (i % 2 == 0 && i % 8 != 2)
            pthread_join(thread[i], NULL);
    if (option.smash)
        smash();
    usleep(100000); /* the others park */
    VALGRIND_DO_LEAK_CHECK;
    int fd = open(option.out, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0)
        _exit(1);
    write_all(fd, truth.record, truth.n * sizeof *truth.record);
    close(fd);
}

int main(int argc, char **argv)
{
    end_with_parent();
    options(argc, argv);
    if (option.arenas)
        mallopt(M_ARENA_MAX, (int)option.arenas);
    truth_init(8 << 20);
    in_mapping = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    in_shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_key_create(&key, NULL);
    pthread_barrier_init(&started, NULL, (unsigned)(option.threads + planters()) + 1);
    pthread_barrier_init(&planted, NULL, (unsigned)option.threads + 1);
    static void *volatile until_parked;
    until_parked = block_new(40, TRUTH_LIVE);
    on_deep_stack(set_up, NULL);
    wipe_stack();
    uint64_t not_held = ~(uint64_t)(uintptr_t)until_parked;
    until_parked = NULL;
    static char byte[8];
    say("ready\n");
    while (park(SYS_read, 0, (long)byte, 1, not_held) > 0)
        ;
    _exit(0);
}
