/* reader.h - from events to live blocks, stacks and costs.
 *
 * One reader for each process. Events come in rounds. A round feeds what stands in each stream up
 * to one moment, stream by stream; events of one address in several streams are put in order by
 * their times when the round ends (event.h says why that is enough). What is left of a round is the
 * state at its moment. No thread-safety of its own: one thread pumps and freezes.
 */
#ifndef HX_RECORD_READ_READER_H
#define HX_RECORD_READ_READER_H

#include "model/recording.h"
#include "record/event.h"

#include <stddef.h>

typedef struct hx_reader hx_reader;

/* A return address (or an instruction) of the process, as a place in a file. */
struct hx_location {
    uint32_t file;  /* HX_NO_FILE: none */
    uint64_t vaddr; /* of the address itself, not less one; without a file the address */
    bool allocator;
    bool start; /* here the process began: no frame is missing behind it */
};

/* What the reader asks the source of the events. */
struct hx_reader_source {
    /* The frames of a key that HX_EV_STACK did not bring: at most max words. False: unknown. */
    bool (*stack)(void *context, uint64_t key, uint64_t *frame, size_t max, size_t *ret_n,
                  uint64_t *ret_exact, bool *ret_cut);
    /* The region behind a frame's word that HX_EV_CENTRE did not bring; text has room for
     * HX_EV_CENTRE_TEXT bytes behind the structure. NULL, or false: unknown. */
    bool (*centre)(void *context, uint64_t word, struct hx_ev_centre *ret);
    /* Where a frame lies (an address; also that of a struct heapx_centre). Asked once for each
     * frame of each new stack, while its code is mapped. */
    void (*locate)(void *context, uint64_t pc, struct hx_location *ret);
    /* Ticks of the events' clock to CLOCK_MONOTONIC. */
    uint64_t (*to_ns)(void *context, uint64_t when);
    /* Goes on with a raw stack: appends frames from *n on. NULL: raw stacks are cut. */
    void (*unwind)(void *context, const struct hx_ev_raw_stack *raw, uint64_t *frame, size_t max,
                   size_t *n, uint64_t *exact, bool *cut);
    /* An event of the process itself passed: HX_EV_MAPS, FORK, EXEC or EXIT. NULL: not asked. */
    void (*process_event)(void *context, enum hx_event_kind kind, uint64_t when, uint64_t word);
    void *context;
};

struct hx_reader_options {
    uint64_t sample_bytes; /* 0: every allocation is in the stream */
    bool from_start;
    const char *method; /* literal, for struct hx_recording */
};

hx_error *hx_reader_create(const struct hx_reader_source *source,
                           const struct hx_reader_options *options, hx_reader **ret);
void hx_reader_destroy(hx_reader *reader); /* NULL is legal */

/* Takes whole records of one stream; bytes of a record that is not whole, or of no kind (HX_EV_PAD
 * too), end it. Returns how many bytes were taken. Stops before the first event whose `when` is not
 * below `until`. An error only when out of memory, after which the reader must be given up. */
hx_error *hx_reader_feed(hx_reader *reader, const void *bytes, size_t len, uint64_t until,
                         size_t *ret_used);

/* Before a round, or its first event: all it brings stands in one stream, in the order of its
 * times, so less has to be kept. */
void hx_reader_one_stream(hx_reader *reader);

/* Ends a round: orders what several streams said of the same address. */
hx_error *hx_reader_end_round(hx_reader *reader);

/* Losses that the source counted by itself; they only grow. */
void hx_reader_add_losses(hx_reader *reader, uint64_t allocs, uint64_t frees);
/* The same of entries of regions. */
void hx_reader_add_lost_entries(hx_reader *reader, uint64_t entries);

/* Figures for a status line; cheap. */
struct hx_reader_figures {
    uint64_t events, allocs, alloc_bytes, frees, live, live_bytes, stacks, lost;
    uint64_t memory_bytes; /* of the reader: tables of live blocks and stacks */
};
void hx_reader_figures(const hx_reader *reader, struct hx_reader_figures *ret);

/* The state after the last round, as a recording without names and files (places have the numbers
 * of files that locate() gave), and blocks in no order: see hx_recording_sort(). */
hx_error *hx_reader_freeze(hx_reader *reader, struct hx_recording **ret);

/* The live blocks as records (HX_EV_ALLOC) with keys that lead to their stacks: what the reader of
 * a child begins with. The caller frees. */
hx_error *hx_reader_inherit(const hx_reader *reader, void **ret, size_t *ret_bytes);

/* Tests the invariants (linear). */
hx_error *hx_reader_check(const hx_reader *reader);

#endif
