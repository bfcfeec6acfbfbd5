/* tables.h - the private tables of the store, each written down here and nowhere else.
 *
 * Whoever includes it says before what TABLE, END and the columns INTEGER, REAL, TEXT, NAME and
 * BLOB stand for; row.h makes structs of it, row.c the descriptions that statements are made from.
 * A NAME is a TEXT that is cut where it is longer than names may be (base/text.h). Behind a column
 * stands its constraint in SQL, in TABLE what lies over it (enum hx_overlaid), in END what follows
 * the columns (struct hx_table_info): with a primary key there the table is one WITHOUT ROWID.
 *
 * A new column is the last of its table, and comes into the files that are there by a new step
 * (steps.c); the order and the spelling are those of the files. */
/* clang-format off */

TABLE(snapshot, HX_OVERLAID | HX_SUPPRESSED)
    INTEGER(snapshot, PRIMARY KEY) INTEGER(taken_at_ns, NOT NULL) TEXT(taken_at, NOT NULL)
    INTEGER(pid) NAME(comm) NAME(exe) INTEGER(pause_us) NAME(method) NAME(allocator)
    INTEGER(heap_bytes) INTEGER(heap_objects) INTEGER(reachable_bytes) INTEGER(reachable_objects)
    INTEGER(leaked_bytes) INTEGER(leaked_objects) INTEGER(free_bytes) INTEGER(overhead_bytes)
    INTEGER(rss_bytes) NAME(scheme)
    INTEGER(interior, NOT NULL)        /* enum hx_interior */
    INTEGER(complete, NOT NULL) TEXT(notes)
    INTEGER(parts, NOT NULL DEFAULT 0) /* enum hx_analysis_part: done */
    INTEGER(started_at_ns)             /* of the process; NULL: not known */
    INTEGER(stray_edges) INTEGER(doubt_bytes)
    INTEGER(typed_bytes) /* of objects with a type */
    INTEGER(prepare_us) INTEGER(held_us) /* of pre-copy */
END()
TABLE(account, 0)
    INTEGER(snapshot) INTEGER(position) NAME(part) INTEGER(bytes)
END(.primary_key = "snapshot, position")
TABLE(root, HX_OVERLAID)
    INTEGER(snapshot) INTEGER(root_id) INTEGER(kind) NAME(kind_name) NAME(name) NAME(module)
    INTEGER(address) INTEGER(size) INTEGER(direct_objects) INTEGER(value) INTEGER(tid)
    INTEGER(retained_bytes) INTEGER(retained_objects)
    NAME(symbol) /* the linker's name of what `name` calls; NULL: it has none, or several */
    NAME(near)   /* of one without a name: "stdin+0x60"; a hint that nothing depends on */
    INTEGER(layout)    /* of the variable in it that has a type; NULL: none */
    INTEGER(layout_at) /* where that begins, in bytes */
END(.primary_key = "snapshot, root_id")
TABLE(bare, 0) /* modules whose variables have no names */
    INTEGER(snapshot) NAME(module) NAME(path) NAME(build_id)
END(.primary_key = "snapshot, module")
TABLE(loaded, 0) /* files with code, and how far from their p_vaddr */
    INTEGER(snapshot) INTEGER(number) NAME(path) NAME(build_id) INTEGER(bias)
END(.primary_key = "snapshot, number")
TABLE(stopped_frame, 0) /* registers: where they are saved; 1: nowhere yet; 0: unknown */
    INTEGER(snapshot) INTEGER(tid) INTEGER(position) INTEGER(file) INTEGER(vaddr) INTEGER(sp)
    INTEGER(cfa) INTEGER(fp) INTEGER(rbx) INTEGER(rbp) INTEGER(r12) INTEGER(r13) INTEGER(r14)
    INTEGER(r15)
END(.primary_key = "snapshot, tid, position")
TABLE(tls_block, 0) /* of a file whose variables have no names */
    INTEGER(snapshot) INTEGER(start) INTEGER(bytes) INTEGER(file) INTEGER(tid)
END(.primary_key = "snapshot, start")
TABLE(allocator, 0) /* one that has a part of the heap */
    INTEGER(snapshot) INTEGER(position) NAME(name) NAME(version) TEXT(evidence)
    INTEGER(claimed_bytes) INTEGER(walked_bytes) INTEGER(bytes) INTEGER(objects)
    INTEGER(free_bytes) INTEGER(cached_bytes) INTEGER(overhead_bytes)
END(.primary_key = "snapshot, position")
TABLE(leak, HX_SUPPRESSED)
    INTEGER(snapshot) NAME(kind) NAME(type) NAME(site) INTEGER(bytes) INTEGER(objects)
    INTEGER(stack_id)
END(.index = "hx_leak_snapshot ON hx_leak(snapshot)")
TABLE(loss, 0)
    INTEGER(snapshot) NAME(what) INTEGER(count) INTEGER(bytes) INTEGER(address)
END(.index = "hx_loss_snapshot ON hx_loss(snapshot)")
TABLE(block, HX_OVERLAID | HX_JOINED) /* keys: enum hx_family */
    INTEGER(id, PRIMARY KEY) INTEGER(snapshot) INTEGER(family) INTEGER(first_row) INTEGER(n)
    INTEGER(first_key) INTEGER(last_key) INTEGER(bytes)
END(.index = "hx_block_place ON hx_block(snapshot, family, first_row)", .index_is_unique = true)
TABLE(column, HX_OVERLAID | HX_JOINED) /* enum hx_column_id */
    INTEGER(id, PRIMARY KEY) BLOB(data) /* or a number in hx_pack */
END(.conflict = "REPLACE")
TABLE(pack, 0) /* columns that several may have; a row never changes */
    INTEGER(pack, PRIMARY KEY) BLOB(data)
END()
TABLE(alike, HX_OVERLAID) /* has no rows of its own in a part, but the same as another has */
    INTEGER(snapshot) NAME(part) INTEGER(whose)
END(.primary_key = "snapshot, part")

/* what an analysis finds */
TABLE(type, HX_OVERLAID) /* type 0: of those that are not known */
    INTEGER(snapshot) INTEGER(type) NAME(name) NAME(confidence) INTEGER(bytes) INTEGER(objects)
    INTEGER(retained_bytes) INTEGER(retained_objects) NAME(symbol)
    NAME(source)    /* what said so of its objects, joined by '+' */
    INTEGER(layout) /* NULL: its fields are not known */
END(.primary_key = "snapshot, type")
TABLE(layout, 0) /* repeats: an array of elements of so many bytes; 2: with no numbers */
    INTEGER(snapshot) INTEGER(layout) INTEGER(size) INTEGER(repeats)
END(.primary_key = "snapshot, layout")
TABLE(field, 0) /* that words which point to objects lie in */
    INTEGER(snapshot) INTEGER(layout) INTEGER(offset) NAME(name)
    NAME(target) /* the type that it says what it points to has; NULL: it says nothing */
END(.primary_key = "snapshot, layout, offset")
TABLE(named, HX_OVERLAID)
    INTEGER(snapshot) INTEGER(position) NAME(name) NAME(expr) INTEGER(root_id)
END(.primary_key = "snapshot, position")
TABLE(bin, HX_OVERLAID)
    INTEGER(snapshot) INTEGER(bin) TEXT(roots) INTEGER(bytes) INTEGER(objects)
END(.primary_key = "snapshot, bin")
TABLE(retainer, HX_OVERLAID) /* its number is the next one */
    INTEGER(retainer, PRIMARY KEY) NAME(space) NAME(label) NAME(kind) NAME(module) NAME(symbol)
END(.unique = "space, label")
TABLE(set, HX_OVERLAID)
    INTEGER(set_id, PRIMARY KEY) INTEGER(key) INTEGER(members)
END(.index = "hx_set_key ON hx_set(key)")
TABLE(set_member, HX_OVERLAID)
    INTEGER(set_id) INTEGER(position) INTEGER(retainer)
END(.primary_key = "set_id, position", .conflict = "REPLACE")
TABLE(retention, HX_OVERLAID)
    INTEGER(snapshot) INTEGER(set_id) INTEGER(bytes) INTEGER(objects)
END(.primary_key = "snapshot, set_id", .index = "hx_retention_set ON hx_retention(set_id)")
TABLE(census, HX_OVERLAID)
    INTEGER(snapshot, PRIMARY KEY) NAME(scheme) INTEGER(max_set) TEXT(patterns)
    REAL(visits_per_object) INTEGER(total_bytes) INTEGER(sets)
    INTEGER(holders) NAME(threads_as)
    TEXT(rules) /* that were switched off: "-few,-target"; NULL: none */
END()
TABLE(entry, HX_OVERLAID) /* by how many edges a member comes into its set, alike of them */
    INTEGER(snapshot) INTEGER(set_id) INTEGER(position) INTEGER(entries) INTEGER(alike)
    INTEGER(doubt)
END(.primary_key = "snapshot, set_id, position")
TABLE(holding, HX_OVERLAID) /* holder 0: of what is lost, 1: `(mixed)` */
    INTEGER(snapshot) INTEGER(holder) NAME(name) NAME(kind) NAME(module) NAME(symbol)
    INTEGER(bytes) INTEGER(objects) INTEGER(alone_bytes) INTEGER(contested_bytes) INTEGER(entries)
    INTEGER(retainer) /* who it is in sets; NULL: in none */
END(.primary_key = "snapshot, holder")
TABLE(contest, HX_OVERLAID) /* what a holder holds and another one reaches as well */
    INTEGER(snapshot) INTEGER(holder) INTEGER(other) INTEGER(bytes) INTEGER(objects)
END(.primary_key = "snapshot, holder, other")
TABLE(shape, 0) /* shape 0: of those that are not known */
    INTEGER(snapshot) INTEGER(shape) NAME(label) INTEGER(bytes) INTEGER(objects)
END(.primary_key = "snapshot, shape")
TABLE(tree, HX_OVERLAID) /* kind: dominator, holder */
    INTEGER(snapshot) NAME(kind) INTEGER(node) INTEGER(parent) INTEGER(depth) TEXT(label)
    INTEGER(bytes) INTEGER(objects) INTEGER(retained_bytes)
END(.primary_key = "snapshot, kind, node")
TABLE(dominator, HX_OVERLAID)
    INTEGER(snapshot) INTEGER(position) INTEGER(address) NAME(type) INTEGER(bytes)
    INTEGER(retained_bytes) INTEGER(retained_objects) INTEGER(sure_retained_bytes)
    INTEGER(sure_retained_objects) INTEGER(parent)
END(.primary_key = "snapshot, position")
TABLE(page, HX_OVERLAID | HX_PAGES) /* key: a set_id, a bin, a type, as the census says */
    INTEGER(snapshot) NAME(census) INTEGER(key) INTEGER(only_pages) INTEGER(shared_pages)
END(.primary_key = "snapshot, census, key")

/* what was recorded: by whole stacks, whose number is that of their innermost frame */
TABLE(file, 0) /* that code ran from */
    INTEGER(file, PRIMARY KEY) TEXT(path) TEXT(name) TEXT(build_id)
END()
TABLE(place, 0) /* a function at a place in code; file 0: none; inlined -1: built in */
    INTEGER(place, PRIMARY KEY) INTEGER(file) INTEGER(vaddr) INTEGER(inlined) TEXT(label)
    TEXT(module) TEXT(source) INTEGER(is_caf)
    INTEGER(kind)        /* enum hx_frame_kind; NULL: of schema 3 */
    INTEGER(centre)      /* NULL: none */
    INTEGER(target)      /* the frame that was entered; NULL: unknown */
    INTEGER(initialiser) /* enum hx_rec_initialiser */
    INTEGER(entry)       /* vaddr of its function; NULL: unknown */
END()
TABLE(frame, 0)
    INTEGER(frame_id, PRIMARY KEY) INTEGER(parent_id) INTEGER(depth) INTEGER(place)
END(.quoted = true)
TABLE(stack, 0) /* frames that are whole stacks; site: the shorter label */
    INTEGER(stack_id, PRIMARY KEY) NAME(label) NAME(site) NAME(module) INTEGER(identity)
    INTEGER(origin) /* the frame that asked for the memory */
END(.conflict = "IGNORE")
TABLE(recording, 0)
    INTEGER(snapshot, PRIMARY KEY) NAME(method) INTEGER(from_start) INTEGER(upper_bounds)
    INTEGER(sample_bytes) INTEGER(began_ns) INTEGER(frozen_ns) INTEGER(events)
    INTEGER(unmatched_frees)
END()
TABLE(stack_cost, 0) /* _s to _x: mprof's classes, by size of the request; NULL: not known */
    INTEGER(snapshot) INTEGER(stack_id) INTEGER(entries) INTEGER(alloc_bytes)
    INTEGER(alloc_objects) INTEGER(freed_bytes) INTEGER(freed_objects) INTEGER(live_bytes)
    INTEGER(live_objects) INTEGER(alloc_s) INTEGER(alloc_m) INTEGER(alloc_l) INTEGER(alloc_x)
    INTEGER(freed_s) INTEGER(freed_m) INTEGER(freed_l) INTEGER(freed_x) REAL(alloc_variance)
    REAL(live_variance)
END(.primary_key = "snapshot, stack_id")
TABLE(stack_site, 0)
    INTEGER(snapshot) INTEGER(stack_id) INTEGER(bytes) INTEGER(objects)
END(.primary_key = "snapshot, stack_id")
TABLE(centre, 0) /* identity: the same in every store */
    INTEGER(centre, PRIMARY KEY) NAME(kind) TEXT(label) TEXT(module) TEXT(source) INTEGER(is_caf)
    INTEGER(file) INTEGER(identity) TEXT(symbol)
END()
TABLE(thread, 0)
    INTEGER(snapshot) INTEGER(tid) NAME(name) INTEGER(stack_id)
END(.primary_key = "snapshot, tid", .conflict = "REPLACE")
TABLE(size, 0) /* size -1: larger ones that found no room */
    INTEGER(snapshot) INTEGER(size) INTEGER(alloc_objects) INTEGER(alloc_bytes)
    INTEGER(freed_objects) INTEGER(freed_bytes)
END(.primary_key = "snapshot, size", .conflict = "REPLACE")
TABLE(size_type, 0)
    INTEGER(snapshot) INTEGER(size) NAME(name)
END(.primary_key = "snapshot, size, name", .conflict = "IGNORE")
TABLE(biography, 0) /* phase: lag, use, drag, void, inherent */
    INTEGER(snapshot) NAME(phase) INTEGER(bytes) INTEGER(objects)
END(.primary_key = "snapshot, phase")
TABLE(module, 0) /* of profiles that know modules and no stacks */
    INTEGER(snapshot) NAME(name) INTEGER(bytes) INTEGER(objects)
END(.primary_key = "snapshot, name")

/* what follows from it for a choice of cost centres; retained_* of sites and holders also from the
 * objects */
TABLE(ccs, HX_ATTRIBUTED | HX_IN_MEMORY)
    INTEGER(ccs_id, PRIMARY KEY) INTEGER(parent_id) INTEGER(depth) INTEGER(centre)
    INTEGER(identity) INTEGER(recursive) /* NULL: not known */
END(.index = "hx_ccs_centre ON hx_ccs(parent_id, centre)", .index_is_unique = true)
TABLE(attributed, HX_ATTRIBUTED)
    INTEGER(stack_id, PRIMARY KEY) INTEGER(ccs_id)
END(.index = "hx_attributed_ccs ON hx_attributed(ccs_id)", .conflict = "IGNORE")
TABLE(cost, HX_ATTRIBUTED | HX_IN_MEMORY)
    INTEGER(snapshot) INTEGER(ccs_id) INTEGER(entries) INTEGER(alloc_bytes) INTEGER(alloc_objects)
    INTEGER(freed_bytes) INTEGER(freed_objects) INTEGER(live_bytes) INTEGER(live_objects)
    INTEGER(inherited_alloc_bytes) INTEGER(inherited_alloc_objects) INTEGER(inherited_live_bytes)
    INTEGER(inherited_live_objects)
END(.primary_key = "snapshot, ccs_id")
TABLE(estimate, HX_ATTRIBUTED | HX_IN_MEMORY)
    INTEGER(snapshot) INTEGER(ccs_id) INTEGER(alloc_error_bytes) INTEGER(live_error_bytes)
END(.primary_key = "snapshot, ccs_id")
TABLE(site, HX_OVERLAID | HX_ATTRIBUTED)
    INTEGER(snapshot) INTEGER(ccs_id) INTEGER(bytes) INTEGER(objects) INTEGER(retained_bytes)
    INTEGER(retained_objects)
END(.primary_key = "snapshot, ccs_id")
TABLE(holder, HX_OVERLAID) /* the largest sets that hold a stack's objects; set_id NULL: the rest */
    INTEGER(snapshot) INTEGER(stack_id) NAME(state) INTEGER(set_id) INTEGER(bytes) INTEGER(objects)
END(.index = "hx_holder_stack ON hx_holder(snapshot, stack_id)")

/* mprof's: s, m, l, x and ks to kx are bytes by size class and those of them that were kept */
TABLE(mprof, HX_ATTRIBUTED) /* totals; chain_: of the chains in hx_chain_cost */
    INTEGER(snapshot, PRIMARY KEY) INTEGER(allocs) INTEGER(bytes) INTEGER(s) INTEGER(m) INTEGER(l)
    INTEGER(x) INTEGER(frees) INTEGER(freed_bytes) INTEGER(kept_bytes) INTEGER(ks) INTEGER(km)
    INTEGER(kl) INTEGER(kx) INTEGER(chain_bytes) INTEGER(chain_freed_bytes)
END()
TABLE(chain, HX_ATTRIBUTED)
    INTEGER(chain, PRIMARY KEY) TEXT(path) INTEGER(cut)
END()
TABLE(stack_chain, HX_ATTRIBUTED)
    INTEGER(stack_id, PRIMARY KEY) INTEGER(chain)
END()
TABLE(chain_cost, HX_ATTRIBUTED) /* of chains that kept something */
    INTEGER(snapshot) INTEGER(chain) INTEGER(allocs) INTEGER(bytes) INTEGER(frees)
    INTEGER(freed_bytes) INTEGER(kept_bytes)
END(.primary_key = "snapshot, chain")
/* made: calls that it made to others; up_ and down_bytes: of all its ancestors and descendants
 * outside of its cycle */
TABLE(function, HX_ATTRIBUTED)
    INTEGER(snapshot) INTEGER(centre) INTEGER(entry) INTEGER(cycle) INTEGER(allocs) INTEGER(bytes)
    INTEGER(s) INTEGER(m) INTEGER(l) INTEGER(x) INTEGER(kept_bytes) INTEGER(ks) INTEGER(km)
    INTEGER(kl) INTEGER(kx) INTEGER(total_bytes) INTEGER(calls) INTEGER(recursive) INTEGER(made)
    INTEGER(up_bytes) INTEGER(down_bytes)
END(.primary_key = "snapshot, centre")
TABLE(call, HX_ATTRIBUTED) /* from one function to another */
    INTEGER(snapshot) INTEGER(caller) INTEGER(callee) INTEGER(calls) INTEGER(s) INTEGER(m)
    INTEGER(l) INTEGER(x)
END(.primary_key = "snapshot, caller, callee")
TABLE(cycle, HX_ATTRIBUTED) /* functions that call each other; internal: calls between them */
    INTEGER(snapshot) INTEGER(cycle) INTEGER(entry) INTEGER(bytes) INTEGER(s) INTEGER(m)
    INTEGER(l) INTEGER(x) INTEGER(total_bytes) INTEGER(calls) INTEGER(internal) INTEGER(up_bytes)
    INTEGER(down_bytes)
END(.primary_key = "snapshot, cycle")

#undef TABLE
#undef INTEGER
#undef REAL
#undef TEXT
#undef NAME
#undef BLOB
#undef END
