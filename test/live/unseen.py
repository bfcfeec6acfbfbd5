#!/usr/bin/env -S python3 -B
"""unseen.py - blocks that test/live/unseen keeps where one has to look twice: are they found?"""
import shutil
import subprocess
import sys

import live
from live import check, rows


# Where gdb before 14 takes the upper halves of zmm0 to zmm15 to be. On AMD's processors they are
# elsewhere: it loses some of them, and writes others in the wrong place.
GDB_ZMM = 1152


def start():
    """The program, its blocks by name, what the machine lacks, and where zmm0 is in its state."""
    target = live.Target([live.victim("unseen")])
    blocks, lacks, zmm = {}, [], 0
    for line in target.process.stdout:
        word = line.decode().split()
        if word[0] == "ready":
            break
        if word[0] == "lacks":
            lacks.append(word[1])
        elif word[0] == "zmm":
            zmm = int(word[1])
        else:
            blocks[word[1]] = int(word[2])
    return target, blocks, lacks, zmm


def compare(store, blocks, lacks, named=True):
    states = {r["address"]: r["state"] for r in rows(store, "SELECT address, state FROM objects")}
    wrong = [name for name, at in blocks.items()
             if states.get(at) != ("definite" if name == "leaked" else "reachable")]
    check(not wrong, "wrong: " + ", ".join(f"{n} {states.get(blocks[n])}" for n in wrong))
    notes = live.row(store, "SELECT complete, notes FROM snapshots")
    check(notes["complete"] == 1, notes["notes"])
    for name in (n for n in blocks if named and n.startswith("register_")):
        found = rows(store, "SELECT name FROM roots JOIN root_edges USING (snapshot, root_id) "
                     f"WHERE target = {blocks[name]}")
        check([r["name"].split()[0] for r in found] in ([name[9:] + "2"], [name[9:]]),
              f"{name}: {found}")
    print(f"  {len(blocks) - 1} found" + (f"; this machine lacks {lacks}" if lacks else ""))


def process(folder):
    store = f"{folder}/s.db"
    target, blocks, lacks, _ = start()
    with target:
        live.heapx("snap", target.pid, "-o", store)
    compare(store, blocks, lacks)


def core(folder):
    if not shutil.which("gcore"):
        raise live.Skip("gcore (gdb) is not installed")
    store = f"{folder}/s.db"
    target, blocks, lacks, zmm = start()
    if zmm != GDB_ZMM:
        blocks.pop("register_zmm", None)
    with target:
        subprocess.run(["gcore", "-o", f"{folder}/core", str(target.pid)], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60 * live.SLOW)
    live.heapx("import", f"{folder}/core.{target.pid}", "-o", store)
    compare(store, blocks, lacks, named=zmm == GDB_ZMM)


if __name__ == "__main__":
    sys.exit(live.main(process, core))
