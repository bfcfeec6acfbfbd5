/* preflight_machine.c - what heapx needs of the machine.
 *
 * Adding a check: one function and one line in the list.
 */
#include "attach/preflight_private.h"
#include "attach/track/track.h"

#include "base/cleanup.h"
#include "base/proc.h"
#include "record/launch.h"
#include "sym/code/code.h"
#include "sym/reader/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>

static void check_kernel(struct hx_preflight *p, struct hx_check *check)
{
    (void)p;
    struct utsname name;
    unsigned major = 0, minor = 0;
    if (uname(&name) != 0 || sscanf(name.release, "%u.%u", &major, &minor) != 2)
        hx_check_say(check, HX_CHECK_UNKNOWN, "", "uname does not tell");
    else if (major < 4 || (major == 4 && minor < 4))
        hx_check_say(check, HX_CHECK_NO, "use Linux 4.4 or newer", "Linux %.80s is too old",
                     name.release);
    else
        hx_check_say(check, HX_CHECK_OK, "", "Linux %.80s", name.release);
}

static void check_machine(struct hx_preflight *p, struct hx_check *check)
{
    (void)p;
    struct utsname name;
    if (uname(&name) != 0)
        hx_check_say(check, HX_CHECK_UNKNOWN, "", "uname does not tell");
    else if (strcmp(name.machine, "x86_64") != 0)
        hx_check_say(check, HX_CHECK_NO, "use an x86-64 machine", "%.60s is not known, only x86_64",
                     name.machine);
    else
        hx_check_say(check, HX_CHECK_OK, "", "x86_64");
}

/* The one honest test: trace a child of our own. */
static void check_ptrace(struct hx_preflight *p, struct hx_check *check)
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
        hx_check_say(check, HX_CHECK_UNKNOWN, "raise ulimit -u", "cannot fork a child to try: %s",
                     strerror(errno));
        return;
    }
    int err = ptrace(PTRACE_SEIZE, child, 0, 0) == 0 ? 0 : errno;
    kill(child, SIGKILL);
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
        ;
    if (err == 0)
        hx_check_say(check, HX_CHECK_OK, "", "a child of ours could be traced");
    else
        hx_check_say(check, HX_CHECK_NO,
                     "leave the sandbox; in a container: docker run --cap-add SYS_PTRACE",
                     "PTRACE_SEIZE: %s", strerror(err));
}

static void check_ptrace_scope(struct hx_preflight *p, struct hx_check *check)
{
    int scope = hx_yama_scope();
    bool capable = hx_preflight_can_trace(p);
    if (scope < 0)
        hx_check_say(check, HX_CHECK_OK, "", "the kernel has no kernel.yama.ptrace_scope");
    else if (scope == 3)
        hx_check_say(check, HX_CHECK_NO,
                     "set it to less at boot, it cannot be lowered while running",
                     "kernel.yama.ptrace_scope is 3: nobody may trace");
    else if (scope == 0 || capable)
        hx_check_say(check, HX_CHECK_OK, "", "kernel.yama.ptrace_scope is %d%s", scope,
                     scope ? ", which binds only without CAP_SYS_PTRACE" : "");
    else
        hx_check_say(check, HX_CHECK_UNKNOWN,
                     "sudo heapx ..., or: sudo sysctl kernel.yama.ptrace_scope=0",
                     "kernel.yama.ptrace_scope is %d: %s", scope,
                     scope == 1 ? "only descendants may be traced" : "only with CAP_SYS_PTRACE");
}

static void check_capability(struct hx_preflight *p, struct hx_check *check)
{
    if (hx_preflight_can_trace(p))
        hx_check_say(check, HX_CHECK_OK, "", "CAP_SYS_PTRACE: processes of every user");
    else
        hx_check_say(check, HX_CHECK_NO, "sudo heapx ...", "no CAP_SYS_PTRACE: own processes only");
}

static void check_readv(struct hx_preflight *p, struct hx_check *check)
{
    (void)p;
    int from = 42, to = 0;
    struct iovec local = {&to, sizeof to}, remote = {&from, sizeof from};
    if (process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == sizeof to && to == from)
        hx_check_say(check, HX_CHECK_OK, "", "works");
    else
        hx_check_say(check, HX_CHECK_NO,
                     "leave the sandbox; in a container: docker run --cap-add SYS_PTRACE",
                     "process_vm_readv: %s", strerror(errno));
}

static void check_memfd(struct hx_preflight *p, struct hx_check *check)
{
    (void)p;
    HX_FD int fd = memfd_create("heapx", MFD_CLOEXEC);
    if (fd >= 0)
        hx_check_say(check, HX_CHECK_OK, "", "works");
    else
        hx_check_say(check, HX_CHECK_NO, "leave the sandbox", "memfd_create: %s", strerror(errno));
}

static void check_pagemap(struct hx_preflight *p, struct hx_check *check)
{
    (void)p;
    volatile char touched = 1; /* this page is resident */
    uint64_t entry = 0, page = (uint64_t)(uintptr_t)&touched / (uint64_t)sysconf(_SC_PAGESIZE);
    HX_FD int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        hx_check_say(check, HX_CHECK_NO, "", "%s: more than what is resident is read",
                     strerror(errno));
    else if (pread(fd, &entry, sizeof entry, (off_t)(page * sizeof entry)) != sizeof entry ||
             !(entry >> 63))
        hx_check_say(check, HX_CHECK_NO, "", "does not tell what is resident: more is read");
    else
        hx_check_say(check, HX_CHECK_OK, "", "tells what is resident");
}

/* linux/fs.h of the build machine may be older than the kernel that runs. */
struct scan_request {
    uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
    uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
#define SCAN_IOCTL _IOWR('f', 16, struct scan_request)

static void check_pagemap_scan(struct hx_preflight *p, struct hx_check *check)
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
        hx_check_say(check, HX_CHECK_OK, "", "works");
    else
        hx_check_say(check, HX_CHECK_NO, "", "%s: Linux 6.7 has it; pagemap is read instead",
                     strerror(errno));
}

static void check_userfaultfd(struct hx_preflight *p, struct hx_check *check)
{
    (void)p;
    enum { USER_MODE_ONLY = 1 };
    HX_FD int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | USER_MODE_ONLY);
    if (fd >= 0)
        hx_check_say(check, HX_CHECK_OK, "", "works here");
    else
        hx_check_say(check, HX_CHECK_NO, "", "%s: --pause precopy %s", strerror(errno),
                     hx_track_soft_works() ? "goes by soft-dirty bits" : "is not possible");
}

static void check_map_files(struct hx_preflight *p, struct hx_check *check)
{
    (void)p;
    char path[64] = "";
    HX_DIR DIR *dir = opendir("/proc/self/map_files");
    for (struct dirent *entry; dir && !path[0] && (entry = readdir(dir));)
        if (entry->d_name[0] != '.')
            snprintf(path, sizeof path, "/proc/self/map_files/%.40s", entry->d_name);
    HX_FD int fd = path[0] ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd >= 0)
        hx_check_say(check, HX_CHECK_OK, "", "opens mapped files, deleted ones too");
    else
        hx_check_say(check, HX_CHECK_NO, "sudo heapx ...",
                     "%s: deleted or hidden files give no names; others go by /proc/PID/root",
                     strerror(errno));
}

static void check_own_seccomp(struct hx_preflight *p, struct hx_check *check)
{
    int64_t mode = hx_status_number(p->self, "Seccomp", 10, -1);
    if (mode < 0)
        hx_check_say(check, HX_CHECK_UNKNOWN, "", "the kernel does not tell");
    else if (mode == 0)
        hx_check_say(check, HX_CHECK_OK, "", "no filter binds heapx");
    else
        hx_check_say(check, HX_CHECK_UNKNOWN, "",
                     "a filter binds heapx (a container?); what it forbids "
                     "fails above");
}

static void check_limits(struct hx_preflight *p, struct hx_check *check)
{
    (void)p;
    struct rlimit space = {0};
    HX_FREE char *text = hx_proc_text("/proc/meminfo");
    int64_t free_kb = hx_status_number(text, "MemAvailable", 10, -1);
    char memory[HX_HUMAN], limit[HX_HUMAN];
    hx_human_bytes(free_kb < 0 ? 0 : (uint64_t)free_kb * 1024, memory);
    if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY)
        hx_check_say(check, HX_CHECK_NO, "ulimit -v unlimited", "address space is limited to %s",
                     hx_human_bytes(space.rlim_cur, limit));
    else
        hx_check_say(check, HX_CHECK_OK, "", "%s of memory available, no limit on address space",
                     free_kb < 0 ? "?" : memory);
}

/* --- Recorders ---------------------------------------------------------------- */

static void say_refusal(struct hx_check *check, hx_error *err)
{
    hx_check_say(check, HX_CHECK_NO, err->todo ? err->todo : "", "%s: %s", err->what, err->why);
    hx_error_free(err);
}

static void check_run(struct hx_preflight *p, struct hx_check *check)
{
    (void)p;
    HX_FREE char *library = NULL;
    hx_error *err = hx_launch_library(&library);
    if (err)
        say_refusal(check, err);
    else
        hx_check_say(check, HX_CHECK_OK, "", "heapx run has its library: %.150s", library);
}

static void check_record(struct hx_preflight *p, struct hx_check *check)
{
    (void)p;
    hx_error *err = hx_probes_possible();
    if (err)
        say_refusal(check, err);
    else
        hx_check_say(check, HX_CHECK_OK, "", "heapx record can set probes");
}

static void check_reader(struct hx_preflight *p, struct hx_check *check)
{
    unsigned guards;
    (void)p;
    hx_error *err = hx_code_try_reader(&guards);
    if (err)
        say_refusal(check, err);
    else if (!(guards & HX_READER_CALLS))
        hx_check_say(check, HX_CHECK_NO, "use a kernel with seccomp filters",
                     "a process of its own, which may make any system call");
    else
        hx_check_say(check, HX_CHECK_OK, "", "a process of its own, %s, with a filter of calls%s",
                     guards & HX_READER_USER ? "as nobody's user"
                     : geteuid() == 0        ? "as root all the same"
                                             : "as this user",
                     guards & HX_READER_MEMORY ? " and bounds on memory" : "");
}

/* --- The list ----------------------------------------------------------------- */

const struct hx_preflight_check hx_machine_checks[] = {
    {.name = "kernel", .required = true, .kind = HX_E_FAIL, .run = check_kernel},
    {.name = "machine", .required = true, .kind = HX_E_FAIL, .run = check_machine},
    {.name = "ptrace", .required = true, .kind = HX_E_PERM, .run = check_ptrace},
    {.name = "ptrace_scope", .required = true, .kind = HX_E_PERM, .run = check_ptrace_scope},
    {.name = "capability", .required = false, .kind = HX_E_PERM, .run = check_capability},
    {.name = "process_vm_readv", .required = true, .kind = HX_E_PERM, .run = check_readv},
    {.name = "memfd", .required = true, .kind = HX_E_PERM, .run = check_memfd},
    {.name = "pagemap", .required = false, .kind = HX_E_FAIL, .run = check_pagemap},
    {.name = "pagemap_scan", .required = false, .kind = HX_E_FAIL, .run = check_pagemap_scan},
    {.name = "userfaultfd", .required = false, .kind = HX_E_FAIL, .run = check_userfaultfd},
    {.name = "map_files", .required = false, .kind = HX_E_FAIL, .run = check_map_files},
    {.name = "seccomp", .required = false, .kind = HX_E_FAIL, .run = check_own_seccomp},
    {.name = "debug_reader", .required = false, .kind = HX_E_FAIL, .run = check_reader},
    {.name = "limits", .required = false, .kind = HX_E_FAIL, .run = check_limits},
    {.name = "run", .required = false, .kind = HX_E_FAIL, .run = check_run},
    {.name = "record", .required = false, .kind = HX_E_PERM, .run = check_record},
    {.name = NULL},
};
