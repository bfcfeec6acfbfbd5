/* reader.c - heapx's end: it starts readers, waits for what they answer, and tells how they ended.
 */
#include "sym/reader/reader_private.h"

#include "base/cleanup.h"
#include "base/timing.h"
#include "sym/reader/trusted_file.h"
#include "sym/reading.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LISTEN_MS 20                /* between two looks whether to end */
#define ENDING_MS 200               /* until a process is gone whose socket is */
#define KEPT      ((size_t)1 << 20) /* bytes of the area that stay between calls */
#define ENV_MAX   16

struct hx_reader {
    pid_t pid; /* 0: it is gone */
    int socket, area, life;
    unsigned guards;
    bool asked; /* for a file */
    uint8_t *answer;
    size_t answer_size;
};

/* A process that readers are copies of. */
struct hx_reader_stem {
    pid_t pid;
    int socket;
};

/* Started to be a reader, and no service took over: main() would start readers in its turn. */
__attribute__((constructor)) static void end_without_service(int argc, char **argv)
{
    if (argc > 0 && strcmp(argv[0], HX_READER_NAME) == 0)
        _exit(1);
}

/* --- starting ------------------------------------------------------------------ */

/* One that file actions do not overwrite. */
static int above_readers(int fd)
{
    int moved = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, HX_READER_FDS_END) : -1;
    if (fd >= 0)
        close(fd);
    return moved;
}

static int make_area(void)
{
    int fd = memfd_create(HX_READER_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0 && (ftruncate(fd, (off_t)HX_READER_AREA) != 0 ||
                    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)) {
        close(fd);
        return -1;
    }
    return fd;
}

/* The program itself. Where it runs under Valgrind only readlink() tells; a file that was replaced
 * meanwhile has another name. */
static const char *own_program(char path[static PATH_MAX])
{
    static const char self[] = "/proc/self/exe", deleted[] = " (deleted)";
    ssize_t n = readlink(self, path, PATH_MAX - 1);
    size_t cut = sizeof deleted - 1;
    if (n <= 0 || ((size_t)n > cut && memcmp(path + n - cut, deleted, cut) == 0))
        return self;
    path[n] = 0;
    return access(path, X_OK) == 0 ? path : self;
}

/* Of the environment only what the loader and sanitizers need. */
static void choose_environment(char *chosen[static ENV_MAX + 1])
{
    static const char *const wanted[] = {"LD_LIBRARY_PATH=", "ASAN_OPTIONS=", "UBSAN_OPTIONS="};
    size_t n = 0;
    for (char **at = environ; *at && n < ENV_MAX; at++)
        for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
            if (strncmp(*at, wanted[i], strlen(wanted[i])) == 0)
                chosen[n++] = *at;
    chosen[n < ENV_MAX ? n : ENV_MAX] = NULL;
}

/* By exec, not fork: other threads may hold locks, and there may be gigabytes of secrets here. */
static int spawn_reader(const char *service, const int fds[static HX_READER_FDS], bool stem,
                        pid_t *ret)
{
    char path[PATH_MAX], *environment[ENV_MAX + 1];
    char *const argv[] = {(char[]){HX_READER_NAME}, (char *)service,
                          stem ? (char[]){HX_READER_STEM} : NULL, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    choose_environment(environment);
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &all);
    posix_spawnattr_setflags(&attr,
                             POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDWR, 0);
    posix_spawn_file_actions_adddup2(&files, 0, 1);
#if !defined(__SANITIZE_ADDRESS__) /* which reports there */
    posix_spawn_file_actions_adddup2(&files, 0, 2);
#endif
    for (int i = 0; i < (stem ? 1 : HX_READER_FDS); i++)
        posix_spawn_file_actions_adddup2(&files, fds[i], HX_READER_SOCKET + i);
    posix_spawn_file_actions_addclosefrom_np(&files,
                                             stem ? HX_READER_SOCKET + 1 : HX_READER_FDS_END);
    int err = posix_spawn(ret, own_program(path), &files, &attr, argv, environment);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attr);
    return err;
}

static hx_error *await_packet(struct hx_reader *reader, struct hx_reading *reading,
                              struct hx_reader_packet *ret);

static struct hx_reader_stem *start_stem(const char *service)
{
    int pair[2];
    struct hx_reader_stem *stem = calloc(1, sizeof *stem);
    if (!stem || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        free(stem);
        return NULL;
    }
    HX_FD int socket = above_readers(pair[1]);
    stem->socket = pair[0];
    if (socket < 0 || spawn_reader(service, (int[HX_READER_FDS]){socket}, true, &stem->pid) != 0) {
        close(stem->socket);
        free(stem);
        return NULL;
    }
    return stem;
}

void hx_reader_stem_stop(struct hx_reader_stem *stem)
{
    if (!stem)
        return;
    close(stem->socket);
    kill(stem->pid, SIGKILL);
    while (waitpid(stem->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    free(stem);
}

/* From a stem, or (NULL) by itself. */
static hx_error *start_reader(const char *service, struct hx_reader_stem *stem,
                              struct hx_reader **ret)
{
    struct hx_reader_packet hello, ask = {.kind = HX_READER_FORK};
    int pair[2] = {-1, -1}, pipe[2] = {-1, -1};
    struct hx_reader *reader = calloc(1, sizeof *reader);
    HX_NEED(reader);
    int err = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0 ||
                      pipe2(pipe, O_CLOEXEC) != 0
                  ? errno
                  : 0;
    HX_FD int socket = above_readers(pair[1]), life = above_readers(pipe[0]);
    reader->socket = pair[0];
    reader->life = pipe[1];
    reader->area = above_readers(make_area());
    if (!err && (socket < 0 || life < 0 || reader->area < 0))
        err = errno;
    const int fds[HX_READER_FDS] = {socket, reader->area, life};
    if (!err && !stem)
        err = spawn_reader(service, fds, false, &reader->pid);
    else if (!err && !hx_reader_send(stem->socket, &ask, fds))
        err = EPIPE;
    if (socket >= 0)
        close(socket); /* so that its end is seen */
    socket = -1;
    hx_error *failed = err ? hx_error_os(err, "reader of files", "posix_spawn") : NULL;
    if (!failed)
        failed = await_packet(reader, NULL, &hello);
    if (!failed && hello.kind != HX_READER_HELLO)
        failed = hx_error_new(HX_E_FAIL, "reader of files", NULL, "it does not begin as it must");
    if (failed) {
        hx_reader_stop(reader);
        return failed;
    }
    if (stem)
        reader->pid = (pid_t)hello.b; /* it has seen no file yet */
    reader->guards = (unsigned)hello.a;
    *ret = reader;
    return NULL;
}

hx_error *hx_reader_start(const char *service, struct hx_reader_stem **stem, struct hx_reader **ret)
{
    if (stem && !*stem)
        *stem = start_stem(service);
    hx_error *err = stem && *stem ? start_reader(service, *stem, ret) : NULL;
    if (stem && *stem && !err)
        return NULL;
    hx_error_free(err);
    return start_reader(service, NULL, ret);
}

unsigned hx_reader_guards(const struct hx_reader *reader)
{
    return reader->guards;
}

bool hx_reader_has_asked(const struct hx_reader *reader)
{
    return reader->asked;
}

/* --- its end ------------------------------------------------------------------- */

/* Ends it if it has not ended by itself after some time; how it ended. */
static int end_reader(struct hx_reader *reader, unsigned ms)
{
    int status = 0;
    if (!reader->pid)
        return 0;
    pid_t got = waitpid(reader->pid, &status, WNOHANG);
    for (; got == 0 && ms; ms--) {
        usleep(1000);
        got = waitpid(reader->pid, &status, WNOHANG);
    }
    if (got == 0) {
        kill(reader->pid, SIGKILL);
        while (waitpid(reader->pid, &status, 0) < 0 && errno == EINTR)
            ;
    }
    reader->pid = 0;
    return status;
}

void hx_reader_stop(struct hx_reader *reader)
{
    if (!reader)
        return;
    end_reader(reader, 0);
    const int fds[] = {reader->socket, reader->area, reader->life};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    free(reader->answer);
    free(reader);
}

static hx_error *tell_end(struct hx_reader *reader)
{
    int status = end_reader(reader, ENDING_MS);
    if (!WIFSIGNALED(status))
        return hx_error_new(HX_E_FAIL, "reader of files", NULL, "it left with status %d",
                            WEXITSTATUS(status));
    if (WTERMSIG(status) == SIGXCPU)
        return hx_error_new(HX_E_FAIL, "reader of files", NULL, "it took %d s of processor time",
                            HX_READER_CPU_SECONDS);
    return hx_error_new(HX_E_FAIL, "reader of files", NULL, "SIG%s",
                        sigabbrev_np(WTERMSIG(status)));
}

static hx_error *give_up(struct hx_reader *reader, const char *why)
{
    end_reader(reader, 0);
    return hx_error_new(HX_E_FAIL, "reader of files", NULL, "%s", why);
}

/* --- calls --------------------------------------------------------------------- */

static bool hand_file(struct hx_reader *reader, const char *path)
{
    struct hx_reader_packet packet = {.kind = HX_READER_FILE};
    HX_FD int fd = hx_trusted_file_open(path);
    reader->asked = true;
    return hx_reader_send(reader->socket, &packet, (int[HX_READER_FDS]){fd, -1, -1});
}

/* The next packet that is no wish for a file. */
static hx_error *await_packet(struct hx_reader *reader, struct hx_reading *reading,
                              struct hx_reader_packet *ret)
{
    struct pollfd readable = {.fd = reader->socket, .events = POLLIN};
    uint64_t begun = hx_now_ns();
    for (;;) {
        int got = poll(&readable, 1, LISTEN_MS);
        if (hx_reading_late(reading)) {
            end_reader(reader, 0);
            return hx_error_new(HX_E_CANCEL, "reader of files", NULL, "interrupted");
        }
        if (hx_now_ns() - begun > HX_READER_SECONDS * UINT64_C(1000000000))
            return give_up(reader, "it gave no answer for two minutes");
        if (got <= 0)
            continue;
        if (!hx_reader_receive(reader->socket, ret, NULL))
            return tell_end(reader);
        if (ret->kind != HX_READER_OPEN)
            return NULL;
        if (!hand_file(reader, ret->path))
            return tell_end(reader);
    }
}

/* Texts of the reader's are shown to people. */
static bool is_plain(const char *s)
{
    size_t n = 0;
    while (s[n] >= ' ' && s[n] <= '~')
        n++;
    return n && !s[n] && n <= HX_READER_NOTE_SIZE;
}

static bool take_notes(struct hx_flat *notes, struct hx_reading *reading, const char *path)
{
    for (uint64_t n = hx_flat_take_below(notes, HX_READER_NOTES); n; n--) {
        const char *what = hx_flat_take_string(notes);
        if (!what || !is_plain(what))
            return false;
        hx_reading_leave(reading, path, what);
    }
    return !notes->bad;
}

/* Copies the answer, which the reader could change at any time. */
static bool copy_answer(struct hx_reader *reader, uint64_t n)
{
    if (n > HX_READER_AREA)
        return false;
    if (n > reader->answer_size || reader->answer_size > KEPT) {
        free(reader->answer);
        reader->answer = malloc(n ? n : 1);
        reader->answer_size = reader->answer ? n : 0;
    }
    if (!reader->answer)
        return false;
    for (size_t at = 0; at < n;) {
        ssize_t got = pread(reader->area, reader->answer + at, n - at, (off_t)at);
        if (got <= 0)
            return false;
        at += (size_t)got;
    }
    return true;
}

hx_error *hx_reader_ask(struct hx_reader *reader, const struct hx_reader_call *call,
                        struct hx_reading *reading, const char *path, struct hx_flat *ret)
{
    struct hx_reader_packet packet = {
        .kind = HX_READER_CALL, .op = call->op, .number = call->number, .a = call->words.at};
    if (!reader->pid)
        return hx_error_new(HX_E_FAIL, "reader of files", NULL, "it has ended");
    /* Not longer than what the kernel writes at once. */
    if (call->words.bad ||
        pwrite(reader->area, call->words.bytes, call->words.at, 0) != (ssize_t)call->words.at)
        return hx_error_nomem();
    if (!hx_reader_send(reader->socket, &packet, call->fds))
        return tell_end(reader);
    HX_TRY(await_packet(reader, reading, &packet));
    if (packet.kind != HX_READER_ANSWER || packet.a > packet.b || !copy_answer(reader, packet.b))
        return give_up(reader, "what it answers cannot be");
    if (packet.b > KEPT && fallocate(reader->area, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                     (off_t)KEPT, (off_t)(HX_READER_AREA - KEPT)) != 0)
        return give_up(reader, "its memory cannot be given back");
    struct hx_flat notes = {.bytes = reader->answer + packet.a,
                            .size = (size_t)(packet.b - packet.a)};
    if (!take_notes(&notes, reading, path))
        return give_up(reader, "what it answers cannot be");
    *ret = (struct hx_flat){.bytes = reader->answer, .size = (size_t)packet.a};
    return NULL;
}
