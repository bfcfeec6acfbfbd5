/* encode.h - columns gathered and encoded by several threads, and put into the store by one.
 *
 * What is put, and its order, does not depend on the number of threads.
 */
#ifndef HX_STORE_WRITE_ENCODE_H
#define HX_STORE_WRITE_ENCODE_H

#include "store/objects/packed_column.h"

#include <stdbool.h>

/* Buffers and codecs, made when they are first needed. */
typedef struct hx_encoder hx_encoder;
hx_error *hx_encoder_create(unsigned threads, hx_encoder **ret); /* threads: as hx_threads() */
void hx_encoder_destroy(hx_encoder *encoder);

struct hx_encode {
    size_t pieces; /* columns of blocks */
    const void *context;
    /* Fills value[0 .. n) with what piece i holds, and returns n <= HX_BLOCK_ROWS. By any thread,
     * several at a time. */
    size_t (*gather)(const void *context, size_t i, uint64_t *value);
    size_t columns; /* of each block: pieces [0, columns) are those of the first */
    /* Fills class[0 .. n) with the classes of a block's rows, by which those pieces are to lie
     * (classes.h) that `is_placed` says; NULL: none, and all. By any thread, too. */
    void (*classify)(const void *context, size_t block, uint16_t *class);
    bool (*is_placed)(const void *context, size_t i);
    /* By the caller's thread, piece after piece. */
    hx_error *(*put)(void *sink, size_t i, const void *blob, size_t bytes);
    void *sink;
};

/* Where hardly anything is to be done (`values` in all) the caller's thread does it. */
hx_error *hx_encode(hx_encoder *encoder, const struct hx_encode *what, uint64_t values);

#endif
