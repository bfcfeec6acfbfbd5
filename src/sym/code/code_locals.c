/* code_locals.c - where the variables of functions lie at an address of code.
 *
 * A location that is neither a register nor a constant from the frame (a value that has no place,
 * an expression that reads memory, pieces) is left out.
 */
#include "sym/code/code_private.h"

#include "sym/cfi_bytes.h"

#include <dwarf.h>
#include <gelf.h>
#include <string.h>

#define BLOCKS_MAX 64 /* lexical blocks within each other */
#define PEEL_MAX   32 /* names of names of a type, pointers to pointers */
#define NAME_BYTES 1000

/* Numbers of DWARF's, for x86-64. */
enum { REG_RBP = 6, REG_RSP = 7 };

/* What lies before the offsets in a table of lists, 32-bit DWARF. */
enum { LISTS_HEADER = 12 };

struct locals {
    struct hx_code_dwarf *dwarf;
    uint64_t vaddr;
    bool has_base; /* of the function at hand: */
    enum hx_code_base base;
    int64_t base_offset;
    struct hx_text spelling;
    struct hx_code_local *local;
    size_t n, max;
};

/* --- lists of locations ----------------------------------------------------------- */

static struct hx_cfi_bytes lists_of(Dwarf_CU *cu)
{
    Elf *elf = dwarf_getelf(dwarf_cu_getdwarf(cu));
    Elf_Scn *section = NULL;
    size_t names;
    if (elf_getshdrstrndx(elf, &names) != 0)
        return (struct hx_cfi_bytes){0};
    while ((section = elf_nextscn(elf, section))) {
        GElf_Shdr header;
        const char *name =
            gelf_getshdr(section, &header) ? elf_strptr(elf, names, header.sh_name) : NULL;
        Elf_Data *data =
            name && strncmp(name, ".debug_loclists", 15) == 0 ? elf_getdata(section, NULL) : NULL;
        if (data && data->d_buf)
            return (struct hx_cfi_bytes){.bytes = data->d_buf, .len = data->d_size};
    }
    return (struct hx_cfi_bytes){0};
}

/* Reads one entry: where it holds, then an expression. False: it is the last. */
static bool pass_entry(struct cursor *list)
{
    switch (read_u8(list)) {
    case DW_LLE_base_addressx:
        (void)read_uleb(list);
        return true;
    case DW_LLE_base_address:
        (void)read_u64(list);
        return true;
    case DW_LLE_startx_endx:
    case DW_LLE_startx_length:
    case DW_LLE_offset_pair:
        (void)read_uleb(list);
        (void)read_uleb(list);
        break;
    case DW_LLE_start_end:
        skip(list, 16);
        break;
    case DW_LLE_start_length:
        (void)read_u64(list);
        (void)read_uleb(list);
        break;
    case DW_LLE_default_location:
        break;
    default: /* the end, or one that libdw refuses */
        return false;
    }
    skip(list, read_uleb(list));
    return true;
}

/* Whether the list that a location is, in DWARF 5, ends within its section: libdw (0.188) adds the
 * length of an expression to its own place unseen, and reads there. */
static bool list_ends(Dwarf_Attribute *attr)
{
    const unsigned form = dwarf_whatform(attr);
    Dwarf_Half version;
    Dwarf_Die unit;
    Dwarf_Word at;
    if ((form != DW_FORM_sec_offset && form != DW_FORM_loclistx) ||
        dwarf_cu_info(attr->cu, &version, NULL, &unit, NULL, NULL, NULL, NULL) != 0 || version < 5)
        return true;
    if (dwarf_formudata(attr, &at) != 0)
        return false;
    const struct hx_cfi_bytes lists = lists_of(attr->cu);
    if (form == DW_FORM_loclistx) {
        Dwarf_Attribute base_attr;
        Dwarf_Word base;
        if (!dwarf_attr(&unit, DW_AT_loclists_base, &base_attr) ||
            dwarf_formudata(&base_attr, &base) != 0)
            base = LISTS_HEADER;
        if (base > lists.len || at >= lists.len / 4)
            return false;
        struct cursor offset = cursor_at(&lists, base + at * 4);
        at = base + read_u32(&offset);
        if (offset.bad)
            return false;
    }
    struct cursor list = cursor_at(&lists, at);
    while (!list.bad && pass_entry(&list))
        ;
    return !list.bad;
}

/* --- where --------------------------------------------------------------------- */

static bool location_op(const struct locals *locals, Dwarf_Attribute *attr, Dwarf_Op *ret)
{
    Dwarf_Op *op;
    size_t n;
    if (!list_ends(attr) || dwarf_getlocation_addr(attr, locals->vaddr, &op, &n, 1) != 1 || n != 1)
        return false;
    *ret = *op;
    return true;
}

static bool register_base(uint64_t reg, enum hx_code_base *ret)
{
    *ret = reg == REG_RBP ? HX_CODE_AT_FP : HX_CODE_AT_SP;
    return reg == REG_RBP || reg == REG_RSP;
}

static void find_frame_base(struct locals *locals, Dwarf_Die *function)
{
    Dwarf_Attribute attr;
    Dwarf_Op op;
    locals->has_base = false;
    locals->base_offset = 0;
    if (!dwarf_attr(function, DW_AT_frame_base, &attr) || !location_op(locals, &attr, &op))
        return;
    if (op.atom == DW_OP_call_frame_cfa) {
        locals->base = HX_CODE_AT_CFA;
        locals->has_base = true;
    } else if (op.atom >= DW_OP_reg0 && op.atom <= DW_OP_reg31) {
        locals->has_base = register_base(op.atom - DW_OP_reg0, &locals->base);
    } else if (op.atom >= DW_OP_breg0 && op.atom <= DW_OP_breg31) {
        locals->has_base = register_base(op.atom - DW_OP_breg0, &locals->base);
        locals->base_offset = (int64_t)op.number;
    }
}

static bool find_place(const struct locals *locals, Dwarf_Die *die, struct hx_code_local *ret)
{
    Dwarf_Attribute attr;
    Dwarf_Op op;
    if (!dwarf_attr(die, DW_AT_location, &attr) || !location_op(locals, &attr, &op))
        return false;
    if (op.atom >= DW_OP_reg0 && op.atom <= DW_OP_reg31) {
        ret->base = HX_CODE_IN_REGISTER;
        ret->offset = op.atom - DW_OP_reg0;
        return true;
    }
    ret->offset = (int64_t)op.number;
    if (op.atom >= DW_OP_breg0 && op.atom <= DW_OP_breg31)
        return register_base(op.atom - DW_OP_breg0, &ret->base);
    ret->base = locals->base;
    return op.atom == DW_OP_fbreg && locals->has_base &&
           !__builtin_add_overflow(ret->offset, locals->base_offset, &ret->offset);
}

/* --- of what type --------------------------------------------------------------- */

static bool number_of(Dwarf_Die *die, unsigned name, uint64_t *ret)
{
    Dwarf_Attribute attr;
    Dwarf_Word value;
    if (!dwarf_attr(die, name, &attr) || dwarf_formudata(&attr, &value) != 0)
        return false;
    *ret = value;
    return true;
}

static bool spell_name(struct locals *locals, Dwarf_Die *named)
{
    const char *name = dwarf_diename(named);
    if (!name || strlen(name) > NAME_BYTES)
        return false;
    hx_code_dwarf_put_spaces(locals->dwarf, locals->vaddr, named, &locals->spelling);
    hx_text_puts(&locals->spelling, name);
    return true;
}

/* Spells the type that `die` has as tables of types are asked for it (type_merge.h); *ret: its
 * size, 0 when that is not known. */
static void spell_type(struct locals *locals, Dwarf_Die die, uint64_t *ret)
{
    Dwarf_Die named = {0};
    bool is_named = false, pointer = false;
    uint64_t factor = 1;
    *ret = 0;
    hx_text_clear(&locals->spelling);
    for (int i = 0; i < PEEL_MAX && locals->spelling.n < NAME_BYTES; i++) {
        Dwarf_Attribute attr;
        uint64_t n, size;
        if (!dwarf_attr_integrate(&die, DW_AT_type, &attr) || !dwarf_formref_die(&attr, &die))
            return; /* void */
        switch (dwarf_tag(&die)) {
        case DW_TAG_typedef:
            named = die;
            is_named = true;
            continue;
        case DW_TAG_const_type:
        case DW_TAG_volatile_type:
        case DW_TAG_restrict_type:
        case DW_TAG_atomic_type:
            continue;
        case DW_TAG_pointer_type:
        case DW_TAG_reference_type:
        case DW_TAG_rvalue_reference_type:
            if (!pointer && __builtin_mul_overflow(factor, (uint64_t)8, ret))
                *ret = 0;
            pointer = true;
            is_named = false;
            hx_text_putc(&locals->spelling, '*');
            continue;
        case DW_TAG_array_type:
            is_named = false;
            if (!hx_code_dwarf_elements(locals->dwarf, &die, &n) ||
                __builtin_mul_overflow(factor, n, &factor))
                return;
            hx_text_putf(&locals->spelling, "[%llu]", (unsigned long long)n);
            continue;
        default:
            if (!pointer && number_of(&die, DW_AT_byte_size, &size) &&
                __builtin_mul_overflow(factor, size, ret))
                *ret = 0;
            if (!spell_name(locals, &die) && (!is_named || !spell_name(locals, &named)))
                hx_text_clear(&locals->spelling);
            return;
        }
    }
    hx_text_clear(&locals->spelling);
}

/* --- the variables of one function ---------------------------------------------- */

static void add_local(struct locals *locals, Dwarf_Die *die, uint32_t depth)
{
    Dwarf_Attribute attr;
    struct hx_code_local local = {.depth = depth};
    if (locals->n == locals->max || !find_place(locals, die, &local))
        return;
    local.name = dwarf_attr_integrate(die, DW_AT_name, &attr) ? dwarf_formstring(&attr) : NULL;
    if (!local.name || strlen(local.name) > NAME_BYTES)
        return;
    spell_type(locals, *die, &local.size);
    local.type = hx_code_dwarf_keep(locals->dwarf, hx_text_str(&locals->spelling));
    if (local.size)
        locals->local[locals->n++] = local;
}

static void visit_function(struct locals *locals, Dwarf_Die *function, uint32_t depth)
{
    Dwarf_Die level[BLOCKS_MAX];
    size_t at = 0;
    if (dwarf_child(function, &level[0]) != 0)
        return;
    for (;;) {
        const int tag = dwarf_tag(&level[at]);
        if (tag == DW_TAG_formal_parameter || tag == DW_TAG_variable)
            add_local(locals, &level[at], depth);
        bool enter =
            (tag == DW_TAG_lexical_block || tag == DW_TAG_try_block || tag == DW_TAG_catch_block) &&
            at + 1 < BLOCKS_MAX && dwarf_haspc(&level[at], locals->vaddr) == 1;
        if (enter && dwarf_child(&level[at], &level[at + 1]) == 0) {
            at++;
            continue;
        }
        while (!hx_code_dwarf_sibling(locals->dwarf, &level[at], &level[at]))
            if (!at--)
                return;
    }
}

size_t hx_code_dwarf_locals(struct hx_code_dwarf *dwarf, uint64_t vaddr,
                            struct hx_code_local *local, size_t max)
{
    Dwarf_Die function[HX_CODE_LINES_MAX];
    struct locals locals = {.dwarf = dwarf, .vaddr = vaddr, .local = local, .max = max};
    const size_t n = hx_code_dwarf_functions(dwarf, vaddr, function, HX_CODE_LINES_MAX);
    hx_code_dwarf_begin(dwarf);
    if (n)
        find_frame_base(&locals, &function[n - 1]); /* what is inlined has none of its own */
    for (size_t i = 0; i < n; i++)
        visit_function(&locals, &function[i], (uint32_t)i);
    hx_code_dwarf_end(dwarf);
    hx_text_free(&locals.spelling);
    return locals.n;
}
