/* eventlog.h - writing GHC event logs: which events there are, and one event after the other.
 *
 * Everything is big-endian. An event is its number, its time, its length where its type has no
 * fixed one, and its payload. Readers do not look at that length for some types but trust the
 * fields, so a payload has to be exact.
 */
#ifndef HX_EXPORT_GHC_EVENTLOG_H
#define HX_EXPORT_GHC_EVENTLOG_H

#include "base/text.h"
#include "export/sink.h"

/* id, number, bytes of its payload (VARIES: up to HX_EVENT_MOST), what it says */
#define HX_EVENTS(X)                                                                               \
    X(LOG_MSG, 16, HX_EVENT_VARIES, "Message")                                                     \
    X(CAPSET_CREATE, 25, 6, "A set of capabilities begins")                                        \
    X(RTS_IDENTIFIER, 29, HX_EVENT_VARIES, "Who wrote the log")                                    \
    X(PROGRAM_ARGS, 30, HX_EVENT_VARIES, "Program and its arguments")                              \
    X(OSPROCESS_PID, 32, 8, "Number of the process")                                               \
    X(WALL_CLOCK_TIME, 43, 16, "Wall clock at the time of this event")                             \
    X(HEAP_ALLOCATED, 49, 12, "Bytes allocated so far")                                            \
    X(HEAP_SIZE, 50, 12, "Bytes that the allocator has")                                           \
    X(HEAP_LIVE, 51, 12, "Bytes of the objects that are there")                                    \
    X(PROF_BEGIN, 160, HX_EVENT_VARIES, "Samples of the heap begin")                               \
    X(COST_CENTRE, 161, HX_EVENT_VARIES, "A cost centre")                                          \
    X(SAMPLE_BEGIN, 162, 8, "A sample of the heap begins")                                         \
    X(SAMPLE_COST_CENTRE, 163, HX_EVENT_VARIES, "Bytes of a cost-centre stack")                    \
    X(SAMPLE_STRING, 164, HX_EVENT_VARIES, "Bytes of a name")                                      \
    X(SAMPLE_END, 165, 8, "A sample of the heap ends")                                             \
    X(BIOGRAPHY_BEGIN, 166, 16, "A sample of phases of life begins")                               \
    X(TICK, 167, HX_EVENT_VARIES, "Where a thread is at a tick")                                   \
    X(TICKS_BEGIN, 168, 8, "Samples of threads begin")

#define HX_EVENT_VARIES 0xffff
#define HX_EVENT_MOST   0xffff /* bytes of a payload */

enum hx_event_id {
#define X(id, number, bytes, about) HX_EVENT_##id = number,
    HX_EVENTS(X)
#undef X
};

/* Zero-initialise but for the sink. Failed allocations end up in the sink. */
struct hx_event_writer {
    struct hx_sink *sink;
    struct hx_text payload; /* of the event that is being made */
    uint64_t time_ns;       /* of the events from now on: at least 1, never less than before */
};

/* The header: all event types. */
void hx_event_header(struct hx_event_writer *writer);

/* Fields of the next event. */
void hx_event_u8(struct hx_event_writer *writer, uint8_t value);
void hx_event_u16(struct hx_event_writer *writer, uint16_t value);
void hx_event_u32(struct hx_event_writer *writer, uint32_t value);
void hx_event_u64(struct hx_event_writer *writer, uint64_t value);
void hx_event_string(struct hx_event_writer *writer, const char *s); /* with its end mark */
void hx_event_bytes(struct hx_event_writer *writer, const char *s);  /* without */

/* Writes it. The payload must be as long as its type says. */
void hx_event_end(struct hx_event_writer *writer, enum hx_event_id id);

/* The end of the log. */
void hx_event_finish(struct hx_event_writer *writer);

#endif
