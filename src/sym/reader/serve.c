/* serve.c - the reader's end: it gives up what it does not need, then answers calls. */
#include "sym/reader/reader_private.h"

#include "sym/reading.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Not by PR_SET_PDEATHSIG, which tells of the end of the thread that started this process. */
static void end_with_heapx(void)
{
    struct pollfd life = {.fd = HX_READER_LIFE};
    if (fcntl(life.fd, F_SETOWN, getpid()) != 0 || fcntl(life.fd, F_SETFL, O_ASYNC) != 0 ||
        poll(&life, 1, 0) != 0)
        _exit(1); /* from now on SIGIO ends it */
}

/* A copy of this process for each packet, in which this returns. It is no child of this one but of
 * heapx, which waits for it. */
static void fork_readers(void)
{
    struct hx_reader_packet packet;
    int fds[HX_READER_FDS];
    while (hx_reader_receive(HX_READER_SOCKET, &packet, fds)) {
        if (syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0) == 0) {
            for (int i = 0; i < HX_READER_FDS; i++)
                fds[i] = fcntl(fds[i], F_DUPFD, HX_READER_FDS_END);
            for (int i = 0; i < HX_READER_FDS; i++)
                if (dup2(fds[i], HX_READER_SOCKET + i) < 0)
                    _exit(1);
            close_range(HX_READER_FDS_END, ~0u, 0);
            return;
        }
        for (int i = 0; i < HX_READER_FDS; i++)
            close(fds[i]);
    }
    _exit(0);
}

static void put_notes(struct hx_reading *reading, struct hx_flat *answer)
{
    size_t n = reading->unread.n < HX_READER_NOTES ? reading->unread.n : HX_READER_NOTES;
    hx_flat_put(answer, n);
    for (size_t i = 0; i < n; i++)
        hx_flat_put_string(answer, reading->unread.v[i].what);
    hx_reading_deinit(reading);
    hx_reading_init(reading);
}

void hx_reader_serve(int argc, char **argv, const char *service,
                     void (*answer)(void *context, const struct hx_reader_work *work),
                     void *context)
{
    struct hx_reader_packet packet = {.kind = HX_READER_HELLO};
    struct hx_reading reading;
    if (argc < 2 || strcmp(argv[0], HX_READER_NAME) != 0 || strcmp(argv[1], service) != 0)
        return;
    prctl(PR_SET_NAME, HX_READER_NAME);
    if (argc == 3 && strcmp(argv[2], HX_READER_STEM) == 0)
        fork_readers();
    end_with_heapx();
    uint8_t *area =
        mmap(NULL, HX_READER_AREA, PROT_READ | PROT_WRITE, MAP_SHARED, HX_READER_MEMORY_FD, 0);
    if (area == MAP_FAILED)
        _exit(1);
    close(HX_READER_MEMORY_FD);
    hx_reading_init(&reading);
    const pid_t own = getpid();
    struct hx_reader_work work = {.reading = &reading, .guards = hx_reader_confine()};
    packet.a = work.guards;
    packet.b = (uint64_t)own;
    while (hx_reader_send(HX_READER_SOCKET, &packet, NULL) &&
           hx_reader_receive(HX_READER_SOCKET, &packet, work.fds)) {
        struct hx_flat given = {.bytes = area, .size = HX_READER_AREA};
        work.op = packet.op;
        work.number = packet.number;
        work.words = (struct hx_flat){.bytes = area, .size = packet.a};
        work.ret = &given;
        answer(context, &work);
        for (size_t i = 0; i < HX_READER_FDS; i++)
            if (work.fds[i] >= 0)
                close(work.fds[i]);
        packet = (struct hx_reader_packet){.kind = HX_READER_ANSWER, .a = given.bad ? 0 : given.at};
        if (given.bad)
            given.at = 0;
        given.bad = false;
        put_notes(&reading, &given);
        packet.b = given.at;
    }
    _exit(0);
}
