#!/usr/bin/env -S python3 -B
"""short.py - calls that a stop cut short: random bytes come whole, of the others the notes tell.

test/live/short counts by itself how many of its calls moved less than they were asked to. It is
looked at undisturbed, and under snapshots.
"""
import re
import sys
import time

import live
from live import check, rows

SNAPSHOTS = 5


def run(snapshots, store):
    """{name: (calls, short ones)}"""
    with live.Target([live.victim("short")]) as target:
        target.wait_line("ready")
        for _ in range(snapshots):
            live.heapx("snap", target.pid, "-o", store)
            time.sleep(0.1)  # what was cut is at work again
        if not snapshots:
            time.sleep(1)
        target.process.stdin.close()
        found = {}
        for line in target.process.stdout:
            word = line.decode().split()
            if word[0] == "end":
                break
            found[word[0]] = (int(word[1]), int(word[2]))
        target.process.wait(timeout=20)
        target.process.stdin = None
    print("  " + ", ".join(f"{n} {c} calls {s} short" for n, (c, s) in found.items()))
    return found


def told(folder):
    store = f"{folder}/s.db"
    check(not any(short for _, short in run(0, store).values()), "short without anybody's doing")
    found = run(SNAPSHOTS, store)
    notes = rows(store, "SELECT complete, notes FROM snapshots")
    said = sum(int(number) for row in notes
               for number in re.findall(r"the stop cut (\d+) call", row["notes"]))
    print(f"  the notes tell of {said}: {notes[-1]['notes'][-150:]}")
    check(not found["urandom"][1] and not found["getrandom"][1], "random bytes came short")
    check(all(found[name][0] for name in ("urandom", "getrandom")), "no random bytes at all")
    check(all(row["complete"] == 1 for row in notes), "not complete")
    short = sum(count for _, count in found.values())
    check(short > 0, "none was cut: this kernel is another one, the documents are to be changed")
    # at its very end the program may be on its way out of one that it does not count any more
    check(short <= said <= short + 7, f"{short} calls came back short, the notes tell of {said}")


if __name__ == "__main__":
    sys.exit(live.main(told))
