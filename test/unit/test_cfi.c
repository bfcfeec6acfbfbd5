/* test_cfi.c - rules of .eh_frame: against elfutils' reader on whole files and on instructions that
 * compilers rarely make, and entries in each way of writing them down.
 */
#include "cfi_file.h"

#include <dwarf.h>
#include <elfutils/libdw.h>

/* --- code with rare instructions, which the comparison finds in this program's own tables --- */

#define EMPTY_FUNCTION(name, directives)                                                           \
    __asm__(".pushsection .text\n.type " name ", @function\n" name                                 \
            ":\n.cfi_startproc\n nop\n" directives "\n nop\n.cfi_endproc\n.size " name             \
            ", . - " name "\n.popsection")

EMPTY_FUNCTION("rare_states", ".cfi_adjust_cfa_offset 8\n.cfi_offset 6, -16\n"
                              ".cfi_remember_state\n nop\n"
                              ".cfi_def_cfa_register 6\n.cfi_remember_state\n nop\n"
                              ".cfi_restore 6\n.cfi_def_cfa 7, 8\n nop\n"
                              ".cfi_restore_state\n nop\n.cfi_restore_state\n nop\n"
                              ".cfi_restore 6");
EMPTY_FUNCTION("rare_registers", ".cfi_def_cfa 10, 0\n nop\n.cfi_def_cfa 7, 8\n nop\n"
                                 ".cfi_register 16, 5\n nop\n.cfi_offset 16, -8\n nop\n"
                                 ".cfi_undefined 6\n nop\n.cfi_same_value 6\n nop\n"
                                 ".cfi_register 6, 3\n nop\n.cfi_undefined 16");
/* val_offset rbp 2; val_offset_sf rbp -1; offset_extended_sf rbp 2; negative_offset_extended;
 * def_cfa_sf rsp -3; def_cfa_offset_sf -4; args_size 32; offset_extended rbp 400 */
EMPTY_FUNCTION("rare_offsets", ".cfi_escape 0x14, 6, 2\n nop\n.cfi_escape 0x15, 6, 0x7f\n nop\n"
                               ".cfi_escape 0x11, 6, 2\n nop\n.cfi_escape 0x2f, 6, 3\n nop\n"
                               ".cfi_escape 0x12, 7, 0x7d\n nop\n.cfi_escape 0x13, 0x7c\n nop\n"
                               ".cfi_escape 0x2e, 32\n nop\n.cfi_escape 0x05, 6, 0x90, 3\n nop\n"
                               ".cfi_escape 0x06, 6");
/* A signal frame as libc describes its own: CFA = *(rsp + 160), rbp at rsp + 120, rip at rsp + 168,
 * rsp at rsp + 160. */
EMPTY_FUNCTION("rare_signal", ".cfi_signal_frame\n"
                              ".cfi_escape 0x0f, 4, 0x77, 0xa0, 1, 0x06\n"
                              ".cfi_escape 0x10, 6, 3, 0x77, 0xf8, 0\n"
                              ".cfi_escape 0x10, 16, 3, 0x77, 0xa8, 1\n"
                              ".cfi_escape 0x10, 7, 3, 0x77, 0xa0, 1\n");
/* A realigned stack: CFA = *(rbp - 8), rbp at rbp + 0. */
EMPTY_FUNCTION("rare_realigned", ".cfi_def_cfa 10, 0\n nop\n.cfi_escape 0x10, 6, 2, 0x76, 0\n nop\n"
                                 ".cfi_escape 0x0f, 3, 0x76, 0x78, 6\n nop\n"
                                 ".cfi_def_cfa 10, 0\n nop\n.cfi_def_cfa 7, 8");
/* A procedure linkage table from the 10th byte on; one that is none; rbp + 16 by an expression;
 * a constant; rsp that is not the CFA. */
EMPTY_FUNCTION("rare_expressions",
               ".cfi_escape 0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3a, 0x2a, 0x33, 0x24, 0x22\n"
               " nop\n"
               ".cfi_escape 0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3a, 0x2b, 0x33, 0x24, 0x22\n"
               " nop\n.cfi_escape 0x0f, 2, 0x76, 16\n nop\n.cfi_escape 0x0f, 1, 0x31\n nop\n"
               ".cfi_def_cfa 7, 8\n nop\n.cfi_escape 0x14, 7, 0\n nop\n.cfi_offset 7, -24\n nop\n"
               ".cfi_escape 0x16, 7, 2, 0x76, 16\n nop\n.cfi_same_value 6\n nop");
EMPTY_FUNCTION("rare_advances", ".fill 63, 1, 0x90\n.cfi_def_cfa_offset 16\n"
                                ".fill 300, 1, 0x90\n.cfi_def_cfa_offset 24\n"
                                ".fill 70000, 1, 0x90\n.cfi_def_cfa_offset 32\n");

/* --- elfutils' answer, brought down to a rule --- */

struct oracle {
    Dwarf_CFI *cfi;
    const char *path;
    uint64_t rows;                        /* compared */
    struct hx_cfi_save save[HX_CFI_KEPT]; /* of the row that was found last */
};

static bool is_plt(const Dwarf_Op *ops, size_t n)
{
    return n == 9 && ops[0].atom == DW_OP_breg7 && ops[0].number == 8 &&
           ops[1].atom == DW_OP_breg16 && ops[1].number == 0 && ops[2].atom == DW_OP_lit15 &&
           ops[3].atom == DW_OP_and && ops[4].atom >= DW_OP_lit0 && ops[4].atom <= DW_OP_lit31 &&
           ops[5].atom == DW_OP_ge && ops[6].atom == DW_OP_lit3 && ops[7].atom == DW_OP_shl &&
           ops[8].atom == DW_OP_plus;
}

static void oracle_cfa(Dwarf_Frame *frame, struct hx_cfi_rule *rule)
{
    Dwarf_Op *ops;
    size_t n;
    rule->cfa = HX_CFA_UNKNOWN;
    if (dwarf_frame_cfa(frame, &ops, &n) || n == 0)
        return;
    if (is_plt(ops, n)) {
        rule->cfa = HX_CFA_PLT;
        rule->cfa_off = ops[4].atom - DW_OP_lit0;
        return;
    }
    uint64_t reg = ops[0].atom == DW_OP_bregx ? ops[0].number : (uint64_t)ops[0].atom - DW_OP_breg0;
    int64_t off = (int64_t)(ops[0].atom == DW_OP_bregx ? ops[0].number2 : ops[0].number);
    bool deref = n == 2 && ops[1].atom == DW_OP_deref;
    if ((reg != 6 && reg != 7) || (n != 1 && !deref))
        return;
    rule->cfa = reg == 7 ? (deref ? HX_CFA_AT_SP : HX_CFA_SP) : (deref ? HX_CFA_AT_FP : HX_CFA_FP);
    rule->cfa_off = (int32_t)off;
}

#define ORACLE_UNDEFINED 0xff
#define ORACLE_IS_CFA    0xfe

static uint8_t oracle_register(Dwarf_Frame *frame, int reg, int32_t *ret_off)
{
    Dwarf_Op mem[3], *ops;
    size_t n;
    *ret_off = 0;
    if (dwarf_frame_register(frame, reg, mem, &ops, &n))
        return HX_SAVE_UNKNOWN;
    if (n == 0)
        return ops ? ORACLE_UNDEFINED : HX_SAVE_SAME;
    bool value = ops[n - 1].atom == DW_OP_stack_value;
    if (ops[0].atom != DW_OP_call_frame_cfa)
        return HX_SAVE_UNKNOWN;
    if (value)
        return n == 2 ? ORACLE_IS_CFA : HX_SAVE_UNKNOWN;
    if (n == 2 && (ops[1].atom == DW_OP_breg6 || ops[1].atom == DW_OP_breg7)) {
        *ret_off = (int32_t)ops[1].number;
        return ops[1].atom == DW_OP_breg7 ? HX_SAVE_AT_SP : HX_SAVE_AT_FP;
    }
    if (n > 2 || (n == 2 && ops[1].atom != DW_OP_plus_uconst))
        return HX_SAVE_UNKNOWN;
    *ret_off = n == 2 ? (int32_t)ops[1].number : 0;
    return HX_SAVE_AT_CFA;
}

static bool oracle_find(struct oracle *oracle, uint64_t pc, struct hx_cfi_rule *ret,
                        uint64_t *ret_start, uint64_t *ret_end)
{
    Dwarf_Frame *frame;
    bool signal;
    if (dwarf_cfi_addrframe(oracle->cfi, pc, &frame))
        return false;
    assert_int_equal(dwarf_frame_info(frame, ret_start, ret_end, &signal), 16);
    struct hx_cfi_rule rule = {.signal = signal};
    int32_t sp_off;
    oracle_cfa(frame, &rule);
    rule.fp = oracle_register(frame, 6, &rule.fp_off);
    rule.ra = oracle_register(frame, 16, &rule.ra_off);
    uint8_t sp = oracle_register(frame, 7, &sp_off);
    bool sp_is_cfa = sp == ORACLE_IS_CFA || sp == HX_SAVE_SAME ||
                     (sp == HX_SAVE_AT_SP && rule.cfa == HX_CFA_AT_SP && sp_off == rule.cfa_off);
    if (rule.fp >= HX_SAVE_UNKNOWN)
        rule.fp = HX_SAVE_UNKNOWN;
    if (rule.ra == ORACLE_UNDEFINED)
        rule = (struct hx_cfi_rule){.cfa = HX_CFA_END};
    else if (rule.cfa == HX_CFA_UNKNOWN || !sp_is_cfa ||
             (rule.ra != HX_SAVE_AT_CFA && rule.ra != HX_SAVE_AT_SP))
        rule = (struct hx_cfi_rule){.cfa = HX_CFA_UNKNOWN};
    *ret = rule;
    for (unsigned i = 0; i < HX_CFI_KEPT; i++) {
        static const int number[HX_CFI_KEPT] = {3, 6, 12, 13, 14, 15};
        oracle->save[i].kind = oracle_register(frame, number[i], &oracle->save[i].off);
        if (i == HX_CFI_RBX && oracle->save[i].kind == ORACLE_UNDEFINED)
            oracle->save[i].kind = HX_SAVE_SAME; /* elfutils takes rax for it where none is named */
        if (oracle->save[i].kind >= HX_SAVE_UNKNOWN)
            oracle->save[i] = (struct hx_cfi_save){.kind = HX_SAVE_UNKNOWN};
    }
    free(frame);
    return true;
}

/* --- comparisons --- */

static void compare_at(struct oracle *oracle, const struct hx_cfi *cfi, uint64_t pc,
                       const struct hx_cfi_rule *want)
{
    struct hx_cfi_rule got;
    uint64_t start, end;
    oracle->rows++;
    if (!hx_cfi_find(cfi, pc, &got, &start, &end))
        fail_msg("%s: no rule at 0x%lx, elfutils: %s", oracle->path, pc, cfi_rule_text(want));
    if (pc < start || pc >= end)
        fail_msg("%s: 0x%lx is not in [0x%lx, 0x%lx)", oracle->path, pc, start, end);
    if (!cfi_rules_equal(&got, want))
        fail_msg("%s: at 0x%lx %s, elfutils: %s", oracle->path, pc, cfi_rule_text(&got),
                 cfi_rule_text(want));
    struct hx_cfi_save save[HX_CFI_KEPT];
    assert_true(hx_cfi_find_saves(cfi, pc, save));
    for (unsigned i = 0; i < HX_CFI_KEPT; i++)
        if (save[i].kind != oracle->save[i].kind || save[i].off != oracle->save[i].off)
            fail_msg("%s: at 0x%lx register %u is at %u, %d, elfutils: %u, %d", oracle->path, pc, i,
                     save[i].kind, save[i].off, oracle->save[i].kind, oracle->save[i].off);
}

/* All rows of elfutils' of the functions in .eh_frame_hdr, which is read here once more. */
static void compare_oracle_rows(struct oracle *oracle, const struct hx_cfi *cfi)
{
    const struct hx_cfi_bytes *hdr = &cfi->hdr;
    assert_true(hdr->len > 12 && hdr->bytes[2] == DW_EH_PE_udata4 &&
                hdr->bytes[3] == (DW_EH_PE_datarel | DW_EH_PE_sdata4));
    uint32_t n;
    memcpy(&n, hdr->bytes + 8, sizeof n);
    size_t stride = !unit_quick() ? 1 : n < 200 ? 1 : n / 200;
    for (size_t i = 0; i < n; i += stride) {
        int32_t pair[4] = {0, 0, INT32_MAX, 0};
        memcpy(pair, hdr->bytes + 12 + i * 8, i + 1 < n ? 16 : 8);
        uint64_t at = hdr->addr + (uint64_t)(int64_t)pair[0];
        uint64_t next = hdr->addr + (uint64_t)(int64_t)pair[2], start, end, found;
        struct hx_cfi_rule want, none;
        for (; at < next && oracle_find(oracle, at, &want, &start, &end); at = end) {
            compare_at(oracle, cfi, at, &want);
            compare_at(oracle, cfi, end - 1, &want);
        }
        if (at < next)
            assert_false(hx_cfi_find(cfi, at, &none, &start, &found));
    }
}

struct each_rows {
    struct oracle *oracle;
    const struct hx_cfi *cfi;
    uint64_t n, stride;
};

/* A row of ours: elfutils and hx_cfi_find() have the same rule at both its ends. */
static bool compare_our_row(void *context, uint64_t start, uint64_t end,
                            const struct hx_cfi_rule *rule)
{
    struct each_rows *rows = context;
    uint64_t from, to;
    struct hx_cfi_rule want;
    if (rows->n++ % rows->stride)
        return true;
    for (unsigned side = 0; side < 2; side++) {
        uint64_t pc = side ? end - 1 : start;
        assert_true(oracle_find(rows->oracle, pc, &want, &from, &to));
        if (!cfi_rules_equal(rule, &want))
            fail_msg("%s: row 0x%lx..0x%lx %s, elfutils: %s", rows->oracle->path, start, end,
                     cfi_rule_text(rule), cfi_rule_text(&want));
        compare_at(rows->oracle, rows->cfi, pc, &want);
    }
    return true;
}

static void test_files(void **state)
{
    (void)state;
    size_t seen = 0;
    for (size_t i = 0; i < CFI_FILES; i++) {
        struct cfi_file file;
        if (!cfi_file_open(&file, cfi_files[i]))
            continue;
        struct oracle oracle = {.cfi = dwarf_getcfi_elf(file.elf), .path = cfi_files[i]};
        assert_non_null(oracle.cfi);
        compare_oracle_rows(&oracle, &file.cfi);
        struct each_rows rows = {&oracle, &file.cfi, 0, !unit_quick() ? 1 : 200};
        assert_int_equal(hx_cfi_each(&file.cfi, compare_our_row, &rows), 0);
        printf("%s: %lu rows, %lu comparisons\n", cfi_files[i], rows.n, oracle.rows);
        dwarf_cfi_end(oracle.cfi);
        cfi_file_close(&file);
        seen++;
    }
    assert_true(seen >= 4);
}

/* --- what rare instructions come down to --- */

/* Of the instruction `at` bytes into a function; mostly these are one byte long. */
static const struct {
    const char *function;
    unsigned at;
    struct hx_cfi_rule rule;
} rare_rows[] = {
    {"rare_states", 0, {HX_CFA_SP, 0, 1, 0, 8, 0, -8}},
    {"rare_states", 1, {HX_CFA_SP, 1, 1, 0, 16, -16, -8}},
    {"rare_states", 2, {HX_CFA_FP, 1, 1, 0, 16, -16, -8}},
    {"rare_states", 3, {HX_CFA_SP, 0, 1, 0, 8, 0, -8}},
    {"rare_states", 4, {HX_CFA_FP, 1, 1, 0, 16, -16, -8}},
    {"rare_states", 5, {HX_CFA_SP, 1, 1, 0, 16, -16, -8}},
    {"rare_states", 6, {HX_CFA_SP, 0, 1, 0, 16, 0, -8}},
    {"rare_registers", 1, {HX_CFA_UNKNOWN, 0, 0, 0, 0, 0, 0}},
    {"rare_registers", 2, {HX_CFA_SP, 0, 1, 0, 8, 0, -8}},
    {"rare_registers", 3, {HX_CFA_UNKNOWN, 0, 0, 0, 0, 0, 0}},
    {"rare_registers", 5, {HX_CFA_SP, HX_SAVE_UNKNOWN, 1, 0, 8, 0, -8}},
    {"rare_registers", 6, {HX_CFA_SP, 0, 1, 0, 8, 0, -8}},
    {"rare_registers", 7, {HX_CFA_SP, HX_SAVE_UNKNOWN, 1, 0, 8, 0, -8}},
    {"rare_registers", 8, {HX_CFA_END, 0, 0, 0, 0, 0, 0}},
    {"rare_offsets", 1, {HX_CFA_SP, HX_SAVE_UNKNOWN, 1, 0, 8, 0, -8}},
    {"rare_offsets", 2, {HX_CFA_SP, HX_SAVE_UNKNOWN, 1, 0, 8, 0, -8}},
    {"rare_offsets", 3, {HX_CFA_SP, 1, 1, 0, 8, -16, -8}},
    {"rare_offsets", 4, {HX_CFA_SP, 1, 1, 0, 8, 24, -8}},
    {"rare_offsets", 5, {HX_CFA_SP, 1, 1, 0, 24, 24, -8}},
    {"rare_offsets", 6, {HX_CFA_SP, 1, 1, 0, 32, 24, -8}},
    {"rare_offsets", 8, {HX_CFA_SP, 1, 1, 0, 32, -3200, -8}},
    {"rare_offsets", 9, {HX_CFA_SP, 0, 1, 0, 32, 0, -8}},
    {"rare_signal", 1, {HX_CFA_AT_SP, HX_SAVE_AT_SP, HX_SAVE_AT_SP, 1, 160, 120, 168}},
    {"rare_realigned", 2, {HX_CFA_UNKNOWN, 0, 0, 0, 0, 0, 0}},
    {"rare_realigned", 3, {HX_CFA_AT_FP, HX_SAVE_AT_FP, 1, 0, -8, 0, -8}},
    {"rare_realigned", 5, {HX_CFA_SP, HX_SAVE_AT_FP, 1, 0, 8, 0, -8}},
    {"rare_expressions", 1, {HX_CFA_PLT, 0, 1, 0, 10, 0, -8}},
    {"rare_expressions", 2, {HX_CFA_UNKNOWN, 0, 0, 0, 0, 0, 0}},
    {"rare_expressions", 3, {HX_CFA_FP, 0, 1, 0, 16, 0, -8}},
    {"rare_expressions", 4, {HX_CFA_UNKNOWN, 0, 0, 0, 0, 0, 0}},
    {"rare_expressions", 6, {HX_CFA_SP, 0, 1, 0, 8, 0, -8}},
    {"rare_expressions", 7, {HX_CFA_UNKNOWN, 0, 0, 0, 0, 0, 0}},
    {"rare_advances", 63, {HX_CFA_SP, 0, 1, 0, 8, 0, -8}},
    {"rare_advances", 64, {HX_CFA_SP, 0, 1, 0, 16, 0, -8}},
    {"rare_advances", 364 + 69999, {HX_CFA_SP, 0, 1, 0, 24, 0, -8}},
    {"rare_advances", 364 + 70000, {HX_CFA_SP, 0, 1, 0, 32, 0, -8}},
};

static uint64_t symbol_of(Elf *elf, const char *wanted)
{
    for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
        GElf_Shdr shdr;
        if (!gelf_getshdr(scn, &shdr) || shdr.sh_type != SHT_SYMTAB)
            continue;
        Elf_Data *data = elf_getdata(scn, NULL);
        GElf_Sym sym;
        for (int i = 0; gelf_getsym(data, i, &sym); i++) {
            const char *name = elf_strptr(elf, shdr.sh_link, sym.st_name);
            if (name && !strcmp(name, wanted))
                return sym.st_value;
        }
    }
    fail_msg("no symbol %s", wanted);
    return 0;
}

static void test_rare(void **state)
{
    (void)state;
    struct cfi_file file;
    assert_true(cfi_file_open(&file, "/proc/self/exe"));
    struct hx_cfi unsorted = {.frame = file.cfi.frame};
    for (size_t i = 0; i < sizeof rare_rows / sizeof *rare_rows; i++) {
        const struct hx_cfi_rule *want = &rare_rows[i].rule;
        uint64_t pc = symbol_of(file.elf, rare_rows[i].function) + rare_rows[i].at, start, end;
        for (unsigned linear = 0; linear < 2; linear++) {
            struct hx_cfi_rule got;
            assert_true(hx_cfi_find(linear ? &unsorted : &file.cfi, pc, &got, &start, &end));
            if (!cfi_rules_equal(&got, want))
                fail_msg("%s + %u: %s, should be %s", rare_rows[i].function, rare_rows[i].at,
                         cfi_rule_text(&got), cfi_rule_text(want));
        }
    }
    cfi_file_close(&file);
}

/* --- entries in all ways of writing them down --- */

struct bytes {
    uint8_t at[4096];
    size_t n;
    uint64_t addr; /* of at[0] */
};

static void put(struct bytes *b, uint64_t value, size_t width)
{
    assert_true(b->n + width <= sizeof b->at);
    memcpy(b->at + b->n, &value, width);
    b->n += width;
}

static void put_leb(struct bytes *b, int64_t value, bool is_signed)
{
    for (bool more = true; more;) {
        uint8_t byte = value & 0x7f;
        value = is_signed ? value >> 7 : (int64_t)((uint64_t)value >> 7);
        more = is_signed ? value != ((byte & 0x40) ? -1 : 0) : value != 0;
        put(b, byte | (more ? 0x80 : 0), 1);
    }
}

/* `absolute`: as a length is written, without what it is relative to. */
static void put_encoded(struct bytes *b, uint8_t encoding, uint64_t value, bool absolute,
                        uint64_t data)
{
    static const uint8_t widths[16] = {8, 0, 2, 4, 8, 0, 0, 0, 8, 0, 2, 4, 8, 0, 0, 0};
    uint8_t form = encoding & 15;
    if (!absolute)
        value -= (encoding & 0x70) == DW_EH_PE_pcrel     ? b->addr + b->n
                 : (encoding & 0x70) == DW_EH_PE_datarel ? data
                                                         : 0;
    if (form == DW_EH_PE_uleb128 || form == DW_EH_PE_sleb128)
        put_leb(b, (int64_t)value, form == DW_EH_PE_sleb128);
    else
        put(b, value, widths[form]);
}

/* Begins an entry, ends it. */
static size_t put_head(struct bytes *b, bool wide)
{
    if (wide)
        put(b, 0xffffffff, 4);
    put(b, 0, wide ? 8 : 4);
    return b->n;
}

static void put_tail(struct bytes *b, size_t head, bool wide)
{
    while (b->n % 8)
        put(b, DW_CFA_nop, 1);
    uint64_t length = b->n - head;
    memcpy(b->at + head - (wide ? 8 : 4), &length, wide ? 8 : 4);
}

struct style {
    uint8_t version;
    const char *augmentation;
    uint8_t encoding;
    bool wide;
};

static size_t put_cie(struct bytes *b, const struct style *style)
{
    size_t at = b->n, head = put_head(b, style->wide);
    put(b, 0, 4);
    put(b, style->version, 1);
    for (const char *c = style->augmentation; *c; c++)
        put(b, (uint8_t)*c, 1);
    put(b, 0, 1);
    if (!strncmp(style->augmentation, "eh", 2))
        put(b, 0x1234567, 8);
    if (style->version == 4)
        put(b, 8, 2); /* addresses have 8 bytes, no segments */
    put_leb(b, 1, false);
    put_leb(b, -8, true);
    put(b, 16, 1);
    struct bytes data = {.addr = b->addr + b->n + 1};
    for (const char *c = style->augmentation; *c && *style->augmentation == 'z'; c++) {
        if (*c == 'R' || *c == 'L')
            put(&data, *c == 'R' ? style->encoding : 0x1b, 1);
        if (*c == 'P') { /* each style another personality */
            uint8_t how = style->wide ? DW_EH_PE_aligned : DW_EH_PE_indirect | 0x1b;
            put(&data, how, 1);
            while (how == DW_EH_PE_aligned && (data.addr + data.n) % 8)
                put(&data, 0, 1);
            put(&data, 0x77777777, how == DW_EH_PE_aligned ? 8 : 4);
        }
    }
    if (*style->augmentation == 'z') {
        put_leb(b, (int64_t)data.n, false);
        for (size_t i = 0; i < data.n; i++)
            put(b, data.at[i], 1);
    }
    static const uint8_t program[] = {DW_CFA_def_cfa, 7, 8, DW_CFA_offset + 16, 1};
    for (size_t i = 0; i < sizeof program; i++)
        put(b, program[i], 1);
    put_tail(b, head, style->wide);
    return at;
}

/* A function that pushes rbp in its first instruction, of one byte. */
static void put_fde(struct bytes *b, const struct style *style, size_t cie, uint64_t start,
                    uint64_t len)
{
    size_t head = put_head(b, style->wide);
    uint8_t encoding = *style->augmentation == 'z' ? style->encoding : 0;
    put(b, b->n - cie, 4);
    put_encoded(b, encoding, start, false, 0);
    put_encoded(b, encoding, len, true, 0);
    if (*style->augmentation == 'z') {
        put_leb(b, 4, false);
        put(b, 0x12345678, 4); /* where its exceptions are handled */
    }
    static const uint8_t program[] = {DW_CFA_advance_loc + 1, DW_CFA_def_cfa_offset, 16,
                                      DW_CFA_offset + 6, 2};
    for (size_t i = 0; i < sizeof program; i++)
        put(b, program[i], 1);
    put(b, 0, 8), put(b, 0, 8); /* DW_CFA_nop */
    put_tail(b, head, style->wide);
}

static const struct hx_cfi_rule at_entry = {HX_CFA_SP, 0, 1, 0, 8, 0, -8};
static const struct hx_cfi_rule pushed = {HX_CFA_SP, 1, 1, 0, 16, -16, -8};

static void expect_rule(const struct hx_cfi *cfi, uint64_t pc, const struct hx_cfi_rule *rule,
                        bool signal, uint64_t start, uint64_t end)
{
    struct hx_cfi_rule got, want = *rule;
    uint64_t got_start, got_end;
    want.signal = signal;
    assert_true(hx_cfi_find(cfi, pc, &got, &got_start, &got_end));
    assert_string_equal(cfi_rule_text(&got), cfi_rule_text(&want));
    assert_int_equal(got_start, start);
    assert_int_equal(got_end, end);
}

static void expect_function(const struct hx_cfi *cfi, uint64_t at, bool signal)
{
    expect_rule(cfi, at, &at_entry, signal, at, at + 1);
    expect_rule(cfi, at + 1, &pushed, signal, at + 1, at + 64);
    expect_rule(cfi, at + 63, &pushed, signal, at + 1, at + 64);
}

#define FUNCTIONS  20
#define TEXT       0x3000
#define FRAME_ADDR 0x6000
#define HDR_ADDR   0x5800

/* Functions with gaps between them, their entries not in order. */
static void put_functions(struct bytes *b, const struct style *style, uint64_t *entries)
{
    size_t cie = put_cie(b, style);
    for (unsigned i = 0; i < FUNCTIONS; i++) {
        unsigned at = i * 7 % FUNCTIONS;
        entries[at] = b->addr + b->n;
        put_fde(b, style, cie, TEXT + at * 100, 64);
    }
    put(b, 0, 4);
}

static void expect_functions(const struct hx_cfi *cfi, bool signal)
{
    struct hx_cfi_rule rule;
    uint64_t start, end;
    for (unsigned i = 0; i < FUNCTIONS; i++) {
        expect_function(cfi, TEXT + i * 100, signal);
        assert_false(hx_cfi_find(cfi, TEXT + i * 100 + 64, &rule, &start, &end));
    }
    assert_false(hx_cfi_find(cfi, TEXT - 1, &rule, &start, &end));
    assert_false(hx_cfi_find(cfi, 0, &rule, &start, &end));
    assert_false(hx_cfi_find(cfi, UINT64_MAX, &rule, &start, &end));
}

static void put_hdr(struct bytes *b, uint8_t encoding, const uint64_t *entries)
{
    put(b, 1, 1);
    put(b, 0x1b, 1);
    put(b, DW_EH_PE_udata4, 1);
    put(b, encoding, 1);
    put_encoded(b, 0x1b, FRAME_ADDR, false, 0);
    put(b, FUNCTIONS, 4);
    for (unsigned i = 0; i < FUNCTIONS && encoding != DW_EH_PE_omit; i++) {
        put_encoded(b, encoding, TEXT + i * 100, false, HDR_ADDR);
        put_encoded(b, encoding, entries[i], false, HDR_ADDR);
    }
}

static bool count_row(void *context, uint64_t start, uint64_t end, const struct hx_cfi_rule *rule)
{
    (void)rule;
    assert_true(start < end);
    return ++*(unsigned *)context < 2 * FUNCTIONS;
}

static void check_style(const struct style *style)
{
    static const uint8_t tables[] = {0x3b, 0x3a, 0x3c, 0x03, 0x02, 0x04,
                                     0x00, 0x1b, 0x1c, 0x01, 0x09, 0xff};
    struct bytes frame = {.addr = FRAME_ADDR};
    uint64_t entries[FUNCTIONS];
    put_functions(&frame, style, entries);
    struct hx_cfi cfi = {.frame = {frame.at, frame.n, FRAME_ADDR}};
    bool signal = strchr(style->augmentation, 'S') != NULL;
    expect_functions(&cfi, signal);
    unsigned rows = 0;
    assert_int_equal(hx_cfi_each(&cfi, count_row, &rows), 0);
    assert_int_equal(rows, 2 * FUNCTIONS);
    for (size_t i = 0; i < sizeof tables; i++) {
        struct bytes hdr = {.addr = HDR_ADDR};
        put_hdr(&hdr, tables[i], entries);
        cfi.hdr = (struct hx_cfi_bytes){hdr.at, hdr.n, HDR_ADDR};
        expect_functions(&cfi, signal);
    }
}

static void test_styles(void **state)
{
    (void)state;
    static const char *const augmentations[] = {"zR", "zPLR", "zRS", "zRB", "zLPR", "", "eh"};
    static const uint8_t versions[] = {1, 3, 4};
    static const uint8_t encodings[] = {0x00, 0x01, 0x02, 0x03, 0x04, 0x08, 0x09, 0x0a,
                                        0x0b, 0x0c, 0x10, 0x19, 0x1a, 0x1b, 0x1c};
    for (size_t a = 0; a < sizeof augmentations / sizeof *augmentations; a++)
        for (size_t v = 0; v < sizeof versions; v++)
            for (size_t e = 0; e < sizeof encodings; e++)
                for (unsigned wide = 0; wide < 2; wide++)
                    check_style(&(struct style){versions[v], augmentations[a], encodings[e], wide});
}

/* What is refused: entries are counted, and nothing is found. */
static void test_refused(void **state)
{
    (void)state;
    static const struct style styles[] = {
        {2, "zR", 0x1b, false},
        {5, "zR", 0x1b, false},
        {1, "zR", 0x9b, false},
        {1, "zR", 0x3b, false},
        {1, "zR", 0x5b, false},
        {1, "zR", 0x07, false},
        {1, "x", 0x00, false},
        {1, "zR", 0xff, false},
        {1, "zAAAAAAAAAAAAAAAAAAAAAAAAAAAAAR", 0x1b, false},
    };
    for (size_t i = 0; i < sizeof styles / sizeof *styles; i++) {
        struct bytes frame = {.addr = FRAME_ADDR};
        uint64_t entries[FUNCTIONS], start, end;
        struct hx_cfi_rule rule;
        unsigned rows = 0;
        put_functions(&frame, &styles[i], entries);
        struct hx_cfi cfi = {.frame = {frame.at, frame.n, FRAME_ADDR}};
        assert_false(hx_cfi_find(&cfi, TEXT, &rule, &start, &end));
        assert_int_equal(hx_cfi_each(&cfi, count_row, &rows), FUNCTIONS);
        assert_int_equal(rows, 0);
    }
}

/* Programs that make no sense from some instruction on: what stands before it counts. */
static void test_broken_programs(void **state)
{
    (void)state;
    static const struct {
        uint8_t program[16];
        bool sound;
    } cases[] = {
        {{DW_CFA_restore_state}, false},
        {{0x3f}, false},
        {{0x1d, 6}, false},
        {{DW_CFA_def_cfa, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 0}, false},
        {{DW_CFA_def_cfa_expression, 0x7f}, false},
        {{DW_CFA_remember_state, DW_CFA_restore_state}, true},
        {{DW_CFA_advance_loc4, 0xff, 0xff, 0xff, 0xff}, true}, /* up to its end */
        {{DW_CFA_set_loc, 0, 0, 0, 0}, true},
        {{DW_CFA_set_loc, 0, 0xcf, 0xff, 0xff}, false}, /* backwards */
    };
    struct style style = {1, "zR", 0x1b, false};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bytes frame = {.addr = FRAME_ADDR};
        size_t cie = put_cie(&frame, &style);
        put_fde(&frame, &style, cie, TEXT, 64);
        size_t at = frame.n; /* the program ends with padding */
        while (frame.at[at - 1] == DW_CFA_nop)
            at--;
        memcpy(frame.at + at, cases[i].program, sizeof cases[i].program);
        struct hx_cfi cfi = {.frame = {frame.at, frame.n, FRAME_ADDR}};
        unsigned rows = 0;
        struct hx_cfi_rule rule;
        uint64_t start, end;
        assert_int_equal(hx_cfi_each(&cfi, count_row, &rows), !cases[i].sound);
        assert_true(hx_cfi_find(&cfi, TEXT, &rule, &start, &end));
        assert_int_equal(hx_cfi_find(&cfi, TEXT + 40, &rule, &start, &end), cases[i].sound);
    }
}

/* An entry of length 0 hides none that begins in the same place. */
static void test_empty(void **state)
{
    (void)state;
    struct style style = {1, "zR", 0x1b, false};
    for (unsigned order = 0; order < 2; order++) {
        struct bytes frame = {.addr = FRAME_ADDR}, hdr = {.addr = HDR_ADDR};
        uint64_t entries[FUNCTIONS];
        size_t cie = put_cie(&frame, &style);
        for (unsigned i = 0; i < 2; i++) {
            entries[i] = FRAME_ADDR + frame.n;
            put_fde(&frame, &style, cie, TEXT, i == order ? 64 : 0);
        }
        put(&hdr, 0x3b031b01, 4);
        put_encoded(&hdr, 0x1b, FRAME_ADDR, false, 0);
        put(&hdr, 2, 4);
        for (unsigned i = 0; i < 2; i++) {
            put_encoded(&hdr, 0x3b, TEXT, false, HDR_ADDR);
            put_encoded(&hdr, 0x3b, entries[i], false, HDR_ADDR);
        }
        struct hx_cfi cfi = {{hdr.at, hdr.n, HDR_ADDR}, {frame.at, frame.n, FRAME_ADDR}};
        expect_function(&cfi, TEXT, false);
        cfi.hdr.len = 0;
        expect_function(&cfi, TEXT, false);
    }
}

/* Hand-written code goes from an expression back to a register without saying the offset again.
 * DWARF does not allow that, and elfutils refuses it; gdb and the compiler's unwinder take the
 * offset from before, which is what is meant. */
static void test_register_after_expression(void **state)
{
    (void)state;
    static const uint8_t program[] = {DW_CFA_def_cfa_expression,
                                      3,
                                      DW_OP_breg7,
                                      16,
                                      DW_OP_deref,
                                      DW_CFA_advance_loc + 9,
                                      DW_CFA_def_cfa_register,
                                      7,
                                      DW_CFA_advance_loc + 1,
                                      DW_CFA_def_cfa_offset,
                                      8};
    struct style style = {1, "zR", 0x1b, false};
    struct bytes frame = {.addr = FRAME_ADDR};
    size_t cie = put_cie(&frame, &style);
    put_fde(&frame, &style, cie, TEXT, 64);
    size_t at = frame.n; /* the program ends with padding */
    while (frame.at[at - 1] == DW_CFA_nop)
        at--;
    memcpy(frame.at + at, program, sizeof program);
    struct hx_cfi cfi = {.frame = {frame.at, frame.n, FRAME_ADDR}};
    static const struct hx_cfi_rule rules[] = {{HX_CFA_AT_SP, 1, 1, 0, 16, -16, -8},
                                               {HX_CFA_SP, 1, 1, 0, 16, -16, -8},
                                               {HX_CFA_SP, 1, 1, 0, 8, -16, -8}};
    expect_rule(&cfi, TEXT + 9, &rules[0], false, TEXT + 1, TEXT + 10);
    expect_rule(&cfi, TEXT + 10, &rules[1], false, TEXT + 10, TEXT + 11);
    expect_rule(&cfi, TEXT + 63, &rules[2], false, TEXT + 11, TEXT + 64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_rare),
        cmocka_unit_test(test_styles),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_broken_programs),
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_register_after_expression),
    };
    return unit_run_some(tests);
}
