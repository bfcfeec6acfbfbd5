#!/usr/bin/env -S python3 -B
"""truth.py - is every block of a program that knows its own truth found as what it is?

Runs test/live/truth in the shapes that programs come in and compares heapx's objects
with the program's own log; once also with Valgrind's count of the same program.
"""
import os
import re
import shutil
import struct
import subprocess
import sys

import live
from live import check, rows

FREED, LIVE, DEFINITE, INDIRECT, POSSIBLE, SMASHED = range(6)
STATE = {DEFINITE: "definite", INDIRECT: "indirect", POSSIBLE: "possible"}


def read_truth(path):
    """{address: (bytes, class)}; the last record of an address counts."""
    blocks = {}
    with open(path, "rb") as file:
        for not_address, size, kind in struct.iter_unpack("<QQQ", file.read()):
            blocks[~not_address & (2**64 - 1)] = (size, kind)
    return blocks


def some(addresses):
    return f"{len(addresses)}, such as " + " ".join(hex(a) for a in list(addresses)[:5])


def compare(blocks, objects, lost_ranges=()):
    """Fails where heapx's objects are not the truth. Within lost_ranges nothing is asked."""
    def forgiven(address):
        return any(a <= address < b for a, b in lost_ranges)

    live = {a: s for a, (s, k) in blocks.items() if k not in (FREED, SMASHED) and not forgiven(a)}
    missing = [a for a in live if a not in objects]
    check(not missing, f"blocks that are no objects: {some(missing)}")
    wrong = [a for a, s in live.items() if objects[a][0] != s]
    check(not wrong, f"objects of a wrong size: {some(wrong)}")
    ghosts = [a for a, (_, k) in blocks.items() if k == FREED and a in objects]
    check(not ghosts, f"freed blocks that are objects: {some(ghosts)}")
    dead = [a for a in live if blocks[a][1] == LIVE and objects[a][1] != "reachable"]
    check(not dead, f"live blocks that are not reachable: {some(dead)}: "
          f"{objects[dead[0]] if dead else ''}")
    planted = [a for a in live if blocks[a][1] in STATE]
    found = [a for a in planted if objects[a][1] == STATE[blocks[a][1]]]
    check(len(found) >= 0.995 * len(planted),
          f"{len(found)} of {len(planted)} planted leaks found as what they are; not: "
          f"{some([a for a in planted if objects[a][1] != STATE[blocks[a][1]]])}")
    # What the C library holds for itself is not in the log; it must not overlap what is.
    extra = [a for a in objects if a not in live and not forgiven(a)]
    ends = sorted((a, a + s) for a, s in live.items())
    spans = sorted(ends + [(a, a + objects[a][0]) for a in extra])
    over = [a for (a, b), (c, _) in zip(spans, spans[1:]) if b > c]
    check(not over, f"objects that overlap: {some(over)}")
    return len(planted), len(found), len(extra)


def objects_of(store):
    return {r["address"]: (r["bytes"], r["state"])
            for r in rows(store, "SELECT address, bytes, state FROM objects")}


def run_variant(folder, program, *args, prefix=(), status=(0,), extra=400, host_pid=None):
    """One victim, one snapshot, one comparison. Returns the store."""
    log, store = f"{folder}/truth.bin", f"{folder}/s.db"
    with live.Target([*prefix, program, "--out", log, *args]) as target:
        target.wait_line("ready")
        pid = host_pid(target.pid) if host_pid else target.pid
        live.heapx("snap", pid, "-o", store, ok=status)
        live.check_let_go(pid)
        if "--smash" not in args:
            snapshot = live.row(store, "SELECT * FROM snapshots")
            check(snapshot["complete"] == 1, f"not complete: {snapshot['notes']}")
            figures = compare(read_truth(log), objects_of(store))
            check(figures[2] <= extra, f"{figures[2]} objects that the program did not ask for")
            print(f"  {figures[1]} of {figures[0]} leaks, {figures[2]} blocks of the C library")
    return store


def dynamic(folder):
    run_variant(folder, live.victim("truth"), "--seed", os.environ.get("HX_SEED", "11"))


def stripped(folder):
    program = shutil.copy(live.victim("truth"), f"{folder}/stripped")
    subprocess.run(["strip", program], check=True)
    run_variant(folder, program, "--seed", "12")


def static(folder):
    run_variant(folder, live.victim("truth_static"), "--seed", "13")


def static_stripped(folder):
    program = shutil.copy(live.victim("truth_static"), f"{folder}/stripped")
    subprocess.run(["strip", program], check=True)
    run_variant(folder, program, "--seed", "14")


def static_pie(folder):
    run_variant(folder, live.victim("truth_static_pie"), "--seed", "15")


def static_pie_stripped(folder):
    program = shutil.copy(live.victim("truth_static_pie"), f"{folder}/stripped")
    subprocess.run(["strip", program], check=True)
    run_variant(folder, program, "--seed", "16")


def many_arenas(folder):
    """64 threads, each with an arena of its own."""
    run_variant(folder, live.victim("truth"), "--seed", "17", "--threads", "64", "--arenas", "96",
                "--steps", "1500")


def one_arena(folder):
    run_variant(folder, live.victim("truth"), "--seed", "18", "--threads", "16", "--arenas", "1")


def own_mappings(folder):
    """Almost every block with a mapping of its own, aligned and moved ones among them."""
    os.environ["GLIBC_TUNABLES"] = "glibc.malloc.mmap_threshold=4096"
    try:
        run_variant(folder, live.victim("truth"), "--seed", "22", "--steps", "2000")
    finally:
        del os.environ["GLIBC_TUNABLES"]


def inner_pid(outer):
    """The grandchild that `unshare --fork` started."""
    with open(f"/proc/{outer}/task/{outer}/children") as children:
        return int(children.read().split()[0])


def namespaces(folder):
    """In PID and mount namespaces of its own, the program visible only inside."""
    program = live.victim("truth")
    probe = subprocess.run(["unshare", "-pfm", "--mount-proc", "true"], capture_output=True)
    if probe.returncode:
        raise live.Skip("unshare: no new namespaces here")
    inside = f"{folder}/inside"
    os.mkdir(inside)
    script = (f"mount -t tmpfs none {inside} && cp {program} {inside}/truth && "
              f"exec {inside}/truth \"$@\"")
    run_variant(folder, "sh", "--seed", "19",
                prefix=["unshare", "-pfm", "--mount-proc", "--kill-child", "sh", "-c", script],
                host_pid=inner_pid)


def smash(folder, how):
    """Damage to one block: a partial answer, and everything else right."""
    log = f"{folder}/truth.bin"
    store = run_variant(folder, live.victim("truth"), "--seed", "20", "--smash", how, "--steps",
                        "1000", status=(3,))
    snapshot = live.row(store, "SELECT complete, notes FROM snapshots")
    check(snapshot["complete"] == 0 and snapshot["notes"], "no note of what is missing")
    blocks = read_truth(log)
    smashed_at = next((a for a, (_, k) in blocks.items() if k == SMASHED), None)
    losses = rows(store, "SELECT * FROM losses WHERE address IS NOT NULL AND bytes IS NOT NULL")
    ranges = [(r["address"], r["address"] + r["bytes"]) for r in losses]
    print(f"  {how}: {losses}; {snapshot['notes']}")
    if smashed_at and how != "mmapped":
        check(any(a <= smashed_at + 256 and smashed_at - 256 < b for a, b in ranges),
              f"no loss near {smashed_at:#x}: {losses}")
    check(sum(b - a for a, b in ranges) <= 8192, f"too much is lost: {losses}")
    # A chunk begins 16 bytes before its block, and its neighbour may go with it.
    forgiven = [(a - 16, b + 16) for a, b in ranges]
    if smashed_at:
        forgiven.append((smashed_at, smashed_at + 1))
    compare(blocks, objects_of(store), forgiven)


def smashed(folder):
    """A smashed chunk header, in all the ways of test/live/truth.c."""
    wrong = []
    for how in ("text", "zero", "longer", "shorter", "huge", "flags", "overflow", "mmapped"):
        os.mkdir(f"{folder}/{how}")
        try:
            smash(f"{folder}/{how}", how)
        except live.Failure as why:
            wrong.append(f"{how}: {why}")
    check(not wrong, "; ".join(wrong))


def used_after_free(folder):
    """Damaged links of free blocks: an end, a note, and the live blocks still right."""
    log = f"{folder}/truth.bin"
    store = run_variant(folder, live.victim("truth"), "--seed", "20", "--smash", "links",
                        "--steps", "1000", status=(0, 3))
    blocks, objects = read_truth(log), objects_of(store)
    compare({a: b for a, b in blocks.items() if b[1] != FREED},
            {a: o for a, o in objects.items() if blocks.get(a, (0, LIVE))[1] != FREED})


def valgrind(folder):
    """Definite, indirect and possible blocks as Valgrind counts them."""
    if not shutil.which("valgrind") or not os.path.exists("/usr/include/valgrind/memcheck.h"):
        raise live.Skip("valgrind with its headers is not installed")
    args = ["--seed", "21", "--threads", "4", "--no-nested", "--steps", "3000"]
    program, log = live.victim("truth"), f"{folder}/v.bin"
    text = subprocess.run(["valgrind", "--leak-check=full", "--show-leak-kinds=all", program,
                           "--out", log, *args], capture_output=True, stdin=subprocess.DEVNULL,
                          text=True, preexec_fn=live.end_with_parent).stderr
    text = text[text.index("LEAK SUMMARY"):]
    count = {word: int(re.search(rf"{word} lost: [\d,]+ bytes in ([\d,]+)", text)[1].replace(",", ""))
             for word in ("definitely", "indirectly", "possibly")}
    store = run_variant(folder, program, *args)
    states = {r["state"]: r["n"] for r in
              rows(store, "SELECT state, count(*) n FROM objects GROUP BY state")}
    # The thread library's own tables (one a thread, held by an interior pointer from a
    # stack that may have ended) are Valgrind's possible blocks; they are few.
    for word, state in (("definitely", "definite"), ("indirectly", "indirect"),
                        ("possibly", "possible")):
        own = 8
        check(abs(count[word] - states.get(state, 0)) <= max(own, 0.005 * count[word]),
              f"Valgrind counts {count}, heapx {states}")
    print(f"  Valgrind {count}, heapx {states}")


if __name__ == "__main__":
    sys.exit(live.main(dynamic, stripped, static, static_stripped, static_pie,
                       static_pie_stripped, many_arenas, one_arena, own_mappings, namespaces, smashed,
                       used_after_free, valgrind, long=(smashed, valgrind)))
