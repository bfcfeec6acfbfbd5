/* test_revise.c - analysing a stored snapshot anew, in place and over a file that stays; stores of
 * schema 1; what ends early. */
#include "analysis_check.h"

#include "store/schema/schema.h"
#include "store/sqlite.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

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

/* --- anew -------------------------------------------------------------------------- */

/* A store in which `s` is the second of three snapshots, or all of them, so that they share rows.
 */
static void make_store(struct unit_random random, const char *path, struct hx_snapshot *s,
                       const struct hx_analysis *analysis)
{
    hx_store *store;
    assert_done(hx_store_append(path, &store));
    bool alike = unit_below(&random, 2);
    for (int i = 0; i < 3; i++) {
        struct hx_snapshot *other = model_to_analyse(&random, 20);
        struct hx_analysis its = some_analysis(&random);
        int64_t id;
        assert_done(i == 1 || alike ? hx_store_add(store, s, analysis, NULL, &id)
                                    : hx_store_add(store, other, &its, NULL, &id));
        hx_snapshot_destroy(other);
    }
    assert_done(hx_store_close(store));
}

/* Is that who retains in snapshot 2? */
static void assert_scheme(hx_store *store, const struct hx_analysis *want)
{
    const struct hx_scheme *scheme;
    char *patterns, lines[64] = "";
    assert_done(hx_store_scheme(store, 2, &scheme, &patterns));
    assert_ptr_equal(scheme, want ? want->scheme : NULL);
    size_t n = want ? want->options.n_patterns : 0;
    for (size_t i = 0; i < n; i++) {
        strcat(lines, i ? "\n" : "");
        strcat(lines, want->options.pattern[i]);
    }
    assert_string_equal(patterns ? patterns : "", lines);
    assert_int_equal(patterns != NULL, n > 0);
    free(patterns);
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
        before.parts = unit_below(&random, 2) ? HX_ANALYSE_EVER : HX_ANALYSE_LATER;
        struct unit_random others = random;
        const struct hx_analysis *first_asked = unit_below(&random, 3) ? &before : NULL;
        make_store(others, a, s, first_asked);
        hx_store *over, *in_place, *fresh;
        size_t n, m;
        char *was = bytes_of(a, &n), *is;
        assert_done(hx_store_open(a, &over));
        assert_scheme(over, first_asked);
        assert_done(hx_store_load(over, 2, NULL, &loaded));
        model_name_roots(&random, loaded);
        assert_done(hx_store_revise(over, 2, loaded, &before, HX_ANALYSE_RETAINED, NULL));
        assert_done(hx_store_revise(over, 2, loaded, &after, HX_ANALYSE_EVER, NULL));
        make_store(others, b, loaded, &after);
        assert_done(hx_store_open(b, &fresh));
        assert_same_told(over, 2, fresh, 2);
        check_all(over, 2, loaded, &after);
        assert_scheme(over, &after);
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
                                    HX_ANALYSE_EVER & ~HX_ANALYSE_RETAINED, NULL));
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
    must_run(db, MODEL_UNPACK);
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
    model_unjudge(s);
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
    assert_done(hx_store_revise(store, 1, loaded, &analysis, HX_ANALYSE_EVER, NULL));
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

/* Several programs that append to a store of schema 1 at once: one brings it up to date, and what
 * each of them has added is there. */
static void schema_1_by_several(void **state)
{
    (void)state;
    enum { PROGRAMS = 4 };
    struct unit_random random = unit_random_begin("schema_1_by_several");
    char *directory = model_directory();
    char *old = model_path(directory, "old"), *new = model_path(directory, "new");
    struct hx_snapshot *s = model_to_analyse(&random, 40);
    hx_store *store;
    int64_t id;
    model_unjudge(s);
    assert_done(hx_store_append(new, &store));
    assert_done(hx_store_add(store, s, NULL, NULL, &id));
    assert_done(hx_store_close(store));
    make_schema_1(old, new);
    sqlite3 *db;
    assert_int_equal(sqlite3_open(old, &db), SQLITE_OK);
    /* something to copy, so that they meet */
    must_run(db, "INSERT INTO hx_column VALUES(1000000, zeroblob(20000000))");
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    pid_t program[PROGRAMS];
    fflush(NULL);
    for (size_t i = 0; i < PROGRAMS; i++) {
        program[i] = fork();
        assert_true(program[i] >= 0);
        if (program[i] == 0) {
            bool failed = hx_store_append(old, &store) || hx_store_add(store, s, NULL, NULL, &id) ||
                          hx_store_close(store);
            hx_snapshot_destroy(s);
            free(old), free(new), free(directory);
            _exit(failed);
        }
    }
    for (size_t i = 0; i < PROGRAMS; i++) {
        int status;
        assert_int_equal(waitpid(program[i], &status, 0), program[i]);
        assert_int_equal(status, 0);
    }
    assert_done(hx_store_open(old, &store));
    assert_int_equal(ask_int(store, "SELECT count(*) FROM snapshots"), 1 + PROGRAMS);
    assert_done(hx_store_close(store));
    hx_snapshot_destroy(s);
    free(old), free(new);
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
            err = hx_store_revise(store, id, loaded, &after, HX_ANALYSE_EVER, NULL);
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
    atomic_size_t calls; /* by any thread */
    size_t at;
};

static void count_calls(void *context, const char *stage, uint64_t done, uint64_t total)
{
    (void)stage, (void)done, (void)total;
    struct ending *ending = context;
    if (atomic_fetch_add(&ending->calls, 1) == ending->at)
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
            struct hx_progress progress = {
                .report = count_calls, .context = &ending, .cancel = &ending.cancel};
            bool revises = over || at % 2;
            hx_error *err =
                revises ? hx_store_revise(store[over], 1, s, &after, HX_ANALYSE_EVER, &progress)
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

static void outgrow(const char *path)
{
    struct hx_snapshot *s = many_sets(!unit_quick() ? 60000 : 30000);
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
    assert_refused(hx_store_revise(store, 1, s, &analysis, HX_ANALYSE_EVER, NULL), HX_E_OS,
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(revised),
        cmocka_unit_test(schema_1),
        cmocka_unit_test(schema_1_by_several),
        cmocka_unit_test(damaged),
        cmocka_unit_test(cancelled),
        cmocka_unit_test(no_room),
    };
    return unit_run_some(tests);
}
