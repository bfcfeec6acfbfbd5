#!/usr/bin/env -S python3 -B
"""allocators.py - how long the walk of each allocator's heap takes, beside glibc's.

    allocators.py [--blocks N] [--rounds N] [--only NAME,NAME]

Run by scripts/bench allocators. The program of test/live/allocators.py with so many small blocks, under each
allocator that is installed; nanoseconds an object for the walk alone, the best of the rounds.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../live"))
import allocators  # noqa: E402
import live  # noqa: E402


def walk_ns(folder, allocator, blocks, rounds):
    program, store = allocators.build(folder, allocator), os.path.join(folder, "store.db")
    best = None
    with live.Target([program, str(blocks), "3", "/dev/null", "small"], env=allocator.environment()) as target:
        target.wait_line("ready")
        for _ in range(rounds):
            said = live.heapx("snap", target.pid, "-o", store, "--analyse", "later", timeout=600,
                              env={"HEAPX_TIMING": "1"})[2]
            seconds = float(re.search(r"^timing walk ([0-9.]+)", said, re.M).group(1))
            best = min(best or seconds, seconds)
            objects = live.row(store, "select heap_objects from snapshots where snapshot = 1")["heap_objects"]
            os.unlink(store)
    return objects, 1e9 * best / objects


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--blocks", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    glibc = None
    print(f"{'allocator':44} {'objects':>10} {'ns':>7} {'x glibc':>8}")
    for allocator in allocators.ALLOCATORS:
        only = arguments.only.split(",") if arguments.only else [allocator.name, "glibc"]
        if allocator.missing() or allocator.name not in only + ["glibc"]:
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                objects, ns = walk_ns(folder, allocator, arguments.blocks, arguments.rounds)
            except (live.Failure, subprocess.CalledProcessError) as failure:
                print(f"{str(allocator):44} {failure}")
                continue
        glibc = glibc or ns
        print(f"{str(allocator):44} {objects:10} {ns:7.1f} {ns / glibc:8.2f}", flush=True)


if __name__ == "__main__":
    main()
