/* packet.h - packets with descriptors between processes of heapx (SOCK_SEQPACKET). */
#ifndef HX_BASE_PACKET_H
#define HX_BASE_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define HX_PACKET_FDS 200 /* the kernel takes 253 */

/* Sends `len` bytes with the first HX_PACKET_FDS of the descriptors that are none below 0. They
 * stay the caller's. False: the other end is gone, or errno says what. A signal's handler may do
 * it. */
bool hx_packet_send(int socket, const void *packet, size_t len, const int *fds, size_t n_fds);

/* Receives one: its bytes; 0: the other end is gone; -1: errno. fds has `room` places (at most
 * HX_PACKET_FDS), -1 where none came; they are close-on-exec. What there is no room for is closed.
 * A signal's handler may do it. */
ssize_t hx_packet_receive(int socket, void *packet, size_t len, int *fds, size_t room);

#endif
