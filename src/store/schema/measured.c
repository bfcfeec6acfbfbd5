/* measured.c - a view that is empty because nothing is there, and one whose rows were never
 * measured.
 */
#include "store/schema/measured.h"

#include "store/census.h"

#include <stdio.h>
#include <string.h>

/* Is there a row of the query's snapshots in a table, or another one that is asked for? */
static hx_error *has_rows(hx_store *store, const struct hx_query *query, const char *table,
                          bool *ret)
{
    char sql[128];
    snprintf(sql, sizeof sql, "SELECT 1 FROM %s WHERE %lld = 0 OR snapshot = %lld", table,
             (long long)query->snapshot, (long long)query->snapshot);
    hx_rows *rows = NULL;
    HX_TRY(hx_query_sql(store, sql, &rows));
    hx_error *err = hx_rows_next(rows, ret);
    hx_rows_end(rows);
    return err;
}

/* A profile of another program tells its own break-down: what else is asked of it is no empty
 * view. */
static hx_error *refuse_imported(hx_store *store, const char *target, const struct hx_query *query)
{
    static const char *const not_of_snapshots[] = {"snapshots", "losses", "ccs", "frames",
                                                   "retainer_members"};
    for (size_t i = 0; i < sizeof not_of_snapshots / sizeof *not_of_snapshots; i++)
        if (strcmp(not_of_snapshots[i], query->view) == 0)
            return NULL;
    long long number = query->snapshot;
    char sql[512];
    snprintf(sql, sizeof sql,
             "SELECT notes FROM snapshots WHERE (%lld = 0 OR snapshot = %lld) AND NOT EXISTS"
             " (SELECT 1 FROM snapshots WHERE method IS NOT 'import' AND (%lld = 0 OR"
             " snapshot = %lld)) AND NOT EXISTS (SELECT 1 FROM %s WHERE %lld = 0 OR"
             " snapshot = %lld) AND heap_bytes IS NOT 0 ORDER BY snapshot DESC LIMIT 1",
             number, number, number, number, query->view, number, number);
    hx_rows *rows = NULL;
    bool more = false;
    HX_TRY(hx_query_sql(store, sql, &rows));
    hx_error *err = hx_rows_next(rows, &more);
    struct hx_value notes = {0};
    if (!err && more)
        notes = hx_rows_value(rows, 0);
    if (!err && more)
        err = hx_error_new(HX_E_ABSENT, target, "see: heapx report TARGET snapshots",
                           "%s is not known: the imported profile does not tell it (%s)",
                           query->view, notes.type == HX_VALUE_TEXT ? notes.text : "no notes");
    hx_rows_end(rows);
    return err;
}

/* Who allocated is known only when somebody recorded it. */
hx_error *hx_query_recorded(hx_store *store, const char *target, const struct hx_query *query)
{
    HX_TRY(refuse_imported(store, target, query));
    static const char *const recorded[] = {"sites",  "modules",    "stacks",       "ccs",
                                           "costs",  "estimates",  "mprof_leaks",  "mprof_held",
                                           "frames", "mprof_bins", "mprof_direct", "mprof_graph"};
    bool is_one = false, measured = false;
    for (size_t i = 0; i < sizeof recorded / sizeof *recorded; i++)
        is_one |= strcmp(recorded[i], query->view) == 0;
    if (!is_one)
        return NULL;
    bool tree = strcmp(query->view, "ccs") == 0 || strcmp(query->view, "frames") == 0;
    HX_TRY(has_rows(store, query, "costs", &measured));
    /* where threads stood is known without; imported profiles know modules and nothing else */
    if (!measured)
        HX_TRY(has_rows(store, query, tree ? "threads" : query->view, &measured));
    if (!measured)
        return hx_error_new(HX_E_ABSENT, target, "use heapx run or heapx record",
                            "%s is not known: nothing was recorded", query->view);
    if (strcmp(query->view, "estimates") != 0)
        return NULL;
    HX_TRY(has_rows(store, query, "estimates", &measured));
    return measured ? NULL
                    : hx_error_new(HX_E_ABSENT, target, "see: heapx report TARGET costs",
                                   "there are no estimates: every allocation was recorded");
}

/* A break-down of a heap that has objects, but no row of it, was never measured: that is not the
 * same as an empty one. */
hx_error *hx_query_measured(hx_store *store, const char *target, const struct hx_query *query)
{
    static const struct {
        const char *view, *counted, *why;
    } others[] = {
        {"censuses", NULL, NULL},
        /* nothing that is lost dominates or is dominated */
        {"dominators", "reachable_objects IS NOT 0", NULL},
        {"tree", NULL, NULL},
        {"holder_tree", NULL, "holders were not worked out: all references are looked at"},
        {"pages", NULL, "which pages were resident was not recorded"},
    };
    const struct hx_stored_census *census = hx_census_of_view(query->view);
    bool is_one = census != NULL, more = false;
    const char *counted = census ? census->counted : NULL,
               *why = census ? census->unmeasured : NULL;
    for (size_t i = 0; i < sizeof others / sizeof *others && !is_one; i++) {
        is_one = strcmp(others[i].view, query->view) == 0;
        counted = others[i].counted;
        why = others[i].why;
    }
    if (!is_one)
        return NULL;
    char sql[256];
    snprintf(sql, sizeof sql,
             "SELECT iif(heap_objects IS NULL, '-', analysed) FROM snapshots WHERE %s AND (%lld = "
             "0 OR snapshot = %lld)"
             " AND NOT EXISTS (SELECT 1 FROM %s WHERE %lld = 0 OR snapshot = %lld)",
             counted ? counted : "heap_objects IS NOT 0", (long long)query->snapshot,
             (long long)query->snapshot, query->view, (long long)query->snapshot,
             (long long)query->snapshot);
    hx_rows *rows = NULL;
    HX_TRY(hx_query_sql(store, sql, &rows));
    hx_error *err = hx_rows_next(rows, &more);
    const bool later = !err && more && !*hx_rows_value(rows, 0).text;
    hx_rows_end(rows);
    if (err || !more)
        return err;
    if (later)
        why = "it was left to later (heapx analyse FILE works it out)";
    return hx_error_new(HX_E_ABSENT, target, "see: heapx report TARGET snapshots",
                        "%s %s not known: %s", query->view, census && census->lost ? "are" : "is",
                        why ? why : "no objects were found, or the notes say why");
}
