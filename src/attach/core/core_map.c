/* core_map.c - the mappings of a core's process.
 *
 * A core has one segment for a mapping, and lists the files of mappings. What the kernel knows
 * beyond that is found again: the heap lies behind the program, the first stack where the auxiliary
 * vector says, file pages that were left out have the protection of their segment.
 */
#include "attach/core/core_private.h"

#include "base/cleanup.h"
#include "base/lower_bound.h"

#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

/* How far behind the program the kernel puts the heap at most. */
#define HEAP_GAP ((uint64_t)1 << 30)

#define VSYSCALL ((uint64_t)0xffffffffff600000)

struct mapper {
    const hx_core *core;
    HX_VEC(struct hx_mapping) list;
};

/* --- what a mapping is ----------------------------------------------------------------------- */

/* Memory that several processes share, as far as its name tells. */
static bool is_shared(const char *path)
{
    static const char *const prefixes[] = {"/dev/shm/", "/memfd:",        "/SYSV",
                                           "/dev/zero", "/anon_hugepage", "anon_inode:"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (strncmp(path, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

static bool is_device(const char *path)
{
    return strncmp(path, "/dev/", 5) == 0 && strncmp(path, "/dev/shm/", 9) != 0 &&
           strncmp(path, "/dev/zero", 9) != 0;
}

static const struct hx_core_file *core_file_at(const hx_core *core, uint64_t addr)
{
    size_t low = HX_LOWER_BOUND(core->files.n, i, core->files.v[i].end <= addr);
    return low < core->files.n && core->files.v[low].start <= addr ? &core->files.v[low] : NULL;
}

/* Takes over nothing. file: NULL: none. */
static hx_error *add_core_mapping(struct mapper *mapper, uint64_t start, uint64_t end,
                                  uint32_t prot, const struct hx_core_file *file)
{
    const struct hx_core_name *name = file ? &mapper->core->names.v[file->name] : NULL;
    struct hx_mapping mapping = {.start = start, .end = end, .prot = prot};
    mapping.path = strdup(name ? name->path : "");
    if (name) {
        mapping.offset = file->offset + (start - file->start);
        mapping.inode = file->name + (uint64_t)1; /* tells files apart, and no more */
        mapping.deleted = name->deleted;
        mapping.device = is_device(name->path);
        mapping.prot |= is_shared(name->path) ? HX_PROT_SHARED : 0u;
        mapping.local = strdup(name->local);
    }
    if (!mapping.path || (name && !mapping.local) || !hx_vec_push(&mapper->list, mapping)) {
        free(mapping.path);
        free(mapping.local);
        return hx_error_nomem();
    }
    return NULL;
}

/* The protection of a piece of a file that no segment shows: that of its load segment. */
static uint32_t prot_in_file(const hx_core *core, const struct hx_core_file *file, uint64_t addr)
{
    Elf64_Phdr phdr[HX_CORE_PHDRS_MAX];
    uint64_t bias, base = core->names.v[file->name].base;
    size_t n = base ? hx_core_phdrs(core, base, phdr, &bias) : 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t start = (bias + phdr[i].p_vaddr) & ~(uint64_t)(HX_CORE_PAGE - 1);
        if (phdr[i].p_type == PT_LOAD && addr >= start &&
            addr < bias + phdr[i].p_vaddr + phdr[i].p_memsz)
            return (phdr[i].p_flags & PF_R ? HX_PROT_R : 0u) |
                   (phdr[i].p_flags & PF_X ? HX_PROT_X : 0u);
    }
    return HX_PROT_R;
}

/* Files where no segment is. */
static hx_error *add_files(struct mapper *mapper, size_t *at, uint64_t from, uint64_t to)
{
    const hx_core *core = mapper->core;
    for (; *at < core->files.n && core->files.v[*at].start < to; ++*at) {
        const struct hx_core_file *file = &core->files.v[*at];
        uint64_t start = file->start > from ? file->start : from;
        uint64_t end = file->end < to ? file->end : to;
        if (start < end)
            HX_TRY(add_core_mapping(mapper, start, end, prot_in_file(core, file, start), file));
        if (file->end > to)
            break;
    }
    return NULL;
}

static hx_error *add_core_mappings(struct mapper *mapper)
{
    const hx_core *core = mapper->core;
    size_t at = 0;
    uint64_t from = 0;
    for (size_t i = 0; i < core->segments.n; i++) {
        const struct hx_core_segment *segment = &core->segments.v[i];
        HX_TRY(add_files(mapper, &at, from, segment->start));
        HX_TRY(add_core_mapping(mapper, segment->start, segment->end, segment->prot,
                                core_file_at(core, segment->start)));
        from = segment->end;
    }
    return add_files(mapper, &at, from, UINT64_MAX);
}

/* --- names of the kernel -----------------------------------------------------------------------
 */

static hx_error *rename_to(struct hx_mapping *mapping, const char *path)
{
    free(mapping->path);
    mapping->path = strdup(path);
    return mapping->path ? NULL : hx_error_nomem();
}

static bool is_unnamed_mapping(const struct hx_mapping *mapping)
{
    return !mapping->inode && !mapping->path[0];
}

static hx_error *name_at(struct mapper *mapper, uint64_t addr, const char *path)
{
    size_t i = addr ? hx_mapping_find(mapper->list.v, mapper->list.n, addr) : mapper->list.n;
    return i < mapper->list.n && is_unnamed_mapping(&mapper->list.v[i])
               ? rename_to(&mapper->list.v[i], path)
               : NULL;
}

/* Without an auxiliary vector: where the first thread stands. */
static uint64_t stack_address(const hx_core *core)
{
    for (size_t i = 0; !core->stack && i < core->threads.n; i++)
        if (core->threads.v[i].thread.tid == core->pid)
            return core->threads.v[i].thread.sp;
    return core->stack;
}

/* The end of the program's own data, .bss included; 0: not known. */
static uint64_t program_end(const hx_core *core)
{
    Elf64_Phdr phdr[HX_CORE_PHDRS_MAX];
    uint64_t bias, end = 0;
    for (size_t k = 0; k < core->names.n; k++) {
        size_t n = core->names.v[k].is_exe && core->names.v[k].base
                       ? hx_core_phdrs(core, core->names.v[k].base, phdr, &bias)
                       : 0;
        for (size_t i = 0; i < n; i++)
            if (phdr[i].p_type == PT_LOAD && bias + phdr[i].p_vaddr + phdr[i].p_memsz > end)
                end = bias + phdr[i].p_vaddr + phdr[i].p_memsz;
    }
    return (end + HX_CORE_PAGE - 1) & ~(uint64_t)(HX_CORE_PAGE - 1);
}

static bool can_be_heap(const struct hx_mapping *mapping)
{
    return is_unnamed_mapping(mapping) && mapping->prot & HX_PROT_W;
}

/* What brk() gave: behind the program, or, when the loader itself was started (a static PIE, too),
 * below everything else. */
static hx_error *name_brk_mapping(struct mapper *mapper)
{
    uint64_t end = program_end(mapper->core);
    size_t n = mapper->list.n, first = n;
    struct hx_mapping *v = mapper->list.v;
    if (!end)
        return NULL;
    for (size_t i = 0; i < n && first == n; i++) {
        if (v[i].end <= end)
            continue;
        if (!is_unnamed_mapping(&v[i]) || v[i].start > end + HEAP_GAP)
            break;
        if (can_be_heap(&v[i]))
            first = i;
    }
    if (first == n && n && can_be_heap(&v[0]))
        first = 0;
    for (size_t i = first; i < n && is_unnamed_mapping(&v[i]); i++) {
        if (i > first && v[i - 1].end != v[i].start)
            break;
        HX_TRY(rename_to(&v[i], "[heap]"));
    }
    return NULL;
}

/* The kernel's data that goes with its code lies right below it. */
static hx_error *name_vvar(struct mapper *mapper)
{
    uint64_t vdso = mapper->core->vdso;
    size_t i = vdso ? hx_mapping_find(mapper->list.v, mapper->list.n, vdso) : mapper->list.n;
    if (i == mapper->list.n)
        return NULL;
    for (; i > 0 && mapper->list.v[i - 1].end == mapper->list.v[i].start; i--) {
        struct hx_mapping *below = &mapper->list.v[i - 1];
        if (!is_unnamed_mapping(below) || below->prot != HX_PROT_R)
            break;
        HX_TRY(rename_to(below, "[vvar]"));
    }
    return NULL;
}

/* Code of the kernel's own image is read from ours: only when it is the same one. */
static hx_error *compare_vdso(struct mapper *mapper)
{
    const uint8_t *own = (const uint8_t *)getauxval(AT_SYSINFO_EHDR);
    uint64_t vdso = mapper->core->vdso;
    size_t i = vdso ? hx_mapping_find(mapper->list.v, mapper->list.n, vdso) : mapper->list.n;
    uint8_t page[HX_CORE_PAGE];
    if (i == mapper->list.n || mapper->list.v[i].local ||
        (own && hx_core_memory(mapper->core, vdso, page, sizeof page) &&
         memcmp(own, page, sizeof page) == 0))
        return NULL;
    mapper->list.v[i].local = strdup("");
    return mapper->list.v[i].local ? NULL : hx_error_nomem();
}

/* A guard below a stack is written as readable zeros by some: nobody can store there. */
static void find_guards(struct mapper *mapper)
{
    for (size_t i = 0; i + 1 < mapper->list.n; i++) {
        struct hx_mapping *mapping = &mapper->list.v[i];
        uint64_t bytes = mapping->end - mapping->start;
        uint8_t page[HX_CORE_PAGE];
        bool zero = is_unnamed_mapping(mapping) && mapping->prot == HX_PROT_R &&
                    mapping[1].start == mapping->end && bytes <= 64 * HX_CORE_PAGE;
        for (uint64_t at = 0; zero && at < bytes; at += sizeof page) {
            zero = hx_core_memory(mapper->core, mapping->start + at, page, sizeof page) &&
                   !page[0] && !memcmp(page, page + 1, sizeof page - 1);
        }
        if (zero)
            mapping->prot = 0;
    }
}

static hx_error *name_mappings(struct mapper *mapper)
{
    HX_TRY(name_at(mapper, mapper->core->vdso, "[vdso]"));
    HX_TRY(name_vvar(mapper));
    HX_TRY(compare_vdso(mapper));
    HX_TRY(name_at(mapper, VSYSCALL, "[vsyscall]"));
    HX_TRY(name_at(mapper, stack_address(mapper->core), "[stack]"));
    find_guards(mapper);
    return name_brk_mapping(mapper);
}

hx_error *hx_core_map(const hx_core *core, struct hx_snapshot *snapshot)
{
    struct mapper mapper = {.core = core};
    hx_error *err = add_core_mappings(&mapper);
    if (!err)
        err = name_mappings(&mapper);
    snapshot->mapping = mapper.list.v; /* owned from here on, also after an error */
    snapshot->n_mappings = mapper.list.n;
    return err;
}
