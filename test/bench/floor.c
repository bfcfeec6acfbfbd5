/* floor.c - reads, walks, indexes and marks the heap of a process as plainly as can be: what all
 * that heapx does beside it is measured against.
 *
 *     floor PID
 *
 * For one arena of glibc's malloc, on one thread: writable memory in calls of 1 MiB, chunk after
 * chunk, a bitmap of their starts with ranks, and a depth-first search over words that point into
 * a chunk, from all that is no heap. Prints "STAGE SECONDS" for each, and "objects", "marked".
 */
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>

enum { MAPPINGS = 4096, CALL = 1 << 20, HEAD = 16 };

struct mapping {
    uint64_t start, end;
    uint8_t *bytes;
    bool heap;
    uint64_t *bit;  /* for each 16 bytes: a block begins there */
    uint32_t *rank; /* blocks before each 64 of these */
};

static struct mapping mapping[MAPPINGS];
static size_t n_mappings;
static uint64_t *start, *size, *seen;
static uint32_t *stack;
static size_t n_blocks, room, depth;

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

static void *take(size_t bytes)
{
    void *p = mmap(NULL, bytes + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        exit(1);
    madvise(p, bytes, MADV_HUGEPAGE);
    return p;
}

static void find_mappings(int pid)
{
    char path[64], line[512], prot[8];
    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    FILE *maps = fopen(path, "r");
    while (maps && fgets(line, sizeof line, maps) && n_mappings < MAPPINGS) {
        struct mapping *m = &mapping[n_mappings];
        bool ours = sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s", &m->start, &m->end, prot) == 3 &&
                    strncmp(prot, "rw-p", 4) == 0 && !strstr(line, "[v");
        m->heap = strstr(line, "[heap]") != NULL;
        n_mappings += ours;
    }
    if (maps)
        fclose(maps);
}

static void read_mappings(int pid)
{
    uint64_t all = 0;
    for (size_t i = 0; i < n_mappings; i++)
        all += mapping[i].end - mapping[i].start;
    uint8_t *to = take(all);
    for (size_t i = 0; i < n_mappings; i++) {
        struct mapping *m = &mapping[i];
        m->bytes = to;
        to += m->end - m->start;
        for (uint64_t at = m->start; at < m->end; at += CALL) {
            size_t n = m->end - at < CALL ? m->end - at : CALL;
            struct iovec local = {m->bytes + (at - m->start), n}, remote = {(void *)at, n};
            if (process_vm_readv(pid, &local, 1, &remote, 1, 0) < 0)
                break;
        }
    }
}

static uint64_t word_at(const struct mapping *m, uint64_t at)
{
    uint64_t word;
    memcpy(&word, m->bytes + (at - m->start), sizeof word);
    return word;
}

static void add_block(uint64_t at, uint64_t bytes)
{
    if (n_blocks == room)
        return;
    start[n_blocks] = at;
    size[n_blocks++] = bytes;
}

static void walk_heap(struct mapping *m)
{
    for (uint64_t at = m->start, next; at + 2 * HEAD <= m->end; at = next) {
        uint64_t chunk = word_at(m, at + 8) & ~(uint64_t)7;
        next = at + chunk;
        if (chunk < 2 * HEAD || next + HEAD > m->end)
            return;
        if (word_at(m, next + 8) & 1) /* the one before it is in use */
            add_block(at + HEAD, chunk - 8);
    }
}

/* Chunks of their own, one behind the other. */
static void walk_mapped(struct mapping *m)
{
    for (uint64_t at = m->start; at + 2 * HEAD <= m->end;) {
        uint64_t head = word_at(m, at + 8), chunk = head & ~(uint64_t)7;
        if ((head & 7) != 2 || chunk % 4096 || chunk > m->end - at)
            return;
        m->heap = true;
        add_block(at + HEAD, chunk - HEAD);
        at += chunk;
    }
}

static void walk(void)
{
    for (size_t i = 0; i < n_mappings; i++)
        room += (mapping[i].end - mapping[i].start) / (2 * HEAD);
    start = take(room * sizeof *start);
    size = take(room * sizeof *size);
    for (size_t i = 0; i < n_mappings; i++) {
        if (mapping[i].heap)
            walk_heap(&mapping[i]);
        else
            walk_mapped(&mapping[i]);
    }
}

static struct mapping *mapping_at(uint64_t at)
{
    size_t low = 0, high = n_mappings;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (mapping[middle].end <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n_mappings && at >= mapping[low].start ? &mapping[low] : NULL;
}

static void make_index(void)
{
    size_t block = 0;
    for (size_t i = 0; i < n_mappings; i++) {
        struct mapping *m = &mapping[i];
        if (!m->heap)
            continue;
        size_t words = (m->end - m->start) / HEAD / 64 + 1;
        m->bit = take(words * sizeof *m->bit);
        m->rank = take(words * sizeof *m->rank);
        size_t first = block;
        for (; block < n_blocks && start[block] < m->end; block++) {
            uint64_t bit = (start[block] - m->start) / HEAD;
            m->bit[bit / 64] |= (uint64_t)1 << bit % 64;
        }
        for (size_t w = 0, n = first; w < words; n += (size_t)__builtin_popcountll(m->bit[w++]))
            m->rank[w] = (uint32_t)n;
    }
}

/* The block that an address points into; SIZE_MAX: none. */
static size_t block_at(uint64_t at, const struct mapping **hint)
{
    const struct mapping *m = *hint;
    if (!m || at < m->start || at >= m->end)
        m = mapping_at(at);
    if (!m || !m->heap)
        return SIZE_MAX;
    *hint = m;
    uint64_t bit = (at - m->start) / HEAD, w = bit / 64;
    uint64_t below = m->bit[w] & (UINT64_MAX >> (63 - bit % 64));
    size_t n = m->rank[w] + (size_t)__builtin_popcountll(below);
    if (!n)
        return SIZE_MAX;
    return at - start[n - 1] < size[n - 1] ? n - 1 : SIZE_MAX;
}

static void scan(const struct mapping *m, uint64_t from, uint64_t to, uint64_t low, uint64_t high)
{
    const struct mapping *hint = NULL;
    for (uint64_t at = from; at + 8 <= to; at += 8) {
        uint64_t value = word_at(m, at);
        if (value - low >= high - low)
            continue;
        size_t block = block_at(value, &hint);
        if (block == SIZE_MAX || seen[block / 64] >> block % 64 & 1)
            continue;
        seen[block / 64] |= (uint64_t)1 << block % 64;
        stack[depth++] = (uint32_t)block;
    }
}

static size_t mark(void)
{
    size_t marked = 0;
    const uint64_t low = start[0], high = start[n_blocks - 1] + size[n_blocks - 1];
    const struct mapping *hint = NULL;
    seen = take((n_blocks / 64 + 1) * sizeof *seen);
    stack = take((n_blocks + 1) * sizeof *stack);
    for (size_t i = 0; i < n_mappings; i++)
        if (!mapping[i].heap)
            scan(&mapping[i], mapping[i].start, mapping[i].end, low, high);
    for (; depth; marked++) {
        size_t block = stack[--depth];
        if (!hint || start[block] < hint->start || start[block] >= hint->end)
            hint = mapping_at(start[block]);
        scan(hint, start[block], start[block] + size[block], low, high);
    }
    return marked;
}

int main(int argc, char **argv)
{
    int pid = argc > 1 ? atoi(argv[1]) : 0;
    if (!pid || kill(pid, SIGSTOP) != 0)
        return 2;
    double began = now(), at[4];
    find_mappings(pid);
    read_mappings(pid);
    kill(pid, SIGCONT);
    at[0] = now();
    walk();
    at[1] = now();
    if (!n_blocks)
        return 1;
    make_index();
    at[2] = now();
    size_t marked = mark();
    at[3] = now();
    printf("read %.3f\nwalk %.3f\nindex %.3f\nmark %.3f\nall %.3f\nobjects %zu\nmarked %zu\n",
           at[0] - began, at[1] - at[0], at[2] - at[1], at[3] - at[2], at[3] - began, n_blocks,
           marked);
    return 0;
}
