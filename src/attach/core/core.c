/* core.c - the headers of an ELF core, and what they say of its memory. */
#include "attach/core/core_private.h"

#include "base/cleanup.h"
#include "base/lower_bound.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* More mappings than any kernel lets a process have, and more notes than any process fills. */
#define SEGMENTS_MAX   ((uint64_t)1 << 20)
#define NOTE_BYTES_MAX ((uint64_t)1 << 30)

enum { HEADERS_AT_ONCE = 64 };

hx_error *hx_core_lie(const hx_core *core, uint64_t offset, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    hx_error *err = hx_error_at(core->path, "take the core again", offset, format, args);
    va_end(args);
    return err;
}

bool hx_core_pread(const hx_core *core, uint64_t offset, void *dst, size_t len)
{
    uint8_t *to = dst;
    while (len) {
        ssize_t got = offset > INT64_MAX ? 0 : pread(core->fd, to, len, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        to += got;
        offset += (uint64_t)got;
        len -= (size_t)got;
    }
    return true;
}

/* --- memory ------------------------------------------------------------------------------ */

const struct hx_core_segment *hx_core_segment(const hx_core *core, uint64_t addr)
{
    size_t low = HX_LOWER_BOUND(core->segments.n, i, core->segments.v[i].end <= addr);
    return low < core->segments.n && core->segments.v[low].start <= addr ? &core->segments.v[low]
                                                                         : NULL;
}

bool hx_core_memory(const hx_core *core, uint64_t addr, void *dst, size_t len)
{
    const struct hx_core_segment *segment = hx_core_segment(core, addr);
    uint64_t at = segment ? addr - segment->start : 0;
    return segment && at <= segment->present && len <= segment->present - at &&
           hx_core_pread(core, segment->offset + at, dst, len);
}

/* --- headers ----------------------------------------------------------------------------- */

static bool is_core(const Elf64_Ehdr *header)
{
    return memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 && header->e_type == ET_CORE;
}

bool hx_core_detect(const char *path)
{
    Elf64_Ehdr header = {0};
    struct stat st;
    HX_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode))
        return false;
    /* type, of either word size, lies at the same place */
    return pread(fd, &header, sizeof header, 0) >= (ssize_t)(EI_NIDENT + sizeof header.e_type) &&
           is_core(&header);
}

static hx_error *wrong_machine(const hx_core *core, const Elf64_Ehdr *header)
{
    return hx_error_new(HX_E_FAIL, core->path, "open it where it can be read",
                        "is a core of another kind of machine (class %u, data %u, machine %u): "
                        "only 64-bit x86 is read",
                        header->e_ident[EI_CLASS], header->e_ident[EI_DATA], header->e_machine);
}

/* How many program headers there are; more than fit into the header are told by section 0. */
static hx_error *count_headers(const hx_core *core, const Elf64_Ehdr *header, uint64_t *ret)
{
    Elf64_Shdr section;
    *ret = header->e_phnum;
    if (header->e_phnum != PN_XNUM)
        return NULL;
    if (header->e_shoff > core->size ||
        !hx_core_pread(core, header->e_shoff, &section, sizeof section))
        return hx_core_lie(core, offsetof(Elf64_Ehdr, e_shoff),
                           "the section that counts the segments is not in the file");
    *ret = section.sh_info;
    return NULL;
}

static uint32_t segment_prot(uint32_t flags)
{
    return (flags & PF_R ? HX_PROT_R : 0u) | (flags & PF_W ? HX_PROT_W : 0u) |
           (flags & PF_X ? HX_PROT_X : 0u);
}

static hx_error *add_load_segment(hx_core *core, const Elf64_Phdr *phdr, uint64_t at)
{
    struct hx_core_segment segment = {.start = phdr->p_vaddr,
                                      .offset = phdr->p_offset,
                                      .filesz = phdr->p_filesz,
                                      .header = at,
                                      .prot = segment_prot(phdr->p_flags)};
    if (!phdr->p_memsz && !phdr->p_filesz)
        return NULL;
    if (__builtin_add_overflow(phdr->p_vaddr, phdr->p_memsz, &segment.end))
        return hx_core_lie(
            core, at, "a segment of 0x%" PRIx64 " bytes at 0x%" PRIx64 " goes beyond all addresses",
            phdr->p_memsz, phdr->p_vaddr);
    if (phdr->p_vaddr % HX_CORE_PAGE || phdr->p_memsz % HX_CORE_PAGE)
        return hx_core_lie(core, at,
                           "a segment of 0x%" PRIx64 " bytes at 0x%" PRIx64 " is not made of pages",
                           phdr->p_memsz, phdr->p_vaddr);
    if (phdr->p_filesz > phdr->p_memsz)
        return hx_core_lie(core, at,
                           "a segment of 0x%" PRIx64 " bytes has 0x%" PRIx64 " in the file",
                           phdr->p_memsz, phdr->p_filesz);
    if (phdr->p_filesz > INT64_MAX || phdr->p_offset > INT64_MAX - phdr->p_filesz)
        return hx_core_lie(core, at, "a segment ends beyond any file");
    uint64_t left = phdr->p_offset < core->size ? core->size - phdr->p_offset : 0;
    segment.present = phdr->p_filesz < left ? phdr->p_filesz : left;
    return hx_vec_push(&core->segments, segment) ? NULL : hx_error_nomem();
}

static hx_error *read_note_segment(hx_core *core, const Elf64_Phdr *phdr, uint64_t at)
{
    if (phdr->p_filesz > NOTE_BYTES_MAX - core->note_bytes || phdr->p_offset > INT64_MAX / 2)
        return hx_core_lie(core, at, "notes of 0x%" PRIx64 " bytes at 0x%" PRIx64 " of the file",
                           phdr->p_filesz, phdr->p_offset);
    core->note_bytes += phdr->p_filesz;
    return hx_core_notes(core, phdr->p_offset, phdr->p_filesz);
}

static hx_error *read_headers(hx_core *core, const Elf64_Ehdr *header)
{
    Elf64_Phdr phdr[HEADERS_AT_ONCE];
    uint64_t n, at = header->e_phoff;
    HX_TRY(count_headers(core, header, &n));
    if (header->e_phentsize != sizeof *phdr)
        return hx_core_lie(core, offsetof(Elf64_Ehdr, e_phentsize),
                           "program headers of %u bytes instead of %zu", header->e_phentsize,
                           sizeof *phdr);
    if (!n || n > SEGMENTS_MAX)
        return hx_core_lie(core, offsetof(Elf64_Ehdr, e_phnum), "%" PRIu64 " segments", n);
    if (at > core->size || n * sizeof *phdr > core->size - at)
        return hx_core_lie(core, core->size,
                           "the file ends within the list of its %" PRIu64
                           " segments, which is at byte %" PRIu64 ": nothing of it can be used",
                           n, at);
    while (n) {
        size_t some = n < HEADERS_AT_ONCE ? (size_t)n : HEADERS_AT_ONCE;
        if (!hx_core_pread(core, at, phdr, some * sizeof *phdr))
            return hx_core_lie(core, at, "the list of segments cannot be read");
        for (size_t i = 0; i < some; i++, at += sizeof *phdr) {
            if (phdr[i].p_type == PT_LOAD)
                HX_TRY(add_load_segment(core, &phdr[i], at));
            else if (phdr[i].p_type == PT_NOTE)
                HX_TRY(read_note_segment(core, &phdr[i], at));
        }
        n -= some;
    }
    return NULL;
}

static int compare_segment_starts(const void *a, const void *b)
{
    const struct hx_core_segment *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->header < y->header ? -1 : x->header > y->header;
}

/* What each of them has in the file cannot be more than the file. */
static hx_error *test_segments(hx_core *core)
{
    struct hx_core_segment *v = core->segments.v;
    uint64_t sum = 0;
    if (core->segments.n)
        qsort(v, core->segments.n, sizeof *v, compare_segment_starts);
    for (size_t i = 0; i < core->segments.n; i++) {
        if (i && v[i - 1].end > v[i].start)
            return hx_core_lie(core, v[i].header,
                               "a segment at 0x%" PRIx64 " overlaps the one at 0x%" PRIx64,
                               v[i].start, v[i - 1].start);
        sum += v[i].present;
        if (sum > core->size)
            return hx_core_lie(core, v[i].header, "a segment shares bytes of the file with others");
    }
    return NULL;
}

/* --- opening ----------------------------------------------------------------------------- */

static hx_error *open_core_file(hx_core *core)
{
    struct stat st;
    core->fd = open(core->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (core->fd < 0 || fstat(core->fd, &st))
        return hx_error_os(errno, core->path, "open");
    if (!S_ISREG(st.st_mode))
        return hx_error_new(HX_E_FAIL, core->path, NULL, "is no regular file");
    core->size = (uint64_t)st.st_size;
    core->mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    return NULL;
}

static hx_error *read_core(hx_core *core)
{
    Elf64_Ehdr header;
    HX_TRY(open_core_file(core));
    if (!hx_core_pread(core, 0, &header, sizeof header))
        return hx_core_lie(core, core->size, "the file ends within its header");
    if (!is_core(&header))
        return hx_error_new(HX_E_FAIL, core->path, NULL, "is no ELF core");
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
        header.e_machine != EM_X86_64)
        return wrong_machine(core, &header);
    HX_TRY(read_headers(core, &header));
    HX_TRY(test_segments(core));
    HX_TRY(hx_core_notes_end(core));
    return hx_core_find_files(core);
}

static bool copy_word(const char *word, char **ret)
{
    *ret = word ? strdup(word) : NULL;
    return !word || *ret;
}

hx_error *hx_core_open(const char *path, const char *exe, const char *sysroot, hx_core **ret)
{
    hx_core *core = calloc(1, sizeof *core);
    HX_NEED(core);
    core->fd = -1;
    hx_error *err = copy_word(path, &core->path) && copy_word(exe, &core->exe) &&
                            copy_word(sysroot, &core->sysroot)
                        ? read_core(core)
                        : hx_error_nomem();
    if (err)
        hx_core_close(core);
    else
        *ret = core;
    return err;
}

void hx_core_close(hx_core *core)
{
    if (!core)
        return;
    for (size_t i = 0; i < core->names.n; i++) {
        free(core->names.v[i].path);
        free(core->names.v[i].local);
    }
    hx_vec_free(&core->names);
    hx_vec_free(&core->files);
    hx_vec_free(&core->segments);
    hx_vec_free(&core->threads);
    if (core->fd >= 0)
        close(core->fd);
    free(core->path);
    free(core->exe);
    free(core->sysroot);
    free(core);
}

/* --- a snapshot -------------------------------------------------------------------------- */

static hx_error *fill_core_process(const hx_core *core, struct hx_snapshot *snapshot)
{
    snapshot->pid = core->pid;
    snapshot->taken_at_ns = core->mtime_ns;
    snapshot->method = "core";
    snapshot->pause_unknown = true;
    snapshot->comm = core->has_process ? strdup(core->comm) : NULL;
    if (core->has_process && !snapshot->comm)
        return hx_error_nomem();
    for (size_t i = 0; i < core->names.n && !snapshot->exe; i++) {
        const struct hx_core_name *name = &core->names.v[i];
        if (name->is_exe &&
            asprintf(&snapshot->exe, "%s%s", name->path, name->deleted ? " (deleted)" : "") < 0)
            return hx_error_nomem();
    }
    if (core->threads.n) {
        snapshot->thread = calloc(core->threads.n, sizeof *snapshot->thread);
        HX_NEED(snapshot->thread);
        for (size_t i = 0; i < core->threads.n; i++)
            snapshot->thread[snapshot->n_threads++] = core->threads.v[i].thread;
    }
    hx_snapshot_note(snapshot, false,
                     "from a core: its time is that of the file, and which pages were resident is "
                     "not known");
    if (core->signal)
        hx_snapshot_note(snapshot, false, "the process got signal %d (%s)", core->signal,
                         strsignal(core->signal));
    return NULL;
}

static void note_missing_notes(const hx_core *core, struct hx_snapshot *snapshot)
{
    if (core->notes_cut)
        hx_snapshot_note(snapshot, true, "the core ends within its notes");
    if (!core->threads.n) {
        hx_snapshot_note(snapshot, true,
                         "the core has no registers: no stack is known, and what only they hold "
                         "counts as lost");
        hx_snapshot_lose(snapshot, "threads whose registers were not seen", 1, 0, 0);
    }
    if (!core->has_files) {
        hx_snapshot_note(snapshot, true, "the core does not say which files were mapped: %s",
                         core->files.n ? "only the program is known"
                                       : "variables have no names (see --exe)");
        hx_snapshot_lose(snapshot, "names of mapped files", 1, 0, 0);
    }
}

/* Files that are missing take names of variables and classes with them. */
static void note_missing_files(const hx_core *core, struct hx_snapshot *snapshot)
{
    enum { NAMED = 5 };
    size_t missing = 0;
    struct hx_text names = {0};
    for (size_t i = 0; i < core->names.n; i++) {
        const struct hx_core_name *name = &core->names.v[i];
        if (!name->is_elf || !name->local || *name->local)
            continue;
        if (++missing <= NAMED)
            hx_text_putf(&names, "%s%s", missing > 1 ? ", " : "", name->path);
    }
    if (missing > NAMED)
        hx_text_putf(&names, " and %zu more", missing - NAMED);
    if (missing) {
        hx_snapshot_note(snapshot, true,
                         "not here, or not what they were (build ids differ): %s; names and "
                         "classes in them are not known%s",
                         hx_text_str(&names), core->sysroot ? "" : " (see --exe and --sysroot)");
        hx_snapshot_lose(snapshot, "files that the process had mapped", missing, 0, 0);
    }
    hx_text_free(&names);
}

hx_error *hx_core_take(hx_core *core, unsigned threads, const struct hx_progress *progress,
                       struct hx_snapshot *snapshot)
{
    HX_TRY(fill_core_process(core, snapshot));
    note_missing_notes(core, snapshot);
    note_missing_files(core, snapshot);
    HX_TRY(hx_core_map(core, snapshot));
    return hx_core_image(core, threads, progress, snapshot, &core->lacks_memory);
}

bool hx_core_lacks_memory(const hx_core *core)
{
    return core->lacks_memory;
}
