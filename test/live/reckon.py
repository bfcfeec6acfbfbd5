#!/usr/bin/env -S python3 -B
"""reckon.py - rounds, holders, retainer sets, bins, dominators and retained figures of real
programs, once more.

Everything is worked out of objects, edges, root_edges and roots by the plainest algorithms: a
search for each round, from whose ranks follow the edges that the rest is made on; a fixed point for
the sets, a search for each named root, the textbook's iteration for the dominators, a search that
avoids a type for what the type retains. And each step of the chains to the ten objects that retain
most has to be an edge. Holders are the nearest roots, but where the weight of evidence corrects
that: then a holder has to be among those that reach the object.
"""
import collections
import json
import os
import re
import signal
import time

import live
from allocators import ALLOCATORS
from live import check, heapx, row, rows
from programs import NGINX, find_child, make_repository, need, settle

FOLLOWED = {"known": ("start", "known", "interior"), "on": ("start", "known", "interior"),
            "off": ("start", "known")}
SURE = ("start", "known")
THREAD = ("stack", "frame", "register")
OF_RANK = {0: 1, 1: 3, 2: 4}


class Store:
    """The tables of the last snapshot of a store."""

    def __init__(self, path, interior="known"):
        self.path = path
        number = row(path, "select max(snapshot) as n from snapshots")["n"]
        self.where = f"where snapshot = {number}"
        self.total = row(path, f"select * from snapshots {self.where}")
        self.objects = {r["address"]: r for r in rows(path, f"select * from objects {self.where}")}
        self.roots = {r["root_id"]: r for r in rows(path, f"select * from roots {self.where}")}
        # which thread a variable in a frame belongs to, no view tells
        self.tid = {r["root_id"]: r["tid"] for r in
                    rows(path, f"select root_id, tid from hx_root {self.where}")}
        self.edges = rows(path, f"select * from edges {self.where}")
        self.held = rows(path, f"select * from root_edges {self.where}")
        self.threads = {r["tid"]: r["name"] for r in self.view("threads")}
        self.kinds = FOLLOWED[interior]
        self.interior = interior
        self.census = row(path, f"select * from censuses {self.where}")
        self.scheme = self.total["scheme"]
        self.round = self.rounds()
        self.choose(self.round)

    def own_round(self, e, root=None):
        """The round of a word by itself; None: it is not followed."""
        if root and root["kind"] == "named":
            return 1
        if e["kind"] not in self.kinds:
            return None
        if not self.census["holders"]:
            return 1
        own = OF_RANK[e["rank"]]
        inside = e["rule"] == "piece" or (e["kind"] == "interior" and e["rule"] not in ("intrusive", "ring", "inside"))
        if inside and self.interior == "known":
            own = 4
        return 2 if own == 1 and root and root["kind"] in THREAD else own

    def rounds(self, named=()):
        """{address: round}. What named roots lead to is reached in round 1."""
        begin, out = collections.defaultdict(list), collections.defaultdict(list)
        begin[1] = list(named)
        for e in self.held:
            root = self.roots[e["root_id"]]
            if root["kind"] != "named":
                begin[self.own_round(e, root)].append(e["target"])
        for e in self.edges:
            out[self.own_round(e)].append((e["source"], e["target"]))
        found, follow = {}, collections.defaultdict(list)
        for number in (1, 2, 3, 4):
            for source, target in out[number]:
                follow[source].append(target)
            for address in search(set(found) | set(begin[number]), follow):
                found.setdefault(address, number)
        return found

    def choose(self, found):
        """Leaves the edges whose round is that of their targets."""
        def chosen(own, at, target):
            return own is not None and (at is None or max(own, at) == found.get(target))

        self.chosen = [e for e in self.edges
                       if chosen(self.own_round(e), found.get(e["source"]), e["target"])]
        self.chosen_held = [e for e in self.held if chosen(
            self.own_round(e, self.roots[e["root_id"]]), 0, e["target"])]
        self.out = self.follow(self.kinds)

    def label_of(self, root):
        if self.scheme == "module":
            return root["module"] or "(no module)"
        tid = self.tid[root["root_id"]]
        if self.census["threads_as"] == "parts" or not tid or not (
                root["kind"] in THREAD or root["kind"] == "tls" and root["symbol"] is None):
            return re.sub(r"(: [^ ]*| \+0x[0-9a-f]*)$", "", root["name"]) \
                if root["kind"] == "frame" else root["name"]
        name = self.threads.get(tid) or None
        one = [str(tid)] if not name or self.census["threads_as"] == "one" else []
        return " ".join(["thread"] + one + ([name] if name else []))

    def view(self, name):
        return rows(self.path, f"select * from {name} {self.where}")

    def follow(self, kinds):
        out = collections.defaultdict(list)
        for e in self.chosen:
            if e["kind"] in kinds:
                out[e["source"]].append(e["target"])
        return out

    def begins(self, kinds, named=False):
        """[(root_id, target)] of the roots that count."""
        return [(e["root_id"], e["target"]) for e in self.chosen_held if e["kind"] in kinds and
                (self.roots[e["root_id"]]["kind"] == "named") == named]


def search(begin, out, avoid=()):
    seen = {a for a in begin if a not in avoid}
    stack = list(seen)
    while stack:
        for target in out[stack.pop()]:
            if target not in seen and target not in avoid:
                seen.add(target)
                stack.append(target)
    return seen


def add_up(store, name, rows_of_view):
    check(sum(r["bytes"] for r in rows_of_view) == store.total["heap_bytes"] and
          sum(r["objects"] for r in rows_of_view) == store.total["heap_objects"],
          f"{name} does not add up to {store.total['heap_bytes']}: {rows_of_view[:5]}")
    check(all(r["objects"] > 0 for r in rows_of_view), f"{name}: an empty row")


def retains_by_default(store):
    """Classes with a vtable that no field of theirs leads to, and those of Python that are in a module."""
    own = rows(store.path, "SELECT t.name AS type FROM hx_type t JOIN hx_field f ON"
               " f.snapshot = t.snapshot AND f.layout = t.layout AND f.target = t.name")
    own = {r["type"] for r in own}
    all_types = store.view("types")
    types = {r["type"] for r in all_types if "vtable" in (r["source"] or "vtable")}
    python = {r["type"] for r in all_types if "python" in (r["source"] or "")}
    in_module = {name for name in python if "." in name and " " not in name}
    return lambda name: name in in_module if name in python else name in types and name not in own


def retainer_sets(store):
    """{address: frozenset of (space, label)}: the least fixed point of the equations."""
    patterns_hold = retains_by_default(store)
    sets = collections.defaultdict(frozenset)
    retains = {}
    if store.scheme == "type":
        retains = {a: ("type", o["type"]) for a, o in store.objects.items()
                   if o["type"] and patterns_hold(o["type"])}
    todo = collections.deque()

    def add(target, more):
        if not more <= sets[target]:
            sets[target] |= more
            todo.append(target)

    for root, target in store.begins(store.kinds):
        add(target, frozenset([("root", store.label_of(store.roots[root]))]))
    done = set()
    while todo:
        at = todo.popleft()
        if at in retains and at in done:
            continue
        done.add(at)
        for target in store.out[at]:
            add(target, frozenset([retains[at]]) if at in retains else sets[at])
    return sets


def nearest(store):
    """{address: label}: breadth first, round by round, ties by kind, module, name, address."""
    order = {"global": 0, "tls": 1, "mapping": 2, "stack": 3, "frame": 3, "register": 3}
    rank = {i: n for n, i in enumerate(sorted(
        (i for i, r in store.roots.items() if r["kind"] != "named"),
        key=lambda i: (order[store.roots[i]["kind"]], os.fsencode(store.roots[i]["module"] or ""),
                       os.fsencode(store.roots[i]["name"]), store.roots[i]["address"] or 0, i)))}
    by_rank = {n: i for i, n in rank.items()}
    out, begin = collections.defaultdict(list), collections.defaultdict(list)
    for e in store.chosen:
        out[e["source"]].append(e["target"])
    for e in store.chosen_held:
        if e["root_id"] in rank:
            begin[e["target"]].append((1, rank[e["root_id"]]))
    near = {}
    for number in (1, 2, 3, 4):
        levels = collections.defaultdict(dict)
        members = [a for a, r in store.round.items() if r == number]
        for a in members:
            for at in begin[a]:
                levels[at[0]][a] = min(at[1], levels[at[0]].get(a, at[1]))
        for a, at in list(near.items()):
            for target in out[a]:
                if store.round.get(target) == number:
                    one = levels[at[0] + 1]
                    one[target] = min(at[1], one.get(target, at[1]))
        level = 1
        while levels:
            for a, root in sorted(levels.pop(level, {}).items()):
                if a in near:
                    continue
                near[a] = (level, root)
                for target in out[a]:
                    if store.round[target] == number and target not in near:
                        one = levels[level + 1]
                        one[target] = min(root, one.get(target, root))
            level += 1
    return {a: store.label_of(store.roots[by_rank[n]]) for a, (_, n) in near.items()}


def compare_holders(store):
    """Rounds, and holders. Returns the part of the bytes that a correction gave to another."""
    judged = [e["rank"] for e in store.edges + store.held]
    check(store.total["stray_edges"] == (None if None in judged else judged.count(2)),
          f"stray edges: {store.total}")
    if not store.census["holders"]:
        check(all((o["round"], o["holder"]) == (None, None) for o in store.objects.values()) and
              not store.view("holders"), "holders, though they are off")
        return 0
    scheme, store.scheme = store.scheme, "root"
    reach, near = retainer_sets(store), nearest(store)
    store.scheme = scheme
    view = {r["holder"]: r for r in store.view("holders")}
    add_up(store, "holders", list(view.values()))
    sums, alone, other = collections.Counter(), collections.Counter(), 0
    for address, o in store.objects.items():
        check(o["round"] == store.round.get(address), f"{o}, want round {store.round.get(address)}")
        names = {name for space, name in reach[address] if space == "root"}
        lost = o["state"] in ("definite", "indirect")
        check(o["holder"] == "(unreachable)" if lost else
              o["holder"] in names or o["holder"] == "(mixed)", f"{o}, want one of {names}")
        sums[o["holder"]] += o["bytes"]
        alone[o["holder"]] += o["bytes"] if names == {o["holder"]} else 0
        other += o["bytes"] if not lost and o["holder"] != near[address] else 0
    check({k: r["bytes"] for k, r in view.items()} == sums, f"holders {view}, want {sums}")
    for name, r in view.items():
        last = name in ("(mixed)", "(unreachable)")
        check(r["alone_bytes"] == (None if last else alone[name]), f"{r}, alone: {alone[name]}")
    return other / store.total["heap_bytes"]


def compare_sets(store):
    limit = store.census["max_set"] or len(store.roots)
    want = retainer_sets(store)
    view = {r["set_id"]: r for r in store.view("retainers")}
    add_up(store, "retainers", list(view.values()))
    sums = collections.Counter()
    for address, o in store.objects.items():
        names = want[address]
        shown = view[o["set_id"]]
        sums[o["set_id"]] += o["bytes"]
        if len(names) > limit:
            check(shown["many"] == 1 and shown["members"] is None, f"{o}: {shown}, want MANY")
            continue
        label = ", ".join(sorted((n for _, n in names), key=os.fsencode)) or "(unreachable)"
        check((shown["label"], shown["members"], shown["many"]) == (label, len(names), 0),
              f"set of {address:#x}: {shown}, want {sorted(names)}")
    check(all(sums[i] == r["bytes"] for i, r in view.items()), "bytes of a set")
    census = store.census
    check(census["total_bytes"] == sum(r["bytes"] for i, r in view.items() if i)
          and census["visits_per_object"] is None and census["scheme"] == store.scheme,
          f"census: {census}")
    members = collections.Counter(r["set_id"] for r in rows(store.path,
                                                            "select * from retainer_members"))
    check(all(members[i] == (r["members"] or 0) for i, r in view.items()), "members of a set")
    return len(view)


def compare_bins(store, named):
    """named: [(name, [addresses that it leads to])] in the order given, of globals."""
    store.choose(store.rounds([a for _, begin in named for a in begin]))
    reach = [(name, search(begin, store.out)) for name, begin in named]
    store.choose(store.round)
    want = {}
    for address, o in store.objects.items():
        names = [name for name, seen in reach if address in seen]
        lost = o["state"] in ("definite", "indirect")
        want[address] = "+".join(names) or ("(unreachable)" if lost else "-")
        check(o["bin"] == want[address], f"bin of {address:#x}: {o['bin']}, want {want[address]}")
    view = {r["roots"]: r for r in store.view("bins")}
    add_up(store, "bins", list(view.values()))
    sums = collections.Counter()
    for address, o in store.objects.items():
        sums[want[address]] += o["bytes"]
    check({k: r["bytes"] for k, r in view.items()} == sums, f"bins {view}, want {sums}")


def order_of(begin, out):
    """Reverse postorder from a node, without recursion."""
    seen, order, stack = {begin}, [], [(begin, iter(out[begin]))]
    while stack:
        node, rest = stack[-1]
        for target in rest:
            if target not in seen:
                seen.add(target)
                stack.append((target, iter(out[target])))
                break
        else:
            order.append(node)
            stack.pop()
    return order[::-1]


def dominators(begin, out):
    """{node: immediate dominator}: the iteration to a fixed point over reverse postorder."""
    order = order_of(begin, out)
    number = {node: i for i, node in enumerate(order)}
    into = collections.defaultdict(list)
    for node in order:
        for target in out[node]:
            into[number[target]].append(number[node])
    parent = [None] * len(order)
    parent[0], changed = 0, True
    while changed:
        changed = False
        for i in range(1, len(order)):
            new = None
            for j in into[i]:
                if parent[j] is None:
                    continue
                if new is None:
                    new = j
                while j != new:
                    while j > new:
                        j = parent[j]
                    while new > j:
                        new = parent[new]
            if parent[i] != new:
                parent[i], changed = new, True
    return order, parent


def retained(store, kinds):
    """(dominator, bytes, objects) for each object, bytes for each root."""
    out = collections.defaultdict(list, {a: list(t) for a, t in store.follow(kinds).items()})
    for root, target in store.begins(kinds):
        out[("root", root)].append(target)
    out["all"] = [("root", r) for r in sorted({r for r, _ in store.begins(kinds)})]
    order, parent = dominators("all", out)
    size = [store.objects[n]["bytes"] if isinstance(n, int) else 0 for n in order]
    count = [1 if isinstance(n, int) else 0 for n in order]
    for i in range(len(order) - 1, 0, -1):
        size[parent[i]] += size[i]
        count[parent[i]] += count[i]
    found, roots = {}, {}
    for i, node in enumerate(order):
        above = order[parent[i]]
        if isinstance(node, int):
            found[node] = (above if isinstance(above, int) else None, size[i], count[i])
        elif node != "all":
            roots[node[1]] = size[i]
    return found, roots


def compare_dominators(store):
    over, roots = retained(store, store.kinds)
    sure = retained(store, SURE)[0] if "sure" in store.total["analysed"].split() else {}
    for address, o in store.objects.items():
        have = (o["dominator"], o["retained_bytes"], o["retained_objects"])
        check(have == over.get(address, (None, None, None)),
              f"{address:#x} ({o['state']}): retains {have}, want {over.get(address)}")
        have = (o["sure_retained_bytes"], o["sure_retained_objects"])
        check(have == sure.get(address, (None, None, None))[1:],
              f"{address:#x} ({o['state']}): surely retains {have}, want {sure.get(address)}")
    for number, r in store.roots.items():
        if r["kind"] != "named":
            check(r["retained_bytes"] == roots.get(number, 0), f"{r}, want {roots.get(number, 0)}")
    view = store.view("dominators")
    best = sorted((o["retained_bytes"] for o in store.objects.values()
                   if o["retained_bytes"] is not None), reverse=True)
    check(sorted((r["retained_bytes"] for r in view), reverse=True) == best[:len(view)] and
          len(view) >= min(10, len(best)), "the largest dominators")
    return view


def compare_types(store, most=25):
    view = {r["type"]: r for r in store.view("types")}
    add_up(store, "types", list(view.values()))
    sums = collections.Counter()
    for o in store.objects.values():
        sums[o["type"] or "(unknown)"] += o["bytes"]
    check({k: r["bytes"] for k, r in view.items()} == sums, f"types {view}, want {sums}")
    begin = [t for _, t in store.begins(store.kinds)]
    everything = sum(store.objects[a]["bytes"] for a in search(begin, store.out))
    for name in sorted(view, key=lambda n: -view[n]["bytes"])[:most]:
        avoid = {a for a, o in store.objects.items() if (o["type"] or "(unknown)") == name}
        rest = sum(store.objects[a]["bytes"] for a in search(begin, store.out, avoid))
        check(view[name]["retained_bytes"] == everything - rest,
              f"{view[name]}, want {everything - rest} retained")
    return len(view)


def compare_chains(store, view):
    edges = {(e["source"], e["target"], e["offset"], e["kind"]) for e in store.edges}
    held = collections.defaultdict(set)
    for e in store.held:
        held[e["root_id"], e["target"], e["kind"]].add(e["address"])
    for r in view[:10]:
        chains = json.loads(heapx("why", store.path, r["address"], "--limit", 3,
                                  "--format", "json")[1])
        check(chains and chains[-1]["target"] == r["address"], f"no chain to {r['address']:#x}")
        for step in chains:
            if step["step"] == 1:
                root = store.roots[step["root_id"]]
                places = held[step["root_id"], step["target"], step["kind"]]
                at = None if root["kind"] == "register" else root["address"] + step["offset"]
                check(at in places and root["kind"] != "named", f"{step}: no edge of {root}")
            else:
                check((step["source"], step["target"], step["offset"], step["kind"]) in edges,
                      f"{step} is no edge")


def compare(path, named=(), interior="known"):
    store = Store(path, interior)
    corrected = compare_holders(store)
    sets = compare_sets(store)
    compare_bins(store, named)
    view = compare_dominators(store)
    types = compare_types(store)
    compare_chains(store, view)
    print(f"  {store.total['comm']} --scheme {store.scheme} --interior {interior}: "
          f"{len(store.objects)} objects in {sets} retainer sets, {types} types, "
          f"{corrected:.1%} have another holder than the nearest", flush=True)
    return store


def some_roots(store, most=3):
    """Roots to name: those globals, of one name each, that point to most."""
    names = collections.Counter(r["name"] for r in store.roots.values())
    chosen = sorted((r for r in store.roots.values() if r["kind"] == "global" and
                     names[r["name"]] == 1 and "=" not in r["name"]),
                    key=lambda r: -r["direct_objects"])
    return chosen[:most]


def run(folder, pid, more=(("module", "off"), ("type", "on"))):
    """Schemes and interior rules at capture, roots named afterwards."""
    path = os.path.join(folder, "store")
    heapx("snap", pid, "-o", path, "--analyse", "sure")
    store = compare(path)
    chosen = some_roots(store)
    threads = [t for t in store.tid.values() if t] or list(store.threads)
    heaviest = store.view("dominators")[0]["address"]
    names = [f"r{i}={r['name']}" for i, r in enumerate(chosen)]
    options = [word for n in names + [f"object={heaviest:#x}", f"t=thread:{threads[0]}"]
               for word in ("--root", n)]
    later = json.loads(heapx("report", path, "bins", "--format", "json", *options)[1])

    held = collections.defaultdict(list)
    for e in store.held:
        if e["kind"] in store.kinds:
            held[e["root_id"]].append(e["target"])
    tid = [i for i, r in store.roots.items() if r["kind"] != "named" and store.tid[i] == threads[0]]
    named = [(f"r{i}", held[r["root_id"]]) for i, r in enumerate(chosen)]
    named += [("object", [heaviest]), ("t", [a for i in tid for a in held[i]])]
    want = collections.Counter()
    store.choose(store.rounds([a for _, begin in named for a in begin]))
    reach = [(name, search(begin, store.out)) for name, begin in named]
    for address, o in store.objects.items():
        lost = o["state"] in ("definite", "indirect")
        want["+".join(n for n, seen in reach if address in seen) or
             ("(unreachable)" if lost else "-")] += o["bytes"]
    check({r["roots"]: r["bytes"] for r in later} == want, f"bins afterwards {later}, want {want}")

    for scheme, interior in more:
        path = os.path.join(folder, scheme)
        heapx("snap", pid, "-o", path, "--scheme", scheme, "--interior", interior)
        compare(path, (), interior)
        by = json.loads(heapx("report", path, "retainers", "--scheme", "root", "--max-set", "0",
                              "--format", "json")[1])
        check(sum(r["bytes"] for r in by) == row(path, "select heap_bytes n from snapshots")["n"],
              "retainers afterwards do not add up")


def python(folder):
    code = ("import json, re, sys\nclass A: pass\n"
            "d = {str(i): [A(), (i, str(i))] for i in range(2000)}\n"
            "print('ready', flush=True)\nsys.stdin.read()")
    environment = dict(os.environ, PYTHONMALLOC="malloc")
    with live.Target(["python3", "-c", code], env=environment) as target:
        target.wait_line("ready")
        run(folder, target.pid, ())


def sqlite(folder):
    need("sqlite3")
    with live.Target(["sqlite3", ":memory:"]) as target:
        target.process.stdin.write(b"create table t(a integer primary key, b text);\n"
                                   b"with recursive n(i) as (values(1) union all select i + 1 "
                                   b"from n where i < 20000) insert into t select i, 'row ' || i "
                                   b"from n;\ncreate index i on t(b);\nselect 'ready';\n")
        target.process.stdin.flush()
        target.wait_line("ready")
        run(folder, target.pid)


def demo(folder):
    with live.Target([os.path.join(live.BUILD, "heapx-demo")]) as target:
        target.wait_line("ready")
        run(folder, target.pid)


def other_allocators(folder):
    """The same program, with malloc by each library that takes its place."""
    for allocator in ALLOCATORS:
        if allocator.preload and not allocator.missing():
            print(f"  {allocator}")
            with live.Target([os.path.join(live.BUILD, "heapx-demo")], env=allocator.environment()) as target:
                target.wait_line("ready")
                path = os.path.join(folder, "allocator.db")
                heapx("snap", target.pid, "-o", path)
            store = compare(path)
            check(allocator.name in store.total["allocator"], store.total["allocator"])
            os.unlink(path)


def gdb(folder):
    """C++ with class hierarchies, stripped."""
    need("gdb")
    with live.Target(["gdb", "-nx", "-q", "-ex", "file /bin/ls", "-ex", "echo ready\\n"],
                     env=dict(os.environ, HOME=folder, DEBUGINFOD_URLS="")) as target:
        target.wait_line("ready")
        settle(target.pid)
        run(folder, target.pid, (("type", "known"),))


def git(folder):
    """In the middle of a repack: what it holds changes between the snapshots."""
    need("git")
    os.environ.update(GIT_CONFIG_NOSYSTEM="1", HOME=folder)
    argv = ["git", "-C", make_repository(folder), "-c", "pack.threads=1", "repack", "-a", "-d",
            "-f", "-q", "--window=500", "--depth=50"]
    with live.Target(argv) as target:
        packer = find_child(target.pid, b"pack-objects")
        time.sleep(0.5)
        path = os.path.join(folder, "git")
        heapx("snap", packer, "-o", path)
        check(target.process.wait(timeout=200 * live.SLOW) == 0, "git repack failed afterwards")
        compare(path)


def nginx(folder):
    need("nginx")
    os.chmod(folder, 0o755)
    with open(f"{folder}/nginx.conf", "w") as file:
        file.write(NGINX % {"f": folder} + ("user root;\n" if os.getuid() == 0 else ""))
    argv = ["nginx", "-p", folder, "-c", f"{folder}/nginx.conf", "-e", f"{folder}/log"]
    with live.Target(argv) as target:
        try:
            worker = find_child(target.pid, b"worker process")
            settle(worker)
            run(folder, worker)
        finally:
            target.process.send_signal(signal.SIGTERM)  # so that the worker goes too
            target.process.wait(timeout=10 * live.SLOW)


if __name__ == "__main__":
    live.main(demo, other_allocators, python, sqlite, gdb, git, nginx, nightly=(python, git, nginx))
