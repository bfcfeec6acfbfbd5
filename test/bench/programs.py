#!/usr/bin/env -S python3 -B
"""programs.py - what `heapx run` costs programs of every day, beside heaptrack where it is.

    programs.py [--rounds N] [--only NAME,NAME]

Run by scripts/bench programs. Seconds from start to end, the last snapshot stored, each the best of the
rounds, which take turns; and as multiples of the program alone.
"""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../live"))
import live  # noqa: E402

PYTHON = r"""
import json, re
text = json.dumps([{"a": i, "b": [i, str(i), {"c": i * 1.5}]} for i in range(2000)])
for k in range(120):
    json.dumps(json.loads(text))
pair = re.compile(r'(\w+)\s*=\s*"([^"]*)"')
text = " ".join('k%d = "v%d"' % (i, i) for i in range(3000))
for k in range(180):
    found = {a: b for a, b in pair.findall(text)}
    pair.sub(r"\2=\1", text)
"""
SQLITE = """
CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT, c REAL);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000000)
INSERT INTO t SELECT i, 'row ' || i, i * 1.5 FROM n;
CREATE INDEX x ON t(b);
"""
CXX = """
#include <algorithm>
#include <iostream>
#include <map>
#include <regex>
#include <unordered_map>
int main()
{
    std::map<std::string, std::vector<int>> m;
    std::unordered_map<std::string, int> u;
    m["a"].push_back(u["x"]);
    std::sort(m["a"].begin(), m["a"].end());
    std::cout << std::regex_match("aab", std::regex("a+b"));
}
"""


def written(name, text):
    with open(name, "w") as file:
        file.write(text)
    return name


def compiler(folder):
    """cc1plus by itself: what it starts would not be recorded."""
    made = f"{folder}/made.ii"
    subprocess.run(["g++", "-std=c++17", "-E", written(f"{folder}/made.cc", CXX), "-o", made],
                   check=True)
    found = subprocess.run(["g++", "-print-prog-name=cc1plus"], capture_output=True, text=True,
                           check=True).stdout.strip()
    return [found, "-quiet", "-O2", "-std=c++17", made, "-o", f"{folder}/made.s"]


def programs(folder):
    script = written(f"{folder}/made.py", PYTHON)
    yield "true", {}, ["/bin/true"]
    yield "python3", {}, ["/usr/bin/python3", script]
    yield "python3, malloc", {"PYTHONMALLOC": "malloc"}, ["/usr/bin/python3", script]
    yield "sqlite3", {}, ["sqlite3", ":memory:", ".read " + written(f"{folder}/made.sql", SQLITE)]
    if shutil.which("g++"):
        yield "cc1plus", {}, compiler(folder)


def ways(folder):
    yield "alone", []
    yield "heapx run", [live.HEAPX, "run", "-o", f"{folder}/store.db", "--"]
    if shutil.which("heaptrack"):
        yield "heaptrack", ["heaptrack", "-o", f"{folder}/track", "--"]


def seconds(argv, env):
    begin = time.monotonic()
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, env=dict(os.environ, **env),
                          preexec_fn=live.end_with_parent)
    live.check(done.returncode == 0, f"{argv[:4]}: exit {done.returncode}: {done.stderr[-300:]}")
    return time.monotonic() - begin


def main():
    parse = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parse.add_argument("--rounds", type=int, default=3)
    parse.add_argument("--only", type=lambda s: s.split(","))
    args = parse.parse_args()
    with tempfile.TemporaryDirectory(prefix="hx-bench-") as folder:
        for name, env, argv in programs(folder):
            if args.only and name not in args.only:
                continue
            best = {}
            for _ in range(args.rounds):
                for way, before in ways(folder):
                    try:
                        took = seconds(before + argv, env)
                    except live.Failure:
                        if way != "heaptrack":
                            raise
                        continue
                    best[way] = min(took, best.get(way, took))
                    for left in os.listdir(folder):
                        if left.startswith(("store.db", "track")):
                            os.unlink(f"{folder}/{left}")
            print(f"| {name} | " + " | ".join(f"{took:.2f} s, x {took / best['alone']:.2f}"
                                              for took in best.values()) + " |", flush=True)


if __name__ == "__main__":
    try:
        main()
    except live.Failure as why:
        sys.exit(f"bench: {why}")
