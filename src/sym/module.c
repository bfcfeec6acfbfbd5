/* module.c - from mappings to ELF objects: grouping, load bias, lookup by address. */
#include "sym/module_private.h"

#include "base/cleanup.h"
#include "base/lower_bound.h"

#include <stdlib.h>
#include <string.h>

/* Descriptors kept open; the files beyond are opened again for each use. */
#define OPEN_MAX_FILES 256

static uint64_t page_floor(uint64_t addr)
{
    return addr & ~(uint64_t)(HX_PAGE - 1);
}

static uint64_t page_ceil(uint64_t addr)
{
    return page_floor(addr + HX_PAGE - 1);
}

/* --- grouping by file ------------------------------------------------------- */

struct piece {
    const struct hx_mapping *mapping;
};

static int by_file(const void *a, const void *b)
{
    const struct hx_mapping *x = ((const struct piece *)a)->mapping;
    const struct hx_mapping *y = ((const struct piece *)b)->mapping;
    if (x->dev != y->dev)
        return x->dev < y->dev ? -1 : 1;
    if (x->inode != y->inode)
        return x->inode < y->inode ? -1 : 1;
    int order = x->inode ? 0 : strcmp(x->path, y->path);
    if (order)
        return order;
    return x->start < y->start ? -1 : x->start > y->start;
}

static bool same_group(const struct hx_mapping *x, const struct hx_mapping *y)
{
    return x->dev == y->dev && x->inode == y->inode && (x->inode || !strcmp(x->path, y->path));
}

/* Loaders map privately; a shared mapping of an ELF file is somebody's data. */
static bool can_be_loaded(const struct hx_mapping *mapping)
{
    return mapping->path && mapping->path[0] == '/' && !mapping->device &&
           !(mapping->prot & HX_PROT_SHARED);
}

char *hx_module_clean_path(const struct hx_mapping *mapping)
{
    static const char suffix[] = " (deleted)";
    size_t n = strlen(mapping->path), cut = sizeof suffix - 1;
    if (mapping->deleted && n > cut && strcmp(mapping->path + n - cut, suffix) == 0)
        n -= cut;
    return strndup(mapping->path, n);
}

bool hx_module_take_names(struct hx_module_file *file, const struct hx_mapping *mapping)
{
    file->path = hx_module_clean_path(mapping);
    file->local = mapping->local ? strdup(mapping->local) : NULL;
    return file->path && (file->local || !mapping->local);
}

/* --- load bias -------------------------------------------------------------- */

/* Does every page of the mapping show what a load under `bias` would put there? Sets the
 * bits of the segments used. */
static bool fits_mapping(const struct hx_elf_layout *layout, const struct hx_mapping *mapping,
                         uint64_t bias, uint64_t *ret_used)
{
    uint64_t used = 0, at = mapping->start;
    for (size_t i = 0; i < layout->load.n && at < mapping->end; i++) {
        const struct hx_elf_segment *seg = &layout->load.v[i];
        uint64_t start = page_floor(bias + seg->vaddr);
        uint64_t end = page_ceil(bias + seg->vaddr + seg->filesz);
        if (!seg->filesz || at < start || at >= end)
            continue;
        if (mapping->offset + (at - mapping->start) != page_floor(seg->offset) + (at - start))
            continue;
        used |= (uint64_t)1 << (i & 63);
        at = end;
    }
    *ret_used = used;
    return at >= mapping->end;
}

static uint32_t load_prot(uint32_t flags)
{
    return (flags & PF_R ? HX_PROT_R : 0) | (flags & PF_W ? HX_PROT_W : 0) |
           (flags & PF_X ? HX_PROT_X : 0);
}

/* The bias that a load must have had when this mapping is its first one: that of the first
 * segment that fits, one of the same protection before others. */
bool hx_module_find_bias(const struct hx_elf_layout *layout, const struct hx_mapping *mapping,
                         uint64_t *ret, uint64_t *ret_used)
{
    bool found = false;
    for (size_t i = 0; i < layout->load.n; i++) {
        const struct hx_elf_segment *seg = &layout->load.v[i];
        bool same_prot = load_prot(seg->flags) == mapping->prot;
        uint64_t used;
        uint64_t bias = mapping->start - mapping->offset - (seg->vaddr - seg->offset);
        if ((found && !same_prot) || (layout->fixed && bias != 0) ||
            !fits_mapping(layout, mapping, bias, &used))
            continue;
        found = true;
        *ret = bias;
        *ret_used = used;
        if (same_prot)
            break;
    }
    return found;
}

/* A load maps several segments or code; a file that was only mapped to be read does not. */
static bool looks_loaded(const struct hx_elf_layout *layout, uint64_t used, bool has_code)
{
    return has_code || layout->load.n == 1 || (used & (used - 1)) != 0;
}

/* Finds the loads of one file among its mappings, which are in order of address. */
static hx_error *add_loads(struct hx_modules *modules, size_t file, const struct piece *piece,
                           size_t n)
{
    const struct hx_elf_layout *layout = &modules->files.v[file].layout;
    struct hx_module load = {.file = file};
    uint64_t used = 0;
    bool open = false, has_code = false;
    for (size_t i = 0; i <= n; i++) {
        const struct hx_mapping *mapping = i < n ? piece[i].mapping : NULL;
        uint64_t more = 0, bias = 0;
        if (mapping && open && fits_mapping(layout, mapping, load.bias, &more)) {
            used |= more;
            has_code |= (mapping->prot & HX_PROT_X) != 0;
            continue;
        }
        if (mapping &&
            (!(mapping->prot & 7) || !hx_module_find_bias(layout, mapping, &bias, &more)))
            continue;
        if (open && looks_loaded(layout, used, has_code))
            HX_NEED(hx_vec_push(&modules->modules, load));
        if (!mapping)
            break;
        load.bias = bias;
        load.low = mapping->start;
        used = more;
        has_code = (mapping->prot & HX_PROT_X) != 0;
        open = true;
    }
    return NULL;
}

/* --- placing segments -------------------------------------------------------- */

/* How far from `start` the target's memory can belong to a segment of this file: over its own
 * mappings and anonymous ones without a gap. */
static uint64_t extent(const struct hx_mapping *mapping, size_t n, uint64_t start, uint64_t end,
                       const struct hx_module_file *file)
{
    uint64_t at = start;
    for (size_t i = hx_mapping_find(mapping, n, start); i < n && at < end; i++) {
        const struct hx_mapping *m = &mapping[i];
        bool own = m->inode == file->inode && m->dev == file->dev && m->path[0] == '/';
        bool anonymous = !m->path[0] || !strcmp(m->path, "[heap]") || !strncmp(m->path, "[anon", 5);
        if (m->start > at || !(own || anonymous))
            break;
        at = m->end;
    }
    return at < end ? at : end;
}

static hx_error *place_segments(struct hx_modules *modules, const struct hx_mapping *mapping,
                                size_t n)
{
    for (size_t i = 0; i < modules->modules.n; i++) {
        const struct hx_module *module = &modules->modules.v[i];
        const struct hx_module_file *file = &modules->files.v[module->file];
        for (size_t k = 0; k < file->layout.load.n; k++) {
            const struct hx_elf_segment *seg = &file->layout.load.v[k];
            uint64_t start = module->bias + seg->vaddr, end;
            if (__builtin_add_overflow(start, seg->memsz, &end))
                continue;
            end = extent(mapping, n, start, end, file);
            uint64_t file_end = start + seg->filesz < end ? start + seg->filesz : end;
            if (end > start)
                HX_NEED(hx_vec_push(&modules->placed, (struct hx_placed){.start = start,
                                                                         .file_end = file_end,
                                                                         .end = end,
                                                                         .offset = seg->offset,
                                                                         .flags = seg->flags,
                                                                         .module = (uint32_t)i}));
        }
    }
    return NULL;
}

static int compare_module_starts(const void *a, const void *b)
{
    const struct hx_placed *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->module < y->module ? -1 : x->module > y->module;
}

/* Segments that overlap come from a malformed file; what begins later wins. */
static void sort_placed(struct hx_modules *modules)
{
    struct hx_placed *v = modules->placed.v;
    size_t kept = 0;
    if (modules->placed.n)
        qsort(v, modules->placed.n, sizeof *v, compare_module_starts);
    for (size_t i = 0; i < modules->placed.n; i++) {
        if (kept && v[kept - 1].start == v[i].start)
            continue;
        if (kept && v[kept - 1].end > v[i].start) {
            v[kept - 1].end = v[i].start;
            if (v[kept - 1].file_end > v[i].start)
                v[kept - 1].file_end = v[i].start;
        }
        v[kept++] = v[i];
    }
    modules->placed.n = kept;
}

/* --- making ------------------------------------------------------------------ */

/* Opens the file of a group of mappings; files that are no ELF objects are left out. */
static hx_error *add_group(struct hx_modules *modules, const struct piece *piece, size_t n)
{
    const struct hx_mapping *first = piece[0].mapping;
    struct hx_module_file file = {.dev = first->dev,
                                  .inode = first->inode,
                                  .map_start = first->start,
                                  .map_end = first->end,
                                  .deleted = first->deleted,
                                  .fd = -1};
    bool named = hx_module_take_names(&file, first);
    file.fd = named ? hx_module_file_open(modules->pid, &file) : -1;
    hx_error *err = file.fd < 0 ? NULL : hx_elf_layout(file.fd, &file.layout);
    if (file.fd < 0 || err || !hx_vec_push(&modules->files, file)) {
        bool nomem = err ? err->kind == HX_E_NOMEM : file.fd >= 0 || !named;
        hx_error_free(err);
        hx_elf_layout_deinit(&file.layout);
        free(file.path);
        free(file.local);
        if (file.fd >= 0)
            close(file.fd);
        return nomem ? hx_error_nomem() : NULL;
    }
    if (modules->n_open < OPEN_MAX_FILES) {
        modules->n_open++;
    } else {
        close(file.fd);
        modules->files.v[modules->files.n - 1].fd = -1;
    }
    return add_loads(modules, modules->files.n - 1, piece, n);
}

static int by_low(const void *a, const void *b)
{
    const struct hx_module *x = a, *y = b;
    return x->low < y->low ? -1 : x->low > y->low;
}

static hx_error *fill_modules(struct hx_modules *modules, const struct hx_mapping *mapping,
                              size_t n)
{
    HX_VEC(struct piece) pieces = {0};
    hx_error *err = NULL;
    HX_NEED(hx_vec_reserve(&pieces, n));
    for (size_t i = 0; i < n; i++)
        if (can_be_loaded(&mapping[i]))
            pieces.v[pieces.n++] = (struct piece){&mapping[i]};
    if (pieces.n)
        qsort(pieces.v, pieces.n, sizeof *pieces.v, by_file);
    for (size_t i = 0, end; i < pieces.n && !err; i = end) {
        for (end = i + 1; end < pieces.n; end++)
            if (!same_group(pieces.v[i].mapping, pieces.v[end].mapping))
                break;
        err = add_group(modules, &pieces.v[i], end - i);
    }
    hx_vec_free(&pieces);
    if (err)
        return err;
    if (modules->modules.n)
        qsort(modules->modules.v, modules->modules.n, sizeof *modules->modules.v, by_low);
    HX_TRY(place_segments(modules, mapping, n));
    sort_placed(modules);
    return NULL;
}

hx_error *hx_modules_create(pid_t pid, const struct hx_mapping *mapping, size_t n, hx_modules **ret)
{
    struct hx_modules *modules = calloc(1, sizeof *modules);
    HX_NEED(modules);
    modules->pid = hx_module_process(pid);
    pthread_mutex_init(&modules->lock, NULL);
    hx_reading_init(&modules->reading);
    hx_error *err = fill_modules(modules, mapping, n);
    if (err) {
        hx_modules_destroy(modules);
        return err;
    }
    *ret = modules;
    return NULL;
}

static hx_error *add_known(struct hx_modules *modules, const struct hx_known_module *known)
{
    struct hx_module_file file = {.fd = -1};
    HX_NEED(hx_vec_push(&modules->files, file));
    struct hx_module_file *kept = &modules->files.v[modules->files.n - 1];
    kept->path = strdup(known->path);
    kept->local = strdup(known->local ? known->local : "");
    HX_NEED(kept->path && kept->local);
    HX_FD int fd = known->local ? hx_module_file_open(0, kept) : -1;
    hx_error *err = fd >= 0 ? hx_elf_layout(fd, &kept->layout) : NULL;
    if (err && err->kind == HX_E_NOMEM)
        return err;
    hx_error_free(err);
    const struct hx_module module = {.file = modules->files.n - 1, .bias = known->bias};
    HX_NEED(hx_vec_push(&modules->modules, module));
    for (size_t i = 0; i < kept->layout.load.n; i++) {
        const struct hx_elf_segment *seg = &kept->layout.load.v[i];
        const uint64_t start = known->bias + seg->vaddr;
        if (start <= UINT64_MAX - seg->memsz)
            HX_NEED(hx_vec_push(&modules->placed,
                                (struct hx_placed){.start = start,
                                                   .file_end = start + seg->filesz,
                                                   .end = start + seg->memsz,
                                                   .offset = seg->offset,
                                                   .flags = seg->flags,
                                                   .module = (uint32_t)modules->modules.n - 1}));
    }
    return NULL;
}

hx_error *hx_modules_create_known(const struct hx_known_module *known, size_t n, hx_modules **ret)
{
    hx_modules *modules = NULL;
    HX_TRY(hx_modules_create(0, NULL, 0, &modules));
    hx_error *err = NULL;
    for (size_t i = 0; i < n && !err; i++)
        err = add_known(modules, &known[i]);
    if (err) {
        hx_modules_destroy(modules);
        return err;
    }
    sort_placed(modules);
    *ret = modules;
    return NULL;
}

void hx_modules_destroy(hx_modules *modules)
{
    if (!modules)
        return;
    for (size_t i = 0; i < modules->modules.n; i++) {
        hx_vec_free(&modules->modules.v[i].symbols);
        free(modules->modules.v[i].names);
        free(modules->modules.v[i].build_id);
    }
    for (size_t i = 0; i < modules->files.n; i++) {
        struct hx_module_file *file = &modules->files.v[i];
        hx_elf_layout_deinit(&file->layout);
        free(file->path);
        free(file->local);
        free(file->named);
        if (file->fd >= 0)
            close(file->fd);
    }
    hx_vec_free(&modules->modules);
    hx_vec_free(&modules->files);
    hx_vec_free(&modules->placed);
    hx_reading_deinit(&modules->reading);
    pthread_mutex_destroy(&modules->lock);
    free(modules);
}

struct hx_reading *hx_modules_reading(hx_modules *modules)
{
    return &modules->reading;
}

/* --- asking ------------------------------------------------------------------ */

size_t hx_modules_count(const hx_modules *modules)
{
    return modules->modules.n;
}

const char *hx_module_path(const hx_modules *modules, size_t i)
{
    return modules->files.v[modules->modules.v[i].file].path;
}

const char *hx_module_name(const hx_modules *modules, size_t i)
{
    const char *path = hx_module_path(modules, i);
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

uint64_t hx_module_bias(const hx_modules *modules, size_t i)
{
    return modules->modules.v[i].bias;
}

const struct hx_placed *hx_modules_placed(const hx_modules *modules, uint64_t addr)
{
    size_t low = HX_LOWER_BOUND(modules->placed.n, i, modules->placed.v[i].end <= addr);
    return low < modules->placed.n && modules->placed.v[low].start <= addr ? &modules->placed.v[low]
                                                                           : NULL;
}

size_t hx_modules_find(const hx_modules *modules, uint64_t addr)
{
    const struct hx_placed *placed = hx_modules_placed(modules, addr);
    return placed ? placed->module : SIZE_MAX;
}

bool hx_modules_segment(const hx_modules *modules, size_t k, uint64_t *ret_start, uint64_t *ret_end)
{
    if (k >= modules->placed.n)
        return false;
    *ret_start = modules->placed.v[k].start;
    *ret_end = modules->placed.v[k].end;
    return true;
}

size_t hx_module_data(const hx_modules *modules, size_t i, uint64_t (*ranges)[2], size_t max)
{
    const struct hx_module *module = &modules->modules.v[i];
    const struct hx_elf_layout *layout = &modules->files.v[module->file].layout;
    size_t n = 0;
    for (size_t k = 0; k < layout->load.n && n < max; k++) {
        /* As it was placed: a header may claim more than there is. */
        uint64_t start = module->bias + layout->load.v[k].vaddr;
        const struct hx_placed *placed = hx_modules_placed(modules, start);
        if (!(layout->load.v[k].flags & PF_W) || !placed || placed->start != start ||
            placed->module != i)
            continue;
        ranges[n][0] = placed->start;
        ranges[n][1] = placed->end;
        n++;
    }
    return n;
}

bool hx_modules_is_code(const hx_modules *modules, uint64_t addr)
{
    const struct hx_placed *placed = hx_modules_placed(modules, addr);
    return placed && placed->flags & PF_X && addr < placed->file_end;
}

/* Has the loader left these bytes as they are in the file? */
static bool is_constant(const hx_modules *modules, const struct hx_placed *placed, uint64_t addr,
                        size_t len)
{
    if (!(placed->flags & PF_W))
        return true;
    const struct hx_module *module = &modules->modules.v[placed->module];
    const struct hx_elf_layout *layout = &modules->files.v[module->file].layout;
    uint64_t vaddr = addr - module->bias;
    return vaddr >= layout->relro_start && vaddr < layout->relro_end &&
           len <= layout->relro_end - vaddr;
}

int hx_module_file_use(const hx_modules *modules, const struct hx_module_file *file,
                       int *ret_opened)
{
    if (file->fd < 0)
        *ret_opened = hx_module_file_open(modules->pid, file);
    return file->fd < 0 ? *ret_opened : file->fd;
}

/* The file's bytes for [addr, addr + len), which is in the file's part of the segment. */
static bool read_segment_file(const hx_modules *modules, const struct hx_placed *placed,
                              uint64_t addr, void *dst, size_t len)
{
    const struct hx_module_file *file = &modules->files.v[modules->modules.v[placed->module].file];
    HX_FD int opened = -1;
    int fd = hx_module_file_use(modules, file, &opened);
    uint64_t offset = placed->offset + (addr - placed->start);
    if (fd < 0 || offset > INT64_MAX - len)
        return false;
    return pread(fd, dst, len, (off_t)offset) == (ssize_t)len;
}

bool hx_module_read(hx_modules *modules, uint64_t addr, void *dst, size_t len)
{
    const struct hx_placed *placed = hx_modules_placed(modules, addr);
    return placed && addr < placed->file_end && len <= placed->file_end - addr &&
           is_constant(modules, placed, addr, len) &&
           read_segment_file(modules, placed, addr, dst, len);
}

/* A file is mapped in whole pages: behind a segment the file goes on up to the end of the page. */
static size_t read_behind(const hx_modules *modules, uint64_t addr, void *dst, size_t len)
{
    const uint64_t page = 4096, end = addr / page * page + page;
    const struct hx_placed *placed = hx_modules_placed(modules, addr / page * page);
    if (!placed || placed->end != placed->file_end)
        return 0;
    if (len > end - addr)
        len = end - addr;
    return read_segment_file(modules, placed, addr, dst, len) ? len : 0;
}

size_t hx_module_read_initial(hx_modules *modules, uint64_t addr, void *dst, size_t len)
{
    const struct hx_placed *placed = hx_modules_placed(modules, addr);
    if (!len)
        return 0;
    if (!placed)
        return read_behind(modules, addr, dst, len);
    uint64_t end = addr < placed->file_end ? placed->file_end : placed->end;
    if (len > end - addr)
        len = end - addr;
    if (addr >= placed->file_end)
        memset(dst, 0, len);
    else if (!read_segment_file(modules, placed, addr, dst, len))
        return 0;
    return len;
}
