/* heapsnapshot_out.h - numbers and texts of a heap snapshot, buffered: there are a hundred million
 * of them in a large one. */
#ifndef HX_EXPORT_GRAPH_HEAPSNAPSHOT_OUT_H
#define HX_EXPORT_GRAPH_HEAPSNAPSHOT_OUT_H

#include "export/sink.h"

#include <string.h>

struct hx_hs_out {
    struct hx_sink *sink;
    bool comma; /* the next element of the array is not its first */
    size_t n;
    char buffer[1 << 16];
};

static inline void hx_hs_flush(struct hx_hs_out *out)
{
    hx_sink_put(out->sink, out->buffer, out->n);
    out->n = 0;
}

static inline void hx_hs_put(struct hx_hs_out *out, const char *bytes, size_t n)
{
    if (n > sizeof out->buffer - out->n) {
        hx_hs_flush(out);
        if (n > sizeof out->buffer) {
            hx_sink_put(out->sink, bytes, n);
            return;
        }
    }
    memcpy(out->buffer + out->n, bytes, n);
    out->n += n;
}

static inline void hx_hs_puts(struct hx_hs_out *out, const char *s)
{
    hx_hs_put(out, s, strlen(s));
}

/* Begins an array that is a member of the file's object. */
static inline void hx_hs_array(struct hx_hs_out *out, const char *key)
{
    hx_hs_puts(out, ",\n\"");
    hx_hs_puts(out, key);
    hx_hs_puts(out, "\":[");
    out->comma = false;
}

/* Between two rows of an array: lines, for whoever looks at the file. */
static inline void hx_hs_row(struct hx_hs_out *out)
{
    hx_hs_puts(out, out->comma ? ",\n" : "\n");
    out->comma = false;
}

static inline void hx_hs_number(struct hx_hs_out *out, uint64_t value)
{
    char digits[24], *at = digits + sizeof digits;
    do
        *--at = (char)('0' + value % 10);
    while (value /= 10);
    if (out->comma)
        *--at = ',';
    out->comma = true;
    hx_hs_put(out, at, (size_t)(digits + sizeof digits - at));
}

/* A string of the table, of the parts that it is made of; NULL parts are left out. */
void hx_hs_string(struct hx_hs_out *out, const char *a, const char *b, const char *c);

#endif
