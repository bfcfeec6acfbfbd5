#!/usr/bin/env -S python3 -B
"""explorer.py - how fast the explorer answers on a heap of ten million objects.

    explorer.py [OBJECTS [--store FILE] [--keys N] [--slowest N] [--cpu]]

Run by scripts/bench. Takes three snapshots of a forest of OBJECTS (10,000,000) with five named
roots, with stray words in 1,000 of a million blocks, and which changes between them (or uses the FILE that is there, and leaves one that is not),
then presses N (2,000) keys on all screens: digits, drilling in and out, moving, sorting by every
column, filters, differences, snapshots. A key's time is that until its display is complete. Long
work that a person asks for (chains, searches, filters with regular expressions) is timed beside
it, and how long other keys wait while it is under way. At the end the same on a terminal: first
screen, and the time from a key to what it shows. With --cpu times in all but the last are those of
the processors, of all threads together: for a machine that has other work.
"""
import argparse
import fcntl
import os
import pty
import random
import re
import select
import struct
import subprocess
import sys
import termios
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import bench  # noqa: E402
import live  # noqa: E402

ROOTS = ["lists=list", "maps=map", "trees=tree", "pool=pool", "vectors=vectors"]
STRAY = 1000  # blocks in a million that have a stray word
AIM = {"first": 0.3, "key": 0.050, "slowest": 0.200, "memory": 200}


def make_store(objects, store):
    with bench.Forest(objects, STRAY) as forest:
        for grow in (objects // 50, objects // 100, 0):
            named = [word for root in ROOTS for word in ("--root", root)]
            live.heapx("snap", str(forest.pid), "-o", store, *named, timeout=600)
            if grow:
                forest.process.stdin.write(b"grow %d\n" % grow)
                forest.process.stdin.flush()
                forest.wait_line("grown")


# --- keys ------------------------------------------------------------------------------

MOVES = ["j", "j", "k", "Down", "PgDn", "PgDn", "PgUp", "Ctrl-D", "Ctrl-U", "End", "Home", "G", "g"]
SORT = [">"] * 9 + ["I"] + ["<"] * 9 + ["I"]

# What a person does on each screen; MOVES are put between. A drill-in ends where it began.
VISITS = [
    ["0", "Enter", "Esc"],
    ["1", "Right", "Left", "b", "b", "v", "j", "v"],
    ["2", "Enter", "j", "Esc", "o", "PgDn", "Enter", "Esc", "Esc", "d", "j", "d"],
    ["3", "Enter", "Esc", "j", "o", "PgDn", "Esc", ">", ">", "I", "d", "d"],
    ["4", "+", "j", "-", "v", "j", "v"],
    ["5", "o", "j", "Esc", "Enter", "Esc", "d", "d", ">", "I"],
    ["6", "Enter", "j", "Esc", "o", "Esc", ">", ">", "I"],
    ["7", "Enter", "j", "Enter", "Backspace", "Backspace", ">", ">", "I", "Enter", "End", "Esc"],
    ["8"] + SORT,
    ["8", "Enter", "j", "Enter", "Esc", "Esc", "PgDn", "i", "Esc", "End", "Enter", "Esc"],
    ["8", ":filter bytes > 4000", "PgDn", "End", ":filter set_id = 5 and bytes < 100", "PgDn", "F"],
    ["8", ":filter state = 'definite'", "j", ":filter retained_bytes > 1M", "j", ":filter"],
    ["9"] + SORT + ["Enter", "j", "Esc", "o", "Esc"],
    ["[", "8", "PgDn", "[", "PgDn", "]", "7", "]", "2"],
    [":screen pages", "j", ":screen sites", ":screen losses", ":screen threads", ":screen named"],
    ["?", "PgDn", "Esc", "1", "Tab", "Tab", "Tab", "Shift-Tab", "Shift-Tab", ":screen messages"],
]
ASKED = [
    ["8", "w", "Esc", "End", "w", "Esc", "Home", "PgDn", "w", "Esc"],
    ["7", "w", "Esc", "2", "Enter", "o", "j", "w", "Esc", "Esc", "Esc"],
    ["8", ":search nothing-has-this-name", ":filter type ~ 'xyz'", ":filter"],
]


def press(count):
    """A list of keys: all visits in turn, with moves between."""
    pick = random.Random(6)
    keys = []
    while len(keys) < count:
        for visit in VISITS:
            for key in visit:
                keys.append(key)
                for _ in range(pick.randint(0, 4)):
                    keys.append(pick.choice(MOVES))
    return keys[:count]


def play(store, keys, clock="1"):
    """([seconds of each key], seconds in all, peak of memory in MiB)"""
    env = dict(os.environ, TERM="xterm", LC_ALL="C.UTF-8", LINES="24", COLUMNS="80",
               HEAPX_TIMING=clock)
    with tempfile.NamedTemporaryFile("w", suffix=".keys") as script:
        script.write("\n".join(keys) + "\n")
        script.flush()
        begin = time.monotonic()
        process = subprocess.Popen([live.HEAPX, "open", store, "--script", script.name], env=env,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True)
        err = process.stderr.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = status
        live.check(status == 0, f"heapx open: {err[-500:]}")
    times = [0.0] * len(keys)
    for seconds, line in re.findall(r"^timing keys (\S+) (\d+)$", err, re.M):
        times[int(line) - 1] = float(seconds)
    return times, time.monotonic() - begin, used.ru_maxrss / 1024


def show(what, times, memory):
    order = sorted(times)
    at = [order[min(len(order) - 1, len(order) * p // 1000)] * 1000 for p in (500, 900, 990)]
    print(f"{what:28} {len(times):6} keys   p50 {at[0]:6.1f}  p90 {at[1]:6.1f}  p99 {at[2]:6.1f}  "
          f"max {order[-1] * 1000:7.1f} ms   peak {memory:4.0f} MiB")
    return at[2] / 1000


def show_slowest(keys, times, count):
    """By what was pressed where, and the five slowest one by one."""
    worst, each, screen = {}, [], "0"
    for key, seconds in zip(keys, times):
        screen = key if re.fullmatch(r"\d|:screen \w+", key) else screen
        name = key if key == screen else f"{screen} {key}"
        worst.setdefault(name, []).append(seconds)
        each.append((seconds, name))
    slow = sorted(worst.items(), key=lambda item: -max(item[1]))[:count]
    print("  slowest: " + ", ".join(
        f"{name} {max(some) * 1000:.0f} (x{len(some)}, least {min(some) * 1000:.0f})"
        for name, some in slow))
    print("  the slowest five: " + ", ".join(
        f"{name} {seconds * 1000:.0f} ms" for seconds, name in sorted(each, reverse=True)[:5]))


# --- on a terminal ----------------------------------------------------------------------

class Terminal:
    """`heapx open` on a terminal of 80x24."""

    def __init__(self, store):
        self.begin = time.monotonic()
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            live.end_with_parent()
            os.environ.update(TERM="xterm-256color", LC_ALL="C.UTF-8")
            fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
            os.execv(live.HEAPX, ["heapx", "open", store])

    def quiet(self, since, seconds=0.15):
        """Seconds until what is shown no longer changes; (to the first change, to the last)."""
        first = last = None
        while select.select([self.master], [], [], seconds if last else 2.0)[0]:
            if not os.read(self.master, 65536):
                break
            last = time.monotonic() - since
            first = first or last
        return first or 0.0, last or 0.0

    def key(self, text):
        since = time.monotonic()
        os.write(self.master, text)
        return since

    def memory(self):
        with open(f"/proc/{self.pid}/status") as status:
            return int(re.search(r"VmHWM:\s+(\d+)", status.read())[1]) / 1024

    def end(self):
        os.write(self.master, b"Q")
        os.close(self.master)
        os.waitpid(self.pid, 0)


def first_screen(store):
    terminal = Terminal(store)
    took = terminal.quiet(terminal.begin, 0.5)[1]
    terminal.end()
    return took


def on_terminal(store):
    terminal = Terminal(store)
    terminal.quiet(terminal.begin)
    times, waits = [], []
    for key in (b"2", b"8", b"\x1b[6~", b"j", b"G", b"g", b">", b"I", b"\r", b"\x1b", b"9", b"7", b"\r",
                b"\x1b", b"3", b"1", b"0", b"8"):
        times.append(terminal.quiet(terminal.key(key))[1])
    terminal.key(b"w")  # a chain, and keys while it is looked for
    for key in (b"2", b"j", b"8", b"G", b"9", b"5", b"j", b"6"):
        since = terminal.key(key)
        if select.select([terminal.master], [], [], 5.0)[0]:
            os.read(terminal.master, 65536)
        waits.append(time.monotonic() - since)
        time.sleep(0.1)
        while select.select([terminal.master], [], [], 0)[0]:
            os.read(terminal.master, 65536)
    memory = terminal.memory()
    terminal.end()
    return times, waits, memory


def beside_on_terminal(store):
    """Another snapshot of a filtered list, a second after the last key."""
    terminal = Terminal(store)
    times = []
    terminal.quiet(terminal.begin)
    terminal.quiet(terminal.key(b"8"))
    terminal.quiet(terminal.key(b":filter retained_bytes > 1M\r"), 1.0)
    for key in (b"[", b"[", b"]", b"]"):
        times.append(terminal.quiet(terminal.key(key), 1.0)[1])
    terminal.end()
    return times


def main():
    parse = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parse.add_argument("objects", type=int, nargs="?", default=10_000_000)
    parse.add_argument("--store")
    parse.add_argument("--keys", type=int, default=2000)
    parse.add_argument("--slowest", type=int, default=12)
    parse.add_argument("--cpu", action="store_const", const="cpu", default="1")
    args = parse.parse_args()
    with live.scratch() as folder:
        store = os.path.abspath(args.store) if args.store else f"{folder}/forest.db"
        if not os.path.exists(store):
            make_store(args.objects, store)
        row = live.row(store, "SELECT count(*) n, max(heap_objects) o FROM snapshots")
        print(f"{row['n']} snapshots, {row['o']:,} objects, {bench.size(store) / 1e6:.0f} MB; "
              f"load {os.getloadavg()[0]:.1f}")
        first = min(first_screen(store) for _ in range(3))
        print(f"{'first screen':28} {first * 1000:.0f} ms")
        keys = press(args.keys)
        times, _, memory = play(store, keys, args.cpu)
        p99 = show("all screens", times, memory)
        show_slowest(keys, times, args.slowest)
        keys = [key for visit in ASKED for key in visit]
        asked, _, asked_memory = play(store, keys, args.cpu)
        show("chains, searches, patterns", asked, asked_memory)
        show_slowest(keys, asked, 6)
        shown, waits, terminal_memory = on_terminal(store)
        show("on a terminal", shown, terminal_memory)
        show("while a chain is looked for", waits, terminal_memory)
        show("[ ] of a filter, in no haste", beside_on_terminal(store), terminal_memory)
        peak = max(memory, asked_memory, terminal_memory)
        print(f"aims: first screen {AIM['first']:.1f} s: {first:.3f}; a key {AIM['key'] * 1000:.0f} ms"
              f" at the 99th percentile: {p99 * 1000:.1f}, the slowest {AIM['slowest'] * 1000:.0f}:"
              f" {max(times) * 1000:.1f}; memory {AIM['memory']} MiB: {peak:.0f}")


if __name__ == "__main__":
    try:
        main()
    except (live.Skip, live.Failure) as why:
        sys.exit(f"explorer: {why}")
