/* encode.c - a ring of pieces: who is free takes the next one that there is room for, and the first
 * thread puts those that are ready before it takes another. */
#include "store/write/encode.h"

#include "base/parallel.h"
#include "store/objects/classes.h"

#include <pthread.h>
#include <stdlib.h>

enum {
    AHEAD = 4,             /* pieces of each thread that may wait for those before them */
    VALUES_ALONE = 1 << 19 /* so many are no work for a second thread */
};

struct piece {
    uint8_t *blob; /* hx_column_bound() */
    size_t bytes;
    bool ready;
};

struct hx_encoder {
    unsigned threads, slots;
    struct worker {
        hx_codec *codec;
        uint64_t *value; /* HX_BLOCK_ROWS */
        uint16_t *place; /* the same; of the pieces of that block */
        size_t block;
    } worker[HX_THREADS_MAX];
    struct piece slot[HX_THREADS_MAX * AHEAD];

    const struct hx_encode *what;
    pthread_mutex_t mutex; /* guards what follows, and `ready` */
    pthread_cond_t change;
    size_t taken, put; /* pieces */
    hx_error *err;
};

hx_error *hx_encoder_create(unsigned threads, hx_encoder **ret)
{
    hx_encoder *encoder = calloc(1, sizeof *encoder);
    HX_NEED(encoder);
    encoder->threads = hx_threads(threads);
    pthread_mutex_init(&encoder->mutex, NULL);
    pthread_cond_init(&encoder->change, NULL);
    *ret = encoder;
    return NULL;
}

void hx_encoder_destroy(hx_encoder *encoder)
{
    if (!encoder)
        return;
    for (size_t i = 0; i < HX_THREADS_MAX; i++) {
        hx_codec_destroy(encoder->worker[i].codec);
        free(encoder->worker[i].value);
        free(encoder->worker[i].place);
    }
    for (size_t i = 0; i < HX_THREADS_MAX * AHEAD; i++)
        free(encoder->slot[i].blob);
    pthread_cond_destroy(&encoder->change);
    pthread_mutex_destroy(&encoder->mutex);
    free(encoder);
}

/* Where the values of a piece lie; NULL: in order. */
static hx_error *find_places(const struct hx_encode *what, struct worker *worker, size_t i,
                             size_t n, const uint16_t **ret)
{
    size_t block = i / what->columns;
    *ret = NULL;
    if (!what->classify || (what->is_placed && !what->is_placed(what->context, i)))
        return NULL;
    if (!worker->place)
        HX_NEED(worker->place = malloc(HX_BLOCK_ROWS * sizeof *worker->place));
    if (worker->block != block) {
        what->classify(what->context, block, worker->place);
        HX_TRY(hx_classes_place(worker->place, n, worker->place));
        worker->block = block;
    }
    *ret = worker->place;
    return NULL;
}

static hx_error *encode_piece(hx_encoder *encoder, struct worker *worker, size_t i)
{
    struct piece *slot = &encoder->slot[i % encoder->slots];
    if (!worker->codec)
        HX_TRY(hx_codec_create(&worker->codec));
    if (!worker->value)
        HX_NEED(worker->value = malloc(HX_BLOCK_ROWS * sizeof *worker->value));
    if (!slot->blob)
        HX_NEED(slot->blob = malloc(hx_column_bound(HX_BLOCK_ROWS)));
    const uint16_t *place;
    size_t n = encoder->what->gather(encoder->what->context, i, worker->value);
    HX_TRY(find_places(encoder->what, worker, i, n, &place));
    return hx_column_encode(worker->codec, worker->value, place, n, slot->blob, &slot->bytes);
}

/* Puts a piece or encodes one; false: neither can be done now. Called with the mutex. */
static bool do_piece(hx_encoder *encoder, unsigned number)
{
    const struct hx_encode *what = encoder->what;
    struct piece *first = &encoder->slot[encoder->put % encoder->slots];
    bool puts = number == 0 && first->ready;
    if (!puts &&
        (encoder->taken == what->pieces || encoder->taken - encoder->put == encoder->slots))
        return false;
    size_t i = puts ? encoder->put : encoder->taken++;
    pthread_mutex_unlock(&encoder->mutex);
    hx_error *err = puts ? what->put(what->sink, i, first->blob, first->bytes)
                         : encode_piece(encoder, &encoder->worker[number], i);
    pthread_mutex_lock(&encoder->mutex);
    if (err && encoder->err)
        hx_error_free(err);
    else if (err)
        encoder->err = err;
    encoder->slot[i % encoder->slots].ready = !puts;
    encoder->put += puts;
    pthread_cond_broadcast(&encoder->change);
    return true;
}

static void encode_worker(void *context, unsigned number)
{
    hx_encoder *encoder = context;
    size_t pieces = encoder->what->pieces;
    pthread_mutex_lock(&encoder->mutex);
    while (!encoder->err && (number ? encoder->taken : encoder->put) < pieces)
        if (!do_piece(encoder, number))
            pthread_cond_wait(&encoder->change, &encoder->mutex);
    pthread_mutex_unlock(&encoder->mutex);
}

hx_error *hx_encode(hx_encoder *encoder, const struct hx_encode *what, uint64_t values)
{
    unsigned threads = values > VALUES_ALONE ? encoder->threads : 1;
    encoder->slots = threads * AHEAD;
    encoder->what = what;
    encoder->taken = encoder->put = 0;
    encoder->err = NULL;
    for (unsigned i = 0; i < threads; i++)
        encoder->worker[i].block = SIZE_MAX;
    for (unsigned i = 0; i < encoder->slots; i++)
        encoder->slot[i].ready = false;
    hx_parallel(threads, encode_worker, encoder);
    return encoder->err;
}
