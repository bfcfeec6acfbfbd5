/* set_label.h - SQL for the label of a retainer set as people read it. Of a large one it names the
 * three members that hold most of the heap, in whichever snapshot, and counts the others. Views,
 * CSV and JSON have all names. */
#ifndef HX_STORE_QUERY_SET_LABEL_H
#define HX_STORE_QUERY_SET_LABEL_H

/* Sets of more members are large, and so many are named of them. */
#define HX_SET_LARGE "5"
#define HX_SET_NAMED "3"

/* clang-format off */

/* Names of members: SQL with columns label, position, retainer, doubt. */
#define HX_SET_MEMBERS(set)                                                                        \
    "SELECT who.label AS label, m.position AS position, m.retainer AS retainer, 0 AS doubt"        \
    " FROM hx_set_member AS m CROSS JOIN hx_retainer AS who ON who.retainer = m.retainer"          \
    " WHERE m.set_id = " set

/* All of them. */
#define HX_SET_NAMES(set)                                                                          \
    "(SELECT group_concat(label, ', ') FROM (" HX_SET_MEMBERS(set) " ORDER BY m.position))"

/* Those that hold most. */
#define HX_SET_LARGEST(names)                                                                      \
    "(SELECT group_concat(label, ', ') FROM (SELECT n.label AS label FROM (" names ") AS n"        \
    " LEFT JOIN (SELECT retainer, max(bytes) AS bytes FROM hx_holding GROUP BY retainer) AS h"     \
    " ON h.retainer = n.retainer ORDER BY n.doubt, h.bytes DESC, n.position LIMIT " HX_SET_NAMED "))"

#define HX_SET_WORDS(names, members, whole, mark)                                                  \
    "CASE WHEN " members " > " HX_SET_LARGE " THEN " HX_SET_LARGEST(names)                         \
    " || ' and ' || (" members " - " HX_SET_NAMED ") || ' others'" mark " ELSE " whole " END"

/* set, members: its number and how many it has (NULL: all or none); whole: the label of others;
 * mark: what tells large ones apart. */
#define HX_SET_BRIEF(set, members, whole, mark)                                                    \
    HX_SET_WORDS(HX_SET_MEMBERS(set), members, whole, mark)

/* Two large sets may name the same. */
#define HX_SET_MARK(set) " || ' (#' || " set " || ')'"

/* --- in one snapshot: "g_cache, thread worker (12), g_stats?" --- */

/* Of a member that is in doubt, and of one that is several threads. */
#define HX_SET_DOUBT "CASE e.doubt WHEN 1 THEN '?' ELSE '' END"
#define HX_SET_THREADS(snapshot)                                                                   \
    "CASE WHEN who.kind = 'thread' AND who.space = 'root'"                                         \
    " AND who.label NOT GLOB 'thread [0-9]*' THEN (SELECT CASE WHEN count(*) > 1"                  \
    " THEN ' (' || count(*) || ')' ELSE '' END FROM hx_thread AS t WHERE t.snapshot = " snapshot   \
    " AND 'thread ' || t.name = who.label) ELSE '' END"

#define HX_SET_SEEN(snapshot, set)                                                                 \
    "SELECT who.label || " HX_SET_THREADS(snapshot) " || " HX_SET_DOUBT " AS label,"               \
    " m.position AS position, m.retainer AS retainer, coalesce(e.doubt, 0) AS doubt"               \
    " FROM hx_set_member AS m CROSS JOIN hx_retainer AS who ON who.retainer = m.retainer"          \
    " LEFT JOIN hx_entry AS e ON e.snapshot = " snapshot " AND e.set_id = m.set_id"                \
    " AND e.position = m.position WHERE m.set_id = " set

/* other: the label of what has no members. */
#define HX_SET_BRIEF_IN(snapshot, set, members, other)                                             \
    HX_SET_WORDS(HX_SET_SEEN(snapshot, set), members,                                              \
                 "coalesce((SELECT group_concat(label, ', ') FROM ("                               \
                 HX_SET_SEEN(snapshot, set) " ORDER BY doubt, position)), " other ")",             \
                 HX_SET_MARK(set))

/* clang-format on */

#endif
