#!/usr/bin/env -S python3 -B
"""check.py - heapx check for CI: several conditions, what made them hold, and suppressions of leaks
that are known; what is written as suppressions takes out just that."""
import json
import os

import live
from live import check, heapx

# Three leaks of different sizes, and one block that only a pointer into its middle holds.
LEAKING = ["python3", "-c", """
import ctypes, sys
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
word = ctypes.c_void_p
def link(block, to):
    ctypes.cast(block, ctypes.POINTER(word))[0] = to
def chain(n, size):
    first = None
    for _ in range(n):
        block = libc.malloc(size)
        libc.memset(block, 0, size)
        if first:
            link(block, first)
        first = block
    return first
chain(20, 50000)
for _ in range(7):
    chain(1, 70000)
inner = ctypes.c_void_p.in_dll(libc, 'optarg')
inner.value = libc.malloc(90000) + 4096
print('ready', flush=True)
sys.stdin.read()
"""]

CHAIN = "chain {\n kind: definite\n chain: *\n}\n"


def make_store(folder):
    store = os.path.join(folder, "store")
    with live.Target(LEAKING) as target:
        target.wait_line("ready")
        heapx("snap", target.pid, "-o", store)
    return store


def ask(*words, ok=(0,)):
    return json.loads(heapx(*words, "--format", "json", ok=ok)[1])


def write(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def sum_of(rows, *kinds):
    chosen = [r for r in rows if r["kind"] in kinds]
    return sum(r["bytes"] for r in chosen), sum(r["objects"] for r in chosen)


def consistent(store, known):
    """leaks and the row of snapshots say the same; returns the rows."""
    rows = ask("report", store, "leaks", "--suppressions", known)
    snapshot = ask("report", store, "snapshots", "--suppressions", known)[0]
    check(sum_of(rows, "definite", "indirect") ==
          (snapshot["leaked_bytes"], snapshot["leaked_objects"]), f"{rows}\n{snapshot}")
    before = ask("report", store, "snapshots")[0]
    changed = {k for k in before if before[k] != snapshot[k]}
    check(changed <= {"leaked_bytes", "leaked_objects", "notes"}, f"{changed}")
    return rows


def suppressions(folder):
    store = make_store(folder)
    all_rows = ask("report", store, "leaks")
    check(sum_of(all_rows, "definite", "indirect")[1] >= 24, f"{all_rows}")  # a word may hold one still
    status, out, _ = heapx("report", store, "leaks", "--format", "suppressions")
    every = write(folder, "every", out)
    check(consistent(store, every) == [], "something is left")
    check(ask("check", store, "leaked_bytes > 0", "leaks.bytes >= 0", "--suppressions", every,
              "--strict") == [{"condition": "leaked_bytes > 0", "holds": 0},
                              {"condition": "leaks.bytes >= 0", "holds": 0}], "--strict")
    ask("check", store, "leaked_bytes > 0", ok=(4,))

    possible = write(folder, "possible", "possible {\n kind: possible\n}\n")
    left = consistent(store, possible)
    check(left == [r for r in all_rows if r["kind"] != "possible"], f"{left}")
    root = write(folder, "root", "root {\n  kind: possible\n  chain: ~optarg$ -> ...\n}\n")
    left = consistent(store, root)
    before, after = sum_of(all_rows, "possible"), sum_of(left, "possible")
    check(before[1] - after[1] >= 1 and before[0] - after[0] >= 90000, f"{before} {after}")

    definite = write(folder, "definite", "definite {\n kind: definite\n}\n")
    left = consistent(store, definite)  # and with them all that they hold
    check(sum_of(left, "definite", "indirect") == (0, 0), f"{left}")
    deep = write(folder, "deep", "deep {\n  chain: * -> * -> * -> ...\n}\n")
    left = consistent(store, deep)  # from the third of a chain on
    check(sum_of(left, "definite") == sum_of(all_rows, "definite"), f"{left}")
    check(sum_of(all_rows, "indirect")[1] - sum_of(left, "indirect")[1] >= 16, f"{left}")
    two = ask("report", store, "leaks", "--suppressions", definite, "--suppressions", possible)
    check(two == [], f"{two}")


def limits_and_unused(folder):
    store = make_store(folder)
    most = sum_of(ask("report", store, "leaks"), "definite", "indirect")[0]
    text = "all {{\n kind: definite, indirect\n at most: {}\n}}\nnone {{\n type: no such thing\n}}\n"
    enough = write(folder, "enough", text.format(most))
    little = write(folder, "little", "# a comment\n\n" + text.format(most - 1))
    _, out, err = heapx("report", store, "leaks", "--suppressions", enough, "--where",
                        "kind != 'possible'", "--format", "csv")
    check(out.count("\n") == 1, out)
    check(err == f"heapx: {enough}:5: none matches nothing here\n", err)
    _, out, err = heapx("report", store, "leaks", "--suppressions", little, "--format", "csv")
    check(out == heapx("report", store, "leaks", "--format", "csv")[1], out)
    check(f"{little}:3: all would take out " in err and "above its limit" in err, err)
    check(ask("check", store, "pid < 0", "--suppressions", little) ==
          [{"condition": "pid < 0", "holds": 0}], "not strict")
    rows = ask("check", store, "pid < 0", "--suppressions", little, "--strict", ok=(4,))
    check(rows == [{"condition": "pid < 0", "holds": 0},
                   {"condition": "suppression all is above its limit", "holds": 1},
                   {"condition": "suppression none matches nothing", "holds": 1}], f"{rows}")


def why_it_holds(folder):
    store = make_store(folder)
    out = heapx("check", store, "leaked_bytes > 1K", "leaks.kind = 'possible'", "objects.bytes > 1",
                "pid > 0", "pid < 0", ok=(4,))[1]
    check("leaked_bytes > 1K holds by these leaks:\n" in out, out)
    check("objects.bytes > 1 holds by these objects:\n" in out and "(the first 5 of " in out, out)
    check("pid > 0 holds by" not in out, out)
    part = out.split("leaks.kind = 'possible' holds by these leaks:\n")[1].split("\n\n")[0]
    check(all(line.startswith("possible") for line in part.splitlines()[1:6]), part)
    lines = out.splitlines()[:6]
    check([line.split()[-1] for line in lines] == ["holds", "1", "1", "1", "1", "0"], out)


def words(folder):
    store = make_store(folder)
    bad = write(folder, "bad", "a {\n  typ: x\n}\n")
    good = write(folder, "good", CHAIN)
    for args, status, says in (
            (["check", store, "pid = 1", "--suppressions", bad], 2, f"{bad}:2:3: 'typ' is no key"),
            (["check", store, "pid = 1", "--suppressions", folder], 1, "directory"),
            (["check", store, "pid = 1", "--suppressions", folder + "/none"], 1, "No such file"),
            (["check", store, "pid = 1", "--strict"], 2, "--suppressions"),
            (["report", store, "types", "--suppressions", good], 2, "leaks or snapshots"),
            (["report", store, "types", "--format", "suppressions"], 2, "leaks"),
            (["check", store, "pid = 1", "--format", "suppressions"], 2, "--format"),
            (["report", store, "leaks", "--strict"], 2, "--strict")):
        out, err = heapx(*args, ok=(status,))[1:]
        check(out == "" and err.count("\n") == 1 and says in err, f"{args}: {err}")
    with live.Target(LEAKING) as target:
        target.wait_line("ready")
        rows = ask("check", target.pid, "leaks.kind = 'definite'", "--suppressions", good)
        check(rows[0]["holds"] == 0, f"{rows}")


if __name__ == "__main__":
    live.main(suppressions, limits_and_unused, why_it_holds, words)
