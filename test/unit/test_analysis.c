/* test_analysis.c - what the store says of a snapshot, against each figure's definition; analysing
 * it anew, in place and over a file that stays; stores of schema 1. */
#include "analysis_model.h"

#include "store/schema.h"
#include "store/sqlite.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* --- asking ------------------------------------------------------------------------ */

/* All rows of a statement as text. */
static void tell(hx_store *store, struct hx_text *text, const char *sql)
{
    hx_rows *rows;
    bool more;
    assert_done(hx_query_sql(store, sql, &rows));
    for (;;) {
        assert_done(hx_rows_next(rows, &more));
        if (!more)
            break;
        for (size_t c = 0; c < hx_rows_columns(rows); c++) {
            struct hx_value value = hx_rows_value(rows, c);
            if (value.type == HX_VALUE_INT)
                hx_text_putf(text, "%lld|", (long long)value.i);
            else if (value.type == HX_VALUE_REAL)
                hx_text_putf(text, "%.12g|", value.real);
            else
                hx_text_putf(text, "%s|", value.type == HX_VALUE_TEXT ? value.text : "NULL");
        }
        hx_text_putc(text, '\n');
    }
    hx_rows_end(rows);
    assert_false(text->failed);
}

static char *tell_format(hx_store *store, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static char *tell_format(hx_store *store, const char *format, ...)
{
    struct hx_text text = {0}, sql = {0};
    va_list args;
    va_start(args, format);
    hx_text_vputf(&sql, format, args);
    va_end(args);
    tell(store, &text, hx_text_str(&sql));
    hx_text_free(&sql);
    if (!text.s)
        return strdup("");
    return text.s;
}

/* The statement has no rows. */
static void assert_nothing(hx_store *store, const char *sql)
{
    struct hx_text text = {0};
    tell(store, &text, sql);
    if (text.n)
        fail_msg("%s:\n%s", sql, text.s);
    hx_text_free(&text);
}

static void assert_same_rows(hx_store *store, const char *a, const char *b)
{
    struct hx_text sql = {0};
    hx_text_putf(&sql, "SELECT 'too many', * FROM (%s EXCEPT %s)", a, b);
    assert_nothing(store, hx_text_str(&sql));
    hx_text_clear(&sql);
    hx_text_putf(&sql, "SELECT 'missing', * FROM (%s EXCEPT %s)", b, a);
    assert_nothing(store, hx_text_str(&sql));
    hx_text_free(&sql);
}

/* Everything that a snapshot's views say, but what depends on what was stored before: numbers of
 * sets, kind and module of retainers that several snapshots have. */
static char *tell_all(hx_store *store, int64_t id)
{
    static const char *const questions[] = {
        "SELECT heap_bytes, heap_objects, scheme, notes FROM snapshots WHERE snapshot = %d",
        "SELECT scheme, visits_per_object, total_bytes, sets FROM censuses WHERE snapshot = %d",
        "SELECT label, members, many, bytes, objects FROM retainers WHERE snapshot = %d"
        " ORDER BY label, bytes",
        "SELECT r.label, m.position, m.label FROM retainers AS r"
        " JOIN retainer_members AS m USING(set_id) WHERE snapshot = %d"
        " ORDER BY r.label, m.position",
        "SELECT roots, bytes, objects FROM bins WHERE snapshot = %d ORDER BY roots",
        "SELECT type, confidence, bytes, objects, retained_bytes FROM types WHERE snapshot = %d"
        " ORDER BY type",
        "SELECT root_id, kind, name, module, address, size, direct_objects, retained_bytes"
        " FROM roots WHERE snapshot = %d ORDER BY root_id",
        "SELECT * FROM dominators WHERE snapshot = %d",
        "SELECT census, CASE census WHEN 'retainer' THEN (SELECT label FROM retainers AS r"
        " WHERE r.snapshot = p.snapshot AND r.set_id = p.key) ELSE key END AS k,"
        " only_pages, shared_pages FROM pages AS p WHERE snapshot = %d ORDER BY census, k,"
        " only_pages, shared_pages",
        "SELECT kind, type, bytes, objects FROM leaks WHERE snapshot = %d ORDER BY kind, type",
        "SELECT o.address, o.bytes, o.type, o.state, r.label, o.bin, o.dominator,"
        " o.retained_bytes, o.retained_objects, o.sure_retained_bytes, o.sure_retained_objects"
        " FROM objects AS o LEFT JOIN retainers AS r USING(snapshot, set_id)"
        " WHERE o.snapshot = %d ORDER BY o.address",
        "SELECT * FROM root_edges WHERE snapshot = %d",
    };
    struct hx_text text = {0};
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) {
        char sql[1024];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(sql, sizeof sql, questions[i], (int)id);
#pragma GCC diagnostic pop
        hx_text_putf(&text, "-- %s\n", questions[i]);
        tell(store, &text, sql);
    }
    return text.s;
}

static void assert_same_told(hx_store *a, int64_t a_id, hx_store *b, int64_t b_id)
{
    char *one = tell_all(a, a_id), *other = tell_all(b, b_id);
    assert_string_equal(one, other);
    free(one);
    free(other);
}

/* --- figures ----------------------------------------------------------------------- */

static void put_figure(struct hx_text *text, bool known, struct model_figure figure)
{
    if (known)
        hx_text_putf(text, "%llu|%llu|", (unsigned long long)figure.bytes,
                     (unsigned long long)figure.objects);
    else
        hx_text_puts(text, "NULL|NULL|");
}

static void check_objects(hx_store *store, int64_t id, const struct hx_snapshot *s,
                          const model_label *set, const model_label *bin,
                          const struct model_tree *all, const struct model_tree *sure)
{
    struct hx_text expected = {0};
    for (hx_obj i = 0; i < s->graph.n; i++) {
        const char *type = model_type(s, i);
        hx_text_putf(&expected, "%llu|%s|%s|%s|", (unsigned long long)s->graph.addr[i],
                     type ? type : "NULL", set[i], bin[i]);
        if (all->scope[i] && all->parent[i] != HX_NO_OBJ)
            hx_text_putf(&expected, "%llu|", (unsigned long long)s->graph.addr[all->parent[i]]);
        else
            hx_text_puts(&expected, "NULL|");
        put_figure(&expected, all->scope[i], all->retained[i]);
        put_figure(&expected, sure->scope[i], sure->retained[i]);
        hx_text_putc(&expected, '\n');
    }
    char *found = tell_format(store,
                              "SELECT o.address, o.type, r.label, o.bin, o.dominator,"
                              " o.retained_bytes, o.retained_objects, o.sure_retained_bytes,"
                              " o.sure_retained_objects FROM objects AS o"
                              " LEFT JOIN retainers AS r USING(snapshot, set_id)"
                              " WHERE o.snapshot = %d ORDER BY o.address",
                              (int)id);
    assert_string_equal(found, hx_text_str(&expected));
    free(found);
    hx_text_free(&expected);
}

/* Views are sums over objects, which were tested before. */
static void check_sums(hx_store *store)
{
    assert_same_rows(store, "SELECT snapshot, set_id, bytes, objects FROM retainers",
                     "SELECT snapshot, set_id, sum(bytes), count(*) FROM objects"
                     " GROUP BY snapshot, set_id");
    assert_same_rows(store, "SELECT snapshot, roots, bytes, objects FROM bins",
                     "SELECT snapshot, bin, sum(bytes), count(*) FROM objects"
                     " GROUP BY snapshot, bin");
    assert_same_rows(store, "SELECT snapshot, type, bytes, objects FROM types",
                     "SELECT snapshot, coalesce(type, '(unknown)'), sum(bytes), count(*)"
                     " FROM objects GROUP BY snapshot, type");
    assert_same_rows(store, "SELECT snapshot, kind, type, bytes, objects FROM leaks",
                     "SELECT snapshot, state, type, sum(bytes), count(*) FROM objects"
                     " WHERE state IN ('definite', 'indirect', 'possible')"
                     " GROUP BY snapshot, state, type");
    assert_same_rows(store, "SELECT * FROM dominators",
                     "SELECT snapshot, address, type, bytes, retained_bytes, retained_objects,"
                     " sure_retained_bytes, sure_retained_objects, dominator FROM objects"
                     " WHERE retained_bytes IS NOT NULL");
    assert_same_rows(store,
                     "SELECT c.snapshot, c.total_bytes, c.sets, s.scheme FROM censuses AS c"
                     " JOIN snapshots AS s USING(snapshot)",
                     "SELECT s.snapshot, s.heap_bytes, (SELECT count(*) FROM retainers AS r"
                     " WHERE r.snapshot = s.snapshot AND r.set_id <> 0),"
                     " (SELECT scheme FROM censuses AS c WHERE c.snapshot = s.snapshot)"
                     " FROM snapshots AS s");
    assert_same_rows(store, "SELECT set_id, members, label FROM retainers WHERE set_id > 1",
                     "SELECT set_id, count(*), group_concat(label, ', ') FROM"
                     " (SELECT set_id, label FROM retainer_members ORDER BY set_id, position)"
                     " GROUP BY set_id");
    assert_nothing(store, "SELECT * FROM retainers WHERE (set_id = 1) <> many"
                          " OR (members IS NULL) <> many OR (members = 0) <> (set_id = 0)");
}

static void check_pages(hx_store *store, int64_t id, const struct hx_snapshot *s,
                        const char *census, const char *key, const model_label *label)
{
    struct hx_text expected = {0};
    for (hx_obj i = 0; s->has_resident && i < s->graph.n; i++) {
        uint64_t only, shared;
        model_pages(s, label, label[i], &only, &shared);
        hx_text_putf(&expected, "%llu|%llu|\n", (unsigned long long)only,
                     (unsigned long long)shared);
    }
    char *found = tell_format(store,
                              "SELECT p.only_pages, p.shared_pages FROM objects AS o JOIN pages"
                              " AS p ON p.snapshot = o.snapshot AND p.census = '%s' AND p.key = %s"
                              " WHERE o.snapshot = %d ORDER BY o.address",
                              census, key, (int)id);
    assert_string_equal(found, hx_text_str(&expected));
    free(found);
    hx_text_free(&expected);
}

static void check_roots(hx_store *store, int64_t id, const struct hx_snapshot *s,
                        const struct model_tree *all)
{
    const bool none[MODEL_MAX] = {false};
    struct hx_text expected = {0};
    for (size_t i = 0; i < s->roots.n; i++) {
        bool reached[MODEL_MAX];
        model_search(s, model_follows(s, false), UINT32_MAX, (uint32_t)i, none, reached);
        struct model_figure figure = model_lost(s, all->scope, reached);
        if (s->roots.v[i].kind == HX_ROOT_NAMED)
            hx_text_puts(&expected, "NULL|\n");
        else
            hx_text_putf(&expected, "%llu|\n", (unsigned long long)figure.bytes);
    }
    char *found = tell_format(
        store, "SELECT retained_bytes FROM roots WHERE snapshot = %d ORDER BY root_id", (int)id);
    assert_string_equal(found, hx_text_str(&expected));
    free(found);
    hx_text_free(&expected);
}

static void check_types(hx_store *store, int64_t id, const struct hx_snapshot *s,
                        const struct model_tree *all)
{
    for (size_t t = 0; t <= s->types.n; t++) {
        const char *name = t < s->types.n ? s->types.v[t].name : NULL;
        bool gone[MODEL_MAX] = {false}, reached[MODEL_MAX], any = false;
        for (hx_obj i = 0; i < s->graph.n; i++)
            any |= gone[i] = model_type(s, i) == name;
        model_search(s, model_follows(s, false), UINT32_MAX, UINT32_MAX, gone, reached);
        char expected[128] = "", *found;
        if (any)
            snprintf(expected, sizeof expected, "%s|%llu|\n",
                     name ? hx_confidence_name(s->types.v[t].confidence) : "NULL",
                     (unsigned long long)model_lost(s, all->scope, reached).bytes);
        found = tell_format(store,
                            "SELECT confidence, retained_bytes FROM types WHERE snapshot = %d"
                            " AND type = '%s'",
                            (int)id, name ? name : "(unknown)");
        assert_string_equal(found, expected);
        free(found);
    }
}

static void check_all(hx_store *store, int64_t id, const struct hx_snapshot *s,
                      const struct hx_analysis *analysis)
{
    static struct model_tree all, sure;
    static model_label set[MODEL_MAX], bin[MODEL_MAX], type[MODEL_MAX];
    model_dominate(s, false, &all);
    model_dominate(s, true, &sure);
    model_bins(s, bin);
    uint64_t walked = model_retain(s, analysis, set), scope = 0;
    for (hx_obj i = 0; i < s->graph.n; i++) {
        snprintf(type[i], MODEL_LABEL, "%s", model_type(s, i) ? model_type(s, i) : "(unknown)");
        scope += all.scope[i];
    }
    check_objects(store, id, s, set, bin, &all, &sure);
    check_roots(store, id, s, &all);
    check_types(store, id, s, &all);
    check_pages(store, id, s, "retainer", "o.set_id", set);
    check_pages(store, id, s, "bin", "o.bin", bin);
    check_pages(store, id, s, "type", "coalesce(o.type, '(unknown)')", type);
    char expected[64] = "NULL|\n", *found;
    if (scope)
        snprintf(expected, sizeof expected, "%.12g|\n", (double)walked / (double)scope);
    found =
        tell_format(store, "SELECT visits_per_object FROM censuses WHERE snapshot = %d", (int)id);
    assert_string_equal(found, expected);
    free(found);
}

static struct hx_analysis some_analysis(struct unit_random *random)
{
    static const char *const patterns[] = {"^Node$", "std"};
    static const char *const schemes[] = {"root", "module", "thread", "type"};
    return (struct hx_analysis){.scheme = hx_scheme_find(schemes[unit_below(random, 4)]),
                                .options = {patterns, unit_below(random, 3)},
                                .max_set = (unsigned)unit_below(random, 4),
                                .threads = 1 + (unsigned)unit_below(random, 2)};
}

static void figures(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("figures");
    for (size_t round = 0; round < unit_rounds(40); round++) {
        hx_store *store;
        assert_done(hx_store_temporary(&store));
        for (int64_t k = 1; k <= 4; k++) {
            struct hx_snapshot *s = model_to_analyse(&random, k % 2 ? 12 : MODEL_MAX);
            struct hx_analysis analysis = some_analysis(&random);
            int64_t id;
            unsigned parts;
            assert_done(hx_store_add(store, s, &analysis, NULL, &id));
            assert_int_equal(id, k);
            assert_done(hx_store_parts(store, id, &parts));
            assert_int_equal(parts, HX_ANALYSE_ALL);
            check_all(store, id, s, &analysis);
            hx_snapshot_destroy(s);
        }
        check_sums(store);
        assert_done(hx_store_close(store));
    }
}

/* --- numbers that last ------------------------------------------------------------- */

/* A root with an object of its own for each bit, and both objects point to a third one. */
static struct hx_snapshot *two_roots(const char *first, const char *second)
{
    static const struct hx_drawn_edge edge[] = {{0, 2, 0}, {1, 2, 0}};
    static const struct hx_drawn_edge root_edge[] = {{0, 0, 0}, {1, 1, 0}};
    struct hx_snapshot *s;
    assert_done(hx_image_graph(3, edge, 2, 2, root_edge, 2, &s));
    s->method = "copy";
    const char *name[] = {first, second};
    for (size_t i = 0; i < 2; i++) {
        free(s->roots.v[i].name);
        s->roots.v[i].name = strdup(name[i]);
        free(s->roots.v[i].module);
        s->roots.v[i].module = strdup(i ? "libz.so" : "a.out");
    }
    assert_done(hx_reach(s, HX_INTERIOR_KNOWN, 1, NULL));
    return s;
}

static void lasting_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *first, *second, *scheme;
    } steps[] = {{"b", "a", "root"}, {"c", "a", "root"}, {"a", "b", "type"},
                 {"c", "b", "root"}, {"a", "c", "root"}, {"x", "y", "module"}};
    hx_store *store;
    assert_done(hx_store_temporary(&store));
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        struct hx_snapshot *s = two_roots(steps[i].first, steps[i].second);
        struct hx_analysis analysis = {.scheme = hx_scheme_find(steps[i].scheme), .max_set = 8};
        int64_t id;
        assert_done(hx_store_add(store, s, &analysis, NULL, &id));
        hx_snapshot_destroy(s);
    }
    /* one number a label, one label a number */
    assert_nothing(store, "SELECT label FROM retainers GROUP BY label"
                          " HAVING count(DISTINCT set_id) > 1");
    assert_nothing(store, "SELECT set_id FROM retainers GROUP BY set_id"
                          " HAVING count(DISTINCT label) > 1");
    assert_int_equal(ask_int(store, "SELECT min(set_id) FROM retainers"), 2);
    /* a, b, c, ab, ac, bc and two modules with both */
    assert_int_equal(ask_int(store, "SELECT count(DISTINCT set_id) FROM retainers"), 9);
    assert_int_equal(ask_int(store, "SELECT max(set_id) FROM retainers"), 10);
    char *found = tell_format(store, "SELECT label, module FROM retainer_members"
                                     " WHERE kind = 'global' AND set_id IN (SELECT set_id FROM"
                                     " retainers WHERE members = 1) ORDER BY label");
    /* a was in both modules, c in both, b in both */
    assert_string_equal(found, "a|NULL|\nb|NULL|\nc|NULL|\n");
    free(found);
    assert_done(hx_store_close(store));
}

/* A root and a type of one name are two retainers, and what is retained by both is in a third set
 * whose members stand in the order of their names. */
static void names_of_two_kinds(void **state)
{
    (void)state;
    struct hx_snapshot *s = two_roots("b", "m");
    assert_true(hx_vec_push(&s->types, (struct hx_type){strdup("b"), HX_CONFIDENCE_CERTAIN}));
    assert_done(hx_big_reserve(&s->graph.type_mem, 3 * sizeof(uint32_t)));
    s->graph.type = s->graph.type_mem.base;
    s->graph.type[1] = s->graph.type[2] = HX_NO_TYPE;
    struct hx_analysis analysis = {.scheme = hx_scheme_find("type")};
    hx_store *store;
    int64_t id;
    assert_done(hx_store_temporary(&store));
    assert_done(hx_store_add(store, s, &analysis, NULL, &id));
    char *found = tell_format(store, "SELECT r.label, r.objects, m.position, m.kind, m.label"
                                     " FROM retainers AS r JOIN retainer_members AS m"
                                     " USING(set_id) ORDER BY r.label, m.position");
    assert_string_equal(found, "b|1|1|global|b|\nb, m|1|1|type|b|\nb, m|1|2|global|m|\n"
                               "m|1|1|global|m|\n");
    free(found);
    hx_snapshot_destroy(s);
    assert_done(hx_store_close(store));
}

/* --- anew -------------------------------------------------------------------------- */

static char *bytes_of(const char *path, size_t *ret_n)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    *ret_n = (size_t)ftell(file);
    rewind(file);
    char *bytes = malloc(*ret_n + 1);
    assert_int_equal(fread(bytes, 1, *ret_n, file), *ret_n);
    fclose(file);
    return bytes;
}

/* A store in which `s` is the second of three snapshots. */
static void make_store(struct unit_random random, const char *path, const struct hx_snapshot *s,
                       const struct hx_analysis *analysis)
{
    hx_store *store;
    assert_done(hx_store_append(path, &store));
    for (int i = 0; i < 3; i++) {
        struct hx_snapshot *other = model_to_analyse(&random, 20);
        struct hx_analysis its = some_analysis(&random);
        int64_t id;
        assert_done(i == 1 ? hx_store_add(store, s, analysis, NULL, &id)
                           : hx_store_add(store, other, &its, NULL, &id));
        hx_snapshot_destroy(other);
    }
    assert_done(hx_store_close(store));
}

static void revised(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("revised");
    char *directory = model_directory();
    for (size_t round = 0; round < unit_rounds(15); round++) {
        char *a = model_path(directory, "a"), *b = model_path(directory, "b");
        struct hx_snapshot *s = model_to_analyse(&random, 40), *loaded;
        struct hx_analysis before = some_analysis(&random), after = some_analysis(&random);
        struct unit_random others = random;
        make_store(others, a, s, unit_below(&random, 3) ? &before : NULL);
        hx_store *over, *in_place, *fresh;
        size_t n, m;
        char *was = bytes_of(a, &n), *is;
        assert_done(hx_store_open(a, &over));
        assert_done(hx_store_load(over, 2, NULL, &loaded));
        model_name_roots(&random, loaded);
        assert_done(hx_store_revise(over, 2, loaded, &before, HX_ANALYSE_RETAINED, NULL));
        assert_done(hx_store_revise(over, 2, loaded, &after, HX_ANALYSE_ALL, NULL));
        make_store(others, b, loaded, &after);
        assert_done(hx_store_open(b, &fresh));
        assert_same_told(over, 2, fresh, 2);
        check_all(over, 2, loaded, &after);
        struct hx_snapshot *again;
        assert_done(hx_store_load(over, 2, NULL, &again));
        assert_same_snapshot(loaded, again);
        hx_snapshot_destroy(again);
        assert_done(hx_store_close(over));
        is = bytes_of(a, &m);
        assert_int_equal(n, m);
        assert_memory_equal(was, is, n);
        assert_done(hx_store_append(a, &in_place));
        char *first = tell_all(in_place, 1), *third = tell_all(in_place, 3);
        assert_done(hx_store_revise(in_place, 2, loaded, &after,
                                    HX_ANALYSE_RETAINERS | HX_ANALYSE_BINS, NULL));
        assert_done(hx_store_revise(in_place, 2, loaded, &after, HX_ANALYSE_RETAINED, NULL));
        assert_same_told(in_place, 2, fresh, 2);
        char *first_now = tell_all(in_place, 1), *third_now = tell_all(in_place, 3);
        assert_string_equal(first, first_now);
        assert_string_equal(third, third_now);
        assert_done(hx_store_close(in_place));
        assert_done(hx_store_open(a, &over));
        assert_same_told(over, 2, fresh, 2);
        assert_done(hx_store_close(over));
        assert_done(hx_store_close(fresh));
        assert_int_equal(unlink(a), 0);
        assert_int_equal(unlink(b), 0);
        hx_snapshot_destroy(s);
        hx_snapshot_destroy(loaded);
        free(first), free(first_now), free(third), free(third_now);
        free(was), free(is), free(a), free(b);
    }
    model_remove(directory);
}

/* --- schema 1 ---------------------------------------------------------------------- */

static char *golden_sql(void)
{
    const char *source = getenv("HX_SRCDIR");
    char *path = model_path(source ? source : ".", "test/golden/store-schema-1.sql");
    size_t n;
    char *sql = bytes_of(path, &n);
    sql[n] = 0;
    free(path);
    return sql;
}

static void must_run(sqlite3 *db, const char *sql)
{
    char *message = NULL;
    if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK)
        fail_msg("%s: %s", sql, message);
}

/* A store of schema 1 with the first snapshot of another store that was not analysed. */
static void make_schema_1(const char *path, const char *from)
{
    sqlite3 *db;
    char *sql = golden_sql(), *attach = sqlite3_mprintf("ATTACH %Q AS new", from);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    must_run(db, sql);
    must_run(db, attach);
    must_run(db,
             "INSERT INTO hx_snapshot SELECT snapshot, taken_at_ns, taken_at, pid, comm, exe,"
             " pause_us, method, allocator, heap_bytes, heap_objects, reachable_bytes,"
             " reachable_objects, leaked_bytes, leaked_objects, free_bytes, overhead_bytes,"
             " rss_bytes, NULL, interior, complete, notes FROM new.hx_snapshot;"
             "INSERT INTO hx_account SELECT * FROM new.hx_account;"
             "INSERT INTO hx_root SELECT snapshot, root_id, kind, kind_name, name, module, address,"
             " size, direct_objects, value, tid FROM new.hx_root;"
             "INSERT INTO hx_leak SELECT snapshot, kind, NULL, NULL, sum(bytes), sum(objects)"
             " FROM new.hx_leak GROUP BY snapshot, kind;"
             "INSERT INTO hx_loss SELECT * FROM new.hx_loss;"
             "INSERT INTO hx_block SELECT * FROM new.hx_block WHERE family <= 3;"
             "INSERT INTO hx_column SELECT * FROM new.hx_column WHERE id / 64 IN"
             " (SELECT id FROM new.hx_block WHERE family <= 3) AND id % 64 < 5;");
    sqlite3_free(attach);
    free(sql);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static char *schema_of(const char *path)
{
    struct hx_text text = {0};
    sqlite3 *db;
    sqlite3_stmt *st;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db,
                                        "SELECT type, name, tbl_name, sql FROM sqlite_schema"
                                        " UNION ALL SELECT user_version, '', '', '' FROM"
                                        " pragma_user_version UNION ALL SELECT application_id, '',"
                                        " '', '' FROM pragma_application_id ORDER BY 1, 2",
                                        -1, &st, NULL),
                     SQLITE_OK);
    while (sqlite3_step(st) == SQLITE_ROW)
        for (int c = 0; c < 4; c++)
            hx_text_putf(&text, "%s\n", (const char *)sqlite3_column_text(st, c));
    sqlite3_finalize(st);
    sqlite3_close(db);
    return text.s;
}

static void schema_1(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("schema_1");
    char *directory = model_directory();
    char *old = model_path(directory, "old"), *new = model_path(directory, "new");
    struct hx_snapshot *s = model_to_analyse(&random, 40), *loaded;
    struct hx_analysis analysis = {.scheme = hx_scheme_find("root"), .max_set = 8};
    hx_store *store, *fresh;
    int64_t id;
    unsigned parts;
    model_drop_named(s);
    s->has_resident = false;
    s->graph.type = NULL;
    assert_done(hx_store_append(new, &store));
    assert_done(hx_store_add(store, s, NULL, NULL, &id));
    assert_done(hx_store_close(store));
    make_schema_1(old, new);
    size_t n, m;
    char *was = bytes_of(old, &n);
    assert_done(hx_store_open(old, &store));
    assert_done(hx_store_parts(store, 1, &parts));
    assert_int_equal(parts, 0);
    static const char *const views[] = {"censuses", "retainers", "retainer_members", "bins",
                                        "types",    "pages",     "dominators"};
    for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
        char sql[64];
        snprintf(sql, sizeof sql, "SELECT * FROM %s", views[i]);
        assert_nothing(store, sql);
    }
    assert_nothing(store, "SELECT * FROM objects WHERE coalesce(type, set_id, bin, dominator,"
                          " retained_bytes, retained_objects, sure_retained_bytes,"
                          " sure_retained_objects) IS NOT NULL");
    assert_nothing(store, "SELECT * FROM roots WHERE retained_bytes IS NOT NULL");
    assert_done(hx_store_load(store, 1, NULL, &loaded));
    assert_same_snapshot(s, loaded);
    assert_done(hx_store_revise(store, 1, loaded, &analysis, HX_ANALYSE_ALL, NULL));
    check_all(store, 1, loaded, &analysis);
    assert_done(hx_store_close(store));
    char *is = bytes_of(old, &m);
    assert_int_equal(n, m);
    assert_memory_equal(was, is, n);
    assert_done(hx_store_append(old, &store));
    assert_done(hx_store_append(new, &fresh));
    assert_done(hx_store_add(store, s, &analysis, NULL, &id));
    assert_done(hx_store_add(fresh, s, &analysis, NULL, &id));
    assert_same_told(store, 2, fresh, 2);
    assert_done(hx_store_close(store));
    assert_done(hx_store_close(fresh));
    char *migrated = schema_of(old), *created = schema_of(new);
    assert_string_equal(migrated, created);
    hx_snapshot_destroy(s);
    hx_snapshot_destroy(loaded);
    free(migrated), free(created), free(was), free(is), free(old), free(new);
    model_remove(directory);
}

/* --- damage ------------------------------------------------------------------------ */

static void put_bytes(const char *path, const char *bytes, size_t n)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    fclose(file);
}

/* Whatever stands in the file: loading and analysing it end, with figures or an error. */
static void damaged(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("damaged");
    char *directory = model_directory(), *path = model_path(directory, "a");
    for (size_t round = 0; round < unit_rounds(150); round++) {
        struct hx_snapshot *s = model_to_analyse(&random, 30), *loaded = NULL;
        struct hx_analysis before = some_analysis(&random), after = some_analysis(&random);
        make_store(random, path, s, &before);
        hx_snapshot_destroy(s);
        size_t n;
        char *bytes = bytes_of(path, &n);
        for (uint64_t k = 1 + unit_below(&random, 20); k; k--)
            bytes[100 + unit_below(&random, n - 100)] ^= (char)(1 << unit_below(&random, 8));
        put_bytes(path, bytes, n);
        hx_store *store = NULL;
        int64_t id = 1 + (int64_t)unit_below(&random, 3), added;
        hx_error *err =
            unit_below(&random, 2) ? hx_store_open(path, &store) : hx_store_append(path, &store);
        if (!err)
            err = hx_store_load(store, id, NULL, &loaded);
        if (!err)
            err = hx_store_revise(store, id, loaded, &after, HX_ANALYSE_ALL, NULL);
        hx_error_free(err);
        if (store && loaded)
            hx_error_free(hx_store_add(store, loaded, &after, NULL, &added));
        hx_error_free(hx_store_close(store));
        hx_snapshot_destroy(loaded);
        free(bytes);
        unlink(path);
    }
    free(path);
    model_remove(directory);
}

/* --- what ends early --------------------------------------------------------------- */

struct ending {
    atomic_bool cancel;
    size_t calls, at;
};

static void count_calls(void *context, const char *stage, uint64_t done, uint64_t total)
{
    (void)stage, (void)done, (void)total;
    struct ending *ending = context;
    if (ending->calls++ == ending->at)
        atomic_store(&ending->cancel, true);
}

/* Whatever is cancelled when leaves everything as it was. */
static void cancelled(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("cancelled");
    char *directory = model_directory(), *path = model_path(directory, "a");
    struct hx_snapshot *s = model_to_analyse(&random, 40);
    struct hx_analysis before = {.scheme = hx_scheme_find("root"), .max_set = 2};
    struct hx_analysis after = {.scheme = hx_scheme_find("type"), .max_set = 8};
    hx_store *store[2];
    int64_t id;
    assert_done(hx_store_append(path, &store[0]));
    assert_done(hx_store_add(store[0], s, &before, NULL, &id));
    assert_done(hx_store_close(store[0]));
    for (int over = 0; over < 2; over++) {
        assert_done(over ? hx_store_open(path, &store[over]) : hx_store_append(path, &store[over]));
        char *was = tell_all(store[over], 1);
        int64_t snapshots = ask_int(store[over], "SELECT count(*) FROM snapshots");
        bool ended = false;
        for (size_t at = 0; !ended; at++) {
            struct ending ending = {.at = at};
            struct hx_progress progress = {count_calls, &ending, &ending.cancel};
            bool revises = over || at % 2;
            hx_error *err =
                revises ? hx_store_revise(store[over], 1, s, &after, HX_ANALYSE_ALL, &progress)
                        : hx_store_add(store[over], s, &after, &progress, &id);
            ended = ending.calls <= at;
            char *is = tell_all(store[over], 1);
            if (err) {
                assert_int_equal(err->kind, HX_E_CANCEL);
                assert_string_equal(was, is);
            } else { /* the last call came when all was done */
                snapshots += !revises;
            }
            assert_int_equal(ask_int(store[over], "SELECT count(*) FROM snapshots"), snapshots);
            hx_error_free(err);
            free(was);
            was = is;
        }
        free(was);
        if (!over)
            assert_done(hx_store_close(store[over]));
    }
    assert_done(hx_store_close(store[1]));
    hx_snapshot_destroy(s);
    free(path);
    model_remove(directory);
}

/* Many roots, each with an object: rows enough to meet any limit. */
static struct hx_snapshot *many_sets(hx_obj n)
{
    struct hx_drawn_edge *edge = calloc(n, sizeof *edge);
    struct hx_snapshot *s;
    for (hx_obj i = 0; i < n; i++)
        edge[i] = (struct hx_drawn_edge){i, i, HX_EDGE_START};
    assert_done(hx_image_graph(n, NULL, 0, n, edge, n, &s));
    assert_done(hx_reach(s, HX_INTERIOR_KNOWN, 1, NULL));
    s->method = "copy";
    free(edge);
    return s;
}

static void outgrow(const char *path)
{
    struct hx_snapshot *s = many_sets(unit_rounds(10) == 10 ? 60000 : 30000);
    rlim_t limit = s->roots.n * 140;
    struct rlimit rlimit = {limit, limit};
    struct hx_analysis analysis = {.scheme = hx_scheme_find("root")};
    hx_store *store;
    int64_t id;
    signal(SIGXFSZ, SIG_IGN);
    assert_done(hx_store_append(path, &store));
    assert_done(hx_store_add(store, s, NULL, NULL, &id));
    setrlimit(RLIMIT_FSIZE, &rlimit);
    assert_refused(hx_store_add(store, s, &analysis, NULL, &id), HX_E_OS, "ulimit");
    assert_refused(hx_store_revise(store, 1, s, &analysis, HX_ANALYSE_ALL, NULL), HX_E_OS,
                   "ulimit");
    assert_int_equal(ask_int(store, "SELECT count(*) FROM snapshots"), 1);
    assert_nothing(store, "SELECT * FROM retainers");
    assert_done(hx_store_close(store));
    hx_snapshot_destroy(s);
}

static void no_room(void **state)
{
    (void)state;
    char *directory = model_directory(), *path = model_path(directory, "a");
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setenv("CMOCKA_TEST_ABORT", "1", 1);
        outgrow(path);
        free(path);
        free(directory);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    hx_store *store;
    assert_done(hx_store_open(path, &store));
    assert_int_equal(ask_int(store, "SELECT count(*) FROM snapshots"), 1);
    assert_done(hx_store_close(store));
    free(path);
    model_remove(directory);
}

/* --- the edges --------------------------------------------------------------------- */

static void nothing_there(void **state)
{
    (void)state;
    struct hx_analysis analysis = {.scheme = hx_scheme_find("root"), .max_set = 8};
    hx_store *store;
    int64_t id;
    unsigned parts;
    assert_done(hx_store_temporary(&store));
    struct hx_snapshot *s;
    assert_done(hx_snapshot_create(&s));
    s->method = "copy";
    assert_done(hx_store_add(store, s, &analysis, NULL, &id)); /* no object */
    s->no_heap = true;
    assert_done(hx_store_add(store, s, &analysis, NULL, &id)); /* no allocator */
    assert_done(hx_store_revise(store, id, s, &analysis, HX_ANALYSE_ALL, NULL));
    assert_done(hx_store_parts(store, id, &parts));
    assert_int_equal(parts, 0);
    char *found = tell_format(store, "SELECT * FROM censuses");
    assert_string_equal(found, "1|root|NULL|0|0|\n");
    free(found);
    assert_nothing(store, "SELECT snapshot FROM retainers UNION ALL SELECT snapshot FROM bins"
                          " UNION ALL SELECT snapshot FROM types UNION ALL SELECT snapshot FROM"
                          " dominators UNION ALL SELECT snapshot FROM pages");
    assert_refused(hx_store_parts(store, 9, &parts), HX_E_ABSENT, "no snapshot 9");
    s->no_heap = false;
    assert_refused(hx_store_revise(store, 9, s, &analysis, HX_ANALYSE_ALL, NULL), HX_E_ABSENT,
                   "no snapshot 9");
    hx_snapshot_destroy(s);
    s = two_roots("a", "b");
    assert_refused(hx_store_revise(store, 1, s, &analysis, HX_ANALYSE_RETAINED, NULL), HX_E_FAIL,
                   "other objects");
    assert_refused(hx_store_revise(store, 1, s, &analysis, HX_ANALYSE_ALL, NULL), HX_E_FAIL,
                   "other roots");
    hx_snapshot_destroy(s);
    assert_done(hx_store_close(store));
}

/* Each sentence once, whoever says it how often. */
static void notes(void **state)
{
    (void)state;
    struct hx_analysis analysis = {.scheme = hx_scheme_find("root"), .max_set = 8};
    struct hx_snapshot *s = two_roots("a", "b");
    hx_store *store;
    int64_t id;
    hx_snapshot_note(s, false, "one more");
    hx_snapshot_note(s, false, "one");
    assert_done(hx_store_temporary(&store));
    assert_done(hx_store_add(store, s, &analysis, NULL, &id));
    hx_text_clear(&s->notes);
    hx_snapshot_note(s, false, "one more");
    hx_snapshot_note(s, false, "more");
    for (int i = 0; i < 2; i++)
        assert_done(hx_store_revise(store, id, s, &analysis, HX_ANALYSE_BINS, NULL));
    char *found = tell_format(store, "SELECT notes FROM snapshots");
    assert_string_equal(found, "one more; one; more|\n");
    free(found);
    hx_snapshot_destroy(s);
    assert_done(hx_store_close(store));
}

/* More than fit into hx_dominator: the largest are there. */
static void largest(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("largest");
    struct hx_analysis analysis = {.scheme = hx_scheme_find("root"), .max_set = 8};
    hx_obj n = 5000;
    struct hx_snapshot *s = many_sets(n);
    uint64_t at = HX_DRAW_HEAP_BASE;
    for (hx_obj i = 0; i < n; i++) {
        s->graph.addr[i] = at;
        s->graph.size[i] = 8 + 16 * unit_below(&random, 300);
        at += s->graph.size[i] + 8;
    }
    hx_store *store;
    int64_t id;
    assert_done(hx_store_temporary(&store));
    assert_done(hx_store_add(store, s, &analysis, NULL, &id));
    char *found = tell_format(store, "SELECT address, retained_bytes FROM dominators"
                                     " ORDER BY retained_bytes DESC, address");
    char *expected = tell_format(store, "SELECT address, retained_bytes FROM objects"
                                        " ORDER BY retained_bytes DESC, address LIMIT 1000");
    assert_string_equal(found, expected);
    free(found), free(expected);
    hx_snapshot_destroy(s);
    assert_done(hx_store_close(store));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures),
        cmocka_unit_test(lasting_numbers),
        cmocka_unit_test(names_of_two_kinds),
        cmocka_unit_test(revised),
        cmocka_unit_test(schema_1),
        cmocka_unit_test(cancelled),
        cmocka_unit_test(no_room),
        cmocka_unit_test(nothing_there),
        cmocka_unit_test(notes),
        cmocka_unit_test(damaged),
        cmocka_unit_test(largest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
