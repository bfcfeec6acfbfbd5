/* answer.c - keeps the answer to a statement in a temporary table. */
#include "store/answer.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "store/db.h"
#include "store/store_private.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static void table_name(int64_t id, char ret[40])
{
    snprintf(ret, 40, "temp.hx_answer_%lld", (long long)id);
}

void hx_answer_deinit(struct hx_answer *answer)
{
    for (size_t i = 0; i < answer->n_columns; i++) {
        free(answer->columns[i].given);
        free(answer->columns[i].name);
    }
    free(answer->columns);
    *answer = (struct hx_answer){0};
}

/* Words of conditions, which cannot be names there. */
static bool is_condition_word(const char *name)
{
    static const char *const words[] = {"and", "or", "not", "is", "null"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcasecmp(words[i], name) == 0)
            return true;
    return false;
}

/* "sum(a.bytes)" becomes sum_a_bytes. */
static void make_name(const char *given, struct hx_text *ret)
{
    bool gap = false;
    for (const char *s = given; *s && ret->n < 64; s++) {
        if (!isalnum((unsigned char)*s) && *s != '_') {
            gap = true;
            continue;
        }
        if (gap && ret->n)
            hx_text_putc(ret, '_');
        if (!ret->n && isdigit((unsigned char)*s))
            hx_text_puts(ret, "c_");
        gap = false;
        hx_text_putc(ret, *s);
    }
    if (!ret->n)
        hx_text_puts(ret, "column");
    if (is_condition_word(hx_text_str(ret)))
        hx_text_putc(ret, '_');
}

static bool is_taken(const struct hx_answer *answer, const char *name)
{
    for (size_t i = 0; i < answer->n_columns; i++)
        if (strcasecmp(answer->columns[i].name, name) == 0)
            return true;
    return false;
}

/* A second `bytes` is bytes_2. */
static hx_error *add_column(struct hx_answer *answer, const char *given)
{
    struct hx_text base = {0}, name = {0};
    make_name(given, &base);
    hx_text_puts(&name, hx_text_str(&base));
    for (unsigned n = 2; !name.failed && is_taken(answer, hx_text_str(&name)); n++) {
        hx_text_clear(&name);
        hx_text_putf(&name, "%s_%u", hx_text_str(&base), n);
    }
    struct hx_answer_column *column = &answer->columns[answer->n_columns];
    bool bad = name.failed || base.failed;
    hx_text_free(&base);
    column->given = strdup(given);
    column->name = name.s;
    answer->n_columns++;
    return bad || !column->given || !column->name ? hx_error_nomem() : NULL;
}

static hx_error *add_columns(struct hx_answer *answer, sqlite3_stmt *asked)
{
    int n = sqlite3_column_count(asked);
    answer->columns = calloc((size_t)n + 1, sizeof *answer->columns);
    HX_NEED(answer->columns);
    for (int i = 0; i < n; i++) {
        const char *name = sqlite3_column_name(asked, i);
        HX_TRY(add_column(answer, name ? name : ""));
    }
    return NULL;
}

/* The table, without types so that values stay as they are, and the statement that fills it. */
static hx_error *make_answer_table(hx_store *store, const struct hx_answer *answer,
                                   sqlite3_stmt **ret)
{
    struct hx_text create = {0}, insert = {0};
    hx_text_putf(&create, "CREATE TABLE %s (", answer->table);
    hx_text_putf(&insert, "INSERT INTO %s VALUES (", answer->table);
    for (size_t i = 0; i < answer->n_columns; i++) {
        hx_text_putf(&create, "%s\"%s\"", i ? ", " : "", answer->columns[i].name);
        hx_text_puts(&insert, i ? ", ?" : "?");
    }
    hx_text_puts(&create, ")");
    hx_text_puts(&insert, ")");
    hx_error *error = create.failed || insert.failed
                          ? hx_error_nomem()
                          : hx_db_exec(store->db, store->path, hx_text_str(&create));
    if (!error)
        error = hx_db_prepare(store->db, store->path, hx_text_str(&insert), ret);
    hx_text_free(&create);
    hx_text_free(&insert);
    return error;
}

/* x'00ff', as SQL writes it. */
static int bind_blob(sqlite3_stmt *insert, int to, const unsigned char *bytes, size_t n)
{
    struct hx_text text = {0};
    size_t kept = n < HX_ANSWER_BLOB ? n : HX_ANSWER_BLOB;
    hx_text_puts(&text, "x'");
    for (size_t i = 0; i < kept; i++) {
        hx_text_putc(&text, "0123456789abcdef"[bytes[i] >> 4]);
        hx_text_putc(&text, "0123456789abcdef"[bytes[i] & 15]);
    }
    hx_text_puts(&text, kept < n ? "..." : "'");
    int code = text.failed ? SQLITE_NOMEM
                           : sqlite3_bind_text(insert, to, text.s, (int)text.n, SQLITE_TRANSIENT);
    hx_text_free(&text);
    return code;
}

/* One value; adds how much it takes. */
static int copy_value(sqlite3_stmt *insert, sqlite3_stmt *asked, int i,
                      struct hx_answer_column *column, uint64_t *bytes)
{
    static const unsigned kinds[] = {[SQLITE_INTEGER] = HX_ANSWER_INTS,
                                     [SQLITE_FLOAT] = HX_ANSWER_REALS,
                                     [SQLITE_TEXT] = HX_ANSWER_TEXTS,
                                     [SQLITE_BLOB] = HX_ANSWER_TEXTS,
                                     [SQLITE_NULL] = HX_ANSWER_NULLS};
    int type = sqlite3_column_type(asked, i);
    if (type == SQLITE_INTEGER) {
        int64_t value = sqlite3_column_int64(asked, i);
        bool first = !(column->values & HX_ANSWER_INTS);
        column->least = first || value < column->least ? value : column->least;
        column->most = first || value > column->most ? value : column->most;
    }
    column->values |= kinds[type];
    if (type == SQLITE_BLOB) {
        const void *blob = sqlite3_column_blob(asked, i);
        size_t n = (size_t)sqlite3_column_bytes(asked, i);
        *bytes += n < HX_ANSWER_BLOB ? 2 * n : 2 * (size_t)HX_ANSWER_BLOB;
        return bind_blob(insert, i + 1, blob, blob ? n : 0);
    }
    *bytes += type == SQLITE_TEXT ? (uint64_t)sqlite3_column_bytes(asked, i) : 8;
    return sqlite3_bind_value(insert, i + 1, sqlite3_column_value(asked, i));
}

static hx_error *copy_row(hx_store *store, struct hx_answer *answer, sqlite3_stmt *asked,
                          sqlite3_stmt *insert, uint64_t *bytes)
{
    for (size_t i = 0; i < answer->n_columns; i++) {
        int code = copy_value(insert, asked, (int)i, &answer->columns[i], bytes);
        if (code != SQLITE_OK)
            return hx_db_error(store->db, code, store->path);
    }
    return hx_db_run(store->db, store->path, insert);
}

static hx_error *copy_rows(hx_store *store, struct hx_answer *answer, sqlite3_stmt *asked,
                           sqlite3_stmt *insert, const struct hx_progress *progress)
{
    uint64_t bytes = 0;
    for (;;) {
        if (hx_progress_cancelled(progress))
            return hx_error_cancelled("SQL");
        if (answer->rows && answer->rows % 1024 == 0) {
            char stage[48]; /* how many there will be nobody knows */
            snprintf(stage, sizeof stage, "%llu rows", (unsigned long long)answer->rows);
            hx_progress_at(progress, stage, answer->rows, 0);
        }
        int code = sqlite3_step(asked);
        if (code == SQLITE_DONE)
            return NULL;
        if (code == SQLITE_ERROR) /* in an expression */
            return hx_error_new(HX_E_USAGE, "SQL", NULL, "%s", sqlite3_errmsg(store->db));
        if (code != SQLITE_ROW)
            return hx_db_error(store->db, code, store->path);
        if (answer->rows >= HX_ANSWER_ROWS || bytes >= HX_ANSWER_BYTES) {
            answer->cut = true;
            return NULL;
        }
        HX_TRY(copy_row(store, answer, asked, insert, &bytes));
        answer->rows++;
    }
}

static hx_error *make_answer(hx_store *store, const char *sql, const struct hx_progress *progress,
                             struct hx_answer_place *place, struct hx_answer *answer)
{
    HX_STATEMENT sqlite3_stmt *asked = NULL;
    HX_STATEMENT sqlite3_stmt *insert = NULL;
    HX_TRY(hx_query_prepare(store, sql, &place->offset, &asked));
    HX_TRY(add_columns(answer, asked));
    if (!answer->n_columns)
        return hx_error_new(HX_E_USAGE, "SQL", NULL, "gives no rows");
    HX_TRY(make_answer_table(store, answer, &insert));
    return copy_rows(store, answer, asked, insert, progress);
}

hx_error *hx_answer_make(hx_store *store, int64_t id, const char *sql,
                         const struct hx_progress *progress, struct hx_answer_place *ret_place,
                         struct hx_answer *ret)
{
    struct hx_answer answer = {.id = id};
    ret_place->offset = SIZE_MAX;
    table_name(id, answer.table);
    HX_TRY(hx_db_exec(store->db, store->path, "BEGIN"));
    hx_error *error = make_answer(store, sql, progress, ret_place, &answer);
    error = hx_db_end(store->db, store->path, error);
    if (error)
        hx_answer_deinit(&answer);
    else
        *ret = answer;
    return error;
}

/* --- rows in an order --- */

/* Which rows of the table, in which order. LIMIT would keep them in a tree of whole rows, and far
 * windows would take for ever; a sort of all their numbers does not. */
static void put_answer_order(const struct hx_answer_query *query, struct hx_text *sql)
{
    hx_text_putf(sql, "SELECT rowid FROM %s", query->table);
    if (query->where)
        hx_text_putf(sql, " WHERE %s", query->where);
    hx_text_puts(sql, " ORDER BY ");
    if (query->sort)
        hx_text_putf(sql, "\"%s\" %s, ", query->sort, query->ascending ? "ASC NULLS LAST" : "DESC");
    hx_text_puts(sql, "rowid");
}

static hx_error *make_order(hx_store *store, const char *order)
{
    struct hx_text sql = {0};
    hx_text_putf(&sql,
                 "BEGIN; DROP TABLE IF EXISTS temp.hx_answer_order;"
                 " CREATE TABLE temp.hx_answer_order (place INTEGER PRIMARY KEY, row INTEGER);"
                 " INSERT INTO temp.hx_answer_order (row) %s; COMMIT",
                 order);
    hx_error *error =
        sql.failed ? hx_error_nomem() : hx_db_exec(store->db, store->path, hx_text_str(&sql));
    hx_text_free(&sql);
    return error ? hx_db_end(store->db, store->path, error) : NULL;
}

/* Sees to it that the order is there. */
static hx_error *need_order(hx_store *store, const struct hx_answer_query *query)
{
    struct hx_text order = {0};
    put_answer_order(query, &order);
    if (order.failed) {
        hx_text_free(&order);
        return hx_error_nomem();
    }
    bool there = store->answer_order && strcmp(store->answer_order, order.s) == 0;
    hx_error *error = NULL;
    if (!there) {
        free(store->answer_order);
        store->answer_order = NULL;
        error = make_order(store, order.s);
        if (!error)
            store->answer_order = hx_steal(order.s);
    }
    hx_text_free(&order);
    return error;
}

hx_error *hx_answer_rows(hx_store *store, const struct hx_answer_query *query, hx_rows **ret)
{
    bool plain = !query->where && !query->sort;
    int64_t first = query->offset > 0 ? query->offset : 0, last = INT64_MAX;
    if (query->limit >= 0 && query->limit < INT64_MAX - first)
        last = first + query->limit;
    if (!plain)
        HX_TRY(need_order(store, query));
    struct hx_text sql = {0};
    const char *columns = query->columns && *query->columns ? query->columns : "a.*";
    if (plain)
        hx_text_putf(&sql,
                     "SELECT %s FROM %s AS a WHERE a.rowid > %" PRId64 " AND a.rowid <= %" PRId64
                     " ORDER BY a.rowid",
                     columns, query->table, first, last);
    else
        hx_text_putf(&sql,
                     "SELECT %s FROM temp.hx_answer_order AS o CROSS JOIN %s AS a"
                     " ON a.rowid = o.row WHERE o.place > %" PRId64 " AND o.place <= %" PRId64
                     " ORDER BY o.place",
                     columns, query->table, first, last);
    hx_error *error = sql.failed ? hx_error_nomem() : hx_query_sql(store, hx_text_str(&sql), ret);
    hx_text_free(&sql);
    return error;
}

void hx_answer_given(const struct hx_answer *answer, struct hx_text *columns)
{
    for (size_t i = 0; i < answer->n_columns; i++) {
        hx_text_putf(columns, "%sa.\"%s\" AS \"", i ? ", " : "", answer->columns[i].name);
        for (const char *s = answer->columns[i].given; *s; s++)
            hx_text_puts(columns, *s == '"' ? "\"\"" : (char[]){*s, 0});
        hx_text_putc(columns, '"');
    }
}

hx_error *hx_answer_drop(hx_store *store, int64_t id)
{
    char table[40];
    struct hx_text sql = {0};
    table_name(id, table);
    hx_text_putf(&sql, "DROP TABLE IF EXISTS %s", table);
    hx_error *error =
        sql.failed ? hx_error_nomem() : hx_db_exec(store->db, store->path, hx_text_str(&sql));
    hx_text_free(&sql);
    return error;
}
