/* census.c - the table of censuses. */
#include "store/census.h"

#include "store/query/set_label.h"
#include "store/store.h"

#include <string.h>

/* clang-format off */

/* A cost-centre stack by its innermost centres; the key stands between the two. */
#define CCS_LABEL                                                                                  \
    "(WITH RECURSIVE up(parent, n, label) AS ("                                                    \
        "SELECT c.parent_id, 0, k.label"                                                           \
        " FROM hx_ccs AS c"                                                                        \
        " JOIN hx_centre AS k ON k.centre = c.centre"                                              \
        " WHERE c.ccs_id = "
#define CCS_LABEL_END                                                                              \
        " UNION ALL SELECT c.parent_id, up.n + 1, k.label"                                         \
        " FROM up"                                                                                 \
        " CROSS JOIN hx_ccs AS c ON c.ccs_id = up.parent"                                          \
        " CROSS JOIN hx_centre AS k ON k.centre = c.centre"                                        \
        " WHERE c.parent_id IS NOT NULL AND up.n < 12)"                                            \
    " SELECT group_concat(CASE n WHEN 12 THEN '...' ELSE label END, ' < ')"                        \
    " FROM up)"
#define CCS_ACROSS   "x.ccs_id AS ccs_id, " CCS_LABEL "x.ccs_id" CCS_LABEL_END " AS label"
#define CCS_IDENTITY "(SELECT c.identity FROM hx_ccs AS c WHERE c.ccs_id = x.ccs_id)"

/* Members lie in the order of their labels. */
#define SET_NAMES   "(SELECT " HX_SET_NAMES("k.id") " FROM (SELECT "
#define SET_END     " AS id) AS k)"
#define SET_NUMBERS "WHEN 0 THEN '(unreachable)' WHEN 1 THEN 'MANY'"
#define SET_SHOWN(key)                                                                             \
    "CASE " key " " SET_NUMBERS                                                                    \
    " ELSE coalesce(" HX_SET_NAMES(key) ", '(unknown)') END"
#define SET_SIZE(key) "(SELECT s.members FROM hx_set AS s WHERE s.set_id = " key " AND " key " > 1)"
#define SET_BRIEF(key)                                                                             \
    HX_SET_BRIEF(key, SET_SIZE(key), SET_SHOWN(key), HX_SET_MARK(key))

/* What is said of a whole recorded stack. */
#define STACK(column, key) "(SELECT t." column " FROM hx_stack AS t WHERE t.stack_id = " key ")"
#define MODULE             "coalesce(" STACK("module", "x.stack_id") ", '(unknown)')"

#define NAMES(snapshot)                                                                            \
    "(SELECT group_concat(name, '+') FROM ("                                                       \
        "SELECT name FROM hx_named WHERE snapshot = " snapshot " ORDER BY position))"

/* Types that objects are of; those of an imported profile, too, which counts none. */
#define COUNTED(row)                                                                               \
    "(" row ".objects > 0 OR (" row ".objects IS NULL AND " row ".bytes IS NOT NULL))"

#define RECORDED(snapshot)                                                                         \
    "SELECT EXISTS (SELECT 1 FROM hx_stack_site x WHERE x.snapshot = s.snapshot)"                  \
        " OR s.heap_objects = 0"                                                                   \
    " FROM hx_snapshot s"                                                                          \
    " WHERE s.snapshot = " snapshot

#define MEASURED(column, snapshot)                                                                 \
    "SELECT " column " IS NOT NULL FROM hx_snapshot WHERE snapshot = " snapshot

#define SINCE(made, now, then)                                                                     \
    "CASE WHEN (" made ") THEN " now " - coalesce(" then ", 0) END AS bytes_delta"

#define HELD(snapshot)                                                                             \
    "SELECT EXISTS (SELECT 1 FROM hx_holding WHERE snapshot = " snapshot ")"
#define OF_HOLDER " WHERE c.snapshot = x.snapshot AND c.holder = x.holder"

/* Who allocated, else what the kind means. */
#define ABOUT_LEAK(site, kind)                                                                     \
    "coalesce(" site ", CASE " kind                                                                \
        " WHEN 'definite' THEN 'nothing points to it'"                                             \
        " WHEN 'indirect' THEN 'held by lost objects only'"                                        \
        " WHEN 'possible' THEN 'by interior pointers only'"                                        \
        " END) AS about"
#define LEAK_SITE "coalesce(" STACK("label", "x.stack_id") ", x.site) AS site"

#define ABOUT_PART                                                                                 \
    ", CASE part"                                                                                  \
        " WHEN 'live' THEN 'objects that the program holds'"                                       \
        " WHEN 'free' THEN 'free and cached blocks of the heap'"                                   \
        " WHEN 'overhead' THEN 'the allocator''s own'"                                             \
        " WHEN 'files' THEN 'mapped files: programs, libraries'"                                   \
        " WHEN 'stacks' THEN 'stacks of threads'"                                                  \
        " WHEN 'anonymous' THEN 'mapped, no allocator''s'"                                         \
        " WHEN 'shared' THEN 'shared with other processes'"                                        \
        " WHEN 'other' THEN 'all the rest'"                                                        \
        " END AS about"

/* Columns of the list of sites, and where they come from: rows s of a snapshot. */
#define SITES(rows)                                                                                \
    "SELECT s.snapshot AS snapshot, s.stack_id AS stack_id, a.ccs_id AS ccs_id,"                   \
        " s.bytes AS bytes, s.objects AS objects,"                                                 \
        " k.alloc_bytes AS alloc_bytes, k.alloc_objects AS alloc_objects,"                         \
        " t.label AS site, t.module AS module, p.source AS source, "                               \
        SINCE(                                                                                     \
            RECORDED("$other"),                                                                    \
            "coalesce(s.bytes, 0)",                                                                \
            "(SELECT o.bytes FROM hx_stack_site o"                                                 \
                " WHERE o.snapshot = $other AND o.stack_id = s.stack_id)")                         \
    " FROM " rows " s"                                                                             \
    " LEFT JOIN hx_stack_cost k ON k.snapshot = $snapshot AND k.stack_id = s.stack_id"             \
    " LEFT JOIN hx_stack t ON t.stack_id = s.stack_id"                                             \
    " LEFT JOIN hx_attributed a ON a.stack_id = s.stack_id"                                        \
    " LEFT JOIN hx_frame c ON c.frame_id = s.stack_id"                                             \
    " LEFT JOIN hx_place p ON p.place = c.place"

#define BELOW                                                                                      \
    "(WITH RECURSIVE b(id) AS ("                                                                   \
        "SELECT $id"                                                                               \
        " UNION SELECT c.ccs_id FROM b CROSS JOIN hx_ccs c ON c.parent_id = b.id)"                 \
    " SELECT id FROM b)"

#define NOT_RECORDED                                                                               \
    "Who allocated was not recorded: heapx run -- CMD, heapx record PID and"                       \
    " heapx attach --record PID do it."
#define RECORDERS "heapx run and heapx record know it"


#define EVERYWHERE (HX_CENSUS_SAMPLED | HX_CENSUS_DRAWN | HX_CENSUS_FLAT | HX_CENSUS_SHEET)

const struct hx_stored_census hx_stored_censuses[] = {
    {
        .name = "retainer",
        .title = "retainer sets",
        .view = "retainers",
        .total = "heap_bytes",
        .needs = HX_ANALYSE_RETAINERS,
        .table = "hx_retention",
        .key = "x.set_id",
        .form = HX_KEY_SET,
        .numbers = SET_NUMBERS,
        .label = {SET_NAMES, SET_END},
        .brief = {"(SELECT " SET_BRIEF("k.id") " FROM (SELECT ", SET_END},
        .subset = HX_SUBSET_SET,
        .objects_are = "set_id",
        .here = {{"set_id"}, "x.set_id AS set_id"},
        .across = {{"label"}, SET_SHOWN("x.set_id") " AS label"},
        .whole = true,
        .alike = HX_ALIKE_SCHEME,
        .more =
            ", " SET_SIZE("d.set_id") " AS members, " SET_SHOWN("d.set_id") " AS label, "
            SET_BRIEF("d.set_id") " AS brief",
        .written = "label",
        /* against sets that were made in the same way: of the same scheme, with the same patterns,
           and MANY from the same size on */
        .list =
            "SELECT r.*, "
                HX_SET_BRIEF_IN("$snapshot", "r.set_id", "r.members", "r.label")
                " AS brief, p.only_pages AS only_pages, p.shared_pages AS shared_pages, "
                SINCE(
                    "$other <> $snapshot AND EXISTS (SELECT 1 FROM hx_census a, hx_census b"
                        " WHERE a.snapshot = $other AND b.snapshot = $snapshot"
                        " AND a.scheme IS b.scheme AND a.max_set IS b.max_set"
                        " AND a.threads_as IS b.threads_as AND a.holders IS b.holders"
                        " AND (a.holders = 0 OR a.rules IS b.rules)"
                        " AND a.patterns IS b.patterns)",
                    "r.bytes",
                    "(SELECT t.bytes FROM hx_retention t"
                        " WHERE t.snapshot = $other AND t.set_id = r.set_id)")
            " FROM retainers r"
            " LEFT JOIN hx_page p"
                " ON p.snapshot = r.snapshot AND p.census = 'retainer' AND p.key = r.set_id"
            " WHERE r.snapshot = $snapshot",
        .list_written = "snapshot, set_id, members, many, label, bytes, objects, only_pages,"
                        " shared_pages, bytes_delta",
        .facts =
            "SELECT (SELECT count(*) FROM hx_retention WHERE snapshot = $snapshot) AS rows,"
                " s.heap_bytes, c.scheme, c.sets, c.visits_per_object"
            " FROM snapshots s"
            " LEFT JOIN censuses c ON c.snapshot = s.snapshot"
            " WHERE s.snapshot = $snapshot",
        .heading = "Heap by retainer sets",
        .lacks = "retainer sets",
        .missing =
            "Retainer sets are not worked out in any snapshot: :analyse does it for this one.",
        .formats = EVERYWHERE,
        .ghc_option = "-hr",
        .ghc_number = HX_GHC_RETAINERS,
    },
    {
        .name = "holder",
        .title = "holders",
        .view = "holders",
        .total = "heap_bytes",
        .needs = HX_ANALYSE_HOLDERS,
        .table = "hx_holding",
        .key = "x.name",
        .where = "x.objects > 0",
        .several = true,
        .subset = HX_SUBSET_KEY,
        .members = "holder = $text",
        .of = " held by ",
        .objects_are = "holder AS name",
        .here = {{"holder"}, "x.name AS holder"},
        .across = {{"holder"}, "x.name AS holder"},
        .whole = true,
        .made = HELD("$snapshot"),
        .written = "holder",
        .list =
            "SELECT x.snapshot AS snapshot, x.name AS holder, x.kind AS kind, x.module AS module,"
                " x.symbol AS symbol, x.bytes AS bytes, x.objects AS objects,"
                " x.alone_bytes AS alone_bytes, x.contested_bytes AS contested_bytes,"
                " (SELECT o.name || coalesce((SELECT ' +' || nullif(count(*) - 1, 0)"
                        " FROM hx_contest c" OF_HOLDER "), '')"
                    " FROM hx_contest c"
                    " JOIN hx_holding o ON o.snapshot = c.snapshot AND o.holder = c.other"
                    OF_HOLDER
                    " ORDER BY c.bytes DESC, o.name"
                    " LIMIT 1) AS contested_with,"
                " x.entries AS entries, "
                SINCE(
                    HELD("$other"),
                    "x.bytes",
                    "(SELECT sum(o.bytes) FROM hx_holding o"
                        " WHERE o.snapshot = $other AND o.name = x.name)")
            " FROM hx_holding x"
            " WHERE x.objects > 0 AND x.snapshot = $snapshot",
        .facts =
            "SELECT s.heap_bytes AS heap_bytes, x.*"
            " FROM snapshots s"
            " CROSS JOIN (SELECT count(*) AS rows, count(kind) AS holders,"
                    " sum(CASE WHEN kind IS NOT NULL THEN bytes END) AS named_bytes,"
                    " sum(contested_bytes) AS contested_bytes,"
                    " sum(CASE holder WHEN 1 THEN bytes END) AS mixed_bytes,"
                    " sum(CASE holder WHEN 0 THEN bytes END) AS lost_bytes"
                " FROM hx_holding"
                " WHERE objects > 0 AND snapshot = $snapshot) AS x"
            " WHERE s.snapshot = $snapshot",
        .heading = "Heap by holders",
        .lacks = "holders",
        .missing = "No snapshot has holders: :analyse finds them where words were judged.",
        .unmeasured = "all references count (--holders off), or nobody has judged them",
        .formats = EVERYWHERE,
        .ghc_option = "-hr",
        .ghc_number = HX_GHC_RETAINERS,
    },
    {
        .name = "bin",
        .title = "root bins",
        .view = "bins",
        .total = "heap_bytes",
        .needs = HX_ANALYSE_BINS,
        .table = "hx_bin",
        .key = "x.roots",
        .where = "x.objects > 0",
        .several = true,
        .subset = HX_SUBSET_BIN,
        .objects_are = "bin AS roots",
        .here = {{"roots"}, "x.roots AS roots"},
        .across = {{"roots"}, "x.roots AS roots"},
        .whole = true,
        .alike = HX_ALIKE_ROOTS,
        .more = ", 0 AS rank",
        .written = "roots",
        /* bins of other roots do not compare; they are numbered in each snapshot anew: those of the
           other one go by their roots */
        .list =
            "SELECT b.snapshot AS snapshot, b.roots AS roots, b.bytes AS bytes,"
                " b.objects AS objects, p.only_pages AS only_pages,"
                " p.shared_pages AS shared_pages, 0 AS rank, NULL AS expr,"
                " NULL AS retained_bytes, "
                SINCE(
                    "$other <> $snapshot AND "
                        NAMES("$other") " IS " NAMES("$snapshot")
                        " AND EXISTS (SELECT 1 FROM hx_bin WHERE snapshot = $other)",
                    "b.bytes",
                    "o.bytes")
            " FROM hx_bin b"
            " LEFT JOIN hx_page p"
                " ON p.snapshot = b.snapshot AND p.census = 'bin' AND p.key = b.bin"
            " LEFT JOIN (SELECT roots, sum(bytes) AS bytes"
                " FROM hx_bin"
                " WHERE objects > 0 AND snapshot = $other"
                " GROUP BY roots) AS o ON o.roots = b.roots"
            " WHERE b.objects > 0 AND b.snapshot = $snapshot"
            /* while no root is named, those that could be */
            " UNION ALL SELECT $snapshot, name, NULL, NULL, NULL, NULL, rank, expr,"
                " retained_bytes, NULL"
            " FROM ($where)"
            " WHERE EXISTS (SELECT 1 FROM hx_bin WHERE snapshot = $snapshot)"
                " AND NOT EXISTS (SELECT 1 FROM hx_named WHERE snapshot = $snapshot)",
        /* a row for each named root: what it reaches alone, and together with others */
        .facts =
            "SELECT c.rows AS rows, c.most AS most, s.heap_bytes AS heap_bytes,"
                " n.name AS name, k.names AS names,"
                " coalesce(t.exclusive_bytes, 0) AS exclusive_bytes,"
                " coalesce(t.shared_bytes, 0) AS shared_bytes"
            " FROM snapshots s"
            " CROSS JOIN (SELECT count(*) AS rows, max(bytes) AS most"
                " FROM bins WHERE snapshot = $snapshot) AS c"
            " CROSS JOIN (SELECT count(*) AS names"
                " FROM hx_named WHERE snapshot = $snapshot) AS k"
            " LEFT JOIN hx_named n ON n.snapshot = s.snapshot"
            " LEFT JOIN ($where) AS t ON t.name = n.name"
            " WHERE s.snapshot = $snapshot"
            " ORDER BY n.position",
        .heading = "Heap by root bins",
        .lacks = "root bins",
        .missing = "Root bins are not worked out in any snapshot: :root NAME=EXPR names a root and"
                   " does it.",
        .formats = EVERYWHERE,
        .ghc_number = HX_GHC_RETAINERS,
    },
    {
        .name = "ccs",
        .title = "cost-centre stacks",
        .view = "sites",
        .total = "heap_bytes",
        .needs = HX_ANALYSE_TYPES,
        .table = "hx_site",
        .key = "x.ccs_id",
        .form = HX_KEY_CCS,
        .label = {CCS_LABEL, CCS_LABEL_END},
        .subset = HX_SUBSET_CCS,
        .objects_are = "ccs_id",
        .across = {{"ccs_id", "label"}, CCS_ACROSS},
        .numbered = true,
        .identity = CCS_IDENTITY,
        .whole = true,
        .heading = "Heap by cost-centre stacks",
        .missing = NOT_RECORDED,
        .todo = RECORDERS,
        .formats = HX_CENSUS_SAMPLED | HX_CENSUS_DRAWN | HX_CENSUS_SHEET,
        .ghc_option = "-hc",
        .ghc_number = HX_GHC_STACKS,
    },
    {
        .name = "type",
        .title = "types",
        .view = "types",
        .total = "heap_bytes",
        .needs = HX_ANALYSE_TYPES,
        .table = "hx_type",
        .key = "coalesce(x.name, '(unknown)')",
        .where = COUNTED("x"),
        .several = true,
        .subset = HX_SUBSET_TYPE,
        .objects_are = "type AS name",
        .here = {{"type"}, "coalesce(x.name, '(unknown)') AS type, x.confidence AS confidence"},
        .across = {{"type"}, "coalesce(x.name, '(unknown)') AS type"},
        .kept = "confidence",
        .whole = true,
        .written = "type",
        /* numbered in each snapshot anew: those of the other one go by name */
        .list =
            "SELECT t.snapshot AS snapshot, coalesce(t.name, '(unknown)') AS type,"
                " t.confidence AS confidence, t.bytes AS bytes, t.objects AS objects,"
                " t.retained_bytes AS retained_bytes, t.symbol AS symbol, t.source AS source,"
                " p.only_pages AS only_pages, p.shared_pages AS shared_pages, "
                SINCE(
                    "EXISTS (SELECT 1 FROM hx_type WHERE snapshot = $other)",
                    "t.bytes",
                    "o.bytes")
            " FROM hx_type t"
            " LEFT JOIN hx_page p"
                " ON p.snapshot = t.snapshot AND p.census = 'type' AND p.key = t.type"
            " LEFT JOIN (SELECT coalesce(name, '(unknown)') AS name, sum(bytes) AS bytes"
                " FROM hx_type AS x"
                " WHERE " COUNTED("x") " AND snapshot = $other"
                " GROUP BY 1) AS o ON o.name = coalesce(t.name, '(unknown)')"
            " WHERE " COUNTED("t") " AND t.snapshot = $snapshot",
        .facts =
            "SELECT (SELECT count(*) FROM types WHERE snapshot = $snapshot) AS rows,"
                " (SELECT sum(bytes) FROM hx_type"
                    " WHERE snapshot = $snapshot AND name IS NOT NULL) AS typed,"
                " EXISTS (SELECT 1 FROM hx_shape"
                    " WHERE snapshot = $snapshot AND label IS NOT NULL) AS shapes,"
                " heap_bytes"
            " FROM snapshots"
            " WHERE snapshot = $snapshot",
        .heading = "Heap by types",
        .lacks = "sums by type",
        .missing = "Types are not added up in any snapshot: :analyse does it for this one.",
        .formats = EVERYWHERE,
        .ghc_option = "-hy",
        .ghc_number = HX_GHC_TYPES,
    },
    {
        .name = "module",
        .title = "modules",
        .view = "modules",
        .total = "heap_bytes",
        .table = "hx_stack_site",
        .key = MODULE,
        .also = "hx_module",
        .several = true,
        .subset = HX_SUBSET_MODULE,
        .objects_are = "stack_id",
        .here = {{"module"}, MODULE " AS module"},
        .across = {{"module"}, MODULE " AS module"},
        .whole = true,
        .made = RECORDED("$snapshot"),
        .written = "module",
        .list =
            "SELECT b.*, "
                SINCE(
                    RECORDED("$other"),
                    "b.bytes",
                    "o.bytes")
            " FROM modules AS b"
            " LEFT JOIN (SELECT module, bytes FROM modules WHERE snapshot = $other) AS o"
                " ON o.module = b.module"
            " WHERE b.snapshot = $snapshot",
        .facts =
            "SELECT (SELECT count(DISTINCT module) FROM modules WHERE snapshot = s.snapshot)"
                " AS rows, heap_bytes"
            " FROM snapshots AS s"
            " WHERE snapshot = $snapshot",
        .heading = "Heap by modules",
        .lacks = "modules (nobody recorded who allocates)",
        .missing = NOT_RECORDED,
        .todo = RECORDERS,
        .formats = EVERYWHERE,
        .ghc_option = "-hm",
        .ghc_number = HX_GHC_MODULES,
    },
    {
        .name = "site",
        .title = "allocation sites",
        .view = "stacks",
        .total = "heap_bytes",
        .table = "hx_stack_site",
        .key = "x.stack_id",
        .form = HX_KEY_STACK,
        .label = {"(SELECT t.label FROM hx_stack AS t WHERE t.stack_id = ", ")"},
        .subset = HX_SUBSET_SITE,
        .here = {{"stack_id"}, "x.stack_id AS stack_id"},
        .made = RECORDED("$snapshot"),
        .more =
            ", "
            STACK("label", "d.stack_id")
                " AS site,"
            " (SELECT a.ccs_id FROM hx_attributed a WHERE a.stack_id = d.stack_id) AS ccs_id,"
            " (SELECT p.source"
                " FROM hx_frame c"
                " JOIN hx_place p ON p.place = c.place"
                " WHERE c.frame_id = d.stack_id) AS source",
        .written = "stack_id, site",
        /* several may have one label: they differ in the lines that the calls stand in */
        .list =
            SITES(
                "(SELECT snapshot, stack_id, bytes, objects"
                    " FROM hx_stack_site"
                    " WHERE snapshot = $snapshot)"),
        /* of a cost centre also those that have nothing any more */
        .list_below =
            SITES(
                "(SELECT $snapshot AS snapshot, y.stack_id AS stack_id, x.bytes AS bytes,"
                        " x.objects AS objects"
                    " FROM hx_attributed y"
                    " LEFT JOIN hx_stack_site x"
                        " ON x.snapshot = $snapshot AND x.stack_id = y.stack_id"
                    " LEFT JOIN hx_stack_cost z"
                        " ON z.snapshot = $snapshot AND z.stack_id = y.stack_id"
                    " WHERE (x.stack_id IS NOT NULL OR z.stack_id IS NOT NULL)"
                        " AND y.ccs_id IN "
                        BELOW
                    ")"),
        .facts =
            "SELECT (SELECT count(*) FROM hx_stack_site WHERE snapshot = s.snapshot) AS rows,"
                " (SELECT sum(x.bytes)"
                    " FROM hx_stack_site x"
                    " JOIN hx_frame c ON c.frame_id = x.stack_id"
                    " JOIN hx_place p ON p.place = c.place"
                    " WHERE x.snapshot = s.snapshot AND p.inlined >= 0) AS known,"
                " s.heap_bytes AS heap_bytes, r.method AS method, r.events AS events,"
                " r.sample_bytes AS sample_bytes, r.upper_bounds AS upper_bounds"
            " FROM snapshots s"
            " LEFT JOIN hx_recording r ON r.snapshot = s.snapshot"
            " WHERE s.snapshot = $snapshot",
        .heading = "Heap by allocation sites",
        .lacks = "allocation sites (nobody recorded them)",
        .missing = NOT_RECORDED,
        .todo = RECORDERS,
        .formats = HX_CENSUS_SAMPLED | HX_CENSUS_DRAWN | HX_CENSUS_SHEET,
        .ghc_option = "-hc",
        .ghc_number = HX_GHC_STACKS,
    },
    {
        .name = "leak",
        .title = "leaks",
        .view = "leaks",
        .total = "heap_bytes",
        .table = "hx_leak",
        .key = "x.kind",
        .several = true,
        .lost = true,
        .subset = HX_SUBSET_STATE,
        .objects_are = "state AS kind, type, stack_id, NULL AS site",
        .here = {{"kind", "type", "site"},
                 "x.kind AS kind, x.type AS type, " LEAK_SITE ", x.stack_id AS stack_id"},
        .across = {{"kind", "type", "site"}, "x.kind AS kind, x.type AS type, " LEAK_SITE},
        .kept = "stack_id",
        .made = MEASURED("reachable_bytes", "$snapshot"),
        .more = ", " ABOUT_LEAK("d.site", "d.kind"),
        .written = "kind, type, site",
        .moved = "leaked_bytes",
        .moved_as = "lost",
        .counts = "leaked_objects",
        /* texts that are NULL are told from empty ones */
        .list =
            "SELECT x.*, "
                SINCE(
                    MEASURED("reachable_bytes", "$other"),
                    "x.bytes",
                    "o.bytes")
            " FROM (SELECT l.snapshot AS snapshot, l.kind AS kind, l.type AS type,"
                    " coalesce(t.label, l.site) AS site, sum(l.bytes) AS bytes,"
                    " sum(l.objects) AS objects, "
                    ABOUT_LEAK("t.label", "l.kind")
                    ", max(l.stack_id) AS stack_id"
                " FROM hx_leak AS l"
                " LEFT JOIN hx_stack AS t ON t.stack_id = l.stack_id"
                " WHERE l.snapshot = $snapshot"
                " GROUP BY 1, 2, 3, 4) AS x"
            " LEFT JOIN (SELECT l.kind AS kind, quote(l.type) AS type,"
                    " quote(coalesce(t.label, l.site)) AS site, sum(l.bytes) AS bytes"
                " FROM hx_leak AS l"
                " LEFT JOIN hx_stack AS t ON t.stack_id = l.stack_id"
                " WHERE l.snapshot = $other"
                " GROUP BY 1, 2, 3) AS o"
                " ON o.kind = x.kind AND o.type = quote(x.type) AND o.site = quote(x.site)",
        .facts =
            "SELECT (SELECT count(*) FROM leaks WHERE snapshot = $snapshot) AS rows,"
                " heap_bytes, leaked_bytes, leaked_objects,"
                " EXISTS (SELECT 1 FROM hx_leak"
                    " WHERE snapshot = $snapshot AND stack_id IS NOT NULL) AS sites"
            " FROM snapshots"
            " WHERE snapshot = $snapshot",
        .heading = "Heap by state",
        .subject = "heap and leaks",
        .lacks = "states of objects",
        .missing = "No heap was found in any snapshot: screen 0 shows the resident memory.",
        .counted = "leaked_objects IS NULL", /* a heap may have none */
        .formats = EVERYWHERE,
        .ghc_option = "-hT",
        .ghc_number = HX_GHC_CLOSURES,
    },
    {
        .name = "account",
        .title = "resident memory",
        .view = "account",
        .total = "rss_bytes",
        .table = "hx_account",
        .key = "x.part",
        .objects = "NULL",
        .subset = HX_SUBSET_ALL,
        .here = {{"part"}, "x.part AS part"},
        .across = {{"part"}, "x.part AS part"},
        .made = MEASURED("rss_bytes", "$snapshot"),
        .more = ABOUT_PART,
        .written = "part",
        .moved_as = "RSS",
        .list =
            "SELECT snapshot, part, bytes"
                ABOUT_PART
                ", "
                SINCE(
                    MEASURED("rss_bytes", "$other"),
                    "bytes",
                    "(SELECT o.bytes FROM hx_account o"
                        " WHERE o.snapshot = $other AND o.part = account.part)")
            " FROM account"
            " WHERE snapshot = $snapshot",
        .facts =
            "SELECT (SELECT count(*) FROM account WHERE snapshot = $snapshot) AS rows,"
                " rss_bytes,"
                " (SELECT sum(bytes) FROM account WHERE snapshot = $snapshot) AS total"
            " FROM snapshots"
            " WHERE snapshot = $snapshot",
        .heading = "Resident memory by use",
        .subject = "resident memory",
        .lacks = "account of the resident memory",
        .missing = "No snapshot has an account of the resident memory; a live process has one.",
        .counted = "1",
        .unmeasured = "resident memory was not measured",
        .formats = HX_CENSUS_DRAWN | HX_CENSUS_ASKED,
    },
    {
        .name = "biography",
        .title = "phases of life",
        .view = "biography",
        .total = "heap_bytes",
        .table = "hx_biography",
        .key = "x.phase",
        .subset = HX_SUBSET_NONE,
        .across = {{"phase"}, "x.phase AS phase"},
        .whole = true,
        .heading = "Heap by phases of life",
        .missing = "Phases of life are known of imported profiles only (GHC's -hb).",
        .todo = "only imported profiles have one so far",
        .formats = HX_CENSUS_SAMPLED | HX_CENSUS_DRAWN | HX_CENSUS_FLAT,
        .ghc_option = "-hb",
        .ghc_number = HX_GHC_BIOGRAPHY,
    },
    {
        .name = "size",
        .title = "size classes",
        .total = "heap_bytes",
        .table = "hx_size_sum", /* objects/sizes.h */
        .key = "x.size",
        .subset = HX_SUBSET_KEY,
        .members = "bytes BETWEEN hx_size_least($text) AND hx_size_most($text)",
        .of = " of size class ",
        .objects_are = "hx_size_class(bytes) AS size",
        .across = {{"size"}, "x.size AS size"},
        .whole = true,
        .heading = "Heap by size classes",
        .missing = "No heap was found in any snapshot: screen 0 shows the resident memory.",
        .formats = HX_CENSUS_SAMPLED | HX_CENSUS_DRAWN | HX_CENSUS_FLAT | HX_CENSUS_ASKED,
        .ghc_number = HX_GHC_CLOSURES,
    },
    {
        .name = "shape",
        .title = "shapes",
        .view = "shapes",
        .total = "heap_bytes",
        .table = "hx_shape",
        .key = "coalesce(x.label, '(unknown)')",
        .where = "x.objects > 0",
        .several = true,
        .subset = HX_SUBSET_KEY,
        .members = "coalesce(shape, '(unknown)') = $text",
        .of = " of shape ",
        .objects_are = "shape AS label",
        .here = {{"shape"}, "coalesce(x.label, '(unknown)') AS shape"},
        .across = {{"shape"}, "coalesce(x.label, '(unknown)') AS shape"},
        .whole = true,
        .heading = "Heap by shapes",
        .lacks = "shapes",
        .missing = "Shapes are not known in any snapshot: heapx looked for none when it took them.",
        .unmeasured = "nobody has looked at the words of the objects",
        .formats = EVERYWHERE | HX_CENSUS_ASKED,
        .ghc_number = HX_GHC_DESCRIPTIONS,
    },
    {0},
};

/* The type of a class is proven, or it is likely. */
const struct hx_stored_census hx_census_kinds = {
    .name = "kind",
    .statement =
        "SELECT snapshot,"
            " CASE WHEN confidence = 'likely' THEN 'object of likely type'"
                " WHEN confidence IS NULL AND type = '(unknown)' THEN 'block of unknown type'"
                " ELSE 'object of known type' END AS key,"
            " sum(bytes) AS bytes"
        " FROM types"
        " GROUP BY 1, 2",
    .ghc_option = "-hd",
    .ghc_number = HX_GHC_DESCRIPTIONS,
};

/* clang-format on */

const struct hx_stored_census hx_compared_views[] = {
    {
        .name = "costs", /* what is live now of what was allocated below a cost centre */
        .view = "costs",
        .table = "costs",
        .bytes = "x.inherited_live_bytes",
        .objects = "x.inherited_live_objects",
        .across = {{"ccs_id", "label"}, CCS_ACROSS},
        .numbered = true,
        .identity = CCS_IDENTITY,
        .whole = true,
    },
    {
        .name = "roots",
        .view = "roots",
        .needs = HX_ANALYSE_RETAINED,
        .table = "roots",
        .bytes = "x.retained_bytes",
        .objects = "x.direct_objects",
        .made = MEASURED("heap_objects", "$snapshot"),
        .across = {{"kind", "name", "module"},
                   "x.kind AS kind, x.name AS name, x.module AS module"},
    },
    {
        .name = "dominators",
        .view = "dominators",
        .needs = HX_ANALYSE_RETAINED,
        .table = "dominators",
        .bytes = "x.retained_bytes",
        .objects = "x.retained_objects",
        .made = MEASURED("heap_objects", "$snapshot"),
        .across = {{"address", "type"}, "x.address AS address, x.type AS type"},
        .largest_only = true,
    },
    {0},
};

const struct hx_stored_census *hx_census_find(const char *name)
{
    for (const struct hx_stored_census *census = hx_stored_censuses; census->name; census++)
        if (strcmp(census->name, name) == 0)
            return census;
    return NULL;
}

static const struct hx_stored_census *find_compared(const struct hx_stored_census *table,
                                                    const char *word)
{
    for (; table->name; table++)
        if (table->across.sql && strcmp(hx_census_word(table), word) == 0)
            return table;
    return NULL;
}

const struct hx_stored_census *hx_census_of_view(const char *view)
{
    const struct hx_stored_census *found = find_compared(hx_stored_censuses, view);
    return found && found->view ? found : NULL;
}

const struct hx_stored_census *hx_census_compared(const char *word)
{
    const struct hx_stored_census *found = find_compared(hx_stored_censuses, word);
    return found ? found : find_compared(hx_compared_views, word);
}
