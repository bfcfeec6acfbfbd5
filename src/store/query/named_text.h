/* named_text.h - the texts of the named queries, each in the file of its subject. */
#ifndef HX_STORE_QUERY_NAMED_TEXT_H
#define HX_STORE_QUERY_NAMED_TEXT_H

#include "store/query/named.h"

#define HX_QUERY_TEXT(name, parameters, columns, about) extern const char hx_query_text_##name[];
HX_NAMED_QUERIES(HX_QUERY_TEXT)
#undef HX_QUERY_TEXT

#define TEXT(name) const char hx_query_text_##name[]

/* The recorded stack of the object at an address. */
#define STACK_OF_OBJECT                                                                            \
    "(SELECT stack_id FROM objects WHERE snapshot = $snapshot AND address = $address)"

/* A statement: the frames of a recorded stack, at most $limit. Where work was deferred those of
 * whoever asked for it stand before those of whoever ran it: the deepest of them are taken first,
 * and only one of each stack waits. A frame stands behind its parent and behind what it entered. */
#define STACK_FRAMES(stack_id)                                                                     \
    "WITH RECURSIVE up(frame_id, ran, level) AS (SELECT frame_id, 0, 0 FROM hx_frame"              \
    " WHERE frame_id = " stack_id " UNION ALL SELECT CASE w.way WHEN 0 THEN f.parent_id"           \
    " WHEN 1 THEN p.target ELSE f.frame_id END, w.way = 2, up.level + (w.way = 1)"                 \
    " FROM up CROSS JOIN hx_frame f ON f.frame_id = up.frame_id"                                   \
    " CROSS JOIN hx_place p ON p.place = f.place"                                                  \
    " CROSS JOIN (SELECT 0 AS way UNION ALL SELECT 1 UNION ALL SELECT 2) w"                        \
    " WHERE CASE w.way WHEN 0 THEN (up.ran OR coalesce(p.kind, 0) <> $deferred)"                   \
    " AND f.parent_id > 1 AND f.parent_id < f.frame_id"                                            \
    " WHEN 1 THEN NOT up.ran AND p.kind = $deferred AND p.target > 1"                              \
    " AND p.target < f.frame_id ELSE NOT up.ran AND p.kind = $deferred END"                        \
    " ORDER BY 3 DESC LIMIT $limit)"                                                               \
    " SELECT CASE WHEN p.kind = $deferred THEN '' ELSE"                                            \
    " printf('#%d', sum(p.kind IS NOT $deferred) OVER (ROWS UNBOUNDED PRECEDING) - 1) END"         \
    " AS frame,"                                                                                   \
    " CASE WHEN p.kind IS NOT $deferred THEN p.label WHEN up.ran THEN '-- run by --'"              \
    " WHEN p.target > 1 THEN '-- asked for by --'"                                                 \
    " ELSE '-- asked for by: not known --' END AS label,"                                          \
    " CASE WHEN p.kind = $deferred THEN '' ELSE nullif(p.module, '<built-in>') END AS module,"     \
    " CASE WHEN p.kind = $deferred THEN '' ELSE p.source END AS source,"                           \
    " CASE WHEN p.kind = $region THEN 'region' WHEN p.inlined > 0 THEN 'inlined' ELSE ''"          \
    " END AS inlined FROM up LEFT JOIN hx_frame f ON f.frame_id = up.frame_id"                     \
    " LEFT JOIN hx_place p ON p.place = f.place"

#endif
