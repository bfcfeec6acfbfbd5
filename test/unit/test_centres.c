/* test_centres.c - cost centres chosen by patterns. */
#include "cost/centres.h"

#include "unit.h"

static const struct hx_centre_name names[] = {
    {.label = "main", .module = "prog", .source = "main.c:3"},
    {.label = "widget_new", .module = "prog", .source = "src/widget.c:40"},
    {.label = "widget_free", .module = "prog", .source = "src/widget.c:140"},
    {.label = "g_malloc", .module = "libglib-2.0.so.0", .source = NULL},
    {.label = "widgets", .module = "prog", .source = "src/widget.c:9", .region = true},
    {.label = "frame", .module = "prog", .source = "src/frame.c:9", .region = true},
    {.label = "std::vector<int>::push_back(int const&)", .module = "libx.so", .source = "v:1.h:7"},
};
enum { N = sizeof names / sizeof *names };

/* `chosen` has a 1 for each centre that is. */
static void choose(const char *chosen, const char *idle, size_t n, const char *const *pattern)
{
    bool got[N];
    const char *got_idle = "?";
    assert_null(hx_centres_choose(names, N, pattern, n, got, &got_idle));
    char text[N + 1] = "";
    for (size_t i = 0; i < N; i++)
        text[i] = got[i] ? '1' : '0';
    assert_string_equal(text, chosen);
    if (idle)
        assert_string_equal(got_idle, idle);
    else
        assert_null(got_idle);
}

#define CHOOSE(chosen, idle, ...)                                                                  \
    choose(chosen, idle, sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *),                   \
           (const char *[]){__VA_ARGS__})

static void test_names(void **state)
{
    (void)state;
    choose("1111111", NULL, 0, NULL);
    CHOOSE("0110110", NULL, "^widget"); /* of regions nothing was said */
    CHOOSE("1000110", NULL, "function:^main$");
    CHOOSE("1001110", NULL, "main", "g_malloc");
    CHOOSE("0000111", NULL, "std::vector<int>::push_back(int const&)"); /* a name itself */
}

static void test_kinds(void **state)
{
    (void)state;
    CHOOSE("0001110", NULL, "module:glib");
    CHOOSE("0110110", NULL, "file:widget\\.c$");
    CHOOSE("0000111", NULL, "file:^v:1\\.h$"); /* only the line is cut off */
    CHOOSE("1111101", NULL, "region:widgets");
    CHOOSE("1000101", "nothing", "main", "region:^widgets$", "nothing", "push_back");
}

static void test_not(void **state)
{
    (void)state;
    CHOOSE("1001111", NULL, "!widget"); /* functions alone */
    CHOOSE("1111011", NULL, "!region:widgets");
    CHOOSE("0010110", NULL, "file:widget", "!_new$");
    CHOOSE("0010110", NULL, "!_new$", "file:widget"); /* whatever the order */
    CHOOSE("0001111", NULL, "!module:^prog$");
    CHOOSE("1110110", NULL, "!file:v:1", "module:prog", "!g_malloc");
}

static void test_idle(void **state)
{
    (void)state;
    CHOOSE("0000110", "none", "none", "neither");
    CHOOSE("1111111", "!none", "!none");
    CHOOSE("0000110", "file:9$", "file:9$"); /* the line is not seen */
    CHOOSE("1000110", NULL, "main", "^main");
    CHOOSE("0110110", NULL, "widget", "!module:lib", "!g_");
}

static void test_no_pattern(void **state)
{
    (void)state;
    static const char *const wrong[] = {"", "!", "module:", "!region:", "(", "file:[", "!*a("};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        hx_error *err = hx_centre_pattern_test(wrong[i]);
        assert_non_null(err);
        assert_int_equal(err->kind, HX_E_USAGE);
        hx_error_free(err);
        bool got[N];
        err = hx_centres_choose(names, N, (const char *[]){"main", wrong[i]}, 2, got, NULL);
        assert_non_null(err);
        assert_int_equal(err->kind, HX_E_USAGE);
        hx_error_free(err);
    }
    assert_null(hx_centre_pattern_test("!module:^lib.*\\.so$"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names), cmocka_unit_test(test_kinds),      cmocka_unit_test(test_not),
        cmocka_unit_test(test_idle),  cmocka_unit_test(test_no_pattern),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
