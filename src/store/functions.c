/* functions.c - regexp(PATTERN, VALUE): is a POSIX extended expression found in the value?
 *
 * The same expressions as in the filter language, with the same limits. An expression is
 * compiled once for each statement. */
#include "store/functions.h"

#include "query/regexp.h"
#include "store/db.h"

#include <string.h>

static void destroy_regexp(void *regexp)
{
    hx_regexp_destroy(regexp);
}

static void set_function_error(sqlite3_context *context, hx_error *err)
{
    char line[512];
    hx_error_line(err, line, sizeof line);
    if (err->kind == HX_E_NOMEM)
        sqlite3_result_error_nomem(context);
    else
        sqlite3_result_error(context, line, -1);
    hx_error_free(err);
}

static hx_error *compile_sql_regexp(sqlite3_value *pattern, hx_regexp **ret)
{
    const char *text = (const char *)sqlite3_value_text(pattern);
    HX_NEED(text);
    if (strlen(text) != (size_t)sqlite3_value_bytes(pattern))
        return hx_error_new(HX_E_USAGE, "regexp", NULL, "there is a zero byte in the expression");
    return hx_regexp_create(text, ret);
}

static struct hx_filter_value sql_filter_value(sqlite3_value *value)
{
    struct hx_filter_value ret = {.type = HX_FILTER_STRING};
    switch (sqlite3_value_type(value)) {
    case SQLITE_INTEGER:
        ret.type = HX_FILTER_INT;
        ret.i = sqlite3_value_int64(value);
        break;
    case SQLITE_FLOAT:
        ret.type = HX_FILTER_REAL;
        ret.real = sqlite3_value_double(value);
        break;
    case SQLITE_NULL:
        ret.type = HX_FILTER_NULL;
        break;
    default:
        ret.text = (const char *)sqlite3_value_text(value);
        ret.n = ret.text ? (size_t)sqlite3_value_bytes(value) : 0;
    }
    return ret;
}

static void sql_regexp(sqlite3_context *context, int n, sqlite3_value **argv)
{
    (void)n;
    if (sqlite3_value_type(argv[0]) == SQLITE_NULL || sqlite3_value_type(argv[1]) == SQLITE_NULL)
        return;
    hx_regexp *regexp = sqlite3_get_auxdata(context, 0), *fresh = NULL;
    if (!regexp) {
        hx_error *err = compile_sql_regexp(argv[0], &fresh);
        if (err) {
            set_function_error(context, err);
            return;
        }
        regexp = fresh;
    }
    sqlite3_result_int(context, hx_regexp_matches(regexp, sql_filter_value(argv[1])));
    if (fresh) /* last: it may be destroyed at once */
        sqlite3_set_auxdata(context, 0, fresh, destroy_regexp);
}

hx_error *hx_functions(sqlite3 *db)
{
    int code = sqlite3_create_function_v2(db, "regexp", 2,
                                          SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS,
                                          NULL, sql_regexp, NULL, NULL, NULL);
    return code == SQLITE_OK ? NULL : hx_db_error(db, code, "regexp");
}
