/* code_tables.c - the debug information of a file, read into memory so that reading it is safe.
 *
 * It is read, not mapped: the owner of the file may cut it off at any moment. libdw trusts that
 * strings and numbers end within their section. So an ELF image is made of what is wanted of the
 * file: the tables, unpacked and each with zeros behind it, their names, and a header for each.
 */
#include "sym/code/code_private.h"

#include "base/cleanup.h"

#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#define SLACK ((size_t)64 << 10) /* zeros behind everything */
#define CHUNK ((size_t)1 << 20)  /* read, and unpacked, between two looks whether to end */

/* --- what is wanted ---------------------------------------------------------- */

/* A table on its way. In the image it is at header.sh_offset, with header.sh_size bytes. */
struct table {
    Elf64_Shdr header;
    uint64_t offset, size; /* in the file */
    bool packed;
};

struct tables {
    int fd;
    struct hx_reading *reading;
    HX_VEC(struct table) v;
    HX_VEC(char) names;
    uint64_t end; /* of the image */
};

static bool read_at(int fd, void *dst, size_t n, uint64_t offset)
{
    return offset <= INT64_MAX - n && pread(fd, dst, n, (off_t)offset) == (ssize_t)n;
}

/* Where the packed bytes begin, and how many they will be; the old way says so in its first bytes.
 * False: it is not packed in a way that is known. */
static bool look_inside(int fd, struct table *table, bool old_way)
{
    Elf64_Chdr packed;
    uint8_t gnu[12];
    uint64_t n = old_way ? sizeof gnu : sizeof packed;
    if (table->size < n || !read_at(fd, old_way ? (void *)gnu : &packed, n, table->offset) ||
        (old_way ? memcmp(gnu, "ZLIB", 4) != 0 : packed.ch_type != ELFCOMPRESS_ZLIB))
        return false;
    table->packed = true;
    table->offset += n;
    table->size -= n;
    table->header.sh_size = packed.ch_size;
    if (old_way) {
        memcpy(&table->header.sh_size, gnu + 4, sizeof table->header.sh_size);
        table->header.sh_size = __builtin_bswap64(table->header.sh_size);
    }
    return true;
}

bool hx_code_is_table(const struct hx_elf_section *section)
{
    return section->type != SHT_NOBITS && !(section->flags & SHF_ALLOC) && section->size &&
           (strncmp(section->name, ".debug_", 7) == 0 ||
            strncmp(section->name, ".zdebug_", 8) == 0);
}

static bool take_table(void *context, const struct hx_elf_section *section)
{
    struct tables *tables = context;
    bool old_way = strncmp(section->name, ".zdebug_", 8) == 0;
    if (tables->v.n == HX_CODE_TABLES_MAX)
        return false;
    if (!hx_code_is_table(section))
        return true;
    struct table table = {
        .header = {.sh_type = SHT_PROGBITS, .sh_size = section->size, .sh_addralign = 1},
        .offset = section->offset,
        .size = section->size};
    const char *name = section->name + old_way; /* what is unpacked has no 'z' */
    size_t n = strlen(name) + 1;
    bool packed = old_way || section->flags & SHF_COMPRESSED;
    if ((packed && !look_inside(tables->fd, &table, old_way) && !old_way) ||
        table.header.sh_size > HX_READ_DEBUG || tables->end > HX_READ_DEBUG + SLACK) {
        tables->end = UINT64_MAX;
        return false;
    }
    table.header.sh_name = (Elf64_Word)tables->names.n;
    table.header.sh_offset = tables->end;
    tables->end += (table.header.sh_size + SLACK + 15) & ~(uint64_t)15;
    if (!hx_vec_reserve(&tables->names, tables->names.n + n) || !hx_vec_push(&tables->v, table))
        return false;
    memcpy(tables->names.v + table.header.sh_name, name, n);
    tables->names.v[table.header.sh_name] = '.';
    tables->names.n += n;
    return true;
}

/* --- reading ----------------------------------------------------------------- */

static bool read_plain(const struct tables *tables, const struct table *table, uint8_t *dst)
{
    for (uint64_t at = 0; at < table->size;) {
        size_t n = table->size - at < CHUNK ? table->size - at : CHUNK;
        if (hx_reading_ended(tables->reading) ||
            !read_at(tables->fd, dst + at, n, table->offset + at))
            return false;
        at += n;
    }
    return true;
}

/* The unpacked bytes are as many as the section said, no more and no less. */
static bool unpack_all(const struct tables *tables, const struct table *table, uint8_t *dst,
                       z_stream *stream)
{
    HX_FREE uint8_t *chunk = malloc(CHUNK);
    uint64_t from = 0, to = 0;
    int state = chunk ? Z_OK : Z_MEM_ERROR;
    while (state == Z_OK && !hx_reading_ended(tables->reading)) {
        size_t n = table->size - from < CHUNK ? table->size - from : CHUNK;
        if (!stream->avail_in && n) {
            if (!read_at(tables->fd, chunk, n, table->offset + from))
                return false;
            from += n;
            stream->next_in = chunk;
            stream->avail_in = (uInt)n;
        }
        uint64_t left = table->header.sh_size - to;
        uInt room = left < CHUNK ? (uInt)left : (uInt)CHUNK;
        stream->next_out = dst + to;
        stream->avail_out = room;
        state = inflate(stream, Z_NO_FLUSH);
        to += room - stream->avail_out;
    }
    return state == Z_STREAM_END && to == table->header.sh_size;
}

static bool read_packed(const struct tables *tables, const struct table *table, uint8_t *dst)
{
    z_stream stream = {0};
    if (inflateInit(&stream) != Z_OK)
        return false;
    bool done = unpack_all(tables, table, dst, &stream);
    inflateEnd(&stream);
    return done;
}

/* libdw keeps something of each unit, and makes all up to one that is referred to. */
static bool has_few_units(const struct tables *tables, const uint8_t *bytes, uint64_t n)
{
    uint64_t at = 0;
    for (size_t units = 0; n - at > 12; units++) {
        uint32_t short_size;
        uint64_t size;
        memcpy(&short_size, bytes + at, sizeof short_size);
        memcpy(&size, bytes + at + sizeof short_size, sizeof size);
        at += short_size == UINT32_MAX ? 12 : 4;
        size = short_size == UINT32_MAX ? size : short_size;
        if (units == HX_READ_UNITS || (units % CHUNK == 0 && hx_reading_ended(tables->reading)))
            return false;
        if (size > n - at)
            break;
        at += size;
        if (n < at)
            break;
    }
    return true;
}

/* A part of a table is no use: what refers to it would be wrong. */
static bool read_tables(const struct tables *tables, struct hx_code_tables *ret)
{
    uint8_t *image = ret->image;
    for (size_t i = 0; i < tables->v.n; i++) {
        const struct table *table = &tables->v.v[i];
        uint8_t *dst = image + table->header.sh_offset;
        if (!(table->packed ? read_packed : read_plain)(tables, table, dst))
            return false;
        ret->bytes += table->header.sh_size;
        const char *name = tables->names.v + table->header.sh_name;
        if ((strcmp(name, ".debug_info") == 0 || strcmp(name, ".debug_types") == 0) &&
            !has_few_units(tables, dst, table->header.sh_size))
            return false;
        if (strcmp(name, ".debug_line") == 0) {
            ret->lines = dst;
            ret->n_lines = table->header.sh_size;
        }
    }
    return true;
}

/* --- the image --------------------------------------------------------------- */

/* Adds a table without bytes of the file; true when there is room for its header. */
static bool add_synthetic_table(struct tables *tables, uint32_t type, uint64_t size,
                                const char *name)
{
    size_t n = strlen(name) + 1;
    struct table own = {.header = {.sh_type = type,
                                   .sh_name = (Elf64_Word)tables->names.n,
                                   .sh_offset = tables->end,
                                   .sh_size = size,
                                   .sh_addralign = 1}};
    if (!hx_vec_reserve(&tables->names, tables->names.n + n) || !hx_vec_push(&tables->v, own))
        return false;
    memcpy(tables->names.v + tables->names.n, name, n);
    tables->names.n += n;
    return true;
}

/* Lays out what was found: the header, the tables, their names, the headers of sections. */
static bool make_image(struct tables *tables, struct hx_code_tables *ret)
{
    if (!add_synthetic_table(tables, SHT_STRTAB, 0, ".shstrtab"))
        return false;
    struct table *names = &tables->v.v[tables->v.n - 1];
    names->header.sh_size = tables->names.n;
    uint64_t headers = (tables->end + tables->names.n + 15) & ~(uint64_t)15;
    size_t n = tables->v.n;
    ret->image_bytes = headers + (n + 1) * sizeof(Elf64_Shdr) + SLACK;
    void *image = mmap(NULL, ret->image_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (image == MAP_FAILED)
        return false;
    ret->image = image;
    Elf64_Ehdr header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                         .e_type = ET_DYN,
                         .e_machine = EM_X86_64,
                         .e_version = EV_CURRENT,
                         .e_shoff = headers,
                         .e_ehsize = sizeof(Elf64_Ehdr),
                         .e_shentsize = sizeof(Elf64_Shdr),
                         .e_shnum = (Elf64_Half)(n + 1),
                         .e_shstrndx = (Elf64_Half)n};
    memcpy(image, &header, sizeof header);
    memcpy((char *)image + names->header.sh_offset, tables->names.v, tables->names.n);
    for (size_t i = 0; i < n; i++)
        memcpy((char *)image + headers + (i + 1) * sizeof(Elf64_Shdr), &tables->v.v[i].header,
               sizeof(Elf64_Shdr));
    tables->v.n--; /* the names are there */
    return true;
}

bool hx_code_tables_open(int fd, struct hx_reading *reading, const char *path,
                         struct hx_code_tables *ret)
{
    struct hx_code_tables made = {0};
    struct tables tables = {.fd = fd, .reading = reading, .end = SLACK};
    if (fd < 0 || elf_version(EV_CURRENT) == EV_NONE || !hx_vec_push(&tables.names, 0))
        return false;
    hx_error_free(hx_elf_each_section(fd, take_table, &tables));
    if (tables.end > HX_READ_DEBUG + (tables.v.n + 2) * (SLACK + 16))
        hx_reading_leave(reading, path,
                         "debug information that is larger than 2 GiB, or packed by zstd");
    else if (tables.v.n && make_image(&tables, &made)) {
        if (!read_tables(&tables, &made))
            hx_reading_leave(reading, path, "debug information that is cut off or packed wrongly");
        else if ((made.elf = elf_memory(made.image, made.image_bytes - SLACK)))
            made.dwarf = dwarf_begin_elf(made.elf, DWARF_C_READ, NULL);
    }
    hx_vec_free(&tables.v);
    hx_vec_free(&tables.names);
    if (!made.dwarf) {
        hx_code_tables_close(&made);
        return false;
    }
    *ret = made;
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
    if (tables->image)
        munmap(tables->image, tables->image_bytes);
    *tables = (struct hx_code_tables){0};
}
