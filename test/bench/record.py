#!/usr/bin/env -S python3 -B
"""record.py - what the recorders cost a program, beside their peers in the same run.

    record.py [PAIRS] [--rounds N] [--only NAME,NAME] [--json FILE]

Run by `scripts/bench record`. test/bench/pairs makes pairs of malloc and free ten frames deep and
times itself; each figure is the best of the rounds, which take turns. `x` is the time beside the
program's own, `more` the nanoseconds that a pair takes longer, `cpu`
the program's own processor time, which tells on a busy machine. Slow ways do fewer pairs. Peers
that are not here are left out and named.
"""
import argparse
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../live"))
import live  # noqa: E402
import recorded  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
PAIRS = os.path.join(live.BUILD, "test/bench/pairs")
LINE = re.compile(r"pairs (\d+) seconds (\S+) ns (\S+) cpu (\S+)")


class Absent(Exception):
    """This way is not here."""


def timed(text):
    """Nanoseconds a pair: by the clock, and of the program's own processor time."""
    match = LINE.search(text)
    live.check(match, f"no figure in {text[-500:]!r}")
    return float(match[3]), float(match[4])


def command(pairs, threads, ways, *more):
    how = ["--ways", str(ways)] if ways else ["--loop"]
    return [PAIRS, "--pairs", str(pairs), "--threads", str(threads), *how, *more]


def run(argv, **options):
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                          text=True, timeout=900, preexec_fn=live.end_with_parent, **options)
    live.check(done.returncode in (0, 3), f"{' '.join(argv)}: exit {done.returncode}: {done.stderr[-500:]}")
    return timed(done.stdout)


class Ways:
    """Each returns what timed() gives."""

    def __init__(self, folder):
        self.folder, self.n = folder, 0

    def fresh(self, ending):
        self.n += 1
        return f"{self.folder}/{self.n}{ending}"

    def without(self, pairs, threads, ways):
        return run(command(pairs, threads, ways))

    def heapx_run(self, pairs, threads, ways):
        return run([live.HEAPX, "run", "-o", self.fresh(".db"), "--", *command(pairs, threads, ways)])

    def heapx_run_sampled(self, pairs, threads, ways):
        return run([live.HEAPX, "run", "-o", self.fresh(".db"), "--sample", "512K", "--",
                    *command(pairs, threads, ways)])

    def heaptrack(self, pairs, threads, ways):
        if not shutil.which("heaptrack"):
            raise Absent("heaptrack is not installed")
        # its script runs what it records with nothing but a library preloaded and a pipe to read
        return run(["heaptrack", "-o", self.fresh(".heaptrack"), *command(pairs, threads, ways)])

    def attached(self, pairs, threads, ways, attach):
        """The program waits until something is attached to it."""
        with live.Target(command(pairs, threads, ways, "--wait")) as target:
            entry = int(target.wait_line("entry").split()[1], 16)
            with attach(target.pid, entry) as end:
                target.process.stdin.write(b"\n")
                target.process.stdin.flush()
                result = timed(target.wait_line("pairs"))
                end()
        return result

    def heapx_record(self, pairs, threads, ways):
        recorded.may_probe()
        store = self.fresh(".db")

        class Attach:
            def __init__(self, pid, entry):
                self.recorder = recorded.Record(store, pid, [entry])

            def __enter__(self):
                time.sleep(0.5)
                return lambda: None

            def __exit__(self, *_):
                self.recorder.__exit__()

        return self.attached(pairs, threads, ways, Attach)

    def peer(self, way, pairs, threads, ways):
        recorded.may_probe()
        program, code = self.build_peers()
        libc = glob.glob("/lib/x86_64-linux-gnu/libc.so.6") or glob.glob("/lib64/libc.so.6")

        class Attach:
            def __init__(self, pid, _entry):
                self.process = subprocess.Popen([program, way, str(pid), libc[0], code], text=True,
                                                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                                preexec_fn=live.end_with_parent)
                live.check("attached" in self.process.stdout.readline(), f"{way}: not attached")

            def __enter__(self):
                time.sleep(0.5)
                return self.end

            def end(self):
                said = self.process.communicate("", timeout=60)[0]
                n = int(re.search(r"counted (\d+)", said)[1])
                live.check(way != "count" or n >= pairs // 2, f"{way}: only {n} calls were counted")

            def __exit__(self, *_):
                self.process.kill()
                self.process.wait()

        return self.attached(pairs, threads, ways, Attach)

    def bare_probes(self, pairs, threads, ways):
        return self.peer("count", pairs, threads, ways)

    def memleak_way(self, pairs, threads, ways):
        return self.peer("leak", pairs, threads, ways)

    def memleak(self, pairs, threads, ways):
        program = next((p for p in ("/usr/sbin/memleak", "/usr/sbin/memleak-bpfcc") if os.path.exists(p)), None)
        if not program:
            raise Absent("libbpf-tools has no memleak here")
        recorded.may_probe()

        class Attach:
            def __init__(self, pid, entry):
                before = recorded.text(pid, entry, 48)
                self.process = subprocess.Popen([program, "-p", str(pid), "3600"], stdout=subprocess.DEVNULL,
                                                stderr=subprocess.DEVNULL, preexec_fn=live.end_with_parent)
                end = time.monotonic() + 30
                while recorded.text(pid, entry, 48) == before:
                    live.check(time.monotonic() < end, "memleak does not attach")
                    time.sleep(0.05)

            def __enter__(self):
                time.sleep(2)
                return lambda: None

            def __exit__(self, *_):
                self.process.kill()
                self.process.wait()

        return self.attached(pairs, threads, ways, Attach)

    def build_peers(self):
        program, code = f"{self.folder}/peers", f"{self.folder}/peers.bpf.o"
        if not os.path.exists(code):
            if not shutil.which("clang"):
                raise Absent("clang is not installed")
            for argv in (["clang", "-target", "bpf", "-O2", "-g", "-I/usr/include/x86_64-linux-gnu", "-c",
                          "-o", code, f"{HERE}/peers.bpf.c"],
                         ["cc", "-O2", "-o", program, f"{HERE}/peers.c", "-lbpf"]):
                done = subprocess.run(argv, capture_output=True, text=True)
                if done.returncode:
                    raise Absent(f"{argv[0]}: {done.stderr.strip().splitlines()[-1][:200]}")
        return program, code


# name, method, what part of the pairs it does, aim
TABLE = [
    ("without", "without", 1, ""),
    ("heapx run", "heapx_run", 1, "at most 70 ns more, a fourth of heaptrack's"),
    ("heapx run --sample 512K", "heapx_run_sampled", 1, "at most 10 ns more"),
    ("heaptrack", "heaptrack", 4, ""),
    ("heapx record", "heapx_record", 20, "a fourth of memleak's way, twice the bare probes"),
    ("bare probes that count", "bare_probes", 40, ""),
    ("memleak's way", "memleak_way", 40, ""),
    ("memleak", "memleak", 40, ""),
]


def measure(recorders, pairs, threads, ways, rounds, only):
    """{name: best ns}, and the same of processor time; the rounds take turns, so that a change of the
    machine hits all."""
    best, cpu, absent = {}, {}, {}
    for _ in range(rounds):
        for name, method, part, _ in TABLE:
            if name in absent or only and name not in only:
                continue
            try:
                ns, own = getattr(recorders, method)(max(pairs // part, 1000), threads, ways)
                best[name] = min(ns, best.get(name, ns))
                cpu[name] = min(own, cpu.get(name, own))
            except (Absent, live.Skip, live.Failure) as why:
                absent[name] = str(why).strip().splitlines()[0]
    return best, cpu, absent


def show(title, best, cpu, absent):
    print(f"\n{title}\n{'':26} {'ns a pair':>10} {'more':>10} {'x':>8} {'cpu':>10}")
    own = best.get("without")
    for name, _, _, aim in TABLE:
        if name in best:
            more = f"{best[name] - own:.1f}" if own else "-"
            ratio = f"{best[name] / own:.2f}" if own else "-"
            print(f"{name:26} {best[name]:10.1f} {more:>10} {ratio:>8} {cpu[name]:10.1f}  {aim}")
    for name, why in absent.items():
        print(f"{name:26} left out: {why}")

    def part(one, other):
        if own and one in best and other in best and best[one] > own:
            return (best[other] - own) / (best[one] - own)
        return None

    for one, other in (("heapx run", "heaptrack"), ("heapx record", "memleak's way"),
                       ("heapx record", "bare probes that count")):
        ratio = part(one, other)
        if ratio:
            print(f"overhead of {other} beside {one}: {ratio:.2f} times")
    sys.stdout.flush()


def memory(folder):
    """Bytes of heapx (its own and its share of what is shared) for each live block."""
    def share(live_blocks):
        store = f"{folder}/memory{live_blocks}.db"
        argv = command(max(live_blocks * 2, 100000), 1, 1, "--live", str(live_blocks), "--rest")
        with recorded.Run(store, argv) as target:
            live.check(b"pairs" in target.process.stdout.readline(), "no figure")
            time.sleep(1)
            with open(f"/proc/{target.process.pid}/smaps_rollup") as rollup:
                return 1024 * int(re.search(r"Pss:\s+(\d+)", rollup.read())[1])
    few, many = share(1024), share(2000000)
    print(f"\nmemory of heapx: {few / 1e6:.1f} MB with 1,024 live blocks, {many / 1e6:.1f} MB with 2 million: "
          f"{(many - few) / (2000000 - 1024):.1f} bytes a live block (aim: under 64)")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("pairs", nargs="?", type=int, default=20_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", type=lambda s: s.split(","))
    parser.add_argument("--json")
    args = parser.parse_args()
    result = {}
    with tempfile.TemporaryDirectory(prefix="hx-bench-") as folder:
        recorders = Ways(folder)
        for title, threads, ways in (("one thread, each pair down the same ten frames", 1, 1),
                                     ("one thread, in a loop ten frames deep", 1, 0),
                                     ("one thread, each pair down ten frames by eight ways", 1, 8),
                                     ("8 threads, each pair down the same ten frames", 8, 1)):
            best, cpu, absent = measure(recorders, args.pairs, threads, ways, args.rounds, args.only)
            show(title, best, cpu, absent)
            result[title] = best
        one, eight = (result[t] for t in list(result)[0::3])
        print("\nscaling: speed with 8 threads beside one thread's")
        for name in one:
            if name in eight:
                own = one["without"] / eight["without"] if "without" in eight else None
                factor = one[name] / eight[name]
                print(f"{name:26} {factor:10.2f}" + (f" {100 * factor / own:8.0f} % of the program's own"
                                                     if own else ""))
        if not args.only or "heapx run" in args.only:
            memory(folder)
    if args.json:
        with open(args.json, "w") as file:
            json.dump(result, file, indent=1)


if __name__ == "__main__":
    main()
