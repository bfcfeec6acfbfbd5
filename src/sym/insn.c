/* insn.c - lengths of x86-64 instructions, by the opcode maps of the architecture's manual. */
#include "sym/insn.h"

#include <string.h>

#define LENGTH_MAX 15

enum opcode_map { MAP_ONE, MAP_0F, MAP_0F38, MAP_0F3A };

/* What comes behind an opcode. */
enum {
    NONE = 0,
    BYTE = 1, /* a constant of one byte */
    WORD = 2,
    MODRM = 0x10,   /* operands in memory or registers */
    NUMBER = 0x20,  /* a constant of 4 bytes, 2 with the prefix 66 */
    INVALID = 0x40, /* no instruction */
};

struct decoder {
    const uint8_t *bytes;
    size_t n, at;
    bool bad;
    bool short_number, wide, short_address;
    uint8_t map, opcode, modrm, sib;
    bool by_word; /* the operand is the word at `word` */
    int32_t word; /* counted from the end of the instruction */
};

static uint8_t next_insn_byte(struct decoder *d)
{
    if (d->at >= d->n) {
        d->bad = true;
        return 0;
    }
    return d->bytes[d->at++];
}

static int32_t next_number(struct decoder *d, size_t width)
{
    int32_t value = 0;
    if (d->n - d->at < width) {
        d->bad = true;
        return 0;
    }
    memcpy(&value, d->bytes + d->at, width);
    d->at += width;
    return width == 1 ? (int8_t)value : value;
}

static void skip(struct decoder *d, size_t n)
{
    if (d->n - d->at < n)
        d->bad = true;
    else
        d->at += n;
}

static unsigned layout_one(uint8_t op)
{
    if (op < 0x40) {
        static const uint8_t column[] = {MODRM, MODRM,  MODRM,   MODRM,
                                         BYTE,  NUMBER, INVALID, INVALID};
        return column[op & 7];
    }
    switch (op) {
    case 0x63:
    case 0x84 ... 0x8f:
    case 0xd0 ... 0xd3:
    case 0xd8 ... 0xdf:
    case 0xf6: /* and a constant, by what is in its operand byte */
    case 0xf7:
    case 0xfe:
    case 0xff:
        return MODRM;
    case 0x6b:
    case 0x80:
    case 0x83:
    case 0xc0:
    case 0xc1:
    case 0xc6:
        return MODRM | BYTE;
    case 0x69:
    case 0x81:
    case 0xc7:
        return MODRM | NUMBER;
    case 0x6a:
    case 0x70 ... 0x7f:
    case 0xa8:
    case 0xb0 ... 0xb7:
    case 0xcd:
    case 0xe0 ... 0xe7:
    case 0xeb:
        return BYTE;
    case 0x68:
    case 0xa9:
    case 0xb8 ... 0xbf:
    case 0xe8:
    case 0xe9:
        return NUMBER;
    case 0xc2:
    case 0xca:
        return WORD;
    case 0xc8:
        return WORD | BYTE;
    case 0x60 ... 0x62:
    case 0x82:
    case 0x9a:
    case 0xc4:
    case 0xc5:
    case 0xce:
    case 0xd4 ... 0xd6:
    case 0xea:
        return INVALID;
    default:
        return NONE;
    }
}

static unsigned layout_0f(uint8_t op)
{
    switch (op) {
    case 0x05 ... 0x09:
    case 0x0b:
    case 0x0e:
    case 0x30 ... 0x37:
    case 0x77:
    case 0xa0 ... 0xa2:
    case 0xa8 ... 0xaa:
    case 0xc8 ... 0xcf:
        return NONE;
    case 0x80 ... 0x8f:
        return NUMBER;
    case 0x0f:
    case 0x70 ... 0x73:
    case 0xa4:
    case 0xac:
    case 0xba:
    case 0xc2:
    case 0xc4 ... 0xc6:
        return MODRM | BYTE;
    case 0x04:
    case 0x0a:
    case 0x0c:
        return INVALID;
    default:
        return MODRM;
    }
}

/* The prefixes, and which map the opcode is in. */
static void read_opcode(struct decoder *d)
{
    uint8_t byte = next_insn_byte(d);
    for (;; byte = next_insn_byte(d)) {
        if (byte == 0x66)
            d->short_number = true;
        else if (byte == 0x67)
            d->short_address = true;
        else if (byte != 0xf0 && byte != 0xf2 && byte != 0xf3 && byte != 0x2e && byte != 0x36 &&
                 byte != 0x3e && byte != 0x26 && byte != 0x64 && byte != 0x65)
            break;
        if (d->bad)
            return;
    }
    if ((byte & 0xf0) == 0x40) {
        d->wide = byte & 8;
        byte = next_insn_byte(d);
    }
    d->map = MAP_ONE;
    if (byte == 0xc5) { /* the prefixes of vector instructions name the map */
        skip(d, 1);
        d->map = MAP_0F;
    } else if (byte == 0xc4 || byte == 0x62) {
        uint8_t map = next_insn_byte(d) & (byte == 0x62 ? 0x07 : 0x1f);
        skip(d, byte == 0x62 ? 2 : 1);
        d->map = map == 3 ? MAP_0F3A : map == 1 ? MAP_0F : MAP_0F38;
        d->bad |= map == 0;
    } else if (byte == 0x0f) {
        byte = next_insn_byte(d);
        d->map = byte == 0x38 ? MAP_0F38 : byte == 0x3a ? MAP_0F3A : MAP_0F;
        d->opcode = byte;
        if (d->map == MAP_0F)
            return;
    } else {
        d->opcode = byte;
        return;
    }
    d->opcode = next_insn_byte(d);
}

static void read_operand(struct decoder *d)
{
    d->modrm = next_insn_byte(d);
    unsigned mode = d->modrm >> 6, base = d->modrm & 7;
    if (mode == 3)
        return;
    if (base == 4)
        base = (d->sib = next_insn_byte(d)) & 7;
    else if (mode == 0 && base == 5) {
        d->by_word = true;
        d->word = next_number(d, 4);
        return;
    }
    if (mode == 1)
        skip(d, 1);
    else if (mode == 2 || base == 5)
        skip(d, 4);
}

/* How many bytes the constant has. */
static size_t number_width(const struct decoder *d, unsigned layout)
{
    bool one = d->map == MAP_ONE;
    if (one && d->opcode >= 0xb8 && d->opcode <= 0xbf && d->wide)
        return 8;
    bool relative = one ? d->opcode == 0xe8 || d->opcode == 0xe9 : d->map == MAP_0F;
    size_t number = d->short_number && !d->wide && !relative ? 2 : 4;
    if (one && (d->opcode == 0xf6 || d->opcode == 0xf7) && (d->modrm >> 3 & 7) < 2)
        return d->opcode == 0xf6 ? 1 : number;
    if (one && d->opcode >= 0xa0 && d->opcode <= 0xa3)
        return d->short_address ? 4 : 8;
    return (layout & NUMBER ? number : 0) + (layout & (BYTE | WORD));
}

static void read_kind(const struct decoder *d, int32_t number, uint64_t end, struct hx_insn *ret)
{
    uint8_t op = d->opcode;
    ret->target = end + (uint64_t)(int64_t)number;
    if (d->map == MAP_0F) {
        bool ends = op == 0x0b || op == 0xb9 || op == 0xff;
        ret->kind = op >= 0x80 && op <= 0x8f ? HX_INSN_BRANCH : ends ? HX_INSN_END : HX_INSN_OTHER;
    } else if (d->map != MAP_ONE) {
        ret->kind = HX_INSN_OTHER;
    } else if (op == 0xe8) {
        ret->kind = HX_INSN_CALL;
    } else if (op == 0xe9 || op == 0xeb) {
        ret->kind = HX_INSN_JUMP;
    } else if ((op >= 0x70 && op <= 0x7f) || (op >= 0xe0 && op <= 0xe3)) {
        ret->kind = HX_INSN_BRANCH;
    } else if (op == 0xc2 || op == 0xc3 || op == 0xca || op == 0xcb || op == 0xcc || op == 0xcf ||
               op == 0xf4) {
        ret->kind = HX_INSN_END;
    } else if (op == 0xff && (d->modrm >> 3 & 7) >= 2 && (d->modrm >> 3 & 7) <= 5) {
        bool call = (d->modrm >> 3 & 7) < 4;
        ret->kind = call         ? d->by_word ? HX_INSN_CALL_WORD : HX_INSN_CALL_REGISTER
                    : d->by_word ? HX_INSN_JUMP_WORD
                                 : HX_INSN_JUMP_REGISTER;
        ret->target = end + (uint64_t)(int64_t)d->word;
    }
}

bool hx_insn_read(const uint8_t *bytes, size_t n, uint64_t at, struct hx_insn *ret)
{
    struct decoder d = {.bytes = bytes, .n = n < LENGTH_MAX ? n : LENGTH_MAX};
    read_opcode(&d);
    if (d.bad)
        return false;
    unsigned layout = d.map == MAP_ONE    ? layout_one(d.opcode)
                      : d.map == MAP_0F   ? layout_0f(d.opcode)
                      : d.map == MAP_0F38 ? MODRM
                                          : MODRM | BYTE;
    if (layout & INVALID)
        return false;
    if (layout & MODRM)
        read_operand(&d);
    size_t width = number_width(&d, layout);
    int32_t number = width == 1 || width == 4 ? next_number(&d, width) : (skip(&d, width), 0);
    if (d.bad)
        return false;
    *ret = (struct hx_insn){.length = (uint8_t)d.at,
                            .opcode = d.opcode,
                            .two = d.map == MAP_0F,
                            .kind = HX_INSN_OTHER,
                            .modrm = d.modrm,
                            .sib = d.sib};
    read_kind(&d, number, at + d.at, ret);
    return true;
}
