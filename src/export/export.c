/* export.c - the table of formats, and what they share. */
#include "export/export.h"

#include "base/cleanup.h"
#include "store/query/named.h"

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

void hx_export_words(const struct hx_exporter *exporter, struct hx_text *words)
{
    const char *star = strchr(exporter->by, '*');
    size_t n = star ? (size_t)(star - exporter->by) : strlen(exporter->by);
    const char *blank = "";
    hx_text_putn(words, exporter->by, n);
    for (const struct hx_stored_census *census = hx_stored_censuses; census->name; census++)
        if (star && census->formats & exporter->censuses &&
            !hx_export_has_word(exporter->by, census->name)) {
            hx_text_putf(words, "%s%s", blank, census->name);
            blank = " ";
        }
    hx_text_puts(words, star ? star + 1 : "");
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
    int64_t rows = 0;
    HX_TRY(hx_query_number(export->store, HX_QUERY_census_any,
                           HX_QUERY_ARGS(.census = census, .snapshot = export->snapshot), &rows));
    *ret = rows;
    return NULL;
}

hx_error *hx_export_choose(const struct hx_export *export, const struct hx_stored_census **ret)
{
    bool has = false;
    for (*ret = hx_stored_censuses; (*ret)->name && !has; *ret += !has)
        if (!((*ret)->formats & HX_CENSUS_ASKED))
            HX_TRY(hx_export_has(export, *ret, &has));
    if (!has)
        *ret = hx_stored_censuses;
    return NULL;
}

hx_error *hx_export_absent(const struct hx_export *export, const char *by)
{
    const struct hx_stored_census *census = hx_census_find(by);
    return hx_error_new(HX_E_ABSENT, export->title,
                        census && census->todo ? census->todo : "see: heapx report FILE snapshots",
                        "has no data to export by %s", by);
}

hx_error *hx_export_damaged(const struct hx_export *export, const char *what)
{
    return hx_error_new(HX_E_CORRUPT, export->title, "take it from a backup or make it again",
                        "the store is damaged (%s)", what);
}

hx_error *hx_export_stacktree(const struct hx_export *export, enum hx_stacktree_of of,
                              struct hx_stacktree *ret)
{
    HX_TRY(hx_stacktree_load(export->store, of, ret));
    return ret->damage ? hx_export_damaged(export, ret->damage) : NULL;
}
