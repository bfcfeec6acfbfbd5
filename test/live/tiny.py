#!/usr/bin/env -S python3 -B
"""tiny.py - many snapshots of a tiny process in one store: their room, what they cost, what is shared;
and the room of a large one.
"""
import os
import pty
import resource
import time

import live
from live import check

ROOM = 30 * 1024  # bytes of one of many


def snap(target, store, count):
    """Bytes that the store grew by, and seconds of the CPU, for each of that many snapshots."""
    size = os.path.getsize(store) if os.path.exists(store) else 0
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    live.heapx("snap", target.pid, "-o", store, "--every", "1ms", "--count", count, ok=(0, 3))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return (os.path.getsize(store) - size) / count, seconds / count


def on_terminal(*argv):
    """A program whose input and output is a terminal that says nothing."""
    ours, theirs = pty.openpty()
    # not what whoever runs this has in files of their own
    target = live.Target(argv, stdin=theirs, stdout=theirs, stderr=theirs, env=dict(os.environ, HOME="/nowhere"))
    os.close(theirs)
    time.sleep(0.5 * live.SLOW)
    return ours, target


def room(folder):
    for argv in ["bash", "--norc", "-i"], ["bash", "-i"], ["cat"], ["sleep", "1000"]:
        terminal, target = on_terminal(*argv)
        with target:
            store = os.path.join(folder, "-".join(argv))
            snap(target, store, 3)
            each, _ = snap(target, store, 20)
            check(each <= ROOM, f"{argv}: {each:.0f} bytes a snapshot")
        os.close(terminal)


VIEWS = {"tree": "snapshot, node", "holder_tree": "snapshot, node",
         "dominators": "snapshot, retained_bytes, address", "objects": "snapshot, address"}


def told(store, snapshot):
    return [live.heapx("sql", store, f"SELECT * FROM {view} WHERE snapshot = {snapshot} ORDER BY {order}",
                       "--format", "csv")[1].replace(f"\n{snapshot},", "\n") for view, order in VIEWS.items()]


def shared(folder):
    """Rows that are stored once are those of each: as they were, also when their owner is another."""
    store, alone = os.path.join(folder, "store"), os.path.join(folder, "alone")
    terminal, target = on_terminal("bash", "--norc", "-i")
    with target:
        snap(target, store, 3)
        snap(target, alone, 1)
        check(live.row(store, "SELECT count(DISTINCT snapshot) AS n FROM hx_dominator")["n"] == 1, "not shared")
        check(live.row(store, "SELECT count(*) AS n FROM hx_alike")["n"] == 6, "not all shared")
        first = told(store, 1)
        check(len(first[0].splitlines()) > 10 and len(first[2].splitlines()) > 100, "hardly any rows")
        check(told(store, 2) == first and told(store, 3) == first, "other rows")
        check(told(alone, 1) == first, "not those of a snapshot alone")
        os.write(terminal, b"a=$(seq 1000); b=(x{1..100})\n")
        time.sleep(0.5 * live.SLOW)
        snap(target, store, 1)
        check(told(store, 4)[3] != first[3], "nothing has changed")
        check(told(store, 3) == first, "changed what was there")
        check(live.row(store, "SELECT count(DISTINCT snapshot) AS n FROM hx_dominator")["n"] == 2, "one list")
    os.close(terminal)


def many(folder):
    """The 100th (of a nightly run the 1,000th) takes the room and the time of the 10th."""
    terminal, target = on_terminal("cat")
    store = os.path.join(folder, "store")
    with target:
        snap(target, store, 5)
        early = [snap(target, store, 10) for _ in range(3)]
        snap(target, store, 960 if live.is_set("HX_NIGHTLY") else 60)
        late = [snap(target, store, 10) for _ in range(3)]
    os.close(terminal)
    size, seconds = (min(of[i] for of in late) for i in (0, 1))
    check(size <= 1.2 * max(of[0] for of in early) + 512, f"room: {early}, then {late}")
    check(seconds <= 1.5 * max(of[1] for of in early), f"time: {early}, then {late}")


def large(folder):
    """And of a large one, whose columns are nearly all of it."""
    forest = os.path.join(live.BUILD, "test/bench/forest")
    if not os.path.exists(forest):
        raise live.Skip(f"{forest} is not built")
    store, objects = os.path.join(folder, "store"), 300_000
    with live.Target([forest, "--objects", str(objects), "--stray", "1000"]) as target:
        target.wait_line("ready")
        snap(target, store, 1)
    columns = live.row(store, "SELECT sum(length(data)) AS n FROM (SELECT data FROM hx_column"
                       " WHERE typeof(data) = 'blob' UNION ALL SELECT data FROM hx_pack)")["n"]
    check(columns <= 7.5 * objects, f"{columns / objects:.2f} bytes an object with its edges")


live.main(room, shared, many, large, long=(many,))
