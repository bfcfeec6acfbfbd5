/* sandbox.c - what a reader gives up before it sees the first byte of a foreign file.
 *
 * Its privileges, then the system calls that it does not need. It goes on with what the machine
 * does not let it give up, and says so.
 */
#include "sym/reader/reader_private.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

/* Users from here on are given to nobody: see systemd's "Users, Groups, UIDs and GIDs". */
#define NOBODYS_FIRST ((uid_t)0x70000000)
#define NOBODYS       ((uid_t)0x0fffffff)
#define NOBODY        ((uid_t)65534) /* where a namespace has no such user */

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED true /* which takes terabytes of addresses, and makes calls of its own */
#else
#define SANITIZED false
#endif

/* --- limits and user ----------------------------------------------------------- */

static bool lower_limit(__rlimit_resource_t resource, rlim_t to)
{
    struct rlimit limit;
    if (getrlimit(resource, &limit) != 0)
        return false;
    limit.rlim_max = limit.rlim_max < to ? limit.rlim_max : to;
    limit.rlim_cur = limit.rlim_max;
    return setrlimit(resource, &limit) == 0;
}

static bool set_limits(void)
{
    bool set = lower_limit(RLIMIT_CORE, 0) && (SANITIZED || lower_limit(RLIMIT_FSIZE, 0)) &&
               lower_limit(RLIMIT_NPROC, 0) && lower_limit(RLIMIT_NOFILE, HX_READER_FILES) &&
               lower_limit(RLIMIT_MEMLOCK, 0);
    struct rlimit cpu = {HX_READER_CPU_SECONDS, HX_READER_CPU_SECONDS + 1};
    set &= setrlimit(RLIMIT_CPU, &cpu) == 0;
    return SANITIZED || (set & lower_limit(RLIMIT_AS, HX_READER_BYTES));
}

static bool become_nobody(void)
{
    uint32_t any;
    if (geteuid() != 0 || getrandom(&any, sizeof any, 0) != sizeof any || setgroups(0, NULL) != 0)
        return false;
    uid_t id = NOBODYS_FIRST + any % NOBODYS;
    return (setresgid(id, id, id) == 0 || setresgid(NOBODY, NOBODY, NOBODY) == 0) &&
           (setresuid(id, id, id) == 0 || setresuid(NOBODY, NOBODY, NOBODY) == 0);
}

/* --- system calls -------------------------------------------------------------- */

static long ask_for_file(const char *path)
{
    struct hx_reader_packet packet = {.kind = HX_READER_OPEN};
    int fds[HX_READER_FDS];
    for (size_t i = 0; i < sizeof packet.path - 1 && path[i]; i++)
        packet.path[i] = path[i];
    if (!hx_reader_send(HX_READER_SOCKET, &packet, NULL) ||
        !hx_reader_receive(HX_READER_SOCKET, &packet, fds))
        _exit(1);
    return fds[0] >= 0 ? fds[0] : -EACCES;
}

/* In place of a call that names a file. */
static void stand_in(int signal, siginfo_t *info, void *context)
{
    greg_t *reg = ((ucontext_t *)context)->uc_mcontext.gregs;
    const char *path = (const char *)reg[REG_RSI];
    int kept = errno;
    long result = -EACCES;
    (void)signal;
    if (info->si_syscall == SYS_openat)
        result = ask_for_file(path);
    else if (info->si_syscall == SYS_newfstatat && !*path && reg[REG_R10] & AT_EMPTY_PATH)
        result = syscall(SYS_fstat, reg[REG_RDI], reg[REG_RDX]) == 0 ? 0 : -errno;
    reg[REG_RAX] = result;
    errno = kept;
}

#define LOAD(field)                                                                                \
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, field))
#define RETURN(what)   BPF_STMT(BPF_RET | BPF_K, (what))
#define ON(call, what) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), RETURN(what)
#define ALLOW(call)    ON(call, SECCOMP_RET_ALLOW)
#define REFUSE(call)   ON(call, SECCOMP_RET_ERRNO | EACCES)
/* Of a call whose third argument must not have some bits. */
#define WITHOUT(call, bits)                                                                        \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 4), LOAD(args[2]),                          \
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (bits), 0, 1), RETURN(SECCOMP_RET_KILL_PROCESS),      \
        RETURN(SECCOMP_RET_ALLOW)

static bool filter_calls(void)
{
    struct sock_filter code[] = {
        LOAD(arch),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
        RETURN(SECCOMP_RET_KILL_PROCESS),
        LOAD(nr),
        WITHOUT(mmap, PROT_EXEC),
        WITHOUT(mprotect, PROT_EXEC),
        ALLOW(munmap),
        ALLOW(mremap),
        ALLOW(madvise),
        ALLOW(brk),
        ALLOW(read),
        ALLOW(pread64),
        ALLOW(lseek),
        ALLOW(fstat),
        ALLOW(close),
        ALLOW(futex),
        ALLOW(clock_gettime),
        ALLOW(getrandom),
        ALLOW(recvmsg),
        ALLOW(sendmsg),
        ALLOW(rt_sigreturn),
        ALLOW(exit_group),
        /* libelf asks whether a descriptor is open */
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fcntl, 0, 4),
        LOAD(args[1]),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_GETFD, 0, 1),
        RETURN(SECCOMP_RET_ALLOW),
        RETURN(SECCOMP_RET_ERRNO | EACCES),
        ON(openat, SECCOMP_RET_TRAP),
        ON(newfstatat, SECCOMP_RET_TRAP),
        REFUSE(readlink),
        REFUSE(readlinkat),
        REFUSE(getcwd),
        REFUSE(sysinfo),
        REFUSE(ioctl),
        ALLOW(rt_sigprocmask),
#if defined(__SANITIZE_ADDRESS__)
        ALLOW(write),
        ALLOW(sigaltstack),
        RETURN(SECCOMP_RET_ERRNO | EACCES),
#endif
        RETURN(SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog filter = {sizeof code / sizeof *code, code};
    struct sigaction action = {.sa_sigaction = stand_in, .sa_flags = SA_SIGINFO};
    return sigaction(SIGSYS, &action, NULL) == 0 &&
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) == 0;
}

unsigned hx_reader_confine(void)
{
    unsigned guards = 0;
    guards |= become_nobody() ? HX_READER_USER : 0;
    guards |= set_limits() ? HX_READER_MEMORY : 0;
    prctl(PR_SET_DUMPABLE, 0);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && filter_calls())
        guards |= HX_READER_CALLS;
    return guards;
}
