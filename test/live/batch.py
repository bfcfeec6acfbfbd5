#!/usr/bin/env -S python3 -B
"""batch.py - diff, check and --where: what scripts ask, on the snapshots of a process that
changes between them, against the same worked out here from the rows of each snapshot."""
import csv
import io
import json
import os
import shutil
import sqlite3
import time

import live
from live import check, heapx

CHANGING = [*live.PYTHON, """
import sys
import ctypes
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
kept, lost = [], 0
def change(n):
    global lost
    for _ in range(300):
        kept.append(bytes(600 + 50 * n))
    del kept[:150]
    for _ in range(20 * n):
        lost = libc.malloc(777 + n)
change(1)
print('ready', flush=True)
for line in sys.stdin:
    change(int(line))
    print('ready', flush=True)
"""]

KEYS = {
    "retainers": (["label"], "bytes", "objects"),
    "bins": (["roots"], "bytes", "objects"),
    "types": (["type"], "bytes", "objects"),
    "leaks": (["kind", "type", "site"], "bytes", "objects"),
    "roots": (["kind", "name", "module"], "retained_bytes", "direct_objects"),
    "dominators": (["address", "type"], "retained_bytes", "retained_objects"),
    "account": (["part"], "bytes", None),
}
FIGURES = ["status", "bytes_a", "bytes_b", "bytes_delta", "objects_a", "objects_b",
           "objects_delta"]


def make_store(folder):
    """Three snapshots of a process that changes between them."""
    store = os.path.join(folder, "store")
    with live.Target(CHANGING) as target:
        for n in (2, 3, 0):
            target.wait_line("ready")
            heapx("snap", target.pid, "-o", store)
            if n:
                target.process.stdin.write(b"%d\n" % n)
                target.process.stdin.flush()
    return store


def ask(*words, ok=(0,)):
    return json.loads(heapx(*words, "--format", "json", ok=ok)[1])


def sums(rows, view):
    """{key: (bytes, objects)}; unknown where a part is."""
    keys, bytes_name, objects_name = KEYS[view]
    found = {}
    for row in rows:
        key = tuple(row[k] for k in keys)
        old = found.get(key, (0, 0))
        new = (row[bytes_name], row[objects_name] if objects_name else None)
        found[key] = tuple(None if a is None or b is None else a + b for a, b in zip(old, new))
    return found


def expected_census(before, after, view):
    rows = {}
    absent = (0, 0 if KEYS[view][2] else None)
    for key in set(before) | set(after):
        a, b = before.get(key, absent), after.get(key, absent)
        deltas = [None if x is None or y is None else y - x for x, y in zip(a, b)]
        change = deltas[0] or deltas[1]
        if change is None and deltas[0] == 0:
            change = 0
        status = ("appeared" if key not in before else "gone" if key not in after else
                  None if change is None else
                  "grown" if change > 0 else "shrunk" if change < 0 else "same")
        rows[key] = [status, a[0], b[0], deltas[0], a[1], b[1], deltas[1]]
    return rows


def retained(store, n, keys):
    return {key: figures for key, figures in sums(
        live.rows(store, f"select address, type, retained_bytes, retained_objects from objects "
                  f"where snapshot = {n} and retained_bytes is not null"), "dominators").items()
        if key in keys}


def check_census(rows, expected, view):
    keys = KEYS[view][0]
    check(all(list(row) == keys + FIGURES for row in rows), f"{view}: columns {list(rows[:1])}")
    found = {tuple(row[k] for k in keys): [row[f] for f in FIGURES] for row in rows}
    check(len(found) == len(rows), f"{view}: a key twice")
    wrong = {k: (found.get(k), expected.get(k)) for k in set(found) | set(expected)
             if found.get(k) != expected.get(k)}
    check(not wrong, f"{view}: {list(wrong.items())[:5]}")
    deltas = [abs(row["bytes_delta"]) for row in rows if row["bytes_delta"] is not None]
    check(deltas == sorted(deltas, reverse=True), f"{view}: not the largest change first")


def censuses(folder):
    store = make_store(folder)
    other = os.path.join(folder, "other:1")
    shutil.copy(store, other)
    for view in KEYS:
        each = {n: sums(ask("report", store, view, "--snapshot", n), view) for n in (1, 2, 3)}
        for a, b in ((1, 2), (1, 3), (3, 1), (2, 2)):
            before, after = each[a], each[b]
            if view == "dominators":  # has the largest; the others are known, too
                before = {**retained(store, a, after), **before}
                after = {**retained(store, b, before), **after}
            expected = expected_census(before, after, view)
            check_census(ask("diff", f"{store}:{a}", f"{store}:{b}", view), expected, view)
        two = ask("diff", f"{store}:first", other, view)
        check(two == ask("diff", f"{store}:1", f"{store}", view), f"{view}: of two stores")
    check(ask("diff", f"{store}:1", store) == ask("diff", f"{store}:1", store, "retainers"),
          "retainers are not the default")
    grown = ask("diff", f"{store}:1", store, "roots", "--where", "objects_delta > 0 and kind = "
                "'global'", "--sort", "objects_delta", "--limit", 3)
    all_roots = [r for r in ask("diff", f"{store}:1", store, "roots")
                 if r["objects_delta"] > 0 and r["kind"] == "global"]
    most = sorted((r["objects_delta"] for r in all_roots), reverse=True)[:3]
    check([r["objects_delta"] for r in grown] == most, f"{grown} {most}")


def two_schemes(folder):
    store = os.path.join(folder, "store")
    with live.Target(CHANGING) as target:
        target.wait_line("ready")
        heapx("snap", target.pid, "-o", store)
        heapx("snap", target.pid, "-o", store, "--scheme", "module")
    out, err = heapx("diff", f"{store}:1", f"{store}:2", "--format", "json")[1:]
    check(err.count("\n") == 1 and "scheme root" in err and "scheme module" in err, err)
    rows = json.loads(out)
    for side, n in (("a", 1), ("b", 2)):
        heap = live.row(store, f"select heap_bytes from snapshots where snapshot = {n}")
        check(sum(r[f"bytes_{side}"] for r in rows) == heap["heap_bytes"], f"snapshot {n}")


def objects_of(store, n):
    return {r["address"]: r for r in
            live.rows(store, f"select * from objects where snapshot = {n}")}


def same(a, b):
    return (a and b and a["bytes"] == b["bytes"] and
            (a["type"] is None or b["type"] is None or a["type"] == b["type"]))


def expected_objects(before, after):
    rows = []
    for address in sorted(set(before) | set(after)):
        a, b = before.get(address), after.get(address)
        if same(a, b):
            rows.append((address, b["bytes"], b["type"], "same"))
            continue
        if a:
            rows.append((address, a["bytes"], a["type"], "gone"))
        if b:
            rows.append((address, b["bytes"], b["type"], "appeared"))
    return rows


def tuples(rows):
    return [tuple(row[k] for k in ("address", "bytes", "type", "status")) for row in rows]


def object_by_object(folder):
    store = make_store(folder)
    objects = {n: objects_of(store, n) for n in (1, 2, 3)}
    for a, b in ((1, 2), (3, 1)):
        expected = expected_objects(objects[a], objects[b])
        check({row[3] for row in expected} == {"appeared", "gone", "same"}, "nothing happened")
        rows = tuples(ask("diff", f"{store}:{a}", f"{store}:{b}", "objects"))
        check(rows == expected, "objects differ")
        changed = tuples(ask("diff", f"{store}:{a}", f"{store}:{b}", "objects", "--where",
                             "status != 'same' and bytes > 0x100"))
        check(changed == [r for r in expected if r[3] != "same" and r[1] > 0x100], "--where")
        large = tuples(ask("diff", f"{store}:{a}", f"{store}:{b}", "objects", "--sort", "bytes",
                           "--limit", "40"))
        check(large == sorted(expected, key=lambda r: (-r[1], r[0]))[:40], "--sort, --limit")
    check(tuples(ask("diff", f"{store}:2", f"{store}:2", "objects")) ==
          [(r["address"], r["bytes"], r["type"], "same") for r in objects[2].values()], "itself")


def still_there(folder):
    store = make_store(folder)
    one, two, three = (objects_of(store, n) for n in (1, 2, 3))
    stays = [b for b in two.values() if not same(one.get(b["address"]), b)
             and same(three.get(b["address"]), b)]
    check(stays, "nothing appeared and stayed")
    words = ["diff", f"{store}:1", f"{store}:2", "--still", f"{store}:3"]
    expected = [(b["address"], b["bytes"], b["type"], "appeared") for b in stays]
    check(tuples(ask(*words)) == expected, "objects that are still there")
    label = {r["set_id"]: r["label"] for r in ask("report", store, "retainers", "--snapshot", 2)}
    keys = {
        "retainers": lambda b: (label[b["set_id"]],),
        "bins": lambda b: (b["bin"],),
        "types": lambda b: (b["type"] or "(unknown)",),
        "leaks": lambda b: (b["state"], b["type"], None),
    }
    for view, key in keys.items():
        counted = {}
        for b in stays:
            if view != "leaks" or b["state"] != "reachable":
                old = counted.get(key(b), (0, 0))
                counted[key(b)] = (old[0] + b["bytes"], old[1] + 1)
        check_census(ask(*words, view), expected_census({}, counted, view), view)
    check(any(b["state"] == "definite" for b in stays), "no leak among them")
    err = heapx(*words, "roots", ok=(2,))[2]
    check("--still" in err and "retainers" in err and err.count("\n") == 1, err)


def conditions(folder):
    store = make_store(folder)
    for view, where, holds in (
            ("objects", "bytes > 1K and state != 'reachable'",
             lambda r: r["bytes"] > 1024 and r["state"] != "reachable"),
            ("objects", "address < 0x600000000000 and not (edges_out = 0 or edges_in = 0)",
             lambda r: r["address"] < 0x600000000000 and r["edges_out"] and r["edges_in"]),
            ("objects", "requested = 1", lambda r: False),
            ("objects", "ccs_id is null and state ~ '^(def|ind)'",
             lambda r: r["state"] in ("definite", "indirect")),
            ("edges", "kind = 'known' and offset > 8",
             lambda r: r["kind"] == "known" and r["offset"] > 8),
            ("root_edges", "kind !~ 'start'", lambda r: r["kind"] != "start"),
            ("roots", "name ~ '^Py' and module is not null", lambda r: r["name"].startswith("Py")),
            ("account", "account.bytes >= 1.5M", lambda r: r["bytes"] >= 1.5 * 2**20),
            ("snapshots", "snapshot != 2", lambda r: r["snapshot"] != 2)):
        every = ask("report", store, view, "--snapshot", "all")
        chosen = ask("report", store, view, "--snapshot", "all", "--where", where)
        check(chosen == [r for r in every if holds(r)], f"{view} {where}: {len(chosen)} rows")
    for words in (["report", store, "objects", "--where", "bytes > 1K or"],
                  ["report", store, "objects", "--where", "byte > 1K"],
                  ["report", store, "objects", "--where", "bytes ~ '('"],
                  ["report", store, "objects", "--where", "bytes > 'many'"],
                  ["diff", f"{store}:1", store, "types", "--where", "bytes > 1K"],
                  ["diff", f"{store}:1", store, "types", "--where", "type > "],
                  ["check", store, "leaked_bytes >"],
                  ["check", store, "leaked_bytes > 0", "leaks.colour = 1"]):
        status, out, err = heapx(*words, ok=(2,))
        check(out == "" and err.count("\n") == 1 and "at column" in err, f"{words}: {err}")


def checks(folder):
    store = make_store(folder)
    last = live.row(store, "select * from snapshots where snapshot = 3")
    for condition, holds in (
            (f"leaked_bytes = {last['leaked_bytes']}", 1),
            (f"snapshots.leaked_objects < {last['leaked_objects']}", 0),
            ("leaks.kind = 'definite' and leaks.bytes > 0", 1),
            ("leaks.kind = 'definite' and leaks.bytes > 1T", 0),
            ("leaked_bytes > 1T or roots.kind = 'stack'", 1),
            ("objects.bytes > 100G", 0),
            ("account.part = 'live' and account.bytes > 1 and leaks.kind = 'definite'", 1),
            ("objects.bytes > 1 and edges.offset > 1G", 0),  # far too many pairs
            ("objects.bytes < 100 and edges.kind = 'start' and leaks.kind = 'definite'", 1),
            ("objects.address = edges.target and edges.offset = 0 or leaks.bytes < 0", 1),
            ("not (objects.bytes > 0 or edges.offset >= 0)", 0),
            ("losses.count > 0 or comm ~ 'python'", 1),
            ("comm = 'python' and not pid = pid", 0)):
        rows = ask("check", store, condition, ok=(4 if holds else 0,))
        check(rows == [{"condition": condition, "holds": holds}], f"{condition}: {rows}")
    rows = ask("check", store, "pid > 0", "pid < 0", "snapshot = 3", ok=(4,))
    check([r["holds"] for r in rows] == [1, 0, 1], f"{rows}")
    ask("check", store, "snapshot = 1", "--snapshot", "first", ok=(4,))
    ask("check", store, "snapshot = 2", "--snapshot", "2", ok=(4,))
    out = heapx("check", store, "pid > 0", "pid < 0", ok=(4,))[1]
    check(len(out.splitlines()) == 3, out)
    table = list(csv.reader(io.StringIO(heapx("check", store, "comm = ','", "--format", "csv")[1])))
    check(table == [["condition", "holds"], ["comm = ','", "0"]], f"{table}")
    for words, status in ((["check", store], 2), (["check", store, ""], 2),
                          (["check", store, "pid = 1", "--snapshot", "all"], 2),
                          (["check", store, "pid = 1", "--snapshot", "9"], 1),
                          (["check", folder + "/none", "pid = 1"], 1),
                          (["check", folder + "/none", "pid ="], 2)):
        err = heapx(*words, ok=(status,))[2]
        check(err.count("\n") == 1, f"{words}: {err}")
    with live.Target(CHANGING) as target:
        target.wait_line("ready")
        rows = ask("check", target.pid, f"pid = {target.pid} and leaked_objects >= 5", ok=(4,))
        check(rows[0]["holds"] == 1, f"{rows}")
        ask("check", target.pid, "heap_bytes = 0")
        live.check_let_go(target.pid)


def without_data(folder):
    """What was never measured is no empty table."""
    store = make_store(folder)
    database = sqlite3.connect(store)
    database.execute("DELETE FROM hx_page")
    database.commit()
    _, out, err = heapx("report", store, "pages", ok=(1,))
    check(out == "" and "pages is not known" in err, f"{out}\n{err}")
    database.execute("UPDATE hx_snapshot SET heap_objects = 0")
    database.commit()
    database.close()
    check(ask("report", store, "pages") == [], "pages of an empty heap")


def words(folder):
    store = make_store(folder)
    nothing = os.path.join(folder, "none")
    for words, status, text in (
            ([f"{store}:1"], 2, "missing"),
            ([f"{store}:1", f"{store}:2", "types", "x"], 2, "too many"),
            ([f"{store}:1", f"{store}:4"], 1, "no snapshot 4"),
            ([f"{store}:0", f"{store}:1"], 1, "no snapshot 0"),
            ([f"{store}:all", f"{store}:1"], 2, "all"),
            ([f"{nothing}:1", f"{store}:1"], 1, "no such file"),
            ([f"{store}:1", store, "edges"], 2, "objects"),
            ([f"{store}:1", store, "snapshots"], 2, "retainers"),
            ([f"{store}:1", store, "biography"], 1, "has no biography"),
            ([f"{store}:1", store, "sites"], 1, "has no sites"),
            ([f"{store}:1", store, "modules"], 1, "has no modules"),
            ([f"{store}:1", store, "type"], 2, "types"),
            ([f"{store}:1", store, "types", "--sort", "bytes"], 2, "bytes_a"),
            ([f"{store}:1", store, "--still", nothing], 1, "no such file")):
        out, err = heapx("diff", *words, ok=(status,))[1:]
        check(out == "" and err.count("\n") == 1 and text in err, f"{words}: {err}")
    text = heapx("diff", f"{store}:1", store, "account")[1]
    check(text.split()[:3] == ["part", "status", "bytes_a"], text)
    check(ask("diff", f"{store}:1", f"{store}:1", "objects", "--where", "status = 'gone'") == [],
          "no rows")


def rows_of_a_row(folder):
    """What the explorer shows below a row: its objects, its change over time, its members."""
    store = make_store(folder)
    for view, key, column in (("retainers", "set_id", "set_id"), ("bins", "roots", "bin"),
                              ("types", "type", "type")):
        for row in ask("report", store, view, "--limit", 3):
            value = row[key]
            where = (f"{column} is null" if value == "(unknown)" else
                     f"{column} = '{value}'" if isinstance(value, str) else f"{column} = {value}")
            below = ask("report", store, "objects", "--where", where)
            check((sum(r["bytes"] for r in below), len(below)) == (row["bytes"], row["objects"]),
                  f"{view} {row}: {len(below)} objects")
    largest = next(r for r in ask("report", store, "retainers") if (r["members"] or 0) > 0)
    over_time = ask("report", store, "retainers", "--snapshot", "all", "--where",
                    f"set_id = {largest['set_id']}")
    each = [r for n in (1, 2, 3) for r in ask("report", store, "retainers", "--snapshot", n)
            if r["set_id"] == largest["set_id"]]
    check(largest in over_time and sorted(over_time, key=lambda r: r["snapshot"]) == each,
          f"{over_time}")
    members = ask("report", store, "retainer_members", "--where", f"set_id = {largest['set_id']}")
    check(", ".join(m["label"] for m in members) == largest["label"], f"{members} {largest}")
    top = ask("report", store, "dominators", "--limit", 1)[0]
    below = ask("report", store, "objects", "--where", f"dominator = {top['address']}")
    check(top["bytes"] + sum(r["retained_bytes"] for r in below) == top["retained_bytes"], f"{top}")
    out = ask("report", store, "edges", "--where", f"source = {top['address']}")
    of_top = ask("report", store, "objects", "--where", f"address = {top['address']}")[0]
    check(len(out) == of_top["edges_out"], f"{of_top}")


GROW = (b"create table t(x); with recursive c(n) as (select 1 union all select n + 1 from c "
        b"where n < 300) insert into t select randomblob(7000) from c;\n")


def snapshots_in(store):
    """How many there are while it is written; 0 before it is made."""
    status, out, _ = heapx("sql", store, "select count(*) from snapshots", "--format", "csv",
                           ok=(0, 1))
    return int(out.split()[1]) if status == 0 else 0


def costs_differ(folder):
    store = os.path.join(folder, "store")
    with live.Target([live.HEAPX, "run", "-o", store, "--every", "300ms", "--", "sqlite3",
                      ":memory:"]) as target:
        for more in (1, 3):  # the first one after the change may have been on its way
            wanted, end = snapshots_in(store) + more, time.monotonic() + 60 * live.SLOW
            while snapshots_in(store) < wanted:
                check(time.monotonic() < end, "no snapshots")
                time.sleep(0.1)
            if more == 1:
                target.process.stdin.write(GROW)
                target.process.stdin.flush()
        target.process.stdin.close()
        target.process.stdout.read()
        target.process.wait()
    sides = []
    for n in ("first", "last"):
        sides.append({r["ccs_id"]: (r["inherited_live_bytes"], r["inherited_live_objects"])
                      for r in ask("report", store, "costs", "--snapshot", n)})
    rows = ask("diff", f"{store}:first", store, "costs")
    found = {r["ccs_id"]: [(r[f"bytes_{s}"], r[f"objects_{s}"]) for s in "ab"] for r in rows}
    check(len(found) == len(rows) and set(found) == set(sides[0]) | set(sides[1]), f"{len(rows)}")
    for key, figures in found.items():
        expected = [side.get(key, (0, 0)) for side in sides]
        check(figures == expected, f"{key}: {figures}, not {expected}")
    check(any(r["bytes_delta"] >= 300 * 7000 for r in rows), "nothing grew")


if __name__ == "__main__":
    TESTS = (censuses, two_schemes, object_by_object, still_there, conditions, checks, without_data, words,
             rows_of_a_row, costs_differ)
    live.main(*TESTS, turns=TESTS)
