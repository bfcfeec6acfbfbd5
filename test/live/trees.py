#!/usr/bin/env -S python3 -B
"""trees.py - are the merged trees and the histograms of real programs what their objects say?

The tree of dominators is made once more from the table of objects, row by row. The tree of holders
has to agree with the view of holders, histograms with sums over objects, exports with the trees.
"""
import collections
import json
import os

import live
from live import check, heapx, row, rows

LOST = ("definite", "indirect")


def label(one):
    return one["type"] or one["shape"]


def make_rows(store):
    """{path: [bytes, objects]} by the definition: a type or shape stands once on each path."""
    objects = {r["address"]: r for r in rows(store, "SELECT * FROM objects")}
    alone = {r["set_id"]: r["label"] for r in
             rows(store, "SELECT set_id, label FROM retainers WHERE members = 1")}
    paths, made = {}, collections.defaultdict(lambda: [0, 0])
    for start in objects:
        way, at = [], start
        while at is not None and at not in paths:
            way.append(at)
            at = objects[at]["dominator"]
        path = paths.get(at)
        for address in reversed(way):
            one = objects[address]
            if path is None:
                top = "(unreachable)" if one["state"] in LOST else alone.get(one["set_id"],
                                                                            "(several)")
                path = (top,)
            kind = label(one)
            path = path[:path.index(kind, 1) + 1] if kind in path[1:] else path + (kind,)
            paths[address] = path
    for address, path in paths.items():
        for n in range(1, len(path)):
            made[path[:n]] # a row without objects of its own
        made[path][0] += objects[address]["bytes"]
        made[path][1] += 1
    return made


def read_rows(store, view):
    way, found = {None: ()}, {}
    for r in rows(store, f"SELECT * FROM {view} ORDER BY node"):
        way[r["node"]] = way[r["parent"]] + (r["label"],)
        check(r["depth"] == len(way[r["node"]]) - 1, f"depth of {r}")
        found[way[r["node"]]] = r
    return found


def check_dominators(store):
    made, found = make_rows(store), read_rows(store, "tree")
    whole = not any(path[-1] == "(others)" for path in found)
    for path, r in found.items():
        if path[-1] == "(others)":
            continue
        check([r["bytes"], r["objects"]] == made.get(path), f"{path}: {r}, not {made.get(path)}")
        if path[0] != "(unreachable)":
            below = sum(b for p, (b, _) in made.items() if p[:len(path)] == path)
            check(r["retained_bytes"] == below, f"{path} retains {below}: {r}")
    check(not whole or len(found) == len(made), f"{len(found)} rows, {len(made)} expected")
    return len(found)


def check_sums(store, view):
    heap = row(store, "SELECT heap_bytes AS b, heap_objects AS o FROM snapshots")
    sums = row(store, f"SELECT sum(bytes) AS b, sum(objects) AS o FROM {view}")
    check(sums == heap, f"{view}: {sums}, the heap is {heap}")


def check_holders(store):
    found = collections.Counter()
    for path, r in read_rows(store, "holder_tree").items():
        found[path[0]] += r["bytes"]
    holders = {r["holder"]: r["bytes"] for r in rows(store, "SELECT * FROM holders")}
    if "(others)" not in found:
        check(found == holders, f"holders {holders}, in the tree {dict(found)}")
    for path in found:
        check(path in holders or path == "(others)", f"{path} holds nothing")


def histogram(store, of, by):
    _, out, _ = heapx("report", store, "histogram", "--of", of, "--by", by, "--format", "json")
    return json.loads(out)


def check_histograms(store):
    for holder in rows(store, "SELECT * FROM holders ORDER BY bytes DESC LIMIT 3"):
        of = "holder = '" + holder["holder"].replace("'", "''") + "'"
        for by in ("type", "shape", "size", "site", "age", "state"):
            parts = histogram(store, of, by)
            check(sum(r["bytes"] for r in parts) == holder["bytes"] and
                  sum(r["objects"] for r in parts) == holder["objects"], f"{of} by {by}: {parts}")
    for one in rows(store, "SELECT * FROM retainers WHERE members = 1 LIMIT 3"):
        name = one["label"].replace("'", "''")
        parts = histogram(store, f"label = '{name}'", "type")
        check(sum(r["bytes"] for r in parts) == one["bytes"], f"{one}: {parts}")
        with_others = histogram(store, f"retainer = '{name}'", "type")
        check(sum(r["bytes"] for r in with_others) >= one["bytes"], f"{one}: {with_others}")


def check_exports(store):
    heap = row(store, "SELECT heap_bytes AS b FROM snapshots")["b"]
    for by in ("dominator", "holder"):
        _, out, _ = heapx("export", store, "folded", "--by", by)
        lines = out.splitlines()
        check(sum(int(line.rsplit(None, 1)[1]) for line in lines) == heap, f"folded by {by}")


def run(folder, name):
    store, log = os.path.join(folder, "store"), os.path.join(folder, "log")
    with live.Target([live.victim(name), log]) as target:
        target.wait_line("ready")
        heapx("snap", target.pid, "-o", store, "--threads", 2)
    for view in ("tree", "holder_tree"):
        check_sums(store, view)
    n = check_dominators(store)
    check_holders(store)
    check_histograms(store)
    check_exports(store)
    print(f"  {n} rows of dominators")


def store_of_keys(folder):
    run(folder, "holders/kv_store")


def trees(folder):
    run(folder, "holders/btrees")


if __name__ == "__main__":
    live.main(store_of_keys, trees)
