/* test_spark.c - numbers as a line of heights: no peak is lost, nothing that is there looks like
 * nothing, and no text from a store does harm. */
#include "unit.h"

#include "ui/list/list_column.h"

/* Cells of a line: characters of UTF-8. */
static size_t cells_of(const struct hx_text *text)
{
    size_t n = 0;
    for (size_t i = 0; i < text->n; i++)
        n += ((unsigned char)text->s[i] & 0xc0) != 0x80;
    return n;
}

static void shapes(void **state)
{
    (void)state;
    static const struct {
        const char *numbers;
        int cells;
        const char *ascii, *blocks;
    } cases[] = {
        {"", 10, "", ""},
        {"5", 10, "#", "\u2588"},
        {"0 0 0", 10, "   ", "\u2581\u2581\u2581"},
        {"1 2 4 8", 10, ".:=#", "\u2582\u2583\u2585\u2588"},
        {"1 1000", 10, ".#", "\u2581\u2588"},
        {"0 - 8", 10, "  #", "\u2581 \u2588"},
        {"1 2 3 9 3 2 1 1", 4, ":#:.", "\u2583\u2588\u2583\u2582"},
        {"9 9 9", 0, "", ""},
        {"9 9 9", -4, "", ""},
        {"  7  7 ", 10, "##", "\u2588\u2588"},
        {"x 1 -5 99999999999999999999999", 10, NULL, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hx_text ascii = {0}, blocks = {0};
        hx_text_spark_of(&ascii, cases[i].numbers, cases[i].cells, true);
        hx_text_spark_of(&blocks, cases[i].numbers, cases[i].cells, false);
        assert_int_equal(cells_of(&ascii), cells_of(&blocks));
        if (cases[i].blocks) {
            assert_string_equal(hx_text_str(&ascii), cases[i].ascii);
            assert_string_equal(hx_text_str(&blocks), cases[i].blocks);
        }
        hx_text_free(&ascii);
        hx_text_free(&blocks);
    }
}

/* One peak among many numbers is the one full cell, where it stands. */
static void peaks(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("peaks");
    for (size_t round = unit_rounds(500); round > 0; round--) {
        size_t n = 1 + unit_below(&random, 3000), at = unit_below(&random, n);
        int cells = 1 + (int)unit_below(&random, 200);
        int64_t *value = calloc(n, sizeof *value), peak = 1000 + (int64_t)unit_below(&random, 1000);
        assert_non_null(value);
        for (size_t i = 0; i < n; i++)
            value[i] = unit_below(&random, 9) ? (int64_t)unit_below(&random, 100) : -1;
        value[at] = peak;
        struct hx_text text = {0};
        hx_text_spark(&text, value, n, cells, true);
        size_t width = n < (size_t)cells ? n : (size_t)cells, full = 0;
        assert_int_equal(text.n, width);
        for (size_t i = 0; i < width; i++) {
            full += text.s[i] == '#';
            if (text.s[i] == '#')
                assert_true(i * n / width <= at && at < (i + 1) * n / width);
        }
        assert_int_equal(full, 1);
        hx_text_free(&text);
        free(value);
    }
}

/* A change is shown to its side; the smallest one, too. */
static void swings(void **state)
{
    (void)state;
    static const char *const names[] = {"bytes_delta", NULL}, *const facts_names[] = {"moved",
                                                                                      NULL};
    static const struct {
        int64_t value;
        const char *ascii, *blocks;
    } cases[] = {
        {0, "  |  ", "  \u2502  "},
        {100, "  |++", "  \u2502\u2588\u2588"},
        {-100, "--|  ", "\u2588\u2588\u2502  "},
        {1, "  |+ ", "  \u2502\u258c "},
        {-1, " -|  ", " \u2590\u2502  "},
        {75, "  |++", "  \u2502\u2588\u258c"},
        {-75, "--|  ", "\u2590\u2588\u2502  "},
        {INT64_MIN, "--|  ", "\u2588\u2588\u2502  "},
        {INT64_MAX, "  |++", "  \u2502\u2588\u2588"},
    };
    const struct hx_column column = {"bytes_delta", "", HX_AS_SWING, 5, 0, "moved", NULL};
    struct hx_table rows = {0}, facts = {0};
    struct hx_cell *cell;
    assert_null(hx_table_begin(&facts, facts_names));
    assert_null(hx_table_add(&facts, &cell));
    hx_cell_set_int(cell, 100);
    assert_null(hx_table_begin(&rows, names));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_null(hx_table_add(&rows, &cell));
        hx_cell_set_int(cell, cases[i].value);
    }
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hx_text ascii = {0}, blocks = {0};
        hx_column_text(&column, &rows, i, &facts, true, &ascii);
        hx_column_text(&column, &rows, i, &facts, false, &blocks);
        assert_string_equal(hx_text_str(&ascii), cases[i].ascii);
        assert_string_equal(hx_text_str(&blocks), cases[i].blocks);
        hx_text_free(&ascii);
        hx_text_free(&blocks);
    }
    hx_table_deinit(&rows);
    hx_table_deinit(&facts);
}

static void changes(void **state)
{
    (void)state;
    static const struct {
        int64_t value;
        const char *text;
    } cases[] = {{0, "0"},         {1, "+1"},         {-1, "-1"},
                 {1536, "+1.50K"}, {-1536, "-1.50K"}, {INT64_MIN, "-8.00E"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hx_text text = {0};
        hx_text_change(&text, cases[i].value);
        assert_string_equal(hx_text_str(&text), cases[i].text);
        hx_text_free(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes),
        cmocka_unit_test(peaks),
        cmocka_unit_test(swings),
        cmocka_unit_test(changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
