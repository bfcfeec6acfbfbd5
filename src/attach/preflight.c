/* preflight.c - the list of checks that decide whether a process can be taken.
 *
 * Adding a check: one function and one line in machine_checks or process_checks, in the
 * order in which a refusal should be told.
 */
#include "attach/preflight.h"

#include "attach/stop/copy.h"
#include "attach/memory_limits.h"
#include "attach/stop/pagemap.h"
#include "base/proc.h"
#include "record/launch.h"
#include "base/cleanup.h"
#include "sym/module.h"
#include "model/process.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>

enum { CAP_SYS_PTRACE_BIT = 19, PF_KTHREAD = 0x00200000 };

/* What the checks of one call share. */
struct preflight {
    pid_t pid;
    pid_t via;    /* whose files in /proc show the process; see hx_proc_living() */
    char *self;   /* /proc/self/status */
    char *status; /* /proc/PID/status; NULL: not readable */
    int status_errno;
    bool gone;          /* nothing more can be said of the process */
    bool refusals_only; /* leave out what only works worse */
};

static void __attribute__((format(printf, 4, 5)))
say(struct hx_check *check, enum hx_check_result result, const char *todo, const char *format, ...)
{
    check->result = result;
    snprintf(check->todo, sizeof check->todo, "%s", todo);
    va_list args;
    va_start(args, format);
    vsnprintf(check->detail, sizeof check->detail, format, args);
    va_end(args);
}

/* --- /proc -------------------------------------------------------------------- */

static char *slurp(const char *path)
{
    char *text;
    hx_error *err = hx_proc_read(path, &text, NULL);
    hx_error_free(err);
    return err ? NULL : text;
}

static char *slurp_of(pid_t pid, const char *file)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, file);
    return slurp(path);
}

static int64_t field_number(const char *status, const char *name, int base, int64_t missing)
{
    const char *value = status ? hx_proc_field(status, name) : NULL;
    return value ? (int64_t)strtoull(value, NULL, base) : missing;
}

/* The first word of a status field, up to a line end. */
static void field_text(const char *status, const char *name, char *buf, size_t size)
{
    const char *value = status ? hx_proc_field(status, name) : NULL;
    snprintf(buf, size, "%.*s", value ? (int)strcspn(value, "\n") : 0, value ? value : "");
}

static void comm_of(pid_t pid, char *buf, size_t size)
{
    HX_FREE char *comm = slurp_of(pid, "comm");
    size_t n = comm ? strlen(comm) : 0; /* ends with a line end, and may hold others */
    snprintf(buf, size, "%.*s", n ? (int)n - 1 : 7, n ? comm : "unknown");
}

static bool has_ptrace_capability(const struct preflight *p)
{
    return (uint64_t)field_number(p->self, "CapEff", 16, 0) >> CAP_SYS_PTRACE_BIT & 1;
}

/* kernel.yama.ptrace_scope; -1 when the kernel has no such rule. */
static int yama_scope(void)
{
    HX_FREE char *text = slurp("/proc/sys/kernel/yama/ptrace_scope");
    return text ? atoi(text) : -1;
}

/* --- The machine -------------------------------------------------------------- */

static void check_kernel(struct preflight *p, struct hx_check *check)
{
    (void)p;
    struct utsname name;
    unsigned major = 0, minor = 0;
    if (uname(&name) != 0 || sscanf(name.release, "%u.%u", &major, &minor) != 2)
        say(check, HX_CHECK_UNKNOWN, "", "uname does not tell");
    else if (major < 4 || (major == 4 && minor < 4))
        say(check, HX_CHECK_NO, "use Linux 4.4 or newer", "Linux %.80s is too old", name.release);
    else
        say(check, HX_CHECK_OK, "", "Linux %.80s", name.release);
}

static void check_machine(struct preflight *p, struct hx_check *check)
{
    (void)p;
    struct utsname name;
    if (uname(&name) != 0)
        say(check, HX_CHECK_UNKNOWN, "", "uname does not tell");
    else if (strcmp(name.machine, "x86_64") != 0)
        say(check, HX_CHECK_NO, "use an x86-64 machine", "%.60s is not known, only x86_64",
            name.machine);
    else
        say(check, HX_CHECK_OK, "", "x86_64");
}

/* The one honest test: trace a child of our own. */
static void check_ptrace(struct preflight *p, struct hx_check *check)
{
    (void)p;
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* also when we are killed right now */
        while (getppid() == parent)
            pause();
        _exit(0);
    }
    if (child < 0) {
        say(check, HX_CHECK_UNKNOWN, "raise ulimit -u", "cannot fork a child to try: %s",
            strerror(errno));
        return;
    }
    int err = ptrace(PTRACE_SEIZE, child, 0, 0) == 0 ? 0 : errno;
    kill(child, SIGKILL);
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
        ;
    if (err == 0)
        say(check, HX_CHECK_OK, "", "a child of ours could be traced");
    else
        say(check, HX_CHECK_NO,
            "leave the sandbox; in a container: docker run --cap-add SYS_PTRACE",
            "PTRACE_SEIZE: %s", strerror(err));
}

static void check_ptrace_scope(struct preflight *p, struct hx_check *check)
{
    int scope = yama_scope();
    bool capable = has_ptrace_capability(p);
    if (scope < 0)
        say(check, HX_CHECK_OK, "", "the kernel has no kernel.yama.ptrace_scope");
    else if (scope == 3)
        say(check, HX_CHECK_NO, "set it to less at boot, it cannot be lowered while running",
            "kernel.yama.ptrace_scope is 3: nobody may trace");
    else if (scope == 0 || capable)
        say(check, HX_CHECK_OK, "", "kernel.yama.ptrace_scope is %d%s", scope,
            scope ? ", which binds only without CAP_SYS_PTRACE" : "");
    else
        say(check, HX_CHECK_UNKNOWN, "sudo heapx ..., or: sudo sysctl kernel.yama.ptrace_scope=0",
            "kernel.yama.ptrace_scope is %d: %s", scope,
            scope == 1 ? "only descendants may be traced" : "only with CAP_SYS_PTRACE");
}

static void check_capability(struct preflight *p, struct hx_check *check)
{
    if (has_ptrace_capability(p))
        say(check, HX_CHECK_OK, "", "CAP_SYS_PTRACE: processes of every user");
    else
        say(check, HX_CHECK_NO, "sudo heapx ...", "no CAP_SYS_PTRACE: own processes only");
}

static void check_readv(struct preflight *p, struct hx_check *check)
{
    (void)p;
    int from = 42, to = 0;
    struct iovec local = {&to, sizeof to}, remote = {&from, sizeof from};
    if (process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == sizeof to && to == from)
        say(check, HX_CHECK_OK, "", "works");
    else
        say(check, HX_CHECK_NO,
            "leave the sandbox; in a container: docker run --cap-add SYS_PTRACE",
            "process_vm_readv: %s", strerror(errno));
}

static void check_memfd(struct preflight *p, struct hx_check *check)
{
    (void)p;
    HX_FD int fd = memfd_create("heapx", MFD_CLOEXEC);
    if (fd >= 0)
        say(check, HX_CHECK_OK, "", "works");
    else
        say(check, HX_CHECK_NO, "leave the sandbox", "memfd_create: %s", strerror(errno));
}

static void check_pagemap(struct preflight *p, struct hx_check *check)
{
    (void)p;
    volatile char touched = 1; /* this page is resident */
    uint64_t entry = 0, page = (uint64_t)(uintptr_t)&touched / (uint64_t)sysconf(_SC_PAGESIZE);
    HX_FD int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        say(check, HX_CHECK_NO, "", "%s: more than what is resident is read", strerror(errno));
    else if (pread(fd, &entry, sizeof entry, (off_t)(page * sizeof entry)) != sizeof entry ||
             !(entry >> 63))
        say(check, HX_CHECK_NO, "", "does not tell what is resident: more is read");
    else
        say(check, HX_CHECK_OK, "", "tells what is resident");
}

/* linux/fs.h of the build machine may be older than the kernel that runs. */
struct scan_request {
    uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
    uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
#define SCAN_IOCTL _IOWR('f', 16, struct scan_request)

static void check_pagemap_scan(struct preflight *p, struct hx_check *check)
{
    (void)p;
    HX_FD int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t start = (uint64_t)(uintptr_t)&fd & ~(page - 1), ranges[3];
    struct scan_request request = {.size = sizeof request,
                                   .start = start,
                                   .end = start + page,
                                   .vec = (uint64_t)(uintptr_t)ranges,
                                   .vec_len = 1,
                                   .category_mask = 1 << 3, /* present */
                                   .return_mask = 1 << 3};
    if (fd >= 0 && ioctl(fd, SCAN_IOCTL, &request) >= 0)
        say(check, HX_CHECK_OK, "", "works");
    else
        say(check, HX_CHECK_NO, "", "%s: Linux 6.7 has it; pagemap is read instead",
            strerror(errno));
}

static void check_userfaultfd(struct preflight *p, struct hx_check *check)
{
    (void)p;
    enum { USER_MODE_ONLY = 1 };
    HX_FD int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | USER_MODE_ONLY);
    if (fd >= 0)
        say(check, HX_CHECK_OK, "", "works here");
    else
        say(check, HX_CHECK_NO, "", "%s: --pause precopy is not possible", strerror(errno));
}

static void check_map_files(struct preflight *p, struct hx_check *check)
{
    (void)p;
    char path[64] = "";
    HX_DIR DIR *dir = opendir("/proc/self/map_files");
    for (struct dirent *entry; dir && !path[0] && (entry = readdir(dir));)
        if (entry->d_name[0] != '.')
            snprintf(path, sizeof path, "/proc/self/map_files/%.40s", entry->d_name);
    HX_FD int fd = path[0] ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd >= 0)
        say(check, HX_CHECK_OK, "", "opens mapped files, deleted ones too");
    else
        say(check, HX_CHECK_NO, "sudo heapx ...",
            "%s: deleted or hidden files give no names; others go by /proc/PID/root",
            strerror(errno));
}

static void check_own_seccomp(struct preflight *p, struct hx_check *check)
{
    int64_t mode = field_number(p->self, "Seccomp", 10, -1);
    if (mode < 0)
        say(check, HX_CHECK_UNKNOWN, "", "the kernel does not tell");
    else if (mode == 0)
        say(check, HX_CHECK_OK, "", "no filter binds heapx");
    else
        say(check, HX_CHECK_UNKNOWN, "",
            "a filter binds heapx (a container?); what it forbids "
            "fails above");
}

static void check_limits(struct preflight *p, struct hx_check *check)
{
    (void)p;
    struct rlimit space = {0};
    HX_FREE char *text = slurp("/proc/meminfo");
    int64_t free_kb = field_number(text, "MemAvailable", 10, -1);
    char memory[HX_HUMAN], limit[HX_HUMAN];
    hx_human_bytes(free_kb < 0 ? 0 : (uint64_t)free_kb * 1024, memory);
    if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY)
        say(check, HX_CHECK_NO, "ulimit -v unlimited", "address space is limited to %s",
            hx_human_bytes(space.rlim_cur, limit));
    else
        say(check, HX_CHECK_OK, "", "%s of memory available, no limit on address space",
            free_kb < 0 ? "?" : memory);
}

/* --- The process -------------------------------------------------------------- */

static void check_exists(struct preflight *p, struct hx_check *check)
{
    if (p->status) {
        char name[64];
        hx_proc_name(p->status, name, sizeof name);
        say(check, HX_CHECK_OK, "", "PID %d is %s", p->pid, name);
        return;
    }
    const char *todo = hx_error_os_todo(p->status_errno);
    p->gone = true;
    if (kill(p->pid, 0) != 0 && errno == ESRCH)
        say(check, HX_CHECK_NO, "see: ps -e", "no such process");
    else if (p->status_errno == EACCES || p->status_errno == EPERM || p->status_errno == ENOENT ||
             p->status_errno == ESRCH)
        say(check, HX_CHECK_NO, "sudo heapx ...", "/proc does not show this process (hidepid)");
    else
        say(check, HX_CHECK_NO, todo ? todo : "", "/proc/%d/status: %s", p->pid,
            strerror(p->status_errno));
}

static void check_process(struct preflight *p, struct hx_check *check)
{
    int64_t leader = field_number(p->status, "Tgid", 10, p->pid);
    if (leader == p->pid) {
        say(check, HX_CHECK_OK, "", "%" PRId64 " threads",
            field_number(p->status, "Threads", 10, 0));
        return;
    }
    char name[64], todo[64];
    comm_of((pid_t)leader, name, sizeof name);
    snprintf(todo, sizeof todo, "give %" PRId64, leader);
    p->gone = true;
    say(check, HX_CHECK_NO, todo, "is a thread of process %" PRId64 " (%s), not a process", leader,
        name);
}

static void check_self(struct preflight *p, struct hx_check *check)
{
    if (p->pid == getpid())
        say(check, HX_CHECK_NO, "give the PID of another process", "is heapx itself");
    else
        say(check, HX_CHECK_OK, "", "is not heapx itself");
}

static void check_state(struct preflight *p, struct hx_check *check)
{
    char state[64];
    field_text(p->status, "State", state, sizeof state);
    if (p->via && p->via != p->pid) {
        say(check, HX_CHECK_OK, "", "its first thread has exited, others go on");
    } else if (state[0] == 'Z' || state[0] == 'X') {
        p->gone = true;
        say(check, HX_CHECK_NO, "take the next snapshot while it runs",
            "has exited (%s) and has no memory any more",
            state[0] == 'Z' ? "a zombie that its parent has not collected" : "dead");
    } else {
        say(check, HX_CHECK_OK, "", "%s", state[0] ? state : "?");
    }
}

static void check_kernel_thread(struct preflight *p, struct hx_check *check)
{
    uint64_t flags;
    if (!hx_proc_stat(p->pid, 0, 9, &flags, 1)) {
        say(check, HX_CHECK_UNKNOWN, "", "/proc/%d/stat does not tell", p->pid);
    } else if (flags & PF_KTHREAD) {
        p->gone = true;
        say(check, HX_CHECK_NO, "give the PID of a program",
            "is a kernel thread and has no memory of its own");
    } else {
        say(check, HX_CHECK_OK, "", "is a user process");
    }
}

static void check_traced(struct preflight *p, struct hx_check *check)
{
    int64_t tracer = field_number(p->status, "TracerPid", 10, 0);
    if (tracer == 0) {
        say(check, HX_CHECK_OK, "", "nobody traces it");
        return;
    }
    char name[64], todo[96];
    comm_of((pid_t)tracer, name, sizeof name);
    snprintf(todo, sizeof todo, "end or detach that one first");
    say(check, HX_CHECK_NO, todo, "is traced already, by PID %" PRId64 " (%s)", tracer, name);
}

/* Why the kernel refuses, in the order in which it decides. */
static void explain_refusal(struct preflight *p, struct hx_check *check, int err)
{
    const char *uids = hx_proc_field(p->status, "Uid");
    unsigned uid[3] = {0};
    if (uids)
        sscanf(uids, "%u %u %u", &uid[0], &uid[1], &uid[2]);
    struct stat file = {0}; /* of a process that is not dumpable, the files belong to root */
    char path[64], todo[96];
    snprintf(path, sizeof path, "/proc/%d/status", p->pid);
    snprintf(todo, sizeof todo, "sudo heapx ... %d", p->pid);
    bool capable = has_ptrace_capability(p), known = stat(path, &file) == 0;
    int scope = yama_scope();
    if (capable) {
        say(check, HX_CHECK_NO, "run heapx outside the container or sandbox",
            "%s, in spite of CAP_SYS_PTRACE (a security module, or another user namespace)",
            strerror(err));
    } else if (uid[0] != getuid() || uid[1] != getuid() || uid[2] != getuid()) {
        struct passwd *user = getpwuid(uid[1]);
        say(check, HX_CHECK_NO, todo, "belongs to another user (%.32s, uid %u)",
            user ? user->pw_name : "no name", uid[1]);
    } else if (known && file.st_uid != uid[1]) {
        say(check, HX_CHECK_NO, todo,
            "is protected: not dumpable (set-uid, file capabilities, or prctl)");
    } else if (scope > 0) {
        snprintf(todo, sizeof todo, "sudo heapx ... %d, or: sudo sysctl kernel.yama.ptrace_scope=0",
                 p->pid);
        say(check, HX_CHECK_NO, todo, "kernel.yama.ptrace_scope is %d: %s", scope,
            scope == 1 ? "only descendants may be traced" : "only with CAP_SYS_PTRACE");
    } else {
        say(check, HX_CHECK_NO, todo, "the kernel refuses: %s", strerror(err));
    }
}

static void say_exited(struct hx_check *check)
{
    check->kind = HX_E_GONE;
    say(check, HX_CHECK_NO, "", "has just exited");
}

/* Opening /proc/PID/mem asks the kernel exactly what attaching asks it, yama and other
 * security modules included, and does nothing to the process. */
static void check_permission(struct preflight *p, struct hx_check *check)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", p->via ? p->via : p->pid);
    HX_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        say(check, HX_CHECK_OK, "", "the kernel lets us trace it");
    else if (errno == ENOENT || errno == ESRCH)
        say_exited(check);
    else
        explain_refusal(p, check, errno);
}

static void check_architecture(struct preflight *p, struct hx_check *check)
{
    char path[64];
    unsigned char ident[EI_NIDENT + 4]; /* e_ident, e_type, e_machine: alike in both classes */
    snprintf(path, sizeof path, "/proc/%d/exe", p->via ? p->via : p->pid);
    HX_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || pread(fd, ident, sizeof ident, 0) != (ssize_t)sizeof ident) {
        say(check, HX_CHECK_UNKNOWN, "", "%s cannot be read", path);
        return;
    }
    unsigned machine = ident[EI_NIDENT + 2] | (unsigned)ident[EI_NIDENT + 3] << 8;
    if (memcmp(ident, ELFMAG, SELFMAG) != 0)
        say(check, HX_CHECK_UNKNOWN, "", "its program is no ELF file");
    else if (ident[EI_CLASS] == ELFCLASS32)
        say(check, HX_CHECK_NO, "only 64-bit x86-64 processes can be taken", "is a 32-bit process");
    else if (machine != EM_X86_64)
        say(check, HX_CHECK_NO, "only 64-bit x86-64 processes can be taken",
            "is of another architecture (ELF machine %u)", machine);
    else
        say(check, HX_CHECK_OK, "", "x86-64, 64 bit");
}

static void check_namespaces(struct preflight *p, struct hx_check *check)
{
    static const char *const names[] = {"pid", "mnt", "user"};
    struct hx_text other = {0};
    bool unknown = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[64];
        struct stat ours, theirs;
        snprintf(path, sizeof path, "/proc/self/ns/%s", names[i]);
        bool ok = stat(path, &ours) == 0;
        snprintf(path, sizeof path, "/proc/%d/ns/%s", p->via ? p->via : p->pid, names[i]);
        ok = ok && stat(path, &theirs) == 0;
        if (!ok)
            unknown = true;
        else if (ours.st_ino != theirs.st_ino)
            hx_text_putf(&other, "%s%s", other.n ? ", " : "", names[i]);
    }
    if (other.n)
        say(check, HX_CHECK_OK, "",
            "has others than heapx (%s): its files are seen as it sees them", hx_text_str(&other));
    else if (unknown)
        say(check, HX_CHECK_UNKNOWN, "", "/proc/%d/ns cannot be read", p->pid);
    else
        say(check, HX_CHECK_OK, "", "the same as heapx");
    hx_text_free(&other);
}

static void check_its_seccomp(struct preflight *p, struct hx_check *check)
{
    int64_t mode = field_number(p->status, "Seccomp", 10, -1);
    if (mode < 0)
        say(check, HX_CHECK_UNKNOWN, "", "the kernel does not tell");
    else
        say(check, HX_CHECK_OK, "", "%s",
            mode == 0 ? "no filter" : "a filter is active: --pause copy calls nothing in it");
}

/* --- Memory --------------------------------------------------------------------- */

/* What a snapshot of the process would take; false when smaps cannot be read. */
static bool estimate_need(pid_t pid, struct hx_memory_need *ret)
{
    HX_FREE char *smaps = slurp_of(pid, "smaps");
    struct hx_mapping *mapping = NULL;
    size_t n = 0;
    hx_error *err = smaps ? hx_proc_mappings(smaps, strlen(smaps), &mapping, &n) : NULL;
    bool ok = smaps && !err;
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
static void check_memory(struct preflight *p, struct hx_check *check)
{
    pid_t pid = p->via ? p->via : p->pid;
    hx_limits limits = {0};
    struct hx_memory_need need;
    uint64_t left = 0;
    hx_error *err = hx_limits_find("", pid, &limits);
    bool known = !err && estimate_need(pid, &need);
    const struct hx_limit *limit = known ? hx_limits_short(&limits, &need, &left) : NULL;
    bool fits = !limit;
    limit = limit || !known ? limit : nearest(&limits, &left);
    char want[HX_HUMAN], have[HX_HUMAN], reserve[HX_HUMAN];
    if (!limit)
        say(check, HX_CHECK_UNKNOWN, "", "what a snapshot would take cannot be read");
    else
        say(check, fits ? HX_CHECK_OK : HX_CHECK_NO, fits ? "" : hx_limit_todo(limit),
            "a snapshot takes about %s; %s are left, and %s stay free, below the limit of %.90s",
            hx_human_bytes(limit->ours ? need.ours + need.its : need.its, want),
            hx_human_bytes(left, have), hx_human_bytes(limit->reserve, reserve), limit->name);
    hx_error_free(err);
    hx_limits_deinit(&limits);
}

/* --- Its malloc --------------------------------------------------------------- */

enum { WORDS_STEP = 1 << 16, WORDS_MAX = 16 << 20 };

static bool is_mapping_named(const struct hx_mapping *mapping, const char *start)
{
    const char *slash = strrchr(mapping->path, '/');
    return slash && strncmp(slash + 1, start, strlen(start)) == 0;
}

/* A word that is looked for. */
struct word {
    pid_t pid;
    uint64_t value, *buffer;
    bool found;
};

/* Is it in [start, end) of the process? */
static bool look_for_word(void *context, uint64_t start, uint64_t end, bool swapped)
{
    (void)swapped;
    struct word *word = context;
    for (uint64_t at = start; at < end && !word->found; at += WORDS_STEP) {
        uint64_t len = end - at < WORDS_STEP ? end - at : WORDS_STEP;
        struct iovec local = {word->buffer, len}, remote = {(void *)(uintptr_t)at, len};
        ssize_t got = process_vm_readv(word->pid, &local, 1, &remote, 1, 0);
        for (size_t i = 0; got > 0 && i < (size_t)got / 8; i++)
            word->found |= word->buffer[i] == word->value;
    }
    return !word->found;
}

/* Is this the malloc that is called? Then the dynamic linker, which calls it too, or the program
 * keeps its address. */
static bool is_called(pid_t pid, const struct hx_mapping *mapping, size_t n, uint64_t malloc_at)
{
    char path[64], exe[PATH_MAX] = "";
    snprintf(path, sizeof path, "/proc/%d/exe", pid);
    if (readlink(path, exe, sizeof exe - 1) < 0)
        exe[0] = 0;
    HX_FREE uint64_t *buffer = malloc(WORDS_STEP);
    snprintf(path, sizeof path, "/proc/%d/pagemap", pid);
    HX_FD int pagemap = open(path, O_RDONLY | O_CLOEXEC);
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
        hx_pagemap_runs(pagemap, mapping[i].start, mapping[i].end, true, look_for_word, &word);
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
            is_called(pid, mapping, n, addr))
            return name;
    }
    return NULL;
}

static void check_allocator(struct preflight *p, struct hx_check *check)
{
    static const char *const known[] = {"libjemalloc", "libtcmalloc", "libmimalloc"};
    pid_t pid = p->via ? p->via : p->pid;
    char path[64];
    HX_FREE char *maps = NULL;
    struct hx_mapping *mapping = NULL;
    hx_modules *modules = NULL;
    size_t len = 0, n = 0;
    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    hx_error *err = hx_proc_read(path, &maps, &len);
    if (!err)
        err = hx_proc_mappings(maps, len, &mapping, &n);
    if (!err)
        err = hx_modules_create(pid, mapping, n, &modules);
    const char *name = err ? NULL : other_malloc(pid, modules, mapping, n);
    bool foreign = false;
    for (size_t i = 0; name && i < sizeof known / sizeof *known; i++)
        foreign |= strncmp(name, known[i], strlen(known[i])) == 0;
    if (foreign)
        say(check, HX_CHECK_NO, "record it: heapx run, heapx record",
            "malloc is that of %.80s: this version walks that of glibc only", name);
    else if (name)
        say(check, HX_CHECK_UNKNOWN, "",
            "malloc is that of %.80s: blocks that it does not get from glibc's are no objects",
            name);
    else
        say(check, HX_CHECK_UNKNOWN, "", "known once a snapshot is taken: see snapshots.allocator");
    hx_error_free(err);
    hx_modules_destroy(modules);
    hx_mappings_free(mapping, n);
}

/* --- Recorders ---------------------------------------------------------------- */

static void say_refusal(struct hx_check *check, hx_error *err)
{
    say(check, HX_CHECK_NO, err->todo ? err->todo : "", "%s: %s", err->what, err->why);
    hx_error_free(err);
}

static void check_run(struct preflight *p, struct hx_check *check)
{
    (void)p;
    HX_FREE char *library = NULL;
    hx_error *err = hx_launch_library(&library);
    if (err)
        say_refusal(check, err);
    else
        say(check, HX_CHECK_OK, "", "heapx run has its library: %.150s", library);
}

static void check_record(struct preflight *p, struct hx_check *check)
{
    (void)p;
    hx_error *err = hx_probes_possible();
    if (err)
        say_refusal(check, err);
    else
        say(check, HX_CHECK_OK, "", "heapx record can set probes");
}

/* --- The lists ---------------------------------------------------------------- */

struct entry {
    const char *name;
    bool required;
    enum hx_error_kind kind;
    void (*run)(struct preflight *p, struct hx_check *check);
};

static const struct entry machine_checks[] = {
    {"kernel", true, HX_E_FAIL, check_kernel},
    {"machine", true, HX_E_FAIL, check_machine},
    {"ptrace", true, HX_E_PERM, check_ptrace},
    {"ptrace_scope", true, HX_E_PERM, check_ptrace_scope},
    {"capability", false, HX_E_PERM, check_capability},
    {"process_vm_readv", true, HX_E_PERM, check_readv},
    {"memfd", true, HX_E_PERM, check_memfd},
    {"pagemap", false, HX_E_FAIL, check_pagemap},
    {"pagemap_scan", false, HX_E_FAIL, check_pagemap_scan},
    {"userfaultfd", false, HX_E_FAIL, check_userfaultfd},
    {"map_files", false, HX_E_FAIL, check_map_files},
    {"seccomp", false, HX_E_FAIL, check_own_seccomp},
    {"limits", false, HX_E_FAIL, check_limits},
    {"run", false, HX_E_FAIL, check_run},
    {"record", false, HX_E_PERM, check_record},
};

static const struct entry process_checks[] = {
    {"exists", true, HX_E_ABSENT, check_exists},
    {"process", true, HX_E_ABSENT, check_process},
    {"itself", true, HX_E_FAIL, check_self},
    {"state", true, HX_E_GONE, check_state},
    {"kernel_thread", true, HX_E_FAIL, check_kernel_thread},
    {"traced", true, HX_E_PERM, check_traced},
    {"permission", true, HX_E_PERM, check_permission},
    {"architecture", true, HX_E_FAIL, check_architecture},
    {"namespaces", false, HX_E_FAIL, check_namespaces},
    {"its_seccomp", false, HX_E_FAIL, check_its_seccomp},
    {"memory", false, HX_E_LIMIT, check_memory},
    {"allocator", false, HX_E_FAIL, check_allocator},
};

_Static_assert(sizeof machine_checks / sizeof *machine_checks +
                       sizeof process_checks / sizeof *process_checks <=
                   HX_CHECKS_MAX,
               "HX_CHECKS_MAX is too small");

static size_t run_list(struct preflight *p, const struct entry *list, size_t n,
                       struct hx_check *checks)
{
    size_t done = 0;
    for (size_t i = 0; i < n && !p->gone; i++) {
        if (p->refusals_only && !list[i].required)
            continue;
        checks[done] = (struct hx_check){
            .name = list[i].name, .required = list[i].required, .kind = list[i].kind};
        list[i].run(p, &checks[done++]);
    }
    return done;
}

static void preflight_open(struct preflight *p, pid_t pid)
{
    *p = (struct preflight){.pid = pid, .self = slurp("/proc/self/status")};
    if (pid <= 0)
        return;
    char path[64];
    p->via = hx_proc_living(pid);
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    hx_error *err = hx_proc_read(path, &p->status, NULL);
    p->status_errno = err ? err->os_errno : 0;
    hx_error_free(err);
}

static void preflight_close(struct preflight *p)
{
    free(p->self);
    free(p->status);
}

size_t hx_preflight(pid_t pid, struct hx_check checks[HX_CHECKS_MAX])
{
    struct preflight p;
    preflight_open(&p, pid);
    size_t n = run_list(&p, machine_checks, sizeof machine_checks / sizeof *machine_checks, checks);
    if (pid > 0)
        n += run_list(&p, process_checks, sizeof process_checks / sizeof *process_checks,
                      checks + n);
    preflight_close(&p);
    return n;
}

static hx_error *first_refusal(const struct hx_check *checks, size_t n, const char *what)
{
    for (size_t i = 0; i < n; i++)
        if (checks[i].required && checks[i].result == HX_CHECK_NO)
            return hx_error_new(checks[i].kind, what, checks[i].todo[0] ? checks[i].todo : NULL,
                                "%s", checks[i].detail);
    return NULL;
}

/* The process first: "no such process" is worth more than what the machine lacks. */
hx_error *hx_preflight_error(pid_t pid)
{
    char what[32];
    snprintf(what, sizeof what, "PID %d", pid);
    if (pid <= 0)
        return hx_error_new(HX_E_ABSENT, what, "see: ps -e", "no such process");
    HX_FREE struct hx_check *checks = calloc(HX_CHECKS_MAX, sizeof *checks);
    struct preflight p;
    HX_NEED(checks);
    hx_proc_await_heapx(pid);
    preflight_open(&p, pid);
    p.refusals_only = true;
    size_t n = run_list(&p, process_checks, sizeof process_checks / sizeof *process_checks, checks);
    hx_error *err = first_refusal(checks, n, what);
    if (!err) {
        p.gone = false;
        n = run_list(&p, machine_checks, sizeof machine_checks / sizeof *machine_checks, checks);
        err = first_refusal(checks, n, "this machine");
    }
    preflight_close(&p);
    return err;
}
