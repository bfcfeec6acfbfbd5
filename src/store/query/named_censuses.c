/* named_censuses.c - named queries over the rows of a census ($census: snapshot, key, label, bytes,
 * objects). */
#include "store/query/named_text.h"

TEXT(census_any) = "SELECT 1 AS rows FROM $census LIMIT 1";

/* --- samples: keys that are no texts in the store, or missing, can become the same one ------- */

#define KEY_TEXT "coalesce(CAST(key AS TEXT), '(unknown)') AS k"

TEXT(census_keys) = "SELECT DISTINCT " KEY_TEXT " FROM $census ORDER BY k COLLATE BINARY";

TEXT(census_samples) = "SELECT b.snapshot AS snapshot, " KEY_TEXT ", sum(b.bytes) AS n"
                       " FROM $census AS b GROUP BY 1, 2 ORDER BY b.snapshot, n DESC, k";

#define BY_NUMBER "SELECT b.snapshot AS snapshot, b.key AS k, b.bytes AS n, "
#define IN_ORDER  " AS members FROM $census AS b ORDER BY b.snapshot, n DESC, k"

TEXT(census_stack_samples) = BY_NUMBER "NULL" IN_ORDER;

/* In the order of their labels. */
TEXT(census_set_samples) = BY_NUMBER
    "(SELECT group_concat(label, char(31)) FROM (SELECT CASE r.space WHEN 'site' THEN char(30)"
    " ELSE '' END || r.label AS label FROM hx_set_member AS m"
    " CROSS JOIN hx_retainer AS r ON r.retainer = m.retainer WHERE m.set_id = b.key"
    " ORDER BY m.position))" IN_ORDER;

/* --- views with more than they hold ------------------------------------------------------------
 */

TEXT(leaks_and_rest) = "SELECT * FROM (SELECT * FROM leaks WHERE snapshot = $snapshot"
                       " UNION ALL SELECT snapshot, key, NULL, NULL, bytes, objects FROM $census"
                       " WHERE key = 'reachable') ORDER BY bytes DESC, kind, type, site";

TEXT(labelled_sites) = "SELECT snapshot, key AS ccs_id, $label AS label, bytes, objects,"
                       " retained_bytes FROM (SELECT *, ccs_id AS key FROM sites)"
                       "{snapshot: WHERE snapshot = $snapshot} ORDER BY snapshot, bytes DESC, key";
