/* packet.c */
#include "base/packet.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union control {
    char bytes[CMSG_SPACE(HX_PACKET_FDS * sizeof(int))];
    struct cmsghdr align;
};

bool hx_packet_send(int socket, const void *packet, size_t len, const int *fds, size_t n_fds)
{
    struct iovec iov = {.iov_base = (void *)packet, .iov_len = len};
    union control control = {0};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    int live[HX_PACKET_FDS];
    size_t n = 0;
    for (size_t i = 0; i < n_fds && n < HX_PACKET_FDS; i++)
        if (fds[i] >= 0)
            live[n++] = fds[i];
    if (n) {
        msg.msg_control = control.bytes;
        msg.msg_controllen = CMSG_SPACE(n * sizeof *live);
        *CMSG_FIRSTHDR(&msg) = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
                                                .cmsg_type = SCM_RIGHTS,
                                                .cmsg_len = CMSG_LEN(n * sizeof *live)};
        memcpy(CMSG_DATA(CMSG_FIRSTHDR(&msg)), live, n * sizeof *live);
    }
    ssize_t sent;
    while ((sent = sendmsg(socket, &msg, MSG_NOSIGNAL)) < 0 && errno == EINTR)
        ;
    return sent == (ssize_t)len;
}

ssize_t hx_packet_receive(int socket, void *packet, size_t len, int *fds, size_t room)
{
    struct iovec iov = {.iov_base = packet, .iov_len = len};
    union control control;
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof control.bytes};
    ssize_t got;
    while ((got = recvmsg(socket, &msg, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR)
        ;
    for (size_t i = 0; i < room; i++)
        fds[i] = -1;
    const struct cmsghdr *cmsg = got > 0 ? CMSG_FIRSTHDR(&msg) : NULL;
    if (!cmsg || cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS)
        return got;
    for (size_t i = 0, n = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof *fds; i < n; i++) {
        int fd;
        memcpy(&fd, CMSG_DATA(cmsg) + i * sizeof fd, sizeof fd);
        if (i < room)
            fds[i] = fd;
        else
            close(fd);
    }
    return got;
}
