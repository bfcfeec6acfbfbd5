/* test_store_bad.c - stores that are damaged, foreign, newer, not writable, on a full disk,
 * and writers that are killed. Never a crash, never a changed file, one clear line. */
#include "store_model.h"

#include "store/cost/attribution.h"
#include "store/objects/blocks.h"
#include "store/objects/classes.h"
#include "store/objects/blocks.h"
#include "store/objects/classes.h"
#include "store/objects/packed_column.h"
#include "store/schema/schema.h"
#include "store/schema/row.h"
#include "traverse/reach.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* Returns how many rows were changed. */
static int sqlite_do(const char *path, const char *sql)
{
    sqlite3 *db;
    char *message = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK)
        fail_msg("%s: %s", sql, message);
    const int changes = sqlite3_total_changes(db);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    return changes;
}

static char *read_file(const char *path, size_t *ret_size)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    *ret_size = (size_t)ftell(file);
    rewind(file);
    char *bytes = malloc(*ret_size + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *ret_size, file), *ret_size);
    fclose(file);
    return bytes;
}

static void write_file(const char *path, const char *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
}

/* A store with all that a snapshot can have: types, named roots, resident pages, an analysis. */
static void make_full_store(struct unit_random *random, const char *path, hx_obj n, int snapshots)
{
    struct hx_analysis analysis = {.scheme = hx_scheme_find("type"), .max_set = 4, .threads = 1};
    hx_store *store;
    int64_t id;
    assert_done(hx_store_append(path, &store));
    for (int i = 0; i < snapshots; i++) {
        struct hx_snapshot *s = model_snapshot(random, n);
        struct hx_graph *g = &s->graph;
        assert_done(hx_reach(s, s->interior, 1, NULL));
        assert_done(hx_big_reserve(&g->type_mem, (size_t)n * sizeof *g->type));
        g->type = g->type_mem.base;
        for (uint32_t t = 0; t < 5; t++) {
            struct hx_type type = {.confidence = HX_CONFIDENCE_CERTAIN};
            assert_true(asprintf(&type.name, "class %u", (unsigned)t) > 0);
            assert_true(hx_vec_push(&s->types, type));
        }
        for (hx_obj o = 0; o < n; o++)
            g->type[o] = unit_below(random, 3) ? (uint32_t)unit_below(random, 5) : HX_NO_TYPE;
        for (uint32_t r = 0; r < 3 && r < s->roots.n; r++) {
            struct hx_named named = {NULL, strdup("x"), r};
            assert_true(asprintf(&named.name, "name %u", (unsigned)r) > 0);
            assert_true(hx_vec_push(&s->named, named));
        }
        s->has_resident = true;
        for (hx_obj o = 0; o < n; o += 100) {
            uint64_t start = g->addr[o] / 4096 * 4096;
            if (s->resident.n && s->resident.v[s->resident.n - 1].end >= start)
                continue;
            assert_true(hx_vec_push(&s->resident, ((struct hx_range){start, start + 8192})));
        }
        assert_done(hx_store_add(store, s, &analysis, NULL, &id));
        hx_snapshot_destroy(s);
    }
    assert_done(hx_store_close(store));
}

static void make_store(struct unit_random *random, const char *path, hx_obj n, int snapshots)
{
    hx_store *store;
    int64_t id;
    assert_done(hx_store_append(path, &store));
    for (int i = 0; i < snapshots; i++) {
        struct hx_snapshot *s = model_snapshot(random, n);
        assert_done(hx_store_add(store, s, NULL, NULL, &id));
        hx_snapshot_destroy(s);
    }
    assert_done(hx_store_close(store));
}

/* Reads everything there is; errors are fine. Returns whether there was one. */
static bool read_all(const char *path)
{
    static const char *const queries[] = {
        "SELECT * FROM objects",
        "SELECT * FROM edges",
        "SELECT * FROM root_edges",
        "SELECT * FROM snapshots",
        "SELECT * FROM roots",
        "SELECT * FROM losses",
        "SELECT * FROM objects WHERE address BETWEEN 100000 AND 9e13 AND snapshot = 1",
        "SELECT * FROM edges WHERE target = (SELECT max(address) FROM objects)",
        "SELECT * FROM objects WHERE type = 'class 1' AND bin = 'name 0+name 1'",
        "SELECT * FROM objects WHERE set_id = 2 AND state = 'reachable'",
        "SELECT * FROM objects WHERE snapshot = 1 ORDER BY sure_retained_bytes DESC LIMIT 9",
        "SELECT * FROM censuses",
        "SELECT * FROM retainers",
        "SELECT * FROM retainer_members",
        "SELECT * FROM bins",
        "SELECT * FROM types",
        "SELECT * FROM pages",
        "SELECT * FROM dominators",
    };
    hx_store *store;
    hx_error *err = hx_store_open(path, &store);
    hx_error_free(err);
    if (err)
        return true;
    bool failed = false;
    for (int64_t id = 1; id < 3; id++) {
        struct hx_snapshot *s = NULL;
        err = hx_store_load(store, id, NULL, &s);
        failed |= err && err->kind != HX_E_ABSENT;
        hx_error_free(err);
        hx_snapshot_destroy(err ? NULL : s);
    }
    for (size_t i = 0; i < sizeof queries / sizeof *queries; i++) {
        hx_rows *rows;
        bool more = true;
        err = hx_query_sql(store, queries[i], &rows);
        if (!err) {
            while (!err && more)
                err = hx_rows_next(rows, &more);
            hx_rows_end(rows);
        }
        failed |= err != NULL;
        hx_error_free(err);
    }
    hx_error_free(hx_store_close(store));
    return failed;
}

/* --- damage ------------------------------------------------------------------------ */

static void truncated(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("truncated");
    char *directory = model_directory(), *path = model_path(directory, "a.hpx");
    make_store(&random, path, 3000, 2);
    size_t size;
    char *bytes = read_file(path, &size);
    for (size_t round = 0; round < unit_rounds(100); round++) {
        size_t cut = round < 20 ? round * 10 : unit_below(&random, size);
        hx_store *store;
        write_file(path, bytes, cut);
        const char *word = cut == 0 ? "empty" : cut < 16 ? "not an SQLite file" : "truncated";
        assert_refused(hx_store_open(path, &store), HX_E_CORRUPT, word);
        assert_refused(hx_store_append(path, &store), HX_E_CORRUPT, word);
        size_t after;
        char *kept = read_file(path, &after);
        assert_int_equal(after, cut);
        assert_memory_equal(kept, bytes, cut);
        free(kept);
    }
    free(bytes);
    free(path);
    model_remove(directory);
}

static void flipped_anywhere(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("flipped_anywhere");
    char *directory = model_directory(), *path = model_path(directory, "a.hpx");
    make_full_store(&random, path, 2000, 2);
    size_t size;
    char *bytes = read_file(path, &size);
    for (size_t round = 0; round < unit_rounds(150); round++) {
        size_t flips = 1 + unit_below(&random, 20);
        char *bad = malloc(size);
        assert_non_null(bad);
        memcpy(bad, bytes, size);
        for (size_t i = 0; i < flips; i++)
            bad[unit_below(&random, round & 1 ? size : 8192)] ^=
                (char)(1 << unit_below(&random, 8));
        write_file(path, bad, size);
        free(bad);
        read_all(path);
        unlink(path);
    }
    free(bytes);
    free(path);
    model_remove(directory);
}

/* Bits in blobs: the checksum finds each. */
static void flipped_blobs(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("flipped_blobs");
    char *directory = model_directory(), *path = model_path(directory, "a.hpx");
    make_full_store(&random, path, 2000, 1);
    size_t size;
    char *bytes = read_file(path, &size);
    for (size_t round = 0; round < unit_rounds(60); round++) {
        sqlite3 *db;
        sqlite3_stmt *st;
        sqlite3_blob *blob;
        write_file(path, bytes, size);
        assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
        sqlite3_prepare_v2(db,
                           "SELECT * FROM (SELECT id, 0 FROM hx_column WHERE typeof(data) = 'blob'"
                           " UNION ALL SELECT pack, 1 FROM hx_pack) ORDER BY random() LIMIT 1",
                           -1, &st, NULL);
        assert_int_equal(sqlite3_step(st), SQLITE_ROW);
        int64_t id = sqlite3_column_int64(st, 0);
        const char *table = sqlite3_column_int(st, 1) ? "hx_pack" : "hx_column";
        sqlite3_finalize(st);
        assert_int_equal(sqlite3_blob_open(db, "main", table, "data", id, 1, &blob), SQLITE_OK);
        int at = (int)unit_below(&random, (uint64_t)sqlite3_blob_bytes(blob));
        uint8_t byte;
        sqlite3_blob_read(blob, &byte, 1, at);
        byte ^= (uint8_t)(1 << unit_below(&random, 8));
        sqlite3_blob_write(blob, &byte, 1, at);
        sqlite3_blob_close(blob);
        sqlite3_close(db);
        assert_true(read_all(path));
    }
    free(bytes);
    free(path);
    model_remove(directory);
}

/* Whoever visits all snapshots visits those that are there, however far apart their numbers are. */
static void numbers_far_apart(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("numbers far apart");
    char *directory = model_directory(), *path = model_path(directory, "a.hpx");
    make_store(&random, path, 50, 3);
    sqlite_do(path, "UPDATE hx_snapshot SET snapshot = 9223372036854775807 WHERE snapshot = 3;"
                    "DELETE FROM hx_snapshot WHERE snapshot = 1");
    hx_store *store;
    int64_t id = 0;
    assert_done(hx_store_open(path, &store));
    assert_done(hx_store_next(store, id, &id));
    assert_int_equal(id, 2);
    assert_done(hx_store_next(store, id, &id));
    assert_int_equal(id, INT64_MAX);
    assert_done(hx_store_next(store, id, &id));
    assert_int_equal(id, 0);
    assert_done(hx_store_close(store));
    free(path);
    model_remove(directory);
}

/* No number is left for another snapshot, set or block: an error, and nothing is added. */
static void numbers_used_up(void **state)
{
    (void)state;
    static const char *const last[] = {
        "UPDATE hx_snapshot SET snapshot = 9223372036854775807 WHERE snapshot = 2",
        "UPDATE hx_set SET set_id = 9223372036854775807"
        " WHERE set_id = (SELECT max(set_id) FROM hx_set)",
        "UPDATE hx_block SET id = 9223372036854775807 WHERE id = 1",
    };
    struct unit_random random = unit_random_begin("numbers used up");
    char *directory = model_directory(), *path = model_path(directory, "a.hpx");
    for (size_t i = 0; i < sizeof last / sizeof *last; i++) {
        struct hx_analysis analysis = {.scheme = hx_scheme_find("root"), .max_set = 8};
        struct hx_snapshot *s = model_snapshot(&random, 50);
        hx_store *store;
        int64_t id = 0;
        for (size_t k = 0; k < s->roots.n; k++) { /* so that sets are needed that are new */
            free(s->roots.v[k].name);
            s->roots.v[k].name = strdup("nowhere else");
        }
        make_full_store(&random, path, 50, 2);
        sqlite_do(path, last[i]);
        assert_done(hx_reach(s, s->interior, 1, NULL));
        assert_done(hx_store_append(path, &store));
        hx_error *err = hx_store_add(store, s, &analysis, NULL, &id);
        /* nothing was used up in a store whose heaps no root reaches: it has no set */
        assert_true(err || (i == 1 && ask_int(store, "SELECT max(set_id) FROM hx_set") < 1000));
        hx_error_free(err);
        assert_int_equal(ask_int(store, "SELECT count(*) FROM snapshots"), err ? 2 : 3);
        assert_done(hx_store_close(store));
        hx_snapshot_destroy(s);
        unlink(path);
    }
    free(path);
    model_remove(directory);
}

/* Tables that lie, with SQL: nothing crashes, and what matters is an error. */
static void lies(void **state)
{
    (void)state;
    static const char *const errors[] = {
        "UPDATE hx_block SET n = n - 1 WHERE family = 1 AND first_row > 0",
        "UPDATE hx_block SET n = 9223372036854775807 WHERE family = 2",
        "UPDATE hx_block SET n = 0 WHERE family = 3",
        "UPDATE hx_block SET n = -5 WHERE family = 1",
        "UPDATE hx_block SET first_row = first_row + 1 WHERE family = 2",
        "UPDATE hx_block SET first_row = first_row * 1048576",
        "UPDATE hx_block SET first_key = first_key + 8 WHERE family = 1",
        "UPDATE hx_block SET first_key = -1 WHERE family = 1",
        "UPDATE hx_block SET last_key = last_key + 1 WHERE family = 2",
        "UPDATE hx_block SET last_key = last_key + 100000 WHERE family = 2",
        "UPDATE hx_block SET last_key = -1, first_key = -2 WHERE family = 2",
        "UPDATE hx_block SET first_key = 4000000000, last_key = 4000000001 WHERE family = 2",
        "UPDATE hx_block SET first_key = 4000000000, last_key = 4000000001 WHERE family = 3",
        "UPDATE hx_block SET id = 4611686018427387904 WHERE family = 1 AND first_row = 0",
        "UPDATE hx_block SET id = -7 WHERE family = 2 AND first_row = 0",
        "DELETE FROM hx_block WHERE family = 1",
        "DELETE FROM hx_block WHERE family = 1 AND first_row = 0",
        "DELETE FROM hx_block WHERE family = 2",
        "DELETE FROM hx_column WHERE id % 64 = 1",
        "DELETE FROM hx_root",
        "UPDATE hx_column SET data = NULL WHERE id % 64 = 2",
        "UPDATE hx_column SET data = 'text' WHERE id % 64 = 1",
        "UPDATE hx_column SET data = zeroblob(100) WHERE id % 64 = 0",
        "UPDATE hx_column SET data = zeroblob(100000000) WHERE id = (SELECT min(id) FROM "
        "hx_column)",
        "UPDATE hx_column SET data = (SELECT data FROM hx_column c WHERE c.id = hx_column.id + 1)"
        " WHERE id % 64 = 0",
        "UPDATE hx_snapshot SET interior = 77",
        "UPDATE hx_root SET kind = 99",
        "DROP TABLE hx_column",
        "DROP VIEW leaks",
    };
    static const char *const harmless[] = {
        "UPDATE hx_snapshot SET comm = NULL, exe = x'00ff', method = NULL, notes = x'fffe'",
        "UPDATE hx_snapshot SET pid = 'text', pause_us = 1.5, complete = 'no'",
        "UPDATE hx_root SET name = NULL, module = 17, address = 'x'",
        "UPDATE hx_loss SET count = 'a', bytes = x'01'",
        "UPDATE hx_block SET bytes = -1",
    };
    struct unit_random random = unit_random_begin("lies");
    char *directory = model_directory(), *path = model_path(directory, "a.hpx");
    do { /* some have no root edges */
        unlink(path);
        make_store(&random, path, 70000, 1);
    } while (!sqlite_do(path, "UPDATE hx_block SET n = n WHERE family = 3"));
    size_t size;
    char *bytes = read_file(path, &size);
    size_t step = unit_part(); /* others each time */
    for (size_t i = unit_below(&random, step); i < sizeof errors / sizeof *errors; i += step) {
        write_file(path, bytes, size);
        sqlite_do(path, errors[i]);
        if (!read_all(path))
            fail_msg("no error after %s", errors[i]);
    }
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++) {
        write_file(path, bytes, size);
        sqlite_do(path, harmless[i]);
        read_all(path);
    }
    free(bytes);
    free(path);
    model_remove(directory);
}

/* --- recordings that lie ------------------------------------------------------------- */

enum { RECORDED_PLACES = 12, RECORDED_STACKS = 30 };

/* Functions that call each other, a region, and stacks that enter others. */
static void add_recording(struct unit_random *random, struct hx_snapshot *s)
{
    struct hx_recording *recording;
    struct hx_rec_file file = {.path = strdup("/bin/a"), .name = strdup("a"), .build_id = NULL};
    assert_done(hx_recording_create(&recording));
    s->recording = recording;
    recording->method = "run";
    recording->from_start = true;
    assert_true(hx_vec_push(&recording->files, file));
    for (uint32_t i = 0; i < RECORDED_PLACES; i++) {
        struct hx_rec_place place = {.kind = i == 1 ? HX_REC_REGION : HX_REC_CODE,
                                     .stack = HX_NO_STACK,
                                     .vaddr = 0x1000 + i,
                                     .n_lines = 1,
                                     .lines = calloc(1, sizeof *place.lines)};
        assert_non_null(place.lines);
        assert_true(asprintf(&place.lines->function, "function %u", (unsigned)i) > 0);
        assert_true(hx_vec_push(&recording->places, place));
    }
    for (uint32_t i = 0; i < RECORDED_STACKS; i++) {
        struct hx_rec_stack stack = {.first = recording->stack_places.n, .n = 1 + i % 7};
        for (uint32_t k = 0; k < stack.n; k++) {
            uint32_t at = (uint32_t)unit_below(random, RECORDED_PLACES);
            if (i > 0 && unit_below(random, 10) == 0) {
                struct hx_rec_place entered = {.kind = HX_REC_DEFERRED,
                                               .file = UINT32_MAX,
                                               .stack = (uint32_t)unit_below(random, i)};
                at = (uint32_t)recording->places.n;
                assert_true(hx_vec_push(&recording->places, entered));
            }
            assert_true(hx_vec_push(&recording->stack_places, at));
        }
        assert_true(hx_vec_push(&recording->stacks, stack));
        struct hx_rec_costs costs = {.allocs = 2, .alloc_bytes = 64, .frees = 1, .freed_bytes = 32};
        costs.live = 1;
        costs.live_bytes = 32;
        costs.alloc_class[0] = 64;
        costs.freed_class[0] = 32;
        assert_true(hx_vec_push(&recording->costs, costs));
    }
    struct hx_rec_size size = {32, 60, 1920, 30, 960};
    assert_true(hx_vec_push(&recording->sizes, size));
    assert_done(hx_recording_check(recording));
}

static void make_recorded_store(struct unit_random *random, const char *path)
{
    struct hx_analysis analysis = {.scheme = hx_scheme_find("root"), .max_set = 4, .threads = 1};
    hx_store *store;
    int64_t id;
    assert_done(hx_store_append(path, &store));
    for (int i = 0; i < 2; i++) {
        struct hx_snapshot *s = model_snapshot(random, 60);
        assert_done(hx_reach(s, s->interior, 1, NULL));
        add_recording(random, s);
        assert_done(hx_store_add(store, s, &analysis, NULL, &id));
        hx_snapshot_destroy(s);
    }
    assert_done(hx_store_close(store));
}

/* All views of a recording, as it is stored and for other cost centres. Errors are fine. */
static void read_recorded(struct unit_random *random, const char *path)
{
    static const char *const views[] = {
        "ccs",     "costs",       "estimates", "sites",      "modules",      "stacks",
        "frames",  "threads",     "leaks",     "mprof_held", "mprof_leaks",  "mprof_bins",
        "objects", "mprof_graph", "snapshots", "pages",      "mprof_direct",
    };
    static const char *const some[] = {"function 1*", "!function 2", "region:*"};
    hx_store *store;
    hx_error *err = hx_store_open(path, &store);
    hx_error_free(err);
    if (err)
        return;
    for (size_t i = 0; i < 2 * sizeof views / sizeof *views; i++) {
        char sql[64];
        hx_rows *rows;
        bool more = true;
        if (i == sizeof views / sizeof *views) {
            struct hx_attribution how = HX_ATTRIBUTION_DEFAULT;
            how.pattern = some;
            how.n_patterns = unit_below(random, 4);
            how.recursion = unit_below(random, 2) ? HX_RECURSION_TRUNCATES : HX_RECURSION_WHOLE;
            how.chain_depth = (uint32_t)unit_below(random, 3);
            hx_error_free(
                hx_store_attribute(store, (int64_t)unit_below(random, 3), &how, NULL, NULL));
        }
        snprintf(sql, sizeof sql, "SELECT * FROM %s", views[i % (sizeof views / sizeof *views)]);
        err = hx_query_sql(store, sql, &rows);
        if (!err) {
            while (!err && more)
                err = hx_rows_next(rows, &more);
            hx_rows_end(rows);
        }
        hx_error_free(err);
    }
    hx_error_free(hx_store_close(store));
}

/* One more snapshot, onto what lies; an error adds nothing. */
static void append_recorded(struct unit_random *random, const char *path)
{
    struct hx_snapshot *s = model_snapshot(random, 20);
    hx_store *store;
    int64_t id;
    add_recording(random, s);
    hx_error *err = hx_store_append(path, &store);
    if (!err) {
        hx_error_free(hx_store_add(store, s, NULL, NULL, &id));
        hx_error_free(hx_store_close(store));
    }
    hx_error_free(err);
    hx_snapshot_destroy(s);
}

static const struct hx_column_info *any_column(struct unit_random *random,
                                               const struct hx_table_info *table)
{
    size_t n = 0;
    while (table->column[n].name)
        n++;
    return &table->column[unit_below(random, n)];
}

/* Changes a column of some rows: parents that are children, stacks that enter themselves, numbers
 * that nobody has, texts where numbers are. */
static void lie(struct unit_random *random, const char *path, const struct hx_table_info *table,
                const struct hx_column_info *column)
{
    sqlite3 *db;
    const char *key = table->column[0].name;
    const char *const values[] = {"NULL",
                                  "0",
                                  "1",
                                  "2",
                                  "-1",
                                  "9223372036854775807",
                                  "-9223372036854775807",
                                  "4294967295",
                                  "4294967296",
                                  "0.5",
                                  "'text'",
                                  "x'ff00'",
                                  "1e300",
                                  key};
    char sql[400], where[160];
    unsigned some = 1 + (unsigned)unit_below(random, 20);
    snprintf(where, sizeof where, "abs(%s * 7919 + %s * 104729 + %u) %% %u = 0", key,
             table->column[1].name, (unsigned)unit_below(random, 1000), some);
    if (unit_below(random, 6) == 0)
        snprintf(sql, sizeof sql, "DELETE FROM %s WHERE %s", table->name, where);
    else
        snprintf(sql, sizeof sql, "UPDATE OR IGNORE %s SET \"%s\" = %s WHERE %s", table->name,
                 column->name, values[unit_below(random, sizeof values / sizeof *values)], where);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    sqlite3_exec(db, sql, NULL, NULL, NULL);
    sqlite3_close(db);
}

/* Cells of any tables are changed at random. */
static void recorded_lies(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("recorded_lies");
    char *directory = model_directory(), *path = model_path(directory, "a.hpx");
    make_recorded_store(&random, path);
    size_t size;
    char *bytes = read_file(path, &size);
    for (size_t round = 0; round < unit_rounds(120); round++) {
        write_file(path, bytes, size);
        for (uint64_t changes = 1 + unit_below(&random, 4); changes > 0; changes--) {
            const struct hx_table_info *table = &hx_tables[unit_below(&random, HX_TABLES)];
            lie(&random, path, table, any_column(&random, table));
        }
        read_recorded(&random, path);
        if (round % 4 == 0)
            append_recorded(&random, path);
        unlink(path);
    }
    free(bytes);
    free(path);
    model_remove(directory);
}

/* Each column of each table by itself. */
static void each_column_lies(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("each_column_lies");
    char *directory = model_directory(), *path = model_path(directory, "a.hpx");
    make_recorded_store(&random, path);
    size_t step = 5 * unit_part(), next = unit_below(&random, step); /* others each time */
    size_t size, columns = 0;
    char *bytes = read_file(path, &size);
    for (size_t t = 0; t < HX_TABLES; t++)
        for (const struct hx_column_info *c = hx_tables[t].column; c->name; c++, columns++) {
            if (columns != next)
                continue;
            next += step;
            write_file(path, bytes, size);
            lie(&random, path, &hx_tables[t], c);
            read_recorded(&random, path);
            read_all(path);
            unlink(path);
        }
    assert_true(columns > 200);
    free(bytes);
    free(path);
    model_remove(directory);
}

/* Where rows of random classes lie: a permutation that puts each class in one piece, in order. */
static const uint16_t *random_places(struct unit_random *random, size_t n, uint16_t *place)
{
    uint16_t *class = malloc((n + 1) * sizeof *class), *row = malloc((n + 1) * sizeof *row);
    uint8_t *seen = calloc(n + 1, 1);
    uint64_t classes = 1 + unit_below(random, HX_EDGE_CLASSES);
    assert_true(class && row && seen);
    for (size_t i = 0; i < n; i++)
        class[i] = (uint16_t)unit_below(random, classes);
    assert_done(hx_classes_place(class, n, place));
    for (size_t i = 0; i < n; i++) {
        assert_true(place[i] < n && !seen[place[i]]++);
        row[place[i]] = (uint16_t)i;
    }
    for (size_t k = 1; k < n; k++)
        assert_true(class[row[k - 1]] < class[row[k]] ||
                    (class[row[k - 1]] == class[row[k]] && row[k - 1] < row[k]));
    free(class);
    free(row);
    free(seen);
    return place;
}

static void classes(void **state)
{
    (void)state;
    static const uint64_t edges[] = {0, 1, 2, 3, 4, UINT64_MAX};
    struct unit_random random = unit_random_begin("classes");
    uint16_t before = 0;
    for (size_t i = 0; i < 2000; i++) {
        uint64_t size = unit_random(&random) >> unit_below(&random, 64);
        for (size_t k = 0; k < 6; k++) {
            assert_true(hx_class_of(size, edges[k], edges[5 - k]) < HX_CLASSES);
            assert_true(hx_edge_class_of(hx_class_of(size, 9, 9), edges[k]) < HX_EDGE_CLASSES);
        }
    }
    for (uint64_t size = 0; size < 3000; size += 8) { /* larger ones come later */
        assert_true(hx_class_of(size, 0, 0) >= before);
        before = hx_class_of(size, 0, 0);
    }
    assert_int_equal(hx_class_of(UINT64_MAX, 9, 9), HX_CLASSES - 1);
    assert_int_not_equal(hx_class_of(1016, 0, 0), hx_class_of(1024, 0, 0));
}

/* Some rows out of planes are those of all of them. */
static void compare_planes(struct unit_random *random, const struct hx_planes *planes,
                           const uint64_t *all, size_t n)
{
    size_t from = unit_below(random, n), part = unit_below(random, n - from + 1), bytes = planes->n;
    unsigned shift = bytes < 2 ? 0 : bytes == 2 ? 1 : bytes < 5 ? 2 : 3;
    uint64_t *some = malloc(n * sizeof *some);
    assert_non_null(some);
    for (size_t k = 0; k < 20; k++) {
        size_t i = unit_below(random, n);
        assert_true(hx_planes_at(planes, i) == all[i]);
    }
    hx_planes_expand(planes, from, part, some);
    assert_memory_equal(some, all + from, part * sizeof *some);
    hx_planes_narrow(planes, n, shift, some);
    struct hx_decoded column = {planes->base, shift, (uint32_t)n, some};
    for (size_t i = 0; i < n; i++)
        assert_true(hx_decoded_at(&column, i) == all[i]);
    free(some);
}

/* Columns that were made to mislead have a right checksum: the decoder alone must hold. */
static void columns(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("columns");
    HX_CODEC hx_codec *codec = NULL;
    assert_done(hx_codec_create(&codec));
    uint64_t *in = malloc(HX_BLOCK_ROWS * 8), *out = malloc(HX_BLOCK_ROWS * 8);
    uint16_t *places = malloc(HX_BLOCK_ROWS * sizeof *places);
    uint8_t *blob = malloc(hx_column_bound(HX_BLOCK_ROWS));
    assert_true(in && out && blob && places);
    for (size_t round = 0; round < unit_rounds(200); round++) {
        size_t n = unit_below(&random, 4) ? unit_below(&random, 300) : HX_BLOCK_ROWS, bytes;
        unsigned shift = (unsigned)unit_below(&random, 64);
        for (size_t i = 0; i < n; i++)
            in[i] = unit_random(&random) >> (unit_below(&random, 50) ? shift : shift / 2);
        const uint16_t *place = unit_below(&random, 2) ? random_places(&random, n, places) : NULL;
        assert_done(hx_column_encode(codec, in, place, n, blob, &bytes));
        assert_in_range(bytes, 1, hx_column_bound(n));
        assert_done(hx_column_decode(codec, blob, bytes, places, out, n));
        assert_memory_equal(in, out, n * 8);
        struct hx_planes planes;
        assert_done(hx_column_planes(codec, blob, bytes, places, n, &planes));
        if (n)
            compare_planes(&random, &planes, in, n);
        assert_refused(hx_column_decode(codec, blob, bytes, places, out, n + 1), HX_E_CORRUPT,
                       "damaged");
        assert_refused(hx_column_decode(codec, blob, unit_below(&random, bytes), places, out, n),
                       HX_E_CORRUPT, "damaged");
        if (hx_column_is_placed(blob, bytes))
            assert_refused(hx_column_decode(codec, blob, bytes, NULL, out, n), HX_E_CORRUPT,
                           "damaged");
    }
    free(places);
    free(in);
    free(out);
    free(blob);
}

/* Where files and frames were, for names that come later: refused where it makes no sense. */
static void stop_lies(void **state)
{
    (void)state;
    static const char *const lies[] = {
        "UPDATE hx_loaded SET number = 7 WHERE number = 1",
        "UPDATE hx_loaded SET path = NULL",
        "UPDATE hx_stopped_frame SET file = 2",
        "UPDATE hx_stopped_frame SET file = -1",
        "UPDATE hx_stopped_frame SET cfa = sp",
        "UPDATE hx_tls_block SET file = 2",
        "UPDATE hx_tls_block SET start = -8, bytes = 64",
    };
    struct unit_random random = unit_random_begin("stop_lies");
    char *directory = model_directory(), *path = model_path(directory, "a.hpx");
    make_store(&random, path, 100, 1);
    sqlite_do(path,
              "INSERT INTO hx_loaded VALUES(1, 0, '/a', 'ab01', 4096), (1, 1, '/b', NULL, -4096);"
              "INSERT INTO hx_stopped_frame VALUES(1, 9, 0, 1, 5, 100, 200, NULL, 0, 1, 184, 0,"
              " 0, 0); INSERT INTO hx_tls_block VALUES(1, 1000, 64, 0, 9)");
    size_t size;
    char *bytes = read_file(path, &size);
    for (size_t i = 0; i <= sizeof lies / sizeof *lies; i++) {
        hx_store *store;
        struct hx_snapshot *s;
        write_file(path, bytes, size);
        if (i)
            sqlite_do(path, lies[i - 1]);
        assert_done(hx_store_open(path, &store));
        assert_done(hx_store_load(store, 1, NULL, &s));
        if (i) {
            assert_refused(hx_store_load_stop(store, 1, s), HX_E_CORRUPT, "damaged");
        } else {
            assert_done(hx_store_load_stop(store, 1, s));
            assert_int_equal(s->loaded.n, 2);
            assert_string_equal(s->loaded.v[0].build_id, "ab01");
            assert_true(s->loaded.v[1].bias == (uint64_t)-4096 && !s->loaded.v[1].build_id);
            assert_int_equal(s->frames.n, 1);
            assert_false(s->frames.v[0].fp_known);
            assert_int_equal(s->frames.v[0].kept[1], HX_KEPT_HELD);
            assert_int_equal(s->frames.v[0].kept[2], 184);
            assert_int_equal(s->tls_blocks.n, 1);
            assert_int_equal(s->tls_blocks.v[0].end, 1064);
        }
        hx_snapshot_destroy(s);
        hx_error_free(hx_store_close(store));
    }
    free(bytes);
    free(path);
    model_remove(directory);
}

/* Sources of edges that the objects' counts deny, and columns by class that classes are made of:
 * refused, where they do not lead round in a circle. */
static void placed(void **state)
{
    (void)state;
    static const char *const sources[] = {
        "UPDATE hx_block SET bytes = bytes + 1 WHERE family = 2 AND first_row = 0",
        "UPDATE hx_block SET bytes = -1 WHERE family = 2",
        "UPDATE hx_block SET first_key = first_key + 1 WHERE family = 2 AND first_row = 0",
        "UPDATE hx_block SET last_key = last_key + 100000 WHERE family = 2",
    };
    struct unit_random random = unit_random_begin("placed");
    char *directory = model_directory(), *path = model_path(directory, "a.hpx");
    HX_CODEC hx_codec *codec = NULL;
    assert_done(hx_codec_create(&codec));
    make_store(&random, path, 3000, 1);
    size_t size, blob_bytes;
    char *bytes = read_file(path, &size);
    assert_false(read_all(path));
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        write_file(path, bytes, size);
        sqlite_do(path, sources[i]);
        assert_true(read_all(path));
    }
    uint64_t value[3000];
    uint16_t place[3000];
    uint8_t *blob = malloc(hx_column_bound(3000));
    assert_non_null(blob);
    for (size_t i = 0; i < 3000; i++)
        value[i] = place[i] = (uint16_t)i;
    assert_done(hx_column_encode(codec, value, place, 3000, blob, &blob_bytes));
    for (int column = HX_COL_GAP; column <= HX_COL_OUT; column++) {
        sqlite3 *db;
        sqlite3_stmt *st;
        write_file(path, bytes, size);
        assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
        sqlite3_prepare_v2(db,
                           "UPDATE hx_column SET data = ?2 WHERE id % 64 = ?1 AND id / 64 IN"
                           " (SELECT id FROM hx_block WHERE family = 1)",
                           -1, &st, NULL);
        sqlite3_bind_int(st, 1, column);
        sqlite3_bind_blob64(st, 2, blob, blob_bytes, SQLITE_STATIC);
        assert_int_equal(sqlite3_step(st), SQLITE_DONE);
        assert_int_equal(sqlite3_changes(db), 1);
        sqlite3_finalize(st);
        assert_int_equal(sqlite3_close(db), SQLITE_OK);
        assert_true(read_all(path));
    }
    free(blob);
    free(bytes);
    free(path);
    model_remove(directory);
}

/* --- what is no store -------------------------------------------------------------- */

static void refused_both(const char *path, enum hx_error_kind kind, const char *word)
{
    hx_store *store;
    assert_refused(hx_store_open(path, &store), kind, word);
    assert_refused(hx_store_append(path, &store), kind, word);
}

static void foreign(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("foreign");
    char *directory = model_directory(), *path = model_path(directory, "x"), *link;
    hx_store *store;
    size_t size, after;

    assert_refused(hx_store_open(path, &store), HX_E_ABSENT, "no such file");
    refused_both("", HX_E_USAGE, "empty");
    refused_both(directory, HX_E_CORRUPT, "a directory");
    refused_both("/dev/null", HX_E_CORRUPT, "not a regular file");
    assert_int_equal(mkfifo(path, 0600), 0);
    refused_both(path, HX_E_CORRUPT, "not a regular file");
    unlink(path);
    assert_int_equal(symlink("/nonexistent/y", path), 0);
    refused_both(path, HX_E_FAIL, "symbolic link");
    unlink(path);
    write_file(path, "", 0);
    refused_both(path, HX_E_CORRUPT, "empty");
    write_file(path, "precious text of some other program, longer than a header\n", 58);
    refused_both(path, HX_E_CORRUPT, "not an SQLite file");
    char *kept = read_file(path, &size);
    assert_int_equal(size, 58);
    free(kept);
    unlink(path);

    sqlite_do(path, "CREATE TABLE t(a); INSERT INTO t VALUES(1)");
    char *bytes = read_file(path, &size);
    refused_both(path, HX_E_CORRUPT, "another program");
    kept = read_file(path, &after);
    assert_int_equal(size, after);
    assert_memory_equal(kept, bytes, size);
    free(kept);
    free(bytes);
    unlink(path);

    make_store(&random, path, 100, 1);
    link = model_path(directory, "link");
    assert_int_equal(symlink("x", link), 0);
    assert_done(hx_store_append(link, &store)); /* a link to a store is that store */
    assert_done(hx_store_close(store));
    sqlite_do(path, "PRAGMA user_version = 13");
    refused_both(path, HX_E_CORRUPT, "made by a newer heapx (schema 13");
    sqlite_do(path, "PRAGMA user_version = 0");
    refused_both(path, HX_E_CORRUPT, "damaged");
    char *missing = model_path(directory, "no/such/place");
    assert_refused(hx_store_append(missing, &store), HX_E_OS, "No such file");
    free(missing);
    free(link);
    free(path);
    model_remove(directory);
}

/* An opened store into which nothing was put leaves no file. */
static void nothing_stored(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("nothing_stored");
    char *directory = model_directory(), *path = model_path(directory, "a.hpx");
    hx_store *store;
    int64_t id;
    assert_done(hx_store_append(path, &store));
    assert_done(hx_store_close(store));
    assert_int_equal(rmdir(directory), 0);
    assert_int_equal(mkdir(directory, 0700), 0);
    make_store(&random, path, 100, 1);
    assert_done(hx_store_append(path, &store));
    assert_done(hx_store_close(store));
    assert_done(hx_store_open(path, &store));
    struct hx_snapshot *s = model_snapshot(&random, 5);
    assert_refused(hx_store_add(store, s, NULL, NULL, &id), HX_E_FAIL, "reading only");
    hx_snapshot_destroy(s);
    assert_done(hx_store_close(store));
    free(path);
    model_remove(directory);
}

/* --- places that cannot be written ------------------------------------------------- */

/* Copies a store with the log that a killed writer left: 2 snapshots, the last in the log. */
static void leave_log(struct unit_random *random, const char *directory, const char *path)
{
    char *made = model_path(directory, "made"), *log = NULL, *to = NULL;
    hx_store *store, *reader;
    hx_rows *rows;
    bool more;
    int64_t id;
    make_store(random, made, 500, 1);
    assert_done(hx_store_append(made, &store));
    assert_done(hx_store_open(made, &reader));
    assert_done(hx_query_sql(reader, "SELECT * FROM objects", &rows));
    assert_done(hx_rows_next(rows, &more)); /* whoever reads keeps the log from being emptied */
    struct hx_snapshot *s = model_snapshot(random, 50);
    assert_done(hx_store_add(store, s, NULL, NULL, &id));
    hx_snapshot_destroy(s);
    assert_true(asprintf(&log, "%s-wal", made) > 0 && asprintf(&to, "%s-wal", path) > 0);
    size_t size;
    char *bytes = read_file(made, &size);
    write_file(path, bytes, size);
    free(bytes);
    bytes = read_file(log, &size);
    assert_true(size > 0);
    write_file(to, bytes, size);
    free(bytes);
    hx_rows_end(rows);
    assert_done(hx_store_close(store));
    assert_done(hx_store_close(reader));
    unlink(made);
    free(made);
    free(log);
    free(to);
}

static size_t count_files(const char *directory)
{
    size_t n = 0;
    DIR *dir = opendir(directory);
    assert_non_null(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

/* Opens as a user without rights; the exit status says how many snapshots there are. */
static int snapshots_as_nobody(const char *path, const char *temporary)
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        hx_store *store;
        setenv("TMPDIR", temporary, 1);
        if (geteuid() == 0 && (setgid(65534) || setuid(65534)))
            _exit(99);
        hx_error *err = hx_store_open(path, &store);
        if (err) {
            char line[512];
            hx_error_line(err, line, sizeof line);
            fprintf(stderr, "%s\n", line);
            _exit(err->kind == HX_E_PERM ? 97 : 98);
        }
        int64_t n = ask_int(store, "SELECT count(*) FROM snapshots");
        struct hx_snapshot *s;
        if (hx_store_load(store, n, NULL, &s) || hx_store_close(store))
            _exit(96);
        hx_snapshot_destroy(s);
        _exit((int)n);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void read_only_directory(void **state)
{
    (void)state;
    if (getenv("HX_VALGRIND"))
        skip(); /* user 65534 cannot run it */
    struct unit_random random = unit_random_begin("read_only_directory");
    char *directory = model_directory(), *temporary = model_directory();
    char *path = model_path(directory, "a.hpx"), *log = model_path(directory, "a.hpx-wal");
    assert_int_equal(chmod(temporary, 01777), 0);
    make_store(&random, path, 500, 3);
    chmod(path, 0444);
    chmod(directory, 0555);
    assert_int_equal(snapshots_as_nobody(path, temporary), 3);
    chmod(directory, 0755);
    sqlite_do(path, "PRAGMA journal_mode = WAL"); /* one file, but in the mode that wants a log */
    chmod(directory, 0555);
    assert_int_equal(snapshots_as_nobody(path, temporary), 3);
    chmod(directory, 0755);
    unlink(path);
    leave_log(&random, directory, path);
    chmod(path, 0444);
    chmod(log, 0444);
    chmod(directory, 0555);
    size_t files = count_files(directory);
    assert_int_equal(snapshots_as_nobody(path, temporary), 2);
    assert_int_equal(count_files(directory), files);
    assert_int_equal(count_files(temporary), 2); /* the private copy is gone */
    chmod(path, 0);
    assert_int_equal(snapshots_as_nobody(path, temporary), 97);
    chmod(directory, 0755);
    free(path);
    free(log);
    model_remove(directory);
    model_remove(temporary);
}

static void left_log_is_recovered(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("left_log_is_recovered");
    char *directory = model_directory(), *path = model_path(directory, "a.hpx");
    hx_store *store;
    leave_log(&random, directory, path);
    assert_done(hx_store_open(path, &store));
    assert_int_equal(ask_int(store, "SELECT count(*) FROM snapshots"), 2);
    assert_int_equal(ask_int(store, "SELECT count(*) FROM objects"), 550);
    assert_done(hx_store_close(store));
    assert_int_equal(count_files(directory), 3);
    free(path);
    model_remove(directory);
}

/* --- no room ----------------------------------------------------------------------- */

/* In the child: files may not grow beyond `limit`. The first snapshot fits, the second not. */
static void outgrow(const char *path, rlim_t limit, uint64_t seed)
{
    struct unit_random random = {seed};
    struct rlimit rlimit = {limit, limit};
    hx_store *store;
    int64_t id;
    signal(SIGXFSZ, SIG_IGN);
    if (limit)
        setrlimit(RLIMIT_FSIZE, &rlimit);
    const char *todo = limit ? "raise ulimit -f" : "free space there";
    struct hx_snapshot *small = model_snapshot(&random, 300);
    while (small->graph.n_edges > 2000) { /* one with an object that points to everything */
        hx_snapshot_destroy(small);
        small = model_snapshot(&random, 300);
    }
    struct hx_snapshot *large = model_snapshot(&random, !unit_quick() ? 200000 : 150000);
    assert_done(hx_store_append(path, &store));
    assert_done(hx_store_add(store, small, NULL, NULL, &id));
    assert_refused(hx_store_add(store, large, NULL, NULL, &id), HX_E_OS, todo);
    assert_done(hx_store_add(store, small, NULL, NULL, &id)); /* the store is still good */
    assert_int_equal(id, 2);
    assert_int_equal(ask_int(store, "SELECT count(*) FROM objects"), 600);
    assert_done(hx_store_close(store));
    assert_done(hx_store_open(path, &store));
    assert_int_equal(ask_int(store, "SELECT count(*) FROM snapshots"), 2);
    assert_done(hx_store_close(store));
    assert_int_equal(unlink(path), 0);
    assert_done(hx_store_append(path, &store));
    assert_refused(hx_store_add(store, large, NULL, NULL, &id), HX_E_OS, todo);
    assert_done(hx_store_close(store));
    assert_false(model_exists(path, ""));
    hx_snapshot_destroy(small);
    hx_snapshot_destroy(large);
}

/* Does the work in a process of its own; false when it cannot be done here. */
static bool in_child(void (*work)(const char *path, rlim_t limit, uint64_t seed), const char *path,
                     rlim_t limit, uint64_t seed)
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setenv("CMOCKA_TEST_ABORT", "1", 1); /* a failure ends the child */
        work(path, limit, seed);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 77));
    return WEXITSTATUS(status) == 0;
}

static void file_size_limit(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("file_size_limit");
    char *directory = model_directory(), *path = model_path(directory, "a.hpx");
    /* an empty store has 250,000 bytes, both small snapshots at most 45,000 more, the large one
     * ten times that */
    assert_true(in_child(outgrow, path, !unit_quick() ? 550000 : 400000, unit_random(&random)));
    free(path);
    model_remove(directory);
}

/* In the child, on a small disk of its own that ends with it. */
static void fill_disk(const char *directory, rlim_t limit, uint64_t seed)
{
    const char *size = !unit_quick() ? "size=656k" : "size=528k";
    if (unshare(CLONE_NEWNS) || mount("none", "/", "none", MS_REC | MS_PRIVATE, "") ||
        mount("tmpfs", directory, "tmpfs", 0, size))
        _exit(77); /* only root can */
    char *path = model_path(directory, "a.hpx"), *filler = model_path(directory, "filler");
    outgrow(path, limit, seed);
    char *bytes = calloc(1, 1 << 20);
    FILE *file = fopen(filler, "wb");
    assert_true(bytes && file);
    fwrite(bytes, 1, 1 << 20, file);
    fclose(file);
    hx_store *store;
    assert_refused(hx_store_append(path, &store), HX_E_OS, "free space there"); /* no room at all */
    assert_false(model_exists(path, ""));
    free(bytes);
    free(path);
    free(filler);
}

static void full_disk(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("full_disk");
    char *directory = model_directory();
    bool done = in_child(fill_disk, directory, 0, unit_random(&random));
    model_remove(directory);
    if (!done)
        skip();
}

/* --- killed writers ---------------------------------------------------------------- */

/* Writes snapshots for ever; says the number of each that is finished. */
static void write_until_killed(const char *path, int out, uint64_t seed)
{
    struct unit_random random = {seed};
    hx_store *store;
    assert_done(hx_store_append(path, &store));
    struct hx_snapshot *s = model_snapshot(&random, 3000);
    for (int i = 0;; i++) {
        int64_t id;
        if (hx_store_add(store, s, NULL, NULL, &id))
            _exit(2);
        if (write(out, &id, sizeof id) != sizeof id)
            _exit(3);
        if (i % 8 == 7 && (hx_store_close(store) || hx_store_append(path, &store)))
            _exit(4);
    }
}

static void killed_writer(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("killed_writer");
    char *directory = model_directory(), *path = model_path(directory, "a.hpx");
    int64_t known = 0;
    for (size_t round = 0; round < unit_rounds(60); round++) {
        int channel[2];
        assert_int_equal(pipe(channel), 0);
        uint64_t seed = unit_random(&random);
        fflush(NULL);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            close(channel[0]);
            setenv("CMOCKA_TEST_ABORT", "1", 1);
            write_until_killed(path, channel[1], seed);
            _exit(5);
        }
        close(channel[1]);
        usleep((useconds_t)unit_below(&random, 40000));
        kill(child, SIGKILL);
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        if (!WIFSIGNALED(status))
            fail_msg("the writer ended itself: %d", WEXITSTATUS(status));
        for (int64_t id; read(channel[0], &id, sizeof id) == sizeof id;)
            known = id;
        close(channel[0]);

        hx_store *store;
        if (!known && !model_exists(path, ""))
            continue; /* killed before there was a file */
        assert_done(hx_store_open(path, &store));
        int64_t found = ask_int(store, "SELECT count(*) FROM snapshots");
        assert_in_range(found, known, known + 1);
        assert_int_equal(ask_int(store, "SELECT count(*) FROM objects"), 3000 * found);
        assert_int_equal(ask_int(store, "SELECT count(*) FROM hx_block WHERE snapshot NOT IN"
                                        " (SELECT snapshot FROM hx_snapshot)"),
                         0);
        if (found) {
            struct hx_snapshot *s;
            assert_done(hx_store_load(store, found, NULL, &s));
            hx_snapshot_destroy(s);
        }
        assert_done(hx_store_close(store));
        assert_int_equal(count_files(directory), 3); /* ., .. and the store */
        known = found;
        if (known > 60) {
            unlink(path);
            known = 0;
        }
    }
    free(path);
    model_remove(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(truncated),
        cmocka_unit_test(flipped_anywhere),
        cmocka_unit_test(flipped_blobs),
        cmocka_unit_test(numbers_far_apart),
        cmocka_unit_test(numbers_used_up),
        cmocka_unit_test(lies),
        cmocka_unit_test(recorded_lies),
        cmocka_unit_test(each_column_lies),
        cmocka_unit_test(columns),
        cmocka_unit_test(classes),
        cmocka_unit_test(stop_lies),
        cmocka_unit_test(placed),
        cmocka_unit_test(classes),
        cmocka_unit_test(foreign),
        cmocka_unit_test(nothing_stored),
        cmocka_unit_test(read_only_directory),
        cmocka_unit_test(left_log_is_recovered),
        cmocka_unit_test(file_size_limit),
        cmocka_unit_test(full_disk),
        cmocka_unit_test(killed_writer),
    };
    return unit_run_some(tests);
}
