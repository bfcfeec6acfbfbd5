/* packet.c - what heapx and a reader send each other. */
#include "base/packet.h"
#include "sym/reader/reader_private.h"

#include <string.h>
#include <unistd.h>

bool hx_reader_send(int socket, struct hx_reader_packet *packet, const int *fds)
{
    size_t len = offsetof(struct hx_reader_packet, path) +
                 strnlen(packet->path, sizeof packet->path - 1) + 1;
    int sent[HX_READER_FDS];
    packet->fds = 0;
    for (size_t i = 0; i < HX_READER_FDS; i++) {
        sent[i] = fds && fds[i] > 0 ? fds[i] : -1;
        packet->fds |= (uint32_t)(sent[i] >= 0) << i;
    }
    return hx_packet_send(socket, packet, len, sent, HX_READER_FDS);
}

bool hx_reader_receive(int socket, struct hx_reader_packet *ret, int *ret_fds)
{
    int came[HX_READER_FDS];
    size_t used = 0;
    memset(ret->path, 0, sizeof ret->path);
    ssize_t got =
        hx_packet_receive(socket, ret, sizeof *ret - 1, came, ret_fds ? HX_READER_FDS : 0);
    bool whole = got > (ssize_t)offsetof(struct hx_reader_packet, path);
    for (size_t i = 0; ret_fds && i < HX_READER_FDS; i++)
        ret_fds[i] = whole && ret->fds & 1u << i && used < HX_READER_FDS ? came[used++] : -1;
    for (; ret_fds && used < HX_READER_FDS; used++)
        if (came[used] >= 0)
            close(came[used]);
    return whole;
}
