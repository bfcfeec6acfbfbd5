/* sink.c - where an exporter's bytes go. */
#include "export/sink.h"

#include "base/text.h"

#include <errno.h>
#include <string.h>

void hx_sink_put(struct hx_sink *sink, const void *bytes, size_t n)
{
    if (sink->failed || !n)
        return;
    errno = 0;
    if (fwrite(bytes, 1, n, sink->file) != n)
        sink->failed = errno ? errno : EIO;
    sink->bytes += n;
}

void hx_sink_puts(struct hx_sink *sink, const char *s)
{
    hx_sink_put(sink, s, strlen(s));
}

void hx_sink_putc(struct hx_sink *sink, char c)
{
    hx_sink_put(sink, &c, 1);
}

void hx_sink_putf(struct hx_sink *sink, const char *format, ...)
{
    if (sink->failed)
        return;
    va_list args;
    va_start(args, format);
    errno = 0;
    int n = vfprintf(sink->file, format, args);
    va_end(args);
    if (n < 0)
        sink->failed = errno ? errno : EIO;
    else
        sink->bytes += (uint64_t)n;
}

static void put_big_endian(struct hx_sink *sink, uint64_t value, unsigned n)
{
    uint8_t bytes[8];
    for (unsigned i = 0; i < n; i++)
        bytes[i] = (uint8_t)(value >> 8 * (n - 1 - i));
    hx_sink_put(sink, bytes, n);
}

void hx_sink_u8(struct hx_sink *sink, uint8_t value)
{
    put_big_endian(sink, value, 1);
}

void hx_sink_u16(struct hx_sink *sink, uint16_t value)
{
    put_big_endian(sink, value, 2);
}

void hx_sink_u32(struct hx_sink *sink, uint32_t value)
{
    put_big_endian(sink, value, 4);
}

void hx_sink_u64(struct hx_sink *sink, uint64_t value)
{
    put_big_endian(sink, value, 8);
}

static void put_sink_text(struct hx_sink *sink, struct hx_text *text)
{
    if (text->failed && !sink->failed)
        sink->failed = ENOMEM;
    hx_sink_put(sink, hx_text_str(text), text->n);
    hx_text_free(text);
}

void hx_sink_json(struct hx_sink *sink, const char *s, size_t n)
{
    struct hx_text text = {0};
    hx_text_json(&text, s, n);
    put_sink_text(sink, &text);
}

static const char *entity(char c)
{
    switch (c) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    default:
        return NULL;
    }
}

void hx_sink_xml(struct hx_sink *sink, const char *s, size_t n)
{
    while (n) {
        uint32_t c;
        size_t length = hx_utf8_char(s, n, &c);
        if (!length || hx_unsafe_char(c))
            hx_sink_puts(sink, "\xef\xbf\xbd");
        else if (c < 0x80 && entity((char)c))
            hx_sink_puts(sink, entity((char)c));
        else
            hx_sink_put(sink, s, length);
        length = length ? length : 1;
        s += length;
        n -= length;
    }
}
