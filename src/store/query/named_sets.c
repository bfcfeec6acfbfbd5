/* named_sets.c - named queries about retainer sets, bins, named roots and pages. */
#include "store/query/hint_text.h"
#include "store/query/named_text.h"
#include "store/query/set_label.h"

/* --- a set, or a bin -------------------------------------------------------------------- */

/* The table of sums, and its rows of this set or bin. */
#define SUMS       "{text:hx_bin~hx_retention}"
#define SUMS_OF_IT "{text:t.objects > 0 AND t.roots = $text~t.set_id = $id}"

/* Its bytes and objects in each snapshot; one in which it was looked for without success has 0
 * bytes of it. */
#define HISTORY                                                                                    \
    "SELECT s.snapshot AS snapshot, s.taken_at AS taken_at,"                                       \
    " t.objects AS objects, coalesce(t.bytes, {text:"                                              \
    "CASE WHEN EXISTS (SELECT 1 FROM hx_bin WHERE snapshot = s.snapshot) THEN 0 END"               \
    "~CASE WHEN c.scheme = (SELECT scheme FROM censuses WHERE snapshot = $snapshot)"               \
    " THEN 0 END}) AS bytes FROM snapshots s"                                                      \
    " LEFT JOIN " SUMS " t ON t.snapshot = s.snapshot AND " SUMS_OF_IT                             \
    "{text:~ LEFT JOIN censuses c ON c.snapshot = s.snapshot}"

/* Of a member that is a thread, or all threads of a name: how many they are, and the part of them
 * that most objects hang on. */
#define THREADS                                                                                    \
    "(SELECT count(*) FROM hx_thread h WHERE h.snapshot = $snapshot"                               \
    " AND 'thread ' || h.name = m.label)"
#define PART_OF_THREAD                                                                             \
    "(SELECT r.root_id FROM hx_root r LEFT JOIN hx_thread h"                                       \
    " ON h.snapshot = r.snapshot AND h.tid = r.tid"                                                \
    " WHERE r.snapshot = $snapshot AND r.tid <> 0 AND m.label IN ('thread ' || h.name,"            \
    " 'thread ' || r.tid, 'thread ' || r.tid || ' ' || h.name)"                                    \
    " ORDER BY r.direct_objects DESC, r.root_id LIMIT 1)"

/* At most 5 of its objects. */
TEXT(set) = "{text:SELECT 1 AS rank, n.position AS position, 'root' AS what,"
            " n.name AS label, coalesce(n.expr, r.kind) AS about, NULL AS bytes,"
            " NULL AS objects, NULL AS object, NULL AS number,"
            " n.root_id AS root_id, 'root' AS kind, n.name AS shown FROM hx_named n"
            " LEFT JOIN roots r ON r.snapshot = n.snapshot"
            " AND r.root_id = n.root_id WHERE instr('+' || $text"
            " || '+', '+' || n.name || '+') > 0 AND n.snapshot = $snapshot"
            "~SELECT 1 AS rank, m.position + coalesce(e.doubt, 0) * 1000000000 AS position,"
            " 'retainer' AS what, m.label AS label,"
            " CASE WHEN e.doubt THEN printf('%,d of %,d alike', e.entries, e.alike) WHEN m.kind = "
            "'thread' AND " THREADS " > 1 THEN " THREADS " || ' threads'"
            " ELSE m.kind || coalesce(' of ' || m.module, '') END AS about, NULL AS bytes,"
            " NULL AS objects, NULL AS object, NULL AS number,"
            " CASE m.kind WHEN 'thread' THEN " PART_OF_THREAD
            " ELSE (SELECT min(root_id) FROM roots r WHERE r.snapshot = $snapshot"
            " AND r.name = m.label AND r.kind = m.kind) END AS root_id, m.kind AS kind,"
            " m.label || CASE WHEN e.doubt THEN '?' ELSE '' END AS shown"
            " FROM retainer_members m LEFT JOIN hx_entry e ON e.snapshot = $snapshot"
            " AND e.set_id = m.set_id AND e.position = m.position WHERE m.set_id = $id}"
            " UNION ALL SELECT 2, -bytes, 'object', printf('0x%x', address), type, bytes,"
            " 1, address, NULL, NULL, NULL, printf('0x%x', address) FROM"
            " (SELECT address, bytes, type FROM objects"
            " WHERE snapshot = $snapshot AND {text:bin = $text~set_id = $id}"
            " ORDER BY bytes DESC, address LIMIT 5)"
            " UNION ALL SELECT 3, snapshot, 'snapshot', snapshot || CASE snapshot"
            " WHEN $snapshot THEN ' (this one)' ELSE '' END,"
            " replace(substr(taken_at, 6, 14), 'T', ' '), bytes, objects, NULL, snapshot,"
            " NULL, NULL, snapshot || CASE snapshot WHEN $snapshot THEN ' (this one)' ELSE '' END"
            " FROM (" HISTORY ") ORDER BY rank, position, object";

/* clang-format off */
#define HISTORY_END(order)                                                                         \
    "(SELECT bytes FROM (" HISTORY ")"                                                             \
        " WHERE bytes IS NOT NULL"                                                                 \
        " ORDER BY snapshot " order                                                                \
        " LIMIT 1)"

/* The history has 200 numbers at most. */
TEXT(set_facts) =
    "SELECT (SELECT count(*) FROM snapshots) + min(5, coalesce(t.objects, 0))"
        " + coalesce((SELECT members FROM hx_set WHERE set_id = $id), 0) AS rows,"
        " t.bytes AS bytes, t.objects AS objects, s.heap_bytes AS heap_bytes,"
        " p.only_pages AS only_pages, p.shared_pages AS shared_pages,"
        " (SELECT scheme FROM censuses WHERE snapshot = s.snapshot) AS scheme,"
        " (SELECT max(t.bytes) FROM " SUMS " t WHERE " SUMS_OF_IT ") AS most,"
        " (SELECT count(*) FROM snapshots) AS snapshots,"
        " (SELECT group_concat(coalesce(peak, '-'), ' ')"
            " FROM (SELECT max(bytes) AS peak"
                " FROM (SELECT bytes, row_number() OVER (ORDER BY snapshot) - 1 AS i,"
                        " count(*) OVER () AS n"
                    " FROM (" HISTORY "))"
                " GROUP BY CASE WHEN n > 200 THEN i * 200 / n ELSE i END"
                " ORDER BY i)) AS history,"
        " " HISTORY_END("ASC") " AS first,"
        " " HISTORY_END("DESC") " AS last"
    " FROM snapshots s"
    " LEFT JOIN " SUMS " t ON t.snapshot = s.snapshot AND " SUMS_OF_IT
    " LEFT JOIN hx_page p"
        " ON p.snapshot = s.snapshot AND p.census = {text:'bin'~'retainer'}"
        " AND p.key = {text:t.bin~t.set_id}"
    " WHERE s.snapshot = $snapshot";
/* clang-format on */

/* --- a holder ------------------------------------------------------------------------------- */

/* The members of a set: the holder first, those in doubt behind the others. */
#define MEMBERS_OF(set)                                                                            \
    "(SELECT r.label AS label, coalesce(e.doubt, 0) AS doubt, e.entries AS entries,"               \
    " e.alike AS alike"                                                                            \
    " FROM hx_set_member m"                                                                        \
    " CROSS JOIN hx_retainer r ON r.retainer = m.retainer"                                         \
    " LEFT JOIN hx_entry e ON e.snapshot = $snapshot AND e.set_id = m.set_id"                      \
    " AND e.position = m.position"                                                                 \
    " WHERE m.set_id = " set " ORDER BY r.label <> $text, 2, m.position)"

/* clang-format off */
#define HOLDER_SET                                                                                 \
    "CASE WHEN g.set_id = 0 THEN '(unreachable)' WHEN g.set_id = 1 THEN 'MANY'"                    \
        " WHEN g.set_id IS NULL THEN '(not worked out: :analyse)'"                                 \
        " ELSE (SELECT group_concat(label || CASE doubt WHEN 0 THEN '' ELSE '?' END, ', ')"        \
            " FROM " MEMBERS_OF("g.set_id") ")"                                                    \
        " END"

/* Of the sets g of a holder and their rows s. */
#define HOLDER_SET_COLUMNS                                                                         \
    "s.members AS members, " HOLDER_SET " AS label,"                                               \
        " CASE WHEN s.members > " HX_SET_LARGE " THEN "                                            \
            HX_SET_BRIEF_IN("$snapshot", "g.set_id", "s.members", "NULL")                          \
            " ELSE " HOLDER_SET " END AS brief,"

/* The members but for the holder, of a large set those that hold most. */
#define HOLDER_OTHERS                                                                              \
    "CASE WHEN s.members IS NULL THEN " HOLDER_SET                                                 \
        " ELSE (SELECT group_concat(label || CASE doubt WHEN 0 THEN '' ELSE '?' END, ', ')"        \
            " FROM (SELECT o.label AS label, o.doubt AS doubt,"                                    \
                    " row_number() OVER (ORDER BY o.doubt, h.bytes DESC, o.label) AS n"            \
                " FROM " MEMBERS_OF("g.set_id") " o"                                               \
                " LEFT JOIN hx_holding h ON h.snapshot = $snapshot AND h.name = o.label"           \
                " WHERE o.label <> $text)"                                                         \
            " WHERE n <= " HX_SET_NAMED " OR s.members <= " HX_SET_LARGE ")"                       \
            " || CASE WHEN s.members > " HX_SET_LARGE                                              \
                " THEN ' and ' || (s.members - 1 - " HX_SET_NAMED ") || ' others' ELSE '' END"     \
        " END"

TEXT(holder_sets) =
    "WITH j(sums) AS MATERIALIZED (SELECT hx_sums(5, $snapshot, printf('holder = %Q', $text))),"
    " g AS MATERIALIZED (SELECT json_extract(value, char(36) || '[1]') AS set_id,"
        " json_extract(value, char(36) || '[2]') AS bytes, json_extract(value, char(36) || '[3]') AS objects"
        " FROM j, json_each(sums)"
        " UNION ALL SELECT set_id, sum(bytes), count(*)"
        " FROM j CROSS JOIN objects"
        " WHERE sums IS NULL AND snapshot = $snapshot AND holder = $text"
        " GROUP BY set_id)"
    " SELECT $snapshot AS snapshot, g.set_id AS set_id, " HOLDER_SET_COLUMNS
        " " HOLDER_OTHERS " AS others, g.bytes AS bytes, g.objects AS objects,"
        " CASE WHEN s.members = 1 THEN 'alone'"
            " ELSE (SELECT group_concat(label || ' by '"
                    " || printf('%,d of %,d', entries, alike), '; ')"
                " FROM " MEMBERS_OF("g.set_id")
                " WHERE doubt <> 0)"
            " END AS enters"
    " FROM g"
    " LEFT JOIN hx_set s ON s.set_id = g.set_id AND g.set_id > 1";

/* Of one snapshot, as side a or b. */
#define HELD_IN(number, a, b)                                                                      \
    "SELECT set_id, " a " * sum(bytes) AS bytes_a, " b " * sum(bytes) AS bytes_b,"                 \
        " " a " * count(*) AS objects_a, " b " * count(*) AS objects_b"                            \
    " FROM objects"                                                                                \
    " WHERE snapshot = " number " AND holder = $text"                                              \
    " GROUP BY set_id"

TEXT(holder_changes) =
    "WITH g AS MATERIALIZED (SELECT set_id, sum(bytes_a) AS bytes_a, sum(bytes_b) AS bytes_b,"
            " sum(objects_a) AS objects_a, sum(objects_b) AS objects_b"
        " FROM (" HELD_IN("$other", "1", "0")
            " UNION ALL " HELD_IN("$snapshot", "0", "1") ")"
        " GROUP BY set_id)"
    " SELECT $snapshot AS snapshot, g.set_id AS set_id, " HOLDER_SET_COLUMNS
        " CASE WHEN g.objects_a = 0 THEN 'appeared'"
            " WHEN g.objects_b = 0 THEN 'gone'"
            " WHEN g.bytes_b > g.bytes_a THEN 'grown'"
            " WHEN g.bytes_b < g.bytes_a THEN 'shrunk'"
            " ELSE 'same' END AS status,"
        " abs(g.bytes_b - g.bytes_a) AS moved, g.bytes_a AS bytes_a, g.bytes_b AS bytes_b,"
        " g.bytes_b - g.bytes_a AS bytes_delta, g.objects_a AS objects_a,"
        " g.objects_b AS objects_b, g.objects_b - g.objects_a AS objects_delta,"
        " abs(g.objects_b - g.objects_a) AS objects_moved"
    " FROM g"
    " LEFT JOIN hx_set s ON s.set_id = g.set_id AND g.set_id > 1";

/* rows: at most so many. */
TEXT(holder_facts) =
    "SELECT (SELECT count(*) FROM hx_retention WHERE snapshot = s.snapshot) AS rows,"
        " s.heap_bytes AS heap_bytes, x.kind AS kind, x.module AS module, x.bytes AS bytes,"
        " x.objects AS objects, x.alone_bytes AS alone_bytes,"
        " x.contested_bytes AS contested_bytes, x.entries AS entries,"
        " (SELECT o.name"
            " FROM hx_contest c"
            " JOIN hx_holding o ON o.snapshot = c.snapshot AND o.holder = c.other"
            " WHERE c.snapshot = x.snapshot AND c.holder = x.holder"
            " ORDER BY c.bytes DESC, o.name"
            " LIMIT 1) AS other,"
        " {other:(SELECT bytes FROM hx_holding"
            " WHERE snapshot = $other AND name = $text)~NULL} AS before,"
        " " HX_HINT_COLUMNS("r")
    " FROM snapshots s"
    " LEFT JOIN hx_holding x ON x.snapshot = s.snapshot AND x.name = $text AND x.objects > 0"
    " LEFT JOIN hx_root r ON r.snapshot = x.snapshot AND r.name = x.name AND r.module = x.module"
    " WHERE s.snapshot = $snapshot"
    " LIMIT 1";
/* clang-format on */

TEXT(largest_sets) = "SELECT " HX_SET_BRIEF(
    "r.set_id", "r.members", "r.label",
    "") " AS label, r.bytes AS bytes,"
        " r.objects AS objects FROM (SELECT * FROM retainers WHERE snapshot = $snapshot"
        " ORDER BY bytes DESC LIMIT 10) AS r";

TEXT(nameless) =
    "SELECT b.module AS module, hx_names_in(b.path, b.build_id) AS names_in"
    " FROM hx_bare b WHERE b.snapshot = $snapshot AND (SELECT heap_bytes FROM snapshots"
    " WHERE snapshot = $snapshot) < 100 * (SELECT sum(h.bytes) FROM hx_holding h"
    " WHERE h.snapshot = b.snapshot AND h.module = b.module"
    " AND substr(h.name, 1, length(b.module) + 3) = b.module || '+0x')"
    " ORDER BY b.module LIMIT 5";

/* --- named roots ---------------------------------------------------------------------------- */

/* One pass over the bins, of which there may be many times more than roots; what '+' joins is
 * taken apart as the list that it is once each '+' stands between quotes. */
#define NAMED_BYTES                                                                                \
    "SELECT j.value AS name,"                                                                      \
    " sum(CASE WHEN b.roots = j.value THEN b.bytes ELSE 0 END) AS exclusive_bytes,"                \
    " sum(CASE WHEN b.roots = j.value THEN 0 ELSE b.bytes END) AS shared_bytes"                    \
    " FROM hx_bin b CROSS JOIN"                                                                    \
    " json_each('[' || replace(json_quote(b.roots), '+', '\",\"') || ']') j"                       \
    " WHERE b.snapshot = $snapshot AND b.objects > 0 GROUP BY j.value"
TEXT(named_root_bytes) = NAMED_BYTES;

/* At most 10. Names with '+' or '=' cannot be written so; one that several modules have is the
 * largest of them. */
#define NAMEABLE                                                                                   \
    "SELECT row_number() OVER (ORDER BY max(r.retained_bytes) DESC, r.name) AS rank,"              \
    " r.name AS name, r.name || '=' || CASE WHEN r.module <> '' THEN r.module || '!'"              \
    " ELSE '' END || r.name AS expr, r.module AS module, r.root_id AS root_id,"                    \
    " r.direct_objects AS direct_objects,"                                                         \
    " max(r.retained_bytes) AS retained_bytes"                                                     \
    " FROM hx_root r WHERE r.snapshot = $snapshot AND r.kind_name = 'global'"                      \
    " AND r.retained_bytes > 0 AND r.name <> '' AND length(r.name) <= 200"                         \
    " AND instr(r.name, '+') = 0 AND instr(r.name, '=') = 0"                                       \
    " AND NOT EXISTS (SELECT 1 FROM hx_named n WHERE n.snapshot = r.snapshot"                      \
    " AND (n.name = r.name OR n.root_id = r.root_id))"                                             \
    " GROUP BY r.name ORDER BY retained_bytes DESC, name LIMIT 10"
TEXT(nameable) = NAMEABLE;

TEXT(named_roots) = "SELECT 0 AS rank, n.position AS position, n.snapshot AS snapshot,"
                    " n.name AS name, coalesce(n.expr, '(by the program itself)') AS expr,"
                    " n.root_id AS root_id, r.kind AS kind, r.module AS module,"
                    " r.address AS address, r.direct_objects AS direct_objects,"
                    " coalesce(t.exclusive_bytes, 0) AS exclusive_bytes,"
                    " coalesce(t.shared_bytes, 0) AS shared_bytes,"
                    " r.retained_bytes AS retained_bytes, NULL AS naming"
                    " FROM hx_named n LEFT JOIN roots r ON r.snapshot = n.snapshot"
                    " AND r.root_id = n.root_id LEFT JOIN (" NAMED_BYTES
                    ") t ON t.name = n.name WHERE n.snapshot = $snapshot"
                    " UNION ALL SELECT 1, rank, $snapshot, name, '(Enter names it)',"
                    " root_id, 'global', module, NULL, direct_objects, NULL, NULL, retained_bytes,"
                    " expr FROM (" NAMEABLE ") ORDER BY 1, 2";

TEXT(named_roots_facts) =
    "SELECT (SELECT count(*) FROM hx_named WHERE snapshot = $snapshot) AS named,"
    " (SELECT count(*) FROM hx_named WHERE snapshot = $snapshot) + 10 AS rows";

TEXT(named_root_names) = "SELECT name FROM hx_named WHERE snapshot = $snapshot ORDER BY position";

/* --- all of them ------------------------------------------------------------------------------ */

TEXT(bin_sums) = "SELECT roots, sum(bytes) AS bytes, sum(objects) AS objects FROM bins"
                 " WHERE snapshot = $snapshot GROUP BY roots ORDER BY 2 DESC, 1";

TEXT(last_bins) = "SELECT max(snapshot) AS snapshot FROM bins";

TEXT(page_list) =
    "SELECT p.snapshot AS snapshot, p.census AS census,"
    " CASE p.census WHEN 'retainer' THEN p.key WHEN 'site' THEN p.key"
    " WHEN 'bin' THEN (SELECT b.roots FROM hx_bin b"
    " WHERE b.snapshot = p.snapshot AND b.bin = p.key)"
    " ELSE coalesce(t.name, '(unknown)') END AS key,"
    " CASE p.census WHEN 'retainer' THEN (SELECT r.label FROM retainers r"
    " WHERE r.snapshot = p.snapshot AND r.set_id = p.key)"
    " WHEN 'bin' THEN (SELECT b.roots FROM hx_bin b"
    " WHERE b.snapshot = p.snapshot AND b.bin = p.key)"
    " WHEN 'site' THEN (SELECT c.label FROM ccs c WHERE c.ccs_id = p.key)"
    " ELSE coalesce(t.name, '(unknown)') END AS label,"
    " p.only_pages AS only_pages, p.shared_pages AS shared_pages, p.key AS id,"
    " t.name IS NOT NULL AS known FROM hx_page p LEFT JOIN hx_type t ON p.census = 'type'"
    " AND t.snapshot = p.snapshot AND t.type = p.key WHERE p.snapshot = $snapshot";

/* Sets count from the snapshot on that had them first, also when that one is not asked for. */
TEXT(census_runs) =
    "WITH first(snapshot, n) AS (SELECT snapshot, count(*) FROM (SELECT min(snapshot) AS"
    " snapshot FROM hx_retention WHERE set_id >= 2 AND snapshot IN (SELECT snapshot FROM"
    " hx_snapshot) GROUP BY set_id) GROUP BY 1),"
    " total(snapshot, n) AS (SELECT s.snapshot, sum(coalesce(first.n, 0)) OVER"
    " (ORDER BY s.snapshot) FROM hx_snapshot AS s LEFT JOIN first USING(snapshot))"
    " SELECT t.snapshot AS snapshot, c.visits_per_object AS visits_per_object,"
    " coalesce(c.total_bytes, (SELECT"
    " sum(x.bytes) FROM hx_retention AS x WHERE x.snapshot = t.snapshot AND x.set_id <> 0))"
    " AS total_bytes, t.n AS sets"
    " FROM total AS t LEFT JOIN hx_census AS c ON c.snapshot = t.snapshot"
    " WHERE (c.snapshot IS NOT NULL OR EXISTS (SELECT 1 FROM hx_retention AS x WHERE"
    " x.snapshot = t.snapshot)){snapshot: AND t.snapshot = $snapshot} ORDER BY t.snapshot";

TEXT(census_members) =
    "SELECT u.set_id AS set_id, r.space AS space, r.label AS label, r.module AS module"
    " FROM (SELECT DISTINCT set_id"
    " FROM hx_retention WHERE bytes > 0 AND snapshot IN (SELECT snapshot FROM"
    " hx_snapshot){snapshot: AND snapshot = $snapshot}"
    ") AS u LEFT JOIN hx_set_member AS m ON m.set_id = u.set_id LEFT JOIN"
    " hx_retainer AS r ON r.retainer = m.retainer ORDER BY u.set_id, m.position";

TEXT(lone_retainers) =
    "SELECT s.set_id AS set_id, r.label AS label, r.module AS module, r.symbol AS symbol"
    " FROM hx_set AS s CROSS JOIN hx_set_member AS m ON m.set_id = s.set_id"
    " CROSS JOIN hx_retainer AS r ON r.retainer = m.retainer WHERE s.members = 1"
    " ORDER BY s.set_id";
