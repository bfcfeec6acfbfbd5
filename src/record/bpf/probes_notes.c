/* probes_notes.c - where a file marks regions and deferred work: its notes of static probes.
 *
 * heapx/scc.h leaves a note for each operation in the section .note.stapsdt, as all static probes
 * do: owner "stapsdt", type 3; three words (the probe, the section .stapsdt.base as it was linked,
 * the semaphore), then provider, name and arguments, each ended by a zero byte. Whoever listens to
 * a probe has the kernel raise the semaphore, by which the program knows. Notes that do not say
 * exactly what the header says are nobody's, and are counted.
 */
#include "record/bpf/probes_find.h"

#include "base/cleanup.h"
#include "record/bpf/probes.bpf.h"
#include "sym/elf.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *name;
    uint32_t kind;
} operations[] = {
    {"push", HX_PROBE_PUSH},   {"pop", HX_PROBE_POP},     {"capture", HX_PROBE_CAPTURE},
    {"enter", HX_PROBE_ENTER}, {"leave", HX_PROBE_LEAVE},
};

/* Bytes of notes that are looked at, sections of them, and probes of one file: a linker leaves one
 * section, and one probe for each operation. */
enum { most_bytes = 4 << 20, most_sections = 8, most_probes = 64 };

enum { note_type = 3, note_words = 3 };
enum { module_bytes = 24 }; /* of struct heapx_scc_module */

struct notes {
    hx_code *code;
    uint32_t file;
    int fd;
    struct hx_elf_layout layout;
    struct {
        uint64_t offset, size;
    } section[most_sections];
    size_t n_sections, first; /* the file's probes begin at `first` */
    uint64_t base;            /* of .stapsdt.base; 0: there is none */
    struct hx_probe_functions *ret;
    uint64_t odd;
};

static bool note_section(void *context, const struct hx_elf_section *section)
{
    struct notes *notes = context;
    if (section->type == SHT_NOTE && !strcmp(section->name, ".note.stapsdt") &&
        notes->n_sections < most_sections) {
        notes->section[notes->n_sections].offset = section->offset;
        notes->section[notes->n_sections++].size = section->size;
    } else if (section->type == SHT_PROGBITS && !strcmp(section->name, ".stapsdt.base")) {
        notes->base = section->vaddr;
    }
    return true;
}

/* The place in the file of `len` bytes that have these flags in memory. */
static bool file_offset(const struct notes *notes, uint64_t vaddr, uint64_t len, uint32_t flags,
                        uint64_t *ret)
{
    for (size_t i = 0; i < notes->layout.load.n; i++) {
        const struct hx_elf_segment *load = &notes->layout.load.v[i];
        uint64_t at = vaddr - load->vaddr;
        if (vaddr < load->vaddr || at >= load->filesz || load->filesz - at < len)
            continue;
        *ret = load->offset + at;
        return (load->flags & flags) == flags;
    }
    return false;
}

/* A breakpoint elsewhere than on a whole instruction that does nothing would harm the program. */
static bool is_nop(int fd, uint64_t offset)
{
    static const uint8_t short_nop[] = {0x90}, long_nop[] = {0x0f, 0x1f, 0x44, 0x00, 0x00};
    uint8_t bytes[sizeof long_nop] = {0};
    ssize_t n = pread(fd, bytes, sizeof bytes, (off_t)offset);
    return (n >= 1 && !memcmp(bytes, short_nop, sizeof short_nop)) ||
           (n == sizeof bytes && !memcmp(bytes, long_nop, sizeof long_nop));
}

/* The kernel counts in the program's memory: only where it is as the header leaves it, all zero. */
static bool has_zero_semaphore(int fd, uint64_t offset)
{
    static const uint8_t zero[module_bytes];
    uint8_t bytes[module_bytes];
    return pread(fd, bytes, sizeof bytes, (off_t)offset) == sizeof bytes &&
           !memcmp(bytes, zero, sizeof bytes);
}

/* The next of the texts at the end of a note; NULL: it is not ended. */
static const char *next_note_text(const char **at, const char *end)
{
    const char *text = *at;
    const char *zero = text < end ? memchr(text, 0, (size_t)(end - text)) : NULL;
    if (!zero)
        return NULL;
    *at = zero + 1;
    return text;
}

static const char *own_name(uint32_t kind)
{
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
        if (operations[i].kind == kind)
            return operations[i].name;
    return "";
}

/* Two probes on one instruction the kernel takes only with one semaphore. */
static bool shares_instruction(const struct notes *notes, uint64_t offset)
{
    for (size_t i = notes->first; i < notes->ret->n; i++)
        if (notes->ret->v[i].offset == offset)
            return true;
    return false;
}

static hx_error *add_probe(struct notes *notes, uint32_t kind, const uint64_t *word)
{
    uint64_t moved = notes->base ? notes->base - word[1] : 0;
    struct hx_probe_function probe = {
        .file = notes->file, .name = own_name(kind), .kind = kind, .vaddr = word[0] + moved};
    if (notes->ret->n - notes->first >= most_probes ||
        !file_offset(notes, probe.vaddr, 1, PF_X, &probe.offset) ||
        !is_nop(notes->fd, probe.offset) || !word[2] ||
        !file_offset(notes, word[2] + moved, module_bytes, PF_W, &probe.semaphore) ||
        probe.semaphore & 1 || !has_zero_semaphore(notes->fd, probe.semaphore) ||
        shares_instruction(notes, probe.offset)) {
        notes->odd++;
        return NULL;
    }
    return hx_vec_push(notes->ret, probe) ? NULL : hx_error_nomem();
}

static hx_error *read_probe_note(struct notes *notes, const uint8_t *desc, size_t len)
{
    uint64_t word[note_words];
    if (len <= sizeof word)
        return NULL;
    memcpy(word, desc, sizeof word);
    const char *at = (const char *)desc + sizeof word, *end = (const char *)desc + len;
    const char *provider = next_note_text(&at, end);
    if (!provider || strcmp(provider, "heapx") != 0)
        return NULL;
    const char *name = next_note_text(&at, end),
               *arguments = name ? next_note_text(&at, end) : NULL;
    for (size_t i = 0; arguments && i < sizeof operations / sizeof *operations; i++)
        if (!strcmp(name, operations[i].name) && !strcmp(arguments, "8@%rdi"))
            return add_probe(notes, operations[i].kind, word);
    notes->odd++;
    return NULL;
}

/* The size of a part of a note, with what fills it up to a multiple of 4. */
static size_t padded(uint32_t size)
{
    return ((size_t)size + 3) & ~(size_t)3;
}

static hx_error *read_note_section(struct notes *notes, uint64_t offset, uint64_t size)
{
    size_t len = size < most_bytes ? (size_t)size : most_bytes;
    HX_FREE uint8_t *bytes = len ? malloc(len) : NULL;
    if (!len)
        return NULL;
    HX_NEED(bytes);
    ssize_t n = pread(notes->fd, bytes, len, (off_t)offset);
    len = n > 0 ? (size_t)n : 0;
    for (size_t at = 0; len - at >= sizeof(Elf64_Nhdr);) {
        Elf64_Nhdr header;
        memcpy(&header, bytes + at, sizeof header);
        at += sizeof header;
        size_t owner = padded(header.n_namesz), desc = padded(header.n_descsz);
        if (owner > len - at || header.n_descsz > len - at - owner)
            break;
        if (header.n_type == note_type && header.n_namesz == 8 && !memcmp(bytes + at, "stapsdt", 8))
            HX_TRY(read_probe_note(notes, bytes + at + owner, header.n_descsz));
        at += owner + (desc < len - at - owner ? desc : len - at - owner);
    }
    return NULL;
}

static hx_error *take_file(struct notes *notes)
{
    hx_error *err = hx_elf_each_section(notes->fd, note_section, notes);
    if (!err && notes->n_sections)
        err = hx_elf_layout(notes->fd, &notes->layout);
    /* a file that makes no sense marks nothing */
    if (err && err->kind == HX_E_NOMEM)
        return err;
    hx_error_free(err);
    for (size_t i = 0; i < notes->n_sections && notes->layout.load.n; i++)
        HX_TRY(read_note_section(notes, notes->section[i].offset, notes->section[i].size));
    return NULL;
}

hx_error *hx_probe_find_marks(hx_code *code, uint32_t file, struct hx_probe_functions *ret,
                              uint64_t *ret_odd)
{
    const char *path = hx_code_open_path(code, file);
    HX_FD int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return NULL;
    struct notes notes = {.code = code, .file = file, .fd = fd, .first = ret->n, .ret = ret};
    hx_error *err = take_file(&notes);
    hx_elf_layout_deinit(&notes.layout);
    *ret_odd += notes.odd;
    return err;
}
