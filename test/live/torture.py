#!/usr/bin/env -S python3 -B
"""torture.py - a target must not notice, and a killed heapx must leave nothing behind.

    torture.py [TEST...]     environment: HX_SNAPSHOTS (15; 30 with
    HX_NIGHTLY=1), HX_SEED, HX_PAUSE (methods of --pause that take turns)

Runs test/live/torture undisturbed and then under many snapshots, with heapx killed by
SIGKILL at a random moment in half of them. The outcome must be the same; after each
snapshot nothing may be stopped or traced, and the store must open with every snapshot
that was finished. scripts/soak runs the long one.
"""
import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import time

import live
from live import check

# which ways of copying take turns
METHODS = os.environ.get("HX_PAUSE", "copy precopy").split()
SNAPSHOTS = int(os.environ.get("HX_SNAPSHOTS", "30" if live.is_set("HX_NIGHTLY") else "15"))


def files(pid):
    """What it has open, but for files with a path, which it opens and closes itself."""
    folder, found = f"/proc/{pid}/fd", []
    for number in os.listdir(folder):
        with contextlib.suppress(FileNotFoundError):
            found.append(re.sub(r"\d+", "", os.readlink(f"{folder}/{number}")))
    return sorted(name for name in found if name[0] != "/")


def outcome(target):
    """Ends the program; its one line, and the one for people."""
    end = time.monotonic() + 2 * live.SLOW
    while files(target.pid) != target.files:
        check(time.monotonic() < end, f"its files: {files(target.pid)}, at first {target.files}")
        time.sleep(0.01)
    target.process.stdin.close()
    line = target.wait_line("outcome").strip()
    detail = target.wait_line("detail").strip()
    check(target.process.wait(timeout=20 * live.SLOW) == 0, "the target did not exit by itself")
    target.process.stdin = None
    return line, detail


def start():
    target = live.Target([live.victim("torture")])
    target.wait_line("ready")
    time.sleep(1)  # each thread has opened its own
    target.files = files(target.pid)
    return target


def finished(store):
    """How many snapshots the store holds; it must open as it is."""
    if not os.path.exists(store):
        return 0
    return live.row(store, "SELECT count(*) n FROM snapshots")["n"]


@contextlib.contextmanager
def beside():
    """A second one that nobody stops. What it saw of the kernel's ticks is not held against heapx:
    the function that this gives says how many early ends of the other's sockets are too many."""
    with start() as control:
        def judge(detail):
            def early(text):
                return int(re.search(r"ticks_early=(\d+)", text)[1])
            alone = outcome(control)[1]
            check(early(detail) <= 2 * early(alone) + 1,
                  f"limits of sockets: {detail}; undisturbed: {alone}")
        yield judge


def undisturbed(_folder):
    with start() as target:
        time.sleep(3)
        line, detail = outcome(target)
        print(f"  {line}\n  {detail}")
        check(line == "outcome eintr=0 early=0 late=0 odd=0 lost=0 checksum=right", line)


def kill_at_random(pid, store, dice, usual, method):
    """heapx snap, killed at a random moment of its usual life. True when it was faster."""
    snap = subprocess.Popen([live.HEAPX, "snap", str(pid), "-o", store, "--pause", method, "--analyse", "later"],
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                            preexec_fn=live.end_with_parent)
    try:
        time.sleep(dice.random() * usual)
        snap.kill()
        snap.wait()
        return snap.returncode == 0
    finally:
        snap.stderr.close()


def check_nobody_left(folder):
    """Whatever heapx had started has ended with it."""
    def left():
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    if folder.encode() in file.read():
                        found.append(int(pid))
            except OSError:
                pass
        return found

    end = time.monotonic() + 5 * live.SLOW
    while left():
        check(time.monotonic() < end, f"processes of heapx are left: {left()}")
        time.sleep(0.05)


def snapshots(folder):
    """Snapshots, half of them killed, against an undisturbed run."""
    if not os.path.exists(live.HEAPX):
        raise live.Skip(f"{live.HEAPX} is not built")
    seed = int(os.environ.get("HX_SEED", str(time.time_ns() % 10**6)))
    dice, store = random.Random(seed), f"{folder}/s.db"
    done = killed = partial = 0
    usual = 0.3
    print(f"  HX_SEED={seed}", flush=True)
    with beside() as judge, start() as target:
        for n in range(SNAPSHOTS):
            method = METHODS[n // 2 % len(METHODS)]
            if n % 2 == 0:
                begin = time.monotonic()
                status = live.heapx("snap", target.pid, "-o", store, "--pause", method, "--analyse", "later",
                                    ok=(0, 3))[0]
                usual = 0.7 * usual + 0.3 * (time.monotonic() - begin)
                done += 1
                partial += status == 3
            else:
                before = finished(store)
                done = before + (1 if kill_at_random(target.pid, store, dice, usual, method) else 0)
                killed += 1
            live.check_let_go(target.pid)
            now = finished(store)
            # A snapshot may be finished although its writer was killed right after.
            check(now == done or (n % 2 == 1 and now == done + 1),
                  f"snapshot {n}: the store holds {now}, finished were {done}")
            done = now
        line, detail = outcome(target)
        judge(detail)
    check_nobody_left(folder)
    print(f"  {done} snapshots stored, {killed} runs killed, {partial} partial\n"
          f"  {line}\n  {detail}")
    check(line == "outcome eintr=0 early=0 late=0 odd=0 lost=0 checksum=right", f"{line}; {detail}")
    check(partial <= max(1, SNAPSHOTS // 20), f"{partial} snapshots are partial")


def two_at_once(folder):
    """Two heapx follow each other closely: a time limit that either shortens is never short."""
    with start() as target:
        for _ in range(max(4, SNAPSHOTS // 5)):
            both = [subprocess.Popen([live.HEAPX, "snap", str(target.pid), "-o",
                                      f"{folder}/{n}.db", "--pause", METHODS[-1]], stdout=subprocess.DEVNULL,
                                     stderr=subprocess.DEVNULL,
                                     preexec_fn=live.end_with_parent) for n in range(2)]
            status = [snap.wait(timeout=60) for snap in both]
            check(all(n in (0, 1, 3) for n in status), f"ended with {status}")  # 1: was busy
        live.check_let_go(target.pid)
        line, detail = outcome(target)
    print(f"  {line}\n  {detail}")
    check(line.endswith("early=0 late=0 odd=0 lost=0 checksum=right"), f"{line}; {detail}")


def family(pid):
    """pid and its descendants, last born first."""
    found = [pid]
    for at in found:
        try:
            for tid in os.listdir(f"/proc/{at}/task"):
                with open(f"/proc/{at}/task/{tid}/children") as children:
                    found += map(int, children.read().split())
        except OSError:
            pass
    return found[::-1]


def all_killed(folder):
    """heapx, its agent and what that started are killed at once: the kernel lets go. A call
    that was interrupted in that very moment may show, nothing else may."""
    if not os.path.exists(live.HEAPX):
        raise live.Skip(f"{live.HEAPX} is not built")
    dice, store = random.Random(int(os.environ.get("HX_SEED", "1"))), f"{folder}/s.db"
    with beside() as judge, start() as target:
        begin = time.monotonic()
        live.heapx("snap", target.pid, "-o", store, "--analyse", "later", ok=(0, 3))
        usual = time.monotonic() - begin
        for n in range(max(8, SNAPSHOTS // 5)):
            snap = subprocess.Popen([live.HEAPX, "snap", str(target.pid), "-o", store, "--pause",
                                     METHODS[n % len(METHODS)], "--analyse", "later"],
                                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                    preexec_fn=live.end_with_parent)
            time.sleep(dice.random() * usual)
            for pid in family(snap.pid):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            snap.wait()
            live.check_let_go(target.pid)
            finished(store)
        line, detail = outcome(target)
        judge(detail)
    check_nobody_left(folder)
    print(f"  {line}\n  {detail}")
    check(line.endswith("early=0 late=0 odd=0 lost=0 checksum=right"), f"{line}; {detail}")


if __name__ == "__main__":
    sys.exit(live.main(undisturbed, snapshots, two_at_once, all_killed))
