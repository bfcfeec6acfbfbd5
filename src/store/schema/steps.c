/* steps.c - from one schema to the next, in the words in which it was done then.
 *
 * Never to be changed, and made by no list of today: stores of older schemas hold these words, and
 * are compared with them before they are migrated. The last step ends with the tables of tables.h,
 * letter by letter. Views are made anew behind it. */
#include "store/schema/schema.h"

#include "store/store.h"

/* clang-format off */
static const char *const steps[HX_STORE_SCHEMA + 1] = {
    [1] =
    "CREATE TABLE hx_snapshot(snapshot INTEGER PRIMARY KEY, taken_at_ns INTEGER NOT NULL,"
    " taken_at TEXT NOT NULL, pid INTEGER, comm TEXT, exe TEXT, pause_us INTEGER, method TEXT,"
    " allocator TEXT, heap_bytes INTEGER, heap_objects INTEGER, reachable_bytes INTEGER,"
    " reachable_objects INTEGER, leaked_bytes INTEGER, leaked_objects INTEGER, free_bytes INTEGER,"
    " overhead_bytes INTEGER, rss_bytes INTEGER, scheme TEXT, interior INTEGER NOT NULL,"
    " complete INTEGER NOT NULL, notes TEXT);"
    "CREATE TABLE hx_account(snapshot INTEGER, position INTEGER, part TEXT, bytes INTEGER,"
    " PRIMARY KEY(snapshot, position)) WITHOUT ROWID;"
    "CREATE TABLE hx_root(snapshot INTEGER, root_id INTEGER, kind INTEGER, kind_name TEXT,"
    " name TEXT, module TEXT, address INTEGER, size INTEGER, direct_objects INTEGER, value INTEGER,"
    " tid INTEGER, PRIMARY KEY(snapshot, root_id)) WITHOUT ROWID;"
    "CREATE TABLE hx_leak(snapshot INTEGER, kind TEXT, type TEXT, site TEXT, bytes INTEGER,"
    " objects INTEGER);CREATE INDEX hx_leak_snapshot ON hx_leak(snapshot);"
    "CREATE TABLE hx_loss(snapshot INTEGER, what TEXT, count INTEGER, bytes INTEGER,"
    " address INTEGER);CREATE INDEX hx_loss_snapshot ON hx_loss(snapshot);"
    "CREATE TABLE hx_block(id INTEGER PRIMARY KEY, snapshot INTEGER, family INTEGER,"
    " first_row INTEGER, n INTEGER, first_key INTEGER, last_key INTEGER, bytes INTEGER);"
    "CREATE UNIQUE INDEX hx_block_place ON hx_block(snapshot, family, first_row);"
    "CREATE TABLE hx_column(id INTEGER PRIMARY KEY, data BLOB);",
    [2] =
    "ALTER TABLE hx_root ADD COLUMN retained_bytes INTEGER;"
    "ALTER TABLE hx_root ADD COLUMN retained_objects INTEGER;"
    "ALTER TABLE hx_snapshot ADD COLUMN parts INTEGER NOT NULL DEFAULT 0;"
    "CREATE TABLE hx_type(snapshot INTEGER, type INTEGER, name TEXT, confidence TEXT,"
    " bytes INTEGER, objects INTEGER, retained_bytes INTEGER, retained_objects INTEGER,"
    " PRIMARY KEY(snapshot, type)) WITHOUT ROWID;"
    "CREATE TABLE hx_named(snapshot INTEGER, position INTEGER, name TEXT, expr TEXT,"
    " root_id INTEGER, PRIMARY KEY(snapshot, position)) WITHOUT ROWID;"
    "CREATE TABLE hx_bin(snapshot INTEGER, bin INTEGER, roots TEXT, bytes INTEGER, objects INTEGER,"
    " PRIMARY KEY(snapshot, bin)) WITHOUT ROWID;"
    "CREATE TABLE hx_retainer(retainer INTEGER PRIMARY KEY, space TEXT, label TEXT, kind TEXT,"
    " module TEXT, UNIQUE(space, label));"
    "CREATE TABLE hx_set(set_id INTEGER PRIMARY KEY, key INTEGER, members INTEGER);"
    "CREATE INDEX hx_set_key ON hx_set(key);"
    "CREATE TABLE hx_set_member(set_id INTEGER, position INTEGER, retainer INTEGER,"
    " PRIMARY KEY(set_id, position)) WITHOUT ROWID;"
    "CREATE TABLE hx_retention(snapshot INTEGER, set_id INTEGER, bytes INTEGER, objects INTEGER,"
    " PRIMARY KEY(snapshot, set_id)) WITHOUT ROWID;"
    "CREATE INDEX hx_retention_set ON hx_retention(set_id);"
    "CREATE TABLE hx_census(snapshot INTEGER PRIMARY KEY, scheme TEXT, max_set INTEGER,"
    " patterns TEXT, visits_per_object REAL, total_bytes INTEGER, sets INTEGER);"
    "CREATE TABLE hx_dominator(snapshot INTEGER, position INTEGER, address INTEGER, type TEXT,"
    " bytes INTEGER, retained_bytes INTEGER, retained_objects INTEGER, sure_retained_bytes INTEGER,"
    " sure_retained_objects INTEGER, parent INTEGER,"
    " PRIMARY KEY(snapshot, position)) WITHOUT ROWID;"
    "CREATE TABLE hx_page(snapshot INTEGER, census TEXT, key INTEGER, only_pages INTEGER,"
    " shared_pages INTEGER, PRIMARY KEY(snapshot, census, key)) WITHOUT ROWID;",
    [3] =
    "ALTER TABLE hx_leak ADD COLUMN ccs_id INTEGER;"
    "CREATE TABLE hx_file(file INTEGER PRIMARY KEY, path TEXT, name TEXT, build_id TEXT);"
    "CREATE TABLE hx_place(place INTEGER PRIMARY KEY, file INTEGER, vaddr INTEGER, inlined INTEGER,"
    " label TEXT, module TEXT, source TEXT, is_caf INTEGER);"
    "CREATE TABLE hx_ccs(ccs_id INTEGER PRIMARY KEY, parent_id INTEGER, depth INTEGER,"
    " place INTEGER);CREATE UNIQUE INDEX hx_ccs_place ON hx_ccs(parent_id, place);"
    "CREATE TABLE hx_stack(ccs_id INTEGER PRIMARY KEY, label TEXT, site TEXT, module TEXT,"
    " identity INTEGER);"
    "CREATE TABLE hx_recording(snapshot INTEGER PRIMARY KEY, method TEXT, from_start INTEGER,"
    " upper_bounds INTEGER, sample_bytes INTEGER, began_ns INTEGER, frozen_ns INTEGER,"
    " events INTEGER, unmatched_frees INTEGER);"
    "CREATE TABLE hx_cost(snapshot INTEGER, ccs_id INTEGER, alloc_bytes INTEGER,"
    " alloc_objects INTEGER, freed_bytes INTEGER, freed_objects INTEGER, live_bytes INTEGER,"
    " live_objects INTEGER, inherited_alloc_bytes INTEGER, inherited_alloc_objects INTEGER,"
    " inherited_live_bytes INTEGER, inherited_live_objects INTEGER,"
    " PRIMARY KEY(snapshot, ccs_id)) WITHOUT ROWID;"
    "CREATE TABLE hx_estimate(snapshot INTEGER, ccs_id INTEGER, alloc_error_bytes INTEGER,"
    " live_error_bytes INTEGER, PRIMARY KEY(snapshot, ccs_id)) WITHOUT ROWID;"
    "CREATE TABLE hx_site(snapshot INTEGER, ccs_id INTEGER, bytes INTEGER, objects INTEGER,"
    " retained_bytes INTEGER, retained_objects INTEGER,"
    " PRIMARY KEY(snapshot, ccs_id)) WITHOUT ROWID;",
    [4] =
    "ALTER TABLE hx_leak RENAME COLUMN ccs_id TO stack_id;"
    "ALTER TABLE hx_place ADD COLUMN kind INTEGER;ALTER TABLE hx_place ADD COLUMN centre INTEGER;"
    "ALTER TABLE hx_place ADD COLUMN target INTEGER;"
    "ALTER TABLE hx_place ADD COLUMN initialiser INTEGER;"
    "ALTER TABLE hx_place ADD COLUMN entry INTEGER;ALTER TABLE hx_ccs RENAME TO hx_frame;"
    "ALTER TABLE hx_frame RENAME COLUMN ccs_id TO frame_id;"
    "ALTER TABLE hx_stack RENAME COLUMN ccs_id TO stack_id;"
    "ALTER TABLE hx_stack ADD COLUMN origin INTEGER;ALTER TABLE hx_cost RENAME TO hx_cost_3;"
    "CREATE TABLE hx_stack_cost(snapshot INTEGER, stack_id INTEGER, entries INTEGER,"
    " alloc_bytes INTEGER, alloc_objects INTEGER, freed_bytes INTEGER, freed_objects INTEGER,"
    " live_bytes INTEGER, live_objects INTEGER, alloc_s INTEGER, alloc_m INTEGER, alloc_l INTEGER,"
    " alloc_x INTEGER, freed_s INTEGER, freed_m INTEGER, freed_l INTEGER, freed_x INTEGER,"
    " alloc_variance REAL, live_variance REAL, PRIMARY KEY(snapshot, stack_id)) WITHOUT ROWID;"
    "CREATE TABLE hx_stack_site(snapshot INTEGER, stack_id INTEGER, bytes INTEGER, objects INTEGER,"
    " PRIMARY KEY(snapshot, stack_id)) WITHOUT ROWID;"
    "CREATE TABLE hx_centre(centre INTEGER PRIMARY KEY, kind TEXT, label TEXT, module TEXT,"
    " source TEXT, is_caf INTEGER, file INTEGER, identity INTEGER);"
    "CREATE TABLE hx_thread(snapshot INTEGER, tid INTEGER, name TEXT, stack_id INTEGER,"
    " PRIMARY KEY(snapshot, tid)) WITHOUT ROWID;"
    "CREATE TABLE hx_size(snapshot INTEGER, size INTEGER, alloc_objects INTEGER,"
    " alloc_bytes INTEGER, freed_objects INTEGER, freed_bytes INTEGER,"
    " PRIMARY KEY(snapshot, size)) WITHOUT ROWID;"
    "CREATE TABLE hx_size_type(snapshot INTEGER, size INTEGER, name TEXT,"
    " PRIMARY KEY(snapshot, size, name)) WITHOUT ROWID;"
    "CREATE TABLE hx_ccs(ccs_id INTEGER PRIMARY KEY, parent_id INTEGER, depth INTEGER,"
    " centre INTEGER, identity INTEGER);CREATE UNIQUE INDEX hx_ccs_centre ON hx_ccs(parent_id,"
    " centre);"
    "CREATE TABLE hx_attributed(stack_id INTEGER PRIMARY KEY, ccs_id INTEGER);"
    "CREATE INDEX hx_attributed_ccs ON hx_attributed(ccs_id);"
    "CREATE TABLE hx_cost(snapshot INTEGER, ccs_id INTEGER, entries INTEGER, alloc_bytes INTEGER,"
    " alloc_objects INTEGER, freed_bytes INTEGER, freed_objects INTEGER, live_bytes INTEGER,"
    " live_objects INTEGER, inherited_alloc_bytes INTEGER, inherited_alloc_objects INTEGER,"
    " inherited_live_bytes INTEGER, inherited_live_objects INTEGER,"
    " PRIMARY KEY(snapshot, ccs_id)) WITHOUT ROWID;"
    "CREATE TABLE hx_holder(snapshot INTEGER, stack_id INTEGER, state TEXT, set_id INTEGER,"
    " bytes INTEGER, objects INTEGER);CREATE INDEX hx_holder_stack ON hx_holder(snapshot,"
    " stack_id);"
    "CREATE TABLE hx_mprof(snapshot INTEGER PRIMARY KEY, allocs INTEGER, bytes INTEGER, s INTEGER,"
    " m INTEGER, l INTEGER, x INTEGER, frees INTEGER, freed_bytes INTEGER, kept_bytes INTEGER,"
    " ks INTEGER, km INTEGER, kl INTEGER, kx INTEGER, chain_bytes INTEGER,"
    " chain_freed_bytes INTEGER);"
    "CREATE TABLE hx_chain(chain INTEGER PRIMARY KEY, path TEXT, cut INTEGER);"
    "CREATE TABLE hx_stack_chain(stack_id INTEGER PRIMARY KEY, chain INTEGER);"
    "CREATE TABLE hx_chain_cost(snapshot INTEGER, chain INTEGER, allocs INTEGER, bytes INTEGER,"
    " frees INTEGER, freed_bytes INTEGER, kept_bytes INTEGER,"
    " PRIMARY KEY(snapshot, chain)) WITHOUT ROWID;"
    "CREATE TABLE hx_function(snapshot INTEGER, centre INTEGER, entry INTEGER, cycle INTEGER,"
    " allocs INTEGER, bytes INTEGER, s INTEGER, m INTEGER, l INTEGER, x INTEGER,"
    " kept_bytes INTEGER, ks INTEGER, km INTEGER, kl INTEGER, kx INTEGER, total_bytes INTEGER,"
    " calls INTEGER, recursive INTEGER, made INTEGER, up_bytes INTEGER, down_bytes INTEGER,"
    " PRIMARY KEY(snapshot, centre)) WITHOUT ROWID;"
    "CREATE TABLE hx_call(snapshot INTEGER, caller INTEGER, callee INTEGER, calls INTEGER,"
    " s INTEGER, m INTEGER, l INTEGER, x INTEGER,"
    " PRIMARY KEY(snapshot, caller, callee)) WITHOUT ROWID;"
    "CREATE TABLE hx_cycle(snapshot INTEGER, cycle INTEGER, entry INTEGER, bytes INTEGER,"
    " s INTEGER, m INTEGER, l INTEGER, x INTEGER, total_bytes INTEGER, calls INTEGER,"
    " internal INTEGER, up_bytes INTEGER, down_bytes INTEGER,"
    " PRIMARY KEY(snapshot, cycle)) WITHOUT ROWID;DROP INDEX hx_ccs_place;"
    "UPDATE hx_stack SET origin = stack_id;"
    /* without classes of sizes: nothing is known of them */
    "INSERT INTO hx_stack_cost(snapshot, stack_id, alloc_bytes, alloc_objects, freed_bytes,"
    " freed_objects, live_bytes, live_objects, alloc_variance, live_variance) SELECT c.snapshot,"
    " c.ccs_id, c.alloc_bytes, c.alloc_objects, c.freed_bytes, c.freed_objects, c.live_bytes,"
    " c.live_objects, 1.0 * e.alloc_error_bytes * e.alloc_error_bytes, 1.0 * e.live_error_bytes *"
    " e.live_error_bytes FROM hx_cost_3 AS c LEFT JOIN hx_estimate AS e ON e.snapshot = c.snapshot"
    " AND e.ccs_id = c.ccs_id WHERE c.ccs_id IN (SELECT stack_id FROM hx_stack) AND"
    " (coalesce(c.alloc_objects, 1) <> 0 OR c.live_objects <> 0 OR c.freed_objects <> 0 OR"
    " c.alloc_bytes <> 0 OR c.live_bytes <> 0 OR c.freed_bytes <> 0);DROP TABLE hx_cost_3;"
    "DELETE FROM hx_estimate;"
    "INSERT INTO hx_stack_site SELECT snapshot, ccs_id, bytes, objects FROM hx_site;",
    [5] =
    "ALTER TABLE hx_ccs ADD COLUMN recursive INTEGER;",
    [6] =
    "ALTER TABLE hx_snapshot ADD COLUMN started_at_ns INTEGER;"
    "CREATE TABLE hx_biography(snapshot INTEGER, phase TEXT, bytes INTEGER, objects INTEGER,"
    " PRIMARY KEY(snapshot, phase)) WITHOUT ROWID;"
    "CREATE TABLE hx_module(snapshot INTEGER, name TEXT, bytes INTEGER, objects INTEGER,"
    " PRIMARY KEY(snapshot, name)) WITHOUT ROWID;",
    [7] =
    "ALTER TABLE hx_root ADD COLUMN symbol TEXT;ALTER TABLE hx_retainer ADD COLUMN symbol TEXT;"
    "ALTER TABLE hx_type ADD COLUMN symbol TEXT;ALTER TABLE hx_centre ADD COLUMN symbol TEXT;"
    /* what was there counted edges of another algorithm than the document's, and lost objects */
    "UPDATE hx_census SET visits_per_object = NULL, total_bytes = (SELECT coalesce(sum(r.bytes), 0)"
    " FROM hx_retention AS r WHERE r.snapshot = hx_census.snapshot AND r.set_id <> 0) WHERE scheme"
    " IS NOT NULL;",
    [8] =
    "ALTER TABLE hx_root ADD COLUMN near TEXT;"
    "CREATE TABLE hx_bare(snapshot INTEGER, module TEXT, path TEXT, build_id TEXT,"
    " PRIMARY KEY(snapshot, module)) WITHOUT ROWID;"
    "ALTER TABLE hx_snapshot ADD COLUMN stray_edges INTEGER;"
    "ALTER TABLE hx_snapshot ADD COLUMN doubt_bytes INTEGER;"
    "ALTER TABLE hx_census ADD COLUMN holders INTEGER;"
    "ALTER TABLE hx_census ADD COLUMN threads_as TEXT;"
    "ALTER TABLE hx_census ADD COLUMN rules TEXT;"
    "CREATE TABLE hx_entry(snapshot INTEGER, set_id INTEGER, position INTEGER, entries INTEGER,"
    " alike INTEGER, doubt INTEGER, PRIMARY KEY(snapshot, set_id, position)) WITHOUT ROWID;"
    "CREATE TABLE hx_holding(snapshot INTEGER, holder INTEGER, name TEXT, kind TEXT, module TEXT,"
    " symbol TEXT, bytes INTEGER, objects INTEGER, alone_bytes INTEGER, contested_bytes INTEGER,"
    " entries INTEGER, retainer INTEGER, PRIMARY KEY(snapshot, holder)) WITHOUT ROWID;"
    "CREATE TABLE hx_contest(snapshot INTEGER, holder INTEGER, other INTEGER, bytes INTEGER,"
    " objects INTEGER, PRIMARY KEY(snapshot, holder, other)) WITHOUT ROWID;"
    "CREATE TABLE hx_shape(snapshot INTEGER, shape INTEGER, label TEXT, bytes INTEGER,"
    " objects INTEGER, PRIMARY KEY(snapshot, shape)) WITHOUT ROWID;"
    "CREATE TABLE hx_tree(snapshot INTEGER, kind TEXT, node INTEGER, parent INTEGER,"
    " depth INTEGER, label TEXT, bytes INTEGER, objects INTEGER, retained_bytes INTEGER,"
    " PRIMARY KEY(snapshot, kind, node)) WITHOUT ROWID;"
    /* all edges, each thread's places by themselves: so it was until then */
    "UPDATE hx_census SET holders = 0, threads_as = 'parts' WHERE scheme IS NOT NULL;"
    /* the holders' part of an analysis: they have none, and nothing to make it of */
    "UPDATE hx_snapshot SET parts = parts | 8 WHERE parts <> 0;",
    [9] =
    /* sure figures, and sizes of types, came with the dominators */
    "UPDATE hx_snapshot SET parts = parts | 48 WHERE parts & 4;"
    "CREATE TABLE hx_pack(pack INTEGER PRIMARY KEY, data BLOB);"
    "CREATE TABLE hx_alike(snapshot INTEGER, part TEXT, whose INTEGER,"
    " PRIMARY KEY(snapshot, part)) WITHOUT ROWID;",
    [10] =
    "ALTER TABLE hx_snapshot ADD COLUMN typed_bytes INTEGER;"
    "ALTER TABLE hx_root ADD COLUMN layout INTEGER;"
    "ALTER TABLE hx_root ADD COLUMN layout_at INTEGER;"
    "ALTER TABLE hx_type ADD COLUMN source TEXT;ALTER TABLE hx_type ADD COLUMN layout INTEGER;"
    "CREATE TABLE hx_layout(snapshot INTEGER, layout INTEGER, size INTEGER, repeats INTEGER,"
    " PRIMARY KEY(snapshot, layout)) WITHOUT ROWID;"
    "CREATE TABLE hx_field(snapshot INTEGER, layout INTEGER, offset INTEGER, name TEXT,"
    " target TEXT, PRIMARY KEY(snapshot, layout, offset)) WITHOUT ROWID;"
    "CREATE TABLE hx_loaded(snapshot INTEGER, number INTEGER, path TEXT, build_id TEXT,"
    " bias INTEGER, PRIMARY KEY(snapshot, number)) WITHOUT ROWID;"
    "CREATE TABLE hx_stopped_frame(snapshot INTEGER, tid INTEGER, position INTEGER, file INTEGER,"
    " vaddr INTEGER, sp INTEGER, cfa INTEGER, fp INTEGER, rbx INTEGER, rbp INTEGER, r12 INTEGER,"
    " r13 INTEGER, r14 INTEGER, r15 INTEGER, PRIMARY KEY(snapshot, tid, position)) WITHOUT ROWID;"
    "CREATE TABLE hx_tls_block(snapshot INTEGER, start INTEGER, bytes INTEGER, file INTEGER,"
    " tid INTEGER, PRIMARY KEY(snapshot, start)) WITHOUT ROWID;",
    [11] =
    "CREATE TABLE hx_allocator(snapshot INTEGER, position INTEGER, name TEXT, version TEXT,"
    " evidence TEXT, claimed_bytes INTEGER, walked_bytes INTEGER, bytes INTEGER, objects INTEGER,"
    " free_bytes INTEGER, cached_bytes INTEGER, overhead_bytes INTEGER,"
    " PRIMARY KEY(snapshot, position)) WITHOUT ROWID;",
    [12] =
    "ALTER TABLE hx_snapshot ADD COLUMN prepare_us INTEGER;"
    "ALTER TABLE hx_snapshot ADD COLUMN held_us INTEGER;",
};
/* clang-format on */

const char *hx_schema_step(int version)
{
    return steps[version];
}
