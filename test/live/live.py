"""live.py - what the end-to-end tests share.

Finds the programs of the build, starts victims that end with the test, runs heapx and
reads its rows. Tests run in the build folder (as `make check` does) or anywhere with
HX_BUILD pointing there. A test returns through `main()`: exit 0, 1, or 77 for skipped.
"""
import ctypes
import csv
import io
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback

BUILD = os.path.abspath(os.environ.get("HX_BUILD", "."))
HEAPX = os.environ.get("HEAPX", os.path.join(BUILD, "heapx"))
READER = os.environ.get("HX_READER", HEAPX)  # of stores: scripts/check has one without sanitizers
LIBC = ctypes.CDLL(None, use_errno=True)
SLOW = int(os.environ.get("HX_SLOW", "1"))  # multiplies limits of time; scripts/check finds it
# A target in Python, where any program will do: Debian's, whose heap is a quarter of others'.
PYTHON = [shutil.which("python3", path="/usr/bin") or sys.executable, "-S", "-c"]
_cache = tempfile.TemporaryDirectory(prefix="hx-cache-")  # the user's own is not touched
os.environ["XDG_CACHE_HOME"] = os.environ.get("HX_CACHE", _cache.name)  # one for all in scripts/check


class Skip(Exception):
    """What the test needs is not here."""


class Failure(Exception):
    """heapx is wrong."""


def check(condition, text):
    if not condition:
        raise Failure(text)


def end_with_parent():
    """In a child before exec: it dies with the test."""
    LIBC.prctl(1, signal.SIGKILL)
    LIBC.prctl(0x59616D61, ctypes.c_ulong(-1 & (2**64 - 1)))  # any process may trace it


def victim(name):
    """A program of the build, by the name of its source."""
    path = os.path.join(BUILD, "test/live", name)
    if not os.path.exists(path):
        raise Skip(f"{path} is not built")
    return path


class Target:
    """A process that is stopped when the `with` block ends."""

    def __init__(self, argv, **options):
        options.setdefault("stdin", subprocess.PIPE)
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("preexec_fn", end_with_parent)
        self.process = subprocess.Popen(argv, **options)
        self.pid = self.process.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream:
                stream.close()

    def wait_line(self, text):
        """Reads stdout up to a line that contains text; returns that line."""
        want = text.encode()
        for line in self.process.stdout:
            if want in line:
                return line.decode()
        raise Failure(f"{self.process.args}: ended before it said {text!r}")


def heapx(*args, ok=(0,), timeout=120 * SLOW, env=None, program=HEAPX):
    """Runs heapx; returns (status, stdout, stderr). A status that is not in `ok` fails."""
    if not os.path.exists(program):
        raise Skip(f"{program} is not built")
    full = dict(os.environ, **(env or {}))
    run = subprocess.run([program, *map(str, args)], capture_output=True, timeout=timeout,
                         preexec_fn=end_with_parent, env=full, errors="replace")
    if run.returncode not in ok:
        raise Failure(f"heapx {' '.join(map(str, args))}: exit {run.returncode}\n{run.stderr}")
    return run.returncode, run.stdout, run.stderr


def number(text):
    """A CSV field: None, a number where it is one, else the text."""
    if text == "":
        return None
    try:
        return int(text)
    except ValueError:
        return text


def rows(store, sql):
    """All rows of a statement, as dictionaries."""
    csv.field_size_limit(1 << 30)
    text = heapx("sql", store, sql, "--format", "csv", program=READER)[1]
    return [{k: number(v) for k, v in row.items()} for row in csv.DictReader(io.StringIO(text))]


def row(store, sql):
    found = rows(store, sql)
    check(len(found) == 1, f"{sql}: {len(found)} rows")
    return found[0]


def sum_of_rss(pid):
    """Sum of Rss over smaps, in bytes."""
    with open(f"/proc/{pid}/smaps") as smaps:
        return 1024 * sum(int(line.split()[1]) for line in smaps if line.startswith("Rss:"))


def threads(pid):
    """(tid, state letter, tracer) of each thread."""
    found = []
    for tid in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{tid}/status") as status:
                field = dict(line.split(":", 1) for line in status if ":" in line)
        except (FileNotFoundError, ProcessLookupError):
            continue
        found.append((int(tid), field["State"].split()[0], int(field["TracerPid"])))
    return found


def is_tracked(pid):
    """Does a userfaultfd look after its memory?"""
    try:
        with open(f"/proc/{pid}/smaps") as file:
            return any({"uw", "um", "ui"} & set(line.split()[1:]) for line in file if line.startswith("VmFlags"))
    except OSError:
        return False


def check_let_go(pid, stopped=False, wait=2.0, tracked=False):
    """No thread is traced, and none stopped (or all of them, when it was before), and no memory tracked (but by itself)."""
    end = time.monotonic() + wait * SLOW
    while True:
        bad = [t for t in threads(pid)
               if t[2] or t[1] == "t" or (t[1] == "T") != stopped]
        if not bad and is_tracked(pid) == tracked:
            return
        check(time.monotonic() < end, f"PID {pid}: still stopped or traced, or its memory tracked: {bad}")
        time.sleep(0.02)


def may_trace():
    """Skips where this machine forbids tracing even one's own children."""
    child = subprocess.Popen(["sleep", "60"], preexec_fn=end_with_parent)
    try:
        if LIBC.ptrace(0x4206, child.pid, None, None) != 0:  # PTRACE_SEIZE
            raise Skip(f"ptrace: {os.strerror(ctypes.get_errno())}")
        LIBC.ptrace(17, child.pid, None, None)
    finally:
        child.kill()
        child.wait()


def scratch():
    """A folder that goes away."""
    return tempfile.TemporaryDirectory(prefix="hx-live-")


def is_set(variable):
    return os.environ.get(variable, "0") not in ("", "0")


def third(of, more=0):
    """With HX_TURN, a number, a third of them, as drawn; all with it and the other two numbers that give the same when
    divided by three. Without it all of them. more: as if the number were larger by it."""
    turn = os.environ.get("HX_TURN")
    if not turn:
        return of
    shuffled = random.Random(f"{int(turn) // 3} {sys.argv[0]}").sample(of, len(of))
    return shuffled[(int(turn) + more) % 3::3] or shuffled[:1]


def of_this_turn(tests, turns):
    """Of the tests those that run now: a third; of `turns` a third in the build that has HX_QUICK=1, and another third
    in the other one."""
    here = third(turns, is_set("HX_QUICK"))
    if is_set("HX_QUICK") and not os.environ.get("HX_TURN"):
        here = random.sample(turns, (len(turns) + 2) // 3)
    rest = third([t for t in tests if t not in turns])
    return [t for t in tests if t in here or t in rest]


def main(*tests, traces=True, long=(), turns=(), nightly=()):
    """Runs the tests whose names are on the command line, or all; in scripts/check those of this turn. traces:
    they need ptrace. long: HX_QUICK=1 leaves these out. turns: it runs a third of these. nightly: they need
    HX_NIGHTLY=1, or their name."""
    failed = skipped = passed = 0
    try:
        if traces:
            may_trace()
    except Skip as why:
        print(f"skipped: {why}")
        sys.exit(77)
    if is_set("HX_QUICK"):
        tests = [t for t in tests if t not in long]
    if not is_set("HX_NIGHTLY") and not sys.argv[1:]:
        tests = of_this_turn([t for t in tests if t not in nightly], turns)
    chosen = [t for t in tests if not sys.argv[1:] or t.__name__ in sys.argv[1:]]
    for test in chosen:
        begin = time.monotonic()
        try:
            with scratch() as folder:
                test(folder)
            passed += 1
            word = "ok"
        except Skip as why:
            skipped += 1
            word = f"skipped: {why}"
        except Exception as why:  # one failure must not hide the others
            failed += 1
            word = f"FAILED: {why}"
            if not isinstance(why, Failure):
                traceback.print_exc()
        print(f"{test.__name__}: {word} ({time.monotonic() - begin:.1f} s)", flush=True)
    sys.exit(1 if failed else 77 if skipped and not passed else 0)
