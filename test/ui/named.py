#!/usr/bin/env -S python3 -B
"""named.py - names that a large file's debug information takes long for come after the first screen: the
same that `heapx snap` waits for. Whoever ends it before leaves a snapshot without them.

A file is large by its bytes, so that programs here are small ones with nothing behind them; where it has to
take long, debug information is that of scripts/bench types.
"""
import importlib.util
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../live"))
import live  # noqa: E402
import symbolize  # noqa: E402
import typed  # noqa: E402
from emulator import SLOW, Terminal  # noqa: E402
from live import check, heapx, row, rows  # noqa: E402

LARGE = 20 << 20  # more than LARGE of src/sym/code/code_lines.c
PENDING = "are still to be read"
QUESTIONS = {**symbolize.QUESTIONS,
             "stacks": "WITH RECURSIVE f(tid, id) AS (SELECT tid, stack_id FROM threads UNION ALL"
                       " SELECT tid, parent_id FROM f JOIN frames ON frame_id = id)"
                       " SELECT f.tid, label, module, source FROM f JOIN frames ON frame_id = id ORDER BY tid, depth",
             "notes": "SELECT notes FROM snapshots", "losses": "SELECT what, count FROM losses ORDER BY what"}
FRAMES = """
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
struct leaf { long number; char text[24]; };
struct node { struct node *next; struct leaf *leaf; };
static struct node *list(int n)
{
    struct node *first = NULL;
    while (n--) {
        struct node *node = calloc(1, sizeof *node);
        node->leaf = calloc(1, sizeof *node->leaf);
        node->next = first;
        first = node;
    }
    return first;
}
static inline __attribute__((always_inline)) void hold(struct node **held, int n)
{
    struct node *volatile more = list(n);
    *held = list(n);
    for (;;)
        pause();
    free(more);
}
static void *run(void *argument)
{
    struct node *volatile mine[3] = {list(30)};
    hold((struct node **)&mine[1], *(int *)argument);
    return mine[2];
}
int main(void)
{
    static int n[3] = {10, 20, 30};
    pthread_t thread;
    for (int i = 0; i < 3; i++)
        pthread_create(&thread, NULL, run, &n[i]);
    struct node *volatile kept = list(100);
    sleep(1);
    puts("ready");
    fflush(stdout);
    pause();
    return kept != NULL;
}
"""


def attach(pid, store):
    shown = Terminal(["sh", "-c", f"exec {live.HEAPX} attach {pid} -o {store} 2>{store}.said"], HEAPX_TIMING="1")
    check(shown.wait_for("snapshot 1 of 1", 60), shown.screen.text())
    return shown


def await_all(shown, store, n=1):
    """Until every snapshot has its names and its analysis."""
    end = time.monotonic() + 60 * SLOW
    while time.monotonic() < end:
        found = rows(store, "SELECT analysed, notes FROM snapshots")
        if len(found) == n and all("pages" in (r["analysed"] or "") and PENDING not in r["notes"] for r in found):
            return
        shown.settle(0.05, 1)
    check(False, f"not all: {found}\n{shown.screen.text()}")


def leave(shown):
    shown.send("Q")
    check(shown.wait(30) == 0, f"ended with {shown.status}: {shown.screen.text()}")
    shown.close()


def enlarge(program):
    os.truncate(program, LARGE)


def compare(folder, target, what):
    waited, later = (os.path.join(folder, name) for name in ("waited", "later"))
    heapx("snap", target.pid, "-o", waited)
    shown = attach(target.pid, later)
    await_all(shown, later)
    leave(shown)
    with open(f"{later}.said") as said:
        check("timing names later " in said.read(), f"{what}: all at once")
    for name, question in QUESTIONS.items():
        a, b = rows(waited, question), rows(later, question)
        differ = [pair for pair in zip(a, b) if pair[0] != pair[1]]
        check(a == b, f"{what}: {name}: {len(a)} and {len(b)} rows: {differ[:3]}")
    os.unlink(waited)
    os.unlink(later)


def frames_and_locals(folder):
    for flags in ("-O0", "-O2"):
        program = typed.build(folder, FRAMES, ".c", "gcc", "-w", "-g", flags, "-pthread")
        enlarge(program)
        with live.Target([program]) as target:
            target.wait_line("ready")
            compare(folder, target, flags)


def types_of_both_languages(folder):
    for text, ending, flags in ((typed.C_PROGRAM, ".c", ("gcc", "-w", "-g", "-O2")),
                                (typed.CXX_PROGRAM, ".cc", ("g++", "-std=c++17", "-w", "-g", "-O1"))):
        program = typed.build(folder, text, ending, *flags)
        enlarge(program)
        with typed.Program(program) as target:
            time.sleep(0.3)
            compare(folder, target, ending)


def slow_program(folder):
    spec = importlib.util.spec_from_file_location(
        "bench_types", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../bench/types_cost.py"))
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    return bench.programs(folder, 40)[1]


def nodes(store):
    return sum(int(r["objects"]) for r in rows(store, "SELECT objects FROM types WHERE type = 'node'"))


def killed_meanwhile(folder):
    """What is there is sound; the rest is worked out without names, and with them by symbolize."""
    program, store = slow_program(folder), os.path.join(folder, "store")
    with live.Target([program]) as target:
        target.wait_line("ready")
        shown = attach(target.pid, store)
        os.kill(shown.pid, signal.SIGKILL)
        shown.wait()
        shown.close()
        check(PENDING in row(store, "SELECT notes FROM snapshots")["notes"], "named at once")
        heapx("analyse", store)
        found = row(store, "SELECT analysed, notes FROM snapshots")
        check("pages" in found["analysed"] and PENDING in found["notes"] and nodes(store) == 0, found)
        heapx("symbolize", store)
        found = row(store, "SELECT analysed, notes FROM snapshots")
        check("pages" in found["analysed"] and PENDING not in found["notes"] and nodes(store) == 1000, found)


def cache_is_filled(folder):
    """By the explorer, whose second snapshot comes in the middle, and for whoever is next."""
    program, store = slow_program(folder), os.path.join(folder, "store")
    time.sleep(max(0, os.stat(program).st_ctime + 0.2 - time.time()))  # a file that just changed has no hash
    with live.Target([program]) as target:
        target.wait_line("ready")
        shown = attach(target.pid, store)
        shown.send("a")
        check(shown.wait_for("snapshot 2 of 2", 60), shown.screen.text())
        await_all(shown, store, 2)
        leave(shown)
        check(nodes(store) == 2000, rows(store, "SELECT * FROM types"))
        said = heapx("snap", target.pid, "-o", os.path.join(folder, "again"), env={"HEAPX_TIMING": "1"})[2]
        check("type table from the cache" in said, said)


def given_up(folder):
    """Ctrl-C ends the names; the analysis goes on without."""
    program, store = slow_program(folder), os.path.join(folder, "store")
    with live.Target([program]) as target:
        target.wait_line("ready")
        shown = attach(target.pid, store)
        shown.send(b"\x03")
        check(shown.wait_for("stays without names", 30), shown.screen.text())
        end = time.monotonic() + 30 * SLOW
        while "pages" not in (row(store, "SELECT analysed FROM snapshots")["analysed"] or "") and time.monotonic() < end:
            shown.settle(0.05, 1)
        found = row(store, "SELECT analysed, notes FROM snapshots")
        check("pages" in (found["analysed"] or "") and PENDING in found["notes"] and nodes(store) == 0, found)
        leave(shown)


if __name__ == "__main__":
    live.main(frames_and_locals, types_of_both_languages, killed_meanwhile, given_up, cache_is_filled,
              long=(killed_meanwhile, given_up, cache_is_filled))
