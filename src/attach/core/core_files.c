/* core_files.c - the files that a core's process had mapped, as they lie here.
 *
 * A file is taken only when its build id is the one that the process had in memory; one without a
 * build id, when its first page is the same.
 */
#include "attach/core/core_private.h"

#include "base/cleanup.h"
#include "sym/elf.h"
#include "sym/module.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What tells one build of a file from another. */
struct identity {
    bool readable; /* the first page of the file is there */
    size_t bytes;  /* of the build id; 0: it has none */
    uint8_t id[HX_CORE_BUILD_ID];
    uint8_t page[HX_CORE_PAGE];
};

/* --- in the core --------------------------------------------------------------------------- */

size_t hx_core_phdrs(const hx_core *core, uint64_t base, Elf64_Phdr ret[HX_CORE_PHDRS_MAX],
                     uint64_t *ret_bias)
{
    Elf64_Ehdr header;
    if (!hx_core_memory(core, base, &header, sizeof header) ||
        memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_phentsize != sizeof *ret || header.e_phnum > HX_CORE_PHDRS_MAX ||
        header.e_phoff > HX_CORE_PAGE * 16 ||
        !hx_core_memory(core, base + header.e_phoff, ret, header.e_phnum * sizeof *ret))
        return 0;
    for (size_t i = 0; i < header.e_phnum; i++)
        if (ret[i].p_type == PT_LOAD && ret[i].p_offset < HX_CORE_PAGE) {
            *ret_bias = base - (ret[i].p_vaddr - ret[i].p_offset);
            return header.e_phnum;
        }
    return 0;
}

/* Looks through notes of `bytes` bytes in memory for the build id. */
static bool find_build_id(const hx_core *core, uint64_t at, uint64_t bytes,
                          struct identity *identity)
{
    enum { NOTES = 64 };
    for (int i = 0; i < NOTES && bytes >= sizeof(Elf64_Nhdr); i++) {
        Elf64_Nhdr note;
        char owner[4];
        if (!hx_core_memory(core, at, &note, sizeof note))
            return false;
        uint64_t name = ((uint64_t)note.n_namesz + 3) & ~(uint64_t)3;
        uint64_t desc = ((uint64_t)note.n_descsz + 3) & ~(uint64_t)3;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof owner && note.n_descsz &&
            note.n_descsz <= sizeof identity->id &&
            hx_core_memory(core, at + sizeof note, owner, sizeof owner) &&
            memcmp(owner, "GNU", sizeof owner) == 0 &&
            hx_core_memory(core, at + sizeof note + name, identity->id, note.n_descsz)) {
            identity->bytes = note.n_descsz;
            return true;
        }
        uint64_t step = sizeof note + name + desc;
        if (step > bytes)
            return false;
        at += step;
        bytes -= step;
    }
    return false;
}

static void identify_memory(const hx_core *core, uint64_t base, struct identity *ret)
{
    Elf64_Phdr phdr[HX_CORE_PHDRS_MAX];
    uint64_t bias;
    memset(ret, 0, sizeof *ret);
    if (!base || !hx_core_memory(core, base, ret->page, sizeof ret->page))
        return;
    ret->readable = true;
    size_t n = hx_core_phdrs(core, base, phdr, &bias);
    for (size_t i = 0; i < n; i++)
        if (phdr[i].p_type == PT_NOTE &&
            find_build_id(core, bias + phdr[i].p_vaddr, phdr[i].p_memsz, ret))
            return;
}

/* --- here ---------------------------------------------------------------------------------- */

static bool take_core_build_id(void *context, const struct hx_elf_note *note)
{
    struct identity *identity = context;
    if (note->type != NT_GNU_BUILD_ID || note->owner_len != 3 || memcmp(note->owner, "GNU", 3) ||
        !note->desc_len || note->desc_len > sizeof identity->id)
        return true;
    identity->bytes = note->desc_len;
    memcpy(identity->id, note->desc, note->desc_len);
    return false;
}

/* False: there is no such file. */
static bool identify_file(const char *path, struct identity *ret)
{
    struct stat st;
    HX_FD int fd = hx_module_open_regular(path, &st);
    memset(ret, 0, sizeof *ret);
    if (fd < 0)
        return false;
    ret->readable = pread(fd, ret->page, sizeof ret->page, 0) > 0;
    hx_error_free(hx_elf_each_note(fd, take_core_build_id, ret));
    return true;
}

static bool is_same_build(const struct identity *memory, const struct identity *file)
{
    if (!memory->readable || !file->readable || memory->bytes != file->bytes)
        return false;
    return memory->bytes ? memcmp(memory->id, file->id, memory->bytes) == 0
                         : memcmp(memory->page, file->page, sizeof memory->page) == 0;
}

static hx_error *join_path(const char *folder, const char *path, char **ret)
{
    struct hx_text text = {0};
    hx_text_putf(&text, "%s%s", folder ? folder : "", path);
    if (text.failed) {
        hx_text_free(&text);
        return hx_error_nomem();
    }
    *ret = text.s;
    return NULL;
}

static hx_error *set_local(struct hx_core_name *name, const char *local)
{
    name->local = strdup(local);
    return name->local ? NULL : hx_error_nomem();
}

/* --exe is what the user says, but not what another program is. */
static hx_error *take_exe(const hx_core *core, struct hx_core_name *name,
                          const struct identity *memory)
{
    struct identity file;
    if (!identify_file(core->exe, &file))
        return hx_error_os(errno ? errno : ENOENT, core->exe, "open");
    if (memory->readable && !is_same_build(memory, &file))
        return hx_error_new(HX_E_USAGE, core->exe, "leave --exe out, or name the right one",
                            "is not the program of the core, which was %s: another build id",
                            name->path);
    return set_local(name, core->exe);
}

static hx_error *find_local_file(const hx_core *core, struct hx_core_name *name)
{
    struct identity memory, file;
    HX_FREE char *path = NULL;
    identify_memory(core, name->base, &memory);
    if (name->is_exe && core->exe)
        return take_exe(core, name, &memory);
    HX_TRY(join_path(core->sysroot, name->path, &path));
    if (!identify_file(path, &file) || !is_same_build(&memory, &file))
        return set_local(name, "");
    return set_local(name, path);
}

/* Where each file begins in memory, and which one is the program. */
static void place_names(hx_core *core)
{
    uint64_t in_exe = core->phdr ? core->phdr : core->entry;
    for (size_t i = 0; i < core->files.n; i++) {
        const struct hx_core_file *file = &core->files.v[i];
        struct hx_core_name *name = &core->names.v[file->name];
        char magic[SELFMAG];
        name->is_exe |= in_exe && in_exe >= file->start && in_exe < file->end;
        if (name->base || file->offset)
            continue;
        name->base = file->start;
        name->is_elf = hx_core_memory(core, file->start, magic, sizeof magic) &&
                       memcmp(magic, ELFMAG, sizeof magic) == 0;
    }
}

/* The files of the load segments of a program that is mapped at base. */
static hx_error *add_program(hx_core *core, uint64_t base)
{
    Elf64_Phdr phdr[HX_CORE_PHDRS_MAX];
    const uint64_t page = HX_CORE_PAGE;
    uint64_t bias, done = 0;
    struct hx_core_name name = {.path = realpath(core->exe, NULL), .is_exe = true};
    if (!name.path || !hx_vec_push(&core->names, name)) {
        free(name.path);
        return hx_error_nomem();
    }
    size_t n = hx_core_phdrs(core, base, phdr, &bias);
    for (size_t i = 0; i < n; i++) {
        struct hx_core_file file = {.start = (bias + phdr[i].p_vaddr) & ~(page - 1),
                                    .offset = phdr[i].p_offset & ~(page - 1)};
        file.end = (bias + phdr[i].p_vaddr + phdr[i].p_filesz + page - 1) & ~(page - 1);
        if (phdr[i].p_type != PT_LOAD || file.start < done || file.end <= file.start ||
            file.offset > INT64_MAX - (file.end - file.start))
            continue;
        done = file.end;
        HX_NEED(hx_vec_push(&core->files, file));
    }
    return NULL;
}

/* A core that does not say which files were mapped (cut short) may have the first page of the
 * program all the same. */
static hx_error *search_program(hx_core *core)
{
    struct identity memory, file;
    if (!identify_file(core->exe, &file))
        return NULL; /* told later */
    for (size_t i = 0; i < core->segments.n; i++) {
        uint64_t base = core->segments.v[i].start;
        char magic[SELFMAG];
        if (!hx_core_memory(core, base, magic, sizeof magic) || memcmp(magic, ELFMAG, SELFMAG) != 0)
            continue;
        identify_memory(core, base, &memory);
        if (is_same_build(&memory, &file))
            return add_program(core, base);
    }
    return NULL;
}

hx_error *hx_core_find_files(hx_core *core)
{
    bool has_exe = false;
    if (core->exe && !core->files.n)
        HX_TRY(search_program(core));
    place_names(core);
    for (size_t i = 0; i < core->names.n; i++) {
        struct hx_core_name *name = &core->names.v[i];
        has_exe |= name->is_exe;
        HX_TRY(name->path[0] == '/' ? find_local_file(core, name) : set_local(name, ""));
    }
    if (core->exe && !has_exe && access(core->exe, R_OK) != 0)
        return hx_error_os(errno, core->exe, "open");
    return NULL;
}
