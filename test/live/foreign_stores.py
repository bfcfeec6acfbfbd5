#!/usr/bin/env -S python3 -B
"""foreign_stores.py - stores that somebody else has changed, and the signals that end heapx at
work: a view that never ends is refused by every command, by its name and untouched; SIGINT and
SIGTERM end each statement within a second, with 130; garbage gives an error or the right answer."""
import hashlib
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

BUILD = os.path.abspath(os.environ.get("HX_BUILDDIR", "."))
SOURCE = os.path.abspath(os.environ.get("HX_SRCDIR", os.path.dirname(os.path.dirname(sys.path[0]))))
HEAPX = os.path.join(BUILD, "heapx")
PATIENCE = 1 if not os.environ.get("HX_QUICK") else 10
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"

COMMANDS = """report STORE leaks | report STORE snapshots --format csv
    | open STORE --script SCRIPT | diff STORE GOOD | diff GOOD STORE | check STORE leaked_bytes>0
    | why STORE 0x1000 | sql STORE SELECT(1) | export STORE csv --by type -o OUT
    | import GOOD.hp -o STORE"""


def check(good, what):
    if not good:
        sys.exit("foreign_stores: " + what)


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def refusals(folder, good):
    """Every command says which object it is, soon, and leaves the file as it was."""
    store = os.path.join(folder, "changed.hx")
    shutil.copy(good, store)
    with sqlite3.connect(store) as db:
        db.execute("PRAGMA writable_schema = 1")
        db.execute("UPDATE sqlite_schema SET sql = 'CREATE VIEW leaks AS %s' WHERE name = 'leaks'" % ENDLESS)
    db.close()
    before = digest(store)
    with open(good + ".hp", "w", encoding="ascii") as file:
        file.write('JOB "x"\nDATE "y"\nSAMPLE_UNIT "seconds"\nVALUE_UNIT "bytes"\n'
                   "BEGIN_SAMPLE 1.0\na\t8\nEND_SAMPLE 1.0\n")
    for line in COMMANDS.split("|"):
        words = line.replace("STORE", store).replace("GOOD", good).replace("OUT", folder + "/out").replace("SCRIPT", "/dev/null").split()
        began = time.monotonic()
        run = subprocess.run([HEAPX] + words, input="q\n", text=True, capture_output=True, timeout=60,
                             check=False)
        took = time.monotonic() - began
        check(run.returncode == 1 and "view leaks has another text" in run.stderr and not run.stdout
              and run.stderr.count("\n") == 1,
              "%s: %d %s%s" % (words, run.returncode, run.stdout, run.stderr))
        check(took < 5 * PATIENCE, "%s took %.1f s" % (words, took))
        check(digest(store) == before, "%s changed it" % words)
    check(sorted(os.listdir(folder)) == sorted(["changed.hx", "good.hx", "good.hx.hp"]), os.listdir(folder))


def ends(name, after, *words):
    """With `after` seconds for it to get to work."""
    child = subprocess.Popen([HEAPX, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE)
    time.sleep(after)
    if child.poll() is not None:  # what has no end may have been found out
        out, err = child.communicate()
        check(child.returncode == 1 and b"the store is damaged" in err and not out,
              "%s ended by itself: %d %s" % (words, child.returncode, err))
        return 0
    began = time.monotonic()
    child.send_signal(name)
    try:
        child.communicate(timeout=20)
    except subprocess.TimeoutExpired:
        child.kill()
        check(False, "%s did not end" % (words,))
    took = time.monotonic() - began
    check(child.returncode == 130, "%s: %d" % (words, child.returncode))
    check(took < PATIENCE, "%s: %.2f s until it ended" % (words, took))
    return took


def put_endless(path, table):
    """Makes the pages of a table lead to each other, 300 times each, so that it has no end."""
    db = sqlite3.connect(path)
    size = db.execute("PRAGMA page_size").fetchone()[0]
    root = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).fetchone()[0]
    kind = 5 if "WITHOUT ROWID" not in db.execute(
        "SELECT sql FROM sqlite_schema WHERE name = ?", (table,)).fetchone()[0] else None
    db.close()
    check(kind, table + " has no row ids")
    with open(path, "r+b") as file:
        pages = os.path.getsize(path) // size
        file.seek((root - 1) * size)
        leaf = file.read(size)
        for level in range(17):
            child = (pages + 1 + level).to_bytes(4, "big")
            offsets = [size - 6 * (i + 1) for i in range(300)]
            head = b"\5\0\0" + (300).to_bytes(2, "big") + offsets[-1].to_bytes(2, "big") + b"\0" + child
            head += b"".join(offset.to_bytes(2, "big") for offset in offsets)
            page = head + bytes(offsets[-1] - len(head)) + (child + b"\1\0") * 300
            file.seek((pages + level - 1 if level else root - 1) * size)
            file.write(page)
        file.seek((pages + 16) * size)
        file.write(leaf)
        file.seek(28)
        file.write((pages + 17).to_bytes(4, "big"))


def signals(folder, good):
    longest = 0
    for name in (signal.SIGTERM, signal.SIGINT):
        longest = max(longest, ends(name, 0.5, "sql", good, "SELECT max(i) FROM (%s)" % ENDLESS))
    old = os.path.join(folder, "old.hx")
    db = sqlite3.connect(old)
    with open(os.path.join(SOURCE, "test/golden/store-schema-3.sql"), encoding="ascii") as file:
        db.executescript(file.read())
    db.execute("INSERT INTO hx_stack VALUES(1, 'a', 'a', 'a', 1)")
    db.commit()
    db.close()
    put_endless(old, "hx_stack")
    for words in (["report", old, "snapshots"], ["sql", old, "SELECT 1"], ["open", old, "--script", "/dev/null"],
                  ["import", good + ".hp", "-o", old]):
        longest = max(longest, ends(signal.SIGTERM, 0.5, *words))
    endless = os.path.join(folder, "endless.hx")
    shutil.copy(good, endless)
    put_endless(endless, "hx_snapshot")
    for words in (["report", endless, "snapshots", "--snapshot", "all"],
                  ["sql", endless, "SELECT count(*) FROM hx_snapshot"],
                  ["diff", endless, good], ["check", endless, "leaked_bytes>0"],
                  ["export", endless, "csv", "--by", "type"]):
        longest = max(longest, ends(signal.SIGTERM, 0.5, *words))
    return longest


READS = """report F snapshots | report F types | report F leaks | report F dominators | report F costs
    | report F roots | report F objects --limit 50 | check F leaked_bytes>0 | diff F F
    | export F csv --by type -o - | sql F SELECT(sum(bytes))FROM(objects)"""


def garbage(folder):
    """Of 700 bytes all over the file where the rows of one view are read, of 64 KiB for all."""
    good, bad = os.path.join(folder, "sound.hx"), os.path.join(folder, "garbage.hx")
    subprocess.run([os.path.join(BUILD, "test/ui/make_store"), good, "2", "2000", "recorded"], check=True,
                   timeout=60, stdout=subprocess.DEVNULL)
    with open(good, "rb") as file:
        whole = file.read()
    chance = random.Random(16)
    noticed = 0

    def answer(line, path):
        words = [HEAPX] + line.replace(" F ", " %s " % path).split()
        words = [path if word == "F" else word.replace(")FROM(", ") FROM (") for word in words]
        run = subprocess.run(words, capture_output=True, timeout=60, check=False)
        return run.returncode, run.stdout.replace(path.encode(), b"F")

    def look(offset, size, lines):
        spoilt = whole[:offset] + chance.randbytes(size) + whole[offset + size:]
        with open(bad, "wb") as file:
            file.write(spoilt[:len(whole)])
        errors = 0
        for line in lines:
            found = answer(line, bad)
            check(found[0] in (1, 3) or found == truth[line],
                  "%d bytes of garbage at %d: %s: status %d" % (size, offset, line, found[0]))
            errors += found[0] in (1, 3)
        return errors

    lines = [line.strip() for line in READS.split("|")]
    truth = {line: answer(line, good) for line in lines}
    check(all(status in (0, 4) and out for status, out in truth.values()), str(truth))
    for offset in range(4096 + 900, len(whole), 1531 if not os.environ.get("HX_QUICK") else 15310):
        noticed += look(offset, 700, ["report F dominators"])
    check(noticed > 0, "no garbage was noticed")
    for offset in range(4096, len(whole), len(whole) // 5):
        look(offset + chance.randrange(4096), 65536, lines)


def main():
    with tempfile.TemporaryDirectory() as folder:
        good = os.path.join(folder, "good.hx")
        subprocess.run([os.path.join(BUILD, "test/ui/make_store"), good, "2", "30"], check=True, timeout=60,
                       stdout=subprocess.DEVNULL)
        refusals(folder, good)
        garbage(folder)
        print("a signal ended everything within %.2f s" % signals(folder, good))


main()
