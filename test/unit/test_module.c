/* test_module.c - modules: this very process against what its loader says, loads drawn by
 * hand, and ELF files that lie. */
#include "unit.h"

#include "attach/types/vtable.h"
#include "base/cleanup.h"
#include "base/proc.h"
#include "base/vec.h"
#include "model/process.h"
#include "sym/module.h"

#include <heapx/roots.h>

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE 4096

/* Volatile and used, so that no compiler drops them. */
int *volatile unit_exported_pointer;
static void *volatile unit_static_table[37];
static char volatile unit_wide_buffer[3 * PAGE];
static void *volatile unit_initialised = (void *)&unit_static_table[1];
static const char unit_constant[] = "read from the file";
static void do_nothing(void *unused)
{
    (void)unused;
}
static void (*const unit_relro[2])(void *) = {free, do_nothing};

static struct hx_mapping *own_mappings(size_t *ret_n)
{
    char *text;
    size_t len;
    struct hx_mapping *mapping;
    assert_null(hx_proc_read("/proc/self/maps", &text, &len));
    assert_null(hx_proc_mappings(text, len, &mapping, ret_n));
    free(text);
    return mapping;
}

static hx_modules *own_modules(void)
{
    size_t n;
    struct hx_mapping *mapping = own_mappings(&n);
    hx_modules *modules;
    assert_null(hx_modules_create(getpid(), mapping, n, &modules));
    hx_mappings_free(mapping, n);
    return modules;
}

static int check_object(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    hx_modules *modules = context;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *phdr = &info->dlpi_phdr[i];
        uint64_t start = info->dlpi_addr + phdr->p_vaddr;
        if (phdr->p_type != PT_LOAD || strstr(info->dlpi_name, "vdso"))
            continue;
        size_t module = hx_modules_find(modules, start);
        assert_int_not_equal(module, SIZE_MAX);
        assert_int_equal(module, hx_modules_find(modules, start + phdr->p_memsz - 1));
        assert_int_equal(hx_module_bias(modules, module), info->dlpi_addr);
        assert_int_equal(hx_modules_is_code(modules, start), (phdr->p_flags & PF_X) != 0);
        if (!(phdr->p_flags & PF_W))
            continue;
        uint64_t ranges[8][2];
        size_t n = hx_module_data(modules, module, ranges, 8);
        bool found = false;
        for (size_t k = 0; k < n; k++)
            found |= ranges[k][0] == start && ranges[k][1] == start + phdr->p_memsz;
        assert_true(found);
    }
    return 0;
}

static void test_agrees_with_loader(void **state)
{
    (void)state;
    if (getenv("HX_VALGRIND"))
        skip(); /* Valgrind's own view of the loaded objects */
    hx_modules *modules = own_modules();
    assert_true(hx_modules_count(modules) > 0);
    dl_iterate_phdr(check_object, modules);
    hx_modules_destroy(modules);
}

static void assert_symbol(hx_modules *modules, const volatile void *variable, uint64_t size,
                          const char *name)
{
    uint64_t addr = (uint64_t)(uintptr_t)variable, got_addr, got_size;
    size_t module = hx_modules_find(modules, addr), n;
    const struct hx_symbol *symbol;
    assert_int_not_equal(module, SIZE_MAX);
    assert_null(hx_module_symbols(modules, module, addr, addr + size, &symbol, &n));
    assert_int_equal(n, 1);
    assert_string_equal(symbol->name, name);
    assert_int_equal(symbol->address, addr);
    assert_int_equal(symbol->size, size);
    assert_true(hx_module_symbol(modules, module, name, &got_addr, &got_size));
    assert_int_equal(got_addr, addr);
    assert_int_equal(got_size, size);
}

static void test_own_symbols(void **state)
{
    (void)state;
    hx_modules *modules = own_modules();
    assert_symbol(modules, &unit_exported_pointer, 8, "unit_exported_pointer");
    assert_symbol(modules, unit_static_table, sizeof unit_static_table, "unit_static_table");
    assert_symbol(modules, &unit_initialised, 8, "unit_initialised");
    assert_symbol(modules, unit_wide_buffer, sizeof unit_wide_buffer, "unit_wide_buffer");
    assert_symbol(modules, unit_relro, sizeof unit_relro, "unit_relro");

    size_t module = hx_modules_find(modules, (uint64_t)(uintptr_t)&unit_exported_pointer), n;
    const struct hx_symbol *symbol;
    uint64_t ranges[8][2], unused[2];
    size_t n_ranges = hx_module_data(modules, module, ranges, 8);
    for (size_t i = 0; i < n_ranges; i++) {
        assert_null(hx_module_symbols(modules, module, ranges[i][0], ranges[i][1], &symbol, &n));
        for (size_t k = 0; k < n; k++) {
            assert_null(strchr(symbol[k].name, '@'));
            assert_true(symbol[k].address >= ranges[i][0] && symbol[k].size > 0);
            assert_true(symbol[k].address + symbol[k].size <=
                        (k + 1 < n ? symbol[k + 1].address : ranges[i][1]));
        }
    }
    assert_false(hx_module_symbol(modules, module, "no such symbol", &unused[0], &unused[1]));
    assert_false(hx_module_symbol(modules, module, "", &unused[0], &unused[1]));
    hx_modules_destroy(modules);
}

static void test_reads_constants(void **state)
{
    (void)state;
    hx_modules *modules = own_modules();
    char got[sizeof unit_constant];
    uint64_t addr = (uint64_t)(uintptr_t)unit_constant;
    assert_true(hx_module_read(modules, addr, got, sizeof got));
    assert_memory_equal(got, unit_constant, sizeof got);
    /* What can change is not read from the file, nor what is no file. */
    assert_false(hx_module_read(modules, (uint64_t)(uintptr_t)&unit_initialised, got, 8));
    assert_false(hx_module_read(modules, (uint64_t)(uintptr_t)unit_wide_buffer, got, 8));
    assert_false(hx_module_read(modules, (uint64_t)(uintptr_t)&modules, got, 8));
    assert_true(hx_modules_is_code(modules, (uint64_t)(uintptr_t)test_reads_constants));
    assert_false(hx_modules_is_code(modules, addr));
    assert_false(hx_modules_is_code(modules, 0));
    hx_modules_destroy(modules);
}

/* What a page that was never written holds, and the one note of this program's own. */
static void test_reads_files(void **state)
{
    (void)state;
    hx_modules *modules = own_modules();
    char got[sizeof unit_constant];
    uint64_t addr = (uint64_t)(uintptr_t)unit_constant, word = 1, at;
    assert_int_equal(hx_module_read_initial(modules, addr, got, sizeof got), sizeof got);
    assert_memory_equal(got, unit_constant, sizeof got);
    unit_wide_buffer[PAGE] = 1; /* the file does not know */
    addr = (uint64_t)(uintptr_t)&unit_wide_buffer[PAGE];
    assert_int_equal(hx_module_read_initial(modules, addr, &word, sizeof word), sizeof word);
    assert_int_equal(word, 0);
    assert_int_equal(hx_module_read_initial(modules, addr, &word, 0), 0);
    addr = (uint64_t)(uintptr_t)&modules;
    assert_int_equal(hx_module_read_initial(modules, addr, &word, sizeof word), 0);

    heapx_set_roots(NULL, 0);
    addr = (uint64_t)(uintptr_t)&heapx_roots_v1;
    size_t module = hx_modules_find(modules, addr);
    assert_true(hx_module_note(modules, module, "heapx", 1, &word, sizeof word, &at));
    assert_int_equal(at + word, addr);
    assert_int_equal(hx_modules_find(modules, at), module);
    assert_false(hx_module_note(modules, module, "heapx", 1, &word, sizeof word - 4, &at));
    assert_false(hx_module_note(modules, module, "heapx", 2, &word, sizeof word, &at));
    assert_false(hx_module_note(modules, module, "heap", 1, &word, sizeof word, &at));
    hx_modules_destroy(modules);
}

/* Tables as a compiler makes them: functions with null words between; one function and then
 * data; functions too far apart. */
static void (*const unit_sparse[24])(void *) = {[3] = free, [20] = do_nothing};
static void (*const unit_too_sparse[24])(void *) = {[3] = free, [21] = do_nothing};
static const void *const unit_one_function[4] = {NULL, (const void *)do_nothing, unit_constant,
                                                 (const void *)do_nothing};

static void test_vtables(void **state)
{
    (void)state;
    hx_modules *modules = own_modules();
    uint64_t ranges[8][2], at = (uint64_t)(uintptr_t)unit_relro;
    size_t module = hx_modules_find(modules, at);
    assert_true(hx_module_data(modules, module, ranges, 8) > 0);
    /* Relocated data is in the image: here it is this process's own memory. */
    struct hx_span span = {ranges[0][0] & -(uint64_t)8, ranges[0][1] & -(uint64_t)8, NULL};
    span.bytes = (const uint8_t *)(uintptr_t)span.start;
    const struct hx_image image = {.span = &span, .n = 1}, nothing = {0};
    assert_true(hx_is_vtable(&image, modules, at));
    assert_false(hx_is_vtable(&nothing, modules, at)); /* the file knows no addresses */
    assert_false(hx_is_vtable(&image, modules, at + 4));
    assert_true(hx_is_vtable(&image, modules, (uintptr_t)unit_sparse));
    assert_false(hx_is_vtable(&image, modules, (uintptr_t)unit_too_sparse));
    assert_true(hx_is_vtable(&image, modules, (uintptr_t)&unit_too_sparse[3]));
    assert_false(hx_is_vtable(&image, modules, (uintptr_t)unit_one_function));
    assert_false(hx_is_vtable(&image, modules, (uintptr_t)unit_constant & -(uintptr_t)8));
    assert_false(hx_is_vtable(&image, modules, 0));
    assert_false(hx_is_vtable(&image, modules, UINT64_MAX - 7));
    hx_modules_destroy(modules);
}

/* --- loads drawn by hand -------------------------------------------------------- */

struct file_bytes {
    uint8_t *v;
    size_t n;
};

static struct file_bytes read_whole(const char *path)
{
    struct stat st;
    HX_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    struct file_bytes file = {malloc((size_t)st.st_size), (size_t)st.st_size};
    assert_non_null(file.v);
    assert_int_equal(pread(fd, file.v, file.n, 0), file.n);
    return file;
}

static void write_whole(int fd, const struct file_bytes *file, size_t n)
{
    assert_int_equal(ftruncate(fd, 0), 0);
    assert_int_equal(pwrite(fd, file->v, n, 0), n);
}

/* The mappings that a loader makes of an ELF file at `bias`. */
static size_t draw_load(const struct file_bytes *file, char *path, uint64_t bias,
                        struct hx_mapping *mapping, size_t max)
{
    const Elf64_Ehdr *header = (const void *)file->v;
    const Elf64_Phdr *phdr = (const void *)(file->v + header->e_phoff);
    size_t n = 0;
    for (size_t i = 0; i < header->e_phnum; i++) {
        if (phdr[i].p_type != PT_LOAD || n + 2 > max)
            continue;
        uint64_t start = (bias + phdr[i].p_vaddr) & -(uint64_t)PAGE;
        uint64_t file_end =
            (bias + phdr[i].p_vaddr + phdr[i].p_filesz + PAGE - 1) & -(uint64_t)PAGE;
        uint64_t end = (bias + phdr[i].p_vaddr + phdr[i].p_memsz + PAGE - 1) & -(uint64_t)PAGE;
        uint32_t prot = (phdr[i].p_flags & PF_R ? HX_PROT_R : 0u) |
                        (phdr[i].p_flags & PF_W ? HX_PROT_W : 0u) |
                        (phdr[i].p_flags & PF_X ? HX_PROT_X : 0u);
        mapping[n++] = (struct hx_mapping){.start = start,
                                           .end = file_end,
                                           .prot = prot,
                                           .offset = phdr[i].p_offset & -(uint64_t)PAGE,
                                           .dev = 1,
                                           .inode = 77,
                                           .path = path};
        if (end > file_end)
            mapping[n++] = (struct hx_mapping){
                .start = file_end, .end = end, .prot = prot, .path = (char *)""};
    }
    return n;
}

static void test_several_loads(void **state)
{
    (void)state;
    char path[] = "/proc/self/exe";
    struct file_bytes file = read_whole(path);
    struct hx_mapping mapping[64];
    const uint64_t bias[] = {0x555555554000, 0x7f0000000000, 0x7f0010000000};
    size_t n = 0;
    for (size_t i = 0; i < 3; i++)
        n += draw_load(&file, path, bias[i], mapping + n, 64 - n);
    /* The whole file mapped to be read, and shared: neither is a load. */
    for (uint64_t i = 0; i < 2; i++)
        mapping[n++] = (struct hx_mapping){.start = 0x7fff00000000 + (i << 28),
                                           .end = 0x7fff00000000 + (i << 28) +
                                                  ((file.n + PAGE - 1) & -(size_t)PAGE),
                                           .prot = HX_PROT_R | (i ? HX_PROT_SHARED : 0u),
                                           .dev = 1,
                                           .inode = 77,
                                           .path = path};
    hx_modules *modules;
    assert_null(hx_modules_create(0, mapping, n, &modules));
    assert_int_equal(hx_modules_count(modules), 3);
    for (size_t i = 0; i < 3; i++) {
        uint64_t addr, size;
        assert_int_equal(hx_module_bias(modules, i), bias[i]);
        assert_string_equal(hx_module_name(modules, i), "exe");
        assert_true(hx_module_symbol(modules, i, "unit_static_table", &addr, &size));
        assert_int_equal(hx_modules_find(modules, addr), i);
        assert_int_equal(size, sizeof unit_static_table);
    }
    assert_int_equal(hx_modules_find(modules, 0x7fff00000000), SIZE_MAX);
    assert_int_equal(hx_modules_find(modules, 0), SIZE_MAX);
    assert_int_equal(hx_modules_find(modules, UINT64_MAX), SIZE_MAX);
    hx_modules_destroy(modules);
    free(file.v);
}

/* --- files that lie -------------------------------------------------------------------- */

/* Uses everything that a file can answer, and checks what must hold whatever it says. False
 * when it was no module at all. */
static bool use_all(const struct hx_mapping *mapping, size_t n)
{
    hx_modules *modules;
    hx_error *err = hx_modules_create(0, mapping, n, &modules);
    if (err) {
        hx_error_free(err);
        return false;
    }
    bool any = hx_modules_count(modules) > 0;
    for (size_t i = 0; i < hx_modules_count(modules); i++) {
        uint64_t ranges[16][2], addr, size;
        size_t n_ranges = hx_module_data(modules, i, ranges, 16);
        for (size_t k = 0; k < n_ranges; k++) {
            const struct hx_symbol *symbol;
            size_t n_symbols;
            assert_true(ranges[k][0] < ranges[k][1]);
            assert_int_equal(hx_modules_find(modules, ranges[k][0]), i);
            err = hx_module_symbols(modules, i, ranges[k][0], ranges[k][1], &symbol, &n_symbols);
            hx_error_free(err);
            uint64_t done = ranges[k][0];
            for (size_t s = 0; !err && s < n_symbols; s++) {
                assert_true(symbol[s].address >= done && symbol[s].size > 0);
                done = symbol[s].address + symbol[s].size;
                assert_true(done > symbol[s].address && strlen(symbol[s].name) > 0);
            }
            assert_true(done <= ranges[k][1]);
        }
        hx_module_symbol(modules, i, "main", &addr, &size);
        hx_module_note(modules, i, "heapx", 1, &size, sizeof size, &addr);
    }
    for (size_t i = 0; i < n; i++) {
        uint64_t word;
        hx_modules_is_code(modules, mapping[i].start);
        hx_module_read(modules, mapping[i].start, &word, sizeof word);
        hx_module_read(modules, mapping[i].end - 8, &word, sizeof word);
        hx_module_read_initial(modules, mapping[i].start, &word, sizeof word);
    }
    hx_modules_destroy(modules);
    return any;
}

/* Somewhere in a segment of notes. */
static size_t note_spot(struct unit_random *random, const struct file_bytes *file)
{
    const Elf64_Ehdr *header = (const void *)file->v;
    const Elf64_Phdr *phdr = (const void *)(file->v + header->e_phoff);
    for (size_t i = header->e_phnum; i-- > 0;)
        if (phdr[i].p_type == PT_NOTE && phdr[i].p_filesz && unit_below(random, 2))
            return phdr[i].p_offset + unit_below(random, phdr[i].p_filesz);
    return 0;
}

/* Where damage does most: the header, program headers, section headers, notes, symbols and
 * names. */
static size_t weak_spot(struct unit_random *random, const struct file_bytes *file)
{
    const Elf64_Ehdr *header = (const void *)file->v;
    switch (unit_below(random, 6)) {
    case 0:
        return unit_below(random, sizeof *header);
    case 5:
        return note_spot(random, file);
    case 1:
        return header->e_phoff + unit_below(random, header->e_phnum * sizeof(Elf64_Phdr));
    case 2:
    case 3:
        return header->e_shoff + unit_below(random, header->e_shnum * sizeof(Elf64_Shdr));
    default:
        return unit_below(random, file->n);
    }
}

static void mutate(struct unit_random *random, const struct file_bytes *original,
                   struct file_bytes *copy)
{
    static const uint64_t values[] = {0,          1,          7,           UINT64_MAX, INT64_MAX,
                                      0x7fffffff, 0xffffffff, 0x100000000, PAGE,       24};
    memcpy(copy->v, original->v, original->n);
    for (uint64_t left = 1 + unit_below(random, 6); left; left--) {
        size_t at = weak_spot(random, original);
        uint64_t value =
            unit_below(random, 2) ? unit_random(random) : values[unit_below(random, 10)];
        size_t len = (size_t)1 << unit_below(random, 4);
        if (at + len <= copy->n)
            memcpy(copy->v + at / len * len, &value, len);
    }
}

static void run_mutations(struct unit_random *random, const char *program, size_t rounds)
{
    struct file_bytes original = read_whole(program);
    struct file_bytes copy = {malloc(original.n), original.n};
    assert_non_null(copy.v);
    HX_FD int fd = memfd_create("mutant", MFD_CLOEXEC);
    assert_true(fd >= 0);
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    struct hx_mapping mapping[32];
    size_t n = draw_load(&original, path, 0x7f0000000000, mapping, 32);
    size_t accepted = 0, quarter = rounds / 4;
    for (; rounds; rounds--) {
        mutate(random, &original, &copy);
        write_whole(fd, &copy, unit_below(random, 8) ? copy.n : unit_below(random, copy.n + 1));
        accepted += use_all(mapping, n);
    }
    assert_true(accepted > quarter); /* else nothing was tried but the first check */
    free(copy.v);
    free(original.v);
}

/* A small stripped program, and a large one with all its symbols: this one. */
static void test_mutations(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("mutations");
    run_mutations(&random, "/bin/true", unit_rounds(4000));
    run_mutations(&random, "/proc/self/exe", unit_rounds(1000));
}

static void test_no_elf_at_all(void **state)
{
    (void)state;
    char fifo[] = "/tmp/test_module.XXXXXX", directory[] = "/", absent[] = "/nonexistent/x";
    assert_non_null(mkdtemp(fifo));
    char fifo_path[64];
    snprintf(fifo_path, sizeof fifo_path, "%s/fifo", fifo);
    assert_int_equal(mkfifo(fifo_path, 0600), 0);
    char null[] = "/dev/null";
    char *paths[] = {directory, absent, fifo_path, null, (char *)"/etc/passwd"};
    for (size_t i = 0; i < 5; i++) {
        struct hx_mapping mapping = {.start = 0x10000,
                                     .end = 0x20000,
                                     .prot = HX_PROT_R | HX_PROT_X,
                                     .dev = 3,
                                     .inode = i + 1,
                                     .path = paths[i]};
        hx_modules *modules;
        assert_null(hx_modules_create(0, &mapping, 1, &modules));
        assert_int_equal(hx_modules_count(modules), 0);
        assert_int_equal(hx_modules_find(modules, 0x10000), SIZE_MAX);
        hx_modules_destroy(modules);
    }
    unlink(fifo_path);
    rmdir(fifo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_agrees_with_loader),
        cmocka_unit_test(test_own_symbols),
        cmocka_unit_test(test_reads_constants),
        cmocka_unit_test(test_reads_files),
        cmocka_unit_test(test_vtables),
        cmocka_unit_test(test_several_loads),
        cmocka_unit_test(test_mutations),
        cmocka_unit_test(test_no_elf_at_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
