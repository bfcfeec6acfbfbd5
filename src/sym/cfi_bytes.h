/* cfi_bytes.h - reading the numbers and addresses of .eh_frame and of DWARF.
 *
 * All reading goes through a cursor that fails once and then stays failed, giving zeros, so that
 * what follows may test it late. In a header, so that cfi.c stays one file to compile.
 */
#ifndef HX_SYM_CFI_BYTES_H
#define HX_SYM_CFI_BYTES_H

#include "sym/cfi.h"

#include <string.h>

/* How an address is written: its form and what it is relative to. */
enum {
    PE_ABSPTR = 0x00,
    PE_ULEB128 = 0x01,
    PE_UDATA2 = 0x02,
    PE_UDATA4 = 0x03,
    PE_UDATA8 = 0x04,
    PE_SIGNED = 0x08,
    PE_SLEB128 = 0x09,
    PE_SDATA2 = 0x0a,
    PE_SDATA4 = 0x0b,
    PE_SDATA8 = 0x0c,
    PE_FORM = 0x0f,
    PE_PCREL = 0x10,
    PE_DATAREL = 0x30,
    PE_ALIGNED = 0x50,
    PE_RELATION = 0x70,
    PE_INDIRECT = 0x80,
    PE_OMIT = 0xff,
};

/* Invariant: of->bytes <= at <= end, all inside `of`. */
struct cursor {
    const struct hx_cfi_bytes *of;
    const uint8_t *at, *end;
    bool bad;
};

static inline struct cursor cursor_at(const struct hx_cfi_bytes *of, size_t offset)
{
    struct cursor c = {of, of->bytes + of->len, of->bytes + of->len, offset > of->len};
    if (!c.bad)
        c.at = of->bytes + offset;
    return c;
}

static inline size_t left(const struct cursor *c)
{
    return (size_t)(c->end - c->at);
}

static inline uint64_t address_of(const struct cursor *c)
{
    return c->of->addr + (uint64_t)(c->at - c->of->bytes);
}

static inline void fail(struct cursor *c)
{
    c->bad = true;
    c->at = c->end;
}

static inline void skip(struct cursor *c, uint64_t n)
{
    if (n > left(c))
        fail(c);
    else
        c->at += n;
}

/* The next n bytes become a cursor of their own. */
static inline struct cursor take(struct cursor *c, uint64_t n)
{
    struct cursor part = *c;
    skip(c, n);
    if (c->bad)
        fail(&part);
    else
        part.end = c->at;
    return part;
}

#define READ_FIXED(name, type)                                                                     \
    static inline type name(struct cursor *c)                                                      \
    {                                                                                              \
        type value = 0;                                                                            \
        if (left(c) < sizeof value) {                                                              \
            fail(c);                                                                               \
            return 0;                                                                              \
        }                                                                                          \
        memcpy(&value, c->at, sizeof value);                                                       \
        c->at += sizeof value;                                                                     \
        return value;                                                                              \
    }
READ_FIXED(read_u8, uint8_t)
READ_FIXED(read_u16, uint16_t)
READ_FIXED(read_u32, uint32_t)
READ_FIXED(read_u64, uint64_t)

/* Seven bits a byte, lowest first, at most ten bytes; bits beyond 64 are dropped. */
static inline uint64_t read_leb(struct cursor *c, bool is_signed)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
        if (c->at == c->end)
            break;
        uint8_t byte = *c->at++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte & 0x80)
            continue;
        shift += 7;
        if (is_signed && (byte & 0x40) && shift < 64)
            value |= ~(uint64_t)0 << shift;
        return value;
    }
    fail(c);
    return 0;
}

static inline uint64_t read_uleb(struct cursor *c)
{
    return c->at < c->end && *c->at < 0x80 ? *c->at++ : read_leb(c, false);
}

static inline int64_t read_sleb(struct cursor *c)
{
    return (int64_t)read_leb(c, true);
}

static inline uint64_t read_form(struct cursor *c, uint8_t form)
{
    switch (form) {
    case PE_ABSPTR:
    case PE_UDATA8:
    case PE_SDATA8:
    case PE_SIGNED:
        return read_u64(c);
    case PE_UDATA2:
        return read_u16(c);
    case PE_SDATA2:
        return (uint64_t)(int64_t)(int16_t)read_u16(c);
    case PE_UDATA4:
        return read_u32(c);
    case PE_SDATA4:
        return (uint64_t)(int64_t)(int32_t)read_u32(c);
    case PE_ULEB128:
        return read_uleb(c);
    case PE_SLEB128:
        return (uint64_t)read_sleb(c);
    default:
        fail(c);
        return 0;
    }
}

/* An address as `encoding` says. `data` is what datarel counts from; NULL: it is not known. A
 * pointer to the address (indirect) would have to be read from the target's data: refused. */
static inline uint64_t read_encoded(struct cursor *c, uint8_t encoding, const uint64_t *data)
{
    uint64_t base = 0;
    switch (encoding & (PE_RELATION | PE_INDIRECT)) {
    case 0:
        break;
    case PE_PCREL:
        base = address_of(c);
        break;
    case PE_DATAREL:
        if (data) {
            base = *data;
            break;
        }
        /* fall through */
    default:
        fail(c);
        return 0;
    }
    return base + read_form(c, encoding & PE_FORM);
}

/* A pointer whose value does not matter (to a personality routine). */
static inline void skip_encoded(struct cursor *c, uint8_t encoding)
{
    if (encoding == PE_OMIT)
        return;
    if ((encoding & PE_RELATION) == PE_ALIGNED)
        skip(c, -address_of(c) & 7);
    (void)read_form(c, encoding & PE_FORM);
}

#endif
