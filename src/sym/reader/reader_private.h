/* reader_private.h - what heapx and a reader send each other; only src/sym/reader includes it. */
#ifndef HX_SYM_READER_READER_PRIVATE_H
#define HX_SYM_READER_READER_PRIVATE_H

#include "sym/reader/reader.h"

#include <limits.h>
#include <stddef.h>
#include <sys/types.h>

#define HX_READER_NAME "heapx-reader" /* argv[0]; argv[1] is the service */
#define HX_READER_STEM "stem"         /* argv[2] */

/* Descriptors that a reader begins with. */
enum {
    HX_READER_SOCKET = 3,
    HX_READER_MEMORY_FD, /* of calls and answers */
    HX_READER_LIFE,      /* a pipe that ends with heapx */
    HX_READER_FDS_END
};

/* Of a call, or of its answer; memory is taken where it is written to. */
#define HX_READER_AREA ((size_t)1 << 30)
/* Bounds of one reader. No time of libdw's own can be measured out within it, and one that sleeps
 * uses none of its processor time. */
#define HX_READER_BYTES       ((uint64_t)8 << 30)
#define HX_READER_CPU_SECONDS 120
#define HX_READER_SECONDS     120
#define HX_READER_FILES       4096 /* libdw keeps those of split units open */

#define HX_READER_NOTES     16 /* of one answer */
#define HX_READER_NOTE_SIZE 200

enum hx_reader_kind {
    HX_READER_CALL,   /* op, number, a: bytes in the area; fds */
    HX_READER_HELLO,  /* a: guards, b: process */
    HX_READER_ANSWER, /* a: bytes of the answer, b: with the notes behind it */
    HX_READER_OPEN,   /* path */
    HX_READER_FILE,   /* fds, or none */
    HX_READER_FORK,   /* to a stem: what a reader begins with in fds */
};

struct hx_reader_packet {
    uint32_t kind, op;
    uint32_t fds; /* which of them came: bits */
    uint32_t unused;
    uint64_t number, a, b;
    char path[PATH_MAX];
};

/* Any place of fds may be -1. False: the other end is gone. Both are called by a signal's handler,
 * too. */
bool hx_reader_send(int socket, struct hx_reader_packet *packet, const int *fds);
bool hx_reader_receive(int socket, struct hx_reader_packet *ret, int *ret_fds);

/* Gives up all that a reader does not need; returns what could be had (enum hx_reader_guard). */
unsigned hx_reader_confine(void);

#endif
