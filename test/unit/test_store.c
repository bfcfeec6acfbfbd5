/* test_store.c - what goes into a store comes out of it: by hx_store_load(), by the views,
 * and by the object tables under every constraint. */
#include "store/db.h"
#include "store_model.h"

#include <pthread.h>
#include <sqlite3.h>

/* --- round trips ------------------------------------------------------------------- */

/* What only some snapshots have: types, named roots, resident pages. */
static void add_more(struct unit_random *random, struct hx_snapshot *s)
{
    struct hx_graph *g = &s->graph;
    char *name;
    for (size_t i = 0, n = unit_below(random, 20); i < n; i++) {
        assert_true(asprintf(&name, "T%zu<\xff, \"'>", i) > 0);
        struct hx_type type = {.name = name,
                               .confidence = (enum hx_confidence)unit_below(random, 3)};
        assert_true(hx_vec_push(&s->types, type));
    }
    if (g->n && unit_below(random, 4)) {
        assert_done(hx_big_reserve(&g->type_mem, (size_t)g->n * sizeof *g->type));
        g->type = g->type_mem.base;
        for (hx_obj i = 0; i < g->n; i++) {
            uint64_t type = unit_below(random, s->types.n + 2);
            g->type[i] = type < s->types.n ? (uint32_t)type : HX_NO_TYPE;
        }
    }
    for (size_t i = 0, n = s->roots.n ? unit_below(random, 70) : 0; i < n; i++) {
        assert_true(asprintf(&name, "%zu\nname", n - i) > 0);
        struct hx_named named = {name, unit_below(random, 2) ? model_text(random, "a!") : NULL,
                                 (uint32_t)unit_below(random, s->roots.n)};
        assert_true(hx_vec_push(&s->named, named));
    }
    uint64_t page = unit_below(random, (uint64_t)1 << 40),
             ranges = unit_below(random, 3) ? unit_below(random, 50) : unit_below(random, 70000);
    for (uint64_t i = 0; i < ranges; i++) {
        uint64_t pages = 1 + unit_below(random, 10);
        struct hx_range range = {page * 4096, (page + pages) * 4096};
        assert_true(hx_vec_push(&s->resident, range));
        page += pages + 1 + unit_below(random, unit_below(random, 50) ? 3 : 100000);
    }
    s->has_resident = ranges > 0;
}

static void assert_same_types(const struct hx_snapshot *a, const struct hx_snapshot *b)
{
    assert_int_equal(a->types.n, b->types.n);
    for (size_t i = 0; i < a->types.n; i++) {
        assert_string_equal(a->types.v[i].name, b->types.v[i].name);
        assert_int_equal(a->types.v[i].confidence, b->types.v[i].confidence);
    }
    assert_int_equal(a->graph.type != NULL, b->graph.type != NULL);
    if (a->graph.type)
        assert_memory_equal(a->graph.type, b->graph.type, a->graph.n * sizeof *a->graph.type);
}

static void assert_same_all(const struct hx_snapshot *a, const struct hx_snapshot *b)
{
    assert_same_snapshot(a, b);
    assert_same_types(a, b);
    assert_int_equal(a->named.n, b->named.n);
    for (size_t i = 0; i < a->named.n; i++) {
        assert_string_equal(a->named.v[i].name, b->named.v[i].name);
        assert_same_text(a->named.v[i].expr, b->named.v[i].expr);
        assert_int_equal(a->named.v[i].root, b->named.v[i].root);
    }
    assert_int_equal(a->has_resident, b->has_resident);
    assert_int_equal(a->resident.n, b->resident.n);
    if (a->resident.n)
        assert_memory_equal(a->resident.v, b->resident.v, a->resident.n * sizeof *a->resident.v);
}

/* Addresses, sizes, states and types, and nothing else. */
static void assert_same_objects(const struct hx_snapshot *a, const struct hx_snapshot *b)
{
    const struct hx_graph *g = &a->graph, *h = &b->graph;
    assert_int_equal(g->n, h->n);
    if (g->n) {
        assert_memory_equal(g->addr, h->addr, (size_t)g->n * 8);
        assert_memory_equal(g->size, h->size, (size_t)g->n * 8);
        assert_memory_equal(g->state, h->state, g->n);
    }
    assert_same_types(a, b);
    assert_true(!h->fwd && !h->n_edges && !b->roots.n && !b->root_edges.n);
    assert_done(hx_graph_check(h));
}

static void round_trip(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("round_trip");
    char *directory = model_directory();
    for (size_t round = 0; round < unit_rounds(20); round++) {
        char *path = model_path(directory, "a.hpx");
        hx_store *store;
        struct hx_snapshot *in[3], *out;
        int64_t id;
        assert_done(hx_store_append(path, &store));
        for (int i = 0; i < 3; i++) {
            hx_obj n = (hx_obj)unit_below(&random, round == 0 ? 200000 : round == 1 ? 1 : 3000);
            in[i] = model_snapshot(&random, n);
            add_more(&random, in[i]);
            if (i & 1)
                assert_done(hx_graph_reverse(&in[i]->graph, 1, NULL));
            assert_done(hx_store_add(store, in[i], NULL, NULL, &id));
            assert_int_equal(id, i + 1);
        }
        assert_done(hx_store_load(store, 2, NULL, &out)); /* from the store that wrote it */
        assert_same_all(in[1], out);
        hx_snapshot_destroy(out);
        assert_done(hx_store_close(store));
        assert_false(model_exists(path, "-wal") || model_exists(path, "-shm") ||
                     model_exists(path, "-journal"));
        struct stat st;
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode & 07777, 0600);

        assert_done(hx_store_open(path, &store));
        for (int i = 0; i < 3; i++) {
            assert_done(hx_store_load(store, i + 1, NULL, &out));
            assert_same_all(in[i], out);
            hx_snapshot_destroy(out);
            assert_done(hx_store_load_objects(store, i + 1, NULL, &out));
            assert_same_objects(in[i], out);
            hx_snapshot_destroy(out);
            hx_snapshot_destroy(in[i]);
        }
        assert_refused(hx_store_load(store, 4, NULL, &out), HX_E_ABSENT, "no snapshot 4");
        assert_done(hx_store_close(store));
        unlink(path);
        free(path);
    }
    model_remove(directory);
}

static void temporary(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("temporary");
    char *directory = model_directory();
    char *before = getenv("TMPDIR") ? strdup(getenv("TMPDIR")) : NULL;
    setenv("TMPDIR", directory, 1);
    hx_store *store;
    assert_done(hx_store_temporary(&store));
    for (int i = 1; i <= 3; i++) {
        struct hx_snapshot *in = model_snapshot(&random, 5000), *out;
        int64_t id;
        assert_done(hx_store_add(store, in, NULL, NULL, &id));
        assert_int_equal(id, i);
        assert_done(hx_store_load(store, id, NULL, &out));
        assert_same_snapshot(in, out);
        hx_snapshot_destroy(in);
        hx_snapshot_destroy(out);
        assert_int_equal(rmdir(directory), 0); /* nothing lies there, whatever happens now */
        assert_int_equal(mkdir(directory, 0700), 0);
    }
    assert_int_equal(ask_int(store, "SELECT count(*) FROM objects"), 15000);
    assert_done(hx_store_close(store));
    if (before)
        setenv("TMPDIR", before, 1);
    else
        unsetenv("TMPDIR");
    free(before);
    model_remove(directory);
}

static void append_again(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("append_again");
    char *directory = model_directory(), *path = model_path(directory, "a b%?#.hpx");
    hx_store *store;
    int64_t id;
    for (int i = 1; i <= 4; i++) {
        struct hx_snapshot *in = model_snapshot(&random, 100);
        assert_done(hx_store_append(path, &store));
        assert_done(hx_store_add(store, in, NULL, NULL, &id));
        assert_int_equal(id, i);
        assert_done(hx_store_close(store));
        hx_snapshot_destroy(in);
    }
    assert_done(hx_store_open(path, &store));
    assert_done(hx_store_resolve(store, "first", &id));
    assert_int_equal(id, 1);
    assert_done(hx_store_resolve(store, "last", &id));
    assert_int_equal(id, 4);
    assert_done(hx_store_resolve(store, "3", &id));
    assert_int_equal(id, 3);
    assert_refused(hx_store_resolve(store, "5", &id), HX_E_ABSENT, "no snapshot 5");
    assert_refused(hx_store_resolve(store, "0", &id), HX_E_ABSENT, "no snapshot 0");
    assert_refused(hx_store_resolve(store, "-1", &id), HX_E_USAGE, "-1");
    assert_refused(hx_store_resolve(store, "", &id), HX_E_USAGE, "number");
    assert_done(hx_store_close(store));
    free(path);
    model_remove(directory);
}

/* Columns are encoded by as many threads as there are, and some before the rest is known: the file
 * is the same, byte for byte. */
static void any_threads(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("threads");
    char *directory = model_directory();
    struct hx_snapshot *s = model_snapshot(&random, 270000);
    const atomic_bool stop = true;
    const struct hx_progress stopped = {.cancel = &stop};
    size_t n = 0;
    unsigned char *first = NULL;
    for (unsigned threads = 1; threads <= 8; threads += threads) {
        struct hx_analysis analysis = {
            .max_set = 1, .threads = threads, .parts = HX_ANALYSE_RETAINED};
        char *path = model_path(directory, "a.hpx");
        hx_store *store;
        int64_t id;
        assert_done(hx_store_append(path, &store));
        hx_early_columns_begin(s, threads, threads == 4 ? &stopped : NULL);
        assert_int_equal(s->early != NULL, threads > 1);
        if (threads > 2)
            hx_early_columns_end(s);
        assert_int_equal(s->early != NULL, threads == 2 || threads == 8);
        assert_done(hx_store_add(store, s, &analysis, NULL, &id));
        assert_null(s->early);
        assert_done(hx_store_close(store));
        FILE *file = fopen(path, "rb");
        assert_non_null(file);
        assert_int_equal(fseek(file, 0, SEEK_END), 0);
        size_t size = (size_t)ftell(file);
        unsigned char *bytes = malloc(size);
        rewind(file);
        assert_non_null(bytes);
        assert_int_equal(fread(bytes, 1, size, file), size);
        fclose(file);
        unlink(path);
        free(path);
        if (first) {
            assert_int_equal(size, n);
            assert_memory_equal(bytes, first, n);
            free(bytes);
        } else {
            first = bytes;
            n = size;
        }
    }
    free(first);
    hx_early_columns_begin(s, 2, NULL);
    hx_snapshot_destroy(s); /* nobody wants them any more */
    model_remove(directory);
}

static void cancelled(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("cancelled");
    struct hx_snapshot *in = model_snapshot(&random, 3000), *out;
    atomic_bool stop = true;
    struct hx_progress progress = {.cancel = &stop};
    hx_store *store;
    int64_t id;
    assert_done(hx_store_temporary(&store));
    assert_refused(hx_store_add(store, in, NULL, &progress, &id), HX_E_CANCEL, "interrupted");
    assert_int_equal(ask_int(store, "SELECT count(*) FROM snapshots"), 0);
    assert_int_equal(ask_int(store, "SELECT count(*) FROM hx_block"), 0);
    stop = false;
    assert_done(hx_store_add(store, in, NULL, &progress, &id));
    stop = true;
    assert_refused(hx_store_load(store, id, &progress, &out), HX_E_CANCEL, "interrupted");
    assert_done(hx_store_close(store));
    hx_snapshot_destroy(in);
}

struct pest {
    hx_store *store;
    atomic_bool stop;
};

static void *interrupt_often(void *context)
{
    struct pest *pest = context;
    for (; !atomic_load(&pest->stop); usleep(300))
        hx_store_interrupt(pest->store);
    return NULL;
}

/* Interrupts at any moment cancel what runs; the store stays good, and becomes one file. */
static void interrupted(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("interrupted");
    char *directory = model_directory(), *path = model_path(directory, "a.hpx");
    struct hx_snapshot *s = model_snapshot(&random, 20000);
    int64_t stored = 0, id;
    for (size_t round = 0; round < unit_rounds(20); round++) {
        struct pest pest = {0};
        pthread_t thread;
        assert_done(hx_store_append(path, &pest.store));
        assert_int_equal(pthread_create(&thread, NULL, interrupt_often, &pest), 0);
        for (int i = 0; i < 3; i++) {
            hx_error *err = hx_store_add(pest.store, s, NULL, NULL, &id);
            if (err)
                assert_int_equal(err->kind, HX_E_CANCEL);
            stored += !err;
            hx_error_free(err);
        }
        atomic_store(&pest.stop, true);
        pthread_join(thread, NULL);
        hx_store_interrupt(pest.store); /* and one that is still pending */
        assert_done(hx_store_close(pest.store));
        assert_false(model_exists(path, "-wal"));
    }
    hx_store *store;
    assert_done(hx_store_append(path, &store));
    assert_done(hx_store_add(store, s, NULL, NULL, &id));
    assert_int_equal(id, stored + 1);
    assert_int_equal(ask_int(store, "SELECT count(*) FROM objects"), 20000 * id);
    assert_done(hx_store_close(store));
    hx_snapshot_destroy(s);
    free(path);
    model_remove(directory);
}

struct rollbacks {
    sqlite3 *db;
    int interrupt; /* how many more to interrupt */
};

static int interrupt_rollback(unsigned kind, void *context, void *statement, void *sql)
{
    (void)kind;
    (void)statement;
    struct rollbacks *rollbacks = context;
    if (!strcmp(sql, "ROLLBACK") && rollbacks->interrupt-- > 0)
        sqlite3_interrupt(rollbacks->db);
    return 0;
}

/* A transaction ends, whatever an interrupt meets. */
static void rolled_back(void **state)
{
    (void)state;
    sqlite3 *db;
    assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
    for (int interrupts = 0; interrupts < 4; interrupts++) {
        struct rollbacks rollbacks = {db, interrupts};
        sqlite3_trace_v2(db, SQLITE_TRACE_STMT, interrupt_rollback, &rollbacks);
        assert_done(hx_db_exec(db, "memory", "BEGIN; CREATE TABLE t (a)"));
        assert_refused(hx_db_end(db, "memory", hx_error_new(HX_E_FAIL, "here", NULL, "it broke")),
                       HX_E_FAIL, "it broke");
        assert_true(sqlite3_get_autocommit(db));
        assert_true(rollbacks.interrupt < 0);
    }
    assert_done(hx_db_exec(db, "memory", "BEGIN; CREATE TABLE t (a)"));
    assert_done(hx_db_end(db, "memory", NULL));
    assert_done(hx_db_exec(db, "memory", "SELECT a FROM t"));
    sqlite3_close(db);
}

/* --- views ------------------------------------------------------------------------- */

struct sums {
    uint64_t bytes[HX_STATES], objects[HX_STATES];
};

static struct sums sums_of(const struct hx_graph *g)
{
    struct sums sums = {0};
    for (hx_obj i = 0; i < g->n; i++) {
        sums.bytes[g->state[i]] += g->size[i];
        sums.objects[g->state[i]]++;
    }
    return sums;
}

static int64_t ask_of(hx_store *store, const char *format, long long snapshot)
{
    char sql[256];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(sql, sizeof sql, format, snapshot);
#pragma GCC diagnostic pop
    return ask_int(store, sql);
}

static void views_sum_up(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("views_sum_up");
    hx_store *store;
    assert_done(hx_store_temporary(&store));
    for (size_t round = 0; round < unit_rounds(10); round++) {
        struct hx_snapshot *s = model_snapshot(&random, (hx_obj)(1 + unit_below(&random, 5000)));
        struct sums sums = sums_of(&s->graph);
        uint64_t lost = sums.bytes[HX_STATE_DEFINITE] + sums.bytes[HX_STATE_INDIRECT];
        uint64_t held = sums.bytes[HX_STATE_REACHABLE] + sums.bytes[HX_STATE_POSSIBLE];
        int64_t id;
        assert_done(hx_store_add(store, s, NULL, NULL, &id));
        assert_int_equal(
            ask_of(store, "SELECT heap_bytes FROM snapshots WHERE snapshot = %lld", id),
            lost + held);
        assert_int_equal(
            ask_of(store, "SELECT reachable_bytes FROM snapshots WHERE snapshot = %lld", id), held);
        assert_int_equal(
            ask_of(store, "SELECT leaked_bytes FROM snapshots WHERE snapshot = %lld", id), lost);
        assert_int_equal(
            ask_of(store, "SELECT count(*) FROM leaks WHERE objects = 0 AND snapshot = %lld", id),
            0);
        assert_int_equal(ask_of(store,
                                "SELECT coalesce(sum(bytes), 0) FROM leaks WHERE kind <> 'possible'"
                                " AND snapshot = %lld",
                                id),
                         lost);
        assert_int_equal(ask_of(store, "SELECT count(*) FROM account WHERE snapshot = %lld", id),
                         s->has_account ? HX_PARTS : 0);
        assert_int_equal(ask_of(store, "SELECT count(*) FROM roots WHERE snapshot = %lld", id),
                         s->roots.n);
        assert_int_equal(
            ask_of(store,
                   "SELECT coalesce(sum(o.bytes), 0) = s.heap_bytes AND count(*) ="
                   " s.heap_objects + (s.heap_objects = 0) FROM snapshots s LEFT JOIN objects o"
                   " USING(snapshot) WHERE s.snapshot = %lld",
                   id),
            1);
        hx_snapshot_destroy(s);
    }
    assert_int_equal(ask_int(store, "SELECT count(*) FROM edges"),
                     ask_int(store, "SELECT coalesce(sum(edges_in), 0) FROM objects"));
    assert_int_equal(ask_int(store, "SELECT count(*) FROM edges"),
                     ask_int(store, "SELECT coalesce(sum(edges_out), 0) FROM objects"));
    assert_done(hx_store_close(store));
}

/* A heap that nobody walked has no figures; one that was walked and is empty has zeros. */
static void unmeasured_heap(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("unmeasured_heap");
    hx_store *store;
    assert_done(hx_store_temporary(&store));
    for (int unknown = 0; unknown < 2; unknown++) {
        struct hx_snapshot *s = model_snapshot(&random, 0);
        int64_t id;
        s->no_heap = unknown;
        s->free_bytes = s->overhead_bytes = 0;
        s->has_account = s->has_rss = true;
        s->rss_bytes = 0;
        for (int part = 0; part < HX_PARTS; part++)
            s->rss_bytes += s->account[part] = part < HX_PART_FILES ? 0 : 4096;
        assert_done(hx_store_add(store, s, NULL, NULL, &id));
        assert_int_equal(
            ask_of(store,
                   "SELECT (heap_bytes IS NULL) + (heap_objects IS NULL) +"
                   " (reachable_bytes IS NULL) + (reachable_objects IS NULL) +"
                   " (leaked_bytes IS NULL) + (leaked_objects IS NULL) + (free_bytes IS NULL) +"
                   " (overhead_bytes IS NULL) FROM snapshots WHERE snapshot = %lld",
                   id),
            unknown ? 8 : 0);
        assert_int_equal(ask_of(store, "SELECT count(*) FROM account WHERE snapshot = %lld", id),
                         unknown ? HX_PARTS - 3 : HX_PARTS);
        assert_int_equal(
            ask_of(store,
                   "SELECT sum(bytes) = (SELECT rss_bytes FROM snapshots WHERE snapshot ="
                   " account.snapshot) FROM account WHERE snapshot = %lld",
                   id),
            1);
        hx_snapshot_destroy(s);
    }
    assert_done(hx_store_close(store));
}

/* The contract's columns, in its order. */
static void view_columns(void **state)
{
    (void)state;
    static const struct {
        const char *view, *columns;
    } expected[] = {
        {"snapshots",
         "snapshot taken_at pid comm exe pause_us method allocator heap_bytes heap_objects "
         "reachable_bytes reachable_objects leaked_bytes leaked_objects free_bytes overhead_bytes "
         "rss_bytes scheme complete notes stray_edges doubt_bytes "
         "analysed typed_bytes prepare_us held_us "},
        {"account", "snapshot part bytes "},
        {"roots", "snapshot root_id kind name module address size direct_objects retained_bytes "
                  "symbol "},
        {"censuses",
         "snapshot scheme max_set holders threads_as visits_per_object total_bytes sets "},
        {"retainers", "snapshot set_id members many label bytes objects "},
        {"retainer_members", "set_id position kind label module symbol "},
        {"retainer_entries", "snapshot set_id position entries alike doubt "},
        {"holders", "snapshot holder kind module symbol bytes objects alone_bytes contested_bytes "
                    "entries "},
        {"shapes", "snapshot shape bytes objects "},
        {"bins", "snapshot roots bytes objects "},
        {"types", "snapshot type confidence bytes objects retained_bytes symbol source "},
        {"pages", "snapshot census key only_pages shared_pages "},
        {"dominators", "snapshot address type bytes retained_bytes retained_objects "
                       "sure_retained_bytes sure_retained_objects parent "},
        {"leaks", "snapshot kind type site bytes objects "},
        {"losses", "snapshot what count bytes address "},
        {"sites", "snapshot ccs_id bytes objects retained_bytes "},
        {"modules", "snapshot module bytes objects "},
        {"ccs", "ccs_id parent_id depth label module source is_caf symbol "},
        {"costs", "snapshot ccs_id entries alloc_bytes alloc_objects freed_bytes freed_objects "
                  "live_bytes live_objects inherited_alloc_bytes inherited_alloc_objects "
                  "inherited_live_bytes inherited_live_objects "},
        {"estimates", "snapshot ccs_id alloc_bytes alloc_error_bytes live_bytes "
                      "live_error_bytes "},
        {"objects",
         "snapshot address bytes requested type shape round holder state set_id bin ccs_id "
         "dominator retained_bytes retained_objects sure_retained_bytes sure_retained_objects "
         "edges_in edges_out confidence source "},
        {"edges", "snapshot source target offset kind rank rule "},
        {"root_edges", "snapshot root_id address target kind rank rule "},
    };
    hx_store *store;
    assert_done(hx_store_temporary(&store));
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        struct hx_query query = {.view = expected[i].view, .limit = -1};
        struct hx_text names = {0};
        hx_rows *rows;
        assert_done(hx_query_view(store, &query, &rows));
        for (size_t c = 0; c < hx_rows_columns(rows); c++)
            hx_text_putf(&names, "%s ", hx_rows_name(rows, c));
        assert_string_equal(hx_text_str(&names), expected[i].columns);
        hx_text_free(&names);
        hx_rows_end(rows);
    }
    assert_done(hx_store_close(store));
}

static void view_words(void **state)
{
    (void)state;
    hx_store *store;
    hx_rows *rows;
    assert_done(hx_store_temporary(&store));
    struct hx_query query = {.view = "object", .limit = -1};
    assert_refused(hx_query_view(store, &query, &rows), HX_E_USAGE, "snapshots, account");
    query = (struct hx_query){.view = "leaks", .sort = "size", .limit = -1};
    assert_refused(hx_query_view(store, &query, &rows), HX_E_USAGE, "kind, type, site");
    query.sort = "bytes\" --";
    assert_refused(hx_query_view(store, &query, &rows), HX_E_USAGE, "columns of leaks");
    assert_done(hx_store_close(store));
}

static void sql_reads_only(void **state)
{
    (void)state;
    static const char *const refused[] = {
        "DELETE FROM hx_snapshot",
        "CREATE TABLE t(a)",
        "CREATE TABLE t AS SELECT 1",
        "UPDATE sqlite_master SET sql = ''",
        "INSERT INTO hx_loss VALUES(1, 2, 3, 4, 5)",
        "CREATE TEMP TABLE t(a)",
        "ATTACH '/tmp/other' AS o",
        "PRAGMA user_version = 7",
        "PRAGMA journal_mode = WAL",
        "PRAGMA writable_schema = 1",
        "VACUUM INTO '/tmp/copy'",
        "BEGIN",
        "SELECT load_extension('x')",
        "SELECT * FROM pragma_optimize",
        "SELECT count(*) FROM pragma_journal_mode",
        "WITH a AS (SELECT 1) INSERT INTO hx_loss SELECT 1,2,3,4,5",
        "DROP VIEW leaks",
        "SELECT 1; SELECT 2",
        "",
        " -- nothing",
        "SELECT 1; DELETE FROM hx_snapshot",
    };
    static const char *const allowed[] = {
        "SELECT 1",
        "SELECT 1; -- the end",
        "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 5) SELECT * FROM c",
        "VALUES (1, 2)",
        "EXPLAIN QUERY PLAN SELECT * FROM objects WHERE address = 5",
        "PRAGMA table_info(snapshots)",
        "PRAGMA user_version",
        "SELECT name FROM pragma_table_info('objects')",
        "SELECT value FROM json_each('[1, 2]')",
        "SELECT count(*) FROM objects o, edges e, root_edges r",
    };
    hx_store *store;
    hx_rows *rows;
    bool more;
    assert_done(hx_store_temporary(&store));
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        assert_refused(hx_query_sql(store, refused[i], &rows), HX_E_USAGE, "SQL");
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++) {
        assert_done(hx_query_sql(store, allowed[i], &rows));
        assert_done(hx_rows_next(rows, &more));
        hx_rows_end(rows);
    }
    assert_refused(hx_query_sql(store, "SELECT 1, nix FROM objects", &rows), HX_E_USAGE,
                   "no such column: nix, at column 11");
    assert_done(hx_store_close(store));
}

/* --- the object tables ------------------------------------------------------------- */

/* Every row of `objects` and `edges` against the model. */
static void compare_rows(hx_store *store, int64_t id, const struct hx_graph *g)
{
    struct hx_query query = {
        .view = "objects", .snapshot = id, .sort = "address", .ascending = true, .limit = -1};
    hx_rows *rows;
    bool more;
    uint32_t *in = calloc((size_t)g->n + 1, sizeof *in);
    assert_non_null(in);
    for (hx_eidx e = 0; e < g->n_edges; e++)
        in[hx_edge_target(g->edge[e])]++;
    assert_done(hx_query_view(store, &query, &rows));
    for (hx_obj i = 0; i < g->n; i++) {
        assert_done(hx_rows_next(rows, &more));
        assert_true(more);
        assert_int_equal(hx_rows_value(rows, 0).i, id);
        assert_int_equal(hx_rows_value(rows, 1).i, g->addr[i]);
        assert_int_equal(hx_rows_value(rows, 2).i, g->size[i]);
        assert_int_equal(hx_rows_value(rows, 3).type, HX_VALUE_NULL);
        assert_string_equal(hx_rows_value(rows, 8).text, hx_state_name(g->state[i]));
        assert_int_equal(hx_rows_value(rows, 17).i, in[i]);
        assert_int_equal(hx_rows_value(rows, 18).i, g->fwd[i + 1] - g->fwd[i]);
    }
    assert_done(hx_rows_next(rows, &more));
    assert_false(more);
    hx_rows_end(rows);
    free(in);

    query = (struct hx_query){.view = "edges", .snapshot = id, .limit = -1};
    assert_done(hx_query_view(store, &query, &rows));
    for (hx_obj i = 0; i < g->n; i++) {
        for (hx_eidx e = g->fwd[i]; e < g->fwd[i + 1]; e++) {
            assert_done(hx_rows_next(rows, &more));
            assert_true(more);
            assert_int_equal(hx_rows_value(rows, 1).i, g->addr[i]);
            assert_int_equal(hx_rows_value(rows, 2).i, g->addr[hx_edge_target(g->edge[e])]);
            assert_int_equal(hx_rows_value(rows, 3).i, hx_edge_offset(g->edge[e]));
            assert_string_equal(hx_rows_value(rows, 4).text,
                                hx_edge_kind_name(hx_edge_kind_of(g->edge[e])));
        }
    }
    assert_done(hx_rows_next(rows, &more));
    assert_false(more);
    hx_rows_end(rows);
}

/* A random comparison; `by` hides the column from the planner when it is "+". */
static void put_condition(struct hx_text *sql, const char *by, const char *column, const char *op,
                          uint64_t value, unsigned form)
{
    switch (form) {
    case 1: /* numbers that are no integers, and text */
        hx_text_putf(sql, "%s%s %s %llu.5", by, column, op, (unsigned long long)value);
        break;
    case 2:
        hx_text_putf(sql, "%s%s %s NULL", by, column, op);
        break;
    case 3:
        hx_text_putf(sql, "%s%s %s -5", by, column, op);
        break;
    case 4:
        hx_text_putf(sql, "%s%s %s 9e18", by, column, op);
        break;
    case 5:
        hx_text_putf(sql, "%s%s BETWEEN %llu AND %llu", by, column,
                     (unsigned long long)(value - value % 4096), (unsigned long long)value + 50000);
        break;
    case 6:
        hx_text_putf(sql, "%s%s IN (%llu, %llu, 7)", by, column, (unsigned long long)value + 16,
                     (unsigned long long)value);
        break;
    default:
        hx_text_putf(sql, "%s%s %s %llu", by, column, op, (unsigned long long)value);
    }
}

static void constraints(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("constraints");
    static const char *const ops[] = {"=", "<", "<=", ">", ">=", "IS", "<>"};
    static const struct {
        const char *table, *key, *sum;
    } tables[] = {{"objects", "address", "bytes"},
                  {"edges", "source", "offset + target % 1000"},
                  {"edges", "target", "offset + source % 1000"},
                  {"root_edges", "root_id", "target % 1000"},
                  {"root_edges", "target", "root_id"}};
    struct hx_snapshot *s[3];
    hx_store *store;
    int64_t id;
    assert_done(hx_store_temporary(&store));
    for (int i = 0; i < 3; i++) {
        s[i] = model_snapshot(&random, i == 1 ? 70000 : (hx_obj)(1 + unit_below(&random, 3000)));
        assert_done(hx_store_add(store, s[i], NULL, NULL, &id));
        compare_rows(store, id, &s[i]->graph);
    }
    for (size_t round = 0; round < unit_rounds(300); round++) {
        size_t t = unit_below(&random, sizeof tables / sizeof *tables);
        const char *op = ops[unit_below(&random, 7)];
        const struct hx_graph *g = &s[unit_below(&random, 3)]->graph;
        uint64_t value = g->addr[unit_below(&random, g->n)] + unit_below(&random, 2) * 8;
        if (strcmp(tables[t].key, "root_id") == 0)
            value = unit_below(&random, 200);
        unsigned form = unit_below(&random, 2) ? 0 : (unsigned)unit_below(&random, 7);
        unsigned other = (unsigned)unit_below(&random, 4),
                 snapshot = 1 + (unsigned)unit_below(&random, 4);
        char *answer[2];
        for (int slow = 0; slow < 2; slow++) {
            const char *by = slow ? "+" : "";
            struct hx_text sql = {0};
            hx_text_putf(&sql,
                         "SELECT count(*), sum(%s), sum(rowid %% 100003), sum(snapshot)"
                         " FROM %s WHERE ",
                         tables[t].sum, tables[t].table);
            put_condition(&sql, by, tables[t].key, op, value, form);
            if (other)
                hx_text_putf(&sql, " AND %ssnapshot %s %u", by, other == 3 ? "<=" : "=", snapshot);
            hx_rows *rows;
            bool more;
            assert_done(hx_query_sql(store, hx_text_str(&sql), &rows));
            assert_done(hx_rows_next(rows, &more));
            if (asprintf(&answer[slow], "%lld %lld %lld %lld", (long long)hx_rows_value(rows, 0).i,
                         (long long)hx_rows_value(rows, 1).i, (long long)hx_rows_value(rows, 2).i,
                         (long long)hx_rows_value(rows, 3).i) < 0)
                abort();
            hx_rows_end(rows);
            if (slow && strcmp(answer[0], answer[1]) != 0)
                fail_msg("%s: %s instead of %s", hx_text_str(&sql), answer[0], answer[1]);
            hx_text_free(&sql);
        }
        free(answer[0]);
        free(answer[1]);
    }
    for (int i = 0; i < 3; i++)
        hx_snapshot_destroy(s[i]);
    assert_done(hx_store_close(store));
}

static void rowids_and_order(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("rowids_and_order");
    static const char *const zero[] = {
        /* each row is found by its rowid */
        "SELECT count(*) FROM (SELECT rowid AS r, address FROM objects WHERE bytes % 7 = 0 LIMIT "
        "99)"
        " a JOIN objects o ON o.rowid = a.r WHERE o.address <> a.address",
        "SELECT count(*) - 99 FROM (SELECT rowid AS r FROM edges LIMIT 99) a JOIN edges e"
        " ON e.rowid = a.r",
        "SELECT count(*) FROM objects WHERE rowid IN (-1, 0, 1, 9223372036854775807)",
        /* the orders that the tables claim to have */
        "SELECT count(*) FROM (SELECT address, lag(address) OVER () AS before FROM"
        " (SELECT address FROM objects WHERE snapshot = 2 ORDER BY address)) WHERE before > "
        "address",
        "SELECT count(*) FROM (SELECT s, lag(s) OVER () AS before FROM (SELECT snapshot * 10000000"
        " + rowid % 1000000 AS s FROM edges ORDER BY snapshot, source)) WHERE before > s",
        "SELECT count(*) FROM (SELECT address, lag(address) OVER () AS before FROM"
        " (SELECT address FROM objects ORDER BY address)) WHERE before > address",
        /* joins give each edge its objects */
        "SELECT count(*) - (SELECT count(*) FROM edges) FROM edges e JOIN objects o"
        " ON o.address = e.target AND o.snapshot = e.snapshot",
        "SELECT count(*) - (SELECT count(*) FROM root_edges) FROM root_edges e JOIN roots r"
        " USING(snapshot, root_id) JOIN objects o ON o.address = e.target AND"
        " o.snapshot = e.snapshot",
        "SELECT count(*) FROM objects o WHERE snapshot = 1 AND edges_out <> (SELECT count(*) FROM"
        " edges e WHERE e.source = o.address AND e.snapshot = 1)",
        "SELECT count(*) FROM (SELECT * FROM objects WHERE snapshot = 1 LIMIT 20) o WHERE"
        " edges_in <> (SELECT count(*) FROM edges e WHERE e.target = o.address AND e.snapshot = 1)",
    };
    hx_store *store;
    int64_t id;
    assert_done(hx_store_temporary(&store));
    for (int i = 0; i < 2; i++) {
        struct hx_snapshot *s = model_snapshot(&random, 2000);
        assert_done(hx_store_add(store, s, NULL, NULL, &id));
        hx_snapshot_destroy(s);
    }
    for (size_t i = 0; i < sizeof zero / sizeof *zero; i++)
        if (ask_int(store, zero[i]) != 0)
            fail_msg("%s", zero[i]);
    assert_done(hx_store_close(store));
}

#define MOST(nth)                                                                                  \
    "(SELECT address FROM objects WHERE snapshot = 1 ORDER BY edges_in DESC LIMIT 1 OFFSET " nth ")"
#define TO(edges, nth)       edges ".snapshot = 1 AND " edges ".target = " MOST(nth)
#define IN_ANY_ORDER(e, nth) "+" e ".snapshot = 1 AND +" e ".target = " MOST(nth)
#define TELL                 "count(*) + sum(e.source % 1009 + e.offset)"

/* Edges to an object are kept as far as they were found: some of them, then all, then those to two
 * objects in turn. */
static void edges_to_objects(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("edges_to_objects");
    static const char some[] =
        "SELECT count(*) - 2 FROM (SELECT * FROM edges e WHERE " TO("e", "0") " LIMIT 2)";
    static const char all[] =
        "SELECT " TELL " - (SELECT " TELL
        " FROM edges e WHERE " IN_ANY_ORDER("e", "0") ") FROM edges e WHERE " TO("e", "0");
    static const char both[] =
        "SELECT count(*) - (SELECT count(*) FROM edges e "
        "WHERE " IN_ANY_ORDER("e", "0") ") * (SELECT count(*) FROM edges e "
                                        "WHERE " IN_ANY_ORDER(
                                            "e", "1") ")"
                                                      " FROM edges e CROSS JOIN "
                                                      "edges f WHERE " TO("e", "0") " AND " TO("f",
                                                                                               "1");
    const char *const zero[] = {some, all, both, some, all, all};
    hx_store *store;
    int64_t id;
    assert_done(hx_store_temporary(&store));
    struct hx_snapshot *s = model_snapshot(&random, 70000);
    assert_done(hx_store_add(store, s, NULL, NULL, &id));
    hx_snapshot_destroy(s);
    for (size_t i = 0; i < sizeof zero / sizeof *zero; i++)
        if (ask_int(store, zero[i]) != 0)
            fail_msg("%zu: %s", i, zero[i]);
    assert_done(hx_store_close(store));
}

/* The first rows by a column are those that sorting all of them gives. */
static void first_rows(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("first_rows");
    static const char *const columns[] = {"bytes", "edges_in", "edges_out"};
    hx_store *store;
    int64_t id;
    assert_done(hx_store_temporary(&store));
    for (int i = 0; i < 2; i++) {
        struct hx_snapshot *s = model_snapshot(&random, i ? 66000 : 50);
        assert_done(hx_store_add(store, s, NULL, NULL, &id));
        hx_snapshot_destroy(s);
    }
    for (size_t round = 0; round < unit_rounds(60); round++) {
        const char *by = columns[unit_below(&random, 3)];
        int limit = (int)unit_below(&random, 4) ? (int)unit_below(&random, 300)
                                                : (int)unit_below(&random, 80000) - 1;
        int offset = (int)(unit_below(&random, 2) * unit_below(&random, 100));
        int snapshot = 1 + (int)unit_below(&random, 3);
        const char *direction = unit_below(&random, 3) ? "DESC" : "ASC";
        struct hx_text sql = {0};
        for (int slow = 0; slow < 2; slow++)
            hx_text_putf(&sql,
                         "%s (SELECT count(*) || ' ' || coalesce(sum(address %% 1000003 * n), 0)"
                         " FROM (SELECT address, row_number() OVER () AS n FROM (SELECT address"
                         " FROM objects WHERE %ssnapshot = %d ORDER BY %s%s %s, address LIMIT %d"
                         " OFFSET %d)))",
                         slow ? " =" : "SELECT", slow ? "+" : "", snapshot, slow ? "+" : "", by,
                         direction, limit, offset);
        if (ask_int(store, hx_text_str(&sql)) != 1)
            fail_msg("%s", hx_text_str(&sql));
        hx_text_free(&sql);
    }
    assert_done(hx_store_close(store));
}

static void largest_first(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("largest_first");
    hx_store *store;
    int64_t id, before = INT64_MAX, address = 0;
    struct hx_snapshot *s = model_snapshot(&random, 3000);
    assert_done(hx_store_temporary(&store));
    assert_done(hx_store_add(store, s, NULL, NULL, &id));
    struct hx_query query = {.view = "objects", .snapshot = id, .limit = 500, .offset = 3};
    hx_rows *rows;
    bool more;
    assert_done(hx_query_view(store, &query, &rows));
    for (int i = 0; i < 500; i++) {
        assert_done(hx_rows_next(rows, &more));
        assert_true(more);
        int64_t bytes = hx_rows_value(rows, 2).i, at = hx_rows_value(rows, 1).i;
        assert_true(bytes < before || (bytes == before && at > address));
        before = bytes;
        address = at;
    }
    assert_done(hx_rows_next(rows, &more));
    assert_false(more);
    assert_done(hx_rows_next(rows, &more)); /* and does not begin again */
    assert_false(more);
    hx_rows_end(rows);
    query.where = "bytes < 100 OR bytes > 1000";
    query.sort = "edges_in";
    query.ascending = true;
    before = 0;
    assert_done(hx_query_view(store, &query, &rows));
    for (int i = 0; i < 100; i++) {
        assert_done(hx_rows_next(rows, &more));
        assert_true(more && hx_rows_value(rows, 14).i >= before);
        before = hx_rows_value(rows, 14).i;
        assert_true(hx_rows_value(rows, 2).i < 100 || hx_rows_value(rows, 2).i > 1000);
    }
    hx_rows_end(rows);
    hx_snapshot_destroy(s);
    assert_done(hx_store_close(store));
}

/* --- other programs ---------------------------------------------------------------- */

static int first_int(void *ret, int columns, char **values, char **names)
{
    (void)columns, (void)names;
    *(long long *)ret = values[0] ? atoll(values[0]) : -1;
    return 0;
}

static void other_programs(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("other_programs");
    char *directory = model_directory(), *path = model_path(directory, "a.hpx");
    hx_store *store;
    int64_t id;
    struct hx_snapshot *s = model_snapshot(&random, 1000);
    assert_done(hx_store_append(path, &store));
    assert_done(hx_store_add(store, s, NULL, NULL, &id));
    assert_done(hx_store_close(store));

    sqlite3 *db;
    long long value;
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    static const char *const views[] = {"snapshots",        "account", "roots",    "leaks",
                                        "losses",           "bins",    "types",    "retainers",
                                        "retainer_members", "pages",   "censuses", "dominators"};
    for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
        char sql[64];
        snprintf(sql, sizeof sql, "SELECT count(*) FROM %s", views[i]);
        assert_int_equal(sqlite3_exec(db, sql, first_int, &value, NULL), SQLITE_OK);
    }
    sqlite3_exec(db, "PRAGMA application_id", first_int, &value, NULL);
    assert_int_equal(value, 0x48505831);
    sqlite3_exec(db, "SELECT count(*) FROM sqlite_schema WHERE sql LIKE '%virtual%'", first_int,
                 &value, NULL);
    assert_int_equal(value, 0);
    if (access("./heapx_sqlite.so", R_OK) == 0) {
        char *message = NULL;
        sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1, NULL);
        if (sqlite3_load_extension(db, "./heapx_sqlite", NULL, &message) != SQLITE_OK)
            fail_msg("%s", message);
        assert_int_equal(sqlite3_exec(db, "SELECT count(*) FROM objects", first_int, &value, NULL),
                         SQLITE_OK);
        assert_int_equal(value, 1000);
        assert_int_equal(sqlite3_exec(db, "SELECT count(*) FROM edges", first_int, &value, NULL),
                         SQLITE_OK);
        assert_int_equal(value, s->graph.n_edges);
    }
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    hx_snapshot_destroy(s);
    free(path);
    model_remove(directory);
}

/* A reader that came before, sees the snapshots that a writer adds; and a file is left. */
static void reader_and_writer(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("reader_and_writer");
    char *directory = model_directory(), *path = model_path(directory, "a.hpx");
    hx_store *writer, *reader;
    int64_t id;
    struct hx_snapshot *s = model_snapshot(&random, 2000);
    assert_done(hx_store_append(path, &writer));
    assert_done(hx_store_add(writer, s, NULL, NULL, &id));
    assert_done(hx_store_open(path, &reader));
    assert_int_equal(ask_int(reader, "SELECT count(*) FROM snapshots"), 1);
    hx_rows *rows;
    bool more;
    assert_done(hx_query_sql(reader, "SELECT address FROM objects", &rows)); /* in the middle */
    assert_done(hx_rows_next(rows, &more));
    assert_done(hx_store_add(writer, s, NULL, NULL, &id));
    assert_done(hx_rows_next(rows, &more));
    hx_rows_end(rows);
    assert_int_equal(ask_int(reader, "SELECT count(*) FROM snapshots"), 2);
    assert_int_equal(ask_int(reader, "SELECT count(*) FROM objects"), 4000);
    assert_done(hx_store_close(writer));
    assert_int_equal(ask_int(reader, "SELECT count(*) FROM objects WHERE snapshot = 2"), 2000);
    assert_done(hx_store_close(reader));
    assert_false(model_exists(path, "-wal") || model_exists(path, "-shm"));

    sqlite3 *db;
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    char mode[16] = "";
    sqlite3_stmt *st;
    assert_int_equal(sqlite3_prepare_v2(db, "PRAGMA journal_mode", -1, &st, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(st), SQLITE_ROW);
    snprintf(mode, sizeof mode, "%s", (const char *)sqlite3_column_text(st, 0));
    assert_string_equal(mode, "delete");
    sqlite3_finalize(st);
    sqlite3_close(db);
    hx_snapshot_destroy(s);
    free(path);
    model_remove(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),       cmocka_unit_test(temporary),
        cmocka_unit_test(append_again),     cmocka_unit_test(any_threads),
        cmocka_unit_test(cancelled),        cmocka_unit_test(interrupted),
        cmocka_unit_test(rolled_back),      cmocka_unit_test(views_sum_up),
        cmocka_unit_test(unmeasured_heap),  cmocka_unit_test(view_columns),
        cmocka_unit_test(view_words),       cmocka_unit_test(sql_reads_only),
        cmocka_unit_test(constraints),      cmocka_unit_test(rowids_and_order),
        cmocka_unit_test(first_rows),       cmocka_unit_test(largest_first),
        cmocka_unit_test(other_programs),   cmocka_unit_test(reader_and_writer),
        cmocka_unit_test(edges_to_objects),
    };
    return unit_run_some(tests);
}
