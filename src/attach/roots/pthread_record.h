/* pthread_record.h - reading glibc's struct pthread by its shape.
 *
 * What is used has been there, in this order, since NPTL exists: the record begins with
 * { self, dtv, self }, later comes { list.next, list.prev, tid }, and further on
 * { stackblock, stackblock_size, guardsize }. Offsets are found, not known.
 */
#ifndef HX_ATTACH_ROOTS_PTHREAD_RECORD_H
#define HX_ATTACH_ROOTS_PTHREAD_RECORD_H

#include "model/snapshot.h"

/* Words looked at; struct pthread has 0x900 bytes in the versions seen so far. */
#define HX_PTHREAD_BYTES 0xb00
#define HX_PTHREAD_WORDS (HX_PTHREAD_BYTES / 8)

struct hx_pthread_record {
    uint64_t address; /* the thread pointer */
    uint64_t word[HX_PTHREAD_WORDS];
    size_t n;              /* words that could be read */
    bool has_block;        /* the stack's bounds are known: */
    uint64_t block, bytes; /* [block, block + bytes), ends a little above `address` */
    uint64_t guard;        /* bytes at its low end that are not accessible */
};

/* True when the words at address say that they are a record. */
bool hx_pthread_read(const struct hx_image *image, uint64_t address, struct hx_pthread_record *ret);

/* The offset of `tid`, given the record of a thread with that tid; 0 when it is not found. */
size_t hx_pthread_tid_offset(const struct hx_image *image, const struct hx_pthread_record *record,
                             pid_t tid);

/* Is the record linked in one of the library's lists of stacks? */
bool hx_pthread_is_listed(const struct hx_image *image, const struct hx_pthread_record *record,
                          size_t tid_offset);

/* Where the thread's static TLS begins, at least `low`; the record's address when it has none. */
uint64_t hx_pthread_tls_start(const struct hx_image *image, const struct hx_pthread_record *record,
                              uint64_t low);

#endif
