#!/usr/bin/env -S python3 -B
"""backtraces.py - the stacks of threads at a stop against gdb's.

    backtraces.py [threads|python|redis|variables]      environment: HX_STACKS_SHOW=1 prints each
                                                        mismatch

Both look at threads that stand still. At least 98 of 100 frames have to be the same, and 95 of 100
pointers in variables have their names, none of which gdb does not know.
"""
import bisect
import json
import os
import shutil
import subprocess
import time

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
        # and behind the outermost frame gdb may look where nothing is. Frames of Python, which lie
        # in no file, it does not know.
        frames = [f for f in frames if f["kind"] not in ("signal", "tail") and f["module"]]
        mine, whole = ours[tid]
        mine = [f for f in mine if "__restore_rt" not in f["label"] and f["module"]]
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


PROGRAM = """
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
struct node { struct node *next; long value; };
struct pair { struct node *a, *b; };
static struct node *make(int n)
{
    struct node *first = NULL;
    while (n--) {
        struct node *node = malloc(sizeof *node);
        node->next = first;
        node->value = n;
        first = node;
    }
    return first;
}
static inline __attribute__((always_inline)) long sum(struct node *inlined)
{
    struct node *at = inlined;
    usleep(10);
    for (long all = 0;; at = at->next)
        if (!at)
            return all + inlined->value;
        else
            all += at->value;
}
static __attribute__((noinline)) long leaf(struct node *list, struct pair *pair, struct node *third)
{
    struct node *own = make(3), *array[3] = {own->next, list, third};
    if (list->value == 0)
        pause();
    sleep(1000);
    return sum(own) + sum(pair->a) + array[list->value & 1]->value + third->value;
}
static __attribute__((noinline)) long middle(struct pair *pair, int depth)
{
    struct node *one = make(2), *two = make(4);
    struct pair inside = {one, make(1)};
    if (depth) {
        struct node *block = make(5);
        return middle(&inside, depth - 1) + sum(block) + one->value + two->value;
    }
    return leaf(two, pair, one) + sum(two) + sum(one) + inside.b->value;
}
static void *run(void *argument)
{
    struct pair *pair = malloc(sizeof *pair);
    pair->a = make(6);
    pair->b = argument;
    return (void *)(middle(pair, 3) + sum(pair->b) + sum(pair->a));
}
int main(void)
{
    pthread_t thread[6];
    struct node *shared = make(9);
    for (int i = 0; i < 6; i++)
        pthread_create(&thread[i], NULL, run, make(i + 1));
    usleep(300000);
    puts("ready");
    fflush(stdout);
    long of_main = (long)run(shared);
    for (int i = 0; i < 6; i++)
        pthread_join(thread[i], NULL);
    return (int)(of_main + sum(shared));
}
"""


def compare_variables(folder, pid, what, whole):
    """Pointers to objects in variables that gdb has, and names that gdb has not. whole: they keep all
    that the program has made."""
    store = f"{folder}/store"
    live.heapx("snap", pid, "-o", store)
    objects = [(int(r["address"]), int(r["bytes"])) for r in
               live.rows(store, "SELECT address, bytes FROM objects ORDER BY address")]
    starts = [at for at, _ in objects]
    small = live.row(store, "SELECT count(*) AS n, sum(type = 'node') AS typed FROM objects"
                     " WHERE bytes = 24 AND state = 'reachable'")
    check(not whole or small["typed"] >= 0.95 * small["n"] > 100, f"{what}: typed {small}")
    ours, names = set(), set()
    for r in live.rows(store, "SELECT roots.name, e.target FROM roots JOIN root_edges e USING"
                       " (snapshot, root_id) WHERE roots.kind IN ('frame', 'register') AND"
                       " roots.name LIKE '%: %'"):
        function, name = r["name"].split(" in r")[0].split(": ")
        names.add((function, name))
        ours.add((function, name, int(r["target"])))
    os.unlink(store)
    theirs, known = set(), set()
    for frames in gdb_frames(folder, pid).values():
        for frame in frames:
            for name, value in frame["pointers"]:
                i = bisect.bisect_right(starts, value) - 1
                known.add((frame["name"], name))
                if i >= 0 and value < objects[i][0] + objects[i][1]:
                    theirs.add((frame["name"], name, objects[i][0]))
    unknown = {(f, n) for f, n in names if (f, n) not in known and n not in ("array", "inside")}
    # When the compiler needs it no more, gdb works it out from what the caller has passed.
    theirs = {t for t in theirs if t in ours or t[:2] != ("middle", "pair")}
    found, total = len(theirs & ours), len(theirs)
    print(f"  {what}: {found} of {total} pointers have their names")
    check(not unknown, f"{what}: gdb does not know {unknown}")
    check(total >= 40 and found >= 0.95 * total,
          f"{what}: {found} of {total}: {sorted(theirs - ours)}")


def variables(folder):
    for compiler in [name for name in ("gcc", "clang") if shutil.which(name)]:
        for flags in ("-O0 -gdwarf-5", "-O2 -gdwarf-4", "-O1 -gdwarf-5" + " -gsplit-dwarf" * (compiler == "gcc")):
            source, program = f"{folder}/v.c", f"{folder}/v"
            with open(source, "w") as file:
                file.write(PROGRAM)
            subprocess.run([compiler, *flags.split(), "-pthread", "-o", program, source], check=True,
                           cwd=folder)
            with live.Target([program]) as target:
                target.wait_line("ready")
                time.sleep(0.3)
                compare_variables(folder, target.pid, f"{compiler} {flags}", "-O0" in flags)


if __name__ == "__main__":
    live.main(threads, python, redis, variables)
