/* preload_reader.c - starts a program with the recording library and plays the reader: a plain one,
 * written for the tests, that keeps every block in a tree of its own and believes nothing.
 *
 *   preload_reader [OPTION...] -- COMMAND [ARGUMENT...]
 *
 * -c children, -e at exit, -m mappings, -s BYTES sample, -l LEAST, -M MOST, -n no reader at all, -d
 * only drain, -S print stacks with marks, -k MS be gone after so many milliseconds, -q print
 * nothing of processes. Ends with the status of the program (128 + signal). HX_TEST_PRELOAD is what
 * the user would preload. For each process one line goes to standard error:
 *
 *   pid=.. parent=.. allocs=.. frees=.. reallocs=.. live=.. live_bytes=.. lost=.. unknown=..
 * twice=.. torn=.. nostack=.. rings=.. exit=..
 *
 * unknown: frees of blocks that are not live; twice: allocations of blocks that are live; torn:
 * records that make no sense. All three are 0 when nothing was lost and all is recorded.
 */
#include "record/ring.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <search.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PROCESSES 256

struct block {
    uint64_t address, bytes; /* address 0: empty, 1: removed */
};
struct table {
    struct block *slot;
    size_t size, used, live;
};
struct seen {
    struct hx_region *region;
    struct table table;
    uint64_t allocs, frees, reallocs, unknown, twice, torn, nostack, live_bytes, exit, entries,
        unbalanced, last[HX_RINGS];
    struct by_stack {
        uint64_t allocs, bytes, entries;
    } * by_stack; /* HX_REGION_STACKS */
};
struct event {
    uint64_t when, order;
    const uint8_t *at;
};
struct options {
    uint32_t flags;
    unsigned long long sample, least, most;
    bool none, drain, quiet, stacks;
    long gone_ms;
};

static struct seen *processes[PROCESSES];
static size_t n_processes;

static uint64_t now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static uint64_t now(const struct hx_region *region)
{
    return region->clock ? now_ns() : __builtin_ia32_rdtsc();
}

/* --- live blocks -------------------------------------------------------------------------------
 */

static struct block *find(struct table *table, uint64_t address, bool add)
{
    if (add && table->used * 2 >= table->size) {
        struct table grown = {.size = table->live * 4 + 1024};
        while (grown.size & (grown.size - 1))
            grown.size += grown.size & -grown.size;
        grown.slot = calloc(grown.size, sizeof *grown.slot);
        for (size_t i = 0; i < table->size; i++)
            if (table->slot[i].address > 1)
                *find(&grown, table->slot[i].address, true) = table->slot[i];
        free(table->slot);
        *table = grown;
    }
    if (!table->size)
        return NULL;
    size_t i = (address >> 4) * 0x9e3779b97f4a7c15ULL >> 20 & (table->size - 1);
    for (; table->slot[i].address; i = (i + 1) & (table->size - 1))
        if (table->slot[i].address == address)
            return &table->slot[i];
    if (!add)
        return NULL;
    table->used++;
    table->live++;
    table->slot[i].address = address;
    return &table->slot[i];
}

static void came(struct seen *seen, uint64_t address, uint64_t bytes)
{
    struct block *block = find(&seen->table, address, false);
    if (block) {
        seen->twice++;
        seen->live_bytes -= block->bytes;
    } else {
        block = find(&seen->table, address, true);
    }
    block->bytes = bytes;
    seen->live_bytes += bytes;
}

static bool went(struct seen *seen, uint64_t address, uint64_t *bytes)
{
    struct block *block = find(&seen->table, address, false);
    if (!block)
        return false;
    *bytes = block->bytes;
    seen->live_bytes -= block->bytes;
    block->address = 1;
    seen->table.live--;
    return true;
}

/* --- events --------------------------------------------------------------------------------- */

static size_t length_of(uint64_t head)
{
    switch (HX_EV_KIND(head)) {
    case HX_EV_ALLOC:
        return sizeof(struct hx_ev_alloc);
    case HX_EV_FREE:
        return sizeof(struct hx_ev_free);
    case HX_EV_REALLOC_BEGIN:
        return sizeof(struct hx_ev_realloc_begin);
    case HX_EV_REALLOC_END:
        return sizeof(struct hx_ev_realloc_end);
    case HX_EV_MAPS:
    case HX_EV_FORK:
    case HX_EV_EXEC:
    case HX_EV_EXIT:
    case HX_EV_ENTRY:
    case HX_EV_UNBALANCED:
        return sizeof(struct hx_ev_word);
    default:
        return 0;
    }
}

static void stack_of(struct seen *seen, uint64_t key)
{
    if (key < HX_EV_KEY_FIRST || key - HX_EV_KEY_FIRST >= HX_REGION_STACKS) {
        seen->nostack++;
        return;
    }
    const struct hx_region_stack *stack = &seen->region->stack[key - HX_EV_KEY_FIRST];
    if (!atomic_load_explicit(&stack->n, memory_order_acquire))
        seen->torn++;
}

static struct by_stack *at_stack(struct seen *seen, uint64_t key)
{
    static struct by_stack none;
    if (!seen->by_stack)
        seen->by_stack = calloc(HX_REGION_STACKS, sizeof *seen->by_stack);
    return key < HX_EV_KEY_FIRST || key - HX_EV_KEY_FIRST >= HX_REGION_STACKS
               ? &none
               : &seen->by_stack[key - HX_EV_KEY_FIRST];
}

static void apply(struct seen *seen, const uint8_t *at)
{
    const struct hx_ev_word *word = (const void *)at;
    const struct hx_ev_alloc *alloc = (const void *)at;
    const struct hx_ev_free *gone = (const void *)at;
    const struct hx_ev_realloc_end *end = (const void *)at;
    uint64_t bytes;
    bool sampled = seen->region->sample_bytes;
    switch (HX_EV_KIND(alloc->head)) {
    case HX_EV_ALLOC:
        seen->allocs++;
        if (alloc->usable && alloc->usable < alloc->requested)
            seen->torn++;
        stack_of(seen, alloc->stack);
        at_stack(seen, alloc->stack)->allocs++;
        at_stack(seen, alloc->stack)->bytes += alloc->requested;
        came(seen, alloc->address, alloc->requested);
        break;
    case HX_EV_FREE:
        seen->frees++;
        seen->unknown += !went(seen, gone->address, &bytes);
        break;
    case HX_EV_REALLOC_BEGIN:
        seen->unknown += !went(seen, gone->address, &bytes) && !sampled;
        break;
    case HX_EV_REALLOC_END:
        seen->reallocs++;
        if (end->address) {
            stack_of(seen, end->stack);
            came(seen, end->address, end->requested);
        } else if (!end->freed) {
            came(seen, end->old, 0);
        }
        break;
    case HX_EV_EXIT:
        seen->exit++;
        break;
    case HX_EV_ENTRY:
        stack_of(seen, word->word);
        at_stack(seen, word->word)->entries++;
        seen->entries++;
        break;
    case HX_EV_UNBALANCED:
        seen->unbalanced += word->word;
        break;
    }
}

static int by_when(const void *a, const void *b)
{
    const struct event *x = a, *y = b;
    return x->when != y->when ? (x->when < y->when ? -1 : 1) : (x->order < y->order ? -1 : 1);
}

static struct event *events;
static size_t n_events, room;

/* Takes what stands in one ring before `until`. */
static uint64_t gather(struct seen *seen, uint32_t index, uint64_t until)
{
    struct hx_ring *ring = &seen->region->ring[index];
    uint64_t at = atomic_load(&ring->tail);
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
    if (head < at || head - at > HX_RING_BYTES) {
        seen->torn++;
        return at;
    }
    while (at < head) {
        const uint8_t *record = ring->bytes + at % HX_RING_BYTES;
        uint64_t word = *(const uint64_t *)record;
        if (HX_EV_KIND(word) == HX_EV_PAD) {
            at += HX_RING_BYTES - at % HX_RING_BYTES;
            continue;
        }
        size_t n = length_of(word);
        if (!n || at + n > head) {
            seen->torn++;
            return head;
        }
        if (HX_EV_WHEN(word) >= until)
            break;
        if (HX_EV_WHEN(word) < seen->last[index])
            seen->torn++;
        seen->last[index] = HX_EV_WHEN(word);
        if (n_events == room) {
            room = room * 2 + 65536;
            events = realloc(events, room * sizeof *events);
        }
        events[n_events] = (struct event){HX_EV_WHEN(word), n_events, record};
        n_events++;
        at += n;
    }
    return at;
}

static bool has_page(const void *address)
{
    return madvise((void *)((uintptr_t)address & ~(uintptr_t)4095), 4096, MADV_POPULATE_READ) == 0;
}

static bool pump_one(struct seen *seen, bool drain)
{
    struct hx_region *region = seen->region;
    static uint64_t tails[HX_RINGS];
    uint64_t until = now(region) & (UINT64_MAX >> 8);
    uint32_t n = atomic_load(&region->rings_used);
    bool idle = true;
    n = n < HX_RINGS ? n : HX_RINGS;
    for (uint32_t i = 0; i < n; i++) /* a full tmpfs has no page for a ring that got none */
        if (!has_page(&region->ring[i]))
            n = i;
    atomic_store(&region->reader_ns, now_ns());
    n_events = 0;
    for (uint32_t i = 0; i < n; i++) {
        tails[i] = drain ? atomic_load(&region->ring[i].head) : gather(seen, i, until);
        idle &= tails[i] == atomic_load(&region->ring[i].tail);
    }
    if (n_events)
        qsort(events, n_events, sizeof *events, by_when);
    for (size_t i = 0; i < n_events; i++)
        apply(seen, events[i].at);
    for (uint32_t i = 0; i < n; i++) {
        struct hx_ring *ring = &region->ring[i];
        uint32_t left = HX_RING_LEFT;
        bool was_left = atomic_load(&ring->state) == HX_RING_LEFT;
        atomic_store_explicit(&ring->tail, tails[i], memory_order_release);
        if (was_left && tails[i] == atomic_load(&ring->head))
            atomic_compare_exchange_strong(&ring->state, &left, HX_RING_FREE);
    }
    uint32_t asked = atomic_load(&region->maps_requested);
    if (asked != atomic_load(&region->maps_done)) {
        atomic_store(&region->maps_done, asked);
        syscall(SYS_futex, &region->maps_done, FUTEX_WAKE, 1, NULL);
    }
    if (idle && atomic_load(&region->exit_requested) && !atomic_load(&region->exit_done))
        atomic_store(&region->exit_done, 1);
    return idle;
}

static bool known(const struct hx_region *region)
{
    for (size_t i = 0; i < n_processes; i++)
        if (processes[i]->region->pid == region->pid &&
            processes[i]->region->began == region->began)
            return true;
    return false;
}

static bool look(int folder)
{
    int fd = dup(folder);
    DIR *dir = fdopendir(fd);
    bool found = false;
    rewinddir(dir);
    for (struct dirent *entry; (entry = readdir(dir)) && n_processes < PROCESSES;) {
        int file = entry->d_name[0] == '.' ? -1 : openat(folder, entry->d_name, O_RDWR | O_CLOEXEC);
        struct stat st;
        if (file < 0)
            continue;
        if (fstat(file, &st) == 0 && (size_t)st.st_size == sizeof(struct hx_region)) {
            struct hx_region *region = mmap(NULL, sizeof *region, PROT_READ | PROT_WRITE,
                                            MAP_SHARED | MAP_NORESERVE, file, 0);
            if (region != MAP_FAILED && has_page(region) &&
                __atomic_load_n(&region->magic, __ATOMIC_ACQUIRE) == HX_REGION_MAGIC &&
                !known(region)) {
                processes[n_processes] = calloc(1, sizeof **processes);
                processes[n_processes++]->region = region;
                unlinkat(folder, entry->d_name, 0);
                found = true;
            }
        }
        close(file);
    }
    closedir(dir);
    return found;
}

static void print(const struct seen *seen)
{
    const struct hx_region *region = seen->region;
    uint64_t lost = atomic_load(&region->no_ring_allocs) + atomic_load(&region->no_ring_frees);
    for (uint32_t i = 0;
         i < HX_RINGS && i < atomic_load(&region->rings_used) && has_page(&region->ring[i]); i++)
        lost +=
            atomic_load(&region->ring[i].lost_allocs) + atomic_load(&region->ring[i].lost_frees);
    fprintf(stderr,
            "pid=%d parent=%d execed=%u allocs=%lu frees=%lu reallocs=%lu live=%zu live_bytes=%lu "
            "lost=%lu unknown=%lu twice=%lu torn=%lu nostack=%lu rings=%u stacks=%lu exit=%lu "
            "entries=%lu unbalanced=%lu\n",
            region->pid, region->parent, region->execed, seen->allocs, seen->frees, seen->reallocs,
            seen->table.live, seen->live_bytes, lost, seen->unknown, seen->twice, seen->torn,
            seen->nostack, atomic_load(&region->rings_used), atomic_load(&region->stacks_used),
            seen->exit, seen->entries, seen->unbalanced);
}

static void print_word(const struct hx_region *region, uint64_t word)
{
    uint64_t value = HX_EV_VALUE(word);
    if (HX_EV_TAG(word) == HX_EV_REGION)
        fprintf(stderr, " <%s>",
                value && value <= HX_REGION_CENTRES ? region->centres.centre[value - 1].text : "?");
    else if (HX_EV_TAG(word) == HX_EV_DEFERRED)
        fprintf(stderr, " @%lu", value ? value - HX_EV_KEY_FIRST : 0);
    else
        fprintf(stderr, " %#lx", word);
}

static void print_stacks(const struct seen *seen)
{
    const struct hx_region *region = seen->region;
    for (uint64_t i = 0; seen->by_stack && i < atomic_load(&region->stacks_used); i++) {
        const struct hx_region_stack *stack = &region->stack[i];
        const struct by_stack *costs = &seen->by_stack[i];
        fprintf(stderr, "pid=%d stack=%lu allocs=%lu bytes=%lu entries=%lu:", region->pid, i,
                costs->allocs, costs->bytes, costs->entries);
        for (uint32_t j = 0; j < stack->n; j++)
            print_word(region, region->frame[stack->first + j]);
        fprintf(stderr, "\n");
    }
}

/* --- the program ---------------------------------------------------------------------------------
 */

static pid_t start(char **argv, const char *folder, const struct options *options)
{
    char value[512], library[512];
    const char *build = getenv("HX_BUILDDIR"), *user = getenv("HX_TEST_PRELOAD");
    snprintf(value, sizeof value, "%s:%x:%llx:%llx:%llx", folder, options->flags, options->sample,
             options->least, options->most);
    snprintf(library, sizeof library, "%s/libheapx-record.so%s%s", build ? build : ".",
             user ? ":" : "", user ? user : "");
    pid_t pid = fork();
    if (pid == 0) {
        setenv(HX_RUN_ENV, value, 1);
        setenv("LD_PRELOAD", library, 1);
        execvp(argv[0], argv);
        _exit(127);
    }
    return pid;
}

static void pump(pid_t pid, int folder, const struct options *options, int *status)
{
    uint64_t began = now_ns(), last_look = 0;
    bool ended = false;
    for (unsigned idle_rounds = 0; !ended || idle_rounds < 2;) {
        bool idle = true;
        ended = ended || waitpid(pid, status, WNOHANG) == pid;
        if (now_ns() - last_look > 500000 || ended) {
            idle = !look(folder);
            last_look = now_ns();
        }
        for (size_t i = 0; i < n_processes; i++)
            idle &= pump_one(processes[i], options->drain);
        idle_rounds = idle ? idle_rounds + 1 : 0;
        if (idle && !ended)
            usleep(200);
        if (options->gone_ms && now_ns() - began > (uint64_t)options->gone_ms * 1000000)
            break; /* as one that was killed: it says nothing */
    }
}

int main(int argc, char **argv)
{
    struct options options = {0};
    char folder[] = "/dev/shm/heapx-test-XXXXXX";
    int status = 0;
    for (int c; (c = getopt(argc, argv, "+cems:l:M:ndk:qS")) != -1;)
        switch (c) {
        case 'c':
            options.flags |= HX_RUN_CHILDREN;
            break;
        case 'e':
            options.flags |= HX_RUN_AT_EXIT;
            break;
        case 'm':
            options.flags |= HX_RUN_MAPPINGS;
            break;
        case 's':
            options.sample = strtoull(optarg, NULL, 0);
            break;
        case 'l':
            options.least = strtoull(optarg, NULL, 0);
            break;
        case 'M':
            options.most = strtoull(optarg, NULL, 0);
            break;
        case 'n':
            options.none = true;
            break;
        case 'd':
            options.drain = true;
            break;
        case 'k':
            options.gone_ms = atol(optarg);
            break;
        case 'q':
            options.quiet = true;
            break;
        case 'S':
            options.stacks = true;
            break;
        default:
            return 2;
        }
    if (optind >= argc || !mkdtemp(folder))
        return 2;
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    pid_t pid = start(argv + optind, folder, &options);
    if (!options.none)
        pump(pid, fd, &options, &status);
    if (options.none || options.gone_ms)
        waitpid(pid, &status, 0);
    if (options.none) {
        look(fd);
        for (size_t i = 0; i < n_processes; i++)
            pump_one(processes[i], false);
    }
    for (size_t i = 0; i < n_processes && !options.quiet; i++)
        print(processes[i]);
    for (size_t i = 0; i < n_processes && options.stacks; i++)
        print_stacks(processes[i]);
    for (int i = 0; i < 2; i++) {
        DIR *dir = fdopendir(dup(fd));
        rewinddir(dir);
        for (struct dirent *entry; (entry = readdir(dir));)
            unlinkat(fd, entry->d_name, 0);
        closedir(dir);
    }
    rmdir(folder);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
