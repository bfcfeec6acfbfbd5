/* cfi.c - reads .eh_frame: entries, their programs, and the expressions that unwinding knows.
 *
 * An entry (FDE) covers a range of code; its program, after that of the common entry (CIE) that it
 * names, says row by row where the caller's registers are. Rules have only rbp, the return address
 * and rsp.
 *
 * Each step of a program takes at least one byte of it, and programs have a length limit: that
 * bounds the work on any bytes.
 */
#include "sym/cfi.h"

#include "base/lower_bound.h"
#include "sym/cfi_bytes.h"

/* Bytes that the program of one entry may have; real ones have some ten thousand at most. */
#define FDE_PROGRAM_MAX  ((size_t)1 << 20)
#define CIE_PROGRAM_MAX  1024
#define AUGMENTATION_MAX 16
#define STATES_MAX       32 /* nested DW_CFA_remember_state; compilers nest one or two */

/* Numbers of DWARF's, for x86-64. */
enum { REG_RBX = 3, REG_RBP = 6, REG_RSP = 7, REG_R12 = 12, REG_R15 = 15, REG_RA = 16 };

enum {
    CFA_ADVANCE_LOC = 0x40, /* the low six bits are the operand */
    CFA_OFFSET = 0x80,
    CFA_RESTORE = 0xc0,
    CFA_NOP = 0x00,
    CFA_SET_LOC = 0x01,
    CFA_ADVANCE_LOC1 = 0x02,
    CFA_ADVANCE_LOC2 = 0x03,
    CFA_ADVANCE_LOC4 = 0x04,
    CFA_OFFSET_EXTENDED = 0x05,
    CFA_RESTORE_EXTENDED = 0x06,
    CFA_UNDEFINED = 0x07,
    CFA_SAME_VALUE = 0x08,
    CFA_REGISTER = 0x09,
    CFA_REMEMBER_STATE = 0x0a,
    CFA_RESTORE_STATE = 0x0b,
    CFA_DEF_CFA = 0x0c,
    CFA_DEF_CFA_REGISTER = 0x0d,
    CFA_DEF_CFA_OFFSET = 0x0e,
    CFA_DEF_CFA_EXPRESSION = 0x0f,
    CFA_EXPRESSION = 0x10,
    CFA_OFFSET_EXTENDED_SF = 0x11,
    CFA_DEF_CFA_SF = 0x12,
    CFA_DEF_CFA_OFFSET_SF = 0x13,
    CFA_VAL_OFFSET = 0x14,
    CFA_VAL_OFFSET_SF = 0x15,
    CFA_VAL_EXPRESSION = 0x16,
    CFA_GNU_ARGS_SIZE = 0x2e,
    CFA_GNU_NEGATIVE_OFFSET_EXTENDED = 0x2f,
};

enum {
    OP_DEREF = 0x06,
    OP_AND = 0x1a,
    OP_PLUS = 0x22,
    OP_PLUS_UCONST = 0x23,
    OP_SHL = 0x24,
    OP_GE = 0x2a,
    OP_LIT0 = 0x30,
    OP_LIT31 = 0x4f,
    OP_BREG0 = 0x70,
};

/* --- entries --- */

/* The head of an entry. */
struct entry {
    struct cursor body; /* behind the word that is 0 (CIE) or the way back to the CIE */
    bool is_cie;
    size_t cie; /* offset of an FDE's CIE */
    size_t next;
};

/* False at the end: a length of 0, or one that cannot be (then nothing behind it can be found). */
static bool read_entry(const struct hx_cfi_bytes *frame, size_t offset, struct entry *ret)
{
    struct cursor c = cursor_at(frame, offset);
    uint64_t length = read_u32(&c);
    if (length == 0xffffffff)
        length = read_u64(&c);
    if (c.bad || length < 4)
        return false;
    ret->body = take(&c, length);
    size_t field = (size_t)(ret->body.at - frame->bytes);
    uint32_t back = read_u32(&ret->body);
    ret->next = (size_t)(c.at - frame->bytes);
    ret->is_cie = back == 0;
    ret->cie = back <= field ? field - back : SIZE_MAX;
    return !c.bad;
}

struct cie {
    size_t offset;
    uint64_t code_align;
    int64_t data_align;
    uint8_t encoding; /* of addresses in its FDEs */
    bool has_length;  /* its FDEs have an augmentation with a length */
    bool is_signal;
    struct cursor program;
};

/* Reads what the letters behind 'z' announce. Letters that are not known end it: the length of the
 * whole is known. */
static bool read_augmentation(struct cie *cie, const uint8_t *letter, struct cursor data)
{
    for (; *letter; letter++) {
        switch (*letter) {
        case 'R':
            cie->encoding = read_u8(&data);
            break;
        case 'L':
            (void)read_u8(&data);
            break;
        case 'P':
            skip_encoded(&data, read_u8(&data));
            break;
        case 'S':
            cie->is_signal = true;
            break;
        case 'B': /* only changes return addresses of other machines */
            break;
        default:
            return !data.bad;
        }
    }
    return !data.bad;
}

static bool read_cie(const struct hx_cfi_bytes *frame, size_t offset, struct cie *ret)
{
    struct entry entry;
    if (!read_entry(frame, offset, &entry) || !entry.is_cie)
        return false;
    struct cursor c = entry.body;
    uint8_t version = read_u8(&c);
    if (version != 1 && version != 3 && version != 4)
        return false;
    const uint8_t *augmentation = c.at;
    for (unsigned i = 0; read_u8(&c); i++)
        if (i == AUGMENTATION_MAX)
            return false;
    if (c.bad)
        return false;
    if (augmentation[0] == 'e' && augmentation[1] == 'h') { /* of old compilers: a pointer */
        skip(&c, 8);
        augmentation += 2;
    }
    if (version == 4 && (read_u8(&c) != 8 || read_u8(&c) != 0))
        return false; /* sizes of an address and of a segment's number */
    *ret = (struct cie){.offset = offset, .encoding = PE_ABSPTR};
    ret->code_align = read_uleb(&c);
    ret->data_align = read_sleb(&c);
    if ((version == 1 ? read_u8(&c) : read_uleb(&c)) != REG_RA)
        return false;
    if (augmentation[0] == 'z') {
        ret->has_length = true;
        if (!read_augmentation(ret, augmentation + 1, take(&c, read_uleb(&c))))
            return false;
    } else if (augmentation[0]) {
        return false;
    }
    ret->program = c;
    return !c.bad && left(&c) <= CIE_PROGRAM_MAX;
}

struct fde {
    uint64_t start, end;
    struct cursor program;
};

static bool read_fde(const struct entry *entry, const struct cie *cie, struct fde *ret)
{
    struct cursor c = entry->body;
    ret->start = read_encoded(&c, cie->encoding, NULL);
    ret->end = ret->start + read_form(&c, cie->encoding & PE_FORM);
    if (cie->has_length)
        skip(&c, read_uleb(&c));
    ret->program = c;
    return !c.bad && ret->end >= ret->start && left(&c) <= FDE_PROGRAM_MAX;
}

/* --- programs --- */

enum place_kind {
    PLACE_SAME = HX_SAVE_SAME, /* for rsp: it is the CFA */
    PLACE_AT_CFA = HX_SAVE_AT_CFA,
    PLACE_AT_SP = HX_SAVE_AT_SP,
    PLACE_AT_FP = HX_SAVE_AT_FP,
    PLACE_UNKNOWN = HX_SAVE_UNKNOWN,
    PLACE_UNDEFINED,
};

struct place {
    uint32_t kind;
    int32_t off;
};
struct row {
    struct place cfa; /* kind: enum hx_cfa_kind */
    struct place fp, ra, sp;
    struct place kept[5]; /* rbx, r12 to r15: no part of rules */
    bool by_expression;   /* the CFA is */
    int32_t register_off; /* of the last CFA that was not; a register alone brings it back */
};

struct machine {
    const struct cie *cie;
    struct cursor program;
    struct row row;
    struct row initial; /* what DW_CFA_restore goes back to */
    uint64_t loc;
    bool changed; /* the row is not the one before */
    unsigned depth;
    struct row stack[STATES_MAX];
};

static struct place *register_place(struct row *row, uint64_t reg)
{
    switch (reg) {
    case REG_RBP:
        return &row->fp;
    case REG_RSP:
        return &row->sp;
    case REG_RA:
        return &row->ra;
    case REG_RBX:
        return &row->kept[0];
    case REG_R12:
    case REG_R12 + 1:
    case REG_R12 + 2:
    case REG_R15:
        return &row->kept[1 + reg - REG_R12];
    default:
        return NULL;
    }
}

/* Sets where a register is; other registers are not followed. */
static void set_place(struct row *row, uint64_t reg, enum place_kind kind, int64_t off)
{
    struct place *place = register_place(row, reg);
    if (place)
        *place = off == (int32_t)off ? (struct place){kind, (int32_t)off}
                                     : (struct place){PLACE_UNKNOWN, 0};
}

static int64_t scaled(const struct machine *m, int64_t factor)
{
    int64_t product;
    return __builtin_mul_overflow(factor, m->cie->data_align, &product) ? INT64_MAX : product;
}

static uint32_t cfa_kind_of(uint64_t reg)
{
    return reg == REG_RSP ? HX_CFA_SP : reg == REG_RBP ? HX_CFA_FP : HX_CFA_UNKNOWN;
}

static void set_cfa(struct row *row, uint32_t kind, int64_t off)
{
    bool fits = off == (int32_t)off;
    row->cfa = (struct place){fits ? kind : HX_CFA_UNKNOWN, fits ? (int32_t)off : 0};
    row->register_off = row->cfa.off;
    row->by_expression = false;
}

static void set_cfa_register(struct row *row, uint64_t reg)
{
    row->cfa = (struct place){cfa_kind_of(reg), row->register_off};
    row->by_expression = false;
}

static void set_cfa_offset(struct row *row, int64_t off)
{
    if (row->by_expression)
        row->register_off = off == (int32_t)off ? (int32_t)off : 0;
    else
        set_cfa(row, row->cfa.kind, off);
}

/* `breg N`, constants added, and `deref` where `ret_deref` allows it: reg + off, or the word
 * there. */
static bool read_base(struct cursor c, uint64_t *ret_reg, int64_t *ret_off, bool *ret_deref)
{
    uint8_t op = read_u8(&c);
    if (op != OP_BREG0 + REG_RBP && op != OP_BREG0 + REG_RSP)
        return false;
    *ret_reg = op - OP_BREG0;
    *ret_off = read_sleb(&c);
    *ret_deref = false;
    while (left(&c)) {
        op = read_u8(&c);
        if (op == OP_PLUS_UCONST && !*ret_deref) {
            uint64_t more = read_uleb(&c);
            if (more > INT32_MAX || __builtin_add_overflow(*ret_off, (int64_t)more, ret_off))
                return false;
        } else if (op == OP_DEREF && !*ret_deref) {
            *ret_deref = true;
        } else {
            return false;
        }
    }
    return !c.bad;
}

/* The expression that linkers make for a procedure linkage table, whose entries have pushed a
 * word from their instruction at `lit` on: rsp + 8 + ((rip & 15) >= lit) * 8. */
static bool read_plt(struct cursor c, int64_t *ret_from)
{
    static const uint8_t pattern[] = {
        OP_BREG0 + REG_RSP,
        8,
        OP_BREG0 + REG_RA,
        0,
        OP_LIT0 + 15,
        OP_AND,
        0, /* lit */
        OP_GE,
        OP_LIT0 + 3,
        OP_SHL,
        OP_PLUS,
    };
    if (left(&c) != sizeof pattern)
        return false;
    for (size_t i = 0; i < sizeof pattern; i++)
        if (i != 6 && c.at[i] != pattern[i])
            return false;
    *ret_from = (int64_t)c.at[6] - OP_LIT0;
    return c.at[6] >= OP_LIT0 && c.at[6] <= OP_LIT31;
}

static void set_cfa_expression(struct row *row, struct cursor expression)
{
    uint64_t reg;
    int64_t off;
    bool deref;
    int32_t register_off = row->register_off;
    if (read_plt(expression, &off))
        set_cfa(row, HX_CFA_PLT, off);
    else if (!read_base(expression, &reg, &off, &deref))
        set_cfa(row, HX_CFA_UNKNOWN, 0);
    else if (!deref)
        set_cfa(row, cfa_kind_of(reg), off);
    else
        set_cfa(row, reg == REG_RSP ? HX_CFA_AT_SP : HX_CFA_AT_FP, off);
    row->register_off = register_off;
    row->by_expression = true;
}

static void set_place_expression(struct row *row, uint64_t reg, struct cursor expression)
{
    uint64_t base;
    int64_t off;
    bool deref;
    if (read_base(expression, &base, &off, &deref) && !deref)
        set_place(row, reg, base == REG_RSP ? PLACE_AT_SP : PLACE_AT_FP, off);
    else
        set_place(row, reg, PLACE_UNKNOWN, 0);
}

/* Instructions on the CFA. False: it is not one of these. */
static bool run_cfa(struct machine *m, uint8_t op)
{
    struct cursor *c = &m->program;
    struct row *row = &m->row;
    uint64_t reg;
    switch (op) {
    case CFA_DEF_CFA:
        reg = read_uleb(c);
        set_cfa(row, cfa_kind_of(reg), (int64_t)read_uleb(c));
        return true;
    case CFA_DEF_CFA_SF:
        reg = read_uleb(c);
        set_cfa(row, cfa_kind_of(reg), scaled(m, read_sleb(c)));
        return true;
    case CFA_DEF_CFA_REGISTER:
        set_cfa_register(row, read_uleb(c));
        return true;
    case CFA_DEF_CFA_OFFSET:
        set_cfa_offset(row, (int64_t)read_uleb(c));
        return true;
    case CFA_DEF_CFA_OFFSET_SF:
        set_cfa_offset(row, scaled(m, read_sleb(c)));
        return true;
    case CFA_DEF_CFA_EXPRESSION:
        set_cfa_expression(row, take(c, read_uleb(c)));
        return true;
    case CFA_GNU_ARGS_SIZE: /* matters to landing pads only */
        (void)read_uleb(c);
        return true;
    case CFA_REMEMBER_STATE:
        if (m->depth == STATES_MAX)
            fail(c);
        else
            m->stack[m->depth++] = *row;
        return true;
    case CFA_RESTORE_STATE:
        if (m->depth == 0)
            fail(c);
        else
            *row = m->stack[--m->depth];
        return true;
    default:
        return false;
    }
}

static void restore_register(struct machine *m, uint64_t reg)
{
    struct place *place = register_place(&m->row, reg);
    if (!place)
        return;
    m->changed = true;
    *place = *register_place(&m->initial, reg);
}

/* A register's value is CFA + off. For rsp, CFA itself is what everybody takes it for. */
static void set_value(struct row *row, uint64_t reg, int64_t off)
{
    set_place(row, reg, reg == REG_RSP && off == 0 ? PLACE_SAME : PLACE_UNKNOWN, 0);
}

/* Instructions on one register; what is none of these makes no sense. */
static void run_register(struct machine *m, uint8_t op)
{
    struct cursor *c = &m->program;
    struct row *row = &m->row;
    uint64_t reg = read_uleb(c);
    switch (op) {
    case CFA_OFFSET_EXTENDED:
        set_place(row, reg, PLACE_AT_CFA, scaled(m, (int64_t)read_uleb(c)));
        break;
    case CFA_OFFSET_EXTENDED_SF:
        set_place(row, reg, PLACE_AT_CFA, scaled(m, read_sleb(c)));
        break;
    case CFA_GNU_NEGATIVE_OFFSET_EXTENDED:
        set_place(row, reg, PLACE_AT_CFA, scaled(m, (int64_t)(0 - read_uleb(c))));
        break;
    case CFA_RESTORE_EXTENDED:
        restore_register(m, reg);
        break;
    case CFA_UNDEFINED:
        set_place(row, reg, PLACE_UNDEFINED, 0);
        break;
    case CFA_SAME_VALUE:
        set_place(row, reg, PLACE_SAME, 0);
        break;
    case CFA_REGISTER:
        set_place(row, reg, read_uleb(c) == reg ? PLACE_SAME : PLACE_UNKNOWN, 0);
        break;
    case CFA_VAL_OFFSET:
        set_value(row, reg, scaled(m, (int64_t)read_uleb(c)));
        break;
    case CFA_VAL_OFFSET_SF:
        set_value(row, reg, scaled(m, read_sleb(c)));
        break;
    case CFA_EXPRESSION:
        set_place_expression(row, reg, take(c, read_uleb(c)));
        break;
    case CFA_VAL_EXPRESSION:
        (void)take(c, read_uleb(c));
        set_place(row, reg, PLACE_UNKNOWN, 0);
        break;
    default:
        fail(c);
    }
}

/* Instructions that begin a new row. False: it is not one of these. */
static bool run_advance(struct machine *m, uint8_t op, uint64_t *ret_loc)
{
    struct cursor *c = &m->program;
    uint64_t delta, loc;
    if (op >= CFA_OFFSET)
        return false;
    switch (op < CFA_ADVANCE_LOC ? op : CFA_ADVANCE_LOC) {
    case CFA_ADVANCE_LOC:
        delta = op & 0x3f;
        break;
    case CFA_SET_LOC:
        loc = read_encoded(c, m->cie->encoding, NULL);
        if (loc < m->loc)
            fail(c);
        *ret_loc = loc;
        return true;
    case CFA_ADVANCE_LOC1:
        delta = read_u8(c);
        break;
    case CFA_ADVANCE_LOC2:
        delta = read_u16(c);
        break;
    case CFA_ADVANCE_LOC4:
        delta = read_u32(c);
        break;
    default:
        return false;
    }
    if (__builtin_mul_overflow(delta, m->cie->code_align, &delta) ||
        __builtin_add_overflow(m->loc, delta, ret_loc))
        fail(c);
    return true;
}

/* Any instruction but DW_CFA_nop, the advances and those that have operands in their first byte. */
static void run_other(struct machine *m, uint8_t op)
{
    m->changed = true;
    if (!run_cfa(m, op))
        run_register(m, op);
}

/* Runs up to the instruction that ends the present row, which holds from m->loc to *ret_end; the
 * program's end ends the last one at `limit`. False: the program makes no sense. */
static bool run_row(struct machine *m, uint64_t limit, uint64_t *ret_end)
{
    struct cursor *c = &m->program;
    m->changed = false;
    while (c->at < c->end) {
        uint8_t op = *c->at++;
        if (run_advance(m, op, ret_end)) {
            if (c->bad)
                return false;
            if (*ret_end > limit)
                *ret_end = limit;
            if (*ret_end != m->loc)
                return true;
        } else if (op >= CFA_RESTORE) {
            restore_register(m, op & 0x3f);
        } else if (op >= CFA_OFFSET) {
            uint64_t offset = read_uleb(c);
            if (register_place(&m->row, op & 0x3f)) {
                m->changed = true;
                set_place(&m->row, op & 0x3f, PLACE_AT_CFA, scaled(m, (int64_t)offset));
            }
        } else if (op != CFA_NOP) {
            run_other(m, op);
        }
    }
    *ret_end = limit;
    return !c->bad;
}

/* Makes a machine ready for the entries of a CIE. */
static bool machine_init(struct machine *m, const struct cie *cie)
{
    uint64_t end;
    m->cie = cie;
    m->loc = 0;
    m->depth = 0;
    m->row = (struct row){.cfa = {HX_CFA_UNKNOWN, 0}};
    m->initial = m->row;
    m->program = cie->program;
    if (!run_row(m, UINT64_MAX, &end) || left(&m->program))
        return false; /* it may not have rows */
    m->initial = m->row;
    return true;
}

static void machine_begin(struct machine *m, const struct fde *fde)
{
    m->program = fde->program;
    m->row = m->initial;
    m->loc = fde->start;
    m->depth = 0;
}

/* What a row comes down to. Equal rules are equal in all their bytes. */
static struct hx_cfi_rule rule_of(const struct row *row, bool is_signal)
{
    if (row->ra.kind == PLACE_UNDEFINED)
        return (struct hx_cfi_rule){.cfa = HX_CFA_END};
    bool sp_is_cfa = row->sp.kind == PLACE_SAME ||
                     (row->sp.kind == PLACE_AT_SP && row->cfa.kind == HX_CFA_AT_SP &&
                      row->sp.off == row->cfa.off);
    bool has_ra = row->ra.kind == PLACE_AT_CFA || row->ra.kind == PLACE_AT_SP;
    if (row->cfa.kind == HX_CFA_UNKNOWN || !has_ra || !sp_is_cfa)
        return (struct hx_cfi_rule){.cfa = HX_CFA_UNKNOWN};
    struct hx_cfi_rule rule = {.cfa = (uint8_t)row->cfa.kind,
                               .ra = (uint8_t)row->ra.kind,
                               .signal = is_signal,
                               .cfa_off = row->cfa.off,
                               .ra_off = row->ra.off};
    rule.fp = row->fp.kind >= PLACE_UNKNOWN ? HX_SAVE_UNKNOWN : (uint8_t)row->fp.kind;
    if (rule.fp != HX_SAVE_SAME && rule.fp != HX_SAVE_UNKNOWN)
        rule.fp_off = row->fp.off;
    return rule;
}

static bool rules_equal(const struct hx_cfi_rule *a, const struct hx_cfi_rule *b)
{
    uint64_t x[2], y[2];
    _Static_assert(sizeof x == sizeof *a, "a rule is two words");
    memcpy(x, a, sizeof x);
    memcpy(y, b, sizeof y);
    return x[0] == y[0] && x[1] == y[1];
}

/* --- finding one --- */

/* The table in .eh_frame_hdr: pairs of a function's start and its entry's address. */
struct search_table {
    struct cursor pairs;
    uint64_t n;
    uint64_t data; /* where the section is loaded */
    size_t width;  /* of one address */
    uint8_t encoding;
};

static size_t form_width(uint8_t form)
{
    switch (form) {
    case PE_UDATA2:
    case PE_SDATA2:
        return 2;
    case PE_UDATA4:
    case PE_SDATA4:
        return 4;
    case PE_ABSPTR:
    case PE_SIGNED:
    case PE_UDATA8:
    case PE_SDATA8:
        return 8;
    default:
        return 0;
    }
}

static bool read_search_table(const struct hx_cfi_bytes *hdr, struct search_table *ret)
{
    if (!hdr->len)
        return false;
    struct cursor c = cursor_at(hdr, 0);
    uint8_t version = read_u8(&c), frame_encoding = read_u8(&c), count_encoding = read_u8(&c);
    ret->encoding = read_u8(&c);
    ret->data = hdr->addr;
    if (c.bad || version != 1 || count_encoding == PE_OMIT || ret->encoding == PE_OMIT)
        return false;
    if (frame_encoding != PE_OMIT)
        (void)read_encoded(&c, frame_encoding, &ret->data);
    ret->n = read_encoded(&c, count_encoding, &ret->data);
    ret->width = form_width(ret->encoding & PE_FORM);
    ret->pairs = c;
    if (c.bad || !ret->width)
        return false;
    if (ret->n > left(&c) / (2 * ret->width))
        ret->n = left(&c) / (2 * ret->width);
    return ret->n > 0;
}

/* One of the pair's two addresses. */
static uint64_t pair_address(const struct search_table *table, uint64_t i, unsigned which)
{
    struct cursor c = table->pairs;
    c.at += (2 * i + which) * table->width;
    return read_encoded(&c, table->encoding, &table->data);
}

static int32_t start_sdata4(const struct search_table *table, uint64_t i)
{
    int32_t start;
    memcpy(&start, table->pairs.at + i * 8, sizeof start);
    return start;
}

/* Nearly all linkers write 4 bytes counted from the section's start: a search without decoding.
 * Both return how many functions start at or before pc. */
static uint64_t search_sdata4(const struct search_table *table, uint64_t pc)
{
    int64_t want = (int64_t)(pc - table->data);
    return HX_LOWER_BOUND(table->n, i, start_sdata4(table, i) <= want);
}

static uint64_t search_any(const struct search_table *table, uint64_t pc)
{
    return HX_LOWER_BOUND(table->n, i, pair_address(table, i, 0) <= pc);
}

/* An FDE with its CIE. */
static bool read_both(const struct hx_cfi_bytes *frame, const struct entry *entry, struct cie *cie,
                      struct fde *fde)
{
    return !entry->is_cie && read_cie(frame, entry->cie, cie) && read_fde(entry, cie, fde);
}

static bool covers(const struct fde *fde, uint64_t pc)
{
    return pc >= fde->start && pc < fde->end;
}

/* Some linkers and rewriters of programs leave entries of length 0 where others begin. */
#define EMPTY_MAX 8

/* The entry of pc by the search table. */
static bool search_fde_table(const struct hx_cfi *cfi, const struct search_table *table,
                             uint64_t pc, struct cie *cie, struct fde *fde)
{
    bool usual = table->encoding == (PE_DATAREL | PE_SDATA4);
    uint64_t i = usual ? search_sdata4(table, pc) : search_any(table, pc);
    for (unsigned n = 0; n < EMPTY_MAX && i > 0; n++, i--) {
        uint64_t offset = pair_address(table, i - 1, 1) - cfi->frame.addr;
        struct entry entry;
        if (offset >= cfi->frame.len || !read_entry(&cfi->frame, (size_t)offset, &entry) ||
            !read_both(&cfi->frame, &entry, cie, fde))
            return false;
        if (fde->start != fde->end)
            return covers(fde, pc);
    }
    return false;
}

/* The entry of pc by reading them one by one. */
static bool scan_fdes(const struct hx_cfi_bytes *frame, uint64_t pc, struct cie *cie,
                      struct fde *fde)
{
    struct entry entry;
    bool have_cie = false;
    for (size_t at = 0; read_entry(frame, at, &entry); at = entry.next) {
        if (entry.is_cie)
            continue;
        if (!have_cie || cie->offset != entry.cie)
            have_cie = read_cie(frame, entry.cie, cie);
        if (have_cie && read_fde(&entry, cie, fde) && fde->start && covers(fde, pc))
            return true;
    }
    return false;
}

static bool find_fde(const struct hx_cfi *cfi, uint64_t pc, struct cie *cie, struct fde *fde)
{
    struct search_table table;
    if (!cfi->frame.len)
        return false;
    return read_search_table(&cfi->hdr, &table) ? search_fde_table(cfi, &table, pc, cie, fde)
                                                : scan_fdes(&cfi->frame, pc, cie, fde);
}

bool hx_cfi_function(const struct hx_cfi *cfi, uint64_t pc, uint64_t *ret_start, uint64_t *ret_end)
{
    struct cie cie;
    struct fde fde;
    if (!find_fde(cfi, pc, &cie, &fde))
        return false;
    *ret_start = fde.start;
    *ret_end = fde.end;
    return true;
}

/* Runs up to the row of pc. */
static bool find_row(const struct hx_cfi *cfi, uint64_t pc, struct cie *cie, struct machine *m,
                     uint64_t *ret_start, uint64_t *ret_end)
{
    struct fde fde;
    if (!find_fde(cfi, pc, cie, &fde) || !machine_init(m, cie))
        return false;
    machine_begin(m, &fde);
    *ret_start = fde.start;
    for (; run_row(m, fde.end, ret_end); m->loc = *ret_end) {
        if (m->changed)
            *ret_start = m->loc;
        if (pc < *ret_end)
            return true;
    }
    return false;
}

bool hx_cfi_find(const struct hx_cfi *cfi, uint64_t pc, struct hx_cfi_rule *ret,
                 uint64_t *ret_start, uint64_t *ret_end)
{
    struct cie cie;
    struct machine m;
    if (!find_row(cfi, pc, &cie, &m, ret_start, ret_end))
        return false;
    *ret = rule_of(&m.row, cie.is_signal);
    return true;
}

bool hx_cfi_find_saves(const struct hx_cfi *cfi, uint64_t pc, struct hx_cfi_save ret[HX_CFI_KEPT])
{
    struct cie cie;
    struct machine m;
    uint64_t start, end;
    if (!find_row(cfi, pc, &cie, &m, &start, &end))
        return false;
    for (unsigned i = 0; i < HX_CFI_KEPT; i++) {
        const struct place *place = i == HX_CFI_RBP ? &m.row.fp : &m.row.kept[i ? i - 1 : 0];
        const bool known = place->kind < PLACE_UNKNOWN;
        ret[i] = (struct hx_cfi_save){.kind = known ? (uint8_t)place->kind : HX_SAVE_UNKNOWN,
                                      .off = known ? place->off : 0};
    }
    return true;
}

/* --- all of them --- */

/* Where rows of one entry go, those of equal rules put together. */
struct rows_out {
    hx_cfi_row_fn *each;
    void *context;
    uint64_t start, end;
    struct hx_cfi_rule rule;
    bool stopped;
};

static void flush_row(struct rows_out *out)
{
    if (out->end > out->start && !out->stopped)
        out->stopped = !out->each(out->context, out->start, out->end, &out->rule);
    out->start = out->end;
}

/* False: damaged. */
static bool each_cfi_row(struct machine *m, const struct fde *fde, struct rows_out *out)
{
    machine_begin(m, fde);
    out->start = out->end = fde->start;
    bool sound = true;
    while (m->loc < fde->end && !out->stopped) {
        uint64_t end;
        sound = run_row(m, fde->end, &end);
        if (!sound)
            break;
        struct hx_cfi_rule rule = rule_of(&m->row, m->cie->is_signal);
        if (!rules_equal(&rule, &out->rule))
            flush_row(out);
        out->rule = rule;
        m->loc = out->end = end;
    }
    flush_row(out);
    return sound;
}

uint64_t hx_cfi_each(const struct hx_cfi *cfi, hx_cfi_row_fn *each, void *context)
{
    struct rows_out out = {.each = each, .context = context};
    struct entry entry;
    struct cie cie = {0};
    struct machine m;
    bool known = false, usable = false; /* of the CIE that was read last */
    uint64_t damaged = 0;
    if (!cfi->frame.len)
        return 0;
    for (size_t at = 0; !out.stopped && read_entry(&cfi->frame, at, &entry); at = entry.next) {
        if (entry.is_cie)
            continue;
        if (!known || cie.offset != entry.cie) {
            usable = read_cie(&cfi->frame, entry.cie, &cie) && machine_init(&m, &cie);
            cie.offset = entry.cie;
            known = true;
        }
        struct fde fde;
        if (!usable || !read_fde(&entry, &cie, &fde))
            damaged++;
        else if (fde.start && !each_cfi_row(&m, &fde, &out)) /* start 0: the linker took it out */
            damaged++;
    }
    return damaged;
}

/* --- using one --- */

enum hx_step hx_cfi_step(const struct hx_cfi_rule *rule, struct hx_cfi_frame *frame,
                         bool (*read)(void *context, uint64_t addr, uint64_t *ret), void *context)
{
    uint64_t cfa, ra, fp = frame->fp;
    bool needs_fp = rule->cfa == HX_CFA_FP || rule->cfa == HX_CFA_AT_FP;
    if (rule->cfa == HX_CFA_END)
        return HX_STEP_END;
    if (needs_fp && !frame->fp_known)
        return HX_STEP_CUT;
    cfa = (needs_fp ? frame->fp : frame->sp) + (uint64_t)(int64_t)rule->cfa_off;
    if (rule->cfa == HX_CFA_PLT)
        cfa = frame->sp + (((int64_t)(frame->pc & 15) >= rule->cfa_off) ? 16 : 8);
    else if (rule->cfa >= HX_CFA_UNKNOWN)
        return HX_STEP_CUT;
    if ((rule->cfa == HX_CFA_AT_SP || rule->cfa == HX_CFA_AT_FP) && !read(context, cfa, &cfa))
        return HX_STEP_CUT;
    if (cfa <= frame->sp && !rule->signal) /* a signal may have been handled on another stack */
        return HX_STEP_CUT;
    if (!read(context,
              (rule->ra == HX_SAVE_AT_SP ? frame->sp : cfa) + (uint64_t)(int64_t)rule->ra_off, &ra))
        return HX_STEP_CUT;
    /* where no entry tells it, the first frame of a thread is made so; a signal comes where a NULL
     * function was called */
    if (ra == 0 && !rule->signal)
        return HX_STEP_END;
    if (rule->fp == HX_SAVE_UNKNOWN) {
        frame->fp_known = false;
    } else if (rule->fp != HX_SAVE_SAME) {
        uint64_t base = rule->fp == HX_SAVE_AT_CFA  ? cfa
                        : rule->fp == HX_SAVE_AT_SP ? frame->sp
                                                    : frame->fp;
        frame->fp_known = (rule->fp != HX_SAVE_AT_FP || frame->fp_known) &&
                          read(context, base + (uint64_t)(int64_t)rule->fp_off, &fp);
    }
    frame->pc = ra;
    frame->sp = cfa;
    frame->fp = frame->fp_known ? fp : 0;
    frame->exact = rule->signal;
    return HX_STEP_OK;
}
