/* subset.c - sets of objects: which they are, how many, how large. */
#include "store/query/subset.h"

#include "model/graph.h"
#include "store/census.h"
#include "store/query/named.h"

#include <string.h>

/* Only words of the model get into a statement. */
const char *hx_of_state(const char *text)
{
    for (int i = HX_STATE_NONE + 1; text && i < HX_STATES; i++)
        if (strcmp(hx_state_name((enum hx_state)i), text) == 0)
            return hx_state_name((enum hx_state)i);
    return "";
}

#define STACK_LABEL "(SELECT label FROM hx_stack WHERE stack_id = $id)"
#define BELOW                                                                                      \
    "(WITH RECURSIVE b(id) AS (SELECT $id UNION SELECT c.ccs_id FROM b"                            \
    " CROSS JOIN hx_ccs c ON c.parent_id = b.id) SELECT id FROM b)"

/* By subset: the condition, and where the sums are. Of what is below, stacks are looked up for each
 * object, not scanned for each stack. Behind IS NOT NULL SQLite would tell no LIMIT to the table.
 */
static const struct {
    const char *where, *sums;
} subsets[] = {
    [HX_SUBSET_LEAK] = {"state = $text AND type IS $more{id: AND +stack_id IN (SELECT s.stack_id"
                        " FROM hx_stack s WHERE s.label = " STACK_LABEL ")}",
                        "leaks WHERE kind = $text AND type IS $more{id: AND site = " STACK_LABEL
                        "}"},
    [HX_SUBSET_SET] = {"set_id = $id{more: AND holder = $more}",
                       "{more:(SELECT snapshot, bytes, 1 AS objects FROM objects"
                       " WHERE snapshot = $snapshot AND set_id = $id AND holder = $more) WHERE 1"
                       "~retainers WHERE set_id = $id}"},
    [HX_SUBSET_BIN] = {"bin = $text", "bins WHERE roots = $text"},
    [HX_SUBSET_TYPE] = {"type {text:=~IS} $text", "types WHERE type = {text:$text~'(unknown)'}"},
    [HX_SUBSET_SITE] = {"stack_id = $id", "hx_stack_site WHERE stack_id = $id"},
    [HX_SUBSET_CCS] = {"ccs_id = $id", "hx_site WHERE ccs_id = $id"},
    [HX_SUBSET_THREAD] = {"", "leaks WHERE 0"},
    [HX_SUBSET_BELOW] = {"+ccs_id IN " BELOW, "hx_site WHERE +ccs_id IN " BELOW},
    [HX_SUBSET_STATE] = {"state = $text", "leaks WHERE kind = $text"},
    [HX_SUBSET_MODULE] = {"{text:~stack_id IS NULL OR }+stack_id IN (SELECT t.stack_id"
                          " FROM hx_stack t WHERE coalesce(t.module, '(unknown)') ="
                          " {text:$text~'(unknown)'})",
                          "modules WHERE module = {text:$text~'(unknown)'}"},
    [HX_SUBSET_DOMINATED] = {"dominator{id: = $id~ IS NULL AND retained_bytes >= 0}",
                             "leaks WHERE 0"},
    [HX_SUBSET_KEY] = {"", "WHERE key = $text"},
    [HX_SUBSET_NONE] = {"0", "leaks WHERE 0"},
};

/* Not lost, and not perhaps: what all others leave. */
#define REACHABLE                                                                                  \
    "(SELECT snapshot, heap_bytes AS bytes, heap_objects AS objects FROM snapshots"                \
    " UNION ALL SELECT snapshot, -bytes, -objects FROM leaks) WHERE 1"

void hx_below_sql(int64_t ccs_id, struct hx_text *sql)
{
    hx_query_expand(BELOW, HX_QUERY_ARGS(.id = ccs_id), sql);
}

static struct hx_query_args args_of(const struct hx_of *of)
{
    struct hx_query_args args = {.id = of->id, .text = of->text, .more = of->more};
    if (of->subset == HX_SUBSET_LEAK || of->subset == HX_SUBSET_STATE)
        args.text = hx_of_state(of->text);
    if (of->subset == HX_SUBSET_MODULE && of->text && strcmp(of->text, "(unknown)") == 0)
        args.text = NULL;
    return args;
}

void hx_of_where(const struct hx_of *of, struct hx_text *sql)
{
    const struct hx_query_args args = args_of(of);
    if (of->subset == HX_SUBSET_KEY)
        hx_query_expand(hx_stored_censuses[of->id].members, &args, sql);
    else if (of->subset != HX_SUBSET_ALL)
        hx_query_expand(subsets[of->subset].where, &args, sql);
}

void hx_of_facts(const struct hx_of *of, int64_t snapshot, struct hx_text *sql)
{
    struct hx_query_args args = args_of(of);
    args.snapshot = snapshot;
    if (of->subset == HX_SUBSET_ALL) {
        hx_query_put(HX_QUERY_heap_sums, &args, sql);
        return;
    }
    bool reachable = of->subset == HX_SUBSET_STATE && strcmp(args.text, "reachable") == 0;
    hx_text_puts(sql, "SELECT coalesce(sum(objects), 0) AS rows, coalesce(sum(bytes), 0) AS bytes");
    if (of->subset == HX_SUBSET_LEAK)
        hx_query_expand("{id:, " STACK_LABEL " AS site}", &args, sql);
    hx_text_puts(sql, " FROM ");
    if (of->subset == HX_SUBSET_KEY) {
        hx_text_puts(sql, "(");
        hx_census_sql(&hx_stored_censuses[of->id], snapshot, sql);
        hx_text_puts(sql, ") ");
    }
    hx_query_expand(reachable ? REACHABLE : subsets[of->subset].sums, &args, sql);
    hx_query_expand(" AND snapshot = $snapshot", &args, sql);
}
