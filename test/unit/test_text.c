/* test_text.c - building, escaping and reading text: src/base/text.c. */
#include "unit.h"

#include "base/text.h"

/* --- escaping for terminals ------------------------------------------------------- */

static void check_escape(const char *in, size_t n, bool ascii, const char *want)
{
    struct hx_text text = {0};
    hx_text_escape(&text, in, n, ascii);
    assert_false(text.failed);
    assert_string_equal(hx_text_str(&text), want);
    hx_text_free(&text);
}

#define ESCAPE(in, want)       check_escape(in, sizeof(in) - 1, false, want)
#define ESCAPE_ASCII(in, want) check_escape(in, sizeof(in) - 1, true, want)

static void escape_keeps_plain_text(void **state)
{
    (void)state;
    ESCAPE("", "");
    ESCAPE("operator<< [abi:cxx11] ~!", "operator<< [abi:cxx11] ~!");
    ESCAPE("gr\xc3\xbc\xc3\x9f \xe4\xb8\xad \xf0\x9f\x90\xa7",
           "gr\xc3\xbc\xc3\x9f \xe4\xb8\xad \xf0\x9f\x90\xa7");
    ESCAPE("a\\n", "a\\\\n");
    ESCAPE("\xef\xbf\xbd", "\xef\xbf\xbd");                         /* U+FFFD itself */
    ESCAPE("\xed\x9f\xbf\xee\x80\x80", "\xed\x9f\xbf\xee\x80\x80"); /* around the surrogates */
}

static void escape_controls(void **state)
{
    (void)state;
    ESCAPE("a\0b", "a\\x00b");
    ESCAPE("\n\r\t\x1b[31m\a\x7f", "\\x0a\\x0d\\x09\\x1b[31m\\x07\\x7f");
    ESCAPE("\xc2\x80\xc2\x9b"
           "31m\xc2\x9f",
           "\\u{80}\\u{9b}31m\\u{9f}"); /* C1: CSI in UTF-8 */
    ESCAPE("\x9b"
           "31m",
           "\\x9b31m");             /* C1 as a raw byte */
    ESCAPE("\xc2\xa0", "\xc2\xa0"); /* just after C1 */
}

static void escape_marks_that_reorder_or_hide(void **state)
{
    (void)state;
    ESCAPE("\xe2\x80\xae", "\\u{202e}"); /* right-to-left override */
    ESCAPE("\xe2\x80\xaa\xe2\x80\xab\xe2\x80\xac\xe2\x80\xad",
           "\\u{202a}\\u{202b}\\u{202c}\\u{202d}");
    ESCAPE("\xe2\x81\xa6\xe2\x81\xa9", "\\u{2066}\\u{2069}"); /* isolates */
    ESCAPE("\xe2\x80\x8e\xe2\x80\x8f\xd8\x9c", "\\u{200e}\\u{200f}\\u{61c}");
    ESCAPE("\xe2\x80\xa8\xe2\x80\xa9", "\\u{2028}\\u{2029}");
    ESCAPE("\xe2\x80\x8b\xe2\x80\x8d\xef\xbb\xbf\xc2\xad", "\\u{200b}\\u{200d}\\u{feff}\\u{ad}");
    ESCAPE("\xe1\x85\x9f\xe3\x85\xa4\xef\xbe\xa0", "\\u{115f}\\u{3164}\\u{ffa0}"); /* fillers */
    ESCAPE("\xef\xb8\x8f\xf3\xa0\x84\x80", "\\u{fe0f}\\u{e0100}");  /* variation selectors */
    ESCAPE("\xf3\xa0\x81\x81", "\\u{e0041}");                       /* tags */
    ESCAPE("\xef\xbf\xbe\xf4\x8f\xbf\xbf", "\\u{fffe}\\u{10ffff}"); /* no characters */
    ESCAPE("\xe2\x80\x90\xe2\x80\xa7\xe2\x80\xaf", "\xe2\x80\x90\xe2\x80\xa7\xe2\x80\xaf");
}

static void escape_invalid_utf8(void **state)
{
    (void)state;
    ESCAPE("\x80", "\\x80");                     /* continuation without a start */
    ESCAPE("\xc3", "\\xc3");                     /* cut short */
    ESCAPE("\xc3(", "\\xc3(");                   /* start without continuation */
    ESCAPE("\xe2\x82", "\\xe2\\x82");            /* two of three */
    ESCAPE("\xf0\x9f\x90z", "\\xf0\\x9f\\x90z"); /* three of four */
    ESCAPE("\xc0\x80", "\\xc0\\x80");            /* overlong NUL */
    ESCAPE("\xc1\xbf", "\\xc1\\xbf");            /* overlong DEL */
    ESCAPE("\xe0\x9f\xbf", "\\xe0\\x9f\\xbf");   /* overlong of three */
    ESCAPE("\xf0\x8f\xbf\xbf", "\\xf0\\x8f\\xbf\\xbf");
    ESCAPE("\xed\xa0\x80", "\\xed\\xa0\\x80");          /* a surrogate */
    ESCAPE("\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"); /* above U+10FFFF */
    ESCAPE("\xf8\x88\x80\x80\x80", "\\xf8\\x88\\x80\\x80\\x80");
    ESCAPE("\xfe\xff", "\\xfe\\xff");
    check_escape("\xe2\x82\xac", 2, false, "\\xe2\\x82"); /* n ends inside the character */
}

static void escape_to_ascii(void **state)
{
    (void)state;
    ESCAPE_ASCII("~\xc3\xbc\xf0\x9f\x90\xa7", "~\\u{fc}\\u{1f427}");
    ESCAPE_ASCII("\x7f\xff", "\\x7f\\xff");
}

/* Whatever goes in, what comes out has no byte that a terminal acts on. */
static void escape_is_safe_for_any_bytes(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin(__func__);
    struct hx_text text = {0};
    for (size_t round = 0; round < unit_rounds(20000); round++) {
        char bytes[24];
        size_t n = unit_below(&random, sizeof bytes + 1);
        for (size_t i = 0; i < n; i++)
            bytes[i] = (char)unit_random(&random);
        hx_text_clear(&text);
        hx_text_escape(&text, bytes, n, true);
        for (size_t i = 0; i < text.n; i++)
            assert_in_range((uint8_t)text.s[i], 0x20, 0x7e);

        /* Valid text survives: what was kept is again kept. */
        hx_text_clear(&text);
        hx_text_escape(&text, bytes, n, false);
        struct hx_text again = {0};
        hx_text_escape(&again, hx_text_str(&text), text.n, false);
        size_t backslashes = 0;
        for (size_t i = 0; i < text.n; i++)
            backslashes += text.s[i] == '\\';
        assert_int_equal(again.n, text.n + backslashes);
        hx_text_free(&again);
    }
    hx_text_free(&text);
}

/* --- JSON and CSV ------------------------------------------------------------------- */

static void check_json(const char *in, size_t n, const char *want)
{
    struct hx_text text = {0};
    hx_text_json(&text, in, n);
    assert_string_equal(hx_text_str(&text), want);
    hx_text_free(&text);
}
#define JSON(in, want) check_json(in, sizeof(in) - 1, want)

static void json_strings(void **state)
{
    (void)state;
    JSON("", "\"\"");
    JSON("a\"b\\c/", "\"a\\\"b\\\\c/\"");
    JSON("\n\t\r\b\f", "\"\\n\\t\\u000d\\u0008\\u000c\"");
    JSON("a\0b\x1b\x7f", "\"a\\u0000b\\u001b\\u007f\"");
    JSON("\xc2\x9b\xe2\x80\xae", "\"\\u009b\\u202e\"");
    JSON("\xf3\xa0\x81\x81", "\"\\udb40\\udc41\""); /* above the first plane: a pair */
    JSON("\xff\xc3\xbc\xed\xa0\x80",
         "\"\xef\xbf\xbd\xc3\xbc\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
}

static void check_csv(const char *in, size_t n, const char *want)
{
    struct hx_text text = {0};
    hx_text_csv(&text, in, n);
    assert_string_equal(hx_text_str(&text), want);
    hx_text_free(&text);
}
#define CSV(in, want) check_csv(in, sizeof(in) - 1, want)

static void csv_fields(void **state)
{
    (void)state;
    CSV("", "\"\""); /* NULL is the empty field */
    CSV("plain text", "plain text");
    CSV("a,b", "\"a,b\"");
    CSV("say \"hi\"", "\"say \"\"hi\"\"\"");
    CSV("two\nlines", "two\\x0alines"); /* a field is one line */
    CSV("cr\r", "cr\\x0d");
    CSV("\"", "\"\"\"\"");
    CSV("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0");
    CSV("=HYPERLINK(\"http://x\",\"y\")", "\"'=HYPERLINK(\"\"http://x\"\",\"\"y\"\")\"");
    CSV("+1+1", "'+1+1");
    CSV("-bash", "'-bash");
    CSV("@SUM(1)", "'@SUM(1)");
    CSV("\xef\xbc\x9d"
        "1",
        "'\xef\xbc\x9d"
        "1");           /* the wide form of = */
    CSV("'=1", "''=1"); /* so that the first ' can always be taken away */
    CSV("\t=1", "\\x09=1");
    CSV("-", "-"); /* numbers, and what is not known, are as they are */
    CSV("-5", "-5");
    CSV("+1.5e-3", "+1.5e-3");
    CSV("-5+1", "'-5+1");
    CSV("-1e", "'-1e");
    CSV("-1.2.3", "'-1.2.3");
    CSV("a=b", "a=b");
}

/* What is too long keeps its beginning, and what tells it from its like. */
static void bounded_names(void **state)
{
    (void)state;
    static char name[3 * HX_TEXT_NAME], other[sizeof name];
    struct hx_text a = {0}, b = {0};
    memset(name, 'x', sizeof name);
    memcpy(other, name, sizeof name);
    other[sizeof other - 1] = 'y';
    hx_text_name(&a, name, HX_TEXT_NAME);
    assert_int_equal(a.n, HX_TEXT_NAME);
    assert_null(strchr(a.s, '#'));
    hx_text_clear(&a);
    hx_text_name(&a, name, sizeof name);
    hx_text_name(&b, other, sizeof other);
    assert_int_equal(a.n, HX_TEXT_NAME);
    assert_int_equal(b.n, HX_TEXT_NAME);
    assert_memory_equal(a.s, b.s, HX_TEXT_NAME - 16);
    assert_string_not_equal(a.s, b.s);
    hx_text_clear(&b);
    hx_text_name(&b, name, sizeof name);
    assert_string_equal(a.s, b.s);
    hx_text_clear(&b);
    hx_text_name(&b, a.s, a.n); /* what was cut stays as it is */
    assert_string_equal(a.s, b.s);
    /* no character is cut in two */
    for (size_t at = 0; at < 3; at++) {
        memset(name, 'x', sizeof name);
        for (size_t i = at; i + 3 <= sizeof name; i += 3)
            memcpy(name + i, "\xe6\x97\xa5", 3);
        hx_text_clear(&a);
        hx_text_name(&a, name, sizeof name);
        uint32_t c;
        for (size_t i = 0; i < a.n; i += hx_utf8_char(a.s + i, a.n - i, &c))
            assert_int_not_equal(hx_utf8_char(a.s + i, a.n - i, &c), 0);
    }
    /* of several each is cut, and short ones are whole */
    memset(name, 'x', sizeof name);
    memcpy(name + sizeof name - 8, ", next", 6);
    hx_text_clear(&a);
    hx_text_names(&a, name, sizeof name - 2);
    assert_non_null(strstr(a.s, "next"));
    assert_true(a.n < HX_TEXT_NAME + 16);
    char *many = malloc(3 * (size_t)HX_TEXT_NAMES);
    for (size_t i = 0; i < 3 * (size_t)HX_TEXT_NAMES; i++)
        many[i] = i % 8 == 6 ? ',' : i % 8 == 7 ? ' ' : 'a';
    hx_text_clear(&a);
    hx_text_names(&a, many, 3 * (size_t)HX_TEXT_NAMES);
    assert_int_equal(a.n, HX_TEXT_NAMES);
    free(many);
    hx_text_free(&a);
    hx_text_free(&b);
}

/* --- building ------------------------------------------------------------------------- */

static void build_text(void **state)
{
    (void)state;
    struct hx_text text = {0};
    assert_string_equal(hx_text_str(&text), "");
    hx_text_puts(&text, "one");
    hx_text_putc(&text, ' ');
    hx_text_putn(&text, "two, not this", 3);
    hx_text_putf(&text, " %d%%", 3);
    hx_text_putn(&text, NULL, 0);
    assert_string_equal(hx_text_str(&text), "one two 3%");
    assert_int_equal(text.n, strlen(text.s));
    hx_text_clear(&text);
    assert_string_equal(hx_text_str(&text), "");

    /* A formatted text longer than the buffer that is tried first, around its border. */
    for (int n = 250; n < 262; n++) {
        hx_text_clear(&text);
        hx_text_putf(&text, "%*d", n, 7);
        assert_int_equal(text.n, n);
        assert_int_equal(text.s[n - 1], '7');
    }
    assert_false(text.failed);

    hx_text_free(&text);
    assert_null(text.s);
}

/* A failed text swallows what comes and does not touch memory that it lacks. */
static void build_remembers_failure(void **state)
{
    (void)state;
    struct hx_text text = {0};
    hx_text_puts(&text, "kept");
    hx_text_putn(&text, "x", SIZE_MAX - 2); /* more than there can be */
    assert_true(text.failed);
    hx_text_puts(&text, "ignored");
    assert_string_equal(hx_text_str(&text), "kept");
    hx_text_clear(&text);
    hx_text_puts(&text, "again");
    assert_false(text.failed);
    assert_string_equal(hx_text_str(&text), "again");
    hx_text_free(&text);
}

/* --- numbers for people ------------------------------------------------------------------ */

static void human_bytes(void **state)
{
    (void)state;
    static const struct {
        uint64_t value;
        const char *want;
    } cases[] = {
        {0, "0"},
        {1023, "1023"},
        {1024, "1.00K"},
        {1536, "1.50K"},
        {10234, "9.99K"},
        {10235, "10.0K"}, /* never "9.995K" rounded to four digits */
        {102348, "99.9K"},
        {102349, "100K"},
        {1048063, "1023K"},
        {1048064, "1.00M"}, /* 1023.5K: "1024K" is nobody's number */
        {1048576, "1.00M"},
        {1095216660, "1.02G"},
        {UINT64_C(1) << 60, "1.00E"},
        {UINT64_MAX, "16.0E"},
    };
    char buf[HX_HUMAN];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(hx_human_bytes(cases[i].value, buf), cases[i].want);
    assert_string_equal(hx_human_count(999, buf), "999");
    assert_string_equal(hx_human_count(1000, buf), "1.00K");
    assert_string_equal(hx_human_count(999499, buf), "999K");
    assert_string_equal(hx_human_count(999500, buf), "1.00M");
    assert_string_equal(hx_human_count(UINT64_MAX, buf), "18.4E");
}

static void human_time(void **state)
{
    (void)state;
    static const struct {
        uint64_t ns;
        const char *want;
    } cases[] = {
        {0, "0ns"},
        {999, "999ns"},
        {1000, "1.00us"},
        {1500, "1.50us"},
        {812000, "812us"},
        {999499, "999us"},
        {999500, "1.00ms"}, /* never "1000us" */
        {9700000, "9.70ms"},
        {474000000, "474ms"},
        {999999999, "1.00s"},
        {1200000000, "1.20s"},
        {59940000000, "59.9s"},
        {59999000000, "1m00s"},
        {60000000000, "1m00s"},
        {310000000000, "5m10s"},
        {3599999999999, "59m59s"},
        {3600000000000, "1h00m"},
        {UINT64_MAX, "5124095h34m"},
    };
    char buf[HX_HUMAN];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(hx_human_ns(cases[i].ns, buf), cases[i].want);
}

static void human_is_short_and_monotonic_in_width(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin(__func__);
    char buf[HX_HUMAN];
    for (size_t round = 0; round < unit_rounds(50000); round++) {
        uint64_t value = unit_random(&random) >> unit_below(&random, 64);
        assert_in_range(strlen(hx_human_bytes(value, buf)), 1, 5);
        assert_in_range(strlen(hx_human_count(value, buf)), 1, 5);
        assert_in_range(strlen(hx_human_ns(value, buf)), 3, 11);
    }
}

/* --- reading ---------------------------------------------------------------------------------- */

static void durations(void **state)
{
    (void)state;
    static const struct {
        const char *s;
        uint64_t want;
    } good[] = {
        {"0", 0},
        {"10", 10000000000},
        {"10s", 10000000000},
        {"1.5s", 1500000000},
        {"250ms", 250000000},
        {"0.1", 100000000},
        {"0.25us", 250},
        {"7ns", 7},
        {"5m", 300000000000},
        {"5min", 300000000000},
        {"2h", 7200000000000},
        {"1d", 86400000000000},
        {"1.50000000000000000000000000000000s", 1500000000},
        {"0000000000000000000000000001s", 1000000000},
        {"9007199254740993ns", 9007199254740993}, /* more than a double holds */
        {"9223372036854775807ns", INT64_MAX},
    };
    static const char *const bad[] = {
        "",
        " 1",
        "1 ",
        "-1",
        "+1",
        "s",
        "1x",
        "1sec",
        "1.",
        ".5",
        "1e3",
        "0x5",
        "1.5.2",
        "1 s",
        "nan",
        "inf",
        "1s1",
        "ms",
        "9223372036854775808ns",
        "106752d",
        "18446744073709551616",
        "1.0h2",
        "99999999999999999999999999999999999999999999999999",
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        uint64_t ns = 12345;
        assert_true(hx_parse_duration(good[i].s, &ns));
        assert_int_equal(ns, good[i].want);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint64_t ns = 12345;
        assert_false(hx_parse_duration(bad[i], &ns));
        assert_int_equal(ns, 12345); /* untouched */
    }
}

static void sizes(void **state)
{
    (void)state;
    static const struct {
        const char *s;
        uint64_t want;
    } good[] = {
        {"0", 0},
        {"512", 512},
        {"512B", 512},
        {"64K", 65536},
        {"64k", 65536},
        {"64KB", 65536},
        {"64KiB", 65536},
        {"64Ki", 65536},
        {"1.5G", 1610612736},
        {"2T", UINT64_C(2) << 40},
        {"0.5K", 512},
        {"9007199254740993", 9007199254740993},
        {"18446744073709551615", UINT64_MAX},
        {"15.99999E", 18446732544494505547u},
        {"15E", UINT64_C(15) << 60},
    };
    static const char *const bad[] = {
        "",
        "K",
        "B",
        "-1",
        " 1",
        "1 K",
        "1X",
        "1KK",
        "1KBB",
        "1iB",
        "1.5",
        "1.5B",
        "1.",
        ".5K",
        "0x10",
        "1e3",
        "16E",
        "18446744073709551616",
        "17179869184G",
        "99999999999999999999999999999999999999999999K",
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        uint64_t value = 12345;
        assert_true(hx_parse_bytes(good[i].s, &value));
        assert_int_equal(value, good[i].want);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint64_t value = 12345;
        assert_false(hx_parse_bytes(bad[i], &value));
        assert_int_equal(value, 12345);
    }
}

static void numbers(void **state)
{
    (void)state;
    static const struct {
        const char *s;
        uint64_t want;
    } good[] = {
        {"0", 0},
        {"00", 0},
        {"010", 10}, /* decimal, not octal */
        {"0x0", 0},
        {"0XfF", 255},
        {"0xffffffffffffffff", UINT64_MAX},
        {"0x0000000000000000000001", 1},
        {"18446744073709551615", UINT64_MAX},
    };
    static const char *const bad[] = {
        "",
        "x",
        "0x",
        "0xg",
        "0x-1",
        "0x 1",
        "-1",
        "+1",
        " 1",
        "1 ",
        "1x",
        "ff",
        "0x1g",
        "18446744073709551616",
        "0x10000000000000000",
        "1.0",
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        uint64_t value = 12345;
        assert_true(hx_parse_u64(good[i].s, &value));
        assert_int_equal(value, good[i].want);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint64_t value = 12345;
        assert_false(hx_parse_u64(bad[i], &value));
        assert_int_equal(value, 12345);
    }
}

static void whole_numbers_survive(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin(__func__);
    for (size_t round = 0; round < unit_rounds(20000); round++) {
        uint64_t value = unit_random(&random) >> unit_below(&random, 64), back;
        char s[40];
        snprintf(s, sizeof s, "%llu", (unsigned long long)value);
        assert_true(hx_parse_u64(s, &back));
        assert_int_equal(back, value);
        assert_true(hx_parse_bytes(s, &back));
        assert_int_equal(back, value);
        snprintf(s, sizeof s, "0x%llx", (unsigned long long)value);
        assert_true(hx_parse_u64(s, &back));
        assert_int_equal(back, value);
        snprintf(s, sizeof s, "%lluns", (unsigned long long)(value >> 1));
        assert_true(hx_parse_duration(s, &back));
        assert_int_equal(back, value >> 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(escape_keeps_plain_text),
        cmocka_unit_test(escape_controls),
        cmocka_unit_test(escape_marks_that_reorder_or_hide),
        cmocka_unit_test(escape_invalid_utf8),
        cmocka_unit_test(escape_to_ascii),
        cmocka_unit_test(escape_is_safe_for_any_bytes),
        cmocka_unit_test(json_strings),
        cmocka_unit_test(csv_fields),
        cmocka_unit_test(bounded_names),
        cmocka_unit_test(build_text),
        cmocka_unit_test(build_remembers_failure),
        cmocka_unit_test(human_bytes),
        cmocka_unit_test(human_time),
        cmocka_unit_test(human_is_short_and_monotonic_in_width),
        cmocka_unit_test(durations),
        cmocka_unit_test(sizes),
        cmocka_unit_test(numbers),
        cmocka_unit_test(whole_numbers_survive),
    };
    return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
