#!/usr/bin/env -S python3 -B
"""watchdog.py - heapx snap --when: looks at a process until a condition holds, takes a snapshot each
time that it becomes true anew, and leaves the process alone until then."""
import os
import select
import signal
import subprocess
import time

import live
from live import check, heapx

# Each line is how many megabytes it holds from then on.
GROWING = [*live.PYTHON, """
import sys
print('ready', flush=True)
kept = b''
for line in sys.stdin:
    kept = b''
    kept = bytearray(b'x') * (int(line) << 20)
    print('ready', flush=True)
"""]


def say(target, megabytes):
    target.process.stdin.write(b"%d\n" % megabytes)
    target.process.stdin.flush()
    target.wait_line("ready")


def watch(target, store, *words):
    return subprocess.Popen([live.HEAPX, "snap", str(target.pid), "-o", store, "--every", "20ms",
                             *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            preexec_fn=live.end_with_parent)


def taken(process):
    """Waits for the line of the next snapshot."""
    check(select.select([process.stdout], [], [], 100)[0], "no snapshot")
    line = process.stdout.readline()
    check(line.startswith("snapshot "), f"{line} {process.poll()}")


def ended(process, status, says=""):
    _, err = process.communicate(timeout=60 * live.SLOW)
    check(process.returncode == status and says in err, f"exit {process.returncode}: {err}")
    check(err.count("\n") == (says != ""), err)


def each_time(folder):
    store = os.path.join(folder, "store")
    with live.Target(GROWING) as target:
        target.wait_line("ready")
        process = watch(target, store, "--when", "rss > 60M", "--count", "2")
        time.sleep(0.4)
        check(live.threads(target.pid)[0][2] == 0, "traced while nothing happens")
        check(process.poll() is None, "ended before the condition held")
        say(target, 70)
        taken(process)
        time.sleep(0.3)  # it still holds: that is no second time
        say(target, 1)
        time.sleep(1)  # for a look in between
        say(target, 80)
        taken(process)
        ended(process, 0)
        rows = live.rows(store, "select rss_bytes, heap_bytes from snapshots")
        check(len(rows) == 2 and all(r["rss_bytes"] > 60 << 20 for r in rows), f"{rows}")
        live.check_let_go(target.pid)


def grow_until_taken(process, target, megabytes):
    """Who looks late begins with what is there then."""
    while not select.select([process.stdout], [], [], 0.3)[0]:
        megabytes += 30
        check(megabytes < 1200, "no snapshot")
        say(target, megabytes)
    taken(process)
    return megabytes


def by_growth(folder):
    store = os.path.join(folder, "store")
    with live.Target(GROWING) as target:
        target.wait_line("ready")
        process = watch(target, store, "--when", "growth > 20M", "--count", "2")
        megabytes = grow_until_taken(process, target, 0)
        check(process.poll() is None, "ended after one of two")
        grow_until_taken(process, target, megabytes)
        ended(process, 0)


def columns(folder):
    with live.Target(GROWING) as target:
        target.wait_line("ready")
        rss = live.sum_of_rss(target.pid)
        for n, when in enumerate((
                f"rss > {rss // 2} and rss < {rss * 2} and anon > 100K and file > 100K and "
                "shmem >= 0 and swap >= 0 and size > data and data > 1 and threads = 1",
                "pss > 100K and pss <= rss and heap > 1K and heap < size and fds >= 3 and fds < 50",
                "uptime > 0.001 and uptime < 3600 and cpu >= 0 and cpu < 3600",
                "growth >= 0 and (rate <= 0 or rate > 0)")):
            heapx("snap", target.pid, "-o", os.path.join(folder, f"store{n}"), "--when", when,
                  "--every", "10ms", "--duration", "20s")
        for when, says in (("rss >", "at column 6"), ("rs > 1", "unknown column"),
                           ("rss ~ 'x", "at column"), ("leaks.bytes > 1", "column")):
            out, err = heapx("snap", target.pid, "-o", folder + "/x", "--when", when, ok=(2,))[1:]
            check(out == "" and "--when" in err and says in err and err.count("\n") == 1, err)
        check(not os.path.exists(folder + "/x"), "a store was left")


def ends(folder):
    store = os.path.join(folder, "store")
    with live.Target(GROWING) as target:
        target.wait_line("ready")
        ended(watch(target, store, "--when", "rss > 2T", "--duration", "200ms"), 1, "did not hold")
        process = watch(target, store, "--when", "rss > 2T")
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        ended(process, 130, "interrupted before")
        process = watch(target, store, "--when", "rss > 2T")
        time.sleep(0.3)
        target.process.kill()
        ended(process, 1, "has exited")
    check(os.listdir(folder) == [], f"{os.listdir(folder)}")


if __name__ == "__main__":
    live.main(each_time, by_growth, columns, ends)
