/* region.c - the memory that is shared with heapx, and what the library has for itself.
 *
 * All of it is one range of addresses, reserved at the start and made usable piece by piece: from
 * below an unusable page, the memory of ring writers (the first one highest), that of the unwinder,
 * that of samples, and then the parts of the region. Private memory ends where the region begins;
 * by that heapx knows that it is ours, and no root of the program.
 */
#include "record/preload/preload.h"

#include <cpuid.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- how much ------------------------------------------------------------------------------- */

/* What is mapped of each part. Address space only; but that can be limited, too. */
struct shape {
    size_t slot, unwind, samples; /* private */
    uint32_t rings;
    uint64_t part[5]; /* bytes of index, stacks, frames, centres, rings */
};
static const uint64_t part_at[5] = {
    offsetof(struct hx_region, index), offsetof(struct hx_region, stack),
    offsetof(struct hx_region, frame), offsetof(struct hx_region, centres),
    offsetof(struct hx_region, ring)};

/* What consists of pieces: all but the rings. */
#define N_TABLES 4
static void get_tables(struct hx_pages *ret[N_TABLES])
{
    struct hx_tables *tables = &hx_process.tables;
    ret[0] = &tables->index;
    ret[1] = &tables->stacks;
    ret[2] = &tables->frames;
    ret[3] = &hx_process.centres;
}
#define HEAD_BYTES offsetof(struct hx_region, index)

#define PLENTY   ((uint64_t)4 << 30)
#define SCARCE   ((uint64_t)4 << 20)
#define SHARE    8 /* of a limit; the rest is the program's */
#define WHOLE(n) (((n) + 4095) & ~(uint64_t)4095)

static uint64_t at_most(uint64_t a, uint64_t b)
{
    return WHOLE(a < b ? a : b);
}

static struct shape shape_for(uint64_t budget)
{
    struct shape shape = {.slot = 4096 + WHOLE(hx_unwind_thread_bytes()),
                          .unwind = WHOLE(hx_unwind_bytes())};
    uint64_t rings = budget / 2 / (shape.slot + sizeof(struct hx_ring));
    shape.rings = rings > HX_RINGS ? HX_RINGS : rings < 2 ? 2 : (uint32_t)rings;
    bool plenty = budget >= PLENTY;
    uint64_t tables = plenty ? UINT64_MAX : budget / 4;
    uint32_t levels = plenty || budget >= 256U << 20 ? 4 : budget >= 64U << 20 ? 3 : 2;
    shape.part[0] = WHOLE(hx_index_bytes(levels));
    shape.part[1] = at_most(tables / 8, sizeof((struct hx_region *)0)->stack);
    shape.part[2] = at_most(tables, sizeof((struct hx_region *)0)->frame);
    const uint64_t centres = sizeof(struct hx_region_centres);
    shape.part[3] = at_most(tables / 8 + sizeof((struct hx_region_centres *)0)->index, centres);
    shape.part[4] = shape.rings * sizeof(struct hx_ring);
    if (hx_process.sample_bytes)
        shape.samples = hx_sample_bytes(plenty ? UINT64_MAX : budget / 16);
    return shape;
}

struct hx_region_room hx_region_room(uint64_t limit)
{
    struct shape shape = shape_for(limit / SHARE < PLENTY ? limit / SHARE : PLENTY);
    return (struct hx_region_room){shape.rings, shape.part[1], shape.part[2]};
}

static uint64_t private_bytes(const struct shape *shape)
{
    return 4096 + shape->slot * shape->rings + shape->unwind + shape->samples;
}

static uint64_t shared_bytes(const struct shape *shape)
{
    uint64_t bytes = HEAD_BYTES;
    for (size_t i = 0; i < sizeof shape->part / sizeof *shape->part; i++)
        bytes += shape->part[i];
    return bytes;
}

static uint64_t limit_of(int resource)
{
    struct rlimit limit;
    return HX_SYS(SYS_prlimit64, 0, resource, NULL, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

/* --- reserving ------------------------------------------------------------------------------ */

static bool is_error(long ret)
{
    return ret < 0 && ret > -4096;
}

static bool reserve_region(const struct shape *shape)
{
    struct hx_process *process = &hx_process;
    uint64_t own = private_bytes(shape), all = own + shared_bytes(shape);
    long p = hx_sys6(SYS_mmap, 0, (long)all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                     -1, 0);
    if (is_error(p))
        return false;
    HX_SYS(SYS_madvise, p, own, MADV_NOHUGEPAGE, 0);
    HX_SYS(SYS_madvise, p, own, MADV_DONTDUMP, 0);
    uint8_t *at = (uint8_t *)p + own - shape->samples - shape->unwind;
    if (HX_SYS(SYS_mprotect, at, shape->unwind + shape->samples, PROT_READ | PROT_WRITE, 0) != 0) {
        HX_SYS(SYS_munmap, p, all, 0, 0);
        return false;
    }
    process->own = (uint8_t *)p;
    process->own_bytes = all;
    process->slot_bytes = shape->slot;
    process->slots = at;
    process->unwind = (struct hx_unwind *)at;
    if (shape->samples)
        hx_sample_use(at + shape->unwind, shape->samples);
    process->region_base = (struct hx_region *)((uint8_t *)p + own);
    struct hx_pages *pages[N_TABLES];
    get_tables(pages);
    uint8_t *part = (uint8_t *)process->region_base + HEAD_BYTES;
    for (int i = 0; i < N_TABLES; part += shape->part[i++]) {
        pages[i]->at = part;
        pages[i]->bytes = shape->part[i];
    }
    process->ring = (struct hx_ring *)part;
    process->n_rings = shape->rings;
    return true;
}

static bool reserve_what_can_be(void)
{
    uint64_t limit = limit_of(RLIMIT_AS);
    uint64_t budget = limit / SHARE < PLENTY ? limit / SHARE : PLENTY;
    for (; budget >= SCARCE; budget /= 4) {
        struct shape shape = shape_for(budget);
        if (reserve_region(&shape))
            return true;
    }
    return false;
}

/* --- the file ------------------------------------------------------------------------------- */

/* A link needs no memory, no descriptor, and no size of a file: it can be made when nothing can. */
static bool fail_region(int folder, const char *why)
{
    char name[40];
    size_t len = 0;
    hx_number_add(name, sizeof name, &len, (uint64_t)hx_process.pid, 10);
    hx_text_add(name, sizeof name, &len, ".why");
    HX_SYS(SYS_symlinkat, why, folder, name, 0);
    return false;
}

static int make_region_file(int folder, char *name, size_t size)
{
    for (unsigned i = 0; i < 1000; i++) {
        size_t len = 0;
        hx_number_add(name, size, &len, (uint64_t)hx_process.pid, 10);
        hx_text_add(name, size, &len, ".");
        hx_number_add(name, size, &len, i, 10);
        long fd = HX_SYS(SYS_openat, folder, name,
                         O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd != -EEXIST)
            return (int)fd;
    }
    return -1;
}

/* The pid of heapx, where it means the same here as there; else 0. */
static int find_reader(int folder, bool *ret_foreign)
{
    char text[80];
    struct stat ns;
    uint64_t pid, inode, device;
    long n = HX_SYS(SYS_readlinkat, folder, "reader", text + 1, sizeof text - 1);
    size_t len = (size_t)n + 1;
    text[0] = ':';
    *ret_foreign = false;
    if (n <= 0 || n >= (long)sizeof text - 1 || !hx_number_off(text, &len, &pid) ||
        !hx_number_off(text, &len, &inode) || !hx_number_off(text, &len, &device) ||
        HX_SYS(SYS_newfstatat, AT_FDCWD, "/proc/self/ns/pid", &ns, 0) != 0)
        return 0;
    *ret_foreign = inode != ns.st_ino || device != ns.st_dev;
    return !*ret_foreign && pid < INT_MAX ? (int)pid : 0;
}

/* Over whatever was there; accessible later, piece by piece. */
static bool map_parts(int fd)
{
    const struct hx_process *process = &hx_process;
    const struct hx_tables *tables = &process->tables;
    const struct {
        void *at;
        uint64_t bytes, from;
    } part[] = {
        {process->region_base, HEAD_BYTES, 0},
        {tables->index.at, tables->index.bytes, part_at[0]},
        {tables->stacks.at, tables->stacks.bytes, part_at[1]},
        {tables->frames.at, tables->frames.bytes, part_at[2]},
        {process->centres.at, process->centres.bytes, part_at[3]},
        {process->ring, process->n_rings * sizeof(struct hx_ring), part_at[4]},
    };
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        long p = hx_sys6(SYS_mmap, (long)part[i].at, (long)part[i].bytes, PROT_NONE,
                         MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, (long)part[i].from);
        if (p != (long)part[i].at)
            return false;
        HX_SYS(SYS_madvise, p, part[i].bytes, MADV_DONTDUMP, 0);
    }
    return true;
}

static bool good_clock(void)
{
    unsigned a, b, c, d;
    bool invariant = __get_cpuid(0x80000007, &a, &b, &c, &d) && d & 1U << 8;
    bool rdtscp = __get_cpuid(0x80000001, &a, &b, &c, &d) && d & 1U << 27;
    return invariant && rdtscp;
}

static void describe_region(struct hx_region *region, int parent)
{
    struct hx_process *process = &hx_process;
    region->version = HX_REGION_VERSION;
    region->flags = process->flags;
    region->bytes = sizeof *region;
    region->pid = process->pid;
    region->parent = parent;
    region->sample_bytes = process->sample_bytes;
    region->clock = process->clock_ns;
    region->foreign = process->foreign;
    region->execed = process->execed_from == process->pid;
    region->began = parent && process->fork_when ? process->fork_when : hx_now();
}

/* The thread's tid stands somewhere behind its thread pointer; used when gettid is forbidden. */
static int find_tid(void)
{
    const char *self = __builtin_thread_pointer();
    int tid = (int)HX_SYS(SYS_gettid, 0, 0, 0, 0);
    for (int at = 0x200; at < 0x400; at += 4)
        if (memcmp(self + at, &tid, sizeof tid) == 0)
            return at;
    return 0;
}

/* --- a child's ------------------------------------------------------------------------------- */

static bool write_region(int fd, const uint8_t *from, uint64_t bytes, uint64_t to)
{
    while (bytes > 0) {
        long n = HX_SYS(SYS_pwrite64, fd, from, bytes, to);
        if (n == -EINTR)
            continue;
        if (n <= 0)
            return false;
        from += n;
        to += (uint64_t)n;
        bytes -= (uint64_t)n;
    }
    return true;
}

/* What the parent had interned: keys mean the same in both. It goes on meanwhile; so first what
 * refers to other things, then these. Without a file (-1) the same pieces, which have been written,
 * are filled. */
static bool copy_tables(int fd)
{
    struct hx_pages *pages[N_TABLES];
    get_tables(pages);
    for (int i = 0; i < N_TABLES; i++)
        for (uint64_t piece = 0, at = 0; at < pages[i]->bytes; at = ++piece << HX_PIECE_BITS) {
            uint64_t left = pages[i]->bytes - at, bytes = left < HX_PIECE ? left : HX_PIECE;
            uint8_t *from = pages[i]->at + at;
            if (hx_pages_ready(pages[i], piece) &&
                !(fd < 0 ? hx_pages_fill(from, bytes)
                         : write_region(fd, from, bytes, part_at[i] + at)))
                return false;
        }
    return true;
}

static void forget_page(void *at, uint64_t bytes)
{
    if (bytes)
        hx_sys6(SYS_mmap, (long)at, (long)bytes, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

/* The parent's region stays its own: what was interrupted while writing there goes on in memory
 * that nobody sees. */
void hx_region_drop(void)
{
    struct hx_process *process = &hx_process;
    struct hx_pages *pages[N_TABLES];
    uint64_t rings = process->n_rings;
    while (rings > 0 &&
           !(atomic_load(&process->populated[(rings - 1) / 64]) >> (rings - 1) % 64 & 1))
        rings--;
    forget_page(process->region_base, HEAD_BYTES);
    get_tables(pages);
    for (int i = 0; i < N_TABLES; i++)
        forget_page(pages[i]->at, hx_pages_extent(pages[i]));
    forget_page(process->ring, rings * sizeof *process->ring);
}

/* A signal handler has forked in the middle of an event, which is completed in memory that nobody
 * reads. */
static void set_apart(const struct hx_thread_state *thread)
{
    struct hx_process *process = &hx_process;
    for (uint32_t i = 0; i < thread->levels && i < HX_LEVELS; i++) {
        if (!thread->writer[i])
            continue;
        uint64_t index = (uint64_t)(thread->writer[i]->ring - process->ring);
        forget_page(thread->writer[i]->ring, sizeof(struct hx_ring));
        atomic_fetch_or(&process->rings[index / 64], 1ULL << index % 64);
        atomic_fetch_add(&process->region_base->no_ring_allocs, 1);
    }
}

/* `keys`: how many of its parent's this one knows. */
static void add_stamp(const struct hx_region *region, uint64_t keys)
{
    struct hx_process *process = &hx_process;
    struct hx_stamp *stamp = process->stamp;
    uint64_t mixed = (region->began ^ (uint64_t)process->pid << 40) * 0x9e3779b97f4a7c15ULL;
    uint32_t n = process->n_stamps;
    n = region->parent ? n < HX_STAMPS ? n : HX_STAMPS - 1 : 0;
    for (uint32_t i = n; i > 0; i--) {
        stamp[i] = stamp[i - 1];
        stamp[i].end = keys < stamp[i].end ? keys : stamp[i].end;
    }
    stamp[0] = (struct hx_stamp){(uint32_t)(mixed >> 33), UINT64_MAX};
    process->n_stamps = n + 1;
}

/* --- making it ------------------------------------------------------------------------------ */

static const char *fill_region(int fd, int parent)
{
    struct hx_process *process = &hx_process;
    struct hx_region *region = process->region_base;
    uint64_t frames = 0, stacks = 0, centres = 0;
    uint32_t generation = 0;
    if (parent) {
        if (!copy_tables(fd))
            return "there is no room for its shared memory";
        frames = atomic_load(&region->frames_used);
        stacks = atomic_load(&region->stacks_used);
        centres = atomic_load(&region->centres_used);
        generation = atomic_load(&region->generation);
    }
    if (!map_parts(fd))
        return "the memory for its recording could not be mapped";
    if (!hx_pages_fill(region, HEAD_BYTES) || (parent && !copy_tables(-1)))
        return "there is no room for its shared memory";
    describe_region(region, parent);
    atomic_store(&region->frames_used, frames);
    atomic_store(&region->stacks_used, stacks);
    atomic_store(&region->centres_used, centres);
    atomic_store(&region->generation, generation);
    add_stamp(region, HX_EV_KEY_FIRST + stacks);
    memset(process->rings, 0, sizeof process->rings);
    memset(process->populated, 0, sizeof process->populated);
    process->rings_refused = 0;
    if (parent)
        set_apart(&hx_thread_state);
    return NULL;
}

/* A child's takes the place of its parent's, which is left to the parent. */
static bool make_all(int folder, int parent)
{
    struct hx_process *process = &hx_process;
    struct hx_region *region = process->region_base;
    char name[40];
    const char *why;
    /* growing a file beyond the limit would be a signal */
    if (limit_of(RLIMIT_FSIZE) < sizeof *region)
        return fail_region(folder, "its files are limited to less than 2 GB (ulimit -f)");
    int fd = make_region_file(folder, name, sizeof name);
    if (fd < 0)
        return fail_region(folder, "it cannot make a file in the folder of the recording");
    if (HX_SYS(SYS_ftruncate, fd, sizeof *region, 0, 0) == 0)
        why = fill_region(fd, parent);
    else
        why = "it cannot make a file of 2 GB in the folder of the recording";
    HX_SYS(SYS_close, fd, 0, 0, 0);
    if (why) {
        HX_SYS(SYS_unlinkat, folder, name, 0, 0);
        return fail_region(folder, why);
    }
    process->region = process->tables.region = region;
    process->gave_up = false;
    hx_unwind_init(process->unwind, &process->tables);
    if (process->barred)
        hx_unwind_bar_calls(process->unwind);
    __atomic_store_n(&region->magic, HX_REGION_MAGIC, __ATOMIC_RELEASE);
    return true;
}

static bool make_first(int folder)
{
    struct hx_process *process = &hx_process;
    process->clock_ns = !good_clock();
    process->tid_offset = find_tid();
    hx_clock_measure();
    if (HX_SYS(SYS_madvise, &hx_gate, sizeof hx_gate, MADV_WIPEONFORK, 0) != 0)
        return fail_region(folder, "the kernel does not know MADV_WIPEONFORK (it came with 4.14)");
    if (!reserve_what_can_be())
        return fail_region(folder, "its address space is limited too much (ulimit -v)");
    if (make_all(folder, 0))
        return true;
    HX_SYS(SYS_munmap, process->own, process->own_bytes, 0, 0);
    return false;
}

bool hx_region_make(int parent)
{
    int folder = (int)HX_SYS(SYS_openat, AT_FDCWD, hx_process.folder,
                             O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW, 0);
    if (folder < 0)
        return false;
    hx_process.reader_pid = find_reader(folder, &hx_process.foreign);
    bool made = parent ? make_all(folder, parent) : make_first(folder);
    HX_SYS(SYS_close, folder, 0, 0, 0);
    return made;
}

/* --- before memory can be had no more ------------------------------------------------------- */

/* Before system calls are forbidden: room for what may come after that. */
void hx_region_stock(void)
{
    struct hx_tables *tables = &hx_process.tables;
    const uint64_t ahead = (uint64_t)1 << 20, stack = sizeof(struct hx_region_stack);
    uint64_t entry = atomic_load(&tables->region->stacks_used) * stack;
    uint64_t frame = atomic_load(&tables->region->frames_used) * 8;
    hx_pages_get(&tables->index, 0, hx_index_bytes(2), false);
    hx_pages_get(&hx_process.centres, 0, offsetof(struct hx_region_centres, centre) + ahead / 8,
                 false);
    for (uint64_t at = 0; at < ahead; at += HX_PIECE) {
        hx_pages_get(&tables->frames, frame + at, 1, false);
        if (at < ahead / 4)
            hx_pages_get(&tables->stacks, entry + at, 1, false);
    }
}
