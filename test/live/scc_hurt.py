#!/usr/bin/env -S python3 -B
"""scc_hurt.py - no harm: programs that mark regions as fast and as badly as can be (scc_hurt.c) while
heapx comes, goes and is killed.

    scc_hurt.py [TEST...]      environment: HX_ROUNDS (2), HX_SEED

The program looks after itself; here it is seen that its code and the words by which it knows that
somebody listens are as before, and that nothing stays in the kernel. scripts/soak scc does it
twenty times and more.
"""
import os
import random
import re
import signal
import subprocess
import time

import live
import recorded
from live import check, rows

ROUNDS = int(os.environ.get("HX_ROUNDS", "2"))
SEED = int(os.environ.get("HX_SEED", str(time.time_ns() % 10**6)))
LONG = ROUNDS > 5


def program(threads=4):
    plugin = os.path.join(live.BUILD, "test/live/scc_plugin.so")
    return [live.victim("scc_hurt"), str(threads)] + ([plugin] if os.path.exists(plugin) else [])


class Places:
    """Where in the program is what tells it of a listener, and its code."""

    def __init__(self, pid, line):
        found = re.search(r"at (\w+) (\w+) (\w+)", line)
        check(found, f"the program says {line!r}")
        self.pid = pid
        self.listener, self.semaphore, self.stubs = (int(word, 16) for word in found.groups())
        self.code = self.read(self.stubs, 160)

    def read(self, at, bytes_):
        with open(f"/proc/{self.pid}/mem", "rb", buffering=0) as memory:
            memory.seek(at)
            return memory.read(bytes_)

    def listens(self):
        return int.from_bytes(self.read(self.semaphore, 2), "little")

    def check_quiet(self, seconds=20):
        """Nobody listens any more, soon; and all is as it was."""
        end = time.monotonic() + seconds * live.SLOW
        while self.listens() or self.read(self.stubs, 160) != self.code:
            check(time.monotonic() < end, f"semaphore {self.listens()}, code "
                  f"{self.read(self.stubs, 160).hex()} after {seconds} s, before {self.code.hex()}")
            time.sleep(0.05)

    def wait_heard(self, process, seconds=30, nap=0.01):
        end = time.monotonic() + seconds * live.SLOW
        while not self.listens():
            check(process.poll() is None and time.monotonic() < end, "nobody came to listen")
            time.sleep(nap)


def ends_well(text, who):
    check("went wrong:" not in text and ", 0 went wrong" in text, f"{who}: {text[-1500:]}")
    check("semaphore 0," in text, f"{who}: {text[-300:]}")


def begin(folder, *args):
    command = [live.HEAPX, *map(str, args)]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                            stderr=open(os.path.join(folder, "err"), "wb"),
                            preexec_fn=live.end_with_parent)


def said(folder):
    with open(os.path.join(folder, "err"), "rb") as file:
        return file.read()[-2000:].decode(errors="replace")


def check_store(store):
    """Whatever was finished can be read."""
    if os.path.exists(store) and os.path.getsize(store):
        for view in ("costs", "ccs", "sites", "losses"):
            live.heapx("report", store, view, "--format", "csv", ok=(0, 1, 3))


def run(folder):
    """From the first mark to the last."""
    store = os.path.join(folder, "a.db")
    with recorded.Run(store, program(), "--at-exit", *(["--children"] if LONG else [])) as process:
        time.sleep(1 if not LONG else 5)
        status = process.wait(120, b"")
        check(status in (0, 3), f"heapx run: exit {status}: {process.err[-1500:]}")
        ends_well(process.out.decode(), "under heapx run")
    # what it allocated it has freed, but for what its last words needed
    total = live.row(store, "SELECT sum(inherited_alloc_objects) AS n FROM costs WHERE ccs_id = 1")
    check(total["n"] > 1000, f"{total} allocations")
    recorded.Tree(store)


def run_killed(folder):
    """heapx is killed, the program goes on."""
    chance = random.Random(SEED)
    for i in range(ROUNDS):
        store = os.path.join(folder, f"{i}.db")
        command = [live.HEAPX, "run", "-o", store, "--every", "300ms", "--", *program(3)]
        with live.Target(command, stderr=subprocess.DEVNULL) as heapx:
            heapx.wait_line("at ")
            time.sleep(chance.uniform(0, 1.5))
            heapx.process.kill()
            time.sleep(0.3)
            heapx.process.stdin.close()
            text = heapx.process.stdout.read().decode()
            ends_well(text, f"HX_SEED={SEED}, round {i}: when heapx run is killed")
        check_store(store)


def sandbox(folder):
    """Where next to no system call is allowed."""
    store = os.path.join(folder, "a.db")
    with recorded.Run(store, [live.victim("scc_hurt"), "seccomp"], "--at-exit") as process:
        status = process.wait(60, b"go")
        check(status in (0, 3) and b"sandbox: ok" in process.out, f"exit {status}: {process.out} {process.err}")


def sandbox_recorded(folder):
    recorded.may_probe()
    with live.Target([live.victim("scc_hurt"), "seccomp"]) as target:
        places = Places(target.pid, target.wait_line("at "))
        process = begin(folder, "record", target.pid, "-o", f"{folder}/a.db")
        places.wait_heard(process)
        time.sleep(0.3)
        text = target.process.communicate(b"go", timeout=60 * live.SLOW)[0]
        check(b"sandbox: ok" in text and target.process.returncode == 0,
              f"exit {target.process.returncode}: {text}")
        status = process.wait(60)
        check(status in (0, 1, 3), f"heapx record: exit {status}: {said(folder)}")


def record(folder):
    """Comes and goes, or is killed at any moment, also while it comes."""
    recorded.may_probe()
    chance = random.Random(SEED)
    before = recorded.programs()
    with live.Target(program(), stderr=subprocess.STDOUT) as target:
        places = Places(target.pid, target.wait_line("at "))
        for i in range(ROUNDS):
            store = os.path.join(folder, f"{i}.db")
            process = begin(folder, "record", target.pid, "-o", store)
            way = (i + SEED) % 4
            if way == 0:
                time.sleep(chance.uniform(0, 1.5)) # while it comes, or before
                process.kill()
            else:
                places.wait_heard(process)
                time.sleep(chance.uniform(0, 1))
                process.send_signal(signal.SIGKILL if way < 3 else signal.SIGINT)
            status = process.wait(60)
            check(way < 3 or status in (0, 3, 130), f"heapx record: exit {status}: {said(folder)}")
            places.check_quiet()
            check(target.process.poll() is None, f"HX_SEED={SEED}, round {i}: the program died")
            check_store(store)
        text = target.process.communicate(timeout=60 * live.SLOW)[0].decode()
        ends_well(text, f"HX_SEED={SEED}: when heapx record comes and goes")
        check(target.process.returncode == 0, f"exit {target.process.returncode}")
    check(recorded.nothing_left() == [], f"left behind: {recorded.nothing_left()}")
    end = time.monotonic() + 10 * live.SLOW # the kernel takes its time
    while before is not None and recorded.programs() > before and time.monotonic() < end:
        time.sleep(0.2)


def record_cut_short(folder):
    """Is killed when the first of its probes is there, and others are not."""
    recorded.may_probe()
    with live.Target(program(), stderr=subprocess.STDOUT) as target:
        places = Places(target.pid, target.wait_line("at "))
        for _ in range(4 * ROUNDS):
            process = begin(folder, "record", target.pid, "-o", f"{folder}/a.db")
            places.wait_heard(process, nap=0)
            process.kill()
            process.wait()
            places.check_quiet()
        text = target.process.communicate(timeout=60 * live.SLOW)[0].decode()
        ends_well(text, "when heapx record is killed as it comes")


def beside(folder):
    """Snapshots of a program that is recorded, and one recorder after the other without a pause."""
    recorded.may_probe()
    with live.Target(program(2), stderr=subprocess.STDOUT) as target:
        places = Places(target.pid, target.wait_line("at "))
        process = begin(folder, "record", target.pid, "-o", f"{folder}/a.db")
        places.wait_heard(process)
        for i in range(ROUNDS):
            live.heapx("snap", target.pid, "-o", f"{folder}/{i}.snap", ok=(0, 3))
        process.kill()
        process.wait()
        store = f"{folder}/b.db"
        live.heapx("record", target.pid, "-o", store, "--duration", "300ms", ok=(0, 3))
        places.check_quiet()
        text = target.process.communicate(timeout=60 * live.SLOW)[0].decode()
        ends_well(text, "when it is recorded and snapped")
    check_store(store)


HOSTILE = ["hostile"]
UNESCAPED = re.compile("[\\x00-\\x09\\x0b-\\x1f\\x7f-\\x9f\\u202a-\\u202e\\ufffd]")
VIEWS = "ccs costs sites stacks frames threads mprof_leaks mprof_direct mprof_graph".split()


def check_shown(store):
    """Names are no commands to a terminal, in whatever width."""
    for view in VIEWS:
        for columns in (20, 80, 300):
            text = live.heapx("report", store, view, "--limit", "3000", env={"COLUMNS": str(columns)}, ok=(0, 1, 3))[1]
            bad = UNESCAPED.search(text)
            check(not bad, f"{view}, {columns} columns: {text[max(0, bad.start() - 99):bad.end() + 99]!r}"
                  if bad else "")


def hostile(folder):
    """Regions that are not there, names that hurt, stacks of nobody."""
    store = os.path.join(folder, "a.db")
    with recorded.Run(store, [live.victim("scc_hurt"), *HOSTILE], "--at-exit") as process:
        status = process.wait(60, b"go")
        check(status in (0, 3) and b"hostile: ok" in process.out, f"exit {status}: {process.err[-800:]}")
    check_shown(store)
    labels = {row["label"] for row in rows(store, "SELECT label FROM ccs")}
    check("u" * 20 in labels and "x" * 127 in labels and "odd" in labels, f"regions: {labels}")


def hostile_recorded(folder):
    recorded.may_probe()
    store = os.path.join(folder, "a.db")
    with live.Target([live.victim("scc_hurt"), *HOSTILE]) as target:
        places = Places(target.pid, target.wait_line("at "))
        process = begin(folder, "record", target.pid, "-o", store, "--every", "300ms")
        places.wait_heard(process)
        time.sleep(0.3)
        text = target.process.communicate(b"go", timeout=60 * live.SLOW)[0]
        check(b"hostile: ok" in text, f"exit {target.process.returncode}: {text}")
        status = process.wait(60)
        check(status in (0, 1, 3), f"heapx record: exit {status}: {said(folder)}")
    check_store(store)
    if os.path.exists(store):
        check_shown(store)


def wild(folder):
    """Notes that lead anywhere: what is there stays as it is."""
    store = os.path.join(folder, "a.db")
    with recorded.Run(store, [live.victim("scc_wild")], "--at-exit") as process:
        status = process.wait(60, b"go")
        check(status in (0, 3) and b"wild: ok" in process.out, f"exit {status}: {process.out} {process.err}")
    check(any(row["label"] == "wild" for row in rows(store, "SELECT label FROM ccs")), "the right note")


def wild_recorded(folder):
    recorded.may_probe()
    store = os.path.join(folder, "a.db")
    with live.Target([live.victim("scc_wild")]) as target:
        places = Places(target.pid, target.wait_line("at "))
        process = begin(folder, "record", target.pid, "-o", store)
        places.wait_heard(process)
        time.sleep(0.3)
        text = target.process.communicate(b"go", timeout=60 * live.SLOW)[0]
        check(b"wild: ok" in text, f"exit {target.process.returncode}: {text}")
        status = process.wait(60)
        check(status in (0, 3), f"heapx record: exit {status}: {said(folder)}")
    check(any(row["label"] == "wild" for row in rows(store, "SELECT label FROM ccs")), "the right notes")


def scribbles(folder):
    """The program writes over what it shares with heapx: it may hurt itself, not heapx."""
    store = os.path.join(folder, "a.db")
    with recorded.Run(store, [live.victim("scc_hurt"), *HOSTILE, "scribble"], "--every", "100ms") as process:
        status = process.wait(60, b"go")
        err = process.err.decode(errors="replace")
        check("Sanitizer" not in err and "runtime error" not in err, err[-3000:])
        check(b" shared" in process.out, f"exit {status}: {err}")
    check_store(store)


if __name__ == "__main__":
    print(f"HX_SEED={SEED} HX_ROUNDS={ROUNDS}")
    live.main(run, run_killed, sandbox, sandbox_recorded, record, record_cut_short, beside, hostile, hostile_recorded,
              wild, wild_recorded, scribbles, long=(record, record_cut_short, hostile_recorded, wild_recorded))
