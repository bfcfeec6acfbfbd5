#!/usr/bin/env python3
"""Profiles of GHC's runtime as stores: each break-down gives the rows it should, what lies is
refused with its offset, what was cut keeps its whole samples, and every beginning of a file is one
or the other. Some thousand mutations of all of them crash nothing."""
import csv
import io
import os
import random
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import import_files as files  # noqa: E402

BUILD = os.environ.get("HX_BUILDDIR", ".")
HEAPX = os.path.join(BUILD, "heapx")
FUZZ = os.path.join(BUILD, "test/fuzz/fuzz_import")
QUICK = os.environ.get("HX_QUICK") == "1"


def run(*args, status=0):
    done = subprocess.run((HEAPX,) + args, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=60, check=False)
    err = done.stderr.decode()
    assert done.returncode == status, (args, done.returncode, err)
    return done.stdout.decode(), err


def sql(path, statement, status=0):
    out, _ = run("sql", path, statement, "--format", "csv", status=status)
    return list(csv.DictReader(io.StringIO(out)))


def put(folder, name, data):
    path = os.path.join(folder, name)
    with open(path, "wb") as out:
        out.write(data)
    return path


ROWS = {
    "sites": "SELECT s.snapshot, c.label AS label, s.bytes, s.objects FROM sites s JOIN ccs c"
             " ON c.ccs_id = s.ccs_id",
}


def check_rows(path, view, column, expected):
    got = [{} for _ in expected]
    for row in sql(path, ROWS.get(view, "SELECT * FROM " + view)):
        assert row["objects"] == "", "nothing counts objects"
        number = int(row["snapshot"]) - 1
        assert row[column] not in got[number], ("twice", row)
        got[number][row[column]] = int(row["bytes"])
    assert got == list(expected), (path, got, expected)
    for row in sql(path, "SELECT snapshot, heap_bytes, heap_objects, reachable_bytes, rss_bytes,"
                         " method, complete FROM snapshots"):
        total = sum(expected[int(row["snapshot"]) - 1].values())
        assert int(row["heap_bytes"]) == total, row
        assert row["method"] == "import" and row["complete"] == "1", row
        assert row["heap_objects"] == row["reachable_bytes"] == row["rss_bytes"] == "", row


def check_good(folder):
    made = {**files.logs(), **files.hps()}
    for name, (data, view, column, expected) in made.items():
        path = put(folder, name, data)
        try:
            check_rows(path, view, column, expected)
        except AssertionError:
            print("in", name)
            raise
    return [os.path.join(folder, name) for name in made]


def check_program(folder):
    path = os.path.join(folder, "type")
    row, = sql(path, "SELECT pid, comm, exe, taken_at FROM snapshots WHERE snapshot = 2")
    assert row == {"pid": "4711", "comm": "prog", "exe": "/usr/bin/prog",
                   "taken_at": "2023-11-14T22:13:22.000Z"}, row
    row, = sql(os.path.join(folder, "hp_type"), "SELECT comm, taken_at, notes FROM snapshots"
                                                " WHERE snapshot = 2")
    assert row["comm"] == "prog" and row["taken_at"] == "2026-11-21T06:25:01.250Z", row
    assert "2 empty samples" in row["notes"], row
    row, = sql(os.path.join(folder, "hp_form"), "SELECT notes FROM snapshots WHERE snapshot = 2")
    assert "mark at 1.600000 s" in row["notes"], row
    row, = sql(os.path.join(folder, "order"), "SELECT count FROM losses WHERE snapshot = 2")
    assert row["count"] == "1", row
    row, = sql(os.path.join(folder, "profiles"), "SELECT count FROM losses")
    assert row["count"] == "1", row
    row, = sql(os.path.join(folder, "cut_name"), "SELECT notes FROM snapshots WHERE snapshot = 1")
    assert "cut at 25 bytes" in row["notes"], row


def check_centres(folder):
    """Own and inherited costs, nothing but live bytes; another choice of cost centres."""
    path = os.path.join(folder, "centre")
    rows = {r["label"]: r for r in sql(path, "SELECT k.label, c.* FROM costs c JOIN ccs k ON"
                                             " k.ccs_id = c.ccs_id WHERE snapshot = 1")}
    live = {label: (int(r["live_bytes"]), int(r["inherited_live_bytes"]))
            for label, r in rows.items()}
    assert live == {"MAIN": (7, 82), "main": (10, 70), "f": (20, 60), "g": (40, 40),
                    "CAF": (5, 5)}, live
    known = {"label", "snapshot", "ccs_id", "live_bytes", "inherited_live_bytes"}
    for row in rows.values():
        assert all(row[c] == "" for c in row if c not in known), row
    out, _ = run("report", path, "sites", "--centre", "f", "--snapshot", "1", "--format", "csv")
    sizes = sorted(int(r["bytes"]) for r in csv.DictReader(io.StringIO(out)))
    assert sizes == [5, 17, 60], sizes


def check_store(folder):
    """The same sets and stacks have the same numbers, whichever file they come from."""
    store = os.path.join(folder, "store.hpx")
    for name in ("retainer", "centre", "hp_retainer", "retainer", "centre"):
        run("import", os.path.join(folder, name), "-o", store)
    rows = sql(store, "SELECT label, count(DISTINCT set_id) AS n FROM retainers GROUP BY label")
    assert rows and all(row["n"] == "1" for row in rows), rows
    row, = sql(store, "SELECT count(*) AS n, count(DISTINCT label || parent_id) AS d FROM ccs"
                      " WHERE ccs_id > 5")
    assert row["n"] == row["d"] == "4", row
    out, _ = run("diff", store + ":1", store + ":2", "retainers", "--format", "csv")
    grown = {r["label"]: r["bytes_delta"] for r in csv.DictReader(io.StringIO(out))}
    assert grown["f, main"] == "100" and grown["MANY"] == "-60", grown
    run("import", store, "-o", store, status=1)


def check_default(folder):
    """What was not asked for by a word is what the profile has."""
    for name, by in (("type", "type"), ("centre", "ccs"), ("retainer", "retainer")):
        path = os.path.join(folder, name)
        for form in ("svg", "csv"):
            asked, _ = run("export", path, form, "--by", by)
            assert run("export", path, form)[0] == asked, (name, form)


def check_lies(folder):
    for name, (data, at, word) in {**files.lies(), **files.hp_lies()}.items():
        path = put(folder, "lie", data)
        store = os.path.join(folder, "lie.hpx")
        _, err = run("import", path, "-o", store, status=1)
        assert "at byte %s" % ("" if at is None else "%d (" % at) in err and word in err, (name, err)
        assert not os.path.exists(store), name


def check_cut(folder):
    data = files.logs()["type"][0]
    path = put(folder, "short", data[:-12])
    row, = sql(path, "SELECT * FROM snapshots", status=3)
    assert row["complete"] == "0" and "byte %d" % (len(data) - 12) in row["notes"], row
    run("open", path, status=3)
    row, = sql(path, "SELECT what, count FROM losses", status=3)
    assert row == {"what": "samples without their end", "count": "1"}, row
    # no heap events: what else there is
    empty = put(folder, "none", files.log(files.program(), ids=[25, 29, 30, 32, 43]))
    _, err = run("report", empty, "types", status=1)
    assert "no heap profile, but 5 other events" in err and "Program arguments" in err, err
    none = put(folder, "unknown", b"hello\n")
    run("import", none, "-o", os.path.join(folder, "x"), status=1)
    # longer than what is known of them, and more behind the end
    kinds = dict(files.KINDS)
    kinds[162] = (12, kinds[162][1])
    data = files.log(files.begin(4), files.event(162, 9, struct.pack(">QI", 0, 7)),
                     files.string("A", 4), files.event(165, 9, struct.pack(">Q", 0)), kinds=kinds)
    longer = put(folder, "longer", data + b"more")
    rows = {r["what"]: r["count"] for r in sql(longer, "SELECT * FROM losses")}
    assert sorted(rows.values()) == ["4", "4"], rows


KEYS = """4
:save-display centres
5
:save-display types
7
:save-display dominators
2
Enter
:save-display set
1
:save-display timeline
d
5
:save-display differences
[ ] 3 6 8 9 0
"""


def check_explorer(folder):
    """Each screen shows what the profile tells, or says that it does not."""
    script = put(folder, "keys", KEYS.encode())
    shown = {"centre": {"centres": "inherited|main", "timeline": "Heap by cost-centre"},
             "type": {"types": "Node", "timeline": "Heap by types", "differences": "appeared"},
             "retainer": {"set": "retainer f", "timeline": "Heap by retainer sets"},
             "module": {"timeline": "Heap by modules"}, "hp_biography": {"timeline": "Heap by"}}
    for name, displays in shown.items():
        displays.setdefault("dominators", "was imported")
        displays.setdefault("types", "was imported")
        done = subprocess.run((HEAPX, "open", os.path.join(folder, name), "--script", script),
                              cwd=folder, timeout=60, check=False, stderr=subprocess.PIPE)
        if b"built without" in done.stderr:
            return
        assert done.returncode == 0, (name, done.stderr)
        for display, words in displays.items():
            with open(os.path.join(folder, display), encoding="utf-8") as saved:
                text = saved.read()
            assert any(word in text for word in words.split("|")), (name, display, text)
            os.unlink(os.path.join(folder, display))


def check_mutations(folder, seeds):
    ids = [43, 160, 161, 162, 163, 164, 165]
    small = put(folder, "small", files.log(
        files.event(43, 2, struct.pack(">IQI", 1, files.WALL, 2)), files.centre(3, "main"),
        files.begin(1), files.sample([files.stack([3], 9)], 10), files.sample([], 20), ids=ids))
    args = ["--cuts", small, seeds[0], os.path.join(folder, "hp_centre")]
    subprocess.run([FUZZ] + args, timeout=120, check=True)
    seed = os.environ.get("HX_SEED") or str(random.randrange(1 << 32))
    print("HX_SEED=%s" % seed)
    args = ["--cases", "2000" if QUICK else "10000", "--seconds", "5"]
    subprocess.run([FUZZ] + args + seeds, timeout=120, check=True,
                   env=dict(os.environ, HX_SEED=seed))


def main():
    with tempfile.TemporaryDirectory() as folder:
        seeds = check_good(folder)
        check_program(folder)
        check_centres(folder)
        check_default(folder)
        check_store(folder)
        check_lies(folder)
        check_cut(folder)
        check_explorer(folder)
        check_mutations(folder, seeds)


main()
