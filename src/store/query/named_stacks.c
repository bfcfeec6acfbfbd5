/* named_stacks.c - named queries about stacks, cost centres and threads. */
#include "store/query/named_text.h"

/* --- recorded stacks -------------------------------------------------------------------- */

/* The stack that is given, or that of an object. */
#define STACK "{id:$id~" STACK_OF_OBJECT "}"

TEXT(stack) = STACK_FRAMES(STACK);

TEXT(stack_facts) =
    "SELECT max(c.depth, 1) AS rows, t.label AS label, x.bytes AS bytes,"
    " x.objects AS objects, k.alloc_bytes AS alloc_bytes,"
    " k.alloc_objects AS alloc_objects, k.freed_bytes AS freed_bytes,"
    " k.freed_objects AS freed_objects, c.frame_id AS stack_id FROM hx_frame c"
    " LEFT JOIN hx_stack t ON t.stack_id = c.frame_id"
    " LEFT JOIN hx_stack_site x ON x.stack_id = c.frame_id AND x.snapshot = $snapshot"
    " LEFT JOIN hx_stack_cost k ON k.stack_id = c.frame_id"
    " AND k.snapshot = $snapshot WHERE c.frame_id = " STACK;

TEXT(threads) = "SELECT h.snapshot AS snapshot, CAST(h.tid AS TEXT) AS tid, h.name AS name,"
                " t.label AS stack, p.source AS source, h.stack_id AS stack_id FROM hx_thread h"
                " LEFT JOIN hx_stack t ON t.stack_id = h.stack_id"
                " LEFT JOIN hx_frame c ON c.frame_id = h.stack_id"
                " LEFT JOIN hx_place p ON p.place = c.place WHERE h.snapshot = $snapshot"
                " ORDER BY h.tid";

#define TICKS                                                                                      \
    " FROM threads WHERE ccs_id IS NOT NULL AND snapshot IN (SELECT snapshot FROM hx_recording)"
TEXT(tick_threads) = "SELECT DISTINCT tid" TICKS " ORDER BY tid";
TEXT(ticks) = "SELECT snapshot, tid, ccs_id" TICKS " ORDER BY snapshot, tid";

/* --- cost-centre stacks ------------------------------------------------------------------- */

#define CCS_FRAMES                                                                                 \
    "WITH RECURSIVE up(ccs_id, parent_id, centre, n) AS (SELECT ccs_id, parent_id,"                \
    " centre, 0 FROM hx_ccs WHERE ccs_id = $id UNION ALL SELECT c.ccs_id, c.parent_id,"            \
    " c.centre, up.n + 1 FROM up CROSS JOIN hx_ccs c ON c.ccs_id = up.parent_id"                   \
    " WHERE up.n + 1 < $limit AND up.parent_id > 1)"                                               \
    " SELECT printf('#%d', up.n) AS frame, p.label AS label,"                                      \
    " nullif(p.module, '<built-in>') AS module, p.source AS source,"                               \
    " CASE p.kind WHEN 'function' THEN '' ELSE p.kind END AS inlined"                              \
    " FROM up LEFT JOIN hx_centre p ON p.centre = up.centre ORDER BY up.n"
TEXT(ccs_stack) = CCS_FRAMES;

/* At most 100 of what it called, and 5 objects. A snapshot with a recording in which it is not has
 * 0 bytes of it. */
TEXT(ccs) = "SELECT 1 AS rank, row_number() OVER () AS position, 'called' AS what, label,"
            " about, bytes, own, objects, NULL AS object, NULL AS number, ccs_id,"
            " module, kind, recursive FROM (SELECT n.label AS label,"
            " coalesce(n.source, n.module) AS about, n.module AS module, n.kind AS kind,"
            " c.recursive AS recursive,"
            " k.inherited_live_bytes AS bytes, k.live_bytes AS own,"
            " k.inherited_live_objects AS objects, c.ccs_id AS ccs_id FROM hx_ccs c"
            " CROSS JOIN hx_cost k ON k.snapshot = $snapshot AND k.ccs_id = c.ccs_id"
            " LEFT JOIN hx_centre n ON n.centre = c.centre WHERE c.parent_id = $id"
            " ORDER BY k.inherited_live_bytes DESC, c.ccs_id LIMIT 100)"
            " UNION ALL SELECT 2, -bytes, 'object', printf('0x%x', address), type, bytes,"
            " bytes, 1, address, NULL, NULL, NULL, NULL, NULL FROM (SELECT address, bytes,"
            " type FROM objects WHERE snapshot = $snapshot AND ccs_id = $id"
            " ORDER BY bytes DESC, address LIMIT 5)"
            " UNION ALL SELECT 3, s.snapshot, 'snapshot', s.snapshot || CASE s.snapshot"
            " WHEN $snapshot THEN ' (this one)' ELSE '' END,"
            " replace(substr(s.taken_at, 6, 14), 'T', ' '),"
            " coalesce(k.inherited_live_bytes, CASE WHEN m.ccs_id THEN 0 END),"
            " coalesce(k.live_bytes, CASE WHEN m.ccs_id THEN 0 END),"
            " k.inherited_live_objects, NULL, s.snapshot, NULL, NULL, NULL, NULL"
            " FROM snapshots s"
            " LEFT JOIN hx_cost k ON k.snapshot = s.snapshot AND k.ccs_id = $id"
            " LEFT JOIN hx_cost m ON m.snapshot = s.snapshot AND m.ccs_id = 1"
            " ORDER BY rank, position, object";

/* Its line of bytes is of the last 1000 snapshots. */
TEXT(ccs_facts) =
    "SELECT (SELECT count(*) FROM snapshots) + 105 AS rows, k.*, n.label AS label,"
    " n.module AS module, n.source AS source, n.kind AS kind,"
    " c.recursive AS recursive, (SELECT group_concat(coalesce(bytes, '-'), ' ') FROM"
    " (SELECT coalesce(y.inherited_live_bytes, CASE WHEN m.ccs_id THEN 0 END) AS bytes"
    " FROM (SELECT snapshot FROM snapshots ORDER BY snapshot DESC LIMIT 1000) s"
    " LEFT JOIN hx_cost y ON y.snapshot = s.snapshot"
    " AND y.ccs_id = c.ccs_id LEFT JOIN hx_cost m ON m.snapshot = s.snapshot"
    " AND m.ccs_id = 1 ORDER BY s.snapshot)) AS over_time,"
    " x.retained_bytes AS retained_bytes,"
    " x.retained_objects AS retained_objects, c.depth AS depth,"
    " f.label AS caller, (SELECT max(y.inherited_live_bytes) FROM snapshots s"
    " CROSS JOIN hx_cost y ON y.snapshot = s.snapshot AND y.ccs_id = c.ccs_id) AS most"
    " FROM hx_ccs c"
    " LEFT JOIN hx_centre n ON n.centre = c.centre"
    " LEFT JOIN hx_cost k ON k.snapshot = $snapshot AND k.ccs_id = c.ccs_id"
    " LEFT JOIN hx_site x ON x.snapshot = $snapshot AND x.ccs_id = c.ccs_id"
    " LEFT JOIN (" CCS_FRAMES ") f WHERE c.ccs_id = $id";

/* --- all of them ------------------------------------------------------------------------------ */

/* --- trees, and what their nodes weigh (cost/stacktree.h) ---------------------------------- */

TEXT(centres) = "SELECT centre, label, module, source, symbol, is_caf FROM hx_centre"
                " ORDER BY centre";

TEXT(places) = "SELECT p.place AS place, p.label AS label, p.module AS module,"
               " p.source AS source, k.symbol AS symbol, p.is_caf AS is_caf FROM hx_place AS p"
               " LEFT JOIN hx_centre AS k ON k.centre = p.centre AND p.kind = 0 ORDER BY p.place";

TEXT(ccs_tree) = "SELECT ccs_id, parent_id, centre FROM hx_ccs ORDER BY ccs_id";

TEXT(frame_tree) = "SELECT frame_id, parent_id, place FROM hx_frame ORDER BY frame_id";

TEXT(ccs_live) = "SELECT ccs_id, bytes, objects FROM hx_site WHERE snapshot = $snapshot";

TEXT(frame_live) = "SELECT stack_id, bytes, objects FROM hx_stack_site WHERE snapshot = $snapshot";

TEXT(ccs_allocated) = "SELECT ccs_id, alloc_bytes, alloc_objects, entries, inherited_alloc_bytes"
                      " FROM hx_cost WHERE snapshot = $snapshot";

TEXT(frame_allocated) = "SELECT stack_id, alloc_bytes, alloc_objects FROM hx_stack_cost"
                        " WHERE snapshot = $snapshot";

TEXT(sampling) = "SELECT sample_bytes FROM hx_recording WHERE snapshot = $snapshot";

TEXT(files) = "SELECT name, path, build_id FROM hx_file ORDER BY file";

TEXT(last_allocations) = "SELECT max(snapshot) AS snapshot FROM hx_cost"
                         " WHERE alloc_bytes IS NOT NULL"
                         " AND snapshot IN (SELECT snapshot FROM hx_snapshot)"
                         "{snapshot: AND snapshot = $snapshot}";
