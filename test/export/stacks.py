#!/usr/bin/env -S python3 -B
"""stacks.py - what heapx writes for tools of stacks, by strict readers of our own.

Random heaps with hostile names, drawn ones and a recorded program, in all four formats by all
words: the sum of each file is heap_bytes of the snapshot, all formats say the same paths, those of
dominators and chains are what the object tables say, those of recorded stacks what the views say.
The same store gives the same bytes; some are kept. What there is no data of makes no file.

    stacks.py [--keep]       --keep: writes the kept bytes anew; HX_SEED: of the random heaps
"""
import collections
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

import stacks_file
from stacks_file import Failure, check

BUILD, SRC = os.environ["HX_BUILDDIR"], os.environ["HX_SRCDIR"]
HEAPX = os.environ.get("HEAPX", os.path.join(BUILD, "heapx"))
WORDS = ("ccs", "site", "dominator", "holder", "chain", "retainer", "bin", "type", "module", "leak")
FORMATS = ("folded", "pprof", "speedscope", "flamegraph")
SEED = int(os.environ.get("HX_SEED") or random.randrange(1 << 30))
QUICK = os.environ.get("HX_QUICK", "0") not in ("", "0")
ROUNDS = 5
LONG = 128


def heapx(*words, status=0):
    done = subprocess.run([HEAPX, *map(str, words)], stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=120)
    check(done.returncode == status,
          f"heapx {words}: {done.returncode}, {done.stderr.decode(errors='replace')[:400]}")
    return done


def rows(store, sql):
    return json.loads(heapx("sql", store, sql, "--format", "json").stdout)


def export(store, form, by, snapshot, folder):
    """The bytes of a file; None when the store has no such data, and then there is no file."""
    out = os.path.join(folder, "out")
    words = ["export", store, form, "-o", out, "--snapshot", snapshot] + (["--by", by] if by else [])
    done = subprocess.run([HEAPX, *map(str, words)], stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=120)
    if done.returncode == 1:
        check(b"has no data to export by" in done.stderr, f"{words}: {done.stderr}")
        check(not os.path.exists(out), "a file without data")
        return None
    check(done.returncode == 0, f"{words}: {done.returncode} {done.stderr[:400]}")
    check(done.stdout == b"", "something on stdout")
    with open(out, "rb") as file:
        data = file.read()
    os.unlink(out)
    return data


# --- what the files say together -------------------------------------------------------

def short(paths):
    """Folded names have no ';'."""
    merged = collections.Counter()
    for path, value in paths.items():
        if value:
            merged[tuple(name.replace(";", "\\x3b") for name in path)] += value
    return dict(merged)


def boxes_test(boxes, paths, total):
    sums = collections.Counter()
    for path, value in paths.items():
        sums[0, "all"] += value
        for level, name in enumerate(path, 1):
            sums[level, name] += value
    check(not total or (0, 0.0, 100.0, "all", total) in boxes, "the whole")
    found = collections.Counter()
    for level, start, end, name, value in boxes:
        check(abs((end - start) / 100 - value / total) < 2e-5, f"width of {name!r}")
        found[level, name] += value
    for (level, name), value in found.items():
        name = name.replace(";", "\\x3b")
        if name not in ("(other)", "(deeper)"):
            check(value <= sums[level, name], f"{name!r}: {value} of {sums[level, name]}")
    for (level, name), value in sums.items(): # nothing that can be seen is missing
        if value > total / 2 and level < LONG:
            check(any(f[1].replace(";", "\\x3b") == name for f in found if f[0] == level),
                  f"no box of {name!r}")


def formats_test(store, by, snapshot, total, folder):
    """The folded paths, the pprof values; None where there is no data."""
    made = {form: export(store, form, by, snapshot, folder) for form in FORMATS}
    if made["folded"] is None:
        check(not any(made.values()), f"{by}: absent in one format only")
        return None
    for form, data in made.items():
        check(export(store, form, by, snapshot, folder) == data, f"{form} by {by} changes")
    paths = stacks_file.folded(made["folded"])
    check(sum(paths.values()) == total, f"{by}: {sum(paths.values())} of {total} bytes")
    _, types, values = stacks_file.profile(made["pprof"])
    space = types.index("inuse_space")
    check(short({path: v[space] for path, v in values.items()}) == paths, f"pprof by {by}")
    profiles, _ = stacks_file.speedscope(made["speedscope"])
    (name, weights), = profiles.items()
    check(name.startswith(f"snapshot {snapshot}, by "), name)
    check(short(weights) == paths, f"speedscope by {by}")
    boxes_test(stacks_file.flamegraph(made["flamegraph"]), paths, total)
    return paths, types, values


# --- merged trees ------------------------------------------------------------------------

def tree_test(store, snapshot, paths, view):
    """Its paths are those of the view, where no name has to be escaped."""
    way, expected = {None: ()}, collections.Counter()
    for row in rows(store, f"SELECT node, parent, label, bytes FROM {view} WHERE snapshot = "
                    f"{snapshot} ORDER BY node"):
        if not plain([row["label"]]):
            return
        way[row["node"]] = way[row["parent"]] + (row["label"] or "(unknown)",)
        expected[way[row["node"]]] += row["bytes"]
    check(+expected == collections.Counter(paths), f"{view} of {store}: {expected} {paths}")


def without_trees(store, folder):
    """As a heapx left it that knew no trees."""
    older = os.path.join(folder, "older.db")
    shutil.copy(store, older)
    done = subprocess.run(["sqlite3", older, "DELETE FROM hx_tree"], capture_output=True, timeout=60)
    check(done.returncode == 0, f"sqlite3: {done.stderr}")
    return older


# --- dominators and chains from the object tables --------------------------------------

def walk(objects, above):
    """{address: (type, type, ...)} along `above`, the root first; a type after itself is one."""
    paths = {}
    for start in objects:
        way, at = [], start
        while at is not None and at not in paths:
            way.append(at)
            at = above[at]
        path = paths[at] if at is not None else ()
        for at in reversed(way):
            kind = objects[at]["type"]
            path = path if path and path[-1] == kind else path + (kind,)
            paths[at] = path
    return paths


def plain(names):
    return all(name.isascii() and name.isprintable() and "\\" not in name and
               ";" not in name and "_Z" not in name for name in names)


def dominators_test(store, snapshot, paths):
    objects = {o["address"]: o for o in rows(store, "SELECT address, bytes, coalesce(type, "
               "'(unknown)') AS type, state, dominator FROM objects WHERE snapshot = "
               f"{snapshot}")}
    lost = {a for a, o in objects.items() if o["state"] in ("definite", "indirect")}
    check(paths.get(("(unreachable)",), 0) == sum(objects[a]["bytes"] for a in lost), "lost ones")
    leaves, expected = collections.Counter(), collections.Counter()
    for path, value in paths.items():
        leaves[path[1:]] += value if path != ("(unreachable)",) else 0
    leaves = +leaves
    kinds = {o["type"] for o in objects.values()}
    if not plain(kinds):
        return False
    ways = walk(objects, {a: o["dominator"] for a, o in objects.items()})
    if any(len(way) >= LONG for way in ways.values()):
        return False
    for address, way in ways.items():
        if address not in lost:
            expected[way] += objects[address]["bytes"]
    check(+expected == leaves, f"dominators of {store}: {expected} {leaves}")
    return True


def chains_test(store, snapshot, paths):
    """No chain is longer than the shortest, and each begins at a root that there is."""
    objects = {o["address"]: o for o in rows(store, "SELECT address, bytes, coalesce(type, "
               f"'(unknown)') AS type, state FROM objects WHERE snapshot = {snapshot}")}
    lost = sum(o["bytes"] for o in objects.values() if o["state"] in ("definite", "indirect"))
    check(paths.get(("(unreachable)",), 0) == lost, "lost ones by chain")
    by_type, found = collections.Counter(), collections.Counter()
    for o in objects.values():
        if o["state"] not in ("definite", "indirect"):
            by_type[o["type"]] += o["bytes"]
    if not plain(by_type):
        return
    for path, value in paths.items():
        if path != ("(unreachable)",):
            found[path[-1]] += value
    check(found == by_type, f"leaves of chains: {found} {by_type}")


# --- recorded stacks --------------------------------------------------------------------

def costs_test(store, snapshot, by, types, values):
    view = "costs" if by == "ccs" else "stacks"
    said = rows(store, f"SELECT sum(alloc_objects) AS o, sum(alloc_bytes) AS b FROM {view} "
                f"WHERE snapshot = {snapshot}")[0]
    if said["b"] is None:
        check("alloc_space" not in types, f"{by}: costs that nobody measured")
        return
    for name, key in (("alloc_objects", "o"), ("alloc_space", "b")):
        check(sum(v[types.index(name)] for v in values.values()) == said[key],
              f"{by}: {name} of {store}")


# --- stores -------------------------------------------------------------------------------

def store_test(store, folder, words=WORDS):
    exact = 0
    for s in rows(store, "SELECT snapshot, heap_bytes, heap_objects FROM snapshots"):
        for by in words:
            made = formats_test(store, by, s["snapshot"], s["heap_bytes"], folder)
            if made is None:
                check(by in ("ccs", "site", "module", "bin", "dominator", "holder", "retainer") or
                      not s["heap_objects"], f"no data by {by}")
                continue
            paths, types, values = made
            check(sum(v[types.index("inuse_objects")] for v in values.values()) ==
                  s["heap_objects"], f"{by}: objects")
            if by == "dominator":
                tree_test(store, s["snapshot"], paths, "tree")
                older = without_trees(store, folder)
                paths, types, values = formats_test(older, by, s["snapshot"], s["heap_bytes"],
                                                    folder)
                exact += dominators_test(older, s["snapshot"], paths)
            if by == "holder":
                tree_test(store, s["snapshot"], paths, "holder_tree")
            if by == "chain":
                chains_test(store, s["snapshot"], paths)
            if by in ("ccs", "site"):
                costs_test(store, s["snapshot"], by, types, values)
            else:
                check("alloc_space" not in types, f"{by}: costs")
            if by not in ("ccs", "site", "dominator", "holder", "chain"):
                check(all(len(path) == 1 for path in paths), f"{by}: more than one frame")
    return exact


def recorded_test(folder):
    store = os.path.join(folder, "recorded.db")
    subprocess.run([HEAPX, "run", "-o", store, "--at-exit", "--", "python3", "-c",
                    "x = [str(i) * 9 for i in range(3000)]"], stdin=subprocess.DEVNULL,
                   capture_output=True, timeout=120, check=False)
    store_test(store, folder, ("ccs", "site"))
    data = export(store, "pprof", "site", 1, folder)
    made, types, _ = stacks_file.profile(data)
    check(len(types) == 4, f"{types}")
    check("python" in made["strings"][made["mappings"][0]["file"]], "the program comes first")
    lines = [line for location in made["locations"] for line in location["lines"]]
    check(any(line["line"] for line in lines), "no line of any call")
    _, frames = stacks_file.speedscope(export(store, "speedscope", "site", 1, folder))
    check(any("line" in frame and "file" in frame for frame in frames), "no line of any frame")
    check(export(store, "folded", None, 1, folder) == export(store, "folded", "ccs", 1, folder),
          "without --by it is not by ccs")


def deep_test(folder):
    """A list of two types in turn, and stacks more and deeper than readers take."""
    store = os.path.join(folder, "deep.db")
    make_store(store, 2, 12, "recorded")
    sql = ["BEGIN"]
    parent, top = 1, 100000
    for i in range(3):
        sql.append("INSERT INTO hx_centre(centre, kind, label, module) VALUES"
                   f"({490000 + i}, 'function', '_ZN3app5cache4headE', 'm{i}')")
    for i in range(1500): # deeper than what readers take
        sql.append("INSERT INTO hx_ccs(ccs_id, parent_id, depth, centre) VALUES"
                   f"({top + i}, {parent}, {i + 1}, {490000 + i % 3})")
        parent = top + i
    sql.append(f"INSERT INTO hx_site(snapshot, ccs_id, bytes, objects) VALUES(2, {parent}, 77, 7)")
    sql.append("INSERT INTO hx_centre(centre, kind, label) WITH RECURSIVE n(i) AS (SELECT 0 UNION "
               "ALL SELECT i + 1 FROM n WHERE i < 19999) SELECT 500000 + i, 'function', "
               "'f' || i || char(59, 10, 8238) || x'ff' FROM n")
    sql.append("INSERT INTO hx_ccs(ccs_id, parent_id, depth, centre) SELECT centre, 1, 1, centre "
               "FROM hx_centre WHERE centre >= 500000")
    sql.append("INSERT INTO hx_site(snapshot, ccs_id, bytes, objects) SELECT 2, centre, "
               "centre % 97 + 16, 1 FROM hx_centre WHERE centre >= 500000")
    sql.append("UPDATE hx_centre SET label = replace(hex(zeroblob(50000)), '00', 'é') "
               "WHERE centre = 500007")
    sql.append("UPDATE hx_ccs SET parent_id = 500100 WHERE ccs_id = 500000") # no parent at all
    sql.append("COMMIT")
    done = subprocess.run(["sqlite3", store], input=";\n".join(sql) + ";\n", text=True,
                          capture_output=True, timeout=60)
    check(done.returncode == 0 and not done.stderr, f"sqlite3: {done.stderr}")
    total = rows(store, "SELECT sum(bytes) AS b, sum(objects) AS o FROM sites WHERE snapshot = 2")
    total, objects = total[0]["b"], total[0]["o"]
    paths = stacks_file.folded(export(store, "folded", "ccs", 2, folder))
    check(sum(paths.values()) == total, "deep stacks: bytes")
    check(max(map(len, paths)) == 1000 and any(p[-1] == "(deeper)" for p in paths), "depth")
    check(any("\\x3b\\n\\u{202e}" in path[-1] or "\\x3b\\x0a" in path[-1] for path in paths),
          "names that are escaped")
    _, types, values = stacks_file.profile(export(store, "pprof", "ccs", 2, folder))
    check(sum(v[types.index("inuse_space")] for v in values.values()) == total, "merged: bytes")
    check(sum(v[types.index("inuse_objects")] for v in values.values()) == objects,
          "merged: objects")
    check(any(path[-1] == "(other)" for path in values), "nothing was merged")
    costs_test(store, 2, "ccs", types, values)
    profiles, _ = stacks_file.speedscope(export(store, "speedscope", "ccs", 2, folder))
    check(sum(next(iter(profiles.values())).values()) == total, "speedscope: bytes")
    boxes = stacks_file.flamegraph(export(store, "flamegraph", "ccs", 2, folder))
    check(boxes[0][4] == total, "flame graph: bytes")
    note = heapx("export", store, "pprof", "--by", "ccs", "-o", os.path.join(folder, "n")).stderr
    check(b"(other)" in note and b"(deeper)" in note, f"{note}")
    check(any("...#" in path[-1] and len(path[-1]) < 20000 for path in paths), "a name is cut")


def series_test(store, folder):
    data = export(store, "speedscope", "type", "all", folder)
    profiles, _ = stacks_file.speedscope(data)
    said = [s["heap_bytes"] for s in rows(store, "SELECT heap_bytes FROM snapshots")]
    check([sum(p.values()) for p in profiles.values()] == said, "all snapshots")
    heapx("export", store, "folded", "--snapshot", "all", status=2)
    heapx("export", store, "folded", "--by", "nobody", status=2)


def make_store(path, snapshots, nodes, *words):
    done = subprocess.run([os.path.join(BUILD, "test/ui/make_store"), path, str(snapshots),
                           str(nodes), *words], capture_output=True, timeout=60, check=False)
    check(done.returncode == 0, f"make_store: {done.stderr}")


def kept_test(folder):
    store = os.path.join(folder, "kept.db")
    make_store(store, 2, 12, "recorded")
    for by in ("ccs", "site", "dominator", "chain"):
        name = os.path.join(SRC, f"test/golden/stacks-{by}.folded")
        data = export(store, "folded", by, 2, folder)
        if "--keep" in sys.argv:
            with open(name, "wb") as file:
                file.write(data)
        with open(name, "rb") as file:
            check(file.read() == data, f"{name} is not what is written now")


def main():
    print(f"HX_SEED={SEED}")
    if not os.path.exists(os.path.join(BUILD, "test/ui/make_store")):
        print("skipped: test/ui/make_store is not built without the explorer")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        kept_test(folder)
        deep_test(folder)
        if QUICK:  # words.py writes the formats, too
            print("the kept stacks and deep ones are right")
            return
        exact = 0
        store = os.path.join(folder, "drawn.db")
        make_store(store, 2, 60, "recorded")
        exact += store_test(store, folder)
        series_test(store, folder)
        for seed in range(SEED, SEED + 20): # few names are plain ones, which can be compared
            store = os.path.join(folder, f"random{seed}.db")
            done = subprocess.run([os.path.join(BUILD, "test/export/random_store"), store,
                                   str(ROUNDS), str(seed)], capture_output=True, timeout=60)
            check(done.returncode == 0, f"random_store: {done.stderr}")
            exact += store_test(store, folder)
            if exact:
                break
        check(exact, "no heap was compared object by object")
        recorded_test(folder)
    print("all formats agree with the store")


if __name__ == "__main__":
    try:
        main()
    except Failure as failure:
        print(f"FAILED (HX_SEED={SEED}): {failure}")
        sys.exit(1)
