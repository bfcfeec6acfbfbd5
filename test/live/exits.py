#!/usr/bin/env -S python3 -B
"""exits.py - `heapx run --at-exit`: the leak check of a whole run, however the program ends.

test/live/exits plants blocks of known sizes at known sites. LeakSanitizer and Valgrind must find
what is planted (else the test itself is wrong), and heapx the same blocks with the same sites;
`heapx why` must show what holds each block that is not lost. Output and exit status must be
those of the program by itself.
"""
import json
import os
import re
import shutil
import subprocess

import live
import recorded
from live import check

# (what, requested bytes, function that called malloc, its caller): how many
PLANTED = {
    ("definite", 501, "leak_direct", "plant"): 5,
    ("definite", 603, "leak_zeroed", "plant"): 1,
    ("definite", 1801, "leak_resized", "plant"): 1,
    ("definite", 801, "make_head", "leak_chain"): 1,
    ("indirect", 701, "new_node", "make_tail"): 4,
    ("reachable", 901, "hold_direct", "plant"): 3,
    ("reachable", 1001, "new_node", "hold_chain"): 6,
    ("reachable", 1101, "hold_local", "plant"): 1,
}
# What holds the first of them, where something does.
HOLDERS = {901: "held_direct", 1001: "held_chain"}
SIZES = {key[1] for key in PLANTED}
# main's thread-local block may then be lost or held: its thread is gone, its memory is there.
ENDED = ("pthread_exit", "thread_exit")


def lost(planted):
    return {key: n for key, n in planted.items() if key[0] != "reachable"}


def plain(how):
    """(status, output) of the program by itself."""
    run = subprocess.run([live.victim("exits"), how], stdin=subprocess.DEVNULL, timeout=30 * live.SLOW,
                         stdout=subprocess.PIPE, preexec_fn=live.end_with_parent)
    return run.returncode, run.stdout


def without_local(blocks, how):
    return {key: n for key, n in blocks.items() if how not in ENDED or key[1] != 1101}


def leak_sanitizer(_folder):
    """The test's own truth against LeakSanitizer: what is lost."""
    program = live.victim("exits_lsan")
    run = subprocess.run([program, "return"], capture_output=True, text=True, timeout=60 * live.SLOW,
                         env=dict(os.environ, LSAN_OPTIONS="fast_unwind_on_malloc=0"))
    if "LeakSanitizer has encountered a fatal error" in run.stderr:
        raise live.Skip("LeakSanitizer cannot trace here")
    found = {}
    for kind, size, count, frames in re.findall(
            r"^(Direct|Indirect) leak of (\d+) byte\(s\) in (\d+) object\(s\).*\n((?:\s+#\d+.*\n)+)",
            run.stderr + "\n", re.M):
        name = re.findall(r"#\d+ 0x\w+ in (\S+)", frames)
        name = [n for n in name if not re.search(r"malloc|calloc|realloc", n)]
        key = ("definite" if kind == "Direct" else "indirect", int(size) // int(count), *name[:2])
        found[key] = found.get(key, 0) + int(count)
    check(found == lost(PLANTED), f"LeakSanitizer found {found}, planted are {lost(PLANTED)}\n"
          f"{run.stderr}")


def valgrind(_folder):
    """The same against Valgrind, reachable blocks too."""
    if not shutil.which("valgrind"):
        raise live.Skip("valgrind is not installed")
    run = subprocess.run(["valgrind", "--leak-check=full", "--show-leak-kinds=all",
                          "--num-callers=20", live.victim("exits"), "return"],
                         capture_output=True, text=True, timeout=100 * live.SLOW)
    found = {}
    text = re.sub(r"^==\d+== ?", "", run.stderr, flags=re.M)
    for size, direct, count, kind, frames in re.findall(
            r"^([\d,]+)(?: \(([\d,]+) direct[^)]*\))? bytes in ([\d,]+) blocks are (.*?) in loss record.*\n"
            r"((?:\s+(?:at|by) .*\n)+)", text, re.M):
        size, count = (int(n.replace(",", "")) for n in (direct or size, count))
        name = re.findall(r"(?:at|by) 0x\w+: (\S+)", frames)
        name = [n for n in name if n not in ("malloc", "calloc", "realloc")]
        key = ({"definitely lost": "definite", "indirectly lost": "indirect",
                "still reachable": "reachable"}.get(kind, kind), size // count, *name[:2])
        if size // count in SIZES:
            found[key] = found.get(key, 0) + count
    check(found == PLANTED, f"Valgrind found {found}, planted are {PLANTED}\n{text}")


def recorded_blocks(store):
    """The planted blocks as heapx has them: {key: [addresses]}."""
    tree, found = recorded.Tree(store), {}
    for row in recorded.objects(store):
        if row["requested"] in SIZES:
            name = [w for w in tree.words(row["ccs_id"])
                    if w not in ("malloc", "calloc", "realloc")][::-1]
            if "plant" in name:  # the program is full of sizes that it let go again
                key = (row["state"], row["requested"], *name[:2])
                found.setdefault(key, []).append(row["address"])
    return found


def ends(folder, how):
    """One way to end."""
    store = f"{folder}/{how}.db"
    status, out = plain(how)
    with recorded.Run(store, [live.victim("exits"), how], "--at-exit",
                      stdin=subprocess.DEVNULL) as target:
        target.wait(60)
    wanted = status if status >= 0 else 128 - status
    check(target.status in (status, wanted),
          f"{how}: exit {target.status}, by itself {status}: {target.err.decode()}")
    check(target.out == out, f"{how}: wrote {target.out}, by itself {out}")
    if how == "SIGKILL":
        return
    have = recorded_blocks(store)
    counts = {key: len(blocks) for key, blocks in have.items()}
    check(without_local(counts, how) == without_local(PLANTED, how),
          f"{how}: found {counts}, planted are {PLANTED}; lost {recorded.losses(store)}")
    check(live.row(store, "SELECT count(*) n FROM costs")["n"] > 0, f"{how}: no costs")
    return store, have


def returned(folder):
    """main returns: blocks, sites, leaks by site, and what holds each reachable block."""
    store, have = ends(folder, "return")
    for (state, size, *_), blocks in have.items():
        for address in blocks:
            if state != "reachable":
                continue
            chain = json.loads(live.heapx("why", store, hex(address), "--format", "json")[1])
            check(chain, f"no chain to {address:#x} of {size} bytes")
            if size in HOLDERS:
                root = live.row(store, f"SELECT name FROM roots WHERE root_id = {chain[0]['root_id']} "
                                       "AND snapshot = (SELECT max(snapshot) FROM snapshots)")
                check(root["name"] == HOLDERS[size], f"{size} bytes hang on {root}")
    leaks = live.rows(store, "SELECT kind, site, sum(objects) n FROM leaks GROUP BY kind, site")
    for kind, size, function, caller in lost(PLANTED):
        n = PLANTED[kind, size, function, caller]
        match = [row for row in leaks if row["kind"] == kind and row["site"] and
                 row["site"].startswith(f"{function} < {caller}")]
        check(sum(row["n"] for row in match) == n, f"leaks: {kind} {function} < {caller}: {match}, "
              f"planted are {n}; all: {leaks}")
    check(live.heapx("check", store, "leaked_bytes > 0", ok=(4,))[0] == 4, "check holds not")
    sites = live.rows(store, "SELECT s.bytes, s.objects, c.label FROM sites s JOIN ccs c USING (ccs_id)")
    row = live.row(store, "SELECT sum(bytes) b, sum(objects) n FROM sites")
    whole = recorded.last(store)
    check((row["b"], row["n"]) == (whole["heap_bytes"], whole["heap_objects"]),
          f"sites sum to {row}, the heap is {whole}: {sites}")


def exits(folder):
    """exit, _exit, quick_exit, with handlers."""
    for how in ("exit", "_exit", "quick_exit", "atexit"):
        ends(folder, how)


def signals(folder):
    """A signal that kills."""
    for how in ("abort", "SIGTERM", "SIGSEGV", "SIGFPE", "SIGKILL"):
        ends(folder, how)


def threads(folder):
    """main's thread ends first."""
    for how in ENDED:
        ends(folder, how)


if __name__ == "__main__":
    live.main(leak_sanitizer, valgrind, returned, exits, signals, threads)
