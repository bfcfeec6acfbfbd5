/* alike.c - looks no further back than a few snapshots, so that what it costs does not depend on
 * how many there are. */
#include "store/write/alike.h"

#include "base/cleanup.h"
#include "store/db.h"

#include <string.h>

enum {
    SMALL_COLUMN = 64, /* bytes: as much as it would take to say where the same is */
    LARGE_COLUMN = 1 << 12
};

/* ?1: the snapshot, ?2: another one */
#define PART(name, table, condition, columns)                                                      \
    {                                                                                              \
        .part = name, .drop = "DELETE FROM " table " WHERE snapshot = ?1" condition,               \
        .give = "UPDATE " table " SET snapshot = ?2 WHERE snapshot = ?1" condition,                \
        .compare =                                                                                 \
            "SELECT (SELECT count(*) FROM " table " WHERE snapshot = ?1" condition                 \
            ") = (SELECT count(*) FROM " table " WHERE snapshot = ?2" condition                    \
            ") AND NOT EXISTS (SELECT " columns " FROM " table " WHERE snapshot = ?1" condition    \
            " EXCEPT SELECT " columns " FROM " table " WHERE snapshot = ?2" condition ")",         \
    }
#define TREE(kind)                                                                                 \
    PART(kind, "hx_tree", " AND kind = '" kind "'",                                                \
         "node, parent, depth, label, bytes, objects, retained_bytes")

static const struct {
    const char *part, *drop, *give, *compare;
} parts[] = {
    [HX_ALIKE_DOMINATORS] = PART("dominators", "hx_dominator", "",
                                 "position, address, type, bytes, retained_bytes,"
                                 " retained_objects, sure_retained_bytes, sure_retained_objects,"
                                 " parent"),
    [HX_ALIKE_TREE] = TREE("dominator"),
    [HX_ALIKE_HOLDER_TREE] = TREE("holder"),
};

/* Runs a statement of ?1, the snapshot, ?2, another number, and ?3, the name of a part, as far as
 * it has them; *ret: the number that it gives, 0: no row. NULL: it gives none. */
static hx_error *ask(struct hx_writer *w, const char *sql, int64_t other, const char *part,
                     int64_t *ret)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(w->db, w->what, sql, &st));
    sqlite3_bind_int64(st, 1, w->id);
    if (sqlite3_bind_parameter_count(st) > 1)
        sqlite3_bind_int64(st, 2, other);
    if (sqlite3_bind_parameter_count(st) > 2)
        sqlite3_bind_text(st, 3, part, -1, SQLITE_STATIC);
    int code = sqlite3_step(st);
    if (ret)
        *ret = code == SQLITE_ROW ? sqlite3_column_int64(st, 0) : 0;
    return code == SQLITE_ROW || code == SQLITE_DONE ? NULL : hx_db_error(w->db, code, w->what);
}

static hx_error *find_before(struct hx_writer *w)
{
    if (w->before_known || !w->snapshot->pid)
        return NULL;
    w->before_known = true;
    return ask(w,
               "SELECT snapshot FROM hx_snapshot WHERE snapshot < ?1 AND snapshot >= ?1 - 64"
               " AND pid = ?2 ORDER BY snapshot DESC LIMIT 1",
               w->snapshot->pid, NULL, &w->before);
}

/* --- rows -------------------------------------------------------------------------- */

hx_error *hx_alike_forget(struct hx_writer *w, enum hx_alike_part number)
{
    const char *part = parts[number].part;
    int64_t heir;
    HX_TRY(
        ask(w, "DELETE FROM hx_alike WHERE snapshot = ?1 AND ?2 = 0 AND part = ?3", 0, part, NULL));
    HX_TRY(ask(w, "SELECT min(snapshot) FROM hx_alike WHERE whose = ?1 AND ?2 = 0 AND part = ?3", 0,
               part, &heir));
    if (!heir)
        return ask(w, parts[number].drop, 0, part, NULL);
    HX_TRY(ask(w, parts[number].give, heir, part, NULL));
    HX_TRY(ask(w, "DELETE FROM hx_alike WHERE whose = ?1 AND snapshot = ?2 AND part = ?3", heir,
               part, NULL));
    return ask(w, "UPDATE hx_alike SET whose = ?2 WHERE whose = ?1 AND part = ?3", heir, part,
               NULL);
}

hx_error *hx_alike_share(struct hx_writer *w, enum hx_alike_part number)
{
    const char *part = parts[number].part;
    int64_t whose, same;
    if (w->overlay)
        return NULL;
    HX_TRY(find_before(w));
    if (!w->before)
        return NULL;
    HX_TRY(ask(w,
               "SELECT coalesce((SELECT whose FROM hx_alike WHERE snapshot = ?2 AND part = ?3"
               " AND ?1), ?2)",
               w->before, part, &whose));
    HX_TRY(ask(w, parts[number].compare, whose, part, &same));
    if (!same)
        return NULL;
    HX_TRY(ask(w, parts[number].drop, 0, part, NULL));
    return ask(w, "INSERT INTO hx_alike VALUES(?1, ?3, ?2)", whose, part, NULL);
}

/* --- columns ----------------------------------------------------------------------- */

/* The number in hx_pack of what the snapshot before has in the same place; 0: it is something else,
 * or nothing. */
static hx_error *find_same(struct hx_writer *w, int64_t block, enum hx_column_id column,
                           const void *blob, size_t bytes, int64_t *ret)
{
    *ret = 0;
    HX_TRY(find_before(w));
    if (!w->before)
        return NULL;
    if (!w->same)
        HX_TRY(hx_db_prepare(w->db, w->what,
                             "SELECT p.pack, p.data FROM hx_block AS a JOIN hx_block AS b"
                             " ON b.snapshot = ?1 AND b.family = a.family"
                             " AND b.first_row = a.first_row JOIN hx_column AS c"
                             " ON c.id = b.id * 64 + ?3 JOIN hx_pack AS p ON p.pack = c.data"
                             " WHERE a.id = ?2 AND typeof(c.data) = 'integer'",
                             &w->same));
    _Static_assert(HX_COLUMN_SLOTS == 64, "as above");
    sqlite3_bind_int64(w->same, 1, w->before);
    sqlite3_bind_int64(w->same, 2, block);
    sqlite3_bind_int(w->same, 3, (int)column);
    int code = sqlite3_step(w->same);
    if (code == SQLITE_ROW && (size_t)sqlite3_column_bytes(w->same, 1) == bytes &&
        memcmp(sqlite3_column_blob(w->same, 1), blob, bytes) == 0)
        *ret = sqlite3_column_int64(w->same, 0);
    sqlite3_reset(w->same);
    return code == SQLITE_ROW || code == SQLITE_DONE ? NULL : hx_db_error(w->db, code, w->what);
}

hx_error *hx_alike_put(struct hx_writer *w, int64_t block, enum hx_column_id column,
                       const void *blob, size_t bytes)
{
    int64_t id = block * HX_COLUMN_SLOTS + column, pack;
    if (w->overlay || bytes <= SMALL_COLUMN || bytes > LARGE_COLUMN)
        return hx_insert(&w->insert, column, .id = hx_int(id), .data = {blob, bytes});
    HX_TRY(find_same(w, block, column, blob, bytes, &pack));
    if (!pack) {
        HX_TRY(hx_insert(&w->insert, pack, .data = {blob, bytes}));
        pack = sqlite3_last_insert_rowid(w->db);
    }
    if (!w->packed)
        HX_TRY(hx_db_prepare(w->db, w->what, "INSERT OR REPLACE INTO hx_column VALUES(?, ?)",
                             &w->packed));
    sqlite3_bind_int64(w->packed, 1, id);
    sqlite3_bind_int64(w->packed, 2, pack);
    return hx_db_run(w->db, w->what, w->packed);
}
