#!/usr/bin/env -S python3 -B
"""recompute.py - every figure of the views, once more, out of the object tables.

Takes snapshots of real programs and works states, leaks, counts and sums out of objects,
edges and root_edges by plain searches, as the contract words them.
"""
import collections
import os

import live
from live import check, heapx, row, rows

DEMO = os.path.join(live.BUILD, "heapx-demo")


def search(begin, follow):
    """Everything that can be reached from begin, begin included."""
    seen, stack = set(begin), list(begin)
    while stack:
        for target in follow(stack.pop()):
            if target not in seen:
                seen.add(target)
                stack.append(target)
    return seen


def components(nodes, out, into):
    """{node: number of its strongly connected component} (Kosaraju's two passes)."""
    order, seen = [], set()
    for first in nodes:
        if first in seen:
            continue
        seen.add(first)
        stack = [(first, iter(out[first]))]
        while stack:
            node, rest = stack[-1]
            for target in rest:
                if target in nodes and target not in seen:
                    seen.add(target)
                    stack.append((target, iter(out[target])))
                    break
            else:
                order.append(node)
                stack.pop()
    number = {}
    for first in reversed(order):
        if first in number:
            continue
        number[first] = first
        stack = [first]
        while stack:
            for source in into[stack.pop()]:
                if source in nodes and source not in number:
                    number[source] = first
                    stack.append(source)
    return number


def lost_states(lost, edges):
    out, into = collections.defaultdict(list), collections.defaultdict(list)
    for source, target, _ in edges:
        if source in lost and target in lost:
            out[source].append(target)
            into[target].append(source)
    number = components(lost, out, into)
    held = {number[t] for t in lost for s in into[t] if number[s] != number[t]}
    lowest = {}
    for node in lost:
        lowest[number[node]] = min(node, lowest.get(number[node], node))
    heads = {lowest[c] for c in lowest if c not in held}
    return {node: "definite" if node in heads else "indirect" for node in lost}


def states(objects, edges, root_edges, interior):
    """{address: state} as the contract defines it."""
    sure = {"known": ("start", "known"), "on": ("start", "known", "interior"),
            "off": ("start", "known")}[interior]
    weak = () if interior == "off" else ("interior",)
    out, out_weak = collections.defaultdict(list), collections.defaultdict(list)
    for source, target, kind in edges:
        if kind in sure:
            out[source].append(target)
        if kind in sure or kind in weak:
            out_weak[source].append(target)
    reachable = search({t for t, kind in root_edges if kind in sure}, lambda a: out[a])
    alive = search({t for t, kind in root_edges if kind in sure or kind in weak} | reachable,
                   lambda a: out_weak[a])
    found = {a: "reachable" if a in reachable else "possible" for a in alive}
    found.update(lost_states({a for a in objects if a not in alive}, edges))
    return found


def compare(store, interior="known"):
    number = row(store, "select max(snapshot) as n from snapshots")["n"]
    where = f"where snapshot = {number}"
    objects = {r["address"]: r for r in
               rows(store, f"select address, bytes, state, edges_in, edges_out from objects {where}")}
    table = rows(store, f"select source, target, offset, kind from edges {where}")
    edges = [(r["source"], r["target"], r["kind"]) for r in table]
    held = rows(store, f"select root_id, address, target, kind from root_edges {where}")

    for r in table:
        source = objects[r["source"]]
        check(r["offset"] % 8 == 0 and r["offset"] + 8 <= source["bytes"], f"offset of {r}")
    check(all(r["target"] in objects for r in table + held), "an edge to no object")
    into, out = collections.Counter(t for _, t, _ in edges), collections.Counter(s for s, _, _ in edges)
    for address, r in objects.items():
        check((r["edges_in"], r["edges_out"]) == (into[address], out[address]), f"edges of {r}")

    want = states(objects, edges, [(r["target"], r["kind"]) for r in held], interior)
    wrong = [(hex(a), r["state"], want[a]) for a, r in objects.items() if r["state"] != want[a]]
    check(not wrong, f"{len(wrong)} of {len(objects)} states are wrong: {wrong[:5]}")

    total = row(store, f"select * from snapshots {where}")
    for name, kinds in (("heap", ("reachable", "possible", "definite", "indirect")),
                        ("reachable", ("reachable", "possible")),
                        ("leaked", ("definite", "indirect"))):
        chosen = [objects[a]["bytes"] for a in objects if want[a] in kinds]
        check((total[f"{name}_bytes"], total[f"{name}_objects"]) == (sum(chosen), len(chosen)),
              f"{name}: {total}")
    leaks = {r["kind"]: (r["bytes"], r["objects"]) for r in rows(store, f"select * from leaks {where}")}
    for kind in ("possible", "definite", "indirect"):
        chosen = [objects[a]["bytes"] for a in objects if want[a] == kind]
        check(leaks.get(kind) == ((sum(chosen), len(chosen)) if chosen else None), f"{kind}: {leaks}")
    direct = collections.defaultdict(set)
    for r in held:
        direct[r["root_id"]].add(r["target"])
    for r in rows(store, f"select * from roots {where}"):
        check(r["direct_objects"] == len(direct[r["root_id"]]), f"direct objects of {r}")
    parts = row(store, f"select sum(bytes) as n from account {where}")["n"]
    check(parts == total["rss_bytes"], f"account {parts}, rss {total['rss_bytes']}")
    print(f"  {total['comm']} --interior {interior}: {len(objects)} objects, {len(edges)} edges, "
          f"{len(held)} from roots, {leaks}")


def run(folder, target):
    for interior in ("known", "on", "off"):
        store = os.path.join(folder, interior)
        heapx("snap", target.pid, "-o", store, "--interior", interior)
        compare(store, interior)


def demo(folder):
    with live.Target([DEMO]) as target:
        target.wait_line("ready")
        run(folder, target)


def python(folder):
    code = ("import json, re, sys, xml.dom.minidom\nclass A: pass\n"
            "d = {str(i): [A(), (i, str(i))] for i in range(3000)}\n"
            "print('ready', flush=True)\nsys.stdin.read()")
    environment = dict(os.environ, PYTHONMALLOC="malloc")
    with live.Target(["python3", "-c", code], env=environment) as target:
        target.wait_line("ready")
        run(folder, target)


def sqlite(folder):
    with live.Target(["sqlite3", ":memory:"]) as target:
        target.process.stdin.write(b"create table t(a integer primary key, b text);\n"
                                   b"with recursive n(i) as (values(1) union all select i + 1 "
                                   b"from n where i < 20000) insert into t select i, 'row ' || i "
                                   b"from n;\ncreate index i on t(b);\nselect 'ready';\n")
        target.process.stdin.flush()
        target.wait_line("ready")
        run(folder, target)


if __name__ == "__main__":
    live.main(demo, python, sqlite, nightly=(python,))
