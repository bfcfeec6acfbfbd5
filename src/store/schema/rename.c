/* rename.c - stores of schema 6 and before get the names of today.
 *
 * There the name of a variable is the linker's. It goes into the column `symbol`, and the name
 * becomes what a program calls it. Retainers that are called the same then are one, and so are sets
 * of the same retainers: the one with the lowest number stays, and the bytes of the others are
 * added to it. All other sets keep their numbers. */
#include "store/schema/rename.h"

#include "base/cleanup.h"
#include "store/db.h"
#include "store/objects/packed_column.h"
#include "store/schema/schema.h"
#include "store/write/sets.h"
#include "sym/demangle.h"

#include <stdlib.h>
#include <string.h>

#define MANGLED " GLOB '_[ZR]*'"
#define TAGGED  " LIKE '%[abi:%'"

/* Of a type that no other one of its snapshot is called like, but for ABI tags. */
#define UNTAG_TYPE(table, column)                                                                  \
    "UPDATE " table " SET " column " = hx_untagged(" column ") WHERE " column TAGGED               \
    " AND NOT EXISTS (SELECT 1 FROM hx_type AS o WHERE o.snapshot = " table ".snapshot"            \
    " AND o.name <> " table "." column " AND hx_untagged(o.name) = hx_untagged(" table "." column  \
    "))"

/* Whose roots are still called differently. */
#define RENAMED_BINS                                                                               \
    " snapshot IN (SELECT snapshot FROM hx_named GROUP BY snapshot"                                \
    " HAVING count(*) = count(DISTINCT hx_written(name)))"

/* clang-format off */
static const char *const names[] = {
    "UPDATE hx_root SET symbol = name WHERE kind_name = 'global'"
    " AND (module IS NULL OR substr(name, 1, length(module) + 3) <> module || '+0x')",
    "UPDATE hx_root SET name = hx_written(symbol) WHERE symbol" MANGLED,
    /* ABI tags stay where the module has a second name then */
    "UPDATE hx_root SET name = hx_full(symbol) WHERE symbol" MANGLED
    " AND hx_full(symbol)" TAGGED " AND EXISTS (SELECT 1 FROM hx_root AS o"
    " WHERE o.snapshot = hx_root.snapshot AND o.module IS hx_root.module"
    " AND o.symbol <> hx_root.symbol AND hx_written(o.symbol) = hx_written(hx_root.symbol))",

    "UPDATE hx_named SET name = hx_written(name) WHERE name" MANGLED " AND" RENAMED_BINS,
    "UPDATE hx_root SET name = hx_written(name) WHERE kind_name = 'named' AND name" MANGLED
    " AND" RENAMED_BINS,
    "UPDATE hx_bin SET roots = hx_list(roots) WHERE" RENAMED_BINS,

    UNTAG_TYPE("hx_leak", "type"),
    UNTAG_TYPE("hx_dominator", "type"),
    "UPDATE hx_retainer SET label = hx_untagged(label) WHERE space = 'type' AND label" TAGGED
    " AND NOT EXISTS (SELECT 1 FROM hx_retainer AS o WHERE o.space = 'type'"
    " AND o.label <> hx_retainer.label AND hx_untagged(o.label) = hx_untagged(hx_retainer.label))",
    UNTAG_TYPE("hx_type", "name"),

    "CREATE TEMP TABLE hx_called(symbol TEXT PRIMARY KEY, name TEXT) WITHOUT ROWID",
    "INSERT INTO temp.hx_called SELECT symbol, min(name) FROM hx_root"
    " WHERE symbol" MANGLED " GROUP BY symbol",
    "UPDATE hx_retainer SET symbol = label WHERE space = 'root' AND kind = 'global'"
    " AND instr(label, '+0x') = 0",
    /* kept: the first one of a label */
    "CREATE TEMP TABLE hx_renamed(retainer INTEGER PRIMARY KEY, label TEXT, kept INTEGER,"
    " others INTEGER, is_new INTEGER)",
    "INSERT INTO temp.hx_renamed SELECT retainer, called, min(retainer) OVER same,"
    " count(*) OVER same - 1, called <> label FROM (SELECT r.retainer AS retainer,"
    " r.space AS space, r.label AS label, CASE WHEN r.symbol" MANGLED
    " THEN coalesce(c.name, hx_written(r.symbol)) ELSE r.label END AS called"
    " FROM hx_retainer AS r LEFT JOIN temp.hx_called AS c ON c.symbol = r.symbol)"
    " WINDOW same AS (PARTITION BY space, called)",
    "UPDATE hx_retainer SET (module, symbol) = (SELECT"
    " iif(count(*) = count(o.module) AND count(DISTINCT o.module) = 1, min(o.module), NULL),"
    " iif(count(*) = count(o.symbol) AND count(DISTINCT o.symbol) = 1, min(o.symbol), NULL)"
    " FROM temp.hx_renamed AS n JOIN hx_retainer AS o ON o.retainer = n.retainer"
    " WHERE n.kept = hx_retainer.retainer)"
    " WHERE retainer IN (SELECT kept FROM temp.hx_renamed WHERE others > 0)",
    "DELETE FROM hx_retainer WHERE retainer IN"
    " (SELECT retainer FROM temp.hx_renamed WHERE kept <> retainer)",
    "UPDATE hx_retainer SET label = (SELECT label FROM temp.hx_renamed AS n"
    " WHERE n.retainer = hx_retainer.retainer)"
    " WHERE retainer IN (SELECT retainer FROM temp.hx_renamed WHERE is_new)",

    /* members lie in the order of their labels */
    "CREATE TEMP TABLE hx_resorted(set_id INTEGER, retainer INTEGER,"
    " PRIMARY KEY(set_id, retainer)) WITHOUT ROWID",
    "INSERT OR IGNORE INTO temp.hx_resorted SELECT m.set_id, n.kept FROM hx_set_member AS m"
    " JOIN temp.hx_renamed AS n ON n.retainer = m.retainer WHERE m.set_id IN"
    " (SELECT x.set_id FROM hx_set_member AS x JOIN temp.hx_renamed AS y ON y.retainer = x.retainer"
    " WHERE y.is_new OR y.others > 0)",
    "DELETE FROM hx_set_member WHERE set_id IN (SELECT set_id FROM temp.hx_resorted)",
    "INSERT INTO hx_set_member SELECT x.set_id, row_number() OVER (PARTITION BY x.set_id"
    " ORDER BY r.label, r.space), x.retainer FROM temp.hx_resorted AS x"
    " JOIN hx_retainer AS r ON r.retainer = x.retainer",
    "UPDATE hx_set SET (members, key) = (SELECT count(*), hx_key(m.retainer)"
    " FROM hx_set_member AS m WHERE m.set_id = hx_set.set_id)"
    " WHERE set_id IN (SELECT set_id FROM temp.hx_resorted)",
};

/* Sets that became the same: `kept` is the first of them. */
static const char *const sets[] = {
    "CREATE TEMP TABLE hx_merged(set_id INTEGER PRIMARY KEY, kept INTEGER)",
    "INSERT INTO temp.hx_merged SELECT set_id, kept FROM (SELECT set_id,"
    " min(set_id) OVER same AS kept, count(*) OVER same AS n FROM (SELECT s.set_id AS set_id,"
    " (SELECT group_concat(retainer) FROM (SELECT m.retainer AS retainer FROM hx_set_member AS m"
    " WHERE m.set_id = s.set_id ORDER BY m.position)) AS list FROM hx_set AS s WHERE s.set_id IN"
    " (SELECT x.set_id FROM temp.hx_resorted AS x JOIN temp.hx_renamed AS n"
    " ON n.retainer = x.retainer WHERE n.others > 0)) WINDOW same AS (PARTITION BY list))"
    " WHERE n > 1",
    "CREATE TEMP TABLE hx_sums AS SELECT r.snapshot, m.kept, sum(r.bytes) AS bytes,"
    " sum(r.objects) AS objects FROM hx_retention AS r JOIN temp.hx_merged AS m"
    " ON m.set_id = r.set_id GROUP BY 1, 2",
    "DELETE FROM hx_retention WHERE set_id IN (SELECT set_id FROM temp.hx_merged)",
    "INSERT INTO hx_retention SELECT * FROM temp.hx_sums",
    "DROP TABLE temp.hx_sums",
    "CREATE TEMP TABLE hx_sums AS SELECT h.snapshot, h.stack_id, h.state, m.kept,"
    " sum(h.bytes) AS bytes, sum(h.objects) AS objects FROM hx_holder AS h"
    " JOIN temp.hx_merged AS m ON m.set_id = h.set_id GROUP BY 1, 2, 3, 4",
    "DELETE FROM hx_holder WHERE set_id IN (SELECT set_id FROM temp.hx_merged)",
    "INSERT INTO hx_holder SELECT * FROM temp.hx_sums",
    "DROP TABLE temp.hx_sums",
    /* pages that only they hold together were not counted */
    "CREATE TEMP TABLE hx_sums AS SELECT DISTINCT p.snapshot, p.census, m.kept, NULL, NULL"
    " FROM hx_page AS p JOIN temp.hx_merged AS m ON m.set_id = p.key WHERE p.census = 'retainer'",
    "DELETE FROM hx_page WHERE census = 'retainer'"
    " AND key IN (SELECT set_id FROM temp.hx_merged)",
    "INSERT INTO hx_page SELECT * FROM temp.hx_sums",
    "DROP TABLE temp.hx_sums",
    "UPDATE hx_census SET sets = (SELECT count(*) FROM hx_retention AS r"
    " WHERE r.snapshot = hx_census.snapshot AND r.set_id <> 0) WHERE scheme IS NOT NULL"
    " AND EXISTS (SELECT 1 FROM temp.hx_merged)",
    "DELETE FROM hx_set_member WHERE set_id IN"
    " (SELECT set_id FROM temp.hx_merged WHERE kept <> set_id)",
    "DELETE FROM hx_set WHERE set_id IN (SELECT set_id FROM temp.hx_merged WHERE kept <> set_id)",
};

static const char *const ends[] = {
    "DROP TABLE temp.hx_called", "DROP TABLE temp.hx_renamed", "DROP TABLE temp.hx_resorted",
    "DROP TABLE temp.hx_merged",
};
/* clang-format on */

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* --- functions --------------------------------------------------------------------- */

typedef void put_fn(struct hx_text *text, const char *name);

static void put_written(struct hx_text *text, const char *name)
{
    HX_FREE char *written = hx_written_name(name);
    if (written)
        hx_text_puts(text, written);
    else
        text->failed = true;
}

/* Names joined by '+'. */
static void put_list(struct hx_text *text, const char *list)
{
    while (*list) {
        size_t n = strcspn(list, "+");
        HX_FREE char *name = strndup(list, n);
        if (name)
            put_written(text, name);
        else
            text->failed = true;
        list += n;
        if (*list)
            hx_text_putc(text, *list++);
    }
}

static const struct function {
    const char *name;
    put_fn *put;
} functions[] = {
    {"hx_written", put_written},
    {"hx_full", hx_demangle_symbol},
    {"hx_untagged", hx_put_untagged},
    {"hx_list", put_list},
};

static void call_rename(sqlite3_context *context, int n, sqlite3_value **value)
{
    const struct function *function = sqlite3_user_data(context);
    const char *name = (const char *)sqlite3_value_text(value[0]);
    struct hx_text text = {0};
    (void)n;
    if (!name)
        return;
    function->put(&text, name);
    if (text.failed)
        sqlite3_result_error_nomem(context);
    else
        sqlite3_result_text64(context, hx_text_str(&text), text.n, SQLITE_TRANSIENT, SQLITE_UTF8);
    hx_text_free(&text);
}

static void key_step(sqlite3_context *context, int n, sqlite3_value **value)
{
    uint64_t *key = sqlite3_aggregate_context(context, sizeof *key);
    (void)n;
    if (key)
        *key += hx_set_weight(sqlite3_value_int64(value[0]));
}

static void key_final(sqlite3_context *context)
{
    const uint64_t *key = sqlite3_aggregate_context(context, 0);
    sqlite3_result_int64(context, key ? (int64_t)*key : 0);
}

static hx_error *set_functions(sqlite3 *db, const char *what, bool there)
{
    int code = SQLITE_OK;
    for (size_t i = 0; i < COUNT(functions) && code == SQLITE_OK; i++)
        code = sqlite3_create_function(
            db, functions[i].name, 1, SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_DIRECTONLY,
            (void *)&functions[i], there ? call_rename : NULL, NULL, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_create_function(db, "hx_key", 1, SQLITE_UTF8 | SQLITE_DIRECTONLY, NULL, NULL,
                                       there ? key_step : NULL, there ? key_final : NULL);
    return code == SQLITE_OK ? NULL : hx_db_error(db, code, what);
}

/* --- objects ----------------------------------------------------------------------- */

struct merge {
    sqlite3 *db;
    const char *what;
    hx_codec *codec;
    sqlite3_stmt *blocks, *kept, *set;
    uint64_t *value;
    uint16_t *place; /* of each its own: values are replaced where they lie */
    uint8_t *out;
};

/* Of one block the sets of its objects. */
static hx_error *merge_block(struct merge *m)
{
    int64_t n = sqlite3_column_int64(m->blocks, 1);
    bool changed = false;
    if (n < 0 || n > HX_BLOCK_ROWS)
        return hx_error_new(HX_E_CORRUPT, m->what, "take it from a backup or make it again",
                            "the store is damaged (objects)");
    HX_TRY(hx_column_decode(m->codec, sqlite3_column_blob(m->blocks, 2),
                            (size_t)sqlite3_column_bytes(m->blocks, 2), m->place, m->value,
                            (size_t)n));
    uint64_t known = UINT64_MAX, kept = UINT64_MAX;
    for (int64_t i = 0; i < n; i++) {
        if (m->value[i] != known) {
            known = kept = m->value[i];
            sqlite3_bind_int64(m->kept, 1, (int64_t)known);
            if (sqlite3_step(m->kept) == SQLITE_ROW)
                kept = (uint64_t)sqlite3_column_int64(m->kept, 0);
            sqlite3_reset(m->kept);
        }
        changed |= kept != m->value[i];
        m->value[i] = kept;
    }
    size_t bytes;
    if (!changed)
        return NULL;
    bool placed = hx_column_is_placed(sqlite3_column_blob(m->blocks, 2),
                                      (size_t)sqlite3_column_bytes(m->blocks, 2));
    HX_TRY(
        hx_column_encode(m->codec, m->value, placed ? m->place : NULL, (size_t)n, m->out, &bytes));
    sqlite3_bind_int64(m->set, 1, sqlite3_column_int64(m->blocks, 0));
    sqlite3_bind_blob64(m->set, 2, m->out, bytes, SQLITE_TRANSIENT);
    return hx_db_run(m->db, m->what, m->set);
}

static hx_error *merge_blocks(struct merge *m)
{
    int code;
    HX_TRY(hx_codec_create(&m->codec));
    m->value = calloc(HX_BLOCK_ROWS, sizeof *m->value);
    m->out = malloc(hx_column_bound(HX_BLOCK_ROWS));
    m->place = malloc(HX_BLOCK_ROWS * sizeof *m->place);
    HX_NEED(m->value && m->out && m->place);
    for (size_t i = 0; i < HX_BLOCK_ROWS; i++)
        m->place[i] = (uint16_t)i;
    HX_TRY(hx_db_prepare(m->db, m->what,
                         "SELECT c.id, b.n, c.data FROM hx_block AS b JOIN hx_column AS c"
                         " ON c.id = b.id * 64 + 6 WHERE b.family = 1",
                         &m->blocks));
    _Static_assert(HX_COLUMN_SLOTS == 64 && HX_COL_SET == 6 && HX_FAMILY_OBJECT == 1, "as above");
    HX_TRY(hx_db_prepare(m->db, m->what, "SELECT kept FROM temp.hx_merged WHERE set_id = ?",
                         &m->kept));
    HX_TRY(hx_db_prepare(m->db, m->what, "UPDATE hx_column SET data = ?2 WHERE id = ?1", &m->set));
    while ((code = sqlite3_step(m->blocks)) == SQLITE_ROW)
        HX_TRY(merge_block(m));
    return code == SQLITE_DONE ? NULL : hx_db_error(m->db, code, m->what);
}

static hx_error *merge_objects(sqlite3 *db, const char *what)
{
    struct merge merge = {.db = db, .what = what};
    int64_t n;
    HX_TRY(hx_db_int(db, what, "SELECT count(*) FROM temp.hx_merged", &n));
    if (!n)
        return NULL;
    hx_error *err = merge_blocks(&merge);
    sqlite3_finalize(merge.blocks);
    sqlite3_finalize(merge.kept);
    sqlite3_finalize(merge.set);
    hx_codec_destroy(merge.codec);
    free(merge.value);
    free(merge.place);
    free(merge.out);
    return err;
}

/* --- all --------------------------------------------------------------------------- */

static hx_error *run_rename(sqlite3 *db, const char *what, const char *const *sql, size_t n)
{
    for (size_t i = 0; i < n; i++)
        HX_TRY(hx_db_exec(db, what, sql[i]));
    return NULL;
}

hx_error *hx_rename_migrated(sqlite3 *db, const char *what)
{
    HX_TRY(set_functions(db, what, true));
    hx_error *err = run_rename(db, what, names, COUNT(names));
    if (!err)
        err = run_rename(db, what, sets, COUNT(sets));
    if (!err)
        err = merge_objects(db, what);
    if (!err)
        err = run_rename(db, what, ends, COUNT(ends));
    hx_error *after = set_functions(db, what, false);
    if (err)
        hx_error_free(after);
    return err ? err : after;
}
