/* packet.c - what heapx and a reader send each other. */
#include "sym/reader/reader_private.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union control {
    char bytes[CMSG_SPACE(HX_READER_FDS * sizeof(int))];
    struct cmsghdr align;
};

bool hx_reader_send(int socket, struct hx_reader_packet *packet, const int *fds)
{
    struct iovec iov = {.iov_base = packet,
                        .iov_len = offsetof(struct hx_reader_packet, path) +
                                   strnlen(packet->path, sizeof packet->path - 1) + 1};
    union control control = {0};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    int live[HX_READER_FDS];
    size_t n = 0;
    packet->fds = 0;
    for (size_t i = 0; fds && i < HX_READER_FDS; i++)
        if (fds[i] > 0) {
            packet->fds |= 1u << i;
            live[n++] = fds[i];
        }
    if (n) {
        msg.msg_control = control.bytes;
        msg.msg_controllen = CMSG_SPACE(n * sizeof(int));
        struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);
        cmsg->cmsg_level = SOL_SOCKET;
        cmsg->cmsg_type = SCM_RIGHTS;
        cmsg->cmsg_len = CMSG_LEN(n * sizeof(int));
        memcpy(CMSG_DATA(cmsg), live, n * sizeof(int));
    }
    ssize_t sent;
    while ((sent = sendmsg(socket, &msg, MSG_NOSIGNAL)) < 0 && errno == EINTR)
        ;
    return sent == (ssize_t)iov.iov_len;
}

bool hx_reader_receive(int socket, struct hx_reader_packet *ret, int *ret_fds)
{
    struct iovec iov = {.iov_base = ret, .iov_len = sizeof *ret - 1};
    union control control;
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof control.bytes};
    int came[HX_READER_FDS];
    size_t n = 0;
    ssize_t got;
    memset(ret->path, 0, sizeof ret->path);
    while ((got = recvmsg(socket, &msg, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR)
        ;
    for (struct cmsghdr *cmsg = got > 0 ? CMSG_FIRSTHDR(&msg) : NULL; cmsg;
         cmsg = CMSG_NXTHDR(&msg, cmsg))
        if (cmsg->cmsg_level == SOL_SOCKET && cmsg->cmsg_type == SCM_RIGHTS) {
            n = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);
            memcpy(came, CMSG_DATA(cmsg), n * sizeof(int));
        }
    bool whole = got > (ssize_t)offsetof(struct hx_reader_packet, path);
    size_t used = 0;
    for (size_t i = 0; ret_fds && i < HX_READER_FDS; i++)
        ret_fds[i] = whole && ret->fds & 1u << i && used < n ? came[used++] : -1;
    for (; used < n; used++)
        close(came[used]);
    return whole;
}
