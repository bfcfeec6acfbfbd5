/* test_function_name.c - names of functions in labels: what is left out of long ones, whose
 * business they are, and labels of stacks made of them. */
#include "unit.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "model/function_name.h"
#include "model/recording.h"

#define STRING "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >"

static void check_short(const char *name, const char *wanted)
{
    HX_CLEANUP(hx_text_free) struct hx_text text = {0};
    hx_text_puts(&text, "before ");
    hx_function_name_short(&text, name);
    assert_string_equal(hx_text_str(&text) + 7, wanted);
}

static void test_short(void **state)
{
    (void)state;
    static const char *const same[] = {
        "",
        "main",
        "shop::sell(shop::Basket*, unsigned long)",
        "std::vector<int, std::allocator<int> >::push_back(int&&)",
        "a_function_of_a_c_program_whose_name_is_longer_than_any_that_would_be_shortened_but_plain",
        "<alloc::vec::Vec<u8> as core::clone::Clone>::clone::a::rather::long::path::of::modules",
        "broken<with a bracket that is never closed and goes on and on, and on, and on, to the end",
        "broken(with a parenthesis that is never closed and goes on and on, and on, to the end",
        "broken) with a parenthesis that was never opened and goes on and on, and on, to the end",
        "(anonymous namespace)::a_function_in_no_named_space_with_a_long_name(int, char const*)",
        "a_space_with_a_name::operator< <shop::Item>(shop::Item const&, shop::Item const&)",
        "shop::Converter<int>::operator unsigned long() const::and_a_name_that_has_its_length()",
        "main::{unnamed type#1}::a_member_of_what_has_no_name(int, unsigned long) const [clone "
        ".cold]",
    };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        check_short(same[i], same[i]);
    check_short(STRING "::_M_append(char const*, unsigned long)",
                "std::string::_M_append(char const*, unsigned long)");
    check_short("void std::vector<" STRING ", std::allocator<" STRING " > >::push_back(" STRING
                " const&)",
                "std::vector<std::string, ...>::push_back(std::string const&)");
    check_short("std::map<int, " STRING ", std::less<int> >::emplace<int&, " STRING
                ">(int&, " STRING "&&, unsigned long, unsigned long, long)",
                "std::map<int, ...>::emplace<int&, std::string>(...)");
    check_short("std::vector<" STRING ", std::allocator<int> >& shop::basket<" STRING
                " >(int, long)",
                "shop::basket<std::string>(int, long)");
    check_short("void shop::a_function_with_a_long_name<" STRING "> but of no sense (" STRING,
                "void shop::a_function_with_a_long_name<std::string> but of no sense (std::string");
    check_short(
        "std::ostream& std::operator<< <std::char_traits<char> >(std::ostream&, char const*)",
        "std::operator<< <std::char_traits<char> >(std::ostream&, char const*)");
    check_short("std::basic_ostream<char, std::char_traits<char> >& std::operator<< "
                "<std::char_traits<char>, a_long_argument>(std::ostream&, char const*)",
                "std::operator<< <std::char_traits<char>, ...>"
                "(std::ostream&, char const*)");
    check_short(
        "std::function<void (std::vector<int, std::allocator<int> >)>::operator()(int) const",
        "std::function<...>::operator()(int) const");
    check_short(
        "main::{lambda(std::vector<int, std::allocator<int> > const&)#1}::operator()() const",
        "main::{lambda(std::vector<int, ...> const&)#1}::operator()() const");
    check_short(
        "shop::Iterator<shop::Item const*, long>::operator->() const::and_a_long_name(int)",
        "shop::Iterator<shop::Item const*, long>::operator->() const::and_a_long_name(int)");
    check_short(STRING " std::operator+<char, std::char_traits<char>, std::allocator<char> >(int)",
                "std::operator+<char, ...>(int)");
    check_short(
        "int main::{lambda(auto:1)#1}::operator()<std::vector<int, std::allocator<int> > >(int)",
        "main::{lambda(auto:1)#1}::operator()<...>(int)");
    /* cut when it was demangled */
    check_short(
        "bool shop::algorithm<std::vector<int, std::allocator<int> > >(int, char const*, unsigned "
        "long, std::vector<int, std::all...",
        "shop::algorithm<...>(...)");
    check_short(
        "bool shop::algorithm<std::vector<int, std::allocator<int> >, std::vector<int, std::a...",
        "shop::algorithm<...>");
    check_short("alloc::collections::btree::map::BTreeMap<alloc::string::String,V>::insert::inner",
                "alloc::collections::btree::map::BTreeMap<alloc::string::String,V>::insert::inner");
}

static void test_internal(void **state)
{
    (void)state;
    static const char *const internal[] = {
        "std::__new_allocator<int>::allocate(unsigned long, void const*)",
        "std::allocator_traits<std::allocator<int> >::allocate(std::allocator<int>&, unsigned "
        "long)",
        "std::allocator<int>::allocate(unsigned long)",
        "std::pmr::polymorphic_allocator<int>::allocate(unsigned long)",
        "__gnu_cxx::new_allocator<int>::allocate(unsigned long, void const*)",
        "void std::vector<int, std::allocator<int> >::_M_realloc_insert<int>(int&&)",
        STRING "::_M_create(unsigned long&, unsigned long)",
        "std::_Vector_base<int, std::allocator<int> >::~_Vector_base()",
        "std::__detail::_Map_base<int, std::pair<int const, int> >::operator[](int const&)",
        "std::__uninitialized_copy<false>::__uninit_copy<int*>(int*, int*)",
        "std::_Function_handler<void (), main::{lambda()#1}>::_M_invoke(std::_Any_data const&)",
        "std::__1::vector<int>::__push_back_slow_path(int&&)",
        "std::vector::_M_allocate",
        "alloc::alloc::exchange_malloc",
        "alloc::raw_vec::RawVec<T,A>::grow_one",
        "<alloc::alloc::Global as core::alloc::Allocator>::allocate",
        "__rust_alloc",
    };
    static const char *const outside[] = {
        "",
        "main",
        "_start",
        "__libc_start_main",
        "allocate",
        "my::allocator::allocate(unsigned long)",
        "my::_Pool::_M_get()",
        "std::vector<int, std::allocator<int> >::push_back(int&&)",
        STRING "::append(char const*)",
        STRING "::basic_string(char const*, std::allocator<char> const&)",
        "std::__cxx11::to_string(int)",
        "std::__1::vector<int>::push_back(int&&)",
        STRING " std::operator+<char, std::char_traits<char>, std::allocator<char> >(char const*)",
        "std::map<int, std::__new_allocator<int> >::operator[](int const&)",
        "std::function<void ()>::operator()() const",
        "std::make_unique<Widget, int>(int&&)",
        "(anonymous namespace)::_M_make(std::__new_allocator<int>&)",
        "operator new(unsigned long)",
        "alloc::vec::Vec<T,A>::push",
        "std",
        "std::",
        "::",
    };
    for (size_t i = 0; i < sizeof internal / sizeof *internal; i++)
        if (!hx_function_name_internal(internal[i]))
            fail_msg("%s", internal[i]);
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++)
        if (hx_function_name_internal(outside[i]))
            fail_msg("%s", outside[i]);
}

/* Any bytes: whatever comes of them, it is no longer than what was given, and ends. */
static void test_any(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("any");
    static const char *const parts[] = {
        "<",   ">",  "(",    ")",    "{", "}",  "::",        ",", " ",  "operator",
        "std", "->", "_M_a", "[",    "]", "~",  "allocator", "a", "<<", "\xff",
        "-",   "()", "<=>",  "word", "'", "#1", "const",     "*"};
    for (size_t round = unit_rounds(20000); round-- > 0;) {
        HX_CLEANUP(hx_text_free) struct hx_text name = {0}, text = {0};
        for (size_t n = unit_below(&random, 60); n-- > 0;)
            hx_text_puts(&name, parts[unit_below(&random, sizeof parts / sizeof *parts)]);
        hx_function_name_internal(hx_text_str(&name));
        hx_function_name_short(&text, hx_text_str(&name));
        assert_true(text.n <= name.n);
        if (name.n <= 64)
            assert_string_equal(hx_text_str(&text), hx_text_str(&name));
    }
}

/* --- labels --------------------------------------------------------------------- */

static void add_place(struct hx_recording *recording, bool allocator, const char *inner,
                      const char *outer)
{
    struct hx_rec_place place = {.file = UINT32_MAX, .allocator = allocator, .vaddr = 0x1234};
    place.n_lines = (inner != NULL) + (outer != NULL);
    place.lines = place.n_lines ? calloc(place.n_lines, sizeof *place.lines) : NULL;
    for (size_t i = 0; i < place.n_lines; i++)
        place.lines[i].function = strdup(i == 0 && inner ? inner : outer);
    assert_true(hx_vec_push(&recording->stack_places, (uint32_t)recording->places.n));
    assert_true(hx_vec_push(&recording->places, place));
}

static void check_label(const struct hx_recording *recording, uint64_t first, uint32_t n, bool cut,
                        size_t frames, const char *wanted)
{
    struct hx_recording copy = *recording;
    struct hx_rec_stack stack = {.first = first, .n = n, .cut = cut};
    HX_CLEANUP(hx_text_free) struct hx_text text = {0};
    copy.stacks.v = &stack;
    copy.stacks.n = 1;
    hx_recording_label(&copy, 0, frames, &text);
    assert_string_equal(hx_text_str(&text), wanted);
}

static void test_labels(void **state)
{
    (void)state;
    HX_RECORDING struct hx_recording *recording = NULL;
    assert_null(hx_recording_create(&recording));
    add_place(recording, true, "malloc", NULL);
    add_place(recording, true, "operator new(unsigned long)", NULL);
    add_place(recording, false, "std::__new_allocator<int>::allocate(unsigned long, void const*)",
              "std::_Vector_base<int, std::allocator<int> >::_M_allocate(unsigned long)");
    add_place(recording, false, "std::vector<int, std::allocator<int> >::_M_fill(int)",
              "std::vector<int, std::allocator<int> >::resize(int)");
    add_place(recording, false, NULL, "fill");
    add_place(recording, false, "std::allocator<int>::construct()", "main");
    add_place(recording, false, NULL, NULL);
    const char *resize = "std::vector<int, std::allocator<int> >::resize(int)";
    char wanted[256];
    snprintf(wanted, sizeof wanted, "%s < fill < ...", resize);
    check_label(recording, 0, 7, false, 2, wanted);
    snprintf(wanted, sizeof wanted,
             "%s < fill < std::allocator<int>::construct() < main < 0x1234 < ...", resize);
    check_label(recording, 0, 7, true, 5, wanted);
    wanted[strlen(wanted) - 6] = 0;
    check_label(recording, 0, 7, false, 5, wanted);
    check_label(recording, 2, 5, false, 12, wanted);
    check_label(recording, 6, 1, false, 5, "0x1234");
    check_label(recording, 6, 0, true, 5, "...");
    check_label(recording, 6, 0, false, 5, "");
    /* nothing else is there */
    check_label(recording, 0, 2, false, 5, "malloc < operator new(unsigned long)");
    check_label(recording, 1, 2, true, 1,
                "std::__new_allocator<int>::allocate(unsigned long, void const*) < ...");
}

static uint32_t add_stack(struct hx_recording *recording, size_t first, bool cut)
{
    struct hx_rec_stack stack = {
        .first = first, .n = (uint32_t)(recording->stack_places.n - first), .cut = cut};
    assert_true(hx_vec_push(&recording->stacks, stack));
    assert_true(hx_vec_push(&recording->costs, (struct hx_rec_costs){0}));
    return (uint32_t)recording->stacks.n - 1;
}

static void expect_label(const struct hx_recording *recording, uint32_t stack, size_t frames,
                         const char *wanted)
{
    HX_CLEANUP(hx_text_free) struct hx_text text = {0};
    hx_recording_label(recording, stack, frames, &text);
    assert_string_equal(hx_text_str(&text), wanted);
}

/* A line goes on in what was entered; a region is its label; blocks of the recorder are its own. */
static void test_entered(void **state)
{
    (void)state;
    HX_RECORDING struct hx_recording *recording = NULL;
    assert_null(hx_recording_create(&recording));
    add_place(recording, false, "submit", NULL);
    add_place(recording, false, "main", NULL);
    uint32_t captured = add_stack(recording, 0, true);
    size_t first = recording->stack_places.n;
    struct hx_rec_place entered = {.file = UINT32_MAX, .kind = HX_REC_DEFERRED, .stack = captured};
    add_place(recording, true, "malloc", NULL);
    add_place(recording, false, "task", NULL);
    add_place(recording, false, "std::vector<int> (a label)", NULL);
    recording->places.v[recording->places.n - 1].kind = HX_REC_REGION;
    assert_true(hx_vec_push(&recording->stack_places, (uint32_t)recording->places.n));
    assert_true(hx_vec_push(&recording->places, entered));
    add_place(recording, false, "worker", NULL);
    uint32_t known = add_stack(recording, first, false);
    expect_label(recording, known, 9, "task < std::vector<int> (a label) < submit < main < ...");
    expect_label(recording, known, 3, "task < std::vector<int> (a label) < submit < ...");
    expect_label(recording, known, 1, "task < ...");
    assert_null(hx_recording_check(recording));

    first = recording->stack_places.n;
    entered.stack = HX_NO_STACK;
    add_place(recording, false, "task", NULL);
    assert_true(hx_vec_push(&recording->stack_places, (uint32_t)recording->places.n));
    assert_true(hx_vec_push(&recording->places, entered));
    add_place(recording, false, "worker", NULL);
    expect_label(recording, add_stack(recording, first, false), 9, "task < worker");

    first = recording->stack_places.n; /* a stack that enters itself is none that can be walked */
    entered.stack = (uint32_t)recording->stacks.n;
    assert_true(hx_vec_push(&recording->stack_places, (uint32_t)recording->places.n));
    assert_true(hx_vec_push(&recording->places, entered));
    expect_label(recording, add_stack(recording, first, false), 9, "<unknown>");
    hx_error *err = hx_recording_check(recording);
    assert_non_null(err);
    hx_error_free(err);

    first = recording->stack_places.n;
    add_place(recording, true, "malloc", NULL);
    add_place(recording, false, "heapx_start", NULL);
    recording->places.v[recording->places.n - 1].recorder = true;
    add_place(recording, false, "main", NULL);
    expect_label(recording, add_stack(recording, first, false), 9, "<recorder>");
    expect_label(recording, HX_SITE_BEFORE, 9, "<before attach>");
    expect_label(recording, HX_NO_STACK, 9, "<unknown>");
}

static void test_runtime(void **state)
{
    (void)state;
    static const char *const runtime[] = {
        "libc.so.6",       "libc-2.31.so",   "libc.musl-x86_64.so.1", "libpthread-2.31.so",
        "libpthread.so.0", "libm.so.6",      "libgcc_s.so.1",         "libstdc++.so.6.0.30",
        "libc++.so.1",     "libc++abi.so.1", "ld-musl-x86_64.so.1",   "ld-linux-x86-64.so.2",
    };
    static const char *const other[] = {
        "",          "libc",          "libcrypt.so.1", "libmount.so.1",
        "libcap.so", "libm17n.so.0",  "a libc.so.6",   "ld",
        "(unknown)", "libc++tools.so"};
    for (size_t i = 0; i < sizeof runtime / sizeof *runtime; i++)
        if (!hx_is_runtime_module(runtime[i]))
            fail_msg("%s", runtime[i]);
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        if (hx_is_runtime_module(other[i]))
            fail_msg("%s", other[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_short),   cmocka_unit_test(test_internal),
        cmocka_unit_test(test_any),     cmocka_unit_test(test_labels),
        cmocka_unit_test(test_entered), cmocka_unit_test(test_runtime),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
