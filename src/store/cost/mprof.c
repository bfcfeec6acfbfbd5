/* mprof.c - rows of mprof's tables, without the small ones.
 *
 * Shares decide, as the paper's tool has it: of the bytes allocated in the table of leaks, of the
 * number of allocations in that of sizes. The other two tables show everything. */
#include "store/cost/mprof.h"

#include "base/cleanup.h"
#include "store/cost/mprof_private.h"
#include "store/db.h"
#include "store/store_private.h"

#include <string.h>

static const char *const mprof_views[] = {"mprof_leaks", "mprof_bins", "mprof_direct",
                                          "mprof_graph"};

bool hx_mprof_is_view(const char *view)
{
    for (size_t i = 0; i < sizeof mprof_views / sizeof *mprof_views; i++)
        if (strcmp(mprof_views[i], view) == 0)
            return true;
    return false;
}

/* --- is there anything? --------------------------------------------------------------- */

/* Snapshots that are asked for: of a recording, and of one that tells requests by size. */
static hx_error *count_recorded(hx_store *store, int64_t snapshot, int64_t *ret_all,
                                int64_t *ret_sized)
{
    HX_STATEMENT sqlite3_stmt *st = NULL;
    HX_TRY(hx_db_prepare(store->db, store->path,
                         "SELECT count(*), count(s) FROM hx_mprof WHERE ?1 IN (0, snapshot)"
                         " AND snapshot IN (SELECT snapshot FROM hx_snapshot)",
                         &st));
    sqlite3_bind_int64(st, 1, snapshot);
    int code = sqlite3_step(st);
    if (code != SQLITE_ROW)
        return hx_db_error(store->db, code, store->path);
    *ret_all = sqlite3_column_int64(st, 0);
    *ret_sized = sqlite3_column_int64(st, 1);
    return NULL;
}

hx_error *hx_mprof_test(hx_store *store, const struct hx_query *query)
{
    int64_t all = 0, sized = 0;
    HX_TRY(count_recorded(store, query->snapshot, &all, &sized));
    bool by_size =
        strcmp(query->view, "mprof_bins") == 0 || strcmp(query->view, "mprof_graph") == 0;
    if (!all)
        return hx_error_new(HX_E_ABSENT, store->path, "use heapx run or heapx record",
                            "%s is not known: nothing was recorded", query->view);
    if (by_size && !sized)
        return hx_error_new(HX_E_ABSENT, store->path, "record it again",
                            "%s is not known: this was recorded by an older heapx, which did not "
                            "tell requests by their size",
                            query->view);
    return NULL;
}

/* --- levels --------------------------------------------------------------------------- */

/* Without small chains. */
static const char *leaks_of(enum hx_mprof_level level)
{
    switch (level) {
    case HX_MPROF_TERSE:
        return "SELECT * FROM mprof_leaks WHERE alloc_percent >= 1";
    case HX_MPROF_NORMAL:
        return "SELECT * FROM mprof_leaks WHERE alloc_percent >= 0.5";
    case HX_MPROF_VERBOSE:
        break;
    }
    return NULL;
}

#define BINS_COLUMNS                                                                               \
    "snapshot, size, allocs, bytes, bytes_percent, frees, kept_bytes, kept_percent, types"
#define BINS_TOTAL(column)                                                                         \
    "max(CASE size WHEN '<TOTAL>' THEN " column " END) OVER (PARTITION BY snapshot)"
#define BINS_SHARE(column)                                                                         \
    "CASE WHEN total_" column " > 0 THEN 100.0 * sum(" column ") / total_" column " ELSE 0.0 END"
/* b: all rows, with the totals beside each. Any text is larger than a number. */
#define BINS(shown)                                                                                \
    "WITH b AS MATERIALIZED (SELECT *, " BINS_TOTAL(                                               \
        "allocs") " AS total,"                                                                     \
                  " " BINS_TOTAL("bytes") " AS total_bytes, " BINS_TOTAL(                          \
                      "kept_bytes") " AS total_kept_bytes"                                         \
                                    " FROM mprof_bins),"                                           \
                                    " c AS MATERIALIZED (SELECT *, size = '<TOTAL>' OR " shown     \
                                    " AS shown FROM b)"                                            \
                                    " SELECT " BINS_COLUMNS " FROM c WHERE shown UNION ALL"        \
                                    " SELECT snapshot, 'other bins', sum(allocs), "                \
                                    "sum(bytes), " BINS_SHARE(                                     \
                                        "bytes") ","                                               \
                                                 " sum(frees), sum(kept_bytes), " BINS_SHARE(      \
                                                     "kept_bytes") ", NULL"                        \
                                                                   " FROM c WHERE NOT shown "      \
                                                                   "GROUP BY snapshot"

/* Without sizes that few requests had, but for those of a type; their sum instead. */
static const char *bins_of(enum hx_mprof_level level)
{
    switch (level) {
    case HX_MPROF_TERSE:
        return BINS("50 * allocs > total OR (types IS NOT NULL AND 100 * allocs > total)");
    case HX_MPROF_NORMAL:
        return BINS("(allocs > 0 AND size > 100) OR 500 * allocs > total"
                    " OR (types IS NOT NULL AND 100 * allocs > total)");
    case HX_MPROF_VERBOSE:
        break;
    }
    return NULL;
}

hx_error *hx_mprof_rows(hx_store *store, const struct hx_query *query, enum hx_mprof_level level,
                        hx_rows **ret)
{
    const char *from = strcmp(query->view, "mprof_leaks") == 0  ? leaks_of(level)
                       : strcmp(query->view, "mprof_bins") == 0 ? bins_of(level)
                                                                : NULL;
    return hx_query_from(store, query, from, ret);
}

hx_error *hx_query_mprof(hx_store *store, const struct hx_query *query, enum hx_mprof_level level,
                         hx_rows **ret)
{
    HX_TRY(hx_mprof_test(store, query));
    return hx_mprof_rows(store, query, level, ret);
}
