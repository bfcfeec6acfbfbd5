#!/usr/bin/env -S python3 -B
"""tables.py - json, jsonl and csv: every view and object table as others read it, against SQL.

Stores of random heaps with names that try to harm a reader, a recorded one, and one with integers
that doubles cannot hold. Each view in each form has the rows that `heapx sql` gives, of all
snapshots and of one; no number is unsafe, no text a formula, no byte no UTF-8; the same store
gives the same bytes; what there is no data of makes no file.
"""
import collections
import csv
import io
import json
import os
import re
import sqlite3
import subprocess
import sys
import tempfile

BUILD = os.environ.get("HX_BUILDDIR", ".")
HEAPX = os.path.join(BUILD, "heapx")
SAFE = 2**53 - 1
LARGE = ("objects", "edges", "root_edges")
WORDS = {"retainer": "retainers", "bin": "bins", "ccs": "sites", "type": "types",
         "module": "modules", "site": "stacks", "leak": "leaks"}


def run(*arguments, status=0):
    done = subprocess.run([HEAPX, *arguments], capture_output=True, timeout=120,
                          stdin=subprocess.DEVNULL)
    if done.returncode != status:
        sys.exit(f"heapx {' '.join(arguments)}: {done.returncode}, {done.stderr.decode()}")
    return done.stdout


def check(condition, what):
    if not condition:
        sys.exit(f"FAIL: {what}")


# --- what others read --------------------------------------------------------------

def safe_int(digits):
    value = int(digits)
    check(-SAFE <= value <= SAFE, f"the number {digits} is not safe")
    return value


def no_constant(word):
    sys.exit(f"FAIL: {word} is no JSON")


def no_twice(pairs):
    check(len({key for key, _ in pairs}) == len(pairs), f"a key twice in {pairs}")
    return dict(pairs)


def read_json(data):
    return json.loads(data.decode("utf-8", "strict"), parse_int=safe_int,
                      parse_constant=no_constant, object_pairs_hook=no_twice)


def expected(row):
    """A row of SQL as it is exported: integers that are not safe are texts."""
    return {key: str(value) if isinstance(value, int) and abs(value) > SAFE else value
            for key, value in row.items()}


def bag(rows):
    return collections.Counter(json.dumps(row) for row in rows)


def sql(path, statement, form="json"):
    data = run("sql", path, statement, "--format", form)
    return json.loads(data) if form == "json" else data


def same(path, view, what, got, where=""):
    values = sql(path, f"SELECT * FROM {view} {where}")
    want = [expected(row) for row in values]
    check(bag(got) == bag(want), f"{path}: {view} as {what}: {len(got)} rows, {len(want)} wanted")
    return values


def is_formula(text):
    if not text or text == "-" or re.fullmatch(r"[-+]?\d+(\.\d+)?(e[-+]?\d+)?", text):
        return False
    return text[0] in "=+-@'\uff1d\uff0b\uff0d\uff20"


def read_csv(data):
    text = data.decode("utf-8", "strict")
    check("\r" not in text and text.endswith("\n"), "lines end in LF alone")
    return list(csv.reader(io.StringIO(text), strict=True))


def csv_test(path, view, values):
    """One writer: export, sql and report give the same fields, and no text is a formula."""
    rows = read_csv(run("export", path, "csv", "--by", view))
    plain = read_csv(sql(path, f"SELECT * FROM {view}", "csv"))
    check(rows[0] == plain[0], f"the heading of {view}")
    check(sorted(rows[1:]) == sorted(plain[1:]), f"{path}: {view} as CSV")
    if view not in LARGE and not view.startswith("mprof"):  # reports leave small ones of these out
        done = subprocess.run([HEAPX, "report", path, view, "--snapshot", "all", "--format", "csv"],
                              capture_output=True, timeout=60, stdin=subprocess.DEVNULL)
        check(done.returncode == 1 or sorted(read_csv(done.stdout)) == sorted(rows),
              f"{path}: {view} as a report in CSV")
    for fields, row in zip(plain[1:], values):
        for field, value in zip(fields, row.values()):
            if isinstance(value, str):
                shown = field[1:] if field.startswith("'") else field
                check((field != shown) == is_formula(shown), f"guarded: {field!r}")
                check("\\" in shown or shown == value, f"{field!r} is not {value!r}")
    texts = {key for row in values for key, value in row.items() if isinstance(value, str)}
    for fields in rows[1:]:
        for key, field in zip(rows[0], fields):
            check(key not in texts or not is_formula(field) or field[0] == "'",
                  f"a formula: {field}")


# --- the tests ------------------------------------------------------------------------

def views_of(path):
    whole = read_json(run("export", path, "json"))
    return list(whole) + list(LARGE), whole


def refused(path, view):
    """What was never measured is no empty view, as in reports."""
    done = subprocess.run([HEAPX, "report", path, view, "--snapshot", "all"], capture_output=True,
                          timeout=60, stdin=subprocess.DEVNULL)
    if done.returncode == 1 or view in ("account", "biography"):
        run("export", path, "json", "--by", view, status=1)
        return True
    check(run("export", path, "json", "--by", view) == b"[]\n", f"{view} is empty")
    return False


def views_test(path, each):
    """All views in one file; each of them in a file of its own."""
    views, whole = views_of(path)
    lines = collections.defaultdict(list)
    for line in run("export", path, "jsonl").splitlines():
        row = read_json(line)
        check(next(iter(row)) == "view", "a line says first of which view it is")
        lines[row.pop("view")].append(row)
    for view in views:
        if view in whole:
            check(lines[view] == whole[view], f"{view} as lines")
            values = same(path, view, "json", whole[view])
        if view == "ccs": # the word of a break-down, too: see below
            continue
        if view in whole and not whole[view] and refused(path, view):
            continue
        if each or view in LARGE:
            rows = read_json(run("export", path, "json", "--by", view))
            if view in LARGE:
                data = run("export", path, "jsonl", "--by", view)
                check(rows == [read_json(line) for line in data.splitlines()], f"{view} as lines")
                values = same(path, view, "json", rows)
            else:
                check(rows == whole[view], f"{view} alone")
        if each or view in LARGE or view in ("losses", "censuses", "retainers"):
            csv_test(path, view, values)


def censuses_test(path):
    for word, view in WORDS.items():
        if not sql(path, f"SELECT 1 FROM {view} LIMIT 1"):
            continue
        rows = read_json(run("export", path, "json", "--by", word))
        if word == "ccs":
            names = {row["ccs_id"]: row["label"] for row in sql(path, "SELECT ccs_id, label FROM ccs")}
            for row in rows:
                first = row.pop("label").split(" < ")[0]
                check(first == names[row["ccs_id"]], f"{row} is called {first}")
            heading = read_csv(run("export", path, "csv", "--by", "ccs"))[0]
            check(heading[:3] == ["snapshot", "ccs_id", "label"], f"ccs as CSV: {heading}")
        if word != "leak":
            check(rows == read_json(run("export", path, "json", "--by", view)), word)
        sums = collections.Counter()
        for row in rows:
            sums[row["snapshot"]] += int(row["bytes"] or 0)
        for row in sql(path, "SELECT snapshot, heap_bytes FROM snapshots"):
            if row["snapshot"] in sums or word == "leak":
                check(sums[row["snapshot"]] == row["heap_bytes"], f"{word} sums to the heap")
        if word == "leak":
            same(path, "leaks", "leaks", [row for row in rows if row["kind"] != "reachable"])
        for before, row in zip(rows, rows[1:]):
            if word != "site" and before["snapshot"] == row["snapshot"]:
                check(int(before["bytes"]) >= int(row["bytes"]), f"{word}: the largest come first")
    check(run("export", path, "csv") == run("export", path, "csv", "--by", "retainers"),
          "retainers are what CSV has when nothing is said")


def snapshot_test(path):
    for view in ("retainers", "objects", "edges", "snapshots", "types"):
        rows = read_json(run("export", path, "json", "--by", view, "--snapshot", "2"))
        same(path, view, "json of one", rows, "WHERE snapshot = 2")
    rows = read_json(run("export", path, "json", "--by", "objects"))
    places = [(row["snapshot"], int(row["address"])) for row in rows]
    check(places == sorted(places), "objects come by their addresses")


def same_bytes_test(path):
    for form in ("json", "jsonl", "csv"):
        check(run("export", path, form) == run("export", path, form), f"{form} twice")


def absent_test(path, folder):
    out = os.path.join(folder, "absent")
    for form in ("json", "jsonl", "csv"):
        run("export", path, form, "--by", "ccs", "-o", out, status=1)
        check(not os.path.exists(out), "a file without data")
    for word in ("account", "biography"):
        if not sql(path, f"SELECT 1 FROM {word}"):
            run("export", path, "csv", "--by", word, status=1)
    run("export", path, "csv", "--by", "stacks", status=1)


def unsafe(path):
    """Integers at the edge of what doubles hold, and formulas in all columns of a view."""
    with sqlite3.connect(path) as store:
        for number, value in enumerate((2**53 - 1, 2**53, 2**53 + 1, 2**63 - 1, -2**53, -2**63)):
            store.execute("INSERT INTO hx_loss VALUES (1, ?, ?, ?, NULL)",
                          (f"loss {number}", value, -value if value > -2**63 else value))
        for text in ("=1+2", "+1", "-1", "@a", "\t=x", "\r=x", "\n=x", "'=x", "", " =x", "\uff1d1",
                     "a,b", 'a"b', "a\nb", "\\", "\u202e", "\x00x", "x\x1b[2J"):
            store.execute("INSERT INTO hx_loss VALUES (1, ?, 1, 1, 1)", (text,))
        store.execute("INSERT INTO hx_loss VALUES (1, CAST(x'3dff80' AS TEXT), 1, 1, 1)")
        store.execute("UPDATE hx_census SET visits_per_object = 9e999 WHERE snapshot = 1")
        store.execute("UPDATE hx_census SET visits_per_object = 0.1 WHERE snapshot = 2")
    store.close()


def made(folder, name, *command):
    path = os.path.join(folder, name)
    done = subprocess.run([os.path.join(BUILD, command[0]), path, *command[1:]],
                          capture_output=True, timeout=60, check=True)
    sys.stdout.buffer.write(done.stdout)
    return path


def main():
    with tempfile.TemporaryDirectory(prefix="heapx.tables.") as folder:
        seed = os.environ.get("HX_SEED", "7")
        random = made(folder, "random.db", "test/export/random_store", "6", seed)
        recorded = made(folder, "recorded.db", "test/ui/make_store", "3", "40", "recorded")
        bare = made(folder, "bare.db", "test/ui/make_store", "2", "20")
        unsafe(bare)
        for path in (random, recorded, bare):
            views_test(path, path is random)
            same_bytes_test(path)
        snapshot_test(random)
        censuses_test(random)
        censuses_test(recorded)
        absent_test(bare, folder)
    print("tables: all right")


main()
