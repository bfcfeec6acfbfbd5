/* named_objects.c - named queries about objects, roots, and the references between them. */
#include "store/query/hint_text.h"
#include "store/query/named_text.h"
#include "store/query/object_name.h"
#include "store/query/set_label.h"

/* --- an object ----------------------------------------------------------------------------- */

/* Of an edge e: what tells against its word, else how it points. */
#define POINTS "CASE e.rank WHEN 1 THEN 'sparse' WHEN 2 THEN 'stray' ELSE e.kind END"

/* The field that a word is, by the layout q.layout of what it lies in; its offset there. */
#define LAYOUTS                                                                                    \
    "(SELECT name, layout FROM hx_type WHERE snapshot = $snapshot AND layout IS NOT NULL)"
#define FIELD(layout, offset, before, behind)                                                      \
    "coalesce((SELECT " before "iif(l.repeats = 1, '[' || (" offset " / l.size) || ']' ||"         \
    " iif(f.name LIKE '[%', '', '.'), '') || f.name" behind                                        \
    " FROM hx_layout l JOIN hx_field f ON f.snapshot = l.snapshot AND f.layout = l.layout"         \
    " AND f.offset = iif(l.repeats, " offset " % l.size, " offset ")"                              \
    " WHERE l.snapshot = $snapshot AND l.layout = " layout "), '')"

/* Behind a field what its type says of the object, where that is called otherwise. */
#define SAYS                                                                                       \
    " || iif(f.target <> (SELECT rtrim(s.type, '[]') FROM objects s WHERE s.snapshot = $snapshot"  \
    " AND s.address = $address), ' (says ' || f.target || ')', '')"
#define FIELD_OF_ROOT                                                                              \
    FIELD("q.layout", "(e.address - r.address - q.layout_at)",                                     \
          "iif(f.name LIKE '[%' OR l.repeats, '', '.') || ", SAYS)
#define FIELD_FROM                                                                                 \
    FIELD("(SELECT y.layout FROM objects o JOIN " LAYOUTS " y ON y.name = o.type"                  \
          " WHERE o.snapshot = $snapshot AND o.address = e.source)",                               \
          "e.offset", "", SAYS " || ' of '")
#define FIELD_TO                                                                                   \
    FIELD("(SELECT y.layout FROM objects s JOIN " LAYOUTS " y ON y.name = s.type"                  \
          " WHERE s.snapshot = $snapshot AND s.address = $address)",                               \
          "e.offset", "", " || ' -> '")

/* Of an object o. */
#define OBJECT_NAME HX_OBJECT_NAME("o")
#define SHAPE_MADE  "o.shape || " HX_MAKER_OF("o")

#define SELF "o.snapshot = $snapshot AND o.address = $address"

#define SET_BRIEF HX_SET_BRIEF_IN("$snapshot", "t.set_id", "t.members", "t.label")

/* What is told of the object at the other end of an edge e: asked for itself, and not joined, so
 * that rows before a window are passed over without a look at objects all over the heap. */
#define AT_END(end, what)                                                                          \
    "+(SELECT " what " FROM objects o WHERE o.snapshot = $snapshot AND o.address = e." end ")"
#define EDGE_ROW(end)                                                                              \
    " || printf('0x%x', e." end                                                                    \
    "), +e.offset, +e.kind, " AT_END(end, "o.bytes") ", " AT_END(end, "o.state") ", " AT_END(      \
        end, OBJECT_NAME) ", +e." end ", NULL, NULL, NULL, " POINTS                                \
                          ", +e.rule FROM edges e WHERE e.snapshot = $snapshot AND e."

/* Those before the references stand for a set of objects that it is in. No column has an affinity
 * (hence +): only then does SQLite pass over the rows before a window without making them. */
TEXT(object) =
    "SELECT 'type' AS what, coalesce(o.type,"
    " 'unknown') AS other, NULL AS offset, coalesce(o.confidence, t.confidence, '') AS kind,"
    " +t.bytes AS bytes, '' AS state, coalesce('by ' || o.source, '') AS type,"
    " NULL AS object, NULL AS root_id, NULL AS id, +o.type AS text,"
    " coalesce(o.confidence, t.confidence, '') AS points,"
    " NULL AS rule FROM objects o"
    " LEFT JOIN hx_type t ON t.snapshot = o.snapshot AND t.name = o.type WHERE " SELF
    " UNION ALL SELECT 'stack', coalesce(t.label, 'not recorded (heapx run)'),"
    " NULL, '', +x.bytes, '', '', NULL, NULL, +o.stack_id, +t.label, '', NULL FROM objects o"
    " LEFT JOIN hx_stack t ON t.stack_id = o.stack_id"
    " LEFT JOIN hx_stack_site x ON x.stack_id = o.stack_id AND x.snapshot = o.snapshot"
    " WHERE " SELF " UNION ALL SELECT 'set', coalesce(" SET_BRIEF ", 'not worked out: :analyse'),"
    " NULL, '', +t.bytes, '', '', NULL, NULL, +o.set_id, +" SET_BRIEF ", '', NULL FROM objects o"
    " LEFT JOIN retainers t ON t.snapshot = o.snapshot AND t.set_id = o.set_id"
    " WHERE " SELF
    " UNION ALL SELECT 'held', +o.holder, NULL, '', +h.bytes, '', '', NULL, NULL, NULL,"
    " +o.holder, coalesce('round ' || o.round, ''), NULL FROM objects o"
    " LEFT JOIN hx_holding h ON h.snapshot = o.snapshot AND h.name = o.holder"
    " AND h.objects > 0 WHERE o.holder IS NOT NULL AND " SELF
    " UNION ALL SELECT 'shape', +o.shape, NULL, '', NULL, '', '', NULL, NULL, NULL,"
    " NULL, '', NULL FROM objects o WHERE o.shape IS NOT NULL AND " SELF
    " UNION ALL SELECT 'bin', coalesce(CASE o.bin WHEN '-' THEN"
    " 'none: no named root reaches it' ELSE o.bin END,"
    " 'not worked out: :analyse'), NULL, '', +b.bytes, '', '', NULL, NULL,"
    " NULL, +o.bin, '', NULL FROM objects o LEFT JOIN hx_bin b ON b.snapshot = o.snapshot"
    " AND b.roots = o.bin WHERE " SELF " UNION ALL SELECT 'dom', CASE WHEN o.dominator IS NOT NULL"
    " THEN printf('0x%x', o.dominator) WHEN o.state IN ('definite', 'indirect')"
    " THEN 'none: it is lost' WHEN o.retained_bytes IS NULL"
    " THEN 'not worked out: :analyse' ELSE 'none: roots lead to it'"
    " END, NULL, '', +d.bytes, coalesce(d.state, ''), coalesce(d.type, d.shape, ''),"
    " +o.dominator, NULL, NULL, NULL, '', NULL FROM objects o LEFT JOIN objects d"
    " ON d.snapshot = o.snapshot AND d.address = o.dominator WHERE " SELF
    " UNION ALL SELECT 'root', r.name || " FIELD_OF_ROOT " || CASE WHEN r.module <> ''"
    " THEN ' of ' || r.module ELSE '' END, e.address - r.address, +e.kind, +r.size,"
    " +r.kind, '', NULL, +e.root_id, NULL, +r.name, " POINTS ", +e.rule FROM root_edges e"
    " LEFT JOIN roots r ON r.snapshot = e.snapshot AND r.root_id = e.root_id"
    " LEFT JOIN hx_root q ON q.snapshot = e.snapshot AND q.root_id = e.root_id"
    " WHERE e.snapshot = $snapshot AND e.target = $address"
    " UNION ALL SELECT 'from', " FIELD_FROM EDGE_ROW("source") "target = $address"
                                                               " UNION ALL SELECT 'to', " FIELD_TO
    EDGE_ROW("target") "source = $address";

/* It is looked for in the last 64 snapshots. */
TEXT(object_facts) =
    "WITH b AS (SELECT snapshot, pid FROM snapshots WHERE snapshot <= $snapshot"
    " ORDER BY snapshot DESC LIMIT 64)"
    " SELECT 7 + coalesce(o.edges_in, 0) + coalesce(o.edges_out, 0) + q.roots AS rows,"
    " q.roots, c.depth AS depth, coalesce(o.confidence, t.confidence) AS confidence, f.frame AS "
    "frame,"
    " f.label AS label, f.module AS module, f.source AS source, l.*, o.*"
    " FROM (SELECT count(*) AS roots FROM root_edges WHERE snapshot = $snapshot"
    " AND target = $address) q LEFT JOIN objects o ON " SELF
    " LEFT JOIN hx_type t ON t.snapshot = o.snapshot AND t.name = o.type"
    " LEFT JOIN hx_frame c ON c.frame_id = o.stack_id LEFT JOIN (SELECT "
    "(SELECT min(s.snapshot) FROM b s WHERE s.snapshot > coalesce((SELECT"
    " max(t.snapshot) FROM b t WHERE t.snapshot < $snapshot AND NOT EXISTS"
    " (SELECT 1 FROM objects o JOIN objects p ON p.snapshot = t.snapshot"
    " AND p.address = o.address WHERE " SELF " AND p.bytes = o.bytes AND p.type IS o.type"
    " AND coalesce(p.stack_id, o.stack_id) IS coalesce(o.stack_id, p.stack_id)"
    " AND t.pid = (SELECT pid FROM b WHERE snapshot = $snapshot))), 0)) AS since,"
    " (SELECT min(snapshot) FROM b) AS looked,"
    " (SELECT min(snapshot) FROM snapshots) AS earliest"
    ") l LEFT JOIN (" STACK_FRAMES(STACK_OF_OBJECT) ") f";

TEXT(object_at) = "SELECT address, bytes FROM objects WHERE snapshot = $snapshot"
                  " AND address <= $address ORDER BY address DESC LIMIT 1";

TEXT(objects_behind) = "SELECT address, bytes, type, state, stack_id FROM objects"
                       " WHERE snapshot = $snapshot AND address > $address{where: AND ($where)}"
                       " ORDER BY address LIMIT $limit";

TEXT(object_dominators) = "SELECT dominator, set_id FROM objects WHERE snapshot = $snapshot";

TEXT(object_head) = "SELECT o.bytes AS bytes, o.type AS type, o.edges_out AS edges_out,"
                    " s.pid AS pid, o.requested AS requested, o.shape AS shape, o.round AS round,"
                    " o.holder AS holder FROM objects o"
                    " LEFT JOIN snapshots s ON s.snapshot = o.snapshot WHERE " SELF;

/* --- of a set the largest ------------------------------------------------------------------ */

TEXT(largest_object) = "SELECT o.address AS address FROM objects o WHERE o.snapshot = $snapshot"
                       " AND ($where) ORDER BY o.bytes DESC LIMIT 1";

TEXT(largest_new_object) =
    "SELECT q.address AS address FROM (SELECT o.address FROM objects o WHERE o.snapshot ="
    " $snapshot AND ($where) ORDER BY o.bytes DESC LIMIT $limit) q"
    " WHERE NOT EXISTS (SELECT 1 FROM objects p WHERE p.snapshot = $other"
    " AND p.address = q.address) LIMIT 1";

/* --- edges: those of an object are numbered one after the other, in the order of their offsets --
 */

TEXT(edge_first) = "SELECT rowid AS row FROM edges WHERE snapshot = $snapshot AND source = $address"
                   " LIMIT 1";

/* At most 100,000 of them, with some 2 million edges. A row with the offset that was asked for
 * comes even where it counts nothing. */
TEXT(alike) =
    "WITH o AS MATERIALIZED (SELECT address FROM objects WHERE snapshot = $snapshot AND shape ="
    " (SELECT shape FROM objects WHERE snapshot = $snapshot AND address = $address)"
    " LIMIT min(100000, 1 + 2000000 / (1 + coalesce((SELECT edges_out FROM objects"
    " WHERE snapshot = $snapshot AND address = $address), 0))))"
    " SELECT {offset:$offset~e.offset} AS offset, count(*) AS words,"
    " (SELECT count(*) FROM o) AS alike, (SELECT requested FROM objects"
    " WHERE snapshot = $snapshot AND address = $address) AS requested FROM o CROSS JOIN edges e"
    " ON e.snapshot = $snapshot AND e.source = o.address{offset: AND e.offset = $offset~"
    " GROUP BY e.offset ORDER BY e.offset}";

TEXT(edge_offset) = "SELECT offset FROM edges WHERE rowid = $id AND source = $address";

#define EDGE                                                                                       \
    "SELECT e.offset AS offset, e.target AS target, e.kind AS kind, o.bytes AS bytes,"             \
    " " OBJECT_NAME " AS type, " POINTS " AS points, e.rule AS rule"

TEXT(edges_by_number) =
    "WITH RECURSIVE n(r) AS (VALUES($id) UNION ALL SELECT r + 1 FROM n LIMIT $limit) " EDGE
    " FROM n CROSS JOIN edges e ON e.rowid = n.r AND e.source = $address"
    " CROSS JOIN objects o ON o.snapshot = e.snapshot AND o.address = e.target";

TEXT(edges_by_offset) = EDGE
    " FROM edges e"
    " CROSS JOIN objects o ON o.snapshot = e.snapshot AND o.address = e.target"
    " WHERE e.snapshot = $snapshot AND e.source = $address{limit: LIMIT $limit OFFSET $offset}";

/* --- roots ------------------------------------------------------------------------------------ */

/* Roots have no number that lasts: in another snapshot it is found by its name. */
#define ROOT                                                                                       \
    "{other:(SELECT b.root_id FROM roots a JOIN roots b ON b.kind = a.kind"                        \
    " AND b.name = a.name AND b.module IS a.module"                                                \
    " WHERE a.snapshot = $other AND a.root_id = $id AND b.snapshot = $snapshot LIMIT 1)~$id}"

TEXT(root) = "SELECT e.address - r.address AS offset, e.address AS address, e.target AS target,"
             " e.kind AS kind, o.bytes AS bytes,"
             " " OBJECT_NAME " AS type, o.state AS state,"
             " o.edges_out AS edges_out FROM root_edges e"
             " LEFT JOIN roots r ON r.snapshot = e.snapshot AND r.root_id = e.root_id"
             " LEFT JOIN objects o ON o.snapshot = e.snapshot AND o.address = e.target"
             " WHERE e.snapshot = $snapshot AND e.root_id = " ROOT;

TEXT(root_facts) =
    "SELECT (SELECT count(*) FROM root_edges WHERE snapshot = $snapshot"
    " AND root_id = " ROOT
    ") AS rows, v.*, " HX_HINT_COLUMNS("r") " FROM roots v CROSS JOIN hx_root r"
                                            " ON r.snapshot = v.snapshot AND r.root_id = v.root_id"
                                            " WHERE r.snapshot = $snapshot AND r.root_id = " ROOT;

TEXT(root_at) = "SELECT root_id, name FROM roots WHERE snapshot = $snapshot"
                " AND address <= $address AND $address - address < size"
                " AND kind <> 'named' ORDER BY root_id LIMIT 1";

/* --- dominators ------------------------------------------------------------------------------- */

#define DOMINATED_BY "{address: = $address~ IS NULL AND retained_bytes >= 0}"

/* Of so many objects (2000000) all are looked through for those of a level. In larger heaps they
 * are taken from the largest of all levels, `d`, where there are some of this one, and one row
 * stands for the rest. `s`, of one row: what the level adds up to, and whether the largest of it
 * will do. */
#define LEVEL(brief)                                                                               \
    "WITH d AS MATERIALIZED (SELECT * FROM dominators WHERE snapshot = $snapshot"                  \
    " AND parent" DOMINATED_BY "), s AS MATERIALIZED (SELECT s.snapshot AS snapshot,"              \
    " {address:o.retained_bytes AS all_bytes, o.retained_objects AS all_objects,"                  \
    " o.bytes AS own, 1 AS self"                                                                   \
    "~s.reachable_bytes AS all_bytes, s.reachable_objects AS all_objects,"                         \
    " 0 AS own, 0 AS self}, s.heap_objects > 2000000 AS large,"                                    \
    " " brief " AND s.heap_objects > 2000000 AND EXISTS (SELECT 1 FROM d) AS brief"                \
    " FROM snapshots s{address: LEFT JOIN objects o ON o.snapshot = s.snapshot"                    \
    " AND o.address = $address} WHERE s.snapshot = $snapshot) "

#define LEVEL_FACTS                                                                                \
    " AS rows, s.all_bytes AS all_bytes,"                                                          \
    " s.all_objects AS all_objects, s.own AS own, " OBJECT_NAME " AS type,"                        \
    " o.address AS address FROM s LEFT JOIN objects o ON"                                          \
    " o.snapshot = $snapshot AND o.address = $address"

/* A row may lie in any block of a large heap: where there is nothing brief to say, no row; `widely`
 * tells that windows of the objects are to be asked for. */
TEXT(dominated) = LEVEL(
    "1") "SELECT o.*, 0 AS rest FROM s CROSS JOIN objects o WHERE NOT s.large AND NOT s.brief"
         " AND o.snapshot = $snapshot AND o.dominator" DOMINATED_BY
         " UNION ALL SELECT d.snapshot, d.address, d.bytes, NULL, d.type, (SELECT " SHAPE_MADE
         " FROM objects o WHERE o.snapshot = $snapshot AND o.address = d.address), NULL, NULL,"
         " NULL, NULL, NULL, NULL, d.parent, d.retained_bytes, d.retained_objects, "
         "d.sure_retained_bytes,"
         " d.sure_retained_objects, NULL, NULL, NULL, NULL, 0 FROM s CROSS JOIN d WHERE s.brief"
         " UNION ALL SELECT snapshot, NULL, NULL, NULL, '(all smaller ones)', NULL, NULL,"
         " NULL, NULL, NULL, NULL, NULL, NULL, bytes, objects, NULL, NULL, NULL, NULL, NULL, NULL, "
         "1 FROM "
         "(SELECT"
         " snapshot, all_bytes - own - (SELECT sum(retained_bytes) FROM d) AS bytes,"
         " all_objects - self - (SELECT sum(retained_objects) FROM d) AS objects"
         " FROM s WHERE brief) WHERE objects > 0";

TEXT(dominated_facts) =
    LEVEL("1") "SELECT s.large AND NOT s.brief AS widely, CASE WHEN s.large THEN 0 ELSE"
               " (SELECT count(*) FROM objects WHERE snapshot = $snapshot"
               " AND dominator" DOMINATED_BY ") END" LEVEL_FACTS;

/* Who opened the row of the rest wants all of them, and counts them (hx_query_count()). */
TEXT(level_facts) = LEVEL("0") "SELECT NULL" LEVEL_FACTS;

TEXT(dominators_facts) = "SELECT (SELECT count(*) FROM dominators WHERE snapshot = $snapshot)"
                         " AS rows, heap_bytes FROM snapshots WHERE snapshot = $snapshot";

/* Nodes are numbered in preorder: what is below one ends at the next that is no deeper. */
#define WHOSE HX_WHOSE("$snapshot", "$text")
#define NODES                                                                                      \
    " FROM hx_tree t WHERE t.snapshot = " WHOSE " AND t.kind = $text AND t.depth <= $id"           \
    "{more: AND (SELECT u.label FROM hx_tree u WHERE u.snapshot = t.snapshot AND u.kind = t.kind"  \
    " AND u.depth = 0 AND u.node <= t.node ORDER BY u.node DESC LIMIT 1) = $more}"

TEXT(merged_tree) =
    "SELECT t.node AS node, t.depth AS depth,"
    " substr(printf('%128s', ''), 1, 2 * t.depth) || CASE WHEN t.objects > 1 THEN"
    " printf('%,d x ', t.objects) ELSE '' END || t.label AS label, t.bytes AS bytes,"
    " t.objects AS objects, (SELECT sum(s.bytes) FROM hx_tree s WHERE s.snapshot = t.snapshot"
    " AND s.kind = t.kind AND s.node >= t.node AND s.node < coalesce((SELECT e.node FROM hx_tree e"
    " WHERE e.snapshot = t.snapshot AND e.kind = t.kind AND e.node > t.node AND e.depth <= t.depth"
    " ORDER BY e.node LIMIT 1), 9223372036854775807)) AS total" NODES " ORDER BY t.node";

TEXT(merged_tree_facts) = "SELECT (SELECT count(*)" NODES ") AS rows,"
                          " (SELECT max(depth) FROM hx_tree WHERE snapshot = " WHOSE
                          " AND kind = $text) AS deepest, heap_bytes FROM snapshots"
                          " WHERE snapshot = $snapshot";

TEXT(dominators) = "SELECT d.*, " SHAPE_MADE " AS shape FROM dominators d LEFT JOIN objects o"
                   " ON o.snapshot = d.snapshot AND o.address = d.address"
                   " WHERE d.snapshot = $snapshot";

TEXT(largest_dominator) = "SELECT address, bytes FROM dominators WHERE snapshot = $snapshot"
                          " ORDER BY retained_bytes DESC, address LIMIT 1";

#define RETAINED                                                                                   \
    "SELECT address, coalesce(type, shape) AS type, bytes, retained_bytes, retained_objects"       \
    " FROM objects"                                                                                \
    " WHERE snapshot = $snapshot AND retained_bytes >= 0 AND "
TEXT(largest_dominated) = RETAINED "dominator{address: = $address~ IS NULL}"
                                   " ORDER BY retained_bytes DESC, address LIMIT $limit";
TEXT(object_retained) = RETAINED "address = $address";
