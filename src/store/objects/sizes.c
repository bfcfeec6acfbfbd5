/* sizes.c - size classes, and the virtual table of their sums. */
#include "store/objects/sizes.h"

#include "store/db.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- classes ------------------------------------------------------------------------- */

enum {
    WORD = 8,            /* of a chunk that is not usable */
    ALIGN = 16,          /* of chunks */
    LEAST = 24,          /* usable bytes of the smallest */
    SMALL = 1024 - WORD, /* the same of the largest that is a class by itself */
    SMALLS = (SMALL - LEAST) / ALIGN + 1,
};

/* Large bins: chunks >> shift, from one number to another. */
static const struct bins {
    unsigned shift, from, to;
} bins[] = {{6, 16, 48}, {9, 6, 20}, {12, 2, 10}, {15, 1, 4}, {18, 0, 2}};
enum { BINS = sizeof bins / sizeof *bins, POWER = 19 /* of the first class above them */ };

unsigned hx_block_size_class(uint64_t bytes)
{
    if (bytes <= LEAST)
        return 0;
    if (bytes <= SMALL)
        return (unsigned)((bytes - LEAST + ALIGN - 1) / ALIGN);
    uint64_t chunk = bytes > UINT64_MAX - WORD ? UINT64_MAX : bytes + WORD;
    unsigned number = SMALLS;
    for (const struct bins *bin = bins; bin < bins + BINS; number += bin->to - bin->from + 1, bin++)
        if (chunk >> bin->shift <= bin->to)
            return number + (unsigned)(chunk >> bin->shift) - bin->from;
    return number + 63 - (unsigned)__builtin_clzll(chunk) - POWER;
}

uint64_t hx_block_size_most(unsigned number)
{
    if (number < SMALLS)
        return LEAST + (uint64_t)number * ALIGN;
    number -= SMALLS;
    for (const struct bins *bin = bins; bin < bins + BINS; number -= bin->to - bin->from + 1, bin++)
        if (number <= bin->to - bin->from)
            return ((uint64_t)(bin->from + number + 1) << bin->shift) - 1 - WORD;
    return number + POWER >= 63 ? UINT64_MAX : ((uint64_t)2 << (number + POWER)) - 1 - WORD;
}

uint64_t hx_block_size_least(unsigned number)
{
    return number ? hx_block_size_most(number - 1) + 1 : 0;
}

/* The first large class begins where glibc's chunks do. */
const char *hx_block_size_name(unsigned number, char buf[HX_SIZE_NAME])
{
    if (number < SMALLS)
        snprintf(buf, HX_SIZE_NAME, "%" PRIu64, hx_block_size_most(number));
    else
        snprintf(buf, HX_SIZE_NAME, "%" PRIu64 "-%" PRIu64,
                 number == SMALLS ? (uint64_t)SMALL + ALIGN : hx_block_size_least(number),
                 hx_block_size_most(number));
    return buf;
}

/* --- counting ------------------------------------------------------------------------ */

/* Sums of a class; a store may lie about sizes, so that bytes may wrap around. */
struct class_sum {
    uint64_t bytes, objects;
};

#define COUNT(type)                                                                                \
    for (size_t i = 0; i < column->n; i++) {                                                       \
        uint64_t bytes = column->base + ((const type *)column->v)[i];                              \
        struct class_sum *to = &sum[hx_block_size_class(bytes)];                                   \
        to->bytes += bytes;                                                                        \
        to->objects++;                                                                             \
    }

static void count_sizes(const struct hx_decoded *column, struct class_sum *sum)
{
    switch (column->shift) {
    case 0:
        COUNT(uint8_t)
        break;
    case 1:
        COUNT(uint16_t)
        break;
    case 2:
        COUNT(uint32_t)
        break;
    default:
        COUNT(uint64_t)
        break;
    }
}

/* As long as the index is; without memory they are counted again. */
static void keep_sums(struct hx_block_index *index, const struct class_sum *sum)
{
    index->sizes = malloc(HX_SIZES * sizeof *sum);
    if (index->sizes)
        memcpy(index->sizes, sum, HX_SIZES * sizeof *sum);
}

static hx_error *count_snapshot(hx_blocks *blocks, int64_t snapshot, struct class_sum *sum)
{
    const struct hx_block_index *index;
    hx_error *err = NULL;
    memset(sum, 0, HX_SIZES * sizeof *sum);
    HX_TRY(hx_blocks_index(blocks, snapshot, HX_FAMILY_OBJECT, &index));
    const bool known = index->sizes;
    if (known)
        memcpy(sum, index->sizes, HX_SIZES * sizeof *sum);
    for (size_t i = 0; !known && i < index->n && !err; i++) {
        static const struct hx_wanted size = {HX_PLAIN, HX_COL_SIZE};
        const struct hx_decoded *column;
        const size_t asides = hx_blocks_asides();
        hx_blocks_end_asides(blocks);
        for (size_t k = 1; i % (asides + 1) == 0 && k <= asides; k++)
            hx_blocks_begin_aside(blocks, index, i + k, &size, 1);
        err = hx_blocks_interrupted(blocks);
        if (!err)
            err = hx_blocks_column(blocks, index, i, HX_PLAIN, HX_COL_SIZE, &column);
        if (err)
            break;
        count_sizes(column, sum);
        hx_blocks_release_once(blocks, column);
    }
    hx_blocks_end_asides(blocks);
    if (!err && !known)
        keep_sums((struct hx_block_index *)index, sum);
    hx_blocks_index_done(blocks, index);
    return err;
}

/* --- the table ------------------------------------------------------------------------ */

struct instance {
    sqlite3_vtab base;
    sqlite3 *db;
    hx_blocks *blocks;
};

struct cursor {
    sqlite3_vtab_cursor base;
    sqlite3_stmt *snapshots; /* those that are finished, in their order; at its end: NULL */
    int64_t snapshot;
    unsigned number;
    struct class_sum sum[HX_SIZES];
};

static int table_connect(sqlite3 *db, void *aux, int argc, const char *const *argv,
                         sqlite3_vtab **ret, char **error)
{
    (void)argc, (void)argv, (void)error;
    int code = sqlite3_declare_vtab(
        db, "CREATE TABLE x(snapshot INTEGER, size TEXT, bytes INTEGER, objects INTEGER)");
    if (code != SQLITE_OK)
        return code;
    sqlite3_vtab_config(db, SQLITE_VTAB_INNOCUOUS);
    struct instance *instance = calloc(1, sizeof *instance);
    if (!instance)
        return SQLITE_NOMEM;
    instance->db = db;
    instance->blocks = aux;
    hx_blocks_ref(aux);
    *ret = &instance->base;
    return SQLITE_OK;
}

static int table_disconnect(sqlite3_vtab *vtab)
{
    hx_blocks_unref(((struct instance *)vtab)->blocks);
    free(vtab);
    return SQLITE_OK;
}

/* One snapshot, or all of them. */
static int table_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info)
{
    (void)vtab;
    info->estimatedCost = 1e6;
    info->estimatedRows = 1e4;
    for (int i = 0; i < info->nConstraint; i++) {
        if (!info->aConstraint[i].usable || info->aConstraint[i].iColumn != 0 ||
            info->aConstraint[i].op != SQLITE_INDEX_CONSTRAINT_EQ)
            continue;
        info->aConstraintUsage[i].argvIndex = 1;
        info->idxNum = 1;
        info->estimatedCost = 1e4;
        info->estimatedRows = 100;
        break;
    }
    return SQLITE_OK;
}

static int cursor_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **ret)
{
    (void)vtab;
    struct cursor *cursor = calloc(1, sizeof *cursor);
    if (!cursor)
        return SQLITE_NOMEM;
    *ret = &cursor->base;
    return SQLITE_OK;
}

static void end_snapshots(struct cursor *cursor)
{
    sqlite3_finalize(cursor->snapshots);
    cursor->snapshots = NULL;
}

static int cursor_close(sqlite3_vtab_cursor *base)
{
    end_snapshots((struct cursor *)base);
    free(base);
    return SQLITE_OK;
}

/* The next class that has objects, if need be in the next snapshot. */
static int cursor_next(sqlite3_vtab_cursor *base)
{
    struct cursor *cursor = (struct cursor *)base;
    struct instance *instance = (struct instance *)base->pVtab;
    for (cursor->number++;; cursor->number++) {
        while (cursor->number < HX_SIZES && !cursor->sum[cursor->number].objects)
            cursor->number++;
        if (cursor->number < HX_SIZES)
            return SQLITE_OK;
        int code = sqlite3_step(cursor->snapshots);
        if (code != SQLITE_ROW) {
            end_snapshots(cursor);
            return code == SQLITE_DONE ? SQLITE_OK : code;
        }
        cursor->snapshot = sqlite3_column_int64(cursor->snapshots, 0);
        hx_error *err = count_snapshot(instance->blocks, cursor->snapshot, cursor->sum);
        if (err)
            return hx_db_table_error(base->pVtab, err, SQLITE_ERROR);
        cursor->number = UINT32_MAX; /* before the first */
    }
}

static int cursor_filter(sqlite3_vtab_cursor *base, int number, const char *name, int n,
                         sqlite3_value **argv)
{
    (void)name, (void)n;
    struct cursor *cursor = (struct cursor *)base;
    struct instance *instance = (struct instance *)base->pVtab;
    end_snapshots(cursor);
    hx_blocks_refresh(instance->blocks);
    int code = sqlite3_prepare_v2(instance->db,
                                  number ? "SELECT snapshot FROM main.hx_snapshot"
                                           " WHERE snapshot = ?1"
                                         : "SELECT snapshot FROM main.hx_snapshot"
                                           " ORDER BY snapshot",
                                  -1, &cursor->snapshots, NULL);
    if (code == SQLITE_OK && number)
        code = sqlite3_bind_value(cursor->snapshots, 1, argv[0]);
    if (code != SQLITE_OK)
        return code;
    cursor->number = HX_SIZES;
    return cursor_next(base);
}

static int cursor_eof(sqlite3_vtab_cursor *base)
{
    return !((struct cursor *)base)->snapshots;
}

static int cursor_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column)
{
    const struct cursor *cursor = (struct cursor *)base;
    const struct class_sum *sum = &cursor->sum[cursor->number];
    char name[HX_SIZE_NAME];
    if (column == 1)
        sqlite3_result_text(context, hx_block_size_name(cursor->number, name), -1,
                            SQLITE_TRANSIENT);
    else
        sqlite3_result_int64(context, column == 0   ? cursor->snapshot
                                      : column == 2 ? (int64_t)sum->bytes
                                                    : (int64_t)sum->objects);
    return SQLITE_OK;
}

static int cursor_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *ret)
{
    const struct cursor *cursor = (struct cursor *)base;
    *ret = cursor->snapshot * HX_SIZES + cursor->number;
    return SQLITE_OK;
}

/* No xCreate: the table exists, the schema holds none. */
static const sqlite3_module methods = HX_DB_MODULE(NULL);

/* --- functions ------------------------------------------------------------------------ */

static void sql_class(sqlite3_context *context, int n, sqlite3_value **argv)
{
    char name[HX_SIZE_NAME];
    (void)n;
    hx_block_size_name(hx_block_size_class((uint64_t)sqlite3_value_int64(argv[0])), name);
    sqlite3_result_text(context, name, -1, SQLITE_TRANSIENT);
}

/* The bound that the function was made for, of the class of that name; NULL: there is none. */
static void sql_bound(sqlite3_context *context, int n, sqlite3_value **argv)
{
    const char *wanted = (const char *)sqlite3_value_text(argv[0]);
    char name[HX_SIZE_NAME];
    (void)n;
    for (unsigned number = 0; wanted && number < HX_SIZES; number++) {
        if (strcmp(hx_block_size_name(number, name), wanted) != 0)
            continue;
        uint64_t bound =
            sqlite3_user_data(context) ? hx_block_size_most(number) : hx_block_size_least(number);
        sqlite3_result_int64(context, bound > INT64_MAX ? INT64_MAX : (int64_t)bound);
        return;
    }
}

static void unref(void *blocks)
{
    hx_blocks_unref(blocks);
}

hx_error *hx_size_table(sqlite3 *db, hx_blocks *blocks)
{
    const int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS;
    static const char most[] = "most";
    hx_blocks_ref(blocks);
    int code = sqlite3_create_module_v2(db, "hx_size_sum", &methods, blocks, unref);
    if (code == SQLITE_OK)
        code = sqlite3_create_function_v2(db, "hx_size_class", 1, flags, NULL, sql_class, NULL,
                                          NULL, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_create_function_v2(db, "hx_size_least", 1, flags, NULL, sql_bound, NULL,
                                          NULL, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_create_function_v2(db, "hx_size_most", 1, flags, (void *)most, sql_bound,
                                          NULL, NULL, NULL);
    return code == SQLITE_OK ? NULL : hx_db_error(db, code, "hx_size_sum");
}
