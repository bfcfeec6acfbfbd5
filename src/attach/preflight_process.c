/* preflight_process.c - what heapx needs of a process.
 *
 * Adding a check: one function and one line in the list.
 */
#include "attach/preflight_private.h"

#include "attach/alloc/alloc.h"
#include "attach/live_image.h"
#include "attach/memory_limits.h"
#include "attach/precopy.h"
#include "attach/stop/copy.h"
#include "attach/stop/figures.h"
#include "attach/stop/pagemap.h"
#include "base/cleanup.h"
#include "base/proc.h"
#include "model/process.h"
#include "sym/module.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>

enum { PF_KTHREAD = 0x00200000 };

/* --- The process -------------------------------------------------------------- */

/* The first word of a status field, up to a line end. */
static void field_text(const char *status, const char *name, char *buf, size_t size)
{
    const char *value = status ? hx_proc_field(status, name) : NULL;
    snprintf(buf, size, "%.*s", value ? (int)strcspn(value, "\n") : 0, value ? value : "");
}

static void comm_of(pid_t pid, char *buf, size_t size)
{
    HX_FREE char *comm = hx_proc_text("/proc/%d/comm", pid);
    size_t n = comm ? strlen(comm) : 0; /* ends with a line end, and may hold others */
    snprintf(buf, size, "%.*s", n ? (int)n - 1 : 7, n ? comm : "unknown");
}

static void check_exists(struct hx_preflight *p, struct hx_check *check)
{
    if (p->status) {
        char name[64];
        hx_proc_name(p->status, name, sizeof name);
        hx_check_say(check, HX_CHECK_OK, "", "PID %d is %s", p->pid, name);
        return;
    }
    const char *todo = hx_error_os_todo(p->status_errno);
    p->gone = true;
    if (kill(p->pid, 0) != 0 && errno == ESRCH)
        hx_check_say(check, HX_CHECK_NO, "see: ps -e", "no such process");
    else if (p->status_errno == EACCES || p->status_errno == EPERM || p->status_errno == ENOENT ||
             p->status_errno == ESRCH)
        hx_check_say(check, HX_CHECK_NO, "sudo heapx ...",
                     "/proc does not show this process (hidepid)");
    else
        hx_check_say(check, HX_CHECK_NO, todo ? todo : "", "/proc/%d/status: %s", p->pid,
                     strerror(p->status_errno));
}

static void check_process(struct hx_preflight *p, struct hx_check *check)
{
    int64_t leader = hx_status_number(p->status, "Tgid", 10, p->pid);
    if (leader == p->pid) {
        hx_check_say(check, HX_CHECK_OK, "", "%" PRId64 " threads",
                     hx_status_number(p->status, "Threads", 10, 0));
        return;
    }
    char name[64], todo[64];
    comm_of((pid_t)leader, name, sizeof name);
    snprintf(todo, sizeof todo, "give %" PRId64, leader);
    p->gone = true;
    hx_check_say(check, HX_CHECK_NO, todo, "is a thread of process %" PRId64 " (%s), not a process",
                 leader, name);
}

static void check_self(struct hx_preflight *p, struct hx_check *check)
{
    if (p->pid == getpid())
        hx_check_say(check, HX_CHECK_NO, "give the PID of another process", "is heapx itself");
    else
        hx_check_say(check, HX_CHECK_OK, "", "is not heapx itself");
}

static void check_state(struct hx_preflight *p, struct hx_check *check)
{
    char state[64];
    field_text(p->status, "State", state, sizeof state);
    if (p->via != p->pid) {
        hx_check_say(check, HX_CHECK_OK, "", "its first thread has exited, others go on");
    } else if (state[0] == 'Z' || state[0] == 'X') {
        p->gone = true;
        hx_check_say(check, HX_CHECK_NO, "take the next snapshot while it runs",
                     "has exited (%s) and has no memory any more",
                     state[0] == 'Z' ? "a zombie that its parent has not collected" : "dead");
    } else {
        hx_check_say(check, HX_CHECK_OK, "", "%s", state[0] ? state : "?");
    }
}

static void check_kernel_thread(struct hx_preflight *p, struct hx_check *check)
{
    uint64_t flags;
    if (!hx_proc_stat(p->pid, 0, 9, &flags, 1)) {
        hx_check_say(check, HX_CHECK_UNKNOWN, "", "/proc/%d/stat does not tell", p->pid);
    } else if (flags & PF_KTHREAD) {
        p->gone = true;
        hx_check_say(check, HX_CHECK_NO, "give the PID of a program",
                     "is a kernel thread and has no memory of its own");
    } else {
        hx_check_say(check, HX_CHECK_OK, "", "is a user process");
    }
}

static void check_traced(struct hx_preflight *p, struct hx_check *check)
{
    int64_t tracer = hx_status_number(p->status, "TracerPid", 10, 0);
    if (tracer == 0) {
        hx_check_say(check, HX_CHECK_OK, "", "nobody traces it");
        return;
    }
    char name[64];
    comm_of((pid_t)tracer, name, sizeof name);
    hx_check_say(check, HX_CHECK_NO, "end or detach that one first",
                 "is traced already, by PID %" PRId64 " (%s)", tracer, name);
}

/* Why the kernel refuses, in the order in which it decides. */
static void explain_refusal(struct hx_preflight *p, struct hx_check *check, int err)
{
    const char *uids = hx_proc_field(p->status, "Uid");
    unsigned uid[3] = {0};
    if (uids)
        sscanf(uids, "%u %u %u", &uid[0], &uid[1], &uid[2]);
    struct stat file = {0}; /* of a process that is not dumpable, the files belong to root */
    char path[64], todo[96];
    snprintf(path, sizeof path, "/proc/%d/status", p->pid);
    snprintf(todo, sizeof todo, "sudo heapx ... %d", p->pid);
    bool capable = hx_preflight_can_trace(p), exists = stat(path, &file) == 0;
    int scope = hx_yama_scope();
    if (capable) {
        hx_check_say(
            check, HX_CHECK_NO, "run heapx outside the container or sandbox",
            "%s, in spite of CAP_SYS_PTRACE (a security module, or another user namespace)",
            strerror(err));
    } else if (uid[0] != getuid() || uid[1] != getuid() || uid[2] != getuid()) {
        struct passwd *user = getpwuid(uid[1]);
        hx_check_say(check, HX_CHECK_NO, todo, "belongs to another user (%.32s, uid %u)",
                     user ? user->pw_name : "no name", uid[1]);
    } else if (exists && file.st_uid != uid[1]) {
        hx_check_say(check, HX_CHECK_NO, todo,
                     "is protected: not dumpable (set-uid, file capabilities, or prctl)");
    } else if (scope > 0) {
        snprintf(todo, sizeof todo, "sudo heapx ... %d, or: sudo sysctl kernel.yama.ptrace_scope=0",
                 p->pid);
        hx_check_say(check, HX_CHECK_NO, todo, "kernel.yama.ptrace_scope is %d: %s", scope,
                     scope == 1 ? "only descendants may be traced" : "only with CAP_SYS_PTRACE");
    } else {
        hx_check_say(check, HX_CHECK_NO, todo, "the kernel refuses: %s", strerror(err));
    }
}

static void say_exited(struct hx_check *check)
{
    check->kind = HX_E_GONE;
    hx_check_say(check, HX_CHECK_NO, "", "has just exited");
}

/* Opening /proc/PID/mem asks the kernel exactly what attaching asks it, yama and other
 * security modules included, and does nothing to the process. */
static void check_permission(struct hx_preflight *p, struct hx_check *check)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", p->via);
    HX_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        hx_check_say(check, HX_CHECK_OK, "", "the kernel lets us trace it");
    else if (errno == ENOENT || errno == ESRCH)
        say_exited(check);
    else
        explain_refusal(p, check, errno);
}

static void check_architecture(struct hx_preflight *p, struct hx_check *check)
{
    char path[64];
    unsigned char ident[EI_NIDENT + 4]; /* e_ident, e_type, e_machine: alike in both classes */
    snprintf(path, sizeof path, "/proc/%d/exe", p->via);
    HX_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || pread(fd, ident, sizeof ident, 0) != (ssize_t)sizeof ident) {
        hx_check_say(check, HX_CHECK_UNKNOWN, "", "%s cannot be read", path);
        return;
    }
    unsigned machine = ident[EI_NIDENT + 2] | (unsigned)ident[EI_NIDENT + 3] << 8;
    if (memcmp(ident, ELFMAG, SELFMAG) != 0)
        hx_check_say(check, HX_CHECK_UNKNOWN, "", "its program is no ELF file");
    else if (ident[EI_CLASS] == ELFCLASS32)
        hx_check_say(check, HX_CHECK_NO, "only 64-bit x86-64 processes can be taken",
                     "is a 32-bit process");
    else if (machine != EM_X86_64)
        hx_check_say(check, HX_CHECK_NO, "only 64-bit x86-64 processes can be taken",
                     "is of another architecture (ELF machine %u)", machine);
    else
        hx_check_say(check, HX_CHECK_OK, "", "x86-64, 64 bit");
}

static void check_namespaces(struct hx_preflight *p, struct hx_check *check)
{
    static const char *const names[] = {"pid", "mnt", "user"};
    struct hx_text other = {0};
    bool unknown = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[64];
        struct stat ours, theirs;
        snprintf(path, sizeof path, "/proc/self/ns/%s", names[i]);
        bool ok = stat(path, &ours) == 0;
        snprintf(path, sizeof path, "/proc/%d/ns/%s", p->via, names[i]);
        ok = ok && stat(path, &theirs) == 0;
        if (!ok)
            unknown = true;
        else if (ours.st_ino != theirs.st_ino)
            hx_text_putf(&other, "%s%s", other.n ? ", " : "", names[i]);
    }
    if (other.n)
        hx_check_say(check, HX_CHECK_OK, "",
                     "has others than heapx (%s): its files are seen as it sees them",
                     hx_text_str(&other));
    else if (unknown)
        hx_check_say(check, HX_CHECK_UNKNOWN, "", "/proc/%d/ns cannot be read", p->pid);
    else
        hx_check_say(check, HX_CHECK_OK, "", "the same as heapx");
    hx_text_free(&other);
}

static void check_its_seccomp(struct hx_preflight *p, struct hx_check *check)
{
    int64_t mode = hx_status_number(p->status, "Seccomp", 10, -1);
    if (mode < 0)
        hx_check_say(check, HX_CHECK_UNKNOWN, "", "the kernel does not tell");
    else
        hx_check_say(check, HX_CHECK_OK, "", "%s",
                     mode == 0 ? "no filter"
                               : "a filter is active: --pause copy calls nothing in it");
}

/* --- Memory --------------------------------------------------------------------- */

/* What a snapshot of the process would take; false when that cannot be read. */
static bool estimate_need(pid_t pid, struct hx_memory_need *ret)
{
    struct hx_mapping *mapping = NULL;
    size_t n = 0;
    hx_error *err = hx_figures_mappings(pid, &mapping, &n);
    bool ok = !err;
    hx_error_free(err);
    if (ok)
        *ret = hx_copy_need(mapping, n);
    hx_mappings_free(mapping, n);
    return ok;
}

/* The limit that is nearest, for heapx; there is always the machine's. */
static const struct hx_limit *nearest(const hx_limits *limits, uint64_t *ret_left)
{
    const struct hx_limit *best = NULL;
    for (size_t i = 0; i < limits->n; i++) {
        uint64_t left = limits->v[i].ours ? hx_limit_left(&limits->v[i], UINT64_MAX) : UINT64_MAX;
        if (best && left >= *ret_left)
            continue;
        best = &limits->v[i];
        *ret_left = left;
    }
    return best;
}

/* The refusal itself comes with the snapshot: a recorder needs no copy. */
static void check_memory(struct hx_preflight *p, struct hx_check *check)
{
    hx_limits limits = {0};
    struct hx_memory_need need;
    uint64_t left = 0;
    hx_error *err = hx_limits_find("", p->via, &limits);
    bool readable = !err && estimate_need(p->via, &need);
    const struct hx_limit *limit = readable ? hx_limits_short(&limits, &need, &left) : NULL;
    bool fits = !limit;
    limit = limit || !readable ? limit : nearest(&limits, &left);
    char want[HX_HUMAN], have[HX_HUMAN], reserve[HX_HUMAN];
    if (!limit)
        hx_check_say(check, HX_CHECK_UNKNOWN, "", "what a snapshot would take cannot be read");
    else
        hx_check_say(
            check, fits ? HX_CHECK_OK : HX_CHECK_NO, fits ? "" : hx_limit_todo(limit),
            "a snapshot takes about %s; %s are left, and %s stay free, below the limit of %.90s",
            hx_human_bytes(limit->ours ? need.ours + need.its : need.its, want),
            hx_human_bytes(left, have), hx_human_bytes(limit->reserve, reserve), limit->name);
    hx_error_free(err);
    hx_limits_deinit(&limits);
}

/* --- Its stop ----------------------------------------------------------------- */

static void check_pause(struct hx_preflight *p, struct hx_check *check)
{
    struct hx_mapping *mapping = NULL;
    size_t n = 0;
    char why[HX_UFFD_WHY];
    hx_error *err = hx_figures_mappings(p->via, &mapping, &n);
    if (err)
        hx_check_say(check, HX_CHECK_UNKNOWN, "", "its mappings cannot be read");
    else if (hx_precopy_possible(p->via, mapping, n, why))
        hx_check_say(check, HX_CHECK_OK, "",
                     "of a large heap only what is written meanwhile is "
                     "copied in the stop (precopy%s%s)",
                     why[0] ? " by soft-dirty bits, because " : "", why);
    else
        hx_check_say(check, HX_CHECK_NO, "",
                     "the stop lasts as long as the copy: no pre-copy, "
                     "because %s",
                     why);
    hx_error_free(err);
    hx_mappings_free(mapping, n);
}

/* --- Its malloc --------------------------------------------------------------- */

enum { WORDS_STEP = 1 << 16, WORDS_MAX = 16 << 20 };

static bool is_mapping_named(const struct hx_mapping *mapping, const char *start)
{
    const char *slash = strrchr(mapping->path, '/');
    return slash && strncmp(slash + 1, start, strlen(start)) == 0;
}

/* A word to find. */
struct word {
    pid_t pid;
    uint64_t value, *buffer;
    struct hx_lock_use lock;
    bool found;
};

/* Is it in [start, end) of the process? */
static bool find_malloc_address(void *context, uint64_t start, uint64_t end, bool swapped)
{
    (void)swapped;
    struct word *word = context;
    for (uint64_t at = start; at < end && !word->found; at += WORDS_STEP) {
        uint64_t len = end - at < WORDS_STEP ? end - at : WORDS_STEP;
        struct iovec local = {word->buffer, len}, remote = {(void *)(uintptr_t)at, len};
        ssize_t got = hx_lock_readv(&word->lock, word->pid, &local, 1, &remote, 1);
        for (size_t i = 0; got > 0 && i < (size_t)got / 8; i++)
            word->found |= word->buffer[i] == word->value;
    }
    return !word->found;
}

/* Is this the malloc that is called? Then the dynamic linker, which calls it too, or the program
 * keeps its address. */
static bool keeps_address(pid_t pid, const struct hx_mapping *mapping, size_t n, uint64_t malloc_at)
{
    char path[64], exe[PATH_MAX] = "";
    snprintf(path, sizeof path, "/proc/%d/exe", pid);
    if (readlink(path, exe, sizeof exe - 1) < 0)
        exe[0] = 0;
    HX_FREE uint64_t *buffer = malloc(WORDS_STEP);
    HX_FD int pagemap = hx_pagemap_open(pid);
    struct word word = {.pid = pid, .value = malloc_at, .buffer = buffer};
    uint64_t looked = 0;
    for (size_t i = 0; i < n && buffer && !word.found; i++) {
        uint64_t bytes = mapping[i].end - mapping[i].start;
        if (!mapping[i].inode || (mapping[i].prot & (HX_PROT_R | HX_PROT_X)) != HX_PROT_R ||
            (!is_mapping_named(&mapping[i], "ld-") && strcmp(mapping[i].path, exe) != 0))
            continue;
        looked += bytes;
        if (looked > WORDS_MAX)
            break;
        /* only pages that were written: the loader did, and the others are best left where they are
         */
        hx_pagemap_runs(pagemap, mapping[i].start, mapping[i].end, true, &word.lock,
                        find_malloc_address, &word);
    }
    return word.found;
}

/* The module, other than the C library, whose malloc is called; NULL: none is known. */
static const char *other_malloc(pid_t pid, hx_modules *modules, const struct hx_mapping *mapping,
                                size_t n)
{
    for (size_t i = 0; i < hx_modules_count(modules); i++) {
        const char *name = hx_module_name(modules, i);
        uint64_t addr, at, size;
        if (strncmp(name, "ld-", 3) != 0 && hx_module_symbol(modules, i, "malloc", &addr, &size) &&
            !hx_module_symbol(modules, i, "__libc_start_main", &at, &size) &&
            keeps_address(pid, mapping, n, addr))
            return name;
    }
    return NULL;
}

/* "jemalloc 5.3.0 (version string), glibc 2.36 (main_arena by shape)"; *ret_has: one of them is of
 * that module. */
static hx_error *name_allocators(const struct hx_alloc_target *target, const char *module,
                                 struct hx_text *ret, bool *ret_has)
{
    hx_error *err = NULL;
    for (size_t i = 0; hx_allocators[i] && !err; i++) {
        struct hx_allocator_share share = {0};
        void *state = NULL;
        err = hx_allocators[i]->find(target, &share, &state);
        if (!err && state) {
            hx_text_putf(ret, "%s%s%s%s (%s)", ret->n ? ", " : "", share.name,
                         share.version ? " " : "", share.version ? share.version : "",
                         share.evidence);
            *ret_has |= module && share.module && strcmp(module, share.module) == 0;
        }
        if (state)
            hx_allocators[i]->end(state);
        hx_allocator_share_deinit(&share);
    }
    return err;
}

static void say_allocators(struct hx_check *check, const char *other, bool is_known,
                           const struct hx_text *names)
{
    if (other && !is_known)
        hx_check_say(check, names->n ? HX_CHECK_UNKNOWN : HX_CHECK_NO,
                     "record it: heapx run, heapx record",
                     "malloc is that of %.60s: blocks that it does not get from glibc's are no "
                     "objects; %.90s",
                     other, hx_text_str(names));
    else if (names->n)
        hx_check_say(check, HX_CHECK_OK, "", "%s", hx_text_str(names));
    else
        hx_check_say(check, HX_CHECK_NO, "record it: heapx run, heapx record",
                     "no allocator that this version knows: the heap has no objects");
}

static void check_allocator(struct hx_preflight *p, struct hx_check *check)
{
    HX_CLEANUP(hx_text_free) struct hx_text names = {0};
    struct hx_mapping *mapping = NULL;
    hx_modules *modules = NULL;
    size_t n = 0;
    bool is_known = false, readable = false;
    const char *other = NULL;
    hx_error *err = hx_proc_read_mappings(p->via, "maps", &mapping, &n);
    if (!err)
        err = hx_modules_create(p->via, mapping, n, &modules);
    if (!err) {
        HX_FD int pagemap = hx_pagemap_open(p->via);
        struct hx_live_memory live = {.pid = p->via,
                                      .modules = modules,
                                      .mapping = mapping,
                                      .n_mappings = n,
                                      .pagemap = pagemap};
        struct hx_peek peek = {hx_live_memory_read, &live};
        struct hx_alloc_target target = {mapping, n, p->via, &peek, modules};
        char byte;
        readable = n && hx_peek_read(&peek, mapping[0].start, &byte, 1);
        other = other_malloc(p->via, modules, mapping, n);
        err = name_allocators(&target, other, &names, &is_known);
    }
    if (err || !readable)
        hx_check_say(check, HX_CHECK_UNKNOWN, "",
                     "known once a snapshot is taken: see snapshots.allocator");
    else
        say_allocators(check, other, is_known, &names);
    hx_error_free(err);
    hx_modules_destroy(modules);
    hx_mappings_free(mapping, n);
}

/* --- The list ----------------------------------------------------------------- */

const struct hx_preflight_check hx_process_checks[] = {
    {.name = "exists", .required = true, .kind = HX_E_ABSENT, .run = check_exists},
    {.name = "process", .required = true, .kind = HX_E_ABSENT, .run = check_process},
    {.name = "itself", .required = true, .kind = HX_E_FAIL, .run = check_self},
    {.name = "state", .required = true, .kind = HX_E_GONE, .run = check_state},
    {.name = "kernel_thread", .required = true, .kind = HX_E_FAIL, .run = check_kernel_thread},
    {.name = "traced", .required = true, .kind = HX_E_PERM, .run = check_traced},
    {.name = "permission", .required = true, .kind = HX_E_PERM, .run = check_permission},
    {.name = "architecture", .required = true, .kind = HX_E_FAIL, .run = check_architecture},
    {.name = "namespaces", .required = false, .kind = HX_E_FAIL, .run = check_namespaces},
    {.name = "its_seccomp", .required = false, .kind = HX_E_FAIL, .run = check_its_seccomp},
    {.name = "memory", .required = false, .kind = HX_E_LIMIT, .run = check_memory},
    {.name = "pause", .required = false, .kind = HX_E_FAIL, .run = check_pause},
    {.name = "allocator", .required = false, .kind = HX_E_FAIL, .run = check_allocator},
    {.name = NULL},
};
