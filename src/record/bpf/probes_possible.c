/* probes_possible.c - what the probes need of the kernel and of the user, and what is in the way.
 */
#include "base/cleanup.h"
#include "base/proc.h"
#include "record/bpf/probes_private.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

static const char what[] = "the recorder of running processes";
static const char as_root[] = "run as root, or type: sudo setcap "
                              "cap_bpf,cap_perfmon,cap_sys_ptrace+ep $(command -v heapx); "
                              "`heapx run` needs none of this";
static const char in_namespace[] = "run heapx as root outside of it, with the number that the "
                                   "process has there; `heapx run -- CMD` works inside";
static const char elsewhere[] = "`heapx run -- CMD` records a program from its start without it";

/* The kernel's version as MAJOR * 1000 + MINOR; 0: unknown. */
static unsigned version(void)
{
    struct utsname name;
    unsigned major, minor;
    if (uname(&name) || sscanf(name.release, "%u.%u", &major, &minor) != 2)
        return 0;
    return major * 1000 + minor;
}

static uint64_t capabilities(void)
{
    HX_FREE char *status = hx_proc_text("/proc/self/status");
    const char *caps = status ? hx_proc_field(status, "CapEff") : NULL;
    return caps ? strtoull(caps, NULL, 16) : 0;
}

/* Is this a user namespace, whose capabilities do not count outside? */
static bool is_user_namespace(void)
{
    HX_FREE char *map = hx_proc_text("/proc/self/uid_map");
    unsigned long long inside = 0, outside = 0, n = 0;
    return map && sscanf(map, "%llu %llu %llu", &inside, &outside, &n) == 3 &&
           (inside || outside || n < UINT32_MAX);
}

hx_error *hx_probe_refused(int err, const char *call)
{
    if ((err == EPERM || err == EACCES) && is_user_namespace())
        return hx_error_new(HX_E_PERM, what, in_namespace,
                            "%s: %s (this is a user namespace, as containers without root have, "
                            "and its capabilities do not count for the kernel's probes)",
                            call, strerror(err));
    if (err == EPERM || err == EACCES)
        return hx_error_new(HX_E_PERM, what, as_root,
                            "%s: %s (a capability, kernel lockdown, or a container's rules)", call,
                            strerror(err));
    return hx_error_os(err, what, call);
}

static hx_error *check_capabilities(void)
{
    enum { sys_admin = 21, perfmon = 38, bpf = 39 };
    uint64_t caps = capabilities();
    if (caps >> sys_admin & 1 || ((caps >> perfmon & 1) && (caps >> bpf & 1)))
        return NULL;
    bool has_bpf = caps >> bpf & 1, has_perfmon = caps >> perfmon & 1;
    return hx_error_new(HX_E_PERM, what, as_root, "%s missing",
                        has_bpf       ? "CAP_PERFMON is"
                        : has_perfmon ? "CAP_BPF is"
                                      : "CAP_BPF and CAP_PERFMON are");
}

/* The smallest program that there is. */
static hx_error *try_load(void)
{
    static const struct bpf_insn insns[] = {
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .imm = 0},
        {.code = BPF_JMP | BPF_EXIT},
    };
    int fd = bpf_prog_load(BPF_PROG_TYPE_KPROBE, "heapx_try", "GPL", insns, 2, NULL);
    if (fd < 0)
        return hx_probe_refused(-fd, "bpf");
    close(fd);
    return NULL;
}

hx_error *hx_probes_possible(void)
{
    enum { oldest = 5017 };
    unsigned have = version();
    if (have && have < oldest)
        return hx_error_new(HX_E_LIMIT, what, elsewhere, "needs Linux 5.17 or newer, this is %u.%u",
                            have / 1000, have % 1000);
    if (access("/sys/kernel/btf/vmlinux", R_OK))
        return hx_error_new(HX_E_LIMIT, what, elsewhere,
                            "/sys/kernel/btf/vmlinux: %s: the kernel does not tell its types "
                            "(CONFIG_DEBUG_INFO_BTF), or /sys is not mounted",
                            strerror(errno));
    if (access("/sys/bus/event_source/devices/uprobe/type", R_OK))
        return hx_error_new(HX_E_LIMIT, what, elsewhere,
                            "the kernel has no user probes (CONFIG_UPROBE_EVENTS), or /sys is not "
                            "mounted");
    HX_TRY(check_capabilities());
    return try_load();
}

/* --- filtered system calls -----------------------------------------------------------
 * Since 6.11 a return probe ends in a system call of the target, and before that was exempted a
 * filter that does not know it killed the target. */

bool hx_probe_is_filtered(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    HX_DIR DIR *dir = opendir(path);
    struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        if (entry->d_name[0] == '.')
            continue;
        HX_FREE char *status = hx_proc_text("%s/%s/status", path, entry->d_name);
        const char *mode = status ? hx_proc_field(status, "Seccomp") : NULL;
        if (mode && *mode != '0')
            return true;
    }
    return false;
}

/* What the trial's return probe is on. */
__attribute__((noinline, noclone)) static long victim(long n)
{
    __asm__ volatile("" : "+r"(n)::"memory");
    return n + 1;
}

/* Only what the trial itself needs is allowed. Never returns. */
static void be_filtered(int fd)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};
    char go;
    if (read(fd, &go, 1) != 1 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        syscall(SYS_exit_group, 1);
    long n = victim(41);
    syscall(SYS_exit_group, n == 42 ? 0 : 2);
    __builtin_unreachable();
}

hx_error *hx_probe_try_filtered(struct hx_probe_kernel *kernel, pid_t target)
{
    enum { first_with_call = 6011 };
    char name[32];
    uint64_t offset;
    int ends[2], status = 0;
    snprintf(name, sizeof name, "PID %d", (int)target);
    if (version() < first_with_call)
        return NULL;
    if (!hx_probe_own_offset((const void *)victim, &offset) || pipe2(ends, O_CLOEXEC))
        return hx_error_new(HX_E_FAIL, name, elsewhere,
                            "its system calls are filtered (seccomp), and a trial whether that "
                            "bears return probes could not be made");
    pid_t child = fork();
    if (child == 0)
        be_filtered(ends[0]);
    hx_error *err =
        child < 0 ? hx_error_os(errno, name, "fork") : hx_probe_link_trial(kernel, child, offset);
    if (!err && write(ends[1], "", 1) != 1)
        err = hx_error_os(errno, name, "write");
    close(ends[0]);
    close(ends[1]);
    if (child > 0)
        while (waitpid(child, &status, 0) < 0 && errno == EINTR)
            ;
    if (!err && WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS)
        return hx_error_new(HX_E_LIMIT, name,
                            "use a kernel of 6.14 or newer, or `heapx run -- CMD`",
                            "its system calls are filtered (seccomp), and on this kernel such a "
                            "filter kills a process for a return probe");
    if (!err && (!WIFEXITED(status) || WEXITSTATUS(status)))
        return hx_error_new(HX_E_FAIL, name, elsewhere,
                            "its system calls are filtered (seccomp), and a trial whether that "
                            "bears return probes failed (status %#x)",
                            (unsigned)status);
    return err;
}
