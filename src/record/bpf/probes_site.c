/* probes_site.c - where in a function a probe costs least.
 *
 * The kernel replaces an instruction by a breakpoint. Afterwards it emulates a push, a jump or a
 * call; anything else it has to run elsewhere and single-step, which takes two more traps, and many
 * times as long inside a virtual machine. So a probe moves over the few instructions that a
 * function begins with to the first one that is emulated, as long as it sees there what it would
 * have seen at the entry: the arguments and the stack pointer.
 */
#include "record/bpf/probes_find.h"

#include <string.h>

/* How far a probe moves at most. */
enum { most_instructions = 16, most_bytes = 64 };

/* What is known of one instruction. */
struct instruction {
    size_t len;      /* 0: not understood */
    bool emulated;   /* by the kernel */
    uint32_t writes; /* general registers, bit = number */
};

struct decoder {
    const uint8_t *p, *end;
    unsigned rex;
    bool wide_off; /* prefix 66 */
};

/* The bytes of a ModRM operand from p on (with p at ModRM); 0: cut off. */
static size_t operand_len(const struct decoder *d)
{
    if (d->p >= d->end)
        return 0;
    unsigned mod = *d->p >> 6, rm = *d->p & 7;
    size_t len = 1;
    if (mod != 3 && rm == 4) {
        if (d->p + 1 >= d->end)
            return 0;
        len++;
        if (mod == 0 && (d->p[1] & 7) == 5)
            len += 4;
    }
    if (mod == 1)
        len += 1;
    else if (mod == 2 || (mod == 0 && rm == 5))
        len += 4;
    return (size_t)(d->end - d->p) < len ? 0 : len;
}

static uint32_t operand_register(const struct decoder *d)
{
    return *d->p >> 6 == 3 ? 1u << ((*d->p & 7) | (d->rex & 1) << 3) : 0;
}

static uint32_t reg_register(const struct decoder *d)
{
    return 1u << ((*d->p >> 3 & 7) | (d->rex & 4) << 1);
}

enum shape { NOTHING, WRITES_RM, WRITES_REG, READS };

/* Opcodes of one byte with ModRM that do no more than compute: what they write, and the bytes of
 * the constant behind. */
static enum shape one_byte(uint8_t op, unsigned digit, bool wide_off, size_t *immediate)
{
    *immediate = 0;
    if (op < 0x40 && (op & 7) < 4) { /* add or adc sbb and sub xor cmp */
        if (op >> 3 == 7)
            return READS;
        return op & 2 ? WRITES_REG : WRITES_RM;
    }
    switch (op) {
    case 0x63: /* movsxd */
    case 0x8a:
    case 0x8b: /* mov */
    case 0x8d: /* lea */
        return WRITES_REG;
    case 0x84:
    case 0x85: /* test */
        return READS;
    case 0x88:
    case 0x89: /* mov */
        return WRITES_RM;
    case 0x80:
    case 0x83:
        *immediate = 1;
        return digit == 7 ? READS : WRITES_RM;
    case 0x81:
        *immediate = wide_off ? 2 : 4;
        return digit == 7 ? READS : WRITES_RM;
    case 0xc0:
    case 0xc1: /* shifts */
        *immediate = 1;
        return WRITES_RM;
    case 0xc6:
        *immediate = 1;
        return digit == 0 ? WRITES_RM : NOTHING;
    case 0xc7:
        *immediate = wide_off ? 2 : 4;
        return digit == 0 ? WRITES_RM : NOTHING;
    case 0xd0:
    case 0xd1:
        return WRITES_RM;
    case 0xf6:
        *immediate = 1;
        return digit == 0 ? READS : NOTHING;
    case 0xf7:
        *immediate = wide_off ? 2 : 4;
        return digit == 0 ? READS : NOTHING;
    default:
        return NOTHING;
    }
}

/* Opcodes that have a constant and no ModRM. */
static bool without_operand(uint8_t op, const struct decoder *d, size_t *immediate,
                            uint32_t *writes)
{
    bool computes = op < 0x40 && (op & 6) == 4; /* add and others, of rax and a constant */
    size_t word = d->wide_off ? 2 : 4;
    if (op >= 0xb8 && op <= 0xbf) { /* mov */
        *immediate = d->rex & 8 ? 8 : word;
        *writes = 1u << ((op & 7) | (d->rex & 1) << 3);
        return true;
    }
    if (!computes && op != 0xa8 && op != 0xa9) /* test */
        return false;
    *immediate = op & 1 ? word : 1;
    *writes = computes ? 1 : 0;
    return true;
}

/* The same behind 0f. */
static enum shape two_bytes(uint8_t op)
{
    if (op >= 0x40 && op <= 0x4f) /* cmov */
        return WRITES_REG;
    if (op >= 0x90 && op <= 0x9f) /* set */
        return WRITES_RM;
    if (op == 0xb6 || op == 0xb7 || op == 0xbe || op == 0xbf) /* mov with extension */
        return WRITES_REG;
    if (op == 0x1f || op == 0x1e) /* nop; endbr */
        return READS;
    return NOTHING;
}

static bool is_push(const uint8_t *p, size_t len)
{
    return (len >= 1 && *p >= 0x50 && *p <= 0x57) ||
           (len >= 2 && *p == 0x41 && p[1] >= 0x50 && p[1] <= 0x57);
}

static bool is_branch(const uint8_t *p, size_t len)
{
    if (!len)
        return false;
    return *p == 0xe8 || *p == 0xe9 || *p == 0xeb || (*p >= 0x70 && *p <= 0x7f) || *p == 0x90 ||
           (*p == 0x0f && len >= 2 && p[1] >= 0x80 && p[1] <= 0x8f);
}

static void decode_instruction(const uint8_t *bytes, size_t len, struct instruction *ret)
{
    struct decoder d = {.p = bytes, .end = bytes + len};
    *ret = (struct instruction){0};
    if (is_push(bytes, len) || is_branch(bytes, len)) {
        ret->emulated = true;
        return;
    }
    while (d.p < d.end && (*d.p == 0x66 || *d.p == 0x64 || *d.p == 0xf3)) {
        /* f3 only with endbr64, whose 0f 1e has no other meaning here */
        if (*d.p == 0xf3 && (d.end - d.p < 4 || d.p[1] != 0x0f || d.p[2] != 0x1e))
            return;
        d.wide_off |= *d.p++ == 0x66;
    }
    if (d.p < d.end && *d.p >> 4 == 4)
        d.rex = *d.p++;
    if (d.end - d.p < 2)
        return;
    uint8_t op = *d.p++;
    enum shape shape;
    size_t immediate = 0, operand;
    if (without_operand(op, &d, &immediate, &ret->writes)) {
        if ((size_t)(d.end - d.p) >= immediate)
            ret->len = (size_t)(d.p - bytes) + immediate;
        return;
    }
    if (op == 0x0f)
        shape = two_bytes(*d.p++);
    else
        shape = one_byte(op, *d.p >> 3 & 7, d.wide_off, &immediate);
    if (shape == NOTHING || !(operand = operand_len(&d)) ||
        (size_t)(d.end - d.p) < operand + immediate)
        return;
    /* without REX, ah to bh are the registers 4 to 7 of a byte operation: called written, too */
    if (shape == WRITES_RM)
        ret->writes = operand_register(&d);
    else if (shape == WRITES_REG)
        ret->writes = reg_register(&d);
    ret->len = (size_t)(d.p - bytes) + operand + immediate;
}

/* Could any bytes of the function, taken as a jump, lead into (0, site]? */
static bool is_jumped_to(const uint8_t *bytes, size_t len, size_t site)
{
    for (size_t i = 0; i < len; i++) {
        int64_t to = -1;
        uint8_t op = bytes[i];
        if (((op >= 0x70 && op <= 0x7f) || op == 0xeb || (op >= 0xe0 && op <= 0xe3)) &&
            i + 2 <= len)
            to = (int64_t)i + 2 + (int8_t)bytes[i + 1];
        if (to > 0 && to <= (int64_t)site && i >= site)
            return true;
        bool near =
            op == 0xe9 || op == 0xe8 || (op >= 0x80 && op <= 0x8f && i && bytes[i - 1] == 0x0f);
        if (near && i + 5 <= len) {
            int32_t rel;
            memcpy(&rel, bytes + i + 1, 4);
            to = (int64_t)i + 5 + rel;
            if (to > 0 && to <= (int64_t)site && i >= site)
                return true;
        }
    }
    return false;
}

size_t hx_probe_site(const uint8_t *bytes, size_t len, uint32_t keeps, bool *ret_stepped)
{
    size_t at = 0;
    for (unsigned i = 0; i < most_instructions && at < len && at < most_bytes; i++) {
        struct instruction instruction;
        decode_instruction(bytes + at, len - at, &instruction);
        if (instruction.emulated) {
            if (at && is_jumped_to(bytes, len, at))
                break;
            *ret_stepped = false;
            return at;
        }
        if (!instruction.len || instruction.writes & keeps)
            break;
        at += instruction.len;
    }
    *ret_stepped = true;
    return 0;
}
