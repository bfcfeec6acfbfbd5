/* eventlog_events.c - the events of GHC event logs as bytes. */
#include "export/ghc/eventlog.h"

#include <errno.h>
#include <string.h>

static const struct event_type {
    uint16_t number, bytes;
    const char *about;
} types[] = {
#define X(id, number, bytes, about) {number, bytes, about},
    HX_EVENTS(X)
#undef X
};

#define END_OF_EVENTS 0xffff

void hx_event_header(struct hx_event_writer *writer)
{
    struct hx_sink *sink = writer->sink;
    hx_sink_puts(sink, "hdrbhetb");
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        hx_sink_put(sink, "etb\0", 4);
        hx_sink_u16(sink, types[i].number);
        hx_sink_u16(sink, types[i].bytes);
        hx_sink_u32(sink, (uint32_t)strlen(types[i].about));
        hx_sink_puts(sink, types[i].about);
        hx_sink_u32(sink, 0); /* bytes of what else there is to say */
        hx_sink_put(sink, "ete\0", 4);
    }
    hx_sink_puts(sink, "hetehdredatb");
}

static void put_event_number(struct hx_event_writer *writer, uint64_t value, unsigned bytes)
{
    while (bytes--)
        hx_text_putc(&writer->payload, (char)(uint8_t)(value >> 8 * bytes));
}

void hx_event_u8(struct hx_event_writer *writer, uint8_t value)
{
    put_event_number(writer, value, 1);
}

void hx_event_u16(struct hx_event_writer *writer, uint16_t value)
{
    put_event_number(writer, value, 2);
}

void hx_event_u32(struct hx_event_writer *writer, uint32_t value)
{
    put_event_number(writer, value, 4);
}

void hx_event_u64(struct hx_event_writer *writer, uint64_t value)
{
    put_event_number(writer, value, 8);
}

void hx_event_bytes(struct hx_event_writer *writer, const char *s)
{
    hx_text_puts(&writer->payload, s);
}

void hx_event_string(struct hx_event_writer *writer, const char *s)
{
    hx_text_putn(&writer->payload, s, strlen(s) + 1);
}

static uint16_t event_bytes(enum hx_event_id id)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].number == id)
            return types[i].bytes;
    return 0;
}

void hx_event_end(struct hx_event_writer *writer, enum hx_event_id id)
{
    struct hx_sink *sink = writer->sink;
    struct hx_text *payload = &writer->payload;
    uint16_t bytes = event_bytes(id);
    bool fits = bytes == HX_EVENT_VARIES ? payload->n <= HX_EVENT_MOST : payload->n == bytes;
    if ((payload->failed || !fits) && !sink->failed)
        sink->failed = payload->failed ? ENOMEM : EMSGSIZE;
    hx_sink_u16(sink, (uint16_t)id);
    hx_sink_u64(sink, writer->time_ns);
    if (bytes == HX_EVENT_VARIES)
        hx_sink_u16(sink, (uint16_t)payload->n);
    hx_sink_put(sink, payload->s, payload->n);
    hx_text_clear(payload);
}

void hx_event_finish(struct hx_event_writer *writer)
{
    hx_sink_u16(writer->sink, END_OF_EVENTS);
    hx_text_free(&writer->payload);
}
