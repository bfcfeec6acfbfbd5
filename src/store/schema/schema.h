/* schema.h - tables and views of the store, and the statements around them.
 *
 * Tables whose names begin with hx_ are heapx's own; the views over them are public and
 * change only with HX_STORE_SCHEMA. Rows of one snapshot become visible with its row in
 * hx_snapshot, which is written last.
 *
 * Objects, edges and root edges lie in blocks of HX_BLOCK_ROWS rows: hx_block has one row
 * for each block, hx_column one blob for each column of a block (packed_column.h), so that a
 * query reads only the columns that it uses, and later schemas add columns to old
 * snapshots without rewriting them.
 */
#ifndef HX_STORE_SCHEMA_SCHEMA_H
#define HX_STORE_SCHEMA_SCHEMA_H

#include "base/progress.h"
#include "base/text.h"
#include "store/schema/row.h"
#include "store/sqlite.h"

#include <stdbool.h>
#include <stdint.h>

/* hx_block.family */
enum hx_family {
    HX_FAMILY_OBJECT = 1,    /* keys: address of the first and last object */
    HX_FAMILY_EDGE = 2,      /* keys: index of the first and last source object */
    HX_FAMILY_ROOT_EDGE = 3, /* keys: number (root_id) of the first and last root */
    HX_FAMILY_RESIDENT = 4,  /* ranges of resident pages; keys: first page of the first and last */
};

/* hx_column.id = hx_block.id * HX_COLUMN_SLOTS + column. Numbers are never reused. */
#define HX_COLUMN_SLOTS 64
static inline bool hx_block_id_is_sane(int64_t id)
{
    return id > 0 && id < INT64_MAX / HX_COLUMN_SLOTS;
}
enum hx_column_id {
    HX_COL_GAP = 0,   /* object: bytes from the end of the one before; 0 for a block's first */
    HX_COL_SIZE = 1,  /* object: usable bytes */
    HX_COL_STATE = 2, /* object: enum hx_state */
    HX_COL_IN = 3,    /* object: edges into it */
    HX_COL_OUT = 4,   /* object: edges out of it */

    /* since schema 2; absent where it was not worked out, which reads as NULL */
    HX_COL_TYPE = 5,              /* object: hx_type.type; 0: unknown */
    HX_COL_SET = 6,               /* object: set_id */
    HX_COL_BIN = 7,               /* object: hx_bin.bin */
    HX_COL_DOMINATOR = 8,         /* object: zigzag of dominator's index less its own; 0: none */
    HX_COL_RETAINED = 9,          /* object: retained bytes less its own, plus 1; 0: NULL; before
                                     schema 9, now HX_COL_RETAINED_REST */
    HX_COL_RETAINED_OBJECTS = 10, /* object: retained objects; 0: NULL */
    HX_COL_SURE = 11,         /* object: zigzag of sure less all retained bytes, plus 1; 0: NULL */
    HX_COL_SURE_OBJECTS = 12, /* object: the same of objects; 0: NULL */

    /* since schema 3; absent where nothing was recorded */
    HX_COL_REQUESTED = 13, /* object: bytes asked for, plus 1; 0: unknown */
    HX_COL_STACK = 14,     /* object: stack_id of its site; served as the ccs_id of that */

    /* since schema 8; absent where no word was judged */
    HX_COL_ROUND = 15,  /* object: 1 to 4; 0: lost, or not worked out */
    HX_COL_SHAPE = 16,  /* object: hx_shape.shape; 0: unknown */
    HX_COL_HOLDER = 17, /* object: hx_holding.holder, plus 1; 0: not worked out */

    /* since schema 9 */
    HX_COL_RETAINED_REST = 18, /* object: zigzag of retained bytes less its own for each retained
                                  object; those of a list or tree of alike ones are all 0 */

    /* since schema 10; absent where nothing but vtables was looked at */
    HX_COL_TYPED = 19, /* object: hx_typed: how much its type is to be believed; 0: it has none */

    HX_COL_ENDS = 32, /* in the first block of many objects: plus the number of a column above, the
                         ends of the order by that column (ends.h) */

    HX_COL_SOURCE = 0, /* edge: source's index less that of the edge before; 0 for the first; absent
                          since schema 9: it follows from HX_COL_OUT and hx_block.bytes */
    HX_COL_TARGET = 1, /* edge: zigzag of target's index less source's */
    HX_COL_OFFSET = 2, /* edge: word offset in the source */
    HX_COL_KIND = 3,   /* edge, root edge: enum hx_edge_kind */
    HX_COL_EVIDENCE = 4, /* edge, root edge: the rule that its word was judged by; 0: none */

    HX_COL_ROOT = 0, /* root edge: root's number less that of the edge before */
    HX_COL_ROOT_TARGET =
        1,           /* root edge: zigzag of target's index less that before, first: itself */
    HX_COL_WORD = 2, /* root edge: zigzag of word's address less that before; 0: none */

    HX_COL_FIRST_PAGE = 0, /* range: pages of 4096 bytes from the end of the one before; 0: first */
    HX_COL_PAGES = 1,      /* range: pages */
};

/* Since schema 9: may the rows of a block lie by class (objects/classes.h)? In order is what
 * classes are made of, and what hardly gains. */
static inline bool hx_column_may_be_placed(enum hx_family family, int column)
{
    return family == HX_FAMILY_OBJECT ? column > HX_COL_OUT
                                      : family == HX_FAMILY_EDGE && column != HX_COL_SOURCE;
}

/* SQL: the snapshot under whose number the rows of a part of that one are (write/alike.h). */
#define HX_WHOSE(snapshot, part)                                                                   \
    "coalesce((SELECT hx_alike.whose FROM hx_alike WHERE hx_alike.snapshot = " snapshot            \
    " AND hx_alike.part = " part "), " snapshot ")"

/* The module of private tables that are kept in memory (store/cost/attribution_tables.h). */
#define HX_CCS_OVERLAY_MODULE "hx_laid"

/* Makes tables and views in an empty database and marks it as a store. */
hx_error *hx_schema_create(sqlite3 *db, const char *what);

/* Appends what brings the tables and views of a store of an older schema
 * (1 <= version < HX_STORE_SCHEMA) up to date; migrate.h does it, rows included. */
void hx_schema_migration(int version, struct hx_text *sql);

/* What leads from the schema before to `version`, 1 to HX_STORE_SCHEMA: statements. (steps.c) */
const char *hx_schema_step(int version);

/* Makes a connection's private tables of a kind (HX_OVERLAID, HX_SUPPRESSED), as far as they are
 * not there, with what the file's own hold, and views over them: temporary ones of the same names
 * and in the same words, which SQLite finds first. From now on this connection sees and changes
 * these, and the file stays as it is. Blocks and columns are joined (objects/overlay.h). */
hx_error *hx_schema_overlay(sqlite3 *db, const char *what, enum hx_overlaid kind);

/* The same with HX_ATTRIBUTED, empty. What is there of another choice goes. They are filled first,
 * and get their indexes then. */
hx_error *hx_schema_overlay_attribution(sqlite3 *db, const char *what);
hx_error *hx_schema_index_attribution(sqlite3 *db, const char *what);
/* The index of a table of the file, within a transaction: for whoever fills most of the table. */
hx_error *hx_schema_drop_index(sqlite3 *db, const char *what, const char *table);
hx_error *hx_schema_make_index(sqlite3 *db, const char *what, const char *table);
/* In a store that has no other overlay: the file's own are seen again. */
hx_error *hx_schema_drop_attribution(sqlite3 *db, const char *what);

/* Is this a store that this program knows: application_id and user_version, and each table, index
 * and view in the words of that schema (of older ones' views the name; migration drops them
 * unread), and besides only what ANALYZE makes? Before anything else is asked of a connection:
 * until then SQLite has parsed none of the file's own statements. *ret_version is its schema, at
 * most HX_STORE_SCHEMA. (schema_check.c) */
hx_error *hx_schema_check(sqlite3 *db, const char *what, int *ret_version);

/* Leaves in temp.expected of an empty database (type, name, tbl_name, sql, optional: 0) the rows
 * that sqlite_schema of a store of that schema has; but views are in the words of this program's.
 */
hx_error *hx_schema_expect(sqlite3 *db, const char *what, int version);

/* The number (enum hx_table_id) of a table whose rows SQLite alone knows how to check; -1: it is
 * none of those (blobs have checksums of their own). */
int hx_schema_number(const char *table);

/* The refusals, worded once. */
hx_error *hx_schema_foreign(const char *what, const char *why);
hx_error *hx_schema_newer(const char *what, long version);

#endif
