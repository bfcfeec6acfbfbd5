#!/usr/bin/env python3
"""tree.py - how fast the explorer opens, folds and searches a tree of very many cost centres.

    tree.py BUILD [NODES [shape]]

Fills a copy of a small store with a tree of NODES (1,000,000) cost-centre stacks: `mixed` (as
programs have them: some hundred functions, most nodes deep), `wide` (a node with a hundred
thousand children) or `deep` (one chain). Then test/ui/explore plays scripts of keys on it. A time
is that of a script less that of the same script without the keys, by key, best of three.
"""
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time

MAIN = 1


def parents(nodes, shape):
    """The parent of each node from 6 on; a node stands behind its parent."""
    pick = random.Random(1)
    first = MAIN + 5
    for node in range(first, first + nodes):
        if node == first:
            yield MAIN
        elif shape == "deep":
            yield node - 1
        elif shape == "wide" and node < first + 100000:
            yield first
        elif pick.random() < 0.5:
            yield max(first, node - pick.randint(1, 50))
        else:
            yield pick.randint(first, node - 1)


def fill(path, nodes, shape):
    """Two snapshots of costs; what is inherited is summed from the leaves on."""
    pick = random.Random(2)
    centres = 3000
    base = sqlite3.connect(path)
    base.execute("PRAGMA synchronous = off")
    snapshots = [n for (n,) in base.execute("SELECT snapshot FROM snapshots ORDER BY 1")][-2:]
    for table in ("hx_cost", "hx_ccs", "hx_centre", "hx_attributed", "hx_estimate"):
        base.execute(f"DELETE FROM {table}")
    names = ["MAIN", "<before attach>", "<unknown>", "<cut>", "<recorder>"]
    base.executemany(
        "INSERT INTO hx_centre VALUES(?,?,?,?,?,0,NULL,?,NULL)",
        [(i + 1, "builtin", name, "<built-in>", None, i + 1) for i, name in enumerate(names)]
        + [(i, "function", f"function_{i}", f"lib{i % 20}.so", f"source{i % 200}.c:{i}", i)
           for i in range(6, centres)])
    up = [None] + [MAIN] * 4 + list(parents(nodes, shape))
    depth = [0] * len(up)
    rows = []
    seen = set()
    for i, parent in enumerate(up):
        if parent:
            depth[i] = depth[parent - 1] + 1
        centre = i + 1
        while i >= 5 and ((parent, centre) in seen or centre < 6):
            centre = pick.randint(6, centres - 1)
            if shape == "wide" and parent == MAIN + 5:
                centre = centres + i  # more children than functions
        seen.add((parent, centre))
        rows.append((i + 1, parent, depth[i], centre, i))
    base.executemany("INSERT INTO hx_ccs VALUES(?,?,?,?,?,0)", rows)
    del rows, seen
    for k, snapshot in enumerate(snapshots):
        own = [pick.randint(1, 4000) * (k + 1) if i >= 5 else 0 for i in range(len(up))]
        total = own[:]
        count = [1] * len(up)
        for i in range(len(up) - 1, 0, -1):
            total[up[i] - 1] += total[i]
            count[up[i] - 1] += count[i]
        base.executemany(
            "INSERT INTO hx_cost VALUES(?,?,NULL,?,?,?,?,?,?,?,?,?,?)",
            ((snapshot, i + 1, 2 * own[i], 2, own[i], 1, own[i], 1, 2 * total[i], 2 * count[i],
              total[i], count[i]) for i in range(len(up))))
    base.commit()
    base.close()


def play(build, store, keys):
    """Seconds that the explorer takes for some lines of keys."""
    with tempfile.NamedTemporaryFile("w", suffix=".keys") as script:
        script.write("\n".join(keys) + "\n")
        script.flush()
        best = None
        env = dict(os.environ, TERM="xterm", LC_ALL="C.UTF-8", LINES="50", COLUMNS="120")
        for _ in range(3):
            begin = time.monotonic()
            subprocess.run([f"{build}/test/ui/explore", store, script.name], check=True,
                           stdin=subprocess.DEVNULL, env=env, timeout=300)
            took = time.monotonic() - begin
            best = took if best is None else min(best, took)
        return best


def measure(build, store):
    """Each line: what, keys that come before, keys that are measured, how many these are."""
    start = play(build, store, [])
    print(f"{'explorer alone':34} {start * 1000:9.1f} ms")
    for what, before, keys, n in (
            ("open screen 4, and 1", ["4 1"], ["4 1"] * 20, 40),
            ("unfold, fold", ["4 j j"], ["+ -"] * 50, 100),
            ("move", ["4 *"], ["j j j j j k k k k j"] * 20, 200),
            ("unfold all, 10,000 rows", ["4"], ["*"], 1),
            ("fold and unfold among 10,000 rows", ["4 *", ":search function_7", "+"],
             ["- +"] * 20, 40),
            ("page down among 10,000 rows", ["4 *"], ["PgDn"] * 50, 50),
            ("another order of 10,000 rows", ["4 *"], ["> <"] * 2, 4),
            ("next snapshot, 10,000 rows", ["4 *"], ["[ ]"], 2),
            ("search a name", ["4"], [":search function_1234"], 1),
            ("next match", ["4", ":search function_1234"], ["n"] * 4, 4),
            ("filter", ["4"], [":filter live_bytes > 7900"], 1),
            ("differences", ["4"], ["d"], 1),
            ("open a node", ["4 j"], ["Enter"], 1),
            ("open the flame", [], [":screen flame"], 1),
            ("zoom into the flame, and back", [":screen flame", "j j j"], ["Enter Left"] * 10, 20),
    ):
        took = play(build, store, before + keys) - play(build, store, before)
        print(f"{what:34} {took * 1000 / n:9.1f} ms")


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    build = sys.argv[1]
    nodes = int(sys.argv[2]) if len(sys.argv) > 2 else 1000000
    shape = sys.argv[3] if len(sys.argv) > 3 else "mixed"
    with tempfile.TemporaryDirectory() as folder:
        store = os.path.join(folder, "tree.db")
        subprocess.run([f"{build}/test/ui/make_store", store, "3", "60", "recorded"], check=True)
        fill(store, nodes, shape)
        print(f"{nodes} nodes, {shape}, {os.path.getsize(store) >> 20} MiB")
        measure(build, store)


if __name__ == "__main__":
    main()
