/* named.c - named queries: their table, and how a text becomes a statement. */
#include "store/query/named.h"

#include "cost/ccs.h"
#include "store/query/named_text.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

TEXT(count) = "SELECT count(*) AS rows FROM $view WHERE snapshot = $snapshot";
TEXT(nothing) = "SELECT NULL AS answer WHERE 0";
TEXT(number) = "SELECT $id AS rows";
TEXT(view) = "SELECT * FROM $view{snapshot: WHERE snapshot = $snapshot}";

#define NAMED(name, parameters, columns, about) {#name, parameters, columns},
const struct hx_named_query hx_named_queries[HX_QUERIES] = {HX_NAMED_QUERIES(NAMED)};
#undef NAMED

#define NAMED(name, parameters, columns, about) hx_query_text_##name,
static const char *const texts[HX_QUERIES] = {HX_NAMED_QUERIES(NAMED)};
#undef NAMED

/* --- texts to statements ---------------------------------------------------------------- */

enum kind { NUMBER, LITERAL, TRUSTED, CENSUS, LABEL, CONSTANT };

static const struct parameter {
    const char *name;
    enum kind kind;
    size_t offset; /* of the argument; CONSTANT: the number */
} parameters[] = {
    {"snapshot", NUMBER, offsetof(struct hx_query_args, snapshot)},
    {"other", NUMBER, offsetof(struct hx_query_args, other)},
    {"id", NUMBER, offsetof(struct hx_query_args, id)},
    {"address", NUMBER, offsetof(struct hx_query_args, address)},
    {"limit", NUMBER, offsetof(struct hx_query_args, limit)},
    {"offset", NUMBER, offsetof(struct hx_query_args, offset)},
    {"text", LITERAL, offsetof(struct hx_query_args, text)},
    {"more", LITERAL, offsetof(struct hx_query_args, more)},
    {"view", TRUSTED, offsetof(struct hx_query_args, view)},
    {"column", TRUSTED, offsetof(struct hx_query_args, column)},
    {"where", TRUSTED, offsetof(struct hx_query_args, where)},
    {"census", CENSUS, offsetof(struct hx_query_args, census)},
    {"label", LABEL, offsetof(struct hx_query_args, census)}, /* of `key` */
    {"deferred", CONSTANT, HX_FRAME_DEFERRED},
    {"region", CONSTANT, HX_FRAME_REGION},
};

/* The parameter whose name begins there; *ret_end: behind it. */
static const struct parameter *parameter_at(const char *s, const char **ret_end)
{
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz");
    *ret_end = s + n;
    for (size_t i = 0; i < sizeof parameters / sizeof *parameters; i++)
        if (strlen(parameters[i].name) == n && memcmp(parameters[i].name, s, n) == 0)
            return &parameters[i];
    return NULL; /* of no text: a test expands them all */
}

static int64_t number_of(const struct parameter *parameter, const struct hx_query_args *args)
{
    int64_t number;
    memcpy(&number, (const char *)args + parameter->offset, sizeof number);
    return number;
}

static const char *text_of(const struct parameter *parameter, const struct hx_query_args *args)
{
    const char *text;
    memcpy(&text, (const char *)args + parameter->offset, sizeof text);
    return text;
}

static bool is_given(const struct parameter *parameter, const struct hx_query_args *args)
{
    return parameter->kind == NUMBER ? number_of(parameter, args) != 0
                                     : text_of(parameter, args) != NULL;
}

static void put_argument(const struct parameter *parameter, const struct hx_query_args *args,
                         struct hx_text *sql)
{
    switch (parameter->kind) {
    case NUMBER:
        hx_text_putf(sql, "%" PRId64, number_of(parameter, args));
        break;
    case LITERAL:
        hx_text_sql(sql, text_of(parameter, args));
        break;
    case TRUSTED:
        hx_text_puts(sql, is_given(parameter, args) ? text_of(parameter, args) : "1");
        break;
    case CENSUS:
        hx_text_putc(sql, '(');
        hx_census_sql(args->census, args->snapshot, sql);
        hx_text_putc(sql, ')');
        break;
    case LABEL:
        hx_census_label_sql(args->census, "key", sql);
        break;
    case CONSTANT:
        hx_text_putf(sql, "%zu", parameter->offset);
        break;
    }
}

void hx_query_expand(const char *text, const struct hx_query_args *args, struct hx_text *sql)
{
    for (const char *s = text; *s;) {
        size_t n = strcspn(s, "${~}");
        hx_text_putn(sql, s, n);
        s += n;
        char mark = *s;
        s += mark != 0;
        const struct parameter *parameter = mark == '$' || mark == '{' ? parameter_at(s, &s) : NULL;
        if (mark == '$' && parameter) {
            put_argument(parameter, args, sql);
        } else if (mark == '{') {
            s += *s == ':';
            if (parameter && !is_given(parameter, args)) {
                s += strcspn(s, "~}");
                s += *s != 0;
            }
        } else if (mark == '~') { /* what comes before it was taken */
            s += strcspn(s, "}");
        }
    }
}

void hx_text_sql(struct hx_text *sql, const char *text)
{
    if (!text) {
        hx_text_puts(sql, "NULL");
        return;
    }
    hx_text_putc(sql, '\'');
    for (; *text; text++) {
        if (*text == '\'')
            hx_text_putc(sql, '\'');
        hx_text_putc(sql, *text);
    }
    hx_text_putc(sql, '\'');
}

/* --- asking ---------------------------------------------------------------------------------- */

void hx_query_put(enum hx_query_name name, const struct hx_query_args *args, struct hx_text *sql)
{
    hx_query_expand(texts[name], args, sql);
}

hx_error *hx_query_text(hx_store *store, struct hx_text *sql, hx_rows **ret)
{
    hx_error *error = sql->failed ? hx_error_nomem() : hx_query_sql(store, hx_text_str(sql), ret);
    hx_text_free(sql);
    return error;
}

hx_error *hx_query_named(hx_store *store, enum hx_query_name name, const struct hx_query_args *args,
                         hx_rows **ret)
{
    struct hx_text sql = {0};
    hx_query_put(name, args, &sql);
    return hx_query_text(store, &sql, ret);
}

static hx_error *read_number(hx_rows *rows, int64_t *ret)
{
    bool more = false;
    hx_error *error = hx_rows_next(rows, &more);
    if (!error && more && hx_rows_value(rows, 0).type == HX_VALUE_INT)
        *ret = hx_rows_value(rows, 0).i;
    hx_rows_end(rows);
    return error;
}

hx_error *hx_query_number(hx_store *store, enum hx_query_name name,
                          const struct hx_query_args *args, int64_t *ret)
{
    hx_rows *rows;
    HX_TRY(hx_query_named(store, name, args, &rows));
    return read_number(rows, ret);
}

hx_error *hx_query_string(hx_store *store, enum hx_query_name name,
                          const struct hx_query_args *args, struct hx_text *ret)
{
    hx_rows *rows;
    bool more = false;
    HX_TRY(hx_query_named(store, name, args, &rows));
    hx_error *error = hx_rows_next(rows, &more);
    struct hx_value value = {.type = HX_VALUE_NULL};
    if (!error && more)
        value = hx_rows_value(rows, 0);
    if (value.type == HX_VALUE_TEXT)
        hx_text_puts(ret, value.text);
    hx_rows_end(rows);
    return error;
}

hx_error *hx_query_each(hx_store *store, enum hx_query_name name, const struct hx_query_args *args,
                        hx_row_fn *row, void *context)
{
    hx_rows *rows;
    hx_error *error = NULL;
    HX_TRY(hx_query_named(store, name, args, &rows));
    for (bool more = true; !error && more;) {
        error = hx_rows_next(rows, &more);
        if (!error && more)
            error = row(context, rows);
    }
    hx_rows_end(rows);
    return error;
}

/* --- some rows -----------------------------------------------------------------------------------
 */

/* The key of the rows breaks ties, so that windows of one list fit together. */
static void put_selection_order(const struct hx_selection *selection, struct hx_text *sql)
{
    const char *const *key = selection->key;
    if (!selection->sort)
        return;
    hx_text_putf(sql, " ORDER BY \"%s\" %s", selection->sort,
                 selection->ascending ? "ASC NULLS LAST" : "DESC");
    if (selection->then)
        hx_text_putf(sql, ", \"%s\" DESC", selection->then);
    for (; key && *key; key++)
        hx_text_putf(sql, ", \"%s\"", *key);
}

hx_error *hx_query_select(hx_store *store, const char *statement,
                          const struct hx_selection *selection, hx_rows **ret)
{
    struct hx_text sql = {0};
    const char *columns = selection->columns;
    hx_text_putf(&sql, "SELECT %s FROM (%s) WHERE ", columns ? columns : "*", statement);
    if (selection->without)
        hx_text_putf(&sql, "\"%s\" IS NULL", selection->without);
    else
        hx_text_putc(&sql, '1');
    if (selection->where)
        hx_text_putf(&sql, " AND (%s)", selection->where);
    put_selection_order(selection, &sql);
    hx_text_putf(&sql, " LIMIT %" PRId64 " OFFSET %" PRId64, selection->limit, selection->offset);
    return hx_query_text(store, &sql, ret);
}

hx_error *hx_query_select_count(hx_store *store, const char *statement, const char *where,
                                int64_t *ret)
{
    struct hx_text sql = {0};
    hx_rows *rows;
    *ret = 0;
    hx_text_putf(&sql, "SELECT count(*) FROM (%s) WHERE %s", statement, where ? where : "1");
    HX_TRY(hx_query_text(store, &sql, &rows));
    return read_number(rows, ret);
}

void hx_keys_where(const char *const *columns, const char *const *keys, size_t n_keys,
                   struct hx_text *sql)
{
    hx_text_putc(sql, '(');
    for (const char *const *name = columns; *name; name++)
        hx_text_putf(sql, "%sCASE typeof(\"%s\") WHEN 'real' THEN '' ELSE quote(\"%s\") END || ','",
                     name == columns ? "" : " || ", *name, *name);
    hx_text_puts(sql, ") IN (");
    for (size_t i = 0; i < n_keys; i++) {
        hx_text_puts(sql, i ? "," : "");
        hx_text_sql(sql, keys[i]);
    }
    hx_text_putc(sql, ')');
}
