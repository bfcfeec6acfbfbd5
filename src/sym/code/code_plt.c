/* code_plt.c - the stubs of procedure linkage tables and what they go to.
 *
 * A stub jumps through a word that the loader fills in; the relocation of that word has the name.
 */
#include "sym/code/code_private.h"

#include "base/cleanup.h"

#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SLOTS_MAX ((size_t)1 << 20)

/* A word that is filled in with the address of a function. */
struct slot {
    uint64_t address;
    const char *name;
};

struct tables {
    Elf *elf;
    uint64_t bytes; /* of the file */
    uint64_t left;  /* that may still be read: sections may lie over each other */
    HX_VEC(struct slot) slots;
};

static Elf_Data *section_data(struct tables *tables, Elf_Scn *section, GElf_Shdr *ret)
{
    if (!section || !gelf_getshdr(section, ret) || ret->sh_type == SHT_NOBITS ||
        ret->sh_size > tables->left || ret->sh_offset > tables->bytes ||
        ret->sh_size > tables->bytes - ret->sh_offset)
        return NULL;
    tables->left -= ret->sh_size;
    return elf_getdata(section, NULL);
}

static void read_slots(struct tables *tables, Elf_Scn *section)
{
    GElf_Shdr header, symbols_header, names_header;
    Elf_Data *data = section_data(tables, section, &header);
    Elf_Scn *symbols_section = data ? elf_getscn(tables->elf, header.sh_link) : NULL;
    Elf_Data *symbols = section_data(tables, symbols_section, &symbols_header);
    if (!symbols ||
        !section_data(tables, elf_getscn(tables->elf, symbols_header.sh_link), &names_header) ||
        data->d_type != ELF_T_RELA || symbols->d_type != ELF_T_SYM)
        return;
    size_t n = data->d_size / sizeof(Elf64_Rela);
    for (size_t i = 0; i < n && tables->slots.n < SLOTS_MAX; i++) {
        GElf_Rela rela;
        GElf_Sym symbol;
        if (!gelf_getrela(data, (int)i, &rela) ||
            (GELF_R_TYPE(rela.r_info) != R_X86_64_JUMP_SLOT &&
             GELF_R_TYPE(rela.r_info) != R_X86_64_GLOB_DAT) ||
            GELF_R_SYM(rela.r_info) >= symbols->d_size / sizeof(Elf64_Sym) ||
            !gelf_getsym(symbols, (int)GELF_R_SYM(rela.r_info), &symbol))
            continue;
        const char *name = elf_strptr(tables->elf, symbols_header.sh_link, symbol.st_name);
        if (name && *name && !hx_vec_push(&tables->slots, (struct slot){rela.r_offset, name}))
            return;
    }
}

static int compare_stub_addresses(const void *a, const void *b)
{
    const struct slot *x = a, *y = b;
    return x->address < y->address ? -1 : x->address > y->address;
}

static const char *slot_name(const struct tables *tables, uint64_t address)
{
    struct slot key = {.address = address};
    const struct slot *found = tables->slots.n ? bsearch(&key, tables->slots.v, tables->slots.n,
                                                         sizeof key, compare_stub_addresses)
                                               : NULL;
    return found ? found->name : NULL;
}

/* The word that a stub jumps through: jmp *disp(%rip), behind an endbr64 or bnd prefix or not. */
static bool decode_plt_stub(const uint8_t *code, size_t n, uint64_t vaddr, uint64_t *ret)
{
    static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
    size_t at = n >= 4 && memcmp(code, endbr64, 4) == 0 ? 4 : 0;
    if (at < n && code[at] == 0xf2)
        at++;
    int32_t displacement;
    if (at + 6 > n || code[at] != 0xff || code[at + 1] != 0x25)
        return false;
    memcpy(&displacement, code + at + 2, sizeof displacement);
    *ret = vaddr + at + 6 + (uint64_t)(int64_t)displacement;
    return true;
}

static void read_stubs(struct tables *tables, Elf_Scn *section,
                       void (*each)(void *, uint64_t, uint64_t, const char *), void *context)
{
    GElf_Shdr header;
    Elf_Data *data = section_data(tables, section, &header);
    size_t size = header.sh_entsize == 8 ? 8 : 16;
    for (size_t at = 0; data && data->d_buf && at + size <= data->d_size; at += size) {
        uint64_t word, vaddr = header.sh_addr + at;
        const char *name = decode_plt_stub((const uint8_t *)data->d_buf + at, size, vaddr, &word)
                               ? slot_name(tables, word)
                               : NULL;
        if (name)
            each(context, vaddr, size, name);
    }
}

static void each_section(struct tables *tables, bool stubs,
                         void (*each)(void *, uint64_t, uint64_t, const char *), void *context)
{
    size_t names;
    if (elf_getshdrstrndx(tables->elf, &names) < 0)
        return;
    for (Elf_Scn *section = NULL; (section = elf_nextscn(tables->elf, section));) {
        GElf_Shdr header;
        const char *name =
            gelf_getshdr(section, &header) ? elf_strptr(tables->elf, names, header.sh_name) : NULL;
        if (!stubs && header.sh_type == SHT_RELA && header.sh_flags & SHF_ALLOC)
            read_slots(tables, section);
        if (stubs && name && header.sh_flags & SHF_EXECINSTR && !strncmp(name, ".plt", 4))
            read_stubs(tables, section, each, context);
    }
}

static void scan_plt_sections(int fd, bool stubs,
                              void (*each)(void *context, uint64_t vaddr, uint64_t size,
                                           const char *name),
                              void *context)
{
    struct stat st;
    struct tables tables = {.elf = hx_elf_begin(fd), .left = HX_READ_TABLE};
    GElf_Ehdr header;
    if (tables.elf && fstat(fd, &st) == 0 && gelf_getehdr(tables.elf, &header) &&
        header.e_machine == EM_X86_64) {
        tables.bytes = (uint64_t)st.st_size;
        each_section(&tables, false, NULL, NULL);
        if (tables.slots.n)
            qsort(tables.slots.v, tables.slots.n, sizeof *tables.slots.v, compare_stub_addresses);
        for (size_t i = 0; !stubs && i < tables.slots.n; i++)
            each(context, tables.slots.v[i].address, 8, tables.slots.v[i].name);
        if (stubs)
            each_section(&tables, true, each, context);
    }
    hx_vec_free(&tables.slots);
    elf_end(tables.elf);
}

void hx_code_each_stub(int fd,
                       void (*each)(void *context, uint64_t vaddr, uint64_t size, const char *name),
                       void *context)
{
    scan_plt_sections(fd, true, each, context);
}

void hx_code_each_slot(int fd,
                       void (*each)(void *context, uint64_t vaddr, uint64_t size, const char *name),
                       void *context)
{
    scan_plt_sections(fd, false, each, context);
}
