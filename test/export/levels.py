#!/usr/bin/env -S python3 -B
"""levels.py - windows of what an object dominates immediately, of random heaps.

Such a level is found from the object's own edges where these are known to lead to all of it, else
by a look at all objects: in either case each window, in two orders, is what a sort of all objects
in Python gives.
"""
import csv
import io
import itertools
import os
import random
import subprocess
import sys
import tempfile

BUILD = os.environ.get("HX_BUILDDIR", ".")


def rows(path, statement):
    done = subprocess.run([f"{BUILD}/heapx", "sql", path, statement, "--format", "csv"], text=True,
                          capture_output=True, timeout=120, stdin=subprocess.DEVNULL)
    if done.returncode:
        sys.exit(f"heapx sql: {done.returncode}, {done.stderr}")
    return [[int(cell) if cell else None for cell in row]
            for row in list(csv.reader(io.StringIO(done.stdout)))[1:]]


def check_snapshot(path, snapshot, pick):
    objects = rows(path, "SELECT address, dominator, bytes, retained_bytes FROM objects"
                         f" WHERE snapshot = {snapshot}")
    parts, expected = [], []
    for above, *_ in objects:
        level = [row for row in objects if row[1] == above]
        for column, order in ((2, "bytes"), (3, "retained_bytes")):
            limit, offset = pick.randint(1, 4), pick.randint(0, 2)
            level.sort(key=lambda row, column=column: (-row[column], row[0]))
            expected += [[row[0]] for row in level[offset:offset + limit]]
            parts.append(f"SELECT address FROM (SELECT address FROM objects WHERE snapshot ="
                         f" {snapshot} AND dominator = {above} ORDER BY {order} DESC,"
                         f" address LIMIT {limit} OFFSET {offset})")
    found = rows(path, " UNION ALL ".join(parts)) if parts else []
    if found != expected:
        sys.exit(f"FAIL: levels of snapshot {snapshot}: {found} for {expected}")
    return len(expected)


def main():
    pick, levels = random.Random(2), 0
    with tempfile.TemporaryDirectory(prefix="hx-levels-") as folder:
        path = f"{folder}/heaps.db"
        # most random heaps have a dominator or two, some none
        for snapshots in itertools.count(12, 12):
            if os.path.exists(path):
                os.unlink(path)
            subprocess.run([f"{BUILD}/test/export/random_store", path, str(snapshots)], check=True, timeout=120,
                           stdin=subprocess.DEVNULL)
            for snapshot in range(max(1, snapshots - 11), snapshots + 1):
                levels += check_snapshot(path, snapshot, pick)
            if levels >= 20 or snapshots >= 96:
                break
    if levels < 20:
        sys.exit(f"FAIL: only {levels} rows in all")


if __name__ == "__main__":
    main()
