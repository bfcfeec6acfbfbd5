#!/usr/bin/env python3
"""difference.py - what the explorer shows as differences against what `heapx diff` prints.

    difference.py       HX_SEED chooses what differs

Figures of a store's censuses are changed at random, rows are taken away and some become unknown:
both have to say the same of each row, in the same order of what moved most, also with a condition.
A row that is gone has to say so when it is asked for its objects.
"""
import csv
import io
import os
import random
import sqlite3
import subprocess
import sys
import tempfile

BUILD = os.environ.get("HX_BUILDDIR", os.getcwd())
SLOW = int(os.environ.get("HX_SLOW", "1"))  # as in emulator.py
# view: table, its columns of bytes and objects
CENSUSES = {
    "retainers": ("hx_retention", "bytes", "objects"),
    "bins": ("hx_bin", "bytes", "objects"),
    "types": ("hx_type", "bytes", "objects"),
    "leaks": ("hx_leak", "bytes", "objects"),
    "account": ("hx_account", "bytes", None),
}
HOLDERS = {"holders": ("hx_holding", "bytes", "objects")}  # of a store that has some
FIGURES = ("bytes_a", "bytes_b", "bytes_delta", "objects_a", "objects_b", "objects_delta")


def run(*command, folder, **more):
    done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=200 * SLOW, text=True, **more)
    if done.returncode:
        sys.exit(f"FAIL: {command}: exit {done.returncode}: {(done.stdout + done.stderr)[:2000]}")
    return done.stdout


def explore(folder, keys):
    script = os.path.join(folder, "script.keys")
    with open(script, "w") as file:
        file.write("\n".join(keys) + "\n")
    env = dict(os.environ, TERM="xterm", LC_ALL="C.UTF-8", LINES="24", COLUMNS="80")
    env.pop("HEAPX_SCRIPT", None)
    out = run(f"{BUILD}/test/ui/explore", "test.db", script, folder=folder, env=env)
    if out:
        sys.exit(f"FAIL: it said {out[:2000]}")


def change(folder, random, censuses):
    """Other figures, fewer rows, and some that are not known."""
    base = sqlite3.connect(os.path.join(folder, "test.db"))
    for table, size, count in censuses.values():
        for row, snapshot in base.execute(
                f"SELECT {'rowid' if table == 'hx_leak' else 'position' if count is None else size},"
                f" snapshot FROM {table}").fetchall():
            name = "rowid" if table == "hx_leak" else "position" if count is None else size
            where = f"WHERE snapshot = {snapshot} AND {name} = {row}"
            left, = base.execute(f"SELECT count(*) FROM {table} WHERE snapshot = ?",
                                 (snapshot,)).fetchone()
            what = random.random()
            if what < 0.3 and left > 3:
                base.execute(f"DELETE FROM {table} {where}")
            elif what < 0.6:
                more = random.choice([0, 1, 100, 5000, 1 << 40])
                sets = f"{size} = {size} + {more}"
                if count:
                    sets += f", {count} = {count} + {random.choice([0, 0, 1, 50])}"
                base.execute(f"UPDATE {table} SET {sets} {where}")
    # NULL is what nobody measured
    base.execute("UPDATE hx_leak SET bytes = NULL WHERE rowid = (SELECT min(rowid) FROM hx_leak)")
    base.commit()
    base.close()


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


def moved(row):
    """What the order is made of."""
    return tuple(-abs(int(row[name])) if row[name] else 1
                 for name in ("bytes_delta", "objects_delta"))


def compare(what, shown, printed):
    if not shown or list(shown[0]) != list(printed[0]):
        sys.exit(f"FAIL: {what}: columns {shown and list(shown[0])}, not {list(printed[0])}")
    ours, theirs = (sorted(tuple(row.items()) for row in rows) for rows in (shown, printed))
    if ours != theirs:
        wrong = [row for row in ours if row not in theirs] or ["none"]
        missing = [row for row in theirs if row not in ours] or ["none"]
        sys.exit(f"FAIL: {what}: too many {wrong[0]}, missing {missing[0]}")
    if "bytes_delta" in shown[0] and [moved(row) for row in shown] != sorted(map(moved, shown)):
        sys.exit(f"FAIL: {what}: not in the order of what moved")


def check_censuses(folder, first, second, censuses):
    keys = [f":snapshot {second}", f":difference {first}"]
    condition = "status = 'gone' or bytes_delta > 100"
    for view in censuses:
        keys += [f":screen {view}", f":write {view}.csv", f":filter {condition}",
                 f":write {view}-filtered.csv", "F"]
    explore(folder, keys)
    seen = set()
    for view in censuses:
        for name, where in ((view, []), (f"{view}-filtered", ["--where", condition])):
            with open(os.path.join(folder, name + ".csv")) as file:
                shown = rows_of(file.read())
            printed = rows_of(run(f"{BUILD}/heapx", "diff", f"test.db:{first}", f"test.db:{second}",
                                  view, "--format", "csv", *where, folder=folder))
            if printed or shown:
                compare(f"{name} of {second} against {first}", shown, printed)
            seen |= {row["status"] for row in printed}
            os.unlink(os.path.join(folder, name + ".csv"))
    return seen


def check_modules(folder, first, second):
    """These are sums over stacks: nothing was changed in them."""
    explore(folder, [f":snapshot {second}", f":difference {first}", ":screen modules",
                     ":write modules.csv"])
    with open(os.path.join(folder, "modules.csv")) as file:
        shown = rows_of(file.read())
    compare("modules", shown, rows_of(run(
        f"{BUILD}/heapx", "diff", f"test.db:{first}", f"test.db:{second}", "modules", "--format",
        "csv", folder=folder)))
    os.unlink(os.path.join(folder, "modules.csv"))


def check_objects(folder, first, second):
    explore(folder, [f":snapshot {second}", f":difference {first}", "8", ":write objects.csv"])
    with open(os.path.join(folder, "objects.csv")) as file:
        shown = rows_of(file.read())
    for row in shown:
        del row["state"]
    compare("objects", shown, rows_of(run(
        f"{BUILD}/heapx", "diff", f"test.db:{first}", f"test.db:{second}", "objects", "--where",
        "status != 'same'", "--format", "csv", folder=folder)))
    os.unlink(os.path.join(folder, "objects.csv"))


def check_gone(folder, first, second):
    """What stands for nothing any more says so, and its set still opens."""
    for screen in ("2", "5", "6"):
        explore(folder, [f":snapshot {second}", f":difference {first}", screen,
                         ":filter status = 'gone'", ":save-display row",
                         "o", ":save-display o", "w", ":save-display w", "Enter",
                         ":save-display enter"])
        with open(os.path.join(folder, "row")) as file:
            if "  gone" not in file.read().replace(">", " "):
                continue
        for name in ("o", "w") + (() if screen == "2" else ("enter",)):
            with open(os.path.join(folder, name)) as file:
                display = file.read()
            if "gone: snapshot" not in display:
                sys.exit(f"FAIL: {name} on a row that is gone, screen {screen}:\n{display}")


def main():
    seed = int(os.environ.get("HX_SEED") or random.randrange(1 << 32))
    print(f"HX_SEED={seed}")
    rounds = 1 if os.environ.get("HX_QUICK", "0") != "0" else 3
    choices, seen = random.Random(seed), set()
    for kind in ([], ["recorded"], ["held"]):
        held = kind == ["held"]
        censuses = dict(CENSUSES, **(HOLDERS if held else {}))
        for _ in range(rounds):
            with tempfile.TemporaryDirectory() as folder:
                run(f"{BUILD}/test/ui/make_store", "test.db", "3", "60", *kind, folder=folder)
                check_objects(folder, 2, 3)
                check_objects(folder, 3, 1)
                if kind == ["recorded"]:
                    check_modules(folder, 2, 3)
                change(folder, choices, censuses)
                for pair in ((1, 3), (3, 2)):
                    seen |= check_censuses(folder, *pair, censuses)
                    check_gone(folder, *pair)
    lacking = {"appeared", "gone", "grown", "shrunk", "same"} - seen
    if lacking and rounds > 1:
        sys.exit(f"FAIL: nothing was {lacking}")


main()
