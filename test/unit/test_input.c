/* test_input.c - what a terminal sends, however it is cut into pieces. */
#include "unit.h"

#include "ui/command/request.h"
#include "ui/term/input.h"
#include "ui/term/term.h"

#include <locale.h>

#define MS 1000000u

static int key_named(const char *name)
{
    return hx_key_parse(name, strlen(name));
}

static void send(struct hx_input *input, const char *bytes, size_t n, uint64_t now)
{
    while (n) {
        size_t room;
        unsigned char *to = hx_input_room(input, &room);
        room = room < n ? room : n;
        assert_true(room > 0);
        memcpy(to, bytes, room);
        hx_input_took(input, room, now);
        bytes += room;
        n -= room;
    }
}

static void expect(struct hx_input *input, uint64_t now, int key)
{
    int got = 0;
    assert_true(hx_input_next(input, now, &got));
    assert_int_equal(got, key);
}

static void expect_nothing(struct hx_input *input, uint64_t now)
{
    int got;
    assert_false(hx_input_next(input, now, &got));
}

static const struct {
    const char *bytes, *key;
} keys[] = {
    {"\033[A", "Up"},
    {"\033OA", "Up"},
    {"\033[1;1B", "Down"},
    {"\033[Z", "Shift-Tab"},
    {"\033[H", "Home"},
    {"\033[7~", "Home"},
    {"\033OF", "End"},
    {"\033[5~", "PgUp"},
    {"\033[6~", "PgDn"},
    {"\033[3~", "Delete"},
    {"\033OP", "F1"},
    {"\033[[A", "F1"},
    {"\033[11~", "F1"},
    {"\033[21~", "F10"},
    {"\033[24~", "F12"},
    {"\033OM", "Enter"},
    {"\033[<0;3;4M", "Mouse"},
    {"\033[M !!", "Mouse"},
    {"j", "j"},
    {"\004", "Ctrl-D"},
    {"\033Oq", "1"},
};

static void test_keys(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        struct hx_input input;
        hx_input_init(&input);
        send(&input, keys[i].bytes, strlen(keys[i].bytes), MS);
        expect(&input, MS, key_named(keys[i].key));
        expect_nothing(&input, MS);
        assert_int_equal(hx_input_wait_ms(&input, MS), -1);
    }
}

/* The same keys in every cut, as long as the pieces come soon after each other. */
static void test_pieces(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("pieces of keys");
    for (int round = 0; round < (int)unit_rounds(3000); round++) {
        struct hx_input input;
        size_t chosen[12], at = 0;
        uint64_t now = 1000 * MS;
        hx_input_init(&input);
        for (size_t i = 0; i < 12; i++) {
            chosen[i] = unit_random(&random) % (sizeof keys / sizeof *keys);
            const char *bytes = keys[chosen[i]].bytes;
            for (size_t k = 0; bytes[k]; k++) {
                send(&input, bytes + k, 1, now);
                now += unit_random(&random) % 20 * MS;
                int key;
                /* Those of the terminal's own that are shorter do not exist here. */
                while (hx_input_next(&input, now, &key))
                    assert_int_equal(key, key_named(keys[chosen[at++]].key));
            }
        }
        assert_int_equal(at, 12);
    }
}

static void test_escape(void **state)
{
    (void)state;
    struct hx_input input;
    hx_input_init(&input);
    send(&input, "\033", 1, 1000 * MS);
    expect_nothing(&input, 1010 * MS);
    assert_in_range(hx_input_wait_ms(&input, 1010 * MS), 1, 20);
    expect(&input, 1025 * MS, 27);
    assert_false(input.late);
    send(&input, "[B", 2, 1300 * MS); /* it was the beginning of another key */
    expect(&input, 1300 * MS, key_named("Down"));
    assert_true(input.late);
    send(&input, "\033", 1, 2000 * MS);
    expect(&input, 2025 * MS, 27);
    send(&input, "[", 1, 2400 * MS); /* a bracket that somebody typed */
    expect_nothing(&input, 2400 * MS);
    expect(&input, 2430 * MS, '[');
    assert_false(input.late);
    send(&input, "\033", 1, 4000 * MS);
    expect(&input, 4025 * MS, 27);
    send(&input, "[B", 2, 6000 * MS); /* much later these are two keys */
    expect(&input, 6000 * MS, '[');
    expect(&input, 6000 * MS, 'B');
    send(&input, "\033j", 2, 7000 * MS);
    expect(&input, 7000 * MS, 27);
    expect(&input, 7000 * MS, 'j');
    expect_nothing(&input, 7000 * MS);
}

static void test_paste(void **state)
{
    (void)state;
    static const char text[] = "\033[200~j\033[A\r\033[201~k";
    struct hx_input input;
    hx_input_init(&input);
    send(&input, text, sizeof text - 1, MS);
    for (const char *s = "j\033[A\r"; *s; s++) {
        expect(&input, MS, *s);
        assert_true(input.pasted);
    }
    expect(&input, MS, 'k');
    assert_false(input.pasted);
}

static void test_characters(void **state)
{
    (void)state;
    struct hx_input input;
    hx_input_init(&input);
    send(&input, "\xe6\x97", 2, MS);
    expect_nothing(&input, 2 * MS);
    send(&input, "\xa5\xc3", 2, 3 * MS);
    expect(&input, 3 * MS, 0x65e5);
    send(&input, "j", 1, 4 * MS); /* what came before is none */
    expect(&input, 4 * MS, HX_KEY_UNKNOWN);
    expect(&input, 4 * MS, 'j');
    send(&input, "\xc2\x9b\xe2\x80\xae", 5, 5 * MS);
    expect(&input, 5 * MS, HX_KEY_UNKNOWN);
}

/* Any bytes at all: every one is used up, and no time is waited twice. */
static void test_any_bytes(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("any bytes");
    static const char usual[] = "\033\033\033[O<;0123M~mAB]P\\\a\xc3\xa9";
    for (int round = 0; round < (int)unit_rounds(3000); round++) {
        struct hx_input input;
        uint64_t now = 1000 * MS;
        hx_input_init(&input);
        for (size_t i = 0; i < 3; i++) {
            size_t room, n;
            unsigned char *to = hx_input_room(&input, &room);
            n = unit_random(&random) % (round % 50 ? 40 : 4000);
            n = n < room ? n : room;
            for (size_t k = 0; k < n; k++)
                to[k] = unit_random(&random) % 3 ? (unsigned char)usual[unit_random(&random) % 22]
                                                 : (unsigned char)unit_random(&random);
            hx_input_took(&input, n, now);
            int key;
            while (hx_input_next(&input, now, &key))
                assert_true(input.at >= 1 && input.at <= input.n);
            now += unit_random(&random) % 200 * MS;
        }
        for (int waits = 0; input.at < input.n; waits++) {
            int key, wait = hx_input_wait_ms(&input, now);
            assert_true(wait >= 0 && wait <= 1001 && waits < 5000);
            now += (uint64_t)wait * MS;
            while (hx_input_next(&input, now, &key))
                ;
        }
    }
}

/* Cuts in the middle have the width that was asked for, and nothing has more than its cells. */
static void test_widths(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("widths");
    static const char *const pieces[] = {"a",    "\xe6\x97\xa5", "\xcc\x81", "\xf0\x9f\x98\x80",
                                         "\xff", "\xe2\x80\xae", "\xc2\x9b", "-",
                                         " ",    "\xe1\x84\x80"};
    struct hx_term term = {.utf8 = true};
    assert_int_equal(hx_text_width("a\xe6\x97\xa5"
                                   "e\xcc\x81"),
                     4);
    assert_int_equal(hx_text_width("\xcc\x81"), 1); /* on nothing it is no mark */
    for (int round = 0; round < (int)unit_rounds(3000); round++) {
        struct hx_text text = {0};
        for (size_t n = unit_random(&random) % 30; n; n--)
            hx_text_puts(&text, pieces[unit_random(&random) % 10]);
        int width = 3 + (int)(unit_random(&random) % 30), whole = hx_text_width(hx_text_str(&text));
        hx_text_middle(&term, width, &text);
        int cut = hx_text_width(hx_text_str(&text));
        assert_true(cut <= width || whole <= width);
        assert_true(whole <= width ? cut == whole : cut >= width - 2);
        hx_text_free(&text);
    }
}

/* Of names that are too wide together some are left out and counted. */
static void test_fewer(void **state)
{
    (void)state;
    static const struct {
        const char *names;
        int width;
        const char *shown;
    } fewer[] = {
        {"one, two, three", 15, "one, two, three"},
        {"one, two, three", 14, "one, two +1"},
        {"one, two, three", 8, "one +2"},
        {"map<int, char>, two", 17, "map<int, char> +1"},
        {"first_of_all_names, second_of_all_names, third_of", 40,
         "first_of_all_names and 2 others"},
    };
    static const char *const pieces[] = {"a",        ", ",           "<", ">", " and ",
                                         "7 others", "\xe6\x97\xa5", " "};
    struct unit_random random = unit_random_begin("fewer");
    struct hx_term term = {.utf8 = true};
    for (size_t i = 0; i < sizeof fewer / sizeof *fewer; i++) {
        struct hx_text text = {0};
        hx_text_puts(&text, fewer[i].names);
        hx_text_fewer(&term, fewer[i].width, &text);
        assert_string_equal(hx_text_str(&text), fewer[i].shown);
        hx_text_free(&text);
    }
    for (int round = 0; round < (int)unit_rounds(3000); round++) {
        struct hx_text text = {0};
        for (size_t n = unit_random(&random) % 30; n; n--)
            hx_text_puts(&text, pieces[unit_random(&random) % 8]);
        hx_text_fewer(&term, 24 + (int)(unit_random(&random) % 40), &text);
        assert_int_equal(strlen(hx_text_str(&text)), text.n);
        hx_text_free(&text);
    }
}

int main(void)
{
    setlocale(LC_CTYPE, "C.UTF-8");
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys),       cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_escape),     cmocka_unit_test(test_paste),
        cmocka_unit_test(test_characters), cmocka_unit_test(test_any_bytes),
        cmocka_unit_test(test_widths),     cmocka_unit_test(test_fewer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
