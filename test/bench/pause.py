#!/usr/bin/env -S python3 -B
"""pause.py - how long a target stands still, beside the least that any stop of it would take.

    pause.py [--rounds N] [--only NAME,NAME] [--json FILE]

Run by `scripts/bench pause`. A row for each target of ROWS: what pause.c measures beside it (bare ptrace calls on
all threads; one read of /proc/PID/maps; a stop that copies all), pause_us, and what the target's own clock says: the longest gap of
a thread that does nothing but look at it. They take turns, each is the least of its rounds; on a machine that
does something else the gap says more about that. `ratio` is pause_us to what is allowed, which the last
column spells out: above 1 the row fails, and so does the program. Two rows are about the rest of a snapshot: the
longest that a page took a target to map, write and unmap in any phase of it, but for waiting for a processor, in the
place of pause_us, beside the same while heapx takes another process as large, of which it has only what the machine
does to it; and the time of 10,000 allocations at full speed, alone and with a snapshot each second, medians.
"""
import argparse
import collections
import json
import os
import statistics
import sys
import tempfile
import time

import bench
from bench import live

PROGRAM = os.path.join(live.BUILD, "test/bench/pause")

# start() -> a target with gap(), in seconds; beside(target) -> seconds; allowed(beside) -> seconds; of(target, pause,
# gap, store) -> what is to be allowed; typical(seconds of all rounds) -> seconds
Row = collections.namedtuple("Row", "name start beside allowed limit of typical",
                             defaults=(lambda _t, pause, _g, _s: pause, min))


class Plain(live.Target):
    """pause.c as a target: many threads or mappings, and no heap."""

    def __init__(self, *args):
        super().__init__([PROGRAM, *map(str, args)])
        self.wait_line("ready")

    def ask(self):
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()
        return self.wait_line("gap").split()[1:]

    def gap(self):
        return int(self.ask()[0]) / 1e9

    def allocating(self, seconds):
        """Seconds that 10,000 allocations take, on the average of so long."""
        self.ask()
        begun = time.monotonic()
        time.sleep(seconds)
        count = int(self.ask()[1])
        return 1e4 * (time.monotonic() - begun) / count


def floor(what):
    """Seconds that pause.c takes of a target."""
    def measure(target):
        return int(bench.subprocess.run([PROGRAM, what, str(target.pid)], check=True,
                                        stdout=bench.subprocess.PIPE).stdout) / 1e9
    return measure


def copied(target):
    """Seconds that it stands still when all is copied in the stop."""
    with tempfile.TemporaryDirectory() as folder:
        return snap(target, f"{folder}/s.db", "copy")


def snap(target, store, method):
    live.heapx("snap", target.pid, "-o", store, "--analyse", "later", "--pause", method, ok=(0, 3))
    return live.row(store, "SELECT pause_us p FROM snapshots ORDER BY snapshot DESC LIMIT 1")["p"] / 1e6


def another_taken(target):
    """The longest gap that it sees while another of its size is taken."""
    with Plain("heap", 1024) as other, tempfile.TemporaryDirectory() as folder:
        target.gap()
        pause = snap(other, f"{folder}/s.db", "auto")
        return max(target.gap() - pause, 0)


def snapshots_each_second(target, _pause, _gap, store):
    with bench.subprocess.Popen([live.HEAPX, "snap", str(target.pid), "-o", store, "--every", "1s", "--count", "100",
                                 "--analyse", "later"], stdout=bench.subprocess.DEVNULL,
                                stderr=bench.subprocess.DEVNULL) as heapx:
        try:
            return target.allocating(BUSY_SECONDS)
        finally:
            heapx.terminate()


def heap(what, mib, seconds, limit):
    return Row(f"{mib} MiB {what}", lambda: Plain(what, mib), copied, lambda s: min(seconds, s / 50), limit)


def plain(what, number, beside, allowed, limit):
    return Row(f"{number} {what}", lambda: Plain(what, number), floor(beside), allowed, limit)


BUSY_SECONDS = 6

ROWS = [
    *(plain("threads", n, "stop", lambda s: 2 * s, "2 x the bare ptrace calls") for n in (1000, 10000)),
    *(plain("mappings", n, "maps", lambda s: 1.5 * s + 0.002, "1.5 x a read of maps + 2 ms")
      for n in (20000, 60000)),
    heap("heap", 1024, 0.002, "2 ms, and 1/50 of copy"),
    heap("heap", 4096, 0.004, "4 ms, and 1/50 of copy"),
    Row("1024 MiB dirty", lambda: Plain("dirty", 1024), copied, lambda _: 0.002 + 4096 * 2e-6,
        "2 ms + 2 us for each of 4,096 pages"),
    Row("1024 MiB mmap", lambda: Plain("mmap", 1024), another_taken, lambda s: 0.005 + s,
        "5 ms, the stop, and that of another", lambda _target, pause, gap, _store: max(gap - pause, 0)),
    Row("256 MiB busy", lambda: Plain("busy", 256), lambda target: target.allocating(BUSY_SECONDS),
        lambda s: s / 0.9, "10 % of its throughput", snapshots_each_second, statistics.median),
]


def once(row, target, store):
    """(beside, pause_us, gap) in seconds."""
    beside = row.beside(target)
    target.gap()
    pause = snap(target, store, "auto")
    gap = target.gap()
    return beside, row.of(target, pause, gap, store), gap


def measure(row, rounds, store):
    with row.start() as target:
        beside, pause, gap = (row.typical(column) for column in
                              zip(*(once(row, target, store) for _ in range(rounds))))
    allowed = row.allowed(beside)
    return {"row": row.name, "beside_ms": 1e3 * beside, "pause_ms": 1e3 * pause, "gap_ms": 1e3 * gap,
            "allowed_ms": 1e3 * allowed, "ratio": pause / allowed, "limit": row.limit}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="")
    parser.add_argument("--json")
    options = parser.parse_args()
    only = [name for name in options.only.split(",") if name]
    found = []
    print(f"{'':18}{'beside':>10}{'pause_us':>10}{'own clock':>11}{'ratio':>8}  at most")
    for row in ROWS:
        if only and not any(name in row.name for name in only):
            continue
        with tempfile.TemporaryDirectory() as folder:
            found.append(measure(row, options.rounds, f"{folder}/s.db"))
        last = found[-1]
        print(f"{row.name:18}{last['beside_ms']:7.2f} ms{last['pause_ms']:7.2f} ms{last['gap_ms']:8.2f} ms"
              f"{last['ratio']:8.2f}  {row.limit}", flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1)
    return any(row["ratio"] > 1 for row in found)


if __name__ == "__main__":
    sys.exit(main())
