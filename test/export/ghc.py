#!/usr/bin/env -S python3 -B
"""ghc.py - what heapx writes for GHC's tools, by strict readers of our own.

Heap profiles, event logs and reports of recorded programs and of stores made here (hostile names,
stacks deeper than an event can say, phases of life, snapshots of which less is known): each figure
against the views, and against bytes that are kept. What there is no data of makes no file; what
was filtered stands in the log; a snapshot asked for alone is alone. Stores that lie (HX_SEED,
HX_SECONDS: 4) are refused, or give files that can be read.

    ghc.py [--keep] [TEST...]       --keep: writes the kept bytes anew
"""
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time

import eventlog
import ghc_check
from ghc_check import BUILD, HEAPX, SRC, Failure, check, heapx

GOLDEN = os.path.join(SRC, "test/golden")
KEPT = (("hp", "retainer"), ("hp", "type"), ("hp", "ccs"), ("prof", "retainer"), ("prof", "ccs"),
        ("eventlog", "retainer"), ("eventlog", "ccs"), ("eventlog", "biography"))
PROGRAM = """
import time
rows = []
for i in range(3):
    rows.append([bytes(1000 + 10 * i) for _ in range(40 * (i + 1))])
    time.sleep(0.25)
"""


def recorded(path):
    """A program with three snapshots, and one at its end."""
    run = subprocess.run([HEAPX, "run", "-o", path, "--every", "200ms", "--at-exit", "--",
                          sys.executable, "-c", PROGRAM], capture_output=True, timeout=120,
                         stdin=subprocess.DEVNULL)
    check(run.returncode in (0, 3), f"heapx run: {run.stderr.decode(errors='replace')[:300]}")


def with_version(data):
    """Kept bytes with the version of this program in them."""
    version = heapx("--version").stdout.strip()
    mark = b"heapx 0.1.0"
    at = data.find(mark)
    if at < 0 or not data.startswith(b"hdrb"):
        return data
    size = (4 + len(version)).to_bytes(2, "big")
    return data[:at - 6] + size + data[at - 4:at] + version + data[at + len(mark):]


def kept_test(folder):
    path = os.path.join(folder, "kept.db")
    ghc_check.drawn(path, 3, 12, "recorded")
    ghc_check.with_biography(path)
    for form, by in KEPT:
        data = heapx("export", path, form, "--by", by, "-o", "/dev/stdout").stdout
        name = os.path.join(GOLDEN, f"ghc-{by}.{form}")
        if "--keep" in sys.argv:
            with open(name, "wb") as file:
                file.write(data)
        with open(name, "rb") as file:
            check(with_version(file.read()) == data, f"{form} by {by} is not {name}")
        again = heapx("export", path, form, "--by", by, "-o", "/dev/stdout").stdout
        check(again == data, f"{form} by {by}: other bytes the second time")


def stores_test(folder):
    for name, path in ghc_check.make(folder).items():
        print(f"{name}: {ghc_check.check_store(path, folder)} files")


def deep_test(folder):
    """Stacks that are one to a reader are one row."""
    path = os.path.join(folder, "deep.db")
    ghc_check.drawn(path, 2, 20, "recorded")
    ghc_check.with_deep_stacks(path)
    run = heapx("export", path, "eventlog", "--by", "ccs", "-o", "/dev/stdout")
    check(b"deeper than 255" in run.stderr, f"no note: {run.stderr}")
    for sample in eventlog.Log(run.stdout).samples:
        deep = sorted(count for stack, count in sample.rows if len(stack) == 255)
        check(deep == [8, 16], f"rows of 255 centres: {deep}")


def program_test(folder):
    path = os.path.join(folder, "program.db")
    recorded(path)
    print(f"program: {ghc_check.check_store(path, folder)} files")
    log = eventlog.Log(heapx("export", path, "eventlog", "--by", "ccs", "-o", "/dev/stdout").stdout)
    if any(sample.ticks for sample in log.samples):
        check(log.tick_interval == log.begin[1] > 0, "the interval of ticks")
    check(all(49 in sample.heap for sample in log.samples), "allocated bytes are missing")
    filters(path)
    check_alone(path)
    check_sites(path)


def check_sites(path):
    """In scheme site a member is a cost-centre stack from the top to the bottom."""
    text = heapx("export", path, "prof", "--scheme", "site").stdout.decode("utf-8")
    sets = text.split("during profiling:\n")[1]
    stacks = [m for m in re.findall(r"<([^<>]*)>", sets) if m.endswith(",MAIN[MAIN]")]
    store = ghc_check.Store(path)
    known = {",".join(f"{label}[{module or '-'}]" for label, module, _ in store.stack("ccs", n))
             for n in store.trees["ccs"]}
    check(stacks and set(stacks) <= known, f"{set(stacks) - known} are no stacks")


def filters(path):
    """Patterns of the call stand in the begin event, each kind at its place."""
    def begin(*words):
        run = heapx("export", path, "eventlog", *words, "-o", "/dev/stdout")
        return eventlog.Log(run.stdout).begin[3]

    check(begin("--by", "ccs") == ("",) * 7, "filters without any option")
    found = begin("--by", "ccs", "--centre", "^Py", "--centre", "!^PyMem", "--centre", "module:python")
    check(found == ("python", "", "", "^Py,!^PyMem", "", "", ""), f"filters {found}")
    found = begin("--by", "retainer", "--scheme", "type", "--retainer", "Node", "--retainer", "a b")
    check(found == ("", "", "", "", "", "Node,a b", ""), f"filters {found}")


def check_alone(path):
    """--snapshot 2: one sample, at its own time."""
    whole = eventlog.Log(heapx("export", path, "eventlog", "-o", "/dev/stdout").stdout)
    alone = eventlog.Log(heapx("export", path, "eventlog", "--snapshot", "2", "-o",
                               "/dev/stdout").stdout)
    check(len(alone.samples) == 1 and alone.samples[0].number == 0, "one sample")
    check(alone.samples[0].rows == whole.samples[1].rows, "rows of one sample")
    check(abs(alone.samples[0].time - whole.samples[1].time) < 10**6, "time of one sample")
    _, samples = eventlog.hp(heapx("export", path, "hp", "--snapshot", "2").stdout)
    check(len(samples) == 1, "one sample in .hp")


NUMBERS = [0, 1, 2, 3, 5, 300, -1, -2**63, 2**31, 2**32, 2**53, 2**62, 2**63 - 1, 0.5, 1e300, None]
TEXTS = ["", "a b", "JOB", '"', "x" * 70000, "\0nul", "\u2003", "(unknown)", "#7 a < b", b"\xff\xfe"]


def lie(path, chance):
    """Changes what a store says, cell by cell."""
    base = sqlite3.connect(path, isolation_level=None)
    tables = [name for name, in base.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND"
                                             " name LIKE 'hx%'")]
    for _ in range(chance.choice([1, 2, 4, 12])):
        table = chance.choice(tables)
        column = chance.choice([row[1] for row in base.execute(f"PRAGMA table_info({table})")])
        value = chance.choice(chance.choice([NUMBERS, TEXTS]))
        where = chance.choice(["", " WHERE abs(random()) % 3 = 0", " WHERE abs(random()) % 20 = 0"])
        try:
            base.execute(f"UPDATE OR IGNORE {table} SET {column} = ?{where}", (value,))
        except sqlite3.Error:
            pass
    base.close()


def lies_test(folder):
    """A store that lies is refused, or makes a file that readers take all the same."""
    seed = int(os.environ.get("HX_SEED", "0")) or time.time_ns() % 10**6
    print(f"HX_SEED={seed}", flush=True)
    chance = random.Random(seed)
    good, path = os.path.join(folder, "good.db"), os.path.join(folder, "lies.db")
    ghc_check.drawn(good, 3, 20, "recorded")
    ghc_check.with_biography(good)
    refused, end = 0, time.monotonic() + float(os.environ.get("HX_SECONDS", "4"))
    while time.monotonic() < end:
        shutil.copy(good, path)
        lie(path, chance)
        form = chance.choice(["hp", "eventlog", "prof"])
        by = chance.choice(["retainer", "ccs"] if form == "prof" else ghc_check.WORDS)
        run = subprocess.run([HEAPX, "export", path, form, "--by", by, "-o", "/dev/stdout"],
                             capture_output=True, timeout=60, stdin=subprocess.DEVNULL)
        kept = f"{form} by {by}, HX_SEED={seed}"
        check(run.returncode in (0, 1) and b"Sanitizer" not in run.stderr and
              b"runtime error" not in run.stderr, f"{kept}: {run.returncode}, {run.stderr[-2000:]}")
        refused += run.returncode
        try:
            if run.returncode == 0 and form != "prof":
                (eventlog.hp if form == "hp" else eventlog.Log)(run.stdout)
        except (eventlog.Bad, UnicodeDecodeError) as why:
            if "a name twice" in str(why):  # the store says so, and readers add it up
                continue
            raise Failure(f"{kept}: {why}") from why
    print(f"{refused} refused")


def same_names_test(folder):
    """Names that would become one stay two, and those that readers take for words change."""
    path = os.path.join(folder, "names.db")
    ghc_check.drawn(path, 1, 20)
    names = ["a b", "a_b", "a\tb", "a\u00a0b", "JOB", "_JOB", '"x', "", "x" * 6000, "x" * 6000 + "y",
             "a_b#2", "12", "(unknown)"]
    statements = [("DELETE FROM hx_type",)]
    for number, name in enumerate(names):
        statements.append(("INSERT INTO hx_type(snapshot, type, name, bytes, objects)"
                           " VALUES(1, ?, ?, ?, 1)", (number, name, 100 + number)))
    total = sum(100 + n for n in range(len(names)))
    ghc_check.write(path, *statements, ("UPDATE hx_snapshot SET heap_bytes = ?", (total,)))
    run = heapx("export", path, "hp", "--by", "type")
    _, samples = eventlog.hp(run.stdout)
    found = {count - 100: name for name, count in samples[0][1]}
    check(len(found) == len(names) and sum(n for _, n in samples[0][1]) == total, f"{found}")
    check(found[1] == "a_b" and found[5] == "_JOB" and found[10] == "a_b#2",
          f"names that could stay have changed: {found}")
    check(found[11] == "_12", f"hp2ps reads {found[11]} as a number")
    check(b"cut: 2" in run.stderr, f"{run.stderr}")
    log = eventlog.Log(heapx("export", path, "eventlog", "--by", "type", "-o", "/dev/stdout").stdout)
    texts = {count - 100: name for name, count in log.samples[0].rows}
    check(texts[0] == "a b" and texts[4] == "JOB" and texts[8] == names[8], f"{texts}")


def main():
    failed = 0
    for test in (kept_test, stores_test, deep_test, same_names_test, lies_test,
                 program_test):
        if not {test.__name__, "--keep"} & set(sys.argv) and sys.argv[1:]:
            continue
        with tempfile.TemporaryDirectory(prefix="hx-ghc-") as folder:
            try:
                test(folder)
                print(f"{test.__name__}: ok", flush=True)
            except (Failure, eventlog.Bad) as why:
                print(f"{test.__name__}: FAILED: {why}", flush=True)
                failed = 1
    sys.exit(failed)


if __name__ == "__main__":
    main()
