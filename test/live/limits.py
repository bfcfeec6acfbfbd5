#!/usr/bin/env -S python3 -B
"""limits.py - heapx itself in narrow places: little stack, a signal at its very beginning."""
import os
import resource
import shutil
import subprocess
import sys

import live
from live import check


def little_stack(folder):
    """Every command with 64 KiB of stack, which hold less than libdw takes for itself."""
    keys, store = f"{folder}/keys", f"{folder}/s.db"
    with open(keys, "w") as file:
        file.write("G\nq\n")

    def narrow():
        live.end_with_parent()
        resource.setrlimit(resource.RLIMIT_STACK, (64 << 10, 64 << 10))

    def run(*args):
        done = subprocess.run([live.HEAPX, *map(str, args)], preexec_fn=narrow, timeout=120 * live.SLOW,
                              capture_output=True, errors="replace")
        check(done.returncode == 0, f"{' '.join(map(str, args))}: {done.returncode} {done.stderr}")
        return done.stdout

    # debug information of libc and Python is what takes the stack
    with live.Target([sys.executable, "-c", "import time; print('ready', flush=True); "
                      "time.sleep(600)"]) as target:
        target.wait_line("ready")
        for args in (("snap", target.pid, "-o", store), ("snap", target.pid, "-o", store),
                     ("report", target.pid, "threads"), ("report", store, "types"),
                     ("diff", f"{store}:1", f"{store}:2"), ("open", store, "--script", keys),
                     ("doctor", target.pid)):
            run(*args)
    limit = run("run", "-o", f"{folder}/r.db", "--", "/bin/sh", "-c", "ulimit -s")
    check(limit.strip() == "64", f"the program of `run` had a limit of {limit}")


def told_at_once(folder):
    """SIGTERM in the first call of main() is obeyed like any later one."""
    if not shutil.which("gdb"):
        raise live.Skip("gdb is not installed")
    # leaks cannot be looked for in a traced process
    env = dict(os.environ, ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0")
    run = subprocess.run(["gdb", "-nx", "-batch", "-ex", "set breakpoint pending on", "-ex",
                          "tbreak setlocale", "-ex", "run", "-ex", "signal SIGTERM", "-ex",
                          "print $_exitcode", "--args", live.HEAPX, "snap", str(os.getpid()), "-o",
                          f"{folder}/s.db"], capture_output=True, text=True, timeout=120 * live.SLOW,
                         env=env)
    if "setlocale" not in run.stdout:
        raise live.Skip(f"gdb: {run.stdout[-300:]}{run.stderr[-300:]}")
    check("$1 = 130" in run.stdout, run.stdout[-500:])


if __name__ == "__main__":
    sys.exit(live.main(little_stack, told_at_once))
