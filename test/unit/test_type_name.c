/* test_type_name.c - names of types as people say them. */
#include "unit.h"

#include "layout/type_name.h"

#include <string.h>

static void test_short(void **state)
{
    (void)state;
    static const char *const names[][2] = {
        {"std::_Sp_counted_ptr_inplace<chat::Session, std::allocator<void>,"
         " (__gnu_cxx::_Lock_policy)2>",
         "chat::Session (make_shared)"},
        {"std::__1::__shared_ptr_emplace<zoo::Cat, std::__1::allocator<zoo::Cat> >",
         "zoo::Cat (make_shared)"},
        {"std::_Sp_counted_ptr<zoo::Cat*, (__gnu_cxx::_Lock_policy)2>",
         "zoo::Cat (shared_ptr count)"},
        {"std::_Sp_counted_deleter<zoo::Cat*, std::default_delete<zoo::Cat>,"
         " std::allocator<void>, (__gnu_cxx::_Lock_policy)2>",
         "zoo::Cat (shared_ptr count)"},
        {"std::thread::_State_impl<std::thread::_Invoker<std::tuple<void (*)(int), int> > >",
         "void (*)(int), int (std::thread)"},
        {"std::vector<int, std::allocator<int> >", "std::vector<int>"},
        {"zoo::Box<std::map<int, std::__cxx11::basic_string<char, std::char_traits<char>,"
         " std::allocator<char> >, std::less<int>, std::allocator<std::pair<int const,"
         " std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> > > > > >",
         "zoo::Box<std::map<int, std::string>>"},
        {"std::__cxx11::basic_stringbuf<char, std::char_traits<char>, std::allocator<char> >",
         "std::stringbuf"},
        {"std::basic_ofstream<wchar_t, std::char_traits<wchar_t> >", "std::wofstream"},
        {"std::priority_queue<int, std::vector<int, std::allocator<int> >, std::less<int> >",
         "std::priority_queue<int>"},
        {"A<B>::C<D, E>::f", "A<B>::C<D, E>::f"},
        /* what somebody chose stays */
        {"std::map<int, int, std::less<void>, std::allocator<std::pair<int const, int> > >",
         "std::map<int, int, std::less<void>>"},
        {"std::vector<int, my::allocator<int> >", "std::vector<int, my::allocator<int>>"},
        {"my::box<int, std::allocator<int> >", "my::box<int, std::allocator<int>>"},
        {"std::basic_string<my::letter, std::char_traits<my::letter>,"
         " std::allocator<my::letter> >",
         "std::basic_string<my::letter>"},
        {"A<(anonymous namespace)::B, {lambda(int, C<D>)#1}>", "A<B, {lambda(int, C<D>)#1}>"},
        {"(anonymous namespace)::g_cache, zoo::(anonymous namespace)::cats", "g_cache, zoo::cats"},
        /* what is not understood stays */
        {"chat::Room", "chat::Room"},
        {"std::vector<int", "std::vector<int"},
        {"std::vector<int)>", "std::vector<int)>"},
        {"A<&B::operator< >", "A<&B::operator< >"},
        {"A<>", "A<>"},
        {"fn(Box<T>) -> Vec<T>", "fn(Box<T>) -> Vec<T>"},
        {"(unknown)", "(unknown)"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct hx_text text = {0}, again = {0};
        hx_text_puts(&text, "x ");
        hx_text_type(&text, names[i][0]);
        assert_false(text.failed);
        assert_string_equal(text.s + 2, names[i][1]);
        hx_text_type(&again, names[i][1]);
        assert_string_equal(hx_text_str(&again), names[i][1]);
        hx_text_free(&text);
        hx_text_free(&again);
    }
}

/* Pieces of names in any order: hardly longer than before, and nothing is read that is not there.
 */
static void test_random(void **state)
{
    (void)state;
    static const char *const parts[] = {"std::",
                                        "vector",
                                        "basic_string",
                                        "<",
                                        ">",
                                        "<char",
                                        ", ",
                                        ",",
                                        " ",
                                        "__1::",
                                        "->",
                                        "_Sp_counted_ptr",
                                        "(",
                                        ")",
                                        "*",
                                        "[",
                                        "thread::",
                                        "_State_impl",
                                        "{",
                                        "}",
                                        "std::tuple<",
                                        ">>",
                                        "std::_Sp_counted_ptr_inplace<",
                                        "allocator",
                                        "std::thread::_Invoker<",
                                        "\xff"};
    struct unit_random random = unit_random_begin("random_types");
    for (size_t round = unit_rounds(20000); round > 0; round--) {
        char name[2048] = "";
        size_t n = (size_t)unit_below(&random, unit_below(&random, 30) == 0 ? 60 : 12);
        for (size_t i = 0; i < n; i++)
            strcat(name, parts[unit_below(&random, sizeof parts / sizeof *parts)]);
        struct hx_text text = {0};
        char *exact = strdup(name); /* so that a step too far is seen */
        assert_non_null(exact);
        hx_text_type(&text, exact);
        assert_true(text.n <= strlen(name) + 24 * (n + 1));
        assert_int_equal(strlen(hx_text_str(&text)), text.n);
        hx_text_free(&text);
        free(exact);
    }
}

/* Deeper, or with more arguments, than anybody writes. */
static void test_deep(void **state)
{
    (void)state;
    struct hx_text deep = {0}, wide = {0}, text = {0};
    for (int i = 0; i < 1000; i++)
        hx_text_puts(&deep, "A<");
    for (int i = 0; i < 1000; i++)
        hx_text_putc(&deep, '>');
    hx_text_type(&text, deep.s);
    assert_string_equal(hx_text_str(&text), deep.s);
    hx_text_clear(&text);
    hx_text_puts(&wide, "A<int");
    for (int i = 0; i < 1000; i++)
        hx_text_puts(&wide, ", int");
    hx_text_putc(&wide, '>');
    hx_text_type(&text, wide.s);
    assert_string_equal(hx_text_str(&text), wide.s);
    hx_text_free(&deep);
    hx_text_free(&wide);
    hx_text_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_short),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_deep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
