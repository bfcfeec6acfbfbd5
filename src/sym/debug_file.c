/* debug_file.c - the debug information that was split off from a file.
 *
 * Separate files are looked for in the root folder of the target, then in our own, by build-id and
 * by .gnu_debuglink; what several of them share by .gnu_debugaltlink. One is taken only when its
 * build-id, or else its checksum, proves that it belongs. A packed symbol table inside the file
 * (.gnu_debugdata) is unpacked. Nothing is fetched from a network.
 */
#include "sym/debug_file.h"

#include "sym/elf.h"
#include "sym/module.h"
#include "sym/reading.h"

#include "base/cleanup.h"
#include "base/text.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <lzma.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <zlib.h>

#define LINK_MAX_BYTES ((size_t)8 << 10) /* of a section that names another file */
#define CHUNK          ((size_t)256 << 10)

/* --- sections by name -------------------------------------------------------- */

struct wanted {
    const char *name;
    uint64_t offset, size;
    bool found;
};

static bool match_section(void *context, const struct hx_elf_section *section)
{
    struct wanted *wanted = context;
    if (strcmp(section->name, wanted->name) != 0 || section->type == SHT_NOBITS)
        return true;
    wanted->offset = section->offset;
    wanted->size = section->size;
    wanted->found = true;
    return false;
}

static bool has_section(int fd, const char *name)
{
    struct wanted wanted = {.name = name};
    hx_error_free(hx_elf_each_section(fd, match_section, &wanted));
    return wanted.found;
}

/* The bytes of a section and a zero behind them; NULL when it is not there or too large. */
static char *read_section(int fd, const char *name, size_t max, size_t *ret_len)
{
    struct wanted wanted = {.name = name};
    hx_error_free(hx_elf_each_section(fd, match_section, &wanted));
    if (!wanted.found || !wanted.size || wanted.size > max || wanted.offset > INT64_MAX - max)
        return NULL;
    char *bytes = malloc(wanted.size + 1);
    if (!bytes)
        return NULL;
    if (pread(fd, bytes, wanted.size, (off_t)wanted.offset) != (ssize_t)wanted.size) {
        free(bytes);
        return NULL;
    }
    bytes[wanted.size] = 0;
    *ret_len = wanted.size;
    return bytes;
}

/* --- opening ----------------------------------------------------------------- */

/* Opens an absolute path as seen from a root folder; -1 when there is no such regular file. */
static int open_below(int root, const char *path)
{
    struct stat st;
    if (root < 0)
        return hx_module_open_regular(path, &st);
    struct open_how how = {.flags = O_PATH | O_CLOEXEC,
                           .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
    HX_FD int handle = (int)syscall(SYS_openat2, root, path, &how, sizeof how);
    if (handle < 0)
        return -1;
    char again[64];
    snprintf(again, sizeof again, "/proc/self/fd/%d", handle);
    return hx_module_open_regular(again, &st);
}

static bool format_build_id(void *context, const struct hx_elf_note *note)
{
    char *hex = context;
    if (note->type != NT_GNU_BUILD_ID || note->owner_len != 3 || memcmp(note->owner, "GNU", 3) ||
        note->desc_len == 0 || note->desc_len > (HX_BUILD_ID - 1) / 2)
        return true;
    for (size_t i = 0; i < note->desc_len; i++)
        snprintf(hex + 2 * i, 3, "%02x", note->desc[i]);
    return false;
}

bool hx_build_id(int fd, char ret[HX_BUILD_ID])
{
    ret[0] = 0;
    hx_error *err = hx_elf_each_section_note(fd, format_build_id, ret);
    bool is_elf = !err;
    hx_error_free(err);
    if (is_elf && !ret[0])
        hx_error_free(hx_elf_each_note(fd, format_build_id, ret));
    return is_elf;
}

static bool has_build_id(int fd, const char *build_id)
{
    char own[HX_BUILD_ID];
    return hx_build_id(fd, own) && strcmp(own, build_id) == 0;
}

/* The file of a build-id below /usr/lib/debug of the target, then of our own root; -1: none. */
static int open_by_id(int root, const char *build_id)
{
    if (strlen(build_id) < 4)
        return -1;
    char path[64 + HX_BUILD_ID];
    snprintf(path, sizeof path, "/usr/lib/debug/.build-id/%.2s/%s.debug", build_id, build_id + 2);
    for (int own = root < 0; own < 2; own++) {
        int fd = open_below(own ? -1 : root, path);
        if (fd >= 0 && has_build_id(fd, build_id))
            return fd;
        if (fd >= 0)
            close(fd);
    }
    return -1;
}

/* --- .gnu_debuglink ---------------------------------------------------------- */

/* The checksum that objcopy puts down. */
static bool debuglink_checksum(const struct hx_reading *reading, int fd, uint64_t size,
                               uint32_t *ret)
{
    uint32_t crc = 0;
    uint64_t at = 0;
    HX_FREE uint8_t *chunk = malloc(CHUNK);
    while (chunk && at < size && !hx_reading_ended(reading)) {
        ssize_t n = pread(fd, chunk, CHUNK, (off_t)at);
        if (n <= 0)
            break;
        crc = (uint32_t)crc32(crc, chunk, (uInt)n);
        at += (uint64_t)n;
    }
    *ret = crc;
    return at == size;
}

struct debuglink {
    const char *name, *build_id;
    uint32_t crc;
    uint64_t dev, inode; /* of the file itself, which is not its own debug file */
};

static bool is_linked(struct hx_reading *reading, int fd, const char *path,
                      const struct debuglink *link)
{
    struct stat st;
    char build_id[HX_BUILD_ID];
    uint32_t crc;
    if (fstat(fd, &st) < 0 || (st.st_dev == link->dev && st.st_ino == link->inode) ||
        !hx_build_id(fd, build_id))
        return false;
    if (build_id[0] && *link->build_id)
        return strcmp(build_id, link->build_id) == 0;
    if ((uint64_t)st.st_size > HX_READ_CHECKED) {
        hx_reading_leave(reading, path,
                         "debug information whose checksum would be one of more than 1 GiB");
        return false;
    }
    return debuglink_checksum(reading, fd, (uint64_t)st.st_size, &crc) && crc == link->crc;
}

static int open_linked(const struct hx_debug_search *search, const struct debuglink *link)
{
    static const char *const forms[] = {"%.*s/%s", "%.*s/.debug/%s", "/usr/lib/debug%.*s/%s"};
    const char *path = search->path, *slash = strrchr(path, '/');
    int dir = slash && slash - path < PATH_MAX ? (int)(slash - path) : 0;
    for (int own = search->root < 0; own < 2; own++) {
        for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
            char found[2 * PATH_MAX];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
            int n = snprintf(found, sizeof found, forms[i], dir, path, link->name);
#pragma GCC diagnostic pop
            int fd =
                n > 0 && (size_t)n < sizeof found ? open_below(own ? -1 : search->root, found) : -1;
            if (fd >= 0 && is_linked(search->reading, fd, found, link))
                return fd;
            if (fd >= 0)
                close(fd);
        }
    }
    return -1;
}

static int open_debuglink(const struct hx_debug_search *search, int fd)
{
    size_t len;
    struct stat st;
    HX_FREE char *section = read_section(fd, ".gnu_debuglink", LINK_MAX_BYTES, &len);
    size_t name = section ? strlen(section) : 0, crc = (name + 4) & ~(size_t)3;
    if (!name || strchr(section, '/') || crc + 4 > len || fstat(fd, &st) < 0)
        return -1;
    struct debuglink link = {
        .name = section, .build_id = search->build_id, .dev = st.st_dev, .inode = st.st_ino};
    memcpy(&link.crc, section + crc, sizeof link.crc);
    return open_linked(search, &link);
}

/* --- .gnu_debugaltlink ------------------------------------------------------- */

/* What a file of debug information shares with others: named by an absolute path, or by one from
 * its own folder, which is either that of the program or one below /usr/lib/debug. */
int hx_debug_open_shared(const struct hx_debug_search *search, int fd)
{
    size_t len;
    HX_FREE char *section = read_section(fd, ".gnu_debugaltlink", LINK_MAX_BYTES, &len);
    size_t name = section ? strlen(section) + 1 : 0;
    if (!section || name >= len || len - name > (HX_BUILD_ID - 1) / 2)
        return -1;
    char build_id[HX_BUILD_ID];
    for (size_t i = name; i < len; i++)
        snprintf(build_id + 2 * (i - name), 3, "%02x", (unsigned char)section[i]);
    int shared = open_by_id(search->root, build_id);
    for (int own = search->root < 0; shared < 0 && own < 2; own++) {
        /* With ../ steps, below /usr/lib/debug, it mostly ends at .dwz there. */
        const char *dwz = strstr(section, ".dwz/");
        struct hx_text path = {0};
        if (section[0] == '/')
            hx_text_puts(&path, section);
        else if (dwz)
            hx_text_putf(&path, "/usr/lib/debug/%s", dwz);
        if (path.n && !path.failed)
            shared = open_below(own ? -1 : search->root, hx_text_str(&path));
        hx_text_free(&path);
        if (shared >= 0 && !has_build_id(shared, build_id)) {
            close(shared);
            shared = -1;
        }
    }
    return shared;
}

/* --- .gnu_debugdata ---------------------------------------------------------- */

/* Unpacks into `out`; not all of it when it is too much, or reading is to end. */
static bool unpack(const struct hx_reading *reading, lzma_stream *stream, int out)
{
    HX_FREE uint8_t *chunk = malloc(CHUNK);
    lzma_ret state = chunk ? LZMA_OK : LZMA_MEM_ERROR;
    while (state == LZMA_OK && stream->total_out < HX_READ_UNPACKED && !hx_reading_ended(reading)) {
        off_t at = (off_t)stream->total_out;
        stream->next_out = chunk;
        stream->avail_out = CHUNK;
        state = lzma_code(stream, LZMA_FINISH);
        size_t n = CHUNK - stream->avail_out;
        if (pwrite(out, chunk, n, at) != (ssize_t)n)
            return false;
    }
    return state == LZMA_STREAM_END;
}

int hx_debug_open_packed(const struct hx_debug_search *search, int fd)
{
    size_t len;
    HX_FREE char *packed = read_section(fd, ".gnu_debugdata", HX_READ_PACKED, &len);
    lzma_stream stream = LZMA_STREAM_INIT;
    if (!packed || lzma_stream_decoder(&stream, HX_READ_UNPACKER, 0) != LZMA_OK)
        return -1;
    stream.next_in = (const uint8_t *)packed;
    stream.avail_in = len;
    int out = memfd_create("symbols", MFD_CLOEXEC);
    bool done = out >= 0 && unpack(search->reading, &stream, out);
    if (!done && stream.total_out >= HX_READ_UNPACKED)
        hx_reading_leave(search->reading, search->path,
                         "symbols in .gnu_debugdata, which unpacks to more than 128 MiB");
    lzma_end(&stream);
    if (out >= 0 && !done) {
        close(out);
        out = -1;
    }
    return out;
}

bool hx_debug_is_inside(int fd)
{
    return has_section(fd, ".debug_info") || has_section(fd, ".zdebug_info");
}

int hx_debug_open(const struct hx_debug_search *search, int fd)
{
    if (hx_debug_is_inside(fd))
        return -1;
    int found = *search->build_id ? open_by_id(search->root, search->build_id) : -1;
    return found < 0 && search->path[0] == '/' ? open_debuglink(search, fd) : found;
}

/* --- found later ------------------------------------------------------------- */

enum { LOOKED_AT_MAX = 4096 }; /* files of one folder */

struct finding {
    const char *build_id;
    char *with, *without; /* debug information */
    bool other;
};

/* Is this what is looked for? `named`: so it should be. */
static void look_at(struct finding *finding, const char *path, bool named)
{
    struct stat st;
    char own[HX_BUILD_ID];
    if (finding->with)
        return;
    HX_FD int fd = hx_module_open_regular(path, &st);
    if (fd < 0 || !hx_build_id(fd, own))
        return;
    if (strcmp(own, finding->build_id) != 0)
        finding->other |= named;
    else if (hx_debug_is_inside(fd))
        finding->with = strdup(path);
    else if (!finding->without)
        finding->without = strdup(path);
}

static void look_for(struct finding *finding, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void look_for(struct finding *finding, const char *format, ...)
{
    struct hx_text path = {0};
    va_list args;
    va_start(args, format);
    hx_text_vputf(&path, format, args);
    va_end(args);
    if (!path.failed && path.n < PATH_MAX)
        look_at(finding, hx_text_str(&path), true);
    hx_text_free(&path);
}

static void look_by_id(struct finding *finding, const char *dir)
{
    const char *id = finding->build_id;
    look_for(finding, "%s/.build-id/%.2s/%s.debug", dir, id, id + 2);
    look_for(finding, "%s/%.2s/%s.debug", dir, id, id + 2);
    look_for(finding, "%s/%s.debug", dir, id);
}

static void look_in_folder(struct finding *finding, const char *dir)
{
    HX_DIR DIR *folder = opendir(dir);
    unsigned n = 0;
    for (struct dirent *entry; folder && n < LOOKED_AT_MAX && (entry = readdir(folder)); n++) {
        struct hx_text path = {0};
        hx_text_putf(&path, "%s/%s", dir, entry->d_name);
        if (!path.failed)
            look_at(finding, hx_text_str(&path), false);
        hx_text_free(&path);
    }
}

char *hx_debug_find(const char *dir, const char *path, const char *build_id, bool *ret_other)
{
    struct finding finding = {.build_id = build_id};
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const bool whole = path[0] == '/' && !strstr(path, "/../");
    *ret_other = false;
    if (strlen(build_id) < 4 || build_id[strspn(build_id, "0123456789abcdef")])
        return NULL;
    if (dir) {
        look_at(&finding, dir, false);
        look_by_id(&finding, dir);
        look_for(&finding, "%s/usr/lib/debug/.build-id/%.2s/%s.debug", dir, build_id, build_id + 2);
        for (int i = 0; i < 2 && whole; i++)
            look_for(&finding, i ? "%s%s.debug" : "%s%s", dir, path);
        look_for(&finding, "%s/%s", dir, name);
        look_for(&finding, "%s/%s.debug", dir, name);
        if (!finding.with)
            look_in_folder(&finding, dir);
    }
    if (whole)
        look_at(&finding, path, true);
    look_by_id(&finding, "/usr/lib/debug");
    *ret_other = finding.other;
    if (finding.with)
        free(hx_steal(finding.without));
    return finding.with ? finding.with : finding.without;
}

enum hx_debug_level hx_debug_level(const char *path, const char *build_id)
{
    struct stat st;
    const struct hx_debug_search search = {.root = -1, .path = path, .build_id = build_id};
    HX_FD int fd = hx_module_open_regular(path, &st);
    if (fd < 0)
        return HX_DEBUG_NOTHING;
    HX_FD int split = hx_debug_open(&search, fd);
    if (hx_debug_is_inside(split < 0 ? fd : split))
        return HX_DEBUG_TYPES;
    return has_section(split < 0 ? fd : split, ".symtab") ? HX_DEBUG_NAMES : HX_DEBUG_NOTHING;
}
