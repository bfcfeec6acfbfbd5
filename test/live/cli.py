#!/usr/bin/env -S python3 -B
"""cli.py - snap, report, why, sql, attach, open and demo on live processes.

Exit statuses, formats, series that end in every way, and that nothing half-written stays.
"""
import csv
import ctypes
import io
import json
import os
import re
import signal
import subprocess
import time

import live
import mallocs
from live import check, heapx

PYTHON = [*live.PYTHON, "import sys; d = {i: str(i) for i in range(10000)}; "
          "print('ready', flush=True); sys.stdin.read()"]


def python():
    target = live.Target(PYTHON)
    target.wait_line("ready")
    return target


def start(*args, **options):
    return subprocess.Popen([live.HEAPX, *map(str, args)], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL,
                            preexec_fn=live.end_with_parent, **options)


def count(store):
    return live.row(store, "select count(*) as n from snapshots")["n"]


def only(folder, *names):
    found = sorted(os.listdir(folder))
    check(found == sorted(names), f"the folder holds {found}, not {sorted(names)}")


def snap_and_read(folder):
    store = os.path.join(folder, "123")  # a file of digits
    with python() as target:
        for n in (1, 2):
            status, out, err = heapx("snap", target.pid, "-o", store)
            check(out.startswith(f"snapshot {n}: heap ") and out.count("\n") == 1 and err == "",
                  f"{out!r} {err!r}")
        live.check_let_go(target.pid)
    only(folder, "123")
    check(os.stat(store).st_mode & 0o777 == 0o600, "the store is not private")
    os.chdir(folder)
    for place in ("before", "between", "after"):
        words = ["report", "./123", "objects"]
        words[{"before": 1, "between": 2, "after": 3}[place]:0] = ["--format=json", "--limit", "7"]
        objects = json.loads(heapx(*words)[1])
        check(len(objects) == 7 and all(o["snapshot"] == 2 for o in objects), f"{place}: {objects}")
        sizes = [o["bytes"] for o in objects]
        check(sizes == sorted(sizes, reverse=True), f"not the largest first: {sizes}")
    last = json.loads(heapx("report", "./123", "snapshots", "--format", "json")[1])
    check([row["snapshot"] for row in last] == [2], f"{last}")
    both = json.loads(heapx("report", "./123", "snapshots", "--format", "json", "--snapshot",
                            "all")[1])
    check(sorted(row["snapshot"] for row in both) == [1, 2], f"{both}")
    for row in both:
        check(row["heap_bytes"] == row["reachable_bytes"] + row["leaked_bytes"], f"{row}")
        check(row["comm"].startswith("python") and row["method"] == "copy" and row["complete"] == 1,
              f"{row}")
    first = heapx("report", "./123", "account", "--snapshot", "first", "--format", "csv")[1]
    parts = list(csv.DictReader(io.StringIO(first)))
    check({p["snapshot"] for p in parts} == {"1"}, first)
    check(sum(int(p["bytes"]) for p in parts) == [r for r in both if r["snapshot"] == 1][0]
          ["rss_bytes"], "account does not sum to rss_bytes")
    status = heapx("report", "./123", "leaks", "--snapshot", "3", ok=(1,))[0]
    up = json.loads(heapx("report", "./123", "objects", "--sort", "address", "--limit", "5",
                          "--format", "json")[1])
    check([o["address"] for o in up] == sorted(o["address"] for o in up), f"{up}")
    down = json.loads(heapx("report", "./123", "objects", "--sort", "address:desc", "--limit", "5",
                            "--format", "json")[1])
    check(down[0]["address"] > up[-1]["address"], f"{down}")
    heapx("report", "./123", "objects", "--sort", "colour", ok=(2,))
    check(json.loads(heapx("sql", "./123", "select 1 as a where 0", "--format", "json")[1]) == [],
          "no rows")
    heapx("sql", "./123", "delete from hx_snapshot", ok=(1, 2))
    heapx("sql", "./123", "selekt", ok=(1, 2))
    check(heapx("open", "./123")[1].startswith("process "), "open without a terminal")


def report_on_a_process(folder):
    with python() as target:
        rows = json.loads(heapx("report", target.pid, "snapshots", "--format", "json")[1])
        check(len(rows) == 1 and rows[0]["pid"] == target.pid, f"{rows}")
        heapx("report", target.pid, "leaks", "--interior", "off", "--threads", "1")
        note = json.loads(heapx("report", target.pid, "snapshots", "--format", "json", "--pause",
                                "fork")[1])[0]
        check(note["method"] == "copy" and "fork" in note["notes"] and note["complete"] == 1,
              f"{note}")
        check(heapx("attach", target.pid)[1].startswith("process "), "attach without a terminal")
        live.check_let_go(target.pid)
    only(folder)


def chains(folder):
    store = os.path.join(folder, "store")
    with python() as target:
        heapx("snap", target.pid, "-o", store)
    deep = live.row(store, "select address, bytes from objects where state = 'reachable' "
                    "and edges_in > 0 order by bytes desc limit 1")
    chain = json.loads(heapx("why", store, hex(deep["address"]), "--format", "json")[1])
    check(list(chain[0]) == ["chain", "step", "root_id", "source", "target", "offset", "kind",
                             "bytes", "type", "rule", "field"], f"{chain[0]}")
    check(chain[-1]["target"] == deep["address"] and chain[-1]["bytes"] == deep["bytes"], f"{chain}")
    for before, step in zip([None] + chain, chain):
        check((step["source"] is None) == (step["step"] == 1), f"{step}")
        if step["source"] is None:
            word = live.rows(store, "select root_edges.kind as kind from root_edges join roots "
                             "using (snapshot, root_id) "
                             f"where root_id = {step['root_id']} and target = {step['target']} and "
                             f"(root_edges.address is null or root_edges.address - roots.address = "
                             f"{step['offset']})")
        else:
            check(step["source"] == before["target"], f"{before} {step}")
            word = live.rows(store, f"select kind from edges where source = {step['source']} and "
                             f"target = {step['target']} and offset = {step['offset']}")
        check([w["kind"] for w in word][:1] == [step["kind"]], f"no such edge: {step} {word}")
    inside = heapx("why", store, deep["address"] + 8, "--format", "json")
    check(json.loads(inside[1]) == chain and "inside" in inside[2], f"{inside[2]}")
    many = json.loads(heapx("why", store, deep["address"], "--limit", "5", "--format", "json")[1])
    lengths = [sum(s["chain"] == c for s in many) for c in sorted({s["chain"] for s in many})]
    check(lengths == sorted(lengths) and len(lengths) <= 5, f"{lengths}")
    # Each holder has its shortest chain before one has a second, and can be asked for alone.
    roots = [s["root_id"] for s in json.loads(
        heapx("why", store, deep["address"], "--limit", "1000", "--format", "json")[1])
             if s["step"] == 1]
    firsts = [s["root_id"] for s in many if s["step"] == 1]
    check(len(set(firsts)) == min(len(firsts), len(set(roots))), f"{firsts} of {set(roots)}")
    name = live.row(store, f"select name from roots where root_id = {firsts[-1]}")["name"]
    alone = json.loads(heapx("why", store, deep["address"], "--from", name, "--format", "json")[1])
    check(live.row(store, f"select name from roots where root_id = {alone[0]['root_id']}")["name"]
          == name and alone[-1]["target"] == deep["address"], f"--from {name}: {alone}")
    status, out, err = heapx("why", store, deep["address"], "--from", "no such root", ok=(1,))
    check(err.count("\n") == 1 and "no root" in err and "these reach" in err and out == "", err)
    status, out, err = heapx("why", store, "0x10", ok=(1,))
    check(err.count("\n") == 1 and "no object" in err, err)


def demo(folder):
    status, out, err = heapx("demo", "-o", os.path.join(folder, "demo"))
    check(out.startswith("process ") and "heapx-demo" in out and err == "", f"{out}\n{err}")
    store = os.path.join(folder, "demo")
    leaks = {row["kind"]: row["objects"] for row in live.rows(store, "select * from leaks")}
    # 120 forgotten requests, a queue of 400, 8 cycles of two; a little more while it runs
    check(129 <= leaks.get("definite", 0) <= 160, f"{leaks}")
    check(leaks.get("indirect", 0) >= 120 + 799 + 8, f"{leaks}")
    check(leaks.get("possible", 0) >= 1, f"{leaks}")
    lost = live.row(store, "select address from objects where state = 'definite' limit 1")
    status, out, err = heapx("why", store, lost["address"], "--format", "json")
    check(json.loads(out) == [] and "definite" in err, f"{out} {err}")
    below = live.row(store, "select address from objects where state = 'indirect' limit 1")
    status, out, err = heapx("why", store, below["address"], "--format", "json")
    leak = re.search(r"hangs below the definite leak (0x[0-9a-f]+), \d+ steps?$", err.strip())
    check(json.loads(out) == [] and leak, f"{out} {err}")
    check(live.row(store, f"select state from objects where address = {int(leak[1], 16)}")["state"]
          == "definite", err)
    names = {row["name"] for row in live.rows(store, "select name from roots")}
    check({"page_cache", "session_registry"} <= names, f"{names}")


def series(folder):
    store = os.path.join(folder, "store")
    with python() as target:
        begin = time.monotonic()
        status, out, err = heapx("snap", target.pid, "-o", store, "--every", "200ms", "--count", 3)
        took = time.monotonic() - begin
        check(out.count("\n") == 3 and count(store) == 3 and took >= 0.4, f"{took} {out}")
        heapx("snap", target.pid, "-o", store, "--every", f"{3000 * live.SLOW}ms",
              "--duration", f"{5000 * live.SLOW}ms")
        check(count(store) == 5, f"{count(store)} snapshots")
        for number in (signal.SIGINT, signal.SIGTERM):
            have = count(store)
            run = start("snap", target.pid, "-o", store, "--every", "100ms")
            for _ in range(2):
                run.stdout.readline()
            run.send_signal(number)
            out, err = run.communicate(timeout=20 * live.SLOW)
            check(run.returncode == 130 and err.count("\n") == 1
                  and err.startswith(f"heapx: PID {target.pid}: interrupted after "), f"{run.returncode} {err!r}")
            check(count(store) >= have + 2, "snapshots that were finished are gone")
            only(folder, "store")
            live.check_let_go(target.pid)


def a_slow_reader(folder):
    """Interrupted while nobody reads the results."""
    store = os.path.join(folder, "store")
    with python() as target:
        heapx("snap", target.pid, "-o", store)
    run = start("sql", store, "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n "
                "WHERE i < 1000000) SELECT i FROM n", "--format", "csv")
    run.stdout.readline()
    for _ in range(100):  # it has filled the pipe, and waits
        time.sleep(0.05)
        with open(f"/proc/{run.pid}/stat") as file:
            if file.read().rpartition(")")[2].split()[0] == "S":
                break
    run.send_signal(signal.SIGINT)
    time.sleep(0.2)
    err = run.communicate(timeout=20 * live.SLOW)[1]
    check(run.returncode == 130 and err.count("\n") == 1, f"{run.returncode} {err!r}")


def the_target_ends(folder):
    store = os.path.join(folder, "store")
    for options, expected in ((["--every", "100ms"], 0),
                              (["--every", "100ms", "--duration", "1m"], 0),
                              (["--every", "100ms", "--count", "1000"], 1),
                              (["--every", "10m"], 0)):
        with python() as target:
            run = start("snap", target.pid, "-o", store, *options)
            run.stdout.readline()
            target.process.kill()
            target.process.wait()
            out, err = run.communicate(timeout=20 * live.SLOW)
            check(run.returncode == expected and "has exited" in err and err.count("\n") == 1,
                  f"{options}: {run.returncode} {err!r}")
        only(folder, "store")
    check(count(store) >= 4, f"{count(store)}")


def traced_meanwhile(folder):
    """Somebody else traces the process for a moment: a snapshot of a series is left out."""
    store = os.path.join(folder, "store")
    with python() as target:
        run = start("snap", target.pid, "-o", store, "--every", "300ms", "--count", 10)
        run.stdout.readline()
        until, release = os.pipe()
        other = os.fork()
        if other == 0:  # its end lets the process go
            os.close(release)
            while live.LIBC.ptrace(0x4206, target.pid, None, None) != 0:
                pass
            os.read(until, 1)
            os._exit(0)
        err = run.stderr.readline()
        os.close(release)
        os.waitpid(other, 0)
        os.close(until)
        err += run.communicate(timeout=30 * live.SLOW)[1]
        left_out = err.count("snapshot left out")
        check(run.returncode == 3 and 1 <= left_out < 9, f"{run.returncode} {err!r}")
        check(f"PID {target.pid}: is traced already, by PID {other}" in err, err)
        check(count(store) == 10 - left_out, f"{count(store)} {err}")
        live.check_let_go(target.pid)


def refused_stays_clean(folder):
    store = os.path.join(folder, "store")
    with python() as target:
        status, out, err = heapx("snap", target.pid, "-o", store, "--max-pause", "1us", ok=(1,))
        check(err.startswith(f"heapx: PID {target.pid}: ") and err.count("\n") == 1 and out == "", f"{out!r} {err!r}")
        only(folder)
        live.check_let_go(target.pid)
        check(live.LIBC.ptrace(0x4206, target.pid, None, None) == 0, "cannot trace it")
        status, out, err = heapx("snap", target.pid, "-o", store, ok=(1,))
        check(f"PID {os.getpid()}" in err and err.count("\n") == 1 and "traced" in err, err)
        check("traced,NO" in heapx("doctor", target.pid, "--format", "csv")[1], "doctor")
        only(folder)


def stdout_that_fails(folder):
    store = os.path.join(folder, "store")
    with python() as target:
        heapx("snap", target.pid, "-o", store)
        with open("/dev/full", "w") as full:
            run = subprocess.run([live.HEAPX, "report", store, "objects"], stdout=full,
                                 stderr=subprocess.PIPE, text=True)
        check(run.returncode == 1 and run.stderr.count("\n") == 1, f"{run}")


def unknown_allocator(folder):
    """What nobody walked is NULL, has no part in the account, and is among the losses."""
    library = mallocs.build(folder, "libpool.so", [mallocs.ALLOCATOR], "-DNAMED=", "-shared", "-fPIC")
    program = mallocs.build(folder, "program", [mallocs.PROGRAM])
    store = os.path.join(folder, "store")
    with live.Target([program], env=dict(os.environ, LD_PRELOAD=library)) as target:
        target.wait_line("ready")
        said = heapx("doctor", target.pid, "--format", "csv")[1]
        check("\nallocator,?,no,malloc is that of libpool.so: " in said, said)
        said = heapx("doctor", os.getpid(), "--format", "csv")[1]
        check(re.search(r"\nallocator,OK,no,.*\bglibc 2\.", said), said)
        heapx("snap", target.pid, "-o", store, ok=(3,))
    row = live.row(store, "select * from snapshots")
    for name in ("heap_bytes", "heap_objects", "reachable_bytes", "reachable_objects",
                 "leaked_bytes", "leaked_objects", "free_bytes", "overhead_bytes"):
        check(row[name] is None, f"{name} was not measured: {row}")
    parts = {r["part"]: r["bytes"] for r in live.rows(store, "select * from account")}
    check(not {"live", "free", "overhead"} & set(parts), f"{parts}")
    check(sum(parts.values()) == row["rss_bytes"], f"{parts}, rss {row['rss_bytes']}")
    check(live.row(store, "select * from losses")["what"] == "heap of an unknown allocator", "losses")


if __name__ == "__main__":
    live.main(snap_and_read, report_on_a_process, chains, demo, series, a_slow_reader,
              the_target_ends, traced_meanwhile, refused_stays_clean, stdout_that_fails, unknown_allocator)
