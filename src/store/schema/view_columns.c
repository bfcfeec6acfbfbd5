/* view_columns.c - the columns of the views, for conditions that are parsed before there are rows.
 *
 * A column of numbers has numbers (or NULL) in every row, one of texts texts; those that are not
 * measured yet are listed as what they will be. */
#include "store/query.h"

#include <string.h>

enum { FIRST = __COUNTER__ + 1 };
#define N(view, name) {#view, #name, HX_FILTER_NUMBER, __COUNTER__ - FIRST},
#define T(view, name) {#view, #name, HX_FILTER_TEXT, __COUNTER__ - FIRST},
#define A(view, name) {#view, #name, HX_FILTER_ANY, __COUNTER__ - FIRST},

/* clang-format off */
static const struct hx_filter_column columns[] = {
    N(snapshots, snapshot) T(snapshots, taken_at) N(snapshots, pid) T(snapshots, comm)
    T(snapshots, exe) N(snapshots, pause_us) T(snapshots, method) T(snapshots, allocator)
    N(snapshots, heap_bytes) N(snapshots, heap_objects) N(snapshots, reachable_bytes)
    N(snapshots, reachable_objects) N(snapshots, leaked_bytes) N(snapshots, leaked_objects)
    N(snapshots, free_bytes) N(snapshots, overhead_bytes) N(snapshots, rss_bytes)
    T(snapshots, scheme) N(snapshots, complete) T(snapshots, notes) N(snapshots, stray_edges)
    N(snapshots, doubt_bytes) T(snapshots, analysed) N(snapshots, typed_bytes)
    N(snapshots, prepare_us) N(snapshots, held_us)

    N(account, snapshot) T(account, part) N(account, bytes)

    N(censuses, snapshot) T(censuses, scheme) N(censuses, max_set) N(censuses, holders)
    T(censuses, threads_as) N(censuses, visits_per_object) N(censuses, total_bytes)
    N(censuses, sets)

    N(retainers, snapshot) N(retainers, set_id) N(retainers, members) N(retainers, many)
    T(retainers, label) N(retainers, bytes) N(retainers, objects)

    N(retainer_members, set_id) N(retainer_members, position) T(retainer_members, kind)
    T(retainer_members, label) T(retainer_members, module) T(retainer_members, symbol)

    N(retainer_entries, snapshot) N(retainer_entries, set_id) N(retainer_entries, position)
    N(retainer_entries, entries) N(retainer_entries, alike) N(retainer_entries, doubt)

    N(holders, snapshot) T(holders, holder) T(holders, kind) T(holders, module) T(holders, symbol)
    N(holders, bytes) N(holders, objects) N(holders, alone_bytes) N(holders, contested_bytes)
    N(holders, entries)

    N(bins, snapshot) T(bins, roots) N(bins, bytes) N(bins, objects)

    N(roots, snapshot) N(roots, root_id) T(roots, kind) T(roots, name) T(roots, module)
    N(roots, address) N(roots, size) N(roots, direct_objects) N(roots, retained_bytes)
    T(roots, symbol)

    N(types, snapshot) T(types, type) T(types, confidence) N(types, bytes) N(types, objects)
    N(types, retained_bytes) T(types, symbol) T(types, source)

    N(shapes, snapshot) T(shapes, shape) N(shapes, bytes) N(shapes, objects)

    N(leaks, snapshot) T(leaks, kind) T(leaks, type) T(leaks, site) N(leaks, bytes)
    N(leaks, objects)

    N(sites, snapshot) N(sites, ccs_id) N(sites, bytes) N(sites, objects)
    N(sites, retained_bytes)

    N(biography, snapshot) T(biography, phase) N(biography, bytes) N(biography, objects)

    N(modules, snapshot) T(modules, module) N(modules, bytes) N(modules, objects)

    N(ccs, ccs_id) N(ccs, parent_id) N(ccs, depth) T(ccs, label) T(ccs, module) T(ccs, source)
    N(ccs, is_caf) T(ccs, symbol)

    N(costs, snapshot) N(costs, ccs_id) N(costs, entries) N(costs, alloc_bytes)
    N(costs, alloc_objects) N(costs, freed_bytes) N(costs, freed_objects) N(costs, live_bytes)
    N(costs, live_objects) N(costs, inherited_alloc_bytes) N(costs, inherited_alloc_objects)
    N(costs, inherited_live_bytes) N(costs, inherited_live_objects)

    N(estimates, snapshot) N(estimates, ccs_id) N(estimates, alloc_bytes)
    N(estimates, alloc_error_bytes) N(estimates, live_bytes) N(estimates, live_error_bytes)

    N(frames, frame_id) N(frames, parent_id) N(frames, depth) T(frames, label) T(frames, module)
    T(frames, source)

    N(threads, snapshot) N(threads, tid) T(threads, name) N(threads, stack_id) N(threads, ccs_id)
    T(threads, stack)

    N(stacks, snapshot) N(stacks, stack_id) N(stacks, ccs_id) N(stacks, alloc_bytes)
    N(stacks, alloc_objects) N(stacks, freed_bytes) N(stacks, freed_objects) N(stacks, live_bytes) N(stacks, live_objects)
    N(stacks, bytes) N(stacks, objects) T(stacks, site)

    N(mprof_leaks, snapshot) N(mprof_leaks, kept_bytes) N(mprof_leaks, kept_percent)
    N(mprof_leaks, allocs) N(mprof_leaks, alloc_bytes) N(mprof_leaks, alloc_percent)
    N(mprof_leaks, frees) N(mprof_leaks, free_bytes) N(mprof_leaks, free_percent)
    T(mprof_leaks, path) N(mprof_leaks, cut)

    N(mprof_held, snapshot) T(mprof_held, path) N(mprof_held, cut) N(mprof_held, reachable_bytes)
    N(mprof_held, possible_bytes) N(mprof_held, lost_bytes) N(mprof_held, objects)
    T(mprof_held, holder) N(mprof_held, holder_bytes)

    N(mprof_bins, snapshot) A(mprof_bins, size) N(mprof_bins, allocs) N(mprof_bins, bytes)
    N(mprof_bins, bytes_percent) N(mprof_bins, frees) N(mprof_bins, kept_bytes)
    N(mprof_bins, kept_percent) T(mprof_bins, types)

    N(mprof_direct, snapshot) N(mprof_direct, percent) N(mprof_direct, bytes) N(mprof_direct, s)
    N(mprof_direct, m) N(mprof_direct, l) N(mprof_direct, x) N(mprof_direct, kept_bytes)
    N(mprof_direct, kept_s) N(mprof_direct, kept_m) N(mprof_direct, kept_l)
    N(mprof_direct, kept_x) N(mprof_direct, calls) T(mprof_direct, name)

    N(mprof_graph, snapshot) N(mprof_graph, entry) T(mprof_graph, line) T(mprof_graph, name)
    N(mprof_graph, name_entry) N(mprof_graph, self_desc_percent) N(mprof_graph, bytes)
    N(mprof_graph, bytes_percent) N(mprof_graph, size_s) N(mprof_graph, size_m)
    N(mprof_graph, size_l) N(mprof_graph, size_x) N(mprof_graph, frac_s) N(mprof_graph, frac_m)
    N(mprof_graph, frac_l) N(mprof_graph, frac_x) N(mprof_graph, called) N(mprof_graph, total)
    N(mprof_graph, recursive) N(mprof_graph, cycle)

    N(pages, snapshot) T(pages, census) A(pages, key) N(pages, only_pages)
    N(pages, shared_pages)

    N(dominators, snapshot) N(dominators, address) T(dominators, type) N(dominators, bytes)
    N(dominators, retained_bytes) N(dominators, retained_objects)
    N(dominators, sure_retained_bytes) N(dominators, sure_retained_objects)
    N(dominators, parent)

    N(tree, snapshot) N(tree, node) N(tree, parent) N(tree, depth) T(tree, label) N(tree, bytes)
    N(tree, objects) N(tree, retained_bytes)

    N(holder_tree, snapshot) N(holder_tree, node) N(holder_tree, parent) N(holder_tree, depth)
    T(holder_tree, label) N(holder_tree, bytes) N(holder_tree, objects)
    N(holder_tree, retained_bytes)

    N(allocators, snapshot) T(allocators, allocator) T(allocators, version)
    T(allocators, evidence) N(allocators, coverage) N(allocators, bytes) N(allocators, objects)
    N(allocators, free_bytes) N(allocators, cached_bytes) N(allocators, overhead_bytes)

    N(losses, snapshot) T(losses, what) N(losses, count) N(losses, bytes) N(losses, address)

    N(objects, snapshot) N(objects, address) N(objects, bytes) N(objects, requested)
    T(objects, type) T(objects, shape) N(objects, round) T(objects, holder) T(objects, state)
    N(objects, set_id) T(objects, bin) N(objects, ccs_id)
    N(objects, dominator) N(objects, retained_bytes) N(objects, retained_objects)
    N(objects, sure_retained_bytes) N(objects, sure_retained_objects) N(objects, edges_in)
    N(objects, edges_out) T(objects, confidence) T(objects, source)

    N(edges, snapshot) N(edges, source) N(edges, target) N(edges, offset) T(edges, kind)
    N(edges, rank) T(edges, rule)

    N(root_edges, snapshot) N(root_edges, root_id) N(root_edges, address) N(root_edges, target)
    T(root_edges, kind) N(root_edges, rank) T(root_edges, rule)
};
/* clang-format on */

bool hx_view_schema(const char *view, struct hx_filter_schema *ret)
{
    const size_t n = sizeof columns / sizeof *columns;
    *ret = (struct hx_filter_schema){.columns = columns, .n = n, .row = "snapshots"};
    if (!view)
        return true;
    size_t first = 0, end;
    while (first < n && strcmp(columns[first].view, view) != 0)
        first++;
    for (end = first; end < n && strcmp(columns[end].view, view) == 0;)
        end++;
    *ret = (struct hx_filter_schema){.columns = columns + first, .n = end - first, .row = view};
    return end > first;
}
