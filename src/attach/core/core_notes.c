/* core_notes.c - the notes of a core: threads, process, files, auxiliary vector. */
#include "attach/core/core_private.h"

#include "attach/stop/registers.h"
#include "base/cleanup.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/procfs.h>

#define THREADS_MAX ((size_t)1 << 20)
#define FILES_MAX   ((uint64_t)256 << 20) /* bytes of NT_FILE */
#define LISTED_MAX  ((uint64_t)1 << 20)   /* files in it */
#define AUXV_MAX    4096                  /* bytes */

enum { WINDOW = 65536 };

/* Goes over a range of the file. */
struct window {
    const hx_core *core;
    uint64_t start, n; /* what `bytes` are */
    uint8_t bytes[WINDOW];
};

/* One note; its content is at [desc, desc + desc_bytes) of the file. */
struct note {
    uint64_t at, desc, desc_bytes;
    uint32_t type;
    char owner[8];
};

static bool window_read(struct window *window, uint64_t offset, void *dst, size_t len)
{
    if (offset < window->start || offset - window->start > window->n ||
        len > window->n - (offset - window->start)) {
        uint64_t left = offset < window->core->size ? window->core->size - offset : 0;
        window->start = offset;
        window->n = left < WINDOW ? left : WINDOW;
        if (len > window->n || !hx_core_pread(window->core, offset, window->bytes, window->n)) {
            window->n = 0;
            return false;
        }
    }
    memcpy(dst, window->bytes + (offset - window->start), len);
    return true;
}

/* --- threads and process ------------------------------------------------------------------ */

static hx_error *take_status(hx_core *core, struct window *window, const struct note *note)
{
    uint8_t status[HX_ARCH_STATUS_BYTES];
    struct hx_core_thread thread = {.note = note->at};
    int signal;
    if (note->desc_bytes != sizeof status)
        return hx_core_lie(core, note->at,
                           "the status of a thread has %" PRIu64 " bytes instead of %zu",
                           note->desc_bytes, sizeof status);
    if (!window_read(window, note->desc, status, sizeof status)) {
        core->notes_cut = true;
        return NULL;
    }
    hx_arch_core_status(status, &thread.thread, &signal);
    if (thread.thread.tid <= 0)
        return hx_core_lie(core, note->desc, "a thread has the number %d", thread.thread.tid);
    if (core->threads.n == THREADS_MAX)
        return hx_core_lie(core, note->at, "more than %zu threads", THREADS_MAX);
    if (!core->threads.n)
        core->signal = signal;
    return hx_vec_push(&core->threads, thread) ? NULL : hx_error_nomem();
}

/* Belongs to the newest status. */
static hx_error *take_float(hx_core *core, struct window *window, const struct note *note)
{
    uint8_t state[HX_ARCH_EXTENDED_BYTES];
    size_t bytes = note->desc_bytes < sizeof state ? (size_t)note->desc_bytes : sizeof state;
    if (bytes < HX_ARCH_FLOAT_BYTES)
        return hx_core_lie(core, note->at,
                           "the floating-point state of a thread has %" PRIu64 " bytes",
                           note->desc_bytes);
    if (!core->threads.n)
        return hx_core_lie(core, note->at, "floating-point state of no thread");
    if (window_read(window, note->desc, state, bytes))
        hx_arch_core_float(state, bytes, &core->threads.v[core->threads.n - 1].thread);
    else
        core->notes_cut = true;
    return NULL;
}

static hx_error *read_process_note(hx_core *core, struct window *window, const struct note *note)
{
    struct elf_prpsinfo info;
    if (note->desc_bytes != sizeof info)
        return hx_core_lie(core, note->at,
                           "what is said of the process has %" PRIu64 " bytes instead of %zu",
                           note->desc_bytes, sizeof info);
    if (core->has_process)
        return hx_core_lie(core, note->at, "a second process");
    if (!window_read(window, note->desc, &info, sizeof info)) {
        core->notes_cut = true;
        return NULL;
    }
    if (info.pr_pid <= 0)
        return hx_core_lie(core, note->desc, "the process has the number %d", info.pr_pid);
    core->has_process = true;
    core->pid = info.pr_pid;
    memcpy(core->comm, info.pr_fname, sizeof core->comm - 1);
    return NULL;
}

static hx_error *take_auxv(hx_core *core, struct window *window, const struct note *note)
{
    for (uint64_t at = 0; at + 16 <= note->desc_bytes && at < AUXV_MAX; at += 16) {
        uint64_t pair[2];
        if (!window_read(window, note->desc + at, pair, sizeof pair)) {
            core->notes_cut = true;
            return NULL;
        }
        switch (pair[0]) {
        case AT_NULL:
            return NULL;
        case AT_PHDR:
            core->phdr = pair[1];
            break;
        case AT_PHNUM:
            core->phnum = pair[1];
            break;
        case AT_ENTRY:
            core->entry = pair[1];
            break;
        case AT_SYSINFO_EHDR:
            core->vdso = pair[1];
            break;
        case AT_RANDOM: /* bytes that the kernel has put on the first stack */
        case AT_EXECFN:
            core->stack = pair[1];
            break;
        default:
            break;
        }
    }
    return NULL;
}

/* --- files --------------------------------------------------------------------------------- */

static hx_error *add_file_name(hx_core *core, const char *path, uint32_t *ret)
{
    static const char deleted[] = " (deleted)";
    size_t n = strlen(path), tail = sizeof deleted - 1;
    struct hx_core_name name = {.deleted = n > tail && !strcmp(path + n - tail, deleted)};
    if (name.deleted)
        n -= tail;
    /* mappings of a file come one after the other */
    const struct hx_core_name *last = core->names.n ? &core->names.v[core->names.n - 1] : NULL;
    if (last && last->deleted == name.deleted && strlen(last->path) == n &&
        !memcmp(last->path, path, n)) {
        *ret = (uint32_t)(core->names.n - 1);
        return NULL;
    }
    for (size_t i = 0; i < core->names.n && core->names.n < 4096; i++)
        if (core->names.v[i].deleted == name.deleted && strlen(core->names.v[i].path) == n &&
            !memcmp(core->names.v[i].path, path, n)) {
            *ret = (uint32_t)i;
            return NULL;
        }
    name.path = strndup(path, n);
    if (!name.path || !hx_vec_push(&core->names, name)) {
        free(name.path);
        return hx_error_nomem();
    }
    *ret = (uint32_t)(core->names.n - 1);
    return NULL;
}

/* count, page size, count times { start, end, offset in pages }, count names. */
static hx_error *parse_files(hx_core *core, const struct note *note, const char *bytes, size_t len)
{
    uint64_t head[2], entry[3];
    if (len < sizeof head)
        return hx_core_lie(core, note->at, "a list of files of %zu bytes", len);
    memcpy(head, bytes, sizeof head);
    uint64_t n = head[0];
    core->has_files = true;
    if (n > LISTED_MAX || n > (len - sizeof head) / (sizeof entry + 1))
        return hx_core_lie(core, note->desc, "a list of %" PRIu64 " files in %zu bytes", n, len);
    size_t at = sizeof head, name_at = sizeof head + (size_t)n * sizeof entry;
    for (uint64_t i = 0; i < n; i++, at += sizeof entry) {
        const char *name = bytes + name_at, *end = memchr(name, 0, len - name_at);
        struct hx_core_file file = {.note = note->desc + at};
        memcpy(entry, bytes + at, sizeof entry);
        if (!end)
            return hx_core_lie(core, note->desc + name_at,
                               "the name of file %" PRIu64 " of %" PRIu64 " does not end", i + 1,
                               n);
        name_at = (size_t)(end + 1 - bytes);
        file.start = entry[0];
        file.end = entry[1];
        if (file.start >= file.end || file.start % HX_CORE_PAGE || file.end % HX_CORE_PAGE ||
            __builtin_mul_overflow(entry[2], head[1], &file.offset) ||
            file.offset > INT64_MAX - (file.end - file.start))
            return hx_core_lie(core, file.note,
                               "a file at 0x%" PRIx64 " to 0x%" PRIx64 ", from 0x%" PRIx64
                               " times 0x%" PRIx64 " on",
                               file.start, file.end, entry[2], head[1]);
        HX_TRY(add_file_name(core, name, &file.name));
        HX_NEED(hx_vec_push(&core->files, file));
    }
    return NULL;
}

static hx_error *take_files(hx_core *core, const struct note *note)
{
    if (core->has_files)
        return hx_core_lie(core, note->at, "a second list of files");
    if (note->desc_bytes > FILES_MAX)
        return hx_core_lie(core, note->at, "a list of files of %" PRIu64 " bytes",
                           note->desc_bytes);
    if (note->desc > core->size || note->desc_bytes > core->size - note->desc) {
        core->notes_cut = true;
        return NULL;
    }
    HX_FREE char *bytes = malloc((size_t)note->desc_bytes + 1);
    HX_NEED(bytes);
    if (!hx_core_pread(core, note->desc, bytes, (size_t)note->desc_bytes)) {
        core->notes_cut = true;
        return NULL;
    }
    return parse_files(core, note, bytes, (size_t)note->desc_bytes);
}

/* --- all of them ----------------------------------------------------------------------------- */

static hx_error *read_note(hx_core *core, struct window *window, const struct note *note)
{
    bool is_core = strcmp(note->owner, "CORE") == 0, is_linux = strcmp(note->owner, "LINUX") == 0;
    if (is_linux && note->type == NT_X86_XSTATE)
        return take_float(core, window, note);
    if (!is_core)
        return NULL;
    switch (note->type) {
    case NT_PRSTATUS:
        return take_status(core, window, note);
    case NT_FPREGSET:
        return take_float(core, window, note);
    case NT_PRPSINFO:
        return read_process_note(core, window, note);
    case NT_AUXV:
        return take_auxv(core, window, note);
    case NT_FILE:
        return take_files(core, note);
    default:
        return NULL;
    }
}

static uint64_t note_padded(uint64_t n)
{
    return (n + 3) & ~(uint64_t)3;
}

hx_error *hx_core_notes(hx_core *core, uint64_t offset, uint64_t bytes)
{
    HX_FREE struct window *window = calloc(1, sizeof *window);
    HX_NEED(window);
    window->core = core;
    uint64_t at = offset, end = offset + bytes;
    while (end - at >= sizeof(Elf64_Nhdr)) {
        Elf64_Nhdr header;
        if (!window_read(window, at, &header, sizeof header)) {
            core->notes_cut = true;
            return NULL;
        }
        struct note note = {.at = at, .type = header.n_type, .desc_bytes = header.n_descsz};
        uint64_t name = note_padded(header.n_namesz), desc = note_padded(header.n_descsz);
        uint64_t left = end - at - sizeof header;
        note.desc = at + sizeof header + name;
        if (name > left || header.n_descsz > left - name)
            return hx_core_lie(core, at,
                               "a note of %u and %u bytes where only %" PRIu64 " are left",
                               header.n_namesz, header.n_descsz, left);
        if (header.n_namesz <= sizeof note.owner &&
            !window_read(window, at + sizeof header, note.owner, header.n_namesz)) {
            core->notes_cut = true;
            return NULL;
        }
        note.owner[sizeof note.owner - 1] = 0;
        HX_TRY(read_note(core, window, &note));
        at = desc > left - name ? end : note.desc + desc;
    }
    return NULL;
}

static int compare_tids(const void *a, const void *b)
{
    const struct hx_core_thread *x = a, *y = b;
    if (x->thread.tid != y->thread.tid)
        return x->thread.tid < y->thread.tid ? -1 : 1;
    return x->note < y->note ? -1 : x->note > y->note;
}

static int compare_file_starts(const void *a, const void *b)
{
    const struct hx_core_file *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

hx_error *hx_core_notes_end(hx_core *core)
{
    struct hx_core_thread *v = core->threads.v;
    if (core->threads.n)
        qsort(v, core->threads.n, sizeof *v, compare_tids);
    for (size_t i = 1; i < core->threads.n; i++)
        if (v[i - 1].thread.tid == v[i].thread.tid)
            return hx_core_lie(core, v[i].note, "thread %d a second time", v[i].thread.tid);
    for (size_t i = 0; i < core->threads.n; i++)
        if (v[i].thread.tid == core->pid)
            memcpy(v[i].thread.comm, core->comm, sizeof core->comm);
        else
            v[i].thread.nameless = true;
    if (core->files.n)
        qsort(core->files.v, core->files.n, sizeof *core->files.v, compare_file_starts);
    for (size_t i = 1; i < core->files.n; i++)
        if (core->files.v[i - 1].end > core->files.v[i].start)
            return hx_core_lie(core, core->files.v[i].note,
                               "a file at 0x%" PRIx64 " overlaps another one",
                               core->files.v[i].start);
    return NULL;
}
