/* fuzz_elf.c - mutated programs and libraries, as a target may have mapped them: whatever heapx
 * reads of such a file is read. None may crash, abort, hang or be named without end.
 *
 * Most mutations fall into what matters: a driver of its own changes bytes of sections that heapx
 * reads, and those of the .dwo file beside. test/fuzz/seeds_elf makes the seeds: DWARF 4 and 5 by
 * what compilers are there, split and packed, symbols in .gnu_debugdata, notes.
 */
#include "fuzz.h"
#include "base/text.h"
#include "record/bpf/unwind_table.h"
#include "sym/code/code.h"
#include "sym/elf.h"
#include "sym/module.h"
#include "sym/reading.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAMED, SYMBOLS, NOTHING, NO_FILE };
static const char *const kinds[] = {"with lines", "with symbols", "without names", "no program",
                                    NULL};

enum { PLACES = 24, LARGEST = 1 << 20 };

/* Where the files of a batch are: /tmp/hx-fuzz-elf-XXXXXX. */
struct context {
    char folder[64];
};

static void *begin(void)
{
    struct context *context = calloc(1, sizeof *context);
    if (!context)
        abort();
    strcpy(context->folder, "/tmp/hx-fuzz-elf-XXXXXX");
    if (!mkdtemp(context->folder))
        abort();
    return context;
}

static void end(void *opaque)
{
    struct context *context = opaque;
    static const char *const names[] = {"program", "split.dwo"};
    char path[128];
    for (size_t i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", context->folder, names[i]);
        unlink(path);
    }
    rmdir(context->folder);
    free(context);
}

/* --- changes where they matter --------------------------------------------------------- */

static bool is_read(const char *name)
{
    static const char *const wanted[] = {".debug", ".zdebug", ".eh_frame", ".symtab",     ".strtab",
                                         ".dyn",   ".rela",   ".note",     ".gnu_debug",  ".gnu.v",
                                         ".init",  ".plt",    ".shstrtab", ".data.rel.ro"};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (strncmp(name, wanted[i], strlen(wanted[i])) == 0)
            return true;
    return false;
}

/* A part of the file: headers, or a section that is read. */
static void pick_part(const uint8_t *bytes, size_t n, uint64_t *state, size_t *ret_at,
                      size_t *ret_n)
{
    Elf64_Ehdr header;
    Elf64_Shdr section, names;
    *ret_at = 0;
    *ret_n = n;
    if (n < sizeof header)
        return;
    memcpy(&header, bytes, sizeof header);
    size_t table = (size_t)header.e_shnum * sizeof section;
    *ret_n = sizeof header + (size_t)header.e_phnum * sizeof(Elf64_Phdr);
    if (header.e_shoff > n || table > n - header.e_shoff || header.e_shstrndx >= header.e_shnum ||
        *ret_n > n)
        return;
    memcpy(&names, bytes + header.e_shoff + header.e_shstrndx * sizeof names, sizeof names);
    for (unsigned tries = 0; tries < 64; tries++) {
        size_t i = hx_fuzz_below(state, (size_t)header.e_shnum + 2);
        if (i == header.e_shnum)
            return;
        if (i > header.e_shnum) {
            *ret_at = header.e_shoff;
            *ret_n = table;
            return;
        }
        memcpy(&section, bytes + header.e_shoff + i * sizeof section, sizeof section);
        uint64_t name = names.sh_offset + section.sh_name;
        if (section.sh_type == SHT_NOBITS || section.sh_offset > n || !section.sh_size ||
            section.sh_size > n - section.sh_offset || name > n || n - name < 32 ||
            !memchr(bytes + name, 0, n - name) || !is_read((const char *)bytes + name))
            continue;
        *ret_at = section.sh_offset;
        *ret_n = section.sh_size;
        return;
    }
}

static void change(uint8_t *bytes, size_t n, uint64_t *state)
{
    static const uint64_t numbers[] = {0,
                                       1,
                                       0x7f,
                                       0x80,
                                       0xff,
                                       0xffff,
                                       INT32_MAX,
                                       UINT32_MAX,
                                       INT64_MAX,
                                       UINT64_MAX,
                                       UINT64_C(1) << 40};
    for (size_t i = 1 + hx_fuzz_below(state, 4); n && i-- > 0;) {
        size_t at, len;
        pick_part(bytes, n, state, &at, &len);
        at = (at + hx_fuzz_below(state, len)) % n;
        uint64_t value = numbers[hx_fuzz_below(state, sizeof numbers / sizeof *numbers)];
        size_t width = (size_t)1 << hx_fuzz_below(state, 4);
        switch (hx_fuzz_below(state, 5)) {
        case 0:
            bytes[at] ^= (uint8_t)(1u << hx_fuzz_below(state, 8));
            break;
        case 1:
            bytes[at] = (uint8_t)hx_fuzz_next(state);
            break;
        case 2:
            bytes[at] = (uint8_t)(bytes[at] + hx_fuzz_below(state, 9) - 4);
            break;
        case 3: /* something from elsewhere in the file */
            memmove(bytes + at, bytes + hx_fuzz_below(state, n - (n - at < width ? 0 : width) + 1),
                    n - at < width ? 0 : width);
            break;
        default:
            memcpy(bytes + at, &value, n - at < width ? n - at : width);
        }
    }
}

/* --- one case --------------------------------------------------------------------------- */

static void write_file(const char *path, const uint8_t *bytes, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
    if (fd < 0 || write(fd, bytes, n) != (ssize_t)n)
        abort();
    close(fd);
}

/* A seed "NAME" may have its entries in ".NAME.dwo", which its unit calls split.dwo in the folder
 * of the batch: the seed says /tmp/hx-fuzz-elf-XXXXXX, which is as long. */
static void put_files(const struct context *context, const struct hx_fuzz_case *c, uint64_t *state)
{
    char path[4096 + 16];
    size_t len = strlen(context->folder);
    const char *slash = strrchr(c->seed, '/');
    int folder = slash ? (int)(slash + 1 - c->seed) : 0;
    snprintf(path, sizeof path, "%.*s.%s.dwo", folder, c->seed, c->seed + folder);
    FILE *file = fopen(path, "re");
    uint8_t *dwo = file ? malloc(LARGEST) : NULL;
    size_t n = dwo ? fread(dwo, 1, LARGEST, file) : 0;
    if (file)
        fclose(file);
    for (size_t i = 0; i + len <= c->n; i++)
        if (memcmp(c->bytes + i, "/tmp/hx-fuzz-elf-XXXXXX", len) == 0)
            memcpy(c->bytes + i, context->folder, len);
    bool split = n && hx_fuzz_next(state) & 1;
    if (c->own)
        change(split ? dwo : c->bytes, split ? n : c->n, state);
    snprintf(path, sizeof path, "%s/split.dwo", context->folder);
    unlink(path);
    if (n)
        write_file(path, dwo, n);
    free(dwo);
    snprintf(path, sizeof path, "%s/program", context->folder);
    unlink(path);
    write_file(path, c->bytes, c->n);
}

static bool count_rows(void *context, uint64_t start, uint64_t end_, const struct hx_cfi_rule *rule)
{
    uint64_t *left = context;
    (void)start;
    (void)end_;
    (void)rule;
    return --*left > 0;
}

static bool see_type(void *context, const char *name, uint64_t bytes)
{
    uint64_t *sum = context;
    *sum += strlen(name) + bytes;
    return true;
}

/* Every word of every type, as far as one looks. */
static void see_type_table(hx_code *code, uint32_t file)
{
    const struct hx_type_table *table = NULL;
    bool later;
    hx_error_free(hx_code_type_table(code, file, UINT64_MAX, &table, &later));
    for (uint32_t i = 0; table && i < table->n_types; i++)
        for (uint64_t offset = 0; offset < 256; offset += 8) {
            struct hx_text path = {0};
            (void)hx_type_word(table, i, offset, offset & 8);
            (void)hx_type_put_path(table, i, offset, false, &path);
            hx_text_free(&path);
        }
}

static bool see_variable(void *context, const char *name)
{
    uint64_t *sum = context;
    *sum += strlen(name);
    return true;
}

static void unwind(hx_code *code, uint32_t file, uint64_t *state, const uint64_t *vaddr, size_t n)
{
    struct hx_cfi cfi;
    struct hx_cfi_rule rule;
    struct hx_unwind_table table = {0};
    uint64_t start, end_, rows = 100000;
    if (!hx_code_cfi(code, file, &cfi))
        return;
    for (size_t i = 0; i < n; i++) {
        (void)hx_cfi_find(&cfi, vaddr[i], &rule, &start, &end_);
        (void)hx_cfi_function(&cfi, vaddr[i], &start, &end_);
    }
    (void)hx_cfi_each(&cfi, count_rows, &rows);
    hx_error *err =
        hx_fuzz_next(state) & 3 ? NULL : hx_unwind_table_build(&cfi, 0, UINT64_MAX, &table);
    hx_error_free(err);
    hx_unwind_table_deinit(&table);
}

/* Names, lines, types and unwinding rules; the kind of what there was. */
static unsigned name(hx_code *code, uint32_t file, const struct hx_elf_layout *layout,
                     uint64_t *state)
{
    static const char *const functions[] = {"main", "outer", "malloc", "_start"};
    uint64_t vaddr[PLACES], size, sum = 0;
    const struct hx_code_line *line;
    unsigned kind = NOTHING;
    size_t n = 0;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (hx_code_function(code, file, functions[i], &vaddr[n], &size)) {
            kind = SYMBOLS;
            vaddr[n] += hx_fuzz_below(state, size);
            n++;
        }
    for (; n < PLACES && layout->load.n; n++) {
        const struct hx_elf_segment *segment =
            &layout->load.v[hx_fuzz_below(state, layout->load.n)];
        vaddr[n] = segment->vaddr + hx_fuzz_below(state, segment->memsz);
    }
    for (size_t i = 0; i < n; i++) {
        size_t lines = hx_code_lines(code, file, vaddr[i], &line);
        for (size_t k = 0; k < lines; k++) {
            sum += line[k].function ? strlen(line[k].function) : 0;
            sum += line[k].declared ? strlen(line[k].declared) : 0;
            sum += line[k].source ? strlen(line[k].source) : 0;
            kind = line[k].line ? NAMED : kind;
        }
        const struct hx_code_local *local;
        const char *function;
        size_t locals = hx_code_frame(code, file, vaddr[i], &function, &local);
        for (size_t k = 0; k < locals; k++)
            sum += strlen(local[k].name) + strlen(local[k].type);
        (void)hx_code_once(code, file, vaddr[i], &size);
        (void)hx_code_is_start(code, file, vaddr[i]);
    }
    (void)hx_code_types(code, file, UINT64_MAX, see_type, &sum);
    see_type_table(code, file);
    unwind(code, file, state, vaddr, n);
    return kind;
}

static bool fail(hx_error *err)
{
    char line[1024];
    bool right = !err || err->kind == HX_E_CORRUPT || err->kind == HX_E_ABSENT;
    if (!right) {
        hx_error_line(err, line, sizeof line);
        printf("wrong: %s\n", line);
    }
    hx_error_free(err);
    return right;
}

/* A reader that ended is what a crash was before there were readers. */
static bool readers_live(hx_code *code)
{
    struct hx_text told = {0};
    uint64_t n;
    hx_reading_tell(hx_code_reading(code), &told, &n);
    bool live = !strstr(hx_text_str(&told), "reader ended");
    if (!live)
        printf("wrong: %s\n", hx_text_str(&told));
    hx_text_free(&told);
    return live;
}

/* The roots' side: modules, and the names of their data. */
static bool read_module(const struct hx_mapping *mapping, size_t n)
{
    hx_modules *modules = NULL;
    uint64_t sum = 0, addr, size;
    uint8_t note[8];
    hx_error *err = hx_modules_create(0, mapping, n, &modules);
    if (err)
        return fail(err);
    bool right = true;
    for (size_t i = 0; i < hx_modules_count(modules) && right; i++) {
        const struct hx_symbol *symbol;
        size_t n_symbols;
        right = fail(hx_module_symbols(modules, i, 0, UINT64_MAX, &symbol, &n_symbols));
        (void)hx_module_symbol(modules, i, "malloc", &addr, &size);
        (void)hx_module_note(modules, i, "heapx", 1, note, sizeof note, &addr);
        (void)hx_module_each_variable(modules, i, see_variable, &sum);
        (void)hx_module_read(modules, addr, note, sizeof note);
    }
    hx_modules_destroy(modules);
    return right;
}

static bool one(void *opaque, const struct hx_fuzz_case *c, unsigned *kind)
{
    const struct context *context = opaque;
    uint64_t state = c->number ^ 0x5eed;
    char path[128];
    struct stat st;
    struct hx_elf_layout layout = {0};
    struct hx_mapping mapping[8] = {0};
    size_t n = 0;
    put_files(context, c, &state);
    snprintf(path, sizeof path, "%s/program", context->folder);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        abort();
    hx_error *err = hx_elf_layout(fd, &layout);
    close(fd);
    *kind = NO_FILE;
    if (err)
        return fail(err);
    for (size_t i = 0; i < layout.load.n && n < 8; i++) {
        const struct hx_elf_segment *segment = &layout.load.v[i];
        uint64_t start = segment->vaddr & ~UINT64_C(4095), bias = UINT64_C(0x555500000000);
        uint64_t size = (segment->memsz + (segment->vaddr - start) + 4095) & ~UINT64_C(4095);
        if (segment->vaddr < UINT64_C(1) << 32 && segment->memsz < UINT64_C(1) << 32)
            mapping[n++] =
                (struct hx_mapping){.start = bias + start,
                                    .end = bias + start + size,
                                    .offset = segment->offset & ~UINT64_C(4095),
                                    .prot = HX_PROT_R | (segment->flags & PF_X ? HX_PROT_X : 0) |
                                            (segment->flags & PF_W ? HX_PROT_W : 0),
                                    .dev = st.st_dev,
                                    .inode = st.st_ino,
                                    .path = path};
    }
    bool right = read_module(mapping, n);
    hx_code *code = NULL;
    uint32_t file = HX_NO_FILE;
    err = hx_code_create(&code);
    for (size_t i = 0; i < n && !err && file == HX_NO_FILE; i++)
        if (mapping[i].prot & HX_PROT_X)
            err = hx_code_add(code, 0, &mapping[i], &file);
    if (!err && file != HX_NO_FILE)
        *kind = name(code, file, &layout, &state);
    right &= !code || readers_live(code);
    hx_code_destroy(code);
    hx_elf_layout_deinit(&layout);
    return fail(err) && right;
}

int main(int argc, char **argv)
{
    const struct hx_fuzz fuzz = {.one = one, .kinds = kinds, .begin = begin, .end = end, .own = 80};
    return hx_fuzz_main(&fuzz, argc, argv);
}
