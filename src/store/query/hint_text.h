/* hint_text.h - SQL for what helps with a root without a name: columns near, names_in, reaches,
 * NULL where they are not known. `root` is an alias of hx_root. */
#ifndef HX_STORE_QUERY_HINT_TEXT_H
#define HX_STORE_QUERY_HINT_TEXT_H

#include "store/schema/schema.h"

/* Objects of one row of a tree: "20,000 x 48 bytes", "array of 512 KiB". */
#define HX_HINT_ROW                                                                                \
    "CASE WHEN t.objects > 1 THEN printf('%,d x ', t.objects) ELSE '' END"                         \
    " || CASE WHEN t.label GLOB '[0-9]*: ' || char(123) || '*' THEN substr(t.label, 1, "           \
    "instr(t.label, ':') - 1)"                                                                     \
    " WHEN t.label GLOB '[0-9]*: array of *'"                                                      \
    " THEN 'array of ' || substr(t.label, 1, instr(t.label, ':') - 1) ELSE t.label END"

#define HX_HINT_WHOSE(root) HX_WHOSE(root ".snapshot", "'holder'")

/* Rows are in preorder, of those below one the largest first: so the largest of each level stand
 * one behind the other. */
#define HX_HINT_COLUMNS(root)                                                                      \
    root ".near AS near,"                                                                          \
         " (SELECT hx_names_in(b.path, b.build_id) FROM hx_bare b WHERE b.snapshot = " root        \
         ".snapshot AND b.module = " root ".module AND " root ".symbol IS NULL"                    \
         " AND substr(" root ".name, 1, length(b.module) + 3) = b.module || '+0x') AS names_in,"   \
         " (SELECT group_concat(what, ' -> ') FROM (SELECT " HX_HINT_ROW " AS what"                \
         " FROM hx_tree h CROSS JOIN hx_tree t ON t.snapshot = h.snapshot AND t.kind = h.kind"     \
         " AND t.node BETWEEN h.node + 1 AND h.node + 3 AND t.depth = t.node - h.node"             \
         " WHERE h.snapshot = " HX_HINT_WHOSE(root) " AND h.kind = 'holder' AND h.depth = 0"       \
                                                    " AND h.label = " root ".name AND " root       \
                                                    ".symbol IS NULL ORDER BY t.node)) AS reaches"

#endif
