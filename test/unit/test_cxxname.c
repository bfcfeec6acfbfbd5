/* test_cxxname.c - names of C++ variables as users write them, beside those of linkers. */
#include "unit.h"

#include "config.h"

#include "sym/cxxname.h"

static bool is(const char *written, const char *symbol, bool inner)
{
    struct hx_cxx_name name;
    assert_null(hx_cxx_name_init(written, &name));
    bool same = hx_cxx_name_is(&name, symbol, inner);
    assert_int_equal(hx_cxx_name_is(&name, symbol, inner), same); /* nothing is left behind */
    hx_cxx_name_deinit(&name);
    return same;
}

static void test_same(void **state)
{
    (void)state;
#ifndef HX_HAVE_DEMANGLER
    skip();
#endif
    static const char *const same[][2] = {
        {"m", "_Z1mB5cxx11"},
        {"m[abi:cxx11]", "_Z1mB5cxx11"},
        {"::m", "_Z1mB5cxx11"},
        {"svc::slots", "_ZN3svc5slotsB5cxx11E"},
        {"svc::slots[abi:cxx11]", "_ZN3svc5slotsB5cxx11E"},
        {"svc::Cache::get()::c", "_ZZN3svc5Cache3getEvE1c"},
        {"svc::Cache::get::c", "_ZZN3svc5Cache3getEvE1c"},
        {"svc::Cache::get()::c", "_ZZN3svc5Cache3getEvE1c_0"},
        {"svc::Cache::get()::c", "_ZZNK3svc5Cache3getEvE1c"},
        {"svc::Cache::get() const::c", "_ZZNK3svc5Cache3getEvE1c"},
        {"svc::Cache::get::c", "_ZZNK3svc5Cache3getEvE1c"},
        {"svc::Cache::get()::c", "_ZZN3svc5Cache3getB5cxx11EvE1c"},
        {"svc::Cache::get()::c", "_ZZN3svc5Cache3getEvE1cB5cxx11"},
        {"get<int>(int)::c", "_ZZ3getIiEiT_E1c"},
        {"get<int>::c", "_ZZ3getIiEiT_E1c"},
        {"f(int, char)::c", "_ZZ1ficE1c"},
        {"f(int,char)::c", "_ZZ1ficE1c"},
        {"f(unsigned  int)::c", "_ZZ1fjE1c"},
        {"f::c", "_ZZ1fjE1c"},
        {"tvar<int>", "_Z4tvarIiE"},
        {"Pool<Pool<int>>::all", "_ZN4PoolIS_IiEE3allE"},
        {"Pool<Pool<int> >::all", "_ZN4PoolIS_IiEE3allE"},
        {"main::{lambda()#1}::operator()() const::x", "_ZZZ4mainENKUlvE_clEvE1x"},
        {"cache", "_ZL5cache"},
        {"cache", "_ZL5cache.lto_priv.0"},
        {"app::cache", "_ZN3appL5cacheE"},
        {"(anonymous namespace)::cache", "_ZN12_GLOBAL__N_15cacheE"},
        {"app::(anonymous namespace)::cache", "_ZN3app12_GLOBAL__N_15cacheE"},
        {"(anonymous namespace)::get()::c", "_ZZN12_GLOBAL__N_13getEvE1c"},
        {"(anonymous namespace)::get::c", "_ZZN12_GLOBAL__N_13getEvE1c"},
    };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        if (!is(same[i][0], same[i][1], false))
            fail_msg("%s is not %s", same[i][0], same[i][1]);
        assert_true(is(same[i][0], same[i][1], true));
    }
    static const char *const inner[][2] = {
        {"cache", "_ZN12_GLOBAL__N_15cacheE"},
        {"app::cache", "_ZN3app12_GLOBAL__N_15cacheE"},
        {"get()::c", "_ZZN12_GLOBAL__N_13getEvE1c"},
    };
    for (size_t i = 0; i < sizeof inner / sizeof *inner; i++) {
        assert_false(is(inner[i][0], inner[i][1], false));
        assert_true(is(inner[i][0], inner[i][1], true));
    }
}

static void test_other(void **state)
{
    (void)state;
    static const char *const other[][2] = {
        {"m", "m"}, /* not mangled */
        {"m", "_Z2mmB5cxx11"},
        {"cxx11", "_Z1mB5cxx11"},
        {"slots", "_ZN3svc5slotsB5cxx11E"},
        {"svc::slots[3]", "_ZN3svc5slotsB5cxx11E"},
        {"c", "_ZZN3svc5Cache3getEvE1c"},
        {"get()::c", "_ZZN3svc5Cache3getEvE1c"},
        {"svc::Cache::get(int)::c", "_ZZN3svc5Cache3getEvE1c"},
        {"svc::Cache::get()::c", "_ZZN3svc5Cache3getEiE1c"},
        {"svc::Cache::get()::c", "_ZGVZN3svc5Cache3getEvE1c"}, /* its guard */
        {"svc::Cache", "_ZTVN3svc5CacheE"},
        {"f(unsignedint)::c", "_ZZ1fjE1c"},
        {"(anonymous namespace)::cache", "_ZL5cache"},
        {"(anonymous namespace)::cache", "_ZN3app5cacheE"},
        {"", "_ZL5cache"},
        {"::", "_ZL5cache"},
        {"", "_Z"},
        {"", "_ZN12_GLOBAL__N_1E"},
        {"(", "_ZL5cache"},
        {"((((", "_ZZ1fjE1c"},
        {")", "_ZZ1fjE1c"},
        {"c", "_ZZ1fj"},
        {"[abi:", "_Z1mB5cxx11"},
        {"m[abi:cxx11", "_Z1mB5cxx11"},
        {"m[abi:cx x11]", "_Z1mB5cxx11"},
    };
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        for (int inner = 0; inner < 2; inner++)
            if (is(other[i][0], other[i][1], inner))
                fail_msg("%s is %s", other[i][0], other[i][1]);
}

/* Both sides from a hat: nothing but an answer is wanted. */
static void test_random(void **state)
{
    (void)state;
    static const char *const piece[] = {"(",  ")",    "[abi:",  "]",  "(anonymous namespace)",
                                        "::", " ",    " const", "&",  " &&",
                                        "c",  "_Z1c", "_ZZ1f",  "iE", "1c",
                                        "<",  ">",    "_0",     ".",  "12_GLOBAL__N_1"};
    struct unit_random random = unit_random_begin("names of C++ variables");
    for (int round = 0; round < 20000; round++) {
        char text[2][400];
        for (int k = 0; k < 2; k++) {
            size_t n = unit_below(&random, 14);
            strcpy(text[k], k ? "_Z" : "");
            for (size_t i = 0; i < n; i++)
                strcat(text[k], piece[unit_below(&random, sizeof piece / sizeof *piece)]);
        }
        is(text[0], text[1], round % 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same), cmocka_unit_test(test_other),
                                       cmocka_unit_test(test_random)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
