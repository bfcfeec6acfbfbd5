/* short.c - a program whose calls move much, slowly, and which counts those that came back short.
 *
 *   short
 *
 * Says "ready", works until stdin ends, then prints "NAME CALLS SHORT" for each way. */
#include "victim.h"

#include <fcntl.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { BYTES = 1 << 20, RANDOM_BYTES = 16 << 20, PART = 65536, NAP_US = 5000 };
enum way { WRITE, WRITEV, SEND, SENDMSG, RECV, URANDOM, GETRANDOM, IO_URING, WAYS };
static const char *const names[WAYS] = {"write", "writev",  "send",      "sendmsg",
                                        "recv",  "urandom", "getrandom", "io_uring"};
static atomic_ulong calls[WAYS], cut[WAYS];
static atomic_bool ending;

static ssize_t move(enum way way, int fd, char *bytes)
{
    struct iovec halves[2] = {{bytes, BYTES / 2}, {bytes + BYTES / 2, BYTES / 2}};
    struct msghdr header = {.msg_iov = halves, .msg_iovlen = 2};
    switch (way) {
    case WRITE:
        return write(fd, bytes, BYTES);
    case WRITEV:
        return writev(fd, halves, 2);
    case SEND:
        return send(fd, bytes, BYTES, 0);
    case SENDMSG:
        return sendmsg(fd, &header, 0);
    case RECV:
        return recv(fd, bytes, BYTES, MSG_WAITALL);
    case URANDOM:
        return read(fd, bytes, RANDOM_BYTES);
    default:
        return getrandom(bytes, RANDOM_BYTES, 0);
    }
}

static int fds[WAYS][2];

static void *worker(void *arg)
{
    enum way way = (enum way)(intptr_t)arg;
    ssize_t whole = way >= URANDOM ? RANDOM_BYTES : BYTES;
    char *bytes = need(calloc(1, (size_t)whole));
    while (!atomic_load(&ending)) {
        ssize_t n = move(way, fds[way][0], bytes);
        if (atomic_load(&ending))
            break;
        atomic_fetch_add(&calls[way], 1);
        atomic_fetch_add(&cut[way], n != whole);
    }
    return NULL;
}

/* The other end: slow. */
static void *peer(void *arg)
{
    enum way way = (enum way)(intptr_t)arg;
    char *bytes = need(calloc(1, PART));
    for (;;) {
        if ((way == RECV ? write(fds[way][1], bytes, PART) : read(fds[way][1], bytes, PART)) < 0)
            abort();
        usleep(NAP_US);
    }
    return NULL;
}

/* Submits a timeout and waits for it in one call. */
static void *ring(void *arg)
{
    struct io_uring_params p = {0};
    int fd = (int)syscall(SYS_io_uring_setup, 4, &p);
    if (fd < 0)
        return NULL; /* this machine forbids it */
    char *sq = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, IORING_OFF_SQ_RING);
    char *cq = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, IORING_OFF_CQ_RING);
    struct io_uring_sqe *sqe =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, IORING_OFF_SQES);
    struct {
        int64_t seconds, ns;
    } limit = {0, 500000000};
    atomic_uint *sq_tail = (void *)(sq + p.sq_off.tail), *cq_tail = (void *)(cq + p.cq_off.tail);
    atomic_uint *cq_head = (void *)(cq + p.cq_off.head);
    ((unsigned *)(sq + p.sq_off.array))[0] = 0;
    while (!atomic_load(&ending)) {
        memset(sqe, 0, sizeof *sqe);
        sqe->opcode = IORING_OP_TIMEOUT;
        sqe->addr = (uintptr_t)&limit;
        sqe->len = 1;
        ((unsigned *)(sq + p.sq_off.array))[*sq_tail % 4] = 0;
        atomic_fetch_add(sq_tail, 1);
        if (syscall(SYS_io_uring_enter, fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) != 1)
            abort();
        atomic_fetch_add(&calls[IO_URING], 1);
        atomic_fetch_add(&cut[IO_URING], *cq_tail == *cq_head);
        while (*cq_tail == *cq_head)
            syscall(SYS_io_uring_enter, fd, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0);
        atomic_store(cq_head, *cq_tail);
    }
    return arg;
}

int main(void)
{
    pthread_t thread;
    char byte, line[80];
    end_with_parent();
    for (intptr_t way = 0; way < IO_URING; way++) {
        if (way == URANDOM) {
            fds[way][0] = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
        } else if (way == WRITE) {
            if (pipe(fds[way]))
                abort();
            int swap = fds[way][0];
            fds[way][0] = fds[way][1];
            fds[way][1] = swap;
        } else if (way < URANDOM && socketpair(AF_UNIX, SOCK_STREAM, 0, fds[way])) {
            abort();
        }
        pthread_create(&thread, NULL, worker, (void *)way);
        if (way < URANDOM)
            pthread_create(&thread, NULL, peer, (void *)way);
    }
    pthread_create(&thread, NULL, ring, NULL);
    usleep(100000);
    say("ready\n");
    while (read(0, &byte, 1) > 0)
        ;
    atomic_store(&ending, true);
    for (int way = 0; way < WAYS; way++) {
        snprintf(line, sizeof line, "%s %lu %lu\n", names[way], calls[way], cut[way]);
        say(line);
    }
    say("end\n");
    return 0;
}
