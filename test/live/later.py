#!/usr/bin/env -S python3 -B
"""later.py - what is left to later: are the answers those that would have been given at once?"""
import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time

import live
from live import check, heapx

PROGRAM = [*live.PYTHON, """
import sys
class Node:
    def __init__(self, k):
        self.key, self.words = k, [str(k + i) for i in range(3)]
kept = {k: Node(k) for k in range(20000)}
print('ready', flush=True)
sys.stdin.read()
"""]
VIEWS = ("holders", "retainers", "retainer_members", "bins", "dominators", "types", "censuses",
         "tree", "holder_tree", "roots", "pages", "shapes")
ALL = "holders sets bins dominators types pages"


def view(store, name, *options):
    return heapx("report", store, name, "--format", "csv", *options, timeout=120 * live.SLOW)[1]


def told(store):
    return {name: view(store, name) for name in VIEWS}


def analysed(store):
    return [r["analysed"] for r in live.rows(store, "SELECT analysed FROM snapshots")]


def take(folder):
    """The same snapshot in two stores: nothing worked out, and all of it."""
    store, whole = os.path.join(folder, "later"), os.path.join(folder, "whole")
    with live.Target(PROGRAM, env={**os.environ, "PYTHONMALLOC": "malloc"}) as target:
        target.wait_line("ready")
        heapx("snap", target.pid, "-o", store, "--analyse", "later", "--scheme", "module")
    check(not analysed(store)[0], analysed(store))
    shutil.copy(store, whole)
    heapx("analyse", whole, timeout=120 * live.SLOW)
    check(analysed(whole) == [ALL], analysed(whole))
    check(live.row(whole, "SELECT scheme FROM censuses")["scheme"] == "module", "its own rule")
    return store, whole


def same(folder):
    store, whole = take(folder)
    with open(store, "rb") as file:
        before = file.read()
    check(told(store) == told(whole), "what was worked out for one view differs")
    with contextlib.closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as db:
        rows = db.execute("SELECT count(*), count(retained_bytes) FROM types").fetchall()
    check(rows[0][0] > 0 and rows[0][1] == 0, f"{rows}: types counted, and no more, in the file")
    check(view(store, "types", "--analyse", "later").count("\n") > 1, "types are counted at once")
    counted = live.rows(store, "SELECT count(*) AS n, count(set_id) AS sets FROM objects")
    check(counted[0]["n"] == counted[0]["sets"] > 0, f"{counted}: SQL works out what it names")
    refused = heapx("report", store, "retainers", "--analyse", "later", ok=(1,))[2]
    check("left to later" in refused, refused)
    heapx("export", store, "folded", "--by", "dominator", "-o", os.path.join(folder, "f"))
    with open(store, "rb") as file:
        check(file.read() == before, "reading changed the file")
    # what sure references retain is found only where it is asked for
    asked = ("--sort", "sure_retained_bytes", "--limit", "20")
    sure = view(whole, "dominators", *asked)
    heapx("analyse", whole, "--analyse", "sure")
    check(analysed(whole) == [ALL.replace("types", "sure types")], analysed(whole))
    check(view(whole, "dominators", *asked) == sure, "sure figures by a view, and stored")


def killed(folder):
    """At any moment: the snapshot is there, and the next one goes on."""
    store, whole = take(folder)
    want = told(whole)
    began = time.monotonic()
    shutil.copy(store, store + ".0")
    heapx("analyse", store + ".0")
    took = time.monotonic() - began
    for i in range(1, 8, 3 if live.is_set("HX_QUICK") else 1):
        copy = f"{store}.{i}"
        shutil.copy(store, copy)
        process = subprocess.Popen([live.HEAPX, "analyse", copy])
        time.sleep(took * i / 8)
        process.send_signal(signal.SIGKILL)
        process.wait()
        check(heapx("report", copy, "account", "--format", "csv")[0] == 0, "the snapshot is gone")
        heapx("analyse", copy, timeout=120 * live.SLOW)
        check(analysed(copy) == [ALL], analysed(copy))
        check(told(copy) == want, f"killed after {i} of 8: what is worked out differs")


def opened(folder):
    """Whoever opens a store finishes it, but for an answer to another question."""
    store, whole = take(folder)
    script = os.path.join(folder, "script")
    with open(script, "w") as file:
        print(":screen types", ":quit", sep="\n", file=file)
    heapx("open", store, "--script", script, timeout=120 * live.SLOW)
    check(analysed(store) == [ALL], analysed(store))
    check(told(store) == told(whole), "what the explorer stored differs")
    with open(whole, "rb") as file:
        before = file.read()
    with open(script, "w") as file:
        print(":scheme type", ":screen retainers", ":quit", sep="\n", file=file)
    heapx("open", whole, "--script", script, timeout=120 * live.SLOW)
    with open(whole, "rb") as file:
        check(file.read() == before, "a choice in the explorer changed the file")


if __name__ == "__main__":
    sys.exit(live.main(same, killed, opened))
