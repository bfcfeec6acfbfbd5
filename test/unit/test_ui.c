/* test_ui.c - the explorer's tables and columns, without a terminal. */
#include "unit.h"

#include "ui/command/palette.h"
#include "ui/command/request.h"
#include "ui/data/call_label.h"
#include "ui/job.h"
#include "ui/list/column_kind.h"
#include "ui/list/list_column.h"
#include "ui/screen.h"

#include <unistd.h>

/* Each key means one thing, and every name can be typed and shown. */
static void test_requests(void **state)
{
    int seen[256], n = 0;
    (void)state;
    for (const struct hx_request *request = hx_requests; request->name; request++) {
        assert_ptr_equal(hx_request_find(request->name, strlen(request->name)), request);
        assert_true(*request->help && *request->group && strlen(request->help) <= 41);
        assert_true(strlen(request->keys) <= 16);
        for (const char *s = request->keys; *s;) {
            size_t len = strcspn(s, " ");
            int key = hx_key_parse(s, len);
            assert_int_not_equal(key, 0);
            assert_false(key >= '0' && key <= '9'); /* screens have those */
            for (int i = 0; i < n; i++)
                assert_int_not_equal(seen[i], key);
            assert_ptr_equal(hx_request_of_key(key), request);
            seen[n++] = key;
            s += len + (s[len] == ' ');
        }
    }
    assert_true(n > 40);
    assert_null(hx_request_find("s", 1)); /* many begin so */
    assert_null(hx_request_find("nosuch", 6));
}

static void test_keys(void **state)
{
    (void)state;
    static const char *const same[][2] = {
        {"Ctrl-D", "C-d"},  {"Ctrl-D", "^D"},      {"Enter", "<Return>"}, {"Esc", "escape"},
        {"PgUp", "PageUp"}, {"Shift-Tab", "BTab"}, {"F1", "f1"},          {"F10", "<f10>"},
    };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        assert_int_equal(hx_key_parse(same[i][0], strlen(same[i][0])),
                         hx_key_parse(same[i][1], strlen(same[i][1])));
    static const char *const none[] = {"", "F0", "F13", "Fx", "Ctrl-", "Ctrl-1", "Entr", "<>"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_int_equal(hx_key_parse(none[i], strlen(none[i])), 0);
    assert_int_equal(hx_key_parse("<", 1), '<');
}

/* The better fit comes first. */
static void test_palette(void **state)
{
    (void)state;
    static const struct {
        const char *words, *better, *about_better, *worse, *about_worse;
    } cases[] = {
        {"sort", "sort", "sort by a column", "sort-left", "sort by the column to the left"},
        {"sort", "sort-left", "x", "screen sorted", "x"},
        {"left", "sort-left", "x", "draft", "left over"},
        {"scr leak", "screen leaks", "x", "screen losses", "leaks of another kind"},
        {"unf", "unfold", "x", "unmark", "fun for nobody: unf"},
        {"pgup", "page-up", "x", "other", "pgup"},
        {"WHY", "why", "x", "other", "why not"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int better = hx_palette_score(cases[i].words, cases[i].better, cases[i].about_better);
        int worse = hx_palette_score(cases[i].words, cases[i].worse, cases[i].about_worse);
        assert_true(better > worse && worse >= 0);
    }
    assert_int_equal(hx_palette_score("", "a", ""), hx_palette_score("  ", "bcd", "x"));
    assert_int_equal(hx_palette_score("sort zz", "sort", "sort by a column"), 0);
    assert_int_equal(hx_palette_score("q", "sequel", "x") > 0, 1);
    assert_int_equal(hx_palette_score("lq", "sequel", "x"), 0);
}

static void test_names(void **state)
{
    (void)state;
    assert_true(hx_name_is_bytes("bytes") && hx_name_is_bytes("retained_bytes") &&
                hx_name_is_bytes("bytes_2") && !hx_name_is_bytes("count_bytes") &&
                !hx_name_is_bytes("kilobytes") && !hx_name_is_bytes("bytes_percent"));
    assert_true(hx_name_is_address("address") && hx_name_is_address("min_address") &&
                hx_name_is_address("target_2") && !hx_name_is_address("parent_id") &&
                !hx_name_is_address("count_address"));
    assert_true(hx_name_is_id("set_id") && hx_name_is_id("pid") && hx_name_is_id("snapshot_3") &&
                !hx_name_is_id("grid") && !hx_name_is_id("count_snapshot"));
    assert_true(hx_name_is_us("pause_us") && !hx_name_is_us("us") && !hx_name_is_us("status"));
}

static void test_screens(void **state)
{
    (void)state;
    for (size_t i = 0; i < HX_SCREENS; i++) {
        const struct hx_screen *screen = hx_screens[i];
        assert_ptr_equal(hx_screen_find(screen->name), screen);
        assert_true(screen->source || screen->fill);
        assert_non_null(screen->columns);
        assert_non_null(screen->about);
        if (screen->digit >= 0) {
            assert_ptr_equal(hx_screen_by_digit(screen->digit), screen);
        }
    }
    assert_null(hx_screen_find(""));
    for (int digit = 0; digit <= 9; digit++)
        assert_non_null(hx_screen_by_digit(digit));
}

/* At 40 columns and more, the columns of every screen fit and use no more than there is. */
static void test_layout(void **state)
{
    (void)state;
    for (size_t i = 0; i < HX_SCREENS; i++) {
        for (int width = 1; width <= 250; width++) {
            int shown[HX_COLUMNS_MAX], sum = -1, n = 0;
            hx_column_layout(hx_screens[i]->columns, width, shown);
            for (int k = 0; k < HX_COLUMNS_MAX; k++) {
                assert_true(shown[k] >= 0);
                sum += shown[k] ? shown[k] + 1 : 0;
                n += shown[k] > 0;
            }
            assert_true(n > 0);
            if (width >= 38)
                assert_true(sum <= width);
        }
    }
}

static hx_error *one_cell(struct hx_table *table)
{
    static const char *const names[] = {"value", NULL};
    struct hx_cell *cell;
    HX_TRY(hx_table_begin(table, names));
    return hx_table_add(table, &cell);
}

static void expect_text(const struct hx_column *column, int64_t value, const char *expected)
{
    struct hx_table table = {0}, facts = {0};
    struct hx_text text = {0};
    assert_null(one_cell(&table));
    assert_null(one_cell(&facts));
    hx_cell_set_int(table.cell, value);
    hx_cell_set_int(facts.cell, 200);
    hx_column_text(column, &table, 0, &facts, false, &text);
    assert_string_equal(hx_text_str(&text), expected);
    hx_text_free(&text);
    hx_table_deinit(&table);
    hx_table_deinit(&facts);
}

static void test_numbers(void **state)
{
    (void)state;
    static const struct {
        enum hx_as as;
        int64_t value;
        const char *expected;
    } cases[] = {
        {HX_AS_COUNT, 0, "0"},         {HX_AS_COUNT, 999, "999"},
        {HX_AS_COUNT, 1000, "1,000"},  {HX_AS_COUNT, -1234567, "-1,234,567"},
        {HX_AS_COUNT, -123, "-123"},   {HX_AS_COUNT, INT64_MIN, "-9,223,372,036,854,775,808"},
        {HX_AS_BYTES, 1536, "1.50K"},  {HX_AS_BYTES, -1536, "-1.50K"},
        {HX_AS_HEX, 0x7f00, "0x7f00"}, {HX_AS_HEX, -1, "0xffffffffffffffff"},
        {HX_AS_OFFSET, 24, "+24"},     {HX_AS_US, 9700, "9.70ms"},
        {HX_AS_SHARE, 50, "25.0%"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hx_column column = {.name = "value", .as = cases[i].as, .whole = "value"};
        expect_text(&column, cases[i].value, cases[i].expected);
    }
    struct hx_column absent = {.name = "nosuch", .as = HX_AS_BYTES};
    expect_text(&absent, 5, "-");
}

/* Whatever bytes a name has, what is shown steers no terminal. */
static void test_hostile_text(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("hostile text");
    static const enum hx_as kinds[] = {HX_AS_TEXT, HX_AS_TIME, HX_AS_BYTES, HX_AS_SHARE};
    for (int round = 0; round < 4000; round++) {
        char bytes[64];
        size_t n = unit_random(&random) % sizeof bytes;
        for (size_t i = 0; i < n; i++)
            bytes[i] = (char)(1 + unit_random(&random) % 255);
        if (n > 10 && round % 3 == 0)
            bytes[10] = 'T';
        struct hx_table table = {0};
        struct hx_text text = {0};
        assert_null(one_cell(&table));
        assert_null(hx_cell_set_text(table.cell, bytes, n));
        struct hx_column column = {.name = "value", .as = kinds[round % 4]};
        hx_column_text(&column, &table, 0, &table, round & 1, &text);
        for (size_t i = 0; i < text.n; i++) {
            unsigned char c = (unsigned char)text.s[i];
            assert_true(c >= 0x20 && c != 0x7f && (c < 0x80 || !(round & 1)));
            assert_false(c == 0xc2 && (unsigned char)text.s[i + 1] < 0xa0); /* C1 */
        }
        hx_text_free(&text);
        hx_table_deinit(&table);
    }
}

/* Labels of stacks in short. */
static void test_calls(void **state)
{
    (void)state;
    static const char *const calls[][2] = {
        {"make_widget < load < main", "make_widget < load < main"},
        {"f < main < __libc_start_call_main < __libc_start_main < _start", "f < main"},
        {"f < main < ...", "f < main < ..."},
        {"worker < start_thread < clone3", "worker < start_thread < clone3"},
        {"lib.so+0x12 < 0x7f00 < ...", "lib.so+0x12 < 0x7f00 < ..."},
        {"zoo::copy(char const*, unsigned long) < main", "zoo::copy < main"},
        {"zoo::box<std::vector<int> >::put(int) const < main", "zoo::box::put < main"},
        {"std::unique_ptr<A> make<A, B<(C)1> >(int (*)(char)) < f", "make < f"},
        {"std::string zoo::name(int) [clone .isra.0]", "zoo::name"},
        {"std::__new_allocator<int>::allocate(unsigned long, void const*) < std::vector<int,"
         " std::allocator<int> >::push_back(int const&) < zoo::serve(int)",
         "std::vector::push_back < zoo::serve"},
        {"std::__cxx11::basic_string<char> std::operator+<char>(char const*) < f",
         "std::operator+ < f"},
        {"std::ostream& operator<< <char>(std::ostream&, char) < f", "operator<< < f"},
        {"bool operator< <int>(box<int> const&, box<int> const&) < f", "operator< < f"},
        {"box<int>::operator->() const < box<int>::operator bool() const < f",
         "box::operator-> < box::operator bool < f"},
        {"box<int>::operator()(int) < operator new[](unsigned long)",
         "box::operator() < operator new[]"},
        {"(anonymous namespace)::go(int)::{lambda(auto:1)#1}::operator()(int) const < main",
         "go::{lambda#1}::operator() < main"},
        {"decltype(auto) zoo::pick<int>(int) < main", "zoo::pick < main"},
        {"walk(int) < walk(int) < walk(int) < main", "walk (recursive) < main"},
        {"<T as Trait>::run < main", "<T as Trait>::run < main"},
        {"'; DROP TABLE x; -- < main", "'; DROP TABLE x; -- < main"},
        {"", ""},
        {" < ", ""},
        {"(", "("},
        {"f(", "f"},
        {"f<(", "f"},
        {"operator", "operator"},
        {"a operator(", "operator"},
        {"<before attach>", "<before attach>"},
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        struct hx_text text = {0};
        hx_text_puts(&text, "x: ");
        hx_text_calls(&text, calls[i][0]);
        assert_false(text.failed);
        assert_string_equal(text.s + 3, calls[i][1]);
        assert_int_equal(strlen(text.s), text.n);
        hx_text_free(&text);
    }
    assert_true(hx_call_is_library("std::vector<int>::push_back(int&&)"));
    assert_false(hx_call_is_library("std::string zoo::name(int)"));
    assert_false(hx_call_is_library(""));
}

/* Letters of demangled names in any order: short, and nothing is read that is not there. */
static void test_random_calls(void **state)
{
    (void)state;
    static const char *const parts[] = {
        "(", ")",       "<", ">", " < ",      " ",    "::",  "operator",  "std",
        "a", "{lambda", "}", "-", "decltype", "main", "...", "__cxx11::", "(anonymous namespace)"};
    struct unit_random random = unit_random_begin("random_calls");
    for (size_t round = unit_rounds(20000); round > 0; round--) {
        char label[256] = "";
        for (uint64_t n = unit_below(&random, 12); n > 0; n--)
            strcat(label, parts[unit_below(&random, sizeof parts / sizeof *parts)]);
        struct hx_text text = {0};
        char *exact = strdup(label); /* so that a step too far is seen */
        assert_non_null(exact);
        hx_text_calls(&text, exact);
        assert_true(text.n <= strlen(label) + 2 * strlen(" (recursive)") * 12);
        assert_int_equal(strlen(hx_text_str(&text)), text.n);
        hx_text_free(&text);
        free(exact);
    }
}

/* --- jobs --- */

/* Until it is cancelled. */
static hx_error *last(struct hx_job *job, hx_store *store, const struct hx_progress *progress)
{
    (void)store;
    while (!hx_progress_cancelled(progress))
        usleep(1000);
    return hx_error_cancelled(job->what);
}

static void forget(struct hx_job *job)
{
    free(job);
}

static void start_lasting(hx_jobs *jobs, enum hx_lane lane, bool unasked)
{
    struct hx_job *job = calloc(1, sizeof *job);
    assert_non_null(job);
    *job =
        (struct hx_job){.what = unasked ? "analysis" : "search", .lane = lane, .unasked = unasked};
    job->run = last;
    job->destroy = forget;
    hx_jobs_start(jobs, job);
}

static void assert_status(hx_jobs *jobs, const char *what)
{
    for (int tries = 0;; tries++) {
        struct hx_text line = {0};
        bool is_there = hx_jobs_status(jobs, 80, false, &line);
        bool is_it =
            is_there && strncmp(line.s, what, strlen(what)) == 0 && !strstr(line.s, "cancelling");
        hx_text_free(&line);
        if (is_it)
            return;
        assert_true(tries < 20000);
        usleep(1000);
    }
}

/* What nobody asked for is named and cancelled where there is nothing else. */
static void test_cancelling(void **state)
{
    (void)state;
    hx_store *store = NULL;
    hx_jobs *jobs = NULL;
    assert_null(hx_store_temporary(&store));
    hx_store *read = NULL;
    assert_null(hx_store_temporary(&read));
    assert_null(hx_jobs_create(read, store, &jobs));
    start_lasting(jobs, HX_LANE_WORK, true);
    assert_status(jobs, "analysis");
    start_lasting(jobs, HX_LANE_READ, false);
    assert_status(jobs, "search");
    assert_true(hx_jobs_cancel(jobs));
    assert_status(jobs, "analysis");
    assert_true(hx_jobs_cancel(jobs));
    for (int tries = 0; hx_jobs_busy(jobs, HX_LANE_WORK) && tries < 20000; tries++) {
        struct hx_job *job = hx_jobs_ended(jobs);
        if (job) {
            assert_true(job->by_user);
            hx_error_free(job->error);
            job->destroy(job);
        }
        usleep(1000);
    }
    assert_false(hx_jobs_cancel(jobs));
    hx_jobs_destroy(jobs);
    assert_null(hx_store_close(read));
    assert_null(hx_store_close(store));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests),   cmocka_unit_test(test_keys),
        cmocka_unit_test(test_palette),    cmocka_unit_test(test_names),
        cmocka_unit_test(test_screens),    cmocka_unit_test(test_layout),
        cmocka_unit_test(test_numbers),    cmocka_unit_test(test_hostile_text),
        cmocka_unit_test(test_calls),      cmocka_unit_test(test_random_calls),
        cmocka_unit_test(test_cancelling),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
