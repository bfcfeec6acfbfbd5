/* set_label.h - SQL for the label of a retainer set as people read it. Of a large one it names the
 * three members that hold most of the heap, in whichever snapshot, and counts the others. Views,
 * CSV and JSON have all names. */
#ifndef HX_STORE_QUERY_SET_LABEL_H
#define HX_STORE_QUERY_SET_LABEL_H

/* Sets of more members are large, and so many are named of them. */
#define HX_SET_LARGE "5"
#define HX_SET_NAMED "3"

#define HX_SET_MEMBERS(name, set)                                                                  \
    "SELECT " name " AS label, m.position AS position, m.retainer AS retainer"                     \
    " FROM hx_set_member AS m CROSS JOIN hx_retainer AS who ON who.retainer = m.retainer"          \
    " WHERE m.set_id = " set

/* All of them. */
#define HX_SET_NAMES(name, set)                                                                    \
    "(SELECT group_concat(label, ', ') FROM (" HX_SET_MEMBERS(name, set) " ORDER BY m.position))"

/* name: SQL for the name of a member `who`; set, members: of its number and how many it has (NULL:
 * all or none); whole: of the label otherwise; mark: of what tells large ones apart. */
#define HX_SET_BRIEF(name, set, members, whole, mark)                                              \
    "CASE WHEN " members " > " HX_SET_LARGE " THEN (SELECT group_concat(label, ', ') FROM ("       \
    "SELECT n.label AS label FROM (" HX_SET_MEMBERS(                                               \
        name,                                                                                      \
        set) ") AS n"                                                                              \
             " LEFT JOIN (SELECT retainer, max(bytes) AS bytes FROM hx_holding GROUP BY "          \
             "retainer) AS h"                                                                      \
             " ON h.retainer = n.retainer ORDER BY h.bytes DESC, n.position LIMIT " HX_SET_NAMED   \
             "))"                                                                                  \
             " || ' and ' || (" members " - " HX_SET_NAMED ") || ' others'" mark " ELSE " whole    \
             " END"

/* Two large sets may name the same. */
#define HX_SET_MARK(set) " || ' (#' || " set " || ')'"

/* A member of a snapshot with the number of threads that it stands for: "worker (12)". */
#define HX_SET_THREADS(snapshot)                                                                   \
    "who.label || CASE WHEN who.kind = 'thread' AND who.space = 'root'"                            \
    " AND who.label NOT GLOB 'thread [0-9]*' THEN (SELECT CASE WHEN count(*) > 1"                  \
    " THEN ' (' || count(*) || ')' ELSE '' END FROM hx_thread AS t WHERE t.snapshot = " snapshot   \
    " AND 'thread ' || t.name = who.label) ELSE '' END"

#endif
