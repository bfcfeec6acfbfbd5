/* test_demangle.c - names of C++ types and symbols: ordinary ones, hostile ones, random ones. */
#include "unit.h"

#include "config.h"

#include "base/text.h"
#include "sym/demangle.h"

/* How long a name may take, on any machine. Without bounds these would take years. */
#define BOMB_NS (2 * 1000000000ull)

static char *demangled(const char *name)
{
    struct hx_text text = {0};
    hx_demangle_type(&text, name);
    assert_false(text.failed);
    assert_non_null(text.s);
    assert_true(text.n <= HX_DEMANGLED_MAX + 3);
    assert_int_equal(strlen(text.s), text.n);
    return text.s;
}

static void check(const char *name, const char *expected)
{
    char *text = demangled(name);
#ifndef HX_HAVE_DEMANGLER
    expected = name;
#endif
    assert_string_equal(text, expected);
    free(text);
}

static void test_ordinary(void **state)
{
    (void)state;
    check("4Node", "Node");
    check("N3app4core4NodeE", "app::core::Node");
    check("3BoxIiE", "Box<int>");
    check("3BoxIJidEE", "Box<int, double>");
    check("3BoxILi3EE", "Box<3>");
    check("NSt7__cxx1115basic_stringbufIcSt11char_traitsIcESaIcEEE",
          "std::__cxx11::basic_stringbuf<char, std::char_traits<char>, std::allocator<char> >");
    check("N12_GLOBAL__N_14NodeE", "(anonymous namespace)::Node");
    check("Z4mainE5Local", "main::Local");
    check("Z4makeiE5Local_0", "make(int)::Local");
    check("Z4mainEUlvE_", "main::{lambda()#1}");
    check("ZZ4makevENKUliE0_clEiE5Local", "make()::{lambda(int)#2}::operator()(int) const::Local");
    check("St19_Sp_counted_deleterIPiZ4mainEUlS0_E_SaIvELN9__gnu_cxx12_Lock_policyE2EE",
          "std::_Sp_counted_deleter<int*, main::{lambda(int*)#1}, std::allocator<void>, "
          "(__gnu_cxx::_Lock_policy)2>");
}

static void test_not_mangled(void **state)
{
    (void)state;
    const char *const names[] = {"Node", "4Nod", "N4NodeE_", "\xc3\xa9t\xc3\xa9", "3BoxI", "_Z"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        check(names[i], names[i]);
}

/* UTF-8 is not cut within a character, and no more is kept than the bound. */
static void test_cut(void **state)
{
    (void)state;
    for (size_t shift = 0; shift < 4; shift++) {
        char name[4097];
        memset(name, 'x', shift);
        for (size_t i = shift; i + 3 < sizeof name; i += 3)
            memcpy(name + i, "\xe2\x82\xac", 4);
        char *text = demangled(name);
        size_t n = strlen(text);
        assert_string_equal(text + n - 3, "...");
        assert_int_equal((n - 3 - shift) % 3, 0);
        assert_true(n > HX_DEMANGLED_MAX - 3);
        free(text);
    }
    char name[600] = "3BoxI";
    for (size_t i = 0; i < 250; i++)
        strcat(name, "PK");
    strcat(name, "iE"); /* Box<int const* const* ...> */
    char *text = demangled(name);
#ifdef HX_HAVE_DEMANGLER
    assert_int_equal(strlen(text), HX_DEMANGLED_MAX + 3);
    assert_string_equal(text + HX_DEMANGLED_MAX, "...");
    assert_memory_equal(text, "Box<int const*", 14);
#endif
    free(text);
}

/* Of this thread: other work on the machine does not count. */
static uint64_t cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static char *with_names(const char *s, size_t n)
{
    struct hx_text text = {0};
    hx_demangle_names(&text, s, n);
    assert_false(text.failed);
    return text.s ? text.s : strdup("");
}

/* As the name of a type and, with _Z, of a symbol. */
static void check_time(const char *name)
{
    struct hx_text symbol = {0};
    hx_text_putf(&symbol, "_Z%s", name);
    uint64_t begun = cpu_ns();
    free(demangled(name));
    free(with_names(symbol.s, symbol.n));
    hx_text_free(&symbol);
    uint64_t took = cpu_ns() - begun;
    if (took > BOMB_NS && !getenv("HX_VALGRIND"))
        fail_msg("%llu ns for %s", (unsigned long long)took, name);
}

/* The n-th substitution: S_, S0_, ... S9_, SA_, ... */
static void put_reference(struct hx_text *text, size_t n)
{
    static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    hx_text_putc(text, 'S');
    if (n > 36)
        hx_text_putc(text, digits[(n - 1) / 36]);
    if (n > 0)
        hx_text_putc(text, digits[(n - 1) % 36]);
    hx_text_putc(text, '_');
}

/* 1BI 1BI ... 1A S_ E S0_ E: each level names the one below twice. `first` is the number of
 * substitutions in `begin`. */
static void bomb(const char *begin, size_t first, size_t levels, const char *end)
{
    struct hx_text text = {0};
    hx_text_puts(&text, begin);
    for (size_t i = 0; i < levels; i++)
        hx_text_puts(&text, "1BI");
    hx_text_puts(&text, "1A");
    for (size_t i = 0; i < levels; i++) {
        put_reference(&text, first + levels + i);
        hx_text_puts(&text, "E");
    }
    hx_text_puts(&text, end);
    check_time(hx_text_str(&text));
    hx_text_free(&text);
}

static void nested(const char *begin, const char *unit, size_t n, const char *end)
{
    struct hx_text text = {0};
    hx_text_puts(&text, begin);
    for (size_t i = 0; i < n; i++)
        hx_text_puts(&text, unit);
    hx_text_puts(&text, end);
    check_time(hx_text_str(&text));
    hx_text_free(&text);
}

static void test_bombs(void **state)
{
    (void)state;
    /* A<A<...>, A<...>>: pairs of the pair before. */
    for (size_t levels = 1; levels < 36; levels++) {
        struct hx_text text = {0};
        hx_text_puts(&text, "1PIJ1AS_"); /* P<A, P, ...: S_ is P, S0_ is A, S1_ is P<...> */
        for (size_t i = 0; i < levels; i++) {
            hx_text_puts(&text, "S_I");
            put_reference(&text, i + 1);
            put_reference(&text, i + 1);
            hx_text_puts(&text, "E");
        }
        size_t whole = text.n;
        hx_text_puts(&text, "EE");
        check_time(hx_text_str(&text));
        /* the same below the search for a pack: nothing is written */
        text.n = whole;
        text.s[whole] = 0;
        for (int i = 0; i < 8; i++) {
            hx_text_puts(&text, "Dp");
            put_reference(&text, levels + 1);
        }
        hx_text_puts(&text, "EE");
        check_time(hx_text_str(&text));
        text.n = whole;
        text.s[whole] = 0;
        hx_text_puts(&text, "XsZ");
        put_reference(&text, levels + 1);
        hx_text_puts(&text, "EEE");
        check_time(hx_text_str(&text));
        hx_text_free(&text);
        bomb("", 0, levels, "");
        bomb("1PIDp", 1, levels, "E");
        bomb("1PIJDp", 1, levels, "EE");
        bomb("1PIXsZ", 1, levels, "EE");
        bomb("DTsZ", 0, levels, "E");
        bomb("F", 0, levels, "E");
    }
    for (size_t n = 1; n <= 1 << 12; n *= 2) {
        nested("", "P", n, "i");
        nested("", "1AI", n, "");
        nested("", "M1A", n, "i");
        nested("", "F", n, "v");
        nested("", "Dp", n, "T_");
        nested("1A", "IXcvT_", n, "E");
        nested("1AI", "LZ1ANcvT_I", n, ""); /* read twice at each level */
        nested("1AIX", "L_ZN1AcvT_I", n, "EE");
        nested("1AIX", "cvT_Icv", n, "EE");
        nested("Z", "1fIT_EvZ", n, "E");
        nested("", "A_", n, "i");
        nested("1AIX", "ps", n, "EE");
        nested("", "DT", n, "E");
        nested("", "U1a", n, "i");
        nested("N", "S_", n, "E");
        nested("1AIJ", "J", n, "EE");
        nested("1AIJ1BIT_T_T_E", "S0_IT_T_S_S0_E", n, "EE");
    }
}

/* Shapes that a demangler knows, put together without sense. */
static void test_random(void **state)
{
    (void)state;
    static const char *const parts[] = {
        "N",   "E",   "E",   "I",     "E",     "J",           "1A",      "2bc", "St", "Sa",   "S_",
        "S0_", "S1_", "S2_", "SA_",   "T_",    "T0_",         "P",       "K",   "R",  "O",    "F",
        "v",   "i",   "Z",   "UlvE_", "UliE_", "L",           "Li3E",    "Dp",  "DT", "X",    "sp",
        "sZ",  "cv",  "A_",  "M",     "_Z",    "GLOBAL__N_1", "12",      "fl",  "pl", "Tn",   "Do",
        "C1",  "D0",  "on",  "Ul",    "_",     "9999999999",  "B5cxx11", "DO",  "Dw", "Dv3_", "sr",
        "gs",  "nw",  "tl",  "il",    "fp_"};
    struct unit_random random = unit_random_begin("random names");
    for (size_t round = 0; round < unit_rounds(30000); round++) {
        struct hx_text text = {0};
        size_t n = 1 + unit_below(&random, unit_below(&random, 10) ? 40 : 500);
        bool bytes = unit_below(&random, 4) == 0;
        for (size_t i = 0; i < n; i++)
            if (bytes)
                hx_text_putc(&text, (char)(1 + unit_below(&random, 255)));
            else
                hx_text_puts(&text, parts[unit_below(&random, sizeof parts / sizeof *parts)]);
        check_time(hx_text_str(&text));
        hx_text_free(&text);
    }
}

static void check_names(const char *s, const char *expected)
{
    char *text = with_names(s, strlen(s));
#ifndef HX_HAVE_DEMANGLER
    expected = s;
#endif
    assert_string_equal(text, expected);
    free(text);
}

static void test_names(void **state)
{
    (void)state;
    check_names("", "");
    check_names("cache_head", "cache_head");
    check_names("_ZN3svc13live_sessionsE", "svc::live_sessions");
    check_names("_ZN3svcL5tableE", "svc::table");
    check_names("_ZZ4mainE5cache", "main::cache");
    check_names("_ZTV4Node", "vtable for Node");
    check_names("_ZGVZ4mainE5cache", "guard variable for main::cache");
    check_names("_Z4loadPKcm.cold", "load(char const*, unsigned long) [clone .cold]");
    check_names("_ZSt4cout@GLIBCXX_3.4", "std::cout@GLIBCXX_3.4");
    check_names("cache, _ZN3svc13live_sessionsE, stack of thread 7, _ZN1a1bE",
                "cache, svc::live_sessions, stack of thread 7, a::b");
    check_names("cache+_ZN1a1bE+_ZN1a1cE", "cache+a::b+a::c");
    check_names("  (_ZN1a1bE)", "  (a::b)");
    /* No names of symbols, or not quite. */
    check_names("_Z", "_Z");
    check_names("_Z, _Z", "_Z, _Z");
    check_names("x_ZN1a1bE", "x_ZN1a1bE");
    check_names("_ZN1a1b", "_ZN1a1b");
    check_names("_Znonsense here", "_Znonsense here");
    check_names("4Node", "4Node");
    char *part = with_names("_ZN1a1bE", 5); /* what is behind the end is not read */
    assert_string_equal(part, "_ZN1a");
    free(part);
}

/* What is not taken stays whole, and the work for one text has a bound. */
static void check_function(const char *name, const char *expected)
{
    struct hx_text text = {0};
    hx_demangle_symbol(&text, name);
    assert_false(text.failed);
#ifndef HX_HAVE_DEMANGLER
    expected = name;
#endif
    assert_string_equal(hx_text_str(&text), expected);
    hx_text_free(&text);
}

static void test_functions(void **state)
{
    (void)state;
    check_function("malloc", "malloc");
    check_function("_start", "_start");
    check_function("_Z", "_Z");
    check_function("_R", "_R");
    check_function("4Node", "4Node"); /* a type */
    check_function("_Znwm", "operator new(unsigned long)");
    check_function("_ZN3app3runEPKc", "app::run(char const*)");
    check_function("_Z1fv.part.0", "f() [clone .part.0]");
    check_function("_ZN4shop6Basket3add17h1429667979d30862E", "shop::Basket::add");
    check_function("_ZN4shop15Basket$LT$T$GT$3add17h1429667979d30862E", "shop::Basket<T>::add");
    check_function("_RNvCs6GmmlP4bgsG_4shop4main", "shop::main");
    check_function("_ZSt4cout@@GLIBCXX_3.4", "std::cout@@GLIBCXX_3.4");
    check_function("stdout@GLIBC_2.2.5", "stdout@GLIBC_2.2.5");
}

static void check_written(const char *name, const char *expected)
{
    char *written = hx_written_name(name);
#ifndef HX_HAVE_DEMANGLER
    expected = name;
#endif
    assert_string_equal(written, expected);
    free(written);
}

static void check_namesake(const char *symbol, const char *other, bool is)
{
    char *written = hx_written_name(symbol);
#ifndef HX_HAVE_DEMANGLER
    is = false;
#endif
    assert_int_equal(hx_is_namesake(symbol, written, other), is);
    free(written);
}

/* What nobody writes, and who is called so without it. */
static void test_tags(void **state)
{
    (void)state;
    struct hx_text text = {0};
    check_written("_ZN3app5cacheB5cxx11E", "app::cache");
    check_written("_Z4makeB5cxx11B3newi", "make(int)");
    check_written("_ZNKSt8ios_base7failureB5cxx114whatEv", "std::ios_base::failure::what() const");
    check_written("plain[abi:x]", "plain[abi:x]");
    check_written("_Zthis is none", "_Zthis is none");
    hx_put_untagged(&text, "a[abi:b][abi:c.d]::e[abi:][abi:broken, f[3]");
    assert_string_equal(hx_text_str(&text), "a::e[abi:broken, f[3]");
    hx_text_free(&text);
    check_namesake("_ZN3app5cacheB5cxx11E", "_ZN3app5cacheE", true);
    check_namesake("_ZN3app5cacheB5cxx11E", "_ZN3app5cacheB3newE", true);
    check_namesake("_ZN3app5cacheB5cxx11E", "_ZN3app5cacheB5cxx11E", false);
    check_namesake("_ZN3app5cacheB5cxx11E", "_ZN3app5cachedE", false);
    check_namesake("_Z4makeB5cxx11i", "_Z4makec", false); /* of another type */
    check_namesake("_ZN2B35cacheB5cxx11E", "_ZN2B35cacheE", true);
}

/* Names that would take forever, and one that is deep. */
static void test_function_bombs(void **state)
{
    (void)state;
    char deep[1020] = "_RM", doubled[1020] = "_RINvC1a1f";
    memset(deep + 3, 'M', 1000);
    for (int i = 0; i < 120; i++)
        strcat(doubled, i % 2 ? "TBa_Ba_E" : "TBb_B9_E");
    const char *const names[] = {"_RMINvC1a1bFGzzzzzzzzzz_EuEu", "_RXINvC1a1bDGzzzzzzzz_EuEuu",
                                 "_RINvC1a1bFGzzzzzz_EuE", deep, doubled};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct timespec before, after;
        struct hx_text text = {0};
        clock_gettime(CLOCK_MONOTONIC, &before);
        hx_demangle_symbol(&text, names[i]);
        clock_gettime(CLOCK_MONOTONIC, &after);
        assert_true(text.n > 0 && text.n <= HX_DEMANGLED_MAX + 3);
        assert_true((uint64_t)(after.tv_sec - before.tv_sec) * 1000000000u < BOMB_NS);
        hx_text_free(&text);
    }
}

/* Names that the demanglers of functions are given by somebody who means harm. */
static void test_random_functions(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("random functions");
    static const char letters[] = "_RZNIEBCMXYSTvtibchlmKpPQFDs0123456789aAuLnq$.17h";
    for (size_t round = 0; round < unit_rounds(20000); round++) {
        char name[300];
        size_t n = 2 + unit_below(&random, sizeof name - 3);
        memcpy(name, round % 2 ? "_R" : "_Z", 2);
        for (size_t i = 2; i < n; i++)
            name[i] = letters[unit_below(&random, sizeof letters - 1)];
        name[n] = 0;
        struct hx_text text = {0};
        hx_demangle_symbol(&text, name);
        assert_true(!text.failed && text.n > 0 && text.n <= HX_DEMANGLED_MAX + 3);
        hx_text_free(&text);
    }
}

static void test_long_names(void **state)
{
    (void)state;
    struct hx_text text = {0};
    hx_text_puts(&text, "_Z5000");
    for (int i = 0; i < 5000; i++)
        hx_text_putc(&text, 'x');
    char *same = with_names(text.s, text.n);
    assert_string_equal(same, text.s);
    free(same);
    hx_text_clear(&text);
    for (int i = 0; i < 2 * HX_DEMANGLED_NAMES; i++)
        hx_text_puts(&text, "_Z1a, ");
    char *some = with_names(text.s, text.n);
#ifdef HX_HAVE_DEMANGLER
    size_t done = sizeof "a, " - 1, left = sizeof "_Z1a, " - 1;
    assert_int_equal(strlen(some), HX_DEMANGLED_NAMES * (done + left));
    assert_string_equal(some + strlen(some) - left, "_Z1a, ");
#endif
    free(some);
    hx_text_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_long_names),
        cmocka_unit_test(test_ordinary),
        cmocka_unit_test(test_not_mangled),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_bombs),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_functions),
        cmocka_unit_test(test_tags),
        cmocka_unit_test(test_random_functions),
        cmocka_unit_test(test_function_bombs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
