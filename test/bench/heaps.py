#!/usr/bin/env -S python3 -B
"""heaps.py - what a snapshot costs on heaps of several sizes and programs, as multiples of the floor.

    heaps.py [--only NAME,NAME] [--rounds N] [--json FILE]

Run by scripts/bench heaps. A row for each heap: the forest (forest.c) with a stale word in every
thousandth block at three sizes, the same heap without these words (`none`) and without the links to
parents and to one ring that come with them (`clean`: a fifth fewer edges), and programs that were not made for this: python3
with malloc, a C++ server that keeps all in maps (maps.cc), sqlite3 with its tables in memory. Between two
snapshots (`committed`: --analyse later, and `all`) the floor is measured (floor.c); each figure is the median of its
rounds.
"""
import argparse
import os
import statistics

import bench
from bench import live

PYTHON = """
import sys
class Order:
    def __init__(self, number):
        self.number, self.lines = number + 10**6, [(number * 7, "item %d" % number), {"n": float(number)}]
kept = {}
for number in range(int(sys.argv[1]) // 14):
    kept["order-%d" % number] = Order(number)
print("ready", flush=True)
sys.stdin.read()
"""
SQLITE = """
CREATE TABLE orders(id INTEGER PRIMARY KEY, customer TEXT, amount REAL);
CREATE TABLE lines(id INTEGER PRIMARY KEY, "order" INT, item TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4000000)
INSERT INTO orders SELECT i, hex(randomblob(8)), random() FROM n;
INSERT INTO lines SELECT id, id * 7 % 4000000, hex(randomblob(12)) FROM orders;
CREATE INDEX by_customer ON orders(customer);
SELECT 'ready';
"""


class Program(live.Target):
    """A target that says "ready" once its heap is there."""

    def __init__(self, argv, text="", **env):
        super().__init__(argv, env=dict(os.environ, **env))
        self.process.stdin.write(text.encode())
        self.process.stdin.flush()
        self.wait_line("ready")
        self.rss = bench.resident(self.pid)

    def gap(self):
        """It does not see its own stops."""
        return 0


def forest(objects, stray=1000, tied=True):
    return lambda: bench.Forest(objects, stray, tied)


def own(name, *argv):
    return lambda: Program([os.path.join(live.BUILD, "test/bench", name), *argv])


HEAPS = {
    "forest-1M": forest(1_000_000),
    "forest-11M": forest(10_980_000),
    "forest-44M": forest(43_920_000),
    "forest-11M-none": forest(10_980_000, 0),
    "forest-11M-clean": forest(10_980_000, 0, False),
    "python3": lambda: Program(["/usr/bin/python3", "-c", PYTHON, "10000000"],
                               PYTHONMALLOC="malloc"),
    "maps": own("maps", "5000000"),
    "sqlite3": lambda: Program(["sqlite3"], SQLITE),
}


def measure(target, rounds, folder):
    """One row of figures. What a machine does varies by the minute: a run counts by the floors before
    and behind it."""
    floors, runs = [bench.floor(target)["all"]], {}
    for n in range(rounds):
        for threads in (1, 2):
            for when in ("later", "now"):
                store = f"{folder}/store.db"
                run = bench.snap(target, store, threads, n == rounds - 1, when)
                floors.append(bench.floor(target)["all"])
                run["floors"] = run["total"][0] / statistics.mean(floors[-2:])
                run["bytes"] = bench.size(store)
                runs.setdefault((threads, when), []).append(run)
                os.unlink(store)
    row = {"floor": statistics.median(floors), "rss": target.rss}
    for (threads, when), several in runs.items():
        name = f"{'committed' if when == 'later' else 'all'}_{threads}"
        row[name] = statistics.median(run["floors"] for run in several)
        row[f"peak_{name}"] = several[-1]["peak"] / target.rss
    last = runs[2, "now"][-1]
    row["objects"] = last["row"]["heap_objects"]
    row["bytes"] = last["bytes"] / row["objects"]
    return row


def write(name, row):
    floor = row["floor"]
    print(f"| {name} | {row['objects'] / 1e6:.2f} | {row['rss'] / 2**20:,.0f} | {floor:.2f} | "
          + " | ".join(f"{row[key]:.2f}" for key in
                       ("committed_1", "committed_2", "all_1", "all_2"))
          + f" | {row['committed_1'] / row['committed_2']:.2f}, {row['all_1'] / row['all_2']:.2f}"
          + f" | {row['committed_2'] * floor / row['objects'] * 1e9:.0f}, "
          f"{row['all_2'] * floor / row['objects'] * 1e9:.0f}"
          + f" | {row['peak_committed_2']:.2f}, {row['peak_all_2']:.2f}"
          + f" | {row['bytes']:.1f} |", flush=True)


def main():
    parse = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parse.add_argument("--only", default=",".join(HEAPS), metavar="NAME,NAME")
    parse.add_argument("--rounds", type=int, default=3)
    parse.add_argument("--json")
    args = parse.parse_args()
    print("| heap | M objects | MiB | floor, s | committed, 1 thread | 2 | all, 1 thread | 2 | "
          "1 over 2 | ns an object | peak | bytes an object |")
    print("|---" * 12 + "|")
    out = {}
    for name in args.only.split(","):
        with live.scratch() as folder, HEAPS[name]() as target:
            out[name] = measure(target, args.rounds, folder)
        write(name, out[name])
    bench.save(args.json, out)


if __name__ == "__main__":
    bench.run(main)
