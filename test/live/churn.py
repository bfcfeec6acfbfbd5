#!/usr/bin/env -S python3 -B
"""churn.py - totals: the blocks of the program's own table, of the recorder and of the heap.

    churn.py [oracle|run|record|steps]     environment: HX_OPERATIONS (200000), HX_SEED

All three must be the same addresses with the same usable sizes, and what the recorder says was
requested must be what was. scripts/soak churn does ten million operations.
"""
import os
import subprocess
import time

import live
import recorded
from live import check

OPERATIONS = int(os.environ.get("HX_OPERATIONS", "200000"))
SEED = int(os.environ.get("HX_SEED", str(time.time_ns() % 10**6)))
PATIENCE = 60 + OPERATIONS // 20000


def argv(folder, *more):
    print(f"  HX_SEED={SEED} HX_OPERATIONS={OPERATIONS}")
    return [live.victim("churn"), "--out", f"{folder}/table", "--operations", str(OPERATIONS),
            "--seed", str(SEED), *more]


def table(folder):
    """{address: (requested, usable, function)} as the program knows it."""
    with open(f"{folder}/table") as file:
        part = [line.split() for line in file]
    return {int(a): (int(r), int(u), f) for a, r, u, f in part}


def some(things):
    things = sorted(things)
    return ", ".join(str(thing) for thing in things[:8]) + (" ..." if len(things) > 8 else "")


def compare(folder, store, exact):
    """`exact`: nothing may be lost, and everything was recorded from the start."""
    truth, tree = table(folder), recorded.Tree(store)
    heap = {row["address"]: row for row in recorded.objects(store)}
    lost = recorded.losses(store)
    known = {a: row for a, row in heap.items()
             if tree.words(row["ccs_id"])[-1:] not in (["<before attach>"], ["<unknown>"], [])}
    print(f"  {len(truth)} blocks by the program, {len(heap)} in the heap, {len(known)} recorded, "
          f"lost {lost}")
    check(len(truth) > 1000, "the program holds next to nothing")
    absent = truth.keys() - heap.keys()
    check(not absent, f"{len(absent)} blocks are not in the heap: {some(absent)}")
    missed = truth.keys() - known.keys()
    allowed = 0 if exact else sum(n or 0 for what, n in lost.items() if "event" in what)
    check(len(missed) <= allowed,
          f"{len(missed)} blocks were not recorded: "
          f"{some((a, *truth[a], tree.words(heap[a]['ccs_id'])) for a in missed)}")
    wrong = [(a, truth[a], row["requested"], row["bytes"]) for a, row in known.items()
             if a in truth and (row["requested"], row["bytes"]) != truth[a][:2]]
    check(not wrong, f"{len(wrong)} blocks have other sizes: (address, (requested, usable, function), "
          f"recorded requested, bytes): {some(wrong)}")
    if exact:
        strange = heap.keys() - known.keys()
        check(not strange, f"{len(strange)} blocks of the heap have no site: "
              f"{some((a, heap[a]['bytes'], tree.words(heap[a]['ccs_id'])) for a in strange)}")
    # What the recorder holds to be alive, stack by stack, is what the objects say.
    costs = {row["ccs_id"]: (row["live_objects"], row["live_bytes"]) for row in
             live.rows(store, "SELECT ccs_id, live_objects, live_bytes FROM costs WHERE snapshot = "
                              "(SELECT max(snapshot) FROM snapshots)") if row["live_objects"]}
    counted = {}
    for row in known.values():
        count, size = counted.get(row["ccs_id"], (0, 0))
        counted[row["ccs_id"]] = (count + 1, size + row["requested"])
    if not allowed:
        off = {c for c in costs.keys() | counted.keys() if costs.get(c) != counted.get(c)}
        check(not off, f"live costs and objects differ: (stack, costs, objects): "
              f"{some((' > '.join(tree.words(c)), costs.get(c), counted.get(c)) for c in off)}")


def oracle(folder):
    """The program by itself, and its table against the heap walk."""
    with live.Target(argv(folder)) as target:
        target.wait_line("ready")
        live.heapx("snap", target.pid, "-o", f"{folder}/snap.db")
    truth = table(folder)
    heap = {row["address"]: row["bytes"] for row in live.rows(f"{folder}/snap.db",
                                                             "SELECT address, bytes FROM objects")}
    absent = truth.keys() - heap.keys()
    check(not absent, f"{len(absent)} of {len(truth)} are not in the heap: {some(absent)}")
    wrong = [(a, truth[a], heap[a]) for a in truth if heap[a] != truth[a][1]]
    check(not wrong, f"{len(wrong)} have other sizes: {some(wrong)}")
    print(f"  {len(truth)} blocks by the program, {len(heap)} in the heap")


def run(folder):
    store = f"{folder}/run.db"
    with recorded.Run(store, argv(folder), "--at-exit", stdin=subprocess.DEVNULL) as target:
        check(target.wait(PATIENCE) == 0, f"exit {target.status}: {target.err}")
    compare(folder, store, True)


def steps(folder):
    """Snapshots while it churns: each is whole, and stacks and costs only grow."""
    store = f"{folder}/steps.db"
    more = argv(folder, "--operations", str(OPERATIONS * 10))
    with recorded.Run(store, more, "--every", "0.3s", "--at-exit",
                      stdin=subprocess.DEVNULL) as target:
        check(target.wait(PATIENCE) == 0, f"exit {target.status}: {target.err}")
    compare(folder, store, True)
    at = live.rows(store, "SELECT snapshot, sum(alloc_objects) a, sum(freed_objects) f, "
                          "sum(live_objects) l FROM costs JOIN ccs USING (ccs_id) "
                          "WHERE label NOT IN ('<unknown>', '<before attach>') GROUP BY snapshot ORDER BY snapshot")
    whole = live.rows(store, "SELECT s.snapshot, s.heap_objects n, (SELECT count(*) FROM objects o "
                             "WHERE o.snapshot = s.snapshot AND o.requested IS NOT NULL) k "
                             "FROM snapshots s ORDER BY s.snapshot")
    print(f"  {len(whole)} snapshots: {[(w['n'], w['k']) for w in whole]}")
    for before, after in zip(at, at[1:]):
        check(before["a"] <= after["a"] and before["f"] <= after["f"], f"costs shrink: {before}, {after}")
    for row in at:
        check(row["a"] - row["f"] == row["l"], f"allocated less freed is not alive: {row}")
    for row in whole:
        # a thread that is stopped inside malloc holds a block that is not yet, or still, recorded
        check(row["n"] - row["k"] <= 16, f"objects without a site in the middle: {row}")


def record(folder):
    recorded.may_probe()
    store = f"{folder}/record.db"
    with live.Target(argv(folder, "--wait", "--operations", str(max(OPERATIONS // 4, 20000)))) as target:
        entries = [int(e, 16) for e in target.wait_line("entry").split()[1:]]
        with recorded.Record(store, target.pid, entries) as recorder:
            target.process.stdin.write(b"\n")
            target.process.stdin.flush()
            target.wait_line("ready")
            time.sleep(0.5)
            recorder.end()
    compare(folder, store, False)


if __name__ == "__main__":
    live.main(oracle, run, steps, record)
