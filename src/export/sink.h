/* sink.h - where an exporter's bytes go.
 *
 * A failed write is remembered, so that a writer need not look at each call; whoever made the sink
 * asks at the end. Numbers are big-endian where a function does not say otherwise.
 */
#ifndef HX_EXPORT_SINK_H
#define HX_EXPORT_SINK_H

#include "base/error.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct hx_sink {
    FILE *file;     /* buffered; the caller's */
    int failed;     /* errno of the first write that failed, 0: none */
    uint64_t bytes; /* written so far */
};

void hx_sink_put(struct hx_sink *sink, const void *bytes, size_t n);
void hx_sink_puts(struct hx_sink *sink, const char *s);
void hx_sink_putc(struct hx_sink *sink, char c);
void hx_sink_putf(struct hx_sink *sink, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

void hx_sink_u8(struct hx_sink *sink, uint8_t value);
void hx_sink_u16(struct hx_sink *sink, uint16_t value);
void hx_sink_u32(struct hx_sink *sink, uint32_t value);
void hx_sink_u64(struct hx_sink *sink, uint64_t value);

/* A JSON string with its quotes: text as in base/text.h. */
void hx_sink_json(struct hx_sink *sink, const char *s, size_t n);

/* Text between the tags of SVG, or in an attribute: &<>"' as entities, what XML 1.0 does not
 * allow and what would disturb a display as U+FFFD. */
void hx_sink_xml(struct hx_sink *sink, const char *s, size_t n);

#endif
