#!/usr/bin/env -S python3 -B
"""pictures.py - svg and dot: well-formed, inside their page, and of the same figures as the views.

Drawings of random heaps with names that try to harm a reader, of series of 1, 2, 20 and 700
snapshots, of every break-down and of many root bins. The bytes of areas, bars and dots are those
of SQL; texts are inside the page and do not lie on each other, also with the larger letters of
narrow screens; graphs pass a parser that is stricter than Graphviz, and what they draw is there.
"""
import collections
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

BUILD = os.environ.get("HX_BUILDDIR", ".")
HEAPX = os.path.join(BUILD, "heapx")
SVG = "{http://www.w3.org/2000/svg}"
LETTERS = 18
WORDS = ("retainer", "bin", "ccs", "type", "module", "site", "leak", "account", "biography")


def run(*arguments, status=0):
    done = subprocess.run([HEAPX, *arguments], capture_output=True, timeout=120,
                          stdin=subprocess.DEVNULL)
    if done.returncode != status:
        sys.exit(f"heapx {' '.join(arguments)}: {done.returncode}, {done.stderr.decode()}")
    return done.stdout


def check(condition, what):
    if not condition:
        sys.exit(f"FAIL: {what}")


def rows(path, statement):
    """Through heapx, which knows the object tables."""
    data = run("sql", path, statement, "--format", "csv").decode()
    return [line.split(",") for line in data.splitlines()[1:]]


# --- SVG ---------------------------------------------------------------------------------

def parse(data):
    data.decode("utf-8", "strict")
    for harm in (b"<script", b"onload", b"<foreignObject", b"href"):
        check(harm not in data, f"a drawing has {harm}")
    page = ElementTree.fromstring(data)
    check(page.tag == SVG + "svg" and page.get("width") == "100%", "a drawing fills its room")
    check(page.find(SVG + "title").text and page.find(SVG + "desc").text, "a title and a text")
    check(b"prefers-color-scheme:dark" in data, "a dark one, too")
    return page


def least_width(text):
    """Of any usual font, no more than that."""
    return sum(0.25 if c in " iIjl.,:;'|!()[]ft" else 0.5 for c in text) * LETTERS


def boxes(page):
    """The texts, roughly: left, top, right, bottom."""
    for text in page.iter(SVG + "text"):
        shown = "".join(part or "" for part in [text.text, *[child.tail for child in text]])
        width, upright = least_width(shown), text.get("transform")
        if upright:
            x, y = map(float, re.match(r"translate\((\S+) (\S+)\) rotate", upright).groups())
            yield shown, (x - LETTERS / 2, y - width, x + LETTERS / 2, y)
            continue
        x, y = float(text.get("x")), float(text.get("y"))
        left = {"middle": x - width / 2, "end": x - width}.get(text.get("text-anchor"), x)
        yield shown, (left, y - 0.72 * LETTERS, left + width, y + 0.2 * LETTERS)


def texts_test(page, name):
    _, _, width, height = map(float, page.get("viewBox").split())
    texts = list(boxes(page))
    for i, (text, box) in enumerate(texts):
        check(box[0] >= 0 and box[1] >= 0 and box[2] <= width and box[3] <= height,
              f"{name}: '{text}' is not inside: {box}")
        for other, beside in texts[:i]:
            apart = (box[0] >= beside[2] or beside[0] >= box[2] or box[1] >= beside[3]
                     or beside[1] >= box[3])
            check(apart, f"{name}: '{text}' lies on '{other}'")
    numbers = re.findall(r"[-0-9.]+", " ".join(path.get("d", "") for path in
                                               page.iter(SVG + "path")))
    check(all(-1 <= float(number) <= max(width, height) for number in numbers), f"{name}: a path")


def census_view(word):
    return {"retainer": "retainers", "bin": "bins", "ccs": "sites", "type": "types",
            "module": "modules", "site": "hx_stack_site", "account": "account",
            "biography": "biography", "leak": "snapshots"}[word]


def sums(path, word):
    column = "heap_bytes" if word == "leak" else "bytes"
    return {int(snapshot): int(total) for snapshot, total in rows(
        path, f"SELECT snapshot, sum({column}) FROM {census_view(word)} GROUP BY 1")}


def areas_test(path, word, page):
    group = next(g for g in page.iter(SVG + "g") if g.get("data-snapshots"))
    snapshots = [int(number) for number in group.get("data-snapshots").split()]
    total, want = collections.Counter(), sums(path, word)
    for band in group.findall(SVG + "path"):
        values = band.get("data-bytes").split()
        check(len(values) == len(snapshots), "a value of each snapshot")
        for snapshot, value in zip(snapshots, values):
            check((value == "-") == (snapshot not in want), "only what is known has values")
            total[snapshot] += int(value) if value != "-" else 0
    for snapshot in snapshots:
        check(total[snapshot] == want.get(snapshot, 0), f"{path}: {word} in {snapshot}")
    return snapshots


def series_test(path, word):
    data = run("export", path, "svg", "--by", word)
    check(data == run("export", path, "svg", "--by", word), "the same bytes")
    page = parse(data)
    texts_test(page, f"{path} by {word}")
    return areas_test(path, word, page)


def bars_test(path, word, snapshot):
    page = parse(run("export", path, "svg", "--by", word, "--snapshot", str(snapshot)))
    texts_test(page, f"{path} by {word} in {snapshot}")
    total = sum(int(g.get("data-bytes")) for g in page.iter(SVG + "g") if g.get("data-bytes"))
    check(total == sums(path, word)[snapshot], f"{path}: bars by {word}")


def bins_test(path, snapshot):
    page = parse(run("export", path, "svg", "--by", "bin", "--snapshot", str(snapshot)))
    texts_test(page, f"bins of {path} in {snapshot}")
    bins = collections.Counter()
    for group in page.iter(SVG + "g"):
        if group.get("class") == "bin":
            bins[group.get("data-roots")] += int(group.get("data-bytes"))
            dots = [c for c in group.iter(SVG + "circle") if c.get("class") == "in"]
            members = group.get("data-roots").split("+")
            check(not group.get("data-roots") or len(dots) == len(members), f"dots of {members}")
    check(sum(bins.values()) == sums(path, "bin")[snapshot], "bins sum to the heap")
    for roots, size in rows(path, "SELECT replace(roots, ',', ';'), sum(bytes) FROM bins WHERE"
                                  f" snapshot = {snapshot} AND roots NOT LIKE '%\"%'"
                                  " AND roots NOT GLOB '*[^ -~]*' GROUP BY roots"):
        check(roots not in bins or bins[roots] == int(size), f"the bin {roots}")
    for group in page.iter(SVG + "g"):
        check(group.get("class") != "set" or int(group.get("data-bytes")) >= 0, "a set")


# --- dot ---------------------------------------------------------------------------------

TOKEN = re.compile(r'\s*(?:("(?:[^"\\\n]|\\["\\n])*")|([A-Za-z][A-Za-z_]*|-?[0-9.]+)|(->|[{}\[\];=,]))')


def tokens(text):
    at = 0
    while text[at:].strip():
        match = TOKEN.match(text, at)
        check(match, f"no dot: {text[at:at + 60]!r}")
        yield match.group(1) or match.group(2) or match.group(3)
        at = match.end()


def graph(data):
    """Nodes with their attributes, edges; ids are quoted, nothing is used before it is there."""
    words = list(tokens(data.decode("utf-8", "strict")))
    check(words[:3] == ["digraph", '"heapx"', "{"] and words[-1] == "}", "one graph")
    check(not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", data), "control characters")
    nodes, edges, i = {}, [], 3
    while words[i] != "}":
        names = [words[i]]
        i += 1
        while words[i] == "->":
            names.append(words[i + 1])
            i += 2
        check(words[i] == "[", f"attributes of {names}")
        attributes, i = {}, i + 1
        while words[i] != "]":
            check(words[i + 1] == "=", f"{words[i:i + 3]}")
            attributes[words[i]] = words[i + 2]
            i += 3
            i += words[i] == ","
        check(words[i + 1] == ";", "a statement ends")
        i += 2
        if names[0] in ("graph", "node", "edge"):
            continue
        check(all(name.startswith('"') for name in names), f"{names} are not quoted")
        if len(names) == 1:
            check(names[0] not in nodes, f"{names[0]} twice")
            nodes[names[0].strip('"')] = attributes
        else:
            edges.append(tuple(name.strip('"') for name in names))
    check(all(end in nodes for edge in edges for end in edge), "edges between nodes")
    check(len(nodes) < 2000, "a graph that can be drawn")
    return nodes, edges


def address(node):
    return int(node, 16) if node.startswith("0x") else None


def chains_test(path, snapshot, target):
    nodes, edges = graph(run("export", path, "dot", "--by", "chain", "--object", str(target),
                             "--snapshot", str(snapshot)))
    known = {(int(a), int(b)) for a, b in rows(
        path, f"SELECT source, target FROM edges WHERE snapshot = {snapshot}")}
    roots = {(f"root {a}", int(b)) for a, b in rows(
        path, f"SELECT root_id, target FROM root_edges WHERE snapshot = {snapshot}")}
    for a, b in edges:
        check((address(a), address(b)) in known or (a, address(b)) in roots, f"no edge {a} -> {b}")
    check(hex(target) in nodes, "the object is there")
    state = rows(path, f"SELECT state FROM objects WHERE snapshot = {snapshot}"
                       f" AND address = {target}")[0][0]
    reached, more = {a for a, _ in edges if a.startswith("root")}, True
    while more:
        more = {b for a, b in edges if a in reached} - reached
        reached |= more
    if state in ("definite", "indirect"):
        check(not edges, "nothing leads to what is lost")
    else:
        check(hex(target) in reached, f"a chain leads to {target:#x}")


def dominators_test(path, snapshot, target=None):
    extra = ["--object", str(target)] if target else []
    if not rows(path, f"SELECT 1 FROM dominators WHERE snapshot = {snapshot} LIMIT 1"):
        run("export", path, "dot", "--by", "dominator", "--snapshot", str(snapshot), status=1)
        return
    nodes, edges = graph(run("export", path, "dot", "--by", "dominator", "--snapshot",
                             str(snapshot), *extra))
    parents = {int(a): int(b or 0) for a, b in rows(
        path, f"SELECT address, dominator FROM objects WHERE snapshot = {snapshot}")}
    for a, b in edges:
        if address(b):
            check(parents[address(b)] == (address(a) or 0), f"{a} does not dominate {b}")
        else:
            check(b == f"rest of {a}", f"the rest of {a}")
    check(len(edges) == len(nodes) - 1, "a tree")


def types_test(path, snapshot):
    nodes, edges = graph(run("export", path, "dot", "--by", "type", "--snapshot", str(snapshot)))
    want = rows(path, "SELECT count(*) FROM (SELECT DISTINCT coalesce(a.type, ''),"
                      " coalesce(b.type, '') FROM edges AS e JOIN objects AS a ON a.snapshot ="
                      " e.snapshot AND a.address = e.source JOIN objects AS b ON b.snapshot ="
                      f" e.snapshot AND b.address = e.target WHERE e.snapshot = {snapshot})")
    check(len(edges) == int(want[0][0]), f"{len(edges)} kinds of references, not {want}")
    kinds = rows(path, f"SELECT count(*) FROM types WHERE snapshot = {snapshot}")
    check(len(nodes) == int(kinds[0][0]), f"{len(nodes)} types, not {kinds}")


# --- stores --------------------------------------------------------------------------------

def made(folder, name, *command):
    path = os.path.join(folder, name)
    done = subprocess.run([os.path.join(BUILD, command[0]), path, *command[1:]],
                          capture_output=True, timeout=60, check=True)
    sys.stdout.buffer.write(done.stdout)
    return path


def crowded_bins(path, n):
    """As many named roots as given, with every kind of name, and more bins than columns."""
    names = [f"root {i}" if i % 7 else f"<&\"{'long ' * 9}{i}" for i in range(n)]
    with sqlite3.connect(path) as store:
        store.execute("DELETE FROM hx_bin WHERE snapshot = 1")
        store.execute("DELETE FROM hx_named WHERE snapshot = 1")
        for i, name in enumerate(names):
            store.execute("INSERT INTO hx_named VALUES (1, ?, ?, NULL, 0)", (i, name))
        for i in range(3 * n):
            roots = "+".join(name for j, name in enumerate(names) if i >> j % 11 & 1 and j <= i)
            store.execute("INSERT INTO hx_bin VALUES (1, ?, ?, ?, 1)",
                          (i, f"{roots or '-'}", 1 << i % 40))
    store.close()


def long_series(path, n):
    """Snapshots that are rows only, at uneven times; some without the census."""
    with sqlite3.connect(path) as store:
        columns = [row[1] for row in store.execute("PRAGMA table_info(hx_snapshot)")]
        values = ", ".join({"snapshot": "?1", "taken_at_ns": "?2", "started_at_ns": "NULL"}.get(
            column, column) for column in columns)
        for i in range(3, n + 1):
            store.execute(f"INSERT INTO hx_snapshot SELECT {values} FROM hx_snapshot WHERE"
                          " snapshot = 1", (i, 1767323135500000000 + i * i * 10**9))
            if i % 9:
                store.execute("INSERT INTO hx_retention SELECT ?, set_id, bytes * ? + set_id,"
                              " objects FROM hx_retention WHERE snapshot = 1", (i, i * i % 40))
    store.close()


def main():
    with tempfile.TemporaryDirectory(prefix="heapx.pictures.") as folder:
        random = made(folder, "random.db", "test/export/random_store", "9",
                      os.environ.get("HX_SEED", "11"))
        recorded = made(folder, "recorded.db", "test/ui/make_store", "2", "30", "recorded")
        crowd = made(folder, "crowd.db", "test/ui/make_store", "20", "40", "crowd")
        bins = made(folder, "bins.db", "test/ui/make_store", "1", "20")
        lone = made(folder, "lone.db", "test/ui/make_store", "2", "20")
        for word in WORDS:
            for path in (random, recorded):
                if word == "bin" or not sums(path, word):
                    continue
                series_test(path, word)
                bars_test(path, word, max(sums(path, word)))
        check(len(series_test(crowd, "retainer")) == 20, "twenty snapshots")
        long_series(lone, 60 if os.environ.get("HX_QUICK") else 700)
        check(1 < len(series_test(lone, "retainer")) <= 700, "many snapshots")
        for snapshot in (1, 5, 9):
            bins_test(random, snapshot)
        for n in (2, 12, 64, 70):
            crowded_bins(bins, n)
            bins_test(bins, 1)
        run("export", bins, "svg", "--by", "biography", status=1)

        for snapshot in (1, 4, 9):
            for place in rows(random, f"SELECT address FROM objects WHERE snapshot = {snapshot}"
                                      " ORDER BY address % 13 LIMIT 4"):
                chains_test(random, snapshot, int(place[0]))
            dominators_test(random, snapshot)
            types_test(random, snapshot)
        top = rows(crowd, "SELECT address FROM dominators WHERE snapshot = 20 LIMIT 1")
        dominators_test(crowd, 20)
        dominators_test(crowd, 20, int(top[0][0]))
        check(run("export", crowd, "dot") == run("export", crowd, "dot"), "the same bytes")
        run("export", crowd, "dot", "--object", "1", status=1)
        run("export", crowd, "dot", "--by", "type", "--object", "1", status=2)
    print("pictures: all right")


main()
