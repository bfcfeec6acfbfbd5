/* test_imported.c - snapshots made of break-downs: what is the same has one number, rows are added
 * up and sum to the heap, what was not counted is NULL, and nothing half-written stays. */
#include "unit.h"

#include "store/query.h"
#include "store/write/imported.h"

#include <inttypes.h>

static void assert_done(hx_error *err)
{
    char line[512] = "";
    if (err)
        hx_error_line(err, line, sizeof line);
    assert_string_equal(line, "");
}

static int64_t ask(hx_store *store, const char *sql)
{
    hx_rows *rows = NULL;
    bool more = false;
    assert_done(hx_query_sql(store, sql, &rows));
    assert_done(hx_rows_next(rows, &more));
    assert_true(more);
    struct hx_value value = hx_rows_value(rows, 0);
    assert_int_equal(value.type, HX_VALUE_INT);
    int64_t answer = value.i;
    hx_rows_end(rows);
    return answer;
}

static uint32_t name(hx_imported *imported, const char *text)
{
    uint32_t number = 0;
    assert_done(hx_imported_name(imported, text, strlen(text), &number));
    return number;
}

static uint32_t set(hx_imported *imported, size_t n, const char *const *names)
{
    uint32_t number = 0;
    size_t bytes[8];
    for (size_t i = 0; i < n; i++)
        bytes[i] = strlen(names[i]);
    assert_done(hx_imported_set(imported, names, bytes, n, &number));
    return number;
}

static uint32_t push(hx_imported *imported, uint32_t on, const char *label, bool is_caf)
{
    struct hx_imported_centre centre = {label, "Main", NULL, is_caf};
    uint32_t number = 0, stack = 0;
    assert_done(hx_imported_centre(imported, &centre, &number));
    assert_done(hx_imported_push(imported, on, number, &stack));
    return stack;
}

static struct hx_imported_snapshot snapshot_of(const struct hx_imported_row *row, size_t n)
{
    struct hx_imported_snapshot snapshot = {
        .taken_at_ns = 1500, .started_at_ns = 1000, .complete = true, .row = row, .n = n};
    for (size_t i = 0; i < n; i++)
        snapshot.told |= 1u << row[i].by;
    return snapshot;
}

static void test_numbers(void **state)
{
    (void)state;
    hx_store *store = NULL;
    hx_imported *imported = NULL;
    assert_done(hx_store_temporary(&store));
    assert_done(hx_imported_create(store, NULL, &imported));
    assert_int_equal(name(imported, "Node"), name(imported, "Node"));
    assert_int_not_equal(name(imported, "Node"), name(imported, "Nod"));
    const char *ab[] = {"a", "b"}, *ba[] = {"b", "a"}, *aa[] = {"a", "a"},
               *again[] = {"a", "a (2)"};
    const char *deep[] = {"a", "a", "a (2)", "a (2) (2)"};
    assert_int_equal(set(imported, 2, ab), set(imported, 2, ba));
    assert_int_equal(set(imported, 2, aa), set(imported, 2, again));
    assert_int_not_equal(set(imported, 2, aa), set(imported, 1, aa));
    assert_int_not_equal(set(imported, 4, deep), set(imported, 2, aa));
    assert_true(set(imported, 2, ab) > HX_IMPORTED_MANY);
    hx_imported_destroy(imported);
    hx_error_free(hx_store_close(store));
}

static void test_rows(void **state)
{
    (void)state;
    hx_store *store = NULL;
    int64_t number = 0;
    assert_done(hx_store_temporary(&store));
    for (int round = 0; round < 2; round++) {
        hx_imported *imported = NULL;
        assert_done(hx_imported_create(store, NULL, &imported));
        const char *members[] = {"f", "main"};
        uint32_t own = set(imported, 2, members), node = name(imported, "Node");
        uint32_t main = push(imported, HX_IMPORTED_MAIN, "main", false);
        uint32_t f = push(imported, main, "f", false), caf = push(imported, 0, "CAF", true);
        uint32_t cut = push(imported, HX_IMPORTED_CUT, "f", false);
        const struct hx_imported_row rows[] = {
            {HX_IMPORTED_TYPE, node, 30},
            {HX_IMPORTED_CCS, f, 5},
            {HX_IMPORTED_RETAINER, own, 40},
            {HX_IMPORTED_TYPE, node, 70},
            {HX_IMPORTED_RETAINER, 1, 60},
            {HX_IMPORTED_CCS, f, 15},
            {HX_IMPORTED_CCS, HX_IMPORTED_MAIN, 10},
            {HX_IMPORTED_CCS, caf, 20},
            {HX_IMPORTED_CCS, main, 40},
            {HX_IMPORTED_MODULE, node, 99},
            {HX_IMPORTED_CCS, cut, 10},
            {HX_IMPORTED_BIOGRAPHY, HX_IMPORTED_DRAG, 100},
        };
        struct hx_imported_snapshot snapshot = snapshot_of(rows, sizeof rows / sizeof *rows);
        const struct hx_imported_loss loss = {"something", 7};
        snapshot.loss = &loss;
        snapshot.losses = 1;
        assert_done(hx_imported_add(imported, &snapshot, &number));
        assert_int_equal(number, round + 1);
        uint32_t late = 0; /* everything is named before */
        hx_error *err = hx_imported_name(imported, "late", 4, &late);
        assert_non_null(err);
        hx_error_free(err);
        hx_imported_destroy(imported);
    }
    static const struct {
        const char *sql;
        int64_t answer;
    } answers[] = {
        {"SELECT count(*) FROM snapshots WHERE heap_bytes = 100 AND heap_objects IS NULL", 2},
        {"SELECT count(*) FROM types WHERE bytes = 100 AND objects IS NULL AND type = 'Node'", 2},
        {"SELECT count(DISTINCT set_id) FROM retainers WHERE objects IS NULL", 2},
        {"SELECT sum(bytes) FROM retainers WHERE many AND label = 'MANY'", 120},
        {"SELECT count(*) FROM retainer_members", 2},
        {"SELECT count(*) FROM ccs WHERE ccs_id > 5", 4},
        {"SELECT count(*) FROM ccs WHERE is_caf", 1},
        {"SELECT sum(bytes) FROM sites WHERE objects IS NULL", 200},
        {"SELECT inherited_live_bytes FROM costs WHERE ccs_id = 1 AND snapshot = 2", 100},
        {"SELECT count(*) FROM costs WHERE coalesce(live_objects, alloc_bytes, alloc_objects,"
         " freed_bytes, inherited_alloc_bytes, inherited_live_objects, entries) IS NOT NULL",
         0},
        {"SELECT sum(bytes) FROM hx_module", 198},
        {"SELECT sum(bytes) FROM biography WHERE phase = 'drag'", 200},
        {"SELECT sum(count) FROM losses", 14},
    };
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        int64_t answer = ask(store, answers[i].sql);
        if (answer != answers[i].answer)
            print_error("%s: %" PRId64 "\n", answers[i].sql, answer);
        assert_int_equal(answer, answers[i].answer);
    }
    hx_error_free(hx_store_close(store));
}

static void test_too_much(void **state)
{
    (void)state;
    hx_store *store = NULL;
    hx_imported *imported = NULL;
    int64_t number = 0;
    assert_done(hx_store_temporary(&store));
    assert_done(hx_imported_create(store, NULL, &imported));
    uint32_t node = name(imported, "Node");
    const struct hx_imported_row rows[] = {{HX_IMPORTED_TYPE, node, INT64_MAX},
                                           {HX_IMPORTED_TYPE, node, 1}};
    struct hx_imported_snapshot snapshot = snapshot_of(rows, 2);
    hx_error *err = hx_imported_add(imported, &snapshot, &number);
    assert_non_null(err);
    hx_error_free(err);
    assert_int_equal(ask(store, "SELECT count(*) FROM hx_snapshot"), 0);
    assert_int_equal(ask(store, "SELECT count(*) FROM hx_type"), 0);
    snapshot.n = 1;
    assert_done(hx_imported_add(imported, &snapshot, &number));
    assert_int_equal(ask(store, "SELECT count(*) FROM types"), 1);
    hx_imported_destroy(imported);
    hx_error_free(hx_store_close(store));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_too_much),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
