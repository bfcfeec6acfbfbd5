#!/usr/bin/env -S python3 -B
"""attributed.py - cost-centre stacks and mprof's tables, once more, out of the raw stacks.

Records real programs, then works everything that is derived from frames and from what each stack
cost out again, by lists of names and plain searches: cost-centre stacks, their costs with what they
inherit, sites, call chains, and the call graph of allocations. Figures have to be the same, for
every snapshot, and for other choices of cost centres.
"""
import collections
import json
import os
import re
import sqlite3
import subprocess

import live
import recorded
from live import check, heapx
from programs import make_repository, need
from stacks import victim_argv

CODE, REGION, DEFERRED, BUILTIN = range(4)  # hx_place.kind
INITIALISES, CALLS_INITIALISER = 1, 2       # hx_place.initialiser
RUNTIME = re.compile(r"libc\.so|libc-2\.|libpthread|libstdc\+\+\.so|libgcc_s|libc\+\+|ld-linux|ld-musl")
CLASSES = "smlx"
OWN = ("alloc_bytes", "alloc_objects", "freed_bytes", "freed_objects", "live_bytes", "live_objects")
INHERITED = ("alloc_bytes", "alloc_objects", "live_bytes", "live_objects")


class Raw:
    """What a store holds of stacks before anything is derived."""

    def __init__(self, path):
        self.path = path
        self.db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        self.db.row_factory = sqlite3.Row
        self.centres = {r["centre"]: r for r in self.rows("select * from hx_centre")}
        self.places = {r["place"]: r for r in self.rows("select * from hx_place")}
        self.frames = {r["frame_id"]: r for r in
                       self.rows("select * from hx_frame order by frame_id")}
        self.stacks = {r["stack_id"]: r for r in self.rows("select * from hx_stack")}
        self.snapshots = [r[0] for r in self.rows("select snapshot from snapshots order by 1")]
        self.caf_of = {r["file"]: r["centre"] for r in self.centres.values() if r["kind"] == "caf"}
        self.main = next(f for f, r in self.frames.items() if r["parent_id"] is None)

    def rows(self, sql, *values):
        return self.db.execute(sql, values).fetchall()

    def place(self, frame):
        return self.places[self.frames[frame]["place"]]

    def parent(self, frame):
        return self.frames[frame]["parent_id"]

    def costs(self, snapshot):
        return {r["stack_id"]: r for r in
                self.rows("select * from hx_stack_cost where snapshot = ?", snapshot)}

    def caf(self, frame):
        """The CAF of the module that is initialised from this frame on, or None."""
        place = self.place(frame)
        if place["kind"] != CODE:
            return None
        if place["initialiser"] != INITIALISES:
            if RUNTIME.match(place["module"] or ""):
                return None
            above = self.parent(frame)
            while above != self.main:
                outer = self.place(above)
                if outer["initialiser"] == CALLS_INITIALISER:
                    break
                if outer["kind"] != REGION and not (outer["kind"] == CODE and
                                                    RUNTIME.match(outer["module"] or "")):
                    return None
                above = self.parent(above)
            else:
                return None
        return self.caf_of[place["file"]]

    def before(self, frame):
        """Whose stack a frame goes on from."""
        place = self.place(frame)
        if place["kind"] == DEFERRED and place["target"] is not None:
            return place["target"]
        return self.parent(frame)


def choice(raw, patterns):
    """Centres that are chosen: patterns are of functions alone here."""
    wanted = [re.compile(p) for p in patterns if not p.startswith("!")]
    unwanted = [re.compile(p[1:]) for p in patterns if p.startswith("!")]
    return {c for c, r in raw.centres.items() if r["kind"] != "function" or
            ((not wanted or any(p.search(r["label"]) for p in wanted)) and
             not any(p.search(r["label"]) for p in unwanted))}


def push(stack, centre, whole):
    if whole:
        return stack if stack[-1] == centre else stack + (centre,)
    return stack[:stack.index(centre) + 1] if centre in stack else stack + (centre,)


def reckon_stacks(raw, chosen=None, whole=False):
    """{frame: the cost-centre stack that it belongs to, as a tuple of centres}"""
    top = (raw.place(raw.main)["centre"],)
    found = {raw.main: top}
    for frame in raw.frames:
        if frame == raw.main:
            continue
        place = raw.place(frame)
        if place["kind"] == BUILTIN:
            found[frame] = top + (place["centre"],)
            continue
        stack, caf = found[raw.before(frame)], raw.caf(frame)
        if caf is not None:
            stack = top + (caf,)
        if place["kind"] != DEFERRED and place["centre"] is not None and \
                (chosen is None or place["centre"] in chosen):
            stack = push(stack, place["centre"], whole)
        found[frame] = stack
    return found


def add(to, more):
    """What is not known makes the sum unknown; what a stack inherits is what is known of it."""
    for k in more:
        to[k] = None if to[k] is None or more[k] is None else to[k] + more[k]


def reckon_costs(raw, stacks, costs, name=lambda centre: centre):
    """{stack: own figures}, {stack: with what those above it asked for}, {stack: entries}; stacks
    consist of names of centres."""
    own = collections.defaultdict(lambda: dict.fromkeys(OWN, 0))
    inherited = collections.defaultdict(lambda: dict.fromkeys(INHERITED, 0))
    entries = collections.Counter()
    for stack_id, row in costs.items():
        stack, place = stacks[stack_id], raw.place(stack_id)
        add(own[stack], {k: row[k] for k in OWN})
        if row["entries"] is not None and place["kind"] == REGION and \
                stack[-1] == name(place["centre"]):
            entries[stack] += row["entries"]
    for stack, figures in own.items():
        for depth in range(1, len(stack) + 1):
            add(inherited[stack[:depth]], {k: figures[k] or 0 for k in INHERITED})
    return own, inherited, entries


def compare_costs(name, want, nodes, table):
    """nodes: {ccs_id: stack}; table: rows of the view costs, of one snapshot."""
    own, inherited, entries = want
    seen = set()
    nothing = dict.fromkeys(OWN, 0)
    for row in table:
        stack = nodes[row["ccs_id"]]
        seen.add(stack)
        mine, heir = own.get(stack, nothing), inherited.get(stack, nothing)
        wrong = [k for k in OWN if row[k] != mine[k] and row[k] is not None]
        wrong += ["inherited_" + k for k in INHERITED if row["inherited_" + k] != heir[k] and
                  not (row["inherited_" + k] is None and mine[k] is None)]
        wrong += ["entries"] if (row["entries"] or 0) != entries[stack] else []
        if wrong:
            raise live.Failure(f"{name}: {wrong} of {stack}: {dict(row)}, not {mine}, {heir}")
    check(not set(inherited) - seen, f"{name}: without costs: {list(set(inherited) - seen)[:3]}")
    for k in OWN:
        check(sum(r[k] or 0 for r in table) == sum(o[k] or 0 for o in own.values()),
              f"{name}: {k} do not sum to what was recorded")


def nodes_of(rows, centre):
    """{ccs_id: stack} of rows that begin with the outermost; centre(row) is its centre."""
    found = {}
    for row in rows:
        above = found[row["parent_id"]] if row["parent_id"] is not None else ()
        found[row["ccs_id"]] = above + (centre(row),)
    check(len(set(found.values())) == len(found), "two rows of ccs are the same stack")
    return found


def costs_test(raw):
    stacks = reckon_stacks(raw)
    nodes = nodes_of(raw.rows("select * from hx_ccs order by ccs_id"), lambda r: r["centre"])
    for row in raw.rows("select stack_id, ccs_id from hx_attributed"):
        check(nodes[row["ccs_id"]] == stacks[row["stack_id"]],
              f"stack {row['stack_id']} is {nodes[row['ccs_id']]}, not {stacks[row['stack_id']]}")
    for snapshot in raw.snapshots:
        costs = raw.costs(snapshot)
        check(costs, f"snapshot {snapshot} has no costs")
        table = raw.rows("select * from costs where snapshot = ?", snapshot)
        compare_costs(f"snapshot {snapshot}", reckon_costs(raw, stacks, costs), nodes, table)
        root = [r for r in table if len(nodes[r["ccs_id"]]) == 1]
        for k in INHERITED:
            check(root[0]["inherited_" + k] == sum(r[k] or 0 for r in table),
                  f"snapshot {snapshot}: {k} that MAIN inherits")
    return stacks


def sites_test(raw, stacks):
    nodes = nodes_of(raw.rows("select * from hx_ccs order by ccs_id"), lambda r: r["centre"])
    for snapshot in raw.snapshots:
        want = collections.Counter()
        for row in raw.rows("select * from hx_stack_site where snapshot = ?", snapshot):
            want[stacks[row["stack_id"]], "bytes"] += row["bytes"]
            want[stacks[row["stack_id"]], "objects"] += row["objects"]
        got = collections.Counter()
        for row in raw.rows("select * from sites where snapshot = ?", snapshot):
            got[nodes[row["ccs_id"]], "bytes"] += row["bytes"]
            got[nodes[row["ccs_id"]], "objects"] += row["objects"]
        check(want == got, f"snapshot {snapshot}: sites")
        objects = live.rows(raw.path, "select ccs_id, sum(bytes) as bytes, count(*) as objects from "
                                      f"objects where snapshot = {snapshot} group by ccs_id")
        by_object = {nodes[r["ccs_id"]]: (r["bytes"], r["objects"]) for r in objects}
        check(by_object == {s: (got[s, "bytes"], got[s, "objects"]) for s, _ in got},
              f"snapshot {snapshot}: objects by site")


# --- mprof's tables -------------------------------------------------------------------


class Callers:
    """Who called whom as mprof has it: nobody called the outermost main."""

    def __init__(self, raw):
        self.raw, self.above, self.below_main = raw, {}, {}
        for frame in raw.frames:
            self.above[frame], self.below_main[frame] = self.find(frame)

    def find(self, frame):
        raw, place = self.raw, self.raw.place(frame)
        if frame == raw.main or place["kind"] == BUILTIN or raw.caf(frame) is not None:
            outer = raw.main
        else:
            outer = raw.before(frame)
            while outer != raw.main and raw.place(outer)["kind"] == DEFERRED:
                outer = raw.before(outer) if raw.caf(outer) is None else raw.main
        below = self.below_main.get(outer, False)
        is_main = place["kind"] == CODE and raw.centres[place["centre"]]["label"] == "main"
        if is_main and not below:
            return raw.main, True
        return outer, below

    def chain(self, frame):
        """Frames from the innermost one on, without MAIN."""
        while frame != self.raw.main:
            yield frame
            frame = self.above[frame]

    def centre(self, frame):
        return self.raw.place(frame)["centre"]

    def label(self, frame):
        return self.raw.centres[self.centre(frame)]["label"]

    def origin(self, stack_id):
        frame = self.raw.stacks[stack_id]["origin"] or stack_id
        return self.above[frame] if self.raw.place(frame)["kind"] == DEFERRED else frame


def chain_of(raw, callers, frame, depth=5):
    chain = list(callers.chain(frame)) or [raw.main]
    last = raw.place(chain[-1])
    if raw.place(chain[0])["kind"] == BUILTIN or chain[0] == raw.main:
        cut = last["label"] in ("<cut>", "<unknown>")
        return callers.label(chain[0]), int(cut)
    functions = [f for f in chain if raw.place(f)["kind"] != BUILTIN]
    cut = len(functions) > depth or len(functions) != len(chain)
    return " > ".join(callers.label(f) for f in reversed(functions[:depth])), int(cut)


def mprof_test(raw):
    callers = Callers(raw)
    for snapshot in raw.snapshots:
        costs = {s: r for s, r in raw.costs(snapshot).items() if r["alloc_bytes"] is not None}
        leaks_test(raw, callers, snapshot, costs)
        direct_test(raw, callers, snapshot, costs)
        if all(r["alloc_s"] is not None for r in costs.values()):  # not of schema 3
            graph_test(raw, callers, snapshot, costs)
        bins_test(raw, snapshot, costs)


def leaks_test(raw, callers, snapshot, costs):
    want = collections.defaultdict(lambda: [0, 0, 0, 0])
    for stack_id, row in costs.items():
        sums = want[chain_of(raw, callers, callers.origin(stack_id))]
        for i, k in enumerate(("alloc_objects", "alloc_bytes", "freed_objects", "freed_bytes")):
            sums[i] += row[k]
    want = {k: v for k, v in want.items() if v[0] != v[2] or v[1] != v[3]}
    got = {(r["path"], r["cut"]): [r["allocs"], r["alloc_bytes"], r["frees"], r["free_bytes"]]
           for r in raw.rows("select * from mprof_leaks where snapshot = ?", snapshot)}
    check(got == want, f"snapshot {snapshot}: mprof_leaks: " +
          str([(k, got.get(k), want.get(k)) for k in set(got) | set(want)
               if got.get(k) != want.get(k)][:5]))


def direct_test(raw, callers, snapshot, costs):
    want = collections.defaultdict(lambda: [0, 0, 0])
    for stack_id, row in costs.items():
        sums = want[callers.centre(callers.origin(stack_id))]
        sums[0] += row["alloc_bytes"]
        sums[1] += row["alloc_objects"]
        sums[2] += max(0, row["alloc_bytes"] - row["freed_bytes"])
    table = raw.rows("select * from mprof_direct where snapshot = ?", snapshot)
    total = [r for r in table if r["name"] == "<TOTAL>"]
    check(len(total) == 1 and table[0]["name"] == "<TOTAL>", f"snapshot {snapshot}: <TOTAL>")
    rest = [r for r in table if r["name"] != "<TOTAL>"]
    got = sorted((r["name"], r["bytes"], r["calls"], r["kept_bytes"]) for r in rest)
    expected = sorted((raw.centres[c]["label"], *v) for c, v in want.items() if v[0])
    check(got == expected, f"snapshot {snapshot}: mprof_direct: "
          f"{sorted(set(got) ^ set(expected))[:6]}")
    for k in ("bytes", "kept_bytes"):
        check(sum(r[k] for r in rest) == total[0][k], f"snapshot {snapshot}: {k} to <TOTAL>")
    check(total[0]["bytes"] == sum(r["alloc_bytes"] for r in costs.values()), "<TOTAL> of bytes")
    check(sum(r["calls"] for r in rest) <= total[0]["calls"], "calls")  # of nothing: left out


def bins_test(raw, snapshot, costs):
    rows = raw.rows("select * from hx_size where snapshot = ?", snapshot)
    if not rows:
        return  # of schema 3
    # estimates are rounded, each for itself
    exact = not raw.rows("select sample_bytes from hx_recording where snapshot = ?", snapshot)[0][0]
    for k in ("alloc_bytes", "alloc_objects"):
        lack = sum(r[k] for r in rows) - sum(r[k] for r in costs.values())
        check(lack == 0 or (not exact and abs(lack) <= len(rows) + len(costs)),
              f"snapshot {snapshot}: {k} of sizes: {lack} more than was recorded")
    for r in raw.rows("select * from mprof_bins where snapshot = ?", snapshot):
        chosen = [s for s in rows if str(s["size"]) == str(r["size"]) or r["size"] == "<TOTAL>" or
                  (r["size"] == "> 1024" and not 0 <= s["size"] <= 1024)]
        check((r["allocs"], r["bytes"], r["frees"]) ==
              tuple(sum(s[k] for s in chosen)
                    for k in ("alloc_objects", "alloc_bytes", "freed_objects")),
              f"snapshot {snapshot}: bin {tuple(r)}")


def components(nodes, calls):
    """{node: a number that those have in common which call each other}"""
    def search(first, out):
        seen, stack = {first}, [first]
        while stack:
            for target in out[stack.pop()]:
                if target not in seen:
                    seen.add(target)
                    stack.append(target)
        return seen

    out, into = collections.defaultdict(set), collections.defaultdict(set)
    for a, b in calls:
        out[a].add(b)
        into[b].add(a)
    number = {}
    for node in nodes:
        if node not in number:
            for member in search(node, out) & search(node, into):
                number[member] = node
    return number


def graph_test(raw, callers, snapshot, costs):
    pairs, calls, recursive = (collections.Counter() for _ in range(3))
    direct, nodes, passed = collections.Counter(), set(), []
    for stack_id, row in costs.items():
        if not row["alloc_objects"]:
            continue
        chain = [callers.centre(f) for f in callers.chain(callers.origin(stack_id))]
        chain = chain or [callers.centre(raw.main)]
        passed.append((set(chain), row["alloc_bytes"]))
        direct[chain[0]] += row["alloc_bytes"]
        nodes |= set(chain)
        for callee, caller in zip(chain, chain[1:]):
            if caller == callee:
                recursive[callee] += row["alloc_objects"]
            else:
                pairs[caller, callee] += row["alloc_bytes"]
                calls[caller, callee] += row["alloc_objects"]
    cycle = components(nodes, pairs)
    members = collections.Counter(cycle.values())
    total = collections.Counter()
    for on, size in passed:
        for component in {cycle[c] for c in on}:
            total[component] += size

    stored = {(r["caller"], r["callee"]): r for r in
              raw.rows("select * from hx_call where snapshot = ?", snapshot)}
    check({k: r["calls"] for k, r in stored.items()} == dict(calls), f"snapshot {snapshot}: calls")
    for (a, b), r in stored.items():
        if cycle[a] != cycle[b]:
            check(sum(r[k] for k in CLASSES) == pairs[a, b], f"snapshot {snapshot}: pair {a}, {b}")
    functions = {r["centre"]: r for r in
                 raw.rows("select * from hx_function where snapshot = ?", snapshot)
                 if r["entry"] is not None}
    check(set(functions) == nodes, f"snapshot {snapshot}: functions {set(functions) ^ nodes}")
    for c, r in functions.items():
        check(r["total_bytes"] == total[cycle[c]], f"snapshot {snapshot}: total of {tuple(r)}")
        check(r["bytes"] == direct[c] and r["recursive"] == recursive[c] and
              r["calls"] == sum(n for (_, b), n in calls.items() if b == c),
              f"snapshot {snapshot}: function {tuple(r)}")
        check((r["cycle"] is not None) == (members[cycle[c]] > 1), f"cycle of {tuple(r)}")
        same = [d for d in functions if functions[d]["cycle"] == r["cycle"]]
        check(r["cycle"] is None or set(same) == {d for d in nodes if cycle[d] == cycle[c]},
              f"snapshot {snapshot}: members of cycle {r['cycle']}")
    view_test(raw, snapshot, functions, pairs, cycle)


def view_test(raw, snapshot, functions, pairs, cycle):
    table = raw.rows("select * from mprof_graph where snapshot = ?", snapshot)
    entries = [r["entry"] for r in table if r["line"] == "self"]
    check(sorted(entries) == list(range(len(entries))), f"snapshot {snapshot}: entries")
    by_entry = {r["entry"]: c for c, r in functions.items()}
    for r in table:
        c, other = by_entry.get(r["entry"]), by_entry.get(r["name_entry"])
        if c is None or r["line"] not in ("ancestor", "descendant"):
            continue  # of a cycle as a whole
        pair = (other, c) if r["line"] == "ancestor" else (c, other)
        expected = None if cycle[c] == cycle[other] else pairs[pair]
        check(r["bytes"] == expected, f"snapshot {snapshot}: {tuple(r)}, not {expected}")
    order = [r["self_desc_percent"] for r in table if r["line"] == "self" and
             r["self_desc_percent"] is not None]
    check(order == sorted(order, reverse=True), f"snapshot {snapshot}: order of entries")


# --- other choices ----------------------------------------------------------------------


def report(raw, view, *options):
    text = heapx("report", raw.path, view, "--snapshot", "all", "--format", "json", *options)[1]
    return json.loads(text)


def other_test(raw, *patterns, whole=False):
    options = [w for p in patterns for w in ("--centre", p)]
    options += ["--recursion", "whole"] if whole else []
    stacks = reckon_stacks(raw, choice(raw, patterns), whole)
    name = {c: (r["label"], r["module"], r["source"]) for c, r in raw.centres.items()}
    named = {f: tuple(name[c] for c in s) for f, s in stacks.items()}
    check(len(set(named.values())) == len(set(stacks.values())), "two centres of one name")
    tree = sorted(report(raw, "ccs", *options), key=lambda r: r["ccs_id"])
    nodes = nodes_of(tree, lambda r: (r["label"], r["module"], r["source"]))
    table = report(raw, "costs", *options)
    check(table, f"no costs with {options}")
    for snapshot in raw.snapshots:
        compare_costs(f"{options}, snapshot {snapshot}",
                      reckon_costs(raw, named, raw.costs(snapshot), name.get), nodes,
                      [r for r in table if r["snapshot"] == snapshot])


def compare(store, *patterns):
    raw = Raw(store)
    check(raw.snapshots, "no snapshot")
    stacks = costs_test(raw)
    sites_test(raw, stacks)
    mprof_test(raw)
    other_test(raw, whole=True)
    other_test(raw, *patterns)
    other_test(raw, *("!" + p for p in patterns))
    sizes = [len(s) for s in stacks.values()]
    print(f"  {len(raw.snapshots)} snapshots, {len(raw.frames)} frames up to "
          f"{max(r['depth'] for r in raw.frames.values())} deep, {len(raw.stacks)} stacks, "
          f"{len(set(stacks.values()))} of cost centres up to {max(sizes)} deep, "
          f"CAFs: {sum(r['kind'] == 'caf' for r in raw.centres.values())}")


def run(folder, command, *patterns, **options):
    store = os.path.join(folder, "recorded.db")
    with recorded.Run(store, command, "--every", "200ms", "--at-exit", stdin=subprocess.DEVNULL,
                      **options) as target:
        status = target.wait(120)
        check(status in (0, 3), f"{command}: exit {status}: {target.err.decode(errors='replace')}")
    compare(store, *patterns)


def git(folder):
    need("git")
    run(folder, ["git", "-C", make_repository(folder), "log", "--stat", "-p",
                 "main"], "^cmd_", "^x(m|re)alloc", "strbuf")


def python(folder):
    need("python3")
    code = ("import json, time\n"
            "d = {str(i): [object(), (i, str(i))] for i in range(3000)}\n"
            "for i in range(4): json.loads(json.dumps(list(d) * i)); time.sleep(0.25)")
    run(folder, ["python3", "-S", "-c", code], "^PyObject", "_Py",
        env=dict(os.environ, PYTHONMALLOC="malloc"))


def cxx(folder):
    run(folder, victim_argv(), "std::", "main")


def marked(folder):
    """Regions, entered stacks, and what was popped in vain."""
    run(folder, [live.victim("scc_victim"), os.path.join(live.BUILD, "test/live/scc_plugin.so")],
        "loop", "^pool")


def pool(folder):
    run(folder, [live.victim("scc_pool")], "alice", "make_widget")


if __name__ == "__main__":
    live.main(git, python, cxx, marked, pool, nightly=(python,))
