/* test_store_columns.c - the columns of the analysis as readers see them: by hx_store_load(), by
 * `objects` under every constraint, over temporary tables, and when they lie. The columns are made
 * here and put into the file by hand, so that they are what the layout says, whoever writes it. */
#include "store_model.h"

#include "store/objects/blocks_private.h"
#include "store/objects/packed_column.h"
#include "store/schema/schema.h"
#include "store/store_private.h"
#include "traverse/hold/rules.h"

/* --- a model ----------------------------------------------------------------------- */

enum { TYPES = 12, BINS = 9, SETS = 20 };
#define UNKNOWN UINT64_MAX

/* What the analysis would say of one snapshot, UNKNOWN for NULL. */
struct facts {
    int64_t id;
    struct hx_snapshot *snapshot;
    uint64_t *type, *set, *bin, *dominator, *retained, *objects, *sure, *sure_objects;
    uint64_t *memory;
};

static const char *const type_names[TYPES] = {"Node", "node", "std::string", "Tree<int>",
                                              "a'b",  "c\"d", "caf\xc3\xa9", "\xff\xfe",
                                              "",     "x y",  "5",           "Base"};
static const char *const bin_names[BINS] = {"-", "(unreachable)", "a", "b", "a+b", "A",
                                            "c", "a+c",           "7"};

static void make_facts(struct unit_random *random, hx_obj n, struct facts *f)
{
    *f = (struct facts){.snapshot = model_snapshot(random, n)};
    f->memory = calloc((size_t)n * 8 + 1, sizeof *f->memory);
    assert_non_null(f->memory);
    uint64_t **column[] = {&f->type,     &f->set,     &f->bin,  &f->dominator,
                           &f->retained, &f->objects, &f->sure, &f->sure_objects};
    for (size_t c = 0; c < 8; c++)
        *column[c] = f->memory + c * n;
    for (hx_obj i = 0; i < n; i++) {
        uint64_t size = f->snapshot->graph.size[i];
        f->type[i] = unit_below(random, 3) ? unit_below(random, TYPES) : UNKNOWN;
        f->set[i] = unit_below(random, SETS);
        f->bin[i] = unit_below(random, BINS);
        f->dominator[i] = unit_below(random, n);
        if (f->dominator[i] == i || unit_below(random, 3) == 0)
            f->dominator[i] = UNKNOWN;
        bool held = unit_below(random, 5), sure = held && unit_below(random, 5);
        f->retained[i] = held ? size + unit_below(random, (uint64_t)1 << 20) : UNKNOWN;
        f->objects[i] = held ? 1 + unit_below(random, 1000) : UNKNOWN;
        f->sure[i] = sure ? size + unit_below(random, (uint64_t)1 << 20) : UNKNOWN;
        f->sure_objects[i] = sure ? 1 + unit_below(random, 1000) : UNKNOWN;
    }
}

static void free_facts(struct facts *f)
{
    hx_snapshot_destroy(f->snapshot);
    free(f->memory);
}

/* The stored form of one value. */
static uint64_t code_of(const struct facts *f, int column, hx_obj i)
{
    switch (column) {
    case HX_COL_TYPE:
        return f->type[i] + 1; /* UNKNOWN becomes 0 */
    case HX_COL_SET:
        return f->set[i];
    case HX_COL_BIN:
        return f->bin[i];
    case HX_COL_DOMINATOR:
        return f->dominator[i] == UNKNOWN ? 0 : hx_zigzag((int64_t)f->dominator[i] - (int64_t)i);
    case HX_COL_RETAINED:
        return f->retained[i] == UNKNOWN ? 0 : f->retained[i] - f->snapshot->graph.size[i] + 1;
    case HX_COL_RETAINED_REST:
        return f->retained[i] == UNKNOWN
                   ? 0
                   : hx_zigzag(
                         (int64_t)(f->retained[i] - f->objects[i] * f->snapshot->graph.size[i]));
    case HX_COL_RETAINED_OBJECTS:
        return f->objects[i] == UNKNOWN ? 0 : f->objects[i];
    case HX_COL_SURE:
        return f->sure[i] == UNKNOWN ? 0 : hx_zigzag((int64_t)(f->sure[i] - f->retained[i])) + 1;
    default:
        return f->sure_objects[i] == UNKNOWN
                   ? 0
                   : hx_zigzag((int64_t)(f->sure_objects[i] - f->objects[i])) + 1;
    }
}

/* --- putting them into a file ------------------------------------------------------ */

static void sqlite_run(sqlite3 *db, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *sql = sqlite3_vmprintf(format, args), *message = NULL;
    va_end(args);
    if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK)
        fail_msg("%s: %s", sql, message);
    sqlite3_free(sql);
}

static void put_column(sqlite3 *db, const char *where, int64_t id, const uint64_t *value, size_t n)
{
    HX_CODEC hx_codec *codec = NULL;
    assert_done(hx_codec_create(&codec));
    uint8_t *blob = malloc(hx_column_bound(n));
    size_t bytes;
    sqlite3_stmt *st;
    char sql[100];
    assert_non_null(blob);
    assert_done(hx_column_encode(codec, value, NULL, n, blob, &bytes));
    snprintf(sql, sizeof sql, "INSERT OR REPLACE INTO %s.hx_column VALUES(?,?)", where);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &st, NULL), SQLITE_OK);
    sqlite3_bind_int64(st, 1, id);
    sqlite3_bind_blob(st, 2, blob, (int)bytes, SQLITE_STATIC);
    assert_int_equal(sqlite3_step(st), SQLITE_DONE);
    sqlite3_finalize(st);
    free(blob);
}

/* One column of all blocks of the snapshot. */
static void put_objects(sqlite3 *db, const char *where, const struct facts *f, int column)
{
    sqlite3_stmt *st;
    uint64_t *value = malloc(HX_BLOCK_ROWS * sizeof *value);
    assert_non_null(value);
    assert_int_equal(sqlite3_prepare_v2(db,
                                        "SELECT id, first_row, n FROM main.hx_block WHERE"
                                        " snapshot = ? AND family = 1",
                                        -1, &st, NULL),
                     SQLITE_OK);
    sqlite3_bind_int64(st, 1, f->id);
    while (sqlite3_step(st) == SQLITE_ROW) {
        hx_obj from = (hx_obj)sqlite3_column_int64(st, 1), n = (hx_obj)sqlite3_column_int64(st, 2);
        for (hx_obj i = 0; i < n; i++)
            value[i] = code_of(f, column, from + i);
        put_column(db, where, sqlite3_column_int64(st, 0) * HX_COLUMN_SLOTS + column, value, n);
    }
    sqlite3_finalize(st);
    free(value);
}

static sqlite3 *open_file(const char *path)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    return db;
}

static void put_names(sqlite3 *db, int64_t id)
{
    sqlite_run(db, "DELETE FROM hx_type WHERE snapshot = %lld", (long long)id);
    sqlite_run(db, "DELETE FROM hx_bin WHERE snapshot = %lld", (long long)id);
    sqlite_run(db,
               "INSERT INTO hx_type(snapshot, type, name, confidence, bytes, objects)"
               " VALUES(%lld, 0, NULL, NULL, 1, 1)",
               (long long)id);
    for (int t = 0; t < TYPES; t++)
        sqlite_run(db,
                   "INSERT INTO hx_type(snapshot, type, name, confidence, bytes, objects)"
                   " VALUES(%lld, %d, %Q, %Q, 1, 1)",
                   (long long)id, t + 1, type_names[t], t & 1 ? "certain" : "likely");
    for (int b = 0; b < BINS; b++)
        sqlite_run(db, "INSERT INTO hx_bin VALUES(%lld, %d, %Q, 1, 1)", (long long)id, b,
                   bin_names[b]);
}

static void put_facts(const char *path, const struct facts *f)
{
    sqlite3 *db = open_file(path);
    sqlite_run(db, "BEGIN");
    /* as older schemas have it, and as they do now */
    int retained = f->id % 2 ? HX_COL_RETAINED : HX_COL_RETAINED_REST;
    for (int column = HX_COL_TYPE; column <= HX_COL_SURE_OBJECTS; column++)
        put_objects(db, "main", f, column == HX_COL_RETAINED ? retained : column);
    put_names(db, f->id);
    sqlite_run(db, "COMMIT");
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void store_facts(const char *path, struct facts *f)
{
    hx_store *store;
    assert_done(hx_store_append(path, &store));
    assert_done(hx_store_add(store, f->snapshot, NULL, NULL, &f->id));
    assert_done(hx_store_close(store));
}

/* --- rows -------------------------------------------------------------------------- */

static void assert_number(hx_rows *rows, size_t column, uint64_t expected)
{
    struct hx_value value = hx_rows_value(rows, column);
    if (expected == UNKNOWN)
        assert_int_equal(value.type, HX_VALUE_NULL);
    else
        assert_int_equal(value.i, expected);
}

static void assert_name(hx_rows *rows, size_t column, const char *expected)
{
    struct hx_value value = hx_rows_value(rows, column);
    if (expected)
        assert_string_equal(value.text, expected);
    else
        assert_int_equal(value.type, HX_VALUE_NULL);
}

/* `there`: were the columns stored? */
static void compare_objects(hx_store *store, const struct facts *f, bool there)
{
    struct hx_query query = {
        .view = "objects", .snapshot = f->id, .sort = "address", .ascending = true, .limit = -1};
    const uint64_t *addr = f->snapshot->graph.addr;
    hx_rows *rows;
    bool more;
    assert_done(hx_query_view(store, &query, &rows));
    for (hx_obj i = 0; i < f->snapshot->graph.n; i++) {
        assert_done(hx_rows_next(rows, &more));
        assert_true(more);
        assert_int_equal(hx_rows_value(rows, 1).i, addr[i]);
        assert_name(rows, 4, there && f->type[i] != UNKNOWN ? type_names[f->type[i]] : NULL);
        assert_number(rows, 9, there ? f->set[i] : UNKNOWN);
        assert_name(rows, 10, there ? bin_names[f->bin[i]] : NULL);
        assert_number(rows, 12,
                      there && f->dominator[i] != UNKNOWN ? addr[f->dominator[i]] : UNKNOWN);
        assert_number(rows, 13, there ? f->retained[i] : UNKNOWN);
        assert_number(rows, 14, there ? f->objects[i] : UNKNOWN);
        assert_number(rows, 15, there ? f->sure[i] : UNKNOWN);
        assert_number(rows, 16, there ? f->sure_objects[i] : UNKNOWN);
    }
    assert_done(hx_rows_next(rows, &more));
    assert_false(more);
    hx_rows_end(rows);
}

static void rows_are_facts(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("rows_are_facts");
    char *directory = model_directory(), *path = model_path(directory, "a.hpx");
    struct facts f[3];
    for (int i = 0; i < 3; i++) {
        make_facts(&random, i == 1 ? 66000 : (hx_obj)unit_below(&random, 2000), &f[i]);
        store_facts(path, &f[i]);
    }
    hx_store *store;
    assert_done(hx_store_open(path, &store));
    for (int i = 0; i < 3; i++)
        compare_objects(store, &f[i], false);
    for (int i = 0; i < 2; i++) /* behind the back of the open store */
        put_facts(path, &f[i]);
    for (int i = 0; i < 3; i++)
        compare_objects(store, &f[i], i < 2);
    assert_done(hx_store_close(store));
    for (int i = 0; i < 3; i++)
        free_facts(&f[i]);
    free(path);
    model_remove(directory);
}

/* A store with one snapshot of random facts, open. */
struct made {
    char *directory, *path;
    struct facts f;
    hx_store *store;
};

static void open_made(const char *name, struct made *ret)
{
    struct unit_random random = unit_random_begin(name);
    ret->directory = model_directory();
    ret->path = model_path(ret->directory, "a.hpx");
    make_facts(&random, 2000, &ret->f);
    store_facts(ret->path, &ret->f);
    put_facts(ret->path, &ret->f);
    assert_done(hx_store_open(ret->path, &ret->store));
}

static void close_made(struct made *made)
{
    assert_done(hx_store_close(made->store));
    free_facts(&made->f);
    free(made->path);
    model_remove(made->directory);
}

/* What was picked aside is what is stored, and goes when the snapshot is revised. */
static void picked(void **state)
{
    (void)state;
    struct made made;
    open_made("picked", &made);
    hx_store *store = made.store;
    const struct hx_block_index *index;
    assert_done(hx_blocks_index(store->blocks, made.f.id, HX_FAMILY_OBJECT, &index));
    const uint16_t at[] = {3, 500, 1999};
    const unsigned what = hx_entry_what(HX_PLAIN, HX_COL_TYPE);
    const int64_t id = index->block[0].id;
    uint64_t value[3];
    hx_blocks_begin_pick_aside(store->blocks, index, 0, HX_PLAIN, HX_COL_TYPE, at, 3);
    hx_blocks_end_asides(store->blocks);
    assert_int_equal(hx_blocks_take_picked(store->blocks, id, what, at, 3, value),
                     hx_blocks_asides() > 0);
    assert_done(hx_blocks_pick(store->blocks, index, 0, HX_PLAIN, HX_COL_TYPE, at, 3, value));
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(value[i], code_of(&made.f, HX_COL_TYPE, at[i]));
    hx_blocks_index_done(store->blocks, index);
    hx_blocks_forget(store->blocks, made.f.id);
    assert_false(hx_blocks_take_picked(store->blocks, id, what, at, 3, value));
    close_made(&made);
}

/* What was begun aside and ended by an interrupt leaves nothing behind: the next column is not that
 * which was to be read then. */
static void interrupted(void **state)
{
    (void)state;
    struct made made;
    open_made("interrupted", &made);
    hx_store *store = made.store;
    const struct hx_block_index *index;
    const struct hx_decoded *column;
    const struct hx_wanted wanted = {HX_PLAIN, HX_COL_SET};
    assert_done(hx_blocks_index(store->blocks, made.f.id, HX_FAMILY_OBJECT, &index));
    assert_done(hx_blocks_column(store->blocks, index, 0, HX_PLAIN, HX_COL_BIN, &column));
    hx_blocks_release(store->blocks, column);
    sqlite3_stmt *other; /* SQLite minds an interrupt only while a statement is under way */
    assert_int_equal(sqlite3_prepare_v2(store->db, "VALUES (1), (2)", -1, &other, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(other), SQLITE_ROW);
    sqlite3_interrupt(store->db);
    hx_blocks_begin_aside(store->blocks, index, 0, &wanted, 1);
    hx_blocks_end_asides(store->blocks);
    sqlite3_finalize(other);
    assert_done(hx_blocks_column(store->blocks, index, 0, HX_PLAIN, HX_COL_TYPE, &column));
    for (hx_obj i = 0; i < 2000; i++)
        assert_int_equal(hx_decoded_at(column, i), code_of(&made.f, HX_COL_TYPE, i));
    hx_blocks_release(store->blocks, column);
    hx_blocks_index_done(store->blocks, index);
    close_made(&made);
}

/* --- constraints ------------------------------------------------------------------- */

/* A random condition; `by` "+" hides the column from the planner. A cast does, too, and keeps the
 * affinity, which decides how other kinds of values compare. */
static void put_condition(struct hx_text *sql, struct unit_random random, const char *by)
{
    static const char *const states[] = {"reachable", "possible", "definite", "indirect", "gone"};
    static const char *const columns[] = {"type", "bin", "state", "set_id"};
    uint64_t which = unit_below(&random, 4), form = unit_below(&random, 12);
    const char *column = columns[which];
    char quoted[64], hidden[40];
    if (*by) {
        snprintf(hidden, sizeof hidden, "CAST(%s AS %s)", column, which < 3 ? "TEXT" : "INTEGER");
        column = hidden;
    }
    if (which < 3)
        sqlite3_snprintf(sizeof quoted, quoted, "%Q",
                         which == 0   ? type_names[unit_below(&random, TYPES)]
                         : which == 1 ? bin_names[unit_below(&random, BINS)]
                                      : states[unit_below(&random, 5)]);
    else
        snprintf(quoted, sizeof quoted, "%d", (int)unit_below(&random, SETS + 2) - 1);
    switch (form) {
    case 0:
        hx_text_putf(sql, "%s IS NULL", column);
        break;
    case 1:
        hx_text_putf(sql, "%s IS %s", column, quoted);
        break;
    case 2:
        hx_text_putf(sql, "%s = %s COLLATE NOCASE", column, quoted);
        break;
    case 3:
        hx_text_putf(sql, "%s <> %s", column, quoted);
        break;
    case 4: /* the other kind of value */
        hx_text_putf(sql, "%s = %s", column, which < 3 ? "5" : "'7'");
        break;
    case 5:
        hx_text_putf(sql, "%s IN (%s, 'a', 3, NULL)", column, quoted);
        break;
    case 6:
        hx_text_putf(sql, "%s = %s", column, which < 3 ? "x'41'" : "3.5");
        break;
    case 7:
        hx_text_putf(sql, "%s = NULL", column);
        break;
    default:
        hx_text_putf(sql, "%s = %s", column, quoted);
    }
}

static void put_conditions(struct hx_text *sql, struct unit_random random, const char *by,
                           const struct hx_graph *g)
{
    for (uint64_t n = 1 + unit_below(&random, 3); n > 0; n--) {
        put_condition(sql, (struct unit_random){unit_random(&random)}, by);
        hx_text_puts(sql, " AND ");
    }
    unsigned other = (unsigned)unit_below(&random, 4);
    unsigned long long address = g->addr[unit_below(&random, g->n)];
    hx_text_putf(sql, "%ssnapshot %s %u", by,
                 other ? "=" : "<=", 1 + (unsigned)unit_below(&random, 4));
    if (unit_below(&random, 3) == 0)
        hx_text_putf(sql, " AND %saddress >= %llu", by, address);
}

static void put_question(struct hx_text *sql, struct unit_random random, const char *by,
                         const struct hx_graph *g)
{
    static const char *const sorts[] = {"retained_bytes",
                                        "sure_retained_bytes",
                                        "retained_objects",
                                        "sure_retained_objects",
                                        "set_id",
                                        "edges_in",
                                        "bytes",
                                        "dominator"};
    static const char *const orders[] = {"", "DESC", "DESC", "NULLS LAST", "DESC NULLS FIRST"};
    bool sorted = unit_below(&random, 2), filtered = !sorted || unit_below(&random, 2);
    hx_text_puts(sql, "SELECT count(*) || ' ' || coalesce(sum(n * (address % 1000003)), 0) FROM"
                      " (SELECT address, row_number() OVER () AS n FROM (SELECT address FROM"
                      " objects WHERE ");
    if (filtered)
        put_conditions(sql, (struct unit_random){unit_random(&random)}, by, g);
    else
        hx_text_putf(sql, "%ssnapshot = %u", by, 1 + (unsigned)unit_below(&random, 3));
    const char *sort = sorts[unit_below(&random, 8)], *order = orders[unit_below(&random, 5)];
    if (sorted)
        hx_text_putf(sql, " ORDER BY %s%s %s, address, snapshot LIMIT %u OFFSET %u", by, sort,
                     order, (unsigned)unit_below(&random, 500),
                     (unsigned)(unit_below(&random, 2) * unit_below(&random, 50)));
    else
        hx_text_puts(sql, " ORDER BY snapshot, address");
    hx_text_puts(sql, "))");
}

static char *ask_text(hx_store *store, const char *sql)
{
    hx_rows *rows;
    bool more;
    assert_done(hx_query_sql(store, sql, &rows));
    assert_done(hx_rows_next(rows, &more));
    assert_true(more);
    char *text = strdup(hx_rows_value(rows, 0).text);
    hx_rows_end(rows);
    return text;
}

static void constraints(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("constraints");
    char *directory = model_directory(), *path = model_path(directory, "a.hpx");
    struct facts f[3];
    for (int i = 0; i < 3; i++) {
        make_facts(&random, i == 1 ? 66000 : 1 + (hx_obj)unit_below(&random, 2000), &f[i]);
        store_facts(path, &f[i]);
        if (i < 2)
            put_facts(path, &f[i]);
    }
    hx_store *store;
    assert_done(hx_store_open(path, &store));
    for (size_t round = 0; round < unit_rounds(400); round++) {
        uint64_t seed = unit_random(&random);
        char *answer[2];
        for (int slow = 0; slow < 2; slow++) {
            struct hx_text sql = {0};
            put_question(&sql, (struct unit_random){seed}, slow ? "+" : "",
                         &f[seed % 2].snapshot->graph);
            answer[slow] = ask_text(store, hx_text_str(&sql));
            if (slow && strcmp(answer[0], answer[1]) != 0)
                fail_msg("%s: %s instead of %s", hx_text_str(&sql), answer[0], answer[1]);
            hx_text_free(&sql);
        }
        free(answer[0]);
        free(answer[1]);
    }
    assert_done(hx_store_close(store));
    for (int i = 0; i < 3; i++)
        free_facts(&f[i]);
    free(path);
    model_remove(directory);
}

/* --- temporary tables -------------------------------------------------------------- */

static void overlaid(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("overlaid");
    char *directory = model_directory(), *path = model_path(directory, "a.hpx");
    struct facts f[2];
    hx_store *store, *other;
    hx_rows *rows;
    bool more;
    for (int i = 0; i < 2; i++) {
        make_facts(&random, 3000, &f[i]);
        store_facts(path, &f[i]);
        put_facts(path, &f[i]);
    }
    assert_done(hx_store_open(path, &store));
    assert_done(hx_store_open(path, &other));
    compare_objects(store, &f[0], true);
    assert_done(hx_query_sql(store, "SELECT * FROM objects WHERE type = 'Node'", &rows));
    assert_done(hx_rows_next(rows, &more)); /* somebody reads all the while */
    assert_done(hx_schema_overlay(store->db, "test", HX_OVERLAID));
    for (hx_obj i = 0; i < 3000; i++) {
        f[0].set[i] += 3;
        f[0].bin[i] = (f[0].bin[i] + 1) % BINS;
    }
    put_objects(store->db, "temp", &f[0], HX_COL_SET);
    put_objects(store->db, "temp", &f[0], HX_COL_BIN);
    hx_blocks_forget(store->blocks, f[0].id);
    compare_objects(store, &f[0], true);
    compare_objects(store, &f[1], true);
    for (more = true; more;)
        assert_done(hx_rows_next(rows, &more));
    hx_rows_end(rows);

    /* root edges: others, then none */
    int64_t edges = ask_int(store, "SELECT count(*) FROM root_edges WHERE snapshot = 1");
    assert_int_equal(edges, f[0].snapshot->root_edges.n);
    sqlite_run(store->db, "INSERT INTO temp.hx_block VALUES(5000000, 1, 3, 0, 2, 0, 0, 0)");
    for (int column = 0; column < 4; column++)
        put_column(store->db, "temp", 5000000 * (int64_t)HX_COLUMN_SLOTS + column,
                   (uint64_t[]){0, 0}, 2);
    hx_blocks_forget(store->blocks, 1);
    assert_int_equal(ask_int(store, "SELECT count(*) FROM root_edges WHERE snapshot = 1"), 2);
    if (f[0].snapshot->roots.n) {
        struct hx_snapshot *loaded;
        assert_done(hx_store_load(store, 1, NULL, &loaded));
        assert_int_equal(loaded->root_edges.n, 2);
        hx_snapshot_destroy(loaded);
    }
    sqlite_run(store->db, "UPDATE temp.hx_block SET n = 0");
    hx_blocks_forget(store->blocks, 1);
    assert_int_equal(ask_int(store, "SELECT count(*) FROM root_edges WHERE snapshot = 1"), 0);
    assert_int_equal(ask_int(other, "SELECT count(*) FROM root_edges WHERE snapshot = 1"), edges);
    assert_int_equal(ask_int(other, "SELECT max(set_id) FROM objects WHERE snapshot = 1"),
                     SETS - 1);
    assert_done(hx_store_close(store));
    assert_done(hx_store_close(other));
    for (int i = 0; i < 2; i++)
        free_facts(&f[i]);
    free(path);
    model_remove(directory);
}

/* --- loading ----------------------------------------------------------------------- */

/* A block of ranges: pairs of distance and length, in pages. */
static void put_ranges(const char *path, uint64_t first, uint64_t last, const uint64_t *gap,
                       const uint64_t *pages, size_t n)
{
    sqlite3 *db = open_file(path);
    sqlite_run(db, "DELETE FROM hx_block WHERE family = 4");
    sqlite_run(db, "INSERT INTO hx_block VALUES(6000000, 1, 4, 0, %d, %lld, %lld, 0)", (int)n,
               (long long)first, (long long)last);
    put_column(db, "main", 6000000 * (int64_t)HX_COLUMN_SLOTS + HX_COL_FIRST_PAGE, gap, n);
    put_column(db, "main", 6000000 * (int64_t)HX_COLUMN_SLOTS + HX_COL_PAGES, pages, n);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static hx_error *load_file(const char *path, struct hx_snapshot **ret)
{
    hx_store *store;
    assert_done(hx_store_open(path, &store));
    hx_error *err = hx_store_load(store, 1, NULL, ret);
    assert_done(hx_store_close(store));
    return err;
}

static void loaded(void **state)
{
    (void)state;
    struct unit_random random = unit_random_begin("loaded");
    char *directory = model_directory(), *path = model_path(directory, "a.hpx");
    struct facts f;
    struct hx_snapshot *s;
    make_facts(&random, 66000, &f);
    while (f.snapshot->roots.n < 3) {
        free_facts(&f);
        make_facts(&random, 66000, &f);
    }
    store_facts(path, &f);
    assert_done(load_file(path, &s));
    assert_same_snapshot(f.snapshot, s);
    assert_true(!s->graph.type && !s->types.n && !s->named.n && !s->has_resident);
    hx_snapshot_destroy(s);

    put_facts(path, &f);
    put_ranges(path, 100, 110, (uint64_t[]){0, 3, 0}, (uint64_t[]){5, 1, 1}, 3);
    sqlite3 *db = open_file(path);
    sqlite_run(db, "UPDATE hx_block SET last_key = 109 WHERE family = 4");
    sqlite_run(db, "INSERT INTO hx_named VALUES(1, 1, 'b', NULL, 2), (1, 0, 'a', 'x!y', 0)");
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_done(load_file(path, &s));
    assert_same_snapshot(f.snapshot, s);
    assert_int_equal(s->types.n, TYPES);
    for (int t = 0; t < TYPES; t++) {
        assert_string_equal(s->types.v[t].name, type_names[t]);
        assert_int_equal(s->types.v[t].confidence,
                         t & 1 ? HX_CONFIDENCE_CERTAIN : HX_CONFIDENCE_LIKELY);
    }
    for (hx_obj i = 0; i < f.snapshot->graph.n; i++)
        assert_int_equal(s->graph.type[i], f.type[i] == UNKNOWN ? HX_NO_TYPE : (uint32_t)f.type[i]);
    assert_int_equal(s->named.n, 2);
    assert_string_equal(s->named.v[0].name, "a");
    assert_string_equal(s->named.v[0].expr, "x!y");
    assert_true(s->named.v[0].root == 0 && s->named.v[1].root == 2 && !s->named.v[1].expr);
    assert_true(s->has_resident && s->resident.n == 3);
    assert_true(s->resident.v[0].start == 100 * 4096 && s->resident.v[0].end == 105 * 4096);
    assert_true(s->resident.v[1].start == 108 * 4096 && s->resident.v[2].end == 110 * 4096);
    hx_snapshot_destroy(s);

    hx_store *store;
    assert_done(hx_store_open(path, &store));
    assert_done(hx_store_load_objects(store, 1, NULL, &s));
    const struct hx_graph *g = &f.snapshot->graph;
    assert_int_equal(s->graph.n, g->n);
    assert_memory_equal(s->graph.addr, g->addr, (size_t)g->n * 8);
    assert_memory_equal(s->graph.size, g->size, (size_t)g->n * 8);
    assert_memory_equal(s->graph.state, g->state, g->n);
    assert_true(s->graph.type && !s->graph.fwd && !s->roots.n && !s->root_edges.n);
    assert_int_equal(s->types.n, TYPES);
    assert_done(hx_graph_check(&s->graph));
    hx_snapshot_destroy(s);
    assert_refused(hx_store_load_objects(store, 2, NULL, &s), HX_E_ABSENT, "no snapshot 2");
    assert_done(hx_store_close(store));
    free_facts(&f);
    free(path);
    model_remove(directory);
}

/* --- lies -------------------------------------------------------------------------- */

/* Reads all rows; the error or NULL. */
static hx_error *try_query(const char *path, const char *sql)
{
    hx_store *store;
    hx_rows *rows;
    bool more = true;
    assert_done(hx_store_open(path, &store));
    hx_error *err = hx_query_sql(store, sql, &rows);
    if (!err) {
        while (!err && more)
            err = hx_rows_next(rows, &more);
        hx_rows_end(rows);
    }
    assert_done(hx_store_close(store));
    return err;
}

static void bad_columns(void **state)
{
    (void)state;
    static const struct {
        int column;
        uint64_t value;
        bool loads; /* only rows show it */
    } lies[] = {
        {HX_COL_TYPE, TYPES + 1, false},
        {HX_COL_TYPE, UINT64_MAX, false},
        {HX_COL_TYPE, (uint64_t)1 << 32, false},
        {HX_COL_SET, UINT64_MAX, true},
        {HX_COL_BIN, BINS, true},
        {HX_COL_BIN, UINT64_MAX, true},
        {HX_COL_BIN, UINT64_MAX - 1, true},
        {HX_COL_DOMINATOR, UINT64_MAX, true},
        {HX_COL_DOMINATOR, 100000, true},
        {HX_COL_DOMINATOR, 99999, true},
        {HX_COL_DOMINATOR, (uint64_t)1 << 33, true},
        {HX_COL_RETAINED, UINT64_MAX, true},
        {HX_COL_RETAINED_REST, UINT64_MAX, true},
        {HX_COL_RETAINED_REST, UINT64_MAX - 1, true},
        {HX_COL_SURE, UINT64_MAX, true},
        {HX_COL_SURE, UINT64_MAX - 1, true},
        {HX_COL_SURE_OBJECTS, UINT64_MAX, true},
        {HX_COL_SURE_OBJECTS, 5000, true}, /* fewer than none */
    };
    struct unit_random random = unit_random_begin("bad_columns");
    char *directory = model_directory();
    struct facts f;
    make_facts(&random, 300, &f);
    uint64_t *value = calloc(300, sizeof *value);
    assert_non_null(value);
    size_t step = 1 + unit_part() / 5; /* others each time */
    for (size_t l = unit_below(&random, step); l < sizeof lies / sizeof *lies; l += step) {
        char *path = model_path(directory, "a.hpx");
        struct hx_snapshot *s = NULL;
        store_facts(path, &f);
        put_facts(path, &f);
        hx_error_free(try_query(path, "SELECT * FROM objects"));
        for (hx_obj i = 0; i < 300; i++)
            value[i] = code_of(&f, lies[l].column, i);
        value[unit_below(&random, 300)] = lies[l].value;
        sqlite3 *db = open_file(path);
        int64_t block = 0;
        sqlite3_stmt *st;
        sqlite3_prepare_v2(db, "SELECT id FROM hx_block WHERE family = 1", -1, &st, NULL);
        assert_int_equal(sqlite3_step(st), SQLITE_ROW);
        block = sqlite3_column_int64(st, 0);
        sqlite3_finalize(st);
        put_column(db, "main", block * HX_COLUMN_SLOTS + lies[l].column, value, 300);
        assert_int_equal(sqlite3_close(db), SQLITE_OK);
        assert_refused(try_query(path, "SELECT * FROM objects"), HX_E_FAIL, "damaged");
        hx_error_free(try_query(path, "SELECT * FROM objects WHERE snapshot = 1 ORDER BY"
                                      " sure_retained_bytes DESC LIMIT 5"));
        hx_error_free(try_query(path, "SELECT * FROM objects WHERE type = 'Node' AND bin = 'a'"));
        hx_error *err = load_file(path, &s);
        assert_int_equal(err == NULL, lies[l].loads);
        hx_error_free(err);
        hx_snapshot_destroy(err ? NULL : s);
        unlink(path);
        free(path);
    }
    free(value);
    free_facts(&f);
    model_remove(directory);
}

/* A column of a family: 0, but one value in each block. */
static void put_words(sqlite3 *db, struct unit_random *random, int family, int column, uint64_t lie)
{
    sqlite3_stmt *st;
    uint64_t *value = calloc(HX_BLOCK_ROWS, sizeof *value);
    assert_non_null(value);
    assert_int_equal(
        sqlite3_prepare_v2(db, "SELECT id, n FROM hx_block WHERE family = ?", -1, &st, NULL),
        SQLITE_OK);
    sqlite3_bind_int(st, 1, family);
    while (sqlite3_step(st) == SQLITE_ROW) {
        size_t n = (size_t)sqlite3_column_int64(st, 1), at = unit_below(random, n);
        value[at] = lie;
        put_column(db, "main", sqlite3_column_int64(st, 0) * HX_COLUMN_SLOTS + column, value, n);
        value[at] = 0;
    }
    sqlite3_finalize(st);
    free(value);
}

/* What is said of words, shapes, rounds and holders may be anything. */
static void bad_words(void **state)
{
    (void)state;
    static const struct {
        int family, column;
        uint64_t value;
        const char *sql; /* must fail; NULL: nothing but loading shows it */
        bool loads;
    } lies[] = {
        {HX_FAMILY_EDGE, HX_COL_EVIDENCE, HX_RULE_COUNT, "SELECT rank FROM edges", false},
        {HX_FAMILY_EDGE, HX_COL_EVIDENCE, 64, "SELECT rule FROM edges", false},
        {HX_FAMILY_EDGE, HX_COL_EVIDENCE, UINT64_MAX, "SELECT rank, rule FROM edges", false},
        {HX_FAMILY_ROOT_EDGE, HX_COL_EVIDENCE, HX_RULE_COUNT, "SELECT rank FROM root_edges", false},
        {HX_FAMILY_ROOT_EDGE, HX_COL_EVIDENCE, UINT64_MAX, "SELECT rule FROM root_edges", false},
        {HX_FAMILY_OBJECT, HX_COL_SHAPE, 4, "SELECT shape FROM objects", false},
        {HX_FAMILY_OBJECT, HX_COL_SHAPE, UINT64_MAX, "SELECT shape FROM objects", false},
        {HX_FAMILY_OBJECT, HX_COL_ROUND, 5, NULL, false},
        {HX_FAMILY_OBJECT, HX_COL_ROUND, UINT64_MAX, NULL, false},
        {HX_FAMILY_OBJECT, HX_COL_HOLDER, 3, "SELECT holder FROM objects", true},
        {HX_FAMILY_OBJECT, HX_COL_HOLDER, UINT64_MAX, "SELECT holder FROM objects", true},
        {0, 0, 0, NULL, true},
    };
    struct unit_random random = unit_random_begin("bad_words");
    char *directory = model_directory(), *path = model_path(directory, "a.hpx");
    struct facts f;
    make_facts(&random, 300, &f);
    assert_true(f.snapshot->graph.n_edges && f.snapshot->root_edges.n);
    for (size_t l = 0; l < sizeof lies / sizeof *lies; l++) {
        struct hx_snapshot *s = NULL;
        store_facts(path, &f);
        sqlite3 *db = open_file(path);
        sqlite_run(db,
                   "INSERT INTO hx_shape VALUES(1, 1, 'a', 1, 1), (1, 2, 'b', 1, 1),"
                   " (1, 3, 'c', 1, 1);"
                   "INSERT INTO hx_holding(snapshot, holder, name) VALUES(1, 0, 'x'), (1, 1, 'y');"
                   "INSERT INTO hx_census(snapshot, scheme, holders) VALUES(1, 'root', 1)");
        put_words(db, &random, HX_FAMILY_EDGE, HX_COL_EVIDENCE, HX_RULE_COUNT - 1);
        put_words(db, &random, HX_FAMILY_ROOT_EDGE, HX_COL_EVIDENCE, HX_RULE_COUNT - 1);
        put_words(db, &random, HX_FAMILY_OBJECT, HX_COL_SHAPE, 3);
        put_words(db, &random, HX_FAMILY_OBJECT, HX_COL_ROUND, 4);
        put_words(db, &random, HX_FAMILY_OBJECT, HX_COL_HOLDER, 2);
        if (lies[l].family)
            put_words(db, &random, lies[l].family, lies[l].column, lies[l].value);
        assert_int_equal(sqlite3_close(db), SQLITE_OK);
        if (lies[l].sql)
            assert_refused(try_query(path, lies[l].sql), HX_E_FAIL, "damaged");
        if (!lies[l].family)
            assert_done(try_query(path,
                                  "SELECT shape, round, holder, rank, rule FROM objects, edges"
                                  " WHERE edges.source = objects.address"));
        hx_error_free(try_query(path, "SELECT * FROM objects WHERE round > 2 AND shape = 'a'"
                                      " AND holder = 'y' ORDER BY holder LIMIT 5"));
        hx_error_free(try_query(path, "SELECT * FROM edges WHERE rank = 2 AND rule = 'few'"));
        hx_error *err = load_file(path, &s);
        assert_int_equal(err == NULL, lies[l].loads);
        hx_error_free(err);
        hx_snapshot_destroy(err ? NULL : s);
        unlink(path);
    }
    static const char *const tables[] = {
        "UPDATE hx_shape SET shape = 7 WHERE shape = 3",
        "UPDATE hx_shape SET label = 'a' WHERE shape = 3",
        "DELETE FROM hx_column WHERE id % 64 = 4 AND id / 64 = (SELECT min(id) FROM hx_block"
        " WHERE family = 2)",
        "DELETE FROM hx_column WHERE id % 64 = 4 AND id / 64 = (SELECT min(id) FROM hx_block"
        " WHERE family = 3)",
    };
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        struct hx_snapshot *s = NULL;
        store_facts(path, &f);
        sqlite3 *db = open_file(path);
        sqlite_run(db, "INSERT INTO hx_shape VALUES(1, 1, 'a', 1, 1), (1, 2, 'b', 1, 1),"
                       " (1, 3, 'c', 1, 1)");
        put_words(db, &random, HX_FAMILY_EDGE, HX_COL_EVIDENCE, 1);
        put_words(db, &random, HX_FAMILY_ROOT_EDGE, HX_COL_EVIDENCE, 1);
        put_words(db, &random, HX_FAMILY_OBJECT, HX_COL_SHAPE, 3);
        sqlite_run(db, "%s", tables[i]);
        assert_int_equal(sqlite3_close(db), SQLITE_OK);
        hx_error *err = load_file(path, &s);
        assert_non_null(err);
        assert_int_equal(err->kind, HX_E_CORRUPT);
        hx_error_free(err);
        unlink(path);
    }
    store_facts(path, &f);
    sqlite3 *db = open_file(path);
    put_words(db, &random, HX_FAMILY_EDGE, HX_COL_EVIDENCE, 1);
    sqlite_run(db, "INSERT INTO hx_census(snapshot, scheme, holders, rules)"
                   " VALUES(1, 'root', 1, '-nothing')");
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_refused(try_query(path, "SELECT rank FROM edges"), HX_E_FAIL, "damaged");
    free_facts(&f);
    free(path);
    model_remove(directory);
}

static void bad_tables(void **state)
{
    (void)state;
    static const char *const errors[] = {
        "UPDATE hx_type SET type = type + 1 WHERE type = 12",
        "UPDATE hx_type SET type = -1 WHERE type = 5",
        "UPDATE hx_type SET name = 'Node' WHERE type = 7",
        "DELETE FROM hx_type",
        "INSERT INTO hx_named VALUES(1, 0, 'a', NULL, 1000000)",
        "INSERT INTO hx_named VALUES(1, 0, 'a', NULL, -1)",
        "INSERT INTO hx_named VALUES(1, 0, 'a', NULL, 0), (1, 1, 'a', NULL, 0)",
        "DELETE FROM hx_column WHERE id % 64 = 5 AND id / 64 = (SELECT max(id) FROM hx_block"
        " WHERE family = 1)",
        "DELETE FROM hx_column WHERE id % 64 = 5 AND id / 64 = (SELECT min(id) FROM hx_block"
        " WHERE family = 1)",
    };
    static const struct {
        uint64_t first, last, gap[3], pages[3];
    } ranges[] = {
        {100, 108, {0, 3, 0}, {5, 1, 1}},                 /* another last one */
        {100, 109, {1, 3, 0}, {5, 1, 1}},                 /* the first has a gap */
        {100, 109, {0, 3, 1}, {5, 0, 1}},                 /* nothing */
        {UINT64_MAX, 8, {0, 3, 0}, {5, 1, 1}},            /* behind the end of all */
        {100, 109, {0, UINT64_MAX - 4, 0}, {5, 8, 1}},    /* backwards */
        {100, 109, {0, 0, 0}, {(uint64_t)1 << 52, 1, 1}}, /* more than memory has */
        {(uint64_t)1 << 52, 109, {0, 0, 0}, {1, 1, 1}},
    };
    struct unit_random random = unit_random_begin("bad_tables");
    char *directory = model_directory(), *path = model_path(directory, "a.hpx");
    struct facts f;
    struct hx_snapshot *s;
    make_facts(&random, 66000, &f);
    size_t rounds = sizeof errors / sizeof *errors;
    size_t step = 1 + unit_part() / 5;
    for (size_t i = unit_below(&random, step); i < rounds; i += step) {
        store_facts(path, &f);
        put_facts(path, &f);
        sqlite3 *db = open_file(path);
        sqlite_run(db, "%s", errors[i]);
        assert_int_equal(sqlite3_close(db), SQLITE_OK);
        hx_error_free(try_query(path, "SELECT * FROM objects"));
        hx_error_free(try_query(path, "SELECT * FROM objects WHERE type = 'Node'"));
        hx_error *err = load_file(path, &s);
        if (!err)
            fail_msg("no error after %s", errors[i]);
        assert_int_equal(err->kind, HX_E_CORRUPT);
        hx_error_free(err);
        unlink(path);
    }
    free_facts(&f);
    make_facts(&random, 30, &f);
    store_facts(path, &f);
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        put_ranges(path, ranges[i].first, ranges[i].last, ranges[i].gap, ranges[i].pages, 3);
        assert_refused(load_file(path, &s), HX_E_CORRUPT, "resident pages");
    }
    free_facts(&f);
    free(path);
    model_remove(directory);
}

/* --- conditions -------------------------------------------------------------------- */

static void regexps(void **state)
{
    (void)state;
    static const struct {
        const char *sql;
        int64_t answer; /* -1: NULL */
    } questions[] = {
        {"SELECT regexp('^a.c$', 'abc')", 1},
        {"SELECT regexp('b', 'ac')", 0},
        {"SELECT 'abc' REGEXP 'b+'", 1},
        {"SELECT regexp('^-?[0-9]+$', -17)", 1},
        {"SELECT regexp('^0[.]5$', 0.5)", 1},
        {"SELECT coalesce(regexp('a', NULL), -1)", -1},
        {"SELECT coalesce(regexp(NULL, 'a'), -1)", -1},
        {"SELECT sum(regexp(p, 'abc')) FROM (SELECT 'a' AS p UNION ALL SELECT 'x' UNION ALL"
         " SELECT 'c$')",
         2},
    };
    struct unit_random random = unit_random_begin("regexps");
    char *directory = model_directory(), *path = model_path(directory, "a.hpx");
    struct facts f;
    hx_store *store;
    hx_rows *rows;
    bool more;
    make_facts(&random, 2000, &f);
    store_facts(path, &f);
    put_facts(path, &f);
    assert_done(hx_store_open(path, &store));
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++)
        assert_int_equal(ask_int(store, questions[i].sql), questions[i].answer);
    assert_refused(try_query(path, "SELECT regexp('(', 'a')"), HX_E_FAIL, "");
    assert_refused(try_query(path, "SELECT regexp('a' || char(0), 'a')"), HX_E_FAIL, "zero byte");

    /* what --where does */
    struct hx_filter_schema schema;
    struct hx_text sql = {0};
    HX_FILTER hx_filter *filter = NULL;
    assert_true(hx_view_schema("objects", &schema));
    assert_done(hx_filter_parse("type ~ '^[Nn]ode$' and bytes >= 64", &schema, NULL, &filter));
    hx_filter_sql(filter, &sql);
    struct hx_query query = {
        .view = "objects", .snapshot = 1, .limit = -1, .where = hx_text_str(&sql)};
    assert_done(hx_query_view(store, &query, &rows));
    size_t expected = 0, found = 0;
    for (hx_obj i = 0; i < 2000; i++)
        expected += f.type[i] < 2 && f.snapshot->graph.size[i] >= 64;
    for (;; found++) {
        assert_done(hx_rows_next(rows, &more));
        if (!more)
            break;
    }
    assert_int_equal(found, expected);
    hx_rows_end(rows);
    hx_text_free(&sql);
    assert_done(hx_store_close(store));
    free_facts(&f);
    free(path);
    model_remove(directory);
}

/* The table of columns is what the views have. */
static void schema_is_true(void **state)
{
    (void)state;
    hx_store *store;
    struct hx_filter_schema all, one;
    size_t n = 0;
    assert_done(hx_store_temporary(&store));
    assert_true(hx_view_schema(NULL, &all));
    assert_string_equal(all.row, "snapshots");
    for (size_t i = 0; i < all.n; i++)
        assert_int_equal(all.columns[i].id, i);
    for (const struct hx_view *view = hx_views; view->name; view++) {
        struct hx_query query = {.view = view->name, .snapshot = 1, .limit = -1};
        hx_rows *rows;
        assert_true(hx_view_schema(view->name, &one));
        assert_done(hx_query_view(store, &query, &rows));
        assert_int_equal(hx_rows_columns(rows), one.n);
        for (size_t c = 0; c < one.n; c++) {
            assert_string_equal(one.columns[c].name, hx_rows_name(rows, c));
            assert_string_equal(one.columns[c].view, view->name);
            assert_int_equal(one.columns[c].id - one.columns[0].id, c);
        }
        n += one.n;
        hx_rows_end(rows);
    }
    assert_int_equal(n, all.n);
    assert_false(hx_view_schema("object", &one));
    assert_done(hx_store_close(store));
}

/* --- other programs ---------------------------------------------------------------- */

static int first_int(void *ret, int columns, char **values, char **names)
{
    (void)columns, (void)names;
    *(long long *)ret = values[0] ? atoll(values[0]) : -1;
    return 0;
}

static void extension(void **state)
{
    (void)state;
    if (access("./heapx_sqlite.so", R_OK) != 0)
        skip();
    struct unit_random random = unit_random_begin("extension");
    char *directory = model_directory(), *path = model_path(directory, "a.hpx"), *message = NULL;
    struct facts f;
    long long value, expected = 0;
    make_facts(&random, 1000, &f);
    store_facts(path, &f);
    put_facts(path, &f);
    for (hx_obj i = 0; i < 1000; i++)
        expected += f.type[i] == 0 && f.bin[i] == 4;
    sqlite3 *db = open_file(path);
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1, NULL);
    if (sqlite3_load_extension(db, "./heapx_sqlite", NULL, &message) != SQLITE_OK)
        fail_msg("%s", message);
    static const char *const questions[] = {
        "SELECT count(*) FROM objects WHERE type = 'Node' AND bin = 'a+b'",
        "SELECT count(*) FROM objects WHERE +type = 'Node' AND +bin = 'a+b'",
        "SELECT count(*) FROM objects WHERE regexp('^No', type) AND regexp('^a[+]b', bin)",
    };
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) {
        assert_int_equal(sqlite3_exec(db, questions[i], first_int, &value, NULL), SQLITE_OK);
        assert_int_equal(value, expected);
    }
    /* a store of the first schema has no names */
    sqlite_run(db, "DROP VIEW types; DROP VIEW bins; DROP VIEW pages; DROP TABLE hx_type;"
                   "DROP TABLE hx_bin; DELETE FROM hx_column WHERE id %% 64 BETWEEN 5 AND 12 AND"
                   " id / 64 IN (SELECT id FROM hx_block WHERE family = 1)");
    assert_int_equal(sqlite3_exec(db,
                                  "SELECT count(*) FROM objects WHERE type IS NULL AND bin IS"
                                  " NULL AND set_id IS NULL AND retained_bytes IS NULL",
                                  first_int, &value, NULL),
                     SQLITE_OK);
    assert_int_equal(value, 1000);
    assert_int_equal(sqlite3_exec(db, "SELECT count(*) FROM objects WHERE type = 'Node'", first_int,
                                  &value, NULL),
                     SQLITE_OK);
    assert_int_equal(value, 0);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    free_facts(&f);
    free(path);
    model_remove(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_facts), cmocka_unit_test(picked),
        cmocka_unit_test(interrupted),    cmocka_unit_test(constraints),
        cmocka_unit_test(overlaid),       cmocka_unit_test(loaded),
        cmocka_unit_test(bad_columns),    cmocka_unit_test(bad_words),
        cmocka_unit_test(bad_tables),     cmocka_unit_test(regexps),
        cmocka_unit_test(schema_is_true), cmocka_unit_test(extension),
    };
    return unit_run_some(tests);
}
