/* code_tables.c - the debug information of a file, read into memory so that reading it is safe.
 *
 * It is read, not mapped: the owner of the file may cut it off at any moment. libdw trusts that
 * strings and numbers end within their section, so that all sections lie in one image of the file
 * with zeros behind it, and what has to be unpacked gets zeros behind it too.
 */
#include "sym/code_private.h"

#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define BYTES_MAX    ((uint64_t)2 << 30)  /* of all tables together */
#define IMAGE_MAX    ((uint64_t)64 << 30) /* address space; only what is read takes memory */
#define SECTIONS_MAX ((uint64_t)1 << 20)
#define SLACK        ((size_t)64 << 10) /* zeros behind everything */

/* --- the image --------------------------------------------------------------- */

/* Reads a part of the file to its place in the image. */
static bool read_part(int fd, struct hx_code_tables *tables, uint64_t offset, uint64_t size)
{
    uint64_t bytes = tables->image_bytes - SLACK;
    if (offset > bytes || size > bytes - offset)
        return false;
    for (uint64_t at = 0; at < size;) {
        ssize_t n = pread(fd, (char *)tables->image + offset + at, size - at, (off_t)(offset + at));
        if (n <= 0)
            return false;
        at += (uint64_t)n;
    }
    return true;
}

/* Reads the tables and names of sections: what is not loaded, symbols left out. */
static bool read_sections(int fd, struct hx_code_tables *tables, const Elf64_Ehdr *header,
                          uint64_t n)
{
    uint64_t left = BYTES_MAX;
    for (uint64_t i = 1; i < n; i++) {
        Elf64_Shdr section;
        memcpy(&section, (char *)tables->image + header->e_shoff + i * sizeof section,
               sizeof section);
        bool wanted = !(section.sh_flags & SHF_ALLOC) && section.sh_type != SHT_NOBITS &&
                      section.sh_type != SHT_SYMTAB &&
                      (section.sh_type != SHT_STRTAB || i == header->e_shstrndx ||
                       header->e_shstrndx == SHN_XINDEX);
        if (!wanted || !section.sh_size)
            continue;
        if (section.sh_size > left)
            return false;
        left -= section.sh_size;
        read_part(fd, tables, section.sh_offset, section.sh_size);
    }
    return true;
}

static bool read_image(int fd, struct hx_code_tables *tables)
{
    struct stat st;
    Elf64_Ehdr header;
    if (fstat(fd, &st) < 0 || st.st_size < (off_t)sizeof header ||
        (uint64_t)st.st_size > IMAGE_MAX || pread(fd, &header, sizeof header, 0) != sizeof header ||
        memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_machine != EM_X86_64 ||
        header.e_shentsize != sizeof(Elf64_Shdr))
        return false;
    size_t bytes = (size_t)st.st_size + SLACK;
    void *image = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (image == MAP_FAILED)
        return false;
    tables->image = image;
    tables->image_bytes = bytes;
    Elf64_Shdr first;
    if (!read_part(fd, tables, 0, sizeof header) ||
        !read_part(fd, tables, header.e_shoff, sizeof first))
        return false;
    memcpy(&header, image, sizeof header); /* what counts from now on */
    if (header.e_shoff > (uint64_t)st.st_size - sizeof first)
        return false;
    memcpy(&first, (char *)image + header.e_shoff, sizeof first);
    uint64_t n = header.e_shnum ? header.e_shnum : first.sh_size;
    return n <= SECTIONS_MAX && read_part(fd, tables, header.e_shoff, n * sizeof first) &&
           read_sections(fd, tables, &header, n);
}

/* --- unpacking --------------------------------------------------------------- */

/* Puts the bytes of a section that libelf unpacked where zeros follow. */
static bool move_unpacked(struct hx_code_tables *tables, Elf_Scn *section)
{
    Elf_Data *data = elf_getdata(section, NULL);
    if (!data || !data->d_buf)
        return true;
    char *copy = calloc(1, data->d_size + SLACK);
    if (!copy || !hx_vec_push(&tables->unpacked, copy)) {
        free(copy);
        return false;
    }
    memcpy(copy, data->d_buf, data->d_size);
    data->d_buf = copy;
    return true;
}

/* How much a section has when it is unpacked; the old way says so in its first bytes. */
static uint64_t unpacked_size(Elf_Scn *section, const GElf_Shdr *header, bool *ret_gnu)
{
    GElf_Chdr packed;
    *ret_gnu = false;
    if (header->sh_flags & SHF_COMPRESSED)
        return gelf_getchdr(section, &packed) ? packed.ch_size : UINT64_MAX;
    const Elf_Data *data = elf_rawdata(section, NULL);
    if (!data || !data->d_buf || data->d_size < 12 || memcmp(data->d_buf, "ZLIB", 4) != 0)
        return header->sh_size;
    uint64_t size;
    memcpy(&size, (const char *)data->d_buf + 4, sizeof size);
    *ret_gnu = true;
    return __builtin_bswap64(size);
}

/* Sums up the tables, and unpacks those that need it. */
static bool unpack(struct hx_code_tables *tables)
{
    size_t names;
    if (elf_getshdrstrndx(tables->elf, &names) < 0)
        return false;
    for (Elf_Scn *section = NULL; (section = elf_nextscn(tables->elf, section));) {
        GElf_Shdr header;
        const char *name =
            gelf_getshdr(section, &header) ? elf_strptr(tables->elf, names, header.sh_name) : NULL;
        bool old_way = name && strncmp(name, ".zdebug", 7) == 0;
        if (!name || header.sh_type == SHT_NOBITS || header.sh_flags & SHF_ALLOC ||
            (!old_way && strncmp(name, ".debug", 6) != 0))
            continue;
        bool gnu;
        uint64_t size = unpacked_size(section, &header, &gnu);
        if (size > BYTES_MAX - tables->bytes)
            return false;
        tables->bytes += size;
        bool packed = header.sh_flags & SHF_COMPRESSED;
        if (packed && (elf_compress(section, 0, 0) < 0 || !move_unpacked(tables, section)))
            return false;
        if (old_way && gnu &&
            (elf_compress_gnu(section, 0, 0) < 0 || !move_unpacked(tables, section)))
            return false;
    }
    return tables->bytes > 0;
}

bool hx_code_tables_open(int fd, struct hx_code_tables *ret)
{
    struct hx_code_tables tables = {0};
    if (fd < 0 || elf_version(EV_CURRENT) == EV_NONE)
        return false;
    if (read_image(fd, &tables) &&
        (tables.elf = elf_memory(tables.image, tables.image_bytes - SLACK)) &&
        elf_kind(tables.elf) == ELF_K_ELF && unpack(&tables))
        tables.dwarf = dwarf_begin_elf(tables.elf, DWARF_C_READ, NULL);
    if (!tables.dwarf) {
        hx_code_tables_close(&tables);
        return false;
    }
    *ret = tables;
    return true;
}

/* An ELF file with nothing but an empty .debug_str. */
struct nothing {
    Elf64_Ehdr header;
    char names[32];
    Elf64_Shdr section[3];
};

bool hx_code_tables_none(struct hx_code_tables *ret)
{
    static const struct nothing nothing = {
        .header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                   .e_type = ET_DYN,
                   .e_machine = EM_X86_64,
                   .e_version = EV_CURRENT,
                   .e_shoff = offsetof(struct nothing, section),
                   .e_ehsize = sizeof(Elf64_Ehdr),
                   .e_shentsize = sizeof(Elf64_Shdr),
                   .e_shnum = 3,
                   .e_shstrndx = 1},
        .names = "\0.shstrtab\0.debug_str",
        .section = {{0},
                    {.sh_name = 1,
                     .sh_type = SHT_STRTAB,
                     .sh_offset = offsetof(struct nothing, names),
                     .sh_size = sizeof(((struct nothing *)0)->names),
                     .sh_addralign = 1},
                    {.sh_name = 11,
                     .sh_type = SHT_PROGBITS,
                     .sh_offset = offsetof(struct nothing, names),
                     .sh_size = 1,
                     .sh_addralign = 1}}};
    struct hx_code_tables tables = {.elf = elf_memory((char *)(uintptr_t)&nothing, sizeof nothing)};
    tables.dwarf = tables.elf ? dwarf_begin_elf(tables.elf, DWARF_C_READ, NULL) : NULL;
    if (!tables.dwarf) {
        hx_code_tables_close(&tables);
        return false;
    }
    *ret = tables;
    return true;
}

void hx_code_tables_close(struct hx_code_tables *tables)
{
    dwarf_end(tables->dwarf);
    elf_end(tables->elf);
    for (size_t i = 0; i < tables->unpacked.n; i++)
        free(tables->unpacked.v[i]);
    hx_vec_free(&tables->unpacked);
    if (tables->image)
        munmap(tables->image, tables->image_bytes);
    *tables = (struct hx_code_tables){0};
}
