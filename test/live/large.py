#!/usr/bin/env -S python3 -B
"""large.py - stores that hold far more than a heap would: names of a megabyte, many thousands of types.

Names are cut where a store is read, those that differ only behind the cut stay apart, sums stay
what they are; diff ends when it is told to.
"""
import csv
import io
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

BUILD = os.environ.get("HX_BUILDDIR", ".")
HEAPX = os.path.join(BUILD, "heapx")
LONGEST = 4096
TYPES = 10000 if os.environ.get("HX_QUICK") else 40000


def check(condition, what):
    if not condition:
        sys.exit(f"FAIL: {what}")


def run(*arguments, status=(0, 1, 3)):
    done = subprocess.run([HEAPX, *arguments], capture_output=True, timeout=200,
                          stdin=subprocess.DEVNULL)
    check(done.returncode in status, f"heapx {' '.join(arguments)}: {done.stderr.decode()}")
    return done.stdout


def names(path):
    """Of types, roots, retainers, threads and the program, alike in their first megabyte."""
    name = "ns::" + "x" * 1_000_000
    with sqlite3.connect(path) as store:
        types = [row for row, in store.execute("SELECT type FROM hx_type WHERE snapshot = 1")][:3]
        roots = [row for row, in store.execute("SELECT root_id FROM hx_root WHERE snapshot = 1")][:3]
        for number in types:
            store.execute("UPDATE hx_type SET name = ? WHERE snapshot = 1 AND type = ?",
                          (f"{name}{number}", number))
        for number in roots:
            store.execute("UPDATE hx_root SET name = ? WHERE snapshot = 1 AND root_id = ?",
                          (f"{name}{number}", number))
        store.execute("UPDATE hx_retainer SET label = ? || retainer WHERE retainer <= 3", (name,))
        store.execute("UPDATE hx_snapshot SET comm = ?", (name,))
        store.execute("INSERT OR REPLACE INTO hx_thread(snapshot, tid, name) VALUES (1, 99, ?)", (name,))
    store.close()
    return types


def names_test(path):
    def rows(view):
        out = run("report", path, view, "--snapshot", "1", "--format", "csv").decode()
        return list(csv.DictReader(io.StringIO(out)))
    before = {row["type"]: row["bytes"] for row in rows("types")}
    types = names(path)
    after = rows("types")
    cut = [row for row in after if row["type"].startswith("ns::xxx")]
    check(len(types) == 3 and len({row["type"] for row in cut}) == 3, "names are one behind the cut")
    check(all(len(row["type"]) == LONGEST for row in cut), "they are not as long as they may be")
    check(sorted(row["bytes"] for row in after) == sorted(before.values()), "the sums are others")
    for view in ("types", "pages", "roots", "retainers", "retainer_members", "snapshots", "threads",
                 "dominators", "bins", "leaks"):
        out = run("report", path, view, "--snapshot", "1")
        check(len(out) < 500_000, f"{view}: {len(out)} bytes")
    for command in (("diff", f"{path}:1", f"{path}:2", "types"), ("export", path, "folded", "--by", "type"),
                    ("export", path, "hp", "--by", "type"), ("export", path, "csv", "--by", "types")):
        out = run(*command)
        check(len(out) < 500_000, f"{command}: {len(out)} bytes")
    objects = rows("objects")
    check({row["type"] for row in objects} <= {row["type"] for row in after} | {""},
          "objects call their types otherwise")


def types_test(path):
    with sqlite3.connect(path) as store:
        store.execute("DELETE FROM hx_type")
        for snapshot in 1, 2:
            store.executemany(
                "INSERT INTO hx_type(snapshot, type, name, confidence, bytes, objects)"
                " VALUES (?, ?, ?, 'certain', ?, ?)",
                ((snapshot, i + 1, f"ns::type_{i * 7919 % TYPES}", i * snapshot % 1000, 1 + i % 7)
                 for i in range(TYPES)))
    store.close()
    begin = time.monotonic()
    lines = run("diff", f"{path}:1", f"{path}:2", "types", "--format", "csv").splitlines()
    check(len(lines) == TYPES + 1, f"{len(lines)} lines")
    took = time.monotonic() - begin
    slowest = 0
    for step in range(4):
        with open(os.devnull, "w") as nowhere:
            started = subprocess.Popen([HEAPX, "diff", f"{path}:1", f"{path}:2", "types"],
                                       stdout=nowhere, stderr=nowhere)
        time.sleep(took * (step + 1) / 5)
        begin = time.monotonic()
        started.send_signal(signal.SIGTERM)
        check(started.wait(100) in (0, 130), f"status {started.returncode}")
        slowest = max(slowest, time.monotonic() - begin)
    check(slowest < 1, f"it took {slowest:.2f} s to end")


def main():
    with tempfile.TemporaryDirectory() as folder:
        for test in names_test, types_test:
            path = f"{folder}/{test.__name__}.db"
            subprocess.run([f"{BUILD}/test/ui/make_store", path, "2", "40"], check=True)
            begin = time.monotonic()
            test(path)
            print(f"{test.__name__}: {time.monotonic() - begin:.1f} s", flush=True)


main()
