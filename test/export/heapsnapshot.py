#!/usr/bin/env -S python3 -B
"""heapsnapshot.py - heap snapshots of random heaps, by a strict reader.

The schema, the counts and the layout that readers insist on; objects, sizes and references as the
store has them; dominators and retained sizes, worked out of the file by their definition; the tree
of allocations; names that try to harm; the same bytes twice, and as they were before.
"""
import json
import os
import subprocess
import tempfile

from heapsnapshot_file import FOLLOWED, Heap, Stored, U32, address_of, check, rows, run

BUILD = os.environ["HX_BUILDDIR"]
ROUNDS = 10 if os.environ.get("HX_QUICK", "0") not in ("", "0") else 60


def random_store(path, *words):
    maker = os.path.join(BUILD, "test/export/random_store")
    subprocess.run([maker, path, *map(str, words)], check=True, timeout=60)


def export(store, number, *words):
    return run("export", store, "heapsnapshot", "--snapshot", number, *words)


def compare_sizes(heap, stored, number):
    """Each object's bytes, those of its pieces with it; each reference at its place."""
    objects = stored.objects[number]
    kinds = FOLLOWED[stored.interior[number]]
    out, held = {}, [n for n in heap.nodes[2:] if n.type == "native"]
    by_index = {}
    for node in held:
        address = address_of(node.name)
        if address in objects and not node.name.startswith("more of "):
            by_index[node.index] = address
            o = objects[address]
            lost = o["state"] in ("definite", "indirect")
            check(node.name.startswith("<(unreachable)\xa0") == lost or
                  (o["type"] or "").startswith("(unreachable)"), f"{node.name}: {o}")
    for index, address in by_index.items():
        node = heap.nodes[index]
        size = node.size
        for edge in node.edges:
            if edge.to in by_index:
                out.setdefault(address, []).append((edge.name, by_index[edge.to]))
            else:
                check(edge.type == "internal" and heap.nodes[edge.to].name ==
                      f"more of 0x{address:x}" and not heap.nodes[edge.to].edges, edge)
                size += heap.nodes[edge.to].size
        check(size == objects[address]["bytes"], f"{node.name}: {size}, {objects[address]}")
    want = {}
    for e in stored.edges[number]:
        if e["kind"] in kinds:
            want.setdefault(e["source"], []).append((min(e["offset"], U32), e["target"]))
    check(out == want, f"snapshot {number}: references {out}, {want}")
    check(sum(n.size for n in heap.nodes) == sum(o["bytes"] for o in objects.values()),
          "the sizes do not add up")
    return by_index


def compare_roots(heap, stored, number, by_index):
    nodes, roots = heap.layout(), stored.shown_roots(number)
    check(len(nodes) == len(roots), f"{len(nodes)} roots of {len(roots)}")
    for index, root in zip(nodes, roots):
        want = [(min(e["address"] - root["address"], U32) if e["address"] else 0, e["target"])
                for e in stored.root_edges[number] if e["root_id"] == root["root_id"] and
                e["kind"] in FOLLOWED[stored.interior[number]]]
        found = [(e.name, by_index[e.to]) for e in heap.nodes[index].edges]
        check(found == want, f"{root}: {found}, {want}")


def compare_traces(heap, store, number, by_index, stored):
    """Who allocated an object, and the figures of all stacks."""
    ccs = {r["ccs_id"]: r for r in rows(store, "select * from ccs")}

    def path(ccs_id):
        names = []
        while ccs_id is not None:
            names.append(ccs[ccs_id]["label"])
            ccs_id = ccs[ccs_id]["parent_id"]
        return names

    def trace_path(trace):
        names = []
        while trace > 1:
            function, _, _, trace = heap.traces[trace]
            names.append(heap.functions[function][0])
        return names

    def readable(names):
        return [n.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for n in names]

    for index, address in by_index.items():
        want = stored.objects[number][address]["ccs_id"]
        check(trace_path(heap.nodes[index].trace) == readable(path(want)),
              f"{heap.nodes[index]}: {path(want)}")
    costs = rows(store, f"select * from costs where snapshot = {number}")
    check(sum(t[2] for t in heap.traces.values()) ==
          sum(c["alloc_bytes"] or 0 for c in costs) +
          sum(r["bytes"] for r in rows(store, "select s.bytes from sites s left join costs c using"
                                       f" (snapshot, ccs_id) where snapshot = {number} and"
                                       " c.alloc_bytes is null")), "what was allocated")


def random_heaps(folder):
    store = os.path.join(folder, "random.db")
    random_store(store, ROUNDS)
    stored = Stored(store)
    compared = traced = 0
    for number in stored.snapshots:
        done = export(store, number)
        heap = Heap(done.stdout)
        by_index = compare_sizes(heap, stored, number)
        compare_roots(heap, stored, number, by_index)
        figures = heap.figures()
        above = {i: heap.nodes[f[0]].name for i, f in figures.items() if i}
        compared += stored.compare(
            number, [(n.name, above.get(n.index, ""), figures.get(n.index, (0, 0))[1],
                      n.index in figures) for n in heap.nodes], f"snapshot {number}")
        if heap.traced:
            traced += 1
            compare_traces(heap, store, number, by_index, stored)
        if any(o["bytes"] > U32 for o in stored.objects[number].values()):
            check(b"more of" in done.stderr, f"nothing said of pieces: {done.stderr}")
        check(export(store, number).stdout == done.stdout, "other bytes the second time")
    check(compared and traced, f"{compared} objects, {traced} with traces")
    print(f"{len(stored.snapshots)} heaps, {compared} reachable objects, {traced} with traces")
    by_type(store, stored)


def by_type(store, stored):
    """Readers take everything up to the first blank as the class of "<CLASS ADDRESS>"."""
    number = stored.snapshots[-1]
    data = export(store, number, "--by", "type").stdout
    check(data == export(store, number).stdout, "by type is not what it does anyway")
    heap = Heap(data)
    seen = set()
    for node in heap.nodes:
        if node.name.startswith("<") and address_of(node.name) in stored.objects[number]:
            o = stored.objects[number][address_of(node.name)]
            word = node.name[1:].split(" ")[0].replace("\xa0", " ")
            lost = "(unreachable) " if o["state"] in ("definite", "indirect") else ""
            name = (o["type"] or o["shape"] or "(unknown)").encode("utf-8", "surrogateescape")
            check(word == lost + name.decode("utf-8", "replace"), f"{node.name}: {o}")
            seen.add(o["address"])
    check(len(seen) == len(stored.objects[number]), "objects are missing")


def golden(folder):
    """A change of the bytes has to be meant: HX_UPDATE=1 writes them anew."""
    store = os.path.join(folder, "golden.db")
    kept = os.path.join(os.environ["HX_SRCDIR"], "test/golden/random.heapsnapshot")
    random_store(store, 3, 7, 6)
    # as it is without a demangler
    data = export(store, 3).stdout.replace(b"app::cache::head", b"_ZN3app5cache4headE")
    if os.environ.get("HX_UPDATE", "0") not in ("", "0"):
        with open(kept, "wb") as f:
            f.write(data)
    with open(kept, "rb") as f:
        want = f.read().replace(b"app::cache::head", b"_ZN3app5cache4headE")
    lines = zip(want.split(b"\n"), data.split(b"\n"))
    check(data == want, f"the bytes are others: {[p for p in lines if p[0] != p[1]][:3]}")


def refusals(folder):
    store = os.path.join(folder, "golden.db")
    for words, status, word in ((("--by", "retainer"), 2, b"heapsnapshot takes: type"),
                                (("--snapshot", "all"), 2, b"one snapshot"),
                                (("--object", "0x10"), 2, b"--object"),
                                (("--snapshot", "99"), 1, b"99")):
        done = run("export", store, "heapsnapshot", *words, status=status)
        check(word in done.stderr and not done.stdout, f"{words}: {done.stderr}")
    out = os.path.join(folder, "x.heapsnapshot")
    run("export", store, "heapsnapshot", "-o", out)
    check(json.load(open(out))["snapshot"]["node_count"] > 0, "nothing in the file")


def main():
    with tempfile.TemporaryDirectory(prefix="hx-heapsnapshot.") as folder:
        random_heaps(folder)
        golden(folder)
        refusals(folder)


main()
