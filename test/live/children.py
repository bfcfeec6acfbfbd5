#!/usr/bin/env -S python3 -B
"""children.py - `heapx run`, when a process of the program cannot be taken, or does not wait for it.

    children.py [TEST...]      environment: HX_RUNS (1) of a program that forks from many threads

test/live/children has children that are traced, leave without a word, become other programs or live
elsewhere (see there). The others must not notice, every process keeps its own exit status, and what
was recorded is stored.
"""
import os
import re
import signal
import subprocess
import sys
import time

import live
import recorded
from live import check

RUNS = int(os.environ.get("HX_RUNS", "1"))
HEAP = "the process had ended: only what was recorded of it is known"


def run(folder, *command, options=("--children", "--at-exit"), seconds=60, **more):
    """(status, stderr, rows of `snapshots`) of one run."""
    store = f"{folder}/{len(os.listdir(folder))}.db"
    with recorded.Run(store, [live.victim("children"), *map(str, command)], *options, **more) as target:
        target.wait(seconds, b"")
    rows = []
    if os.path.exists(store):
        rows = live.rows(store, "SELECT snapshot, complete, notes, heap_objects, (SELECT count(*) FROM costs "
                                "c WHERE c.snapshot = s.snapshot) costs FROM snapshots s ORDER BY 1")
    return target.status, target.err.decode(), rows


def traced(folder):
    """One of four is traced by its parent: the others have their heaps, it has its costs."""
    status, said, rows = run(folder, "traced", 4)
    check(status == 9, f"exit {status}: {said}")
    late = [row for row in rows if not row["complete"]]
    check(len(rows) == 5 and len(late) == 1, f"snapshots {rows}")
    check("is traced already" in late[0]["notes"] and late[0]["costs"], f"the traced one: {late}")
    check("traced already" in said, f"it said {said!r}")


def tracer(folder):
    """The program itself is traced when it ends."""
    status, said, rows = run(folder, "tracer", 1)
    check(status == 9, f"exit {status}: {said}")
    check(any("is traced already" in row["notes"] for row in rows) and len(rows) >= 2, f"snapshots {rows}")
    status, said, rows = run(folder, "tracer", 1, options=("--every", "50ms"))
    check(status == 9, f"exit {status}: {said}")
    check(rows, "nothing was stored")


def raw(folder):
    """Who leaves by a bare exit_group, as Go programs do, has its own status, and its costs."""
    status, said, rows = run(folder, "raw", 3)
    check(status == 9, f"exit {status}: {said}")
    check(sorted(row["complete"] for row in rows) == [0, 1, 1, 1], f"snapshots {rows}")
    for want in (0, 5):
        status, said, rows = run(folder, "left", want)
        check(status == want, f"exit {status} for {want}: {said}")
        check("exit_group" in said, f"no note: {said!r}")
        check(len(rows) == 1 and HEAP in rows[0]["notes"] and rows[0]["costs"], f"snapshots {rows}")


def silent(folder):
    """A program without any malloc: its own status, and a note."""
    source, program = f"{folder}/bare.c", f"{folder}/bare"
    with open(source, "w") as file:
        file.write('void _start(void) { long r; __asm__ volatile("syscall" : "=a"(r) : "a"(231), '
                   '"D"(6) : "rcx", "r11"); __builtin_unreachable(); }\n')
    if subprocess.run(["cc", "-static", "-nostdlib", "-o", program, source], stderr=subprocess.DEVNULL).returncode:
        raise live.Skip("cannot be compiled")
    recorded.may_probe()
    with recorded.Run(f"{folder}/bare.db", [program]) as target:
        target.wait(60, b"")
    said = target.err.decode()
    check(target.status == 6, f"exit {target.status}: {said}")
    check("nothing was recorded" in said and said.count("\n") == 1, f"it said {said!r}")


def early(folder):
    """--every of a program that ends before the first tick."""
    for command, want in (("plain", 0), 9), (("left", 5), 5), (("idle",), 0):
        status, said, rows = run(folder, *command, options=("--every", "60s"))
        check(status == want, f"{command}: exit {status}: {said}")
        check(len(rows) == 1 and HEAP in rows[0]["notes"], f"{command}: {rows}")
        check(rows[0]["costs"] or command[0] == "idle", f"{command}: no costs")


def become(folder):
    """Children that became another program without the library are no strangers."""
    status, said, rows = run(folder, "become", 6)
    check(status == 9, f"exit {status}: {said}")
    check("namespace" not in said, f"it said {said!r}")
    check(any(row["complete"] for row in rows), f"snapshots {rows}")


def space(folder):
    """One whose number is another's here is one."""
    status, said, _ = run(folder, "space", 1)
    if status == 77:
        raise live.Skip("no PID namespaces here")
    check(status == 9, f"exit {status}: {said}")
    check("another PID namespace has its number" in said, f"it said {said!r}")


def state(pid):
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rsplit(")", 1)[1].split()[0]


def late(folder):
    """While heapx stands still, an exit takes a second: of a child that it has not seen yet, too."""
    with recorded.Run(f"{folder}/late.db", [live.victim("children"), "late"], "--children", "--at-exit") as target:
        check(b"ready" in target.process.stdout.readline(), "did not start")
        time.sleep(0.3)
        with open(f"/proc/{target.process.pid}/task/{target.process.pid}/children") as file:
            pids = [int(pid) for pid in file.read().split()]
        program = [pid for pid in pids if os.readlink(f"/proc/{pid}/exe") == live.victim("children")]
        check(len(program) == 1, f"children of heapx: {pids}")
        target.process.send_signal(signal.SIGSTOP)
        target.process.stdin.write(b"go\n")
        target.process.stdin.flush()
        line = target.process.stdout.readline().decode()
        begun = time.monotonic()
        while state(program[0]) not in "ZX":
            check(time.monotonic() - begun < 30, "the program does not end")
            time.sleep(0.01)
        own = time.monotonic() - begun
        target.process.send_signal(signal.SIGCONT)
        target.wait(30)
        took = int(re.fullmatch(r"child (\d+)\n", line)[1])
        check(took < 5000 * live.SLOW, f"the child's exit took {took} ms")
        check(own < 5 * live.SLOW, f"the program's exit took {own:.1f} s")
        check(target.status == 9, f"exit {target.status}: {target.err.decode()}")
        print(f"  exits took {took} ms and {1000 * own:.0f} ms")


def names(folder):
    """Many children of one program: the debug information of each file is read once."""
    begun = time.monotonic()
    status, said, rows = run(folder, "plain", 16, env=dict(os.environ, HEAPX_TIMING="1"), seconds=120)
    check(status == 9, f"exit {status}: {said[-2000:]}")
    check(len(rows) == 17 and all(row["complete"] for row in rows), f"snapshots {rows}")
    n = said.count("timing debug-information ")
    check(0 < n <= 6, f"debug information was read {n} times")
    print(f"  16 children took {time.monotonic() - begun:.1f} s; debug information read {n} times")


def forks(folder):
    """Several threads fork, and others allocate: it ends, each time."""
    slowest = 0
    for n in range(RUNS):
        begun = time.monotonic()
        status, said, rows = run(folder, "forks")
        slowest = max(slowest, time.monotonic() - begun)
        check(status == 9, f"run {n}: exit {status}: {said}")
        check(len(rows) == 13, f"run {n}: {len(rows)} snapshots: {said}")
        for name in os.listdir(folder):
            os.unlink(f"{folder}/{name}")
    print(f"  {RUNS} runs, the slowest took {slowest:.1f} s")


def copying(pid):
    """The process below heapx that copies; None: there is none."""
    try:
        with open(f"/proc/{pid}/comm") as comm, open(f"/proc/{pid}/task/{pid}/children") as children:
            if comm.read().strip() == "heapx-capture":
                return pid
            below = [copying(int(child)) for child in children.read().split()]
    except OSError:
        return None
    return next((one for one in below if one), None)


def memory(folder):
    """The kernel ends what copies a child: its costs are kept, and the recording goes on."""
    check(any(without_copies(folder) for _ in range(5)), "all copies were done before they were ended")


def without_copies(folder):
    """Was a copy ended?"""
    code = ("import os, sys\nx = [bytes(1000) for _ in range(100000)]\nfor _ in range(3):\n"
            "  child = os.fork()\n  if not child: sys.exit(0)\n  os.waitpid(child, 0)\nsys.exit(9)")
    store = f"{folder}/{len(os.listdir(folder))}.db"
    with recorded.Run(store, [sys.executable, "-c", code], "--children", "--at-exit") as target:
        while target.process.poll() is None:
            worker = copying(target.process.pid)
            try:
                if worker:
                    os.kill(worker, signal.SIGKILL)
            except ProcessLookupError:  # it was done
                pass
            time.sleep(0.001)
        target.wait(60, b"")
    check(target.status == 9, f"exit {target.status}: {target.err}")
    rows = live.rows(store, "SELECT complete, notes, (SELECT count(*) FROM costs c WHERE c.snapshot = s.snapshot) "
                            "costs FROM snapshots s")
    check(len(rows) == 4 and all(row["costs"] for row in rows), f"snapshots {rows}")
    return any("was killed, as the kernel does" in row["notes"] for row in rows)


def last(folder):
    """A program that ends while the snapshot at the end is made: what was recorded is stored."""
    check(any(killed_while_copied(f"{folder}/{n}.db") for n in range(5)), "it never was being copied")


def killed_while_copied(store):
    """Was it being copied? Where it was not, its recording was over before it had begun in earnest."""
    code = ("import os, time\nprint(os.getpid(), flush=True)\nx = [bytes(1000) for _ in range(200000)]\n"
            f"time.sleep({5 * live.SLOW})")
    with recorded.Run(store, [sys.executable, "-c", code], "--duration", f"{2 * live.SLOW}s") as target:
        pid = int(target.process.stdout.readline())
        while target.process.poll() is None and not copying(target.process.pid):
            pass
        if target.process.poll() is not None:
            return False
        os.kill(pid, signal.SIGKILL)
        target.wait(60, b"")
    check(target.status == 128 + signal.SIGKILL, f"exit {target.status}: {target.err}")
    check(len(live.rows(store, "SELECT * FROM costs")), f"nothing was stored: {target.err}")
    return True


if __name__ == "__main__":
    live.main(traced, tracer, raw, silent, early, become, space, late, names, memory, last, forks,
              long=(memory, forks))
