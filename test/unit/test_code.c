/* test_code.c - names of code: programs made on the spot, whole, stripped, with their debug
 * information elsewhere, replaced, deleted and damaged; and the second opinion of addr2line. */
#include "unit.h"

#include "base/cleanup.h"
#include "base/proc.h"
#include "base/text.h"
#include "base/timing.h"
#include "model/process.h"
#include "sym/code/code.h"
#include "sym/reading.h"

#include <dwarf.h>
#include <elf.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char program_source[] =
    "volatile int sink;\n"
    "__attribute__((noinline)) void mark(void) { sink++; }\n"
    "static inline __attribute__((always_inline)) void deepest(void) { mark(); sink += 3; }\n"
    "static inline __attribute__((always_inline)) void middle(void) { deepest(); sink += 2; }\n"
    "static inline __attribute__((always_inline)) void upper(void) { middle(); sink += 1; }\n"
    "__attribute__((noinline)) int outer(void) { upper(); return sink; }\n"
    "static __attribute__((noinline)) int hidden(int n) { sink += n; return n; }\n"
    "int callback(void) { return hidden(4); }\n"
    "int main(void) { return outer() + callback(); }\n";

static const char cxx_source[] =
    "namespace shop {\n"
    "struct Item { int price; };\n"
    "struct Basket { int total; void add(const Item &item) { total += item.price; } };\n"
    "__attribute__((noinline)) int sell(Basket *basket, unsigned long n) {\n"
    "    Item item = {(int)n};\n"
    "    basket->add(item);\n"
    "    return basket->total; }\n"
    "template <class T> __attribute__((noinline)) T twice(T t) { return t + t; }\n"
    "template long twice<long>(long);\n"
    "}\n"
    "void *operator new(unsigned long n) { return (void *)n; }\n";

/* Functions of all sorts that a compiler inlines, moves parts of away, and makes special ones of.
 */
static const char sorts_source[] =
    "volatile long sink;\n"
    "#define NI __attribute__((noinline))\n"
    "extern \"C\" { void *malloc(unsigned long); void free(void *); void abort(); }\n"
    "namespace shop {\n"
    "struct Item { void *p; Item(int n) : p(malloc(n)) { sink = sink + n; }\n"
    "  Item(const Item &o) : p(o.p) { sink = sink + 1; } ~Item() { free(p); }\n"
    "  int price(int n) const { return n + sink; } operator bool() const { return sink; } };\n"
    "namespace { int hidden(int n) { sink = sink + n; return n; }\n"
    "  template <class T> T twice(T t) { return t + hidden(t); }\n"
    "  struct Anon { int m(int n) { return hidden(n) + 1; } }; }\n"
    "static int early(int n, int unused) { if (n > 100) { for (int i = 0; i < n; i++)\n"
    "  sink = sink + i * n; return malloc(n) ? 1 : 0; } return n; }\n"
    "NI int sell(int n) { Item item(n); auto add = [n](int m) { return hidden(m + n); }; Anon a;\n"
    "  return item.price(n) + add(n) + twice(n) + twice<long>(n) + a.m(n) + early(n, 3); }\n"
    "NI int buy(int n) { Item item(n), other(item);\n"
    "  auto add = [&](auto m) { sink = sink + m; return hidden((int)m); };\n"
    "  return other.price(n) + add(3L) + early(n, 3) + (item ? 1 : 2); } }\n"
    "extern \"C\" { static int plain(int n) { sink = sink + n; return n * 3; }\n"
    "  NI int use(int n) { return plain(n) + plain(n + 1); }\n"
    "  NI int (*pick(void))(int) { return plain; } }\n"
    "static NI int special(int a, int b) { sink = sink + a * b; if (b > 3) abort(); return a; }\n"
    "int main(int c, char **) { struct Local { int g(int n) { return n + sink; } } l;\n"
    "  return shop::sell(c) + shop::buy(c) + use(c) + pick()(c) + special(3, 7) + special(c, 7)\n"
    "    + l.g(c); }\n";

struct folder {
    char path[32];
    char before[4096];
};

/* Runs a command of the shell in the test's folder. */
static bool run(const char *command)
{
    char line[2048];
    snprintf(line, sizeof line, "(%s) </dev/null >/dev/null 2>&1", command);
    return system(line) == 0;
}

static void write_file(const char *path, const void *bytes, size_t n)
{
    HX_FILE FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
}

static uint8_t *read_whole(const char *path, size_t *ret_n)
{
    struct stat st;
    HX_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    uint8_t *bytes = malloc((size_t)st.st_size + 1);
    assert_non_null(bytes);
    assert_int_equal(read(fd, bytes, (size_t)st.st_size), st.st_size);
    *ret_n = (size_t)st.st_size;
    return bytes;
}

static int enter(void **state)
{
    struct folder *folder = calloc(1, sizeof *folder);
    strcpy(folder->path, "/tmp/hx-code-XXXXXX");
    if (!mkdtemp(folder->path) || !getcwd(folder->before, sizeof folder->before) ||
        chdir(folder->path) < 0)
        return -1;
    *state = folder;
    write_file("program.c", program_source, sizeof program_source - 1);
    write_file("shop.cc", cxx_source, sizeof cxx_source - 1);
    return run("${CC:-cc} -O2 -g -pie -fPIE program.c -o program") ? 0 : -1;
}

static int leave(void **state)
{
    struct folder *folder = *state;
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder->path);
    int failed = chdir(folder->before) < 0 || !run(command);
    free(folder);
    return failed;
}

/* A mapping of the first executable segment of a file in the folder, as the loader would make it
 * at `base`. The caller frees its path. */
static struct hx_mapping map_code(const char *name, uint64_t base)
{
    size_t n;
    struct stat st;
    HX_FREE uint8_t *bytes = read_whole(name, &n);
    struct hx_mapping mapping = {.prot = HX_PROT_R | HX_PROT_X, .path = realpath(name, NULL)};
    assert_int_equal(stat(name, &st), 0);
    mapping.dev = st.st_dev;
    mapping.inode = st.st_ino;
    Elf64_Ehdr header = {0};
    memcpy(&header, bytes, n < sizeof header ? n : sizeof header);
    mapping.start = base + 0x1000;
    mapping.end = base + 0x2000;
    for (size_t i = 0; i < header.e_phnum && i < 64; i++) {
        Elf64_Phdr phdr;
        if (header.e_phoff > n || header.e_phoff + (i + 1) * sizeof phdr > n)
            break;
        memcpy(&phdr, bytes + header.e_phoff + i * sizeof phdr, sizeof phdr);
        if (phdr.p_type != PT_LOAD || !(phdr.p_flags & PF_X))
            continue;
        mapping.offset = phdr.p_offset & ~(uint64_t)4095;
        mapping.start = base + (phdr.p_vaddr & ~(uint64_t)4095);
        mapping.end = base + ((phdr.p_vaddr + phdr.p_filesz + 4095) & ~(uint64_t)4095);
        break;
    }
    return mapping;
}

static uint32_t add_file(hx_code *code, const char *name, uint64_t base)
{
    struct hx_mapping mapping = map_code(name, base);
    uint32_t file;
    assert_null(hx_code_add(code, getpid(), &mapping, &file));
    free(mapping.path);
    return file;
}

static hx_code *create(void)
{
    hx_code *code;
    assert_null(hx_code_create(&code));
    return code;
}

/* The function that a file says lies at `name`, by an address in the middle of it. */
static const char *name_at(hx_code *code, uint32_t file, uint64_t vaddr)
{
    const struct hx_code_line *line;
    size_t n = hx_code_lines(code, file, vaddr, &line);
    assert_true(n >= 1 && n <= HX_CODE_LINES_MAX);
    return line[n - 1].function;
}

struct found {
    uint64_t vaddr, size;
};

static struct found find(hx_code *code, uint32_t file, const char *name)
{
    struct found found = {0};
    hx_code_function(code, file, name, &found.vaddr, &found.size);
    return found;
}

/* --- programs ---------------------------------------------------------------- */

static void check_inlined(hx_code *code, uint32_t file)
{
    static const char *const names[] = {"deepest", "middle", "upper", "outer"};
    struct found outer = find(code, file, "outer");
    assert_true(outer.size > 0);
    size_t seen = 0;
    for (uint64_t at = 0; at < outer.size; at++) {
        const struct hx_code_line *line;
        size_t n = hx_code_lines(code, file, outer.vaddr + at, &line);
        assert_string_equal(line[n - 1].function, "outer");
        assert_int_equal(line[n - 1].offset, at);
        if (n != 4)
            continue;
        seen++;
        for (size_t i = 0; i < 4; i++) {
            assert_string_equal(line[i].function, names[i]);
            assert_int_equal(line[i].line, 3 + i);
            assert_non_null(line[i].source);
            assert_string_equal(strrchr(line[i].source, '/'), "/program.c");
        }
    }
    assert_true(seen > 0);
}

static void test_program(void **state)
{
    (void)state;
    hx_code *code = create();
    uint32_t file = add_file(code, "program", 0x555500000000);
    assert_int_equal(add_file(code, "program", 0x555600000000), file);
    assert_int_equal(hx_code_count(code), 1);
    assert_string_equal(hx_code_name(code, file), "program");
    assert_int_equal(hx_code_path(code, file)[0], '/');
    struct hx_mapping mapping = map_code("program", 0x555500000000);
    uint64_t bias, offset;
    assert_true(hx_code_bias(code, file, &mapping, &bias));
    assert_int_equal(bias, 0x555500000000);
    free(mapping.path);

    check_inlined(code, file);
    struct found hidden = find(code, file, "hidden"), mark = find(code, file, "mark");
    assert_true(mark.size > 0);
    if (hidden.size)
        assert_string_equal(name_at(code, file, hidden.vaddr + hidden.size - 1), "hidden");
    assert_false(hx_code_function(code, file, "absent", &bias, &offset));
    assert_false(hx_code_function(code, file, "sink", &bias, &offset));
    assert_null(name_at(code, file, 0));
    assert_null(name_at(code, file, UINT64_MAX));
    if (mark.size % 16) /* what fills up to 16 bytes belongs to nobody */
        assert_null(name_at(code, file, mark.vaddr + mark.size));

    assert_true(hx_code_file_offset(code, file, mark.vaddr, &offset));
    HX_FD int fd = open(hx_code_open_path(code, file), O_RDONLY | O_CLOEXEC);
    HX_FD int direct = open("program", O_RDONLY | O_CLOEXEC);
    uint8_t a[8], b[8];
    assert_true(fd >= 0 && pread(fd, a, 8, (off_t)offset) == 8);
    assert_true(direct >= 0 && pread(direct, b, 8, (off_t)offset) == 8);
    assert_memory_equal(a, b, 8);
    assert_false(hx_code_file_offset(code, file, UINT64_MAX, &offset));
    struct found start = find(code, file, "_start");
    assert_true(start.size > 1 && hx_code_is_start(code, file, start.vaddr + start.size - 1));
    assert_false(hx_code_is_start(code, file, start.vaddr - 1));
    assert_false(hx_code_is_start(code, file, mark.vaddr));
    struct hx_cfi cfi;
    assert_true(hx_code_cfi(code, file, &cfi));
    assert_true(cfi.hdr.len >= 12 && cfi.frame.len > 0 && cfi.frame.addr > cfi.hdr.addr);
    assert_int_equal(cfi.hdr.bytes[0], 1);
    hx_code_destroy(code);
}

/* Entries in files of their own, by each compiler that is here: what is declared where is told. */
static void test_split(void **state)
{
    static const char *const compilers[] = {"${CC:-cc}", "clang"};
    char command[256];
    size_t built = 0;
    (void)state;
    for (size_t i = 0; i < 2; i++)
        for (int version = 4; version <= 5; version++) {
            snprintf(command, sizeof command, "%s -O2 -gsplit-dwarf -gdwarf-%d program.c -o split",
                     compilers[i], version);
            if (!run("rm -f split *.dwo") || !run(command))
                continue;
            built++;
            const struct hx_code_line *line;
            for (int with = 1; with >= 0; with--) { /* with its entries, and without */
                hx_code *code = create();
                uint32_t file = add_file(code, "split", 0x555500000000);
                struct found outer = find(code, file, "outer");
                size_t n = hx_code_lines(code, file, outer.vaddr, &line);
                assert_string_equal(line[n - 1].function, "outer");
                if (with) {
                    assert_non_null(line[n - 1].declared);
                    assert_string_equal(strrchr(line[n - 1].declared, '/'), "/program.c");
                    assert_int_equal(line[n - 1].declared_line, 6);
                    /* a compiler that begins to write it anew takes nothing away */
                    assert_true(run("for f in *.dwo; do : >$f; done"));
                    n = hx_code_lines(code, file, find(code, file, "callback").vaddr, &line);
                    assert_int_equal(line[n - 1].declared_line, 8);
                }
                hx_code_destroy(code);
                assert_true(run("rm -f *.dwo"));
            }
        }
    if (!built)
        skip();
}

static void test_fixed(void **state)
{
    (void)state;
    if (!run("${CC:-cc} -O2 -g -no-pie -fno-pie program.c -o fixed"))
        skip();
    hx_code *code = create();
    uint32_t file = add_file(code, "fixed", 0);
    struct hx_mapping mapping = map_code("fixed", 0);
    uint64_t bias;
    assert_true(hx_code_bias(code, file, &mapping, &bias));
    assert_int_equal(bias, 0);
    mapping.start += 4096;
    mapping.end += 4096;
    assert_false(hx_code_bias(code, file, &mapping, &bias));
    free(mapping.path);
    check_inlined(code, file);
    assert_string_equal(name_at(code, file, find(code, file, "main").vaddr), "main");
    hx_code_destroy(code);
}

/* The same file under several guises: what is exported, what is not, and the lines. */
static void check_stripped(const char *name, bool local, bool lines, uint64_t outer,
                           uint64_t hidden)
{
    hx_code *code = create();
    uint32_t file = add_file(code, name, 0x7f0000000000);
    const struct hx_code_line *line;
    size_t n = hx_code_lines(code, file, outer, &line);
    assert_string_equal(line[n - 1].function, "outer");
    assert_int_equal(line[n - 1].line != 0, lines);
    if (!hidden) {
        /* the compiler made something else of it */
    } else if (local) {
        assert_string_equal(name_at(code, file, hidden), "hidden");
    } else {
        assert_null(name_at(code, file, hidden));
    }
    if (lines)
        check_inlined(code, file);
    hx_code_destroy(code);
}

static void test_stripped(void **state)
{
    (void)state;
    if (!run("${CC:-cc} -O2 -g -shared -fPIC program.c -o lib.so && strip -o bare.so lib.so && "
             "objcopy --only-keep-debug lib.so linked.debug && cp bare.so linked.so && "
             "objcopy --add-gnu-debuglink=linked.debug linked.so"))
        skip();
    hx_code *code = create();
    uint32_t file = add_file(code, "lib.so", 0x7f0000000000);
    uint64_t outer = find(code, file, "outer").vaddr, hidden = find(code, file, "hidden").vaddr;
    hx_code_destroy(code);
    check_stripped("lib.so", true, true, outer, hidden);
    check_stripped("bare.so", false, false, outer, hidden);
    check_stripped("linked.so", true, true, outer, hidden);

    /* Another file of that name is not its debug information. */
    assert_true(run("${CC:-cc} -O1 -g -shared -fPIC -DOTHER=1 program.c -o other.so && "
                    "objcopy --only-keep-debug other.so linked.debug"));
    check_stripped("linked.so", false, false, outer, hidden);

    /* Without a build-id the checksum decides; the folder .debug counts as well. */
    assert_true(run("${CC:-cc} -O2 -g -shared -fPIC -Wl,--build-id=none program.c -o plain.so && "
                    "objcopy --only-keep-debug plain.so summed.debug && "
                    "strip -o summed.so plain.so && "
                    "objcopy --add-gnu-debuglink=summed.debug summed.so && mkdir .debug && "
                    "mv summed.debug .debug/"));
    code = create();
    file = add_file(code, "plain.so", 0x7f0000000000);
    outer = find(code, file, "outer").vaddr;
    hidden = find(code, file, "hidden").vaddr;
    assert_string_equal(hx_code_build_id(code, file), "");
    hx_code_destroy(code);
    check_stripped("summed.so", true, true, outer, hidden);
    assert_true(run("printf x >>.debug/summed.debug"));
    check_stripped("summed.so", false, false, outer, hidden);
}

static void test_packed_symbols(void **state)
{
    (void)state;
    if (!run(
            "${CC:-cc} -O2 -g -shared -fPIC program.c -o lib.so && strip -o mini.so lib.so && "
            "objcopy --only-keep-debug lib.so lib.debug && objcopy --strip-debug lib.debug mini && "
            "xz -f mini && objcopy --add-section .gnu_debugdata=mini.xz mini.so"))
        skip();
    hx_code *code = create();
    uint32_t file = add_file(code, "lib.so", 0x7f0000000000);
    uint64_t outer = find(code, file, "outer").vaddr, hidden = find(code, file, "hidden").vaddr;
    hx_code_destroy(code);
    check_stripped("mini.so", true, false, outer, hidden);
    /* Cut off, it has nothing to add. */
    assert_true(run("strip -o mini.so lib.so && head -c 100 mini.xz >cut.xz && "
                    "objcopy --add-section .gnu_debugdata=cut.xz mini.so"));
    check_stripped("mini.so", false, false, outer, hidden);
}

static void test_cxx(void **state)
{
    (void)state;
    if (!run("${CXX:-c++} -O1 -g -shared -fPIC shop.cc -o shop.so"))
        skip();
    hx_code *code = create();
    uint32_t file = add_file(code, "shop.so", 0x7f0000000000);
    struct found sell = find(code, file, "_ZN4shop4sellEPNS_6BasketEm");
    struct found twice = find(code, file, "_ZN4shop5twiceIlEET_S1_");
    struct found make = find(code, file, "_Znwm");
    assert_true(sell.size && twice.size && make.size);
    const char *plain = name_at(code, file, make.vaddr);
    if (strcmp(plain, "_Znwm") == 0) {
        hx_code_destroy(code); /* built without a demangler */
        return;
    }
    assert_string_equal(plain, "operator new(unsigned long)");
    assert_string_equal(name_at(code, file, twice.vaddr), "long shop::twice<long>(long)");
    size_t inlined = 0;
    for (uint64_t at = 0; at < sell.size; at++) {
        const struct hx_code_line *line;
        size_t n = hx_code_lines(code, file, sell.vaddr + at, &line);
        assert_string_equal(line[n - 1].function, "shop::sell(shop::Basket*, unsigned long)");
        if (n == 2) {
            assert_string_equal(line[0].function, "shop::Basket::add(shop::Item const&)");
            assert_int_equal(line[0].line, 3);
            assert_int_equal(line[1].line, 6);
            inlined++;
        }
    }
    assert_true(inlined > 0);
    hx_code_destroy(code);
}

/* What functions are called and where they are declared: each once. */
struct sorts {
    char (*name)[256];
    size_t n;
};

static void add_sort(struct sorts *sorts, const struct hx_code_line *line)
{
    char name[256];
    const char *file = line->declared ? strrchr(line->declared, '/') : NULL;
    if (!file || strcmp(file, "/sorts.cc") != 0)
        return;
    snprintf(name, sizeof name, "%s:%u", line->function, line->declared_line);
    for (size_t i = 0; i < sorts->n; i++)
        if (strcmp(sorts->name[i], name) == 0)
            return;
    sorts->name = realloc(sorts->name, (sorts->n + 1) * sizeof *sorts->name);
    assert_non_null(sorts->name);
    strcpy(sorts->name[sorts->n++], name);
}

static struct sorts find_sorts(const char *name)
{
    hx_code *code = create();
    struct sorts sorts = {0};
    struct hx_mapping mapping = map_code(name, 0);
    uint32_t file = add_file(code, name, 0);
    free(mapping.path);
    for (uint64_t at = mapping.start; at < mapping.end; at++) {
        const struct hx_code_line *line;
        size_t n = hx_code_lines(code, file, at, &line);
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(i + 1 < n ? line[i].entry : 0, 0);
            if (line[i].function)
                add_sort(&sorts, &line[i]);
        }
    }
    hx_code_destroy(code);
    return sorts;
}

/* A function is the same one wherever its code is: no build has one that the plain build, where
 * each has code of its own, does not have. */
static void test_same_function(void **state)
{
    (void)state;
    static const char *const compilers[] = {"${CXX:-c++}", "clang++"};
    static const char *const options[] = {"-O1", "-O2", "-O3", "-Os", "-O2 -gdwarf-4"};
    write_file("sorts.cc", sorts_source, sizeof sorts_source - 1);
    for (size_t k = 0; k < 2; k++) {
        char command[256];
        snprintf(command, sizeof command, "%s -std=c++14 -g -O0 -fno-inline sorts.cc -o sorts",
                 compilers[k]);
        if (!run(command))
            continue;
        struct sorts plain = find_sorts("sorts");
        assert_true(plain.n >= 16);
        for (size_t o = 0; o < sizeof options / sizeof *options; o++) {
            snprintf(command, sizeof command, "%s -std=c++14 -g %s sorts.cc -o sorted",
                     compilers[k], options[o]);
            assert_true(run(command));
            struct sorts sorts = find_sorts("sorted");
            assert_true(sorts.n >= 10);
            size_t wrong = 0;
            for (size_t i = 0; i < sorts.n; i++) {
                size_t j = 0;
                while (j < plain.n && strcmp(plain.name[j], sorts.name[i]) != 0)
                    j++;
                wrong += j == plain.n;
                if (j == plain.n)
                    printf("%s %s: %s\n", compilers[k], options[o], sorts.name[i]);
            }
            free(sorts.name);
            assert_int_equal(wrong, 0);
        }
        free(plain.name);
    }
}

/* Without debug information a part that was moved away still is of its function; without symbols
 * the unwind tables tell where one begins. */
static void test_entries(void **state)
{
    (void)state;
    static const char text[] =
        "#include <stdlib.h>\nvolatile int sink;\n"
        "__attribute__((noinline)) int risky(int n) { if (__builtin_expect(n > 9, 0)) {\n"
        "  __builtin_expect(sink = 1, 1); abort(); } sink += n; return n; }\n"
        "int main(int c, char **v) { (void)v; return risky(c); }\n";
    write_file("risky.c", text, sizeof text - 1);
    if (!run("${CC:-cc} -O2 -g risky.c -o risky && strip -g -o symbols risky && "
             "strip -o none risky"))
        skip();
    hx_code *code = create();
    uint32_t whole = add_file(code, "risky", 0), symbols = add_file(code, "symbols", 0);
    uint32_t none = add_file(code, "none", 0);
    struct found risky = find(code, whole, "risky"), cold = find(code, whole, "risky.cold");
    const struct hx_code_line *line;
    assert_true(risky.size > 1);
    for (int i = 0; i < 2; i++) {
        uint64_t at = i && cold.size ? cold.vaddr : risky.vaddr + 1;
        size_t n = hx_code_lines(code, whole, at, &line);
        assert_string_equal(line[n - 1].function, "risky");
        assert_int_equal(line[n - 1].declared_line, 3);
        assert_int_equal(line[n - 1].entry, risky.vaddr);
        assert_int_equal(hx_code_lines(code, symbols, at, &line), 1);
        assert_string_equal(line->function, "risky");
        assert_null(line->declared);
        assert_int_equal(line->entry, risky.vaddr);
        assert_int_equal(hx_code_lines(code, none, at, &line), 1);
        assert_null(line->function);
        assert_int_equal(line->entry, i && cold.size ? cold.vaddr : risky.vaddr);
        struct hx_code_line brief;
        hx_code_symbol_line(code, whole, at, &brief);
        assert_string_equal(brief.function, "risky");
        assert_int_equal(brief.entry, risky.vaddr);
        assert_null(brief.source);
    }
    hx_code_destroy(code);
}

/* --- types ------------------------------------------------------------------- */

struct wanted_type {
    const char *name;
    uint64_t bytes;
    size_t seen;
};

static bool see_type(void *context, const char *name, uint64_t bytes)
{
    struct wanted_type *type = context;
    for (; type->name; type++)
        type->seen += strcmp(type->name, name) == 0 && type->bytes == bytes;
    return true;
}

static bool see_one(void *context, const char *name, uint64_t bytes)
{
    (void)name, (void)bytes;
    ++*(size_t *)context;
    return false;
}

static void test_types(void **state)
{
    (void)state;
    static const char text[] =
        "namespace shop { struct Item { char c[204]; struct Tag { long l[3]; } t; };\n"
        "union Any { int i; char c[33]; }; namespace { class Hidden { int i[7]; } hidden; } }\n"
        "typedef struct { char c[51]; } widget; typedef int row[13][2]; typedef int number;\n"
        "struct unknown *known; shop::Item item; shop::Any any; widget w; row r; number n;\n"
        "int main() { return sizeof shop::hidden + n; }\n";
    struct wanted_type wanted[] = {
        {"shop::Item", 232, 0}, {"shop::Item::Tag", 24, 0},
        {"shop::Any", 36, 0},   {"widget", 51, 0},
        {"row", 104, 0},        {"shop::(anonymous namespace)::Hidden", 28, 0},
        {NULL, 0, 0},
    };
    write_file("types.cc", text, sizeof text - 1);
    if (!run("${CXX:-c++} -g types.cc -o types && strip -o typeless types"))
        skip();
    hx_code *code = create();
    uint32_t file = add_file(code, "types", 0), bare = add_file(code, "typeless", 0);
    uint64_t later = hx_now_ns() + 60000000000u;
    size_t calls = 0;
    assert_true(hx_code_types(code, file, later, see_type, wanted));
    for (size_t i = 0; wanted[i].name; i++)
        assert_int_equal(wanted[i].seen, 1);
    assert_true(hx_code_types(code, file, 0, see_type, wanted)); /* it was kept */
    assert_int_equal(wanted[0].seen, 2);
    assert_false(hx_code_types(code, file, later, see_one, &calls));
    assert_int_equal(calls, 1);
    assert_true(hx_code_types(code, bare, later, see_one, &calls));
    hx_code_destroy(code);
    code = create();
    file = add_file(code, "types", 0);
    assert_false(hx_code_types(code, file, 0, see_one, &calls)); /* no time */
    assert_int_equal(calls, 1);
    hx_code_destroy(code);
}

/* Of two versions of a name the default one counts. */
static void test_versions(void **state)
{
    (void)state;
    static const char source[] =
        "__asm__(\".symver old_f, f@V1\\n.symver new_f, f@@V2\\n.symver older_g, g@V1\\n\");\n"
        "int old_f(void) { return 1; }\nint new_f(void) { return 2; }\n"
        "int older_g(void) { return 3; }\n"
        "static int one(void) { return 4; }\n"
        "__attribute__((used)) static int (*pick(void))(void) { return one; }\n"
        "int chosen(void) __attribute__((ifunc(\"pick\")));\n";
    static const char map[] = "V1 { global: g; };\nV2 { global: f; chosen; } V1;\n";
    write_file("versions.c", source, sizeof source - 1);
    write_file("versions.map", map, sizeof map - 1);
    if (!run("${CC:-cc} -O1 -shared -fPIC -Wl,--version-script=versions.map versions.c "
             "-o versions.so && strip -o versions-bare.so versions.so"))
        skip();
    hx_code *code = create();
    uint32_t file = add_file(code, "versions.so", 0x7f0000000000);
    uint32_t bare = add_file(code, "versions-bare.so", 0x7f1000000000);
    uint64_t expected = find(code, file, "new_f").vaddr;
    assert_int_equal(find(code, file, "f").vaddr,
                     expected ? expected : find(code, bare, "f").vaddr);
    if (expected)
        assert_int_equal(find(code, bare, "f").vaddr, expected);
    assert_true(find(code, bare, "g").vaddr != 0);
    assert_int_equal(find(code, file, "chosen").vaddr, 0);
    assert_int_equal(find(code, bare, "chosen").vaddr, 0);
    hx_code_destroy(code);
}

/* --- files that come and go -------------------------------------------------- */

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

/* Adds the mapping of this process that contains an address. */
static uint32_t add_own(hx_code *code, const void *at, uint64_t *ret_bias)
{
    size_t n;
    uint32_t file;
    struct hx_mapping *mapping = own_mappings(&n);
    size_t i = hx_mapping_find(mapping, n, (uint64_t)(uintptr_t)at);
    assert_true(i < n);
    assert_null(hx_code_add(code, getpid(), &mapping[i], &file));
    if (ret_bias)
        assert_true(hx_code_bias(code, file, &mapping[i], ret_bias));
    hx_mappings_free(mapping, n);
    return file;
}

static __attribute__((noinline)) int static_function(int n)
{
    __asm__ volatile("");
    return n + 1;
}

static void test_self(void **state)
{
    (void)state;
    hx_code *code = create();
    uint64_t bias, libc_bias, at = (uint64_t)(uintptr_t)static_function;
    uint32_t file = add_own(code, (void *)(uintptr_t)at, &bias);
    const char *name = name_at(code, file, at - bias);
    assert_non_null(name);
    assert_string_equal(name, "static_function");
    assert_int_equal(static_function(1), 2);
    void *(*volatile libc_function)(void *, const void *, int, size_t) = memccpy;
    uint32_t libc = add_own(code, (void *)(uintptr_t)fopen, &libc_bias);
    assert_int_not_equal(libc, HX_NO_FILE);
    assert_non_null(libc_function);
    uint64_t vaddr, size;
    if (hx_code_function(code, libc, "fopen", &vaddr, &size)) /* a sanitizer may have its own */
        assert_string_equal(name_at(code, libc, vaddr), "fopen");
    hx_code_destroy(code);
}

static void test_vdso(void **state)
{
    (void)state;
    void *image = (void *)getauxval(AT_SYSINFO_EHDR);
    if (!image)
        skip();
    hx_code *code = create();
    size_t n;
    struct hx_mapping *mapping = own_mappings(&n);
    size_t i = hx_mapping_find(mapping, n, (uint64_t)(uintptr_t)image);
    if (i == n || strcmp(mapping[i].path, "[vdso]") != 0) {
        hx_mappings_free(mapping, n); /* a tool stands in for it */
        hx_code_destroy(code);
        skip();
    }
    uint32_t file;
    uint64_t bias, vaddr, size;
    assert_null(hx_code_add(code, getpid(), &mapping[i], &file));
    assert_string_equal(hx_code_name(code, file), "[vdso]");
    assert_true(hx_code_bias(code, file, &mapping[i], &bias));
    assert_int_equal(bias, mapping[i].start);
    assert_true(hx_code_function(code, file, "__vdso_clock_gettime", &vaddr, &size));
    assert_string_equal(name_at(code, file, vaddr + 1), "clock_gettime");
    assert_null(hx_code_open_path(code, file));
    struct hx_cfi cfi;
    assert_true(hx_code_cfi(code, file, &cfi));
    hx_mappings_free(mapping, n);
    hx_code_destroy(code);
}

static void *map_file(const char *name, const struct hx_mapping *mapping)
{
    HX_FD int fd = open(name, O_RDONLY | O_CLOEXEC);
    void *at = mmap(NULL, mapping->end - mapping->start, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd,
                    (off_t)mapping->offset);
    assert_true(at != MAP_FAILED);
    return at;
}

/* Deleted, then replaced under the same name by another one: two files. */
static void test_replaced(void **state)
{
    (void)state;
    if (!run("cp program moving && ${CC:-cc} -O2 -g -Dhidden=concealed program.c -o next"))
        skip();
    struct hx_mapping mapping = map_code("moving", 0);
    size_t len = mapping.end - mapping.start;
    free(mapping.path);
    void *at = map_file("moving", &mapping);
    HX_FREE char *path = realpath("moving", NULL);
    assert_int_equal(unlink("moving"), 0);
    hx_code *code = create();
    uint64_t bias;
    uint32_t file = add_own(code, at, &bias);
    assert_string_equal(hx_code_path(code, file), path);
    if (hx_code_open_path(code, file))
        check_inlined(code, file);
    assert_int_equal(rename("next", "moving"), 0);
    struct hx_mapping next_mapping = map_code("moving", 0);
    size_t next_len = next_mapping.end - next_mapping.start;
    free(next_mapping.path);
    void *next_at = map_file("moving", &next_mapping);
    uint32_t next = add_own(code, next_at, &bias);
    assert_int_not_equal(next, file);
    assert_string_equal(hx_code_path(code, next), path);
    check_inlined(code, next);
    assert_int_equal(find(code, next, "hidden").vaddr, 0);
    munmap(at, len);
    munmap(next_at, next_len);
    hx_code_destroy(code);
}

static void test_no_files(void **state)
{
    (void)state;
    hx_code *code = create();
    uint32_t file;
    struct hx_mapping jit = {.start = 4096, .end = 8192, .prot = 5, .path = (char *)""};
    assert_null(hx_code_add(code, getpid(), &jit, &file));
    assert_int_equal(file, HX_NO_FILE);
    write_file("text", "no program\n", 11);
    file = add_file(code, "text", 0x10000);
    assert_int_not_equal(file, HX_NO_FILE);
    assert_string_equal(hx_code_name(code, file), "text");
    struct hx_cfi cfi;
    uint64_t value;
    assert_false(hx_code_cfi(code, file, &cfi));
    assert_false(hx_code_bias(code, file, &jit, &value));
    assert_false(hx_code_file_offset(code, file, 0, &value));
    assert_null(hx_code_open_path(code, file));
    assert_null(name_at(code, file, 0x100));
    struct hx_mapping absent = {
        .start = 4096, .end = 8192, .prot = 5, .path = (char *)"/nowhere/at/all", .inode = 7};
    assert_null(hx_code_add(code, getpid(), &absent, &file));
    assert_string_equal(hx_code_name(code, file), "all");
    assert_null(name_at(code, file, 0x100));
    hx_code_destroy(code);
}

/* More files than descriptors are kept: they are opened again, and only as long as they are what
 * they were. */
static void test_many(void **state)
{
    (void)state;
    size_t n;
    HX_FREE uint8_t *bytes = read_whole("program", &n);
    hx_code *code = create();
    const char *first_path = NULL;
    char name[32], first_copy[64] = "";
    enum { FILES = 300 };
    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, "many-%d", i);
        write_file(name, bytes, n);
        assert_int_equal(add_file(code, name, 0x7f0000000000), i);
        if (i == 0) {
            first_path = hx_code_open_path(code, 0);
            snprintf(first_copy, sizeof first_copy, "%s", first_path);
        }
    }
    assert_string_equal(first_path, first_copy);
    check_inlined(code, 0);
    check_inlined(code, FILES - 1);
    assert_non_null(hx_code_open_path(code, FILES - 1));
    /* The same place, another file. */
    snprintf(name, sizeof name, "many-%d", FILES - 2);
    write_file(name, bytes, n - 1);
    struct hx_cfi cfi;
    assert_false(hx_code_cfi(code, FILES - 2, &cfi));
    assert_null(hx_code_open_path(code, FILES - 2));
    hx_code_destroy(code);
    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, "many-%d", i);
        unlink(name);
    }
}

/* --- threads ----------------------------------------------------------------- */

/* Names what is in the files that are there, while more come. */
struct namer {
    hx_code *code;
    atomic_bool done; /* no more come */
    size_t wrong, rounds;
};

static size_t count_wrong(hx_code *code, uint32_t file)
{
    uint64_t vaddr, size, offset;
    const struct hx_code_line *line;
    size_t wrong = 0;
    if (!hx_code_function(code, file, "outer", &vaddr, &size))
        return 1;
    for (uint64_t at = 0; at < size; at++) {
        size_t n = hx_code_lines(code, file, vaddr + at, &line);
        wrong += !line[n - 1].function || strcmp(line[n - 1].function, "outer") != 0;
        wrong += line[n - 1].offset != at || !line[n - 1].line;
    }
    const char *symbol = hx_code_symbol(code, file, vaddr + size - 1, &offset);
    return wrong + (!symbol || strcmp(symbol, "outer") != 0 || offset != size - 1);
}

static void *name_all(void *argument)
{
    struct namer *namer = argument;
    uint32_t next = 0;
    while (!atomic_load(&namer->done) || next < hx_code_count(namer->code)) {
        if (next == hx_code_count(namer->code)) {
            sched_yield();
            continue;
        }
        namer->wrong += count_wrong(namer->code, next);
        namer->wrong += strncmp(hx_code_name(namer->code, next), "thread-", 7) != 0;
        namer->wrong += strcmp(hx_code_build_id(namer->code, next), "") == 0;
        next++;
        namer->rounds++;
    }
    return NULL;
}

/* What the pump of a recorder asks. */
static size_t ask(hx_code *code, uint32_t file)
{
    struct hx_cfi cfi;
    struct hx_mapping mapping = map_code("program", 0x7f0000000000);
    uint64_t vaddr, size, bias, offset;
    size_t wrong = !hx_code_bias(code, file, &mapping, &bias);
    wrong += !hx_code_cfi(code, file, &cfi) || !cfi.frame.len;
    wrong += !hx_code_function(code, file, "mark", &vaddr, &size);
    const char *symbol = hx_code_symbol(code, file, vaddr, &offset);
    wrong += !symbol || strcmp(symbol, "mark") != 0;
    wrong += !hx_code_file_offset(code, file, vaddr, &offset) || !hx_code_open_path(code, file);
    free(mapping.path);
    return wrong;
}

static void test_threads(void **state)
{
    (void)state;
    enum { FILES = 270, FEW = 70 }; /* more than are kept open, more than one block */
    size_t n, files = unit_rounds(FILES) < FILES ? FEW : FILES;
    HX_FREE uint8_t *bytes = read_whole("program", &n);
    char name[32];
    for (size_t i = 0; i < files; i++) {
        snprintf(name, sizeof name, "thread-%zu", i);
        write_file(name, bytes, n);
    }
    struct namer namer = {.code = create()};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, name_all, &namer), 0);
    size_t wrong = 0;
    for (size_t i = 0; i < files; i++) {
        snprintf(name, sizeof name, "thread-%zu", i);
        uint32_t file = add_file(namer.code, name, 0x7f0000000000);
        wrong += file != i;
        wrong += ask(namer.code, file);
        wrong += ask(namer.code, (uint32_t)i / 2);
    }
    atomic_store(&namer.done, true);
    pthread_join(thread, NULL);
    assert_int_equal(wrong, 0);
    assert_int_equal(namer.wrong, 0);
    assert_int_equal(namer.rounds, files);
    hx_code_destroy(namer.code);
    for (size_t i = 0; i < files; i++) {
        snprintf(name, sizeof name, "thread-%zu", i);
        unlink(name);
    }
}

/* --- damage ------------------------------------------------------------------ */

/* Asks everything that can be asked of a file; whether it gave lines. */
static bool use(const char *name, struct unit_random *random)
{
    hx_code *code = create();
    uint32_t file = add_file(code, name, 0x7f0000000000);
    struct hx_cfi cfi;
    uint64_t vaddr, size;
    if (hx_code_cfi(code, file, &cfi))
        assert_non_null(cfi.frame.bytes);
    hx_code_function(code, file, "outer", &vaddr, &size);
    bool lines = false;
    for (uint64_t at = 0x1000; at < 0x1300; at += 1 + unit_below(random, 8)) {
        const struct hx_code_line *line;
        size_t n = hx_code_lines(code, file, at, &line);
        assert_true(n >= 1 && n <= HX_CODE_LINES_MAX);
        lines |= line[0].line != 0;
    }
    name_at(code, file, unit_random(random));
    size_t types = 0;
    (void)hx_code_types(code, file, hx_now_ns() + 1000000000, see_one, &types);
    hx_code_destroy(code);
    return lines;
}

/* Damage in the headers mostly makes a file useless at once, so that is done sparingly, and most of
 * it in what comes behind the loaded segments. */
static size_t damage(uint8_t *bytes, size_t n, size_t round, struct unit_random *random)
{
    if (round % 6 == 0)
        return unit_below(random, n);
    size_t most = round % 6 == 1 ? 3 : 40;
    for (uint64_t i = 1 + unit_below(random, most); i > 0; i--) {
        uint64_t at = most == 3        ? unit_below(random, 1024)
                      : round % 6 == 2 ? n - 1 - unit_below(random, 3000)
                                       : 0x3000 + unit_below(random, n - 0x3000);
        bytes[at] = (uint8_t)(unit_below(random, 2) ? unit_random(random)
                                                    : bytes[at] ^ 1u << unit_below(random, 8));
    }
    return n;
}

static void test_damaged(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("damaged");
    bool cxx = run("${CXX:-c++} -O1 -g -shared -fPIC shop.cc -o shop.so");
    size_t named = 0, rounds = unit_rounds(600);
    for (size_t round = 0; round < rounds; round++) {
        size_t n;
        HX_FREE uint8_t *bytes = read_whole(cxx && round / 6 % 2 ? "shop.so" : "program", &n);
        size_t kept = damage(bytes, n, round, &random);
        unlink("damaged");
        write_file("damaged", bytes, kept);
        named += use("damaged", &random);
    }
    assert_true(named > rounds / 8); /* else it tested nothing */
}

/* Lists of locations whose expressions are longer than memory: the places of variables are left
 * out, and whoever reads the file goes on. */
static void test_endless_lists(void **state)
{
    (void)state;
    static const uint8_t endless[] = {
        DW_LLE_default_location, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0xa4, 0x01};
    static const char source[] = "int use(int);\n"
                                 "int outer(int a, int b) { int c = use(a); use(c);\n"
                                 "  return use(a + b + c); }\n";
    enum { HEADER = 12 };
    write_file("lists.c", source, sizeof source - 1);
    if (!run("${CC:-cc} -O2 -gdwarf-5 -shared -fPIC lists.c -o lists.so && "
             "objcopy --dump-section .debug_loclists=lists lists.so"))
        skip();
    for (size_t shift = 0; shift <= sizeof endless; shift++) {
        size_t n, locals = 0;
        HX_FREE uint8_t *lists = read_whole("lists", &n);
        /* One of them begins where a list does; the last round leaves all as it is. */
        for (size_t at = HEADER + shift; shift < sizeof endless && at < n; at++)
            lists[at] = endless[(at - HEADER - shift) % sizeof endless];
        write_file("changed", lists, n);
        assert_true(run("objcopy --update-section .debug_loclists=changed lists.so changed.so"));
        hx_code *code = create();
        uint32_t file = add_file(code, "changed.so", 0x7f0000000000);
        struct found outer = find(code, file, "outer");
        for (uint64_t at = outer.vaddr; at < outer.vaddr + outer.size; at++) {
            const struct hx_code_local *local;
            const char *function;
            locals += hx_code_frame(code, file, at, &function, &local);
        }
        struct hx_text told = {0};
        uint64_t parts;
        hx_reading_tell(hx_code_reading(code), &told, &parts);
        assert_null(strstr(hx_text_str(&told), "ended"));
        hx_text_free(&told);
        assert_int_equal(locals > 0, shift == sizeof endless);
        hx_code_destroy(code);
    }
}

/* --- the second opinion ------------------------------------------------------ */

/* Compares `rounds` addresses of a file with what addr2line says of them. Where no symbol covers
 * the address it names the one before, and we none. */
static void compare(const char *name, struct unit_random *random, uint64_t start, uint64_t end,
                    size_t rounds)
{
    hx_code *code = create();
    uint32_t file = add_file(code, name, 0x7f0000000000);
    struct hx_text command = {0};
    HX_FREE uint64_t *vaddr = malloc(rounds * sizeof *vaddr);
    hx_text_putf(&command, "addr2line -fia -e %s", name);
    for (size_t i = 0; i < rounds; i++) {
        vaddr[i] = start + unit_below(random, end - start);
        hx_text_putf(&command, " 0x%llx", (unsigned long long)vaddr[i]);
    }
    FILE *pipe = popen(hx_text_str(&command), "r");
    assert_non_null(pipe);
    char line[4096], place[4096];
    size_t same = 0, named = 0, i = SIZE_MAX, k = 0, n = 0;
    const struct hx_code_line *ours = NULL;
    while (fgets(line, sizeof line, pipe)) {
        line[strcspn(line, "\n")] = 0;
        if (strncmp(line, "0x", 2) == 0) {
            i++;
            k = 0;
            assert_true(i < rounds);
            n = hx_code_lines(code, file, vaddr[i], &ours);
            continue;
        }
        assert_non_null(fgets(place, sizeof place, pipe));
        if (k >= n || !ours[k].function) {
            k++;
            continue;
        }
        named++;
        const char *colon = strrchr(place, ':');
        same += strcmp(ours[k].function, line) == 0 && colon &&
                (unsigned long)atol(colon + 1) == ours[k].line;
        k++;
    }
    assert_int_equal(pclose(pipe), 0);
    printf("%s: %zu of %zu as addr2line says\n", name, same, named);
    assert_true(named > rounds / 2);
    assert_true(same * 100 >= named * 98);
    hx_text_free(&command);
    hx_code_destroy(code);
}

static void test_addr2line(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("addr2line");
    if (!run("command -v addr2line"))
        skip();
    hx_code *code = create();
    uint32_t file = add_file(code, "program", 0x555500000000);
    struct found mark = find(code, file, "mark"), last = find(code, file, "callback");
    hx_code_destroy(code);
    compare("program", &random, mark.vaddr, last.vaddr + last.size, 300);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_function), cmocka_unit_test(test_entries),
        cmocka_unit_test(test_types),         cmocka_unit_test(test_program),
        cmocka_unit_test(test_split),         cmocka_unit_test(test_fixed),
        cmocka_unit_test(test_stripped),      cmocka_unit_test(test_packed_symbols),
        cmocka_unit_test(test_cxx),           cmocka_unit_test(test_versions),
        cmocka_unit_test(test_self),          cmocka_unit_test(test_vdso),
        cmocka_unit_test(test_replaced),      cmocka_unit_test(test_no_files),
        cmocka_unit_test(test_damaged),       cmocka_unit_test(test_endless_lists),
        cmocka_unit_test(test_many),          cmocka_unit_test(test_addr2line),
        cmocka_unit_test(test_threads),
    };
    return unit_run_some_with(tests, enter, leave);
}
