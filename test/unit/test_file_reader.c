/* test_file_reader.c - a reader of files: what it can do, what it cannot, how it ends, and answers
 * that cannot be. */
#include "unit.h"

#include "base/cleanup.h"
#include "base/progress.h"
#include "base/text.h"
#include "base/timing.h"
#include "sym/reader/reader_private.h"
#include "sym/reading.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SERVICE "test"

enum op {
    ADD,       /* the words, and what the first descriptor holds */
    OPEN,      /* the first byte of a file, by its path; errno when it cannot be opened */
    FORBIDDEN, /* the system call of that number */
    CRASH,
    BURN,  /* processor time, for ever */
    HOARD, /* how many bytes there are */
    NOTE,  /* leaves something out */
    LIE,   /* answers what cannot be */
    SPILL  /* answers more than fits */
};

/* --- the service --------------------------------------------------------------- */

static void answer_sum(const struct hx_reader_work *work)
{
    struct hx_flat words = work->words;
    uint64_t sum = 0;
    uint8_t byte = 0;
    for (uint64_t n = hx_flat_take(&words); n; n--)
        sum += hx_flat_take(&words);
    if (work->fds[0] >= 0 && pread(work->fds[0], &byte, 1, 0) == 1)
        sum += byte;
    hx_flat_put(work->ret, sum);
}

static void answer_open(const struct hx_reader_work *work)
{
    struct hx_flat words = work->words;
    const char *path = hx_flat_take_string(&words);
    uint8_t byte = 0;
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    uint64_t failed = fd < 0 ? (uint64_t)errno : 0;
    if (fd >= 0 && (fstat(fd, &st) != 0 || pread(fd, &byte, 1, 0) != 1))
        failed = 1000;
    hx_flat_put(work->ret, failed);
    hx_flat_put(work->ret, byte);
}

static void answer_hoard(const struct hx_reader_work *work)
{
    uint64_t n = 0;
    const size_t piece = (size_t)256 << 20;
    while (n < UINT64_C(1) << 40 &&
           mmap(NULL, piece, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                -1, 0) != MAP_FAILED)
        n += piece;
    hx_flat_put(work->ret, n);
}

static void answer_lie(const struct hx_reader_work *work)
{
    struct hx_reader_packet packet = {.kind = HX_READER_ANSWER};
    switch (work->number) {
    case 0:
        packet.kind = HX_READER_HELLO;
        break;
    case 1:
        packet.b = HX_READER_AREA + 1;
        break;
    case 2:
        packet.a = 16;
        packet.b = 8;
        break;
    case 3: /* more notes than there are */
        memset(work->ret->bytes, 0xff, 64);
        packet.b = 64;
        break;
    default: /* one that moves the cursor of the terminal */
        hx_flat_put(work->ret, 1);
        hx_flat_put_string(work->ret, "\033[2J");
        packet.b = work->ret->at;
        break;
    }
    hx_reader_send(HX_READER_SOCKET, &packet, NULL);
    for (;;)
        ;
}

static void answer_test(void *context, const struct hx_reader_work *work)
{
    static volatile uint64_t spun;
    (void)context;
    switch (work->op) {
    case ADD:
        answer_sum(work);
        break;
    case OPEN:
        answer_open(work);
        break;
    case FORBIDDEN:
        (void)syscall((long)work->number, 0, 0, 0, 0, 0, 0);
        break;
    case CRASH:
        *(volatile int *)(uintptr_t)work->number = 1;
        break;
    case BURN:
        for (;;)
            spun++;
    case HOARD:
        answer_hoard(work);
        break;
    case NOTE:
        hx_reading_leave(work->reading, "some path", "a part");
        hx_flat_put(work->ret, 7);
        break;
    case LIE:
        answer_lie(work);
        break;
    case SPILL:
        work->ret->at = work->ret->size;
        hx_flat_put(work->ret, 1);
        break;
    default:
        break;
    }
}

HX_READER_SERVICE static void serve_test(int argc, char **argv)
{
    hx_reader_serve(argc, argv, SERVICE, answer_test, NULL);
}

/* --- asking -------------------------------------------------------------------- */

/* All is tested with readers that were started one by one (NULL), and with copies of a stem. */
static struct hx_reader_stem *stem, **stem_or_none;

static struct hx_reader *start(void)
{
    struct hx_reader *reader;
    assert_null(hx_reader_start(SERVICE, stem_or_none, &reader));
    return reader;
}

/* Expects that the reader ends, with these words in the reason. */
static void expect_end(uint32_t op, uint64_t number, const char *why)
{
    struct hx_reader *reader = start();
    struct hx_flat answer;
    const struct hx_reader_call call = {.op = op, .number = number};
    hx_error *err = hx_reader_ask(reader, &call, NULL, "path", &answer);
    assert_non_null(err);
    assert_int_equal(err->kind, HX_E_FAIL);
    if (!strstr(err->why, why))
        fail_msg("op %u number %lu: %s", op, (unsigned long)number, err->why);
    hx_error_free(err);
    err = hx_reader_ask(reader, &call, NULL, "path", &answer); /* it stays so */
    assert_non_null(err);
    hx_error_free(err);
    hx_reader_stop(reader);
}

static uint64_t expect_number(struct hx_reader *reader, const struct hx_reader_call *call)
{
    struct hx_flat answer;
    hx_error *err = hx_reader_ask(reader, call, NULL, "path", &answer);
    if (err)
        fail_msg("%s: %s", err->what, err->why);
    uint64_t number = hx_flat_take(&answer);
    assert_false(answer.bad);
    return number;
}

static void test_answers(void **state)
{
    (void)state;
    uint8_t room[64];
    char path[] = "/tmp/hx-reader-XXXXXX";
    HX_FD int fd = mkstemp(path);
    assert_int_equal(write(fd, "*", 1), 1);
    struct hx_reader *reader = start();
    struct hx_reader_call call = {.op = ADD, .words = {.bytes = room, .size = sizeof room}};
    hx_flat_put(&call.words, 2);
    hx_flat_put(&call.words, 1000);
    hx_flat_put(&call.words, 200);
    for (int i = 0; i < 100; i++) {
        call.fds[0] = i & 1 ? fd : -1;
        assert_int_equal(expect_number(reader, &call), i & 1 ? 1200 + '*' : 1200);
    }
    struct hx_flat answer; /* what does not fit is none, and the next one is right */
    assert_null(hx_reader_ask(reader, &(struct hx_reader_call){.op = SPILL}, NULL, "", &answer));
    assert_int_equal(answer.size, 0);
    assert_int_equal(expect_number(reader, &call), 1200 + '*');
    hx_reader_stop(reader);
    unlink(path);
    hx_reader_stop(NULL);
    hx_error *err = hx_reader_start("no such service", NULL, &reader);
    assert_non_null(err);
    hx_error_free(err);
}

static void test_notes(void **state)
{
    (void)state;
    struct hx_reading reading;
    struct hx_reader *reader = start();
    struct hx_flat answer;
    hx_reading_init(&reading);
    for (int i = 0; i < 2; i++)
        assert_null(hx_reader_ask(reader, &(struct hx_reader_call){.op = NOTE}, &reading,
                                  "/the/path", &answer));
    assert_int_equal(hx_flat_take(&answer), 7);
    struct hx_text text = {0};
    uint64_t n;
    hx_reading_tell(&reading, &text, &n);
    assert_int_equal(n, 1);
    assert_string_equal(hx_text_str(&text), "not read: /the/path: a part");
    hx_text_free(&text);
    hx_reading_deinit(&reading);
    hx_reader_stop(reader);
}

/* --- what it cannot do ------------------------------------------------------------ */

static uint64_t open_by_reader(struct hx_reader *reader, const char *path)
{
    uint8_t room[256];
    struct hx_reader_call call = {.op = OPEN, .words = {.bytes = room, .size = sizeof room}};
    hx_flat_put_string(&call.words, path);
    return expect_number(reader, &call);
}

static void test_files(void **state)
{
    (void)state;
    char folder[] = "/tmp/hx-reader-XXXXXX", path[64];
    struct hx_reader *reader = start();
    if (!(hx_reader_guards(reader) & HX_READER_CALLS)) {
        hx_reader_stop(reader);
        skip();
    }
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/file", folder);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, "*", 1), 1);
    close(fd);
    assert_int_equal(open_by_reader(reader, path), 0);
    assert_int_equal(open_by_reader(reader, "/proc/self/mem"), EACCES);
    assert_int_equal(open_by_reader(reader, "/dev/null"), EACCES);
    assert_int_equal(open_by_reader(reader, folder), EACCES);
    assert_int_equal(open_by_reader(reader, strrchr(path, '/') + 1), EACCES);
    assert_int_equal(chmod(folder, 0777), 0); /* somebody else could put one there */
    assert_int_equal(open_by_reader(reader, path), EACCES);
    hx_reader_stop(reader);
    unlink(path);
    rmdir(folder);
}

static void test_forbidden(void **state)
{
    (void)state;
    static const long calls[] = {SYS_socket, SYS_execve,  SYS_ptrace,       SYS_fork,
                                 SYS_clone,  SYS_kill,    SYS_unlink,       SYS_open,
                                 SYS_write,  SYS_connect, SYS_memfd_create, SYS_process_vm_readv};
    struct hx_reader *reader = start();
    unsigned guards = hx_reader_guards(reader);
    hx_reader_stop(reader);
#ifdef __SANITIZE_ADDRESS__
    skip();
#endif
    if (!(guards & HX_READER_CALLS))
        skip();
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        expect_end(FORBIDDEN, (uint64_t)calls[i], "SIGSYS");
}

/* The number of the only child. */
static bool has_line(pid_t pid, const char *name, const char *line)
{
    char path[64], text[256];
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    HX_FILE FILE *file = fopen(path, "re");
    while (file && fgets(text, sizeof text, file))
        found |= strncmp(text, line, strlen(line)) == 0;
    return found;
}

/* Processes that `parent` has started to read, a stem first. */
static size_t readers_of(pid_t parent, pid_t *pid, size_t max)
{
    char path[64];
    int child = 0;
    size_t n = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)parent, (int)parent);
    HX_FILE FILE *file = fopen(path, "re");
    while (file && n < max && fscanf(file, "%d", &child) == 1)
        if (has_line(child, "comm", HX_READER_NAME))
            pid[n++] = child;
    return n;
}

static void test_privileges(void **state)
{
    (void)state;
    struct hx_reader *reader = start();
    unsigned guards = hx_reader_guards(reader);
    pid_t pids[2] = {0};
    const size_t n = readers_of(getpid(), pids, 2);
    assert_int_equal(n, stem_or_none ? 2 : 1);
    const pid_t pid = pids[n - 1];
    char path[64];
    struct stat st;
    assert_true(has_line(pid, "status", "NoNewPrivs:\t1"));
    if (guards & HX_READER_CALLS)
        assert_true(has_line(pid, "status", "Seccomp:\t2"));
    if (geteuid() == 0 && guards & HX_READER_USER) {
        snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
        assert_false(has_line(pid, "status", "Uid:\t0\t"));
        assert_true(has_line(pid, "status", "Groups:\t \n") ||
                    has_line(pid, "status", "Groups:\t\n"));
        assert_true(has_line(pid, "status", "CapPrm:\t0000000000000000"));
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_uid, 0); /* not dumpable */
    }
#ifndef __SANITIZE_ADDRESS__
    assert_true(has_line(pid, "limits", "Max file size             0                    0"));
#endif
    assert_true(has_line(pid, "limits", "Max processes             0                    0"));
    for (int fd = HX_READER_FDS_END; fd < 64; fd++) {
        snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)pid, fd);
        assert_int_equal(lstat(path, &st), -1);
    }
    hx_reader_stop(reader);
    assert_int_equal(kill(pid, 0), -1);
}

static void test_memory(void **state)
{
    (void)state;
    struct hx_reader *reader = start();
    bool bounded = hx_reader_guards(reader) & HX_READER_MEMORY;
#ifdef __SANITIZE_ADDRESS__
    bounded = false;
#endif
    if (bounded)
        assert_true(expect_number(reader, &(struct hx_reader_call){.op = HOARD}) <=
                    HX_READER_BYTES);
    hx_reader_stop(reader);
    if (!bounded)
        skip();
}

/* --- its end ---------------------------------------------------------------------- */

static void test_crash(void **state)
{
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    skip();
#endif
    expect_end(CRASH, 8, "SIGSEGV");
}

static void test_lies(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 5; i++)
        expect_end(LIE, i, "cannot be");
}

static void *cancel_soon(void *flag)
{
    usleep(100000);
    atomic_store((atomic_bool *)flag, true);
    return NULL;
}

static void test_cancel(void **state)
{
    (void)state;
    atomic_bool flag = false;
    struct hx_progress progress = {.cancel = &flag};
    struct hx_reading reading;
    struct hx_flat answer;
    pthread_t thread;
    struct hx_reader *reader = start();
    hx_reading_init(&reading);
    hx_reading_listen(&reading, &progress);
    assert_int_equal(pthread_create(&thread, NULL, cancel_soon, &flag), 0);
    hx_error *err =
        hx_reader_ask(reader, &(struct hx_reader_call){.op = BURN}, &reading, "", &answer);
    assert_non_null(err);
    assert_int_equal(err->kind, HX_E_CANCEL);
    hx_error_free(err);
    pthread_join(thread, NULL);
    hx_reader_stop(reader);
    hx_reading_deinit(&reading);
}

static void *is_late(void *reading)
{
    return hx_reading_late(reading) ? reading : NULL;
}

/* What takes too long for a thread in a hurry is cancelled, and that is all. */
static void test_hurry(void **state)
{
    (void)state;
    struct hx_reading reading;
    struct hx_flat answer;
    pthread_t thread;
    void *late;
    struct hx_reader *reader = start();
    hx_reading_init(&reading);
    assert_false(hx_reading_hurries(&reading));
    hx_reading_hurry(&reading, hx_now_ns() + 100000000);
    assert_true(hx_reading_hurries(&reading));
    hx_error *err =
        hx_reader_ask(reader, &(struct hx_reader_call){.op = BURN}, &reading, "", &answer);
    assert_non_null(err);
    assert_int_equal(err->kind, HX_E_CANCEL);
    hx_error_free(err);
    assert_true(hx_reading_late(&reading));
    assert_false(hx_reading_ended(&reading));
    assert_int_equal(pthread_create(&thread, NULL, is_late, &reading), 0);
    pthread_join(thread, &late);
    assert_null(late); /* another thread is in none */
    hx_reading_hurry(&reading, 0);
    assert_false(hx_reading_late(&reading));
    hx_reader_stop(reader);
    hx_reading_deinit(&reading);
}

/* A stem that has ended is no hindrance. */
static void test_stem(void **state)
{
    (void)state;
    struct hx_reader_stem *own = NULL;
    struct hx_reader *reader[3];
    uint8_t room[32];
    struct hx_reader_call call = {.op = ADD, .words = {.bytes = room, .size = sizeof room}};
    hx_flat_put(&call.words, 1);
    hx_flat_put(&call.words, 5);
    for (size_t i = 0; i < 3; i++) {
        pid_t pid[2] = {0};
        if (i == 2) {
            (void)readers_of(getpid(), pid, 2);
            kill(pid[stem_or_none != NULL], SIGKILL); /* behind the stem of the other tests */
        }
        assert_null(hx_reader_start(SERVICE, &own, &reader[i]));
        assert_non_null(own);
        assert_int_equal(expect_number(reader[i], &call), 5);
    }
    hx_reader_stem_stop(own);
    hx_reader_stem_stop(NULL);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(expect_number(reader[i], &call), 5);
        hx_reader_stop(reader[i]);
    }
}

/* Whatever they do, they end with the program that started them. */
static void test_orphan(void **state)
{
    (void)state;
    const size_t n = stem_or_none ? 2 : 1;
    pid_t parent = fork();
    if (parent == 0) {
        struct hx_flat answer;
        stem = NULL; /* that one is no child of this process */
        struct hx_reader *reader = start();
        hx_error_free(
            hx_reader_ask(reader, &(struct hx_reader_call){.op = BURN}, NULL, "", &answer));
        _exit(0);
    }
    pid_t pid[2] = {0};
    for (int i = 0; i < 2000 && readers_of(parent, pid, n) < n; i++)
        usleep(1000);
    assert_true(pid[n - 1] > 0);
    usleep(50000); /* it is at work */
    kill(parent, SIGKILL);
    waitpid(parent, NULL, 0);
    for (size_t k = 0; k < n; k++) {
        bool gone = false;
        for (int i = 0; i < 5000 && !gone; i++) {
            gone = kill(pid[k], 0) != 0 || has_line(pid[k], "status", "State:\tZ");
            usleep(1000);
        }
        assert_true(gone);
    }
}

/* --- flat bytes --------------------------------------------------------------------- */

static void test_flat(void **state)
{
    (void)state;
    uint8_t room[40];
    struct hx_flat to = {.bytes = room, .size = sizeof room};
    hx_flat_put(&to, 5);
    hx_flat_put_string(&to, "abc");
    hx_flat_put_string(&to, NULL);
    hx_flat_put(&to, 6);
    assert_false(to.bad);
    assert_int_equal(to.at, 36);
    struct hx_flat from = {.bytes = room, .size = to.at}, other = from;
    assert_int_equal(hx_flat_take_below(&from, 5), 5);
    assert_string_equal(hx_flat_take_string(&from), "abc");
    assert_null(hx_flat_take_string(&from));
    assert_int_equal(hx_flat_take(&from), 6);
    assert_false(from.bad);
    assert_int_equal(hx_flat_take(&from), 0);
    assert_true(from.bad);
    assert_int_equal(hx_flat_take_below(&other, 4), 0);
    assert_true(other.bad);
    for (size_t cut = 0; cut < 36; cut++) { /* nothing is read beyond a cut */
        struct hx_flat part = {.bytes = malloc(cut ? cut : 1), .size = cut};
        memcpy(part.bytes, room, cut);
        (void)hx_flat_take(&part);
        (void)hx_flat_take_string(&part);
        (void)hx_flat_take_string(&part);
        (void)hx_flat_take(&part);
        assert_true(part.bad);
        free(part.bytes);
    }
    room[19] = 'd'; /* a string that does not end */
    struct hx_flat endless = {.bytes = room, .size = 36, .at = 8};
    assert_null(hx_flat_take_string(&endless));
    assert_true(endless.bad);
    hx_flat_put_string(&to, "more than there is room for");
    assert_true(to.bad);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flat),      cmocka_unit_test(test_answers),
        cmocka_unit_test(test_notes),     cmocka_unit_test(test_files),
        cmocka_unit_test(test_forbidden), cmocka_unit_test(test_privileges),
        cmocka_unit_test(test_memory),    cmocka_unit_test(test_crash),
        cmocka_unit_test(test_lies),      cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_hurry),     cmocka_unit_test(test_orphan),
        cmocka_unit_test(test_stem),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    stem_or_none = &stem;
    failed += cmocka_run_group_tests(tests, NULL, NULL);
    hx_reader_stem_stop(stem);
    return failed;
}
