/* call_label.c - stacks in one line, and how their frames are asked for. */
#include "ui/data/call_label.h"

#include "model/function_name.h"
#include "cost/ccs.h"

#include <ctype.h>
#include <string.h>

#define BETWEEN " < "

static bool is_library(const char *s)
{
    static const char *const spaces[] = {"std::", "__gnu_cxx::"};
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++)
        if (strncmp(s, spaces[i], strlen(spaces[i])) == 0)
            return true;
    return false;
}

/* What the C library does before main. */
static bool is_start(const char *s)
{
    return strncmp(s, "__libc_start", strlen("__libc_start")) == 0 || strncmp(s, "_start", 6) == 0;
}

const char *hx_source_file(const char *source)
{
    const char *slash = strrchr(source, '/');
    return slash && slash[1] ? slash + 1 : source;
}

bool hx_call_is_library(const char *function)
{
    struct hx_text call = {0};
    hx_function_name_bare(&call, function, strlen(function));
    bool library = is_library(hx_text_str(&call));
    hx_text_free(&call);
    return library;
}

/* The label while it is made. */
struct calls {
    struct hx_text *text;
    size_t begin, last; /* where it begins, and its last call */
    bool recursive;     /* that has called itself */
};

static void put_call(struct calls *calls, struct hx_text *call)
{
    struct hx_text *text = calls->text;
    const char *last = hx_text_str(text) + calls->last, *name = hx_text_str(call);
    if (text->n > calls->begin && strcmp(last, name) == 0 && strcmp(name, "...") != 0) {
        calls->recursive = true;
    } else {
        hx_text_puts(text, calls->recursive ? " (recursive)" : "");
        hx_text_puts(text, text->n > calls->begin ? BETWEEN : "");
        calls->last = text->n;
        calls->recursive = false;
        hx_text_puts(text, name);
    }
    hx_text_clear(call);
}

void hx_text_calls(struct hx_text *text, const char *label)
{
    struct hx_text call = {0}, library = {0}; /* the library's, until somebody else calls it */
    struct calls calls = {.text = text, .begin = text->n, .last = text->n};
    bool was_main = false;
    for (const char *s = label, *next; s; s = next) {
        const char *end = strstr(s, BETWEEN);
        next = end ? end + strlen(BETWEEN) : NULL;
        end = end ? end : s + strlen(s);
        if (was_main && is_start(s))
            break;
        hx_function_name_bare(&call, s, (size_t)(end - s));
        was_main = strcmp(hx_text_str(&call), "main") == 0;
        if (is_library(hx_text_str(&call))) {
            struct hx_text inner = library;
            library = call;
            call = inner;
            hx_text_clear(&call);
            continue;
        }
        if (library.n)
            put_call(&calls, &library);
        put_call(&calls, &call);
    }
    if (library.n)
        put_call(&calls, &library);
    hx_text_puts(text, calls.recursive ? " (recursive)" : "");
    text->failed |= call.failed || library.failed;
    hx_text_free(&call);
    hx_text_free(&library);
}

/* The frames of a stack, and where work was deferred those of whoever asked for it before those of
 * whoever ran it: a statement takes the deepest of them first, and only one of each stack waits. A
 * frame stands behind its parent and behind what it entered. */
void hx_calls_sql(struct hx_text *sql, const char *stack_id, int limit)
{
    hx_text_putf(sql,
                 "WITH RECURSIVE up(frame_id, ran, level) AS (SELECT frame_id, 0, 0 FROM hx_frame"
                 " WHERE frame_id = %s UNION ALL SELECT CASE w.way WHEN 0 THEN f.parent_id"
                 " WHEN 1 THEN p.target ELSE f.frame_id END, w.way = 2, up.level + (w.way = 1)"
                 " FROM up CROSS JOIN hx_frame f ON f.frame_id = up.frame_id"
                 " CROSS JOIN hx_place p ON p.place = f.place"
                 " CROSS JOIN (SELECT 0 AS way UNION ALL SELECT 1 UNION ALL SELECT 2) w"
                 " WHERE CASE w.way WHEN 0 THEN (up.ran OR coalesce(p.kind, 0) <> %d)"
                 " AND f.parent_id > 1 AND f.parent_id < f.frame_id"
                 " WHEN 1 THEN NOT up.ran AND p.kind = %d AND p.target > 1"
                 " AND p.target < f.frame_id ELSE NOT up.ran AND p.kind = %d END"
                 " ORDER BY 3 DESC LIMIT %d)",
                 stack_id, HX_FRAME_DEFERRED, HX_FRAME_DEFERRED, HX_FRAME_DEFERRED, limit);
    hx_text_putf(sql,
                 " SELECT CASE WHEN p.kind = %d THEN '' ELSE printf('#%%d', sum(p.kind IS NOT %d)"
                 " OVER (ROWS UNBOUNDED PRECEDING) - 1) END AS frame,"
                 " CASE WHEN p.kind IS NOT %d THEN p.label WHEN up.ran THEN '-- run by --'"
                 " WHEN p.target > 1 THEN '-- asked for by --'"
                 " ELSE '-- asked for by: not known --' END AS label,"
                 " CASE WHEN p.kind = %d THEN '' ELSE nullif(p.module, '<built-in>') END AS module,"
                 " CASE WHEN p.kind = %d THEN '' ELSE p.source END AS source,"
                 " CASE WHEN p.kind = %d THEN 'region' WHEN p.inlined > 0 THEN 'inlined' ELSE ''"
                 " END AS inlined FROM up LEFT JOIN hx_frame f ON f.frame_id = up.frame_id"
                 " LEFT JOIN hx_place p ON p.place = f.place",
                 HX_FRAME_DEFERRED, HX_FRAME_DEFERRED, HX_FRAME_DEFERRED, HX_FRAME_DEFERRED,
                 HX_FRAME_DEFERRED, HX_FRAME_REGION);
}

void hx_centres_sql(struct hx_text *sql, const char *ccs_id, int limit)
{
    hx_text_putf(sql,
                 "WITH RECURSIVE up(ccs_id, parent_id, centre, n) AS (SELECT ccs_id, parent_id,"
                 " centre, 0 FROM hx_ccs WHERE ccs_id = %s UNION ALL SELECT c.ccs_id, c.parent_id,"
                 " c.centre, up.n + 1 FROM up CROSS JOIN hx_ccs c ON c.ccs_id = up.parent_id"
                 " WHERE up.n + 1 < %d AND up.parent_id > 1)"
                 " SELECT printf('#%%d', up.n) AS frame, p.label AS label,"
                 " nullif(p.module, '<built-in>') AS module, p.source AS source,"
                 " CASE p.kind WHEN 'function' THEN '' ELSE p.kind END AS inlined"
                 " FROM up LEFT JOIN hx_centre p ON p.centre = up.centre ORDER BY up.n",
                 ccs_id, limit);
}
