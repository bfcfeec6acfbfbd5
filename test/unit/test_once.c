/* test_once.c - code that runs once: what compilers make of static constructors, static variables
 * of functions and pthread_once(), whole and stripped, in programs and libraries; and instructions.
 */
#include "unit.h"

#include "base/cleanup.h"
#include "sym/code/code.h"
#include "sym/insn.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

/* A call of once_*() is in code that runs once, one of many_*() is not. Those of later_*() are in
 * functions that an initialiser may end with by a jump: then they are. */
static const char source[] =
    "volatile int sink;\n"
    "#define PROBE(f) extern \"C\" __attribute__((noinline, visibility(\"hidden\"))) int f(int "
    "x)\\\n"
    "  { asm volatile(\"\" : \"+r\"(x)); sink = sink + x; return x; }\n"
    "PROBE(once_a) PROBE(once_b) PROBE(once_c) PROBE(once_d) PROBE(once_e) PROBE(once_f)\n"
    "PROBE(once_g) PROBE(once_h) PROBE(once_i) PROBE(once_j) PROBE(once_k) PROBE(once_l)\n"
    "PROBE(many_a) PROBE(many_b) PROBE(many_c) PROBE(many_d) PROBE(many_e) PROBE(many_f)\n"
    "PROBE(many_g) PROBE(many_h) PROBE(many_i) PROBE(later_a) PROBE(later_b) PROBE(many_j)\n"
    "struct Item { int v; Item(int n) : v(n) {} ~Item() { sink = sink + v; } };\n"
    "int plain(int n) { many_a(n); static int v = once_a(n); many_b(n); return v; }\n"
    "int two(int n) { static Item v(once_b(n)); many_c(n);\n"
    "  static int w = once_c(v.v) + once_d(n); many_d(n); return w; }\n"
    "static inline int inner(int n) { static int x = once_e(n); return x; }\n"
    "int nested(int n) { static int y = inner(n) + once_f(n); return many_e(y) + 1; }\n"
    "int loop(int n) { int sum = 0; for (int i = 0; i < n; i++) { many_f(i);\n"
    "  static int z = once_g(i); sum += many_g(z); } return sum; }\n"
    "int thrower(int n) { static int t = n > 1000 ? throw n : once_h(n); return many_h(t) + 1; }\n"
    "void nothing(int n) { static Item *i = new Item((n & 1) ? once_i(n) : once_j(n)); (void)i; }\n"
    "__attribute__((constructor)) static void first() { sink = sink + once_k(1); }\n"
    "__attribute__((noinline)) static void alone() { sink = sink + later_a(3); sink = sink + 1; }\n"
    "__attribute__((constructor)) static void second() { once_l(2); alone(); }\n"
    "__attribute__((noinline)) static void shared() { sink = sink + many_i(4); sink = sink + 1; }\n"
    "__attribute__((constructor)) static void third() { shared(); }\n"
    "void again() { many_j(1); shared(); }\n"
    "int global = later_b(5);\n"
    "int main() { nothing(2); again();\n"
    "  return plain(1) + two(2) + nested(3) + loop(4) + thrower(5); }\n";

struct folder {
    char path[32];
    char before[4096];
};

static bool run(const char *command)
{
    char line[2048];
    snprintf(line, sizeof line, "(%s) </dev/null >/dev/null 2>&1", command);
    return system(line) == 0;
}

static int enter(void **state)
{
    struct folder *folder = calloc(1, sizeof *folder);
    strcpy(folder->path, "/tmp/hx-once-XXXXXX");
    if (!mkdtemp(folder->path) || !getcwd(folder->before, sizeof folder->before) ||
        chdir(folder->path) < 0)
        return -1;
    *state = folder;
    HX_FILE FILE *file = fopen("once.cc", "w");
    return !file || fputs(source, file) < 0;
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

static uint32_t add_file(hx_code *code, const char *name)
{
    struct stat st;
    uint32_t file;
    assert_int_equal(stat(name, &st), 0);
    struct hx_mapping mapping = {.start = 0x1000,
                                 .end = 0x2000,
                                 .prot = HX_PROT_R | HX_PROT_X,
                                 .path = realpath(name, NULL),
                                 .dev = st.st_dev,
                                 .inode = st.st_ino};
    assert_null(hx_code_add(code, getpid(), &mapping, &file));
    free(mapping.path);
    return file;
}

/* --- calls in a file ------------------------------------------------------------ */

struct image {
    uint8_t *bytes;
    size_t n;
};

static struct image read_image(const char *name)
{
    struct stat st;
    HX_FD int fd = open(name, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    struct image image = {malloc((size_t)st.st_size), (size_t)st.st_size};
    assert_non_null(image.bytes);
    assert_int_equal(read(fd, image.bytes, image.n), (ssize_t)image.n);
    return image;
}

static enum hx_code_once ask(hx_code *code, uint32_t file, uint64_t vaddr)
{
    uint64_t site;
    return hx_code_once(code, file, vaddr, &site);
}

/* Calls of the function in what is executable of `image`, whose names `known` has: how many `code`
 * says run once, and how many there are. */
static size_t count_calls(hx_code *code, uint32_t file, const struct image *image,
                          uint64_t function, size_t *ret_n)
{
    Elf64_Ehdr header;
    size_t once = 0;
    *ret_n = 0;
    memcpy(&header, image->bytes, sizeof header);
    for (size_t k = 0; k < header.e_phnum; k++) {
        Elf64_Phdr segment;
        memcpy(&segment, image->bytes + header.e_phoff + k * sizeof segment, sizeof segment);
        if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_X))
            continue;
        const uint8_t *bytes = image->bytes + segment.p_offset;
        for (size_t i = 0; i + 5 <= segment.p_filesz; i++) {
            int32_t distance;
            memcpy(&distance, bytes + i + 1, sizeof distance);
            uint64_t behind = segment.p_vaddr + i + 5;
            if (bytes[i] != 0xe8 || behind + (uint64_t)(int64_t)distance != function)
                continue;
            once += ask(code, file, behind - 1) == HX_CODE_ONCE;
            ++*ret_n;
        }
    }
    return once;
}

/* Compares a file with what its names say, which another file may have. */
static void check(const char *name, const char *known)
{
    hx_code *code;
    assert_null(hx_code_create(&code));
    uint32_t file = add_file(code, name), named = add_file(code, known);
    struct image image = read_image(name);
    size_t seen = 0, wrong = 0;
    for (char letter = 'a'; letter <= 'l'; letter++) {
        for (int many = 0; many < 2; many++) {
            char probe[16];
            uint64_t vaddr, size;
            size_t n;
            snprintf(probe, sizeof probe, "%s_%c", many ? "many" : "once", letter);
            if (!hx_code_function(code, named, probe, &vaddr, &size))
                continue;
            size_t once = count_calls(code, file, &image, vaddr, &n);
            bool good = once == (many ? 0 : n);
            if (!good)
                printf("%s: %s: %zu of %zu calls run once\n", name, probe, once, n);
            wrong += !good;
            seen += n;
        }
    }
    free(image.bytes);
    hx_code_destroy(code);
    assert_int_equal(wrong, 0);
    assert_true(seen >= 20);
}

/* Builds with a compiler and options; false: it cannot here. */
static bool build(const char *compiler, const char *options)
{
    char command[512];
    unlink("built");
    snprintf(command, sizeof command, "%s -g %s once.cc -o built && strip -o bare built", compiler,
             options);
    return run(command);
}

static void check_build(const char *compiler, const char *options, bool stripped)
{
    if (!build(compiler, options)) {
        printf("not here: %s %s\n", compiler, options);
        return;
    }
    printf("%s %s\n", compiler, options);
    check("built", "built");
    if (stripped)
        check("bare", "built");
}

static void test_gcc(void **state)
{
    (void)state;
    check_build("${CXX:-c++}", "-O0 -pie -fPIE", true);
    check_build("${CXX:-c++}", "-O1 -fPIC -shared", true);
    check_build("${CXX:-c++}", "-O2 -pie -fPIE", true);
    check_build("${CXX:-c++}", "-O3 -no-pie -fno-pie", true);
    check_build("${CXX:-c++}", "-Os -pie -fPIE -fcf-protection=full", true);
    check_build("${CXX:-c++}", "-O2 -pie -fPIE -fno-plt", true);
    check_build("${CXX:-c++}", "-O2 -fPIC -shared -Wl,-z,pack-relative-relocs", true);
}

static void test_static(void **state)
{
    (void)state;
    check_build("${CXX:-c++}", "-O2 -static", false);
    check_build("${CXX:-c++}", "-O0 -static-pie -fPIE", false);
}

static void test_clang(void **state)
{
    (void)state;
    check_build("clang++", "-O0 -pie -fPIE", true);
    check_build("clang++", "-O2 -pie -fPIE", true);
    check_build("clang++", "-Os -fPIC -shared", true);
}

/* What the constructors go on to by a jump: theirs alone, or not. */
static void test_jumps(void **state)
{
    (void)state;
    static const char *const options[] = {"-O2 -pie -fPIE", "-O2 -no-pie -fno-pie",
                                          "-O2 -fPIC -shared"};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        if (!build("${CXX:-c++}", options[i]))
            skip();
        hx_code *code;
        uint64_t vaddr, size;
        size_t n;
        assert_null(hx_code_create(&code));
        uint32_t file = add_file(code, "built");
        struct image image = read_image("built");
        assert_true(hx_code_function(code, file, "later_a", &vaddr, &size));
        assert_int_equal(count_calls(code, file, &image, vaddr, &n), 1);
        assert_true(hx_code_function(code, file, "later_b", &vaddr, &size));
        assert_int_equal(count_calls(code, file, &image, vaddr, &n), 1);
        uint32_t bare = add_file(code, "bare");
        assert_true(hx_code_function(code, file, "later_a", &vaddr, &size));
        assert_int_equal(count_calls(code, bare, &image, vaddr, &n), 1);
        free(image.bytes);
        hx_code_destroy(code);
    }
}

/* The call with which an initialisation begins lies in the function that has the variable. */
static void test_site(void **state)
{
    (void)state;
    if (!build("${CXX:-c++}", "-O2 -pie -fPIE"))
        skip();
    hx_code *code;
    uint64_t vaddr, size, site;
    assert_null(hx_code_create(&code));
    uint32_t file = add_file(code, "built");
    assert_true(hx_code_function(code, file, "_Z6nestedi", &vaddr, &size));
    size_t inlined = 0;
    for (uint64_t at = vaddr; at < vaddr + size; at++) {
        const struct hx_code_line *line, *begin;
        if (hx_code_once(code, file, at, &site) != HX_CODE_ONCE)
            continue;
        size_t n = hx_code_lines(code, file, at, &line);
        assert_true(site >= vaddr && site < vaddr + size);
        size_t n_begin = hx_code_lines(code, file, site, &begin);
        if (n == 2 && n_begin == 2) {
            assert_string_equal(line[0].function, begin[0].function);
            inlined++;
        }
    }
    assert_true(inlined > 0);
    hx_code_destroy(code);
}

/* --- what calls initialisers ---------------------------------------------------- */

static void *returns[8];
static size_t n_returns;

static __attribute__((noinline)) void note(void)
{
    returns[n_returns++] = __builtin_return_address(0);
}

static uint32_t add_own(hx_code *code, void *at, uint64_t *ret_bias)
{
    Dl_info info;
    uint32_t file;
    assert_true(dladdr(at, &info));
    file = add_file(code, info.dli_fname);
    *ret_bias = (uint64_t)(uintptr_t)info.dli_fbase;
    return file;
}

/* The C library of this machine, with and without what a debug package adds. */
static void test_pthread_once(void **state)
{
    (void)state;
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    hx_code *code;
    uint64_t bias, site;
    n_returns = 0;
    assert_int_equal(pthread_once(&once, note), 0);
    assert_int_equal(n_returns, 1);
    uint64_t behind = (uint64_t)(uintptr_t)returns[0];
    assert_null(hx_code_create(&code));
    uint32_t file = add_own(code, returns[0], &bias);
    assert_int_equal(hx_code_once(code, file, behind - bias - 1, &site), HX_CODE_CALLS_ONCE);
    assert_int_equal(ask(code, file, behind - bias - 64), HX_CODE_NOT_ONCE);
    uint64_t vaddr, size;
    if (hx_code_function(code, file, "qsort", &vaddr, &size))
        for (uint64_t at = vaddr; at < vaddr + size; at++)
            assert_int_equal(ask(code, file, at), HX_CODE_NOT_ONCE);
    hx_code_destroy(code);
}

/* --- damage ------------------------------------------------------------------------ */

static void test_damaged(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("damaged");
    if (!build("${CXX:-c++}", "-O2 -pie -fPIE"))
        skip();
    for (size_t round = 0, rounds = unit_rounds(300); round < rounds; round++) {
        struct image image = read_image(round % 2 ? "bare" : "built");
        size_t most = round % 3 ? 4 : 400;
        for (uint64_t i = 1 + unit_below(&random, most); i > 0; i--)
            image.bytes[64 + unit_below(&random, image.n - 64)] = (uint8_t)unit_random(&random);
        unlink("damaged");
        HX_FILE FILE *file = fopen("damaged", "w");
        assert_int_equal(fwrite(image.bytes, 1, image.n, file), image.n);
        fflush(file);
        free(image.bytes);
        hx_code *code;
        assert_null(hx_code_create(&code));
        uint32_t number = add_file(code, "damaged");
        for (uint64_t at = 0x1000; at < 0x1800; at += 7)
            (void)ask(code, number, at);
        hx_code_destroy(code);
    }
}

/* Any bytes: an instruction ends within them, or there is none. */
static void test_instructions(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("instructions");
    static const struct {
        const char *bytes;
        size_t n;
        enum hx_insn_kind kind;
        uint64_t target;
    } known[] = {
        {"\xe8\x01\x00\x00\x00", 5, HX_INSN_CALL, 0x1006},
        {"\xff\x15\x10\x00\x00\x00", 6, HX_INSN_CALL_WORD, 0x1016},
        {"\xff\xd5", 2, HX_INSN_CALL_REGISTER, 0},
        {"\xff\x11", 2, HX_INSN_CALL_REGISTER, 0},
        {"\xf2\xff\x25\xfa\xff\xff\xff", 7, HX_INSN_JUMP_WORD, 0x1001},
        {"\x0f\x84\xfa\xff\xff\xff", 6, HX_INSN_BRANCH, 0x1000},
        {"\xeb\xfe", 2, HX_INSN_JUMP, 0x1000},
        {"\x3e\xff\xe0", 3, HX_INSN_JUMP_REGISTER, 0},
        {"\x0f\x0b", 2, HX_INSN_END, 0},
        {"\xf3\xc3", 2, HX_INSN_END, 0},
        {"\x48\xb8\1\2\3\4\5\6\7\x08", 10, HX_INSN_OTHER, 0},
        {"\x66\xc7\x05\1\2\3\4\5\6", 9, HX_INSN_OTHER, 0},
        {"\xf6\x05\1\2\3\4\5", 7, HX_INSN_OTHER, 0},
        {"\xf7\xd8", 2, HX_INSN_OTHER, 0},
        {"\xc5\xf9\x70\xc0\x01", 5, HX_INSN_OTHER, 0},
        {"\xc4\xe3\x7d\x39\xc1\x01", 6, HX_INSN_OTHER, 0},
        {"\x62\xf1\x7d\x48\x6f\x40\x01", 7, HX_INSN_OTHER, 0},
        {"\x66\x0f\x3a\x0f\xc1\x08", 6, HX_INSN_OTHER, 0},
        {"\x42\x80\x7c\x24\x10\x00", 6, HX_INSN_OTHER, 0},
    };
    struct hx_insn insn;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        assert_true(hx_insn_read((const uint8_t *)known[i].bytes, known[i].n, 0x1000, &insn));
        assert_int_equal(insn.length, known[i].n);
        assert_int_equal(insn.kind, known[i].kind);
        if (known[i].target)
            assert_int_equal(insn.target, known[i].target);
        assert_false(hx_insn_read((const uint8_t *)known[i].bytes, known[i].n - 1, 0, &insn));
    }
    for (size_t round = 0, rounds = unit_rounds(200000); round < rounds; round++) {
        size_t n = unit_below(&random, 17);
        uint8_t *bytes = malloc(n + !n);
        for (size_t i = 0; i < n; i++)
            bytes[i] = (uint8_t)unit_random(&random);
        if (hx_insn_read(bytes, n, 0, &insn))
            assert_true(insn.length > 0 && insn.length <= n && insn.length <= 15);
        free(bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gcc),          cmocka_unit_test(test_static),
        cmocka_unit_test(test_clang),        cmocka_unit_test(test_jumps),
        cmocka_unit_test(test_site),         cmocka_unit_test(test_pthread_once),
        cmocka_unit_test(test_instructions), cmocka_unit_test(test_damaged),
    };
    return unit_run_some_with(tests, enter, leave);
}
