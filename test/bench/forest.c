/* forest.c - the large synthetic target of the benchmark.
 *
 *   forest [--objects N] [--seed N] [--stray N] [--tied 1]
 *   forest --read BYTES        yardstick: seconds to read that much memory once, in order
 *
 * N (10,980,000) live and lost blocks in about 1 GB: lists, hash maps of strings, trees
 * whose nodes begin with a vtable pointer, nodes that vectors share, buffers; one block in
 * 48 is lost, some in cycles; one in twenty more was freed again. Structures grow side by
 * side, so that neighbours in memory do not belong together. Prints what it built and
 * "ready", then obeys lines on stdin: "gap" prints and resets the longest time, in
 * microseconds, that a thread which wakes every 200 us did not run: a stop as the target
 * itself sees it; "grow N" frees N / 4 blocks of the lists, makes N more and prints "grown"; "quit"
 * or the end of stdin ends it.
 *
 * --stray N: as heaps are that programs have worked on. N blocks in a million have a stale word, to
 * the start of any block or into it: behind the request, or in the dead half of a short string,
 * which then lies in its own block. Nodes of trees know their parents, and they and buffers reach
 * one ring of a block in 200. --tied 1: the same heap without the stale words.
 */
#include "../live/victim.h"

#include <pthread.h>
#include <time.h>

enum { LISTS = 4096, MAPS = 512, MAP_BUCKETS = 4096, TREES = 1024, POOL = 1 << 16 };

struct list_node {
    struct list_node *next, *prev;
    uint64_t value[2];
};
struct entry {
    struct entry *next;
    char *key, *value;
    uint64_t hash;
};
struct map {
    uint64_t entries;
    struct entry *bucket[MAP_BUCKETS];
};
struct tree_node {
    const void *vtable;
    struct tree_node *left, *right;
    uint64_t key, payload[2];
};
struct shared {
    const void *vtable;
    uint64_t references;
    void *detail;
};
struct vector {
    struct vector *next;
    uint64_t n;
    struct shared *item[];
};

static struct list_node *list[LISTS];
static struct map *map[MAPS];
static struct tree_node *tree[TREES];
static struct shared *pool[POOL];
static struct vector *vectors;
static struct buffer {
    struct buffer *next;
    uint64_t bytes, body[];
} * buffers;

static struct list_node *ring;

static uint64_t blocks, block_bytes, lost, lost_rings;
static struct rng rng = {1};

enum { SEEN = 1 << 14 };
static uint64_t stray;                   /* blocks in a million */
static bool tied;                        /* as with strays, be there any or not */
static struct rng stray_rng = {2};       /* of its own: without strays the forest stays as it is */
static uint64_t seen[SEEN], rings[SEEN]; /* not held: inverted */

static void virtual_a(void)
{
}
static void virtual_b(void)
{
}
static const void *const vtable[2][4] = {
    {NULL, NULL, (const void *)virtual_a, (const void *)virtual_b},
    {NULL, NULL, (const void *)virtual_b, (const void *)virtual_a}};

static void *block(size_t bytes)
{
    void *p = need(malloc(bytes));
    fill(p);
    blocks++;
    block_bytes += malloc_usable_size(p);
    return p;
}

/* A stale word, NULL as a rule: the start of a block, or a place within it. */
static void *stray_word(void)
{
    if (!tied || rng_below(&stray_rng, 1000000) >= stray)
        return NULL;
    return (char *)~seen[rng_below(&stray_rng, SEEN)] + 8 * rng_below(&stray_rng, 2);
}

/* A block that will be held: what lies behind the request may be stale. */
static void *held_block(size_t bytes)
{
    char *p = block(bytes);
    void *word = stray_word();
    size_t slack = (bytes + 7) & ~(size_t)7;
    if (word && slack + 8 <= malloc_usable_size(p))
        memcpy(p + slack, &word, 8);
    seen[blocks % SEEN] = ~(uint64_t)(uintptr_t)p;
    return p;
}

/* What most others reach: there before them. */
static void grow_ring(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        struct list_node *node = block(sizeof *node), *next = ring ? ring : node;
        *node = (struct list_node){.next = next, .prev = ring ? ring->prev : node, .value = {i}};
        node->prev->next = next->prev = node;
        ring = node;
        rings[i % SEEN] = ~(uint64_t)(uintptr_t)node;
    }
}

static uint64_t node_of_ring(void)
{
    uint64_t not_node = rings[rng_below(&stray_rng, SEEN)];
    return not_node ? ~not_node : 0;
}

static void grow_list(void)
{
    struct list_node **head = &list[rng_below(&rng, LISTS)], *node = held_block(sizeof *node);
    *node = (struct list_node){.next = *head, .value = {rng_next(&rng) | (uint64_t)1 << 63}};
    if (*head)
        (*head)->prev = node;
    *head = node;
}

/* A string that lies in its own block. */
static char *short_string(void)
{
    struct {
        char *at;
        uint64_t length;
        char text[8];
        void *dead;
    } *s = held_block(sizeof *s);
    uint64_t length = rng_below(&stray_rng, 8);
    *s = (__typeof__(*s)){.at = s->text, .length = length, .dead = stray_word()};
    memset(s->text, 'x', length);
    return (char *)s;
}

static char *string(void)
{
    size_t n = 8 + rng_below(&rng, 40);
    if (tied && n < 16)
        return short_string();
    char *s = held_block(n);
    snprintf(s, n, "%lx%lx", rng_next(&rng), rng_next(&rng));
    return s;
}

static void grow_map(void)
{
    struct map **at = &map[rng_below(&rng, MAPS)];
    if (!*at) {
        *at = held_block(sizeof **at);
        memset(*at, 0, sizeof **at);
    }
    uint64_t hash = rng_next(&rng) | (uint64_t)1 << 63;
    struct entry **bucket = &(*at)->bucket[hash % MAP_BUCKETS], *entry = held_block(sizeof *entry);
    *entry = (struct entry){*bucket, string(), string(), hash};
    *bucket = entry;
    (*at)->entries++;
}

static void grow_tree(void)
{
    struct tree_node **at = &tree[rng_below(&rng, TREES)], *up = NULL;
    struct tree_node *node = held_block(sizeof *node);
    *node = (struct tree_node){.vtable = &vtable[rng_below(&rng, 2)][2],
                               .key = rng_next(&rng) | (uint64_t)1 << 63};
    while (*at) {
        up = *at;
        at = node->key < up->key ? &up->left : &up->right;
    }
    *at = node;
    if (tied) {
        node->payload[0] = (uint64_t)(uintptr_t)up;
        node->payload[1] = node_of_ring();
    }
}

static void grow_shared(void)
{
    struct shared **slot = &pool[rng_below(&rng, POOL)];
    if (!*slot) {
        *slot = held_block(sizeof **slot);
        **slot = (struct shared){.vtable = &vtable[0][2], .detail = held_block(24)};
    }
    uint64_t n = 2 + rng_below(&rng, 14);
    struct vector *vector = held_block(sizeof *vector + n * sizeof vector->item[0]);
    *vector = (struct vector){vectors, n};
    for (uint64_t i = 0; i < n; i++) {
        vector->item[i] = pool[rng_below(&rng, POOL)];
        if (vector->item[i])
            vector->item[i]->references++;
    }
    vectors = vector;
}

static void grow_buffer(void)
{
    size_t n = 64 + rng_below(&rng, rng_below(&rng, 16) ? 1120 : 8000);
    struct buffer *buffer = held_block(n);
    *buffer = (struct buffer){buffers, n};
    if (tied)
        buffer->body[0] = node_of_ring();
    buffers = buffer;
}

/* A chain of up to four that nobody holds; one in three closes to a ring. */
static void lose(void)
{
    uint64_t n = 1 + rng_below(&rng, 4);
    void **first = block(40), **last = first;
    for (uint64_t i = 1; i < n; i++)
        last = last[1] = block(40);
    if (rng_below(&rng, 3) == 0) {
        last[1] = first;
        lost_rings++;
    }
    lost += n;
}

static void grow(void *arg)
{
    uint64_t want = *(uint64_t *)arg;
    if (tied && !ring)
        grow_ring(want / 200);
    while (blocks < want) {
        uint64_t dice = rng_below(&rng, 10000);
        if (dice < 4400)
            grow_list();
        else if (dice < 6400)
            grow_map();
        else if (dice < 8700)
            grow_tree();
        else if (dice < 9150)
            grow_shared();
        else if (dice < 9879)
            grow_buffer();
        else
            lose();
        if (dice % 20 == 0)
            free(need(malloc(16 + dice)));
    }
}

/* --- the clock thread -------------------------------------------------------------------- */

static atomic_uint_fast64_t longest_ns;

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void *watch(void *arg)
{
    (void)arg;
    for (uint64_t last = now_ns();;) {
        nanosleep(&(struct timespec){0, 200000}, NULL);
        uint64_t now = now_ns();
        if (now - last > longest_ns)
            longest_ns = now - last;
        last = now;
    }
    return NULL;
}

/* So that two snapshots differ: the lists lose blocks, everything gains some. */
static void change(uint64_t n)
{
    for (uint64_t i = 0; i < n / 4; i++) {
        struct list_node **head = &list[rng_below(&rng, LISTS)], *node = *head;
        if (!node)
            continue;
        *head = node->next;
        if (*head)
            (*head)->prev = NULL;
        free(node);
        blocks--;
    }
    uint64_t want = blocks + n;
    on_deep_stack(grow, &want);
    wipe_stack();
    say("grown\n");
}

static void obey(void)
{
    char line[64];
    ssize_t n;
    while ((n = read(0, line, sizeof line - 1)) > 0) {
        line[n] = 0;
        if (strncmp(line, "gap", 3) == 0)
            dprintf(1, "gap %lu\n", (unsigned long)(atomic_exchange(&longest_ns, 0) / 1000));
        else if (strncmp(line, "grow ", 5) == 0)
            change(strtoull(line + 5, NULL, 10));
        else if (strncmp(line, "quit", 4) == 0)
            return;
        else
            say("what?\n");
    }
}

static int yardstick(uint64_t bytes)
{
    uint64_t *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (at == MAP_FAILED)
        return 1;
    uint64_t best = UINT64_MAX, sum = 0;
    for (int round = 0; round < 3; round++) {
        uint64_t begin = now_ns();
        for (uint64_t i = 0; i < bytes / 8; i++)
            sum += at[i];
        KEEP(sum);
        uint64_t took = now_ns() - begin;
        best = took < best ? took : best;
    }
    dprintf(1, "%.6f\n", (double)best / 1e9);
    return 0;
}

int main(int argc, char **argv)
{
    uint64_t want = 10980000;
    end_with_parent();
    for (int i = 1; i + 1 < argc; i += 2) {
        uint64_t n = strtoull(argv[i + 1], NULL, 0);
        if (strcmp(argv[i], "--objects") == 0)
            want = n;
        else if (strcmp(argv[i], "--seed") == 0)
            rng.state = n;
        else if (strcmp(argv[i], "--stray") == 0)
            tied = (stray = n) != 0 || tied;
        else if (strcmp(argv[i], "--tied") == 0)
            tied = tied || n != 0;
        else if (strcmp(argv[i], "--read") == 0)
            return yardstick(n);
        else
            return 2;
    }
    on_deep_stack(grow, &want);
    wipe_stack();
    KEEP(list);
    KEEP(map);
    KEEP(tree);
    KEEP(pool);
    KEEP(&vectors);
    KEEP(&buffers);
    KEEP(&ring);
    pthread_t thread;
    if (pthread_create(&thread, NULL, watch, NULL))
        return 1;
    dprintf(1, "objects %lu bytes %lu lost %lu rings %lu\nready\n", blocks, block_bytes, lost,
            lost_rings);
    obey();
    _exit(0);
}
