#!/usr/bin/env python3
"""tree.py - the explorer's tree against its rows in the store, on trees of several shapes.

    tree.py         HX_SEED chooses sizes and patterns

What is unfolded has to be in the order of the tree, siblings by their bytes; a search has to find
each node whose name matches, in that order, also those that are folded; folding and unfolding at
random must show nothing else than what is in the store. The flame graph has to show each node that
is worth a cell of the line, and no other, also where one was zoomed into.
"""
import csv
import os
import random
import re
import sqlite3
import subprocess
import sys
import tempfile

TOP = os.environ.get("HX_SRCDIR", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
sys.path.insert(0, os.path.join(TOP, "test", "bench"))
import tree  # noqa: E402  test/bench/tree.py makes the stores

FLAME_COLUMNS = 80 - 2 # what the top of the flame has, and the levels that it shows
FLAME_LEVELS = 200
BUILD = os.environ.get("HX_BUILDDIR", os.getcwd())
SLOW = int(os.environ.get("HX_SLOW", "1"))  # as in emulator.py
MAIN = 1


def explore(folder, keys):
    """Plays keys on the store; the explorer says nothing unless something is wrong."""
    script = os.path.join(folder, "script.keys")
    with open(script, "w") as file:
        file.write("\n".join(keys) + "\n")
    env = dict(os.environ, TERM="xterm", LC_ALL="C.UTF-8", LINES="24", COLUMNS="80")
    env.pop("HEAPX_SCRIPT", None)
    run = subprocess.run([f"{BUILD}/test/ui/explore", "tree.db", script], cwd=folder, env=env,
                         stdin=subprocess.DEVNULL, capture_output=True, timeout=200 * SLOW)
    if run.returncode or run.stdout or run.stderr:
        sys.exit(f"FAIL: exit {run.returncode}: {(run.stdout + run.stderr)[:2000]}")


def shown(folder, name):
    """(id, depth, below) of the rows that were written to a file."""
    with open(os.path.join(folder, name)) as file:
        return [(int(row["ccs_id"]), int(row["depth"]), row["below"])
                for row in csv.DictReader(file) if row["ccs_id"]]


def read(folder):
    """The nodes of the last snapshot in the order of the tree, what a search looks at, and what
    each of them has: live and allocated bytes."""
    base = sqlite3.connect(os.path.join(folder, "tree.db"))
    last, = base.execute("SELECT max(snapshot) FROM snapshots").fetchone()
    below = {}
    for node, parent in base.execute(
            "SELECT c.ccs_id, c.parent_id FROM ccs c JOIN costs k ON k.ccs_id = c.ccs_id"
            " WHERE k.snapshot = ? ORDER BY k.inherited_live_bytes DESC, c.ccs_id", (last,)):
        below.setdefault(parent, []).append(node)
    names = {node: " ".join(filter(None, words)) for node, *words in
             base.execute("SELECT ccs_id, label, module, source FROM ccs")}
    bytes_of = {node: figures for node, *figures in base.execute(
        "SELECT ccs_id, inherited_live_bytes, inherited_alloc_bytes FROM costs WHERE snapshot = ?",
        (last,))}
    base.close()
    return below, names, bytes_of


def in_order(below, unfolded):
    """Rows in the order of the tree, of which only some nodes are unfolded (None: all)."""
    rows, waiting = [], [(MAIN, 0)]
    while waiting:
        node, depth = waiting.pop()
        inner = below.get(node, [])
        is_open = inner and (unfolded is None or node in unfolded)
        rows.append((node, depth, "unfolded" if is_open else "folded" if inner else "nothing"))
        if is_open:
            waiting.extend((child, depth + 1) for child in reversed(inner))
    return rows


def goes_on(below, bytes_of, node, first_look):
    """The child that unfolds with its parent: an only one; at the first look also one that has
    nine tenths of what all have."""
    inner = below.get(node, [])
    if len(inner) < 2 or not first_look:
        return inner[0] if len(inner) == 1 else None
    for figure in (0, 1):
        have = [bytes_of[child][figure] for child in inner]
        if sum(have) > 0:
            return inner[have.index(max(have))] if max(have) >= 0.9 * sum(have) else None
    return None


def unfold(below, bytes_of, node, first_look):
    """What is unfolded when a node is."""
    gone_on = [node]
    while len(gone_on) <= 100:
        node = goes_on(below, bytes_of, node, first_look)
        if not below.get(node):
            break
        gone_on.append(node)
    return set(gone_on)


def check_order(folder, below):
    explore(folder, ["4", "-", "*", ":write all.csv"])
    if shown(folder, "all.csv") != in_order(below, None):
        sys.exit("FAIL: the unfolded tree is not in order")


def check_search(folder, below, names, pick):
    pattern = f"unction_[0-9]*{pick.randint(0, 9)}"
    hits = [node for node, _, _ in in_order(below, None) if re.search(pattern, names[node])]
    if not hits:
        return
    backwards = pick.random() < 0.5
    steps = min(30, len(hits) + 3)
    keys = ["4", f":search {pattern}"] + (["N"] if backwards else [])
    for step in range(steps):
        keys += ["i", f":save-display found{step}", "Left", "N" if backwards else "n"]
    explore(folder, keys)
    for step in range(steps):
        with open(os.path.join(folder, f"found{step}")) as file:
            found = int(re.search(r"ccs_id +(\d+)", file.read()).group(1))
        expected = hits[(-1 - step if backwards else step) % len(hits)]
        if found != expected:
            sys.exit(f"FAIL: /{pattern} found {found} in step {step}, not {expected}")


def check_folding(folder, below, bytes_of, pick):
    """The same keys on a tree here."""
    unfolded, cursor, keys = unfold(below, bytes_of, MAIN, True), 0, ["4"]
    for _ in range(60):
        rows = in_order(below, unfolded)
        node, depth, state = rows[cursor]
        key = pick.choice("+++-jjjkkG")
        keys.append(key)
        if key == "+" and state == "folded":
            unfolded |= unfold(below, bytes_of, node, False)
        elif key == "-" and (state == "unfolded" or cursor):
            while state != "unfolded": # what it hangs on
                cursor -= 1
                if rows[cursor][1] < depth:
                    node, depth, state = rows[cursor]
            gone = set()
            for other, other_depth, _ in rows[cursor + 1:]:
                if other_depth <= depth:
                    break
                gone.add(other)
            unfolded -= gone | {node}
        elif key in "jkG":
            cursor = {"j": cursor + 1, "k": cursor - 1, "G": len(rows)}[key]
            cursor = min(max(cursor, 0), len(rows) - 1)
    explore(folder, keys + [":write folded.csv", ":sort label", ":sort inherited_live_bytes",
                            ":write again.csv"])
    expected = in_order(below, unfolded)
    for name in ("folded.csv", "again.csv"):
        if shown(folder, name) != expected:
            sys.exit(f"FAIL: {name} is not what the keys {' '.join(keys)} should show")


def blocks(below, bytes_of, top):
    """(id, depth) of the nodes that a flame graph of this one has to show."""
    least = max(-(-bytes_of[top][0] // FLAME_COLUMNS), 1)
    rows, waiting = [], [(top, 0)]
    while waiting:
        node, depth = waiting.pop()
        rows.append((node, depth))
        if depth + 1 < FLAME_LEVELS:
            waiting.extend((child, depth + 1) for child in reversed(below.get(node, []))
                           if bytes_of[child][0] >= least)
    return rows


def check_flame(folder, below, bytes_of, pick):
    """Zooms in some times; then there and back by way of the tree."""
    keys, expected, top = ["4 v"], [], MAIN
    for step in range(5):
        rows = blocks(below, bytes_of, top)
        keys.append(f":write flame{step}.csv")
        expected.append(rows)
        inner = [(at, node) for at, (node, _) in enumerate(rows) if at and below.get(node)]
        if not inner:
            break
        at, top = pick.choice(inner)
        keys += ["g"] + ["j"] * at + ["Enter"]
    keys += ["v v", ":write back.csv"]
    expected.append(expected[0])
    explore(folder, keys)
    for step, rows in enumerate(expected):
        name = f"flame{step}.csv" if step + 1 < len(expected) else "back.csv"
        found = [(node, depth) for node, depth, _ in shown(folder, name)]
        if found != rows:
            sys.exit(f"FAIL: {name} is not what the keys {' '.join(keys)} should show")


def main():
    seed = int(os.environ.get("HX_SEED") or random.randrange(1 << 31))
    print(f"HX_SEED={seed}")
    pick = random.Random(seed)
    for shape in ("mixed", "wide", "deep"):
        with tempfile.TemporaryDirectory() as folder:
            store = os.path.join(folder, "tree.db")
            subprocess.run([f"{BUILD}/test/ui/make_store", store, "3", "60", "recorded"],
                           check=True)
            tree.fill(store, pick.choice([20, 200, 900]), shape)
            below, names, bytes_of = read(folder)
            check_order(folder, below)
            check_search(folder, below, names, pick)
            check_folding(folder, below, bytes_of, pick)
            check_flame(folder, below, bytes_of, pick)


if __name__ == "__main__":
    main()
