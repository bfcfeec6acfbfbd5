#!/usr/bin/env -S python3 -B
"""backtraces.py - the stacks of threads at a stop against gdb's.

    backtraces.py [threads|python|redis]        environment: HX_STACKS_SHOW=1 prints each mismatch

Both look at threads that stand still. At least 98 of 100 frames have to be the same.
"""
import json
import os
import shutil
import subprocess

import live
import stacks
from live import check


def gdb_frames(folder, pid):
    """{tid: frames} by gdb."""
    if not shutil.which("gdb"):
        raise live.Skip("gdb is not installed")
    path = f"{folder}/gdb.json"
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "backtraces_gdb.py")
    run = subprocess.run(["gdb", "-nx", "-batch", "-p", str(pid), "-x", script],
                         env=dict(os.environ, HX_STACKS_OUT=path), stdin=subprocess.DEVNULL,
                         capture_output=True, text=True, timeout=60 * live.SLOW,
                         preexec_fn=live.end_with_parent)
    if not os.path.exists(path) and "Python" in run.stderr:
        raise live.Skip("gdb has no Python")
    check(os.path.exists(path), f"gdb: {run.stdout[-2000:]}{run.stderr[-2000:]}")
    with open(path) as file:
        return {int(tid): frames for tid, frames in json.load(file).items()}


def our_frames(pid):
    """{tid: (frames, whole)}, innermost first."""
    run = subprocess.run([live.victim("backtraces_show"), str(pid)], capture_output=True,
                         text=True, timeout=60 * live.SLOW, preexec_fn=live.end_with_parent)
    if run.returncode == 77:
        raise live.Skip(run.stderr)
    check(run.returncode == 0, run.stderr)
    found, frames = {}, None
    for line in run.stdout.splitlines():
        if line.startswith("thread "):
            _, tid, whole = line.split()
            frames = []
            found[int(tid)] = (frames, whole == "whole")
        else:
            module, function = line.split("\t", 1)
            label = function or os.path.basename(module) + "+0x0"
            frames.append({"label": label, "module": module})
    return found


def compare_modules(mine, theirs):
    """Where gdb guesses names by what stands before, the files of code tell enough."""
    ours = [os.path.realpath(f["module"]) for f in mine]
    found = sum(a == os.path.realpath(b["module"]) for a, b in zip(ours, theirs))
    return found, len(theirs), len(ours) - found, "" if found == len(ours) else str(mine)


def compare(folder, pid, least_threads, compare_one=stacks.compare_one):
    theirs, ours = gdb_frames(folder, pid), our_frames(pid)
    check(set(theirs) == set(ours), f"threads: {sorted(theirs)} and {sorted(ours)}")
    check(len(ours) >= least_threads, f"{len(ours)} threads")
    found = total = extra = 0
    text = []
    for tid, frames in theirs.items():
        # A signal's frame is one of gdb's own making, a tail call has left nothing on the stack,
        # and behind the outermost frame gdb may look where nothing is.
        frames = [f for f in frames if f["kind"] not in ("signal", "tail") and f["module"]]
        mine, whole = ours[tid]
        mine = [f for f in mine if "__restore_rt" not in f["label"]]
        one, n, more, lines = compare_one(mine[::-1], frames[::-1])
        found, total, extra = found + one, total + n, extra + more
        if lines or not whole:
            text.append(f"  thread {tid}, {'whole' if whole else 'cut'}:\n{lines}")
    print(f"  {len(ours)} threads, {total} frames of gdb, {found} found, {extra} more")
    if text and (os.environ.get("HX_STACKS_SHOW") or found < stacks.LEAST * (total + extra)):
        print("\n".join(text))
    check(found >= stacks.LEAST * (total + extra), f"{found} of {total} frames, {extra} gdb has not")
    return [whole for _, whole in ours.values()]


def threads(folder):
    """Threads in locks, system calls, handlers and recursion; in a program with names."""
    with live.Target([live.victim("backtraces")]) as target:
        target.wait_line("ready")
        whole = compare(folder, target.pid, 9)
        check(all(whole), f"{len(whole) - sum(whole)} stacks are cut")


def python(folder):
    """An interpreter without symbols of its own."""
    code = ("import threading,time,sys\n"
            "for i in range(4): threading.Thread(target=time.sleep,args=(99,),daemon=True).start()\n"
            "time.sleep(0.3); print('ready',flush=True); sys.stdin.read()")
    with live.Target(["/usr/bin/python3", "-c", code]) as target:
        target.wait_line("ready")
        compare(folder, target.pid, 5, compare_modules)


def redis(folder):
    """A server with threads."""
    server = shutil.which("redis-server")
    if not server:
        raise live.Skip("redis-server is not installed")
    argv = [server, "--port", "0", "--unixsocket", f"{folder}/s", "--dir", folder, "--save", ""]
    with live.Target(argv) as target:
        target.wait_line("eady to accept")
        compare(folder, target.pid, 4)


if __name__ == "__main__":
    live.main(threads, python, redis)
