/* export.c - the table of formats, and what they share. */
#include "export/export.h"

#include "base/cleanup.h"
#include "store/query.h"

#include <stdio.h>
#include <string.h>

#define X(name) extern const struct hx_exporter hx_export_##name;
HX_EXPORTS(X)
#undef X

const struct hx_exporter *const hx_exporters[] = {
#define X(name) &hx_export_##name,
    HX_EXPORTS(X)
#undef X
        NULL,
};

const struct hx_exporter *hx_exporter_find(const char *name)
{
    for (const struct hx_exporter *const *exporter = hx_exporters; *exporter; exporter++)
        if (strcmp((*exporter)->name, name) == 0)
            return *exporter;
    return NULL;
}

bool hx_export_has_word(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = list; n && (at = strstr(at, word)); at += n)
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || at[n] == 0))
            return true;
    return false;
}

hx_error *hx_export_has(const struct hx_export *export, const struct hx_stored_census *census,
                        bool *ret)
{
    struct hx_text sql = {0};
    hx_text_puts(&sql, "SELECT 1 FROM (");
    hx_census_sql(census, export->snapshot, &sql);
    hx_text_puts(&sql, ") LIMIT 1");
    hx_rows *rows = NULL;
    hx_error *err =
        sql.failed ? hx_error_nomem() : hx_query_sql(export->store, hx_text_str(&sql), &rows);
    hx_text_free(&sql);
    if (err)
        return err;
    err = hx_rows_next(rows, ret);
    hx_rows_end(rows);
    return err;
}

hx_error *hx_export_choose(const struct hx_export *export, const char *list,
                           const struct hx_stored_census **ret)
{
    const struct hx_stored_census *first = NULL;
    for (const char *at = list; *at;) {
        char word[32];
        size_t n = strcspn(at, " ");
        snprintf(word, sizeof word, "%.*s", (int)n, at);
        const struct hx_stored_census *census = hx_census_find(word);
        bool has = false;
        if (census && strcmp(census->total, "heap_bytes") != 0)
            census = NULL; /* it is not about the heap: only who asks for it means it */
        if (census)
            HX_TRY(hx_export_has(export, census, &has));
        if (has || (census && !first))
            first = census;
        if (has)
            break;
        at += n + strspn(at + n, " ");
    }
    *ret = first;
    return NULL;
}

hx_error *hx_export_absent(const struct hx_export *export, const char *by)
{
    static const struct {
        const char *by, *todo;
    } ways[] = {
        {"ccs", "heapx run and heapx record know it"},
        {"site", "heapx run and heapx record know it"},
        {"module", "heapx run and heapx record know it"},
        {"biography", "only imported profiles have one so far"},
        {"bin", "see: heapx report FILE snapshots"},
    };
    const char *todo = "see: heapx report FILE snapshots";
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (strcmp(ways[i].by, by) == 0)
            todo = ways[i].todo;
    return hx_error_new(HX_E_ABSENT, export->title, todo, "has no data to export by %s", by);
}
