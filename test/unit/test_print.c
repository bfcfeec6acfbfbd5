/* test_print.c - rows as text, JSON and CSV, byte by byte. */
#include "store_model.h"

#include "config.h"
#include "store/print/print.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <math.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>

static struct hx_value text_of(const char *s)
{
    return (struct hx_value){.type = HX_VALUE_TEXT, .text = s, .text_bytes = strlen(s)};
}

static struct hx_value int_of(int64_t i)
{
    return (struct hx_value){.type = HX_VALUE_INT, .i = i};
}

static struct hx_value real_of(double real)
{
    return (struct hx_value){.type = HX_VALUE_REAL, .real = real};
}

static const struct hx_value null = {.type = HX_VALUE_NULL};

/* Rows with each kind of value. */
static hx_rows *sample(void)
{
    static const char *const names[] = {"name", "address", "bytes", "share"};
    hx_rows *rows;
    assert_done(hx_rows_create(names, 4, &rows));
    assert_done(hx_rows_add(rows, (struct hx_value[]){text_of("plain"), int_of(0x7f00),
                                                      int_of(1234567), real_of(0.5)}));
    assert_done(hx_rows_add(rows, (struct hx_value[]){null, null, null, null}));
    assert_done(hx_rows_add(rows, (struct hx_value[]){text_of("a,\"b\"\x1b[1m\n"), int_of(0),
                                                      int_of(-42), real_of(3)}));
    assert_done(hx_rows_add(rows, (struct hx_value[]){text_of("\xff\xe2\x80\xae"), int_of(16),
                                                      int_of(INT64_MAX), real_of(INFINITY)}));
    assert_done(hx_rows_add(
        rows, (struct hx_value[]){text_of(""), int_of(1), int_of(INT64_MIN), real_of(0.1)}));
    return rows;
}

/* What printing gives; ends the rows. */
static char *printed(hx_rows *rows, enum hx_format format)
{
    char *out = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&out, &bytes);
    assert_non_null(file);
    assert_done(hx_rows_print(rows, format, file));
    fclose(file);
    hx_rows_end(rows);
    return out;
}

/* A name is the same in all forms: nothing is demangled here. */
static void mangled(void **state)
{
    (void)state;
    static const char *const names[] = {"label", "bytes"};
    static const struct {
        enum hx_format format;
        const char *text;
    } forms[] = {
        {HX_FORMAT_TEXT, "label        bytes\n_ZN1a1bE, c      5\n"},
        {HX_FORMAT_CSV, "label,bytes\n\"_ZN1a1bE, c\",5\n"},
        {HX_FORMAT_JSON, "[\n{\"label\":\"_ZN1a1bE, c\",\"bytes\":5}\n]\n"},
        {HX_FORMAT_JSONL, "{\"label\":\"_ZN1a1bE, c\",\"bytes\":5}\n"},
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        hx_rows *rows;
        assert_done(hx_rows_create(names, 2, &rows));
        assert_done(hx_rows_add(rows, (struct hx_value[]){text_of("_ZN1a1bE, c"), int_of(5)}));
        char *out = printed(rows, forms[i].format);
        assert_string_equal(out, forms[i].text);
        free(out);
    }
}

static void json(void **state)
{
    (void)state;
    char *out = printed(sample(), HX_FORMAT_JSON);
    assert_string_equal(
        out, "[\n"
             "{\"name\":\"plain\",\"address\":32512,\"bytes\":1234567,\"share\":0.5},\n"
             "{\"name\":null,\"address\":null,\"bytes\":null,\"share\":null},\n"
             "{\"name\":\"a,\\\"b\\\"\\u001b[1m\\n\",\"address\":0,\"bytes\":-42,\"share\":3.0},\n"
             "{\"name\":\"\xef\xbf\xbd\\u202e\",\"address\":16,\"bytes\":9223372036854775807,"
             "\"share\":null},\n"
             "{\"name\":\"\",\"address\":1,\"bytes\":-9223372036854775808,\"share\":0.1}\n"
             "]\n");
    free(out);
}

static void csv(void **state)
{
    (void)state;
    char *out = printed(sample(), HX_FORMAT_CSV);
    assert_string_equal(out, "name,address,bytes,share\n"
                             "plain,32512,1234567,0.5\n"
                             ",,,\n"
                             "\"a,\"\"b\"\"\\x1b[1m\\x0a\",0,-42,3.0\n"
                             "\\xff\\u{202e},16,9223372036854775807,inf\n"
                             "\"\",1,-9223372036854775808,0.1\n");
    free(out);
}

static void text(void **state)
{
    (void)state;
    char *out = printed(sample(), HX_FORMAT_TEXT);
    assert_string_equal(out, "name              address                 bytes  share\n"
                             "plain              0x7f00               1234567    0.5\n"
                             "-                       -                     -      -\n"
                             "a,\"b\"\\x1b[1m\\x0a      0x0                   -42    3.0\n"
                             "\\xff\\u{202e}         0x10   9223372036854775807    inf\n"
                             "                      0x1  -9223372036854775808    0.1\n");
    free(out);
}

static void empty(void **state)
{
    (void)state;
    static const char *const names[] = {"a", "b"};
    static const char *const expected[] = {"a  b\n", "[]\n", "a,b\n"};
    for (int format = 0; format < 3; format++) {
        hx_rows *rows;
        assert_done(hx_rows_create(names, 2, &rows));
        char *out = printed(rows, (enum hx_format)format);
        assert_string_equal(out, expected[format]);
        free(out);
    }
}

/* More rows than the layout looks at; the last ones are wider and still whole. */
static void many(void **state)
{
    (void)state;
    static const char *const names[] = {"n", "word"};
    for (int format = 0; format < 3; format++) {
        hx_rows *rows;
        assert_done(hx_rows_create(names, 2, &rows));
        for (int64_t i = 0; i < 5000; i++)
            assert_done(hx_rows_add(rows, (struct hx_value[]){int_of(i * i * i), text_of("x")}));
        char *out = printed(rows, (enum hx_format)format);
        size_t lines = 0;
        for (const char *p = out; (p = strchr(p, '\n')); p++)
            lines++;
        assert_int_equal(lines, format == HX_FORMAT_JSON ? 5002 : 5001);
        assert_non_null(strstr(out, "124925014999"));
        free(out);
    }
}

/* Prints on a terminal of that width; returns what it showed, without carriage returns. */
static char *on_terminal(hx_rows *rows, unsigned short width)
{
    int master, slave;
    struct winsize size = {.ws_row = 24, .ws_col = width};
    struct termios raw;
    assert_int_equal(openpty(&master, &slave, NULL, NULL, &size), 0);
    tcgetattr(slave, &raw);
    cfmakeraw(&raw);
    tcsetattr(slave, TCSANOW, &raw);
    FILE *file = fdopen(slave, "w");
    assert_non_null(file);
    assert_done(hx_rows_print(rows, HX_FORMAT_TEXT, file));
    hx_rows_end(rows);
    char *out = calloc(1, 8192);
    assert_non_null(out);
    fcntl(master, F_SETFL, O_NONBLOCK);
    size_t used = 0;
    for (ssize_t n; used < 8191 && (n = read(master, out + used, 8191 - used)) > 0;)
        used += (size_t)n;
    fclose(file);
    close(master);
    return out;
}

static hx_rows *wide(const char *name)
{
    static const char *const names[] = {"name", "bytes", "kind"};
    hx_rows *rows;
    assert_done(hx_rows_create(names, 3, &rows));
    assert_done(hx_rows_add(
        rows, (struct hx_value[]){text_of(name), int_of(1234567), text_of("definite")}));
    assert_done(
        hx_rows_add(rows, (struct hx_value[]){text_of("b"), int_of(999), text_of("indirect")}));
    return rows;
}

static void terminal(void **state)
{
    (void)state;
    const char *name = "std::vector<std::string>::push_back(std::string const&)";
    char *out = on_terminal(wide(name), 80);
    assert_string_equal(
        out, "name                                                         bytes  kind\n"
             "std::vector<std::string>::push_back(std::string const&)  1,234,567  definite\n"
             "b                                                              999  indirect\n");
    free(out);
    setlocale(LC_ALL, "C");
    out = on_terminal(wide(name), 40); /* the middle of names goes, never a digit */
    assert_string_equal(out, "name                     bytes  kind\n"
                             "std::vect~g const&)  1,234,567  definite\n"
                             "b                          999  indirect\n");
    free(out);
    out = on_terminal(wide(name), 12); /* no room: one value a line */
    assert_string_equal(out, "name   std::vector<std::string>::push_back(std::string const&)\n"
                             "bytes  1,234,567\n"
                             "kind   definite\n"
                             "\n"
                             "name   b\n"
                             "bytes  999\n"
                             "kind   indirect\n");
    free(out);
    if (!setlocale(LC_ALL, "C.UTF-8"))
        skip();
    /* wide and combining characters: two columns, and none */
    out =
        on_terminal(wide("\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e"
                         "e\xcc\x81"),
                    32);
    assert_string_equal(out, "name             bytes  kind\n"
                             "\xe6\x97\xa5\xe6\x9c\xac\xe2\x80\xa6\xe6\x9c\xac\xe8\xaa\x9e"
                             "e\xcc\x81   1,234,567  definite\n"
                             "b                  999  indirect\n");
    free(out);
    setlocale(LC_ALL, "C");
}

static void write_errors(void **state)
{
    (void)state;
    int channel[2];
    FILE *file = fopen("/dev/full", "w");
    assert_non_null(file);
    for (int format = 0; format < 3; format++) {
        hx_rows *rows = sample();
        assert_refused(hx_rows_print(rows, (enum hx_format)format, file), HX_E_OS, "No space");
        hx_rows_end(rows);
        clearerr(file);
    }
    fclose(file);
    signal(SIGPIPE, SIG_IGN);
    assert_int_equal(pipe(channel), 0);
    close(channel[0]);
    file = fdopen(channel[1], "w");
    hx_rows *rows = sample();
    hx_error *err = hx_rows_print(rows, HX_FORMAT_CSV, file);
    assert_non_null(err);
    assert_int_equal(err->os_errno, EPIPE);
    hx_error_free(err);
    hx_rows_end(rows);
    fclose(file);
}

/* --- rows that are made as they are read -------------------------------------------- */

struct counter {
    int64_t next, end, fails_at;
    size_t asked_after_end;
    char text[16];
};

static hx_error *count(void *context, struct hx_value *values, bool *ret_more)
{
    struct counter *counter = context;
    counter->asked_after_end += counter->next == counter->end;
    *ret_more = counter->next < counter->end;
    if (!*ret_more)
        return NULL;
    if (counter->next == counter->fails_at)
        return hx_error_new(HX_E_FAIL, "counter", NULL, "stopped");
    snprintf(counter->text, sizeof counter->text, "row %d", (int)counter->next);
    values[0] = int_of(counter->next++);
    values[1] = text_of(counter->text); /* the same bytes for each row */
    return NULL;
}

static hx_rows *counted(struct counter *counter)
{
    static const char *const names[] = {"n", "name"};
    hx_rows *rows;
    assert_done(hx_rows_generate(names, 2, count, counter, &rows));
    return rows;
}

static void generated(void **state)
{
    (void)state;
    struct counter counter = {.end = 2, .fails_at = -1};
    char *out = printed(counted(&counter), HX_FORMAT_CSV);
    assert_string_equal(out, "n,name\n0,row 0\n1,row 1\n");
    free(out);
    assert_int_equal(counter.asked_after_end, 1);
    counter = (struct counter){.end = 2, .fails_at = -1};
    out = printed(counted(&counter), HX_FORMAT_TEXT);
    assert_string_equal(out, "n  name\n0  row 0\n1  row 1\n");
    free(out);
    counter = (struct counter){.end = 0, .fails_at = -1};
    out = printed(counted(&counter), HX_FORMAT_JSON);
    assert_string_equal(out, "[]\n");
    free(out);
}

static void generator_ends(void **state)
{
    (void)state;
    struct counter counter = {.end = 1, .fails_at = -1};
    hx_rows *rows = counted(&counter);
    bool more;
    assert_int_equal(hx_rows_columns(rows), 2);
    assert_int_equal(hx_rows_value(rows, 0).type, HX_VALUE_NULL); /* before the first row */
    for (int i = 0; i < 4; i++) {
        assert_done(hx_rows_next(rows, &more));
        assert_int_equal(more, i == 0);
        assert_int_equal(hx_rows_value(rows, 1).type, more ? HX_VALUE_TEXT : HX_VALUE_NULL);
    }
    assert_int_equal(counter.asked_after_end, 1); /* an end is asked for once */
    hx_rows_end(rows);
    counter = (struct counter){.end = 5, .fails_at = 1};
    rows = counted(&counter);
    assert_done(hx_rows_next(rows, &more));
    assert_refused(hx_rows_next(rows, &more), HX_E_FAIL, "stopped");
    hx_rows_end(rows);
}

/* What tells least of a function's name goes first. */
static void functions(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t width;
        bool ascii;
        const char *shown;
    } cases[] = {
        {"load(int)", 9, false, "load(int)"},
        {"app::load(int, char const*)", 12, false, "app::load(…)"},
        {"app::load(int, char const*)", 12, true, "app::load(~)"},
        {"app::load(int, char const*)", 11, false, "app::load"},
        {"app::load(int, char const*)", 6, false, "app…ad"},
        {"app::cache::get(int) const", 18, false, "app::cache::get(…)"},
        {"app::handler::operator()(int) const", 30, false, "app::handler::operator()(…)"},
        {"app::handler::operator()()", 24, false, "app::handler::operator()"},
        {"std::vector<int, std::allocator<int> >::resize(unsigned long)", 20, false,
         "std::vector::resize"},
        {"std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >::append("
         "char const*, unsigned long)",
         22, false, "std::string::append(…)"},
        {"a_c_function_of_some_length", 11, false, "a_c_f…ength"},
        {"broken<((", 5, false, "br…en"},
        {"()", 1, false, "…"},
        {"", 1, false, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hx_text name = {0}, out = {0};
        hx_text_puts(&name, cases[i].name);
        size_t width = hx_print_cut_function(&out, &name, cases[i].width, cases[i].ascii);
        assert_string_equal(hx_text_str(&out), cases[i].shown);
        assert_int_equal(width, hx_print_width(hx_text_str(&out), out.n));
        assert_true(width <= cases[i].width);
        hx_text_free(&name);
        hx_text_free(&out);
    }
}

static void formats(void **state)
{
    (void)state;
    enum hx_format format;
    assert_true(hx_format_parse("text", &format) && format == HX_FORMAT_TEXT);
    assert_true(hx_format_parse("json", &format) && format == HX_FORMAT_JSON);
    assert_true(hx_format_parse("csv", &format) && format == HX_FORMAT_CSV);
    assert_false(hx_format_parse("xml", &format));
    assert_false(hx_format_parse("", &format));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mangled),   cmocka_unit_test(json),
        cmocka_unit_test(csv),       cmocka_unit_test(text),
        cmocka_unit_test(empty),     cmocka_unit_test(many),
        cmocka_unit_test(terminal),  cmocka_unit_test(formats),
        cmocka_unit_test(functions), cmocka_unit_test(write_errors),
        cmocka_unit_test(generated), cmocka_unit_test(generator_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
