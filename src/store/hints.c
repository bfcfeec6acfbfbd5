/* hints.c - what helps with a variable that has no name; see hints.h. */
#include "store/hints.h"

#include "base/cleanup.h"
#include "model/function_name.h"
#include "store/db.h"
#include "sym/package.h"

void hx_names_in(const char *path, const char *build_id, struct hx_text *ret)
{
    size_t n = ret->n;
    if (path && build_id)
        hx_debug_package(path, build_id, ret);
    if (ret->n == n && build_id)
        hx_text_putf(ret, "debug file of build-id %s", build_id);
    else if (ret->n == n)
        hx_text_puts(ret, "a build with -g");
}

static void sql_names_in(sqlite3_context *context, int n, sqlite3_value **argv)
{
    (void)n;
    HX_CLEANUP(hx_text_free) struct hx_text text = {0};
    hx_names_in((const char *)sqlite3_value_text(argv[0]),
                (const char *)sqlite3_value_text(argv[1]), &text);
    if (text.failed)
        sqlite3_result_error_nomem(context);
    else
        sqlite3_result_text64(context, hx_text_str(&text), text.n, SQLITE_TRANSIENT, SQLITE_UTF8);
}

static void sql_maker(sqlite3_context *context, int n, sqlite3_value **argv)
{
    (void)n;
    const char *label = (const char *)sqlite3_value_text(argv[0]);
    HX_CLEANUP(hx_text_free) struct hx_text text = {0};
    if (!label)
        return;
    hx_function_name_maker(&text, label);
    if (text.failed)
        sqlite3_result_error_nomem(context);
    else
        sqlite3_result_text64(context, hx_text_str(&text), text.n, SQLITE_TRANSIENT, SQLITE_UTF8);
}

hx_error *hx_hints(sqlite3 *db)
{
    int code = sqlite3_create_function_v2(db, "hx_maker", 1,
                                          SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_DIRECTONLY,
                                          NULL, sql_maker, NULL, NULL, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_create_function_v2(db, "hx_names_in", 2, SQLITE_UTF8 | SQLITE_DIRECTONLY,
                                          NULL, sql_names_in, NULL, NULL, NULL);
    return code == SQLITE_OK ? NULL : hx_db_error(db, code, "hx_names_in");
}
