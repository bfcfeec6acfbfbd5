/* region.c - what heapx asked for, and the memory that is shared with it.
 *
 * The environment is read where the kernel put it, as libc may not have looked yet, and cleaned
 * there: unless children are recorded too, the program sees it as it would be without heapx.
 */
#include "attach/record/preload/preload.h"

#include <cpuid.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* In the flags of the environment only: who executed us has forbidden system calls. */
#define RUN_BARRED 0x100

/* --- text ----------------------------------------------------------------------------------- */

static bool text_add(char *text, size_t size, size_t *len, const char *more)
{
    size_t n = strlen(more);
    if (n >= size - *len)
        return false;
    memcpy(text + *len, more, n + 1);
    *len += n;
    return true;
}

static bool number_add(char *text, size_t size, size_t *len, uint64_t value, unsigned base)
{
    char digits[24];
    char *at = digits + sizeof digits - 1;
    *at = 0;
    do
        *--at = "0123456789abcdef"[value % base];
    while (value /= base);
    return text_add(text, size, len, at);
}

/* The hexadecimal number behind the last ':' of text[0..*len), which is cut off. */
static bool number_off(const char *text, size_t *len, uint64_t *ret)
{
    uint64_t value = 0;
    size_t at = *len;
    while (at > 0 && text[at - 1] != ':')
        at--;
    if (at == 0 || at == *len || *len - at > 16)
        return false;
    for (size_t i = at; i < *len; i++) {
        char c = text[i];
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10)
                                                : 16;
        if (digit == 16)
            return false;
        value = value << 4 | digit;
    }
    *len = at - 1;
    *ret = value;
    return true;
}

/* --- environment ---------------------------------------------------------------------------- */

extern void *__libc_stack_end __attribute__((weak)); /* where the kernel put argc */
extern char **environ;

static char **first_environ(void)
{
    if (&__libc_stack_end && __libc_stack_end) {
        char **argv = (char **)__libc_stack_end + 1;
        int64_t argc = *(int64_t *)__libc_stack_end;
        if (argc >= 0 && argc < 1 << 24 && !argv[argc])
            return argv + argc + 1;
    }
    return environ;
}

static const char *value_of(const char *entry, const char *name)
{
    size_t n = strlen(name);
    return strncmp(entry, name, n) == 0 && entry[n] == '=' ? entry + n + 1 : NULL;
}

/* FOLDER:FLAGS:SAMPLE:LEAST:MOST, and :PID of who executes us (hx_env_write). */
static bool parse(const char *text)
{
    struct hx_process *process = &hx_process;
    uint64_t field[5]; /* from the last one on */
    size_t len = strlen(text), colons = 0;
    for (size_t i = 0; i < len; i++)
        colons += text[i] == ':';
    uint64_t pid = 0;
    /* a folder has no colon in its name: heapx made it */
    if (colons == 5 && !number_off(text, &len, &pid))
        return false;
    for (int i = 0; i < 4; i++)
        if (!number_off(text, &len, &field[i]))
            return false;
    if (len == 0 || len >= sizeof process->folder)
        return false;
    memcpy(process->folder, text, len);
    process->folder[len] = 0;
    process->most_bytes = field[0];
    process->least_bytes = field[1];
    process->sample_bytes = field[2] > 1ULL << 60 ? 1ULL << 60 : field[2];
    process->flags = (uint32_t)field[3] & ~(uint32_t)RUN_BARRED;
    process->barred = field[3] & RUN_BARRED;
    process->execed_from = (int)pid;
    return true;
}

void hx_env_write(void)
{
    struct hx_process *process = &hx_process;
    size_t len = 0, size = sizeof process->run_env;
    const uint64_t field[] = {process->flags | (process->barred ? RUN_BARRED : 0),
                              process->sample_bytes, process->least_bytes, process->most_bytes,
                              (uint64_t)process->pid};
    text_add(process->run_env, size, &len, HX_RUN_ENV "=");
    text_add(process->run_env, size, &len, process->folder);
    for (size_t i = 0; i < sizeof field / sizeof *field; i++) {
        text_add(process->run_env, size, &len, ":");
        number_add(process->run_env, size, &len, field[i], 16);
    }
}

/* Takes this library out of a list for the loader, in place. True: nothing is left. */
static bool leave_list(char *list)
{
    const char *self = hx_process.library;
    size_t n = strlen(self);
    for (char *at = list; *at;) {
        size_t len = strcspn(at, ": ");
        if (len == n && memcmp(at, self, n) == 0) {
            char *rest = at + len + (at[len] != 0);
            memmove(at, rest, strlen(rest) + 1);
            break;
        }
        at += len + (at[len] != 0);
    }
    return *list == 0;
}

static void find_self(void)
{
    Dl_info info;
    if (dladdr(hx_arena, &info) && info.dli_fname &&
        strlen(info.dli_fname) < sizeof hx_process.library)
        memcpy(hx_process.library, info.dli_fname, strlen(info.dli_fname) + 1);
}

bool hx_env_take(void)
{
    char **env = first_environ();
    const char *run = NULL;
    find_self();
    for (char **at = env; at && *at; at++) {
        const char *value = value_of(*at, HX_RUN_ENV);
        run = value ? value : run;
    }
    if (!run || !parse(run))
        return false;
    hx_process.pid = (int)HX_SYS(SYS_getpid, 0, 0, 0, 0);
    char **to = env;
    bool keep = hx_process.flags & HX_RUN_CHILDREN;
    hx_env_write();
    for (char **at = env; *at; at++) {
        if (value_of(*at, HX_RUN_ENV)) {
            if (keep)
                *to++ = hx_process.run_env;
            continue;
        }
        char *list = (char *)value_of(*at, "LD_PRELOAD");
        if (list && !keep && leave_list(list))
            continue;
        *to++ = *at;
    }
    *to = NULL;
    return true;
}

/* --- region --------------------------------------------------------------------------------- */

static void *map(size_t bytes, int fd, int flags)
{
    long p =
        hx_sys6(SYS_mmap, 0, (long)bytes, PROT_READ | PROT_WRITE, flags | MAP_NORESERVE, fd, 0);
    return p < 0 && p > -4096 ? NULL : (void *)p;
}

/* Growing a file beyond the limit would be a signal. */
static bool may_grow(uint64_t bytes)
{
    struct rlimit limit;
    return HX_SYS(SYS_prlimit64, 0, RLIMIT_FSIZE, NULL, &limit) == 0 && limit.rlim_cur >= bytes;
}

static int make_file(int folder, char *name, size_t size)
{
    for (unsigned i = 0; i < 1000; i++) {
        size_t len = 0;
        number_add(name, size, &len, (uint64_t)hx_process.pid, 10);
        text_add(name, size, &len, ".");
        number_add(name, size, &len, i, 10);
        long fd = HX_SYS(SYS_openat, folder, name,
                         O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd != -EEXIST)
            return (int)fd;
    }
    return -1;
}

static struct hx_region *make_region(void)
{
    char name[40];
    struct hx_region *region = NULL;
    if (!may_grow(sizeof *region))
        return NULL;
    int folder = (int)HX_SYS(SYS_openat, AT_FDCWD, hx_process.folder,
                             O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW, 0);
    if (folder < 0)
        return NULL;
    int fd = make_file(folder, name, sizeof name);
    if (fd >= 0) {
        if (HX_SYS(SYS_ftruncate, fd, sizeof *region, 0, 0) == 0)
            region = map(sizeof *region, fd, MAP_SHARED);
        if (!region)
            HX_SYS(SYS_unlinkat, folder, name, 0, 0);
        HX_SYS(SYS_close, fd, 0, 0, 0);
    }
    HX_SYS(SYS_close, folder, 0, 0, 0);
    return region;
}

static bool good_clock(void)
{
    unsigned a, b, c, d;
    bool invariant = __get_cpuid(0x80000007, &a, &b, &c, &d) && d & 1U << 8;
    bool rdtscp = __get_cpuid(0x80000001, &a, &b, &c, &d) && d & 1U << 27;
    return invariant && rdtscp;
}

/* What the parent had interned: keys mean the same in both. Pages that nobody touched are left. */
static void copy_pages(void *to, const void *from, size_t bytes)
{
    enum { CHUNK = 1 << 20 };
    unsigned char there[CHUNK / 4096];
    for (size_t at = 0; at < bytes; at += CHUNK) {
        size_t n = bytes - at < CHUNK ? bytes - at : CHUNK;
        if (HX_SYS(SYS_mincore, (const char *)from + at, n, there, 0) != 0)
            memset(there, 1, sizeof there);
        for (size_t page = 0; page < n; page += 4096)
            if (there[page / 4096] & 1)
                memcpy((char *)to + at + page, (const char *)from + at + page,
                       n - page < 4096 ? n - page : 4096);
    }
}

static void copy_stacks(struct hx_region *to, const struct hx_region *from)
{
    uint64_t words = atomic_load(&from->frames_used);
    copy_pages(to->stack, from->stack, sizeof to->stack);
    copy_pages(to->frame, from->frame, (words < HX_REGION_FRAMES ? words : HX_REGION_FRAMES) * 8);
    atomic_store(&to->frames_used, words);
    atomic_store(&to->stacks_used, atomic_load(&from->stacks_used));
    atomic_store(&to->generation, atomic_load(&from->generation));
}

static void describe(struct hx_region *region, int parent)
{
    struct hx_process *process = &hx_process;
    region->version = HX_REGION_VERSION;
    region->flags = process->flags;
    region->bytes = sizeof *region;
    region->pid = process->pid;
    region->parent = parent;
    region->sample_bytes = process->sample_bytes;
    region->clock = process->clock_ns;
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

/* Private memory lies right before the region, in one mapping; by that heapx knows that both are
 * ours, and no root of the program. An unusable page parts it from what lies below. */
static bool make_private(void)
{
    struct hx_process *process = &hx_process;
    size_t slot = 4096 + ((hx_unwind_thread_bytes() + 4095) & ~(size_t)4095);
    size_t unwind = (hx_unwind_bytes() + 4095) & ~(size_t)4095;
    size_t samples = process->sample_bytes ? hx_sample_bytes() : 0;
    size_t own = slot * HX_RINGS + unwind + samples;
    size_t all = 4096 + own + sizeof(struct hx_region);
    long p = hx_sys6(SYS_mmap, 0, (long)all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                     -1, 0);
    if (p < 0 && p > -4096)
        return false;
    if (HX_SYS(SYS_mprotect, p + 4096, own, PROT_READ | PROT_WRITE, 0) != 0) {
        HX_SYS(SYS_munmap, p, all, 0, 0);
        return false;
    }
    HX_SYS(SYS_madvise, p + 4096, own, MADV_NOHUGEPAGE, 0);
    HX_SYS(SYS_madvise, p + 4096, own, MADV_DONTDUMP, 0);
    uint8_t *at = (uint8_t *)p + 4096;
    process->own = at - 4096;
    process->own_bytes = all;
    process->slot_bytes = slot;
    process->slots = at;
    process->unwind = (struct hx_unwind *)(at + slot * HX_RINGS);
    if (samples)
        hx_sample_use(at + slot * HX_RINGS + unwind);
    process->place = (struct hx_region *)(at + own);
    return true;
}

/* A child's takes the place of its parent's, which is left to the parent. */
static bool make_all(int parent)
{
    struct hx_process *process = &hx_process;
    struct hx_region *region = make_region();
    if (!region)
        return false;
    describe(region, parent);
    if (parent)
        copy_stacks(region, process->place);
    long at = hx_sys6(SYS_mremap, (long)region, sizeof *region, sizeof *region,
                      MREMAP_MAYMOVE | MREMAP_FIXED, (long)process->place, 0);
    if (at != (long)process->place)
        return false;
    region = process->place;
    HX_SYS(SYS_madvise, region, sizeof *region, MADV_DONTDUMP, 0);
    memset(process->rings, 0, sizeof process->rings);
    memset(process->populated, 0, sizeof process->populated);
    process->region = region;
    process->gave_up = false;
    hx_unwind_init(process->unwind, region);
    if (process->barred)
        hx_unwind_bar_calls(process->unwind);
    __atomic_store_n(&region->magic, HX_REGION_MAGIC, __ATOMIC_RELEASE);
    return true;
}

bool hx_region_make(int parent)
{
    struct hx_process *process = &hx_process;
    if (parent)
        return make_all(parent);
    process->clock_ns = !good_clock();
    process->tid_offset = find_tid();
    if (HX_SYS(SYS_madvise, &hx_gate, sizeof hx_gate, MADV_WIPEONFORK, 0) != 0 || !make_private())
        return false;
    if (make_all(0))
        return true;
    HX_SYS(SYS_munmap, process->own, process->own_bytes, 0, 0);
    return false;
}
