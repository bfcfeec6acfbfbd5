/* test_named_query.c - each named query is a statement, takes the parameters and has the columns
 * that its contract says. */
#include "analysis_check.h"

#include "base/text.h"
#include "store/query/named.h"

/* Is `name` one of the words in "a [b] c|d"? With `optional` only those in brackets count. */
static bool is_word(const char *list, const char *name, bool optional)
{
    size_t n = strlen(name);
    for (const char *s = list; (s = strstr(s, name)); s += n) {
        char before = s == list ? ' ' : s[-1], after = s[n];
        if (strchr(" [|", before) && (!after || strchr(" ]|", after)) &&
            (!optional || before == '['))
            return true;
    }
    return false;
}

#define UNWANTED 987654321

/* What is not of the contract has a value that the statement must not have. */
static int64_t number(const struct hx_named_query *query, const char *name, bool without)
{
    if (!is_word(query->parameters, name, false))
        return UNWANTED;
    return without && is_word(query->parameters, name, true) ? 0 : 1;
}

static const char *text(const struct hx_named_query *query, const char *name, const char *value,
                        bool without)
{
    if (!is_word(query->parameters, name, false))
        return "unwanted";
    return without && is_word(query->parameters, name, true) ? NULL : value;
}

/* "a * b": a first, b last. */
static void check_columns(const struct hx_named_query *query, const hx_rows *rows)
{
    size_t n = hx_rows_columns(rows), words = 0, at = 0;
    char copy[1024], *rest = NULL;
    snprintf(copy, sizeof copy, "%s", query->columns);
    for (const char *s = copy; *s; s += strspn(s, " "), words++)
        s += strcspn(s, " ");
    for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        words--;
        if (strcmp(word, "*") == 0) {
            assert_true(n >= at + words);
            at = n - words;
            continue;
        }
        assert_true(at < n);
        if (strcmp(hx_rows_name(rows, at), word) != 0)
            fail_msg("%s: column %zu is %s, not %s", query->name, at, hx_rows_name(rows, at), word);
        at++;
    }
    assert_int_equal(at, n);
}

static void test_contracts(void **state)
{
    (void)state;
    hx_store *store;
    assert_done(hx_store_temporary(&store));
    for (int i = 0; i < 2 * HX_QUERIES; i++) {
        const struct hx_named_query *query = &hx_named_queries[i / 2];
        bool without = i % 2;
        const struct hx_query_args args = {
            .snapshot = number(query, "snapshot", without),
            .other = number(query, "other", without),
            .id = number(query, "id", without),
            .address = (uint64_t)number(query, "address", without),
            .limit = number(query, "limit", without),
            .offset = number(query, "offset", without),
            .text = text(query, "text", "it's", without),
            .more = text(query, "more", "it's", without),
            .view = text(query, "view", "roots", without),
            .column = text(query, "column", "notes", without),
            .census = number(query, "census", without) == 1 ? hx_census_find("retainer") : NULL,
            .where = text(query, "where", "bytes > 1", without),
        };
        struct hx_text sql = {0};
        hx_query_put((enum hx_query_name)(i / 2), &args, &sql);
        assert_false(sql.failed);
        assert_null(strpbrk(hx_text_str(&sql), "${~}"));
        assert_null(strstr(hx_text_str(&sql), "987654321"));
        assert_null(strstr(hx_text_str(&sql), "unwanted"));
        hx_rows *rows;
        print_message("%s\n", query->name);
        assert_done(hx_query_sql(store, hx_text_str(&sql), &rows));
        check_columns(query, rows);
        bool more;
        assert_done(hx_rows_next(rows, &more));
        hx_rows_end(rows);
        hx_text_free(&sql);
    }
    assert_done(hx_store_close(store));
}

/* All of them can be asked for, and be asked for what they add up to. */
static void test_subsets(void **state)
{
    (void)state;
    hx_store *store;
    assert_done(hx_store_temporary(&store));
    for (int subset = HX_SUBSET_ALL; subset <= HX_SUBSET_DOMINATED; subset++)
        for (int given = 0; given < 2; given++) {
            const struct hx_of of = {(enum hx_subset)subset, given ? "it's" : NULL,
                                     given ? "more" : NULL, given};
            struct hx_text where = {0}, facts = {0};
            hx_rows *rows;
            bool more;
            hx_of_where(&of, &where);
            hx_of_facts(&of, 1, &facts);
            assert_done(hx_query_named(
                store, HX_QUERY_largest_object,
                HX_QUERY_ARGS(.snapshot = 1, .where = where.n ? where.s : NULL), &rows));
            assert_done(hx_rows_next(rows, &more));
            hx_rows_end(rows);
            assert_done(hx_query_sql(store, hx_text_str(&facts), &rows));
            assert_string_equal(hx_rows_name(rows, 0), "rows");
            assert_string_equal(hx_rows_name(rows, 1), "bytes");
            hx_rows_end(rows);
            hx_text_free(&where);
            hx_text_free(&facts);
        }
    assert_done(hx_store_close(store));
}

static void test_expand(void **state)
{
    (void)state;
    const struct hx_query_args args = {.snapshot = 7, .text = "a'b"};
    struct hx_text sql = {0};
    hx_query_expand("$snapshot{id:+$id}{text: = $text~ IS NULL}{more:x~ y}{where:}.", &args, &sql);
    assert_string_equal(hx_text_str(&sql), "7 = 'a''b' y.");
    hx_text_free(&sql);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_contracts),
        cmocka_unit_test(test_subsets),
        cmocka_unit_test(test_expand),
    };
    return unit_run_some(tests);
}
