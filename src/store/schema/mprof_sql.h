/* mprof_sql.h - mprof's views in SQL: rows of the views of schema.c.
 *
 * Bytes by size class are s, m, l and x (requests of up to 32, 256 and 2048 bytes, and above), and
 * ks to kx those of them that were kept; NULL where classes were not measured. Totals that many
 * rows are shares of are stored with them, so that a view is a join. */
#ifndef HX_STORE_SCHEMA_MPROF_SQL_H
#define HX_STORE_SCHEMA_MPROF_SQL_H

/* clang-format off */
/* A share in percent; of nothing: 0. */
#define HX_PERCENT(part, whole) \
    "CASE WHEN " whole " > 0 THEN 100.0 * " part " / " whole \
    " WHEN " part " IS NOT NULL AND " whole " IS NOT NULL THEN 0.0 END"
#define HX_SPLIT(prefix, from, whole) \
    HX_PERCENT(from "s", whole) " AS " prefix "s, " HX_PERCENT(from "m", whole) " AS " prefix "m, " \
    HX_PERCENT(from "l", whole) " AS " prefix "l, " HX_PERCENT(from "x", whole) " AS " prefix "x"
#define HX_NO_FRAC "NULL AS frac_s, NULL AS frac_m, NULL AS frac_l, NULL AS frac_x"
#define HX_MPROF_FINISHED " IN (SELECT snapshot FROM hx_snapshot)"

#define HX_MPROF_LEAKS_COLUMNS \
    "k.snapshot AS snapshot, k.kept_bytes AS kept_bytes," \
    " " HX_PERCENT("k.kept_bytes", "t.kept_bytes") " AS kept_percent," \
    " k.allocs AS allocs, k.bytes AS alloc_bytes," \
    " " HX_PERCENT("k.bytes", "t.chain_bytes") " AS alloc_percent," \
    " k.frees AS frees, k.freed_bytes AS free_bytes," \
    " " HX_PERCENT("k.freed_bytes", "t.chain_freed_bytes") " AS free_percent," \
    " c.path AS path, c.cut AS cut"

#define HX_MPROF_LEAKS_VIEW \
    "SELECT " HX_MPROF_LEAKS_COLUMNS \
    " FROM hx_chain_cost AS k CROSS JOIN hx_mprof AS t ON t.snapshot = k.snapshot" \
    " CROSS JOIN hx_chain AS c ON c.chain = k.chain WHERE k.snapshot" HX_MPROF_FINISHED \
    " ORDER BY k.snapshot, k.kept_bytes DESC, c.path"

/* What is there of these chains' objects, and the set of retainers that holds most of it. Without
 * rows in hx_holder nobody has looked at the objects. */
#define HX_HELD_SUM(states) "sum(CASE WHEN h.state IN (" states ") THEN h.bytes ELSE 0 END)"
#define HX_HELD_COLUMN(column) \
    "CASE WHEN EXISTS (SELECT 1 FROM hx_holder AS e WHERE e.snapshot = k.snapshot)" \
    " THEN coalesce(v." column ", 0) END"
#define HX_MPROF_HELD_VIEW \
    "SELECT k.snapshot AS snapshot, c.path AS path, c.cut AS cut," \
    " " HX_HELD_COLUMN("reachable") " AS reachable_bytes," \
    " " HX_HELD_COLUMN("possible") " AS possible_bytes," \
    " " HX_HELD_COLUMN("lost") " AS lost_bytes, " HX_HELD_COLUMN("objects") " AS objects," \
    " (SELECT r.label FROM retainers AS r WHERE r.snapshot = k.snapshot" \
    " AND r.set_id = b.set_id) AS holder, b.bytes AS holder_bytes" \
    " FROM hx_chain_cost AS k CROSS JOIN hx_chain AS c ON c.chain = k.chain" \
    " LEFT JOIN (SELECT h.snapshot AS snapshot, s.chain AS chain," \
    " " HX_HELD_SUM("'reachable'") " AS reachable, " HX_HELD_SUM("'possible'") " AS possible," \
    " " HX_HELD_SUM("'definite', 'indirect'") " AS lost, sum(h.objects) AS objects" \
    " FROM hx_holder AS h CROSS JOIN hx_stack_chain AS s ON s.stack_id = h.stack_id" \
    " GROUP BY 1, 2) AS v ON v.snapshot = k.snapshot AND v.chain = k.chain" \
    " LEFT JOIN (SELECT snapshot, chain, set_id, max(bytes) AS bytes FROM (" \
    "SELECT h.snapshot AS snapshot, s.chain AS chain, h.set_id AS set_id, sum(h.bytes) AS bytes" \
    " FROM hx_holder AS h CROSS JOIN hx_stack_chain AS s ON s.stack_id = h.stack_id" \
    " WHERE h.set_id > 0 AND h.state IN ('reachable', 'possible') GROUP BY 1, 2, 3)" \
    " GROUP BY snapshot, chain) AS b ON b.snapshot = k.snapshot AND b.chain = k.chain" \
    " WHERE k.snapshot" HX_MPROF_FINISHED " ORDER BY k.snapshot, k.kept_bytes DESC, c.path"

/* Sizes stand in hx_size; of those above 1024, and of -1, which have had no room, one row. */
#define HX_SIZE_SUMS \
    "sum(alloc_objects) AS allocs, sum(alloc_bytes) AS bytes, sum(freed_objects) AS frees," \
    " sum(max(alloc_bytes - freed_bytes, 0)) AS kept"
#define HX_TYPES_OF(condition) \
    "(SELECT group_concat(name, ', ') FROM (SELECT DISTINCT n.name AS name FROM hx_size_type AS n" \
    " WHERE n.snapshot = z.snapshot AND " condition " ORDER BY n.name))"
#define HX_MPROF_BINS_VIEW \
    "SELECT z.snapshot AS snapshot, z.size AS size, z.allocs AS allocs, z.bytes AS bytes," \
    " " HX_PERCENT("z.bytes", "t.bytes") " AS bytes_percent, z.frees AS frees," \
    " z.kept AS kept_bytes, " HX_PERCENT("z.kept", "t.kept") " AS kept_percent," \
    " CASE WHEN z.key <= 1024 THEN " HX_TYPES_OF("n.size = z.key") \
    " WHEN z.key = 1025 THEN " HX_TYPES_OF("n.size > 1024") " END AS types FROM (" \
    "SELECT snapshot, size AS key, size, alloc_objects AS allocs, alloc_bytes AS bytes," \
    " freed_objects AS frees, max(alloc_bytes - freed_bytes, 0) AS kept" \
    " FROM hx_size WHERE size BETWEEN 0 AND 1024 AND (alloc_objects > 0 OR freed_objects > 0)" \
    " UNION ALL SELECT snapshot, 1025, '> 1024', " HX_SIZE_SUMS \
    " FROM hx_size WHERE (size > 1024 OR size < 0) AND (alloc_objects > 0 OR freed_objects > 0)" \
    " GROUP BY snapshot" \
    " UNION ALL SELECT snapshot, 1026, '<TOTAL>', " HX_SIZE_SUMS " FROM hx_size GROUP BY snapshot" \
    ") AS z CROSS JOIN (SELECT snapshot, " HX_SIZE_SUMS " FROM hx_size GROUP BY snapshot) AS t" \
    " ON t.snapshot = z.snapshot WHERE z.snapshot" HX_MPROF_FINISHED \
    " ORDER BY z.snapshot, z.key"

#define HX_MPROF_DIRECT_VIEW \
    "SELECT snapshot, percent, bytes, s, m, l, x, kept_bytes, kept_s, kept_m, kept_l, kept_x," \
    " calls, name FROM (" \
    "SELECT t.snapshot AS snapshot, 0 AS rank, " HX_PERCENT("t.bytes", "t.bytes") " AS percent," \
    " t.bytes AS bytes, " HX_SPLIT("", "t.", "t.bytes") ", t.kept_bytes AS kept_bytes," \
    " " HX_SPLIT("kept_", "t.k", "t.kept_bytes") ", t.allocs AS calls, '<TOTAL>' AS name" \
    " FROM hx_mprof AS t" \
    " UNION ALL SELECT f.snapshot, 1, " HX_PERCENT("f.bytes", "t.bytes") ", f.bytes," \
    " " HX_SPLIT("", "f.", "t.bytes") ", f.kept_bytes," \
    " " HX_SPLIT("kept_", "f.k", "t.kept_bytes") ", f.allocs, c.label" \
    " FROM hx_function AS f CROSS JOIN hx_mprof AS t ON t.snapshot = f.snapshot" \
    " CROSS JOIN hx_centre AS c ON c.centre = f.centre WHERE f.bytes > 0" \
    ") WHERE snapshot" HX_MPROF_FINISHED " ORDER BY snapshot, rank, bytes DESC, name"

/* --- the call graph: one SELECT for each kind of line ------------------------------- */

#define HX_CALL_BYTES "(k.s + k.m + k.l + k.x)"

#define HX_GRAPH_FUNCTIONS \
    "SELECT f.snapshot AS snapshot, f.entry AS entry, 1 AS rank, 'self' AS line, c.label AS name," \
    " f.entry AS name_entry, CASE WHEN f.cycle IS NULL THEN " \
    HX_PERCENT("f.total_bytes", "t.bytes") " END AS self_desc_percent, f.bytes AS bytes," \
    " CASE WHEN f.cycle IS NULL THEN " HX_PERCENT("f.bytes", "f.total_bytes") \
    " END AS bytes_percent, " HX_SPLIT("size_", "f.", "f.bytes") ", " HX_NO_FRAC "," \
    " f.calls AS called, NULL AS total, f.recursive AS recursive, f.cycle AS cycle" \
    " FROM hx_function AS f CROSS JOIN hx_mprof AS t ON t.snapshot = f.snapshot" \
    " CROSS JOIN hx_centre AS c ON c.centre = f.centre WHERE f.entry IS NOT NULL"

#define HX_GRAPH_CYCLES \
    "SELECT y.snapshot, y.entry, 1, 'self', '<cycle ' || y.cycle || '>', y.entry," \
    " " HX_PERCENT("y.total_bytes", "t.bytes") ", y.bytes, " HX_PERCENT("y.bytes", "y.total_bytes") \
    ", " HX_SPLIT("", "y.", "y.bytes") ", " HX_NO_FRAC ", y.calls, NULL, y.internal, y.cycle" \
    " FROM hx_cycle AS y CROSS JOIN hx_mprof AS t ON t.snapshot = y.snapshot"

#define HX_GRAPH_MEMBERS \
    "SELECT f.snapshot, y.entry, 2, 'member', c.label, f.entry, NULL, f.bytes," \
    " " HX_PERCENT("f.bytes", "y.bytes") ", " HX_SPLIT("", "f.", "f.bytes") "," \
    " " HX_SPLIT("", "f.", "y.bytes") ", f.calls, NULL, f.recursive, f.cycle" \
    " FROM hx_function AS f" \
    " CROSS JOIN hx_cycle AS y ON y.snapshot = f.snapshot AND y.cycle = f.cycle" \
    " CROSS JOIN hx_centre AS c ON c.centre = f.centre"

/* f is the entry, o the other function of a call. Between members of a cycle only calls count. */
#define HX_GRAPH_BETWEEN(rank, line, end, other, whole, total) \
    "SELECT k.snapshot, f.entry, " rank ", '" line "', c.label, o.entry, NULL," \
    " CASE WHEN f.cycle IS NULL OR f.cycle IS NOT o.cycle THEN " HX_CALL_BYTES " END," \
    " CASE WHEN f.cycle IS NULL OR f.cycle IS NOT o.cycle THEN " \
    HX_PERCENT(HX_CALL_BYTES, whole) " END," \
    " " HX_SPLIT_OUTSIDE(HX_CALL_BYTES) ", " HX_SPLIT_OUTSIDE(whole) "," \
    " k.calls, " total ", NULL, o.cycle" \
    " FROM hx_call AS k" \
    " CROSS JOIN hx_function AS f ON f.snapshot = k.snapshot AND f.centre = k." end \
    " CROSS JOIN hx_function AS o ON o.snapshot = k.snapshot AND o.centre = k." other \
    " CROSS JOIN hx_centre AS c ON c.centre = k." other
#define HX_OUTSIDE(part, whole) \
    "CASE WHEN f.cycle IS NULL OR f.cycle IS NOT o.cycle THEN " HX_PERCENT(part, whole) " END"
#define HX_SPLIT_OUTSIDE(whole) \
    HX_OUTSIDE("k.s", whole) ", " HX_OUTSIDE("k.m", whole) ", " HX_OUTSIDE("k.l", whole) ", " \
    HX_OUTSIDE("k.x", whole)

/* The same of a cycle as a node: what goes from one of its members to one function is one call. */
#define HX_GRAPH_AROUND(rank, line, end, other, whole, total) \
    "SELECT k.snapshot, y.entry, " rank ", '" line "', c.label, o.entry, NULL," \
    " " HX_CALL_BYTES ", " HX_PERCENT(HX_CALL_BYTES, whole) "," \
    " " HX_SPLIT("", "k.", HX_CALL_BYTES) ", " HX_SPLIT("", "k.", whole) "," \
    " k.calls, " total ", NULL, o.cycle" \
    " FROM (SELECT q.snapshot AS snapshot, f.cycle AS cycle, q." other " AS other," \
    " sum(q.calls) AS calls, sum(q.s) AS s, sum(q.m) AS m, sum(q.l) AS l, sum(q.x) AS x" \
    " FROM hx_call AS q" \
    " CROSS JOIN hx_function AS f ON f.snapshot = q.snapshot AND f.centre = q." end \
    " WHERE f.cycle IS NOT NULL GROUP BY 1, 2, 3) AS k" \
    " CROSS JOIN hx_cycle AS y ON y.snapshot = k.snapshot AND y.cycle = k.cycle" \
    " CROSS JOIN hx_function AS o ON o.snapshot = k.snapshot AND o.centre = k.other" \
    " CROSS JOIN hx_centre AS c ON c.centre = k.other WHERE o.cycle IS NOT k.cycle"

#define HX_MPROF_GRAPH_VIEW \
    "SELECT snapshot, entry, line, name, name_entry, self_desc_percent, bytes, bytes_percent," \
    " size_s, size_m, size_l, size_x, frac_s, frac_m, frac_l, frac_x, called, total, recursive," \
    " cycle FROM (" \
    HX_GRAPH_FUNCTIONS " UNION ALL " HX_GRAPH_CYCLES " UNION ALL " HX_GRAPH_MEMBERS " UNION ALL " \
    HX_GRAPH_BETWEEN("0", "ancestor", "callee", "caller", "f.up_bytes", "o.made") " UNION ALL " \
    HX_GRAPH_BETWEEN("3", "descendant", "caller", "callee", "f.down_bytes", "o.calls") " UNION ALL " \
    HX_GRAPH_AROUND("0", "ancestor", "callee", "caller", "y.up_bytes", "o.made") " UNION ALL " \
    HX_GRAPH_AROUND("3", "descendant", "caller", "callee", "y.down_bytes", "o.calls") \
    ") WHERE snapshot" HX_MPROF_FINISHED \
    " ORDER BY snapshot, entry, rank, bytes DESC, name_entry"
#define HX_MPROF_VIEWS \
    {4, "mprof_leaks", HX_MPROF_LEAKS_VIEW}, {4, "mprof_held", HX_MPROF_HELD_VIEW}, \
    {4, "mprof_bins", HX_MPROF_BINS_VIEW}, {4, "mprof_direct", HX_MPROF_DIRECT_VIEW}, \
    {4, "mprof_graph", HX_MPROF_GRAPH_VIEW},
/* clang-format on */

#endif
