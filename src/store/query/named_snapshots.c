/* named_snapshots.c - named queries about snapshots as wholes. */
#include "store/query/named_text.h"

/* A snapshot without judged words cannot have holders, and who chose to have none gets none. */
TEXT(snapshots) = "SELECT *, EXISTS (SELECT 1 FROM costs AS c WHERE c.snapshot = s.snapshot)"
                  " AS recorded,"
                  " CASE WHEN EXISTS (SELECT 1 FROM hx_holding AS h WHERE h.snapshot = s.snapshot)"
                  " THEN 1 WHEN (SELECT parts & 8 FROM hx_snapshot AS h"
                  " WHERE h.snapshot = s.snapshot) THEN 0 END AS held,"
                  " EXISTS (SELECT 1 FROM hx_snapshot AS h JOIN hx_census AS c USING(snapshot)"
                  " WHERE h.snapshot = s.snapshot AND h.parts & 36 <> 36) AS later"
                  " FROM snapshots AS s ORDER BY snapshot";

TEXT(snapshot_list) = "SELECT *, CASE complete WHEN 0 THEN 'PARTIAL' ELSE 'yes' END AS whole"
                      " FROM snapshots ORDER BY snapshot";

TEXT(snapshot_list_facts) = "SELECT count(*) AS rows, max(heap_bytes) AS most FROM snapshots";

TEXT(snapshot_value) = "SELECT \"$column\" AS value FROM snapshots WHERE snapshot = $snapshot";

TEXT(heap_sums) = "SELECT heap_objects AS rows, heap_bytes AS bytes FROM snapshots"
                  " WHERE snapshot = $snapshot";

TEXT(reachable_sums) = "SELECT reachable_bytes AS bytes, reachable_objects AS objects"
                       " FROM snapshots WHERE snapshot = $snapshot";

TEXT(timepoints) = "SELECT snapshot, taken_at_ns, started_at_ns, pid, comm, exe, heap_bytes,"
                   " heap_objects FROM hx_snapshot{snapshot: WHERE snapshot = $snapshot}"
                   " ORDER BY snapshot";

TEXT(heap_samples) =
    "SELECT s.snapshot AS snapshot, (SELECT c.inherited_alloc_bytes FROM hx_recording AS r"
    " CROSS JOIN hx_cost AS c ON c.snapshot = r.snapshot AND c.ccs_id = 1"
    " WHERE r.snapshot = s.snapshot"
    " AND r.from_start = 1 AND coalesce(r.sample_bytes, 0) = 0) AS allocated,"
    " s.heap_bytes AS live, s.heap_bytes + s.free_bytes + s.overhead_bytes AS size"
    " FROM hx_snapshot AS s ORDER BY s.snapshot";

TEXT(census_options) = "SELECT scheme, max_set, patterns, threads_as, holders FROM hx_census"
                       " WHERE snapshot IN (SELECT snapshot FROM hx_snapshot)"
                       "{snapshot: AND snapshot = $snapshot} ORDER BY snapshot DESC LIMIT 1";
