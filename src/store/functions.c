/* functions.c - regexp(PATTERN, VALUE): is a POSIX extended expression found in the value?
 *
 * The same expressions as in the filter language, with the same limits. An expression is
 * compiled once for each statement, and what it says of short texts is remembered: most columns of
 * texts have few different ones. */
#include "store/functions.h"

#include "base/index.h"
#include "query/regexp.h"
#include "store/db.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { SEEN = 1024, SEEN_TEXT = 80 };

struct regexp {
    hx_regexp *compiled;
    struct seen {
        bool known, matches;
        unsigned char n;
        char text[SEEN_TEXT];
    } * seen; /* SEEN of them; NULL: it was used once so far */
};

static void destroy_regexp(void *arg)
{
    struct regexp *regexp = arg;
    if (!regexp)
        return;
    hx_regexp_destroy(regexp->compiled);
    free(regexp->seen);
    free(regexp);
}

static bool matches_again(struct regexp *regexp, const struct hx_filter_value *value)
{
    if (!regexp->seen)
        regexp->seen = calloc(SEEN, sizeof *regexp->seen);
    if (!regexp->seen || value->type != HX_FILTER_STRING || !value->text || value->n > SEEN_TEXT)
        return hx_regexp_matches(regexp->compiled, *value);
    struct seen *seen = &regexp->seen[hx_hash_bytes(value->text, value->n) % SEEN];
    if (!seen->known || seen->n != value->n || memcmp(seen->text, value->text, value->n) != 0) {
        *seen = (struct seen){.known = true,
                              .matches = hx_regexp_matches(regexp->compiled, *value),
                              .n = (unsigned char)value->n};
        memcpy(seen->text, value->text, value->n);
    }
    return seen->matches;
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

static hx_error *compile_sql_regexp(sqlite3_value *pattern, struct regexp **ret)
{
    const char *text = (const char *)sqlite3_value_text(pattern);
    HX_NEED(text);
    if (strlen(text) != (size_t)sqlite3_value_bytes(pattern))
        return hx_error_new(HX_E_USAGE, "regexp", NULL, "there is a zero byte in the expression");
    struct regexp *regexp = calloc(1, sizeof *regexp);
    HX_NEED(regexp);
    hx_error *err = hx_regexp_create(text, &regexp->compiled);
    if (err)
        free(regexp);
    else
        *ret = regexp;
    return err;
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
    struct regexp *regexp = sqlite3_get_auxdata(context, 0), *fresh = NULL;
    if (!regexp) {
        hx_error *err = compile_sql_regexp(argv[0], &fresh);
        if (err) {
            set_function_error(context, err);
            return;
        }
    }
    const struct hx_filter_value value = sql_filter_value(argv[1]);
    sqlite3_result_int(context, fresh ? hx_regexp_matches(fresh->compiled, value)
                                      : matches_again(regexp, &value));
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
