#!/usr/bin/env python3
"""scripts.py - every script of keys at other sizes, and under Valgrind.

    scripts.py [FOLDER...]

run.sh compares displays; here the scripts only must end well and say nothing, at 30x8, 100x30 or
200x60, another each time. Where HX_UI_RUN holds a command to run the explorer with (Valgrind and its
options), the first of every fifth folder runs under that, others each time, at its own first size, and
all of the folders that are named (the monkey runs all commands). With HX_NIGHTLY=1 all sizes, and all
folders. HX_SEED chooses.
"""
import glob
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
BIN = os.path.abspath(os.environ.get("HX_UI_BIN", "test/ui"))
SLOW = int(os.environ.get("HX_SLOW", "1"))  # as in emulator.py
WRAP = shlex.split(os.environ.get("HX_UI_RUN", ""))
NIGHTLY = os.environ.get("HX_NIGHTLY", "0") not in ("", "0")
SIZES = ["30x8", "100x30", "200x60"]


def header(script, word, other):
    with open(script) as file:
        for line in file.readlines()[:3]:
            if line.startswith(f"# {word}: "):
                return line.split(": ", 1)[1].strip()
    return other


def make_stores(folder):
    """Those that run.sh makes."""
    with open(f"{HERE}/run.sh") as file:
        made = re.findall(r'^"\$bin/make_store" "\$work/(\w+)"([^|]*)', file.read(), re.M)
    for name, arguments in made:
        subprocess.run([f"{BIN}/make_store", f"{folder}/{name}", *arguments.split()], check=True)


def play(job):
    """None, or what went wrong."""
    folder, script, size = job
    with tempfile.TemporaryDirectory(dir=folder) as place:
        shutil.copy(f"{folder}/{header(script, 'store', 'full')}", f"{place}/test.db")
        columns, lines = size.split("x")
        env = {**os.environ, "LC_ALL": header(script, "locale", "C.UTF-8"), "LINES": lines,
               "COLUMNS": columns, "TERM": "xterm", "HX_UI_LIVE": header(script, "live", "yes")}
        for name in ("HEAPX_SCRIPT", "NO_COLOR", "HEAPX_TIMING"):
            env.pop(name, None)
        try:
            run = subprocess.run([*WRAP, f"{BIN}/explore", "test.db", script], cwd=place, env=env,
                                 stdin=subprocess.DEVNULL, capture_output=True, timeout=120 * SLOW)
        except subprocess.TimeoutExpired:
            return f"{script} at {size}: does not end"
    if run.returncode or run.stdout or run.stderr:
        said = (run.stdout + run.stderr).decode(errors="replace")[:3000]
        return f"{script} at {size}: exit {run.returncode}\n{said}"
    return None


def main():
    seed = os.environ.get("HX_SEED", str(time.time_ns()))
    print(f"HX_SEED={seed}", flush=True)
    random.seed(seed)
    folders = sys.argv[1:] or ["*"]
    scripts = sorted(script for name in folders for script in glob.glob(f"{HERE}/{name}/*.keys"))
    if WRAP and not sys.argv[1:]:
        scripts = [script for i, script in enumerate(scripts) if not i or
                   os.path.dirname(script) != os.path.dirname(scripts[i - 1])]
        scripts = scripts if NIGHTLY else scripts[random.randrange(10)::10]
    if not scripts:
        sys.exit("FAIL: there are no scripts")
    jobs = []
    with tempfile.TemporaryDirectory() as folder:
        make_stores(folder)
        for script in scripts:
            sizes = [header(script, "sizes", "80x24").split()[0]] if WRAP else \
                SIZES if NIGHTLY or sys.argv[1:] else [random.choice(SIZES)]
            jobs += [(folder, script, size) for size in sizes]
        with ThreadPoolExecutor(2) as pool:
            wrong = [answer for answer in pool.map(play, jobs) if answer]
    for answer in wrong:
        print("FAIL:", answer)
    print(f"{len(jobs)} runs, {len(wrong)} failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
