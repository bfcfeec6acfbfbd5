/* launch.c - starting a program with the recording library in it. */
#include "record/launch.h"

#include "base/cleanup.h"
#include "base/proc.h"
#include "base/timing.h"
#include "model/process.h"
#include "record/meeting_folder.h"
#include "record/ring.h"
#include "sym/elf.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

/* GREET_MS: how often waiting processes are told that heapx is alive; they check each second.
 * MADE_WITHIN_S: a region that is older than that, and not whole, will not be. */
enum { GREET_MS = 100, MADE_WITHIN_S = 2 };

/* --- the program ------------------------------------------------------------------------- */

/* The file that execvp() would start; the caller frees. NULL with errno. */
static char *find_program(const char *command)
{
    if (strchr(command, '/'))
        return access(command, X_OK) == 0 ? strdup(command) : NULL;
    const char *path = getenv("PATH");
    int failed = ENOENT;
    for (const char *at = path ? path : "/bin:/usr/bin"; *command;) {
        size_t n = strcspn(at, ":");
        char *file = NULL;
        struct stat st;
        if (asprintf(&file, "%.*s%s%s", (int)n, at, n ? "/" : "", command) < 0)
            return NULL;
        if (stat(file, &st) == 0 && S_ISREG(st.st_mode)) {
            if (access(file, X_OK) == 0)
                return file;
            failed = errno;
        }
        free(file);
        if (!at[n])
            break;
        at += n + 1;
    }
    errno = failed;
    return NULL;
}

static hx_error *cannot_start(const char *command, int err)
{
    if (err == ENOENT)
        return hx_error_new(HX_E_ABSENT, command, "give its path", "there is no such program");
    return hx_error_os(err, command, "exec");
}

/* Does starting the file give rights that heapx does not have? Then the loader leaves out whatever
 * LD_PRELOAD says. */
static bool gains_rights(int fd, const struct stat *st)
{
    bool user = st->st_mode & S_ISUID && st->st_uid != geteuid();
    bool group = st->st_mode & S_ISGID && st->st_mode & S_IXGRP && st->st_gid != getegid();
    bool capable = geteuid() != 0 && fgetxattr(fd, "security.capability", NULL, 0) > 0;
    return user || group || capable;
}

static bool read_elf_header(int fd, Elf64_Ehdr *ret)
{
    return pread(fd, ret, sizeof *ret, 0) == sizeof *ret &&
           memcmp(ret->e_ident, ELFMAG, SELFMAG) == 0;
}

/* Is it made for this machine, as the library is? */
static bool is_native(const Elf64_Ehdr *header)
{
    return header->e_ident[EI_CLASS] == ELFCLASS64 && header->e_ident[EI_DATA] == ELFDATA2LSB &&
           header->e_machine == EM_X86_64;
}

/* The program header that names the loader. */
static bool has_loader(int fd, const Elf64_Ehdr *elf)
{
    Elf64_Ehdr header = *elf;
    if (header.e_phentsize != sizeof(Elf64_Phdr))
        return false;
    for (unsigned i = 0; i < header.e_phnum; i++) {
        Elf64_Phdr phdr;
        if (pread(fd, &phdr, sizeof phdr, (off_t)(header.e_phoff + i * sizeof phdr)) != sizeof phdr)
            return false;
        if (phdr.p_type == PT_INTERP)
            return true;
    }
    return false;
}

/* An allocator that is linked into the executable itself comes before that of any library. */
static bool is_malloc(void *context, const struct hx_elf_symbol *symbol)
{
    bool *found = context;
    *found |= symbol->type == STT_FUNC && symbol->name_len == strlen("malloc") &&
              memcmp(symbol->name, "malloc", symbol->name_len) == 0;
    return !*found;
}

static bool has_malloc(int fd)
{
    bool found = false;
    hx_error_free(hx_elf_each_symbol(fd, NULL, SHT_DYNSYM, is_malloc, &found));
    return found;
}

/* NULL: the library can be loaded into it, and will be called. A file that is not ELF may be
 * anything. */
static const char *why_unfit(int fd, const struct stat *st)
{
    Elf64_Ehdr header;
    if (gains_rights(fd, st))
        return "it gains rights when it starts (set-uid, set-gid or file capabilities), and the "
               "loader lets no library into it";
    if (!read_elf_header(fd, &header))
        return NULL;
    if (!is_native(&header))
        return "it is made for another kind of processor (32-bit?), and the recording library is "
               "not";
    if (!has_loader(fd, &header))
        return "it is linked statically: no library can be loaded into it";
    if (has_malloc(fd))
        return "it has a malloc of its own, which no library can take the place of";
    return NULL;
}

/* The interpreter of a script, as the kernel reads it; the caller frees. NULL: it is none. */
static char *interpreter(int fd)
{
    char line[PATH_MAX];
    ssize_t n = pread(fd, line, sizeof line - 1, 0);
    if (n < 3 || line[0] != '#' || line[1] != '!')
        return NULL;
    line[n] = 0;
    line[strcspn(line, "\n")] = 0;
    char *start = line + 2 + strspn(line + 2, " \t");
    start[strcspn(start, " \t")] = 0;
    return *start ? strdup(start) : NULL;
}

hx_error *hx_launch_possible(const char *command)
{
    HX_FREE char *file = find_program(command);
    if (!file)
        return cannot_start(command, errno);
    /* a script's interpreter can be a script again; the kernel follows five */
    for (int depth = 0; depth < 5; depth++) {
        HX_FD int fd = open(file, O_RDONLY | O_CLOEXEC);
        struct stat st;
        if (fd < 0)
            return NULL; /* may be started and not read: nobody knows */
        if (fstat(fd, &st) != 0)
            return hx_error_os(errno, file, "fstat");
        char *next = interpreter(fd);
        if (next) {
            free(file);
            file = next;
            continue;
        }
        const char *why = why_unfit(fd, &st);
        if (why)
            return hx_error_new(HX_E_LIMIT, command, "start it, then: heapx record PID", "%s", why);
        return NULL;
    }
    return NULL;
}

/* --- the library --------------------------------------------------------------------------- */

hx_error *hx_launch_library(char **ret)
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    HX_FREE char *adjacent = NULL;
    if (n > 0) {
        self[n] = 0;
        char *slash = strrchr(self, '/');
        if (slash && asprintf(&adjacent, "%.*s/" HX_RECORD_LIBRARY, (int)(slash - self), self) < 0)
            return hx_error_nomem();
    }
    const char *const places[] = {adjacent, HX_PKGLIB "/" HX_RECORD_LIBRARY};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (places[i] && access(places[i], R_OK) == 0) {
            *ret = strdup(places[i]);
            return *ret ? NULL : hx_error_nomem();
        }
    return hx_error_new(HX_E_ABSENT, HX_RECORD_LIBRARY, "install heapx again, or run make",
                        "is neither beside heapx nor in " HX_PKGLIB);
}

/* --- the folder ----------------------------------------------------------------------------- */

bool hx_launched_why(const struct hx_launched *launched, pid_t pid, char *ret, size_t size)
{
    char name[32];
    snprintf(name, sizeof name, "%d.why", (int)pid);
    ssize_t n = launched->folder_fd < 0 ? -1 : readlinkat(launched->folder_fd, name, ret, size - 1);
    if (n < 0)
        return false;
    for (ssize_t i = 0; i < n; i++) /* by the program, which can write there what it likes */
        if (ret[i] < ' ' || ret[i] > '~')
            ret[i] = '?';
    ret[n] = 0;
    unlinkat(launched->folder_fd, name, 0);
    return true;
}

/* Its first word is written last, when it is mapped where it will be, and all else of its head is
 * there. True as well when the file is gone. */
static bool is_whole(int folder_fd, const char *name, uint32_t *ret_foreign)
{
    uint64_t magic = 0;
    HX_FD int fd = openat(folder_fd, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return true;
    return pread(fd, &magic, sizeof magic, 0) == sizeof magic && magic != 0 &&
           pread(fd, ret_foreign, sizeof *ret_foreign, offsetof(struct hx_region, foreign)) ==
               sizeof *ret_foreign;
}

/* Does the process map a region of that number? *ret_n: how many mappings it has; 0: it ends, or is
 * not to be looked at. */
static bool maps_region(int folder_fd, pid_t process, pid_t number, size_t *ret_n)
{
    struct hx_mapping *mapping = NULL;
    size_t n = 0;
    bool mapped = false;
    hx_error *err = hx_proc_read_mappings(process, "maps", &mapping, &n);
    for (int i = 0; !err && !mapped && i < 1000; i++) {
        char name[64];
        struct stat st;
        snprintf(name, sizeof name, "%d.%d", (int)number, i);
        if (fstatat(folder_fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
            break;
        for (size_t k = 0; k < n && !mapped; k++)
            mapped = mapping[k].inode == st.st_ino && mapping[k].dev == st.st_dev;
    }
    hx_error_free(err);
    hx_mappings_free(mapping, n);
    *ret_n = n;
    return mapped;
}

static bool is_new(const struct stat *region)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec - region->st_mtim.tv_sec <= MADE_WITHIN_S;
}

enum hx_launched_owner hx_launched_owner(const struct hx_launched *launched, pid_t pid)
{
    size_t n;
    uint32_t foreign = 0;
    bool whole = true, new = false;
    for (int i = 0; whole && i < 1000; i++) { /* before the mappings are read */
        char name[64];
        struct stat st;
        snprintf(name, sizeof name, "%d.%d", (int)pid, i);
        if (fstatat(launched->folder_fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
            break;
        whole = is_whole(launched->folder_fd, name, &foreign);
        new = is_new(&st);
    }
    if (maps_region(launched->folder_fd, pid, pid, &n))
        return HX_LAUNCHED_OWN;
    if (!whole && (n || new)) /* without mappings: its maker may be elsewhere */
        return HX_LAUNCHED_UNKNOWN;
    return foreign ? HX_LAUNCHED_FOREIGN : HX_LAUNCHED_GONE;
}

/* A word into a file of the folder that holds a region; what is there is not believed. */
static bool write_word(int folder_fd, const char *name, const void *word, size_t size, size_t at)
{
    struct stat st;
    HX_FD int fd = openat(folder_fd, name, O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
    return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
           pwrite(fd, word, size, (off_t)at) == (ssize_t)size;
}

static void abandon_region(int folder_fd, const char *name)
{
    const uint32_t gone = 1;
    /* should that fail, it waits a while when it ends */
    write_word(folder_fd, name, &gone, sizeof gone, offsetof(struct hx_region, reader_gone));
    unlinkat(folder_fd, name, 0);
}

void hx_launched_refuse(const struct hx_launched *launched, pid_t pid)
{
    char name[64];
    struct stat st;
    for (int i = 0; i < 1000 && launched->folder_fd >= 0; i++) {
        snprintf(name, sizeof name, "%d.%d", (int)pid, i);
        if (fstatat(launched->folder_fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
            break;
        abandon_region(launched->folder_fd, name);
    }
}

/* Calls each() for the files of the folder that may be regions: PID.N. */
static void each_region(int folder_fd, void (*each)(int folder_fd, const char *name))
{
    int fd = folder_fd < 0 ? -1 : openat(folder_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    HX_DIR DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir && fd >= 0)
        close(fd);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        const char *name = entry->d_name;
        size_t digits = strspn(name, "0123456789"), n = digits ? strlen(name) : 0;
        if (digits < n && name[digits] == '.' &&
            digits + 1 + strspn(name + digits + 1, "0123456789") == n && digits + 1 < n)
            each(folder_fd, name);
    }
}

static void announce_reader(int folder_fd, const char *name)
{
    uint64_t now = hx_now_ns();
    uint32_t unused;
    if (is_whole(folder_fd, name, &unused))
        write_word(folder_fd, name, &now, sizeof now, offsetof(struct hx_region, reader_ns));
}

struct hx_launched_announcer {
    pthread_t thread;
    int folder_fd, end_fd; /* end_fd: the other end of the pipe is closed at the end */
    int keep_fd;           /* that one */
};

static void *announce_to_all(void *argument)
{
    const struct hx_launched_announcer *announcer = argument;
    struct pollfd end = {.fd = announcer->end_fd};
    while (poll(&end, 1, GREET_MS) <= 0)
        each_region(announcer->folder_fd, announce_reader);
    return NULL;
}

hx_error *hx_launched_announce(struct hx_launched *launched)
{
    struct hx_launched_announcer *announcer = calloc(1, sizeof *announcer);
    int ends[2];
    HX_NEED(announcer);
    if (pipe2(ends, O_CLOEXEC) != 0) {
        free(announcer);
        return hx_error_os(errno, "recorder", "pipe");
    }
    *announcer = (struct hx_launched_announcer){
        .folder_fd = launched->folder_fd, .end_fd = ends[0], .keep_fd = ends[1]};
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for those who wait for them */
    int failed = pthread_create(&announcer->thread, NULL, announce_to_all, announcer);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) {
        close(ends[0]);
        close(ends[1]);
        free(announcer);
        return hx_error_os(failed, "recorder", "pthread_create");
    }
    launched->announcer = announcer;
    return NULL;
}

static void end_announcer(struct hx_launched_announcer *announcer)
{
    if (!announcer)
        return;
    close(announcer->keep_fd);
    pthread_join(announcer->thread, NULL);
    close(announcer->end_fd);
    free(announcer);
}

size_t hx_launched_unrecorded(const struct hx_launched *launched, char *ret, size_t size)
{
    int fd = launched->folder_fd < 0
                 ? -1
                 : openat(launched->folder_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    HX_DIR DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    size_t n = 0;
    if (!dir && fd >= 0)
        close(fd);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        char *end;
        long pid = strtol(entry->d_name, &end, 10);
        if (pid > 0 && pid <= INT_MAX && strcmp(end, ".why") == 0 &&
            hx_launched_why(launched, (pid_t)pid, ret, size))
            n++;
    }
    return n;
}

void hx_launched_deinit(struct hx_launched *launched)
{
    end_announcer(launched->announcer);
    if (launched->go_fd >= 0)
        close(launched->go_fd);
    if (launched->status_fd >= 0)
        close(launched->status_fd);
    bool removed = launched->folder_fd < 0;
    for (int i = 0; !removed && i < 100; i++) { /* some may just be made */
        each_region(launched->folder_fd, abandon_region);
        removed = hx_folder_clear(&launched->folder);
    }
    if (launched->folder_fd >= 0)
        hx_folder_remove(&launched->folder);
    *launched =
        (struct hx_launched){.pid = launched->pid, .folder_fd = -1, .go_fd = -1, .status_fd = -1};
}

/* --- the start -------------------------------------------------------------------------------- */

/* The child's environment: HEAPX_RUN, and the library in front of what is preloaded anyway. */
static hx_error *make_environment(const struct hx_launched *launched,
                                  const struct hx_record_options *options, char **ret_run,
                                  char **ret_preload)
{
    HX_FREE char *library = NULL;
    HX_TRY(hx_launch_library(&library));
    if (strpbrk(library, ": "))
        return hx_error_new(HX_E_LIMIT, library, "install heapx elsewhere",
                            "a path with a colon or a blank cannot be preloaded");
    const char *before = getenv("LD_PRELOAD");
    unsigned flags = (options->children ? HX_RUN_CHILDREN : 0u) |
                     (options->at_exit ? HX_RUN_AT_EXIT : 0u) |
                     (options->mappings ? HX_RUN_MAPPINGS : 0u);
    HX_NEED(asprintf(ret_run, "%s:%x:%" PRIx64 ":%" PRIx64 ":%" PRIx64, launched->folder.path,
                     flags, options->sample_bytes, options->least_bytes, options->most_bytes) >= 0);
    HX_NEED(asprintf(ret_preload, "%s%s%s", library, before && *before ? ":" : "",
                     before ? before : "") >= 0);
    return NULL;
}

/* In the child: waits for the word to go, then becomes the program. */
static _Noreturn void become(char *const *argv, const char *run, const char *preload, int go,
                             int status)
{
    char word;
    if (run && (setenv(HX_RUN_ENV, run, 1) || setenv("LD_PRELOAD", preload, 1)))
        _exit(127);
    ssize_t n;
    while ((n = read(go, &word, 1)) < 0 && errno == EINTR)
        ;
    if (n != 1)
        _exit(127);           /* heapx has given up, or is gone */
    signal(SIGPIPE, SIG_DFL); /* what heapx ignores is its own */
    signal(SIGXFSZ, SIG_DFL);
    execvp(argv[0], argv);
    int err = errno;
    if (write(status, &err, sizeof err) != sizeof err)
        _exit(126);
    _exit(127);
}

hx_error *hx_launch(char *const *argv, bool preload, const struct hx_record_options *options,
                    struct hx_launched *ret)
{
    struct hx_launched launched = {.folder_fd = -1, .go_fd = -1, .status_fd = -1};
    HX_FREE char *run = NULL, *libraries = NULL;
    hx_error *err = NULL;
    int go[2], status[2];
    if (preload)
        err = hx_record_folder_make(&launched.folder);
    if (!err && preload)
        launched.folder_fd = launched.folder.fd;
    if (!err && preload)
        err = make_environment(&launched, options, &run, &libraries);
    if (!err && pipe2(go, O_CLOEXEC))
        err = hx_error_os(errno, argv[0], "pipe");
    if (!err && pipe2(status, O_CLOEXEC)) {
        err = hx_error_os(errno, argv[0], "pipe");
        close(go[0]);
        close(go[1]);
    }
    if (!err && (launched.pid = fork()) < 0) {
        err = hx_error_os(errno, argv[0], "fork");
        for (int i = 0; i < 2; i++) {
            close(go[i]);
            close(status[i]);
        }
    }
    if (err) {
        hx_launched_deinit(&launched);
        return err;
    }
    if (launched.pid == 0) {
        close(go[1]);
        become(argv, run, libraries, go[0], status[1]);
    }
    close(go[0]);
    close(status[1]);
    launched.go_fd = go[1];
    launched.status_fd = status[0];
    launched.preloaded = preload;
    *ret = launched;
    return NULL;
}

hx_error *hx_launched_hold(const struct hx_launched *launched)
{
    if (ptrace(PTRACE_SEIZE, launched->pid, NULL, (void *)(uintptr_t)PTRACE_O_TRACEEXEC))
        return hx_error_os(errno, "the program", "ptrace");
    return NULL;
}

hx_error *hx_launched_held(const struct hx_launched *launched)
{
    for (int status;;) {
        pid_t got = waitpid(launched->pid, &status, __WALL);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 || !WIFSTOPPED(status))
            return hx_error_new(HX_E_GONE, "the program", NULL, "it ended when it was started");
        if (status >> 8 == (SIGTRAP | PTRACE_EVENT_EXEC << 8))
            return NULL;
        ptrace(PTRACE_CONT, launched->pid, NULL, (void *)(uintptr_t)WSTOPSIG(status));
    }
}

void hx_launched_release(const struct hx_launched *launched)
{
    ptrace(PTRACE_DETACH, launched->pid, NULL, NULL);
}

hx_error *hx_launched_go(struct hx_launched *launched, const char *command)
{
    int err = 0;
    ssize_t n = write(launched->go_fd, "", 1);
    close(launched->go_fd);
    launched->go_fd = -1;
    if (n == 1)
        while ((n = read(launched->status_fd, &err, sizeof err)) < 0 && errno == EINTR)
            ;
    close(launched->status_fd);
    launched->status_fd = -1;
    if (n != sizeof err)
        return NULL; /* the pipe was closed by the exec */
    waitpid(launched->pid, NULL, 0);
    return cannot_start(command, err);
}
