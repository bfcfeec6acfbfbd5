/* sums.c - sums by what few numbers tell, and the function of SQL. */
#include "store/objects/sums.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "model/graph.h"
#include "store/db.h"
#include "store/objects/sizes.h"
#include "store/objects/window.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBERS_MAX = 1 << 18, CONDITIONS_MAX = 16, COLUMNS_MAX = 3 };

void hx_sums_deinit(struct hx_sums *sums)
{
    for (int kind = 0; kind < HX_SUMS_KINDS; kind++)
        free(sums->sum[kind]);
}

/* The columns that tell what an object counts as, behind that of its size. */
static const int columns_of[][COLUMNS_MAX] = {
    [HX_SUMS_TYPE] = {HX_COL_SIZE, HX_COL_TYPE, -1},
    [HX_SUMS_NAMES] = {HX_COL_SIZE, HX_COL_TYPE, HX_COL_SHAPE},
    [HX_SUMS_SHAPE] = {HX_COL_SIZE, HX_COL_SHAPE, -1},
    [HX_SUMS_STATE] = {HX_COL_SIZE, HX_COL_STATE, -1},
    [HX_SUMS_SIZE] = {HX_COL_SIZE, -1, -1},
    [HX_SUMS_SET] = {HX_COL_SIZE, HX_COL_SET, -1},
};

/* Without sets an object is in none, which is not the set of number 0. */
static enum hx_derived derived_of(int column)
{
    return column == HX_COL_SET ? HX_PLUS_ONE : HX_PLAIN;
}

struct looking {
    hx_blocks *blocks;
    const struct hx_block_index *index;
    struct hx_sums *sums;
};

static bool has_room(struct hx_sums *sums, int kind, uint64_t number)
{
    if (number >= NUMBERS_MAX)
        return false;
    size_t n = sums->n[kind] ? sums->n[kind] : 256;
    while (n <= number)
        n *= 2;
    struct hx_sum *sum = realloc(sums->sum[kind], n * sizeof *sum);
    if (!sum)
        return false;
    memset(sum + sums->n[kind], 0, (n - sums->n[kind]) * sizeof *sum);
    sums->sum[kind] = sum;
    sums->n[kind] = n;
    return true;
}

HX_HOT static void add_rows(struct hx_sums *sums, const struct hx_decoded *const *column,
                            const struct hx_passing *rows)
{
    const enum hx_sums_by by = sums->by;
    for (size_t nth = 0; nth < rows->n && !sums->many; nth++) {
        const size_t i = hx_passing_row(rows, nth);
        uint64_t bytes = hx_decoded_at(column[0], i);
        uint64_t number = column[1] ? hx_decoded_at(column[1], i) : hx_block_size_class(bytes);
        int kind = by == HX_SUMS_SHAPE   ? HX_SUMS_OF_SHAPE
                   : by <= HX_SUMS_NAMES ? HX_SUMS_OF_TYPE
                                         : HX_SUMS_OF_OTHER;
        if (by == HX_SUMS_NAMES && !number) {
            number = hx_decoded_at(column[2], i);
            kind = HX_SUMS_OF_SHAPE;
        }
        if (number >= sums->n[kind] && !has_room(sums, kind, number)) {
            sums->many = true;
            return;
        }
        sums->sum[kind][number].bytes += bytes;
        sums->sum[kind][number].objects++;
    }
}

static hx_error *look(void *context, size_t block, const struct hx_passing *rows)
{
    struct looking *looking = context;
    const struct hx_decoded *column[COLUMNS_MAX] = {NULL};
    const int *columns = columns_of[looking->sums->by];
    hx_error *err = NULL;
    for (int c = 0; c < COLUMNS_MAX && !err && columns[c] >= 0; c++)
        err = hx_blocks_column(looking->blocks, looking->index, block, derived_of(columns[c]),
                               columns[c], &column[c]);
    if (!err)
        add_rows(looking->sums, column, rows);
    for (int c = 0; c < COLUMNS_MAX; c++)
        hx_blocks_release(looking->blocks, column[c]);
    return err;
}

hx_error *hx_sums_make(hx_blocks *blocks, const struct hx_block_index *index,
                       const struct hx_top *top, struct hx_sums *sums)
{
    struct looking looking = {blocks, index, sums};
    struct hx_condition condition[CONDITIONS_MAX + COLUMNS_MAX];
    struct hx_top all = *top;
    if (top->conditions > CONDITIONS_MAX) {
        sums->many = true;
        return NULL;
    }
    if (top->conditions)
        memcpy(condition, top->condition, top->conditions * sizeof *condition);
    all.condition = condition;
    for (int c = 0; c < COLUMNS_MAX && columns_of[sums->by][c] >= 0; c++) /* so they come decoded */
        condition[all.conditions++] = (struct hx_condition){derived_of(columns_of[sums->by][c]),
                                                            columns_of[sums->by][c], 0, UINT64_MAX};
    return hx_top_look(blocks, index, &all, look, &looking);
}

/* --- the function --------------------------------------------------------------------- */

/* What no table names comes by name. */
static void put_number(enum hx_sums_by by, unsigned number, int kind, struct hx_text *ret)
{
    char name[HX_SIZE_NAME];
    if (by == HX_SUMS_SET && number)
        hx_text_putf(ret, "%u", number - 1);
    else if (by == HX_SUMS_SET)
        hx_text_puts(ret, "null");
    else if (kind != HX_SUMS_OF_OTHER)
        hx_text_putf(ret, "%u", number);
    else if (by == HX_SUMS_STATE && (number == HX_STATE_NONE || number >= HX_STATES))
        hx_text_puts(ret, "null");
    else
        hx_text_putf(ret, "\"%s\"",
                     by == HX_SUMS_STATE ? hx_state_name((enum hx_state)number)
                                         : hx_block_size_name(number, name));
}

static void put_sums(const struct hx_sums *sums, struct hx_text *ret)
{
    const char *between = "[";
    for (int kind = 0; kind < HX_SUMS_KINDS; kind++)
        for (size_t i = 0; i < sums->n[kind]; i++) {
            const struct hx_sum *sum = &sums->sum[kind][i];
            if (!sum->objects)
                continue;
            hx_text_putf(ret, "%s[%d,", between, kind);
            put_number(sums->by, (unsigned)i, kind, ret);
            hx_text_putf(ret, ",%" PRId64 ",%" PRIu64 "]", (int64_t)sum->bytes, sum->objects);
            between = ",";
        }
    hx_text_puts(ret, *between == '[' ? "[]" : "]");
}

/* A code of SQLite; *ret is left empty where the table found no window. */
static int ask_sums(sqlite3 *db, hx_blocks *blocks, struct hx_sums *sums, int64_t snapshot,
                    const char *where, struct hx_text *ret)
{
    struct hx_text sql = {0};
    struct hx_window window = {.about = HX_WINDOW_SUMS, .sums = sums};
    sqlite3_stmt *st = NULL;
    hx_text_putf(&sql,
                 "SELECT address FROM objects WHERE snapshot = %" PRId64 "%s%s%s"
                 " ORDER BY address LIMIT 1",
                 snapshot, *where ? " AND (" : "", where, *where ? ")" : "");
    int code = sql.failed ? SQLITE_NOMEM : sqlite3_prepare_v2(db, hx_text_str(&sql), -1, &st, NULL);
    hx_text_free(&sql);
    if (code == SQLITE_OK) {
        code = hx_window_step(blocks, st, &window);
        code = code == SQLITE_ROW || code == SQLITE_DONE ? SQLITE_OK : code;
    }
    if (code == SQLITE_OK && window.found && !sums->many)
        put_sums(sums, ret);
    sqlite3_finalize(st);
    return code;
}

static void sql_sums(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    sqlite3 *db = sqlite3_context_db_handle(context);
    const char *where = (const char *)sqlite3_value_text(argv[2]);
    struct hx_sums sums = {.by = (enum hx_sums_by)sqlite3_value_int(argv[0])};
    HX_CLEANUP(hx_text_free) struct hx_text text = {0};
    if (!where || (unsigned)sums.by > HX_SUMS_SET)
        return;
    int code =
        ask_sums(db, sqlite3_user_data(context), &sums, sqlite3_value_int64(argv[1]), where, &text);
    hx_sums_deinit(&sums);
    if (code != SQLITE_OK) {
        sqlite3_result_error(context, sqlite3_errmsg(db), -1);
        sqlite3_result_error_code(context, code);
    } else if (text.failed) {
        sqlite3_result_error_nomem(context);
    } else if (text.n) {
        sqlite3_result_text64(context, hx_text_str(&text), text.n, SQLITE_TRANSIENT, SQLITE_UTF8);
    }
}

static void unref(void *blocks)
{
    hx_blocks_unref(blocks);
}

hx_error *hx_sums_function(sqlite3 *db, hx_blocks *blocks)
{
    hx_blocks_ref(blocks);
    int code = sqlite3_create_function_v2(db, "hx_sums", 3, SQLITE_UTF8 | SQLITE_DIRECTONLY, blocks,
                                          sql_sums, NULL, NULL, unref);
    return code == SQLITE_OK ? NULL : hx_db_error(db, code, "hx_sums");
}
