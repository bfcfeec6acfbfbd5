/* code.c - the executable files of a target: opened once, kept, read where they say. */
#include "sym/code/code_private.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "sym/reader/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define OPEN_MAX_FILES 256 /* descriptors kept open for files */
#define VDSO_MAX       ((uint64_t)1 << 20)
#define VDSO           "[vdso]"
#define START_BYTES    64 /* of code in which a process begins */

hx_error *hx_code_create(hx_code **ret)
{
    hx_code *code = calloc(1, sizeof *code);
    HX_NEED(code);
    hx_reading_init(&code->reading);
    pthread_mutex_init(&code->adding, NULL);
    pthread_mutex_init(&code->names, NULL);
    atomic_store(&code->users, 1);
    code->cache = HX_TYPE_CACHE_NONE;
    *ret = code;
    return NULL;
}

hx_code *hx_code_share(hx_code *code)
{
    atomic_fetch_add(&code->users, 1);
    return code;
}

static void close_fd(int fd)
{
    if (fd >= 0)
        close(fd);
}

static void deinit_file(struct hx_code_file *file)
{
    hx_code_reader_destroy(file->dwarf);
    hx_vec_free(&file->once);
    hx_vec_free(&file->types);
    free(file->type_block);
    free(file->type_source);
    hx_code_symbols_deinit(&file->symbols);
    hx_elf_layout_deinit(&file->file.layout);
    close_fd(file->file.fd);
    free(file->file.path);
    free(file->file.local);
    free(file->build_id);
    free(file->cfi_hdr);
    free(file->cfi_frame);
    pthread_mutex_destroy(&file->lock);
}

void hx_code_destroy(hx_code *code)
{
    if (!code || atomic_fetch_sub(&code->users, 1) > 1)
        return;
    for (size_t i = 0, n = hx_code_count(code); i < n; i++)
        deinit_file(hx_code_file_at(code, (uint32_t)i));
    hx_reader_stem_stop(code->stem);
    hx_type_cache_close(&code->cache);
    for (size_t i = 0; i < HX_CODE_BLOCKS; i++)
        free(atomic_load(&code->files.block[i]));
    for (size_t i = 0; i < code->n_roots; i++)
        close_fd(code->roots[i].fd);
    free(code->answers);
    hx_code_store_free(&code->store);
    hx_reading_deinit(&code->reading);
    pthread_mutex_destroy(&code->adding);
    pthread_mutex_destroy(&code->names);
    free(code);
}

struct hx_reading *hx_code_reading(hx_code *code)
{
    return &code->reading;
}

/* --- numbers ----------------------------------------------------------------- */

/* The block of a number, and its place there. */
static size_t block_of(uint32_t number, size_t *ret_at)
{
    uint64_t shifted = (uint64_t)number + HX_CODE_FIRST;
    size_t block = (size_t)(__builtin_clzll(HX_CODE_FIRST) - __builtin_clzll(shifted));
    *ret_at = (size_t)(shifted - ((uint64_t)HX_CODE_FIRST << block));
    return block;
}

struct hx_code_file *hx_code_file_at(const hx_code *code, uint32_t number)
{
    size_t at, block = block_of(number, &at);
    return atomic_load_explicit(&code->files.block[block], memory_order_acquire) + at;
}

/* Where the next file goes; it has its number when the count says so. NULL: no memory. */
static struct hx_code_file *next_file(hx_code *code)
{
    size_t at, block = block_of((uint32_t)hx_code_count(code), &at);
    if (block >= HX_CODE_BLOCKS)
        return NULL;
    struct hx_code_file *files = atomic_load(&code->files.block[block]);
    if (!files && (files = calloc((size_t)HX_CODE_FIRST << block, sizeof *files)))
        atomic_store_explicit(&code->files.block[block], files, memory_order_release);
    return files ? files + at : NULL;
}

/* --- opening ----------------------------------------------------------------- */

/* The kernel gives each process the same image; the one of this process is at hand. */
static int open_vdso(void)
{
    const unsigned char *image = (const unsigned char *)getauxval(AT_SYSINFO_EHDR);
    if (!image || memcmp(image, ELFMAG, SELFMAG) != 0 || image[EI_CLASS] != ELFCLASS64)
        return -1;
    Elf64_Ehdr header;
    memcpy(&header, image, sizeof header);
    uint64_t bytes = header.e_shoff + (uint64_t)header.e_shnum * header.e_shentsize;
    if (bytes < sizeof header || bytes > VDSO_MAX)
        return -1;
    int fd = memfd_create("vdso", MFD_CLOEXEC);
    if (fd >= 0 && pwrite(fd, image, bytes, 0) != (ssize_t)bytes) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static bool is_vdso(const struct hx_code_file *file)
{
    return file->file.path[0] == '[';
}

static int open_code_file(const struct hx_code_file *file)
{
    if (is_vdso(file) && !file->file.local)
        return open_vdso();
    return hx_module_file_open(file->pid, &file->file);
}

/* Is it still what it was when it was first opened? Only asked of those that were let go: an
 * inode's number can be another file's then. */
static bool is_unchanged(const struct hx_code_file *file, int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && (uint64_t)st.st_size == file->bytes &&
           (uint64_t)st.st_mtim.tv_sec == file->mtime_sec &&
           (uint64_t)st.st_mtim.tv_nsec == file->mtime_nsec;
}

int hx_code_file_fd(struct hx_code_file *file, bool *ret_close)
{
    *ret_close = false;
    if (file->file.fd >= 0 || !file->opened)
        return file->file.fd;
    int fd = open_code_file(file);
    if (fd >= 0 && !is_vdso(file) && !is_unchanged(file, fd)) {
        close(fd);
        fd = -1;
    }
    *ret_close = fd >= 0;
    return fd;
}

/* What can be known at once. A file that is none of ours stays without a layout. */
static void read_code_file(struct hx_code_file *file, int fd)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return;
    file->opened = true;
    file->bytes = (uint64_t)st.st_size;
    file->mtime_sec = (uint64_t)st.st_mtim.tv_sec;
    file->mtime_nsec = (uint64_t)st.st_mtim.tv_nsec;
    hx_error *err = hx_elf_layout(fd, &file->file.layout);
    file->sound = !err;
    hx_error_free(err);
    Elf64_Ehdr header;
    if (file->sound && pread(fd, &header, sizeof header, 0) == sizeof header)
        file->entry = header.e_entry;
    char build_id[HX_BUILD_ID];
    if (file->sound && hx_build_id(fd, build_id) && *build_id)
        file->build_id = strdup(build_id);
}

/* The root folder of the process, for files that are looked for later, when the process may be
 * gone. */
static size_t find_root(hx_code *code, pid_t pid)
{
    struct stat root, mounts;
    HX_FD int fd = hx_module_root(pid, &mounts);
    if (fd < 0 || fstat(fd, &root) < 0)
        return SIZE_MAX;
    for (size_t i = 0; i < code->n_roots; i++)
        if (code->roots[i].dev == root.st_dev && code->roots[i].inode == root.st_ino &&
            code->roots[i].mounts == mounts.st_ino)
            return i;
    if (code->n_roots == HX_CODE_ROOTS)
        return SIZE_MAX;
    code->roots[code->n_roots] = (struct hx_code_root){
        .dev = root.st_dev, .inode = root.st_ino, .mounts = mounts.st_ino, .fd = fd};
    fd = -1;
    return code->n_roots++;
}

struct hx_debug_search hx_code_debug_search(hx_code *code, const struct hx_code_file *file)
{
    return (struct hx_debug_search){
        .root = file->root == SIZE_MAX ? -1 : code->roots[file->root].fd,
        .path = file->file.path,
        .build_id = file->build_id ? file->build_id : "",
        .reading = &code->reading,
    };
}

static bool is_same_file(const struct hx_code_file *file, const struct hx_mapping *mapping)
{
    if (mapping->path[0] == '[')
        return strcmp(file->file.path, mapping->path) == 0;
    return file->file.path[0] != '[' && file->file.inode == mapping->inode &&
           file->file.dev == mapping->dev;
}

/* A number is given to a deleted file's successor only when its descriptor was let go. */
static uint32_t find_file(const hx_code *code, const struct hx_mapping *mapping, const char *path)
{
    for (size_t i = 0, n = hx_code_count(code); i < n; i++) {
        const struct hx_code_file *file = hx_code_file_at(code, (uint32_t)i);
        if (is_same_file(file, mapping) && (file->kept || !strcmp(file->file.path, path)))
            return (uint32_t)i;
    }
    return HX_NO_FILE;
}

static hx_error *add_code_file(hx_code *code, pid_t pid, const struct hx_mapping *mapping,
                               uint32_t *ret)
{
    struct hx_code_file *file = next_file(code);
    HX_NEED(file);
    *file = (struct hx_code_file){.file = {.dev = mapping->dev,
                                           .inode = mapping->inode,
                                           .map_start = mapping->start,
                                           .map_end = mapping->end,
                                           .deleted = mapping->deleted,
                                           .fd = -1},
                                  .pid = hx_module_process(pid),
                                  .root = find_root(code, pid)};
    if (!hx_module_take_names(&file->file, mapping)) {
        free(file->file.path);
        free(file->file.local);
        return hx_error_nomem();
    }
    pthread_mutex_init(&file->lock, NULL);
    HX_FD int fd = open_code_file(file);
    if (fd >= 0)
        read_code_file(file, fd);
    if (file->sound && code->n_open < OPEN_MAX_FILES) {
        file->file.fd = fd;
        file->kept = true;
        fd = -1;
        code->n_open++;
    }
    *ret = (uint32_t)atomic_fetch_add_explicit(&code->files.n, 1, memory_order_release);
    return NULL;
}

hx_error *hx_code_add(hx_code *code, pid_t pid, const struct hx_mapping *mapping, uint32_t *ret)
{
    hx_error *err = NULL;
    bool vdso = mapping->path && strcmp(mapping->path, VDSO) == 0;
    if (!mapping->path || (!vdso && (mapping->path[0] != '/' || !mapping->inode))) {
        *ret = HX_NO_FILE;
        return NULL;
    }
    HX_FREE char *path = hx_module_clean_path(mapping);
    HX_NEED(path);
    pthread_mutex_lock(&code->adding);
    *ret = find_file(code, mapping, path);
    if (*ret == HX_NO_FILE)
        err = add_code_file(code, pid, mapping, ret);
    pthread_mutex_unlock(&code->adding);
    return err;
}

/* --- what a file says of itself ---------------------------------------------- */

size_t hx_code_count(const hx_code *code)
{
    return atomic_load_explicit(&code->files.n, memory_order_acquire);
}

const char *hx_code_path(const hx_code *code, uint32_t file)
{
    return hx_code_file_at(code, file)->file.path;
}

const char *hx_code_name(const hx_code *code, uint32_t file)
{
    const char *path = hx_code_path(code, file);
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

const char *hx_code_build_id(const hx_code *code, uint32_t file)
{
    const char *build_id = hx_code_file_at(code, file)->build_id;
    return build_id ? build_id : "";
}

bool hx_code_bias(const hx_code *code, uint32_t file, const struct hx_mapping *mapping,
                  uint64_t *ret)
{
    const struct hx_code_file *of = hx_code_file_at(code, file);
    uint64_t used;
    return of->sound && hx_module_find_bias(&of->file.layout, mapping, ret, &used);
}

/* The segment whose bytes in the file hold vaddr; NULL when none does. */
static const struct hx_elf_segment *find_segment(const struct hx_code_file *file, uint64_t vaddr)
{
    for (size_t i = 0; i < file->file.layout.load.n; i++) {
        const struct hx_elf_segment *seg = &file->file.layout.load.v[i];
        if (vaddr >= seg->vaddr && vaddr - seg->vaddr < seg->filesz)
            return seg;
    }
    return NULL;
}

bool hx_code_file_offset(const hx_code *code, uint32_t file, uint64_t vaddr, uint64_t *ret)
{
    const struct hx_elf_segment *seg = find_segment(hx_code_file_at(code, file), vaddr);
    if (!seg)
        return false;
    *ret = seg->offset + (vaddr - seg->vaddr);
    return true;
}

const char *hx_code_open_path(hx_code *code, uint32_t i)
{
    struct hx_code_file *file = hx_code_file_at(code, i);
    bool opened;
    if (!file->sound || is_vdso(file))
        return NULL;
    pthread_mutex_lock(&file->lock);
    if (file->file.fd < 0)
        file->file.fd = hx_code_file_fd(file, &opened); /* from now on it is kept */
    bool good = file->file.fd >= 0;
    if (good && !file->fd_path[0])
        snprintf(file->fd_path, sizeof file->fd_path, "/proc/self/fd/%d", file->file.fd);
    pthread_mutex_unlock(&file->lock);
    return good ? file->fd_path : NULL;
}

/* --- unwind tables ----------------------------------------------------------- */

void *hx_code_file_read(const struct hx_code_file *file, int fd, uint64_t vaddr, uint64_t size,
                        struct hx_cfi_bytes *ret)
{
    const struct hx_elf_segment *seg = find_segment(file, vaddr);
    if (!seg || !size)
        return NULL;
    uint64_t at = vaddr - seg->vaddr, offset = seg->offset + at;
    if (size > seg->filesz - at)
        size = seg->filesz - at;
    if (offset >= file->bytes)
        return NULL;
    if (size > file->bytes - offset)
        size = file->bytes - offset;
    uint8_t *bytes = size <= HX_READ_TABLE ? malloc(size) : NULL;
    ssize_t n = bytes ? pread(fd, bytes, size, (off_t)offset) : -1;
    if (n <= 0) {
        free(bytes);
        return NULL;
    }
    *ret = (struct hx_cfi_bytes){.bytes = bytes, .len = (size_t)n, .addr = vaddr};
    return bytes;
}

struct frame_section {
    uint64_t vaddr, size;
};

static bool match_frame(void *context, const struct hx_elf_section *section)
{
    struct frame_section *frame = context;
    if (strcmp(section->name, ".eh_frame") != 0 || section->type == SHT_NOBITS)
        return true;
    *frame = (struct frame_section){section->vaddr, section->size};
    return false;
}

/* Where .eh_frame begins, by the pointer in .eh_frame_hdr. */
static bool read_eh_frame_ptr(const struct hx_cfi_bytes *hdr, uint64_t *ret)
{
    if (hdr->len < 12 || hdr->bytes[0] != 1)
        return false;
    uint8_t encoding = hdr->bytes[1];
    uint64_t value;
    uint32_t half;
    memcpy(&value, hdr->bytes + 4, sizeof value);
    memcpy(&half, hdr->bytes + 4, sizeof half);
    switch (encoding & 0x0f) {
    case 0x00: /* a pointer */
    case 0x04: /* udata8 */
    case 0x0c: /* sdata8 */
        break;
    case 0x03: /* udata4 */
        value = half;
        break;
    case 0x0b: /* sdata4 */
        value = (uint64_t)(int64_t)(int32_t)half;
        break;
    default:
        return false;
    }
    switch (encoding & 0xf0) {
    case 0x00:
        break;
    case 0x10: /* relative to the pointer itself */
        value += hdr->addr + 4;
        break;
    case 0x30: /* relative to the table */
        value += hdr->addr;
        break;
    default:
        return false;
    }
    *ret = value;
    return true;
}

static void load_cfi(struct hx_code_file *file)
{
    bool opened;
    int fd = hx_code_file_fd(file, &opened);
    if (fd < 0)
        return;
    const struct hx_elf_layout *layout = &file->file.layout;
    file->cfi_hdr =
        hx_code_file_read(file, fd, layout->unwind_start, layout->unwind_size, &file->cfi.hdr);
    struct frame_section frame = {0};
    hx_error_free(hx_elf_each_section(fd, match_frame, &frame));
    if (!frame.size && read_eh_frame_ptr(&file->cfi.hdr, &frame.vaddr))
        frame.size = UINT64_MAX;
    file->cfi_frame = hx_code_file_read(file, fd, frame.vaddr, frame.size, &file->cfi.frame);
    if (opened)
        close(fd);
}

bool hx_code_file_cfi(struct hx_code_file *file, struct hx_cfi *ret)
{
    pthread_mutex_lock(&file->lock);
    if (!file->cfi_tried && file->sound)
        load_cfi(file);
    file->cfi_tried = true;
    struct hx_cfi cfi = file->cfi;
    pthread_mutex_unlock(&file->lock);
    if (!cfi.frame.len)
        return false;
    *ret = cfi;
    return true;
}

bool hx_code_cfi(hx_code *code, uint32_t i, struct hx_cfi *ret)
{
    return hx_code_file_cfi(hx_code_file_at(code, i), ret);
}

/* --- functions by name ------------------------------------------------------- */

static void load_symbols(hx_code *code, struct hx_code_file *file)
{
    bool opened;
    int fd = hx_code_file_fd(file, &opened);
    if (fd < 0)
        return;
    const struct hx_debug_search search = hx_code_debug_search(code, file);
    HX_FD int debug = hx_debug_open(&search, fd);
    HX_FD int packed = hx_debug_open_packed(&search, fd);
    int fds[] = {fd, debug, packed};
    hx_error_free(hx_code_symbols_read(&file->file, &code->reading, fds, 3, &file->symbols));
    if (opened)
        close(fd);
}

bool hx_code_load_symbols(hx_code *code, struct hx_code_file *file)
{
    pthread_mutex_lock(&file->lock);
    if (!file->symbols_tried && file->sound)
        load_symbols(code, file);
    if (!file->symbols_tried && hx_reading_ended(&code->reading))
        hx_code_symbols_deinit(&file->symbols);
    else
        file->symbols_tried = true;
    bool loaded = file->symbols_tried;
    pthread_mutex_unlock(&file->lock);
    return loaded;
}

bool hx_code_function(hx_code *code, uint32_t i, const char *name, uint64_t *ret_vaddr,
                      uint64_t *ret_size)
{
    struct hx_code_file *file = hx_code_file_at(code, i);
    const struct hx_code_function *function =
        hx_code_load_symbols(code, file) ? hx_code_symbols_named(&file->symbols, name) : NULL;
    if (!function)
        return false;
    *ret_vaddr = function->vaddr;
    *ret_size = function->size;
    return true;
}

const char *hx_code_symbol(hx_code *code, uint32_t i, uint64_t vaddr, uint64_t *ret_offset)
{
    struct hx_code_file *file = hx_code_file_at(code, i);
    const struct hx_code_symbol *symbol =
        hx_code_load_symbols(code, file) ? hx_code_symbols_find(&file->symbols, vaddr) : NULL;
    if (!symbol)
        return NULL;
    *ret_offset = vaddr - symbol->start;
    return file->symbols.names.v + symbol->name;
}

bool hx_code_is_start(hx_code *code, uint32_t i, uint64_t vaddr)
{
    static const char *const names[] = {"_start", "_dl_start_user", "_dlstart"};
    const struct hx_code_file *file = hx_code_file_at(code, i);
    uint64_t offset;
    if (!file->entry || vaddr - file->entry >= START_BYTES)
        return false;
    const char *symbol = hx_code_symbol(code, i, vaddr, &offset);
    for (size_t k = 0; symbol && k < sizeof names / sizeof *names; k++)
        if (strcmp(symbol, names[k]) == 0)
            return true;
    return !symbol;
}
