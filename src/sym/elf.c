/* elf.c - program headers and symbol tables of a file that nobody vouches for. */
#include "sym/elf.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "sym/reading.h"

#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PAGE          4096
#define LOAD_MAX      256                 /* PT_LOAD headers; real files have 2 to 6 */
#define NAME_MAX_SEEN (16 * HX_TEXT_NAME) /* what follows tells no name from another one */
#define VERSYM_HIDDEN 0x8000
#define LISTEN_GAP    4096 /* symbols between two looks whether to end */

static void cleanup_elf(Elf **elf)
{
    elf_end(*elf);
}
#define ELF_GUARD HX_CLEANUP(cleanup_elf)

static hx_error *corrupt(const char *why)
{
    return hx_error_new(HX_E_CORRUPT, "ELF file", NULL, "%s", why);
}

/* Is what libelf makes a table of, or reads as a whole, no more than a file can need? */
static bool is_modest(int fd, const Elf64_Ehdr *header)
{
    Elf64_Shdr first = {0}, names = {0};
    if (header->e_shoff &&
        (header->e_shoff > INT64_MAX - HX_READ_TABLE || header->e_shentsize != sizeof first ||
         pread(fd, &first, sizeof first, (off_t)header->e_shoff) < 0))
        return false;
    uint64_t n = header->e_shnum ? header->e_shnum : first.sh_size;
    uint64_t n_segments = header->e_phnum == PN_XNUM ? first.sh_info : header->e_phnum;
    uint64_t i = header->e_shstrndx == SHN_XINDEX ? first.sh_link : header->e_shstrndx;
    if (n > HX_READ_SECTIONS || n_segments > HX_READ_SEGMENTS ||
        (i < n && pread(fd, &names, sizeof names, (off_t)(header->e_shoff + i * sizeof names)) < 0))
        return false;
    return names.sh_size <= HX_READ_NAMES;
}

Elf *hx_elf_begin(int fd)
{
    Elf64_Ehdr header;
    if (fd < 0 || elf_version(EV_CURRENT) == EV_NONE ||
        pread(fd, &header, sizeof header, 0) != sizeof header ||
        memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_ident[EI_DATA] != ELFDATA2LSB || !is_modest(fd, &header))
        return NULL;
    Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
    if (elf && elf_kind(elf) == ELF_K_ELF && gelf_getclass(elf) == ELFCLASS64)
        return elf;
    elf_end(elf);
    return NULL;
}

static hx_error *open_elf(int fd, Elf **ret, GElf_Ehdr *ret_header, uint64_t *ret_bytes)
{
    struct stat st;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return corrupt("not a regular file");
    ELF_GUARD Elf *elf = hx_elf_begin(fd);
    if (!elf)
        return corrupt("no 64-bit ELF header, or more sections than a program has");
    if (!gelf_getehdr(elf, ret_header) || ret_header->e_machine != EM_X86_64)
        return corrupt("of another architecture");
    *ret_bytes = (uint64_t)st.st_size;
    *ret = hx_steal(elf);
    return NULL;
}

static int by_vaddr(const void *a, const void *b)
{
    const struct hx_elf_segment *x = a, *y = b;
    return x->vaddr < y->vaddr ? -1 : x->vaddr > y->vaddr;
}

/* Keeps a PT_LOAD whose numbers hold together. */
static bool add_load(struct hx_elf_layout *layout, const GElf_Phdr *phdr)
{
    uint64_t end;
    if (!phdr->p_memsz || phdr->p_filesz > phdr->p_memsz ||
        __builtin_add_overflow(phdr->p_vaddr, phdr->p_memsz, &end) || end > UINT64_MAX - PAGE ||
        __builtin_add_overflow(phdr->p_offset, phdr->p_filesz, &end) || end > UINT64_MAX - PAGE ||
        (phdr->p_vaddr - phdr->p_offset) % PAGE != 0 || layout->load.n == LOAD_MAX)
        return true;
    return hx_vec_push(&layout->load, (struct hx_elf_segment){.vaddr = phdr->p_vaddr,
                                                              .memsz = phdr->p_memsz,
                                                              .offset = phdr->p_offset,
                                                              .filesz = phdr->p_filesz,
                                                              .flags = phdr->p_flags});
}

hx_error *hx_elf_layout(int fd, struct hx_elf_layout *ret)
{
    ELF_GUARD Elf *elf = NULL;
    GElf_Ehdr header;
    uint64_t bytes;
    HX_TRY(open_elf(fd, &elf, &header, &bytes));
    if (header.e_type != ET_EXEC && header.e_type != ET_DYN)
        return corrupt("neither program nor shared object");
    size_t n;
    if (elf_getphdrnum(elf, &n) < 0)
        return corrupt("no program headers");

    struct hx_elf_layout layout = {.fixed = header.e_type == ET_EXEC};
    for (size_t i = 0; i < n; i++) {
        GElf_Phdr phdr;
        if (!gelf_getphdr(elf, (int)i, &phdr))
            break;
        if (phdr.p_type == PT_GNU_RELRO && phdr.p_memsz <= UINT64_MAX - phdr.p_vaddr) {
            layout.relro_start = phdr.p_vaddr;
            layout.relro_end = phdr.p_vaddr + phdr.p_memsz;
        }
        if (phdr.p_type == PT_GNU_EH_FRAME && phdr.p_memsz <= UINT64_MAX - phdr.p_vaddr) {
            layout.unwind_start = phdr.p_vaddr;
            layout.unwind_size = phdr.p_memsz;
        }
        if (phdr.p_type == PT_TLS)
            layout.tls_bytes = phdr.p_memsz;
        if (phdr.p_type == PT_LOAD && !add_load(&layout, &phdr)) {
            hx_elf_layout_deinit(&layout);
            return hx_error_nomem();
        }
    }
    if (!layout.load.n)
        return corrupt("nothing to load");
    qsort(layout.load.v, layout.load.n, sizeof *layout.load.v, by_vaddr);
    *ret = layout;
    return NULL;
}

void hx_elf_layout_deinit(struct hx_elf_layout *layout)
{
    hx_vec_free(&layout->load);
}

/* The bytes of a section that lies in the file and is not absurdly large. */
static Elf_Data *table_data(Elf_Scn *section, const GElf_Shdr *header, uint64_t file_bytes)
{
    if (header->sh_size > HX_READ_TABLE || header->sh_offset > file_bytes ||
        header->sh_size > file_bytes - header->sh_offset || header->sh_flags & SHF_COMPRESSED)
        return NULL;
    Elf_Data *data = elf_getdata(section, NULL);
    return data && data->d_buf && data->d_size ? data : NULL;
}

static Elf_Scn *find_table(Elf *elf, uint32_t type, GElf_Shdr *ret)
{
    Elf_Scn *section = NULL;
    for (size_t i = 0; i < HX_READ_SECTIONS && (section = elf_nextscn(elf, section)); i++)
        if (gelf_getshdr(section, ret) && ret->sh_type == type)
            return section;
    return NULL;
}

/* The bare name at `offset` of a string table; 0 when there is none. *ret_old: its version is not
 * the default one (NAME@VERSION, not NAME@@VERSION). */
static size_t bare_name(const Elf_Data *strings, uint64_t offset, const char **ret, bool *ret_old)
{
    if (offset >= strings->d_size)
        return 0;
    size_t room = strings->d_size - offset;
    const char *name = (const char *)strings->d_buf + offset;
    size_t len = strnlen(name, room < NAME_MAX_SEEN ? room : NAME_MAX_SEEN);
    const char *version = len ? memchr(name + 1, '@', len - 1) : NULL;
    *ret = name;
    *ret_old = version && !(version + 1 < name + len && version[1] == '@');
    return version ? (size_t)(version - name) : len;
}

/* The versions of the dynamic symbols; NULL when there are none. */
static Elf_Data *find_versions(Elf *elf, Elf_Scn *table, uint64_t file_bytes)
{
    GElf_Shdr header;
    Elf_Scn *section = find_table(elf, SHT_GNU_versym, &header);
    Elf_Data *data = section && header.sh_link == elf_ndxscn(table)
                         ? table_data(section, &header, file_bytes)
                         : NULL;
    return data && data->d_type == ELF_T_HALF ? data : NULL;
}

/* Puts down what is known of the section that a symbol lies in. */
static void put_section(Elf *elf, const GElf_Sym *sym, struct hx_elf_symbol *symbol)
{
    GElf_Shdr header;
    Elf_Scn *section = sym->st_shndx < SHN_LORESERVE ? elf_getscn(elf, sym->st_shndx) : NULL;
    symbol->section_end = symbol->section_flags = 0;
    if (section && gelf_getshdr(section, &header) &&
        header.sh_size <= UINT64_MAX - header.sh_addr) {
        symbol->section_end = header.sh_addr + header.sh_size;
        symbol->section_flags = header.sh_flags;
    }
}

hx_error *hx_elf_each_symbol(int fd, struct hx_reading *reading, uint32_t section_type,
                             bool (*each)(void *context, const struct hx_elf_symbol *symbol),
                             void *context)
{
    HX_CLEANUP(hx_text_free) struct hx_text bounded = {0};
    ELF_GUARD Elf *elf = NULL;
    GElf_Ehdr header;
    uint64_t bytes;
    /* libelf reads all of a table before it gives the first symbol */
    if (hx_reading_ended(reading))
        return hx_error_cancelled("symbols");
    HX_TRY(open_elf(fd, &elf, &header, &bytes));
    GElf_Shdr table_header, string_header;
    Elf_Scn *table = find_table(elf, section_type, &table_header);
    if (!table)
        return NULL;
    Elf_Scn *string_section = elf_getscn(elf, table_header.sh_link);
    if (!string_section || !gelf_getshdr(string_section, &string_header) ||
        string_header.sh_type != SHT_STRTAB)
        return corrupt("symbol table without names");
    Elf_Data *symbols = table_data(table, &table_header, bytes);
    Elf_Data *strings = table_data(string_section, &string_header, bytes);
    if (!symbols || !strings || symbols->d_type != ELF_T_SYM)
        return corrupt("symbol table outside the file");

    Elf_Data *versions = section_type == SHT_DYNSYM ? find_versions(elf, table, bytes) : NULL;
    size_t n = symbols->d_size / sizeof(Elf64_Sym);
    for (size_t i = 1; i < n; i++) {
        GElf_Sym sym;
        struct hx_elf_symbol symbol;
        if (i % LISTEN_GAP == 0 && hx_reading_ended(reading))
            return hx_error_cancelled("symbols");
        if (!gelf_getsym(symbols, (int)i, &sym))
            break;
        if (sym.st_shndx == SHN_UNDEF || sym.st_shndx == SHN_ABS ||
            !(symbol.name_len = bare_name(strings, sym.st_name, &symbol.name, &symbol.old_version)))
            continue;
        if (symbol.name_len > HX_TEXT_NAME) {
            hx_text_clear(&bounded);
            hx_text_name(&bounded, symbol.name, symbol.name_len);
            HX_NEED(!bounded.failed);
            symbol.name = bounded.s;
            symbol.name_len = bounded.n;
        }
        GElf_Versym version;
        if (versions && gelf_getversym(versions, (int)i, &version))
            symbol.old_version = (version & VERSYM_HIDDEN) != 0;
        put_section(elf, &sym, &symbol);
        symbol.value = sym.st_value;
        symbol.size = sym.st_size;
        symbol.type = GELF_ST_TYPE(sym.st_info);
        symbol.bind = GELF_ST_BIND(sym.st_info);
        if (!each(context, &symbol))
            break;
    }
    return NULL;
}

hx_error *hx_elf_each_section(int fd,
                              bool (*each)(void *context, const struct hx_elf_section *section),
                              void *context)
{
    ELF_GUARD Elf *elf = NULL;
    GElf_Ehdr header;
    uint64_t bytes;
    size_t names;
    HX_TRY(open_elf(fd, &elf, &header, &bytes));
    if (elf_getshdrstrndx(elf, &names) < 0)
        return corrupt("no names of sections");
    Elf_Scn *scn = NULL;
    for (size_t i = 0; i < HX_READ_SECTIONS && (scn = elf_nextscn(elf, scn)); i++) {
        GElf_Shdr shdr;
        const char *name = gelf_getshdr(scn, &shdr) ? elf_strptr(elf, names, shdr.sh_name) : NULL;
        if (!name)
            continue;
        struct hx_elf_section section = {.name = name,
                                         .vaddr = shdr.sh_addr,
                                         .size = shdr.sh_size,
                                         .offset = shdr.sh_offset,
                                         .flags = shdr.sh_flags,
                                         .align = shdr.sh_addralign,
                                         .type = shdr.sh_type};
        if (!each(context, &section))
            break;
    }
    return NULL;
}

/* The notes of one segment; false when each() has enough. */
static bool each_note(const uint8_t *bytes, uint64_t n, uint64_t align, uint64_t vaddr,
                      bool (*each)(void *context, const struct hx_elf_note *note), void *context)
{
    for (uint64_t at = 0; n - at >= sizeof(Elf64_Nhdr);) {
        Elf64_Nhdr header;
        memcpy(&header, bytes + at, sizeof header);
        uint64_t owner = at + sizeof header;
        /* both lengths have 32 bits: nothing here overflows */
        uint64_t desc = (owner + header.n_namesz + align - 1) / align * align;
        if (desc > n || header.n_descsz > n - desc)
            return true;
        struct hx_elf_note note = {.owner = (const char *)bytes + owner,
                                   .owner_len =
                                       strnlen((const char *)bytes + owner, header.n_namesz),
                                   .type = header.n_type,
                                   .desc = bytes + desc,
                                   .desc_len = header.n_descsz,
                                   .vaddr = vaddr + desc};
        if (!each(context, &note))
            return false;
        at = (desc + header.n_descsz + align - 1) / align * align;
        if (at > n)
            return true;
    }
    return true;
}

/* Notes of one file on their way. Segments and sections may lie over each other: `left` counts. */
struct notes {
    int fd;
    uint64_t file_bytes, left;
    bool (*each)(void *context, const struct hx_elf_note *note);
    void *context;
    bool nomem;
};

/* False: it is enough. */
static bool read_notes(struct notes *notes, uint64_t offset, uint64_t size, uint64_t align,
                       uint64_t vaddr)
{
    if (size > notes->left || offset > notes->file_bytes || size > notes->file_bytes - offset)
        return true;
    notes->left -= size;
    HX_FREE uint8_t *bytes = malloc(size + 1);
    notes->nomem = !bytes;
    return bytes &&
           (pread(notes->fd, bytes, size, (off_t)offset) != (ssize_t)size ||
            each_note(bytes, size, align == 8 ? 8 : 4, vaddr, notes->each, notes->context));
}

hx_error *hx_elf_each_note(int fd, bool (*each)(void *context, const struct hx_elf_note *note),
                           void *context)
{
    ELF_GUARD Elf *elf = NULL;
    GElf_Ehdr header;
    size_t n;
    struct notes notes = {.fd = fd, .left = HX_READ_NOTES, .each = each, .context = context};
    HX_TRY(open_elf(fd, &elf, &header, &notes.file_bytes));
    if (elf_getphdrnum(elf, &n) < 0)
        return corrupt("no program headers");
    for (size_t i = 0; i < n; i++) {
        GElf_Phdr phdr;
        if (!gelf_getphdr(elf, (int)i, &phdr) ||
            (phdr.p_type == PT_NOTE &&
             !read_notes(&notes, phdr.p_offset, phdr.p_filesz, phdr.p_align, phdr.p_vaddr)))
            break;
    }
    return notes.nomem ? hx_error_nomem() : NULL;
}

static bool take_notes(void *context, const struct hx_elf_section *section)
{
    return section->type != SHT_NOTE ||
           read_notes(context, section->offset, section->size, section->align, section->vaddr);
}

hx_error *hx_elf_each_section_note(int fd,
                                   bool (*each)(void *context, const struct hx_elf_note *note),
                                   void *context)
{
    struct notes notes = {
        .fd = fd, .file_bytes = INT64_MAX, .left = HX_READ_NOTES, .each = each, .context = context};
    HX_TRY(hx_elf_each_section(fd, take_notes, &notes));
    return notes.nomem ? hx_error_nomem() : NULL;
}
