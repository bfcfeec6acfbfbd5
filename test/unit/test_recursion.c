/* test_recursion.c - which cost-centre stacks of a store recurse: direct and mutual recursion,
 * clones of one function, recursion that is seen by a later snapshot only, whole recursion, and
 * stores of the schema that did not tell. */
#include "analysis_check.h"

#include "store/cost/attribution.h"
#include "store/write/write_recording.h"

enum { MAIN, F, F_CLONE, G, PLACES };

/* F_CLONE is a part of f that the compiler has split off: f at another place. */
static const struct {
    const char *function;
    uint64_t entry;
} places[PLACES] = {{"main", 0x100}, {"f", 0x200}, {"f", 0x300}, {"g", 0x400}};

static void add_place(struct hx_recording *recording, int i)
{
    struct hx_rec_place place = {.vaddr = places[i].entry + 8, .n_lines = 1};
    place.lines = calloc(1, sizeof *place.lines);
    assert_non_null(place.lines);
    place.lines[0] = (struct hx_rec_line){.function = strdup(places[i].function),
                                          .source = strdup("a.c"),
                                          .line = 20,
                                          .declared = strdup("a.c"),
                                          .declared_line = (uint32_t)places[i].function[0],
                                          .entry = places[i].entry};
    assert_true(hx_vec_push(&recording->places, place));
}

/* Stacks, innermost first, as letters: m f F g. */
static struct hx_snapshot *make(struct unit_random *random, const char *const *stacks)
{
    struct hx_snapshot *s = model_to_analyse(random, 8);
    struct hx_recording *recording;
    assert_done(hx_recording_create(&recording));
    s->recording = recording;
    recording->method = "run";
    struct hx_rec_file file = {strdup("/bin/a"), strdup("a"), strdup("00ff")};
    assert_true(hx_vec_push(&recording->files, file));
    for (int i = 0; i < PLACES; i++)
        add_place(recording, i);
    for (; *stacks; stacks++) {
        struct hx_rec_stack stack = {.first = recording->stack_places.n,
                                     .n = (uint32_t)strlen(*stacks)};
        struct hx_rec_costs costs = {.allocs = 1, .alloc_bytes = 10, .live = 1, .live_bytes = 10};
        for (const char *c = *stacks; *c; c++)
            assert_true(
                hx_vec_push(&recording->stack_places, (uint32_t)(strchr("mfFg", *c) - "mfFg")));
        assert_true(hx_vec_push(&recording->stacks, stack));
        assert_true(hx_vec_push(&recording->costs, costs));
    }
    assert_done(hx_recording_check(recording));
    return s;
}

static void add(struct unit_random *random, const char *path, const char *const *stacks)
{
    struct hx_snapshot *s = make(random, stacks);
    hx_store *store;
    int64_t id;
    assert_done(hx_store_append(path, &store));
    assert_done(hx_store_add(store, s, NULL, NULL, &id));
    assert_done(hx_store_close(store));
    hx_snapshot_destroy(s);
}

/* Stacks that recurse, as labels from the outermost on, in order. */
static void expect(hx_store *store, const char *wanted)
{
    static const char *const sql =
        "WITH RECURSIVE p(id, path) AS (SELECT 1, '' UNION ALL SELECT c.ccs_id, p.path ||"
        " substr(n.label, 1, 1) FROM p JOIN hx_ccs c ON c.parent_id = p.id"
        " JOIN hx_centre n ON n.centre = c.centre) SELECT coalesce(group_concat(path, ' '), '')"
        " FROM (SELECT path FROM p JOIN hx_ccs c ON c.ccs_id = p.id WHERE c.recursive"
        " ORDER BY path)";
    hx_rows *rows;
    bool more;
    assert_done(hx_query_sql(store, sql, &rows));
    assert_done(hx_rows_next(rows, &more));
    assert_true(more);
    assert_string_equal(hx_rows_value(rows, 0).text, wanted);
    hx_rows_end(rows);
}

static void expect_in(const char *path, const char *wanted)
{
    hx_store *store;
    assert_done(hx_store_open(path, &store));
    expect(store, wanted);
    assert_done(hx_store_close(store));
}

static void make_older(const char *path)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    char *message = NULL;
    if (sqlite3_exec(db,
                     "DROP VIEW snapshots; DROP VIEW roots; DROP VIEW types;"
                     "ALTER TABLE hx_snapshot DROP COLUMN typed_bytes;"
                     "ALTER TABLE hx_snapshot DROP COLUMN prepare_us;"
                     "ALTER TABLE hx_snapshot DROP COLUMN held_us;"
                     "ALTER TABLE hx_root DROP COLUMN layout;"
                     "ALTER TABLE hx_root DROP COLUMN layout_at;"
                     "ALTER TABLE hx_type DROP COLUMN source;"
                     "ALTER TABLE hx_type DROP COLUMN layout;"
                     "DROP TABLE hx_layout; DROP TABLE hx_field;"
                     "DROP VIEW allocators; DROP TABLE hx_allocator;"
                     "CREATE VIEW snapshots AS SELECT 1; CREATE VIEW roots AS SELECT 1;"
                     "CREATE VIEW types AS SELECT 1;"
                     "ALTER TABLE hx_ccs DROP COLUMN recursive;"
                     "DROP VIEW snapshots; DROP VIEW censuses;"
                     "ALTER TABLE hx_snapshot DROP COLUMN started_at_ns;"
                     "ALTER TABLE hx_snapshot DROP COLUMN stray_edges;"
                     "ALTER TABLE hx_snapshot DROP COLUMN doubt_bytes;"
                     "ALTER TABLE hx_census DROP COLUMN holders;"
                     "ALTER TABLE hx_census DROP COLUMN threads_as;"
                     "ALTER TABLE hx_census DROP COLUMN rules;"
                     "CREATE VIEW snapshots AS SELECT 1; CREATE VIEW censuses AS SELECT 1;"
                     "DROP VIEW tree; DROP VIEW holder_tree; DROP VIEW holders; DROP VIEW shapes; "
                     "DROP VIEW retainer_entries;"
                     "DROP TABLE hx_entry; DROP TABLE hx_holding; DROP TABLE hx_contest;"
                     "DROP TABLE hx_shape; DROP TABLE hx_tree;"
                     "DROP VIEW roots; DROP VIEW types; DROP VIEW ccs;"
                     "DROP VIEW retainer_members;"
                     "DROP TABLE hx_bare; DROP TABLE hx_loaded; DROP TABLE hx_stopped_frame;"
                     "DROP TABLE hx_tls_block; ALTER TABLE hx_root DROP COLUMN near;"
                     "ALTER TABLE hx_root DROP COLUMN symbol;"
                     "ALTER TABLE hx_retainer DROP COLUMN symbol;"
                     "ALTER TABLE hx_type DROP COLUMN symbol;"
                     "ALTER TABLE hx_centre DROP COLUMN symbol;"
                     "CREATE VIEW roots AS SELECT 1; CREATE VIEW types AS SELECT 1;"
                     "CREATE VIEW ccs AS SELECT 1;"
                     "CREATE VIEW retainer_members AS SELECT 1;"
                     "DROP VIEW biography;"
                     "DROP TABLE hx_biography; DROP TABLE hx_module;"
                     "UPDATE hx_column SET data = (SELECT p.data FROM hx_pack AS p"
                     " WHERE p.pack = hx_column.data) WHERE typeof(data) = 'integer';"
                     "DROP TABLE hx_pack; DROP TABLE hx_alike;"
                     "PRAGMA user_version = 4",
                     NULL, NULL, &message) != SQLITE_OK)
        fail_msg("%s", message);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void test_recursion(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("recursion");
    char *directory = model_directory(), *path = model_path(directory, "store");
    add(&random, path, (const char *const[]){"fm", "gFfm", "gfFfm", NULL});
    expect_in(path, "mf"); /* f calls itself by way of its other part */
    assert_int_equal(unlink(path), 0);
    add(&random, path, (const char *const[]){"Fm", "gFfm", NULL});
    expect_in(path, "");
    add(&random, path, (const char *const[]){"ffm", NULL}); /* seen later */
    expect_in(path, "mf");
    add(&random, path, (const char *const[]){"gfgm", "fm", NULL});
    expect_in(path, "mf mg");
    make_older(path);
    expect_in(path, "mf mg");
    add(&random, path, (const char *const[]){"gm", NULL});
    expect_in(path, "mf mg");

    hx_store *store;
    struct hx_attribution how = HX_ATTRIBUTION_DEFAULT;
    how.recursion = HX_RECURSION_WHOLE;
    assert_done(hx_store_open(path, &store));
    assert_done(hx_store_attribute(store, 0, &how, NULL, NULL));
    expect(store, "mf mgfg"); /* repeated ones are rows of their own */
    const char *pattern = "!g";
    how = (struct hx_attribution)HX_ATTRIBUTION_DEFAULT;
    how.pattern = &pattern;
    how.n_patterns = 1;
    assert_done(hx_store_attribute(store, 0, &how, NULL, NULL));
    expect(store, "mf");
    assert_done(hx_store_close(store));
    free(path);
    model_remove(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_recursion)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
