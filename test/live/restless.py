#!/usr/bin/env -S python3 -B
"""restless.py - targets that are hard to stop: an answer in bounded time, and no trace.

Runs test/live/restless in each of its ways and takes snapshots of it. heapx must answer
(0), answer in part (3) or refuse in one line (1), and the target must go on.
"""
import os
import signal
import subprocess
import sys
import time

import live
from live import check

BOUND = 20 * live.SLOW  # seconds that a snapshot of a tiny target may take at most


def snap(pid, store, ok=(0, 3)):
    begin = time.monotonic()
    status, _, err = live.heapx("snap", pid, "-o", store, ok=(0, 1, 3), timeout=2 * BOUND)
    took = time.monotonic() - begin
    check(took < BOUND, f"a snapshot took {took:.1f} s")
    check(status in ok, f"exit {status}: {err}")
    if status == 1:
        check(err.startswith("heapx: ") and err.count("\n") == 1, f"not one clear line: {err!r}")
    return status, err


def goes_on(pid):
    """The process runs: neither traced nor stopped, and it uses time or wakes up."""
    live.check_let_go(pid)

    def switches():
        return sum(int(line.split()[1]) for tid in os.listdir(f"/proc/{pid}/task")
                   for line in open(f"/proc/{pid}/task/{tid}/status") if "ctxt_switches" in line)

    before, end = switches(), time.monotonic() + 3 * live.SLOW
    while switches() == before:
        check(time.monotonic() < end, f"PID {pid} does nothing any more")
        time.sleep(0.02)


def several(folder, mode, times, good):
    """`good` of `times` snapshots must be complete; all must leave the target alone."""
    store = f"{folder}/s.db"
    status = []
    with live.Target([live.victim("restless"), mode]) as target:
        target.wait_line("ready")
        for _ in range(times):
            status.append(snap(target.pid, store, ok=(0, 1, 3))[0])
            check(target.process.poll() is None, f"{mode}: the target ended")
            live.check_let_go(target.pid)
        if mode in ("seccomp", "idle", "vfork"):
            goes_on(target.pid)
    print(f"  {mode}: {status.count(0)} complete, {status.count(3)} partial, "
          f"{status.count(1)} refused")
    check(status.count(0) >= good, f"{mode}: only {status.count(0)} of {times} are complete")


def threads(folder):
    several(folder, "threads", 10, 8)


def busy(folder):
    several(folder, "busy", 15, 12)


def forks(folder):
    several(folder, "fork", 8, 7)


def execs(folder):
    several(folder, "exec", 12, 0)


def seccomp(folder):
    several(folder, "seccomp", 3, 3)


def vfork(folder):
    """The waiting parent cannot stop: an answer in part or a refusal, soon, and the others do not
    stand still for it as for one that waits for a disk (50 ms)."""
    several(folder, "vfork", 6, 0)
    pause = live.row(f"{folder}/s.db", "SELECT min(pause_us) us FROM snapshots")["us"]
    check(pause < 40_000, f"stopped for {pause} us")


def leaderless(folder):
    """The first thread is a zombie; the others, and the memory, are there."""
    time_to_exit = 0.1
    store = f"{folder}/s.db"
    with live.Target([live.victim("restless"), "leaderless"]) as target:
        target.wait_line("ready")
        time.sleep(time_to_exit)
        snap(target.pid, store, ok=(0,))
        check(live.row(store, "SELECT heap_objects n FROM snapshots")["n"] >= 100,
              "the heap was not seen")


def crowd(folder):
    several(folder, "crowd", 2, 2)


def shreds(folder):
    several(folder, "shreds", 2, 2)


def sparse(folder):
    several(folder, "sparse", 2, 2)


def exits(folder):
    """A target that ends during the snapshot, at one moment after the other."""
    store = f"{folder}/s.db"
    for ms in range(5, 125, 8):
        with live.Target([live.victim("restless"), "exit", str(ms)]) as target:
            target.wait_line("ready")
            snap(target.pid, store, ok=(0, 1, 3))
            check(target.process.wait(timeout=5 * live.SLOW) == 0, "the target's exit status changed")
    if os.path.exists(store):
        live.rows(store, "SELECT * FROM snapshots")


def stopped(folder):
    """A stopped target stays stopped, and goes on when told."""
    store = f"{folder}/s.db"
    with live.Target([live.victim("restless"), "idle"]) as target:
        target.wait_line("ready")
        os.kill(target.pid, signal.SIGSTOP)
        os.waitpid(target.pid, os.WUNTRACED)
        for _ in range(3):
            snap(target.pid, store, ok=(0,))
            time.sleep(0.1)
            live.check_let_go(target.pid, stopped=True)
        os.kill(target.pid, signal.SIGCONT)
        goes_on(target.pid)


def stopped_meanwhile(folder):
    """SIGSTOP and SIGCONT arrive while snapshots are taken: the last one counts."""
    store = f"{folder}/s.db"
    with live.Target([live.victim("restless"), "busy"]) as target:
        target.wait_line("ready")
        pid = os.fork()
        if pid == 0:  # a second process, as a shell's job control would be
            live.end_with_parent()
            for n in range(400):
                os.kill(target.pid, signal.SIGCONT if n % 2 else signal.SIGSTOP)
                time.sleep(0.007)
            os._exit(0)
        try:
            for _ in range(8):
                snap(target.pid, store, ok=(0, 3))
        finally:
            os.waitpid(pid, 0)
        live.check_let_go(target.pid)
        goes_on(target.pid)


def interrupted(folder):
    """Ctrl-C and SIGTERM in the middle: exit 130, the target free, the store whole."""
    store = f"{folder}/s.db"
    with live.Target([live.victim("restless"), "idle"]) as target:
        target.wait_line("ready")
        for sig in (signal.SIGINT, signal.SIGTERM):
            many = subprocess.Popen([live.HEAPX, "snap", str(target.pid), "-o", store,
                                     "--every", "50ms", "--count", "1000"],
                                    stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                    preexec_fn=live.end_with_parent)
            end = time.monotonic() + BOUND
            # the line of names comes without a snapshot, too
            while "\n1" not in live.heapx("sql", store, "SELECT 1 n FROM snapshots", ok=(0, 1))[1]:
                check(time.monotonic() < end, "no snapshot is ever complete")
                time.sleep(0.05)
            time.sleep(0.5)
            many.send_signal(sig)
            _, err = many.communicate(timeout=BOUND)
            check(many.returncode == 130, f"signal {sig}: exit {many.returncode}: {err!r}")
            goes_on(target.pid)
            check(live.row(store, "SELECT count(*) n FROM snapshots")["n"] > 0,
                  "what was complete is not kept")


if __name__ == "__main__":
    if not os.path.exists(live.HEAPX):
        print(f"skipped: {live.HEAPX} is not built")
        sys.exit(77)
    sys.exit(live.main(threads, busy, forks, execs, seccomp, vfork, leaderless, crowd, shreds, sparse, exits, stopped,
                       stopped_meanwhile, interrupted))
