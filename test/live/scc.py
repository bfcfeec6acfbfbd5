#!/usr/bin/env python3
"""scc.py - regions and deferred work (heapx/scc.h) under `heapx run`: whose bytes are these?

Programs mark in all ways there are; the sizes of their blocks tell which way it was. The same
programs with the header switched off show that the bytes are the worker's then.
"""
import os
import re
import shutil
import subprocess
import time

import live
import recorded
from live import check, rows
from servers import malloc_of


def run(store, name, *args, options=()):
    with recorded.Run(store, [live.victim(name), *args], "--at-exit", *options) as process:
        status = process.wait(60)
        check(status == 0, f"{name}: ends with {status}: {process.err[-500:]}")
    return Costs(store)


class Costs:
    """For each stack what was allocated on it and lives, by the names on the way to it."""

    def __init__(self, store, snapshot=None):
        found = recorded.last(store) if snapshot is None else snapshot
        where = f"WHERE snapshot = {found['snapshot']}"
        self.tree = recorded.Tree(store)
        self.costs = rows(store, f"SELECT ccs_id, entries FROM costs {where}")
        self.blocks = rows(store, "SELECT requested, ccs_id, count(*) AS n FROM objects "
                                  f"{where} GROUP BY 1, 2")
        self.losses = rows(store, f"SELECT what, count FROM losses {where}")
        left = re.search(r"(\d+) regions? w\w+ left", found["notes"] or "")
        self.left = int(left.group(1)) if left else 0

    def of(self, bytes_each):
        """{path: objects} of blocks of that size."""
        found = {}
        for row in self.blocks:
            if row["requested"] == bytes_each:
                path = " ".join(plain(word) for word in self.tree.words(row["ccs_id"]))
                found[path] = found.get(path, 0) + row["n"]
        return found

    def entries(self, label):
        return sum(row["entries"] or 0 for row in self.costs
                   if self.tree.node[row["ccs_id"]]["label"] == label)


def plain(word):
    return word.replace("(anonymous namespace)::", "").replace(" ", "_").split("(")[0]


def expect(costs, bytes_each, n, *names, without=()):
    """n blocks of that size, all of them on stacks with these names in this order."""
    found = costs.of(bytes_each)
    text = f"{bytes_each} bytes: {found}; {costs.losses}"
    check(sum(found.values()) == n, f"not {n} of {text}")
    for path in found:
        words, at = path.split(), 0
        for name in names:
            check(name in words[at:], f"{name} is not where it should be in {text}")
            at = words.index(name, at) + 1
        for name in without:
            check(name not in words, f"{name} should not be in {text}")


def check_victim(costs):
    expect(costs, 1001, 3, "early", "outer", without=["inner"])
    expect(costs, 1002, 5, "early", "outer", "inner")
    expect(costs, 1003, 1, "early", "outer", without=["inner"])
    expect(costs, 1004, 1, "scopes", without=["outer", "by_hand"])
    expect(costs, 1101, 1, "by_calls", "by_hand")
    expect(costs, 1102, 1, "by_calls", without=["by_hand"])
    check(costs.entries("outer") == 3 and costs.entries("inner") == 5, "entries of the scopes")
    expect(costs, 1201, 1, "jumps", "left_by_a_jump")
    expect(costs, 1202, 2, "after_jump", without=["left_by_a_jump", "forgotten"])
    expect(costs, 1203, 1, "forgets", "forgotten")
    expect(costs, 1204, 1, "left", without=["forgotten"])
    expect(costs, 1205, 1, "left", without=["forgotten", "around"])
    expect(costs, 1301, 20, "main", "pool", "alice", "build", without=["pool_worker"])
    expect(costs, 1302, 40, "main", "pool", "bob", "bob's_share", "build", without=["pool_worker"])
    expect(costs, 1303, 60, "pool_worker", without=["alice", "bob", "build"])
    expect(costs, 1401, 500, "main", "loop", "resubmit")
    expect(costs, 1501, 400, "own_region", "a_thread's_own")
    expect(costs, 1601, 2, "interrupted", "interrupted")
    expect(costs, 1602, 2, "interrupted", "on_signal_work", "handler", "keep")
    expect(costs, 1701, 10, "routine_body", "routine", "first", without=["second", "driver"])
    expect(costs, 1702, 10, "routine_body", "routine", "second", without=["first", "driver"])
    expect(costs, 1703, 22, "routines", "driver", without=["first", "second", "routine"])
    expect(costs, 1801, 2, "deep")
    expect(costs, 1803, 1, "main", without=["deep"])
    expect(costs, 1802, 6, "dynamic")
    check(costs.entries("script 2999") == 2, "entries of a region that was made at run time")
    expect(costs, 1901, 1, "CAF", "constructed", "constructing", "keep")
    expect(costs, 1902, 1, "loading", "plugin_work", "plugin")
    expect(costs, 1903, 1, "plugin", "loading", without=["plugin_work"])
    expect(costs, 2001, 1, "forks", "forking")
    check(costs.left == 4, f"{costs.left} regions were left, popped in vain or skipped")


def check_off(costs):
    expect(costs, 1002, 5, "early", without=["outer", "inner"])
    expect(costs, 1301, 20, "pool_worker", "build", without=["alice"])
    expect(costs, 1302, 40, "pool_worker", "build", without=["bob"])
    check(costs.entries("outer") == 0 and costs.entries("deep") == 0, "entries of what is not there")


def check_pool(costs):
    expect(costs, 3001, 20, "main", "alice", "make_widget", without=["work"])
    expect(costs, 3002, 40, "main", "bob", "bob's_share", "in_a_task", "make_widget", without=["work"])
    expect(costs, 3003, 20, "main", "bob", "bob's_share", "in_a_task", "make_widget", without=["work"])
    found = costs.of(3101)
    check(len(found) == 2, f"doubled lazily and boxed: {found}")
    forced = [path for path in found if "force" in path.split()]
    check(len(forced) == 1 and any("boxed" in path.split() for path in found), f"the box: {found}")
    expect(costs, 3102, 2, "force", without=["boxed"])
    expect(costs, 3201, 10, "exceptions", "catching", without=["thrown_through"])
    expect(costs, 3202, 1, "main", without=["catching", "thrown_through"])
    check(costs.entries("thrown through") == 55, "entries of what exceptions left")
    check(costs.left == 0, f"{costs.left} regions were left by exceptions")


def check_pool_off(costs):
    check(any("work" in "".join(path) for path in costs.of(3001)), "the worker's bytes")
    for path in list(costs.of(3001)) + list(costs.of(3002)):
        words = path.split()
        check("make_widget" in words and "main" not in words, f"without the header: {path}")


def plugin():
    path = os.path.join(live.BUILD, "test/live/scc_plugin.so")
    if not os.path.exists(path):
        raise live.Skip(f"{path} is not built")
    return path


def marked(folder):
    check_victim(run(os.path.join(folder, "a.db"), "scc_victim", plugin()))


def executed(folder):
    check_victim(run(os.path.join(folder, "a.db"), "scc_victim", plugin(), "exec"))


def switched_off(folder):
    check_off(run(os.path.join(folder, "a.db"), "scc_victim_off", plugin()))


def pool(folder):
    check_pool(run(os.path.join(folder, "a.db"), "scc_pool"))


def pool_recorded(folder):
    """The same by the probes that the notes tell of, in a program that runs already."""
    recorded.may_probe()
    store, program = os.path.join(folder, "a.db"), live.victim("scc_pool")
    if shutil.which("readelf"):
        notes = subprocess.run(["readelf", "-n", program], stdout=subprocess.PIPE, text=True, check=True).stdout
        names = re.findall(r"Provider: heapx\s+Name: (\w+)\s+Location: 0x\w+, Base: 0x0*[1-9a-f]\w*, "
                           r"Semaphore: 0x0*[1-9a-f]\w*\s+Arguments: 8@%rdi", notes)
        check(sorted(names) == ["capture", "enter", "leave", "pop", "push"], f"readelf -n: {notes[-900:]}")
    with live.Target([program, "--wait"]) as target:
        entry = int(target.wait_line("entry").split()[1], 16)
        with recorded.Record(store, target.pid, [entry]) as recorder:
            target.process.stdin.write(b"\n")
            target.process.stdin.flush()
            target.wait_line("done")
            recorder.end()
    costs = Costs(store)
    check_pool(costs)
    check(not any("entries" in loss["what"] for loss in costs.losses), f"lost: {costs.losses}")
    marked_rows = rows(store, "SELECT c.label, sum(k.inherited_live_objects) AS n FROM ccs c JOIN costs k USING "
                              "(ccs_id) WHERE c.source LIKE '%scc_pool.cc:%' GROUP BY 1")
    check(any(row["label"] == "bob's share" and row["n"] for row in marked_rows), f"regions: {marked_rows}")


def pool_switched_off(folder):
    check_pool_off(run(os.path.join(folder, "a.db"), "scc_pool_off"))


def forked(folder):
    """The child has what its parent marked, and knows what it captured."""
    store = os.path.join(folder, "a.db")
    run(store, "scc_victim", plugin(), options=["--children"])
    snapshots = rows(store, "SELECT * FROM snapshots ORDER BY snapshot")
    children = [Costs(store, one) for one in snapshots if one["pid"] != snapshots[-1]["pid"]]
    children = [costs for costs in children if costs.of(2002)]
    check(len(children) == 1, f"one child: {[(one['pid'], one['notes']) for one in snapshots]}")
    expect(children[0], 2002, 1, "forks", "forking", "child_work")
    expect(children[0], 2003, 1, "forks", "forking", without=["child_work"])


def nested(folder):
    """Work inside of other work: however long the chain further outside is, the inner one counts."""
    costs = run(f"{folder}/nested.db", "scc_nested")
    expect(costs, 100, 900, "asker")
    check(not any("captured" in row["what"] for row in costs.losses), f"run lost {costs.losses}")
    recorded.may_probe()
    with live.Target([live.victim("scc_nested"), "wait"]) as target:
        target.wait_line("ready")
        store = f"{folder}/record.db"
        with recorded.Record(store, target.pid, [malloc_of(target.pid)[0]]) as record:
            target.wait_line("heard")
            time.sleep(1)  # it listens to all
            target.process.stdin.write(b"\n")
            target.process.stdin.flush()
            target.wait_line("done")
            record.end()
        costs = Costs(store)
        expect(costs, 100, 900, "asker")
        check(not any("captured" in row["what"] for row in costs.losses), f"record lost {costs.losses}")


if __name__ == "__main__":
    live.main(nested, marked, executed, switched_off, pool, pool_recorded, pool_switched_off, forked, traces=False)
