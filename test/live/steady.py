#!/usr/bin/env -S python3 -B
"""steady.py - does heapx say the same of a server twice, when nothing changed hands?

Three servers churn: they insert, erase and update, but no variable ever owns what another one
owned. Of eight snapshots, half a second apart, each is compared with the one before: how many of
the bytes that are alive in both (an object of the same address and size) have another holder, and
how many another retainer set? (An address that was freed and taken by another variable counts,
too.)
"""
import statistics
import time

import live
from live import check, heapx, rows

SNAPSHOTS = 8
# Per cent of the bytes alive in both: at the median, and in any step, of two seconds. What takes longer
# has more addresses that another variable took meanwhile.
LIMITS = {"holder": (1, 10), "set": (3, 10)}


def snapshot_of(store, number, holders):
    """{(address, bytes): (holder, members of its set)}"""
    members, sets = {}, {}
    for m in rows(store, "SELECT * FROM retainer_members ORDER BY set_id, position"):
        members.setdefault(m["set_id"], []).append((m["label"], m["module"], m["symbol"]))
    for s in rows(store, f"SELECT * FROM retainers WHERE snapshot = {number}"):
        sets[s["set_id"]] = "MANY" if s["many"] else tuple(members.get(s["set_id"], ()))
    held = ", holder" if holders else ""
    found = rows(store, f"SELECT address, bytes, set_id{held} FROM objects WHERE snapshot = {number}")
    return {(o["address"], o["bytes"]): (o.get("holder"), sets[o["set_id"]]) for o in found}


def changes(store, holders):
    """For each step the share of bytes, in per cent, by what changed."""
    steps = {"holder": [], "set": []}
    before = None
    for number in range(1, SNAPSHOTS + 1):
        now = snapshot_of(store, number, holders)
        if before is not None:
            both = before.keys() & now.keys()
            alive = sum(size for _, size in both)
            for at, what in enumerate(steps):
                other = sum(key[1] for key in both if before[key][at] != now[key][at])
                steps[what].append(100 * other / alive)
        before = now
    return steps


def steady(folder, name):
    store = f"{folder}/{name}.hx"
    with live.Target([live.victim(name)]) as target:
        target.wait_line("ready")
        begun = time.monotonic()
        heapx("snap", target.pid, "-o", store, "--every", "500ms", "--count", SNAPSHOTS)
        slow = max(1, (time.monotonic() - begun) / SNAPSHOTS / 2)
    holders = "holder" in rows(store, "SELECT * FROM objects LIMIT 1")[0]
    steps = changes(store, holders)
    for what in steps if holders else ("set",):
        print(f"  {name}: bytes with another {what}: median {statistics.median(steps[what]):.2f} %, "
              f"most {max(steps[what]):.2f} %: " + " ".join(f"{s:.1f}" for s in steps[what]))
    if not holders:
        raise live.Skip("this heapx has no holders; retainer sets are only measured")
    for what, (median, most) in LIMITS.items():
        check(statistics.median(steps[what]) <= median * slow and max(steps[what]) <= most * slow,
              f"{name}: bytes with another {what}: {steps[what]}")


def server(folder):
    steady(folder, "steady_server")


def lru(folder):
    steady(folder, "steady_lru")


def events(folder):
    steady(folder, "steady_events")


if __name__ == "__main__":
    live.main(server, lru, events)
