#!/usr/bin/env -S python3 -B
"""bench.py - what a snapshot of the large forest costs, beside the machine's own speed.

    bench.py [--objects N] [--stray N] [--rounds N] [--no-gcore] [--json FILE]

Run by scripts/bench. Every figure is the best of `rounds`; the pause is also what the
target saw itself (the longest gap of a thread that wakes every 200 us). Yardsticks of the
same run: a plain sequential read of as much memory as the target has, the floor (floor.c: read,
walk, index and mark, as plainly as can be, on one thread), and gdb's gcore. `committed` is a snapshot
whose analysis is left to later, `total` one with all of it.
"""
import argparse
import fcntl
import json
import os
import pty
import re
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../live"))
import live  # noqa: E402


def resident(pid):
    """Bytes of a process in memory."""
    with open(f"/proc/{pid}/status") as status:
        return 1024 * int(re.search(r"VmRSS:\s+(\d+)", status.read())[1])


class Forest(live.Target):
    """The target, with its own view of how long it stood still."""

    def __init__(self, objects, stray=0, tied=False):
        program = os.path.join(live.BUILD, "test/bench/forest")
        super().__init__([program, "--objects", str(objects), "--stray", str(stray),
                          "--tied", str(int(tied))])
        said = self.wait_line("objects").split()
        self.objects, self.lost = int(said[1]), int(said[5])
        self.wait_line("ready")
        self.rss = resident(self.pid)

    def gap(self):
        """Longest gap in seconds since the last call."""
        self.process.stdin.write(b"gap\n")
        self.process.stdin.flush()
        return int(self.wait_line("gap").split()[1]) / 1e6


def family(pid):
    """pid and its descendants."""
    found, todo = [], [pid]
    while todo:
        at = todo.pop()
        found.append(at)
        try:
            for tid in os.listdir(f"/proc/{at}/task"):
                with open(f"/proc/{at}/task/{tid}/children") as children:
                    todo += map(int, children.read().split())
        except OSError:
            pass
    return found


class Peak(threading.Thread):
    """The largest sum of proportional set sizes of a process and its children: a page that
    several of them share counts once."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.peak, self.ending = pid, 0, threading.Event()
        self.start()

    def run(self):
        while not self.ending.wait(0.05):
            total = 0
            for pid in family(self.pid):
                try:
                    with open(f"/proc/{pid}/smaps_rollup") as rollup:
                        total += 1024 * int(re.search(r"Pss:\s+(\d+)", rollup.read())[1])
                except (OSError, TypeError):
                    pass
            self.peak = max(self.peak, total)

    def end(self):
        self.ending.set()
        self.join()
        return self.peak


def warm(bytes_):
    """A virtual machine that gives free memory back to its host pays for the first touch of it, thirty times
    as much as usual: this is paid beforehand, so that it is not the order of runs that is measured."""
    subprocess.run([os.path.join(live.BUILD, "test/bench/forest"), "--read", str(bytes_)],
                   stdout=subprocess.DEVNULL, check=True)


def floor(forest):
    """Seconds of {read, walk, index, mark, all}."""
    warm(2 * forest.rss)
    said = subprocess.run([os.path.join(live.BUILD, "test/bench/floor"), str(forest.pid)],
                          capture_output=True, text=True, check=True).stdout
    return {stage: float(seconds) for stage, seconds in map(str.split, said.splitlines())}


def snap(forest, store, threads, measure_memory, when="now"):
    """One snapshot: {stage: (seconds, count)}, and the pause twice, and the memory."""
    warm(2 * forest.rss)
    forest.gap()
    begin = time.monotonic()
    process = subprocess.Popen(
        [live.HEAPX, "snap", str(forest.pid), "-o", store, "--threads", str(threads),
         "--analyse", when],
        env=dict(os.environ, HEAPX_TIMING="1"), stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True,
        preexec_fn=live.end_with_parent)
    peak = Peak(process.pid) if measure_memory else None
    _, err = process.communicate()
    result = {"total": (time.monotonic() - begin, 0)}
    if peak:
        result["peak"] = peak.end()
    live.check(process.returncode == 0, f"heapx snap: exit {process.returncode}: {err}")
    for stage, seconds, count in re.findall(r"^timing (\S+) (\S+) (\d+)$", err, re.M):
        old = result.get(stage, (0, 0))
        result[stage] = (old[0] + float(seconds), old[1] + int(count))
    result["gap"] = forest.gap()
    last = live.row(store, "SELECT * FROM snapshots ORDER BY snapshot DESC LIMIT 1")
    result["pause"] = last["pause_us"] / 1e6
    result["row"] = last
    return result


def best(runs, key):
    values = [run[key] for run in runs if key in run]
    return min(values) if values else None


def first_screen(store):
    """Seconds from exec to a screen that no longer changes, on a terminal of 80x24."""
    begin = time.monotonic()
    pid, master = pty.fork()
    if pid == 0:
        live.end_with_parent()
        os.environ.update(TERM="xterm-256color", LINES="24", COLUMNS="80")
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        os.execv(live.HEAPX, ["heapx", "open", store])
    last, seen = begin, b""
    while select.select([master], [], [], 1.0)[0]:
        try:
            part = os.read(master, 65536)
        except OSError:
            break
        if not part:
            break
        seen += part
        last = time.monotonic()
        if last - begin > 20:
            break
    try:
        os.write(master, b"Q")
    except OSError:
        pass
    os.close(master)
    os.waitpid(pid, 0)
    live.check(len(seen) > 300, f"no screen: {seen!r}")
    return last - begin


def gcore(forest):
    """(the target's view, seconds) of gdb's own core dump, into memory where that fits."""
    if not shutil.which("gcore"):
        return None
    where = "/dev/shm" if shutil.disk_usage("/dev/shm").free > 2 * forest.rss else "."
    with tempfile.TemporaryDirectory(dir=where) as folder:
        forest.gap()
        begin = time.monotonic()
        done = subprocess.run(["gcore", "-o", f"{folder}/core", str(forest.pid)],
                              capture_output=True)
        took = time.monotonic() - begin
        return (forest.gap(), took) if done.returncode == 0 else None


def size(store):
    return sum(os.path.getsize(store + end) for end in ("", "-wal")
               if os.path.exists(store + end))


def stages(runs):
    names = [k for k, v in runs[0].items() if isinstance(v, tuple)]
    return {k: min(run[k] for run in runs if k in run) for k in names}


def main():
    parse = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parse.add_argument("--objects", type=int, default=10_980_000)
    parse.add_argument("--stray", type=int, default=0, metavar="N", help="blocks in a million")
    parse.add_argument("--rounds", type=int, default=3)
    parse.add_argument("--no-gcore", action="store_true")
    parse.add_argument("--json")
    args = parse.parse_args()
    out = {}
    with live.scratch() as folder, Forest(args.objects, args.stray) as forest:
        print(f"forest: {forest.objects:,} objects, {forest.lost:,} lost, "
              f"rss {forest.rss / 2**20:,.0f} MiB; load {os.getloadavg()[0]:.1f}\n")
        read = float(subprocess.run([forest.process.args[0], "--read", str(forest.rss)],
                                    capture_output=True, text=True, check=True).stdout)
        plain = min((floor(forest) for _ in range(args.rounds)), key=lambda found: found["all"])
        out["floor"] = plain
        print(f"{'stage':<18}{'threads':>8}{'seconds':>10}{'M/s':>9}{'x floor':>9}")
        print(f"{'sequential read':<18}{1:>8}{read:>10.3f}{'':>9}{read / plain['all']:>9.2f}")
        for stage in "read", "walk", "index", "mark", "all":
            print(f"{'floor: ' + stage:<18}{1:>8}{plain[stage]:>10.3f}{'':>9}"
                  f"{plain[stage] / plain['all']:>9.2f}")
        for threads in (1, 2):
            runs = []
            for n in range(args.rounds):
                store = f"{folder}/{threads}.{n}.db"
                runs.append(snap(forest, store, threads, n == args.rounds - 1))
                later = snap(forest, f"{folder}/later.db", threads, False, "later")
                os.unlink(f"{folder}/later.db")
                runs[-1]["committed"] = later["total"]
                if n < args.rounds - 1:
                    os.unlink(store)
            row = runs[-1]["row"]
            for stage, (seconds, count) in stages(runs).items():
                rate = f"{count / seconds / 1e6:.2f}" if count else ""
                print(f"{stage:<18}{threads:>8}{seconds:>10.3f}{rate:>9}"
                      f"{seconds / plain['all']:>9.2f}")
                out[f"{stage}_{threads}"] = seconds
            for key in ("pause", "gap"):
                seconds = best(runs, key)
                print(f"{key:<18}{threads:>8}{seconds:>10.3f}{'':>9}{seconds / plain['all']:>9.2f}")
                out[f"{key}_{threads}"] = seconds
            peak = best(runs, "peak")
            out[f"peak_{threads}"] = peak / forest.rss
            print(f"{'peak memory':<18}{threads:>8}   {peak / 2**20:,.0f} MiB = "
                  f"{peak / forest.rss:.2f} times the target's rss")
        edges = sum(live.row(store, f"SELECT count(*) n FROM {t}")["n"]
                    for t in ("edges", "root_edges"))
        bytes_, objects = size(store), row["heap_objects"]
        out.update(store_bytes=bytes_, objects=objects, edges=edges,
                   leaked_objects=row["leaked_objects"])
        print(f"\nfound: {objects:,} objects, {edges:,} edges, {row['leaked_objects']:,} leaked "
              f"(planted {forest.lost:,})")
        print(f"store: {bytes_ / 1e6:.1f} MB = {bytes_ / objects:.1f} bytes an object with its "
              f"edges (12 an object and 6 an edge allow {12 + 6 * edges / objects:.1f})")
        out["first_screen"] = min(first_screen(store) for _ in range(args.rounds))
        print(f"open to first screen: {out['first_screen']:.3f} s")
        dump = None if args.no_gcore else gcore(forest)
        if dump:
            out["gcore_gap"], out["gcore_total"] = dump
            print(f"gcore: stands still {dump[0]:.3f} s (all in all {dump[1]:.3f} s); "
                  f"heapx {min(out['gap_1'], out['gap_2']):.3f} s, "
                  f"{min(out['gap_1'], out['gap_2']) / dump[0]:.2f} of it")
    save(args.json, out)


def save(path, out):
    """The figures as JSON, where somebody asked for them."""
    if path:
        with open(path, "w") as file:
            json.dump(out, file, indent=1)


def run(main_):
    try:
        main_()
    except (live.Skip, live.Failure) as why:
        sys.exit(f"bench: {why}")


if __name__ == "__main__":
    run(main)
